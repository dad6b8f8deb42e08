/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"

struct SondePeer
{
  const SondePeerHandler *handler;
  gpointer user_data;
  SondePeerKind kind;
  SondePeerLauncher *launcher;
  SondePeerProcess *process; /* one that we spawned, */
  SondePeerUnit *unit;       /* or systemd's, once it has said who it is */
  pid_t unit_pid;            /* of that */
  SondeUnitShare share;      /* of that; none while the weight is 0 */
  SondeChannel *channel;
  guint exit_timer;
  guint kill_timer;
  gboolean is_closed; /* the connection */
  gboolean has_ended; /* the process */
  char *how;
};

/* Of one that could not even start. */
static void
say_how_it_never_spoke (SondePeer *self)
{
  const SondePeerKindRow *row = sonde_peer_kind_row (self->kind);

  if (self->how == NULL)
    self->how = g_strdup_printf ("The %s ended before it said a word: journalctl -u '%s' says why",
                                 row->name, row->units);
}

static void
report_gone (SondePeer *self)
{
  if (self->is_closed && self->has_ended)
    self->handler->gone (self, self->how, self->user_data);
}

/* The process stays without its connection, or has left it to somebody else. */
static gboolean
on_exit_timeout (gpointer user_data)
{
  SondePeer *self = user_data;

  self->exit_timer = 0;
  if (!self->has_ended && (self->process != NULL || self->unit != NULL))
    {
      sonde_peer_kill (self);
      return G_SOURCE_REMOVE;
    }
  g_clear_pointer (&self->channel, sonde_channel_free);
  self->is_closed = TRUE;
  /* Of one that never said a word nothing else is known to end. */
  self->has_ended = TRUE;
  say_how_it_never_spoke (self);
  report_gone (self);
  return G_SOURCE_REMOVE;
}

/* What it said last may still be on its way. */
static void
end_process (SondePeer *self, const char *how)
{
  self->has_ended = TRUE;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  g_clear_handle_id (&self->kill_timer, g_source_remove);
  if (self->how == NULL)
    self->how = g_strdup (how);
  if (!self->is_closed)
    self->exit_timer = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS, on_exit_timeout, self);
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
  SondePeer *self = user_data;

  self->is_closed = TRUE;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  if (error != NULL)
    {
      g_free (self->how);
      self->how = g_strdup (error->message);
      sonde_peer_kill (self);
    }
  else if (!self->has_ended)
    self->exit_timer = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS, on_exit_timeout, self);
  if (!self->has_ended && self->process == NULL && self->unit == NULL)
    {
      say_how_it_never_spoke (self);
      end_process (self, self->how);
    }
  else
    report_gone (self);
}

/* The number was its as long as it has its end. */
static gboolean
find_unit (SondePeer *self, pid_t pid, GError **error)
{
  self->unit_pid = pid;
  self->unit = sonde_peer_unit_new (sonde_peer_launcher_bus (self->launcher), self->kind, pid,
                                    on_ended, self, error);
  if (self->unit == NULL)
    return FALSE;
  sonde_peer_unit_set_share (self->unit, &self->share);
  if (sonde_channel_has_peer (self->channel))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The %s has gone",
               sonde_peer_kind_row (self->kind)->name);
  g_clear_pointer (&self->unit, sonde_peer_unit_free);
  return FALSE;
}

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  SondePeer *self = user_data;
  pid_t pid = sonde_channel_peer_pid (channel);
  g_autoptr (GError) error = NULL;

  /* Who has connected tells the first message. */
  if (!self->has_ended && self->process == NULL && self->unit == NULL
      && !(pid > 0 && find_unit (self, pid, &error)))
    {
      if (error == NULL)
        g_set_error (&error, SONDE_ERROR, SONDE_ERROR_FAILED,
                     "The kernel does not tell who the %s is",
                     sonde_peer_kind_row (self->kind)->name);
      g_clear_pointer (&self->channel, sonde_channel_free);
      on_closed (NULL, error, self);
    }
  else
    self->handler->message (self, message, fds, n_fds, self->user_data);
}

static void
on_drained (SondeChannel *channel, gpointer user_data)
{
  SondePeer *self = user_data;

  if (self->handler->caught_up != NULL)
    self->handler->caught_up (self, self->user_data);
}

static SondePeer *
peer_new (SondePeerLauncher *launcher,
          SondePeerKind kind,
          const SondePeerHandler *handler,
          gpointer user_data)
{
  SondePeer *self = g_new0 (SondePeer, 1);

  self->handler = handler;
  self->user_data = user_data;
  self->kind = kind;
  self->launcher = sonde_peer_launcher_ref (launcher);
  return self;
}

/* Descriptors that it does not read stay with us: as their number on their way, and until its end
 * is closed, by whom that may be. */
static void
open_channel (SondePeer *self, int fd)
{
  const int size_bytes = SONDE_LIMIT_PEER_BUFFER;

  /* What a broker gives us, for its worker or for nobody, may be a stranger's. */
  static const SondeChannelHandler channel_handler = {
    .message = on_message, .closed = on_closed, .drained = on_drained, .close_fd = sonde_closer_take
  };

  (void) setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &size_bytes, sizeof size_bytes);
  self->channel
      = sonde_channel_new (fd, sonde_peer_kind_row (self->kind)->says, &channel_handler, self);
}

