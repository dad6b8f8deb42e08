/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A frame as one line of text. */
#pragma once

#include <glib.h>

#include "client/model/heap-log-reader.h"
#include "protocol/frame.h"

/* "HEADER version=1 ...", with its newline. */
void sonde_frame_text_append_header (GString *out, const SondeFileHeader *header);

/* Which counters are numbers with a fraction: their values do not say. */
typedef struct SondeFrameText SondeFrameText;

SondeFrameText *sonde_frame_text_new (void);
void sonde_frame_text_free (SondeFrameText *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFrameText, sonde_frame_text_free)

/* "SAMPLE time=... cpu=... pid=... ...", with its newline; strings are quoted and escaped.
 * @self: (nullable): what gets all frames of a capture in their order; without it values of
 * counters are shown as integers
 * @frame: accepted by sonde_frame_check() */
void sonde_frame_text_append (SondeFrameText *self, GString *out, const SondeFrame *frame);

/* "ALLOCATION ... n=2 stack=7 0x401010 0x402010": of the heap log, as its reader tells it. A stack
 * has its addresses where it comes first, and then its number alone: a hundred bytes of the log may
 * have 262,144 events of the deepest one. */
void sonde_frame_text_append_logged (GString *out,
                                     const SondeFrameAllocation *event,
                                     const SondeHeapLogStack *stack);
