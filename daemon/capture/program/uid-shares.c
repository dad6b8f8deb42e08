/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/uid-shares.h"

#include "daemon/base/limits.h"

void
sonde_uid_shares_init (SondeUidShares *self, gboolean is_divided)
{
  *self = (SondeUidShares){ .is_divided = is_divided };
  self->amounts = g_hash_table_new_full (NULL, NULL, NULL, g_free);
}

void
sonde_uid_shares_clear (SondeUidShares *self)
{
  g_clear_pointer (&self->amounts, g_hash_table_unref);
}

static SondeUidAmount *
find (const SondeUidShares *self, uid_t uid)
{
  return g_hash_table_lookup (self->amounts, GUINT_TO_POINTER (uid));
}

/* As sonde_quota_share() has it. */
static gsize
share_of (gsize max, gsize of_others, guint percent)
{
  gsize left = max - MIN (max, of_others);

  return left > 1 ? left / 100 * percent + left % 100 * percent / 100 : left;
}

gsize
sonde_uid_shares_room (const SondeUidShares *self, uid_t uid, gsize max_bytes)
{
  const SondeUidAmount *own = find (self, uid);
  gsize own_bytes = own != NULL ? own->bytes : 0;
  gsize left_bytes = max_bytes - MIN (max_bytes, self->all.bytes);
  gsize share_bytes;

  if (!self->is_divided || uid == 0)
    return left_bytes;
  share_bytes = share_of (max_bytes, self->all.bytes - own_bytes, SONDE_LIMIT_RING_SHARE_PERCENT);
  return MIN (left_bytes, share_bytes - MIN (share_bytes, own_bytes));
}

gboolean
sonde_uid_shares_has_room (const SondeUidShares *self,
                           uid_t uid,
                           const SondeUidAmount *max,
                           gsize size_bytes)
{
  const SondeUidAmount *own = find (self, uid);
  guint own_n = own != NULL ? own->n : 0;

  if (self->all.n >= max->n || size_bytes > sonde_uid_shares_room (self, uid, max->bytes))
    return FALSE;
  return !self->is_divided || uid == 0
         || own_n < share_of (max->n, self->all.n - own_n, SONDE_LIMIT_SHARE_PERCENT);
}

void
sonde_uid_shares_take (SondeUidShares *self, uid_t uid, gsize size_bytes)
{
  SondeUidAmount *own = find (self, uid);

  if (own == NULL)
    {
      own = g_new0 (SondeUidAmount, 1);
      g_hash_table_insert (self->amounts, GUINT_TO_POINTER (uid), own);
    }
  own->n++;
  own->bytes += size_bytes;
  self->all.n++;
  self->all.bytes += size_bytes;
}

void
sonde_uid_shares_give_back (SondeUidShares *self, uid_t uid, gsize size_bytes)
{
  SondeUidAmount *own = find (self, uid);

  g_assert (own != NULL && own->n > 0 && own->bytes >= size_bytes);
  own->n--;
  own->bytes -= size_bytes;
  self->all.n--;
  self->all.bytes -= size_bytes;
  if (own->n == 0)
    g_hash_table_remove (self->amounts, GUINT_TO_POINTER (uid));
}

guint
sonde_uid_shares_n_uids (const SondeUidShares *self)
{
  return g_hash_table_size (self->amounts);
}
