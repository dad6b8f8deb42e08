/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/process/sampler.h"

#include <linux/perf_event.h>
#include <string.h>

#include "daemon/capture/names/function-names.h"
#include "daemon/capture/names/reused-places.h"
#include "protocol/frame.h"

#define KERNEL_NAME_SLOTS 4096 /* a power of two */

/* Two context markers and the reason why a stack ends. */
#define MAX_ADDRS (SONDE_SAMPLER_MAX_KERNEL_DEPTH + SONDE_SAMPLER_MAX_DEPTH + 3)

typedef struct
{
  uint64_t address; /* 0: empty */
  uint64_t made_up;
} KernelSlot;

#define N_CHAINS_BITS   6
#define MAX_CHAIN_ADDRS 128 /* kernel.perf_event_max_stack is 127 by default */

/* The user part of callchains, which came in a record of its own. */
typedef struct
{
  uint64_t cookie;
  int32_t tid; /* 0: empty */
  uint32_t n_addrs;
  uint64_t addrs[MAX_CHAIN_ADDRS];
} LaterChain;

struct SondeSampler
{
  const SondeMessageSetup *setup;
  guint max_depth;
  gboolean is_raw;
  SondeProcessTable *processes;
  SondeUnwinder *unwinder;
  SondeKallsyms *kallsyms; /* NULL: all kernel code is one leaf */
  SondeSampledAddresses *addresses;
  SondeInterpreters *interpreters; /* NULL: their programs are not shown */
  SondeJitNames *jit_names;
  SondeReusedPlaces *reused_places; /* NULL: addresses are not collected */
  SondeRecorder *recorder;
  SondeTally *tally;
  gint64 time_ns; /* of the sample that is unwound */
  uint64_t addrs[MAX_ADDRS];
  KernelSlot kernel_names[KERNEL_NAME_SLOTS];
  LaterChain chains[1 << N_CHAINS_BITS]; /* by cookie and thread */
};

static bool
is_trampoline (SondeProcess *process, uint64_t address, uint64_t *begin, void *user_data)
{
  SondeSampler *self = user_data;

  return sonde_jit_names_is_trampoline (self->jit_names, sonde_process_pid (process), address,
                                        self->time_ns, begin);
}

SondeSampler *
sonde_sampler_new (const SondeMessageSetup *setup,
                   SondeProcessTable *processes,
                   SondeUnwinder *unwinder,
                   SondeKallsyms *kallsyms,
                   SondeSampledAddresses *addresses,
                   SondeInterpreters *interpreters,
                   SondeJitNames *jit_names,
                   SondeRecorder *recorder,
                   SondeTally *tally)
{
  SondeSampler *self = g_new0 (SondeSampler, 1);

  self->setup = setup;
  self->max_depth = CLAMP (setup->asked.max_depth, 1, SONDE_SAMPLER_MAX_DEPTH);
  self->is_raw = setup->asked.raw;
  self->processes = processes;
  self->unwinder = unwinder;
  self->kallsyms = kallsyms;
  self->addresses = addresses;
  self->interpreters = interpreters;
  self->jit_names = jit_names;
  if (addresses != NULL)
    self->reused_places = sonde_reused_places_new (recorder);
  self->recorder = recorder;
  self->tally = tally;
  if (unwinder != NULL)
    sonde_unwinder_set_trampolines (unwinder, is_trampoline, self);

  return self;
}

void
sonde_sampler_set_addresses (SondeSampler *self, SondeSampledAddresses *addresses)
{
  g_assert (self->addresses != NULL && addresses != NULL);
  self->addresses = addresses;
}

void
sonde_sampler_free (SondeSampler *self)
{
  if (self == NULL)
    return;

  if (self->unwinder != NULL)
    sonde_unwinder_set_trampolines (self->unwinder, NULL, NULL);
  sonde_reused_places_free (self->reused_places);
  sonde_kallsyms_free (self->kallsyms);
  g_free (self);
}

gboolean
sonde_sampler_has_user_part (const SondePerfRecordSample *sample)
{
  if (sample->mode == SONDE_PERF_RECORD_MODE_USER || sample->abi != PERF_SAMPLE_REGS_ABI_NONE)
    return TRUE;
  for (size_t i = 0; i < sample->n_chain; i++)
    if (sample->chain[i] == (uint64_t) PERF_CONTEXT_USER)
      return TRUE;

  return FALSE;
}

/* --- how a stack ends --- */

