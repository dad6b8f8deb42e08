/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/inferiors.h"

#include <errno.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/capture/program/call-tries.h"
#include "daemon/capture/program/control-server.h"
#include "daemon/capture/program/frame-adopter.h"
#include "daemon/capture/program/heap-writer.h"
#include "daemon/capture/program/uid-shares.h"
#include "shared-ring/ring-memory.h"
#include "shared-ring/ring-reader.h"
#include "shared-ring/ring-schedule.h"

/* Processes at a time: of those that have no ring any more the oldest goes. */
#define MAX_INFERIORS SONDE_LIMIT_RINGS

/* Between the end of a process's socket and the kernel's record of its end, if there is one. */
#define GONE_NS (2 * G_GINT64_CONSTANT (1000000000))

/* Of each ring in a turn: so many bytes, or a part of a larger one. Rings of any size that are full
 * are read through in as many turns, so that what they held at a time comes at about a time. */
#define BUDGET_BYTES (32 * 1024)
#define BUDGET_PART  8

/* Of a turn for each ring, so that others' writers do not wait in vain where frames take long; and
 * after how many of these it is looked. */
#define BUDGET_US       10000
#define FRAMES_A_LOOK   256

#define NO_ROOM_WAIT_US 1000 /* readers are asked again */

/* A program that closed its link, and still runs, has ended the event that it was making: also
 * where others keep it from the processors. */
#define LEAVE_US 1000000

/* A writer counts a loss with two additions to shared memory, which no processor does faster. */
#define MIN_LOSS_NS 4

/* LOG frames of rings that programs can cause in a second, and those in a session that tell whose
 * threads have none. */
#define LOGS_A_SECOND    16
#define MAX_MISSING_LOGS 256

/* Between requests that are refused and the next one, for a ring to share, however busy the
 * machine is. */
#define LACKING_NS G_GINT64_CONSTANT (10000000000)

/* How long heap events wait for records of the kernel, which come each 100 ms at least. */
#define FORK_WAIT_NS G_GINT64_CONSTANT (1000000000)

/* In place of a link, of those that the kernel's records tell of: links are numbered from 1. */
#define NO_PEER G_MAXUINT64

typedef struct ProgramRing ProgramRing;

struct ProgramRing
{
  guint number;    /* from 1 */
  guint32 request; /* by which its program knows it */
  SondeRingReader *reader;
  SondeInferior *inferior; /* which stays as long as it has one */
  SondeProducer producer;
  const char *what;
  gint64 made_ns;
  gboolean is_shared;    /* by the threads of its process */
  uid_t uid;             /* of the program */
  gsize stack_bytes;     /* for stacks that it defines; 0: it has none */
  gint64 dead_us;        /* gets nothing more since then; 0: it may */
  gint64 taken_ns;       /* up to which time all of it was taken */
  gint64 mark_ns;        /* when it was looked how much there was in it ... */
  gsize mark_bytes;      /* ... and what is left of that */
  gsize last_bytes;      /* taken of it since its program, or the session, was over */
  gboolean has_lied;     /* about its losses, and that was said */
  SondeRingCounts known; /* what was counted so far */
  gint64 counted_ns;     /* when */
  guint64 n_lost;        /* in a row of counts, which is not told of yet */
  gint64 lost_since_ns;  /* the count before that row */
  gint64 lost_until_ns;  /* the last one of it */
  ProgramRing *before;   /* that it continues, and that is read to its end first; or NULL */
  ProgramRing *next;     /* that continues it; or NULL */
};

struct SondeInferiors
{
  guint32 memory; /* SondeMemoryMode */
  gint64 start_ns;
  SondeInferiorParts parts;
  SondeTally *tally;
  SondeFrameAdopter *adopter;
  SondeControlServer *server; /* NULL at the end */
  guint n_taken;              /* control sockets */
  guint n_open;
  GPtrArray *inferiors; /* SondeInferior, the oldest first */
  SondeInferiorsChanged changed;
  gpointer user_data;

  GPtrArray *rings; /* ProgramRing, the oldest first */
  guint first;      /* of the next turn, an index of that */
  guint n_made;
  SondeUidShares shares; /* of rings and their memory */
  gsize stack_bytes;     /* of all rings */
  guint32 wait_us;
  gboolean is_paused;
  gboolean is_ending;
  SondeRingSchedule schedule;
  GSource *turn; /* its ready time is the next turn */
  gint64 last_turn_us;

  guint n_logs; /* in this second */
  guint n_logs_left_out;
  gint64 logs_since_us;
  SondeHeapWriter *heap_writer; /* NULL: each heap event is a frame */
  SondeCallTries *tries;        /* NULL: calls are not counted */
  gint64 taken_ns;              /* of rings, by the last turn: see taken_until() */
  gint64 told_ns;               /* of heap events, by that */
  gint64 records_ns;            /* of the kernel's records; 0: nobody said so yet */
  gint64 newest_ns;             /* when the newest program came */
  gboolean has_recorded;        /* the kernel's records told of heap events */
  guint n_missing_logs;
  guint n_missing_left_out; /* which would have told of so many threads */
  guint n_threads_left_out;
};

static void
ring_free (gpointer data)
{
  ProgramRing *ring = data;

  sonde_ring_reader_free (ring->reader);
  g_free (ring);
}

/* --- processes --- */

static void
settle_last (SondeInferior *inferior)
{
  if (!inferior->is_settled)
    sonde_inferior_settle (inferior, sonde_stream_now_ns (), TRUE);
  inferior->is_settled = TRUE;
}

static void
tell_missing (SondeInferiors *self, guint n_threads, const char *text)
{
  sonde_tally_add (self->tally, SONDE_STATISTIC_RINGS_REFUSED, n_threads);
  if (self->n_missing_logs++ < MAX_MISSING_LOGS)
    {
      sonde_recorder_warn (self->parts.recorder, text);
      return;
    }
  self->n_missing_left_out++;
  self->n_threads_left_out += n_threads;
}

/* Nobody else can tell: what a thread does that has no ring leaves no trace. */
static void
tell_lacking (SondeInferiors *self, SondeInferior *inferior)
{
  guint n = inferior->n_lacking + inferior->n_without;
  g_autofree char *text = NULL;

  if (n == 0)
    return;
  text = g_strdup_printf (SONDE_LEDGER_MISSING
                          "%u %s of process %d got no ring (%s): what %s did is not recorded",
                          n, n == 1 ? "thread" : "threads", inferior->pid,
                          inferior->lack_error == -EDQUOT ? "the session has no more ring memory"
                                                          : g_strerror (-inferior->lack_error),
                          n == 1 ? "it" : "they");
  tell_missing (self, n, text);
  inferior->n_lacking = inferior->n_without = 0;
}

