/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/system/watchdog.h"

#include <systemd/sd-daemon.h>

struct SondeWatchdog
{
  SondeOutbox *systemd;
  gboolean (*has_progress) (gpointer user_data);
  gpointer user_data;
  guint timer;
};

static gboolean
on_timer (gpointer user_data)
{
  SondeWatchdog *self = user_data;

  if (self->has_progress (self->user_data))
    sonde_outbox_tell (self->systemd, "WATCHDOG=1");
  return G_SOURCE_CONTINUE;
}

SondeWatchdog *
sonde_watchdog_new (SondeOutbox *systemd,
                    gboolean (*has_progress) (gpointer user_data),
                    gpointer user_data)
{
  guint64 timeout_us;
  SondeWatchdog *self;

  if (sd_watchdog_enabled (FALSE, &timeout_us) <= 0)
    return NULL;
  self = g_new0 (SondeWatchdog, 1);
  self->systemd = systemd;
  self->has_progress = has_progress;
  self->user_data = user_data;
  self->timer = g_timeout_add ((guint) MAX (timeout_us / 3000, 1), on_timer, self);
  return self;
}

void
sonde_watchdog_free (SondeWatchdog *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  g_free (self);
}
