/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/self-unwinder.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unwind/cfi-encoding.h"
#include "unwind/cfi-reader.h"
#include "unwind/cfi-rule.h"
#include "unwind/plain-frame.h"

/* Wrong unwind data must not make a program fault, so a walk reads nothing that is not known to be
 * readable. A thread's own stack reaches from its stack pointer up to its control block, the main
 * thread's up to the name of the program; that it does is asked of the kernel, once for each page.
 * Nothing lasts of other stacks (of coroutines, or of signal handlers): they may be unmapped any
 * time, so their pages are asked for at each walk. */
typedef struct
{
  uint64_t low;  /* the thread's own stack is readable from here */
  uint64_t high; /* to here; 0: not looked for, or not found */
} ThreadStack;

/* Farther from where the stack is known, the stack pointer is on another one: this much is asked
 * for page by page, at most. */
#define MAX_STEP_BYTES      (UINT64_C (64) << 20)

#define KERNEL_SIGSET_BYTES 8
#define WORD_BYTES          sizeof (uintptr_t)
#define IS_32_BIT           (WORD_BYTES == 4)
#define NO_SUCH_OPERATION   (-1)

static uint64_t
page_bytes (void)
{
  return getauxval (AT_PAGESZ);
}

/* The kernel copies the set before it looks at the operation. Of the system calls that would do,
 * this one is forbidden in no sandbox. */
static bool
is_readable (uint64_t address)
{
  uint64_t word = address & -(uint64_t) KERNEL_SIGSET_BYTES;
  int saved_errno = errno;
  bool is_readable
      = syscall (SYS_rt_sigprocmask, NO_SUCH_OPERATION, word, NULL, KERNEL_SIGSET_BYTES) == 0
        || errno != EFAULT;

  errno = saved_errno;
  return is_readable;
}

/* Whether @sp is on the thread's own stack, whose bounds @self learns. It ends where glibc puts a
 * thread's control block, the first one where the kernel puts the program's name. What is readable
 * below it without a gap belongs to it, whether or not @sp does: so no page is asked for twice, but
 * for the one that was not readable. The first stack grows. */
static bool
stack_holds (ThreadStack *self, uint64_t sp)
{
  if (self->high == 0)
    {
      uint64_t first = getauxval (AT_EXECFN);

      self->high = sp < first && first - sp < MAX_STEP_BYTES ? first : (uint64_t) pthread_self ();
      self->low = self->high;
    }
  if (sp >= self->low)
    return sp < self->high;
  if (self->low - sp > MAX_STEP_BYTES)
    return false;

  while (self->low > sp && is_readable (self->low - 1))
    self->low = (self->low - 1) & -page_bytes ();
  return self->low <= sp;
}

/* The last stack that was walked, and the words in memory that it was found by.
 *
 * What a frame's caller is follows from where the frame goes on (pc), its stack pointer, for some
 * frames its frame pointer, and a few words in memory, whose places follow from those. So if a walk
 * comes to a frame that the last one met, too, and these words still say the same, frame by frame,
 * then the rest of the stack is that of the last one. A word is looked at only when all inner ones
 * were the same: it is then as readable as it was.
 *
 * A frame that is found in another way (through other registers, or a signal's) is not kept, nor
 * are the frames inside of it. */
#define MAX_KNOWN_FRAMES 1024

typedef struct
{
  uint64_t sum; /* of this frame and its callers: sum_of() */
  uint64_t pc;
  uint64_t sp;
  uint64_t fp;
  uint64_t pc_place; /* of the caller's pc; 0: there is no caller */
  uint64_t fp_place; /* of the caller's fp; 0: it is the same, or does not matter */
  uint64_t sp_place; /* of the caller's sp; 0: it follows */
  bool needs_fp;     /* a caller is found through it */
  bool is_opaque;    /* not to be kept */
} KnownFrame;

