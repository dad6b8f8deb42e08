/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/request/options.h"

#include <limits.h>
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/unit.h"

#define MAX_ROWS  64 /* of a table */
#define MAX_SHOWN 64 /* bytes of a word of the caller's in a message */

/* --- a walk over a table --- */

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

/* @index: (out): of @given in @words, written on success only */
static gboolean
find_word (const char *const *words, const char *given, guint *index)
{
  for (guint i = 0; words[i] != NULL; i++)
    if (g_str_equal (given, words[i]))
      {
        *index = i;
        return TRUE;
      }
  return FALSE;
}

/* Refuses @given, which is none of the row's words, by "Option KEY: not one of …", and names the
 * one that it is likely meant to be. @more: (nullable): further words by their index, NULL behind
 * the last, which are too many to be listed: of the option `event` */
static gboolean
refuse_word (GError **error,
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

static gboolean
check_pid (guint32 pid, const char *key, GError **error)
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

  return find_word (row->words, given, index) || refuse_word (error, row, given, NULL);
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

/* What holds without any key. */
static void
init_options (const SondeOptionRow *rows, guint n_rows, gboolean is_lasting, gpointer options)
{
  for (const SondeOptionRow *row = rows; row < rows + n_rows; row++)
    {
      guint64 value = is_lasting && row->lasting != 0 ? row->lasting : row->normal;

      if (value != 0 && row->type[0] == 't')
        G_STRUCT_MEMBER (guint64, options, row->offset) = value;
      else if (value != 0)
        G_STRUCT_MEMBER (guint, options, row->offset) = (guint) value;
    }
}

/* @dict: a value of type a{sv}. A key that has no row, comes twice or has another type is refused.
 */
static gboolean
parse_options (const SondeOptionRow *rows,
               guint n_rows,
               GVariant *dict,
               gpointer options,
               gpointer user_data,
               GError **error)
{
  gsize n_entries = g_variant_n_children (dict);
  guint64 seen = 0; /* one bit for each row: a dictionary on the wire may hold a key twice */

  g_assert (n_rows <= MAX_ROWS);
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

/* (transfer floating): the value as parsing takes it, NULL for none. */
static GVariant *
show_option (const SondeOptionRow *row, gconstpointer options)
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
  GVariant *shown = show_option (row, options);
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

/* --- the options of a session --- */

/* In the order of the bits of SONDE_COUNTERS_*. */
static const char *const counters_names[] = { "cpu", "memory", "network", "disk", "process", NULL };
static const char *const format_names[] = { "syscap", NULL };

#define LABEL_CHARACTERS G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_.-"

/* Of a row that names a scope: they are the first of the table. */
static gboolean
set_scope (SondeOptions *self, const SondeOptionRow *row, GError **error)
{
  if (self->asked.scope != SONDE_N_SCOPES)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                   "Option %s: excludes option %s; exactly one of targets, launch, pids, unit, "
                   "cgroup and system",
                   row->key, sonde_scope_name (self->asked.scope));
      return FALSE;
    }
  self->asked.scope = (SondeScope) (row - sonde_options_row (0));
  return TRUE;
}

static gboolean
check_n_targets (gsize n_targets, const char *key, GError **error)
{
  if (n_targets == 0)
    return sonde_option_refuse (error, key, "names no process");
  if (n_targets > SONDE_LIMIT_TARGETS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                   "Option %s: at most %d processes in a call", key, SONDE_LIMIT_TARGETS);
      return FALSE;
    }
  return TRUE;
}

