/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The outputs that a command can write to. */
#include "client/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct
{
  char *folder;
  char *path; /* in it */
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  self->folder = g_dir_make_tmp ("sonde-test-XXXXXX", NULL);
  self->path = g_build_filename (self->folder, "x", NULL);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  g_autofree char *command = g_strdup_printf ("rm -r %s", self->folder);

  g_assert_cmpint (system (command), ==, 0);
  g_free (self->path);
  g_free (self->folder);
}

static char *
in_folder (const Fixture *self, const char *name)
{
  return g_build_filename (self->folder, name, NULL);
}

static guint
count_files (const Fixture *self)
{
  g_autoptr (GDir) folder = g_dir_open (self->folder, 0, NULL);
  guint n = 0;

  while (g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

static void
put (const char *path, const char *content)
{
  g_autoptr (GString) text = g_string_new (content);
  g_autoptr (GError) error = NULL;

  sonde_output_put (path, text, &error);
  g_assert_no_error (error);
}

static void
assert_content (const char *path, const char *expected)
{
  g_autofree char *content = NULL;

  g_assert_true (g_file_get_contents (path, &content, NULL, NULL));
  g_assert_cmpstr (content, ==, expected);
}

static mode_t
mode_of (const char *path)
{
  struct stat st;

  g_assert_cmpint (lstat (path, &st), ==, 0);
  return st.st_mode;
}

static void
assert_refused (const char *path, SondeOutputKind kind, GFileError code)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeOutput) output = sonde_output_open (path, kind, &error);

  g_assert_null (output);
  g_assert_error (error, G_FILE_ERROR, (int) code);
  g_assert_nonnull (strstr (error->message, path));
}

static void
what_cannot_be_written_is_refused_by_its_name (Fixture *self, gconstpointer data)
{
  g_autofree char *nowhere = in_folder (self, "none/x");
  g_autofree char *slash = in_folder (self, "none/");
  g_autofree char *loop = in_folder (self, "loop");

  g_assert_cmpint (symlink (loop, loop), ==, 0);
  for (SondeOutputKind kind = SONDE_OUTPUT_WHOLE; kind <= SONDE_OUTPUT_IN_PLACE; kind++)
    {
      assert_refused (self->folder, kind, G_FILE_ERROR_ISDIR);
      assert_refused (nowhere, kind, G_FILE_ERROR_NOENT);
      assert_refused (slash, kind, G_FILE_ERROR_ISDIR);
      assert_refused (loop, kind, G_FILE_ERROR_LOOP);
    }
  put (self->path, "old");
  assert_refused (self->path, SONDE_OUTPUT_NEW, G_FILE_ERROR_EXIST);
  assert_content (self->path, "old");
}

static void
a_file_is_replaced_when_the_new_one_is_whole (Fixture *self, gconstpointer data)
{
  g_autoptr (SondeOutput) output = NULL;

  put (self->path, "old");
  g_assert_cmpint (chmod (self->path, 0640), ==, 0);
  output = sonde_output_open (self->path, SONDE_OUTPUT_WHOLE, NULL);
  g_assert_true (sonde_output_is_file (output));
  g_assert_true (sonde_output_write (output, "new", 3, NULL));
  assert_content (self->path, "old");
  g_assert_true (sonde_output_close (output, NULL));
  assert_content (self->path, "new");
  g_assert_cmpint (mode_of (self->path), ==, S_IFREG | 0640);
  g_assert_cmpuint (count_files (self), ==, 1);
}

static void
a_new_file_has_the_mode_that_the_user_wants (Fixture *self, gconstpointer data)
{
  mode_t old = umask (027);

  put (self->path, "new");
  umask (old);
  g_assert_cmpint (mode_of (self->path), ==, S_IFREG | 0640);
}

static void
what_is_not_closed_leaves_nothing (Fixture *self, gconstpointer data)
{
  for (SondeOutputKind kind = SONDE_OUTPUT_WHOLE; kind <= SONDE_OUTPUT_NEW; kind++)
    {
      SondeOutput *output = sonde_output_open (self->path, kind, NULL);

      g_assert_true (sonde_output_write (output, "half", 4, NULL));
      sonde_output_free (output);
      g_assert_cmpuint (count_files (self), ==, 0);
    }
}

static void
a_signal_leaves_what_was_there (Fixture *self, gconstpointer data)
{
  static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

  put (self->path, "old");
  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    {
      pid_t pid = fork ();
      int status;

      if (pid == 0)
        {
          SondeOutput *output;

          signal (signals[i], SIG_DFL);
          output = sonde_output_open (self->path, SONDE_OUTPUT_WHOLE, NULL);
          sonde_output_write (output, "half", 4, NULL);
          if (count_files (self) == 2)
            raise (signals[i]);
          _exit (1);
        }
      g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
      g_assert_true (WIFSIGNALED (status) && WTERMSIG (status) == signals[i]);
      g_assert_cmpuint (count_files (self), ==, 1);
      assert_content (self->path, "old");
    }
}

