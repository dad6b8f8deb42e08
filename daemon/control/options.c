/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a caller asked for, parsed once and frozen. */
#include "daemon/control/options.h"

#include <limits.h>
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/control/option-table.h"
#include "daemon/control/tracepoint.h"
#include "daemon/control/unit.h"

static const char *const scope_names[] = { "targets", "launch", "pids", "unit", "system" };
static const char *const event_names[]
    = { "auto", "cycles", "instructions", "cpu-clock", "none", NULL };
/* In the order of SondeUnwindMode. */
static const char *const unwind_names[] = { "none", "frame-pointer", "dwarf", "libdwfl", NULL };
static const char *const symbols_names[] = { "none", "end", NULL };
static const char *const memory_names[] = { "off", "all", "sampled", NULL };
/* In the order of the bits of SONDE_COUNTERS_*. */
static const char *const counters_names[] = { "cpu", "memory", "network", "disk", "process", NULL };
static const char *const format_names[] = { "syscap", NULL };

#define LABEL_CHARACTERS G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_.-"

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

const char *
sonde_options_event_name (const SondeOptions *self)
{
  return self->tracepoint != NULL ? self->tracepoint : sonde_event_choice_name (self->event);
}

const char *
sonde_memory_mode_name (SondeMemoryMode mode)
{
  return memory_names[mode];
}

const char *
sonde_unwind_mode_name (SondeUnwindMode mode)
{
  return unwind_names[mode];
}

const char *
sonde_counters_name (gsize index)
{
  return counters_names[index];
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
      = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
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
      if (!sonde_option_check_pid (pid, key, error))
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
      g_ptr_array_add (targets, sonde_target_new ((pid_t) pid, fd));
    }
  return g_steal_pointer (&targets);
}

static gboolean
parse_targets (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  if (!set_scope (parser, key, SONDE_SCOPE_TARGETS, error))
    return FALSE;
  parser->options->targets = sonde_options_parse_targets (value, parser->fds, key, error);
  parser->fds = NULL;
  return parser->options->targets != NULL;
}

static gboolean
parse_pids (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  gsize n_pids = g_variant_n_children (value);

  if (!set_scope (parser, key, SONDE_SCOPE_PIDS, error) || !check_n_targets (n_pids, key, error))
    return FALSE;
  parser->options->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  for (gsize i = 0; i < n_pids; i++)
    {
      guint32 pid;

      g_variant_get_child (value, i, "u", &pid);
      if (!sonde_option_check_pid (pid, key, error))
        return FALSE;
      g_ptr_array_add (parser->options->targets, sonde_target_new_unproven ((pid_t) pid));
    }
  return TRUE;
}

/* false is as if the key were not there. */
static gboolean
parse_launch (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return !g_variant_get_boolean (value) || set_scope (parser, key, SONDE_SCOPE_LAUNCH, error);
}

static gboolean
parse_system (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return !g_variant_get_boolean (value) || set_scope (parser, key, SONDE_SCOPE_SYSTEM, error);
}

static gboolean
parse_unit (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  const char *unit = g_variant_get_string (value, NULL);

  if (!set_scope (parser, key, SONDE_SCOPE_UNIT, error))
    return FALSE;
  if (!sonde_unit_is_name (unit))
    return sonde_option_refuse (error, key, "not the whole name of a service, scope or slice");
  if (sonde_unit_is_everything (unit))
    return sonde_option_refuse (error, key, "that is the whole machine: option system");
  parser->options->unit = g_strdup (unit);
  return TRUE;
}

static gboolean
parse_event (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  guint index;

  parser->options->tracepoint = sonde_tracepoint_find (g_variant_get_string (value, NULL));
  if (parser->options->tracepoint != NULL)
    {
      parser->options->event = SONDE_EVENT_TRACEPOINT;
      return TRUE;
    }
  if (!sonde_option_get_word (value, key, event_names, &index, error))
    return FALSE;
  parser->options->event = (SondeEventChoice) index;
  return TRUE;
}

static gboolean
parse_frequency (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  parser->has_frequency = TRUE;
  return sonde_option_get_uint32 (value, key, 1, SONDE_LIMIT_FREQUENCY,
                                  &parser->options->frequency_hz, error);
}

