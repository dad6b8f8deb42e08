/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines of /proc/PID/maps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* PROCMAP_QUERY as in linux/fs.h since 6.11: the ioctl of sonde_proc_maps_query(). */
#define SONDE_PROC_MAPS_QUERY _IOWR ('f', 17, char[104])

/* One line. Source: proc_pid_maps(5). */
typedef struct
{
  uint64_t start;  /* bytes */
  uint64_t end;    /* bytes, first address behind */
  uint64_t offset; /* bytes into the file */
  uint64_t inode;  /* 0 for anonymous memory */
  uint32_t dev_major;
  uint32_t dev_minor;
  bool executable;
  const char *path; /* into the text, NOT NUL-terminated; as the kernel escapes it (\012) */
  size_t path_len;  /* bytes; 0 none */
} SondeProcMap;

/**
 * sonde_proc_maps_next:
 * @text: (inout): the unread rest
 * @size_bytes: (inout): its length
 *
 * The names in this text are hostile: a program chooses them freely. The numbers are the kernel's.
 *
 * Returns: 1 a line; 0 the end; -EBADMSG a line that is not of this form (it is skipped; go on)
 */
int sonde_proc_maps_next (const char **text, size_t *size_bytes, SondeProcMap *map);

/**
 * sonde_proc_maps_read:
 * @fd: an open /proc/PID/maps; read from its start
 * @max_bytes: bound; a longer text is cut at its last whole line
 * @text: (out) (transfer full): free() it
 *
 * Returns: bytes read (0: no address space, as after exec or exit), or a negative errno
 */
int64_t sonde_proc_maps_read (int fd, size_t max_bytes, char **text);

/* Whether the image that @fd was opened of still is there: of one that is gone there are no bytes.
 * @fd: known to be a /proc/PID/maps */
bool sonde_proc_maps_are_alive (int fd);

/**
 * sonde_proc_maps_query:
 * @fd: an open /proc/PID/maps
 * @name: (nullable): room for the path, as it is and not as the text escapes it
 * @name_bytes: its size
 *
 * Asks the kernel for the one mapping at @address, however many there are. map->path is @name,
 * NUL-terminated; empty if there is none or nobody wants it.
 *
 * Returns: 1 it is there; 0 nothing is mapped there; -EOPNOTSUPP the kernel cannot be asked (before
 *   Linux 6.11); -ESRCH the address space is gone; -ENAMETOOLONG @name is too small
 * Source: PROCMAP_QUERY in include/uapi/linux/fs.h
 */
int
sonde_proc_maps_query (int fd, uint64_t address, char *name, size_t name_bytes, SondeProcMap *map);

/* The executable mappings of files of one process at one moment, to be looked up by address: the
 * first SONDE_LIMIT_TABLE_MAPPINGS of them. */
typedef struct SondeProcMapTable SondeProcMapTable;

/* As sonde_proc_maps_read(), but holds SONDE_LIMIT_MAPS_PIECE_BYTES of the text at a time. @table:
 * (out) (transfer full): on success */
int sonde_proc_map_table_read (int fd, size_t max_bytes, SondeProcMapTable **table);
void sonde_proc_map_table_free (SondeProcMapTable *self);
size_t sonde_proc_map_table_size (const SondeProcMapTable *self);
/* False: there is none at @address. map->path is into the table, NUL-terminated and not escaped;
 * without one it had no room. */
bool sonde_proc_map_table_find (const SondeProcMapTable *self, uint64_t address, SondeProcMap *map);
