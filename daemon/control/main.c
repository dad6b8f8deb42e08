/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sonded: options, connection, signals, loop. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/bus/bus.h"
#include "daemon/control/system/audit.h"
#include "daemon/control/system/outbox.h"
#include "daemon/control/system/unit.h"

#define ANSWER_WAIT_MS 5
#define WANTED_NICE    -10     /* as far as we may */
#define STATE_DEPTH    4       /* owners/UID/NAME */
#define SERVICE_USER   "sonde" /* as packages make it */

typedef struct
{
  GMainLoop *loop;
  char *paths[SONDE_PEER_N_KINDS];
  char *sockets[SONDE_PEER_N_KINDS];                /* NULL: they are spawned, */
  SondeSpawnerProgram programs[SONDE_PEER_N_KINDS]; /* as these */
  char *state_directory;
  char *beacon;      /* NULL: programs that run already are not called */
  int peer_fd;       /* -1: the system bus */
  int rendezvous_fd; /* where programs come; -1: nowhere, or it was taken */
  SondeSettings settings;
  SondeOutbox *systemd; /* NULL: it is not there */
  SondeOutbox *journal; /* NULL: records go to stderr */
  SondePeerLauncher *launcher;
  SondeBusConnection *connection; /* NULL: not yet */
  SondeFdStore *fd_store;         /* NULL: brokers and workers end with us */
  SondeBus *bus;
  guint idle_timer;
  guint idle_timeout_ms; /* of the timer */
  guint64 n_calls_seen;  /* of all that ever came, when its round began */
  guint watchdog_timer;
  gboolean has_name;
  guint connect_timer;
  gboolean is_leaving;
  int status;
} Daemon;

/* @method: RequestName or ReleaseName */
static void
call_bus (Daemon *self, const char *method, GVariant *arguments, SondeBusConnectionReply reply)
{
  const SondeBusConnectionCall call = { .destination = "org.freedesktop.DBus",
                                        .path = "/org/freedesktop/DBus",
                                        .interface = "org.freedesktop.DBus",
                                        .method = method,
                                        .arguments = arguments,
                                        .type = "(u)" };

  sonde_bus_connection_call (self->connection, &call, reply, self);
}

