/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Questions about processes in lanes, and a kernel that does not answer some of them. */
#include "daemon/broker/lanes.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/limits.h"

/* Of a kernel that answers about a process when it is told to. */
static struct
{
  GMutex lock;
  GCond is_changed;
  gboolean is_held; /* what is asked about HELD waits */
  guint n_waiting;
  guint n_looks;
} kernel;

#define HELD 10 /* pid */

typedef struct
{
  SondeLanes *lanes;
  SondeProcBroker *broker;
  GString *told; /* "pid:status " of each answer, in their order; "stuck:uid ", "over:uid " */
  guint n_answers;
} Fixture;

static SondeAnswer *
look (const SondeQuestion *question, SondeProcBroker *broker, SondeProcBatch *batch)
{
  SondeQuestion own = *question;

  g_mutex_lock (&kernel.lock);
  kernel.n_looks++;
  kernel.n_waiting += question->pid == HELD;
  g_cond_broadcast (&kernel.is_changed);
  while (kernel.is_held && question->pid == HELD)
    g_cond_wait (&kernel.is_changed, &kernel.lock);
  kernel.n_waiting -= question->pid == HELD;
  g_mutex_unlock (&kernel.lock);
  if (question->kind == SONDE_QUESTION_FILE)
    return sonde_question_refuse (question, batch != NULL ? ENOEXEC : ENOENT);
  /* With descriptors. */
  own.pid = getpid ();
  return sonde_question_answer (&own, broker, batch);
}

static void
hold (gboolean is_held)
{
  g_mutex_lock (&kernel.lock);
  kernel.is_held = is_held;
  g_cond_broadcast (&kernel.is_changed);
  g_mutex_unlock (&kernel.lock);
}

static void
wait_until_asked (void)
{
  g_mutex_lock (&kernel.lock);
  while (kernel.n_waiting == 0)
    g_cond_wait (&kernel.is_changed, &kernel.lock);
  g_mutex_unlock (&kernel.lock);
}

/* What an answer says is seen at the other end of a connection. */
static void
on_answered (const SondeQuestion *question, SondeAnswer *answer, gpointer user_data)
{
  static const SondeChannelHandler nothing = { .message = NULL };
  Fixture *self = user_data;
  union
  {
    SondeMessageHeader header;
    SondeMessageProcess process;
    SondeMessageFile file;
    char bytes[SONDE_MESSAGE_MAX_SIZE];
  } packet;
  g_autoptr (SondeChannel) channel = NULL;
  gboolean is_process;
  int ends[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, ends, NULL));
  channel = sonde_channel_new (ends[0], SONDE_WAY_WORKER_TO_BROKER, &nothing, NULL);
  g_assert_true (sonde_answer_send (answer, self->broker, channel, NULL));
  g_assert_cmpint (read (ends[1], &packet, sizeof packet), >, 0);
  close (ends[1]);
  is_process = packet.header.type == SONDE_MESSAGE_PROCESS;
  g_string_append_printf (self->told, "%d:%d ", (int) question->pid,
                          packet.header.type == SONDE_MESSAGE_COUNTERS ? -1
                          : is_process                                 ? packet.process.status
                                                                       : packet.file.status);
  self->n_answers++;
}

static void
on_stuck (uid_t uid, pid_t pid, gboolean is_over, gpointer user_data)
{
  Fixture *self = user_data;

  g_string_append_printf (self->told, "%s:%u ", is_over ? "over" : "stuck", (unsigned) uid);
}

static const SondeLanesHandler handler = { look, on_answered, on_stuck };

static void
set_up (Fixture *self, gconstpointer data)
{
  self->broker = sonde_proc_broker_new (getuid (), SONDE_SCOPE_SYSTEM, FALSE);
  sonde_proc_broker_set_queries (self->broker, data == NULL);
  self->told = g_string_new (NULL);
  self->lanes = sonde_lanes_new (self->broker, &handler, self);
  kernel.n_looks = 0;
}

/* Descriptors that are open, the one of the look included. */
static guint
count_fds (void)
{
  g_autoptr (GDir) dir = g_dir_open ("/proc/self/fd", 0, NULL);
  guint n_fds = 0;

  while (g_dir_read_name (dir) != NULL)
    n_fds++;
  return n_fds;
}

