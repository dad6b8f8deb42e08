/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The page of a user's embedded sessions: whose it may be, and how it is made. */
#include "client/base/private-beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/own-folder.h"
#include "shared-ring/beacon-layout.h"

typedef struct
{
  char *runtime; /* the user's folder of what runs */
  char *folder;  /* ours in it */
  char *path;
} Place;

static void
open_place (Place *place)
{
  place->runtime = g_dir_make_tmp ("sonde-beacon-XXXXXX", NULL);
  place->folder = g_build_filename (place->runtime, "sonde-embedded", NULL);
  place->path = g_build_filename (place->folder, "beacon", NULL);
  g_unsetenv ("SONDE_BEACON");
  g_setenv ("XDG_RUNTIME_DIR", place->runtime, TRUE);
}

static void
close_place (Place *place)
{
  g_unlink (place->path);
  if (g_rmdir (place->folder) < 0)
    g_unlink (place->folder);
  g_assert_cmpint (g_rmdir (place->runtime), ==, 0);
  g_free (place->path);
  g_free (place->folder);
  g_free (place->runtime);
}

static void
assert_none (void)
{
  g_autofree char *path = sonde_private_beacon_make ();

  g_assert_null (path);
}

static void
refuses_a_folder_that_others_may_write_to (void)
{
  Place place;

  open_place (&place);
  g_assert_cmpint (mkdir (place.folder, 0700), ==, 0);
  g_assert_cmpint (chmod (place.folder, 0722), ==, 0);
  assert_none ();
  close_place (&place);
}

static void
refuses_a_folder_that_is_elsewhere (void)
{
  Place place;

  open_place (&place);
  g_assert_cmpint (symlink (place.runtime, place.folder), ==, 0);
  assert_none ();
  close_place (&place);
}

static void
refuses_files_that_are_not_ones_own (void)
{
  Place place;

  open_place (&place);
  g_assert_cmpint (mkdir (place.folder, 0700), ==, 0);
  g_assert_cmpint (symlink ("/dev/null", place.path), ==, 0);
  assert_none ();
  g_unlink (place.path);
  g_assert_true (g_file_set_contents (place.path, "", 0, NULL));
  g_assert_cmpint (chmod (place.path, 0622), ==, 0);
  assert_none ();
  g_setenv ("SONDE_BEACON", "relative", TRUE);
  assert_none ();
  g_setenv ("SONDE_BEACON", "/nowhere/beacon", TRUE);
  assert_none ();
  g_setenv ("SONDE_BEACON", place.folder, TRUE);
  assert_none ();
  close_place (&place);
}

/* As of who took root's rights alone. */
static void
refuses_a_place_of_another_user (void)
{
  Place place;

  open_place (&place);
  if (geteuid () != 0)
    g_test_skip ("not root, who alone can give a folder away");
  else
    {
      g_assert_cmpint (chown (place.runtime, 1234, 1234), ==, 0);
      g_assert_cmpint (sonde_own_folder_open (place.runtime, "sonde-embedded"), ==, -1);
      g_assert_cmpint (errno, ==, EPERM);
      g_assert_cmpint (chown (place.runtime, 0, 0), ==, 0);
    }
  close_place (&place);
}

/* Nobody else is told what it says, and who maps it has all of it. */
static void
makes_a_page_for_the_user_alone (void)
{
  g_autofree char *path = NULL;
  g_autofree char *again = NULL;
  g_autofree char *named = NULL;
  struct stat st;
  Place place;

  open_place (&place);
  path = sonde_private_beacon_make ();
  g_assert_cmpstr (path, ==, place.path);
  g_assert_cmpint (stat (path, &st), ==, 0);
  g_assert_cmpuint (st.st_mode & 0777, ==, 0600);
  g_assert_cmpint (st.st_size, ==, SONDE_BEACON_BYTES);
  g_assert_cmpint (stat (place.folder, &st), ==, 0);
  g_assert_cmpuint (st.st_mode & 0777, ==, 0700);
  again = sonde_private_beacon_make ();
  g_assert_cmpstr (again, ==, path);
  g_setenv ("SONDE_BEACON", path, TRUE);
  g_setenv ("XDG_RUNTIME_DIR", "/nowhere", TRUE);
  named = sonde_private_beacon_make ();
  g_assert_cmpstr (named, ==, path);
  close_place (&place);
}

int
main (int argc, char *argv[])
{
  umask (022);
  g_test_init (&argc, &argv, NULL);

#define TEST(name, function) g_test_add_func ("/private-beacon/" name, function)
  TEST ("refuses-a-folder-that-others-may-write-to", refuses_a_folder_that_others_may_write_to);
  TEST ("refuses-a-folder-that-is-elsewhere", refuses_a_folder_that_is_elsewhere);
  TEST ("refuses-a-place-of-another-user", refuses_a_place_of_another_user);
  TEST ("refuses-files-that-are-not-ones-own", refuses_files_that_are_not_ones_own);
  TEST ("makes-a-page-for-the-user-alone", makes_a_page_for_the_user_alone);

  return g_test_run ();
}
