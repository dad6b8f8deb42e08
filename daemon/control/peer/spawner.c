/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#define UID_NONE ((uid_t) -1)

typedef struct
{
  uint64_t id;
  pid_t pid; /* 0: there is none */
  uid_t uid; /* UID_NONE: ours */
} Child;

/* Of the forked process. It has what it was forked with, before there was a thread that could have
 * had a lock of the heap. */
typedef struct
{
  int fd;
  const SondeSpawnerProgram *programs;
  unsigned n_programs;
  sigset_t own_ignored; /* what its programs do not inherit */
  Child processes[SONDE_SPAWNER_N_PROCESSES];
} Spawner;

/* It waits: the other end reads as soon as it can, and has nobody else to hear it from. A word that
 * is lost for want of memory would be waited for, so that the connection ends with it. */
static void
tell (const Spawner *self, const SondeSpawnerPacket *packet)
{
  ssize_t sent;

  do
    sent = send (self->fd, packet, sizeof *packet, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0)
    (void) shutdown (self->fd, SHUT_WR);
}

/* --- uids --- */

/* One system call instead of a look at all of /proc. */
static int
has_process (uid_t uid)
{
  errno = 0;
  getpriority (PRIO_USER, uid);
  return errno != ESRCH;
}

static int
has_given (const Spawner *self, uid_t uid)
{
  for (unsigned i = 0; i < SONDE_SPAWNER_N_PROCESSES; i++)
    if (self->processes[i].pid > 0 && self->processes[i].uid == uid)
      return 1;
  return 0;
}

/* UID_NONE: all are in use. */
static uid_t
find_uid (const Spawner *self)
{
  uint8_t first = 0;

  /* Anywhere, so that two daemons which look at the same time hardly find the same. */
  if (getrandom (&first, sizeof first, GRND_NONBLOCK) < 0)
    first = (uint8_t) getpid ();
  for (unsigned i = 0; i < SONDE_WORKER_N_UIDS; i++)
    {
      uid_t uid = SONDE_WORKER_UID_FIRST + (first + i) % SONDE_WORKER_N_UIDS;

      if (!has_given (self, uid) && !has_process (uid))
        return uid;
    }
  return UID_NONE;
}

/* --- processes --- */

static Child *
find (Spawner *self, uint64_t id)
{
  for (unsigned i = 0; i < SONDE_SPAWNER_N_PROCESSES; i++)
    if (self->processes[i].pid > 0 && self->processes[i].id == id)
      return &self->processes[i];
  return NULL;
}

