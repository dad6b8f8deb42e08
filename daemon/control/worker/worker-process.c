/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that we spawn: its start, and its end by itself or by force. */
#include "daemon/control/worker/worker-process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/capabilities.h"

struct SondeWorkerProcess
{
  grefcount refs;                /* the owner's, and one until it is reaped */
  SondeWorkerProcessEnded ended; /* NULL once freed by the owner */
  gpointer user_data;
  SondeWorkerLauncher *launcher;
  uid_t uid;            /* the launcher's, until it is reaped */
  GSubprocess *process; /* NULL before it is started */
  int pidfd;            /* -1: the same, or it is reaped */
  gboolean is_unwanted; /* to be killed when it is started */
};

static void
process_unref (SondeWorkerProcess *self)
{
  if (!g_ref_count_dec (&self->refs))
    return;
  sonde_worker_launcher_unref (self->launcher);
  g_clear_object (&self->process);
  sonde_clear_fd (&self->pidfd);
  g_free (self);
}

static void
end (SondeWorkerProcess *self, const char *how)
{
  sonde_worker_launcher_give_uid_back (self->launcher, self->uid);
  if (self->ended != NULL)
    self->ended (how, self->user_data);
  process_unref (self);
}

static void
on_reaped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GSubprocess *process = G_SUBPROCESS (source);
  g_autofree char *how = NULL;

  g_subprocess_wait_finish (process, result, NULL);
  how = g_subprocess_get_if_signaled (process)
            ? g_strdup_printf ("The worker was killed by signal %d",
                               g_subprocess_get_term_sig (process))
            : g_strdup_printf ("The worker exited with status %d",
                               g_subprocess_get_exit_status (process));
  end (user_data, how);
}

/* GSubprocess would do it on a thread that has no capability in effect. */
static void
kill_child (const SondeWorkerProcess *self)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_SIGNALS);

  (void) syscall (SYS_pidfd_send_signal, self->pidfd, SIGKILL, NULL, 0);
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
  SondeWorkerProcess *self = user_data;
  g_autoptr (GError) error = NULL;

  self->process = g_task_propagate_pointer (G_TASK (result), &error);
  if (self->process == NULL)
    {
      end (self, error->message);
      return;
    }
  self->pidfd = open_pidfd (self->process);
  if (self->is_unwanted)
    kill_child (self);
  g_subprocess_wait_async (self->process, NULL, on_reaped, self);
}

/* --- in a thread --- */

/* What it is told; nothing else is shared with the main loop. */
typedef struct
{
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
  /* Standard input is /dev/null by default; standard error is for what the worker has to complain
   * about. All else closes itself. GLib would close it as well, but between fork() and exec(), and
   * then wait for the end of a worker of whose exec() it could not read. */
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (
      G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_INHERIT_FDS);
  GSubprocess *process;

  /* The program may lie in a folder that is closed to others, as a developer's home is. */
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);

  g_subprocess_launcher_take_fd (launcher, sonde_steal_fd (&order->fd), SONDE_WORKER_FD);
  process = g_subprocess_launcher_spawn (
      launcher, error, order->path, "--fd=" G_STRINGIFY (SONDE_WORKER_FD), order->own_uid, NULL);
  g_subprocess_launcher_close (launcher);
  if (process == NULL)
    g_prefix_error (error, "Cannot start a worker: ");
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
start (SondeWorkerProcess *self, int fd)
{
  g_autoptr (GTask) task = g_task_new (NULL, NULL, on_started, self);
  GError *error = NULL;
  Order *order = g_new0 (Order, 1);
  GThread *thread;

  order->path = g_strdup (sonde_worker_launcher_path (self->launcher));
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
  g_prefix_error (&error, "Cannot start a worker: ");
  sonde_clear_fd (&order->fd);
  g_task_return_error (task, error);
  g_object_unref (task);
}

SondeWorkerProcess *
sonde_worker_process_new (SondeWorkerLauncher *launcher,
                          int fd,
                          SondeWorkerProcessEnded ended,
                          gpointer user_data,
                          GError **error)
{
  SondeWorkerProcess *self;
  uid_t uid;

  if (!sonde_worker_launcher_take_uid (launcher, &uid, error))
    {
      close (fd);
      return NULL;
    }
  self = g_new0 (SondeWorkerProcess, 1);
  g_ref_count_init (&self->refs);
  g_ref_count_inc (&self->refs);
  self->ended = ended;
  self->user_data = user_data;
  self->launcher = sonde_worker_launcher_ref (launcher);
  self->uid = uid;
  self->pidfd = -1;
  start (self, fd);
  return self;
}

void
sonde_worker_process_free (SondeWorkerProcess *self)
{
  if (self == NULL)
    return;
  self->ended = NULL;
  process_unref (self);
}

void
sonde_worker_process_kill (SondeWorkerProcess *self)
{
  self->is_unwanted = TRUE;
  if (self->process != NULL)
    kill_child (self);
}

pid_t
sonde_worker_process_pid (const SondeWorkerProcess *self)
{
  const char *identifier
      = self->process != NULL ? g_subprocess_get_identifier (self->process) : NULL;

  return identifier != NULL ? (pid_t) g_ascii_strtoll (identifier, NULL, 10) : 0;
}
