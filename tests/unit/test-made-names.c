/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files in which programs name code that they make: which of them a worker may have. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/fd.h"
#include "daemon/base/proc-maps.h"
#include "daemon/broker/proc-broker.h"
#include "tests/lib/waiting-child.h"

#define NOBODY 65534

typedef struct
{
  char *path; /* of our map file; there is none yet */
  char *other;
} Fixture;

static void
setup (Fixture *fixture, gconstpointer data)
{
  fixture->path = g_strdup_printf ("/tmp/perf-%d.map", (int) getpid ());
  fixture->other = g_strdup_printf ("/tmp/other-%d.map", (int) getpid ());
  g_unlink (fixture->path);
}

static void
teardown (Fixture *fixture, gconstpointer data)
{
  g_unlink (fixture->path);
  g_unlink (fixture->other);
  g_free (fixture->path);
  g_free (fixture->other);
}

static void
write_file (const char *path)
{
  g_assert_true (g_file_set_contents (path, "1000 10 f\n", -1, NULL));
}

static int
ask_one (const SondeMessageFileRequest *request, gboolean has_queries)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (0, SONDE_SCOPE_LAUNCH, FALSE);
  SondeForeignMount mount;
  int fd;

  if (!has_queries)
    sonde_proc_broker_set_queries (broker, FALSE);
  fd = sonde_proc_broker_open_file (broker, request, NULL, &mount);
  g_assert_null (mount.name);
  if (fd < 0)
    return fd;
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  close (fd);
  return 0;
}

/* By whatever way the kernel tells of mappings. */
static int
ask (const SondeMessageFileRequest *request)
{
  int result = ask_one (request, FALSE);

  g_assert_cmpint (ask_one (request, TRUE), ==, result);
  return result;
}

static int
ask_map_of (pid_t pid)
{
  return ask (
      &(SondeMessageFileRequest){ .request_id = 1, .pid = pid, .kind = SONDE_FILE_PERF_MAP });
}

static void
test_none (Fixture *fixture, gconstpointer data)
{
  g_assert_cmpint (ask_map_of (getpid ()), ==, -ENOENT);
}

static void
test_map (Fixture *fixture, gconstpointer data)
{
  write_file (fixture->path);
  g_assert_cmpint (ask_map_of (getpid ()), ==, 0);
}

static void
test_link (Fixture *fixture, gconstpointer data)
{
  write_file (fixture->other);
  g_assert_cmpint (symlink (fixture->other, fixture->path), ==, 0);
  g_assert_cmpint (ask_map_of (getpid ()), ==, -ELOOP);
}

static void
test_several_names (Fixture *fixture, gconstpointer data)
{
  write_file (fixture->other);
  g_assert_cmpint (link (fixture->other, fixture->path), ==, 0);
  g_assert_cmpint (ask_map_of (getpid ()), ==, -EMLINK);
}

/* Nobody writes to it: who opened it would wait. */
static void
test_fifo (Fixture *fixture, gconstpointer data)
{
  g_assert_cmpint (mkfifo (fixture->path, 0600), ==, 0);
  g_assert_cmpint (ask_map_of (getpid ()), ==, -ENODEV);
}

static void
test_folder (Fixture *fixture, gconstpointer data)
{
  g_assert_cmpint (mkdir (fixture->path, 0700), ==, 0);
  g_assert_cmpint (ask_map_of (getpid ()), ==, -ENODEV);
  g_assert_cmpint (rmdir (fixture->path), ==, 0);
}

static void
test_device (Fixture *fixture, gconstpointer data)
{
  if (mknod (fixture->path, S_IFCHR | 0600, makedev (1, 5)) < 0)
    {
      g_test_skip ("devices cannot be made here");
      return;
    }
  g_assert_cmpint (ask_map_of (getpid ()), ==, -ENODEV);
}

static void
test_others (Fixture *fixture, gconstpointer data)
{
  write_file (fixture->path);
  if (chown (fixture->path, NOBODY, NOBODY) < 0)
    {
      g_test_skip ("not root");
      return;
    }
  g_assert_cmpint (ask_map_of (getpid ()), ==, -EREMOTE);
}

static void
test_older (Fixture *fixture, gconstpointer data)
{
  struct timeval times[2] = { 0 };

  write_file (fixture->path);
  times[0].tv_sec = times[1].tv_sec = time (NULL) - 100000;
  g_assert_cmpint (utimes (fixture->path, times), ==, 0);
  g_assert_cmpint (ask_map_of (getpid ()), ==, -ENOENT);
}

static gboolean
be_nothing (gpointer user_data)
{
  return TRUE;
}

