/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The unwind data of mapped files, shared by all processes of a worker. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi-reader.h"

/**
 * SECTION: module
 *
 * A module is what a file's mapping tells an unwinder: program headers, .eh_frame_hdr and .eh_frame
 * (.debug_frame when there is no .eh_frame), and .gopclntab, read once with bounded pread() into
 * private memory, and in slices, so that no file keeps samples waiting long. The file is hostile:
 * nothing is mapped, nothing is decompressed, sizes are bounded, and bad data makes a module
 * without CFI, never a crash.
 *
 * The store finds modules by the identity that the kernel gives in mappings (SondeFileId); two ids
 * that lead to the same opened file (device, inode, size, mtime, ctime) share one module. Main
 * thread only. Plain structs, negative errno.
 */

#define SONDE_MODULE_MAX_BYTES         (32u << 20) /* unwind data of one module */
#define SONDE_MODULE_STORE_MAX_BYTES   (64u << 20) /* default cap of a store */
#define SONDE_MODULE_STORE_MAX_MODULES 16384       /* and as many ids, failed ones included */
#define SONDE_MODULE_MAX_FDS           1024        /* kept open for names */

/* As in a maps line or MMAP2 record. generation is 0 where unknown and then not compared. */
typedef struct
{
  uint64_t inode;
  uint64_t generation;
  uint32_t dev_major;
  uint32_t dev_minor;
} SondeFileId;

typedef struct SondeUnwindModule SondeUnwindModule;
typedef struct SondeModuleStore SondeModuleStore;

/* Errors: NULL on ENOMEM. */
SondeModuleStore *sonde_module_store_new (size_t max_bytes);
void sonde_module_store_free (SondeModuleStore *self);

typedef enum
{
  SONDE_MODULE_UNKNOWN, /* never asked for: ask control for the file */
  SONDE_MODULE_ASKED,   /* an answer is awaited */
  SONDE_MODULE_READING, /* the file is here and being read: see sonde_module_store_work() */
  SONDE_MODULE_READY,
  SONDE_MODULE_FAILED, /* could not be had; not to be asked again soon */
} SondeModuleState;

/* *@module is set when READY; a borrowed reference, see sonde_module_ref(). */
SondeModuleState sonde_module_store_lookup (SondeModuleStore *self,
                                            const SondeFileId *id,
                                            SondeUnwindModule **module);
/* The request was sent. */
void sonde_module_store_set_asked (SondeModuleStore *self, const SondeFileId *id);
/* The answer: @fd (transfer full) is a read-only regular file. Returns 0 or a negative errno, after
 * which the state is FAILED: -ENOEXEC not an ELF file of this machine's class, -EBADMSG impossible
 * headers, -ENOSPC the store is full of modules in use, -EINVAL not a regular file, -ENOMEM, or
 * what fstat() and pread() said. A file without usable unwind data is a module all the same. */
int sonde_module_store_load (SondeModuleStore *self, const SondeFileId *id, int fd);

/* How much is done at a time: half a millisecond of CPU or less. In units of about 50 ns. */
#define SONDE_MODULE_STORE_SLICE 6144

/* The same, but reads at most a slice of the files that wait to be read. Returns 0 when the module
 * is ready, 1 when it is READING and sonde_module_store_work() is to be called until it is ready or
 * FAILED. Errors: also -EAGAIN when too many files are READING: it may be asked for again. */
int sonde_module_store_begin (SondeModuleStore *self, const SondeFileId *id, int fd);
/* A slice of what there is to read, oldest first. False when there is nothing left. */
bool sonde_module_store_work (SondeModuleStore *self);
/* The answer was no, but said nothing about the file: it may be asked for in another way. */
void sonde_module_store_set_unknown (SondeModuleStore *self, const SondeFileId *id);
/* The answer was no; @error is an errno. */
void sonde_module_store_set_failed (SondeModuleStore *self, const SondeFileId *id, int error);
/* This process's own vdso, or NULL. Borrowed. */
SondeUnwindModule *sonde_module_store_vdso (SondeModuleStore *self);
size_t sonde_module_store_bytes (const SondeModuleStore *self);
size_t sonde_module_store_n_modules (const SondeModuleStore *self);

SondeUnwindModule *sonde_module_ref (SondeUnwindModule *self);
void sonde_module_unref (SondeUnwindModule *self); /* accepts NULL */

/* A small number, unique in the store's life. */
uint32_t sonde_module_id (const SondeUnwindModule *self);

/* The file, still open for whoever wants to read names. The module's. -1 for the modules of a store
 * that were not used for longest, beyond sonde_module_max_fds(). */
int sonde_module_fd (const SondeUnwindModule *self);
/* SONDE_MODULE_MAX_FDS, or a quarter of RLIMIT_NOFILE if that is less. */
size_t sonde_module_max_fds (void);

/**
 * sonde_module_bias:
 * @file_offset: the mapping's offset
 * @start: the mapping's address
 * @bias: (out): address minus virtual address in the file
 *
 * Uses the PT_LOAD that contains @file_offset. Returns false if none does.
 */
bool sonde_module_bias (const SondeUnwindModule *self,
                        uint64_t start,
                        uint64_t file_offset,
                        uint64_t *bias);

/* What the file says of itself, in lower-case hexadecimal; "" if it has no build id. */
const char *sonde_module_build_id (const SondeUnwindModule *self);

/* Is it of a 32-bit program on a 64-bit kernel? */
bool sonde_module_is_32_bit (const SondeUnwindModule *self);

/* The image's lowest and highest virtual address (page-aligned PT_LOADs), before the bias. */
void sonde_module_extent (const SondeUnwindModule *self, uint64_t *low, uint64_t *high);

/* The function range that CFI, or else Go's table, gives around @vaddr (file addresses). False if
 * none. */
bool sonde_module_find_function (const SondeUnwindModule *self,
                                 uint64_t vaddr,
                                 uint64_t *begin,
                                 uint64_t *end);

/* Another part of the function around @vaddr, which the compiler has put elsewhere, often without a
 * symbol. Asked with an address of that, the next one. False if none. */
bool sonde_module_find_part (const SondeUnwindModule *self,
                             uint64_t vaddr,
                             uint64_t *begin,
                             uint64_t *end);

/* The CFI around @vaddr, bytes and decoded headers, valid as long as the module. False if none. */
bool sonde_module_find_cfi (const SondeUnwindModule *self,
                            uint64_t vaddr,
                            const SondeCfiSection **section,
                            SondeCfiCie *cie,
                            SondeCfiFde *fde);

/* What Go's linker left, for code without CFI. Valid as long as the module. */
struct SondeGoFunctions;
const struct SondeGoFunctions *sonde_module_go_functions (const SondeUnwindModule *self);

/* Is @vaddr in the code that the kernel jumps to at exec, which has no caller? The dynamic linker's
 * has no CFI that would say so. */
bool sonde_module_is_entry (const SondeUnwindModule *self, uint64_t vaddr);
/* Has it such code without CFI at all? */
bool sonde_module_has_bare_entry (const SondeUnwindModule *self);

/* For the libdwfl reference: a small ELF image (header, program headers, the CFI sections at their
 * relative addresses) in private memory, as an Elf * from elf_memory(); NULL if the module has no
 * CFI, or a 32-bit one. Owned by the module, one for all processes; elf_begin (-1, ELF_C_READ, elf)
 * adds a reference. What libdw must not see is left out of its table, which is libdw's alone. */
struct Elf;
struct Elf *sonde_module_elf (SondeUnwindModule *self);
