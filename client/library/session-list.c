/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/library/session-list.h"

#include "client/base/text.h"

struct _SondeClientSessionInfo
{
  GObject parent_instance;

  char *path;
  guint64 number;
  guint owner_uid;
  char *state;
  guint64 start_us;
  char *description;
};

/* What was heard while a question is on its way is asked once more. */
struct _SondeClientSessionList
{
  GObject parent_instance;

  GObject *profiler; /* keeps the connection */
  SondeConnection *connection;
  gboolean asks; /* for everybody's */
  GPtrArray *sessions;
  GCancellable *calls;
  guint signals[3]; /* subscriptions */
  guint owner_watch;
  gboolean is_subscribed;
  gboolean is_asking;
  gboolean asks_again;
  gboolean is_current;
};

static void list_model_init (GListModelInterface *interface);

G_DEFINE_FINAL_TYPE (SondeClientSessionInfo, sonde_client_session_info, G_TYPE_OBJECT)
G_DEFINE_FINAL_TYPE_WITH_CODE (SondeClientSessionList,
                               sonde_client_session_list,
                               G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

enum
{
  PROP_NUMBER = 1,
  PROP_OWNER_UID,
  PROP_STATE,
  PROP_START_US,
  PROP_DESCRIPTION,
  N_INFO_PROPERTIES
};

enum
{
  PROP_IS_CURRENT = 1,
  N_LIST_PROPERTIES
};

static GParamSpec *info_properties[N_INFO_PROPERTIES];
static GParamSpec *list_properties[N_LIST_PROPERTIES];

/* --- a session --- */

static void
sonde_client_session_info_finalize (GObject *object)
{
  SondeClientSessionInfo *self = SONDE_CLIENT_SESSION_INFO (object);

  g_free (self->path);
  g_free (self->state);
  g_free (self->description);
  G_OBJECT_CLASS (sonde_client_session_info_parent_class)->finalize (object);
}

static void
sonde_client_session_info_get_property (GObject *object, guint id, GValue *value, GParamSpec *spec)
{
  SondeClientSessionInfo *self = SONDE_CLIENT_SESSION_INFO (object);

  switch (id)
    {
    case PROP_NUMBER:
      g_value_set_uint64 (value, self->number);
      break;
    case PROP_OWNER_UID:
      g_value_set_uint (value, self->owner_uid);
      break;
    case PROP_STATE:
      g_value_set_string (value, self->state);
      break;
    case PROP_START_US:
      g_value_set_uint64 (value, self->start_us);
      break;
    case PROP_DESCRIPTION:
      g_value_set_string (value, self->description);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, spec);
    }
}

static void
sonde_client_session_info_class_init (SondeClientSessionInfoClass *class)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  G_OBJECT_CLASS (class)->finalize = sonde_client_session_info_finalize;
  G_OBJECT_CLASS (class)->get_property = sonde_client_session_info_get_property;
  info_properties[PROP_NUMBER]
      = g_param_spec_uint64 ("number", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  info_properties[PROP_OWNER_UID]
      = g_param_spec_uint ("owner-uid", NULL, NULL, 0, G_MAXUINT, 0, flags);
  info_properties[PROP_STATE] = g_param_spec_string ("state", NULL, NULL, "", flags);
  info_properties[PROP_START_US]
      = g_param_spec_uint64 ("start-us", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  info_properties[PROP_DESCRIPTION] = g_param_spec_string ("description", NULL, NULL, "", flags);
  g_object_class_install_properties (G_OBJECT_CLASS (class), N_INFO_PROPERTIES, info_properties);
}

static void
sonde_client_session_info_init (SondeClientSessionInfo *self)
{
}

/* @row: (ousts) of ListSessions */
static SondeClientSessionInfo *
new_info (GVariant *row)
{
  SondeClientSessionInfo *self = g_object_new (SONDE_CLIENT_TYPE_SESSION_INFO, NULL);
  const char *state, *description;

  g_variant_get (row, "(ou&st&s)", &self->path, &self->owner_uid, &state, &self->start_us,
                 &description);
  self->number = sonde_client_session_number (self->path);
  self->state = sonde_text_escape (state, -1);
  self->description = sonde_text_escape (description, -1);
  return self;
}

static void
set_state (SondeClientSessionInfo *self, const char *state)
{
  char *escaped = sonde_text_escape (state, -1);

  if (g_str_equal (self->state, escaped))
    {
      g_free (escaped);
      return;
    }
  g_free (self->state);
  self->state = escaped;
  g_object_notify_by_pspec (G_OBJECT (self), info_properties[PROP_STATE]);
}

guint64
sonde_client_session_info_get_number (SondeClientSessionInfo *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION_INFO (self), 0);

  return self->number;
}

guint
sonde_client_session_info_get_owner_uid (SondeClientSessionInfo *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION_INFO (self), 0);

  return self->owner_uid;
}

const char *
sonde_client_session_info_get_state (SondeClientSessionInfo *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION_INFO (self), NULL);

  return self->state;
}

