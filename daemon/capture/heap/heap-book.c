/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/heap-book.h"

#include <string.h>

#include "base/time-order.h"
#include "daemon/capture/heap/live-blocks.h"
#include "daemon/capture/heap/number-table.h"

#define MAX_ANCESTORS 16    /* in which a freed block is looked for */
#define MAX_PARENTS   65536 /* children whose parent is known */

/* Nodes of stacks that nobody has any more are forgotten when there are so many, and this part of
 * the sums is gone since the last time: what somebody has stays, and all of it is told again. */
#define MANY_NODES (SONDE_HEAP_LOG_MAX_NODES / 4 * 3)
#define PART_GONE  8

/* Of what waits, in the place of a thread: at its time a process has forked the child whose number
 * is the address. */
#define FORKS G_MAXUINT32

/* How many events before its turn what one needs is fetched: a large heap that is freed in no order
 * is in no cache. A small one is, and looking ahead would cost more than it saves. */
#define PAGE_AHEAD  16
#define PLACE_AHEAD 8
#define MANY_PAGES  4096

struct SondeHeapBookProcess
{
  int32_t pid;
  uint32_t serial;
  gboolean is_used;
  SondeHeapBookProcess *older; /* of the same pid, whose end is not known yet */
  SondeLiveBlocks blocks;
  SondeHeapSumsOwner owner;
  SondeHeapSumsAmount inherited; /* of its parent's blocks, not freed yet */
};

typedef struct
{
  gint64 time_ns;
  uint64_t address;
  uint64_t size_bytes;
  guint32 thread;
  guint32 node;
  SondeHeapBookProcess *process;
} Waiting;

struct SondeHeapBook
{
  SondeStackTree *tree;
  SondeTable stacks;  /* hash → node */
  GArray *threads;    /* SondeHeapLogThread */
  GArray *owners;     /* of these: uint32_t, serial of the process */
  GArray *unused;     /* guint32: numbers of threads that are over */
  SondeTable numbers; /* of threads */
  uint64_t last_key;  /* of the thread told last */
  guint32 last_thread;

  GHashTable *processes; /* pid → the newest */
  guint n_left;          /* that are not used */
  GHashTable *parents;   /* pid → pid */
  uint32_t n_processes;
  SondeLiveBudget budget;
  guint64 n_not_followed;

  Waiting *waiting;
  Waiting *scratch; /* for as many */
  guint n_waiting;
  guint n_room;
  gint64 newest_ns;  /* that any has which waits, or more, if one does */
  gboolean is_mixed; /* their times are not in order */
  SondeHeapLog *log; /* NULL: there are sums */
  SondeHeapSums *sums;
  GArray *newest;         /* uint64_t: of each thread, the address of its newest block; of sums */
  GHashTable *inheriting; /* pid → SondeHeapSumsAmount, of children that told nothing yet */
  uint64_t n_forgets;     /* how often nodes became others */
  guint many_nodes;
  guint64 n_gone; /* sums, by the last time that they did */
};

static void
process_free (SondeHeapBook *self, SondeHeapBookProcess *process)
{
  self->n_left -= !process->is_used;
  sonde_live_blocks_clear (&process->blocks);
  g_free (process);
}

static SondeHeapBook *
new_book (void)
{
  SondeHeapBook *self = g_new0 (SondeHeapBook, 1);

  self->tree = sonde_stack_tree_new (SONDE_HEAP_LOG_MAX_NODES);
  self->stacks.seed = self->numbers.seed = sonde_hash_seed ();
  self->threads = g_array_new (FALSE, FALSE, sizeof (SondeHeapLogThread));
  self->owners = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  self->unused = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->processes = g_hash_table_new (NULL, NULL);
  self->parents = g_hash_table_new (NULL, NULL);
  self->budget.max_bytes = SONDE_HEAP_BOOK_LIVE_BYTES;
  self->newest = g_array_new (FALSE, TRUE, sizeof (uint64_t));
  self->inheriting = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->many_nodes = MANY_NODES;
  return self;
}

