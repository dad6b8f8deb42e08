/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers of columns: what comes back, and what is no number. */
#include "protocol/number-column.h"

#include <glib.h>
#include <string.h>

static void
assert_refused (const guint8 *bytes, gsize n_bytes)
{
  SondeNumberColumn column = { bytes, bytes + n_bytes };
  guint64 number = 77;

  g_assert_false (sonde_number_get (&column, &number));
  g_assert_cmpuint (number, ==, 77);
  g_assert_true (column.at <= column.end);
}

static void
refuses_what_is_no_number (void)
{
  static const guint8 too_large[] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2 };
  guint8 endless[64];

  memset (endless, 0x80, sizeof endless);
  assert_refused (endless, 0);
  for (gsize n = 1; n <= sizeof endless; n++)
    assert_refused (endless, n);
  assert_refused (too_large, sizeof too_large);
}

static void
comes_back_as_it_was_put (void)
{
  for (guint bit = 0; bit <= 64; bit++)
    for (gint off = -2; off <= 2; off++)
      {
        guint64 number = (bit < 64 ? G_GUINT64_CONSTANT (1) << bit : 0) + (guint64) (gint64) off;
        guint8 bytes[SONDE_NUMBER_MAX_BYTES];
        SondeNumberColumn column = { bytes, bytes + sonde_number_put (bytes, number) };
        guint64 got = 0;

        g_assert_false (sonde_number_column_is_over (&column));
        g_assert_true (sonde_number_get (&column, &got));
        g_assert_cmpuint (got, ==, number);
        g_assert_true (sonde_number_column_is_over (&column));
        g_assert_cmpuint (sonde_number_unfold (sonde_number_fold (number)), ==, number);
      }
}

static void
small_ones_stay_small_whatever_their_sign (void)
{
  guint8 bytes[SONDE_NUMBER_MAX_BYTES];

  for (gint64 number = -64; number < 64; number++)
    g_assert_cmpuint (sonde_number_put (bytes, sonde_number_fold ((guint64) number)), ==, 1);
  g_assert_cmpuint (sonde_number_fold ((guint64) G_GINT64_CONSTANT (-1)), ==, 1);
  g_assert_cmpuint (sonde_number_fold (1), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add_func ("/number-column/" name, function)
  ADD ("refuses-what-is-no-number", refuses_what_is_no_number);
  ADD ("comes-back-as-it-was-put", comes_back_as_it_was_put);
  ADD ("small-ones-stay-small-whatever-their-sign", small_ones_stay_small_whatever_their_sign);
#undef ADD
  return g_test_run ();
}
