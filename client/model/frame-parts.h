/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks the parts of frames whose number is in the frame: names of code, values of counters. */
#pragma once

#include <glib.h>
#include <string.h>

#include "protocol/frame.h"

/* Whether @address is made up, for a name. */
static inline gboolean
sonde_is_jit_address (guint64 address)
{
  return address >= SONDE_JIT_ADDRESS_BASE && address < 0xF000000000000000u;
}

/* Whether it is one for code that a program made at run time. */
static inline gboolean
sonde_is_made_code (guint64 address)
{
  return address >= SONDE_JIT_CODE_BASE && address - SONDE_JIT_CODE_BASE <= G_MAXUINT32;
}

/* All frames were accepted by sonde_frame_check(), which bounds these walks. */

/* One name of a JITMAP; zeros: before the first one. */
typedef struct
{
  guint32 n_told;
  guint64 address;
  const char *name; /* may be invalid UTF-8 */
} SondeFrameName;

/* FALSE: that was the last one. */
static inline gboolean
sonde_frame_next_name (const SondeFrameJitmap *frame, SondeFrameName *self)
{
  const guint8 *at = frame->data;

  if (self->n_told == frame->n_names)
    return FALSE;
  if (self->n_told++ > 0)
    at = (const guint8 *) self->name + strlen (self->name) + 1;
  memcpy (&self->address, at, sizeof self->address);
  self->name = (const char *) at + sizeof self->address;
  return TRUE;
}

/* One value of a CTRSET, of a slot that is in use; zeros: before the first one. */
typedef struct
{
  guint n_slots; /* up to this one, which is the last of them */
  guint32 id;    /* of the counter, not 0 */
  SondeCounterValue value;
} SondeFrameValue;

/* FALSE: that was the last one. */
static inline gboolean
sonde_frame_next_value (const SondeFrameCounterSet *frame, SondeFrameValue *self)
{
  for (; self->n_slots < frame->n_groups * SONDE_COUNTERS_PER_GROUP; self->n_slots++)
    {
      const SondeCounterGroup *group = &frame->groups[self->n_slots / SONDE_COUNTERS_PER_GROUP];
      guint slot = self->n_slots % SONDE_COUNTERS_PER_GROUP;

      if (group->ids[slot] == 0)
        continue;
      self->n_slots++;
      self->id = group->ids[slot];
      self->value = group->values[slot];
      return TRUE;
    }
  return FALSE;
}

/* The build id that a MAP has behind its path, or NULL. */
static inline const char *
sonde_frame_build_id (const SondeFrameMap *frame)
{
  gsize size = frame->frame.len - sizeof *frame;
  gsize path_size = strlen (frame->path) + 1;

  /* the last byte of the frame is NUL */
  return path_size < size && frame->path[path_size] == '@' ? frame->path + path_size + 1 : NULL;
}