SondeHeapBook *
sonde_heap_book_new (guint tick_ns, SondeHeapLogFunc func, gpointer user_data)
{
  SondeHeapBook *self = new_book ();

  self->log = sonde_heap_log_new (self->tree, self->threads, tick_ns, func, user_data);
  return self;
}

SondeHeapBook *
sonde_heap_book_new_sums (guint64 interval_bytes, SondeHeapLogFunc func, gpointer user_data)
{
  SondeHeapBook *self = new_book ();

  self->sums = sonde_heap_sums_new (self->tree, interval_bytes, func, user_data);
  return self;
}

/* Processes are ended before, but for what a test leaves. */
void
sonde_heap_book_free (SondeHeapBook *self)
{
  GHashTableIter iter;
  gpointer process;

  if (self == NULL)
    return;
  g_hash_table_iter_init (&iter, self->processes);
  while (g_hash_table_iter_next (&iter, NULL, &process))
    for (SondeHeapBookProcess *at = process, *older; at != NULL; at = older)
      {
        older = at->older;
        process_free (self, at);
      }
  g_hash_table_unref (self->processes);
  g_hash_table_unref (self->parents);
  sonde_heap_log_free (self->log);
  sonde_heap_sums_free (self->sums);
  g_array_unref (self->newest);
  g_hash_table_unref (self->inheriting);
  sonde_stack_tree_free (self->tree);
  sonde_table_clear (&self->stacks);
  sonde_table_clear (&self->numbers);
  g_array_unref (self->threads);
  g_array_unref (self->owners);
  g_array_unref (self->unused);
  g_free (self->waiting);
  g_free (self->scratch);
  g_free (self);
}

/* --- stacks and threads --- */

uint64_t
sonde_heap_book_seed (const SondeHeapBook *self)
{
  return self->n_forgets;
}

gboolean
sonde_heap_book_find_stack (SondeHeapBook *self, uint64_t hash, uint32_t *node)
{
  const SondeNumberSlot *known = sonde_number_table_find (&self->stacks, hash);

  if (known == NULL)
    return FALSE;
  *node = (uint32_t) (known->number - 1);
  return TRUE;
}

uint32_t
sonde_heap_book_add_stack (SondeHeapBook *self, uint64_t hash, const uint64_t *addrs, guint n_addrs)
{
  uint32_t node = sonde_stack_tree_add (self->tree, addrs, n_addrs);
  SondeNumberSlot slot = { .key = hash, .number = (uint64_t) node + 1 };

  if (self->stacks.n_used >= SONDE_HEAP_BOOK_MAX_STACKS)
    sonde_table_clear (&self->stacks);
  if (sonde_number_table_find (&self->stacks, hash) == NULL)
    sonde_table_add (&sonde_number_slots, &self->stacks, &slot);
  return node;
}

static uint64_t *
newest_of (SondeHeapBook *self, guint32 thread)
{
  if (thread >= self->newest->len)
    g_array_set_size (self->newest, thread + 1);
  return &g_array_index (self->newest, uint64_t, thread);
}

