/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Evaluates call frame information within bounds, with one rule cache for all processes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/go-functions.h"
#include "unwind/plain-frame.h"
#include "unwind/rule-cache.h"
#include "unwind/unwinder-private.h"

/* A mapping with a module, and what is needed of both for each frame. */
typedef struct
{
  uint64_t serial; /* the walk's; never used twice, so an equal one means that all this holds */
  uint64_t start;
  uint64_t size_bytes;
  uint64_t bias;
  uint64_t origin; /* where the module's lowest address is in the process */
  uint64_t rules;  /* sonde_rule_cache_module() */
  const SondeUnwindModule *module;
} PcPlace;

/* Bytes of programs and operations of expressions that one stack may cost: more than a cold one of
 * real programs does, and half a millisecond at most of one made to cost. */
#define MAX_WORK (1u << 17)

enum
{
  N_RECENT = 64,
  RECENT_SHIFT = 20, /* libraries lie about this far apart */
};

/* Where a sample of one kind of program has its registers. */
typedef struct
{
  uint64_t regs_mask; /* that the following were made for */
  size_t n_slots;     /* a sample must have */
  uint64_t registers; /* bit mask by DWARF number: which there are */
  uint8_t pc_slot;
  uint8_t slots[SONDE_N_DWARF_REGISTERS]; /* where each of them is in a sample, or 0 */
} Layout;

#define N_ABOVE                                                                                    \
  2 /* glibc has two frames above the one that calls main(), and one above a thread's */

/* What stood above a return address wherever it was near the end of a whole stack. */
typedef struct
{
  uint64_t generation; /* of the process, whose serial may change with each piece of made code */
  uint64_t addresses[1 + N_ABOVE]; /* the first is that one */
  uint32_t modules[1 + N_ABOVE];   /* in which they were */
  uint8_t n_above;
  bool differs; /* from stack to stack: it says nothing */
} OuterFrames;

enum
{
  OUTER_BITS = 5,
};

typedef struct
{
  SondeUnwinder base;
  SondeProcessTable *processes;
  SondeRuleCache *cache;
  OuterFrames outer[1 << OUTER_BITS]; /* by address and generation */
  Layout native;
  Layout i386;
  PcPlace recent[N_RECENT]; /* by address and serial */
} CfiUnwinder;

/* One stack being walked. */
typedef struct
{
  CfiUnwinder *unwinder;
  SondeProcess *process;
  SondeArch arch;
  Layout *layout;       /* the arch's */
  uint64_t serial;      /* of the process and arch */
  const PcPlace *place; /* of the last pc; NULL: it has no module */
  SondeFrameState frame;
  SondeStackCopy stack;
  uint64_t callee; /* pc of the frame that this one called; the sampled one has none */
  bool in_chain;   /* the frame was found by the frame pointer before it */
  bool plainly;    /* follow only what nearly all stacks need */
  bool needs_all;  /* that was not enough for this one */
  uint32_t work_left;
} CfiWalk;

/* NULL: no mapping, or none with a module of this arch. */
static const PcPlace *
look_up_place (CfiWalk *self, uint64_t address, PcPlace *place)
{
  const SondeProcessMapping *mapping
      = sonde_process_find_mapping (self->unwinder->processes, self->process, address);
  uint64_t low, high;

  if (mapping == NULL || mapping->module == NULL
      || sonde_module_is_32_bit (mapping->module) != (self->arch == SONDE_ARCH_I386))
    return NULL;
  sonde_module_extent (mapping->module, &low, &high);
  *place = (PcPlace){
    .serial = self->serial,
    .start = mapping->start,
    .size_bytes = mapping->end - mapping->start,
    .bias = mapping->bias,
    .origin = mapping->bias + low,
    .rules = sonde_rule_cache_module (sonde_module_id (mapping->module)),
    .module = mapping->module,
  };
  return place;
}

