/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/json.h"

#include <math.h>

#include "client/base/text.h"

static void
append_text (GString *out, const char *text)
{
  g_string_append_c (out, '"');
  for (const char *at = text; *at != '\0'; at++)
    {
      if (*at == '"' || *at == '\\')
        g_string_append_c (out, '\\');
      if ((guchar) *at < ' ')
        g_string_append_printf (out, "\\u%04x", (guchar) *at);
      else
        g_string_append_c (out, *at);
    }
  g_string_append_c (out, '"');
}

static void
begin_value (SondeJson *self, const char *member)
{
  if (self->has_value)
    g_string_append_c (self->out, ',');
  if (member != NULL)
    {
      append_text (self->out, member);
      g_string_append_c (self->out, ':');
    }
  self->has_value = TRUE;
}

static void
begin (SondeJson *self, const char *member, char bracket)
{
  begin_value (self, member);
  g_string_append_c (self->out, bracket);
  self->has_value = FALSE;
}

static void
end (SondeJson *self, char bracket)
{
  g_string_append_c (self->out, bracket);
  self->has_value = TRUE;
}

void
sonde_json_begin_object (SondeJson *self, const char *member)
{
  begin (self, member, '{');
}

void
sonde_json_end_object (SondeJson *self)
{
  end (self, '}');
}

void
sonde_json_begin_array (SondeJson *self, const char *member)
{
  begin (self, member, '[');
}

void
sonde_json_end_array (SondeJson *self)
{
  end (self, ']');
}

void
sonde_json_add_number (SondeJson *self, const char *member, gint64 value)
{
  begin_value (self, member);
  g_string_append_printf (self->out, "%" G_GINT64_FORMAT, value);
}

void
sonde_json_add_bool (SondeJson *self, const char *member, gboolean value)
{
  begin_value (self, member);
  g_string_append (self->out, value ? "true" : "false");
}

void
sonde_json_add_source (SondeJson *self, const char *member, const char *source)
{
  begin_value (self, member);
  g_string_append (self->out, source);
}

void
sonde_json_add_real (SondeJson *self, const char *member, double value)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE + 512]; /* as long as the largest double with four digits */

  g_assert (isfinite (value));
  begin_value (self, member);
  g_string_append (self->out, g_ascii_formatd (number, sizeof number, "%.4f", value));
}

void
sonde_json_add_text (SondeJson *self, const char *member, const char *text)
{
  begin_value (self, member);
  append_text (self->out, text);
}

void
sonde_json_add_escaped (SondeJson *self, const char *member, const char *foreign)
{
  begin_value (self, member);
  sonde_json_append_escaped (self->out, foreign);
}

void
sonde_json_append_escaped (GString *out, const char *foreign)
{
  g_autofree char *text = sonde_text_escape (foreign, -1);

  append_text (out, text);
}
