/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texts of /proc, and what a worker may have of them. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/fd.h"
#include "base/probe-note.h"
#include "daemon/base/proc-maps.h"
#include "daemon/broker/proc-broker.h"
#include "daemon/base/proc-text.h"
#include "tests/lib/static-probe.h"
#include "tests/lib/waiting-child.h"

#define NOBODY 65534

static const char stat_rest[] = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 21\n";

static void
assert_stat (const char *name, const char *comm)
{
  g_autofree char *text = g_strdup_printf ("77 (%s)%s", name, stat_rest);
  SondeProcStat stat;

  g_assert_true (sonde_proc_stat_parse (text, &stat));
  g_assert_cmpuint (stat.start_ticks, ==, 4242);
  g_assert_cmpstr (stat.comm, ==, comm);
}

static void
test_stat (void)
{
  assert_stat ("bash", "bash");
  assert_stat ("", "");
  assert_stat ("a b) R 1 2 (c", "a b) R 1 2 (c");
  assert_stat (")", ")");
  assert_stat ("new\nline", "new\nline");
  assert_stat ("\xff\xfe", "\xff\xfe");
  assert_stat ("a name of far more than 31 bytes which is cut", "a name of far more than 31 byte");
}

static void
test_stat_refusals (void)
{
  static const char *const texts[]
      = { "",
          "77",
          "77 (a",
          "77 a) S 1",
          ")(",
          "1 (a)",
          "1 (a) S 1 2",
          "1 (a)S 1",
          "1 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -1 2",
          "1 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 99999999999999999999999 2" };
  SondeProcStat stat;

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_assert_false (sonde_proc_stat_parse (texts[i], &stat));
}

static void
test_fdinfo (void)
{
  g_assert_cmpint (sonde_fdinfo_mount_id ("pos:\t0\nflags:\t012\nmnt_id:\t29\nino:\t5\n"), ==, 29);
  g_assert_cmpint (sonde_fdinfo_mount_id ("pos:\t0\nflags:\t012\n"), ==, -1);
  g_assert_cmpint (sonde_fdinfo_mount_id ("mnt_id:\t-3\n"), ==, -1);
  g_assert_cmpint (sonde_fdinfo_mount_id ("mnt_id:"), ==, -1);
  g_assert_cmpint (sonde_fdinfo_mount_id (""), ==, -1);
}

static const char mountinfo[]
    = "22 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw\n"
      "23 22 0:21 / /home/u/a\\040-\\040ext4\\040x rw - fuse.sshfs host: rw\n"
      "24 22 0:22 / /mnt rw,nosuid - nfs4 host:/ rw\n"
      "25 22 0:23 / /o rw - overlay overlay rw\n"
      "26 22 0:24 / /b rw - btrfs /dev/vdb rw\n"
      "27 22 0:25 / /cut rw\n"
      "228 22 0:26 / /x rw - ext4x /dev/vdc rw\n"
      "29 22 0:27 / /y rw - ";

static void
test_mounts (void)
{
  g_assert_true (sonde_mountinfo_has (mountinfo, 22));
  g_assert_false (sonde_mountinfo_has (mountinfo, 2));
  g_assert_true (sonde_mountinfo_is_trusted (mountinfo, 22));
  g_assert_true (sonde_mountinfo_is_trusted (mountinfo, 25));
  g_assert_false (sonde_mountinfo_is_layered (mountinfo, 22));
  g_assert_true (sonde_mountinfo_is_layered (mountinfo, 25));
  g_assert_true (sonde_mountinfo_is_layered (mountinfo, 26));
}

/* An overlay in a namespace is the machine's if its file system is mounted there, too. */
static void
test_same_file_system (void)
{
  g_assert_true (sonde_mountinfo_is_overlay (mountinfo, 25));
  g_assert_false (sonde_mountinfo_is_overlay (mountinfo, 26));
  g_assert_false (sonde_mountinfo_is_overlay (mountinfo, 2));
  g_assert_true (sonde_mountinfo_has_same (mountinfo, 25,
                                           "1 0 254:1 / / rw - ext4 /dev/vda1 rw\n"
                                           "9 1 0:23 / /p rw - overlay o rw\n"));
  g_assert_false (sonde_mountinfo_has_same (mountinfo, 25, "9 1 0:230 / /p rw - overlay o rw\n"));
  g_assert_false (sonde_mountinfo_has_same (mountinfo, 25, "9 1 0:2 / /p rw - overlay o rw\n"));
  g_assert_false (sonde_mountinfo_has_same (mountinfo, 25, "9 0:23 1:1 / /p rw - overlay o rw\n"));
  g_assert_false (sonde_mountinfo_has_same (mountinfo, 25, "9 1 0:23\n9 1\n9"));
  g_assert_false (sonde_mountinfo_has_same (mountinfo, 25, ""));
  g_assert_false (sonde_mountinfo_has_same (mountinfo, 2, mountinfo));
}

static void
test_solid_mounts (void)
{
  static const char mounts[] = "1 0 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
                               "2 1 254:2 / /home rw,nosuid,nodev - ext4 /dev/vda2 rw\n"
                               "3 1 7:0 / /snap ro - squashfs /dev/loop0 ro\n"
                               "4 1 43:0 / /n rw - ext4 /dev/nbd0 rw\n"
                               "5 1 8:1 / /win rw - fuseblk /dev/sda1 rw\n"
                               "6 1 0:30 / /o rw - overlay overlay rw\n"
                               "7 1 0:31 / /b rw - btrfs /dev/vdb rw\n"
                               "8 1 0:32 / /run rw,nosuid,nodev - tmpfs tmpfs rw\n"
                               "9 1 0:33 / /t rw - tmpfs tmpfs rw,nosuid\n"
                               "10 1 0:34 / /f rw - fuse x rw\n"
                               "11 1 0:35 / /nfs rw - nfs4 h:/ rw\n"
                               "12 1 254:2 / /bind rw,relatime - ext4 /dev/vda2 rw\n"
                               "13 1 8:2 / /c rw - ";

  g_assert_true (sonde_mountinfo_is_solid (mounts, 254, 1));
  /* It is enough that one of its mounts is. */
  g_assert_true (sonde_mountinfo_is_solid (mounts, 254, 2));
  g_assert_true (sonde_mountinfo_is_solid (mounts, 0, 33));
  for (guint minor = 30; minor < 36; minor++)
    g_assert_cmpint (sonde_mountinfo_is_solid (mounts, 0, minor), ==, minor == 33);
  g_assert_false (sonde_mountinfo_is_solid (mounts, 7, 0));
  g_assert_false (sonde_mountinfo_is_solid (mounts, 43, 0));
  g_assert_false (sonde_mountinfo_is_solid (mounts, 8, 1));
  g_assert_false (sonde_mountinfo_is_solid (mounts, 8, 2));
  g_assert_false (sonde_mountinfo_is_solid (mounts, 254, 3));
  g_assert_false (
      sonde_mountinfo_is_solid ("2 1 254:2 / /home rw,nosuid - ext4 /dev/vda2 rw\n", 254, 2));
  g_assert_false (sonde_mountinfo_is_solid ("2 1 254:2", 254, 2));
  g_assert_false (sonde_mountinfo_is_solid ("", 0, 0));
}

