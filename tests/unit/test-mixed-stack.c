/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Native stacks and lists of an interpreter, put together. */
#include "daemon/capture/interpreter/mixed-stack.h"

#include <glib.h>
#include <string.h>

/* The evaluating function is at these addresses; as return addresses they are its second byte on.
 */
static const uint64_t evaluators[][2] = { { 0x1000, 0x2000 }, { 0x9000, 0x9100 } };

#define EVAL       0x1234
#define APART      0xE0000000000000FFull
#define MAX_FRAMES 32

static gboolean begins_early; /* of all merges, until it is said otherwise */

/* @natives: a word a frame, leaf first: "E" evaluates; others are addresses. @frames: newest first:
 * a letter, its name, behind it the byte that tells of an entry. Returns: words of both */
static char *
merge_so (const char *natives,
          const char *frames,
          SondeWalkEntry entry,
          gboolean is_complete,
          uint32_t flags,
          size_t max_out,
          SondeMixedResult expected)
{
  g_auto (GStrv) words = g_strsplit (natives, " ", -1);
  g_auto (GStrv) letters = g_strsplit (frames, " ", -1);
  uint64_t addrs[MAX_FRAMES];
  uint64_t names[MAX_FRAMES];
  uint64_t out[MAX_FRAMES];
  SondeWalkFrame list[MAX_FRAMES] = { 0 };
  SondeMixedStack stack = { .addrs = addrs,
                            .is_complete = is_complete,
                            .evaluators = evaluators,
                            .n_evaluators = G_N_ELEMENTS (evaluators),
                            .frames = list,
                            .names = names,
                            .flags = flags,
                            .entry = entry,
                            .begins_early = begins_early,
                            .apart = APART };
  GString *text = g_string_new (NULL);
  size_t n_out;

  for (; words[stack.n_addrs] != NULL && words[stack.n_addrs][0] != '\0'; stack.n_addrs++)
    addrs[stack.n_addrs] = g_str_equal (words[stack.n_addrs], "E")
                               ? EVAL
                               : g_ascii_strtoull (words[stack.n_addrs], NULL, 16);
  for (; letters[stack.n_frames] != NULL && letters[stack.n_frames][0] != '\0'; stack.n_frames++)
    {
      const char *letter = letters[stack.n_frames];

      names[stack.n_frames] = letter[0] == '-' ? 0 : 0xE000000000000000ull + (guchar) letter[0];
      list[stack.n_frames].entry = (uint8_t) (letter[1] - '0');
    }
  g_assert_cmpint (sonde_mixed_stack_merge (&stack, out, max_out, &n_out), ==, expected);
  g_assert_cmpuint (n_out, <=, max_out);
  for (size_t i = 0; i < n_out; i++)
    {
      if (out[i] == APART)
        g_string_append (text, "| ");
      else if (out[i] == EVAL)
        g_string_append (text, "E ");
      else if (out[i] >= 0xE000000000000000ull)
        g_string_append_printf (text, "%c ", (char) (out[i] & 0xff));
      else
        g_string_append_printf (text, "%" G_GINT64_MODIFIER "x ", (guint64) out[i]);
    }
  g_strchomp (text->str);
  return g_string_free (text, FALSE);
}

#define ASSERT_MERGED(natives, frames, entry, is_complete, flags, expected)                        \
  G_STMT_START                                                                                     \
  {                                                                                                \
    g_autofree char *merged                                                                        \
        = merge_so (natives, frames, entry, is_complete, flags, MAX_FRAMES, SONDE_MIXED_RIGHT);    \
    g_assert_cmpstr (merged, ==, expected);                                                        \
  }                                                                                                \
  G_STMT_END

#define ALWAYS SONDE_WALK_ENTRY_ALWAYS
#define FLAG   SONDE_WALK_ENTRY_FLAG
#define SHIM   SONDE_WALK_ENTRY_SHIM

/* --- cases --- */

static void
puts_frames_in_the_place_of_the_evaluator (void)
{
  /* a frame for each */
  ASSERT_MERGED ("5 E 6 E 7", "c1 b1", ALWAYS, TRUE, 0, "5 c 6 b 7");
  /* several for one: the oldest has the flag */
  ASSERT_MERGED ("5 E 6 E 7", "d0 c1 b0 a1", FLAG, TRUE, 0, "5 d c 6 b a 7");
  /* behind the oldest is one that is no function */
  ASSERT_MERGED ("5 E 6 E 7", "d0 c0 -3 b0 a1 -3", SHIM, TRUE, 0, "5 d c 6 b a 7");
  ASSERT_MERGED ("E 7", "a0 -4", SHIM, TRUE, 0, "a 7");
}

static void
counts_from_the_outermost (void)
{
  /* The innermost has only been entered, or is about to return. */
  ASSERT_MERGED ("E 5 E 6 E 7", "b1 a1", FLAG, TRUE, 0, "E 5 b 6 a 7");
  ASSERT_MERGED ("E 5", "", FLAG, TRUE, 0, "E 5");
}

static void
counts_from_the_leaf_what_is_cut_short (void)
{
  /* The rest of the interpreter's is known all the same. */
  ASSERT_MERGED ("5 E 6 E", "d0 c1 b1 a1", FLAG, FALSE, 0, "5 d c 6 b a");
  ASSERT_MERGED ("5", "b1 a1", FLAG, FALSE, 0, "5 b a");
  /* Of a list that could not be read to its end, or that is deeper than was read. */
  ASSERT_MERGED ("5 E 6 E 7 E 8", "c0 b1 a0", FLAG, TRUE, SONDE_WALK_TORN, "5 c b 6 a 7 E 8");
  ASSERT_MERGED ("5 E 6 E 7 E 8", "c1", FLAG, TRUE, SONDE_WALK_DEEP, "5 c 6 E 7 E 8");
}

