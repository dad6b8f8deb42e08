/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One sonde-capture process: its start, its connection, its end. */
#include "daemon/control/worker/worker.h"

#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/base/capabilities.h"

/* It could not even start. */
#define NEVER_SPOKE                                                                                \
  "The worker ended before it said a word: journalctl -u 'sonde-capture@*' says why"

struct SondeWorker
{
  const SondeWorkerHandler *handler;
  gpointer user_data;
  SondeWorkerLauncher *launcher;
  SondeWorkerProcess *process; /* one that we spawned, */
  SondeWorkerUnit *unit;       /* or systemd's, once it has said who it is */
  pid_t unit_pid;              /* of that */
  SondeUnitShare share;        /* of that; none while the weight is 0 */
  SondeChannel *channel;
  guint exit_timer;
  gboolean is_closed; /* the connection */
  gboolean has_ended; /* the process */
  char *how;
};

static void
report_gone (SondeWorker *self)
{
  if (self->is_closed && self->has_ended)
    self->handler->gone (self, self->how, self->user_data);
}

/* The process stays without its connection, or has left it to somebody else. */
static gboolean
on_exit_timeout (gpointer user_data)
{
  SondeWorker *self = user_data;

  self->exit_timer = 0;
  if (!self->has_ended && (self->process != NULL || self->unit != NULL))
    {
      sonde_worker_kill (self);
      return G_SOURCE_REMOVE;
    }
  g_clear_pointer (&self->channel, sonde_channel_free);
  self->is_closed = TRUE;
  /* Of one that never said a word nothing else is known to end. */
  self->has_ended = TRUE;
  if (self->how == NULL)
    self->how = g_strdup (NEVER_SPOKE);
  report_gone (self);
  return G_SOURCE_REMOVE;
}

/* What it said last may still be on its way. */
static void
end_process (SondeWorker *self, const char *how)
{
  self->has_ended = TRUE;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  if (self->how == NULL)
    self->how = g_strdup (how);
  if (!self->is_closed)
    self->exit_timer = g_timeout_add (SONDE_LIMIT_WORKER_EXIT_MS, on_exit_timeout, self);
  report_gone (self);
}

static void
on_ended (const char *how, gpointer user_data)
{
  end_process (user_data, how);
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
  else if (!self->has_ended)
    self->exit_timer = g_timeout_add (SONDE_LIMIT_WORKER_EXIT_MS, on_exit_timeout, self);
  if (!self->has_ended && self->process == NULL && self->unit == NULL)
    end_process (self, NEVER_SPOKE);
  else
    report_gone (self);
}

/* The number was its as long as it has its end. */
static gboolean
find_unit (SondeWorker *self, pid_t pid, GError **error)
{
  self->unit_pid = pid;
  self->unit = sonde_worker_unit_new (sonde_worker_launcher_bus (self->launcher), pid, on_ended,
                                      self, error);
  if (self->unit == NULL)
    return FALSE;
  sonde_worker_unit_set_share (self->unit, &self->share);
  if (sonde_channel_has_peer (self->channel))
    return TRUE;
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The worker has gone");
  g_clear_pointer (&self->unit, sonde_worker_unit_free);
  return FALSE;
}

/* Who has connected tells the first message. */
static gboolean
identify (SondeWorker *self, GError **error)
{
  pid_t pid = sonde_channel_peer_pid (self->channel);

  if (pid > 0)
    return find_unit (self, pid, error);
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                       "The kernel does not tell who the worker is");
  return FALSE;
}

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  SondeWorker *self = user_data;
  g_autoptr (GError) error = NULL;

  if (!self->has_ended && self->process == NULL && self->unit == NULL && !identify (self, &error))
    {
      g_clear_pointer (&self->channel, sonde_channel_free);
      on_closed (NULL, error, self);
    }
  else
    self->handler->message (self, message, self->user_data);
}

/* Returns: our end of the connection, or -1 */
static int
spawn (SondeWorker *self, GError **error)
{
  int fds[2];

  if (!sonde_socketpair (SOCK_SEQPACKET, fds, error))
    return -1;
  self->process = sonde_worker_process_new (self->launcher, fds[1], on_ended, self, error);
  if (self->process != NULL)
    return fds[0];
  close (fds[0]);
  return -1;
}

static const SondeChannelHandler channel_handler = { .message = on_message, .closed = on_closed };

static SondeWorker *
worker_new (SondeWorkerLauncher *launcher, const SondeWorkerHandler *handler, gpointer user_data)
{
  SondeWorker *self = g_new0 (SondeWorker, 1);

  self->handler = handler;
  self->user_data = user_data;
  self->launcher = sonde_worker_launcher_ref (launcher);
  return self;
}

SondeWorker *
sonde_worker_start (SondeWorkerLauncher *launcher,
                    const SondeWorkerHandler *handler,
                    gpointer user_data,
                    GError **error)
{
  SondeWorkerSocket *socket = sonde_worker_launcher_socket (launcher);
  SondeWorker *self = worker_new (launcher, handler, user_data);
  int fd = socket != NULL ? sonde_worker_socket_take (socket, error) : spawn (self, error);

  if (fd < 0)
    {
      sonde_worker_leave (self);
      return NULL;
    }
  self->channel = sonde_channel_new (fd, SONDE_WAY_WORKER_TO_FRONT, &channel_handler, self);
  return self;
}

SondeWorker *
sonde_worker_adopt (SondeWorkerLauncher *launcher,
                    int fd,
                    pid_t pid,
                    const SondeWorkerHandler *handler,
                    gpointer user_data)
{
  SondeWorker *self = worker_new (launcher, handler, user_data);

  self->channel = sonde_channel_new (fd, SONDE_WAY_WORKER_TO_FRONT, &channel_handler, self);
  if (!sonde_channel_has_peer (self->channel) || !find_unit (self, pid, NULL))
    end_process (self, "The worker ended while the service was away");
  return self;
}

void
sonde_worker_free (SondeWorker *self)
{
  if (self == NULL)
    return;
  sonde_worker_kill (self);
  sonde_worker_leave (self);
}

void
sonde_worker_leave (SondeWorker *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  g_clear_pointer (&self->channel, sonde_channel_free);
  g_clear_pointer (&self->process, sonde_worker_process_free);
  g_clear_pointer (&self->unit, sonde_worker_unit_free);
  sonde_worker_launcher_unref (self->launcher);
  g_free (self->how);
  g_free (self);
}

void
sonde_worker_kill (SondeWorker *self)
{
  if (self->has_ended)
    return;
  if (self->process != NULL)
    sonde_worker_process_kill (self->process);
  else if (self->unit != NULL)
    sonde_worker_unit_kill (self->unit);
  /* It exits at the end of its connection. */
  else if (self->exit_timer == 0)
    self->exit_timer = g_idle_add (on_exit_timeout, self);
}

pid_t
sonde_worker_pid (const SondeWorker *self)
{
  return self->unit_pid;
}

gboolean
sonde_worker_measure (const SondeWorker *self, SondeProcCost *cost)
{
  /* For /proc with the option hidepid. */
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  pid_t pid = self->process != NULL ? sonde_worker_process_pid (self->process) : self->unit_pid;

  return pid > 0 && sonde_proc_cost_measure (pid, cost);
}

void
sonde_worker_set_share (SondeWorker *self, const SondeUnitShare *share)
{
  self->share = *share;
  if (self->unit != NULL)
    sonde_worker_unit_set_share (self->unit, share);
}

const SondeChannel *
sonde_worker_channel (const SondeWorker *self)
{
  return self->channel;
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
