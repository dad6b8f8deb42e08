/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonded: options, connection, signals, loop. */
#include "config.h"

#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#if HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "daemon/base/limits.h"
#include "daemon/control/bus.h"
#include "daemon/control/capabilities.h"
#include "daemon/control/idle.h"
#include "daemon/control/unit-job.h"
#include "daemon/control/watchdog.h"

#define ANSWER_WAIT_MS 5

typedef struct
{
  GMainLoop *loop;
  char *worker_path;
  char *worker_socket; /* NULL: workers are spawned */
  char *state_directory;
  int peer_fd; /* -1: the system bus */
  SondeSettings settings;
  GDBusConnection *connection;
  SondeFdStore *fd_store; /* NULL: workers end with us */
  SondeBus *bus;
  SondeIdle *idle;
  SondeWatchdog *watchdog;
  guint name;
  guint connect_timer;
  gboolean is_leaving;
  int status;
} Daemon;

static void
notify (const char *state)
{
#if HAVE_SYSTEMD
  sd_notify (0, state);
#endif
}

static void
on_flushed (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Daemon *self = user_data;

  /* What could not be flushed has nobody to read it. */
  g_dbus_connection_flush_finish (G_DBUS_CONNECTION (source), result, NULL);
  g_main_loop_quit (self->loop);
}

static void
on_sessions_gone (gpointer user_data)
{
  Daemon *self = user_data;

  g_clear_handle_id (&self->name, g_bus_unown_name);
  g_dbus_connection_flush (self->connection, NULL, on_flushed, self);
}

static void
leave (Daemon *self, const char *reason, int status)
{
  if (self->is_leaving)
    return;
  self->is_leaving = TRUE;
  self->status = status;
  notify ("STOPPING=1");
  if (self->bus != NULL)
    sonde_bus_shut_down (self->bus, reason, on_sessions_gone, self);
  else
    g_main_loop_quit (self->loop);
}

/* Workers go on, and the next sonded finds them in the fd store. */
static void
leave_sessions (Daemon *self, int status)
{
  self->is_leaving = TRUE;
  self->status = status;
  notify ("STOPPING=1");
  sonde_bus_leave (self->bus);
  if (g_dbus_connection_is_closed (self->connection))
    g_main_loop_quit (self->loop);
  else
    on_sessions_gone (self);
}

static gboolean
has_heirs (const Daemon *self)
{
  return self->bus != NULL && self->fd_store != NULL && sonde_fd_store_is_there (self->fd_store);
}

static void
on_job (gboolean is_restart, gpointer user_data)
{
  Daemon *self = user_data;

  if (self->is_leaving)
    return;
  if (is_restart)
    leave_sessions (self, EXIT_SUCCESS);
  else
    leave (self, "stopped", EXIT_SUCCESS);
}

static gboolean
is_busy (gpointer user_data)
{
  const Daemon *self = user_data;

  return sonde_bus_has_sessions (self->bus);
}

static void
on_start_queued (gboolean is_queued, gpointer user_data)
{
  Daemon *self = user_data;

  if (is_queued)
    leave_sessions (self, EXIT_SUCCESS);
  else
    sonde_bus_shut_down (self->bus, "stopped", on_sessions_gone, self);
}

/* No call can come any more, but one that came before may have started a session: it is the next
 * sonded's, whom systemd starts while the session waits in the fd store. */
static gboolean
on_calls_answered (gpointer user_data)
{
  Daemon *self = user_data;

  if (sonde_idle_has_calls (self->idle))
    return G_SOURCE_CONTINUE;
  if (is_busy (self))
    sonde_unit_job_start_again (self->connection, on_start_queued, self);
  else
    on_sessions_gone (self);
  return G_SOURCE_REMOVE;
}

static void
on_name_released (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GVariant *answer = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  g_clear_pointer (&answer, g_variant_unref);
  /* GDBus would give it up again, and complain. */
  ((Daemon *) user_data)->name = 0;
  /* Not at once: what came before this answer is dispatched first. */
  g_timeout_add (ANSWER_WAIT_MS, on_calls_answered, user_data);
}

