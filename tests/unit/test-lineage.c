/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whom two events watch. */
#include "daemon/capture/lineage.h"

#define PARENT 10
#define CHILD  11
#define GRAND  12

static void
test_costs_nothing (void)
{
  g_autoptr (SondeLineage) lineage = sonde_lineage_new ();

  sonde_lineage_add (lineage, 1, PARENT, false);
  sonde_lineage_add (lineage, 2, CHILD, false);
  g_assert_true (sonde_lineage_takes (lineage, 1, CHILD));
  g_assert_true (sonde_lineage_takes (lineage, 2, CHILD));
}

/* A thread that was made while events were opened: it has its parent's and its own. */
static void
test_one_line (void)
{
  g_autoptr (SondeLineage) lineage = sonde_lineage_new ();

  sonde_lineage_add (lineage, 1, PARENT, false);
  sonde_lineage_add (lineage, 2, PARENT, false); /* on another CPU */
  sonde_lineage_add (lineage, 3, CHILD, true);
  g_assert_true (sonde_lineage_takes (lineage, 1, PARENT));
  g_assert_true (sonde_lineage_takes (lineage, 3, CHILD));
  g_assert_false (sonde_lineage_takes (lineage, 1, CHILD));
  g_assert_true (sonde_lineage_takes (lineage, 3, CHILD));
  /* Its own children have both lines, too. */
  g_assert_true (sonde_lineage_takes (lineage, 2, GRAND));
  g_assert_false (sonde_lineage_takes (lineage, 3, GRAND));
  g_assert_true (sonde_lineage_takes (lineage, 1, GRAND));
}

static void
test_number_used_again (void)
{
  g_autoptr (SondeLineage) lineage = sonde_lineage_new ();

  sonde_lineage_add (lineage, 1, PARENT, false);
  sonde_lineage_add (lineage, 3, CHILD, true);
  g_assert_true (sonde_lineage_takes (lineage, 3, GRAND));
  sonde_lineage_forget (lineage, GRAND);
  g_assert_true (sonde_lineage_takes (lineage, 1, GRAND));
  g_assert_false (sonde_lineage_takes (lineage, 3, GRAND));
}

static void
test_unknown (void)
{
  g_autoptr (SondeLineage) lineage = sonde_lineage_new ();

  sonde_lineage_add (lineage, 1, PARENT, false);
  sonde_lineage_add (lineage, 3, CHILD, true);
  g_assert_true (sonde_lineage_takes (lineage, 1, CHILD));
  g_assert_true (sonde_lineage_takes (lineage, 0, CHILD));
  g_assert_true (sonde_lineage_takes (lineage, 4, CHILD));
  g_assert_true (sonde_lineage_takes (lineage, 3, 0));
}

static void
test_bound (void)
{
  g_autoptr (SondeLineage) lineage = sonde_lineage_new ();

  sonde_lineage_add (lineage, 1, PARENT, false);
  sonde_lineage_add (lineage, 3, CHILD, true);
  for (int32_t tid = 1; tid <= SONDE_LINEAGE_MAX_TASKS; tid++)
    g_assert_true (sonde_lineage_takes (lineage, 1, tid));
  g_assert_false (sonde_lineage_takes (lineage, 3, CHILD));
  g_assert_true (sonde_lineage_takes (lineage, 3, SONDE_LINEAGE_MAX_TASKS + 1));
  /* Forgotten with all others. */
  g_assert_true (sonde_lineage_takes (lineage, 3, CHILD));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/lineage/takes-all-before-a-late-event", test_costs_nothing);
  g_test_add_func ("/lineage/takes-one-line-of-descent", test_one_line);
  g_test_add_func ("/lineage/forgets-tasks-that-exit", test_number_used_again);
  g_test_add_func ("/lineage/takes-what-it-cannot-judge", test_unknown);
  g_test_add_func ("/lineage/remembers-within-bounds", test_bound);
  return g_test_run ();
}
