/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Embeds names into a capture, so that it needs nothing else. */
#pragma once

#include <gio/gio.h>

#include "client/base/budget.h"
#include "client/base/progress.h"

typedef struct
{
  const char *debug_directory; /* NULL: as in symbol-resolver.h */
  SondeProgress *progress;     /* NULL: none */
} SondeArchiveOptions;

typedef struct
{
  guint n_names;      /* records in the new "__symbols__" */
  guint n_added;      /* of them, not in the old one */
  SondeBudget budget; /* of what was looked up */
} SondeArchiveResult;

/**
 * sonde_archive_embed:
 * @path: a capture in a regular file
 * @output: where the new one goes, as of output.h; may be @path
 *
 * Names come from the capture, and from the files on this machine and their debug files. The frames
 * stay as they are, but for "__symbols__" and for the counts of frames in the closing counters.
 */
gboolean sonde_archive_embed (const char *path,
                              const char *output,
                              const SondeArchiveOptions *options,
                              SondeArchiveResult *result,
                              GError **error);
