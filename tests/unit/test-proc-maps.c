/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of the reader of /proc/PID/maps lines. */
#include "daemon/base/proc-maps.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

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

/* What a process that says this has. */
static SondeProcMapTable *
table_of (const char *text, gsize size_bytes)
{
  sonde_autofd int fd = memfd_create ("maps", MFD_CLOEXEC);
  SondeProcMapTable *table = NULL;

  g_assert_cmpint (write (fd, text, size_bytes), ==, (gssize) size_bytes);
  g_assert_cmpint (sonde_proc_map_table_read (fd, size_bytes + 1, &table), ==, 0);
  return table;
}

static void
finds_files_that_are_run (void)
{
  static const char text[] = "1000-3000 r-xp 00002000 08:01 7 /bin/a\\012b (deleted)\n"
                             "3000-4000 r--p 00004000 08:01 7 /bin/a\n"
                             "4000-5000 r-xp 00000000 00:00 0 [vdso]\n"
                             "rubbish\n"
                             "6000-7000 rwxs 00000000 08:02 9\n"
                             "9000-a000 r-xp 00000000 08:01 8 /lib/c\n";
  SondeProcMapTable *table = table_of (text, strlen (text));
  SondeProcMap map;

  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, 3);
  g_assert_false (sonde_proc_map_table_find (table, 0, &map));
  g_assert_false (sonde_proc_map_table_find (table, 0xfff, &map));
  g_assert_false (sonde_proc_map_table_find (table, 0x3000, &map));
  g_assert_false (sonde_proc_map_table_find (table, 0x4000, &map));
  g_assert_false (sonde_proc_map_table_find (table, 0x8fff, &map));
  g_assert_false (sonde_proc_map_table_find (table, UINT64_MAX, &map));
  g_assert_true (sonde_proc_map_table_find (table, 0x1000, &map));
  g_assert_true (sonde_proc_map_table_find (table, 0x2fff, &map));
  g_assert_cmphex (map.start, ==, 0x1000);
  g_assert_cmphex (map.end, ==, 0x3000);
  g_assert_cmphex (map.offset, ==, 0x2000);
  g_assert_cmpuint (map.inode, ==, 7);
  g_assert_true (map.executable);
  g_assert_cmpstr (map.path, ==, "/bin/a\nb (deleted)");
  g_assert_cmpuint (map.path_len, ==, strlen (map.path));
  g_assert_true (sonde_proc_map_table_find (table, 0x6000, &map));
  g_assert_cmpuint (map.dev_minor, ==, 2);
  g_assert_cmpstr (map.path, ==, "");
  g_assert_true (sonde_proc_map_table_find (table, 0x9fff, &map));
  g_assert_cmpstr (map.path, ==, "/lib/c");
  sonde_proc_map_table_free (table);
  sonde_proc_map_table_free (NULL);
}

static void
keeps_no_order_but_the_kernels (void)
{
  static const char text[] = "5000-9000 r-xp 0 08:01 1 /a\n"
                             "1000-2000 r-xp 0 08:01 2 /b\n"
                             "8000-a000 r-xp 0 08:01 3 /c\n"
                             "9000-b000 r-xp 0 08:01 4 /d\n";
  SondeProcMapTable *table = table_of (text, strlen (text));
  SondeProcMap map;

  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, 2);
  g_assert_false (sonde_proc_map_table_find (table, 0x1000, &map));
  g_assert_true (sonde_proc_map_table_find (table, 0x8000, &map));
  g_assert_cmpuint (map.inode, ==, 1);
  g_assert_true (sonde_proc_map_table_find (table, 0x9000, &map));
  g_assert_cmpuint (map.inode, ==, 4);
  sonde_proc_map_table_free (table);
}

static void
finds_nothing_where_nothing_is (void)
{
  SondeProcMapTable *table = table_of ("", 0);
  SondeProcMap map;

  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, 0);
  g_assert_false (sonde_proc_map_table_find (table, 0, &map));
  sonde_proc_map_table_free (table);
}

static void
keeps_no_more_than_its_bounds (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *name = g_strnfill (1023, 'n');
  const guint n_paths = SONDE_LIMIT_TABLE_PATH_BYTES / 1024;
  SondeProcMapTable *table;
  SondeProcMap map;

  for (guint i = 0; i < SONDE_LIMIT_TABLE_MAPPINGS + 10; i++)
    g_string_append_printf (text, "%x-%x r-xp 0 08:01 7 %s\n", i * 4096, (i + 1) * 4096,
                            i < n_paths + 10 ? name : "/a");
  table = table_of (text->str, text->len);
  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, SONDE_LIMIT_TABLE_MAPPINGS);
  g_assert_false (sonde_proc_map_table_find (table, SONDE_LIMIT_TABLE_MAPPINGS * 4096, &map));
  for (guint i = 0; i < SONDE_LIMIT_TABLE_MAPPINGS; i++)
    {
      g_assert_true (sonde_proc_map_table_find (table, i * 4096 + 5, &map));
      g_assert_cmphex (map.start, ==, i * 4096);
    }
  g_assert_true (sonde_proc_map_table_find (table, (n_paths - 1) * 4096, &map));
  g_assert_cmpstr (map.path, ==, name);
  g_assert_true (sonde_proc_map_table_find (table, n_paths * 4096, &map));
  g_assert_cmpstr (map.path, ==, "");
  sonde_proc_map_table_free (table);
}

