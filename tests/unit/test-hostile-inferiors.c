/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs that mean harm by their rings and sockets: only what is theirs ends, and says why. */
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>

#include "daemon/base/limits.h"
#include "daemon/capture/program/inferior.h"
#include "daemon/capture/program/inferiors.h"
#include "tests/unit/worker-fixture.h"

/* Frames as a program writes them, without sonde_writer_*() that would refuse them. */
static void
write_frame (Program *program, guint16 len, guint8 type)
{
  const SondeFrame frame = { .len = len, .pid = PROGRAM_FALSE_PID, .type = type };
  SondeRingHeader *header = program->memory.header;

  memcpy (program->memory.body + header->tail % program->memory.size_bytes, &frame, sizeof frame);
  header->sequence++;
  __atomic_store_n (&header->tail, header->tail + MAX (sizeof frame, (gsize) len / 8 * 8),
                    __ATOMIC_RELEASE);
}

static void
write_length_0 (Program *program)
{
  write_frame (program, 0, SONDE_FRAME_MARK);
}

static void
write_length_29 (Program *program)
{
  write_frame (program, 29, SONDE_FRAME_MARK);
}

static void
write_length_65535 (Program *program)
{
  write_frame (program, 65535, SONDE_FRAME_MARK);
}

static void
write_mapping (Program *program)
{
  write_frame (program, sizeof (SondeFrameMap) + 8, SONDE_FRAME_MAP);
}

static void
write_process (Program *program)
{
  write_frame (program, sizeof (SondeFrame) + 8, SONDE_FRAME_PROCESS);
}

static void
write_metadata (Program *program)
{
  write_frame (program, sizeof (SondeFrameMetadata) + 8, SONDE_FRAME_METADATA);
}

static void
write_type_200 (Program *program)
{
  write_frame (program, 24, 200);
}

static void
move_tail_out (Program *program)
{
  program->memory.header->tail += program->memory.size_bytes + 8;
}

static void
move_tail_to_the_end (Program *program)
{
  program->memory.header->tail = G_MAXUINT64 - 7;
}

static void
move_tail_back (Program *program)
{
  program->memory.header->tail = 0;
}

static void
move_tail_between (Program *program)
{
  program->memory.header->tail += 4;
}

typedef struct
{
  const char *name;
  void (*harm) (Program *program);
  const char *words; /* of the LOG frame */
} Harm;

