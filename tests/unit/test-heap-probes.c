/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files with probes of an allocator, which a broker is told of, and hits of theirs. */
#include "daemon/capture/program/heap-probes.h"

#include <errno.h>

#include "base/probe-note.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/runtime-file.h"

#define PID          70
#define CHILD        71
#define BASE         0x7f0000000000 /* where the file is mapped */
#define TEXT         0x1000
#define ALLOC_SITE   (TEXT + 0x10)
#define FREE_SITE    (TEXT + 0x20)
#define PIECE_OFFSET (sizeof (Elf64_Ehdr) + sizeof (Elf64_Phdr)) /* of its bytes in the file */
#define FILE_BYTES   0x1000
#define INTERVAL     65536

typedef struct
{
  RecorderFixture base;
  SondeMessageSetup setup;
  SondeTracker *tracker;
  SondeUnwinder *unwinder;
  SondeSampler *sampler;
  SondeInferiors *inferiors;
  SondeHeapProbes *probes;
  GArray *told; /* SondeMessageProbes */
  SondeProcess *process;
} Fixture;

static gboolean
tell (SondeMessageProbes *message, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_array_append_vals (fixture->told, message, 1);
  return TRUE;
}

static gboolean
request (const SondeRequest *asked, gpointer user_data)
{
  return TRUE;
}

static void
nothing (gpointer user_data)
{
}

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, sink_closed, NULL);
  fixture->setup.asked.memory = SONDE_MEMORY_SAMPLED;
  fixture->setup.asked.memory_interval_bytes = INTERVAL;
  fixture->setup.asked.memory_detail = SONDE_MEMORY_DETAIL_EVENTS;
  fixture->setup.asked.max_depth = 64;
  fixture->setup.start_ns = 1;
  fixture->told = g_array_new (FALSE, FALSE, sizeof (SondeMessageProbes));
  fixture->tracker
      = sonde_tracker_new (fixture->base.processes, fixture->base.modules, fixture->base.state,
                           fixture->base.recorder, fixture->base.jit_names, FALSE, request, NULL);
  fixture->unwinder = sonde_unwinder_new_cfi (fixture->base.processes);
  fixture->sampler = sonde_sampler_new (&fixture->setup, fixture->base.processes, fixture->unwinder,
                                        NULL, NULL, NULL, fixture->base.jit_names,
                                        fixture->base.recorder, &fixture->base.tally);
  fixture->inferiors = sonde_inferiors_new (
      &(SondeInferiorsParts){ &fixture->setup, fixture->base.recorder, fixture->tracker,
                              fixture->sampler, &fixture->base.tally },
      nothing, NULL);
  fixture->probes = sonde_heap_probes_new (
      &(SondeHeapProbesParts){ &fixture->setup, fixture->base.processes, fixture->tracker,
                               fixture->sampler, fixture->inferiors, NULL, fixture->base.recorder,
                               &fixture->base.tally },
      tell, fixture);
  fixture->process = sonde_process_table_ensure (fixture->base.processes, PID, 1);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_heap_probes_free (fixture->probes);
  sonde_inferiors_free (fixture->inferiors);
  sonde_sampler_free (fixture->sampler);
  sonde_unwinder_free (fixture->unwinder);
  sonde_tracker_free (fixture->tracker);
  g_array_unref (fixture->told);
  recorder_fixture_clear (&fixture->base);
}

static void
add_note (GByteArray *notes, guint64 pc, const char *name, const char *arguments)
{
  const guint64 addresses[] = { pc, 0, 0 };
  const char *texts[] = { SONDE_PROBE_PROVIDER, name, arguments };
  Elf64_Nhdr header = { .n_namesz = 8, .n_descsz = sizeof addresses, .n_type = 3 };

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    header.n_descsz += (Elf64_Word) strlen (texts[i]) + 1;
  g_byte_array_append (notes, (const guint8 *) &header, sizeof header);
  g_byte_array_append (notes, (const guint8 *) "stapsdt", 8);
  g_byte_array_append (notes, (const guint8 *) addresses, sizeof addresses);
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_byte_array_append (notes, (const guint8 *) texts[i], (guint) strlen (texts[i]) + 1);
  while (notes->len % 4 != 0)
    g_byte_array_append (notes, (const guint8 *) "", 1);
}

