/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parses options and prints messages alike for all commands. */
#pragma once

#include "client/base/budget.h"

/**
 * sonde_cli_parse:
 * @parameters: what follows the options: "FILE"
 * @summary: one or more sentences above the options in --help
 * @description: (nullable): below them
 * @is_strict: options end at the first word that is none, which then begins a command
 * @user_data: for callbacks among @entries
 *
 * Removes the options from the vector; prints what is wrong with them. --help prints and exits.
 */
gboolean sonde_cli_parse (int *argc,
                          char ***argv,
                          const char *parameters,
                          const char *summary,
                          const char *description,
                          const GOptionEntry *entries,
                          gboolean is_strict,
                          gpointer user_data);

/* The same of a command with one argument, FILE. Returns: it, or NULL, having complained */
const char *sonde_cli_parse_file (int argc,
                                  char **argv,
                                  const char *summary,
                                  const char *description,
                                  const GOptionEntry *entries);

/* The same of a command without arguments. */
gboolean sonde_cli_parse_nothing (int argc,
                                  char **argv,
                                  const char *summary,
                                  const char *description,
                                  const GOptionEntry *entries);

/* "sondectl: ..." and a newline on standard error. */
void sonde_cli_complain (const char *format, ...) G_GNUC_PRINTF (1, 2);

/* Complains of @error. Returns: 1, what a command that failed exits with */
int sonde_cli_fail (const GError *error);

/* Tells on standard error what the limits cut off of the capture @path, if anything. */
void sonde_cli_tell_truncated (const char *path, const SondeBudget *budget);

/* Writes @text to standard output; FALSE, having complained, if that fails. A reader that left (a
 * pager, head) is no failure to complain about. */
gboolean sonde_cli_print (const GString *text);
