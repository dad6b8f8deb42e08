/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call frame programs in memory of exactly their size, and a stack to run them on. */
#pragma once

#include <glib.h>
#include <string.h>

#include "unwind/cfi-rule.h"

#define CODE_BEGIN UINT64_C (0x1000)
#define CODE_END   UINT64_C (0x2000)

/* Bytes and their number, as two arguments. */
#define BYTES(...) (const guint8[]){ __VA_ARGS__ }, sizeof ((const guint8[]){ __VA_ARGS__ })
#define NO_BYTES   NULL, 0

typedef struct
{
  guint8 *bytes; /* the CIE's program, then the FDE's */
  SondeCfiSection section;
  SondeCfiCie cie;
  SondeCfiFde fde;
} CfiProgram;

/* Offsets count in words of -8 bytes, code in bytes; the return address is in column 16. */
static inline void
cfi_program_init (
    CfiProgram *self, const guint8 *cie, gsize cie_size, const guint8 *fde, gsize fde_size)
{
  guint8 *bytes = g_malloc (MAX (cie_size + fde_size, 1));

  if (cie_size > 0)
    memcpy (bytes, cie, cie_size);
  if (fde_size > 0)
    memcpy (bytes + cie_size, fde, fde_size);
  *self = (CfiProgram){
    .bytes = bytes,
    .section = { .bytes = bytes, .size_bytes = cie_size + fde_size },
    .cie = { .code_alignment = 1,
             .data_alignment = -8,
             .return_register = 16,
             .instructions = { bytes, bytes + cie_size } },
    .fde = { .begin = CODE_BEGIN,
             .end = CODE_END,
             .instructions = { bytes + cie_size, bytes + cie_size + fde_size } },
  };
}

static inline void
cfi_program_clear (CfiProgram *self)
{
  g_free (self->bytes);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CfiProgram, cfi_program_clear)

static inline int
cfi_program_run (const CfiProgram *self, guint64 pc, SondeCfiRow *row)
{
  uint32_t work = UINT32_MAX;

  return sonde_cfi_row_find (&self->section, &self->cie, &self->fde, pc, &work, row);
}
