/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Capture files on the disk: whose they are, how much they may take, which have to go. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/system/settings.h"

/**
 * SECTION: capture-files
 *
 * Below the state directory (/var/lib/sonde) are
 *
 *     captures/LABEL-YYYYMMDDTHHMMSSZ-N.syscap    mode 0640, of sonded's own user
 *     owners/UID/LABEL-YYYYMMDDTHHMMSSZ-N.syscap  a link to it: whose it is
 *
 * in directories that nobody else can write. A file belongs to nobody but us, since its owner could
 * make it grow past every quota otherwise: /proc/self/fd opens what was passed for reading anew,
 * for writing. Its owner gets it, and has it removed, by its name; an administrator may use rm: the
 * link goes when it is counted next.
 *
 * Each file that is written reserves what it may grow to, so that sessions at the same time cannot
 * exceed a quota together. The disk may still fill up by other hands: the worker looks at it while
 * it writes. What is too old, or too much for the machine, goes: sonde_capture_files_tidy().
 *
 * A session holds its file, while it is written and as long as the session can be seen: nothing but
 * a request by name removes it then.
 *
 * Everything but what is said to be at hand waits for the disk, for as long as that takes: it is
 * for the thread of capture-store alone.
 */
typedef struct SondeCaptureFiles SondeCaptureFiles;

/* === At hand, for any thread === */

/* @directory: the state directory; it exists */
SondeCaptureFiles *sonde_capture_files_new (const char *directory);
void sonde_capture_files_free (SondeCaptureFiles *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureFiles, sonde_capture_files_free)

/**
 * sonde_capture_files_hold:
 * @max_bytes: as sonde_capture_files_create() gave it, 0 if nothing more is written
 *
 * A session has @path.
 */
void sonde_capture_files_hold (SondeCaptureFiles *self, const char *path, guint64 max_bytes);
/* No session has @path any more. */
void sonde_capture_files_release (SondeCaptureFiles *self, const char *path);

/* Whether @name, of whoever and whether or not it is there, is the name of a file and not a way to
 * another one. */
gboolean sonde_capture_files_is_name (const char *name);

/* === On the disk === */

/* First, and again as long as it fails. Errors: SONDE_ERROR_FAILED, and if others can write there
 */
gboolean sonde_capture_files_open (SondeCaptureFiles *self, GError **error);

/**
 * sonde_capture_files_create:
 * @label: [A-Za-z0-9_.-]{1,64}
 * @session_id: unique while this sonded lives; it has the file
 * @path: (out): of the new file
 * @max_bytes: (out): what may be written: the setting capture-bytes, or what the uid's
 *   capture-uid-bytes or the disk leave, of which a uid other than root takes half
 *
 * Returns: O_WRONLY, or -1. Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED
 */
int sonde_capture_files_create (SondeCaptureFiles *self,
                                const SondeSettings *settings,
                                uid_t owner_uid,
                                const char *label,
                                guint64 session_id,
                                char **path,
                                guint64 *max_bytes,
                                GError **error);

/* Nothing more is written to @path: only its size counts from now on. A file that nothing was
 * written to, of a session that did not start, is removed. */
void sonde_capture_files_complete (SondeCaptureFiles *self, const char *path);

/**
 * sonde_capture_files_reopen:
 * @path: as sonde_capture_files_create() gave it
 *
 * Returns: O_RDONLY, or -1. Errors: SONDE_ERROR_FAILED; NO_SUCH_SESSION if it was removed
 */
int sonde_capture_files_reopen (SondeCaptureFiles *self, const char *path, GError **error);

typedef struct
{
  char *name;
  char *label;
  guint64 start_us; /* since 1970, in whole seconds: when it was made */
  guint64 size_bytes;
  uid_t owner_uid;
  guint64 disk_bytes;    /* what it takes of the disk */
  guint64 to_come_bytes; /* by which it may still grow */
  gint64 changed_us;     /* since 1970: its last byte */
} SondeStoredCapture;

void sonde_stored_capture_free (SondeStoredCapture *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeStoredCapture, sonde_stored_capture_free)

/* Whether there is such a capture and @uid has it; any @name is taken. */
gboolean sonde_capture_files_is_of (SondeCaptureFiles *self, const char *name, uid_t uid);
/* Whether anybody but @uid may have captures. */
gboolean sonde_capture_files_has_others (SondeCaptureFiles *self, uid_t uid);

/**
 * sonde_capture_files_list:
 * @is_of_all: else of @owner_uid alone
 *
 * Returns: (transfer full) (element-type SondeStoredCapture): oldest first, those that are written
 *   included; NULL on failure. Errors: SONDE_ERROR_FAILED
 */
GPtrArray *sonde_capture_files_list (SondeCaptureFiles *self,
                                     gboolean is_of_all,
                                     uid_t owner_uid,
                                     GError **error);

/**
 * sonde_capture_files_open_stored:
 * @name: of which sonde_capture_files_is_name() is true
 *
 * Returns: O_RDONLY, or -1
 * Errors: SONDE_ERROR_NO_SUCH_SESSION, INVALID_STATE while it is written, FAILED
 */
int sonde_capture_files_open_stored (SondeCaptureFiles *self, const char *name, GError **error);

/**
 * sonde_capture_files_remove:
 * @name: as of sonde_capture_files_open_stored()
 * @owner_uid: (out): whose it was
 *
 * Errors: as sonde_capture_files_open_stored()
 */
gboolean sonde_capture_files_remove (SondeCaptureFiles *self,
                                     const char *name,
                                     uid_t *owner_uid,
                                     GError **error);

/**
 * sonde_capture_files_tidy:
 *
 * Removes captures that no session has: those that are older than the setting capture-days; then,
 * as long as all together take more of the disk than capture-machine-bytes or are more than
 * SONDE_LIMIT_CAPTURE_MACHINE_FILES, the oldest one of whoever has most. Each is one journal
 * record.
 *
 * Returns: whether more are to go than one call removes
 */
gboolean sonde_capture_files_tidy (SondeCaptureFiles *self, const SondeSettings *settings);
