/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way to a profiling service, as an object: its sessions, and the captures that it stores. */
#include <unistd.h>

#include "client/base/text.h"
#include "client/library/launch.h"
#include "client/library/session-list.h"
#include "client/library/session.h"

struct _SondeClientProfiler
{
  GObject parent_instance;

  SondeConnection *connection;
};

G_DEFINE_FINAL_TYPE (SondeClientProfiler, sonde_client_profiler, G_TYPE_OBJECT)

static void
sonde_client_profiler_finalize (GObject *object)
{
  sonde_connection_free (SONDE_CLIENT_PROFILER (object)->connection);
  G_OBJECT_CLASS (sonde_client_profiler_parent_class)->finalize (object);
}

static void
sonde_client_profiler_class_init (SondeClientProfilerClass *class)
{
  G_OBJECT_CLASS (class)->finalize = sonde_client_profiler_finalize;
}

static void
sonde_client_profiler_init (SondeClientProfiler *self)
{
}

/* @connection: (transfer full) (nullable) */
static SondeClientProfiler *
new_profiler (SondeConnection *connection)
{
  SondeClientProfiler *self;

  if (connection == NULL)
    return NULL;
  self = g_object_new (SONDE_CLIENT_TYPE_PROFILER, NULL);
  self->connection = connection;
  return self;
}

SondeClientProfiler *
sonde_client_profiler_new_bus (SondeClientAsk ask, GError **error)
{
  return new_profiler (sonde_connection_open_bus (ask, error));
}

SondeClientProfiler *
sonde_client_profiler_new_embedded (const char *daemon_path,
                                    const char *worker_path,
                                    GError **error)
{
  return new_profiler (sonde_connection_open_embedded (daemon_path, worker_path, error));
}

void
sonde_client_profiler_close (SondeClientProfiler *self)
{
  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));

  sonde_connection_close (self->connection);
}

GDBusConnection *
sonde_client_profiler_get_connection (SondeClientProfiler *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return self->connection->bus;
}

const char *
sonde_client_profiler_get_bus_name (SondeClientProfiler *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return self->connection->name;
}

GDBusCallFlags
sonde_client_profiler_get_call_flags (SondeClientProfiler *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), G_DBUS_CALL_FLAGS_NONE);

  return sonde_connection_call_flags (self->connection);
}

void
sonde_client_profiler_profile_async (SondeClientProfiler *self,
                                     GVariant *options,
                                     GUnixFDList *fds,
                                     GCancellable *cancellable,
                                     GAsyncReadyCallback callback,
                                     gpointer user_data)
{
  GTask *task;

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));
  g_return_if_fail (g_variant_is_of_type (options, G_VARIANT_TYPE_VARDICT));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, sonde_client_profiler_profile_async);
  sonde_client_session_new (G_OBJECT (self), self->connection, options, fds, task);
}

void
sonde_client_profiler_profile_process_async (SondeClientProfiler *self,
                                             gint pid,
                                             GVariant *options,
                                             GCancellable *cancellable,
                                             GAsyncReadyCallback callback,
                                             gpointer user_data)
{
  g_auto (GVariantDict) dict = G_VARIANT_DICT_INIT (options);
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  GVariant *targets;

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));
  g_return_if_fail (options == NULL || g_variant_is_of_type (options, G_VARIANT_TYPE_VARDICT));

  targets = sonde_process_prove (pid, fds, &error);
  if (targets == NULL)
    {
      g_task_report_error (self, callback, user_data, sonde_client_profiler_profile_process_async,
                           g_steal_pointer (&error));
      return;
    }
  g_variant_dict_insert_value (&dict, "targets", targets);
  sonde_client_profiler_profile_async (self, g_variant_dict_end (&dict), fds, cancellable, callback,
                                       user_data);
}

SondeClientSession *
sonde_client_profiler_profile_finish (SondeClientProfiler *self,
                                      GAsyncResult *result,
                                      GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

SondeClientSession *
sonde_client_profiler_profile_process_finish (SondeClientProfiler *self,
                                              GAsyncResult *result,
                                              GError **error)
{
  return sonde_client_profiler_profile_finish (self, result, error);
}

void
sonde_client_profiler_launch_async (SondeClientProfiler *self,
                                    const char *const *argv,
                                    const char *const *envp,
                                    const char *folder,
                                    GVariant *options,
                                    GCancellable *cancellable,
                                    GAsyncReadyCallback callback,
                                    gpointer user_data)
{
  GTask *task;

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));
  g_return_if_fail (argv != NULL && argv[0] != NULL);
  g_return_if_fail (options == NULL || g_variant_is_of_type (options, G_VARIANT_TYPE_VARDICT));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, sonde_client_profiler_launch_async);
  sonde_launch (self->connection, task, argv, envp, folder, options);
}

