/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps each session in the fd store, and takes over those that a sonded before us has left there.
 *
 * A session with number N has in the store its connections with broker and worker ("N.broker",
 * "N.worker") and its record ("N.record.G"). A new record is put there before the old one, of a
 * lower G, is removed: there is always one. What has no valid record is nobody's. */
#include <string.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/session/session-private.h"
#include "daemon/control/system/audit.h"

/* Names in the store. */
static const char *const parts[SONDE_PEER_N_KINDS]
    = { [SONDE_PEER_BROKER] = "broker", [SONDE_PEER_CAPTURE] = "worker" };

/* --- to the next one --- */

static char *
part_name (guint64 id, const char *part)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT ".%s", id, part);
}

static char *
record_name (guint64 id, guint32 generation)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT ".record.%u", id, generation);
}

static gboolean
is_there (const SondeSessionKeeper *self)
{
  return self->store != NULL && sonde_fd_store_is_there (self->store);
}

void
sonde_session_keeper_forget_record (SondeSessionKeeper *self)
{
  g_autofree char *name = record_name (self->id, self->generation);

  if (self->generation != 0)
    sonde_fd_store_remove (self->store, name);
  self->generation = 0;
}

void
sonde_session_keeper_forget_peer (SondeSessionKeeper *self, SondePeerKind kind)
{
  g_autofree char *name = part_name (self->id, parts[kind]);

  if (self->has_peer[kind])
    sonde_fd_store_remove (self->store, name);
  self->has_peer[kind] = FALSE;
}

void
sonde_session_keeper_forget (SondeSessionKeeper *self)
{
  sonde_session_keeper_forget_record (self);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    sonde_session_keeper_forget_peer (self, kind);
}

void
sonde_session_save (SondeSession *self)
{
  SondeSessionRecord *facts = self->facts;
  guint32 generation = self->keeper.generation + 1;
  g_autofree char *name = record_name (facts->id, generation);
  g_autoptr (GError) error = NULL;
  sonde_autofd int fd = -1;

  if (!is_there (&self->keeper))
    return;
  facts->state = sonde_session_state_row (self->state)->record;
  facts->worker_pid = sonde_peer_pid (self->worker);
  facts->broker_pid = self->broker != NULL ? sonde_peer_pid (self->broker) : 0;
  facts->n_additions = self->broker != NULL ? g_queue_get_length (&self->additions) : 0;
  fd = sonde_session_record_write (facts, &error);
  if (fd < 0)
    {
      g_warning ("Session %" G_GUINT64_FORMAT " would not survive a restart: %s", facts->id,
                 error->message);
      return;
    }
  sonde_fd_store_put (self->keeper.store, name, &fd, 1);
  sonde_session_keeper_forget_record (&self->keeper);
  self->keeper.generation = generation;
}

void
sonde_session_save_peers (SondeSession *self)
{
  const SondePeer *peers[SONDE_PEER_N_KINDS]
      = { [SONDE_PEER_BROKER] = self->broker, [SONDE_PEER_CAPTURE] = self->worker };

  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS && is_there (&self->keeper); kind++)
    {
      g_autofree char *name = part_name (self->facts->id, parts[kind]);
      int fd = sonde_channel_fd (sonde_peer_channel (peers[kind]));

      sonde_fd_store_put (self->keeper.store, name, &fd, 1);
      self->keeper.has_peer[kind] = TRUE;
    }
}

void
sonde_session_leave (SondeSession *self)
{
  if (self == NULL)
    return;
  self->keeper = (SondeSessionKeeper){ .store = NULL }; /* what is there stays */
  g_clear_pointer (&self->worker, sonde_peer_leave);
  sonde_peer_leave (sonde_session_steal_broker (self));
  sonde_session_free (self);
}

/* --- what the one before has left --- */

static void
left_free (gpointer data)
{
  SondeLeftSession *left = data;

  sonde_session_record_free (left->record);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    sonde_clear_fd (&left->peer_fds[kind]);
  g_free (left);
}

/* FALSE: nothing that can be taken over, or older than what is there. */
static gboolean
take_record (SondeLeftSession *left, guint64 id, const char *generation_text, int fd)
{
  guint64 generation;
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeSessionRecord) record = NULL;

  if (!g_ascii_string_to_unsigned (generation_text, 10, 1, G_MAXUINT32 - 1, &generation, NULL)
      || generation < left->generation)
    return FALSE;
  record = sonde_session_record_read (fd, &error);
  if (record == NULL || record->id != id)
    {
      g_warning ("Session %" G_GUINT64_FORMAT " cannot be taken over: %s", id,
                 record == NULL ? error->message : "the record is another one's");
      return FALSE;
    }
  sonde_session_record_free (left->record);
  left->record = g_steal_pointer (&record);
  left->generation = (guint32) generation;
  return TRUE;
}

