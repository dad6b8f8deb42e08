/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/worker/worker-session.h"

#include <errno.h>
#include <glib-unix.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/capture/worker/dispatch.h"

#define METADATA          "sonde" /* group, and name of the frame */
#define FIRST_DRAIN_US    2000    /* a reader waits for the first sample */
#define BUSY_DRAIN_US     20000   /* a ring that is half full before wakes us */
#define IDLE_DRAIN_US     100000
#define SNAPSHOT_DRAIN_US 1000 /* until records of its moment are no younger than the window */
#define NO_ROOM_US        1000 /* at the end; readers are asked again */
#define TICK_MS           100  /* flush; counters */
#define TICKS_A_STATISTIC 3    /* about three a second */
#define TICKS_A_REPORT    10   /* one a second */
#define STOP_WAIT_NS      (300 * G_GINT64_CONSTANT (1000000)) /* for answers, in all */
#define LINGER_MS         10                                  /* between looks at what holds us */
#define MAX_LINGERS       3000 /* 30 s: the front may be started anew meanwhile */
#define ANSWER_NS         (G_GINT64_CONSTANT (1000000000))  /* for readers, of less than 2 s */
#define URGENT_NS         (G_GINT64_CONSTANT (60000000000)) /* of SONDE_LIMIT_DELIVERY_MS */
#define SLEEP_NS          10000000 /* less is not worth a word: two clocks are not read at one moment */
#define STEP_NS           100000 /* the same */
#define FAR_S             G_MAXUINT32
#define MAX_MOUNTINFO     (256u << 10) /* bytes; SONDE_LIMIT_FOREIGN_MOUNTS times */

#define NEW               SONDE_WORKER_STATE_NEW
#define LINKED            SONDE_WORKER_STATE_LINKED
#define SET_UP            SONDE_WORKER_STATE_SET_UP
#define READY             SONDE_WORKER_STATE_READY
#define RUNNING           SONDE_WORKER_STATE_RUNNING
#define PAUSED            SONDE_WORKER_STATE_PAUSED
#define DRAINING          SONDE_WORKER_STATE_DRAINING
#define FINISHING         SONDE_WORKER_STATE_FINISHING
#define DONE              SONDE_WORKER_STATE_DONE

/* --- to the broker, and to the front --- */

static gboolean
send_request (const SondeRequest *request, gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  SondeMessageFileRequest file = request->file;
  SondeMessageProcessRequest process = { .header.type = SONDE_MESSAGE_PROCESS_REQUEST,
                                         .request_id = request->id,
                                         .pid = request->pid };

  file.header.type = SONDE_MESSAGE_FILE_REQUEST;
  if (self->link == NULL)
    return FALSE;
  if (request->is_file)
    return sonde_channel_send (self->link, &file, sizeof file, NULL, 0, NULL);
  return sonde_channel_send (self->link, &process, sizeof process, NULL, 0, NULL);
}

static gboolean
ask_counters (gint32 pid, gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  SondeMessageCountersRequest message
      = { .header.type = SONDE_MESSAGE_COUNTERS_REQUEST, .pid = pid };

  return self->link != NULL
         && sonde_channel_send (self->link, &message, sizeof message, NULL, 0, NULL);
}

static gboolean
send_interpreter (SondeMessageInterpreter *message, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  message->header.type = SONDE_MESSAGE_INTERPRETER;
  return self->link != NULL
         && sonde_channel_send (self->link, message, sizeof *message, NULL, 0, NULL);
}

static gboolean
send_probes (SondeMessageProbes *message, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  message->header.type = SONDE_MESSAGE_PROBES;
  return self->link != NULL
         && sonde_channel_send (self->link, message, sizeof *message, NULL, 0, NULL);
}

static gboolean
ask_threads (SondeMessageThreadsRequest *request, gsize size_bytes, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  request->header.type = SONDE_MESSAGE_THREADS_REQUEST;
  return self->link != NULL && sonde_channel_send (self->link, request, size_bytes, NULL, 0, NULL);
}

/* @message: the struct of @type, all but the header */
static void
tell (SondeWorkerSession *self, SondeMessageType type, gpointer message, gsize size_bytes)
{
  ((SondeMessageHeader *) message)->type = type;
  if (type == SONDE_MESSAGE_FINISHED || type == SONDE_MESSAGE_FAILED)
    memcpy (&self->last_word, message, size_bytes);
  /* A failure comes back as the channel's end. */
  if (self->front != NULL)
    sonde_channel_send (self->front, message, size_bytes, NULL, 0, NULL);
}

/* @type: STATISTICS, DRAINED or FINISHED */
static void
send_statistics (SondeWorkerSession *self, SondeMessageType type)
{
  SondeMessageStatistics message = { 0 };

  sonde_dispatch_sum (self, message.values);
  tell (self, type, &message, sizeof message);
}

