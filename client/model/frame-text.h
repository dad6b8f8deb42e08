/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A frame as one line of text. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"

/* "HEADER version=1 ...", with its newline. */
void sonde_frame_text_append_header (GString *out, const SondeFileHeader *header);

/* "SAMPLE time=... cpu=... pid=... ...", with its newline; strings are quoted and escaped.
 * @frame: accepted by sonde_frame_check() */
void sonde_frame_text_append (GString *out, const SondeFrame *frame);

/* The build id that a MAP frame has behind its path, or NULL. */
const char *sonde_frame_build_id (const SondeFrameMap *frame);