typedef struct
{
  size_t n_frames;                     /* kept */
  size_t candidate;                    /* frames that the walk may still come to */
  bool is_cut;                         /* the first one has a caller that is not kept */
  bool is_last;                        /* all of them end the stack that was told last */
  KnownFrame frames[MAX_KNOWN_FRAMES]; /* outermost first */
} KnownStack;

static bool
can_be_read (const SondeStackCopy *stack, uint64_t place)
{
  return place - stack->address <= stack->size_bytes - WORD_BYTES
         && stack->size_bytes >= WORD_BYTES;
}

static uint64_t
place_at (uint64_t base, int16_t words)
{
  return base + (uint64_t) ((int64_t) words * (int64_t) WORD_BYTES);
}

/* How the caller of @frame was found: by @rule, at @caller_sp. */
static void
learn_frame (KnownFrame *frame,
             const SondeRule *rule,
             uint64_t caller_sp,
             const SondeStackCopy *stack)
{
  const SondeArchRegisters *registers = sonde_arch_registers (sonde_arch_native ());
  uint64_t base = rule->cfa_register == registers->sp ? frame->sp : frame->fp;
  bool is_plain = rule->kind == SONDE_RULE_REGISTER || rule->kind == SONDE_RULE_DEREF
                  || rule->kind == SONDE_RULE_PLT;

  frame->pc_place
      = place_at ((rule->flags & SONDE_RULE_RA_FROM_BASE) != 0 ? base : caller_sp, rule->ra_place);
  frame->fp_place = 0;
  frame->sp_place = 0;
  if ((rule->saved_mask & 1) != 0)
    frame->fp_place = place_at ((rule->flags & SONDE_RULE_SAVED_FROM_BASE) != 0 ? base : caller_sp,
                                rule->saved_offset[0]);
  if (rule->kind == SONDE_RULE_DEREF)
    frame->sp_place = base + (uint64_t) (int64_t) rule->cfa_offset;
  frame->needs_fp = rule->cfa_register == registers->fp;
  frame->is_opaque = frame->is_opaque || !is_plain
                     || (rule->flags & (SONDE_RULE_SIGNAL | SONDE_RULE_RA_IN_REGISTER)) != 0
                     || (rule->cfa_register != registers->sp && rule->cfa_register != registers->fp)
                     || !can_be_read (stack, frame->pc_place)
                     || (frame->fp_place != 0 && !can_be_read (stack, frame->fp_place))
                     || (frame->sp_place != 0 && !can_be_read (stack, frame->sp_place));
}

static void
forget_stack (KnownStack *self)
{
  self->n_frames = 0;
  self->candidate = 0;
  self->is_cut = false;
}

static inline uint64_t
read_word (uint64_t place)
{
  return *(const volatile uintptr_t *) (uintptr_t) place;
}

/* Odd numbers of no pattern: the first ones of splitmix64. */
#define N_FACTORS 32u
static const uint64_t factors[N_FACTORS]
    = { UINT64_C (0xE220A8397B1DCDAF), UINT64_C (0x6E789E6AA1B965F5), UINT64_C (0x06C45D188009454F),
        UINT64_C (0xF88BB8A8724C81ED), UINT64_C (0x1B39896A51A8749B), UINT64_C (0x53CB9F0C747EA2EB),
        UINT64_C (0x2C829ABE1F4532E1), UINT64_C (0xC584133AC916AB3D), UINT64_C (0x3EE5789041C98AC3),
        UINT64_C (0xF3B8488C368CB0A7), UINT64_C (0x657EECDD3CB13D09), UINT64_C (0xC2D326E0055BDEF7),
        UINT64_C (0x8621A03FE0BBDB7B), UINT64_C (0x8E1F7555983AA92F), UINT64_C (0xB54E0F1600CC4D19),
        UINT64_C (0x84BB3F97971D80AB), UINT64_C (0x7D29825C75521255), UINT64_C (0xC3CF17102B7F7F87),
        UINT64_C (0x3466E9A083914F65), UINT64_C (0xD81A8D2B5A4485AD), UINT64_C (0xDB01602B100B9ED7),
        UINT64_C (0xA9038A921825F10D), UINT64_C (0xEDF5F1D90DCA2F6B), UINT64_C (0x54496AD67BD2634D),
        UINT64_C (0xDD7C01D4F5407269), UINT64_C (0x935E82F1DB4C4F7B), UINT64_C (0x69B82EBC92233301),
        UINT64_C (0x40D29EB57DE1D511), UINT64_C (0xA2F09DABB45C6317), UINT64_C (0xEE521D7A0F4D3873),
        UINT64_C (0xF16952EE72F3454F), UINT64_C (0x377D35DEA8E40225) };

