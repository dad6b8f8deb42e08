/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives a session's worker streams and a file to write to, and hears what it says.
 *
 * A session of Profile begins with a stream to its owner, one of StartSession with a capture file;
 * readers come and go. A stream is an AF_UNIX stream socketpair that we make: the worker gets the
 * writing end, the reader the other one, which nothing can be written to. None of these descriptors
 * stays with us. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/session/session-private.h"
#include "daemon/control/system/audit.h"

/* --- streams and files --- */

/* @fd: (transfer full): the worker's end. Returns: FALSE with @error */
static gboolean
send_sink (
    SondeSession *self, SondeMessageSink *message, int fd, const char *reader, GError **error)
{
  SondeSessionRecord *facts = self->facts;
  SondeRecordSink sink = { .id = facts->last_sink_id + 1 };

  /* What the last number is, a worker tells of a session that was adopted. */
  if (facts->sinks->len >= SONDE_LIMIT_SINKS || facts->last_sink_id == G_MAXUINT32)
    {
      sonde_closer_take (fd);
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit sinks: at most %d readers of a session", SONDE_LIMIT_SINKS);
      return FALSE;
    }
  message->header.type = SONDE_MESSAGE_SINK;
  message->sink_id = sink.id;
  if (!sonde_peer_send (self->worker, message, sizeof *message, &fd, 1, error))
    return FALSE;
  facts->last_sink_id = sink.id;
  sink.reader = g_strdup (reader);
  g_array_append_val (facts->sinks, sink);
  return TRUE;
}

gboolean
sonde_session_output_open_file (SondeSession *self, GError **error)
{
  SondeMessageSink message = { .kind = SONDE_SINK_FILE,
                               .buffer_size_bytes = SONDE_LIMIT_SINK_BUFFER_MAX,
                               .frames = SONDE_SINK_FRAMES_ALL,
                               .max_bytes = self->facts->capture_max_bytes,
                               .is_last = self->options->asked.recorder_bytes != 0 };

  return send_sink (self, &message, sonde_steal_fd (&self->file_fd), NULL, error);
}

int
sonde_session_output_open_stream (SondeSession *self,
                                  const char *reader,
                                  const SondeStreamOptions *options,
                                  gboolean is_last,
                                  GError **error)
{
  SondeMessageSink message = { .kind = SONDE_SINK_STREAM,
                               .buffer_size_bytes = options->buffer_size_bytes,
                               .frames = options->frames,
                               .n_pids = options->n_pids,
                               .is_last = is_last };
  sonde_autofd int fd = -1;
  int fds[2];

  memcpy (message.pids, options->pids, options->n_pids * sizeof options->pids[0]);
  if (!sonde_socketpair (SOCK_STREAM, fds, error))
    return -1;
  fd = fds[0];
  if (shutdown (fds[1], SHUT_RD) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot close the reading side of a stream");
      close (fds[1]);
      return -1;
    }
  return send_sink (self, &message, fds[1], reader, error) ? sonde_steal_fd (&fd) : -1;
}

/* (transfer container) (element-type utf8): who reads now, each once; borrowed */
static GPtrArray *
list_readers (const SondeSession *self)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; i < self->facts->sinks->len; i++)
    {
      char *name = g_array_index (self->facts->sinks, SondeRecordSink, i).reader;

      if (name != NULL && !g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
        g_ptr_array_add (names, name);
    }
  return names;
}

void
sonde_session_output_seal (SondeSession *self)
{
  g_autoptr (GPtrArray) names = NULL;

  if (self->last_readers != NULL)
    return;
  names = list_readers (self);
  self->last_readers = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < names->len; i++)
    g_ptr_array_add (self->last_readers, g_strdup (g_ptr_array_index (names, i)));
}

GPtrArray *
sonde_session_listeners (const SondeSession *self)
{
  gpointer owner = self->facts->owner;
  GPtrArray *names;

  if (self->last_readers == NULL)
    names = list_readers (self);
  else
    {
      names = g_ptr_array_new ();
      g_ptr_array_extend (names, self->last_readers, NULL, NULL);
    }
  if (!g_cancellable_is_cancelled (self->owner->left)
      && !g_ptr_array_find_with_equal_func (names, owner, g_str_equal, NULL))
    g_ptr_array_insert (names, 0, owner);
  return names;
}

