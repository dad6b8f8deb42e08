/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/frame-adopter.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"

/* Behind the made-up addresses: the kernel's, and context markers. */
#define NAMES_END UINT64_C (0xF000000000000000)

struct SondeFrameAdopter
{
  SondeRecorder *recorder;
  SondeTally *tally;
  gint64 start_ns;
  union
  {
    SondeFrame frame;
    uint64_t align;
    uint8_t bytes[SONDE_FRAME_MAX_SIZE + SONDE_FRAME_ALIGN];
  } copy; /* of the frame in hand */
};

SondeFrameAdopter *
sonde_frame_adopter_new (SondeRecorder *recorder, SondeTally *tally, gint64 start_ns)
{
  SondeFrameAdopter *self = g_new0 (SondeFrameAdopter, 1);

  self->recorder = recorder;
  self->tally = tally;
  self->start_ns = start_ns;

  return self;
}

void
sonde_frame_adopter_free (SondeFrameAdopter *self)
{
  g_free (self);
}

/* Names and definitions are no events. */
void
sonde_frame_adopter_refuse (SondeFrameAdopter *self, const SondeFrame *frame)
{
  if (frame->type == SONDE_FRAME_SAMPLE)
    {
      sonde_tally_sample_read (self->tally);
      sonde_tally_add (self->tally, SONDE_LEDGER_LOST_RING, 1);
    }
  else if (sonde_ledger_is_event (frame))
    sonde_tally_event (self->tally, SONDE_LEDGER_EVENTS_REFUSED, 1);
}

/* --- one function a type: FALSE refuses it --- */

/* Returns how many are left of the @n_addrs at @addrs. @is_plain: (out): whether these need not be
 * looked at again */
static guint
adopt_stack (
    SondeInferior *inferior, uint64_t *addrs, guint n_addrs, gint64 time_ns, gboolean *is_plain)
{
  guint n_left = 0;

  *is_plain = TRUE;
  for (guint i = 0; i < n_addrs; i++)
    {
      uint64_t address = addrs[i];

      if (address >= SONDE_JIT_ADDRESS_BASE)
        *is_plain = FALSE;
      if (address >= NAMES_END)
        continue;
      if (address >= SONDE_JIT_ADDRESS_BASE)
        address = sonde_inferior_name (inferior, address, time_ns);
      else if (!sonde_inferior_note_address (inferior, address, n_left > 0))
        *is_plain = FALSE;
      addrs[n_left++] = address;
    }

  return n_left;
}

/* Returns whether it needs not be looked at again. */
static gboolean
adopt_allocation (SondeInferior *inferior, SondeFrameAllocation *allocation)
{
  uint64_t *addrs = (uint64_t *) (void *) (allocation + 1);
  gboolean is_plain;

  allocation->n_addrs = (uint16_t) adopt_stack (inferior, addrs, allocation->n_addrs,
                                                allocation->frame.time_ns, &is_plain);
  allocation->frame.len = (uint16_t) (sizeof *allocation + allocation->n_addrs * sizeof *addrs);
  return is_plain;
}

static uint64_t
stir (uint64_t lane, uint64_t address)
{
  lane = (lane ^ address) * UINT64_C (0x9E3779B97F4A7C15);
  return lane ^ lane >> 29;
}

/* Of the inferior's @n_addrs as they came. Four lanes, since each step waits for the one before. */
static uint64_t
hash_stack (const SondeInferior *inferior, const uint64_t *addrs, guint n_addrs)
{
  uint64_t a = inferior->stack_seed, b = n_addrs, c = 0, d = 0;
  guint i = 0;

  for (; n_addrs - i >= 4; i += 4)
    {
      a = stir (a, addrs[i]);
      b = stir (b, addrs[i + 1]);
      c = stir (c, addrs[i + 2]);
      d = stir (d, addrs[i + 3]);
    }
  for (; i < n_addrs; i++)
    a = stir (a, addrs[i]);
  return sonde_hash (sonde_hash (a, c), sonde_hash (b, d));
}

