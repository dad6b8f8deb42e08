/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <gio/gunixconnection.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "client/base/private-beacon.h"
#include "client/base/sibling.h"
#include "config.h"

#define BUS_NAME     "org.sonde.Profiler1"
#define MANAGER_PATH "/org/sonde/Profiler1"
#define PEER_FD      3 /* the number the embedded daemon finds its socket at */
#define NOTIFY_FD    3 /* pkttyagent closes it when it can be asked */
#define REGISTER_MS  3000

/* GDBus' own default of 25 s is too short for somebody who is asked for a password. */
#define CALL_TIMEOUT_MS G_MAXINT

static const GDBusErrorEntry entries[] = {
  { SONDE_CLIENT_ERROR_INVALID_OPTION, "org.sonde.Profiler1.Error.InvalidOption" },
  { SONDE_CLIENT_ERROR_NOT_AUTHORIZED, "org.sonde.Profiler1.Error.NotAuthorized" },
  { SONDE_CLIENT_ERROR_NO_SUCH_PROCESS, "org.sonde.Profiler1.Error.NoSuchProcess" },
  { SONDE_CLIENT_ERROR_NO_SUCH_SESSION, "org.sonde.Profiler1.Error.NoSuchSession" },
  { SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, "org.sonde.Profiler1.Error.LimitExceeded" },
  { SONDE_CLIENT_ERROR_NOT_SUPPORTED, "org.sonde.Profiler1.Error.NotSupported" },
  { SONDE_CLIENT_ERROR_INVALID_STATE, "org.sonde.Profiler1.Error.InvalidState" },
  { SONDE_CLIENT_ERROR_FAILED, "org.sonde.Profiler1.Error.Failed" },
};

GQuark
sonde_client_error_quark (void)
{
  static gsize quark = 0;

  g_dbus_error_register_error_domain ("sonde-client-error-quark", &quark, entries,
                                      G_N_ELEMENTS (entries));
  return (GQuark) quark;
}

#define UNIT_PATH        "/org/freedesktop/systemd1/unit/sonded_2eservice"
#define START_TIMEOUT_MS 60000 /* the bus gives up before */
#define LOOK_INTERVAL_MS 100

typedef struct
{
  GDBusConnection *bus;
  GCancellable *over;
  unsigned n_calls; /* that are not answered */
  GError *error;
} ServiceStart;

static void
finish (ServiceStart *self, GError *error)
{
  if (g_cancellable_is_cancelled (self->over))
    g_clear_error (&error);
  else
    self->error = error;
  g_cancellable_cancel (self->over);
}

/* As systemd's own programs print them, those that its help or a broken installation leads to. */
static const char *
name_status (int status)
{
  static const struct
  {
    int status;
    const char *name;
  } names[] = {
    { 127, ", a library is missing" },
    { 200, "/CHDIR" },
    { 203, "/EXEC" },
    { 210, "/CHROOT" },
    { 218, "/CAPABILITIES" },
    { 219, "/CGROUP" },
    { 226, "/NAMESPACE" },
    { 228, "/SECCOMP" },
    { 238, "/STATE_DIRECTORY" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (names[i].status == status)
      return names[i].name;
  return "";
}

static const char *
look_up_text (GVariant *properties, const char *key)
{
  const char *text = "";

  g_variant_lookup (properties, key, "&s", &text);
  return text;
}

/* The start that we asked for is a job of systemd's: when there is none, it has succeeded or
 * failed. A unit that waits to be tried again has a job if somebody asked since; one whose start
 * has just failed keeps its job while it holds systemd back. */
static gboolean
has_failed (GVariant *properties)
{
  const char *state = look_up_text (properties, "ActiveState");
  const char *sub_state = look_up_text (properties, "SubState");
  guint32 job = 1;

  if (g_str_equal (sub_state, "stop-post"))
    return g_str_equal (look_up_text (properties, "Result"), "exit-code");
  g_variant_lookup (properties, "Job", "(uo)", &job, NULL);
  return job == 0
         && (g_str_equal (state, "failed") || g_str_equal (state, "inactive")
             || g_str_equal (sub_state, "auto-restart"));
}

static GError *
describe_failure (GVariant *properties)
{
  const char *own_words = look_up_text (properties, "StatusText");
  const char *result = look_up_text (properties, "Result");
  gint32 status = 0;

  if (own_words[0] != '\0')
    return g_error_new (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED, "The service cannot start: %s",
                        own_words);
  if (g_str_equal (result, "success"))
    return g_error_new_literal (
        G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED,
        "The service could not start, and the bus tries it again only 25 s after "
        "it first did");
  g_variant_lookup (properties, "ExecMainStatus", "i", &status);
  if (g_str_equal (result, "exit-code"))
    return g_error_new (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED,
                        "The service cannot start: exit status %d%s", (int) status,
                        name_status (status));
  return g_error_new (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED, "The service cannot start: %s",
                      result);
}

static void
on_unit (GObject *source, GAsyncResult *answer, gpointer user_data)
{
  ServiceStart *self = user_data;
  g_autoptr (GVariant) value = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), answer,
                                                              NULL); /* there may be no systemd */
  g_autoptr (GVariant) properties = NULL;

  self->n_calls--;
  if (value == NULL || g_cancellable_is_cancelled (self->over))
    return;
  properties = g_variant_get_child_value (value, 0);
  if (has_failed (properties))
    finish (self, describe_failure (properties));
}

