/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* No file and no network address by name, where the kernel has Landlock. */
#include "daemon/capture/landlock.h"

#include <errno.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/error.h"

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
} versions[] = {
  { { .fs = (1 << 13) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* Linux 5.13 */
  { { .fs = (1 << 14) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* 5.19: refer */
  { { .fs = (1 << 15) - 1 }, G_STRUCT_OFFSET (Ruleset, net) },              /* 6.2: truncate */
  { { .fs = (1 << 15) - 1, .net = 3 }, G_STRUCT_OFFSET (Ruleset, scoped) }, /* 6.7: bind, connect */
  { { .fs = (1 << 16) - 1, .net = 3 }, G_STRUCT_OFFSET (Ruleset, scoped) }, /* 6.10: ioctl */
  { { .fs = (1 << 16) - 1, .net = 3, .scoped = 3 }, sizeof (Ruleset) }, /* 6.12: abstract, signal */
};

gboolean
sonde_landlock_restrict (GError **error)
{
  long version = syscall (SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  long best = MIN (version, (long) G_N_ELEMENTS (versions));
  int ruleset;
  long result;

  /* ENOSYS or EOPNOTSUPP: not built in, or not switched on */
  if (version < 1)
    return TRUE;
  ruleset = (int) syscall (SYS_landlock_create_ruleset, &versions[best - 1].all,
                           versions[best - 1].size_bytes, 0);
  if (ruleset < 0)
    return sonde_error_set_errno (error, errno, "Cannot make a Landlock ruleset");
  /* A ruleset without a rule allows nothing of what it handles. */
  result = syscall (SYS_landlock_restrict_self, ruleset, 0);
  if (result < 0)
    sonde_error_set_errno (error, errno, "Cannot give up files by Landlock");
  close (ruleset);
  return result == 0;
}
