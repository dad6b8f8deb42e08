/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/mcp/mcp-tree.h"

#include <string.h>

#include "client/base/text.h"

#define NOWHERE G_MAXUINT32

/* A node; all those of all processes are in one array, with their parents before them. */
typedef struct
{
  guint32 function; /* a value of the document */
  guint32 parent;   /* an index; NOWHERE */
  guint depth;
  gint64 total;
} Node;

struct SondeMcpTree
{
  const SondeJsonDocument *told;
  GArray *nodes;   /* Node */
  GArray *order;   /* guint32: nodes, those of one parent together, the heaviest first */
  GArray *waiting; /* guint32: a stack of positions in the order, that come next */
  guint32 *first;  /* by node: where those below it begin in the order */
  guint32 *n_below;
};

/* guint32: the values in an array. */
static GArray *
dup_values (const SondeJsonDocument *told, guint32 array)
{
  GArray *values = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint32 value = sonde_json_document_first (told, array); value != SONDE_JSON_ABSENT;
       value = sonde_json_document_next (told, value))
    g_array_append_val (values, value);
  return values;
}

static gint64
number_of (const SondeJsonDocument *told, guint32 object, const char *member)
{
  gint64 number = -1;

  sonde_json_document_integer (told, sonde_json_document_member (told, object, member), &number);
  return number;
}

/* Nodes whose function or parent is not there are left out: nothing of ours has any. */
static GArray *
dup_nodes (const SondeJsonDocument *told)
{
  g_autoptr (GArray) functions
      = dup_values (told, sonde_json_document_member (told, 0, "functions"));
  GArray *nodes = g_array_new (FALSE, FALSE, sizeof (Node));
  guint32 process
      = sonde_json_document_first (told, sonde_json_document_member (told, 0, "processes"));

  for (; process != SONDE_JSON_ABSENT; process = sonde_json_document_next (told, process))
    {
      guint32 begin = nodes->len;
      guint32 value
          = sonde_json_document_first (told, sonde_json_document_member (told, process, "nodes"));

      for (; value != SONDE_JSON_ABSENT; value = sonde_json_document_next (told, value))
        {
          gint64 function = number_of (told, value, "function");
          gint64 parent = number_of (told, value, "parent");
          Node node = { .parent = NOWHERE, .total = number_of (told, value, "total") };

          if (function < 0 || function >= functions->len || parent >= (gint64) (nodes->len - begin))
            continue;
          node.function = g_array_index (functions, guint32, function);
          if (parent >= 0)
            {
              node.parent = begin + (guint32) parent;
              node.depth = g_array_index (nodes, Node, node.parent).depth + 1;
            }
          g_array_append_val (nodes, node);
        }
    }
  return nodes;
}

static int
compare_nodes (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const GArray *nodes = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  const Node *one = &g_array_index (nodes, Node, left);
  const Node *other = &g_array_index (nodes, Node, right);

  if (one->parent != other->parent)
    return one->parent < other->parent ? -1 : 1;
  if (one->total != other->total)
    return one->total > other->total ? -1 : 1;
  return left < right ? -1 : 1;
}

static void
push_below (SondeMcpTree *self, guint32 first, guint32 n)
{
  for (guint32 i = n; i > 0; i--)
    {
      guint32 position = first + i - 1;

      g_array_append_val (self->waiting, position);
    }
}

SondeMcpTree *
sonde_mcp_tree_new (const SondeJsonDocument *told)
{
  SondeMcpTree *self = g_new0 (SondeMcpTree, 1);
  guint32 n_outermost = 0;
  guint32 n;

  self->told = told;
  self->nodes = dup_nodes (told);
  n = self->nodes->len;
  self->order = g_array_sized_new (FALSE, FALSE, sizeof (guint32), n);
  self->waiting = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->first = g_new0 (guint32, n);
  self->n_below = g_new0 (guint32, n);
  for (guint32 i = 0; i < n; i++)
    g_array_append_val (self->order, i);
  g_array_sort_with_data (self->order, compare_nodes, self->nodes);
  for (guint32 i = 0; i < n; i++)
    {
      guint32 parent
          = g_array_index (self->nodes, Node, g_array_index (self->order, guint32, i)).parent;

      if (parent == NOWHERE)
        n_outermost++; /* they are the last ones */
      else if (self->n_below[parent]++ == 0)
        self->first[parent] = i;
    }
  push_below (self, n - n_outermost, n_outermost);
  return self;
}

void
sonde_mcp_tree_free (SondeMcpTree *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->nodes);
  g_array_unref (self->order);
  g_array_unref (self->waiting);
  g_free (self->first);
  g_free (self->n_below);
  g_free (self);
}