/* Returns 0 or an errno. All but @fd and standard error closes itself. */
static int
spawn (const Spawner *self, const SondeSpawnerProgram *program, int fd, uid_t uid, pid_t *pid)
{
  char fd_option[32];
  char uid_option[32];
  char *const arguments[]
      = { (char *) program->path, fd_option, uid != UID_NONE ? uid_option : NULL, NULL };
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  int result;

  snprintf (fd_option, sizeof fd_option, "--fd=%d", SONDE_PEER_FD);
  snprintf (uid_option, sizeof uid_option, "--uid=%u", uid);
  sigemptyset (&none);
  posix_spawn_file_actions_init (&actions);
  posix_spawnattr_init (&attributes);
  result = posix_spawn_file_actions_addopen (&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (result == 0)
    result = posix_spawn_file_actions_addopen (&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (result == 0)
    result = posix_spawn_file_actions_adddup2 (&actions, fd, SONDE_PEER_FD);
  posix_spawnattr_setflags (&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask (&attributes, &none);
  posix_spawnattr_setsigdefault (&attributes, &self->own_ignored);
  if (result == 0)
    result = posix_spawn (pid, program->path, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy (&attributes);
  posix_spawn_file_actions_destroy (&actions);
  return result;
}

static void
start (Spawner *self, const SondeSpawnerPacket *asked, int fd)
{
  SondeSpawnerPacket answer = { .type = SONDE_SPAWNER_STARTED, .id = asked->id };
  Child *process = self->processes;
  const Child *end = process + SONDE_SPAWNER_N_PROCESSES;
  const SondeSpawnerProgram *program;
  uid_t uid = UID_NONE;

  while (process < end && process->pid > 0)
    process++;
  if (process == end || fd < 0 || asked->program >= self->n_programs)
    {
      answer.error = process == end ? EAGAIN : EINVAL;
      goto out;
    }
  program = &self->programs[asked->program];
  if (program->has_own_uid && geteuid () == 0 && (uid = find_uid (self)) == UID_NONE)
    {
      answer.error = EUSERS;
      goto out;
    }
  answer.error = spawn (self, program, fd, uid, &answer.pid);
  if (answer.error == 0)
    *process = (Child){ .id = asked->id, .pid = answer.pid, .uid = uid };
out:
  if (answer.error != 0)
    answer.type = SONDE_SPAWNER_ENDED;
  tell (self, &answer);
}

/* Returns whether the other end is there. */
static int
read_packet (Spawner *self)
{
  char control[CMSG_SPACE (sizeof (int))] __attribute__ ((aligned (_Alignof(struct cmsghdr))));
  SondeSpawnerPacket asked;
  struct iovec part = { &asked, sizeof asked };
  struct msghdr message = {
    .msg_iov = &part,
    .msg_iovlen = 1,
    .msg_control = control,
    .msg_controllen = CMSG_LEN (sizeof (int)), /* its space would have room for a second one */
  };
  const struct cmsghdr *header;
  const Child *process;
  ssize_t n = recvmsg (self->fd, &message, MSG_CMSG_CLOEXEC);
  int fd = -1;

  /* Of an end that has gone without reading all that it was told the kernel tells first, and once.
   */
  if (n < 0)
    return errno == EINTR || errno == ECONNRESET;
  if (n == 0)
    return 0;
  header = CMSG_FIRSTHDR (&message);
  if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
    memcpy (&fd, CMSG_DATA (header), sizeof fd);
  if (n == sizeof asked && asked.type == SONDE_SPAWNER_START)
    start (self, &asked, fd);
  else if (n == sizeof asked && asked.type == SONDE_SPAWNER_KILL
           && (process = find (self, asked.id)) != NULL)
    kill (process->pid, SIGKILL); /* the number is its until we reap it */
  sonde_clear_fd (&fd);
  return 1;
}

static void
reap (Spawner *self)
{
  int status;
  pid_t pid;

  while ((pid = waitpid (-1, &status, WNOHANG)) > 0)
    for (unsigned i = 0; i < SONDE_SPAWNER_N_PROCESSES; i++)
      if (self->processes[i].pid == pid)
        {
          const SondeSpawnerPacket ended
              = { .type = SONDE_SPAWNER_ENDED, .id = self->processes[i].id, .status = status };

          self->processes[i].pid = 0;
          tell (self, &ended);
        }
}

static void
run (Spawner *self, int signals)
{
  for (;;)
    {
      struct pollfd fds[]
          = { { .fd = self->fd, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
      struct signalfd_siginfo info;

      if (poll (fds, 2, -1) < 0)
        continue;
      if (fds[1].revents != 0 && read (signals, &info, sizeof info) > 0)
        reap (self);
      if (fds[0].revents != 0 && !read_packet (self))
        return;
    }
}

/* A signal to all of sonded's group does not end it: until the last broker and worker has gone
 * sonded may have one to be killed. */
static void
begin (Spawner *self, int fd)
{
  static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
  sigset_t children;
  int signals;

  prctl (PR_SET_NAME, "sonde-spawner");
  sigemptyset (&self->own_ignored);
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (signal (ignored[i], SIG_IGN) != SIG_IGN)
      sigaddset (&self->own_ignored, ignored[i]);
  signal (SIGCHLD, SIG_DFL);
  self->fd = fcntl (fd, F_DUPFD_CLOEXEC, SONDE_PEER_FD + 1);
  sigemptyset (&children);
  sigaddset (&children, SIGCHLD);
  if (self->fd < 0 || sigprocmask (SIG_SETMASK, &children, NULL) < 0)
    return;
  (void) syscall (SYS_close_range, STDERR_FILENO + 1, self->fd - 1, 0);
  (void) syscall (SYS_close_range, self->fd + 1, ~0u, 0);
  signals = signalfd (-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals >= 0)
    run (self, signals);
}

int
sonde_spawner_fork (const SondeSpawnerProgram *programs, unsigned n_programs)
{
  int fds[2];
  pid_t pid;

  if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
    return -1;
  pid = fork ();
  if (pid == 0)
    {
      Spawner spawner = { .programs = programs, .n_programs = n_programs };

      close (fds[0]); /* it could be standard input, which stays */
      begin (&spawner, fds[1]);
      _exit (0);
    }
  close (fds[1]);
  if (pid > 0)
    return fds[0];
  close (fds[0]);
  return -1;
}