static void
test_mount_of_a_device (void)
{
  g_assert_cmpint (sonde_mountinfo_find_device (mountinfo, 254, 1), ==, 22);
  g_assert_cmpint (sonde_mountinfo_find_device (mountinfo, 0, 24), ==, 26);
  g_assert_cmpint (sonde_mountinfo_find_device (mountinfo, 0, 2), ==, -1);
  g_assert_cmpint (sonde_mountinfo_find_device (mountinfo, 54, 1), ==, -1);
  g_assert_cmpint (sonde_mountinfo_find_device ("x 1 0:23 / /o rw - ext4 x rw\n", 0, 23), ==, -1);
  g_assert_cmpint (sonde_mountinfo_find_device ("9 1 0:23\n9 1\n9", 0, 23), ==, -1);
  g_assert_cmpint (sonde_mountinfo_find_device ("", 0, 23), ==, -1);
}

static void
test_mount_refusals (void)
{
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 23));
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 24));
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 27));
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 228));
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 29));
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 2));
  g_assert_false (sonde_mountinfo_is_trusted (mountinfo, 28));
  g_assert_false (sonde_mountinfo_is_trusted ("", 22));
}

static void
assert_cpus (const char *text, guint n_cpus, int last)
{
  g_autoptr (GArray) cpus = sonde_cpu_list_parse (text);

  g_assert_nonnull (cpus);
  g_assert_cmpuint (cpus->len, ==, n_cpus);
  g_assert_cmpint (g_array_index (cpus, int, n_cpus - 1), ==, last);
}

/* By which files of a process are found by their names. */
static void
test_below (void)
{
  g_autofree char *top = g_dir_make_tmp (NULL, NULL);
  g_autofree char *folder = g_build_filename (top, "folder", NULL);
  g_autofree char *file = g_build_filename (folder, "file", NULL);
  g_autofree char *link = g_build_filename (top, "link", NULL);
  g_autofree char *long_path = g_strnfill (PATH_MAX, 'n');
  sonde_autofd int top_fd = open (top, O_PATH | O_DIRECTORY | O_CLOEXEC);
  sonde_autofd int fd = -1;
  char text[8] = { 0 };

  long_path[0] = '/';
  g_assert_cmpint (mkdir (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (file, "found", -1, NULL));
  g_assert_cmpint (symlink ("folder", link), ==, 0);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "folder", O_PATH), ==, -EXDEV);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/", O_PATH), ==, -EXDEV);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/folder//file", O_PATH), ==, -EXDEV);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/folder/./file", O_PATH), ==, -EXDEV);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/folder/../folder", O_PATH), ==, -EXDEV);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/link/file", O_PATH), ==, -ENOTDIR);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/folder/none", O_PATH), ==, -ENOENT);
  g_assert_cmpint (sonde_proc_open_below (top_fd, "/link", O_RDONLY), ==, -ELOOP);
  g_assert_cmpint (sonde_proc_open_below (top_fd, long_path, O_PATH), ==, -ENAMETOOLONG);
  fd = sonde_proc_open_below (top_fd, "/folder/file", O_RDONLY);
  g_assert_cmpint (read (fd, text, sizeof text), ==, 5);
  g_assert_cmpstr (text, ==, "found");
  g_unlink (file);
  g_unlink (link);
  g_rmdir (folder);
  g_rmdir (top);
}

/* As sonded sees its brokers and workers, which have other uids. */
static gboolean
measures_what_is_hidden (gpointer user_data)
{
  SondeProcCost cost = { .memory_bytes = 7 };

  if (unshare (CLONE_NEWNS) < 0 || mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0
      || mount ("proc", "/proc", "proc", 0, "hidepid=2") < 0 || setgroups (0, NULL) < 0
      || setgid (NOBODY) < 0 || setuid (NOBODY) < 0)
    return FALSE;
  g_assert_true (sonde_proc_cost_measure (getppid (), &cost));
  g_assert_cmpuint (cost.cpu_us, >, 0);
  g_assert_cmpuint (cost.memory_bytes, ==, 7);
  g_assert_false (sonde_proc_cost_measure (0x7ffffff0, &cost));
  return TRUE;
}

static void
test_hidden_cost (void)
{
  pid_t pid = waiting_child_spawn (measures_what_is_hidden, NULL);
  SondeProcCost cost = { 0 };

  g_assert_true (sonde_proc_cost_measure (getpid (), &cost));
  g_assert_cmpuint (cost.memory_bytes, >, 0);
  if (pid < 0)
    g_test_skip ("no /proc can be mounted here");
  else
    waiting_child_end (pid);
}

static void
test_cpus (void)
{
  static const char *const refused[]
      = { "",    "\n",      "a", "1-", "-1", "3-1", "0,", "0-1-2", "0-99999999999999999999",
          "0 1", "0-8191,0" };

  for (gsize i = 0; i < G_N_ELEMENTS (refused); i++)
    g_assert_null (sonde_cpu_list_parse (refused[i]));
  assert_cpus ("0\n", 1, 0);
  assert_cpus ("0-3\n", 4, 3);
  assert_cpus ("0-1,4,6-7\n", 5, 7);
}

