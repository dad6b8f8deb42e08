/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers and untrusted names as people read them. */
#pragma once

#include <glib.h>

/**
 * sonde_text_escape:
 * @bytes: of foreign origin
 * @len: in bytes, or -1 up to the NUL
 *
 * Returns: @bytes so that they can neither move the cursor nor break a line: control and formatting
 * characters and invalid UTF-8 become \n, \t, \xNN or \u{NNNN}, a backslash becomes two
 */
char *sonde_text_escape (const char *bytes, gssize len);

/* The same between double quotes; quotes inside are escaped. */
void sonde_text_append_quoted (GString *out, const char *bytes, gssize len);

/* "Lost      nothing" and a newline: a line of the head of a report. */
void sonde_text_append_labelled (GString *out, const char *label, const char *text);

/* As code in Markdown that has no end in it, and in a table no end of a cell. */
void sonde_text_append_code (GString *out, const char *text, gboolean is_cell);

/* "11,934" */
char *sonde_text_count (guint64 n);

/* "1 sample", "11,934 samples" */
char *sonde_text_plural (guint64 n, const char *singular, const char *plural);

/* "812 B", "3.1 MiB" */
char *sonde_text_size (guint64 n_bytes);

/* "5.02 s", "2 min 05 s"; negative times count as none */
char *sonde_text_duration (gint64 duration_ns);

/* @part in percent of @whole; 0 if @whole is 0. */
double sonde_text_percent (guint64 part, guint64 whole);

/**
 * sonde_text_parse_duration:
 * @text: a number, and ns, us, ms, s or min: "10us", "1.5s"; "0"
 *
 * Returns: FALSE if it is something else, or longer than 292 years
 */
gboolean sonde_text_parse_duration (const char *text, gint64 *duration_ns);

/* A GHashFunc: unlike g_str_hash() nobody can make texts whose hashes collide in another process.
 */
guint sonde_text_hash (gconstpointer text);
