/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/heap-log-reader.h"

#include <string.h>
#include <zstd.h>

#include "client/base/id-map.h"
#include "protocol/number-column.h"

#define KIND_MASK   ((1u << SONDE_HEAP_LOG_KIND_BITS) - 1)
#define MAX_DEPTH   1024
#define MAX_TICK_NS 1000000000u
#define MAX_BLOCKS  (UINT64_C (1) << 56) /* whose addresses are apart from a program's */

/* What stacks that are made may have in all; then they are forgotten. */
#define MAX_STACK_WORDS (8u << 20)
#define STACK_WORDS     (sizeof (SondeHeapLogStack) / sizeof (guint64))

typedef struct
{
  guint32 caller; /* 0: nobody */
  guint32 pc;
} LogNode;

typedef struct
{
  guint64 size_bytes;
  SondeHeapLogStack *stack; /* that came last, of process @pid; NULL: none yet */
  gint32 pid;
  guint32 node;
} LogSize;

typedef struct
{
  gint32 pid;
  gint32 tid;
} LogThread;

struct SondeHeapLogReader
{
  SondeHeapLogReaderFunc func;
  gpointer user_data;
  SondeHeapLogCounts counts;

  SondeHeapLabel label; /* of the segment that comes */
  GByteArray *packed;   /* of it, so far */
  gboolean is_open;     /* more of it is to come */
  guint64 at_bytes;     /* where it begins in the log */
  guint64 n_bytes;      /* of the log, so far */
  guint8 *plain;        /* room for the largest; NULL: none came yet */

  gboolean is_synced; /* all of the epoch was read */
  guint32 epoch;
  guint32 next; /* segment of it */
  GArray *pcs;  /* guint64 */
  GArray *nodes;
  GArray *sizes;
  GArray *threads;
  guint64 n_blocks;

  GPtrArray *stacks;     /* SondeHeapLogStack: of the epoch */
  SondeIdMap *stack_ids; /* process, node → index in stacks */
  gsize n_stack_words;   /* that they take */
  guint64 n_stacks;      /* ever */
  guint64 n_made;        /* frames of these */
  guint64 n_may_be_made;
  SondeFrameAllocation event;
};

void
sonde_heap_log_stack_unref (SondeHeapLogStack *self)
{
  if (self != NULL && --self->n_references == 0)
    g_free (self);
}

SondeHeapLogReader *
sonde_heap_log_reader_new (SondeHeapLogReaderFunc func, gpointer user_data)
{
  SondeHeapLogReader *self = g_new0 (SondeHeapLogReader, 1);

  self->func = func;
  self->user_data = user_data;
  self->packed = g_byte_array_new ();
  self->pcs = g_array_new (FALSE, FALSE, sizeof (guint64));
  self->nodes = g_array_new (FALSE, FALSE, sizeof (LogNode));
  self->sizes = g_array_new (FALSE, FALSE, sizeof (LogSize));
  self->threads = g_array_new (FALSE, FALSE, sizeof (LogThread));
  self->stacks = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_heap_log_stack_unref);
  self->stack_ids = sonde_id_map_new ();
  self->n_may_be_made = SONDE_HEAP_LOG_FREE_MADE;
  return self;
}

void
sonde_heap_log_reader_free (SondeHeapLogReader *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->packed);
  g_free (self->plain);
  g_array_unref (self->pcs);
  g_array_unref (self->nodes);
  g_array_unref (self->sizes);
  g_array_unref (self->threads);
  g_ptr_array_unref (self->stacks);
  sonde_id_map_free (self->stack_ids);
  g_free (self);
}

const SondeHeapLogCounts *
sonde_heap_log_reader_counts (const SondeHeapLogReader *self)
{
  return &self->counts;
}

/* The rest of the segment, which begins at @at_bytes, and what builds on it. */
static void
give_up (SondeHeapLogReader *self, guint64 at_bytes, guint64 n_left, const char *fault)
{
  self->counts.n_unreadable += n_left;
  if (self->counts.fault == NULL)
    {
      self->counts.fault = fault;
      self->counts.fault_at_bytes = at_bytes;
    }
  self->is_synced = FALSE;
}

