/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Decodes the entries of .eh_frame, CIEs and FDEs, with every bound checked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: cfi-reader
 *
 * Source: Linux Standard Base 5.0, chapter 10.6 "Exception Frames"; DWARF 5, section 6.4. The bytes
 * are hostile but private: nobody changes them between two looks.
 */

/* Never reads at or behind @end. */
typedef struct
{
  const uint8_t *at;
  const uint8_t *end;
} SondeCfiCursor;

bool sonde_cfi_read_u8 (SondeCfiCursor *cursor, uint8_t *value);
bool sonde_cfi_read_u16 (SondeCfiCursor *cursor, uint16_t *value);
bool sonde_cfi_read_u32 (SondeCfiCursor *cursor, uint32_t *value);
bool sonde_cfi_read_u64 (SondeCfiCursor *cursor, uint64_t *value);
bool sonde_cfi_read_uleb128 (SondeCfiCursor *cursor, uint64_t *value);
bool sonde_cfi_read_sleb128 (SondeCfiCursor *cursor, int64_t *value);
bool sonde_cfi_skip (SondeCfiCursor *cursor, uint64_t n_bytes);

typedef struct
{
  const uint8_t *bytes;
  size_t size_bytes;
  uint64_t vaddr;
  bool is_32_bit; /* its addresses have 4 bytes */
} SondeCfiSection;

/* An encoded pointer (DW_EH_PE_*) of a file with or without @is_32_bit addresses. @vaddr is that of
 * the cursor, @data_vaddr that of .eh_frame_hdr (0 where datarel makes no sense). Indirect,
 * aligned, text- and function-relative pointers are refused. */
bool sonde_cfi_read_encoded (SondeCfiCursor *cursor,
                             uint8_t encoding,
                             bool is_32_bit,
                             uint64_t vaddr,
                             uint64_t data_vaddr,
                             uint64_t *value);

typedef struct
{
  size_t offset; /* of the entry in its section */
  size_t next;   /* where the following entry begins */
  bool is_cie;
  size_t cie_offset;   /* of an FDE */
  SondeCfiCursor body; /* behind the CIE id or pointer */
} SondeCfiEntry;

typedef struct
{
  size_t offset;
  uint64_t code_alignment;
  int64_t data_alignment;
  uint64_t return_register;
  uint8_t pointer_encoding; /* DW_EH_PE_* of the FDEs' addresses */
  bool has_augmentation;    /* FDEs carry an augmentation length */
  bool is_signal_frame;
  SondeCfiCursor instructions;
} SondeCfiCie;

typedef struct
{
  size_t offset;
  uint64_t begin; /* virtual addresses in the file */
  uint64_t end;
  SondeCfiCursor instructions;
} SondeCfiFde;

/* Returns 1 for an entry, 0 at the terminator or the end, -EBADMSG for what cannot be followed. */
int sonde_cfi_read_entry (const SondeCfiSection *section, size_t offset, SondeCfiEntry *entry);
bool sonde_cfi_read_cie (const SondeCfiSection *section, size_t offset, SondeCfiCie *cie);
/* @cie is that of @entry. False also for an empty range. */
bool sonde_cfi_read_fde (const SondeCfiSection *section,
                         const SondeCfiEntry *entry,
                         const SondeCfiCie *cie,
                         SondeCfiFde *fde);
