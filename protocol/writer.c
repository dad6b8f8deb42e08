/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protocol/writer.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S     INT64_C (1000000000)
#define MAX_BUILD_ID 256 /* digits; a SHA-1 has 40, the note itself no limit */

/* Entries that fit a frame whose fixed part is @fixed. */
#define MAX_PER_FRAME(fixed, entry) ((SONDE_FRAME_MAX_SIZE - sizeof (fixed)) / sizeof (entry))

SondeWriter *
sonde_writer_new (void *buffer, size_t buffer_size_bytes, SondeWriterFull full, void *user_data)
{
  SondeWriter *self;

  if (buffer == NULL || full == NULL || buffer_size_bytes < SONDE_WRITER_MIN_BUFFER_SIZE
      || (uintptr_t) buffer % SONDE_FRAME_ALIGN != 0)
    {
      errno = EINVAL;
      return NULL;
    }

  self = calloc (1, sizeof *self);
  if (self == NULL)
    return NULL;

  self->full = full;
  self->user_data = user_data;
  self->buffer = buffer;
  self->size_bytes = buffer_size_bytes;

  return self;
}

void
sonde_writer_init_in_place (SondeWriter *self, SondeWriterReserve place, void *user_data)
{
  *self = (SondeWriter){ .place = place, .user_data = user_data };
}

void
sonde_writer_free (SondeWriter *self)
{
  free (self);
}

int
sonde_writer_flush (SondeWriter *self)
{
  if (self->buffer == NULL)
    return -EPIPE;
  if (self->used_bytes == 0)
    return 0;

  self->buffer = self->full (self->user_data, self->buffer, self->used_bytes);
  self->used_bytes = 0;

  return self->buffer != NULL ? 0 : -EPIPE;
}

size_t
sonde_writer_pending (const SondeWriter *self)
{
  return self->used_bytes;
}

void *
sonde_writer_buffer (const SondeWriter *self)
{
  return self->buffer;
}

uint64_t
sonde_writer_n_frames (const SondeWriter *self)
{
  return self->n_frames;
}

/* Room in the buffer, or where the writer's owner wants the frame. */
static int
reserve (SondeWriter *self, size_t size_bytes, void **place)
{
  if (self->place != NULL)
    return self->place (self->user_data, size_bytes, place);

  if (self->buffer != NULL && self->size_bytes - self->used_bytes < size_bytes)
    sonde_writer_flush (self);
  if (self->buffer == NULL)
    return -EPIPE;

  *place = self->buffer + self->used_bytes;
  self->used_bytes += size_bytes;

  return 0;
}

/* Room for a frame, or NULL and *@error. */
static void *
place_frame (SondeWriter *self, int32_t cpu, size_t size_bytes, int *error)
{
  void *place = NULL;

  if (size_bytes > SONDE_FRAME_MAX_SIZE)
    *error = -EMSGSIZE;
  else if (cpu < -1 || cpu > INT16_MAX)
    *error = -EINVAL;
  else
    *error = reserve (self, size_bytes, &place);
  return *error < 0 ? NULL : place;
}

/* In pieces that the compiler stores at once: for more of them it takes `rep stos`, which costs as
 * much as all the rest of a mark. @n_bytes: a constant */
static inline void __attribute__ ((always_inline)) clear (uint8_t *bytes, size_t n_bytes)
{
  const size_t piece_bytes = 32;
  size_t n = 0;

  for (; n + piece_bytes <= n_bytes; n += piece_bytes)
    memset (bytes + n, 0, piece_bytes);
  memset (bytes + n, 0, n_bytes - n);
}

/* Makes room for a frame of @fixed_bytes, the size of the type's struct, and @body_bytes behind it,
 * without padding. Its header is set; the rest of its fixed part and its last 8 bytes are zero, so
 * that text copied behind the fixed part ends with a NUL and zero padding. The caller fills in the
 * rest at once. NULL and *@error: -EMSGSIZE too large for a frame; -EINVAL the CPU does not fit;
 * -EPIPE the callback failed; what the callback of a writer in place returned.
 *
 * In its callers, where the compiler knows the struct: zeros of any number cost more than a mark.
 */
