/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions that a sonded has left, whose workers have ended meanwhile. */
#include "daemon/control/session/session-private.h"

#include <gio/gunixsocketaddress.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"

#define ID 3

/* --- the owner, who is there: all that a session asks of him --- */

static char owner_name[] = ":1.7";
static SondeCaller owner = { .name = owner_name, .bus_id = "0123", .uid = 1000, .pid = 9 };

SondeCaller *
sonde_caller_ref (SondeCaller *self)
{
  return self;
}

void
sonde_caller_unref (SondeCaller *self)
{
}

/* --- what systemd keeps --- */

typedef struct
{
  char *path;
  int socket;
  SondeOutbox *outbox;
  SondeFdStore *store;
  SondePeerLauncher *launcher;
  guint n_ended;
  char *state; /* at the last end */
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  const char *const paths[SONDE_PEER_N_KINDS] = { "/nowhere/broker", "/nowhere/worker" };
  g_autofree char *folder = g_dir_make_tmp ("sonde-adoption-XXXXXX", NULL);
  g_autoptr (GSocketAddress) address = NULL;
  char native[256];

  fixture->path = g_build_filename (folder, "notify", NULL);
  address = g_unix_socket_address_new (fixture->path);
  g_assert_true (g_socket_address_to_native (address, native, sizeof native, NULL));
  fixture->socket = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  g_assert_cmpint (bind (fixture->socket, (struct sockaddr *) (void *) native,
                         (socklen_t) g_socket_address_get_native_size (address)),
                   ==, 0);
  fixture->outbox = sonde_outbox_new (fixture->path);
  fixture->store = sonde_fd_store_new (fixture->outbox);
  fixture->launcher = sonde_peer_launcher_new (paths, NULL);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  g_autofree char *folder = g_path_get_dirname (fixture->path);

  sonde_peer_launcher_unref (fixture->launcher);
  sonde_fd_store_free (fixture->store);
  sonde_outbox_free (fixture->outbox);
  close (fixture->socket);
  unlink (fixture->path);
  rmdir (folder);
  g_free (fixture->path);
  g_free (fixture->state);
}

/* The oldest record that it was given and nobody has asked for yet. */
static SondeSessionRecord *
take_record (Fixture *fixture)
{
  for (;;)
    {
      char text[256] = "";
      struct iovec part = { .iov_base = text, .iov_len = sizeof text - 1 };
      union
      {
        struct cmsghdr header;
        char bytes[CMSG_SPACE (sizeof (int))];
      } control;
      struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
      };
      g_autoptr (GError) error = NULL;
      sonde_autofd int fd = -1;
      SondeSessionRecord *record;

      g_assert_cmpint (recvmsg (fixture->socket, &message, MSG_CMSG_CLOEXEC), >, 0);
      if (message.msg_controllen == 0)
        continue;
      memcpy (&fd, CMSG_DATA (&control.header), sizeof fd);
      if (strstr (text, ".record.") == NULL)
        continue;
      record = sonde_session_record_read (fd, &error);
      g_assert_no_error (error);
      return record;
    }
}

/* --- sessions --- */

static SondeSessionRecord *
make_record (SondeSessionState state)
{
  SondeSessionRecord *record = sonde_session_record_new ();

  record->id = ID;
  record->bus_id = g_strdup ("0123");
  record->owner = g_strdup (":1.7");
  record->owner_uid = 1000;
  record->options = g_variant_ref_sink (g_variant_new_parsed ("{'system': <true>}"));
  record->description = g_strdup ("session: the whole machine");
  record->state = state;
  record->reason = g_strdup ("The broker was killed by signal 9");
  record->is_broken = TRUE;
  record->worker_pid = 15;
  return record;
}

