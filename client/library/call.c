/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/call.h"

#include "client/base/text.h"

struct _SondeClientCall
{
  GObject parent_instance;

  SondeCallSums *sums;
  guint process;           /* number, see sonde_call_sums_new_call() */
  guint32 node;            /* of its tree; 0: the process */
  gboolean is_of_finished; /* both are of finished sums */
  gint pid;
  char *name;
  char *module;
  char *source;
  guint64 total;
  guint64 self;
  SondeCallList *callees; /* NULL: nobody has asked */
  guint32 n_seen;         /* nodes of the tree of which those that are callees are there */
};

G_DEFINE_FINAL_TYPE (SondeClientCall, sonde_client_call, G_TYPE_OBJECT)

enum
{
  PROP_NAME = 1,
  PROP_MODULE,
  PROP_SOURCE,
  PROP_PID,
  PROP_TOTAL,
  PROP_SELF,
  PROP_CALLEES,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* --- sums --- */

SondeCallSums *
sonde_call_sums_new (void)
{
  SondeCallSums *self = g_new0 (SondeCallSums, 1);

  self->n_references = 1;
  self->report = sonde_report_new (NULL, 0);
  return self;
}

SondeCallSums *
sonde_call_sums_ref (SondeCallSums *self)
{
  self->n_references++;
  return self;
}

void
sonde_call_sums_unref (SondeCallSums *self)
{
  if (self == NULL || --self->n_references > 0)
    return;
  sonde_report_free (self->report);
  g_free (self);
}

static guint
n_processes (const SondeCallSums *self)
{
  return self->is_finished ? sonde_profile_n_processes (self->report->profile)
                           : sonde_live_profile_n_trees (self->report->live);
}

/* NULL: it has no samples. */
static const SondeCallTree *
tree_of (const SondeCallSums *self, guint process)
{
  return self->is_finished ? sonde_profile_process (self->report->profile, process)->tree
                           : sonde_live_profile_tree (self->report->live, process);
}

static const SondeModelProcess *
process_of (const SondeCallSums *self, guint process)
{
  return self->is_finished ? &sonde_profile_process (self->report->profile, process)->process
                           : sonde_capture_model_process (self->report->model, process);
}

static const SondeFunction *
function_of (const SondeCallSums *self, guint process, guint32 node)
{
  guint32 id = sonde_call_tree_node (tree_of (self, process), node)->id;

  return self->is_finished ? sonde_profile_function (self->report->profile, id)
                           : sonde_live_profile_function (self->report->live, id);
}

/* --- calls --- */

static void
sonde_client_call_finalize (GObject *object)
{
  SondeClientCall *self = SONDE_CLIENT_CALL (object);

  sonde_call_sums_unref (self->sums);
  g_clear_object (&self->callees);
  g_free (self->name);
  g_free (self->module);
  g_free (self->source);
  G_OBJECT_CLASS (sonde_client_call_parent_class)->finalize (object);
}

static void
sonde_client_call_get_property (GObject *object, guint id, GValue *value, GParamSpec *spec)
{
  SondeClientCall *self = SONDE_CLIENT_CALL (object);

  switch (id)
    {
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_MODULE:
      g_value_set_string (value, self->module);
      break;
    case PROP_SOURCE:
      g_value_set_string (value, self->source);
      break;
    case PROP_PID:
      g_value_set_int (value, self->pid);
      break;
    case PROP_TOTAL:
      g_value_set_uint64 (value, self->total);
      break;
    case PROP_SELF:
      g_value_set_uint64 (value, self->self);
      break;
    case PROP_CALLEES:
      g_value_set_object (value, sonde_client_call_get_callee_model (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, spec);
    }
}

static void
sonde_client_call_class_init (SondeClientCallClass *class)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  G_OBJECT_CLASS (class)->finalize = sonde_client_call_finalize;
  G_OBJECT_CLASS (class)->get_property = sonde_client_call_get_property;
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, "", flags);
  properties[PROP_MODULE] = g_param_spec_string ("module", NULL, NULL, "", flags);
  properties[PROP_SOURCE] = g_param_spec_string ("source", NULL, NULL, "", flags);
  properties[PROP_PID] = g_param_spec_int ("pid", NULL, NULL, -1, G_MAXINT, -1, flags);
  properties[PROP_TOTAL] = g_param_spec_uint64 ("total", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  properties[PROP_SELF] = g_param_spec_uint64 ("self", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  properties[PROP_CALLEES] = g_param_spec_object ("callees", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  g_object_class_install_properties (G_OBJECT_CLASS (class), N_PROPERTIES, properties);
}

static void
sonde_client_call_init (SondeClientCall *self)
{
}

static void
set_sums (SondeClientCall *self, guint64 total, guint64 own)
{
  gboolean has_total = self->total != total;
  gboolean has_self = self->self != own;

  self->total = total;
  self->self = own;
  if (has_total)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TOTAL]);
  if (has_self)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SELF]);
}