guint64
sonde_client_session_info_get_start_us (SondeClientSessionInfo *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION_INFO (self), 0);

  return self->start_us;
}

const char *
sonde_client_session_info_get_description (SondeClientSessionInfo *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_SESSION_INFO (self), NULL);

  return self->description;
}

/* --- the list --- */

static GType
get_item_type (GListModel *list)
{
  return SONDE_CLIENT_TYPE_SESSION_INFO;
}

static guint
get_n_items (GListModel *list)
{
  return SONDE_CLIENT_SESSION_LIST (list)->sessions->len;
}

static gpointer
get_item (GListModel *list, guint position)
{
  const GPtrArray *sessions = SONDE_CLIENT_SESSION_LIST (list)->sessions;

  return position < sessions->len ? g_object_ref (g_ptr_array_index (sessions, position)) : NULL;
}

static void
list_model_init (GListModelInterface *interface)
{
  interface->get_item_type = get_item_type;
  interface->get_n_items = get_n_items;
  interface->get_item = get_item;
}

static void
sonde_client_session_list_finalize (GObject *object)
{
  SondeClientSessionList *self = SONDE_CLIENT_SESSION_LIST (object);

  g_cancellable_cancel (self->calls);
  for (guint i = 0; i < G_N_ELEMENTS (self->signals); i++)
    g_dbus_connection_signal_unsubscribe (self->connection->bus, self->signals[i]);
  if (self->owner_watch != 0)
    g_bus_unwatch_name (self->owner_watch);
  g_object_unref (self->calls);
  g_ptr_array_unref (self->sessions);
  g_object_unref (self->profiler);
  G_OBJECT_CLASS (sonde_client_session_list_parent_class)->finalize (object);
}

static void
sonde_client_session_list_get_property (GObject *object, guint id, GValue *value, GParamSpec *spec)
{
  if (id == PROP_IS_CURRENT)
    g_value_set_boolean (value, SONDE_CLIENT_SESSION_LIST (object)->is_current);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, spec);
}

