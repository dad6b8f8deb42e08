/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests for files of a process with very many mappings, and their cost where all of these have
 * to be read. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/fd.h"
#include "daemon/base/proc-maps.h"
#include "daemon/broker/proc-broker.h"
#include "tests/lib/waiting-child.h"

#define N_MAPPINGS 5000
#define N_REQUESTS 64
#define NAME_BYTES 200

/* What a library of this machine begins with. */
static const Elf64_Ehdr program_header
    = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
                     G_BYTE_ORDER == G_LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB, EV_CURRENT },
        .e_type = ET_DYN };

/* A library with a long name, on a file system that is trusted: where this program is. */
typedef struct
{
  char *path;
  int fd;
  gsize page_bytes;
  SondeProcMap map; /* what the kernel calls it, which on overlayfs is not what fstat() says */
} Library;

static void *
library_map (const Library *self, void *at)
{
  return mmap (at, self->page_bytes, PROT_READ | PROT_EXEC,
               MAP_PRIVATE | (at != NULL ? MAP_FIXED : 0), self->fd, 0);
}

static void
library_look_up (Library *self)
{
  void *at = library_map (self, NULL);
  int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char *text = NULL;
  gsize size_bytes = (gsize) sonde_proc_maps_read (fd, 1 << 20, &text);
  const char *rest = text;

  while (sonde_proc_maps_next (&rest, &size_bytes, &self->map) == 1
         && self->map.start != (guint64) (guintptr) at)
    ;
  g_assert_cmpuint (self->map.start, ==, (guint64) (guintptr) at);
  free (text);
  close (fd);
  munmap (at, self->page_bytes);
}

static void
library_init (Library *self)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *directory = g_path_get_dirname (program);
  g_autofree char *name = g_strnfill (NAME_BYTES, 'n');

  self->page_bytes = (gsize) sysconf (_SC_PAGESIZE);
  self->path = g_strdup_printf ("%s/%s-XXXXXX", directory, name);
  self->fd = g_mkstemp (self->path);
  g_assert_cmpint (self->fd, >=, 0);
  g_assert_cmpint (write (self->fd, &program_header, sizeof program_header), ==,
                   sizeof program_header);
  library_look_up (self);
}

