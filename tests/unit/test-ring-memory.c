/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ring-memory: what it refuses to make and to map, its seals, and the body that lies there twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared-ring/ring-memory.h"

static void
refuses_sizes_and_kinds_out_of_range (void)
{
  static const SondeRingOptions bad[] = {
    { SONDE_RING_NATIVE, 0, 0, 0 },
    { SONDE_RING_NATIVE, SONDE_RING_MIN_BYTES / 2, 0, 0 },
    { SONDE_RING_NATIVE, SONDE_RING_MIN_BYTES + 4096, 0, 0 },
    { SONDE_RING_NATIVE, SONDE_RING_MAX_BYTES * 2, 0, 0 },
    { SONDE_RING_NATIVE, SIZE_MAX, 0, 0 },
    { 0, SONDE_RING_MIN_BYTES, 0, 0 },
    { 3, SONDE_RING_MIN_BYTES, 0, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      SondeRingMemory memory;
      int fd = -1;

      g_assert_cmpint (sonde_ring_memory_create (&bad[i], &memory, &fd), ==, -EINVAL);
      g_assert_cmpint (fd, ==, -1);
    }
}

static int
make (SondeRingKind kind, SondeRingMemory *memory)
{
  SondeRingOptions options = { kind, SONDE_RING_DEFAULT_BYTES, 77, UINT32_MAX };
  int fd = -1;

  g_assert_cmpint (sonde_ring_memory_create (&options, memory, &fd), ==, 0);
  return fd;
}

/* Nobody who gets the file can make a mapping of it fault. */
static void
seals_the_size (void)
{
  SondeRingMemory memory;
  int fd = make (SONDE_RING_NATIVE, &memory);
  off_t size = lseek (fd, 0, SEEK_END);

  g_assert_cmpint (ftruncate (fd, 0), ==, -1);
  g_assert_cmpint (errno, ==, EPERM);
  g_assert_cmpint (ftruncate (fd, size * 2), ==, -1);
  g_assert_cmpint (errno, ==, EPERM);
  g_assert_cmpint (fcntl (fd, F_ADD_SEALS, F_SEAL_WRITE), ==, -1);
  g_assert_cmpint (errno, ==, EPERM);
  g_assert_cmpint (lseek (fd, 0, SEEK_END), ==, size);
  g_assert_cmpint (fcntl (fd, F_GETFD), ==, FD_CLOEXEC);

  sonde_ring_memory_unmap (&memory);
  close (fd);
}

static void
maps_the_body_twice (void)
{
  SondeRingMemory memory, other;
  int fd = make (SONDE_RING_SYSPROF, &memory);

  g_assert_cmpint (sonde_ring_memory_map (fd, &other), ==, 0);
  close (fd);
  g_assert_cmpuint (other.size_bytes, ==, memory.size_bytes);
  g_assert_cmpuint (other.kind, ==, SONDE_RING_SYSPROF);

  memory.body[3] = 1;
  memory.body[2 * memory.size_bytes - 1] = 2;
  g_assert_cmpuint (other.body[3 + memory.size_bytes], ==, 1);
  g_assert_cmpuint (other.body[memory.size_bytes - 1], ==, 2);

  sonde_ring_memory_unmap (&memory);
  sonde_ring_memory_unmap (&other);
  sonde_ring_memory_unmap (&other);
}

/* A file like a ring of a Sysprof profiler: not sealed. */
static int
fake (const SondeRingHeader *header, gsize file_bytes)
{
  int fd = memfd_create ("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  g_assert_cmpint (ftruncate (fd, (off_t) file_bytes), ==, 0);
  if (header != NULL)
    g_assert_cmpint (pwrite (fd, header, sizeof *header, 0), ==, sizeof *header);

  return fd;
}

static void
assert_map (int fd, int result)
{
  SondeRingMemory memory = { .size_bytes = 0 };

  g_assert_cmpint (sonde_ring_memory_map (fd, &memory), ==, result);
  sonde_ring_memory_unmap (&memory);
  close (fd);
}

static void
refuses_to_map_what_contradicts_itself (void)
{
  const guint32 page = (guint32) sysconf (_SC_PAGESIZE), size = SONDE_RING_MIN_BYTES;
  SondeRingHeader header = { .offset_bytes = page, .size_bytes = size };
  int pipe_fds[2];

  g_assert_cmpint (pipe2 (pipe_fds, O_CLOEXEC), ==, 0);
  assert_map (pipe_fds[0], -EBADMSG);
  close (pipe_fds[1]);
  assert_map (fake (NULL, 0), -EBADMSG);
  assert_map (fake (NULL, page), -EBADMSG);
  assert_map (fake (NULL, page + size), -EBADMSG);
  assert_map (fake (&header, page + size), 0);
  assert_map (fake (&header, page + size / 2), -EBADMSG);
  assert_map (fake (&header, page + size + 1), -EBADMSG);
  assert_map (fake (&header, (gsize) 1 << 40), -EBADMSG);
  header.offset_bytes = 16;
  assert_map (fake (&header, page + size), -EBADMSG);
  header.offset_bytes = 2 * page;
  assert_map (fake (&header, 2 * page + size), -EBADMSG);
  header.offset_bytes = page;
  header.size_bytes = UINT32_MAX - page + 1;
  assert_map (fake (&header, page + size), -EBADMSG);
}

static void
refuses_a_native_ring_that_can_be_cut (void)
{
  const guint32 page = (guint32) sysconf (_SC_PAGESIZE);
  SondeRingHeader header = { .offset_bytes = page,
                             .size_bytes = SONDE_RING_MIN_BYTES,
                             .magic = SONDE_RING_MAGIC,
                             .version = SONDE_RING_VERSION };
  int fd;

  assert_map (fake (&header, page + SONDE_RING_MIN_BYTES), -EPERM);
  fd = fake (&header, page + SONDE_RING_MIN_BYTES);
  g_assert_cmpint (fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), ==, 0);
  assert_map (fd, -EPERM);

  header.version++;
  assert_map (fake (&header, page + SONDE_RING_MIN_BYTES), -EPROTONOSUPPORT);
  header.version--;
  header.size_bytes = SONDE_RING_MIN_BYTES * 3;
  assert_map (fake (&header, page + SONDE_RING_MIN_BYTES * 3), -EBADMSG);
}

static void
tells_the_writer_how_long_it_may_wait (void)
{
  SondeRingMemory memory, other;
  int fd = make (SONDE_RING_NATIVE, &memory);

  g_assert_cmpint (sonde_ring_memory_map (fd, &other), ==, 0);
  g_assert_cmpuint (other.kind, ==, SONDE_RING_NATIVE);
  g_assert_cmpuint (other.wait_us, ==, 77);
  sonde_ring_memory_unmap (&memory);
  sonde_ring_memory_unmap (&other);
  close (fd);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/ring-memory/refuses-sizes-and-kinds-out-of-range",
                   refuses_sizes_and_kinds_out_of_range);
  g_test_add_func ("/ring-memory/refuses-to-map-what-contradicts-itself",
                   refuses_to_map_what_contradicts_itself);
  g_test_add_func ("/ring-memory/refuses-a-native-ring-that-can-be-cut",
                   refuses_a_native_ring_that_can_be_cut);
  g_test_add_func ("/ring-memory/seals-the-size", seals_the_size);
  g_test_add_func ("/ring-memory/maps-the-body-twice", maps_the_body_twice);
  g_test_add_func ("/ring-memory/tells-the-writer-how-long-it-may-wait",
                   tells_the_writer_how_long_it_may_wait);

  return g_test_run ();
}
