/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-launcher.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/peer/peer-process.h"

/* The next spare one starts when the session that took this one has started. */
#define SPARE_DELAY_MS 500

/* One of a kind that is kept ready. It has said its first word when it is taken, and that waits in
 * the connection; of a broker it is looked at there, since it tells what this machine has. */
typedef struct
{
  SondePeerLauncher *launcher;
  SondePeerKind kind;
  char *socket_path;         /* NULL: they are spawned */
  int fd;                    /* -1: there is none */
  SondePeerProcess *process; /* of a spawned one */
  guint watch;
  guint timer;
} Spare;

struct SondePeerLauncher
{
  grefcount refs; /* brokers that do not end outlive their session's manager */
  SondePeerProcesses *processes;
  Spare spares[SONDE_PEER_N_KINDS];
  SondeBusConnection *bus;
  SondeMessageSheet sheet;
  GSourceFunc sheet_done; /* NULL: nobody waits for it */
  gpointer sheet_data;
  guint sheet_timer;
};

const SondePeerKindRow *
sonde_peer_kind_row (SondePeerKind kind)
{
  static const SondePeerKindRow rows[SONDE_PEER_N_KINDS] = {
    [SONDE_PEER_BROKER] = { "broker", "sonde-broker@*", SONDE_WAY_BROKER_TO_FRONT },
    [SONDE_PEER_CAPTURE] = { "worker", "sonde-worker@*", SONDE_WAY_WORKER_TO_FRONT },
  };

  return &rows[kind];
}

static int
connect_one (const Spare *self, GError **error)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  sonde_autofd int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int on = 1;

  g_strlcpy (address.sun_path, self->socket_path, sizeof address.sun_path);
  /* SO_PEERCRED would name systemd, which listens. */
  if (fd < 0 || setsockopt (fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0
      || connect (fd, (struct sockaddr *) &address, sizeof address) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot have a %s from %s",
                             sonde_peer_kind_row (self->kind)->name, self->socket_path);
      return -1;
    }
  return sonde_steal_fd (&fd);
}

static int
make (const Spare *self, SondePeerProcess **process, GError **error)
{
  const char *name = sonde_peer_kind_row (self->kind)->name;
  SondePeerProcesses *processes = self->launcher->processes;
  int fds[2];

  *process = NULL;
  if (self->socket_path != NULL)
    return connect_one (self, error);
  if (processes == NULL)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Nothing starts a %s here", name);
      return -1;
    }
  if (!sonde_socketpair (SOCK_SEQPACKET, fds, error))
    return -1;
  *process = sonde_peer_process_new (processes, self->kind, name, fds[1], error);
  if (*process != NULL)
    return fds[0];
  close (fds[0]);
  return -1;
}

static void
forget_spare (Spare *self)
{
  g_clear_handle_id (&self->watch, g_source_remove);
  sonde_closer_clear (&self->fd);
  g_clear_pointer (&self->process, sonde_peer_process_free);
}

/* It died. Another one might die as well: it waits until somebody wants one. */
static gboolean
on_spare_closed (int fd, GIOCondition condition, gpointer user_data)
{
  Spare *self = user_data;

  self->watch = 0;
  forget_spare (self);
  if (self->kind == SONDE_PEER_BROKER)
    sonde_peer_launcher_take_sheet (self->launcher, NULL);
  return G_SOURCE_REMOVE;
}

