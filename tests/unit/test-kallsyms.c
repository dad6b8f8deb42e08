/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernel names from text that may be hidden, cut or nonsense. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/kallsyms.h"

static int
load (const char *text, gsize size, SondeKallsyms **symbols)
{
  int fd = memfd_create ("kallsyms", MFD_CLOEXEC);
  int r;

  g_assert_cmpint (write (fd, text, size), ==, (gssize) size);
  lseek (fd, 0, SEEK_SET);
  r = sonde_kallsyms_new (fd, symbols);
  close (fd);
  return r;
}

static void
assert_name (const SondeKallsyms *symbols, uint64_t address, const char *expected)
{
  const char *name = NULL;

  g_assert_cmpint (sonde_kallsyms_lookup (symbols, address, &name), ==, expected != NULL);
  g_assert_cmpstr (name, ==, expected);
}

static void
test_hidden (void)
{
  const char *text = "0000000000000000 T _stext\n0000000000000000 t do_one\n";
  SondeKallsyms *symbols;

  g_assert_cmpint (load (text, strlen (text), &symbols), ==, -EPERM);
}

static void
test_no_text_symbols (void)
{
  const char *text = "ffffffff81000000 D data\nffffffff81000000 b bss\n";
  SondeKallsyms *symbols;

  g_assert_cmpint (load ("", 0, &symbols), ==, -ENODATA);
  g_assert_cmpint (load (text, strlen (text), &symbols), ==, -ENODATA);
}

static void
test_malformed_lines (void)
{
  static const char text[] = "\n \nffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \n"
                             "ffffffff81000000 TT two\nxyz T word\n-1 T minus\n 1000 T indented\n"
                             "123456789abcdef012345 T too_long\nffffffff81000000 T \t[module]\n"
                             "ffffffff81000010 T good";
  SondeKallsyms *symbols;

  g_assert_cmpint (load (text, sizeof text - 1, &symbols), ==, 0);
  assert_name (symbols, 0xffffffff8100000f, NULL);
  assert_name (symbols, 0xffffffff81000010, "good");
  sonde_kallsyms_free (symbols);
}

static void
test_long_lines (void)
{
  g_autoptr (GString) text = g_string_new ("ffffffff81000000 T ");
  SondeKallsyms *symbols;

  for (guint i = 0; i < 300000; i++)
    g_string_append_c (text, 'x');
  g_string_append (text, "\nffffffff81000100 T good\n");
  g_assert_cmpint (load (text->str, text->len, &symbols), ==, 0);
  assert_name (symbols, 0xffffffff81000000, NULL);
  assert_name (symbols, 0xffffffff81000100, "good");
  sonde_kallsyms_free (symbols);
}

static void
test_lookups (void)
{
  static const char text[] = "ffffffffc0000000 t probe\t[a_module]\n"
                             "ffffffff81000000 T first\n"
                             "ffffffff81000000 t local_alias\n"
                             "ffffffff81000100 w weak\n"
                             "ffffffff81000100 T __global\n"
                             "ffffffff81000100 T global\n"
                             "ffffffff81000180 d data\n"
                             "ffffffff81000200 t last\n";
  SondeKallsyms *symbols;

  g_assert_cmpint (load (text, sizeof text - 1, &symbols), ==, 0);
  assert_name (symbols, 0xffffffff80ffffff, NULL);
  assert_name (symbols, 0xffffffff81000000, "first");
  assert_name (symbols, 0xffffffff810000ff, "first");
  assert_name (symbols, 0xffffffff81000190, "global");
  assert_name (symbols, 0xffffffff81000200, "last");
  assert_name (symbols, 0xffffffffa0000000, NULL);
  assert_name (symbols, 0xffffffffc0000001, "probe [a_module]");
  sonde_kallsyms_free (symbols);
}

/* 64 KiB at a time are read; lines lie across that. */
static void
test_many_lines (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  SondeKallsyms *symbols;

  for (guint i = 20000; i > 0; i--)
    g_string_append_printf (text, "%016lx t function_%u\n", 0xffffffff81000000 + i * 16UL, i);
  g_assert_cmpint (load (text->str, text->len, &symbols), ==, 0);
  for (guint i = 1; i <= 20000; i++)
    {
      g_autofree char *expected = g_strdup_printf ("function_%u", i);

      assert_name (symbols, 0xffffffff81000000 + i * 16UL + 15, expected);
    }
  sonde_kallsyms_free (symbols);
}

static void
test_this_kernel (void)
{
  int fd = open ("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
  SondeKallsyms *symbols = NULL;
  int r;

  if (fd < 0)
    {
      g_test_skip ("no /proc/kallsyms");
      return;
    }
  r = sonde_kallsyms_new (fd, &symbols);
  g_assert_true (r == 0 || r == -EPERM || r == -ENODATA);
  sonde_kallsyms_free (symbols);
  close (fd);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kallsyms/says-when-addresses-are-hidden", test_hidden);
  g_test_add_func ("/kallsyms/says-when-there-are-no-functions", test_no_text_symbols);
  g_test_add_func ("/kallsyms/skips-malformed-lines", test_malformed_lines);
  g_test_add_func ("/kallsyms/skips-endless-lines", test_long_lines);
  g_test_add_func ("/kallsyms/finds-the-function-before-an-address", test_lookups);
  g_test_add_func ("/kallsyms/reads-lines-across-buffers", test_many_lines);
  g_test_add_func ("/kallsyms/reads-this-kernel", test_this_kernel);
  return g_test_run ();
}
