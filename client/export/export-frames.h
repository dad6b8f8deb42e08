/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells frames of stacks apart by where they are: in which file, at which address, and inlined how
 * deep. */
#pragma once

#include "client/model/capture-model.h"
#include "client/names/symbol-resolver.h"

/**
 * SECTION: export-frames
 *
 * A file that many processes have mapped is one, and an address of it is one place, wherever they
 * have it: places have the addresses of the process that was met first. A place has the frame of
 * the function that is there, and those of what is inlined there. Memory grows with the distinct
 * addresses of a capture, not with its samples.
 */
typedef struct SondeExportFrames SondeExportFrames;

/* A mapping of a file; or, without addresses, what functions have as their module that are in none
 * ("[kernel]"). */
typedef struct
{
  const char *path;     /* may be invalid UTF-8 */
  const char *build_id; /* as the capture has it; NULL: none */
  guint64 start;        /* bytes, of the process that was met first */
  guint64 end;          /* 0: it is no file */
  guint64 offset;       /* bytes into the file */
} SondeExportMapping;

#define SONDE_EXPORT_NO_MAPPING G_MAXUINT32

typedef struct
{
  guint32 mapping;     /* number of the mapping, or SONDE_EXPORT_NO_MAPPING */
  guint32 first;       /* number of its first frame: the function's own; what is inlined follows */
  guint32 n_frames;    /* above 0 */
  guint32 next;        /* other place at the same address; 0: none */
  guint64 address;     /* bytes, as in @mapping; 0: none */
  SondeFilePlace file; /* the same in the file; zeros: it is in none */
} SondeExportPlace;

typedef struct
{
  guint32 place;    /* number of its place */
  guint32 function; /* number of the resolver's */
  guint32 whole;    /* number of its function, whatever the line */
} SondeExportFrame;

/* Of all locations of @model, which @resolver has named. Frame 0 is SONDE_TRUNCATED. */
SondeExportFrames *sonde_export_frames_new (const SondeCaptureModel *model,
                                            SondeSymbolResolver *resolver);
/* Of functions alone, of which nobody knows where they are: by the same numbers. */
SondeExportFrames *sonde_export_frames_new_of_functions (const SondeSymbolResolver *resolver);
void sonde_export_frames_free (SondeExportFrames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportFrames, sonde_export_frames_free)

guint32 sonde_export_frames_n_mappings (const SondeExportFrames *self);
const SondeExportMapping *sonde_export_frames_mapping (const SondeExportFrames *self, guint32 i);
guint32 sonde_export_frames_n_places (const SondeExportFrames *self);
const SondeExportPlace *sonde_export_frames_place (const SondeExportFrames *self, guint32 i);
guint32 sonde_export_frames_n_frames (const SondeExportFrames *self);
const SondeExportFrame *sonde_export_frames_frame (const SondeExportFrames *self, guint32 i);

/* Functions as a whole: all lines of them are one. Returns a frame of it. */
guint32 sonde_export_frames_n_wholes (const SondeExportFrames *self);
guint32 sonde_export_frames_whole (const SondeExportFrames *self, guint32 i);

/* The place of @location, of those that there were. */
const SondeExportPlace *sonde_export_frames_find (const SondeExportFrames *self, guint32 location);
