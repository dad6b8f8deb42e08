/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the numbers in those texts of /proc that are read again and again. */
#pragma once

#include <glib.h>

/**
 * SECTION: counter-text
 *
 * A text is a span of bytes that need not end with a NUL. Names in it are anybody's; whoever made
 * the rest may be mistaken: a line that is not of its form is left out, and a number that does not
 * fit is none. What a text cut short ends with is left out, too, for half a number is another one.
 */
typedef struct
{
  const char *at;
  const char *end;
} SondeCounterText;

/* @size_bytes: of which those behind the last line break are left out */
SondeCounterText sonde_counter_text (const char *bytes, gsize size_bytes);

/* Between two readings whose difference is a percentage: /proc counts time in hundredths of a
 * second, and what fewer of them than five say is noise. */
#define SONDE_COUNTER_MIN_PERIOD_NS G_GINT64_CONSTANT (50000000)

#define SONDE_COUNTER_TEXT_MAX_NAME 32 /* bytes of a name, NUL included; longer ones are cut */

/* Since boot, in clock ticks. */
typedef struct
{
  gint cpu; /* -1: all of them together */
  guint64 busy_ticks;
  guint64 idle_ticks; /* waits for a disk included */
} SondeCpuTimes;

/* Of /proc/stat: the next line of a processor; FALSE at the first line of something else.
 * Source: proc_stat(5) */
gboolean sonde_counter_text_next_cpu (SondeCounterText *self, SondeCpuTimes *times);

/* Bytes. */
typedef struct
{
  guint64 total;
  guint64 available;
  guint64 swap_total;
  guint64 swap_free;
} SondeMemoryAmounts;

/* Reads all of /proc/meminfo; FALSE if one of the four is missing. Source: proc_meminfo(5) */
gboolean sonde_counter_text_memory (SondeCounterText *self, SondeMemoryAmounts *amounts);

/* What one device has moved since boot. */
typedef struct
{
  char name[SONDE_COUNTER_TEXT_MAX_NAME];
  guint64 in_bytes;  /* received, or read */
  guint64 out_bytes; /* sent, or written */
} SondeDeviceBytes;

/* Reads the next interface of /proc/net/dev; FALSE at the end. Source: proc_pid_net(5) */
gboolean sonde_counter_text_next_interface (SondeCounterText *self, SondeDeviceBytes *device);
/* Reads the next disk of /proc/diskstats, or part of one; FALSE at the end.
 * Source: proc_diskstats(5); a sector has 512 bytes, whatever the disk's */
gboolean sonde_counter_text_next_disk (SondeCounterText *self, SondeDeviceBytes *device);

typedef struct
{
  char name[SONDE_COUNTER_TEXT_MAX_NAME];
  guint64 run_ticks; /* clock ticks, of all its threads, in user and kernel mode */
  guint64 start_ticks;
  guint64 n_threads;
  guint64 resident_pages;
} SondeProcessAmounts;

/* Of /proc/PID/stat. A program names itself "a) R 1 (b": the name ends at the last ')'.
 * Source: proc_pid_stat(5) */
gboolean sonde_counter_text_process (SondeCounterText *self, SondeProcessAmounts *amounts);