static void
sonde_client_session_list_class_init (SondeClientSessionListClass *class)
{
  G_OBJECT_CLASS (class)->finalize = sonde_client_session_list_finalize;
  G_OBJECT_CLASS (class)->get_property = sonde_client_session_list_get_property;
  list_properties[PROP_IS_CURRENT]
      = g_param_spec_boolean ("is-current", NULL, NULL, FALSE,
                              G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (G_OBJECT_CLASS (class), N_LIST_PROPERTIES, list_properties);
}

static void
sonde_client_session_list_init (SondeClientSessionList *self)
{
  self->sessions = g_ptr_array_new_with_free_func (g_object_unref);
  self->calls = g_cancellable_new ();
}

static void
set_current (SondeClientSessionList *self, gboolean is_current)
{
  if (self->is_current == is_current)
    return;
  self->is_current = is_current;
  g_object_notify_by_pspec (G_OBJECT (self), list_properties[PROP_IS_CURRENT]);
}

static SondeClientSessionInfo *
find (SondeClientSessionList *self, const char *path, guint *position)
{
  for (guint i = 0; i < self->sessions->len; i++)
    {
      SondeClientSessionInfo *info = g_ptr_array_index (self->sessions, i);

      if (g_str_equal (info->path, path))
        {
          *position = i;
          return info;
        }
    }
  return NULL;
}

static void
remove_at (SondeClientSessionList *self, guint position)
{
  g_autoptr (GObject) info = g_ptr_array_steal_index (self->sessions, position);

  g_list_model_items_changed (G_LIST_MODEL (self), position, 1, 0);
}

/* The same number at another time is another one: of a service that knows nothing of the one
 * before.
 */
static gboolean
is_same (gconstpointer a, gconstpointer b)
{
  const SondeClientSessionInfo *left = a;
  const SondeClientSessionInfo *right = b;

  return left->number == right->number && left->start_us == right->start_us;
}

/* Has the list be of the rows of ListSessions: those that are in both stay. */
static void
take_sessions (SondeClientSessionList *self, GVariant *rows)
{
  g_autoptr (GPtrArray) told = g_ptr_array_new_with_free_func (g_object_unref);
  guint n_before, position;

  for (gsize i = 0; i < g_variant_n_children (rows); i++)
    {
      g_autoptr (GVariant) row = g_variant_get_child_value (rows, i);

      g_ptr_array_add (told, new_info (row));
    }
  for (guint i = self->sessions->len; i > 0; i--)
    if (!g_ptr_array_find_with_equal_func (told, g_ptr_array_index (self->sessions, i - 1), is_same,
                                           NULL))
      remove_at (self, i - 1);
  n_before = self->sessions->len;
  for (guint i = 0; i < told->len; i++)
    {
      SondeClientSessionInfo *came = g_ptr_array_index (told, i);

      if (g_ptr_array_find_with_equal_func (self->sessions, came, is_same, &position))
        set_state (g_ptr_array_index (self->sessions, position), came->state);
      else
        g_ptr_array_add (self->sessions, g_object_ref (came));
    }
  if (self->sessions->len > n_before)
    g_list_model_items_changed (G_LIST_MODEL (self), n_before, 0, self->sessions->len - n_before);
}

static void ask (SondeClientSessionList *self);

static void
listed (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = sonde_connection_call_finish (source, result, NULL, &error);
  SondeClientSessionList *self = user_data;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return; /* the list is gone */
  self->is_asking = FALSE;
  if (self->asks_again)
    {
      ask (self);
      return;
    }
  if (answer != NULL)
    {
      g_autoptr (GVariant) rows = g_variant_get_child_value (answer, 0);

      take_sessions (self, rows);
    }
  set_current (self, answer != NULL && self->is_subscribed);
}

static void
list_sessions (SondeClientSessionList *self)
{
  sonde_connection_call (self->connection,
                         &(SondeServiceCall){ .method = "ListSessions",
                                              .type = "(a(ousts))",
                                              .is_quiet = !self->asks },
                         self->calls, listed, self);
}

/* A service that knows no subscribers, or has too many, is asked once: then the list is as it was
 * then. */
static void
subscribed (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = sonde_connection_call_finish (source, result, NULL, &error);
  SondeClientSessionList *self = user_data;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  self->is_subscribed = answer != NULL;
  list_sessions (self);
}

static void
ask (SondeClientSessionList *self)
{
  self->asks_again = self->is_asking;
  if (self->is_asking)
    return;
  self->is_asking = TRUE;
  if (self->is_subscribed)
    list_sessions (self);
  else
    sonde_connection_call (
        self->connection,
        &(SondeServiceCall){ .method = "Subscribe", .type = "()", .is_quiet = !self->asks },
        self->calls, subscribed, self);
}

static void
session_came (GDBusConnection *bus,
              const char *sender,
              const char *path,
              const char *interface,
              const char *signal,
              GVariant *arguments,
              gpointer user_data)
{
  ask (user_data);
}

static void
session_went (GDBusConnection *bus,
              const char *sender,
              const char *path,
              const char *interface,
              const char *signal,
              GVariant *arguments,
              gpointer user_data)
{
  SondeClientSessionList *self = user_data;
  const char *session;
  guint position;

  if (!g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(o)")))
    return;
  g_variant_get (arguments, "(&o)", &session);
  if (find (self, session, &position) != NULL)
    remove_at (self, position);
  /* an answer that is on its way may have it still */
  self->asks_again = self->is_asking;
}

static void
state_changed (GDBusConnection *bus,
               const char *sender,
               const char *path,
               const char *interface,
               const char *signal,
               GVariant *arguments,
               gpointer user_data)
{
  SondeClientSessionList *self = user_data;
  SondeClientSessionInfo *info;
  g_autoptr (GVariant) changed = NULL;
  const char *state;
  guint position;

  if (!g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sa{sv}as)")))
    return;
  changed = g_variant_get_child_value (arguments, 1);
  info = find (self, path, &position);
  if (info != NULL && g_variant_lookup (changed, "State", "&s", &state))
    set_state (info, state);
  self->asks_again = self->is_asking;
}

static void
service_came (GDBusConnection *bus, const char *name, const char *owner, gpointer user_data)
{
  ask (user_data);
}

/* Another service may come, which knows the same sessions, but not who has subscribed. */
static void
service_went (GDBusConnection *bus, const char *name, gpointer user_data)
{
  SondeClientSessionList *self = user_data;

  self->is_subscribed = FALSE;
  set_current (self, FALSE);
}

static guint
listen (SondeClientSessionList *self,
        const char *interface,
        const char *signal,
        const char *argument,
        GDBusSignalCallback callback)
{
  return g_dbus_connection_signal_subscribe (self->connection->bus, self->connection->name,
                                             interface, signal, NULL, argument,
                                             G_DBUS_SIGNAL_FLAGS_NONE, callback, self, NULL);
}

SondeClientSessionList *
sonde_client_session_list_new (GObject *profiler, SondeConnection *connection, gboolean everybody)
{
  SondeClientSessionList *self = g_object_new (SONDE_CLIENT_TYPE_SESSION_LIST, NULL);

  self->profiler = g_object_ref (profiler);
  self->connection = connection;
  self->asks = everybody;
  self->signals[0] = listen (self, SONDE_MANAGER_INTERFACE, "SessionNew", NULL, session_came);
  self->signals[1] = listen (self, SONDE_MANAGER_INTERFACE, "SessionRemoved", NULL, session_went);
  self->signals[2] = listen (self, "org.freedesktop.DBus.Properties", "PropertiesChanged",
                             SONDE_SESSION_INTERFACE, state_changed);
  if (connection->name != NULL)
    self->owner_watch = g_bus_watch_name_on_connection (connection->bus, connection->name,
                                                        G_BUS_NAME_WATCHER_FLAGS_NONE, service_came,
                                                        service_went, self, NULL);
  else
    ask (self);
  return self;
}
