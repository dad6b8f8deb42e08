/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens /proc texts and mapped files on behalf of a worker. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"
#include "daemon/broker/control-group.h"
#include "daemon/broker/target.h"

/**
 * SECTION: proc-broker
 *
 * A worker names a process by number and start time and a file by its mapping, never by a path.
 * What it may ask for: everything if the scope is the whole machine, the data are raw, or the owner
 * is root and has not named processes by number. Else processes that the kernel would show to a
 * program of the owner: dumpable, and of the owner's uid throughout with no group and no capability
 * beyond those of the targets it proved its right to, or in a user namespace that the owner made.
 * In the scope `pids` also the processes that were named, all that root's may ask for, and their
 * children, if the session follows them and began before they did; in the scope `unit` also those
 * in the unit's control group. All of it is looked at again once a file is open, since the process
 * may have executed another program.
 *
 * No code here opens a process's environment or memory. Command lines of others are given out only
 * to root and for raw data.
 *
 * A file is given out only if that process can run it where the worker says, and only if it begins
 * with the header of a program or library: what a process has mapped to read it may be anything.
 *
 * Of two more files a program may be asked for: perf's map file and a jitdump, in which it names
 * the code that it makes. Where these are and what is in them is its own choice, so they have to be
 * regular files of its user, with no other name and reached through no link, and as new as it is.
 *
 * open() can wait for as long as a hostile file system likes, so a file is opened with O_PATH first
 * and its mount looked up; only local file systems pass, and of overlays only those that no
 * stranger to the session has mounted. What is open here can wait all the same,
 * for a process that is about to execute another program, and for a layer below an overlay: so it
 * is asked from threads (see lanes.h). One broker serves all of them.
 */
typedef struct SondeProcBroker SondeProcBroker;

/* Whether processes are shown also if their owner may not look at them. */
gboolean sonde_proc_broker_is_unlimited (uid_t owner_uid, SondeScope scope, gboolean is_raw);
/* Of a session that begins now. @is_raw: nothing is hidden */
SondeProcBroker *sonde_proc_broker_new (uid_t owner_uid, SondeScope scope, gboolean is_raw);
SondeProcBroker *sonde_proc_broker_ref (SondeProcBroker *self);
/* Accepts NULL. */
void sonde_proc_broker_unref (SondeProcBroker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProcBroker, sonde_proc_broker_unref)

/* These two before there are other threads. The session does not follow the children of its
 * targets. */
void sonde_proc_broker_refuse_children (SondeProcBroker *self);
/* @group: (transfer full): of the scope `unit` or `cgroup` */
void sonde_proc_broker_allow_group (SondeProcBroker *self, SondeControlGroup *group);
/* A target of this session, proven. */
void sonde_proc_broker_allow (SondeProcBroker *self, const SondeTarget *target);

/* Whether the worker may be told of that process, which nothing is opened of. @in_scope: and the
 * session follows it: a target, one that a target has made since, a member of the unit. Returns: 0;
 * or a negative errno: -EPERM, -ESRCH */
int sonde_proc_broker_check (SondeProcBroker *self, pid_t pid, gboolean in_scope);

/* A mount of another namespace than ours, with all others of that. */
typedef struct
{
  char *name; /* by which it is known; NULL: there is nothing to tell, or it was told of */
  int fd;     /* of the mountinfo that has it, or -1 */
} SondeForeignMount;

#define SONDE_FOREIGN_MOUNT_NONE ((SondeForeignMount){ .fd = -1 })

/**
 * sonde_proc_broker_tell:
 * @mount: that a session is about to be told of; NULL: those that its first target sees
 *
 * To be called when that is sent, and not before: what was found may be dropped, and then it is for
 * the next one to tell. Of whichever thread sends.
 *
 * Returns: 0; -EEXIST it was told of; -ENOSPC, once: so were SONDE_LIMIT_FOREIGN_MOUNTS others, and
 *   no more will be
 */
int sonde_proc_broker_tell (SondeProcBroker *self, const char *mount);

/**
 * sonde_proc_broker_open_process:
 * @reply: (out): all but the header
 * @fds: (out): as reply->fds says, to be closed by the caller
 * @mount: (out): of the root of the process, for sonde_proc_broker_tell(); the caller's
 *
 * Returns: the number of descriptors in @fds; failures are reply->status
 */
unsigned sonde_proc_broker_open_process (SondeProcBroker *self,
                                         guint64 request_id,
                                         pid_t pid,
                                         SondeMessageProcess *reply,
                                         int fds[3],
                                         SondeForeignMount *mount);