/* Resident at most, in bytes. */
static guint64
peak_bytes (void)
{
  g_autofree char *text = NULL;
  const char *line;

  g_assert_true (g_file_get_contents ("/proc/self/status", &text, NULL, NULL));
  line = strstr (text, "\nVmHWM:");
  g_assert_nonnull (line);
  return g_ascii_strtoull (line + strlen ("\nVmHWM:"), NULL, 10) * 1024;
}

/* As many lanes may read as there are uids. */
static void
holds_a_piece_of_a_long_text (void)
{
  sonde_autofd int fd = memfd_create ("maps", MFD_CLOEXEC);
  g_autoptr (GString) lines = g_string_new (NULL);
  SondeProcMapTable *table = NULL;
  guint64 before_bytes;
  SondeProcMap map;
  gsize n_bytes = 0;

  for (guint i = 0; i < 100; i++)
    g_string_append (lines, "1000-2000 rw-p 0 08:01 7 /bin/a\n");
  for (; n_bytes + lines->len < SONDE_LIMIT_MAPS_BYTES - 100; n_bytes += lines->len)
    g_assert_cmpint (write (fd, lines->str, lines->len), ==, (gssize) lines->len);
  g_string_assign (lines, "3000-4000 r-xp 0 08:01 8 /bin/b\n");
  g_assert_cmpint (write (fd, lines->str, lines->len), ==, (gssize) lines->len);
  before_bytes = peak_bytes ();
  g_assert_cmpint (sonde_proc_map_table_read (fd, SONDE_LIMIT_MAPS_BYTES, &table), ==, 0);
  g_assert_cmpuint (peak_bytes () - before_bytes, <, SONDE_LIMIT_MAPS_BYTES / 4);
  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, 1);
  g_assert_true (sonde_proc_map_table_find (table, 0x3000, &map));
  g_assert_cmpstr (map.path, ==, "/bin/b");
  sonde_proc_map_table_free (table);
}

static void
takes_a_line_of_many_pieces (void)
{
  g_autofree char *name = g_strnfill (3 * SONDE_LIMIT_MAPS_PIECE_BYTES, 'n');
  g_autofree char *text = g_strdup_printf ("1000-2000 r-xp 0 08:01 7 /%s\n"
                                           "3000-4000 r-xp 0 08:01 8 /bin/b\n"
                                           "5000-6000 r-xp 0 08:01 9 /%s",
                                           name, name);
  SondeProcMapTable *table = table_of (text, strlen (text));
  SondeProcMap map;

  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, 3);
  g_assert_true (sonde_proc_map_table_find (table, 0x1000, &map));
  g_assert_cmpstr (map.path, ==, "");
  g_assert_true (sonde_proc_map_table_find (table, 0x3000, &map));
  g_assert_cmpstr (map.path, ==, "/bin/b");
  g_assert_true (sonde_proc_map_table_find (table, 0x5000, &map));
  g_assert_cmpuint (map.inode, ==, 9);
  sonde_proc_map_table_free (table);
}

static void
takes_no_half_line_at_its_bound (void)
{
  static const char text[] = "1000-2000 r-xp 0 08:01 7 /a\n3000-4000 r-xp 0 08:01 88 /b\n";
  sonde_autofd int fd = memfd_create ("maps", MFD_CLOEXEC);
  SondeProcMapTable *table = NULL;

  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  g_assert_cmpint (sonde_proc_map_table_read (fd, strlen (text) - 5, &table), ==, 0);
  g_assert_cmpuint (sonde_proc_map_table_size (table), ==, 1);
  sonde_proc_map_table_free (table);
}

/* A kernel that cannot be asked says the same as a file that is no maps. */
static void
knows_what_cannot_be_asked (void)
{
  sonde_autofd int fd = memfd_create ("maps", MFD_CLOEXEC);
  SondeProcMap map;

  g_assert_cmpint (sonde_proc_maps_query (fd, 0, NULL, 0, &map), ==, -EOPNOTSUPP);
  g_assert_cmpint (sonde_proc_maps_query (-1, 0, NULL, 0, &map), ==, -EBADF);
}

