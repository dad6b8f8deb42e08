/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-collector: builds each event of an application as a frame in its thread's ring. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "shared-ring/collector/beacon-watch.h"
#include "shared-ring/collector/beacon.h"
#include "shared-ring/collector/sonde-collector.h"
#include "shared-ring/collector/thread-ring.h"
#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"

#define MAX_PRINTF_BYTES   1024
#define DEFINITIONS_A_TIME 16
#define MAX_ADDRS          8000

static const SondeRingWish wish = { SONDE_PRODUCER_APPLICATION, 0, false };

/* The counters of the process. Those below n are never changed again. */
static struct
{
  pthread_mutex_t lock;
  uint32_t n;
  SondeCounterDefinition all[SONDE_COLLECTOR_MAX_COUNTERS];
} definitions = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_once_t definitions_once = PTHREAD_ONCE_INIT;

static uint64_t n_named_addresses;

/* Whether anybody listens to the process. */
enum
{
  NOT_LOOKED,
  WANTED,
  UNWANTED,
};

/* As of the beacon's word that was there then. */
static uint32_t listening;
static uint32_t looked_at;

/* The same in one word, for who only asks: kept up by the thread that sleeps on the beacon, or for
 * good where nobody can call. That it is unwanted the beacon has to confirm, as others may keep
 * that thread asleep. NOT_LOOKED: it is not kept up, as in a child, which has no such thread yet.
 */
static uint32_t known;
static uint32_t children_forget; /* it; else it is never kept up */

/* Generation of the process whose beacon is watched; 0: of none. */
static uint32_t watched;

/* A main thread that returns from main() runs no destructors of keys. */
static void __attribute__ ((destructor)) close_last (void) { sonde_thread_ring_close (); }

int64_t
sonde_collector_now (void)
{
  return sonde_ring_now_ns ();
}

static void
forget_in_child (void)
{
  sonde_ring_store_relaxed (&known, (uint32_t) NOT_LOOKED);
}

static void __attribute__ ((constructor)) begin (void)
{
  if (pthread_atfork (NULL, NULL, forget_in_child) == 0)
    sonde_ring_store_relaxed (&children_forget, 1);
}

/* Signal handlers below may come here, too, and find no lock taken. */
static uint32_t
look (void)
{
  uint32_t beacon = sonde_beacon_generation ();
  int saved_errno = errno;
  sigset_t all, before;
  uint32_t found;
  int state;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  pthread_setcancelstate (PTHREAD_CANCEL_DISABLE, &state);
  sonde_control_link_follow (wish.producer);
  found = sonde_control_link_is_there (wish.producer) ? WANTED : UNWANTED;
  sonde_ring_store_relaxed (&listening, found);
  sonde_ring_store_release (&looked_at, beacon);
  pthread_setcancelstate (state, NULL);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  errno = saved_errno;
  return found;
}

/* By the thread that sleeps on the beacon. It alone writes the word where there is one, so that
 * what it says is never older than what it said before. */
static void
keep_known (bool is_last)
{
  uint32_t found = look ();

  if (is_last || sonde_ring_load_relaxed (&children_forget) == 0)
    found = NOT_LOOKED;
  sonde_ring_store_relaxed (&known, found);
}

/* Who makes events may sleep between two of them for long. A thread that a child of vfork() made
 * would end with it. */
static void
watch_beacon (void)
{
  uint32_t generation = sonde_fork_guard_generation ();

  if (!sonde_fork_guard_is_own_process ())
    return;
  if (__atomic_exchange_n (&watched, generation, __ATOMIC_RELAXED) != generation
      && sonde_control_link_may_come ())
    sonde_beacon_watch_start (keep_known);
}

