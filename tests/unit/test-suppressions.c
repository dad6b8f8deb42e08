/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks whose blocks nobody frees on purpose. */
#include "client/heap/heap-report.h"
#include "client/heap/suppressions.h"
#include "tests/unit/capture-builder.h"

#define PID      5
#define LOADER   G_GUINT64_CONSTANT (0x10000)
#define CXX      G_GUINT64_CONSTANT (0x20000)
#define SIZE     G_GUINT64_CONSTANT (0x1000)
#define DEFAULTS 4
#define STACK(...)                                                                                 \
  (const uint64_t[]){ __VA_ARGS__ }, G_N_ELEMENTS (((const uint64_t[]){ __VA_ARGS__ }))

static gboolean
add (SondeSuppressions *suppressions, const char *text, GError **error)
{
  return sonde_suppressions_add_text (suppressions, "file", text, strlen (text), error);
}

static void
refuses (const char *text, const char *complaint)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  g_autoptr (GError) error = NULL;

  g_assert_false (add (suppressions, text, &error));
  g_assert_nonnull (error);
  g_assert_nonnull (strstr (error->message, complaint));
}

static void
refuses_what_is_no_rule (void)
{
  refuses ("leak:a\n\nrace:b\n", "file:3: a line is leak:PATTERN or a comment, not \"race:b\"");
  refuses ("leak", "file:1: ");
  refuses ("\033leak:a", "not \"\\x1bleak:a\"");
}

static void
refuses_what_suppresses_everything (void)
{
  refuses ("leak:", "would suppress everything");
  refuses (" leak:* ", "would suppress everything");
  refuses ("leak:^*$", "would suppress everything");
}

static void
refuses_a_pattern_or_a_file_that_is_too_large (void)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  g_autofree char *long_line = g_strnfill (SONDE_SUPPRESSIONS_MAX_CHARS + 1, 'a');
  g_autofree char *line = g_strconcat ("leak:", long_line, NULL);
  g_autoptr (GString) many = g_string_new (NULL);
  g_autoptr (GError) error = NULL;

  refuses (line, "at most 1024 characters");
  for (guint i = 0; i <= SONDE_SUPPRESSIONS_MAX_RULES; i++)
    g_string_append (many, "leak:a\n");
  refuses (many->str, "file:1025: there are at most 1024 patterns");
  g_assert_false (sonde_suppressions_add_file (suppressions, "/dev/zero", &error));
  g_assert_nonnull (strstr (error->message, "too large"));
}

static void
refuses_what_is_no_text (void)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) missing = NULL;

  g_assert_false (sonde_suppressions_add_text (suppressions, "file", "leak:a\0b", 8, &error));
  g_assert_nonnull (strstr (error->message, "file:1: it is no text"));
  g_assert_false (sonde_suppressions_add_file (suppressions, "/nonexistent/file", &missing));
  g_assert_nonnull (strstr (missing->message, "Cannot read /nonexistent/file"));
}

static void
files_come_before_what_everybody_gets (void)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();

  g_assert_cmpuint (sonde_suppressions_n_rules (suppressions), ==, DEFAULTS);
  g_assert_true (add (suppressions, "# of ours\n\n  leak:one \r\nleak:t\\wo", NULL));
  g_assert_cmpuint (sonde_suppressions_n_rules (suppressions), ==, DEFAULTS + 2);
  g_assert_cmpstr (sonde_suppressions_rule (suppressions, 0), ==, "leak:one");
  g_assert_cmpstr (sonde_suppressions_rule (suppressions, 1), ==, "leak:t\\\\wo");
  sonde_suppressions_clear (suppressions);
  g_assert_cmpuint (sonde_suppressions_n_rules (suppressions), ==, 0);
}

