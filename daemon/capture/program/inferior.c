/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/inferior.h"

#include <string.h>

#include "base/hash.h"

/* Made-up addresses of programs, apart from our own, which begin at SONDE_JIT_ADDRESS_BASE. */
#define NAMES_BASE (SONDE_JIT_ADDRESS_BASE + (UINT64_C (1) << 32))

/* What the kernel told of an exec before the first ring is read by then. */
#define SETTLE_NS (300 * G_GINT64_CONSTANT (1000000))

typedef struct
{
  guint32 id; /* in the session */
  SondeCounterDefinition definition;
} ProgramCounter;

typedef struct
{
  uint64_t address; /* in the session */
  guint hash;       /* of the name */
} ProgramName;

SondeInferior *
sonde_inferior_new (SondeInferiorParts *parts, int32_t pid, guint64 peer, gint64 now_ns)
{
  SondeProcess *process = sonde_tracker_process (parts->tracker, pid, now_ns);
  SondeInferior *self = g_new0 (SondeInferior, 1);

  self->parts = parts;
  self->pid = pid;
  self->peer = peer;
  self->since_ns = now_ns;
  self->stack_seed = sonde_hash (sonde_hash_seed (), ++parts->n_stack_seeds);
  self->counters = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  self->addresses = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  /* Asks for it at once: one that is gone soon takes its name with it. */
  if (process != NULL)
    sonde_tracker_is_known (parts->tracker, process, now_ns);

  return self;
}

void
sonde_inferior_end_heap (SondeInferior *self)
{
  if (self->heap != NULL)
    sonde_heap_book_end_process (self->parts->book, g_steal_pointer (&self->heap));
}

void
sonde_inferior_free (SondeInferior *self)
{
  if (self == NULL)
    return;

  if (self->heap != NULL)
    sonde_heap_book_leave_process (self->parts->book, self->heap);
  self->parts->n_addresses -= g_hash_table_size (self->addresses);
  g_hash_table_unref (self->counters);
  g_hash_table_unref (self->names);
  g_hash_table_unref (self->addresses);
  g_free (self);
}

/* --- counters --- */

void
sonde_inferior_define_counter (SondeInferior *self,
                               const SondeCounterDefinition *definition,
                               gint64 time_ns)
{
  guint32 id = sonde_counter_id (definition->id_type);
  ProgramCounter *counter = g_hash_table_lookup (self->counters, GUINT_TO_POINTER (id));
  SondeCounter defined = { .category = definition->category,
                           .name = definition->name,
                           .description = definition->description,
                           .type = sonde_counter_type (definition->id_type) };

  if (id == 0
      || (counter != NULL && counter->definition.id_type == definition->id_type
          && strcmp (counter->definition.category, definition->category) == 0
          && strcmp (counter->definition.name, definition->name) == 0
          && strcmp (counter->definition.description, definition->description) == 0))
    return;
  if (self->n_defined >= SONDE_INFERIOR_MAX_COUNTERS)
    return;
  /* What ledgers are checked by is ours alone. */
  if (strcmp (definition->category, SONDE_LEDGER_CATEGORY) == 0)
    defined.category = SONDE_LEDGER_CATEGORY " (program)";

  if (!sonde_recorder_define_counters (self->parts->recorder, self->pid, &defined, 1, time_ns))
    return;
  self->n_defined++;
  counter = g_new0 (ProgramCounter, 1);
  counter->definition = *definition;
  counter->id = defined.id;
  g_hash_table_replace (self->counters, GUINT_TO_POINTER (id), counter);
}

guint32
sonde_inferior_counter (SondeInferior *self, guint32 id)
{
  const ProgramCounter *counter = g_hash_table_lookup (self->counters, GUINT_TO_POINTER (id));

  return counter != NULL ? counter->id : 0;
}

/* --- names --- */

