/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clients of sonded under several uids, and processes for them to profile. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <sys/types.h>

/* What an answer and what bus_wait() waits for may take, only so that a hang ends: the 25 s of
 * GDBus pass at times before a loaded machine has started the service and polkitd. */
#define BUS_DEADLINE_S 180
#define BUS_CALL_MS    (BUS_DEADLINE_S * 1000)

/* What a child made by bus_spawn() does. */
typedef enum
{
  BUS_CHILD_SPIN,    /* burns CPU time */
  BUS_CHILD_WAIT,    /* sleeps */
  BUS_CHILD_EXEC,    /* sleeps; execs a program that sleeps when it gets SIGUSR1 */
  BUS_CHILD_CLIENT,  /* profiles itself without ever reading, and sleeps */
  BUS_CHILD_PROFILE, /* profiles itself to the end and exits with 0 if the capture is whole */
} BusChild;

/* To be called first in main(): in a child of bus_spawn() it does not return. */
void bus_child_main (int argc, char **argv);

/* An unprivileged uid (and gid) that no other case of this program has used, so that quotas do not
 * meet. */
uid_t bus_next_uid (void);

/* Whether there is time for every repetition (SONDE_TEST_LONG=1). */
gboolean bus_is_long (void);

/* A connection that the bus knows as @uid's. */
GDBusConnection *bus_connect (uid_t uid);

/* Whether somebody on the bus has @name. */
gboolean bus_has_name (GDBusConnection *bus, const char *name);

/* A process of @uid, ready to be profiled: it has executed a program since it has that uid. */
pid_t bus_spawn (uid_t uid, BusChild what);

/* Ends the child with @signum and reaps it; returns its wait status. */
int bus_end (pid_t pid, int signum);

/* A new descriptor list with /proc/PID/@name, opened with @flags. */
GUnixFDList *bus_open_proc (pid_t pid, const char *name, int flags);

/* Calls Manager.Profile; @options is consumed. Returns FALSE with @error on refusal. */
gboolean bus_profile (GDBusConnection *bus,
                      GVariant *options,
                      GUnixFDList *fds,
                      char **session,
                      int *capture,
                      GError **error);

/* Profiles @pid through a proof of its own; fails the test if that is refused. @more may be NULL or
 * further options (consumed). */
void
bus_profile_pid (GDBusConnection *bus, pid_t pid, GVariant *more, char **session, int *capture);

/* A call on a session object; the answer or NULL. */
GVariant *bus_session_call (GDBusConnection *bus,
                            const char *session,
                            const char *method,
                            GVariant *arguments,
                            GUnixFDList *fds,
                            GError **error);

/* Stops and returns the statistics (a{st}). */
GVariant *bus_stop (GDBusConnection *bus, const char *session);

/* A property, or NULL. */
GVariant *bus_get (GDBusConnection *bus,
                   const char *path,
                   const char *interface,
                   const char *name,
                   GError **error);

/* A property of the Session interface, or NULL. */
GVariant *
bus_session_get (GDBusConnection *bus, const char *session, const char *name, GError **error);

/* Fails the test unless @error is org.sonde.Profiler1.Error.@name. */
void bus_assert_error (const GError *error, const char *name);

/* What sonded becomes: private-bus makes it. */
#define BUS_SERVICE_UID 49998

/* The process that owns the service's name. */
pid_t bus_service_pid (GDBusConnection *bus);

/* The parent of a live process; -1: it is none. */
pid_t bus_parent (pid_t pid);

/* Its child processes, and those of its spawner instead of that; those of them that are workers, or
 * brokers; its open descriptors. */
GArray *bus_list_children (pid_t pid);
GArray *bus_list_workers (pid_t pid);
GArray *bus_list_brokers (pid_t pid);
guint bus_count_fds (pid_t pid);

/* Waits until the service @pid has no worker, and no broker but a spare one, and a few looks in a
 * row show the same descriptors: the last session is put away. Returns how many descriptors. */
guint bus_wait_at_rest (pid_t pid);

/* Iterates the main context until @done (@user_data), and fails the test after BUS_DEADLINE_S. */
typedef gboolean (*BusCondition) (gpointer user_data);
void bus_wait (BusCondition done, gpointer user_data, const char *what);

/* The reason in the Finished signal of a session. @bus: of bus_connect(), which hears them from its
 * beginning on: a session may end before its path is known. */
char *bus_wait_finished (GDBusConnection *bus, const char *session);