static bool
find_place (CfiWalk *self, uint64_t address)
{
  uint64_t i = (address >> RECENT_SHIFT ^ self->serial) % N_RECENT;
  PcPlace *recent = &self->unwinder->recent[i];

  if (self->place != NULL && address - self->place->start < self->place->size_bytes)
    return true;
  if (recent->serial == self->serial && address - recent->start < recent->size_bytes)
    self->place = recent;
  else
    self->place = look_up_place (self, address, recent);
  return self->place != NULL;
}

/* Decodes the rule for a pc and finds out how far it holds. False: this stack has cost too much
 * already, which is no reason to remember anything about its modules. */
static bool
find_rule (CfiWalk *self, uint64_t vaddr, SondeRule *rule, uint64_t *begin, uint64_t *end)
{
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  SondeCfiRow row;
  int r;

  *rule = (SondeRule){ .kind = SONDE_RULE_NONE };
  *begin = vaddr;
  *end = vaddr + 1;
  if (!sonde_module_find_cfi (self->place->module, vaddr, &section, &cie, &fde))
    return sonde_go_functions_rule (sonde_module_go_functions (self->place->module), vaddr,
                                    self->arch, &self->work_left, rule, begin, end);
  rule->kind = SONDE_RULE_BAD;
  r = sonde_cfi_row_find (section, &cie, &fde, vaddr, &self->work_left, &row);
  if (r < 0)
    return r != -EDQUOT;
  sonde_rule_from_row (rule, &row, section, self->arch);
  *begin = row.begin;
  *end = row.end;
  return true;
}

/* The rule of a pc whose place is found, if the cache has it. */
static const SondeRule *
find_known_rule (const CfiWalk *self, uint64_t address)
{
  uint64_t offset = address - self->place->origin;
  SondeRuleCachePlace place = { self->place->rules, (uint32_t) offset };

  return offset <= UINT32_MAX ? sonde_rule_cache_find (self->unwinder->cache, place) : NULL;
}

/* The same, decoded now if need be. */
static const SondeRule *
get_rule (CfiWalk *self, uint64_t address, SondeRule *decoded)
{
  const SondeRule *known = find_known_rule (self, address);
  uint64_t offset = address - self->place->origin;
  SondeRuleCachePlace place = { self->place->rules, (uint32_t) offset };
  uint64_t vaddr = address - self->place->bias;
  uint64_t begin, end;

  if (known != NULL)
    return known;
  if (!find_rule (self, vaddr, decoded, &begin, &end) || offset > UINT32_MAX)
    return decoded;
  return sonde_rule_cache_add (self->unwinder->cache, place, decoded, begin - vaddr + offset,
                               end - vaddr + offset);
}

static SondeStep
step_slowly (CfiWalk *self, uint64_t vaddr, bool is_first)
{
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  SondeCfiRow row;
  uint64_t work;

  if (!sonde_module_find_cfi (self->place->module, vaddr, &section, &cie, &fde)
      || sonde_cfi_row_find (section, &cie, &fde, vaddr, &self->work_left, &row) < 0)
    return SONDE_STEP_BAD;
  work = sonde_cfi_row_max_steps (&row);
  if (work > self->work_left)
    return SONDE_STEP_BAD;
  self->work_left -= (uint32_t) work;
  return sonde_row_step (&row, section, self->arch, &self->frame, &self->stack, is_first);
}

/* Code without rules (hand-written assembly, JIT): the frame pointer, if everything speaks for it.
 * A chain of them ends with a zero where the stack begins. Source: the psABI, "Process
 * Initialization". A zero that no frame pointer led to says nothing: programs without frame
 * pointers have it throughout. */
