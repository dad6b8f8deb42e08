/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/perf/perf-decoder.h"

#include <string.h>
#include <sys/mman.h>

#include "daemon/base/probe.h"

#define KNOWN_SAMPLE_TYPE                                                                          \
  (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID   \
   | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN          \
   | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

/* What remains of a record. */
typedef struct
{
  const uint8_t *at;
  size_t left; /* bytes */
} RecordCursor;

const char *
sonde_perf_record_fault_to_string (SondePerfRecordFault fault)
{
  static const char *const sentences[SONDE_N_PERF_RECORD_FAULTS] = {
    [SONDE_PERF_RECORD_OK] = "it is well-formed",
    [SONDE_PERF_RECORD_FAULT_SHORT] = "it ends within a field",
    [SONDE_PERF_RECORD_FAULT_CHAIN] = "it has more addresses than bytes",
    [SONDE_PERF_RECORD_FAULT_REGS] = "its registers do not fit",
    [SONDE_PERF_RECORD_FAULT_STACK] = "its stack copy does not fit",
    [SONDE_PERF_RECORD_FAULT_WALK] = "what a program wrote does not fit",
    [SONDE_PERF_RECORD_FAULT_TERMINATION] = "a name in it has no end",
    [SONDE_PERF_RECORD_FAULT_RANGE] = "its mapping ends before it starts",
  };

  return (unsigned) fault < SONDE_N_PERF_RECORD_FAULTS ? sentences[fault] : "?";
}

bool
sonde_perf_decoder_supports (uint64_t sample_type)
{
  return (sample_type & ~(uint64_t) KNOWN_SAMPLE_TYPE) == 0;
}

static const void *
take (RecordCursor *cursor, size_t size_bytes)
{
  const void *field = cursor->at;

  if (size_bytes > cursor->left)
    return NULL;
  cursor->at += size_bytes;
  cursor->left -= size_bytes;

  return field;
}

static bool
take_u64 (RecordCursor *cursor, uint64_t *value)
{
  const void *field = take (cursor, sizeof *value);

  if (field == NULL)
    return false;
  memcpy (value, field, sizeof *value);

  return true;
}

static bool
take_u32_pair (RecordCursor *cursor, uint32_t *first, uint32_t *second)
{
  const uint8_t *field = take (cursor, 2 * sizeof *first);

  if (field == NULL)
    return false;
  memcpy (first, field, sizeof *first);
  memcpy (second, field + sizeof *first, sizeof *second);

  return true;
}

/* Fields that stand both at the start of a sample and in the trailer of all other records; in a
 * sample, IP and ADDR come in between. */
static bool
take_identity (uint64_t type, RecordCursor *cursor, SondePerfRecord *record)
{
  uint64_t skipped, time_ns;
  uint32_t pid, tid, cpu, reserved;

  if (type & PERF_SAMPLE_TID)
    {
      if (!take_u32_pair (cursor, &pid, &tid))
        return false;
      record->pid = (int32_t) pid;
      record->tid = (int32_t) tid;
    }
  if (type & PERF_SAMPLE_TIME)
    {
      if (!take_u64 (cursor, &time_ns))
        return false;
      record->time_ns = (int64_t) time_ns;
    }
  if ((type & PERF_SAMPLE_ID) && !take_u64 (cursor, &skipped))
    return false;
  if ((type & PERF_SAMPLE_STREAM_ID) && !take_u64 (cursor, &skipped))
    return false;
  if (type & PERF_SAMPLE_CPU)
    {
      if (!take_u32_pair (cursor, &cpu, &reserved))
        return false;
      record->cpu = cpu <= INT16_MAX ? (int) cpu : -1;
    }

  return true;
}

/* Bytes of the sample_id trailer. */
static size_t
trailer_size (uint64_t type)
{
  const uint64_t fields = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID
                          | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;

  return (size_t) __builtin_popcountll (type & fields) * sizeof (uint64_t);
}

/* Cuts the trailer off the end of @cursor. */
static bool
take_trailer (const SondePerfDecoder *self, RecordCursor *cursor, SondePerfRecord *record)
{
  size_t size_bytes = trailer_size (self->sample_type);
  RecordCursor trailer;

  if (size_bytes > cursor->left)
    return false;
  cursor->left -= size_bytes;
  trailer = (RecordCursor){ cursor->at + cursor->left, size_bytes };

  if (!take_identity (self->sample_type, &trailer, record))
    return false;
  return (self->sample_type & PERF_SAMPLE_IDENTIFIER) == 0 || take_u64 (&trailer, &record->id);
}

static SondePerfRecordMode
mode_of (const struct perf_event_header *header)
{
  switch (header->misc & PERF_RECORD_MISC_CPUMODE_MASK)
    {
    case PERF_RECORD_MISC_KERNEL:
      return SONDE_PERF_RECORD_MODE_KERNEL;
    case PERF_RECORD_MISC_USER:
      return SONDE_PERF_RECORD_MODE_USER;
    case PERF_RECORD_MISC_CPUMODE_UNKNOWN:
      return SONDE_PERF_RECORD_MODE_UNKNOWN;
    default:
      return SONDE_PERF_RECORD_MODE_OTHER;
    }
}

/* Samples of all events begin with its number. Whether that is one of @n sorted ones. */
static bool
has_id (const SondePerfDecoder *self,
        const struct perf_event_header *header,
        const uint64_t *ids,
        size_t n)
{
  size_t low = 0;
  size_t high = n;
  uint64_t id;

  if (high == 0 || header->type != PERF_RECORD_SAMPLE
      || (self->sample_type & PERF_SAMPLE_IDENTIFIER) == 0
      || header->size < sizeof *header + sizeof id)
    return false;
  memcpy (&id, header + 1, sizeof id);
  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (ids[middle] == id)
        return true;
      if (ids[middle] < id)
        low = middle + 1;
      else
        high = middle;
    }
  return false;
}