/* Why the service cannot start or go on, also for those who may not read the journal. */
static void complain (Daemon *self, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
complain (Daemon *self, const char *format, ...)
{
  g_autofree char *text = NULL;
  g_autofree char *status = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  /* stderr may be a stream to the journal, which waits. */
  if (self->journal != NULL)
    g_message ("%s", text);
  else
    g_printerr ("sonded: %s\n", text);
  status = g_strconcat ("STATUS=", text, NULL);
  sonde_outbox_tell (self->systemd, status);
}

static void
on_flushed (gpointer user_data)
{
  Daemon *self = user_data;

  g_main_loop_quit (self->loop);
}

static void
on_sessions_gone (gpointer user_data)
{
  Daemon *self = user_data;

  if (self->has_name && !sonde_bus_connection_is_closed (self->connection))
    call_bus (self, "ReleaseName", g_variant_new ("(s)", SONDE_BUS_NAME), NULL);
  self->has_name = FALSE;
  sonde_bus_connection_flush (self->connection, on_flushed, self);
}

static void
leave (Daemon *self, const char *reason, int status)
{
  if (self->is_leaving)
    return;
  self->is_leaving = TRUE;
  self->status = status;
  sonde_outbox_tell (self->systemd, "STOPPING=1");
  if (self->bus != NULL)
    sonde_session_manager_shut_down (self->bus->manager, reason, on_sessions_gone, self);
  else
    g_main_loop_quit (self->loop);
}

/* Workers go on, and the next sonded finds them in the fd store. */
static void
leave_sessions (Daemon *self, int status)
{
  self->is_leaving = TRUE;
  self->status = status;
  sonde_outbox_tell (self->systemd, "STOPPING=1");
  sonde_session_manager_leave (self->bus->manager);
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

static void
on_start_queued (gboolean is_queued, gpointer user_data)
{
  Daemon *self = user_data;

  if (is_queued)
    leave_sessions (self, EXIT_SUCCESS);
  else
    sonde_session_manager_shut_down (self->bus->manager, "stopped", on_sessions_gone, self);
}

/* No call can come any more, but one that came before may have started a session: it is the next
 * sonded's, whom systemd starts while the session waits in the fd store. */
static gboolean
on_calls_answered (gpointer user_data)
{
  Daemon *self = user_data;

  if (sonde_bus_connection_n_calls (self->connection) > 0)
    return G_SOURCE_CONTINUE;
  if (sonde_session_manager_is_busy (self->bus->manager))
    sonde_unit_ask_own (self->connection, SONDE_UNIT_START_AGAIN, on_start_queued, self);
  else
    on_sessions_gone (self);
  return G_SOURCE_REMOVE;
}

static void
on_name_released (GVariant *reply, const GError *error, gpointer user_data)
{
  Daemon *self = user_data;

  self->has_name = FALSE;
  /* What came before this answer has been dispatched, but may not be answered. */
  if (on_calls_answered (self))
    g_timeout_add (ANSWER_WAIT_MS, on_calls_answered, self);
}

static void
on_starts_forgotten (gboolean is_done, gpointer user_data)
{
  call_bus (user_data, "ReleaseName", g_variant_new ("(s)", SONDE_BUS_NAME), on_name_released);
}

/* No call has come and none was open for a whole round, and there is no session. systemd hears
 * first that we stop, and so starts us again for calls that come from now on; the bus gives us
 * those that came before it hears that we give up the name. */
static gboolean
on_idle_timer (gpointer user_data)
{
  Daemon *self = user_data;
  guint64 n_calls = sonde_bus_connection_n_ever (self->connection);

  if (n_calls != self->n_calls_seen || sonde_bus_connection_n_calls (self->connection) > 0
      || sonde_bus_is_busy (self->bus))
    {
      self->n_calls_seen = n_calls;
      return G_SOURCE_CONTINUE;
    }
  self->idle_timer = 0;
  if (self->is_leaving)
    return G_SOURCE_REMOVE;
  self->is_leaving = TRUE;
  sonde_outbox_tell (self->systemd, "STOPPING=1");
  sonde_unit_ask_own (self->connection, SONDE_UNIT_FORGET_STARTS, on_starts_forgotten, self);
  return G_SOURCE_REMOVE;
}

/* Who has no heirs stays for ever, and so does who may. */
static void
set_idle_timer (Daemon *self)
{
  guint timeout_ms = (guint) self->settings.idle_timeout_ms;

  if (!has_heirs (self) || self->idle_timeout_ms == timeout_ms)
    return;
  self->idle_timeout_ms = timeout_ms;
  g_clear_handle_id (&self->idle_timer, g_source_remove);
  if (timeout_ms > 0)
    self->idle_timer = g_timeout_add (timeout_ms, on_idle_timer, self);
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

  sonde_outbox_tell (self->systemd, "RELOADING=1");
  load_settings (self);
  set_idle_timer (self);
  sonde_outbox_tell (self->systemd, "READY=1");
  return G_SOURCE_CONTINUE;
}

/* That the main loop turns is not enough: what workers have said must be heard as well. A service
 * that does not is killed and started anew, and its sessions go on.
 * Source: sd_watchdog_enabled(3) */
static gboolean
on_watchdog_timer (gpointer user_data)
{
  const Daemon *self = user_data;

  if (sonde_session_manager_has_progress (self->bus->manager))
    sonde_outbox_tell (self->systemd, "WATCHDOG=1");
  return G_SOURCE_CONTINUE;
}

static gboolean
on_terminate (gpointer user_data)
{
  Daemon *self = user_data;

  if (!has_heirs (self))
    leave (self, "stopped", EXIT_SUCCESS);
  else if (!self->is_leaving)
    sonde_unit_ask_own (self->connection, SONDE_UNIT_IS_RESTARTED, on_job, self);
  return G_SOURCE_CONTINUE;
}

static void
on_closed (gpointer user_data)
{
  Daemon *self = user_data;

  if (self->bus == NULL)
    complain (self, "cannot connect: the bus refuses us");
  /* A private connection ends when its only caller does; the system bus ends when something is
   * wrong, and systemd starts us again. */
  if (has_heirs (self) && !self->is_leaving)
    leave_sessions (self, EXIT_FAILURE);
  else
    leave (self, "owner-left",
           self->peer_fd >= 0 && self->bus != NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Source: D-Bus specification, RequestName: 1 is the primary owner, 4 was it already. */
static void
on_name_requested (GVariant *reply, const GError *error, gpointer user_data)
{
  Daemon *self = user_data;
  guint32 result = 0;

  if (reply != NULL)
    g_variant_get (reply, "(u)", &result);
  if (result != 1 && result != 4)
    {
      if (!self->is_leaving)
        complain (self, "the bus does not give us the name %s%s%s", SONDE_BUS_NAME,
                  error != NULL ? ": " : "", error != NULL ? error->message : "");
      leave (self, "stopped", EXIT_FAILURE);
      return;
    }
  self->has_name = TRUE;
  sonde_outbox_tell (self->systemd, "READY=1");
  /* Not before: the call that started us comes with the name. */
  set_idle_timer (self);
}

/* Objects first: whoever sees the name finds them. */
static void
on_ready (gpointer user_data)
{
  Daemon *self = user_data;
  gboolean is_peer = self->peer_fd >= 0;
  g_autoptr (GError) no_store = NULL;
  g_autoptr (GError) no_programs = NULL;
  SondeCaptureStore *store = NULL;
  guint64 watchdog_us;

  g_clear_handle_id (&self->connect_timer, g_source_remove);
  /* A private sonded ends with its caller: nothing of it is to stay. */
  if (!is_peer)
    store = sonde_capture_store_new (self->state_directory, &self->settings, &no_store);
  if (no_store != NULL)
    g_message ("StartSession is not possible: %s", no_store->message);
  self->bus = sonde_bus_new (self->connection, is_peer, sonde_peer_launcher_ref (self->launcher),
                             store, self->fd_store, &self->settings);
  /* Who inherits a control socket needs no such place. */
  if (self->rendezvous_fd >= 0
      && !sonde_session_manager_listen (self->bus->manager, sonde_steal_fd (&self->rendezvous_fd),
                                        self->beacon, is_peer, &no_programs))
    g_message ("%s", no_programs->message);
  /* Three times in each WatchdogSec=. */
  if (has_heirs (self) && sd_watchdog_enabled (FALSE, &watchdog_us) > 0)
    self->watchdog_timer
        = g_timeout_add ((guint) MAX (watchdog_us / 3000, 1), on_watchdog_timer, self);
  if (!is_peer)
    call_bus (self, "RequestName",
              g_variant_new ("(su)", SONDE_BUS_NAME, (guint32) G_BUS_NAME_OWNER_FLAGS_DO_NOT_QUEUE),
              on_name_requested);
}

static gboolean
on_call (sd_bus_message *message, gpointer user_data)
{
  const Daemon *self = user_data;

  return sonde_bus_call (self->bus, message);
}

static gboolean
on_connect_overdue (gpointer user_data)
{
  Daemon *self = user_data;

  self->connect_timer = 0;
  complain (self, "cannot connect: no answer within %d ms", SONDE_LIMIT_CONNECT_MS);
  leave (self, "stopped", EXIT_FAILURE);
  return G_SOURCE_REMOVE;
}

static SondeBusConnection *
open_connection (Daemon *self, GError **error)
{
  static const SondeBusConnectionHandler handler
      = { .ready = on_ready, .closed = on_closed, .call = on_call };

  if (self->peer_fd < 0)
    return sonde_bus_connection_new_system (&handler, self, error);
  /* It came to us by inheritance; nobody else may have it. */
  if (fcntl (self->peer_fd, F_SETFD, FD_CLOEXEC) < 0)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--peer-fd: %d is not open",
                   self->peer_fd);
      return NULL;
    }
  return sonde_bus_connection_new_peer (self->peer_fd, &handler, self, error);
}

/* What the machine has is known, or will not be soon: whoever asks finds it. */
static gboolean
on_sheet (gpointer user_data)
{
  Daemon *self = user_data;
  g_autoptr (GError) error = NULL;

  self->connection = open_connection (self, &error);
  if (self->connection == NULL)
    {
      complain (self, "cannot connect: %s", error->message);
      leave (self, "stopped", EXIT_FAILURE);
    }
  else
    sonde_peer_launcher_set_bus (self->launcher, self->connection);
  return G_SOURCE_REMOVE;
}

/* Journal records keep their fields; elsewhere only what is wrong is shown. */
static GLogWriterOutput
write_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  SondeOutbox *journal = user_data;
  GLogLevelFlags quiet = G_LOG_LEVEL_DEBUG | (journal != NULL ? 0 : G_LOG_LEVEL_INFO);

  if ((level & quiet) != 0 && g_log_writer_default_would_drop (level, G_LOG_DOMAIN))
    return G_LOG_WRITER_HANDLED;
  if (journal != NULL)
    return sonde_audit_write (journal, fields, n_fields);
  /* The default one would take GLib's lock of what is done once, for ever if memory ran out below
   * that lock. */
  return g_log_writer_standard_streams (level, fields, n_fields, user_data);
}

/* As systemd does, where that starts us: what is in it first. Where somebody else could write, a
 * name could become another file's meanwhile. */
static gboolean
give_tree (const char *path, const struct passwd *service, guint depth, GError **error)
{
  struct stat st;

  if (lstat (path, &st) < 0)
    return sonde_error_set_errno (error, errno, "Cannot look at %s", path);
  if (st.st_uid == service->pw_uid)
    return TRUE;
  if (st.st_uid != 0 || (S_ISDIR (st.st_mode) && (st.st_mode & 022) != 0))
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "%s is not root's alone, and so is not given to the user %s", path,
                   service->pw_name);
      return FALSE;
    }
  if (S_ISDIR (st.st_mode) && depth > 0)
    {
      g_autoptr (GDir) folder = g_dir_open (path, 0, error);
      const char *name;

      while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
        {
          g_autofree char *child = g_build_filename (path, name, NULL);

          if (!give_tree (child, service, depth - 1, error))
            return FALSE;
        }
      if (folder == NULL)
        return FALSE;
    }
  return lchown (path, service->pw_uid, service->pw_gid) == 0
         || sonde_error_set_errno (error, errno, "Cannot give %s to the user %s", path,
                                   service->pw_name);
}

