/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What one reader wants of a session's stream: the options of OpenCapture. */
#include "daemon/control/stream-options.h"

#include "daemon/base/error.h"
#include "daemon/control/option-table.h"

/* In the order of the bits of SONDE_SINK_FRAMES_*. */
static const char *const frames_names[]
    = { "samples", "allocations", "marks", "counters", "logs", NULL };

G_STATIC_ASSERT (SONDE_SINK_FRAMES_ALL == (1u << (G_N_ELEMENTS (frames_names) - 1)) - 1);

static gboolean
parse_pids (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  SondeStreamOptions *self = user_data;
  gsize n_pids = g_variant_n_children (value);

  if (n_pids == 0)
    return sonde_option_refuse (error, key, "names no process");
  if (n_pids > SONDE_MESSAGE_SINK_MAX_PIDS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                   "Option %s: at most %d processes", key, SONDE_MESSAGE_SINK_MAX_PIDS);
      return FALSE;
    }
  for (gsize i = 0; i < n_pids; i++)
    {
      guint32 pid;

      g_variant_get_child (value, i, "u", &pid);
      if (!sonde_option_check_pid (pid, key, error))
        return FALSE;
      self->pids[i] = (gint32) pid;
    }
  self->n_pids = (guint) n_pids;
  return TRUE;
}

static gboolean
parse_frames (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  SondeStreamOptions *self = user_data;
  gsize n_words = g_variant_n_children (value);

  self->frames = 0;
  for (gsize i = 0; i < n_words; i++)
    {
      g_autoptr (GVariant) word = g_variant_get_child_value (value, i);
      guint index;

      if (!sonde_option_get_word (word, key, frames_names, &index, error))
        return FALSE;
      self->frames |= 1u << index;
    }
  return TRUE;
}

static gboolean
parse_buffer_size (gpointer user_data, const char *key, GVariant *value, GError **error)
{
  SondeStreamOptions *self = user_data;

  return sonde_option_get_uint32 (value, key, SONDE_LIMIT_SINK_BUFFER_MIN,
                                  SONDE_LIMIT_SINK_BUFFER_MAX, &self->buffer_size_bytes, error);
}

static const SondeOptionRow rows[] = {
  { "pids", "au", parse_pids },
  { "frames", "as", parse_frames },
  { "buffer-size", "u", parse_buffer_size },
};

gboolean
sonde_stream_options_parse (GVariant *dict, SondeStreamOptions *options, GError **error)
{
  SondeStreamOptions parsed = SONDE_STREAM_OPTIONS_INIT;

  if (!sonde_option_table_parse (dict, rows, G_N_ELEMENTS (rows), &parsed, error))
    return FALSE;
  *options = parsed;
  return TRUE;
}
