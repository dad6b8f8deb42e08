/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stack of the calling thread, from inside a profiled program. */
#include "unwind/self-unwinder.h"

#include <string.h>
#include <sys/mman.h>

#include "unwind/known-stack.h"
#include "unwind/loaded-cfi.h"
#include "unwind/plain-frame.h"
#include "unwind/thread-stack.h"

/* Return addresses whose rules are remembered: more than a program allocates from all the time. */
#define RULE_BITS 12u
#define N_RULES   (1u << RULE_BITS)

/* Bytes of programs and operations of expressions for one frame: no compiler needs as much. */
#define MAX_WORK 65536u

/* Pages of a stack that is not the thread's own, at most. */
#define MAX_FOREIGN_PAGES 64

/* The stack is followed beyond what was asked for, so that it is known when it gets less deep. */
#define BEYOND 2

typedef struct
{
  uint64_t address; /* 0: empty */
  SondeRule rule;
} KnownRule;

struct SondeSelfUnwinder
{
  uint64_t generation; /* of the modules */
  SondeThreadStack stack;
  SondeKnownStack known;
  SondeKnownFrame walked[SONDE_KNOWN_STACK_MAX_FRAMES]; /* in this walk, leaf first */
  SondeCfiScratch scratch;
  SondeCfiRow row;
  KnownRule rules[N_RULES];
};

/* A stack being walked. */
typedef struct
{
  SondeSelfUnwinder *unwinder;
  SondePlainFrame frame;
  uint64_t valid; /* bit mask by DWARF number: registers of @frame that are known */
  bool exact_pc;  /* not a return address */
  bool is_own;    /* on the thread's own stack */
  SondeStackCopy stack;
  unsigned n_foreign_pages;
  size_t n_walked;
} Walk;

/* What modules the process had so far; one number for all its threads. */
static uint64_t modules_generation;

void
sonde_self_unwinder_forget_modules (void)
{
  __atomic_fetch_add (&modules_generation, 1, __ATOMIC_RELAXED);
}

