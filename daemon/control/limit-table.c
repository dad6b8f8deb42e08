/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The quotas of daemon/base/limits.h by the names that clients know. */
#include "daemon/control/limit-table.h"

#include "daemon/base/limits.h"
#include "daemon/base/message.h"

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
  { "starts", SONDE_LIMIT_START_BURST, FALSE, 0 },
  { "start-interval", SONDE_LIMIT_START_INTERVAL_US, TRUE, 0 },
  { "additions", SONDE_LIMIT_ADD_BURST, FALSE, 0 },
  { "addition-interval", SONDE_LIMIT_ADD_INTERVAL_US, TRUE, 0 },
  { "calls", SONDE_LIMIT_CALLS, FALSE, 0 },
  { "targets", SONDE_LIMIT_TARGETS, FALSE, 0 },
  { "session-targets", SONDE_LIMIT_SESSION_TARGETS, FALSE, 0 },
  { "unit-groups", SONDE_LIMIT_UNIT_GROUPS, FALSE, 0 },
  { "events", SONDE_LIMIT_EVENTS, FALSE, 0 },
  { "sinks", SONDE_LIMIT_SINKS, FALSE, 0 },
  { "sink-pids", SONDE_MESSAGE_SINK_MAX_PIDS, FALSE, 0 },
  { "buffer-size", SONDE_LIMIT_SINK_BUFFER_MAX, FALSE, 0 },
  { "controls", SONDE_LIMIT_CONTROLS, FALSE, 0 },
  { "rings", SONDE_LIMIT_RINGS, FALSE, 0 },
  { "ring-memory", SONDE_LIMIT_RING_MEMORY_BYTES, TRUE, 0 },
  { "perf-rings", SONDE_LIMIT_RING_BYTES, TRUE, 0 },
  { "capture-bytes", 0, TRUE, SETTING (capture_bytes) },
  { "capture-uid-bytes", 0, TRUE, SETTING (capture_uid_bytes) },
  { "capture-files", SONDE_LIMIT_CAPTURE_FILES, FALSE, 0 },
  { "capture-free-percent", 0, FALSE, SETTING (capture_free_percent) },
  { "frequency", SONDE_LIMIT_FREQUENCY, FALSE, 0 },
  { "stack-size", SONDE_LIMIT_STACK_SIZE_MAX, FALSE, 0 },
  { "max-depth", SONDE_LIMIT_DEPTH, FALSE, 0 },
  { "duration", SONDE_LIMIT_DURATION_US, TRUE, 0 },
  { "descriptors", SONDE_LIMIT_SHARE_PERCENT, FALSE, 0 },
};

const char *
sonde_limit_table_name (gsize index)
{
  return index < G_N_ELEMENTS (limits) ? limits[index].name : NULL;
}

static guint64
value_of (gsize index, const SondeSettings *settings)
{
  return limits[index].setting == 0
             ? limits[index].value
             : G_STRUCT_MEMBER (guint64, settings, limits[index].setting - 1);
}

GVariant *
sonde_limit_table_to_variant (const SondeSettings *settings)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      guint64 value = value_of (i, settings);

      g_variant_builder_add (&builder, "{sv}", limits[i].name,
                             limits[i].is_wide ? g_variant_new_uint64 (value)
                                               : g_variant_new_uint32 ((guint32) value));
    }
  return g_variant_builder_end (&builder);
}
