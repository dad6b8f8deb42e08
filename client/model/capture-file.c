/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/capture-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "client/base/text.h"

struct SondeCaptureFile
{
  int fd;
  gboolean owns_fd;
  SondeReader *reader;
  char *name; /* escaped, for messages */
  SondeProgress *progress;
};

SondeCaptureFile *
sonde_capture_file_open (const char *path, GError **error)
{
  g_autoptr (SondeCaptureFile) self = g_new0 (SondeCaptureFile, 1);
  gboolean is_stdin = g_str_equal (path, "-");
  int result;

  self->name = is_stdin ? g_strdup ("standard input") : sonde_text_escape (path, -1);
  self->owns_fd = !is_stdin;
  self->fd = is_stdin ? STDIN_FILENO : open (path, O_RDONLY | O_CLOEXEC);
  if (self->fd < 0)
    {
      int saved_errno = errno;

      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (saved_errno), "Cannot open %s: %s",
                   self->name, g_strerror (saved_errno));
      return NULL;
    }

  result = sonde_reader_new_fd (self->fd, &self->reader);
  if (result < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (-result), "%s: %s", self->name,
                   sonde_reader_strerror (result));
      return NULL;
    }
  return g_steal_pointer (&self);
}

void
sonde_capture_file_free (SondeCaptureFile *self)
{
  if (self == NULL)
    return;
  sonde_reader_free (self->reader);
  if (self->owns_fd)
    sonde_clear_fd (&self->fd);
  g_free (self->name);
  g_free (self);
}

void
sonde_capture_file_show (SondeCaptureFile *self, SondeProgress *progress)
{
  g_autofree char *what = g_strconcat ("Reading ", self->name, NULL);
  struct stat st;

  self->progress = progress;
  sonde_progress_begin (progress, what,
                        fstat (self->fd, &st) == 0 && S_ISREG (st.st_mode) ? (guint64) st.st_size
                                                                           : 0);
}

const SondeFileHeader *
sonde_capture_file_header (const SondeCaptureFile *self)
{
  return sonde_reader_header (self->reader);
}

gboolean
sonde_capture_file_next (SondeCaptureFile *self, const SondeFrame **frame, GError **error)
{
  int result = sonde_reader_next (self->reader, frame);

  if (result == -EBADMSG)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                 "%s is broken at offset %" G_GUINT64_FORMAT ": %s", self->name,
                 (guint64) sonde_reader_offset (self->reader),
                 sonde_frame_fault_to_string (sonde_reader_fault (self->reader)));
  else if (result < 0)
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (-result), "Cannot read %s: %s",
                 self->name, g_strerror (-result));
  sonde_progress_set (self->progress, sonde_reader_offset (self->reader));
  return result > 0;
}

guint64
sonde_capture_file_offset (const SondeCaptureFile *self)
{
  return sonde_reader_offset (self->reader);
}

gboolean
sonde_capture_file_probe (const char *path)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  guint32 magic = 0;
  struct stat st;

  return fd >= 0 && fstat (fd, &st) == 0 && S_ISREG (st.st_mode)
         && read (fd, &magic, sizeof magic) == (gssize) sizeof magic
         && GUINT32_FROM_LE (magic) == SONDE_CAPTURE_MAGIC;
}
