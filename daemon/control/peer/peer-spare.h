/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives processes of a kind, with one kept ready. */
#pragma once

#include "daemon/control/peer/peer-launcher.h"

/**
 * SECTION: peer-spare
 *
 * Each connection to systemd's socket is an instance of a unit. To become one takes some ten
 * milliseconds, so one connection is made beforehand. Its process has said its first word when it
 * is taken, and that waits in the connection; of a broker it is looked at there, since it tells
 * what this machine has.
 */
typedef struct SondePeerSpare SondePeerSpare;

/* The first spare is on its way; what is wrong shows when one is wanted.
 * @launcher: outliving it
 * @socket_path: (nullable): where systemd listens; NULL: they are spawned */
SondePeerSpare *
sonde_peer_spare_new (SondePeerLauncher *launcher, SondePeerKind kind, const char *socket_path);
/* The spare process sees the end of its connection and exits. Accepts NULL. */
void sonde_peer_spare_free (SondePeerSpare *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePeerSpare, sonde_peer_spare_free)

gboolean sonde_peer_spare_is_there (const SondePeerSpare *self);

/* As sonde_peer_launcher_take(); systemd's connections have SO_PASSCRED. */
int sonde_peer_spare_take (SondePeerSpare *self, SondePeerProcess **process, GError **error);
