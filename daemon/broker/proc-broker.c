/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/proc-broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/elf-file.h"
#include "base/fd.h"
#include "base/probe-note.h"
#include "daemon/base/limits.h"
#include "daemon/base/proc-maps.h"
#include "daemon/broker/rights.h"
#include "daemon/broker/credentials.h"
#include "daemon/base/proc-text.h"

#define MAX_GENERATIONS 32 /* between a process and the one that was named */
#define CLOCK_SLACK_S   60 /* by which the wall clock may have been set */
#define JIT_DUMP_MAGIC  0x4A695444

/* What looking for one file holds: a table, which may be growing, and lists of mounts. */
#define FILE_BYTES                                                                                 \
  (SONDE_LIMIT_MAPS_PIECE_BYTES + SONDE_LIMIT_TABLE_PATH_BYTES                                     \
   + 3 * SONDE_LIMIT_TABLE_MAPPINGS * sizeof (SondeProcMap) / 2 + 3 * SONDE_LIMIT_PROC_TEXT_BYTES)
_Static_assert(SONDE_LIMIT_LANES *FILE_BYTES <= SONDE_LIMIT_LANE_BYTES, "all lanes have room");

struct SondeProcBroker
{
  gatomicrefcount refs;
  uid_t owner_uid;
  gboolean is_unlimited;
  SondeScope scope;
  gboolean allows_named;
  gboolean allows_children; /* of those that were named, made since the session began */
  guint64 began_ticks;      /* when it did, as SondeProcStat tells the start of a process */
  gboolean allows_cmdlines;
  gboolean has_queries;     /* the kernel can be asked for one mapping */
  SondeControlGroup *group; /* of the scope `unit` or `cgroup` */

  GMutex lock;        /* of what follows; never held while the kernel is asked for anything */
  GHashTable *named;  /* pid → start ticks, in boxes; they and those children */
  GHashTable *mounts; /* what describe_mount() said of those that were told */
  gboolean is_full;   /* of them; that was said */
  gboolean has_own;   /* the mounts that a target sees were told */
  GArray *gids;       /* gid_t: of proven targets */
  guint64 permitted;  /* capabilities of proven targets */
};

struct SondeProcBatch
{
  SondeProcMapTable *table; /* what was read of one process; NULL: nothing */
  int table_fd;             /* the maps it was read of, or -1 */
  pid_t table_pid;
  guint64 table_ticks;
};

/* A process directory: its entries belong to this very process, whatever becomes of the number. */
typedef struct
{
  pid_t pid;
  int fd;
  int maps_fd; /* -1 before open_maps() */
  uid_t uid;   /* of the process while it is dumpable, else root's: the owner of its maps */
  SondeProcStat stat;
} Process;

/* Since boot, as /proc/PID/stat tells it. Source: proc_pid_stat(5), field 22 */
static guint64
now_ticks (void)
{
  struct timespec now = { 0 };
  guint64 hz = (guint64) sysconf (_SC_CLK_TCK);

  clock_gettime (CLOCK_BOOTTIME, &now);
  return (guint64) now.tv_sec * hz + (guint64) now.tv_nsec * hz / G_GUINT64_CONSTANT (1000000000);
}

static void
drop_table (SondeProcBatch *self)
{
  g_clear_pointer (&self->table, sonde_proc_map_table_free);
  sonde_clear_fd (&self->table_fd);
}

SondeProcBatch *
sonde_proc_batch_new (void)
{
  SondeProcBatch *self = g_new0 (SondeProcBatch, 1);

  self->table_fd = -1;
  return self;
}

void
sonde_proc_batch_free (SondeProcBatch *self)
{
  if (self == NULL)
    return;
  drop_table (self);
  g_free (self);
}

/* Who may look at everything has said so; root who named some processes did not. */
gboolean
sonde_proc_broker_is_unlimited (uid_t owner_uid, SondeScope scope, gboolean is_raw)
{
  return (owner_uid == 0 && scope != SONDE_SCOPE_PIDS) || scope == SONDE_SCOPE_SYSTEM || is_raw;
}

SondeProcBroker *
sonde_proc_broker_new (uid_t owner_uid, SondeScope scope, gboolean is_raw)
{
  SondeProcBroker *self = g_new0 (SondeProcBroker, 1);
  sonde_autofd int own_fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  SondeProcMap map;

  g_atomic_ref_count_init (&self->refs);
  g_mutex_init (&self->lock);
  self->owner_uid = owner_uid;
  self->is_unlimited = sonde_proc_broker_is_unlimited (owner_uid, scope, is_raw);
  self->scope = scope;
  self->allows_named = scope == SONDE_SCOPE_PIDS;
  self->allows_children = TRUE;
  self->began_ticks = now_ticks ();
  self->allows_cmdlines = owner_uid == 0 || is_raw;
  self->named = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->mounts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->gids = g_array_new (FALSE, FALSE, sizeof (gid_t));
  self->has_queries
      = own_fd >= 0 && sonde_proc_maps_query (own_fd, 0, NULL, 0, &map) != -EOPNOTSUPP;
  return self;
}

SondeProcBroker *
sonde_proc_broker_ref (SondeProcBroker *self)
{
  g_atomic_ref_count_inc (&self->refs);
  return self;
}

void
sonde_proc_broker_unref (SondeProcBroker *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->refs))
    return;
  sonde_control_group_free (self->group);
  g_mutex_clear (&self->lock);
  g_hash_table_unref (self->named);
  g_hash_table_unref (self->mounts);
  g_array_unref (self->gids);
  g_free (self);
}

