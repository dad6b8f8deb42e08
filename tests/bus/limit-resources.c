/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limits of what one session takes, reached. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared-ring/control-message.h"
#include "tests/bus/limit-rows.h"
#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"
#include "tests/lib/bus-unit.h"
#include "tests/lib/bus-user.h"

/* By number, which asks for no descriptors: a message takes no more of them than this limit. */
void
limit_reach_targets (const char *name)
{
  GVariantBuilder pids;
  GVariantBuilder options;

  g_variant_builder_init (&pids, G_VARIANT_TYPE ("au"));
  for (guint64 i = 0; i <= limit_lookup (name); i++)
    g_variant_builder_add (&pids, "u", (guint32) (i + 1));
  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&options, "{sv}", "pids", g_variant_builder_end (&pids));
  limit_assert_option (g_variant_builder_end (&options), "pids");
}

static gboolean
add_process (GDBusConnection *bus, const char *session, pid_t pid, GError **error)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (pid, "maps", O_RDONLY);
  g_autoptr (GVariant) answer
      = bus_session_call (bus, session, "AddProcess",
                          g_variant_new_parsed ("([(%u, %h)],)", (guint32) pid, 0), fds, error);

  return answer != NULL;
}

void
limit_reach_session_targets (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  guint64 limit = limit_lookup (name);
  g_autofree pid_t *pids = g_new0 (pid_t, limit + 1);
  g_autofree int *life_fds = g_new0 (int, limit + 1);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture;

  bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture, &error);
  g_assert_no_error (error);
  for (guint64 i = 0; i <= limit; i++)
    {
      pids[i] = bus_run (0, limit_target_program, NULL, NULL, &life_fds[i]);
      g_assert_cmpint (add_process (bus, session, pids[i], &error), ==, i < limit);
    }
  limit_assert_refusal (error, name);
  close (capture);
  for (guint64 i = 0; i <= limit; i++)
    {
      bus_end (pids[i], SIGKILL);
      close (life_fds[i]);
    }
}

/* Threads × processors × (samples and side-band): counted before any event is opened. */
void
limit_reach_events (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  guint64 n_threads = limit_lookup (name) / ((guint64) g_get_num_processors () * 2) + 1;
  g_autofree char *argument = g_strdup_printf ("threads=%" G_GUINT64_FORMAT, n_threads);
  const char *arguments[] = { argument, NULL };
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture, life_fd;
  pid_t pid = bus_run (0, limit_target_program, arguments, NULL, &life_fd);

  g_assert_false (bus_profile (bus, g_variant_new_parsed ("{'pids': <[%u]>}", (guint32) pid), NULL,
                               &session, &capture, &error));
  limit_assert_refusal (error, name);
  bus_end (pid, SIGKILL);
  close (life_fd);
}

void
limit_reach_sinks (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  guint64 limit = limit_lookup (name);
  g_autofree int *fds = g_new0 (int, limit + 1);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;

  bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &fds[0], &error);
  g_assert_no_error (error);
  for (guint64 i = 1; i <= limit; i++)
    {
      fds[i] = bus_open_capture (bus, session, g_variant_new_parsed ("@a{sv} {}"), &error);
      g_assert_cmpint (fds[i] >= 0, ==, i < limit);
    }
  limit_assert_refusal (error, name);
  for (guint64 i = 0; i < limit; i++)
    close (fds[i]);
}

/* More processes than a filter takes. */
void
limit_reach_sink_pids (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  GVariantBuilder pids;
  GVariantBuilder options;
  int capture;

  g_variant_builder_init (&pids, G_VARIANT_TYPE ("au"));
  for (guint64 i = 0; i <= limit_lookup (name); i++)
    g_variant_builder_add (&pids, "u", (guint32) (i + 1));
  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&options, "{sv}", "pids", g_variant_builder_end (&pids));

  bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture, &error);
  g_assert_no_error (error);
  g_assert_cmpint (bus_open_capture (bus, session, g_variant_builder_end (&options), &error), <, 0);
  bus_assert_error (error, "InvalidOption");
  g_assert_nonnull (strstr (error->message, "pids"));
  close (capture);
}

