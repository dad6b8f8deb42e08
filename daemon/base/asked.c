/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/asked.h"

#include <string.h>

#include "daemon/base/limits.h"

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
    [SONDE_SCOPE_TARGETS] = "targets", [SONDE_SCOPE_LAUNCH] = "launch",
    [SONDE_SCOPE_PIDS] = "pids",       [SONDE_SCOPE_UNIT] = "unit",
    [SONDE_SCOPE_SYSTEM] = "system",   [SONDE_SCOPE_CGROUP] = "cgroup",
  };

  return names[scope];
}

gboolean
sonde_scope_is_group (guint32 scope)
{
  return scope == SONDE_SCOPE_UNIT || scope == SONDE_SCOPE_CGROUP;
}

const char *const sonde_event_choice_names[SONDE_N_EVENTS + 1] = {
  [SONDE_EVENT_AUTO] = "auto",
  [SONDE_EVENT_CYCLES] = "cycles",
  [SONDE_EVENT_INSTRUCTIONS] = "instructions",
  [SONDE_EVENT_CPU_CLOCK] = "cpu-clock",
  [SONDE_EVENT_NONE] = "none",
};

const char *const sonde_unwind_names[] = {
  [SONDE_UNWIND_NONE] = "none",
  [SONDE_UNWIND_FRAME_POINTER] = "frame-pointer",
  [SONDE_UNWIND_DWARF] = "dwarf",
  [SONDE_UNWIND_LIBDWFL] = "libdwfl",
  NULL,
};
const char *const sonde_symbols_names[] = { [FALSE] = "none", [TRUE] = "end", NULL };
const char *const sonde_memory_names[] = {
  [SONDE_MEMORY_OFF] = "off", [SONDE_MEMORY_ALL] = "all", [SONDE_MEMORY_SAMPLED] = "sampled", NULL
};

const char *const sonde_memory_detail_names[] = { [SONDE_MEMORY_DETAIL_EVENTS] = "events",
                                                  [SONDE_MEMORY_DETAIL_LOG] = "log",
                                                  [SONDE_MEMORY_DETAIL_SUMS] = "sums",
                                                  NULL };

const char *const sonde_trace_names[] = { [SONDE_TRIE_OFF] = "off",
                                          [SONDE_TRIE_COUNT] = "count",
                                          [SONDE_TRIE_AUTO] = "auto",
                                          [SONDE_TRIE_EXACT] = "exact",
                                          NULL };

const char *const sonde_interpreters_names[] = { [FALSE] = "no", [TRUE] = "auto", NULL };

const char *const sonde_waits_names[]
    = { [SONDE_WAITS_OFF] = "off", [SONDE_WAITS_TIMES] = "times", NULL };

const char *
sonde_asked_event_name (const SondeAsked *self)
{
  return self->event == SONDE_EVENT_TRACEPOINT ? sonde_tracepoint_name (self->tracepoint)
                                               : sonde_event_choice_names[self->event];
}

static gboolean
is_boolean (gint32 value)
{
  return value == FALSE || value == TRUE;
}

/* Of what says how calls are traced, or NULL. */
static const char *
check_trace (const SondeAsked *self)
{
  if (self->trace > SONDE_TRIE_EXACT)
    return "unknown trace mode";
  if (self->trace != SONDE_TRIE_OFF
      && (self->trace_depth == 0 || self->trace_depth > SONDE_TRIE_MAX_DEPTH))
    return "trace depth out of range";
  if (self->trace_memory_bytes > SONDE_LIMIT_TRACE_MEMORY_BYTES)
    return "trace memory out of range";
  if (self->trace_slow_us > SONDE_LIMIT_TRACE_SLOW_US)
    return "slow calls out of range";
  if (self->trace_budget > 100 * SONDE_LIMIT_TRACE_BUDGET)
    return "trace budget out of range";
  if (memchr (self->trace_filter, '\0', sizeof self->trace_filter) == NULL)
    return "a filter without its end";
  return NULL;
}