void
sonde_proc_broker_refuse_children (SondeProcBroker *self)
{
  self->allows_children = FALSE;
}

void
sonde_proc_broker_set_queries (SondeProcBroker *self, gboolean has_queries)
{
  self->has_queries = has_queries;
}

gboolean
sonde_proc_broker_has_queries (const SondeProcBroker *self)
{
  return self->has_queries;
}

static void
name_process (SondeProcBroker *self, pid_t pid, guint64 start_ticks)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);

  if (g_hash_table_size (self->named) < SONDE_LIMIT_NAMED_PROCESSES)
    g_hash_table_replace (self->named, GINT_TO_POINTER (pid),
                          g_memdup2 (&start_ticks, sizeof start_ticks));
}

static gboolean
has_name (SondeProcBroker *self, pid_t pid, guint64 start_ticks)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  const guint64 *named = g_hash_table_lookup (self->named, GINT_TO_POINTER (pid));

  return named != NULL && *named == start_ticks;
}

void
sonde_proc_broker_allow (SondeProcBroker *self, const SondeTarget *target)
{
  name_process (self, target->pid, target->start_ticks);
  if (!target->has_proof)
    return;
  g_mutex_lock (&self->lock);
  g_array_append_val (self->gids, target->credentials.gids[1]);
  self->permitted |= target->credentials.permitted;
  g_mutex_unlock (&self->lock);
}

void
sonde_proc_broker_allow_group (SondeProcBroker *self, SondeControlGroup *group)
{
  self->group = group;
}

/* Whether a target that was proven has as much. */
static gboolean
is_like_a_target (SondeProcBroker *self, const SondeCredentials *credentials)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);

  if ((credentials->permitted & ~self->permitted) != 0)
    return FALSE;
  for (guint i = 0; i < self->gids->len; i++)
    if (sonde_credentials_have_gid (credentials, g_array_index (self->gids, gid_t, i)))
      return TRUE;
  return FALSE;
}

/* The kernel's own rule, for a program of the owner that has what its targets have. Of root it
 * would tell nothing. */
static gboolean
is_owners (SondeProcBroker *self, const Process *process)
{
  SondeCredentials credentials;

  if (self->owner_uid == 0 || process->uid != self->owner_uid
      || !sonde_credentials_read (process->fd, &credentials))
    return FALSE;
  if (sonde_credentials_in_namespace_of (process->fd, self->owner_uid))
    return TRUE;
  return sonde_credentials_have_uid (&credentials, self->owner_uid)
         && is_like_a_target (self, &credentials);
}

static gboolean
is_member (const SondeProcBroker *self, const Process *process)
{
  g_autofree char *text = NULL;

  if (self->group == NULL)
    return FALSE;
  text = sonde_proc_text_read (process->fd, "cgroup", SONDE_LIMIT_PROC_TEXT_BYTES);
  return text != NULL && sonde_control_group_contains (self->group, text);
}

/* Up the line of its parents: those that inherit the session's events. Children from before it do
 * not, and without the option nobody does. Who was found once stays named, since an orphan has
 * another parent. */
static gboolean
is_named (SondeProcBroker *self, const Process *process)
{
  SondeProcStat stat = process->stat;
  pid_t pid = process->pid;

  for (guint i = 0; i < MAX_GENERATIONS && pid > 1; i++)
    {
      g_autofree char *path = NULL;
      g_autofree char *text = NULL;

      if (has_name (self, pid, stat.start_ticks))
        {
          name_process (self, process->pid, process->stat.start_ticks);
          return TRUE;
        }
      if (!self->allows_children || stat.start_ticks < self->began_ticks)
        return FALSE;
      pid = stat.parent_pid;
      path = g_strdup_printf ("/proc/%d/stat", (int) pid);
      text = sonde_proc_text_read (AT_FDCWD, path, 4096);
      if (text == NULL || !sonde_proc_stat_parse (text, &stat))
        return FALSE;
    }
  return FALSE;
}

static gboolean
is_allowed (SondeProcBroker *self, const Process *process)
{
  return self->is_unlimited || is_owners (self, process)
         || (self->allows_named && is_named (self, process)) || is_member (self, process);
}

/* Whether the session follows it: fewer than its owner may look into. */
static gboolean
is_in_scope (SondeProcBroker *self, const Process *process)
{
  if (self->scope == SONDE_SCOPE_SYSTEM)
    return TRUE;
  return sonde_scope_is_group (self->scope) ? is_member (self, process) : is_named (self, process);
}

/* Returns: 0 and an open process->fd, or a negative errno */
static int
open_process (SondeProcBroker *self, pid_t pid, Process *process)
{
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) pid);
  sonde_autofd int fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  g_autofree char *text = NULL;
  struct stat st;

  /* The directory itself belongs to the process's uid even when it is not dumpable. */
  if (fd < 0 || fstatat (fd, "maps", &st, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT ? -ESRCH : -errno;
  text = sonde_proc_text_read (fd, "stat", 4096);
  if (text == NULL || !sonde_proc_stat_parse (text, &process->stat))
    return -ESRCH;
  process->pid = pid;
  process->uid = st.st_uid;
  process->fd = fd;
  if (!is_allowed (self, process))
    {
      process->fd = -1;
      return -EPERM;
    }
  (void) sonde_steal_fd (&fd);
  return 0;
}

int
sonde_proc_broker_check (SondeProcBroker *self, pid_t pid, gboolean in_scope)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  int result = open_process (self, pid, &process);

  if (result == 0 && in_scope && !is_in_scope (self, &process))
    result = -EPERM;
  sonde_clear_fd (&process.fd);
  return result;
}

