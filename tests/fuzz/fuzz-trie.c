/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes foreign words into a region of call tries between a reader's turns, and checks what it
 * tells. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared-ring/trie-reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define REGION_BYTES (128u * 1024)
#define MAX_STEPS    4096

/*
 * An input: steps of 8 bytes. The first four are a word's number in the region, which becomes the
 * other four; or, where there is no such word, the reader has a turn, for as many nodes as the
 * other four say, modulo 64, and one more.
 */
#define TURN (REGION_BYTES / 4)

typedef struct
{
  uint64_t calls;
  uint64_t timed;
  uint64_t in_buckets;
  uint32_t n_told;
  bool was_told[REGION_BYTES / SONDE_TRIE_NODE_BYTES];
} Sums;

static void
add (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  Sums *sums = user_data;
  uint64_t in_buckets = 0;

  if (change->node >= REGION_BYTES / SONDE_TRIE_NODE_BYTES || change->parent >= change->node
      || (change->parent != 0 && !sums->was_told[change->parent]))
    abort ();
  sums->was_told[change->node] = true;
  sums->n_told++;
  sums->calls += change->calls;
  if (!change->is_timed)
    return;
  for (uint32_t i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
    in_buckets += times->buckets[i];
  if (times->timed == 0 && in_buckets == 0)
    abort ();
  sums->timed += times->timed;
  sums->in_buckets += in_buckets;
  if (!(sonde_trie_quantile (times, 0.5) <= sonde_trie_quantile (times, 0.99)))
    abort ();
}

static void
add_slow (const SondeTrieSlowCall *call, void *user_data)
{
  Sums *sums = user_data;

  if (!sums->was_told[call->node])
    abort ();
}

static void
take_turn (SondeTrieReader *reader, uint32_t max_nodes, Sums *sums)
{
  uint32_t before = sums->n_told;
  uint32_t nodes[64];
  SondeTrieCounts counts;
  int32_t tid;
  int r = sonde_trie_reader_turn (reader, max_nodes, add, sums);

  if (sums->n_told - before > max_nodes
      || (r < 0) != (sonde_trie_reader_fault (reader) != SONDE_TRIE_OK))
    abort ();
  if (sonde_trie_reader_count (reader, &counts) == 0 && counts.counted != sums->calls)
    abort ();
  sonde_trie_reader_take_slow_calls (reader, add_slow, sums);
  for (uint32_t slot = 0; slot < 4; slot++)
    {
      size_t n = sonde_trie_reader_last_words (reader, slot, nodes, 64, &tid);

      for (size_t i = 0; i < n; i++)
        if (nodes[i] != 0 && !sums->was_told[nodes[i]])
          abort ();
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static Sums sums, all;
  const SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  Input input = { data, size };
  SondeTrieMemory made, mapped;
  SondeTrieReader *reader;
  int fd;

  if (sonde_trie_memory_create (REGION_BYTES, &wish, &made, &fd) < 0
      || sonde_trie_memory_map (fd, &mapped) < 0 || sonde_trie_reader_new (&made, &reader) < 0)
    abort ();
  close (fd);
  memset (&sums, 0, sizeof sums);
  memset (&all, 0, sizeof all);

  for (uint32_t i = 0; i < MAX_STEPS && input.left > 0; i++)
    {
      uint32_t step[2] = { 0 };

      input_take (&input, step, sizeof step);
      if (step[0] < TURN)
        ((uint32_t *) (void *) mapped.base)[step[0]] = step[1];
      else
        take_turn (reader, step[1] % 64 + 1, &sums);
    }
  /* Who comes late gets what the others got. */
  sonde_trie_reader_tell_all (reader, add, &all);
  if (sonde_trie_reader_fault (reader) == SONDE_TRIE_OK
      && (all.calls != sums.calls || all.timed != sums.timed || all.in_buckets != sums.in_buckets))
    abort ();

  sonde_trie_reader_free (reader);
  sonde_trie_memory_unmap (&mapped);
  sonde_trie_memory_unmap (&made);
  return 0;
}
