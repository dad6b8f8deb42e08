/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks, and what they tell of code, before the samples that they belong to. */
#include "daemon/capture/interpreter/walk-pairs.h"

#include <stddef.h>
#include <string.h>

#define IP  0x401000
#define PID 70
#define TID 71

static void
count_code (const SondeWalkCode *code, gpointer user_data)
{
  GArray *told = user_data;

  g_array_append_val (told, code->code);
}

static SondeWalkRecord
walk_of (uint64_t ip)
{
  return (SondeWalkRecord){ .kind = SONDE_WALK_RECORD_FRAMES,
                            .generation = 3,
                            .ip = ip,
                            .pid = PID,
                            .tid = TID,
                            .n_frames = 2,
                            .frames = { { .code = 0x1000, .entry = 1 }, { .code = 0x2000 } } };
}

static SondeWalkCode
code_of (uint64_t address)
{
  return (SondeWalkCode){ .kind = SONDE_WALK_RECORD_CODE,
                          .pid = PID,
                          .code = address,
                          .first_line = 7,
                          .lines_bytes = 5,
                          .name = { 4, 1 },
                          .file = { 8, 2 } };
}

#define WALK_BYTES (offsetof (SondeWalkRecord, frames) + 2 * sizeof (SondeWalkFrame))
#define CODE_BYTES (offsetof (SondeWalkCode, lines) + 5)

static SondePerfRecord
sample_of (int cpu, uint64_t ip)
{
  return (SondePerfRecord){
    .type = SONDE_PERF_RECORD_SAMPLE, .cpu = cpu, .pid = PID, .tid = TID, .sample.ip = ip
  };
}

static gboolean
add_numbered (SondeWalkPairs *pairs, int cpu, uint32_t number)
{
  SondeWalkRecord walk = walk_of (IP);

  walk.number = number;
  return sonde_walk_pairs_add (pairs, cpu, 1000, (const uint8_t *) &walk, WALK_BYTES);
}

static gboolean
add_walk (SondeWalkPairs *pairs, int cpu, uint64_t ip)
{
  SondeWalkRecord walk = walk_of (ip);

  return sonde_walk_pairs_add (pairs, cpu, 1000, (const uint8_t *) &walk, WALK_BYTES);
}

static void
add_code (SondeWalkPairs *pairs, int cpu, uint64_t address)
{
  SondeWalkCode code = code_of (address);

  g_assert_true (sonde_walk_pairs_add (pairs, cpu, 1000, (const uint8_t *) &code, CODE_BYTES));
}

/* --- cases --- */

static void
refuses_walks_that_cannot_be (void)
{
  SondeWalkRecord walk = walk_of (IP);
  SondeWalkRecord parsed;

  g_assert_true (sonde_walk_record_parse ((const uint8_t *) &walk, WALK_BYTES, &parsed));
  g_assert_cmpuint (parsed.frames[1].code, ==, 0x2000);
  /* The kernel pads what is written. */
  g_assert_true (sonde_walk_record_parse ((const uint8_t *) &walk, WALK_BYTES + 4, &parsed));
  for (size_t size_bytes = 0; size_bytes < WALK_BYTES; size_bytes++)
    {
      g_autofree uint8_t *cut = g_memdup2 (&walk, size_bytes);

      g_assert_false (sonde_walk_record_parse (cut, size_bytes, &parsed));
    }
#define REFUSE(change)                                                                             \
  G_STMT_START                                                                                     \
  {                                                                                                \
    walk = walk_of (IP);                                                                           \
    change;                                                                                        \
    g_assert_false (sonde_walk_record_parse ((const uint8_t *) &walk, sizeof walk, &parsed));      \
  }                                                                                                \
  G_STMT_END
  REFUSE (walk.kind = 0);
  REFUSE (walk.kind = SONDE_WALK_RECORD_CODE);
  REFUSE (walk.n_frames = SONDE_WALK_MAX_FRAMES + 1);
  REFUSE (walk.n_frames = UINT32_MAX);
  REFUSE (walk.flags = 1u << 2);
#undef REFUSE
}

