/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files from debuginfod servers, by build id. */
#include "client/names/debug-server.h"

#include <elfutils/debuginfod.h>
#include <unistd.h>

#include "client/base/text.h"

struct SondeDebugServer
{
  debuginfod_client *client;
  char *name; /* of the file at hand, escaped */
  gboolean is_progress_shown;
};

/* Returns 0: go on. */
static int
show_progress (debuginfod_client *client, long done, long all)
{
  SondeDebugServer *self = debuginfod_get_user_data (client);
  g_autofree char *size = sonde_text_size ((guint64) MAX (done, 0));

  if (!isatty (STDERR_FILENO))
    return 0;
  self->is_progress_shown = TRUE;
  g_printerr ("\r\033[KDebug information of %s: %s", self->name, size);
  if (all > 0)
    g_printerr (", %.0f%%", sonde_text_percent ((guint64) MAX (done, 0), (guint64) all));
  return 0;
}

SondeDebugServer *
sonde_debug_server_new (void)
{
  const char *urls = g_getenv (DEBUGINFOD_URLS_ENV_VAR);
  g_autoptr (SondeDebugServer) self = g_new0 (SondeDebugServer, 1);

  if (urls == NULL || urls[0] == '\0')
    return NULL;
  self->client = debuginfod_begin ();
  if (self->client == NULL)
    return NULL;
  debuginfod_set_user_data (self->client, self);
  debuginfod_set_progressfn (self->client, show_progress);
  return g_steal_pointer (&self);
}

void
sonde_debug_server_free (SondeDebugServer *self)
{
  if (self == NULL)
    return;
  if (self->client != NULL)
    debuginfod_end (self->client);
  g_free (self->name);
  g_free (self);
}

typedef int (*Find) (debuginfod_client *client,
                     const unsigned char *build_id,
                     int size,
                     char **path);

static int
ask (SondeDebugServer *self, Find find, const char *build_id, const char *name)
{
  int fd;

  g_free (self->name);
  self->name = sonde_text_escape (name, -1);
  /* size 0: the id is text */
  fd = find (self->client, (const unsigned char *) build_id, 0, NULL);
  if (self->is_progress_shown)
    g_printerr ("\r\033[K");
  self->is_progress_shown = FALSE;
  return fd >= 0 ? fd : -1;
}

int
sonde_debug_server_open (SondeDebugServer *self, const char *build_id, const char *name)
{
  return ask (self, debuginfod_find_debuginfo, build_id, name);
}

int
sonde_debug_server_open_program (SondeDebugServer *self, const char *build_id, const char *name)
{
  return ask (self, debuginfod_find_executable, build_id, name);
}
