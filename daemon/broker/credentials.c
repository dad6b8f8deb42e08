/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "daemon/broker/rights.h"
#include "daemon/base/proc-text.h"

#define MAX_STATUS (64 * 1024) /* bytes; thousands of supplementary groups fit */

/* The rest of the line that begins with @key. A name in this text cannot hold a line break: the
 * kernel escapes it. */
static const char *
find_line (const char *text, const char *key)
{
  while (text != NULL && *text != '\0')
    {
      if (g_str_has_prefix (text, key))
        return text + strlen (key);
      text = strchr (text, '\n');
      if (text != NULL)
        text++;
    }
  return NULL;
}

static bool
parse_ids (const char *line, guint32 ids[3])
{
  for (int i = 0; i < 3; i++)
    {
      char *end;
      guint64 number;

      if (line == NULL || *line != '\t' || !g_ascii_isdigit (line[1]))
        return false;
      number = g_ascii_strtoull (line + 1, &end, 10);
      if (number > G_MAXUINT32)
        return false;
      ids[i] = (guint32) number;
      line = end;
    }
  return true;
}

static bool
parse_mask (const char *line, guint64 *mask)
{
  char *end;

  if (line == NULL || *line != '\t' || !g_ascii_isxdigit (line[1]))
    return false;
  *mask = g_ascii_strtoull (line + 1, &end, 16);
  return *end == '\n' || *end == '\0';
}

bool
sonde_credentials_parse (const char *text, SondeCredentials *credentials)
{
  SondeCredentials parsed;

  if (!parse_ids (find_line (text, "Uid:"), parsed.uids)
      || !parse_ids (find_line (text, "Gid:"), parsed.gids)
      || !parse_mask (find_line (text, "CapPrm:"), &parsed.permitted))
    return false;
  *credentials = parsed;
  return true;
}

bool
sonde_credentials_read (int process_fd, SondeCredentials *credentials)
{
  g_autofree char *text = sonde_proc_text_read (process_fd, "status", MAX_STATUS);

  return text != NULL && sonde_credentials_parse (text, credentials);
}

pid_t
sonde_credentials_parse_inner_pid (const char *text)
{
  const char *line = find_line (text, "NSpid:");
  gint64 number = 0;

  /* One for each namespace, the outermost first. */
  while (line != NULL && *line == '\t')
    {
      char *end;

      number = g_ascii_strtoll (line + 1, &end, 10);
      if (end == line + 1 || number <= 0 || number > G_MAXINT32)
        return 0;
      line = end;
    }
  return (pid_t) number;
}

pid_t
sonde_credentials_inner_pid (int process_fd, pid_t fallback)
{
  g_autofree char *text = sonde_proc_text_read (process_fd, "status", MAX_STATUS);
  pid_t inner = text != NULL ? sonde_credentials_parse_inner_pid (text) : 0;

  return inner > 0 ? inner : fallback;
}

bool
sonde_credentials_have_uid (const SondeCredentials *self, uid_t uid)
{
  return self->uids[0] == uid && self->uids[1] == uid && self->uids[2] == uid;
}

bool
sonde_credentials_have_gid (const SondeCredentials *self, gid_t gid)
{
  return self->gids[0] == gid && self->gids[1] == gid && self->gids[2] == gid;
}

void
sonde_tracer_init (SondeTracer *self, uid_t uid, pid_t pid)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) pid);
  sonde_autofd int process_fd = pid > 0 ? open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  struct stat st;

  *self = (SondeTracer){ .uid = uid };
  /* The file belongs to the process's uid while it is dumpable, else to root. */
  self->is_known = process_fd >= 0 && sonde_credentials_read (process_fd, &self->credentials)
                   && sonde_credentials_have_uid (&self->credentials, uid)
                   && fstatat (process_fd, "maps", &st, AT_SYMLINK_NOFOLLOW) == 0
                   && st.st_uid == uid;
}

bool
sonde_tracer_may_read (const SondeTracer *self, const SondeCredentials *process)
{
  guint64 permitted = self->is_known ? self->credentials.permitted : 0;

  gid_t gid = self->is_known ? self->credentials.gids[1] : process->gids[1];

  return sonde_credentials_have_uid (process, self->uid)
         && sonde_credentials_have_gid (process, gid) && (process->permitted & ~permitted) == 0;
}

bool
sonde_credentials_has_mounts_of (int process_fd, uid_t uid)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  sonde_autofd int mounts = openat (process_fd, "ns/mnt", O_RDONLY | O_CLOEXEC);
  sonde_autofd int users = mounts >= 0 ? ioctl (mounts, NS_GET_USERNS) : -1;
  struct stat their_stat;
  struct stat our_stat;
  uid_t owner;

  if (users < 0 || fstat (users, &their_stat) < 0 || stat ("/proc/self/ns/user", &our_stat) < 0)
    return false;
  return their_stat.st_ino == our_stat.st_ino
         || (uid != 0 && ioctl (users, NS_GET_OWNER_UID, &owner) == 0 && owner == uid);
}

bool
sonde_credentials_in_namespace_of (int process_fd, uid_t uid)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  sonde_autofd int theirs = openat (process_fd, "ns/user", O_RDONLY | O_CLOEXEC);
  struct stat their_stat;
  struct stat our_stat;
  uid_t owner;

  if (theirs < 0 || fstat (theirs, &their_stat) < 0 || stat ("/proc/self/ns/user", &our_stat) < 0)
    return false;
  /* Ours has an owner too: whoever may all. */
  return their_stat.st_ino != our_stat.st_ino && ioctl (theirs, NS_GET_OWNER_UID, &owner) == 0
         && owner == uid;
}
