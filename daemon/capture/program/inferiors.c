/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/inferiors.h"

#include <errno.h>

#include "daemon/capture/program/control-server.h"
#include "daemon/capture/program/frame-adopter.h"
#include "daemon/capture/program/inferior-rings.h"
#include "shared-ring/ring-reader.h"

/* Processes at a time: of those that have no ring any more the oldest goes. */
#define MAX_INFERIORS 1024

/* Between the end of a process's socket and the kernel's record of its end, if there is one. */
#define GONE_NS (2 * G_GINT64_CONSTANT (1000000000))

typedef struct
{
  SondeInferior *inferior;
  guint64 peer;
  gint64 since_ns;
  guint n_rings;
  gint64 gone_ns; /* 0: its peer is there */
  gboolean is_settled;
} KnownInferior;

struct SondeInferiors
{
  guint32 memory; /* SondeMemoryMode */
  SondeInferiorParts parts;
  SondeRecorder *recorder;
  SondeFrameAdopter *adopter;
  SondeInferiorRings *rings;
  SondeControlServer *server; /* NULL at the end */
  guint n_taken;              /* control sockets */
  guint n_open;
  GPtrArray *entries; /* Entry, the oldest first */
  SondeInferiorsChanged changed;
  gpointer user_data;
};

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static void
entry_free (gpointer data)
{
  KnownInferior *entry = data;

  sonde_inferior_free (entry->inferior);
  g_free (entry);
}

/* --- processes --- */

static void
settle_last (KnownInferior *entry)
{
  if (!entry->is_settled)
    sonde_inferior_settle (entry->inferior, now_ns (), TRUE);
  entry->is_settled = TRUE;
}

/* More than there is room for never have a ring at a time. */
static KnownInferior *
ensure_entry (SondeInferiors *self, pid_t pid, guint64 peer)
{
  KnownInferior *entry;

  for (guint i = self->entries->len; i > 0; i--)
    {
      entry = g_ptr_array_index (self->entries, i - 1);
      if (entry->peer == peer && sonde_inferior_pid (entry->inferior) == pid && entry->gone_ns == 0)
        return entry;
    }
  for (guint i = 0; i < self->entries->len && self->entries->len >= MAX_INFERIORS; i++)
    {
      entry = g_ptr_array_index (self->entries, i);
      if (entry->n_rings > 0)
        continue;
      settle_last (entry);
      g_ptr_array_remove_index (self->entries, i);
      break;
    }
  entry = g_new0 (KnownInferior, 1);
  entry->since_ns = now_ns ();
  entry->inferior = sonde_inferior_new (&self->parts, pid, entry->since_ns);
  entry->peer = peer;
  g_ptr_array_add (self->entries, entry);

  return entry;
}

static void
ring_closed (SondeInferior *inferior, gpointer user_data)
{
  SondeInferiors *self = user_data;

  for (guint i = 0; i < self->entries->len; i++)
    {
      KnownInferior *entry = g_ptr_array_index (self->entries, i);

      if (entry->inferior == inferior)
        entry->n_rings--;
    }
}

/* --- requests --- */

static int
ring_wanted (const SondeRingWanted *wanted, guint *number, gpointer user_data)
{
  SondeInferiors *self = user_data;
  SondeInferiorRingWish wish
      = { .kind = wanted->kind, .size_bytes = wanted->size_bytes, .peer = wanted->peer };
  KnownInferior *entry;
  int fd;

  /* A process of another pid namespace has no number here. */
  if (wanted->pid <= 0)
    return -EPERM;
  /* What the producer may send beside allocations. */
  if (wanted->producer == SONDE_PRODUCER_APPLICATION)
    {
      wish.what = "application";
      wish.types = SONDE_RING_COLLECTOR_TYPES;
    }
  else if (wanted->producer == SONDE_PRODUCER_MEMORY && self->memory != SONDE_MEMORY_OFF)
    {
      wish.what = "memory";
      wish.types = SONDE_RING_COLLECTOR_TYPES & ~SONDE_RING_TYPE (SONDE_FRAME_SAMPLE);
    }
  else
    return -EOPNOTSUPP;

  entry = ensure_entry (self, wanted->pid, wanted->peer);
  fd = sonde_inferior_rings_add (self->rings, entry->inferior, &wish, number);
  if (fd >= 0)
    entry->n_rings++;
  return fd;
}

static void
ring_undelivered (guint number, gpointer user_data)
{
  SondeInferiors *self = user_data;

  sonde_inferior_rings_drop (self->rings, number);
}

static void
bell_rung (gpointer user_data)
{
  SondeInferiors *self = user_data;

  sonde_inferior_rings_wake (self->rings);
}

static void
peer_gone (guint64 peer, gpointer user_data)
{
  SondeInferiors *self = user_data;

  for (guint i = 0; i < self->entries->len; i++)
    {
      KnownInferior *entry = g_ptr_array_index (self->entries, i);

      if (entry->peer == peer && entry->gone_ns == 0)
        entry->gone_ns = now_ns ();
    }
  sonde_inferior_rings_peer_gone (self->rings, peer);
}

static void
control_closed (gpointer user_data)
{
  SondeInferiors *self = user_data;

  self->n_open--;
  self->changed (self->user_data);
}

