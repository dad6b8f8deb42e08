/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long output on a terminal. */
#pragma once

#include <glib.h>

/* Whether to colour what goes to standard output: only a terminal, only if NO_COLOR (no-color.org)
 * is empty or not set and TERM is not "dumb". */
/* Columns of the terminal that standard output is; 0: it is none. */
guint sonde_pager_n_columns (void);

gboolean sonde_pager_wants_colours (void);

/* Writes @text as sonde_cli_print() does; to a terminal through $PAGER, or less(1) if it is not
 * set. An empty PAGER, or "cat", is none. */
gboolean sonde_pager_print (const GString *text);