static void
library_clear (Library *self)
{
  close (self->fd);
  unlink (self->path);
  g_free (self->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Library, library_clear)

/* What a worker asks for that has heard of it. */
static SondeMessageFileRequest
request_of (const Library *self, pid_t pid, const void *at)
{
  return (SondeMessageFileRequest){ .request_id = 1,
                                    .pid = pid,
                                    .start = (guint64) (guintptr) at,
                                    .inode = self->map.inode,
                                    .dev_major = self->map.dev_major,
                                    .dev_minor = self->map.dev_minor };
}

static SondeProcBroker *
new_broker (gboolean asks)
{
  SondeProcBroker *broker = sonde_proc_broker_new (0, SONDE_SCOPE_LAUNCH, FALSE);

  if (!asks)
    sonde_proc_broker_set_queries (broker, FALSE);
  return broker;
}

static int
ask (SondeProcBroker *broker, SondeProcBatch *batch, const SondeMessageFileRequest *request)
{
  SondeForeignMount mount;
  int fd = sonde_proc_broker_open_file (broker, request, batch, &mount);

  if (fd < 0)
    return fd;
  close (fd);
  return 0;
}

/* Neighbours do not become one: each begins where the file does. */
typedef struct
{
  const Library *library;
  char *at;
} Many;

static gboolean
map_many (gpointer user_data)
{
  const Many *self = user_data;

  for (gsize i = 0; i < N_MAPPINGS; i++)
    if (library_map (self->library, self->at + i * self->library->page_bytes) == MAP_FAILED)
      return FALSE;
  return TRUE;
}

/* Bytes that this process has read, 0 if the kernel does not count them. Source: proc_pid_io(5) */
static guint64
count_read_bytes (void)
{
  g_autofree char *text = NULL;
  guint64 n_bytes = 0;

  if (!g_file_get_contents ("/proc/self/io", &text, NULL, NULL)
      || sscanf (text, "rchar: %" G_GUINT64_FORMAT, &n_bytes) != 1)
    return 0;
  return n_bytes;
}

/* How many bytes are read for N_REQUESTS files of @pid. */
static guint64
read_for_requests (SondeProcBroker *broker, SondeProcBatch *batch, const Many *many, pid_t pid)
{
  guint64 before = count_read_bytes ();

  for (guint i = 0; i < N_REQUESTS; i++)
    {
      gsize n = (gsize) i * (N_MAPPINGS - 1) / (N_REQUESTS - 1);
      SondeMessageFileRequest request
          = request_of (many->library, pid, many->at + n * many->library->page_bytes);

      g_assert_cmpint (ask (broker, batch, &request), ==, 0);
    }
  return count_read_bytes () - before;
}

static guint64
read_maps (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  g_autofree char *text = NULL;
  gsize n_bytes;

  g_assert_true (g_file_get_contents (path, &text, &n_bytes, NULL));
  return n_bytes;
}

/* Whoever has many mappings, with long names, makes nobody read them all for each of his files. */
static void
test_cost (void)
{
  g_auto (Library) library = { 0 };
  g_autoptr (SondeProcBroker) asking = new_broker (TRUE);
  g_autoptr (SondeProcBroker) reading = new_broker (FALSE);
  g_autoptr (SondeProcBatch) batch = sonde_proc_batch_new ();
  Many many = { .library = &library };
  guint64 maps_bytes, other_bytes, read_bytes;
  pid_t pid;

  library_init (&library);
  many.at = mmap (NULL, N_MAPPINGS * library.page_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_assert_true (many.at != MAP_FAILED);
  pid = waiting_child_spawn (map_many, &many);
  g_assert_cmpint (pid, >, 0);
  maps_bytes = read_maps (pid);
  g_assert_cmpuint (maps_bytes, >, N_MAPPINGS * NAME_BYTES);
  if (count_read_bytes () == 0)
    g_test_skip ("this kernel does not count what is read");
  else
    {
      read_bytes = read_for_requests (reading, batch, &many, pid);
      g_test_message ("%" G_GUINT64_FORMAT " bytes of maps, %" G_GUINT64_FORMAT
                      " read for %d requests of a batch",
                      maps_bytes, read_bytes, N_REQUESTS);
      g_assert_cmpuint (read_bytes, >, maps_bytes);
      /* Texts of other kinds and headers of files are what is read for each. */
      other_bytes = read_bytes - maps_bytes;
      g_assert_cmpuint (other_bytes, <, maps_bytes);
      if (sonde_proc_broker_has_queries (asking))
        {
          read_bytes = read_for_requests (asking, NULL, &many, pid);
          g_test_message ("%" G_GUINT64_FORMAT " if the kernel is asked", read_bytes);
          g_assert_cmpuint (read_bytes, <, maps_bytes);
        }
    }
  waiting_child_end (pid);
  munmap (many.at, N_MAPPINGS * library.page_bytes);
}

/* A batch is what was there when it began; then all is read anew. */
static void
test_batch (void)
{
  g_auto (Library) library = { 0 };
  g_autoptr (SondeProcBroker) broker = new_broker (FALSE);
  g_autoptr (SondeProcBatch) batch = sonde_proc_batch_new ();
  SondeMessageFileRequest first, second;
  void *pages[2];

  library_init (&library);
  pages[0] = library_map (&library, NULL);
  g_assert_true (pages[0] != MAP_FAILED);
  first = request_of (&library, getpid (), pages[0]);
  g_assert_cmpint (ask (broker, batch, &first), ==, 0);
  pages[1] = library_map (&library, NULL);
  g_assert_true (pages[1] != MAP_FAILED);
  second = request_of (&library, getpid (), pages[1]);
  g_assert_cmpint (ask (broker, batch, &second), ==, -ENOENT);
  g_assert_cmpint (ask (broker, batch, &first), ==, 0);
  /* What was there and is gone is not given out, though it was read. */
  munmap (pages[0], library.page_bytes);
  g_assert_cmpint (ask (broker, batch, &first), ==, -ENOENT);
  g_assert_cmpint (ask (broker, NULL, &first), ==, -ENOENT);
  g_assert_cmpint (ask (broker, NULL, &second), ==, 0);
  munmap (pages[1], library.page_bytes);
}

/* Another process, or another one with its number, is read for itself. */
static void
test_processes (void)
{
  g_auto (Library) library = { 0 };
  g_autoptr (SondeProcBroker) broker = new_broker (FALSE);
  g_autoptr (SondeProcBatch) batch = sonde_proc_batch_new ();
  Many many = { .library = &library };
  SondeMessageFileRequest ours, theirs;
  pid_t pid;

  library_init (&library);
  many.at = mmap (NULL, N_MAPPINGS * library.page_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_assert_true (many.at != MAP_FAILED);
  pid = waiting_child_spawn (map_many, &many);
  g_assert_cmpint (pid, >, 0);
  theirs = request_of (&library, pid, many.at);
  ours = request_of (&library, getpid (), many.at);
  g_assert_cmpint (ask (broker, batch, &theirs), ==, 0);
  g_assert_cmpint (ask (broker, batch, &ours), ==, -ENOENT);
  g_assert_cmpint (ask (broker, batch, &theirs), ==, 0);
  theirs.start_ticks = 1;
  g_assert_cmpint (ask (broker, batch, &theirs), ==, -ESRCH);
  theirs.start_ticks = 0;
  waiting_child_end (pid);
  g_assert_cmpint (ask (broker, batch, &theirs), ==, -ESRCH);
  munmap (many.at, N_MAPPINGS * library.page_bytes);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/file-batch/a-batch-is-what-was-there", test_batch);
  g_test_add_func ("/file-batch/a-batch-tells-processes-apart", test_processes);
  g_test_add_func ("/file-batch/many-mappings-are-not-read-for-each-file", test_cost);
  return g_test_run ();
}
