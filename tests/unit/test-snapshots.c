/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Seals memory of snapshots, tries to change it, and looks for how long it counts. */
#include "daemon/control/session/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define UID  1000
#define ROOT 0 /* whose calls are not counted */

static int
write_some (const SondeSnapshot *snapshot, off_t size_bytes)
{
  g_autoptr (GError) error = NULL;
  int fd = sonde_snapshot_dup_fd (snapshot, &error);

  g_assert_no_error (error);
  g_assert_cmpint (ftruncate (fd, size_bytes), ==, 0);
  return fd;
}

static SondeSnapshot *
begin (SondeSnapshots *snapshots, uid_t uid)
{
  g_autoptr (GError) error = NULL;
  SondeSnapshot *snapshot = sonde_snapshots_begin (snapshots, uid, &error);

  g_assert_no_error (error);
  return snapshot;
}

/* Returns: what its reader has */
static int
take (SondeSnapshots *snapshots, uid_t uid, off_t size_bytes)
{
  g_autoptr (GError) error = NULL;
  SondeSnapshot *snapshot = begin (snapshots, uid);
  sonde_autofd int worker G_GNUC_UNUSED = write_some (snapshot, size_bytes);
  int fd = sonde_snapshot_seal (snapshot, &error);

  g_assert_no_error (error);
  return fd;
}

static void
assert_refused (SondeSnapshots *snapshots, uid_t uid, const char *limit)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (sonde_snapshots_begin (snapshots, uid, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  g_assert_true (g_str_has_prefix (error->message, limit));
}

static void
assert_not_sealed (SondeSnapshots *snapshots, SondeSnapshot *snapshot, const char *why)
{
  g_autoptr (GError) error = NULL;
  guint n_snapshots;

  g_assert_cmpint (sonde_snapshot_seal (snapshot, &error), ==, -1);
  g_assert_nonnull (strstr (error->message, why));
  g_assert_cmpuint (sonde_snapshots_measure (snapshots, UID, &n_snapshots), ==, 0);
  g_assert_cmpuint (n_snapshots, ==, 0);
}

static void
refuses_what_the_worker_could_change (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();
  SondeSnapshot *snapshot = begin (snapshots, UID);
  sonde_autofd int worker G_GNUC_UNUSED = write_some (snapshot, 4096);
  void *mapped = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, worker, 0);

  g_assert_true (mapped != MAP_FAILED);
  assert_not_sealed (snapshots, snapshot, "Cannot seal");
  munmap (mapped, 4096);
  sonde_snapshots_free (snapshots);
}

static void
refuses_impossible_sizes (void)
{
  const off_t sizes[] = { 0, (off_t) SONDE_LIMIT_SNAPSHOT_BYTES + 1 };
  SondeSnapshots *snapshots = sonde_snapshots_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      SondeSnapshot *snapshot = begin (snapshots, UID);
      sonde_autofd int worker G_GNUC_UNUSED = write_some (snapshot, sizes[i]);

      assert_not_sealed (snapshots, snapshot, "impossible size");
    }
  sonde_snapshots_free (snapshots);
}

static void
refuses_too_many_calls (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();

  for (guint i = 0; i < SONDE_LIMIT_SNAPSHOT_BURST; i++)
    sonde_snapshot_drop (begin (snapshots, UID));
  assert_refused (snapshots, UID, "Limit snapshot-calls:");
  sonde_snapshot_drop (begin (snapshots, UID + 1));
  sonde_snapshots_free (snapshots);
}

static void
refuses_too_many_at_once (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();
  SondeSnapshot *last = NULL;

  for (guint i = 0; i < SONDE_LIMIT_SNAPSHOTS_AT_ONCE; i++)
    last = begin (snapshots, UID);
  assert_refused (snapshots, UID, "Limit snapshots-at-once:");
  sonde_snapshot_drop (last);
  begin (snapshots, UID);
  sonde_snapshots_free (snapshots);
}

static void
refuses_too_many_that_are_open (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();
  int fds[SONDE_LIMIT_SNAPSHOTS];

  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    fds[i] = take (snapshots, ROOT, 1);
  assert_refused (snapshots, ROOT, "Limit snapshots:");
  close (fds[3]);
  fds[3] = take (snapshots, ROOT, 1);
  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    close (fds[i]);
  sonde_snapshots_free (snapshots);
}

/* Of one uid: another has its own. */
static void
refuses_too_many_bytes_that_are_open (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();
  int first = take (snapshots, UID, SONDE_LIMIT_SNAPSHOT_BYTES - 1);
  int second = take (snapshots, UID, SONDE_LIMIT_SNAPSHOT_BYTES);

  assert_refused (snapshots, UID, "Limit snapshot-bytes:");
  close (take (snapshots, UID + 1, 1));
  close (second);
  close (take (snapshots, UID, 1));
  close (first);
  sonde_snapshots_free (snapshots);
}

static void
assert_bytes (SondeSnapshots *snapshots, guint64 size_bytes)
{
  guint n_snapshots;

  g_assert_cmpuint (sonde_snapshots_measure (snapshots, UID, &n_snapshots), ==, size_bytes);
  g_assert_cmpuint (n_snapshots, ==, size_bytes > 0);
}

static void
counts_what_somebody_has_open_or_mapped (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();
  int fd = take (snapshots, UID, 4096);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  int again = open (path, O_RDONLY | O_CLOEXEC);
  void *mapped;

  assert_bytes (snapshots, 4096);
  close (fd);
  assert_bytes (snapshots, 4096);
  mapped = mmap (NULL, 4096, PROT_READ, MAP_PRIVATE, again, 0);
  close (again);
  assert_bytes (snapshots, 4096);
  munmap (mapped, 4096);
  assert_bytes (snapshots, 0);
  sonde_snapshots_free (snapshots);
}

static void
cannot_be_changed_by_its_reader (void)
{
  SondeSnapshots *snapshots = sonde_snapshots_new ();
  sonde_autofd int fd = take (snapshots, UID, 4096);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  sonde_autofd int again = open (path, O_RDWR | O_CLOEXEC);

  g_assert_cmpint (fcntl (fd, F_GET_SEALS), ==,
                   F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  g_assert_cmpint (lseek (fd, 0, SEEK_CUR), ==, 0);
  g_assert_cmpint (write (again, "x", 1), ==, -1);
  g_assert_cmpint (errno, ==, EPERM);
  g_assert_cmpint (ftruncate (again, 1), ==, -1);
  g_assert_true (mmap (NULL, 4096, PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
  assert_bytes (snapshots, 4096);
  sonde_snapshots_free (snapshots);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/snapshots/" path, function)
  ADD ("refuses-what-the-worker-could-change", refuses_what_the_worker_could_change);
  ADD ("refuses-impossible-sizes", refuses_impossible_sizes);
  ADD ("refuses-too-many-calls", refuses_too_many_calls);
  ADD ("refuses-too-many-at-once", refuses_too_many_at_once);
  ADD ("refuses-too-many-that-are-open", refuses_too_many_that_are_open);
  ADD ("refuses-too-many-bytes-that-are-open", refuses_too_many_bytes_that_are_open);
  ADD ("counts-what-somebody-has-open-or-mapped", counts_what_somebody_has_open_or_mapped);
  ADD ("cannot-be-changed-by-its-reader", cannot_be_changed_by_its_reader);
#undef ADD
  return g_test_run ();
}
