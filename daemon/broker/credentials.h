/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads who a process is, as far as the kernel asks before one process may look into another. */
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

/* The number by which a process knows itself, in the innermost of its pid namespaces; 0 where
 * @text, the same one, does not tell. Source: proc_pid_status(5), NSpid */
pid_t sonde_credentials_parse_inner_pid (const char *text);
/* @fallback: if it is gone or does not tell */
pid_t sonde_credentials_inner_pid (int process_fd, pid_t fallback);

/* All three the same one. */
bool sonde_credentials_have_uid (const SondeCredentials *self, uid_t uid);
bool sonde_credentials_have_gid (const SondeCredentials *self, gid_t gid);

/* Somebody who wants to look into processes, as far as the kernel asks about him. */
typedef struct
{
  uid_t uid;
  bool is_known; /* else he has no capability, and may have any group */
  SondeCredentials credentials;
} SondeTracer;

/* @pid: of his program, by which he is known while it is all of @uid and dumpable; a program that
 * got its rights by an exec is not. 0: none. */
void sonde_tracer_init (SondeTracer *self, uid_t uid, pid_t pid);
/* The kernel's rule for processes of one user namespace, of which the uid may not be root's.
 * Source: ptrace(2), "Ptrace access mode checking" */
bool sonde_tracer_may_read (const SondeTracer *self, const SondeCredentials *process);

/* Whether nobody but @uid, or who may all, can have mounted what the process sees: its mount
 * namespace is of our user namespace, or of one that @uid made. Of root neither is known but the
 * first. Source: mount_namespaces(7), ioctl_ns(2) */
bool sonde_credentials_has_mounts_of (int process_fd, uid_t uid);
/* Whether the process lives in a user namespace that @uid made, where all is open to it.
 * Source: user_namespaces(7), ioctl_ns(2) */
bool sonde_credentials_in_namespace_of (int process_fd, uid_t uid);
