/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which file was opened: what tells files apart whatever names and ids lead to them. */
#include "unwind/module-identity.h"

#include <errno.h>
#include <sys/stat.h>

#include "unwind/hash.h"

#define NS_PER_S INT64_C (1000000000)

int
sonde_module_identity_read (SondeModuleIdentity *self, int fd)
{
  struct stat st;

  if (fstat (fd, &st) < 0)
    return -errno;
  if (!S_ISREG (st.st_mode))
    return -EINVAL;
  *self = (SondeModuleIdentity){
    .device = st.st_dev,
    .inode = st.st_ino,
    .size_bytes = (uint64_t) st.st_size,
    .modified_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
    .changed_ns = st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec,
  };
  return 0;
}

uint64_t
sonde_module_identity_hash (const SondeModuleIdentity *self)
{
  return sonde_hash_bytes (self, sizeof *self);
}

bool
sonde_module_identity_equal (const SondeModuleIdentity *a, const SondeModuleIdentity *b)
{
  return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes
         && a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}
