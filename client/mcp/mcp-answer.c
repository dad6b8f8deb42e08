/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/mcp/mcp-answer.h"

#include <string.h>

#define END_BYTES 96u /* for what stands behind the rows */
#define ELLIPSIS  "…"

gboolean
sonde_mcp_answer_init (SondeMcpAnswer *self, const char *cursor, GError **error)
{
  guint64 from = 0;

  if (cursor != NULL && !g_ascii_string_to_unsigned (cursor, 10, 1, G_MAXUINT32, &from, NULL))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "argument \"cursor\" is the member \"next\" of an earlier answer");
      return FALSE;
    }
  *self = (SondeMcpAnswer){ .out = g_string_new (NULL), .from = from };
  self->json = (SondeJson) SONDE_JSON_INIT (self->out);
  sonde_json_begin_object (&self->json, NULL);
  return TRUE;
}

void
sonde_mcp_answer_clear (SondeMcpAnswer *self)
{
  if (self->out != NULL)
    g_string_free (self->out, TRUE);
  self->out = NULL;
}

/* The beginning of @text, and its end: what tells names apart is at both. */
char *
sonde_mcp_cut (const char *name, gsize n_bytes)
{
  gsize n = strlen (name);
  gsize n_end = n_bytes / 3;
  const char *begin_end;
  const char *end;

  if (n <= n_bytes)
    return g_strdup (name);
  begin_end = g_utf8_find_prev_char (name, name + (n_bytes - n_end - strlen (ELLIPSIS)) + 1);
  end = g_utf8_find_next_char (name + n - n_end, NULL);
  return g_strdup_printf ("%.*s" ELLIPSIS "%s", begin_end != NULL ? (int) (begin_end - name) : 0,
                          name, end);
}

void
sonde_mcp_answer_add_name (SondeMcpAnswer *self, const char *member, const char *name)
{
  g_autofree char *cut = name != NULL ? sonde_mcp_cut (name, SONDE_MCP_NAME_BYTES) : NULL;

  if (cut != NULL)
    sonde_json_add_text (&self->json, member, cut);
}

void
sonde_mcp_answer_begin_rows (SondeMcpAnswer *self, const char *member)
{
  sonde_json_begin_array (&self->json, member);
}

void
sonde_mcp_answer_begin_row (SondeMcpAnswer *self)
{
  self->row_begin = self->out->len;
  self->row_has_value = self->json.has_value;
  sonde_json_begin_object (&self->json, NULL);
}

void
sonde_mcp_answer_end_row (SondeMcpAnswer *self)
{
  gboolean is_wanted = self->n_rows++ >= self->from && !self->is_full;

  sonde_json_end_object (&self->json);
  if (is_wanted && self->out->len + END_BYTES <= SONDE_MCP_ANSWER_BYTES)
    {
      self->n_shown++;
      return;
    }
  self->is_full = self->is_full || is_wanted;
  g_string_truncate (self->out, self->row_begin);
  self->json.has_value = self->row_has_value;
}

void
sonde_mcp_answer_end_rows (SondeMcpAnswer *self)
{
  sonde_json_end_array (&self->json);
}

char *
sonde_mcp_answer_finish (SondeMcpAnswer *self, GError **error)
{
  if (self->from > 0 && self->from >= self->n_rows)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "argument \"cursor\" is behind the last of %" G_GUINT64_FORMAT " rows",
                   self->n_rows);
      return NULL;
    }
  sonde_json_add_number (&self->json, "total-rows", (gint64) self->n_rows);
  if (self->from + self->n_shown < self->n_rows)
    {
      g_autofree char *next = g_strdup_printf ("%" G_GUINT64_FORMAT, self->from + self->n_shown);

      sonde_json_add_text (&self->json, "next", next);
    }
  sonde_json_end_object (&self->json);
  return g_string_free (g_steal_pointer (&self->out), FALSE);
}
