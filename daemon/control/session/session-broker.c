/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The messages of a session to its broker, and those of the broker. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/asked-target.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/session/session-private.h"
#include "daemon/control/system/audit.h"

/* PROVE or ADD. @targets: (transfer full) */
static gboolean
send_targets (SondeSession *self, SondeMessageType type, GPtrArray *targets, GError **error)
{
  union
  {
    SondeMessageTargets header;
    char bytes[sizeof (SondeMessageTargets)
               + SONDE_MESSAGE_MAX_TARGETS * sizeof (SondeMessageTarget)];
  } message = { .header = { .header.type = type, .n_targets = targets->len } };
  int fds[2 * SONDE_MESSAGE_MAX_TARGETS];
  unsigned n_fds = 0;

  g_assert (targets->len <= SONDE_MESSAGE_MAX_TARGETS);
  for (guint i = 0; i < targets->len; i++)
    {
      SondeAskedTarget *target = g_ptr_array_index (targets, i);
      SondeMessageTarget *entry = &message.header.targets[i];

      *entry = (SondeMessageTarget){ .pid = target->pid };
      if (target->has_proof)
        entry->flags |= SONDE_TARGET_HAS_PROOF;
      if (target->maps_fd >= 0)
        {
          entry->flags |= SONDE_TARGET_HAS_MAPS;
          fds[n_fds++] = sonde_steal_fd (&target->maps_fd);
        }
      if (target->pidfd >= 0)
        {
          entry->flags |= SONDE_TARGET_HAS_PIDFD;
          fds[n_fds++] = sonde_steal_fd (&target->pidfd);
        }
    }
  g_ptr_array_unref (targets);
  return sonde_peer_send (self->broker, &message,
                          sizeof message.header
                              + message.header.n_targets * sizeof message.header.targets[0],
                          fds, n_fds, error);
}

/* --- processes that are added --- */

/* A call of AddProcess that the broker has not answered. */
typedef struct
{
  SondeTargetsAdded added; /* NULL: of the sonded before us, or told that there is no answer */
  gpointer user_data;
  guint timer;
} Addition;

/* @text: why they are not in */
static void
refuse_addition (Addition *addition, gint code, const char *text)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, code, text);
  SondeTargetsAdded added = g_steal_pointer (&addition->added);

  if (added != NULL)
    added (error, addition->user_data);
}

static void
addition_free (gpointer data)
{
  Addition *addition = data;

  g_clear_handle_id (&addition->timer, g_source_remove);
  refuse_addition (addition, SONDE_ERROR_INVALID_STATE, "The session takes no processes any more");
  g_free (addition);
}

static gboolean
on_overdue (gpointer user_data)
{
  Addition *addition = user_data;

  addition->timer = 0;
  refuse_addition (addition, SONDE_ERROR_FAILED, "The processes were not proven in time");
  return G_SOURCE_REMOVE;
}

