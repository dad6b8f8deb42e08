/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The headers, names and notes of an ELF file of either class, read with bounded pread(). */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: elf-file
 *
 * For files that anybody made. 32-bit headers are widened as they are read; those of the other byte
 * order are refused. What is kept is bounded, and whatever a header says of places in the file is
 * compared with its size.
 */
#if defined(__x86_64__)
#define SONDE_ELF_NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define SONDE_ELF_NATIVE_MACHINE EM_AARCH64
#else
#define SONDE_ELF_NATIVE_MACHINE EM_NONE
#endif

#define SONDE_ELF_MAX_SEGMENTS   1024 /* the kernel itself takes at most 64 KiB of their headers */
#define SONDE_ELF_MAX_SECTIONS   65535
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
  const uint8_t *memory; /* not owned */
  uint64_t size_bytes;

  Elf64_Ehdr header;
  bool is_32_bit;
  SondeElfSegment *loads; /* owned; PT_LOAD that do not wrap around */
  size_t n_loads;
  SondeElfSegment eh_frame_hdr;               /* PT_GNU_EH_FRAME; file size 0: none */
  SondeElfSegment notes[SONDE_ELF_MAX_NOTES]; /* PT_NOTE, the first of them */
  size_t n_notes;
  size_t n_sections;
  char *names; /* owned; of the sections */
  size_t names_size_bytes;
} SondeElfFile;

/* All of the three below, and the size, of the file in @fd, which stays the caller's. To be cleared
 * whatever it returns. Errors: theirs, or what fstat() said. */
int sonde_elf_file_load (SondeElfFile *self, int fd);

/* The first three members are set by the caller. Errors: -ENOEXEC no ELF file of this byte order,
 * or what pread() said. */
int sonde_elf_file_read_header (SondeElfFile *self);
/* Errors: -EBADMSG impossible, -ENOMEM, or what pread() said. */
int sonde_elf_file_read_segments (SondeElfFile *self);
/* Their number and their names. Errors: as for segments; then there are none. */
int sonde_elf_file_read_sections (SondeElfFile *self);
void sonde_elf_file_clear (SondeElfFile *self); /* closes nothing */

/* Whether this machine runs it: programs and libraries of its own, and of i386 on x86-64. */
bool sonde_elf_file_runs_here (const SondeElfFile *self);

/* Do these bytes lie within the file? */
bool sonde_elf_file_holds (const SondeElfFile *self, uint64_t offset, uint64_t size_bytes);
/* All of @size_bytes or an error: -EBADMSG behind the end of the file. */
int
sonde_elf_file_read (const SondeElfFile *self, uint64_t offset, void *buffer, size_t size_bytes);

/* @n section headers from number @first on. Errors: as of sonde_elf_file_read(). */
int sonde_elf_file_read_section_headers (const SondeElfFile *self,
                                         size_t first,
                                         Elf64_Shdr *sections,
                                         size_t n);
/* The first of that name and type whose bytes lie within the file; they may be compressed. */
bool sonde_elf_file_find_section (const SondeElfFile *self,
                                  const char *name,
                                  uint32_t type,
                                  Elf64_Shdr *section);

/* The note that tells one build of a file from another, of its segments or else of its section.
 * Returns its length in bytes, 0: none. Source: ld(1), "--build-id"; elf(5), "Notes (Nhdr)". */
size_t sonde_elf_file_read_build_id (const SondeElfFile *self,
                                     uint8_t build_id[SONDE_ELF_MAX_BUILD_ID]);

/* Where @vaddr lies in the file, and how many bytes of its segment follow there. */
bool sonde_elf_file_locate (const SondeElfFile *self,
                            uint64_t vaddr,
                            uint64_t *offset,
                            uint64_t *size_bytes);

/* The address in memory of what is at @file_offset in an executable mapping of the file. False if
 * none of its segments is there. */
bool sonde_elf_vaddr (const SondeElfSegment *loads,
                      size_t n_loads,
                      uint64_t file_offset,
                      uint64_t *vaddr);
/* The same for a file whose content was removed, and with it the offsets: @distance from the start
 * of the mapping of its code, which is @size_bytes long. False if its one executable segment is
 * not that mapping. */
bool sonde_elf_code_vaddr (const SondeElfSegment *loads,
                           size_t n_loads,
                           uint64_t size_bytes,
                           uint64_t distance,
                           uint64_t *vaddr);

/* This process's own vdso, which has no file; NULL without one. */
const uint8_t *sonde_elf_find_vdso (uint64_t *size_bytes);
/* A file of its bytes. Errors: -ENOENT without one, or what memfd_create() and write() said. */
int sonde_elf_copy_vdso (void);
