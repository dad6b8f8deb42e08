/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/bus/service.h"

#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/request/options.h"
#include "daemon/base/proc-text.h"

static char *
session_path (guint64 id)
{
  return g_strdup_printf (SONDE_SESSION_PATH "/%" G_GUINT64_FORMAT, id);
}

static void
on_started (guint64 id, int capture_fd, const GError *error, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autofree char *path = session_path (id);

  if (error != NULL)
    sonde_call_fail (call, error);
  else if (capture_fd >= 0)
    sonde_call_return_fd (call, g_variant_new ("(oh)", path, 0), capture_fd);
  else
    sonde_call_return (call, g_variant_new ("(o)", path), NULL);
}

static void
start (SondeCall *call)
{
  sonde_session_manager_start (call->bus->manager, call->caller, g_steal_pointer (&call->options),
                               call->member->is_lasting, on_started, call);
}

static void
list_sessions (SondeCall *call)
{
  g_autoptr (GPtrArray) sessions = sonde_session_manager_list (call->bus->manager);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ousts)"));
  for (guint i = 0; i < sessions->len; i++)
    {
      const SondeSession *session = g_ptr_array_index (sessions, i);
      uid_t uid = sonde_session_facts (session)->owner_uid;
      g_autofree char *path = session_path (sonde_session_facts (session)->id);

      if (call->sees_all || uid == call->caller->uid)
        g_variant_builder_add (&builder, "(ousts)", path, (guint32) uid,
                               sonde_session_state_name (session),
                               sonde_session_facts (session)->start_time_us,
                               sonde_session_facts (session)->description);
    }
  sonde_call_return (call, g_variant_new ("(a(ousts))", &builder), NULL);
}

/* Whoever asks again is told once, of what he may see now. */
static void
subscribe (SondeCall *call)
{
  GPtrArray *subscribers = call->bus->subscribers;
  SondeSubscriber *own = NULL;
  guint n_of_uid = 0;

  for (guint i = 0; i < subscribers->len; i++)
    {
      SondeSubscriber *subscriber = g_ptr_array_index (subscribers, i);

      n_of_uid += subscriber->caller->uid == call->caller->uid;
      if (subscriber->caller == call->caller)
        own = subscriber;
    }
  if (own == NULL && n_of_uid >= SONDE_LIMIT_SUBSCRIBERS)
    {
      g_autoptr (GError) error
          = g_error_new (SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                         "Limit subscribers: at most %d connections", SONDE_LIMIT_SUBSCRIBERS);

      sonde_call_fail (call, error);
      return;
    }
  /* Nobody would take out one who has left. */
  if (own == NULL && !g_cancellable_is_cancelled (call->caller->left))
    {
      own = g_new0 (SondeSubscriber, 1);
      own->caller = sonde_caller_ref (call->caller);
      g_ptr_array_add (subscribers, own);
    }
  if (own != NULL)
    own->sees_all = call->sees_all;
  sonde_call_return (call, NULL, NULL);
}

/* NULL: this service keeps none, and the call has failed. */
static SondeCaptureStore *
get_store (SondeCall *call)
{
  SondeCaptureStore *store = sonde_session_manager_store (call->bus->manager);

  if (store == NULL)
    sonde_call_fail_with (
        call, SONDE_ERROR_NOT_SUPPORTED,
        "This service has no place for capture files (see the property Features)");
  return store;
}

static void
on_listed (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeCall *call = user_data;
  GVariantBuilder builder;

  if (error != NULL)
    {
      sonde_call_fail (call, error);
      return;
    }
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssttu)"));
  for (guint i = 0; i < answer->captures->len; i++)
    {
      const SondeStoredCapture *capture = g_ptr_array_index (answer->captures, i);

      g_variant_builder_add (&builder, "(ssttu)", capture->name, capture->label, capture->start_us,
                             capture->size_bytes, (guint32) capture->owner_uid);
    }
  sonde_call_return (call, g_variant_new ("(a(ssttu))", &builder), NULL);
}

static void
list_captures (SondeCall *call)
{
  SondeCaptureStore *store = get_store (call);

  if (store != NULL)
    sonde_capture_store_ask (store, SONDE_STORE_LIST, call->caller->uid, NULL,
                             call->sees_all != FALSE, on_listed, call);
}

