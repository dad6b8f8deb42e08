/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker and a broker that may say anything at any time, as one session of sonded hears them.
 * Their processes and the caller are fakes. */
#include <fcntl.h>
#include <gio/gio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/control/session/session-private.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/packet.h"
#include "tests/lib/fake-peers.h"

#define MAX_STEPS 64

/* --- one session --- */

SondeCaller *
sonde_caller_ref (SondeCaller *self)
{
  return self;
}

void
sonde_caller_unref (SondeCaller *self)
{
}

typedef struct
{
  SondeSession *session;
  SondeSnapshots *snapshots;
  unsigned n_started;
  unsigned n_ended;
  unsigned n_stops;     /* that are not answered */
  unsigned n_adds;      /* the same */
  unsigned n_snapshots; /* the same */
} Story;

/* What the session does in the middle of a script, beside listening to its worker and, by a packet
 * PACKET_LINK, to its broker: types of packets below those of a worker. */
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
  STEP_BROKER_DEAF,
  STEP_BROKER_GONE,
  STEP_ADD,
  STEP_CONTROL,
  STEP_SLOW,
  STEP_FAST,
  STEP_MEET,
  STEP_SNAPSHOT,
  N_STEPS,
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
      || sonde_session_facts (session)->reason == NULL
      || !g_utf8_validate (sonde_session_facts (session)->reason, -1, NULL))
    abort ();
}

static void
on_stopped (GVariant *statistics, const GError *error, gpointer user_data)
{
  Story *story = user_data;

  if ((statistics == NULL) != (error != NULL) || story->n_stops-- == 0)
    abort ();
}

static void
on_dismissed (SondeSession *session, SondePeer *broker, gpointer user_data)
{
  if (broker != &peers[SONDE_PEER_BROKER] || !broker->is_there)
    abort ();
  sonde_peer_free (broker);
}

static void
on_grew (SondeSession *session, gpointer user_data)
{
  if (session == NULL)
    abort ();
}

static void
on_passed_on (SondeSession *session, SondeGuest *guest, int error, gpointer user_data)
{
  if (guest == NULL || error <= 0)
    abort ();
  sonde_guest_free (guest);
}

static void
on_added (const GError *error, gpointer user_data)
{
  Story *story = user_data;

  if (story->n_adds-- == 0)
    abort ();
}

static void
on_snapped (int fd, const GError *error, gpointer user_data)
{
  Story *story = user_data;

  if ((fd < 0) != (error != NULL) || story->n_snapshots-- == 0)
    abort ();
  sonde_clear_fd (&fd);
}

/* As the service does. */
static void
take_snapshot (Story *story)
{
  SondeSnapshot *place = sonde_snapshots_begin (story->snapshots, story->session->owner->uid, NULL);

  if (place == NULL)
    return;
  story->n_snapshots++;
  sonde_session_snapshot (story->session, place, on_snapped, story);
}

/* What the session does not take is closed here, as a peer does. */
static void
hear (const Packet *packet)
{
  SondePeer *peer = &peers[packet->is_of_link ? SONDE_PEER_BROKER : SONDE_PEER_CAPTURE];
  SondeMessageWay way = packet->is_of_link ? SONDE_WAY_BROKER_TO_FRONT : SONDE_WAY_WORKER_TO_FRONT;
  g_autofree gpointer message = NULL;
  int fds[PACKET_MAX_FDS];

  if (!peer->is_there || !packet_is_good (packet->bytes, packet->size_bytes, packet->n_fds, way))
    return;
  message = g_memdup2 (packet->bytes, packet->size_bytes);
  for (unsigned i = 0; i < packet->n_fds; i++)
    fds[i] = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  peer->handler->message (peer, message, fds, packet->n_fds, peer->user_data);
  for (unsigned i = 0; i < packet->n_fds; i++)
    sonde_clear_fd (&fds[i]);
}