/* Its disk may not answer: then StartSession will say so, and all else is served. */
static void
prepare_state_directory (Daemon *self, const struct passwd *service)
{
  pid_t child = fork ();
  struct pollfd end = { .fd = -1, .events = POLLIN };

  if (child == 0)
    {
      g_autoptr (GError) error = NULL;

      if (g_mkdir_with_parents (self->state_directory, 0755) < 0
          || !give_tree (self->state_directory, service, STATE_DEPTH, &error))
        complain (self, "%s: %s", self->state_directory,
                  error != NULL ? error->message : g_strerror (errno));
      _exit (0);
    }
  end.fd = child > 0 ? (int) syscall (SYS_pidfd_open, child, 0) : -1;
  if (end.fd >= 0 && poll (&end, 1, SONDE_LIMIT_STORE_OPEN_MS) > 0)
    waitpid (child, NULL, 0);
  sonde_clear_fd (&end.fd);
}

/* The spawner alone keeps what brokers need. A unit has taken away all of it, and a
 * private sonded is its caller. Without a user of its own sonded stays root, who would get all
 * capabilities back by executing anything. */
static gboolean
give_up_rights (const struct passwd *service, GError **error)
{
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
      || (service == NULL && geteuid () == 0
          && prctl (PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0) < 0))
    return sonde_error_set_errno (error, errno, "Cannot give up new privileges");
  if (service != NULL
      && (setgroups (0, NULL) < 0
          || setresgid (service->pw_gid, service->pw_gid, service->pw_gid) < 0
          || setresuid (service->pw_uid, service->pw_uid, service->pw_uid) < 0))
    return sonde_error_set_errno (error, errno, "Cannot become the user %s", service->pw_name);
  if (syscall (SYS_capget, &header, sets) == 0)
    {
      /* as in a unit, which may not even set them */
      if ((sets[0].permitted | sets[0].inheritable | sets[1].permitted | sets[1].inheritable) == 0)
        return TRUE;
      memset (sets, 0, sizeof sets);
      if (syscall (SYS_capset, &header, sets) == 0)
        return TRUE;
    }
  return sonde_error_set_errno (error, errno, "Cannot give up capabilities");
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
    { "broker", 0, 0, G_OPTION_ARG_FILENAME, &self->paths[SONDE_PEER_BROKER],
      "The broker's executable", "PATH" },
    { "broker-socket", 0, 0, G_OPTION_ARG_FILENAME, &self->sockets[SONDE_PEER_BROKER],
      "Have brokers started by systemd, which listens there", "PATH" },
    { "worker", 0, 0, G_OPTION_ARG_FILENAME, &self->paths[SONDE_PEER_CAPTURE],
      "The worker's executable", "PATH" },
    { "worker-socket", 0, 0, G_OPTION_ARG_FILENAME, &self->sockets[SONDE_PEER_CAPTURE],
      "Have workers started by systemd, which listens there", "PATH" },
    { "beacon", 0, 0, G_OPTION_ARG_FILENAME, &self->beacon,
      "Call programs that run already by this page", "PATH" },
    { "state-directory", 0, 0, G_OPTION_ARG_FILENAME, &self->state_directory,
      "Where capture files are kept", "PATH" },
    { "version", 0, 0, G_OPTION_ARG_NONE, show_version, "Print the version", NULL },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- profiling service");
  gboolean has_sockets;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  has_sockets = self->sockets[SONDE_PEER_BROKER] != NULL;
  if (*argc > 1 || ((on_system_bus || has_sockets) && self->peer_fd >= 0)
      || has_sockets != (self->sockets[SONDE_PEER_CAPTURE] != NULL))
    {
      g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
                           *argc > 1 ? "too many arguments"
                                     : "--broker-socket and --worker-socket need each other, and "
                                       "--peer-fd excludes them and --system");
      return FALSE;
    }
  if (self->paths[SONDE_PEER_BROKER] == NULL)
    self->paths[SONDE_PEER_BROKER] = g_strdup (SONDE_LIBEXECDIR "/sonde-broker");
  if (self->paths[SONDE_PEER_CAPTURE] == NULL)
    self->paths[SONDE_PEER_CAPTURE] = g_strdup (SONDE_LIBEXECDIR "/sonde-capture");
  if (self->state_directory == NULL)
    self->state_directory = g_strdup (SONDE_STATEDIR);
  return TRUE;
}

