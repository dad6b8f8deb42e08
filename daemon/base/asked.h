/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The request as the front tells it to the broker: what is to be recorded. */
#pragma once

#include <glib.h>

#include "shared-ring/control-message.h"
#include "shared-ring/trie-layout.h"

typedef enum
{
  SONDE_SCOPE_TARGETS,
  SONDE_SCOPE_LAUNCH,
  SONDE_SCOPE_PIDS,
  SONDE_SCOPE_UNIT,
  SONDE_SCOPE_SYSTEM,
  SONDE_SCOPE_CGROUP,
  SONDE_N_SCOPES,
} SondeScope;

typedef enum
{
  SONDE_EVENT_AUTO,
  SONDE_EVENT_CYCLES,
  SONDE_EVENT_INSTRUCTIONS,
  SONDE_EVENT_CPU_CLOCK,
  SONDE_EVENT_NONE,
  SONDE_N_EVENTS,
  SONDE_EVENT_TRACEPOINT = SONDE_N_EVENTS, /* which one: SondeAsked.tracepoint */
} SondeEventChoice;

typedef enum
{
  SONDE_UNWIND_NONE = 0,          /* the sampled address only */
  SONDE_UNWIND_FRAME_POINTER = 1, /* the kernel's own user callchain */
  SONDE_UNWIND_DWARF = 2,
  SONDE_UNWIND_LIBDWFL = 3,
} SondeUnwindMode;

/* What becomes of heap events. */
typedef enum
{
  SONDE_MEMORY_DETAIL_EVENTS, /* an ALLOCATION frame each */
  SONDE_MEMORY_DETAIL_LOG,    /* protocol/heap-log.h */
  SONDE_MEMORY_DETAIL_SUMS,   /* protocol/heap-sums.h */
  SONDE_N_MEMORY_DETAILS,
} SondeMemoryDetail;

/* What is told of the time in which threads do not run. */
typedef enum
{
  SONDE_WAITS_OFF,
  SONDE_WAITS_TIMES, /* how long each thread ran, was runnable and blocked */
  SONDE_N_WAITS,
} SondeWaits;

/* Bits of SondeAsked.counters, in the order of the words. */
enum
{
  SONDE_COUNTERS_CPU = 1 << 0,
  SONDE_COUNTERS_MEMORY = 1 << 1,
  SONDE_COUNTERS_NETWORK = 1 << 2,
  SONDE_COUNTERS_DISK = 1 << 3,
  SONDE_COUNTERS_PROCESS = 1 << 4,
};

#define SONDE_UNIT_NAME_BYTES    256 /* with the NUL; systemd's UNIT_NAME_MAX */

#define SONDE_TRACE_FILTER_BYTES 2048 /* with the NUL; what a region's header has room for */

/* The part of a request that decides what is opened and sampled: values alone, so that it can be
 * sent as it is. Keys, units and ranges: dbus/org.sonde.Profiler1.xml. */
typedef struct
{
  guint32 scope;        /* SondeScope */
  guint32 event;        /* SondeEventChoice */
  guint64 period;       /* event counts (ns for cpu-clock); 0: by frequency */
  guint32 frequency_hz; /* 0: by period */
  guint32 tracepoint;   /* of sonde_tracepoint_name(), for SONDE_EVENT_TRACEPOINT */
  gint32 kernel; /* booleans, here and in the next four: kernel functions get names; raw implies */
  gint32 raw;    /* kernel addresses as they are, nothing hidden */
  gint32 children;
  gint32 start_on_exec;
  gint32 symbols;
  guint32 unwind;                /* SondeUnwindMode */
  guint32 stack_size_bytes;      /* asked for in each sample */
  guint32 max_depth;             /* frames kept, leaf first */
  guint64 duration_us;           /* 0: until stopped */
  guint64 memory_interval_bytes; /* between heap samples, on average */
  guint64 trace_memory_bytes;    /* of the call tries of all programs */
  guint64 recorder_us;           /* kept in memory, of late; 0 with recorder_bytes: any time */
  guint64 recorder_bytes;        /* of memory for that; 0: all is written as it comes */
  guint64 trace_slow_us;         /* a call that takes longer is a mark; 0: none is */
  guint32 memory;                /* SondeMemoryMode */
  guint32 memory_wait_us;        /* that a profiled program may wait for room in a ring */
  guint32 counters;              /* SONDE_COUNTERS_* */
  guint32 memory_detail;         /* SondeMemoryDetail */
  guint32 trace;                 /* SondeTrieMode */
  guint32 trace_depth;           /* calls deeper than that have no path */
  guint32 trace_budget;          /* for hooks of a process, 1/100 % of a processor; 0: any */
  gint32 interpreters;           /* a boolean: functions of interpreted programs are shown */
  guint32 waits;                 /* SondeWaits */
  guint32 padding;
  char trace_filter[SONDE_TRACE_FILTER_BYTES]; /* lines; "": all functions */
  char unit[SONDE_UNIT_NAME_BYTES];            /* of the scope `unit`, else "" */
} SondeAsked;

/* "targets", "launch", "pids", "unit", "system", "cgroup". */
const char *sonde_scope_name (SondeScope scope);
/* @scope: SondeScope. Whether that is who is in a control group, at any time. */
gboolean sonde_scope_is_group (guint32 scope);
/* "auto", "cycles", ..., NULL; not of tracepoints */
extern const char *const sonde_event_choice_names[SONDE_N_EVENTS + 1];
/* The words of the options by the values that stand for them; NULL behind the last. */
extern const char *const sonde_unwind_names[];
extern const char *const sonde_symbols_names[];
extern const char *const sonde_memory_names[];
extern const char *const sonde_memory_detail_names[];
extern const char *const sonde_trace_names[];
extern const char *const sonde_interpreters_names[];
extern const char *const sonde_waits_names[];
/* "auto", "sched:sched_switch", ...: the option `event`. */
const char *sonde_asked_event_name (const SondeAsked *self);

/* Of one that another process sent. Returns: NULL, or what cannot be */
const char *sonde_asked_check (const SondeAsked *self);
/* What a capture's METADATA says of it. Of a checked one.
 * @event: what was opened for it; @sees_kernel: whether that tells of time in the kernel */
void sonde_asked_describe (const SondeAsked *self,
                           const char *event,
                           gboolean sees_kernel,
                           GKeyFile *file,
                           const char *group);

/* The tracepoints that the option `event` takes, a closed list. Only the place and the stack of an
 * event are recorded, never its payload, which tells of other users' processes and files. So the
 * list holds events whose stack alone answers a question: who sleeps, who wakes, who faults, who
 * waits for a disk, who asks the kernel for what. */

/* The @index-th of the list, NULL behind the last. */
const char *sonde_tracepoint_name (guint index);
/* Whether @name is on the list, be it on this machine or not. @index: (out): written on success */
gboolean sonde_tracepoint_find (const char *name, guint *index);
