/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unwinds by libdwfl, as the reference: one Dwfl for each process, one Elf for each file. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf-file.h"
#include "unwind/process-table.h"
#include "unwind/stack-copy.h"
#include "unwind/unwinder-private.h"

enum
{
  MAX_MODULES = 1024, /* libdwfl's list is walked for each one reported */
  MAX_ENTRIES = 4,
  MAX_DWFLS = 512, /* about 10 KiB each, and more with the functions it has met */
  N_OUTERMOST = 256,
  RED_ZONE_BYTES = 128, /* below the stack pointer, of leaf functions */
};

#define RUNNING SONDE_N_UNWIND_ENDS

/* One call of sonde_unwinder_unwind(). The flags tell of the step from the last frame stored. */
typedef struct
{
  const SondeUserState *state;
  uint64_t *addrs;
  size_t max_addrs;
  size_t n_addrs;
  uint64_t sp;        /* where the copy begins */
  uint64_t frame_sp;  /* of the last frame */
  uint64_t lookup_pc; /* of the last frame: within the call, not behind it */
  SondeUnwindEnd stop;
  bool crossed_signal;
  bool read_above;
  bool read_wild;
  bool read_zero;
} DwflWalk;

typedef struct
{
  SondeUnwindModule *module; /* owned reference */
  uint64_t low;              /* the image's first page; libdwfl computes the bias from it */
  uint64_t high;
  uint64_t bias;
} DwflModule;

typedef struct
{
  DwflModule *modules; /* sorted by low, not overlapping */
  size_t n_modules;
  DwflModule entries[MAX_ENTRIES]; /* borrowed; those with entry code without CFI */
  size_t n_entries;
} DwflModules;

typedef struct DwflUnwinder DwflUnwinder;
typedef struct ProcessData ProcessData;
struct ProcessData
{
  DwflUnwinder *unwinder;
  SondeProcess *process;
  Dwfl *dwfl;
  DwflModules modules;
  uint64_t serial; /* of the modules */
  ProcessData *newer;
  ProcessData *older;
};

struct DwflUnwinder
{
  SondeUnwinder base;
  SondeUnwinder *of_32_bit; /* ours: libdwfl is given files of this machine's word size alone */
  SondeProcessTable *processes;
  Elf64_Ehdr header; /* tells libdwfl the architecture */
  Elf *elf;
  ProcessData *newest;
  ProcessData *oldest;
  size_t n_dwfls;
  DwflWalk walk;
  /* Places known to have no caller, so that not every sample asks for the rule. Module id in the
   * upper half, virtual address below. */
  uint64_t outermost[N_OUTERMOST];
};

/* --- modules, as the mappings of a process change --- */

static int
find_elf (Dwfl_Module *dwfl_module,
          void **user_data,
          const char *name,
          Dwarf_Addr base,
          char **file_name,
          Elf **elf)
{
  SondeUnwindModule *module = *user_data;
  Elf *shared = module != NULL ? sonde_module_elf (module) : NULL;

  /* one more reference to it, which libdwfl gives back with elf_end() */
  if (shared != NULL)
    *elf = elf_begin (-1, ELF_C_READ, shared);
  return -1;
}

static int
find_debuginfo (Dwfl_Module *module,
                void **user_data,
                const char *name,
                Dwarf_Addr base,
                const char *file_name,
                const char *debuglink_file,
                GElf_Word debuglink_crc,
                char **debuginfo_file_name)
{
  return -1;
}

/* They never open a file: what libdwfl may see comes out of sonde_module_elf(). */
static const Dwfl_Callbacks callbacks = {
  .find_elf = find_elf,
  .find_debuginfo = find_debuginfo,
};

static int
compare_modules (const void *a, const void *b)
{
  const DwflModule *left = a;
  const DwflModule *right = b;

  if (left->low != right->low)
    return left->low < right->low ? -1 : 1;
  return left->high < right->high ? -1 : left->high > right->high;
}

