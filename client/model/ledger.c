/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/ledger.h"

#include <string.h>

#include "client/base/text.h"
#include "client/model/calls-reader.h"
#include "client/model/frame-parts.h"
#include "client/model/heap-log-reader.h"
#include "client/model/heap-sums-reader.h"
#include "client/model/waits-reader.h"

/* --- its counters --- */

void
sonde_ledger_counters_init (SondeLedgerCounters *self)
{
  *self = (SondeLedgerCounters){ .entries = sonde_id_map_new () };
}

void
sonde_ledger_counters_copy (SondeLedgerCounters *self, const SondeLedgerCounters *source)
{
  *self = *source;
  self->entries = sonde_id_map_dup (source->entries);
}

void
sonde_ledger_counters_clear (SondeLedgerCounters *self)
{
  g_clear_pointer (&self->entries, sonde_id_map_free);
}

void
sonde_ledger_counters_define (SondeLedgerCounters *self, const SondeFrameCounterDefine *frame)
{
  for (guint i = 0; i < frame->n_counters; i++)
    {
      const SondeCounterDefinition *counter = &frame->counters[i];

      if (!g_str_equal (counter->category, SONDE_LEDGER_CATEGORY)
          || sonde_counter_type (counter->id_type) != SONDE_COUNTER_INT64)
        continue;
      for (guint32 entry = 0; entry < SONDE_N_LEDGER; entry++)
        if (g_str_equal (counter->name, sonde_ledger_name (entry)))
          {
            sonde_id_map_set (self->entries, sonde_counter_id (counter->id_type), entry);
            self->defined |= 1u << entry;
          }
    }
}

guint
sonde_ledger_counters_set (SondeLedgerCounters *self, const SondeFrameCounterSet *frame)
{
  SondeFrameValue set = { 0 };
  guint found = 0;
  guint32 entry;

  while (sonde_frame_next_value (frame, &set))
    if (sonde_id_map_lookup (self->entries, set.id, &entry))
      {
        self->values[entry] = set.value.v64;
        found |= 1u << entry;
      }
  self->set |= found;
  return found;
}

void
sonde_ledger_counters_adjust (const SondeLedgerCounters *self,
                              SondeFrameCounterSet *frame,
                              SondeLedger entry,
                              gint64 difference)
{
  SondeFrameValue set = { 0 };
  guint32 found;

  while (sonde_frame_next_value (frame, &set))
    if (sonde_id_map_lookup (self->entries, set.id, &found) && found == entry)
      {
        guint slot = set.n_slots - 1;
        SondeCounterGroup *group = &frame->groups[slot / SONDE_COUNTERS_PER_GROUP];

        /* any value may stand there: wrap */
        group->values[slot % SONDE_COUNTERS_PER_GROUP].v64
            = (gint64) ((guint64) set.value.v64 + (guint64) difference);
      }
}

/* --- whether they are true --- */

/* What a pid has shown so far. */
enum
{
  SEEN_PROCESS = 1 << 0,
  SEEN_MAP = 1 << 1,
  SEEN_SAMPLE = 1 << 2,
};

struct SondeLedgerCheck
{
  SondeLedgerCounters counters;
  guint64 n_frames;
  guint64 n_samples;
  guint64 n_events;
  SondeHeapLogReader *heap_log;
  SondeHeapSumsReader *heap_sums;
  SondeCallsReader *calls;
  SondeWaitsReader *waits;
  guint last_set; /* entries in the newest frame: SONDE_LEDGER_ALL if it is a closing CTRSET */
  SondeIdMap *jit_names;
  guint64 n_jit_unnamed;
  guint64 first_unnamed; /* address */
  SondeIdMap *pids;      /* pid → SEEN_* */
  guint64 n_stateless;
  gint32 first_stateless; /* pid */
  guint64 n_claims;
  char *first_claim;
  guint64 n_missing; /* messages of threads whose events nobody counts */
  char *first_missing;
};

const char *
sonde_verdict_to_string (SondeVerdict verdict)
{
  static const char *const texts[] = { "ok", "warning", "FAILED", "open" };

  g_assert (verdict < G_N_ELEMENTS (texts));
  return texts[verdict];
}