static void
refuses_code_that_cannot_be (void)
{
  SondeWalkCode code = code_of (0x1000);
  SondeWalkCode parsed;

  g_assert_true (sonde_walk_code_parse ((const uint8_t *) &code, CODE_BYTES, &parsed));
  g_assert_cmpuint (parsed.lines_bytes, ==, 5);
  for (size_t size_bytes = 0; size_bytes < CODE_BYTES; size_bytes++)
    {
      g_autofree uint8_t *cut = g_memdup2 (&code, size_bytes);

      g_assert_false (sonde_walk_code_parse (cut, size_bytes, &parsed));
    }
#define REFUSE(change)                                                                             \
  G_STMT_START                                                                                     \
  {                                                                                                \
    code = code_of (0x1000);                                                                       \
    change;                                                                                        \
    g_assert_false (sonde_walk_code_parse ((const uint8_t *) &code, sizeof code, &parsed));        \
  }                                                                                                \
  G_STMT_END
  REFUSE (code.kind = 3);
  REFUSE (code.code = 0);
  REFUSE (code.pid = 1u << 31);
  REFUSE (code.lines_bytes = SONDE_WALK_LINES_BYTES + 1);
  REFUSE (code.name.size_bytes = SONDE_WALK_TEXT_BYTES + 1);
  REFUSE (code.name.width = 3);
  REFUSE (code.file.size_bytes = UINT32_MAX);
  REFUSE (code.file.width = 9);
  REFUSE (code.scope.size_bytes = SONDE_WALK_TEXT_BYTES + 1);
  REFUSE (code.scope.width = 5);
#undef REFUSE
}

static void
takes_no_walk_for_that_of_another_sample (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (count_code, told);
  SondePerfRecord sample = sample_of (1, IP + 1);

  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  g_assert_true (add_walk (pairs, 1, IP));
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  sample = sample_of (0, IP);
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  sample = sample_of (-1, IP);
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  sample = sample_of (1, IP);
  sample.tid = PID;
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  sample = sample_of (1, IP);
  sample.pid = TID;
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  /* It was before that sample, so its own did not come. */
  sonde_walk_pairs_end (pairs, 1);
  g_assert_cmpuint (sonde_walk_pairs_n_unpaired (pairs), ==, 1);
  sample = sample_of (1, IP);
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
}

static void
counts_walks_whose_sample_is_lost (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (count_code, told);
  SondePerfRecord sample = sample_of (0, IP);

  for (guint i = 0; i < 5; i++)
    g_assert_true (add_walk (pairs, 0, IP));
  g_assert_cmpuint (sonde_walk_pairs_n_unpaired (pairs), ==, 4);
  g_assert_nonnull (sonde_walk_pairs_find (pairs, &sample));
  sonde_walk_pairs_end (pairs, 0);
  g_assert_cmpuint (sonde_walk_pairs_n_unpaired (pairs), ==, 4);
}

static void
counts_records_that_did_not_come_by_their_numbers (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (count_code, told);
  SondeWalkCode code = code_of (0x1000);

  g_assert_true (add_numbered (pairs, 0, 1));
  g_assert_true (add_numbered (pairs, 1, 1));
  g_assert_cmpuint (sonde_walk_pairs_n_missing (pairs), ==, 0);
  code.number = 2;
  g_assert_true (sonde_walk_pairs_add (pairs, 0, 1000, (const uint8_t *) &code, CODE_BYTES));
  g_assert_true (add_numbered (pairs, 0, 3));
  g_assert_cmpuint (sonde_walk_pairs_n_missing (pairs), ==, 0);
  g_assert_true (add_numbered (pairs, 0, 7));
  g_assert_true (add_numbered (pairs, 1, 3));
  g_assert_cmpuint (sonde_walk_pairs_n_missing (pairs), ==, 4);
  /* What is no record has no number. */
  g_assert_false (sonde_walk_pairs_add (pairs, 0, 1000, (const uint8_t *) &code, 8));
  g_assert_true (add_numbered (pairs, 0, 8));
  g_assert_cmpuint (sonde_walk_pairs_n_missing (pairs), ==, 4);
  g_assert_true (add_numbered (pairs, 2, G_MAXUINT32));
  g_assert_true (add_numbered (pairs, 2, 0));
  g_assert_cmpuint (sonde_walk_pairs_n_missing (pairs), ==, 4 + (guint64) G_MAXUINT32 - 1);
}

