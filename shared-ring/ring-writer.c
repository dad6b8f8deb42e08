/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/ring-writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared-ring/control-message.h"
#include "shared-ring/fork-guard.h"
#include "shared-ring/known-socket.h"
#include "shared-ring/ring-atomic.h"

#define NS_PER_US INT64_C (1000)

/* Between two looks while waiting: at first about what a reader needs to empty a part of a ring;
 * then longer, as each look costs as much as many events. */
#define MIN_WAIT_STEP_NS (50 * NS_PER_US)
#define MAX_WAIT_STEP_NS (400 * NS_PER_US)

/* A wait that is longer than this is one of many at a time, whose looks keep the reader from its
 * processor. */
#define LONG_WAIT_NS     (5000 * NS_PER_US)
#define MAX_LONG_STEP_NS (3200 * NS_PER_US)

/* Where waiting is to be fair: the part of a thread's time that it may take, and what may be saved
 * up of that, a second's. */
#define FAIR_PART 5
#define BUCKET_NS (INT64_C (1000000000) / FAIR_PART)

/* Until a sleeper runs again where a processor is free. If none is, it would not have run either
 * had it not slept: that is no part of its wait. */
#define MAX_WAKE_NS (100 * NS_PER_US)

/* When a ring is too small: what may be waited in a second, and how often it may be full. */
#define PRESSED_NS   INT64_C (1000000000)
#define MAX_WAITS_NS (10000 * NS_PER_US)
#define MAX_FULL     8
#define GROWTH       4
#define MAX_REFUSALS 6 /* that are told apart */

struct SondeRingWriter
{
  SondeRingHeader *header;
  uint8_t *body;
  uint64_t tail;           /* published */
  uint64_t head;           /* as last loaded */
  uint32_t index;          /* of the tail in the body */
  uint32_t size_bytes;     /* of the body */
  uint32_t usable_bytes;   /* without the room that is kept for the end frame */
  uint32_t reserved_bytes; /* of the open reservation */
  uint32_t is_busy;        /* a reservation is being made or open */
  uint32_t generation;     /* of the process that opened it */
  bool is_native;
  bool is_broken;      /* takes no more */
  bool has_waited;     /* in vain, and there was no room since */
  int64_t wait_ns;     /* 0: drop at once */
  uint64_t n_frames;   /* committed */
  SondeRingLosses own; /* of a ring that has no place for them */
  SondeRingLosses *losses;
  SondeKnownSocket link; /* to ring the doorbell on */
  SondeWriter frames;
  bool is_compact; /* heap events may be records */
  SondeCompactWriter compact;
  SondeRingMemory owned; /* all zero if somebody else keeps it */

  /* Of the rings before this one. */
  uint64_t past_frames;
  SondeRingLosses past;

  /* Looked at when there is no room. */
  SondeRingGrow grow; /* NULL: it stays as large as it is */
  uint32_t number;    /* as the profiler knows it */
  uint32_t features;
  uint32_t n_refusals; /* of larger ones */
  uint32_t n_full;     /* how often it was since then */
  int64_t grow_at_ns;  /* not before that */
  int64_t full_since_ns;
  int64_t full_ns;   /* waited since then */
  int64_t bucket_ns; /* that may be waited in a row; below 0: too much was */
  int64_t bucket_at_ns;
  sigset_t usual; /* signals that are blocked in the ordinary */
  bool is_shared; /* by threads, of which each has its own such signals */
  pid_t pid;      /* that opened it */
};

/* How far the reader is, or false if it says what cannot be. */
static bool
load_head (SondeRingWriter *self)
{
  uint64_t head;

  if (self->is_native)
    {
      /* Pairs with the release in publish_head() of the reader: what it read is read. */
      head = sonde_ring_load_acquire (&self->header->head);
    }
  else
    {
      /* Pairs with the reader's store of its index, a release at least. */
      uint32_t index = sonde_ring_load_acquire (&self->header->head_index);

      if (index >= self->size_bytes || index % SONDE_FRAME_ALIGN != 0)
        return false;
      head
          = self->tail
            - (index <= self->index ? self->index - index : self->index + self->size_bytes - index);
    }

  if (head - self->head > self->tail - self->head)
    return false;

  self->head = head;
  return true;
}

