/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Section and program headers of a hostile file. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SONDE_ELF_HEADERS_MAX 65535 /* of each kind */

typedef struct
{
  int fd; /* not owned */
  uint64_t size_bytes;
  Elf64_Shdr *sections; /* owned */
  size_t n_sections;
  size_t names_section; /* index of the one with their names; n_sections: none */
  Elf64_Phdr *loads;    /* owned; PT_LOAD only */
  size_t n_loads;
} SondeElfHeaders;

/* Reads what @fd has. Errors: -ENOEXEC not of this machine's class and order, -EBADMSG impossible
 * headers, -ENOMEM, or what fstat() and pread() said. To be cleared in each case. */
int sonde_elf_headers_load (SondeElfHeaders *self);
void sonde_elf_headers_clear (SondeElfHeaders *self);
/* Do these bytes lie within the file? */
bool sonde_elf_headers_holds (const SondeElfHeaders *self, uint64_t offset, uint64_t size_bytes);
/* All bytes or an error; -EBADMSG behind the end. */
int sonde_elf_headers_read (const SondeElfHeaders *self,
                            uint64_t offset,
                            void *buffer,
                            size_t size_bytes);
/* NULL if there is none of that name (at most 31 bytes) and type with bytes in the file. */
const Elf64_Shdr *
sonde_elf_headers_find (const SondeElfHeaders *self, const char *name, uint32_t type);
bool sonde_elf_headers_vaddr (const SondeElfHeaders *self, uint64_t file_offset, uint64_t *vaddr);
/* The same for a file whose content was removed, and with it the offsets: @distance from the start
 * of the mapping of its code, which is @size_bytes long. False if its one executable segment is
 * not that mapping. */
bool sonde_elf_headers_code_vaddr (const SondeElfHeaders *self,
                                   uint64_t size_bytes,
                                   uint64_t distance,
                                   uint64_t *vaddr);
