/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The formats of other viewers that a capture can be written in. */
#pragma once

#include "client/export/export-output.h"
#include "client/export/export-source.h"
#include "client/report/profile.h"

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
