/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which files a worker gets that somebody else has taken over: programs that its targets run, and
 * nothing else that anybody has mapped. This program is the worker, too, and the target. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bus/hostile-worker.h"
#include "tests/lib/bus-user.h"

#define SECRET "root's own, and no program\n"

/* A mapped file of root's, which nobody else may read. */
typedef struct
{
  char *path;
  void *pages;
  gsize size_bytes;
} Mapped;

static void
mapped_init (Mapped *self, const char *content, gsize n_bytes, int protection)
{
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("sonde-secret-XXXXXX", &self->path, &error);

  g_assert_no_error (error);
  g_assert_cmpint (write (fd, content, n_bytes), ==, (gssize) n_bytes);
  self->size_bytes = n_bytes;
  self->pages = mmap (NULL, n_bytes, protection, MAP_SHARED, fd, 0);
  g_assert_true (self->pages != MAP_FAILED);
  close (fd);
}

static void
mapped_clear (Mapped *self)
{
  munmap (self->pages, self->size_bytes);
  unlink (self->path);
  g_free (self->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Mapped, mapped_clear)

/* What the worker asks for: of the mapping of @pid at @address. */
static void
add_mapping (GString *requests, pid_t pid, const void *address)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      unsigned long start, end, offset, inode;
      unsigned major, minor;

      if (sscanf (lines[i], "%lx-%lx %*s %lx %x:%x %lu", &start, &end, &offset, &major, &minor,
                  &inode)
              == 6
          && (gsize) address >= start && (gsize) address < end)
        {
          g_string_append_printf (requests, "%d %lx %lx %x:%x %lu\n", (int) pid, start, offset,
                                  major, minor, inode);
          return;
        }
    }
  g_error ("process %d has nothing mapped at %p", (int) pid, address);
}

/* The first one that it runs. */
static void
add_program (GString *requests, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  guint i = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  while (strstr (lines[i], " r-xp ") == NULL)
    i++;
  add_mapping (requests, pid, (const void *) g_ascii_strtoull (lines[i], NULL, 16));
}

/* Of root's session: @scope and what makes it the worker that asks. */
static void
assert_gets (const GString *requests, const char *scope, const char *files)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autofree char *options = g_strdup_printf (
      "{%s, 'event': <'cpu-clock'>, 'frequency': <uint32 %d>}", scope, HOSTILE_ASK_MAPPINGS);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autofree char *reason = NULL;
  int capture = -1;

  g_assert_true (g_file_set_contents (HOSTILE_MAPPING_FILE, requests->str, -1, NULL));
  bus_assert_answers (bus);
  bus_profile (bus, g_variant_new_parsed (options), NULL, &session, &capture, &error);
  g_assert_no_error (error);
  reason = bus_wait_finished (bus, session);
  close (capture);
  g_assert_cmpstr (reason, ==, files);
}

static char *
own_pid (void)
{
  return g_strdup_printf ("'pids': <[uint32 %d]>", (int) getpid ());
}

static void
test_program (void)
{
  g_autoptr (GString) requests = g_string_new (NULL);
  g_autofree char *scope = own_pid ();

  add_mapping (requests, getpid (), (const void *) (gsize) &test_program);
  assert_gets (requests, scope, "files: y");
}

static void
test_data (void)
{
  g_autoptr (GString) requests = g_string_new (NULL);
  g_autofree char *scope = own_pid ();
  g_autofree char *program = NULL;
  g_auto (Mapped) written = { 0 };
  g_auto (Mapped) read = { 0 };
  gsize n_bytes;

  g_assert_true (g_file_get_contents ("/proc/self/exe", &program, &n_bytes, NULL));
  mapped_init (&written, SECRET, strlen (SECRET), PROT_READ | PROT_WRITE);
  mapped_init (&read, program, n_bytes, PROT_READ); /* but nobody runs it */
  add_mapping (requests, getpid (), written.pages);
  add_mapping (requests, getpid (), read.pages);
  assert_gets (requests, scope, "files: nn");
}

static void
test_no_program (void)
{
  g_autoptr (GString) requests = g_string_new (NULL);
  g_autofree char *scope = own_pid ();
  g_auto (Mapped) text = { 0 };
  g_auto (Mapped) magic = { 0 };

  mapped_init (&text, SECRET, strlen (SECRET), PROT_READ | PROT_EXEC);
  mapped_init (&magic, "\177ELF", 4, PROT_READ | PROT_EXEC); /* no header behind it */
  add_mapping (requests, getpid (), text.pages);
  add_mapping (requests, getpid (), magic.pages);
  assert_gets (requests, scope, "files: nn");
}

/* A copy of us that was made before the session follows us. */
static void
test_others (void)
{
  g_autoptr (GString) requests = g_string_new (NULL);
  g_autofree char *scope = own_pid ();
  g_auto (BusUser) other = { 0 };

  bus_user_init (&other, BUS_CHILD_WAIT);
  add_program (requests, other.target);
  /* The start of a process is told in ticks. */
  g_usleep (2 * G_USEC_PER_SEC / (gulong) sysconf (_SC_CLK_TCK));
  assert_gets (requests, scope, "files: n");
}

static void
test_system (void)
{
  g_autoptr (GString) requests = g_string_new (NULL);
  g_auto (Mapped) written = { 0 };
  g_auto (Mapped) text = { 0 };

  mapped_init (&written, SECRET, strlen (SECRET), PROT_READ | PROT_WRITE);
  mapped_init (&text, SECRET, strlen (SECRET), PROT_READ | PROT_EXEC);
  add_mapping (requests, getpid (), written.pages);
  add_mapping (requests, getpid (), text.pages);
  assert_gets (requests, "'system': <true>", "files: nn");
}

int
main (int argc, char **argv)
{
  if (argc >= 2 && g_str_equal (argv[1], "--fd=3"))
    hostile_worker_main ();
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/hostile-files/" path, function)
  ADD ("refuses-what-is-mapped-and-not-run", test_data);
  ADD ("refuses-what-is-run-and-no-program", test_no_program);
  ADD ("refuses-both-to-a-session-of-the-whole-machine", test_system);
  ADD ("refuses-files-of-other-processes", test_others);
  ADD ("gives-the-programs-of-targets", test_program);
#undef ADD
  return g_test_run ();
}