static guint32
find_thread (SondeHeapBook *self, const SondeHeapBookProcess *process, int32_t tid)
{
  SondeNumberSlot slot = { .key = (uint64_t) process->serial << 32 | (uint32_t) tid };
  SondeHeapLogThread thread = { process->pid, tid };
  const SondeNumberSlot *known;
  guint32 number;

  known = sonde_number_table_find (&self->numbers, slot.key);
  if (known != NULL)
    number = (guint32) (known->number - 1);
  else if (self->numbers.n_used >= SONDE_HEAP_BOOK_MAX_THREADS && tid != process->pid)
    return find_thread (self, process, process->pid);
  else
    {
      if (self->unused->len > 0)
        {
          number = g_array_index (self->unused, guint32, self->unused->len - 1);
          g_array_set_size (self->unused, self->unused->len - 1);
          g_array_index (self->threads, SondeHeapLogThread, number) = thread;
          g_array_index (self->owners, uint32_t, number) = process->serial;
          if (self->log != NULL)
            sonde_heap_log_forget_thread (self->log, number);
          else
            *newest_of (self, number) = 0;
        }
      else
        {
          number = self->threads->len;
          g_array_append_val (self->threads, thread);
          g_array_append_val (self->owners, process->serial);
        }
      slot.number = (uint64_t) number + 1;
      sonde_table_add (&sonde_number_slots, &self->numbers, &slot);
    }
  self->last_key = slot.key;
  self->last_thread = number;
  return number;
}

static inline guint32
ensure_thread (SondeHeapBook *self, const SondeHeapBookProcess *process, int32_t tid)
{
  uint64_t key = (uint64_t) process->serial << 32 | (uint32_t) tid;

  return __builtin_expect (key == self->last_key, true) ? self->last_thread
                                                        : find_thread (self, process, tid);
}

/* Their numbers may be another's. */
static void
forget_threads (SondeHeapBook *self, const SondeHeapBookProcess *process)
{
  for (guint32 i = 0; i < self->threads->len; i++)
    if (g_array_index (self->owners, uint32_t, i) == process->serial)
      {
        uint64_t key = (uint64_t) process->serial << 32
                       | (uint32_t) g_array_index (self->threads, SondeHeapLogThread, i).tid;

        sonde_table_remove (&sonde_number_slots, &self->numbers,
                            sonde_number_table_find (&self->numbers, key));
        g_array_index (self->owners, uint32_t, i) = 0;
        g_array_append_val (self->unused, i);
      }
  self->last_key = 0;
}

/* --- what became of blocks --- */

/* A program that lost its link and got another is two processes here, until it is over. Takes the
 * block away. */
static uint64_t
take_block (SondeHeapBookProcess *process, uint64_t address)
{
  uint64_t number = 0;

  for (guint i = 0; i < MAX_ANCESTORS && process != NULL && number == 0; i++)
    {
      number = sonde_live_blocks_take (&process->blocks, address);
      process = process->older;
    }
  return number;
}

/* The number of the block that a forked child has from its parent, or 0. What the parent has done
 * since the fork is not known apart from what it did before. */
static uint64_t
find_inherited (SondeHeapBook *self, int32_t pid, uint64_t address)
{
  uint64_t number = 0;

  for (guint i = 0; i < MAX_ANCESTORS && number == 0; i++)
    {
      gpointer parent = g_hash_table_lookup (self->parents, GINT_TO_POINTER (pid));
      SondeHeapBookProcess *process = g_hash_table_lookup (self->processes, parent);

      if (parent == NULL)
        break;
      for (guint j = 0; j < MAX_ANCESTORS && process != NULL && number == 0; j++)
        {
          number = sonde_live_blocks_find (&process->blocks, address);
          process = process->older;
        }
      pid = GPOINTER_TO_INT (parent);
    }
  return number;
}

/* A child has what its parent has, and has from its own. */
static void
inherit (SondeHeapBook *self, const SondeHeapBookProcess *parent, int32_t child)
{
  SondeHeapSumsAmount *amount = g_new0 (SondeHeapSumsAmount, 1);

  for (guint i = 0; i < MAX_ANCESTORS && parent != NULL; i++)
    {
      amount->bytes += parent->owner.live.bytes + parent->inherited.bytes;
      amount->blocks += parent->owner.live.blocks + parent->inherited.blocks;
      parent = parent->older;
    }
  if (g_hash_table_size (self->inheriting) >= MAX_PARENTS)
    g_hash_table_remove_all (self->inheriting);
  g_hash_table_replace (self->inheriting, GINT_TO_POINTER (child), amount);
}