void
sonde_session_output_close (SondeSession *self)
{
  if (self->facts->capture_file != NULL)
    sonde_capture_store_complete (self->store, self->facts->owner_uid, self->facts->capture_file);
}

/* --- snapshots --- */

/* A call of Snapshot that the worker has not answered. */
typedef struct
{
  guint64 request_id;
  SondeSnapshot *place;        /* NULL: it was told that there is no answer */
  SondeSessionSnapped snapped; /* NULL: the same */
  gpointer user_data;
  guint timer;
} SnapshotCall;

/* @why: why there is none */
static void
refuse_snapshot (SnapshotCall *call, const GError *why)
{
  SondeSessionSnapped snapped = g_steal_pointer (&call->snapped);

  g_clear_pointer (&call->place, sonde_snapshot_drop);
  if (snapped != NULL)
    snapped (-1, why, call->user_data);
}

static void
snapshot_call_free (gpointer data)
{
  SnapshotCall *call = data;
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                                                  "The session ended before it was written");

  g_clear_handle_id (&call->timer, g_source_remove);
  refuse_snapshot (call, error);
  g_free (call);
}

void
sonde_session_output_give_up (SondeSession *self)
{
  g_queue_clear_full (&self->snapshots, snapshot_call_free);
}

static gboolean
on_snapshot_overdue (gpointer user_data)
{
  SnapshotCall *call = user_data;
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED,
                                                  "The worker did not write the snapshot in time");

  call->timer = 0;
  refuse_snapshot (call, error);
  return G_SOURCE_REMOVE;
}

gboolean
sonde_session_check_snapshot (const SondeSession *self, GError **error)
{
  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    return sonde_session_refuse_state (self, error);
  if (self->options->asked.recorder_bytes != 0)
    return TRUE;
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                       "The session has no recorder: it was started without that option");
  return FALSE;
}

void
sonde_session_snapshot (SondeSession *self,
                        SondeSnapshot *place,
                        SondeSessionSnapped snapped,
                        gpointer user_data)
{
  SondeMessageSnapshot message = { .header.type = SONDE_MESSAGE_SNAPSHOT,
                                   .request_id = ++self->n_snapshots,
                                   .max_bytes = SONDE_LIMIT_SNAPSHOT_BYTES };
  g_autoptr (GError) error = NULL;
  int fd = -1;
  SnapshotCall *call;

  if (sonde_session_check_snapshot (self, &error))
    fd = sonde_snapshot_dup_fd (place, &error);
  if (fd < 0 || !sonde_peer_send (self->worker, &message, sizeof message, &fd, 1, &error))
    {
      sonde_snapshot_drop (place);
      snapped (-1, error, user_data);
      return;
    }
  call = g_new0 (SnapshotCall, 1);
  call->request_id = message.request_id;
  call->place = place;
  call->snapped = snapped;
  call->user_data = user_data;
  call->timer = g_timeout_add (SONDE_LIMIT_SNAPSHOT_MS, on_snapshot_overdue, call);
  g_queue_push_tail (&self->snapshots, call);
}

static void
finish_snapshot (SnapshotCall *call, int status)
{
  g_autoptr (GError) error = NULL;
  int fd = -1;

  if (call->snapped == NULL)
    return;
  if (status == 0)
    fd = sonde_snapshot_seal (g_steal_pointer (&call->place), &error);
  else if (status == EFBIG)
    g_set_error (&error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit snapshot-bytes: this one has more than %d MiB",
                 SONDE_LIMIT_SNAPSHOT_BYTES >> 20);
  else if (status == ESHUTDOWN)
    g_set_error_literal (&error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                         "The session ended before it was written");
  else
    sonde_error_set_errno (&error, status, "The worker cannot write the snapshot");
  if (fd >= 0)
    g_steal_pointer (&call->snapped) (fd, NULL, call->user_data);
  else
    refuse_snapshot (call, error);
}

/* --- what it says --- */

