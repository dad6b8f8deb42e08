/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that may say anything at any time, as one session of sonded hears it. The worker's
 * process, the perf events and the caller are fakes. */
#include <fcntl.h>
#include <gio/gio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/proc-maps.h"
#include "daemon/broker/event-set.h"
#include "daemon/control/session/session-private.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/packet.h"

#define MAX_STEPS 64
#define OWN_PID   INT32_MAX /* in a script: this process */

/* --- fakes: all that a session uses of worker.h, event-set.h and caller.h, or both are linked ---
 */

struct SondePeer
{
  gboolean is_deaf;   /* what is sent to it fails */
  gboolean is_killed; /* it may still be heard, until it is reaped */
};

struct SondeEventSet
{
  SondePerfPlan plan;
  GArray *cpus;
};

struct SondeCaller
{
  uid_t uid;
  GCancellable *left;
};

static struct SondePeer the_worker;

SondePeer *
sonde_peer_start (SondePeerLauncher *launcher,
                    const SondePeerHandler *handler,
                    gpointer user_data,
                    GError **error)
{
  the_worker = (struct SondePeer){ FALSE, FALSE };
  return &the_worker;
}

SondePeerLauncher *
sonde_peer_launcher_ref (SondePeerLauncher *self)
{
  return self;
}

void
sonde_peer_launcher_unref (SondePeerLauncher *self)
{
}

void
sonde_peer_free (SondePeer *self)
{
}

void
sonde_peer_leave (SondePeer *self)
{
}

/* Nothing is adopted here: the session has no fd store. */
SondePeer *
sonde_peer_adopt (SondePeerLauncher *launcher,
                    int fd,
                    pid_t pid,
                    const SondePeerHandler *handler,
                    gpointer user_data)
{
  abort ();
}

pid_t
sonde_peer_pid (const SondePeer *self)
{
  return 0;
}

gboolean
sonde_peer_measure (const SondePeer *self, SondeProcCost *cost)
{
  return FALSE;
}

void
sonde_peer_set_share (SondePeer *self, const SondeUnitShare *share)
{
}

const SondeChannel *
sonde_peer_channel (const SondePeer *self)
{
  return NULL;
}

void
sonde_peer_kill (SondePeer *self)
{
  self->is_killed = TRUE;
}

gboolean
sonde_peer_send (SondePeer *self,
                   gpointer message,
                   gsize size_bytes,
                   const int *fds,
                   unsigned n_fds,
                   GError **error)
{
  ((SondeMessageHeader *) message)->size = (guint32) size_bytes;
  if (!packet_is_good (message, size_bytes, n_fds, SONDE_WAY_FRONT_TO_WORKER))
    abort ();
  for (unsigned i = 0; i < n_fds; i++)
    if (fds[i] < 0 || close (fds[i]) < 0)
      abort ();
  if (self->is_deaf)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The worker does not read");
  return !self->is_deaf;
}

gboolean
sonde_peer_send_simple (SondePeer *self, SondeMessageType type, GError **error)
{
  SondeMessageHeader header = { .type = type };

  return sonde_peer_send (self, &header, sizeof header, NULL, 0, error);
}

SondeEventSet *
sonde_event_set_new (const SondeAsked *asked, uid_t owner_uid, GError **error)
{
  SondeEventSet *self = g_new0 (SondeEventSet, 1);

  sonde_perf_plan_init (&self->plan, asked);
  self->cpus = g_array_new (FALSE, TRUE, sizeof (int));
  g_array_set_size (self->cpus, 1);
  return self;
}

SondeEventSet *
sonde_event_set_new_recorded (const SondeAsked *asked,
                              const SondeBrokerRecord *record,
                              GArray *fds,
                              GError **error)
{
  abort ();
}

void
sonde_event_set_record (const SondeEventSet *self, SondeBrokerRecord *record)
{
}

GArray *
sonde_event_set_ring_fds (const SondeEventSet *self)
{
  abort ();
}

GArray *
sonde_event_set_pulse_fds (const SondeEventSet *self)
{
  abort ();
}

void
sonde_event_set_free (SondeEventSet *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->cpus);
  g_free (self);
}

const GArray *
sonde_event_set_cpus (const SondeEventSet *self)
{
  return self->cpus;
}

gboolean
sonde_event_set_has_cpu (const SondeEventSet *self, int cpu)
{
  return cpu == 0;
}

gboolean
sonde_event_set_add_cpu (SondeEventSet *self, int cpu, SondeResultQueue *results, GError **error)
{
  return TRUE;
}

void
sonde_event_set_take_cpu (SondeEventSet *self, int cpu, gboolean is_mapped)
{
}

gboolean
sonde_event_set_is_counting (SondeEventSet *self, int cpu)
{
  return TRUE;
}

gint64
sonde_event_set_counted_until_ns (SondeEventSet *self, int cpu)
{
  return 0;
}

