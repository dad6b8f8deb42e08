/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/trie-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared-ring/ring-atomic.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* A thread has two slots, and in each at least a slab of nodes and one of frames. */
#define SLOT_SHARE_BYTES (2 * SONDE_TRIE_SLAB_BYTES)
#define MIN_SLOTS        8u
#define MAX_SLOTS        4096u

#define MAX_SAMPLE_EVERY 4096u

int
sonde_trie_geometry_init (SondeTrieGeometry *geometry, size_t size_bytes)
{
  size_t max_slots = size_bytes / SLOT_SHARE_BYTES;
  size_t slabs_at;

  if (size_bytes < SONDE_TRIE_MIN_BYTES || size_bytes > SONDE_TRIE_MAX_BYTES)
    return -EINVAL;

  size_bytes -= size_bytes % SONDE_TRIE_SLAB_BYTES;
  max_slots = max_slots < MIN_SLOTS ? MIN_SLOTS : max_slots > MAX_SLOTS ? MAX_SLOTS : max_slots;
  slabs_at = SONDE_TRIE_HEADER_BYTES + max_slots * sizeof (SondeTrieSlot);
  slabs_at += SONDE_TRIE_SLAB_BYTES - 1;
  slabs_at -= slabs_at % SONDE_TRIE_SLAB_BYTES;
  *geometry = (SondeTrieGeometry){
    .size_bytes = size_bytes,
    .max_slots = (uint32_t) max_slots,
    .slabs_at = (uint32_t) (slabs_at / SONDE_TRIE_LINE_BYTES),
    .max_slabs = (uint32_t) ((size_bytes - slabs_at) / SONDE_TRIE_SLAB_BYTES),
  };
  return 0;
}

static bool
check_wish (const SondeTrieWish *wish)
{
  return wish->mode <= SONDE_TRIE_EXACT && wish->sample_every >= 1
         && wish->sample_every <= MAX_SAMPLE_EVERY
         && (wish->sample_every & (wish->sample_every - 1)) == 0 && wish->max_depth >= 1
         && wish->max_depth <= SONDE_TRIE_MAX_DEPTH && wish->n_left_out <= SONDE_TRIE_MAX_LEFT_OUT
         && (wish->filter == NULL
             || strnlen (wish->filter, SONDE_TRIE_FILTER_BYTES) < SONDE_TRIE_FILTER_BYTES);
}

