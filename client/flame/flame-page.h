/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A flame graph as one page that needs nothing else. */
#pragma once

#include <gio/gio.h>

#include "client/flame/flame-graph.h"

#define SONDE_FLAME_PAGE_MAX_BYTES                                                                 \
  5000000 /* what sondectl asks for: to be mailed, and read at once */

/**
 * sonde_flame_page_new:
 * @max_bytes: where a capture has more in it, the lightest frames are summed up and times are told
 *   apart less well; the page says so
 *
 * Its policy lets the page run its own script and load nothing.
 *
 * Returns: (transfer full): NULL with @error if not even then it fits
 */
GString *sonde_flame_page_new (const SondeFlameSource *source, gsize max_bytes, GError **error);