/* Of a worker that has gone. @is_done: it has said its last words before */
static int
make_connection (gboolean is_done)
{
  static const SondeMessageType words[] = { SONDE_MESSAGE_DRAINED, SONDE_MESSAGE_FINISHED };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
  for (guint i = 0; is_done && i < G_N_ELEMENTS (words); i++)
    {
      SondeMessageStatistics message = { .header = { words[i], sizeof message } };

      g_assert_cmpint (send (fds[1], &message, sizeof message, MSG_NOSIGNAL), ==, sizeof message);
    }
  close (fds[1]);
  return fds[0];
}

static void
on_state_changed (SondeSession *session, gpointer user_data)
{
}

static void
on_ended (SondeSession *session, gboolean has_started, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_true (has_started);
  fixture->n_ended++;
  g_free (fixture->state);
  fixture->state = g_strdup (sonde_session_state_name (session));
}

/* @record: (transfer full) */
static SondeSession *
adopt (Fixture *fixture, SondeSessionRecord *record, gboolean is_done)
{
  static const SondeSessionHandler handler
      = { .state_changed = on_state_changed, .ended = on_ended };
  SondeLeftSession left
      = { .record = record,
          .generation = 1,
          .peer_fds
          = { [SONDE_PEER_BROKER] = -1, [SONDE_PEER_CAPTURE] = make_connection (is_done) } };
  g_autoptr (GError) error = NULL;
  SondeSession *session = sonde_session_adopt (&left, fixture->store, &owner, NULL,
                                               fixture->launcher, &handler, fixture, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (fixture->n_ended, ==, 0);
  g_assert_null (left.record);
  return session;
}

static void
assert_told_once (Fixture *fixture)
{
  gint64 deadline_us = g_get_monotonic_time () + 60 * G_USEC_PER_SEC;

  while (fixture->n_ended == 0 && g_get_monotonic_time () < deadline_us)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (fixture->n_ended, ==, 1);
  g_assert_cmpstr (fixture->state, ==, "failed");
  fixture->n_ended = 0;
}

/* Its worker's last word is heard, and written down; then a sonded goes that has told nobody. */
static void
broken_one_is_told_by_the_next (Fixture *fixture, gconstpointer data)
{
  SondeSession *session = adopt (fixture, make_record (SONDE_STATE_DRAINING), TRUE);
  SondeSessionRecord *record;

  assert_told_once (fixture);
  record = take_record (fixture);
  g_assert_cmpint (record->state, ==, SONDE_STATE_FINISHED);
  g_assert_true (record->is_broken);
  sonde_session_free (session);

  session = adopt (fixture, record, FALSE);
  assert_told_once (fixture);
  sonde_session_free (session);
}

static void
failed_one_with_a_worker_is_told_again (Fixture *fixture, gconstpointer data)
{
  SondeSession *session = adopt (fixture, make_record (SONDE_STATE_FAILED), FALSE);

  g_assert_true (session->worker != NULL);
  assert_told_once (fixture);
  sonde_session_free (session);
}

/* A worker of 0.1.0 is so to the sonded after the next, too. */
static void
keeps_the_version_of_its_worker (Fixture *fixture, gconstpointer data)
{
  g_autoptr (SondeSessionRecord) record = NULL;
  SondeSession *session;

  record = make_record (SONDE_STATE_RUNNING);
  record->protocol = 2;
  session = adopt (fixture, g_steal_pointer (&record), FALSE);
  record = take_record (fixture);
  g_assert_cmpint (record->state, ==, SONDE_STATE_DRAINING);
  g_assert_cmpuint (record->protocol, ==, 2);
  sonde_session_free (session);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function)                                                                        \
  g_test_add ("/session-adoption/" name, Fixture, NULL, set_up, function, tear_down)
  ADD ("broken-one-is-told-by-the-next", broken_one_is_told_by_the_next);
  ADD ("failed-one-with-a-worker-is-told-again", failed_one_with_a_worker_is_told_again);
  ADD ("keeps-the-version-of-its-worker", keeps_the_version_of_its_worker);
#undef ADD
  return g_test_run ();
}