/* systemd hears first that we stop, and so starts us again for calls that come from now on; the bus
 * gives us those that came before it hears that we give up the name. */
static void
on_idle (gpointer user_data)
{
  Daemon *self = user_data;

  if (self->is_leaving)
    return;
  self->is_leaving = TRUE;
  notify ("STOPPING=1");
  g_dbus_connection_call (self->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                          "org.freedesktop.DBus", "ReleaseName",
                          g_variant_new ("(s)", SONDE_BUS_NAME), NULL, G_DBUS_CALL_FLAGS_NONE, -1,
                          NULL, on_name_released, self);
}

/* What is wrong with the file changes nothing: sessions may run. */
static void
load_settings (Daemon *self)
{
  g_autoptr (GError) error = NULL;

  if (!sonde_settings_load (&self->settings, SONDE_CONFIGURATION_FILE, &error))
    g_warning ("%s", error->message);
}

static gboolean
on_reload (gpointer user_data)
{
  Daemon *self = user_data;

  notify ("RELOADING=1");
  load_settings (self);
  if (self->idle != NULL)
    sonde_idle_set_timeout (self->idle, (guint) self->settings.idle_timeout_ms);
  notify ("READY=1");
  return G_SOURCE_CONTINUE;
}

static gboolean
has_progress (gpointer user_data)
{
  const Daemon *self = user_data;

  return sonde_bus_has_progress (self->bus);
}

/* What only systemd gives: an end that it takes back, and somebody who looks. */
static void
begin_service (Daemon *self)
{
  static const SondeIdleHandler idle_handler = { .is_busy = is_busy, .idle = on_idle };

  if (!has_heirs (self))
    return;
  self->idle = sonde_idle_new (self->connection, &idle_handler, self);
  self->watchdog = sonde_watchdog_new (has_progress, self);
}

static gboolean
on_terminate (gpointer user_data)
{
  Daemon *self = user_data;

  if (!has_heirs (self))
    leave (self, "stopped", EXIT_SUCCESS);
  else if (!self->is_leaving)
    sonde_unit_job_ask (self->connection, on_job, self);
  return G_SOURCE_CONTINUE;
}