static inline void *__attribute__ ((always_inline)) begin_frame (SondeWriter *self,
                                                                 const SondeFrameOrigin *origin,
                                                                 SondeFrameType type,
                                                                 size_t fixed_bytes,
                                                                 size_t body_bytes,
                                                                 int *error)
{
  size_t size_bytes
      = (fixed_bytes + body_bytes + SONDE_FRAME_ALIGN - 1) & ~(size_t) (SONDE_FRAME_ALIGN - 1);
  SondeFrame *frame = place_frame (self, origin->cpu, size_bytes, error);

  if (frame == NULL)
    return NULL;

  clear ((uint8_t *) frame, fixed_bytes);
  memset ((uint8_t *) frame + size_bytes - SONDE_FRAME_ALIGN, 0, SONDE_FRAME_ALIGN);
  frame->len = (uint16_t) size_bytes;
  frame->cpu = (int16_t) origin->cpu;
  frame->pid = origin->pid;
  frame->time_ns = origin->time_ns;
  frame->type = (uint8_t) type;
  self->n_frames++;

  return frame;
}

/* How many of the @len bytes of @text to keep so that they fit @max_bytes and no UTF-8 sequence is
 * torn. Text that is not UTF-8 is cut where the room ends. */
static size_t
cut_length (const char *text, size_t len, size_t max_bytes)
{
  size_t cut = max_bytes;

  if (len <= max_bytes)
    return len;

  for (unsigned n = 0; n < 3 && cut > 0 && ((uint8_t) text[cut] & 0xC0) == 0x80; n++)
    cut--;

  return ((uint8_t) text[cut] & 0xC0) == 0x80 ? max_bytes : cut;
}

/* Into a fixed array that is zero already; the NUL stays inside. */
static void
set_text (char *array, size_t array_bytes, const char *text)
{
  memcpy (array, text, cut_length (text, strlen (text), array_bytes - 1));
}

/* Bytes of @text that fit a frame of this fixed size together with a NUL. */
static size_t
tail_length (const char *text, size_t len, size_t fixed_bytes)
{
  return cut_length (text, len, SONDE_FRAME_MAX_SIZE - fixed_bytes - 1);
}

int
sonde_writer_add_file_header (SondeWriter *self, int64_t realtime_ns, int64_t start_ns)
{
  time_t seconds = realtime_ns / NS_PER_S;
  SondeFileHeader *header;
  struct tm tm;
  void *place;
  int r;

  if (gmtime_r (&seconds, &tm) == NULL)
    return -EINVAL;

  r = reserve (self, sizeof *header, &place);
  if (r < 0)
    return r;

  header = place;
  memset (header, 0, sizeof *header);
  header->magic = htole32 (SONDE_CAPTURE_MAGIC);
  header->version = SONDE_CAPTURE_VERSION;
  header->little_endian = __BYTE_ORDER == __LITTLE_ENDIAN;
  header->time_ns = start_ns;
  strftime (header->capture_time, sizeof header->capture_time, "%Y-%m-%dT%H:%M:%SZ", &tm);

  return 0;
}

int
sonde_writer_add_timestamp (SondeWriter *self, const SondeFrameOrigin *origin)
{
  int r;

  return begin_frame (self, origin, SONDE_FRAME_TIMESTAMP, sizeof (SondeFrame), 0, &r) ? 0 : r;
}

int
sonde_writer_add_sample (SondeWriter *self,
                         const SondeFrameOrigin *origin,
                         int32_t tid,
                         const uint64_t *addrs,
                         size_t n_addrs)
{
  SondeFrameSample *sample;
  int r;

  if (n_addrs > MAX_PER_FRAME (*sample, *addrs))
    return -EMSGSIZE;

  sample
      = begin_frame (self, origin, SONDE_FRAME_SAMPLE, sizeof *sample, n_addrs * sizeof *addrs, &r);
  if (sample == NULL)
    return r;

  sample->n_addrs = (uint16_t) n_addrs;
  sample->tid = tid;
  if (n_addrs > 0)
    memcpy ((uint8_t *) sample + sizeof *sample, addrs, n_addrs * sizeof *addrs);

  return 0;
}