/* Of a program that told nothing before. */
static void
take_inherited (SondeHeapBook *self, SondeHeapBookProcess *process)
{
  const gpointer key = GINT_TO_POINTER (process->pid);
  const SondeHeapSumsAmount *amount = g_hash_table_lookup (self->inheriting, key);

  if (amount == NULL)
    return;
  process->inherited = *amount;
  g_hash_table_remove (self->inheriting, key);
}

static void
add_block_up (SondeHeapBook *self, const Waiting *event)
{
  SondeHeapBookProcess *process = event->process;
  const SondeHeapSumsBlock block
      = { event->time_ns, event->size_bytes, process->pid,
          g_array_index (self->threads, SondeHeapLogThread, event->thread).tid, event->node };
  uint32_t number = sonde_heap_sums_reserve_block (self->sums);

  *newest_of (self, event->thread) = event->address;
  if (number != 0
      && sonde_live_blocks_put (&process->blocks, event->address, event->size_bytes, number))
    {
      sonde_heap_sums_begin_block (self->sums, &process->owner, number, &block);
      return;
    }
  self->n_not_followed++;
  sonde_heap_sums_skip_block (self->sums, &process->owner, number, &block);
}

static void
add_up (SondeHeapBook *self, const Waiting *event)
{
  SondeHeapBookProcess *process = event->process;
  uint64_t *newest;
  uint64_t known;

  if (event->thread == FORKS)
    {
      inherit (self, process, (int32_t) event->address);
      return;
    }
  take_inherited (self, process);
  known = take_block (process, event->address);
  if (event->size_bytes > 0)
    {
      if (known != 0)
        sonde_heap_sums_replace_block (self->sums, (uint32_t) known, event->time_ns);
      add_block_up (self, event);
      return;
    }
  newest = newest_of (self, event->thread);
  if (known != 0)
    {
      sonde_heap_sums_free_block (
          self->sums, (uint32_t) known, event->time_ns,
          g_array_index (self->threads, SondeHeapLogThread, event->thread).tid,
          *newest == event->address);
      *newest = *newest == event->address ? 0 : *newest;
      return;
    }
  known = find_inherited (self, process->pid, event->address);
  if (known != 0)
    sonde_heap_sums_free_inherited (self->sums, (uint32_t) known, event->time_ns,
                                    &process->inherited);
  else
    sonde_heap_sums_free_unknown (self->sums, event->time_ns);
}

static void
apply (SondeHeapBook *self, const Waiting *event)
{
  SondeHeapBookProcess *process = event->process;
  uint64_t known;
  uint64_t number;

  if (self->sums != NULL)
    {
      add_up (self, event);
      return;
    }
  /* What nearly all blocks come upon: nothing, in a page that is known. */
  if (event->size_bytes > 0 && process->older == NULL
      && sonde_live_blocks_put_new (&process->blocks, event->address, event->size_bytes,
                                    sonde_heap_log_next_number (self->log)))
    {
      sonde_heap_log_add_block (self->log, event->thread, event->time_ns, event->node,
                                event->size_bytes, 0);
      return;
    }
  known = take_block (process, event->address);
  if (event->size_bytes > 0)
    {
      number = sonde_heap_log_add_block (self->log, event->thread, event->time_ns, event->node,
                                         event->size_bytes, known);
      self->n_not_followed
          += !sonde_live_blocks_put (&process->blocks, event->address, event->size_bytes, number);
      return;
    }
  number = known != 0 ? known : find_inherited (self, process->pid, event->address);
  if (number != 0)
    sonde_heap_log_add_free (self->log, event->thread, event->time_ns, number);
  else
    sonde_heap_log_add_other (self->log, event->thread, event->time_ns, event->address);
}

/* --- their order --- */

