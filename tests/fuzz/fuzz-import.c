/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds profiles of other profilers to the import; the first byte says of which. What comes out
 * must be a capture. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/import/import.h"
#include "client/model/capture-file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

static void
check_capture (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  const SondeFrame *frame;

  if (file == NULL)
    abort ();
  while (sonde_capture_file_next (file, &frame, &error))
    ;
  if (error != NULL)
    abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  uint8_t choice = input_take_byte (&input);
  g_autofree char *text = g_strndup ((const char *) input.at, input.left);
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOutput) output = NULL;
  SondeImported imported = { 0 };
  int fd = memfd_create ("capture", MFD_CLOEXEC);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  gboolean is_good;

  memcpy (text, input.at, input.left);
  output = sonde_output_open (path, SONDE_OUTPUT_IN_PLACE, &error);
  if (output == NULL)
    abort ();
  is_good = choice % 2 == 0
                ? sonde_import_perf_script (text, input.left, "input", output, &imported, &error)
                : sonde_import_pprof ((const guint8 *) text, input.left, "input", output, &imported,
                                      &error);
  if (is_good != (error == NULL)
      || (error != NULL
          && strstr (error->message, choice % 2 == 0 ? ": line " : ": byte ") == NULL))
    abort ();
  if (is_good)
    {
      if (!sonde_import_close (imported.import, imported.event, imported.period, &error))
        abort ();
      check_capture (path);
    }
  sonde_import_free (imported.import);
  g_free (imported.event);
  close (fd);
  return 0;
}
