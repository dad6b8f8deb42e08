/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files that a capture carries and that names come from. */
#pragma once

#include <glib.h>

#include "client/base/budget.h"
#include "protocol/frame.h"

#define SONDE_EMBEDDED_SYMBOLS_PATH      "__symbols__"
#define SONDE_EMBEDDED_SYMBOLS_MAX_BYTES (128u << 20) /* a report keeps them twice */

typedef struct SondeEmbeddedSymbols SondeEmbeddedSymbols;

/**
 * sonde_embedded_symbols_new:
 * @bytes: (transfer full): the whole file, of foreign origin; records need not be sorted
 *
 * Records whose strings lie outside of the file or lack their NUL are left out; strings are cut
 * behind SONDE_MAX_PATH_BYTES.
 */
SondeEmbeddedSymbols *sonde_embedded_symbols_new (GByteArray *bytes);
void sonde_embedded_symbols_free (SondeEmbeddedSymbols *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEmbeddedSymbols, sonde_embedded_symbols_free)

gsize sonde_embedded_symbols_size (const SondeEmbeddedSymbols *self);

/* The record @index, its strings checked; its offsets are into the file. */
const SondeSymbolRecord *sonde_embedded_symbols_get (const SondeEmbeddedSymbols *self, gsize index);

/* @name, @tag: (out) (transfer none): as below */
void sonde_embedded_symbols_texts (const SondeEmbeddedSymbols *self,
                                   const SondeSymbolRecord *record,
                                   const char **name,
                                   const char **tag);

/* What recorders embed where a file had no symbol: "TAG+0x1234". */
gboolean sonde_embedded_symbols_is_made_up (const char *name, const char *tag);

/* @index: (out): of the record that holds @address; FALSE if none does */
gboolean sonde_embedded_symbols_find (const SondeEmbeddedSymbols *self,
                                      gint32 pid,
                                      guint64 address,
                                      gsize *index);

/**
 * sonde_embedded_symbols_lookup:
 * @name: (out) (transfer none): may be invalid UTF-8
 * @tag: (out) (transfer none): the module's base name, or NULL
 */
gboolean sonde_embedded_symbols_lookup (const SondeEmbeddedSymbols *self,
                                        gint32 pid,
                                        guint64 address,
                                        const char **name,
                                        const char **tag);

/**
 * SECTION: embedded-files
 *
 * FILE_CHUNK frames go in; of "__symbols__", "/proc/cpuinfo" and of each "/proc/PID/mountinfo" the
 * last whole one is kept. What comes out is of foreign origin.
 */
#define SONDE_EMBEDDED_MOUNTINFO_MAX_BYTES  (1u << 20)
#define SONDE_EMBEDDED_MOUNTINFOS_MAX_BYTES (64u << 20) /* of all */
#define SONDE_EMBEDDED_MOUNTINFO_MAX        1024        /* processes */

typedef struct SondeEmbeddedFiles SondeEmbeddedFiles;

/* @budget: whose SONDE_LIMIT_NAMES counts what had no room; kept by the caller as long as the files
 */
SondeEmbeddedFiles *sonde_embedded_files_new (SondeBudget *budget);
void sonde_embedded_files_free (SondeEmbeddedFiles *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEmbeddedFiles, sonde_embedded_files_free)

/* @frame: accepted by sonde_frame_check() */
void sonde_embedded_files_add (SondeEmbeddedFiles *self, const SondeFrameFileChunk *frame);

/* Those of @from that are whole. */
void sonde_embedded_files_copy_mountinfos (SondeEmbeddedFiles *self,
                                           const SondeEmbeddedFiles *from);

/* NULL if there are none, or not yet. */
const SondeEmbeddedSymbols *sonde_embedded_files_symbols (const SondeEmbeddedFiles *self);

/* "Intel(R) Core(TM) i7": the model of the first processor that has one; NULL: none says. */
const char *sonde_embedded_files_cpu_model (const SondeEmbeddedFiles *self);

/* (element-type gint): of those processes whose mountinfo is there, in ascending order. */
GArray *sonde_embedded_files_dup_mountinfo_pids (const SondeEmbeddedFiles *self);
/* NULL if there is none; else ends with a NUL. */
const char *sonde_embedded_files_mountinfo (const SondeEmbeddedFiles *self, gint32 pid);
