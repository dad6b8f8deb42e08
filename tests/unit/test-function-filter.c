/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of this program, of libc, of a library that is loaded later, and of none, by lines
 * of a filter. */
#include <dlfcn.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>

#include "shared-ring/collector/tracer/function-filter.h"

/* Not called: only looked for. The third is "Shop::Cart::add(int)" to C++. */
__attribute__ ((noinline)) void alpha_one (void);
__attribute__ ((noinline)) void alpha_two (void);
__attribute__ ((noinline)) void cart_add (void) __asm__("_ZN4Shop4Cart3addEi");

void
alpha_one (void)
{
  __asm__ volatile(".skip 300, 0x90");
}

void
alpha_two (void)
{
  __asm__ volatile("nop");
}

void
cart_add (void)
{
  __asm__ volatile("nop");
}

#define ADDRESS(function) ((guint64) (gsize) (function))

typedef struct
{
  const char *lines;
  const char
      *wanted; /* of "1" alpha_one, "2" alpha_two, "+" cart_add, "m" getppid, "j" of no file */
} Filter;

static const Filter filters[] = {
  { "", "12+mj" },
  { "*", "12+mj" },
  { "!*", "" },
  { "alpha_one", "1" },
  { "alpha_*", "12" },
  { "alpha_???", "12" },
  { "alpha_?", "" },
  { "!alpha_*", "+mj" },
  { "!alpha_*\nalpha_two", "2+mj" },
  { "alpha_*\n!alpha_two", "1" },
  { "*two*\n*one", "12" },
  { "libc.so*:getppid", "m" },
  { "libc.so*:*", "m" },
  { "test-function-*:*", "12+" },
  { "malloc:alpha_one", "" },
  { "size>=300\n!libc.so*:*", "1" },
  { "size>=400\n!libc.so*:*", "" },
  { "size>=100000000", "" },
#ifdef HAVE_LIBIBERTY
  { "Shop::Cart::add", "+" },
  { "Shop::Cart::add(int)", "+" },
  { "Shop::Cart::add(long)", "" },
  { "test-function-filter:Shop::*", "+" },
  { "!Shop::*\n!test-*:alpha_*", "mj" },
#endif
  { "*Cart*", "+" },
  { "_ZN4Shop4Cart3addEi", "+" },
};

static void
lines_decide (void)
{
  guint64 libc = ADDRESS (dlsym (RTLD_DEFAULT, "getppid"));
  void *page = mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const struct
  {
    char letter;
    guint64 address;
  } functions[] = {
    { '1', ADDRESS (alpha_one) }, { '2', ADDRESS (alpha_two) },
    { '+', ADDRESS (cart_add) },  { 'm', libc },
    { 'j', ADDRESS (page) },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    {
      g_autoptr (GString) wanted = g_string_new (NULL);

      sonde_function_filter_set (filters[i].lines, strlen (filters[i].lines));
      for (gsize j = 0; j < G_N_ELEMENTS (functions); j++)
        if (sonde_function_filter_wants (functions[j].address, TRUE) == 1)
          g_string_append_c (wanted, functions[j].letter);
      g_test_message ("%s", filters[i].lines);
      g_assert_cmpstr (wanted->str, ==, filters[i].wanted);
    }
  munmap (page, 4096);
}

static int
wants (void *library, const char *name, gboolean may_read)
{
  return sonde_function_filter_wants (ADDRESS (dlsym (library, name)), may_read);
}

/* Of libc, and nobody's that is here. */
static void
library_that_comes_later_is_read (void)
{
  const char *lines = "libresolv*:ns_format_ttl\nlibresolv*:ns_parse_ttl";
  void *library;

  sonde_function_filter_set (lines, strlen (lines));
  g_assert_cmpint (sonde_function_filter_wants (ADDRESS (alpha_one), FALSE), ==, 0);
  library = dlopen ("libresolv.so.2", RTLD_LAZY | RTLD_LOCAL);
  g_assert_nonnull (library);
  /* Who may make no system call does not know. */
  g_assert_cmpint (wants (library, "ns_format_ttl", FALSE), ==, -1);
  g_assert_cmpint (wants (library, "ns_format_ttl", TRUE), ==, 1);
  g_assert_cmpint (wants (library, "ns_parse_ttl", FALSE), ==, 1);
  g_assert_cmpint (wants (library, "ns_datetosecs", FALSE), ==, 0);
}

/* As the header of a region has room for, and more; lines of nothing, and too many. */
static void
any_text_is_a_filter (void)
{
  g_autofree char *text = g_malloc (3000);
  g_autoptr (GRand) random = g_rand_new ();

  for (guint i = 0; i < 300; i++)
    {
      guint n = g_rand_int_range (random, 0, 3000);

      for (guint j = 0; j < n; j++)
        text[j] = "a*?!:\n\0>="[g_rand_int_range (random, 0, 9)];
      sonde_function_filter_set (text, n);
      sonde_function_filter_wants (ADDRESS (alpha_one), TRUE);
    }
  sonde_function_filter_set ("", 0);
  g_assert_cmpint (sonde_function_filter_wants (ADDRESS (alpha_one), TRUE), ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/function-filter/lines-decide", lines_decide);
  g_test_add_func ("/function-filter/a-library-that-comes-later-is-read",
                   library_that_comes_later_is_read);
  g_test_add_func ("/function-filter/any-text-is-one", any_text_is_a_filter);
  return g_test_run ();
}
