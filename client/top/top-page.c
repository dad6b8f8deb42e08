/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-page.h"

static void
span_clear (gpointer data)
{
  g_free (((SondeTopSpan *) data)->text);
}

SondeTopPage *
sonde_top_page_new (guint n_lines, guint n_columns, gboolean is_utf8)
{
  SondeTopPage *self = g_new0 (SondeTopPage, 1);

  self->n_lines = n_lines;
  self->n_columns = n_columns;
  self->is_utf8 = is_utf8;
  self->caret_line = -1;
  self->lines = g_new0 (SondeTopLine, n_lines);
  for (guint i = 0; i < n_lines; i++)
    {
      self->lines[i].spans = g_array_new (FALSE, FALSE, sizeof (SondeTopSpan));
      g_array_set_clear_func (self->lines[i].spans, span_clear);
    }
  return self;
}

void
sonde_top_page_free (SondeTopPage *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n_lines; i++)
    g_array_unref (self->lines[i].spans);
  g_free (self->lines);
  g_free (self);
}

static guint
char_width (gunichar c)
{
  if (g_unichar_iszerowidth (c))
    return 0;
  return g_unichar_iswide (c) ? 2 : 1;
}

guint
sonde_top_text_width (const char *text)
{
  guint width = 0;

  for (; *text != '\0'; text = g_utf8_next_char (text))
    width += char_width (g_utf8_get_char (text));
  return width;
}

/* @text as it may be shown, at most @room columns of it. */
static GString *
fit (const SondeTopPage *self, const char *text, guint room, guint *width)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *out = g_string_new (NULL);
  gsize cut_len = 0; /* what leaves room for the "…" */
  guint cut_width = 0;

  *width = 0;
  for (const char *at = valid; *at != '\0'; at = g_utf8_next_char (at))
    {
      gunichar c = g_utf8_get_char (at);

      if (!g_unichar_isprint (c) && !g_unichar_iszerowidth (c))
        continue;
      if (!self->is_utf8 && c >= 0x80)
        c = '?';
      if (*width + char_width (c) > room)
        {
          g_string_truncate (out, cut_len);
          g_string_append (out, self->is_utf8 ? "…" : "~");
          *width = cut_width + 1;
          return out;
        }
      g_string_append_unichar (out, c);
      *width += char_width (c);
      if (*width < room)
        {
          cut_len = out->len;
          cut_width = *width;
        }
    }
  return out;
}

void
sonde_top_page_add_until (
    SondeTopPage *self, guint line, SondeTopStyle style, guint column, const char *text)
{
  SondeTopSpan span = { .style = style };
  SondeTopLine *into;
  guint width;

  column = MIN (column, self->n_columns);
  if (line >= self->n_lines || self->lines[line].width >= column)
    return;
  into = &self->lines[line];
  span.text = g_string_free (fit (self, text, column - into->width, &width), FALSE);
  into->width += width;
  g_array_append_val (into->spans, span);
}

void
sonde_top_page_add (SondeTopPage *self, guint line, SondeTopStyle style, const char *text)
{
  sonde_top_page_add_until (self, line, style, self->n_columns, text);
}

void
sonde_top_page_add_format (
    SondeTopPage *self, guint line, SondeTopStyle style, const char *format, ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  sonde_top_page_add (self, line, style, text);
}

void
sonde_top_page_pad (SondeTopPage *self, guint line, SondeTopStyle style, guint column)
{
  g_autofree char *blanks = NULL;

  column = MIN (column, self->n_columns);
  if (line >= self->n_lines || column <= self->lines[line].width)
    return;
  blanks = g_strnfill (column - self->lines[line].width, ' ');
  sonde_top_page_add (self, line, style, blanks);
}

void
sonde_top_page_set_caret (SondeTopPage *self, guint line, guint column)
{
  self->caret_line = (int) MIN (line, self->n_lines - 1);
  self->caret_column = (int) MIN (column, self->n_columns - 1);
}
