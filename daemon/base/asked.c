/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/asked.h"

static const char *const tracepoints[] = {
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
sonde_tracepoint_name (guint index)
{
  return index < G_N_ELEMENTS (tracepoints) ? tracepoints[index] : NULL;
}

gboolean
sonde_tracepoint_find (const char *name, guint *index)
{
  for (guint i = 0; i < G_N_ELEMENTS (tracepoints); i++)
    if (g_str_equal (name, tracepoints[i]))
      {
        *index = i;
        return TRUE;
      }
  return FALSE;
}

const char *
sonde_scope_name (SondeScope scope)
{
  static const char *const names[SONDE_N_SCOPES] = {
    [SONDE_SCOPE_TARGETS] = "targets", [SONDE_SCOPE_LAUNCH] = "launch", [SONDE_SCOPE_PIDS] = "pids",
    [SONDE_SCOPE_UNIT] = "unit",       [SONDE_SCOPE_SYSTEM] = "system",
  };

  return names[scope];
}

const char *const sonde_event_choice_names[SONDE_N_EVENTS + 1] = {
  [SONDE_EVENT_AUTO] = "auto",
  [SONDE_EVENT_CYCLES] = "cycles",
  [SONDE_EVENT_INSTRUCTIONS] = "instructions",
  [SONDE_EVENT_CPU_CLOCK] = "cpu-clock",
  [SONDE_EVENT_NONE] = "none",
};

const char *
sonde_asked_event_name (const SondeAsked *self)
{
  return self->event == SONDE_EVENT_TRACEPOINT ? sonde_tracepoint_name (self->tracepoint)
                                               : sonde_event_choice_names[self->event];
}
