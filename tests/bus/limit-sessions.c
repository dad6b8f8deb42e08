/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limits of sessions and calls, reached. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/bus/limit-rows.h"
#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/polkit-answer.h"

enum
{
  MAX_SESSIONS = 64, /* more than any limit of them */
};

/* Sessions that stay until this is cleared, and why there are not more. */
typedef struct
{
  GDBusConnection *bus;
  char *sessions[MAX_SESSIONS];
  int captures[MAX_SESSIONS];
  guint n_sessions;
  GError *refusal;
} Sessions;

static void
sessions_clear (Sessions *self)
{
  for (guint i = 0; i < self->n_sessions; i++)
    {
      g_free (self->sessions[i]);
      close (self->captures[i]); /* the last reader: the session ends */
    }
  g_clear_error (&self->refusal);
  g_clear_object (&self->bus);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sessions, sessions_clear)

/* Starts sessions with nothing in them until one is refused. */
static void
sessions_fill (Sessions *self, uid_t uid)
{
  self->bus = bus_connect (uid);
  while (self->n_sessions < MAX_SESSIONS
         && bus_profile (self->bus, g_variant_new_parsed ("{'launch': <true>}"), NULL,
                         &self->sessions[self->n_sessions], &self->captures[self->n_sessions],
                         &self->refusal))
    self->n_sessions++;
}

void
limit_reach_sessions (const char *name)
{
  g_auto (Sessions) sessions = { 0 };

  sessions_fill (&sessions, bus_next_uid ());
  g_assert_cmpuint (sessions.n_sessions, ==, limit_lookup (name));
  limit_assert_refusal (sessions.refusal, name);
}

void
limit_reach_sessions_of_root (const char *name)
{
  g_auto (Sessions) sessions = { 0 };

  sessions_fill (&sessions, 0);
  g_assert_cmpuint (sessions.n_sessions, ==, limit_lookup (name));
  limit_assert_refusal (sessions.refusal, name);
}

/* Users in turn take what they get: less and less, and then nothing. */
void
limit_reach_sessions_of_all (const char *name)
{
  Sessions sessions[MAX_SESSIONS] = { 0 };
  guint64 n_sessions = 0;
  guint n_users = 0;

  do
    {
      sessions_fill (&sessions[n_users], bus_next_uid ());
      n_sessions += sessions[n_users].n_sessions;
    }
  while (sessions[n_users].n_sessions > 0 && ++n_users < MAX_SESSIONS);
  g_test_message ("%u users share them", n_users);
  g_assert_cmpuint (n_sessions, ==, limit_lookup (name));
  limit_assert_refusal (sessions[n_users].refusal, name);
  for (guint i = 0; i <= n_users; i++)
    sessions_clear (&sessions[i]);
}

static guint
count_sessions (GVariant *sessions, guint32 uid)
{
  GVariantIter iter;
  guint32 owner;
  guint n_sessions = 0;

  g_variant_iter_init (&iter, sessions);
  while (g_variant_iter_next (&iter, "(&ou&sts)", NULL, &owner, NULL, NULL, NULL))
    n_sessions += owner == uid;
  return n_sessions;
}

static gboolean
start_and_stop (GDBusConnection *bus, GError **error)
{
  g_autofree char *session = NULL;
  int capture;

  if (!bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture,
                    error))
    return FALSE;
  g_variant_unref (bus_stop (bus, session));
  close (capture);
  return TRUE;
}

typedef struct
{
  GDBusConnection *bus;
  guint n_starts;
} Starts;

static gboolean
may_start_again (gpointer user_data)
{
  Starts *self = user_data;
  gboolean is_started = start_and_stop (self->bus, NULL);

  self->n_starts += is_started;
  return is_started;
}

/* A burst, and then one in each interval: both limits are reached here. */
void
limit_reach_starts (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  gint64 begin_us = g_get_monotonic_time ();
  Starts starts = { .bus = bus };
  g_autoptr (GError) error = NULL;
  guint64 n_intervals;

  while (start_and_stop (bus, &error))
    starts.n_starts++;
  limit_assert_refusal (error, "starts");
  g_assert_cmpuint (starts.n_starts, >=, limit_lookup ("starts"));
  bus_wait (may_start_again, &starts, "the next start");
  n_intervals = (guint64) (g_get_monotonic_time () - begin_us) / limit_lookup ("start-interval");
  g_assert_cmpuint (n_intervals, >, 0);
  g_assert_cmpuint (starts.n_starts, <=, limit_lookup ("starts") + n_intervals);
}

