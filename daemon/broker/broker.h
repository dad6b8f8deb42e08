/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens for one session what needs rights: its targets, their perf events, what its worker asks. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/asked.h"
#include "daemon/base/asked-target.h"
#include "daemon/base/message.h"

/**
 * SECTION: broker
 *
 * The one door of this room. What goes in are values, structs that could be sent in one message,
 * and descriptors; what comes out are results that could be messages too, never from inside of a
 * call but from the main loop, and in their order. No object of sonded is known behind it.
 *
 * Life: prove (the targets are proven, the rings' events are open) → set up (the worker hears what
 * it needs before it maps them) → open (events on) → announce (the worker hears of the targets) →
 * add and answer, as often as wanted → close (events off our hands). Nothing is enabled before
 * every target was confirmed (see target.h). Main loop only.
 */
typedef struct SondeBroker SondeBroker;

typedef struct
{
  /* The answers to prove, open and add. @error: NULL: it is done. Else nothing is left of it. */
  void (*proved) (const GError *error, gpointer user_data);
  void (*opened) (const GError *error, gpointer user_data);
  void (*added) (const GError *error, gpointer user_data);
  /* To be sent to the worker as it is. @fds: (transfer full) */
  void (*message) (
      gpointer message, gsize size_bytes, const int *fds, unsigned n_fds, gpointer user_data);
  /* A sentence for the capture. */
  void (*note) (const char *text, gpointer user_data);
  /* Each time that no target is left, or the unit has no process. */
  void (*all_ended) (gpointer user_data);
  /* A processor has come back: what sonde_broker_record() tells is something else now. */
  void (*changed) (gboolean has_other_rings, gpointer user_data);
  /* The session cannot go on. */
  void (*failed) (const GError *error, gpointer user_data);
} SondeBrokerResults;

/* @asked: copied; @results: outliving it */
SondeBroker *sonde_broker_new (const SondeAsked *asked,
                               uid_t owner_uid,
                               pid_t owner_pid,
                               const SondeBrokerResults *results,
                               gpointer user_data);
/* Also from inside of a result. Those that are still to be told are not. Accepts NULL. */
void sonde_broker_free (SondeBroker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeBroker, sonde_broker_free)

/* @targets: (transfer full) (element-type SondeAskedTarget). `proved` follows: as
 * sonde_target_set_prove() and sonde_event_set_new() */
void sonde_broker_prove (SondeBroker *self, GPtrArray *targets);
/* Once proved: SETUP, DOCUMENT*, COUNTERS*, RINGS, or `failed`. */
void sonde_broker_set_up (SondeBroker *self, guint64 session_id);
/* @group: (nullable): the path of the unit's control group. EVENTS* and `opened` follow. */
void sonde_broker_open (SondeBroker *self, const char *group);
/* Once the worker has heard START. */
void sonde_broker_announce (SondeBroker *self);
/* The same as prove, open and announce of more targets, of which all come in or none. `added`
 * follows: also SONDE_ERROR_INVALID_STATE if this session takes none */
void sonde_broker_add (SondeBroker *self, GPtrArray *targets);

/* The worker's answer to rings of a processor that came while the session runs. @status: 0 or an
 * errno. `failed` if it was given none, unless the session is a recorded one */
void sonde_broker_take_rings_mapped (SondeBroker *self, int status);

/* What the worker asks for. The answers are messages. */
void sonde_broker_ask_process (SondeBroker *self, const SondeMessageProcessRequest *request);
void sonde_broker_ask_file (SondeBroker *self, const SondeMessageFileRequest *request);
void sonde_broker_ask_counters (SondeBroker *self, const SondeMessageCountersRequest *request);

/* Nothing is added any more and exits are of no interest; requests are still answered. */
void sonde_broker_close (SondeBroker *self);

/* --- from one sonded to the next --- */

/* A process that the session profiles. */
typedef struct
{
  gint32 pid;
  guint32 gid;         /* effective, of a proven one */
  guint64 start_ticks; /* /proc/PID/stat field 22 */
  guint64 permitted;   /* capabilities, of a proven one */
  gboolean is_proven;
} SondeRecordTarget;

/* An event that owns a ring. */
typedef struct
{
  guint64 id; /* PERF_EVENT_IOC_ID */
  gint32 cpu;
  guint32 kind; /* SondeEventKind */
} SondeRecordRing;

/* An event that tells whether those of its whole processor still count. */
typedef struct
{
  guint64 id; /* PERF_EVENT_IOC_ID */
  gint32 cpu;
  gint64 since_ns; /* when it was opened */
} SondeRecordPulse;

typedef struct
{
  char *group; /* path of the unit's control group, or NULL */
  char *note;  /* the unit's processes are watched one by one, or NULL */
  guint32 n_events;
  GArray *targets; /* SondeRecordTarget */
  GArray *named;   /* SondeRecordTarget: those of the scope `pids`, and their children */
  GArray *rings;   /* SondeRecordRing */
  GArray *pulses;  /* SondeRecordPulse */
} SondeBrokerRecord;

/* An empty one. */
void sonde_broker_record_init (SondeBrokerRecord *self);
/* Leaves it without its lists. */
void sonde_broker_record_clear (SondeBrokerRecord *self);

/* All that the next sonded needs of it, into an empty record; the events that own its rings, and
 * those that tell of processors that were off (element-type int; borrowed; none once it is closed).
 */
void sonde_broker_record (const SondeBroker *self, SondeBrokerRecord *record);
GArray *sonde_broker_ring_fds (const SondeBroker *self);
GArray *sonde_broker_pulse_fds (const SondeBroker *self);
/* Instead of proving and opening: as it was left by a sonded before us. `all_ended` follows if no
 * target is left. @start_time_us: when it began, since 1970; @event_fds: (element-type int): taken
 * and replaced by -1; @is_closed: it was */
void sonde_broker_restore (SondeBroker *self,
                           const SondeBrokerRecord *record,
                           guint64 start_time_us,
                           GArray *event_fds,
                           gboolean is_closed);

/* --- what the machine has --- */

/* What the option `event` takes here. */
GStrv sonde_broker_event_names (void);
