/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The bounded evaluator of call frame information, with one rule cache for all processes. */
#include <stdlib.h>

#include "unwind/rule-cache.h"
#include "unwind/unwinder-private.h"
#include "unwind/user-registers.h"

typedef struct
{
  SondeUnwinder base;
  SondeProcessTable *processes;
  SondeRuleCache *cache;
  uint64_t regs_mask;                     /* that the following were made for */
  size_t n_slots;                         /* a sample must have */
  uint64_t registers;                     /* bit mask by DWARF number: which there are */
  uint8_t slots[SONDE_N_DWARF_REGISTERS]; /* where each of them is in a sample, or 0 */
} CfiUnwinder;

/* One stack being walked. */
typedef struct
{
  CfiUnwinder *unwinder;
  SondeProcess *process;
  const SondeMapping *mapping; /* of the last pc; NULL none */
  uint64_t key_base;           /* of the rules in its module; see cached_rule() */
  uint64_t origin;             /* where its module's lowest address is in the process */
  SondeFrameState frame;
  SondeStackCopy stack;
  bool plainly;   /* follow only what nearly all stacks need */
  bool needs_all; /* that was not enough for this one */
} Walk;

static bool
holds (const SondeMapping *mapping, uint64_t address)
{
  return mapping != NULL && address - mapping->start < mapping->end - mapping->start;
}

/* Return addresses may lie behind a call that does not return, at the next function's begin. */
static uint64_t
lookup_pc (const SondeFrameState *frame)
{
  return frame->exact_pc ? frame->pc : frame->pc - 1;
}

static bool
has_module (const Walk *self)
{
  return self->mapping != NULL && self->mapping->module != NULL;
}

static bool
find_mapping (Walk *self, uint64_t address)
{
  uint64_t low, high;

  self->mapping = sonde_process_find_mapping (self->unwinder->processes, self->process, address);
  if (!has_module (self))
    return false;
  sonde_module_extent (self->mapping->module, &low, &high);
  self->origin = self->mapping->bias + low;
  self->key_base = sonde_rule_cache_key (sonde_module_id (self->mapping->module), 0);
  return true;
}

static SondeRule
find_rule (Walk *self, uint64_t vaddr)
{
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  SondeCfiRow row;
  SondeRule rule = { .kind = SONDE_RULE_NONE };

  if (!sonde_module_find_cfi (self->mapping->module, vaddr, &section, &cie, &fde))
    return rule;
  if (sonde_cfi_row_find (section, &cie, &fde, vaddr, &row) == 0)
    sonde_rule_from_row (&rule, &row, section, sonde_arch_native ());
  else
    rule.kind = SONDE_RULE_BAD;
  return rule;
}

/* The rule of a pc whose mapping is found, from the cache or decoded now. */
static const SondeRule *
cached_rule (Walk *self, uint64_t address, SondeRule *uncached)
{
  uint64_t offset = address - self->origin;
  uint64_t key = self->key_base | offset;
  SondeRuleCacheEntry *slot;

  if (offset > UINT32_MAX)
    {
      *uncached = find_rule (self, address - self->mapping->bias);
      return uncached;
    }
  slot = sonde_rule_cache_slot (self->unwinder->cache, key);
  if (slot->key != key)
    {
      slot->rule = find_rule (self, address - self->mapping->bias);
      slot->key = key;
    }
  return &slot->rule;
}

static SondeStep
step_slowly (Walk *self, uint64_t vaddr, bool is_first)
{
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  SondeCfiRow row;

  if (!sonde_module_find_cfi (self->mapping->module, vaddr, &section, &cie, &fde)
      || sonde_cfi_row_find (section, &cie, &fde, vaddr, &row) < 0)
    return SONDE_STEP_BAD;
  return sonde_row_step (&row, section, sonde_arch_native (), &self->frame, &self->stack, is_first);
}

/* Code without rules (hand-written assembly, JIT): the frame pointer, if everything speaks for it.
 */
static SondeStep
step_by_frame_pointer (Walk *self)
{
  const SondeArchRegisters *registers = sonde_arch_registers (sonde_arch_native ());
  SondeFrameState next = self->frame;
  uint64_t sp = self->frame.registers.values[registers->sp];
  uint64_t fp, return_address;

  if (!sonde_cfi_registers_get (&self->frame.registers, registers->fp, &fp) || fp % 8 != 0
      || fp < sp || !sonde_stack_copy_read (&self->stack, fp + 8, 8, &return_address)
      || !sonde_stack_copy_read (&self->stack, fp, 8, &next.registers.values[registers->fp]))
    {
      self->stack.ran_out = false; /* a wild frame pointer says nothing of the stack */
      return SONDE_STEP_NO_RULE;
    }
  if (return_address == 0
      || sonde_process_find_mapping (self->unwinder->processes, self->process, return_address - 1)
             == NULL)
    return SONDE_STEP_NO_RULE;
  next.registers.values[registers->sp] = fp + 16;
  next.pc = return_address;
  next.exact_pc = false;
  self->frame = next;
  return SONDE_STEP_OK;
}