static void
send_controls (gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  SondeMessageControls message = { 0 };

  if (self->inferiors != NULL)
    {
      message.n_taken = sonde_inferiors_n_taken (self->inferiors);
      message.n_open = sonde_inferiors_n_open (self->inferiors);
    }
  tell (self, SONDE_MESSAGE_CONTROLS, &message, sizeof message);
}

static void
send_snapped (guint64 request_id, int status, gpointer user_data)
{
  SondeMessageSnapped message = { .request_id = request_id, .status = status };

  tell (user_data, SONDE_MESSAGE_SNAPPED, &message, sizeof message);
}

/* --- the end --- */

/* Parts once the front has heard the last word, if there is one, and what else was sent is on its
 * way, or the front is gone. */
static gboolean
on_linger (gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  gboolean is_held = self->front != NULL
                     && (sonde_channel_queued (self->front) > 0
                         || (self->last_word.header.type != 0 && !self->is_heard));

  if (is_held && self->n_lingers++ < MAX_LINGERS)
    return G_SOURCE_CONTINUE;
  self->linger_source = 0;
  self->done (self->status, self->user_data);
  return G_SOURCE_REMOVE;
}

/* Called from within the parts, so all that is left is done from the main loop. */
static void
begin_end (SondeWorkerSession *self, int status)
{
  if (self->state == DONE)
    return;

  if (self->state == FINISHING && status == EXIT_SUCCESS)
    send_statistics (self, SONDE_MESSAGE_FINISHED);
  self->state = DONE;
  self->status = status;
  g_source_set_ready_time (self->drain, -1);
  self->linger_source = g_timeout_add (LINGER_MS, on_linger, self);
}

/* @text: printable ASCII */
static void
fail (SondeWorkerSession *self, int error_number, const char *text)
{
  SondeMessageFailed message = { .error = error_number };

  g_strlcpy (message.text, text, sizeof message.text);
  tell (self, SONDE_MESSAGE_FAILED, &message, sizeof message);
  begin_end (self, EXIT_FAILURE);
}

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  SondeMessageSinkClosed message = { .sink_id = sink_id, .reason = reason };

  tell (self, SONDE_MESSAGE_SINK_CLOSED, &message, sizeof message);
  if (self->state == FINISHING && self->symbolizer == NULL
      && sonde_recorder_n_sinks (self->recorder) == 0)
    begin_end (self, EXIT_SUCCESS);
}

/* @symbols: (nullable) */
static void
finish_sinks (GBytes *symbols, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  g_clear_pointer (&self->symbolizer, sonde_symbolizer_free);
  sonde_recorder_finish (self->recorder, symbols);
  if (sonde_recorder_n_sinks (self->recorder) == 0)
    begin_end (self, EXIT_SUCCESS);
}

/* --- turns --- */

static void
begin_drain (SondeWorkerSession *self)
{
  gint64 now_ns = sonde_stream_now_ns ();

  sonde_rings_enable (self->rings, FALSE);
  if (self->state == RUNNING)
    {
      sonde_unheard_stop (self->unheard, now_ns);
      sonde_dispatch_count (self);
    }
  if (self->waits != NULL)
    sonde_wait_book_stop (self->waits, now_ns);
  self->state = DRAINING;
  sonde_recorder_await_readers (self->recorder);
  sonde_tracker_ask_for_names (self->tracker, TRUE);
  self->wait_until_ns = now_ns + STOP_WAIT_NS;
  self->answer_ns = now_ns + ANSWER_NS;
  self->urgent_ns = now_ns + URGENT_NS;
  g_source_set_ready_time (self->drain, 0);
}

/* What programs have left in their rings goes to readers as these take it: that may last. */
static void
answer_stop (SondeWorkerSession *self)
{
  if (!self->is_answered)
    send_statistics (self, SONDE_MESSAGE_DRAINED);
  self->is_answered = TRUE;
}

/* At the end: files in which programs name what they made are asked for and read a last time, and
 * threads are looked at. */
static gboolean
answers_are_due (SondeWorkerSession *self)
{
  gboolean is_read = !sonde_jit_names_work (self->jit_names);

  return (!is_read || sonde_tracker_awaits_names (self->tracker)
          || (self->waits != NULL && sonde_wait_book_are_awaited (self->waits)))
         && sonde_stream_now_ns () < self->wait_until_ns;
}

