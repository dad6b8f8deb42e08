/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One sonde-capture process: its start, its connection, its end. */
#include "daemon/control/worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"

struct SondeWorker
{
  grefcount refs;                    /* the owner's, and one for the pending wait */
  const SondeWorkerHandler *handler; /* NULL once freed by the owner */
  gpointer user_data;
  SondeWorkerLauncher *launcher;
  uid_t uid; /* the launcher's, until it is reaped */
  GSubprocess *process;
  SondeChannel *channel;
  guint exit_timer;
  gboolean is_closed; /* the connection */
  gboolean is_reaped; /* the process */
  char *how;
};

static void
worker_unref (SondeWorker *self)
{
  if (!g_ref_count_dec (&self->refs))
    return;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  g_clear_pointer (&self->channel, sonde_channel_free);
  g_clear_object (&self->process);
  sonde_worker_launcher_unref (self->launcher);
  g_free (self->how);
  g_free (self);
}

static void
report_gone (SondeWorker *self)
{
  if (self->is_closed && self->is_reaped && self->handler != NULL)
    self->handler->gone (self, self->how, self->user_data);
}

/* The process stays without its connection, or has left it to somebody else. */
static gboolean
on_exit_timeout (gpointer user_data)
{
  SondeWorker *self = user_data;

  self->exit_timer = 0;
  if (!self->is_reaped)
    {
      sonde_worker_kill (self);
      return G_SOURCE_REMOVE;
    }
  g_clear_pointer (&self->channel, sonde_channel_free);
  self->is_closed = TRUE;
  report_gone (self);
  return G_SOURCE_REMOVE;
}

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  SondeWorker *self = user_data;

  if (self->handler != NULL)
    self->handler->message (self, message, self->user_data);
}

static void
on_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  SondeWorker *self = user_data;

  self->is_closed = TRUE;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  if (error != NULL)
    {
      g_free (self->how);
      self->how = g_strdup (error->message);
      sonde_worker_kill (self);
    }
  else if (!self->is_reaped)
    self->exit_timer = g_timeout_add (SONDE_LIMIT_WORKER_EXIT_MS, on_exit_timeout, self);
  report_gone (self);
}

static void
on_reaped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeWorker *self = user_data;
  GSubprocess *process = G_SUBPROCESS (source);

  g_subprocess_wait_finish (process, result, NULL);
  self->is_reaped = TRUE;
  sonde_worker_launcher_give_uid_back (self->launcher, self->uid);
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  if (self->how == NULL)
    self->how = g_subprocess_get_if_signaled (process)
                    ? g_strdup_printf ("The worker was killed by signal %d",
                                       g_subprocess_get_term_sig (process))
                    : g_strdup_printf ("The worker exited with status %d",
                                       g_subprocess_get_exit_status (process));
  /* What it said last may still be on its way. */
  if (!self->is_closed && self->handler != NULL)
    self->exit_timer = g_timeout_add (SONDE_LIMIT_WORKER_EXIT_MS, on_exit_timeout, self);
  report_gone (self);
  worker_unref (self);
}

/* Takes @fd. */
static GSubprocess *
start_process (const char *path, uid_t uid, int fd, GError **error)
{
  /* Standard input is /dev/null by default; standard error is for what the worker has to complain
   * about. */
  g_autoptr (GSubprocessLauncher) launcher
      = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_SILENCE);
  g_autofree char *own_uid
      = uid != SONDE_WORKER_UID_NONE ? g_strdup_printf ("--uid=%u", (guint) uid) : NULL;
  GSubprocess *process;

  g_subprocess_launcher_take_fd (launcher, fd, SONDE_WORKER_FD);
  process = g_subprocess_launcher_spawn (launcher, error, path,
                                         "--fd=" G_STRINGIFY (SONDE_WORKER_FD), own_uid, NULL);
  g_subprocess_launcher_close (launcher);
  if (process == NULL)
    g_prefix_error (error, "Cannot start a worker: ");
  return process;
}

SondeWorker *
sonde_worker_spawn (SondeWorkerLauncher *launcher,
                    const SondeWorkerHandler *handler,
                    gpointer user_data,
                    GError **error)
{
  static const SondeChannelHandler channel_handler = { .message = on_message, .closed = on_closed };
  sonde_autofd int ours = -1;
  GSubprocess *process;
  SondeWorker *self;
  int fds[2];
  uid_t uid;

  if (!sonde_socketpair (SOCK_SEQPACKET, fds, error))
    return NULL;
  ours = fds[0];
  if (!sonde_worker_launcher_take_uid (launcher, &uid, error))
    {
      close (fds[1]);
      return NULL;
    }
  process = start_process (sonde_worker_launcher_path (launcher), uid, fds[1], error);
  if (process == NULL)
    {
      sonde_worker_launcher_give_uid_back (launcher, uid);
      return NULL;
    }
  self = g_new0 (SondeWorker, 1);
  g_ref_count_init (&self->refs);
  self->handler = handler;
  self->user_data = user_data;
  self->launcher = sonde_worker_launcher_ref (launcher);
  self->uid = uid;
  self->process = process;
  self->channel = sonde_channel_new (sonde_steal_fd (&ours), TRUE, &channel_handler, self);
  g_ref_count_inc (&self->refs);
  g_subprocess_wait_async (self->process, NULL, on_reaped, self);
  return self;
}

void
sonde_worker_free (SondeWorker *self)
{
  if (self == NULL)
    return;
  self->handler = NULL;
  sonde_worker_kill (self);
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  g_clear_pointer (&self->channel, sonde_channel_free);
  worker_unref (self);
}

void
sonde_worker_kill (SondeWorker *self)
{
  if (!self->is_reaped)
    g_subprocess_force_exit (self->process);
}

gboolean
sonde_worker_send (SondeWorker *self,
                   gpointer message,
                   gsize size_bytes,
                   const int *fds,
                   unsigned n_fds,
                   GError **error)
{
  return sonde_channel_send (self->channel, message, size_bytes, fds, n_fds, error);
}

gboolean
sonde_worker_send_simple (SondeWorker *self, SondeMessageType type, GError **error)
{
  return sonde_channel_send_simple (self->channel, type, error);
}
