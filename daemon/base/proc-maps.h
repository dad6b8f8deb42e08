/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lines of /proc/PID/maps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
