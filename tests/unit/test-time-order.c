/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order against GLib's, with items of one time that must stay in theirs. */
#include "base/time-order.h"

#include <glib.h>

#define N_ITEMS  1000
#define N_ROUNDS 300

typedef struct
{
  gint64 time_ns;
  guint32 number;
} Item;

static int
compare (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Item *left = a;
  const Item *right = b;

  return left->time_ns < right->time_ns ? -1 : left->time_ns > right->time_ns;
}

/* Of @n_items in @items, some in runs of about @run_length. */
static void
check_order (guint n_items, guint run_length, gint64 n_times)
{
  g_autofree Item *items = g_new (Item, n_items + 1);
  g_autofree Item *scratch = g_new (Item, n_items + 1);
  g_autofree Item *wanted = g_new (Item, n_items + 1);
  const Item *sorted;
  gint64 time_ns = 0;

  for (guint i = 0; i < n_items; i++)
    {
      time_ns = run_length == 0 || g_test_rand_int_range (0, (gint32) run_length) == 0
                    ? g_test_rand_int ()
                    : time_ns + 1;
      items[i] = (Item){ n_times > 0 ? time_ns % n_times : time_ns, i };
    }
  memcpy (wanted, items, n_items * sizeof *items);
  g_qsort_with_data (wanted, (gint) n_items, sizeof *wanted, compare, NULL); /* is stable */
  sorted = sonde_time_order (items, scratch, n_items, sizeof (Item));
  g_assert_true (sorted == items || sorted == scratch);
  for (guint i = 0; i < n_items; i++)
    {
      g_assert_cmpint (sorted[i].time_ns, ==, wanted[i].time_ns);
      g_assert_cmpuint (sorted[i].number, ==, wanted[i].number);
    }
}

static void
sorts_as_glib_does (void)
{
  for (guint n = 0; n < 9; n++)
    check_order (n, 0, 3);
  for (guint i = 0; i < N_ROUNDS; i++)
    check_order ((guint) g_test_rand_int_range (0, N_ITEMS), (guint) g_test_rand_int_range (0, 99),
                 i % 3 == 0 ? 7 : 0);
}

static void
leaves_what_is_sorted_where_it_is (void)
{
  Item items[] = { { -5, 0 }, { -5, 1 }, { G_MININT64, 2 }, { 0, 3 }, { G_MAXINT64, 4 } };
  Item scratch[G_N_ELEMENTS (items)];

  g_assert_true (sonde_time_order (items + 2, scratch, 3, sizeof (Item)) == items + 2);
  g_assert_true (sonde_time_order (items, scratch, 0, sizeof (Item)) == items);
  g_assert_true (sonde_time_order (items, scratch, G_N_ELEMENTS (items), sizeof (Item)) == scratch);
  g_assert_cmpuint (scratch[0].number, ==, 2);
  g_assert_cmpuint (scratch[1].number, ==, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/time-order/sorts-as-glib-does", sorts_as_glib_does);
  g_test_add_func ("/time-order/leaves-what-is-sorted-where-it-is",
                   leaves_what_is_sorted_where_it_is);

  return g_test_run ();
}