static gboolean
parse_period (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  parser->has_period = TRUE;
  return sonde_option_get_uint64 (value, key, 1, SONDE_LIMIT_PERIOD_MAX, &parser->options->period,
                                  error);
}

static gboolean
parse_kernel (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  parser->options->kernel = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_raw (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  parser->options->raw = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_start_on_exec (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  parser->options->start_on_exec = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_children (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  parser->options->children = g_variant_get_boolean (value);
  return TRUE;
}

static gboolean
parse_unwind (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  guint index;

  G_STATIC_ASSERT (SONDE_UNWIND_NONE == 0 && SONDE_UNWIND_FRAME_POINTER == 1
                   && SONDE_UNWIND_DWARF == 2 && SONDE_UNWIND_LIBDWFL == 3);

  if (!sonde_option_get_word (value, key, unwind_names, &index, error))
    return FALSE;
  parser->options->unwind = (SondeUnwindMode) index;
  return TRUE;
}

static gboolean
parse_stack_size (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  if (g_variant_get_uint32 (value) % 8 != 0)
    return sonde_option_refuse (error, key, "must be a multiple of 8");
  return sonde_option_get_uint32 (value, key, SONDE_LIMIT_STACK_SIZE_MIN,
                                  SONDE_LIMIT_STACK_SIZE_MAX, &parser->options->stack_size_bytes,
                                  error);
}

static gboolean
parse_max_depth (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return sonde_option_get_uint32 (value, key, 1, SONDE_LIMIT_DEPTH, &parser->options->max_depth,
                                  error);
}

static gboolean
parse_duration (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return sonde_option_get_uint64 (value, key, 0, SONDE_LIMIT_DURATION_US,
                                  &parser->options->duration_us, error);
}

static gboolean
parse_symbols (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  guint index;

  if (!sonde_option_get_word (value, key, symbols_names, &index, error))
    return FALSE;
  parser->options->symbols = index == 1;
  return TRUE;
}

static gboolean
parse_memory (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  guint index;

  if (!sonde_option_get_word (value, key, memory_names, &index, error))
    return FALSE;
  parser->options->memory = (SondeMemoryMode) index;
  return TRUE;
}

static gboolean
parse_memory_interval (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return sonde_option_get_uint64 (value, key, 1, SONDE_LIMIT_MEMORY_INTERVAL,
                                  &parser->options->memory_interval_bytes, error);
}

static gboolean
parse_memory_wait (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return sonde_option_get_uint32 (value, key, 0, SONDE_LIMIT_MEMORY_WAIT_US,
                                  &parser->options->memory_wait_us, error);
}

static gboolean
parse_counters (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  gsize n_words = g_variant_n_children (value);

  for (gsize i = 0; i < n_words; i++)
    {
      g_autoptr (GVariant) word = g_variant_get_child_value (value, i);
      guint index;

      if (!sonde_option_get_word (word, key, counters_names, &index, error))
        return FALSE;
      parser->options->counters |= 1u << index;
    }
  return TRUE;
}

static gboolean
parse_format (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  guint index;

  return sonde_option_get_word (value, key, format_names, &index, error);
}

static gboolean
parse_buffer_size (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;

  return sonde_option_get_uint32 (value, key, SONDE_LIMIT_SINK_BUFFER_MIN,
                                  SONDE_LIMIT_SINK_BUFFER_MAX, &parser->options->buffer_size_bytes,
                                  error);
}

/* Part of a file name, but never one that stands for a folder: more is put behind it. */
static gboolean
parse_label (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  Parser *parser = user_data;
  const char *label = g_variant_get_string (value, NULL);
  gsize length = strspn (label, LABEL_CHARACTERS);

  if (length == 0 || length > SONDE_LIMIT_LABEL || label[length] != '\0')
    return sonde_option_refuse (error, key, "must be 1 to 64 of the characters A-Z a-z 0-9 _ . -");
  g_free (parser->options->label);
  parser->options->label = g_strdup (label);
  return TRUE;
}

static const SondeOptionRow rows[] = {
  { "targets", "a(uh)", parse_targets },
  { "launch", "b", parse_launch },
  { "pids", "au", parse_pids },
  { "unit", "s", parse_unit },
  { "system", "b", parse_system },
  { "event", "s", parse_event },
  { "frequency", "u", parse_frequency },
  { "period", "t", parse_period },
  { "kernel", "b", parse_kernel },
  { "raw", "b", parse_raw },
  { "children", "b", parse_children },
  { "start-on-exec", "b", parse_start_on_exec },
  { "unwind", "s", parse_unwind },
  { "stack-size", "u", parse_stack_size },
  { "max-depth", "u", parse_max_depth },
  { "duration", "t", parse_duration },
  { "symbols", "s", parse_symbols },
  { "memory", "s", parse_memory },
  { "memory-interval", "t", parse_memory_interval },
  { "memory-wait", "u", parse_memory_wait },
  { "counters", "as", parse_counters },
  { "format", "s", parse_format },
  { "buffer-size", "u", parse_buffer_size },
  { "label", "s", parse_label },
};

const char *
sonde_options_key (gsize index)
{
  return index < G_N_ELEMENTS (rows) ? rows[index].key : NULL;
}

/* Every hit of a tracepoint is a sample, unless something else is asked for. */
static gboolean
finish_rate (Parser *parser, GError **error)
{
  SondeOptions *options = parser->options;
  gboolean is_tracepoint = options->event == SONDE_EVENT_TRACEPOINT;

  if (parser->has_frequency && parser->has_period)
    return sonde_option_refuse (error, "period", "excludes option frequency");
  if (parser->has_period && !is_tracepoint && options->period < SONDE_LIMIT_PERIOD_MIN)
    return sonde_option_refuse (error, "period", "below 100000 only with a tracepoint");
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
    return sonde_option_refuse (error, "start-on-exec", "needs the option targets, launch or pids");
  if ((options->counters & SONDE_COUNTERS_PROCESS) != 0
      && (options->scope == SONDE_SCOPE_UNIT || options->scope == SONDE_SCOPE_SYSTEM))
    return sonde_option_refuse (error, "counters",
                                "\"process\" needs the option targets, launch or pids");
  /* Addresses are worth little without their names. */
  options->kernel = options->kernel || options->raw;
  if (parser->fds != NULL && g_unix_fd_list_get_length (parser->fds) != 0)
    return sonde_option_refuse (error, "targets",
                                "the message carries descriptors that no option uses");
  if (options->targets == NULL)
    options->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  if (options->label == NULL)
    options->label = g_strdup ("session");
  return TRUE;
}

SondeOptions *
sonde_options_parse (GVariant *dict, GUnixFDList *fds, GError **error)
{
  g_autoptr (SondeOptions) self = g_new0 (SondeOptions, 1);
  Parser parser = { .options = self, .fds = fds };

  self->event = SONDE_EVENT_AUTO;
  self->frequency_hz = 1000;
  self->children = TRUE;
  self->symbols = TRUE;
  self->unwind = SONDE_UNWIND_DWARF;
  self->stack_size_bytes = 16384;
  self->max_depth = 256;
  self->memory_interval_bytes = 512 * 1024;
  self->buffer_size_bytes = SONDE_LIMIT_SINK_BUFFER;

  if (!sonde_option_table_parse (dict, rows, G_N_ELEMENTS (rows), &parser, error))
    return NULL;
  return finish (&parser, error) ? g_steal_pointer (&self) : NULL;
}

SondeOptions *
sonde_options_restore (GVariant *view, GError **error)
{
  g_autoptr (GVariant) dict = NULL;
  SondeOptions *self;
  GVariantDict changed;
  SondeScope scope = SONDE_SCOPE_LAUNCH;

  /* Processes have no proof in there; a session without any is the one of `launch`. */
  g_variant_dict_init (&changed, view);
  if (g_variant_dict_remove (&changed, "targets"))
    scope = SONDE_SCOPE_TARGETS;
  else if (g_variant_dict_remove (&changed, "pids"))
    scope = SONDE_SCOPE_PIDS;
  if (scope != SONDE_SCOPE_LAUNCH)
    g_variant_dict_insert (&changed, "launch", "b", TRUE);
  dict = g_variant_ref_sink (g_variant_dict_end (&changed));
  self = sonde_options_parse (dict, NULL, error);
  if (self != NULL && scope != SONDE_SCOPE_LAUNCH)
    self->scope = scope;
  return self;
}

void
sonde_options_free (SondeOptions *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->targets, g_ptr_array_unref);
  g_free (self->unit);
  g_free (self->label);
  g_free (self);
}