/* A stack's hash is a sum in which each place, counted from the outermost one, has a factor of its
 * own. So it is there for all the frames that stay as they were, and no step waits for another. */
static inline uint64_t
sum_of (uint64_t pc, size_t place)
{
  return pc * factors[place % N_FACTORS] * (factors[place / N_FACTORS % N_FACTORS] + 2);
}

/* Whether the stack goes on from @index as it did; then the callers' pcs are stored. */
static bool
follow_from (KnownStack *self, size_t index, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  const KnownFrame *frame = &self->frames[index];
  const KnownFrame *last = frame - (index < max_addrs ? index : max_addrs);

  if (self->is_cut && index < max_addrs)
    return false;
  for (; frame > last; frame--)
    {
      const KnownFrame *caller = frame - 1;

      /* The pc's word may carry a pointer-authentication code. */
      if (__builtin_expect (
              sonde_arch_strip_pac (sonde_arch_native (), read_word (frame->pc_place)) != caller->pc
                  || (frame->fp_place != 0 && read_word (frame->fp_place) != caller->fp)
                  || (frame->sp_place != 0 && read_word (frame->sp_place) != caller->sp),
              false))
        {
          /* What is inside of it cannot lead on either. */
          self->candidate = (size_t) (frame - self->frames);
          return false;
        }
      *addrs++ = caller->pc;
    }
  self->candidate = index + 1;
  *n_addrs = index < max_addrs ? index : max_addrs;
  return true;
}

/* A walk that ended without coming to a known frame leaves nothing of the last one. */
static void
keep_stack (KnownStack *self, const KnownFrame *walked, size_t n_walked)
{
  size_t n = self->candidate;

  if (n + n_walked > MAX_KNOWN_FRAMES)
    n = 0;
  if (n == 0)
    self->is_cut = n_walked > 0 && walked[n_walked - 1].pc_place != 0;
  for (size_t i = n_walked; i > 0 && !walked[i - 1].is_opaque; i--)
    {
      KnownFrame *frame = &self->frames[n];
      bool caller_needs_fp = n > 0 && self->frames[n - 1].needs_fp;

      *frame = walked[i - 1];
      if (!caller_needs_fp)
        frame->fp_place = 0;
      else if (frame->fp_place == 0)
        frame->needs_fp = true;
      frame->sum = sum_of (frame->pc, n) + (n > 0 ? frame[-1].sum : 0);
      n++;
    }
  self->n_frames = n;
}

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
  ThreadStack stack;
  KnownStack known;
  KnownFrame walked[MAX_KNOWN_FRAMES]; /* in this walk, leaf first */
  uint64_t listed[SONDE_SELF_UNWINDER_MAX_ADDRS];
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
} OwnWalk;

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
lookup_pc (const OwnWalk *self)
{
  return self->exact_pc ? self->frame.pc : self->frame.pc - 1;
}

/* --- call frame information of this process's own modules ---
 *
 * Read in place, by the linker's own table of functions (PT_GNU_EH_FRAME); all addresses are those
 * in memory. Which module an address is in tells _dl_find_object(), which takes no lock and may be
 * called anywhere, malloc() and signal handlers included. It is there since glibc 2.35; without it
 * nothing is ever found.
 *
 * The bytes are the process's own, but are read with all bounds, up to the end of their segment.
 * They are gone after a dlclose(): nothing found here may be used once the module can be gone. */
