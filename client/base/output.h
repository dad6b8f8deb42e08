/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes what a command makes: to a file, a device, or standard output. */
#pragma once

#include <glib.h>

/**
 * SECTION: output
 *
 * A path that is "-" is standard output. A symbolic link is followed, and stays. Devices, FIFOs and
 * sockets are written through: they are never cut, replaced or removed. Of regular files there are
 * two kinds:
 *
 * - What is of use only when it is whole is written beside its place, in the same folder, and takes
 *   it when it is closed: until then, and after a failure or a signal, what was there before is
 *   there. It gets the mode and, as far as we may, the owner of the file that it replaces.
 * - What others may read while it grows (%SONDE_OUTPUT_IN_PLACE) is written in its place.
 *
 * Errors name the path; #GFileError.
 */
typedef struct SondeOutput SondeOutput;

typedef enum
{
  SONDE_OUTPUT_WHOLE,
  SONDE_OUTPUT_IN_PLACE,
  SONDE_OUTPUT_NEW, /* in place, and an error if anything is there: %G_FILE_ERROR_EXIST */
} SondeOutputKind;

/**
 * sonde_output_open:
 *
 * One of %SONDE_OUTPUT_WHOLE at a time. A file that is there keeps its content until something is
 * written. Waits for the reader of a FIFO.
 *
 * Returns: (transfer full): NULL with @error
 */
SondeOutput *sonde_output_open (const char *path, SondeOutputKind kind, GError **error);

/**
 * sonde_output_free:
 *
 * Without sonde_output_close() what is not whole goes, and so does a file in place that was not
 * there before. Accepts NULL.
 */
void sonde_output_free (SondeOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeOutput, sonde_output_free)

gboolean
sonde_output_write (SondeOutput *self, const void *bytes, gsize size_bytes, GError **error);

/* All is written: what is whole takes its place. */
gboolean sonde_output_close (SondeOutput *self, GError **error);

/* (transfer none): to write to, instead of sonde_output_write() */
int sonde_output_fd (const SondeOutput *self);

/* Whether it can be read again, under the path that was given. */
gboolean sonde_output_is_file (const SondeOutput *self);

/* (transfer none): the path as messages show it, or "standard output" */
const char *sonde_output_name (const SondeOutput *self);

/* Opens, writes and closes. */
gboolean sonde_output_put (const char *path, const GString *text, GError **error);

/* Whether @path is "-" and that is a terminal, which is no place for bytes; then complains.
 * @what: that would be written: "a capture" */
gboolean sonde_output_refuse_terminal (const char *path, const char *what);