/* The closer's thread closes what an answer holds; one that is kept is a wait without an end. */
static void
wait_until_closed (guint n_fds)
{
  while (count_fds () > n_fds)
    g_usleep (1000);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  sonde_lanes_free (self->lanes);
  hold (FALSE);
  sonde_proc_broker_unref (self->broker);
  g_string_free (self->told, TRUE);
}

static void
ask (Fixture *self, uid_t uid, pid_t pid)
{
  const SondeQuestion question
      = { .kind = SONDE_QUESTION_PROCESS, .uid = uid, .pid = pid, .request_id = 1 };

  sonde_lanes_ask (self->lanes, &question);
}

static void
ask_file (Fixture *self, uid_t uid, pid_t pid)
{
  const SondeQuestion question
      = { .kind = SONDE_QUESTION_FILE, .uid = uid, .pid = pid, .file = { .request_id = 1 } };

  sonde_lanes_ask (self->lanes, &question);
}

static void
ask_target (Fixture *self, uid_t uid, pid_t pid)
{
  const SondeQuestion question
      = { .kind = SONDE_QUESTION_TARGET, .uid = uid, .pid = pid, .wants_process = TRUE };

  sonde_lanes_ask (self->lanes, &question);
}

static void
iterate_until (Fixture *self, guint n_answers)
{
  while (self->n_answers < n_answers)
    g_main_context_iteration (NULL, TRUE);
}

/* --- cases --- */

static void
one_that_hangs_delays_no_other (Fixture *self, gconstpointer data)
{
  hold (TRUE);
  ask (self, 1, HELD);
  wait_until_asked ();
  ask (self, 1, 11);
  ask (self, 2, 20);
  ask (self, 2, 21);
  iterate_until (self, 2);
  g_assert_cmpstr (self->told->str, ==, "20:0 21:0 ");
  hold (FALSE);
  iterate_until (self, 4);
  g_assert_cmpstr (self->told->str, ==, "20:0 21:0 10:0 11:0 ");
}

static void
one_that_is_stuck_is_refused_until_it_returns (Fixture *self, gconstpointer data)
{
  gint64 begin_us = g_get_monotonic_time ();
  guint n_fds = count_fds ();

  ask (self, 1, 12);
  ask (self, 2, 20);
  iterate_until (self, 2);
  g_string_truncate (self->told, 0);

  hold (TRUE);
  ask (self, 1, HELD);
  wait_until_asked ();
  ask (self, 1, 11);
  ask_file (self, 1, 13);
  iterate_until (self, 5);
  g_assert_cmpint (g_get_monotonic_time () - begin_us, >=, SONDE_LIMIT_LANE_MS * 1000);
  /* At once now. */
  ask (self, 1, 14);
  g_assert_cmpuint (self->n_answers, ==, 6);
  ask (self, 2, 21);
  iterate_until (self, 7);
  g_assert_cmpstr (self->told->str, ==, "stuck:1 10:110 11:110 13:110 14:110 21:0 ");

  /* What it brings is dropped, with its descriptors. */
  g_string_truncate (self->told, 0);
  hold (FALSE);
  while (self->told->len == 0)
    g_main_context_iteration (NULL, TRUE);
  ask (self, 1, 15);
  iterate_until (self, 8);
  g_assert_cmpstr (self->told->str, ==, "over:1 15:0 ");
  wait_until_closed (n_fds);
}

static void
nothing_waits_for_one_at_the_end (Fixture *self, gconstpointer data)
{
  guint n_fds = count_fds ();

  hold (TRUE);
  ask (self, 1, HELD);
  wait_until_asked ();
  ask (self, 1, 11);
  ask (self, 2, 20);
  g_clear_pointer (&self->lanes, sonde_lanes_free);
  hold (FALSE);
  wait_until_closed (n_fds);
  g_assert_false (g_main_context_pending (NULL));
  g_assert_cmpuint (self->n_answers, ==, 0);
}

static void
they_are_bounded (Fixture *self, gconstpointer data)
{
  /* More uids than lanes, one after the other. */
  for (uid_t uid = 1; uid <= 2 * SONDE_LIMIT_LANES; uid++)
    {
      ask (self, uid, 20);
      iterate_until (self, uid);
    }
  g_string_truncate (self->told, 0);
  hold (TRUE);
  for (uid_t uid = 1; uid <= SONDE_LIMIT_LANES; uid++)
    ask (self, uid, HELD);
  g_assert_cmpuint (self->told->len, ==, 0);
  ask (self, SONDE_LIMIT_LANES + 1, 20);
  g_assert_cmpstr (self->told->str, ==, "20:11 ");
  hold (FALSE);
  iterate_until (self, 3 * SONDE_LIMIT_LANES + 1);
}

