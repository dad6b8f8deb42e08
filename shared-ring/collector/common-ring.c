/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/common-ring.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shared-ring/control-message.h"
#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"
#include "shared-ring/ring-writer.h"

/* SONDE_LIMIT_SHARED_RINGS of the daemon: it gives no more. */
#define MAX_RINGS    8
#define MAX_LEFT     64 /* after which a process that closes its link again and again has no more */
#define WANTED_BYTES (4 * SONDE_RING_DEFAULT_BYTES)

/* Between two looks at rings that are all taken: a copy takes less, unless its thread is kept off
 * its processor; then the others' sleep is what lets it go on. */
#define MIN_STEP_NS 50000
#define MAX_STEP_NS 3200000
#define PATIENCE_NS INT64_C (10000000)
/* Waits for who has taken all rings, where the session wants a wait as often as it takes: he waits,
 * too, and may get no processor for long. Who never gives one back, as his thread was killed, costs
 * others no more than that, once. */
#define MAX_WAITS 8
/* While a ring is made, which hundreds of threads may ask for theirs before. */
#define MAKING_NS (INT64_C (2000000) * SONDE_CONTROL_TIMEOUT_MS)

/* Of a ring, in the word that also has the generation of the process that it is of. */
typedef enum
{
  STATE_NONE = 0,
  STATE_MAKING,
  STATE_FREE,
  STATE_TAKEN,
} CommonState;

#define STATE_BITS 2

typedef struct
{
  _Alignas(SONDE_RING_OWNER_BYTES) uint64_t word; /* generation << STATE_BITS | CommonState */
  void *writer; /* SondeRingWriter: who has taken the ring may write */
  SondeControlRingAnswer answer;
  uint64_t n_definitions; /* in the lower half; the upper one is another for each ring */
  uint32_t n_users;       /* threads whose home it is, or that look whether it shall be */
} Slot;

static Slot slots[MAX_RINGS];
static uint32_t n_joined;
static uint32_t n_left; /* writers that stay */
/* The process in which nobody waits for a ring any more that is being made: who made it may have
 * been killed. What it comes to is looked at nevertheless. */
static uint32_t given_up;

/* Of a ring that is there; it stays as long as it has users, also when the profiler has left it and
 * there is another. */
static SondeRingWriter *
writer_of (const Slot *slot)
{
  return sonde_ring_load_acquire (&slot->writer);
}

static uint64_t
make_word (uint32_t generation, CommonState state)
{
  return (uint64_t) generation << STATE_BITS | (uint64_t) state;
}

static bool
exchange (Slot *slot, uint64_t before, uint64_t after)
{
  /* Pairs with the releases of set_state(): what the one before did to the ring is seen. */
  return __atomic_compare_exchange_n (&slot->word, &before, after, false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED);
}

static void
set_state (Slot *slot, uint32_t generation, CommonState state)
{
  /* Pairs with the acquires of exchange() and is_made(). */
  sonde_ring_store_release (&slot->word, make_word (generation, state));
}

static bool
is_made (const Slot *slot, uint32_t generation)
{
  uint64_t word = sonde_ring_load_acquire (&slot->word);

  return word == make_word (generation, STATE_FREE) || word == make_word (generation, STATE_TAKEN);
}

static bool
take (Slot *slot, uint32_t generation)
{
  uint64_t free_word = make_word (generation, STATE_FREE);

  return sonde_ring_load_relaxed (&slot->word) == free_word
         && exchange (slot, free_word, make_word (generation, STATE_TAKEN));
}

/* Nobody looks at the writer of a ring that is being made but its users, who were there before.
 * Pairs with the fence of begin_use(): either it is seen here, or what is made is seen there. */
static bool
is_used (const Slot *slot)
{
  sonde_ring_full_fence ();
  return sonde_ring_load_relaxed (&slot->n_users) != 0;
}

/* The profiler has left it, and so have all threads. */
static void
end_use (Slot *slot, uint32_t generation)
{
  SondeRingWriter *writer = NULL;

  if (__atomic_sub_fetch (&slot->n_users, 1, __ATOMIC_ACQ_REL) != 0
      || !exchange (slot, make_word (generation, STATE_FREE), make_word (generation, STATE_MAKING)))
    return;
  if (!is_used (slot) && sonde_ring_writer_is_over (writer_of (slot)))
    {
      writer = writer_of (slot);
      sonde_ring_store_relaxed (&slot->writer, (void *) NULL);
    }
  set_state (slot, generation, writer != NULL ? STATE_NONE : STATE_FREE);
  sonde_ring_writer_close (writer);
}

