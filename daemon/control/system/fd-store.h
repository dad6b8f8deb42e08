/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Descriptors that systemd keeps for the next sonded. */
#pragma once

#include "daemon/control/system/outbox.h"

/**
 * SECTION: fd-store
 *
 * What is put there survives a crash, a kill and `systemctl restart`; systemd closes it when the
 * service is stopped. It does not look at the descriptors (FDPOLL=0), so that one whose other end
 * is gone still comes back, with what was said last. Several can have one name. Without systemd, or
 * for a unit without FileDescriptorStoreMax=, nothing is kept and nothing comes back.
 *
 * Source: sd_pid_notify_with_fds(3), sd_listen_fds(3)
 */
typedef struct SondeFdStore SondeFdStore;

/* Takes what a sonded before us has left. Once, before anything else opens descriptors.
 * @systemd: (nullable): outliving it */
SondeFdStore *sonde_fd_store_new (SondeOutbox *systemd);
/* What was not taken is closed and stays in the store. */
void sonde_fd_store_free (SondeFdStore *self);

/* Whether something that is put there may come back. */
gboolean sonde_fd_store_is_there (const SondeFdStore *self);

/* Keeps duplicates. @name: [A-Za-z0-9.-]+ */
void sonde_fd_store_put (SondeFdStore *self, const char *name, const int *fds, guint n_fds);
/* All of that name. */
void sonde_fd_store_remove (SondeFdStore *self, const char *name);

/* What was left: each descriptor's name, NULL behind the last one. */
const char *sonde_fd_store_left_name (const SondeFdStore *self, guint index);
/* (transfer full): -1 if it was taken already */
int sonde_fd_store_take_left (SondeFdStore *self, guint index);