void
sonde_session_add_targets (SondeSession *self,
                           GPtrArray *targets,
                           SondeTargetsAdded added,
                           gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  Addition *addition;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_refuse_state (self, &error);
  /* Each answer that is still to come has its place in the order. */
  else if (g_queue_get_length (&self->additions) >= SONDE_LIMIT_CALLS)
    g_set_error (&error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit calls: at most %d are not answered", SONDE_LIMIT_CALLS);
  if (error != NULL)
    g_ptr_array_unref (targets);
  else
    send_targets (self, SONDE_MESSAGE_ADD, targets, &error);
  if (error != NULL)
    {
      added (error, user_data);
      return;
    }
  addition = g_new0 (Addition, 1);
  addition->added = added;
  addition->user_data = user_data;
  addition->timer = g_timeout_add (SONDE_LIMIT_PROOF_MS, on_overdue, addition);
  g_queue_push_tail (&self->additions, addition);
  sonde_session_save (self);
}

/* --- programs that come by themselves --- */

typedef struct
{
  guint64 request_id;
  SondeGuest *guest;
} Join;

static void
join_free (gpointer data)
{
  Join *join = data;

  sonde_guest_free (join->guest);
  g_free (join);
}

/* Told less and less often, as whoever comes may come at any rate. */
static void
tell_count (SondeSession *self, guint64 n, const char *what, const char *why)
{
  g_autofree char *text = NULL;

  if ((n & (n - 1)) != 0 || !sonde_session_is_in (self, SONDE_STATES_LIVE))
    return;
  text = g_strdup_printf ("%s: %" G_GUINT64_FORMAT " (%s)", what, n, why);
  sonde_session_note (self, text, NULL);
}

void
sonde_session_turn_away (SondeSession *self)
{
  tell_count (self, ++self->n_turned_away,
              "Connections of programs that were not taken, and may not be recorded",
              "this user's come too often");
}

/* @guest: taken; @error: an errno */
static void
refuse_guest (SondeSession *self, SondeGuest **guest, int error)
{
  if ((*guest)->is_called)
    {
      self->handler->passed_on (self, g_steal_pointer (guest), error, self->user_data);
      return;
    }
  sonde_guest_answer (*guest, -error);
  if (error != ESRCH) /* else it is gone, the session or the program */
    tell_count (self, ++self->n_refused, "Programs that asked to be recorded and are not",
                error == EPERM ? "they are not of this session" : g_strerror (error));
}

/* A session of `launch` has a command, which inherits. What is asked for by names, or by root, may
 * be of any user; else it is the owner's, as its proofs are. */
gboolean
sonde_session_wants_programs (const SondeSession *self, SondeBeaconWish *wish)
{
  const SondeAsked *asked = &self->options->asked;
  guint32 producers = 0;

  if (asked->memory != SONDE_MEMORY_OFF)
    producers |= 1u << SONDE_PRODUCER_MEMORY;
  if (asked->trace != SONDE_TRIE_OFF)
    producers |= 1u << SONDE_PRODUCER_TRACER;
  if (self->options->collectors)
    producers |= 1u << SONDE_PRODUCER_APPLICATION;
  if (producers == 0 || asked->scope == SONDE_SCOPE_LAUNCH
      || !sonde_session_is_in (self, SONDE_STATES_LIVE) || self->broker == NULL)
    return FALSE;
  *wish = (SondeBeaconWish){ .reason = self->facts->id << 16 | (self->n_grown & 0xffff),
                             .producers = producers,
                             .is_all
                             = asked->scope != SONDE_SCOPE_TARGETS || self->facts->owner_uid == 0,
                             .uid = self->facts->owner_uid };
  return TRUE;
}

void
sonde_session_meet (SondeSession *self, SondeGuest *guest)
{
  SondeMessageJoin message
      = { .header.type = SONDE_MESSAGE_JOIN, .pid = guest->pid, .is_called = guest->is_called };
  g_autoptr (SondeGuest) taken = guest;
  int refusal = 0;
  Join *join;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE) || self->broker == NULL)
    refusal = ESRCH;
  else if (g_queue_get_length (&self->joins) >= SONDE_LIMIT_JOINS)
    refusal = EAGAIN;
  message.request_id = ++self->n_joins;
  /* One that cannot be told has gone, which shows. */
  if (refusal == 0 && !sonde_peer_send (self->broker, &message, sizeof message, NULL, 0, NULL))
    refusal = ESRCH;
  if (refusal != 0)
    {
      refuse_guest (self, &taken, refusal);
      return;
    }
  join = g_new0 (Join, 1);
  join->request_id = message.request_id;
  join->guest = g_steal_pointer (&taken);
  g_queue_push_tail (&self->joins, join);
}

/* The number was that guest's when the broker looked at its process, if he is still alive. */
static void
let_in (SondeSession *self, SondeGuest **place)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_PROGRAM };
  SondeGuest *guest = *place;
  int fd;

  if (!sonde_session_is_in (self, SONDE_STATES_LIVE))
    refuse_guest (self, place, ESRCH);
  else if (sonde_peer_is_behind (self->worker))
    refuse_guest (self, place, EAGAIN);
  else if (sonde_guest_is_alive (guest) && sonde_guest_answer (guest, 0))
    {
      fd = sonde_steal_fd (&guest->fd);
      sonde_peer_send (self->worker, &message, sizeof message, &fd, 1, NULL);
    }
  else if (guest->is_called)
    refuse_guest (self, place, EAGAIN); /* he has waited in vain, or is gone */
}

static gboolean
on_joined (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageJoined *message = data;
  GList *at = self->joins.head;
  Join *join;

  while (at != NULL && ((const Join *) at->data)->request_id != message->request_id)
    at = at->next;
  if (at == NULL)
    {
      /* The sonded before us may have asked; its guest has gone with it. */
      if (!self->is_adopted)
        g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                             "The broker answered what it was not asked");
      return self->is_adopted;
    }
  join = at->data;
  g_queue_delete_link (&self->joins, at);
  if (message->status == 0)
    let_in (self, &join->guest);
  else
    refuse_guest (self, &join->guest, message->status);
  join_free (join);
  return TRUE;
}

/* --- its start and its end --- */