GPtrArray *
sonde_options_parse_targets (GVariant *value, GUnixFDList *fds, const char *key, GError **error)
{
  g_autoptr (GPtrArray) targets
      = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_asked_target_free);
  gsize n_targets = g_variant_n_children (value);
  guint32 used = 0; /* one bit for each handle */
  gsize n_fds = fds != NULL ? (gsize) g_unix_fd_list_get_length (fds) : 0;

  G_STATIC_ASSERT (SONDE_LIMIT_TARGETS < 32);

  if (!check_n_targets (n_targets, key, error))
    return NULL;
  if (n_fds != n_targets)
    {
      sonde_option_refuse (error, key, "the message must carry one descriptor for each process");
      return NULL;
    }
  for (gsize i = 0; i < n_targets; i++)
    {
      guint32 pid;
      gint32 handle;
      int fd;

      g_variant_get_child (value, i, "(uh)", &pid, &handle);
      if (!check_pid (pid, key, error))
        return NULL;
      if (handle < 0 || (gsize) handle >= n_fds || (used & (1u << handle)) != 0)
        {
          sonde_option_refuse (error, key, "a descriptor is missing or named twice");
          return NULL;
        }
      used |= 1u << handle;
      fd = g_unix_fd_list_get (fds, handle, error);
      if (fd < 0)
        {
          g_prefix_error (error, "Option %s: ", key);
          return NULL;
        }
      g_ptr_array_add (targets, sonde_asked_target_new ((pid_t) pid, fd));
    }
  return g_steal_pointer (&targets);
}

/* @user_data: (nullable): the message's descriptors */
static gboolean
parse_targets (const SondeOptionRow *row,
               GVariant *value,
               gpointer options,
               gpointer user_data,
               GError **error)
{
  SondeOptions *self = options;

  if (!set_scope (self, row, error))
    return FALSE;
  self->targets = sonde_options_parse_targets (value, user_data, row->key, error);
  return self->targets != NULL;
}

static gboolean
parse_pids (const SondeOptionRow *row,
            GVariant *value,
            gpointer options,
            gpointer user_data,
            GError **error)
{
  SondeOptions *self = options;
  gsize n_pids = g_variant_n_children (value);

  if (!set_scope (self, row, error) || !check_n_targets (n_pids, row->key, error))
    return FALSE;
  self->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_asked_target_free);
  for (gsize i = 0; i < n_pids; i++)
    {
      guint32 pid;

      g_variant_get_child (value, i, "u", &pid);
      if (!check_pid (pid, row->key, error))
        return FALSE;
      g_ptr_array_add (self->targets, sonde_asked_target_new_unproven ((pid_t) pid));
    }
  return TRUE;
}

/* false is as if the key were not there. */
static gboolean
parse_scope (const SondeOptionRow *row,
             GVariant *value,
             gpointer options,
             gpointer user_data,
             GError **error)
{
  return !g_variant_get_boolean (value) || set_scope (options, row, error);
}

static gboolean
parse_unit (const SondeOptionRow *row,
            GVariant *value,
            gpointer options,
            gpointer user_data,
            GError **error)
{
  SondeOptions *self = options;
  const char *unit = g_variant_get_string (value, NULL);

  if (!set_scope (self, row, error))
    return FALSE;
  if (!sonde_unit_is_name (unit))
    return sonde_option_refuse (
        error, row->key, "not the whole name of a service, scope or slice, such as cron.service");
  if (sonde_unit_is_everything (unit))
    return sonde_option_refuse (error, row->key, "that is the whole machine: option system");
  g_strlcpy (self->asked.unit, unit, sizeof self->asked.unit);
  return TRUE;
}

/* polkit's dialog shows it: no space can make it say something else there. */
static gboolean
is_group_path (const char *path)
{
  g_auto (GStrv) names = g_strsplit (path, "/", -1);

  if (strlen (path) >= SONDE_MESSAGE_GROUP_BYTES || path[0] != '/')
    return FALSE;
  for (const char *at = path; *at != '\0'; at++)
    if (!g_ascii_isgraph (*at))
      return FALSE;
  for (gsize i = 1; names[i] != NULL; i++)
    if (names[i][0] == '\0' || g_str_equal (names[i], ".") || g_str_equal (names[i], ".."))
      return FALSE;
  return TRUE;
}

