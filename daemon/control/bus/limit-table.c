/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/bus/limit-table.h"

#include "daemon/base/limits.h"
#include "daemon/base/message.h"
#include "daemon/control/request/options.h"

static const struct
{
  const char *name;
  guint64 value;
  gboolean is_wide; /* type t, else u */
  gsize setting;    /* 1 + its offset in SondeSettings, instead of the value */
} limits[] = {
#define SETTING(member) 1 + G_STRUCT_OFFSET (SondeSettings, member)
  { "sessions", 0, FALSE, SETTING (sessions) },
  { "sessions-root", 0, FALSE, SETTING (sessions_root) },
  { "sessions-machine", 0, FALSE, SETTING (sessions_machine) },
  { "kept", SONDE_LIMIT_KEPT_US, TRUE, 0 },
  { "kept-sessions", SONDE_LIMIT_KEPT_PER_UID, FALSE, 0 },
  { "brokers", SONDE_LIMIT_STUCK_BROKERS, FALSE, 0 },
  { "starts", SONDE_LIMIT_START_BURST, FALSE, 0 },
  { "start-interval", SONDE_LIMIT_START_INTERVAL_US, TRUE, 0 },
  { "additions", SONDE_LIMIT_ADD_BURST, FALSE, 0 },
  { "addition-interval", SONDE_LIMIT_ADD_INTERVAL_US, TRUE, 0 },
  { "calls", SONDE_LIMIT_CALLS, FALSE, 0 },
  { "message-entries", SONDE_LIMIT_MESSAGE_ENTRIES, FALSE, 0 },
  { "message-text", SONDE_LIMIT_MESSAGE_TEXT, FALSE, 0 },
  { "closers", SONDE_LIMIT_CLOSERS, FALSE, 0 },
  { "targets", SONDE_LIMIT_TARGETS, FALSE, 0 },
  { "session-targets", SONDE_LIMIT_SESSION_TARGETS, FALSE, 0 },
  { "unit-groups", SONDE_LIMIT_UNIT_GROUPS, FALSE, 0 },
  { "events", SONDE_LIMIT_EVENTS, FALSE, 0 },
  { "sinks", SONDE_LIMIT_SINKS, FALSE, 0 },
  { "sink-pids", SONDE_MESSAGE_SINK_MAX_PIDS, FALSE, 0 },
  { "controls", SONDE_LIMIT_CONTROLS, FALSE, 0 },
  { "rings", SONDE_LIMIT_RINGS, FALSE, 0 },
  { "ring-memory", SONDE_LIMIT_RING_MEMORY_BYTES, TRUE, 0 },
  { "perf-rings", SONDE_LIMIT_RING_BYTES, TRUE, 0 },
  { "uid-cpu-percent", 0, FALSE, SETTING (uid_cpu_percent) },
  { "uid-memory-bytes", 0, TRUE, SETTING (uid_memory_bytes) },
  { "capture-bytes", 0, TRUE, SETTING (capture_bytes) },
  { "capture-uid-bytes", 0, TRUE, SETTING (capture_uid_bytes) },
  { "capture-files", SONDE_LIMIT_CAPTURE_FILES, FALSE, 0 },
  { "capture-free-percent", 0, FALSE, SETTING (capture_free_percent) },
  { "capture-machine-bytes", 0, TRUE, SETTING (capture_machine_bytes) },
  { "capture-machine-files", SONDE_LIMIT_CAPTURE_MACHINE_FILES, FALSE, 0 },
  { "capture-days", 0, FALSE, SETTING (capture_days) },
  { "descriptors", SONDE_LIMIT_SHARE_PERCENT, FALSE, 0 },
};

static void
add (GVariantBuilder *builder, const char *name, guint64 value, gboolean is_wide)
{
  g_variant_builder_add (builder, "{sv}", name,
                         is_wide ? g_variant_new_uint64 (value)
                                 : g_variant_new_uint32 ((guint32) value));
}

GVariant *
sonde_limit_table_to_variant (const SondeSettings *settings)
{
  const SondeOptionRow *row;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
    add (&builder, limits[i].name,
         limits[i].setting == 0 ? limits[i].value
                                : G_STRUCT_MEMBER (guint64, settings, limits[i].setting - 1),
         limits[i].is_wide);
  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    if ((row->flags & SONDE_OPTION_LIMITED) != 0)
      add (&builder, row->key, row->max, row->type[0] == 't');
  return g_variant_builder_end (&builder);
}
