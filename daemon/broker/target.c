/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include <glib-unix.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/broker/rights.h"
#include "daemon/base/closer.h"
#include "daemon/base/proc-maps.h"
#include "daemon/base/proc-text.h"

SondeTarget *
sonde_target_new (SondeAskedTarget *asked)
{
  SondeTarget *self = g_new0 (SondeTarget, 1);

  self->pid = asked->pid;
  self->has_proof = asked->has_proof;
  self->maps_fd = sonde_steal_fd (&asked->maps_fd);
  self->process_fd = -1;
  self->pidfd = sonde_steal_fd (&asked->pidfd);
  sonde_asked_target_free (asked);
  return self;
}

void
sonde_target_free (SondeTarget *self)
{
  if (self == NULL)
    return;
  sonde_closer_clear (&self->maps_fd);
  sonde_clear_fd (&self->process_fd);
  sonde_clear_fd (&self->pidfd);
  g_free (self);
}

static bool
refuse (const SondeTarget *self, GError **error)
{
  if (self->has_proof)
    g_set_error (
        error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED,
        "Process %d: the descriptor is not an open /proc/%d/maps that proves the right to it",
        (int) self->pid, (int) self->pid);
  else
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS, "There is no process %d",
                 (int) self->pid);
  return false;
}

/* Device and inode without asking the file system's server: on a hostile FUSE mount fstat() would
 * wait for as long as its owner likes. */
static bool
identify (int dir_fd, const char *path, int flags, struct statx *identity)
{
  return statx (dir_fd, path, flags | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_UID,
                identity)
             == 0
         && (identity->stx_mask & STATX_INO) != 0;
}

/* "/5", whatever is behind it */
static bool
skip_number (const char **path)
{
  const char *digits = *path + 1;
  size_t n_digits = **path == '/' ? strspn (digits, "0123456789") : 0;

  *path = digits + n_digits;
  return n_digits > 0;
}

/* "/proc/5/maps", "/proc/5/task/6/maps"; below the root of a procfs that is mounted nowhere, as it
 * was when it was opened, the same without "/proc" */
static bool
is_maps_path (const char *path)
{
  if (g_str_has_prefix (path, "/proc/"))
    path += strlen ("/proc");
  if (!skip_number (&path))
    return false;
  if (g_str_has_prefix (path, "/task/"))
    {
      path += strlen ("/task");
      if (!skip_number (&path))
        return false;
    }
  return g_str_equal (path, "/maps");
}

/* A /proc/N/maps, but not of our procfs. It looks at the descriptor alone, so the answer says
 * nothing of any process here; and it asks no file system, so that it cannot be kept waiting: what
 * passes for such a file is at worst told something untrue about itself. */
static bool
is_of_other_procfs (const SondeTarget *self)
{
  g_autofree char *link = g_strdup_printf ("/proc/self/fd/%d", self->maps_fd);
  g_autofree char *path = g_file_read_link (link, NULL);
  sonde_autofd int our_fd = open ("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct statx theirs;
  struct statx ours;

  return path != NULL && is_maps_path (path) && identify (self->maps_fd, "", AT_EMPTY_PATH, &theirs)
         && identify (our_fd, "", AT_EMPTY_PATH, &ours)
         && (theirs.stx_dev_major != ours.stx_dev_major
             || theirs.stx_dev_minor != ours.stx_dev_minor);
}

/* The file belongs to the process's uid while it is dumpable, else to root; the directory does not
 * tell. Who opened the proof is not known: it may be a gift of somebody with more rights. */
static bool
is_visible (SondeTarget *self, const SondeTracer *owner)
{
  struct statx maps;

  if (!identify (self->process_fd, "maps", AT_SYMLINK_NOFOLLOW, &maps)
      || (owner->uid != 0 && maps.stx_uid != owner->uid)
      || !sonde_credentials_read (self->process_fd, &self->credentials))
    return false;
  return owner->uid == 0 || sonde_tracer_may_read (owner, &self->credentials)
         || sonde_credentials_in_namespace_of (self->process_fd, owner->uid);
}

static bool
check_proof (SondeTarget *self, const SondeTracer *owner)
{
  struct statx theirs;
  struct statx ours;

  return identify (self->maps_fd, "", AT_EMPTY_PATH, &theirs)
         && identify (self->process_fd, "maps", AT_SYMLINK_NOFOLLOW, &ours)
         && theirs.stx_dev_major == ours.stx_dev_major && theirs.stx_dev_minor == ours.stx_dev_minor
         && theirs.stx_ino == ours.stx_ino && is_visible (self, owner)
         && sonde_proc_maps_are_alive (self->maps_fd);
}

static bool
is_alive (const SondeTarget *self)
{
  struct pollfd poll_fd = { .fd = self->pidfd, .events = POLLIN };

  return poll (&poll_fd, 1, 0) == 0;
}

bool
sonde_target_prove (SondeTarget *self, const SondeTracer *owner, GError **error)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) self->pid);
  g_autofree char *text = NULL;
  SondeProcStat stat;

  if (self->has_proof && is_of_other_procfs (self))
    {
      g_set_error_literal (
          error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
          "Option targets: the descriptor is of another /proc than the service's, that "
          "of a container for instance; only processes seen in the machine's own can be "
          "profiled");
      return false;
    }
  sonde_clear_fd (&self->process_fd);
  if (self->pidfd < 0)
    return refuse (self, error);
  self->process_fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self->process_fd < 0 || (self->has_proof && !check_proof (self, owner)))
    return refuse (self, error);
  text = sonde_proc_text_read (self->process_fd, "stat", 4096);
  /* Alive after all of that: the pid meant one process throughout. */
  if (text == NULL || !sonde_proc_stat_parse (text, &stat) || !is_alive (self))
    return refuse (self, error);

  self->start_ticks = stat.start_ticks;
  return true;
}

