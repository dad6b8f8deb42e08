/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files that a capture carries and that names come from. */
#pragma once

#include "client/base/budget.h"
#include "client/model/embedded-symbols.h"

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
