/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a caller asked for, parsed once and frozen. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "daemon/base/message.h"
#include "daemon/control/target.h"

typedef enum
{
  SONDE_SCOPE_TARGETS,
  SONDE_SCOPE_LAUNCH,
  SONDE_SCOPE_PIDS,
  SONDE_SCOPE_UNIT,
  SONDE_SCOPE_SYSTEM,
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
  guint64 duration_us; /* 0: until stopped */
} SondeOptions;

/**
 * sonde_options_parse:
 * @dict: a value of type a{sv}
 * @fds: (nullable): the message's descriptors; each must be used by @dict exactly once
 *
 * Errors: SONDE_ERROR_INVALID_OPTION, whose message names the key
 */
SondeOptions *sonde_options_parse (GVariant *dict, GUnixFDList *fds, GError **error);
/* Accepts NULL. */
void sonde_options_free (SondeOptions *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeOptions, sonde_options_free)

/* A value of type a(uh): (element-type SondeTarget). @key names it in errors. */
GPtrArray *
sonde_options_parse_targets (GVariant *value, GUnixFDList *fds, const char *key, GError **error);

/* The polkit action that these options need. @paranoid: kernel.perf_event_paranoid */
const char *sonde_options_action (const SondeOptions *self, gint64 paranoid);

/* "targets", "launch", "pids", "unit", "system". */
const char *sonde_scope_name (SondeScope scope);
/* "auto", "cycles", ...; not for tracepoints */
const char *sonde_event_choice_name (SondeEventChoice event);
