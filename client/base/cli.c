/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/cli.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/choice.h"
#include "client/base/text.h"
#include "client/base/write-all.h"

/* --- what --help says of a command, on a screen of 24 lines and 80 columns --- */

enum
{
  N_LINES = 24,
  N_COLUMNS = 80,
  MAX_INDENT = 36, /* columns that options and their values take */
};

/* "  -p, --pid=PID", or "  --json" */
static char *
dup_option (const GOptionEntry *entry)
{
  g_autofree char *short_name
      = entry->short_name != 0 ? g_strdup_printf ("-%c, ", entry->short_name) : g_strdup ("");

  if (entry->arg_description == NULL)
    return g_strdup_printf ("  %s--%s", short_name, entry->long_name);
  return g_strdup_printf ((entry->flags & G_OPTION_FLAG_OPTIONAL_ARG) != 0 ? "  %s--%s[=%s]"
                                                                           : "  %s--%s=%s",
                          short_name, entry->long_name, entry->arg_description);
}

/* Appends one line of text from column @column on; those after it begin at @indent. */
static void
append_wrapped (GString *out, const char *text, gsize column, gsize indent)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      gsize width = (gsize) g_utf8_strlen (words[i], -1);

      if (i > 0 && column + 1 + width > N_COLUMNS)
        {
          g_string_append_printf (out, "\n%*s", (int) indent, "");
          column = indent;
        }
      else if (i > 0)
        {
          g_string_append_c (out, ' ');
          column++;
        }
      g_string_append (out, words[i]);
      column += width;
    }
  g_string_append_c (out, '\n');
}

static guint
count_lines (const char *text)
{
  guint n = 0;

  for (; *text != '\0'; text++)
    n += *text == '\n';
  return n;
}

static gboolean
is_shown (const GOptionEntry *entry)
{
  return (entry->flags & G_OPTION_FLAG_HIDDEN) == 0;
}

/*
 * @name: of the command: "sondectl report"
 * @parameters: (nullable): what follows the options
 * @description: (nullable): below the options, as it is
 *
 * Entries that are hidden are left out, texts wrapped at 80 columns. GLib's own help needs some ten
 * lines more.
 */
static GString *
help_text_new (const char *name,
               const char *parameters,
               const char *summary,
               const char *description,
               const GOptionEntry *entries)
{
  GString *out = g_string_new (NULL);
  g_autoptr (GString) options = g_string_new (NULL);
  g_auto (GStrv) lines = g_strsplit (summary, "\n", -1);
  gsize n_lines;
  gsize indent = 0;

  g_string_append_printf (out, "Usage: %s%s%s%s\n", name,
                          entries->long_name != NULL ? " [OPTION...]" : "",
                          parameters != NULL ? " " : "", parameters != NULL ? parameters : "");
  for (guint i = 0; lines[i] != NULL; i++)
    append_wrapped (out, lines[i], 0, 0);
  for (const GOptionEntry *entry = entries; entry->long_name != NULL; entry++)
    if (is_shown (entry))
      {
        g_autofree char *option = dup_option (entry);

        indent = MAX (indent, strlen (option) + 2);
      }
  indent = MIN (indent, MAX_INDENT);
  for (const GOptionEntry *entry = entries; entry->long_name != NULL; entry++)
    if (is_shown (entry))
      {
        g_autofree char *option = dup_option (entry);

        g_string_append_printf (options, "%-*s", (int) indent - 2, option);
        g_string_append (options, "  ");
        append_wrapped (options, entry->description, MAX (indent, strlen (option) + 2), indent);
      }
  n_lines = count_lines (out->str) + count_lines (options->str)
            + (description != NULL ? count_lines (description) + 1 : 0);
  /* air, if there is room for it */
  if (options->len > 0 && n_lines++ < N_LINES)
    g_string_append_c (out, '\n');
  g_string_append (out, options->str);
  if (description == NULL)
    return out;
  if (n_lines < N_LINES)
    g_string_append_c (out, '\n');
  g_string_append_printf (out, "%s\n", description);
  return out;
}

/* --- options --- */

/* What of an option's text is wrong, or NULL. No option of ours has a use for an empty text; names
 * are UTF-8 everywhere but on the command line. */
static const char *
check_text (char **text)
{
  g_autofree char *converted = NULL;

  if (*text == NULL)
    return NULL;
  if (**text == '\0')
    return "needs a value";
  if (g_utf8_validate (*text, -1, NULL))
    return NULL;
  converted = g_locale_to_utf8 (*text, -1, NULL, NULL, NULL);
  if (converted == NULL)
    return "has a value that is no text";
  g_free (*text);
  *text = g_steal_pointer (&converted);
  return NULL;
}

static const char *
check_entry (const GOptionEntry *entry)
{
  char **texts;
  const char *fault = NULL;

  switch (entry->arg)
    {
    case G_OPTION_ARG_STRING:
      return check_text (entry->arg_data);
    case G_OPTION_ARG_STRING_ARRAY:
      texts = *(char ***) entry->arg_data;
      for (guint i = 0; texts != NULL && texts[i] != NULL && fault == NULL; i++)
        fault = check_text (&texts[i]);
      return fault;
    case G_OPTION_ARG_FILENAME:
      return g_strcmp0 (*(char *const *) entry->arg_data, "") == 0 ? "needs a value" : NULL;
    case G_OPTION_ARG_FILENAME_ARRAY:
    case G_OPTION_ARG_NONE:
    case G_OPTION_ARG_INT:
    case G_OPTION_ARG_CALLBACK:
    case G_OPTION_ARG_DOUBLE:
    case G_OPTION_ARG_INT64:
    default: /* GOption, or the callback, has refused it */
      return NULL;
    }
}