/* Names and addresses of a stack are looked at when it is met first. */
static uint32_t
find_node (SondeFrameAdopter *self,
           SondeInferior *inferior,
           const SondeFrameAllocation *allocation,
           gint64 time_ns)
{
  const uint64_t *addrs = (const uint64_t *) (const void *) (allocation + 1);
  SondeFrameAllocation *copy = (SondeFrameAllocation *) &self->copy.frame;
  SondeHeapBook *book = inferior->parts->book;
  uint64_t hash = hash_stack (inferior, addrs, allocation->n_addrs);
  uint32_t node;

  if (sonde_heap_book_find_stack (book, hash, &node))
    return node;
  memcpy (copy, allocation, allocation->frame.len);
  copy->frame.time_ns = time_ns;
  adopt_allocation (inferior, copy);
  addrs = (const uint64_t *) (const void *) (copy + 1);
  return sonde_heap_book_add_stack (book, hash, addrs, copy->n_addrs);
}

static void
tell_book (SondeInferior *inferior, const SondeHeapBookEvent *event)
{
  SondeHeapBook *book = inferior->parts->book;

  if (inferior->heap == NULL)
    inferior->heap = sonde_heap_book_add_process (book, inferior->pid);
  sonde_heap_book_add (book, inferior->heap, event);
}

static void
adopt_heap_event (SondeFrameAdopter *self,
                  SondeInferior *inferior,
                  const SondeFrameAllocation *allocation,
                  gint64 time_ns)
{
  SondeHeapBookEvent event = { .time_ns = time_ns,
                               .address = allocation->address,
                               .size_bytes = (uint64_t) MAX (allocation->size_bytes, 0),
                               .tid = allocation->tid };

  if (event.size_bytes > 0 && allocation->n_addrs > 0)
    event.node = find_node (self, inferior, allocation, time_ns);
  tell_book (inferior, &event);
}

/* A note is a node + 1, */
static void
tell_short (SondeFrameAdopter *self,
            SondeInferior *inferior,
            SondeRingReader *reader,
            const SondeShortEvent *taken,
            gint64 time_ns)
{
  SondeHeapBookEvent event = { .time_ns = time_ns,
                               .address = taken->address,
                               .size_bytes = taken->size_bytes,
                               .tid = taken->tid };
  const SondeHeapBook *book = inferior->parts->book;

  if (taken->stack > 0)
    {
      uint64_t seed = inferior->stack_seed + sonde_heap_book_seed (book);
      uint32_t *note = sonde_ring_reader_note (reader, seed);

      if (*note == 0)
        *note = find_node (self, inferior,
                           (const SondeFrameAllocation *) sonde_ring_reader_make_frame (reader),
                           time_ns)
                + 1;
      event.node = *note - 1;
    }
  tell_book (inferior, &event);
}

/* or, where each event is a frame, whether its stack needs not be looked at. */
static void
record_short (SondeFrameAdopter *self,
              SondeInferior *inferior,
              SondeRingReader *reader,
              const SondeShortEvent *taken,
              gint64 time_ns)
{
  SondeFrame *frame = sonde_ring_reader_make_frame (reader);

  frame->time_ns = time_ns;
  if (taken->stack > 0)
    {
      uint32_t *is_plain = sonde_ring_reader_note (reader, inferior->stack_seed);

      if (!*is_plain)
        *is_plain = adopt_allocation (inferior, (SondeFrameAllocation *) frame);
    }
  sonde_recorder_event (self->recorder, frame);
}

void
sonde_frame_adopter_adopt_short (SondeFrameAdopter *self,
                                 SondeInferior *inferior,
                                 SondeRingReader *reader,
                                 const SondeShortEvent *event,
                                 gint64 now_ns)
{
  gint64 time_ns = CLAMP (event->time_ns, self->start_ns, now_ns);

  if (inferior->parts->book != NULL)
    tell_short (self, inferior, reader, event, time_ns);
  else
    record_short (self, inferior, reader, event, time_ns);
}

static gboolean
adopt_sample (SondeFrameAdopter *self, SondeInferior *inferior)
{
  SondeFrameSample *sample = (SondeFrameSample *) &self->copy.frame;
  const guint max_addrs = (SONDE_FRAME_MAX_SIZE - sizeof *sample) / sizeof (uint64_t);
  const uint64_t marker = SONDE_CONTEXT_USER;
  uint8_t *addrs = self->copy.bytes + sizeof *sample;
  gboolean is_plain;
  guint n_addrs = adopt_stack (inferior, (uint64_t *) (void *) addrs, sample->n_addrs,
                               sample->frame.time_ns, &is_plain);

  n_addrs = MIN (n_addrs, max_addrs - 1);
  if (n_addrs == 0)
    return FALSE;
  memmove (addrs + sizeof marker, addrs, n_addrs * sizeof marker);
  memcpy (addrs, &marker, sizeof marker);
  sample->n_addrs = (uint16_t) (n_addrs + 1);
  sample->frame.len = (uint16_t) (sizeof *sample + (n_addrs + 1) * sizeof marker);

  return TRUE;
}

