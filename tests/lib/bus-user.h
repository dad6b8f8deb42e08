/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A user with a connection and a process of his own, and what he asks of the service. */
#pragma once

#include "tests/lib/bus-client.h"

typedef struct
{
  uid_t uid;
  GDBusConnection *bus;
  pid_t target;
} BusUser;

/* Takes a uid that no other case has. */
void bus_user_init (BusUser *self, BusChild what);
void bus_user_clear (BusUser *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (BusUser, bus_user_clear)

/* A call on the manager; the answer or NULL. @arguments is consumed. */
GVariant *bus_manager_call (GDBusConnection *bus,
                            const char *method,
                            GVariant *arguments,
                            GUnixFDList *fds,
                            GError **error);

/* Fails the test unless sonded answers what anybody may ask. */
void bus_assert_answers (GDBusConnection *bus);

/* StartSession; its object path, or NULL with @error on refusal. @options is consumed. */
char *bus_start_session (GDBusConnection *bus, GVariant *options, GUnixFDList *fds, GError **error);

/* The list of sessions that this connection sees: a(ousts). */
GVariant *bus_list_sessions (GDBusConnection *bus);
/* The object paths of it, separated by spaces. */
char *bus_list_paths (GDBusConnection *bus);
/* The same of a caller who lets polkit be asked for more than his own. */
char *bus_list_all_paths (GDBusConnection *bus);

/* Subscribe; polkit may be asked if @is_interactive. */
gboolean bus_subscribe (GDBusConnection *bus, gboolean is_interactive, GError **error);

/* OpenCapture; -1 with @error on refusal. @options is consumed; may be NULL. */
int bus_open_capture (GDBusConnection *bus, const char *session, GVariant *options, GError **error);

/* Snapshot; -1 with @error on refusal. */
int bus_take_snapshot (GDBusConnection *bus, const char *session, GError **error);

/* OpenControl; -1 with @error on refusal. */
int bus_open_control (GDBusConnection *bus, const char *session, GError **error);

/* Fails the test unless the session is in @state. */
void bus_assert_state (GDBusConnection *bus, const char *session, const char *state);

/* The number @key of the session's Statistics. */
guint64 bus_count (GDBusConnection *bus, const char *session, const char *key);

/* Waits until that number is more than @n. */
void bus_wait_count (GDBusConnection *bus, const char *session, const char *key, guint64 n);
/* Waits until the session has more than @n samples recorded. */
void bus_wait_samples (GDBusConnection *bus, const char *session, guint64 n);