static gboolean
look_at_unit (gpointer user_data)
{
  ServiceStart *self = user_data;

  if (self->n_calls > 1 || g_cancellable_is_cancelled (self->over))
    return G_SOURCE_CONTINUE;
  self->n_calls++;
  g_dbus_connection_call (self->bus, "org.freedesktop.systemd1", UNIT_PATH,
                          "org.freedesktop.DBus.Properties", "GetAll", g_variant_new ("(s)", ""),
                          G_VARIANT_TYPE ("(a{sv})"), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          START_TIMEOUT_MS, self->over, on_unit, self);
  return G_SOURCE_CONTINUE;
}

static void
on_started (GObject *source, GAsyncResult *answer, gpointer user_data)
{
  ServiceStart *self = user_data;
  GError *error = NULL;
  GVariant *value = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), answer, &error);

  g_clear_pointer (&value, g_variant_unref);
  self->n_calls--;
  if (error != NULL)
    g_dbus_error_strip_remote_error (error);
  finish (self, error);
}

/**
 * start_service:
 * @bus: the system bus
 * @name: what is to have an owner
 *
 * Has the bus start the service, unless it runs. Blocks: for start-up only. The bus does not hear
 * from systemd that a unit cannot start, and lets its callers wait for 25 s: we ask systemd
 * ourselves.
 *
 * Returns: whether it runs
 * Errors: %G_DBUS_ERROR_SERVICE_UNKNOWN if it is not installed, %G_DBUS_ERROR_SPAWN_FAILED with
 * what systemd knows if it cannot start; whatever else the bus says
 */
static gboolean
start_service (GDBusConnection *bus, const char *name, GError **error)
{
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GCancellable) over = g_cancellable_new ();
  g_autoptr (GSource) timer = g_timeout_source_new (LOOK_INTERVAL_MS);
  ServiceStart self = { .bus = bus, .over = over, .n_calls = 1 };

  g_main_context_push_thread_default (context);
  g_source_set_callback (timer, look_at_unit, &self, NULL);
  g_source_attach (timer, context);
  g_dbus_connection_call (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                          "org.freedesktop.DBus", "StartServiceByName",
                          g_variant_new ("(su)", name, 0), G_VARIANT_TYPE ("(u)"),
                          G_DBUS_CALL_FLAGS_NONE, START_TIMEOUT_MS, over, on_started, &self);
  while (self.n_calls > 0)
    g_main_context_iteration (context, TRUE);
  g_source_destroy (timer);
  g_main_context_pop_thread_default (context);
  if (self.error == NULL)
    return TRUE;
  g_propagate_error (error, self.error);
  return FALSE;
}

static SondeConnection *
new_connection (void)
{
  SondeConnection *self = g_new0 (SondeConnection, 1);

  (void) SONDE_CLIENT_ERROR; /* registers it */
  self->closed = g_cancellable_new ();
  return self;
}

/* Starts pkttyagent for this process, to be asked only if no other agent is there, and waits until
 * it is registered. NULL without polkit's tools: then nobody can be asked here. */
static GSubprocess *
start_agent (void)
{
  g_autoptr (GSubprocessLauncher) launcher
      = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDERR_SILENCE);
  /* polkit finds an agent, and one that is a fallback to it, by the session that we are in, so
   * without a session ours must not be a fallback. */
  const char *option = g_getenv ("XDG_SESSION_ID") != NULL ? "--fallback" : NULL;
  GSubprocess *self;
  sonde_autofd int ready = -1;
  int fds[2];
  struct pollfd poll_fd = { .events = POLLHUP };

  if (pipe2 (fds, O_CLOEXEC) < 0)
    return NULL;
  ready = fds[0];
  g_subprocess_launcher_take_fd (launcher, fds[1], NOTIFY_FD);
  self = g_subprocess_launcher_spawn (launcher, NULL, "pkttyagent", "--notify-fd",
                                      G_STRINGIFY (NOTIFY_FD), option, NULL);
  g_subprocess_launcher_close (launcher);
  poll_fd.fd = ready;
  while (self != NULL && poll (&poll_fd, 1, REGISTER_MS) < 0 && errno == EINTR)
    ;
  return self;
}