int
sonde_writer_add_map (SondeWriter *self,
                      const SondeFrameOrigin *origin,
                      uint64_t start,
                      uint64_t end,
                      uint64_t offset,
                      uint64_t inode,
                      const char *path,
                      const char *build_id)
{
  size_t id_len = build_id != NULL ? strlen (build_id) : 0;
  size_t id_bytes = build_id != NULL ? 1 + id_len + 1 : 0; /* '@', digits, NUL */
  SondeFrameMap *map;
  size_t path_len;
  int r;

  if (end < start
      || (build_id != NULL
          && (id_len == 0 || id_len > MAX_BUILD_ID
              || strspn (build_id, "0123456789abcdefABCDEF") != id_len)))
    return -EINVAL;

  path_len = tail_length (path, strlen (path), sizeof *map + id_bytes);
  map = begin_frame (self, origin, SONDE_FRAME_MAP, sizeof *map, path_len + 1 + id_bytes, &r);
  if (map == NULL)
    return r;

  map->start = start;
  map->end = end;
  map->offset = offset;
  map->inode = inode;
  memcpy (map->path, path, path_len);
  if (build_id != NULL)
    {
      map->path[path_len] = '\0';
      map->path[path_len + 1] = '@';
      memcpy (map->path + path_len + 2, build_id, id_len);
    }

  return 0;
}

int
sonde_writer_add_process (SondeWriter *self, const SondeFrameOrigin *origin, const char *cmdline)
{
  size_t len = tail_length (cmdline, strlen (cmdline), sizeof (SondeFrameProcess));
  SondeFrameProcess *process;
  int r;

  process = begin_frame (self, origin, SONDE_FRAME_PROCESS, sizeof *process, len + 1, &r);
  if (process == NULL)
    return r;

  memcpy (process->cmdline, cmdline, len);
  return 0;
}

int
sonde_writer_add_fork (SondeWriter *self, const SondeFrameOrigin *origin, int32_t child)
{
  SondeFrameFork *fork;
  int r;

  fork = begin_frame (self, origin, SONDE_FRAME_FORK, sizeof *fork, 0, &r);
  if (fork == NULL)
    return r;

  fork->child = child;
  return 0;
}

int
sonde_writer_add_exit (SondeWriter *self, const SondeFrameOrigin *origin)
{
  int r;

  return begin_frame (self, origin, SONDE_FRAME_EXIT, sizeof (SondeFrameExit), 0, &r) ? 0 : r;
}

int
sonde_writer_add_mark (SondeWriter *self,
                       const SondeFrameOrigin *origin,
                       int64_t duration_ns,
                       const char *group,
                       const char *name,
                       const char *message)
{
  size_t len = tail_length (message, strlen (message), sizeof (SondeFrameMark));
  SondeFrameMark *mark;
  int r;

  mark = begin_frame (self, origin, SONDE_FRAME_MARK, sizeof *mark, len + 1, &r);
  if (mark == NULL)
    return r;

  mark->duration_ns = duration_ns;
  set_text (mark->group, sizeof mark->group, group);
  set_text (mark->name, sizeof mark->name, name);
  memcpy (mark->message, message, len);

  return 0;
}

int
sonde_writer_add_metadata (SondeWriter *self,
                           const SondeFrameOrigin *origin,
                           const char *id,
                           const char *text,
                           size_t text_len)
{
  size_t len = tail_length (text, text_len, sizeof (SondeFrameMetadata));
  SondeFrameMetadata *metadata;
  int r;

  metadata = begin_frame (self, origin, SONDE_FRAME_METADATA, sizeof *metadata, len + 1, &r);
  if (metadata == NULL)
    return r;

  set_text (metadata->id, sizeof metadata->id, id);
  memcpy (metadata->metadata, text, len);

  return 0;
}

int
sonde_writer_add_log (SondeWriter *self,
                      const SondeFrameOrigin *origin,
                      uint16_t severity,
                      const char *domain,
                      const char *message)
{
  size_t len = tail_length (message, strlen (message), sizeof (SondeFrameLog));
  SondeFrameLog *log;
  int r;

  log = begin_frame (self, origin, SONDE_FRAME_LOG, sizeof *log, len + 1, &r);
  if (log == NULL)
    return r;

  log->severity = severity;
  set_text (log->domain, sizeof log->domain, domain);
  memcpy (log->message, message, len);

  return 0;
}