static const char *
end_marker (SondeUnwindEnd end)
{
  switch (end)
    {
    case SONDE_UNWIND_END_TRUNCATED_DUMP:
    case SONDE_UNWIND_END_TRUNCATED_PAGE:
      return "[stack truncated]";
    case SONDE_UNWIND_END_NO_CFI:
    case SONDE_UNWIND_END_NO_MODULE:
      return "[no unwind data]";
    case SONDE_UNWIND_END_BAD_CFI:
    case SONDE_UNWIND_END_LOOP:
      return "[unwind error]";
    case SONDE_UNWIND_END_DEPTH_LIMIT:
      return "[depth limit]";
    case SONDE_UNWIND_END_CHAIN_SHORT:
      return "[frame pointers end]";
    case SONDE_UNWIND_END_COMPLETE:
    case SONDE_UNWIND_END_CHAIN_COMPLETE:
    case SONDE_N_UNWIND_ENDS:
    default:
      return NULL;
    }
}

_Static_assert(SONDE_STATISTIC_UNWIND_CHAIN_SHORT - SONDE_STATISTIC_UNWIND_COMPLETE
                   == SONDE_N_UNWIND_ENDS - 1,
               "statistics are in the order of SondeUnwindEnd");

static LaterChain *
chain_slot (SondeSampler *self, int32_t tid, uint64_t cookie)
{
  uint64_t hash = (cookie ^ (uint64_t) (uint32_t) tid << 32) * UINT64_C (0x9E3779B97F4A7C15);

  return &self->chains[hash >> (64 - N_CHAINS_BITS)];
}

/* Those behind @mark, up to the next mark. */
static const uint64_t *
marked_part (const uint64_t *chain, size_t n_chain, uint64_t mark, size_t *n_part)
{
  size_t begin = 0;
  size_t end;

  while (begin < n_chain && chain[begin] != mark)
    begin++;
  begin = MIN (begin + 1, n_chain);
  for (end = begin; end < n_chain && chain[end] < (uint64_t) PERF_CONTEXT_MAX;)
    end++;
  *n_part = end - begin;
  return chain + begin;
}

void
sonde_sampler_take_chain (SondeSampler *self, const SondePerfRecord *record)
{
  LaterChain *chain = chain_slot (self, record->tid, record->chain.cookie);
  size_t n_addrs;
  const uint64_t *addrs = marked_part (record->chain.addrs, record->chain.n_addrs,
                                       (uint64_t) PERF_CONTEXT_USER, &n_addrs);

  chain->tid = record->tid;
  chain->cookie = record->chain.cookie;
  chain->n_addrs = (uint32_t) MIN (n_addrs, MAX_CHAIN_ADDRS);
  memcpy (chain->addrs, addrs, chain->n_addrs * sizeof *addrs);
}

/* The addresses of the kernel's chain that belong to the program. */
static const uint64_t *
user_chain (SondeSampler *self, const SondePerfRecord *record, size_t *n_chain)
{
  const SondePerfRecordSample *sample = &record->sample;
  const uint64_t *addrs
      = marked_part (sample->chain, sample->n_chain, (uint64_t) PERF_CONTEXT_USER, n_chain);
  const uint64_t *cookie;
  const LaterChain *chain;
  size_t n_cookies;

  if (*n_chain > 0 || (self->setup->flags & SONDE_SPEC_DEFERRED) == 0)
    return addrs;
  cookie
      = marked_part (sample->chain, sample->n_chain, SONDE_PERF_CONTEXT_USER_DEFERRED, &n_cookies);
  if (n_cookies == 0)
    return addrs;
  chain = chain_slot (self, record->tid, *cookie);
  *n_chain = chain->tid == record->tid && chain->cookie == *cookie ? chain->n_addrs : 0;
  return chain->addrs;
}