/* A file with an alloc and a free, and what they say of their arguments. */
static void
map (Fixture *fixture, const char *path, const char *of_alloc, const char *of_free)
{
  static const guint8 code[FILE_BYTES];
  const SondeFileId id = { .inode = 1, .dev_major = 8 };
  const SondeProcessMapping mapping = {
    .start = BASE, .end = BASE + FILE_BYTES, .offset = PIECE_OFFSET, .file = id, .path = path
  };
  g_autoptr (GByteArray) notes = g_byte_array_new ();
  g_auto (RuntimeFile) file;

  if (of_alloc != NULL)
    add_note (notes, ALLOC_SITE, "alloc", of_alloc);
  add_note (notes, FREE_SITE, "free", of_free);
  runtime_file_init (&file);
  runtime_file_put (&file, TEXT, code, sizeof code);
  runtime_file_put_section (&file, ".note.stapsdt", SHT_NOTE, notes->data, notes->len);
  g_assert_cmpint (sonde_module_store_load (fixture->base.modules, &id, runtime_file_open (&file)),
                   ==, 0);
  g_assert_cmpint (sonde_process_add_mapping (fixture->base.processes, fixture->process, &mapping,
                                              SONDE_MAP_FROM_EVENT),
                   ==, 1);
}

static void
look (Fixture *fixture)
{
  sonde_heap_probes_meet (fixture->probes, fixture->process);
  sonde_heap_probes_look (fixture->probes);
}

static guint64
count (const Fixture *fixture, unsigned statistic)
{
  return fixture->base.tally.values[statistic];
}

static void
answer (Fixture *fixture, guint64 request_id, int status)
{
  const SondeMessageProbed message = { .request_id = request_id, .status = status };

  sonde_heap_probes_answer (fixture->probes, &message);
}

/* Where nothing is known of the stack. */
static void
hit (Fixture *fixture,
     SondeProcess *process,
     guint64 site,
     guint64 block,
     guint64 size,
     guint64 weight)
{
  guint64 registers[17] = { [3] = weight, [4] = size, [5] = block, [7] = 0x7ffd0000 };
  SondePerfRecord record = { .type = SONDE_PERF_RECORD_PROBE,
                             .cpu = 1,
                             .pid = sonde_process_pid (process),
                             .tid = sonde_process_pid (process),
                             .time_ns = 5,
                             .sample = { .ip = BASE + site - TEXT,
                                         .abi = PERF_SAMPLE_REGS_ABI_64,
                                         .regs = registers,
                                         .n_regs = G_N_ELEMENTS (registers) } };

  registers[8] = record.sample.ip;
  sonde_heap_probes_take (fixture->probes, process, &record);
}

static void
map_usual (Fixture *fixture)
{
  map (fixture, "/usr/lib/liballoc.so", "8@%rdi 8@%rsi 8@%rdx", "8@%rdi");
  look (fixture);
  answer (fixture, 1, 0);
}

/* --- cases --- */

static void
test_finds (Fixture *fixture, gconstpointer data)
{
  const SondeMessageProbes *message;

  map (fixture, "/usr/lib/liballoc.so", "8@%rdi 8@%rsi 8@%rdx", "8@%rdi");
  look (fixture);
  look (fixture);
  g_assert_cmpuint (fixture->told->len, ==, 1);
  message = &g_array_index (fixture->told, SondeMessageProbes, 0);
  g_assert_cmpint (message->pid, ==, PID);
  g_assert_cmpuint (message->n_notes, ==, 2);
  g_assert_cmpuint (message->notes[0], >, PIECE_OFFSET + FILE_BYTES);
  g_assert_cmpuint (message->notes[1], >, message->notes[0]);
  g_assert_cmpuint (message->start, ==, BASE);
  g_assert_cmpuint (message->offset, ==, PIECE_OFFSET);
  g_assert_cmpuint (message->inode, ==, 1);
  g_assert_cmpuint (message->dev_major, ==, 8);
  answer (fixture, message->request_id, 0);
  answer (fixture, message->request_id + 1, EACCES);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBED_PROGRAMS), ==, 1);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBES_REFUSED), ==, 0);

  /* It is over: none are wanted any more, and another of its number begins anew. */
  sonde_heap_probes_ended (fixture->probes, PID);
  g_assert_cmpuint (fixture->told->len, ==, 2);
  g_assert_cmpuint (g_array_index (fixture->told, SondeMessageProbes, 1).n_notes, ==, 0);
  sonde_heap_probes_ended (fixture->probes, PID);
  g_assert_cmpuint (fixture->told->len, ==, 2);
  look (fixture);
  g_assert_cmpuint (fixture->told->len, ==, 3);
}