static void
forget_inferior (SondeInferiors *self, guint index)
{
  SondeInferior *inferior = g_ptr_array_index (self->inferiors, index);

  tell_lacking (self, inferior);
  settle_last (inferior);
  g_ptr_array_remove_index (self->inferiors, index);
}

/* More than there is room for never have a ring at a time. */
static SondeInferior *
ensure_inferior (SondeInferiors *self, pid_t pid, guint64 peer)
{
  SondeInferior *inferior;

  for (guint i = self->inferiors->len; i > 0; i--)
    {
      inferior = g_ptr_array_index (self->inferiors, i - 1);
      if (inferior->peer == peer && inferior->pid == pid && inferior->gone_ns == 0)
        return inferior;
    }
  for (guint i = 0; i < self->inferiors->len && self->inferiors->len >= MAX_INFERIORS; i++)
    {
      inferior = g_ptr_array_index (self->inferiors, i);
      if (inferior->n_rings > 0)
        continue;
      forget_inferior (self, i);
      break;
    }
  self->newest_ns = sonde_stream_now_ns ();
  inferior = sonde_inferior_new (&self->parts, pid, peer, self->newest_ns);
  g_ptr_array_add (self->inferiors, inferior);

  return inferior;
}

/* --- what rings have --- */

/* Takes frames until the turn's budget is used up. One that waits for room gets it at once.
 * Returns: how many bytes that were */
static gsize
take_frames (SondeInferiors *self, ProgramRing *ring, gint64 now)
{
  gboolean is_refused = self->is_paused && !sonde_ring_reader_has_doorbell (ring->reader);
  gsize before_bytes = sonde_ring_reader_fill (ring->reader);
  gint64 until_us = g_get_monotonic_time () + BUDGET_US;
  const SondeShortEvent *event;
  const SondeFrame *frame;

  for (guint n = 1; (n % FRAMES_A_LOOK != 0 || g_get_monotonic_time () < until_us)
                    && sonde_ring_reader_next_short (ring->reader, &frame, &event) == 1;
       n++)
    {
      gint64 time_ns = frame != NULL ? frame->time_ns : event->time_ns;

      ring->taken_ns = MAX (ring->taken_ns, MIN (time_ns, now));
      /* Rings of such events are paused by themselves. */
      if (frame == NULL)
        sonde_frame_adopter_adopt_short (self->adopter, ring->inferior, ring->reader, event, now);
      else if (is_refused)
        sonde_frame_adopter_refuse (self->adopter, frame);
      else
        sonde_frame_adopter_adopt (self->adopter, ring->inferior, frame, now);
      sonde_ring_reader_release_piece (ring->reader);
    }
  sonde_ring_reader_release (ring->reader);
  before_bytes -= sonde_ring_reader_fill (ring->reader);
  ring->mark_bytes -= MIN (ring->mark_bytes, before_bytes);
  return before_bytes;
}

/* Whether readers can take a budget more. */
static gboolean
has_room (SondeInferiors *self)
{
  if (sonde_recorder_has_room (self->parts.recorder))
    return TRUE;
  sonde_recorder_flush (self->parts.recorder);
  return sonde_recorder_has_room (self->parts.recorder);
}

/* A thread that was in the middle of an event as its ring was looked at for the last time has put
 * it there since then, and counts no loss: takes that, too. @counts: before; (inout): with it. What
 * comes still later is of no session. */
static void
take_late (SondeInferiors *self, ProgramRing *ring, SondeRingCounts *counts)
{
  SondeRingCounts after;

  if (counts->produced - counts->claimed.lost_events <= counts->frames
      || sonde_ring_reader_fill (ring->reader) > 0 || !has_room (self)
      || sonde_ring_reader_begin (ring->reader, BUDGET_BYTES) < 0)
    return;
  take_frames (self, ring, sonde_stream_now_ns ());
  sonde_ring_reader_count (ring->reader, &after);
  counts->frames = after.frames;
}

/* --- what rings lost --- */

static gboolean
may_log (SondeInferiors *self)
{
  gint64 now_us = g_get_monotonic_time ();

  if (now_us - self->logs_since_us > G_USEC_PER_SEC)
    {
      self->logs_since_us = now_us;
      self->n_logs = 0;
    }
  if (self->n_logs++ < LOGS_A_SECOND)
    return TRUE;
  self->n_logs_left_out++;
  return FALSE;
}

/* What grew since the last count, of an account that cannot be above @possible. */
static guint64
growth (guint64 claimed, guint64 possible, guint64 *known)
{
  guint64 bounded = MIN (claimed, possible);
  guint64 grown = bounded > *known ? bounded - *known : 0;

  *known += grown;
  return grown;
}

/* Where in the capture something is missing, as exactly as it is counted. */
static void
tell_losses (SondeInferiors *self, ProgramRing *ring)
{
  g_autofree char *text = NULL;

  if (ring->n_lost > 0 && may_log (self))
    {
      text = g_strdup_printf ("Ring %u (%s) of process %d lost %" G_GUINT64_FORMAT
                              " events between %.3f s and %.3f s of the session",
                              ring->number, ring->what, ring->inferior->pid, ring->n_lost,
                              (double) (ring->lost_since_ns - self->start_ns) / 1e9,
                              (double) (ring->lost_until_ns - self->start_ns) / 1e9);
      sonde_recorder_warn (self->parts.recorder, text);
    }
  ring->n_lost = 0;
}

/* @is_over: what was put in and not taken is lost, too. The account is in memory that the program
 * writes: what there was no time for in a ring that one thread writes is not believed. */
static void
count_ring (SondeInferiors *self, ProgramRing *ring, gboolean is_over)
{
  gint64 now = sonde_stream_now_ns ();
  gint64 age_ns = now - ring->made_ns;
  guint64 n_waiting = sonde_ring_reader_size (ring->reader) / SONDE_HEAP_MIN_BYTES;
  guint64 n_possible = (guint64) age_ns / MIN_LOSS_NS + n_waiting;
  SondeRingCounts counts;
  guint64 lost, grown;

  sonde_ring_reader_count (ring->reader, &counts);
  lost = counts.claimed.lost_events;
  if (is_over)
    {
      take_late (self, ring, &counts);
      lost += MAX (counts.produced - lost, counts.frames) - counts.frames;
    }
  /* A claim of all numbers that there are leaves those that were taken. */
  lost = MIN (lost, G_MAXUINT64 - counts.frames);
  if (lost > n_possible && !ring->has_lied)
    {
      ring->has_lied = TRUE;
      if (may_log (self))
        {
          g_autofree char *text = g_strdup_printf (
              SONDE_LEDGER_CLAIM
              "ring %u (%s) of process %d says that it lost %" G_GUINT64_FORMAT
              " events; in its %.3f s it cannot have lost more than %" G_GUINT64_FORMAT
              ", which are counted",
              ring->number, ring->what, ring->inferior->pid, lost, (double) age_ns / 1e9,
              n_possible);

          sonde_recorder_warn (self->parts.recorder, text);
        }
    }
  grown = growth (lost, n_possible, &ring->known.claimed.lost_events);
  sonde_tally_event (self->tally, SONDE_LEDGER_EVENTS_LOST_RING, grown);
  if (grown > 0)
    {
      if (ring->n_lost == 0)
        ring->lost_since_ns = ring->counted_ns;
      ring->lost_until_ns = now;
    }
  ring->n_lost += grown;
  if (grown == 0 || is_over)
    tell_losses (self, ring);
  ring->counted_ns = now;
  sonde_tally_add (
      self->tally, SONDE_STATISTIC_EVENTS_WAITED,
      growth (counts.claimed.blocked_events, n_possible, &ring->known.claimed.blocked_events));
  sonde_tally_add (self->tally, SONDE_STATISTIC_EVENTS_WAITED_US,
                   growth (counts.claimed.blocked_ns / 1000, (guint64) age_ns / 1000,
                           &ring->known.claimed.blocked_ns));
}

