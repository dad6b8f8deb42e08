/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a caller asked for, parsed once and frozen. */
#include "daemon/control/options.h"

#include <limits.h>
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/control/tracepoint.h"
#include "daemon/control/unit.h"

static const char *const scope_names[] = { "targets", "launch", "pids", "unit", "system" };
static const char *const event_names[]
    = { "auto", "cycles", "instructions", "cpu-clock", "none", NULL };
/* In the order of SondeUnwindMode. */
static const char *const unwind_names[] = { "none", "frame-pointer", "dwarf", "libdwfl", NULL };
static const char *const symbols_names[] = { "none", "end", NULL };

const char *
sonde_scope_name (SondeScope scope)
{
  return scope_names[scope];
}

const char *
sonde_event_choice_name (SondeEventChoice event)
{
  return event_names[event];
}

/* What is found on the way, beside the options themselves. */
typedef struct
{
  SondeOptions *options;
  GUnixFDList *fds;
  const char *scope_key; /* the first key that names a scope */
  gboolean has_frequency;
  gboolean has_period;
} Parser;

static gboolean
refuse (GError **error, const char *key, const char *why)
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

static gboolean
get_uint32 (GVariant *value, const char *key, guint min, guint max, guint *number, GError **error)
{
  guint32 given = g_variant_get_uint32 (value);

  if (given < min || given > max)
    return refuse_range (error, key, min, max);
  *number = given;
  return TRUE;
}

static gboolean
get_uint64 (
    GVariant *value, const char *key, guint64 min, guint64 max, guint64 *number, GError **error)
{
  guint64 given = g_variant_get_uint64 (value);

  if (given < min || given > max)
    return refuse_range (error, key, min, max);
  *number = given;
  return TRUE;
}

static gboolean
get_word (GVariant *value, const char *key, const char *const *words, guint *index, GError **error)
{
  const char *given = g_variant_get_string (value, NULL);

  for (guint i = 0; words[i] != NULL; i++)
    if (g_str_equal (given, words[i]))
      {
        *index = i;
        return TRUE;
      }
  return refuse (error, key, "not a word that it takes");
}

static gboolean
set_scope (Parser *parser, const char *key, SondeScope scope, GError **error)
{
  if (parser->scope_key != NULL)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                   "Option %s: excludes option %s; exactly one of targets, launch, pids, unit and "
                   "system",
                   key, parser->scope_key);
      return FALSE;
    }
  parser->scope_key = key;
  parser->options->scope = scope;
  return TRUE;
}

static gboolean
check_pid (guint32 pid, const char *key, GError **error)
{
  if (pid == 0 || pid > INT_MAX)
    return refuse (error, key, "not a process number");
  return TRUE;
}

static gboolean
check_n_targets (gsize n_targets, const char *key, GError **error)
{
  if (n_targets == 0)
    return refuse (error, key, "names no process");
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
      = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  gsize n_targets = g_variant_n_children (value);
  guint32 used = 0; /* one bit for each handle */
  gsize n_fds = fds != NULL ? (gsize) g_unix_fd_list_get_length (fds) : 0;

  G_STATIC_ASSERT (SONDE_LIMIT_TARGETS < 32);

  if (!check_n_targets (n_targets, key, error))
    return NULL;
  if (n_fds != n_targets)
    {
      refuse (error, key, "the message must carry one descriptor for each process");
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
          refuse (error, key, "a descriptor is missing or named twice");
          return NULL;
        }
      used |= 1u << handle;
      fd = g_unix_fd_list_get (fds, handle, error);
      if (fd < 0)
        {
          g_prefix_error (error, "Option %s: ", key);
          return NULL;
        }
      g_ptr_array_add (targets, sonde_target_new ((pid_t) pid, fd));
    }
  return g_steal_pointer (&targets);
}

static gboolean
parse_targets (Parser *parser, const char *key, GVariant *value, GError **error)
{
  if (!set_scope (parser, key, SONDE_SCOPE_TARGETS, error))
    return FALSE;
  parser->options->targets = sonde_options_parse_targets (value, parser->fds, key, error);
  parser->fds = NULL;
  return parser->options->targets != NULL;
}

static gboolean
parse_pids (Parser *parser, const char *key, GVariant *value, GError **error)
{
  gsize n_pids = g_variant_n_children (value);

  if (!set_scope (parser, key, SONDE_SCOPE_PIDS, error) || !check_n_targets (n_pids, key, error))
    return FALSE;
  parser->options->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  for (gsize i = 0; i < n_pids; i++)
    {
      guint32 pid;

      g_variant_get_child (value, i, "u", &pid);
      if (!check_pid (pid, key, error))
        return FALSE;
      g_ptr_array_add (parser->options->targets, sonde_target_new_unproven ((pid_t) pid));
    }
  return TRUE;
}