static size_t
user_stack (SondeSampler *self,
            SondeProcess *process,
            const SondePerfRecord *record,
            uint64_t *addrs,
            const char **marker)
{
  const SondePerfRecordSample *sample = &record->sample;
  SondeUserState state = {
    .abi = sample->abi,
    .regs_mask = self->setup->sample_regs_user,
    .regs = sample->regs,
    .n_regs = sample->n_regs,
    .stack = sample->stack,
    .stack_size_bytes = sample->stack_size_bytes,
    .dump_size_bytes = sample->dump_size_bytes,
  };
  SondeUnwindEnd end = SONDE_UNWIND_END_COMPLETE;
  size_t n_addrs = 0;

  state.chain = user_chain (self, record, &state.n_chain);
  self->time_ns = record->time_ns;
  switch ((SondeUnwindMode) self->setup->asked.unwind)
    {
    case SONDE_UNWIND_DWARF:
    case SONDE_UNWIND_LIBDWFL:
      if (sample->abi != PERF_SAMPLE_REGS_ABI_NONE)
        {
          end = sonde_unwinder_unwind (self->unwinder, process, &state, addrs, self->max_depth,
                                       &n_addrs);
          sonde_tally_add (self->tally, SONDE_STATISTIC_UNWIND_COMPLETE + end, 1);
        }
      break;
    case SONDE_UNWIND_FRAME_POINTER:
      n_addrs = MIN (state.n_chain, self->max_depth);
      memcpy (addrs, state.chain, n_addrs * sizeof *addrs);
      if (n_addrs < state.n_chain)
        end = SONDE_UNWIND_END_DEPTH_LIMIT;
      sonde_tally_add (self->tally, SONDE_STATISTIC_UNWIND_DEPTH_LIMIT,
                       end == SONDE_UNWIND_END_DEPTH_LIMIT);
      break;
    case SONDE_UNWIND_NONE:
    default:
      break;
    }
  *marker = end_marker (end);
  if (n_addrs == 0 && sample->mode == SONDE_PERF_RECORD_MODE_USER)
    addrs[n_addrs++] = sample->ip;

  return n_addrs;
}

size_t
sonde_sampler_unwind (SondeSampler *self,
                      SondeProcess *process,
                      const SondePerfRecord *record,
                      uint64_t *addrs,
                      size_t max_addrs)
{
  const SondePerfRecordSample *sample = &record->sample;
  const SondeUserState state = {
    .abi = sample->abi,
    .regs_mask = SONDE_PROBE_REGISTERS,
    .regs = sample->regs,
    .n_regs = sample->n_regs,
    .stack = sample->stack,
    .stack_size_bytes = sample->stack_size_bytes,
    .dump_size_bytes = sample->dump_size_bytes,
  };
  size_t n_addrs = 0;

  self->time_ns = record->time_ns;
  if (sample->abi != PERF_SAMPLE_REGS_ABI_NONE)
    sonde_unwinder_unwind (self->unwinder, process, &state, addrs, MIN (self->max_depth, max_addrs),
                           &n_addrs);
  return n_addrs;
}

/* --- which addresses are to be named --- */

/* Returns the address to record: another one if the names at the end cannot tell of this one. */
static uint64_t
collect_address (SondeSampler *self,
                 SondeProcess *process,
                 uint64_t address,
                 gboolean is_return,
                 gboolean is_contested,
                 gint64 time_ns)
{
  int32_t pid = sonde_process_pid (process);
  const SondeProcessMapping *mapping;
  uint64_t made_up;

  if (self->addresses != NULL && !is_contested
      && sonde_sampled_addresses_contains (self->addresses, pid, address))
    return address;
  mapping = sonde_process_find_mapping (self->processes, process, address - is_return);
  if (mapping != NULL && sonde_jit_names_kind (mapping) == SONDE_FILE_PERF_MAP)
    {
      made_up = sonde_jit_names_find (self->jit_names, pid, address - is_return, time_ns);
      if (made_up != 0)
        return made_up;
      sonde_jit_names_note (self->jit_names, pid, address, is_return);
    }
  if (self->addresses == NULL)
    return address;
  /* A file that is not here yet takes its place all the same: names of a later one are not its own.
   */
  if (mapping == NULL || (mapping->module == NULL && mapping->file.inode == 0 && !is_contested))
    return address;
  if (!sonde_reused_places_claim (self->reused_places, pid, mapping))
    return sonde_reused_places_name (self->reused_places, mapping, address - is_return, time_ns);
  if (mapping->module != NULL)
    sonde_sampled_addresses_add (self->addresses, pid, address, mapping, is_return);

  return address;
}

gboolean
sonde_sampler_collect (SondeSampler *self,
                       SondeProcess *process,
                       uint64_t address,
                       gboolean is_return)
{
  int32_t pid = sonde_process_pid (process);
  const SondeProcessMapping *mapping;

  if (self->addresses == NULL || sonde_sampled_addresses_contains (self->addresses, pid, address))
    return TRUE;
  mapping = sonde_process_find_mapping (self->processes, process, address - is_return);
  if (mapping == NULL)
    return FALSE;
  if (sonde_jit_names_kind (mapping) == SONDE_FILE_PERF_MAP)
    sonde_jit_names_note (self->jit_names, pid, address, is_return);
  if (mapping->module != NULL && sonde_reused_places_claim (self->reused_places, pid, mapping))
    sonde_sampled_addresses_add (self->addresses, pid, address, mapping, is_return);
  return TRUE;
}

