/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the static probes of an ELF file by their notes, and the values of their arguments. */
#pragma once

#include "base/elf-file.h"

/**
 * SECTION: probe-note
 *
 * A note of the section `.note.stapsdt` for each probe: where its instruction is, which does
 * nothing, where the word is that is counted up while somebody traces it, and where its arguments
 * are then: "8@%rdi -4@-16(%rbp) 8@$5". Of x86-64 alone, as the registers of a sample are those of
 * this machine.
 *
 * Files are anybody's: what is read of one is bounded, and a place that a note names has to be in a
 * segment that can hold it.
 *
 * Source: sys/sdt.h and "UserSpaceProbeImplementation" of systemtap
 */
#define SONDE_PROBE_SECTION       ".note.stapsdt"
#define SONDE_PROBE_NAME_BYTES    32  /* with the NUL; longer names are of no probe that we know */
#define SONDE_PROBE_TEXT_BYTES    128 /* the same of the arguments */
#define SONDE_PROBE_NOTE_BYTES    512 /* of a note that is looked at */
#define SONDE_PROBE_SECTION_BYTES (1u << 20) /* that are looked at */
#define SONDE_PROBE_MAX_ARGUMENTS 4

typedef struct
{
  uint64_t note;      /* where it stands in the file, bytes */
  uint64_t site;      /* of the instruction, the same */
  uint64_t semaphore; /* the same; 0: it has none */
  char name[SONDE_PROBE_NAME_BYTES];
  char arguments[SONDE_PROBE_TEXT_BYTES];
} SondeProbe;

/**
 * sonde_probe_read:
 * @file: loaded
 * @note: where a note stands in it
 * @provider: whose probe it has to be
 *
 * Returns: 0; -ENOENT: it is another note; -EBADMSG: it is none, or names impossible places; or
 * what pread() said
 */
int
sonde_probe_read (const SondeElfFile *file, uint64_t note, const char *provider, SondeProbe *probe);

/* The first @n_max probes of @provider, in the order of their notes, without those that name
 * impossible places. Returns: how many there are; or a negative errno */
int sonde_probes_find (const SondeElfFile *file,
                       const char *provider,
                       SondeProbe *probes,
                       size_t n_max);

#define SONDE_PROBE_STACK_POINTER 7 /* as perf numbers it: PERF_REG_X86_SP */

typedef enum
{
  SONDE_PROBE_CONSTANT, /* displacement */
  SONDE_PROBE_REGISTER, /* base */
  SONDE_PROBE_MEMORY,   /* at displacement + base + index × scale */
} SondeProbeOperandKind;

typedef struct
{
  SondeProbeOperandKind kind;
  unsigned size_bytes; /* 1, 2, 4, 8 */
  bool is_signed;
  int base;  /* as perf numbers registers: asm/perf_regs.h; -1: none */
  int index; /* the same */
  unsigned scale;
  int64_t displacement;
} SondeProbeOperand;

/* @text: of a probe's arguments. Returns: how many there are, at most SONDE_PROBE_MAX_ARGUMENTS;
 * -ENOTSUP: one that is not understood */
int sonde_probe_parse_arguments (const char *text,
                                 SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS]);

/* A sample: registers of the bits of @mask, and a copy of the stack from the stack pointer on. */
typedef struct
{
  uint64_t mask;
  const uint64_t *registers;
  size_t n_registers;
  const uint8_t *stack;
  size_t stack_size_bytes;
} SondeProbeState;

/* False: it is of a register that the sample lacks, or lies in memory that it lacks. */
bool sonde_probe_evaluate (const SondeProbeOperand *operand,
                           const SondeProbeState *state,
                           uint64_t *value);