static gboolean
on_drain (gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  gboolean draining = self->state == DRAINING;
  guint64 n_before = self->n_records;
  SondeRingsState result = sonde_dispatch_run (self);
  gint64 ready_us = 0;

  if (draining
      && !sonde_inferiors_drain (self->inferiors, sonde_stream_now_ns () >= self->urgent_ns))
    result = SONDE_RINGS_BUDGET;
  if (draining && result == SONDE_RINGS_EMPTY && answers_are_due (self))
    {
      g_source_set_ready_time (self->drain, g_get_monotonic_time () + NO_ROOM_US);
      return G_SOURCE_CONTINUE;
    }
  if (draining && result == SONDE_RINGS_EMPTY)
    {
      sonde_dispatch_end (self);
      sonde_recorder_report (self->recorder);
      self->state = FINISHING;
      g_source_set_ready_time (self->drain, -1);
      answer_stop (self);
      if (self->addresses != NULL)
        self->symbolizer = sonde_symbolizer_start (
            self->addresses, sonde_jit_names_finish (self->jit_names), finish_sinks, self);
      else
        finish_sinks (NULL, self);
      return G_SOURCE_CONTINUE;
    }
  if (draining && !self->is_answered && sonde_stream_now_ns () >= self->answer_ns)
    {
      sonde_inferiors_let_go (self->inferiors);
      answer_stop (self);
    }
  if (!draining
      && sonde_flight_recorder_is_due (self->flight_recorder, self->taken_ns,
                                       sonde_stream_now_ns ()))
    sonde_dispatch_snap (self);
  self->n_records = sonde_rings_n_handed_on (self->rings);
  if (result != SONDE_RINGS_BUDGET)
    {
      if (self->n_records == n_before && result == SONDE_RINGS_EMPTY)
        self->drain_interval_us = MIN (self->drain_interval_us * 2, IDLE_DRAIN_US);
      else
        self->drain_interval_us = self->n_records == 0 ? FIRST_DRAIN_US : BUSY_DRAIN_US;
      if (sonde_flight_recorder_is_asked (self->flight_recorder))
        self->drain_interval_us = SNAPSHOT_DRAIN_US;
      ready_us = g_get_monotonic_time () + self->drain_interval_us;
    }
  else if (draining && !sonde_recorder_has_room (self->recorder))
    ready_us = g_get_monotonic_time () + NO_ROOM_US;
  g_source_set_ready_time (self->drain, ready_us);
  if (n_before == 0 && self->n_records > 0)
    sonde_recorder_flush (self->recorder);

  return G_SOURCE_CONTINUE;
}

static gboolean
on_tick (gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  if ((self->state & (RUNNING | PAUSED)) == 0)
    return G_SOURCE_CONTINUE;

  self->n_ticks++;
  sonde_dispatch_tick (self, self->n_ticks % TICKS_A_STATISTIC == 0,
                       self->n_ticks % TICKS_A_REPORT == 0);
  if (self->n_ticks % TICKS_A_STATISTIC == 0)
    send_statistics (self, SONDE_MESSAGE_STATISTICS);

  return G_SOURCE_CONTINUE;
}

static gboolean
dispatch_drain (GSource *source, GSourceFunc callback, gpointer user_data)
{
  return callback (user_data);
}

static GSourceFuncs drain_functions = { .dispatch = dispatch_drain };

/* --- clocks --- */

