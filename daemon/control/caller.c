/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who calls: a unique bus name, its uid, and whether it is still there. */
#include "daemon/control/caller.h"

#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

struct SondeCallers
{
  GDBusConnection *connection;
  gboolean is_peer;
  SondeCallerLeft left;
  gpointer user_data;
  GHashTable *by_name;      /* name → SondeCaller, not owned: a caller takes itself out */
  GHashTable *calls_of_uid; /* uid → calls in flight */
};

struct SondeCaller
{
  grefcount refs;
  SondeCallers *callers;
  char *name;
  uid_t uid;
  pid_t pid; /* 0: not known */
  gboolean is_identified;
  GPtrArray *waiting; /* GTask: until the bus has told the uid */
  GCancellable *left;
  guint watch;
};

SondeCallers *
sonde_callers_new (GDBusConnection *connection,
                   gboolean is_peer,
                   SondeCallerLeft left,
                   gpointer user_data)
{
  SondeCallers *self = g_new0 (SondeCallers, 1);

  self->connection = connection;
  self->is_peer = is_peer;
  self->left = left;
  self->user_data = user_data;
  self->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  self->calls_of_uid = g_hash_table_new (NULL, NULL);
  return self;
}

void
sonde_callers_free (SondeCallers *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->by_name);
  g_hash_table_unref (self->calls_of_uid);
  g_free (self);
}

SondeCaller *
sonde_caller_ref (SondeCaller *self)
{
  g_ref_count_inc (&self->refs);
  return self;
}

void
sonde_caller_unref (SondeCaller *self)
{
  if (!g_ref_count_dec (&self->refs))
    return;
  if (g_hash_table_lookup (self->callers->by_name, self->name) == self)
    g_hash_table_remove (self->callers->by_name, self->name);
  g_clear_handle_id (&self->watch, g_bus_unwatch_name);
  g_ptr_array_unref (self->waiting);
  g_object_unref (self->left);
  g_free (self->name);
  g_free (self);
}

static guint
count_of_uid (const SondeCallers *self, uid_t uid)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (self->calls_of_uid, GUINT_TO_POINTER (uid)));
}

static void
set_count_of_uid (SondeCallers *self, uid_t uid, guint count)
{
  if (count == 0)
    g_hash_table_remove (self->calls_of_uid, GUINT_TO_POINTER (uid));
  else
    g_hash_table_replace (self->calls_of_uid, GUINT_TO_POINTER (uid), GUINT_TO_POINTER (count));
}

static void
on_name_vanished (GDBusConnection *connection, const char *name, gpointer user_data)
{
  SondeCaller *self = sonde_caller_ref (user_data);

  /* Unique names are never used again; calls that are still on their way keep this object. */
  g_hash_table_remove (self->callers->by_name, self->name);
  g_cancellable_cancel (self->left);
  self->callers->left (self->name, self->callers->user_data);
  sonde_caller_unref (self);
}

static void
answer_task (SondeCaller *self, GTask *task, const GError *error)
{
  guint count;

  if (error != NULL)
    {
      g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED,
                               "The bus does not say who calls: %s", error->message);
      return;
    }
  count = count_of_uid (self->callers, self->uid);
  if (count >= SONDE_LIMIT_CALLS)
    {
      g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                               "Limit calls: at most %d calls in flight", SONDE_LIMIT_CALLS);
      return;
    }
  set_count_of_uid (self->callers, self->uid, count + 1);
  g_task_return_pointer (task, sonde_caller_ref (self), (GDestroyNotify) sonde_caller_end);
}

/* Source: D-Bus specification, GetConnectionCredentials. */
static gboolean
take_credentials (SondeCaller *self, GVariant *answer, GError **error)
{
  g_autoptr (GVariant) credentials = g_variant_get_child_value (answer, 0);
  guint32 uid;
  guint32 pid = 0;

  if (!g_variant_lookup (credentials, "UnixUserID", "u", &uid))
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED, "no uid");
      return FALSE;
    }
  g_variant_lookup (credentials, "ProcessID", "u", &pid);
  self->uid = uid;
  self->pid = (pid_t) MIN (pid, G_MAXINT32);
  self->is_identified = TRUE;
  return TRUE;
}

