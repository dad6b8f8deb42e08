/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/mcp/mcp-child.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#define GRACE_S     2
#define BLOCK_BYTES 65536

/* One of the pipes that we read. */
typedef struct
{
  SondeMcpChild *child;
  int fd;
  guint source;
  gsize max_bytes;
  gboolean keeps_end; /* what is over is forgotten; else it is too much */
  GString *text;
} Pipe;

struct SondeMcpChild
{
  pid_t pid; /* 0 once reaped */
  int pid_fd;
  guint end_source;
  guint time_source;
  guint grace_source;
  Pipe printed;
  Pipe said;
  SondeMcpChildEnd end;
  SondeMcpChildDone done;
  gpointer user_data;
};

static void
set_errno (GError **error, const char *what, int error_number)
{
  g_set_error (error, G_IO_ERROR, (gint) g_io_error_from_errno (error_number), "%s: %s", what,
               g_strerror (error_number));
}

/* The group is there as long as its first process was not reaped: nobody else has its number. */
static void
kill_group (const SondeMcpChild *self)
{
  if (self->pid != 0)
    kill (-self->pid, SIGKILL);
}

/* FALSE at the end, or if it was too much. */
static gboolean
read_block (Pipe *self)
{
  char block[BLOCK_BYTES];
  gssize n = read (self->fd, block, sizeof block);

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return TRUE;
  if (n <= 0)
    return FALSE;
  g_string_append_len (self->text, block, n);
  if (self->text->len <= self->max_bytes)
    return TRUE;
  if (self->keeps_end)
    {
      g_string_erase (self->text, 0, (gssize) (self->text->len - self->max_bytes));
      return TRUE;
    }
  self->child->end = SONDE_MCP_CHILD_LARGE;
  kill_group (self->child);
  return FALSE;
}

static gboolean
pipe_ready (int fd, GIOCondition condition, gpointer user_data)
{
  Pipe *self = user_data;

  if (read_block (self))
    return G_SOURCE_CONTINUE;
  self->source = 0;
  return G_SOURCE_REMOVE;
}

static void
pipe_drain (Pipe *self)
{
  gsize n_before;

  if (self->source == 0)
    return;
  /* the writers are dead: what is there is finite, at most a pipe's room */
  do
    n_before = self->text->len;
  while (read_block (self) && self->text->len > n_before);
  g_clear_handle_id (&self->source, g_source_remove);
}

/* May free us. */
static void
tell_end (SondeMcpChild *self, int wait_status)
{
  g_clear_handle_id (&self->end_source, g_source_remove);
  g_clear_handle_id (&self->time_source, g_source_remove);
  g_clear_handle_id (&self->grace_source, g_source_remove);
  pipe_drain (&self->printed);
  pipe_drain (&self->said);
  self->done (self->end, wait_status, self->user_data);
}

static gboolean
has_exited (int fd, GIOCondition condition, gpointer user_data)
{
  SondeMcpChild *self = user_data;
  int wait_status = 0;

  kill_group (self);
  if (waitpid (self->pid, &wait_status, WNOHANG) == 0)
    return G_SOURCE_CONTINUE;
  self->pid = 0;
  self->end_source = 0;
  tell_end (self, wait_status);
  return G_SOURCE_REMOVE;
}

/* It is not waited for: the kernel may hold it. */
static gboolean
is_over (gpointer user_data)
{
  SondeMcpChild *self = user_data;

  self->time_source = 0;
  self->end = SONDE_MCP_CHILD_LATE;
  kill_group (self);
  tell_end (self, 0);
  return G_SOURCE_REMOVE;
}

static gboolean
grace_is_over (gpointer user_data)
{
  SondeMcpChild *self = user_data;

  self->grace_source = 0;
  kill_group (self);
  return G_SOURCE_REMOVE;
}

void
sonde_mcp_child_stop (SondeMcpChild *self)
{
  if (self->pid == 0 || self->grace_source != 0)
    return;
  kill (self->pid, SIGINT);
  self->grace_source = g_timeout_add_seconds (GRACE_S, grace_is_over, self);
}

