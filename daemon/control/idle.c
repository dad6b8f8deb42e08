/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When nobody needs the service any more. */
#include "daemon/control/idle.h"

/* What GDBus's own thread counts; the filter may outlive us there. */
typedef struct
{
  gatomicrefcount refs;
  int n_calls; /* atomic: arrived and not answered */
  int n_ever;  /* atomic: arrived */
} Counts;

struct SondeIdle
{
  GDBusConnection *connection;
  const SondeIdleHandler *handler;
  gpointer user_data;
  Counts *counts;
  guint filter;
  guint timeout_ms;
  guint timer;
  int n_before; /* calls that had arrived when the timer began */
};

static void
counts_unref (gpointer data)
{
  Counts *counts = data;

  if (g_atomic_ref_count_dec (&counts->refs))
    g_free (counts);
}

/* In GDBus's thread. */
static GDBusMessage *
count_message (GDBusConnection *connection,
               GDBusMessage *message,
               gboolean is_incoming,
               gpointer user_data)
{
  Counts *counts = user_data;
  GDBusMessageType type = g_dbus_message_get_message_type (message);
  gboolean wants_answer
      = (g_dbus_message_get_flags (message) & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) == 0;

  if (is_incoming && type == G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    {
      g_atomic_int_inc (&counts->n_ever);
      if (wants_answer)
        g_atomic_int_inc (&counts->n_calls);
    }
  else if (!is_incoming
           && (type == G_DBUS_MESSAGE_TYPE_METHOD_RETURN || type == G_DBUS_MESSAGE_TYPE_ERROR))
    g_atomic_int_add (&counts->n_calls, -1);
  return message;
}

static gboolean
on_timeout (gpointer user_data)
{
  SondeIdle *self = user_data;
  int n_ever = g_atomic_int_get (&self->counts->n_ever);

  if (n_ever != self->n_before || sonde_idle_has_calls (self)
      || self->handler->is_busy (self->user_data))
    {
      self->n_before = n_ever;
      return G_SOURCE_CONTINUE;
    }
  self->timer = 0;
  self->handler->idle (self->user_data);
  return G_SOURCE_REMOVE;
}

SondeIdle *
sonde_idle_new (GDBusConnection *connection, const SondeIdleHandler *handler, gpointer user_data)
{
  SondeIdle *self = g_new0 (SondeIdle, 1);

  self->connection = g_object_ref (connection);
  self->handler = handler;
  self->user_data = user_data;
  self->counts = g_new0 (Counts, 1);
  g_atomic_ref_count_init (&self->counts->refs);
  g_atomic_ref_count_inc (&self->counts->refs);
  self->filter
      = g_dbus_connection_add_filter (connection, count_message, self->counts, counts_unref);
  return self;
}

void
sonde_idle_free (SondeIdle *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  g_dbus_connection_remove_filter (self->connection, self->filter);
  counts_unref (self->counts);
  g_object_unref (self->connection);
  g_free (self);
}

void
sonde_idle_set_timeout (SondeIdle *self, guint timeout_ms)
{
  if (self->timeout_ms == timeout_ms)
    return;
  self->timeout_ms = timeout_ms;
  g_clear_handle_id (&self->timer, g_source_remove);
  if (timeout_ms > 0)
    self->timer = g_timeout_add (timeout_ms, on_timeout, self);
}

gboolean
sonde_idle_has_calls (const SondeIdle *self)
{
  return g_atomic_int_get (&self->counts->n_calls) > 0;
}
