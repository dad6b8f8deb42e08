/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protocol/frame-check.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static const char *const type_names[SONDE_FRAME_N_READ] = {
  [SONDE_FRAME_TIMESTAMP] = "TIMESTAMP",
  [SONDE_FRAME_SAMPLE] = "SAMPLE",
  [SONDE_FRAME_MAP] = "MAP",
  [SONDE_FRAME_PROCESS] = "PROCESS",
  [SONDE_FRAME_FORK] = "FORK",
  [SONDE_FRAME_EXIT] = "EXIT",
  [SONDE_FRAME_JITMAP] = "JITMAP",
  [SONDE_FRAME_CTRDEF] = "CTRDEF",
  [SONDE_FRAME_CTRSET] = "CTRSET",
  [SONDE_FRAME_MARK] = "MARK",
  [SONDE_FRAME_METADATA] = "METADATA",
  [SONDE_FRAME_LOG] = "LOG",
  [SONDE_FRAME_FILE_CHUNK] = "FILE_CHUNK",
  [SONDE_FRAME_ALLOCATION] = "ALLOCATION",
  [SONDE_FRAME_OVERLAY] = "OVERLAY",
  [SONDE_FRAME_TRACE] = "TRACE",
  [SONDE_FRAME_DBUS_MESSAGE] = "DBUS_MESSAGE",
};

static const uint16_t fixed_sizes[SONDE_FRAME_N_READ] = {
  [SONDE_FRAME_TIMESTAMP] = sizeof (SondeFrame),
  [SONDE_FRAME_SAMPLE] = sizeof (SondeFrameSample),
  [SONDE_FRAME_MAP] = sizeof (SondeFrameMap),
  [SONDE_FRAME_PROCESS] = sizeof (SondeFrameProcess),
  [SONDE_FRAME_FORK] = sizeof (SondeFrameFork),
  [SONDE_FRAME_EXIT] = sizeof (SondeFrameExit),
  [SONDE_FRAME_JITMAP] = sizeof (SondeFrameJitmap),
  [SONDE_FRAME_CTRDEF] = sizeof (SondeFrameCounterDefine),
  [SONDE_FRAME_CTRSET] = sizeof (SondeFrameCounterSet),
  [SONDE_FRAME_MARK] = sizeof (SondeFrameMark),
  [SONDE_FRAME_METADATA] = sizeof (SondeFrameMetadata),
  [SONDE_FRAME_LOG] = sizeof (SondeFrameLog),
  [SONDE_FRAME_FILE_CHUNK] = sizeof (SondeFrameFileChunk),
  [SONDE_FRAME_ALLOCATION] = sizeof (SondeFrameAllocation),
  [SONDE_FRAME_OVERLAY] = sizeof (SondeFrameOverlay),
  [SONDE_FRAME_TRACE] = 32,
  [SONDE_FRAME_DBUS_MESSAGE] = 28,
};

const char *
sonde_frame_fault_to_string (SondeFrameFault fault)
{
  static const char *const texts[SONDE_N_FRAME_FAULTS] = {
    [SONDE_FRAME_OK] = "it is whole",
    [SONDE_FRAME_FAULT_SHORT_HEADER] = "it ends within the 24 bytes of its header",
    [SONDE_FRAME_FAULT_LENGTH_SMALL] = "its length is too small for its type",
    [SONDE_FRAME_FAULT_LENGTH_ALIGN] = "its length is not a multiple of 8",
    [SONDE_FRAME_FAULT_LENGTH_PAST_END] = "its length reaches past the end",
    [SONDE_FRAME_FAULT_TYPE] = "its type is unknown",
    [SONDE_FRAME_FAULT_COUNT] = "it claims more entries than its length holds",
    [SONDE_FRAME_FAULT_TERMINATION] = "one of its strings does not end",
    [SONDE_FRAME_FAULT_VALUE] = "one of its values is impossible",
  };

  return (unsigned) fault < SONDE_N_FRAME_FAULTS ? texts[fault] : "?";
}

const char *
sonde_frame_type_to_string (unsigned type)
{
  return type > 0 && type < SONDE_FRAME_N_READ ? type_names[type] : "?";
}