/* Whatever the text says, the kernel says when it is asked. */
static void
asks_for_what_the_text_says (void)
{
  sonde_autofd int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  g_autofree char *text = NULL;
  const char *rest;
  char name[4096];
  char tiny[2];
  size_t left;
  guint n_asked = 0;
  SondeProcMapTable *table = NULL;
  SondeProcMap said;
  SondeProcMap map;

  if (sonde_proc_maps_query (fd, 0, NULL, 0, &map) == -EOPNOTSUPP)
    {
      g_test_skip ("this kernel cannot be asked for a mapping");
      return;
    }
  g_assert_cmpint (sonde_proc_maps_query (fd, 1, NULL, 0, &map), ==, 0);
  left = (size_t) sonde_proc_maps_read (fd, 1 << 20, &text);
  rest = text;
  g_assert_cmpint (sonde_proc_map_table_read (fd, 1 << 20, &table), ==, 0);
  while (sonde_proc_maps_next (&rest, &left, &said) == 1)
    {
      SondeProcMap found;
      gboolean is_found;

      if (said.inode == 0)
        continue;
      g_assert_cmpint (sonde_proc_maps_query (fd, said.end - 1, name, sizeof name, &map), ==, 1);
      g_assert_cmphex (map.start, ==, said.start);
      g_assert_cmphex (map.end, ==, said.end);
      g_assert_cmphex (map.offset, ==, said.offset);
      g_assert_cmpuint (map.inode, ==, said.inode);
      g_assert_cmpuint (map.dev_major, ==, said.dev_major);
      g_assert_cmpuint (map.dev_minor, ==, said.dev_minor);
      g_assert_cmpint (map.executable, ==, said.executable);
      g_assert_cmpmem (map.path, map.path_len, said.path, said.path_len);
      g_assert_cmpint (sonde_proc_maps_query (fd, said.start, tiny, sizeof tiny, &map), ==,
                       -ENAMETOOLONG);
      g_assert_cmpint (sonde_proc_maps_query (fd, said.start, NULL, 0, &map), ==, 1);
      g_assert_cmpstr (map.path, ==, "");
      is_found = sonde_proc_map_table_find (table, said.start, &found);
      g_assert_cmpint (is_found, ==, said.executable);
      n_asked++;
    }
  g_assert_cmpuint (n_asked, >, 3);
  sonde_proc_map_table_free (table);
}

/* An address space that is gone. */
static void
asks_nothing_of_who_has_gone (void)
{
  pid_t pid = fork ();
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  sonde_autofd int fd = -1;
  SondeProcMapTable *table = NULL;
  SondeProcMap map;
  int result;

  if (pid == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      pause ();
      _exit (0);
    }
  fd = open (path, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (fd, >=, 0);
  kill (pid, SIGKILL);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
  result = sonde_proc_maps_query (fd, 0, NULL, 0, &map);
  g_assert_true (result == -ESRCH || result == -EOPNOTSUPP);
  /* It is gone with its process; after an exec the text would be empty. */
  g_assert_cmpint (sonde_proc_map_table_read (fd, 1 << 20, &table), ==, -ESRCH);
  g_assert_null (table);
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
  g_test_add_func ("/proc-maps/holds-a-piece-of-a-long-text", holds_a_piece_of_a_long_text);
  g_test_add_func ("/proc-maps/takes-a-line-of-many-pieces", takes_a_line_of_many_pieces);
  g_test_add_func ("/proc-maps/takes-no-half-line-at-its-bound", takes_no_half_line_at_its_bound);
  g_test_add_func ("/proc-maps/reads-a-file-mapping", reads_a_file_mapping);
  g_test_add_func ("/proc-maps/reads-a-mapping-without-a-path", reads_a_mapping_without_a_path);
  g_test_add_func ("/proc-maps/refuses-lines-of-another-form", refuses_lines_of_another_form);
  g_test_add_func ("/proc-maps/goes-on-after-a-bad-line", goes_on_after_a_bad_line);
  g_test_add_func ("/proc-maps/never-reads-past-the-text", never_reads_past_the_text);
  g_test_add_func ("/proc-maps/reads-its-own-maps-whole-and-cut", reads_its_own_maps_whole_and_cut);
  g_test_add_func ("/proc-maps/reads-more-than-a-buffer-holds", reads_more_than_a_buffer_holds);
  g_test_add_func ("/proc-maps/says-why-it-cannot-read", says_why_it_cannot_read);
  g_test_add_func ("/proc-maps/table/finds-files-that-are-run", finds_files_that_are_run);
  g_test_add_func ("/proc-maps/table/keeps-no-order-but-the-kernels",
                   keeps_no_order_but_the_kernels);
  g_test_add_func ("/proc-maps/table/finds-nothing-where-nothing-is",
                   finds_nothing_where_nothing_is);
  g_test_add_func ("/proc-maps/table/keeps-no-more-than-its-bounds", keeps_no_more_than_its_bounds);
  g_test_add_func ("/proc-maps/query/knows-what-cannot-be-asked", knows_what_cannot_be_asked);
  g_test_add_func ("/proc-maps/query/asks-nothing-of-who-has-gone", asks_nothing_of_who_has_gone);
  g_test_add_func ("/proc-maps/query/asks-for-what-the-text-says", asks_for_what_the_text_says);
  return g_test_run ();
}
