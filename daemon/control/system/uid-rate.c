/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/uid-rate.h"

typedef struct
{
  guint n_used;       /* of the burst, not given back yet */
  gint64 refilled_us; /* up to when it was given back */
} Bucket;

struct SondeUidRate
{
  guint burst;
  gint64 interval_us;
  GHashTable *buckets; /* uid → Bucket */
};

SondeUidRate *
sonde_uid_rate_new (guint burst, gint64 interval_us)
{
  SondeUidRate *self = g_new0 (SondeUidRate, 1);

  self->burst = burst;
  self->interval_us = interval_us;
  self->buckets = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

void
sonde_uid_rate_free (SondeUidRate *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->buckets);
  g_free (self);
}

/* Gives back what time has earned, and forgets who has used nothing. */
static void
refill (SondeUidRate *self, gint64 now_us)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->buckets);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Bucket *bucket = value;
      gint64 n_refills = (now_us - bucket->refilled_us) / self->interval_us;

      bucket->n_used -= (guint) MIN ((gint64) bucket->n_used, n_refills);
      bucket->refilled_us += n_refills * self->interval_us;
      if (bucket->n_used == 0)
        g_hash_table_iter_remove (&iter);
    }
}

gboolean
sonde_uid_rate_has_room (SondeUidRate *self, uid_t uid, gint64 now_us)
{
  const Bucket *bucket;

  refill (self, now_us);
  bucket = g_hash_table_lookup (self->buckets, GUINT_TO_POINTER (uid));
  return bucket == NULL || bucket->n_used < self->burst;
}

void
sonde_uid_rate_count (SondeUidRate *self, uid_t uid, gint64 now_us)
{
  Bucket *bucket = g_hash_table_lookup (self->buckets, GUINT_TO_POINTER (uid));

  if (bucket == NULL)
    {
      bucket = g_new0 (Bucket, 1);
      bucket->refilled_us = now_us;
      g_hash_table_insert (self->buckets, GUINT_TO_POINTER (uid), bucket);
    }
  bucket->n_used++;
}
