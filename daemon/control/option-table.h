/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a dictionary of options is read: one row for each key it may hold. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: option-table
 *
 * An a{sv} of a caller is walked once; each entry goes to the function of its row. A key that has
 * no row, comes twice or has another type is refused, so is what a row's function refuses.
 *
 * Errors of all functions here: SONDE_ERROR_INVALID_OPTION, whose message names the key
 */
#define SONDE_OPTION_TABLE_MAX_ROWS 64

/* @value is of the row's type. */
typedef gboolean (*SondeOptionParse) (gpointer user_data,
                                      const char *key,
                                      GVariant *value,
                                      GError **error);

typedef struct
{
  const char *key;
  const char *type; /* D-Bus signature of the value */
  SondeOptionParse parse;
} SondeOptionRow;

/* @dict: a value of type a{sv} */
gboolean sonde_option_table_parse (
    GVariant *dict, const SondeOptionRow *rows, guint n_rows, gpointer user_data, GError **error);

/* Sets the error "Option @key: @why". Always returns FALSE. */
gboolean sonde_option_refuse (GError **error, const char *key, const char *why);

/* Numbers from @min to @max; the output is written on success only. */
gboolean sonde_option_get_uint32 (
    GVariant *value, const char *key, guint min, guint max, guint *number, GError **error);
gboolean sonde_option_get_uint64 (
    GVariant *value, const char *key, guint64 min, guint64 max, guint64 *number, GError **error);

/* @index: of the string @value in @words, which end with NULL */
gboolean sonde_option_get_word (
    GVariant *value, const char *key, const char *const *words, guint *index, GError **error);

/* Whether @pid can be the number of a process. */
gboolean sonde_option_check_pid (guint32 pid, const char *key, GError **error);