/* Requests that came before the first of them is looked into: what is read for one of a process is
 * kept for the next one. Of one thread. */
typedef struct SondeProcBatch SondeProcBatch;
SondeProcBatch *sonde_proc_batch_new (void);
/* Accepts NULL. */
void sonde_proc_batch_free (SondeProcBatch *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProcBatch, sonde_proc_batch_free)

/**
 * sonde_proc_broker_open_file:
 * @batch: (nullable): that it belongs to
 * @mount: (out): the same, that the file is on
 *
 * Returns: an O_RDONLY descriptor of a regular file, or a negative errno: -EPERM if the process is
 *   not for this session (any more), -ENOENT if it can run no such file there, -EACCES if the file
 *   is on a file system that could wait, -ENOEXEC if it is no program or jitdump; of what names
 *   made code also -ELOOP, -ENODEV, -EREMOTE, -EMLINK as in SondeMessageFile
 */
int sonde_proc_broker_open_file (SondeProcBroker *self,
                                 const SondeMessageFileRequest *request,
                                 SondeProcBatch *batch,
                                 SondeForeignMount *mount);

/**
 * sonde_proc_broker_check_place:
 * @message: a checked one, of what is an interpreter
 *
 * Whether all that the walk of that process begins at is of the file that is mapped there, or of
 * the memory without a file right behind it: what a worker says may be anything, and the kernel
 * reads where it is told to. Reads all mappings of the process.
 *
 * Returns: 0 or a negative errno: as sonde_proc_broker_open_file(); -EFAULT an address is not
 */
int sonde_proc_broker_check_place (SondeProcBroker *self, const SondeMessageInterpreter *message);

/* Where a probe is, in a file and in a process. */
typedef struct
{
  guint64 site;      /* bytes, into the file */
  guint64 semaphore; /* the same; 0: none */
  guint64 address;   /* of the site */
} SondeProbePlace;

/**
 * sonde_proc_broker_open_probes:
 * @message: a checked one, with notes
 * @places: (out): of each of its notes
 *
 * The file that it names, if the session follows that process, and if these are places where
 * nothing but a probe is: the kernel changes the program there. It reads the file with locks held
 * that all forks of the machine wait for, so of the file systems that others open files on it takes
 * those alone that wait for no other program (sonde_mountinfo_is_solid()).
 *
 * Returns: a descriptor or a negative errno, as SondeMessageProbed tells it
 */
int sonde_proc_broker_open_probes (SondeProcBroker *self,
                                   const SondeMessageProbes *message,
                                   SondeProbePlace places[SONDE_PROBE_MAX_SITES]);

/* Whether the kernel can be asked for one mapping (since Linux 6.11). Else each request for a file
 * reads all mappings of its process, but for those of a batch. */
gboolean sonde_proc_broker_has_queries (const SondeProcBroker *self);
/* Before there are other threads. */
void sonde_proc_broker_set_queries (SondeProcBroker *self, gboolean has_queries);

/* The numbers of a target of this session. Who has it open sees them whatever the process executes:
 * the worker asks again then. Returns: as sonde_proc_broker_open_file() */
int sonde_proc_broker_open_stat (SondeProcBroker *self, pid_t pid, guint64 start_ticks);

/**
 * sonde_proc_broker_read_threads:
 * @tids: of that process; none: all of them, with their states
 * @max_threads: to be read at most
 * @threads: (out) (element-type SondeMessageThread): those that there are are added
 *
 * What the kernel accounts to threads that the session follows, as it is told to everybody. The
 * process is judged before and afterwards.
 *
 * Returns: 0 or a negative errno: -ESRCH it is gone, -EPERM it is not for this session (any more);
 *   nothing is added then
 * Source: proc_pid_stat(5); Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat"
 */
int sonde_proc_broker_read_threads (SondeProcBroker *self,
                                    pid_t pid,
                                    const gint *tids,
                                    guint n_tids,
                                    guint max_threads,
                                    GArray *threads);

/* The mounts as that target sees them, for sonde_proc_broker_tell(). Returns: a descriptor or a
 * negative errno: -EEXIST if those of another were told of */
int sonde_proc_broker_open_mounts (SondeProcBroker *self, pid_t pid);

/* Whose a process is now, without asking anybody who could wait. @uid: (out): written on success.
 * Returns: 0 or a negative errno */
int sonde_proc_owner (pid_t pid, uid_t *uid);
