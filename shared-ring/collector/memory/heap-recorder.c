/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/memory/heap-recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <unistd.h>

#include "shared-ring/collector/beacon.h"
#include "shared-ring/collector/memory/event-clock.h"
#include "shared-ring/collector/memory/memory-probes.h"
#include "shared-ring/collector/memory/other-allocators.h"
#include "shared-ring/collector/memory/real-allocator.h"
#include "shared-ring/collector/memory/sample-distance.h"
#include "shared-ring/collector/thread-ring.h"

/* A large ring wakes its reader, and is waited for, a quarter as often, which is felt; but a
 * session's memory is limited, and programs may have many threads. */
#define N_LARGE_RINGS 8
static const SondeRingWish large_wish
    = { SONDE_PRODUCER_MEMORY, 4 * SONDE_RING_DEFAULT_BYTES, false };
static const SondeRingWish wish = { SONDE_PRODUCER_MEMORY, 0, false };

/* What the thread needs, beside what its hooks look at. */
typedef struct
{
  SondeRingWriter *writer; /* NULL: none of its own, or not asked for */
  SondeCommonRing *common; /* NULL: none, or none is needed */
  SondeSelfUnwinder *unwinder;
  uint64_t random;
  uint64_t interval_bytes;
  uint32_t max_depth;
  int32_t pid;
  int32_t tid;
  bool is_inside; /* getting its ring */
  SondeEventClock clock;
} HeapThread;

_Thread_local SondeHeapThread sonde_heap_thread;
SondeHeapProcess sonde_heap_process;
static _Thread_local HeapThread own;

/* Whether somebody listens to the process, or may. */
typedef enum
{
  LISTENER_UNKNOWN = 0,
  LISTENER_LOOKED_FOR,
  LISTENER_ABSENT,
  LISTENER_PRESENT,
} Listener;

static uint32_t listener;
static uint32_t n_large_rings; /* that were asked for, by ancestors too */

/* Whether sampled blocks are for who traces our probes. */
static inline bool
is_for_probes (void)
{
  return sonde_ring_load_relaxed (&listener) == LISTENER_ABSENT && sonde_memory_probes_are_on ();
}

/* Once, by the first block of the process; nobody waits for it. Locks of libc are taken, which a
 * signal handler must not come upon. */