static SondeStep
step_by_frame_pointer (CfiWalk *self)
{
  const SondeArchRegisters *registers = sonde_arch_registers (self->arch);
  const unsigned word_bytes = registers->word_bytes;
  SondeFrameState next = self->frame;
  uint64_t sp = self->frame.registers.values[registers->sp];
  const bool in_chain = self->in_chain;
  uint64_t fp, return_address;

  self->in_chain = false;
  if (!sonde_cfi_registers_get (&self->frame.registers, registers->fp, &fp))
    return SONDE_STEP_NO_RULE;
  if (fp == 0 && in_chain)
    return SONDE_STEP_END;
  if (fp % word_bytes != 0 || fp < sp
      || !sonde_stack_copy_read (&self->stack, fp + word_bytes, word_bytes, &return_address)
      || !sonde_stack_copy_read (&self->stack, fp, word_bytes,
                                 &next.registers.values[registers->fp]))
    {
      self->stack.ran_out = false; /* a wild frame pointer says nothing of the stack */
      return SONDE_STEP_NO_RULE;
    }
  return_address = sonde_arch_strip_pac (self->arch, return_address);
  if (return_address == 0 && next.registers.values[registers->fp] == 0 && !self->frame.exact_pc)
    return SONDE_STEP_END;
  if (return_address == 0
      || sonde_process_find_mapping (self->unwinder->processes, self->process, return_address - 1)
             == NULL)
    return SONDE_STEP_NO_RULE;
  next.registers.values[registers->sp] = fp + 2 * word_bytes;
  next.pc = return_address;
  next.exact_pc = false;
  self->frame = next;
  self->in_chain = true;
  return SONDE_STEP_OK;
}

static bool
is_trampoline (const CfiWalk *self, uint64_t address, uint64_t *begin)
{
  const SondeUnwinder *base = &self->unwinder->base;

  return self->arch == SONDE_ARCH_X86_64 && base->is_trampoline != NULL
         && base->is_trampoline (self->process, address, begin, base->user_data);
}

/* It calls with one word on the stack below its return address: an empty one, and the frame pointer
 * is what it was, or since 3.14 the caller's frame pointer, and the frame pointer leads there. All
 * other registers stay. Where it was sampled itself, the word may not be there yet, or not any
 * more. Source: CPython, Python/asm_trampoline.S */
static SondeStep
step_over_trampoline (CfiWalk *self, uint64_t begin)
{
  const SondeArchRegisters *registers = sonde_arch_registers (self->arch);
  SondeFrameState next = self->frame;
  uint64_t sp = self->frame.registers.values[registers->sp];
  uint64_t fp;
  uint64_t return_address = 0;
  unsigned n_words = self->frame.exact_pc && self->frame.pc == begin ? 0 : 1;

  self->in_chain = false;
  for (;; n_words--)
    {
      if (!sonde_stack_copy_read (&self->stack, sp + 8 * n_words, 8, &return_address))
        return self->stack.ran_out ? SONDE_STEP_RAN_OUT : SONDE_STEP_BAD;
      if (return_address != 0
          && sonde_process_find_mapping (self->unwinder->processes, self->process,
                                         return_address - 1)
                 != NULL)
        break;
      if (n_words == 0 || !self->frame.exact_pc)
        return SONDE_STEP_NO_RULE;
    }
  if (n_words == 1 && sonde_cfi_registers_get (&self->frame.registers, registers->fp, &fp)
      && fp == sp
      && !sonde_stack_copy_read (&self->stack, sp, 8, &next.registers.values[registers->fp]))
    return SONDE_STEP_BAD;
  next.registers.values[registers->sp] = sp + 8 * (n_words + 1);
  next.pc = return_address;
  next.exact_pc = false;
  self->frame = next;
  return SONDE_STEP_OK;
}

static SondeStep
step_by_rule (CfiWalk *self, const SondeRule *rule, uint64_t vaddr, bool is_first)
{
  SondeStep result;
  uint64_t valid;

  if (rule->kind == SONDE_RULE_SLOW)
    result = step_slowly (self, vaddr, is_first);
  else
    result = sonde_rule_step (rule, self->arch, &self->frame, &self->stack, is_first);
  if (!self->plainly || result == SONDE_STEP_OK || result == SONDE_STEP_END)
    return result;
  valid = self->frame.registers.valid;
  /* Whatever it was, it does not count if a register that was not followed made it. */
  if (rule->kind == SONDE_RULE_SLOW) /* who knows */
    self->needs_all = true;
  if ((rule->kind == SONDE_RULE_REGISTER || rule->kind == SONDE_RULE_DEREF
       || rule->kind == SONDE_RULE_PLT || rule->kind == SONDE_RULE_JOINT)
      && ((valid >> rule->cfa_register & 1) == 0
          || ((rule->flags & SONDE_RULE_RA_IN_REGISTER) != 0
              && (valid >> rule->ra_place & 1) == 0)))
    self->needs_all = true;
  return result;
}

