/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One structured journal record for each start, end, refusal and worker death. */
#include "daemon/control/audit.h"

#include <string.h>

#define MAX_DETAIL_BYTES 256

void
sonde_audit (const char *event, guint64 session, uid_t uid, const char *detail)
{
  g_autofree char *cut = g_utf8_make_valid (detail, (gssize) strnlen (detail, MAX_DETAIL_BYTES));
  g_autofree char *session_text = g_strdup_printf ("%" G_GUINT64_FORMAT, session);
  g_autofree char *uid_text = g_strdup_printf ("%u", (guint) uid);

  g_log_structured (G_LOG_DOMAIN, G_LOG_LEVEL_INFO, "SONDE_EVENT", event, "SONDE_SESSION",
                    session_text, "SONDE_UID", uid_text, "SONDE_DETAIL", cut, "MESSAGE",
                    "%s: session %s, uid %s", event, session_text, uid_text);
}
