/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

struct SondePeerProcess
{
  grefcount refs;              /* the owner's, and one until it is reaped */
  SondePeerProcessEnded ended; /* NULL: nobody watches it */
  gpointer user_data;
  SondePeerKind kind;
  SondePeerLauncher *launcher; /* whose uid it has, until it is reaped; NULL: it has the caller's */
  uid_t uid;
  GSubprocess *process; /* NULL before it is started */
  int pidfd;            /* -1: the same, or it is reaped */
  gboolean is_unwanted; /* to be killed when it is started */
  char *how;            /* it has ended */
};

static void
process_unref (SondePeerProcess *self)
{
  if (!g_ref_count_dec (&self->refs))
    return;
  sonde_peer_launcher_unref (self->launcher);
  g_clear_object (&self->process);
  sonde_clear_fd (&self->pidfd);
  g_free (self->how);
  g_free (self);
}

static void
end (SondePeerProcess *self, const char *how)
{
  if (self->launcher != NULL)
    sonde_peer_launcher_give_uid_back (self->launcher, self->uid);
  self->how = g_strdup (how);
  if (self->ended != NULL)
    self->ended (how, self->user_data);
  process_unref (self);
}

static void
on_reaped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondePeerProcess *self = user_data;
  const char *name = sonde_peer_kind_row (self->kind)->name;
  GSubprocess *process = G_SUBPROCESS (source);
  g_autofree char *how = NULL;

  g_subprocess_wait_finish (process, result, NULL);
  how = g_subprocess_get_if_signaled (process)
            ? g_strdup_printf ("The %s was killed by signal %d", name,
                               g_subprocess_get_term_sig (process))
            : g_strdup_printf ("The %s exited with status %d", name,
                               g_subprocess_get_exit_status (process));
  end (self, how);
}

/* -1: it is reaped, which GLib does on a thread of its own. If it was not afterwards, then the
 * number was its as well when we used it. */
static int
open_pidfd (GSubprocess *process)
{
  const char *identifier = g_subprocess_get_identifier (process);
  sonde_autofd int pidfd = -1;

  if (identifier != NULL)
    pidfd = (int) syscall (SYS_pidfd_open, (pid_t) g_ascii_strtoll (identifier, NULL, 10), 0);
  return g_subprocess_get_identifier (process) != NULL ? sonde_steal_fd (&pidfd) : -1;
}

static void
on_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondePeerProcess *self = user_data;
  g_autoptr (GError) error = NULL;

  self->process = g_task_propagate_pointer (G_TASK (result), &error);
  if (self->process == NULL)
    {
      end (self, error->message);
      return;
    }
  self->pidfd = open_pidfd (self->process);
  if (self->is_unwanted)
    sonde_peer_process_kill (self);
  g_subprocess_wait_async (self->process, NULL, on_reaped, self);
}

/* --- in a thread --- */

/* What it is told; nothing else is shared with the main loop. */
typedef struct
{
  const char *name; /* of its kind */
  char *path;
  char *own_uid; /* an argument; NULL: the caller's */
  int fd;
} Order;

static void
order_free (gpointer data)
{
  Order *order = data;

  g_free (order->path);
  g_free (order->own_uid);
  sonde_clear_fd (&order->fd);
  g_free (order);
}

static GSubprocess *
spawn (Order *order, GError **error)
{
  /* Standard input is /dev/null by default; standard error is for what it has to complain about.
   * All else closes itself. GLib would close it as well, but between fork() and exec(), and then
   * wait for the end of a process of whose exec() it could not read. */
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (
      G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_INHERIT_FDS);
  GSubprocess *process;

  g_subprocess_launcher_take_fd (launcher, sonde_steal_fd (&order->fd), SONDE_PEER_FD);
  process = g_subprocess_launcher_spawn (launcher, error, order->path,
                                         "--fd=" G_STRINGIFY (SONDE_PEER_FD), order->own_uid, NULL);
  g_subprocess_launcher_close (launcher);
  if (process == NULL)
    g_prefix_error (error, "Cannot start a %s: ", order->name);
  return process;
}

static gpointer
run (gpointer data)
{
  g_autoptr (GTask) task = data;
  GError *error = NULL;
  GSubprocess *process = spawn (g_task_get_task_data (task), &error);

  if (process != NULL)
    g_task_return_pointer (task, process, g_object_unref);
  else
    g_task_return_error (task, error);
  return NULL;
}

/* --- */

/* Not in a pool, whose threads may all be busy, and which does not tell when it cannot have one. */
static void
start (SondePeerProcess *self, const char *path, int fd)
{
  g_autoptr (GTask) task = g_task_new (NULL, NULL, on_started, self);
  GError *error = NULL;
  Order *order = g_new0 (Order, 1);
  GThread *thread;

  order->name = sonde_peer_kind_row (self->kind)->name;
  order->path = g_strdup (path);
  if (self->uid != SONDE_WORKER_UID_NONE)
    order->own_uid = g_strdup_printf ("--uid=%u", (guint) self->uid);
  order->fd = fd;
  g_task_set_task_data (task, order, order_free);
  thread = g_thread_try_new ("spawn", run, g_object_ref (task), &error);
  if (thread != NULL)
    {
      g_thread_unref (thread);
      return;
    }
  g_prefix_error (&error, "Cannot start a %s: ", order->name);
  sonde_clear_fd (&order->fd);
  g_task_return_error (task, error);
  g_object_unref (task);
}

SondePeerProcess *
sonde_peer_process_new (SondePeerLauncher *launcher, SondePeerKind kind, int fd, GError **error)
{
  SondePeerProcess *self;
  uid_t uid = SONDE_WORKER_UID_NONE;

  if (sonde_peer_kind_row (kind)->has_own_uid
      && !sonde_peer_launcher_take_uid (launcher, &uid, error))
    {
      close (fd);
      return NULL;
    }
  self = g_new0 (SondePeerProcess, 1);
  g_ref_count_init (&self->refs);
  g_ref_count_inc (&self->refs);
  self->kind = kind;
  self->launcher = uid != SONDE_WORKER_UID_NONE ? sonde_peer_launcher_ref (launcher) : NULL;
  self->uid = uid;
  self->pidfd = -1;
  start (self, sonde_peer_launcher_path (launcher, kind), fd);
  return self;
}

const char *
sonde_peer_process_watch (SondePeerProcess *self, SondePeerProcessEnded ended, gpointer user_data)
{
  self->ended = self->how == NULL ? ended : NULL;
  self->user_data = user_data;
  return self->how;
}

void
sonde_peer_process_free (SondePeerProcess *self)
{
  if (self == NULL)
    return;
  self->ended = NULL;
  process_unref (self);
}

void
sonde_peer_process_kill (SondePeerProcess *self)
{
  self->is_unwanted = TRUE;
  /* By its pidfd: GSubprocess would do it on a thread of its own. */
  if (self->process != NULL)
    (void) syscall (SYS_pidfd_send_signal, self->pidfd, SIGKILL, NULL, 0);
}

pid_t
sonde_peer_process_pid (const SondePeerProcess *self)
{
  const char *identifier
      = self->process != NULL ? g_subprocess_get_identifier (self->process) : NULL;

  return identifier != NULL ? (pid_t) g_ascii_strtoll (identifier, NULL, 10) : 0;
}
