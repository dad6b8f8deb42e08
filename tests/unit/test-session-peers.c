/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session that a sonded has left, and what its broker, its worker and programs that come say to
 * it: both connections and systemd are the test's. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "daemon/base/asked-target.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "shared-ring/control-message.h"
#include "tests/lib/fake-peers.h"

static char owner_name[] = ":1.7";

SondeCaller *
sonde_caller_ref (SondeCaller *self)
{
  return self;
}

void
sonde_caller_unref (SondeCaller *self)
{
}

typedef struct
{
  SondeFdStore *store; /* of nobody who would keep anything */
  SondeCaller owner;
  SondePeer *broker;
  SondePeer *worker;
  SondeSession *session;
  guint n_grown;
  guint n_added;
  char *refusal; /* of the last AddProcess; NULL: none */
  int passed_on; /* the errno of the last guest who was; 0: none */
} Fixture;

static void
on_state_changed (SondeSession *session, gpointer user_data)
{
}

static void
on_ended (SondeSession *session, gboolean has_started, gpointer user_data)
{
}

static void
on_grew (SondeSession *session, gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->n_grown++;
}

static void
on_passed_on (SondeSession *session, SondeGuest *guest, int error, gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->passed_on = error;
  sonde_guest_free (guest);
}

static void
on_dismissed (SondeSession *session, SondePeer *broker, gpointer user_data)
{
  sonde_peer_free (broker);
}

static int
open_nothing (void)
{
  return open ("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void
adopt (Fixture *fixture, const char *options, guint n_additions)
{
  static const SondeSessionHandler handler = { .state_changed = on_state_changed,
                                               .ended = on_ended,
                                               .grew = on_grew,
                                               .passed_on = on_passed_on,
                                               .dismissed = on_dismissed };
  SondeSessionRecord *record = sonde_session_record_new ();
  SondeLeftSession left
      = { .record = record,
          .generation = 1,
          .peer_fds
          = { [SONDE_PEER_BROKER] = open_nothing (), [SONDE_PEER_CAPTURE] = open_nothing () } };
  g_autoptr (GError) error = NULL;

  record->id = 3;
  record->bus_id = g_strdup ("0123");
  record->owner = g_strdup (owner_name);
  record->owner_uid = 1000;
  record->options = g_variant_ref_sink (g_variant_new_parsed (options));
  record->description = g_strdup ("session: some");
  record->state = SONDE_STATE_RUNNING;
  record->n_additions = n_additions;
  for (guint32 id = 1; id <= 3; id++)
    {
      SondeRecordSink sink = { .id = id, .reader = g_strdup_printf (":1.%u", 10 + id) };

      g_array_append_val (record->sinks, sink);
    }
  record->last_sink_id = 3;
  fixture->owner = (SondeCaller){
    .name = owner_name, .bus_id = "0123", .uid = 1000, .left = g_cancellable_new ()
  };
  fixture->store = sonde_fd_store_new (NULL);
  fixture->session = sonde_session_adopt (&left, fixture->store, &fixture->owner, NULL, NULL,
                                          &handler, fixture, &error);
  g_assert_no_error (error);
  fixture->broker = &peers[SONDE_PEER_BROKER];
  fixture->worker = &peers[SONDE_PEER_CAPTURE];
  /* What the sonded before wanted is said again. */
  g_assert_cmpint (fixture->broker->last_sent, ==, SONDE_MESSAGE_REPORT);
  g_assert_cmpint (fixture->worker->last_sent, ==, SONDE_MESSAGE_REPORT);
  g_assert_cmpuint (fixture->worker->n_sent, ==, 2);
}

static void
set_up (Fixture *fixture, gconstpointer options)
{
  adopt (fixture, options, 0);
}

static void
tear_down (Fixture *fixture, gconstpointer options)
{
  sonde_session_free (fixture->session);
  sonde_fd_store_free (fixture->store);
  g_object_unref (fixture->owner.left);
  g_free (fixture->refusal);
}

/* --- what both say --- */

static void
hear (SondePeer *peer, gpointer message, SondeMessageType type, gsize size_bytes)
{
  SondeMessageHeader *header = message;

  *header = (SondeMessageHeader){ type, (guint32) size_bytes };
  peer->handler->message (peer, header, NULL, 0, peer->user_data);
}

static void
assert_runs (Fixture *fixture)
{
  g_assert_cmpstr (sonde_session_state_name (fixture->session), ==, "running");
}

/* --- processes that are added --- */

static void
on_added (const GError *error, gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->n_added++;
  g_free (fixture->refusal);
  fixture->refusal = error != NULL ? g_strdup (error->message) : NULL;
}

static void
add (Fixture *fixture)
{
  GPtrArray *targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_asked_target_free);

  g_ptr_array_add (targets, sonde_asked_target_new_unproven (INT32_MAX));
  sonde_session_add_targets (fixture->session, targets, on_added, fixture);
}

static void
answer_addition (Fixture *fixture, guint32 error, const char *text)
{
  SondeMessageResult result = { .error = error };

  g_strlcpy (result.text, text, sizeof result.text);
  hear (fixture->broker, &result, SONDE_MESSAGE_ADDED, sizeof result);
}

static void
more_calls_than_may_wait_are_refused (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < SONDE_LIMIT_CALLS; i++)
    add (fixture);
  g_assert_cmpuint (fixture->n_added, ==, 0);
  add (fixture);
  g_assert_cmpstr (fixture->refusal, ==, "Limit calls: at most 32 are not answered");
  g_assert_cmpuint (fixture->n_added, ==, 1);
  g_assert_cmpint (fixture->broker->last_sent, ==, SONDE_MESSAGE_ADD);
}

