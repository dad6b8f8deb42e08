/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/audit.h"

#include <string.h>

#include "daemon/base/limits.h"

#define MAX_DETAIL_BYTES 512

/* (transfer full): one line that moves no cursor, whatever foreign words are in @text */
static char *
make_printable (const char *text)
{
  g_autofree char *cut = g_utf8_make_valid (text, (gssize) strnlen (text, MAX_DETAIL_BYTES));
  g_autoptr (GString) line = g_string_sized_new (strlen (cut));

  for (const char *at = cut; *at != '\0'; at = g_utf8_next_char (at))
    {
      gunichar character = g_utf8_get_char (at);

      if (g_unichar_isprint (character))
        g_string_append_unichar (line, character);
      else
        g_string_append_c (line, '?');
    }
  return g_string_free (g_steal_pointer (&line), FALSE);
}

void
sonde_audit (const char *event, guint64 session, uid_t uid, const char *detail)
{
  g_autofree char *line = make_printable (detail);
  g_autofree char *session_text = g_strdup_printf ("%" G_GUINT64_FORMAT, session);
  g_autofree char *uid_text = g_strdup_printf ("%u", (guint) uid);

  g_log_structured (G_LOG_DOMAIN, G_LOG_LEVEL_INFO, "SONDE_EVENT", event, "SONDE_SESSION",
                    session_text, "SONDE_UID", uid_text, "SONDE_DETAIL", line, "MESSAGE",
                    "%s: uid %s%s%s: %s", event, uid_text, session != 0 ? ", session " : "",
                    session != 0 ? session_text : "", line);
}

GLogWriterOutput
sonde_audit_write (SondeOutbox *journal, const GLogField *fields, gsize n_fields)
{
  static gint n_told; /* of the process, as the journal is; any thread writes */
  guint n_lost = sonde_outbox_n_lost (journal);
  guint n_new = n_lost - (guint) g_atomic_int_get (&n_told);
  g_autoptr (GString) record = g_string_new (NULL);
  g_autofree char *note = g_strdup_printf (" (%u records before this one are lost)", n_new);

  for (gsize i = 0; i < n_fields; i++)
    {
      gsize n_bytes = fields[i].length < 0 ? strlen (fields[i].value) : (gsize) fields[i].length;
      const char *more = n_new > 0 && g_str_equal (fields[i].key, "MESSAGE") ? note : "";
      guint64 size = GUINT64_TO_LE ((guint64) n_bytes + strlen (more));

      g_string_append_printf (record, "%s\n", fields[i].key);
      g_string_append_len (record, (const char *) &size, sizeof size);
      g_string_append_len (record, fields[i].value, (gssize) n_bytes);
      g_string_append_printf (record, "%s\n", more);
    }
  if (!sonde_outbox_send (journal, record->str, record->len, NULL, 0))
    return G_LOG_WRITER_UNHANDLED;
  g_atomic_int_set (&n_told, (gint) n_lost);
  return G_LOG_WRITER_HANDLED;
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
      g_autofree char *text
          = g_strdup_printf ("%u more in a minute", n - MIN (n, SONDE_LIMIT_AUDIT_BURST));

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