/* The last one of our own mappings of the file that is executable, or is not. */
static SondeMessageFileRequest
request_of (ino_t inode, gboolean is_executable)
{
  SondeMessageFileRequest request = { .request_id = 1, .pid = getpid () };
  int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char *text = NULL;
  int64_t n_bytes = sonde_proc_maps_read (fd, 1 << 20, &text);
  const char *rest = text;
  size_t rest_bytes = (size_t) n_bytes;
  SondeProcMap map;

  g_assert_cmpint (n_bytes, >, 0);
  while (sonde_proc_maps_next (&rest, &rest_bytes, &map) == 1)
    if (map.executable == is_executable && map.inode == inode)
      {
        request.start = map.start;
        request.offset = map.offset;
        request.inode = map.inode;
        request.dev_major = map.dev_major;
        request.dev_minor = map.dev_minor;
      }
  g_assert_cmpuint (request.inode, !=, 0);
  free (text);
  close (fd);
  return request;
}

static ino_t
own_inode (void)
{
  struct stat st;

  g_assert_cmpint (stat ("/proc/self/exe", &st), ==, 0);
  return st.st_ino;
}

/* Our own executable mapping of this program. */
static SondeMessageFileRequest
own_request (void)
{
  return request_of (own_inode (), TRUE);
}

/* What a proof of our right to ourselves is worth to @broker. */
static void
allow_self (SondeProcBroker *broker)
{
  g_autoptr (SondeTarget) target = sonde_target_new (
      sonde_asked_target_new (getpid (), open ("/proc/self/maps", O_RDONLY | O_CLOEXEC)));

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = getuid () }, NULL));
  sonde_proc_broker_allow (broker, target);
}

/* @asks: whether the kernel is asked for the mapping, if it can be: else all of them are read */
static void
assert_file_so (uid_t owner,
                SondeScope scope,
                gboolean asks,
                const SondeMessageFileRequest *request,
                int expected)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (owner, scope, FALSE);
  SondeForeignMount mount;
  int fd;

  if (!asks)
    sonde_proc_broker_set_queries (broker, FALSE);
  allow_self (broker);
  fd = sonde_proc_broker_open_file (broker, request, NULL, &mount);
  g_assert_null (mount.name); /* of what is ours */
  if (expected < 0)
    g_assert_cmpint (fd, ==, expected);
  else
    {
      struct stat ours;
      struct stat theirs;

      g_assert_cmpint (fd, >=, 0);
      g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
      g_assert_cmpint (fstat (fd, &theirs), ==, 0);
      g_assert_cmpint (stat ("/proc/self/exe", &ours), ==, 0);
      g_assert_cmpuint (ours.st_ino, ==, theirs.st_ino);
      close (fd);
    }
}

static void
assert_file (uid_t owner, SondeScope scope, const SondeMessageFileRequest *request, int expected)
{
  assert_file_so (owner, scope, FALSE, request, expected);
  assert_file_so (owner, scope, TRUE, request, expected);
}

static void
test_file_refusals (void)
{
  SondeMessageFileRequest request = own_request ();

  request.start_ticks = 1;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ESRCH);
  request = own_request ();
  request.inode++;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ENOENT);
  request = own_request ();
  request.offset += 4096;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ENOENT);
  request = own_request ();
  request.dev_minor++;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ENOENT);
  request = own_request ();
  request.start = 0;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ENOENT);
  request = own_request ();
  request.inode = 0; /* as of the vdso and of the heap */
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ENOENT);
  request.pid = 0;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ESRCH);
  request.pid = -1;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ESRCH);
}

/* What a library of this machine begins with. */
static const Elf64_Ehdr program_header
    = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                     G_BYTE_ORDER == G_LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT },
        .e_type = ET_DYN };

/* A file beside this program, which is on a file system that is trusted, and a mapping of it. */
typedef struct
{
  char *path;
  struct stat st;
  void *pages;
} Mapped;

static void
mapped_init (Mapped *self, gconstpointer bytes, gsize n_bytes, int protection)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  int fd;

  self->path = g_strconcat (program, "-XXXXXX", NULL);
  fd = g_mkstemp (self->path);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes, n_bytes), ==, (gssize) n_bytes);
  g_assert_cmpint (fstat (fd, &self->st), ==, 0);
  self->pages = mmap (NULL, 4096, protection, MAP_PRIVATE, fd, 0);
  g_assert_true (self->pages != MAP_FAILED);
  close (fd);
}

static void
mapped_clear (Mapped *self)
{
  munmap (self->pages, 4096);
  unlink (self->path);
  g_free (self->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Mapped, mapped_clear)

/* Of a file with these bytes that we have mapped so, in a session of ours and in one that may all.
 */
static int
open_mapped (gconstpointer bytes, gsize n_bytes, int protection)
{
  g_autoptr (SondeProcBroker) ours = sonde_proc_broker_new (getuid (), SONDE_SCOPE_LAUNCH, FALSE);
  g_autoptr (SondeProcBroker) everything = sonde_proc_broker_new (0, SONDE_SCOPE_SYSTEM, TRUE);
  SondeProcBroker *brokers[] = { ours, everything };
  g_auto (Mapped) mapped = { 0 };
  SondeMessageFileRequest request;
  int results[2];

  mapped_init (&mapped, bytes, n_bytes, protection);
  request = request_of (mapped.st.st_ino, (protection & PROT_EXEC) != 0);
  allow_self (ours);
  for (guint i = 0; i < G_N_ELEMENTS (brokers); i++)
    {
      SondeForeignMount mount;

      results[i] = sonde_proc_broker_open_file (brokers[i], &request, NULL, &mount);
      if (results[i] >= 0)
        {
          close (results[i]);
          results[i] = 0;
        }
    }
  g_assert_cmpint (results[0], ==, results[1]);
  return results[0];
}

/* Whoever maps a file to read it says nothing of what it is. */
static void
test_data (void)
{
  SondeMessageFileRequest request = request_of (own_inode (), FALSE);

  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, -ENOENT);
  assert_file (0, SONDE_SCOPE_SYSTEM, &request, -ENOENT);
  g_assert_cmpint (open_mapped (&program_header, sizeof program_header, PROT_READ), ==, -ENOENT);
  g_assert_cmpint (open_mapped (&program_header, sizeof program_header, PROT_READ | PROT_WRITE), ==,
                   -ENOENT);
}

