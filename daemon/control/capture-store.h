/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The capture files that sonded keeps for its callers. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/settings.h"

/**
 * SECTION: capture-store
 *
 * Below the state directory (/var/lib/sonde, from StateDirectory=) are
 *
 *     captures/LABEL-YYYYMMDDTHHMMSSZ-N.syscap    mode 0640, of sonded's own user
 *     owners/UID/LABEL-YYYYMMDDTHHMMSSZ-N.syscap  a link to it: whose it is
 *
 * in directories that nobody else can write. A file belongs to nobody but us, since its owner could
 * make it grow past every quota otherwise: /proc/self/fd opens what was passed for reading anew,
 * for writing. Removing a capture is an administrator's rm; its link goes when it is counted next.
 *
 * Each open file reserves what it may grow to, so that sessions at the same time cannot exceed a
 * quota together. The disk may still fill up by other hands: the worker looks at it while it
 * writes. Main loop only.
 */
typedef struct SondeCaptureStore SondeCaptureStore;

/**
 * sonde_capture_store_new:
 * @directory: the state directory; it exists
 * @settings: outliving it; may change
 *
 * Errors: SONDE_ERROR_FAILED, and if others can write there
 */
SondeCaptureStore *
sonde_capture_store_new (const char *directory, const SondeSettings *settings, GError **error);
/* Accepts NULL. */
void sonde_capture_store_free (SondeCaptureStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureStore, sonde_capture_store_free)

/**
 * sonde_capture_store_open:
 * @label: [A-Za-z0-9_.-]{1,64}
 * @session_id: unique while this sonded lives
 * @path: (out): of the new file
 * @max_bytes: (out): what may be written: the setting capture-bytes, or what the uid's
 *   capture-uid-bytes or the disk leave, of which a uid other than root takes half
 *
 * Returns: O_WRONLY, or -1. Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED
 */
int sonde_capture_store_open (SondeCaptureStore *self,
                              uid_t owner_uid,
                              const char *label,
                              guint64 session_id,
                              char **path,
                              guint64 *max_bytes,
                              GError **error);

/* A session of a sonded before us writes to @path, as sonde_capture_store_open() let it. */
void sonde_capture_store_reserve (SondeCaptureStore *self, const char *path, guint64 max_bytes);
/* Nothing more is written to @path: only its size counts from now on. A file that nothing was
 * written to, of a session that did not start, is removed. */
void sonde_capture_store_release (SondeCaptureStore *self, const char *path);

/**
 * sonde_capture_store_reopen:
 * @path: as sonde_capture_store_open() gave it
 *
 * Returns: O_RDONLY, or -1. Errors: SONDE_ERROR_FAILED
 */
int sonde_capture_store_reopen (SondeCaptureStore *self, const char *path, GError **error);
