/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a dictionary of options is read: one row for each key it may hold. */
#include "daemon/control/option-table.h"

#include <limits.h>

#include "daemon/base/error.h"

#define MAX_SHOWN_KEY 64 /* characters */

gboolean
sonde_option_refuse (GError **error, const char *key, const char *why)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION, "Option %s: %s", key, why);
  return FALSE;
}

static gboolean
refuse_range (GError **error, const char *key, guint64 min, guint64 max)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
               "Option %s: must be from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, key, min,
               max);
  return FALSE;
}

gboolean
sonde_option_get_uint32 (
    GVariant *value, const char *key, guint min, guint max, guint *number, GError **error)
{
  guint32 given = g_variant_get_uint32 (value);

  if (given < min || given > max)
    return refuse_range (error, key, min, max);
  *number = given;
  return TRUE;
}

gboolean
sonde_option_get_uint64 (
    GVariant *value, const char *key, guint64 min, guint64 max, guint64 *number, GError **error)
{
  guint64 given = g_variant_get_uint64 (value);

  if (given < min || given > max)
    return refuse_range (error, key, min, max);
  *number = given;
  return TRUE;
}

gboolean
sonde_option_get_word (
    GVariant *value, const char *key, const char *const *words, guint *index, GError **error)
{
  const char *given = g_variant_get_string (value, NULL);

  for (guint i = 0; words[i] != NULL; i++)
    if (g_str_equal (given, words[i]))
      {
        *index = i;
        return TRUE;
      }
  return sonde_option_refuse (error, key, "not a word that it takes");
}

gboolean
sonde_option_check_pid (guint32 pid, const char *key, GError **error)
{
  if (pid == 0 || pid > INT_MAX)
    return sonde_option_refuse (error, key, "not a process number");
  return TRUE;
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

  for (guint i = 0; i < n_rows; i++)
    if (g_str_equal (key, rows[i].key))
      return &rows[i];
  /* The name is the caller's: not all of it goes into our messages if it is long. */
  shown = g_utf8_substring (key, 0, MIN (g_utf8_strlen (key, -1), MAX_SHOWN_KEY));
  sonde_option_refuse (error, shown, "not known");
  return NULL;
}

gboolean
sonde_option_table_parse (
    GVariant *dict, const SondeOptionRow *rows, guint n_rows, gpointer user_data, GError **error)
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
      if (!check_type (value, row, error) || !row->parse (user_data, row->key, value, error))
        return FALSE;
    }
  return TRUE;
}