/* The process may have executed a setuid program since open_process() judged it. So its owner is
 * looked at again, and the image that is open was still there then.
 * Returns: a descriptor or a negative errno */
static int
open_maps (SondeProcBroker *self, Process *process)
{
  sonde_autofd int fd = openat (process->fd, "maps", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat st;

  if (fd < 0 || fstat (fd, &st) < 0)
    return errno == ENOENT ? -ESRCH : -errno;
  process->uid = st.st_uid;
  if (!is_allowed (self, process))
    return -EPERM;
  if (!self->is_unlimited && !sonde_proc_maps_are_alive (fd))
    return -ESRCH;
  return sonde_steal_fd (&fd);
}

static void
add_fd (int fd, guint32 bit, SondeMessageProcess *reply, int fds[3], unsigned *n_fds)
{
  if (fd < 0)
    return;
  reply->fds |= bit;
  fds[(*n_fds)++] = fd;
}

/* The namespace and the mount, since a container is mounted together bit by bit. Asks no file
 * system, which could wait. @file_fd: -1: the root. Returns: NULL if the namespace is ours, or
 * cannot be told */
static char *
describe_mount (const Process *process, int file_fd)
{
  const int flags = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
  struct statx of_process;
  struct statx ours;
  struct statx file;

  if (statx (process->fd, "ns/mnt", flags, STATX_INO, &of_process) < 0
      || statx (AT_FDCWD, "/proc/self/ns/mnt", flags, STATX_INO, &ours) < 0
      || of_process.stx_ino == ours.stx_ino)
    return NULL;
  if ((file_fd >= 0 ? statx (file_fd, "", flags | AT_EMPTY_PATH, STATX_MNT_ID, &file)
                    : statx (process->fd, "root", flags, STATX_MNT_ID, &file))
      < 0)
    return NULL;
  return g_strdup_printf ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, (guint64) of_process.stx_ino,
                          (guint64) file.stx_mnt_id);
}

int
sonde_proc_broker_tell (SondeProcBroker *self, const char *mount)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  gboolean was_told = mount == NULL ? self->has_own : g_hash_table_contains (self->mounts, mount);

  if (mount == NULL)
    self->has_own = TRUE;
  else if (!was_told && g_hash_table_size (self->mounts) < SONDE_LIMIT_FOREIGN_MOUNTS)
    g_hash_table_add (self->mounts, g_strdup (mount));
  else if (!was_told)
    {
      was_told = self->is_full;
      self->is_full = TRUE;
      return was_told ? -EEXIST : -ENOSPC;
    }
  return was_told ? -EEXIST : 0;
}

static gboolean
was_told (SondeProcBroker *self, const char *mount)
{
  G_GNUC_UNUSED g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);

  return mount == NULL ? self->has_own
                       : self->is_full || g_hash_table_contains (self->mounts, mount);
}

