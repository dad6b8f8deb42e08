/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Marks that an owner may not see, looked for in every byte that he gets. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/capture-summary.h"

#define CHILD_NAME "redaction-child"

/* --- the program that is profiled: redaction-child closes|stays, with a file as its input --- */

static volatile sig_atomic_t is_told;

static void
on_told (int signum)
{
  is_told = 1;
}

static void
spin_until_told (void)
{
  while (!is_told)
    ;
}

/* Maps its input as code when it is told, and reports that; then spins on. */
static void
child_main (int argc, char **argv)
{
  if (argc != 2 || !g_str_equal (argv[0], CHILD_NAME))
    return;
  signal (SIGUSR1, on_told);
  if (write (STDOUT_FILENO, "x", 1) != 1)
    _exit (1);
  spin_until_told ();
  if (g_str_equal (argv[1], "closes") && prctl (PR_SET_DUMPABLE, 0) < 0)
    _exit (1);
  if (mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, STDIN_FILENO, 0) == MAP_FAILED
      || write (STDOUT_FILENO, "x", 1) != 1)
    _exit (1);
  is_told = 0;
  spin_until_told ();
  _exit (0);
}

typedef struct
{
  pid_t pid;
  int output;
} Child;

static void
wait_for_report (const Child *child)
{
  char byte;

  g_assert_cmpint (read (child->output, &byte, 1), ==, 1);
}

/* @path: not among its arguments, which are told; @has_mounts: in a mount namespace of its own */
static Child
spawn (uid_t uid, const char *what, const char *path, gboolean has_mounts)
{
  Child child;
  int fds[2];

  g_assert_cmpint (pipe2 (fds, O_CLOEXEC), ==, 0);
  child.pid = fork ();
  g_assert_cmpint (child.pid, >=, 0);
  if (child.pid == 0)
    {
      dup2 (open (path, O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      dup2 (fds[1], STDOUT_FILENO);
      if ((!has_mounts || unshare (CLONE_NEWNS) == 0) && setresgid (uid, uid, uid) == 0
          && setresuid (uid, uid, uid) == 0 && prctl (PR_SET_PDEATHSIG, SIGKILL) == 0)
        execl ("/proc/self/exe", CHILD_NAME, what, NULL);
      _exit (127);
    }
  close (fds[1]);
  child.output = fds[0];
  wait_for_report (&child);
  return child;
}

static void
end_child (Child *child)
{
  bus_end (child->pid, SIGKILL);
  close (child->output);
}

/* --- sessions --- */

typedef struct
{
  GDBusConnection *bus;
  char *session;
  int capture;
} Session;

static void
session_clear (Session *self)
{
  g_clear_object (&self->bus);
  g_free (self->session);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Session, session_clear)

typedef struct
{
  const Session *session;
  guint64 wanted;
} Progress;

static guint64
count_recorded (const Session *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) statistics
      = bus_session_get (self->bus, self->session, "Statistics", &error);
  guint64 n_recorded = 0;

  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (statistics, "recorded", "t", &n_recorded));
  return n_recorded;
}

static gboolean
has_progressed (gpointer user_data)
{
  const Progress *progress = user_data;

  return count_recorded (progress->session) >= progress->wanted;
}

static void
wait_for_samples (const Session *self)
{
  Progress progress = { self, count_recorded (self) + 100 };

  bus_wait (has_progressed, &progress, "more samples");
}

static GByteArray *
stop_and_read (Session *self)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint8 piece[65536];
  gssize n;

  g_variant_unref (bus_stop (self->bus, self->session));
  fcntl (self->capture, F_SETFL, fcntl (self->capture, F_GETFL) & ~O_NONBLOCK);
  while ((n = read (self->capture, piece, sizeof piece)) > 0)
    g_byte_array_append (bytes, piece, (guint) n);
  g_assert_cmpint (n, ==, 0);
  close (self->capture);
  return g_steal_pointer (&bytes);
}

static gboolean
holds (const GByteArray *bytes, const char *text)
{
  return memmem (bytes->data, bytes->len, text, strlen (text)) != NULL;
}

