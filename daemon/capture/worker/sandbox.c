/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker takes from itself before it reads its first message. */
#include "config.h"

#include "daemon/capture/worker/sandbox.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/landlock.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/capture/perf/rings.h"
#include "daemon/capture/worker/system-calls.h"

#define WANTED_FILES 70000 /* events, sinks and module files of the largest session */

/* @wanted and no more; if that is too much to ask for, as far as it goes. */
static void
set_limit (int resource, rlim_t wanted)
{
  struct rlimit limit = { wanted, wanted };

  if (setrlimit (resource, &limit) == 0 || getrlimit (resource, &limit) < 0)
    return;
  limit.rlim_cur = MIN (wanted, limit.rlim_max);
  (void) setrlimit (resource, &limit);
}

static gboolean
change_user (uid_t uid, GError **error)
{
  if (geteuid () != 0)
    return TRUE;
  /* One that it shared with other workers would share their locked memory, and their signals. */
  if (uid == 0 || uid == SONDE_SANDBOX_SAME_UID)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Root's worker needs a uid of its own");
      return FALSE;
    }
  if (setgroups (0, NULL) < 0 || setresgid (uid, uid, uid) < 0 || setresuid (uid, uid, uid) < 0)
    return sonde_error_set_errno (error, errno, "Cannot become uid %u", (guint) uid);

  return TRUE;
}

static gboolean
drop_capabilities (GError **error)
{
  struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
  static const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];

  /* Where there is nothing to drop the call may be forbidden already. */
  if (syscall (SYS_capget, &header, now) == 0 && memcmp (now, none, sizeof none) == 0)
    return TRUE;
  if (syscall (SYS_capset, &header, none) < 0)
    return sonde_error_set_errno (error, errno, "Cannot drop capabilities");

  return TRUE;
}

/* The kernel's struct landlock_ruleset_attr as it has grown, newer than our headers may be. */
typedef struct
{
  guint64 fs;
  guint64 net;    /* version 4 */
  guint64 scoped; /* version 6 */
} Ruleset;

/* Of each version of the interface, the bits of all rights that it knows. */
static const struct
{
  Ruleset all;
  gsize size_bytes;
} rulesets[] = {
  { { .fs = (1 << 13) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* Linux 5.13 */
  { { .fs = (1 << 14) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* 5.19: refer */
  { { .fs = (1 << 15) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* 6.2: truncate */
  { { .fs = (1 << 15) - 1, .net = 3 }, G_STRUCT_OFFSET (Ruleset, scoped) }, /* 6.7: bind, connect */
  { { .fs = (1 << 16) - 1, .net = 3 }, G_STRUCT_OFFSET (Ruleset, scoped) }, /* 6.10: ioctl */
  { { .fs = (1 << 16) - 1, .net = 3, .scoped = 3 }, sizeof (Ruleset) }, /* 6.12: abstract, signal */
};

gboolean
sonde_sandbox_restrict_files (GError **error)
{
  long version = syscall (SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  long best = MIN (version, (long) G_N_ELEMENTS (rulesets));
  int ruleset;
  long result;

  /* ENOSYS or EOPNOTSUPP: not built in, or not switched on */
  if (version < 1)
    return TRUE;
  ruleset = (int) syscall (SYS_landlock_create_ruleset, &rulesets[best - 1].all,
                           rulesets[best - 1].size_bytes, 0);
  if (ruleset < 0)
    return sonde_error_set_errno (error, errno, "Cannot make a Landlock ruleset");
  /* A ruleset without a rule allows nothing of what it handles. */
  result = syscall (SYS_landlock_restrict_self, ruleset, 0);
  if (result < 0)
    sonde_error_set_errno (error, errno, "Cannot give up files by Landlock");
  close (ruleset);
  return result == 0;
}

gboolean
sonde_sandbox_enter (int keep_fd, uid_t uid, GError **error)
{
  static const struct rlimit memory = { SONDE_LIMIT_WORKER_BYTES, SONDE_LIMIT_WORKER_BYTES };
  rlim_t ring_bytes = SONDE_RINGS_MAX_SAMPLE_BYTES + (1u << 20);

  if ((keep_fd > 3 && close_range (3, (unsigned) keep_fd - 1, 0) < 0)
      || close_range (MAX (3u, (unsigned) keep_fd + 1), ~0u, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot close inherited descriptors");
  /* Any event could have a ring, and rings are in nobody's account: the rings of a session it is.
   */
  set_limit (RLIMIT_MEMLOCK, ring_bytes * (rlim_t) sysconf (_SC_NPROCESSORS_CONF));
  set_limit (RLIMIT_NOFILE, WANTED_FILES);
  if (!WITH_SANITIZERS && setrlimit (RLIMIT_DATA, &memory) < 0)
    return sonde_error_set_errno (error, errno, "Cannot limit its memory");
  umask (077);
  signal (SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of write() */
  if (chdir ("/") < 0)
    return sonde_error_set_errno (error, errno, "Cannot change to /");

  if (!change_user (uid, error) || !drop_capabilities (error))
    return FALSE;
  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot give up new privileges");
  if (prctl (PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
    return sonde_error_set_errno (error, errno, "Cannot become undumpable");

  /* What strftime() and g_strerror() would look for in files later. */
  tzset ();
  g_setenv ("CHARSET", "UTF-8", TRUE);
  return sonde_sandbox_restrict_files (error) && sonde_system_calls_restrict (keep_fd, error);
}
