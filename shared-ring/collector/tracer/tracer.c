/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/tracer.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shared-ring/collector/beacon-watch.h"
#include "shared-ring/collector/control-link.h"
#include "shared-ring/collector/tracer/call-apart.h"
#include "shared-ring/collector/tracer/fentry-hook.h"
#include "shared-ring/collector/tracer/function-filter.h"
#include "shared-ring/collector/tracer/sleds.h"
#include "shared-ring/collector/tracer/stack-finder.h"
#include "shared-ring/ring-atomic.h"
#include "unwind/self-unwinder.h"

#define VARIABLE "SONDE_TRACE_FD"

/* Calls that a thread's first path begins with. */
#define MAX_STANDING 253u

/* Of a process, one after the other: each stays mapped. */
#define MAX_REGIONS 256

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
static SondeTrieHeader *header; /* of its region */
static pthread_key_t key;
static uint32_t state;
static uint32_t generation; /* that @trie is of */
static uint32_t n_regions;
static bool is_confined;
static bool is_late; /* its threads may have been anywhere when they were first asked for */
static bool is_watching;

static uint64_t
ask_clock (uint64_t nothing, uint64_t nothing_2)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

/* A SondeTrieUser's. */
static uint64_t
read_nanoseconds (void)
{
  return sonde_call_apart_is_needed ? sonde_call_apart (ask_clock, 0, 0) : ask_clock (0, 0);
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

void
sonde_tracer_begin_vfork (void)
{
  SondeTracerThread *self = &sonde_tracer_thread;

  if (self->parent != 0 || sonde_ring_load_relaxed (&is_confined))
    return;
  self->parked = sonde_tracer_get ();
  self->writer = NULL;
  self->generation = sonde_fork_guard_generation ();
  sonde_ring_signal_fence ();
  self->parent = getpid ();
}

/* Only the kernel knows which of the two this is: all else they share. A child of fork() has a
 * generation of its own. */
static bool
is_vfork_child (const SondeTracerThread *self)
{
  return getpid () != self->parent && sonde_fork_guard_generation () == self->generation;
}

SondeTrieWriter *
sonde_tracer_end_vfork (void)
{
  SondeTracerThread *self = &sonde_tracer_thread;

  if (is_vfork_child (self))
    return NULL;
  self->parent = 0;
  sonde_ring_signal_fence ();
  self->writer = self->parked;
  return sonde_tracer_get ();
}

/* The thread gets no other one. */
static void
give_up (void)
{
  SondeTracerThread *self = &sonde_tracer_thread;
  SondeTrieWriter *writer = self->parent != 0 ? sonde_tracer_end_vfork () : sonde_tracer_get ();

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
  if (sonde_tracer_thread.parent != 0 && is_vfork_child (&sonde_tracer_thread))
    return;
  sonde_ring_store_relaxed (&is_confined, true);
  sonde_control_link_confine ();
  sonde_sleds_confine ();
  if (is_clockless)
    give_up ();
}

void
sonde_tracer_leave_alone (void)
{
  sonde_beacon_watch_stop ();
  sonde_sleds_leave_alone ();
}

static uint64_t
ask_for_stack (uint64_t sp, uint64_t range)
{
  return sonde_stack_finder_find (sp, (SondeTrieRange *) (uintptr_t) range);
}

/* A SondeTrieUser's. */
static bool
find_stack (uint64_t sp, SondeTrieRange *range)
{
  return !sonde_ring_load_relaxed (&is_confined)
         && sonde_call_apart (ask_for_stack, sp, (uintptr_t) range) != 0;
}

static uint64_t
ask_filter (uint64_t function, uint64_t may_read)
{
  return (uint64_t) (int64_t) sonde_function_filter_wants (sonde_fentry_begin (function),
                                                           may_read != 0);
}

/* The same: symbols are read by system calls. */
static int
is_wanted (uint64_t function)
{
  return (int) sonde_call_apart (ask_filter, function, !sonde_ring_load_relaxed (&is_confined));
}

/* Its owner is whoever is first: a region is of one process. All threads begin anew in it. */
static int
take_region (int fd)
{
  SondeTrieUser user = { .find_stack = find_stack };
  SondeTrieMemory memory;
  SondeTrieHeader *mapped;
  SondeTrie *taken;
  uint32_t nobody = 0;
  size_t filter_bytes;
  int r = sonde_trie_memory_map (fd, &memory);

  if (r < 0)
    return r;
  mapped = memory.header;
  user.read_clock = has_counter () ? NULL : read_nanoseconds;
  filter_bytes = sonde_ring_load_relaxed (&memory.header->filter_bytes);
  if (filter_bytes > 0)
    user.is_wanted = is_wanted;
  sonde_function_filter_set (memory.header->filter, filter_bytes);
  sonde_ring_store_relaxed (
      &mapped->clock,
      (uint32_t) (user.read_clock == NULL ? SONDE_TRIE_COUNTER : SONDE_TRIE_NANOSECONDS));
  r = __atomic_compare_exchange_n (&mapped->owner, &nobody, (uint32_t) getpid (), false,
                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
          ? sonde_trie_new (&memory, &user, &taken)
          : -EBUSY;
  if (r < 0)
    {
      sonde_trie_memory_unmap (&memory);
      return r;
    }
  if (n_regions++ > 0)
    sonde_fork_guard_renew ();
  trie = taken;
  header = mapped;
  generation = sonde_fork_guard_generation ();
  return 0;
}

/* A descriptor of somebody who speaks with no session. Returns: false: there is none */
static bool
take_inherited (void)
{
  const char *text = getenv (VARIABLE);
  char *end;
  long fd;

  if (text == NULL || *text == '\0')
    return false;
  errno = 0;
  fd = strtol (text, &end, 10);
  return errno == 0 && *end == '\0' && fd >= 0 && fd <= INT_MAX && take_region ((int) fd) == 0;
}

/* Errors: of sonde_control_link_get_ring(), -ENODEV nobody wants our calls; -EALREADY the region
 * that there is is the session's */
static int
ask_for_region (SondeRingGrant *grant)
{
  const SondeRingWish wish = { .producer = SONDE_PRODUCER_TRACER, .is_common = true };

  return n_regions < MAX_REGIONS ? sonde_control_link_get_ring (&wish, grant) : -EMFILE;
}

static int
take_granted (const SondeRingGrant *grant)
{
  int r = take_region (grant->ring_fd);

  close (grant->ring_fd);
  return r;
}

static void
settle (uint32_t settled)
{
  sonde_tracer_is_on = settled == TRACED;
  sonde_ring_store_release (&state, settled);
  sonde_sleds_follow (settled == TRACED ? header : NULL);
}

/* By the thread that sleeps on the beacon. Where a session has gone, and could not say so, nobody
 * reads what is counted. While it asks calls go on to be counted: mostly there is nothing else. */
static void
follow_beacon (bool is_last)
{
  uint32_t before = sonde_ring_load_acquire (&state);
  SondeRingGrant grant;
  int r;

  if (is_last || (before != TRACED && before != UNTRACED))
    return;
  sonde_control_link_follow (SONDE_PRODUCER_TRACER);
  r = ask_for_region (&grant);
  if (r == 0)
    {
      sonde_ring_store_relaxed (&state, STARTING);
      r = take_granted (&grant);
      is_late = is_late || r == 0;
      settle (r == 0 ? TRACED : before);
      return;
    }
  if (r == -ENODEV && before == TRACED)
    {
      sonde_ring_store_relaxed (&header->mode, (uint32_t) SONDE_TRIE_OFF);
      sonde_ring_store_release (&header->epoch, sonde_ring_load_relaxed (&header->epoch) + 1);
    }
  sonde_sleds_follow (r != -ENODEV && before == TRACED ? header : NULL);
}

/* Of the first process, or a child of fork(): @state is STARTING. */
static void
begin_process (bool is_first)
{
  bool is_taken = is_first && take_inherited ();
  SondeRingGrant grant;

  if (!is_taken && (!is_first || getenv (VARIABLE) == NULL))
    {
      is_taken = ask_for_region (&grant) == 0 && take_granted (&grant) == 0;
      is_watching = sonde_control_link_may_come ();
    }
  settle (is_taken ? TRACED : UNTRACED);
  if (is_watching)
    sonde_beacon_watch_start (follow_beacon);
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
      if (sonde_fork_guard_init () < 0 || pthread_key_create (&key, end_thread) != 0)
        settle (UNTRACED);
      else
        {
          sonde_sleds_init ();
          begin_process (true);
        }
    }
  errno = saved_errno;
}

/* With the first call of a child of fork(), which has one thread: its parent's region is not mapped
 * here. No handler of a signal comes between, as it might call, too. */
static void
begin_child (void)
{
  uint32_t before = sonde_ring_load_relaxed (&state);
  int saved_errno = errno;
  sigset_t all, unblocked;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &unblocked);
  if (__atomic_compare_exchange_n (&state, &before, STARTING, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED))
    {
      generation = sonde_fork_guard_generation ();
      n_regions = 0;
      is_late = true;
      begin_process (false);
    }
  pthread_sigmask (SIG_SETMASK, &unblocked, NULL);
  errno = saved_errno;
}