SondePeer *
sonde_peer_start (SondePeerLauncher *launcher,
                  SondePeerKind kind,
                  const SondePeerHandler *handler,
                  gpointer user_data,
                  GError **error)
{
  SondePeer *self = peer_new (launcher, kind, handler, user_data);
  const char *how = NULL;
  int fd = sonde_peer_launcher_take (launcher, kind, &self->process, error);

  if (fd < 0)
    {
      sonde_peer_leave (self);
      return NULL;
    }
  open_channel (self, fd);
  if (self->process != NULL)
    how = sonde_peer_process_watch (self->process, on_ended, self);
  if (how != NULL)
    end_process (self, how);
  return self;
}

SondePeer *
sonde_peer_adopt (SondePeerLauncher *launcher,
                  SondePeerKind kind,
                  int fd,
                  pid_t pid,
                  const SondePeerHandler *handler,
                  gpointer user_data)
{
  SondePeer *self = peer_new (launcher, kind, handler, user_data);
  g_autofree char *how = g_strdup_printf ("The %s ended while the service was away",
                                          sonde_peer_kind_row (kind)->name);

  self->unit_pid = pid; /* which the next sonded is told even if it has gone */
  open_channel (self, fd);
  if (!sonde_channel_has_peer (self->channel) || !find_unit (self, pid, NULL))
    end_process (self, how);
  return self;
}

/* It hears of the end at once, whoever holds the connection besides us and whenever that is closed,
 * and puts nothing into it any more. */
static void
hang_up (SondePeer *self)
{
  if (self->channel != NULL && sonde_channel_fd (self->channel) >= 0)
    (void) shutdown (sonde_channel_fd (self->channel), SHUT_RDWR);
}

void
sonde_peer_free (SondePeer *self)
{
  if (self == NULL)
    return;
  sonde_peer_kill (self);
  hang_up (self);
  sonde_peer_leave (self);
}

void
sonde_peer_leave (SondePeer *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->exit_timer, g_source_remove);
  g_clear_handle_id (&self->kill_timer, g_source_remove);
  g_clear_pointer (&self->channel, sonde_channel_free);
  g_clear_pointer (&self->process, sonde_peer_process_free);
  g_clear_pointer (&self->unit, sonde_peer_unit_free);
  sonde_peer_launcher_unref (self->launcher);
  g_free (self->how);
  g_free (self);
}

/* Nobody may be there who lets us kill a unit: its program ends with its connection, too. */
static gboolean
on_kill_overdue (gpointer user_data)
{
  SondePeer *self = user_data;

  self->kill_timer = 0;
  hang_up (self);
  return G_SOURCE_REMOVE;
}

void
sonde_peer_kill (SondePeer *self)
{
  if (self->has_ended)
    return;
  if (self->kill_timer == 0)
    self->kill_timer = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS, on_kill_overdue, self);
  if (self->process != NULL)
    sonde_peer_process_kill (self->process);
  else if (self->unit != NULL)
    sonde_peer_unit_kill (self->unit);
  /* It exits at the end of its connection. */
  else if (self->exit_timer == 0)
    self->exit_timer = g_idle_add (on_exit_timeout, self);
}

void
sonde_peer_dismiss (SondePeer *self, const SondePeerHandler *handler, gpointer user_data)
{
  self->handler = handler;
  self->user_data = user_data;
  if (self->is_closed)
    return;
  hang_up (self);
  g_clear_pointer (&self->channel, sonde_channel_free);
  on_closed (NULL, NULL, self);
}

pid_t
sonde_peer_pid (const SondePeer *self)
{
  return self->unit_pid;
}

int
sonde_peer_pidfd (const SondePeer *self)
{
  return self->unit != NULL ? sonde_peer_unit_pidfd (self->unit) : -1;
}

gboolean
sonde_peer_measure (const SondePeer *self, SondeProcCost *cost)
{
  pid_t pid = self->process != NULL ? sonde_peer_process_pid (self->process)
              : self->unit != NULL  ? self->unit_pid
                                    : 0;

  return pid > 0 && sonde_proc_cost_measure (pid, cost);
}

void
sonde_peer_set_share (SondePeer *self, const SondeUnitShare *share)
{
  self->share = *share;
  if (self->unit != NULL)
    sonde_peer_unit_set_share (self->unit, share);
}

const SondeChannel *
sonde_peer_channel (const SondePeer *self)
{
  return self->channel;
}

gboolean
sonde_peer_is_behind (const SondePeer *self)
{
  return self->channel != NULL && sonde_channel_queued (self->channel) > 0;
}

void
sonde_peer_hold (SondePeer *self, gboolean is_held)
{
  if (self->channel != NULL)
    sonde_channel_hold (self->channel, is_held);
}

gboolean
sonde_peer_send (SondePeer *self,
                 gpointer message,
                 gsize size_bytes,
                 const int *fds,
                 unsigned n_fds,
                 GError **error)
{
  return sonde_channel_send (self->channel, message, size_bytes, fds, n_fds, error);
}

gboolean
sonde_peer_send_simple (SondePeer *self, SondeMessageType type, GError **error)
{
  return sonde_channel_send_simple (self->channel, type, error);
}