static void
on_credentials (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (SondeCaller) self = user_data;
  g_autoptr (GPtrArray) waiting = g_steal_pointer (&self->waiting);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
  if (answer != NULL)
    take_credentials (self, answer, &error);
  for (guint i = 0; i < waiting->len; i++)
    answer_task (self, g_ptr_array_index (waiting, i), error);
}

static const char *
bus_id (const SondeCallers *self)
{
  return self->is_peer ? "" : g_dbus_connection_get_guid (self->connection);
}

static SondeCaller *
caller_alloc (SondeCallers *callers, const char *name)
{
  SondeCaller *self = g_new0 (SondeCaller, 1);

  g_ref_count_init (&self->refs);
  self->callers = callers;
  self->name = g_strdup (name);
  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
  self->left = g_cancellable_new ();
  return self;
}

static void
watch (SondeCaller *self)
{
  self->watch = g_bus_watch_name_on_connection (self->callers->connection, self->name,
                                                G_BUS_NAME_WATCHER_FLAGS_NONE, NULL,
                                                on_name_vanished, self, NULL);
}

static SondeCaller *
caller_new (SondeCallers *callers, const char *name)
{
  SondeCaller *self = caller_alloc (callers, name);

  g_hash_table_insert (callers->by_name, self->name, self);
  if (callers->is_peer)
    {
      self->uid = getuid ();
      self->pid = getpid ();
      self->is_identified = TRUE;
      return self;
    }
  watch (self);
  g_dbus_connection_call (
      callers->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
      "GetConnectionCredentials", g_variant_new ("(s)", name), G_VARIANT_TYPE ("(a{sv})"),
      G_DBUS_CALL_FLAGS_NONE, -1, NULL, on_credentials, sonde_caller_ref (self));
  return self;
}

SondeCaller *
sonde_callers_adopt (SondeCallers *self, const char *name, const char *on_bus, uid_t uid, pid_t pid)
{
  gboolean is_same_bus = g_str_equal (on_bus, bus_id (self));
  SondeCaller *caller = is_same_bus ? g_hash_table_lookup (self->by_name, name) : NULL;

  if (caller != NULL)
    return sonde_caller_ref (caller);
  caller = caller_alloc (self, name);
  caller->uid = uid;
  caller->pid = pid;
  caller->is_identified = TRUE;
  if (is_same_bus)
    {
      g_hash_table_insert (self->by_name, caller->name, caller);
      watch (caller);
    }
  else
    g_cancellable_cancel (caller->left);
  return caller;
}

void
sonde_callers_begin_async (SondeCallers *self,
                           const char *name,
                           GAsyncReadyCallback callback,
                           gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (NULL, NULL, callback, user_data);
  const char *key = name != NULL ? name : "";
  g_autoptr (SondeCaller) caller = g_hash_table_lookup (self->by_name, key);

  g_task_set_source_tag (task, sonde_callers_begin_async);
  if (caller == NULL)
    caller = caller_new (self, key);
  else
    sonde_caller_ref (caller);

  if (caller->is_identified)
    answer_task (caller, task, NULL);
  else if (caller->waiting->len >= SONDE_LIMIT_CALLS)
    g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                             "Limit calls: at most %d calls in flight", SONDE_LIMIT_CALLS);
  else
    g_ptr_array_add (caller->waiting, g_steal_pointer (&task));
}

SondeCaller *
sonde_callers_begin_finish (SondeCallers *self, GAsyncResult *result, GError **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

void
sonde_caller_end (SondeCaller *self)
{
  set_count_of_uid (self->callers, self->uid, count_of_uid (self->callers, self->uid) - 1);
  sonde_caller_unref (self);
}

const char *
sonde_caller_name (const SondeCaller *self)
{
  return self->name;
}

const char *
sonde_caller_bus_id (const SondeCaller *self)
{
  return bus_id (self->callers);
}

uid_t
sonde_caller_uid (const SondeCaller *self)
{
  return self->uid;
}

pid_t
sonde_caller_pid (const SondeCaller *self)
{
  return self->pid;
}

GCancellable *
sonde_caller_left (const SondeCaller *self)
{
  return self->left;
}