#define MAX_CONTEXT_ARGUMENTS 64 /* functions of coroutines have few */

/* The code that makecontext() has a coroutine return to, at its first instruction: no call is
 * before it. What it goes on with lies on the stack where rbx says, behind the arguments that no
 * register had room for. Source: glibc, sysdeps/unix/sysv/linux/x86_64/makecontext.c */
static bool
is_end_of_context (CfiWalk *self, uint64_t vaddr)
{
  const SondeCfiRegisters *registers = &self->frame.registers;
  uint64_t begin, end, link, linked;
  uint64_t sp = registers->values[sonde_arch_registers (self->arch)->sp];

  return self->arch == SONDE_ARCH_X86_64 && !self->frame.exact_pc
         && sonde_cfi_registers_get (registers, 3, &link) && link % 8 == 0
         && link - sp <= 8 * MAX_CONTEXT_ARGUMENTS
         && sonde_stack_copy_read (&self->stack, link, 8, &linked)
         && sonde_module_find_function (self->place->module, vaddr + 1, &begin, &end)
         && begin == vaddr + 1;
}

#define N_ENTRY_WORDS 16 /* from what calls main() to the entry code: musl has five or six */

/* The code that @word, of the stack, returns to is what the kernel jumped to at exec. */
static bool
is_return_to_entry (CfiWalk *self, uint64_t word)
{
  PcPlace place;

  return look_up_place (self, word - 1, &place) != NULL
         && sonde_module_is_entry (place.module, word - 1 - place.bias);
}

/* The function that was called begins at @word, of the stack. */
static bool
is_begin_of_callee (CfiWalk *self, uint64_t word)
{
  uint64_t begin, end;
  PcPlace place;

  return word != 0 && word <= self->callee && look_up_place (self, word, &place) != NULL
         && sonde_module_find_function (place.module, word - place.bias, &begin, &end)
         && begin == word - place.bias && self->callee - place.bias - begin <= end - begin;
}

/* What called main() has no CFI in musl and uses the frame pointer for something else, but just
 * above its frame lies the return address into the entry code. What called a thread's function has
 * a frame pointer of zero and that function's address above its frame. Source: musl,
 * src/env/__libc_start_main.c, src/thread/pthread_create.c and x86_64/clone.s */
static bool
is_below_start (CfiWalk *self)
{
  const SondeArchRegisters *registers = sonde_arch_registers (self->arch);
  const uint64_t sp = self->frame.registers.values[registers->sp];
  uint64_t fp = 1;
  bool found = false;

  if (self->frame.exact_pc)
    return false;
  sonde_cfi_registers_get (&self->frame.registers, registers->fp, &fp);
  for (unsigned i = 0; i < N_ENTRY_WORDS && !found; i++)
    {
      uint64_t word;

      if (!sonde_stack_copy_read (&self->stack, sp + i * registers->word_bytes,
                                  registers->word_bytes, &word))
        break;
      found = is_return_to_entry (self, word) || (fp == 0 && is_begin_of_callee (self, word));
    }
  self->stack.ran_out = false; /* nobody said that it is as long */
  return found;
}

