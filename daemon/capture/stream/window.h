/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the last part of a session's frames in segments, each with the state that it began with. */
#pragma once

#include "daemon/capture/stream/sink.h"

/**
 * SECTION: window
 *
 * What is recorded is appended to the newest segment: whole chunks, packed once they are full, so
 * that nothing is done for a single frame. A segment begins where nothing is half told, with a base
 * of the state, so that what is kept from any segment on is a whole capture. The oldest ones go,
 * and are counted: those that the window does not reach any more, and those beyond its bytes. It
 * reaches back to a segment's begin, exactly: at least as far as was asked for, if its bytes allow.
 *
 * Of bytes count the frames as they are kept, and the bases, of which mappings that others hold as
 * well count in part. The newest two segments stay whatever they take. Main thread only.
 */
#define SONDE_WINDOW_SEGMENTS    8         /* of the length, and of the bytes, about */
#define SONDE_WINDOW_MIN_TURN_NS 100000000 /* the shortest segment */
/* Bytes of its frames when they are opened: with state and names, less than
 * SONDE_LIMIT_SNAPSHOT_BYTES. */
#define SONDE_WINDOW_MAX_FRAME_BYTES (160u << 20)

typedef struct SondeWindow SondeWindow;

/* Something of the owner's that a segment has. */
typedef struct
{
  /* A segment is about to begin: what is half told is to be told to its end. */
  void (*prepare) (gpointer user_data);
  /* It begins; the one before gets no more. Returns: what is its */
  gpointer (*begin) (gpointer user_data);
  gsize (*measure) (gpointer item, gpointer user_data); /* bytes */
  /* The segment goes. */
  void (*end) (gpointer item, gpointer user_data);
} SondeWindowHandler;

/* @source: borrowed, and outliving it. @length_ns: 0: as far back as there is room */
SondeWindow *sonde_window_new (const SondeSinkSource *source,
                               gint64 length_ns,
                               gsize max_bytes,
                               const SondeWindowHandler *handler,
                               gpointer user_data);
void sonde_window_free (SondeWindow *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWindow, sonde_window_free)

void sonde_window_push (SondeWindow *self, const SondeSpan *span);
/* Begins another segment if it is time, and lets go of old ones. Not while a frame is recorded. */
void sonde_window_turn (SondeWindow *self, gint64 now_ns);

/* All that is kept at this moment. It stays as it is, whatever is recorded and goes later. */
SondeBacklog *sonde_window_freeze (SondeWindow *self, gint64 now_ns);
void sonde_window_foreach (const SondeWindow *self, GFunc func, gpointer user_data);

/* When what it has begins; bytes that it takes; frames that have gone. */
gint64 sonde_window_begin_ns (const SondeWindow *self);
gsize sonde_window_bytes (const SondeWindow *self);
guint64 sonde_window_n_gone (const SondeWindow *self);