/* Why a session of a process that is nobody's to profile is refused. */
static GError *
start_in_vain (GDBusConnection *bus)
{
  g_autoptr (GUnixFDList) proof = bus_open_proc (getpid (), "maps", O_RDONLY | O_CLOEXEC);
  g_autofree char *session = NULL;
  GError *error = NULL;
  int capture;

  g_assert_false (bus_profile (bus, g_variant_new_parsed ("{'targets': <[(uint32 1, @h 0)]>}"),
                               proof, &session, &capture, &error));
  return error;
}

void
limit_reach_starts_by_refusals (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  gint64 begin_us = g_get_monotonic_time ();
  guint64 n_refused = 0;

  for (;;)
    {
      g_autoptr (GError) error = start_in_vain (bus);
      g_autofree char *name = g_dbus_error_get_remote_error (error);

      if (g_str_has_suffix (name, ".LimitExceeded"))
        {
          limit_assert_refusal (error, "starts");
          break;
        }
      bus_assert_error (error, "NotAuthorized");
      n_refused++;
      g_assert_cmpuint (n_refused, <=,
                        limit_lookup ("starts")
                            + (guint64) (g_get_monotonic_time () - begin_us)
                                  / limit_lookup ("start-interval"));
    }
  g_assert_cmpuint (n_refused, >=, limit_lookup ("starts"));
}

/* Calls that wait for polkit, and one more. */
static void
on_answered (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  g_assert_null (answer); /* polkit says no */
  ++*(guint *) user_data;
}

static gboolean
are_answered (gpointer user_data)
{
  guint *n_pending = user_data;

  return n_pending[0] == n_pending[1];
}

void
limit_reach_calls (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  guint n_calls[2] = { 0, (guint) limit_lookup (name) }; /* answered, sent */
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) sessions = NULL;

  polkit_answer_set (POLKIT_NO);
  polkit_answer_delay (TRUE);
  for (guint i = 0; i < n_calls[1]; i++)
    g_dbus_connection_call (bus, "org.sonde.Profiler1", "/org/sonde/Profiler1",
                            "org.sonde.Profiler1.Manager", "Profile",
                            g_variant_new_parsed ("({'system': <true>},)"), NULL,
                            G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, on_answered, &n_calls[0]);
  sessions = bus_manager_call (bus, "ListSessions", NULL, NULL, &error);
  limit_assert_refusal (error, name);
  polkit_answer_delay (FALSE);
  bus_wait (are_answered, n_calls, "an answer to every call");
  sessions = bus_list_sessions (bus);
  polkit_answer_set (POLKIT_DEFAULTS);
}

/* @options: (transfer floating): a request that is refused before anybody asks what it means */
static void
assert_message_refused (GVariant *options, const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture;

  g_assert_false (bus_profile (bus, options, NULL, &session, &capture, &error));
  limit_assert_refusal (error, name);
}

/* As many are looked at, and refused for what they are; one more, and none is. */
void
limit_reach_message_entries (const char *name)
{
  guint64 most = limit_lookup (name);
  g_autoptr (GString) pids = g_string_new ("{'pids': <[uint32 1");

  /* The dictionary's one entry counts, too. */
  for (guint64 i = 2; i < most; i++)
    g_string_append (pids, ", 1");
  limit_assert_option (g_variant_new_parsed ("{'pids': <[uint32 1, 1]>, 'system': <true>}"),
                       "pids");
  g_string_append (pids, ", 1]>}");
  assert_message_refused (g_variant_new_parsed (pids->str), name);
}

void
limit_reach_message_text (const char *name)
{
  g_autofree char *text = g_strnfill ((gsize) limit_lookup (name), 'x');

  assert_message_refused (g_variant_new_parsed ("{'label': <%s>}", text), name);
}

typedef struct
{
  GDBusConnection *bus;
  const char *session;
  pid_t targets[MAX_SESSIONS];
  int life_fds[MAX_SESSIONS];
  guint n_targets;
  guint n_added;
} Additions;

