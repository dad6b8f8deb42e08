/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counters for those who may have them: test-counters TARGET-PROGRAM PRIVILEGED-PROGRAM */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/ledger.h"
#include "protocol/reader.h"
#include "tests/lib/bus-target.h"
#include "tests/lib/bus-user.h"

static const char *target_program;
static char *privileged_program;

/* A stream, as it comes: each wait for it is one for a tenth of a second. */
typedef struct
{
  SondeReader *reader;
  int fd;
  gint32 pid;        /* whose process counters are meant */
  GString *names;    /* of all counters but the ledger's, "/Category/Name" one behind the other */
  guint n_machine;   /* CTRSET frames of the machine's counters */
  guint n_processes; /* and of the process's */
  guint n_samples;
} Stream;

static void
stream_init (Stream *self, int fd, gint32 pid)
{
  *self = (Stream){ .fd = fd, .pid = pid, .names = g_string_new (NULL) };
  g_assert_cmpint (fcntl (fd, F_SETFL, 0), ==, 0); /* blocking */
  g_assert_cmpint (sonde_reader_new_fd (fd, &self->reader), ==, 0);
}

static void
stream_clear (Stream *self)
{
  sonde_reader_free (self->reader);
  close (self->fd);
  g_string_free (self->names, TRUE);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Stream, stream_clear)

static void
take_definitions (Stream *self, const SondeFrameCounterDefine *define)
{
  for (guint i = 0; i < define->n_counters; i++)
    if (!g_str_equal (define->counters[i].category, SONDE_LEDGER_CATEGORY))
      g_string_append_printf (self->names, "/%s/%s", define->counters[i].category,
                              define->counters[i].name);
}

static void
take_values (Stream *self, const SondeFrameCounterSet *set)
{
  if (set->frame.pid == self->pid)
    self->n_processes++;
  else if (set->frame.pid == -1 && set->groups[0].ids[0] > SONDE_N_LEDGER)
    self->n_machine++;
  else
    g_assert_cmpint (set->frame.pid, ==, -1);
}

/* The next frame; FALSE at the end of the stream. */
static gboolean
take (Stream *self)
{
  const SondeFrame *frame;
  int r = sonde_reader_next (self->reader, &frame);

  g_assert_cmpint (r, >=, 0);
  if (r == 0)
    return FALSE;
  if (frame->type == SONDE_FRAME_CTRDEF)
    take_definitions (self, (const SondeFrameCounterDefine *) frame);
  if (frame->type == SONDE_FRAME_CTRSET)
    take_values (self, (const SondeFrameCounterSet *) frame);
  self->n_samples += frame->type == SONDE_FRAME_SAMPLE;

  return TRUE;
}

/* Until there are @n more readings of the machine's. */
static void
take_readings (Stream *self, guint n)
{
  guint until = self->n_machine + n;

  while (self->n_machine < until)
    g_assert_true (take (self));
}

static void
assert_has (const Stream *self, const char *name)
{
  g_test_message ("%s in %s", name, self->names->str);
  g_assert_nonnull (strstr (self->names->str, name));
}

/* --- cases --- */

static void
assert_refused (GDBusConnection *bus, const char *options, const char *error_name)
{
  g_autoptr (GError) error = NULL;
  char *session = NULL;
  int capture = -1;

  g_assert_false (
      bus_profile (bus, g_variant_new_parsed (options), NULL, &session, &capture, &error));
  bus_assert_error (error, error_name);
  g_assert_nonnull (strstr (error->message, "counters"));
}

static void
test_refusals (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);

  assert_refused (bus, "{'system': <true>, 'counters': <['gpu']>}", "InvalidOption");
  assert_refused (bus, "{'system': <true>, 'counters': <'cpu'>}", "InvalidOption");
  assert_refused (bus, "{'system': <true>, 'counters': <['process']>}", "InvalidOption");
  assert_refused (bus, "{'unit': <'a.service'>, 'counters': <['process']>}", "InvalidOption");
}

static void
test_user (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (Stream) stream = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *own = NULL;
  int capture;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target,
                   g_variant_new_parsed ("{'event': <'none'>, 'counters': <['cpu', 'memory',"
                                         " 'network', 'disk', 'process']>}"),
                   &session, &capture);
  stream_init (&stream, capture, user.target);
  take_readings (&stream, 5);
  g_variant_unref (bus_stop (user.bus, session));
  while (take (&stream))
    continue;
  g_assert_cmpuint (stream.n_samples, ==, 0);
  g_assert_cmpuint (stream.n_processes, >=, 3);
  assert_has (&stream, "/CPU Percent/Total CPU 0");
  assert_has (&stream, "/CPU Percent/Combined");
  assert_has (&stream, "/Memory/Used");
  assert_has (&stream, "/Network/RX Bytes (lo)");
  own = g_strdup_printf ("/Process/CPU Percent (%d ", user.target);
  assert_has (&stream, own);
}

