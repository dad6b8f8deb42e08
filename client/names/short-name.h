/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes names of functions as short as people read them, and no two of those shown the same. */
#pragma once

#include <glib.h>

/* How much of a name is left; each level has more. */
typedef enum
{
  SONDE_SHORT_BARE,      /* no arguments, no template arguments but "<…>", no ABI tags, no hash */
  SONDE_SHORT_TEMPLATES, /* with one level of template arguments */
  SONDE_SHORT_ARGUMENTS, /* and with one of functions' */
  SONDE_SHORT_FULL,
} SondeShortLevel;

/**
 * sonde_short_name_new:
 * @name: of C++, Rust, Go or any other language, demangled
 *
 * Parentheses that are no argument list stay: "(anonymous namespace)", "operator()", and the file
 * of a function of an interpreted program.
 *
 * Returns: (transfer full)
 */
char *sonde_short_name_new (const char *name, SondeShortLevel level);

/* Names that are shown together. */
typedef struct SondeShortNames SondeShortNames;

/* @is_full: each name is shown as it is */
SondeShortNames *sonde_short_names_new (gboolean is_full);
void sonde_short_names_free (SondeShortNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeShortNames, sonde_short_names_free)

/* Before any is asked for. @name: (transfer none): kept by the caller as long as the names */
void sonde_short_names_add (SondeShortNames *self, const char *name);

/* The shortest that no other name that was added has, too; itself if it was not added. */
const char *sonde_short_names_get (SondeShortNames *self, const char *name);

/**
 * sonde_short_name_fit:
 * @width: columns of a terminal, at least 1
 *
 * Returns: (transfer full): @name, with an ellipsis in its middle if it is wider than that
 */
char *sonde_short_name_fit (const char *name, guint width, gboolean utf8);
