/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many people in front of a dialog, and a polkit that is not well. To be run under private-bus,
 * without a polkitd: this plays it. */
#include <string.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/fake-polkit.h"

enum
{
  N_USERS = 13,
  N_CALLS = 32, /* of a uid in flight, at most */
  N_OPEN = 48,  /* dialogs of all */
  N_OPEN_OF_UID = 4,
};

/* One user and the answers to his calls. */
typedef struct
{
  GDBusConnection *bus;
  guint n_sent;
  guint n_granted;
  guint n_refused;
  char *refusal; /* the last one's text */
  gboolean has_version;
} Asker;

static void
on_answered (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Asker *self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_finish (
      G_DBUS_CONNECTION (source), NULL, result, &error);

  if (answer != NULL)
    self->n_granted++;
  else
    {
      self->n_refused++;
      g_free (self->refusal);
      self->refusal = g_strdup (error->message);
    }
}

/* @n calls of Profile that need an administrator. */
static void
ask (Asker *self, guint n, gboolean is_interactive)
{
  GDBusCallFlags flags
      = is_interactive ? G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION : G_DBUS_CALL_FLAGS_NONE;

  for (guint i = 0; i < n; i++)
    g_dbus_connection_call_with_unix_fd_list (
        self->bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
        "Profile", g_variant_new_parsed ("({'system': <true>},)"), NULL, flags, G_MAXINT, NULL,
        NULL, on_answered, self);
  self->n_sent += n;
}

static void
on_version (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  g_assert_no_error (error);
  g_assert_nonnull (answer);
  ((Asker *) user_data)->has_version = TRUE;
}

static gboolean
has_version (gpointer user_data)
{
  return ((const Asker *) user_data)->has_version;
}

/* Until sonded has come to the question of each call. A full user has no call left to ask so. */
static void
wait_arrived (Asker *self)
{
  self->has_version = FALSE;
  g_dbus_connection_call (self->bus, "org.sonde.Profiler1", "/org/sonde/Profiler1",
                          "org.freedesktop.DBus.Properties", "Get",
                          g_variant_new ("(ss)", "org.sonde.Profiler1.Manager", "Version"), NULL,
                          G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, on_version, self);
  bus_wait (has_version, self, "a call behind the others");
}

static void
asker_init (Asker *self)
{
  *self = (Asker){ .bus = bus_connect (bus_next_uid ()) };
}

static gboolean
has_all_answers (gpointer user_data)
{
  const Asker *self = user_data;

  return self->n_granted + self->n_refused == self->n_sent;
}

static void
asker_clear (Asker *self)
{
  if (self->bus == NULL)
    return;
  if (!g_dbus_connection_is_closed (self->bus))
    g_assert_true (g_dbus_connection_close_sync (self->bus, NULL, NULL));
  bus_wait (has_all_answers, self, "the end of each call");
  g_clear_object (&self->bus);
  g_free (self->refusal);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Asker, asker_clear)

static gboolean
has_full_house (gpointer user_data)
{
  return ((const FakePolkit *) user_data)->open->len == N_OPEN;
}

static gboolean
has_grant (gpointer user_data)
{
  const Asker *self = user_data;

  return self->n_granted + self->n_refused > 0;
}

static gboolean
has_grant_again (gpointer user_data)
{
  return ((const Asker *) user_data)->n_granted == 1;
}

static gboolean
has_none_open (gpointer user_data)
{
  return ((const FakePolkit *) user_data)->open->len == 0;
}

/* The last who asked: what he had open is cancelled before the next test has a polkit of its own,
 * which would know nothing of it. */
static void
leave (Asker *self, FakePolkit *polkit)
{
  asker_clear (self);
  bus_wait (has_none_open, polkit, "the end of the last dialog");
}

