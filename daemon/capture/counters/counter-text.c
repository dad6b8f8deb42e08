/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/counters/counter-text.h"

#include <string.h>

#define SECTOR_BYTES 512
#define KIBIBYTE     1024

/* Fields of their lines, from 0, without the name. */
#define CPU_IDLE       3
#define CPU_IOWAIT     4
#define CPU_STEAL      7 /* what follows is in user time already */
#define NET_RECEIVED   0
#define NET_SENT       8
#define DISK_READ      2
#define DISK_WRITTEN   6
#define STAT_USER      11 /* fields 14, 15, 20, 22 and 24 of proc_pid_stat(5), where 3 is the state */
#define STAT_SYSTEM    12
#define STAT_THREADS   17
#define STAT_START     19
#define STAT_RESIDENT  21
#define MAX_FIELDS     22
#define MAX_CPU_NUMBER 8191 /* Linux knows no more */

SondeCounterText
sonde_counter_text (const char *bytes, gsize size_bytes)
{
  const char *last = memrchr (bytes, '\n', size_bytes);

  return (SondeCounterText){ bytes, last != NULL ? last + 1 : bytes };
}

/* FALSE at the end. @line is without its line break. */
static gboolean
next_line (SondeCounterText *self, SondeCounterText *line)
{
  const char *end;

  if (self->at == self->end)
    return FALSE;
  end = memchr (self->at, '\n', (gsize) (self->end - self->at)); /* the text ends with one */
  *line = (SondeCounterText){ self->at, end };
  self->at = end + 1;

  return TRUE;
}

static void
skip_spaces (SondeCounterText *line)
{
  while (line->at < line->end && *line->at == ' ')
    line->at++;
}

static gboolean
take_word (SondeCounterText *line, const char *word)
{
  gsize length = strlen (word);

  if ((gsize) (line->end - line->at) < length || memcmp (line->at, word, length) != 0)
    return FALSE;
  line->at += length;

  return TRUE;
}

/* Digits alone, and at least one. */
static gboolean
take_number (SondeCounterText *line, guint64 *number)
{
  const char *begin = line->at;
  guint64 value = 0;

  for (; line->at < line->end && g_ascii_isdigit (*line->at); line->at++)
    if (!g_uint64_checked_mul (&value, value, 10)
        || !g_uint64_checked_add (&value, value, (guint64) (*line->at - '0')))
      return FALSE;
  *number = value;

  return line->at > begin;
}

/* @n_fields numbers with spaces before each. */
static gboolean
take_numbers (SondeCounterText *line, guint64 *numbers, guint n_fields)
{
  for (guint i = 0; i < n_fields; i++)
    {
      skip_spaces (line);
      if (!take_number (line, &numbers[i])
          || (line->at < line->end && *line->at != ' ')) /* "12x" */
        return FALSE;
    }

  return TRUE;
}

static void
copy_name (const char *begin, const char *end, char name[SONDE_COUNTER_TEXT_MAX_NAME])
{
  gsize length = MIN ((gsize) (end - begin), (gsize) SONDE_COUNTER_TEXT_MAX_NAME - 1);

  memcpy (name, begin, length);
  name[length] = '\0';
}

/* Up to @stop, which is left behind; FALSE if it does not come, or nothing is before it. */
static gboolean
take_name (SondeCounterText *line, char stop, char name[SONDE_COUNTER_TEXT_MAX_NAME])
{
  const char *end = memchr (line->at, stop, (gsize) (line->end - line->at));

  if (end == NULL || end == line->at)
    return FALSE;
  copy_name (line->at, end, name);
  line->at = end + 1;

  return TRUE;
}

/* "cpu  1 2 …", "cpu7 1 2 …". Old kernels had fewer fields than we want; none that we run on. */
gboolean
sonde_counter_text_next_cpu (SondeCounterText *self, SondeCpuTimes *times)
{
  SondeCounterText line;

  while (next_line (self, &line) && take_word (&line, "cpu"))
    {
      gboolean is_one = line.at < line.end && *line.at != ' ';
      guint64 numbers[CPU_STEAL + 1];
      guint64 number = 0;
      guint64 busy = 0;
      gboolean fits;

      if (is_one && (!take_number (&line, &number) || number > MAX_CPU_NUMBER))
        continue;
      fits = take_numbers (&line, numbers, G_N_ELEMENTS (numbers));
      for (guint i = 0; i < G_N_ELEMENTS (numbers) && fits; i++)
        if (i != CPU_IDLE && i != CPU_IOWAIT)
          fits = g_uint64_checked_add (&busy, busy, numbers[i]);
      if (!fits
          || !g_uint64_checked_add (&times->idle_ticks, numbers[CPU_IDLE], numbers[CPU_IOWAIT]))
        continue;
      times->cpu = is_one ? (gint) number : -1;
      times->busy_ticks = busy;
      return TRUE;
    }

  return FALSE;
}

