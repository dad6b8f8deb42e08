/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parses what one reader wants of a session's stream: the options of OpenCapture. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/limits.h"
#include "daemon/base/message.h"

/* Keys, units and ranges: dbus/org.sonde.Profiler1.xml. */
typedef struct
{
  guint buffer_size_bytes; /* queued before frames are dropped for it */
  guint frames;            /* SONDE_SINK_FRAMES_*: what it gets beside the state */
  guint n_pids;            /* 0: of all processes */
  gint32 pids[SONDE_MESSAGE_SINK_MAX_PIDS];
} SondeStreamOptions;

/* Everything, as without any key. */
void sonde_stream_options_init (SondeStreamOptions *self);

/**
 * sonde_stream_options_parse:
 * @dict: a value of type a{sv}
 * @options: (out): written on success only
 *
 * Errors: SONDE_ERROR_INVALID_OPTION, whose message names the key
 */
gboolean sonde_stream_options_parse (GVariant *dict, SondeStreamOptions *options, GError **error);