static inline void
publish_tail (const SondeRingWriter *self, SondeRingHeader *header)
{
  if (self->is_native)
    {
      sonde_ring_store_relaxed (&header->sequence, self->n_frames);
      /* Pairs with the acquire in load_tail() of the reader: the frame and the sequence come
       * first. */
      sonde_ring_store_release (&header->tail, self->tail);
    }
  else
    {
      /* Pairs with the acquire in load_tail() of the reader. */
      sonde_ring_store_release (&header->tail_index, self->index);
    }
}

/* Wakes a reader that sleeps, by a message on the link of the process. Does not block, and leaves
 * errno alone.
 *
 * A reader that serves many rings polls descriptors, so a futex is not for it. An eventfd would be
 * one, but both sides would share its file description: the program could clear O_NONBLOCK and
 * empty the counter between the reader's poll and its read, and so block the reader. The two ends
 * of a socket pair are descriptions of their own, MSG_DONTWAIT is each call's own, and a full
 * socket means that a wake-up is under way anyway. The pair exists already: the link of
 * control-message.h, one per process, whose hang-up also tells that the program is gone. */
static void
ring_doorbell (SondeRingWriter *self)
{
  static const SondeControlHeader bell
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_BELL };
  int saved_errno = errno;
  int state;

  /* No point of cancellation, as send() is one; the number may stand for something else by now: the
   * program may have closed the socket. */
  pthread_setcancelstate (PTHREAD_CANCEL_DISABLE, &state);
  if (sonde_known_socket_check (&self->link)
      && send (self->link.fd, &bell, sizeof bell, MSG_DONTWAIT | MSG_NOSIGNAL) < 0
      && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
    self->is_broken = true;
  pthread_setcancelstate (state, NULL);
  errno = saved_errno;
}

static bool
has_room (const SondeRingWriter *self, size_t size_bytes)
{
  return self->usable_bytes - (self->tail - self->head) >= size_bytes;
}

/* Signals that are blocked while the thread does what it usually does. */
static void
learn_signals (SondeRingWriter *self)
{
  if (!self->is_shared)
    pthread_sigmask (SIG_SETMASK, NULL, &self->usual);
}

/* Whether the thread may sleep here. Between vfork() and exec its parent would, too. In a signal
 * handler who was interrupted would: there a signal is blocked that has a handler, and was not when
 * there was room. */
static bool
may_sleep (const SondeRingWriter *self)
{
  struct sigaction action;
  sigset_t blocked;

  if (getpid () != self->pid)
    return false;

  pthread_sigmask (SIG_SETMASK, NULL, &blocked);
  for (int number = 1; number < NSIG; number++)
    if (sigismember (&blocked, number) > 0 && sigismember (&self->usual, number) == 0
        && sigaction (number, NULL, &action) == 0 && action.sa_handler != SIG_DFL
        && action.sa_handler != SIG_IGN)
      return false;

  return true;
}

/* How long the thread may sleep now. What it slept in excess is owed to the bucket. */
static int64_t
share_ns (SondeRingWriter *self, int64_t now_ns)
{
  if (self->wait_ns > SONDE_RING_FAIR_WAIT_US * NS_PER_US)
    return INT64_MAX;

  self->bucket_ns += (now_ns - self->bucket_at_ns) / FAIR_PART;
  self->bucket_at_ns = now_ns;
  if (self->bucket_ns > BUCKET_NS)
    self->bucket_ns = BUCKET_NS;

  return self->bucket_ns;
}

/* Sleeps for @step, or until the profiler is gone: nobody but that ends it. */
static void
sleep_a_step (SondeRingWriter *self, const struct timespec *step)
{
  struct pollfd link = { .fd = sonde_known_socket_check (&self->link) ? self->link.fd : -1 };

  if (ppoll (&link, 1, step, NULL) > 0 && (link.revents & POLLHUP) != 0
      && sonde_known_socket_check (&self->link))
    self->is_broken = true;
}

/* Waits until there is room, the session's patience ends (-ENOBUFS), or it is in vain. @most_ns:
 * that may be slept */