static gboolean
parse_cgroup (const SondeOptionRow *row,
              GVariant *value,
              gpointer options,
              gpointer user_data,
              GError **error)
{
  SondeOptions *self = options;
  const char *path = g_variant_get_string (value, NULL);

  if (!set_scope (self, row, error))
    return FALSE;
  if (g_str_equal (path, "/"))
    return sonde_option_refuse (error, row->key, "that is the whole machine: option system");
  if (!is_group_path (path))
    return sonde_option_refuse (error, row->key,
                                "not a path below /sys/fs/cgroup, such as /machine.slice");
  self->cgroup = g_strdup (path);
  return TRUE;
}

static gboolean
parse_event (const SondeOptionRow *row,
             GVariant *value,
             gpointer options,
             gpointer user_data,
             GError **error)
{
  SondeOptions *self = options;
  const char *name = g_variant_get_string (value, NULL);
  guint index;

  if (find_word (row->words, name, &index))
    {
      self->asked.event = (SondeEventChoice) index;
      return TRUE;
    }
  self->asked.event = SONDE_EVENT_TRACEPOINT;
  return sonde_tracepoint_find (name, &self->asked.tracepoint)
         || refuse_word (error, row, name, sonde_tracepoint_name);
}

/* Part of a file name, but never one that stands for a folder: more is put behind it. */
static gboolean
parse_label (const SondeOptionRow *row,
             GVariant *value,
             gpointer options,
             gpointer user_data,
             GError **error)
{
  SondeOptions *self = options;
  const char *label = g_variant_get_string (value, NULL);
  gsize length = strspn (label, LABEL_CHARACTERS);

  if (length == 0 || length > SONDE_LIMIT_LABEL || label[length] != '\0')
    return sonde_option_refuse (error, row->key,
                                "must be 1 to 64 of the characters A-Z a-z 0-9 _ . -");
  self->label = g_strdup (label);
  return TRUE;
}

/* A line of a region's header: no more of it is understood here. Its last byte is the program's, as
 * is what a glob matches. */
static gboolean
is_filter (const char *text)
{
  static const char size[] = "size>=";

  for (const char *at = text; *at != '\0'; at++)
    if (g_ascii_iscntrl (*at))
      return FALSE;
  if (g_str_has_prefix (text, size))
    {
      gsize n_digits = strspn (text + strlen (size), G_CSET_DIGITS);

      return n_digits > 0 && n_digits < 10 && text[strlen (size) + n_digits] == '\0';
    }
  return text[0] != '\0' && !g_str_equal (text, "!") && !g_str_has_suffix (text, ":");
}

static gboolean
parse_filter (const SondeOptionRow *row,
              GVariant *value,
              gpointer options,
              gpointer user_data,
              GError **error)
{
  SondeOptions *self = options;
  g_autofree const char **lines = g_variant_get_strv (value, NULL);
  g_autofree char *joined = g_strjoinv ("\n", (char **) lines);

  if (g_variant_n_children (value) > SONDE_LIMIT_TRACE_FILTERS)
    return sonde_option_refuse (error, row->key, "at most 64 lines");
  for (gsize i = 0; lines[i] != NULL; i++)
    if (!is_filter (lines[i]))
      return sonde_option_refuse (error, row->key,
                                  "a line must be [!][MODULE:]NAME or size>=BYTES");
  if (strlen (joined) >= sizeof self->asked.trace_filter)
    return sonde_option_refuse (error, row->key, "at most 2047 bytes together");
  g_strlcpy (self->asked.trace_filter, joined, sizeof self->asked.trace_filter);
  return TRUE;
}

