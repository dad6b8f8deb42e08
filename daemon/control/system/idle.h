/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A timer that ends when no call has come and none was open for a whole round. */
#pragma once

#include "daemon/control/system/bus-connection.h"

typedef struct SondeIdle SondeIdle;

/* @is_busy: whether there is something else than calls to stay for
 * @idle: once: there was nothing to do for the whole time. Nothing but sonde_idle_free() may
 *   follow. */
typedef struct
{
  gboolean (*is_busy) (gpointer user_data);
  void (*idle) (gpointer user_data);
} SondeIdleHandler;

/* Never idle before a time is set. @connection: outliving it */
SondeIdle *sonde_idle_new (const SondeBusConnection *connection,
                           const SondeIdleHandler *handler,
                           gpointer user_data);
/* Accepts NULL. */
void sonde_idle_free (SondeIdle *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeIdle, sonde_idle_free)

/* @timeout_ms: 0: for ever */
void sonde_idle_set_timeout (SondeIdle *self, guint timeout_ms);