static int
wait_for_room (SondeRingWriter *self, size_t size_bytes, int64_t most_ns)
{
  struct timespec step = { .tv_nsec = MIN_WAIT_STEP_NS };
  int64_t start_ns = sonde_ring_now_ns ();
  int64_t waited_ns = 0, slept_ns = 0;
  uint32_t pause;
  int r = -ENOBUFS;

  sonde_ring_store_relaxed (&self->header->is_waiting, 1);
  ring_doorbell (self);
  while (r == -ENOBUFS && waited_ns < self->wait_ns && slept_ns < most_ns)
    {
      int64_t before_ns = waited_ns;
      int64_t longest_ns = step.tv_nsec + MAX_WAKE_NS;

      if (!self->is_broken)
        sleep_a_step (self, &step);
      if (step.tv_nsec < (waited_ns < LONG_WAIT_NS ? MAX_WAIT_STEP_NS : MAX_LONG_STEP_NS))
        step.tv_nsec *= 2;
      pause = sonde_ring_load_relaxed (&self->header->is_paused);
      if (pause != SONDE_RING_RUNS)
        r = pause == SONDE_RING_IS_LEFT ? -ECHILD : -EAGAIN;
      else if (self->is_broken || !load_head (self))
        r = -EPIPE;
      else if (has_room (self, size_bytes))
        r = 0;
      waited_ns = sonde_ring_now_ns () - start_ns;
      slept_ns += waited_ns - before_ns < longest_ns ? waited_ns - before_ns : longest_ns;
    }
  sonde_ring_store_relaxed (&self->header->is_waiting, 0);

  sonde_ring_add (&self->losses->blocked_events, 1);
  sonde_ring_add (&self->losses->blocked_bytes, size_bytes);
  sonde_ring_add (&self->losses->blocked_ns, (uint64_t) waited_ns);
  self->bucket_ns -= slept_ns;
  self->full_ns += waited_ns;
  self->is_broken = r == -EPIPE;
  self->has_waited = r == -ENOBUFS;

  return r;
}

int
sonde_ring_writer_check_room (SondeRingWriter *self, size_t size_bytes)
{
  if (self->is_broken)
    return -EPIPE;
  if (has_room (self, size_bytes))
    return 0;

  self->is_broken = !load_head (self);
  if (self->is_broken)
    return -EPIPE;
  if (!has_room (self, size_bytes))
    return -ENOBUFS;
  self->has_waited = false;
  return 0;
}

/* --- larger rings --- */

void
sonde_ring_writer_let_grow (SondeRingWriter *self, uint32_t number, SondeRingGrow grow)
{
  if ((self->features & SONDE_RING_MAY_GROW) == 0 || self->owned.header == NULL
      || self->size_bytes >= SONDE_RING_MAX_BYTES)
    return;
  self->number = number;
  self->grow = grow;
}

size_t
sonde_ring_writer_size (const SondeRingWriter *self)
{
  return self->size_bytes;
}

/* Each time that the ring is full. */
static void
count_full (SondeRingWriter *self)
{
  int64_t now_ns = sonde_ring_now_ns ();

  if (now_ns - self->full_since_ns > PRESSED_NS)
    {
      self->full_since_ns = now_ns;
      self->full_ns = 0;
      self->n_full = 0;
    }
  self->n_full++;
}

static bool
is_too_small (const SondeRingWriter *self)
{
  return self->grow != NULL && (self->n_full >= MAX_FULL || self->full_ns >= MAX_WAITS_NS)
         && self->full_since_ns >= self->grow_at_ns;
}

/* Says where it goes on, in the room that was kept for that. */
static void
write_end (SondeRingWriter *self, SondeRingHeader *header, uint32_t continued_in)
{
  const SondeFrame end = { .len = SONDE_RING_END_BYTES,
                           .cpu = -1,
                           .pid = -1,
                           .time_ns = sonde_ring_now_ns (),
                           .type = SONDE_RING_END,
                           .padding2 = continued_in };

  memcpy (self->body + self->index, &end, sizeof end);
  self->tail += sizeof end;
  self->index += sizeof end;
  if (self->index >= self->size_bytes)
    self->index -= self->size_bytes;
  publish_tail (self, header);
  ring_doorbell (self);
}