static void
check_logged (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data);
static void
check_sum (guint32 sum, gint32 pid, gint64 time_ns, SondeHeapLogStack *stack, gpointer user_data);

SondeLedgerCheck *
sonde_ledger_check_new (void)
{
  const SondeHeapSumsFuncs sums_funcs = { .stack = check_sum };
  SondeLedgerCheck *self = g_new0 (SondeLedgerCheck, 1);

  sonde_ledger_counters_init (&self->counters);
  self->jit_names = sonde_id_map_new ();
  self->pids = sonde_id_map_new ();
  self->heap_log = sonde_heap_log_reader_new (check_logged, self);
  self->heap_sums = sonde_heap_sums_reader_new (&sums_funcs, self);
  self->calls = sonde_calls_reader_new (NULL, NULL);
  self->waits = sonde_waits_reader_new ();
  return self;
}

void
sonde_ledger_check_free (SondeLedgerCheck *self)
{
  if (self == NULL)
    return;
  sonde_ledger_counters_clear (&self->counters);
  sonde_id_map_free (self->jit_names);
  sonde_id_map_free (self->pids);
  sonde_heap_log_reader_free (self->heap_log);
  sonde_heap_sums_reader_free (self->heap_sums);
  sonde_calls_reader_free (self->calls);
  sonde_waits_reader_free (self->waits);
  g_free (self->first_claim);
  g_free (self->first_missing);
  g_free (self);
}

static guint32
seen (const SondeLedgerCheck *self, gint32 pid)
{
  guint32 flags = 0;

  sonde_id_map_lookup (self->pids, (guint32) pid, &flags);
  return flags;
}

static void
mark_seen (SondeLedgerCheck *self, gint32 pid, guint32 flags)
{
  sonde_id_map_set (self->pids, (guint32) pid, seen (self, pid) | flags);
}

/* @addrs: of a packed struct, hence no pointer to numbers */
static void
check_addresses (SondeLedgerCheck *self, const void *addrs, guint n_addrs)
{
  for (guint i = 0; i < n_addrs; i++)
    {
      guint64 address;
      guint32 known;

      memcpy (&address, (const guint8 *) addrs + i * sizeof address, sizeof address);
      if (!sonde_is_jit_address (address) || sonde_id_map_lookup (self->jit_names, address, &known))
        continue;
      if (self->n_jit_unnamed++ == 0)
        self->first_unnamed = address;
    }
}

/* A name that came before the first event of a stack is before all others, too. */
static void
check_logged (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  if (stack != NULL && stack->n_told == 0)
    check_addresses (user_data, stack->addrs, stack->n_addrs);
}

static void
check_sum (guint32 sum, gint32 pid, gint64 time_ns, SondeHeapLogStack *stack, gpointer user_data)
{
  check_addresses (user_data, stack->addrs, stack->n_addrs);
}

/* Kernel threads and samples of the kernel alone need no mapping. */
static gboolean
has_user_address (const SondeFrameSample *sample)
{
  for (guint i = 0; i < sample->n_addrs; i++)
    if (sample->addrs[i] < SONDE_JIT_ADDRESS_BASE)
      return TRUE;
  return FALSE;
}

