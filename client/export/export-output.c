/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where an export goes: a file, or standard output, with a buffer before it. */
#include "client/export/export-output.h"

#include <gio/gunixoutputstream.h>
#include <unistd.h>

#include "client/base/text.h"

#define FULL_BYTES 65536

struct SondeExportOutput
{
  GOutputStream *stream;
  GString *text;
  GError *error; /* the first one */
};

SondeExportOutput *
sonde_export_output_new (const char *path, gboolean is_compressed, GError **error)
{
  SondeExportOutput *self;
  g_autoptr (GFile) file = path != NULL ? g_file_new_for_path (path) : NULL;
  g_autoptr (GOutputStream) stream = NULL;

  if (file != NULL)
    stream = (GOutputStream *) g_file_replace (file, NULL, FALSE, G_FILE_CREATE_REPLACE_DESTINATION,
                                               NULL, error);
  else
    stream = g_unix_output_stream_new (STDOUT_FILENO, FALSE);
  if (stream == NULL)
    return NULL;
  if (is_compressed)
    {
      g_autoptr (GConverter) gzip
          = (GConverter *) g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1);
      GOutputStream *compressed = g_converter_output_stream_new (stream, gzip);

      g_object_unref (stream);
      stream = compressed;
    }

  self = g_new0 (SondeExportOutput, 1);
  self->stream = g_steal_pointer (&stream);
  self->text = g_string_sized_new (2 * FULL_BYTES);
  return self;
}

void
sonde_export_output_free (SondeExportOutput *self)
{
  if (self == NULL)
    return;
  if (!g_output_stream_is_closed (self->stream))
    {
      /* A stream that is closed so keeps the file that was there. */
      g_autoptr (GCancellable) cancelled = g_cancellable_new ();

      g_cancellable_cancel (cancelled);
      g_output_stream_close (self->stream, cancelled, NULL);
    }
  g_object_unref (self->stream);
  g_string_free (self->text, TRUE);
  g_clear_error (&self->error);
  g_free (self);
}

GString *
sonde_export_output_text (SondeExportOutput *self)
{
  return self->text;
}

static void
flush (SondeExportOutput *self)
{
  if (self->error == NULL)
    g_output_stream_write_all (self->stream, self->text->str, self->text->len, NULL, NULL,
                               &self->error);
  g_string_truncate (self->text, 0);
}

void
sonde_export_output_pass (SondeExportOutput *self)
{
  if (self->text->len >= FULL_BYTES)
    flush (self);
}

void
sonde_export_output_printf (SondeExportOutput *self, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_string_append_vprintf (self->text, format, arguments);
  va_end (arguments);
  sonde_export_output_pass (self);
}

void
sonde_export_output_bytes (SondeExportOutput *self, const void *bytes, gsize size_bytes)
{
  g_string_append_len (self->text, bytes, (gssize) size_bytes);
  sonde_export_output_pass (self);
}

gboolean
sonde_export_output_close (SondeExportOutput *self, GError **error)
{
  flush (self);
  if (self->error == NULL)
    g_output_stream_close (self->stream, NULL, &self->error);
  if (self->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&self->error));
  return FALSE;
}

void
sonde_export_append_json (GString *out, const char *text)
{
  g_autofree char *safe = sonde_text_escape (text, -1);

  /* It is valid UTF-8 without control characters by now. */
  g_string_append_c (out, '"');
  for (const char *at = safe; *at != '\0'; at++)
    {
      if (*at == '"' || *at == '\\')
        g_string_append_c (out, '\\');
      g_string_append_c (out, *at);
    }
  g_string_append_c (out, '"');
}
