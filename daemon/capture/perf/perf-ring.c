/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/perf/perf-ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BOUNCE_SIZE      65536 /* bytes; perf_event_header.size is 16 bits */
#define RECORD_ALIGN     8
#define CACHE_LINE_BYTES 64
#define PREFETCH_BYTES   512

struct SondePerfRing
{
  struct perf_event_mmap_page *page;
  uint8_t *data;
  size_t size_bytes; /* power of two */
  void *mapping;     /* NULL: somebody else's memory */
  size_t mapping_bytes;
  uint64_t tail;      /* ours; the kernel only reads the published copy */
  uint64_t head;      /* as last loaded */
  size_t front_bytes; /* 0: the front is not looked at yet */
  const void *front;
  uint8_t *bounce; /* for a record that wraps; not resident until then */
};

static SondePerfRing *
ring_new (struct perf_event_mmap_page *page, uint8_t *data, size_t size_bytes)
{
  SondePerfRing *self = g_new0 (SondePerfRing, 1);

  self->page = page;
  self->data = data;
  self->size_bytes = size_bytes;
  self->tail = self->head = page->data_tail;
  self->bounce = g_malloc (BOUNCE_SIZE);

  return self;
}

int
sonde_perf_ring_open (int fd, size_t size_bytes, SondePerfRing **self)
{
  size_t page_bytes = (size_t) sysconf (_SC_PAGESIZE);
  void *mapping = mmap (NULL, page_bytes + size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  if (mapping == MAP_FAILED)
    return -errno;

  *self = ring_new (mapping, (uint8_t *) mapping + page_bytes, size_bytes);
  (*self)->mapping = mapping;
  (*self)->mapping_bytes = page_bytes + size_bytes;

  return 0;
}

SondePerfRing *
sonde_perf_ring_new_for_memory (struct perf_event_mmap_page *page, uint8_t *data, size_t size_bytes)
{
  g_assert (size_bytes > 0 && (size_bytes & (size_bytes - 1)) == 0);

  return ring_new (page, data, size_bytes);
}

void
sonde_perf_ring_close (SondePerfRing *self)
{
  if (self == NULL)
    return;

  if (self->mapping != NULL)
    munmap (self->mapping, self->mapping_bytes);
  g_free (self->bounce);
  g_free (self);
}

static uint64_t
load_head (const SondePerfRing *self)
{
  /* Pairs with the barrier before the store of data_head in perf_output_put_handle(). */
  return __atomic_load_n (&self->page->data_head, __ATOMIC_ACQUIRE);
}

static void
publish_tail (SondePerfRing *self)
{
  /* Pairs with the control dependency on data_tail in __perf_output_begin(): our reads of the
   * record are done before the kernel may write over it. */
  __atomic_store_n (&self->page->data_tail, self->tail, __ATOMIC_RELEASE);
}

/* Whether there can be records from @position to @head, all of them aligned. */
static gboolean
is_sound (const SondePerfRing *self, uint64_t position, uint64_t head)
{
  uint64_t waiting = head - position;

  return waiting <= self->size_bytes && waiting >= sizeof (struct perf_event_header)
         && (position | head) % RECORD_ALIGN == 0;
}

static int
skip_damage (SondePerfRing *self)
{
  self->tail = self->head;
  publish_tail (self);

  return -EBADMSG;
}

int
sonde_perf_ring_front (SondePerfRing *self, const struct perf_event_header **record)
{
  const struct perf_event_header *header;
  uint64_t waiting;
  size_t at, size_bytes;

  if (self->front_bytes > 0)
    {
      *record = self->front;
      return 1;
    }

  if (self->head == self->tail)
    self->head = load_head (self);
  waiting = self->head - self->tail;
  if (waiting == 0)
    return 0;
  if (!is_sound (self, self->tail, self->head))
    return skip_damage (self);

  /* Records are multiples of 8, so the 8 bytes of a header never wrap. */
  at = (size_t) (self->tail & (self->size_bytes - 1));
  header = (const void *) (self->data + at);
  size_bytes = header->size;
  if (size_bytes < sizeof *header || size_bytes % RECORD_ALIGN != 0 || size_bytes > waiting)
    return skip_damage (self);

  self->front_bytes = size_bytes;
  if (size_bytes > self->size_bytes - at)
    {
      size_t first = self->size_bytes - at;

      memcpy (self->bounce, self->data + at, first);
      memcpy (self->bounce + first, self->data, size_bytes - first);
      self->front = (const void *) self->bounce;
    }
  else
    {
      const uint8_t *bytes = self->data + at;

      /* The kernel wrote it on another CPU, or long ago: what is read first of it (identity,
       * registers, the newest frames, and the length behind the stack) comes while its predecessor
       * is worked on. */
      for (size_t i = CACHE_LINE_BYTES; i < MIN (size_bytes, PREFETCH_BYTES); i += CACHE_LINE_BYTES)
        __builtin_prefetch (bytes + i);
      __builtin_prefetch (bytes + size_bytes - RECORD_ALIGN);
      self->front = header;
    }
  *record = self->front;

  return 1;
}

void
sonde_perf_ring_pop (SondePerfRing *self)
{
  g_assert (self->front_bytes > 0);

  self->tail += self->front_bytes;
  self->front_bytes = 0;
  publish_tail (self);
}

gboolean
sonde_perf_ring_peek (const SondePerfRing *self,
                      uint64_t *position,
                      const struct perf_event_header **record)
{
  uint64_t head = load_head (self);

  /* Position and head may be behind the wrap of the counters. */
  if (*position - self->tail > head - self->tail)
    *position = self->tail;
  while (*position != head)
    {
      size_t at = (size_t) (*position & (self->size_bytes - 1));
      const struct perf_event_header *header = (const void *) (self->data + at);
      size_t size_bytes;

      if (!is_sound (self, *position, head))
        break;
      size_bytes = header->size;
      if (size_bytes < sizeof *header || size_bytes % RECORD_ALIGN != 0
          || size_bytes > head - *position)
        break;
      *position += size_bytes;
      if (size_bytes > self->size_bytes - at)
        continue;
      *record = header;
      return TRUE;
    }
  *position = head;

  return FALSE;
}

size_t
sonde_perf_ring_size (const SondePerfRing *self)
{
  return self->size_bytes;
}

size_t
sonde_perf_ring_fill (const SondePerfRing *self)
{
  uint64_t waiting = load_head (self) - self->tail;

  return waiting > self->size_bytes ? self->size_bytes : (size_t) waiting;
}