SondeClientSession *
sonde_client_profiler_launch_finish (SondeClientProfiler *self,
                                     GAsyncResult *result,
                                     gint *pid,
                                     GError **error)
{
  SondeClientSession *session;

  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  session = g_task_propagate_pointer (G_TASK (result), error);
  if (pid != NULL)
    *pid = session != NULL ? sonde_launch_pid (G_TASK (result)) : 0;
  return session;
}

/* --- calls --- */

static void
called (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GTask) task = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  GError *error = NULL;
  GVariant *answer = sonde_connection_call_finish (source, result, &fds, &error);

  if (fds != NULL)
    g_object_set_data_full (G_OBJECT (task), "fds", g_steal_pointer (&fds), g_object_unref);
  if (answer != NULL)
    g_task_return_pointer (task, answer, (GDestroyNotify) g_variant_unref);
  else
    g_task_return_error (task, error);
}

/* Answered to finish_call(). @task: (transfer full) */
static void
begin_call (const SondeServiceCall *call, gpointer tag, GTask *task)
{
  SondeClientProfiler *self = g_task_get_source_object (task);

  g_task_set_source_tag (task, tag);
  g_task_set_check_cancellable (task, FALSE); /* a descriptor that came is handed out */
  sonde_connection_call (self->connection, call, g_task_get_cancellable (task), called, task);
}

static GVariant *
finish_call (SondeClientProfiler *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* The first part of @answer, which is consumed; (nullable). */
static GVariant *
take_part (GVariant *answer)
{
  g_autoptr (GVariant) whole = answer;

  return whole != NULL ? g_variant_get_child_value (whole, 0) : NULL;
}

/* The descriptor in @answer, which is consumed; -1 without one. */
static int
take_fd (GVariant *answer, GUnixFDList *fds, GError **error)
{
  g_autoptr (GVariant) handle = take_part (answer);

  return handle != NULL ? sonde_connection_take_handle (fds, handle, error) : -1;
}

static int
finish_fd_call (SondeClientProfiler *self, GAsyncResult *result, GError **error)
{
  GVariant *answer = finish_call (self, result, error);

  return take_fd (answer, g_object_get_data (G_OBJECT (result), "fds"), error);
}

static int
call_for_fd (SondeClientProfiler *self,
             const SondeServiceCall *call,
             GCancellable *cancellable,
             GError **error)
{
  g_autoptr (GUnixFDList) fds = NULL;
  GVariant *answer = sonde_connection_call_sync (self->connection, call, &fds, cancellable, error);

  return take_fd (answer, fds, error);
}

/* Whether the answer, which says nothing more, came. */
static gboolean
has_answer (GVariant *answer)
{
  g_autoptr (GVariant) consumed = answer;

  return consumed != NULL;
}

/* --- sessions of all kinds, by number --- */

static char *
dup_path (guint64 session)
{
  return g_strdup_printf (SONDE_SESSION_PATH "%" G_GUINT64_FORMAT, session);
}

static SondeServiceCall
sessions_call (gboolean everybody)
{
  return (SondeServiceCall){
    .method = "ListSessions", .type = "(a(ousts))", .is_quiet = !everybody, .is_look = TRUE
  };
}

void
sonde_client_profiler_list_sessions_async (SondeClientProfiler *self,
                                           gboolean everybody,
                                           GCancellable *cancellable,
                                           GAsyncReadyCallback callback,
                                           gpointer user_data)
{
  const SondeServiceCall call = sessions_call (everybody);

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));

  begin_call (&call, sonde_client_profiler_list_sessions_async,
              g_task_new (self, cancellable, callback, user_data));
}

GVariant *
sonde_client_profiler_list_sessions_finish (SondeClientProfiler *self,
                                            GAsyncResult *result,
                                            GError **error)
{
  return take_part (finish_call (self, result, error));
}

