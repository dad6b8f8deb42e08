/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the commands share: options, messages, output. */
#include "client/base/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/base/help-text.h"

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
  gboolean wants_help = FALSE;
  const GOptionEntry help[]
      = { { "help", 'h', 0, G_OPTION_ARG_NONE, &wants_help, NULL, NULL }, G_OPTION_ENTRY_NULL };
  g_autoptr (GOptionContext) context = g_option_context_new (parameters);
  GOptionGroup *group = g_option_group_new ("sondectl", "", "", user_data, NULL);
  g_autoptr (GError) error = NULL;
  gboolean is_good;

  g_option_group_add_entries (group, entries);
  g_option_group_add_entries (group, help);
  g_option_context_set_main_group (context, group);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_strict_posix (context, is_strict);
  is_good = g_option_context_parse (context, argc, argv, &error);
  if (wants_help)
    {
      g_autoptr (GString) text
          = sonde_help_text_new (g_get_prgname (), parameters, summary, description, entries);

      exit (sonde_cli_print (text) ? 0 : 1);
    }
  if (is_good)
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