/* All that 13 users can have open stands open; others are asked and answered all the same. */
static void
test_full_house (void)
{
  g_auto (FakePolkit) polkit = { 0 };
  Asker users[N_USERS];
  g_auto (Asker) authorised = { 0 };
  g_auto (Asker) patient = { 0 };

  fake_polkit_init (&polkit);
  polkit.allows_quiet = TRUE;
  for (guint i = 0; i < N_USERS; i++)
    {
      asker_init (&users[i]);
      ask (&users[i], N_CALLS - 1, TRUE);
    }
  for (guint i = 0; i < N_USERS; i++)
    wait_arrived (&users[i]);
  bus_wait (has_full_house, &polkit, "as many dialogs as there may be");
  for (guint i = 0; i < N_USERS; i++)
    {
      g_assert_cmpuint (
          fake_polkit_count_of (&polkit, g_dbus_connection_get_unique_name (users[i].bus)), <=,
          N_OPEN_OF_UID);
      g_assert_cmpuint (users[i].n_refused, ==, 0);
    }

  asker_init (&authorised);
  ask (&authorised, 1, FALSE);
  bus_wait (has_grant, &authorised, "the answer to somebody whom a rule allows it");
  g_assert_cmpstr (authorised.refusal, ==, NULL);

  asker_init (&patient);
  ask (&patient, 1, TRUE);
  wait_arrived (&patient);
  g_assert_cmpuint (polkit.open->len, ==, N_OPEN);
  g_assert_cmpuint (fake_polkit_count_of (&polkit, g_dbus_connection_get_unique_name (patient.bus)),
                    ==, 0);
  for (guint i = 0; i < N_USERS; i++)
    asker_clear (&users[i]);
  while (fake_polkit_count_of (&polkit, g_dbus_connection_get_unique_name (patient.bus)) == 0)
    g_main_context_iteration (NULL, TRUE);
  leave (&patient, &polkit);
}

/* A user's own dialogs: a few, and the next when one of them ends. */
static void
test_own_turn (void)
{
  g_auto (FakePolkit) polkit = { 0 };
  g_auto (Asker) user = { 0 };

  fake_polkit_init (&polkit);
  asker_init (&user);
  ask (&user, N_CALLS - 1, TRUE);
  wait_arrived (&user);
  for (guint n = 1; n < N_CALLS; n++)
    {
      guint n_left = N_CALLS - n;

      while (polkit.n_asked < MIN (n + N_OPEN_OF_UID - 1, N_CALLS - 1))
        g_main_context_iteration (NULL, TRUE);
      g_assert_cmpuint (polkit.open->len, ==, MIN (n_left, N_OPEN_OF_UID));
      fake_polkit_answer_one (&polkit, FALSE);
      while (user.n_refused < n)
        g_main_context_iteration (NULL, TRUE);
      g_assert_nonnull (strstr (user.refusal, "not allowed"));
    }
  g_assert_cmpuint (polkit.n_cancelled, ==, 0);
}

static gboolean
has_four_cancelled (gpointer user_data)
{
  return ((const FakePolkit *) user_data)->n_cancelled == N_OPEN_OF_UID;
}

static void
test_leaving (void)
{
  g_auto (FakePolkit) polkit = { 0 };
  g_auto (Asker) user = { 0 };
  g_auto (Asker) next = { 0 };

  fake_polkit_init (&polkit);
  asker_init (&user);
  ask (&user, N_CALLS - 1, TRUE);
  wait_arrived (&user);
  asker_clear (&user);
  bus_wait (has_four_cancelled, &polkit, "the end of his dialogs");
  asker_init (&next);
  ask (&next, 1, FALSE);
  wait_arrived (&next);
  while (polkit.open->len == 0)
    g_main_context_iteration (NULL, TRUE);
  /* Of those who waited behind them none was asked. */
  g_assert_cmpuint (polkit.n_asked, ==, N_OPEN_OF_UID + 1);
  g_assert_cmpuint (polkit.n_cancelled, ==, N_OPEN_OF_UID);
  leave (&next, &polkit);
}

static void
assert_refusal (Asker *user, const char *expected)
{
  bus_wait (has_all_answers, user, "an answer");
  g_assert_cmpuint (user->n_granted, ==, 0);
  g_test_message ("%s", user->refusal);
  g_assert_nonnull (strstr (user->refusal, "org.sonde.profiler1.profile-system"));
  g_assert_nonnull (strstr (user->refusal, expected));
}

