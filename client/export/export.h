/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The formats of other viewers that a capture can be written in. */
#pragma once

#include <gio/gio.h>

#include "client/export/export-source.h"
#include "client/report/profile.h"

/**
 * SECTION: export
 *
 * Exports are as long as their captures, so they are written as they are made, JSON too: json-glib
 * would hold the whole document in memory. A failure is remembered, and told at the end.
 */
typedef struct SondeExportOutput SondeExportOutput;

/* @path: NULL is standard output, too; a file is there when it is closed: see output.h */
SondeExportOutput *
sonde_export_output_new (const char *path, gboolean is_compressed, GError **error);
/* Leaves a file as it was before if it is not closed. Accepts NULL. */
void sonde_export_output_free (SondeExportOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportOutput, sonde_export_output_free)

/* To append to; what is there is on its way once sonde_export_output_pass() was called. */
GString *sonde_export_output_text (SondeExportOutput *self);
/* About once a record: writes when there is enough. */
void sonde_export_output_pass (SondeExportOutput *self);
void sonde_export_output_printf (SondeExportOutput *self, const char *format, ...)
    G_GNUC_PRINTF (2, 3);
void sonde_export_output_bytes (SondeExportOutput *self, const void *bytes, gsize size_bytes);

gboolean sonde_export_output_close (SondeExportOutput *self, GError **error);

typedef struct
{
  SondeUnit unit; /* of formats that have one */
} SondeExportOptions;

/* Writes what @source holds. FALSE with @error if the capture has nothing that the format could
 * show. What cannot be written shows when @output is closed. */
typedef gboolean (*SondeExportFunc) (SondeExportSource *source,
                                     const SondeExportOptions *options,
                                     SondeExportOutput *output,
                                     GError **error);

gboolean sonde_export_folded (SondeExportSource *source,
                              const SondeExportOptions *options,
                              SondeExportOutput *output,
                              GError **error);
gboolean sonde_export_dot (SondeExportSource *source,
                           const SondeExportOptions *options,
                           SondeExportOutput *output,
                           GError **error);
gboolean sonde_export_speedscope (SondeExportSource *source,
                                  const SondeExportOptions *options,
                                  SondeExportOutput *output,
                                  GError **error);
gboolean sonde_export_firefox (SondeExportSource *source,
                               const SondeExportOptions *options,
                               SondeExportOutput *output,
                               GError **error);
gboolean sonde_export_perfetto (SondeExportSource *source,
                                const SondeExportOptions *options,
                                SondeExportOutput *output,
                                GError **error);
gboolean sonde_export_pprof (SondeExportSource *source,
                             const SondeExportOptions *options,
                             SondeExportOutput *output,
                             GError **error);
gboolean sonde_export_perf_script (SondeExportSource *source,
                                   const SondeExportOptions *options,
                                   SondeExportOutput *output,
                                   GError **error);
gboolean sonde_export_chrome (SondeExportSource *source,
                              const SondeExportOptions *options,
                              SondeExportOutput *output,
                              GError **error);
