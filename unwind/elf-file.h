/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The few ELF headers that an unwinder needs, read with bounded pread(). */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define SONDE_ELF_NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define SONDE_ELF_NATIVE_MACHINE EM_AARCH64
#else
#error "no unwinding on this architecture"
#endif

#define SONDE_ELF_MAX_SEGMENTS                                                                     \
  1024                                /* the kernel itself takes at most 64 KiB of program headers \
                                       */
#define SONDE_ELF_MAX_SECTIONS   4096 /* more: as if the file had none */
#define SONDE_ELF_MAX_NAME_BYTES 65536 /* of section names; what lies behind has none */
#define SONDE_ELF_MAX_NOTES      4     /* segments; usual are one or two */
#define SONDE_ELF_MAX_BUILD_ID   64    /* bytes; usual is 20 */

typedef struct
{
  uint64_t vaddr;
  uint64_t memory_size_bytes;
  uint64_t offset;
  uint64_t file_size_bytes;
  bool executable;
} SondeElfSegment;

typedef struct
{
  int fd;                /* not owned; -1: read from @memory */
  const uint8_t *memory; /* this process's own vdso */
  uint64_t size_bytes;

  bool is_32_bit; /* an i386 file on x86-64 */
  uint64_t entry;
  SondeElfSegment *loads; /* owned; PT_LOAD that do not wrap around */
  size_t n_loads;
  SondeElfSegment eh_frame_hdr;               /* PT_GNU_EH_FRAME; file size 0: none */
  SondeElfSegment notes[SONDE_ELF_MAX_NOTES]; /* PT_NOTE, the first of them */
  size_t n_notes;
  uint64_t sections_offset;
  uint32_t n_sections; /* 0: none, or none that can be used */
  char *names;         /* owned; of the sections */
  size_t names_size_bytes;
} SondeElfFile;

/* Reads the headers; the first three members are set by the caller. 32-bit ones are widened.
 * Errors: -ENOEXEC not an ELF file of this machine, -EBADMSG impossible headers, -ENOMEM, or what
 * pread() said. */
int sonde_elf_file_read_headers (SondeElfFile *self);
void sonde_elf_file_clear (SondeElfFile *self); /* closes nothing */

/* All of @size_bytes or an error: -EBADMSG behind the end of the file. */
int
sonde_elf_file_read (const SondeElfFile *self, uint64_t offset, void *buffer, size_t size_bytes);

/* The note that tells one build of a file from another. Returns its length in bytes, 0: none.
 * Source: ld(1), "--build-id"; elf(5), "Notes (Nhdr)". */
size_t sonde_elf_file_read_build_id (const SondeElfFile *self,
                                     uint8_t build_id[SONDE_ELF_MAX_BUILD_ID]);

/* A section with content in the file, never a compressed one, that lies within the file. */
bool sonde_elf_file_find_section (const SondeElfFile *self, const char *name, Elf64_Shdr *section);

/* Where @vaddr lies in the file, and how many bytes of its segment follow there. */
bool sonde_elf_file_locate (const SondeElfFile *self,
                            uint64_t vaddr,
                            uint64_t *offset,
                            uint64_t *size_bytes);