/* --- rings that go --- */

/* A thread that ends is no news, nor that it goes on in the ring that it got for that. */
static void
say_why (SondeInferiors *self, const ProgramRing *ring)
{
  SondeRingState state = sonde_ring_reader_state (ring->reader);
  guint32 continued_in = sonde_ring_reader_continued_in (ring->reader);
  gboolean is_foreign
      = continued_in != 0 && (ring->next == NULL || ring->next->request != continued_in);
  g_autofree char *text = NULL;
  char why[256];

  if ((state == SONDE_RING_HAS_ENDED && !is_foreign) || !may_log (self))
    return;
  if (is_foreign)
    {
      text = g_strdup_printf ("Ring %u (%s) of process %d was closed: its end frame names ring "
                              "%u of its program, which does not continue it",
                              ring->number, ring->what, ring->inferior->pid, continued_in);
      sonde_recorder_warn (self->parts.recorder, text);
      return;
    }
  if (state == SONDE_RING_IS_OPEN)
    {
      text = g_strdup_printf ("Ring %u (%s) of process %d was left open by a program that is gone, "
                              "or has closed its socket; it was read to its last whole frame",
                              ring->number, ring->what, ring->inferior->pid);
      sonde_recorder_tell (self->parts.recorder, text);
      return;
    }
  text = g_strdup_printf ("Ring %u (%s) of process %d was closed: %s", ring->number, ring->what,
                          ring->inferior->pid,
                          sonde_ring_reader_explain (ring->reader, why, sizeof why));
  sonde_recorder_warn (self->parts.recorder, text);
}

/* Closes the ring at @index of the array. @is_told: it was somebody's */
static void
close_ring (SondeInferiors *self, guint index, gboolean is_told)
{
  ProgramRing *ring = g_ptr_array_index (self->rings, index);
  SondeInferior *inferior = ring->inferior;

  inferior->n_rings--;
  inferior->n_shared -= ring->is_shared ? 1 : 0;
  if (is_told)
    {
      count_ring (self, ring, TRUE);
      say_why (self, ring);
    }
  /* Its program, if there is one, makes no more; or it was told to get another. At the end all were
   * told before. */
  if (ring->dead_us == 0 && self->server != NULL)
    sonde_ring_reader_pause (ring->reader, TRUE);
  if (ring->next != NULL)
    {
      ring->next->before = NULL;
      ring->next->taken_ns = MAX (ring->next->taken_ns, ring->taken_ns);
    }
  if (ring->before != NULL)
    ring->before->next = NULL;
  sonde_uid_shares_give_back (&self->shares, ring->uid, sonde_ring_reader_size (ring->reader));
  self->stack_bytes -= ring->stack_bytes;
  g_ptr_array_remove_index (self->rings, index);
  self->tally->values[SONDE_STATISTIC_SHARED_RINGS] = self->rings->len;
  self->tally->values[SONDE_STATISTIC_SHARED_RING_BYTES] = self->shares.all.bytes;
}

/* --- turns of rings --- */

/* Its process is over, or executes another program: takes all that is left in rings made before
 * @before_ns, and closes them. @is_urgent: whether readers can take it or not. Returns FALSE if
 * they cannot: the rest stays for another time. Who goes on writing into such a ring, as nobody
 * honest could, makes that no longer than what fits into it. */
static gboolean
end_rings (SondeInferiors *self,
           const SondeInferior *inferior,
           gint64 before_ns,
           gboolean is_urgent)
{
  /* The oldest first: one may continue another. */
  for (guint i = 0; i < self->rings->len;)
    {
      ProgramRing *ring = g_ptr_array_index (self->rings, i);

      if (ring->inferior != inferior || ring->made_ns >= before_ns)
        {
          i++;
          continue;
        }
      while (ring->last_bytes < sonde_ring_reader_size (ring->reader)
             && sonde_ring_reader_begin (ring->reader, BUDGET_BYTES) == 0
             && sonde_ring_reader_fill (ring->reader) > 0)
        {
          if (!has_room (self) && !is_urgent)
            return FALSE;
          /* What nobody can take would be lost further on, with what others have: close_ring()
           * counts it. */
          if (!has_room (self) && sonde_ring_reader_has_doorbell (ring->reader))
            break;
          ring->last_bytes += take_frames (self, ring, sonde_stream_now_ns ());
        }
      close_ring (self, i, TRUE);
    }
  return TRUE;
}

/* Returns whether it has nothing more to give, ever. */
static gboolean
is_over (const ProgramRing *ring)
{
  return sonde_ring_reader_state (ring->reader) != SONDE_RING_IS_OPEN
         || (ring->dead_us != 0 && sonde_ring_reader_fill (ring->reader) == 0
             && g_get_monotonic_time () - ring->dead_us >= LEAVE_US);
}

static gsize
budget_of (const ProgramRing *ring)
{
  return MAX (BUDGET_BYTES, sonde_ring_reader_size (ring->reader) / BUDGET_PART);
}

/* What comes behind that which was in it at a time was put there later, whatever it says. */
static void
mark_time (ProgramRing *ring, gint64 now_ns)
{
  if (ring->mark_bytes > 0)
    return;
  ring->taken_ns = MAX (ring->taken_ns, ring->mark_ns);
  ring->mark_ns = now_ns;
  ring->mark_bytes = sonde_ring_reader_fill (ring->reader);
}

/* Up to when there is nothing in rings any more that was not taken: @now_ns, before they were
 * looked at, but for those that have more. Who puts something into a ring before he has ended the
 * one that it continues is waited for by nobody: of others that end was seen by now. */