/* By the beacon itself: an event need not wait until that thread runs. */
static bool
is_wanted_now (void)
{
  if (__builtin_expect (sonde_ring_load_relaxed (&listening) == NOT_LOOKED
                            || sonde_ring_load_relaxed (&looked_at) != sonde_beacon_generation (),
                        false))
    look ();
  if (__builtin_expect (sonde_ring_load_relaxed (&watched) != sonde_fork_guard_generation (),
                        false))
    watch_beacon ();

  return sonde_ring_load_relaxed (&listening) == WANTED;
}

static bool __attribute__ ((noinline)) find_out (void)
{
  bool is_wanted = is_wanted_now ();

  if (!sonde_beacon_is_there () && sonde_ring_load_relaxed (&children_forget) != 0)
    sonde_ring_store_relaxed (&known, (uint32_t) (is_wanted ? WANTED : UNWANTED));
  return is_wanted;
}

bool
sonde_collector_is_wanted (void)
{
  uint32_t found = sonde_ring_load_relaxed (&known);

  if (found == WANTED)
    return true;
  if (__builtin_expect (found == UNWANTED
                            && sonde_ring_load_relaxed (&looked_at) == sonde_beacon_generation (),
                        true))
    return false;
  return find_out ();
}

/* Finds this thread's ring if an event is wanted. */
static int
find_ring (SondeThreadRing **ring)
{
  /* A ring of a session that is over is given back below. */
  if (!is_wanted_now () && !sonde_thread_ring_is_held ())
    return -ENODEV;
  *ring = sonde_thread_ring_get (&wish);

  return sonde_thread_ring_check_wanted (*ring);
}

static SondeFrameOrigin
origin_at (const SondeThreadRing *ring, int64_t time_ns)
{
  return (SondeFrameOrigin){ .time_ns = time_ns, .cpu = sched_getcpu (), .pid = ring->pid };
}

/* Publishes what was built, if it was. */
static int
finish (SondeThreadRing *ring, int result)
{
  return result == 0 ? sonde_thread_ring_commit (ring) : result;
}

bool
sonde_collector_is_active (void)
{
  SondeThreadRing *ring;

  return find_ring (&ring) == 0;
}

int
sonde_collector_prepare_thread (void)
{
  SondeThreadRing *ring;

  return find_ring (&ring);
}

int
sonde_collector_mark (
    int64_t start_ns, int64_t duration_ns, const char *group, const char *name, const char *message)
{
  SondeThreadRing *ring;
  SondeFrameOrigin origin;
  int r = find_ring (&ring);

  if (r < 0)
    return r;
  if (group == NULL || name == NULL || duration_ns < 0)
    return -EINVAL;

  origin = origin_at (ring, start_ns);
  return finish (ring, sonde_writer_add_mark (sonde_thread_ring_frames (ring), &origin, duration_ns,
                                              group, name, message != NULL ? message : ""));
}

int
sonde_collector_mark_printf (int64_t start_ns,
                             int64_t duration_ns,
                             const char *group,
                             const char *name,
                             const char *format,
                             ...)
{
  char message[MAX_PRINTF_BYTES];
  SondeThreadRing *ring;
  int saved_errno = errno;
  int r = find_ring (&ring);
  va_list args;

  if (r < 0)
    return r;
  if (format == NULL)
    return -EINVAL;

  va_start (args, format);
  vsnprintf (message, sizeof message, format, args);
  va_end (args);
  errno = saved_errno;

  return sonde_collector_mark (start_ns, duration_ns, group, name, message);
}

int
sonde_collector_log (unsigned severity, const char *domain, const char *message)
{
  SondeThreadRing *ring;
  SondeFrameOrigin origin;
  int r = find_ring (&ring);

  if (r < 0)
    return r;
  if (message == NULL || severity > UINT16_MAX)
    return -EINVAL;

  origin = origin_at (ring, sonde_collector_now ());
  return finish (ring,
                 sonde_writer_add_log (sonde_thread_ring_frames (ring), &origin,
                                       (uint16_t) severity, domain != NULL ? domain : "", message));
}

static void
store_text (char *field, size_t field_bytes, const char *text)
{
  snprintf (field, field_bytes, "%s", text);
}

