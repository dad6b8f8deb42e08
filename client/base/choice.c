/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/choice.h"

#include <string.h>

#include "client/base/cli.h"
#include "client/base/text.h"

#define MAX_LENGTH 64 /* bytes; longer words are like none of ours */

/* How many letters were left out, added, mistaken or swapped with their neighbour. */
static guint
count_slips (const char *a, const char *b)
{
  guint rows[3][MAX_LENGTH + 1];
  gsize a_length = strlen (a), b_length = strlen (b);

  if (a_length > MAX_LENGTH || b_length > MAX_LENGTH)
    return G_MAXUINT;
  for (gsize j = 0; j <= b_length; j++)
    rows[0][j] = (guint) j;
  for (gsize i = 1; i <= a_length; i++)
    {
      const guint *before = rows[(i + 1) % 3], *above = rows[(i - 1) % 3];
      guint *row = rows[i % 3];

      row[0] = (guint) i;
      for (gsize j = 1; j <= b_length; j++)
        {
          row[j] = MIN (MIN (above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
          if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN (row[j], before[j - 2] + 1);
        }
    }
  return rows[a_length % 3][b_length];
}

const char *
sonde_choice_nearest (const char *word, const char *const *words)
{
  const char *nearest = NULL;
  gsize length = strlen (word);
  guint fewest = length < 3 ? 1 : length < 8 ? 2 : 3;

  for (guint i = 0; words[i] != NULL; i++)
    {
      gboolean is_beginning = length >= 2 && g_str_has_prefix (words[i], word);
      guint n = is_beginning ? 1 : count_slips (word, words[i]);

      /* not every letter may be one: "ls" is no "rm" */
      if (n < length && (n < fewest || (n == fewest && nearest == NULL)))
        {
          fewest = n;
          nearest = words[i];
        }
    }
  return nearest;
}

int
sonde_choice_find (const char *option, const char *word, const char *const *words, GError **error)
{
  const char *nearest;
  g_autofree char *all = NULL;

  for (int i = 0; words[i] != NULL; i++)
    if (g_str_equal (word, words[i]))
      return i;
  nearest = sonde_choice_nearest (word, words);
  all = g_strjoinv (", ", (char **) words);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s is one of %s, not \"%s\"%s%s%s",
               option, all, word, nearest != NULL ? "; did you mean " : "",
               nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
  return -1;
}

int
sonde_choice_find_or_complain (const char *option, const char *word, const char *const *words)
{
  g_autoptr (GError) error = NULL;
  int index = sonde_choice_find (option, word, words, &error);

  if (index < 0)
    {
      g_autofree char *shown = sonde_text_escape (error->message, -1);

      sonde_cli_complain ("%s", shown);
    }
  return index;
}