/* false is as if the key were not there. */
static gboolean
parse_launch (Parser *parser, const char *key, GVariant *value, GError **error)
{
  return !g_variant_get_boolean (value) || set_scope (parser, key, SONDE_SCOPE_LAUNCH, error);
}

static gboolean
parse_system (Parser *parser, const char *key, GVariant *value, GError **error)
{
  return !g_variant_get_boolean (value) || set_scope (parser, key, SONDE_SCOPE_SYSTEM, error);
}

static gboolean
parse_unit (Parser *parser, const char *key, GVariant *value, GError **error)
{
  const char *unit = g_variant_get_string (value, NULL);

  if (!set_scope (parser, key, SONDE_SCOPE_UNIT, error))
    return FALSE;
  if (!sonde_unit_is_name (unit))
    return refuse (error, key, "not the whole name of a service, scope or slice");
  if (sonde_unit_is_everything (unit))
    return refuse (error, key, "that is the whole machine: option system");
  parser->options->unit = g_strdup (unit);
  return TRUE;
}

static gboolean
parse_event (Parser *parser, const char *key, GVariant *value, GError **error)
{
  guint index;

  parser->options->tracepoint = sonde_tracepoint_find (g_variant_get_string (value, NULL));
  if (parser->options->tracepoint != NULL)
    {
      parser->options->event = SONDE_EVENT_TRACEPOINT;
      return TRUE;
    }
  if (!get_word (value, key, event_names, &index, error))
    return FALSE;
  parser->options->event = (SondeEventChoice) index;
  return TRUE;
}

static gboolean
parse_frequency (Parser *parser, const char *key, GVariant *value, GError **error)
{
  parser->has_frequency = TRUE;
  return get_uint32 (value, key, 1, SONDE_LIMIT_FREQUENCY, &parser->options->frequency_hz, error);
}

static gboolean
parse_period (Parser *parser, const char *key, GVariant *value, GError **error)
{
  parser->has_period = TRUE;
  return get_uint64 (value, key, 1, SONDE_LIMIT_PERIOD_MAX, &parser->options->period, error);
}

static gboolean
parse_kernel (Parser *parser, const char *key, GVariant *value, GError **error)
{
  parser->options->kernel = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_raw (Parser *parser, const char *key, GVariant *value, GError **error)
{
  parser->options->raw = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_start_on_exec (Parser *parser, const char *key, GVariant *value, GError **error)
{
  parser->options->start_on_exec = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_children (Parser *parser, const char *key, GVariant *value, GError **error)
{
  parser->options->children = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_unwind (Parser *parser, const char *key, GVariant *value, GError **error)
{
  guint index;

  G_STATIC_ASSERT (SONDE_UNWIND_NONE == 0 && SONDE_UNWIND_FRAME_POINTER == 1
                   && SONDE_UNWIND_DWARF == 2 && SONDE_UNWIND_LIBDWFL == 3);

  if (!get_word (value, key, unwind_names, &index, error))
    return FALSE;
  parser->options->unwind = (SondeUnwindMode) index;
  return TRUE;
}

static gboolean
parse_stack_size (Parser *parser, const char *key, GVariant *value, GError **error)
{
  if (g_variant_get_uint32 (value) % 8 != 0)
    return refuse (error, key, "must be a multiple of 8");
  return get_uint32 (value, key, SONDE_LIMIT_STACK_SIZE_MIN, SONDE_LIMIT_STACK_SIZE_MAX,
                     &parser->options->stack_size_bytes, error);
}

static gboolean
parse_max_depth (Parser *parser, const char *key, GVariant *value, GError **error)
{
  return get_uint32 (value, key, 1, SONDE_LIMIT_DEPTH, &parser->options->max_depth, error);
}

static gboolean
parse_duration (Parser *parser, const char *key, GVariant *value, GError **error)
{
  return get_uint64 (value, key, 0, SONDE_LIMIT_DURATION_US, &parser->options->duration_us, error);
}

static gboolean
parse_symbols (Parser *parser, const char *key, GVariant *value, GError **error)
{
  guint index;

  if (!get_word (value, key, symbols_names, &index, error))
    return FALSE;
  parser->options->symbols = index == 1;
  return TRUE;
}

static const struct
{
  const char *key;
  const char *type;
  gboolean (*parse) (Parser *parser, const char *key, GVariant *value, GError **error);
} keys[] = {
  { "targets", "a(uh)", parse_targets }, { "launch", "b", parse_launch },
  { "pids", "au", parse_pids },          { "unit", "s", parse_unit },
  { "system", "b", parse_system },       { "event", "s", parse_event },
  { "frequency", "u", parse_frequency }, { "period", "t", parse_period },
  { "kernel", "b", parse_kernel },       { "raw", "b", parse_raw },
  { "children", "b", parse_children },   { "start-on-exec", "b", parse_start_on_exec },
  { "unwind", "s", parse_unwind },       { "stack-size", "u", parse_stack_size },
  { "max-depth", "u", parse_max_depth }, { "duration", "t", parse_duration },
  { "symbols", "s", parse_symbols },
};

/* @seen: one bit for each key; a dictionary on the wire may hold a key twice. */
static gboolean
parse_entry (Parser *parser, guint32 *seen, const char *key, GVariant *value, GError **error)
{
  g_autofree char *shown = NULL;

  G_STATIC_ASSERT (G_N_ELEMENTS (keys) < 32);

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      if (!g_str_equal (key, keys[i].key))
        continue;
      if ((*seen & (1u << i)) != 0)
        return refuse (error, keys[i].key, "given twice");
      *seen |= 1u << i;
      if (!g_variant_is_of_type (value, G_VARIANT_TYPE (keys[i].type)))
        {
          g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                       "Option %s: has type %s, must be %s", key, g_variant_get_type_string (value),
                       keys[i].type);
          return FALSE;
        }
      return keys[i].parse (parser, keys[i].key, value, error);
    }
  /* The name is the caller's: not all of it goes into our messages if it is long. */
  shown = g_utf8_substring (key, 0, MIN (g_utf8_strlen (key, -1), 64));
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION, "Option %s: not known", shown);
  return FALSE;
}

/* Every hit of a tracepoint is a sample, unless something else is asked for. */
static gboolean
finish_rate (Parser *parser, GError **error)
{
  SondeOptions *options = parser->options;
  gboolean is_tracepoint = options->event == SONDE_EVENT_TRACEPOINT;

  if (parser->has_frequency && parser->has_period)
    return refuse (error, "period", "excludes option frequency");
  if (parser->has_period && !is_tracepoint && options->period < SONDE_LIMIT_PERIOD_MIN)
    return refuse_range (error, "period", SONDE_LIMIT_PERIOD_MIN, SONDE_LIMIT_PERIOD_MAX);
  if (is_tracepoint && !parser->has_frequency && !parser->has_period)
    options->period = 1;
  if (options->period != 0)
    options->frequency_hz = 0;
  return TRUE;
}

static gboolean
finish (Parser *parser, GError **error)
{
  SondeOptions *options = parser->options;

  if (parser->scope_key == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                           "Exactly one of the options targets, launch, pids, unit and system is "
                           "needed");
      return FALSE;
    }
  if (!finish_rate (parser, error))
    return FALSE;
  if (options->start_on_exec
      && (options->scope == SONDE_SCOPE_UNIT || options->scope == SONDE_SCOPE_SYSTEM))
    return refuse (error, "start-on-exec", "needs the option targets, launch or pids");
  /* Addresses are worth little without their names. */
  options->kernel = options->kernel || options->raw;
  if (parser->fds != NULL && g_unix_fd_list_get_length (parser->fds) != 0)
    return refuse (error, "targets", "the message carries descriptors that no option uses");
  if (options->targets == NULL)
    options->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  return TRUE;
}