/* Before there is a thread: what is forked has none, and rights are given up by all. */
static gboolean
prepare (Daemon *self, GError **error)
{
  gboolean is_root = self->peer_fd < 0 && geteuid () == 0;
  const struct passwd *service = is_root ? getpwnam (SERVICE_USER) : NULL;
  g_autoptr (GError) no_rendezvous = NULL;
  SondePeerProcesses *processes = NULL;
  struct rlimit limit;
  int fd;

  signal (SIGPIPE, SIG_IGN);
  /* Brokers and workers inherit what is ignored here, and how many files may be open: they keep
   * thousands of events. */
  if (getrlimit (RLIMIT_NOFILE, &limit) == 0)
    {
      limit.rlim_cur = limit.rlim_max;
      setrlimit (RLIMIT_NOFILE, &limit);
    }
  if (self->peer_fd >= 0)
    {
      /* ^C is the client's to handle: it wants to end its recording. */
      signal (SIGINT, SIG_IGN);
      signal (SIGQUIT, SIG_IGN);
      /* Root's own session, whose worker inherits it. One of the whole machine with many large
       * samples loses some of them if its turn comes after tens of milliseconds; the sessions that
       * are possible to others do not, and cost others the CPU. */
      if (getpriority (PRIO_PROCESS, 0) > WANTED_NICE)
        (void) setpriority (PRIO_PROCESS, 0, WANTED_NICE);
    }
  if (service != NULL)
    prepare_state_directory (self, service);
  else if (is_root)
    complain (self, "There is no user %s to become: it stays root, without capabilities",
              SERVICE_USER);
  if (self->sockets[SONDE_PEER_CAPTURE] == NULL)
    {
      self->programs[SONDE_PEER_BROKER].path = self->paths[SONDE_PEER_BROKER];
      self->programs[SONDE_PEER_CAPTURE].path = self->paths[SONDE_PEER_CAPTURE];
      self->programs[SONDE_PEER_CAPTURE].has_own_uid = TRUE;
      fd = sonde_spawner_fork (self->programs, SONDE_PEER_N_KINDS);
      if (fd < 0)
        return sonde_error_set_errno (error, errno, "Cannot fork");
      processes = sonde_peer_processes_new (fd, self->programs, SONDE_PEER_N_KINDS);
      self->rendezvous_fd = sonde_rendezvous_listen (&no_rendezvous);
      if (self->rendezvous_fd < 0)
        g_message ("%s", no_rendezvous->message);
    }
  if (self->peer_fd < 0 && !give_up_rights (service, error))
    {
      sonde_peer_processes_free (processes);
      return FALSE;
    }
  self->launcher = sonde_peer_launcher_new ((const char *const *) self->sockets, processes);
  return TRUE;
}