static gint64
taken_until (const SondeInferiors *self, gint64 now_ns)
{
  for (guint i = 0; i < self->rings->len; i++)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i);
      const ProgramRing *read = ring->before != NULL ? ring->before : ring;

      if (sonde_ring_reader_fill (ring->reader) > 0
          && (sonde_ring_reader_fill (read->reader) > 0
              || sonde_ring_reader_state (read->reader) != SONDE_RING_IS_OPEN))
        now_ns = MIN (now_ns, read->taken_ns);
    }
  return now_ns;
}

/* Up to when heap events have their turn: a child's wait for the record that tells whose blocks it
 * has, though not for ever. */
static gint64
told_until (const SondeInferiors *self, gint64 now_ns)
{
  if (self->has_recorded)
    return MIN (self->taken_ns, self->records_ns);
  if (self->records_ns == 0 || self->newest_ns <= self->records_ns
      || now_ns - self->newest_ns > FORK_WAIT_NS)
    return self->taken_ns;
  return MIN (self->taken_ns, self->records_ns);
}

/* Whether the session is over, and it has given more than was in it: somebody goes on. */
static gboolean
has_given_all (const SondeInferiors *self, const ProgramRing *ring)
{
  return self->is_ending && ring->last_bytes >= 2 * sonde_ring_reader_size (ring->reader);
}

/* Returns whether one has more than it may give now. @is_urgent: whether readers can take it or
 * not; what these cannot stays in rings whose writers count, as sonde_inferiors_end() does then */
static gboolean
run_turn (SondeInferiors *self, gboolean is_urgent)
{
  gint64 now = sonde_stream_now_ns ();
  gint64 told_ns;
  gboolean has_more = FALSE;
  guint n = 0;

  /* Looks how far each is: the newest first, so that what one thread's ring defines before another
   * thread's uses it is seen before, too. */
  for (guint i = self->rings->len; i > 0; i--)
    {
      ProgramRing *ring = g_ptr_array_index (self->rings, i - 1);

      if (sonde_ring_reader_begin (ring->reader, budget_of (ring)) < 0 || ring->before != NULL)
        continue;
      mark_time (ring, now);
      sonde_ring_schedule_observe (&self->schedule, sonde_ring_reader_fill (ring->reader),
                                   sonde_ring_reader_size (ring->reader),
                                   sonde_ring_reader_has_doorbell (ring->reader));
    }
  while (n < self->rings->len && (is_urgent || has_room (self)))
    {
      ProgramRing *ring = g_ptr_array_index (self->rings, (self->first + n++) % self->rings->len);
      gsize taken_bytes;

      if (ring->before != NULL || has_given_all (self, ring)
          || (is_urgent && sonde_ring_reader_has_doorbell (ring->reader) && !has_room (self)))
        continue;
      taken_bytes = take_frames (self, ring, now);
      if (self->is_ending)
        ring->last_bytes += taken_bytes;
      has_more
          = has_more || (sonde_ring_reader_has_more (ring->reader) && !has_given_all (self, ring));
    }
  /* The next turn begins where this one ends for want of room. */
  has_more = has_more || n < self->rings->len;
  self->first = n < self->rings->len ? (self->first + n) % self->rings->len : 0;
  self->taken_ns = taken_until (self, now);
  told_ns = told_until (self, now);
  /* What waits for the same record as before is not looked at again. */
  if (self->heap_writer != NULL && (told_ns == self->taken_ns || told_ns != self->told_ns))
    sonde_heap_writer_turn (self->heap_writer, told_ns, now);
  self->told_ns = told_ns;
  for (guint i = self->rings->len; i > 0; i--)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i - 1);

      if (ring->before != NULL || !is_over (ring))
        continue;
      has_more = has_more || ring->next != NULL;
      close_ring (self, i - 1, TRUE);
    }
  self->last_turn_us = now / 1000;

  return has_more;
}

static gboolean
has_dead (const SondeInferiors *self)
{
  for (guint i = 0; i < self->rings->len; i++)
    if (((const ProgramRing *) g_ptr_array_index (self->rings, i))->dead_us != 0)
      return TRUE;
  return FALSE;
}

/* Asks each to wake us. Returns whether all will. */
static gboolean
ask_to_be_woken (SondeInferiors *self)
{
  gboolean all = TRUE;

  for (guint i = 0; i < self->rings->len; i++)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i);
      gsize fill
          = sonde_ring_schedule_watermark (&self->schedule, sonde_ring_reader_size (ring->reader));

      /* The end of the one before rings. */
      if (ring->before != NULL)
        continue;
      all = sonde_ring_reader_sleep (ring->reader, fill) && all;
    }

  return all;
}

static gboolean
on_turn (gpointer user_data)
{
  SondeInferiors *self = user_data;
  gboolean has_more;
  gint64 wait_us;

  if (!sonde_recorder_has_room (self->parts.recorder))
    {
      sonde_recorder_flush (self->parts.recorder);
      g_source_set_ready_time (self->turn, g_get_monotonic_time () + NO_ROOM_WAIT_US);
      return G_SOURCE_CONTINUE;
    }
  has_more = run_turn (self, FALSE);
  sonde_recorder_flush (self->parts.recorder);

  wait_us = sonde_ring_schedule_next (&self->schedule);
  if (self->rings->len == 0)
    g_source_set_ready_time (self->turn, -1);
  else if (has_more || !ask_to_be_woken (self))
    g_source_set_ready_time (self->turn, 0);
  else if (has_dead (self) && (wait_us == SONDE_RING_SLEEP || wait_us > LEAVE_US))
    g_source_set_ready_time (self->turn, g_get_monotonic_time () + LEAVE_US);
  else if (wait_us == SONDE_RING_SLEEP)
    g_source_set_ready_time (self->turn, -1);
  else
    g_source_set_ready_time (self->turn, g_get_monotonic_time () + wait_us);

  return G_SOURCE_CONTINUE;
}

/* Not more often than a program could fill a ring: one that rings all the time does not keep us
 * from the others. */
static void
wake (gpointer user_data)
{
  SondeInferiors *self = user_data;
  gint64 ready_us = g_source_get_ready_time (self->turn);
  gint64 wanted_us = self->last_turn_us + SONDE_RING_SHORTEST_US;

  if (ready_us < 0 || ready_us > wanted_us)
    g_source_set_ready_time (self->turn, wanted_us);
}

static gboolean
dispatch_turn (GSource *source, GSourceFunc callback, gpointer user_data)
{
  return callback (user_data);
}

static GSourceFuncs turn_functions = { .dispatch = dispatch_turn };

/* --- requests --- */