static gboolean
has_one_open (gpointer user_data)
{
  return ((const FakePolkit *) user_data)->open->len == 1;
}

static void
test_words (void)
{
  g_auto (Asker) user = { 0 };
  g_auto (FakePolkit) polkit = { 0 };

  asker_init (&user);
  ask (&user, 1, TRUE);
  assert_refusal (&user, "polkit is not running");

  fake_polkit_init (&polkit);
  polkit.error = "out of cheese";
  ask (&user, 1, TRUE);
  assert_refusal (&user, "polkit cannot be asked: out of cheese");

  polkit.error = NULL;
  ask (&user, 1, TRUE);
  bus_wait (has_one_open, &polkit, "a dialog");
  fake_polkit_clear (&polkit);
  assert_refusal (&user, "polkit went away without an answer");
}

/* polkit says nothing, and then that it was cancelled: too late to matter. */
static void
test_silence (void)
{
  g_auto (Asker) user = { 0 };
  g_auto (FakePolkit) polkit = { 0 };

  fake_polkit_init (&polkit);
  asker_init (&user);
  ask (&user, N_OPEN_OF_UID, FALSE);
  assert_refusal (&user, "nobody answered in time");
  while (polkit.open->len > 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (polkit.n_cancelled, ==, polkit.n_asked);
  polkit.allows_quiet = TRUE;
  ask (&user, 1, FALSE);
  bus_wait (has_grant_again, &user, "an answer to the next question");
}

static void
on_refused (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GError **error = user_data;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, error);

  g_assert_null (answer);
}

/* A manager of sessions may not read the one that begins while he is asked. */
static void
test_session_to_come (void)
{
  g_auto (FakePolkit) polkit = { 0 };
  g_auto (Asker) owner = { 0 };
  g_auto (Asker) manager = { 0 };
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autofree char *begun = NULL;
  g_autofree char *next = NULL;
  g_autofree char *all = NULL;
  g_autoptr (GError) error = NULL;

  fake_polkit_init (&polkit);
  polkit.allows_quiet = TRUE;
  asker_init (&owner);
  asker_init (&manager);
  ask (&owner, 1, FALSE);
  bus_wait (has_all_answers, &owner, "a session");
  begun = bus_list_all_paths (root);
  next = g_strdup_printf ("/org/sonde/Profiler1/session/%" G_GUINT64_FORMAT,
                          g_ascii_strtoull (strrchr (begun, '/') + 1, NULL, 10) + 1);
  g_dbus_connection_call (manager.bus, "org.sonde.Profiler1", next, "org.sonde.Profiler1.Session",
                          "OpenCapture", g_variant_new_parsed ("(@a{sv} {},)"), NULL,
                          G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION, BUS_CALL_MS, NULL,
                          on_refused, &error);
  bus_wait (has_one_open, &polkit, "a dialog");
  ask (&owner, 1, FALSE);
  bus_wait (has_all_answers, &owner, "the next session");
  all = bus_list_all_paths (root);
  g_assert_nonnull (strstr (all, next));
  fake_polkit_answer_one (&polkit, TRUE);
  while (error == NULL)
    g_main_context_iteration (NULL, TRUE);
  bus_assert_error (error, "NoSuchSession");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/questions/say-what-is-wrong-with-polkit", test_words);
  g_test_add_func ("/questions/of-one-user-are-open-a-few-at-a-time", test_own_turn);
  g_test_add_func ("/questions/end-with-their-caller", test_leaving);
  g_test_add_func ("/questions/of-people-in-dialogs-keep-nobody-waiting", test_full_house);
  g_test_add_func ("/questions/let-nobody-into-what-begins-meanwhile", test_session_to_come);
  if (bus_is_long ()) /* all of SONDE_LIMIT_POLKIT_MS */
    g_test_add_func ("/questions/that-nobody-answers-are-a-no", test_silence);
  return g_test_run ();
}