static void
patterns_are_found_as_by_lsan (void)
{
  static const struct
  {
    const char *pattern;
    const char *text;
    gboolean is_found;
  } rows[] = {
    { "pool", "(anonymous namespace)::pool::pool()", TRUE },
    { "pool", "poo", FALSE },
    { "pool", "", FALSE },
    { "^pool", "pool::pool", TRUE },
    { "^pool", "a::pool", FALSE },
    { "pool$", "pool::pool", TRUE },
    { "pool$", "pool::pool()", FALSE },
    { "^pool$", "pool", TRUE },
    { "^pool$", "poolpool", FALSE },
    { "^a*c$", "abc", TRUE },
    { "^a*c$", "abcd", FALSE },
    { "a*b*c", "xaxbxcx", TRUE },
    { "a*b*c", "xcxbxax", FALSE },
    { "^*a", "xxa", TRUE },
    { "a*$", "xxab", TRUE },
    { "aa*aa", "aaa", FALSE },
    { "^aa*aa$", "aaaa", TRUE },
    { "longer$", "er", FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (sonde_suppressions_is_found (rows[i].pattern, rows[i].text) != rows[i].is_found)
      g_error ("%s in %s", rows[i].pattern, rows[i].text);
}

/* --- heaps --- */

static void
allocate (CaptureBuilder *capture,
          guint64 address,
          gint64 size_bytes,
          const uint64_t *addrs,
          guint n_addrs)
{
  SondeFrameOrigin origin = at (PID, 2000);

  ADD (sonde_writer_add_allocation (capture->writer, &origin, PID, address, size_bytes, addrs,
                                    n_addrs));
}

static void
feed (gpointer receiver, const SondeFrame *frame)
{
  sonde_heap_add_frame (receiver, frame);
}

/* main() allocates 100 bytes by one() and 200 by two(); the loader 400 for itself, 800 by a
 * function of libstdc++ without a name that it calls, and 1600 by one() of a library.
 * @has_named_pool: and 3200 by a function of libstdc++ that has its name */
static SondeHeap *
analyse_with (const SondeSuppressions *suppressions, gboolean has_named_pool)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  SondeHeap *heap;

  options.suppressions = suppressions;
  heap = sonde_heap_new (&options, 1000);
  add_process (capture, PID, "prog");
  add_map (capture, PID, LOADER, LOADER + SIZE, "/nowhere/ld-linux-x86-64.so.2");
  add_map (capture, PID, CXX, CXX + SIZE, "/nowhere/libstdc++.so.6.0.30");
  add_jit_name (capture, JIT (0), "main");
  add_jit_name (capture, JIT (1), "one");
  add_jit_name (capture, JIT (2), "two");
  add_jit_name (capture, JIT (3), "operator new(unsigned long)");
  if (has_named_pool)
    {
      add_jit_name (capture, JIT (4), "_GLOBAL__sub_I_eh_alloc.cc");
      allocate (capture, 0x60, 3200, STACK (JIT (3), JIT (4), JIT (0)));
    }
  allocate (capture, 0x10, 100, STACK (JIT (1), JIT (0)));
  allocate (capture, 0x20, 200, STACK (JIT (2), JIT (0)));
  allocate (capture, 0x30, 400, STACK (JIT (3), LOADER + 0x10, JIT (0)));
  allocate (capture, 0x40, 800, STACK (JIT (3), CXX + 0x10, LOADER + 0x20));
  allocate (capture, 0x50, 1600, STACK (JIT (1), LOADER + 0x20));
  capture_foreach (capture, feed, heap);
  sonde_heap_finish (heap, NULL);
  return heap;
}

static SondeHeap *
analyse (const SondeSuppressions *suppressions)
{
  return analyse_with (suppressions, FALSE);
}

/* That shown and suppressed bytes make what was never freed, whatever is suppressed. */
static void
assert_suppressed (const SondeHeap *heap, guint64 bytes, guint64 blocks)
{
  g_autoptr (SondeProfile) left = sonde_heap_dup_profile (heap, SONDE_HEAP_LEFT, SONDE_UNIT_BYTES);
  g_autoptr (SondeProfile) all
      = sonde_heap_dup_profile (heap, SONDE_HEAP_ALLOCATED, SONDE_UNIT_BYTES);
  const SondeHeapAmount *totals = heap->tracker->totals.amounts;

  g_assert_cmpuint (sonde_heap_round (heap->suppressed.bytes), ==, bytes);
  g_assert_cmpuint (sonde_heap_round (heap->suppressed.blocks), ==, blocks);
  g_assert_cmpuint (sonde_heap_round (totals[SONDE_HEAP_LEFT].bytes), ==, 3100);
  g_assert_cmpuint (sonde_profile_total (left) + bytes, ==, 3100);
  g_assert_cmpuint (sonde_profile_total (all), ==, 3100);
}

static void
nothing_is_suppressed_unasked (void)
{
  g_autoptr (SondeSuppressions) none = sonde_suppressions_new ();
  g_autoptr (SondeHeap) heap = analyse (NULL);
  g_autoptr (SondeHeap) other = NULL;

  sonde_suppressions_clear (none);
  other = analyse (none);
  assert_suppressed (heap, 0, 0);
  assert_suppressed (other, 0, 0);
}

static void
what_the_loader_and_the_pool_keep_is_no_leak (void)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  g_autoptr (SondeHeap) heap = analyse (suppressions);
  g_autoptr (GString) header = g_string_new (NULL);
  const SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;

  assert_suppressed (heap, 400 + 800, 2);
  sonde_heap_append_header (header, heap, &options);
  g_assert_nonnull (strstr (header->str, "Not freed 3,100 bytes (3.0 KiB) in 5 blocks\n"
                                         "Of these  800 bytes in 1 block suppressed: libstdc++'s "
                                         "emergency pool\n"
                                         "Of these  400 bytes in 1 block suppressed: the dynamic "
                                         "loader's own\n"));
}