/* --- where a thread is --- */

/* What is read of a stack before it is told. */
typedef struct
{
  SondeStandingCall found[MAX_STANDING]; /* innermost first */
  SondeTrieStanding told[MAX_STANDING];  /* outermost first */
} Standing;

/* Of libc and the program's entry, which are above main() and a thread's first function. */
static bool
is_start (uint64_t function)
{
  struct dl_find_object object, libc;

  return function == getauxval (AT_ENTRY)
         || (_dl_find_object ((void *) (uintptr_t) function, &object) == 0
             && _dl_find_object ((void *) (uintptr_t) getauxval, &libc) == 0
             && object.dlfo_map_start == libc.dlfo_map_start);
}

/* Without those of hooks, which are below. */
static size_t
list_standing (SondeSelfUnwinder *unwinder, Standing *standing, uint64_t sp)
{
  const SondeCallSite site = SONDE_CALL_SITE ();
  size_t n = sonde_self_unwinder_list (unwinder, &site, standing->found, MAX_STANDING);
  size_t first = 0;
  size_t n_told = 0;

  while (first < n && (standing->found[first].sp < sp || standing->found[first].return_place == sp))
    first++;
  while (n > first && is_start (standing->found[n - 1].function))
    n--;
  for (; n > first; n--)
    {
      const SondeStandingCall *call = &standing->found[n - 1];

      standing->told[n_told++] = (SondeTrieStanding){ .function = call->function,
                                                      .site = call->returns_to,
                                                      .place = call->return_place,
                                                      .sp = call->sp };
    }
  return n_told;
}

