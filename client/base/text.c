/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/text.h"

#include <string.h>

#include "base/hash.h"

static gboolean
is_printable (gunichar c)
{
  switch ((int) g_unichar_type (c))
    {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT: /* bidirectional overrides among them */
    case G_UNICODE_UNASSIGNED:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
      return FALSE;
    default:
      return TRUE;
    }
}

/* "\x1b"; a capture may have millions of them. */
static void
append_hex (GString *out, guchar byte)
{
  static const char digits[] = "0123456789abcdef";
  const char text[] = { '\\', 'x', digits[byte >> 4], digits[byte & 15] };

  g_string_append_len (out, text, sizeof text);
}

/* How many of the bytes stand for themselves: nearly all of nearly all names. */
static gsize
count_plain (const char *bytes, gsize len)
{
  gsize n = 0;

  while (n < len && bytes[n] >= ' ' && bytes[n] < 0x7f && bytes[n] != '\\' && bytes[n] != '"')
    n++;
  return n;
}

static void
append (GString *out, const char *bytes, gssize len, gboolean quoted)
{
  gsize left = len < 0 ? strlen (bytes) : (gsize) len;

  while (left > 0)
    {
      gsize taken = count_plain (bytes, left);
      gunichar c;

      if (taken > 0)
        {
          g_string_append_len (out, bytes, (gssize) taken);
          bytes += taken;
          left -= taken;
          continue;
        }
      c = g_utf8_get_char_validated (bytes, (gssize) left);
      taken = 1;

      /* 0 is a NUL, which the function also uses for "nothing there" */
      if (c == (gunichar) -1 || c == (gunichar) -2 || c == 0)
        append_hex (out, (guchar) *bytes);
      else
        {
          if (c == '\\' || (quoted && c == '"'))
            g_string_append_printf (out, "\\%c", (char) c);
          else if (c == '\n')
            g_string_append (out, "\\n");
          else if (c == '\t')
            g_string_append (out, "\\t");
          else if (is_printable (c))
            g_string_append_unichar (out, c);
          else if (c < 0x80)
            append_hex (out, (guchar) c);
          else
            g_string_append_printf (out, "\\u{%04x}", c);
          taken = (gsize) (g_utf8_next_char (bytes) - bytes);
        }
      bytes += taken;
      left -= taken;
    }
}

void
sonde_text_append_quoted (GString *out, const char *bytes, gssize len)
{
  g_string_append_c (out, '"');
  append (out, bytes, len, TRUE);
  g_string_append_c (out, '"');
}

void
sonde_text_append_labelled (GString *out, const char *label, const char *text)
{
  g_string_append_printf (out, "%-10s%s\n", label, text);
}

void
sonde_text_append_code (GString *out, const char *text, gboolean is_cell)
{
  g_autofree char *quoted = g_strdup (text);

  g_strdelimit (quoted, "`", '\'');
  g_string_append_c (out, '`');
  for (const char *at = quoted; *at != '\0'; at++)
    g_string_append_printf (out, is_cell && *at == '|' ? "\\%c" : "%c", *at);
  g_string_append_c (out, '`');
}

char *
sonde_text_escape (const char *bytes, gssize len)
{
  GString *out = g_string_new (NULL);

  append (out, bytes, len, FALSE);
  return g_string_free (out, FALSE);
}

char *
sonde_text_count (guint64 n)
{
  char digits[32];
  gsize len = (gsize) g_snprintf (digits, sizeof digits, "%" G_GUINT64_FORMAT, n);
  GString *out = g_string_new (NULL);

  for (gsize i = 0; i < len; i++)
    {
      if (i > 0 && (len - i) % 3 == 0)
        g_string_append_c (out, ',');
      g_string_append_c (out, digits[i]);
    }
  return g_string_free (out, FALSE);
}

char *
sonde_text_plural (guint64 n, const char *singular, const char *plural)
{
  g_autofree char *count = sonde_text_count (n);

  return g_strdup_printf ("%s %s", count, n == 1 ? singular : plural);
}

char *
sonde_text_size (guint64 n_bytes)
{
  static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
  double value = (double) n_bytes / 1024;
  gsize unit = 0;

  if (n_bytes < 1024)
    return g_strdup_printf ("%u B", (guint) n_bytes);
  for (; value >= 1024 && unit + 1 < G_N_ELEMENTS (units); unit++)
    value /= 1024;
  return g_strdup_printf ("%.1f %s", value, units[unit]);
}

char *
sonde_text_duration (gint64 duration_ns)
{
  gint64 seconds;

  if (duration_ns < 0)
    duration_ns = 0;
  seconds = duration_ns / G_GINT64_CONSTANT (1000000000);
  if (seconds < 60)
    return g_strdup_printf ("%.2f s", (double) duration_ns / 1e9);
  return g_strdup_printf ("%" G_GINT64_FORMAT " min %02d s", seconds / 60, (int) (seconds % 60));
}

double
sonde_text_percent (guint64 part, guint64 whole)
{
  return whole == 0 ? 0 : 100.0 * (double) part / (double) whole;
}

gboolean
sonde_text_parse_duration (const char *text, gint64 *duration_ns)
{
  static const struct
  {
    const char *unit;
    double ns;
  } units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 } };
  char *unit;
  double value;

  if (!g_ascii_isdigit (*text))
    return FALSE;
  value = g_ascii_strtod (text, &unit);
  if (*unit == '\0' && value <= 0)
    {
      *duration_ns = 0;
      return TRUE;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (units); i++)
    if (g_str_equal (unit, units[i].unit) && value * units[i].ns < (double) G_MAXINT64)
      {
        *duration_ns = (gint64) (value * units[i].ns);
        return TRUE;
      }
  return FALSE;
}

guint
sonde_text_hash (gconstpointer text)
{
  return (guint) sonde_hash_bytes (text, strlen (text));
}
