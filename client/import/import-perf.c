/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The text of perf script: a line for each sample, then one for each frame, the innermost first,
 * then an empty one.
 * Source: perf-script(1), of Linux 6.1 */
#include "client/import/import.h"

#include <gio/gio.h>
#include <string.h>

#include "client/base/text.h"

#define MAX_LINE_BYTES 65536
#define NS_DIGITS      9

typedef struct
{
  const char *name; /* of the text */
  guint64 line;     /* from 1 */
  SondeOutput *output;
  SondeImported *imported;
  GArray *functions; /* guint32: of the sample at hand */
  gboolean has_sample;
  gint32 pid;
  gint32 tid;
  gint64 time_ns;
  gboolean is_steady; /* all samples have the same period */
} Reader;

static gboolean
refuse (const Reader *self, const char *what, const char *line, GError **error)
{
  g_autofree char *name = sonde_text_escape (self->name, -1);
  g_autofree char *shown = sonde_text_escape (line, (gssize) strnlen (line, 80));

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
               "%s: line %" G_GUINT64_FORMAT ": %s: \"%s\"", name, self->line, what, shown);
  return FALSE;
}

static void
end_sample (Reader *self)
{
  if (!self->has_sample)
    return;
  self->has_sample = FALSE;
  if (sonde_import_n_samples (self->imported->import) >= SONDE_IMPORT_MAX_EVENTS)
    self->imported->n_left_out++;
  else
    sonde_import_add_sample (self->imported->import, self->pid, self->tid, self->time_ns,
                             (const guint32 *) (void *) self->functions->data,
                             self->functions->len);
}