static void
end_peer (SondePeerKind kind)
{
  SondePeer *peer = &peers[kind];

  if (peer->is_there)
    peer->handler->gone (peer, "It went", peer->user_data);
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
open_control (Story *story)
{
  int fd = sonde_session_open_control (story->session, NULL);

  sonde_clear_fd (&fd);
}

/* We ourselves, or one who has gone already. */
static void
meet (Story *story)
{
  SondeGuest *guest = g_new0 (SondeGuest, 1);
  int fds[2];

  if (!sonde_socketpair (SOCK_SEQPACKET, fds, NULL))
    abort ();
  guest->fd = fds[0];
  guest->pid = getpid ();
  guest->pidfd = (int) syscall (SYS_pidfd_open, guest->pid, 0);
  if (guest->pidfd < 0)
    abort ();
  close (fds[1]);
  sonde_session_meet (story->session, guest);
}

/* One who was never proven, and one of whom nothing is known. */
static GPtrArray *
dup_targets (void)
{
  GPtrArray *targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_asked_target_free);

  g_ptr_array_add (
      targets, sonde_asked_target_new (getpid (), open ("/proc/self/maps", O_RDONLY | O_CLOEXEC)));
  g_ptr_array_add (targets, sonde_asked_target_new_unproven (INT32_MAX));
  return targets;
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
      sonde_session_stop_for (story->session, on_stopped, story);
      break;
    case STEP_PAUSE:
      sonde_session_switch (story->session, SONDE_STEP_PAUSE, NULL);
      break;
    case STEP_RESUME:
      sonde_session_switch (story->session, SONDE_STEP_RESUME, NULL);
      break;
    case STEP_ABORT:
      sonde_session_abort (story->session, "aborted");
      break;
    case STEP_OPEN_STREAM:
      open_stream (story);
      break;
    case STEP_DEAF:
      peers[SONDE_PEER_CAPTURE].is_deaf = TRUE;
      break;
    case STEP_BROKER_DEAF:
      peers[SONDE_PEER_BROKER].is_deaf = TRUE;
      break;
    case STEP_OWNER_LEAVES:
      g_cancellable_cancel (story->session->owner->left);
      sonde_session_stop (story->session, "owner-left");
      break;
    case STEP_GONE:
      if (story->n_ended == 0)
        end_peer (SONDE_PEER_CAPTURE);
      break;
    case STEP_BROKER_GONE:
      end_peer (SONDE_PEER_BROKER);
      break;
    case STEP_ADD:
      story->n_adds++;
      sonde_session_add_targets (story->session, dup_targets (), on_added, story);
      break;
    case STEP_CONTROL:
      open_control (story);
      break;
    case STEP_MEET:
      meet (story);
      break;
    case STEP_SNAPSHOT:
      take_snapshot (story);
      break;
    case STEP_SLOW:
    case STEP_FAST:
      sonde_session_set_slowed (story->session, step == STEP_SLOW, "It costs \xc3\xa9 much");
      break;
    default:
      break;
    }
}

static void
run (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
}

static void
tell (Story *story, Input *input)
{
  Packet packet;

  for (unsigned i = 0; i < MAX_STEPS && input->left > 0 && story->n_ended == 0; i++)
    {
      packet_take (&packet, input);
      if (packet.is_of_link || packet.header.type >= N_STEPS)
        hear (&packet);
      else
        take_step (story, packet.header.type);
      run ();
    }
  take_step (story, STEP_BROKER_GONE);
  run ();
  take_step (story, STEP_GONE);
  run ();
  if (story->n_started != 1 || story->n_ended != 1 || story->n_stops != 0 || story->n_adds != 0
      || story->n_snapshots != 0 || peers[SONDE_PEER_BROKER].is_there)
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
          "{'system': <true>, 'event': <'cpu-clock'>, 'recorder-bytes': <uint64 1048576>}",
          of_pids };
  g_autoptr (GVariant) dict = g_variant_ref_sink (g_variant_parse (
      G_VARIANT_TYPE_VARDICT, texts[scope % G_N_ELEMENTS (texts)], NULL, NULL, NULL));

  return sonde_options_parse (dict, NULL, FALSE, NULL);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const SondeSessionHandler handler = { .started = on_started,
                                               .state_changed = on_state_changed,
                                               .ended = on_ended,
                                               .grew = on_grew,
                                               .passed_on = on_passed_on,
                                               .dismissed = on_dismissed };
  Input input = { data, size };
  unsigned how = input_take_byte (&input);
  g_autoptr (GCancellable) left = g_cancellable_new ();
  char name[] = ":1.1";
  SondeCaller caller = { .name = name,
                         .bus_id = "",
                         .uid = how & 4 ? getuid () + 1 : getuid (),
                         .pid = getpid (),
                         .left = left };
  Story story = { 0 };
  unsigned before;

  be_quiet ();
  run ();
  before = fuzz_count_fds ();
  story.snapshots = sonde_snapshots_new ();
  story.session
      = sonde_session_new (1, &caller, choose_options (how & 3), NULL, NULL, &handler, &story);
  sonde_session_start (story.session, NULL);
  run ();
  tell (&story, &input);
  g_variant_unref (g_variant_ref_sink (sonde_session_statistics (story.session)));
  sonde_session_free (story.session);
  sonde_snapshots_free (story.snapshots);
  fuzz_await_fds (before); /* a caller's are closed by a thread */

  return 0;
}
