/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures beyond the limits of readers: what is cut off is counted, told, and part of the sums. */
#include <json-glib/json-glib.h>

#include "client/base/text.h"
#include "client/base/json.h"
#include "client/base/text-pool.h"
#include "client/model/call-tree.h"
#include "client/report/report.h"

static void
a_budget_tells_what_was_cut_off (void)
{
  SondeBudget budget;
  g_autofree char *nothing = NULL;
  g_autofree char *cut = NULL;
  g_autofree char *name = sonde_limit_dup_name (SONDE_LIMIT_FUNCTION_TEXT);

  sonde_budget_init (&budget);
  g_assert_true (sonde_budget_take (&budget, SONDE_LIMIT_MAPPINGS, 1));
  nothing = sonde_budget_describe (&budget);
  g_assert_null (nothing);

  budget.left[SONDE_LIMIT_MAPPINGS] = 1;
  g_assert_true (sonde_budget_take (&budget, SONDE_LIMIT_MAPPINGS, 1));
  g_assert_false (sonde_budget_take (&budget, SONDE_LIMIT_MAPPINGS, 1));
  budget.left[SONDE_LIMIT_NODES] = 10;
  for (guint i = 0; i < 1200; i++)
    g_assert_false (sonde_budget_take (&budget, SONDE_LIMIT_NODES, 11));
  g_assert_true (sonde_budget_take (&budget, SONDE_LIMIT_NODES, 10));
  cut = sonde_budget_describe (&budget);
  g_assert_cmpstr (cut, ==, "1 mapping, 1,200 stacks");
  g_assert_cmpstr (name, ==, "function-text");
}

static void
a_stack_without_room_counts_as_one_frame (void)
{
  static const guint32 known[] = { 1, 2, 3 };
  static const guint32 longer[] = { 1, 2, 3, 4, 5 };
  static const guint32 fits[] = { 1, 2, 6 };
  SondeBudget budget;
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (&budget);
  const SondeCallNode *node;

  sonde_budget_init (&budget);
  budget.left[SONDE_LIMIT_NODES] = 4;
  sonde_call_tree_add (tree, known, G_N_ELEMENTS (known), 1);
  node = sonde_call_tree_node (tree, sonde_call_tree_add (tree, longer, G_N_ELEMENTS (longer), 7));
  g_assert_cmpuint (node->id, ==, SONDE_CALL_TRUNCATED);
  g_assert_cmpuint (node->parent, ==, 0);
  g_assert_cmpuint (node->self, ==, 7);

  /* known ones, and those that need no more than is left, are as they were */
  sonde_call_tree_add (tree, known, G_N_ELEMENTS (known), 1);
  sonde_call_tree_add (tree, fits, G_N_ELEMENTS (fits), 1);
  sonde_call_tree_add (tree, known, G_N_ELEMENTS (known), 1);
  g_assert_cmpuint (sonde_call_tree_node (tree, 3)->self, ==, 3);
  g_assert_cmpuint (sonde_call_tree_node (tree, 1)->total, ==, 4);
  g_assert_cmpuint (sonde_call_tree_node (tree, 0)->total, ==, 11);
  g_assert_cmpuint (budget.left[SONDE_LIMIT_NODES], ==, 0);
  g_assert_cmpuint (budget.n_cut[SONDE_LIMIT_NODES], ==, 1);
}

static void
a_text_is_kept_once_and_cut (void)
{
  SondeBudget budget;
  g_autofree char *text = g_strdup ("libfoo.so");
  const char *first, *second;
  SondeTextPool *pool;

  sonde_budget_init (&budget);
  pool = sonde_text_pool_new (&budget);
  first = sonde_text_pool_add (pool, text, 100);
  text[0] = 'L';
  second = sonde_text_pool_add (pool, "libfoo.so", 100);
  g_assert_true (first == second);
  g_assert_cmpstr (first, ==, "libfoo.so");
  g_assert_cmpstr (sonde_text_pool_add (pool, "libfoo.so", 6), ==, "libfoo");
  budget.left[SONDE_LIMIT_TEXT] = 30;
  g_assert_cmpstr (sonde_text_pool_add (pool, "a longer one", 100), ==, SONDE_TRUNCATED);
  g_assert_cmpstr (sonde_text_pool_add (pool, "libfoo.so", 100), ==, "libfoo.so");
  g_assert_cmpuint (budget.n_cut[SONDE_LIMIT_TEXT], ==, 1);
  sonde_text_pool_free (pool);
}

