/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks that come again are known by their bytes, process and mappings, in bounded memory. */
#include "client/model/stack-cache.h"

#define N_STACKS 5000u
#define DEPTH    7u

static SondeFrameStack
stack_of (const guint64 *addrs, guint n_addrs, guint32 generation)
{
  return (SondeFrameStack){ (const guint8 *) addrs, n_addrs, TRUE, generation };
}

/* The number of the stack, which has @location twice if it is new. */
static guint32
ensure (SondeStackCache *cache,
        guint process,
        const SondeFrameStack *stack,
        guint32 location,
        gboolean *is_new)
{
  g_autoptr (GArray) locations = g_array_new (FALSE, FALSE, sizeof (guint32));
  SondeCachedStack known;

  *is_new = !sonde_stack_cache_lookup (cache, process, stack, &known);
  if (*is_new)
    {
      g_array_append_val (locations, location);
      g_array_append_val (locations, location);
      sonde_stack_cache_add (cache, process, stack, locations, &known);
    }
  g_assert_cmpuint (known.n_locations, ==, 2);
  g_assert_cmpuint (known.locations[0], ==, location);
  g_assert_cmpuint (known.locations[1], ==, location);
  return known.number;
}

static void
knows_each_stack_again (void)
{
  g_autoptr (SondeStackCache) cache = sonde_stack_cache_new ();
  guint64 addrs[DEPTH] = { 0 };
  gboolean is_new;

  for (guint turn = 0; turn < 2; turn++)
    for (guint i = 0; i < N_STACKS; i++)
      {
        SondeFrameStack stack = stack_of (addrs, DEPTH, 1);

        for (guint k = 0; k < DEPTH; k++)
          addrs[k] = 0x400000 + (guint64) i * (k + 1);
        g_assert_cmpuint (ensure (cache, 3, &stack, i, &is_new), ==, i);
        g_assert_true (is_new == (turn == 0));
      }
}

/* The first one, too, before the cache has any address. */
static void
knows_the_stack_of_no_addresses (void)
{
  g_autoptr (SondeStackCache) cache = sonde_stack_cache_new ();
  g_autoptr (GArray) none = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint64 none_of_it = 0;
  SondeFrameStack stack = stack_of (&none_of_it, 0, 1);
  SondeCachedStack known;

  g_assert_false (sonde_stack_cache_lookup (cache, 3, &stack, &known));
  sonde_stack_cache_add (cache, 3, &stack, none, &known);
  known = (SondeCachedStack){ .number = 7, .n_locations = 7 };
  g_assert_true (sonde_stack_cache_lookup (cache, 3, &stack, &known));
  g_assert_cmpuint (known.number, ==, 0);
  g_assert_cmpuint (known.n_locations, ==, 0);
}

static void
tells_stacks_apart (void)
{
  g_autoptr (SondeStackCache) cache = sonde_stack_cache_new ();
  static const guint64 addrs[] = { 1, 2, 3, 4, 0 };
  static const guint64 other[] = { 1, 2, 4, 3 };
  const SondeFrameStack first = stack_of (addrs, 4, 1);
  const SondeFrameStack mapped = stack_of (addrs, 4, 2);
  const SondeFrameStack shorter = stack_of (addrs, 3, 1);
  const SondeFrameStack longer = stack_of (addrs, 5, 1);
  const SondeFrameStack turned = stack_of (other, 4, 1);
  const SondeFrameStack empty = stack_of (addrs, 0, 1);
  gboolean is_new;

  g_assert_cmpuint (ensure (cache, 1, &first, 10, &is_new), ==, 0);
  g_assert_cmpuint (ensure (cache, 2, &first, 11, &is_new), ==, 1);
  g_assert_cmpuint (ensure (cache, 1, &mapped, 12, &is_new), ==, 2);
  g_assert_cmpuint (ensure (cache, 1, &shorter, 13, &is_new), ==, 3);
  g_assert_cmpuint (ensure (cache, 1, &longer, 14, &is_new), ==, 4);
  g_assert_cmpuint (ensure (cache, 1, &turned, 15, &is_new), ==, 5);
  g_assert_cmpuint (ensure (cache, 1, &empty, 16, &is_new), ==, 6);
  g_assert_cmpuint (ensure (cache, 1, &first, 10, &is_new), ==, 0);
  g_assert_false (is_new);
}

/* However many there are: the largest that a frame holds, until numbers begin again. */
static void
begins_again_when_it_is_full (void)
{
  g_autoptr (SondeStackCache) cache = sonde_stack_cache_new ();
  guint64 addrs[8000] = { 0 };
  const SondeFrameStack stack = stack_of (addrs, G_N_ELEMENTS (addrs), 1);
  guint32 number = 0;
  SondeCachedStack known;
  gboolean is_new;

  for (guint i = 0; i < 100000 && (i < 2 || number > 0); i++)
    {
      addrs[0] = i;
      number = ensure (cache, 1, &stack, i, &is_new);
      g_assert_true (is_new);
    }
  g_assert_cmpuint (number, ==, 0);
  g_assert_cmpuint (addrs[0], >, 100);
  addrs[0] = 1;
  g_assert_false (sonde_stack_cache_lookup (cache, 1, &stack, &known));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/stack-cache/knows-each-stack-again", knows_each_stack_again);
  g_test_add_func ("/stack-cache/knows-the-stack-of-no-addresses", knows_the_stack_of_no_addresses);
  g_test_add_func ("/stack-cache/tells-stacks-apart", tells_stacks_apart);
  g_test_add_func ("/stack-cache/begins-again-when-it-is-full", begins_again_when_it_is_full);

  return g_test_run ();
}
