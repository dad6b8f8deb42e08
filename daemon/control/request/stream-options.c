/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/request/stream-options.h"

#include "daemon/base/error.h"
#include "daemon/control/request/option-table.h"

/* In the order of the bits of SONDE_SINK_FRAMES_*. */
static const char *const frames_names[]
    = { "samples", "allocations", "marks", "counters", "logs", NULL };

G_STATIC_ASSERT (SONDE_SINK_FRAMES_ALL == (1u << (G_N_ELEMENTS (frames_names) - 1)) - 1);

static gboolean
parse_pids (const SondeOptionRow *row,
            GVariant *value,
            gpointer options,
            gpointer user_data,
            GError **error)
{
  SondeStreamOptions *self = options;
  gsize n_pids = g_variant_n_children (value);

  if (n_pids == 0)
    return sonde_option_refuse (error, row->key, "names no process");
  if (n_pids > SONDE_MESSAGE_SINK_MAX_PIDS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                   "Option %s: at most %d processes", row->key, SONDE_MESSAGE_SINK_MAX_PIDS);
      return FALSE;
    }
  for (gsize i = 0; i < n_pids; i++)
    {
      guint32 pid;

      g_variant_get_child (value, i, "u", &pid);
      if (!sonde_option_check_pid (pid, row->key, error))
        return FALSE;
      self->pids[i] = (gint32) pid;
    }
  self->n_pids = (guint) n_pids;
  return TRUE;
}

#define AT(member) G_STRUCT_OFFSET (SondeStreamOptions, member)

static const SondeOptionRow rows[] = {
  { "pids", "au", .parse = parse_pids },
  { "frames", "as", AT (frames), .normal = SONDE_SINK_FRAMES_ALL, .words = frames_names },
  { "buffer-size", "u", AT (buffer_size_bytes), .normal = SONDE_LIMIT_SINK_BUFFER,
    .min = SONDE_LIMIT_SINK_BUFFER_MIN, .max = SONDE_LIMIT_SINK_BUFFER_MAX },
};

void
sonde_stream_options_init (SondeStreamOptions *self)
{
  *self = (SondeStreamOptions){ 0 };
  sonde_option_table_init (rows, G_N_ELEMENTS (rows), self);
}

gboolean
sonde_stream_options_parse (GVariant *dict, SondeStreamOptions *options, GError **error)
{
  SondeStreamOptions parsed;

  sonde_stream_options_init (&parsed);
  if (!sonde_option_table_parse (rows, G_N_ELEMENTS (rows), dict, &parsed, NULL, error))
    return FALSE;
  *options = parsed;
  return TRUE;
}
