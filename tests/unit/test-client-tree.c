/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-client's call trees while a capture grows: lists that follow it, rows that stay. */
#include "client/library/frame.h"
#include "client/library/sonde-client.h"
#include "client/model/capture-file.h"
#include "tests/unit/capture-builder.h"

#define FOREVER_US G_MAXUINT64

typedef struct
{
  SondeClientProfile *profile;
  CaptureBuilder *capture;
  gsize n_told; /* bytes of the capture */
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->profile = sonde_client_profile_new ();
  fixture->capture = capture_builder_new ();
  fixture->n_told = sizeof (SondeFileHeader);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  g_clear_object (&fixture->profile);
  capture_builder_free (fixture->capture);
}

/* What was added since. */
static void
tell (Fixture *fixture)
{
  const GByteArray *bytes = capture_bytes (fixture->capture);

  while (fixture->n_told < bytes->len)
    {
      const SondeFrame *found = (const SondeFrame *) (void *) (bytes->data + fixture->n_told);
      g_autoptr (SondeClientFrame) frame = sonde_client_frame_new (found);

      sonde_client_profile_add_frame (fixture->profile, frame);
      fixture->n_told += found->len;
    }
}

static SondeClientCall *
item (gpointer list, guint position)
{
  g_autoptr (SondeClientCall) call = g_list_model_get_item (list, position);

  g_assert_nonnull (call);
  return call; /* the list keeps it */
}

static void
check_call (SondeClientCall *call, const char *name, guint64 self, guint64 total)
{
  g_autofree char *is_called = NULL;
  guint64 has_self, has_total;

  g_object_get (call, "name", &is_called, "self", &has_self, "total", &has_total, NULL);
  g_assert_cmpstr (is_called, ==, name);
  g_assert_cmpuint (has_self, ==, self);
  g_assert_cmpuint (has_total, ==, total);
}

static void
count (GObject *object, GParamSpec *spec, gpointer n)
{
  ++*(guint *) n;
}

static void
count_changes (GListModel *list, guint position, guint n_removed, guint n_added, gpointer n)
{
  g_assert_cmpuint (n_removed, ==, 0);
  ++*(guint *) n;
}

static void
rows_grow_and_stay (Fixture *fixture, gconstpointer data)
{
  SondeClientCall *process, *main_row;
  GListModel *callees, *inner;
  guint n_totals = 0;
  guint n_changes = 0;
  guint64 n_samples;

  g_assert_true (g_list_model_get_item_type (G_LIST_MODEL (fixture->profile))
                 == SONDE_CLIENT_TYPE_CALL);
  add_process (fixture->capture, 5, "prog");
  add_jit_name (fixture->capture, JIT (1), "main");
  add_jit_name (fixture->capture, JIT (2), "heavy");
  add_jit_name (fixture->capture, JIT (3), "light");
  add_sample (fixture->capture, 5, JIT (2), JIT (1));
  tell (fixture);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (fixture->profile)), ==, 0);
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (fixture->profile)), ==, 1);
  process = item (fixture->profile, 0);
  check_call (process, "prog", 0, 1);
  callees = sonde_client_call_get_callee_model (process);
  g_assert_cmpuint (g_list_model_get_n_items (callees), ==, 1);
  main_row = item (callees, 0);
  check_call (main_row, "main", 0, 1);
  inner = sonde_client_call_get_callee_model (main_row);
  check_call (item (inner, 0), "heavy", 1, 1);
  g_signal_connect (process, "notify::total", G_CALLBACK (count), &n_totals);
  g_signal_connect (inner, "items-changed", G_CALLBACK (count_changes), &n_changes);

  /* nothing new, nothing told */
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  g_assert_cmpuint (n_totals, ==, 0);

  for (guint i = 0; i < 4; i++)
    add_sample (fixture->capture, 5, JIT (2), JIT (1));
  add_sample (fixture->capture, 5, JIT (3), JIT (1));
  tell (fixture);
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  g_assert_cmpuint (n_totals, ==, 1);
  g_assert_cmpuint (n_changes, ==, 1);
  g_assert_true (item (fixture->profile, 0) == process && item (callees, 0) == main_row);
  check_call (process, "prog", 0, 6);
  check_call (item (inner, 0), "heavy", 5, 5);
  check_call (item (inner, 1), "light", 1, 1);
  g_object_get (fixture->profile, "n-samples", &n_samples, NULL);
  g_assert_cmpuint (n_samples, ==, 6);

  /* a process that comes later comes behind */
  add_process (fixture->capture, 6, "other");
  add_sample (fixture->capture, 6, JIT (3), JIT (1));
  tell (fixture);
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  g_assert_true (item (fixture->profile, 0) == process);
  check_call (item (fixture->profile, 1), "other", 0, 1);
}

static void
names_that_need_time_come_later (Fixture *fixture, gconstpointer data)
{
  SondeClientCall *process;

  add_process (fixture->capture, 5, "prog");
  add_jit_name (fixture->capture, JIT (1), "main");
  add_jit_name (fixture->capture, JIT (2), "heavy");
  add_sample (fixture->capture, 5, JIT (2), JIT (1));
  tell (fixture);
  g_assert_false (sonde_client_profile_update (fixture->profile, 0));
  process = item (fixture->profile, 0);
  check_call (process, "prog", 1, 1);
  g_assert_cmpuint (g_list_model_get_n_items (sonde_client_call_get_callee_model (process)), ==, 0);
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  check_call (process, "prog", 0, 1);
  check_call (item (sonde_client_call_get_callee_model (process), 0), "main", 0, 1);
}