/* The images behind the mappings, each once, without references yet. */
static DwflModule *
collect (const SondeProcess *process, size_t *n_modules)
{
  size_t n_mappings;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);
  DwflModule *modules = calloc (n_mappings + 1, sizeof *modules);
  size_t n_kept = 0;
  size_t n = 0;

  if (modules == NULL)
    return NULL;
  for (size_t i = 0; i < n_mappings && n < MAX_MODULES; i++)
    {
      DwflModule *module = &modules[n];
      uint64_t low;
      uint64_t high;

      if (mappings[i].module == NULL
          || (n > 0 && modules[n - 1].module == mappings[i].module
              && modules[n - 1].bias == mappings[i].bias))
        continue;
      sonde_module_extent (mappings[i].module, &low, &high);
      *module = (DwflModule){
        .module = mappings[i].module,
        .low = low + mappings[i].bias,
        .high = high + mappings[i].bias,
        .bias = mappings[i].bias,
      };
      if (module->low < module->high)
        n++;
    }
  qsort (modules, n, sizeof *modules, compare_modules);
  /* One whose range runs into the next one's loses the rest: there the other was mapped. */
  for (size_t i = 0; i < n; i++)
    {
      if (n_kept > 0 && modules[n_kept - 1].low == modules[i].low)
        continue;
      if (n_kept > 0 && modules[n_kept - 1].high > modules[i].low)
        modules[n_kept - 1].high = modules[i].low;
      modules[n_kept++] = modules[i];
    }
  *n_modules = n_kept;
  return modules;
}

static bool
is_same (const DwflModule *a, const DwflModule *b)
{
  return a->module == b->module && a->low == b->low && a->high == b->high;
}

static int
report_all (const DwflModules *self, Dwfl *dwfl, const DwflModule *modules, size_t n)
{
  bool adds = true;
  size_t j = 0;
  int r = 0;

  /* Is each of the old ones among the new ones? Both are sorted. */
  for (size_t i = 0; i < self->n_modules && adds; i++)
    {
      while (j < n && !is_same (&self->modules[i], &modules[j]))
        j++;
      adds = j++ < n;
    }
  if (adds)
    dwfl_report_begin_add (dwfl);
  else
    dwfl_report_begin (dwfl);
  j = 0;
  for (size_t i = 0; i < n && r == 0; i++)
    {
      if (adds && j < self->n_modules && is_same (&self->modules[j], &modules[i]))
        j++;
      else
        {
          Dwfl_Module *dwfl_module;
          void **user_data;
          char name[16];

          /* part of libdwfl's key, so that another file at the same place is another module */
          snprintf (name, sizeof name, "%u", sonde_module_id (modules[i].module));
          dwfl_module = dwfl_report_module (dwfl, name, modules[i].low, modules[i].high);
          if (dwfl_module == NULL)
            r = -ENOMEM;
          else
            {
              dwfl_module_info (dwfl_module, &user_data, NULL, NULL, NULL, NULL, NULL, NULL);
              *user_data = modules[i].module;
            }
        }
    }
  dwfl_report_end (dwfl, NULL, NULL);
  return r;
}

/* After dwfl_end(). */
static void
clear_modules (DwflModules *self)
{
  for (size_t i = 0; i < self->n_modules; i++)
    sonde_module_unref (self->modules[i].module);
  free (self->modules);
  *self = (DwflModules){ 0 };
}

/* Reports the modules of @process to @dwfl: only the new ones if none went, else all of them.
 * Errors: -ENOMEM. */
static int
update_modules (DwflModules *self, Dwfl *dwfl, const SondeProcess *process)
{
  DwflModules old = *self;
  size_t n_modules;
  DwflModule *modules = collect (process, &n_modules);
  int r;

  if (modules == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < n_modules; i++)
    sonde_module_ref (modules[i].module);
  r = report_all (&old, dwfl, modules, n_modules);
  self->modules = modules;
  self->n_modules = n_modules;
  self->n_entries = 0;
  for (size_t i = 0; i < n_modules && self->n_entries < MAX_ENTRIES; i++)
    if (sonde_module_has_bare_entry (modules[i].module))
      self->entries[self->n_entries++] = modules[i];
  /* Only now: until dwfl_report_end() the Dwfl may have used them. */
  clear_modules (&old);
  return r;
}

static bool
is_entry (const DwflModules *self, uint64_t address)
{
  for (size_t i = 0; i < self->n_entries; i++)
    if (sonde_module_is_entry (self->entries[i].module, address - self->entries[i].bias))
      return true;
  return false;
}

/* --- a process --- */

static pid_t
next_thread (Dwfl *dwfl, void *arg, void **thread_arg)
{
  return 0; /* never asked: get_thread answers */
}

static bool
get_thread (Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
  *thread_arg = arg;
  return true;
}