void
sonde_session_start (SondeSession *self, SondePeerLauncher *launcher)
{
  g_autoptr (GError) error = NULL;

  self->launcher = sonde_peer_launcher_ref (launcher);
  sonde_session_enter (self, SONDE_STATE_CALLING);
  self->broker = sonde_peer_start (self->launcher, SONDE_PEER_BROKER, &sonde_session_broker_handler,
                                   self, &error);
  if (self->broker == NULL)
    sonde_session_fail (self, error);
  sonde_session_share_out (self);
}

void
sonde_session_adopt_broker (SondeSession *self, int fd, const SondeSessionRecord *record)
{
  for (guint i = 0; i < record->n_additions; i++)
    g_queue_push_tail (&self->additions, g_new0 (Addition, 1));
  /* The broker may still answer what the sonded before asked, by lower numbers. */
  self->n_joins = (guint64) g_get_monotonic_time ();
  self->broker = sonde_peer_adopt (self->launcher, SONDE_PEER_BROKER, fd, record->broker_pid,
                                   &sonde_session_broker_handler, self);
}

SondePeer *
sonde_session_steal_broker (SondeSession *self)
{
  SondePeer *broker = g_steal_pointer (&self->broker);

  g_queue_clear_full (&self->additions, addition_free);
  g_queue_clear_full (&self->joins, join_free);
  return broker;
}

/* What systemd keeps of its connection would keep it waiting. */
void
sonde_session_dismiss_broker (SondeSession *self)
{
  SondePeer *broker = sonde_session_steal_broker (self);

  sonde_session_keeper_forget_peer (&self->keeper, SONDE_PEER_BROKER);
  if (broker != NULL)
    self->handler->dismissed (self, broker, self->user_data);
}

void
sonde_session_lose_broker (SondeSession *self, const char *how)
{
  if (sonde_session_is_in (self, SONDE_STATES_STARTING))
    sonde_session_abort (self, how);
  else if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    {
      sonde_audit ("broker-died", self->facts->id, self->facts->owner_uid, how);
      self->facts->is_broken = TRUE;
      sonde_session_stop (self, how);
    }
  sonde_session_dismiss_broker (self);
}

/* --- what it says --- */

void
sonde_session_begin (SondeSession *self)
{
  SondeMessageOpen message = { .header.type = SONDE_MESSAGE_OPEN };
  g_autoptr (GError) error = NULL;

  if (self->state != SONDE_STATE_PLACING || self->lookup != NULL)
    return;
  if (self->lookup_error != NULL || self->no_file != NULL)
    {
      sonde_session_fail (self, self->lookup_error != NULL ? self->lookup_error : self->no_file);
      return;
    }
  if (self->facts->is_lasting && self->facts->capture_file == NULL)
    return;
  sonde_session_step (self, SONDE_STEP_OPEN);
  if (self->group != NULL
      && g_strlcpy (message.group, self->group, sizeof message.group) >= sizeof message.group)
    g_set_error_literal (&error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                         "The path of the control group is too long");
  else
    sonde_peer_send (self->broker, &message, sizeof message, NULL, 0, &error);
  if (error != NULL)
    sonde_session_fail (self, error);
}

static gboolean
is_good (const SondeMessageResult *result, GError **error)
{
  g_autofree char *text = NULL;

  if (result->error == SONDE_MESSAGE_NO_ERROR)
    return TRUE;
  text = g_utf8_make_valid (result->text, (gssize) strnlen (result->text, sizeof result->text));
  g_set_error_literal (error, SONDE_ERROR, (gint) result->error, text);
  return FALSE;
}

static gboolean
on_sheet (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageSheet *message = data;
  GPtrArray *targets = self->options->targets;
  SondeMessageAsk ask = { .header.type = SONDE_MESSAGE_ASK,
                          .version = SONDE_MESSAGE_VERSION,
                          .owner_uid = self->facts->owner_uid,
                          .owner_pid = self->owner->pid,
                          .asked = self->options->asked };

  if (message->version != SONDE_MESSAGE_VERSION)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "The broker speaks version %u of our protocol, not %d: sonded has to be "
                   "restarted after an upgrade",
                   message->version, SONDE_MESSAGE_VERSION);
      return FALSE;
    }
  sonde_peer_launcher_take_sheet (self->launcher, message);
  sonde_session_step (self, SONDE_STEP_CALL);
  self->options->targets = g_ptr_array_new ();
  if (sonde_peer_send (self->broker, &ask, sizeof ask, NULL, 0, error))
    return send_targets (self, SONDE_MESSAGE_PROVE, targets, error);
  g_ptr_array_unref (targets);
  return FALSE;
}