/* Whether there is a ring, which then stays until end_use(). */
static bool
begin_use (Slot *slot, uint32_t generation)
{
  if (!is_made (slot, generation))
    return false;
  __atomic_fetch_add (&slot->n_users, 1, __ATOMIC_ACQ_REL);
  sonde_ring_full_fence ();
  if (is_made (slot, generation) && !sonde_ring_writer_is_left (writer_of (slot)))
    return true;
  end_use (slot, generation);
  return false;
}

/* --- joining --- */

/* @is_left: others still look at the writer that was there, which stays for them. */
static int
open_slot (Slot *slot, SondeProducer producer, bool is_left)
{
  const SondeRingWish wish = { producer, WANTED_BYTES, true };
  SondeRingWriter *of_parent = writer_of (slot);
  SondeRingWriter *writer;
  SondeRingGrant grant;
  int r = -EBADF;

  if (!is_left)
    {
      sonde_ring_store_relaxed (&slot->writer, (void *) NULL);
      sonde_ring_writer_close (of_parent);
    }
  /* Another thread may be closing all descriptors, ours among them. */
  for (unsigned n = 0; r == -EBADF && n < 2; n++)
    {
      r = sonde_control_link_get_ring (&wish, &grant);
      if (r < 0)
        return r;
      r = sonde_ring_writer_open (grant.ring_fd, grant.link_fd, &writer);
      close (grant.ring_fd);
    }
  if (r < 0)
    return r;

  sonde_ring_writer_share (writer);
  sonde_ring_writer_let_grow (writer, grant.answer.number, sonde_control_link_grow_ring);
  sonde_ring_store_release (&slot->n_definitions, ((slot->n_definitions >> 32) + 1) << 32);
  slot->answer = grant.answer;
  sonde_ring_store_release (&slot->writer, (void *) writer);
  return 0;
}

/* Takes a place where there is no ring, or one that the profiler has left. */
static bool
take_place (Slot *slot, uint32_t generation, bool *is_left)
{
  uint64_t word = sonde_ring_load_relaxed (&slot->word);

  *is_left = false;
  if (word != make_word (generation, STATE_FREE))
    {
      if ((word >> STATE_BITS == generation && word != make_word (generation, STATE_NONE))
          || !exchange (slot, word, make_word (generation, STATE_MAKING)))
        return false;
      /* Users of our parent's are none of ours. */
      if (word >> STATE_BITS != generation)
        sonde_ring_store_relaxed (&slot->n_users, 0);
      return true;
    }
  if (!exchange (slot, word, make_word (generation, STATE_MAKING)))
    return false;
  *is_left = is_used (slot);
  if (!sonde_ring_writer_is_over (writer_of (slot))
      || (*is_left && __atomic_fetch_add (&n_left, 1, __ATOMIC_RELAXED) >= MAX_LEFT))
    {
      set_state (slot, generation, STATE_FREE);
      return false;
    }
  return true;
}

/* Makes a further ring. @index: (out): of its slot */
static int
add_ring (uint32_t generation, SondeProducer producer, uint32_t *index)
{
  for (uint32_t i = 0; i < MAX_RINGS; i++)
    {
      Slot *slot = &slots[i];
      bool is_left;
      int r;

      if (!take_place (slot, generation, &is_left))
        continue;
      r = open_slot (slot, producer, is_left);
      if (r == 0)
        __atomic_fetch_add (&slot->n_users, 1, __ATOMIC_ACQ_REL);
      set_state (slot, generation, r < 0 && !is_left ? STATE_NONE : STATE_FREE);
      *index = i;
      return r;
    }
  return -EDQUOT;
}

static void
rest (struct timespec *step)
{
  nanosleep (step, NULL);
  if (step->tv_nsec < MAX_STEP_NS)
    step->tv_nsec *= 2;
}

/* One that another thread made, or is just making. Returns: -ENOENT there is none; -EINPROGRESS it
 * takes too long */
