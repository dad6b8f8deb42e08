/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/slow-calls.h"

#include <inttypes.h>
#include <string.h>

#include "protocol/calls.h"
#include "protocol/frame.h"

/* Of a MARK frame's text: what is further out is left out. */
#define MAX_PATH_BYTES 4096

struct SondeSlowCalls
{
  SondeInferior *inferior;
  const SondeCallPaths *paths;
  GArray *calls;     /* SondeSlowCall */
  GHashTable *names; /* address, in boxes → name */
  guint n_turns;     /* in which some were looked up */
};

SondeSlowCalls *
sonde_slow_calls_new (SondeInferior *inferior, const SondeCallPaths *paths)
{
  SondeSlowCalls *self = g_new0 (SondeSlowCalls, 1);

  self->inferior = inferior;
  self->paths = paths;
  self->calls = g_array_new (FALSE, FALSE, sizeof (SondeSlowCall));
  self->names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  return self;
}

void
sonde_slow_calls_free (SondeSlowCalls *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->calls);
  g_hash_table_unref (self->names);
  g_free (self);
}

gboolean
sonde_slow_calls_add (SondeSlowCalls *self, const SondeSlowCall *call)
{
  if (self->calls->len >= SONDE_SLOW_CALLS_MAX)
    return FALSE;
  g_array_append_val (self->calls, *call);
  return TRUE;
}

/* --- names --- */

/* The functions of all paths that have no name yet. */
static GArray *
list_unnamed (SondeSlowCalls *self)
{
  GArray *unnamed = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL); /* paths */
  guint room = SONDE_SLOW_CALLS_MAX_NAMES
               - MIN (g_hash_table_size (self->names), SONDE_SLOW_CALLS_MAX_NAMES);

  for (guint i = 0; i < self->calls->len; i++)
    for (guint32 path = g_array_index (self->calls, SondeSlowCall, i).path;
         path != 0 && g_hash_table_add (seen, GUINT_TO_POINTER (path));
         path = sonde_call_paths_at (self->paths, path)->parent)
      {
        const SondeCallPath *at = sonde_call_paths_at (self->paths, path);

        if (at->parent != 0 && unnamed->len < room
            && !g_hash_table_contains (self->names, &at->function))
          g_array_append_val (unnamed, at->function);
      }
  return unnamed;
}

/* What is not mapped, as far as is known, may have its name the next time. */
static void
name_functions (SondeSlowCalls *self, gint64 now_ns)
{
  SondeInferiorParts *parts = self->inferior->parts;
  SondeProcess *process = sonde_tracker_process (parts->tracker, self->inferior->pid, now_ns);
  g_autoptr (GArray) unnamed = list_unnamed (self);
  g_autofree char **names = g_new0 (char *, unnamed->len + 1);

  if (process == NULL || unnamed->len == 0 || self->n_turns >= SONDE_SLOW_CALLS_MAX_TURNS)
    return;
  self->n_turns++;
  sonde_sampler_find_names (parts->sampler, process, (const uint64_t *) (void *) unnamed->data,
                            unnamed->len, names);
  for (guint i = 0; i < unnamed->len; i++)
    if (names[i] != NULL)
      g_hash_table_replace (self->names,
                            g_memdup2 (&g_array_index (unnamed, uint64_t, i), sizeof (uint64_t)),
                            names[i]);
}

static void
write_name (const SondeSlowCalls *self, GString *text, uint64_t function)
{
  const char *name = g_hash_table_lookup (self->names, &function);

  g_string_truncate (text, 0);
  if (name != NULL)
    g_string_append (text, name);
  else if (function == SONDE_TRIE_SIGNAL_ROOT)
    g_string_append (text, "[signal]");
  else
    g_string_append_printf (text, "0x%" PRIx64, function);
}

/* --- marks --- */

/* Cut between two characters, if these are UTF-8. */
static void
copy_text (char *to, gsize size_bytes, const char *text)
{
  gsize end = size_bytes - 1;

  if (g_strlcpy (to, text, size_bytes) < size_bytes)
    return;
  while (end > 0 && ((guint8) text[end] & 0xC0) == 0x80)
    end--;
  memset (to + end, 0, size_bytes - end);
}

/* The path from the outside, ended by the function itself. */
static char *
describe_path (const SondeSlowCalls *self, guint32 path, GString *name)
{
  GString *text = g_string_new (NULL);

  for (const SondeCallPath *at = sonde_call_paths_at (self->paths, path);
       at->parent != 0 || at->function == SONDE_TRIE_SIGNAL_ROOT;
       at = sonde_call_paths_at (self->paths, at->parent))
    {
      write_name (self, name, at->function);
      if (text->len > 0)
        g_string_append (name, " > ");
      if (text->len + name->len > MAX_PATH_BYTES)
        {
          g_string_prepend (text, "… > ");
          break;
        }
      g_string_prepend_len (text, name->str, (gssize) name->len);
      if (at->parent == 0)
        break;
    }
  return g_string_free (text, FALSE);
}

static gint
compare_calls (gconstpointer first, gconstpointer second)
{
  const SondeSlowCall *a = first;
  const SondeSlowCall *b = second;

  return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

void
sonde_slow_calls_tell (SondeSlowCalls *self)
{
  g_autoptr (GString) name = g_string_new (NULL);
  g_autofree SondeFrameMark *mark
      = g_malloc0 (sizeof (SondeFrameMark) + MAX_PATH_BYTES + 2 * SONDE_FRAME_ALIGN);

  if (self->calls->len == 0)
    return;
  name_functions (self, sonde_stream_now_ns ());
  g_array_sort (self->calls, compare_calls);
  for (guint i = 0; i < self->calls->len; i++)
    {
      const SondeSlowCall *call = &g_array_index (self->calls, SondeSlowCall, i);
      g_autofree char *path = describe_path (self, call->path, name);
      gsize size_bytes = sizeof *mark + strlen (path) + 1;

      memset (mark, 0, sizeof *mark);
      mark->frame.type = SONDE_FRAME_MARK;
      mark->frame.cpu = -1;
      mark->frame.pid = self->inferior->pid;
      mark->frame.time_ns = call->begin_ns;
      mark->duration_ns = call->duration_ns;
      copy_text (mark->group, sizeof mark->group, SONDE_CALLS_SLOW_GROUP);
      write_name (self, name, sonde_call_paths_at (self->paths, call->path)->function);
      copy_text (mark->name, sizeof mark->name, name->str);
      memcpy (mark->message, path, strlen (path) + 1);
      while (size_bytes % SONDE_FRAME_ALIGN != 0)
        ((char *) mark)[size_bytes++] = '\0';
      mark->frame.len = (uint16_t) size_bytes;
      sonde_recorder_event (self->inferior->parts->recorder, &mark->frame);
    }
  g_array_set_size (self->calls, 0);
}