/* @file_fd: as for describe_mount() */
static void
open_mountinfo (SondeProcBroker *self,
                const Process *process,
                int file_fd,
                SondeForeignMount *mount)
{
  g_autofree char *name = describe_mount (process, file_fd);

  if (name == NULL || was_told (self, name))
    return;
  mount->fd = openat (process->fd, "mountinfo", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (mount->fd >= 0)
    mount->name = g_steal_pointer (&name);
}

unsigned
sonde_proc_broker_open_process (SondeProcBroker *self,
                                guint64 request_id,
                                pid_t pid,
                                SondeMessageProcess *reply,
                                int fds[3],
                                SondeForeignMount *mount)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  unsigned n_fds = 0;
  int maps_fd;
  int result = open_process (self, pid, &process);

  *mount = SONDE_FOREIGN_MOUNT_NONE;
  *reply = (SondeMessageProcess){ .request_id = request_id, .pid = pid, .status = -result };
  if (result < 0)
    return 0;

  reply->start_ticks = process.stat.start_ticks;
  memcpy (reply->comm, process.stat.comm, MIN (sizeof reply->comm, sizeof process.stat.comm));
  reply->comm[sizeof reply->comm - 1] = '\0';
  maps_fd = open_maps (self, &process);
  if (maps_fd < 0)
    reply->status = -maps_fd;
  else
    {
      add_fd (maps_fd, SONDE_PROCESS_FD_MAPS, reply, fds, &n_fds);
      /* Command lines hold secrets. */
      if (self->allows_cmdlines || process.uid == self->owner_uid)
        add_fd (openat (process.fd, "cmdline", O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
                SONDE_PROCESS_FD_CMDLINE, reply, fds, &n_fds);
      add_fd (openat (process.fd, "cgroup", O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
              SONDE_PROCESS_FD_CGROUP, reply, fds, &n_fds);
      open_mountinfo (self, &process, -1, mount);
    }
  sonde_clear_fd (&process.fd);
  return n_fds;
}

/* Reads the mappings, unless those of the same process were read for an earlier request of this
 * batch. */
static int
read_table (SondeProcBatch *self, const Process *process)
{
  int result;

  if (self->table != NULL && self->table_pid == process->pid
      && self->table_ticks == process->stat.start_ticks)
    return 0;
  drop_table (self);
  self->table_fd = fcntl (process->maps_fd, F_DUPFD_CLOEXEC, 3);
  if (self->table_fd < 0)
    return -errno;
  self->table_pid = process->pid;
  self->table_ticks = process->stat.start_ticks;
  result = sonde_proc_map_table_read (self->table_fd, SONDE_LIMIT_MAPS_BYTES, &self->table);
  if (result < 0)
    drop_table (self);
  return result;
}

/* The mapping now at the place the worker names; the kernel may have split the one it heard of.
 * Only programs are of use to it: what is mapped to be read is nobody's but the process's. Returns:
 * 0 or a negative errno */
static int
find_mapping (const SondeProcBroker *self,
              SondeProcBatch *batch,
              const Process *process,
              const SondeMessageFileRequest *request,
              SondeProcMap *map)
{
  int result = self->has_queries
                   ? sonde_proc_maps_query (process->maps_fd, request->start, NULL, 0, map)
                   : -EOPNOTSUPP;

  if (result == -EOPNOTSUPP)
    {
      result = read_table (batch, process);
      if (result == 0)
        result = sonde_proc_map_table_find (batch->table, request->start, map);
    }
  if (result < 0)
    return result;
  return result > 0 && map->executable && map->inode != 0 && map->inode == request->inode
                 && map->dev_major == request->dev_major && map->dev_minor == request->dev_minor
                 && map->offset + (request->start - map->start) == request->offset
             ? 0
             : -ENOENT;
}

/* @room: of PATH_MAX bytes. Returns: what the kernel calls it: a path, or nothing of the kind */
static const char *
path_of (const Process *process, const SondeProcMap *map, char *room)
{
  SondeProcMap same;

  if (map->path[0] == '\0'
      && sonde_proc_maps_query (process->maps_fd, map->start, room, PATH_MAX, &same) > 0)
    return room;
  return map->path;
}

/* By name, for those whom the kernel keeps from map_files: that needs CAP_CHECKPOINT_RESTORE. What
 * the kernel calls a mapping has no links in it; the walk stays below the process's own root. */
static int
open_by_path (const Process *process, const SondeProcMap *map)
{
  char name[PATH_MAX];
  const char *path = path_of (process, map, name);
  sonde_autofd int root_fd = -1;

  if (path[0] != '/')
    return -ENOENT;
  root_fd = openat (process->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root_fd < 0)
    return -errno;
  return sonde_proc_open_below (root_fd, path, O_PATH);
}

/* Returns: an O_PATH descriptor or a negative errno */
static int
open_mapping (const Process *process, const SondeProcMap *map, gboolean *by_path)
{
  char name[64];
  int fd;

  g_snprintf (name, sizeof name, "map_files/%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x",
              (guint64) map->start, (guint64) map->end);
  fd = openat (process->fd, name, O_PATH | O_CLOEXEC);
  *by_path = fd < 0 && (errno == EPERM || errno == EACCES);
  if (*by_path)
    return open_by_path (process, map);
  return fd < 0 ? -errno : fd;
}

/* The list that tells of a mount: the process's, or that of the first process for one outside of
 * the root it lives in, as in a chroot whose root is no mount point. NULL: neither knows it. */
static char *
read_mountinfo (const Process *process, gint64 mount_id)
{
  g_autofree char *of_process
      = sonde_proc_text_read (process->fd, "mountinfo", SONDE_LIMIT_PROC_TEXT_BYTES);
  g_autofree char *of_first = NULL;

  if (of_process != NULL && sonde_mountinfo_has (of_process, mount_id))
    return g_steal_pointer (&of_process);
  of_first = sonde_proc_text_read (AT_FDCWD, "/proc/1/mountinfo", SONDE_LIMIT_PROC_TEXT_BYTES);
  if (of_first != NULL && sonde_mountinfo_has (of_first, mount_id))
    return g_steal_pointer (&of_first);
  return NULL;
}

/* In a namespace of its own, a process whose root is no mount point sees the list without the mount
 * that its files are on, or an empty one (unshare -m chroot). The file system is known all the same
 * if the first process has it mounted: by its number, which the kernel gives, not what answers for
 * the file system, and which nobody else has while @path_fd is open. The kernel is told not to ask
 * that either. */
static char *
find_same_file_system (int path_fd, gint64 *mount_id)
{
  g_autofree char *of_first = NULL;
  struct statx st;

  if (statx (path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) < 0)
    return NULL;
  of_first = sonde_proc_text_read (AT_FDCWD, "/proc/1/mountinfo", SONDE_LIMIT_PROC_TEXT_BYTES);
  if (of_first != NULL)
    *mount_id = sonde_mountinfo_find_device (of_first, st.stx_dev_major, st.stx_dev_minor);
  return of_first != NULL && *mount_id >= 0 ? g_steal_pointer (&of_first) : NULL;
}

/* Layers of an overlay may be of any type, such as one that a program answers for. So it is mounted
 * by who may all, or by the session's owner, who then waits for himself; or it is the machine's,
 * which a namespace has from there. */
static gboolean
is_strangers_overlay (const SondeProcBroker *self,
                      const Process *process,
                      const char *mountinfo,
                      gint64 mount_id)
{
  g_autofree char *of_first = NULL;

  if (!sonde_mountinfo_is_overlay (mountinfo, mount_id)
      || sonde_credentials_has_mounts_of (process->fd, self->owner_uid))
    return FALSE;
  of_first = sonde_proc_text_read (AT_FDCWD, "/proc/1/mountinfo", SONDE_LIMIT_PROC_TEXT_BYTES);
  return of_first == NULL || !sonde_mountinfo_has_same (mountinfo, mount_id, of_first);
}

/* The gate before anything that could wait: 0, or -EACCES for a file system that is not a local
 * one. */
static int
check_mount (const SondeProcBroker *self, const Process *process, int path_fd, gboolean *is_layered)
{
  g_autofree char *fdinfo_path = g_strdup_printf ("/proc/self/fdinfo/%d", path_fd);
  g_autofree char *fdinfo = sonde_proc_text_read (AT_FDCWD, fdinfo_path, 4096);
  g_autofree char *mountinfo = NULL;
  gint64 mount_id = fdinfo != NULL ? sonde_fdinfo_mount_id (fdinfo) : -1;

  if (mount_id >= 0)
    mountinfo = read_mountinfo (process, mount_id);
  if (mount_id >= 0 && mountinfo == NULL)
    mountinfo = find_same_file_system (path_fd, &mount_id);
  if (mountinfo == NULL || !sonde_mountinfo_is_trusted (mountinfo, mount_id)
      || is_strangers_overlay (self, process, mountinfo, mount_id))
    return -EACCES;
  *is_layered = sonde_mountinfo_is_layered (mountinfo, mount_id);
  return 0;
}

/* A mapping's own link is the file itself; a name may lead to another one by now. */
static gboolean
is_mapped_file (const struct stat *st, const SondeProcMap *map, gboolean is_layered)
{
  if (st->st_ino != map->inode)
    return FALSE;
  return is_layered
         || (major (st->st_dev) == map->dev_major && minor (st->st_dev) == map->dev_minor);
}

/* Nothing but programs and libraries: a file that is mapped to be run and is none could be anything
 * that its process may read. 0, or -ENOEXEC, or what pread() said. */
static int
check_program (int fd, const struct stat *st)
{
  SondeElfFile file = { .fd = fd, .size_bytes = (guint64) MAX (st->st_size, 0) };
  int result = sonde_elf_file_read_header (&file);

  if (result < 0)
    return result;
  if (file.header.e_ident[EI_VERSION] != EV_CURRENT
      || (file.header.e_type != ET_EXEC && file.header.e_type != ET_DYN))
    return -ENOEXEC;
  return 0;
}

/* What was looked at: a name could lead elsewhere by now. */
static int
open_looked_at (int path_fd)
{
  char name[64];
  int fd;

  g_snprintf (name, sizeof name, "/proc/self/fd/%d", path_fd);
  fd = open (name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  return fd < 0 ? -errno : fd;
}

static int
open_checked (const SondeProcBroker *self, const Process *process, const SondeProcMap *map)
{
  gboolean by_path;
  gboolean is_layered;
  sonde_autofd int path_fd = open_mapping (process, map, &by_path);
  sonde_autofd int fd = -1;
  struct stat st;
  int result;

  if (path_fd < 0)
    return path_fd;
  result = check_mount (self, process, path_fd, &is_layered);
  if (result < 0)
    return result;
  if (fstat (path_fd, &st) < 0)
    return -errno;
  if (!S_ISREG (st.st_mode) || (by_path && !is_mapped_file (&st, map, is_layered)))
    return -ESTALE;
  fd = open_looked_at (path_fd);
  if (fd < 0)
    return fd;
  result = check_program (fd, &st);
  return result < 0 ? result : sonde_steal_fd (&fd);
}

/* --- files in which programs name the code that they make --- */

/* Files of programs that had this number before may still be there. Both clocks count seconds alike
 * unless the wall clock is set. */
static gboolean
is_older (const struct stat *st, const Process *process)
{
  gint64 age_s
      = (gint64) ((now_ticks () - process->stat.start_ticks) / (guint64) sysconf (_SC_CLK_TCK));

  return st->st_mtime < (gint64) time (NULL) - age_s - CLOCK_SLACK_S;
}

/* The program has it from wherever it wants: so it is a regular file of its own user, by that one
 * name, or somebody else's could be read. Returns: as open_checked() */
static int
open_names (const SondeProcBroker *self,
            const Process *process,
            int path_fd,
            const SondeProcMap *by_path_of)
{
  gboolean is_layered;
  struct stat st;
  int result = check_mount (self, process, path_fd, &is_layered);

  if (result < 0)
    return result;
  if (fstat (path_fd, &st) < 0)
    return -errno;
  if (S_ISLNK (st.st_mode))
    return -ELOOP;
  if (!S_ISREG (st.st_mode))
    return -ENODEV;
  if (by_path_of != NULL && !is_mapped_file (&st, by_path_of, is_layered))
    return -ESTALE;
  if (st.st_uid != process->uid)
    return -EREMOTE;
  if (st.st_nlink != 1)
    return -EMLINK;
  return is_older (&st, process) ? -ENOENT : open_looked_at (path_fd);
}

/* Step by step, since looking for a name can wait for a file system, too. The first step, the root
 * of the process, is a link of the kernel's. */
static int
open_folder (const SondeProcBroker *self, const Process *process, int at_fd, const char *name)
{
  gboolean is_layered;
  sonde_autofd int fd = openat (
      at_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC | (at_fd != process->fd ? O_NOFOLLOW : 0));
  int result;

  if (fd < 0)
    return errno == ENOTDIR ? -ELOOP : -errno;
  result = check_mount (self, process, fd, &is_layered);
  return result < 0 ? result : sonde_steal_fd (&fd);
}

/* In its own root, by the number that it knows itself by. */
static int
open_perf_map (const SondeProcBroker *self, const Process *process)
{
  sonde_autofd int root_fd = open_folder (self, process, process->fd, "root");
  sonde_autofd int folder_fd = -1;
  sonde_autofd int path_fd = -1;
  char name[64];

  if (root_fd < 0)
    return root_fd;
  folder_fd = open_folder (self, process, root_fd, "tmp");
  if (folder_fd < 0)
    return folder_fd;
  g_snprintf (name, sizeof name, "perf-%d.map",
              (int) sonde_credentials_inner_pid (process->fd, process->pid));
  path_fd = openat (folder_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  return path_fd < 0 ? -errno : open_names (self, process, path_fd, NULL);
}

/* That of the process itself: a child has the mapping, too. */
static int
open_jit_dump (const SondeProcBroker *self, const Process *process, const SondeProcMap *map)
{
  gboolean by_path;
  sonde_autofd int path_fd = -1;
  sonde_autofd int fd = -1;
  char name[64];
  char path[PATH_MAX];
  guint32 magic = 0;
  ssize_t n;

  g_snprintf (name, sizeof name, "/jit-%d.dump",
              (int) sonde_credentials_inner_pid (process->fd, process->pid));
  if (!g_str_has_suffix (path_of (process, map, path), name))
    return -ENOENT;
  path_fd = open_mapping (process, map, &by_path);
  if (path_fd < 0)
    return path_fd;
  fd = open_names (self, process, path_fd, by_path ? map : NULL);
  if (fd < 0)
    return fd;
  n = pread (fd, &magic, sizeof magic, 0);
  if (n < 0)
    return -errno;
  /* Programs map it before they write what they have in memory so far: node 2 MB of it. */
  if (n > 0 && magic != JIT_DUMP_MAGIC)
    return -ENOEXEC;
  return sonde_steal_fd (&fd);
}

static int
open_kind (const SondeProcBroker *self,
           SondeFileKind kind,
           const Process *process,
           const SondeProcMap *map)
{
  switch (kind)
    {
    case SONDE_FILE_JIT_DUMP:
      return open_jit_dump (self, process, map);
    case SONDE_FILE_PERF_MAP:
      return open_perf_map (self, process);
    case SONDE_FILE_PROGRAM:
    case SONDE_N_FILES:
    default:
      return open_checked (self, process, map);
    }
}

int
sonde_proc_broker_open_file (SondeProcBroker *self,
                             const SondeMessageFileRequest *request,
                             SondeProcBatch *batch,
                             SondeForeignMount *mount)
{
  g_autoptr (SondeProcBatch) alone = NULL;
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  sonde_autofd int process_fd = -1;
  sonde_autofd int maps_fd = -1;
  sonde_autofd int fd = -1;
  SondeProcMap map;
  int result = open_process (self, request->pid, &process);

  *mount = SONDE_FOREIGN_MOUNT_NONE;
  if (result < 0)
    return result;
  process_fd = process.fd;
  if (request->start_ticks != 0 && request->start_ticks != process.stat.start_ticks)
    return -ESRCH;
  maps_fd = open_maps (self, &process);
  if (maps_fd < 0)
    return maps_fd;
  process.maps_fd = maps_fd;
  if (batch == NULL)
    batch = alone = sonde_proc_batch_new ();
  result = request->kind != SONDE_FILE_PERF_MAP
               ? find_mapping (self, batch, &process, request, &map)
               : 0;
  if (result == 0)
    result = fd = open_kind (self, request->kind, &process, &map);
  /* The file was found in the image whose mappings were read, not in a later one. */
  if (result >= 0 && !self->is_unlimited
      && !sonde_proc_maps_are_alive (batch->table != NULL ? batch->table_fd : maps_fd))
    result = -ESRCH;
  if (result < 0)
    return result;
  if (request->kind == SONDE_FILE_PROGRAM)
    open_mountinfo (self, &process, fd, mount);
  return sonde_steal_fd (&fd);
}

/* What is mapped of one file, from its first byte in memory to its last. */
typedef struct
{
  guint64 low;
  guint64 high; /* 0: nothing */
  gboolean has_code;
} ModuleExtent;

/* @map: of a whole list, in its order. Memory without a file right behind is the file's, too: what
 * it has no bytes for. */
static void
grow_extent (ModuleExtent *self, const SondeMessageInterpreter *message, const SondeProcMap *map)
{
  gboolean is_file = map->inode == message->inode && map->dev_major == message->dev_major
                     && map->dev_minor == message->dev_minor;
  gboolean is_rest = map->inode == 0 && self->high != 0 && map->start == self->high;

  if (!is_file && !is_rest)
    return;
  if (self->high == 0)
    self->low = map->start;
  self->high = map->end;
  self->has_code
      = self->has_code
        || (is_file && map->executable && map->start <= message->start && message->start < map->end
            && map->offset + (message->start - map->start) == message->offset);
}

static gboolean
extent_has (const ModuleExtent *self, guint64 address)
{
  return address >= self->low && address < self->high && self->high - address >= sizeof address;
}

/* Of Python what is read is to be of that type; the others have none. */
static gboolean
has_type (const ModuleExtent *self, const SondeMessageInterpreter *message, guint64 address)
{
  return message->place.kind == SONDE_WALK_PYTHON ? extent_has (self, address) : address == 0;
}

static int
check_extent (int maps_fd, const SondeMessageInterpreter *message)
{
  char *text = NULL;
  int64_t size_bytes = sonde_proc_maps_read (maps_fd, SONDE_LIMIT_MAPS_BYTES, &text);
  const char *at = text;
  size_t left = size_bytes > 0 ? (size_t) size_bytes : 0;
  ModuleExtent extent = { 0 };
  SondeProcMap map;
  int result;

  while (left > 0 && (result = sonde_proc_maps_next (&at, &left, &map)) != 0)
    if (result > 0)
      grow_extent (&extent, message, &map);
  free (text);
  if (size_bytes <= 0)
    return size_bytes < 0 ? (int) size_bytes : -ESRCH;
  if (message->inode == 0 || !extent.has_code)
    return -ENOENT;
  return extent_has (&extent, message->place.key)
                 && has_type (&extent, message, message->place.code_type)
                 && has_type (&extent, message, message->place.text_type)
             ? 0
             : -EFAULT;
}

int
sonde_proc_broker_check_place (SondeProcBroker *self, const SondeMessageInterpreter *message)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  sonde_autofd int process_fd = -1;
  sonde_autofd int maps_fd = -1;
  int result = open_process (self, message->pid, &process);

  if (result < 0)
    return result;
  process_fd = process.fd;
  if (message->start_ticks != 0 && message->start_ticks != process.stat.start_ticks)
    return -ESRCH;
  maps_fd = open_maps (self, &process);
  return maps_fd < 0 ? maps_fd : check_extent (maps_fd, message);
}

/* --- probes --- */

/* Returns: 0 or -EACCES */
static int
check_solid (int path_fd)
{
  g_autofree char *of_first = NULL;
  struct statx st;

  if (statx (path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) < 0)
    return -EACCES;
  of_first = sonde_proc_text_read (AT_FDCWD, "/proc/1/mountinfo", SONDE_LIMIT_PROC_TEXT_BYTES);
  return of_first != NULL && sonde_mountinfo_is_solid (of_first, st.stx_dev_major, st.stx_dev_minor)
             ? 0
             : -EACCES;
}

/* Of a program that gains rights by its file no hit may be told to whoever executes it, not even of
 * one that runs now without. */
static int
open_solid (const Process *process, const SondeProcMap *map)
{
  gboolean by_path;
  sonde_autofd int path_fd = open_mapping (process, map, &by_path);
  struct stat st;
  int result;

  if (path_fd < 0)
    return path_fd;
  result = check_solid (path_fd);
  if (result < 0)
    return result;
  if (fstat (path_fd, &st) < 0)
    return -errno;
  if (!S_ISREG (st.st_mode) || (by_path && !is_mapped_file (&st, map, FALSE)))
    return -ESTALE;
  return (st.st_mode & (S_ISUID | S_ISGID)) != 0 ? -EPERM : open_looked_at (path_fd);
}

/* Whether there is a probe of ours, in that mapping. */
static int
find_place (const SondeElfFile *file, guint64 note, const SondeProcMap *map, SondeProbePlace *place)
{
  SondeProbe probe;
  guint8 instruction;
  int result = sonde_probe_read (file, note, SONDE_PROBE_PROVIDER, &probe);

  if (result == 0)
    result = sonde_elf_file_read (file, probe.site, &instruction, sizeof instruction);
  if (result < 0)
    return result == -ENOENT ? -EBADMSG : result;
  if (probe.site < map->offset || probe.site - map->offset >= map->end - map->start)
    return -EBADMSG;
  *place = (SondeProbePlace){ .site = probe.site,
                              .semaphore = probe.semaphore,
                              .address = map->start + (probe.site - map->offset) };
  return instruction == SONDE_PROBE_INSTRUCTION ? 0 : -EILSEQ;
}

/* The file's bytes are its program's: they are read without a right. */
static int
find_places (int fd,
             const SondeMessageProbes *message,
             const SondeProcMap *map,
             SondeProbePlace places[SONDE_PROBE_MAX_SITES])
{
  SondeElfFile file;
  int result = sonde_elf_file_load (&file, fd);

  if (result == 0 && (file.is_32_bit || file.header.e_machine != SONDE_ELF_NATIVE_MACHINE))
    result = -EBADMSG;
  for (guint32 i = 0; i < message->n_notes && result == 0; i++)
    result = find_place (&file, message->notes[i], map, &places[i]);
  sonde_elf_file_clear (&file);
  return result;
}

/* @maps_fd: (out): to be closed by the caller */
static int
open_probed (SondeProcBroker *self,
             const SondeMessageProbes *message,
             int *maps_fd,
             SondeProcMap *map)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  g_autoptr (SondeProcBatch) batch = sonde_proc_batch_new ();
  const SondeMessageFileRequest request = { .pid = message->pid,
                                            .dev_major = message->dev_major,
                                            .dev_minor = message->dev_minor,
                                            .start = message->start,
                                            .offset = message->offset,
                                            .inode = message->inode };
  Process process = { .fd = -1, .maps_fd = -1 };
  sonde_autofd int process_fd = -1;
  int result = open_process (self, message->pid, &process);

  if (result < 0)
    return result;
  process_fd = process.fd;
  if (!is_in_scope (self, &process))
    return -EPERM;
  if (message->start_ticks != 0 && message->start_ticks != process.stat.start_ticks)
    return -ESRCH;
  process.maps_fd = *maps_fd = open_maps (self, &process);
  if (*maps_fd < 0)
    return *maps_fd;
  result = find_mapping (self, batch, &process, &request, map);
  return result < 0 ? result : open_solid (&process, map);
}

int
sonde_proc_broker_open_probes (SondeProcBroker *self,
                               const SondeMessageProbes *message,
                               SondeProbePlace places[SONDE_PROBE_MAX_SITES])
{
  sonde_autofd int maps_fd = -1;
  sonde_autofd int fd = -1;
  SondeProcMap map;
  int result = fd = open_probed (self, message, &maps_fd, &map);

  if (result >= 0)
    result = find_places (fd, message, &map, places);
  if (result >= 0 && !self->is_unlimited && !sonde_proc_maps_are_alive (maps_fd))
    result = -ESRCH;
  return result < 0 ? result : sonde_steal_fd (&fd);
}

/* "410025 11803 27\n": ns, ns, and how often. FALSE: not of that form */
static gboolean
parse_schedstat (const char *text, SondeMessageThread *thread)
{
  guint64 numbers[3];
  const char *at = text;

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      char *end;

      if (!g_ascii_isdigit (*at))
        return FALSE;
      numbers[i] = g_ascii_strtoull (at, &end, 10);
      if (*end != ' ' && *end != '\n' && *end != '\0')
        return FALSE;
      at = *end == ' ' ? end + 1 : end;
    }
  thread->on_ns = numbers[0];
  thread->delay_ns = numbers[1];
  thread->slices = numbers[2];
  return TRUE;
}

/* 0: it is gone, or not of that form. */
static guint32
read_state (int tasks_fd, const char *path)
{
  g_autofree char *text = sonde_proc_text_read (tasks_fd, path, 4096);
  const char *close = text != NULL ? strrchr (text, ')') : NULL;

  return close != NULL && close[1] == ' ' && g_ascii_isalpha (close[2]) ? (guint32) close[2] : 0;
}

static gboolean
read_thread (int tasks_fd, gint tid, gboolean wants_state, SondeMessageThread *thread)
{
  g_autofree char *text = NULL;
  char path[32];

  *thread = (SondeMessageThread){ .tid = tid };
  g_snprintf (path, sizeof path, "%d/stat", tid);
  if (wants_state)
    thread->state = read_state (tasks_fd, path);
  g_snprintf (path, sizeof path, "%d/schedstat", tid);
  thread->time_ns = g_get_monotonic_time () * 1000;
  text = sonde_proc_text_read (tasks_fd, path, 128);
  return text != NULL && parse_schedstat (text, thread);
}

/* At most @max_threads. */
static GArray *
list_threads (int tasks_fd, guint max_threads)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (gint));
  sonde_autofd int fd = openat (tasks_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *tasks = fd >= 0 ? fdopendir (fd) : NULL;
  const struct dirent *entry;

  if (tasks == NULL)
    return found;
  (void) sonde_steal_fd (&fd);
  while (found->len < max_threads && (entry = readdir (tasks)) != NULL)
    {
      gint tid = (gint) strtol (entry->d_name, NULL, 10);

      if (tid > 0)
        g_array_append_val (found, tid);
    }
  closedir (tasks);
  return found;
}