static void
run (Daemon *self)
{
  g_autoptr (GError) error = NULL;
  const char *name;

  if (!prepare (self, &error))
    {
      complain (self, "%s", error->message);
      self->status = EXIT_FAILURE;
      return;
    }
  sonde_settings_init (&self->settings);
  if (self->peer_fd < 0)
    load_settings (self);
  else
    self->settings.uid_cpu_percent = 0; /* what the caller may take is the caller's */
  g_unix_signal_add (SIGTERM, on_terminate, self);
  if (self->peer_fd < 0)
    {
      g_unix_signal_add (SIGINT, on_terminate, self);
      g_unix_signal_add (SIGHUP, on_reload, self);
    }
  if (self->sockets[SONDE_PEER_CAPTURE] != NULL)
    {
      self->fd_store = sonde_fd_store_new (self->systemd);
      /* systemd listens there for us, by the name in sonde-collect.socket. */
      for (guint i = 0; (name = sonde_fd_store_left_name (self->fd_store, i)) != NULL; i++)
        if (self->rendezvous_fd < 0 && g_str_equal (name, "collect"))
          self->rendezvous_fd = sonde_fd_store_take_left (self->fd_store, i);
    }
  self->loop = g_main_loop_new (NULL, FALSE);
  self->connect_timer = g_timeout_add (SONDE_LIMIT_CONNECT_MS, on_connect_overdue, self);
  sonde_peer_launcher_await_sheet (self->launcher, on_sheet, self);
  g_main_loop_run (self->loop);
}