GVariant *
sonde_client_profiler_list_sessions_sync (SondeClientProfiler *self,
                                          gboolean everybody,
                                          GCancellable *cancellable,
                                          GError **error)
{
  const SondeServiceCall call = sessions_call (everybody);

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return take_part (sonde_connection_call_sync (self->connection, &call, NULL, cancellable, error));
}

SondeClientSessionList *
sonde_client_profiler_watch_sessions (SondeClientProfiler *self, gboolean everybody)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return sonde_client_session_list_new (G_OBJECT (self), self->connection, everybody);
}

/* Whether @before, of ListSessions, lacks one of ours that there is now, or nobody can tell. */
static gboolean
has_begun (SondeClientProfiler *self, GVariant *before, GCancellable *cancellable)
{
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GVariant) now
      = sonde_client_profiler_list_sessions_sync (self, FALSE, cancellable, NULL);
  GVariantIter iter;
  const char *path;
  guint32 uid;

  if (before == NULL || now == NULL)
    return TRUE;
  g_variant_iter_init (&iter, before);
  while (g_variant_iter_next (&iter, "(&ousts)", &path, NULL, NULL, NULL, NULL))
    g_hash_table_add (known, (gpointer) path);
  g_variant_iter_init (&iter, now);
  while (g_variant_iter_next (&iter, "(&ousts)", &path, &uid, NULL, NULL, NULL))
    if (uid == getuid () && !g_hash_table_contains (known, path))
      return TRUE;
  return FALSE;
}

guint64
sonde_client_profiler_start_session_sync (SondeClientProfiler *self,
                                          GVariant *options,
                                          GUnixFDList *fds,
                                          GCancellable *cancellable,
                                          GError **error)
{
  g_autoptr (GVariant) kept = NULL;
  g_autoptr (GVariant) before = NULL;
  g_autoptr (GVariant) path = NULL;
  g_autoptr (GError) failure = NULL;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), 0);
  g_return_val_if_fail (g_variant_is_of_type (options, G_VARIANT_TYPE_VARDICT), 0);

  kept = g_variant_ref_sink (options);
  before = sonde_client_profiler_list_sessions_sync (self, FALSE, cancellable, NULL);
  for (guint n_asks = 0; n_asks < SONDE_MAX_ASKS && path == NULL; n_asks++)
    {
      const SondeServiceCall call = { .method = "StartSession",
                                      .arguments = g_variant_new ("(@a{sv})", kept),
                                      .fds = fds,
                                      .type = "(o)" };

      g_clear_error (&failure);
      path = take_part (
          sonde_connection_call_sync (self->connection, &call, NULL, cancellable, &failure));
      /* the service went before it answered: what it may have begun goes on without it */
      if (path == NULL
          && (!g_error_matches (failure, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY)
              || has_begun (self, before, cancellable)))
        break;
    }
  if (path != NULL)
    return sonde_client_session_number (g_variant_get_string (path, NULL));
  g_propagate_error (error, g_steal_pointer (&failure));
  return 0;
}

guint64
sonde_client_session_number (const char *path)
{
  guint64 number = 0;

  if (path == NULL)
    return 0;
  if (g_str_has_prefix (path, SONDE_SESSION_PATH))
    path += strlen (SONDE_SESSION_PATH);
  return g_ascii_string_to_unsigned (path, 10, 1, G_MAXUINT64, &number, NULL) ? number : 0;
}

static SondeServiceCall
attach_call (const char *path, GVariant *options)
{
  GVariant *arguments = options != NULL ? g_variant_new ("(@a{sv})", options)
                                        : g_variant_new_parsed ("(@a{sv} {},)");

  return (SondeServiceCall){
    .path = path, .method = "OpenCapture", .arguments = arguments, .type = "(h)"
  };
}

void
sonde_client_profiler_attach_async (SondeClientProfiler *self,
                                    guint64 session,
                                    GVariant *options,
                                    GCancellable *cancellable,
                                    GAsyncReadyCallback callback,
                                    gpointer user_data)
{
  g_autofree char *path = dup_path (session);
  const SondeServiceCall call = attach_call (path, options);

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));

  begin_call (&call, sonde_client_profiler_attach_async,
              g_task_new (self, cancellable, callback, user_data));
}

int
sonde_client_profiler_attach_finish (SondeClientProfiler *self,
                                     GAsyncResult *result,
                                     GError **error)
{
  return finish_fd_call (self, result, error);
}

