/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/fork-guard.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* These are the process's own, as its threads and its environment are. */
static const uint32_t nobodys;
const uint32_t *sonde_fork_guard_word = &nobodys;
static uint32_t *word;
static uint32_t last_generation;
static int32_t own_pid; /* 0: not known yet */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_result;

static void
note_process (void)
{
  sonde_ring_store_relaxed (&own_pid, (int32_t) getpid ());
}

/* Before the program can have a child that shares its memory. */
static void __attribute__ ((constructor)) begin (void)
{
  if (pthread_atfork (NULL, NULL, note_process) == 0)
    note_process ();
}

bool
sonde_fork_guard_is_own_process (void)
{
  int32_t pid = sonde_ring_load_relaxed (&own_pid);

  /* Who finds the page emptied has a copy of the memory. */
  return pid == 0 || pid == getpid () || (word != NULL && sonde_ring_load_relaxed (word) == 0);
}

void
sonde_fork_guard_renew (void)
{
  last_generation++;
  sonde_ring_store_relaxed (word, last_generation);
}

static void
init_once (void)
{
  size_t size_bytes = (size_t) sysconf (_SC_PAGESIZE);
  void *page = mmap (NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (page == MAP_FAILED)
    {
      once_result = -errno;
      return;
    }

  /* Not there before Linux 4.14: then there is the handler alone. */
  madvise (page, size_bytes, MADV_WIPEONFORK);
  word = page;
  last_generation = 1;
  *word = last_generation;

  once_result = -pthread_atfork (NULL, NULL, sonde_fork_guard_renew);
  if (once_result == 0)
    sonde_ring_store_release (&sonde_fork_guard_word, (const uint32_t *) word);
  else
    munmap (page, size_bytes);
}

int
sonde_fork_guard_init (void)
{
  pthread_once (&once, init_once);
  return once_result;
}