/* --- definitions --- */

static gboolean
read_pcs (SondeHeapLogReader *self, SondeNumberColumn *column)
{
  guint64 last = 0;
  guint64 number;

  while (!sonde_number_column_is_over (column))
    {
      if (!sonde_number_get (column, &number) || self->pcs->len >= SONDE_HEAP_LOG_MAX_NODES)
        return FALSE;
      last += sonde_number_unfold (number);
      g_array_append_val (self->pcs, last);
    }
  return TRUE;
}

static gboolean
read_nodes (SondeHeapLogReader *self, SondeNumberColumn *column)
{
  guint64 distance, pc;

  while (!sonde_number_column_is_over (column))
    {
      LogNode node;

      if (!sonde_number_get (column, &distance) || !sonde_number_get (column, &pc)
          || distance > self->nodes->len || pc >= self->pcs->len
          || self->nodes->len >= SONDE_HEAP_LOG_MAX_NODES)
        return FALSE;
      node = (LogNode){ self->nodes->len - (guint32) distance, (guint32) pc };
      g_array_append_val (self->nodes, node);
    }
  return TRUE;
}

static gboolean
read_sizes (SondeHeapLogReader *self, SondeNumberColumn *column)
{
  guint64 node = 0;
  guint64 distance, size_bytes;

  while (!sonde_number_column_is_over (column))
    {
      LogSize size;

      if (!sonde_number_get (column, &distance) || !sonde_number_get (column, &size_bytes))
        return FALSE;
      node += sonde_number_unfold (distance);
      if (node > self->nodes->len || size_bytes == 0 || size_bytes > G_MAXINT64
          || self->sizes->len >= SONDE_HEAP_LOG_MAX_SIZES)
        return FALSE;
      size = (LogSize){ .size_bytes = size_bytes, .node = (guint32) node };
      g_array_append_val (self->sizes, size);
    }
  return TRUE;
}

static gboolean
read_threads (SondeHeapLogReader *self, SondeNumberColumn *column)
{
  guint64 pid, tid;

  while (!sonde_number_column_is_over (column))
    {
      LogThread thread;

      if (!sonde_number_get (column, &pid) || !sonde_number_get (column, &tid) || pid > G_MAXINT32
          || tid > G_MAXUINT32 || self->threads->len >= SONDE_HEAP_LOG_MAX_THREADS)
        return FALSE;
      thread = (LogThread){ (gint32) pid, (gint32) (guint32) tid };
      g_array_append_val (self->threads, thread);
    }
  return TRUE;
}

/* --- events --- */

static void
forget_stacks (SondeHeapLogReader *self)
{
  for (guint i = 0; i < self->sizes->len; i++)
    g_array_index (self->sizes, LogSize, i).stack = NULL;
  g_ptr_array_set_size (self->stacks, 0);
  sonde_id_map_free (self->stack_ids);
  self->stack_ids = sonde_id_map_new ();
  self->n_stack_words = 0;
}

/* NULL: that would be more than a log may want. */
static SondeHeapLogStack *
make_stack (SondeHeapLogReader *self, guint32 node)
{
  guint64 addrs[MAX_DEPTH];
  SondeHeapLogStack *stack;
  guint n = 0;

  for (; node != 0 && n < MAX_DEPTH; n++)
    {
      const LogNode *at = &g_array_index (self->nodes, LogNode, node - 1);

      addrs[n] = g_array_index (self->pcs, guint64, at->pc);
      node = at->caller;
    }
  if (n > self->n_may_be_made - self->n_made)
    return NULL;
  self->n_made += n;
  stack = g_malloc (sizeof *stack + n * sizeof *addrs);
  *stack = (SondeHeapLogStack){ .n_references = 1, .n_addrs = n, .number = ++self->n_stacks };
  memcpy (stack->addrs, addrs, n * sizeof *addrs);
  return stack;
}