/* Whether its constructor has a name or none. */
static void
the_pool_is_told_once (void)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  g_autoptr (SondeHeap) heap = analyse_with (suppressions, TRUE);
  g_autoptr (SondeProfile) left = sonde_heap_dup_profile (heap, SONDE_HEAP_LEFT, SONDE_UNIT_BYTES);
  g_autoptr (GString) json = sonde_heap_dup_json (heap, left, FALSE, 0, 0);

  g_assert_nonnull (strstr (json->str, "\"suppressed\":{\"bytes\":4400,\"blocks\":3,\"by\":["
                                       "{\"rule\":\"libstdc++'s emergency pool\",\"bytes\":4000,"
                                       "\"blocks\":2},{\"rule\":\"the dynamic loader's own\","
                                       "\"bytes\":400,\"blocks\":1}]"));
}

static void
the_first_rule_that_matches_has_the_stack (void)
{
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeProfile) left = NULL;
  g_autoptr (GString) json = NULL;

  g_assert_true (
      add (suppressions, "leak:nobody\nleak:^two$\nleak:^main$\nleak:^libstdc++.so", NULL));
  heap = analyse (suppressions);
  assert_suppressed (heap, 200 + 100 + 400 + 800, 4);
  g_assert_cmpuint (sonde_heap_round (heap->by_rule[0].bytes), ==, 0);
  g_assert_cmpuint (sonde_heap_round (heap->by_rule[1].bytes), ==, 200);
  g_assert_cmpuint (sonde_heap_round (heap->by_rule[2].bytes), ==, 500);
  g_assert_cmpuint (sonde_heap_round (heap->by_rule[3].bytes), ==, 800);
  left = sonde_heap_dup_profile (heap, SONDE_HEAP_LEFT, SONDE_UNIT_BYTES);
  json = sonde_heap_dup_json (heap, left, FALSE, 0, 0);
  g_assert_nonnull (strstr (json->str, "\"suppressed\":{\"bytes\":1500,\"blocks\":4,\"by\":["
                                       "{\"rule\":\"leak:^two$\",\"bytes\":200,\"blocks\":1},"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/suppressions/refuses-what-is-no-rule", refuses_what_is_no_rule);
  g_test_add_func ("/suppressions/refuses-what-suppresses-everything",
                   refuses_what_suppresses_everything);
  g_test_add_func ("/suppressions/refuses-a-pattern-or-a-file-that-is-too-large",
                   refuses_a_pattern_or_a_file_that_is_too_large);
  g_test_add_func ("/suppressions/refuses-what-is-no-text", refuses_what_is_no_text);
  g_test_add_func ("/suppressions/files-come-before-what-everybody-gets",
                   files_come_before_what_everybody_gets);
  g_test_add_func ("/suppressions/patterns-are-found-as-by-lsan", patterns_are_found_as_by_lsan);
  g_test_add_func ("/suppressions/nothing-is-suppressed-unasked", nothing_is_suppressed_unasked);
  g_test_add_func ("/suppressions/what-the-loader-and-the-pool-keep-is-no-leak",
                   what_the_loader_and_the_pool_keep_is_no_leak);
  g_test_add_func ("/suppressions/the-pool-is-told-once", the_pool_is_told_once);
  g_test_add_func ("/suppressions/the-first-rule-that-matches-has-the-stack",
                   the_first_rule_that_matches_has_the_stack);
  return g_test_run ();
}
