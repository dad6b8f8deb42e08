/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way to a profiling service, as an object. */
#include "client/base/fd.h"
#include "client/library/process-proof.h"
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

/* @options with "targets": @pid, proved by the first descriptor. Floating. */
static GVariant *
add_target (GVariant *options, gint pid)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, options);
  g_variant_dict_insert_value (&dict, "targets",
                               g_variant_new_parsed ("[(%u, %h)]", (guint32) pid, 0));
  return g_variant_dict_end (&dict);
}

void
sonde_client_profiler_profile_process_async (SondeClientProfiler *self,
                                             gint pid,
                                             GVariant *options,
                                             GCancellable *cancellable,
                                             GAsyncReadyCallback callback,
                                             gpointer user_data)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GVariant) chosen = NULL;
  g_autoptr (GError) error = NULL;
  sonde_autofd int maps = -1;

  g_return_if_fail (SONDE_CLIENT_IS_PROFILER (self));
  g_return_if_fail (options == NULL || g_variant_is_of_type (options, G_VARIANT_TYPE_VARDICT));

  chosen = g_variant_ref_sink (add_target (options, pid));
  maps = sonde_process_proof_open (pid, &error);
  if (maps < 0 || g_unix_fd_list_append (fds, maps, &error) < 0)
    {
      g_task_report_error (self, callback, user_data, sonde_client_profiler_profile_process_async,
                           g_steal_pointer (&error));
      return;
    }
  sonde_client_profiler_profile_async (self, chosen, fds, cancellable, callback, user_data);
}

SondeClientSession *
sonde_client_profiler_profile_finish (SondeClientProfiler *self,
                                      GAsyncResult *result,
                                      GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
