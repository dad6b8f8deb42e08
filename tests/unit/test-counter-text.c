/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The texts of /proc that counters are made of, and what is none of them. */
#include "daemon/capture/counters/counters.h"

#include <string.h>

#define STAT_BEHIND_NAME                                                                           \
  " R 1 2 3 4 -1 5 6 7 8 9 150 50 0 0 20 0 3 0 4242 999999 25 18446744073709551615 1 0\n"

static SondeCounterText
text_of (const char *text)
{
  return sonde_counter_text (text, strlen (text));
}

static void
leaves_out_what_a_cut_ends_with (void)
{
  SondeCounterText text = text_of ("cpu0 1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 7 8");
  SondeCpuTimes times;

  g_assert_true (sonde_counter_text_next_cpu (&text, &times));
  g_assert_cmpint (times.cpu, ==, 0);
  g_assert_false (sonde_counter_text_next_cpu (&text, &times));
  text = text_of ("no line break");
  g_assert_true (text.at == text.end);
  text = text_of ("");
  g_assert_true (text.at == text.end);
}

static void
reads_processors (void)
{
  SondeCounterText text = text_of ("cpu  10 20 30 400 5 6 7 8 9 10\n"
                                   "cpu0 1 2 3 4 5 6 7 8 0 0\n"
                                   "cpu8191 0 0 0 1 0 0 0 0\n"
                                   "intr 1 2 3\ncpu2 1 2 3 4 5 6 7 8\n");
  SondeCpuTimes times;

  g_assert_true (sonde_counter_text_next_cpu (&text, &times));
  g_assert_cmpint (times.cpu, ==, -1);
  g_assert_cmpuint (times.busy_ticks, ==, 10 + 20 + 30 + 6 + 7 + 8);
  g_assert_cmpuint (times.idle_ticks, ==, 405);
  g_assert_true (sonde_counter_text_next_cpu (&text, &times));
  g_assert_cmpint (times.cpu, ==, 0);
  g_assert_true (sonde_counter_text_next_cpu (&text, &times));
  g_assert_cmpint (times.cpu, ==, 8191);
  /* Those of processors come first. */
  g_assert_false (sonde_counter_text_next_cpu (&text, &times));
}

static void
leaves_out_impossible_processors (void)
{
  static const char *const lines[] = {
    "cpu8192 1 2 3 4 5 6 7 8\n",
    "cpu-1 1 2 3 4 5 6 7 8\n",
    "cpux 1 2 3 4 5 6 7 8\n",
    "cpu0\n",
    "cpu0 1 2 3 4 5 6 7\n",
    "cpu0 1 2 3 -4 5 6 7 8\n",
    "cpu0 1 2 3 4x 5 6 7 8\n",
    "cpu0 1 2 3\t4 5 6 7 8\n",
    "cpu0 1 2 3 18446744073709551616 5 6 7 8\n",
    "cpu0 18446744073709551615 1 3 4 5 6 7 8\n",
    "cpu0 1 2 3 18446744073709551615 5 6 7 8\n",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autofree char *both = g_strconcat (lines[i], "cpu7 1 2 3 4 5 6 7 8\n", NULL);
      SondeCounterText text = text_of (both);
      SondeCpuTimes times;

      g_assert_true (sonde_counter_text_next_cpu (&text, &times));
      g_assert_cmpint (times.cpu, ==, 7);
    }
}

static void
reads_memory_in_any_order (void)
{
  SondeCounterText text = text_of ("SwapFree:        1 kB\nMemTotal:       24684092 kB\n"
                                   "MemFree: 5 kB\nMemAvailable:   20 kB\nSwapTotal: 3 kB\n");
  SondeMemoryAmounts amounts;

  g_assert_true (sonde_counter_text_memory (&text, &amounts));
  g_assert_cmpuint (amounts.total, ==, G_GUINT64_CONSTANT (24684092) * 1024);
  g_assert_cmpuint (amounts.available, ==, 20 * 1024);
  g_assert_cmpuint (amounts.swap_total, ==, 3 * 1024);
  g_assert_cmpuint (amounts.swap_free, ==, 1024);
}

static void
refuses_half_a_memory (void)
{
  static const char *const texts[] = {
    "",
    "MemTotal: 1 kB\nMemAvailable: 1 kB\nSwapTotal: 1 kB\n",
    "MemTotal: 1 kB\nMemAvailable: 1 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB",
    "MemTotal: 1 kB\nMemAvailable: -1 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n",
    "MemTotal: 1 kB\nMemAvailable: 18014398509481984 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n",
    " MemTotal: 1 kB\nMemAvailable: 1 kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n",
  };
  SondeMemoryAmounts amounts;

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      SondeCounterText text = text_of (texts[i]);

      g_assert_false (sonde_counter_text_memory (&text, &amounts));
    }
}

static void
reads_interfaces (void)
{
  SondeCounterText text = text_of (
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets\n"
      "    lo:    6766      58    0    0    0     0          0         0     77      58    0\n"
      "eth0:1 2 3 4 5 6 7 8 9\n"
      "a name of far more than 31 characters:1 2 3 4 5 6 7 8 9\n");
  SondeDeviceBytes device;

  g_assert_true (sonde_counter_text_next_interface (&text, &device));
  g_assert_cmpstr (device.name, ==, "lo");
  g_assert_cmpuint (device.in_bytes, ==, 6766);
  g_assert_cmpuint (device.out_bytes, ==, 77);
  g_assert_true (sonde_counter_text_next_interface (&text, &device));
  g_assert_cmpstr (device.name, ==, "eth0");
  g_assert_cmpuint (device.in_bytes, ==, 1);
  g_assert_cmpuint (device.out_bytes, ==, 9);
  g_assert_true (sonde_counter_text_next_interface (&text, &device));
  g_assert_cmpstr (device.name, ==, "a name of far more than 31 char");
  g_assert_false (sonde_counter_text_next_interface (&text, &device));
}