typedef struct
{
  SondeUnwindModule *module;
  const char *file_name; /* the mapping's */
  uint64_t vaddr;
  guint index;
} PlaceToName;

static gint
compare_places (gconstpointer first, gconstpointer second)
{
  const PlaceToName *a = first;
  const PlaceToName *b = second;
  uint32_t a_id = sonde_module_id (a->module), b_id = sonde_module_id (b->module);

  return (a_id > b_id) - (a_id < b_id);
}

void
sonde_sampler_find_names (SondeSampler *self,
                          SondeProcess *process,
                          const uint64_t *addresses,
                          guint n_addresses,
                          char **names)
{
  g_autoptr (GArray) places = g_array_new (FALSE, FALSE, sizeof (PlaceToName));
  g_autoptr (SondeFunctionNames) functions = NULL;
  SondeUnwindModule *module = NULL;
  uint64_t begin, end;

  for (guint i = 0; i < n_addresses && self->addresses != NULL
                    && !sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN);
       i++)
    {
      const SondeProcessMapping *mapping
          = sonde_process_find_mapping (self->processes, process, addresses[i]);
      PlaceToName place = { .index = i };
      const char *slash;

      if (mapping == NULL || mapping->module == NULL)
        continue;
      slash = strrchr (mapping->path, '/');
      place.module = mapping->module;
      place.file_name = slash != NULL ? slash + 1 : mapping->path;
      place.vaddr = addresses[i] - mapping->bias;
      g_array_append_val (places, place);
    }
  g_array_sort (places, compare_places);
  for (guint i = 0; i < places->len; i++)
    {
      const PlaceToName *place = &g_array_index (places, PlaceToName, i);

      if (place->module != module)
        {
          g_clear_pointer (&functions, sonde_function_names_free);
          functions = sonde_function_names_new (sonde_module_fd (place->module), place->file_name);
          module = place->module;
        }
      names[place->index] = sonde_function_names_find (functions, place->vaddr, &begin, &end);
    }
}

/* --- the kernel's part --- */

static KernelSlot *
slot_of (SondeSampler *self, uint64_t address)
{
  return &self->kernel_names[(address * UINT64_C (0x9E3779B97F4A7C15)) >> 52
                             & (KERNEL_NAME_SLOTS - 1)];
}

static uint64_t
replace_one (SondeSampler *self, uint64_t address, gint64 time_ns)
{
  KernelSlot *slot = slot_of (self, address);
  const char *name = "[kernel]";

  if (slot->address == address && address != 0)
    return slot->made_up;

  if (self->kallsyms != NULL && !sonde_kallsyms_lookup (self->kallsyms, address, &name))
    name = "[kernel]";
  slot->address = address;
  slot->made_up = sonde_recorder_name (self->recorder, name, time_ns);

  return slot->made_up;
}

/* @distance: from @address down to the one whose name it has: a return address's call is one byte
 * lower */
static uint64_t
tell_one (SondeSampler *self, uint64_t address, unsigned distance, gint64 time_ns)
{
  KernelSlot *slot = slot_of (self, address);
  const char *name;

  if (!self->is_raw)
    return replace_one (self, address - distance, time_ns);
  if (slot->address == address)
    return address;
  slot->address = address;
  if (self->kallsyms != NULL && sonde_kallsyms_lookup (self->kallsyms, address - distance, &name))
    sonde_recorder_name_address (self->recorder, address, name, time_ns);
  return address;
}

/* The kernel's part of a stack, leaf first. Addresses are replaced by made-up ones with names, so
 * that none leaves the worker unless raw data are asked for. Returns how many there are, at
 * least 1. */
static size_t
kernel_stack (SondeSampler *self, const SondePerfRecord *record, uint64_t *addrs)
{
  const SondePerfRecordSample *sample = &record->sample;
  gboolean has_names = self->kallsyms != NULL || self->is_raw;
  gboolean in_kernel = FALSE;
  size_t n_addrs = 0;

  for (size_t i = 0; has_names && i < sample->n_chain && n_addrs < SONDE_SAMPLER_MAX_KERNEL_DEPTH;
       i++)
    {
      if (sample->chain[i] >= (uint64_t) PERF_CONTEXT_MAX)
        in_kernel = sample->chain[i] == (uint64_t) PERF_CONTEXT_KERNEL;
      else if (in_kernel)
        /* All but the first are return addresses. */
        addrs[n_addrs] = tell_one (self, sample->chain[i], n_addrs > 0, record->time_ns), n_addrs++;
    }
  if (n_addrs == 0)
    addrs[n_addrs++] = has_names ? tell_one (self, sample->ip, 0, record->time_ns)
                                 : replace_one (self, 1, record->time_ns);

  return n_addrs;
}

