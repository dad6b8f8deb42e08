/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way to a sonded: the system bus, or one of our own. */
#include "client/library/connection.h"

#include <errno.h>
#include <gio/gunixconnection.h>
#include <sys/socket.h>

#include "client/base/fd.h"
#include "client/library/tty-agent.h"
#include "config.h"

#define BUS_NAME     "org.sonde.Profiler1"
#define MANAGER_PATH "/org/sonde/Profiler1"
#define PEER_FD      3 /* the number the embedded daemon finds its socket at */

/* GDBus' own default of 25 s is too short for somebody who is asked for a password. */
#define CALL_TIMEOUT_MS G_MAXINT

static SondeConnection *
new_connection (void)
{
  SondeConnection *self = g_new0 (SondeConnection, 1);

  self->closed = g_cancellable_new ();
  return self;
}

static gboolean
open_manager (SondeConnection *self, GError **error)
{
  (void) SONDE_CLIENT_ERROR; /* registers it */
  self->manager = sonde_dbus_manager_proxy_new_sync (
      self->bus,
      G_DBUS_PROXY_FLAGS_DO_NOT_LOAD_PROPERTIES | G_DBUS_PROXY_FLAGS_DO_NOT_CONNECT_SIGNALS,
      self->name, MANAGER_PATH, NULL, error);
  if (self->manager == NULL)
    return FALSE;
  g_dbus_proxy_set_default_timeout (G_DBUS_PROXY (self->manager), CALL_TIMEOUT_MS);
  return TRUE;
}

SondeConnection *
sonde_connection_open_bus (SondeClientAsk ask, GError **error)
{
  g_autoptr (SondeConnection) self = new_connection ();
  g_autoptr (GError) failure = NULL;
  g_autofree char *owner = NULL;

  self->name = BUS_NAME;
  self->bus = g_bus_get_sync (G_BUS_TYPE_SYSTEM, NULL, &failure);
  if (self->bus == NULL)
    {
      g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER, "There is no system bus: %s",
                   failure->message);
      return NULL;
    }
  g_dbus_connection_set_exit_on_close (self->bus, FALSE);
  if (!open_manager (self, error))
    return NULL;

  owner = g_dbus_proxy_get_name_owner (G_DBUS_PROXY (self->manager));
  if (owner == NULL)
    {
      g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN,
                   "The system bus has no service %s", BUS_NAME);
      return NULL;
    }
  self->may_ask = ask == SONDE_CLIENT_ASK_DESKTOP
                  || (ask == SONDE_CLIENT_ASK_TERMINAL && isatty (STDIN_FILENO));
  if (self->may_ask && ask == SONDE_CLIENT_ASK_TERMINAL && getuid () != 0)
    self->agent = sonde_tty_agent_start ();
  return g_steal_pointer (&self);
}

/* Runs between fork and exec: async-signal-safe calls only. */
static void
leave_process_group (gpointer user_data)
{
  setpgid (0, 0);
}

static GSubprocess *
start_daemon (const char *daemon_path, const char *worker_path, int fd, GError **error)
{
  g_autoptr (GSubprocessLauncher) launcher
      = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_SILENCE);
  g_autofree char *peer = g_strdup_printf ("--peer-fd=%d", PEER_FD);
  g_autofree char *worker = g_strdup_printf ("--worker=%s", worker_path);

  g_subprocess_launcher_take_fd (launcher, fd, PEER_FD);
  g_subprocess_launcher_set_child_setup (launcher, leave_process_group, NULL, NULL);
  return g_subprocess_launcher_spawn (launcher, error, daemon_path, peer, worker, NULL);
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

/* The first of: what was asked for, the environment, the installed program. The environment may
 * choose because the daemon runs with no more rights than ours. */
static const char *
choose_path (const char *path, const char *variable, const char *installed)
{
  if (path == NULL || path[0] == '\0')
    path = g_getenv (variable);
  return path != NULL && path[0] != '\0' ? path : installed;
}

SondeConnection *
sonde_connection_open_embedded (const char *daemon_path, const char *worker_path, GError **error)
{
  g_autoptr (SondeConnection) self = new_connection ();
  int fds[2];

  daemon_path = choose_path (daemon_path, "SONDE_DAEMON", SONDE_LIBEXECDIR "/sonded");
  worker_path = choose_path (worker_path, "SONDE_WORKER", SONDE_LIBEXECDIR "/sonde-capture");
  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot make a socket: %s",
                   g_strerror (errno));
      return NULL;
    }
  self->daemon = start_daemon (daemon_path, worker_path, fds[1], error);
  if (self->daemon == NULL)
    {
      g_prefix_error (error, "Cannot start %s: ", daemon_path);
      close (fds[0]);
      return NULL;
    }
  self->bus = connect_peer (fds[0], error);
  if (self->bus == NULL || !open_manager (self, error))
    {
      g_prefix_error (error, "No answer from %s: ", daemon_path);
      return NULL;
    }
  return g_steal_pointer (&self);
}

GDBusCallFlags
sonde_connection_call_flags (const SondeConnection *self)
{
  return self->may_ask ? G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION : G_DBUS_CALL_FLAGS_NONE;
}

void
sonde_connection_close (SondeConnection *self)
{
  g_cancellable_cancel (self->closed);
  sonde_tty_agent_stop (g_steal_pointer (&self->agent));
  if (self->daemon != NULL && self->bus != NULL)
    g_dbus_connection_close_sync (self->bus, NULL, NULL);
}

void
sonde_connection_free (SondeConnection *self)
{
  if (self == NULL)
    return;
  sonde_connection_close (self);
  g_clear_object (&self->manager);
  g_clear_object (&self->closed);
  g_clear_object (&self->bus);
  g_clear_object (&self->daemon);
  g_free (self);
}
