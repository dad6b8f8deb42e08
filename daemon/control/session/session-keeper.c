/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/session-keeper.h"

#include <string.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

struct SondeSessionKeeper
{
  SondeFdStore *store;
  guint64 id;
  guint32 generation; /* of the record in the store; 0: there is none */
  gboolean has_peer[SONDE_PEER_N_KINDS];
};

/* Names in the store. */
static const char *const parts[SONDE_PEER_N_KINDS]
    = { [SONDE_PEER_BROKER] = "broker", [SONDE_PEER_CAPTURE] = "worker" };

SondeSessionKeeper *
sonde_session_keeper_new (SondeFdStore *store, guint64 id)
{
  SondeSessionKeeper *self = g_new0 (SondeSessionKeeper, 1);

  self->store = store;
  self->id = id;
  return self;
}

void
sonde_session_keeper_free (SondeSessionKeeper *self)
{
  g_free (self);
}

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

void
sonde_session_keeper_keep_peer (SondeSessionKeeper *self, SondePeerKind kind, int fd)
{
  g_autofree char *name = part_name (self->id, parts[kind]);

  if (!sonde_fd_store_is_there (self->store))
    return;
  sonde_fd_store_put (self->store, name, &fd, 1);
  self->has_peer[kind] = TRUE;
}

static void
remove_record (SondeSessionKeeper *self, guint32 generation)
{
  g_autofree char *name = record_name (self->id, generation);

  if (generation != 0)
    sonde_fd_store_remove (self->store, name);
}

void
sonde_session_keeper_keep_record (SondeSessionKeeper *self, const SondeSessionRecord *record)
{
  g_autofree char *name = record_name (self->id, self->generation + 1);
  g_autoptr (GError) error = NULL;
  sonde_autofd int fd = -1;

  if (!sonde_fd_store_is_there (self->store))
    return;
  fd = sonde_session_record_write (record, &error);
  if (fd < 0)
    {
      g_warning ("Session %" G_GUINT64_FORMAT " would not survive a restart: %s", self->id,
                 error->message);
      return;
    }
  sonde_fd_store_put (self->store, name, &fd, 1);
  remove_record (self, self->generation);
  self->generation++;
}

void
sonde_session_keeper_forget_record (SondeSessionKeeper *self)
{
  remove_record (self, self->generation);
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

/* --- what was left --- */

static void
left_free (gpointer data)
{
  SondeLeftSession *left = data;

  sonde_session_record_free (left->record);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    sonde_clear_fd (&left->peer_fds[kind]);
  g_free (left);
}

static SondeLeftSession *
ensure_left (GHashTable *by_id, guint64 id)
{
  SondeLeftSession *left = g_hash_table_lookup (by_id, &id);

  if (left != NULL)
    return left;
  left = g_new0 (SondeLeftSession, 1);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    left->peer_fds[kind] = -1;
  g_hash_table_insert (by_id, g_memdup2 (&id, sizeof id), left);
  return left;
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
  left = ensure_left (by_id, id);
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

/* Not what Sonde 0.1.0 has left beside them, events that own rings: its workers have those, too. */
static gboolean
is_of_use (char **words, const SondeLeftSession *left)
{
  if (left == NULL || words[0] == NULL || words[1] == NULL)
    return FALSE;
  if (g_str_equal (words[1], "record"))
    return g_ascii_strtoull (words[2] != NULL ? words[2] : "", NULL, 10) == left->generation;
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    if (g_str_equal (words[1], parts[kind]))
      return TRUE;
  return FALSE;
}

/* All parts of sessions but of those in @by_id. */
static void
sweep (SondeFdStore *store, GHashTable *by_id)
{
  const char *name;

  for (guint i = 0; (name = sonde_fd_store_left_name (store, i)) != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (name, ".", 3);
      guint64 id = g_ascii_strtoull (words[0], NULL, 10);
      const SondeLeftSession *left = g_hash_table_lookup (by_id, &id);

      if (g_ascii_isdigit (name[0]) && !is_of_use (words, left))
        sonde_fd_store_remove (store, name);
    }
}

static gboolean
has_no_record (gpointer id, gpointer left, gpointer user_data)
{
  return ((SondeLeftSession *) left)->record == NULL;
}

GPtrArray *
sonde_session_keeper_find_left (SondeFdStore *store)
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

SondeSessionKeeper *
sonde_session_keeper_new_left (SondeFdStore *store, const SondeLeftSession *left)
{
  SondeSessionKeeper *self = sonde_session_keeper_new (store, left->record->id);

  self->generation = left->generation;
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    self->has_peer[kind] = left->peer_fds[kind] >= 0;
  return self;
}

void
sonde_session_keeper_forget_left (SondeFdStore *store, const SondeLeftSession *left)
{
  g_autoptr (SondeSessionKeeper) self = sonde_session_keeper_new_left (store, left);

  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    self->has_peer[kind] = TRUE;
  sonde_session_keeper_forget (self);
}