static void
leaves_out_impossible_interfaces (void)
{
  SondeCounterText text = text_of ("  :1 2 3 4 5 6 7 8 9\neth0 1 2 3 4 5 6 7 8 9\n"
                                   "eth0:1 2 3 4 5 6 7 8\neth0:1 2 3 4 5 6 7 8 -9\n"
                                   "eth0:99999999999999999999 2 3 4 5 6 7 8 9\n\n:\n");
  SondeDeviceBytes device;

  g_assert_false (sonde_counter_text_next_interface (&text, &device));
}

static void
reads_disks (void)
{
  SondeCounterText text
      = text_of ("   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                 " 254       0 vda 1020245 61829 100 1190163 343006 311530 200 424048 0 1 2\n");
  SondeDeviceBytes device;

  g_assert_true (sonde_counter_text_next_disk (&text, &device));
  g_assert_cmpstr (device.name, ==, "loop0");
  g_assert_true (sonde_counter_text_next_disk (&text, &device));
  g_assert_cmpstr (device.name, ==, "vda");
  g_assert_cmpuint (device.in_bytes, ==, 100 * 512);
  g_assert_cmpuint (device.out_bytes, ==, 200 * 512);
  g_assert_false (sonde_counter_text_next_disk (&text, &device));
}

static void
leaves_out_impossible_disks (void)
{
  SondeCounterText text = text_of ("8 0\n8 0 sda\n8 sda 1 2 3 4 5 6 7\n8 0 sda 1 2 3 4 5 6\n"
                                   "8 0 sda 1 2 -3 4 5 6 7\n8 0  1 2 3 4 5 6 7\n"
                                   "8 0 sda 1 2 36028797018963968 4 5 6 7\n\n");
  SondeDeviceBytes device;

  g_assert_false (sonde_counter_text_next_disk (&text, &device));
}

static void
assert_process (const char *name, const char *expected)
{
  g_autofree char *line = g_strdup_printf ("77 (%s)%s", name, STAT_BEHIND_NAME);
  SondeCounterText text = text_of (line);
  SondeProcessAmounts amounts;

  g_assert_true (sonde_counter_text_process (&text, &amounts));
  g_assert_cmpstr (amounts.name, ==, expected);
  g_assert_cmpuint (amounts.run_ticks, ==, 200);
  g_assert_cmpuint (amounts.n_threads, ==, 3);
  g_assert_cmpuint (amounts.start_ticks, ==, 4242);
  g_assert_cmpuint (amounts.resident_pages, ==, 25);
}

static void
reads_processes_of_any_name (void)
{
  assert_process ("bash", "bash");
  assert_process ("", "");
  assert_process ("a) R 1 2 (b", "a) R 1 2 (b");
  assert_process ("new\nline)", "new\nline)");
  assert_process ("a name of far more than 31 characters", "a name of far more than 31 char");
}

static void
refuses_impossible_processes (void)
{
  static const char *const texts[] = {
    "",
    "77\n",
    "77 (a\n",
    ")(\n",
    "77 (a)\n",
    "77 (a) R 1 2\n",
    "77 (a)" STAT_BEHIND_NAME "x", /* what follows the last line break is cut, the rest is whole */
    "77 (a) R 1 2 3 4 -1 5 6 7 8 9 -150 50 0 0 20 0 3 0 4242 999999 25\n",
    "77 (a) R 1 2 3 4 -1 5 6 7 8 9 150 50 0 0 20 0 3 0 4242 999999 2x\n",
    "77 (a) R 1 2 3 4 -1 5 6 7 8 9 18446744073709551614 50 0 0 20 0 3 0 4242 999999 25\n",
  };
  SondeProcessAmounts amounts;

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      SondeCounterText text = text_of (texts[i]);

      g_assert_true (sonde_counter_text_process (&text, &amounts) == (i == 6));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/counter-text/leaves-out-what-a-cut-ends-with",
                   leaves_out_what_a_cut_ends_with);
  g_test_add_func ("/counter-text/cpu/leaves-out-impossible-ones",
                   leaves_out_impossible_processors);
  g_test_add_func ("/counter-text/cpu/reads-all-of-them", reads_processors);
  g_test_add_func ("/counter-text/memory/refuses-half-of-it", refuses_half_a_memory);
  g_test_add_func ("/counter-text/memory/reads-it-in-any-order", reads_memory_in_any_order);
  g_test_add_func ("/counter-text/network/leaves-out-impossible-interfaces",
                   leaves_out_impossible_interfaces);
  g_test_add_func ("/counter-text/network/reads-interfaces", reads_interfaces);
  g_test_add_func ("/counter-text/disk/leaves-out-impossible-ones", leaves_out_impossible_disks);
  g_test_add_func ("/counter-text/disk/reads-those-that-are", reads_disks);
  g_test_add_func ("/counter-text/process/refuses-impossible-ones", refuses_impossible_processes);
  g_test_add_func ("/counter-text/process/takes-any-name", reads_processes_of_any_name);
  return g_test_run ();
}
