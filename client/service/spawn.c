/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/service/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"

#define MAX_RENDEZVOUS 256 /* bytes, with the NUL */
#define MAX_WORD       (1 + MAX_RENDEZVOUS + PATH_MAX)
#define IS_NAMED       '+' /* the word begins with: in its other form */
#define IS_PLAIN       '-'

struct SondeSpawn
{
  GPid pid;      /* 0 once reaped */
  int gate_fd;   /* a socket: a word opens, end of file means we are gone */
  int status_fd; /* errno of a failed exec, or end of file */
  gboolean is_released;
  guint child_source;
  guint status_source;
  const SondeSpawnHandler *handler;
  gpointer user_data;
};

/* Waits for the word, which has the form of the command, the rendezvous, and the beacon's path.
 * @control_fd: (out): came with it; -1: none. It is not close-on-exec. */
static gboolean
pass_gate (int gate_fd, char word[MAX_WORD], int *control_fd)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control;
  struct iovec iov = { word, MAX_WORD };
  struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  struct cmsghdr *header;
  gssize n;

  do
    n = recvmsg (gate_fd, &message, 0);
  while (n < 0 && errno == EINTR);
  header = CMSG_FIRSTHDR (&message);
  *control_fd = -1;
  if (n >= 1 && header != NULL && header->cmsg_type == SCM_RIGHTS)
    memcpy (control_fd, CMSG_DATA (header), sizeof *control_fd);

  return n >= 3 && word[n - 1] == '\0' && strlen (word) + 1 < (gsize) n;
}

/* How a profiled program finds its session. The inode tells it whether the number is still that of
 * the socket, and not of another that it was given. */
static void
set_control (int control_fd, const char *rendezvous, const char *beacon)
{
  g_autofree char *number = g_strdup_printf ("%d", control_fd);
  struct stat st;

  if (control_fd >= 0)
    {
      g_setenv ("SONDE_CONTROL_FD", number, TRUE);
      g_setenv ("SYSPROF_CONTROL_FD", number, TRUE);
    }
  if (control_fd >= 0 && fstat (control_fd, &st) == 0)
    {
      g_autofree char *inode = g_strdup_printf ("%" G_GUINT64_FORMAT, (guint64) st.st_ino);

      g_setenv ("SONDE_CONTROL_INODE", inode, TRUE);
    }
  if (rendezvous[0] != '\0')
    g_setenv ("SONDE_RENDEZVOUS", rendezvous, TRUE);
  else if (control_fd >= 0)
    g_unsetenv ("SONDE_RENDEZVOUS"); /* of a recording around ours */
  if (beacon[0] != '\0')
    g_setenv ("SONDE_BEACON", beacon, TRUE);
}

/* The child's half. We had one thread, so it may do what we may. */
static void
wait_and_exec (char **argv,
               char **named,
               const char *preload,
               gboolean spares_stdout,
               int gate_fd,
               int status_fd)
{
  gssize n;
  int control_fd;
  int saved_errno;
  const char *others;
  char word[MAX_WORD];

  signal (SIGXFSZ, SIG_DFL); /* as it was before main() */
  if (spares_stdout)
    dup2 (STDERR_FILENO, STDOUT_FILENO);
  if (!pass_gate (gate_fd, word, &control_fd))
    _exit (125);
  /* The environment of a profiled program. */
  others = g_getenv ("LD_PRELOAD");
  set_control (control_fd, word + 1, word + strlen (word) + 1);
  if (word[0] == IS_NAMED && named != NULL)
    argv = named;
  if (preload != NULL)
    {
      g_autofree char *all = others != NULL && others[0] != '\0'
                                 ? g_strconcat (preload, ":", others, NULL)
                                 : g_strdup (preload);

      g_setenv ("LD_PRELOAD", all, TRUE);
    }

  execvp (argv[0], argv);
  saved_errno = errno;
  do
    n = write (status_fd, &saved_errno, sizeof saved_errno);
  while (n < 0 && errno == EINTR);
  _exit (saved_errno == ENOENT ? 127 : 126);
}

static gboolean
set_errno (GError **error, const char *what)
{
  int saved_errno = errno;

  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (saved_errno), "%s: %s", what,
               g_strerror (saved_errno));
  return FALSE;
}