/* Makes the connection over which the worker asks the broker. */
static gboolean
on_hello (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageHello *message = data;
  SondeMessageHeader link = { .type = SONDE_MESSAGE_LINK };
  SondeMessageServe serve = { .header.type = SONDE_MESSAGE_SERVE, .session_id = self->facts->id };
  int ends[2];

  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The worker speaks version %u of our protocol, not %d: sonded has to be "
                   "restarted after an upgrade",
                   message->version, SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  sonde_session_step (self, SONDE_STEP_GREET);
  if (!sonde_socketpair (SOCK_SEQPACKET, ends, error))
    return FALSE;
  if (sonde_peer_send (self->worker, &link, sizeof link, &ends[0], 1, error))
    return sonde_peer_send (self->broker, &serve, sizeof serve, &ends[1], 1, error);
  close (ends[1]);
  return FALSE;
}

static gboolean
on_rings_mapped (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageRingsMapped *message = data;

  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      SondeMessageRingsMapped copy = *message;

      /* Of a processor that has come. A broker that cannot be told has gone, which shows. */
      sonde_peer_send (self->broker, &copy, sizeof copy, NULL, 0, NULL);
      return TRUE;
    }
  if (self->state == SONDE_STATE_DRAINING)
    return TRUE; /* the events they were for are closed */
  if (message->status != 0)
    return sonde_error_set_errno (error, message->status, "The worker cannot map its perf rings");
  sonde_session_step (self, SONDE_STEP_MAP);
  sonde_session_begin (self);
  return TRUE;
}

static gboolean
on_statistics (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageStatistics *message = data;

  /* An older worker counts less. */
  memcpy (self->facts->statistics, message->values,
          message->header.size - G_STRUCT_OFFSET (SondeMessageStatistics, values));
  sonde_peer_measure (self->worker, &self->worker_cost);
  return TRUE;
}

/* One that is adopted says it again, or has said it to the sonded before. */
static gboolean
on_drained (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  on_statistics (self, data, fds, n_fds, error);
  if (sonde_session_step (self, SONDE_STEP_DELIVER))
    sonde_session_answer_stops (self, NULL);
  return TRUE;
}

/* Nobody takes frames any more. */
static void
stop_if_deserted (SondeSession *self)
{
  if (sonde_session_is_in (self, SONDE_STATES_LIVE) && self->facts->sinks->len == 0)
    sonde_session_stop (self, self->facts->is_lasting ? "capture-full" : "reader-left");
}

static gboolean
on_sink_closed (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageSinkClosed *message = data;
  GArray *sinks = self->facts->sinks;
  guint n_before = sinks->len;

  /* A record of another sonded may name one twice. */
  for (guint i = n_before; i > 0; i--)
    if (g_array_index (sinks, SondeRecordSink, i - 1).id == message->sink_id)
      g_array_remove_index (sinks, i - 1);
  if (sinks->len < n_before)
    {
      stop_if_deserted (self);
      return TRUE;
    }
  /* The sonded before us may have opened it and told nobody. */
  if (!self->is_adopted)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                 "The worker closed stream %u, which is not open", message->sink_id);
  return self->is_adopted;
}

/* Comes after all that the sonded before us has not read: the streams that are open are at most
 * these; of others nobody knows. */
static gboolean
on_sinks (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageSinks *message = data;
  SondeSessionRecord *facts = self->facts;

  if (!self->is_adopted)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker told of its sinks unasked");
      return FALSE;
    }
  for (guint i = 0; i < message->n_sinks; i++)
    facts->last_sink_id = MAX (facts->last_sink_id, message->sink_ids[i]);
  for (guint i = facts->sinks->len; i > 0; i--)
    {
      guint32 id = g_array_index (facts->sinks, SondeRecordSink, i - 1).id;
      gboolean is_open = FALSE;

      for (guint j = 0; j < message->n_sinks; j++)
        is_open = is_open || message->sink_ids[j] == id;
      if (!is_open)
        g_array_remove_index (facts->sinks, i - 1);
    }
  stop_if_deserted (self);
  return TRUE;
}

/* The sonded before us may have given it some. */
static gboolean
on_controls (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageControls *message = data;

  if (message->n_taken > self->n_controls && !self->is_adopted)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The worker took control sockets that it was not given");
      return FALSE;
    }
  self->n_controls = MAX (self->n_controls, message->n_taken);
  self->n_closed_controls = message->n_taken - message->n_open;
  return TRUE;
}

