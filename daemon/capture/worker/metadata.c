/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the content of the METADATA frame "sonde": what a capture says about itself. */
#include "daemon/capture/worker/metadata.h"

#include <sched.h>
#include <sys/utsname.h>

#define GROUP "sonde"

/* Those that this process may run on. g_get_num_processors() would look into /sys. */
static guint
count_processors (void)
{
  cpu_set_t sets[8]; /* 8,192 of them, as many as Linux can have */

  if (sched_getaffinity (0, sizeof sets, sets) < 0)
    return 1;
  return (guint) CPU_COUNT_S (sizeof sets, sets);
}

static const char *
unwind_name (guint32 mode)
{
  static const char *const names[] = {
    [SONDE_UNWIND_NONE] = "none",
    [SONDE_UNWIND_FRAME_POINTER] = "frame-pointer",
    [SONDE_UNWIND_DWARF] = "dwarf",
    [SONDE_UNWIND_LIBDWFL] = "libdwfl",
  };

  return mode < G_N_ELEMENTS (names) ? names[mode] : "?";
}

static void
describe_memory (GKeyFile *file, const SondeMessageSetup *setup)
{
  if (setup->memory == SONDE_MEMORY_OFF)
    return;
  g_key_file_set_string (file, GROUP, "memory",
                         setup->memory == SONDE_MEMORY_ALL ? "all" : "sampled");
  if (setup->memory == SONDE_MEMORY_SAMPLED)
    g_key_file_set_uint64 (file, GROUP, "memory-interval", setup->memory_interval_bytes);
  g_key_file_set_uint64 (file, GROUP, "memory-wait", setup->memory_wait_us);
}

static void
describe_options (GKeyFile *file, const SondeMessageSetup *setup)
{
  g_key_file_set_string (file, GROUP, "scope", setup->scope);
  g_key_file_set_string (file, GROUP, "event", setup->event);
  if (setup->frequency_hz != 0)
    g_key_file_set_uint64 (file, GROUP, "frequency", setup->frequency_hz);
  else
    g_key_file_set_uint64 (file, GROUP, "period", setup->period);
  g_key_file_set_boolean (file, GROUP, "kernel", (setup->flags & SONDE_SPEC_KERNEL_NAMES) != 0);
  g_key_file_set_boolean (file, GROUP, "raw", (setup->flags & SONDE_SPEC_RAW) != 0);
  g_key_file_set_string (file, GROUP, "kernel-time",
                         setup->flags & SONDE_SPEC_KERNEL_TIME ? "yes" : "user time only");
  g_key_file_set_boolean (file, GROUP, "children", (setup->flags & SONDE_SPEC_CHILDREN) != 0);
  g_key_file_set_string (file, GROUP, "unwind", unwind_name (setup->unwind));
  g_key_file_set_uint64 (file, GROUP, "stack-size", setup->stack_size_bytes);
  g_key_file_set_uint64 (file, GROUP, "max-depth", setup->max_depth);
  g_key_file_set_uint64 (file, GROUP, "duration", setup->duration_us);
  g_key_file_set_string (file, GROUP, "symbols",
                         setup->flags & SONDE_SPEC_SYMBOLS ? "end" : "none");
}

char *
sonde_metadata_new (const SondeMessageSetup *setup,
                    gsize sample_ring_bytes,
                    gsize sideband_ring_bytes)
{
  g_autoptr (GKeyFile) file = g_key_file_new ();
  struct utsname machine;

  g_key_file_set_string (file, GROUP, "version", setup->sonde_version);
  g_key_file_set_uint64 (file, GROUP, "session", setup->session_id);
  describe_options (file, setup);
  describe_memory (file, setup);
  if (uname (&machine) == 0)
    {
      g_key_file_set_string (file, GROUP, "host", machine.nodename);
      g_key_file_set_string (file, GROUP, "machine", machine.machine);
      g_key_file_set_string (file, GROUP, "kernel-release", machine.release);
    }
  g_key_file_set_uint64 (file, GROUP, "processors", count_processors ());
  g_key_file_set_string (file, GROUP, "clock", "CLOCK_MONOTONIC");
  g_key_file_set_int64 (file, GROUP, "start", setup->start_ns);
  g_key_file_set_int64 (file, GROUP, "start-realtime", setup->start_realtime_ns);
  g_key_file_set_uint64 (file, GROUP, "sample-ring-bytes", sample_ring_bytes);
  g_key_file_set_uint64 (file, GROUP, "sideband-ring-bytes", sideband_ring_bytes);

  return g_key_file_to_data (file, NULL, NULL);
}
