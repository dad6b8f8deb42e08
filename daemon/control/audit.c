/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One structured journal record for each start, end, refusal and worker death. */
#include "daemon/control/audit.h"

#include <string.h>

#include "daemon/base/limits.h"

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

struct SondeRefusals
{
  GHashTable *n_of_uid; /* uid → refusals in this window */
  guint window;         /* 0: nobody was refused lately */
};

SondeRefusals *
sonde_refusals_new (void)
{
  SondeRefusals *self = g_new0 (SondeRefusals, 1);

  self->n_of_uid = g_hash_table_new (NULL, NULL);
  return self;
}

/* Records what the window has left out, and begins anew. */
static void
close_window (SondeRefusals *self)
{
  GHashTableIter iter;
  gpointer uid;
  gpointer n_refusals;

  g_hash_table_iter_init (&iter, self->n_of_uid);
  while (g_hash_table_iter_next (&iter, &uid, &n_refusals))
    {
      guint n = GPOINTER_TO_UINT (n_refusals);
      g_autofree char *text = g_strdup_printf ("%u more", n - MIN (n, SONDE_LIMIT_AUDIT_BURST));

      if (n > SONDE_LIMIT_AUDIT_BURST)
        sonde_audit ("refused", 0, GPOINTER_TO_UINT (uid), text);
    }
  g_hash_table_remove_all (self->n_of_uid);
}

void
sonde_refusals_free (SondeRefusals *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->window, g_source_remove);
  close_window (self);
  g_hash_table_unref (self->n_of_uid);
  g_free (self);
}

static gboolean
on_window_over (gpointer user_data)
{
  SondeRefusals *self = user_data;

  self->window = 0;
  close_window (self);
  return G_SOURCE_REMOVE;
}

void
sonde_refusals_record (SondeRefusals *self, guint64 session, uid_t uid, const char *detail)
{
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (self->n_of_uid, GUINT_TO_POINTER (uid)));

  if (self->window == 0)
    self->window = g_timeout_add (SONDE_LIMIT_AUDIT_WINDOW_US / 1000, on_window_over, self);
  /* A count that wraps would begin to record again. */
  if (n < G_MAXUINT)
    n++;
  g_hash_table_replace (self->n_of_uid, GUINT_TO_POINTER (uid), GUINT_TO_POINTER (n));
  if (n <= SONDE_LIMIT_AUDIT_BURST)
    sonde_audit ("refused", session, uid, detail);
}
