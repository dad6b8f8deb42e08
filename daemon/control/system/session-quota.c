/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/session-quota.h"

#include "daemon/base/error.h"
#include "daemon/base/quota.h"

gboolean
sonde_session_quota_check (
    const SondeSettings *settings, uid_t uid, guint n_own, guint n_of_others, GError **error)
{
  guint limit = (guint) (uid == 0 ? settings->sessions_root : settings->sessions);
  guint64 share = sonde_quota_share (settings->sessions_machine, n_of_others);

  if (n_own >= limit)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit %s: at most %u at a time for uid %u",
                   uid == 0 ? "sessions-root" : "sessions", limit, (guint) uid);
      return FALSE;
    }
  if (uid != 0 && n_own >= share)
    {
      g_set_error (
          error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
          "Limit sessions-machine: at most %u at a time for all users, and half of what is "
          "left for one",
          (guint) settings->sessions_machine);
      return FALSE;
    }
  return TRUE;
}
