/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocates and frees the same each time: same-blocks [--disputed]. With --disputed some blocks are
 * temporary for us, and not for heaptrack. Threads live one after the other. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define N_TEMPORARY 1000
#define N_KEPT      64
#define N_DISPUTED  10

#if !__has_attribute(noipa)
#define APART __attribute__ ((noinline, optnone))
#else
#define APART __attribute__ ((noipa))
#endif

static void *kept[N_KEPT];

static APART void *
make (size_t size_bytes)
{
  return calloc (1, size_bytes);
}

static APART void
make_temporary (int n)
{
  for (int i = 0; i < n; i++)
    free (make (100 + (size_t) i % 7));
}

static inline __attribute__ ((always_inline)) void *
make_inlined (size_t size_bytes)
{
  void *block = malloc (size_bytes);

  __asm__ volatile("" : "+r"(block) : : "memory"); /* it may not be left out */
  return block;
}

/* Half of them stay. */
static APART void
keep (size_t size_bytes)
{
  for (size_t i = 0; i < N_KEPT; i++)
    kept[i] = make_inlined (size_bytes + i);
  for (size_t i = 0; i < N_KEPT; i += 2)
    free (kept[i]);
}

static APART void
resize (void)
{
  char *text = strdup ("text");

  for (size_t i = 1; i < 50 && text != NULL; i++)
    text = realloc (text, 3000 * i);
  free (text);
}

static APART void
align (void)
{
  void *block = NULL;
  void *other;

  if (posix_memalign (&block, 256, 5000) != 0)
    return;
  other = aligned_alloc (64, 640);
  free (block);
  free (other);
}

static APART void
recurse (int depth)
{
  void *block = make ((size_t) depth);

  if (depth > 1)
    recurse (depth - 1);
  free (block);
}

/* What another thread frees was allocated by this one. */
static APART void *
run (void *block)
{
  free (block);
  block = make (1234);
  make_temporary (10);
  recurse (20);
  return block;
}

/* The second is freed before anything else is allocated, but not right behind its allocation. */
static APART void
dispute (void)
{
  for (int i = 0; i < N_DISPUTED; i++)
    {
      void *blocks[2];

      for (int j = 0; j < 2; j++)
        blocks[j] = make (40 + (size_t) j);
      free (blocks[0]);
      free (blocks[1]);
    }
}

int
main (int argc, char **argv)
{
  void *block = make (777);

  if (argc > 1 && strcmp (argv[1], "--disputed") == 0)
    dispute ();
  make_temporary (N_TEMPORARY);
  keep (4000);
  resize ();
  align ();
  for (int i = 0; i < 5; i++)
    {
      pthread_t thread;

      if (pthread_create (&thread, NULL, run, block) != 0)
        return EXIT_FAILURE;
      pthread_join (thread, &block);
    }
  return EXIT_SUCCESS;
}