/* One more process: a new one if none is left over that was refused. */
static gboolean
add_one (Additions *self, uid_t uid, GError **error)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = NULL;
  int proof;

  g_assert_cmpuint (self->n_targets, <, MAX_SESSIONS);
  if (self->n_targets == self->n_added)
    {
      self->targets[self->n_targets]
          = bus_run (uid, limit_target_program, NULL, NULL, &self->life_fds[self->n_targets]);
      self->n_targets++;
    }
  proof = bus_open_proof (uid, self->targets[self->n_added]);
  fds = g_unix_fd_list_new_from_array (&proof, 1);
  answer = bus_session_call (
      self->bus, self->session, "AddProcess",
      g_variant_new_parsed ("([(%u, %h)],)", (guint32) self->targets[self->n_added], 0), fds,
      error);
  self->n_added += answer != NULL;
  return answer != NULL;
}

/* As with starts: a burst, and one in each interval. */
void
limit_reach_additions (const char *name)
{
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  Additions additions = { .bus = bus };
  gint64 begin_us;
  guint64 n_intervals;
  int capture;

  bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture, &error);
  g_assert_no_error (error);
  additions.session = session;
  begin_us = g_get_monotonic_time ();
  while (add_one (&additions, uid, &error))
    ;
  limit_assert_refusal (error, "additions");
  n_intervals = (guint64) (g_get_monotonic_time () - begin_us) / limit_lookup ("addition-interval");
  g_assert_cmpuint (additions.n_added, >=, limit_lookup ("additions"));
  g_assert_cmpuint (additions.n_added, <=, limit_lookup ("additions") + n_intervals);
  close (capture);
  for (guint i = 0; i < additions.n_targets; i++)
    {
      bus_end (additions.targets[i], SIGKILL);
      close (additions.life_fds[i]);
    }
}

/* A session with a recorder, and what was got of it. */
typedef struct
{
  GDBusConnection *bus;
  char *session;
  int capture;
  GArray *fds;
  GError *error;
  guint n_answers;
} Snapshots;

static void
clear_fd (gpointer fd)
{
  close (*(int *) fd);
}

static void
snapshots_init (Snapshots *self)
{
  self->bus = bus_connect (bus_next_uid ());
  bus_profile (self->bus,
               g_variant_new_parsed ("{'launch': <true>, 'recorder': <uint64 10000000>}"), NULL,
               &self->session, &self->capture, &self->error);
  g_assert_no_error (self->error);
  self->fds = g_array_new (FALSE, FALSE, sizeof (int));
  g_array_set_clear_func (self->fds, clear_fd);
}

static void
snapshots_clear (Snapshots *self)
{
  g_array_unref (self->fds);
  close (self->capture);
  g_free (self->session);
  g_clear_error (&self->error);
  g_clear_object (&self->bus);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Snapshots, snapshots_clear)

/* Whether it has one more. */
static gboolean
take_snapshot (Snapshots *self)
{
  int fd;

  g_clear_error (&self->error);
  fd = bus_take_snapshot (self->bus, self->session, &self->error);
  if (fd >= 0)
    g_array_append_val (self->fds, fd);
  return fd >= 0;
}

/* As often as it may. */
static gboolean
has_snapshot_or_all (gpointer user_data)
{
  Snapshots *self = user_data;

  return take_snapshot (self) || strstr (self->error->message, "Limit snapshot-calls:") == NULL;
}

static gboolean
has_snapshot (gpointer user_data)
{
  return take_snapshot (user_data);
}

void
limit_reach_snapshots (const char *name)
{
  g_auto (Snapshots) snapshots = { 0 };

  snapshots_init (&snapshots);
  do
    bus_wait (has_snapshot_or_all, &snapshots, "a snapshot");
  while (snapshots.error == NULL);
  limit_assert_refusal (snapshots.error, name);
  g_assert_cmpuint (snapshots.fds->len, ==, limit_lookup (name));
  g_array_set_size (snapshots.fds, snapshots.fds->len - 1);
  bus_wait (has_snapshot, &snapshots, "room for another one");
}

void
limit_reach_snapshot_calls (const char *name)
{
  g_auto (Snapshots) snapshots = { 0 };
  guint n_taken = 0;

  snapshots_init (&snapshots);
  for (; take_snapshot (&snapshots); n_taken++)
    g_array_set_size (snapshots.fds, 0);
  limit_assert_refusal (snapshots.error, name);
  g_assert_cmpuint (n_taken, >=, limit_lookup (name));
}

static void
on_snapshot (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Snapshots *self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_finish (
      G_DBUS_CONNECTION (source), &fds, result, &error);

  self->n_answers++;
  if (answer == NULL && self->error == NULL)
    self->error = g_steal_pointer (&error);
}