/* Of who allocates. NULL: as make_stack() */
static SondeHeapLogStack *
ensure_stack (SondeHeapLogReader *self, gint32 pid, LogSize *size)
{
  guint64 key = (guint64) (guint32) pid << 32 | size->node;
  SondeHeapLogStack *stack;
  guint32 index;

  if (size->stack != NULL && size->pid == pid)
    return size->stack;
  if (sonde_id_map_lookup (self->stack_ids, key, &index))
    stack = g_ptr_array_index (self->stacks, index);
  else
    {
      if (self->n_stack_words >= MAX_STACK_WORDS)
        forget_stacks (self);
      stack = make_stack (self, size->node);
      if (stack == NULL)
        return NULL;
      self->n_stack_words += STACK_WORDS + stack->n_addrs;
      sonde_id_map_set (self->stack_ids, key, self->stacks->len);
      g_ptr_array_add (self->stacks, stack);
    }
  size->stack = stack;
  size->pid = pid;
  return stack;
}

/* @size: NULL: it is a free. FALSE: its stack is too much. */
static gboolean
tell (SondeHeapLogReader *self, const LogThread *thread, guint64 address, LogSize *size)
{
  SondeFrameAllocation *event = &self->event;
  SondeHeapLogStack *stack = NULL;

  if (size != NULL && self->func != NULL)
    {
      stack = ensure_stack (self, thread->pid, size);
      if (stack == NULL)
        return FALSE;
    }
  self->counts.n_told++;
  if (self->func == NULL)
    return TRUE;
  event->frame.pid = thread->pid;
  event->tid = thread->tid;
  event->address = address;
  event->size_bytes = size != NULL ? (gint64) size->size_bytes : 0;
  self->func (event, stack, self->user_data);
  if (stack != NULL)
    stack->n_told++;
  return TRUE;
}

/* When the next step of time is. */
typedef struct
{
  SondeNumberColumn column;
  gint64 time_ns; /* now */
  guint64 tick_ns;
  guint64 n_before; /* events, before it */
  guint64 ticks;
  gboolean is_there;
} Clock;

static gboolean
read_step (Clock *clock)
{
  clock->is_there = !sonde_number_column_is_over (&clock->column);
  return !clock->is_there
         || (sonde_number_get (&clock->column, &clock->n_before)
             && sonde_number_get (&clock->column, &clock->ticks));
}

/* Before each event. */
static gboolean
advance (Clock *clock)
{
  gint64 step_ns;

  while (clock->is_there && clock->n_before == 0)
    {
      if (__builtin_mul_overflow ((gint64) sonde_number_unfold (clock->ticks),
                                  (gint64) clock->tick_ns, &step_ns)
          || __builtin_add_overflow (clock->time_ns, step_ns, &clock->time_ns)
          || !read_step (clock))
        return FALSE;
    }
  clock->n_before -= clock->is_there;
  return TRUE;
}