int
sonde_client_profiler_attach_sync (SondeClientProfiler *self,
                                   guint64 session,
                                   GVariant *options,
                                   GCancellable *cancellable,
                                   GError **error)
{
  g_autofree char *path = dup_path (session);
  const SondeServiceCall call = attach_call (path, options);

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), -1);

  return call_for_fd (self, &call, cancellable, error);
}

void
sonde_client_profiler_stop_session_async (SondeClientProfiler *self,
                                          guint64 session,
                                          GCancellable *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer user_data)
{
  g_autofree char *path = dup_path (session);
  const SondeServiceCall call = { .path = path, .method = "Stop", .type = "(a{st})" };

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));

  begin_call (&call, sonde_client_profiler_stop_session_async,
              g_task_new (self, cancellable, callback, user_data));
}

GVariant *
sonde_client_profiler_stop_session_finish (SondeClientProfiler *self,
                                           GAsyncResult *result,
                                           GError **error)
{
  return take_part (finish_call (self, result, error));
}

/* The answer to a method of a session that has no arguments. */
static GVariant *
call_session (SondeClientProfiler *self,
              guint64 session,
              const char *method,
              const char *type,
              GCancellable *cancellable,
              GError **error)
{
  g_autofree char *path = dup_path (session);
  const SondeServiceCall call = { .path = path, .method = method, .type = type };

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return sonde_connection_call_sync (self->connection, &call, NULL, cancellable, error);
}

GVariant *
sonde_client_profiler_stop_session_sync (SondeClientProfiler *self,
                                         guint64 session,
                                         GCancellable *cancellable,
                                         GError **error)
{
  return take_part (call_session (self, session, "Stop", "(a{st})", cancellable, error));
}

gboolean
sonde_client_profiler_pause_session_sync (SondeClientProfiler *self,
                                          guint64 session,
                                          GCancellable *cancellable,
                                          GError **error)
{
  return has_answer (call_session (self, session, "Pause", "()", cancellable, error));
}

gboolean
sonde_client_profiler_resume_session_sync (SondeClientProfiler *self,
                                           guint64 session,
                                           GCancellable *cancellable,
                                           GError **error)
{
  return has_answer (call_session (self, session, "Resume", "()", cancellable, error));
}

GVariant *
sonde_client_profiler_dup_properties_sync (SondeClientProfiler *self,
                                           guint64 session,
                                           GCancellable *cancellable,
                                           GError **error)
{
  g_autofree char *path = session != 0 ? dup_path (session) : NULL;
  const SondeServiceCall call
      = { .path = path,
          .interface = "org.freedesktop.DBus.Properties",
          .method = "GetAll",
          .arguments
          = g_variant_new ("(s)", session != 0 ? SONDE_SESSION_INTERFACE : SONDE_MANAGER_INTERFACE),
          .type = "(a{sv})",
          .is_look = TRUE };

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return take_part (sonde_connection_call_sync (self->connection, &call, NULL, cancellable, error));
}

/* --- stored captures --- */

struct _SondeClientStoredCapture
{
  char *name;
  char *label;
  guint64 start_us;
  guint64 n_bytes;
  guint owner_uid;
  gatomicrefcount n_refs;
};

G_DEFINE_BOXED_TYPE (SondeClientStoredCapture,
                     sonde_client_stored_capture,
                     sonde_client_stored_capture_ref,
                     sonde_client_stored_capture_unref)

SondeClientStoredCapture *
sonde_client_stored_capture_ref (SondeClientStoredCapture *self)
{
  g_atomic_ref_count_inc (&self->n_refs);
  return self;
}

void
sonde_client_stored_capture_unref (SondeClientStoredCapture *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->n_refs))
    return;
  g_free (self->name);
  g_free (self->label);
  g_free (self);
}

const char *
sonde_client_stored_capture_get_name (SondeClientStoredCapture *self)
{
  return self->name;
}

const char *
sonde_client_stored_capture_get_label (SondeClientStoredCapture *self)
{
  return self->label;
}

guint64
sonde_client_stored_capture_get_start_us (SondeClientStoredCapture *self)
{
  return self->start_us;
}

guint64
sonde_client_stored_capture_get_n_bytes (SondeClientStoredCapture *self)
{
  return self->n_bytes;
}

guint
sonde_client_stored_capture_get_owner_uid (SondeClientStoredCapture *self)
{
  return self->owner_uid;
}

