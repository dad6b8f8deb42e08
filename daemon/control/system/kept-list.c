/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/kept-list.h"

#include "daemon/base/limits.h"

typedef struct
{
  guint64 id;
  uid_t uid;
  gpointer item;
  gint64 due_us;
} Entry;

struct SondeKeptList
{
  GArray *entries; /* Entry, oldest first */
  GDestroyNotify free_item;
};

SondeKeptList *
sonde_kept_list_new (GDestroyNotify free_item)
{
  SondeKeptList *self = g_new0 (SondeKeptList, 1);

  self->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  self->free_item = free_item;
  return self;
}

void
sonde_kept_list_set_free_func (SondeKeptList *self, GDestroyNotify free_item)
{
  self->free_item = free_item;
}

static const Entry *
get_entry (const SondeKeptList *self, guint index)
{
  return &g_array_index (self->entries, Entry, index);
}

static void
drop (SondeKeptList *self, guint index)
{
  self->free_item (get_entry (self, index)->item);
  g_array_remove_index (self->entries, index);
}

void
sonde_kept_list_free (SondeKeptList *self)
{
  if (self == NULL)
    return;
  while (self->entries->len > 0)
    drop (self, 0);
  g_array_unref (self->entries);
  g_free (self);
}

/* The oldest one of @uid, or of everybody if nobody has too many. */
static void
make_room (SondeKeptList *self, uid_t uid)
{
  guint n_of_uid = 0;
  guint oldest = 0;

  for (guint i = self->entries->len; i > 0; i--)
    if (get_entry (self, i - 1)->uid == uid)
      {
        oldest = i - 1;
        n_of_uid++;
      }
  if (n_of_uid >= SONDE_LIMIT_KEPT_PER_UID)
    drop (self, oldest);
  else if (self->entries->len >= SONDE_LIMIT_KEPT)
    drop (self, 0);
}

void
sonde_kept_list_add (SondeKeptList *self, guint64 id, uid_t uid, gpointer item, gint64 now_us)
{
  const Entry entry
      = { .id = id, .uid = uid, .item = item, .due_us = now_us + SONDE_LIMIT_KEPT_US };

  make_room (self, uid);
  g_array_append_val (self->entries, entry);
}

gpointer
sonde_kept_list_lookup (const SondeKeptList *self, guint64 id)
{
  for (guint i = 0; i < self->entries->len; i++)
    if (get_entry (self, i)->id == id)
      return get_entry (self, i)->item;
  return NULL;
}

gpointer
sonde_kept_list_get (const SondeKeptList *self, guint index)
{
  return index < self->entries->len ? get_entry (self, index)->item : NULL;
}

gint64
sonde_kept_list_expire (SondeKeptList *self, gint64 now_us)
{
  while (self->entries->len > 0 && get_entry (self, 0)->due_us <= now_us)
    drop (self, 0);
  return self->entries->len > 0 ? get_entry (self, 0)->due_us - now_us : -1;
}