/* An option of the same name that is too much. */
void
limit_reach_option (const char *name)
{
  guint64 value = limit_lookup (name) + 8; /* sizes are multiples of it */
  GVariantBuilder options;

  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&options, "{sv}", "launch", g_variant_new_boolean (TRUE));
  g_variant_builder_add (&options, "{sv}", name,
                         g_str_equal (name, "duration") || g_str_has_prefix (name, "recorder")
                             ? g_variant_new_uint64 (value)
                             : g_variant_new_uint32 ((guint32) value));
  limit_assert_option (g_variant_builder_end (&options), name);
}

/* Rings are @name bytes a processor at most, and half of what memory there is for one user. */
void
limit_reach_perf_rings (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  g_autofree char *meminfo = g_build_filename (g_getenv ("PRIVATE_BUS_DIR"), "meminfo", NULL);
  guint64 needed_kib = limit_lookup (name) * g_get_num_processors () * 2 / 1024;
  g_autofree char *text
      = g_strdup_printf ("MemAvailable: %" G_GUINT64_FORMAT " kB\n", needed_kib - 1);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture;

  g_file_set_contents (meminfo, text, -1, &error);
  g_assert_no_error (error);
  /* sonded is in the same mount namespace. */
  g_assert_cmpint (mount (meminfo, "/proc/meminfo", NULL, MS_BIND, NULL), ==, 0);
  g_assert_false (bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session,
                               &capture, &error));
  g_assert_cmpint (umount ("/proc/meminfo"), ==, 0);
  limit_assert_refusal (error, name);
}

/* The events of one session may be half of what its broker can still open. */
void
limit_reach_descriptors (const char *name)
{
  static const char *const arguments[] = { "threads=60", NULL };
  const struct rlimit few = { .rlim_cur = 240, .rlim_max = 240 };
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GArray) brokers = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture, life_fd;
  pid_t pid = bus_run (uid, limit_target_program, arguments, NULL, &life_fd);

  bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture, &error);
  g_assert_no_error (error);
  brokers = bus_list_brokers (bus_service_pid (bus));
  g_assert_cmpuint (brokers->len, ==, 1);
  g_assert_cmpint (prlimit (g_array_index (brokers, pid_t, 0), RLIMIT_NOFILE, &few, NULL), ==, 0);
  fds = bus_open_proc (pid, "maps", O_RDONLY);
  answer = bus_session_call (bus, session, "AddProcess",
                             g_variant_new_parsed ("([(%u, %h)],)", (guint32) pid, 0), fds, &error);
  g_assert_null (answer);
  limit_assert_refusal (error, name);
  close (capture);
  bus_end (pid, SIGKILL);
  close (life_fd);
}

/* Groups 0 … @limit below the unit's are made, or removed. */
static void
crowd_unit (const BusUnit *unit, guint64 limit, gboolean makes)
{
  for (guint64 i = 0; i <= limit; i++)
    {
      g_autofree char *group = g_strdup_printf ("%s/%" G_GUINT64_FORMAT, unit->folder, i);

      g_assert_cmpint (makes ? mkdir (group, 0755) : rmdir (group), ==, 0);
    }
}

/* A unit whose control group has more below it than anybody has use for. Groups are listed only
 * where the kernel does not watch them itself: those of version 1, so version 2 is hidden if that
 * is there. */
void
limit_reach_unit_groups (const char *name)
{
  const char *unified = "/sys/fs/cgroup/unified";
  gboolean is_hybrid = g_file_test (unified, G_FILE_TEST_IS_DIR);
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_auto (BusUnit) unit = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  gboolean is_granted;
  int capture = -1;

  g_assert_true (!is_hybrid || mount ("hidden", unified, "tmpfs", 0, NULL) == 0);
  bus_unit_init (&unit, "crowded.service");
  crowd_unit (&unit, limit_lookup (name), TRUE);
  is_granted = bus_profile (bus, g_variant_new_parsed ("{'unit': <'crowded.service'>}"), NULL,
                            &session, &capture, &error);
  crowd_unit (&unit, limit_lookup (name), FALSE);
  g_assert_true (!is_hybrid || umount (unified) == 0);
  if (is_granted && !is_hybrid)
    {
      g_test_message ("there are control groups of version 2 alone, which nobody lists");
      close (capture);
    }
  else
    limit_assert_refusal (error, name);
}

