/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/caller.h"

#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define BUS_NAME "org.freedesktop.DBus"
#define BUS_PATH "/org/freedesktop/DBus"

struct SondeCallers
{
  SondeBusConnection *connection;
  gboolean is_peer;
  SondeCallerLeft left;
  gpointer user_data;
  GHashTable *by_name;      /* name → SondeCaller, not owned: a caller takes itself out */
  GHashTable *calls_of_uid; /* uid → calls in flight */
};

SondeCallers *
sonde_callers_new (SondeBusConnection *connection,
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
  g_clear_pointer (&self->watch, sonde_bus_connection_unsubscribe);
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
leave (SondeCaller *caller)
{
  SondeCaller *self = sonde_caller_ref (caller);

  /* Unique names are never used again; calls that are still on their way keep this object. */
  g_hash_table_remove (self->callers->by_name, self->name);
  g_cancellable_cancel (self->left);
  self->callers->left (self->name, self->callers->user_data);
  sonde_caller_unref (self);
}

/* Source: D-Bus specification, NameOwnerChanged: name, old owner, new owner. */
static void
on_owner_changed (GVariant *arguments, gpointer user_data)
{
  SondeCaller *self = user_data;
  const char *name;
  const char *owner;

  if (!g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sss)")))
    return;
  g_variant_get (arguments, "(&s&s&s)", &name, NULL, &owner);
  if (g_str_equal (name, self->name) && owner[0] == '\0'
      && !g_cancellable_is_cancelled (self->left))
    leave (self);
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
on_credentials (GVariant *reply, const GError *failure, gpointer user_data)
{
  g_autoptr (SondeCaller) self = user_data;
  g_autoptr (GPtrArray) waiting = g_steal_pointer (&self->waiting);
  g_autoptr (GError) error = failure != NULL ? g_error_copy (failure) : NULL;

  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
  if (reply != NULL)
    take_credentials (self, reply, &error);
  for (guint i = 0; i < waiting->len; i++)
    answer_task (self, g_ptr_array_index (waiting, i), error);
}

static SondeCaller *
caller_alloc (SondeCallers *callers, const char *name)
{
  SondeCaller *self = g_new0 (SondeCaller, 1);

  g_ref_count_init (&self->refs);
  self->callers = callers;
  self->name = g_strdup (name);
  self->bus_id = sonde_bus_connection_bus_id (callers->connection);
  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
  self->left = g_cancellable_new ();
  return self;
}

/* @method: of the bus, about the caller's name */
static void
ask_bus (SondeCaller *self, const char *method, const char *type, SondeBusConnectionReply reply)
{
  const SondeBusConnectionCall call = {
    .destination = BUS_NAME,
    .path = BUS_PATH,
    .interface = BUS_NAME,
    .method = method,
    .arguments = g_variant_new ("(s)", self->name),
    .type = type,
  };

  sonde_bus_connection_call (self->callers->connection, &call, reply, sonde_caller_ref (self));
}

static void
watch (SondeCaller *self)
{
  g_autofree char *match = g_strdup_printf ("type='signal',sender='" BUS_NAME "',path='" BUS_PATH
                                            "',interface='" BUS_NAME "',"
                                            "member='NameOwnerChanged',arg0='%s'",
                                            self->name);

  self->watch
      = sonde_bus_connection_subscribe (self->callers->connection, match, on_owner_changed, self);
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
  ask_bus (self, "GetConnectionCredentials", "(a{sv})", on_credentials);
  return self;
}

/* It may have left before it was watched. */
static void
on_owner (GVariant *reply, const GError *error, gpointer user_data)
{
  g_autoptr (SondeCaller) self = user_data;

  if (reply == NULL && !g_cancellable_is_cancelled (self->left))
    leave (self);
}

SondeCaller *
sonde_callers_adopt (SondeCallers *self, const char *name, const char *on_bus, uid_t uid, pid_t pid)
{
  gboolean is_same_bus = g_str_equal (on_bus, sonde_bus_connection_bus_id (self->connection));
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
      ask_bus (caller, "GetNameOwner", "(s)", on_owner);
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
