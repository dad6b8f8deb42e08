/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/perf/rings.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

#define ASSUMED_FREQUENCY_HZ  4000 /* of events with a period */
#define SAMPLE_OVERHEAD_BYTES 1024 /* registers, call chain and header */
#define RINGS_A_SECOND        4    /* 0.25 s in a ring */
#define MAX_READ_VALUES       5    /* of an event: value, two times, id, lost */
#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4) /* Linux 6.0 */
#endif

typedef struct
{
  SondeRings *rings;
  SondePerfRing *ring; /* NULL: to be mapped with the last message of several */
  int fd;              /* of the event that owns it; -1: somebody else's memory */
  unsigned kind;
  guint source;    /* 0: its task is gone, or nobody watches it */
  gboolean queued; /* its front record is in the heap */
  const struct perf_event_header *front;
  int64_t time_ns;   /* of the front */
  uint64_t foreseen; /* the end of what was looked at */
} CpuRing;

typedef struct
{
  int fd;
  int whole_cpu; /* -1: of a task */
  unsigned kind; /* SondeEventKind */
  gboolean waits_for_exec;
  guint64 n_lost; /* as last read */
} Event;

struct SondeRings
{
  SondeRingsHandler handler;
  gpointer user_data;
  size_t sample_bytes; /* of each ring, wanted at first */
  size_t sideband_bytes;
  size_t switches_bytes;
  GPtrArray *rings; /* Ring */
  guint n_mapped;   /* of them; the rest came in messages that others follow */
  CpuRing **heap;   /* room for all mapped rings; the oldest front at 0 */
  guint n_heap;
  int64_t last_ns; /* of the youngest record handed on */
  guint64 n_late;
  guint64 n_handed_on;

  guint64 read_format;  /* of the sampling events */
  GArray *events;       /* Event */
  gboolean is_off;      /* sonde_rings_enable() with FALSE */
  gboolean has_waiting; /* events that wait for an exec, and none was seen */
  guint next_event;     /* to be read */
  guint64 n_lost;
  guint64 n_walks_lost;
  guint64 n_probes_lost;
  guint64 n_switches_lost;

  gboolean has_late;   /* events: only then tasks may be told of twice */
  GHashTable *origins; /* uint64_t id, in boxes → the task that the event was opened on */
  GHashTable *tasks;   /* task → the origin that is believed */
};

static void
ring_free (gpointer data)
{
  CpuRing *ring = data;

  g_clear_handle_id (&ring->source, g_source_remove);
  sonde_perf_ring_close (ring->ring);
  sonde_clear_fd (&ring->fd);
  g_free (ring);
}

static void
event_clear (gpointer data)
{
  Event *event = data;

  sonde_clear_fd (&event->fd);
}

size_t
sonde_rings_wanted (const SondeMessageSetup *setup)
{
  const SondeAsked *asked = &setup->asked;
  guint64 frequency_hz = asked->frequency_hz != 0 ? asked->frequency_hz : ASSUMED_FREQUENCY_HZ;
  gboolean has_stacks = (setup->flags & SONDE_SPEC_USER_STACK) != 0
                        || asked->memory == SONDE_MEMORY_SAMPLED; /* of hits of probes */
  guint64 stack_bytes = has_stacks ? asked->stack_size_bytes : 0;
  guint64 wanted
      = MIN (frequency_hz, 1000000) * (stack_bytes + SAMPLE_OVERHEAD_BYTES) / RINGS_A_SECOND;
  size_t size_bytes = SONDE_RINGS_MIN_SAMPLE_BYTES;

  /* Nobody knows how often a tracepoint will be hit. */
  if (asked->frequency_hz == 0 && asked->period < SONDE_LIMIT_PERIOD_MIN)
    return SONDE_RINGS_MAX_SAMPLE_BYTES;
  while (size_bytes < wanted && size_bytes < SONDE_RINGS_MAX_SAMPLE_BYTES)
    size_bytes *= 2;

  return size_bytes;
}

