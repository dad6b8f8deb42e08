/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Capture files, whose they are, and how much of the disk they may take. */
#include "daemon/control/capture-store.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"

#define UID 4242

typedef struct
{
  char *directory;
  SondeSettings settings;
  SondeCaptureStore *store;
  guint64 last_id;
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->directory = g_dir_make_tmp ("sonde-store-XXXXXX", NULL);
  sonde_settings_init (&fixture->settings);
  fixture->store = sonde_capture_store_new (fixture->directory, &fixture->settings, NULL);
  g_assert_nonnull (fixture->store);
}

static void
remove_tree (const char *path)
{
  g_autoptr (GDir) directory = g_dir_open (path, 0, NULL);
  const char *name;

  while (directory != NULL && (name = g_dir_read_name (directory)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      if (g_file_test (child, G_FILE_TEST_IS_DIR) && !g_file_test (child, G_FILE_TEST_IS_SYMLINK))
        remove_tree (child);
      else
        unlink (child);
    }
  rmdir (path);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_capture_store_free (fixture->store);
  remove_tree (fixture->directory);
  g_free (fixture->directory);
}

/* An open file of @size_bytes, all of them holes. Returns its descriptor. */
static int
open_file (Fixture *fixture, uid_t uid, off_t size_bytes, char **path, guint64 *max_bytes)
{
  g_autoptr (GError) error = NULL;
  int fd = sonde_capture_store_open (fixture->store, uid, "label", ++fixture->last_id, path,
                                     max_bytes, &error);

  g_assert_no_error (error);
  g_assert_cmpint (ftruncate (fd, size_bytes), ==, 0);
  return fd;
}

static void
add_file (Fixture *fixture, uid_t uid, off_t size_bytes)
{
  g_autofree char *path = NULL;
  guint64 max_bytes;

  close (open_file (fixture, uid, size_bytes, &path, &max_bytes));
  sonde_capture_store_release (fixture->store, path);
}

static void
assert_refused (Fixture *fixture, uid_t uid, const char *limit)
{
  g_autofree char *path = NULL;
  g_autoptr (GError) error = NULL;
  guint64 max_bytes;

  g_assert_cmpint (sonde_capture_store_open (fixture->store, uid, "label", ++fixture->last_id,
                                             &path, &max_bytes, &error),
                   ==, -1);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  g_assert_nonnull (strstr (error->message, limit));
  g_assert_null (path);
}

/* --- cases --- */

static void
refuses_a_directory_that_others_write (Fixture *fixture, gconstpointer data)
{
  g_autofree char *captures = g_build_filename (fixture->directory, "captures", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (chmod (captures, 0770), ==, 0);
  g_assert_null (sonde_capture_store_new (fixture->directory, &fixture->settings, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_cmpint (rmdir (captures), ==, 0);
  g_assert_cmpint (symlink ("/tmp", captures), ==, 0);
  g_assert_null (sonde_capture_store_new (fixture->directory, &fixture->settings, &error));
  g_clear_error (&error);
  g_assert_null (sonde_capture_store_new ("/nonexistent/sonde", &fixture->settings, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
}

static void
refuses_a_user_too_many_bytes (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < SONDE_LIMIT_CAPTURE_UID_BYTES / SONDE_LIMIT_CAPTURE_BYTES; i++)
    add_file (fixture, UID, SONDE_LIMIT_CAPTURE_BYTES);
  assert_refused (fixture, UID, "capture-uid-bytes");
  /* Nobody else pays for it. */
  add_file (fixture, UID + 1, 0);
}

static void
refuses_a_user_too_many_files (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < SONDE_LIMIT_CAPTURE_FILES; i++)
    add_file (fixture, UID, 1);
  assert_refused (fixture, UID, "capture-files");
}

static void
counts_what_open_files_may_grow_to (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = NULL;
  g_autofree char *other = NULL;
  guint64 max_bytes, other_max;
  sonde_autofd int fd = -1;

  for (guint i = 0; i < 3; i++)
    add_file (fixture, UID, SONDE_LIMIT_CAPTURE_BYTES);
  add_file (fixture, UID, SONDE_LIMIT_CAPTURE_BYTES - (2 << 20));
  fd = open_file (fixture, UID, 4096, &path, &max_bytes);
  g_assert_cmpuint (max_bytes, ==, 2 << 20);
  assert_refused (fixture, UID, "capture-uid-bytes");
  /* Once it is closed, what it did not take is free again. */
  sonde_capture_store_release (fixture->store, path);
  close (open_file (fixture, UID, 0, &other, &other_max));
  g_assert_cmpuint (other_max, ==, (2 << 20) - 4096);
}

/* That of a session which never started. */
static void
removes_what_stays_empty (Fixture *fixture, gconstpointer data)
{
  g_autofree char *empty = NULL;
  g_autofree char *used = NULL;
  guint64 max_bytes;

  close (open_file (fixture, UID, 0, &empty, &max_bytes));
  close (open_file (fixture, UID, 1, &used, &max_bytes));
  g_assert_true (g_file_test (empty, G_FILE_TEST_EXISTS));
  sonde_capture_store_release (fixture->store, empty);
  sonde_capture_store_release (fixture->store, used);
  g_assert_false (g_file_test (empty, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (used, G_FILE_TEST_EXISTS));
}

static void
forgets_what_was_removed (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = NULL;
  g_autofree char *links = g_build_filename (fixture->directory, "owners", "4242", NULL);
  g_autoptr (GDir) directory = NULL;
  guint64 max_bytes;
  guint n_links = 0;

  for (guint i = 0; i < 3; i++)
    add_file (fixture, UID, SONDE_LIMIT_CAPTURE_BYTES);
  close (open_file (fixture, UID, SONDE_LIMIT_CAPTURE_BYTES, &path, &max_bytes));
  assert_refused (fixture, UID, "capture-uid-bytes");
  g_assert_cmpint (unlink (path), ==, 0);
  add_file (fixture, UID, 1);
  directory = g_dir_open (links, 0, NULL);
  while (g_dir_read_name (directory) != NULL)
    n_links++;
  g_assert_cmpuint (n_links, ==, 4);
}

static void
never_opens_what_is_there (Fixture *fixture, gconstpointer data)
{
  g_autofree char *captures = g_build_filename (fixture->directory, "captures", NULL);
  g_autofree char *target = g_build_filename (fixture->directory, "target", NULL);
  g_autoptr (GError) error = NULL;
  char *path = NULL;
  guint64 max_bytes;

  /* A link of every name of the next seconds. */
  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
      g_autoptr (GDateTime) then = g_date_time_add_seconds (now, i);
      g_autofree char *time = g_date_time_format (then, "%Y%m%dT%H%M%SZ");
      g_autofree char *name = g_strdup_printf ("%s/label-%s-77.syscap", captures, time);

      g_assert_cmpint (symlink (target, name), ==, 0);
    }
  g_assert_cmpint (
      sonde_capture_store_open (fixture->store, UID, "label", 77, &path, &max_bytes, &error), ==,
      -1);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_false (g_file_test (target, G_FILE_TEST_EXISTS));
}

static void
refuses_to_read_what_is_not_its_own (Fixture *fixture, gconstpointer data)
{
  g_autofree char *up = g_build_filename (fixture->directory, "captures", "..", "owners", NULL);
  const char *const paths[] = { "/etc/passwd", "", up, fixture->directory };

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_cmpint (sonde_capture_store_reopen (fixture->store, paths[i], &error), ==, -1);
      g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
    }
}

static void
gives_a_new_file_and_reads_it_again (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = NULL;
  guint64 max_bytes;
  sonde_autofd int fd = open_file (fixture, UID, 0, &path, &max_bytes);
  sonde_autofd int again = -1;
  g_autofree char *name = g_path_get_basename (path);
  struct stat st;
  char text[8] = "";

  g_assert_true (g_regex_match_simple ("^label-[0-9]{8}T[0-9]{6}Z-1\\.syscap$", name,
                                       (GRegexCompileFlags) 0, (GRegexMatchFlags) 0));
  g_assert_cmpint (fstat (fd, &st), ==, 0);
  g_assert_cmpint (st.st_mode, ==, S_IFREG | 0640);
  g_assert_cmpint (st.st_uid, ==, geteuid ());
  g_assert_cmpuint (max_bytes, <=, SONDE_LIMIT_CAPTURE_BYTES);
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_WRONLY);
  g_assert_cmpint (write (fd, "text", 4), ==, 4);
  again = sonde_capture_store_reopen (fixture->store, path, NULL);
  g_assert_cmpint (fcntl (again, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  g_assert_cmpint (read (again, text, sizeof text), ==, 4);
  g_assert_cmpstr (text, ==, "text");
}

#define ADD(name, function)                                                                        \
  g_test_add ("/capture-store/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-a-directory-that-others-write", refuses_a_directory_that_others_write);
  ADD ("refuses-a-user-too-many-bytes", refuses_a_user_too_many_bytes);
  ADD ("refuses-a-user-too-many-files", refuses_a_user_too_many_files);
  ADD ("counts-what-open-files-may-grow-to", counts_what_open_files_may_grow_to);
  ADD ("forgets-what-was-removed", forgets_what_was_removed);
  ADD ("removes-what-stays-empty", removes_what_stays_empty);
  ADD ("never-opens-what-is-there", never_opens_what_is_there);
  ADD ("refuses-to-read-what-is-not-its-own", refuses_to_read_what_is_not_its_own);
  ADD ("gives-a-new-file-and-reads-it-again", gives_a_new_file_and_reads_it_again);
  return g_test_run ();
}