/* Returns: NULL, or what is wrong */
static const char *
read_events (SondeHeapLogReader *self, SondeNumberColumn *column, Clock *clock)
{
  const guint64 n_promised = self->counts.n_told + self->label.n_events;
  const LogThread *thread = NULL;
  guint64 last = self->n_blocks;
  guint64 replaced = 0;
  guint64 number;

  if (!read_step (clock))
    return "its times are wrong";
  while (!sonde_number_column_is_over (column))
    {
      guint64 operand, kind, other;

      if (!sonde_number_get (column, &number))
        return "a number is wrong";
      kind = number & KIND_MASK;
      operand = number >> SONDE_HEAP_LOG_KIND_BITS;
      other = operand & KIND_MASK;
      if (kind == SONDE_HEAP_LOG_OTHER)
        operand >>= SONDE_HEAP_LOG_KIND_BITS;
      if (kind == SONDE_HEAP_LOG_OTHER && other == SONDE_HEAP_LOG_THREAD)
        {
          if (operand >= self->threads->len)
            return "a thread is not defined";
          thread = &g_array_index (self->threads, LogThread, operand);
          continue;
        }
      if (kind == SONDE_HEAP_LOG_OTHER && other == SONDE_HEAP_LOG_REPLACE)
        {
          if (operand == 0 || operand > self->n_blocks)
            return "a block is not there";
          replaced = operand;
          continue;
        }
      if (thread == NULL)
        return "an event has no thread";
      if (self->counts.n_told == n_promised)
        return "it has more events than it says";
      if (!advance (clock))
        return "its times are wrong";
      self->event.frame.time_ns = clock->time_ns;
      if (kind == SONDE_HEAP_LOG_OTHER)
        {
          if (other != SONDE_HEAP_LOG_UNKNOWN)
            return "there is no such event";
          tell (self, thread, operand, NULL);
        }
      else if (kind == SONDE_HEAP_LOG_NEAR)
        {
          last += sonde_number_unfold (operand);
          if (last == 0 || last > self->n_blocks)
            return "a block is not there";
          tell (self, thread, SONDE_HEAP_LOG_ADDRESS (last), NULL);
        }
      else if (kind == SONDE_HEAP_LOG_FREE)
        {
          if (operand == 0 || operand > self->n_blocks)
            return "a block is not there";
          tell (self, thread, SONDE_HEAP_LOG_ADDRESS (self->n_blocks - operand + 1), NULL);
        }
      else
        {
          if (operand >= self->sizes->len)
            return "a size is not defined";
          if (replaced == 0 && self->n_blocks == MAX_BLOCKS)
            return "it has too many blocks";
          number = replaced != 0 ? self->n_blocks - replaced + 1 : ++self->n_blocks;
          replaced = 0;
          if (!tell (self, thread, SONDE_HEAP_LOG_ADDRESS (number),
                     &g_array_index (self->sizes, LogSize, operand)))
            return "its stacks are more than it has bytes for";
        }
    }
  return self->counts.n_told == n_promised ? NULL : "it has fewer events than it says";
}

/* --- segments --- */

/* Returns: NULL, or what is wrong */
static const char *
read_segment (SondeHeapLogReader *self, const guint8 *bytes, gsize size_bytes)
{
  SondeNumberColumn columns[SONDE_HEAP_N_COLUMNS];
  SondeHeapSegment header;
  const guint8 *at = bytes + sizeof header;
  gsize left = size_bytes - sizeof header;
  Clock clock = { 0 };

  if (size_bytes < sizeof header)
    return "it is too short";
  memcpy (&header, bytes, sizeof header);
  if (GUINT32_FROM_LE (header.version) != SONDE_HEAP_LOG_VERSION)
    return "it has another version";
  clock.tick_ns = GUINT32_FROM_LE (header.tick_ns);
  if (clock.tick_ns > MAX_TICK_NS || GUINT64_FROM_LE (header.n_before) > MAX_BLOCKS)
    return "its header is wrong";
  for (guint i = 0; i < SONDE_HEAP_N_COLUMNS; i++)
    {
      guint32 column_bytes = GUINT32_FROM_LE (header.column_bytes[i]);

      if (column_bytes > left)
        return "a column reaches past its end";
      columns[i] = (SondeNumberColumn){ at, at + column_bytes };
      at += column_bytes;
      left -= column_bytes;
    }
  if (left > 0)
    return "something is behind its columns";

  if (header.sequence == 0)
    {
      forget_stacks (self);
      g_array_set_size (self->pcs, 0);
      g_array_set_size (self->nodes, 0);
      g_array_set_size (self->sizes, 0);
      g_array_set_size (self->threads, 0);
      self->epoch = GUINT32_FROM_LE (header.epoch);
      self->next = 0;
      self->is_synced = TRUE;
    }
  if (!self->is_synced || GUINT32_FROM_LE (header.epoch) != self->epoch
      || GUINT32_FROM_LE (header.sequence) != self->next)
    return "one before it is missing";
  self->next++;
  if (!read_pcs (self, &columns[SONDE_HEAP_COLUMN_PCS])
      || !read_nodes (self, &columns[SONDE_HEAP_COLUMN_NODES])
      || !read_sizes (self, &columns[SONDE_HEAP_COLUMN_SIZES])
      || !read_threads (self, &columns[SONDE_HEAP_COLUMN_THREADS]))
    return "a definition is wrong";

  self->n_blocks = GUINT64_FROM_LE (header.n_before);
  self->event = (SondeFrameAllocation){
    .frame = { .len = sizeof self->event, .type = SONDE_FRAME_ALLOCATION, .cpu = -1 }
  };
  clock.time_ns = GINT64_FROM_LE (header.time_ns);
  clock.column = columns[SONDE_HEAP_COLUMN_TIMES];
  return read_events (self, &columns[SONDE_HEAP_COLUMN_EVENTS], &clock);
}