static void
finds_the_same_until_the_sample_is_taken (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (count_code, told);
  SondePerfRecord sample = sample_of (2, IP);

  g_assert_true (add_walk (pairs, 2, IP));
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (sonde_walk_pairs_find (pairs, &sample)->frames[0].code, ==, 0x1000);
  sonde_walk_pairs_end (pairs, 2);
  g_assert_null (sonde_walk_pairs_find (pairs, &sample));
  g_assert_cmpuint (sonde_walk_pairs_n_unpaired (pairs), ==, 0);
}

static void
tells_of_code_when_its_sample_is_taken (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (count_code, told);
  SondePerfRecord other = sample_of (1, IP);
  SondePerfRecord sample = sample_of (0, IP);

  add_code (pairs, 0, 0x1000);
  add_code (pairs, 0, 0x2000);
  g_assert_true (add_walk (pairs, 0, IP));
  sonde_walk_pairs_find (pairs, &other);
  sonde_walk_pairs_end (pairs, 1);
  g_assert_cmpuint (told->len, ==, 0);
  g_assert_nonnull (sonde_walk_pairs_find (pairs, &sample));
  g_assert_cmpuint (told->len, ==, 2);
  g_assert_cmpuint (g_array_index (told, uint64_t, 1), ==, 0x2000);
  g_assert_nonnull (sonde_walk_pairs_find (pairs, &sample));
  g_assert_cmpuint (told->len, ==, 2);
  /* Where that sample is lost, at one of another processor that is younger. */
  add_code (pairs, 0, 0x4000);
  other.time_ns = 999;
  sonde_walk_pairs_find (pairs, &other);
  g_assert_cmpuint (told->len, ==, 2);
  other.time_ns = 1000;
  sonde_walk_pairs_find (pairs, &other);
  g_assert_cmpuint (told->len, ==, 3);
  /* Or at the next one. */
  add_code (pairs, 0, 0x3000);
  sonde_walk_pairs_end (pairs, 0);
  g_assert_cmpuint (told->len, ==, 4);
}

static void
holds_no_more_than_its_limit (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (count_code, told);

  for (uint64_t i = 1; i <= 10000; i++)
    add_code (pairs, 0, i);
  g_assert_cmpuint (told->len, >, 9000);
  sonde_walk_pairs_end (pairs, 0);
  g_assert_cmpuint (told->len, ==, 10000);
  for (guint i = 0; i < told->len; i++)
    g_assert_cmpuint (g_array_index (told, uint64_t, i), ==, i + 1);
  g_assert_false (add_walk (pairs, -1, IP));
  g_assert_false (add_walk (pairs, G_MAXINT, IP));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/walk-pairs/refuses-walks-that-cannot-be", refuses_walks_that_cannot_be);
  g_test_add_func ("/walk-pairs/refuses-code-that-cannot-be", refuses_code_that_cannot_be);
  g_test_add_func ("/walk-pairs/takes-no-walk-for-that-of-another-sample",
                   takes_no_walk_for_that_of_another_sample);
  g_test_add_func ("/walk-pairs/counts-walks-whose-sample-is-lost",
                   counts_walks_whose_sample_is_lost);
  g_test_add_func ("/walk-pairs/counts-records-that-did-not-come-by-their-numbers",
                   counts_records_that_did_not_come_by_their_numbers);
  g_test_add_func ("/walk-pairs/finds-the-same-until-the-sample-is-taken",
                   finds_the_same_until_the_sample_is_taken);
  g_test_add_func ("/walk-pairs/tells-of-code-when-its-sample-is-taken",
                   tells_of_code_when_its_sample_is_taken);
  g_test_add_func ("/walk-pairs/holds-no-more-than-its-limit", holds_no_more_than_its_limit);
  return g_test_run ();
}