size_t
sonde_frame_fixed_size (unsigned type)
{
  return type < SONDE_FRAME_N_READ ? fixed_sizes[type] : 0;
}

int
sonde_file_header_check (const SondeFileHeader *header)
{
  if (le32toh (header->magic) != SONDE_CAPTURE_MAGIC)
    return -EBADMSG;
  if (header->version != SONDE_CAPTURE_VERSION)
    return -EPROTONOSUPPORT;
  if ((header->little_endian != 0) != (__BYTE_ORDER == __LITTLE_ENDIAN))
    return -ENOTSUP;

  return 0;
}

static bool
is_terminated (const char *text, size_t size_bytes)
{
  return memchr (text, '\0', size_bytes) != NULL;
}

/* Text that runs to the frame's end, where a NUL stands: others before it are allowed (a MAP has
 * its build id behind the first). */
static SondeFrameFault
check_tail_texts (const SondeFrame *frame)
{
  size_t fixed = fixed_sizes[frame->type];

  if (frame->len <= fixed)
    return SONDE_FRAME_FAULT_LENGTH_SMALL;

  return ((const char *) frame)[frame->len - 1] == '\0' ? SONDE_FRAME_OK
                                                        : SONDE_FRAME_FAULT_TERMINATION;
}

/* One text and what happens to lie behind its NUL: libsysprof-capture does not clear the padding of
 * these frames, so it is left of older ones. */
static SondeFrameFault
check_tail_text (const SondeFrame *frame)
{
  size_t fixed = fixed_sizes[frame->type];

  if (frame->len <= fixed)
    return SONDE_FRAME_FAULT_LENGTH_SMALL;

  return is_terminated ((const char *) frame + fixed, frame->len - fixed)
             ? SONDE_FRAME_OK
             : SONDE_FRAME_FAULT_TERMINATION;
}

/* The count times the entry's size cannot overflow: both come from 16 bits. */
static SondeFrameFault
check_count (const SondeFrame *frame, uint16_t n_entries, size_t entry_bytes)
{
  size_t room = frame->len - (size_t) fixed_sizes[frame->type];

  return n_entries * entry_bytes <= room ? SONDE_FRAME_OK : SONDE_FRAME_FAULT_COUNT;
}

static SondeFrameFault
check_jitmap (const SondeFrameJitmap *jitmap)
{
  const char *at = (const char *) jitmap->data;
  size_t left = jitmap->frame.len - sizeof *jitmap;

  /* However large the count: each round takes at least 9 bytes of what is left. */
  for (uint32_t i = 0; i < jitmap->n_names; i++)
    {
      const char *end;

      if (left <= sizeof (uint64_t))
        return SONDE_FRAME_FAULT_COUNT;

      end = memchr (at + sizeof (uint64_t), '\0', left - sizeof (uint64_t));
      if (end == NULL)
        return SONDE_FRAME_FAULT_TERMINATION;

      left -= (size_t) (end + 1 - at);
      at = end + 1;
    }

  return SONDE_FRAME_OK;
}

static SondeFrameFault
check_counter_define (const SondeFrameCounterDefine *define)
{
  SondeFrameFault fault
      = check_count (&define->frame, define->n_counters, sizeof (SondeCounterDefinition));

  for (unsigned i = 0; fault == SONDE_FRAME_OK && i < define->n_counters; i++)
    {
      const SondeCounterDefinition *counter = &define->counters[i];

      if (!is_terminated (counter->category, sizeof counter->category)
          || !is_terminated (counter->name, sizeof counter->name)
          || !is_terminated (counter->description, sizeof counter->description))
        fault = SONDE_FRAME_FAULT_TERMINATION;
      else if (sonde_counter_type (counter->id_type) > SONDE_COUNTER_DOUBLE)
        fault = SONDE_FRAME_FAULT_VALUE;
    }

  return fault;
}

