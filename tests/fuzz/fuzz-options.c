/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes, as a message's dictionary, to the readers of options. */
#include <gio/gunixfdlist.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/request/options.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_FDS 20

static GUnixFDList *
make_fds (unsigned n_fds)
{
  GUnixFDList *fds = g_unix_fd_list_new ();

  for (unsigned i = 0; i < n_fds; i++)
    if (g_unix_fd_list_append (fds, STDIN_FILENO, NULL) < 0)
      abort ();

  return fds;
}

/* It goes into a D-Bus message and names a key. */
static void
check_refusal (const GError *error)
{
  if (error == NULL || error->domain != SONDE_ERROR
      || (error->code != SONDE_ERROR_INVALID_OPTION && error->code != SONDE_ERROR_NOT_SUPPORTED)
      || !g_utf8_validate (error->message, -1, NULL) || strlen (error->message) > 1024)
    abort ();
}

/* A next sonded has the same of it, but for the processes. */
static void
check_restored (const SondeOptions *options, GVariant *view)
{
  g_autoptr (SondeOptions) restored = sonde_options_restore (view, NULL);
  g_autoptr (GVariant) again = NULL;

  if (restored == NULL || restored->targets->len != 0)
    abort ();
  g_ptr_array_unref (restored->targets);
  restored->targets = g_ptr_array_ref (options->targets);
  again = g_variant_ref_sink (sonde_options_to_variant (restored));
  if (!g_variant_equal (again, view))
    abort ();
}

static void
check_options (const SondeOptions *options)
{
  g_autoptr (GVariant) view = g_variant_ref_sink (sonde_options_to_variant (options));
  g_autofree char *description = sonde_options_describe (options);

  if (!g_variant_is_normal_form (view) || !g_utf8_validate (description, -1, NULL))
    abort ();
  check_restored (options, view);
  if ((options->asked.frequency_hz == 0) == (options->asked.period == 0)
      || options->asked.frequency_hz > SONDE_LIMIT_FREQUENCY
      || options->asked.period > SONDE_LIMIT_PERIOD_MAX || options->asked.stack_size_bytes % 8 != 0
      || options->asked.stack_size_bytes > SONDE_LIMIT_STACK_SIZE_MAX
      || options->asked.max_depth == 0 || options->asked.max_depth > SONDE_LIMIT_DEPTH
      || options->targets->len > SONDE_LIMIT_TARGETS
      || options->buffer_size_bytes > SONDE_LIMIT_SINK_BUFFER_MAX
      || strlen (options->label) > SONDE_LIMIT_LABEL || strchr (options->label, '/') != NULL
      || (options->asked.scope == SONDE_SCOPE_UNIT) != (options->asked.unit[0] != '\0'))
    abort ();
}

static void
check_stream_options (const SondeStreamOptions *options)
{
  if (options->n_pids > SONDE_MESSAGE_SINK_MAX_PIDS
      || (options->frames & ~(guint) SONDE_SINK_FRAMES_ALL) != 0
      || options->buffer_size_bytes < SONDE_LIMIT_SINK_BUFFER_MIN
      || options->buffer_size_bytes > SONDE_LIMIT_SINK_BUFFER_MAX)
    abort ();
}

static void
fuzz_dict (GVariant *dict, unsigned n_fds)
{
  g_autoptr (GUnixFDList) fds = n_fds > 0 ? make_fds (n_fds) : NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) stream_error = NULL;
  g_autoptr (SondeOptions) options = sonde_options_parse (dict, fds, FALSE, &error);
  SondeStreamOptions stream_options;

  if (options != NULL)
    check_options (options);
  else
    check_refusal (error);
  if (sonde_stream_options_parse (dict, &stream_options, &stream_error))
    check_stream_options (&stream_options);
  else
    check_refusal (stream_error);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  unsigned n_fds = input_take_byte (&input) % (MAX_FDS + 1);
  g_autoptr (GBytes) bytes = g_bytes_new (input.at, input.left);
  g_autoptr (GVariant) dict
      = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE_VARDICT, bytes, FALSE));
  g_autoptr (GVariant) normal = g_variant_get_normal_form (dict);
  unsigned before = fuzz_count_fds ();

  fuzz_dict (dict, n_fds);
  fuzz_dict (normal, n_fds);
  fuzz_await_fds (before);

  return 0;
}