/* Rings that were emptied are ascending runs. */
static void
sort (SondeHeapBook *self)
{
  Waiting *waiting = self->waiting;

  if (!self->is_mixed)
    return;
  self->is_mixed = FALSE;
  if (sonde_time_order (waiting, self->scratch, self->n_waiting, sizeof *waiting) == waiting)
    return;
  self->waiting = self->scratch;
  self->scratch = waiting;
}

static void
grow (SondeHeapBook *self)
{
  self->n_room = MAX (self->n_room * 2, 256);
  self->waiting = g_renew (Waiting, self->waiting, self->n_room);
  self->scratch = g_renew (Waiting, self->scratch, self->n_room);
}

static inline void
wait_for_turn (SondeHeapBook *self, const Waiting *event)
{
  if (self->n_waiting == self->n_room)
    grow (self);
  if (self->n_waiting == 0 || event->time_ns >= self->newest_ns)
    self->newest_ns = event->time_ns;
  else
    self->is_mixed = TRUE;
  self->waiting[self->n_waiting++] = *event;
  /* More than all rings may have at a time: some reader holds the others up. */
  if (self->n_waiting >= SONDE_HEAP_BOOK_MAX_WAITING)
    {
      sort (self);
      sonde_heap_book_turn (self, self->waiting[self->n_waiting / 2].time_ns);
    }
}

/* What the events some places behind @n will need. */
static inline void
expect (SondeHeapBook *self, guint n)
{
  const Waiting *event;

  if (self->n_waiting - n <= PAGE_AHEAD)
    return;
  event = &self->waiting[n + PAGE_AHEAD];
  if (event->process->blocks.pages.n_used > MANY_PAGES)
    sonde_live_blocks_expect_page (&event->process->blocks, event->address);
  event = &self->waiting[n + PLACE_AHEAD];
  if (event->process->blocks.pages.n_used > MANY_PAGES)
    sonde_live_blocks_expect_place (&event->process->blocks, event->address);
  if (event->size_bytes > 0 && self->log != NULL)
    sonde_heap_log_expect_block (self->log, event->node, event->size_bytes);
}

void
sonde_heap_book_add (SondeHeapBook *self,
                     SondeHeapBookProcess *process,
                     const SondeHeapBookEvent *event)
{
  const Waiting waiting = { event->time_ns,    event->address,
                            event->size_bytes, ensure_thread (self, process, event->tid),
                            event->node,       process };

  wait_for_turn (self, &waiting);
}

void
sonde_heap_book_turn (SondeHeapBook *self, gint64 before_ns)
{
  guint n = 0;

  sort (self);
  while (n < self->n_waiting && self->waiting[n].time_ns <= before_ns)
    {
      expect (self, n);
      apply (self, &self->waiting[n++]);
    }
  self->n_waiting -= n;
  if (n > 0 && self->n_waiting > 0)
    memmove (self->waiting, self->waiting + n, self->n_waiting * sizeof *self->waiting);
}

gboolean
sonde_heap_book_has_waiting (const SondeHeapBook *self)
{
  return self->n_waiting > 0;
}

guint32
sonde_heap_book_n_untold (const SondeHeapBook *self)
{
  return self->sums != NULL ? sonde_heap_sums_n_untold (self->sums) : 0;
}

/* --- processes --- */

SondeHeapBookProcess *
sonde_heap_book_add_process (SondeHeapBook *self, int32_t pid)
{
  SondeHeapBookProcess *process = g_new0 (SondeHeapBookProcess, 1);

  process->pid = pid;
  process->serial = ++self->n_processes;
  process->is_used = TRUE;
  process->older = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));
  sonde_live_blocks_init (&process->blocks, &self->budget);
  g_hash_table_replace (self->processes, GINT_TO_POINTER (pid), process);
  return process;
}

gboolean
sonde_heap_book_has_process (const SondeHeapBook *self, int32_t pid)
{
  return g_hash_table_contains (self->processes, GINT_TO_POINTER (pid));
}

/* Whether it tells what @pid has of its parent. */
static gboolean
is_fork_of (const Waiting *event, int32_t pid)
{
  return event->thread == FORKS && (int32_t) event->address == pid;
}