static int
find_ring (uint32_t generation, uint32_t *index)
{
  struct timespec step = { .tv_nsec = MIN_STEP_NS };
  int64_t deadline_ns = sonde_ring_now_ns () + MAKING_NS;
  uint32_t first = __atomic_fetch_add (&n_joined, 1, __ATOMIC_RELAXED);

  for (;;)
    {
      bool is_coming = false;

      for (uint32_t i = 0; i < MAX_RINGS; i++)
        {
          *index = (first + i) % MAX_RINGS;
          if (begin_use (&slots[*index], generation))
            return 0;
          is_coming = is_coming
                      || sonde_ring_load_relaxed (&slots[*index].word)
                             == make_word (generation, STATE_MAKING);
        }
      if (!is_coming)
        return -ENOENT;
      if (sonde_ring_load_relaxed (&given_up) == generation || sonde_ring_now_ns () >= deadline_ns)
        break;
      rest (&step);
    }
  sonde_ring_store_relaxed (&given_up, generation);
  return -EINPROGRESS;
}

static int
place_frame (void *user_data, size_t size_bytes, void **place)
{
  return sonde_common_ring_reserve (user_data, size_bytes, place);
}

int
sonde_common_ring_join (SondeCommonRing *self,
                        SondeProducer producer,
                        SondeControlRingAnswer *answer)
{
  uint32_t generation = sonde_fork_guard_generation ();
  SondeCommonRing made = { .generation = generation,
                           .pid = getpid (),
                           .is_pinned = producer != SONDE_PRODUCER_MEMORY,
                           .mapped_bytes = SONDE_FRAME_MAX_SIZE };
  int r = add_ring (generation, producer, &made.home);
  int found = r < 0 ? find_ring (generation, &made.home) : 0;

  if (found < 0)
    return found == -EINPROGRESS ? found : r;
  made.stage
      = mmap (NULL, made.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made.stage == MAP_FAILED)
    {
      end_use (&slots[made.home], generation);
      return -ENOMEM;
    }

  made.stage_bytes = made.mapped_bytes;
  made.writer = writer_of (&slots[made.home]);
  made.pause_word = sonde_ring_writer_pause_word (made.writer);
  made.n_definitions = &slots[made.home].n_definitions;
  *answer = slots[made.home].answer;
  *self = made;
  sonde_writer_init_in_place (&self->frames, place_frame, self);
  return 0;
}

static void
unmap_stage (SondeCommonRing *self)
{
  void *stage = self->stage;
  size_t mapped_bytes = self->mapped_bytes;

  self->stage = self->last;
  self->stage_bytes = sizeof self->last;
  self->mapped_bytes = 0;
  sonde_ring_signal_fence ();
  if (mapped_bytes > 0)
    munmap (stage, mapped_bytes);
}

void
sonde_common_ring_dwindle (SondeCommonRing *self)
{
  if (self->generation != 0)
    unmap_stage (self);
}

void
sonde_common_ring_leave (SondeCommonRing *self)
{
  uint32_t generation = self->generation;
  uint32_t home = self->home;

  self->generation = 0;
  sonde_ring_signal_fence ();
  unmap_stage (self);
  memset (self, 0, sizeof *self);
  if (generation != 0 && generation == sonde_fork_guard_generation ())
    end_use (&slots[home], generation);
}

/* --- events --- */

int
sonde_common_ring_check_wanted (const SondeCommonRing *self)
{
  uint32_t pause;

  if (self->generation == 0 || self->generation != sonde_fork_guard_generation ())
    return -ECHILD;
  if (self->is_broken)
    return -EPIPE;
  pause = self->pause_word != NULL ? sonde_ring_load_relaxed (self->pause_word) : SONDE_RING_RUNS;
  /* What a signal handler finds busy it must not leave: its thread is in it. */
  if (pause == SONDE_RING_IS_LEFT)
    return sonde_ring_load_relaxed (&self->is_busy) != 0 ? 0 : -ECHILD;
  return pause != SONDE_RING_RUNS ? -EAGAIN : 0;
}

bool
sonde_common_ring_is_left (const SondeCommonRing *self)
{
  return self->generation != 0 && self->generation == sonde_fork_guard_generation ()
         && self->pause_word != NULL && sonde_ring_load_relaxed (&self->is_busy) == 0
         && (self->is_broken || sonde_ring_load_relaxed (self->pause_word) == SONDE_RING_IS_LEFT);
}

void
sonde_common_ring_lose (SondeCommonRing *self, size_t size_bytes)
{
  if (self->generation == 0 || self->generation != sonde_fork_guard_generation ())
    return;
  self->n_lost++;
  sonde_ring_writer_lose (writer_of (&slots[self->home]), size_bytes);
}

