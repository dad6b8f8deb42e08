/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unwinds real stacks: children that stop where we know who called whom. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unwind/unwinder.h"

#define DEPTH      12
#define MAX_FRAMES 256
#define MAX_STACK  (64 * 1024)

/* Where each level of the child returns to, written by the child itself. */
typedef struct
{
  uint64_t returns[DEPTH];
  size_t n_returns;
  pid_t tid;
} Shared;

typedef SondeUnwinder *NewUnwinder (SondeProcessTable *processes);

typedef struct
{
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeUnwinder *unwinder;
  SondeProcess *process;
  Shared *shared;
  pid_t child;
  uint64_t regs[17];
  uint8_t *stack;
  size_t stack_size;
  SondeUserState state;
  uint64_t addrs[MAX_FRAMES];
  size_t n_addrs;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  f->processes = sonde_process_table_new (f->modules);
  f->unwinder = ((NewUnwinder *) data) (f->processes);
  f->stack = g_malloc (MAX_STACK);
  f->shared
      = mmap (NULL, sizeof *f->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true (f->shared != MAP_FAILED);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  if (f->child > 0)
    {
      kill (f->child, SIGKILL);
      waitpid (f->child, NULL, 0);
    }
  munmap (f->shared, sizeof *f->shared);
  sonde_unwinder_free (f->unwinder);
  sonde_process_table_free (f->processes);
  sonde_module_store_free (f->modules);
  g_free (f->stack);
}

/* As the worker does, but with files that this test may open itself. */
static void
add_mapping (Fixture *f, const char *line)
{
  unsigned long start, end, offset, inode;
  unsigned dev_major, dev_minor;
  char perms[5];
  char path[512] = "";
  SondeProcessMapping mapping = { 0 };
  SondeUnwindModule *module;

  if (sscanf (line, "%lx-%lx %4s %lx %x:%x %lu %511[^\n]", &start, &end, perms, &offset, &dev_major,
              &dev_minor, &inode, path)
          < 7
      || perms[2] != 'x')
    return;
  mapping = (SondeProcessMapping){
    .start = start,
    .end = end,
    .offset = offset,
    .file = { .inode = inode, .dev_major = dev_major, .dev_minor = dev_minor },
    .path = path,
  };
  sonde_process_add_mapping (f->processes, f->process, &mapping, SONDE_MAP_FROM_SNAPSHOT);
  if (inode != 0
      && sonde_module_store_lookup (f->modules, &mapping.file, &module) == SONDE_MODULE_UNKNOWN)
    g_assert_cmpint (
        sonde_module_store_load (f->modules, &mapping.file, open (path, O_RDONLY | O_CLOEXEC)), ==,
        0);
}

static void
read_mappings (Fixture *f)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", f->child);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  f->process = sonde_process_table_ensure (f->processes, f->child, 0);
  lines = g_strsplit (text, "\n", -1);
  for (size_t i = 0; lines[i] != NULL; i++)
    add_mapping (f, lines[i]);
}

/* Registers in the order of the mask, and as much stack as there is above the stack pointer. */
static void
read_state (Fixture *f)
{
  struct user_regs_struct r;
  struct iovec local = { f->stack, MAX_STACK };
  struct iovec remote = { 0 };
  ssize_t n_read = -1;

  g_assert_cmpint (ptrace (PTRACE_GETREGS, f->child, NULL, &r), ==, 0);
  memcpy (f->regs,
          ((uint64_t[]){ r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.rip, r.r8, r.r9,
                         r.r10, r.r11, r.r12, r.r13, r.r14, r.r15 }),
          sizeof f->regs);
  remote.iov_base = (void *) r.rsp;
  for (local.iov_len = MAX_STACK; n_read < 0 && local.iov_len >= 8;)
    {
      remote.iov_len = local.iov_len;
      n_read = process_vm_readv (f->child, &local, 1, &remote, 1, 0);
      if (n_read < 0)
        local.iov_len /= 2;
    }
  g_assert_cmpint (n_read, >, 0);
  f->stack_size = (size_t) n_read & ~(size_t) 7;
  f->state = (SondeUserState){
    .abi = PERF_SAMPLE_REGS_ABI_64,
    .regs_mask = sonde_unwinder_regs_mask (),
    .regs = f->regs,
    .n_regs = G_N_ELEMENTS (f->regs),
    .stack = f->stack,
    .stack_size_bytes = f->stack_size,
    .dump_size_bytes = f->stack_size,
  };
}

