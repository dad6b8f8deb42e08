/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/program.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_ACTIVATED_FD 3 /* SD_LISTEN_FDS_START */

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
        g_autofree char *line
            = g_strconcat ((const char *) user_data, ": ", fields[i].value, "\n", NULL);

        write_text (line);
      }
  return G_LOG_WRITER_HANDLED;
}

void
sonde_program_log_plainly (const char *name)
{
  g_log_set_writer_func (write_log, (gpointer) name, NULL);
  g_set_printerr_handler (write_text);
}

static gboolean
read_option (const char *argument, const char *prefix, guint64 *value)
{
  return g_str_has_prefix (argument, prefix)
         && g_ascii_string_to_unsigned (argument + strlen (prefix), 10, 0, G_MAXINT, value, NULL);
}

int
sonde_program_connection (int argc, char **argv, uid_t *uid)
{
  const char *pid = g_getenv ("LISTEN_PID");
  socklen_t size_bytes = sizeof (int);
  guint64 own_uid = (uid_t) -1;
  guint64 fd = 0;
  int type = 0;

  if (argc == 1 && pid != NULL && g_ascii_strtoll (pid, NULL, 10) == getpid ()
      && g_strcmp0 (g_getenv ("LISTEN_FDS"), "1") == 0)
    fd = FIRST_ACTIVATED_FD;
  else if (argc < 2 || argc > (uid != NULL ? 3 : 2) || !read_option (argv[1], "--fd=", &fd)
           || (argc == 3 && !read_option (argv[2], "--uid=", &own_uid)))
    return -1;
  if (fd < FIRST_ACTIVATED_FD || getsockopt ((int) fd, SOL_SOCKET, SO_TYPE, &type, &size_bytes) < 0
      || type != SOCK_SEQPACKET || fcntl ((int) fd, F_SETFD, FD_CLOEXEC) < 0)
    return -1;
  if (uid != NULL)
    *uid = (uid_t) own_uid;
  return (int) fd;
}
