/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Capture files, whose they are, and how much of the disk they may take. */
#include "daemon/control/session/capture-files.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define UID 4242

typedef struct
{
  char *directory;
  SondeSettings settings;
  SondeCaptureFiles *store;
  guint64 last_id;
} Fixture;

static SondeCaptureFiles *
open_store (const char *directory, GError **error)
{
  g_autoptr (SondeCaptureFiles) store = sonde_capture_files_new (directory);

  return sonde_capture_files_open (store, error) ? g_steal_pointer (&store) : NULL;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->directory = g_dir_make_tmp ("sonde-store-XXXXXX", NULL);
  sonde_settings_init (&fixture->settings);
  fixture->store = open_store (fixture->directory, NULL);
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
  sonde_capture_files_free (fixture->store);
  remove_tree (fixture->directory);
  g_free (fixture->directory);
}

/* An open file of @size_bytes, all of them holes. Returns its descriptor. */
static int
open_file (Fixture *fixture, uid_t uid, off_t size_bytes, char **path, guint64 *max_bytes)
{
  g_autoptr (GError) error = NULL;
  int fd = sonde_capture_files_create (fixture->store, &fixture->settings, uid, "label",
                                       ++fixture->last_id, path, max_bytes, &error);

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
  sonde_capture_files_complete (fixture->store, path);
  sonde_capture_files_release (fixture->store, path);
}