#pragma weak _dl_find_object

#define HEADER_VERSION      1
#define ROW_BYTES           8
#define MAX_PROGRAM_HEADERS 256

/* How every linker of today writes its table. */
#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

typedef struct
{
  uint8_t version;
  uint8_t eh_frame_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
} Preamble;

typedef struct
{
  SondeCfiSection section; /* .eh_frame, up to the end of its segment */
  const uint8_t *header;   /* .eh_frame_hdr */
  const uint8_t *rows;     /* of its table: two words of 4 bytes each, relative to @header */
  size_t n_rows;
} LoadedCfi;

/* The end of the segment that holds @address; NULL if the module's headers are not where they
 * should be. */
static const uint8_t *
find_segment_end (const struct dl_find_object *module, const uint8_t *address)
{
  const ElfW (Ehdr) *elf = module->dlfo_map_start;
  const uint8_t *begin = module->dlfo_map_start;
  const uint8_t *end = module->dlfo_map_end;
  const ElfW (Phdr) * segments;

  if ((size_t) (end - begin) < sizeof *elf || memcmp (elf->e_ident, ELFMAG, SELFMAG) != 0
      || elf->e_phentsize != sizeof *segments || elf->e_phnum > MAX_PROGRAM_HEADERS
      || elf->e_phoff > 4096 || elf->e_phoff % sizeof (ElfW (Addr)) != 0)
    return NULL;

  segments = (const void *) (begin + elf->e_phoff);
  for (size_t i = 0; i < elf->e_phnum; i++)
    {
      uint64_t at = module->dlfo_link_map->l_addr + segments[i].p_vaddr;

      if (segments[i].p_type == PT_LOAD && (uintptr_t) address - at < segments[i].p_filesz)
        return address + (at + segments[i].p_filesz - (uintptr_t) address);
    }
  return NULL;
}

/* False: @address is in no module, or in one without such a table. Leaves errno alone. */
static bool
find_module (uint64_t address, LoadedCfi *self)
{
  struct dl_find_object module;
  const uint8_t *bytes;
  const uint8_t *end;
  SondeCfiCursor cursor;
  Preamble preamble;
  uint64_t eh_frame;
  uint64_t n_rows;

  if (_dl_find_object == NULL || _dl_find_object ((void *) (uintptr_t) address, &module) != 0
      || module.dlfo_eh_frame == NULL)
    return false;
  self->header = module.dlfo_eh_frame;
  end = find_segment_end (&module, self->header);
  if (end == NULL || (size_t) (end - self->header) < sizeof preamble)
    return false;

  /* behind the preamble: the place of .eh_frame, the number of rows, the rows */
  memcpy (&preamble, self->header, sizeof preamble);
  cursor = (SondeCfiCursor){ self->header + sizeof preamble, end };
  if (preamble.version != HEADER_VERSION || preamble.table_encoding != TABLE_ENCODING
      || !sonde_cfi_read_encoded (&cursor, preamble.eh_frame_encoding, IS_32_BIT,
                                  (uintptr_t) cursor.at, (uintptr_t) self->header, &eh_frame)
      || !sonde_cfi_read_encoded (&cursor, preamble.count_encoding, IS_32_BIT,
                                  (uintptr_t) cursor.at, (uintptr_t) self->header, &n_rows)
      || n_rows > (size_t) (end - cursor.at) / ROW_BYTES)
    return false;
  self->rows = cursor.at;
  self->n_rows = n_rows;

  bytes = (const uint8_t *) (uintptr_t) eh_frame;
  end = find_segment_end (&module, bytes);
  if (end == NULL)
    return false;
  self->section = (SondeCfiSection){
    .bytes = bytes,
    .size_bytes = (size_t) (end - bytes),
    .vaddr = eh_frame,
    .is_32_bit = IS_32_BIT,
  };
  return true;
}