SondeConnection *
sonde_connection_open_bus (SondeClientAsk ask, GError **error)
{
  g_autoptr (SondeConnection) self = new_connection ();
  g_autoptr (GError) failure = NULL;

  self->name = BUS_NAME;
  self->bus = g_bus_get_sync (G_BUS_TYPE_SYSTEM, NULL, &failure);
  if (self->bus == NULL)
    {
      g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER, "There is no system bus: %s",
                   failure->message);
      return NULL;
    }
  g_dbus_connection_set_exit_on_close (self->bus, FALSE);
  if (!start_service (self->bus, BUS_NAME, &failure))
    {
      if (g_error_matches (failure, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN))
        g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN,
                     "The system bus has no service %s", BUS_NAME);
      else
        g_propagate_error (error, g_steal_pointer (&failure));
      return NULL;
    }
  self->may_ask = ask == SONDE_CLIENT_ASK_DESKTOP
                  || (ask == SONDE_CLIENT_ASK_TERMINAL && isatty (STDIN_FILENO));
  if (self->may_ask && ask == SONDE_CLIENT_ASK_TERMINAL && getuid () != 0)
    self->agent = start_agent ();
  return g_steal_pointer (&self);
}

/* Runs between fork and exec: async-signal-safe calls only. */
static void
leave_process_group (gpointer user_data)
{
  setpgid (0, 0);
}

static GSubprocess *
start_daemon (const char *daemon_path,
              const char *broker_path,
              const char *worker_path,
              int fd,
              GError **error)
{
  g_autofree char *path = sonde_private_beacon_make ();
  g_autofree char *beacon = path != NULL ? g_strdup_printf ("--beacon=%s", path) : NULL;
  g_autoptr (GSubprocessLauncher) launcher
      = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_SILENCE);
  g_autofree char *peer = g_strdup_printf ("--peer-fd=%d", PEER_FD);
  g_autofree char *broker = g_strdup_printf ("--broker=%s", broker_path);
  g_autofree char *worker = g_strdup_printf ("--worker=%s", worker_path);

  g_subprocess_launcher_take_fd (launcher, fd, PEER_FD);
  g_subprocess_launcher_set_child_setup (launcher, leave_process_group, NULL, NULL);
  return g_subprocess_launcher_spawn (launcher, error, daemon_path, peer, broker, worker, beacon,
                                      NULL);
}

/* @fd: (transfer full) */
static GDBusConnection *
connect_peer (int fd, GError **error)
{
  g_autoptr (GSocket) socket = g_socket_new_from_fd (fd, error);
  g_autoptr (GSocketConnection) stream = NULL;

  if (socket == NULL)
    {
      close (fd);
      return NULL;
    }
  stream = g_socket_connection_factory_create_connection (socket);
  return g_dbus_connection_new_sync (
      G_IO_STREAM (stream), NULL, G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT, NULL, NULL, error);
}

/* sd-bus gives up a connection if a descriptor comes together with the end of the handshake, as in
 * a Profile call that follows at once. A call without one has it begin first. */
static gboolean
await_begin (GDBusConnection *bus, GError **error)
{
  GVariant *answer
      = g_dbus_connection_call_sync (bus, NULL, "/", "org.freedesktop.DBus.Peer", "Ping", NULL,
                                     NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, error);
  gboolean has_begun = answer != NULL;

  g_clear_pointer (&answer, g_variant_unref);
  return has_begun;
}

/* The first of: what was asked for, the environment, what was built beside the running program, the
 * installed program. The environment may choose because the daemon runs with no more rights than
 * ours. */
static char *
choose_path (const char *path, const char *variable, const char *built, const char *installed)
{
  if (path == NULL || path[0] == '\0')
    path = g_getenv (variable);
  return path != NULL && path[0] != '\0' ? g_strdup (path)
                                         : sonde_sibling_dup_path (built, installed);
}

SondeConnection *
sonde_connection_open_embedded (const char *daemon_path, const char *worker_path, GError **error)
{
  g_autoptr (SondeConnection) self = new_connection ();
  g_autofree char *daemon = choose_path (daemon_path, "SONDE_DAEMON", "daemon/control/sonded",
                                         SONDE_LIBEXECDIR "/sonded");
  g_autofree char *broker = choose_path (NULL, "SONDE_BROKER", "daemon/broker/sonde-broker",
                                         SONDE_LIBEXECDIR "/sonde-broker");
  g_autofree char *worker
      = choose_path (worker_path, "SONDE_WORKER", "daemon/capture/sonde-capture",
                     SONDE_LIBEXECDIR "/sonde-capture");
  int fds[2];

  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot make a socket: %s",
                   g_strerror (errno));
      return NULL;
    }
  self->daemon = start_daemon (daemon, broker, worker, fds[1], error);
  if (self->daemon == NULL)
    {
      g_prefix_error (error, "Cannot start %s: ", daemon);
      close (fds[0]);
      return NULL;
    }
  self->bus = connect_peer (fds[0], error);
  if (self->bus == NULL || !await_begin (self->bus, error))
    {
      g_prefix_error (error, "No answer from %s: ", daemon);
      return NULL;
    }
  return g_steal_pointer (&self);
}