static gboolean
parse_budget (const SondeOptionRow *row,
              GVariant *value,
              gpointer options,
              gpointer user_data,
              GError **error)
{
  SondeOptions *self = options;
  double percent = g_variant_get_double (value);

  /* Not a number is not in the range, either. */
  if (!(percent >= 0 && percent <= SONDE_LIMIT_TRACE_BUDGET) || (percent > 0 && percent < 0.01))
    return sonde_option_refuse (error, row->key, "must be 0, or from 0.01 to 10000");
  self->asked.trace_budget = (guint32) (percent * 100 + 0.5);
  return TRUE;
}

static pid_t
get_pid (const SondeOptions *self, guint index)
{
  const SondeAskedTarget *target = g_ptr_array_index (self->targets, index);

  return target->pid;
}

static GVariant *
show_scope (const SondeOptionRow *row, gconstpointer options)
{
  const SondeOptions *self = options;
  GVariantBuilder pids;

  if (sonde_options_row (self->asked.scope) != row)
    return NULL;
  if (row->type[0] == 'b')
    return g_variant_new_boolean (TRUE);
  g_variant_builder_init (&pids, G_VARIANT_TYPE ("au"));
  for (guint i = 0; i < self->targets->len; i++)
    g_variant_builder_add (&pids, "u", (guint32) get_pid (self, i));
  return g_variant_builder_end (&pids);
}

static GVariant *
show_unit (const SondeOptionRow *row, gconstpointer options)
{
  const SondeOptions *self = options;

  return self->asked.unit[0] != '\0' ? g_variant_new_string (self->asked.unit) : NULL;
}

static GVariant *
show_cgroup (const SondeOptionRow *row, gconstpointer options)
{
  const SondeOptions *self = options;

  return self->cgroup != NULL ? g_variant_new_string (self->cgroup) : NULL;
}

static GVariant *
show_event (const SondeOptionRow *row, gconstpointer options)
{
  return g_variant_new_string (sonde_asked_event_name (&((const SondeOptions *) options)->asked));
}

static GVariant *
show_filter (const SondeOptionRow *row, gconstpointer options)
{
  const SondeOptions *self = options;
  g_auto (GStrv) lines = g_strsplit (self->asked.trace_filter, "\n", -1);

  return g_variant_new_strv ((const char *const *) lines, -1);
}

static GVariant *
show_budget (const SondeOptionRow *row, gconstpointer options)
{
  return g_variant_new_double (((const SondeOptions *) options)->asked.trace_budget / 100.0);
}

#define AT(member) G_STRUCT_OFFSET (SondeOptions, member)
#define LIMITED    SONDE_OPTION_LIMITED
#define FOR_POLKIT SONDE_OPTION_FOR_POLKIT