static void
on_capture_opened (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  if (error != NULL)
    sonde_call_fail (user_data, error);
  else
    sonde_call_return_fd (user_data, g_variant_new ("(h)", 0), sonde_steal_fd (&answer->fd));
}

static void
open_stored_capture (SondeCall *call)
{
  SondeCaptureStore *store = get_store (call);

  if (store != NULL)
    sonde_capture_store_ask (store, SONDE_STORE_OPEN_STORED, call->caller->uid, call->object, 0,
                             on_capture_opened, call);
}

static void
on_removed (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autofree char *detail = NULL;

  if (error != NULL)
    {
      sonde_call_fail (call, error);
      return;
    }
  detail = g_strdup_printf ("%s: asked for by uid %u", call->object, (guint) call->caller->uid);
  sonde_audit ("capture-removed", 0, answer->owner_uid, detail);
  sonde_call_return (call, NULL, NULL);
}

static void
remove_capture (SondeCall *call)
{
  SondeCaptureStore *store = get_store (call);

  if (store != NULL)
    sonde_capture_store_ask (store, SONDE_STORE_REMOVE, call->caller->uid, call->object, 0,
                             on_removed, call);
}

static void
on_stopped (GVariant *statistics, const GError *error, gpointer user_data)
{
  if (error != NULL)
    sonde_call_fail (user_data, error);
  else
    sonde_call_return (user_data, g_variant_new ("(@a{st})", statistics), NULL);
}

static void
stop (SondeCall *call)
{
  sonde_session_stop_for (call->session, on_stopped, call);
}

static void
switch_sampling (SondeCall *call, SondeSessionStep step)
{
  g_autoptr (GError) error = NULL;

  if (sonde_session_switch (call->session, step, &error))
    sonde_call_return (call, NULL, NULL);
  else
    sonde_call_fail (call, error);
}

static void
pause_session (SondeCall *call)
{
  switch_sampling (call, SONDE_STEP_PAUSE);
}

static void
resume_session (SondeCall *call)
{
  switch_sampling (call, SONDE_STEP_RESUME);
}

static void
open_capture (SondeCall *call)
{
  g_autoptr (GVariant) dict = sonde_call_argument (call, 0);
  SondeStreamOptions options;
  g_autoptr (GError) error = NULL;
  gboolean is_over = sonde_session_is_over (call->session);
  int fd = -1;

  /* First, so that a wrong key is refused alike in every state. */
  if (!sonde_stream_options_parse (dict, &options, &error))
    sonde_call_fail (call, error);
  else if (is_over && g_variant_n_children (dict) > 0)
    {
      /* A finished file is as it is: nothing of it can be chosen. */
      g_autoptr (GVariant) first = g_variant_get_child_value (dict, 0);
      const char *key;

      g_variant_get_child (first, 0, "&s", &key);
      sonde_option_refuse (&error, key, "the capture of a finished session takes none");
      sonde_call_fail (call, error);
    }
  else if (is_over)
    {
      if (!sonde_session_open_file (call->session, on_capture_opened, call, &error))
        sonde_call_fail (call, error);
    }
  else
    {
      fd = sonde_session_open_stream (call->session, call->caller->name, &options, &error);
      if (fd < 0)
        sonde_call_fail (call, error);
      else
        sonde_call_return_fd (call, g_variant_new ("(h)", 0), fd);
    }
}

static void
on_snapped (int fd, const GError *error, gpointer user_data)
{
  if (error != NULL)
    sonde_call_fail (user_data, error);
  else
    sonde_call_return_fd (user_data, g_variant_new ("(h)", 0), fd);
}

static void
take_snapshot (SondeCall *call)
{
  g_autoptr (GVariant) dict = sonde_call_argument (call, 0);
  SondeSnapshots *snapshots = sonde_session_manager_snapshots (call->bus->manager);
  SondeSnapshot *place = NULL;
  g_autoptr (GError) error = NULL;

  if (sonde_options_check_none (dict, &error)
      && sonde_session_check_snapshot (call->session, &error))
    place = sonde_snapshots_begin (snapshots, call->caller->uid, &error);
  if (place == NULL)
    sonde_call_fail (call, error);
  else
    sonde_session_snapshot (call->session, place, on_snapped, call);
}