SondeOptions *
sonde_options_parse (GVariant *dict, GUnixFDList *fds, GError **error)
{
  g_autoptr (SondeOptions) self = g_new0 (SondeOptions, 1);
  Parser parser = { .options = self, .fds = fds };
  g_autoptr (GVariant) value = NULL;
  const char *key;
  guint32 seen = 0;
  gsize n_entries = g_variant_n_children (dict);

  self->event = SONDE_EVENT_AUTO;
  self->frequency_hz = 1000;
  self->children = TRUE;
  self->symbols = TRUE;
  self->unwind = SONDE_UNWIND_DWARF;
  self->stack_size_bytes = 16384;
  self->max_depth = 256;

  for (gsize i = 0; i < n_entries; i++)
    {
      g_autoptr (GVariant) entry = g_variant_get_child_value (dict, i);

      g_clear_pointer (&value, g_variant_unref);
      g_variant_get (entry, "{&sv}", &key, &value);
      if (!parse_entry (&parser, &seen, key, value, error))
        return NULL;
    }
  return finish (&parser, error) ? g_steal_pointer (&self) : NULL;
}

void
sonde_options_free (SondeOptions *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->targets, g_ptr_array_unref);
  g_free (self->unit);
  g_free (self);
}

const char *
sonde_options_action (const SondeOptions *self, gint64 paranoid)
{
  if (self->raw)
    return "org.sonde.profiler1.raw-data";
  if (self->scope == SONDE_SCOPE_SYSTEM || self->event == SONDE_EVENT_TRACEPOINT)
    return "org.sonde.profiler1.profile-system";
  if (self->scope == SONDE_SCOPE_PIDS || self->scope == SONDE_SCOPE_UNIT)
    return "org.sonde.profiler1.profile-others";
  if (self->kernel)
    return "org.sonde.profiler1.profile-own-kernel";
  /* An administrator who closed perf to users is not overruled silently. */
  return paranoid >= 3 ? "org.sonde.profiler1.profile-own-restricted"
                       : "org.sonde.profiler1.profile-own";
}