const char *
sonde_asked_check (const SondeAsked *self)
{
  const guint32 known_counters = SONDE_COUNTERS_CPU | SONDE_COUNTERS_MEMORY | SONDE_COUNTERS_NETWORK
                                 | SONDE_COUNTERS_DISK | SONDE_COUNTERS_PROCESS;

  if (self->scope >= SONDE_N_SCOPES)
    return "unknown scope";
  if (self->event > SONDE_EVENT_TRACEPOINT)
    return "unknown event";
  if (self->event == SONDE_EVENT_TRACEPOINT && sonde_tracepoint_name (self->tracepoint) == NULL)
    return "unknown tracepoint";
  if (!is_boolean (self->kernel) || !is_boolean (self->raw) || !is_boolean (self->children)
      || !is_boolean (self->start_on_exec) || !is_boolean (self->symbols)
      || !is_boolean (self->interpreters))
    return "neither yes nor no";
  if (self->unwind > SONDE_UNWIND_LIBDWFL)
    return "unknown unwind mode";
  if (self->stack_size_bytes % 8 != 0 || self->stack_size_bytes > SONDE_LIMIT_STACK_SIZE_MAX)
    return "stack size out of range";
  if (self->max_depth == 0 || self->max_depth > SONDE_LIMIT_DEPTH)
    return "depth out of range";
  if (self->memory > SONDE_MEMORY_SAMPLED)
    return "unknown memory mode";
  if (self->memory_detail >= SONDE_N_MEMORY_DETAILS)
    return "unknown memory detail";
  if (self->memory != SONDE_MEMORY_OFF && self->memory_interval_bytes == 0)
    return "memory interval out of range";
  if (self->memory_wait_us > SONDE_LIMIT_MEMORY_WAIT_US)
    return "memory wait out of range";
  if (self->recorder_us > SONDE_LIMIT_RECORDER_US
      || (self->recorder_us != 0 && self->recorder_bytes == 0)
      || (self->recorder_bytes != 0 && self->recorder_bytes < SONDE_LIMIT_RECORDER_BYTES_MIN)
      || self->recorder_bytes > SONDE_LIMIT_RECORDER_BYTES_MAX)
    return "recorder out of range";
  if ((self->counters & ~known_counters) != 0)
    return "unknown counters";
  if (self->waits >= SONDE_N_WAITS || self->padding != 0)
    return "unknown waits";
  if (memchr (self->unit, '\0', sizeof self->unit) == NULL)
    return "a text without its end";
  return check_trace (self);
}

void
sonde_asked_describe (const SondeAsked *self,
                      const char *event,
                      gboolean sees_kernel,
                      GKeyFile *file,
                      const char *group)
{
  g_key_file_set_string (file, group, "scope", sonde_scope_name (self->scope));
  g_key_file_set_string (file, group, "event", event);
  if (self->frequency_hz != 0)
    g_key_file_set_uint64 (file, group, "frequency", self->frequency_hz);
  else
    g_key_file_set_uint64 (file, group, "period", self->period);
  g_key_file_set_boolean (file, group, "kernel", self->kernel);
  g_key_file_set_boolean (file, group, "raw", self->raw);
  g_key_file_set_string (file, group, "kernel-time", sees_kernel ? "yes" : "user time only");
  g_key_file_set_boolean (file, group, "children", self->children);
  g_key_file_set_string (file, group, "unwind", sonde_unwind_names[self->unwind]);
  g_key_file_set_uint64 (file, group, "stack-size", self->stack_size_bytes);
  g_key_file_set_uint64 (file, group, "max-depth", self->max_depth);
  g_key_file_set_uint64 (file, group, "duration", self->duration_us);
  g_key_file_set_string (file, group, "symbols", sonde_symbols_names[self->symbols]);
  if (self->recorder_bytes != 0)
    {
      g_key_file_set_uint64 (file, group, "recorder", self->recorder_us);
      g_key_file_set_uint64 (file, group, "recorder-bytes", self->recorder_bytes);
    }
  g_key_file_set_string (file, group, "interpreters", sonde_interpreters_names[self->interpreters]);
  if (self->waits != SONDE_WAITS_OFF)
    g_key_file_set_string (file, group, "waits", sonde_waits_names[self->waits]);
  if (self->memory != SONDE_MEMORY_OFF)
    g_key_file_set_string (file, group, "memory", sonde_memory_names[self->memory]);
  if (self->memory == SONDE_MEMORY_SAMPLED)
    g_key_file_set_uint64 (file, group, "memory-interval", self->memory_interval_bytes);
  if (self->memory != SONDE_MEMORY_OFF)
    {
      g_key_file_set_uint64 (file, group, "memory-wait", self->memory_wait_us);
      g_key_file_set_string (file, group, "memory-detail",
                             sonde_memory_detail_names[self->memory_detail]);
    }
  if (self->trace != SONDE_TRIE_OFF)
    {
      g_auto (GStrv) filter = g_strsplit (self->trace_filter, "\n", -1);

      g_key_file_set_string (file, group, "trace", sonde_trace_names[self->trace]);
      g_key_file_set_uint64 (file, group, "trace-depth", self->trace_depth);
      g_key_file_set_uint64 (file, group, "trace-slow", self->trace_slow_us);
      g_key_file_set_uint64 (file, group, "trace-memory", self->trace_memory_bytes);
      g_key_file_set_double (file, group, "trace-budget", self->trace_budget / 100.0);
      if (filter[0] != NULL)
        g_key_file_set_string_list (file, group, "trace-filter", (const char *const *) filter,
                                    g_strv_length (filter));
    }
}
