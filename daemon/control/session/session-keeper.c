/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What lies in the fd store for each session, and what a sonded before us has left there. */
#include "daemon/control/session/session-keeper.h"

#include <string.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

struct SondeSessionKeeper
{
  SondeFdStore *store;
  guint64 id;
  guint32 generation; /* of the record in the store; 0: there is none */
  gboolean has_worker;
};

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

/* A message takes so many. */
static void
put_all (SondeSessionKeeper *self, const char *name, const int *fds, guint n_fds)
{
  for (guint first = 0; first < n_fds; first += SONDE_MESSAGE_MAX_FDS)
    sonde_fd_store_put (self->store, name, fds + first, MIN (n_fds - first, SONDE_MESSAGE_MAX_FDS));
}

void
sonde_session_keeper_keep_worker (SondeSessionKeeper *self, int fd, const int *rings, guint n_rings)
{
  g_autofree char *worker = part_name (self->id, "worker");
  g_autofree char *ring = part_name (self->id, "rings");

  if (!sonde_fd_store_is_there (self->store))
    return;
  sonde_fd_store_put (self->store, worker, &fd, 1);
  put_all (self, ring, rings, n_rings);
  self->has_worker = TRUE;
}

void
sonde_session_keeper_keep_pulses (SondeSessionKeeper *self, const int *fds, guint n_fds)
{
  g_autofree char *pulses = part_name (self->id, "pulses");

  if (!sonde_fd_store_is_there (self->store) || n_fds == 0)
    return;
  sonde_fd_store_remove (self->store, pulses);
  put_all (self, pulses, fds, n_fds);
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
sonde_session_keeper_forget_worker (SondeSessionKeeper *self)
{
  g_autofree char *worker = part_name (self->id, "worker");
  g_autofree char *rings = part_name (self->id, "rings");
  g_autofree char *pulses = part_name (self->id, "pulses");

  if (!self->has_worker)
    return;
  sonde_fd_store_remove (self->store, worker);
  sonde_fd_store_remove (self->store, rings);
  sonde_fd_store_remove (self->store, pulses);
  self->has_worker = FALSE;
}

/* --- what was left --- */

static void
close_event (gpointer fd)
{
  sonde_clear_fd (fd);
}

static void
left_free (gpointer data)
{
  SondeLeftSession *left = data;

  sonde_session_record_free (left->record);
  sonde_clear_fd (&left->worker_fd);
  g_array_unref (left->events);
  g_free (left);
}

static SondeLeftSession *
ensure_left (GHashTable *by_id, guint64 id)
{
  SondeLeftSession *left = g_hash_table_lookup (by_id, &id);

  if (left != NULL)
    return left;
  left = g_new0 (SondeLeftSession, 1);
  left->worker_fd = -1;
  left->events = g_array_new (FALSE, FALSE, sizeof (int));
  g_array_set_clear_func (left->events, close_event);
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
  if (g_str_equal (words[1], "worker") && left->worker_fd < 0)
    left->worker_fd = sonde_steal_fd (fd);
  else if ((g_str_equal (words[1], "rings") || g_str_equal (words[1], "pulses"))
           && left->events->len < SONDE_LIMIT_RECORD_RINGS)
    {
      g_array_append_val (left->events, *fd);
      *fd = -1;
    }
  else
    return FALSE;
  return TRUE;
}

/* All but the parts of the sessions in @by_id. */
static void
sweep (SondeFdStore *store, GHashTable *by_id)
{
  const char *name;

  for (guint i = 0; (name = sonde_fd_store_left_name (store, i)) != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (name, ".", 3);
      guint64 id = g_ascii_strtoull (words[0], NULL, 10);
      const SondeLeftSession *left = g_hash_table_lookup (by_id, &id);

      if (left == NULL
          || (g_strcmp0 (words[1], "record") == 0
              && g_ascii_strtoull (words[2] != NULL ? words[2] : "", NULL, 10) != left->generation))
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
  self->has_worker = left->worker_fd >= 0;
  return self;
}

void
sonde_session_keeper_forget_left (SondeFdStore *store, const SondeLeftSession *left)
{
  g_autoptr (SondeSessionKeeper) self = sonde_session_keeper_new_left (store, left);

  self->has_worker = TRUE;
  sonde_session_keeper_forget_record (self);
  sonde_session_keeper_forget_worker (self);
}