/* What the call frame instructions say of a place; free() it. */
static Dwarf_Frame *
find_rules (Dwfl *dwfl, uint64_t pc)
{
  Dwarf_Addr bias;
  Dwfl_Module *module = dwfl_addrmodule (dwfl, pc);
  Dwarf_CFI *cfi = module != NULL ? dwfl_module_eh_cfi (module, &bias) : NULL;
  Dwarf_Frame *rules;

  return cfi != NULL && dwarf_cfi_addrframe (cfi, pc - bias, &rules) == 0 ? rules : NULL;
}

/* Compilers let a rule point into the red zone when an epilogue has just popped the register from
 * there. The copy begins above, but the register itself has the value. */
static bool
read_popped (Dwfl *dwfl, const DwflWalk *walk, uint64_t address, Dwarf_Word *result)
{
  Dwarf_Frame *rules = find_rules (dwfl, walk->addrs[0]);
  bool found = false;
  Dwarf_Op *place;
  size_t n_place;
  uint64_t cfa;

  if (rules != NULL && dwarf_frame_cfa (rules, &place, &n_place) == 0 && n_place == 1
      && place[0].atom == DW_OP_bregx && place[0].number < SONDE_N_DWARF_REGISTERS
      && sonde_user_state_dwarf_register (walk->state, (unsigned) place[0].number, &cfa))
    {
      cfa += place[0].number2;
      for (unsigned i = 0; i < SONDE_N_DWARF_REGISTERS && !found; i++)
        {
          Dwarf_Op ops_memory[3];
          Dwarf_Op *ops;
          size_t n_ops;

          /* "saved at CFA + number", and not at CFA itself */
          found = dwarf_frame_register (rules, (int) i, ops_memory, &ops, &n_ops) == 0 && n_ops == 2
                  && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst
                  && cfa + ops[1].number == address
                  && sonde_user_state_dwarf_register (walk->state, i, result);
        }
    }
  free (rules);
  return found;
}

/* All eight bytes or nothing, and nothing but the copy. */
static bool
read_memory (Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *arg)
{
  DwflWalk *walk = &((ProcessData *) arg)->unwinder->walk;
  uint64_t offset = address - walk->sp;
  size_t size = walk->state->stack_size_bytes;

  if (address >= walk->sp && offset < size && size - offset >= sizeof *result)
    {
      memcpy (result, walk->state->stack + offset, sizeof *result);
      walk->read_zero = walk->read_zero || *result == 0;
      return true;
    }
  if (walk->crossed_signal || (address >= walk->sp && offset < SONDE_STACK_COPY_MAX_BYTES))
    walk->read_above = true;
  else if (address >= walk->sp || walk->sp - address > RED_ZONE_BYTES)
    walk->read_wild = true;
  else
    return walk->n_addrs == 1 && read_popped (dwfl, walk, address, result);
  return false;
}

static bool
set_registers (Dwfl_Thread *thread, void *arg)
{
  const DwflWalk *walk = &((ProcessData *) arg)->unwinder->walk;
  Dwarf_Word run[SONDE_N_DWARF_REGISTERS];
  unsigned n_run = 0;
  uint64_t pc;
  uint64_t sp;

  for (unsigned i = 0; i <= SONDE_N_DWARF_REGISTERS; i++)
    {
      if (sonde_user_state_dwarf_register (walk->state, i, &run[n_run]))
        n_run++;
      else if (n_run > 0)
        {
          if (!dwfl_thread_state_registers (thread, (int) (i - n_run), n_run, run))
            return false;
          n_run = 0;
        }
    }
  if (!sonde_user_state_pc (walk->state, &pc, &sp))
    return false;
  dwfl_thread_state_register_pc (thread, pc);
  return true;
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
  .next_thread = next_thread,
  .get_thread = get_thread,
  .memory_read = read_memory,
  .set_initial_registers = set_registers,
};

static int
stop (DwflWalk *walk, SondeUnwindEnd end)
{
  walk->stop = end;
  return DWARF_CB_ABORT;
}