int
sonde_trie_memory_wish (SondeTrieMemory *memory, const SondeTrieWish *wish)
{
  SondeTrieHeader *header = memory->header;
  size_t filter_bytes;

  if (!check_wish (wish))
    return -EINVAL;
  filter_bytes = wish->filter != NULL ? strlen (wish->filter) : 0;

  sonde_ring_store_relaxed (&header->mode, (uint32_t) wish->mode);
  sonde_ring_store_relaxed (&header->sample_every, wish->sample_every);
  sonde_ring_store_relaxed (&header->max_depth, wish->max_depth);
  sonde_ring_store_relaxed (&header->timed_from_ticks, wish->timed_from_ticks);
  sonde_ring_store_relaxed (&header->timed_until_ticks, wish->timed_until_ticks);
  sonde_ring_store_relaxed (&header->slow_ticks, wish->slow_ticks);
  for (uint32_t i = 0; i < wish->n_left_out; i++)
    sonde_ring_store_relaxed (&header->left_out[i], wish->left_out[i]);
  sonde_ring_store_relaxed (&header->n_left_out, wish->n_left_out);
  memcpy (header->filter, wish->filter != NULL ? wish->filter : "", filter_bytes);
  sonde_ring_store_relaxed (&header->filter_bytes, (uint32_t) filter_bytes);
  /* Pairs with the acquire of a writer that finds its own epoch over. */
  sonde_ring_store_release (&header->epoch, sonde_ring_load_relaxed (&header->epoch) + 1);
  /* Of the program, who switches functions that can be. */
  syscall (SYS_futex, &header->epoch, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
  return 0;
}

int
sonde_trie_memory_leave_out (SondeTrieMemory *memory, uint32_t n_before, uint64_t function)
{
  if (n_before >= SONDE_TRIE_MAX_LEFT_OUT)
    return -ENOSPC;

  sonde_ring_store_relaxed (&memory->header->left_out[n_before], function);
  /* Pairs with the acquire of whoever reads the list: what is in it stays. */
  sonde_ring_store_release (&memory->header->n_left_out, n_before + 1);
  return 0;
}

/* @protection: of all but the header, which both sides write */
static int
map (int fd, int protection, SondeTrieMemory *memory)
{
  size_t size_bytes = memory->geometry.size_bytes;
  size_t page_bytes = (size_t) sysconf (_SC_PAGESIZE);
  uint8_t *base = mmap (NULL, size_bytes, protection, MAP_SHARED, fd, 0);
  void *header = base;
  int r = 0;

  if (base == MAP_FAILED)
    return -errno;

  if ((protection & PROT_WRITE) == 0)
    header = mmap (NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (header == MAP_FAILED)
    r = -errno;
  else if (madvise (base, size_bytes, MADV_DONTFORK) < 0)
    r = -errno;
  if (r < 0)
    {
      if (header != MAP_FAILED && header != base)
        munmap (header, page_bytes);
      munmap (base, size_bytes);
      return r;
    }

  memory->base = base;
  memory->header = header;
  return 0;
}

int
sonde_trie_memory_create (size_t size_bytes,
                          const SondeTrieWish *wish,
                          SondeTrieMemory *memory,
                          int *fd)
{
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  SondeTrieMemory made = { 0 };
  int file;
  int r = sonde_trie_geometry_init (&made.geometry, size_bytes);

  if (r < 0 || !check_wish (wish))
    return -EINVAL;

  file = memfd_create ("sonde-trie", flags | MFD_NOEXEC_SEAL);
  if (file < 0 && errno == EINVAL)
    file = memfd_create ("sonde-trie", flags);
  if (file < 0)
    return -errno;

  r = ftruncate (file, (off_t) made.geometry.size_bytes) < 0 ? -errno : 0;
  if (r == 0)
    r = fcntl (file, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
  if (r == 0)
    r = map (file, PROT_READ, &made);
  if (r < 0)
    {
      close (file);
      return r;
    }

  made.header->magic = SONDE_TRIE_MAGIC;
  made.header->version = SONDE_TRIE_VERSION;
  made.header->size_lines = (uint32_t) (made.geometry.size_bytes / SONDE_TRIE_LINE_BYTES);
  made.header->max_slots = made.geometry.max_slots;
  made.header->slabs_at = made.geometry.slabs_at;
  made.header->max_slabs = made.geometry.max_slabs;
  sonde_trie_memory_wish (&made, wish);
  *memory = made;
  *fd = file;
  return 0;
}

int
sonde_trie_memory_map (int fd, SondeTrieMemory *memory)
{
  SondeTrieMemory mapped = { 0 };
  SondeTrieHeader header;
  struct stat status;
  ssize_t n;
  int seals;
  int r;

  if (fstat (fd, &status) < 0)
    return -errno;
  if (!S_ISREG (status.st_mode) || status.st_size % SONDE_TRIE_SLAB_BYTES != 0
      || sonde_trie_geometry_init (&mapped.geometry, (size_t) status.st_size) < 0)
    return -EBADMSG;
  /* Not through a mapping, which would fault if somebody cut an unsealed file short. */
  n = pread (fd, &header, sizeof header, 0);
  if (n < 0)
    return -errno;
  if (n != sizeof header || header.magic != SONDE_TRIE_MAGIC)
    return -EBADMSG;
  if (header.version != SONDE_TRIE_VERSION)
    return -EPROTONOSUPPORT;
  if (header.size_lines != mapped.geometry.size_bytes / SONDE_TRIE_LINE_BYTES
      || header.max_slots != mapped.geometry.max_slots
      || header.slabs_at != mapped.geometry.slabs_at
      || header.max_slabs != mapped.geometry.max_slabs)
    return -EBADMSG;
  seals = fcntl (fd, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS)
    return -EPERM;

  r = map (fd, PROT_READ | PROT_WRITE, &mapped);
  if (r == 0)
    *memory = mapped;
  return r;
}

void
sonde_trie_memory_unmap (SondeTrieMemory *memory)
{
  if (memory->header != NULL && (uint8_t *) memory->header != memory->base)
    munmap (memory->header, (size_t) sysconf (_SC_PAGESIZE));
  if (memory->base != NULL)
    munmap (memory->base, memory->geometry.size_bytes);
  memset (memory, 0, sizeof *memory);
}