static gboolean
check_texts (const GOptionEntry *entries, GError **error)
{
  for (; entries->long_name != NULL; entries++)
    {
      const char *fault = check_entry (entries);

      if (fault == NULL)
        continue;
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "Option --%s %s",
                   entries->long_name, fault);
      return FALSE;
    }
  return TRUE;
}

/* The entries as GOption is to see them: it takes each text as it is, where it would refuse what
 * the locale cannot show (in the C locale every name that is not English); and a value that may be
 * left out follows a "=" only, or it would swallow the file, or the command, behind it. */
static GArray *
dup_entries (const GOptionEntry *entries)
{
  GArray *result = g_array_new (TRUE, FALSE, sizeof (GOptionEntry));

  for (; entries->long_name != NULL; entries++)
    {
      GOptionEntry entry = *entries;

      if (entry.arg == G_OPTION_ARG_STRING)
        entry.arg = G_OPTION_ARG_FILENAME;
      else if (entry.arg == G_OPTION_ARG_STRING_ARRAY)
        entry.arg = G_OPTION_ARG_FILENAME_ARRAY;
      if ((entry.flags & G_OPTION_FLAG_OPTIONAL_ARG) != 0)
        {
          GOptionEntry alone = entry;

          alone.flags = (entry.flags & ~G_OPTION_FLAG_OPTIONAL_ARG) | G_OPTION_FLAG_NO_ARG;
          entry.flags &= ~G_OPTION_FLAG_OPTIONAL_ARG;
          g_array_append_val (result, alone);
        }
      g_array_append_val (result, entry);
    }
  return result;
}

/* "; did you mean --flat?" of GLib's "Unknown option --falt", or "". */
static char *
dup_hint (const GError *error, const GOptionEntry *entries)
{
  static const char unknown[] = "Unknown option --";
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *word = NULL;
  const char *nearest;

  if (!g_error_matches (error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION)
      || !g_str_has_prefix (error->message, unknown))
    return g_strdup ("");
  word = g_strndup (error->message + strlen (unknown),
                    strcspn (error->message + strlen (unknown), "="));
  for (; entries->long_name != NULL; entries++)
    if ((entries->flags & G_OPTION_FLAG_HIDDEN) == 0)
      g_ptr_array_add (names, (gpointer) entries->long_name);
  g_ptr_array_add (names, NULL);
  nearest = sonde_choice_nearest (word, (const char *const *) names->pdata);
  return nearest != NULL ? g_strdup_printf ("; did you mean --%s?", nearest) : g_strdup ("");
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
  g_autoptr (GArray) taken = dup_entries (entries);
  g_autoptr (GError) error = NULL;
  g_autofree char *shown = NULL;
  g_autofree char *hint = NULL;
  gboolean is_good;

  g_option_group_add_entries (group, (const GOptionEntry *) (void *) taken->data);
  g_option_group_add_entries (group, help);
  g_option_context_set_main_group (context, group);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_strict_posix (context, is_strict);
  is_good = g_option_context_parse (context, argc, argv, &error) && check_texts (entries, &error);
  if (wants_help)
    {
      g_autoptr (GString) text
          = help_text_new (g_get_prgname (), parameters, summary, description, entries);

      exit (sonde_cli_print (text) ? 0 : 1);
    }
  if (is_good)
    return TRUE;

  shown = sonde_text_escape (error->message, -1);
  hint = dup_hint (error, entries);
  sonde_cli_complain ("%s%s; see %s --help", shown, hint, g_get_prgname ());
  return FALSE;
}

/* "report" */
static const char *
command_name (void)
{
  const char *last = strrchr (g_get_prgname (), ' ');

  return last != NULL ? last + 1 : g_get_prgname ();
}

const char *
sonde_cli_parse_file (int argc,
                      char **argv,
                      const char *summary,
                      const char *description,
                      const GOptionEntry *entries)
{
  if (!sonde_cli_parse (&argc, &argv, "FILE", summary, description, entries, FALSE, NULL))
    return NULL;
  if (argc == 2)
    return argv[1];
  sonde_cli_complain ("%s needs one FILE; see %s --help", command_name (), g_get_prgname ());
  return NULL;
}

gboolean
sonde_cli_parse_nothing (int argc,
                         char **argv,
                         const char *summary,
                         const char *description,
                         const GOptionEntry *entries)
{
  if (!sonde_cli_parse (&argc, &argv, NULL, summary, description, entries, FALSE, NULL))
    return FALSE;
  if (argc != 1)
    sonde_cli_complain ("%s takes no arguments; see %s --help", command_name (), g_get_prgname ());
  return argc == 1;
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

int
sonde_cli_fail (const GError *error)
{
  sonde_cli_complain ("%s", error->message);
  return 1;
}

void
sonde_cli_tell_truncated (const char *path, const SondeBudget *budget)
{
  g_autofree char *cut = sonde_budget_describe (budget);
  g_autofree char *shown = sonde_text_escape (path, -1);

  if (cut != NULL)
    sonde_cli_complain ("%s is more than fits: %s left out, see LIMITS in sondectl(1)", shown, cut);
}

gboolean
sonde_cli_print (const GString *text)
{
  int error_number = sonde_write_all (STDOUT_FILENO, text->str, text->len, -1, NULL);

  if (error_number != 0 && error_number != EPIPE)
    sonde_cli_complain ("Cannot write to standard output: %s", g_strerror (error_number));
  return error_number == 0;
}