static const SondeOptionRow rows[] = {
  /* In the order of SondeScope, and with its names. */
  { "targets", "a(uh)", .parse = parse_targets, .show = show_scope },
  { "launch", "b", .parse = parse_scope, .show = show_scope },
  { "pids", "au", .parse = parse_pids, .show = show_scope },
  { "unit", "s", .parse = parse_unit, .show = show_unit, .flags = FOR_POLKIT },
  { "system", "b", .parse = parse_scope, .show = show_scope },
  { "cgroup", "s", .parse = parse_cgroup, .show = show_cgroup, .flags = FOR_POLKIT },

  { "event", "s", .words = sonde_event_choice_names, .parse = parse_event, .show = show_event,
    .flags = FOR_POLKIT },
  /* One of both: finish_rate() */
  { "frequency", "u", AT (asked.frequency_hz), .min = 1, .max = SONDE_LIMIT_FREQUENCY,
    .flags = FOR_POLKIT | LIMITED },
  { "period", "t", AT (asked.period), .min = 1, .max = SONDE_LIMIT_PERIOD_MAX,
    .flags = FOR_POLKIT },
  { "kernel", "b", AT (asked.kernel), .flags = FOR_POLKIT },
  { "raw", "b", AT (asked.raw), .flags = FOR_POLKIT },
  { "start-on-exec", "b", AT (asked.start_on_exec), .normal = FALSE },
  { "children", "b", AT (asked.children), .normal = TRUE },
  { "unwind", "s", AT (asked.unwind), .normal = SONDE_UNWIND_DWARF, .words = sonde_unwind_names },
  { "stack-size", "u", AT (asked.stack_size_bytes), .normal = 16384,
    .min = SONDE_LIMIT_STACK_SIZE_MIN, .max = SONDE_LIMIT_STACK_SIZE_MAX, .multiple_of = 8,
    .flags = LIMITED },
  { "max-depth", "u", AT (asked.max_depth), .normal = 256, .min = 1, .max = SONDE_LIMIT_DEPTH,
    .flags = LIMITED },
  { "duration", "t", AT (asked.duration_us), .max = SONDE_LIMIT_DURATION_US,
    .flags = FOR_POLKIT | LIMITED },
  { "interpreters", "s", AT (asked.interpreters), .normal = TRUE,
    .words = sonde_interpreters_names },
  { "symbols", "s", AT (asked.symbols), .normal = TRUE, .words = sonde_symbols_names },
  { "waits", "s", AT (asked.waits), .normal = SONDE_WAITS_OFF, .words = sonde_waits_names },
  { "memory", "s", AT (asked.memory), .normal = SONDE_MEMORY_OFF, .words = sonde_memory_names },
  { "memory-interval", "t", AT (asked.memory_interval_bytes), .normal = 512 * 1024, .min = 1,
    .max = SONDE_LIMIT_MEMORY_INTERVAL },
  { "memory-wait", "u", AT (asked.memory_wait_us), .normal = 100000,
    .max = SONDE_LIMIT_MEMORY_WAIT_US },
  { "memory-detail", "s", AT (asked.memory_detail), .normal = SONDE_MEMORY_DETAIL_EVENTS,
    .lasting = SONDE_MEMORY_DETAIL_SUMS, .words = sonde_memory_detail_names },
  { "trace", "s", AT (asked.trace), .normal = SONDE_TRIE_OFF, .words = sonde_trace_names },
  { "trace-filter", "as", .parse = parse_filter, .show = show_filter },
  { "trace-depth", "u", AT (asked.trace_depth), .normal = SONDE_TRIE_MAX_DEPTH, .min = 1,
    .max = SONDE_TRIE_MAX_DEPTH },
  { "trace-slow", "t", AT (asked.trace_slow_us), .normal = 0, .max = SONDE_LIMIT_TRACE_SLOW_US },
  { "trace-memory", "t", AT (asked.trace_memory_bytes), .normal = SONDE_LIMIT_TRACE_MEMORY_BYTES,
    .min = SONDE_LIMIT_TRACE_MEMORY_MIN, .max = SONDE_LIMIT_TRACE_MEMORY_BYTES },
  { "trace-budget", "d", .parse = parse_budget, .show = show_budget },
  { "recorder", "t", AT (asked.recorder_us), .min = SONDE_LIMIT_RECORDER_US_MIN,
    .max = SONDE_LIMIT_RECORDER_US, .flags = LIMITED },
  { "recorder-bytes", "t", AT (asked.recorder_bytes), .min = SONDE_LIMIT_RECORDER_BYTES_MIN,
    .max = SONDE_LIMIT_RECORDER_BYTES_MAX, .flags = LIMITED },
  { "collectors", "b", AT (collectors), .normal = FALSE },
  { "counters", "as", AT (asked.counters), .words = counters_names, .flags = FOR_POLKIT },
  { "format", "s", AT (format), .words = format_names },
  { "buffer-size", "u", AT (buffer_size_bytes), .normal = SONDE_LIMIT_SINK_BUFFER,
    .min = SONDE_LIMIT_SINK_BUFFER_MIN, .max = SONDE_LIMIT_SINK_BUFFER_MAX, .flags = LIMITED },
  { "label", "s", AT (label), .parse = parse_label, .flags = FOR_POLKIT },
};

