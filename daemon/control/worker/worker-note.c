/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sentence of control's for the capture. */
#include "daemon/control/worker/worker-note.h"

gboolean
sonde_worker_note_send (SondeWorker *worker, const char *text, GError **error)
{
  SondeMessageNote message = { .header.type = SONDE_MESSAGE_NOTE };
  g_autofree char *ascii = g_str_to_ascii (text, "C");

  g_strlcpy (message.text, ascii, sizeof message.text);
  return sonde_worker_send (worker, &message, sizeof message, NULL, 0, error);
}