static int
take_frame (Dwfl_Frame *frame, void *arg)
{
  ProcessData *data = arg;
  DwflWalk *walk = &data->unwinder->walk;
  Dwarf_Addr pc;
  Dwarf_Word sp;
  bool is_activation;

  if (!dwfl_frame_pc (frame, &pc, NULL) || dwfl_frame_reg (frame, SONDE_DWARF_SP, &sp) != 0)
    return stop (walk, SONDE_UNWIND_END_BAD_CFI);
  if (pc == 0 && walk->n_addrs > 0)
    return stop (walk, SONDE_UNWIND_END_COMPLETE);
  if (walk->n_addrs == walk->max_addrs)
    return stop (walk, SONDE_UNWIND_END_DEPTH_LIMIT);

  /* Whether this frame was interrupted makes libdwfl unwind it, hence read memory for the next. */
  walk->read_above = walk->read_wild = walk->read_zero = false;
  if (!dwfl_frame_pc (frame, &pc, &is_activation))
    return stop (walk, SONDE_UNWIND_END_BAD_CFI);
  /* Each frame must lie above the one before; a leaf without a frame of its own may share its
   * caller's stack pointer, and behind a signal handler there may be another stack. */
  if (walk->n_addrs > 0 && !is_activation && sp <= walk->frame_sp
      && (walk->n_addrs > 1 || sp < walk->frame_sp))
    return stop (walk, SONDE_UNWIND_END_LOOP);
  if (is_activation && walk->n_addrs > 0)
    walk->crossed_signal = true;

  walk->addrs[walk->n_addrs++] = pc;
  walk->frame_sp = sp;
  walk->lookup_pc = is_activation ? pc : pc - 1;
  if (is_entry (&data->modules, walk->lookup_pc))
    return stop (walk, SONDE_UNWIND_END_COMPLETE);
  return DWARF_CB_OK;
}

static void
unlink_data (ProcessData *data)
{
  DwflUnwinder *unwinder = data->unwinder;

  *(data->newer != NULL ? &data->newer->older : &unwinder->newest) = data->older;
  *(data->older != NULL ? &data->older->newer : &unwinder->oldest) = data->newer;
  unwinder->n_dwfls--;
}

static void
link_data (ProcessData *data)
{
  DwflUnwinder *unwinder = data->unwinder;

  data->newer = NULL;
  data->older = unwinder->newest;
  *(data->older != NULL ? &data->older->newer : &unwinder->oldest) = data;
  unwinder->newest = data;
  unwinder->n_dwfls++;
}

static void
free_data (void *pointer)
{
  ProcessData *data = pointer;

  unlink_data (data);
  dwfl_end (data->dwfl);
  clear_modules (&data->modules);
  free (data);
}

/* The process's Dwfl with the modules that the table knows now. */
static ProcessData *
ensure_data (DwflUnwinder *self, SondeProcess *process)
{
  ProcessData *data = sonde_process_unwind_data (process);
  uint64_t serial = sonde_process_resolve_modules (self->processes, process);

  if (data != NULL)
    unlink_data (data);
  else
    {
      data = calloc (1, sizeof *data);
      if (data == NULL)
        return NULL;
      data->unwinder = self;
      data->process = process;
      data->dwfl = dwfl_begin (&callbacks);
      if (data->dwfl == NULL
          || !dwfl_attach_state (data->dwfl, self->elf, sonde_process_pid (process),
                                 &thread_callbacks, data))
        {
          dwfl_end (data->dwfl);
          free (data);
          return NULL;
        }
      if (self->n_dwfls >= MAX_DWFLS)
        sonde_process_set_unwind_data (self->oldest->process, NULL, NULL);
      sonde_process_set_unwind_data (process, data, free_data);
    }
  link_data (data);
  if (data->serial != serial)
    {
      if (update_modules (&data->modules, data->dwfl, process) < 0)
        {
          sonde_process_set_unwind_data (process, NULL, NULL);
          return NULL;
        }
      data->serial = serial;
    }
  return data;
}

/* libdwfl calls a return address that it could not compute "undefined" as well; the rule tells. */
static bool
has_no_caller (Dwfl *dwfl, uint64_t pc)
{
  Dwarf_Frame *rules = find_rules (dwfl, pc);
  Dwarf_Op ops_memory[3];
  Dwarf_Op *ops;
  size_t n_ops;
  bool is_undefined;

  if (rules == NULL)
    return false;
  is_undefined = dwarf_frame_register (rules, dwarf_frame_info (rules, NULL, NULL, NULL),
                                       ops_memory, &ops, &n_ops)
                     == 0
                 && n_ops == 0 && ops == ops_memory;
  free (rules);
  return is_undefined;
}