/* A thread that shares what others got lacks nothing, and may ask for that in a moment. */
static int
refuse (const SondeRingWanted *wanted, SondeInferior *inferior, int error)
{
  if (wanted->kind == SONDE_RING_NATIVE && inferior->n_shared > 0)
    return error;
  /* It does not ask again, also if another thread of its process gets one later. */
  if (wanted->kind == SONDE_RING_NATIVE && wanted->is_shared && inferior->n_lacking > 0)
    {
      inferior->n_lacking--;
      inferior->n_without++;
      return error;
    }
  /* Threads that ask all at once keep each other from asking again. */
  inferior->n_lacking++;
  inferior->lacks_ns = sonde_stream_now_ns ();
  inferior->lack_error = error;
  return error;
}

static void
link_refused (pid_t pid, gpointer user_data)
{
  g_autofree char *text
      = g_strdup_printf (SONDE_LEDGER_MISSING "process %d got no link (the session has too many): "
                                              "what it did is not recorded",
                         (int) pid);

  tell_missing (user_data, 1, text);
}

/* A large one while there is much room, so that many find some. */
static guint32
fit_ring (const SondeInferiors *self, uid_t uid, guint32 wished_bytes)
{
  gsize room_bytes = sonde_uid_shares_room (&self->shares, uid, SONDE_LIMIT_RING_MEMORY_BYTES);
  gsize part_bytes = room_bytes / SONDE_LIMIT_RING_PARTS;

  if (self->shares.all.bytes + wished_bytes <= SONDE_LIMIT_RING_AMPLE_BYTES)
    return wished_bytes;
  while (wished_bytes > SONDE_RING_MIN_BYTES && wished_bytes > part_bytes)
    wished_bytes /= 2;
  return wished_bytes;
}

/* Whether there is room for one more: what a process cannot do without goes before what others
 * would like to have. By its pid, as it may have any number of links. */
static gboolean
may_have_ring (const SondeInferiors *self, const SondeRingWanted *wanted, gsize size_bytes)
{
  gboolean is_alone = wanted->is_shared || wanted->kind == SONDE_RING_SYSPROF;
  guint percent = is_alone ? 100 : SONDE_LIMIT_OWN_RINGS_PERCENT;
  SondeUidAmount max;
  guint n_alike = 0;

  for (guint i = 0; i < self->rings->len && is_alone; i++)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i);

      n_alike += ring->dead_us == 0 && ring->inferior->pid == wanted->pid
                 && ring->producer == wanted->producer && ring->is_shared == wanted->is_shared;
    }
  if (n_alike > 0)
    percent = wanted->is_shared ? SONDE_LIMIT_MORE_RINGS_PERCENT : SONDE_LIMIT_OWN_RINGS_PERCENT;
  max = (SondeUidAmount){ SONDE_LIMIT_RINGS * percent / 100,
                          (gsize) SONDE_LIMIT_RING_MEMORY_BYTES * percent / 100 };
  return (!wanted->is_shared || n_alike < SONDE_LIMIT_SHARED_RINGS)
         && sonde_uid_shares_has_room (&self->shares, wanted->uid, &max, size_bytes);
}

/* What the producer may send beside allocations. Returns: FALSE: the session wants none of it */
static gboolean
find_rights (const SondeInferiors *self,
             SondeProducer producer,
             const char **what,
             SondeRingRights *rights)
{
  if (producer == SONDE_PRODUCER_APPLICATION)
    {
      *what = "application";
      rights->types = SONDE_RING_COLLECTOR_TYPES;
    }
  else if (producer == SONDE_PRODUCER_MEMORY && self->memory != SONDE_MEMORY_OFF)
    {
      *what = "memory";
      rights->types = SONDE_RING_COLLECTOR_TYPES & ~SONDE_RING_TYPE (SONDE_FRAME_SAMPLE);
    }
  else
    return FALSE;
  return TRUE;
}

static gboolean
has_stack_memory (const SondeInferiors *self, gsize size_bytes)
{
  return SONDE_HEAP_READER_BYTES (size_bytes) <= SONDE_INFERIORS_STACK_BYTES - self->stack_bytes;
}

/* @made: what is known of it so far. Returns: a descriptor, to be closed; or a negative errno */
static int
make_ring (SondeInferiors *self,
           const ProgramRing *made,
           const SondeRingRights *rights,
           const SondeRingOptions *options)
{
  ProgramRing *ring;
  SondeRingReader *reader;
  SondeRingMemory memory;
  int fd;
  int r = sonde_ring_memory_create (options, &memory, &fd);

  if (r < 0)
    return r;
  r = sonde_ring_reader_new (&memory, rights, &reader);
  if (r < 0)
    {
      sonde_ring_memory_unmap (&memory);
      close (fd);
      return r;
    }
  sonde_ring_reader_pause (reader, self->is_paused);
  ring = g_memdup2 (made, sizeof *made);
  ring->reader = reader;
  ring->number = ++self->n_made;
  ring->made_ns = ring->counted_ns = ring->taken_ns = sonde_stream_now_ns ();
  if ((options->features & SONDE_RING_COMPACT_HEAP) != 0)
    ring->stack_bytes = SONDE_HEAP_READER_BYTES (options->size_bytes);
  if (ring->before != NULL)
    ring->before->next = ring;
  g_ptr_array_add (self->rings, ring);
  ring->inferior->n_rings++;
  if (ring->is_shared)
    {
      ring->inferior->n_shared++;
      ring->inferior->n_lacking = 0;
    }
  sonde_uid_shares_take (&self->shares, ring->uid, options->size_bytes);
  self->stack_bytes += ring->stack_bytes;
  self->tally->values[SONDE_STATISTIC_SHARED_RINGS] = self->rings->len;
  self->tally->values[SONDE_STATISTIC_SHARED_RING_BYTES] = self->shares.all.bytes;
  wake (self);

  return fd;
}

/* The ring that a program wants to grow. Who gives two the same number means the later one. */
static ProgramRing *
find_growing (const SondeInferiors *self, const SondeRingWanted *wanted)
{
  for (guint i = self->rings->len; i > 0; i--)
    {
      ProgramRing *ring = g_ptr_array_index (self->rings, i - 1);

      if (ring->request == wanted->continues && ring->inferior->peer == wanted->peer
          && ring->inferior->pid == wanted->pid && ring->dead_us == 0
          && sonde_ring_reader_has_doorbell (ring->reader)
          && sonde_ring_reader_state (ring->reader) == SONDE_RING_IS_OPEN)
        return ring;
    }
  return NULL;
}

/* How large it may become: of the memory that goes to who asks first (SONDE_LIMIT_RING_AMPLE_BYTES)
 * each user has an equal part, where there may be several, and of that each process with rings. 0:
 * it stays as it is */