/* Of an answer to ListCaptures, which is consumed; (nullable) (transfer full). */
static GPtrArray *
take_captures (GVariant *answer)
{
  g_autoptr (GVariant) captures = take_part (answer);
  GPtrArray *list;
  GVariantIter iter;
  const char *name, *label;
  guint64 start_us, n_bytes;
  guint32 owner_uid;

  if (captures == NULL)
    return NULL;
  list = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_client_stored_capture_unref);
  g_variant_iter_init (&iter, captures);
  while (g_variant_iter_next (&iter, "(&s&sttu)", &name, &label, &start_us, &n_bytes, &owner_uid))
    {
      SondeClientStoredCapture *self = g_new0 (SondeClientStoredCapture, 1);

      self->name = sonde_text_escape (name, -1);
      self->label = sonde_text_escape (label, -1);
      self->start_us = start_us;
      self->n_bytes = n_bytes;
      self->owner_uid = owner_uid;
      g_atomic_ref_count_init (&self->n_refs);
      g_ptr_array_add (list, self);
    }
  return list;
}

static const SondeServiceCall list_captures
    = { .method = "ListCaptures", .type = "(a(ssttu))", .is_look = TRUE };

void
sonde_client_profiler_list_captures_async (SondeClientProfiler *self,
                                           GCancellable *cancellable,
                                           GAsyncReadyCallback callback,
                                           gpointer user_data)
{
  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));

  begin_call (&list_captures, sonde_client_profiler_list_captures_async,
              g_task_new (self, cancellable, callback, user_data));
}

GPtrArray *
sonde_client_profiler_list_captures_finish (SondeClientProfiler *self,
                                            GAsyncResult *result,
                                            GError **error)
{
  return take_captures (finish_call (self, result, error));
}

GPtrArray *
sonde_client_profiler_list_captures_sync (SondeClientProfiler *self,
                                          GCancellable *cancellable,
                                          GError **error)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self), NULL);

  return take_captures (
      sonde_connection_call_sync (self->connection, &list_captures, NULL, cancellable, error));
}

static SondeServiceCall
capture_call (const char *method, const char *name, const char *type)
{
  return (
      SondeServiceCall){ .method = method, .arguments = g_variant_new ("(s)", name), .type = type };
}

void
sonde_client_profiler_open_capture_async (SondeClientProfiler *self,
                                          const char *name,
                                          GCancellable *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer user_data)
{
  SondeServiceCall call;

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self) && name != NULL);

  call = capture_call ("OpenStoredCapture", name, "(h)");
  begin_call (&call, sonde_client_profiler_open_capture_async,
              g_task_new (self, cancellable, callback, user_data));
}

int
sonde_client_profiler_open_capture_finish (SondeClientProfiler *self,
                                           GAsyncResult *result,
                                           GError **error)
{
  return finish_fd_call (self, result, error);
}

int
sonde_client_profiler_open_capture_sync (SondeClientProfiler *self,
                                         const char *name,
                                         GCancellable *cancellable,
                                         GError **error)
{
  SondeServiceCall call;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self) && name != NULL, -1);

  call = capture_call ("OpenStoredCapture", name, "(h)");
  return call_for_fd (self, &call, cancellable, error);
}

void
sonde_client_profiler_remove_capture_async (SondeClientProfiler *self,
                                            const char *name,
                                            GCancellable *cancellable,
                                            GAsyncReadyCallback callback,
                                            gpointer user_data)
{
  SondeServiceCall call;

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self) && name != NULL);

  call = capture_call ("RemoveCapture", name, "()");
  begin_call (&call, sonde_client_profiler_remove_capture_async,
              g_task_new (self, cancellable, callback, user_data));
}

gboolean
sonde_client_profiler_remove_capture_finish (SondeClientProfiler *self,
                                             GAsyncResult *result,
                                             GError **error)
{
  return has_answer (finish_call (self, result, error));
}

gboolean
sonde_client_profiler_remove_capture_sync (SondeClientProfiler *self,
                                           const char *name,
                                           GCancellable *cancellable,
                                           GError **error)
{
  SondeServiceCall call;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILER (self) && name != NULL, FALSE);

  call = capture_call ("RemoveCapture", name, "()");
  return has_answer (
      sonde_connection_call_sync (self->connection, &call, NULL, cancellable, error));
}