static void
on_file_created (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeSession *self = user_data;

  self->creating = NULL;
  self->file_fd = sonde_steal_fd (&answer->fd);
  self->facts->capture_file = g_steal_pointer (&answer->path);
  self->facts->capture_max_bytes = answer->max_bytes;
  self->no_file = error != NULL ? g_error_copy (error) : NULL;
  sonde_session_begin (self);
}

static void
on_group_found (const char *group, const GError *error, gpointer user_data)
{
  SondeSession *self = user_data;

  self->lookup = NULL;
  self->group = g_strdup (group);
  self->lookup_error = error != NULL ? g_error_copy (error) : NULL;
  sonde_session_begin (self);
}

/* The worker starts while systemd tells where the unit is, and the store makes the file. */
static gboolean
on_proved (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  if (!is_good (data, error))
    return FALSE;
  self->worker = sonde_peer_start (self->launcher, SONDE_PEER_CAPTURE,
                                   &sonde_session_worker_handler, self, error);
  if (self->worker == NULL)
    return FALSE;
  sonde_session_share_out (self);
  sonde_session_step (self, SONDE_STEP_PROVE);
  if (self->options->asked.scope == SONDE_SCOPE_UNIT)
    self->lookup = sonde_unit_find_group (self->options->asked.unit, on_group_found, self,
                                          &self->lookup_error);
  self->group = g_strdup (self->options->cgroup);
  if (self->facts->is_lasting)
    self->creating
        = sonde_capture_store_ask (self->store, SONDE_STORE_CREATE, self->facts->owner_uid,
                                   self->options->label, self->facts->id, on_file_created, self);
  return TRUE;
}

/* Every session begins with a file, or with a stream to its owner. */
static gboolean
on_opened (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  sonde_autofd int reader = -1;
  SondeStreamOptions stream;

  if (!is_good (data, error))
    return FALSE;
  sonde_stream_options_init (&stream);
  stream.buffer_size_bytes = self->options->buffer_size_bytes;
  if (self->facts->is_lasting)
    {
      if (!sonde_session_output_open_file (self, error))
        return FALSE;
    }
  else
    {
      reader = sonde_session_output_open_stream (self, self->facts->owner, &stream,
                                                 self->options->asked.recorder_bytes != 0, error);
      if (reader < 0)
        return FALSE;
    }
  if (!sonde_peer_send_simple (self->worker, SONDE_MESSAGE_START, error)
      || !sonde_peer_send_simple (self->broker, SONDE_MESSAGE_ANNOUNCE, error))
    return FALSE;
  self->facts->live_since_us = g_get_monotonic_time ();
  sonde_session_step (self, SONDE_STEP_START);
  sonde_session_start_duration (self);
  sonde_session_save_peers (self);
  sonde_session_save (self);
  sonde_audit ("session-started", self->facts->id, self->facts->owner_uid,
               sonde_scope_name (self->options->asked.scope));
  self->has_started = TRUE;
  self->handler->started (self, sonde_steal_fd (&reader), NULL, self->user_data);
  return TRUE;
}

static gboolean
on_added (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  Addition *addition = g_queue_pop_head (&self->additions);
  g_autoptr (GError) refusal = NULL;
  SondeTargetsAdded added;
  gpointer user_data;

  if (addition == NULL)
    {
      /* The sonded before us may have asked, and died before it wrote that down. */
      if (!self->is_adopted)
        g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                             "The broker answered what it was not asked");
      return self->is_adopted;
    }
  added = g_steal_pointer (&addition->added);
  user_data = addition->user_data;
  addition_free (addition);
  if (is_good (data, &refusal))
    {
      self->n_grown++;
      self->handler->grew (self, self->user_data);
    }
  if (added != NULL)
    added (refusal, user_data);
  sonde_session_save (self);
  return TRUE;
}

static gboolean
on_broken (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  g_autoptr (GError) why = NULL;

  if (is_good (data, &why))
    return TRUE;
  sonde_session_fail (self, why);
  return TRUE;
}

static gboolean
on_targets_ended (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_stop (self, "targets-exited");
  return TRUE;
}

/* The session goes on without answers about that user. */
static gboolean
on_stuck (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageStuck *message = data;
  g_autofree char *text
      = message->is_over != 0
            ? g_strdup_printf ("Processes of uid %u answer again", message->uid)
            : g_strdup_printf ("Processes of uid %u do not answer: of them and their files nothing "
                               "is told (asked: process %d)",
                               message->uid, message->pid);

  sonde_audit (message->is_over != 0 ? "targets-answer" : "targets-stuck", self->facts->id,
               self->facts->owner_uid, text);
  /* A connection that breaks shows by itself. */
  if (sonde_session_is_in (self, SONDE_STATES_HEARD))
    sonde_session_note (self, text, NULL);
  return TRUE;
}