static void
test_leaves_our_own (Fixture *fixture, gconstpointer data)
{
  map (fixture, "/usr/lib/sonde/libsonde-memory.so", "8@%rdi 8@%rsi 8@%rdx", "8@%rdi");
  look (fixture);
  g_assert_cmpuint (fixture->told->len, ==, 0);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBES_REFUSED), ==, 0);
}

static void
test_refuses_arguments (Fixture *fixture, gconstpointer data)
{
  const char *const *arguments = data;

  map (fixture, "/usr/lib/liballoc.so", arguments[0], arguments[1]);
  look (fixture);
  look (fixture);
  g_assert_cmpuint (fixture->told->len, ==, 0);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBES_REFUSED), ==, 1);
}

static void
test_tells_refusals (Fixture *fixture, gconstpointer data)
{
  map (fixture, "/usr/lib/liballoc.so", "8@%rdi 8@%rsi 8@%rdx", "8@%rdi");
  look (fixture);
  /* One that is gone misses nothing. */
  answer (fixture, 1, ESRCH);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBES_REFUSED), ==, 0);
  answer (fixture, 1, EACCES);
  answer (fixture, 1, EDQUOT);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBES_REFUSED), ==, 1);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_PROBED_PROGRAMS), ==, 0);
}

static void
test_blocks (Fixture *fixture, gconstpointer data)
{
  map_usual (fixture);
  hit (fixture, fixture->process, ALLOC_SITE, 0x1000, 100, INTERVAL);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, 1);
  hit (fixture, fixture->process, FREE_SITE, 0x1000, 0, 0);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, 2);
  /* Of blocks that nobody was told of, or that are over. */
  hit (fixture, fixture->process, FREE_SITE, 0x1000, 0, 0);
  hit (fixture, fixture->process, FREE_SITE, 0x2000, 0, 0);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, 2);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_REFUSED), ==, 0);
}

static void
test_refuses_hits (Fixture *fixture, gconstpointer data)
{
  SondeProcess *other = sonde_process_table_ensure (fixture->base.processes, 99, 1);

  map_usual (fixture);
  hit (fixture, fixture->process, ALLOC_SITE, 0, 100, INTERVAL);
  hit (fixture, fixture->process, ALLOC_SITE, 0x1000, 0, INTERVAL);
  hit (fixture, fixture->process, ALLOC_SITE, 0x1000, 100, 0);
  hit (fixture, fixture->process, FREE_SITE, 0, 0, 0);
  hit (fixture, fixture->process, ALLOC_SITE + 1, 0x1000, 100, INTERVAL);
  hit (fixture, fixture->process, ALLOC_SITE + FILE_BYTES, 0x1000, 100, INTERVAL);
  hit (fixture, other, ALLOC_SITE, 0x1000, 100, INTERVAL);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_REFUSED), ==, 7);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, 0);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_PRODUCED), ==, 7);
}

/* Of small blocks, four times as many as the session's distance finds; of large ones it finds all.
 */
