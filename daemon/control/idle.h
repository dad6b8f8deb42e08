/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When nobody needs the service any more. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: idle
 *
 * Counts the calls on a connection that are not answered yet, from the moment they arrive: also
 * those that GDBus answers itself, and those that no handler has seen.
 */
typedef struct SondeIdle SondeIdle;

/* @is_busy: whether there is something else than calls to stay for
 * @idle: once: there was nothing to do for the whole time. Nothing but sonde_idle_free() and
 *   sonde_idle_has_calls() may follow. */
typedef struct
{
  gboolean (*is_busy) (gpointer user_data);
  void (*idle) (gpointer user_data);
} SondeIdleHandler;

/* Never idle before a time is set. */
SondeIdle *
sonde_idle_new (GDBusConnection *connection, const SondeIdleHandler *handler, gpointer user_data);
/* Accepts NULL. */
void sonde_idle_free (SondeIdle *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeIdle, sonde_idle_free)

/* @timeout_ms: 0: for ever */
void sonde_idle_set_timeout (SondeIdle *self, guint timeout_ms);
/* Whether calls wait for an answer. */
gboolean sonde_idle_has_calls (const SondeIdle *self);
