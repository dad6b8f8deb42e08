/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the commands share: options, messages, output. */
#include "client/cli.h"

#include <errno.h>
#include <stdio.h>

gboolean
sonde_cli_parse (int *argc,
                 char ***argv,
                 const char *parameters,
                 const char *summary,
                 const char *description,
                 const GOptionEntry *entries,
                 gboolean is_strict,
                 gpointer user_data)
{
  g_autoptr (GOptionContext) context = g_option_context_new (parameters);
  GOptionGroup *group = g_option_group_new ("sondectl", "", "", user_data, NULL);
  g_autoptr (GError) error = NULL;

  g_option_group_add_entries (group, entries);
  g_option_context_set_main_group (context, group);
  g_option_context_set_summary (context, summary);
  g_option_context_set_description (context, description);
  g_option_context_set_strict_posix (context, is_strict);
  if (g_option_context_parse (context, argc, argv, &error))
    return TRUE;

  sonde_cli_complain ("%s; see %s --help", error->message, g_get_prgname ());
  return FALSE;
}

void
sonde_cli_complain (const char *format, ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_printerr ("sondectl: %s\n", message);
}

gboolean
sonde_cli_print (const GString *text)
{
  if (fwrite (text->str, 1, text->len, stdout) == text->len && fflush (stdout) == 0)
    return TRUE;
  if (errno != EPIPE)
    sonde_cli_complain ("Cannot write to standard output: %s", g_strerror (errno));
  return FALSE;
}
