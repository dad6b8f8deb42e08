/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/request/option-table.h"

#include <limits.h>
#include <string.h>

#include "daemon/base/error.h"

#define MAX_SHOWN 64 /* bytes of a word of the caller's in a message */

gboolean
sonde_option_refuse (GError **error, const char *key, const char *why)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION, "Option %s: %s", key, why);
  return FALSE;
}

/* Letters to change, add or leave out until @a is @b; both have at most MAX_SHOWN bytes. */
static guint
measure_distance (const char *a, const char *b)
{
  guint row[MAX_SHOWN + 1];
  gsize length = strlen (b);

  for (gsize j = 0; j <= length; j++)
    row[j] = (guint) j;
  for (gsize i = 1; a[i - 1] != '\0'; i++)
    {
      guint diagonal = row[0];

      row[0] = (guint) i;
      for (gsize j = 1; j <= length; j++)
        {
          guint replaced = diagonal + (a[i - 1] != b[j - 1]);

          diagonal = row[j];
          row[j] = MIN (replaced, MIN (row[j], row[j - 1]) + 1);
        }
    }
  return row[length];
}

/* Keeps in @nearest what @given is more likely meant to be. */
static void
compare_word (const char *given, const char *word, guint *distance, const char **nearest)
{
  guint of_word = strlen (word) <= MAX_SHOWN ? measure_distance (given, word) : G_MAXUINT;

  if (of_word >= *distance)
    return;
  *distance = of_word;
  *nearest = word;
}

/* One letter in three may be wrong, and two of all: @distance before anything was compared. */
static guint
max_distance (const char *given)
{
  return (guint) MIN (strlen (given) / 3, 2) + 1;
}

/* (transfer full): of a caller's word as much as goes into a message */
static char *
cut_word (const char *given)
{
  const char *end = given;

  while (*end != '\0' && g_utf8_next_char (end) - given <= MAX_SHOWN)
    end = g_utf8_next_char (end);
  return g_strndup (given, (gsize) (end - given));
}

gboolean
sonde_option_find_word (const char *const *words, const char *given, guint *index)
{
  for (guint i = 0; words[i] != NULL; i++)
    if (g_str_equal (given, words[i]))
      {
        *index = i;
        return TRUE;
      }
  return FALSE;
}

gboolean
sonde_option_refuse_word (GError **error,
                          const SondeOptionRow *row,
                          const char *given,
                          const char *(*more) (guint index))
{
  g_autofree char *shown = cut_word (given);
  g_autofree char *list = g_strjoinv (", ", (char **) row->words);
  const char *nearest = NULL;
  guint distance = max_distance (shown);

  for (guint i = 0; row->words[i] != NULL; i++)
    compare_word (shown, row->words[i], &distance, &nearest);
  for (guint i = 0; more != NULL && more (i) != NULL; i++)
    compare_word (shown, more (i), &distance, &nearest);
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION, "Option %s: not one of %s%s%s%s%s",
               row->key, list, more != NULL ? " and the others of the property Events" : "",
               nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
               nearest != NULL ? "?" : "");
  return FALSE;
}

gboolean
sonde_option_check_pid (guint32 pid, const char *key, GError **error)
{
  if (pid != 0 && pid <= INT_MAX)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
               "Option %s: %u is not a process number (1 to %d)", key, pid, INT_MAX);
  return FALSE;
}

static gboolean
check_type (GVariant *value, const SondeOptionRow *row, GError **error)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE (row->type)))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION, "Option %s: has type %s, must be %s",
               row->key, g_variant_get_type_string (value), row->type);
  return FALSE;
}

static const SondeOptionRow *
find_row (const SondeOptionRow *rows, guint n_rows, const char *key, GError **error)
{
  g_autofree char *shown = NULL;
  const char *nearest = NULL;
  guint distance;

  for (guint i = 0; i < n_rows; i++)
    if (g_str_equal (key, rows[i].key))
      return &rows[i];
  shown = cut_word (key);
  distance = max_distance (shown);
  for (guint i = 0; i < n_rows; i++)
    compare_word (shown, rows[i].key, &distance, &nearest);
  if (nearest == NULL)
    sonde_option_refuse (error, shown, "not known");
  else
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                 "Option %s: not known; did you mean %s?", shown, nearest);
  return NULL;
}

static gboolean
check_number (const SondeOptionRow *row, guint64 given, GError **error)
{
  gboolean is_multiple = row->multiple_of == 0 || given % row->multiple_of == 0;
  g_autofree char *multiple
      = is_multiple ? g_strdup ("") : g_strdup_printf ("a multiple of %u ", row->multiple_of);

  if (is_multiple && given >= row->min && given <= row->max)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
               "Option %s: must be %sfrom %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, row->key,
               multiple, row->min, row->max);
  return FALSE;
}

static gboolean
parse_word (const SondeOptionRow *row, GVariant *value, guint *index, GError **error)
{
  const char *given = g_variant_get_string (value, NULL);

  return sonde_option_find_word (row->words, given, index)
         || sonde_option_refuse_word (error, row, given, NULL);
}