static void
test_thins_out (Fixture *fixture, gconstpointer data)
{
  const guint n = 10000;
  guint64 n_small;

  map_usual (fixture);
  for (guint i = 1; i <= n; i++)
    hit (fixture, fixture->process, ALLOC_SITE, i * 0x100, 16, INTERVAL / 4);
  n_small = count (fixture, SONDE_LEDGER_EVENTS_RECORDED);
  /* five times the square root of n / 4 × 3 / 4 */
  g_assert_cmpuint (n_small, >, n / 4 - 217);
  g_assert_cmpuint (n_small, <, n / 4 + 217);
  for (guint i = 1; i <= 100; i++)
    hit (fixture, fixture->process, ALLOC_SITE, i * 0x1000000, 20 * INTERVAL, 20 * INTERVAL);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, n_small + 100);
  for (guint i = 1; i <= n; i++)
    hit (fixture, fixture->process, FREE_SITE, i * 0x100, 0, 0);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, 2 * n_small + 100);
}

static void
test_bounds_blocks (Fixture *fixture, gconstpointer data)
{
  map_usual (fixture);
  for (guint i = 1; i <= SONDE_HEAP_PROBES_MAX_BLOCKS + 2; i++)
    hit (fixture, fixture->process, ALLOC_SITE, i * 16, 100, INTERVAL);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==,
                    SONDE_HEAP_PROBES_MAX_BLOCKS);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_LOST_RING), ==, 2);
  hit (fixture, fixture->process, FREE_SITE, 16, 0, 0);
  hit (fixture, fixture->process, ALLOC_SITE, 8, 100, INTERVAL);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_LOST_RING), ==, 2);
  sonde_heap_probes_ended (fixture->probes, PID);
}

/* It has its parent's blocks, and is asked for once it has not executed a program for a while. */
static void
test_child (Fixture *fixture, gconstpointer data)
{
  SondeProcess *child;

  map_usual (fixture);
  hit (fixture, fixture->process, ALLOC_SITE, 0x1000, 100, INTERVAL);
  child = sonde_process_table_fork (fixture->base.processes, PID, CHILD, 6);
  sonde_heap_probes_forked (fixture->probes, PID, CHILD);
  sonde_heap_probes_look (fixture->probes);
  g_assert_cmpuint (fixture->told->len, ==, 1);
  g_usleep (110000);
  sonde_heap_probes_look (fixture->probes);
  g_assert_cmpuint (fixture->told->len, ==, 2);
  g_assert_cmpint (g_array_index (fixture->told, SondeMessageProbes, 1).pid, ==, CHILD);
  hit (fixture, child, FREE_SITE, 0x1000, 0, 0);
  hit (fixture, fixture->process, FREE_SITE, 0x1000, 0, 0);
  g_assert_cmpuint (count (fixture, SONDE_LEDGER_EVENTS_RECORDED), ==, 3);
}

int
main (int argc, char **argv)
{
  static const char *const bad_arguments[][2] = {
    { "8@%rdi 8@%rsi", "8@%rdi" },
    { "8@%rdi 8@%rsi 8@%rdx", "" },
    { "8@%rdi 8@%xmm0 8@%rdx", "8@%rdi" },
    { "8@%rdi 8@%rsi 8@-8(%rsp)", "8@%rdi" },
    { NULL, "8@%rdi" },
  };

  g_test_init (&argc, &argv, NULL);
#define ADD(name, data, function)                                                                  \
  g_test_add ("/heap-probes/" name, Fixture, data, set_up, function, tear_down)
  for (gsize i = 0; i < G_N_ELEMENTS (bad_arguments); i++)
    {
      g_autofree char *name
          = g_strdup_printf ("/heap-probes/refuses-arguments/%" G_GSIZE_FORMAT, i);

      g_test_add (name, Fixture, bad_arguments[i], set_up, test_refuses_arguments, tear_down);
    }
  ADD ("refuses-hits", NULL, test_refuses_hits);
  ADD ("leaves-our-own", NULL, test_leaves_our_own);
  ADD ("tells-refusals", NULL, test_tells_refusals);
  ADD ("asks-for-what-is-mapped", NULL, test_finds);
  ADD ("tells-of-blocks-and-of-their-ends", NULL, test_blocks);
  ADD ("thins-out-what-is-sampled-too-often", NULL, test_thins_out);
  ADD ("bounds-blocks", NULL, test_bounds_blocks);
  ADD ("follows-a-child", NULL, test_child);
#undef ADD
  return g_test_run ();
}