/* It has its place in the order of the answers all the same. */
static void
call_without_an_answer_in_time_is_refused (Fixture *fixture, gconstpointer data)
{
  add (fixture);
  while (fixture->n_added == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (fixture->refusal, ==, "The processes were not proven in time");

  add (fixture);
  answer_addition (fixture, SONDE_MESSAGE_NO_ERROR, "");
  g_assert_cmpuint (fixture->n_added, ==, 1);
  g_assert_cmpuint (fixture->n_grown, ==, 1);
  answer_addition (fixture, SONDE_ERROR_FAILED, "Process 5 is \xff gone");
  g_assert_cmpuint (fixture->n_added, ==, 2);
  g_assert_cmpstr (fixture->refusal, ==, "Process 5 is \xef\xbf\xbd gone");
  g_assert_cmpuint (fixture->n_grown, ==, 1);
}

/* They are of callers who have gone; ours come behind them. */
static void
calls_of_the_sonded_before_are_answered_first (Fixture *fixture, gconstpointer options)
{
  adopt (fixture, options, 2);
  add (fixture);
  answer_addition (fixture, SONDE_MESSAGE_NO_ERROR, "");
  answer_addition (fixture, SONDE_MESSAGE_NO_ERROR, "");
  g_assert_cmpuint (fixture->n_added, ==, 0);
  answer_addition (fixture, SONDE_MESSAGE_NO_ERROR, "");
  g_assert_cmpuint (fixture->n_added, ==, 1);
  g_assert_cmpuint (fixture->n_grown, ==, 3);
  /* It may have asked once more, and died before it wrote that down. */
  answer_addition (fixture, SONDE_MESSAGE_NO_ERROR, "");
  assert_runs (fixture);
}

/* --- programs that come --- */

/* Returns: his end */
static int
meet (Fixture *fixture, gboolean is_called)
{
  SondeGuest *guest = g_new0 (SondeGuest, 1);
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  guest->fd = fds[0];
  guest->pid = getpid ();
  guest->pidfd = (int) syscall (SYS_pidfd_open, guest->pid, 0);
  g_assert_cmpint (guest->pidfd, >=, 0);
  guest->is_called = is_called;
  sonde_session_meet (fixture->session, guest);
  return fds[1];
}

/* About the one who came last but @before. */
static void
answer_guest (Fixture *fixture, guint64 before, int status)
{
  SondeMessageJoined joined
      = { .request_id = fixture->session->n_joins - before, .status = status };

  hear (fixture->broker, &joined, SONDE_MESSAGE_JOINED, sizeof joined);
}

/* Returns: what he is told; 1: nothing */
static int
answer_to (int fd)
{
  SondeControlJoinAnswer answer = { .error = 1 };

  if (recv (fd, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer)
    g_assert_cmpint (answer.header.type, ==, SONDE_CONTROL_JOIN);
  return answer.error;
}

static void
program_of_the_session_is_the_workers (Fixture *fixture, gconstpointer data)
{
  sonde_autofd int fd = meet (fixture, FALSE);

  g_assert_cmpint (fixture->broker->last_sent, ==, SONDE_MESSAGE_JOIN);
  g_assert_cmpint (answer_to (fd), ==, 1);
  answer_guest (fixture, 0, 0);
  g_assert_cmpint (answer_to (fd), ==, 0);
  g_assert_cmpint (fixture->worker->last_sent, ==, SONDE_MESSAGE_PROGRAM);
}

static void
program_of_another_is_told_so_and_the_capture_too (Fixture *fixture, gconstpointer data)
{
  sonde_autofd int fd = meet (fixture, FALSE);
  sonde_autofd int gone = -1;
  guint n_sent = fixture->worker->n_sent;

  answer_guest (fixture, 0, EPERM);
  g_assert_cmpint (answer_to (fd), ==, -EPERM);
  g_assert_cmpint (fixture->worker->last_sent, ==, SONDE_MESSAGE_NOTE);
  g_assert_cmpuint (fixture->worker->n_sent, ==, ++n_sent);
  /* One that has gone lost nothing. */
  gone = meet (fixture, FALSE);
  answer_guest (fixture, 0, ESRCH);
  g_assert_cmpint (answer_to (gone), ==, -ESRCH);
  g_assert_cmpuint (fixture->worker->n_sent, ==, n_sent);
}

/* They came by themselves, or the beacon has called them and other sessions may want them. */
static void
busy_worker_takes_no_program (Fixture *fixture, gconstpointer data)
{
  sonde_autofd int fd = meet (fixture, FALSE);
  sonde_autofd int called = meet (fixture, TRUE);

  fixture->worker->is_behind = TRUE;
  answer_guest (fixture, 1, 0);
  g_assert_cmpint (answer_to (fd), ==, -EAGAIN);
  g_assert_cmpint (fixture->passed_on, ==, 0);
  answer_guest (fixture, 0, 0);
  g_assert_cmpint (answer_to (called), ==, 1);
  g_assert_cmpint (fixture->passed_on, ==, EAGAIN);
}

static void
more_programs_than_may_wait_are_sent_away (Fixture *fixture, gconstpointer data)
{
  int fds[SONDE_LIMIT_JOINS + 1];

  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    fds[i] = meet (fixture, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    {
      g_assert_cmpint (answer_to (fds[i]), ==, i < SONDE_LIMIT_JOINS ? 1 : -EAGAIN);
      close (fds[i]);
    }
}

/* At the first, the second, the fourth, the eighth. */
static void
connections_that_are_not_taken_are_told_less_and_less (Fixture *fixture, gconstpointer data)
{
  guint n_sent = fixture->worker->n_sent;

  for (guint i = 0; i < 10; i++)
    sonde_session_turn_away (fixture->session);
  g_assert_cmpuint (fixture->worker->n_sent, ==, n_sent + 4);
}

static void
programs_are_wanted_by_who_records_them (Fixture *fixture, gconstpointer data)
{
  SondeBeaconWish wish;

  g_assert_true (sonde_session_wants_programs (fixture->session, &wish));
  g_assert_cmpuint (wish.producers, ==, 1u << SONDE_PRODUCER_MEMORY);
  g_assert_cmpuint (wish.uid, ==, 1000);
  g_assert_true (wish.is_all);
  g_assert_cmpuint (wish.reason, ==, 3 << 16);
  sonde_session_stop (fixture->session, "stopped");
  g_assert_false (sonde_session_wants_programs (fixture->session, &wish));
}

static void
programs_are_not_called_for_samples (Fixture *fixture, gconstpointer data)
{
  SondeBeaconWish wish;

  g_assert_false (sonde_session_wants_programs (fixture->session, &wish));
}

/* --- the worker --- */

static void
streams_that_the_worker_has_not_are_forgotten (Fixture *fixture, gconstpointer data)
{
  SondeMessageSinks sinks = { .n_sinks = 2, .sink_ids = { 3, 9 } };
  g_autoptr (GPtrArray) listeners = NULL;

  hear (fixture->worker, &sinks, SONDE_MESSAGE_SINKS, sizeof sinks);
  listeners = sonde_session_listeners (fixture->session);
  g_assert_cmpuint (listeners->len, ==, 2);
  g_assert_cmpstr (g_ptr_array_index (listeners, 0), ==, owner_name);
  g_assert_cmpstr (g_ptr_array_index (listeners, 1), ==, ":1.13");
  g_assert_cmpuint (fixture->session->facts->last_sink_id, ==, 9);
  assert_runs (fixture);

  sinks = (SondeMessageSinks){ .n_sinks = 0 };
  hear (fixture->worker, &sinks, SONDE_MESSAGE_SINKS, sizeof sinks);
  g_assert_cmpstr (fixture->session->facts->reason, ==, "reader-left");
}

/* Of another version it asked us, who do not answer such. */
static void
old_workers_questions_stay_unanswered (Fixture *fixture, gconstpointer data)
{
  SondeMessageHeader question = { 0 };

  fixture->session->facts->protocol = 2;
  hear (fixture->worker, &question, SONDE_MESSAGE_FILE_REQUEST, sizeof question);
  assert_runs (fixture);
  fixture->session->facts->protocol = SONDE_MESSAGE_VERSION;
  hear (fixture->worker, &question, SONDE_MESSAGE_FILE_REQUEST, sizeof question);
  g_assert_cmpstr (sonde_session_state_name (fixture->session), ==, "failed");
}

static void
broker_waits_while_the_worker_is_behind (Fixture *fixture, gconstpointer data)
{
  SondeMessageNote note = { .text = "a sentence" };

  hear (fixture->broker, &note, SONDE_MESSAGE_NOTE, sizeof note);
  g_assert_false (fixture->broker->is_held);
  fixture->worker->is_behind = TRUE;
  hear (fixture->broker, &note, SONDE_MESSAGE_NOTE, sizeof note);
  g_assert_true (fixture->broker->is_held);
  fixture->worker->handler->caught_up (fixture->worker, fixture->worker->user_data);
  g_assert_false (fixture->broker->is_held);
}

#define OF_MEMORY  "{'system': <true>, 'memory': <'all'>}"
#define OF_SAMPLES "{'system': <true>}"

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD_TO(name, options, function)                                                            \
  g_test_add ("/session-peers/" name, Fixture, options, set_up, function, tear_down)
#define ADD(name, function) ADD_TO (name, OF_MEMORY, function)
  ADD ("more-calls-than-may-wait-are-refused", more_calls_than_may_wait_are_refused);
  ADD ("call-without-an-answer-in-time-is-refused", call_without_an_answer_in_time_is_refused);
  g_test_add ("/session-peers/calls-of-the-sonded-before-are-answered-first", Fixture, OF_SAMPLES,
              NULL, calls_of_the_sonded_before_are_answered_first, tear_down);
  ADD ("program-of-the-session-is-the-workers", program_of_the_session_is_the_workers);
  ADD ("program-of-another-is-told-so-and-the-capture-too",
       program_of_another_is_told_so_and_the_capture_too);
  ADD ("busy-worker-takes-no-program", busy_worker_takes_no_program);
  ADD ("more-programs-than-may-wait-are-sent-away", more_programs_than_may_wait_are_sent_away);
  ADD ("connections-that-are-not-taken-are-told-less-and-less",
       connections_that_are_not_taken_are_told_less_and_less);
  ADD ("programs-are-wanted-by-who-records-them", programs_are_wanted_by_who_records_them);
  ADD_TO ("programs-are-not-called-for-samples", OF_SAMPLES, programs_are_not_called_for_samples);
  ADD ("streams-that-the-worker-has-not-are-forgotten",
       streams_that_the_worker_has_not_are_forgotten);
  ADD ("old-workers-questions-stay-unanswered", old_workers_questions_stay_unanswered);
  ADD ("broker-waits-while-the-worker-is-behind", broker_waits_while_the_worker_is_behind);
#undef ADD
#undef ADD_TO
  return g_test_run ();
}