/* libdwfl stopped by itself: why? */
static SondeUnwindEnd
explain (DwflUnwinder *self, ProcessData *data, bool is_undefined)
{
  const DwflWalk *walk = &self->walk;
  const SondeProcessMapping *mapping
      = sonde_process_find_mapping (self->processes, data->process, walk->lookup_pc);
  bool has_module = mapping != NULL && mapping->module != NULL;
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  uint64_t *outermost;
  uint64_t key;

  if (!has_module
      || !sonde_module_find_cfi (mapping->module, walk->lookup_pc - mapping->bias, &section, &cie,
                                 &fde))
    {
      /* Frame pointers were tried; where there are none, what they hold proves nothing. */
      if (walk->read_above && walk->state->stack_size_bytes == walk->state->dump_size_bytes)
        return SONDE_UNWIND_END_TRUNCATED_DUMP;
      return has_module ? SONDE_UNWIND_END_NO_CFI : SONDE_UNWIND_END_NO_MODULE;
    }
  if (walk->read_above)
    return sonde_user_state_truncation (walk->state);
  if (!is_undefined || walk->read_wild)
    return SONDE_UNWIND_END_BAD_CFI;
  if (walk->read_zero)
    return SONDE_UNWIND_END_COMPLETE;
  key = (uint64_t) sonde_module_id (mapping->module) << 32 ^ (walk->lookup_pc - mapping->bias);
  outermost = &self->outermost[(key ^ key >> 32) % N_OUTERMOST];
  if (*outermost != key && has_no_caller (data->dwfl, walk->lookup_pc))
    *outermost = key;
  return *outermost == key ? SONDE_UNWIND_END_COMPLETE : SONDE_UNWIND_END_BAD_CFI;
}

static void
unwinder_free (SondeUnwinder *base)
{
  DwflUnwinder *self = (DwflUnwinder *) base;

  while (self->newest != NULL)
    sonde_process_set_unwind_data (self->newest->process, NULL, NULL);
  sonde_unwinder_free (self->of_32_bit);
  elf_end (self->elf);
  free (self);
}

static SondeUnwindEnd
unwind (SondeUnwinder *base,
        SondeProcess *process,
        const SondeUserState *state,
        uint64_t *addrs,
        size_t max_addrs,
        size_t *n_addrs)
{
  DwflUnwinder *self = (DwflUnwinder *) base;
  DwflWalk *walk = &self->walk;
  ProcessData *data;
  int r;

  *walk = (DwflWalk){ .state = state, .addrs = addrs, .max_addrs = max_addrs, .stop = RUNNING };
  if (!sonde_user_state_pc (state, &walk->lookup_pc, &walk->sp))
    return SONDE_UNWIND_END_NO_MODULE;
  addrs[0] = walk->lookup_pc;
  *n_addrs = 1;
  data = ensure_data (self, process);
  if (data == NULL)
    return SONDE_UNWIND_END_NO_MODULE;

  r = dwfl_getthread_frames (data->dwfl, sonde_process_pid (process), take_frame, data);
  if (walk->n_addrs > 0)
    *n_addrs = walk->n_addrs;
  return walk->stop != RUNNING ? walk->stop : explain (self, data, r == 0);
}

static SondeUnwindEnd
unwind_32_bit (SondeUnwinder *base,
               SondeProcess *process,
               const SondeUserState *state,
               uint64_t *addrs,
               size_t max_addrs,
               size_t *n_addrs)
{
  return sonde_unwinder_unwind (((DwflUnwinder *) base)->of_32_bit, process, state, addrs,
                                max_addrs, n_addrs);
}

static const SondeUnwinderOps ops
    = { unwinder_free, unwind, SONDE_HAS_I386 ? unwind_32_bit : NULL };

SondeUnwinder *
sonde_unwinder_new_libdwfl (SondeProcessTable *processes)
{
  DwflUnwinder *self = calloc (1, sizeof *self);

  if (self == NULL)
    return NULL;
  self->base.ops = &ops;
  self->processes = processes;
  self->header = (Elf64_Ehdr){
    .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
    .e_type = ET_DYN,
    .e_machine = SONDE_ELF_NATIVE_MACHINE,
    .e_version = EV_CURRENT,
    .e_ehsize = sizeof self->header,
  };
  elf_version (EV_CURRENT);
  self->elf = elf_memory ((char *) &self->header, sizeof self->header);
  self->of_32_bit = SONDE_HAS_I386 ? sonde_unwinder_new_cfi (processes) : NULL;
  if (self->elf == NULL || (SONDE_HAS_I386 && self->of_32_bit == NULL))
    {
      unwinder_free (&self->base);
      return NULL;
    }
  return &self->base;
}