void
sonde_event_set_revive (SondeEventSet *self, int cpu)
{
}

void
sonde_event_set_narrow (SondeEventSet *self, int cpu)
{
}

const SondePerfPlan *
sonde_event_set_plan (const SondeEventSet *self)
{
  return &self->plan;
}

gboolean
sonde_event_set_send_rings (SondeEventSet *self, SondeResultQueue *results, GError **error)
{
  return TRUE;
}

gboolean
sonde_event_set_check_room (const SondeEventSet *self,
                            uid_t owner_uid,
                            GArray *pids,
                            GError **error)
{
  return TRUE;
}

gboolean
sonde_event_set_open_system (SondeEventSet *self, GError **error)
{
  return TRUE;
}

gboolean
sonde_event_set_open_group (SondeEventSet *self, int group_fd, GError **error)
{
  return TRUE;
}

gboolean
sonde_event_set_open_process (
    SondeEventSet *self, pid_t pid, int process_fd, gboolean is_late, GError **error)
{
  return TRUE;
}

guint
sonde_event_set_n_fresh (const SondeEventSet *self)
{
  return 0;
}

void
sonde_event_set_discard_from (SondeEventSet *self, guint n_fresh)
{
}

guint
sonde_event_set_n_handed_over (const SondeEventSet *self)
{
  return 0;
}

gboolean
sonde_event_set_hand_over (SondeEventSet *self, SondeResultQueue *results, GError **error)
{
  return TRUE;
}

SondeCaller *
sonde_caller_ref (SondeCaller *self)
{
  return self;
}

void
sonde_caller_unref (SondeCaller *self)
{
}

const char *
sonde_caller_name (const SondeCaller *self)
{
  return ":1.1";
}

const char *
sonde_caller_bus_id (const SondeCaller *self)
{
  return "";
}

uid_t
sonde_caller_uid (const SondeCaller *self)
{
  return self->uid;
}

pid_t
sonde_caller_pid (const SondeCaller *self)
{
  return getpid ();
}

GCancellable *
sonde_caller_left (const SondeCaller *self)
{
  return self->left;
}

/* --- one session --- */

typedef struct
{
  SondeSession *session;
  unsigned n_started;
  unsigned n_ended;
  unsigned n_stops; /* that are not answered */
  gboolean is_gone; /* the worker */
} Story;

/* What the session does in the middle of a script, beside listening to its worker. */
enum
{
  STEP_STOP = 1,
  STEP_STOP_ASYNC,
  STEP_PAUSE,
  STEP_RESUME,
  STEP_ABORT,
  STEP_OPEN_STREAM,
  STEP_DEAF,
  STEP_OWNER_LEAVES,
  STEP_GONE,
};

static void
on_started (SondeSession *session, int capture_fd, const GError *error, gpointer user_data)
{
  Story *story = user_data;

  if (++story->n_started > 1 || (error == NULL) != (capture_fd >= 0))
    abort ();
  sonde_clear_fd (&capture_fd);
}

static void
on_state_changed (SondeSession *session, gpointer user_data)
{
  const Story *story = user_data;

  if (story->n_ended > 0 || sonde_session_state_name (session) == NULL)
    abort ();
}

static void
on_ended (SondeSession *session, gboolean has_started, gpointer user_data)
{
  Story *story = user_data;

  if (++story->n_ended > 1 || !sonde_session_is_over (session)
      || sonde_session_reason (session) == NULL
      || !g_utf8_validate (sonde_session_reason (session), -1, NULL))
    abort ();
}

static void
on_stopped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Story *story = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) statistics = sonde_session_stop_finish (result, &error);

  if ((statistics == NULL) != (error != NULL) || story->n_stops-- == 0)
    abort ();
}

/* A file of this process that a request can name. */
static void
name_own_file (SondeMessageFileRequest *request)
{
  sonde_autofd int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  g_autofree char *text = NULL;
  int64_t size_bytes = sonde_proc_maps_read (fd, 1 << 20, &text);
  const char *at = text;
  size_t left = size_bytes > 0 ? (size_t) size_bytes : 0;
  SondeProcMap map;

  while (sonde_proc_maps_next (&at, &left, &map) != 0)
    if (map.executable && map.inode != 0)
      {
        request->start = map.start;
        request->offset = map.offset;
        request->inode = map.inode;
        request->dev_major = map.dev_major;
        request->dev_minor = map.dev_minor;
        return;
      }
}

static void
complete_request (Packet *packet)
{
  SondeMessageProcessRequest *process = (void *) packet->bytes;
  SondeMessageFileRequest *file = (void *) packet->bytes;

  if (packet->header.type == SONDE_MESSAGE_PROCESS_REQUEST && process->pid == OWN_PID)
    process->pid = getpid ();
  if (packet->header.type != SONDE_MESSAGE_FILE_REQUEST || file->pid != OWN_PID)
    return;
  file->pid = getpid ();
  if (file->inode == 0)
    name_own_file (file);
}