void
sonde_ledger_check_add_frame (SondeLedgerCheck *self, const SondeFrame *frame)
{
  SondeFrameName name = { 0 };

  self->n_frames++;
  self->n_events += sonde_ledger_n_events (frame);
  self->last_set = 0;

  switch (frame->type)
    {
    case SONDE_FRAME_SAMPLE:
      {
        const SondeFrameSample *sample = (const SondeFrameSample *) frame;
        gint32 pid = sample->frame.pid;
        guint32 flags = seen (self, pid);
        guint32 needed = SEEN_PROCESS | (has_user_address (sample) ? SEEN_MAP : 0);

        self->n_samples++;
        check_addresses (self, sample->addrs, sample->n_addrs);
        if (pid > 0 && (flags & SEEN_SAMPLE) == 0 && (flags & needed) != needed)
          {
            if (self->n_stateless++ == 0)
              self->first_stateless = pid;
          }
        mark_seen (self, pid, SEEN_SAMPLE);
      }
      break;
    case SONDE_FRAME_ALLOCATION:
      check_addresses (self, ((const SondeFrameAllocation *) frame)->addrs,
                       ((const SondeFrameAllocation *) frame)->n_addrs);
      break;
    case SONDE_FRAME_FILE_CHUNK:
      sonde_heap_log_reader_add (self->heap_log, frame);
      sonde_heap_sums_reader_add (self->heap_sums, frame);
      sonde_calls_reader_add (self->calls, frame);
      sonde_waits_reader_add (self->waits, frame);
      break;
    case SONDE_FRAME_JITMAP:
      while (sonde_frame_next_name ((const SondeFrameJitmap *) frame, &name))
        sonde_id_map_set (self->jit_names, name.address, 0);
      break;
    case SONDE_FRAME_PROCESS:
      mark_seen (self, frame->pid, SEEN_PROCESS);
      break;
    case SONDE_FRAME_MAP:
      mark_seen (self, frame->pid, SEEN_MAP);
      break;
    case SONDE_FRAME_FORK: /* the child begins as a copy */
      mark_seen (self, ((const SondeFrameFork *) frame)->child,
                 seen (self, frame->pid) & (SEEN_PROCESS | SEEN_MAP));
      break;
    case SONDE_FRAME_CTRDEF:
      sonde_ledger_counters_define (&self->counters, (const SondeFrameCounterDefine *) frame);
      break;
    case SONDE_FRAME_CTRSET:
      self->last_set
          = sonde_ledger_counters_set (&self->counters, (const SondeFrameCounterSet *) frame);
      break;
    case SONDE_FRAME_LOG:
      {
        const SondeFrameLog *log = (const SondeFrameLog *) frame;

        /* Programs have log lines, too, with their pid. */
        if (log->frame.pid > 0 || strncmp (log->domain, "sonde", sizeof log->domain) != 0)
          break;
        if (g_str_has_prefix (log->message, SONDE_LEDGER_CLAIM) && self->n_claims++ == 0)
          self->first_claim = sonde_text_escape (log->message + strlen (SONDE_LEDGER_CLAIM), -1);
        if (g_str_has_prefix (log->message, SONDE_LEDGER_MISSING) && self->n_missing++ == 0)
          self->first_missing
              = sonde_text_escape (log->message + strlen (SONDE_LEDGER_MISSING), -1);
      }
      break;
    default: /* nothing to be held against it */
      break;
    }
}

guint64
sonde_ledger_check_n_frames (const SondeLedgerCheck *self)
{
  return self->n_frames;
}

static void
finding_free (gpointer data)
{
  SondeFinding *finding = data;

  g_free (finding->text);
  g_free (finding);
}

static void
add_finding (GPtrArray *findings, SondeVerdict verdict, const char *subject, char *text)
{
  SondeFinding *finding = g_new0 (SondeFinding, 1);

  finding->verdict = verdict;
  finding->subject = subject;
  finding->text = text;
  g_ptr_array_add (findings, finding);
}

typedef struct
{
  const char *subject;
  SondeLedger left[2];
  guint n_left;
  SondeLedger right[4];
  guint n_right;
} Sum;