static gint64
read_clock (clockid_t id)
{
  struct timespec now;

  clock_gettime (id, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static SondeClocks
read_clocks (void)
{
  return (SondeClocks){ read_clock (CLOCK_MONOTONIC), read_clock (CLOCK_BOOTTIME),
                        read_clock (CLOCK_REALTIME) };
}

static double
seconds (gint64 ns)
{
  return (double) ns / 1e9;
}

char *
sonde_clocks_describe (const SondeClocks *before, const SondeClocks *now, gboolean was_set)
{
  gint64 slept_ns
      = (now->boottime_ns - now->monotonic_ns) - (before->boottime_ns - before->monotonic_ns);
  gint64 step_ns
      = (now->realtime_ns - now->boottime_ns) - (before->realtime_ns - before->boottime_ns);

  if (was_set && ABS (step_ns) < STEP_NS)
    return NULL;
  if (was_set)
    return g_strdup_printf (
        "The wall clock was set: it was %.6f s ahead of the clock of this capture, and is %.6f s",
        seconds (before->realtime_ns - before->boottime_ns)
            + seconds (now->boottime_ns - now->monotonic_ns),
        seconds (now->realtime_ns - now->monotonic_ns));
  if (slept_ns >= SLEEP_NS)
    return g_strdup_printf (
        "The machine slept for %.3f s between %.3f s and %.3f s, which the clock "
        "of this capture does not count",
        seconds (slept_ns), seconds (before->monotonic_ns), seconds (now->monotonic_ns));
  return NULL;
}

static void
compare_clocks (SondeWorkerSession *self, gboolean was_set)
{
  const SondeClocks now = read_clocks ();
  g_autofree char *slept = sonde_clocks_describe (&self->clocks, &now, FALSE);
  g_autofree char *set = was_set ? sonde_clocks_describe (&self->clocks, &now, TRUE) : NULL;

  self->clocks = now;
  if ((self->state & (RUNNING | PAUSED)) == 0)
    return;
  if (slept != NULL)
    sonde_recorder_warn (self->recorder, slept);
  if (set != NULL)
    sonde_recorder_warn (self->recorder, set);
}

static gboolean
on_clock_set (int fd, GIOCondition condition, gpointer user_data)
{
  uint64_t n_expired;

  if (read (fd, &n_expired, sizeof n_expired) < 0 && errno == ECANCELED)
    compare_clocks (user_data, TRUE);
  return G_SOURCE_CONTINUE;
}

/* By a timer that never ends, but is cancelled when the wall clock is set; where there is none,
 * sleep alone is told. */
static void
watch_clocks (SondeWorkerSession *self)
{
  struct itimerspec far = { .it_value.tv_sec = FAR_S };

  self->clocks = read_clocks ();
  self->clock_fd = timerfd_create (CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (self->clock_fd >= 0
      && timerfd_settime (self->clock_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL)
             == 0)
    self->clock_source = g_unix_fd_add (self->clock_fd, G_IO_IN, on_clock_set, self);
}

void
sonde_worker_session_look_at_clocks (SondeWorkerSession *self)
{
  compare_clocks (self, FALSE);
}

/* --- from front and broker: one function a message --- */

/* A message, and the descriptors that came with it: what is not stolen is closed. */
typedef struct
{
  gconstpointer message; /* of its type, checked */
  int *fds;
  unsigned n_fds;
} Packet;

/* What the capture says about itself: the METADATA frame "sonde". */
static void
describe (SondeWorkerSession *self, gsize sample_ring_bytes, gsize sideband_ring_bytes)
{
  const SondeMessageSetup *setup = &self->setup;
  g_autoptr (GKeyFile) file = g_key_file_new ();
  struct utsname machine;
  cpu_set_t cpus[8]; /* 8,192 of them, as many as Linux can have */
  guint n_cpus = 1;

  g_key_file_set_string (file, METADATA, "version", setup->sonde_version);
  g_key_file_set_uint64 (file, METADATA, "session", setup->session_id);
  sonde_asked_describe (&setup->asked, setup->event, (setup->flags & SONDE_SPEC_KERNEL_TIME) != 0,
                        file, METADATA);
  if (uname (&machine) == 0)
    {
      g_key_file_set_string (file, METADATA, "host", machine.nodename);
      g_key_file_set_string (file, METADATA, "machine", machine.machine);
      g_key_file_set_string (file, METADATA, "kernel-release", machine.release);
    }
  /* Those that this process may run on. g_get_num_processors() would look into /sys. */
  if (sched_getaffinity (0, sizeof cpus, cpus) >= 0)
    n_cpus = (guint) CPU_COUNT_S (sizeof cpus, cpus);
  g_key_file_set_uint64 (file, METADATA, "processors", n_cpus);
  g_key_file_set_string (file, METADATA, "clock", "CLOCK_MONOTONIC");
  g_key_file_set_int64 (file, METADATA, "start", setup->start_ns);
  g_key_file_set_int64 (file, METADATA, "start-realtime", setup->start_realtime_ns);
  g_key_file_set_uint64 (file, METADATA, "sample-ring-bytes", sample_ring_bytes);
  g_key_file_set_uint64 (file, METADATA, "sideband-ring-bytes", sideband_ring_bytes);

  sonde_stream_state_describe (self->stream_state, setup->start_realtime_ns, setup->start_ns,
                               g_key_file_to_data (file, NULL, NULL));
}

/* The rings' records may have waited for this answer. */
static void
drain_soon (SondeWorkerSession *self)
{
  if (self->state & (RUNNING | PAUSED | DRAINING))
    g_source_set_ready_time (self->drain, 0);
}

static void
warn_of_silence (SondeWorkerSession *self)
{
  sonde_recorder_warn (self->recorder, "Nobody tells of processes and files any more; those that "
                                       "are not known stay so");
}

/* What waits for an answer goes on without; the front knows best whether the session does. */
static void
on_link_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  g_clear_pointer (&self->link, sonde_channel_free);
  if (self->tracker != NULL)
    sonde_tracker_give_up (self->tracker);
  if (self->waits != NULL)
    sonde_wait_book_give_up (self->waits);
  if (self->state & (RUNNING | PAUSED | DRAINING))
    warn_of_silence (self);
  drain_soon (self);
}

static void on_message (SondeChannel *channel,
                        const SondeMessageHeader *message,
                        int *fds,
                        unsigned n_fds,
                        gpointer user_data);

static void
handle_link (SondeWorkerSession *self, const Packet *packet)
{
  static const SondeChannelHandler handler = { .message = on_message, .closed = on_link_closed };

  self->link = sonde_channel_new (sonde_steal_fd (&packet->fds[0]), SONDE_WAY_BROKER_TO_WORKER,
                                  &handler, self);
  self->state = LINKED;
}

static void
handle_setup (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageSetup *setup = packet->message;
  /* The broker refuses no process that is seen to root, to a session of the whole machine and for
   * raw data. */
  gboolean hides_others
      = setup->owner_uid != 0 && setup->asked.scope != SONDE_SCOPE_SYSTEM && !setup->asked.raw;
  const char *why;

  if (!sonde_dispatch_supports (setup, &why))
    {
      fail (self, EPROTO, why);
      return;
    }
  self->setup = *setup;
  self->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  self->processes = sonde_process_table_new (self->modules);
  self->stream_state = sonde_stream_state_new (self->processes);
  self->recorder = sonde_recorder_new (self->stream_state, &self->tally, sink_closed, self);
  self->jit_names = sonde_jit_names_new (self->recorder, &self->tally, setup->asked.symbols != 0);
  self->tracker
      = sonde_tracker_new (self->processes, self->modules, self->stream_state, self->recorder,
                           self->jit_names, hides_others, send_request, self);
  if (setup->asked.symbols)
    self->addresses = sonde_sampled_addresses_new (self->processes);
  /* Where samples are none that a walk can come with, there is nothing to be missed. */
  if (setup->asked.interpreters && setup->asked.event != SONDE_EVENT_TRACEPOINT
      && setup->asked.unwind != SONDE_UNWIND_NONE)
    self->interpreters = sonde_interpreters_new (self->processes, self->recorder, &self->tally,
                                                 send_interpreter, self);
  self->counters = sonde_counters_new (self->recorder, ask_counters, self);
  if (setup->asked.waits != SONDE_WAITS_OFF)
    self->waits = sonde_wait_book_new (self->recorder, self->processes, &self->tally, hides_others,
                                       ask_threads, self);
  sonde_dispatch_set_up (self);
  describe (self, 0, 0);
  self->tick_source = g_timeout_add (TICK_MS, on_tick, self);
  self->state = SET_UP;
}

static void
handle_document (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageDocument *document = packet->message;
  gsize max_bytes = SONDE_STREAM_STATE_MAX_DOCUMENT;
  const char *path = document->kind == SONDE_DOCUMENT_CPUINFO ? "/proc/cpuinfo" : "/proc/mounts";
  char mountinfo[32];

  if (document->kind == SONDE_DOCUMENT_KALLSYMS)
    {
      /* Without it kernel code is one leaf. */
      if (self->setup.asked.kernel && self->kallsyms == NULL
          && sonde_kallsyms_new (packet->fds[0], &self->kallsyms) < 0)
        self->kallsyms = NULL;
      return;
    }
  if (document->kind == SONDE_DOCUMENT_MOUNTINFO)
    {
      g_snprintf (mountinfo, sizeof mountinfo, "/proc/%d/mountinfo", document->pid);
      path = mountinfo;
      max_bytes = MAX_MOUNTINFO;
    }
  sonde_recorder_document (self->recorder, path, packet->fds[0], max_bytes);
}

static void
handle_counters (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageCounters *counters = packet->message;
  int fd = packet->n_fds > 0 ? sonde_steal_fd (&packet->fds[0]) : -1;

  sonde_counters_add (self->counters, counters->kind, counters->pid, fd);
}

/* First those of all processors, later those of one that has come. */
static void
handle_rings (SondeWorkerSession *self, const Packet *packet)
{
  SondeMessageRingsMapped answer = { 0 };

  if (!sonde_rings_map (self->rings, packet->message, packet->fds, &answer))
    return;
  if (answer.status == 0 && self->state == SET_UP)
    {
      describe (self, answer.sample_ring_bytes, answer.sideband_ring_bytes);
      self->state = READY;
    }
  tell (self, SONDE_MESSAGE_RINGS_MAPPED, &answer, sizeof answer);
}

static void
handle_events (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageEvents *events = packet->message;
  gboolean all = TRUE;

  for (unsigned i = 0; i < packet->n_fds && all; i++)
    if (events->events[i].kind == SONDE_EVENT_WALKS)
      all = sonde_dispatch_add_walks (self, events->events[i].id);
    else if (events->events[i].kind == SONDE_EVENT_PROBES)
      all = sonde_dispatch_add_probes (self, events->events[i].id);
  for (unsigned i = 0; i < packet->n_fds && all; i++)
    all = sonde_rings_add_event (self->rings, &events->events[i], sonde_steal_fd (&packet->fds[i]));
  if (!all)
    fail (self, EMFILE, "too many perf events");
}

static void
handle_sink (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageSink *sink = packet->message;
  int status;

  if (self->inferiors != NULL)
    sonde_inferiors_reader_comes (self->inferiors);
  status = sonde_recorder_add_sink (self->recorder, sonde_steal_fd (&packet->fds[0]), sink);
  if (status != 0)
    sink_closed (sink->sink_id, status, self);
}

static void
start (SondeWorkerSession *self)
{
  const SondeMessageSetup *setup = &self->setup;

  g_assert (self->sampler == NULL);
  self->unwinder = setup->asked.unwind == SONDE_UNWIND_LIBDWFL
                       ? sonde_unwinder_new_libdwfl (self->processes)
                       : sonde_unwinder_new_cfi (self->processes);
  self->sampler = sonde_sampler_new (
      setup, self->processes, self->unwinder, g_steal_pointer (&self->kallsyms), self->addresses,
      self->interpreters, self->jit_names, self->recorder, &self->tally);
  self->inferiors = sonde_inferiors_new (
      &(SondeInferiorsParts){ setup, self->recorder, self->tracker, self->sampler, &self->tally },
      send_controls, self);
  if (setup->asked.recorder_bytes != 0)
    self->flight_recorder = sonde_flight_recorder_new (
        &(SondeFlightRecorderParts){ &self->setup.asked, self->recorder, self->sampler,
                                     self->inferiors, self->jit_names,
                                     g_steal_pointer (&self->addresses) },
        send_snapped, self);
  if (setup->asked.scope == SONDE_SCOPE_LAUNCH && setup->asked.memory != SONDE_MEMORY_OFF)
    self->unheard = sonde_unheard_new (self->recorder, &self->tally);
  if (setup->asked.memory == SONDE_MEMORY_SAMPLED)
    self->heap_probes = sonde_heap_probes_new (
        &(SondeHeapProbesParts){ setup, self->processes, self->tracker, self->sampler,
                                 self->inferiors, self->unheard, self->recorder, &self->tally },
        send_probes, self);
}

static void
handle_start (SondeWorkerSession *self, const Packet *packet)
{
  start (self);
  watch_clocks (self);
  self->state = RUNNING;
  if (self->link == NULL)
    warn_of_silence (self);
  sonde_dispatch_count (self);
  self->drain_interval_us = FIRST_DRAIN_US;
  g_source_set_ready_time (self->drain, g_get_monotonic_time () + FIRST_DRAIN_US);
}

static void
handle_process (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageProcess *process = packet->message;
  const int *fd = packet->fds; /* as many as there are bits: sonde_message_check() */
  int maps_fd = process->fds & SONDE_PROCESS_FD_MAPS ? *fd++ : -1;
  int cmdline_fd = process->fds & SONDE_PROCESS_FD_CMDLINE ? *fd++ : -1;
  int cgroup_fd = process->fds & SONDE_PROCESS_FD_CGROUP ? *fd : -1;

  sonde_tally_add (&self->tally, SONDE_STATISTIC_TARGET_STUCK, process->status == ETIMEDOUT);
  /* Unasked it is a target, whose threads may exist. */
  if (self->waits != NULL && process->request_id == 0 && process->status == 0)
    sonde_wait_book_meet (self->waits, process->pid);
  sonde_tracker_answer_process (self->tracker, process, maps_fd, cmdline_fd, cgroup_fd);
  sonde_dispatch_meet (self, process->pid);
  drain_soon (self);
}

static void
handle_file (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageFile *file = packet->message;

  sonde_tally_add (&self->tally, SONDE_STATISTIC_TARGET_STUCK, file->status == ETIMEDOUT);
  sonde_tracker_answer_file (self->tracker, file,
                             packet->n_fds > 0 ? sonde_steal_fd (&packet->fds[0]) : -1);
  drain_soon (self);
}

static void
handle_probed (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageProbed *probed = packet->message;

  sonde_tally_add (&self->tally, SONDE_STATISTIC_TARGET_STUCK, probed->status == ETIMEDOUT);
  if (self->heap_probes != NULL)
    sonde_heap_probes_answer (self->heap_probes, probed);
}

static void
handle_threads (SondeWorkerSession *self, const Packet *packet)
{
  if (self->waits != NULL)
    sonde_wait_book_answer (self->waits, packet->message);
  drain_soon (self);
}

static void
handle_note (SondeWorkerSession *self, const Packet *packet)
{
  sonde_recorder_warn (self->recorder, ((const SondeMessageNote *) packet->message)->text);
}

static void
handle_control (SondeWorkerSession *self, const Packet *packet)
{
  sonde_inferiors_add_control (self->inferiors, sonde_steal_fd (&packet->fds[0]));
}

static void
handle_program (SondeWorkerSession *self, const Packet *packet)
{
  sonde_inferiors_add_program (self->inferiors, sonde_steal_fd (&packet->fds[0]));
}

/* Every one is answered. */
static void
handle_snapshot (SondeWorkerSession *self, const Packet *packet)
{
  const SondeMessageSnapshot *snapshot = packet->message;

  if (self->flight_recorder == NULL || (self->state & (RUNNING | PAUSED)) == 0)
    {
      send_snapped (snapshot->request_id, ESHUTDOWN, self);
      return;
    }
  sonde_flight_recorder_ask (self->flight_recorder, snapshot->request_id,
                             sonde_steal_fd (&packet->fds[0]), snapshot->max_bytes,
                             sonde_stream_now_ns ());
  drain_soon (self);
}

static void
handle_pause (SondeWorkerSession *self, const Packet *packet)
{
  gboolean is_paused = ((const SondeMessageHeader *) packet->message)->type == SONDE_MESSAGE_PAUSE;

  if (is_paused && self->state == RUNNING)
    sonde_unheard_stop (self->unheard, sonde_stream_now_ns ());
  sonde_rings_enable (self->rings, !is_paused);
  if (is_paused && self->waits != NULL)
    sonde_wait_book_pause (self->waits, sonde_stream_now_ns ());
  sonde_inferiors_pause (self->inferiors, is_paused);
  self->state = is_paused ? PAUSED : RUNNING;
}

static void
handle_stop (SondeWorkerSession *self, const Packet *packet)
{
  /* Before START nothing was recorded, but the parts end in the same way. */
  if (self->state & (SET_UP | READY))
    start (self);
  begin_drain (self);
}

/* Another sonded than the one that has heard what was said before. */
static void
handle_report (SondeWorkerSession *self, const Packet *packet)
{
  if (self->recorder != NULL)
    {
      SondeMessageSinks sinks = { 0 };

      sonde_recorder_list_sinks (self->recorder, &sinks);
      tell (self, SONDE_MESSAGE_SINKS, &sinks, sizeof sinks);
      send_controls (self);
      send_statistics (self, SONDE_MESSAGE_STATISTICS);
    }
  if (self->is_answered && self->state != DONE)
    send_statistics (self, SONDE_MESSAGE_DRAINED);
  if (self->front != NULL && self->last_word.header.type != 0)
    sonde_channel_send (self->front, &self->last_word,
                        self->last_word.header.type == SONDE_MESSAGE_FINISHED
                            ? sizeof self->last_word.finished
                            : sizeof self->last_word.failed,
                        NULL, 0, NULL);
}

static void
handle_leave (SondeWorkerSession *self, const Packet *packet)
{
  self->is_heard = TRUE;
}

#define WHILE_ON   (READY | RUNNING | PAUSED)
#define FROM_SETUP (SET_UP | WHILE_ON | DRAINING | FINISHING)

/* Messages may cross: one that comes too late is ignored, one that comes too early is an error. */
static const struct
{
  void (*handle) (SondeWorkerSession *self, const Packet *packet);
  unsigned takes;   /* states in which it is handled */
  unsigned ignores; /* states in which it is nothing */
} messages[] = {
  [SONDE_MESSAGE_LINK] = { handle_link, NEW, 0 },
  [SONDE_MESSAGE_SETUP] = { handle_setup, LINKED, 0 },
  [SONDE_MESSAGE_DOCUMENT] = { handle_document, SET_UP | WHILE_ON | DRAINING, FINISHING },
  [SONDE_MESSAGE_RINGS] = { handle_rings, SET_UP | WHILE_ON, DRAINING | FINISHING },
  [SONDE_MESSAGE_EVENTS] = { handle_events, WHILE_ON, DRAINING | FINISHING },
  [SONDE_MESSAGE_SINK] = { handle_sink, FROM_SETUP, 0 },
  [SONDE_MESSAGE_START] = { handle_start, SET_UP | READY, 0 },
  [SONDE_MESSAGE_PROCESS] = { handle_process, WHILE_ON | DRAINING, FINISHING },
  [SONDE_MESSAGE_FILE] = { handle_file, WHILE_ON | DRAINING, FINISHING },
  [SONDE_MESSAGE_PROBED] = { handle_probed, WHILE_ON | DRAINING, FINISHING },
  [SONDE_MESSAGE_STOP] = { handle_stop, SET_UP | WHILE_ON, DRAINING | FINISHING },
  [SONDE_MESSAGE_PAUSE] = { handle_pause, RUNNING, PAUSED | DRAINING | FINISHING },
  [SONDE_MESSAGE_RESUME] = { handle_pause, PAUSED, RUNNING | DRAINING | FINISHING },
  [SONDE_MESSAGE_REPORT] = { handle_report, FROM_SETUP | DONE, 0 },
  [SONDE_MESSAGE_NOTE] = { handle_note, WHILE_ON | DRAINING, FINISHING },
  [SONDE_MESSAGE_CONTROL] = { handle_control, RUNNING | PAUSED, DRAINING | FINISHING },
  [SONDE_MESSAGE_PROGRAM] = { handle_program, RUNNING | PAUSED, DRAINING | FINISHING },
  [SONDE_MESSAGE_SNAPSHOT] = { handle_snapshot, WHILE_ON | DRAINING | FINISHING, 0 },
  [SONDE_MESSAGE_COUNTERS] = { handle_counters, SET_UP | WHILE_ON, DRAINING | FINISHING },
  [SONDE_MESSAGE_LEAVE] = { handle_leave, DONE, 0 },
  [SONDE_MESSAGE_THREADS] = { handle_threads, WHILE_ON | DRAINING, FINISHING },
};

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  g_autofree char *text = NULL;
  guint32 type = message->type;

  if (type < G_N_ELEMENTS (messages) && (messages[type].takes & self->state))
    {
      messages[type].handle (self, &(Packet){ message, fds, n_fds });
      return;
    }
  if (self->state == DONE
      || (type < G_N_ELEMENTS (messages) && (messages[type].ignores & self->state)))
    return;

  text
      = g_strdup_printf ("message %s came too early or twice", sonde_message_type_to_string (type));
  fail (self, EPROTO, text);
}

static void
on_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  g_clear_pointer (&self->front, sonde_channel_free);
  if (self->state & (RUNNING | PAUSED))
    begin_drain (self);
  /* The front does not want it any more, or never did: it was the spare one. */
  else if (self->state & (NEW | LINKED | SET_UP | READY))
    begin_end (self, error == NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

SondeWorkerSession *
sonde_worker_session_new (int front_fd, SondeWorkerSessionDone done, gpointer user_data)
{
  static const SondeChannelHandler handler = { .message = on_message, .closed = on_closed };
  SondeMessageHello hello = { .version = SONDE_MESSAGE_VERSION, .pid = getpid () };
  SondeWorkerSession *self = g_new0 (SondeWorkerSession, 1);

  self->state = NEW;
  self->done = done;
  self->user_data = user_data;
  self->wait_until_ns = self->urgent_ns = G_MAXINT64;
  self->clock_fd = -1;
  self->drain = g_source_new (&drain_functions, sizeof (GSource));
  g_source_set_static_name (self->drain, "drain");
  g_source_set_callback (self->drain, on_drain, self, NULL);
  g_source_attach (self->drain, g_main_context_get_thread_default ());
  self->front = sonde_channel_new (front_fd, SONDE_WAY_FRONT_TO_WORKER, &handler, self);
  tell (self, SONDE_MESSAGE_HELLO, &hello, sizeof hello);

  return self;
}

void
sonde_worker_session_free (SondeWorkerSession *self)
{
  if (self == NULL)
    return;

  g_clear_handle_id (&self->tick_source, g_source_remove);
  g_clear_handle_id (&self->linger_source, g_source_remove);
  g_source_destroy (self->drain);
  g_source_unref (self->drain);
  sonde_rings_free (self->rings);
  g_clear_pointer (&self->walk_ids, g_array_unref);
  g_clear_pointer (&self->probe_ids, g_array_unref);
  g_clear_handle_id (&self->clock_source, g_source_remove);
  sonde_clear_fd (&self->clock_fd);
  sonde_symbolizer_free (self->symbolizer);
  sonde_heap_probes_free (self->heap_probes);
  sonde_unheard_free (self->unheard);
  sonde_flight_recorder_free (self->flight_recorder);
  sonde_inferiors_free (self->inferiors);
  sonde_sampler_free (self->sampler);
  sonde_kallsyms_free (self->kallsyms);
  sonde_tracker_free (self->tracker);
  sonde_interpreters_free (self->interpreters);
  sonde_jit_names_free (self->jit_names);
  sonde_wait_book_free (self->waits);
  sonde_counters_free (self->counters);
  sonde_recorder_free (self->recorder);
  sonde_stream_state_free (self->stream_state);
  sonde_sampled_addresses_free (self->addresses);
  sonde_unwinder_free (self->unwinder);
  sonde_process_table_free (self->processes);
  sonde_module_store_free (self->modules);
  sonde_channel_free (self->link);
  sonde_channel_free (self->front);
  g_free (self);
}