/* --- one sample --- */

static size_t
add_user_part (SondeSampler *self,
               SondeProcess *process,
               const SondePerfRecord *record,
               size_t n_addrs)
{
  uint64_t *addrs = self->addrs + n_addrs;
  const char *marker = NULL;
  /* Frame pointers lead astray, and do not say so, where a function has none. */
  gboolean is_guessed = self->setup->asked.unwind == SONDE_UNWIND_FRAME_POINTER;
  size_t n_user = user_stack (self, process, record, addrs + 1, &marker);

  if (self->interpreters != NULL && n_user > 0)
    n_user = sonde_interpreters_merge (self->interpreters, process, record, addrs + 1, n_user,
                                       marker == NULL && !is_guessed);
  if (n_user > self->max_depth)
    {
      n_user = self->max_depth;
      marker = end_marker (SONDE_UNWIND_END_DEPTH_LIMIT);
    }
  if (n_user == 0 && marker == NULL)
    return n_addrs;

  addrs[0] = SONDE_CONTEXT_USER;
  if (self->addresses != NULL || sonde_jit_names_has (self->jit_names, record->pid))
    {
      gboolean is_contested = self->addresses != NULL
                              && sonde_reused_places_is_contested (self->reused_places, process);

      if (self->addresses != NULL)
        sonde_sampled_addresses_expect (self->addresses, sonde_process_pid (process), addrs + 1,
                                        n_user);
      for (size_t i = 1; i <= n_user; i++)
        if (addrs[i] < SONDE_JIT_ADDRESS_BASE)
          addrs[i]
              = collect_address (self, process, addrs[i], i > 1, is_contested, record->time_ns);
    }
  n_addrs += 1 + n_user;
  if (marker != NULL)
    self->addrs[n_addrs++] = sonde_recorder_name (self->recorder, marker, record->time_ns);

  return n_addrs;
}

void
sonde_sampler_record (SondeSampler *self, SondeProcess *process, const SondePerfRecord *record)
{
  SondeStack stack = { record->time_ns, record->cpu, record->pid, record->tid, self->addrs, 0 };
  const SondePerfRecordSample *sample = &record->sample;
  size_t n_kernel = 0;

  if (process != NULL && sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN))
    {
      /* How much time others took is no secret. */
      stack = (SondeStack){ record->time_ns, record->cpu, 0, 0, self->addrs, 2 };
      self->addrs[0] = SONDE_CONTEXT_USER;
      self->addrs[1] = sonde_recorder_name (self->recorder, "[other]", record->time_ns);
      sonde_recorder_sample (self->recorder, &stack);
      return;
    }
  if (sample->mode == SONDE_PERF_RECORD_MODE_KERNEL)
    {
      self->addrs[0] = SONDE_CONTEXT_KERNEL;
      n_kernel = 1 + kernel_stack (self, record, self->addrs + 1);
    }
  else if (sample->mode == SONDE_PERF_RECORD_MODE_OTHER)
    {
      self->addrs[0] = SONDE_CONTEXT_KERNEL;
      self->addrs[1] = sonde_recorder_name (self->recorder, "[guest]", record->time_ns);
      n_kernel = 2;
    }
  stack.n_addrs = n_kernel;
  if (process != NULL)
    {
      sonde_recorder_process (self->recorder, process, record->time_ns);
      if (sonde_sampler_has_user_part (sample))
        stack.n_addrs = add_user_part (self, process, record, n_kernel);
    }
  if (stack.n_addrs == n_kernel)
    sonde_tally_add (self->tally, SONDE_STATISTIC_KERNEL_ONLY, 1);
  if (stack.n_addrs == 0)
    {
      /* Neither a program nor the kernel: a task that is being torn down. */
      self->addrs[0] = SONDE_CONTEXT_KERNEL;
      self->addrs[1] = sonde_recorder_name (self->recorder, "[unknown]", record->time_ns);
      stack.n_addrs = 2;
    }
  sonde_recorder_sample (self->recorder, &stack);
}