static void
on_closed (GDBusConnection *connection,
           gboolean remote_peer_vanished,
           GError *error,
           gpointer user_data)
{
  Daemon *self = user_data;

  /* A private connection ends when its only caller does; the system bus ends when something is
   * wrong, and systemd starts us again. */
  if (has_heirs (self) && !self->is_leaving)
    leave_sessions (self, EXIT_FAILURE);
  else
    leave (self, "owner-left", self->peer_fd >= 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void
on_name_acquired (GDBusConnection *connection, const char *name, gpointer user_data)
{
  Daemon *self = user_data;

  notify ("READY=1");
  /* Not before: the call that started us comes with the name. */
  if (self->idle != NULL)
    sonde_idle_set_timeout (self->idle, (guint) self->settings.idle_timeout_ms);
}

static void
on_name_lost (GDBusConnection *connection, const char *name, gpointer user_data)
{
  Daemon *self = user_data;

  if (!self->is_leaving)
    g_printerr ("sonded: the bus does not give us the name %s\n", name);
  leave (self, "stopped", EXIT_FAILURE);
}

/* A private sonded ends with its caller: nothing of it is to stay. */
static SondeCaptureStore *
open_store (const Daemon *self)
{
  g_autoptr (GError) error = NULL;
  SondeCaptureStore *store;

  if (self->peer_fd >= 0)
    return NULL;
  store = sonde_capture_store_new (self->state_directory, &self->settings, &error);
  if (store == NULL)
    g_message ("StartSession is not possible: %s", error->message);
  return store;
}

static SondeWorkerLauncher *
make_launcher (const Daemon *self)
{
  return self->worker_socket != NULL
             ? sonde_worker_launcher_new_systemd (self->worker_socket, self->connection)
             : sonde_worker_launcher_new (self->worker_path);
}

/* Objects first: whoever sees the name finds them. */
static void
serve (Daemon *self)
{
  gboolean is_peer = self->peer_fd >= 0;
  g_autoptr (GError) error = NULL;

  g_dbus_connection_set_exit_on_close (self->connection, FALSE);
  g_signal_connect (self->connection, "closed", G_CALLBACK (on_closed), self);
  self->bus = sonde_bus_new (self->connection, is_peer, make_launcher (self), open_store (self),
                             self->fd_store, &self->settings);
  if (!sonde_bus_register (self->bus, &error))
    {
      g_printerr ("sonded: %s\n", error->message);
      leave (self, "stopped", EXIT_FAILURE);
      return;
    }
  begin_service (self);
  if (is_peer)
    g_dbus_connection_start_message_processing (self->connection);
  else
    self->name = g_bus_own_name_on_connection (self->connection, SONDE_BUS_NAME,
                                               G_BUS_NAME_OWNER_FLAGS_DO_NOT_QUEUE,
                                               on_name_acquired, on_name_lost, self, NULL);
}

static void
on_connected (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Daemon *self = user_data;
  g_autoptr (GError) error = NULL;

  g_clear_handle_id (&self->connect_timer, g_source_remove);
  self->connection = self->peer_fd >= 0 ? g_dbus_connection_new_finish (result, &error)
                                        : g_bus_get_finish (result, &error);
  if (self->connection == NULL)
    {
      g_printerr ("sonded: cannot connect: %s\n", error->message);
      leave (self, "stopped", EXIT_FAILURE);
      return;
    }
  serve (self);
}

/* GIO connects on a thread, and does not tell when it cannot have one. */
static gboolean
on_connect_overdue (gpointer user_data)
{
  Daemon *self = user_data;

  self->connect_timer = 0;
  g_printerr ("sonded: cannot connect: no answer within %d ms\n", SONDE_LIMIT_CONNECT_MS);
  leave (self, "stopped", EXIT_FAILURE);
  return G_SOURCE_REMOVE;
}

static gboolean
connect_peer (Daemon *self, GError **error)
{
  g_autoptr (GSocket) socket = NULL;
  g_autoptr (GSocketConnection) stream = NULL;
  g_autofree char *guid = g_dbus_generate_guid ();

  /* It came to us by inheritance; no worker may have it. */
  if (fcntl (self->peer_fd, F_SETFD, FD_CLOEXEC) < 0
      || (socket = g_socket_new_from_fd (self->peer_fd, error)) == NULL)
    {
      if (*error == NULL)
        g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--peer-fd: %d is not open",
                     self->peer_fd);
      return FALSE;
    }
  stream = g_socket_connection_factory_create_connection (socket);
  g_dbus_connection_new (G_IO_STREAM (stream), guid,
                         G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_SERVER
                             | G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_REQUIRE_SAME_USER
                             | G_DBUS_CONNECTION_FLAGS_DELAY_MESSAGE_PROCESSING,
                         NULL, NULL, on_connected, self);
  return TRUE;
}

/* Journal records keep their fields; elsewhere only what is wrong is shown. */
static GLogWriterOutput
write_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  gboolean to_journal = g_log_writer_is_journald (fileno (stderr));
  GLogLevelFlags quiet = G_LOG_LEVEL_DEBUG | (to_journal ? 0 : G_LOG_LEVEL_INFO);

  if ((level & quiet) != 0 && g_log_writer_default_would_drop (level, G_LOG_DOMAIN))
    return G_LOG_WRITER_HANDLED;
  if (to_journal)
    return g_log_writer_journald (level, fields, n_fields, user_data);
  /* The default one would take GLib's lock of what is done once, for ever if memory ran out below
   * that lock. */
  return g_log_writer_standard_streams (level, fields, n_fields, user_data);
}

/* Workers inherit it and keep thousands of events open. */
static void
raise_file_limit (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) == 0)
    {
      limit.rlim_cur = limit.rlim_max;
      setrlimit (RLIMIT_NOFILE, &limit);
    }
}

/* In a private sonded ^C is the client's to handle: it wants to end its recording. Our workers
 * inherit what is ignored here. */