/* Else a socket of ours could become one of them, which those inherit whom we start. */
static void
fill_standard_streams (void)
{
  int fd;

  do
    fd = open ("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO);
  sonde_clear_fd (&fd);
}

int
main (int argc, char **argv)
{
  Daemon self = { .peer_fd = -1, .rendezvous_fd = -1, .status = EXIT_SUCCESS };
  gboolean show_version = FALSE;
  g_autoptr (GError) error = NULL;

  fill_standard_streams ();
  setlocale (LC_ALL, "");
  self.systemd = sonde_outbox_new (g_getenv ("NOTIFY_SOCKET"));
  if (g_log_writer_is_journald (fileno (stderr)))
    self.journal = sonde_outbox_new ("/run/systemd/journal/socket");
  g_log_set_writer_func (write_log, self.journal, NULL);
  /* A stranger's message may have 32 MiB: it is given back whole, and does not raise the threshold.
   */
  mallopt (M_MMAP_THRESHOLD, 128 * 1024);
  if (!parse_arguments (&self, &argc, &argv, &show_version, &error))
    {
      complain (&self, "%s", error->message);
      return EXIT_FAILURE;
    }
  if (show_version)
    g_print ("sonded %s\n", SONDE_VERSION);
  else
    run (&self);

  g_clear_handle_id (&self.watchdog_timer, g_source_remove);
  g_clear_handle_id (&self.idle_timer, g_source_remove);
  g_clear_pointer (&self.bus, sonde_bus_free);
  g_clear_pointer (&self.fd_store, sonde_fd_store_free);
  g_clear_pointer (&self.launcher, sonde_peer_launcher_unref);
  g_clear_pointer (&self.connection, sonde_bus_connection_free);
  g_clear_pointer (&self.loop, g_main_loop_unref);
  sonde_clear_fd (&self.rendezvous_fd);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    {
      g_free (self.paths[kind]);
      g_free (self.sockets[kind]);
    }
  g_free (self.state_directory);
  g_free (self.beacon);
  sonde_outbox_free (self.systemd);
  sonde_outbox_free (self.journal);
  return self.status;
}