static int32_t
row_word (const uint8_t *at)
{
  int32_t word;

  memcpy (&word, at, sizeof word);
  return word;
}

/* The function around @address, in the module that was found for it. False: none. */
static bool
find_function (const LoadedCfi *self, uint64_t address, SondeCfiCie *cie, SondeCfiFde *fde)
{
  int64_t wanted = (int64_t) (address - (uintptr_t) self->header);
  SondeCfiEntry entry;
  size_t low = 0;
  size_t high = self->n_rows;
  uint64_t offset;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (row_word (self->rows + middle * ROW_BYTES) <= wanted)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == 0)
    return false;

  offset = (uintptr_t) self->header - self->section.vaddr
           + (uint64_t) (int64_t) row_word (self->rows + (low - 1) * ROW_BYTES + ROW_BYTES / 2);
  return offset < self->section.size_bytes
         && sonde_cfi_read_entry (&self->section, offset, &entry) == 1 && !entry.is_cie
         && sonde_cfi_read_cie (&self->section, entry.cie_offset, cie)
         && sonde_cfi_read_fde (&self->section, &entry, cie, fde) && address >= fde->begin
         && address < fde->end;
}

/* The row of @address, into the scratch. False: there is none, or it makes no sense. */
static bool
find_row (SondeSelfUnwinder *self, const LoadedCfi *module, uint64_t address)
{
  uint32_t work = MAX_WORK;
  SondeCfiCie cie;
  SondeCfiFde fde;

  return find_function (module, address, &cie, &fde)
         && sonde_cfi_row_find_with (&self->scratch, &module->section, &cie, &fde, address, &work,
                                     &self->row)
                == 0;
}

/* NULL: the address is in no module. That is not remembered, as there may be one some day. */
static const SondeRule *
find_rule (SondeSelfUnwinder *self, uint64_t address)
{
  KnownRule *place = &self->rules[address * UINT64_C (0x9E3779B97F4A7C15) >> (64 - RULE_BITS)];
  LoadedCfi module;

  if (__builtin_expect (place->address == address, true))
    return &place->rule;
  if (!find_module (address, &module))
    return NULL;
  place->address = address;
  if (find_row (self, &module, address))
    sonde_rule_from_row (&place->rule, &self->row, &module.section, sonde_arch_native ());
  else
    place->rule = (SondeRule){ .kind = SONDE_RULE_NONE };
  return &place->rule;
}

/* The readable memory around the frame's stack pointer, from there upwards. */
static void
enter_stack (OwnWalk *self)
{
  const ThreadStack *own = &self->unwinder->stack;
  uint64_t sp = self->frame.sp;

  self->is_own = stack_holds (&self->unwinder->stack, sp);
  self->stack = (SondeStackCopy){
    .bytes = (const uint8_t *) (uintptr_t) sp,
    .address = sp,
    .is_32_bit = IS_32_BIT,
    /* What called us has just stored a word below. */
    .size_bytes = (self->is_own ? own->high : ((sp - 1) | (page_bytes () - 1)) + 1) - sp,
  };
}

/* One more page of another stack; false if there is none. */
static bool
extend_stack (OwnWalk *self)
{
  uint64_t end = self->stack.address + self->stack.size_bytes;

  if (self->is_own || self->n_foreign_pages == MAX_FOREIGN_PAGES || !is_readable (end))
    return false;
  self->n_foreign_pages++;
  self->stack.size_bytes = (end | (page_bytes () - 1)) + 1 - self->stack.address;
  return true;
}

