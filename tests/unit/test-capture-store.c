/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The thread of the capture files: what it is asked, it answers in the main loop, in order. */
#include "daemon/control/session/capture-store.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"

typedef struct
{
  char *directory;
  SondeSettings settings;
  SondeCaptureStore *store;
} Fixture;

typedef struct
{
  guint n_answers;
  int fd;
  char *path;
  guint n_captures;
  GError *error;
} Answer;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->directory = g_dir_make_tmp ("sonde-store-XXXXXX", NULL);
  sonde_settings_init (&fixture->settings);
  fixture->store = sonde_capture_store_new (fixture->directory, &fixture->settings, NULL);
  g_assert_nonnull (fixture->store);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  g_autofree char *command = g_strdup_printf ("rm -r '%s'", fixture->directory);

  sonde_capture_store_free (fixture->store);
  g_assert_cmpint (system (command), ==, 0);
  g_free (fixture->directory);
}

static void
on_answer (SondeStoreAnswer *given, const GError *error, gpointer user_data)
{
  Answer *answer = user_data;

  answer->n_answers++;
  answer->fd = sonde_steal_fd (&given->fd);
  g_free (answer->path);
  answer->path = g_steal_pointer (&given->path);
  answer->n_captures = given->captures != NULL ? given->captures->len : 0;
  answer->error = error != NULL ? g_error_copy (error) : NULL;
}

static void
wait_for (Answer *answer)
{
  while (answer->n_answers == 0)
    g_main_context_iteration (NULL, TRUE);
}

static void
answer_clear (Answer *answer)
{
  sonde_clear_fd (&answer->fd);
  g_clear_pointer (&answer->path, g_free);
  g_clear_error (&answer->error);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Answer, answer_clear)

#define ANSWER_INIT                                                                                \
  {                                                                                                \
    .fd = -1                                                                                       \
  }

static void
test_life (Fixture *fixture, gconstpointer data)
{
  g_auto (Answer) created = ANSWER_INIT;
  g_auto (Answer) again = ANSWER_INIT;
  g_auto (Answer) listed = ANSWER_INIT;
  g_auto (Answer) removed = ANSWER_INIT;
  g_auto (Answer) gone = ANSWER_INIT;
  g_autofree char *name = NULL;

  sonde_capture_store_ask (fixture->store, SONDE_STORE_CREATE, 7, "label", 1, on_answer, &created);
  g_assert_cmpuint (created.n_answers, ==, 0);
  wait_for (&created);
  g_assert_no_error (created.error);
  g_assert_cmpint (write (created.fd, "x", 1), ==, 1);
  sonde_capture_store_complete (fixture->store, 7, created.path);
  sonde_capture_store_release (fixture->store, created.path);
  sonde_capture_store_ask (fixture->store, SONDE_STORE_REOPEN, 7, created.path, 0, on_answer,
                           &again);
  sonde_capture_store_ask (fixture->store, SONDE_STORE_LIST, 7, NULL, 0, on_answer, &listed);
  wait_for (&listed);
  g_assert_cmpint (again.fd, >=, 0);
  g_assert_cmpuint (listed.n_captures, ==, 1);
  name = g_path_get_basename (created.path);
  sonde_capture_store_ask (fixture->store, SONDE_STORE_REMOVE, 7, name, 0, on_answer, &removed);
  sonde_capture_store_ask (fixture->store, SONDE_STORE_OPEN_STORED, 7, name, 0, on_answer, &gone);
  wait_for (&gone);
  g_assert_no_error (removed.error);
  g_assert_error (gone.error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_SESSION);
}

static void
test_cancel (Fixture *fixture, gconstpointer data)
{
  g_auto (Answer) created = ANSWER_INIT;
  g_auto (Answer) listed = ANSWER_INIT;

  for (guint i = 1; i <= 20; i++)
    {
      SondeStoreRequest *request = sonde_capture_store_ask (fixture->store, SONDE_STORE_CREATE, 7,
                                                            "label", i, on_answer, &created);

      if (i % 2 == 0)
        g_usleep (1000);
      sonde_store_request_cancel (request);
    }
  sonde_capture_store_ask (fixture->store, SONDE_STORE_LIST, 7, NULL, 0, on_answer, &listed);
  wait_for (&listed);
  listed.n_answers = 0;
  sonde_capture_store_ask (fixture->store, SONDE_STORE_LIST, 7, NULL, 0, on_answer, &listed);
  wait_for (&listed);
  g_assert_cmpuint (created.n_answers, ==, 0);
  g_assert_cmpuint (listed.n_captures, ==, 0);
}

static void
test_end (Fixture *fixture, gconstpointer data)
{
  g_auto (Answer) listed = ANSWER_INIT;

  sonde_capture_store_ask (fixture->store, SONDE_STORE_LIST, 7, NULL, 0, on_answer, &listed);
  g_clear_pointer (&fixture->store, sonde_capture_store_free);
  g_assert_cmpuint (listed.n_answers, ==, 1);
  g_assert_error (listed.error, SONDE_ERROR, SONDE_ERROR_FAILED);
}

static void
test_no_directory (void)
{
  g_autoptr (GError) error = NULL;
  SondeSettings settings;

  sonde_settings_init (&settings);
  g_assert_null (sonde_capture_store_new ("/nonexistent/sonde", &settings, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/capture-store/answers-in-the-main-loop", Fixture, NULL, set_up, test_life,
              tear_down);
  g_test_add ("/capture-store/removes-a-file-that-nobody-wants", Fixture, NULL, set_up, test_cancel,
              tear_down);
  g_test_add ("/capture-store/fails-at-its-end-what-is-not-answered", Fixture, NULL, set_up,
              test_end, tear_down);
  g_test_add_func ("/capture-store/knows-at-once-that-there-is-no-directory", test_no_directory);
  return g_test_run ();
}