gboolean
sonde_counter_text_memory (SondeCounterText *self, SondeMemoryAmounts *amounts)
{
  const struct
  {
    const char *key;
    guint64 *amount;
  } keys[] = { { "MemTotal:", &amounts->total },
               { "MemAvailable:", &amounts->available },
               { "SwapTotal:", &amounts->swap_total },
               { "SwapFree:", &amounts->swap_free } };
  guint found = 0; /* one bit each */
  SondeCounterText line;

  while (next_line (self, &line))
    for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
      {
        SondeCounterText rest = line;
        guint64 kibibytes;

        if (take_word (&rest, keys[i].key) && take_numbers (&rest, &kibibytes, 1)
            && g_uint64_checked_mul (keys[i].amount, kibibytes, KIBIBYTE))
          found |= 1u << i;
      }

  return found == (1u << G_N_ELEMENTS (keys)) - 1;
}

gboolean
sonde_counter_text_next_interface (SondeCounterText *self, SondeDeviceBytes *device)
{
  SondeCounterText line;

  /* The two lines of headings have no colon. */
  while (next_line (self, &line))
    {
      guint64 numbers[NET_SENT + 1];

      skip_spaces (&line);
      if (!take_name (&line, ':', device->name)
          || !take_numbers (&line, numbers, G_N_ELEMENTS (numbers)))
        continue;
      device->in_bytes = numbers[NET_RECEIVED];
      device->out_bytes = numbers[NET_SENT];
      return TRUE;
    }

  return FALSE;
}

/* "   8       0 sda 1 2 3 …": two numbers before the name. */
gboolean
sonde_counter_text_next_disk (SondeCounterText *self, SondeDeviceBytes *device)
{
  SondeCounterText line;

  while (next_line (self, &line))
    {
      guint64 place[2];
      guint64 numbers[DISK_WRITTEN + 1];

      if (!take_numbers (&line, place, G_N_ELEMENTS (place)))
        continue;
      skip_spaces (&line);
      if (take_name (&line, ' ', device->name)
          && take_numbers (&line, numbers, G_N_ELEMENTS (numbers))
          && g_uint64_checked_mul (&device->in_bytes, numbers[DISK_READ], SECTOR_BYTES)
          && g_uint64_checked_mul (&device->out_bytes, numbers[DISK_WRITTEN], SECTOR_BYTES))
        return TRUE;
    }

  return FALSE;
}

gboolean
sonde_counter_text_process (SondeCounterText *self, SondeProcessAmounts *amounts)
{
  static const guint ours[] = { STAT_USER, STAT_SYSTEM, STAT_THREADS, STAT_START, STAT_RESIDENT };
  guint64 numbers[MAX_FIELDS];
  gsize size_bytes = (gsize) (self->end - self->at);
  const char *open = memchr (self->at, '(', size_bytes);
  const char *close = memrchr (self->at, ')', size_bytes); /* the name may have line breaks */
  SondeCounterText line;

  if (open == NULL || close == NULL || close < open)
    return FALSE;
  line = (SondeCounterText){ close + 1, self->end - 1 }; /* the text ends with a line break */
  for (guint i = 0; i < MAX_FIELDS; i++)
    {
      SondeCounterText field;

      skip_spaces (&line);
      field = line;
      while (line.at < line.end && *line.at != ' ')
        line.at++;
      field.end = line.at;
      if (field.at == field.end)
        return FALSE;
      /* Some fields may be negative; ours are not. */
      if (!take_number (&field, &numbers[i]) || field.at != field.end)
        numbers[i] = G_MAXUINT64;
    }
  for (guint i = 0; i < G_N_ELEMENTS (ours); i++)
    if (numbers[ours[i]] == G_MAXUINT64)
      return FALSE;
  copy_name (open + 1, close, amounts->name);
  amounts->n_threads = numbers[STAT_THREADS];
  amounts->start_ticks = numbers[STAT_START];
  amounts->resident_pages = numbers[STAT_RESIDENT];

  return g_uint64_checked_add (&amounts->run_ticks, numbers[STAT_USER], numbers[STAT_SYSTEM]);
}