static SondeUnwindEnd
unwind (Fixture *f)
{
  return sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs, MAX_FRAMES,
                                &f->n_addrs);
}

static void
dump (Fixture *f, SondeUnwindEnd end)
{
  for (size_t i = 0; i < f->n_addrs; i++)
    {
      const SondeProcessMapping *m
          = sonde_process_find_mapping (f->processes, f->process, f->addrs[i]);

      g_test_message ("%2zu %#lx %s+%#lx", i, f->addrs[i], m != NULL ? m->path : "?",
                      m != NULL && m->module != NULL ? f->addrs[i] - m->bias : 0);
    }
  g_test_message ("%s", sonde_unwind_end_name (end));
}

/* The child's own returns, innermost first, one after the other. */
static void
assert_has_returns (Fixture *f)
{
  const Shared *shared = f->shared;
  size_t first = 0;

  g_assert_cmpuint (shared->n_returns, ==, DEPTH);
  while (first < f->n_addrs && f->addrs[first] != shared->returns[DEPTH - 1])
    first++;
  g_assert_cmpuint (first + DEPTH, <=, f->n_addrs);
  for (size_t i = 0; i < DEPTH; i++)
    g_assert_cmphex (f->addrs[first + i], ==, shared->returns[DEPTH - 1 - i]);
}

static void
assert_complete (Fixture *f)
{
  SondeUnwindEnd end = unwind (f);

  if (end != SONDE_UNWIND_END_COMPLETE)
    dump (f, end);
  g_assert_cmpstr (sonde_unwind_end_name (end), ==, "complete");
  assert_has_returns (f);
}

static __attribute__ ((noinline)) int
descend (Shared *shared, unsigned level, void (*bottom) (void))
{
  volatile uint8_t room[200];
  int r = 0;

  room[level] = (uint8_t) level;
  shared->returns[level] = (uint64_t) __builtin_return_address (0);
  shared->n_returns = level + 1;
  if (level + 1 < DEPTH)
    r = descend (shared, level + 1, bottom);
  else
    bottom ();
  return r + room[level];
}

static void
stop_here (void)
{
  raise (SIGSTOP);
}

static void
handle_signal (int number)
{
  raise (SIGSTOP);
}

static void
stop_in_handler (void)
{
  struct sigaction action = { .sa_handler = handle_signal };

  sigaction (SIGUSR1, &action, NULL);
  raise (SIGUSR1);
}