/* Names that come at the end are others than before: those rows go, the rest stays. */
static void
the_end_keeps_rows_that_it_has (Fixture *fixture, gconstpointer data)
{
  const guint64 code = 0x1000;
  SondeClientCall *process, *main_row;
  GListModel *callees, *inner;
  g_autoptr (SondeClientCall) gone = NULL;
  gboolean is_finished;

  add_process (fixture->capture, 5, "prog");
  add_jit_name (fixture->capture, JIT (1), "main");
  add_sample (fixture->capture, 5, code + 8, JIT (1));
  tell (fixture);
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  process = item (fixture->profile, 0);
  callees = sonde_client_call_get_callee_model (process);
  main_row = item (callees, 0);
  inner = sonde_client_call_get_callee_model (main_row);
  gone = g_object_ref (item (inner, 0));

  add_jit_name (fixture->capture, code + 8, "compiled");
  add_sample (fixture->capture, 5, JIT (1));
  tell (fixture);
  sonde_client_profile_finish (fixture->profile, SONDE_CLIENT_NAMES_PLAIN);
  g_object_get (fixture->profile, "is-finished", &is_finished, NULL);
  g_assert_true (is_finished);
  g_assert_true (item (fixture->profile, 0) == process && item (callees, 0) == main_row);
  check_call (process, "prog", 0, 2);
  check_call (main_row, "main", 1, 2);
  g_assert_cmpuint (g_list_model_get_n_items (inner), ==, 1);
  check_call (item (inner, 0), "compiled", 1, 1);

  /* who kept it has it, alone */
  g_assert_cmpuint (g_list_model_get_n_items (sonde_client_call_get_callee_model (gone)), ==, 0);
  /* rows live longer than the profile, and what they are of with them */
  g_object_ref (process);
  g_clear_object (&fixture->profile);
  check_call (item (sonde_client_call_get_callee_model (process), 0), "main", 1, 2);
  g_object_unref (process);
}

static guint64
sum_up (GListModel *list, GPtrArray *callees)
{
  guint64 sum = 0;

  for (guint i = 0; i < callees->len; i++)
    {
      SondeClientCall *call = g_ptr_array_index (callees, i);
      g_autoptr (GPtrArray) below = sonde_client_call_get_callees (call);
      SondeClientCall *row = NULL;

      for (guint k = 0; row == NULL && k < g_list_model_get_n_items (list); k++)
        if (g_str_equal (sonde_client_call_get_name (item (list, k)),
                         sonde_client_call_get_name (call)))
          row = item (list, k);
      g_assert_nonnull (row);
      g_assert_cmpuint (sonde_client_call_get_total (row), ==, sonde_client_call_get_total (call));
      g_assert_cmpuint (sonde_client_call_get_self (row), ==, sonde_client_call_get_self (call));
      sum += sonde_client_call_get_self (call)
             + sum_up (sonde_client_call_get_callee_model (row), below);
    }
  g_assert_cmpuint (g_list_model_get_n_items (list), ==, callees->len);
  return sum;
}

/* Random stacks, with updates between them: the tree that grew is the one that is made at once. */
static void
what_grew_is_what_is_summed_up_at_the_end (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GPtrArray) processes = NULL;

  for (guint i = 1; i <= 20; i++)
    {
      g_autofree char *name = g_strdup_printf ("f%u", i % 15); /* some have the same */

      add_jit_name (fixture->capture, JIT (i), name);
    }
  for (guint i = 0; i < 2000; i++)
    {
      gint32 pid = g_test_rand_int_range (5, 9);

      if (i < 10)
        add_process (fixture->capture, 5 + (gint32) i % 4, "prog");
      add_sample (fixture->capture, pid, JIT ((guint) g_test_rand_int_range (1, 21)),
                  JIT ((guint) g_test_rand_int_range (1, 21)));
      if (i % 100 != 0)
        continue;
      tell (fixture);
      sonde_client_profile_update (fixture->profile, i % 200 == 0 ? 0 : FOREVER_US);
      for (guint k = 0; k < g_list_model_get_n_items (G_LIST_MODEL (fixture->profile)); k++)
        sonde_client_call_get_callee_model (item (fixture->profile, k));
    }
  tell (fixture);
  g_assert_true (sonde_client_profile_update (fixture->profile, FOREVER_US));
  sonde_client_profile_finish (fixture->profile, SONDE_CLIENT_NAMES_PLAIN);
  processes = sonde_client_profile_get_processes (fixture->profile);
  g_assert_cmpuint (processes->len, ==, g_list_model_get_n_items (G_LIST_MODEL (fixture->profile)));
  for (guint i = 0; i < processes->len; i++)
    {
      SondeClientCall *process = g_ptr_array_index (processes, i);
      g_autoptr (GPtrArray) callees = sonde_client_call_get_callees (process);
      guint n_found = 0;

      for (guint k = 0; k < processes->len; k++)
        if (sonde_client_call_get_pid (item (fixture->profile, k))
            == sonde_client_call_get_pid (process))
          {
            n_found++;
            g_assert_cmpuint (
                sum_up (sonde_client_call_get_callee_model (item (fixture->profile, k)), callees),
                ==, sonde_client_call_get_total (process));
          }
      g_assert_cmpuint (n_found, ==, 1);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define TEST(name, function)                                                                       \
  g_test_add ("/client-tree/" name, Fixture, NULL, set_up, function, tear_down)
  TEST ("rows-grow-and-stay", rows_grow_and_stay);
  TEST ("names-that-need-time-come-later", names_that_need_time_come_later);
  TEST ("the-end-keeps-rows-that-it-has", the_end_keeps_rows_that_it_has);
  TEST ("what-grew-is-what-is-summed-up-at-the-end", what_grew_is_what_is_summed_up_at_the_end);
  return g_test_run ();
}
