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
} limits[] = {
  { "sessions", SONDE_LIMIT_SESSIONS, FALSE },
  { "sessions-root", SONDE_LIMIT_SESSIONS_ROOT, FALSE },
  { "sessions-machine", SONDE_LIMIT_SESSIONS_MACHINE, FALSE },
  { "kept", SONDE_LIMIT_KEPT_US, TRUE },
  { "kept-sessions", SONDE_LIMIT_KEPT_PER_UID, FALSE },
  { "starts", SONDE_LIMIT_START_BURST, FALSE },
  { "start-interval", SONDE_LIMIT_START_INTERVAL_US, TRUE },
  { "additions", SONDE_LIMIT_ADD_BURST, FALSE },
  { "addition-interval", SONDE_LIMIT_ADD_INTERVAL_US, TRUE },
  { "calls", SONDE_LIMIT_CALLS, FALSE },
  { "targets", SONDE_LIMIT_TARGETS, FALSE },
  { "session-targets", SONDE_LIMIT_SESSION_TARGETS, FALSE },
  { "unit-groups", SONDE_LIMIT_UNIT_GROUPS, FALSE },
  { "events", SONDE_LIMIT_EVENTS, FALSE },
  { "sinks", SONDE_LIMIT_SINKS, FALSE },
  { "sink-pids", SONDE_MESSAGE_SINK_MAX_PIDS, FALSE },
  { "buffer-size", SONDE_LIMIT_SINK_BUFFER_MAX, FALSE },
  { "rings", SONDE_LIMIT_RINGS, FALSE },
  { "ring-memory", SONDE_LIMIT_RING_MEMORY_BYTES, TRUE },
  { "perf-rings", SONDE_LIMIT_RING_BYTES, TRUE },
  { "capture-bytes", SONDE_LIMIT_CAPTURE_BYTES, TRUE },
  { "capture-uid-bytes", SONDE_LIMIT_CAPTURE_UID_BYTES, TRUE },
  { "capture-files", SONDE_LIMIT_CAPTURE_FILES, FALSE },
  { "capture-free-percent", SONDE_LIMIT_CAPTURE_FREE_PERCENT, FALSE },
  { "frequency", SONDE_LIMIT_FREQUENCY, FALSE },
  { "stack-size", SONDE_LIMIT_STACK_SIZE_MAX, FALSE },
  { "max-depth", SONDE_LIMIT_DEPTH, FALSE },
  { "duration", SONDE_LIMIT_DURATION_US, TRUE },
  { "descriptors", SONDE_LIMIT_SHARE_PERCENT, FALSE },
};

const char *
sonde_limit_table_name (gsize index)
{
  return index < G_N_ELEMENTS (limits) ? limits[index].name : NULL;
}

GVariant *
sonde_limit_table_to_variant (void)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
    g_variant_builder_add (&builder, "{sv}", limits[i].name,
                           limits[i].is_wide ? g_variant_new_uint64 (limits[i].value)
                                             : g_variant_new_uint32 ((guint32) limits[i].value));
  return g_variant_builder_end (&builder);
}