static bool
look_for_listener (void)
{
  uint32_t expected = LISTENER_UNKNOWN;
  struct dl_find_object linker;
  sigset_t all, before;
  bool is_there, has_probes;

  /* Before libc is set up there is no environment, and nothing may be asked. */
  if (environ == NULL
      || !__atomic_compare_exchange_n (&listener, &expected, LISTENER_LOOKED_FOR, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return false;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  is_there = sonde_control_link_is_there (SONDE_PRODUCER_MEMORY);
  /* Whose probes are to be traced is not called later. */
  has_probes = !is_there && sonde_memory_probes_begin ();
  is_there = (is_there || (!has_probes && sonde_control_link_may_come ()))
             && sonde_fork_guard_init () == 0;
  if (is_there && _dl_find_object ((void *) _r_debug.r_ldbase, &linker) == 0)
    {
      sonde_heap_process.linker_begin = (uintptr_t) linker.dlfo_map_start;
      sonde_heap_process.linker_bytes
          = (uintptr_t) linker.dlfo_map_end - sonde_heap_process.linker_begin;
    }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (has_probes)
    sonde_ring_store_relaxed (&sonde_heap_process.mode, SONDE_MEMORY_SAMPLED);
  sonde_ring_store_release (&listener, is_there ? LISTENER_PRESENT : LISTENER_ABSENT);
  return is_there;
}

/* What libc gives back when the thread is about to be gone has no stack to speak of. */
static void
forget_unwinder (void)
{
  SondeSelfUnwinder *unwinder = own.unwinder;

  own.max_depth = 0;
  own.unwinder = NULL;
  sonde_ring_signal_fence ();
  sonde_self_unwinder_free (unwinder);
}

static void
forget_ring (void)
{
  own.writer = NULL;
  own.common = NULL;
  sonde_heap_thread.pause_word = NULL;
  forget_unwinder ();
}

/* The ring is new: to this thread, or to the child that its process is since. */
static void
enter_ring (SondeThreadRing *ring)
{
  const SondeControlRingAnswer *answer = &ring->answer;

  if (own.unwinder == NULL)
    own.unwinder = sonde_self_unwinder_new ();
  own.max_depth = answer->max_depth < SONDE_SELF_UNWINDER_MAX_ADDRS ? answer->max_depth
                                                                    : SONDE_SELF_UNWINDER_MAX_ADDRS;
  if (own.unwinder == NULL)
    own.max_depth = 0;
  own.pid = ring->pid;
  own.tid = ring->tid;
  own.interval_bytes = answer->memory_interval_bytes > 0 ? answer->memory_interval_bytes : 1;
  own.random = sonde_sample_distance_seed ();
  sonde_ring_store_relaxed (&sonde_heap_process.mode, answer->memory_mode);
  sonde_heap_thread.bytes_left = 0;
  if (answer->memory_mode == SONDE_MEMORY_SAMPLED)
    sonde_heap_thread.bytes_left = sonde_sample_distance_draw (&own.random, own.interval_bytes);
  else if (answer->memory_mode != SONDE_MEMORY_ALL)
    sonde_heap_thread.bytes_left = UINT64_MAX;
  ring->on_end = forget_unwinder;
  ring->on_close = forget_ring;
  sonde_ring_signal_fence ();
  if (answer->memory_mode == SONDE_MEMORY_ALL || answer->memory_mode == SONDE_MEMORY_SAMPLED)
    {
      own.common = ring->writer == NULL ? &ring->common : NULL;
      own.writer = ring->writer;
      sonde_heap_thread.generation = ring->generation;
      sonde_heap_thread.pause_word = ring->writer != NULL
                                         ? sonde_ring_writer_pause_word (ring->writer)
                                         : ring->common.pause_word;
      sonde_heap_thread.pause_value = SONDE_RING_IS_PAUSED;
    }
}

/* Until the beacon's word is another one than @beacon. Blocks pass from here on, which needs the
 * real functions: before the first block of the process they may not be known. What a session has
 * left goes; should its blocks have been sampled they are still known, and forgotten as they are
 * freed. */
static void
become_idle (uint32_t beacon)
{
  bool is_there = sonde_control_link_is_there (SONDE_PRODUCER_MEMORY);

  if (own.unwinder != NULL)
    forget_unwinder ();
  if (!sonde_real_allocator_is_ready ())
    return;
  if (!is_there)
    sonde_ring_store_relaxed (&n_large_rings, 0);
  if (sonde_control_link_may_come ())
    {
      sonde_heap_thread.bytes_left = 0;
      sonde_heap_thread.generation = sonde_fork_guard_generation ();
      sonde_heap_thread.pause_value = beacon;
      sonde_ring_signal_fence ();
      sonde_heap_thread.pause_word = sonde_beacon_word;
    }
  else if (!is_there)
    sonde_heap_thread.bytes_left = UINT64_MAX;
}

/* Finds a ring for the thread that had none so far. */
static bool
open_ring (void)
{
  uint32_t beacon = sonde_beacon_generation ();
  SondeThreadRing *ring;
  bool is_large;

  /* Pairs with the release in look_for_listener(). */
  if (__builtin_expect (sonde_ring_load_acquire (&listener) != LISTENER_PRESENT, false)
      && !look_for_listener ())
    {
      if (sonde_ring_load_relaxed (&listener) == LISTENER_ABSENT)
        sonde_heap_thread.bytes_left = is_for_probes () ? 0 : UINT64_MAX;
      return false;
    }

  if (own.is_inside)
    return false;
  own.writer = NULL;
  own.common = NULL;
  sonde_heap_thread.pause_word = NULL;
  own.is_inside = true;
  is_large = sonde_control_link_is_there (SONDE_PRODUCER_MEMORY)
             && sonde_ring_load_relaxed (&n_large_rings) < N_LARGE_RINGS
             && __atomic_fetch_add (&n_large_rings, 1, __ATOMIC_RELAXED) < N_LARGE_RINGS;
  ring = sonde_thread_ring_get (is_large ? &large_wish : &wish);
  if (is_large && ring->error == -EBUSY)
    __atomic_fetch_sub (&n_large_rings, 1, __ATOMIC_RELAXED);
  if (ring->error == 0 && ring->generation == sonde_fork_guard_generation ())
    enter_ring (ring);
  else if (ring->error == -ENODEV)
    become_idle (beacon);
  if (own.writer != NULL || own.common != NULL)
    sonde_other_allocators_tell (ring);
  own.is_inside = false;
  return own.writer != NULL || own.common != NULL;
}

void
sonde_heap_recorder_tell_others (void)
{
  SondeThreadRing *ring;

  if (own.is_inside || (own.writer == NULL && own.common == NULL))
    return;
  ring = sonde_thread_ring_get (&wish);
  /* It may have lost its ring by that, or have another one; then the next event sees to it. */
  if (ring->error == 0 && ring->writer == own.writer && own.common == NULL)
    sonde_other_allocators_tell (ring);
}

/* The linker allocates, and that is none of the program's. A library's constructor may have made
 * the first event already. */
static bool
look_for_others (void)
{
  SondeRingWriter *writer = own.writer;
  SondeCommonRing *common = own.common;
  bool are_first;

  own.is_inside = true;
  own.writer = NULL;
  own.common = NULL;
  sonde_ring_signal_fence ();
  are_first = sonde_other_allocators_look ();
  sonde_ring_signal_fence ();
  own.writer = writer;
  own.common = common;
  own.is_inside = false;
  return are_first;
}

/* A program may fork before its first block, and never call us. */
static void __attribute__ ((constructor)) begin (void)
{
  bool are_first = look_for_others ();

  look_for_listener ();
  if (are_first && sonde_ring_load_relaxed (&listener) == LISTENER_PRESENT)
    open_ring ();
  sonde_heap_recorder_tell_others ();
}

bool
sonde_heap_recorder_is_inside (void)
{
  return own.is_inside || (own.common != NULL && own.common->is_defining != 0);
}

/* Whether that is the result of a thread that has no ring, or not of this process, or whose
 * profiler has gone: another one is to be had, perhaps. */
static inline bool
lacks_ring (int result)
{
  return result == -ECHILD
         || (result == -EPIPE
             && (own.writer != NULL
                     ? sonde_ring_writer_is_over (own.writer)
                     : own.common != NULL && sonde_common_ring_is_left (own.common)));
}

static inline int
reserve_in_ring (size_t size_bytes, void **place)
{
  if (__builtin_expect (own.writer != NULL, true))
    return sonde_ring_writer_reserve (own.writer, size_bytes, place);
  return own.common != NULL ? sonde_common_ring_reserve (own.common, size_bytes, place) : -ECHILD;
}

/* Room in the thread's ring, which is made if there is none; or what went wrong. */
static inline int
reserve (size_t size_bytes, void **place)
{
  int r = reserve_in_ring (size_bytes, place);

  if (__builtin_expect (!lacks_ring (r), true))
    return r;
  return open_ring () ? reserve_in_ring (size_bytes, place) : -ENODEV;
}

static inline void
commit (void)
{
  if (__builtin_expect (own.writer != NULL, true))
    sonde_ring_writer_commit (own.writer);
  else if (own.common != NULL)
    sonde_common_ring_commit (own.common);
}

/* Whether an event may be made; -ECHILD: the thread has no ring, or only that of its parent. Before
 * more is done: a paused session shall cost next to nothing. */
static inline int
check_wanted (void)
{
  if (__builtin_expect (own.writer != NULL, true))
    return sonde_ring_writer_check_wanted (own.writer);
  return own.common != NULL ? sonde_common_ring_check_wanted (own.common) : -ECHILD;
}

static_assert (SONDE_HEAP_FREE_ROOM <= sizeof (SondeFrameAllocation)
                   && SONDE_HEAP_BLOCK_ROOM (0) <= sizeof (SondeFrameAllocation)
                   && SONDE_HEAP_MAX_DEPTH >= SONDE_SELF_UNWINDER_MAX_ADDRS,
               "what is short has room where a frame has");

/* What the open reservation is to be filled with: records, or NULL: a frame. */
static inline SondeCompactWriter *
find_compact (const void *block)
{
  return own.writer != NULL && sonde_compact_writer_takes ((uintptr_t) block)
             ? sonde_ring_writer_compact (own.writer)
             : NULL;
}

/* Returns: whether the event was wanted, even if it is lost. */
static bool
record_free (const void *block)
{
  SondeCompactEvent event = { .address = (uintptr_t) block };
  SondeCompactWriter *compact;
  SondeFrameAllocation *frame;
  void *place;
  int r = reserve (sizeof *frame, &place);

  if (r < 0)
    return r != -EAGAIN && r != -ENODEV;

  compact = find_compact (block);
  if (compact != NULL)
    {
      event.tid = own.tid;
      event.time_ns = sonde_event_clock_now (&own.clock);
      sonde_ring_writer_commit_records (own.writer,
                                        sonde_compact_writer_free (compact, place, &event));
      return true;
    }
  frame = place;
  *frame = (SondeFrameAllocation){
    .frame = { .len = sizeof *frame,
               .cpu = -1,
               .pid = own.pid,
               .time_ns = sonde_event_clock_now (&own.clock),
               .type = SONDE_FRAME_ALLOCATION },
    .address = (uintptr_t) block,
    .tid = own.tid,
  };
  commit ();
  return true;
}

/* A block that has no size has one byte: a size of 0 says that it is freed. */
static void
record_allocation (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  size_t max_addrs = own.max_depth;
  SondeCompactEvent event
      = { .address = (uintptr_t) block, .size_bytes = size_bytes > 0 ? size_bytes : 1 };
  SondeCompactWriter *compact;
  SondeFrameAllocation *frame;
  uint64_t *addrs; /* in their place */
  size_t n_addrs = 0;
  size_t n_bytes;
  void *place;

  if (reserve (sizeof *frame + max_addrs * sizeof *addrs, &place) < 0)
    return;
  /* The ring may be another one by now, of a thread that has got no unwinder with it. */
  if (__builtin_expect (max_addrs > own.max_depth, false))
    max_addrs = own.max_depth;

  frame = place;
  compact = event.size_bytes <= INT64_MAX ? find_compact (block) : NULL;
  addrs
      = compact != NULL ? (void *) ((char *) place + SONDE_COMPACT_ADDRS_AT) : (void *) (frame + 1);
  if (max_addrs > 0)
    n_addrs = sonde_self_unwinder_walk (own.unwinder, caller, addrs, max_addrs);
  if (compact != NULL)
    {
      if (n_addrs > 0)
        event.stack_hash = sonde_self_unwinder_hash (own.unwinder, addrs, n_addrs);
      event.tid = own.tid;
      event.time_ns = sonde_event_clock_now (&own.clock);
      own.is_inside = true; /* as its table grows it may map memory */
      n_bytes = sonde_compact_writer_block (compact, place, &event, n_addrs);
      own.is_inside = false;
      sonde_ring_writer_commit_records (own.writer, n_bytes);
      return;
    }
  *frame = (SondeFrameAllocation){
    .frame = { .len = (uint16_t) (sizeof *frame + n_addrs * sizeof *addrs),
               .cpu = -1,
               .pid = own.pid,
               .time_ns = sonde_event_clock_now (&own.clock),
               .type = SONDE_FRAME_ALLOCATION },
    .address = (uintptr_t) block,
    .size_bytes = size_bytes > 0 ? (int64_t) size_bytes : 1,
    .tid = own.tid,
    .n_addrs = (uint16_t) n_addrs,
  };
  if (own.common != NULL && n_addrs > 0)
    own.common->stack_hash = sonde_self_unwinder_hash (own.unwinder, addrs, n_addrs);
  commit ();
}

/* Without a place for its address its end could not be told. */
static void
record_sample (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  if (check_wanted () < 0)
    return;
  if (sonde_address_set_add (&sonde_heap_process.sampled, (uintptr_t) block))
    record_allocation (block, size_bytes, caller);
  else if (own.writer != NULL)
    sonde_ring_writer_lose (own.writer, sizeof (SondeFrameAllocation));
  else
    sonde_common_ring_lose (own.common, sizeof (SondeFrameAllocation));
}

void
sonde_heap_recorder_reach (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  int r = check_wanted ();

  /* A thread that had no ring counts the bytes of this block as any other's. */
  if (__builtin_expect (lacks_ring (r), false))
    {
      if (is_for_probes ())
        {
          sonde_memory_probes_reach (block, size_bytes, &sonde_heap_thread.bytes_left);
          return;
        }
      if (!open_ring ())
        return;
      if (size_bytes < sonde_heap_thread.bytes_left)
        {
          sonde_heap_thread.bytes_left -= size_bytes;
          return;
        }
    }
  if (sonde_ring_load_relaxed (&sonde_heap_process.mode) == SONDE_MEMORY_SAMPLED)
    {
      sonde_heap_thread.bytes_left = sonde_sample_distance_draw (&own.random, own.interval_bytes);
      record_sample (block, size_bytes, caller);
    }
  else if (r != -EAGAIN)
    record_allocation (block, size_bytes, caller);
}

bool
sonde_heap_recorder_freeing (const void *block)
{
  if (block == NULL || sonde_heap_thread.bytes_left >= SONDE_HEAP_NEVER)
    return false;
  if (sonde_ring_load_relaxed (&sonde_heap_process.mode) == SONDE_MEMORY_SAMPLED)
    {
      if (!sonde_address_set_remove (&sonde_heap_process.sampled, (uintptr_t) block))
        return false;
      if (is_for_probes ())
        {
          sonde_memory_probes_free (block);
          return false;
        }
    }
  return check_wanted () != -EAGAIN && record_free (block);
}

void
sonde_heap_recorder_kept (const void *block, size_t size_bytes, const SondeCallSite *caller)
{
  if (sonde_ring_load_relaxed (&sonde_heap_process.mode) == SONDE_MEMORY_SAMPLED)
    record_sample (block, size_bytes, caller);
  else
    record_allocation (block, size_bytes, caller);
}