/* Whoever takes it reads it, and refuses what is no sheet. */
static gboolean
on_first_word (int fd, GIOCondition condition, gpointer user_data)
{
  Spare *self = user_data;
  SondeMessageSheet sheet;
  gssize n = recv (fd, &sheet, sizeof sheet, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
  const char *why;

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    return on_spare_closed (fd, condition, self);
  if (n == sizeof sheet
      && sonde_message_check (&sheet, sizeof sheet, 0, SONDE_WAY_BROKER_TO_FRONT, &why) == 0
      && sheet.header.type == SONDE_MESSAGE_SHEET)
    sonde_peer_launcher_take_sheet (self->launcher, &sheet);
  else
    sonde_peer_launcher_take_sheet (self->launcher, NULL);
  self->watch = g_unix_fd_add (fd, G_IO_HUP, on_spare_closed, self);
  return G_SOURCE_REMOVE;
}

static gboolean
make_spare (gpointer user_data)
{
  Spare *self = user_data;
  g_autoptr (GError) error = NULL;

  self->timer = 0;
  if (self->fd >= 0)
    return G_SOURCE_REMOVE;
  self->fd = make (self, &self->process, &error);
  if (self->fd < 0)
    g_info ("No spare %s: %s", sonde_peer_kind_row (self->kind)->name, error->message);
  else if (self->kind == SONDE_PEER_BROKER)
    self->watch = g_unix_fd_add (self->fd, G_IO_IN | G_IO_HUP, on_first_word, self);
  else
    self->watch = g_unix_fd_add (self->fd, G_IO_HUP, on_spare_closed, self);
  return G_SOURCE_REMOVE;
}

SondePeerLauncher *
sonde_peer_launcher_new (const char *const socket_paths[SONDE_PEER_N_KINDS],
                         SondePeerProcesses *processes)
{
  SondePeerLauncher *self = g_new0 (SondePeerLauncher, 1);

  g_ref_count_init (&self->refs);
  self->processes = processes;
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    {
      Spare *spare = &self->spares[kind];

      spare->launcher = self;
      spare->kind = kind;
      spare->socket_path = g_strdup (socket_paths[kind]);
      spare->fd = -1;
      if (spare->socket_path != NULL || kind == SONDE_PEER_BROKER)
        make_spare (spare);
    }
  return self;
}

void
sonde_peer_launcher_set_bus (SondePeerLauncher *self, SondeBusConnection *bus)
{
  self->bus = bus;
}

SondePeerLauncher *
sonde_peer_launcher_ref (SondePeerLauncher *self)
{
  g_ref_count_inc (&self->refs);
  return self;
}

void
sonde_peer_launcher_unref (SondePeerLauncher *self)
{
  if (self == NULL || !g_ref_count_dec (&self->refs))
    return;
  g_clear_handle_id (&self->sheet_timer, g_source_remove);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    {
      Spare *spare = &self->spares[kind];

      g_clear_handle_id (&spare->timer, g_source_remove);
      forget_spare (spare);
      g_free (spare->socket_path);
    }
  sonde_peer_processes_free (self->processes);
  g_free (self);
}

SondeBusConnection *
sonde_peer_launcher_bus (const SondePeerLauncher *self)
{
  return self->bus;
}

int
sonde_peer_launcher_take (SondePeerLauncher *self,
                          SondePeerKind kind,
                          SondePeerProcess **process,
                          GError **error)
{
  Spare *spare = &self->spares[kind];
  int fd = sonde_steal_fd (&spare->fd);

  *process = g_steal_pointer (&spare->process);
  forget_spare (spare);
  if (spare->socket_path != NULL && spare->timer == 0)
    spare->timer = g_timeout_add (SPARE_DELAY_MS, make_spare, spare);
  return fd >= 0 ? fd : make (spare, process, error);
}

/* --- what this machine has --- */

static gboolean
on_sheet_settled (gpointer user_data)
{
  SondePeerLauncher *self = user_data;
  GSourceFunc done = self->sheet_done;

  self->sheet_timer = 0;
  self->sheet_done = NULL;
  done (self->sheet_data);
  return G_SOURCE_REMOVE;
}

void
sonde_peer_launcher_take_sheet (SondePeerLauncher *self, const SondeMessageSheet *sheet)
{
  if (sheet != NULL && sheet->version == SONDE_MESSAGE_VERSION)
    self->sheet = *sheet;
  if (self->sheet_done == NULL)
    return;
  g_clear_handle_id (&self->sheet_timer, g_source_remove);
  self->sheet_timer = g_idle_add (on_sheet_settled, self);
}

const SondeMessageSheet *
sonde_peer_launcher_sheet (const SondePeerLauncher *self)
{
  return &self->sheet;
}

void
sonde_peer_launcher_await_sheet (SondePeerLauncher *self, GSourceFunc done, gpointer user_data)
{
  self->sheet_done = done;
  self->sheet_data = user_data;
  self->sheet_timer = self->spares[SONDE_PEER_BROKER].fd >= 0
                          ? g_timeout_add (SONDE_LIMIT_SHEET_MS, on_sheet_settled, self)
                          : g_idle_add (on_sheet_settled, self);
}
