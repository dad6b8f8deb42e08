/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker has to complain about, on standard error. */
#include "daemon/capture/log.h"

#include <glib.h>
#include <string.h>
#include <unistd.h>

static void
write_text (const char *text)
{
  /* Nobody is left to be told that it failed. */
  if (write (STDERR_FILENO, text, strlen (text)) < 0)
    return;
}

static GLogWriterOutput
write_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  if (g_log_writer_default_would_drop (level, NULL))
    return G_LOG_WRITER_HANDLED;
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, "MESSAGE") && fields[i].length < 0)
      {
        g_autofree char *line = g_strconcat ("sonde-capture: ", fields[i].value, "\n", NULL);

        write_text (line);
      }
  return G_LOG_WRITER_HANDLED;
}

void
sonde_log_to_stderr (void)
{
  g_log_set_writer_func (write_log, NULL, NULL);
  g_set_printerr_handler (write_text);
}