static void
stop_on_other_stack (void)
{
  struct sigaction action = { .sa_handler = handle_signal, .sa_flags = SA_ONSTACK };
  stack_t stack = { .ss_size = 65536 };

  stack.ss_sp
      = mmap (NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigaltstack (&stack, NULL);
  sigaction (SIGUSR1, &action, NULL);
  raise (SIGUSR1);
}

/* A child that stops in @bottom, DEPTH levels down. Signals before the SIGSTOP are let through. */
static void
start (Fixture *f, void (*bottom) (void))
{
  int status;

  f->child = fork ();
  g_assert_cmpint (f->child, >=, 0);
  if (f->child == 0)
    {
      ptrace (PTRACE_TRACEME, 0, NULL, NULL);
      _exit (descend (f->shared, 0, bottom));
    }
  for (;;)
    {
      g_assert_cmpint (waitpid (f->child, &status, 0), ==, f->child);
      g_assert_true (WIFSTOPPED (status));
      if (WSTOPSIG (status) == SIGSTOP)
        break;
      ptrace (PTRACE_CONT, f->child, NULL, WSTOPSIG (status));
    }
  read_mappings (f);
  read_state (f);
}

static void
test_known_returns (Fixture *f, gconstpointer data)
{
  start (f, stop_here);
  assert_complete (f);
  g_assert_cmphex (f->addrs[0], ==, f->regs[8]);
}

static void
test_signal (Fixture *f, gconstpointer data)
{
  start (f, stop_in_handler);
  assert_complete (f);
}

static void
test_other_stack (Fixture *f, gconstpointer data)
{
  SondeUnwindEnd end;

  start (f, stop_on_other_stack);
  end = unwind (f);
  g_assert_true (end == SONDE_UNWIND_END_TRUNCATED_DUMP || end == SONDE_UNWIND_END_TRUNCATED_PAGE);
  g_assert_cmpuint (f->n_addrs, >=, 3);
}

static void *
run_thread (void *arg)
{
  Shared *shared = arg;

  shared->tid = (pid_t) syscall (SYS_gettid);
  descend (shared, 0, stop_here);
  return NULL;
}

static void
test_thread (Fixture *f, gconstpointer data)
{
  pid_t process = fork ();
  int status;

  g_assert_cmpint (process, >=, 0);
  if (process == 0)
    {
      pthread_t thread;

      pthread_create (&thread, NULL, run_thread, f->shared);
      pthread_join (thread, NULL);
      _exit (0);
    }
  /* the thread's SIGSTOP stops the whole process; then it can be seized */
  g_assert_cmpint (waitpid (process, &status, WUNTRACED), ==, process);
  g_assert_true (WIFSTOPPED (status));
  f->child = f->shared->tid;
  g_assert_cmpint (ptrace (PTRACE_SEIZE, f->child, NULL, NULL), ==, 0);
  g_assert_cmpint (ptrace (PTRACE_INTERRUPT, f->child, NULL, NULL), ==, 0);
  g_assert_cmpint (waitpid (f->child, &status, __WALL), ==, f->child);
  read_mappings (f);
  read_state (f);
  assert_complete (f);
  kill (process, SIGKILL);
  waitpid (f->child, &status, __WALL);
  waitpid (process, &status, 0);
  f->child = 0;
}

static bool
step (Fixture *f)
{
  int status;

  g_assert_cmpint (ptrace (PTRACE_SINGLESTEP, f->child, NULL, NULL), ==, 0);
  g_assert_cmpint (waitpid (f->child, &status, 0), ==, f->child);
  if (!WIFSTOPPED (status) || WSTOPSIG (status) != SIGTRAP)
    return false;
  read_state (f);
  return true;
}

/* Any instruction may be sampled, those of epilogues too. From the bottom the child returns to the
 * top; wherever it is, the callers of the top are the same. */
static void
test_each_instruction (Fixture *f, gconstpointer data)
{
  uint64_t top[MAX_FRAMES];
  size_t n_top = 0;
  size_t n_steps = 0;

  start (f, stop_here);
  assert_complete (f);
  while (f->addrs[f->n_addrs - ++n_top] != f->shared->returns[0])
    ;
  memcpy (top, f->addrs + f->n_addrs - n_top, n_top * sizeof *top);
  for (; f->regs[8] != f->shared->returns[0]; n_steps++)
    {
      SondeUnwindEnd end;

      g_assert_true (step (f));
      end = unwind (f);
      if (end != SONDE_UNWIND_END_COMPLETE)
        dump (f, end);
      g_assert_cmpstr (sonde_unwind_end_name (end), ==, "complete");
      g_assert_cmpuint (f->n_addrs, >=, n_top);
      g_assert_cmpmem (top, n_top * 8, f->addrs + f->n_addrs - n_top, n_top * 8);
    }
  g_assert_cmpuint (n_steps, >, DEPTH);
}

/* The dynamic linker's entry code has no CFI; a stack that ends there is whole. */
static void
test_entry (Fixture *f, gconstpointer data)
{
  size_t n_complete = 0;
  int status;

  f->child = fork ();
  g_assert_cmpint (f->child, >=, 0);
  if (f->child == 0)
    {
      ptrace (PTRACE_TRACEME, 0, NULL, NULL);
      execl ("/bin/true", "true", NULL);
      _exit (1);
    }
  g_assert_cmpint (waitpid (f->child, &status, 0), ==, f->child);
  g_assert_true (WIFSTOPPED (status));
  read_mappings (f);
  read_state (f);
  g_assert_cmpstr (sonde_unwind_end_name (unwind (f)), ==, "complete");
  g_assert_cmpuint (f->n_addrs, ==, 1);
  for (size_t i = 0; i < 1000; i++)
    {
      g_assert_true (step (f));
      if (unwind (f) == SONDE_UNWIND_END_COMPLETE)
        n_complete++;
    }
  g_assert_cmpuint (n_complete, >=, 990);
}

static void
test_depth_limit (Fixture *f, gconstpointer data)
{
  start (f, stop_here);
  for (size_t max = 1; max < DEPTH; max++)
    {
      SondeUnwindEnd end
          = sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs, max, &f->n_addrs);

      g_assert_cmpint (end, ==, SONDE_UNWIND_END_DEPTH_LIMIT);
      g_assert_cmpuint (f->n_addrs, ==, max);
    }
}