/* @name: "N.PART"; FALSE: it is of no use */
static gboolean
take_part (GHashTable *by_id, const char *name, int *fd)
{
  g_auto (GStrv) words = g_strsplit (name, ".", 3);
  SondeLeftSession *left;
  guint64 id;

  if (g_strv_length (words) < 2
      || !g_ascii_string_to_unsigned (words[0], 10, 1, G_MAXUINT64, &id, NULL))
    return FALSE;
  left = g_hash_table_lookup (by_id, &id);
  if (left == NULL)
    {
      left = g_new0 (SondeLeftSession, 1);
      for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
        left->peer_fds[kind] = -1;
      g_hash_table_insert (by_id, g_memdup2 (&id, sizeof id), left);
    }
  if (g_str_equal (words[1], "record") && words[2] != NULL)
    return take_record (left, id, words[2], *fd);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    if (g_str_equal (words[1], parts[kind]) && left->peer_fds[kind] < 0)
      {
        left->peer_fds[kind] = sonde_steal_fd (fd);
        return TRUE;
      }
  return FALSE;
}

/* All parts of sessions but of those in @by_id. Not what Sonde 0.1.0 has left beside them, events
 * that own rings: its workers have those, too. */
static void
sweep (SondeFdStore *store, GHashTable *by_id)
{
  const char *name;

  for (guint i = 0; (name = sonde_fd_store_left_name (store, i)) != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (name, ".", 3);
      guint64 id = g_ascii_strtoull (words[0], NULL, 10);
      const SondeLeftSession *left = g_hash_table_lookup (by_id, &id);
      gboolean is_of_use = FALSE;

      if (!g_ascii_isdigit (name[0]))
        continue;
      if (left != NULL && words[1] != NULL && g_str_equal (words[1], "record"))
        is_of_use
            = g_ascii_strtoull (words[2] != NULL ? words[2] : "", NULL, 10) == left->generation;
      else if (left != NULL && words[1] != NULL)
        is_of_use = g_str_equal (words[1], parts[SONDE_PEER_BROKER])
                    || g_str_equal (words[1], parts[SONDE_PEER_CAPTURE]);
      if (!is_of_use)
        sonde_fd_store_remove (store, name);
    }
}

static gboolean
has_no_record (gpointer id, gpointer left, gpointer user_data)
{
  return ((SondeLeftSession *) left)->record == NULL;
}

GPtrArray *
sonde_session_find_left (SondeFdStore *store)
{
  g_autoptr (GHashTable) by_id
      = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, left_free);
  GPtrArray *all = g_ptr_array_new_with_free_func (left_free);
  GHashTableIter iter;
  gpointer id;
  gpointer left;
  const char *name;

  for (guint i = 0; (name = sonde_fd_store_left_name (store, i)) != NULL; i++)
    {
      sonde_autofd int fd = sonde_fd_store_take_left (store, i);

      if (!take_part (by_id, name, &fd))
        g_debug ("%s is of no use", name);
    }
  g_hash_table_foreach_remove (by_id, has_no_record, NULL);
  sweep (store, by_id);
  g_hash_table_iter_init (&iter, by_id);
  while (g_hash_table_iter_next (&iter, &id, &left))
    {
      g_ptr_array_add (all, left);
      g_hash_table_iter_steal (&iter);
      g_free (id);
    }
  return all;
}

/* Of a session that is taken over, or is to be forgotten. */
static SondeSessionKeeper
keeper_of_left (SondeFdStore *store, const SondeLeftSession *left)
{
  SondeSessionKeeper keeper
      = { .store = store, .id = left->record->id, .generation = left->generation };

  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    keeper.has_peer[kind] = left->peer_fds[kind] >= 0;
  return keeper;
}

void
sonde_session_forget_left (SondeFdStore *store, const SondeLeftSession *left)
{
  SondeSessionKeeper keeper = keeper_of_left (store, left);

  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    keeper.has_peer[kind] = TRUE;
  sonde_session_keeper_forget (&keeper);
}