/* Once it was proven its descriptor is given back. */
static bool
may_be_opened (SondeTarget *self, const SondeTracer *owner)
{
  if (!self->has_proof)
    return true;
  return self->maps_fd >= 0 ? check_proof (self, owner) : is_visible (self, owner);
}

bool
sonde_target_confirm (SondeTarget *self, const SondeTracer *owner, GError **error)
{
  {
    sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);

    if (!may_be_opened (self, owner) || !is_alive (self))
      return refuse (self, error);
  }
  /* By a thread, which has the capabilities that are in effect where it begins. */
  sonde_closer_clear (&self->maps_fd);
  sonde_clear_fd (&self->process_fd);
  return true;
}

bool
sonde_target_reopen (SondeTarget *self, const SondeTracer *owner)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) self->pid);

  sonde_clear_fd (&self->process_fd);
  if (self->pidfd < 0)
    return false;
  self->process_fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self->process_fd >= 0 && may_be_opened (self, owner) && is_alive (self))
    return true;
  sonde_clear_fd (&self->process_fd);
  return false;
}

SondeTarget *
sonde_target_copy (const SondeTarget *self)
{
  sonde_autofd int pidfd = self->pidfd >= 0 ? fcntl (self->pidfd, F_DUPFD_CLOEXEC, 3) : -1;
  SondeTarget *copy;

  if (pidfd < 0)
    return NULL;
  copy = g_new0 (SondeTarget, 1);
  *copy = *self;
  copy->pidfd = sonde_steal_fd (&pidfd);
  copy->maps_fd = copy->process_fd = -1;
  return copy;
}

/* --- those of a session --- */

struct SondeTargetSet
{
  GPtrArray *targets; /* SondeTarget */
  GArray *watches;    /* guint: the source on each target's pidfd, 0 when it has exited */
  guint n_alive;
  void (*all_exited) (gpointer user_data);
  gpointer user_data;
};

SondeTargetSet *
sonde_target_set_new (void (*all_exited) (gpointer user_data), gpointer user_data)
{
  SondeTargetSet *self = g_new0 (SondeTargetSet, 1);

  self->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  self->watches = g_array_new (FALSE, FALSE, sizeof (guint));
  self->all_exited = all_exited;
  self->user_data = user_data;
  return self;
}

void
sonde_target_set_unwatch (SondeTargetSet *self)
{
  for (guint i = 0; i < self->watches->len; i++)
    g_clear_handle_id (&g_array_index (self->watches, guint, i), g_source_remove);
}

void
sonde_target_set_free (SondeTargetSet *self)
{
  if (self == NULL)
    return;
  sonde_target_set_unwatch (self);
  g_array_unref (self->watches);
  g_ptr_array_unref (self->targets);
  g_free (self);
}

/* Looks at the first @n_targets. */
static gboolean
contains (GPtrArray *targets, guint n_targets, pid_t pid)
{
  for (guint i = 0; i < n_targets; i++)
    if (((const SondeTarget *) g_ptr_array_index (targets, i))->pid == pid)
      return TRUE;
  return FALSE;
}

gboolean
sonde_target_set_check_room (const SondeTargetSet *self, guint n_more, GError **error)
{
  if (self->targets->len + n_more <= SONDE_LIMIT_SESSION_TARGETS)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "Limit session-targets: at most %d processes in a session",
               SONDE_LIMIT_SESSION_TARGETS);
  return FALSE;
}

gboolean
sonde_target_set_check_new (const SondeTargetSet *self,
                            GPtrArray *targets,
                            guint index,
                            GError **error)
{
  pid_t pid = ((const SondeTarget *) g_ptr_array_index (targets, index))->pid;

  if (!contains (self->targets, self->targets->len, pid) && !contains (targets, index, pid))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
               "Option targets: process %d is given twice", (int) pid);
  return FALSE;
}

GPtrArray *
sonde_target_set_copy (const SondeTargetSet *self)
{
  GPtrArray *copies = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);

  for (guint i = 0; i < self->targets->len; i++)
    {
      SondeTarget *copy = sonde_target_copy (g_ptr_array_index (self->targets, i));

      if (copy != NULL)
        g_ptr_array_add (copies, copy);
    }
  return copies;
}

static gboolean
on_exited (int fd, GIOCondition condition, gpointer user_data)
{
  SondeTargetSet *self = user_data;

  for (guint i = 0; i < self->targets->len; i++)
    if (((const SondeTarget *) g_ptr_array_index (self->targets, i))->pidfd == fd)
      g_array_index (self->watches, guint, i) = 0;
  if (--self->n_alive == 0)
    self->all_exited (self->user_data);
  return G_SOURCE_REMOVE;
}

void
sonde_target_set_take (SondeTargetSet *self, SondeTarget *target)
{
  int pidfd = target->pidfd;
  guint watch = pidfd >= 0 ? g_unix_fd_add (pidfd, G_IO_IN, on_exited, self) : 0;

  g_ptr_array_add (self->targets, target);
  g_array_append_val (self->watches, watch);
  self->n_alive += pidfd >= 0;
}

const SondeTarget *
sonde_target_set_find (const SondeTargetSet *self, pid_t pid)
{
  for (guint i = self->targets->len; i > 0; i--)
    if (((const SondeTarget *) g_ptr_array_index (self->targets, i - 1))->pid == pid)
      return g_ptr_array_index (self->targets, i - 1);
  return NULL;
}

gboolean
sonde_target_set_is_over (const SondeTargetSet *self)
{
  return self->targets->len > 0 && self->n_alive == 0;
}
