/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/bench/differences.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct
{
  char *example;
  guint64 n;
} Class;

struct Differences
{
  GHashTable *classes; /* of Class by text: both ends and the last frame they share */
};

static void
class_free (gpointer data)
{
  Class *self = data;

  g_free (self->example);
  g_free (self);
}

Differences *
differences_new (void)
{
  Differences *self = g_new0 (Differences, 1);

  self->classes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, class_free);

  return self;
}

void
differences_free (Differences *self)
{
  g_hash_table_unref (self->classes);
  g_free (self);
}

static void
append_stack (
    GString *text, const char *whose, Replay *replay, size_t event, const ReplayStack *stack)
{
  g_string_append_printf (text, "    %s, %s:", whose, sonde_unwind_end_name (stack->end));
  for (size_t i = 0; i < stack->n_addrs; i++)
    {
      g_autofree char *frame = replay_describe (replay, event, stack->addrs[i]);

      g_string_append_printf (text, " %s", frame);
    }
  g_string_append_c (text, '\n');
}

void
differences_add (Differences *self,
                 Replay *replay,
                 size_t event,
                 const ReplayStack *ours,
                 const ReplayStack *theirs)
{
  size_t n_least = MIN (ours->n_addrs, theirs->n_addrs);
  size_t n_shared = 0;
  g_autofree char *place = NULL;
  char *key;
  Class *class;

  while (n_shared < n_least && ours->addrs[n_shared] == theirs->addrs[n_shared])
    n_shared++;
  place = n_shared > 0 ? replay_describe (replay, event, ours->addrs[n_shared - 1])
                       : g_strdup ("the first frame");
  key = g_strdup_printf ("%s, not %s, behind %s%s", sonde_unwind_end_name (ours->end),
                         sonde_unwind_end_name (theirs->end), place,
                         n_shared == 1 ? " (sampled)" : "");
  class = g_hash_table_lookup (self->classes, key);
  if (class == NULL)
    {
      g_autoptr (GString) text = g_string_new (NULL);

      append_stack (text, "sonde", replay, event, ours);
      append_stack (text, "libdwfl", replay, event, theirs);
      class = g_new0 (Class, 1);
      class->example = g_string_free (g_steal_pointer (&text), FALSE);
      g_hash_table_insert (self->classes, g_strdup (key), class);
    }
  class->n++;
  g_free (key);
}

static int
compare_counts (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Differences *self = user_data;
  const Class *left = g_hash_table_lookup (self->classes, *(const char *const *) a);
  const Class *right = g_hash_table_lookup (self->classes, *(const char *const *) b);

  return (left->n < right->n) - (left->n > right->n);
}

void
differences_print (const Differences *self)
{
  guint n;
  g_autofree gpointer *keys = g_hash_table_get_keys_as_array (self->classes, &n);

  g_qsort_with_data (keys, (gint) n, sizeof *keys, compare_counts, (gpointer) self);
  for (guint i = 0; i < n; i++)
    {
      const Class *class = g_hash_table_lookup (self->classes, keys[i]);

      printf ("  %" G_GUINT64_FORMAT " x %s\n%s", class->n, (const char *) keys[i], class->example);
    }
}
