/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/call-list.h"

struct _SondeCallList
{
  GObject parent_instance;

  GPtrArray *calls;
};

static void list_model_init (GListModelInterface *interface);

G_DEFINE_FINAL_TYPE_WITH_CODE (SondeCallList,
                               sonde_call_list,
                               G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

static GType
get_item_type (GListModel *list)
{
  return SONDE_CLIENT_TYPE_CALL;
}

static guint
get_n_items (GListModel *list)
{
  return SONDE_CALL_LIST (list)->calls->len;
}

static gpointer
get_item (GListModel *list, guint position)
{
  const GPtrArray *calls = SONDE_CALL_LIST (list)->calls;

  return position < calls->len ? g_object_ref (g_ptr_array_index (calls, position)) : NULL;
}

static void
list_model_init (GListModelInterface *interface)
{
  interface->get_item_type = get_item_type;
  interface->get_n_items = get_n_items;
  interface->get_item = get_item;
}

static void
sonde_call_list_finalize (GObject *object)
{
  g_ptr_array_unref (SONDE_CALL_LIST (object)->calls);
  G_OBJECT_CLASS (sonde_call_list_parent_class)->finalize (object);
}

static void
sonde_call_list_class_init (SondeCallListClass *class)
{
  G_OBJECT_CLASS (class)->finalize = sonde_call_list_finalize;
}

static void
sonde_call_list_init (SondeCallList *self)
{
  self->calls = g_ptr_array_new_with_free_func (g_object_unref);
}

SondeCallList *
sonde_call_list_new (void)
{
  return g_object_new (SONDE_TYPE_CALL_LIST, NULL);
}

const GPtrArray *
sonde_call_list_peek (const SondeCallList *self)
{
  return self->calls;
}

void
sonde_call_list_append (SondeCallList *self, const GPtrArray *calls)
{
  guint n_before = self->calls->len;

  for (guint i = 0; i < calls->len; i++)
    g_ptr_array_add (self->calls, g_object_ref (g_ptr_array_index (calls, i)));
  if (calls->len > 0)
    g_list_model_items_changed (G_LIST_MODEL (self), n_before, 0, calls->len);
}

void
sonde_call_list_remove (SondeCallList *self, guint position)
{
  g_autoptr (GObject) call = g_ptr_array_steal_index (self->calls, position);

  g_list_model_items_changed (G_LIST_MODEL (self), position, 1, 0);
}
