/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program of this machine copies its own registers and stack, and is unwound. Needs libc alone.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "unwind/unwinder.h"

#define DEPTH      12
#define MAX_FRAMES 128
#define N_REGS     14 /* x19 to x30, sp, pc */
#define MAX_STACK  (256 * 1024)

typedef void Bottom (void);

/* Where each level returns to, and what was copied at the bottom. */
static struct
{
  uint64_t returns[DEPTH];
  unsigned n_returns;
  uint64_t regs[N_REGS];
  uint8_t stack[MAX_STACK];
  size_t stack_bytes;
} copied;

static struct
{
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeProcess *process;
  SondeUnwinder *unwinder;
  uint64_t addrs[MAX_FRAMES];
  size_t n_addrs;
} self;

static unsigned n_cases;

static void
report (bool good, const char *what)
{
  printf ("%s %u %s\n", good ? "ok" : "not ok", ++n_cases, what);
}

/* Up to the environment, which lies above every frame. */
static void
copy_state (const ucontext_t *context)
{
  const mcontext_t *m = &context->uc_mcontext;

  for (unsigned i = 0; i < 12; i++)
    copied.regs[i] = m->regs[19 + i];
  copied.regs[12] = m->sp;
  copied.regs[13] = m->pc;
  copied.stack_bytes = ((uint64_t) environ - m->sp) & ~UINT64_C (7);
  if (copied.stack_bytes > MAX_STACK)
    abort ();
  memcpy (copied.stack, (const void *) m->sp, copied.stack_bytes);
}

static __attribute__ ((noinline)) void
copy_here (void)
{
  ucontext_t context;

  getcontext (&context);
  copy_state (&context);
}

static void
handle_signal (int number, siginfo_t *info, void *context)
{
  copy_state (context);
}

static void
copy_in_signal (void)
{
  struct sigaction action = { .sa_sigaction = handle_signal, .sa_flags = SA_SIGINFO };

  sigaction (SIGUSR1, &action, NULL);
  raise (SIGUSR1);
}

/* A leaf: no frame, no CFI but the initial row, the caller in lr. */
void trap (void);
__asm__(".text\n"
        "trap:\n"
        "  .cfi_startproc\n"
        "  brk #1\n"
        "  ret\n"
        "  .cfi_endproc\n");

static void
handle_trap (int number, siginfo_t *info, void *context)
{
  copy_state (context);
  ((ucontext_t *) context)->uc_mcontext.pc += 4;
}

static void
copy_in_leaf (void)
{
  struct sigaction action = { .sa_sigaction = handle_trap, .sa_flags = SA_SIGINFO };

  sigaction (SIGTRAP, &action, NULL);
  trap ();
}

static __attribute__ ((noinline)) unsigned
descend (unsigned level, Bottom *bottom)
{
  volatile uint8_t room[200];
  unsigned result = 0;

  room[level] = (uint8_t) level;
  copied.returns[level] = (uint64_t) __builtin_extract_return_addr (__builtin_return_address (0))
                          & UINT64_C (0xffffffffffff);
  copied.n_returns = level + 1;
  if (level + 1 < DEPTH)
    result = descend (level + 1, bottom);
  else
    bottom ();
  return result + room[level];
}

static SondeUnwindEnd
unwind (size_t stack_bytes)
{
  const SondeUserState state = { .abi = PERF_SAMPLE_REGS_ABI_64,
                                 .regs_mask = sonde_unwinder_regs_mask (),
                                 .regs = copied.regs,
                                 .n_regs = N_REGS,
                                 .stack = copied.stack,
                                 .stack_size_bytes = stack_bytes,
                                 .dump_size_bytes = stack_bytes };

  return sonde_unwinder_unwind (self.unwinder, self.process, &state, self.addrs, MAX_FRAMES,
                                &self.n_addrs);
}

static bool
has_returns (void)
{
  size_t first = 0;

  while (first < self.n_addrs && self.addrs[first] != copied.returns[DEPTH - 1])
    first++;
  if (copied.n_returns != DEPTH || first + DEPTH > self.n_addrs)
    return false;
  for (size_t i = 0; i < DEPTH; i++)
    if (self.addrs[first + i] != copied.returns[DEPTH - 1 - i])
      return false;
  return true;
}