static void
links_are_followed_and_stay (Fixture *self, gconstpointer data)
{
  g_autofree char *first = in_folder (self, "first");
  g_autofree char *second = in_folder (self, "second");

  g_assert_cmpint (symlink ("second", first), ==, 0);
  g_assert_cmpint (symlink (self->path, second), ==, 0);
  for (guint i = 0; i < 2; i++) /* first the links lead nowhere */
    {
      put (first, i == 0 ? "made" : "replaced");
      g_assert_true (S_ISLNK (mode_of (first)) && S_ISLNK (mode_of (second)));
      g_assert_true (S_ISREG (mode_of (self->path)));
      assert_content (self->path, i == 0 ? "made" : "replaced");
      g_assert_cmpuint (count_files (self), ==, 3);
    }
  g_assert_cmpint (unlink (self->path), ==, 0);
  sonde_output_free (sonde_output_open (first, SONDE_OUTPUT_IN_PLACE, NULL));
  g_assert_cmpuint (count_files (self), ==, 2);
}

static void
a_file_without_a_name_is_written_through (Fixture *self, gconstpointer data)
{
  int fd = open (self->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  g_autofree char *link = g_strdup_printf ("/proc/self/fd/%d", fd);
  char content[8] = "";

  g_assert_cmpint (write (fd, "older", 5), ==, 5);
  unlink (self->path);
  put (link, "new");
  g_assert_cmpint (pread (fd, content, sizeof content, 0), ==, 3);
  g_assert_cmpstr (content, ==, "new");
  g_assert_cmpuint (count_files (self), ==, 0);
  close (fd);
}

static void
fifos_and_sockets_are_written_through (Fixture *self, gconstpointer data)
{
  g_autofree char *socket_path = in_folder (self, "socket");
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int reader, client;
  char content[8] = "";

  g_assert_cmpint (mkfifo (self->path, 0600), ==, 0);
  reader = open (self->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  g_strlcpy (address.sun_path, socket_path, sizeof address.sun_path);
  g_assert_cmpint (bind (listener, (struct sockaddr *) &address, sizeof address), ==, 0);
  g_assert_cmpint (listen (listener, 4), ==, 0);
  for (SondeOutputKind kind = SONDE_OUTPUT_WHOLE; kind <= SONDE_OUTPUT_IN_PLACE; kind++)
    {
      const char *const paths[] = { self->path, socket_path };

      for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
        {
          g_autoptr (SondeOutput) output = sonde_output_open (paths[i], kind, NULL);

          g_assert_false (sonde_output_is_file (output));
          g_assert_true (sonde_output_write (output, "text", 4, NULL));
          g_assert_true (sonde_output_close (output, NULL));
        }
      g_assert_cmpint (read (reader, content, sizeof content), ==, 4);
      client = accept (listener, NULL, NULL);
      g_assert_cmpint (read (client, content, sizeof content), ==, 4);
      close (client);
    }
  g_assert_true (S_ISFIFO (mode_of (self->path)) && S_ISSOCK (mode_of (socket_path)));
  close (reader);
  close (listener);
}

static void
what_is_in_place_keeps_an_older_content_until_it_is_written (Fixture *self, gconstpointer data)
{
  SondeOutput *output;

  put (self->path, "old");
  output = sonde_output_open (self->path, SONDE_OUTPUT_IN_PLACE, NULL);
  assert_content (self->path, "old");
  sonde_output_free (output);
  assert_content (self->path, "old");
}

int
main (int argc, char **argv)
{
#define ADD_CASE(name, test) g_test_add ("/output/" name, Fixture, NULL, set_up, test, tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD_CASE ("what-cannot-be-written-is-refused-by-its-name",
            what_cannot_be_written_is_refused_by_its_name);
  ADD_CASE ("a-file-is-replaced-when-the-new-one-is-whole",
            a_file_is_replaced_when_the_new_one_is_whole);
  ADD_CASE ("a-new-file-has-the-mode-that-the-user-wants",
            a_new_file_has_the_mode_that_the_user_wants);
  ADD_CASE ("what-is-not-closed-leaves-nothing", what_is_not_closed_leaves_nothing);
  ADD_CASE ("a-signal-leaves-what-was-there", a_signal_leaves_what_was_there);
  ADD_CASE ("links-are-followed-and-stay", links_are_followed_and_stay);
  ADD_CASE ("a-file-without-a-name-is-written-through", a_file_without_a_name_is_written_through);
  ADD_CASE ("fifos-and-sockets-are-written-through", fifos_and_sockets_are_written_through);
  ADD_CASE ("what-is-in-place-keeps-an-older-content-until-it-is-written",
            what_is_in_place_keeps_an_older_content_until_it_is_written);
  return g_test_run ();
}