static void
lock_definitions (void)
{
  pthread_mutex_lock (&definitions.lock);
}

static void
unlock_definitions (void)
{
  pthread_mutex_unlock (&definitions.lock);
}

/* A child must not find it locked by a thread that it does not have. */
static void
init_definitions (void)
{
  pthread_atfork (lock_definitions, unlock_definitions, unlock_definitions);
}

int
sonde_collector_define_counter (SondeCollectorType type,
                                const char *category,
                                const char *name,
                                const char *description)
{
  SondeCounterDefinition definition = { .id_type = (uint32_t) type };
  int id = -ENOSPC;

  if (category == NULL || name == NULL || description == NULL
      || (type != SONDE_COLLECTOR_INT64 && type != SONDE_COLLECTOR_DOUBLE))
    return -EINVAL;

  store_text (definition.category, sizeof definition.category, category);
  store_text (definition.name, sizeof definition.name, name);
  store_text (definition.description, sizeof definition.description, description);

  pthread_once (&definitions_once, init_definitions);
  lock_definitions ();
  if (definitions.n < SONDE_COLLECTOR_MAX_COUNTERS)
    {
      definitions.all[definitions.n] = definition;
      id = (int) definitions.n + 1;
      /* Pairs with the acquire in check_counters(). */
      sonde_ring_store_release (&definitions.n, (uint32_t) id);
    }
  unlock_definitions ();

  return id;
}

/* How many are defined in its ring. */
static uint32_t
count_definitions (const SondeThreadRing *ring)
{
  /* Pairs with the release below: who sees the number writes behind the definitions. */
  return (uint32_t) sonde_ring_load_acquire (ring->n_definitions);
}

/* A frame with the definitions that this ring does not have yet, as many as fit. Of a ring in
 * common two threads may send the same ones, which does no harm. */
static int
send_definitions (SondeThreadRing *ring, const SondeFrameOrigin *origin, uint32_t n_defined)
{
  SondeCounter counters[DEFINITIONS_A_TIME];
  uint64_t before = sonde_ring_load_acquire (ring->n_definitions);
  uint32_t first = (uint32_t) before;
  uint32_t n = 0;
  int r;

  for (; n < DEFINITIONS_A_TIME && first + n < n_defined; n++)
    {
      const SondeCounterDefinition *from = &definitions.all[first + n];

      counters[n] = (SondeCounter){ .category = from->category,
                                    .name = from->name,
                                    .description = from->description,
                                    .id = first + n + 1,
                                    .type = (uint8_t) from->id_type };
    }

  r = finish (
      ring, sonde_writer_add_counter_define (sonde_thread_ring_frames (ring), origin, counters, n));
  /* Unless another thread was faster, or has got another ring in place of this one. */
  if (r == 0)
    __atomic_compare_exchange_n (ring->n_definitions, &before, before + n, false, __ATOMIC_RELEASE,
                                 __ATOMIC_RELAXED);
  return r;
}

/* A ring is read for itself: what is set in it is defined in it before. */
static int
check_counters (SondeThreadRing *ring,
                const SondeFrameOrigin *origin,
                const int *ids,
                size_t n_counters)
{
  /* Pairs with the release in sonde_collector_define_counter(): the definitions are written. */
  uint32_t n_defined = sonde_ring_load_acquire (&definitions.n);
  int r = 0;

  if (n_counters == 0 || n_counters > SONDE_COLLECTOR_MAX_COUNTERS)
    return -EINVAL;
  for (size_t i = 0; i < n_counters; i++)
    if (ids[i] < 1 || (uint32_t) ids[i] > n_defined)
      return -EINVAL;

  while (r == 0 && count_definitions (ring) < n_defined)
    r = send_definitions (ring, origin, n_defined);

  return r;
}

