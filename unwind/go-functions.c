/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/go-functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi-index.h"

enum
{
  BYTES_PER_WORK = 64,  /* as in cfi-builder */
  WORK_PER_NAME = 64,   /* to compare a name with all that matter */
  LR_AARCH64 = 30,      /* DWARF number of the register with the return address */
  MAX_STACK = 64 << 20, /* bytes of one frame */
};

/* Where a stack begins: nobody called them, or the kernel did, on a stack of signals. Source:
 * TOPFRAME in Go's src/runtime/asm_amd64.s, asm_arm64.s, rt0_linux_*.s and sys_linux_*.s */
static const char *const outermost[] = {
  "_rt0_amd64",       "_rt0_amd64_linux",  "_rt0_arm64",
  "_rt0_arm64_linux", "runtime.goexit",    "runtime.mstart",
  "runtime.rt0_go",   "runtime.sigreturn", "runtime.sigreturn__sigaction",
  "runtime.sigtramp",
};

/* These change to another stack before they call: what called them lies there. Source: the same
 * files, and time_linux_amd64.s */
static const char *const joints[] = {
  "runtime.asmcgocall", "runtime.cgocallback", "runtime.mcall",    "runtime.morestack",
  "runtime.nanotime1",  "runtime.systemstack", "runtime.walltime", "time.now",
};

void
sonde_go_functions_find (SondeGoFunctions *self, const SondeElfFile *file)
{
  Elf64_Shdr section, text;

  /* Position-independent programs have it among what is relocated. */
  if (file->is_32_bit || file->names_size_bytes == 0
      || memmem (file->names, file->names_size_bytes, ".gopclntab", 10) == NULL
      || (!sonde_elf_file_find_section (file, ".gopclntab", SHT_PROGBITS, &section)
          && !sonde_elf_file_find_section (file, ".data.rel.ro.gopclntab", SHT_PROGBITS, &section))
      || (section.sh_flags & SHF_COMPRESSED) != 0)
    return;
  self->file = *file;
  self->file.loads = NULL;
  self->file.names = NULL;
  self->offset = section.sh_offset;
  self->size_bytes = section.sh_size;
  if (sonde_elf_file_find_section (file, ".text", SHT_PROGBITS, &text))
    self->text = text.sh_addr;
}

void
sonde_go_functions_clear (SondeGoFunctions *self)
{
  free (self->bytes);
  *self = (SondeGoFunctions){ 0 };
}

bool
sonde_go_functions_discard (SondeGoFunctions *self, uint32_t *work)
{
  self->is_usable = false;
  return sonde_cfi_discard (self->bytes, 0, &self->size_bytes, work);
}

int
sonde_go_functions_read (SondeGoFunctions *self, size_t max_bytes, uint32_t *work)
{
  size_t n = self->size_bytes - self->at;

  if (n == 0)
    return 0;
  if (self->size_bytes > max_bytes)
    {
      sonde_go_functions_clear (self);
      return 0;
    }
  if (self->bytes == NULL)
    {
      self->bytes = malloc (self->size_bytes);
      if (self->bytes == NULL)
        return -ENOMEM;
    }
  if (n > (uint64_t) *work * BYTES_PER_WORK)
    n = (size_t) *work * BYTES_PER_WORK;
  if (sonde_elf_file_read (&self->file, self->offset + self->at, self->bytes + self->at, n) < 0)
    {
      sonde_go_functions_clear (self);
      return 0;
    }
  *work -= (uint32_t) ((n + BYTES_PER_WORK - 1) / BYTES_PER_WORK);
  self->at += n;
  if (self->at < self->size_bytes)
    return 1;
  self->is_usable = sonde_go_table_parse (&self->table, self->bytes, self->size_bytes, self->text,
                                          self->file.header.e_entry);
  if (!self->is_usable)
    sonde_go_functions_clear (self);
  return 0;
}

bool
sonde_go_functions_range (const SondeGoFunctions *self,
                          uint64_t vaddr,
                          uint64_t *begin,
                          uint64_t *end)
{
  SondeGoFunction function;

  if (!self->is_usable || !sonde_go_table_find (&self->table, vaddr, &function))
    return false;
  *begin = function.begin;
  *end = function.end;
  return true;
}

/* Some versions add how assembly code is called. */
static bool
is_one_of (const char *name, const char *const *names, size_t n_names)
{
  for (size_t i = 0; name != NULL && i < n_names; i++)
    {
      size_t length = strlen (names[i]);

      if (strncmp (name, names[i], length) == 0
          && (name[length] == '\0' || strcmp (name + length, ".abi0") == 0))
        return true;
    }
  return false;
}

/* The caller's frame pointer lies below the return address in all frames that are not empty. Only
 * x86-64 has the return address above what the function took; aarch64 at the end of it. */
static void
fill_rule (SondeRule *rule, SondeArch arch, int32_t size)
{
  rule->cfa_register = sonde_arch_registers (arch)->sp;
  rule->cfa_offset = size;
  if (arch == SONDE_ARCH_AARCH64 && size > 0)
    rule->flags = SONDE_RULE_RA_FROM_BASE;
  else if (arch == SONDE_ARCH_AARCH64)
    {
      rule->flags = SONDE_RULE_RA_IN_REGISTER;
      rule->ra_place = LR_AARCH64;
    }
  else
    {
      rule->cfa_offset += 8;
      rule->ra_place = -1;
      rule->saved_mask = size > 0;
      rule->saved_offset[0] = -2;
    }
}

bool
sonde_go_functions_rule (const SondeGoFunctions *self,
                         uint64_t vaddr,
                         SondeArch arch,
                         uint32_t *work,
                         SondeRule *rule,
                         uint64_t *begin,
                         uint64_t *end)
{
  SondeGoFunction function;
  const char *name;
  int32_t size;
  int r;

  *rule = (SondeRule){ .kind = SONDE_RULE_NONE };
  if (!self->is_usable || !sonde_go_table_find (&self->table, vaddr, &function))
    return true;
  if (*work < WORK_PER_NAME)
    return false;
  *work -= WORK_PER_NAME;
  name = sonde_go_table_name (&self->table, &function);
  if (is_one_of (name, outermost, sizeof outermost / sizeof *outermost))
    {
      rule->kind = SONDE_RULE_END;
      *begin = function.begin;
      *end = function.end;
      return true;
    }
  r = sonde_go_table_stack_size (&self->table, &function, vaddr, work, &size, begin, end);
  if (r == -EDQUOT || r == -ENODATA)
    return r != -EDQUOT;
  if (r < 0 || size < 0 || size > MAX_STACK || size % 8 != 0)
    {
      rule->kind = SONDE_RULE_BAD;
      *begin = vaddr;
      *end = vaddr + 1;
      return true;
    }
  rule->kind = is_one_of (name, joints, sizeof joints / sizeof *joints) ? SONDE_RULE_JOINT
                                                                        : SONDE_RULE_REGISTER;
  fill_rule (rule, arch, size);
  return true;
}
