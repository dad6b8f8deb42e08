/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mappings over each other, and in forked address spaces. */
#include "client/model/mapping-tree.h"

#define N_SPACES 8
#define N_STEPS  3000
#define N_PAGES  64 /* few, so that everything overlaps */

typedef struct
{
  SondeBudget budget;
  SondeMappingTree *tree;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  sonde_budget_init (&self->budget);
  self->tree = sonde_mapping_tree_new (&self->budget);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  sonde_mapping_tree_free (self->tree);
}

static void
a_mapping_cuts_away_what_it_hides (Fixture *self, gconstpointer data)
{
  SondeModelMapping first = { 0 };
  SondeModelMapping second = { 0 };
  SondeMappingRoot space = { 0 };

  g_assert_true (sonde_mapping_tree_add (self->tree, &space, 0x1000, 0x9000, &first));
  g_assert_true (sonde_mapping_tree_add (self->tree, &space, 0x3000, 0x4000, &second));
  g_assert_null (sonde_mapping_tree_find (self->tree, &space, 0xfff));
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0x2fff) == &first);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0x3000) == &second);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0x3fff) == &second);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0x4000) == &first);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0x8fff) == &first);
  g_assert_null (sonde_mapping_tree_find (self->tree, &space, 0x9000));
}

static void
an_empty_mapping_hides_nothing (Fixture *self, gconstpointer data)
{
  SondeModelMapping first = { 0 };
  SondeModelMapping second = { 0 };
  SondeMappingRoot space = { 0 };

  sonde_mapping_tree_add (self->tree, &space, 0, G_MAXUINT64, &first);
  sonde_mapping_tree_add (self->tree, &space, 0x3000, 0x3000, &second);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0x3000) == &first);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0) == &first);
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, G_MAXUINT64 - 1) == &first);
}

/* What each page of each space holds, beside the tree. */
typedef struct
{
  SondeModelMapping mappings[N_STEPS];
  SondeModelMapping *pages[N_SPACES][N_PAGES];
  SondeMappingRoot roots[N_SPACES];
} Known;

static void
add_both (Fixture *self, Known *known, guint step)
{
  guint space = (guint) g_test_rand_int_range (0, N_SPACES);
  guint start = (guint) g_test_rand_int_range (0, N_PAGES);
  guint end = (guint) g_test_rand_int_range ((gint32) start, N_PAGES + 1);

  g_assert_true (sonde_mapping_tree_add (self->tree, &known->roots[space], start, end,
                                         &known->mappings[step]));
  for (guint page = start; page < end; page++)
    known->pages[space][page] = &known->mappings[step];
}

static void
fork_both (Fixture *self, Known *known)
{
  guint parent = (guint) g_test_rand_int_range (0, N_SPACES);
  guint child = (parent + (guint) g_test_rand_int_range (1, N_SPACES)) % N_SPACES;

  known->roots[child] = sonde_mapping_tree_fork (self->tree, &known->roots[parent]);
  memcpy (known->pages[child], known->pages[parent], sizeof known->pages[child]);
}

static void
spaces_go_their_own_way_after_a_fork (Fixture *self, gconstpointer data)
{
  g_autofree Known *known = g_new0 (Known, 1);

  for (guint step = 0; step < N_STEPS; step++)
    {
      if (g_test_rand_int_range (0, 4) == 0)
        fork_both (self, known);
      else
        add_both (self, known, step);
      for (guint space = 0; space < N_SPACES; space++)
        for (guint page = 0; page < N_PAGES; page++)
          g_assert_true (sonde_mapping_tree_find (self->tree, &known->roots[space], page)
                         == known->pages[space][page]);
    }
}

typedef struct
{
  guint64 end;
  guint n;
} Walk;

static void
check_piece (guint64 start, guint64 end, const SondeModelMapping *mapping, gpointer user_data)
{
  Walk *walk = user_data;

  g_assert_cmpuint (start, >=, walk->end);
  g_assert_cmpuint (end, >, start);
  walk->end = end;
  walk->n++;
}

static void
pieces_come_in_order_and_do_not_overlap (Fixture *self, gconstpointer data)
{
  g_autofree Known *known = g_new0 (Known, 1);
  Walk walk = { 0 };

  for (guint step = 0; step < N_STEPS; step++)
    add_both (self, known, step);
  sonde_mapping_tree_foreach (self->tree, &known->roots[0], check_piece, &walk);
  g_assert_cmpuint (walk.n, >, 0);
  g_assert_cmpuint (walk.n, <=, N_PAGES);
}

/* A process that maps without end, and forks each time, takes no more than the budget has. */
static void
what_has_no_room_changes_nothing (Fixture *self, gconstpointer data)
{
  SondeModelMapping mapping = { 0 };
  SondeMappingRoot space = { 0 };
  SondeMappingRoot before;
  guint64 n = 0;

  while (sonde_mapping_tree_add (self->tree, &space, n * 2, n * 2 + 1, &mapping))
    {
      sonde_mapping_tree_fork (self->tree, &space);
      n++;
      g_assert_cmpuint (n, <, 1u << 22);
    }
  before = space;
  g_assert_cmpuint (self->budget.n_cut[SONDE_LIMIT_PIECES], ==, 1);
  g_assert_false (sonde_mapping_tree_add (self->tree, &space, 0, G_MAXUINT64, &mapping));
  g_assert_cmpuint (space.root, ==, before.root);
  g_assert_null (sonde_mapping_tree_find (self->tree, &space, 1));
  g_assert_true (sonde_mapping_tree_find (self->tree, &space, 0) == &mapping);
}

#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/mapping-tree/a-mapping-cuts-away-what-it-hides", a_mapping_cuts_away_what_it_hides);
  ADD ("/mapping-tree/an-empty-mapping-hides-nothing", an_empty_mapping_hides_nothing);
  ADD ("/mapping-tree/spaces-go-their-own-way-after-a-fork", spaces_go_their_own_way_after_a_fork);
  ADD ("/mapping-tree/pieces-come-in-order-and-do-not-overlap",
       pieces_come_in_order_and_do_not_overlap);
  ADD ("/mapping-tree/what-has-no-room-changes-nothing", what_has_no_room_changes_nothing);
  return g_test_run ();
}
