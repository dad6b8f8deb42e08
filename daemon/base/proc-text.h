/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads what the kernel says in /proc and /sys, in bounds, and parses it. */
#pragma once

#include <gio/gio.h>
#include <stdbool.h>

/* Of /proc/PID/stat. Source: proc_pid_stat(5). */
typedef struct
{
  gint32 parent_pid;   /* field 4 */
  guint64 start_ticks; /* field 22, clock ticks since boot; with the pid the handle of a process */
  char comm[32];       /* field 2, hostile bytes, NUL-terminated */
} SondeProcStat;

/* A program names itself "a) R 1 (b": the name ends at the text's last ')'. False if not of that
 * form. */
bool sonde_proc_stat_parse (const char *text, SondeProcStat *stat);

/* The line "mnt_id:" of /proc/PID/fdinfo/N; -1 if there is none. */
gint64 sonde_fdinfo_mount_id (const char *text);

/* Whether the text has a line for that mount. */
bool sonde_mountinfo_has (const char *mountinfo, gint64 mount_id);
/* A mount of the file system with that device number; -1 if there is none. */
gint64 sonde_mountinfo_find_device (const char *mountinfo, guint dev_major, guint dev_minor);
/* Whether files of mount @mount_id may be opened: its type in @mountinfo is one that cannot make
 * open() wait for another process. Unknown mounts and types may not. Source: proc_pid_mountinfo(5).
 */
bool sonde_mountinfo_is_trusted (const char *mountinfo, gint64 mount_id);
/* Whether that mount is an overlay, whose layers may be of any other type. */
bool sonde_mountinfo_is_overlay (const char *mountinfo, gint64 mount_id);
/* Whether @others, another list, has a mount of the same file system. */
bool sonde_mountinfo_has_same (const char *mountinfo, gint64 mount_id, const char *others);
/* Whether the list has that file system as one of whose files the kernel may be asked to read with
 * locks of the whole machine held, so that nobody's server is waited for: of a disk that is neither
 * a file nor over the network, or in memory; mounted where programs may gain rights, as no user can
 * have it mounted. */
bool sonde_mountinfo_is_solid (const char *mountinfo, guint dev_major, guint dev_minor);
/* Whether the numbers that stat() gives there differ from those in /proc/PID/maps (btrfs, overlay).
 */
bool sonde_mountinfo_is_layered (const char *mountinfo, gint64 mount_id);

/* Whether the process of this /proc/PID/cgroup is in the group @path or below it. @key: what stands
 * before the path, "0::", or ":name=systemd:" behind the number of a hierarchy of version 1.
 * Source: cgroups(7) */
bool sonde_cgroup_is_below (const char *text, const char *key, const char *path);

/* "0-3,8": (transfer full) (element-type gint), NULL if not of that form or with more than 8,192
 * CPUs. */
GArray *sonde_cpu_list_parse (const char *text);

/**
 * sonde_proc_text_read:
 * @dir_fd: AT_FDCWD or a directory
 *
 * Reads a text of at most @max_bytes; a longer one is cut. Only for files of procfs and sysfs:
 * nothing else is sure not to block.
 *
 * Returns: (transfer full): NUL-terminated, or NULL and errno
 */
char *sonde_proc_text_read (int dir_fd, const char *path, gsize max_bytes);

/**
 * sonde_proc_open_below:
 * @path: "/a/b", shorter than PATH_MAX
 * @flags: of the last name, O_CLOEXEC and O_NOFOLLOW aside
 *
 * What openat2() does by RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, whose flags no filter of system
 * calls can see: name by name, through no link and never up.
 *
 * Returns: a descriptor or a negative errno; -EXDEV for a name that is none
 */
int sonde_proc_open_below (int root_fd, const char *path, int flags);

/* A number in a file such as /proc/sys/kernel/perf_event_paranoid, or @fallback. */
gint64 sonde_proc_number_read (const char *path, gint64 fallback);

/**
 * SondeProcCost:
 *
 * What a process of ours costs.
 */
typedef struct
{
  guint64 cpu_us;       /* CPU time of all its threads */
  guint64 memory_bytes; /* resident, what it shares included */
} SondeProcCost;

/* FALSE, and @cost as it was, if @pid is gone. Its memory stays as it was where /proc hides @pid
 * from us (hidepid), whose CPU time everybody may read. Source: clock_getcpuclockid(3),
 * proc_pid_statm(5) */
bool sonde_proc_cost_measure (pid_t pid, SondeProcCost *cost);