int
sonde_proc_broker_read_threads (SondeProcBroker *self,
                                pid_t pid,
                                const gint *tids,
                                guint n_tids,
                                guint max_threads,
                                GArray *threads)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  sonde_autofd int process_fd = -1;
  sonde_autofd int tasks_fd = -1;
  g_autoptr (GArray) listed = NULL;
  gboolean wants_states = n_tids == 0;
  int result = open_process (self, pid, &process);

  if (result < 0)
    return result;
  process_fd = process.fd;
  if (!is_in_scope (self, &process))
    return -EPERM;
  tasks_fd = openat (process_fd, "task", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (tasks_fd < 0)
    return -ESRCH;
  listed = wants_states ? list_threads (tasks_fd, max_threads)
                        : g_array_new (FALSE, FALSE, sizeof (gint));
  g_array_append_vals (listed, tids, MIN (n_tids, max_threads));
  for (guint i = 0; i < listed->len; i++)
    {
      SondeMessageThread thread;

      if (read_thread (tasks_fd, g_array_index (listed, gint, i), wants_states, &thread))
        g_array_append_val (threads, thread);
    }
  /* It may have executed a setuid program meanwhile. */
  result = sonde_proc_broker_check (self, pid, TRUE);
  if (result < 0)
    g_array_set_size (threads, 0);
  return result;
}

