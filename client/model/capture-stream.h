/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture that comes in pieces, as a socket gives them. */
#pragma once

#include <gio/gio.h>

#include "protocol/frame.h"

typedef struct SondeCaptureStream SondeCaptureStream;

/* @frame: (transfer none): checked, valid during the call */
typedef void (*SondeCaptureStreamFunc) (const SondeFrame *frame, gpointer user_data);

SondeCaptureStream *sonde_capture_stream_new (SondeCaptureStreamFunc func, gpointer user_data);
void sonde_capture_stream_free (SondeCaptureStream *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureStream, sonde_capture_stream_free)

/* Takes the next piece and tells the frames that it completes. FALSE with @error: what came is no
 * capture, or a broken one. */
gboolean sonde_capture_stream_add (SondeCaptureStream *self,
                                   const guint8 *bytes,
                                   gsize size_bytes,
                                   GError **error);

/* Whether anything has come. */
gboolean sonde_capture_stream_has_begun (const SondeCaptureStream *self);

/* No more comes. FALSE with @error if the last frame is not whole. */
gboolean sonde_capture_stream_end (SondeCaptureStream *self, GError **error);