int
sonde_common_ring_reserve (SondeCommonRing *self, size_t size_bytes, void **place)
{
  int r = sonde_common_ring_check_wanted (self);

  if (r < 0)
    return r;
  if (size_bytes < SONDE_FRAME_MIN_SIZE || size_bytes > SONDE_FRAME_MAX_SIZE
      || size_bytes % SONDE_FRAME_ALIGN != 0)
    return -EMSGSIZE;
  if (sonde_ring_load_relaxed (&self->is_busy) != 0 || size_bytes > self->stage_bytes)
    {
      sonde_common_ring_lose (self, size_bytes);
      return -EBUSY;
    }

  /* From here on a signal handler of this thread finds it busy. */
  sonde_ring_store_relaxed (&self->is_busy, 1);
  sonde_ring_signal_fence ();
  self->stack_hash = 0;
  self->reserved_bytes = (uint32_t) size_bytes;
  *place = self->stage;
  return 0;
}

/* Whether an event means in one ring what it does in the next. */
static bool
is_of_any_ring (const SondeFrame *frame)
{
  return frame->type != SONDE_FRAME_CTRDEF && frame->type != SONDE_FRAME_CTRSET;
}

static_assert (SONDE_HEAP_FREE_ROOM <= sizeof (SondeFrameAllocation)
                   && SONDE_HEAP_BLOCK_ROOM (0) <= sizeof (SondeFrameAllocation),
               "what is short has room where a frame has");

/* Says the event in short, in the open reservation. Returns: how many bytes that takes; 0: it has
 * to be the frame */
static size_t
shorten_event (SondeRingWriter *writer, SondeCommonRing *self, void *place)
{
  const SondeFrameAllocation *frame = self->stage;
  SondeCompactWriter *compact = sonde_ring_writer_compact (writer);
  SondeCompactEvent event;
  size_t n_bytes;

  if (compact == NULL || frame->frame.type != SONDE_FRAME_ALLOCATION
      || !sonde_compact_writer_takes (frame->address) || frame->size_bytes < 0
      || frame->n_addrs > SONDE_HEAP_MAX_DEPTH || (frame->n_addrs > 0 && self->stack_hash == 0))
    return 0;
  event = (SondeCompactEvent){ .address = frame->address,
                               .size_bytes = (uint64_t) frame->size_bytes,
                               .time_ns = frame->frame.time_ns,
                               .stack_hash = self->stack_hash,
                               .tid = frame->tid };
  if (event.size_bytes == 0)
    return sonde_compact_writer_free (compact, place, &event);

  memcpy ((uint8_t *) place + SONDE_COMPACT_ADDRS_AT, frame->addrs,
          frame->n_addrs * sizeof *frame->addrs);
  self->is_defining = 1;
  sonde_ring_signal_fence ();
  n_bytes = sonde_compact_writer_block (compact, place, &event, frame->n_addrs);
  sonde_ring_signal_fence ();
  self->is_defining = 0;
  return n_bytes;
}

/* Into a ring that this thread has taken. @may_wait: it waits, or counts the loss, as any writer */
static int
copy_event (SondeRingWriter *writer, SondeCommonRing *self, size_t size_bytes, bool may_wait)
{
  size_t short_bytes;
  void *place;
  int r = may_wait ? 0 : sonde_ring_writer_check_room (writer, size_bytes);

  if (writer != self->writer && !is_of_any_ring (self->stage))
    return -ECHILD;
  if (r == 0)
    r = sonde_ring_writer_reserve (writer, size_bytes, &place);
  if (r < 0)
    return r;

  short_bytes = shorten_event (writer, self, place);
  if (short_bytes > 0)
    {
      sonde_ring_writer_commit_records (writer, short_bytes);
      return 0;
    }
  memcpy (place, self->stage, size_bytes);
  sonde_ring_writer_commit (writer);
  return 0;
}