/* "ab" and "bA" are the same to g_str_hash(), and so are all texts made of them. */
static void
texts_that_are_made_to_collide_do_not (void)
{
  g_autoptr (GHashTable) hashes = g_hash_table_new (NULL, NULL);
  char text[33] = { 0 };

  for (guint i = 0; i < 1u << 16; i++)
    {
      for (guint bit = 0; bit < 16; bit++)
        memcpy (text + 2 * bit, (i & 1u << bit) != 0 ? "ab" : "bA", 2);
      g_hash_table_add (hashes, GUINT_TO_POINTER (sonde_text_hash (text)));
    }
  g_assert_cmpuint (g_hash_table_size (hashes), >, 65000);
}

/* The model's limit is reached by one sample after the other, each at addresses of its own. */
static void
a_report_has_all_samples_whatever_is_cut_off (void)
{
  g_autoptr (SondeReport) report = sonde_report_new (NULL, 0);
  gsize size_bytes = sizeof (SondeFrameSample) + 1000 * sizeof (guint64);
  g_autofree SondeFrameSample *sample = g_malloc0 (size_bytes);
  const SondeProfile *profile;
  const SondeBudget *budget;
  guint64 n_truncated = 0;

  for (guint i = 0; i < 1100; i++)
    {
      sample->frame
          = (SondeFrame){ .len = (guint16) size_bytes, .pid = 5, .type = SONDE_FRAME_SAMPLE };
      sample->n_addrs = 1000;
      for (guint k = 0; k < 1000; k++)
        sample->addrs[k] = 0x10000 + (guint64) i * 1000 + k;
      sonde_report_add_frame (report, &sample->frame);
    }
  sonde_report_finish (report, NULL);
  profile = report->profile;
  budget = sonde_capture_model_budget (report->model);
  g_assert_cmpuint (sonde_profile_total (profile), ==, 1100);
  g_assert_cmpuint (budget->n_cut[SONDE_LIMIT_ADDRESSES], >, 0);
  g_assert_cmpstr (sonde_profile_function (profile, SONDE_CALL_TRUNCATED)->name, ==,
                   SONDE_TRUNCATED);
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (sonde_profile_process (profile, 0)->tree); i++)
    {
      const SondeCallNode *node
          = sonde_call_tree_node (sonde_profile_process (profile, 0)->tree, i);

      if (node->id == SONDE_CALL_TRUNCATED)
        n_truncated += node->self;
    }
  g_assert_cmpuint (n_truncated, >, 0);
}

static void
json_is_what_others_read (void)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (JsonParser) parser = json_parser_new ();
  SondeJson json = SONDE_JSON_INIT (out);
  JsonObject *object;

  sonde_json_begin_object (&json, NULL);
  sonde_json_begin_array (&json, "empty");
  sonde_json_end_array (&json);
  sonde_json_add_text (&json, "text", "a \"quoted\" \\ line\n\x1f €");
  sonde_json_add_escaped (&json, "foreign", "\xff\033[m");
  sonde_json_begin_array (&json, "numbers");
  sonde_json_add_number (&json, NULL, G_MININT64);
  sonde_json_add_number (&json, NULL, 7);
  sonde_json_begin_object (&json, NULL);
  sonde_json_end_object (&json);
  sonde_json_end_array (&json);
  sonde_json_end_object (&json);

  g_assert_true (json_parser_load_from_data (parser, out->str, (gssize) out->len, NULL));
  object = json_node_get_object (json_parser_get_root (parser));
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "empty")), ==, 0);
  g_assert_cmpstr (json_object_get_string_member (object, "text"), ==,
                   "a \"quoted\" \\ line\n\x1f €");
  g_assert_cmpstr (json_object_get_string_member (object, "foreign"), ==, "\\xff\\x1b[m");
  g_assert_cmpint (json_array_get_int_element (json_object_get_array_member (object, "numbers"), 0),
                   ==, G_MININT64);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "numbers")), ==,
                    3);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/limits/a-budget-tells-what-was-cut-off", a_budget_tells_what_was_cut_off);
  g_test_add_func ("/limits/a-stack-without-room-counts-as-one-frame",
                   a_stack_without_room_counts_as_one_frame);
  g_test_add_func ("/limits/a-text-is-kept-once-and-cut", a_text_is_kept_once_and_cut);
  g_test_add_func ("/limits/texts-that-are-made-to-collide-do-not",
                   texts_that_are_made_to_collide_do_not);
  g_test_add_func ("/limits/a-report-has-all-samples-whatever-is-cut-off",
                   a_report_has_all_samples_whatever_is_cut_off);
  g_test_add_func ("/limits/json-is-what-others-read", json_is_what_others_read);
  return g_test_run ();
}
