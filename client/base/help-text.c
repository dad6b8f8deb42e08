/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What --help says of a command, on a screen of 24 lines and 80 columns. */
#include "client/base/help-text.h"

#include <string.h>

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

  return g_strdup_printf ("  %s--%s%s%s", short_name, entry->long_name,
                          entry->arg_description != NULL ? "=" : "",
                          entry->arg_description != NULL ? entry->arg_description : "");
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

static void
append_options (GString *out, const GOptionEntry *entries)
{
  gsize indent = 0;

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

        g_string_append_printf (out, "%-*s", (int) indent - 2, option);
        g_string_append (out, "  ");
        append_wrapped (out, entry->description, MAX (indent, strlen (option) + 2), indent);
      }
}

GString *
sonde_help_text_new (const char *name,
                     const char *parameters,
                     const char *summary,
                     const char *description,
                     const GOptionEntry *entries)
{
  GString *out = g_string_new (NULL);
  g_auto (GStrv) lines = g_strsplit (summary, "\n", -1);

  g_string_append_printf (out, "Usage: %s%s%s%s\n", name,
                          entries->long_name != NULL ? " [OPTION...]" : "",
                          parameters != NULL ? " " : "", parameters != NULL ? parameters : "");
  for (guint i = 0; lines[i] != NULL; i++)
    append_wrapped (out, lines[i], 0, 0);
  if (entries->long_name != NULL)
    g_string_append_c (out, '\n');
  append_options (out, entries);
  if (description == NULL)
    return out;
  /* air, if there is room for it */
  if (count_lines (out->str) + 1 + count_lines (description) + 1 < N_LINES)
    g_string_append_c (out, '\n');
  g_string_append_printf (out, "%s\n", description);
  return out;
}