/* What the worker is to hear. It hears of no more events once it drains. While it is behind, the
 * rest waits with the broker: events on their way are descriptors of ours. */
static gboolean
hand_on (SondeSession *self, gconstpointer data, int *fds, unsigned n_fds, GError **error)
{
  const SondeMessageHeader *message = data;
  gboolean is_of_events
      = message->type == SONDE_MESSAGE_EVENTS || message->type == SONDE_MESSAGE_RINGS;
  g_autofree gpointer copy = NULL;
  g_autoptr (GError) failure = NULL;
  gboolean is_sent;

  if (is_of_events && sonde_session_is_in (self, SONDE_STATES_DRAINING))
    return TRUE;
  copy = g_memdup2 (message, message->size);
  is_sent = sonde_peer_send (self->worker, copy, message->size, fds, n_fds, &failure);
  for (unsigned i = 0; i < n_fds; i++)
    fds[i] = -1;
  if (sonde_peer_is_behind (self->worker))
    sonde_peer_hold (self->broker, TRUE);
  /* One that delivers may leave at any moment: what it said last is still to be read. */
  if (!is_sent && self->state != SONDE_STATE_DELIVERING)
    sonde_session_fail (self, failure);
  return TRUE;
}

#define WHILE_MAPPING SONDE_STATE_BIT (SONDE_STATE_MAPPING)
#define WHILE_OPENING SONDE_STATE_BIT (SONDE_STATE_OPENING)
#define WHILE_SERVED  (WHILE_MAPPING | SONDE_STATE_BIT (SONDE_STATE_PLACING) | WHILE_OPENING)

/* What has crossed our CLOSE is still taken. */
static const SondeSessionWord words[] = {
  { SONDE_MESSAGE_SHEET, SONDE_STATE_BIT (SONDE_STATE_CALLING), on_sheet },
  { SONDE_MESSAGE_PROVED, SONDE_STATE_BIT (SONDE_STATE_PROVING), on_proved },
  { SONDE_MESSAGE_SETUP, WHILE_MAPPING, hand_on },
  { SONDE_MESSAGE_DOCUMENT, WHILE_MAPPING | SONDE_STATES_HEARD, hand_on },
  { SONDE_MESSAGE_COUNTERS, WHILE_MAPPING | SONDE_STATES_HEARD, hand_on },
  { SONDE_MESSAGE_RINGS, WHILE_MAPPING | SONDE_STATES_HEARD, hand_on },
  { SONDE_MESSAGE_EVENTS, WHILE_OPENING | SONDE_STATES_HEARD, hand_on },
  { SONDE_MESSAGE_OPENED, WHILE_OPENING, on_opened },
  { SONDE_MESSAGE_PROCESS, SONDE_STATES_HEARD, hand_on },
  { SONDE_MESSAGE_NOTE, SONDE_STATES_HEARD, hand_on },
  { SONDE_MESSAGE_ADDED, SONDE_STATES_HEARD, on_added },
  { SONDE_MESSAGE_JOINED, SONDE_STATES_HEARD, on_joined },
  { SONDE_MESSAGE_TARGETS_ENDED, SONDE_STATES_HEARD, on_targets_ended },
  { SONDE_MESSAGE_STUCK, WHILE_SERVED | SONDE_STATES_HEARD, on_stuck },
  { SONDE_MESSAGE_BROKEN, ~0u, on_broken },
};

/* A refusal fails a session that is starting, with its reason; one that runs loses a broker that
 * says what it may not. */
static void
on_broker_message (SondePeer *broker,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  SondeSession *self = user_data;
  g_autoptr (GError) error = NULL;

  if (sonde_session_hear (self, words, G_N_ELEMENTS (words), "broker", message, fds, n_fds, &error))
    return;
  if (sonde_session_is_in (self, SONDE_STATES_STARTING))
    sonde_session_fail (self, error);
  else
    sonde_session_lose_broker (self, error->message);
}

static void
on_broker_gone (SondePeer *broker, const char *how, gpointer user_data)
{
  SondeSession *self = user_data;
  g_autofree char *reason = g_strdup (how); /* the broker's, which goes */

  sonde_peer_free (sonde_session_steal_broker (self));
  sonde_session_lose_broker (self, reason);
}

const SondePeerHandler sonde_session_broker_handler
    = { .message = on_broker_message, .gone = on_broker_gone };