static void
unpack (SondeHeapLogReader *self)
{
  const guint64 n_before = self->counts.n_told;
  unsigned long long plain_bytes = ZSTD_getFrameContentSize (self->packed->data, self->packed->len);
  guint64 log_bytes = sizeof self->label + self->packed->len;
  const char *fault = "it cannot be unpacked";

  self->n_may_be_made += log_bytes * SONDE_HEAP_LOG_MAX_MADE;
  if (self->label.n_events > log_bytes * SONDE_HEAP_LOG_MAX_DENSITY)
    fault = "it says more events than it has bytes for";
  /* An error is more than the largest. */
  else if (plain_bytes <= SONDE_HEAP_LOG_MAX_BYTES)
    {
      if (self->plain == NULL)
        self->plain = g_malloc (SONDE_HEAP_LOG_MAX_BYTES);
      if (ZSTD_decompress (self->plain, plain_bytes, self->packed->data, self->packed->len)
          == plain_bytes)
        fault = read_segment (self, self->plain, plain_bytes);
    }
  self->counts.n_segments++;
  if (fault != NULL)
    give_up (self, self->at_bytes, self->label.n_events - (self->counts.n_told - n_before), fault);
  g_byte_array_set_size (self->packed, 0);
  self->is_open = FALSE;
}

/* FALSE: none begins there. */
static gboolean
begin_segment (SondeHeapLogReader *self, const guint8 *bytes, gsize size_bytes)
{
  SondeHeapLabel label;

  if (size_bytes < sizeof label)
    return FALSE;
  memcpy (&label, bytes, sizeof label);
  label.n_events = GUINT32_FROM_LE (label.n_events);
  label.packed_bytes = GUINT32_FROM_LE (label.packed_bytes);
  if (GUINT32_FROM_LE (label.magic) != SONDE_HEAP_LABEL_MAGIC
      || GUINT32_FROM_LE (label.size_bytes) != sizeof label - 8
      || label.n_events > SONDE_HEAP_LOG_MAX_EVENTS
      || label.packed_bytes > SONDE_HEAP_LOG_MAX_PACKED)
    return FALSE;
  if (self->is_open)
    give_up (self, self->at_bytes, self->label.n_events, "a part of it is missing");
  g_byte_array_set_size (self->packed, 0);
  self->counts.n_events += label.n_events;
  self->label = label;
  self->at_bytes = self->n_bytes;
  self->is_open = TRUE;
  return TRUE;
}

void
sonde_heap_log_reader_add (SondeHeapLogReader *self, const SondeFrame *frame)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;
  const guint8 *bytes = chunk->data;
  guint64 at_bytes = self->n_bytes;
  gsize size_bytes;

  if (!sonde_heap_log_is_chunk (frame))
    return;
  size_bytes = chunk->data_len;
  if (begin_segment (self, bytes, size_bytes))
    {
      bytes += sizeof self->label;
      size_bytes -= sizeof self->label;
    }
  self->n_bytes += chunk->data_len;
  if (!self->is_open)
    {
      /* what it goes on with is missing, which was counted if its beginning came; of what is no
       * label nobody knows how many events it has */
      give_up (self, at_bytes, 0, "its beginning is missing");
      return;
    }
  if (size_bytes > self->label.packed_bytes - self->packed->len)
    {
      give_up (self, self->at_bytes, self->label.n_events, "it is longer than it says");
      self->is_open = FALSE;
      return;
    }
  g_byte_array_append (self->packed, bytes, (guint) size_bytes);
  if (self->packed->len == self->label.packed_bytes)
    unpack (self);
}