static bool
is_walk (const SondePerfDecoder *self, const struct perf_event_header *header)
{
  return has_id (self, header, self->walk_ids, self->n_walk_ids);
}

static bool
is_probe (const SondePerfDecoder *self, const struct perf_event_header *header)
{
  return has_id (self, header, self->probe_ids, self->n_probe_ids);
}

/* How the broker opens theirs, whatever those of samples are like. */
static const SondePerfDecoder of_probes
    = { .sample_type = SONDE_PROBE_SAMPLE_TYPE, .regs_user = SONDE_PROBE_REGISTERS };

/* Their events are all opened alike. Source: init_walks() in daemon/broker/perf-event.c */
#define WALK_SAMPLE_TYPE                                                                           \
  (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

static SondePerfRecordFault
decode_walk (RecordCursor *cursor, SondePerfRecord *record)
{
  uint64_t ip;
  const void *size;
  uint32_t size_bytes;

  if (!take_u64 (cursor, &record->id) || !take_u64 (cursor, &ip)
      || !take_identity (WALK_SAMPLE_TYPE, cursor, record))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  size = take (cursor, sizeof size_bytes);
  if (size == NULL)
    return SONDE_PERF_RECORD_FAULT_SHORT;
  memcpy (&size_bytes, size, sizeof size_bytes);
  record->walk.bytes = take (cursor, size_bytes);
  record->walk.size_bytes = size_bytes;
  return record->walk.bytes != NULL ? SONDE_PERF_RECORD_OK : SONDE_PERF_RECORD_FAULT_WALK;
}

static SondePerfRecordFault
decode_sample (const SondePerfDecoder *self, RecordCursor *cursor, SondePerfRecord *record)
{
  SondePerfRecordSample *sample = &record->sample;
  uint64_t type = self->sample_type;
  uint64_t n_chain, valid_bytes;
  uint64_t size_bytes = 0;

  if ((type & PERF_SAMPLE_IDENTIFIER) && !take_u64 (cursor, &record->id))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  if ((type & PERF_SAMPLE_IP) && !take_u64 (cursor, &sample->ip))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  if (!take_identity (type, cursor, record))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  if ((type & PERF_SAMPLE_PERIOD) && !take_u64 (cursor, &sample->period))
    return SONDE_PERF_RECORD_FAULT_SHORT;

  if (type & PERF_SAMPLE_CALLCHAIN)
    {
      if (!take_u64 (cursor, &n_chain))
        return SONDE_PERF_RECORD_FAULT_SHORT;
      if (n_chain > cursor->left / sizeof (uint64_t))
        return SONDE_PERF_RECORD_FAULT_CHAIN;
      sample->n_chain = (size_t) n_chain;
      sample->chain = take (cursor, sample->n_chain * sizeof (uint64_t));
    }

  if ((type & PERF_SAMPLE_REGS_USER) && !take_u64 (cursor, &sample->abi))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  if (sample->abi != PERF_SAMPLE_REGS_ABI_NONE)
    {
      if (sample->abi != PERF_SAMPLE_REGS_ABI_32 && sample->abi != PERF_SAMPLE_REGS_ABI_64)
        return SONDE_PERF_RECORD_FAULT_REGS;
      sample->n_regs = (size_t) __builtin_popcountll (self->regs_user);
      sample->regs = take (cursor, sample->n_regs * sizeof (uint64_t));
      if (sample->regs == NULL)
        return SONDE_PERF_RECORD_FAULT_REGS;
    }

  /* size, the copy, then how much of it is valid; a size of 0 has neither of the other two */
  if ((type & PERF_SAMPLE_STACK_USER) && !take_u64 (cursor, &size_bytes))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  if (size_bytes > 0)
    {
      if (size_bytes > cursor->left || size_bytes % sizeof (uint64_t) != 0)
        return SONDE_PERF_RECORD_FAULT_STACK;
      sample->stack = take (cursor, (size_t) size_bytes);
      if (!take_u64 (cursor, &valid_bytes))
        return SONDE_PERF_RECORD_FAULT_SHORT;
      if (valid_bytes > size_bytes)
        return SONDE_PERF_RECORD_FAULT_STACK;
      sample->stack_size_bytes = (size_t) valid_bytes;
      sample->dump_size_bytes = (size_t) size_bytes;
    }

  return SONDE_PERF_RECORD_OK;
}

#define CALLCHAIN_DEFERRED 22 /* PERF_RECORD_CALLCHAIN_DEFERRED, of Linux 6.19 */

static SondePerfRecordFault
decode_chain (RecordCursor *cursor, SondePerfRecord *record)
{
  uint64_t n_addrs;

  if (!take_u64 (cursor, &record->chain.cookie) || !take_u64 (cursor, &n_addrs))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  if (n_addrs > cursor->left / sizeof (uint64_t))
    return SONDE_PERF_RECORD_FAULT_CHAIN;
  record->chain.n_addrs = (size_t) n_addrs;
  record->chain.addrs = take (cursor, record->chain.n_addrs * sizeof (uint64_t));
  return SONDE_PERF_RECORD_OK;
}

/* The NUL-terminated text that is the rest of @cursor. */
static const char *
take_text (RecordCursor *cursor)
{
  return memchr (cursor->at, '\0', cursor->left) != NULL ? (const char *) cursor->at : NULL;
}

/* Source: PERF_RECORD_MMAP and _MMAP2 in linux/perf_event.h */
typedef struct
{
  uint32_t pid, tid;
  uint64_t start, len, offset;
} MapFields;

typedef struct
{
  uint32_t dev_major, dev_minor;
  uint64_t inode, generation;
  uint32_t prot, flags;
} Map2Fields;

_Static_assert(sizeof (MapFields) == 32, "MMAP");
_Static_assert(sizeof (Map2Fields) == 32, "MMAP2");

static SondePerfRecordFault
decode_map (const struct perf_event_header *header, RecordCursor *cursor, SondePerfRecord *record)
{
  SondePerfRecordMap *map = &record->map;
  MapFields fields;
  Map2Fields more;
  const void *place = take (cursor, sizeof fields);

  if (place == NULL)
    return SONDE_PERF_RECORD_FAULT_SHORT;
  memcpy (&fields, place, sizeof fields);
  if (fields.len == 0 || fields.len > UINT64_MAX - fields.start)
    return SONDE_PERF_RECORD_FAULT_RANGE;

  map->executable = (header->misc & PERF_RECORD_MISC_MMAP_DATA) == 0;
  if (header->type == PERF_RECORD_MMAP2)
    {
      place = take (cursor, sizeof more);
      if (place == NULL)
        return SONDE_PERF_RECORD_FAULT_SHORT;
      memcpy (&more, place, sizeof more);
      map->executable = (more.prot & PROT_EXEC) != 0;
      /* With a build id these fields hold its bytes instead. */
      if ((header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) == 0)
        {
          map->dev_major = more.dev_major;
          map->dev_minor = more.dev_minor;
          map->inode = more.inode;
          map->inode_generation = more.generation;
        }
    }

  map->path = take_text (cursor);
  if (map->path == NULL)
    return SONDE_PERF_RECORD_FAULT_TERMINATION;
  record->pid = (int32_t) fields.pid;
  record->tid = (int32_t) fields.tid;
  map->start = fields.start;
  map->end = fields.start + fields.len;
  map->offset = fields.offset;

  return SONDE_PERF_RECORD_OK;
}

static SondePerfRecordFault
decode_comm (const struct perf_event_header *header, RecordCursor *cursor, SondePerfRecord *record)
{
  uint32_t pid, tid;

  if (!take_u32_pair (cursor, &pid, &tid))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  record->comm.name = take_text (cursor);
  if (record->comm.name == NULL)
    return SONDE_PERF_RECORD_FAULT_TERMINATION;
  record->pid = (int32_t) pid;
  record->tid = (int32_t) tid;
  record->comm.exec = (header->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;

  return SONDE_PERF_RECORD_OK;
}

static SondePerfRecordFault
decode_task (RecordCursor *cursor, SondePerfRecord *record)
{
  uint32_t pid, ppid, tid, ptid;
  uint64_t time_ns;

  if (!take_u32_pair (cursor, &pid, &ppid) || !take_u32_pair (cursor, &tid, &ptid)
      || !take_u64 (cursor, &time_ns))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  record->pid = (int32_t) pid;
  record->tid = (int32_t) tid;
  record->time_ns = (int64_t) time_ns;
  record->task.parent_pid = (int32_t) ppid;
  record->task.parent_tid = (int32_t) ptid;

  return SONDE_PERF_RECORD_OK;
}

static SondePerfRecordFault
decode_lost (bool with_id, RecordCursor *cursor, SondePerfRecord *record)
{
  uint64_t id;

  if (with_id && !take_u64 (cursor, &id))
    return SONDE_PERF_RECORD_FAULT_SHORT;

  return take_u64 (cursor, &record->n_lost) ? SONDE_PERF_RECORD_OK : SONDE_PERF_RECORD_FAULT_SHORT;
}

#ifndef PERF_RECORD_MISC_SWITCH_OUT_PREEMPT
#define PERF_RECORD_MISC_SWITCH_OUT_PREEMPT (1 << 14)
#endif

/* The thread is the trailer's. */
static SondePerfRecordFault
decode_switch (const struct perf_event_header *header,
               RecordCursor *cursor,
               SondePerfRecord *record)
{
  uint32_t other_pid, other_tid;
  bool is_of_cpu = header->type == PERF_RECORD_SWITCH_CPU_WIDE;

  if (is_of_cpu && !take_u32_pair (cursor, &other_pid, &other_tid))
    return SONDE_PERF_RECORD_FAULT_SHORT;
  record->type = SONDE_PERF_RECORD_SWITCH;
  record->switched.is_of_cpu = is_of_cpu;
  record->switched.is_out = (header->misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
  record->switched.is_preempted
      = record->switched.is_out && (header->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
  return SONDE_PERF_RECORD_OK;
}

static SondePerfRecordFault
decode_body (const SondePerfDecoder *self,
             const struct perf_event_header *header,
             RecordCursor *cursor,
             SondePerfRecord *record)
{
  switch (header->type)
    {
    case PERF_RECORD_SAMPLE:
      if (is_walk (self, header))
        {
          record->type = SONDE_PERF_RECORD_WALK;
          return decode_walk (cursor, record);
        }
      record->sample.mode = mode_of (header);
      record->type = is_probe (self, header) ? SONDE_PERF_RECORD_PROBE : SONDE_PERF_RECORD_SAMPLE;
      return decode_sample (record->type == SONDE_PERF_RECORD_PROBE ? &of_probes : self, cursor,
                            record);
    case CALLCHAIN_DEFERRED:
      record->type = SONDE_PERF_RECORD_CHAIN;
      return decode_chain (cursor, record);
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
      record->type = SONDE_PERF_RECORD_MAP;
      return decode_map (header, cursor, record);
    case PERF_RECORD_COMM:
      record->type = SONDE_PERF_RECORD_COMM;
      return decode_comm (header, cursor, record);
    case PERF_RECORD_FORK:
      record->type = SONDE_PERF_RECORD_FORK;
      return decode_task (cursor, record);
    case PERF_RECORD_EXIT:
      record->type = SONDE_PERF_RECORD_EXIT;
      return decode_task (cursor, record);
    case PERF_RECORD_LOST:
      record->type = SONDE_PERF_RECORD_LOST;
      return decode_lost (true, cursor, record);
    case PERF_RECORD_LOST_SAMPLES:
      record->type = SONDE_PERF_RECORD_LOST_SAMPLES;
      return decode_lost (false, cursor, record);
    case PERF_RECORD_THROTTLE:
      record->type = SONDE_PERF_RECORD_THROTTLE;
      return SONDE_PERF_RECORD_OK;
    case PERF_RECORD_UNTHROTTLE:
      record->type = SONDE_PERF_RECORD_UNTHROTTLE;
      return SONDE_PERF_RECORD_OK;
    case PERF_RECORD_SWITCH:
    case PERF_RECORD_SWITCH_CPU_WIDE:
      return decode_switch (header, cursor, record);
    default:
      record->type = SONDE_PERF_RECORD_OTHER;
      return SONDE_PERF_RECORD_OK;
    }
}

SondePerfRecordFault
sonde_perf_decoder_decode (const SondePerfDecoder *self,
                           const struct perf_event_header *header,
                           SondePerfRecord *record)
{
  SondePerfRecord decoded = { .cpu = -1, .pid = -1, .tid = -1 };
  RecordCursor cursor = { (const uint8_t *) (header + 1), 0 };
  SondePerfRecordFault fault;

  if (header->size < sizeof *header)
    return SONDE_PERF_RECORD_FAULT_SHORT;
  cursor.left = header->size - sizeof *header;
  if (header->type != PERF_RECORD_SAMPLE && !take_trailer (self, &cursor, &decoded))
    return SONDE_PERF_RECORD_FAULT_SHORT;

  fault = decode_body (self, header, &cursor, &decoded);
  if (fault == SONDE_PERF_RECORD_OK)
    *record = decoded;

  return fault;
}

int64_t
sonde_perf_decoder_time (const SondePerfDecoder *self, const struct perf_event_header *header)
{
  uint64_t type = is_probe (self, header) ? of_probes.sample_type : self->sample_type;
  size_t size_bytes = header->size;
  size_t at = sizeof *header;
  int64_t time_ns;

  if ((type & PERF_SAMPLE_TIME) == 0 || is_walk (self, header))
    return 0;
  if (header->type == PERF_RECORD_SAMPLE)
    at += sizeof (uint64_t)
          * (size_t) __builtin_popcountll (
              type & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID));
  else if (size_bytes >= at + trailer_size (type))
    at = size_bytes - trailer_size (type) + ((type & PERF_SAMPLE_TID) ? sizeof (uint64_t) : 0);
  else
    return 0;
  if (at > size_bytes || size_bytes - at < sizeof time_ns)
    return 0;
  memcpy (&time_ns, (const uint8_t *) header + at, sizeof time_ns);

  return time_ns;
}