static int
set_counters (const int *ids, const SondeCollectorValue *values, size_t n_counters)
{
  uint32_t wire_ids[SONDE_COLLECTOR_MAX_COUNTERS];
  SondeCounterValue wire_values[SONDE_COLLECTOR_MAX_COUNTERS];
  SondeThreadRing *ring;
  SondeFrameOrigin origin;
  int r = find_ring (&ring);

  if (r < 0)
    return r;

  origin = origin_at (ring, sonde_collector_now ());
  r = check_counters (ring, &origin, ids, n_counters);
  if (r < 0)
    return r;

  for (size_t i = 0; i < n_counters; i++)
    {
      wire_ids[i] = (uint32_t) ids[i];
      wire_values[i].v64 = values[i].v64;
    }

  return finish (ring, sonde_writer_add_counter_set (sonde_thread_ring_frames (ring), &origin,
                                                     wire_ids, wire_values, n_counters));
}

/* Once more if its ring was left in the middle of it: in the next one they are to be defined. */
int
sonde_collector_set_counters (const int *ids, const SondeCollectorValue *values, size_t n_counters)
{
  int r = set_counters (ids, values, n_counters);

  return r == -ECHILD ? set_counters (ids, values, n_counters) : r;
}

int
sonde_collector_set_int64 (int id, int64_t value)
{
  const SondeCollectorValue values = { .v64 = value };

  return sonde_collector_set_counters (&id, &values, 1);
}

int
sonde_collector_set_double (int id, double value)
{
  const SondeCollectorValue values = { .vdbl = value };

  return sonde_collector_set_counters (&id, &values, 1);
}

int
sonde_collector_allocation (uint64_t address,
                            int64_t size_bytes,
                            const uint64_t *addrs,
                            size_t n_addrs)
{
  SondeThreadRing *ring;
  SondeFrameOrigin origin;
  int r = find_ring (&ring);

  if (r < 0)
    return r;
  if (n_addrs > MAX_ADDRS)
    return -EMSGSIZE;

  origin = origin_at (ring, sonde_collector_now ());
  return finish (ring,
                 sonde_writer_add_allocation (sonde_thread_ring_frames (ring), &origin, ring->tid,
                                              address, size_bytes, addrs, n_addrs));
}

int
sonde_collector_sample (const uint64_t *addrs, size_t n_addrs)
{
  SondeThreadRing *ring;
  SondeFrameOrigin origin;
  int r = find_ring (&ring);

  if (r < 0)
    return r;
  if (n_addrs > MAX_ADDRS)
    return -EMSGSIZE;

  origin = origin_at (ring, sonde_collector_now ());
  return finish (ring, sonde_writer_add_sample (sonde_thread_ring_frames (ring), &origin, ring->tid,
                                                addrs, n_addrs));
}

int
sonde_collector_name_address (const char *name, uint64_t *address)
{
  SondeThreadRing *ring;
  SondeFrameOrigin origin;
  SondeJitName jit_name = { .name = name };
  int r = find_ring (&ring);

  if (r < 0)
    return r;
  if (name == NULL || name[0] == '\0')
    return -EINVAL;

  origin = origin_at (ring, sonde_collector_now ());
  jit_name.address
      = SONDE_JIT_ADDRESS_BASE + __atomic_add_fetch (&n_named_addresses, 1, __ATOMIC_RELAXED);
  r = finish (ring,
              sonde_writer_add_jitmap (sonde_thread_ring_frames (ring), &origin, &jit_name, 1));
  if (r == 0)
    *address = jit_name.address;

  return r;
}

void
sonde_collector_count (uint64_t *n_events, uint64_t *n_lost)
{
  SondeRingLosses losses = { .lost_events = 0 };
  SondeThreadRing *ring;

  ring = sonde_thread_ring_get (&wish);
  *n_events = ring->common.n_frames;
  *n_lost = ring->common.n_lost;
  if (ring->writer == NULL)
    return;
  sonde_ring_writer_count (ring->writer, n_events, &losses);
  *n_lost = losses.lost_events;
}