const SondeOptionRow *
sonde_options_row (gsize index)
{
  return index < G_N_ELEMENTS (rows) ? &rows[index] : NULL;
}

/* Every hit of a tracepoint is a sample, unless something else is asked for. */
static gboolean
finish_rate (SondeOptions *self, GError **error)
{
  gboolean is_tracepoint = self->asked.event == SONDE_EVENT_TRACEPOINT;

  if (self->asked.frequency_hz != 0 && self->asked.period != 0)
    return sonde_option_refuse (error, "period", "excludes option frequency");
  if (self->asked.period != 0 && !is_tracepoint && self->asked.period < SONDE_LIMIT_PERIOD_MIN)
    return sonde_option_refuse (
        error, "period", "must be from 100000 to 10000000000; below that only with a tracepoint");
  if (self->asked.frequency_hz == 0 && self->asked.period == 0 && is_tracepoint)
    self->asked.period = 1;
  else if (self->asked.frequency_hz == 0 && self->asked.period == 0)
    self->asked.frequency_hz = 1000;
  return TRUE;
}

/* What one option says of another. */
static gboolean
finish (SondeOptions *self, GUnixFDList *fds, GError **error)
{
  if (self->asked.scope == SONDE_N_SCOPES)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                           "Exactly one of the options targets, launch, pids, unit, cgroup and "
                           "system is needed");
      return FALSE;
    }
  if (!finish_rate (self, error))
    return FALSE;
  if (self->asked.start_on_exec
      && (sonde_scope_is_group (self->asked.scope) || self->asked.scope == SONDE_SCOPE_SYSTEM))
    return sonde_option_refuse (error, "start-on-exec", "needs the option targets, launch or pids");
  if ((self->asked.counters & SONDE_COUNTERS_PROCESS) != 0
      && (sonde_scope_is_group (self->asked.scope) || self->asked.scope == SONDE_SCOPE_SYSTEM))
    return sonde_option_refuse (error, "counters",
                                "\"process\" needs the option targets, launch or pids");
  if (self->asked.recorder_us != 0 && self->asked.recorder_bytes == 0)
    self->asked.recorder_bytes = SONDE_LIMIT_RECORDER_BYTES;
  /* Counts of calls are of the whole session. */
  if (self->asked.recorder_bytes != 0 && self->asked.trace != SONDE_TRIE_OFF)
    return sonde_option_refuse (error, self->asked.recorder_us != 0 ? "recorder" : "recorder-bytes",
                                "excludes option trace");
  /* Addresses are worth little without their names. */
  self->asked.kernel = self->asked.kernel || self->asked.raw;
  if (self->asked.scope != SONDE_SCOPE_TARGETS && fds != NULL
      && g_unix_fd_list_get_length (fds) != 0)
    return sonde_option_refuse (error, "targets",
                                "the message carries descriptors that no option uses");
  if (self->targets == NULL)
    self->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_asked_target_free);
  if (self->label == NULL)
    self->label = g_strdup ("session");
  return TRUE;
}

/* @scope: SONDE_N_SCOPES if @dict names it */
static SondeOptions *
parse (GVariant *dict, GUnixFDList *fds, SondeScope scope, gboolean is_lasting, GError **error)
{
  g_autoptr (SondeOptions) self = g_new0 (SondeOptions, 1);

  init_options (rows, G_N_ELEMENTS (rows), is_lasting, self);
  self->asked.scope = scope;
  if (!parse_options (rows, G_N_ELEMENTS (rows), dict, self, fds, error)
      || !finish (self, fds, error))
    return NULL;
  return g_steal_pointer (&self);
}

SondeOptions *
sonde_options_parse (GVariant *dict, GUnixFDList *fds, gboolean is_lasting, GError **error)
{
  return parse (dict, fds, SONDE_N_SCOPES, is_lasting, error);
}

GVariant *
sonde_options_to_variant (const SondeOptions *self)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      GVariant *value = show_option (&rows[i], self);

      if (value != NULL)
        g_variant_builder_add (&builder, "{sv}", rows[i].key, value);
    }
  return g_variant_builder_end (&builder);
}

