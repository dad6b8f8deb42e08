/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker gains that somebody else has taken over: nothing. This program is the worker, too.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "tests/bus/hostile-messages.h"
#include "tests/bus/hostile-worker.h"
#include "tests/lib/bus-user.h"

/* KiB, of sonded; AddressSanitizer keeps up to 256 MiB of what was freed. */
#ifdef __SANITIZE_ADDRESS__
#define MAX_GROWTH (384 * 1024)
#else
#define MAX_GROWTH (16 * 1024)
#endif

typedef struct
{
  GDBusConnection *bus; /* root's, who may start as often as he likes */
  BusUser other;        /* who has to be answered all the while */
  pid_t sonded;
  guint n_fds;
  guint64 memory_kib;
} Fixture;

static guint64
read_memory (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", (int) pid);
  g_autofree char *status = NULL;
  const char *line;

  g_assert_true (g_file_get_contents (path, &status, NULL, NULL));
  line = strstr (status, "VmRSS:");
  g_assert_nonnull (line);
  return g_ascii_strtoull (line + strlen ("VmRSS:"), NULL, 10);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->bus = bus_connect (0);
  bus_user_init (&fixture->other, BUS_CHILD_WAIT);
  bus_assert_answers (fixture->other.bus);
  fixture->sonded = bus_service_pid (fixture->bus);
  fixture->n_fds = bus_count_fds (fixture->sonded);
  fixture->memory_kib = read_memory (fixture->sonded);
}

static gboolean
holds_no_more (gpointer user_data)
{
  const Fixture *fixture = user_data;

  return bus_count_fds (fixture->sonded) <= fixture->n_fds;
}

/* It is the same process, and has no more than before. */
static void
tear_down (Fixture *fixture, gconstpointer data)
{
  bus_assert_answers (fixture->other.bus);
  bus_wait (holds_no_more, fixture, "the descriptors of a hostile worker's session");
  g_assert_cmpint (bus_service_pid (fixture->bus), ==, fixture->sonded);
  g_assert_cmpuint (read_memory (fixture->sonded), <=, fixture->memory_kib + MAX_GROWTH);
  bus_user_clear (&fixture->other);
  g_clear_object (&fixture->bus);
}

static gboolean
start (GDBusConnection *bus, unsigned what, char **session, int *capture, GError **error)
{
  return bus_profile (
      bus,
      g_variant_new_parsed ("{'launch': <true>, 'event': <'cpu-clock'>, 'frequency': <%u>}", what),
      NULL, session, capture, error);
}

/* The end of the session that has such a worker. */
static char *
run (Fixture *fixture, unsigned what)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autofree char *finished = NULL;
  int capture = -1;

  if (!start (fixture->bus, what, &session, &capture, &error))
    return g_strdup (error->message);
  finished = bus_wait_finished (fixture->bus, session);
  close (capture);
  bus_assert_answers (fixture->other.bus);
  return g_steal_pointer (&finished);
}

/* An empty packet is the end of the connection. */
static void
packets_that_cannot_be_end_it (Fixture *fixture, gconstpointer data)
{
  HostileMessage message;
  unsigned i;

  for (i = 0; hostile_make_bad (&message, SONDE_WAY_WORKER_TO_FRONT, i); i++)
    {
      g_autofree char *reason = run (fixture, HOSTILE_BAD + i);

      g_test_message ("%u, type %u: %s", i, message.header.type, reason);
      g_assert_true (message.size_bytes == 0 || g_str_has_prefix (reason, "Refused a message "));
    }
  g_test_message ("%u packets that cannot be", i);
  g_assert_cmpuint (HOSTILE_BAD + i, <, HOSTILE_BAD_REQUEST);
}

/* Without that connection a session goes on. */
static void
requests_that_cannot_be_end_it (Fixture *fixture, gconstpointer data)
{
  HostileMessage message;
  unsigned i;

  for (i = 0; hostile_make_bad (&message, SONDE_WAY_WORKER_TO_BROKER, i); i++)
    {
      g_autofree char *reason
          = message.size_bytes > 0 ? run (fixture, HOSTILE_BAD_REQUEST + i) : NULL;

      g_test_message ("%u, type %u: %s", i, message.header.type, reason);
      g_assert_true (reason == NULL
                     || g_str_has_prefix (reason, "The worker's requests: Refused a message "));
    }
  g_test_message ("%u requests that cannot be", i);
  g_assert_cmpuint (HOSTILE_BAD_REQUEST + i, <, SONDE_LIMIT_FREQUENCY);
}

/* What a worker may say to sonded once its rings are mapped, and what before it has mapped them.
 * Only one of an older version asks sonded for anything. */