static gboolean
has_all_answers (gpointer user_data)
{
  return ((const Snapshots *) user_data)->n_answers == limit_lookup ("snapshots-at-once") + 1;
}

static gboolean
has_an_answer (gpointer user_data)
{
  return ((const Snapshots *) user_data)->n_answers > 0;
}

static void
signal_all (const GArray *pids, int signum)
{
  for (guint i = 0; i < pids->len; i++)
    kill (g_array_index (pids, pid_t, i), signum);
}

void
limit_reach_snapshots_at_once (const char *name)
{
  g_auto (Snapshots) snapshots = { 0 };
  g_autoptr (GArray) workers = NULL;

  snapshots_init (&snapshots);
  /* None is answered meanwhile. */
  workers = bus_list_workers (bus_service_pid (snapshots.bus));
  signal_all (workers, SIGSTOP);
  for (guint64 i = 0; i <= limit_lookup (name); i++)
    g_dbus_connection_call_with_unix_fd_list (
        snapshots.bus, "org.sonde.Profiler1", snapshots.session, "org.sonde.Profiler1.Session",
        "Snapshot", g_variant_new_parsed ("(@a{sv} {},)"), G_VARIANT_TYPE ("(h)"),
        G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, NULL, on_snapshot, &snapshots);
  bus_wait (has_an_answer, &snapshots, "a refusal");
  signal_all (workers, SIGCONT);
  bus_wait (has_all_answers, &snapshots, "answers");
  limit_assert_refusal (snapshots.error, name);
}

static void
count_signal (GDBusConnection *bus,
              const char *sender,
              const char *path,
              const char *interface,
              const char *signal,
              GVariant *arguments,
              gpointer user_data)
{
  guint *n_signals = user_data;

  (*n_signals)++;
}

static gboolean
is_told (gpointer user_data)
{
  return *(guint *) user_data > 0;
}

static gboolean
may_subscribe (gpointer user_data)
{
  return bus_subscribe (user_data, FALSE, NULL);
}

/* Sessions that have ended stay to be seen for some minutes, which the unit tests let pass, but not
 * more than so many: the oldest go. */
void
limit_reach_kept_sessions (const char *name)
{
  uid_t uid = 0; /* who may start as many as he likes */
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  guint64 limit = limit_lookup ("kept-sessions");
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) sessions = NULL;
  guint n_removed = 0;
  guint watch;

  bus_subscribe (bus, FALSE, &error);
  g_assert_no_error (error);
  watch = g_dbus_connection_signal_subscribe (
      bus, "org.sonde.Profiler1", "org.sonde.Profiler1.Manager", "SessionRemoved", NULL, NULL,
      G_DBUS_SIGNAL_FLAGS_NONE, count_signal, &n_removed, NULL);
  for (guint64 i = 0; i <= limit; i++)
    {
      g_autofree char *session
          = bus_start_session (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &error);
      g_autofree char *finished = NULL;

      g_assert_no_error (error);
      g_variant_unref (bus_stop (bus, session));
      finished = bus_wait_finished (bus, session);
    }
  sessions = bus_list_sessions (bus);
  g_assert_cmpuint (count_sessions (sessions, uid), ==, limit);
  bus_wait (is_told, &n_removed, "the first one's object being told to be gone");
  g_assert_cmpuint (n_removed, ==, 1);
  g_dbus_connection_signal_unsubscribe (bus, watch);
}

/* Who leaves makes room; who asks again takes none. */
void
limit_reach_subscribers (const char *name)
{
  uid_t uid = bus_next_uid ();
  guint64 limit = limit_lookup (name);
  g_autoptr (GPtrArray) buses = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GDBusConnection) last = bus_connect (uid);
  g_autoptr (GError) error = NULL;

  for (guint64 i = 0; i < limit; i++)
    {
      g_ptr_array_add (buses, bus_connect (uid));
      for (guint again = 0; again < 2; again++)
        {
          bus_subscribe (g_ptr_array_index (buses, i), FALSE, &error);
          g_assert_no_error (error);
        }
    }
  g_assert_false (bus_subscribe (last, FALSE, &error));
  limit_assert_refusal (error, name);
  g_dbus_connection_close_sync (g_ptr_array_index (buses, 0), NULL, NULL);
  bus_wait (may_subscribe, last, "room for another one");
}
