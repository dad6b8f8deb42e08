/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of one file by name. */
#include "daemon/capture/names/function-names.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/lib/symbol-file.h"

#define FUNCTION ELF64_ST_INFO (STB_GLOBAL, STT_FUNC)

/* Of the function at the beginning of a file that has one, called so. */
static char *
find (const char *name)
{
  SymbolFile symbols;
  g_autoptr (GByteArray) file = NULL;
  g_autoptr (SondeFunctionNames) names = NULL;
  sonde_autofd int fd = memfd_create ("elf", MFD_CLOEXEC);
  uint64_t begin, end;

  symbol_file_init (&symbols);
  symbol_file_add (&symbols, name, FUNCTION, SYMBOL_FILE_TEXT, 0x10);
  file = symbol_file_build (&symbols);
  symbol_file_clear (&symbols);
  g_assert_cmpint (write (fd, file->data, file->len), ==, (gssize) file->len);
  names = sonde_function_names_new (fd, "libx.so");
  return sonde_function_names_find (names, SYMBOL_FILE_TEXT, &begin, &end);
}

static void
are_told_demangled (void)
{
  g_autofree char *plain = find ("lsearch");
  g_autofree char *mangled = find ("_ZN3foo3barEv");

  g_assert_cmpstr (plain, ==, "lsearch");
  g_assert_cmpstr (mangled, ==, "foo::bar()");
}

/* A table of strings may be one name. */
static void
are_cut_when_too_long (void)
{
  g_autofree char *monster = g_strnfill (1 << 20, 'x');
  g_autofree char *name = find (monster);

  g_assert_cmpuint (strlen (name), ==, SONDE_FUNCTION_NAME_MAX);
  monster[SONDE_FUNCTION_NAME_MAX] = '\0';
  g_assert_cmpstr (name, ==, monster);
}

static void
are_places_without_a_file (void)
{
  g_autoptr (SondeFunctionNames) names = sonde_function_names_new (-1, "libx.so");
  uint64_t begin, end;
  g_autofree char *name = sonde_function_names_find (names, 0x1234, &begin, &end);

  g_assert_cmpstr (name, ==, "libx.so+0x1234");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/function-names/are-told-demangled", are_told_demangled);
  g_test_add_func ("/function-names/are-cut-when-too-long", are_cut_when_too_long);
  g_test_add_func ("/function-names/are-places-without-a-file", are_places_without_a_file);
  return g_test_run ();
}