static const struct
{
  SondeMessageType type;
  gboolean is_early;
  gboolean is_late;
} turns[] = {
  { SONDE_MESSAGE_HELLO, FALSE, FALSE },
  { SONDE_MESSAGE_RINGS_MAPPED, TRUE, FALSE },
  { SONDE_MESSAGE_PROCESS_REQUEST, FALSE, FALSE },
  { SONDE_MESSAGE_FILE_REQUEST, FALSE, FALSE },
  { SONDE_MESSAGE_STATISTICS, FALSE, TRUE },
  { SONDE_MESSAGE_DRAINED, FALSE, FALSE },
  { SONDE_MESSAGE_SINK_CLOSED, FALSE, FALSE }, /* of a sink that there is not */
  { SONDE_MESSAGE_FINISHED, FALSE, FALSE },
  { SONDE_MESSAGE_FAILED, TRUE, TRUE },
  { SONDE_MESSAGE_SINKS, FALSE, TRUE },
  { SONDE_MESSAGE_COUNTERS_REQUEST, FALSE, FALSE },
  { SONDE_MESSAGE_CONTROLS, FALSE, FALSE }, /* of sockets that it was not given */
  { SONDE_MESSAGE_SNAPPED, FALSE, FALSE },  /* that nobody asked for */
};

static void
assert_out_of_turn (Fixture *fixture, unsigned what)
{
  g_autofree char *reason = run (fixture, what);

  g_test_message ("%u: %s", what, reason);
  g_assert_true (strstr (reason, "out of order") != NULL || strstr (reason, "not given") != NULL
                 || strstr (reason, "not open") != NULL || strstr (reason, "not asked") != NULL);
}

static void
messages_out_of_turn_end_it (Fixture *fixture, gconstpointer data)
{
  for (guint32 type = 0; type <= HOSTILE_MAX_TYPE; type++)
    {
      guint i = 0;

      if (!hostile_is_of_worker (type, SONDE_WAY_WORKER_TO_FRONT))
        continue;
      while (i < G_N_ELEMENTS (turns) && turns[i].type != type)
        i++;
      if (i == G_N_ELEMENTS (turns))
        g_error ("when may \"%s\" come? A row is missing", sonde_message_type_to_string (type));
      if (!turns[i].is_early)
        assert_out_of_turn (fixture, HOSTILE_EARLY + type);
      if (!turns[i].is_late)
        assert_out_of_turn (fixture, HOSTILE_LATE + type);
    }
  assert_out_of_turn (fixture, HOSTILE_ASK_EARLY);
}

static void
others_stay_closed_to_it (Fixture *fixture, gconstpointer data)
{
  g_auto (BusUser) owner = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autofree char *victims = NULL;
  g_autofree char *finished = NULL;
  int capture = -1;

  bus_user_init (&owner, BUS_CHILD_WAIT);
  victims = g_strdup_printf ("%d\n1\n%d\n%d\n%d\n999999\n", (int) owner.target,
                             (int) fixture->sonded, (int) fixture->other.target, (int) getpid ());
  g_assert_true (g_file_set_contents (HOSTILE_PID_FILE, victims, -1, NULL));
  fds = bus_open_proc (owner.target, "maps", O_RDONLY);
  g_assert_true (bus_profile (owner.bus,
                              g_variant_new_parsed ("{'targets': <[(%u, @h 0)]>, 'event': "
                                                    "<'cpu-clock'>, 'frequency': <%u>, "
                                                    "'counters': <['process']>}",
                                                    (guint32) owner.target, HOSTILE_ASK_OTHERS),
                              fds, &session, &capture, &error));
  g_assert_no_error (error);
  finished = bus_wait_finished (owner.bus, session);
  close (capture);
  g_assert_cmpstr (finished, ==, "some of its target, 0 of others, 0 wrong");
}

/* Others are answered 200 times while it does its worst. */
static void
floods_stop_nobody (Fixture *fixture, gconstpointer data)
{
  unsigned what = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autoptr (GVariant) answer = NULL;
  gint64 longest_us = 0;
  int capture = -1;

  g_assert_true (start (fixture->bus, what, &session, &capture, &error));
  g_assert_no_error (error);
  for (unsigned i = 0; i < 200; i++)
    {
      gint64 begin_us = g_get_monotonic_time ();

      bus_assert_answers (fixture->other.bus);
      longest_us = MAX (longest_us, g_get_monotonic_time () - begin_us);
    }
  g_test_message ("the longest of 200 answers took %.1f ms", (double) longest_us / 1e3);
  /* It does not drain, or has failed by now: Stop says so, and comes back. */
  answer = bus_session_call (fixture->bus, session, "Stop", NULL, NULL, &error);
  g_assert_null (answer);
  g_test_message ("%s", error->message);
  close (capture);
}

int
main (int argc, char **argv)
{
  if (argc >= 2 && g_str_equal (argv[1], "--fd=3"))
    hostile_worker_main ();
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, data, function)                                                                  \
  g_test_add ("/hostile-worker/" path, Fixture, GUINT_TO_POINTER (data), set_up, function,         \
              tear_down)
  ADD ("packets-that-cannot-be-end-it", 0, packets_that_cannot_be_end_it);
  ADD ("requests-that-cannot-be-end-it", 0, requests_that_cannot_be_end_it);
  ADD ("messages-out-of-turn-end-it", 0, messages_out_of_turn_end_it);
  ADD ("others-stay-closed-to-it", 0, others_stay_closed_to_it);
  ADD ("its-requests-without-end-stop-nobody", HOSTILE_FLOOD, floods_stop_nobody);
  ADD ("its-deafness-stops-nobody", HOSTILE_NEVER_READ, floods_stop_nobody);
  ADD ("its-silence-stops-nobody", HOSTILE_HANG, floods_stop_nobody);
#undef ADD
  return g_test_run ();
}