static void
forget_block (uint64_t number, gpointer sums)
{
  sonde_heap_sums_forget_block (sums, (uint32_t) number);
}

void
sonde_heap_book_end_process (SondeHeapBook *self, SondeHeapBookProcess *process)
{
  gpointer key = GINT_TO_POINTER (process->pid);
  SondeHeapBookProcess *newer;
  guint n_left = 0;

  sort (self);
  for (guint i = 0; i < self->n_waiting; i++)
    {
      const Waiting *event = &self->waiting[i];

      if (event->process == process || is_fork_of (event, process->pid))
        apply (self, event);
      else
        self->waiting[n_left++] = *event;
    }
  self->n_waiting = n_left;
  /* In the capture before what tells of the end, and of what comes then. */
  if (self->log != NULL)
    sonde_heap_log_flush (self->log);
  else
    {
      sonde_heap_sums_define (self->sums);
      sonde_live_blocks_foreach (&process->blocks, forget_block, self->sums);
      sonde_heap_sums_end_owner (self->sums, &process->owner, &process->inherited);
    }
  forget_threads (self, process);
  newer = g_hash_table_lookup (self->processes, key);
  if (newer == process && process->older == NULL)
    {
      g_hash_table_remove (self->processes, key);
      g_hash_table_remove (self->parents, key);
    }
  else if (newer == process)
    g_hash_table_replace (self->processes, key, process->older);
  else
    {
      while (newer->older != process)
        newer = newer->older;
      newer->older = process->older;
    }
  process_free (self, process);
}

void
sonde_heap_book_leave_process (SondeHeapBook *self, SondeHeapBookProcess *process)
{
  process->is_used = FALSE;
  if (++self->n_left > SONDE_HEAP_BOOK_MAX_LEFT)
    sonde_heap_book_end_process (self, process);
}

void
sonde_heap_book_end_left (SondeHeapBook *self, int32_t pid)
{
  SondeHeapBookProcess *at = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));

  while (at != NULL)
    {
      SondeHeapBookProcess *older = at->older;

      if (!at->is_used)
        sonde_heap_book_end_process (self, at);
      at = older;
    }
}

void
sonde_heap_book_end_program (SondeHeapBook *self, int32_t pid)
{
  const gpointer key = GINT_TO_POINTER (pid);
  guint n_left = 0;

  g_hash_table_remove (self->inheriting, key);
  if (self->sums == NULL || !g_hash_table_contains (self->parents, key))
    return;
  for (guint i = 0; i < self->n_waiting; i++)
    if (!is_fork_of (&self->waiting[i], pid))
      self->waiting[n_left++] = self->waiting[i];
  self->n_waiting = n_left;
}

void
sonde_heap_book_fork (SondeHeapBook *self, int32_t parent, int32_t child, gint64 time_ns)
{
  gpointer key = GINT_TO_POINTER (parent);
  SondeHeapBookProcess *process = g_hash_table_lookup (self->processes, key);

  if (parent == child
      || (!g_hash_table_contains (self->processes, key)
          && !g_hash_table_contains (self->parents, key)))
    return;
  if (g_hash_table_size (self->parents) >= MAX_PARENTS)
    g_hash_table_remove_all (self->parents);
  g_hash_table_replace (self->parents, GINT_TO_POINTER (child), key);
  if (self->sums != NULL && process != NULL)
    {
      const Waiting waiting = {
        .time_ns = time_ns, .address = (uint32_t) child, .thread = FORKS, .process = process
      };

      wait_for_turn (self, &waiting);
    }
}

void
sonde_heap_book_remap (SondeHeapBook *self, int32_t pid)
{
  SondeHeapBookProcess *process = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));

  if (self->sums == NULL || process == NULL)
    return;
  sonde_heap_sums_define (self->sums);
  for (guint i = 0; i < MAX_ANCESTORS && process != NULL; i++, process = process->older)
    sonde_heap_sums_renew_owner (self->sums, &process->owner);
}

