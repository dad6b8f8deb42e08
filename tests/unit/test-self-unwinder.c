/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks walked in place: against libgcc's unwinder, and with stacks that change under the memory
 * of the last one. */
#include <alloca.h>
#include <dlfcn.h>
#include <glib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "unwind/self-unwinder.h"

#define MAX_ADDRS 64
#define N_STACKS  3000

static SondeSelfUnwinder *unwinder;
static SondeSelfUnwinder *forgetful; /* has never walked */
static guint n_checked;
static guint n_max_addrs = MAX_ADDRS;

typedef struct
{
  guint64 addrs[1024];
  guint n;
} Reference;

static _Unwind_Reason_Code
take (struct _Unwind_Context *context, void *data)
{
  Reference *reference = data;

  if (_Unwind_GetIP (context) == 0 || reference->n == G_N_ELEMENTS (reference->addrs))
    return _URC_END_OF_STACK;
  reference->addrs[reference->n++] = _Unwind_GetIP (context);
  return _URC_NO_REASON;
}

/* As an allocating function does it. The reference begins with this function. */
static void __attribute__ ((noinline)) check_here (void)
{
  const SondeCallSite caller = SONDE_CALL_SITE ();
  Reference reference = { .n = 0 };
  guint64 addrs[MAX_ADDRS];
  gsize n = sonde_self_unwinder_walk (unwinder, &caller, addrs, n_max_addrs);

  _Unwind_Backtrace (take, &reference);
  g_assert_cmpuint (reference.n, >, 1);
  g_assert_cmpuint (n, ==, MIN (reference.n - 1, n_max_addrs));
  for (gsize i = 0; i < n; i++)
    g_assert_cmphex (addrs[i], ==, reference.addrs[i + 1]);
  /* What is remembered of the sum is what all of it adds up to. */
  g_assert_cmphex (sonde_self_unwinder_hash (unwinder, addrs, n), ==,
                   sonde_self_unwinder_hash (forgetful, addrs, n));
  n_checked++;
}

/* Frames of all sizes, on paths that return to the same depth from other places. */
static guint __attribute__ ((noinline)) descend (guint depth, guint path)
{
  volatile guint sum = 0;

  if (depth == 0)
    {
      check_here ();
      check_here ();
      return 1;
    }
  if ((path & 1) != 0)
    sum += descend (depth - 1, path >> 1);
  else
    sum += descend (depth - 1, path >> 1) * 2;
  if ((path & 15) == 3)
    {
      volatile char *block = alloca ((path & 255) + 1);

      block[0] = 1;
      sum += descend (depth / 2, path >> 3) + (guint) block[0];
    }
  return sum;
}

static void
walks_random_stacks (void)
{
  srandom (4711);
  for (guint i = 0; i < N_STACKS; i++)
    descend ((guint) random () % 80, (guint) random ());
  g_assert_cmpuint (n_checked, >, 2 * N_STACKS);
}

static void
cuts_deep_stacks (void)
{
  for (guint limit = 1; limit <= MAX_ADDRS; limit += 7)
    {
      n_max_addrs = limit;
      for (guint depth = 0; depth < 600; depth += 13)
        descend (depth, depth & 1 ? 0 : 0xAAAAAAAA);
      for (guint depth = 600; depth > 13; depth -= 13)
        descend (depth, depth & 1 ? 0 : 0xAAAAAAAA);
    }
  n_max_addrs = MAX_ADDRS;
}

static gint
compare (gconstpointer a, gconstpointer b)
{
  check_here ();
  return *(const gint *) a - *(const gint *) b;
}

static void
walks_through_libraries (void)
{
  gint numbers[100];

  srandom (1);
  for (guint i = 0; i < 20; i++)
    {
      for (guint k = 0; k < G_N_ELEMENTS (numbers); k++)
        numbers[k] = (gint) random () & 0xffff;
      qsort (numbers, G_N_ELEMENTS (numbers), sizeof *numbers, compare);
    }
}

/* Realigned for a vector that is wider than the stack is aligned. */
static char __attribute__ ((noinline)) walk_realigned (guint depth)
{
  volatile struct
  {
    _Alignas(64) char bytes[64];
  } vector;

  vector.bytes[0] = (char) depth;
  if (depth > 0)
    vector.bytes[1] = walk_realigned (depth - 1);
  else
    descend (3, 5);
  return vector.bytes[0];
}

static void
walks_realigned_stacks (void)
{
  for (guint i = 0; i < 100; i++)
    walk_realigned (i % 7);
}

static void
forgets_modules (void)
{
  for (guint i = 0; i < 10; i++)
    {
      descend (10, i);
      sonde_self_unwinder_forget_modules ();
      descend (10, i);
    }
}

/* A thread's own stack ends where its control block is. */
static gpointer
walk_in_thread (gpointer data)
{
  SondeSelfUnwinder *saved = unwinder;

  unwinder = sonde_self_unwinder_new ();
  for (guint i = 0; i < 300; i++)
    descend (i % 40, i * 77);
  sonde_self_unwinder_free (unwinder);
  unwinder = saved;
  return NULL;
}

/* Places of a stack do not stand for each other, as deep as a stack may be. */
static void
tells_stacks_apart_by_their_hash (void)
{
  g_autoptr (GHashTable) hashes = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  guint64 addrs[SONDE_SELF_UNWINDER_MAX_ADDRS];
  guint64 hash;
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (addrs); i++)
    addrs[i] = 0x401000;
  /* One frame that is different, by a little or by much, and each depth. */
  for (guint i = 0; i < G_N_ELEMENTS (addrs); i++)
    {
      static const guint64 differences[] = { 1, 16, 0x200000, 0x7f0000000000, -UINT64_C (16) };

      for (guint k = 0; k < G_N_ELEMENTS (differences); k++, n++)
        {
          addrs[i] += differences[k];
          hash = sonde_self_unwinder_hash (forgetful, addrs, G_N_ELEMENTS (addrs));
          g_hash_table_add (hashes, g_memdup2 (&hash, sizeof hash));
          addrs[i] -= differences[k];
        }
      hash = sonde_self_unwinder_hash (forgetful, addrs, i + 1);
      g_hash_table_add (hashes, g_memdup2 (&hash, sizeof hash));
      n++;
    }
  g_assert_cmpuint (g_hash_table_size (hashes), ==, n);
}

static void
walks_stacks_of_threads (void)
{
  g_thread_join (g_thread_new ("walker", walk_in_thread, NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  unwinder = sonde_self_unwinder_new ();
  forgetful = sonde_self_unwinder_new ();
  g_assert_nonnull (unwinder);
  g_assert_nonnull (forgetful);
  g_test_add_func ("/self-unwinder/walks-random-stacks", walks_random_stacks);
  g_test_add_func ("/self-unwinder/cuts-deep-stacks", cuts_deep_stacks);
  g_test_add_func ("/self-unwinder/walks-through-libraries", walks_through_libraries);
  g_test_add_func ("/self-unwinder/walks-realigned-stacks", walks_realigned_stacks);
  g_test_add_func ("/self-unwinder/walks-stacks-of-threads", walks_stacks_of_threads);
  g_test_add_func ("/self-unwinder/tells-stacks-apart-by-their-hash",
                   tells_stacks_apart_by_their_hash);
  g_test_add_func ("/self-unwinder/forgets-modules", forgets_modules);
  argc = g_test_run ();
  sonde_self_unwinder_free (unwinder);
  sonde_self_unwinder_free (forgetful);
  return argc;
}
