/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rules that name stacks whose blocks nobody frees on purpose, in the syntax of LeakSanitizer. */
#pragma once

#include "client/report/profile.h"

/**
 * SECTION: suppressions
 *
 * A line of a file is "leak:PATTERN", a comment that begins with #, or blank. A stack is suppressed
 * if the pattern is found in the name, the module or the source of one of its functions; * stands
 * for anything, ^ for the beginning and $ for the end. Rules that everybody gets are in
 * suppressions.c. What matches several rules belongs to the one given first, those of everybody
 * being the last.
 */
typedef struct SondeSuppressions SondeSuppressions;

#define SONDE_SUPPRESSIONS_MAX_BYTES (1u << 20) /* of a file: LSan's largest have some KiB */
#define SONDE_SUPPRESSIONS_MAX_RULES 1024u      /* each is looked for in each function */
#define SONDE_SUPPRESSIONS_MAX_CHARS 1024u      /* of a pattern: no function's name is longer */

/* With the rules that everybody gets. */
SondeSuppressions *sonde_suppressions_new (void);
void sonde_suppressions_free (SondeSuppressions *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSuppressions, sonde_suppressions_free)

/* Forgets all rules. */
void sonde_suppressions_clear (SondeSuppressions *self);

/**
 * sonde_suppressions_add_text:
 * @name: of where @text is from, for errors; escaped
 * @text: @size_bytes of them: the lines of a file
 *
 * Returns: FALSE at the first line that is none of the above, or that is one too many
 */
gboolean sonde_suppressions_add_text (
    SondeSuppressions *self, const char *name, const char *text, gsize size_bytes, GError **error);

/* The same of a file. */
gboolean sonde_suppressions_add_file (SondeSuppressions *self, const char *path, GError **error);

guint sonde_suppressions_n_rules (const SondeSuppressions *self);

/* "leak:PATTERN", escaped; of those that everybody gets: what they are for. */
const char *sonde_suppressions_rule (const SondeSuppressions *self, guint rule);

/* Whether @pattern is found in @text as above. */
gboolean sonde_suppressions_is_found (const char *pattern, const char *text);

/* The rules of the functions of one profile, looked up as they are met. */
typedef struct
{
  const SondeSuppressions *suppressions;
  guint16 *known; /* by function: SONDE_SUPPRESSIONS_UNKNOWN, else rule + 1; 0: none */
  guint8 *places; /* by function: what rules of everybody ask of it */
} SondeSuppressor;

/* @n_functions: numbers that functions may have */
void sonde_suppressor_init (SondeSuppressor *self,
                            const SondeSuppressions *suppressions,
                            guint32 n_functions);
void sonde_suppressor_clear (SondeSuppressor *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeSuppressor, sonde_suppressor_clear)

/**
 * sonde_suppressor_find:
 * @resolver: whose functions the numbers are of
 * @path: functions, outermost first
 *
 * Returns: the number of the rule, + 1; 0: the stack is not suppressed
 */
guint sonde_suppressor_find (SondeSuppressor *self,
                             const SondeSymbolResolver *resolver,
                             const guint32 *path,
                             guint n_path);