static SondeStep
step (CfiWalk *self, bool is_first)
{
  /* Return addresses may lie behind a call that does not return, at the next function's begin. */
  uint64_t address = self->frame.exact_pc ? self->frame.pc : self->frame.pc - 1;
  const SondeRule *rule;
  SondeRule decoded;
  SondeStep result;
  uint64_t vaddr;
  uint64_t begin;

  if (!find_place (self, address))
    return is_trampoline (self, address, &begin) ? step_over_trampoline (self, begin)
                                                 : step_by_frame_pointer (self);
  rule = get_rule (self, address, &decoded);
  vaddr = address - self->place->bias;
  if (rule->kind != SONDE_RULE_NONE)
    {
      self->in_chain = false;
      return step_by_rule (self, rule, vaddr, is_first);
    }
  if (sonde_module_is_entry (self->place->module, vaddr) || is_end_of_context (self, vaddr))
    return SONDE_STEP_END;
  result = step_by_frame_pointer (self);
  return result == SONDE_STEP_NO_RULE && is_below_start (self) ? SONDE_STEP_END : result;
}

static SondeUnwindEnd
end_of_step (const CfiWalk *self, const SondeUserState *state, SondeStep step)
{
  switch (step)
    {
    case SONDE_STEP_END:
      return SONDE_UNWIND_END_COMPLETE;
    case SONDE_STEP_RAN_OUT:
      return sonde_user_state_truncation (state);
    case SONDE_STEP_NO_RULE:
      return self->place != NULL ? SONDE_UNWIND_END_NO_CFI : SONDE_UNWIND_END_NO_MODULE;
    case SONDE_STEP_LOOP:
      return SONDE_UNWIND_END_LOOP;
    case SONDE_STEP_OK:
    case SONDE_STEP_BAD:
    default:
      return SONDE_UNWIND_END_BAD_CFI;
    }
}

/* --- above the copy --- */

/* The caller's frame pointer lies where that of the function of @rule points, and the return
 * address above it. */
static bool
is_by_frame_pointer (const SondeRule *rule, const SondeArchRegisters *registers)
{
  return rule->kind == SONDE_RULE_REGISTER && rule->flags == 0
         && rule->cfa_register == registers->fp && (rule->saved_mask & 1) != 0
         && registers->saved[0] == registers->fp
         && rule->cfa_offset + rule->saved_offset[0] * registers->word_bytes == 0
         && rule->ra_place == rule->saved_offset[0] + 1;
}

/* Go's functions have a frame pointer, though their rules do without; only a frame of nothing has
 * none. */
static bool
is_of_go (const CfiWalk *self, const SondeRule *rule, uint64_t vaddr)
{
  uint64_t begin, end;

  return self->arch == SONDE_ARCH_X86_64 && rule->kind == SONDE_RULE_REGISTER
         && rule->saved_mask == 1 && rule->saved_offset[0] == -2 && rule->ra_place == -1
         && sonde_go_functions_range (sonde_module_go_functions (self->place->module), vaddr,
                                      &begin, &end);
}

typedef enum
{
  LINK_NONE,      /* nobody knows what frame pointer it left to its caller */
  LINK_FOLLOWED,  /* the next address of the chain is its return address */
  LINK_OUTERMOST, /* it has no caller */
} Link;

/* Code without rules is believed to keep the frame pointer, as in step_by_frame_pointer(). */
static Link
find_link (CfiWalk *self)
{
  uint64_t address = self->frame.exact_pc ? self->frame.pc : self->frame.pc - 1;
  const SondeRule *rule;
  SondeRule decoded;
  uint64_t vaddr;
  uint64_t begin;

  if (!find_place (self, address))
    return is_trampoline (self, address, &begin) ? LINK_NONE : LINK_FOLLOWED;
  vaddr = address - self->place->bias;
  rule = get_rule (self, address, &decoded);
  if (rule->kind == SONDE_RULE_END || (rule->kind == SONDE_RULE_JOINT && !self->frame.exact_pc)
      || (rule->kind == SONDE_RULE_NONE && sonde_module_is_entry (self->place->module, vaddr)))
    return LINK_OUTERMOST;
  return rule->kind == SONDE_RULE_NONE
                 || is_by_frame_pointer (rule, sonde_arch_registers (self->arch))
                 || is_of_go (self, rule, vaddr)
             ? LINK_FOLLOWED
             : LINK_NONE;
}

/* Which address of the kernel's chain is the return address of the last frame: @index. The kernel's
 * way through the copy is gone again. Where it leaves the copy, its frame pointer has to be that of
 * the frame that the walk got to: in a recursion addresses alone say nothing. */
