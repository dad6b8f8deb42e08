/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who a process is, as far as the kernel asks before one process may look into another. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/* Real, effective and saved. */
typedef struct
{
  uid_t uids[3];
  gid_t gids[3];
  guint64 permitted; /* capabilities, one bit each */
} SondeCredentials;

/* @text: of /proc/PID/status. Source: proc_pid_status(5) */
bool sonde_credentials_parse (const char *text, SondeCredentials *credentials);
/* @process_fd: its directory in /proc; false if it is gone */
bool sonde_credentials_read (int process_fd, SondeCredentials *credentials);

/* All three the same one. */
bool sonde_credentials_have_uid (const SondeCredentials *self, uid_t uid);
bool sonde_credentials_have_gid (const SondeCredentials *self, gid_t gid);

/* Whether the process lives in a user namespace that @uid made, where all is open to it.
 * Source: user_namespaces(7), ioctl_ns(2) */
bool sonde_credentials_in_namespace_of (int process_fd, uid_t uid);
