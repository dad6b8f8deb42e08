/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program that runs already when it is profiled: does what lines of its standard input say, each
 * in all of its threads, and answers. joined [filter | crowd | busy] */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/collector/sonde-collector.h"

#define N_THREADS 4   /* and the main one, which reads */
#define N_CROWD   600 /* more than get rings of their own */
#define MAX_HELD  1000

/* Of threads that allocate all the time, also while they are called and left: sizes that count up,
 * so that each shows what came before it. */
#define BUSY_BYTES   100000
#define N_BUSY_SIZES 1000
#define N_IN_A_ROW   40
#define PAUSE_US     2000

/* A program that is linked to a fixed place has an entry of its own for whose address it takes: it
 * looks as if malloc() were its own. */
static void *(*volatile allocate) (size_t);

static pthread_barrier_t begin, end;
static char line[256];

/* Blocks that stay until they are dropped. */
static __thread void *held[MAX_HELD];
static __thread unsigned n_held;

/* "work N SIZE", "hold N SIZE", "drop", "mark TEXT" */
static void
follow (void)
{
  unsigned n = 0, size_bytes = 0;
  char word[32] = "";
  char text[64] = "";

  sscanf (line[0] == 'v' ? &line[1] : line, "%31s %u %u", word, &n, &size_bytes);
  if (strcmp (word, "work") == 0)
    for (unsigned i = 0; i < n; i++)
      {
        void *volatile block = allocate (size_bytes);

        free (block);
      }
  else if (strcmp (word, "hold") == 0)
    for (unsigned i = 0; i < n && n_held < MAX_HELD; i++)
      held[n_held++] = malloc (size_bytes);
  else if (strcmp (word, "drop") == 0)
    while (n_held > 0)
      free (held[--n_held]);
  else if (strcmp (word, "mark") == 0 && sscanf (line, "%*s %63s", text) == 1)
    sonde_collector_mark (sonde_collector_now (), 0, "joined", text, NULL);
}

static void *
run (void *data)
{
  for (;;)
    {
      pthread_barrier_wait (&begin);
      follow ();
      pthread_barrier_wait (&end);
    }
  return data;
}

/* Holds one block at any time: it is allocated before the one before it is freed. */
static void *
keep_busy (void *data)
{
  void *volatile block = NULL;

  for (unsigned i = 0;; i = (i + 1) % N_BUSY_SIZES)
    {
      void *before = block;

      block = allocate (BUSY_BYTES + i);
      free (before);
      if (i % N_IN_A_ROW == 0)
        usleep (PAUSE_US);
    }
  return data;
}

/* "fork N SIZE": a child works; "vfork N SIZE": on its parent's heap. */
static void
fork_and_work (bool is_vfork)
{
  pid_t child = is_vfork ? vfork () : fork ();
  int status = 1;

  if (child == 0)
    {
      memcpy (strstr (line, "fork"), "work", 4);
      follow ();
      _exit (0);
    }
  if (waitpid (child, &status, 0) != child || status != 0)
    abort ();
}

/* Nothing is refused but sockets, which end the process. */
static void
set_filter (void)
{
  struct sock_filter program[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = { sizeof program / sizeof program[0], program };

  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
      || prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0)
    abort ();
}

static int
read_line (void)
{
  size_t n = 0;

  while (n < sizeof line - 1 && read (STDIN_FILENO, &line[n], 1) == 1)
    if (line[n++] == '\n')
      {
        line[n] = '\0';
        return 1;
      }
  return 0;
}

int
main (int argc, char **argv)
{
  const char *kind = argc > 1 ? argv[1] : "";
  bool is_busy = strcmp (kind, "busy") == 0;
  unsigned n_threads = strcmp (kind, "crowd") == 0 ? N_CROWD : N_THREADS;
  unsigned n_followers = is_busy ? 0 : n_threads;
  pthread_t thread;

  allocate = malloc;
  if (strcmp (kind, "filter") == 0)
    set_filter ();
  pthread_barrier_init (&begin, NULL, n_followers + 1);
  pthread_barrier_init (&end, NULL, n_followers + 1);
  for (unsigned i = 0; i < n_threads; i++)
    pthread_create (&thread, NULL, is_busy ? keep_busy : run, NULL);
  while (read_line ())
    {
      if (strncmp (line, "fork", 4) == 0 || strncmp (line, "vfork", 5) == 0)
        fork_and_work (line[0] == 'v');
      else
        {
          pthread_barrier_wait (&begin);
          follow ();
          pthread_barrier_wait (&end);
        }
      if (write (STDOUT_FILENO, "ok\n", 3) != 3)
        break;
    }
  return 0;
}