static void
control_refused (const char *text, gpointer user_data)
{
  SondeInferiors *self = user_data;

  sonde_recorder_warn (self->recorder, text);
}

/* --- life --- */

SondeInferiors *
sonde_inferiors_new (const SondeInferiorsParts *parts,
                     SondeInferiorsChanged changed,
                     gpointer user_data)
{
  static const SondeControlServerHandler handler
      = { ring_wanted, ring_undelivered, bell_rung, peer_gone, control_closed, control_refused };
  const SondeMessageSetup *setup = parts->setup;
  const SondeControlTerms terms = { .memory_mode = setup->memory,
                                    .max_depth = setup->max_depth,
                                    .memory_interval_bytes = setup->memory_interval_bytes };
  SondeInferiors *self = g_new0 (SondeInferiors, 1);

  self->memory = setup->memory;
  self->parts.recorder = self->recorder = parts->recorder;
  self->parts.tracker = parts->tracker;
  self->parts.sampler = parts->sampler;
  self->changed = changed;
  self->user_data = user_data;
  self->entries = g_ptr_array_new_with_free_func (entry_free);
  self->adopter = sonde_frame_adopter_new (parts->recorder, parts->tally, setup->start_ns);
  self->rings = sonde_inferior_rings_new (self->adopter, parts->recorder, parts->tally,
                                          setup->memory_wait_us, ring_closed, self);
  self->server = sonde_control_server_new (&terms, &handler, self);

  return self;
}

void
sonde_inferiors_free (SondeInferiors *self)
{
  if (self == NULL)
    return;

  sonde_control_server_free (self->server);
  sonde_inferior_rings_free (self->rings);
  sonde_frame_adopter_free (self->adopter);
  g_ptr_array_unref (self->entries);
  g_free (self);
}

void
sonde_inferiors_add_control (SondeInferiors *self, int fd)
{
  self->n_taken++;
  self->n_open++;
  sonde_control_server_add (self->server, fd, FALSE);
}

guint
sonde_inferiors_n_taken (const SondeInferiors *self)
{
  return self->n_taken;
}

guint
sonde_inferiors_n_open (const SondeInferiors *self)
{
  return self->server != NULL ? self->n_open : 0;
}

void
sonde_inferiors_pause (SondeInferiors *self, gboolean is_paused)
{
  sonde_inferior_rings_pause (self->rings, is_paused);
}

/* --- turns --- */

/* Whether it is of a program that was over at that time. */
static gboolean
has_ended (const KnownInferior *entry, int32_t pid, gint64 time_ns)
{
  return sonde_inferior_pid (entry->inferior) == pid && entry->since_ns < time_ns
         && !entry->is_settled;
}

gboolean
sonde_inferiors_foresee_end (SondeInferiors *self, int32_t pid, gint64 time_ns)
{
  gboolean is_awaited = FALSE;

  for (guint i = 0; i < self->entries->len; i++)
    {
      KnownInferior *entry = g_ptr_array_index (self->entries, i);

      if (!has_ended (entry, pid, time_ns))
        continue;
      sonde_inferior_rings_process_gone (self->rings, entry->inferior, time_ns);
      is_awaited = sonde_inferior_is_awaited (entry->inferior, now_ns ()) || is_awaited;
    }
  return is_awaited;
}

/* An exec closes a program's own link, and the next program gets another; a socket that
 * libsysprof-capture shares with others stays, and may have rings of the next one. */
void
sonde_inferiors_process_ends (SondeInferiors *self, int32_t pid, gint64 time_ns)
{
  for (guint i = 0; i < self->entries->len; i++)
    {
      KnownInferior *entry = g_ptr_array_index (self->entries, i);

      if (!has_ended (entry, pid, time_ns))
        continue;
      if (entry->n_rings > 0)
        {
          sonde_inferior_settle (entry->inferior, now_ns (), TRUE);
          sonde_inferior_renew (entry->inferior, time_ns);
          entry->since_ns = time_ns;
          continue;
        }
      settle_last (entry);
      if (entry->gone_ns == 0)
        entry->gone_ns = now_ns ();
    }
}

void
sonde_inferiors_settle (SondeInferiors *self)
{
  gint64 now = now_ns ();

  for (guint i = self->entries->len; i > 0; i--)
    {
      KnownInferior *entry = g_ptr_array_index (self->entries, i - 1);
      gboolean is_gone = entry->gone_ns != 0 && now - entry->gone_ns > GONE_NS;

      if (is_gone)
        settle_last (entry);
      else if (!entry->is_settled)
        sonde_inferior_settle (entry->inferior, now, FALSE);
      if (entry->is_settled && entry->n_rings == 0)
        g_ptr_array_remove_index (self->entries, i - 1);
    }
}

void
sonde_inferiors_count (SondeInferiors *self)
{
  sonde_inferior_rings_count (self->rings);
}

gboolean
sonde_inferiors_drain (SondeInferiors *self, gboolean is_urgent)
{
  g_clear_pointer (&self->server, sonde_control_server_free);
  return sonde_inferior_rings_drain (self->rings, is_urgent);
}

void
sonde_inferiors_end (SondeInferiors *self)
{
  sonde_inferior_rings_end (self->rings);
  for (guint i = 0; i < self->entries->len; i++)
    settle_last (g_ptr_array_index (self->entries, i));
}