/* So that its paths begin at main(), or at its first function. */
static void
seed (SondeTrieWriter *writer, uint64_t sp)
{
  SondeSelfUnwinder *unwinder = sonde_self_unwinder_new ();
  Standing *standing
      = mmap (NULL, sizeof *standing, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (unwinder != NULL && standing != MAP_FAILED)
    sonde_trie_seed (writer, standing->told, list_standing (unwinder, standing, sp));
  if (standing != MAP_FAILED)
    munmap (standing, sizeof *standing);
  sonde_self_unwinder_free (unwinder);
}

SondeTrieWriter *
sonde_tracer_start_thread (uint64_t sp)
{
  SondeTracerThread *self = &sonde_tracer_thread;
  SondeTrieRange stack;
  int saved_errno = errno;

  if (self->parent != 0)
    {
      if (is_vfork_child (self))
        return NULL;
      if (sonde_tracer_end_vfork () != NULL)
        return self->writer;
    }
  if (sonde_fork_guard_generation () != generation && sonde_fork_guard_generation () != 0
      && getenv (VARIABLE) == NULL && !sonde_ring_load_relaxed (&is_confined))
    begin_child ();
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
    {
      pthread_setspecific (key, (void *) (uintptr_t) 1);
      if (is_late)
        seed (self->writer, sp);
    }
  sonde_ring_signal_fence ();
  if (self->writer != NULL)
    self->is_busy = 0;
  else
    sonde_trie_lose (trie);
  errno = saved_errno;
  return self->writer;
}

static uint64_t
start_thread (uint64_t sp, uint64_t nothing)
{
  return (uintptr_t) sonde_tracer_start_thread (sp);
}

SondeTrieWriter *
sonde_tracer_start_thread_apart (uint64_t sp)
{
  return (SondeTrieWriter *) (uintptr_t) sonde_call_apart (start_thread, sp, 0);
}
