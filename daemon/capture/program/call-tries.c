/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/call-tries.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/capture/calls/call-budget.h"
#include "daemon/capture/calls/call-paths.h"
#include "daemon/capture/calls/calls-file.h"
#include "daemon/capture/program/slow-calls.h"
#include "protocol/calls.h"
#include "shared-ring/ring-atomic.h"
#include "shared-ring/trie-reader.h"

/* Of a region: what is less is of no use, and what is more costs the worker four times as much. */
#define MIN_REGION_BYTES (256u * 1024)
#define MAX_REGION_BYTES (16u * 1024 * 1024)

/* Nodes that are looked at before it is asked how long that took, and how long a turn may. */
#define NODES_A_LOOK 4096
#define BUDGET_US    5000

/* Between two files of a process: soon at first, and, unless somebody looks on, ever less often. */
#define FIRST_WAIT_NS G_GINT64_CONSTANT (1000000000)
#define LAST_WAIT_NS  (60 * FIRST_WAIT_NS)
/* Between two sums so far for those who missed frames: these are much to tell. */
#define RESTART_NS  (10 * FIRST_WAIT_NS)

#define CLOCK_TRIES 5
/* Since the first look at both clocks, so that the ticks of a second are known. */
#define CLOCK_LEAST_NS 1000000

/* A path whose calls take longer has each timed, until they take less. */
#define TIMED_FROM_NS  2000
#define TIMED_UNTIL_NS 1540

/* What a pair of hooks takes where none was timed. */
#define USUAL_HOOKS_NS 8

/* Slow calls of a process are not more frequent than this, whatever it says of lost ones. */
#define MIN_SLOW_NS 4

/* Hooks may take so much of the budget after functions were left out: else the next is soon due. */
#define BUDGET_AIM 0.8

enum
{
  COUNTER_CALLS,
  COUNTER_HOOKS,
  N_COUNTERS,
};

typedef struct
{
  guint64 function;
  gint64 since_ns;
  guint64 calls;
} LeftOut;

typedef struct
{
  SondeInferior *inferior;
  SondeTrieMemory memory;
  SondeTrieReader *reader;
  gint64 begin_ns;
  const char *refused; /* why nothing is read any more; NULL: it is */
  gboolean has_died;   /* its process has */
  gboolean is_passing; /* the last turn had no time for all */

  SondeCallPaths *paths;
  SondeSlowCalls *slow_calls; /* NULL: none is told */
  guint64 lost_slow;          /* that are counted as lost */
  guint64 replaced_slow;      /* of these, behind which others came too soon */
  SondeCallsFile *file;
  guint32 n_files;
  guint32 n_told; /* paths, in this file and those before */
  gint64 file_ns; /* up to when files are */
  gint64 next_ns; /* when the next one is due */
  gint64 wait_ns;
  gboolean is_whole_due;     /* it has the sum so far */
  guint64 written_calls;     /* of the account in the last file */
  guint32 written_functions; /* of what it told of sleds */
  guint32 written_refused;

  SondeCallBudget *budget; /* NULL: any */
  GArray *left_out;        /* LeftOut */
  gboolean is_budget_told; /* that no more can be left out */

  gint64 counted_ns; /* when the counters were set */
  guint64 counted_calls;
  guint32 counters[N_COUNTERS]; /* 0: there is no room for them */
  guint64 wish_per_s;           /* ticks, by which its wish has its thresholds ... */
  gboolean is_clock_settled;    /* ... for good */
} Region;

struct SondeCallTries
{
  SondeCallTriesParts parts;
  const SondeAsked *asked;
  gsize used_bytes;
  GPtrArray *regions; /* Region */
  guint first;        /* of the next turn */
  gboolean is_paused;
  guint64 n_missed;   /* frames, by readers, when all was told anew for that ... */
  gint64 told_ns;     /* ... and when that was */
  guint64 past_calls; /* of regions that are over */
  guint64 past_lost;

  gint64 clock_ns; /* one moment by both clocks, and the newest that was looked at */
  guint64 clock_ticks;
  gint64 now_ns;
  guint64 now_ticks;
};

/* --- the clock --- */

