/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures how long a user waits for an answer while another one asks for something else all the
 * time: flood [CALLS-A-SECOND], below tests/lib/private-bus. With 0 nobody else asks. */
#include <gio/gio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE "org.sonde.Profiler1"
#define MANAGER "/org/sonde/Profiler1"

enum
{
  N_PINGS = 1000,
  PAUSE_US = 3000, /* between them */
  DEFAULT_RATE = 1000,
  CALLER_UID = 50001,
  FLOODER_UID = 50002,
};

static GDBusConnection *
connect_bus (void)
{
  g_autoptr (GError) error = NULL;
  GDBusConnection *bus = g_dbus_connection_new_for_address_sync (
      g_getenv ("DBUS_SYSTEM_BUS_ADDRESS"),
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT
          | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
      NULL, NULL, &error);

  if (bus == NULL)
    g_error ("%s", error->message);
  return bus;
}

static void
become (uid_t uid)
{
  if (setresgid (uid, uid, uid) < 0 || setresuid (uid, uid, uid) < 0)
    g_error ("cannot become uid %u", (guint) uid);
}

/* It wants no answers: nothing slows it down. */
static void
flood (guint calls_a_second)
{
  GDBusConnection *bus;
  gint64 begin_us;

  prctl (PR_SET_PDEATHSIG, SIGKILL);
  become (FLOODER_UID);
  bus = connect_bus ();
  begin_us = g_get_monotonic_time ();
  for (guint64 n = 1;; n++)
    {
      gint64 wait_us
          = begin_us + (gint64) (n * G_USEC_PER_SEC / calls_a_second) - g_get_monotonic_time ();

      g_dbus_connection_call (bus, SERVICE, MANAGER, SERVICE ".Manager", "Profile",
                              g_variant_new_parsed ("({'label': <'flood'>, 'pids': <[@u 1]>},)"),
                              NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL, NULL);
      if (wait_us > 0)
        g_usleep ((gulong) wait_us);
    }
}

static int
compare (gconstpointer a, gconstpointer b)
{
  gint64 first = *(const gint64 *) a, second = *(const gint64 *) b;

  return (first > second) - (first < second);
}

static void
ping (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_sync (bus, SERVICE, MANAGER, "org.freedesktop.DBus.Properties",
                                     "Get", g_variant_new ("(ss)", SERVICE ".Manager", "Version"),
                                     NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);

  if (answer == NULL)
    g_error ("%s", error->message);
}

/* Returns: ms, of N_PINGS answers what 99 of 100 take at most */
static double
measure (GDBusConnection *bus)
{
  static gint64 taken_us[N_PINGS];

  for (guint i = 0; i < N_PINGS; i++)
    {
      gint64 begin_us = g_get_monotonic_time ();

      ping (bus);
      taken_us[i] = g_get_monotonic_time () - begin_us;
      g_usleep (PAUSE_US);
    }
  qsort (taken_us, N_PINGS, sizeof *taken_us, compare);
  return (double) taken_us[N_PINGS * 99 / 100] / 1e3;
}

int
main (int argc, char **argv)
{
  guint rate = argc > 1 ? (guint) atoi (argv[1]) : DEFAULT_RATE;
  g_autoptr (GDBusConnection) bus = NULL;
  double quiet_ms;
  pid_t flooder;

  /* Before there are threads. */
  flooder = rate > 0 ? fork () : 0;
  if (flooder == 0 && rate > 0)
    {
      raise (SIGSTOP);
      flood (rate);
    }
  become (CALLER_UID);
  bus = connect_bus ();
  ping (bus);
  quiet_ms = measure (bus);
  if (rate == 0)
    {
      printf ("bench ping p99_ms=%.2f\n", quiet_ms);
      return EXIT_SUCCESS;
    }
  kill (flooder, SIGCONT);
  printf ("bench flood p99_ms=%.2f quiet_p99_ms=%.2f calls_per_s=%u\n", measure (bus), quiet_ms,
          rate);
  return EXIT_SUCCESS;
}