int
sonde_writer_add_file_chunk (SondeWriter *self,
                             const SondeFrameOrigin *origin,
                             const char *path,
                             const void *data,
                             size_t size_bytes,
                             bool is_last)
{
  SondeFrameFileChunk *chunk;
  int r;

  if (size_bytes > SONDE_WRITER_MAX_CHUNK || strlen (path) >= sizeof chunk->path)
    return -EMSGSIZE;

  chunk = begin_frame (self, origin, SONDE_FRAME_FILE_CHUNK, sizeof *chunk, size_bytes, &r);
  if (chunk == NULL)
    return r;

  chunk->is_last = is_last ? SONDE_FILE_CHUNK_LAST : 0;
  chunk->data_len = (uint16_t) size_bytes;
  set_text (chunk->path, sizeof chunk->path, path);
  if (size_bytes > 0)
    memcpy (chunk->data, data, size_bytes);

  return 0;
}

int
sonde_writer_add_allocation (SondeWriter *self,
                             const SondeFrameOrigin *origin,
                             int32_t tid,
                             uint64_t address,
                             int64_t size_bytes,
                             const uint64_t *addrs,
                             size_t n_addrs)
{
  SondeFrameAllocation *allocation;
  int r;

  if (size_bytes < 0)
    return -EINVAL;
  if (n_addrs > MAX_PER_FRAME (*allocation, *addrs))
    return -EMSGSIZE;

  allocation = begin_frame (self, origin, SONDE_FRAME_ALLOCATION, sizeof *allocation,
                            n_addrs * sizeof *addrs, &r);
  if (allocation == NULL)
    return r;

  allocation->address = address;
  allocation->size_bytes = size_bytes;
  allocation->tid = tid;
  allocation->n_addrs = (uint16_t) n_addrs;
  if (n_addrs > 0)
    memcpy ((uint8_t *) allocation + sizeof *allocation, addrs, n_addrs * sizeof *addrs);

  return 0;
}

int
sonde_writer_add_overlay (SondeWriter *self,
                          const SondeFrameOrigin *origin,
                          uint8_t layer,
                          const char *src,
                          const char *dst)
{
  size_t src_len = strlen (src);
  size_t dst_len = strlen (dst);
  SondeFrameOverlay *overlay;
  int r;

  /* Half of a path would name another directory, so these are not cut. */
  if (src_len > UINT16_MAX || dst_len > UINT16_MAX)
    return -EMSGSIZE;

  overlay = begin_frame (self, origin, SONDE_FRAME_OVERLAY, sizeof *overlay,
                         src_len + 1 + dst_len + 1, &r);
  if (overlay == NULL)
    return r;

  overlay->layer = (uint32_t) layer << SONDE_OVERLAY_LAYER_SHIFT;
  overlay->src_len = (uint16_t) src_len;
  overlay->dst_len = (uint16_t) dst_len;
  memcpy (overlay->data, src, src_len + 1);
  memcpy (overlay->data + src_len + 1, dst, dst_len + 1);

  return 0;
}

/* The header's padding is not copied: foreign producers leave stale bytes there, and some hide
 * offsets of their own file in it, which would be wrong in ours. */
int
sonde_writer_add_frame (SondeWriter *self, const SondeFrame *frame)
{
  SondeFrame *copy;
  void *place;
  int r = reserve (self, frame->len, &place);

  if (r < 0)
    return r;

  copy = place;
  memcpy (copy, frame, frame->len);
  memset (copy->padding1, 0, sizeof copy->padding1);
  copy->padding2 = 0;
  self->n_frames++;

  return 0;
}

/* --- tables, which become several frames when they do not fit one --- */

static size_t
jit_name_length (const char *name)
{
  return tail_length (name, strlen (name), sizeof (SondeFrameJitmap) + sizeof (uint64_t));
}