SondeClientCall *
sonde_call_sums_new_call (SondeCallSums *sums, guint process, guint32 node)
{
  SondeClientCall *self = g_object_new (SONDE_CLIENT_TYPE_CALL, NULL);
  const SondeModelProcess *of = process_of (sums, process);
  const SondeCallNode *at = sonde_call_tree_node (tree_of (sums, process), node);
  const SondeFunction *function = node != 0 ? function_of (sums, process, node) : NULL;

  self->sums = sonde_call_sums_ref (sums);
  self->process = process;
  self->node = node;
  self->is_of_finished = sums->is_finished;
  self->pid = of->pid;
  self->name = function != NULL ? g_strdup (function->name) : sonde_text_escape (of->comm, -1);
  self->module = g_strdup (function != NULL ? function->module : "");
  self->source = g_strdup (function != NULL ? function->source : "");
  self->total = at->total;
  self->self = at->self;
  return self;
}

const char *
sonde_client_call_get_name (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  return self->name;
}

const char *
sonde_client_call_get_module (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  return self->module;
}

const char *
sonde_client_call_get_source (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  return self->source;
}

gint
sonde_client_call_get_pid (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), -1);

  return self->pid;
}

guint64
sonde_client_call_get_total (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), 0);

  return self->total;
}

guint64
sonde_client_call_get_self (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), 0);

  return self->self;
}

/* NULL: of one that is no more since the names were looked up once more. */
static const SondeCallTree *
own_tree (SondeClientCall *self)
{
  return self->is_of_finished == self->sums->is_finished ? tree_of (self->sums, self->process)
                                                         : NULL;
}

static int
compare_ids (gconstpointer a, gconstpointer b, gpointer user_data)
{
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  return left < right ? -1 : left > right;
}

GPtrArray *
sonde_client_call_get_callees (SondeClientCall *self)
{
  GPtrArray *callees = g_ptr_array_new_with_free_func (g_object_unref);
  const SondeCallTree *tree;
  g_autoptr (GArray) nodes = NULL;

  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), callees);

  tree = own_tree (self);
  if (tree == NULL)
    return callees;
  nodes = sonde_call_tree_dup_children (tree, self->node, compare_ids, NULL);
  for (guint i = 0; i < nodes->len; i++)
    g_ptr_array_add (callees, sonde_call_sums_new_call (self->sums, self->process,
                                                        g_array_index (nodes, guint32, i)));
  return callees;
}

/* --- lists --- */

/* Callees that came since: nodes of a tree that grows are numbered as they come. */
static void
append_new_callees (SondeClientCall *self)
{
  const SondeCallTree *tree = own_tree (self);
  guint32 oldest = sonde_call_tree_node (tree, self->node)->first_child;
  g_autoptr (GPtrArray) added = NULL;

  if (oldest == 0)
    return;
  added = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint32 node = sonde_call_tree_node (tree, oldest)->next_sibling;
       node != 0 && node >= self->n_seen; node = sonde_call_tree_node (tree, node)->next_sibling)
    g_ptr_array_add (added, sonde_call_sums_new_call (self->sums, self->process, node));
  if (oldest >= self->n_seen)
    g_ptr_array_add (added, sonde_call_sums_new_call (self->sums, self->process, oldest));
  for (guint i = 0; i < added->len / 2; i++)
    {
      gpointer newer = added->pdata[i];

      added->pdata[i] = added->pdata[added->len - 1 - i];
      added->pdata[added->len - 1 - i] = newer;
    }
  self->n_seen = sonde_call_tree_n_nodes (tree);
  sonde_call_list_append (self->callees, added);
}