/* Returns: -EBUSY all are taken */
static int
try_each (SondeCommonRing *self, size_t size_bytes)
{
  Slot *home = &slots[self->home];
  unsigned n = self->is_pinned ? 1 : MAX_RINGS;
  int result = -EBUSY;

  for (unsigned i = 0; i < n; i++)
    {
      Slot *slot = &slots[(self->home + i) % MAX_RINGS];
      int r;

      if (!take (slot, self->generation))
        continue;
      r = copy_event (writer_of (slot), self, size_bytes, false);
      set_state (slot, self->generation, STATE_FREE);
      /* That a neighbour is left or broken says nothing of the first one. */
      if (i > 0 && (r == -ECHILD || r == -EPIPE))
        continue;
      if (r != -ENOBUFS && r != -EPIPE)
        return r;
      result = r == -ENOBUFS || result == -EBUSY ? r : result;
    }
  /* One that waits for room keeps those away that would wait for the same. */
  if (result == -ENOBUFS && take (home, self->generation))
    {
      result = copy_event (writer_of (home), self, size_bytes, true);
      set_state (home, self->generation, STATE_FREE);
      return result == -ENOBUFS ? -ENOSPC : result;
    }
  return result == -ENOBUFS ? -EBUSY : result;
}

/* The profiler may have no use for the event any more, while who has taken the ring gets no
 * processor. Returns: -ECHILD, -EAGAIN, or 0 */
static int
find_why_not (const SondeCommonRing *self)
{
  uint32_t pause
      = self->pause_word != NULL ? sonde_ring_load_relaxed (self->pause_word) : SONDE_RING_RUNS;

  if (pause == SONDE_RING_IS_LEFT)
    return -ECHILD;
  return pause != SONDE_RING_RUNS ? -EAGAIN : 0;
}

/* Until others are through with their copies, or with their waits for room. */
static int
try_again (SondeCommonRing *self, size_t size_bytes)
{
  struct timespec step = { .tv_nsec = MIN_STEP_NS };
  int64_t patience_ns = sonde_ring_writer_patience_ns (writer_of (&slots[self->home]));
  int64_t now_ns = sonde_ring_now_ns ();
  int64_t deadline_ns = now_ns + PATIENCE_NS;
  int why_not;
  int r = -EBUSY;

  if (patience_ns > INT64_C (1000) * SONDE_RING_FAIR_WAIT_US)
    patience_ns *= MAX_WAITS;
  /* Between vfork() and exec the parent waits, too. */
  if (patience_ns > PATIENCE_NS && getpid () == self->pid)
    deadline_ns = now_ns + patience_ns;
  while (r == -EBUSY && now_ns < deadline_ns)
    {
      rest (&step);
      r = try_each (self, size_bytes);
      if (r == -EBUSY && (why_not = find_why_not (self)) < 0)
        r = why_not;
      now_ns = sonde_ring_now_ns ();
    }
  if (r == -EBUSY)
    sonde_ring_writer_lose (writer_of (&slots[self->home]), size_bytes);
  return r == -EBUSY ? -ENOSPC : r;
}

static int
publish (SondeCommonRing *self, size_t size_bytes)
{
  int r = try_each (self, size_bytes);
  int saved_errno = errno;
  int state;

  if (__builtin_expect (r != -EBUSY, true))
    {
      self->has_waited = self->has_waited && r != 0;
      return r;
    }
  if (self->has_waited)
    {
      sonde_ring_writer_lose (writer_of (&slots[self->home]), size_bytes);
      return -ENOSPC;
    }

  /* Who allocates memory does not expect to be cancelled there. */
  pthread_setcancelstate (PTHREAD_CANCEL_DISABLE, &state);
  r = try_again (self, size_bytes);
  self->has_waited = r == -ENOSPC;
  pthread_setcancelstate (state, NULL);
  errno = saved_errno;
  return r;
}

int
sonde_common_ring_commit (SondeCommonRing *self)
{
  const SondeFrame *frame = self->stage;
  int r = -EMSGSIZE;

  if (self->generation != sonde_fork_guard_generation () || self->reserved_bytes == 0)
    return -ECHILD;

  if (frame->len < SONDE_FRAME_MIN_SIZE || frame->len > self->reserved_bytes
      || frame->len % SONDE_FRAME_ALIGN != 0)
    sonde_ring_writer_lose (writer_of (&slots[self->home]), self->reserved_bytes);
  else
    r = publish (self, frame->len);
  /* The profiler has left the ring meanwhile. */
  if (r == -ECHILD && is_of_any_ring (frame))
    sonde_ring_writer_lose (writer_of (&slots[self->home]), frame->len);
  self->n_frames += r == 0;
  self->n_lost += r == -ENOSPC || r == -EMSGSIZE;
  self->is_broken = r == -EPIPE;

  self->reserved_bytes = 0;
  sonde_ring_signal_fence ();
  sonde_ring_store_relaxed (&self->is_busy, 0);
  return r == -ENOSPC ? -ENOBUFS : r;
}