static void
test_no_program (void)
{
  const int protection = PROT_READ | PROT_EXEC;
  Elf64_Ehdr header = program_header;

  g_assert_cmpint (open_mapped ("", 0, protection), ==, -ENOEXEC);
  g_assert_cmpint (open_mapped ("root:secret\n", 12, protection), ==, -ENOEXEC);
  g_assert_cmpint (open_mapped ("\177ELF", 4, protection), ==, -ENOEXEC);
  g_assert_cmpint (open_mapped (&header, sizeof header - 1, protection), ==, -ENOEXEC);
  header.e_type = ET_CORE; /* the memory of a process */
  g_assert_cmpint (open_mapped (&header, sizeof header, protection), ==, -ENOEXEC);
  header = program_header;
  header.e_ident[EI_VERSION] = EV_NONE;
  g_assert_cmpint (open_mapped (&header, sizeof header, protection), ==, -ENOEXEC);
  header = program_header;
  header.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
  g_assert_cmpint (open_mapped (&header, sizeof header, protection), ==, -ENOEXEC);
  header = program_header;
  header.e_ident[EI_CLASS] = ELFCLASSNONE;
  g_assert_cmpint (open_mapped (&header, sizeof header, protection), ==, -ENOEXEC);
  g_assert_cmpint (open_mapped (&program_header, sizeof header, protection), ==, 0);
  header = program_header;
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_type = ET_EXEC;
  g_assert_cmpint (open_mapped (&header, sizeof header, protection), ==, 0);
}

static void
test_device (void)
{
  struct stat st;
  int fd = open ("/dev/zero", O_RDONLY | O_CLOEXEC);
  void *pages = mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  SondeMessageFileRequest request;
  gboolean is_same;

  if (pages == MAP_FAILED)
    {
      g_test_skip ("devices cannot be mapped here");
      close (fd);
      return;
    }
  g_assert_cmpint (fstat (fd, &st), ==, 0);
  request = request_of (st.st_ino, TRUE);
  /* A node on overlayfs has other numbers in maps than stat() says, and is refused for that. */
  is_same = request.dev_major == major (st.st_dev) && request.dev_minor == minor (st.st_dev);
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, is_same ? -EACCES : -ESTALE);
  munmap (pages, 4096);
  close (fd);
}

/* What is mapped counts, and not what has its name by now. */
static void
test_replaced (void)
{
  static const char secret[] = "root's own";
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (getuid (), SONDE_SCOPE_LAUNCH, FALSE);
  g_auto (Mapped) mapped = { 0 };
  SondeMessageFileRequest request;
  struct stat st;
  SondeForeignMount mount;
  int fd;

  mapped_init (&mapped, &program_header, sizeof program_header, PROT_READ | PROT_EXEC);
  request = request_of (mapped.st.st_ino, TRUE);
  allow_self (broker);
  g_assert_true (g_file_set_contents (mapped.path, secret, sizeof secret, NULL));
  g_assert_cmpint (stat (mapped.path, &st), ==, 0);
  g_assert_cmpuint (st.st_ino, !=, mapped.st.st_ino);
  fd = sonde_proc_broker_open_file (broker, &request, NULL, &mount);
  /* By its name, for those whom the kernel keeps from the mapping's own link, there is none. */
  if (fd == -ESTALE || fd == -ENOENT)
    return;
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (fstat (fd, &st), ==, 0);
  g_assert_cmpuint (st.st_ino, ==, mapped.st.st_ino);
  close (fd);
}

/* Memory that was shared by memfd lies on a mount that no mount table shows. */
static void
test_memfd (void)
{
  SondeMessageFileRequest request = { .request_id = 1, .pid = getpid () };
  int fd = memfd_create ("code", MFD_CLOEXEC);
  struct stat st;
  void *map;

  g_assert_cmpint (ftruncate (fd, 4096), ==, 0);
  g_assert_cmpint (pwrite (fd, &program_header, sizeof program_header, 0), ==,
                   sizeof program_header);
  map = mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  g_assert_true (map != MAP_FAILED);
  g_assert_cmpint (fstat (fd, &st), ==, 0);
  request.start = (guint64) (guintptr) map;
  request.inode = st.st_ino;
  request.dev_major = major (st.st_dev);
  request.dev_minor = minor (st.st_dev);
  {
    g_autoptr (SondeProcBroker) broker
        = sonde_proc_broker_new (getuid (), SONDE_SCOPE_LAUNCH, FALSE);
    SondeForeignMount mount;
    int result;

    allow_self (broker);
    result = sonde_proc_broker_open_file (broker, &request, NULL, &mount);
    /* By its name, for those whom the kernel keeps from the mapping's own link, there is none. */
    g_assert_true (result == -EACCES || (getuid () != 0 && result == -ENOENT));
  }
  munmap (map, 4096);
  close (fd);
}

static void
test_file (void)
{
  SondeMessageFileRequest request = own_request ();

  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, 0);
  assert_file (0, SONDE_SCOPE_LAUNCH, &request, 0);
  request.start += 64; /* the kernel has merged what the worker heard of in two pieces */
  request.offset += 64;
  assert_file (getuid (), SONDE_SCOPE_LAUNCH, &request, 0);
}

#define STRANGE_CODE UINT64_C (0x200000000000) /* where nothing else is */

/* It sees a list of mounts without one: its root is none, in a namespace of its own. Before, it
 * maps a program of a file system that nobody trusts, which only it has mounted. */