static void
open_control (SondeCall *call)
{
  g_autoptr (GError) error = NULL;
  int fd = sonde_session_open_control (call->session, &error);

  if (fd < 0)
    sonde_call_fail (call, error);
  else
    sonde_call_return_fd (call, g_variant_new ("(h)", 0), fd);
}

static void
on_added (const GError *error, gpointer user_data)
{
  if (error != NULL)
    sonde_call_fail (user_data, error);
  else
    sonde_call_return (user_data, NULL, NULL);
}

static void
add_process (SondeCall *call)
{
  g_autoptr (GVariant) value = sonde_call_argument (call, 0);
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) targets = sonde_options_parse_targets (value, call->fds, "targets", &error);

  if (targets != NULL
      && sonde_session_manager_check_addition (call->bus->manager, call->caller->uid, &error))
    sonde_session_add_targets (call->session, g_steal_pointer (&targets), on_added, call);
  else
    sonde_call_fail (call, error);
}

static GVariant *
get_version (SondeCall *call)
{
  return g_variant_new_string (SONDE_VERSION);
}

static GVariant *
get_events (SondeCall *call)
{
  const SondeMessageSheet *sheet = sonde_peer_launcher_sheet (call->bus->launcher);
  GVariantBuilder builder;
  const char *name;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; (name = sonde_event_choice_names[i]) != NULL; i++)
    if ((sheet->events >> i & 1) != 0)
      g_variant_builder_add (&builder, "s", name);
  for (guint i = 0; (name = sonde_tracepoint_name (i)) != NULL; i++)
    if ((sheet->tracepoints >> i & 1) != 0)
      g_variant_builder_add (&builder, "s", name);
  return g_variant_builder_end (&builder);
}

static GVariant *
get_features (SondeCall *call)
{
  const char *started = g_getenv ("SYSTEMD_EXEC_PID");
  guint64 pid;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  g_variant_builder_add (&builder, "s", "collectors");
  g_variant_builder_add (&builder, "s", "counters");
  g_variant_builder_add (&builder, "s", "open-capture");
  g_variant_builder_add (&builder, "s", "pause");
  g_variant_builder_add (&builder, "s", "recorder");
  /* As sd_booted() decides; in the root of our unit that folder is not, but systemd tells whom it
   * has started. Source: systemd.exec(5), SYSTEMD_EXEC_PID */
  if (g_file_test ("/run/systemd/system", G_FILE_TEST_IS_DIR)
      || (started != NULL && g_ascii_string_to_unsigned (started, 10, 1, G_MAXINT, &pid, NULL)
          && (pid_t) pid == getpid ()))
    g_variant_builder_add (&builder, "s", "unit");
  if (sonde_session_manager_store (call->bus->manager) != NULL)
    g_variant_builder_add (&builder, "s", "start-session");
  return g_variant_builder_end (&builder);
}

/* The quotas of daemon/base/limits.h by the names that clients know, units in
 * docs/org.sonde.Profiler1.5.rst. Each LimitExceeded says "Limit NAME: ...". The maxima of options
 * are in their rows. */