static const char *
base_name (const char *path)
{
  const char *slash = strrchr (path, '/');

  return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* "ffffffff815b839b folio_batch_move_lru+0x12 ([kernel.kallsyms])", changed in place */
static gboolean
take_frame (Reader *self, char *line, GError **error)
{
  char *end;
  guint64 address;
  char *module;
  gboolean in_kernel;
  guint32 function;

  g_strstrip (line);
  address = g_ascii_strtoull (line, &end, 16);
  if (end == line || *end != ' ')
    return refuse (self, "no address before a function", line, error);
  module = strrchr (end, '(');
  if (module == NULL || line[strlen (line) - 1] != ')')
    return refuse (self, "no module in parentheses behind a function", line, error);
  line[strlen (line) - 1] = '\0';
  *module++ = '\0';
  g_strstrip (end);
  if (*end == '\0')
    return refuse (self, "no function between address and module", line, error);
  in_kernel = address >> 63 != 0 || g_str_has_prefix (module, "[kernel");
  if (in_kernel)
    module = (char *) "[kernel]";
  else if (g_str_equal (module, "[unknown]") || g_str_equal (module, "inlined"))
    module = (char *) "";
  function
      = sonde_import_ensure_function (self->imported->import, end, base_name (module), in_kernel);
  if (self->functions->len <= SONDE_IMPORT_MAX_DEPTH)
    g_array_append_val (self->functions, function);
  return TRUE;
}

static gboolean
to_id (const char *text, gint32 *id)
{
  gint64 number;

  if (!g_ascii_string_to_signed (text, 10, -1, G_MAXINT32, &number, NULL))
    return FALSE;
  *id = (gint32) number;
  return TRUE;
}

static gboolean
to_time (const char *seconds, const char *fraction, gint64 *time_ns)
{
  guint64 whole;
  guint64 part;
  gsize n_digits = strlen (fraction);

  if (n_digits > NS_DIGITS
      || !g_ascii_string_to_unsigned (seconds, 10, 0, G_MAXINT64 / 2000000000, &whole, NULL)
      || !g_ascii_string_to_unsigned (fraction, 10, 0, 999999999, &part, NULL))
    return FALSE;
  for (; n_digits < NS_DIGITS; n_digits++)
    part *= 10;
  *time_ns = (gint64) (whole * 1000000000 + part);
  return TRUE;
}

/* "inl 16625/16625 [001]  4362.905564:    1001001 cpu-clock:ppp: ", with the leaf behind it where
 * no stacks were recorded */
static GRegex *
head_pattern (void)
{
  return g_regex_new ("^ *(.{0,64}?) +(-?[0-9]+)/(-?[0-9]+) +(?:\\[[0-9]+\\] +)?"
                      "([0-9]+)\\.([0-9]+): +(?:([0-9]+) +)?"
                      "(PERF_RECORD_[A-Z0-9_]+[^:]*|\\S+): *(.*)$",
                      G_REGEX_RAW | G_REGEX_OPTIMIZE | G_REGEX_DOLLAR_ENDONLY, 0, NULL);
}

static void
begin_import (Reader *self, gint64 time_ns)
{
  if (self->imported->import == NULL)
    self->imported->import = sonde_import_new (self->output, MAX (time_ns, 1), 0);
}

/* "PERF_RECORD_COMM exec: inl:16625/16625", of which the head ends at the first colon */
static gboolean
take_comm (Reader *self, char *rest, gint64 time_ns, const char *line, GError **error)
{
  char *colon = strrchr (rest, ':');
  char *slash = colon != NULL ? strchr (colon, '/') : NULL;
  gint32 pid;
  gint32 tid;

  if (slash == NULL)
    return refuse (self, "a name without NAME:PID/TID", line, error);
  *colon = *slash = '\0';
  if (!to_id (g_strstrip (colon + 1), &pid) || !to_id (g_strstrip (slash + 1), &tid))
    return refuse (self, "a name without NAME:PID/TID", line, error);
  begin_import (self, time_ns);
  sonde_import_name (self->imported->import, pid, tid, time_ns, rest);
  return TRUE;
}

static void
note_event (Reader *self, const char *event, const char *period)
{
  SondeImported *imported = self->imported;
  guint64 number = g_ascii_strtoull (period, NULL, 10);

  if (imported->event == NULL)
    {
      const char *modifiers = strrchr (event, ':');

      /* "cycles:ppp"; but "sched:sched_switch" */
      imported->event
          = modifiers != NULL && strspn (modifiers + 1, "pukhHGSDWe") == strlen (modifiers + 1)
                ? g_strndup (event, (gsize) (modifiers - event))
                : g_strdup (event);
      imported->period = number;
      self->is_steady = TRUE;
    }
  self->is_steady = self->is_steady && number == imported->period;
}

static gboolean
take_head (Reader *self, const GRegex *pattern, char *line, GError **error)
{
  g_autoptr (GMatchInfo) match = NULL;
  g_auto (GStrv) parts = NULL;
  gint64 time_ns;

  if (!g_regex_match (pattern, line, 0, &match))
    return refuse (self, "neither a sample nor a frame of perf script", line, error);
  parts = g_match_info_fetch_all (match);
  if (!to_id (parts[2], &self->pid) || !to_id (parts[3], &self->tid)
      || !to_time (parts[4], parts[5], &time_ns))
    return refuse (self, "a number is too large", line, error);
  if (g_str_has_prefix (parts[7], "PERF_RECORD_COMM"))
    return take_comm (self, parts[8], time_ns, line, error);
  if (g_str_has_prefix (parts[7], "PERF_RECORD_")
      || g_str_has_prefix (parts[8], "PERF_RECORD_")) /* what became of a task */
    return TRUE;
  begin_import (self, time_ns);
  note_event (self, parts[7], parts[6]);
  sonde_import_name (self->imported->import, self->pid, self->tid, time_ns, parts[1]);
  self->time_ns = time_ns;
  self->has_sample = TRUE;
  g_array_set_size (self->functions, 0);
  if (parts[8][0] == '\0')
    return TRUE;
  if (!take_frame (self, parts[8], error))
    return FALSE;
  end_sample (self);
  return TRUE;
}

gboolean
sonde_import_perf_script (const char *text,
                          gsize size_bytes,
                          const char *name,
                          SondeOutput *output,
                          SondeImported *imported,
                          GError **error)
{
  g_autoptr (GArray) functions = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (GRegex) pattern = head_pattern ();
  Reader reader = { .name = name, .output = output, .imported = imported, .functions = functions };
  const char *at = text;
  const char *end = text + size_bytes;

  while (at < end)
    {
      const char *newline = memchr (at, '\n', (gsize) (end - at));
      gsize n = (gsize) ((newline != NULL ? newline : end) - at);
      g_autofree char *line = NULL;

      reader.line++;
      if (n > MAX_LINE_BYTES)
        return refuse (&reader, "longer than 65,536 bytes", at, error);
      if (memchr (at, '\0', n) != NULL)
        return refuse (&reader, "a byte of zero is in it", at, error);
      line = g_strndup (at, n);
      at += n + 1;
      if (line[strspn (line, " \t\r")] == '\0')
        end_sample (&reader);
      else if (line[0] == '#' && !reader.has_sample) /* a comment of perf's */
        continue;
      else if (line[0] == '\t' && reader.has_sample)
        {
          if (!take_frame (&reader, line, error))
            return FALSE;
        }
      else
        {
          end_sample (&reader);
          if (!take_head (&reader, pattern, line, error))
            return FALSE;
        }
    }
  end_sample (&reader);
  if (!reader.is_steady)
    imported->period = 0;
  if (imported->import != NULL && sonde_import_n_samples (imported->import) > 0)
    return TRUE;
  reader.line = MAX (reader.line, 1);
  return refuse (&reader, "the text ends without a sample", "", error);
}