void
sonde_frame_adopter_adopt (SondeFrameAdopter *self,
                           SondeInferior *inferior,
                           const SondeFrame *frame,
                           gint64 now_ns)
{
  const SondeFrameCounterDefine *define = (const SondeFrameCounterDefine *) &self->copy.frame;
  SondeFrameAllocation *allocation = (SondeFrameAllocation *) &self->copy.frame;
  SondeFrameCounterSet *set = (SondeFrameCounterSet *) &self->copy.frame;
  const SondeFrameJitmap *jitmap = (const SondeFrameJitmap *) &self->copy.frame;
  SondeFrameLog *log = (SondeFrameLog *) &self->copy.frame;
  SondeFrameMark *mark = (SondeFrameMark *) &self->copy.frame;
  SondeFrame *own = &self->copy.frame;
  const char *name = (const char *) jitmap->data;
  SondeCounterDefinition definition;
  gboolean is_good = FALSE;
  uint64_t address;
  gint64 begin_ns, end_ns;

  if (frame->type == SONDE_FRAME_ALLOCATION && inferior->parts->book != NULL)
    {
      adopt_heap_event (self, inferior, (const SondeFrameAllocation *) frame,
                        CLAMP (frame->time_ns, self->start_ns, now_ns));
      return;
    }
  memcpy (self->copy.bytes, frame, frame->len);
  /* A mark ends where it said, or now. */
  begin_ns = CLAMP (own->time_ns, self->start_ns, now_ns);
  if (own->type == SONDE_FRAME_MARK)
    {
      if (__builtin_add_overflow (own->time_ns, MAX (mark->duration_ns, 0), &end_ns))
        end_ns = G_MAXINT64;
      mark->duration_ns = CLAMP (end_ns, begin_ns, now_ns) - begin_ns;
    }
  own->time_ns = begin_ns;

  switch ((SondeFrameType) frame->type)
    {
    case SONDE_FRAME_JITMAP:
      for (guint32 i = 0; i < jitmap->n_names; i++)
        {
          memcpy (&address, name, sizeof address);
          name += sizeof address;
          sonde_inferior_add_name (inferior, address, name, own->time_ns);
          name += strlen (name) + 1;
        }
      return;
    case SONDE_FRAME_CTRDEF:
      for (guint i = 0; i < define->n_counters; i++)
        {
          memcpy (&definition, &define->counters[i], sizeof definition);
          sonde_inferior_define_counter (inferior, &definition, define->frame.time_ns);
        }
      return;
    case SONDE_FRAME_SAMPLE:
      is_good = adopt_sample (self, inferior);
      break;
    case SONDE_FRAME_ALLOCATION:
      adopt_allocation (inferior, allocation);
      is_good = TRUE;
      break;
    case SONDE_FRAME_CTRSET:
      /* Values of counters that nobody defined are taken out. */
      for (guint i = 0; i < set->n_groups * SONDE_COUNTERS_PER_GROUP; i++)
        {
          SondeCounterGroup *group = &set->groups[i / SONDE_COUNTERS_PER_GROUP];
          guint32 id = group->ids[i % SONDE_COUNTERS_PER_GROUP];

          if (id != 0)
            id = sonde_inferior_counter (inferior, id);
          group->ids[i % SONDE_COUNTERS_PER_GROUP] = id;
          is_good = is_good || id != 0;
        }
      break;
    case SONDE_FRAME_LOG:
      /* What sonded says of the capture nobody else says. */
      if (strcmp (log->domain, "sonde") == 0)
        g_strlcpy (log->domain, "sonde (program)", sizeof log->domain);
      is_good = TRUE;
      break;
    case SONDE_FRAME_MARK:
      is_good = TRUE;
      break;
    case SONDE_FRAME_TIMESTAMP:
    case SONDE_FRAME_MAP:
    case SONDE_FRAME_PROCESS:
    case SONDE_FRAME_FORK:
    case SONDE_FRAME_EXIT:
    case SONDE_FRAME_METADATA:
    case SONDE_FRAME_FILE_CHUNK:
    case SONDE_FRAME_OVERLAY:
    case SONDE_FRAME_LAST:
    default:
      break;
    }

  if (is_good)
    sonde_recorder_event (self->recorder, &self->copy.frame);
  else
    sonde_frame_adopter_refuse (self, &self->copy.frame);
}
