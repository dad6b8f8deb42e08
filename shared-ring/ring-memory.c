/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/ring-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Since Linux 6.3; kernels that know it want to be told that nothing here is to be executed. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* Any multiple of a page that our own rings or those of a Sysprof profiler may have. */
#define MAX_FOREIGN_BYTES (64 * 1024 * 1024)

/* Where a frame's length does not come first, byte for byte, no record is told from it. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KNOWN_FEATURES (SONDE_RING_COMPACT_HEAP | SONDE_RING_MAY_GROW)
#else
#define KNOWN_FEATURES SONDE_RING_MAY_GROW
#endif

/* Twice the body in a row, so that a frame that wraps is contiguous. */
static int
map_twice (int fd, SondeRingMemory *memory)
{
  const int protection = PROT_READ | PROT_WRITE;
  size_t once = memory->header_bytes + memory->size_bytes;
  uint8_t *base
      = mmap (NULL, once + memory->size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int r;

  if (base == MAP_FAILED)
    return -errno;

  if (mmap (base, once, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED
      || mmap (base + once, memory->size_bytes, protection, MAP_SHARED | MAP_FIXED, fd,
               (off_t) memory->header_bytes)
             == MAP_FAILED
      || madvise (base, once + memory->size_bytes, MADV_DONTFORK) < 0)
    {
      r = -errno;
      munmap (base, once + memory->size_bytes);
      return r;
    }

  memory->header = (void *) base;
  memory->body = base + memory->header_bytes;
  return 0;
}

static void
write_header (const SondeRingMemory *memory)
{
  SondeRingHeader *header = memory->header;

  header->offset_bytes = (uint32_t) memory->header_bytes;
  header->size_bytes = (uint32_t) memory->size_bytes;
  if (memory->kind != SONDE_RING_NATIVE)
    return;

  header->magic = SONDE_RING_MAGIC;
  header->version = SONDE_RING_VERSION;
  header->wait_us = memory->wait_us;
  header->features = memory->features;
  header->wake_at = 1;
}

int
sonde_ring_memory_create (const SondeRingOptions *options, SondeRingMemory *memory, int *fd)
{
  SondeRingMemory made = { .header_bytes = (size_t) sysconf (_SC_PAGESIZE),
                           .size_bytes = options->size_bytes,
                           .kind = options->kind,
                           .wait_us = options->wait_us };
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int file;
  int r;

  if ((made.kind != SONDE_RING_NATIVE && made.kind != SONDE_RING_SYSPROF)
      || made.size_bytes < SONDE_RING_MIN_BYTES || made.size_bytes > SONDE_RING_MAX_BYTES
      || (made.size_bytes & (made.size_bytes - 1)) != 0 || made.size_bytes % made.header_bytes != 0)
    return -EINVAL;

  if (made.kind == SONDE_RING_NATIVE)
    made.features = options->features & KNOWN_FEATURES;
  file = memfd_create ("sonde-ring", flags | MFD_NOEXEC_SEAL);
  if (file < 0 && errno == EINVAL)
    file = memfd_create ("sonde-ring", flags);
  if (file < 0)
    return -errno;

  r = ftruncate (file, (off_t) (made.header_bytes + made.size_bytes)) < 0 ? -errno : 0;
  if (r == 0)
    r = fcntl (file, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
  if (r == 0)
    r = map_twice (file, &made);
  if (r < 0)
    {
      close (file);
      return r;
    }

  write_header (&made);
  *memory = made;
  *fd = file;
  return 0;
}

/* What the header says must be what the file is. It is read once, and not through a mapping, which
 * would fault if somebody cut an unsealed file short. */
static int
check_header (int fd, size_t file_bytes, SondeRingMemory *memory)
{
  SondeRingHeader header;
  ssize_t n = pread (fd, &header, sizeof header, 0);

  if (n < 0)
    return -errno;
  if (n != sizeof header || header.offset_bytes != memory->header_bytes || header.size_bytes == 0
      || header.size_bytes % memory->header_bytes != 0
      || header.size_bytes != file_bytes - memory->header_bytes)
    return -EBADMSG;

  memory->size_bytes = header.size_bytes;
  memory->kind = header.magic == SONDE_RING_MAGIC ? SONDE_RING_NATIVE : SONDE_RING_SYSPROF;
  if (memory->kind == SONDE_RING_SYSPROF)
    return 0;
  if (header.version != SONDE_RING_VERSION)
    return -EPROTONOSUPPORT;
  if ((header.size_bytes & (header.size_bytes - 1)) != 0
      || header.size_bytes < SONDE_RING_MIN_BYTES)
    return -EBADMSG;

  memory->wait_us = header.wait_us;
  memory->features = header.features & KNOWN_FEATURES;
  return 0;
}

int
sonde_ring_memory_map (int fd, SondeRingMemory *memory)
{
  SondeRingMemory mapped = { .header_bytes = (size_t) sysconf (_SC_PAGESIZE) };
  struct stat status;
  int seals;
  int r;

  if (fstat (fd, &status) < 0)
    return -errno;
  if (!S_ISREG (status.st_mode) || status.st_size <= (off_t) mapped.header_bytes
      || status.st_size > (off_t) (MAX_FOREIGN_BYTES + mapped.header_bytes))
    return -EBADMSG;

  r = check_header (fd, (size_t) status.st_size, &mapped);
  if (r < 0)
    return r;

  seals = fcntl (fd, F_GET_SEALS);
  if (mapped.kind == SONDE_RING_NATIVE && (seals < 0 || (seals & SEALS) != SEALS))
    return -EPERM;

  r = map_twice (fd, &mapped);
  if (r == 0)
    *memory = mapped;
  return r;
}

void
sonde_ring_memory_unmap (SondeRingMemory *memory)
{
  if (memory->header != NULL)
    munmap (memory->header, memory->header_bytes + 2 * memory->size_bytes);
  memset (memory, 0, sizeof *memory);
}