static gsize
grown_size (const SondeInferiors *self, const ProgramRing *growing, gsize wished_bytes)
{
  gsize before_bytes = sonde_ring_reader_size (growing->reader);
  guint n_uids = self->shares.is_divided ? sonde_uid_shares_n_uids (&self->shares) : 1;
  gsize own_bytes = 0;
  guint n_processes = 0;
  gsize part_bytes;

  for (guint i = 0; i < self->inferiors->len; i++)
    {
      const SondeInferior *inferior = g_ptr_array_index (self->inferiors, i);

      n_processes += inferior->n_rings > 0 && (n_uids == 1 || inferior->uid == growing->uid);
    }
  for (guint i = 0; i < self->rings->len; i++)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i);

      if (ring->inferior->pid == growing->inferior->pid)
        own_bytes += sonde_ring_reader_size (ring->reader);
    }
  part_bytes = SONDE_LIMIT_RING_AMPLE_BYTES / n_uids / MAX (n_processes, 1);
  while (wished_bytes > before_bytes
         && (own_bytes + wished_bytes > part_bytes
             || self->shares.all.bytes + wished_bytes > SONDE_LIMIT_RING_AMPLE_BYTES
             || (growing->stack_bytes > 0 && !has_stack_memory (self, wished_bytes))))
    wished_bytes /= 2;
  return wished_bytes > before_bytes ? wished_bytes : 0;
}

/* Refusing it costs the program nothing but waits: nothing is told of it. */
static int
larger_ring_wanted (SondeInferiors *self, const SondeRingWanted *wanted, guint *number)
{
  ProgramRing *growing = find_growing (self, wanted);
  SondeRingOptions options = { .kind = SONDE_RING_NATIVE,
                               .size_bytes = wanted->size_bytes,
                               .wait_us = self->wait_us,
                               .features = SONDE_RING_MAY_GROW };
  SondeRingRights rights = { .pid = wanted->pid };
  ProgramRing made = { .request = wanted->request, .before = growing };
  int fd;

  if (growing == NULL || wanted->request == wanted->continues
      || options.size_bytes < SONDE_RING_MIN_BYTES || options.size_bytes > SONDE_RING_MAX_BYTES
      || (options.size_bytes & (options.size_bytes - 1)) != 0)
    return -EINVAL;
  /* One that was continued, or is to be, and one that nobody has read up to now. */
  if (growing->next != NULL || growing->before != NULL)
    return -EALREADY;
  options.size_bytes = grown_size (self, growing, options.size_bytes);
  if (options.size_bytes == 0
      || self->rings->len >= SONDE_LIMIT_RINGS * SONDE_LIMIT_OWN_RINGS_PERCENT / 100)
    return -EDQUOT;

  made.inferior = growing->inferior;
  made.producer = growing->producer;
  made.is_shared = growing->is_shared;
  made.uid = growing->uid;
  if (growing->stack_bytes > 0)
    options.features |= SONDE_RING_COMPACT_HEAP;
  find_rights (self, made.producer, &made.what, &rights);
  fd = make_ring (self, &made, &rights, &options);
  *number = self->n_made;
  return fd;
}

/* In place of a ring: a program's calls are counted in it, not told. */
static int
region_wanted (SondeInferiors *self, const SondeRingWanted *wanted, guint *number)
{
  SondeInferior *inferior = ensure_inferior (self, wanted->pid, wanted->peer);

  *number = 0;
  return sonde_call_tries_add (self->tries, inferior);
}

static int
ring_wanted (const SondeRingWanted *wanted, guint *number, gpointer user_data)
{
  SondeInferiors *self = user_data;
  SondeRingOptions options
      = { .kind = wanted->kind,
          .size_bytes = wanted->size_bytes != 0 ? wanted->size_bytes : SONDE_RING_DEFAULT_BYTES,
          .wait_us = self->wait_us,
          .features = SONDE_RING_MAY_GROW };
  SondeRingRights rights = { .pid = wanted->pid };
  ProgramRing made = { .request = wanted->request,
                       .producer = wanted->producer,
                       .is_shared = wanted->is_shared,
                       .uid = wanted->uid };
  SondeInferior *inferior;
  int fd;

  /* A process of another pid namespace has no number here. */
  if (wanted->pid <= 0)
    {
      if (!wanted->is_shared)
        tell_missing (self, 1,
                      SONDE_LEDGER_MISSING "a thread of a process without a number here, in "
                                           "another pid namespace, got no ring");
      return -EPERM;
    }
  if (wanted->continues != 0)
    return larger_ring_wanted (self, wanted, number);
  if (wanted->producer == SONDE_PRODUCER_TRACER && self->tries != NULL)
    return region_wanted (self, wanted, number);
  if (!find_rights (self, wanted->producer, &made.what, &rights))
    return -EOPNOTSUPP;

  inferior = ensure_inferior (self, wanted->pid, wanted->peer);
  inferior->uid = wanted->uid;
  if (options.size_bytes < SONDE_RING_MIN_BYTES || options.size_bytes > SONDE_RING_MAX_BYTES
      || (options.size_bytes & (options.size_bytes - 1)) != 0)
    return -EINVAL;
  options.size_bytes = fit_ring (self, wanted->uid, options.size_bytes);
  if (!may_have_ring (self, wanted, options.size_bytes))
    return refuse (wanted, inferior, -EDQUOT);

  if (wanted->producer == SONDE_PRODUCER_MEMORY && wanted->kind == SONDE_RING_NATIVE
      && has_stack_memory (self, options.size_bytes))
    options.features |= SONDE_RING_COMPACT_HEAP;
  made.inferior = inferior;
  fd = make_ring (self, &made, &rights, &options);
  if (fd < 0)
    return refuse (wanted, inferior, fd);
  *number = self->n_made;
  return fd;
}

static void
ring_undelivered (const SondeRingWanted *wanted, guint number, gpointer user_data)
{
  SondeInferiors *self = user_data;

  if (wanted->producer == SONDE_PRODUCER_TRACER)
    {
      sonde_call_tries_withdraw (self->tries, ensure_inferior (self, wanted->pid, wanted->peer));
      return;
    }

  for (guint i = 0; i < self->rings->len; i++)
    if (((ProgramRing *) g_ptr_array_index (self->rings, i))->number == number)
      {
        close_ring (self, i, FALSE);
        return;
      }
}

static void
peer_gone (guint64 peer, gpointer user_data)
{
  SondeInferiors *self = user_data;

  for (guint i = 0; i < self->inferiors->len; i++)
    {
      SondeInferior *inferior = g_ptr_array_index (self->inferiors, i);

      if (inferior->peer == peer && inferior->gone_ns == 0)
        inferior->gone_ns = sonde_stream_now_ns ();
    }
  for (guint i = 0; i < self->rings->len; i++)
    {
      ProgramRing *ring = g_ptr_array_index (self->rings, i);

      if (ring->inferior->peer != peer || ring->dead_us != 0)
        continue;
      sonde_ring_reader_leave (ring->reader);
      ring->dead_us = g_get_monotonic_time ();
    }
  wake (self);
}

static void
control_closed (gpointer user_data)
{
  SondeInferiors *self = user_data;

  self->n_open--;
  self->changed (self->user_data);
}

