/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What one reader wants of a session's stream. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/limits.h"

typedef struct
{
  guint buffer_size_bytes; /* queued before frames are dropped for it */
} SondeStreamOptions;

#define SONDE_STREAM_OPTIONS_INIT                                                                  \
  {                                                                                                \
    .buffer_size_bytes = SONDE_LIMIT_SINK_BUFFER                                                   \
  }