static void
test_whole (Bottom *bottom, const char *what)
{
  SondeUnwindEnd end;
  bool good;

  descend (0, bottom);
  end = unwind (copied.stack_bytes);
  good = end == SONDE_UNWIND_END_COMPLETE && has_returns () && self.addrs[0] == copied.regs[13];
  if (!good)
    {
      printf ("# %s\n", sonde_unwind_end_name (end));
      for (size_t i = 0; i < self.n_addrs; i++)
        printf ("# %zu %#llx\n", i, (unsigned long long) self.addrs[i]);
    }
  report (good, what);
}

static void
test_cut (void)
{
  uint64_t whole[MAX_FRAMES];
  size_t n_whole;
  size_t n_cut = 0;
  bool good = true;

  descend (0, copy_here);
  unwind (copied.stack_bytes);
  n_whole = self.n_addrs;
  memcpy (whole, self.addrs, sizeof whole);
  for (size_t size = 0; size < copied.stack_bytes; size += 8)
    {
      SondeUnwindEnd end = unwind (size);

      good = good && self.n_addrs <= n_whole
             && memcmp (whole, self.addrs, self.n_addrs * sizeof *whole) == 0
             && (end == SONDE_UNWIND_END_TRUNCATED_DUMP
                 || (end == SONDE_UNWIND_END_COMPLETE && self.n_addrs == n_whole));
      n_cut += end == SONDE_UNWIND_END_TRUNCATED_DUMP;
    }
  report (good && n_cut > DEPTH, "a-cut-stack-is-never-called-complete");
}

#ifdef __ARM_FEATURE_PAC_DEFAULT
#define IS_SIGNED true
#else
#define IS_SIGNED false
#endif

/* Else the other cases would prove nothing about authentication codes. */
static void
test_signed (void)
{
  unsigned n_signed = 0;

  descend (0, copy_here);
  for (size_t i = 0; i < copied.stack_bytes; i += 8)
    {
      uint64_t word;

      memcpy (&word, copied.stack + i, sizeof word);
      for (unsigned level = 0; level < DEPTH; level++)
        if (word != copied.returns[level]
            && (word & UINT64_C (0xffffffffffff)) == copied.returns[level])
          {
            n_signed++;
            break;
          }
    }
  /* A code has as few as seven bits, so one of them may well be zero. */
  report (IS_SIGNED ? n_signed > DEPTH / 2 : n_signed == 0,
          "return-addresses-are-signed-if-built-so");
}

/* This program's own code; it is static, so there is no other. */
static bool
read_mappings (const char *program)
{
  FILE *maps = fopen ("/proc/self/maps", "re");
  SondeProcessMapping mapping = { .file.inode = 1, .path = program };
  char line[512];
  bool found = false;

  if (maps == NULL)
    return false;
  while (!found && fgets (line, sizeof line, maps) != NULL)
    {
      unsigned long long start, end, offset;
      char perms[5];

      found = sscanf (line, "%llx-%llx %4s %llx", &start, &end, perms, &offset) == 4
              && (uint64_t) read_mappings - start < end - start;
      mapping.start = start;
      mapping.end = end;
      mapping.offset = offset;
    }
  fclose (maps);
  return found
         && sonde_process_add_mapping (self.processes, self.process, &mapping,
                                       SONDE_MAP_FROM_SNAPSHOT)
                == 1
         && sonde_module_store_load (self.modules, &mapping.file,
                                     open (program, O_RDONLY | O_CLOEXEC))
                == 0;
}

int
main (int argc, char **argv)
{
  self.modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  self.processes = sonde_process_table_new (self.modules);
  self.process = sonde_process_table_ensure (self.processes, 1, 0);
  self.unwinder = sonde_unwinder_new_cfi (self.processes);
  puts ("1..6");
  report (read_mappings (argv[0]), "this-program-can-be-read");
  test_signed ();
  test_whole (copy_here, "the-stack-has-the-known-returns");
  test_whole (copy_in_signal, "an-interrupted-stack-has-the-known-returns");
  test_whole (copy_in_leaf, "a-leaf-has-its-caller-in-lr");
  test_cut ();
  sonde_unwinder_free (self.unwinder);
  sonde_process_table_free (self.processes);
  sonde_module_store_free (self.modules);
  return 0;
}