static void
keeps_apart_what_does_not_fit (void)
{
  g_autofree char *fewer
      = merge_so ("5 E 6", "b1 a1", FLAG, TRUE, 0, MAX_FRAMES, SONDE_MIXED_APART);
  g_autofree char *more
      = merge_so ("E 5 E 6 E 7", "a1", FLAG, TRUE, 0, MAX_FRAMES, SONDE_MIXED_APART);
  g_autofree char *none = merge_so ("E 5 E 6", "", FLAG, TRUE, 0, MAX_FRAMES, SONDE_MIXED_APART);

  g_assert_cmpstr (fewer, ==, "5 E 6 | b a");
  g_assert_cmpstr (more, ==, "E 5 E 6 E 7 | a");
  g_assert_cmpstr (none, ==, "E 5 E 6");
}

/* There are more segments than those of the list that are known, so none has too few. */
static void
keeps_apart_what_is_cut_short_and_does_not_fit (void)
{
  static const uint32_t flags[] = { SONDE_WALK_TORN, SONDE_WALK_DEEP };

  for (gsize i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autofree char *fewer
          = merge_so ("5 E 6", "b1 a1", FLAG, TRUE, flags[i], MAX_FRAMES, SONDE_MIXED_APART);
      g_autofree char *none
          = merge_so ("5 6", "b0 a0", FLAG, TRUE, flags[i], MAX_FRAMES, SONDE_MIXED_APART);

      g_assert_cmpstr (fewer, ==, "5 E 6 | b a");
      g_assert_cmpstr (none, ==, "5 6 | b a");
      ASSERT_MERGED ("5 E 6", "b0 a0", FLAG, TRUE, flags[i], "5 b a 6");
      /* Of a native stack that is cut, too, nothing is known. */
      ASSERT_MERGED ("5 E 6", "b1 a1", FLAG, FALSE, flags[i], "5 b 6 a");
    }
}

static void
knows_the_evaluator_by_its_ranges (void)
{
  /* A return address is behind the call: the first one is no call's, the last one may be. */
  ASSERT_MERGED ("1000 1000 7", "a1", FLAG, TRUE, 0, "a 1000 7");
  ASSERT_MERGED ("2000 2000 7", "a1", FLAG, TRUE, 0, "2000 a 7");
  /* Its other part. */
  ASSERT_MERGED ("9000 5 1001", "b1 a1", FLAG, TRUE, 0, "b 5 a");
}

static void
cuts_off_behind_what_has_no_room (void)
{
  for (size_t max_out = 0; max_out < 6; max_out++)
    {
      g_autofree char *text
          = merge_so ("5 E 6 E 7", "c0 b1 a1", FLAG, TRUE, 0, max_out, SONDE_MIXED_RIGHT);
      g_autofree char *whole = g_strdup ("5 c b 6 a 7");

      whole[max_out > 0 ? 2 * max_out - 1 : 0] = '\0';
      g_assert_cmpstr (text, ==, whole);
    }
}

static void
begins_with_what_is_about_to_be_evaluated (void)
{
  begins_early = TRUE;
  /* In the function that is about to enter the evaluator. */
  ASSERT_MERGED ("5 E 6 E 7", "c1 b1 a1", FLAG, TRUE, 0, "c 5 b 6 a 7");
  ASSERT_MERGED ("5 6", "b0 a1", FLAG, TRUE, 0, "b a 5 6");
  /* So it is where the rest of the list could not be read. */
  ASSERT_MERGED ("5 E 6", "b1 a0", FLAG, TRUE, SONDE_WALK_TORN, "b 5 a 6");
  ASSERT_MERGED ("5 E 6 E 7", "c1 b1 a1", FLAG, TRUE, SONDE_WALK_DEEP, "c 5 b 6 a 7");
  ASSERT_MERGED ("5 E 6 E 7", "c1 b1", FLAG, TRUE, SONDE_WALK_DEEP, "5 c 6 b 7");
  /* All else as of the others. */
  ASSERT_MERGED ("E 5 E 6 E 7", "b1 a1", FLAG, TRUE, 0, "E 5 b 6 a 7");
  ASSERT_MERGED ("5 E 6 E 7", "d0 c1 b0 a1", FLAG, TRUE, 0, "5 d c 6 b a 7");
  {
    g_autofree char *fewer
        = merge_so ("5 E 6", "c1 b1 a1", FLAG, TRUE, 0, MAX_FRAMES, SONDE_MIXED_APART);

    g_assert_cmpstr (fewer, ==, "5 E 6 | c b a");
  }
  begins_early = FALSE;
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mixed-stack/keeps-apart-what-does-not-fit", keeps_apart_what_does_not_fit);
  g_test_add_func ("/mixed-stack/keeps-apart-what-is-cut-short-and-does-not-fit",
                   keeps_apart_what_is_cut_short_and_does_not_fit);
  g_test_add_func ("/mixed-stack/cuts-off-behind-what-has-no-room",
                   cuts_off_behind_what_has_no_room);
  g_test_add_func ("/mixed-stack/begins-with-what-is-about-to-be-evaluated",
                   begins_with_what_is_about_to_be_evaluated);
  g_test_add_func ("/mixed-stack/puts-frames-in-the-place-of-the-evaluator",
                   puts_frames_in_the_place_of_the_evaluator);
  g_test_add_func ("/mixed-stack/counts-from-the-outermost", counts_from_the_outermost);
  g_test_add_func ("/mixed-stack/counts-from-the-leaf-what-is-cut-short",
                   counts_from_the_leaf_what_is_cut_short);
  g_test_add_func ("/mixed-stack/knows-the-evaluator-by-its-ranges",
                   knows_the_evaluator_by_its_ranges);
  return g_test_run ();
}