static bool
find_in_chain (CfiWalk *self, const SondeUserState *state, size_t *index)
{
  const SondeArchRegisters *registers = sonde_arch_registers (self->arch);
  const unsigned word_bytes = registers->word_bytes;
  const uint64_t mask = self->arch == SONDE_ARCH_I386 ? UINT32_MAX : UINT64_MAX;
  uint64_t last, next, return_address;
  uint64_t fp = state->regs[self->layout->slots[registers->fp]] & mask;

  if ((self->layout->registers >> registers->fp & 1) == 0 || state->n_chain < 2
      || state->chain[0] != (state->regs[self->layout->pc_slot] & mask)
      || !sonde_cfi_registers_get (&self->frame.registers, registers->fp, &last))
    return false;
  for (size_t i = 1; i < state->n_chain; i++, fp = next)
    {
      if (fp % word_bytes != 0 || fp < self->stack.address)
        return false;
      if (!sonde_stack_copy_read (&self->stack, fp, word_bytes, &next)
          || !sonde_stack_copy_read (&self->stack, fp + word_bytes, word_bytes, &return_address))
        {
          *index = i;
          return fp == last;
        }
      if (next <= fp
          || sonde_arch_strip_pac (self->arch, return_address)
                 != sonde_arch_strip_pac (self->arch, state->chain[i]))
        return false;
    }
  return false;
}

static OuterFrames *
find_outer (CfiWalk *self, uint64_t generation, uint64_t address)
{
  uint64_t hash = (address ^ generation << 32) * UINT64_C (0x9E3779B97F4A7C15);

  return &self->unwinder->outer[hash >> (64 - OUTER_BITS)];
}

static bool
find_module_id (CfiWalk *self, uint64_t return_address, uint32_t *id)
{
  PcPlace place;

  if (look_up_place (self, return_address - 1, &place) == NULL)
    return false;
  *id = sonde_module_id (place.module);
  return true;
}

/* What calls main() and the functions of threads has no frame pointer in most C libraries, but one
 * caller. */
static void
learn_outer (CfiWalk *self, const uint64_t *addrs, size_t n_addrs)
{
  uint64_t generation = sonde_process_generation (self->process);

  for (uint8_t n = 1; n <= N_ABOVE && n + 2u <= n_addrs; n++)
    {
      const uint64_t *last = &addrs[n_addrs - 1 - n];
      OuterFrames *outer = find_outer (self, generation, *last);
      size_t size_bytes = (1u + n) * sizeof *last;
      bool known = outer->generation == generation && outer->addresses[0] == *last;

      if (known && outer->n_above == n && memcmp (outer->addresses, last, size_bytes) == 0)
        continue;
      *outer = (OuterFrames){ .generation = generation, .n_above = n, .differs = known };
      memcpy (outer->addresses, last, size_bytes);
      for (uint8_t i = 0; i <= n; i++)
        outer->differs |= !find_module_id (self, last[i], &outer->modules[i]);
    }
}

static bool
add_outer (CfiWalk *self, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  uint64_t generation = sonde_process_generation (self->process);
  uint64_t address = addrs[*n_addrs - 1];
  const OuterFrames *outer = find_outer (self, generation, address);
  uint32_t id;

  if (outer->generation != generation || outer->addresses[0] != address || outer->differs
      || outer->n_above > max_addrs - *n_addrs)
    return false;
  for (uint8_t i = 0; i <= outer->n_above; i++)
    if (!find_module_id (self, outer->addresses[i], &id) || id != outer->modules[i])
      return false;
  memcpy (addrs + *n_addrs, outer->addresses + 1, outer->n_above * sizeof *addrs);
  *n_addrs += outer->n_above;
  return true;
}

/* Goes on above the copy by the kernel's chain, as long as each function in it is known to keep its
 * frame pointer: others' callers are missing in it, and what comes then may be anything. */
