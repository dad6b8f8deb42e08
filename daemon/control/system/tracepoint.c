/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tracepoints that the option `event` takes: a closed list, and their numbers here. */
#include "daemon/control/system/tracepoint.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "daemon/base/proc-text.h"

/* The second is where it was before Linux 4.1, and where some still mount it alone. */
static const char *const mount_points[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

static const char *const names[] = {
  "sched:sched_switch", /* a task leaves the CPU: its stack says what it waits for */
  "sched:sched_wakeup", /* the stack is the waker's */
  "sched:sched_wakeup_new",
  "sched:sched_migrate_task",
  "sched:sched_process_fork",
  "sched:sched_process_exec",
  "sched:sched_process_exit",
  "exceptions:page_fault_user",
  "exceptions:page_fault_kernel",
  "kmem:mm_page_alloc",
  "kmem:kmalloc",
  "kmem:kmem_cache_alloc",
  "filemap:mm_filemap_add_to_page_cache", /* a file is read from its disk */
  "block:block_bio_queue",
  "block:block_rq_insert",
  "block:block_rq_issue",
  "writeback:writeback_dirty_folio",
  "net:net_dev_queue",
  "signal:signal_generate",
  "lock:contention_begin",
  "raw_syscalls:sys_enter",
  "syscalls:sys_enter_openat",
  "syscalls:sys_enter_read",
  "syscalls:sys_enter_write",
  "syscalls:sys_enter_fsync",
  "syscalls:sys_enter_mmap",
  "syscalls:sys_enter_munmap",
  "syscalls:sys_enter_brk",
  "syscalls:sys_enter_futex",
  "syscalls:sys_enter_clone",
  "syscalls:sys_enter_clone3",
  "syscalls:sys_enter_execve",
  "syscalls:sys_enter_sendto",
  "syscalls:sys_enter_recvfrom",
};

const char *
sonde_tracepoint_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (name, names[i]))
      return names[i];
  return NULL;
}

const char *
sonde_tracepoint_get (guint index)
{
  return index < G_N_ELEMENTS (names) ? names[index] : NULL;
}

/* Without tracefs its mount point is an empty directory that somebody may have put files into. */
static int
open_tracefs (const char *path)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct statfs fs;

  if (fd < 0 || fstatfs (fd, &fs) < 0)
    return -errno;
  return fs.f_type == TRACEFS_MAGIC ? sonde_steal_fd (&fd) : -ENOENT;
}

gint64
sonde_tracepoint_id (const char *name)
{
  g_autofree char *path = g_strdup_printf ("events/%s/id", name);
  int result = -ENOENT;

  g_strdelimit (path, ":", '/');
  for (guint i = 0; i < G_N_ELEMENTS (mount_points); i++)
    {
      sonde_autofd int fd = open_tracefs (mount_points[i]);
      g_autofree char *text = fd >= 0 ? sonde_proc_text_read (fd, path, 64) : NULL;
      guint64 id;

      if (text != NULL
          && g_ascii_string_to_unsigned (g_strchomp (text), 10, 1, G_MAXUINT, &id, NULL))
        return (gint64) id;
      if (fd < 0)
        result = fd;
    }
  return result;
}