static void
assert_refused (Fixture *fixture, uid_t uid, const char *limit)
{
  g_autofree char *path = NULL;
  g_autoptr (GError) error = NULL;
  guint64 max_bytes;

  g_assert_cmpint (sonde_capture_files_create (fixture->store, &fixture->settings, uid, "label",
                                               ++fixture->last_id, &path, &max_bytes, &error),
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
  g_assert_null (open_store (fixture->directory, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_cmpint (rmdir (captures), ==, 0);
  g_assert_cmpint (symlink ("/tmp", captures), ==, 0);
  g_assert_null (open_store (fixture->directory, &error));
  g_clear_error (&error);
  g_assert_null (open_store ("/nonexistent/sonde", &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
}

/* Who counts sessions anew, within a second. */
static void
gives_each_file_a_name (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < 3; i++)
    {
      fixture->last_id = 0;
      add_file (fixture, UID + i % 2, 1);
    }
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
  sonde_capture_files_complete (fixture->store, path);
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
  sonde_capture_files_complete (fixture->store, empty);
  sonde_capture_files_complete (fixture->store, used);
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
  g_assert_cmpint (sonde_capture_files_create (fixture->store, &fixture->settings, UID, "label", 77,
                                               &path, &max_bytes, &error),
                   ==, -1);
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

      g_assert_cmpint (sonde_capture_files_reopen (fixture->store, paths[i], &error), ==, -1);
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
  again = sonde_capture_files_reopen (fixture->store, path, NULL);
  g_assert_cmpint (fcntl (again, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  g_assert_cmpint (read (again, text, sizeof text), ==, 4);
  g_assert_cmpstr (text, ==, "text");
}

/* --- by name --- */

/* A capture of @size_bytes on the disk, last written @age_days ago, which no session has. Returns:
 * (transfer full): its name */
static char *
add_old_file (Fixture *fixture, uid_t uid, gsize size_bytes, guint age_days)
{
  g_autofree char *path = NULL;
  g_autofree char *bytes = g_malloc0 (size_bytes);
  guint64 max_bytes;
  int fd = open_file (fixture, uid, 0, &path, &max_bytes);
  struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0 } };

  g_assert_cmpint (write (fd, bytes, size_bytes), ==, (gssize) size_bytes);
  times[1].tv_sec = g_get_real_time () / G_USEC_PER_SEC - (gint64) age_days * 24 * 3600;
  g_assert_cmpint (futimens (fd, times), ==, 0);
  close (fd);
  sonde_capture_files_complete (fixture->store, path);
  sonde_capture_files_release (fixture->store, path);
  return g_path_get_basename (path);
}

/* The names that are left, in the order of their numbers, as "1 3". */
static char *
list_numbers (Fixture *fixture, uid_t uid)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) captures = sonde_capture_files_list (fixture->store, uid == 0, uid, &error);
  g_autoptr (GString) text = g_string_new (NULL);

  g_assert_no_error (error);
  for (guint64 id = 1; id <= fixture->last_id; id++)
    {
      g_autofree char *end = g_strdup_printf ("Z-%" G_GUINT64_FORMAT ".syscap", id);

      for (guint i = 0; i < captures->len; i++)
        if (g_str_has_suffix (((SondeStoredCapture *) g_ptr_array_index (captures, i))->name, end))
          g_string_append_printf (text, "%s%" G_GUINT64_FORMAT, text->len > 0 ? " " : "", id);
    }
  g_assert_cmpuint (captures->len, <=, fixture->last_id);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
assert_left (Fixture *fixture, uid_t uid, const char *numbers)
{
  g_autofree char *left = list_numbers (fixture, uid);

  g_assert_cmpstr (left, ==, numbers);
}

static void
takes_only_names_that_it_gives (Fixture *fixture, gconstpointer data)
{
  static const char *const names[] = {
    "",
    ".",
    "..",
    ".syscap",
    "label-20260102T030405Z-.syscap",
    "label-20260102T030405Z-1",
    "label-20260102T030405Z-1.syscap/",
    "label-20260102T030405Z-1.syscap.syscap",
    "label-20260102T030405Z-x.syscap",
    "label-20261302T030405Z-1.syscap",
    "label-20260102 030405Z-1.syscap",
    "label-2026010-T030405Z-1.syscap",
    "label20260102T030405Z-1.syscap",
    "-20260102T030405Z-1.syscap",
    "../label-20260102T030405Z-1.syscap",
    "../captures/label-20260102T030405Z-1.syscap",
    "/etc/label-20260102T030405Z-1.syscap",
    "la\nbel-20260102T030405Z-1.syscap",
    "l\303\244bel-20260102T030405Z-1.syscap",
    "0123456789012345678901234567890123456789012345678901234567890123x-20260102T030405Z-1.syscap",
  };
  g_autofree char *digits = g_strnfill (300, '1');
  g_autofree char *too_long = g_strconcat ("label-20260102T030405Z-", digits, ".syscap", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_test_message ("\"%s\"", names[i]);
      g_assert_false (sonde_capture_files_is_name (names[i]));
      g_assert_false (sonde_capture_files_is_of (fixture->store, names[i], UID));
    }
  g_assert_false (sonde_capture_files_is_name (too_long));
  g_assert_true (sonde_capture_files_is_name ("label-20260102T030405Z-1.syscap"));
  g_assert_true (sonde_capture_files_is_name ("..-20260102T030405Z-18446744073709551615.syscap"));
  g_assert_true (sonde_capture_files_is_name ("a-20260102T030405Z-1-20260102T030405Z-2.syscap"));
}

static void
lists_whose_they_are_oldest_first (Fixture *fixture, gconstpointer data)
{
  g_autofree char *mine = add_old_file (fixture, UID, 5000, 0);
  g_autofree char *others = add_old_file (fixture, UID + 1, 7, 0);
  g_autoptr (GPtrArray) own = sonde_capture_files_list (fixture->store, FALSE, UID, NULL);
  g_autoptr (GPtrArray) all = sonde_capture_files_list (fixture->store, TRUE, 0, NULL);
  const SondeStoredCapture *capture = g_ptr_array_index (own, 0);
  gint64 age_us = g_get_real_time () - (gint64) capture->start_us;

  g_assert_cmpuint (own->len, ==, 1);
  g_assert_cmpstr (capture->name, ==, mine);
  g_assert_cmpstr (capture->label, ==, "label");
  g_assert_cmpuint (capture->size_bytes, ==, 5000);
  g_assert_cmpuint (capture->owner_uid, ==, UID);
  g_assert_cmpuint (capture->start_us % G_USEC_PER_SEC, ==, 0);
  g_assert_cmpint (age_us, >=, 0);
  g_assert_cmpint (age_us, <, 600 * G_USEC_PER_SEC);
  g_assert_cmpuint (all->len, ==, 2);
  g_assert_true (sonde_capture_files_is_of (fixture->store, mine, UID));
  g_assert_false (sonde_capture_files_is_of (fixture->store, others, UID));
  g_assert_true (sonde_capture_files_has_others (fixture->store, UID));
}

static void
opens_no_link_and_no_directory (Fixture *fixture, gconstpointer data)
{
  static const char name[] = "label-20260102T030405Z-1.syscap";
  g_autofree char *path = g_build_filename (fixture->directory, "captures", name, NULL);
  uid_t owner_uid;

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GError) error = NULL;

      if (i == 1)
        g_assert_cmpint (symlink ("/etc/passwd", path), ==, 0);
      else if (i == 2)
        g_assert_cmpint (mkdir (path, 0755), ==, 0);
      else if (i == 3)
        g_assert_cmpint (mkfifo (path, 0644), ==, 0);
      g_assert_cmpint (sonde_capture_files_open_stored (fixture->store, name, &error), ==, -1);
      g_assert_cmpint (error->code, ==,
                       (gint) (i == 0 ? SONDE_ERROR_NO_SUCH_SESSION : SONDE_ERROR_FAILED));
      g_clear_error (&error);
      /* Nobody has it. */
      g_assert_false (sonde_capture_files_remove (fixture->store, name, &owner_uid, &error));
      g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_SESSION);
      if (i > 0)
        g_assert_cmpint (remove (path), ==, 0);
    }
}

