/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Options that a reader may ask of a stream. */
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/control/request/options.h"

static gboolean
parse (const char *text, SondeStreamOptions *options, GError **error)
{
  g_autoptr (GVariant) dict
      = g_variant_ref_sink (g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, NULL));

  g_assert_nonnull (dict);
  return sonde_stream_options_parse (dict, options, error);
}

static void
assert_refused (const char *text, const char *expected)
{
  SondeStreamOptions options = { .buffer_size_bytes = 42 };
  g_autoptr (GError) error = NULL;

  g_assert_false (parse (text, &options, &error));
  g_test_message ("%s: %s", text, error->message);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION);
  g_assert_nonnull (strstr (error->message, expected));
  g_assert_cmpuint (options.buffer_size_bytes, ==, 42);
}

static void
refuses_keys_and_types_by_name (void)
{
  assert_refused ("{'colour': <'red'>}", "Option colour: not known");
  assert_refused ("{'system': <true>}", "Option system: not known");
  assert_refused ("{'pids': <[1, 2]>}", "Option pids: has type ai, must be au");
  assert_refused ("{'frames': <'samples'>}", "Option frames: has type s, must be as");
  assert_refused ("{'buffer-size': <uint64 65536>}", "Option buffer-size: has type t, must be u");
}

static void
refuses_a_key_that_comes_twice (void)
{
  SondeStreamOptions options;
  g_autoptr (GError) error = NULL;
  GVariantBuilder builder;
  g_autoptr (GVariant) dict = NULL;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "buffer-size", g_variant_new_uint32 (65536));
  g_variant_builder_add (&builder, "{sv}", "buffer-size", g_variant_new_uint32 (65536));
  dict = g_variant_ref_sink (g_variant_builder_end (&builder));
  g_assert_false (sonde_stream_options_parse (dict, &options, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION);
  g_assert_cmpstr (error->message, ==, "Option buffer-size: given twice");
}

static void
refuses_values_out_of_range (void)
{
  g_autoptr (GString) text = g_string_new ("{'pids': <[uint32 1");

  assert_refused ("{'buffer-size': <uint32 65535>}", "Option buffer-size: must be from 65536");
  assert_refused ("{'buffer-size': <uint32 8388609>}", "to 8388608");
  assert_refused ("{'pids': <@au []>}", "Option pids: names no process");
  assert_refused ("{'pids': <[uint32 7, 0]>}", "is not a process number (1 to 2147483647)");
  assert_refused ("{'pids': <[uint32 2147483648]>}", "is not a process number (1 to 2147483647)");
  assert_refused ("{'frames': <['samples', 'stacks']>}",
                  "Option frames: not one of samples, allocations, marks, counters, logs");
  for (guint i = 0; i < SONDE_MESSAGE_SINK_MAX_PIDS; i++)
    g_string_append_printf (text, ", %u", i + 2);
  g_string_append (text, "]>}");
  assert_refused (text->str, "Option pids: at most 64 processes");
}

static void
gives_everything_by_default (void)
{
  SondeStreamOptions options;

  g_assert_true (parse ("{}", &options, NULL));
  g_assert_cmpuint (options.buffer_size_bytes, ==, SONDE_LIMIT_SINK_BUFFER);
  g_assert_cmpuint (options.frames, ==, SONDE_SINK_FRAMES_ALL);
  g_assert_cmpuint (options.n_pids, ==, 0);
}

static void
takes_all_keys (void)
{
  SondeStreamOptions options;

  g_assert_true (
      parse ("{'pids': <[uint32 7, 2147483647]>, 'frames': <['logs', 'samples', 'logs']>,"
             " 'buffer-size': <uint32 65536>}",
             &options, NULL));
  g_assert_cmpuint (options.buffer_size_bytes, ==, 65536);
  g_assert_cmpuint (options.frames, ==, SONDE_SINK_FRAMES_SAMPLES | SONDE_SINK_FRAMES_LOGS);
  g_assert_cmpuint (options.n_pids, ==, 2);
  g_assert_cmpint (options.pids[1], ==, G_MAXINT);
  /* The state alone. */
  g_assert_true (parse ("{'frames': <@as []>}", &options, NULL));
  g_assert_cmpuint (options.frames, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/stream-options/refuses-keys-and-types-by-name",
                   refuses_keys_and_types_by_name);
  g_test_add_func ("/stream-options/refuses-a-key-that-comes-twice",
                   refuses_a_key_that_comes_twice);
  g_test_add_func ("/stream-options/refuses-values-out-of-range", refuses_values_out_of_range);
  g_test_add_func ("/stream-options/gives-everything-by-default", gives_everything_by_default);
  g_test_add_func ("/stream-options/takes-all-keys", takes_all_keys);
  return g_test_run ();
}