GDBusCallFlags
sonde_connection_call_flags (const SondeConnection *self)
{
  return self->may_ask ? G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION : G_DBUS_CALL_FLAGS_NONE;
}

static const char *
path_of (const SondeServiceCall *call)
{
  return call->path != NULL ? call->path : MANAGER_PATH;
}

static GDBusCallFlags
flags_of (const SondeConnection *self, const SondeServiceCall *call)
{
  return call->is_quiet ? G_DBUS_CALL_FLAGS_NONE : sonde_connection_call_flags (self);
}

static const char *
interface_of (const SondeServiceCall *call)
{
  if (call->interface != NULL)
    return call->interface;
  return call->path != NULL ? SONDE_SESSION_INTERFACE : SONDE_MANAGER_INTERFACE;
}

void
sonde_connection_call (SondeConnection *self,
                       const SondeServiceCall *call,
                       GCancellable *cancellable,
                       GAsyncReadyCallback callback,
                       gpointer user_data)
{
  g_dbus_connection_call_with_unix_fd_list (
      self->bus, self->name, path_of (call), interface_of (call), call->method, call->arguments,
      G_VARIANT_TYPE (call->type), flags_of (self, call), CALL_TIMEOUT_MS, call->fds, cancellable,
      callback, user_data);
}

/* @answer as it came; without what D-Bus puts before the service's words. */
static GVariant *
strip_error (GVariant *answer, GError **failure, GError **error)
{
  if (answer != NULL)
    return answer;
  g_dbus_error_strip_remote_error (*failure);
  g_propagate_error (error, g_steal_pointer (failure));
  return NULL;
}

GVariant *
sonde_connection_call_finish (GObject *source,
                              GAsyncResult *result,
                              GUnixFDList **fds,
                              GError **error)
{
  GError *failure = NULL;

  return strip_error (g_dbus_connection_call_with_unix_fd_list_finish (G_DBUS_CONNECTION (source),
                                                                       fds, result, &failure),
                      &failure, error);
}

GVariant *
sonde_connection_call_sync (SondeConnection *self,
                            const SondeServiceCall *call,
                            GUnixFDList **fds,
                            GCancellable *cancellable,
                            GError **error)
{
  g_autoptr (GVariant) arguments
      = call->arguments != NULL ? g_variant_ref_sink (call->arguments) : NULL;
  GVariant *answer = NULL;
  g_autoptr (GError) failure = NULL;
  guint n_asks = 0;

  do
    {
      g_clear_error (&failure);
      answer = g_dbus_connection_call_with_unix_fd_list_sync (
          self->bus, self->name, path_of (call), interface_of (call), call->method, arguments,
          G_VARIANT_TYPE (call->type), flags_of (self, call), CALL_TIMEOUT_MS, call->fds, fds,
          cancellable, &failure);
    }
  while (answer == NULL && call->is_look && ++n_asks < SONDE_MAX_ASKS
         && g_error_matches (failure, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY));
  return strip_error (answer, &failure, error);
}

int
sonde_connection_take_handle (GUnixFDList *fds, GVariant *handle, GError **error)
{
  gint32 index = g_variant_get_handle (handle);

  if (fds != NULL && index >= 0 && index < g_unix_fd_list_get_length (fds))
    return g_unix_fd_list_get (fds, index, error);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
               "The service's answer lacks a descriptor");
  return -1;
}

void
sonde_connection_close (SondeConnection *self)
{
  g_cancellable_cancel (self->closed);
  if (self->agent != NULL)
    {
      /* pkttyagent restores the terminal's settings then */
      g_subprocess_send_signal (self->agent, SIGTERM);
      g_subprocess_wait (self->agent, NULL, NULL);
      g_clear_object (&self->agent);
    }
  if (self->daemon != NULL && self->bus != NULL)
    g_dbus_connection_close_sync (self->bus, NULL, NULL);
}

void
sonde_connection_free (SondeConnection *self)
{
  if (self == NULL)
    return;
  sonde_connection_close (self);
  g_clear_object (&self->closed);
  g_clear_object (&self->bus);
  g_clear_object (&self->daemon);
  g_free (self);
}