/* By the session: what is asked for is that process's, and a process is one that may be seen. */
static void
test_hidden_process (Fixture *fixture, gconstpointer data)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (NOBODY, SONDE_SCOPE_LAUNCH, FALSE);
  SondeMessageFileRequest request
      = { .request_id = 1, .pid = getpid (), .kind = SONDE_FILE_PERF_MAP };
  SondeForeignMount mount;
  pid_t child = waiting_child_spawn (be_nothing, NULL);

  write_file (fixture->path);
  g_assert_cmpint (sonde_proc_broker_open_file (broker, &request, NULL, &mount), ==, -EPERM);
  g_assert_cmpint (ask_map_of (child), ==, -ENOENT);
  request.start_ticks = 1;
  g_assert_cmpint (ask (&request), ==, -ESRCH);
  waiting_child_end (child);
}

/* --- jitdump --- */

typedef struct
{
  char *path;
  void *page;
  SondeMessageFileRequest request;
} Dump;

static void
find_mapping (Dump *self)
{
  SondeProcMap map;
  int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char *text = NULL;
  gsize size_bytes = (gsize) sonde_proc_maps_read (fd, 1 << 20, &text);
  const char *rest = text;

  while (sonde_proc_maps_next (&rest, &size_bytes, &map) == 1
         && map.start != (guint64) (guintptr) self->page)
    ;
  g_assert_cmpuint (map.start, ==, (guint64) (guintptr) self->page);
  self->request = (SondeMessageFileRequest){ .request_id = 1,
                                             .pid = getpid (),
                                             .dev_major = map.dev_major,
                                             .dev_minor = map.dev_minor,
                                             .kind = SONDE_FILE_JIT_DUMP,
                                             .start = map.start,
                                             .inode = map.inode };
  free (text);
  close (fd);
}

/* Beside this program, from where code can be mapped. @number: -1: ours */
static void
dump_init (Dump *self, const char *content, int number)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *directory = g_path_get_dirname (program);
  int fd;

  self->path
      = g_strdup_printf ("%s/jit-%d.dump", directory, number >= 0 ? number : (int) getpid ());
  fd = open (self->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, content, strlen (content)), ==, (gssize) strlen (content));
  self->page = mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  g_assert_true (self->page != MAP_FAILED);
  close (fd);
  find_mapping (self);
}

static void
dump_clear (Dump *self)
{
  munmap (self->page, 4096);
  g_unlink (self->path);
  g_free (self->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Dump, dump_clear)

static const char magic[] = "DTiJ"; /* of a little-endian machine */

static void
test_dump (void)
{
  g_auto (Dump) dump = { 0 };

  dump_init (&dump, magic, -1);
  g_assert_cmpint (ask (&dump.request), ==, 0);
  dump.request.kind = SONDE_FILE_PROGRAM;
  g_assert_cmpint (ask (&dump.request), ==, -ENOEXEC);
  dump.request.kind = SONDE_FILE_JIT_DUMP;
  dump.request.inode++;
  g_assert_cmpint (ask (&dump.request), ==, -ENOENT);
}

static void
test_no_dump (void)
{
  g_auto (Dump) dump = { 0 };

  dump_init (&dump, "root:x:0:0", -1);
  g_assert_cmpint (ask (&dump.request), ==, -ENOEXEC);
}

static void
test_dump_to_come (void)
{
  g_auto (Dump) dump = { 0 };

  dump_init (&dump, "", -1);
  g_assert_cmpint (ask (&dump.request), ==, 0);
}

static void
test_dump_of_others (void)
{
  g_auto (Dump) dump = { 0 };

  dump_init (&dump, magic, 1);
  g_assert_cmpint (ask (&dump.request), ==, -ENOENT);
}

static void
test_dump_with_names (void)
{
  g_auto (Dump) dump = { 0 };
  g_autofree char *other = NULL;

  dump_init (&dump, magic, -1);
  other = g_strconcat (dump.path, ".other", NULL);
  g_assert_cmpint (link (dump.path, other), ==, 0);
  g_assert_cmpint (ask (&dump.request), ==, -EMLINK);
  g_unlink (other);
}

#define ADD(name, test) g_test_add ("/made-names/" name, Fixture, NULL, setup, test, teardown)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("map/refuses-processes-of-others", test_hidden_process);
  ADD ("map/refuses-a-link", test_link);
  ADD ("map/refuses-a-file-with-several-names", test_several_names);
  ADD ("map/refuses-a-fifo", test_fifo);
  ADD ("map/refuses-a-folder", test_folder);
  ADD ("map/refuses-a-device", test_device);
  ADD ("map/refuses-a-file-of-others", test_others);
  ADD ("map/refuses-one-that-is-older-than-its-program", test_older);
  ADD ("map/says-if-there-is-none", test_none);
  ADD ("map/opens-that-of-the-process", test_map);
  g_test_add_func ("/made-names/dump/refuses-what-is-none", test_no_dump);
  g_test_add_func ("/made-names/dump/refuses-that-of-a-parent", test_dump_of_others);
  g_test_add_func ("/made-names/dump/refuses-a-file-with-several-names", test_dump_with_names);
  g_test_add_func ("/made-names/dump/opens-what-is-not-written-yet", test_dump_to_come);
  g_test_add_func ("/made-names/dump/opens-what-is-mapped", test_dump);
  return g_test_run ();
}