SondeSpawn *
sonde_spawn_new (
    char **argv, char **named, const char *preload, gboolean spares_stdout, GError **error)
{
  sonde_autofd int gate_read = -1;
  sonde_autofd int gate_write = -1;
  sonde_autofd int status_read = -1;
  sonde_autofd int status_write = -1;
  int pipe_fds[2];
  SondeSpawn *self;
  pid_t pid;

  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe_fds) < 0)
    return set_errno (error, "Cannot make a socket"), NULL;
  gate_read = pipe_fds[0];
  gate_write = pipe_fds[1];
  if (pipe2 (pipe_fds, O_CLOEXEC) < 0)
    return set_errno (error, "Cannot make a pipe"), NULL;
  status_read = pipe_fds[0];
  status_write = pipe_fds[1];

  pid = fork ();
  if (pid < 0)
    return set_errno (error, "Cannot fork"), NULL;
  if (pid == 0)
    {
      close (gate_write); /* or our end would keep the gate from seeing our parent's death */
      wait_and_exec (argv, named, preload, spares_stdout, gate_read, status_write);
    }

  self = g_new0 (SondeSpawn, 1);
  self->pid = pid;
  self->gate_fd = sonde_steal_fd (&gate_write);
  self->status_fd = sonde_steal_fd (&status_read);
  return self;
}

void
sonde_spawn_free (SondeSpawn *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->child_source, g_source_remove);
  g_clear_handle_id (&self->status_source, g_source_remove);
  if (self->pid != 0 && !self->is_released)
    {
      kill (self->pid, SIGKILL);
      waitpid (self->pid, NULL, 0);
    }
  sonde_clear_fd (&self->gate_fd);
  sonde_clear_fd (&self->status_fd);
  g_free (self);
}

static gboolean
status_ready (gint fd, GIOCondition condition, gpointer user_data)
{
  SondeSpawn *self = user_data;
  int error_number = 0;

  if (read (fd, &error_number, sizeof error_number) == (gssize) sizeof error_number)
    self->handler->exec_failed (error_number, self->user_data);
  self->status_source = 0;
  return G_SOURCE_REMOVE;
}

static void
child_exited (GPid pid, gint wait_status, gpointer user_data)
{
  SondeSpawn *self = user_data;

  /* told in the order of the header, whichever source came first */
  if (self->status_source != 0)
    {
      g_source_remove (self->status_source);
      status_ready (self->status_fd, G_IO_IN, self);
    }
  self->pid = 0;
  self->child_source = 0;
  self->handler->exited (wait_status, self->user_data);
}

void
sonde_spawn_watch (SondeSpawn *self, const SondeSpawnHandler *handler, gpointer user_data)
{
  self->handler = handler;
  self->user_data = user_data;
  self->status_source = g_unix_fd_add (self->status_fd, G_IO_IN | G_IO_HUP, status_ready, self);
  self->child_source = g_child_watch_add (self->pid, child_exited, self);
}

GPid
sonde_spawn_pid (const SondeSpawn *self)
{
  return self->pid;
}

void
sonde_spawn_release (
    SondeSpawn *self, int control_fd, const char *rendezvous, const char *beacon, gboolean is_named)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control = { .space = { 0 } };
  char form = is_named ? IS_NAMED : IS_PLAIN;
  const char *word = rendezvous != NULL && strlen (rendezvous) < MAX_RENDEZVOUS ? rendezvous : "";
  const char *page = beacon != NULL && strlen (beacon) < PATH_MAX ? beacon : "";
  struct iovec iov[] = { { &form, sizeof form },
                         { (char *) word, strlen (word) + 1 },
                         { (char *) page, strlen (page) + 1 } };
  struct msghdr message = { .msg_iov = iov, .msg_iovlen = G_N_ELEMENTS (iov) };
  gssize n;

  if (control_fd >= 0)
    {
      message.msg_control = &control;
      message.msg_controllen = sizeof control;
      control.header.cmsg_level = SOL_SOCKET;
      control.header.cmsg_type = SCM_RIGHTS;
      control.header.cmsg_len = CMSG_LEN (sizeof control_fd);
      memcpy (CMSG_DATA (&control.header), &control_fd, sizeof control_fd);
    }
  self->is_released = TRUE;
  do
    n = sendmsg (self->gate_fd, &message, MSG_NOSIGNAL); /* its exit tells that a child is gone */
  while (n < 0 && errno == EINTR);
}

gboolean
sonde_spawn_is_running (const SondeSpawn *self)
{
  return self->pid != 0 && self->is_released;
}

void
sonde_spawn_kill (SondeSpawn *self, int signal_number)
{
  if (self->pid != 0)
    kill (self->pid, signal_number);
}