static char *
make_mark (void)
{
  return g_strdup_printf ("mark-%08x%08x%08x%08x", g_random_int (), g_random_int (),
                          g_random_int (), g_random_int ());
}

/* --- cases --- */

/* Whether the name of a file that the program maps is in the owner's capture. */
static gboolean
tells_of_mapping (const char *what)
{
  uid_t uid = bus_next_uid ();
  g_auto (Session) session = { .bus = bus_connect (uid) };
  g_autofree char *mark = make_mark ();
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), mark, NULL);
  g_autoptr (GByteArray) bytes = NULL;
  Child child;

  g_assert_true (g_file_set_contents (path, mark, -1, NULL));
  g_assert_cmpint (chmod (path, 0644), ==, 0);
  child = spawn (uid, what, path, FALSE);
  bus_profile_pid (session.bus, child.pid, NULL, &session.session, &session.capture);
  wait_for_samples (&session);
  kill (child.pid, SIGUSR1);
  wait_for_report (&child);
  wait_for_samples (&session);
  bytes = stop_and_read (&session);
  end_child (&child);
  unlink (path);
  /* What it knew before: the program's own file. */
  g_assert_true (holds (bytes, "test-visibility"));
  return holds (bytes, mark);
}

static void
test_own_mappings (void)
{
  g_assert_true (tells_of_mapping ("stays"));
}

static void
test_closed_mappings (void)
{
  g_assert_false (tells_of_mapping ("closes"));
}

/* A mount that sonded sees and the target does not. */
static void
test_mounts (void)
{
  uid_t uid = bus_next_uid ();
  g_auto (Session) session = { .bus = bus_connect (uid) };
  g_autofree char *mark = make_mark ();
  g_autofree char *path = g_build_filename ("/mnt", mark, NULL);
  g_autoptr (GByteArray) bytes = NULL;
  Child child = spawn (uid, "stays", "/dev/null", TRUE);

  g_assert_cmpint (mkdir (path, 0755), ==, 0);
  g_assert_cmpint (mount ("tmpfs", path, "tmpfs", 0, NULL), ==, 0);
  bus_profile_pid (session.bus, child.pid, NULL, &session.session, &session.capture);
  wait_for_samples (&session);
  bytes = stop_and_read (&session);
  g_assert_cmpint (umount (path), ==, 0);
  rmdir (path);
  end_child (&child);
  g_assert_true (holds (bytes, "/proc/mounts"));
  g_assert_true (holds (bytes, "private-bus /mnt tmpfs"));
  g_assert_false (holds (bytes, mark));
}

/* Where x86_64 has its kernel and modules; the words above are context markers and -1s. */
#define KERNEL_BEGIN G_GUINT64_CONSTANT (0xffffffff80000000)
#define KERNEL_END   G_GUINT64_CONSTANT (0xffffffffff000000)

static void
test_kernel_addresses (void)
{
  uid_t uid = bus_next_uid ();
  g_auto (Session) session = { .bus = bus_connect (uid) };
  g_autoptr (GByteArray) bytes = NULL;
  Child child = spawn (uid, "stays", "/dev/null", FALSE);
  guint n_found = 0;

  bus_profile_pid (session.bus, child.pid, NULL, &session.session, &session.capture);
  wait_for_samples (&session);
  bytes = stop_and_read (&session);
  end_child (&child);
  for (gsize at = 0; at + 8 <= bytes->len; at += 8)
    {
      guint64 word;

      memcpy (&word, bytes->data + at, sizeof word);
      n_found += word >= KERNEL_BEGIN && word < KERNEL_END;
    }
  g_assert_cmpuint (n_found, ==, 0);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/visibility/own-mappings-are-told", test_own_mappings);
  g_test_add_func ("/visibility/mappings-of-a-process-that-closed-itself-are-not",
                   test_closed_mappings);
  g_test_add_func ("/visibility/mounts-are-the-target-s", test_mounts);
  g_test_add_func ("/visibility/kernel-addresses-are-in-no-word", test_kernel_addresses);
  return g_test_run ();
}