static void
keeps_what_is_written (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = NULL;
  g_autofree char *name = NULL;
  g_autoptr (GError) error = NULL;
  guint64 max_bytes;
  uid_t owner_uid = 0;

  close (open_file (fixture, UID, 1, &path, &max_bytes));
  name = g_path_get_basename (path);
  g_assert_false (sonde_capture_files_remove (fixture->store, name, &owner_uid, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE);
  g_clear_error (&error);
  g_assert_cmpint (sonde_capture_files_open_stored (fixture->store, name, &error), ==, -1);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE);
  g_clear_error (&error);
  assert_left (fixture, UID, "1");
  /* A session can still be seen, but its owner has decided. */
  sonde_capture_files_complete (fixture->store, path);
  g_assert_true (sonde_capture_files_remove (fixture->store, name, &owner_uid, &error));
  g_assert_cmpuint (owner_uid, ==, UID);
}

static void
removes_the_file_its_link_and_the_last_folder (Fixture *fixture, gconstpointer data)
{
  g_autofree char *first = add_old_file (fixture, UID, 1, 0);
  g_autofree char *second = add_old_file (fixture, UID, 1, 0);
  g_autofree char *links = g_build_filename (fixture->directory, "owners", "4242", NULL);
  g_autofree char *link = g_build_filename (links, first, NULL);
  uid_t owner_uid = 0;

  g_assert_true (sonde_capture_files_remove (fixture->store, first, &owner_uid, NULL));
  g_assert_cmpuint (owner_uid, ==, UID);
  g_assert_false (g_file_test (link, G_FILE_TEST_IS_SYMLINK));
  assert_left (fixture, UID, "2");
  g_assert_true (sonde_capture_files_remove (fixture->store, second, &owner_uid, NULL));
  g_assert_false (g_file_test (links, G_FILE_TEST_EXISTS));
  g_assert_false (sonde_capture_files_has_others (fixture->store, UID + 1));
  add_file (fixture, UID, 1);
}

/* --- age and size --- */

static void
removes_what_is_too_old (Fixture *fixture, gconstpointer data)
{
  g_autofree char *held = NULL;
  struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 0 } };
  guint64 max_bytes;
  int fd;

  g_free (add_old_file (fixture, UID, 1, 31));
  g_free (add_old_file (fixture, UID, 1, 29));
  fd = open_file (fixture, UID, 1, &held, &max_bytes);
  g_assert_cmpint (futimens (fd, times), ==, 0);
  close (fd);
  fixture->settings.capture_days = 0;
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, UID, "1 2 3");
  fixture->settings.capture_days = SONDE_LIMIT_CAPTURE_DAYS;
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, UID, "2 3");
  sonde_capture_files_complete (fixture->store, held);
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, UID, "2 3");
  sonde_capture_files_release (fixture->store, held);
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, UID, "2");
}

