/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which file was opened: what tells files apart whatever names and ids lead to them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct
{
  uint64_t device;
  uint64_t inode;
  uint64_t size_bytes;
  int64_t modified_ns;
  int64_t changed_ns;
} SondeModuleIdentity;

/* Errors: -EINVAL @fd is no regular file, or what fstat() said. */
int sonde_module_identity_read (SondeModuleIdentity *self, int fd);
uint64_t sonde_module_identity_hash (const SondeModuleIdentity *self);
bool sonde_module_identity_equal (const SondeModuleIdentity *a, const SondeModuleIdentity *b);
