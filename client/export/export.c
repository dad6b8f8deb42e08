/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/export/export.h"

#include <string.h>

#define FULL_BYTES 65536

SondeExportOutput *
sonde_export_output_new (const char *path, gboolean is_compressed, GError **error)
{
  SondeOutput *output = sonde_output_open (path != NULL ? path : "-", SONDE_OUTPUT_WHOLE, error);
  SondeExportOutput *self;

  if (output == NULL)
    return NULL;
  self = g_new0 (SondeExportOutput, 1);
  self->output = output;
  if (is_compressed)
    self->gzip = (GConverter *) g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1);
  self->text = g_string_sized_new (2 * FULL_BYTES);
  return self;
}

void
sonde_export_output_free (SondeExportOutput *self)
{
  if (self == NULL)
    return;
  sonde_output_free (self->output);
  g_clear_object (&self->gzip);
  g_string_free (self->text, TRUE);
  g_clear_error (&self->error);
  g_free (self);
}

static void
flush (SondeExportOutput *self, gboolean is_end)
{
  if (self->gzip != NULL)
    {
      g_autofree char *packed = g_malloc (FULL_BYTES);
      GConverterResult result = G_CONVERTER_CONVERTED;
      gsize n_done = 0;

      while (self->error == NULL && result != G_CONVERTER_FINISHED
             && (is_end || n_done < self->text->len))
        {
          gsize n_read = 0;
          gsize n_packed = 0;

          result = g_converter_convert (self->gzip, self->text->str + n_done,
                                        self->text->len - n_done, packed, FULL_BYTES,
                                        is_end ? G_CONVERTER_INPUT_AT_END : G_CONVERTER_NO_FLAGS,
                                        &n_read, &n_packed, &self->error);
          n_done += n_read;
          if (self->error == NULL)
            sonde_output_write (self->output, packed, n_packed, &self->error);
        }
    }
  else if (self->error == NULL)
    sonde_output_write (self->output, self->text->str, self->text->len, &self->error);
  g_string_truncate (self->text, 0);
}

void
sonde_export_output_pass (SondeExportOutput *self)
{
  if (self->text->len >= FULL_BYTES)
    flush (self, FALSE);
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
  flush (self, TRUE);
  if (self->error == NULL)
    sonde_output_close (self->output, &self->error);
  if (self->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&self->error));
  return FALSE;
}

void
sonde_export_append_replaced (GString *out, const char *text, const char *chars, char with)
{
  for (gsize n; *text != '\0'; text += n)
    {
      n = strcspn (text, chars);
      g_string_append_len (out, text, (gssize) n);
      if (text[n] == '\0')
        return;
      g_string_append_c (out, with);
      n++;
    }
}
