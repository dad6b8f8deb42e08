/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tries that are written while they are read, by threads, by programs that are killed, and by one
 * that writes anything. */
#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "shared-ring/ring-atomic.h"
#include "tests/lib/trie-fixture.h"

#ifdef IS_EMULATED
#define N_CALLS 20000
#else
#define N_CALLS 200000
#endif
#define N_THREADS 3

#define SP(depth) (0x80000 - 0x100 * (guint64) (depth))

static const SondeTrieUser user;

/* Of one thread: a path of four, another callee each time. */
static void
call_all (SondeTrieWriter *writer, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      sonde_trie_enter (writer, 'a', SP (1));
      sonde_trie_enter (writer, 'b' + i % 2, SP (2));
      sonde_trie_enter (writer, 0x1000 + i % 97, SP (3));
      sonde_trie_exit (writer, SP (3));
      sonde_trie_exit (writer, SP (2));
      sonde_trie_exit (writer, SP (1));
    }
}

typedef struct
{
  TrieFixture *trie;
  guint n_done;
  guint n_started;
} Work;

static void *
work (void *data)
{
  Work *all = data;
  gint32 tid = (gint32) __atomic_add_fetch (&all->n_started, 1, __ATOMIC_RELAXED);

  /* Others adopt what it leaves. */
  for (guint i = 0; i < 20; i++)
    {
      SondeTrieWriter *writer = trie_fixture_take (all->trie, tid);

      g_assert_nonnull (writer);
      call_all (writer, N_CALLS / 20);
      sonde_trie_leave_writer (writer);
    }
  __atomic_add_fetch (&all->n_done, 1, __ATOMIC_RELEASE);
  return NULL;
}

typedef struct
{
  GHashTable *seen; /* nodes that were told of */
  guint64 calls;
  guint64 timed;
  guint64 in_buckets;
} Sum;

