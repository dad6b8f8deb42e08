/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the readers of texts that counters are made of; the first says to which.
 */
#include <string.h>

#include "daemon/capture/counters/counters.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

static void
check_name (const char *name)
{
  if (memchr (name, '\0', SONDE_COUNTER_TEXT_MAX_NAME) == NULL)
    abort ();
}

/* Each answer takes at least a line. */
static void
check_progress (const SondeCounterText *text, const char **before)
{
  if (text->at <= *before || text->at > text->end || text->at[-1] != '\n')
    abort ();
  *before = text->at;
}

static void
fuzz_cpu (SondeCounterText *text)
{
  const char *before = text->at;
  SondeCpuTimes times;

  while (sonde_counter_text_next_cpu (text, &times))
    {
      check_progress (text, &before);
      if (times.cpu < -1 || times.cpu > 8191)
        abort ();
    }
}

static void
fuzz_memory (SondeCounterText *text)
{
  SondeMemoryAmounts amounts;

  if (sonde_counter_text_memory (text, &amounts)
      && (amounts.total % 1024 != 0 || amounts.available % 1024 != 0
          || amounts.swap_total % 1024 != 0 || amounts.swap_free % 1024 != 0))
    abort ();
}

static void
fuzz_devices (SondeCounterText *text,
              gboolean (*next) (SondeCounterText *text, SondeDeviceBytes *device))
{
  const char *before = text->at;
  SondeDeviceBytes device;

  while (next (text, &device))
    {
      check_progress (text, &before);
      check_name (device.name);
    }
  if (text->at != text->end)
    abort ();
}

static void
fuzz_interfaces (SondeCounterText *text)
{
  fuzz_devices (text, sonde_counter_text_next_interface);
}

static void
fuzz_disks (SondeCounterText *text)
{
  fuzz_devices (text, sonde_counter_text_next_disk);
}

static void
fuzz_process (SondeCounterText *text)
{
  SondeProcessAmounts amounts;

  if (sonde_counter_text_process (text, &amounts))
    check_name (amounts.name);
}

static void (*const parsers[]) (SondeCounterText *text) = {
  fuzz_cpu, fuzz_memory, fuzz_interfaces, fuzz_disks, fuzz_process,
};

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  unsigned which = input_take_byte (&input) % G_N_ELEMENTS (parsers);
  char *bytes = malloc (input.left > 0 ? input.left : 1);
  SondeCounterText text;

  if (bytes == NULL)
    abort ();
  if (input.left > 0)
    memcpy (bytes, input.at, input.left);
  text = sonde_counter_text (bytes, input.left);
  if (text.at != bytes || text.end > bytes + input.left)
    abort ();
  parsers[which](&text);
  free (bytes);

  return 0;
}