/* Every size of the copy gives either all frames, or the first ones and a word that they are not
 * all. */
static void
test_truncation (Fixture *f, gconstpointer data)
{
  uint64_t whole[MAX_FRAMES];
  size_t n_whole;
  size_t n_complete = 0;
  size_t n_truncated = 0;

  start (f, stop_here);
  assert_complete (f);
  n_whole = f->n_addrs;
  memcpy (whole, f->addrs, sizeof whole);

  for (size_t size = 0; size <= f->stack_size; size += size < 16384 ? 8 : 1024)
    {
      SondeUnwindEnd end;

      f->state.stack_size_bytes = size;
      f->state.dump_size_bytes = size % 16 == 0 ? size : size + 8;
      end = unwind (f);
      g_assert_cmpuint (f->n_addrs, <=, n_whole);
      g_assert_cmpmem (whole, f->n_addrs * 8, f->addrs, f->n_addrs * 8);
      if (end == SONDE_UNWIND_END_COMPLETE)
        {
          g_assert_cmpuint (f->n_addrs, ==, n_whole);
          n_complete++;
          continue;
        }
      if (size % 16 == 0)
        g_assert_cmpint (end, ==, SONDE_UNWIND_END_TRUNCATED_DUMP);
      else
        g_assert_cmpint (end, ==, SONDE_UNWIND_END_TRUNCATED_PAGE);
      n_truncated++;
    }
  g_assert_cmpuint (n_complete, >, 0);
  g_assert_cmpuint (n_truncated, >, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test)                                                                            \
  g_test_add ("/stopped-child/cfi/" path, Fixture, sonde_unwinder_new_cfi, set_up, test,           \
              tear_down);                                                                          \
  g_test_add ("/stopped-child/libdwfl/" path, Fixture, sonde_unwinder_new_libdwfl, set_up, test,   \
              tear_down)
  ADD ("has-the-known-returns", test_known_returns);
  ADD ("is-unwound-through-a-signal-handler", test_signal);
  ADD ("is-unwound-in-a-thread", test_thread);
  ADD ("is-unwound-at-each-instruction", test_each_instruction);
  ADD ("is-whole-in-the-dynamic-linkers-entry-code", test_entry);
  ADD ("has-another-stack-that-is-not-in-the-copy", test_other_stack);
  ADD ("is-never-called-complete-when-cut", test_truncation);
  ADD ("is-cut-at-the-depth-limit", test_depth_limit);
  return g_test_run ();
}