static void
control_refused (const char *text, gpointer user_data)
{
  SondeInferiors *self = user_data;

  sonde_recorder_warn (self->parts.recorder, text);
}

/* --- life --- */

SondeInferiors *
sonde_inferiors_new (const SondeInferiorsParts *parts,
                     SondeInferiorsChanged changed,
                     gpointer user_data)
{
  static const SondeControlServerHandler handler
      = { ring_wanted, link_refused,   ring_undelivered, wake,
          peer_gone,   control_closed, control_refused };
  const SondeMessageSetup *setup = parts->setup;
  const SondeControlTerms terms = { .memory_mode = setup->asked.memory,
                                    .max_depth = setup->asked.max_depth,
                                    .memory_interval_bytes = setup->asked.memory_interval_bytes };
  /* Root's targets may be anybody's. */
  gboolean is_divided
      = setup->owner_uid == 0
        || (setup->asked.scope != SONDE_SCOPE_TARGETS && setup->asked.scope != SONDE_SCOPE_LAUNCH);
  SondeInferiors *self = g_new0 (SondeInferiors, 1);

  sonde_uid_shares_init (&self->shares, is_divided);
  self->memory = setup->asked.memory;
  self->start_ns = setup->start_ns;
  self->parts.recorder = parts->recorder;
  self->tally = parts->tally;
  self->parts.tracker = parts->tracker;
  self->parts.sampler = parts->sampler;
  self->changed = changed;
  self->user_data = user_data;
  self->inferiors = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_inferior_free);
  self->adopter = sonde_frame_adopter_new (parts->recorder, parts->tally, setup->start_ns);
  self->rings = g_ptr_array_new_with_free_func (ring_free);
  self->wait_us = setup->asked.memory_wait_us;
  if (setup->asked.memory_detail != SONDE_MEMORY_DETAIL_EVENTS)
    {
      self->heap_writer = sonde_heap_writer_new (parts->recorder, &setup->asked);
      self->parts.book = sonde_heap_writer_book (self->heap_writer);
    }
  if (setup->asked.trace != SONDE_TRIE_OFF)
    self->tries = sonde_call_tries_new (
        &(SondeCallTriesParts){ parts->recorder, parts->tally, setup->start_ns }, &setup->asked);
  sonde_ring_schedule_init (&self->schedule);
  self->turn = g_source_new (&turn_functions, sizeof (GSource));
  g_source_set_static_name (self->turn, "inferior rings");
  g_source_set_callback (self->turn, on_turn, self, NULL);
  g_source_attach (self->turn, g_main_context_get_thread_default ());
  self->server = sonde_control_server_new (&terms, is_divided, &handler, self);

  return self;
}

void
sonde_inferiors_free (SondeInferiors *self)
{
  if (self == NULL)
    return;

  sonde_control_server_free (self->server);
  g_source_destroy (self->turn);
  g_source_unref (self->turn);
  g_ptr_array_unref (self->rings);
  sonde_uid_shares_clear (&self->shares);
  sonde_frame_adopter_free (self->adopter);
  sonde_call_tries_free (self->tries);
  g_ptr_array_unref (self->inferiors);
  sonde_heap_writer_free (self->heap_writer);
  g_free (self);
}

void
sonde_inferiors_add_control (SondeInferiors *self, int fd)
{
  self->n_taken++;
  self->n_open++;
  sonde_control_server_add (self->server, fd, FALSE);
}

void
sonde_inferiors_add_program (SondeInferiors *self, int fd)
{
  sonde_control_server_add (self->server, fd, TRUE);
}

guint
sonde_inferiors_n_taken (const SondeInferiors *self)
{
  return self->n_taken;
}

guint
sonde_inferiors_n_open (const SondeInferiors *self)
{
  return self->server != NULL ? self->n_open : 0;
}

void
sonde_inferiors_pause (SondeInferiors *self, gboolean is_paused)
{
  self->is_paused = is_paused;
  for (guint i = 0; i < self->rings->len; i++)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i);

      if (ring->dead_us == 0)
        sonde_ring_reader_pause (ring->reader, is_paused);
    }
  if (self->tries != NULL)
    sonde_call_tries_pause (self->tries, is_paused);
}

/* --- turns --- */

/* Whether it is of a program that was over at that time. */
static gboolean
has_ended (const SondeInferior *inferior, int32_t pid, gint64 time_ns)
{
  return inferior->pid == pid && inferior->since_ns < time_ns && !inferior->is_settled;
}

gboolean
sonde_inferiors_take_rest (SondeInferiors *self, int32_t pid, gint64 time_ns, gboolean is_urgent)
{
  gboolean is_taken = TRUE;

  for (guint i = 0; i < self->inferiors->len; i++)
    {
      const SondeInferior *inferior = g_ptr_array_index (self->inferiors, i);

      if (has_ended (inferior, pid, time_ns))
        is_taken = end_rings (self, inferior, time_ns, is_urgent) && is_taken;
    }
  return is_taken;
}

gboolean
sonde_inferiors_foresee_end (SondeInferiors *self, int32_t pid, gint64 time_ns)
{
  gboolean is_awaited = FALSE;

  for (guint i = 0; i < self->inferiors->len; i++)
    {
      SondeInferior *inferior = g_ptr_array_index (self->inferiors, i);

      if (has_ended (inferior, pid, time_ns))
        is_awaited = sonde_inferior_is_awaited (inferior, sonde_stream_now_ns ()) || is_awaited;
    }
  return is_awaited;
}

/* An exec closes a program's own link, and the next program gets another; a socket that
 * libsysprof-capture shares with others stays, and may have rings of the next one. */
void
sonde_inferiors_process_ends (SondeInferiors *self, int32_t pid, gint64 time_ns)
{
  /* What it frees may be its parent's, which waits as long. */
  if (self->parts.book != NULL)
    {
      if (sonde_heap_book_has_process (self->parts.book, pid))
        sonde_heap_book_turn (self->parts.book, MIN (self->taken_ns, time_ns));
      sonde_heap_book_end_left (self->parts.book, pid);
    }
  for (guint i = 0; i < self->inferiors->len; i++)
    {
      SondeInferior *inferior = g_ptr_array_index (self->inferiors, i);

      if (!has_ended (inferior, pid, time_ns))
        continue;
      sonde_inferior_end_heap (inferior);
      if (self->tries != NULL)
        sonde_call_tries_end_process (self->tries, inferior, time_ns);
      if (inferior->n_rings > 0)
        {
          sonde_inferior_settle (inferior, sonde_stream_now_ns (), TRUE);
          sonde_inferior_renew (inferior, time_ns);
          continue;
        }
      settle_last (inferior);
      if (inferior->gone_ns == 0)
        inferior->gone_ns = sonde_stream_now_ns ();
    }
  if (self->parts.book != NULL)
    sonde_heap_book_end_program (self->parts.book, pid);
}

