/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* C++ names become readable; others, and those made to explode, stay as they are. */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/demangle.h"

static void
assert_demangled (const char *name, const char *expected)
{
  char *text = sonde_demangle (name);

  g_assert_cmpstr (text, ==, expected);
  free (text);
}

static void
test_plain_names (void)
{
  assert_demangled ("", "");
  assert_demangled ("_", "_");
  assert_demangled ("i", "i");
  assert_demangled ("main", "main");
  assert_demangled ("_Z", "_Z");
  assert_demangled ("_Znonsense\xff", "_Znonsense\xff");
}

static void
test_mangled_names (void)
{
  assert_demangled ("_ZN3foo3barEv", "foo::bar()");
  assert_demangled ("_ZNSt6vectorIiSaIiEE9push_backERKi",
                    "std::vector<int, std::allocator<int> >::push_back(int const&)");
  assert_demangled ("_ZNSt3mapISsSt6vectorIiSaIiEESt4lessISsESaISt4pairIKSsS2_EEE5clearEv",
                    "std::map<std::string, std::vector<int, std::allocator<int> >, std::less<std::"
                    "string>, std::allocator<std::pair<std::string const, std::vector<int, "
                    "std::allocator<int> > > > >::clear()");
}

static void
test_rust_names (void)
{
  assert_demangled ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
  assert_demangled ("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
                    "3bar17h930b740aa9"
                    "4f1d3aE",
                    "<Test + 'static as foo::Bar<Test>>::bar");
  assert_demangled ("_RNvC6_123foo3bar", "123foo::bar");
  assert_demangled ("_RNvXs0_C1aNtB5_1bNtNtC4core4hash4Hash3fmt",
                    "<a::b as core::hash::Hash>::fmt");
  assert_demangled ("_RINvC1a1bFG_RL0_hEuE", "a::b::<for<'a> fn(&'a u8)>");
  assert_demangled ("_RNvC0_3bar", "::bar"); /* an empty name has no bytes */
  assert_demangled (
      "_RINvYNtNtNtCsjrHSEGnQ3l9_3std4hash6random11RandomStateNtNtCsgEmfK2I1SDS_4core4hash"
      "11BuildHasher8hash_oneRNtNtCslNYArtu3iFV_5alloc6string6StringECslCIAqueYAw2_1h",
      "<std::hash::random::RandomState as core::hash::BuildHasher>::hash_one::<&alloc::"
      "string::String>");
  /* what holds memory and refers back stays as it is */
  assert_demangled ("_RINvC1au3abcTmmEB2_E", "_RINvC1au3abcTmmEB2_E");
  assert_demangled (
      "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1i"
      "QbbcOaBLx_3std",
      "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>");
}

static void
append_reference (GString *name, gsize position)
{
  static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

  g_string_append_c (name, 'B');
  if (position > 62)
    g_string_append_c (name, digits[(position - 1) / 62]);
  if (position > 0)
    g_string_append_c (name, digits[(position - 1) % 62]);
  g_string_append_c (name, '_');
}

/* Each tuple holds the one before twice: @n_tuples of them print 2^n_tuples things. */
static char *
make_rust_bomb (guint n_tuples)
{
  GString *name = g_string_new ("_RINvC1a1b");
  gsize last = name->len - 2;

  g_string_append (name, "TmmE");
  for (guint i = 0; i < n_tuples; i++)
    {
      gsize position = name->len - 2;

      g_string_append_c (name, 'T');
      append_reference (name, last);
      append_reference (name, last);
      g_string_append_c (name, 'E');
      last = position;
    }
  g_string_append_c (name, 'E');
  return g_string_free (name, FALSE);
}

static void
test_exploding_rust_names (void)
{
  g_autofree char *small = make_rust_bomb (2);
  g_autofree char *large = make_rust_bomb (60);

  assert_demangled (small, "a::b::<(u32, u32), ((u32, u32), (u32, u32)), (((u32, u32), (u32, "
                           "u32)), ((u32, u32), (u32, u32)))>");
  assert_demangled (large, large);
  /* where nothing is printed it counts 62^8 lifetimes all the same */
  assert_demangled ("_RNvXIC1aFGzzzzzzzz_EuEuC1b1c", "_RNvXIC1aFGzzzzzzzz_EuEuC1b1c");
}

/* A number that means nothing, of thousands of digits, is read again at each reference. */
static void
test_rust_names_that_take_long (void)
{
  static const guint n_references[] = { 3, 100 };
  g_autofree char *digits = g_strnfill (3000, 'z');

  for (guint i = 0; i < G_N_ELEMENTS (n_references); i++)
    {
      g_autoptr (GString) name = g_string_new ("_RINvC1a1bCs");

      g_string_append_printf (name, "%s_1c", digits);
      for (guint j = 0; j < n_references[i]; j++)
        append_reference (name, 8);
      g_string_append_c (name, 'E');
      assert_demangled (name->str, i == 0 ? "a::b::<c, c, c, c>" : name->str);
    }
}

static void
test_long_names (void)
{
  g_autoptr (GString) name = g_string_new ("_Z1f");

  while (name->len < 4096)
    g_string_append_c (name, 'i');
  g_string_append_c (name, 'i');
  assert_demangled (name->str, name->str);
}

/* Each substitution stands for twice the one before: 40 of them would be terabytes. */
static void
test_exploding_names (void)
{
  static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  g_autoptr (GString) name = g_string_new ("_Z1f1aSt4pairIS_S_E");

  for (guint i = 1; i < 35; i++)
    g_string_append_printf (name, "S0_IS%c_S%c_E", digits[i], digits[i]);
  assert_demangled (name->str, name->str);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/demangle/leaves-plain-names-alone", test_plain_names);
  g_test_add_func ("/demangle/leaves-overlong-names-alone", test_long_names);
  g_test_add_func ("/demangle/leaves-exploding-names-alone", test_exploding_names);
  g_test_add_func ("/demangle/leaves-rust-names-alone-that-take-long",
                   test_rust_names_that_take_long);
  g_test_add_func ("/demangle/demangles-cpp-names", test_mangled_names);
  g_test_add_func ("/demangle/demangles-rust-names", test_rust_names);
  g_test_add_func ("/demangle/bounds-exploding-rust-names", test_exploding_rust_names);
  return g_test_run ();
}
