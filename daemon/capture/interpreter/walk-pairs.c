/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/walk-pairs.h"

#include <stddef.h>
#include <string.h>

#define MAX_CPUS 8192

typedef struct
{
  int64_t time_ns;
  uint64_t size_bytes;
} PendingCode;

typedef struct
{
  uint32_t number; /* of the record that came last */
  gboolean has_walk;
  gboolean is_found; /* by its sample */
  SondeWalkRecord walk;
  GByteArray *codes; /* SondeWalkCode, each as it came behind a PendingCode */
} PendingWalk;

struct SondeWalkPairs
{
  GPtrArray *cpus; /* PendingWalk, by number; NULL: nothing came of it */
  SondeWalkPairsCode code;
  gpointer user_data;
  guint64 n_unpaired;
  guint64 n_missing;
  guint n_codes; /* of all processors */
};

static void
pending_free (gpointer data)
{
  PendingWalk *self = data;

  if (self == NULL)
    return;
  g_byte_array_unref (self->codes);
  g_free (self);
}

SondeWalkPairs *
sonde_walk_pairs_new (SondeWalkPairsCode code, gpointer user_data)
{
  SondeWalkPairs *self = g_new0 (SondeWalkPairs, 1);

  self->cpus = g_ptr_array_new_with_free_func (pending_free);
  self->code = code;
  self->user_data = user_data;
  return self;
}

void
sonde_walk_pairs_free (SondeWalkPairs *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->cpus);
  g_free (self);
}

/* --- what came --- */

gboolean
sonde_walk_record_parse (const uint8_t *bytes, size_t size_bytes, SondeWalkRecord *record)
{
  const size_t head_bytes = offsetof (SondeWalkRecord, frames);

  if (size_bytes < head_bytes)
    return FALSE;
  memcpy (record, bytes, head_bytes);
  if (record->kind != SONDE_WALK_RECORD_FRAMES || record->n_frames > SONDE_WALK_MAX_FRAMES
      || (record->flags & ~(uint32_t) (SONDE_WALK_TORN | SONDE_WALK_DEEP)) != 0
      || record->n_frames > (size_bytes - head_bytes) / sizeof record->frames[0])
    return FALSE;
  memcpy (record->frames, bytes + head_bytes, record->n_frames * sizeof record->frames[0]);
  return TRUE;
}

static gboolean
is_text (const SondeWalkText *text)
{
  return text->size_bytes <= SONDE_WALK_TEXT_BYTES
         && (text->width == 0 || text->width == 1 || text->width == 2 || text->width == 4
             || text->width == SONDE_WALK_UTF8);
}

gboolean
sonde_walk_code_parse (const uint8_t *bytes, size_t size_bytes, SondeWalkCode *code)
{
  const size_t head_bytes = offsetof (SondeWalkCode, lines);

  if (size_bytes < head_bytes)
    return FALSE;
  memcpy (code, bytes, head_bytes);
  if (code->kind != SONDE_WALK_RECORD_CODE || code->code == 0 || code->pid > INT32_MAX
      || code->lines_bytes > SONDE_WALK_LINES_BYTES || code->lines_bytes > size_bytes - head_bytes
      || !is_text (&code->name) || !is_text (&code->file) || !is_text (&code->scope))
    return FALSE;
  memcpy (code->lines, bytes + head_bytes, code->lines_bytes);
  return TRUE;
}

/* --- pairs --- */

static PendingWalk *
find_pending (SondeWalkPairs *self, int cpu)
{
  return cpu >= 0 && (guint) cpu < self->cpus->len ? g_ptr_array_index (self->cpus, cpu) : NULL;
}

static PendingWalk *
ensure_pending (SondeWalkPairs *self, int cpu)
{
  PendingWalk *pending;

  if (cpu < 0 || cpu >= MAX_CPUS)
    return NULL;
  if ((guint) cpu >= self->cpus->len)
    g_ptr_array_set_size (self->cpus, cpu + 1);
  pending = g_ptr_array_index (self->cpus, cpu);
  if (pending == NULL)
    {
      pending = g_new0 (PendingWalk, 1);
      pending->codes = g_byte_array_new ();
      g_ptr_array_index (self->cpus, cpu) = pending;
    }
  return pending;
}