void
sonde_inferiors_forked (SondeInferiors *self, int32_t parent, int32_t child, gint64 time_ns)
{
  if (self->parts.book != NULL)
    sonde_heap_book_fork (self->parts.book, parent, child, time_ns);
}

void
sonde_inferiors_remapped (SondeInferiors *self, int32_t pid, gint64 time_ns)
{
  if (self->parts.book == NULL || !sonde_heap_book_has_process (self->parts.book, pid))
    return;
  sonde_heap_book_turn (self->parts.book, MIN (self->taken_ns, time_ns));
  sonde_heap_book_remap (self->parts.book, pid);
}

void
sonde_inferiors_records_taken (SondeInferiors *self, gint64 until_ns)
{
  gboolean is_held = self->has_recorded || self->newest_ns > self->records_ns;

  self->records_ns = until_ns;
  if (is_held && (self->has_recorded || self->newest_ns <= until_ns) && self->parts.book != NULL
      && sonde_heap_book_has_waiting (self->parts.book))
    wake (self);
}

void
sonde_inferiors_take_allocation (SondeInferiors *self, const SondeFrame *frame)
{
  self->has_recorded = TRUE;
  sonde_frame_adopter_adopt (self->adopter, ensure_inferior (self, frame->pid, NO_PEER), frame,
                             sonde_stream_now_ns ());
}

void
sonde_inferiors_reader_comes (SondeInferiors *self)
{
  if (self->parts.book != NULL)
    sonde_heap_book_restart (self->parts.book, sonde_stream_now_ns ());
  if (self->tries != NULL)
    sonde_call_tries_reader_comes (self->tries);
}

void
sonde_inferiors_settle (SondeInferiors *self)
{
  gint64 now = sonde_stream_now_ns ();

  for (guint i = self->inferiors->len; i > 0; i--)
    {
      SondeInferior *inferior = g_ptr_array_index (self->inferiors, i - 1);
      gboolean is_gone = inferior->gone_ns != 0 && now - inferior->gone_ns > GONE_NS;

      /* The kernel's records say nothing of it. */
      if (is_gone && self->tries != NULL)
        sonde_call_tries_end_process (self->tries, inferior, now);
      if (is_gone)
        settle_last (inferior);
      else if (!inferior->is_settled)
        sonde_inferior_settle (inferior, now, FALSE);
      if (inferior->is_settled && inferior->n_rings == 0)
        forget_inferior (self, i - 1);
    }
}

void
sonde_inferiors_count (SondeInferiors *self)
{
  gint64 now = sonde_stream_now_ns ();

  for (guint i = 0; i < self->rings->len; i++)
    count_ring (self, g_ptr_array_index (self->rings, i), FALSE);
  if (self->tries != NULL)
    sonde_call_tries_turn (self->tries);
  /* What came while rings were read waits: a turn looks at all of them. */
  if (self->heap_writer != NULL && sonde_heap_writer_count (self->heap_writer, now))
    wake (self);
  for (guint i = 0; i < self->inferiors->len; i++)
    {
      SondeInferior *inferior = g_ptr_array_index (self->inferiors, i);

      if (now - inferior->lacks_ns > LACKING_NS)
        tell_lacking (self, inferior);
    }
  if (self->n_logs_left_out > 0 && g_get_monotonic_time () - self->logs_since_us > G_USEC_PER_SEC)
    {
      g_autofree char *text = g_strdup_printf (
          "%u more messages about rings of programs were left out", self->n_logs_left_out);

      self->n_logs_left_out = 0;
      sonde_recorder_warn (self->parts.recorder, text);
    }
}

guint32
sonde_inferiors_n_untold (const SondeInferiors *self)
{
  return self->parts.book != NULL ? sonde_heap_book_n_untold (self->parts.book) : 0;
}

/* Who has not said that he goes on there, and now cannot. Returns whether there was one. */
static gboolean
read_all_at_once (SondeInferiors *self)
{
  gboolean is_any = FALSE;

  for (guint i = 0; i < self->rings->len; i++)
    {
      ProgramRing *ring = g_ptr_array_index (self->rings, i);

      if (ring->before == NULL)
        continue;
      ring->before->next = NULL;
      ring->before = NULL;
      is_any = TRUE;
    }
  return is_any;
}

gboolean
sonde_inferiors_drain (SondeInferiors *self, gboolean is_urgent)
{
  gboolean is_empty;

  self->is_ending = TRUE;
  g_source_set_ready_time (self->turn, -1);
  /* Before its link is closed: who waits for room shall not count that as a loss. One that was left
   * stays so, or its program would never give it back. */
  for (guint i = 0; i < self->rings->len && self->server != NULL; i++)
    {
      const ProgramRing *ring = g_ptr_array_index (self->rings, i);

      if (ring->dead_us == 0)
        sonde_ring_reader_pause (ring->reader, TRUE);
    }
  if (self->tries != NULL && self->server != NULL)
    sonde_call_tries_pause (self->tries, TRUE);
  g_clear_pointer (&self->server, sonde_control_server_free);
  is_empty = !run_turn (self, is_urgent) && !read_all_at_once (self);
  sonde_recorder_flush (self->parts.recorder);

  return is_empty;
}

void
sonde_inferiors_let_go (SondeInferiors *self)
{
  for (guint i = 0; i < self->rings->len; i++)
    sonde_ring_reader_leave (((const ProgramRing *) g_ptr_array_index (self->rings, i))->reader);
}

void
sonde_inferiors_end (SondeInferiors *self)
{
  g_source_set_ready_time (self->turn, -1);
  while (self->rings->len > 0)
    {
      guint last = self->rings->len - 1;
      ProgramRing *ring = g_ptr_array_index (self->rings, last);

      count_ring (self, ring, TRUE);
      /* Its program gives it back, and is as it was before the session. */
      sonde_ring_reader_leave (ring->reader);
      ring->dead_us = g_get_monotonic_time ();
      close_ring (self, last, FALSE);
    }
  if (self->tries != NULL)
    sonde_call_tries_end (self->tries);
  for (guint i = 0; i < self->inferiors->len; i++)
    {
      tell_lacking (self, g_ptr_array_index (self->inferiors, i));
      settle_last (g_ptr_array_index (self->inferiors, i));
    }
  if (self->heap_writer != NULL)
    sonde_heap_writer_end (self->heap_writer);
  if (self->n_missing_left_out > 0)
    {
      g_autofree char *text = g_strdup_printf (
          SONDE_LEDGER_MISSING "%u threads got no ring that %u more messages would have told of",
          self->n_threads_left_out, self->n_missing_left_out);

      self->n_missing_left_out = 0;
      sonde_recorder_warn (self->parts.recorder, text);
    }
}
