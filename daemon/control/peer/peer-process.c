/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-process.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/socket.h"

#define PACKETS_PER_TURN 64
#define RETRY_MS         10 /* the kernel had no memory for a packet */

struct SondePeerProcesses
{
  int fd; /* -1: the spawner has gone */
  const SondeSpawnerProgram *programs;
  unsigned n_programs;
  guint64 last_id;
  GHashTable *by_id; /* SondePeerProcess: those that have not ended */
  GArray *kills;     /* ids that it had no room for */
  guint source;
  guint kill_source;
};

struct SondePeerProcess
{
  guint64 id;
  SondePeerProcesses *all; /* NULL: it has ended */
  unsigned program;
  const char *name;
  gboolean is_owned;           /* else it goes when it has ended */
  SondePeerProcessEnded ended; /* NULL: nobody watches it */
  gpointer user_data;
  pid_t pid;
  char *how; /* it has ended */
};

static void
process_free (SondePeerProcess *self)
{
  g_free (self->how);
  g_free (self);
}

/* @how: (transfer full) */
static void
end (SondePeerProcess *self, char *how)
{
  self->pid = 0;
  self->how = how;
  self->all = NULL;
  if (!self->is_owned)
    process_free (self);
  else if (self->ended != NULL)
    self->ended (how, self->user_data);
}

/* What it has spawned goes on, but nobody knows for how long. */
static void
lose_spawner (SondePeerProcesses *self)
{
  GHashTableIter iter;
  gpointer process;

  g_clear_handle_id (&self->source, g_source_remove);
  g_clear_handle_id (&self->kill_source, g_source_remove);
  sonde_clear_fd (&self->fd);
  for (;;)
    {
      g_hash_table_iter_init (&iter, self->by_id);
      if (!g_hash_table_iter_next (&iter, NULL, &process))
        return;
      g_hash_table_iter_steal (&iter);
      end (process, g_strdup ("The process that starts brokers and workers has gone"));
    }
}

static void
take_packet (SondePeerProcesses *self, const SondeSpawnerPacket *packet)
{
  guint64 id = packet->id;
  SondePeerProcess *process = g_hash_table_lookup (self->by_id, &id);
  char *how;

  if (process == NULL)
    return;
  if (packet->type == SONDE_SPAWNER_STARTED)
    {
      process->pid = packet->pid;
      return;
    }
  if (packet->error == EUSERS)
    how = g_strdup_printf ("Cannot start a %s: all %u user ids of workers, %u and up, are in use",
                           process->name, SONDE_WORKER_N_UIDS, SONDE_WORKER_UID_FIRST);
  else if (packet->error != 0)
    how = g_strdup_printf ("Cannot start a %s: %s: %s", process->name,
                           self->programs[process->program].path, g_strerror (packet->error));
  else if (WIFSIGNALED (packet->status))
    how = g_strdup_printf ("The %s was killed by signal %d", process->name,
                           WTERMSIG (packet->status));
  else
    how = g_strdup_printf ("The %s exited with status %d", process->name,
                           WEXITSTATUS (packet->status));
  g_hash_table_steal (self->by_id, &id);
  end (process, how);
}

static gboolean
on_packets (int fd, GIOCondition condition, gpointer user_data)
{
  SondePeerProcesses *self = user_data;

  for (guint i = 0; i < PACKETS_PER_TURN; i++)
    {
      SondeSpawnerPacket packet;
      gssize n = recv (fd, &packet, sizeof packet, MSG_DONTWAIT);

      if (n == sizeof packet)
        take_packet (self, &packet);
      else if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return G_SOURCE_CONTINUE;
      else if (n < 0 && errno == ECONNRESET)
        continue; /* it has gone with unread wishes; its last words come behind */
      else
        {
          self->source = 0;
          lose_spawner (self);
          return G_SOURCE_REMOVE;
        }
    }
  return G_SOURCE_CONTINUE;
}

static void send_kills (SondePeerProcesses *self);

static gboolean
on_room (int fd, GIOCondition condition, gpointer user_data)
{
  SondePeerProcesses *self = user_data;

  self->kill_source = 0;
  send_kills (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_memory (gpointer user_data)
{
  return on_room (-1, 0, user_data);
}

/* A spawner that has gone shows on the other source. */
static void
send_kills (SondePeerProcesses *self)
{
  while (self->kills->len > 0 && self->kill_source == 0)
    {
      const SondeSpawnerPacket packet
          = { .type = SONDE_SPAWNER_KILL, .id = g_array_index (self->kills, guint64, 0) };
      int result = sonde_send_with_fds (self->fd, &packet, sizeof packet, NULL, 0);

      if (result == -EAGAIN)
        self->kill_source = g_unix_fd_add (self->fd, G_IO_OUT, on_room, self);
      else if (result == -ENOBUFS || result == -ENOMEM)
        self->kill_source = g_timeout_add (RETRY_MS, on_memory, self);
      else
        g_array_remove_index (self->kills, 0);
    }
}

SondePeerProcesses *
sonde_peer_processes_new (int fd, const SondeSpawnerProgram *programs, unsigned n_programs)
{
  SondePeerProcesses *self = g_new0 (SondePeerProcesses, 1);

  self->fd = fd;
  self->programs = programs;
  self->n_programs = n_programs;
  self->by_id = g_hash_table_new (g_int64_hash, g_int64_equal);
  self->kills = g_array_new (FALSE, FALSE, sizeof (guint64));
  self->source = g_unix_fd_add (fd, G_IO_IN | G_IO_HUP, on_packets, self);
  return self;
}

void
sonde_peer_processes_free (SondePeerProcesses *self)
{
  GHashTableIter iter;
  gpointer process;

  if (self == NULL)
    return;
  g_clear_handle_id (&self->source, g_source_remove);
  g_clear_handle_id (&self->kill_source, g_source_remove);
  sonde_clear_fd (&self->fd);
  g_hash_table_iter_init (&iter, self->by_id);
  while (g_hash_table_iter_next (&iter, NULL, &process))
    process_free (process);
  g_hash_table_unref (self->by_id);
  g_array_unref (self->kills);
  g_free (self);
}

SondePeerProcess *
sonde_peer_process_new (
    SondePeerProcesses *all, unsigned program, const char *name, int fd, GError **error)
{
  const SondeSpawnerPacket packet
      = { .type = SONDE_SPAWNER_START, .program = program, .id = ++all->last_id };
  sonde_autofd int end_of_it = fd;
  SondePeerProcess *self;
  int result = all->fd >= 0 ? sonde_send_with_fds (all->fd, &packet, sizeof packet, &end_of_it, 1)
                            : -EPIPE;

  g_assert (program < all->n_programs);
  if (result < 0)
    {
      sonde_error_set_errno (error, -result, "Cannot start a %s", name);
      return NULL;
    }
  self = g_new0 (SondePeerProcess, 1);
  self->id = packet.id;
  self->all = all;
  self->program = program;
  self->name = name;
  self->is_owned = TRUE;
  g_hash_table_insert (all->by_id, &self->id, self);
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
  self->is_owned = FALSE;
  if (self->all == NULL)
    process_free (self);
}

void
sonde_peer_process_kill (SondePeerProcess *self)
{
  SondePeerProcesses *all = self->all;

  if (all == NULL)
    return;
  g_array_append_val (all->kills, self->id);
  send_kills (all);
}

pid_t
sonde_peer_process_pid (const SondePeerProcess *self)
{
  return self->pid;
}