static guint64
read_counter (void)
{
#if defined(__x86_64__)
  return __rdtsc ();
#elif defined(__aarch64__)
  guint64 ticks;

  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

/* The same moment by both clocks, as of the try that was disturbed least. */
static void
read_clocks (gint64 *ns, guint64 *ticks)
{
  guint64 least = G_MAXUINT64;

  for (guint i = 0; i < CLOCK_TRIES; i++)
    {
      guint64 before = read_counter ();
      gint64 now = sonde_stream_now_ns ();
      guint64 after = read_counter ();

      if (after - before >= least)
        continue;
      least = after - before;
      *ns = now;
      *ticks = before + (after - before) / 2;
    }
}

/* Of the region's clock, as its process says: a machine has one counter, which all read alike. In
 * the session's first moment it waits until that can be known: what a program does at once is
 * judged by it. 0: not known, for a clock that stands still */
static guint64
ticks_per_s (SondeCallTries *self, const Region *region)
{
  if (region->memory.header == NULL
      || sonde_ring_load_relaxed (&region->memory.header->clock) == SONDE_TRIE_NANOSECONDS)
    return 1000000000;
  while (sonde_stream_now_ns () - self->clock_ns < CLOCK_LEAST_NS)
    g_poll (NULL, 0, 1);
  read_clocks (&self->now_ns, &self->now_ticks);
  if (self->now_ns <= self->clock_ns || self->now_ticks <= self->clock_ticks)
    return 0;
  return (guint64) ((double) (self->now_ticks - self->clock_ticks) * 1e9
                    / (double) (self->now_ns - self->clock_ns));
}

/* --- files --- */

static void
send_file (SondeCallTries *self, Region *region, gint64 begin_ns, gint64 end_ns)
{
  const SondeCallsHead head = { .ticks_per_s = ticks_per_s (self, region),
                                .mode = (SondeTrieMode) self->asked->trace,
                                .sample_every = SONDE_TRIE_USUAL_WISH.sample_every,
                                .begin_ns = begin_ns,
                                .end_ns = end_ns };
  g_autoptr (GBytes) content = sonde_calls_file_end (region->file, &head);
  g_autofree char *path
      = g_strdup_printf (SONDE_CALLS_FOLDER "%d-%" G_GINT64_FORMAT "/%u", region->inferior->pid,
                         region->begin_ns - self->parts.start_ns, ++region->n_files);

  sonde_recorder_file (self->parts.recorder, path, content);
}

/* Whether the program has said something since the last file, beside its paths. */
static gboolean
has_news (const Region *region, const SondeTrieCounts *counts)
{
  return counts->calls != region->written_calls || counts->n_functions != region->written_functions
         || counts->n_refused != region->written_refused;
}

/* What it could not have call hooks. */
static void
put_told (SondeCallTries *self, Region *region, const SondeTrieCounts *counts)
{
  if (counts->n_functions == 0 && counts->n_refused == 0)
    return;
  sonde_calls_file_put_told (region->file, counts->n_functions, counts->n_patched,
                             counts->n_refused, counts->reason);
  if (counts->n_refused > 0 && region->written_refused == 0)
    {
      g_autofree char *text = g_strdup_printf (
          SONDE_LEDGER_MISSING "%u of %u functions of process %d call hooks, %u places could not "
                               "be changed (%s): calls of the others are not counted",
          counts->n_patched, counts->n_functions, region->inferior->pid, counts->n_refused,
          sonde_calls_reason_to_string (counts->reason));

      sonde_recorder_warn (self->parts.recorder, text);
    }
  region->written_functions = counts->n_functions;
  region->written_refused = counts->n_refused;
}

/* With what is the same in each. */
static void
end_file (SondeCallTries *self, Region *region, gint64 begin_ns, gint64 end_ns)
{
  SondeTrieCounts counts;

  end_ns = MAX (end_ns, region->file_ns);
  if (sonde_trie_reader_count (region->reader, &counts) == 0)
    {
      sonde_calls_file_put_account (region->file, &counts, sonde_call_paths_n (region->paths));
      region->written_calls = counts.calls;
      put_told (self, region, &counts);
    }
  send_file (self, region, begin_ns, end_ns);
  region->file_ns = end_ns;
}

static void
put_change (Region *region,
            guint32 path,
            const SondeTrieChange *change,
            const SondeTrieTimes *times)
{
  for (; region->n_told < sonde_call_paths_n (region->paths); region->n_told++)
    {
      const SondeCallPath *told = sonde_call_paths_at (region->paths, region->n_told + 1);

      sonde_calls_file_put_path (region->file, region->n_told + 1, told->parent, told->function);
    }
  if (change->calls > 0)
    sonde_calls_file_put_calls (region->file, path, change->calls);
  if (change->is_timed)
    sonde_calls_file_put_times (region->file, path, times);
}

/* Where its threads were that did not end. */
static void
put_words (Region *region)
{
  g_autofree guint32 *nodes = g_new (guint32, SONDE_TRIE_MAX_DEPTH);
  SondeTrieCounts counts;

  if (sonde_trie_reader_count (region->reader, &counts) < 0)
    return;
  for (guint32 slot = 0; slot < counts.n_slots; slot++)
    {
      gint32 tid = 0;
      gsize n
          = sonde_trie_reader_last_words (region->reader, slot, nodes, SONDE_TRIE_MAX_DEPTH, &tid);

      for (gsize i = 0; i < n; i++)
        {
          guint32 path = sonde_call_paths_of_node (region->paths, nodes[i]);

          /* A root is nowhere. */
          if (path == 0 || sonde_call_paths_at (region->paths, path)->parent == 0)
            continue;
          sonde_calls_file_put_words (region->file, tid, path);
          break;
        }
    }
}

typedef struct
{
  SondeCallTries *self;
  Region *region;
  gint64 begin_ns; /* of the file */
  gint64 end_ns;
} Writing;

/* How it ended, if it has. */
static void
put_end (Region *region)
{
  if (region->refused != NULL)
    sonde_calls_file_put_refused (region->file, region->refused);
  else if (region->has_died)
    put_words (region);
}

/* The files of a sum so far: the first begins where the region did, the next go on behind it. */
static void
write_known (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  Writing *writing = user_data;
  Region *region = writing->region;

  put_change (region, sonde_call_paths_take (region->paths, change), change, times);
  if (sonde_calls_file_size (region->file) < SONDE_CALLS_FILE_FULL)
    return;
  end_file (writing->self, region, writing->begin_ns, writing->end_ns);
  writing->begin_ns = region->file_ns;
}

/* In place of what was to be told, which is in it. */
static void
write_whole (SondeCallTries *self, Region *region, gint64 end_ns)
{
  Writing writing = { self, region, region->begin_ns, MAX (end_ns, region->file_ns) };

  sonde_calls_file_clear (region->file);
  region->n_told = 0;
  for (guint i = 0; i < region->left_out->len; i++)
    {
      const LeftOut *left = &g_array_index (region->left_out, LeftOut, i);

      sonde_calls_file_put_uncounted (region->file, left->function, left->since_ns, left->calls);
    }
  sonde_trie_reader_tell_all (region->reader, write_known, &writing);
  put_end (region);
  end_file (self, region, writing.begin_ns, writing.end_ns);
}

/* What there is to be told, or, if that is due, the sum so far. */
static void
write_files (SondeCallTries *self, Region *region, gint64 end_ns)
{
  SondeTrieCounts counts;

  if (region->is_whole_due && region->n_files > 0)
    write_whole (self, region, end_ns);
  else
    {
      put_end (region);
      if (sonde_calls_file_size (region->file) > 0
          || (sonde_trie_reader_count (region->reader, &counts) == 0 && has_news (region, &counts)))
        end_file (self, region, region->file_ns, end_ns);
    }
  region->is_whole_due = FALSE;
}

/* --- regions --- */

static void
region_free (gpointer data)
{
  Region *region = data;

  sonde_trie_reader_free (region->reader);
  sonde_trie_memory_unmap (&region->memory);
  sonde_slow_calls_free (region->slow_calls);
  sonde_call_paths_free (region->paths);
  sonde_calls_file_free (region->file);
  sonde_call_budget_free (region->budget);
  if (region->left_out != NULL)
    g_array_unref (region->left_out);
  g_free (region);
}

static guint64
to_ticks (guint64 ns, guint64 per_s)
{
  return (guint64) ((double) ns * (double) per_s / 1e9);
}

/* Before its process has said which clock it has it is taken for the counter. */
static void
write_wish (SondeCallTries *self, Region *region, gboolean is_on)
{
  guint64 left_out[SONDE_TRIE_MAX_LEFT_OUT];
  guint64 per_s = ticks_per_s (self, region);
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;

  wish.mode
      = is_on && region->refused == NULL ? (SondeTrieMode) self->asked->trace : SONDE_TRIE_OFF;
  wish.max_depth = self->asked->trace_depth;
  wish.filter = self->asked->trace_filter;
  for (guint i = 0; i < region->left_out->len; i++)
    left_out[i] = g_array_index (region->left_out, LeftOut, i).function;
  wish.left_out = left_out;
  wish.n_left_out = region->left_out->len;
  if (per_s > 0)
    {
      wish.timed_from_ticks = to_ticks (TIMED_FROM_NS, per_s);
      wish.timed_until_ticks = to_ticks (TIMED_UNTIL_NS, per_s);
      wish.slow_ticks = to_ticks (1000 * self->asked->trace_slow_us, per_s);
    }
  region->wish_per_s = per_s;
  sonde_trie_memory_wish (&region->memory, &wish);
}

/* What of the session's memory a process gets: a part of what is left. 0: there is too little */
static gsize
fit (const SondeCallTries *self)
{
  gsize left_bytes = self->asked->trace_memory_bytes - self->used_bytes;
  gsize size_bytes = MAX_REGION_BYTES;

  while (size_bytes > MIN_REGION_BYTES && size_bytes > left_bytes / SONDE_CALL_TRIES_PART)
    size_bytes /= 2;
  return size_bytes <= left_bytes && self->regions->len < SONDE_CALL_TRIES_MAX ? size_bytes : 0;
}

static Region *
find_region (const SondeCallTries *self, const SondeInferior *inferior)
{
  for (guint i = 0; i < self->regions->len; i++)
    {
      Region *region = g_ptr_array_index (self->regions, i);

      if (region->inferior == inferior)
        return region;
    }
  return NULL;
}

static void
define_counters (SondeCallTries *self, Region *region)
{
  SondeCounter counters[N_COUNTERS] = {
    [COUNTER_CALLS] = { .category = "Calls",
                        .name = "Calls",
                        .description = "calls of traced functions, a second",
                        .type = SONDE_COUNTER_DOUBLE },
    [COUNTER_HOOKS] = { .category = "Calls",
                        .name = "Hooks",
                        .description = "time in hooks of functions, % of a processor",
                        .type = SONDE_COUNTER_DOUBLE },
  };

  if (!sonde_recorder_define_counters (self->parts.recorder, region->inferior->pid, counters,
                                       N_COUNTERS, region->begin_ns))
    return;
  for (guint i = 0; i < N_COUNTERS; i++)
    region->counters[i] = counters[i].id;
}

static Region *
region_new (SondeInferior *inferior)
{
  Region *region = g_new0 (Region, 1);

  region->inferior = inferior;
  region->begin_ns = region->file_ns = region->counted_ns = sonde_stream_now_ns ();
  region->wait_ns = FIRST_WAIT_NS;
  region->next_ns = region->begin_ns + region->wait_ns;
  region->paths = sonde_call_paths_new ();
  region->file = sonde_calls_file_new ();
  region->left_out = g_array_new (FALSE, FALSE, sizeof (LeftOut));
  return region;
}

/* A process without a region has a file, too, which says so. */
static void
tell_refused (SondeCallTries *self, SondeInferior *inferior, int error)
{
  const char *why = error == -EDQUOT ? "the session has no more memory for calls (trace-memory)"
                                     : g_strerror (-error);
  Region *region = region_new (inferior);
  g_autofree char *text
      = g_strdup_printf (SONDE_LEDGER_MISSING "process %d got no memory for its calls (%s): they "
                                              "are not counted",
                         inferior->pid, why);

  sonde_calls_file_put_refused (region->file, why);
  send_file (self, region, region->begin_ns, region->begin_ns);
  region_free (region);
  sonde_tally_add (self->parts.tally, SONDE_STATISTIC_TRACES_REFUSED, 1);
  sonde_recorder_warn (self->parts.recorder, text);
}

int
sonde_call_tries_add (SondeCallTries *self, SondeInferior *inferior)
{
  const SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  sonde_autofd int fd = -1;
  Region *region;
  gsize bytes = fit (self);
  int r;

  if (find_region (self, inferior) != NULL)
    return -EALREADY;
  region = region_new (inferior);
  r = bytes > 0 ? sonde_trie_memory_create (bytes, &wish, &region->memory, &fd) : -EDQUOT;
  if (r == 0)
    r = sonde_trie_reader_new (&region->memory, &region->reader);
  if (r < 0)
    {
      region_free (region);
      tell_refused (self, inferior, r);
      return r;
    }
  if (self->asked->trace_budget > 0)
    region->budget = sonde_call_budget_new ();
  write_wish (self, region, !self->is_paused);
  if (self->asked->trace_slow_us > 0)
    region->slow_calls = sonde_slow_calls_new (inferior, region->paths);
  define_counters (self, region);
  g_ptr_array_add (self->regions, region);
  self->used_bytes += region->memory.geometry.size_bytes;
  inferior->n_rings++;
  return sonde_steal_fd (&fd);
}

static void
close_region (SondeCallTries *self, Region *region)
{
  region->inferior->n_rings--;
  self->used_bytes -= region->memory.geometry.size_bytes;
  g_ptr_array_remove (self->regions, region);
}

void
sonde_call_tries_withdraw (SondeCallTries *self, const SondeInferior *inferior)
{
  Region *region = find_region (self, inferior);

  if (region != NULL)
    close_region (self, region);
}

/* --- what is in them --- */

static void
take_change (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  const Writing *writing = user_data;
  Region *region = writing->region;
  guint32 n_paths = sonde_call_paths_n (region->paths);
  guint32 path = sonde_call_paths_take (region->paths, change);

  if (path > n_paths && change->parent != 0)
    sonde_inferior_note_address (region->inferior, change->function, FALSE);
  if (region->budget != NULL && change->parent != 0)
    sonde_call_budget_add (region->budget, change->function, change->calls,
                           change->is_timed ? times : NULL);
  put_change (region, path, change, times);
  if (sonde_calls_file_size (region->file) < SONDE_CALLS_FILE_FULL)
    return;
  if (region->is_whole_due)
    sonde_calls_file_clear (region->file);
  else
    end_file (writing->self, region, region->file_ns, writing->end_ns);
}

/* Nothing more of it is read. */
static void
fail_region (SondeCallTries *self, Region *region)
{
  const char *why = sonde_trie_fault_to_string (sonde_trie_reader_fault (region->reader));
  g_autofree char *text = g_strdup_printf (
      SONDE_LEDGER_MISSING "calls of process %d are not counted any more: what it says of them "
                           "cannot be (%s)",
      region->inferior->pid, why);

  region->refused = why;
  write_wish (self, region, FALSE);
  write_files (self, region, sonde_stream_now_ns ());
  sonde_tally_add (self->parts.tally, SONDE_STATISTIC_TRACES_REFUSED, 1);
  sonde_recorder_warn (self->parts.recorder, text);
}

/* Goes on where it stopped. @until_us: by the monotonic clock. FALSE: there was no time for all */
static gboolean
read_region (SondeCallTries *self, Region *region, gint64 until_us)
{
  Writing writing = { .self = self, .region = region, .end_ns = sonde_stream_now_ns () };
  int r = 1;

  while (r == 1)
    {
      r = sonde_trie_reader_turn (region->reader, NODES_A_LOOK, take_change, &writing);
      if (r == 1 && g_get_monotonic_time () >= until_us)
        {
          region->is_passing = TRUE;
          return FALSE;
        }
    }
  region->is_passing = FALSE;
  if (r < 0)
    fail_region (self, region);
  return TRUE;
}

/* --- slow calls --- */

typedef struct
{
  SondeCallTries *self;
  Region *region;
  guint64 per_s; /* ticks */
  guint64 n_left_out;
} Slowness;

/* Neither begins before its process was traced nor ends later than now. */
static void
take_slow_call (const SondeTrieSlowCall *call, void *user_data)
{
  Slowness *slowness = user_data;
  SondeCallTries *self = slowness->self;
  Region *region = slowness->region;
  gint64 now = sonde_stream_now_ns ();
  gboolean is_ns
      = sonde_ring_load_relaxed (&region->memory.header->clock) == SONDE_TRIE_NANOSECONDS;
  double at = is_ns ? (double) call->start_ticks
                    : (double) self->now_ns
                          + ((double) call->start_ticks - (double) self->now_ticks) * 1e9
                                / (double) slowness->per_s;
  SondeSlowCall slow = { .path = sonde_call_paths_of_node (region->paths, call->node) };

  slow.begin_ns = (gint64) CLAMP (at, (double) region->begin_ns, (double) now);
  slow.begin_ns = CLAMP (slow.begin_ns, region->begin_ns, now);
  slow.duration_ns = (gint64) MIN ((double) call->ticks * 1e9 / (double) slowness->per_s,
                                   (double) (now - slow.begin_ns));
  slowness->n_left_out += slow.path == 0 || !sonde_slow_calls_add (region->slow_calls, &slow);
}

/* There was no time for more of them in the region's life than this. */
static void
count_lost_slow (SondeCallTries *self, Region *region, guint64 lost)
{
  guint64 possible = (guint64) (sonde_stream_now_ns () - region->begin_ns) / MIN_SLOW_NS;

  lost = MIN (lost, possible);
  if (lost <= region->lost_slow)
    return;
  sonde_tally_event (self->parts.tally, SONDE_LEDGER_EVENTS_LOST_RING, lost - region->lost_slow);
  region->lost_slow = lost;
}

/* A call's path may have come with it. FALSE: there was no time for all */
static gboolean
tell_slow_calls (SondeCallTries *self, Region *region, gint64 until_us)
{
  Slowness slowness = { .self = self, .region = region, .per_s = ticks_per_s (self, region) };
  SondeTrieCounts counts;

  if (region->slow_calls == NULL || region->refused != NULL || slowness.per_s == 0
      || !sonde_trie_reader_has_slow_calls (region->reader))
    return TRUE;
  if (!read_region (self, region, until_us) || region->refused != NULL)
    return region->refused != NULL;
  region->replaced_slow
      += sonde_trie_reader_take_slow_calls (region->reader, take_slow_call, &slowness);
  region->replaced_slow += slowness.n_left_out;
  if (sonde_trie_reader_count (region->reader, &counts) == 0)
    count_lost_slow (self, region, region->replaced_slow + counts.lost_slow);
  sonde_slow_calls_tell (region->slow_calls);
  return TRUE;
}

/* --- what hooks cost --- */

/* Of the hooks of a call, both of them. */
static double
hooks_ticks (const SondeTrieCounts *counts, guint64 per_s)
{
  if (counts->n_hooks == 0)
    return (double) to_ticks (USUAL_HOOKS_NS, per_s);
  return 2 * (double) counts->hook_ticks / (double) counts->n_hooks;
}

/* The functions that were called most since the last look, so many that the rest is affordable. */
static void
leave_out (SondeCallTries *self, Region *region, guint64 calls, double each_ticks)
{
  SondeCallLeftOut chosen[SONDE_TRIE_MAX_LEFT_OUT];
  guint room = SONDE_TRIE_MAX_LEFT_OUT - region->left_out->len;
  guint n = sonde_call_budget_choose (region->budget, calls, MAX (each_ticks, 1), chosen, room);
  gint64 now = sonde_stream_now_ns ();

  for (guint i = 0; i < n; i++)
    {
      const LeftOut left = { chosen[i].function, now, chosen[i].calls };

      sonde_trie_memory_leave_out (&region->memory, region->left_out->len, left.function);
      g_array_append_val (region->left_out, left);
      sonde_calls_file_put_uncounted (region->file, left.function, left.since_ns, left.calls);
    }
  if (room == n && !region->is_budget_told)
    {
      g_autofree char *text = g_strdup_printf (
          "Hooks of process %d may take more than trace-budget allows: no more than %u of its "
          "functions can be left out",
          region->inferior->pid, SONDE_TRIE_MAX_LEFT_OUT);

      region->is_budget_told = TRUE;
      sonde_recorder_warn (self->parts.recorder, text);
    }
}

/* A fiftieth more or less: of thresholds that is nothing. */
static gboolean
is_about (guint64 a, guint64 b)
{
  return MAX (a, b) - MIN (a, b) <= MAX (a, b) / 50;
}

/* About once a second. */
static void
count_region (SondeCallTries *self, Region *region, gint64 now_ns, gint64 until_us)
{
  guint64 per_s = ticks_per_s (self, region);
  gint64 elapsed_ns = now_ns - region->counted_ns;
  SondeCounterValue values[N_COUNTERS];
  SondeTrieCounts counts;
  double each_ticks, percent, budget;
  guint64 calls;

  if (elapsed_ns <= 0 || per_s == 0)
    return;
  if (sonde_trie_reader_count (region->reader, &counts) < 0)
    {
      fail_region (self, region);
      return;
    }
  /* It has said by now which clock it has. Another wish voids all stacks: not for a trifle. */
  if (!region->is_clock_settled && !is_about (region->wish_per_s, per_s))
    write_wish (self, region, !self->is_paused);
  region->is_clock_settled = TRUE;
  calls = counts.calls - region->counted_calls;
  each_ticks = hooks_ticks (&counts, per_s);
  percent = 100 * (double) calls * each_ticks / ((double) elapsed_ns * (double) per_s / 1e9);
  region->counted_ns = now_ns;
  region->counted_calls = counts.calls;
  values[COUNTER_CALLS].vdbl = (double) calls * 1e9 / (double) elapsed_ns;
  values[COUNTER_HOOKS].vdbl = percent;
  if (region->counters[0] != 0)
    sonde_recorder_set_counters (self->parts.recorder, region->inferior->pid, region->counters,
                                 values, N_COUNTERS, now_ns);

  budget = self->asked->trace_budget / 100.0;
  if (region->budget == NULL)
    return;
  if (percent > budget && read_region (self, region, until_us) && region->refused == NULL)
    leave_out (self, region, (guint64) ((double) calls * (1 - BUDGET_AIM * budget / percent)),
               each_ticks);
  else if (percent <= budget)
    sonde_call_budget_pass (region->budget);
}

/* What all processes have called, and lost, as they say. */
static void
count_all (SondeCallTries *self)
{
  guint64 calls = self->past_calls;
  guint64 lost = self->past_lost;

  for (guint i = 0; i < self->regions->len; i++)
    {
      const Region *region = g_ptr_array_index (self->regions, i);
      SondeTrieCounts counts;

      if (sonde_trie_reader_count (region->reader, &counts) < 0)
        continue;
      calls += counts.calls;
      lost
          += counts.lost_budget + counts.lost_depth + counts.lost_interrupted + counts.lost_threads;
    }
  self->parts.tally->values[SONDE_STATISTIC_CALLS] = calls;
  self->parts.tally->values[SONDE_STATISTIC_CALLS_LOST] = lost;
  self->parts.tally->values[SONDE_STATISTIC_TRACED_PROCESSES] = self->regions->len;
}

/* --- turns --- */

void
sonde_call_tries_reader_comes (SondeCallTries *self)
{
  for (guint i = 0; i < self->regions->len; i++)
    {
      Region *region = g_ptr_array_index (self->regions, i);

      region->is_whole_due = TRUE;
      region->next_ns = 0;
    }
}

/* Whether its file is due; else only what hooks cost is looked at. */
static gboolean
is_due (const Region *region, gint64 now_ns)
{
  return region->is_passing || now_ns >= region->next_ns;
}

void
sonde_call_tries_turn (SondeCallTries *self)
{
  gint64 now_ns = sonde_stream_now_ns ();
  gint64 until_us = g_get_monotonic_time () + BUDGET_US;
  guint64 n_missed = sonde_recorder_n_missed (self->parts.recorder);
  gint64 last_wait_ns
      = sonde_recorder_is_watched (self->parts.recorder) ? FIRST_WAIT_NS : LAST_WAIT_NS;
  guint n = self->regions->len;
  guint next = 0;

  if (n_missed != self->n_missed && now_ns - self->told_ns >= RESTART_NS)
    {
      self->n_missed = n_missed;
      self->told_ns = now_ns;
      sonde_call_tries_reader_comes (self);
    }
  for (guint i = 0; i < n; i++)
    {
      Region *region = g_ptr_array_index (self->regions, (self->first + i) % n);
      gboolean is_read, is_file_due;

      if (region->refused != NULL)
        {
          if (region->is_whole_due)
            write_files (self, region, now_ns);
          continue;
        }
      count_region (self, region, now_ns, until_us);
      if (region->refused != NULL)
        continue;
      is_read = tell_slow_calls (self, region, until_us);
      is_file_due = region->refused == NULL && is_due (region, now_ns);
      if (is_read && is_file_due)
        is_read = read_region (self, region, until_us);
      if (!is_read)
        {
          next = (self->first + i) % n;
          break;
        }
      if (!is_file_due)
        continue;
      if (region->refused == NULL)
        write_files (self, region, sonde_stream_now_ns ());
      region->wait_ns = MIN (2 * region->wait_ns, last_wait_ns);
      region->next_ns = now_ns + region->wait_ns;
    }
  self->first = next;
  count_all (self);
}

void
sonde_call_tries_pause (SondeCallTries *self, gboolean is_paused)
{
  self->is_paused = is_paused;
  for (guint i = 0; i < self->regions->len; i++)
    write_wish (self, g_ptr_array_index (self->regions, i), !is_paused);
}

/* --- ends --- */

/* Two passes: the first may have begun before the last call. @end_ns: behind it its mappings are
 * others. */
static void
end_region (SondeCallTries *self, Region *region, gboolean has_died, gint64 end_ns)
{
  SondeTrieCounts counts;

  write_wish (self, region, FALSE);
  for (guint i = 0; i < 2 && region->refused == NULL; i++)
    read_region (self, region, G_MAXINT64);
  tell_slow_calls (self, region, G_MAXINT64);
  if (region->refused == NULL)
    {
      region->has_died = has_died;
      write_files (self, region, end_ns);
    }
  if (sonde_trie_reader_count (region->reader, &counts) == 0)
    {
      self->past_calls += counts.calls;
      /* Where a filter was there is none of a kind that was wanted, which is no surprise. */
      if (region->refused == NULL && counts.calls == 0 && counts.lost_threads == 0
          && counts.n_functions == 0 && self->asked->trace_filter[0] == '\0')
        sonde_tally_add (self->parts.tally, SONDE_STATISTIC_TRACES_EMPTY, 1);
      self->past_lost
          += counts.lost_budget + counts.lost_depth + counts.lost_interrupted + counts.lost_threads;
    }
  close_region (self, region);
  count_all (self);
}

void
sonde_call_tries_end_process (SondeCallTries *self, const SondeInferior *inferior, gint64 time_ns)
{
  Region *region = find_region (self, inferior);

  if (region != NULL && region->begin_ns < time_ns)
    end_region (self, region, TRUE, time_ns - 1);
}

void
sonde_call_tries_end (SondeCallTries *self)
{
  while (self->regions->len > 0)
    end_region (self, g_ptr_array_index (self->regions, 0), FALSE, sonde_stream_now_ns ());
}

/* --- life --- */

SondeCallTries *
sonde_call_tries_new (const SondeCallTriesParts *parts, const SondeAsked *asked)
{
  SondeCallTries *self = g_new0 (SondeCallTries, 1);

  self->parts = *parts;
  self->asked = asked;
  self->regions = g_ptr_array_new_with_free_func (region_free);
  read_clocks (&self->clock_ns, &self->clock_ticks);
  return self;
}

void
sonde_call_tries_free (SondeCallTries *self)
{
  if (self == NULL)
    return;
  while (self->regions->len > 0)
    close_region (self, g_ptr_array_index (self->regions, 0));
  g_ptr_array_unref (self->regions);
  g_free (self);
}