SondeRings *
sonde_rings_new (const SondeMessageSetup *setup,
                 const SondeRingsHandler *handler,
                 gpointer user_data)
{
  size_t page_bytes = (size_t) sysconf (_SC_PAGESIZE);
  SondeRings *self = g_new0 (SondeRings, 1);

  self->handler = *handler;
  self->user_data = user_data;
  self->sample_bytes = MAX (sonde_rings_wanted (setup), page_bytes);
  self->sideband_bytes = MAX (SONDE_RINGS_SIDEBAND_BYTES, page_bytes);
  self->switches_bytes = MAX (SONDE_RINGS_SWITCHES_BYTES, page_bytes);
  self->rings = g_ptr_array_new_with_free_func (ring_free);
  self->read_format = setup->read_format;
  self->events = g_array_new (FALSE, FALSE, sizeof (Event));
  g_array_set_clear_func (self->events, event_clear);
  self->origins = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  self->tasks = g_hash_table_new (NULL, NULL);

  return self;
}

void
sonde_rings_free (SondeRings *self)
{
  if (self == NULL)
    return;

  g_ptr_array_unref (self->rings);
  g_free (self->heap);
  g_array_unref (self->events);
  g_hash_table_unref (self->origins);
  g_hash_table_unref (self->tasks);
  g_free (self);
}

/* --- rings that come --- */

static gboolean
on_filled (gint fd, GIOCondition condition, gpointer user_data)
{
  CpuRing *ring = user_data;

  ring->rings->handler.filled (ring->rings->user_data);
  if ((condition & (G_IO_HUP | G_IO_ERR | G_IO_NVAL)) == 0)
    return G_SOURCE_CONTINUE;

  /* Its task is gone: poll would say so for ever. The clock still makes us look at the ring. */
  ring->source = 0;

  return G_SOURCE_REMOVE;
}

static CpuRing *
append (SondeRings *self, int fd, unsigned kind)
{
  CpuRing *ring = g_new0 (CpuRing, 1);

  ring->rings = self;
  ring->fd = fd;
  ring->kind = kind;
  g_ptr_array_add (self->rings, ring);

  return ring;
}

/* Sizes by kind of ring. */
typedef size_t RingSizes[SONDE_EVENT_SWITCHES + 1];

/* Returns: 0, or a negative errno and none of the new rings is mapped */
static int
map_all (SondeRings *self, const RingSizes sizes)
{
  for (guint i = self->n_mapped; i < self->rings->len; i++)
    {
      CpuRing *ring = g_ptr_array_index (self->rings, i);
      int r = sonde_perf_ring_open (ring->fd, sizes[ring->kind], &ring->ring);

      if (r == 0)
        continue;
      while (i-- > self->n_mapped)
        {
          ring = g_ptr_array_index (self->rings, i);
          g_clear_pointer (&ring->ring, sonde_perf_ring_close);
        }
      return r;
    }

  return 0;
}

/* Maps the new rings, at ever smaller sizes. */
static int
map_new (SondeRings *self)
{
  static const RingSizes least = { [SONDE_EVENT_SAMPLES] = SONDE_RINGS_MIN_SAMPLE_BYTES,
                                   [SONDE_EVENT_SIDEBAND] = SONDE_RINGS_MIN_SIDEBAND_BYTES,
                                   [SONDE_EVENT_SWITCHES] = SONDE_RINGS_MIN_SWITCHES_BYTES };
  RingSizes sizes = { [SONDE_EVENT_SAMPLES] = self->sample_bytes,
                      [SONDE_EVENT_SIDEBAND] = self->sideband_bytes,
                      [SONDE_EVENT_SWITCHES] = self->switches_bytes };
  int r;

  while ((r = map_all (self, sizes)) != 0)
    {
      gboolean may_shrink = FALSE;

      for (guint kind = 0; kind < G_N_ELEMENTS (sizes); kind++)
        {
          may_shrink = may_shrink || sizes[kind] > least[kind];
          sizes[kind] = MAX (sizes[kind] / 2, least[kind]);
        }
      if ((r != -EPERM && r != -ENOMEM) || !may_shrink)
        {
          g_ptr_array_set_size (self->rings, (gint) self->n_mapped);
          return r;
        }
    }
  self->sample_bytes = sizes[SONDE_EVENT_SAMPLES];
  self->sideband_bytes = sizes[SONDE_EVENT_SIDEBAND];
  self->switches_bytes = sizes[SONDE_EVENT_SWITCHES];
  for (guint i = self->n_mapped; i < self->rings->len; i++)
    {
      CpuRing *ring = g_ptr_array_index (self->rings, i);
      g_autoptr (GSource) source = g_unix_fd_source_new (ring->fd, G_IO_IN | G_IO_HUP | G_IO_ERR);

      g_source_set_callback (source, G_SOURCE_FUNC (on_filled), ring, NULL);
      /* It does not. But GLib takes its descriptor out of the poll for each call otherwise, and
       * wakes itself up twice. */
      g_source_set_can_recurse (source, TRUE);
      ring->source = g_source_attach (source, NULL);
    }
  self->n_mapped = self->rings->len;
  self->heap = g_renew (CpuRing *, self->heap, self->n_mapped);

  return 0;
}