static void
set_up_signals (Daemon *self)
{
  signal (SIGPIPE, SIG_IGN);
  g_unix_signal_add (SIGTERM, on_terminate, self);
  if (self->peer_fd >= 0)
    {
      signal (SIGINT, SIG_IGN);
      signal (SIGQUIT, SIG_IGN);
    }
  else
    {
      g_unix_signal_add (SIGINT, on_terminate, self);
      g_unix_signal_add (SIGHUP, on_reload, self);
    }
}

static gboolean
parse_arguments (Daemon *self, int *argc, char ***argv, gboolean *show_version, GError **error)
{
  gboolean on_system_bus = FALSE;
  const GOptionEntry entries[] = {
    { "system", 0, 0, G_OPTION_ARG_NONE, &on_system_bus, "Serve on the system bus (default)",
      NULL },
    { "peer-fd", 0, 0, G_OPTION_ARG_INT, &self->peer_fd,
      "Serve one client on an inherited socket, with its rights", "N" },
    { "worker", 0, 0, G_OPTION_ARG_FILENAME, &self->worker_path, "The worker's executable",
      "PATH" },
    { "worker-socket", 0, 0, G_OPTION_ARG_FILENAME, &self->worker_socket,
      "Have workers started by systemd, which listens there", "PATH" },
    { "state-directory", 0, 0, G_OPTION_ARG_FILENAME, &self->state_directory,
      "Where capture files are kept", "PATH" },
    { "version", 0, 0, G_OPTION_ARG_NONE, show_version, "Print the version", NULL },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- profiling service");

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  if (*argc > 1 || ((on_system_bus || self->worker_socket != NULL) && self->peer_fd >= 0))
    {
      g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
                           *argc > 1 ? "too many arguments"
                                     : "--peer-fd excludes --system and --worker-socket");
      return FALSE;
    }
  if (self->worker_path == NULL)
    self->worker_path = g_strdup (SONDE_LIBEXECDIR "/sonde-capture");
  if (self->state_directory == NULL)
    self->state_directory = g_strdup (SONDE_STATEDIR);
  return TRUE;
}

static void
run (Daemon *self)
{
  g_autoptr (GError) error = NULL;

  g_log_set_writer_func (write_log, NULL, NULL);
  if (!sonde_capabilities_init (&error))
    {
      g_printerr ("sonded: %s\n", error->message);
      self->status = EXIT_FAILURE;
      return;
    }
  raise_file_limit ();
  sonde_settings_init (&self->settings);
  if (self->peer_fd < 0)
    load_settings (self);
  set_up_signals (self);
  if (self->worker_socket != NULL)
    self->fd_store = sonde_fd_store_new ();
  self->loop = g_main_loop_new (NULL, FALSE);
  self->connect_timer = g_timeout_add (SONDE_LIMIT_CONNECT_MS, on_connect_overdue, self);
  if (self->peer_fd < 0)
    g_bus_get (G_BUS_TYPE_SYSTEM, NULL, on_connected, self);
  else if (!connect_peer (self, &error))
    {
      g_printerr ("sonded: %s\n", error->message);
      self->status = EXIT_FAILURE;
      return;
    }
  g_main_loop_run (self->loop);
}

int
main (int argc, char **argv)
{
  Daemon self = { .peer_fd = -1, .status = EXIT_SUCCESS };
  gboolean show_version = FALSE;
  g_autoptr (GError) error = NULL;

  setlocale (LC_ALL, "");
  /* With one for each thread its memory was a question of how many ever allocated at a time. */
  mallopt (M_ARENA_MAX, 1);
  if (!parse_arguments (&self, &argc, &argv, &show_version, &error))
    {
      g_printerr ("sonded: %s\n", error->message);
      return EXIT_FAILURE;
    }
  if (show_version)
    g_print ("sonded %s\n", SONDE_VERSION);
  else
    run (&self);

  g_clear_pointer (&self.watchdog, sonde_watchdog_free);
  g_clear_pointer (&self.idle, sonde_idle_free);
  g_clear_pointer (&self.bus, sonde_bus_free);
  g_clear_pointer (&self.fd_store, sonde_fd_store_free);
  g_clear_object (&self.connection);
  g_clear_pointer (&self.loop, g_main_loop_unref);
  g_free (self.worker_path);
  g_free (self.worker_socket);
  g_free (self.state_directory);
  return self.status;
}
