/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks out of the ordinary: odd-stacks KIND MILLISECONDS, where KIND is fork, vfork, alternate,
 * signal, threads, coroutine, frame-pointer or no-frame-pointer. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/system/unwinding/spin.h"

#define FORK_DEPTH 3
#define N_THREADS  4

void call_with_frame_pointer (void (*function) (unsigned), unsigned argument);
void call_without_frame_pointer (void (*function) (unsigned), unsigned argument);

static volatile unsigned sink;
static unsigned milliseconds;

static FRAME void
leaf (unsigned rounds)
{
  for (unsigned i = 0; i < rounds; i++)
    sink += i;
}

static FRAME void
middle (unsigned n)
{
  spin (n, leaf);
  sink++;
}

/* A process of its own at each knot of the tree; those at its ends have work. */
static FRAME void
grow (unsigned depth)
{
  if (depth == 0)
    {
      middle (milliseconds);
      sink++;
      return;
    }
  for (unsigned i = 0; i < 2; i++)
    if (fork () == 0)
      {
        grow (depth - 1);
        _exit (0);
      }
  while (wait (NULL) > 0)
    ;
}

static FRAME void
run_vfork (void)
{
  pid_t pid = vfork ();

  if (pid == 0)
    {
      middle (milliseconds);
      _exit (0);
    }
  waitpid (pid, NULL, 0);
}

static FRAME void
on_signal (int number)
{
  middle (milliseconds);
  sink++;
}

static FRAME void
run_signal (int flags)
{
  static char room[65536];
  stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

  sigaltstack (&stack, NULL);
  sigaction (SIGUSR1, &action, NULL);
  raise (SIGUSR1);
  sink++;
}

static FRAME void *
thread_main (void *data)
{
  middle (milliseconds);
  sink++;
  return NULL;
}

static FRAME void
run_threads (void)
{
  pthread_t threads[N_THREADS];

  for (unsigned i = 0; i < N_THREADS; i++)
    if (pthread_create (&threads[i], NULL, thread_main, NULL) != 0)
      exit (1);
  for (unsigned i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
}

/* With more arguments than registers, so that some lie on its stack. */
static FRAME void
coroutine_main (int a, int b, int c, int d, int e, int f, int g, int h)
{
  middle (milliseconds);
  sink += (unsigned) (a + b + c + d + e + f + g + h);
}

static FRAME void
run_coroutine (void)
{
  static char stack[1 << 16] __attribute__ ((aligned (16)));
  ucontext_t coroutine, here;

  if (getcontext (&coroutine) < 0)
    exit (1);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = sizeof stack;
  coroutine.uc_link = &here;
  makecontext (&coroutine, (void (*) (void)) coroutine_main, 8, 1, 2, 3, 4, 5, 6, 7, 8);
  if (swapcontext (&here, &coroutine) < 0)
    exit (1);
  sink++;
}

int
main (int argc, char **argv)
{
  const char *kind = argc > 1 ? argv[1] : "";

  milliseconds = argc > 2 ? (unsigned) atoi (argv[2]) : 100;
  if (strcmp (kind, "fork") == 0)
    grow (FORK_DEPTH);
  else if (strcmp (kind, "vfork") == 0)
    run_vfork ();
  else if (strcmp (kind, "alternate") == 0)
    run_signal (SA_ONSTACK);
  else if (strcmp (kind, "signal") == 0)
    run_signal (0);
  else if (strcmp (kind, "threads") == 0)
    run_threads ();
  else if (strcmp (kind, "coroutine") == 0)
    run_coroutine ();
  else if (strcmp (kind, "frame-pointer") == 0)
    call_with_frame_pointer (middle, milliseconds);
  else if (strcmp (kind, "no-frame-pointer") == 0)
    call_without_frame_pointer (middle, milliseconds);
  else
    return 1;
  return 0;
}