static SondeStep
step_by_rule (Walk *self, const SondeRule *rule, uint64_t vaddr, bool is_first)
{
  SondeStep result;

  if (rule->kind == SONDE_RULE_SLOW)
    result = step_slowly (self, vaddr, is_first);
  else
    result = sonde_rule_step (rule, sonde_arch_native (), &self->frame, &self->stack, is_first);
  /* whatever it was, if it concerns a register that was not followed, it does not count */
  if (self->plainly && result != SONDE_STEP_OK && result != SONDE_STEP_END
      && (rule->kind == SONDE_RULE_SLOW
          || (self->frame.registers.valid >> rule->cfa_register & 1) == 0))
    self->needs_all = true;
  return result;
}

static SondeStep
step (Walk *self, bool is_first)
{
  uint64_t address = lookup_pc (&self->frame);
  const SondeRule *rule;
  SondeRule uncached;

  if (holds (self->mapping, address) ? !has_module (self) : !find_mapping (self, address))
    return step_by_frame_pointer (self);
  rule = cached_rule (self, address, &uncached);
  if (self->plainly
      && sonde_rule_step_plain (rule, sonde_arch_native (), &self->frame, &self->stack))
    return SONDE_STEP_OK;
  if (rule->kind != SONDE_RULE_NONE)
    return step_by_rule (self, rule, address - self->mapping->bias, is_first);
  if (sonde_module_is_entry (self->mapping->module, address - self->mapping->bias))
    return SONDE_STEP_END;
  return step_by_frame_pointer (self);
}

static SondeUnwindEnd
end_of_step (const Walk *self, const SondeUserState *state, SondeStep step)
{
  switch (step)
    {
    case SONDE_STEP_END:
      return SONDE_UNWIND_END_COMPLETE;
    case SONDE_STEP_RAN_OUT:
      return sonde_user_state_truncation (state);
    case SONDE_STEP_NO_RULE:
      return has_module (self) ? SONDE_UNWIND_END_NO_CFI : SONDE_UNWIND_END_NO_MODULE;
    case SONDE_STEP_LOOP:
      return SONDE_UNWIND_END_LOOP;
    case SONDE_STEP_OK:
    case SONDE_STEP_BAD:
    default:
      return SONDE_UNWIND_END_BAD_CFI;
    }
}

/* All samples of a session have the same registers: where they are is worked out once. */
static void
learn_registers (CfiUnwinder *self, uint64_t regs_mask)
{
  self->regs_mask = regs_mask;
  self->registers = 0;
  self->n_slots = (size_t) __builtin_popcountll (regs_mask);
  for (unsigned reg = 0; reg < SONDE_N_DWARF_REGISTERS; reg++)
    {
      self->slots[reg] = 0;
      if (sonde_regs_mask_slot (regs_mask, reg, &self->slots[reg]))
        self->registers |= (uint64_t) 1 << reg;
    }
}

static bool
fill_registers (CfiUnwinder *self, const SondeUserState *state, SondeCfiRegisters *registers)
{
  if (self->regs_mask != state->regs_mask)
    learn_registers (self, state->regs_mask);
  if (state->n_regs < self->n_slots || self->n_slots == 0)
    return false;
  for (unsigned reg = 0; reg < SONDE_N_DWARF_REGISTERS; reg++)
    registers->values[reg] = state->regs[self->slots[reg]];
  registers->valid = self->registers;
  return true;
}

static bool
begin (Walk *self, const SondeUserState *state, bool plainly)
{
  self->mapping = NULL;
  self->stack = (SondeStackCopy){ .bytes = state->stack, .size_bytes = state->stack_size_bytes };
  self->frame.exact_pc = true;
  self->plainly = plainly;
  self->needs_all = false;
  return sonde_user_state_pc (state, &self->frame.pc, &self->stack.address)
         && fill_registers (self->unwinder, state, &self->frame.registers);
}

static SondeUnwindEnd
walk (Walk *self, const SondeUserState *state, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  SondeStep result;
  size_t n = 0;

  do
    {
      if (n == max_addrs)
        return SONDE_UNWIND_END_DEPTH_LIMIT;
      addrs[n++] = self->frame.pc;
      *n_addrs = n;
      result = step (self, n == 1);
    }
  while (result == SONDE_STEP_OK);

  return end_of_step (self, state, result);
}

static SondeUnwindEnd
unwind (SondeUnwinder *base,
        SondeProcess *process,
        const SondeUserState *state,
        uint64_t *addrs,
        size_t max_addrs,
        size_t *n_addrs)
{
  SondeUnwindEnd end;
  Walk self; /* its registers are many, and written before they are read: their bits say which */

  self.unwinder = (CfiUnwinder *) base;
  self.process = process;
  if (!begin (&self, state, true))
    return SONDE_UNWIND_END_BAD_CFI;
  end = walk (&self, state, addrs, max_addrs, n_addrs);
  if (self.needs_all)
    {
      begin (&self, state, false);
      end = walk (&self, state, addrs, max_addrs, n_addrs);
    }
  return end;
}

static void
unwinder_free (SondeUnwinder *base)
{
  CfiUnwinder *self = (CfiUnwinder *) base;

  sonde_rule_cache_free (self->cache);
  free (self);
}

static const SondeUnwinderOps ops = { unwinder_free, unwind };

SondeUnwinder *
sonde_unwinder_new_cfi (SondeProcessTable *processes)
{
  CfiUnwinder *self = calloc (1, sizeof *self);

  if (self == NULL)
    return NULL;
  self->cache = sonde_rule_cache_new ();
  if (self->cache == NULL)
    {
      free (self);
      return NULL;
    }
  self->base.ops = &ops;
  self->processes = processes;
  return &self->base;
}
