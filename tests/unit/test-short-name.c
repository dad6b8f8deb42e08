/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of functions as short as people read them. */
#include "client/names/short-name.h"

#include <string.h>

static void
each_language_is_shortened (void)
{
  static const struct
  {
    const char *full;
    const char *bare;
  } names[] = {
    { "main", "main" },
    { "copy(char const*)", "copy" },
    { "void copy<int>(int const*)", "copy<…>" },
    { "std::vector<std::pair<int, char>, std::allocator<std::pair<int, char> > >::push_back(int&&)",
      "std::vector<…>::push_back" },
    { "std::__cxx11::basic_string<char>::size() const", "std::__cxx11::basic_string<…>::size" },
    { "format[abi:cxx11](int)", "format" },
    { "parse(int) [clone .part.0]", "parse" },
    { "(anonymous namespace)::Tree::walk(int)", "(anonymous namespace)::Tree::walk" },
    { "Tree::operator()(int) const", "Tree::operator()" },
    { "Tree::operator<(Tree const&) const", "Tree::operator<" },
    { "bool operator<< <char>(Out<char>&)", "operator<< <…>" },
    { "Tree::operator->() const", "Tree::operator->" },
    { "operator new[](unsigned long)", "operator new[]" },
    { "run()::{lambda(int, std::vector<int>)#2}::operator()(int, std::vector<int>) const",
      "run::{lambda#2}::operator()" },
    { "core::ptr::drop_in_place<alloc::vec::Vec<u8>>::h0123456789abcdef",
      "core::ptr::drop_in_place<…>" },
    { "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop::h0123456789abcdef",
      "<alloc::vec::Vec<…> as core::ops::drop::Drop>::drop" },
    { "app::main::{{closure}}", "app::main::{{closure}}" },
    { "main.(*Tree).Walk", "main.(*Tree).Walk" },
    { "main.Map[...]", "main.Map" },
    { "Parser.parse (json.py)", "Parser.parse (json.py)" },
    { "run.<locals>.<lambda> (a.py)", "run.<locals>.<lambda> (a.py)" },
    { "<module> (a.py)", "<module> (a.py)" },
    { "[stack truncated]", "[stack truncated]" },
    { "libfoo.so+0x1234", "libfoo.so+0x1234" },
    { "broken<(name", "broken<(name" },
    { "", "" },
    { "(", "(" },
    { ")", ")" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *bare = sonde_short_name_new (names[i].full, SONDE_SHORT_BARE);
      g_autofree char *full = sonde_short_name_new (names[i].full, SONDE_SHORT_FULL);

      g_assert_cmpstr (bare, ==, names[i].bare);
      g_assert_cmpstr (full, ==, names[i].full);
    }
}

static void
names_that_are_shown_together_are_all_different (void)
{
  static const char *const full[]
      = { "f(int)",       "f(char)",      "g(int)", "v<int>::h(v<x<int>>)", "v<char>::h(v<x<int>>)",
          "w(x<y<int>>)", "w(x<y<char>>)" };
  g_autoptr (SondeShortNames) names = sonde_short_names_new (FALSE);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (gsize i = 0; i < G_N_ELEMENTS (full); i++)
    sonde_short_names_add (names, full[i]);
  g_assert_cmpstr (sonde_short_names_get (names, full[0]), ==, "f(int)");
  g_assert_cmpstr (sonde_short_names_get (names, full[2]), ==, "g");
  g_assert_cmpstr (sonde_short_names_get (names, full[3]), ==, "v<int>::h");
  g_assert_cmpstr (sonde_short_names_get (names, full[5]), ==, full[5]);
  g_assert_cmpstr (sonde_short_names_get (names, "unknown(int)"), ==, "unknown(int)");
  for (gsize i = 0; i < G_N_ELEMENTS (full); i++)
    g_assert_true (g_hash_table_add (seen, (gpointer) sonde_short_names_get (names, full[i])));
}

static void
what_is_too_wide_has_an_ellipsis_in_its_middle (void)
{
  static const struct
  {
    const char *name;
    guint width;
    gboolean utf8;
    const char *fit;
  } cases[] = {
    { "abcdefghij", 10, TRUE, "abcdefghij" }, { "abcdefghij", 7, TRUE, "abc…hij" },
    { "abcdefghij", 6, FALSE, "ab..ij" },     { "abcdefghij", 1, TRUE, "…" },
    { "abcdefghij", 1, FALSE, "" },           { "日本語日本語", 7, TRUE, "日…本語" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *fit = sonde_short_name_fit (cases[i].name, cases[i].width, cases[i].utf8);

      g_assert_cmpstr (fit, ==, cases[i].fit);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/short-name/languages", each_language_is_shortened);
  g_test_add_func ("/short-name/unique", names_that_are_shown_together_are_all_different);
  g_test_add_func ("/short-name/fit", what_is_too_wide_has_an_ellipsis_in_its_middle);
  return g_test_run ();
}
