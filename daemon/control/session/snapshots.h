/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the memory that workers write snapshots into, and knows how much of it is still in use. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/**
 * SECTION: snapshots
 *
 * A snapshot is a memfd. A worker writes it; then it is sealed, so that it stays as it is whatever
 * becomes of the worker, and who asked gets a descriptor of its own for reading. Its memory is
 * neither his nor ours by the kernel's account, and stays for as long as anybody has it open or
 * mapped: so it counts for his uid until then. Whether that is so the kernel tells whoever asks for
 * a lease for writing, which there is only for the last one who has a file open.
 *
 * Source: fcntl(2), F_SETLEASE; memfd_create(2)
 */
typedef struct SondeSnapshots SondeSnapshots;

SondeSnapshots *sonde_snapshots_new (void);
void sonde_snapshots_free (SondeSnapshots *self);

typedef struct SondeSnapshot SondeSnapshot;

/* Counts a call of @uid. (transfer full); it does not outlive @self.
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, naming the limit; FAILED */
SondeSnapshot *sonde_snapshots_begin (SondeSnapshots *self, uid_t uid, GError **error);
/* (transfer full): for the worker; -1 with @error */
int sonde_snapshot_dup_fd (const SondeSnapshot *self, GError **error);
/* @self: (transfer full): it is written. Returns: (transfer full): what its reader gets, or -1.
 * Errors: SONDE_ERROR_FAILED: somebody could still change it, or it is larger than it may be */
int sonde_snapshot_seal (SondeSnapshot *self, GError **error);
/* It will not be written. Accepts NULL. */
void sonde_snapshot_drop (SondeSnapshot *self);

/* What a uid has of them: bytes of those that are written. */
guint64 sonde_snapshots_measure (SondeSnapshots *self, uid_t uid, guint *n_snapshots);