gboolean
sonde_rings_map (SondeRings *self,
                 const SondeMessageEvents *message,
                 int *fds,
                 SondeMessageRingsMapped *answer)
{
  for (guint i = 0; i < message->n_events; i++)
    append (self, sonde_steal_fd (&fds[i]), message->events[i].kind);
  if (self->rings->len > SONDE_MESSAGE_MAX_RINGS)
    {
      g_ptr_array_set_size (self->rings, (gint) self->n_mapped);
      answer->status = E2BIG;
      return TRUE;
    }
  if (message->n_more != 0)
    return FALSE;
  answer->status = -map_new (self);
  answer->n_rings = self->n_mapped;
  answer->sample_ring_bytes = self->sample_bytes;
  answer->sideband_ring_bytes = self->sideband_bytes;

  return TRUE;
}

void
sonde_rings_add (SondeRings *self, SondePerfRing *ring, unsigned kind)
{
  g_assert (self->n_mapped == self->rings->len);
  append (self, -1, kind)->ring = ring;
  self->n_mapped = self->rings->len;
  self->heap = g_renew (CpuRing *, self->heap, self->n_mapped);
}

void
sonde_rings_unwatch (SondeRings *self)
{
  for (guint i = 0; i < self->rings->len; i++)
    g_clear_handle_id (&((CpuRing *) g_ptr_array_index (self->rings, i))->source, g_source_remove);
}

guint64
sonde_rings_size (const SondeRings *self)
{
  guint64 size_bytes = 0;

  for (guint i = 0; i < self->n_mapped; i++)
    size_bytes
        += sonde_perf_ring_size (((const CpuRing *) g_ptr_array_index (self->rings, i))->ring);

  return size_bytes;
}

/* --- records in the order of time --- */

/* Looks at the ring's front. A damaged ring was emptied, so this ends after one more look. */
static gboolean
load_front (SondeRings *self, CpuRing *ring)
{
  int r = sonde_perf_ring_front (ring->ring, &ring->front);

  if (r == -EBADMSG)
    {
      self->handler.damaged (ring->kind, self->user_data);
      r = sonde_perf_ring_front (ring->ring, &ring->front);
    }
  ring->queued = r == 1;
  if (ring->queued)
    ring->time_ns = self->handler.time (ring->front, self->user_data);

  return ring->queued;
}

/* Returns whether some ring is more than half full. */
static gboolean
load_all (SondeRings *self)
{
  gboolean pressed = FALSE;

  for (guint i = 0; i < self->n_mapped; i++)
    {
      CpuRing *ring = g_ptr_array_index (self->rings, i);

      if (!ring->queued && load_front (self, ring))
        {
          guint at = self->n_heap++;

          for (; at > 0 && ring->time_ns < self->heap[(at - 1) / 2]->time_ns; at = (at - 1) / 2)
            self->heap[at] = self->heap[(at - 1) / 2];
          self->heap[at] = ring;
        }
      if (sonde_perf_ring_fill (ring->ring) > sonde_perf_ring_size (ring->ring) / 2)
        pressed = TRUE;
    }

  return pressed;
}