/* The equations of protocol/ledger.h. */
static const Sum sums[] = {
  { "session",
    { SONDE_LEDGER_PRODUCED },
    1,
    { SONDE_LEDGER_RECORDED, SONDE_LEDGER_LOST_KERNEL, SONDE_LEDGER_LOST_RING,
      SONDE_LEDGER_LOST_QUEUE },
    4 },
  { "events",
    { SONDE_LEDGER_EVENTS_PRODUCED },
    1,
    { SONDE_LEDGER_EVENTS_RECORDED, SONDE_LEDGER_EVENTS_LOST_RING, SONDE_LEDGER_EVENTS_REFUSED },
    3 },
  { "stream",
    { SONDE_LEDGER_STREAM_RECORDED, SONDE_LEDGER_STREAM_RESENT },
    2,
    { SONDE_LEDGER_STREAM_DELIVERED, SONDE_LEDGER_STREAM_LOST, SONDE_LEDGER_STREAM_FILTERED },
    3 },
  { "samples",
    { SONDE_LEDGER_RECORDED },
    1,
    { SONDE_LEDGER_STREAM_SAMPLES, SONDE_LEDGER_STREAM_SAMPLES_LOST,
      SONDE_LEDGER_STREAM_SAMPLES_FILTERED, SONDE_LEDGER_STREAM_SAMPLES_BEFORE },
    4 },
  { "events",
    { SONDE_LEDGER_EVENTS_RECORDED },
    1,
    { SONDE_LEDGER_STREAM_EVENTS, SONDE_LEDGER_STREAM_EVENTS_LOST,
      SONDE_LEDGER_STREAM_EVENTS_FILTERED, SONDE_LEDGER_STREAM_EVENTS_BEFORE },
    4 },
};

/* Adds @n entries up and writes them as "recorded 12 + lost-kernel 0". False on an impossible
 * value. */
static gboolean
add_up (
    const SondeLedgerCheck *self, const SondeLedger *entries, guint n, guint64 *sum, GString *text)
{
  gboolean valid = TRUE;

  *sum = 0;
  for (guint i = 0; i < n; i++)
    {
      gint64 value = self->counters.values[entries[i]];

      valid = valid && value >= 0 && !__builtin_add_overflow (*sum, (guint64) value, sum);
      g_string_append_printf (text, "%s%s %" G_GINT64_FORMAT, i > 0 ? " + " : "",
                              sonde_ledger_name (entries[i]), value);
    }
  return valid;
}

static void
check_equation (const SondeLedgerCheck *self, const Sum *sum, GPtrArray *findings)
{
  g_autoptr (GString) left_text = g_string_new (NULL);
  g_autoptr (GString) right_text = g_string_new (NULL);
  guint64 left;
  guint64 right;
  gboolean left_valid = add_up (self, sum->left, sum->n_left, &left, left_text);
  gboolean right_valid = add_up (self, sum->right, sum->n_right, &right, right_text);
  gboolean holds = left_valid && right_valid && left == right;

  add_finding (
      findings, holds ? SONDE_VERDICT_PASSED : SONDE_VERDICT_FAILED, sum->subject,
      g_strdup_printf ("%s %s %s", left_text->str, holds ? "=" : "is not", right_text->str));
}

static void
check_count (const SondeLedgerCheck *self,
             const char *subject,
             SondeLedger entry,
             guint64 counted,
             GPtrArray *findings)
{
  gint64 claimed = self->counters.values[entry];
  gboolean holds = claimed >= 0 && (guint64) claimed == counted;

  add_finding (findings, holds ? SONDE_VERDICT_PASSED : SONDE_VERDICT_FAILED, subject,
               g_strdup_printf ("%" G_GUINT64_FORMAT " counted, %s says %" G_GINT64_FORMAT, counted,
                                sonde_ledger_name (entry), claimed));
}

static void
check_ledger (const SondeLedgerCheck *self, GPtrArray *findings)
{
  if (self->last_set != SONDE_LEDGER_ALL)
    {
      const char *reason = self->counters.defined == 0 ? "the capture has no ledger"
                                                       : "no closing counters: cut short";

      add_finding (findings, SONDE_VERDICT_OPEN, "ledger", g_strdup (reason));
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (sums); i++)
    check_equation (self, &sums[i], findings);
  check_count (self, "frames", SONDE_LEDGER_STREAM_DELIVERED, self->n_frames, findings);
  check_count (self, "samples", SONDE_LEDGER_STREAM_SAMPLES, self->n_samples, findings);
  check_count (self, "events", SONDE_LEDGER_STREAM_EVENTS, self->n_events, findings);
}

/* Whether this stream lost what others may build on. */
static gboolean
lost_frames (const SondeLedgerCheck *self)
{
  return self->counters.values[SONDE_LEDGER_STREAM_LOST]
         > self->counters.values[SONDE_LEDGER_STREAM_SAMPLES_LOST];
}

