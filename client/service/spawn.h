/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A command that waits at a gate, so that its first instruction can be recorded. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: spawn
 *
 * The process is there from the start and does nothing until it is released; then it becomes the
 * command. If we die before that, it goes too.
 */
typedef struct SondeSpawn SondeSpawn;

typedef struct
{
  /* The command could not be run; @exited follows. */
  void (*exec_failed) (int error_number, gpointer user_data);
  /* @wait_status: as of waitpid() */
  void (*exited) (int wait_status, gpointer user_data);
} SondeSpawnHandler;

/**
 * sonde_spawn_new:
 * @argv: the command, found through PATH
 * @named: (nullable): another form of it, see sonde_spawn_release()
 * @preload: (nullable): a library for the command's LD_PRELOAD, before those that are there
 * @spares_stdout: our standard output is not for the command, which gets standard error instead
 *
 * Forks. The caller must not have started a thread yet, GLib's own included.
 */
SondeSpawn *sonde_spawn_new (
    char **argv, char **named, const char *preload, gboolean spares_stdout, GError **error);

/* Kills what still waits at the gate; leaves a running command alone. Accepts NULL. */
void sonde_spawn_free (SondeSpawn *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSpawn, sonde_spawn_free)

/* Reports on the default main context from now on. */
void sonde_spawn_watch (SondeSpawn *self, const SondeSpawnHandler *handler, gpointer user_data);

GPid sonde_spawn_pid (const SondeSpawn *self);

/* Lets the command run. @control_fd: (transfer none): its end of a control socket, which its
 * environment tells it; -1: none. @rendezvous: (nullable): for its descendants without that.
 * @beacon: (nullable): of sessions that may call them later. @is_named: it runs in its other form
 */
void sonde_spawn_release (SondeSpawn *self,
                          int control_fd,
                          const char *rendezvous,
                          const char *beacon,
                          gboolean is_named);

/* Whether the command was released and has not exited. */
gboolean sonde_spawn_is_running (const SondeSpawn *self);

/* Does nothing once the process was reaped. */
void sonde_spawn_kill (SondeSpawn *self, int signal_number);