/* --- segments --- */

/* Nodes of the tree that is made anew. */
typedef struct
{
  const SondeStackTree *old;
  SondeStackTree *tree;
  guint32 *numbers; /* in it, + 1, by those in the old one; 0: not there yet */
} Forgetting;

static uint32_t
keep_node (uint32_t node, gpointer user_data)
{
  const Forgetting *self = user_data;
  uint32_t path[SONDE_STACK_TREE_MAX_DEPTH];
  uint32_t kept;
  guint n = 0;

  for (; self->numbers[node] == 0; node = sonde_stack_tree_node (self->old, node)->caller)
    {
      g_assert (n < G_N_ELEMENTS (path));
      path[n++] = node;
    }
  kept = self->numbers[node] - 1;
  for (; n > 0; n--)
    {
      const SondeStackNode *at = sonde_stack_tree_node (self->old, path[n - 1]);

      kept = sonde_stack_tree_add_child (self->tree, kept,
                                         g_array_index (self->old->pcs, uint64_t, at->pc));
      self->numbers[path[n - 1]] = kept + 1;
    }
  return kept;
}

/* Of sessions of weeks: the stacks of all who came and went do not fit. Those that somebody has are
 * told again, as to a reader who comes. */
static void
forget_stacks (SondeHeapBook *self, gint64 now_ns)
{
  SondeStackTree *tree = sonde_stack_tree_new (SONDE_HEAP_LOG_MAX_NODES);
  g_autofree guint32 *numbers = g_new0 (guint32, self->tree->nodes->len);
  Forgetting forgetting = { self->tree, tree, numbers };

  numbers[0] = 1;
  sonde_heap_sums_restart (self->sums, now_ns);
  sonde_heap_sums_foreach_node (self->sums, keep_node, &forgetting);
  for (guint i = 0; i < self->n_waiting; i++)
    self->waiting[i].node = keep_node (self->waiting[i].node, &forgetting);
  tree->n_cut = self->tree->n_cut;
  sonde_heap_sums_set_tree (self->sums, tree);
  sonde_stack_tree_free (self->tree);
  self->tree = tree;
  sonde_table_clear (&self->stacks);
  self->n_forgets++;
  self->n_gone = sonde_heap_sums_n_gone (self->sums);
  self->many_nodes = MAX (MANY_NODES, (SONDE_HEAP_LOG_MAX_NODES + tree->nodes->len) / 2);
}

/* Whether much of the tree may be nobody's. */
static gboolean
has_past (const SondeHeapBook *self)
{
  return self->tree->nodes->len >= self->many_nodes
         && sonde_heap_sums_n_gone (self->sums) - self->n_gone
                > sonde_heap_sums_n_used (self->sums) / PART_GONE;
}

void
sonde_heap_book_flush (SondeHeapBook *self, gint64 before_ns)
{
  if (self->sums != NULL)
    {
      sonde_heap_sums_flush (self->sums, before_ns);
      if (before_ns != G_MAXINT64 && has_past (self))
        forget_stacks (self, before_ns);
    }
  else if (sonde_heap_log_since_ns (self->log) < before_ns)
    sonde_heap_log_flush (self->log);
}

void
sonde_heap_book_restart (SondeHeapBook *self, gint64 now_ns)
{
  if (self->sums != NULL)
    sonde_heap_sums_restart (self->sums, now_ns);
  else
    sonde_heap_log_restart (self->log);
}

SondeHeapBookLosses
sonde_heap_book_losses (const SondeHeapBook *self)
{
  guint64 n_cut = self->tree->n_cut;

  if (self->sums != NULL)
    n_cut += sonde_heap_sums_n_cut (self->sums);
  return (SondeHeapBookLosses){ n_cut, self->n_not_followed };
}