SondeOptions *
sonde_options_restore (GVariant *view, GError **error)
{
  g_autoptr (GVariant) dict = NULL;
  SondeScope scope = SONDE_N_SCOPES;
  GVariantDict others;

  /* Processes have no proof in there, and the session has them from elsewhere. */
  g_variant_dict_init (&others, view);
  if (g_variant_dict_remove (&others, sonde_scope_name (SONDE_SCOPE_TARGETS)))
    scope = SONDE_SCOPE_TARGETS;
  else if (g_variant_dict_remove (&others, sonde_scope_name (SONDE_SCOPE_PIDS)))
    scope = SONDE_SCOPE_PIDS;
  dict = g_variant_ref_sink (g_variant_dict_end (&others));
  return parse (dict, NULL, scope, FALSE, error);
}

void
sonde_options_free (SondeOptions *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->targets, g_ptr_array_unref);
  g_free (self->label);
  g_free (self->cgroup);
  g_free (self);
}

static char *
describe_pids (const SondeOptions *self)
{
  g_autoptr (GString) text = g_string_new (self->targets->len == 1 ? "process" : "processes");

  for (guint i = 0; i < self->targets->len; i++)
    g_string_append_printf (text, "%s %d", i > 0 ? "," : "", (int) get_pid (self, i));
  return g_strdup (text->str);
}

char *
sonde_options_describe_scope (const SondeOptions *self)
{
  switch (self->asked.scope)
    {
    case SONDE_SCOPE_TARGETS:
    case SONDE_SCOPE_PIDS:
      return describe_pids (self);
    case SONDE_SCOPE_LAUNCH:
      return g_strdup ("a program to be started");
    case SONDE_SCOPE_UNIT:
      return g_strdup_printf ("unit %s", self->asked.unit);
    case SONDE_SCOPE_CGROUP:
      return g_strdup_printf ("control group %s", self->cgroup);
    case SONDE_SCOPE_SYSTEM:
      return g_strdup ("the whole machine");
    default:
      g_assert_not_reached ();
    }
}

char *
sonde_options_describe (const SondeOptions *self)
{
  g_autofree char *scope = sonde_options_describe_scope (self);
  const char *event = sonde_asked_event_name (&self->asked);

  if (self->asked.event == SONDE_EVENT_NONE)
    return g_strdup_printf ("%s: %s, no samples", self->label, scope);
  if (self->asked.frequency_hz != 0)
    return g_strdup_printf ("%s: %s, %s at %u Hz", self->label, scope, event,
                            self->asked.frequency_hz);
  return g_strdup_printf ("%s: %s, %s every %" G_GUINT64_FORMAT, self->label, scope, event,
                          self->asked.period);
}

/* --- actions of polkit --- */

const char *
sonde_action_id (SondeAction action)
{
  static const char *const ids[SONDE_N_ACTIONS] = {
    [SONDE_ACTION_PROFILE_OWN] = "org.sonde.profiler1.profile-own",
    [SONDE_ACTION_PROFILE_OWN_RESTRICTED] = "org.sonde.profiler1.profile-own-restricted",
    [SONDE_ACTION_PROFILE_OWN_KERNEL] = "org.sonde.profiler1.profile-own-kernel",
    [SONDE_ACTION_PROFILE_OTHERS] = "org.sonde.profiler1.profile-others",
    [SONDE_ACTION_PROFILE_SYSTEM] = "org.sonde.profiler1.profile-system",
    [SONDE_ACTION_RAW_DATA] = "org.sonde.profiler1.raw-data",
    [SONDE_ACTION_MANAGE_SESSIONS] = "org.sonde.profiler1.manage-sessions",
  };

  g_assert (action < SONDE_N_ACTIONS);

  return ids[action];
}