/* Any rule, with all that it may want. */
static bool
step_slowly (OwnWalk *self, const SondeRule *rule)
{
  const SondeArchRegisters *registers = native_registers ();
  const uint64_t address = lookup_pc (self);
  SondeFrameState state;
  LoadedCfi module;
  SondeStep step;

  do
    {
      state = (SondeFrameState){ .pc = self->frame.pc, .exact_pc = self->exact_pc };
      state.registers.valid = self->valid;
      state.registers.values[registers->sp] = self->frame.sp;
      state.registers.values[registers->saved[0]] = self->frame.saved[0];
      state.registers.values[registers->saved[1]] = self->frame.saved[1];
      self->stack.ran_out = false;
      if (rule->kind == SONDE_RULE_SLOW)
        {
          if (!find_module (address, &module) || !find_row (self->unwinder, &module, address))
            return false;
          step = sonde_row_step (&self->unwinder->row, &module.section, sonde_arch_native (),
                                 &state, &self->stack, false);
        }
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
step_plainly (OwnWalk *self, const SondeRule *rule)
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
frame_pointer_rule (const OwnWalk *self)
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
  static const SondeRule i_386 = { .kind = SONDE_RULE_REGISTER,
                                   .cfa_register = 5,
                                   .cfa_offset = 8,
                                   .ra_place = -1,
                                   .saved_mask = 1,
                                   .saved_offset = { -2 } };
  uint64_t fp = self->frame.saved[0];

  if ((self->valid >> native_registers ()->fp & 1) == 0 || fp < self->frame.sp
      || fp % WORD_BYTES != 0)
    return NULL;
  if (IS_32_BIT)
    return &i_386;
  return sonde_arch_native () == SONDE_ARCH_AARCH64 ? &aarch64 : &x86_64;
}

/* A frame pointer may be anything; what it led to must be code, as far as can be told. */
static bool
step_by_frame_pointer (OwnWalk *self, const SondeRule *rule)
{
  const OwnWalk before = *self;
  LoadedCfi module;
  bool is_there;

  do
    is_there = step_plainly (self, rule);
  while (!is_there && extend_stack (self));
  if (is_there && (find_module (self->frame.pc - 1, &module) || is_readable (self->frame.pc - 1)))
    return true;
  self->frame = before.frame;
  return false;
}

/* Goes to the caller; @rule: (out): how it was found. */
static inline bool
step (OwnWalk *self, const SondeRule **rule)
{
  *rule = find_rule (self->unwinder, lookup_pc (self));
  if (__builtin_expect (*rule != NULL && step_plainly (self, *rule), true))
    return true;
  if (*rule != NULL && (*rule)->kind != SONDE_RULE_NONE)
    return step_slowly (self, *rule);
  *rule = frame_pointer_rule (self);
  return *rule != NULL && step_by_frame_pointer (self, *rule);
}

/* Whether the rest of the stack is that of the last one from this frame on; then its pcs, but for
 * the frame's own, are stored, and counted in @n_addrs. */
static inline bool
follow_known (OwnWalk *self, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  KnownStack *known = &self->unwinder->known;
  const SondePlainFrame *here = &self->frame;
  const KnownFrame *frame;

  if (!self->is_own || self->exact_pc || (self->valid >> native_registers ()->fp & 1) == 0)
    return false;
  while (known->candidate > 0 && known->frames[known->candidate - 1].sp < here->sp)
    known->candidate--;
  if (known->candidate == 0)
    return false;
  frame = &known->frames[known->candidate - 1];
  return frame->sp == here->sp && frame->pc == here->pc
         && (!frame->needs_fp || frame->fp == here->saved[0])
         && follow_from (known, known->candidate - 1, addrs, max_addrs, n_addrs);
}

/* Returns: how many addresses there are. The frames walked are those that are not known. */
static size_t
walk (OwnWalk *self, uint64_t *addrs, size_t max_addrs)
{
  const size_t max_walked = max_addrs * BEYOND;
  size_t n_addrs = 1;

  addrs[0] = self->frame.pc;
  for (size_t n_steps = 0; n_steps < max_walked; n_steps++)
    {
      const SondeRule *rule;
      KnownFrame *walked;
      size_t n;

      if (follow_known (self, addrs + n_addrs, max_addrs - n_addrs, &n))
        return n_addrs + n;
      walked = &self->unwinder->walked[self->n_walked++];
      walked->pc = self->frame.pc;
      walked->sp = self->frame.sp;
      walked->fp = self->frame.saved[0];
      walked->is_opaque = self->exact_pc || (self->valid >> native_registers ()->fp & 1) == 0;
      if (!step (self, &rule))
        {
          /* Only a rule that says so makes the frame the outermost for sure. */
          walked->is_opaque |= rule == NULL || rule->kind != SONDE_RULE_END;
          walked->pc_place = walked->fp_place = walked->sp_place = 0;
          walked->needs_fp = false;
          break;
        }
      if (self->n_walked > 0)
        learn_frame (walked, rule, self->frame.sp, &self->stack);
      if (n_addrs < max_addrs)
        addrs[n_addrs++] = self->frame.pc;
    }
  forget_stack (&self->unwinder->known);
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
  OwnWalk walking;
  size_t n_addrs;

  if (self->generation != generation)
    {
      memset (self->rules, 0, sizeof self->rules);
      forget_stack (&self->known);
      self->generation = generation;
    }
  walking.unwinder = self;
  walking.frame = (SondePlainFrame){ .pc = caller->pc, .sp = caller->sp, .saved = { caller->fp } };
  walking.valid = (uint64_t) 1 << registers->sp | (uint64_t) 1 << registers->fp;
  walking.exact_pc = false;
  walking.n_foreign_pages = 0;
  walking.n_walked = 0;
  enter_stack (&walking);
  self->known.candidate = self->known.n_frames;
  n_addrs = walk (&walking, addrs, max_addrs);
  if (walking.is_own)
    keep_stack (&self->known, self->walked, walking.n_walked);
  /* One that is longer than what was told of it ends elsewhere. */
  self->known.is_last = walking.is_own && n_addrs < max_addrs && !self->known.is_cut;
  return n_addrs;
}

size_t
sonde_self_unwinder_list (SondeSelfUnwinder *self,
                          const SondeCallSite *caller,
                          SondeStandingCall *calls,
                          size_t max_calls)
{
  size_t n_addrs;

  forget_stack (&self->known);
  n_addrs = sonde_self_unwinder_walk (self, caller, self->listed, max_calls);
  for (size_t i = 0; i < n_addrs; i++)
    {
      const KnownFrame *frame = &self->walked[i];
      LoadedCfi module;
      SondeCfiCie cie;
      SondeCfiFde fde;

      calls[i] = (SondeStandingCall){ .sp = frame->sp,
                                      .return_place = frame->is_opaque ? 0 : frame->pc_place,
                                      .returns_to = i + 1 < n_addrs ? self->listed[i + 1] : 0 };
      /* The call before the return address is in the function, also where that never returns. */
      if (find_module (frame->pc - 1, &module)
          && find_function (&module, frame->pc - 1, &cie, &fde))
        calls[i].function = fde.begin;
    }
  return n_addrs;
}

uint64_t
sonde_self_unwinder_hash (const SondeSelfUnwinder *self, const uint64_t *addrs, size_t n_addrs)
{
  const KnownStack *known = &self->known;
  size_t n = known->is_last && known->n_frames <= n_addrs ? known->n_frames : 0;
  uint64_t hash = n_addrs + (n > 0 ? known->frames[n - 1].sum : 0);

  for (; n < n_addrs; n++)
    hash += sum_of (addrs[n_addrs - 1 - n], n);

  /* The finalizer of splitmix64. */
  hash = (hash ^ hash >> 30) * UINT64_C (0xBF58476D1CE4E5B9);
  hash = (hash ^ hash >> 27) * UINT64_C (0x94D049BB133111EB);
  return hash ^ hash >> 31;
}