static gboolean
parse_words (const SondeOptionRow *row, GVariant *value, guint *bits, GError **error)
{
  gsize n_words = g_variant_n_children (value);
  guint found = 0;

  for (gsize i = 0; i < n_words; i++)
    {
      g_autoptr (GVariant) word = g_variant_get_child_value (value, i);
      guint index;

      if (!parse_word (row, word, &index, error))
        return FALSE;
      found |= 1u << index;
    }
  *bits = found;
  return TRUE;
}

static gboolean
parse_value (const SondeOptionRow *row, GVariant *value, gpointer options, GError **error)
{
  gpointer member = G_STRUCT_MEMBER_P (options, row->offset);

  switch (row->type[0])
    {
    case 'b':
      *(gboolean *) member = g_variant_get_boolean (value);
      return TRUE;
    case 'u':
      if (!check_number (row, g_variant_get_uint32 (value), error))
        return FALSE;
      *(guint *) member = g_variant_get_uint32 (value);
      return TRUE;
    case 't':
      if (!check_number (row, g_variant_get_uint64 (value), error))
        return FALSE;
      *(guint64 *) member = g_variant_get_uint64 (value);
      return TRUE;
    case 's':
      return parse_word (row, value, member, error);
    default:
      return parse_words (row, value, member, error);
    }
}

void
sonde_option_table_init (const SondeOptionRow *rows, guint n_rows, gpointer options)
{
  for (const SondeOptionRow *row = rows; row < rows + n_rows; row++)
    if (row->normal != 0 && row->type[0] == 't')
      G_STRUCT_MEMBER (guint64, options, row->offset) = row->normal;
    else if (row->normal != 0)
      G_STRUCT_MEMBER (guint, options, row->offset) = (guint) row->normal;
}

gboolean
sonde_option_table_parse (const SondeOptionRow *rows,
                          guint n_rows,
                          GVariant *dict,
                          gpointer options,
                          gpointer user_data,
                          GError **error)
{
  gsize n_entries = g_variant_n_children (dict);
  guint64 seen = 0; /* one bit for each row: a dictionary on the wire may hold a key twice */

  g_assert (n_rows <= SONDE_OPTION_TABLE_MAX_ROWS);
  for (gsize i = 0; i < n_entries; i++)
    {
      g_autoptr (GVariant) entry = g_variant_get_child_value (dict, i);
      g_autoptr (GVariant) value = NULL;
      const SondeOptionRow *row;
      const char *key;
      guint64 bit;

      g_variant_get (entry, "{&sv}", &key, &value);
      row = find_row (rows, n_rows, key, error);
      if (row == NULL)
        return FALSE;
      bit = G_GUINT64_CONSTANT (1) << (row - rows);
      if ((seen & bit) != 0)
        return sonde_option_refuse (error, row->key, "given twice");
      seen |= bit;
      if (!check_type (value, row, error))
        return FALSE;
      if (row->parse != NULL ? !row->parse (row, value, options, user_data, error)
                             : !parse_value (row, value, options, error))
        return FALSE;
    }
  return TRUE;
}

static GVariant *
show_words (const SondeOptionRow *row, guint bits)
{
  GVariantBuilder words;

  g_variant_builder_init (&words, G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; row->words[i] != NULL; i++)
    if ((bits & (1u << i)) != 0)
      g_variant_builder_add (&words, "s", row->words[i]);
  return g_variant_builder_end (&words);
}

GVariant *
sonde_option_show (const SondeOptionRow *row, gconstpointer options)
{
  gconstpointer member = (const char *) options + row->offset;
  guint64 number;
  const char *text;

  if (row->show != NULL)
    return row->show (row, options);
  switch (row->type[0])
    {
    case 'b':
      return g_variant_new_boolean (*(const gboolean *) member);
    case 'u':
      number = *(const guint *) member;
      return number >= row->min ? g_variant_new_uint32 ((guint32) number) : NULL;
    case 't':
      number = *(const guint64 *) member;
      return number >= row->min ? g_variant_new_uint64 (number) : NULL;
    case 's':
      text = row->words != NULL ? row->words[*(const guint *) member]
                                : *(const char *const *) member;
      return text != NULL ? g_variant_new_string (text) : NULL;
    default:
      return show_words (row, *(const guint *) member);
    }
}

char *
sonde_option_dup_text (const SondeOptionRow *row, gconstpointer options)
{
  GVariant *shown = sonde_option_show (row, options);
  g_autoptr (GVariant) value = shown != NULL ? g_variant_ref_sink (shown) : NULL;
  g_autofree const char **words = NULL;

  if (value == NULL)
    return NULL;
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return g_variant_dup_string (value, NULL);
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY))
    return g_variant_print (value, FALSE);
  words = g_variant_get_strv (value, NULL);
  return words[0] != NULL ? g_strjoinv (" ", (char **) words) : NULL;
}