/* Strongest first: one question is asked for all that a request contains. */
SondeAction
sonde_action_to_use (const SondeOptions *options)
{
  if (options->asked.raw)
    return SONDE_ACTION_RAW_DATA;
  if (options->asked.scope == SONDE_SCOPE_SYSTEM || options->asked.event == SONDE_EVENT_TRACEPOINT)
    return SONDE_ACTION_PROFILE_SYSTEM;
  return SONDE_ACTION_PROFILE_OTHERS;
}

SondeAction
sonde_action_to_start (const SondeOptions *options, gint64 paranoid)
{
  SondeAction for_others = sonde_action_to_use (options);
  gboolean is_own
      = options->asked.scope == SONDE_SCOPE_TARGETS || options->asked.scope == SONDE_SCOPE_LAUNCH;

  if (!is_own || for_others != SONDE_ACTION_PROFILE_OTHERS)
    return for_others;
  if (options->asked.kernel)
    return SONDE_ACTION_PROFILE_OWN_KERNEL;
  /* Debian's 3, Ubuntu's 4, and whatever is stricter: perf is closed to users. */
  return paranoid >= 3 ? SONDE_ACTION_PROFILE_OWN_RESTRICTED : SONDE_ACTION_PROFILE_OWN;
}

/* --- of one reader --- */

/* In the order of the bits of SONDE_SINK_FRAMES_*. */
static const char *const frames_names[]
    = { "samples", "allocations", "marks", "counters", "logs", NULL };

G_STATIC_ASSERT (SONDE_SINK_FRAMES_ALL == (1u << (G_N_ELEMENTS (frames_names) - 1)) - 1);

static gboolean
parse_stream_pids (const SondeOptionRow *row,
                   GVariant *value,
                   gpointer options,
                   gpointer user_data,
                   GError **error)
{
  SondeStreamOptions *self = options;
  gsize n_pids = g_variant_n_children (value);

  if (n_pids == 0)
    return sonde_option_refuse (error, row->key, "names no process");
  if (n_pids > SONDE_MESSAGE_SINK_MAX_PIDS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                   "Option %s: at most %d processes", row->key, SONDE_MESSAGE_SINK_MAX_PIDS);
      return FALSE;
    }
  for (gsize i = 0; i < n_pids; i++)
    {
      guint32 pid;

      g_variant_get_child (value, i, "u", &pid);
      if (!check_pid (pid, row->key, error))
        return FALSE;
      self->pids[i] = (gint32) pid;
    }
  self->n_pids = (guint) n_pids;
  return TRUE;
}

static const SondeOptionRow stream_rows[] = {
  { "pids", "au", .parse = parse_stream_pids },
  { "frames", "as", G_STRUCT_OFFSET (SondeStreamOptions, frames), .normal = SONDE_SINK_FRAMES_ALL,
    .words = frames_names },
  { "buffer-size", "u", G_STRUCT_OFFSET (SondeStreamOptions, buffer_size_bytes),
    .normal = SONDE_LIMIT_SINK_BUFFER, .min = SONDE_LIMIT_SINK_BUFFER_MIN,
    .max = SONDE_LIMIT_SINK_BUFFER_MAX },
};

gboolean
sonde_options_check_none (GVariant *dict, GError **error)
{
  return parse_options (NULL, 0, dict, NULL, NULL, error);
}

void
sonde_stream_options_init (SondeStreamOptions *self)
{
  *self = (SondeStreamOptions){ 0 };
  init_options (stream_rows, G_N_ELEMENTS (stream_rows), FALSE, self);
}

gboolean
sonde_stream_options_parse (GVariant *dict, SondeStreamOptions *options, GError **error)
{
  SondeStreamOptions parsed;

  sonde_stream_options_init (&parsed);
  if (!parse_options (stream_rows, G_N_ELEMENTS (stream_rows), dict, &parsed, NULL, error))
    return FALSE;
  *options = parsed;
  return TRUE;
}
