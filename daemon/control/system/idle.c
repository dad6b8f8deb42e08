/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/idle.h"

struct SondeIdle
{
  const SondeBusConnection *connection;
  const SondeIdleHandler *handler;
  gpointer user_data;
  guint timeout_ms;
  guint timer;
  guint64 n_before; /* calls that had come when the timer began */
};

static gboolean
on_timeout (gpointer user_data)
{
  SondeIdle *self = user_data;
  guint64 n_ever = sonde_bus_connection_n_ever (self->connection);

  if (n_ever != self->n_before || sonde_bus_connection_n_calls (self->connection) > 0
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
sonde_idle_new (const SondeBusConnection *connection,
                const SondeIdleHandler *handler,
                gpointer user_data)
{
  SondeIdle *self = g_new0 (SondeIdle, 1);

  self->connection = connection;
  self->handler = handler;
  self->user_data = user_data;
  return self;
}

void
sonde_idle_free (SondeIdle *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
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
