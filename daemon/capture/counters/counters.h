/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counters of the machine and of processes, out of texts of /proc that are read again and again. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/stream/recorder.h"

/**
 * SECTION: counters
 *
 * The broker hands over texts of /proc that it has opened once; they are read here, again and
 * again, ten times a second: /proc counts time in hundredths of a second, so that a tenth has a
 * resolution of 10 %, and what is shorter is in the samples. Each reading is one CTRSET frame of
 * the machine and one of each process; the counters are in docs/protocol.md, "Counters".
 *
 * A processor, interface or disk that comes later gets counters of its own when it is first seen,
 * up to the maxima below; one that goes is silent. Nothing is allocated by a reading that sees
 * nothing new.
 *
 * Whoever has /proc/PID/stat of a target open sees the numbers of that process for as long as it
 * lives, whatever it executes. So it is closed when the process executes another program, or may
 * have done so unseen, and the broker is asked whether the session may see that one, too. Main
 * thread only.
 */
#define SONDE_COUNTERS_MAX_CPUS       1024
#define SONDE_COUNTERS_MAX_INTERFACES 256
#define SONDE_COUNTERS_MAX_DISKS      256
#define SONDE_COUNTERS_MAX_PROCESSES  256 /* SONDE_LIMIT_SESSION_TARGETS */

/* Asks the broker for the text of @pid again; FALSE: the broker is gone. */
typedef gboolean (*SondeCountersAsk) (gint32 pid, gpointer user_data);

typedef struct SondeCounters SondeCounters;

/* @recorder: borrowed, and outliving it */
SondeCounters *
sonde_counters_new (SondeRecorder *recorder, SondeCountersAsk ask, gpointer user_data);
void sonde_counters_free (SondeCounters *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCounters, sonde_counters_free)

/* @pid: of SONDE_COUNTER_KIND_PROCESS: who is to be counted
 * @fd: (transfer full): a text that pread() gives from its start; -1: of a process that is not for
 *   the session, or not before it executes a program */
void sonde_counters_add (SondeCounters *self, SondeCounterKind kind, gint32 pid, int fd);
/* The process executes a program. */
void sonde_counters_exec (SondeCounters *self, gint32 pid);
/* Records are lost: any may have executed a program. */
void sonde_counters_lost_records (SondeCounters *self);

/* @is_shown: else it is but what the next reading is compared with, as while the session is
 * paused */
void sonde_counters_read (SondeCounters *self, gboolean is_shown, gint64 now_ns);

/* --- the texts --- */

/**
 * SondeCounterText:
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