static void
add_losses (SondeRingLosses *sum, const SondeRingLosses *losses)
{
  sum->lost_events += sonde_ring_load_relaxed (&losses->lost_events);
  sum->lost_bytes += sonde_ring_load_relaxed (&losses->lost_bytes);
  sum->blocked_events += sonde_ring_load_relaxed (&losses->blocked_events);
  sum->blocked_bytes += sonde_ring_load_relaxed (&losses->blocked_bytes);
  sum->blocked_ns += sonde_ring_load_relaxed (&losses->blocked_ns);
}

static void *
remap (void *page, size_t old_bytes, size_t new_bytes, int flags, void *place)
{
  return (void *) syscall (SYS_mremap, page, old_bytes, new_bytes, MREMAP_MAYMOVE | flags, place);
}

/* Exchanges the page of the header where it is, as other threads look at its words and count what
 * they lose there; the kernel does that at once for all. Returns: where the old one is now, or
 * NULL: nothing has changed. The page becomes a mapping of its own first, so that the exchange
 * itself does not fail. */
static SondeRingHeader *
exchange_header (SondeRingWriter *self, int ring_fd)
{
  size_t page_bytes = self->owned.header_bytes;
  void *new = mmap (NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
  /* A place that mmap() gave is new to a race detector, too; one of mremap()'s choice is not. */
  void *left = mmap (NULL, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (new == MAP_FAILED || left == MAP_FAILED
      || madvise (new, page_bytes, MADV_DONTFORK) != 0
      || madvise (self->header, page_bytes, MADV_DONTDUMP) != 0
      || remap (self->header, 0, page_bytes, MREMAP_FIXED, left) == MAP_FAILED)
    {
      if (new != MAP_FAILED)
        munmap (new, page_bytes);
      if (left != MAP_FAILED)
        munmap (left, page_bytes);
      return NULL;
    }
  if (remap (new, page_bytes, page_bytes, MREMAP_FIXED, self->header) != MAP_FAILED)
    return left;
  munmap (left, page_bytes);
  munmap (new, page_bytes);
  return NULL;
}

static int
move_to (SondeRingWriter *self, int ring_fd, uint32_t number)
{
  SondeRingMemory before = self->owned;
  SondeRingMemory memory;
  SondeRingHeader *left = NULL;
  int r = sonde_ring_memory_map (ring_fd, &memory);

  if (r < 0)
    return r;
  if (memory.kind == SONDE_RING_NATIVE && memory.size_bytes > self->size_bytes
      && memory.header->head == 0 && memory.header->tail == 0)
    left = exchange_header (self, ring_fd);
  if (left == NULL)
    {
      sonde_ring_memory_unmap (&memory);
      return -EUCLEAN;
    }

  write_end (self, left, number);
  self->past_frames += self->n_frames;
  add_losses (&self->past, &left->losses);
  munmap (left, before.header_bytes);
  if (before.header == self->header)
    munmap (before.body, 2 * before.size_bytes);
  else
    sonde_ring_memory_unmap (&before);

  self->owned = memory;
  self->body = memory.body;
  self->size_bytes = (uint32_t) memory.size_bytes;
  self->usable_bytes = self->size_bytes - SONDE_RING_END_BYTES;
  self->tail = self->head = self->n_frames = 0;
  self->index = 0;
  self->number = number;
  self->features = memory.features;
  self->is_compact = (memory.features & SONDE_RING_COMPACT_HEAP) != 0;
  sonde_compact_writer_clear (&self->compact);
  sonde_compact_writer_init (&self->compact, memory.size_bytes);
  return 0;
}

/* Where the thread may sleep, and its reservation is being made. */
static bool
go_on_in_a_larger_one (SondeRingWriter *self)
{
  sigset_t all, before;
  uint32_t number;
  int ring_fd;
  int r;

  self->n_full = 0;
  self->full_ns = 0;
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  r = self->grow (self->number, (size_t) GROWTH * self->size_bytes, &ring_fd, &number);
  if (r == 0)
    {
      r = move_to (self, ring_fd, number);
      close (ring_fd);
    }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  /* Who is refused asks more and more rarely; who came upon others asks as soon. */
  if (r < 0 && r != -EBUSY)
    self->grow_at_ns = sonde_ring_now_ns () + (PRESSED_NS << self->n_refusals);
  if (r < 0 && r != -EBUSY && self->n_refusals < MAX_REFUSALS)
    self->n_refusals++;
  if (self->size_bytes >= SONDE_RING_MAX_BYTES || (self->features & SONDE_RING_MAY_GROW) == 0)
    self->grow = NULL;
  return r == 0;
}

void
sonde_ring_writer_share (SondeRingWriter *self)
{
  self->is_shared = true;
  sigfillset (&self->usual);
}

int64_t
sonde_ring_writer_patience_ns (const SondeRingWriter *self)
{
  return self->wait_ns;
}

/* Where there seems to be no room. Apart from who reserves some: what it keeps on the stack would
 * cost each event. */
static int __attribute__ ((noinline)) find_room (SondeRingWriter *self, size_t size_bytes)
{
  int saved_errno = errno;
  int64_t most_ns = 0;
  bool may_wait;
  int state;
  int r = -ENOBUFS;

  self->is_broken = !load_head (self);
  if (self->is_broken)
    return -EPIPE;
  if (has_room (self, size_bytes))
    {
      self->has_waited = false;
      if (self->wait_ns > 0 || self->grow != NULL)
        learn_signals (self);
      return 0;
    }

  may_wait = self->wait_ns > 0 && !self->has_waited
             && (most_ns = share_ns (self, sonde_ring_now_ns ())) > 0;
  if (self->grow != NULL)
    count_full (self);
  if (!may_wait && !is_too_small (self))
    return -ENOBUFS;
  if (!may_sleep (self))
    {
      self->n_full = 0;
      return -ENOBUFS;
    }

  /* Who allocates memory does not expect to be cancelled there. */
  pthread_setcancelstate (PTHREAD_CANCEL_DISABLE, &state);
  if (may_wait)
    r = wait_for_room (self, size_bytes, most_ns);
  if ((r == 0 || r == -ENOBUFS) && is_too_small (self) && go_on_in_a_larger_one (self))
    {
      self->has_waited = false;
      r = 0;
    }
  pthread_setcancelstate (state, NULL);
  errno = saved_errno;

  return r;
}

static int
lose (SondeRingWriter *self, size_t size_bytes, int error)
{
  sonde_ring_add (&self->losses->lost_events, 1);
  sonde_ring_add (&self->losses->lost_bytes, size_bytes);

  return error;
}

/* What nearly every event finds. */
static inline bool
is_wanted (const SondeRingWriter *self)
{
  return self->generation == sonde_fork_guard_generation () && !self->is_broken
         && (!self->is_native
             || sonde_ring_load_relaxed (&self->header->is_paused) == SONDE_RING_RUNS);
}

static int __attribute__ ((noinline)) find_why_not (const SondeRingWriter *self)
{
  if (self->generation != sonde_fork_guard_generation ())
    return -ECHILD;
  if (self->is_broken)
    return -EPIPE;
  if (self->is_native)
    {
      uint32_t pause = sonde_ring_load_relaxed (&self->header->is_paused);

      /* One that is left must not be closed by a signal handler below who writes to it. */
      if (pause == SONDE_RING_IS_LEFT)
        return sonde_ring_load_relaxed (&self->is_busy) != 0 ? 0 : -ECHILD;
      if (pause != SONDE_RING_RUNS)
        return -EAGAIN;
    }

  return 0;
}

int
sonde_ring_writer_check_wanted (const SondeRingWriter *self)
{
  return __builtin_expect (is_wanted (self), true) ? 0 : find_why_not (self);
}

bool
sonde_ring_writer_is_left (const SondeRingWriter *self)
{
  return self->is_native && self->generation == sonde_fork_guard_generation ()
         && sonde_ring_load_relaxed (&self->is_busy) == 0
         && sonde_ring_load_relaxed (&self->header->is_paused) == SONDE_RING_IS_LEFT;
}

bool
sonde_ring_writer_is_over (const SondeRingWriter *self)
{
  return sonde_ring_writer_is_left (self)
         || (self->is_native && self->generation == sonde_fork_guard_generation ()
             && sonde_ring_load_relaxed (&self->is_busy) == 0 && self->is_broken);
}

const uint32_t *
sonde_ring_writer_pause_word (const SondeRingWriter *self)
{
  return self->is_native ? &self->header->is_paused : NULL;
}

int
sonde_ring_writer_reserve (SondeRingWriter *self, size_t size_bytes, void **place)
{
  int r = __builtin_expect (is_wanted (self), true) ? 0 : find_why_not (self);

  if (r < 0)
    return r;
  if (size_bytes < SONDE_FRAME_MIN_SIZE || size_bytes > SONDE_FRAME_MAX_SIZE
      || size_bytes > self->usable_bytes || size_bytes % SONDE_FRAME_ALIGN != 0)
    return -EMSGSIZE;
  if (sonde_ring_load_relaxed (&self->is_busy) != 0)
    return lose (self, size_bytes, -EBUSY);

  /* From here on a signal handler of this thread finds the ring busy. */
  sonde_ring_store_relaxed (&self->is_busy, 1);
  sonde_ring_signal_fence ();

  r = has_room (self, size_bytes) ? 0 : find_room (self, size_bytes);
  if (r < 0)
    {
      sonde_ring_signal_fence ();
      sonde_ring_store_relaxed (&self->is_busy, 0);
      return r == -EAGAIN || r == -ECHILD ? r : lose (self, size_bytes, r);
    }

  self->reserved_bytes = (uint32_t) size_bytes;
  *place = self->body + self->index;
  return 0;
}

/* Ends the open reservation; @size_bytes of it become part of the ring. */
static void
release (SondeRingWriter *self, uint32_t size_bytes)
{
  uint64_t before = self->tail;

  if (size_bytes > 0)
    {
      self->tail += size_bytes;
      self->index += size_bytes;
      if (self->index >= self->size_bytes)
        self->index -= self->size_bytes;
      publish_tail (self, self->header);
    }

  self->reserved_bytes = 0;
  sonde_ring_signal_fence ();
  sonde_ring_store_relaxed (&self->is_busy, 0);

  /* No full barrier between the store of the tail and this load, as it would cost more than all the
   * rest. So a wish that is just being made may be missed: behind a new wish a reader sleeps
   * with a timer, and without one only when the wish has stood for a while (ring-schedule.h). */
  if (self->is_native)
    {
      uint64_t wake_at = sonde_ring_load_relaxed (&self->header->wake_at);

      if (before < wake_at && wake_at <= self->tail)
        ring_doorbell (self);
    }
}

void
sonde_ring_writer_commit (SondeRingWriter *self)
{
  SondeFrame frame;

  if (self->generation != sonde_fork_guard_generation () || self->reserved_bytes == 0)
    return;

  memcpy (&frame, self->body + self->index, sizeof frame);
  if (frame.len < SONDE_FRAME_MIN_SIZE || frame.len > self->reserved_bytes
      || frame.len % SONDE_FRAME_ALIGN != 0)
    {
      lose (self, self->reserved_bytes, 0);
      frame.len = 0;
    }
  else
    self->n_frames++;

  release (self, frame.len);
}

SondeCompactWriter *
sonde_ring_writer_compact (SondeRingWriter *self)
{
  return self->is_compact ? &self->compact : NULL;
}

void
sonde_ring_writer_commit_records (SondeRingWriter *self, size_t size_bytes)
{
  if (self->generation != sonde_fork_guard_generation () || self->reserved_bytes == 0)
    return;

  if (size_bytes == 0 || size_bytes > self->reserved_bytes || size_bytes % SONDE_FRAME_ALIGN != 0)
    {
      lose (self, self->reserved_bytes, 0);
      size_bytes = 0;
    }
  else
    self->n_frames++;

  release (self, (uint32_t) size_bytes);
}

void
sonde_ring_writer_discard (SondeRingWriter *self)
{
  if (self->generation == sonde_fork_guard_generation () && self->reserved_bytes > 0)
    release (self, 0);
}

void
sonde_ring_writer_lose (SondeRingWriter *self, size_t size_bytes)
{
  if (self->generation == sonde_fork_guard_generation ())
    lose (self, size_bytes, 0);
}

static int
place_frame (void *user_data, size_t size_bytes, void **place)
{
  SondeRingWriter *self = user_data;

  return sonde_ring_writer_reserve (self, size_bytes, place);
}

SondeWriter *
sonde_ring_writer_frames (SondeRingWriter *self)
{
  return &self->frames;
}

void
sonde_ring_writer_count (const SondeRingWriter *self, uint64_t *n_frames, SondeRingLosses *losses)
{
  bool is_parents = self->generation != sonde_fork_guard_generation ();

  if (n_frames != NULL)
    *n_frames = self->past_frames + self->n_frames;
  if (losses == NULL)
    return;
  *losses = self->past;
  add_losses (losses, is_parents ? &self->own : self->losses);
}

static int
init (SondeRingWriter *self, const SondeRingMemory *memory, int link_fd)
{
  uint32_t kept_bytes = SONDE_RING_END_BYTES;
  int r = sonde_known_socket_init (&self->link, link_fd);

  if (r < 0)
    return r;

  self->header = memory->header;
  self->body = memory->body;
  self->size_bytes = (uint32_t) memory->size_bytes;
  self->is_native = memory->kind == SONDE_RING_NATIVE;
  self->wait_ns = self->is_native ? memory->wait_us * NS_PER_US : 0;
  self->bucket_ns = BUCKET_NS;
  self->bucket_at_ns = sonde_ring_now_ns ();
  self->pid = getpid ();
  self->features = memory->features;
  self->is_compact = (memory->features & SONDE_RING_COMPACT_HEAP) != 0;
  sonde_compact_writer_init (&self->compact, memory->size_bytes);
  self->losses = self->is_native ? &self->header->losses : &self->own;
  /* A full ring would look empty where positions are indexes. */
  if (!self->is_native)
    kept_bytes += SONDE_FRAME_ALIGN;
  self->usable_bytes = self->size_bytes - kept_bytes;
  /* As if it were full: so the first reservation looks around. */
  self->head = self->tail - self->usable_bytes;
  self->generation = sonde_fork_guard_generation ();
  sonde_writer_init_in_place (&self->frames, place_frame, self);

  if (self->header->head_index != 0 || self->header->tail_index != 0
      || (self->is_native && (self->header->head != 0 || self->header->tail != 0)))
    return -EUCLEAN;

  return 0;
}

/* In a mapping of its own: the program's malloc may be what is being profiled. */
int
sonde_ring_writer_new (const SondeRingMemory *memory, int link_fd, SondeRingWriter **self)
{
  SondeRingWriter *made;
  int r = sonde_fork_guard_init ();

  if (r < 0)
    return r;
  if (sonde_fork_guard_generation () == 0)
    return -ECHILD;

  made = mmap (NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    return -errno;

  r = init (made, memory, link_fd);
  if (r < 0)
    {
      sonde_ring_memory_unmap (&made->owned);
      munmap (made, sizeof *made);
      return r;
    }

  *self = made;
  return 0;
}

int
sonde_ring_writer_open (int ring_fd, int link_fd, SondeRingWriter **self)
{
  SondeRingMemory memory;
  int r = sonde_ring_memory_map (ring_fd, &memory);

  if (r < 0)
    return r;

  r = sonde_ring_writer_new (&memory, link_fd, self);
  if (r < 0)
    sonde_ring_memory_unmap (&memory);
  else
    (*self)->owned = memory;

  return r;
}

void
sonde_ring_writer_close (SondeRingWriter *self)
{
  if (self == NULL)
    return;

  sonde_compact_writer_clear (&self->compact);
  if (self->generation != sonde_fork_guard_generation ())
    {
      /* The child has the struct, but not the mapping: what is there now is somebody else's. */
      munmap (self, sizeof *self);
      return;
    }

  if (!self->is_broken)
    {
      self->reserved_bytes = 0;
      write_end (self, self->header, 0);
    }
  if (self->owned.header != NULL && self->header != self->owned.header)
    munmap (self->header, self->owned.header_bytes);
  sonde_ring_memory_unmap (&self->owned);
  munmap (self, sizeof *self);
}
