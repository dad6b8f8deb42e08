/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a caller asked for, parsed once and frozen. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "daemon/base/message.h"
#include "daemon/control/request/option-table.h"
#include "daemon/control/request/target.h"

typedef enum
{
  SONDE_SCOPE_TARGETS,
  SONDE_SCOPE_LAUNCH,
  SONDE_SCOPE_PIDS,
  SONDE_SCOPE_UNIT,
  SONDE_SCOPE_SYSTEM,
  SONDE_N_SCOPES,
} SondeScope;

typedef enum
{
  SONDE_EVENT_AUTO,
  SONDE_EVENT_CYCLES,
  SONDE_EVENT_INSTRUCTIONS,
  SONDE_EVENT_CPU_CLOCK,
  SONDE_EVENT_NONE,
  SONDE_N_EVENTS,
  SONDE_EVENT_TRACEPOINT = SONDE_N_EVENTS, /* which one: SondeOptions.tracepoint */
} SondeEventChoice;

/* Bits of SondeOptions.counters, in the order of the words. */
enum
{
  SONDE_COUNTERS_CPU = 1 << 0,
  SONDE_COUNTERS_MEMORY = 1 << 1,
  SONDE_COUNTERS_NETWORK = 1 << 2,
  SONDE_COUNTERS_DISK = 1 << 3,
  SONDE_COUNTERS_PROCESS = 1 << 4,
};

/* Read only once made. Keys, units and ranges: dbus/org.sonde.Profiler1.xml. */
typedef struct
{
  SondeScope scope;
  GPtrArray *targets; /* SondeTarget: of `targets` or `pids`; the session takes them */
  char *unit;         /* of the scope `unit` */
  SondeEventChoice event;
  const char *tracepoint; /* of sonde_tracepoint_find(); NULL for other events */
  guint frequency_hz;     /* 0: by period */
  guint64 period;         /* 0: by frequency */
  gboolean kernel;        /* implied by raw */
  gboolean raw;
  gboolean children;
  gboolean start_on_exec;
  gboolean symbols;
  SondeUnwindMode unwind;
  guint stack_size_bytes;
  guint max_depth;
  guint64 duration_us;     /* 0: until stopped */
  guint buffer_size_bytes; /* of the first stream */
  char *label;             /* [A-Za-z0-9_.-]{1,64} */
  SondeMemoryMode memory;
  guint64 memory_interval_bytes;
  guint memory_wait_us;
  guint counters; /* SONDE_COUNTERS_* */
  guint format;   /* 0: syscap */
} SondeOptions;

/**
 * sonde_options_parse:
 * @dict: a value of type a{sv}
 * @fds: (nullable): the message's descriptors; each must be used by @dict exactly once
 *
 * Errors: SONDE_ERROR_INVALID_OPTION; SONDE_ERROR_NOT_SUPPORTED for `counters`; both
 * name the key
 */
SondeOptions *sonde_options_parse (GVariant *dict, GUnixFDList *fds, GError **error);
/**
 * sonde_options_restore:
 * @view: as sonde_options_to_variant() made it, a{sv}
 *
 * The same options, but without the targets, which the session has taken.
 *
 * Errors: as sonde_options_parse()
 */
SondeOptions *sonde_options_restore (GVariant *view, GError **error);
/* Accepts NULL. */
void sonde_options_free (SondeOptions *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeOptions, sonde_options_free)

/* A value of type a(uh): (element-type SondeTarget). @key names it in errors. */
GPtrArray *
sonde_options_parse_targets (GVariant *value, GUnixFDList *fds, const char *key, GError **error);

/* All that is to know of the option at @index, NULL behind the last one. */
const SondeOptionRow *sonde_options_row (gsize index);

/* Before the session has taken the targets. (transfer floating): a{sv}, the property Options */
GVariant *sonde_options_to_variant (const SondeOptions *self);
/* The same. (transfer full): "process 4711", "the whole machine", ...: at most 16 pids are named */
char *sonde_options_describe_scope (const SondeOptions *self);
/* The same. (transfer full): one line, the property Description */
char *sonde_options_describe (const SondeOptions *self);

/* "targets", "launch", "pids", "unit", "system". */
const char *sonde_scope_name (SondeScope scope);
/* "auto", "sched:sched_switch", ...: the option `event`. */
const char *sonde_options_event_name (const SondeOptions *self);
/* "auto", "cycles", ...; not for tracepoints */
const char *sonde_event_choice_name (SondeEventChoice event);