static void
what_waits_is_bounded (Fixture *self, gconstpointer data)
{
  hold (TRUE);
  ask (self, 1, HELD);
  wait_until_asked ();
  for (guint i = 0; i < SONDE_LIMIT_LANE_QUESTIONS; i++)
    ask_file (self, 1, 11);
  g_assert_cmpuint (self->n_answers, ==, 0);
  ask_file (self, 1, 12);
  g_assert_cmpstr (self->told->str, ==, "12:11 ");
  ask_target (self, 1, 13);
  g_assert_cmpuint (self->n_answers, ==, 1);
  hold (FALSE);
  iterate_until (self, SONDE_LIMIT_LANE_QUESTIONS + 3);
}

static void
targets_take_no_room_of_a_worker (Fixture *self, gconstpointer data)
{
  hold (TRUE);
  ask (self, 1, HELD);
  wait_until_asked ();
  for (guint i = 0; i < 8; i++)
    ask_target (self, 1, 13);
  for (guint i = 0; i < SONDE_LIMIT_LANE_QUESTIONS; i++)
    ask_file (self, 1, 11);
  g_assert_cmpuint (self->n_answers, ==, 0);
  hold (FALSE);
  iterate_until (self, SONDE_LIMIT_LANE_QUESTIONS + 9);
}

/* The kernel cannot be asked for one mapping. */
static void
files_of_a_process_have_a_turn (Fixture *self, gconstpointer data)
{
  hold (TRUE);
  ask (self, 1, HELD);
  wait_until_asked ();
  ask_file (self, 1, 12);
  ask_file (self, 1, 13);
  ask (self, 1, 12);
  ask_file (self, 1, 12);
  ask_file (self, 1, 14);
  ask_file (self, 1, 13);
  hold (FALSE);
  iterate_until (self, 7);
  /* Those of a batch (8) come together; what is no request for a file does not rest. */
  g_assert_true (g_str_equal (self->told->str, "10:0 12:8 12:8 12:0 13:8 13:8 14:8 ")
                 || g_str_equal (self->told->str, "10:0 12:8 12:8 13:8 13:8 12:0 14:8 "));
}

static void
uids_of_a_user_are_one (void)
{
  g_autoptr (GArray) ranges = sonde_subuid_parse ("# a comment: 1:2\n"
                                                  "alice:100000:65536\n"
                                                  "bob:165536:65536\n"
                                                  "carol:x:65536\n"
                                                  "carol:300000\n"
                                                  "carol:300000:0\n"
                                                  "alice:400000:10\n"
                                                  "alicea:500000:10");

  g_assert_cmpuint (ranges->len, ==, 4);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 0), ==, 0);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 99999), ==, 99999);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 100000), ==, 100000);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 165535), ==, 100000);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 165536), ==, 165536);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 300000), ==, 300000);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 400009), ==, 100000);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 400010), ==, 400010);
  g_assert_cmpuint (sonde_subuid_fold (ranges, 500001), ==, 500000);
  g_assert_cmpuint (sonde_subuid_fold (ranges, G_MAXUINT32), ==, G_MAXUINT32);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function, data)                                                                  \
  g_test_add ("/lanes/" name, Fixture, data, set_up, function, tear_down)
  ADD ("they-are-bounded", they_are_bounded, NULL);
  ADD ("what-waits-is-bounded", what_waits_is_bounded, NULL);
  ADD ("targets-take-no-room-of-a-worker", targets_take_no_room_of_a_worker, NULL);
  ADD ("one-that-hangs-delays-no-other", one_that_hangs_delays_no_other, NULL);
  ADD ("one-that-is-stuck-is-refused-until-it-returns",
       one_that_is_stuck_is_refused_until_it_returns, NULL);
  ADD ("nothing-waits-for-one-at-the-end", nothing_waits_for_one_at_the_end, NULL);
  ADD ("files-of-a-process-have-a-turn", files_of_a_process_have_a_turn, "reading");
#undef ADD
  g_test_add_func ("/lanes/uids-of-a-user-are-one", uids_of_a_user_are_one);
  return g_test_run ();
}