static void
add (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  Sum *sum = user_data;

  g_hash_table_add (sum->seen, GUINT_TO_POINTER (change->node));
  if (change->parent != 0)
    g_assert_true (g_hash_table_contains (sum->seen, GUINT_TO_POINTER (change->parent)));
  sum->calls += change->calls;
  if (!change->is_timed)
    return;
  sum->timed += times->timed;
  for (guint i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
    sum->in_buckets += times->buckets[i];
}

static void
what_threads_write_is_read_meanwhile (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  Sum sum = { .seen = g_hash_table_new (NULL, NULL) };
  pthread_t threads[N_THREADS];
  SondeTrieCounts counts;
  guint n_turns = 0;
  gboolean is_done;
  Work all = { 0 };
  int r;

  wish.mode = SONDE_TRIE_EXACT;
  all.trie = trie_fixture_new (4 * 1024 * 1024, &wish, &user, TRUE);
  for (guint i = 0; i < N_THREADS; i++)
    g_assert_cmpint (pthread_create (&threads[i], NULL, work, &all), ==, 0);
  do
    {
      is_done = __atomic_load_n (&all.n_done, __ATOMIC_ACQUIRE) == N_THREADS;
      while ((r = sonde_trie_reader_turn (all.trie->reader, 50, add, &sum)) == 1)
        n_turns++;
      g_assert_cmpint (r, ==, 0);
    }
  while (!is_done);
  g_assert_cmpint (sonde_trie_reader_turn (all.trie->reader, G_MAXUINT32, add, &sum), ==, 0);
  for (guint i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);

  g_assert_cmpint (sonde_trie_reader_count (all.trie->reader, &counts), ==, 0);
  g_test_message ("%u turns, %u slots", n_turns, counts.n_slots);
  g_assert_cmpuint (sum.calls, ==, (guint64) N_THREADS * N_CALLS / 20 * 20 * 3);
  g_assert_cmpuint (counts.calls, ==, sum.calls);
  g_assert_cmpuint (sum.timed, ==, sum.calls);
  g_assert_cmpuint (sum.in_buckets, ==, sum.calls);
  g_assert_cmpuint (counts.n_slots, <=, 2 * (N_THREADS + 1));
  g_assert_cmpuint (counts.unmatched, ==, 0);
  g_hash_table_unref (sum.seen);
  trie_fixture_free (all.trie);
}

/* Of a node that is written all the time: what the header promises of @timed and the buckets. */
typedef struct
{
  SondeTrieWriter *writer;
  guint is_over;
} Busy;

static void *
be_busy (void *data)
{
  Busy *busy = data;

  while (!__atomic_load_n (&busy->is_over, __ATOMIC_RELAXED))
    {
      sonde_trie_enter (busy->writer, 'a', SP (1));
      sonde_trie_exit (busy->writer, SP (1));
    }
  return NULL;
}

static guint64
sum_buckets (const SondeTrieMemory *memory, const SondeTrieTiming *timing)
{
  guint64 sum = 0;

  for (guint i = 0; i < SONDE_CALLS_N_OCTAVES; i++)
    {
      guint32 line = sonde_ring_load_acquire (&timing->octaves[i]);
      const SondeTrieOctave *octave = (gconstpointer) (memory->base + (gsize) line * 64);

      for (guint j = 0; line != 0 && j < SONDE_CALLS_OCTAVE_BUCKETS; j++)
        sum += sonde_ring_load_acquire (&octave->buckets[j]);
    }
  return sum;
}

static void
find_timing (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  guint32 *node = user_data;

  if (change->function == 'a')
    *node = change->node;
}

static void
buckets_are_between_two_looks_at_their_sum (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  const SondeTrieTiming *timing;
  TrieFixture *trie;
  pthread_t thread;
  Busy busy = { 0 };
  guint32 node = 0;
  guint n_checks;

  wish.mode = SONDE_TRIE_EXACT;
  trie = trie_fixture_new (1024 * 1024, &wish, &user, TRUE);
  busy.writer = trie_fixture_take (trie, 1);
  sonde_trie_enter (busy.writer, 'a', SP (1));
  sonde_trie_exit (busy.writer, SP (1));
  sonde_trie_reader_turn (trie->reader, 100, find_timing, &node);
  g_assert_cmpuint (node, !=, 0);
  {
    const SondeTrieNode *shared = (gconstpointer) (trie->memory.base + (gsize) node * 32);

    timing
        = (gconstpointer) (trie->memory.base + (gsize) (shared->timing & ~SONDE_TRIE_FLAGS) * 64);
  }
  g_assert_cmpint (pthread_create (&thread, NULL, be_busy, &busy), ==, 0);
  for (n_checks = 0; n_checks < N_CALLS / 2; n_checks++)
    {
      guint64 before = sonde_ring_load_acquire (&timing->timed);
      guint64 sum = sum_buckets (&trie->memory, timing);
      guint64 after = sonde_ring_load_acquire (&timing->timed);

      g_assert_cmpuint (before, <=, sum + 1);
      g_assert_cmpuint (sum, <=, after);
    }
  __atomic_store_n (&busy.is_over, 1, __ATOMIC_RELAXED);
  pthread_join (thread, NULL);
  trie_fixture_free (trie);
}

/* What a program says on a pipe of its own before it calls, against what its region has behind the
 * kill signal. */
static void
what_a_killed_program_counted_is_there (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;

  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (TrieFixture) trie = trie_fixture_new (1024 * 1024, &wish, &user, FALSE);
      guint64 *said = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      guint32 nodes[16];
      SondeTrieCounts counts;
      gint32 tid = 0;
      pid_t child;

      g_assert_true (said != MAP_FAILED);
      child = fork ();
      if (child == 0)
        {
          SondeTrieMemory mapped;
          SondeTrieWriter *writer;
          SondeTrie *own;

          /* What it has of its parent is gone; it maps the file itself. */
          if (sonde_trie_memory_map (trie->fd, &mapped) < 0
              || sonde_trie_new (&mapped, &user, &own) < 0)
            _exit (1);
          writer = sonde_trie_take_writer (own, 7, &TRIE_STACK);
          sonde_trie_enter (writer, 'm', SP (0));
          for (guint64 n = 1;; n++)
            {
              __atomic_store_n (said, n, __ATOMIC_RELEASE);
              sonde_trie_enter (writer, 'a', SP (1));
              sonde_trie_exit (writer, SP (1));
            }
        }
      while (__atomic_load_n (said, __ATOMIC_ACQUIRE) < 1000)
        g_usleep (50);
      /* At any moment. */
      g_usleep (g_random_int_range (0, 2000));
      kill (child, SIGKILL);
      g_assert_cmpint (waitpid (child, NULL, 0), ==, child);

      counts = trie_fixture_count (trie);
      g_assert_cmpuint (counts.counted, >=, *said);
      g_assert_cmpuint (counts.counted, <=, *said + 1);
      {
        guint n_words = 0;

        for (guint slot = 0; slot < counts.n_slots; slot++)
          n_words = MAX (
              n_words, (guint) sonde_trie_reader_last_words (trie->reader, slot, nodes, 16, &tid));
        /* The root, m, and a if it was there. */
        g_assert_cmpuint (n_words, >=, 2);
        g_assert_cmpuint (n_words, <=, 3);
        g_assert_cmpint (tid, ==, 7);
      }
      munmap (said, 4096);
    }
}