static SondeFrameFault
check_overlay (const SondeFrameOverlay *overlay)
{
  size_t room = overlay->frame.len - sizeof *overlay;
  size_t src_end = overlay->src_len;
  size_t dst_end = src_end + 1 + overlay->dst_len;

  if (dst_end >= room)
    return SONDE_FRAME_FAULT_COUNT;

  return overlay->data[src_end] == '\0' && overlay->data[dst_end] == '\0'
             ? SONDE_FRAME_OK
             : SONDE_FRAME_FAULT_TERMINATION;
}

/* What the header alone shows comes first, so that a stream reader waits for no body of a frame
 * that it will refuse. */
SondeFrameFault
sonde_frame_check (const void *bytes, size_t size_bytes)
{
  const SondeFrame *frame = bytes;
  const SondeFrameMap *map = bytes;
  const SondeFrameMark *mark = bytes;
  const SondeFrameMetadata *metadata = bytes;
  const SondeFrameLog *log = bytes;
  const SondeFrameFileChunk *chunk = bytes;
  const SondeFrameAllocation *allocation = bytes;

  if (size_bytes < sizeof *frame)
    return SONDE_FRAME_FAULT_SHORT_HEADER;
  if (frame->len < SONDE_FRAME_MIN_SIZE)
    return SONDE_FRAME_FAULT_LENGTH_SMALL;
  if (frame->len % SONDE_FRAME_ALIGN != 0)
    return SONDE_FRAME_FAULT_LENGTH_ALIGN;
  if (frame->type == 0 || frame->type >= SONDE_FRAME_N_READ)
    return SONDE_FRAME_FAULT_TYPE;
  if (frame->len < fixed_sizes[frame->type])
    return SONDE_FRAME_FAULT_LENGTH_SMALL;
  if (frame->len > size_bytes)
    return SONDE_FRAME_FAULT_LENGTH_PAST_END;

  switch (frame->type)
    {
    case SONDE_FRAME_SAMPLE:
      return check_count (frame, ((const SondeFrameSample *) frame)->n_addrs, sizeof (uint64_t));
    case SONDE_FRAME_MAP:
      return map->end >= map->start ? check_tail_texts (frame) : SONDE_FRAME_FAULT_VALUE;
    case SONDE_FRAME_PROCESS:
      return check_tail_texts (frame);
    case SONDE_FRAME_JITMAP:
      return check_jitmap ((const SondeFrameJitmap *) frame);
    case SONDE_FRAME_CTRDEF:
      return check_counter_define ((const SondeFrameCounterDefine *) frame);
    case SONDE_FRAME_CTRSET:
      return check_count (frame, ((const SondeFrameCounterSet *) frame)->n_groups,
                          sizeof (SondeCounterGroup));
    case SONDE_FRAME_MARK:
      return is_terminated (mark->group, sizeof mark->group)
                     && is_terminated (mark->name, sizeof mark->name)
                 ? check_tail_text (frame)
                 : SONDE_FRAME_FAULT_TERMINATION;
    case SONDE_FRAME_METADATA:
      return is_terminated (metadata->id, sizeof metadata->id) ? check_tail_text (frame)
                                                               : SONDE_FRAME_FAULT_TERMINATION;
    case SONDE_FRAME_LOG:
      return is_terminated (log->domain, sizeof log->domain) ? check_tail_text (frame)
                                                             : SONDE_FRAME_FAULT_TERMINATION;
    case SONDE_FRAME_FILE_CHUNK:
      return is_terminated (chunk->path, sizeof chunk->path)
                 ? check_count (frame, chunk->data_len, 1)
                 : SONDE_FRAME_FAULT_TERMINATION;
    case SONDE_FRAME_ALLOCATION:
      return allocation->size_bytes >= 0
                 ? check_count (frame, allocation->n_addrs, sizeof (uint64_t))
                 : SONDE_FRAME_FAULT_VALUE;
    case SONDE_FRAME_OVERLAY:
      return check_overlay ((const SondeFrameOverlay *) frame);
    case SONDE_FRAME_TIMESTAMP:
    case SONDE_FRAME_FORK:
    case SONDE_FRAME_EXIT:
    case SONDE_FRAME_TRACE:
    case SONDE_FRAME_DBUS_MESSAGE:
      return SONDE_FRAME_OK;
    default:
      return SONDE_FRAME_FAULT_TYPE;
    }
}