static gboolean
on_snapped (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageSnapped *message = data;

  for (GList *at = self->snapshots.head; at != NULL; at = at->next)
    {
      SnapshotCall *call = at->data;

      if (call->request_id != message->request_id)
        continue;
      g_queue_delete_link (&self->snapshots, at);
      finish_snapshot (call, message->status);
      snapshot_call_free (call);
      return TRUE;
    }
  /* The sonded before us may have asked; who called it has no answer. */
  if (!self->is_adopted)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                         "The worker answered what it was not asked");
  return self->is_adopted;
}

/* Written down before the worker may go: nobody else can tell then how it ended. */
static gboolean
on_finished (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  on_statistics (self, data, fds, n_fds, error);
  sonde_session_step (self, SONDE_STEP_LEAVE);
  sonde_session_answer_stops (self, NULL);
  sonde_session_save (self);
  /* One that delivers may leave at any moment. */
  sonde_peer_send_simple (self->worker, SONDE_MESSAGE_LEAVE, NULL);
  return TRUE;
}

static gboolean
on_failed (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageFailed *message = data;
  g_autofree char *text
      = g_utf8_make_valid (message->text, (gssize) strnlen (message->text, sizeof message->text));

  sonde_session_abort (self, text[0] != '\0' ? text : "The worker failed");
  return TRUE;
}

static const SondeSessionWord words[] = {
  { SONDE_MESSAGE_HELLO, SONDE_STATE_BIT (SONDE_STATE_STARTING), on_hello },
  /* Its answer may cross our STOP. */
  { SONDE_MESSAGE_RINGS_MAPPED,
    SONDE_STATE_BIT (SONDE_STATE_MAPPING) | SONDE_STATES_LIVE
        | SONDE_STATE_BIT (SONDE_STATE_DRAINING),
    on_rings_mapped },
  { SONDE_MESSAGE_STATISTICS, SONDE_STATES_HEARD, on_statistics },
  { SONDE_MESSAGE_SINK_CLOSED, SONDE_STATES_HEARD, on_sink_closed },
  { SONDE_MESSAGE_SINKS, SONDE_STATES_HEARD, on_sinks },
  { SONDE_MESSAGE_CONTROLS, SONDE_STATES_HEARD, on_controls },
  { SONDE_MESSAGE_SNAPPED, SONDE_STATES_HEARD, on_snapped },
  { SONDE_MESSAGE_DRAINED, SONDE_STATES_DRAINING, on_drained },
  { SONDE_MESSAGE_FINISHED, SONDE_STATES_DRAINING, on_finished },
  { SONDE_MESSAGE_FAILED, ~0u, on_failed },
};

static void
on_worker_message (SondePeer *worker,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  /* One of another version asks us, and waits for an answer a quarter of a second. */
  if (self->facts->protocol != SONDE_MESSAGE_VERSION
      && (message->type == SONDE_MESSAGE_PROCESS_REQUEST
          || message->type == SONDE_MESSAGE_FILE_REQUEST
          || message->type == SONDE_MESSAGE_COUNTERS_REQUEST))
    return;
  if (!sonde_session_hear (self, words, G_N_ELEMENTS (words), "worker", message, fds, n_fds,
                           &error))
    sonde_session_fail (self, error);
}

static void
on_worker_gone (SondePeer *worker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->facts->is_broken && self->state == SONDE_STATE_LEAVING)
    sonde_session_step (self, SONDE_STEP_FAIL);
  else if (!sonde_session_step (self, SONDE_STEP_FINISH) && !sonde_session_is_over (self))
    {
      sonde_audit ("worker-died", self->facts->id, self->facts->owner_uid, how);
      sonde_session_abort (self, how);
    }
  sonde_session_end (self);
}

static void
on_worker_caught_up (SondePeer *worker, gpointer user_data)
{
  SondeSession *self = user_data;

  if (self->broker != NULL)
    sonde_peer_hold (self->broker, FALSE);
}

const SondePeerHandler sonde_session_worker_handler
    = { .message = on_worker_message, .gone = on_worker_gone, .caught_up = on_worker_caught_up };
