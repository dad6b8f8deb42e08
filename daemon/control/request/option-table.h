/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks over a table of options: reads an a{sv} into a struct, shows the struct's values. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: option-table
 *
 * A table has one row for each key; all that is to know of an option stands there. Of the row's
 * type follows what its member in the struct of all options is:
 *
 * b gboolean; u guint; t guint64; s with words: guint or an enum, the index of the word; s without:
 * char *, NULL for none; as: guint, a bit for each word. Others have functions of their own.
 *
 * Errors of all functions here: SONDE_ERROR_INVALID_OPTION, whose message names the key
 */
#define SONDE_OPTION_TABLE_MAX_ROWS 64

enum
{
  SONDE_OPTION_FOR_POLKIT = 1 << 0, /* rules are told it */
  SONDE_OPTION_LIMITED = 1 << 1,    /* its maximum is in the property Limits */
};

typedef struct SondeOptionRow SondeOptionRow;

struct SondeOptionRow
{
  const char *key;
  const char *type; /* D-Bus signature of the value */
  gsize offset;     /* of the member */
  guint64 normal;   /* without the key */
  guint64 min;      /* of a number; what is below stands for none, and is not shown */
  guint64 max;
  guint multiple_of;        /* 0: any number */
  const char *const *words; /* NULL-terminated; of s and as */
  guint flags;
  /* NULL: by the type. @value is of the row's type; @user_data: of sonde_option_table_parse() */
  gboolean (*parse) (const SondeOptionRow *row,
                     GVariant *value,
                     gpointer options,
                     gpointer user_data,
                     GError **error);
  /* NULL: by the type. Returns: (transfer floating): NULL for no value */
  GVariant *(*show) (const SondeOptionRow *row, gconstpointer options);
};

/* What holds without any key. */
void sonde_option_table_init (const SondeOptionRow *rows, guint n_rows, gpointer options);

/* @dict: a value of type a{sv}. A key that has no row, comes twice or has another type is refused.
 */
gboolean sonde_option_table_parse (const SondeOptionRow *rows,
                                   guint n_rows,
                                   GVariant *dict,
                                   gpointer options,
                                   gpointer user_data,
                                   GError **error);

/* (transfer floating): the value as parsing takes it, NULL for none. */
GVariant *sonde_option_show (const SondeOptionRow *row, gconstpointer options);
/* (transfer full): "true", "1000", "cpu disk"; NULL for none. */
char *sonde_option_dup_text (const SondeOptionRow *row, gconstpointer options);

/* Sets the error "Option @key: @why". Always returns FALSE. */
gboolean sonde_option_refuse (GError **error, const char *key, const char *why);

/* @index: (out): of @given in @words, written on success only */
gboolean sonde_option_find_word (const char *const *words, const char *given, guint *index);

/* Refuses @given, which is none of the row's words, by "Option KEY: not one of …", and names the
 * one that it is likely meant to be. @more: (nullable): further words by their index, NULL behind
 * the last, which are too many to be listed: of the option `event` */
gboolean sonde_option_refuse_word (GError **error,
                                   const SondeOptionRow *row,
                                   const char *given,
                                   const char *(*more) (guint index));

/* Whether @pid can be the number of a process. */
gboolean sonde_option_check_pid (guint32 pid, const char *key, GError **error);