gboolean
sonde_mcp_tree_next (SondeMcpTree *self, guint32 *function, guint *depth, gint64 *total)
{
  const Node *node;
  guint32 index;

  if (self->waiting->len == 0)
    return FALSE;
  index = g_array_index (self->order, guint32,
                         g_array_index (self->waiting, guint32, self->waiting->len - 1));
  g_array_set_size (self->waiting, self->waiting->len - 1);
  push_below (self, self->first[index], self->n_below[index]);
  node = &g_array_index (self->nodes, Node, index);
  *function = node->function;
  *depth = node->depth;
  *total = node->total;
  return TRUE;
}

/* --- locks --- */

/* Functions that take locks, or wait, or wake who waits: as their names begin, without what C
 * libraries put in front of them. */
static const char *const lock_names[] = { "pthread_mutex_",
                                          "pthread_rwlock_",
                                          "pthread_spin_lock",
                                          "pthread_cond_",
                                          "pthread_barrier_wait",
                                          "lll_lock_",
                                          "lll_mutex_",
                                          "futex_",
                                          "sem_wait",
                                          "sem_timedwait",
                                          "new_sem_wait",
                                          "g_mutex_lock",
                                          "g_rec_mutex_lock",
                                          "g_rw_lock_",
                                          "g_cond_wait",
                                          "mtx_lock",
                                          "cnd_wait",
                                          "std::mutex::",
                                          "std::lock_guard<",
                                          "std::unique_lock<",
                                          "std::scoped_lock<",
                                          "std::shared_mutex::",
                                          "std::condition_variable::",
                                          "std::sys::sync::mutex::",
                                          "parking_lot::",
                                          "sync.(*Mutex).Lock",
                                          "sync.(*RWMutex).",
                                          "runtime.lock2",
                                          "PyThread_acquire_lock",
                                          "take_gil" };

static gboolean
is_lock (const char *name)
{
  name += strspn (name, "_");
  for (guint i = 0; i < G_N_ELEMENTS (lock_names); i++)
    if (g_str_has_prefix (name, lock_names[i]))
      return TRUE;
  return FALSE;
}

static void
lock_free (gpointer data)
{
  SondeMcpLock *self = data;

  g_free (self->caller);
  g_free (self->module);
  g_free (self->lock);
  g_free (self);
}

static const char *
text_of (const SondeJsonDocument *told, guint32 object, const char *member)
{
  const char *text
      = sonde_json_document_text (told, sonde_json_document_member (told, object, member));

  return text != NULL ? text : "";
}

static int
compare_locks (gconstpointer a, gconstpointer b)
{
  const SondeMcpLock *one = *(SondeMcpLock *const *) a;
  const SondeMcpLock *other = *(SondeMcpLock *const *) b;

  if (one->n_samples != other->n_samples)
    return one->n_samples > other->n_samples ? -1 : 1;
  return strcmp (one->caller, other->caller);
}

/* Of a stack the outermost lock counts, with all below it. */
GPtrArray *
sonde_mcp_tree_dup_locks (const SondeJsonDocument *told)
{
  g_autoptr (GArray) nodes = dup_nodes (told);
  g_autofree gboolean *is_within = g_new0 (gboolean, nodes->len);
  g_autoptr (GHashTable) known = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  GPtrArray *locks = g_ptr_array_new_with_free_func (lock_free);

  for (guint32 i = 0; i < nodes->len; i++)
    {
      const Node *node = &g_array_index (nodes, Node, i);
      const char *name = text_of (told, node->function, "name");
      guint32 caller = node->parent != NOWHERE ? g_array_index (nodes, Node, node->parent).function
                                               : SONDE_JSON_ABSENT;
      const char *module = text_of (told, caller, "module");
      g_autofree char *key = NULL;
      SondeMcpLock *lock;

      is_within[i] = node->parent != NOWHERE && is_within[node->parent];
      if (is_within[i] || !is_lock (name))
        continue;
      is_within[i] = TRUE;
      key = g_strjoin ("\n", text_of (told, caller, "name"), module, name, NULL);
      lock = g_hash_table_lookup (known, key);
      if (lock == NULL)
        {
          lock = g_new0 (SondeMcpLock, 1);
          lock->caller = g_strdup (text_of (told, caller, "name"));
          lock->module = g_strdup (module);
          lock->lock = g_strdup (name);
          g_ptr_array_add (locks, lock);
          g_hash_table_insert (known, g_steal_pointer (&key), lock);
        }
      if (__builtin_add_overflow (lock->n_samples, node->total, &lock->n_samples))
        lock->n_samples = G_MAXINT64;
    }
  g_ptr_array_sort (locks, compare_locks);
  return locks;
}