int
sonde_writer_add_jitmap (SondeWriter *self,
                         const SondeFrameOrigin *origin,
                         const SondeJitName *names,
                         size_t n_names)
{
  for (size_t next = 0; next < n_names;)
    {
      size_t first = next;
      size_t body = 0;
      SondeFrameJitmap *jitmap;
      uint8_t *at;
      int r;

      for (; next < n_names; next++)
        {
          size_t entry = sizeof names->address + jit_name_length (names[next].name) + 1;

          if (entry > SONDE_FRAME_MAX_SIZE - sizeof *jitmap - body)
            break;
          body += entry;
        }

      jitmap = begin_frame (self, origin, SONDE_FRAME_JITMAP, sizeof *jitmap, body, &r);
      if (jitmap == NULL)
        return r;

      jitmap->n_names = (uint32_t) (next - first);
      at = jitmap->data;
      for (size_t i = first; i < next; i++)
        {
          size_t len = jit_name_length (names[i].name);

          memcpy (at, &names[i].address, sizeof names[i].address);
          at += sizeof names[i].address;
          memcpy (at, names[i].name, len);
          at += len;
          *at++ = '\0';
        }
    }

  return 0;
}

int
sonde_writer_add_counter_define (SondeWriter *self,
                                 const SondeFrameOrigin *origin,
                                 const SondeCounter *counters,
                                 size_t n_counters)
{
  const size_t max = MAX_PER_FRAME (SondeFrameCounterDefine, SondeCounterDefinition);

  for (size_t i = 0; i < n_counters; i++)
    if (counters[i].id == 0 || counters[i].id > SONDE_COUNTER_MAX_ID
        || counters[i].type > SONDE_COUNTER_DOUBLE)
      return -EINVAL;

  for (size_t i = 0; i < n_counters; i += max)
    {
      size_t n = n_counters - i < max ? n_counters - i : max;
      size_t body = n * sizeof (SondeCounterDefinition);
      SondeFrameCounterDefine *define;
      int r;

      define = begin_frame (self, origin, SONDE_FRAME_CTRDEF, sizeof *define, body, &r);
      if (define == NULL)
        return r;

      memset ((uint8_t *) define + sizeof *define, 0, body);
      define->n_counters = (uint16_t) n;
      for (size_t j = 0; j < n; j++)
        {
          const SondeCounter *from = &counters[i + j];
          SondeCounterDefinition *to = &define->counters[j];

          set_text (to->category, sizeof to->category, from->category);
          set_text (to->name, sizeof to->name, from->name);
          set_text (to->description, sizeof to->description, from->description);
          to->id_type = from->id << SONDE_COUNTER_ID_SHIFT
                        | (uint32_t) from->type << SONDE_COUNTER_TYPE_SHIFT;
          to->value = from->value;
        }
    }

  return 0;
}

int
sonde_writer_add_counter_set (SondeWriter *self,
                              const SondeFrameOrigin *origin,
                              const uint32_t *ids,
                              const SondeCounterValue *values,
                              size_t n_counters)
{
  const size_t max
      = MAX_PER_FRAME (SondeFrameCounterSet, SondeCounterGroup) * SONDE_COUNTERS_PER_GROUP;

  for (size_t i = 0; i < n_counters; i++)
    if (ids[i] == 0 || ids[i] > SONDE_COUNTER_MAX_ID)
      return -EINVAL;

  for (size_t i = 0; i < n_counters; i += max)
    {
      size_t n = n_counters - i < max ? n_counters - i : max;
      size_t n_groups = (n + SONDE_COUNTERS_PER_GROUP - 1) / SONDE_COUNTERS_PER_GROUP;
      size_t body = n_groups * sizeof (SondeCounterGroup);
      SondeFrameCounterSet *set;
      int r;

      set = begin_frame (self, origin, SONDE_FRAME_CTRSET, sizeof *set, body, &r);
      if (set == NULL)
        return r;

      memset ((uint8_t *) set + sizeof *set, 0, body);
      set->n_groups = (uint16_t) n_groups;
      for (size_t j = 0; j < n; j++)
        {
          SondeCounterGroup *group = &set->groups[j / SONDE_COUNTERS_PER_GROUP];

          group->ids[j % SONDE_COUNTERS_PER_GROUP] = ids[i + j];
          group->values[j % SONDE_COUNTERS_PER_GROUP] = values[i + j];
        }
    }

  return 0;
}