GListModel *
sonde_client_call_get_callee_model (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  if (self->callees == NULL)
    {
      self->callees = sonde_call_list_new ();
      if (own_tree (self) != NULL)
        append_new_callees (self);
    }
  return G_LIST_MODEL (self->callees);
}

static void
update (SondeClientCall *self)
{
  const SondeCallNode *node = sonde_call_tree_node (own_tree (self), self->node);
  const GPtrArray *callees;

  /* what one of its callees is heavier by, it is, too */
  if (self->total == node->total && self->self == node->self)
    return;
  set_sums (self, node->total, node->self);
  if (self->callees == NULL)
    return;
  callees = sonde_call_list_peek (self->callees);
  for (guint i = 0; i < callees->len; i++)
    update (g_ptr_array_index (callees, i));
  append_new_callees (self);
}

void
sonde_call_sums_update (SondeCallSums *sums, SondeCallList *processes)
{
  g_autoptr (GPtrArray) added = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GHashTable) known = g_hash_table_new (NULL, NULL);
  const GPtrArray *shown = sonde_call_list_peek (processes);

  for (guint i = 0; i < shown->len; i++)
    {
      SondeClientCall *process = g_ptr_array_index (shown, i);

      g_hash_table_add (known, GUINT_TO_POINTER (process->process));
      update (process);
    }
  for (guint i = 0; i < n_processes (sums); i++)
    if (tree_of (sums, i) != NULL && !g_hash_table_contains (known, GUINT_TO_POINTER (i)))
      g_ptr_array_add (added, sonde_call_sums_new_call (sums, i, 0));
  sonde_call_list_append (processes, added);
}

static char *
dup_key (const SondeClientCall *call)
{
  return g_strdup_printf ("%d %s %s", call->node == 0 ? call->pid : 0, call->module, call->name);
}

/* Has the row be the one that @found is. */
static void settle (SondeClientCall *self, SondeClientCall *found);

/* Has @list be of @wanted: rows that are in both stay, others go, new ones come behind them. */
static void
settle_list (SondeCallList *list, GPtrArray *wanted)
{
  g_autoptr (GHashTable) by_key = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) added = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GHashTable) taken = g_hash_table_new (NULL, NULL);
  const GPtrArray *rows = sonde_call_list_peek (list);

  /* backwards, so that the first of equal ones is found: they differ in their lines */
  for (guint i = wanted->len; i > 0; i--)
    g_hash_table_replace (by_key, dup_key (g_ptr_array_index (wanted, i - 1)),
                          g_ptr_array_index (wanted, i - 1));
  for (guint i = rows->len; i > 0; i--)
    {
      SondeClientCall *row = g_ptr_array_index (rows, i - 1);
      g_autofree char *key = dup_key (row);
      SondeClientCall *found = g_hash_table_lookup (by_key, key);

      if (found == NULL)
        {
          sonde_call_list_remove (list, i - 1);
          continue;
        }
      g_hash_table_remove (by_key, key);
      g_hash_table_add (taken, found);
      settle (row, found);
    }
  for (guint i = 0; i < wanted->len; i++)
    if (!g_hash_table_contains (taken, g_ptr_array_index (wanted, i)))
      g_ptr_array_add (added, g_object_ref (g_ptr_array_index (wanted, i)));
  sonde_call_list_append (list, added);
}

static void
settle (SondeClientCall *self, SondeClientCall *found)
{
  gboolean has_source = g_strcmp0 (self->source, found->source) != 0;

  self->process = found->process;
  self->node = found->node;
  self->is_of_finished = TRUE;
  if (has_source)
    {
      g_free (self->source);
      self->source = g_strdup (found->source);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SOURCE]);
    }
  set_sums (self, found->total, found->self);
  if (self->callees != NULL)
    {
      g_autoptr (GPtrArray) callees = sonde_client_call_get_callees (self);

      self->n_seen = sonde_call_tree_n_nodes (own_tree (self));
      settle_list (self->callees, callees);
    }
}

void
sonde_call_sums_settle (SondeCallSums *sums, SondeCallList *processes)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < n_processes (sums); i++)
    g_ptr_array_add (all, sonde_call_sums_new_call (sums, i, 0));
  settle_list (processes, all);
}
