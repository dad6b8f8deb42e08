/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The formats of other viewers that a capture can be written in. */
#pragma once

#include <gio/gio.h>

#include "client/base/output.h"
#include "client/export/export-source.h"
#include "client/report/profile.h"

/**
 * SECTION: export
 *
 * Exports are as long as their captures, so they are written as they are made, JSON too: json-glib
 * would hold the whole document in memory. A failure is remembered, and told at the end.
 */
typedef struct
{
  SondeOutput *output;
  GConverter *gzip; /* NULL: as it is */
  GString *text;    /* to append to; what is there is on its way once sonde_export_output_pass() was
                       called */
  GError *error;    /* the first one */
} SondeExportOutput;

/* @path: NULL is standard output, too; a file is there when it is closed: see output.h */
SondeExportOutput *
sonde_export_output_new (const char *path, gboolean is_compressed, GError **error);
/* Leaves a file as it was before if it is not closed. Accepts NULL. */
void sonde_export_output_free (SondeExportOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportOutput, sonde_export_output_free)

/* About once a record: writes when there is enough. */
void sonde_export_output_pass (SondeExportOutput *self);
void sonde_export_output_printf (SondeExportOutput *self, const char *format, ...)
    G_GNUC_PRINTF (2, 3);
void sonde_export_output_bytes (SondeExportOutput *self, const void *bytes, gsize size_bytes);

gboolean sonde_export_output_close (SondeExportOutput *self, GError **error);

/* @text with @with in the place of each of @chars. */
void sonde_export_append_replaced (GString *out, const char *text, const char *chars, char with);

/* Writes what @source holds, in @unit if the format has one. FALSE with @error if the capture has
 * nothing that the format could show. What cannot be written shows when @output is closed. */
typedef gboolean SondeExportFunc (SondeExportSource *source,
                                  SondeUnit unit,
                                  SondeExportOutput *output,
                                  GError **error);

SondeExportFunc sonde_export_folded;
SondeExportFunc sonde_export_dot;
SondeExportFunc sonde_export_speedscope;
SondeExportFunc sonde_export_firefox;
SondeExportFunc sonde_export_perfetto;
SondeExportFunc sonde_export_pprof;
SondeExportFunc sonde_export_perf_script;
SondeExportFunc sonde_export_chrome;