static const struct
{
  const char *name;
  guint64 value;    /* 0: the setting of that name */
  gboolean is_wide; /* type t, else u */
} limits[] = {
  { "sessions", 0, FALSE },
  { "sessions-root", 0, FALSE },
  { "sessions-machine", 0, FALSE },
  { "kept", SONDE_LIMIT_KEPT_US, TRUE },
  { "kept-sessions", SONDE_LIMIT_KEPT_PER_UID, FALSE },
  { "brokers", SONDE_LIMIT_STUCK_BROKERS, FALSE },
  { "starts", SONDE_LIMIT_START_BURST, FALSE },
  { "start-interval", SONDE_LIMIT_START_INTERVAL_US, TRUE },
  { "additions", SONDE_LIMIT_ADD_BURST, FALSE },
  { "addition-interval", SONDE_LIMIT_ADD_INTERVAL_US, TRUE },
  { "calls", SONDE_LIMIT_CALLS, FALSE },
  { "message-entries", SONDE_LIMIT_MESSAGE_ENTRIES, FALSE },
  { "message-text", SONDE_LIMIT_MESSAGE_TEXT, FALSE },
  { "closers", SONDE_LIMIT_CLOSERS, FALSE },
  { "targets", SONDE_LIMIT_TARGETS, FALSE },
  { "session-targets", SONDE_LIMIT_SESSION_TARGETS, FALSE },
  { "unit-groups", SONDE_LIMIT_UNIT_GROUPS, FALSE },
  { "events", SONDE_LIMIT_EVENTS, FALSE },
  { "sinks", SONDE_LIMIT_SINKS, FALSE },
  { "subscribers", SONDE_LIMIT_SUBSCRIBERS, FALSE },
  { "snapshots", SONDE_LIMIT_SNAPSHOTS, FALSE },
  { "snapshots-at-once", SONDE_LIMIT_SNAPSHOTS_AT_ONCE, FALSE },
  { "snapshot-bytes", SONDE_LIMIT_SNAPSHOT_BYTES, TRUE },
  { "snapshot-calls", SONDE_LIMIT_SNAPSHOT_BURST, FALSE },
  { "snapshot-interval", SONDE_LIMIT_SNAPSHOT_INTERVAL_US, TRUE },
  { "sink-pids", SONDE_MESSAGE_SINK_MAX_PIDS, FALSE },
  { "controls", SONDE_LIMIT_CONTROLS, FALSE },
  { "rings", SONDE_LIMIT_RINGS, FALSE },
  { "ring-memory", SONDE_LIMIT_RING_MEMORY_BYTES, TRUE },
  { "perf-rings", SONDE_LIMIT_RING_BYTES, TRUE },
  { "uid-cpu-percent", 0, FALSE },
  { "uid-memory-bytes", 0, TRUE },
  { "capture-bytes", 0, TRUE },
  { "capture-uid-bytes", 0, TRUE },
  { "capture-files", SONDE_LIMIT_CAPTURE_FILES, FALSE },
  { "capture-free-percent", 0, FALSE },
  { "capture-machine-bytes", 0, TRUE },
  { "capture-machine-files", SONDE_LIMIT_CAPTURE_MACHINE_FILES, FALSE },
  { "capture-days", 0, FALSE },
  { "descriptors", SONDE_LIMIT_SHARE_PERCENT, FALSE },
};

static void
add_limit (GVariantBuilder *builder, const char *name, guint64 value, gboolean is_wide)
{
  g_variant_builder_add (builder, "{sv}", name,
                         is_wide ? g_variant_new_uint64 (value)
                                 : g_variant_new_uint32 ((guint32) value));
}

GVariant *
sonde_service_limits (const SondeSettings *settings)
{
  const SondeOptionRow *row;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
    add_limit (&builder, limits[i].name,
               limits[i].value != 0 ? limits[i].value
                                    : sonde_settings_limit (settings, limits[i].name),
               limits[i].is_wide);
  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    if ((row->flags & SONDE_OPTION_LIMITED) != 0)
      add_limit (&builder, row->key, row->max, row->type[0] == 't');
  return g_variant_builder_end (&builder);
}

static GVariant *
get_limits (SondeCall *call)
{
  return sonde_service_limits (call->bus->settings);
}

static GVariant *
get_preloads (SondeCall *call)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  g_variant_builder_add (&builder, "{ss}", "memory", SONDE_PRELOADS "/libsonde-memory.so");
  g_variant_builder_add (&builder, "{ss}", "trace", SONDE_PRELOADS "/libsonde-tracer.so");
  return g_variant_builder_end (&builder);
}

/* Anybody reads the same in /proc. */
static GVariant *
get_daemon_statistics (SondeCall *call)
{
  guint64 uptime_us = (guint64) (g_get_monotonic_time () - call->bus->start_us);
  SondeProcCost cost = { 0 };
  GVariantBuilder builder;

  sonde_proc_cost_measure (getpid (), &cost);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{st}"));
  g_variant_builder_add (&builder, "{st}", "daemon-uptime-us", uptime_us);
  g_variant_builder_add (&builder, "{st}", "daemon-cpu-us", cost.cpu_us);
  g_variant_builder_add (&builder, "{st}", "daemon-memory-bytes", cost.memory_bytes);
  return g_variant_builder_end (&builder);
}