static void
start_launch (GDBusConnection *bus, char **session, int *capture)
{
  g_autoptr (GError) error = NULL;

  bus_profile (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, session, capture, &error);
  g_assert_no_error (error);
}

void
limit_reach_controls (const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  g_autoptr (GArray) controls = g_array_new (FALSE, FALSE, sizeof (int));
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  guint64 limit = limit_lookup (name);
  int capture, control;

  start_launch (bus, &session, &capture);
  while ((control = bus_open_control (bus, session, &error)) >= 0)
    g_array_append_val (controls, control);
  limit_assert_refusal (error, name);
  g_assert_cmpuint (controls->len, ==, limit);

  /* One that is closed makes room, once the worker has told. */
  close (g_array_index (controls, int, --controls->len));
  do
    g_clear_error (&error);
  while ((control = bus_open_control (bus, session, &error)) < 0);
  close (control);
  for (guint i = 0; i < controls->len; i++)
    close (g_array_index (controls, int, i));
  close (capture);
}

/* A message, and the descriptor that came with it or -1. */
static void
receive_answer (int fd, gpointer bytes, gsize size_bytes, int *received)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control;
  struct iovec iov = { bytes, size_bytes };
  struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const struct cmsghdr *header;

  g_assert_cmpint (recvmsg (fd, &message, MSG_CMSG_CLOEXEC), ==, (gssize) size_bytes);
  header = CMSG_FIRSTHDR (&message);
  *received = -1;
  if (header != NULL)
    memcpy (received, CMSG_DATA (header), sizeof *received);
}

/* Returns the error of the answer. @tid: 0: of all threads */
static int
ask_for_ring (int link, gint32 tid, guint32 size_bytes)
{
  SondeControlRingRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_RING },
          .producer = SONDE_PRODUCER_APPLICATION,
          .tid = tid,
          .size_bytes = size_bytes };
  SondeControlRingAnswer answer;
  int ring;

  g_assert_cmpint (send (link, &request, sizeof request, 0), ==, sizeof request);
  receive_answer (link, &answer, sizeof answer, &ring);
  g_assert_cmpint (answer.error == 0, ==, ring >= 0);
  if (ring >= 0)
    close (ring);
  return answer.error;
}

/* Rings of profiled programs, by number and by memory: a quarter of them is for single
 * threads. Who asks for more is told so, or in the old way gets an end of file. */
void
limit_reach_rings (const char *name)
{
  static const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  guint64 n_rings = limit_lookup (name);
  guint64 ring_memory = limit_lookup ("ring-memory");
  const guint32 large = 16 * 1024 * 1024;
  const guint32 small = 128 * 1024;
  SondeControlHeader answer;
  int capture, control, link;
  guint n = 0;
  char byte;

  start_launch (bus, &session, &capture);
  control = bus_open_control (bus, session, &error);
  g_assert_no_error (error);
  g_assert_cmpint (send (control, &request, sizeof request, 0), ==, sizeof request);
  receive_answer (control, &answer, sizeof answer, &link);

  while (ask_for_ring (link, 1, small) == 0)
    n++;
  g_assert_cmpuint (n, ==, n_rings / 4);
  g_assert_cmpint (ask_for_ring (link, 1, small), ==, -EDQUOT);
  g_assert_cmpint (
      send (control, SONDE_CONTROL_SYSPROF_REQUEST, SONDE_CONTROL_SYSPROF_REQUEST_BYTES, 0), ==,
      SONDE_CONTROL_SYSPROF_REQUEST_BYTES);
  g_assert_cmpint (recv (control, &byte, 1, 0), ==, 0);
  close (control);
  close (link);

  control = bus_open_control (bus, session, &error);
  g_assert_no_error (error);
  g_assert_cmpint (send (control, &request, sizeof request, 0), ==, sizeof request);
  receive_answer (control, &answer, sizeof answer, &link);
  /* Those of the closed link go at the worker's next turn. Then as many as are ample, and smaller
   * ones, which take no more than a quarter. */
  for (n = 0; n < ring_memory / 8 / large;)
    n += ask_for_ring (link, 1, large) == 0;
  while (ask_for_ring (link, 1, large) == 0)
    n++;
  g_assert_cmpuint (n, <, n_rings / 4);
  g_assert_cmpint (ask_for_ring (link, 0, large), ==, 0);
  close (control);
  close (link);
  close (capture);
}
