/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of the reader of /proc/PID/maps lines. */
#include "daemon/base/proc-maps.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

static int
parse (const char *line, SondeProcMap *map)
{
  size_t size = strlen (line);

  return sonde_proc_maps_next (&line, &size, map);
}

static void
reads_a_file_mapping (void)
{
  SondeProcMap map;

  g_assert_cmpint (
      parse ("7f3c1000-7f3c5000 r-xp 00026000 fe:0a 1835034   /usr/lib/a b.so (deleted)\n", &map),
      ==, 1);
  g_assert_cmphex (map.start, ==, 0x7f3c1000);
  g_assert_cmphex (map.end, ==, 0x7f3c5000);
  g_assert_cmphex (map.offset, ==, 0x26000);
  g_assert_cmphex (map.dev_major, ==, 0xfe);
  g_assert_cmphex (map.dev_minor, ==, 0x0a);
  g_assert_cmpuint (map.inode, ==, 1835034);
  g_assert_true (map.executable);
  g_assert_cmpmem (map.path, map.path_len, "/usr/lib/a b.so (deleted)", 25);
}

static void
reads_a_mapping_without_a_path (void)
{
  SondeProcMap map;

  g_assert_cmpint (parse ("1000-2000 rw-p 00000000 00:00 0 ", &map), ==, 1);
  g_assert_cmpuint (map.path_len, ==, 0);
  g_assert_false (map.executable);
}

static void
refuses_lines_of_another_form (void)
{
  static const char *const lines[] = {
    "\n",
    "hello\n",
    "1000-\n",
    "1000-2000\n",
    "1000-2000 rwx\n",
    "2000-1000 r-xp 0 0:0 0\n",
    "1000-2000 r-xp 0 00\n",
    "1000-2000 r-xp 0 0:0 \n",
    "11111111111111111-22222222222222222 r-xp 0 0:0 0\n",
    "1000-2000 r-xp 0 100000000:0 0\n",
    "1000-2000 r-xp 0 0:0 99999999999999999999999\n",
  };
  SondeProcMap map;

  for (size_t i = 0; i < G_N_ELEMENTS (lines); i++)
    g_assert_cmpint (parse (lines[i], &map), ==, -EBADMSG);
}

static void
goes_on_after_a_bad_line (void)
{
  const char *text = "rubbish\n1000-2000 r-xp 0 0:0 0\n";
  size_t size = strlen (text);
  SondeProcMap map;

  g_assert_cmpint (sonde_proc_maps_next (&text, &size, &map), ==, -EBADMSG);
  g_assert_cmpint (sonde_proc_maps_next (&text, &size, &map), ==, 1);
  g_assert_cmpint (sonde_proc_maps_next (&text, &size, &map), ==, 0);
}

static void
never_reads_past_the_text (void)
{
  const char *line = "7f3c1000-7f3c5000 r-xp 00026000 fe:0a 1835034   /usr/lib/a.so\n";

  for (size_t size = 0; size < strlen (line); size++)
    {
      g_autofree char *cut = g_memdup2 (line, size); /* exactly as long: ASan watches the end */
      const char *at = cut;
      size_t left = size;
      SondeProcMap map;

      sonde_proc_maps_next (&at, &left, &map);
      g_assert_cmpuint (left, ==, 0);
    }
}

static void
reads_its_own_maps_whole_and_cut (void)
{
  sonde_autofd int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  g_autofree char *text = NULL;
  g_autofree char *cut = NULL;
  int64_t size;

  size = sonde_proc_maps_read (fd, 1 << 20, &text);
  g_assert_cmpint (size, >, 100);
  g_assert_nonnull (strstr (text, "test-proc-maps"));
  size = sonde_proc_maps_read (fd, 300, &cut);
  g_assert_cmpint (size, >, 0);
  g_assert_cmpint (size, <=, 300);
  g_assert_cmpint (cut[size - 1], ==, '\n');
}

static void
reads_more_than_a_buffer_holds (void)
{
  static const char line[] = "00400000-00401000 r-xp 00000000 08:01 7 /bin/x\n";
  sonde_autofd int fd = memfd_create ("maps", MFD_CLOEXEC);
  g_autofree char *text = NULL;
  int64_t size;

  for (guint i = 0; i < 2000; i++)
    g_assert_cmpint (write (fd, line, strlen (line)), ==, (gssize) strlen (line));
  size = sonde_proc_maps_read (fd, 1 << 20, &text);
  g_assert_cmpint (size, ==, (int64_t) (2000 * strlen (line)));
}

static void
says_why_it_cannot_read (void)
{
  sonde_autofd int fd = open ("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  char *text;

  g_assert_cmpint (sonde_proc_maps_read (fd, 1 << 20, &text), ==, -EISDIR);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/proc-maps/reads-a-file-mapping", reads_a_file_mapping);
  g_test_add_func ("/proc-maps/reads-a-mapping-without-a-path", reads_a_mapping_without_a_path);
  g_test_add_func ("/proc-maps/refuses-lines-of-another-form", refuses_lines_of_another_form);
  g_test_add_func ("/proc-maps/goes-on-after-a-bad-line", goes_on_after_a_bad_line);
  g_test_add_func ("/proc-maps/never-reads-past-the-text", never_reads_past_the_text);
  g_test_add_func ("/proc-maps/reads-its-own-maps-whole-and-cut", reads_its_own_maps_whole_and_cut);
  g_test_add_func ("/proc-maps/reads-more-than-a-buffer-holds", reads_more_than_a_buffer_holds);
  g_test_add_func ("/proc-maps/says-why-it-cannot-read", says_why_it_cannot_read);
  return g_test_run ();
}