static void
test_only_what_was_asked_for (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (Stream) stream = { 0 };
  g_autofree char *session = NULL;
  int capture;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_profile_pid (user.bus, user.target, g_variant_new_parsed ("{'counters': <['memory']>}"),
                   &session, &capture);
  stream_init (&stream, capture, user.target);
  take_readings (&stream, 3);
  g_variant_unref (bus_stop (user.bus, session));
  while (take (&stream))
    continue;
  g_assert_cmpstr (stream.names->str, ==, "/Memory/Used/Memory/Available/Memory/Swap Used");
  g_assert_cmpuint (stream.n_processes, ==, 0);
}

static void
test_late_reader (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (Stream) first = { 0 };
  g_auto (Stream) late = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  int capture;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target,
                   g_variant_new_parsed ("{'counters': <['cpu', 'process']>}"), &session, &capture);
  stream_init (&first, capture, user.target);
  take_readings (&first, 3);
  capture = bus_open_capture (user.bus, session,
                              g_variant_new_parsed ("{'frames': <['counters']>}"), &error);
  g_assert_no_error (error);
  stream_init (&late, capture, user.target);
  take_readings (&late, 3);
  g_assert_cmpuint (late.n_processes, >=, 2);
  g_assert_cmpuint (late.n_samples, ==, 0);
  g_assert_cmpstr (late.names->str, ==, first.names->str);
  g_variant_unref (bus_stop (user.bus, session));
}

/* A reading may come between an exec and the record of it. Then never again, where the kernel would
 * refuse the user's own programs; for ever where it would not. */
static void
profile_exec (const char *program, gboolean goes_on)
{
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  g_autofree char *argument = g_strconcat ("exec=", program, NULL);
  const char *arguments[] = { argument, NULL };
  g_auto (Stream) stream = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *link = NULL;
  g_autofree char *path = NULL;
  int life_fd;
  int capture;
  pid_t pid = bus_run (uid, target_program, arguments, NULL, &life_fd);
  guint n_before;

  bus_profile_pid (bus, pid,
                   g_variant_new_parsed ("{'event': <'none'>, 'counters': <['cpu', 'process']>}"),
                   &session, &capture);
  stream_init (&stream, capture, pid);
  take_readings (&stream, 3);
  g_assert_cmpuint (stream.n_processes, >, 0);

  g_assert_cmpint (write (life_fd, "", 1), ==, 1);
  link = g_strdup_printf ("/proc/%d/exe", pid);
  do
    {
      take_readings (&stream, 1);
      g_free (path);
      path = g_file_read_link (link, NULL);
    }
  while (g_strcmp0 (path, program) != 0);
  take_readings (&stream, 5);
  n_before = stream.n_processes;
  take_readings (&stream, 5);
  g_assert_cmpuint (stream.n_processes - n_before, ==, goes_on ? 5 : 0);
  g_variant_unref (bus_stop (bus, session));
  bus_end (pid, SIGKILL);
  close (life_fd);
}

static void
test_privileged_exec (void)
{
  profile_exec (privileged_program, FALSE);
}

static void
test_plain_exec (void)
{
  g_autofree char *sleeper = g_find_program_in_path ("cat");
  g_autofree char *real = realpath (sleeper, NULL);

  profile_exec (real, TRUE);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 3);
  target_program = argv[1];
  bus_targets_init (target_program);
  privileged_program = bus_copy_program (argv[2], "privileged", 04755);
  g_test_add_func ("/counters/refuses-what-there-is-not", test_refusals);
  g_test_add_func ("/counters/gives-a-user-the-machines-and-his-own", test_user);
  g_test_add_func ("/counters/gives-only-what-was-asked-for", test_only_what_was_asked_for);
  g_test_add_func ("/counters/passes-a-filter-and-comes-to-late-readers", test_late_reader);
  g_test_add_func ("/counters/ends-when-a-target-gains-rights", test_privileged_exec);
  g_test_add_func ("/counters/goes-on-when-a-target-executes-a-plain-program", test_plain_exec);
  return g_test_run ();
}
