/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A flame graph as one page that needs nothing else. */
#pragma once

#include <gio/gio.h>

#include "client/model/samples.h"
#include "client/names/symbol-resolver.h"

#define SONDE_FLAME_PAGE_MAX_BYTES                                                                 \
  5000000 /* what sondectl asks for: to be mailed, and read at once */

typedef struct
{
  const SondeSampleLog *log;         /* with at least one sample */
  const SondeSampleLog *other;       /* to compare with; NULL: nothing */
  const SondeSymbolOptions *symbols; /* NULL: the default */
  const char *title;                 /* UTF-8 */
  const char *other_title;           /* NULL without @other */
  const char *start;                 /* ISO 8601, of foreign origin */
} SondeFlamePage;

/**
 * sonde_flame_page_new:
 * @max_bytes: where a capture has more in it, the lightest frames are summed up and times are told
 *   apart less well; the page says so
 *
 * Its policy lets the page run its own script and load nothing.
 *
 * Returns: (transfer full): NULL with @error if not even then it fits
 */
GString *sonde_flame_page_new (const SondeFlamePage *page, gsize max_bytes, GError **error);