static SondeUnwindEnd
follow_chain (CfiWalk *self,
              const SondeUserState *state,
              SondeUnwindEnd end,
              uint64_t *addrs,
              size_t max_addrs,
              size_t *n_addrs)
{
  /* Where a rule led nowhere the stack may go on elsewhere: SBCL runs Lisp on one of its own. */
  Link link = end == SONDE_UNWIND_END_BAD_CFI || end == SONDE_UNWIND_END_LOOP ? LINK_FOLLOWED
                                                                              : find_link (self);
  size_t i;

  if (!find_in_chain (self, state, &i))
    link = LINK_NONE;
  for (; link == LINK_FOLLOWED && i < state->n_chain; i++)
    {
      uint64_t address = sonde_arch_strip_pac (self->arch, state->chain[i]);

      if (sonde_process_find_mapping (self->unwinder->processes, self->process, address - 1)
          == NULL)
        break;
      if (*n_addrs == max_addrs)
        return SONDE_UNWIND_END_DEPTH_LIMIT;
      addrs[(*n_addrs)++] = address;
      self->frame.pc = address;
      self->frame.exact_pc = false;
      end = SONDE_UNWIND_END_CHAIN_SHORT;
      link = find_link (self);
    }
  if (end != SONDE_UNWIND_END_CHAIN_SHORT && end != SONDE_UNWIND_END_TRUNCATED_DUMP
      && end != SONDE_UNWIND_END_TRUNCATED_PAGE)
    return end;
  return link == LINK_OUTERMOST || add_outer (self, addrs, max_addrs, n_addrs)
             ? SONDE_UNWIND_END_CHAIN_COMPLETE
             : end;
}

/* All samples of a session have the same registers: where they are is worked out once. */
static void
learn_registers (Layout *self, SondeArch arch, uint64_t regs_mask)
{
  self->regs_mask = regs_mask;
  self->registers = 0;
  for (unsigned reg = 0; reg < SONDE_N_DWARF_REGISTERS; reg++)
    {
      self->slots[reg] = 0;
      if (sonde_regs_mask_slot (arch, regs_mask, reg, &self->slots[reg]))
        self->registers |= (uint64_t) 1 << reg;
    }
  self->n_slots = 0;
  if (sonde_regs_mask_pc_slot (regs_mask, &self->pc_slot)
      && (self->registers >> sonde_arch_registers (arch)->sp & 1) != 0)
    self->n_slots = (size_t) __builtin_popcountll (regs_mask);
}

static void
begin (CfiWalk *self, const SondeUserState *state, bool plainly)
{
  const Layout *layout = self->layout;
  const uint64_t mask = self->arch == SONDE_ARCH_I386 ? UINT32_MAX : UINT64_MAX;
  SondeCfiRegisters *registers = &self->frame.registers;

  self->frame.pc = state->regs[layout->pc_slot] & mask;
  self->frame.exact_pc = true;
  self->place = NULL;
  if (find_place (self, self->frame.pc))
    {
      SondeRuleCachePlace place
          = { self->place->rules, (uint32_t) (self->frame.pc - self->place->origin) };

      /* Samples are spread wider than callers, so the first rule is often far away: fetch it
       * early. */
      __builtin_prefetch (
          sonde_rule_cache_set (self->unwinder->cache, sonde_rule_cache_block_key (place)));
    }
  for (unsigned reg = 0; reg < SONDE_N_DWARF_REGISTERS; reg++)
    registers->values[reg] = state->regs[layout->slots[reg]] & mask;
  registers->valid = layout->registers;
  self->stack = (SondeStackCopy){
    .bytes = state->stack,
    .size_bytes = state->stack_size_bytes,
    .address = registers->values[sonde_arch_registers (self->arch)->sp],
    .is_32_bit = self->arch == SONDE_ARCH_I386,
  };
  self->in_chain = false;
  self->plainly = plainly;
  self->needs_all = false;
}