/* Four MiB in all; the limit holds three. */
static void
takes_from_whoever_has_most (Fixture *fixture, gconstpointer data)
{
  const gsize mib = 1 << 20;

  g_free (add_old_file (fixture, UID + 1, mib, 5));
  g_free (add_old_file (fixture, UID, mib, 3));
  g_free (add_old_file (fixture, UID, mib, 4));
  g_free (add_old_file (fixture, UID, mib, 2));
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "1 2 3 4");
  fixture->settings.capture_machine_bytes = 3 * mib + mib / 2;
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "1 2 4");
  fixture->settings.capture_machine_bytes = 2 * mib + mib / 2;
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "1 4");
}

static void
never_takes_what_a_session_has (Fixture *fixture, gconstpointer data)
{
  const gsize mib = 1 << 20;
  g_autofree char *path = NULL;
  g_autofree char *bytes = g_malloc0 (4 * mib);
  guint64 max_bytes;
  int fd;

  g_free (add_old_file (fixture, UID + 1, mib, 1));
  fd = open_file (fixture, UID, 0, &path, &max_bytes);
  g_assert_cmpint (write (fd, bytes, 4 * mib), ==, (gssize) (4 * mib));
  close (fd);
  fixture->settings.capture_machine_bytes = 2 * mib;
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "2");
  sonde_capture_files_complete (fixture->store, path);
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "2");
}

/* Each may cost the disk some time, and others wait. */
static void
removes_some_at_a_time (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < SONDE_LIMIT_CAPTURE_REMOVALS + 2; i++)
    g_free (add_old_file (fixture, UID + i, 1, 80 - i));
  g_assert_true (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "17 18");
  g_assert_false (sonde_capture_files_tidy (fixture->store, &fixture->settings));
  assert_left (fixture, 0, "");
}

/* One file alone is never more than all may be. */
static void
gives_no_file_more_than_all_may_take (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = NULL;
  guint64 max_bytes;

  fixture->settings.capture_machine_bytes = 5 << 20;
  close (open_file (fixture, UID, 1, &path, &max_bytes));
  g_assert_cmpuint (max_bytes, ==, 5 << 20);
}

#define ADD(name, function)                                                                        \
  g_test_add ("/capture-files/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-a-directory-that-others-write", refuses_a_directory_that_others_write);
  ADD ("gives-each-file-a-name", gives_each_file_a_name);
  ADD ("refuses-a-user-too-many-bytes", refuses_a_user_too_many_bytes);
  ADD ("refuses-a-user-too-many-files", refuses_a_user_too_many_files);
  ADD ("counts-what-open-files-may-grow-to", counts_what_open_files_may_grow_to);
  ADD ("forgets-what-was-removed", forgets_what_was_removed);
  ADD ("removes-what-stays-empty", removes_what_stays_empty);
  ADD ("never-opens-what-is-there", never_opens_what_is_there);
  ADD ("refuses-to-read-what-is-not-its-own", refuses_to_read_what_is_not_its_own);
  ADD ("gives-a-new-file-and-reads-it-again", gives_a_new_file_and_reads_it_again);
  ADD ("takes-only-names-that-it-gives", takes_only_names_that_it_gives);
  ADD ("opens-no-link-and-no-directory", opens_no_link_and_no_directory);
  ADD ("keeps-what-is-written", keeps_what_is_written);
  ADD ("lists-whose-they-are-oldest-first", lists_whose_they_are_oldest_first);
  ADD ("removes-the-file-its-link-and-the-last-folder",
       removes_the_file_its_link_and_the_last_folder);
  ADD ("removes-what-is-too-old", removes_what_is_too_old);
  ADD ("takes-from-whoever-has-most", takes_from_whoever_has_most);
  ADD ("never-takes-what-a-session-has", never_takes_what_a_session_has);
  ADD ("removes-some-at-a-time", removes_some_at_a_time);
  ADD ("gives-no-file-more-than-all-may-take", gives_no_file_more_than_all_may_take);
  return g_test_run ();
}