static GVariant *
get_state (SondeCall *call)
{
  return g_variant_new_string (sonde_session_state_name (call->session));
}

static GVariant *
get_statistics (SondeCall *call)
{
  return sonde_session_statistics (call->session);
}

static const SondeMember members[] = {
  { SONDE_MANAGER_INTERFACE, "Profile", SONDE_GATE_START, .handler = start },
  { SONDE_MANAGER_INTERFACE, "StartSession", SONDE_GATE_START, .handler = start,
    .is_lasting = TRUE },
  { SONDE_MANAGER_INTERFACE, "ListSessions", SONDE_GATE_LIST, .handler = list_sessions },
  { SONDE_MANAGER_INTERFACE, "Subscribe", SONDE_GATE_SUBSCRIBE, .handler = subscribe },
  { SONDE_MANAGER_INTERFACE, "ListCaptures", SONDE_GATE_LIST_CAPTURES, .handler = list_captures },
  { SONDE_MANAGER_INTERFACE, "OpenStoredCapture", SONDE_GATE_CAPTURE,
    .handler = open_stored_capture },
  { SONDE_MANAGER_INTERFACE, "RemoveCapture", SONDE_GATE_CAPTURE, .handler = remove_capture },
  { SONDE_SESSION_INTERFACE, "Stop", SONDE_GATE_MANAGE, .handler = stop },
  { SONDE_SESSION_INTERFACE, "Pause", SONDE_GATE_MANAGE, .handler = pause_session },
  { SONDE_SESSION_INTERFACE, "Resume", SONDE_GATE_MANAGE, .handler = resume_session },
  { SONDE_SESSION_INTERFACE, "OpenCapture", SONDE_GATE_USE, .handler = open_capture },
  { SONDE_SESSION_INTERFACE, "Snapshot", SONDE_GATE_USE, .handler = take_snapshot },
  { SONDE_SESSION_INTERFACE, "OpenControl", SONDE_GATE_USE, .handler = open_control },
  { SONDE_SESSION_INTERFACE, "AddProcess", SONDE_GATE_USE, .handler = add_process },

  { SONDE_MANAGER_INTERFACE, "Version", SONDE_GATE_ANYONE, .get = get_version },
  { SONDE_MANAGER_INTERFACE, "Events", SONDE_GATE_ANYONE, .get = get_events },
  { SONDE_MANAGER_INTERFACE, "Features", SONDE_GATE_ANYONE, .get = get_features },
  { SONDE_MANAGER_INTERFACE, "Limits", SONDE_GATE_ANYONE, .get = get_limits },
  { SONDE_MANAGER_INTERFACE, "Preloads", SONDE_GATE_ANYONE, .get = get_preloads },
  { SONDE_MANAGER_INTERFACE, "Statistics", SONDE_GATE_ANYONE, .get = get_daemon_statistics },
  { SONDE_SESSION_INTERFACE, "State", SONDE_GATE_USE, .get = get_state },
  { SONDE_SESSION_INTERFACE, "Owner", SONDE_GATE_USE, .fact = "owner-uid" },
  { SONDE_SESSION_INTERFACE, "StartTime", SONDE_GATE_USE, .fact = "start-time" },
  { SONDE_SESSION_INTERFACE, "Description", SONDE_GATE_USE, .fact = "description" },
  { SONDE_SESSION_INTERFACE, "Options", SONDE_GATE_USE, .fact = "options" },
  { SONDE_SESSION_INTERFACE, "Rendezvous", SONDE_GATE_USE, .fact = "rendezvous" },
  { SONDE_SESSION_INTERFACE, "CaptureFile", SONDE_GATE_USE, .fact = "capture-file" },
  { SONDE_SESSION_INTERFACE, "Statistics", SONDE_GATE_USE, .get = get_statistics },
};

const SondeMember *
sonde_service_members (gsize *n_members)
{
  *n_members = G_N_ELEMENTS (members);
  return members;
}

const SondeMember *
sonde_service_find (const char *interface, const char *name, gboolean is_method)
{
  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    if ((members[i].handler != NULL) == is_method && g_str_equal (members[i].interface, interface)
        && (name == NULL || g_str_equal (members[i].name, name)))
      return &members[i];
  return NULL;
}