/* Says again what the one before wanted of both, who may have heard it. */
static void
take_up (SondeSession *self)
{
  static const SondeMessageType wishes[SONDE_N_STATES] = {
    [SONDE_STATE_RUNNING] = SONDE_MESSAGE_RESUME,
    [SONDE_STATE_PAUSED] = SONDE_MESSAGE_PAUSE,
    [SONDE_STATE_DRAINING] = SONDE_MESSAGE_STOP,
    [SONDE_STATE_FINISHED] = SONDE_MESSAGE_LEAVE,
  };
  gboolean is_foreign = self->facts->protocol != SONDE_MESSAGE_VERSION;
  SondeSessionState state = self->facts->state;
  SondeMessageType of_broker;
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) lost = NULL;

  /* Finished, but for its process: it may not have heard that it may leave. */
  sonde_session_enter (self, state == SONDE_STATE_FINISHED ? SONDE_STATE_LEAVING : state);
  /* It is told once that has ended. */
  if (self->state == SONDE_STATE_FAILED)
    {
      sonde_peer_kill (self->worker);
      return;
    }
  if (sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_start_duration (self);
  if (is_foreign && sonde_session_is_in (self, SONDE_STATES_LIVE))
    sonde_session_stop (self, "upgrade");
  else if (!sonde_peer_send_simple (self->worker, wishes[state], &error))
    sonde_session_fail (self, error);
  of_broker
      = sonde_session_is_in (self, SONDE_STATES_LIVE) ? SONDE_MESSAGE_REPORT : SONDE_MESSAGE_CLOSE;
  if (!is_foreign && self->broker == NULL)
    sonde_session_lose_broker (self, "The connection to the broker is not there");
  else if (!is_foreign && !sonde_peer_send_simple (self->broker, of_broker, &lost))
    sonde_session_lose_broker (self, lost->message);
  if (!sonde_session_is_over (self)
      && !sonde_peer_send_simple (self->worker, SONDE_MESSAGE_REPORT, &error))
    sonde_session_fail (self, error);
}

SondeSession *
sonde_session_adopt (SondeLeftSession *left,
                     SondeFdStore *fd_store,
                     SondeCaller *owner,
                     SondeCaptureStore *store,
                     SondePeerLauncher *launcher,
                     const SondeSessionHandler *handler,
                     gpointer user_data,
                     GError **error)
{
  SondeSessionRecord *record = left->record;
  gboolean is_over = sonde_session_state_is_in (record->state, SONDE_STATES_OVER);
  SondeOptions *options;
  SondeSession *self;

  if (left->peer_fds[SONDE_PEER_CAPTURE] < 0 && !is_over)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The connection to its worker is not there");
      return NULL;
    }
  if (record->is_lasting && store == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "There is no place for its capture file any more");
      return NULL;
    }
  options = sonde_options_restore (record->options, error);
  if (options == NULL)
    return NULL;
  self = sonde_session_new_with (record, owner, options, record->is_lasting ? store : NULL, handler,
                                 user_data);
  self->has_started = TRUE;
  self->is_adopted = TRUE;
  if (record->capture_file != NULL)
    sonde_capture_store_hold (store, record->capture_file, is_over ? 0 : record->capture_max_bytes);
  self->keeper = keeper_of_left (fd_store, left);
  left->record = NULL; /* it is the session's now */
  if (left->peer_fds[SONDE_PEER_CAPTURE] < 0)
    {
      sonde_session_enter (self, record->is_broken ? SONDE_STATE_FAILED : record->state);
      sonde_session_keeper_forget_peer (&self->keeper, SONDE_PEER_BROKER);
      return self;
    }
  self->launcher = sonde_peer_launcher_ref (launcher);
  /* The worker may still answer what the sonded before asked, by lower numbers. */
  self->n_snapshots = (guint64) g_get_monotonic_time ();
  self->worker = sonde_peer_adopt (launcher, SONDE_PEER_CAPTURE,
                                   sonde_steal_fd (&left->peer_fds[SONDE_PEER_CAPTURE]),
                                   record->worker_pid, &sonde_session_worker_handler, self);
  if (left->peer_fds[SONDE_PEER_BROKER] >= 0)
    sonde_session_adopt_broker (self, sonde_steal_fd (&left->peer_fds[SONDE_PEER_BROKER]), record);
  take_up (self);
  sonde_audit ("session-adopted", self->facts->id, self->facts->owner_uid,
               sonde_scope_name (self->options->asked.scope));
  return self;
}