/* Any word, at any time. */
typedef struct
{
  guint32 *words;
  gsize n_words;
  guint32 seed;
  guint is_over;
} Scribbler;

static void *
scribble (void *data)
{
  Scribbler *self = data;
  guint64 random = self->seed;

  while (!__atomic_load_n (&self->is_over, __ATOMIC_RELAXED))
    {
      guint32 *word;

      random = random * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
      word = &self->words[(random >> 33) % self->n_words];
      /* Often almost what it was. */
      __atomic_store_n (word,
                        random >> 62 == 0
                            ? (guint32) (random >> 20)
                            : __atomic_load_n (word, __ATOMIC_RELAXED) + (guint32) (random >> 60),
                        __ATOMIC_RELAXED);
    }
  return NULL;
}

static void
check_change (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  g_assert_cmpuint (change->parent, <, change->node);
}

static void
a_region_that_is_scribbled_on_harms_nobody (void)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  guint n_faults = 0;

  wish.mode = SONDE_TRIE_EXACT;
  for (guint i = 0; i < 200; i++)
    {
      TrieFixture *trie = trie_fixture_new (256 * 1024, &wish, &user, TRUE);
      SondeTrieWriter *writer = trie_fixture_take (trie, 1);
      Scribbler scribbler = { .seed = i + 1 };
      SondeTrieReader *reader = trie->reader;
      SondeTrieCounts counts;
      SondeTrieMemory mapped;
      guint32 nodes[100];
      pthread_t thread;
      gint32 tid;

      call_all (writer, 500);
      g_assert_cmpint (sonde_trie_memory_map (trie->fd, &mapped), ==, 0);
      /* Each third: with all known, before. */
      if (i % 3 == 0)
        g_assert_cmpint (sonde_trie_reader_turn (reader, G_MAXUINT32, check_change, NULL), ==, 0);
      /* From the second line on: the rest of the header is not read again. */
      scribbler.words = (guint32 *) (gpointer) mapped.base + 16;
      scribbler.n_words = (i % 2 == 0 ? 256 : 96) * 1024 / 4 - 16;
      g_assert_cmpint (pthread_create (&thread, NULL, scribble, &scribbler), ==, 0);
      for (guint j = 0; j < 20; j++)
        {
          sonde_trie_reader_turn (reader, 1000, check_change, NULL);
          sonde_trie_reader_count (reader, &counts);
          for (guint slot = 0; slot < 8; slot++)
            sonde_trie_reader_last_words (reader, slot, nodes, G_N_ELEMENTS (nodes), &tid);
          sonde_trie_reader_tell_all (reader, check_change, NULL);
        }
      __atomic_store_n (&scribbler.is_over, 1, __ATOMIC_RELAXED);
      pthread_join (thread, NULL);
      n_faults += sonde_trie_reader_fault (reader) != SONDE_TRIE_OK;
      sonde_trie_memory_unmap (&mapped);
      trie_fixture_free (trie);
    }
  g_test_message ("%u of 200 ended", n_faults);
  g_assert_cmpuint (n_faults, >, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/trie-threads/what-a-killed-program-counted-is-there",
                   what_a_killed_program_counted_is_there);
  g_test_add_func ("/trie-threads/a-region-that-is-scribbled-on-harms-nobody",
                   a_region_that_is_scribbled_on_harms_nobody);
  g_test_add_func ("/trie-threads/what-threads-write-is-read-meanwhile",
                   what_threads_write_is_read_meanwhile);
  g_test_add_func ("/trie-threads/buckets-are-between-two-looks-at-their-sum",
                   buckets_are_between_two_looks_at_their_sum);

  return g_test_run ();
}
