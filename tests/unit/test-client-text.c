/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Escaping of foreign names, and numbers for people. */
#include "client/base/text.h"

static void
assert_escaped (const char *bytes, gssize len, const char *expected)
{
  g_autofree char *escaped = sonde_text_escape (bytes, len);

  g_assert_cmpstr (escaped, ==, expected);
}

static void
control_characters_cannot_reach_the_terminal (void)
{
  assert_escaped ("a\033[2Jb", -1, "a\\x1b[2Jb");
  assert_escaped ("a\nb\tc\rd", -1, "a\\nb\\tc\\x0dd");
  assert_escaped ("\x7f", -1, "\\x7f");
  assert_escaped ("\xc2\x9b", -1, "\\u{009b}");
}

static void
characters_that_turn_text_round_are_escaped (void)
{
  assert_escaped ("a\xe2\x80\xae"
                  "b",
                  -1, "a\\u{202e}b");
  assert_escaped ("a\xe2\x80\xa8"
                  "b",
                  -1, "a\\u{2028}b");
}

static void
invalid_utf8_is_shown_byte_by_byte (void)
{
  assert_escaped ("a\xff"
                  "b",
                  -1, "a\\xffb");
  assert_escaped ("\xc3", -1, "\\xc3");
  assert_escaped ("\xe2\x82", 2, "\\xe2\\x82");
  assert_escaped ("\xed\xa0\x80", -1, "\\xed\\xa0\\x80");
}

static void
a_nul_inside_does_not_end_the_text (void)
{
  assert_escaped ("a\0b", 3, "a\\x00b");
}

static void
printable_text_stays (void)
{
  assert_escaped ("std::vector<int>::push_back(int const&)", -1,
                  "std::vector<int>::push_back(int const&)");
  assert_escaped ("grün", -1, "grün");
  assert_escaped ("a\\b", -1, "a\\\\b");
}

static void
quotes_are_escaped_between_quotes (void)
{
  g_autoptr (GString) out = g_string_new (NULL);

  sonde_text_append_quoted (out, "a\"b", -1);
  g_assert_cmpstr (out->str, ==, "\"a\\\"b\"");
}

static void
numbers_are_grouped_and_scaled (void)
{
  g_autofree char *small = sonde_text_count (7);
  g_autofree char *large = sonde_text_count (11934567);
  g_autofree char *one = sonde_text_plural (1, "sample", "samples");
  g_autofree char *bytes = sonde_text_size (812);
  g_autofree char *mib = sonde_text_size (3250586);
  g_autofree char *seconds = sonde_text_duration (5020000000);
  g_autofree char *minutes = sonde_text_duration (125000000000);

  g_assert_cmpstr (small, ==, "7");
  g_assert_cmpstr (large, ==, "11,934,567");
  g_assert_cmpstr (one, ==, "1 sample");
  g_assert_cmpstr (bytes, ==, "812 B");
  g_assert_cmpstr (mib, ==, "3.1 MiB");
  g_assert_cmpstr (seconds, ==, "5.02 s");
  g_assert_cmpstr (minutes, ==, "2 min 05 s");
}

static void
assert_duration (const char *text, gint64 expected_ns)
{
  gint64 duration_ns = -1;

  g_assert_cmpint (sonde_text_parse_duration (text, &duration_ns), ==, expected_ns >= 0);
  g_assert_cmpint (duration_ns, ==, expected_ns);
}

static void
durations_have_a_unit (void)
{
  g_autofree char *none = sonde_text_duration (-1);

  g_assert_cmpstr (none, ==, "0.00 s");
  assert_duration ("0", 0);
  assert_duration ("0s", 0);
  assert_duration ("250ns", 250);
  assert_duration ("10us", 10000);
  assert_duration ("1.5s", 1500000000);
  assert_duration ("2min", G_GINT64_CONSTANT (120000000000));
  assert_duration ("", -1);
  assert_duration ("10", -1);
  assert_duration ("-1s", -1);
  assert_duration ("+1s", -1);
  assert_duration ("1 s", -1);
  assert_duration ("1h", -1);
  assert_duration ("1e300s", -1);
  assert_duration ("99999999999s", -1);
  assert_duration ("inf", -1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/client-text/escape/control-characters-cannot-reach-the-terminal",
                   control_characters_cannot_reach_the_terminal);
  g_test_add_func ("/client-text/escape/characters-that-turn-text-round-are-escaped",
                   characters_that_turn_text_round_are_escaped);
  g_test_add_func ("/client-text/escape/invalid-utf8-is-shown-byte-by-byte",
                   invalid_utf8_is_shown_byte_by_byte);
  g_test_add_func ("/client-text/escape/a-nul-inside-does-not-end-the-text",
                   a_nul_inside_does_not_end_the_text);
  g_test_add_func ("/client-text/escape/printable-text-stays", printable_text_stays);
  g_test_add_func ("/client-text/escape/quotes-are-escaped-between-quotes",
                   quotes_are_escaped_between_quotes);
  g_test_add_func ("/client-text/numbers-are-grouped-and-scaled", numbers_are_grouped_and_scaled);
  g_test_add_func ("/client-text/durations-have-a-unit", durations_have_a_unit);
  return g_test_run ();
}
