/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shared-ring/collector/tracer/stack-finder.h"
#include "shared-ring/ring-atomic.h"

#define VARIABLE "SONDE_TRACE_FD"

_Thread_local SondeTracerThread sonde_tracer_thread;
bool sonde_tracer_is_on;

enum
{
  UNKNOWN,
  STARTING,
  TRACED,
  UNTRACED,
};

/* Of the process. */
static SondeTrie *trie;
static pthread_key_t key;
static uint32_t state;
static uint32_t generation; /* that @trie is of */
static bool is_confined;

static uint64_t
read_nanoseconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

/* Whether the kernel keeps its own time by the processor's counter, and lets us read that. */
static bool
has_counter (void)
{
#if defined(__x86_64__)
  static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  char text[4] = "";
  int mode = 0;
  int fd;
  ssize_t n;

  if (prctl (PR_GET_TSC, &mode, 0, 0, 0) < 0 || mode != PR_TSC_ENABLE)
    return false;
  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  n = read (fd, text, sizeof text);
  close (fd);
  return n == sizeof text && memcmp (text, "tsc\n", sizeof text) == 0;
#else
  return true;
#endif
}

/* The thread gets no other one. */
static void
give_up (void)
{
  SondeTracerThread *self = &sonde_tracer_thread;
  SondeTrieWriter *writer = sonde_tracer_get ();

  self->is_busy = 1;
  self->writer = NULL;
  sonde_ring_signal_fence ();
  if (writer != NULL)
    sonde_trie_leave_writer (writer);
}

/* Of keys' destructors it waits for the last round, since others' may call functions. */
static void
end_thread (void *data)
{
  uintptr_t n_rounds = (uintptr_t) data;

  if (n_rounds < PTHREAD_DESTRUCTOR_ITERATIONS
      && pthread_setspecific (key, (void *) (n_rounds + 1)) == 0)
    return;
  give_up ();
}

void
sonde_tracer_confine (bool is_clockless)
{
  sonde_ring_store_relaxed (&is_confined, true);
  if (is_clockless)
    give_up ();
}

/* A SondeTrieUser's. */
static bool
find_stack (uint64_t sp, SondeTrieRange *range)
{
  return !sonde_ring_load_relaxed (&is_confined) && sonde_stack_finder_find (sp, range);
}

/* Its owner is whoever is first: a region is of one process. */
static int
take_region (int fd, SondeTrie **taken)
{
  SondeTrieUser user = { .find_stack = find_stack };
  SondeTrieMemory memory;
  uint32_t nobody = 0;
  int r = sonde_trie_memory_map (fd, &memory);

  if (r < 0)
    return r;
  user.read_clock = has_counter () ? NULL : read_nanoseconds;
  sonde_ring_store_relaxed (
      &memory.header->clock,
      (uint32_t) (user.read_clock == NULL ? SONDE_TRIE_COUNTER : SONDE_TRIE_NANOSECONDS));
  r = __atomic_compare_exchange_n (&memory.header->owner, &nobody, (uint32_t) getpid (), false,
                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
          ? sonde_trie_new (&memory, &user, taken)
          : -EBUSY;
  if (r < 0)
    sonde_trie_memory_unmap (&memory);
  return r;
}

static bool
start (void)
{
  const char *text = getenv (VARIABLE);
  char *end;
  long fd;

  if (text == NULL || *text == '\0')
    return false;
  errno = 0;
  fd = strtol (text, &end, 10);
  if (errno != 0 || *end != '\0' || fd < 0 || fd > INT_MAX)
    return false;
  if (sonde_fork_guard_init () < 0 || pthread_key_create (&key, end_thread) != 0)
    return false;
  generation = sonde_fork_guard_generation ();
  return take_region ((int) fd, &trie) == 0;
}

/* Before what it is preloaded into calls anything, but for libraries that it needs itself. */
static __attribute__ ((constructor)) void
begin (void)
{
  int saved_errno = errno;
  uint32_t expected = UNKNOWN;

  if (__atomic_compare_exchange_n (&state, &expected, STARTING, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED))
    {
      sonde_tracer_is_on = start ();
      sonde_ring_store_release (&state, (uint32_t) (sonde_tracer_is_on ? TRACED : UNTRACED));
    }
  errno = saved_errno;
}

SondeTrieWriter *
sonde_tracer_start_thread (uint64_t sp)
{
  SondeTracerThread *self = &sonde_tracer_thread;
  SondeTrieRange stack;
  int saved_errno = errno;

  if (sonde_ring_load_acquire (&state) != TRACED || sonde_fork_guard_generation () != generation)
    return NULL;
  if (self->is_busy || sonde_ring_load_relaxed (&is_confined))
    {
      sonde_trie_lose (trie);
      return NULL;
    }

  self->is_busy = 1;
  sonde_ring_signal_fence ();
  if (!sonde_stack_finder_find (sp, &stack))
    stack = (SondeTrieRange){ sp & ~UINT64_C (0xffff), 0x20000 };
  self->writer = sonde_trie_take_writer (trie, gettid (), &stack);
  self->generation = generation;
  /* Without it its end would not be noticed: then its trie stays its own. */
  if (self->writer != NULL)
    pthread_setspecific (key, (void *) (uintptr_t) 1);
  sonde_ring_signal_fence ();
  if (self->writer != NULL)
    self->is_busy = 0;
  else
    sonde_trie_lose (trie);
  errno = saved_errno;
  return self->writer;
}