SondeSelfUnwinder *
sonde_self_unwinder_new (void)
{
  void *self = mmap (NULL, sizeof (SondeSelfUnwinder), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  return self != MAP_FAILED ? self : NULL;
}

void
sonde_self_unwinder_free (SondeSelfUnwinder *self)
{
  if (self != NULL)
    munmap (self, sizeof *self);
}

static const SondeArchRegisters *
native_registers (void)
{
  return sonde_arch_registers (sonde_arch_native ());
}

/* Return addresses may lie behind a call that does not return, at the next function's begin. */
static uint64_t
lookup_pc (const Walk *self)
{
  return self->exact_pc ? self->frame.pc : self->frame.pc - 1;
}

static KnownRule *
rule_place (SondeSelfUnwinder *self, uint64_t address)
{
  return &self->rules[address * UINT64_C (0x9E3779B97F4A7C15) >> (64 - RULE_BITS)];
}

/* The row of @address, into the scratch. False: there is none, or it makes no sense. */
static bool
find_row (SondeSelfUnwinder *self, const SondeLoadedCfi *module, uint64_t address)
{
  uint32_t work = MAX_WORK;
  SondeCfiCie cie;
  SondeCfiFde fde;

  return sonde_loaded_cfi_find_function (module, address, &cie, &fde)
         && sonde_cfi_row_find_with (&self->scratch, &module->section, &cie, &fde, address, &work,
                                     &self->row)
                == 0;
}

/* NULL: the address is in no module. That is not remembered, as there may be one some day. */
static const SondeRule *
decode_rule (SondeSelfUnwinder *self, KnownRule *place, uint64_t address)
{
  SondeLoadedCfi module;

  if (!sonde_loaded_cfi_find_module (address, &module))
    return NULL;
  place->address = address;
  if (find_row (self, &module, address))
    sonde_rule_from_row (&place->rule, &self->row, &module.section, sonde_arch_native ());
  else
    place->rule = (SondeRule){ .kind = SONDE_RULE_NONE };
  return &place->rule;
}

static inline const SondeRule *
find_rule (SondeSelfUnwinder *self, uint64_t address)
{
  KnownRule *place = rule_place (self, address);

  return __builtin_expect (place->address == address, true) ? &place->rule
                                                            : decode_rule (self, place, address);
}

/* The readable memory around the frame's stack pointer, from there upwards. */
static void
enter_stack (Walk *self)
{
  const SondeThreadStack *own = &self->unwinder->stack;
  uint64_t sp = self->frame.sp;

  self->is_own = sonde_thread_stack_holds (&self->unwinder->stack, sp);
  self->stack = (SondeStackCopy){
    .bytes = (const uint8_t *) (uintptr_t) sp,
    .address = sp,
    /* What called us has just stored a word below. */
    .size_bytes = (self->is_own ? own->high : sonde_thread_stack_page_end (sp - 1)) - sp,
  };
}

/* One more page of another stack; false if there is none. */
static bool
extend_stack (Walk *self)
{
  uint64_t end = self->stack.address + self->stack.size_bytes;

  if (self->is_own || self->n_foreign_pages == MAX_FOREIGN_PAGES
      || !sonde_thread_stack_is_readable (end))
    return false;
  self->n_foreign_pages++;
  self->stack.size_bytes = sonde_thread_stack_page_end (end) - self->stack.address;
  return true;
}

static SondeFrameState
full_state (const Walk *self)
{
  const SondeArchRegisters *registers = native_registers ();
  SondeFrameState state = { .pc = self->frame.pc, .exact_pc = self->exact_pc };

  state.registers.valid = self->valid;
  state.registers.values[registers->sp] = self->frame.sp;
  state.registers.values[registers->saved[0]] = self->frame.saved[0];
  state.registers.values[registers->saved[1]] = self->frame.saved[1];
  return state;
}

static SondeStep
step_by_row (Walk *self, SondeFrameState *state)
{
  SondeLoadedCfi module;
  uint64_t address = lookup_pc (self);

  if (!sonde_loaded_cfi_find_module (address, &module)
      || !find_row (self->unwinder, &module, address))
    return SONDE_STEP_BAD;
  return sonde_row_step (&self->unwinder->row, &module.section, sonde_arch_native (), state,
                         &self->stack, false);
}

/* Any rule, with all that it may want. */
static bool
step_slowly (Walk *self, const SondeRule *rule)
{
  const SondeArchRegisters *registers = native_registers ();
  SondeFrameState state;
  SondeStep step;

  do
    {
      state = full_state (self);
      self->stack.ran_out = false;
      if (rule->kind == SONDE_RULE_SLOW)
        step = step_by_row (self, &state);
      else
        step = sonde_rule_step (rule, sonde_arch_native (), &state, &self->stack, false);
    }
  while (step == SONDE_STEP_RAN_OUT && extend_stack (self));
  if (step != SONDE_STEP_OK)
    return false;

  self->frame.pc = state.pc;
  self->frame.sp = state.registers.values[registers->sp];
  self->frame.saved[0] = state.registers.values[registers->saved[0]];
  self->frame.saved[1] = state.registers.values[registers->saved[1]];
  self->valid = state.registers.valid;
  self->exact_pc = state.exact_pc;
  /* A signal handler may have had a stack of its own, of which nothing lasts. */
  if (self->frame.sp - self->stack.address > self->stack.size_bytes)
    {
      enter_stack (self);
      self->n_walked = 0;
    }
  return true;
}

/* Nearly all frames. False: it is none of these, or wants memory that is not known yet. */
static inline bool
step_plainly (Walk *self, const SondeRule *rule)
{
  const SondeArchRegisters *registers = native_registers ();

  if ((self->valid >> rule->cfa_register & 1) == 0
      || !sonde_plain_frame_step (&self->frame, sonde_arch_native (), rule, &self->stack))
    return false;
  self->valid |= (uint64_t) (rule->saved_mask & 1) << registers->saved[0]
                 | (uint64_t) (rule->saved_mask >> 1 & 1) << registers->saved[1];
  self->exact_pc = false;
  return true;
}

/* What compilers that keep frame pointers do, as a rule. */
static const SondeRule *
frame_pointer_rule (const Walk *self)
{
  static const SondeRule x86_64 = { .kind = SONDE_RULE_REGISTER,
                                    .cfa_register = 6,
                                    .cfa_offset = 16,
                                    .ra_place = -1,
                                    .saved_mask = 1,
                                    .saved_offset = { -2 } };
  static const SondeRule aarch64 = { .kind = SONDE_RULE_REGISTER,
                                     .cfa_register = 29,
                                     .cfa_offset = 16,
                                     .ra_place = -1,
                                     .saved_mask = 1,
                                     .saved_offset = { -2 } };
  uint64_t fp = self->frame.saved[0];

  if ((self->valid >> native_registers ()->fp & 1) == 0 || fp < self->frame.sp || fp % 8 != 0)
    return NULL;
  return sonde_arch_native () == SONDE_ARCH_AARCH64 ? &aarch64 : &x86_64;
}

/* A frame pointer may be anything; what it led to must be code, as far as can be told. */
static bool
step_by_frame_pointer (Walk *self, const SondeRule *rule)
{
  const Walk before = *self;
  SondeLoadedCfi module;
  bool is_there;

  do
    is_there = step_plainly (self, rule);
  while (!is_there && extend_stack (self));
  if (is_there
      && (sonde_loaded_cfi_find_module (self->frame.pc - 1, &module)
          || sonde_thread_stack_is_readable (self->frame.pc - 1)))
    return true;
  self->frame = before.frame;
  return false;
}

/* To the caller; @rule: (out): how it was found. */
static inline bool
step (Walk *self, const SondeRule **rule)
{
  *rule = find_rule (self->unwinder, lookup_pc (self));
  if (__builtin_expect (*rule != NULL && step_plainly (self, *rule), true))
    return true;
  if (*rule != NULL && (*rule)->kind != SONDE_RULE_NONE)
    return step_slowly (self, *rule);
  *rule = frame_pointer_rule (self);
  return *rule != NULL && step_by_frame_pointer (self, *rule);
}

/* The stack's frames from here on, if the rest of it is that of the last one. */
static inline bool
follow_known (Walk *self, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  return self->is_own && !self->exact_pc && (self->valid >> native_registers ()->fp & 1) != 0
         && sonde_known_stack_follow (&self->unwinder->known, self->frame.pc, self->frame.sp,
                                      self->frame.saved[0], addrs, max_addrs, n_addrs);
}

static void
forget_modules (SondeSelfUnwinder *self, uint64_t generation)
{
  memset (self->rules, 0, sizeof self->rules);
  sonde_known_stack_clear (&self->known);
  self->generation = generation;
}

/* A frame of the walk, of which only its own registers are known yet. */
static SondeKnownFrame *
begin_frame (const Walk *self)
{
  SondeKnownFrame *walked = &self->unwinder->walked[self->n_walked];

  walked->pc = self->frame.pc;
  walked->sp = self->frame.sp;
  walked->fp = self->frame.saved[0];
  walked->is_opaque = self->exact_pc || (self->valid >> native_registers ()->fp & 1) == 0;
  return walked;
}

/* Returns: how many addresses there are. The frames walked are those that are not known. */
static size_t
walk (Walk *self, uint64_t *addrs, size_t max_addrs)
{
  const size_t max_walked = max_addrs * BEYOND;
  size_t n_addrs = 1;

  addrs[0] = self->frame.pc;
  for (size_t n_steps = 0; n_steps < max_walked; n_steps++)
    {
      const SondeRule *rule;
      SondeKnownFrame *walked;
      size_t n;

      if (follow_known (self, addrs + n_addrs, max_addrs - n_addrs, &n))
        return n_addrs + n;
      walked = begin_frame (self);
      self->n_walked++;
      if (!step (self, &rule))
        {
          sonde_known_frame_end (walked, rule);
          break;
        }
      if (self->n_walked > 0)
        sonde_known_frame_learn (walked, rule, self->frame.sp, &self->stack);
      if (n_addrs < max_addrs)
        addrs[n_addrs++] = self->frame.pc;
    }
  sonde_known_stack_clear (&self->unwinder->known);
  return n_addrs;
}

size_t
sonde_self_unwinder_walk (SondeSelfUnwinder *self,
                          const SondeCallSite *caller,
                          uint64_t *addrs,
                          size_t max_addrs)
{
  const SondeArchRegisters *registers = native_registers ();
  const uint64_t generation = __atomic_load_n (&modules_generation, __ATOMIC_RELAXED);
  Walk walking;
  size_t n_addrs;

  if (self->generation != generation)
    forget_modules (self, generation);
  walking.unwinder = self;
  walking.frame = (SondePlainFrame){ .pc = caller->pc, .sp = caller->sp, .saved = { caller->fp } };
  walking.valid = (uint64_t) 1 << registers->sp | (uint64_t) 1 << registers->fp;
  walking.exact_pc = false;
  walking.n_foreign_pages = 0;
  walking.n_walked = 0;
  enter_stack (&walking);
  sonde_known_stack_begin (&self->known);
  n_addrs = walk (&walking, addrs, max_addrs);
  if (walking.is_own)
    sonde_known_stack_add (&self->known, self->walked, walking.n_walked);
  return n_addrs;
}
