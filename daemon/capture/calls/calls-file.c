/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/calls/calls-file.h"

#include <string.h>

#include "protocol/calls.h"
#include "protocol/number-column.h"

struct SondeCallsFile
{
  GByteArray *records;
  GByteArray *body; /* of the record that is made */
};

SondeCallsFile *
sonde_calls_file_new (void)
{
  SondeCallsFile *self = g_new0 (SondeCallsFile, 1);

  self->records = g_byte_array_new ();
  self->body = g_byte_array_new ();
  return self;
}

void
sonde_calls_file_free (SondeCallsFile *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->records);
  g_byte_array_unref (self->body);
  g_free (self);
}

gsize
sonde_calls_file_size (const SondeCallsFile *self)
{
  return self->records->len;
}

void
sonde_calls_file_clear (SondeCallsFile *self)
{
  g_byte_array_set_size (self->records, 0);
}

static void
put_number (GByteArray *bytes, guint64 number)
{
  guint8 made[SONDE_NUMBER_MAX_BYTES];

  g_byte_array_append (bytes, made, (guint) sonde_number_put (made, number));
}

/* Behind what was put into the body. */
static void
end_record (SondeCallsFile *self, SondeCallsKind kind)
{
  put_number (self->records, kind);
  put_number (self->records, self->body->len);
  g_byte_array_append (self->records, self->body->data, self->body->len);
  g_byte_array_set_size (self->body, 0);
}

static void
put_record (SondeCallsFile *self, SondeCallsKind kind, const guint64 *numbers, gsize n_numbers)
{
  for (gsize i = 0; i < n_numbers; i++)
    put_number (self->body, numbers[i]);
  end_record (self, kind);
}

#define PUT(self, kind, ...)                                                                       \
  put_record (self, kind, (const guint64[]){ __VA_ARGS__ },                                        \
              G_N_ELEMENTS (((const guint64[]){ __VA_ARGS__ })))

void
sonde_calls_file_put_path (SondeCallsFile *self, guint32 path, guint32 parent, guint64 address)
{
  PUT (self, SONDE_CALLS_PATH, path, parent, address);
}

void
sonde_calls_file_put_calls (SondeCallsFile *self, guint32 path, guint64 calls)
{
  PUT (self, SONDE_CALLS_CALLS, path, calls);
}

void
sonde_calls_file_put_times (SondeCallsFile *self, guint32 path, const SondeTrieTimes *times)
{
  guint n_buckets = 0;
  guint last = 0;

  for (guint i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
    n_buckets += times->buckets[i] > 0;
  put_number (self->body, path);
  put_number (self->body, times->timed);
  put_number (self->body, times->total_ticks);
  put_number (self->body, times->self_ticks);
  put_number (self->body, times->nested);
  put_number (self->body, times->min_ticks);
  put_number (self->body, times->max_ticks);
  put_number (self->body, n_buckets);
  for (guint i = 0; i < SONDE_CALLS_N_BUCKETS; i++)
    if (times->buckets[i] > 0)
      {
        put_number (self->body, i - last);
        put_number (self->body, times->buckets[i]);
        last = i;
      }
  end_record (self, SONDE_CALLS_TIMES);
}

void
sonde_calls_file_put_account (SondeCallsFile *self, const SondeTrieCounts *counts, guint32 n_paths)
{
  const guint64 account[SONDE_CALLS_N_ACCOUNTS] = {
    [SONDE_CALLS_ACCOUNT_CALLS] = counts->calls,
    [SONDE_CALLS_ACCOUNT_COUNTED] = counts->counted,
    [SONDE_CALLS_ACCOUNT_LOST_BUDGET] = counts->lost_budget,
    [SONDE_CALLS_ACCOUNT_LOST_DEPTH] = counts->lost_depth,
    [SONDE_CALLS_ACCOUNT_LOST_INTERRUPTED] = counts->lost_interrupted,
    [SONDE_CALLS_ACCOUNT_LOST_THREADS] = counts->lost_threads,
    [SONDE_CALLS_ACCOUNT_LOST_TIMINGS] = counts->lost_timings,
    [SONDE_CALLS_ACCOUNT_LOST_STACKS] = counts->lost_stacks,
    [SONDE_CALLS_ACCOUNT_RESYNCED] = counts->resynced,
    [SONDE_CALLS_ACCOUNT_UNMATCHED] = counts->unmatched,
    [SONDE_CALLS_ACCOUNT_HOOK_TICKS] = counts->hook_ticks,
    [SONDE_CALLS_ACCOUNT_N_HOOKS] = counts->n_hooks,
    [SONDE_CALLS_ACCOUNT_N_THREADS] = counts->n_threads,
    [SONDE_CALLS_ACCOUNT_N_PATHS] = n_paths,
  };

  put_record (self, SONDE_CALLS_ACCOUNT, account, G_N_ELEMENTS (account));
}

void
sonde_calls_file_put_uncounted (SondeCallsFile *self,
                                guint64 address,
                                gint64 since_ns,
                                guint64 calls)
{
  PUT (self, SONDE_CALLS_UNCOUNTED, address, (guint64) since_ns, calls);
}

void
sonde_calls_file_put_words (SondeCallsFile *self, gint32 tid, guint32 path)
{
  PUT (self, SONDE_CALLS_WORDS, (guint32) tid, path);
}

void
sonde_calls_file_put_told (
    SondeCallsFile *self, guint32 n_functions, guint32 n_patched, guint32 n_refused, guint32 reason)
{
  PUT (self, SONDE_CALLS_TOLD, n_functions, n_patched, n_refused, reason);
}

void
sonde_calls_file_put_refused (SondeCallsFile *self, const char *why)
{
  g_byte_array_append (self->body, (const guint8 *) why, (guint) strlen (why));
  end_record (self, SONDE_CALLS_REFUSED);
}

GBytes *
sonde_calls_file_end (SondeCallsFile *self, const SondeCallsHead *head)
{
  GByteArray *file = g_byte_array_new ();
  GByteArray *records = self->records;

  g_byte_array_append (file, (const guint8 *) SONDE_CALLS_MAGIC, SONDE_CALLS_MAGIC_BYTES);
  put_number (file, SONDE_CALLS_VERSION);
  put_number (file, head->ticks_per_s);
  put_number (file, (guint64) head->mode);
  put_number (file, head->sample_every);
  put_number (file, (guint64) head->begin_ns);
  put_number (file, (guint64) head->end_ns);
  g_byte_array_append (file, records->data, records->len);
  g_byte_array_set_size (records, 0);

  PUT (self, SONDE_CALLS_END, file->len);
  g_byte_array_append (file, records->data, records->len);
  g_byte_array_set_size (records, 0);
  return g_byte_array_free_to_bytes (file);
}
