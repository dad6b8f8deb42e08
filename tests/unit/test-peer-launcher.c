/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The uids that workers get. */
#include "daemon/control/peer/peer-launcher.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/error.h"

#define NOBODY 65534

static const SondePeerPlace places[SONDE_PEER_N_KINDS]
    = { [SONDE_PEER_BROKER] = { .socket_path = "/nowhere/broker" },
        [SONDE_PEER_CAPTURE] = { .path = "/worker" } };

static gboolean
skip_unless_root (void)
{
  if (geteuid () == 0)
    return FALSE;
  g_test_skip ("needs root");
  return TRUE;
}

static uid_t
take (SondePeerLauncher *launcher)
{
  g_autoptr (GError) error = NULL;
  uid_t uid = 0;

  g_assert_true (sonde_peer_launcher_take_uid (launcher, &uid, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (uid, >=, SONDE_WORKER_UID_FIRST);
  g_assert_cmpuint (uid, <, SONDE_WORKER_UID_FIRST + SONDE_WORKER_N_UIDS);
  return uid;
}

/* Each uid that no worker of another daemon has at this moment, until the launcher refuses. */
static GHashTable *
take_all (SondePeerLauncher *launcher)
{
  GHashTable *taken = g_hash_table_new (NULL, NULL);
  g_autoptr (GError) error = NULL;
  uid_t uid = 0;

  while (sonde_peer_launcher_take_uid (launcher, &uid, &error))
    {
      g_assert_cmpuint (uid, >=, SONDE_WORKER_UID_FIRST);
      g_assert_cmpuint (uid, <, SONDE_WORKER_UID_FIRST + SONDE_WORKER_N_UIDS);
      g_assert_true (g_hash_table_add (taken, GUINT_TO_POINTER (uid)));
    }
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  return taken;
}

/* --- cases --- */

static void
refuses_when_all_are_in_use (void)
{
  g_autoptr (SondePeerLauncher) launcher = sonde_peer_launcher_new (places);
  g_autoptr (GHashTable) taken = NULL;

  if (skip_unless_root ())
    return;
  taken = take_all (launcher);
  g_assert_cmpuint (g_hash_table_size (taken), >, SONDE_WORKER_N_UIDS / 2);
}

static void
gives_again_what_came_back (void)
{
  g_autoptr (SondePeerLauncher) launcher = sonde_peer_launcher_new (places);
  g_autoptr (GHashTable) first = NULL;
  g_autoptr (GHashTable) again = NULL;
  uid_t uid;

  if (skip_unless_root ())
    return;
  uid = take (launcher);
  first = take_all (launcher);
  g_assert_false (g_hash_table_contains (first, GUINT_TO_POINTER (uid)));
  sonde_peer_launcher_give_uid_back (launcher, uid);
  sonde_peer_launcher_give_uid_back (launcher, SONDE_WORKER_UID_NONE);
  again = take_all (launcher);
  g_assert_true (g_hash_table_contains (again, GUINT_TO_POINTER (uid)));
}

/* A process with @uid, which waits to be killed. */
static pid_t
start_process (uid_t uid)
{
  int ready[2];
  char byte;
  pid_t pid;

  g_assert_cmpint (pipe (ready), ==, 0);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      if (setresuid (uid, uid, uid) == 0 && write (ready[1], "", 1) == 1)
        pause ();
      _exit (1);
    }
  g_assert_cmpint (read (ready[0], &byte, 1), ==, 1);
  close (ready[0]);
  close (ready[1]);
  return pid;
}

static void
passes_over_uids_of_live_processes (void)
{
  g_autoptr (SondePeerLauncher) launcher = sonde_peer_launcher_new (places);
  g_autoptr (GHashTable) first = NULL;
  g_autoptr (GHashTable) again = NULL;
  uid_t uid;
  pid_t pid;

  if (skip_unless_root ())
    return;
  uid = take (launcher);
  sonde_peer_launcher_give_uid_back (launcher, uid);
  pid = start_process (uid);
  first = take_all (launcher);
  g_assert_false (g_hash_table_contains (first, GUINT_TO_POINTER (uid)));

  kill (pid, SIGKILL);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
  again = take_all (launcher);
  g_assert_true (g_hash_table_contains (again, GUINT_TO_POINTER (uid)));
}

static void
gives_none_to_others_than_root (void)
{
  g_autoptr (SondePeerLauncher) launcher = sonde_peer_launcher_new (places);
  uid_t uid = 0;
  int status;
  pid_t pid = fork ();

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    _exit ((geteuid () == 0 && setresuid (NOBODY, NOBODY, NOBODY) < 0)
           || !sonde_peer_launcher_take_uid (launcher, &uid, NULL) || uid != SONDE_WORKER_UID_NONE);
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add_func ("/peer-launcher/" name, function)
  ADD ("refuses-when-all-are-in-use", refuses_when_all_are_in_use);
  ADD ("gives-again-what-came-back", gives_again_what_came_back);
  ADD ("passes-over-uids-of-live-processes", passes_over_uids_of_live_processes);
  ADD ("gives-none-to-others-than-root", gives_none_to_others_than_root);
#undef ADD
  return g_test_run ();
}
