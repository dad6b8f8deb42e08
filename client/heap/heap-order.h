/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts frames of a capture in order of time. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"

/**
 * SECTION: heap-order
 *
 * Each thread of a program writes into a ring of its own, and the rings are emptied one after the
 * other: in a capture a free may stand before the allocation in another thread, and both before
 * what the kernel told of their process. A frame is handed on when SONDE_HEAP_ORDER_WINDOW_BYTES of
 * frames have later times. That is what all rings of a session hold together, so frames are out of
 * place only in captures that others made or merged; then they are counted, and handed on late.
 * Frames of the same time stay as they came.
 */
typedef struct SondeHeapOrder SondeHeapOrder;

#define SONDE_HEAP_ORDER_WINDOW_BYTES (64u << 20)

/* @frame: valid during the call */
typedef void (*SondeHeapFrameFunc) (const SondeFrame *frame, gpointer user_data);

/* @foresee: told of a frame shortly before @func, to fetch from memory what that will look at. */
SondeHeapOrder *
sonde_heap_order_new (SondeHeapFrameFunc func, SondeHeapFrameFunc foresee, gpointer user_data);
void sonde_heap_order_free (SondeHeapOrder *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeHeapOrder, sonde_heap_order_free)

/* @frame: copied */
void sonde_heap_order_add (SondeHeapOrder *self, const SondeFrame *frame);

/* Hands on what is left. */
void sonde_heap_order_flush (SondeHeapOrder *self);

/* Frames that came too late for their place. */
guint64 sonde_heap_order_n_late (const SondeHeapOrder *self);