static gboolean
lives_in_a_folder (gpointer user_data)
{
  const char *top = user_data;
  g_autofree char *folder = g_build_filename (top, "folder", NULL);
  g_autofree char *strange = g_build_filename (top, "strange", NULL);
  g_autofree char *program = g_build_filename (strange, "program", NULL);
  int fd;

  if (unshare (CLONE_NEWNS) < 0 || mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0
      || mount ("none", strange, "ramfs", 0, NULL) < 0)
    return FALSE;
  fd = open (program, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
  return fd >= 0
         && write (fd, &program_header, sizeof program_header) == (gssize) sizeof program_header
         && mmap ((void *) (guintptr) STRANGE_CODE, 4096, PROT_READ | PROT_EXEC,
                  MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0)
                == (void *) (guintptr) STRANGE_CODE
         && chroot (folder) == 0 && chdir ("/") == 0;
}

/* The request for the mapping at @start of @pid. */
static SondeMessageFileRequest
request_at (pid_t pid, guint64 start)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  SondeMessageFileRequest request = { .request_id = 1, .pid = pid, .start = start };
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  SondeProcMapTable *table = NULL;
  SondeProcMap map;

  g_assert_cmpint (sonde_proc_map_table_read (fd, 1 << 20, &table), ==, 0);
  g_assert_cmpint (sonde_proc_map_table_find (table, start, &map), ==, 1);
  request.offset = map.offset + (start - map.start);
  request.inode = map.inode;
  request.dev_major = map.dev_major;
  request.dev_minor = map.dev_minor;
  sonde_proc_map_table_free (table);
  return request;
}

static int
open_of (pid_t pid, guint64 start)
{
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (0, SONDE_SCOPE_SYSTEM, FALSE);
  SondeMessageFileRequest request = request_at (pid, start);
  SondeForeignMount mount;
  int fd = sonde_proc_broker_open_file (broker, &request, NULL, &mount);

  g_free (mount.name);
  if (mount.fd >= 0)
    close (mount.fd);
  return fd;
}

static void
test_root_without_a_mount (void)
{
  g_autofree char *top = g_dir_make_tmp ("sonde-root-XXXXXX", NULL);
  g_autofree char *folder = g_build_filename (top, "folder", NULL);
  g_autofree char *strange = g_build_filename (top, "strange", NULL);
  g_autofree char *mounts = NULL;
  struct stat st;
  pid_t pid;

  g_assert_cmpint (mkdir (folder, 0755), ==, 0);
  g_assert_cmpint (mkdir (strange, 0755), ==, 0);
  g_assert_cmpint (stat ("/proc/self/exe", &st), ==, 0);
  g_assert_true (g_file_get_contents ("/proc/1/mountinfo", &mounts, NULL, NULL));
  pid = waiting_child_spawn (lives_in_a_folder, top);
  if (pid < 0 || sonde_mountinfo_find_device (mounts, major (st.st_dev), minor (st.st_dev)) < 0)
    g_test_skip ("nothing can be mounted here, or the first process sees other file systems");
  else
    {
      int fd = open_of (pid, own_request ().start);

      g_assert_cmpint (open_of (pid, STRANGE_CODE), ==, -EACCES);
      g_assert_cmpint (fd, >=, 0);
      close (fd);
    }
  if (pid >= 0)
    waiting_child_end (pid);
  g_rmdir (folder);
  g_rmdir (strange);
  g_rmdir (top);
}

static int
open_process (SondeProcBroker *broker, pid_t pid, SondeMessageProcess *reply)
{
  int fds[3];
  SondeForeignMount mount;
  unsigned n_fds = sonde_proc_broker_open_process (broker, 9, pid, reply, fds, &mount);

  g_assert_null (mount.name);
  for (unsigned i = 0; i < n_fds; i++)
    close (fds[i]);
  g_assert_cmpuint (reply->request_id, ==, 9);
  g_assert_cmpint (reply->pid, ==, pid);
  return (int) n_fds;
}

static void
test_process_refusals (void)
{
  /* A uid that is neither root's nor ours. */
  uid_t stranger = getuid () == NOBODY ? 1 : NOBODY;
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (stranger, SONDE_SCOPE_LAUNCH, FALSE);
  SondeMessageFileRequest request = own_request ();
  SondeMessageProcess reply;

  g_assert_cmpint (open_process (broker, getpid (), &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, EPERM);
  g_assert_cmpuint (reply.fds, ==, 0);
  g_assert_cmpuint (reply.start_ticks, ==, 0);
  g_assert_cmpint (open_process (broker, 0x7ffffff0, &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, ESRCH);
  assert_file (stranger, SONDE_SCOPE_LAUNCH, &request, -EPERM);
  /* Naming a process is of use in the scope that an administrator allows alone. */
  allow_self (broker);
  g_assert_cmpint (open_process (broker, getpid (), &reply), ==, 0);
}

/* A process whose uid may not look into it, as an ssh-agent is. */
static gboolean
become_undumpable (gpointer user_data)
{
  const uid_t *uid = user_data;

  return (getuid () != 0 || setresuid (*uid, *uid, *uid) == 0) && prctl (PR_SET_DUMPABLE, 0) == 0;
}

static void
test_undumpable (void)
{
  uid_t owner = getuid () == 0 ? NOBODY : getuid ();
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (owner, SONDE_SCOPE_LAUNCH, FALSE);
  SondeMessageFileRequest request = own_request ();
  SondeMessageProcess reply;

  request.pid = waiting_child_spawn (become_undumpable, &owner);
  g_assert_cmpint (open_process (broker, request.pid, &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, EPERM);
  /* It is a copy of us: the mapping is there. */
  assert_file (owner, SONDE_SCOPE_LAUNCH, &request, -EPERM);
  waiting_child_end (request.pid);
}

/* What is open of the numbers of @target, or a negative errno. */
static int
open_stat (SondeProcBroker *broker, const SondeTarget *target)
{
  int fd = sonde_proc_broker_open_stat (broker, target->pid, target->start_ticks);
  char text[64] = { 0 };
  g_autofree char *expected = g_strdup_printf ("%d (", (int) target->pid);

  if (fd < 0)
    return fd;
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  g_assert_cmpint (pread (fd, text, sizeof text - 1, 0), >, 0);
  g_assert_true (g_str_has_prefix (text, expected));
  close (fd);
  return 0;
}

static void
test_stat_of_target (void)
{
  uid_t stranger = getuid () == NOBODY ? 1 : NOBODY;
  g_autoptr (SondeProcBroker) ours = sonde_proc_broker_new (getuid (), SONDE_SCOPE_LAUNCH, FALSE);
  g_autoptr (SondeProcBroker) theirs = sonde_proc_broker_new (stranger, SONDE_SCOPE_LAUNCH, FALSE);
  g_autoptr (SondeProcBroker) named = sonde_proc_broker_new (stranger, SONDE_SCOPE_PIDS, FALSE);
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (getpid ()));

  allow_self (ours);
  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = getuid () }, NULL));
  g_assert_cmpint (open_stat (ours, target), ==, 0);
  g_assert_cmpint (sonde_proc_broker_open_stat (ours, getpid (), 1), ==, -ESRCH);
  g_assert_cmpint (open_stat (theirs, target), ==, -EPERM);
  g_assert_cmpint (open_stat (named, target), ==, -EPERM);
  sonde_proc_broker_allow (named, target);
  g_assert_cmpint (open_stat (named, target), ==, 0);
}

