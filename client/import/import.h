/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes a capture of what another profiler recorded: samples and blocks whose frames have names,
 * but no addresses. */
#pragma once

#include "client/base/output.h"

/**
 * SECTION: import
 *
 * A function gets a range of made-up addresses, which "__symbols__" of the capture names. Memory
 * grows with functions and processes. What is beyond the limits becomes SONDE_IMPORT_TRUNCATED, and
 * is counted. A failure to write is remembered, and told at the end.
 */
typedef struct SondeImport SondeImport;

#define SONDE_IMPORT_MAX_FUNCTIONS (1u << 20)
#define SONDE_IMPORT_MAX_EVENTS    (1u << 24) /* samples, or blocks */
#define SONDE_IMPORT_MAX_DEPTH     1024
#define SONDE_IMPORT_TRUNCATED     0u /* the function "[truncated]" */

/* @output: (transfer none); @start_ns: when the first event was, above 0; @realtime_ns: the wall
 * clock then; 0: not known */
SondeImport *sonde_import_new (SondeOutput *output, gint64 start_ns, gint64 realtime_ns);
void sonde_import_free (SondeImport *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeImport, sonde_import_free)

/* The number of that function; of foreign origin. */
guint32 sonde_import_ensure_function (SondeImport *self,
                                      const char *name,
                                      const char *module,
                                      gboolean in_kernel);

/* The thread @tid of @pid is called @name from then on; a first thread is its process. */
void
sonde_import_name (SondeImport *self, gint32 pid, gint32 tid, gint64 time_ns, const char *name);

/* @functions: innermost first; what is beyond the bound is left out at the outer end */
void sonde_import_add_sample (SondeImport *self,
                              gint32 pid,
                              gint32 tid,
                              gint64 time_ns,
                              const guint32 *functions,
                              gsize n_functions);

/* @is_freed: at once */
void sonde_import_add_block (SondeImport *self,
                             gint32 pid,
                             gint32 tid,
                             gint64 time_ns,
                             gint64 size_bytes,
                             gboolean is_freed,
                             const guint32 *functions,
                             gsize n_functions);

guint64 sonde_import_n_samples (const SondeImport *self);
guint64 sonde_import_n_blocks (const SondeImport *self);
guint64 sonde_import_n_truncated (const SondeImport *self);

/* @event: what was sampled; NULL: nothing; @period: from one sample to the next, 0: not known */
gboolean sonde_import_close (SondeImport *self, const char *event, guint64 period, GError **error);

/* What a reader of another's format does. FALSE with @error, which names line or byte. */
typedef struct
{
  SondeImport *import; /* NULL before the first event */
  char *event;         /* NULL: none */
  guint64 period;      /* 0: not known */
  guint64 n_left_out;  /* events that had no room */
} SondeImported;

/* @text: of perf script, with a NUL behind it; @name: of it in errors */
gboolean sonde_import_perf_script (const char *text,
                                   gsize size_bytes,
                                   const char *name,
                                   SondeOutput *output,
                                   SondeImported *imported,
                                   GError **error);
/* @bytes: of a pprof profile, as it is or compressed with gzip */
gboolean sonde_import_pprof (const guint8 *bytes,
                             gsize size_bytes,
                             const char *name,
                             SondeOutput *output,
                             SondeImported *imported,
                             GError **error);
