/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prints the names that Debian's libsysprof finds in a capture: sysprof-names CAPTURE
 *
 * A line for each sampled address of user code: process, address, name; from what the capture
 * embeds alone, as Sysprof does where it was not recorded. */
#include <stdio.h>
#include <stdlib.h>

#include <sysprof.h>

#define FIRST_JIT_ADDRESS 0xE000000000000000u

static void
print_names (SysprofSymbolResolver *resolver, const SysprofCaptureSample *sample)
{
  SysprofAddressContext context = SYSPROF_ADDRESS_CONTEXT_NONE;

  for (guint i = 0; i < sample->n_addrs; i++)
    {
      SysprofCaptureAddress address = sample->addrs[i];
      SysprofAddressContext next;
      g_autofree char *name = NULL;
      GQuark tag = 0;

      if (sysprof_address_is_context_switch (address, &next))
        context = next;
      if (next != SYSPROF_ADDRESS_CONTEXT_NONE || context != SYSPROF_ADDRESS_CONTEXT_USER
          || address >= FIRST_JIT_ADDRESS)
        continue;
      name = sysprof_symbol_resolver_resolve_with_context (
          resolver, (guint64) sample->frame.time, sample->frame.pid, context, address, &tag);
      printf ("%d %" G_GINT64_MODIFIER "x %s\n", sample->frame.pid, address,
              name != NULL ? name : "");
    }
}

int
main (int argc, char *argv[])
{
  g_autoptr (SysprofSymbolResolver) resolver = sysprof_capture_symbol_resolver_new ();
  SysprofCaptureReader *reader = argc == 2 ? sysprof_capture_reader_new (argv[1]) : NULL;
  SysprofCaptureFrameType type;

  if (reader == NULL)
    {
      fprintf (stderr, "sysprof-names: no capture\n");
      return 2;
    }
  sysprof_symbol_resolver_load (resolver, reader);
  sysprof_capture_reader_reset (reader);
  while (sysprof_capture_reader_peek_type (reader, &type))
    {
      const SysprofCaptureSample *sample = NULL;

      if (type == SYSPROF_CAPTURE_FRAME_SAMPLE)
        sample = sysprof_capture_reader_read_sample (reader);
      else if (!sysprof_capture_reader_skip (reader))
        break;
      if (sample != NULL)
        print_names (resolver, sample);
    }
  sysprof_capture_reader_unref (reader);
  return 0;
}