/* Signals are as they were before main(), for the programs that it runs, too. */
static int
spawn (pid_t *pid, char **argv, const char *folder, int out_fd, int err_fd)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t defaults;
  int failure;

  posix_spawn_file_actions_init (&actions);
  posix_spawnattr_init (&attributes);
  sigemptyset (&defaults);
  sigaddset (&defaults, SIGPIPE);
  sigaddset (&defaults, SIGXFSZ);
  posix_spawnattr_setsigdefault (&attributes, &defaults);
  posix_spawnattr_setpgroup (&attributes, 0);
  posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  failure = posix_spawn_file_actions_addopen (&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (failure == 0)
    failure = posix_spawn_file_actions_adddup2 (&actions, out_fd, STDOUT_FILENO);
  if (failure == 0)
    failure = posix_spawn_file_actions_adddup2 (&actions, err_fd, STDERR_FILENO);
  if (failure == 0 && folder != NULL)
    failure = posix_spawn_file_actions_addchdir_np (&actions, folder);
  /* what we are is there even if an upgrade has replaced the file */
  if (failure == 0)
    failure = posix_spawn (pid, "/proc/self/exe", &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy (&actions);
  posix_spawnattr_destroy (&attributes);
  return failure;
}

static gboolean
pipe_open (Pipe *self,
           SondeMcpChild *child,
           gsize max_bytes,
           gboolean keeps_end,
           int *write_fd,
           GError **error)
{
  int fds[2];

  if (pipe2 (fds, O_CLOEXEC) < 0)
    {
      set_errno (error, "Cannot make a pipe", errno);
      return FALSE;
    }
  *self = (Pipe){ child, fds[0], 0, max_bytes, keeps_end, g_string_new (NULL) };
  *write_fd = fds[1];
  fcntl (fds[0], F_SETFL, O_NONBLOCK);
  return TRUE;
}

static void
pipe_close (Pipe *self)
{
  g_clear_handle_id (&self->source, g_source_remove);
  sonde_clear_fd (&self->fd);
  if (self->text != NULL)
    g_string_free (self->text, TRUE);
}

SondeMcpChild *
sonde_mcp_child_start (char **argv,
                       const SondeMcpChildOptions *options,
                       SondeMcpChildDone done,
                       gpointer user_data,
                       GError **error)
{
  g_autoptr (SondeMcpChild) self = g_new0 (SondeMcpChild, 1);
  sonde_autofd int out_fd = -1;
  sonde_autofd int err_fd = -1;
  int failure;

  self->pid_fd = self->printed.fd = self->said.fd = -1;
  self->done = done;
  self->user_data = user_data;
  if (!pipe_open (&self->printed, self,
                  options->is_heard ? SONDE_MCP_CHILD_ANSWER_BYTES : SONDE_MCP_CHILD_SAID_BYTES,
                  !options->is_heard, &out_fd, error)
      || !pipe_open (&self->said, self, SONDE_MCP_CHILD_SAID_BYTES, TRUE, &err_fd, error))
    return NULL;
  failure = spawn (&self->pid, argv, options->folder, out_fd, err_fd);
  if (failure != 0)
    {
      self->pid = 0;
      set_errno (error, "Cannot start sondectl", failure);
      return NULL;
    }
  self->pid_fd = pidfd_open (self->pid, 0);
  if (self->pid_fd < 0)
    {
      set_errno (error, "Cannot watch sondectl", errno);
      return NULL;
    }
  self->end_source = g_unix_fd_add (self->pid_fd, G_IO_IN, has_exited, self);
  self->printed.source
      = g_unix_fd_add (self->printed.fd, G_IO_IN | G_IO_HUP, pipe_ready, &self->printed);
  self->said.source = g_unix_fd_add (self->said.fd, G_IO_IN | G_IO_HUP, pipe_ready, &self->said);
  self->time_source = g_timeout_add ((guint) (options->seconds * 1000), is_over, self);
  return g_steal_pointer (&self);
}

/* Reaps what dies later: nobody may wait for a process that the kernel holds. */
static void
has_died (GPid pid, int wait_status, gpointer user_data)
{
}

void
sonde_mcp_child_free (SondeMcpChild *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->end_source, g_source_remove);
  g_clear_handle_id (&self->time_source, g_source_remove);
  g_clear_handle_id (&self->grace_source, g_source_remove);
  kill_group (self);
  if (self->pid != 0)
    g_child_watch_add (self->pid, has_died, NULL);
  sonde_clear_fd (&self->pid_fd);
  pipe_close (&self->printed);
  pipe_close (&self->said);
  g_free (self);
}

const GString *
sonde_mcp_child_printed (const SondeMcpChild *self)
{
  return self->printed.text;
}

const GString *
sonde_mcp_child_said (const SondeMcpChild *self)
{
  return self->said.text;
}
