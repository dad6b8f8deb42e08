/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds and judges the places that compilers left for calls of hooks in a module's functions. */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: sled-map
 *
 * A *sled* is where a function begins or ends: instructions that do nothing, in whose place a jump
 * to a hook fits. The section xray_instr_map says where they are. It is in no segment of its own
 * and has no symbol, so the section headers of the module's file are asked. All that a file or a
 * map says is compared with where the module is loaded, and a sled's bytes with what clang writes.
 *
 * A sled is fresh, or ready: a jump to our code is in it, which nobody reaches; or on. Between the
 * last two it differs in one byte, so that threads which run there meanwhile find one or the other.
 *
 * Of -fpatchable-function-entry there is the section __patchable_function_entries, with addresses.
 * At each the function has five bytes that do nothing, but the instructions there may be shorter:
 * a thread may stand between them. So they can only be changed, to a call, while there is no other
 * thread. They must be where a function begins, by .eh_frame_hdr: there may be some before it, too.
 *
 * Nothing here is changed but the bytes of a sled; no state is kept. x86-64 alone.
 *
 * Source: GCC manual, "Instrumentation Options"; LSB Core, "Exception Frames"; LLVM,
 * llvm/docs/XRay.rst, "Instrumentation map"; llvm/lib/Target/X86/X86MCInstLower.cpp,
 *   LowerPATCHABLE_FUNCTION_ENTER, LowerPATCHABLE_RET
 */
#define SONDE_SLED_MAP_ENTRY_BYTES 32u
#define SONDE_SLED_BYTES           11u
#define SONDE_SLED_BEGIN_BYTES     5u

/* Of a module, and of the entries of its map. */
#define SONDE_SLED_MAX_SEGMENTS 16u
#define SONDE_SLED_MAX_ENTRIES  (1u << 22)

/* Where the call that is made of a sled at a function's beginning or before a tail call returns to,
 * from the sled on. */
#define SONDE_SLED_RETURN_BYTES 7u

typedef struct
{
  uint64_t lo;
  uint64_t hi;
} SondeSledRange;

/* Of a module, as it is loaded. */
typedef struct
{
  SondeSledRange text[SONDE_SLED_MAX_SEGMENTS]; /* can be read and executed */
  int protection[SONDE_SLED_MAX_SEGMENTS];      /* PROT_* of it */
  uint32_t n_texts;
  uint64_t map; /* where its entries are */
  uint32_t n_entries;
  uint64_t addresses; /* where those of SONDE_SLED_BEGIN are */
  uint32_t n_addresses;
  uint64_t frames; /* .eh_frame_hdr; its table has so many functions, in order */
  uint32_t n_frames;
} SondeSledMap;

typedef enum
{
  SONDE_SLED_ENTRY,
  SONDE_SLED_EXIT,
  SONDE_SLED_TAIL,  /* before a jump to another function, which returns in place of this one */
  SONDE_SLED_BEGIN, /* of -fpatchable-function-entry */
  SONDE_SLED_N_KINDS,
} SondeSledKind;

typedef struct
{
  uint64_t address;
  uint64_t function; /* that it is in */
  SondeSledKind kind;
  uint32_t text; /* that it is in */
} SondeSled;

typedef enum
{
  SONDE_SLED_OK,
  SONDE_SLED_EVENT, /* of the program's own, which calls no hook here */
  SONDE_SLED_FAULT_VERSION,
  SONDE_SLED_FAULT_KIND,
  SONDE_SLED_FAULT_PADDING,
  SONDE_SLED_FAULT_OUTSIDE, /* of the text of its module: itself, its end, or its function */
  SONDE_SLED_FAULT_ODD,
  SONDE_SLED_FAULT_INSIDE, /* not where a function begins, as far as it is known */
} SondeSledVerdict;

typedef enum
{
  SONDE_SLED_OTHER, /* bytes that clang does not write, nor we */
  SONDE_SLED_FRESH,
  SONDE_SLED_READY,
  SONDE_SLED_ON,
} SondeSledState;

/**
 * sonde_sled_map_find:
 * @fd: the module's file
 * @info: of dl_iterate_phdr()
 * @map: (out)
 *
 * Errors: -ENOENT it has neither section; -ESTALE the file is not the one that was loaded; -EBADMSG
 * what its headers say of a map cannot be; errno of pread(2)
 */
int sonde_sled_map_find (int fd, const struct dl_phdr_info *info, SondeSledMap *map);

/**
 * sonde_sled_map_judge:
 * @entry: a copy of the entry
 * @address: where it is
 * @sled: (out): only of SONDE_SLED_OK
 */
SondeSledVerdict sonde_sled_map_judge (const SondeSledMap *map,
                                       const uint8_t entry[SONDE_SLED_MAP_ENTRY_BYTES],
                                       uint64_t address,
                                       SondeSled *sled);

/* @address: of SONDE_SLED_BEGIN; the four bytes before it are read if they are of the text. */
SondeSledVerdict
sonde_sled_map_judge_begin (const SondeSledMap *map, uint64_t address, SondeSled *sled);

/* @code: the bytes of the sled, which lie at its address; @target: our code for its kind, 2 GiB
 * from there at most. */
SondeSledState sonde_sled_look (const SondeSled *sled, const uint8_t *code, uint64_t target);
/* A fresh one is ready then; one of SONDE_SLED_BEGIN is on. */
void sonde_sled_prepare (const SondeSled *sled, uint8_t *code, uint64_t target);
/* One that is ready is on then, or the other way round. Not of SONDE_SLED_BEGIN. */
void sonde_sled_switch (const SondeSled *sled, uint8_t *code, bool is_on);
