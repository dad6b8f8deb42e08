/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures that cannot be opened, and such as break off. */
#include "client/model/capture-file.h"

#include "tests/unit/capture-builder.h"

typedef struct
{
  char *path;
} Fixture;

/* A capture of one frame, and @data bytes of another one behind it. */
static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("sonde-XXXXXX.syscap", &self->path, &error);

  g_assert_no_error (error);
  close (fd);
  add_process (capture, 5, "prog");
  g_assert_cmpint (sonde_writer_flush (capture->writer), ==, 0);
  g_byte_array_append (capture->bytes, capture->bytes->data, GPOINTER_TO_UINT (data));
  g_assert_true (g_file_set_contents (self->path, (const char *) capture->bytes->data,
                                      capture->bytes->len, NULL));
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  g_unlink (self->path);
  g_free (self->path);
}

static void
refuses_a_path_that_is_none (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_unlink (self->path);
  g_assert_null (sonde_capture_file_open (self->path, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_assert_false (sonde_capture_file_probe (self->path));
}

static void
refuses_what_cannot_be_read (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (sonde_capture_file_open ("/", &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY);
  g_assert_false (sonde_capture_file_probe ("/"));
}

static void
says_where_it_breaks (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *place = NULL;
  const SondeFrame *frame;

  g_assert_true (sonde_capture_file_probe (self->path));
  file = sonde_capture_file_open (self->path, &error);
  g_assert_no_error (error);
  g_assert_true (sonde_capture_file_next (file, &frame, &error));
  place = g_strdup_printf ("is broken at offset %zu: ", sizeof (SondeFileHeader) + frame->len);
  g_assert_false (sonde_capture_file_next (file, &frame, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
  g_assert_nonnull (strstr (error->message, place));
}

static void
ends_without_an_error (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (self->path, &error);
  const SondeFrame *frame;

  g_assert_no_error (error);
  g_assert_cmpint (sonde_capture_file_header (file)->version, ==, 1);
  g_assert_true (sonde_capture_file_next (file, &frame, &error));
  g_assert_false (sonde_capture_file_next (file, &frame, &error));
  g_assert_no_error (error);
  sonde_capture_file_free (NULL);
}

#define TEST(path, n_bytes, function)                                                              \
  g_test_add ("/capture-file/" path, Fixture, GUINT_TO_POINTER (n_bytes), set_up, function,        \
              tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  TEST ("refuses-a-path-that-is-none", 0, refuses_a_path_that_is_none);
  TEST ("refuses-what-cannot-be-read", 0, refuses_what_cannot_be_read);
  TEST ("says-where-it-breaks", 12, says_where_it_breaks);
  TEST ("ends-without-an-error", 0, ends_without_an_error);
  return g_test_run ();
}