/* What its labels promise was counted; this is whether it is there. What builds on a part that this
 * stream lost, as its ledger says, cannot be read either. */
static gboolean
check_heap (const SondeLedgerCheck *self,
            const SondeHeapLogCounts *counts,
            const char *subject,
            const char *file,
            GPtrArray *findings)
{
  /* Of a segment whose beginning came no event is lost, wherever it ends. */
  SondeVerdict verdict = lost_frames (self) ? SONDE_VERDICT_WARNING : SONDE_VERDICT_FAILED;

  g_autofree char *where = counts->fault != NULL
                               ? g_strdup_printf (", at byte %" G_GUINT64_FORMAT " of the %s",
                                                  counts->fault_at_bytes, file)
                               : g_strdup ("");

  /* A capture that was cut short, or that grows, may end in a segment. */
  if (self->last_set != SONDE_LEDGER_ALL && counts->fault == NULL)
    verdict = SONDE_VERDICT_OPEN;

  if (counts->n_events == 0 && counts->fault == NULL)
    return FALSE;
  if (counts->n_told == counts->n_events && counts->fault == NULL)
    {
      add_finding (findings, SONDE_VERDICT_PASSED, subject,
                   g_strdup_printf ("%" G_GUINT64_FORMAT " events in %" G_GUINT64_FORMAT
                                    " segments, each readable",
                                    counts->n_told, counts->n_segments));
      return TRUE;
    }
  add_finding (findings, verdict, subject,
               g_strdup_printf ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                                " events cannot be read, first of a segment: %s%s",
                                counts->n_events - counts->n_told, counts->n_events,
                                counts->fault != NULL ? counts->fault : "its end is missing",
                                where));
  return FALSE;
}

/* Stacks, live and peak have to give what was counted, and all events have to be in that. */
static void
check_heap_sums (const SondeLedgerCheck *self, GPtrArray *findings)
{
  const SondeHeapSumsCounts *counts = sonde_heap_sums_reader_counts (self->heap_sums);
  const SondeHeapSumsSegment *header = &counts->header;
  const char *fault;

  if (!check_heap (self, &counts->log, "heap sums", "sums", findings))
    return;
  fault = sonde_heap_sums_reader_check (self->heap_sums);
  if (fault != NULL)
    add_finding (findings,
                 self->last_set == SONDE_LEDGER_ALL ? SONDE_VERDICT_FAILED : SONDE_VERDICT_OPEN,
                 "heap sums", g_strdup (fault));
  else
    add_finding (findings, SONDE_VERDICT_PASSED, "heap sums",
                 g_strdup_printf ("%" G_GUINT64_FORMAT " events = %" G_GUINT64_FORMAT
                                  " blocks + %" G_GUINT64_FORMAT " freed + %" G_GUINT64_FORMAT
                                  " inherited + %" G_GUINT64_FORMAT " unknown - %" G_GUINT64_FORMAT
                                  " before; %u stacks",
                                  counts->log.n_told, header->n_allocated, header->n_freed,
                                  header->n_inherited_freed, header->n_unknown_freed,
                                  counts->n_before,
                                  sonde_heap_sums_reader_n_sums (self->heap_sums)));
}

/* What each process says that it called has to be what its paths have. */
static void
check_calls (const SondeLedgerCheck *self, GPtrArray *findings)
{
  const char *fault = sonde_calls_reader_fault (self->calls);
  guint n = sonde_calls_reader_n_programs (self->calls);
  guint64 counted = 0;

  if (n == 0)
    return;
  if (fault != NULL)
    {
      add_finding (findings, lost_frames (self) ? SONDE_VERDICT_WARNING : SONDE_VERDICT_FAILED,
                   "calls", g_strdup (fault));
      return;
    }
  for (guint i = 0; i < n; i++)
    {
      const SondeCallsProgram *program = sonde_calls_reader_program (self->calls, i);

      fault = sonde_calls_program_check (program);
      if (fault != NULL)
        {
          add_finding (findings,
                       self->last_set == SONDE_LEDGER_ALL ? SONDE_VERDICT_FAILED
                                                          : SONDE_VERDICT_OPEN,
                       "calls", g_strdup_printf ("of process %d %s", program->pid, fault));
          return;
        }
      counted += program->account[SONDE_CALLS_ACCOUNT_COUNTED];
    }
  add_finding (findings, SONDE_VERDICT_PASSED, "calls",
               g_strdup_printf ("%" G_GUINT64_FORMAT " calls = those of all paths, of %u processes",
                                counted, n));
}

