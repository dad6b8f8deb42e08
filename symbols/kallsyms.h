/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads kernel function names from the text of /proc/kallsyms. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SONDE_KALLSYMS_MAX_BYTES (64u << 20) /* text read at most */

typedef struct SondeKallsyms SondeKallsyms;

/* @fd: an open /proc/kallsyms; stays the caller's. 0, -EPERM all addresses are zero (hidden from
 * the opener), -ENODATA, -ENOMEM, or what read() said. Malformed lines are skipped. */
int sonde_kallsyms_new (int fd, SondeKallsyms **self);
void sonde_kallsyms_free (SondeKallsyms *self); /* accepts NULL */

/* @name: (out) (transfer none): "do_syscall_64", modules as "name [module]"; false: no text symbol
 * there */
bool sonde_kallsyms_lookup (const SondeKallsyms *self, uint64_t address, const char **name);
