/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the commands share: options, messages, output. */
#include "client/base/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/base/help-text.h"

static gboolean
is_empty (const GOptionEntry *entry)
{
  switch (entry->arg)
    {
    case G_OPTION_ARG_STRING:
    case G_OPTION_ARG_FILENAME:
      return g_strcmp0 (*(char *const *) entry->arg_data, "") == 0;
    case G_OPTION_ARG_STRING_ARRAY:
    case G_OPTION_ARG_FILENAME_ARRAY:
      {
        const char *const *texts = *(const char *const *const *) entry->arg_data;

        return texts != NULL && g_strv_contains (texts, "");
      }
    case G_OPTION_ARG_NONE:
    case G_OPTION_ARG_INT:
    case G_OPTION_ARG_CALLBACK:
    case G_OPTION_ARG_DOUBLE:
    case G_OPTION_ARG_INT64:
    default: /* GOption, or the callback, has refused it */
      return FALSE;
    }
}

/* No option of ours has a use for an empty text. */
static gboolean
check_texts (const GOptionEntry *entries, GError **error)
{
  for (; entries->long_name != NULL; entries++)
    if (is_empty (entries))
      {
        g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "Option --%s needs a value",
                     entries->long_name);
        return FALSE;
      }
  return TRUE;
}

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
  is_good = g_option_context_parse (context, argc, argv, &error) && check_texts (entries, &error);
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
  gsize n_written = 0;
  gssize n = 0;

  while (n_written < text->len && (n >= 0 || errno == EINTR))
    {
      n = write (STDOUT_FILENO, text->str + n_written, text->len - n_written);
      n_written += (gsize) MAX (n, 0);
    }
  if (n_written == text->len)
    return TRUE;
  if (errno != EPIPE)
    sonde_cli_complain ("Cannot write to standard output: %s", g_strerror (errno));
  return FALSE;
}