/* Those from up to @time_ns. */
static void
tell_codes (SondeWalkPairs *self, PendingWalk *pending, int64_t time_ns)
{
  SondeWalkCode code;
  guint at = 0;

  while (at < pending->codes->len)
    {
      PendingCode head;

      memcpy (&head, pending->codes->data + at, sizeof head);
      if (head.time_ns > time_ns)
        break;
      at += (guint) sizeof head;
      if (sonde_walk_code_parse (pending->codes->data + at, head.size_bytes, &code))
        self->code (&code, self->user_data);
      at += (guint) head.size_bytes;
      self->n_codes--;
    }
  if (at > 0)
    g_byte_array_remove_range (pending->codes, 0, at);
}

/* What other processors have told by then: the sample that was to follow may be lost. */
static void
tell_codes_of_all (SondeWalkPairs *self, int64_t time_ns)
{
  for (guint i = 0; i < self->cpus->len && self->n_codes > 0; i++)
    {
      PendingWalk *pending = g_ptr_array_index (self->cpus, i);

      if (pending != NULL)
        tell_codes (self, pending, time_ns);
    }
}

static void
drop_walk (SondeWalkPairs *self, PendingWalk *pending)
{
  self->n_unpaired += pending->has_walk && !pending->is_found;
  pending->has_walk = FALSE;
  pending->is_found = FALSE;
}

static void
keep_code (SondeWalkPairs *self, PendingWalk *pending, const uint8_t *bytes, PendingCode head)
{
  /* Its samples are lost, all of them: what is told waits for none any longer. */
  if (pending->codes->len + sizeof head + head.size_bytes > SONDE_WALK_PAIRS_MAX_CODE_BYTES)
    tell_codes (self, pending, INT64_MAX);
  g_byte_array_append (pending->codes, (const guint8 *) &head, sizeof head);
  g_byte_array_append (pending->codes, bytes, (guint) head.size_bytes);
  self->n_codes++;
}

static void
count_missing (SondeWalkPairs *self, PendingWalk *pending, uint32_t number)
{
  self->n_missing += (uint32_t) (number - pending->number - 1);
  pending->number = number;
}

gboolean
sonde_walk_pairs_add (
    SondeWalkPairs *self, int cpu, int64_t time_ns, const uint8_t *bytes, size_t size_bytes)
{
  PendingWalk *pending = ensure_pending (self, cpu);
  SondeWalkCode code;

  if (pending == NULL)
    return FALSE;
  if (sonde_walk_code_parse (bytes, size_bytes, &code))
    {
      count_missing (self, pending, code.number);
      keep_code (self, pending, bytes, (PendingCode){ time_ns, MIN (size_bytes, sizeof code) });
      return TRUE;
    }
  drop_walk (self, pending);
  pending->has_walk = sonde_walk_record_parse (bytes, size_bytes, &pending->walk);
  if (pending->has_walk)
    count_missing (self, pending, pending->walk.number);
  return pending->has_walk;
}

const SondeWalkRecord *
sonde_walk_pairs_find (SondeWalkPairs *self, const SondePerfRecord *sample)
{
  PendingWalk *pending = find_pending (self, sample->cpu);

  tell_codes_of_all (self, sample->time_ns);
  if (pending == NULL)
    return NULL;
  tell_codes (self, pending, INT64_MAX);
  if (!pending->has_walk || pending->walk.pid != (uint32_t) sample->pid
      || pending->walk.tid != (uint32_t) sample->tid || pending->walk.ip != sample->sample.ip)
    return NULL;
  pending->is_found = TRUE;
  return &pending->walk;
}

void
sonde_walk_pairs_end (SondeWalkPairs *self, int cpu)
{
  PendingWalk *pending = find_pending (self, cpu);

  if (pending == NULL)
    return;
  tell_codes (self, pending, INT64_MAX);
  drop_walk (self, pending);
}

guint64
sonde_walk_pairs_n_unpaired (const SondeWalkPairs *self)
{
  return self->n_unpaired;
}

guint64
sonde_walk_pairs_n_missing (const SondeWalkPairs *self)
{
  return self->n_missing;
}
