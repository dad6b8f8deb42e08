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
  g_test_add_func ("/demangle/demangles-cpp-names", test_mangled_names);
  return g_test_run ();
}
