/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program that loses the control socket which it inherited, in one of the ways of real ones:
 * wanderer WAY. Each part of its work is blocks of another size. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_BLOCKS  1000
#define N_STEPS   100 /* of what is done while others may look */
#define STEP_US   1000
#define N_SOCKETS 64

static char *own_path;

static void
work (size_t size_bytes)
{
  for (unsigned i = 0; i < N_BLOCKS; i++)
    {
      void *volatile block = malloc (size_bytes);

      free (block);
    }
}

static void
close_all (void)
{
  for (int fd = 3; fd < 1024; fd++)
    close (fd);
}

static void
become (const char *way)
{
  char *const arguments[] = { own_path, (char *) way, NULL };

  execv (own_path, arguments);
  _exit (127);
}

static int
await (pid_t child)
{
  int status;

  if (child < 0 || waitpid (child, &status, 0) != child)
    return 1;
  if (status != 0)
    fprintf (stderr, "status 0x%x\n", (unsigned) status);
  return status == 0 ? 0 : 1;
}

static int
work_plainly (void)
{
  work (30001);
  return 0;
}

static int
close_and_exec (void)
{
  work (10001);
  close_all ();
  become ("plain");
  return 1;
}

/* As daemon(7) says, with work at each step: its number is that of no process that was started. */
static int
be_a_daemon (void)
{
  int done[2];
  char byte;

  if (pipe (done) < 0)
    return 1;
  work (10001);
  if (fork () == 0)
    {
      setsid ();
      if (fork () != 0)
        _exit (0);
      work (10002);
      dup2 (done[1], 2);
      close_all ();
      work (10003);
      for (unsigned i = 0; i < N_STEPS; i++)
        usleep (STEP_US);
      work (10004);
      if (fork () == 0)
        {
          work (10005);
          _exit (0);
        }
      wait (NULL);
      become ("plain");
    }
  close (done[1]);
  return read (done[0], &byte, 1) == 0 ? 0 : 1; /* until it is over */
}

/* All the numbers are those of sockets of its own, which the next program inherits. */
static int
reuse_numbers (void)
{
  char byte;
  int pair[2];
  pid_t child;

  close_all ();
  if (socketpair (AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 || dup2 (pair[0], 100) < 0)
    return 1;
  for (int fd = 3; fd < N_SOCKETS; fd++)
    dup2 (pair[1], fd);
  child = fork ();
  if (child == 0)
    become ("plain");
  if (await (child) != 0)
    return 1;
  return recv (100, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN ? 0 : 1;
}

/* Whoever makes a socket is killed. */
static int
close_sockets (long (*call) (long, ...))
{
  struct sock_filter filter[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return -1;
  return (int) call (SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static int
be_filtered (void)
{
  pid_t child;

  work (10001);
  child = fork ();
  if (child == 0)
    {
      close_all ();
      if (close_sockets (syscall) < 0)
        _exit (1);
      work (10002);
      _exit (0);
    }
  return await (child);
}

/* By libc's own function, which nobody who is preloaded sees. */
static int
be_filtered_unseen (void)
{
  void *libc = dlopen ("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void *found = libc != NULL ? dlsym (libc, "syscall") : NULL;
  long (*call) (long, ...);
  pid_t child;

  if (found == NULL)
    return 1;
  memcpy (&call, &found, sizeof found);
  child = fork ();
  if (child == 0)
    {
      close_all ();
      if (close_sockets (call) < 0)
        _exit (1);
      work (10002);
      _exit (0);
    }
  return await (child);
}

/* What libseccomp asks to find out what there is. */
static int
ask_for_filters (void)
{
  pid_t child;

  if (syscall (SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == 0
      || syscall (SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == 0)
    return 1;
  work (10001);
  child = fork ();
  if (child == 0)
    {
      close_all ();
      work (10002);
      _exit (0);
    }
  return await (child);
}

static int
be_filtered_from_the_start (void)
{
  pid_t child = fork ();

  if (child == 0)
    {
      close_all ();
      if (close_sockets (syscall) < 0)
        _exit (1);
      become ("plain");
    }
  return await (child);
}

/* By one that forbids what nobody does, as SONDE_SECCOMP promises. */
static int
be_let_through (void)
{
  pid_t child = fork ();

  if (child == 0)
    {
      struct sock_filter filter[] = {
        BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
        BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_reboot, 0, 1),
        BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      };
      struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

      close_all ();
      if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
          || prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        _exit (1);
      become ("plain");
    }
  return await (child);
}

/* Four system calls are left: what is recorded before stays, and the thread lives. */
static int
be_strict (void)
{
  pid_t child;

  work (10001);
  child = fork ();
  if (child == 0)
    {
      work (10002);
      if (prctl (PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) < 0)
        _exit (1);
      work (100);
      syscall (SYS_exit, 0);
    }
  return await (child);
}

int
main (int argc, char *argv[])
{
  static const struct
  {
    const char *name;
    int (*go) (void);
  } ways[] = {
    { "plain", work_plainly },        { "exec", close_and_exec },
    { "daemon", be_a_daemon },        { "reused", reuse_numbers },
    { "filter", be_filtered },        { "filtered", be_filtered_from_the_start },
    { "unseen", be_filtered_unseen }, { "asking", ask_for_filters },
    { "strict", be_strict },          { "let", be_let_through },
  };

  own_path = argv[0];
  for (unsigned i = 0; argc == 2 && i < sizeof ways / sizeof ways[0]; i++)
    if (strcmp (argv[1], ways[i].name) == 0)
      return ways[i].go ();
  return 2;
}