/* Only its own ring ends, with a word about why; what came before counts. */
static void
check_harm (gconstpointer data)
{
  static const SondeControlHeader bell
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_BELL };
  const Harm *harm = data;
  Worker worker = { 0 };
  Program good, bad;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  good = program_open (&worker);
  bad = program_open (&worker);
  g_assert_cmpint (program_mark (&good, "before"), ==, 0);
  g_assert_cmpint (program_mark (&bad, "before"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  harm->harm (&bad);
  g_assert_cmpint (send (bad.link, &bell, sizeof bell, 0), ==, sizeof bell);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 1);
  g_assert_cmpint (program_mark (&good, "after"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 3);
  /* Its program is told to make no more. */
  g_assert_cmpint (program_mark (&bad, "after"), ==, -EAGAIN);
  program_close (&good, TRUE);
  program_close (&bad, FALSE);
  summary = worker_finish (&worker);
  g_assert_true (worker_was_said (&worker, harm->words));
  g_assert_true (worker_was_said (&worker, "Ring 2 (application) of process"));
  g_assert_false (worker_was_said (&worker, "Ring 1"));
  worker_clear (&worker);
}

/* The size is sealed, and what the header says of it is nobody's business but the program's. */
static void
check_geometry (void)
{
  Worker worker = { 0 };
  Program program = { .link = -1 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  int ring;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program.link = program_open_link (&worker);
  ring = program_ask_ring (&worker, program.link, SONDE_PRODUCER_APPLICATION, 0, &answer);
  g_assert_cmpint (ftruncate (ring, 0), ==, -1);
  g_assert_cmpint (errno, ==, EPERM);
  g_assert_cmpint (ftruncate (ring, 1 << 24), ==, -1);
  g_assert_cmpint (fcntl (ring, F_ADD_SEALS, F_SEAL_WRITE), ==, -1);
  program_map (&program, ring);

  g_assert_cmpint (program_mark (&program, "before"), ==, 0);
  memset (program.memory.header, 0xFF, offsetof (SondeRingHeader, head));
  program.memory.header->head = G_MAXUINT64;
  program.memory.header->is_waiting = G_MAXUINT32;
  g_assert_cmpint (program_mark (&program, "after"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  program_close (&program, FALSE);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

typedef struct
{
  Program *program;
  gint is_over;
} Scribbler;

static gpointer
scribble (gpointer data)
{
  Scribbler *self = data;
  SondeRingMemory *memory = &self->program->memory;
  guint32 random = 1;

  while (!g_atomic_int_get (&self->is_over))
    {
      random = random * 1664525 + 1013904223;
      memory->body[random % memory->size_bytes] = (guint8) (random >> 24);
      memory->header->is_waiting = random;
    }
  return NULL;
}

/* Whatever is read while it changes, the capture stays one: stream_summary_new() checks it. */
static void
check_scribbling (void)
{
  Worker worker = { 0 };
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  for (guint round = 0; round < 20; round++)
    {
      Program program = program_open (&worker);
      Scribbler scribbler = { .program = &program };
      GThread *thread = g_thread_new ("scribbler", scribble, &scribbler);

      for (guint i = 0; i < 2000; i++)
        {
          program_mark (&program, "name");
          if (i % 100 == 0)
            worker_run (&worker);
        }
      g_atomic_int_set (&scribbler.is_over, TRUE);
      g_thread_join (thread);
      program_close (&program, FALSE);
    }
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

/* Records as no writer of ours makes them: only their ring ends, and says why. */
static void
check_records (void)
{
  static const struct
  {
    guint64 words[3];
    const char *reason;
  } cases[] = {
    { { 0x5000 | SONDE_HEAP_BLOCK, G_GUINT64_CONSTANT (9) << 32, 8 }, "its stack is not defined" },
    { { 0x5000 | SONDE_HEAP_BLOCK, 0, 0 }, "no block can have its size" },
    { { G_GUINT64_CONSTANT (1) << 63 | SONDE_HEAP_BLOCK, 0, 8 }, "no block can be at its address" },
    { { 0x5000 | 7, 0, 0 }, "there is no such record" },
    { { 8 | SONDE_HEAP_CLOCK, 7, 0 }, "its time is before the last one" },
    { { G_GUINT64_CONSTANT (7) << 32 | 1 << 16 | SONDE_HEAP_STACK, 1, 0 },
      "its number is not the next one" },
    { { G_GUINT64_CONSTANT (2) << 32 | 9 << 16 | SONDE_HEAP_STACK, 1, 0 }, "past the end" },
  };
  static const uint64_t addrs[] = { 0x1000 };
  Worker worker = { 0 };
  Program good;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  good = program_open_memory (&worker);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Program bad = program_open_memory (&worker);
      SondeRingHeader *header = bad.memory.header;

      program_allocate_short (&bad, 16, addrs, 1);
      memcpy (bad.memory.body + header->tail, cases[i].words, sizeof cases[i].words);
      __atomic_store_n (&header->tail, header->tail + sizeof cases[i].words, __ATOMIC_RELEASE);
      worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 1);
      program_allocate_short (&good, 16, addrs, 1);
      worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2 * (i + 1));
      program_close (&bad, FALSE);
    }
  program_close (&good, TRUE);
  summary = worker_finish (&worker);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_true (worker_was_said (&worker, cases[i].reason));
  g_assert_false (worker_was_said (&worker, "Ring 1"));
  worker_clear (&worker);
}

/* The end of a ring, by whatever number it says that its program goes on. */
static void
write_end (Program *program, guint32 continued_in)
{
  const SondeFrame end
      = { .len = SONDE_RING_END_BYTES, .type = SONDE_RING_END, .padding2 = continued_in };
  SondeRingHeader *header = program->memory.header;

  memcpy (program->memory.body + header->tail % program->memory.size_bytes, &end, sizeof end);
  __atomic_store_n (&header->tail, header->tail + sizeof end, __ATOMIC_RELEASE);
}

static void
ring_bell (const Program *program)
{
  static const SondeControlHeader bell
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_BELL };

  g_assert_cmpint (send (program->link, &bell, sizeof bell, 0), ==, sizeof bell);
}

typedef enum
{
  END_NAMES_NOBODY,    /* that there is */
  END_NAMES_ITSELF,    /* its own number */
  END_NAMES_ANOTHER,   /* of its program, which continues nothing */
  END_NAMES_A_FOREIGN, /* that continues another program's */
  END_TWICE,
  END_AND_MORE,
  N_ENDS,
} EndHarm;

/* Ends that are none end their ring with a reason, and no other; what would have continued it, if
 * anything, is read. */
static void
check_ends (gconstpointer data)
{
  static const char *const words[N_ENDS] = {
    [END_NAMES_NOBODY] = "its end frame names ring 9999 of its program",
    [END_NAMES_ITSELF] = "its end frame names ring 42 of its program",
    [END_NAMES_ANOTHER] = "its end frame names ring 43 of its program",
    [END_NAMES_A_FOREIGN] = "its end frame names ring 44 of its program",
    [END_TWICE] = "the writer went on behind its end frame",
    [END_AND_MORE] = "the writer went on behind its end frame",
  };
  const EndHarm harm = GPOINTER_TO_UINT (data);
  Worker worker = { 0 };
  Program good, bad;
  Program grown = { .link = -1 }, other = { .link = -1 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  bad = program_open (&worker); /* ring 42 of its own, as all of this test */
  good = program_open (&worker);
  program_map (&other, program_ask_ring_as (&worker, bad.link, 43, 0, &answer));
  program_map (&grown, program_ask_ring_as (&worker, good.link, 44, 42, &answer));
  g_assert_cmpint (program_mark (&good, "before"), ==, 0);
  g_assert_cmpint (program_mark (&bad, "before"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  if (harm == END_TWICE || harm == END_AND_MORE)
    {
      SondeRingHeader *header = bad.memory.header;
      guint64 tail = header->tail;

      write_end (&bad, 0);
      if (harm == END_TWICE)
        write_end (&bad, 0);
      else
        write_frame (&bad, 72, SONDE_FRAME_LOG);
      g_assert_cmpuint (header->tail, >, tail + SONDE_RING_END_BYTES);
    }
  else
    write_end (&bad, harm == END_NAMES_NOBODY   ? 9999
                     : harm == END_NAMES_ITSELF ? 42
                                                : 42 + (guint) harm - END_NAMES_ITSELF);
  ring_bell (&bad);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 3);
  g_assert_cmpint (program_mark (&other, "after"), ==, 0);
  g_assert_cmpint (program_mark (&good, "after"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 4);
  write_end (&good, 44);
  ring_bell (&good);
  g_assert_cmpint (program_mark (&grown, "grown"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 5);
  summary = worker_finish (&worker);
  g_assert_true (worker_was_said (&worker, words[harm]));
  g_assert_true (worker_was_said (&worker, "Ring 1 (application) of process"));
  g_assert_false (worker_was_said (&worker, "Ring 2"));
  program_close (&other, FALSE);
  program_close (&grown, FALSE);
  program_close (&bad, FALSE);
  program_close (&good, FALSE);
  worker_clear (&worker);
}

/* A ring that never ends is the only one that is read; what its program put into the next comes
 * when the session ends, and it gets no third one. */
static void
check_no_end (void)
{
  Worker worker = { 0 };
  Program program;
  Program grown = { .link = -1 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  program_map (&grown, program_ask_ring_as (&worker, program.link, 43, 42, &answer));
  g_assert_cmpint (program_mark (&grown, "early"), ==, 0);
  g_assert_cmpint (program_mark (&grown, "early"), ==, 0);
  g_assert_cmpint (program_ask_ring_as (&worker, program.link, 44, 42, &answer), ==, -1);
  g_assert_cmpint (answer.error, ==, -EALREADY);
  g_assert_cmpint (program_ask_ring_as (&worker, program.link, 45, 43, &answer), ==, -1);
  g_assert_cmpint (answer.error, ==, -EALREADY);
  g_assert_cmpint (program_mark (&program, "late"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 2);
  g_assert_cmpuint (worker_count (&worker, SONDE_LEDGER_EVENTS_RECORDED), ==, 1);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_RECORDED], ==, 3);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 3);
  program_close (&grown, FALSE);
  program_close (&program, FALSE);
  worker_clear (&worker);
}

/* One that is killed between the two has all that it committed, in its order. */
static void
check_killed_between (void)
{
  Worker worker = { 0 };
  Program program;
  Program grown = { .link = -1 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) marks = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  program_map (&grown, program_ask_ring_as (&worker, program.link, 43, 42, &answer));
  g_assert_cmpint (program_mark (&grown, "second"), ==, 0);
  g_assert_cmpint (program_mark (&program, "first"), ==, 0);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 2);
  program_close (&grown, FALSE);
  program_close (&program, FALSE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_RECORDED], ==, 2);
  marks = worker_find_frames (&worker, SONDE_FRAME_MARK);
  g_assert_cmpstr (((const SondeFrameMark *) g_ptr_array_index (marks, 0))->name, ==, "first");
  g_assert_cmpstr (((const SondeFrameMark *) g_ptr_array_index (marks, 1))->name, ==, "second");
  worker_clear (&worker);
}

/* A million wishes cost nobody anything: one ring, and refusals. */
static void
check_growth_requests (void)
{
  const guint n_requests = 1000000;
  Worker worker = { 0 };
  Program program, other;
  SondeControlGrowRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_GROW },
          .continues = 42,
          .size_bytes = SONDE_RING_MAX_BYTES };
  g_autoptr (StreamSummary) summary = NULL;
  SondeControlRingAnswer answer;
  guint n_rings = 0, n_answers = 0, n_sent = 0;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  other = program_open (&worker);
  while (n_answers < n_requests)
    {
      request.number = n_sent + 1000;
      request.continues = n_sent % 3 == 0 ? 42 : n_sent % 3 == 1 ? request.number - 1 : n_sent;
      while (n_sent < n_requests
             && send (program.link, &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        request.number = ++n_sent + 1000;
      worker_run (&worker);
      while (recv (program.link, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer)
        {
          n_rings += answer.error == 0;
          n_answers++;
        }
    }
  g_assert_cmpuint (n_rings, ==, 1);
  g_assert_cmpint (program_mark (&other, "name"), ==, 0);
  g_assert_cmpint (program_mark (&program, "name"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 3);
  program_close (&program, FALSE);
  program_close (&other, FALSE);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
  summary = worker_finish (&worker);
  g_assert_false (worker_was_said (&worker, SONDE_LEDGER_MISSING));
  worker_clear (&worker);
}

/* Of the memory that rings may grow into each process has an equal part, and the rest is for who
 * has no ring yet. */
static void
check_growth_memory (void)
{
  Worker worker = { 0 };
  Program programs[4];
  g_autoptr (StreamSummary) summary = NULL;
  SondeControlRingAnswer answer;
  gsize sum_bytes = 0;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  for (guint i = 0; i < G_N_ELEMENTS (programs); i++)
    programs[i] = program_open_memory (&worker);
  for (guint i = 0; i < G_N_ELEMENTS (programs); i++)
    {
      Program *program = &programs[i];
      guint32 number = 42;

      for (;;)
        {
          gsize before_bytes = program->memory.size_bytes;
          int ring;

          /* The one before has to be read first. */
          do
            ring = program_ask_ring_as (&worker, program->link, number + 1, number, &answer);
          while (answer.error == -EALREADY);
          if (ring < 0)
            break;
          number++;
          write_end (program, number);
          ring_bell (program);
          sonde_ring_memory_unmap (&program->memory);
          program_map (program, ring);
          g_assert_cmpuint (program->memory.size_bytes, >, before_bytes);
          g_assert_nonnull (sonde_ring_writer_compact (program->writer));
        }
      g_assert_cmpint (answer.error, ==, -EDQUOT);
      g_assert_cmpuint (program->memory.size_bytes, >, SONDE_RING_DEFAULT_BYTES);
      sum_bytes += program->memory.size_bytes;
    }
  g_assert_cmpuint (sum_bytes, <=, SONDE_LIMIT_RING_AMPLE_BYTES);
  for (guint i = 0; i < G_N_ELEMENTS (programs); i++)
    program_close (&programs[i], FALSE);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

/* Who asks for the largest rings does not get more memory for what he defines than there is; and
 * what one gives back another has. */
static void
check_stack_memory (void)
{
  Worker worker = { 0 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  for (guint round = 0; round < 2; round++)
    {
      int link = program_open_link (&worker);
      guint n_compact = 0, n_plain = 0;
      gsize stack_bytes = 0;
      int ring;

      while ((ring = program_ask_ring (&worker, link, SONDE_PRODUCER_MEMORY, SONDE_RING_MAX_BYTES,
                                       &answer))
             >= 0)
        {
          SondeRingMemory memory;
          gsize bytes;

          g_assert_cmpint (sonde_ring_memory_map (ring, &memory), ==, 0);
          bytes = SONDE_HEAP_READER_BYTES (memory.size_bytes);
          if ((memory.features & SONDE_RING_COMPACT_HEAP) != 0)
            {
              stack_bytes += bytes;
              n_compact++;
            }
          else
            {
              g_assert_cmpuint (stack_bytes + bytes, >, SONDE_INFERIORS_STACK_BYTES);
              n_plain++;
            }
          sonde_ring_memory_unmap (&memory);
          close (ring);
        }
      g_assert_cmpuint (stack_bytes, <=, SONDE_INFERIORS_STACK_BYTES);
      g_assert_cmpuint (n_compact, >, 0);
      g_assert_cmpuint (n_plain, >, 0);
      worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, n_compact + n_plain);
      close (link);
      worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
    }
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

/* A ring whose every word changes while it is read. */
static void
check_scribbled_records (void)
{
  static const uint64_t addrs[] = { 0x1000, 0x2000, 0x3000 };
  Worker worker = { 0 };
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  for (guint round = 0; round < 20; round++)
    {
      Program program = program_open_memory (&worker);
      Scribbler scribbler = { .program = &program };
      GThread *thread = g_thread_new ("scribbler", scribble, &scribbler);

      for (guint i = 0; i < 2000; i++)
        {
          if (sonde_ring_writer_check_wanted (program.writer) == 0)
            program_allocate_short (&program, (i + 1) * 16, addrs, i % 4);
          if (i % 100 == 0)
            worker_run (&worker);
        }
      g_atomic_int_set (&scribbler.is_over, TRUE);
      g_thread_join (thread);
      program_close (&program, FALSE);
    }
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

static gsize
resident_bytes (void)
{
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  return g_ascii_strtoull (strchr (text, ' '), NULL, 10) * (gsize) sysconf (_SC_PAGESIZE);
}

/* As many as one may have, then a refusal each, which is counted: nothing grows. */
static void
check_requests (void)
{
  const guint n_requests = 100000;
  const gsize own_bytes
      = (gsize) SONDE_LIMIT_RING_MEMORY_BYTES * SONDE_LIMIT_OWN_RINGS_PERCENT / 100;
  Worker worker = { 0 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  gsize before_bytes = 0;
  guint n_granted = 0;
  int link;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  link = program_open_link (&worker);
  for (guint i = 0; i < n_requests; i++)
    {
      int ring = program_ask_ring (&worker, link, SONDE_PRODUCER_APPLICATION, 0, &answer);

      if (ring >= 0)
        {
          n_granted++;
          close (ring);
        }
      else
        g_assert_cmpint (answer.error, ==, -EDQUOT);
      if (i == n_requests / 10)
        before_bytes = resident_bytes ();
    }
  g_assert_cmpuint (n_granted, ==, own_bytes / SONDE_RING_DEFAULT_BYTES);
  g_assert_cmpuint (resident_bytes (), <, before_bytes + (4u << 20));
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RING_BYTES,
                     n_granted * SONDE_RING_DEFAULT_BYTES);
  worker_wait_count (&worker, SONDE_STATISTIC_RINGS_REFUSED, n_requests - n_granted);
  close (link);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
  g_assert_cmpuint (worker_count (&worker, SONDE_STATISTIC_SHARED_RING_BYTES), ==, 0);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

/* One that shares takes no more than its part, by how many links ever; there is room for others. */
static void
check_shared_requests (void)
{
  Worker worker = { 0 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  int links[2];
  int ring;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  for (guint i = 0; i < G_N_ELEMENTS (links); i++)
    links[i] = program_open_link (&worker);
  for (guint i = 0; i < 3 * SONDE_LIMIT_SHARED_RINGS; i++)
    {
      ring = program_ask_shared_ring (&worker, links[i % G_N_ELEMENTS (links)], &answer);
      g_assert_cmpint (answer.error, ==, i < SONDE_LIMIT_SHARED_RINGS ? 0 : -EDQUOT);
      if (ring >= 0)
        close (ring);
    }
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, SONDE_LIMIT_SHARED_RINGS);
  for (guint i = 0; i < G_N_ELEMENTS (links); i++)
    close (links[i]);
  worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
  summary = worker_finish (&worker);
  g_assert_false (worker_was_said (&worker, SONDE_LEDGER_MISSING));
  worker_clear (&worker);
}

/* Each has a link of its own, and more refusals than there are messages. */
static void
check_refusals (void)
{
  const guint n_programs = 300;
  Worker worker = { 0 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) logs = NULL;
  g_autoptr (GArray) links = g_array_new (FALSE, FALSE, sizeof (int));
  guint n_refused = 0, n_told = 0;
  int link, ring;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  link = program_open_link (&worker);
  while ((ring = program_ask_ring (&worker, link, SONDE_PRODUCER_APPLICATION, 0, &answer)) >= 0)
    close (ring);
  for (n_refused = 1; n_refused < n_programs; n_refused++)
    {
      int another = program_open_link (&worker);

      g_assert_cmpint (program_ask_ring (&worker, another, SONDE_PRODUCER_APPLICATION, 0, &answer),
                       <, 0);
      g_array_append_val (links, another);
    }
  worker_wait_count (&worker, SONDE_STATISTIC_RINGS_REFUSED, n_refused);
  for (guint i = 0; i < links->len; i++)
    close (g_array_index (links, int, i));
  close (link);
  summary = worker_finish (&worker);

  logs = worker_find_frames (&worker, SONDE_FRAME_LOG);
  for (guint i = 0; i < logs->len; i++)
    n_told += g_str_has_prefix (((const SondeFrameLog *) g_ptr_array_index (logs, i))->message,
                                SONDE_LEDGER_MISSING);
  g_assert_cmpuint (n_told, ==, 256 + 1);
  g_assert_true (worker_was_said (&worker, "44 threads got no ring that 44 more messages"));
  worker_clear (&worker);
}

/* Answers fill the socket, which is closed then; others are served. */
static void
check_deaf (gconstpointer is_sysprof)
{
  const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  gconstpointer bytes
      = is_sysprof != NULL ? SONDE_CONTROL_SYSPROF_REQUEST : (gconstpointer) &request;
  gsize size_bytes = is_sysprof != NULL ? SONDE_CONTROL_SYSPROF_REQUEST_BYTES : sizeof request;
  Worker worker = { 0 };
  Program program;
  struct pollfd polled = { .events = POLLRDHUP };
  g_autoptr (StreamSummary) summary = NULL;
  SondeControlRingAnswer answer;
  int deaf, ring;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  deaf = polled.fd = worker_open_control (&worker);
  worker_run (&worker);
  while (poll (&polled, 1, 0) == 0 || (polled.revents & POLLRDHUP) == 0)
    {
      g_assert_true (send (deaf, bytes, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0
                     || errno == EAGAIN);
      worker_run (&worker);
    }
  close (deaf);
  /* What was on its way to it hangs up one by one. */
  while ((program.link = program_open_link (&worker)) < 0)
    continue;
  while ((ring = program_ask_ring (&worker, program.link, SONDE_PRODUCER_APPLICATION, 0, &answer))
         < 0)
    continue;
  program_map (&program, ring);
  g_assert_cmpint (program_mark (&program, "name"), ==, 0);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  summary = worker_finish (&worker);
  g_assert_true (worker_was_said (&worker, "A control socket of programs was closed"));
  worker_clear (&worker);
}

/* Rubbish spoils nothing on a control socket, and a link alone. */
static void
check_rubbish (void)
{
  static const char rubbish[300] = "rubbish";
  const SondeControlHeader newer
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION + 1, SONDE_CONTROL_LINK };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  int link, half;
  char byte;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  g_assert_cmpint (send (worker.socket, rubbish, sizeof rubbish, 0), ==, sizeof rubbish);
  g_assert_cmpint (send (worker.socket, "", 0, 0), ==, 0);
  g_assert_cmpint (send (worker.socket, &newer, sizeof newer, 0), ==, sizeof newer);
  link = program_open_link (&worker);
  half = program_open_link (&worker);
  g_assert_cmpint (send (link, "", 0, 0), ==, 0);
  g_assert_cmpint (send (link, rubbish, sizeof rubbish, 0), ==, sizeof rubbish);
  g_assert_cmpint (program_receive (&worker, link, &byte, 1), ==, -2);
  g_assert_cmpint (shutdown (half, SHUT_WR), ==, 0);
  g_assert_cmpint (program_receive (&worker, half, &byte, 1), ==, -2);
  close (link);
  close (half);

  program = program_open (&worker);
  g_assert_cmpint (program_mark (&program, "name"), ==, 0);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

/* Many counters and names, none of which anybody needs. */
static void
check_definitions (void)
{
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) defines = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  for (guint i = 1; i <= 20000; i++)
    {
      g_autofree char *name = g_strdup_printf ("name %u", i);

      program_define_counter (&program, i, "c", name);
      program_name_address (&program, SONDE_JIT_ADDRESS_BASE + i, name);
      if (i % 500 == 0)
        worker_wait_drained (&worker, &program);
    }
  g_assert_cmpint (program_mark (&program, "last"), ==, 0);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  summary = worker_finish (&worker);
  defines = worker_find_frames (&worker, SONDE_FRAME_CTRDEF);
  g_assert_cmpuint (defines->len, ==, 1 + SONDE_INFERIOR_MAX_COUNTERS);
  g_assert_cmpuint (g_hash_table_size (summary->names), ==, SONDE_INFERIOR_MAX_NAMES);
  worker_clear (&worker);
}

/* An account that is a lie keeps its sums, and is believed as far as there was time for it: four
 * nanoseconds for an event, and what the ring can hold. */
static void
check_claims (void)
{
  const gint64 began_ns = program_now_ns ();
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  for (guint i = 0; i < 3; i++)
    {
      program = program_open (&worker);
      g_assert_cmpint (program_mark (&program, "name"), ==, 0);
      program.memory.header->losses.lost_events = G_MAXUINT64;
      program.memory.header->losses.blocked_ns = G_MAXUINT64;
      program.memory.header->sequence = G_MAXUINT64;
      program_close (&program, FALSE);
      worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, i + 1);
      worker_wait_count (&worker, SONDE_STATISTIC_SHARED_RINGS, 0);
    }
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING], >=,
                   3 * SONDE_RING_DEFAULT_BYTES / SONDE_FRAME_MIN_SIZE);
  g_assert_cmpint (
      summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING], <=,
      3 * ((program_now_ns () - began_ns) / 4 + SONDE_RING_DEFAULT_BYTES / SONDE_FRAME_MIN_SIZE));
  g_assert_true (worker_was_said (&worker, SONDE_LEDGER_CLAIM "ring 1 "));
  g_assert_true (worker_was_said (&worker, "says that it lost 18446744073709551614 events"));
  g_assert_true (worker_was_said (&worker, SONDE_LEDGER_CLAIM "ring 3 "));
  worker_clear (&worker);
}

static const Harm harms[] = {
  { "length-0", write_length_0, "length" },
  { "length-29", write_length_29, "length" },
  { "length-65535", write_length_65535, "length" },
  { "a-mapping", write_mapping, "this producer may not send it" },
  { "a-process", write_process, "this producer may not send it" },
  { "metadata", write_metadata, "this producer may not send it" },
  { "an-unknown-type", write_type_200, "type" },
  { "a-position-past-the-ring", move_tail_out, "outside of the ring" },
  { "a-position-at-the-end-of-all", move_tail_to_the_end, "outside of the ring" },
  { "a-position-behind-the-last", move_tail_back, "moved backwards" },
  { "a-position-between-frames", move_tail_between, "no multiple of 8" },
};

#define TEST(name, function) g_test_add_func ("/hostile-inferiors/" name, function)

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (harms); i++)
    {
      g_autofree char *path
          = g_strconcat ("/hostile-inferiors/ends-its-ring-alone/", harms[i].name, NULL);

      g_test_add_data_func (path, &harms[i], check_harm);
    }
  TEST ("a-ring-keeps-its-geometry", check_geometry);
  TEST ("frames-that-change-while-they-are-read-do-no-harm", check_scribbling);
  TEST ("impossible-records-end-their-ring-alone", check_records);
  for (guint i = 0; i < N_ENDS; i++)
    {
      static const char *const names[N_ENDS]
          = { "nobody", "itself", "another", "a-foreign-one", "twice", "and-more" };
      g_autofree char *path
          = g_strconcat ("/hostile-inferiors/an-end-that-is-none-ends-its-ring/", names[i], NULL);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), check_ends);
    }
  TEST ("a-ring-that-never-ends-is-read-alone", check_no_end);
  TEST ("who-is-killed-between-two-rings-has-both", check_killed_between);
  TEST ("a-million-wishes-for-a-larger-ring-cost-nothing", check_growth_requests);
  TEST ("rings-grow-into-equal-parts", check_growth_memory);
  TEST ("stacks-have-a-bound-in-all", check_stack_memory);
  TEST ("records-that-change-while-they-are-read-do-no-harm", check_scribbled_records);
  TEST ("a-hundred-thousand-requests-cost-nothing", check_requests);
  TEST ("who-shares-takes-no-more-than-a-part", check_shared_requests);
  TEST ("who-gets-no-ring-is-told-and-counted", check_refusals);
  g_test_add_data_func ("/hostile-inferiors/who-takes-no-answers-is-not-served", NULL, check_deaf);
  g_test_add_data_func ("/hostile-inferiors/who-takes-no-answers-in-the-old-way-is-not-served",
                        "sysprof", check_deaf);
  TEST ("rubbish-spoils-a-link-alone", check_rubbish);
  TEST ("definitions-have-an-end", check_definitions);
  TEST ("a-false-account-keeps-its-sums", check_claims);

  return g_test_run ();
}