/* Each thread's life has to be the sum of what it did, in each file. */
static void
check_waits (const SondeLedgerCheck *self, GPtrArray *findings)
{
  const char *fault = sonde_waits_reader_fault (self->waits);
  guint n_rows = sonde_waits_reader_n_rows (self->waits);
  guint64 life_ns = sonde_waits_reader_others (self->waits)[SONDE_TIME_LIFE];
  guint64 unknown_ns = sonde_waits_reader_others (self->waits)[SONDE_TIME_UNKNOWN];

  if (fault != NULL)
    add_finding (findings, lost_frames (self) ? SONDE_VERDICT_WARNING : SONDE_VERDICT_FAILED,
                 "waits", g_strdup (fault));
  if (fault != NULL || sonde_waits_reader_n_files (self->waits) == 0)
    return;
  for (guint i = 0; i < n_rows; i++)
    {
      life_ns += sonde_waits_reader_row (self->waits, i)->times[SONDE_TIME_LIFE];
      unknown_ns += sonde_waits_reader_row (self->waits, i)->times[SONDE_TIME_UNKNOWN];
    }
  add_finding (
      findings, SONDE_VERDICT_PASSED, "waits",
      g_strdup_printf (
          "%" G_GUINT64_FORMAT " ns of life = on + runnable + blocked + switching + unknown, of "
          "%u threads and %" G_GUINT64_FORMAT " others; unknown are %" G_GUINT64_FORMAT " ns",
          life_ns, n_rows, sonde_waits_reader_n_others (self->waits), unknown_ns));
}

GPtrArray *
sonde_ledger_check_dup_findings (const SondeLedgerCheck *self)
{
  GPtrArray *findings = g_ptr_array_new_with_free_func (finding_free);

  check_ledger (self, findings);
  check_heap (self, sonde_heap_log_reader_counts (self->heap_log), "heap log", "log", findings);
  check_heap_sums (self, findings);
  check_calls (self, findings);
  check_waits (self, findings);
  if (self->n_jit_unnamed > 0)
    add_finding (findings, SONDE_VERDICT_FAILED, "names",
                 g_strdup_printf ("%" G_GUINT64_FORMAT
                                  " addresses used before their JITMAP, first 0x%" G_GINT64_MODIFIER
                                  "x",
                                  self->n_jit_unnamed, self->first_unnamed));
  else
    add_finding (findings, SONDE_VERDICT_PASSED, "names",
                 g_strdup_printf ("%u JITMAP names, each before its first use",
                                  sonde_id_map_size (self->jit_names)));
  if (self->n_stateless > 0)
    add_finding (findings, SONDE_VERDICT_WARNING, "state",
                 g_strdup_printf ("%" G_GUINT64_FORMAT
                                  " pids sampled before their PROCESS or MAP frames, first %d",
                                  self->n_stateless, self->first_stateless));
  else
    add_finding (findings, SONDE_VERDICT_PASSED, "state",
                 g_strdup ("PROCESS and MAP frames precede each pid's samples"));
  if (self->n_missing > 0)
    add_finding (findings, SONDE_VERDICT_FAILED, "threads",
                 g_strdup_printf ("%" G_GUINT64_FORMAT
                                  " %s of events that nobody counted, first: %s",
                                  self->n_missing, self->n_missing == 1 ? "message" : "messages",
                                  self->first_missing));
  if (self->n_claims > 0)
    add_finding (
        findings, SONDE_VERDICT_WARNING, "claims",
        g_strdup_printf ("%" G_GUINT64_FORMAT
                         " times a program said that it lost more than it can have, first: %s",
                         self->n_claims, self->first_claim));
  return findings;
}