static void
pop_oldest (SondeRings *self)
{
  CpuRing *ring = self->heap[0];
  CpuRing *moved;
  guint at = 0;

  if (ring->time_ns >= self->last_ns)
    self->last_ns = ring->time_ns;
  else if (ring->time_ns != 0)
    self->n_late++;
  self->n_handed_on++;

  sonde_perf_ring_pop (ring->ring);
  if (!load_front (self, ring))
    self->heap[0] = self->heap[--self->n_heap];
  if (self->n_heap == 0)
    return;

  moved = self->heap[0];
  for (guint child = 1; child < self->n_heap; child = 2 * at + 1)
    {
      if (child + 1 < self->n_heap && self->heap[child + 1]->time_ns < self->heap[child]->time_ns)
        child++;
      if (moved->time_ns <= self->heap[child]->time_ns)
        break;
      self->heap[at] = self->heap[child];
      at = child;
    }
  self->heap[at] = moved;
}

void
sonde_rings_foresee (SondeRings *self, unsigned kind, guint budget)
{
  const struct perf_event_header *record;

  for (guint i = 0; i < self->n_mapped; i++)
    {
      CpuRing *ring = g_ptr_array_index (self->rings, i);

      while (ring->kind == kind && budget > 0
             && sonde_perf_ring_peek (ring->ring, &ring->foreseen, &record))
        {
          budget--;
          self->handler.foreseen (record, self->user_data);
        }
    }
}

SondeRingsState
sonde_rings_run (SondeRings *self, int64_t now_ns, gboolean draining, guint budget)
{
  gboolean pressed = load_all (self);

  while (self->n_heap > 0)
    {
      const CpuRing *oldest = self->heap[0];

      if (!draining && !pressed && oldest->time_ns > now_ns - SONDE_RINGS_WINDOW_NS)
        return SONDE_RINGS_YOUNG;
      if (budget-- == 0)
        return SONDE_RINGS_BUDGET;
      if (self->handler.record (oldest->front, oldest->kind, pressed, self->user_data)
          == SONDE_RINGS_WAIT)
        return SONDE_RINGS_WAITING;
      pop_oldest (self);
    }

  return SONDE_RINGS_EMPTY;
}

guint64
sonde_rings_n_late (const SondeRings *self)
{
  return self->n_late;
}

guint64
sonde_rings_n_handed_on (const SondeRings *self)
{
  return self->n_handed_on;
}

/* --- events --- */

void
sonde_rings_enable (SondeRings *self, gboolean enable)
{
  unsigned long request = enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

  /* Fails for nothing but a descriptor that is no event; its absence shows in the samples. */
  self->is_off = !enable;
  for (guint i = 0; i < self->events->len; i++)
    {
      const Event *event = &g_array_index (self->events, Event, i);

      if (!event->waits_for_exec || !enable)
        (void) ioctl (event->fd, request, 0);
    }
}

void
sonde_rings_exec_seen (SondeRings *self)
{
  if (!self->has_waiting)
    return;
  self->has_waiting = FALSE;
  for (guint i = 0; i < self->events->len; i++)
    g_array_index (self->events, Event, i).waits_for_exec = FALSE;
  if (self->is_off)
    sonde_rings_enable (self, FALSE);
}

gboolean
sonde_rings_counts_lost (const SondeRings *self)
{
  return (self->read_format & PERF_FORMAT_LOST) != 0
         && (self->read_format & PERF_FORMAT_GROUP) == 0;
}

