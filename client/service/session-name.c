/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions by number, as people type them, and by object path. */
#include "client/service/session-name.h"

#include <string.h>

#define SESSION_PATH "/org/sonde/Profiler1/session/"

char *
sonde_session_name_dup_path (const char *name)
{
  const char *number = sonde_session_name_short (name);
  guint64 id;

  if (!g_ascii_string_to_unsigned (number, 10, 1, G_MAXUINT64, &id, NULL))
    return NULL;
  return g_strdup_printf (SESSION_PATH "%" G_GUINT64_FORMAT, id);
}

const char *
sonde_session_name_short (const char *path)
{
  return g_str_has_prefix (path, SESSION_PATH) ? path + strlen (SESSION_PATH) : path;
}