/* Walks as far as rules are known and frames are plain. */
static void
walk_plainly (CfiWalk *self, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  const SondeStackCopy stack = self->stack;
  SondePlainFrame frame;
  uint64_t back = self->frame.exact_pc ? 0 : 1; /* as in step() */
  size_t n = *n_addrs;

  if (!sonde_plain_frame_enter (&frame, sonde_arch_native (), &self->frame))
    return;
  while (n < max_addrs && find_place (self, frame.pc - back))
    {
      const SondeRule *rule = find_known_rule (self, frame.pc - back);

      if (rule == NULL || !sonde_plain_frame_step (&frame, sonde_arch_native (), rule, &stack))
        break;
      addrs[n++] = frame.pc;
      back = 1;
    }
  if (n > *n_addrs)
    {
      self->in_chain = false;
      sonde_plain_frame_leave (&frame, sonde_arch_native (), &self->frame);
    }
  *n_addrs = n;
}

static SondeUnwindEnd
walk (
    CfiWalk *self, const SondeUserState *state, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  addrs[0] = self->frame.pc;
  *n_addrs = 1;
  for (;;)
    {
      SondeStep result;

      if (self->plainly)
        walk_plainly (self, addrs, max_addrs, n_addrs);
      self->callee = *n_addrs >= 2 ? addrs[*n_addrs - 2] : 0;
      result = step (self, *n_addrs == 1);
      if (result != SONDE_STEP_OK && result != SONDE_STEP_END && state->n_chain > 0
          && !self->needs_all)
        return follow_chain (self, state, end_of_step (self, state, result), addrs, max_addrs,
                             n_addrs);
      if (result == SONDE_STEP_END && state->n_chain > 0 && find_link (self) == LINK_OUTERMOST)
        learn_outer (self, addrs, *n_addrs);
      if (result != SONDE_STEP_OK)
        return end_of_step (self, state, result);
      if (*n_addrs == max_addrs)
        return SONDE_UNWIND_END_DEPTH_LIMIT;
      addrs[(*n_addrs)++] = self->frame.pc;
    }
}

static bool
start (CfiWalk *self,
       SondeUnwinder *base,
       SondeProcess *process,
       SondeArch arch,
       const SondeUserState *state)
{
  Layout *layout;

  self->unwinder = (CfiUnwinder *) base;
  self->process = process;
  self->arch = arch;
  self->work_left = MAX_WORK;
  self->serial = sonde_process_serial (process) << 1 | (arch == SONDE_ARCH_I386);
  layout = arch == SONDE_ARCH_I386 ? &self->unwinder->i386 : &self->unwinder->native;
  self->layout = layout;
  if (layout->regs_mask != state->regs_mask)
    learn_registers (layout, self->arch, state->regs_mask);
  return layout->n_slots > 0 && state->n_regs >= layout->n_slots;
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
  CfiWalk self; /* its registers are many, and written before they are read: their bits say which */

  if (!start (&self, base, process, sonde_arch_native (), state))
    return SONDE_UNWIND_END_NO_MODULE;
  begin (&self, state, true);
  end = walk (&self, state, addrs, max_addrs, n_addrs);
  if (self.needs_all)
    {
      begin (&self, state, false);
      end = walk (&self, state, addrs, max_addrs, n_addrs);
    }
  return end;
}

/* Stacks of 32-bit programs are few, and are walked with all registers at once. */
static SondeUnwindEnd
unwind_32_bit (SondeUnwinder *base,
               SondeProcess *process,
               const SondeUserState *state,
               uint64_t *addrs,
               size_t max_addrs,
               size_t *n_addrs)
{
  CfiWalk self;

  if (!start (&self, base, process, SONDE_ARCH_I386, state))
    return SONDE_UNWIND_END_NO_MODULE;
  begin (&self, state, false);
  return walk (&self, state, addrs, max_addrs, n_addrs);
}

static void
unwinder_free (SondeUnwinder *base)
{
  CfiUnwinder *self = (CfiUnwinder *) base;

  sonde_rule_cache_free (self->cache);
  free (self);
}

static const SondeUnwinderOps ops
    = { unwinder_free, unwind, SONDE_HAS_I386 ? unwind_32_bit : NULL };

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