static void
read_event (SondeRings *self, Event *event)
{
  const guint64 before
      = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID;
  gsize at = 1 + (gsize) __builtin_popcountll (self->read_format & before);
  guint64 values[MAX_READ_VALUES];
  gssize size_bytes = read (event->fd, values, sizeof values);

  if (size_bytes < (gssize) ((at + 1) * sizeof values[0]) || values[at] <= event->n_lost)
    return;
  if (event->kind == SONDE_EVENT_WALKS)
    self->n_walks_lost += values[at] - event->n_lost;
  else if (event->kind == SONDE_EVENT_PROBES)
    self->n_probes_lost += values[at] - event->n_lost;
  else if (event->kind == SONDE_EVENT_SWITCHES)
    self->n_switches_lost += values[at] - event->n_lost;
  else
    self->n_lost += values[at] - event->n_lost;
  event->n_lost = values[at];
}

gboolean
sonde_rings_add_event (SondeRings *self, const SondeMessageEvent *message, int fd)
{
  Event event = { .fd = fd,
                  .whole_cpu = message->tid < 0 ? message->cpu : -1,
                  .kind = message->kind,
                  .waits_for_exec = (message->flags & SONDE_EVENT_ON_EXEC) != 0 };
  Event *predecessor = NULL;

  for (guint i = 0; i < self->events->len && event.whole_cpu >= 0 && predecessor == NULL; i++)
    {
      Event *other = &g_array_index (self->events, Event, i);

      if (other->whole_cpu == event.whole_cpu && other->kind == event.kind)
        predecessor = other;
    }
  if (predecessor == NULL && self->events->len >= SONDE_RINGS_MAX_EVENTS)
    {
      sonde_clear_fd (&event.fd);
      return FALSE;
    }
  /* The broker enables what it opens, and may not know yet that all is off. */
  if (self->is_off)
    (void) ioctl (fd, PERF_EVENT_IOC_DISABLE, 0);
  self->has_waiting = self->has_waiting || event.waits_for_exec;
  if (predecessor == NULL)
    g_array_append_val (self->events, event);
  else
    {
      if (event.kind != SONDE_EVENT_SIDEBAND && sonde_rings_counts_lost (self))
        read_event (self, predecessor);
      event_clear (predecessor);
      *predecessor = event;
    }

  if (message->tid > 0)
    {
      g_hash_table_insert (self->origins, g_memdup2 (&message->id, sizeof message->id),
                           GINT_TO_POINTER (message->tid));
      self->has_late = self->has_late || (message->flags & SONDE_EVENT_LATE) != 0;
    }

  return TRUE;
}

guint64
sonde_rings_read_lost (SondeRings *self, guint budget)
{
  if (!sonde_rings_counts_lost (self))
    return 0;

  for (guint i = MIN (budget, self->events->len); i > 0; i--)
    {
      Event *event = &g_array_index (self->events, Event, self->next_event);

      self->next_event = (self->next_event + 1) % self->events->len;
      if (event->kind != SONDE_EVENT_SIDEBAND)
        read_event (self, event);
    }

  return self->n_lost;
}

guint64
sonde_rings_n_walks_lost (const SondeRings *self)
{
  return self->n_walks_lost;
}

guint64
sonde_rings_n_probes_lost (const SondeRings *self)
{
  return self->n_probes_lost;
}

guint64
sonde_rings_n_switches_lost (const SondeRings *self)
{
  return self->n_switches_lost;
}

gboolean
sonde_rings_is_duplicate (SondeRings *self, uint64_t id, int32_t tid)
{
  gpointer origin;
  gpointer believed;

  if (!self->has_late || tid <= 0)
    return FALSE;
  origin = g_hash_table_lookup (self->origins, &id);
  if (origin == NULL)
    return FALSE;
  believed = g_hash_table_lookup (self->tasks, GINT_TO_POINTER (tid));
  if (believed != NULL)
    return believed != origin;
  if (g_hash_table_size (self->tasks) >= SONDE_RINGS_MAX_TASKS)
    g_hash_table_remove_all (self->tasks);
  g_hash_table_insert (self->tasks, GINT_TO_POINTER (tid), origin);

  return FALSE;
}

void
sonde_rings_forget_task (SondeRings *self, int32_t tid)
{
  g_hash_table_remove (self->tasks, GINT_TO_POINTER (tid));
}
