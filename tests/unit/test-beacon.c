/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The beacon between the profiler that writes it and a program that reads it. */
#include "daemon/control/session/beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "shared-ring/beacon-layout.h"

#define ADDRESS "/run/sonde/collect"
#define MEMORY  (1u << SONDE_PRODUCER_MEMORY)
#define MARKS   (1u << SONDE_PRODUCER_APPLICATION)
#define OWNER   1000

typedef struct
{
  char *folder;
  char *path;
  SondeBeaconPage *writer;
  const SondeBeacon *reader; /* as programs have it */
} Page;

static void
open_page (Page *page)
{
  g_autoptr (GError) error = NULL;
  sonde_autofd int fd = -1;

  page->folder = g_dir_make_tmp ("sonde-beacon-XXXXXX", NULL);
  page->path = g_build_filename (page->folder, "beacon", NULL);
  g_assert_true (g_file_set_contents (page->path, "", 0, NULL));
  page->writer = sonde_beacon_page_open (page->path, ADDRESS, FALSE, &error);
  g_assert_no_error (error);
  fd = open (page->path, O_RDONLY | O_CLOEXEC);
  page->reader = mmap (NULL, SONDE_BEACON_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  g_assert_true (page->reader != MAP_FAILED);
}

static void
close_page (Page *page)
{
  sonde_beacon_page_free (page->writer);
  munmap ((void *) (uintptr_t) page->reader, SONDE_BEACON_BYTES);
  g_unlink (page->path);
  g_rmdir (page->folder);
  g_free (page->path);
  g_free (page->folder);
}

static guint64
find_memory (const Page *page, uid_t uid)
{
  return sonde_beacon_find_call (page->reader, uid, SONDE_PRODUCER_MEMORY);
}

/* Another one that has another place. */
static uid_t
find_stranger (void)
{
  uid_t uid = OWNER + 1;

  while (sonde_beacon_place (uid) == sonde_beacon_place (OWNER))
    uid++;
  return uid;
}

/* Else it would call whom the first one has called back. */
static void
refuses_a_private_one_that_another_has (void)
{
  g_autoptr (GError) error = NULL;
  Page page;

  open_page (&page);
  sonde_beacon_page_free (page.writer);
  page.writer = sonde_beacon_page_open (page.path, ADDRESS, TRUE, &error);
  g_assert_no_error (error);
  g_assert_null (sonde_beacon_page_open (page.path, "@another", TRUE, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_cmpstr (page.reader->address, ==, ADDRESS);
  g_clear_error (&error);
  sonde_beacon_page_free (page.writer);
  page.writer = sonde_beacon_page_open (page.path, "@another", TRUE, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (page.reader->address, ==, "@another");
  close_page (&page);
}

static void
refuses_what_is_no_file (void)
{
  g_autoptr (GError) none = NULL;
  g_autoptr (GError) folder = NULL;
  g_autoptr (GError) too_long = NULL;
  g_autofree char *address = g_strnfill (sizeof ((SondeBeacon *) NULL)->address, '/');
  Page page;

  open_page (&page);
  g_assert_null (sonde_beacon_page_open ("/nowhere/beacon", ADDRESS, FALSE, &none));
  g_assert_error (none, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_null (sonde_beacon_page_open ("/dev/null", ADDRESS, FALSE, &folder));
  g_assert_error (folder, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_null (sonde_beacon_page_open (page.path, address, FALSE, &too_long));
  g_assert_error (too_long, SONDE_ERROR, SONDE_ERROR_FAILED);
  close_page (&page);
}

static void
refuses_a_link_to_another_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *link = NULL;
  Page page;

  open_page (&page);
  link = g_build_filename (page.folder, "link", NULL);
  g_assert_cmpint (symlink (page.path, link), ==, 0);
  g_assert_null (sonde_beacon_page_open (link, ADDRESS, FALSE, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_unlink (link);
  close_page (&page);
}

static void
calls_processes_of_the_user_alone (void)
{
  const SondeBeaconWish wish = { .reason = 1, .producers = MEMORY, .uid = OWNER };
  uid_t stranger = find_stranger ();
  Page page;

  open_page (&page);
  g_assert_cmpstr (page.reader->address, ==, ADDRESS);
  g_assert_cmpuint (page.reader->generation, ==, 0);
  g_assert_true (sonde_beacon_page_set (page.writer, &wish, 1));
  g_assert_cmpuint (page.reader->generation, ==, 1);
  g_assert_cmpuint (find_memory (&page, OWNER), !=, 0);
  g_assert_cmpuint (find_memory (&page, stranger), ==, 0);
  g_assert_cmpuint (find_memory (&page, 0), ==, 0);
  g_assert_cmpuint (sonde_beacon_find_call (page.reader, OWNER, SONDE_PRODUCER_APPLICATION), ==, 0);
  g_assert_true (sonde_beacon_page_set (page.writer, NULL, 0));
  g_assert_cmpuint (find_memory (&page, OWNER), ==, 0);
  close_page (&page);
}

static void
calls_all_for_who_may_look_at_all (void)
{
  const SondeBeaconWish wish = { .reason = 1, .producers = MEMORY | MARKS, .is_all = TRUE };
  Page page;

  open_page (&page);
  sonde_beacon_page_set (page.writer, &wish, 1);
  g_assert_cmpuint (find_memory (&page, OWNER), !=, 0);
  g_assert_cmpuint (find_memory (&page, 0), ==, find_memory (&page, find_stranger ()));
  close_page (&page);
}

/* A process that was refused comes again for what is new to it, and for nothing else. */
static void
calls_anew_for_another_reason_alone (void)
{
  SondeBeaconWish wishes[] = { { .reason = 1, .producers = MEMORY, .uid = OWNER },
                               { .reason = 2, .producers = MEMORY, .uid = find_stranger () } };
  guint64 first, second;
  Page page;

  open_page (&page);
  sonde_beacon_page_set (page.writer, wishes, 1);
  first = find_memory (&page, OWNER);
  g_assert_false (sonde_beacon_page_set (page.writer, wishes, 1));
  g_assert_cmpuint (page.reader->generation, ==, 1);
  g_assert_true (sonde_beacon_page_set (page.writer, wishes, 2));
  g_assert_cmpuint (find_memory (&page, OWNER), ==, first);
  g_assert_cmpuint (page.reader->generation, ==, 2);
  sonde_beacon_page_repeat (page.writer);
  g_assert_cmpuint (find_memory (&page, OWNER), ==, first);
  g_assert_cmpuint (page.reader->generation, ==, 3);
  wishes[0].reason = 3;
  g_assert_true (sonde_beacon_page_set (page.writer, wishes, 2));
  second = find_memory (&page, OWNER);
  g_assert_cmpuint (second, !=, 0);
  g_assert_cmpuint (second, !=, first);
  close_page (&page);
}

static void
forgets_what_a_profiler_before_it_wanted (void)
{
  const SondeBeaconWish wish = { .reason = 1, .producers = MEMORY, .uid = OWNER };
  g_autoptr (GError) error = NULL;
  Page page;

  open_page (&page);
  sonde_beacon_page_set (page.writer, &wish, 1);
  sonde_beacon_page_free (page.writer);
  g_assert_cmpuint (find_memory (&page, OWNER), !=, 0);
  page.writer = sonde_beacon_page_open (page.path, "@another", FALSE, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (page.reader->address, ==, "@another");
  g_assert_cmpuint (page.reader->generation, ==, 1);
  sonde_beacon_page_set (page.writer, NULL, 0);
  g_assert_cmpuint (find_memory (&page, OWNER), ==, 0);
  g_assert_cmpuint (page.reader->generation, ==, 2);
  close_page (&page);
}

static gpointer
sleep_on_it (gpointer data)
{
  const Page *page = data;
  const uint32_t *word = &page->reader->generation;

  while (sonde_ring_load_acquire (word) == 0)
    syscall (SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
  return NULL;
}

static void
wakes_who_sleeps_on_what_he_can_only_read (void)
{
  const SondeBeaconWish wish = { .reason = 1, .producers = MEMORY, .uid = OWNER };
  GThread *sleeper;
  Page page;

  open_page (&page);
  sleeper = g_thread_new ("sleeper", sleep_on_it, &page);
  sonde_beacon_page_set (page.writer, &wish, 1);
  g_thread_join (sleeper);
  close_page (&page);
}

/* A page of another layout, or of nobody. */
static void
is_not_believed_without_its_mark (void)
{
  SondeBeacon page = { .generation = 7, .all = sonde_beacon_make_call (7, MEMORY) };

  g_assert_cmpuint (sonde_beacon_find_call (&page, OWNER, SONDE_PRODUCER_MEMORY), ==, 0);
  page.magic = SONDE_BEACON_MAGIC;
  page.version = SONDE_BEACON_VERSION + 1;
  g_assert_cmpuint (sonde_beacon_find_call (&page, OWNER, SONDE_PRODUCER_MEMORY), ==, 0);
  page.version = SONDE_BEACON_VERSION;
  g_assert_cmpuint (sonde_beacon_find_call (&page, OWNER, SONDE_PRODUCER_MEMORY), !=, 0);
}

static void
has_a_place_for_each_uid (void)
{
  guint n_of[SONDE_BEACON_PLACES] = { 0 };
  guint most = 0;

  for (uint32_t uid = 1000; uid < 1000 + SONDE_BEACON_PLACES; uid++)
    most = MAX (most, ++n_of[sonde_beacon_place (uid)]);
  g_assert_cmpuint (most, <=, 4);
  g_assert_cmpuint (sonde_beacon_place (G_MAXUINT32), <, SONDE_BEACON_PLACES);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/beacon/refuses-a-private-one-that-another-has",
                   refuses_a_private_one_that_another_has);
  g_test_add_func ("/beacon/refuses-what-is-no-file", refuses_what_is_no_file);
  g_test_add_func ("/beacon/refuses-a-link-to-another-file", refuses_a_link_to_another_file);
  g_test_add_func ("/beacon/is-not-believed-without-its-mark", is_not_believed_without_its_mark);
  g_test_add_func ("/beacon/calls-processes-of-the-user-alone", calls_processes_of_the_user_alone);
  g_test_add_func ("/beacon/calls-all-for-who-may-look-at-all", calls_all_for_who_may_look_at_all);
  g_test_add_func ("/beacon/calls-anew-for-another-reason-alone",
                   calls_anew_for_another_reason_alone);
  g_test_add_func ("/beacon/forgets-what-a-profiler-before-it-wanted",
                   forgets_what_a_profiler_before_it_wanted);
  g_test_add_func ("/beacon/wakes-who-sleeps-on-what-he-can-only-read",
                   wakes_who_sleeps_on_what_he_can_only_read);
  g_test_add_func ("/beacon/has-a-place-for-each-uid", has_a_place_for_each_uid);
  return g_test_run ();
}