void
sonde_inferior_add_name (SondeInferior *self, uint64_t address, const char *name, gint64 time_ns)
{
  SondeInferiorParts *parts = self->parts;
  const ProgramName *known = g_hash_table_lookup (self->names, &address);
  ProgramName new = { .address = NAMES_BASE + parts->n_names, .hash = g_str_hash (name) };
  char copy[SONDE_INFERIOR_MAX_NAME];
  gsize end = sizeof copy - 1;

  if (address < SONDE_JIT_ADDRESS_BASE || (known != NULL && known->hash == new.hash))
    return;
  /* Cut between two characters, if these are UTF-8. */
  if (g_strlcpy (copy, name, sizeof copy) >= sizeof copy)
    {
      while (end > 0 && (name[end] & 0xC0) == 0x80)
        end--;
      copy[end] = '\0';
    }
  if (parts->n_names >= SONDE_INFERIORS_MAX_NAMES
      || (known == NULL && g_hash_table_size (self->names) >= SONDE_INFERIOR_MAX_NAMES)
      || !sonde_recorder_name_address (parts->recorder, new.address, copy, time_ns))
    return;

  parts->n_names++;
  self->stack_seed = sonde_hash (sonde_hash_seed (), ++parts->n_stack_seeds);
  g_hash_table_replace (self->names, g_memdup2 (&address, sizeof address),
                        g_memdup2 (&new, sizeof new));
}

uint64_t
sonde_inferior_name (SondeInferior *self, uint64_t address, gint64 time_ns)
{
  const ProgramName *name = g_hash_table_lookup (self->names, &address);

  return name != NULL ? name->address
                      : sonde_recorder_name (self->parts->recorder, "[unknown name]", time_ns);
}

/* --- addresses --- */

gboolean
sonde_inferior_note_address (SondeInferior *self, uint64_t address, gboolean is_return)
{
  uint64_t *recent = &self->recent[(address * UINT64_C (0x9E3779B97F4A7C15)) >> 52
                                   & (SONDE_INFERIOR_N_RECENT - 1)];

  if (*recent == address)
    return TRUE;
  if (g_hash_table_size (self->addresses) >= SONDE_INFERIOR_MAX_ADDRESSES
      || self->parts->n_addresses >= SONDE_INFERIORS_MAX_ADDRESSES)
    return FALSE;
  *recent = address;
  self->parts->n_addresses += g_hash_table_replace (
      self->addresses, g_memdup2 (&address, sizeof address), GINT_TO_POINTER (is_return));
  return TRUE;
}

static void
look_up (SondeInferior *self, SondeProcess *process)
{
  GHashTableIter iter;
  gpointer address, is_return;

  g_hash_table_iter_init (&iter, self->addresses);
  while (g_hash_table_iter_next (&iter, &address, &is_return))
    if (sonde_sampler_collect (self->parts->sampler, process, *(uint64_t *) address,
                               GPOINTER_TO_INT (is_return)))
      {
        g_hash_table_iter_remove (&iter);
        self->parts->n_addresses--;
      }
}

void
sonde_inferior_settle (SondeInferior *self, gint64 now_ns, gboolean is_over)
{
  SondeInferiorParts *parts = self->parts;
  SondeProcess *process = sonde_tracker_process (parts->tracker, self->pid, now_ns);

  if (process == NULL || (!is_over && now_ns - self->since_ns < SETTLE_NS))
    return;
  if (!sonde_tracker_is_ready (parts->tracker, process, now_ns) && !is_over)
    return;
  /* Before its first event, and before what the kernel told of since then, such as an exec. */
  sonde_recorder_process (parts->recorder, process, self->since_ns);
  if (!sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN))
    look_up (self, process);
}

gboolean
sonde_inferior_is_awaited (SondeInferior *self, gint64 now_ns)
{
  SondeProcess *process = sonde_tracker_process (self->parts->tracker, self->pid, now_ns);

  return process != NULL && g_hash_table_size (self->addresses) > 0
         && !sonde_process_flag (process, SONDE_PROCESS_FLAG_COMPLETE)
         && !sonde_tracker_is_ready (self->parts->tracker, process, now_ns);
}

void
sonde_inferior_renew (SondeInferior *self, gint64 now_ns)
{
  self->since_ns = now_ns;
  self->stack_seed = sonde_hash (sonde_hash_seed (), ++self->parts->n_stack_seeds);
  self->parts->n_addresses -= g_hash_table_size (self->addresses);
  g_hash_table_remove_all (self->addresses);
  memset (self->recent, 0, sizeof self->recent);
}