static void
test_stat_of_undumpable (void)
{
  uid_t owner = getuid () == 0 ? NOBODY : getuid ();
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (owner, SONDE_SCOPE_LAUNCH, FALSE);
  pid_t pid = waiting_child_spawn (become_undumpable, &owner);
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (pid));

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = owner }, NULL));
  g_assert_cmpint (open_stat (broker, target), ==, -EPERM);
  waiting_child_end (pid);
  g_assert_cmpint (open_stat (broker, target), ==, -ESRCH);
}

static pid_t
spawn_waiting (void)
{
  pid_t pid = fork ();

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      pause ();
      _exit (0);
    }
  return pid;
}

static void
test_named (void)
{
  uid_t stranger = getuid () == NOBODY ? 1 : NOBODY;
  g_autoptr (SondeProcBroker) ours = sonde_proc_broker_new (getuid (), SONDE_SCOPE_LAUNCH, FALSE);
  g_autoptr (SondeProcBroker) named = sonde_proc_broker_new (stranger, SONDE_SCOPE_PIDS, FALSE);
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (getpid ()));
  pid_t before = spawn_waiting ();
  SondeMessageProcess reply;

  allow_self (ours);
  g_assert_cmpint (open_process (ours, getpid (), &reply), ==, 3);
  g_assert_cmpuint (reply.fds, ==,
                    SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CMDLINE | SONDE_PROCESS_FD_CGROUP);
  g_assert_cmpuint (reply.start_ticks, !=, 0);

  g_assert_cmpint (open_process (named, getpid (), &reply), ==, 0);
  g_assert_cmpint (open_process (named, before, &reply), ==, 0);
  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = stranger }, NULL));
  sonde_proc_broker_allow (named, target);
  /* its mappings, but not its command line */
  g_assert_cmpint (open_process (named, getpid (), &reply), ==, 2);
  g_assert_cmpuint (reply.fds, ==, SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CGROUP);
  /* and its children's, but not those of who made it */
  g_assert_cmpint (open_process (named, before, &reply), ==, 2);
  g_assert_cmpint (open_process (named, getppid (), &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, EPERM);
  kill (before, SIGKILL);
  waitpid (before, NULL, 0);
}

/* Who is called is fewer than who may be looked at. */
static void
test_called (void)
{
  uid_t stranger = getuid () == NOBODY ? 1 : NOBODY;
  g_autoptr (SondeProcBroker) ours = sonde_proc_broker_new (getuid (), SONDE_SCOPE_TARGETS, FALSE);
  g_autoptr (SondeProcBroker) theirs = sonde_proc_broker_new (stranger, SONDE_SCOPE_TARGETS, FALSE);
  g_autoptr (SondeProcBroker) unit = sonde_proc_broker_new (getuid (), SONDE_SCOPE_UNIT, FALSE);
  g_autoptr (SondeProcBroker) machine = sonde_proc_broker_new (stranger, SONDE_SCOPE_SYSTEM, FALSE);
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (getpid ()));
  pid_t child = spawn_waiting ();

  /* A proof of ours is what lets the owner of the session see others of his. */
  if (getuid () == 0)
    {
      g_assert_cmpint (sonde_proc_broker_check (ours, child, FALSE), ==, 0);
      g_assert_cmpint (sonde_proc_broker_check (unit, child, FALSE), ==, 0);
    }
  g_assert_cmpint (sonde_proc_broker_check (ours, child, TRUE), ==, -EPERM);
  g_assert_cmpint (sonde_proc_broker_check (unit, child, TRUE), ==, -EPERM);
  g_assert_cmpint (sonde_proc_broker_check (machine, child, TRUE), ==, 0);
  allow_self (ours);
  g_assert_cmpint (sonde_proc_broker_check (ours, getpid (), TRUE), ==, 0);
  g_assert_cmpint (sonde_proc_broker_check (ours, child, TRUE), ==, 0);
  g_assert_cmpint (sonde_proc_broker_check (ours, getppid (), TRUE), ==, -EPERM);
  /* A session of targets follows no process that is not its owner's. */
  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = stranger }, NULL));
  sonde_proc_broker_allow (theirs, target);
  g_assert_cmpint (sonde_proc_broker_check (theirs, getpid (), TRUE), ==, -EPERM);
  kill (child, SIGKILL);
  waitpid (child, NULL, 0);
  g_assert_cmpint (sonde_proc_broker_check (ours, child, TRUE), ==, -ESRCH);
}

/* Returns when starts of processes are told by another number than they would be now. */
static void
wait_for_a_tick (void)
{
  g_usleep (2 * G_USEC_PER_SEC / (gulong) sysconf (_SC_CLK_TCK));
}

/* Root's, which has named us. */
static SondeProcBroker *
new_of_root (void)
{
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (getpid ()));
  SondeProcBroker *broker = sonde_proc_broker_new (0, SONDE_SCOPE_PIDS, FALSE);

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = 0 }, NULL));
  sonde_proc_broker_allow (broker, target);
  return broker;
}