static void
hear (Story *story, Packet *packet)
{
  SondeMessageHeader *message;

  complete_request (packet);
  if (!packet_is_good (packet->bytes, packet->size_bytes, packet->n_fds, SONDE_WAY_WORKER_TO_FRONT))
    return;
  message = g_memdup2 (packet->bytes, packet->size_bytes);
  sonde_session_worker_handler.message (story->session->worker, message, story->session);
  g_free (message);
}

static void
open_stream (Story *story)
{
  g_autoptr (GPtrArray) listeners = NULL;
  sonde_autofd int fd = -1;
  SondeStreamOptions options;

  sonde_stream_options_init (&options);
  fd = sonde_session_open_stream (story->session, ":1.2", &options, NULL);
  listeners = sonde_session_listeners (story->session);
  if (fd >= 0 && listeners->len == 0)
    abort ();
}

static void
take_step (Story *story, unsigned step)
{
  switch (step)
    {
    case STEP_STOP:
      sonde_session_stop (story->session, "stopped");
      break;
    case STEP_STOP_ASYNC:
      story->n_stops++;
      sonde_session_stop_async (story->session, on_stopped, story);
      break;
    case STEP_PAUSE:
      sonde_session_pause (story->session, NULL);
      break;
    case STEP_RESUME:
      sonde_session_resume (story->session, NULL);
      break;
    case STEP_ABORT:
      sonde_session_abort (story->session, "aborted");
      break;
    case STEP_OPEN_STREAM:
      open_stream (story);
      break;
    case STEP_DEAF:
      the_worker.is_deaf = TRUE;
      break;
    case STEP_OWNER_LEAVES:
      g_cancellable_cancel (sonde_caller_left (story->session->owner));
      sonde_session_stop (story->session, "owner-left");
      break;
    case STEP_GONE:
      story->is_gone = TRUE;
      sonde_session_worker_handler.gone (story->session->worker, "It went", story->session);
      break;
    default:
      break;
    }
}

static void
tell (Story *story, Input *input)
{
  Packet packet;

  for (unsigned i = 0; i < MAX_STEPS && input->left > 0 && !story->is_gone; i++)
    {
      packet_take (&packet, input);
      if (packet.size_bytes >= sizeof packet.header && packet.header.type > STEP_GONE)
        hear (story, &packet);
      else
        take_step (story, packet.header.type);
      while (g_main_context_iteration (NULL, FALSE))
        continue;
    }
  if (!story->is_gone)
    take_step (story, STEP_GONE);
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  if (story->n_started != 1 || story->n_ended != 1 || story->n_stops != 0)
    abort ();
}

/* Nothing of it goes to the journal, but for what must not happen. */
static GLogWriterOutput
write_no_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  if (level & (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL))
    abort ();
  return G_LOG_WRITER_HANDLED;
}

static void
be_quiet (void)
{
  static gsize is_quiet;

  if (!g_once_init_enter (&is_quiet))
    return;
  g_type_ensure (G_TYPE_TASK); /* GLib's own descriptors are there */
  g_log_set_writer_func (write_no_log, NULL, NULL);
  g_once_init_leave (&is_quiet, 1);
}

/* The first byte of a script. */
static SondeOptions *
choose_options (unsigned scope)
{
  g_autofree char *of_pids = g_strdup_printf (
      "{'pids': <[uint32 %d]>, 'duration': <uint64 1000000000>}", (int) getpid ());
  const char *texts[]
      = { "{'launch': <true>}", "{'launch': <true>, 'kernel': <true>, 'unwind': <'none'>}",
          "{'system': <true>, 'event': <'cpu-clock'>}", of_pids };
  g_autoptr (GVariant) dict = g_variant_ref_sink (g_variant_parse (
      G_VARIANT_TYPE_VARDICT, texts[scope % G_N_ELEMENTS (texts)], NULL, NULL, NULL));

  return sonde_options_parse (dict, NULL, NULL);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const SondeSessionHandler handler = { on_started, on_state_changed, on_ended };
  Input input = { data, size };
  unsigned how = input_take_byte (&input);
  g_autoptr (GCancellable) left = g_cancellable_new ();
  struct SondeCaller caller = { how & 4 ? getuid () + 1 : getuid (), left };
  Story story = { .session = NULL };
  unsigned before;

  be_quiet ();
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  before = fuzz_count_fds ();
  story.session
      = sonde_session_new (1, &caller, choose_options (how & 3), NULL, NULL, &handler, &story);
  sonde_session_start (story.session, NULL);
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  tell (&story, &input);
  g_variant_unref (g_variant_ref_sink (sonde_session_statistics (story.session)));
  sonde_session_free (story.session);
  if (fuzz_count_fds () != before)
    abort ();

  return 0;
}