int
sonde_proc_broker_open_stat (SondeProcBroker *self, pid_t pid, guint64 start_ticks)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  sonde_autofd int process_fd = -1;
  sonde_autofd int maps_fd = -1;
  sonde_autofd int fd = -1;
  int result = open_process (self, pid, &process);

  if (result < 0)
    return result;
  process_fd = process.fd;
  if (process.stat.start_ticks != start_ticks)
    return -ESRCH;
  maps_fd = open_maps (self, &process);
  if (maps_fd < 0)
    return maps_fd;
  fd = openat (process_fd, "stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return errno == ENOENT ? -ESRCH : -errno;
  return self->is_unlimited || sonde_proc_maps_are_alive (maps_fd) ? sonde_steal_fd (&fd) : -ESRCH;
}

int
sonde_proc_broker_open_mounts (SondeProcBroker *self, pid_t pid)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Process process = { .fd = -1, .maps_fd = -1 };
  sonde_autofd int process_fd = -1;
  int result;

  if (was_told (self, NULL))
    return -EEXIST;
  result = open_process (self, pid, &process);
  process_fd = process.fd;
  if (result == 0)
    {
      result = openat (process_fd, "mounts", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
      result = result < 0 ? -errno : result;
    }
  return result;
}

int
sonde_proc_owner (pid_t pid, uid_t *uid)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) pid);
  struct stat st;

  if (fstatat (AT_FDCWD, directory, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT ? -ESRCH : -errno;
  *uid = st.st_uid;
  return 0;
}