/* A session follows those that are made while it lasts. */
static void
test_children (void)
{
  pid_t before = spawn_waiting ();
  g_autoptr (SondeProcBroker) broker = NULL;
  g_autoptr (SondeProcBroker) alone = NULL;
  SondeMessageProcess reply;
  pid_t after;

  wait_for_a_tick ();
  broker = new_of_root ();
  alone = new_of_root ();
  sonde_proc_broker_refuse_children (alone);
  after = spawn_waiting ();

  g_assert_cmpint (open_process (broker, before, &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, EPERM);
  g_assert_cmpint (open_process (alone, after, &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, EPERM);
  g_assert_cmpint (open_process (alone, getpid (), &reply), ==, 3);
  g_assert_cmpint (open_process (broker, after, &reply), ==, 3);
  kill (before, SIGKILL);
  kill (after, SIGKILL);
  waitpid (before, NULL, 0);
  waitpid (after, NULL, 0);
}

/* Root may look at every process, but has named one. */
static void
test_pids_of_root (void)
{
  pid_t before = spawn_waiting ();
  g_autoptr (SondeProcBroker) broker = NULL;
  g_autoptr (SondeProcBroker) everything = sonde_proc_broker_new (0, SONDE_SCOPE_LAUNCH, FALSE);
  SondeMessageFileRequest request = own_request ();
  SondeMessageProcess reply;
  SondeForeignMount mount;
  int fd;

  wait_for_a_tick ();
  broker = new_of_root ();
  request.pid = before; /* a copy of us */
  g_assert_cmpint (sonde_proc_broker_open_file (broker, &request, NULL, &mount), ==, -EPERM);
  g_assert_cmpint (open_process (broker, getppid (), &reply), ==, 0);
  g_assert_cmpint (reply.status, ==, EPERM);
  fd = sonde_proc_broker_open_file (everything, &request, NULL, &mount);
  g_assert_cmpint (fd, >=, 0);
  close (fd);
  request.pid = getpid ();
  fd = sonde_proc_broker_open_file (broker, &request, NULL, &mount);
  g_assert_cmpint (fd, >=, 0);
  close (fd);
  kill (before, SIGKILL);
  waitpid (before, NULL, 0);
}

/* The scope decides nothing of this: an administrator has allowed to see it all. */
static void
test_raw (void)
{
  uid_t stranger = getuid () == NOBODY ? 1 : NOBODY;
  g_autoptr (SondeProcBroker) broker = sonde_proc_broker_new (stranger, SONDE_SCOPE_LAUNCH, TRUE);
  SondeMessageProcess reply;

  g_assert_cmpint (open_process (broker, getpid (), &reply), ==, 3);
  g_assert_cmpuint (reply.fds, ==,
                    SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CMDLINE | SONDE_PROCESS_FD_CGROUP);
}

/* --- places of a walk --- */

static char far_memory[1 << 16];
static int near_memory = 1;

/* Of what this program has in its own file: a constant, a variable, and memory without bytes. */
static SondeMessageInterpreter
own_place (void)
{
  SondeMessageFileRequest request = own_request ();

  return (SondeMessageInterpreter){ .pid = getpid (),
                                    .start = request.start,
                                    .offset = request.offset,
                                    .inode = request.inode,
                                    .dev_major = request.dev_major,
                                    .dev_minor = request.dev_minor,
                                    .place = { .key = (guintptr) &near_memory,
                                               .code_type = (guintptr) &own_place,
                                               .text_type = (guintptr) &far_memory,
                                               .kind = SONDE_WALK_PYTHON } };
}

static void
test_places (void)
{
  g_autoptr (SondeProcBroker) broker
      = sonde_proc_broker_new (getuid (), SONDE_SCOPE_TARGETS, FALSE);
  g_autoptr (SondeProcBroker) of_other = sonde_proc_broker_new (12345, SONDE_SCOPE_TARGETS, FALSE);
  g_autofree char *elsewhere = g_malloc0 (1 << 20);
  SondeMessageInterpreter message = own_place ();

  allow_self (broker);
  g_assert_cmpint (sonde_proc_broker_check_place (broker, &message), ==, 0);
  g_assert_cmpint (sonde_proc_broker_check_place (of_other, &message), ==, -EPERM);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    message = own_place ();                                                                        \
    change;                                                                                        \
    g_assert_cmpint (sonde_proc_broker_check_place (broker, &message), ==, expected);              \
  }                                                                                                \
  G_STMT_END
  REFUSE (message.place.key = (guintptr) elsewhere, -EFAULT);
  REFUSE (message.place.code_type = (guintptr) &message, -EFAULT);
  REFUSE (message.place.text_type = (guintptr) &g_malloc0, -EFAULT);
  REFUSE (message.place.text_type = 0, -EFAULT);
  /* PHP has no types to know its texts by. */
  REFUSE (message.place.kind = SONDE_WALK_PHP, -EFAULT);
  message = own_place ();
  message.place.kind = SONDE_WALK_PHP;
  message.place.code_type = message.place.text_type = 0;
  g_assert_cmpint (sonde_proc_broker_check_place (broker, &message), ==, 0);
  message.place.key = (guintptr) elsewhere;
  g_assert_cmpint (sonde_proc_broker_check_place (broker, &message), ==, -EFAULT);
  REFUSE (message.place.key = UINT64_MAX, -EFAULT);
  REFUSE (message.inode++, -ENOENT);
  REFUSE (message.inode = 0, -ENOENT);
  REFUSE (message.offset += 4096, -ENOENT);
  REFUSE (message.start = (guintptr) &near_memory, -ENOENT);
  REFUSE (message.start_ticks = 1, -ESRCH);
  REFUSE (message.pid = G_MAXINT, -ESRCH);
#undef REFUSE
}

/* --- probes --- */

#ifdef __x86_64__

STATIC_PROBE_SEMAPHORE own_semaphore;

static __attribute__ ((noinline)) void
fire (const void *block)
{
  STATIC_PROBE (STATIC_PROBE_SHORT, "otel_memory", "alloc", "own_semaphore", "8@%0", "r"(block));
  STATIC_PROBE (STATIC_PROBE_LONG, "otel_memory", "free", "own_semaphore", "8@%0", "r"(block));
  STATIC_PROBE (STATIC_PROBE_SHORT, "other", "alloc", "own_semaphore", "8@%0", "r"(block));
}

/* Where the notes of this program are: of alloc, of free, and of the other's. */
static void
find_notes (guint64 notes[3])
{
  sonde_autofd int fd = open ("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  SondeProbe probes[2];
  SondeElfFile file;

  g_assert_cmpint (sonde_elf_file_load (&file, fd), ==, 0);
  g_assert_cmpint (sonde_probes_find (&file, "otel_memory", probes, 2), ==, 2);
  notes[0] = probes[0].note;
  notes[1] = probes[1].note;
  g_assert_cmpint (sonde_probes_find (&file, "other", probes, 2), ==, 1);
  notes[2] = probes[0].note;
  sonde_elf_file_clear (&file);
}

static SondeMessageProbes
own_probes (void)
{
  SondeMessageFileRequest request = own_request ();

  return (SondeMessageProbes){ .request_id = 1,
                               .pid = getpid (),
                               .n_notes = 1,
                               .start = request.start,
                               .offset = request.offset,
                               .inode = request.inode,
                               .dev_major = request.dev_major,
                               .dev_minor = request.dev_minor };
}

static int
open_probes (SondeProcBroker *broker, const SondeMessageProbes *message)
{
  SondeProbePlace places[SONDE_PROBE_MAX_SITES];
  sonde_autofd int fd = sonde_proc_broker_open_probes (broker, message, places);

  if (fd >= 0)
    {
      g_assert_cmphex (places[0].address, >=, (guintptr) &fire);
      g_assert_cmphex (places[0].address, <, (guintptr) &fire + 64);
      g_assert_cmpuint (places[0].semaphore, !=, 0);
    }
  return fd < 0 ? fd : 0;
}

static void
test_probes (void)
{
  g_autoptr (SondeProcBroker) broker
      = sonde_proc_broker_new (getuid (), SONDE_SCOPE_TARGETS, FALSE);
  g_autoptr (SondeProcBroker) of_other = sonde_proc_broker_new (12345, SONDE_SCOPE_TARGETS, FALSE);
  g_autoptr (SondeProcBroker) without
      = sonde_proc_broker_new (getuid (), SONDE_SCOPE_TARGETS, FALSE);
  SondeMessageProbes message = own_probes ();
  guint64 notes[3];

  fire (NULL);
  find_notes (notes);
  message.notes[0] = notes[0];
  allow_self (broker);
  if (open_probes (broker, &message) == -EACCES)
    {
      g_test_skip ("this program is on a file system that the kernel is not asked about");
      return;
    }
  g_assert_cmpint (open_probes (broker, &message), ==, 0);
  g_assert_cmpint (open_probes (of_other, &message), ==, -EPERM);
  /* Its owner may look into it, and the session does not follow it. */
  g_assert_cmpint (open_probes (without, &message), ==, -EPERM);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    message = own_probes ();                                                                       \
    message.notes[0] = notes[0];                                                                   \
    change;                                                                                        \
    g_assert_cmpint (open_probes (broker, &message), ==, expected);                                \
  }                                                                                                \
  G_STMT_END
  REFUSE (message.notes[0] = notes[1], -EILSEQ);
  REFUSE (message.notes[0] = notes[2], -EBADMSG);
  REFUSE (message.notes[0] = notes[0] + 4, -EBADMSG);
  REFUSE (message.notes[0] = 0, -EBADMSG);
  REFUSE (message.notes[0] = UINT64_MAX, -EBADMSG);
  REFUSE ((message.n_notes = 2, message.notes[1] = notes[2]), -EBADMSG);
  REFUSE (message.inode++, -ENOENT);
  REFUSE (message.offset += 4096, -ENOENT);
  REFUSE (message.start = (guintptr) &near_memory, -ENOENT);
  REFUSE (message.start_ticks = 1, -ESRCH);
  REFUSE (message.pid = G_MAXINT, -ESRCH);
#undef REFUSE
}

#endif

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/scope/stat/refuses-what-is-not-of-its-form", test_stat_refusals);
  g_test_add_func ("/scope/stat/takes-any-name", test_stat);
  g_test_add_func ("/scope/fdinfo/finds-the-mount-or-none", test_fdinfo);
  g_test_add_func ("/scope/mounts/trusts-no-remote-unknown-or-missing-one", test_mount_refusals);
  g_test_add_func ("/scope/mounts/knows-the-same-file-system-in-another-list",
                   test_same_file_system);
  g_test_add_func ("/scope/mounts/finds-one-of-a-file-system", test_mount_of_a_device);
  g_test_add_func ("/scope/mounts/trusts-local-file-systems", test_mounts);
  g_test_add_func ("/scope/below/takes-no-link-and-no-way-up", test_below);
  g_test_add_func ("/scope/cost/tells-the-time-of-what-is-hidden", test_hidden_cost);
  g_test_add_func ("/scope/cpus/parses-lists-within-bounds", test_cpus);
  g_test_add_func ("/scope/file/refuses-what-is-not-mapped-there", test_file_refusals);
  g_test_add_func ("/scope/file/trusts-what-the-first-process-has-mounted",
                   test_root_without_a_mount);
  g_test_add_func ("/scope/file/refuses-what-is-mapped-and-not-run", test_data);
  g_test_add_func ("/scope/file/refuses-what-is-run-and-no-program", test_no_program);
  g_test_add_func ("/scope/file/refuses-devices", test_device);
  g_test_add_func ("/scope/file/refuses-anonymous-memory", test_memfd);
  g_test_add_func ("/scope/file/opens-what-is-mapped-and-not-what-has-its-name", test_replaced);
  g_test_add_func ("/scope/file/opens-the-mapped-file-read-only", test_file);
  g_test_add_func ("/scope/place/refuses-what-is-not-of-the-file", test_places);
#ifdef __x86_64__
  g_test_add_func ("/scope/probes/refuses-what-is-no-probe", test_probes);
#endif
  g_test_add_func ("/scope/mounts/only-solid-ones-are-asked-for-with-locks", test_solid_mounts);
  g_test_add_func ("/scope/process/refuses-those-of-others", test_process_refusals);
  g_test_add_func ("/scope/process/refuses-what-the-kernel-closes-to-its-uid", test_undumpable);
  g_test_add_func ("/scope/process/refuses-root-what-it-did-not-name", test_pids_of_root);
  g_test_add_func ("/scope/process/knows-named-ones-and-their-children", test_named);
  g_test_add_func ("/scope/process/takes-who-is-called-if-it-follows-him", test_called);
  g_test_add_func ("/scope/process/knows-children-that-a-session-follows", test_children);
  g_test_add_func ("/scope/stat-of-target/refuses-what-the-kernel-closes", test_stat_of_undumpable);
  g_test_add_func ("/scope/stat-of-target/opens-it-for-its-session-alone", test_stat_of_target);
  g_test_add_func ("/scope/process/hides-nothing-from-raw-data", test_raw);
  return g_test_run ();
}
