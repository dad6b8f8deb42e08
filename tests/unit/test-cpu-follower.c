/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processors that go off and come back, as a file tells that is not the kernel's. */
#include "daemon/broker/cpu-follower.h"

#include <unistd.h>

typedef struct
{
  char *path;
  SondeCpuFollower *follower;
  GString *told;    /* "1 " for each processor that came, "1? " where that was refused */
  int standing;     /* whose events do not count any more; -1: none */
  int refused;      /* what cannot be helped now; -1: none */
  gint64 last_from; /* ns */
} Fixture;

static void
write_online (Fixture *fixture, const char *text)
{
  g_autoptr (GError) error = NULL;

  g_file_set_contents (fixture->path, text, -1, &error);
  g_assert_no_error (error);
}

static gboolean
is_counting (int cpu, gpointer user_data)
{
  return cpu != ((Fixture *) user_data)->standing;
}

static gboolean
came (int cpu, gint64 from_ns, gpointer user_data)
{
  Fixture *fixture = user_data;
  gboolean is_refused = cpu == fixture->refused;

  g_string_append_printf (fixture->told, is_refused ? "%d? " : "%d ", cpu);
  fixture->last_from = from_ns;
  if (cpu == fixture->standing)
    fixture->standing = -1;
  return !is_refused;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  static const SondeCpuFollowerHandler handler = { is_counting, came };
  g_autoptr (GArray) cpus = g_array_new (FALSE, FALSE, sizeof (int));
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("online-XXXXXX", &fixture->path, &error);

  g_assert_no_error (error);
  close (fd);
  write_online (fixture, "0-1\n");
  for (int cpu = 0; cpu < 2; cpu++)
    g_array_append_val (cpus, cpu);
  fixture->told = g_string_new (NULL);
  fixture->standing = fixture->refused = -1;
  fixture->follower = sonde_cpu_follower_new (fixture->path, cpus, &handler, fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_cpu_follower_free (fixture->follower);
  unlink (fixture->path);
  g_free (fixture->path);
  g_string_free (fixture->told, TRUE);
}

static void
look (Fixture *fixture, const char *expected)
{
  g_string_truncate (fixture->told, 0);
  sonde_cpu_follower_look (fixture->follower);
  g_assert_cmpstr (fixture->told->str, ==, expected);
}

static void
ignores_a_list_that_makes_no_sense (Fixture *fixture, gconstpointer data)
{
  static const char *const bad[] = { "", "x\n", "1-0\n", "0-99999999999\n", "0,,1\n" };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      write_online (fixture, bad[i]);
      look (fixture, "");
    }
  unlink (fixture->path);
  look (fixture, "");
  write_online (fixture, "0-1\n");
  look (fixture, "");
}

static void
tells_of_one_that_comes_back (Fixture *fixture, gconstpointer data)
{
  gint64 before_ns = g_get_monotonic_time () * 1000;

  look (fixture, "");
  write_online (fixture, "0\n");
  look (fixture, "");
  look (fixture, "");
  write_online (fixture, "0-1\n");
  look (fixture, "1 ");
  g_assert_cmpint (fixture->last_from, >=, before_ns);
  g_assert_cmpint (fixture->last_from, <=, g_get_monotonic_time () * 1000);
  look (fixture, "");
}

static void
tells_of_one_that_was_off_between_two_looks (Fixture *fixture, gconstpointer data)
{
  fixture->standing = 0;
  look (fixture, "0 ");
  look (fixture, "");
}

static void
tells_of_one_that_never_was_on (Fixture *fixture, gconstpointer data)
{
  write_online (fixture, "0-1,7\n");
  look (fixture, "7 ");
  g_assert_cmpint (fixture->last_from, ==, 0);
  look (fixture, "");
}

static void
tells_again_what_was_refused (Fixture *fixture, gconstpointer data)
{
  fixture->refused = 2;
  write_online (fixture, "0-2\n");
  look (fixture, "2? ");
  look (fixture, "2? ");
  fixture->refused = -1;
  look (fixture, "2 ");
  look (fixture, "");
}

static gboolean
has_told (gpointer user_data)
{
  return ((Fixture *) user_data)->told->len > 0;
}

static gboolean
on_late (gpointer user_data)
{
  g_test_fail_printf ("waited in vain for a look at the processors");
  g_string_append (((Fixture *) user_data)->told, "late");
  return G_SOURCE_REMOVE;
}

static void
looks_by_itself (Fixture *fixture, gconstpointer data)
{
  guint late = g_timeout_add_seconds (30, on_late, fixture);

  write_online (fixture, "0-2\n");
  while (!has_told (fixture))
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (fixture->told->str, ==, "2 ");
  g_source_remove (late);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function)                                                                        \
  g_test_add ("/cpu-follower/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("ignores-a-list-that-makes-no-sense", ignores_a_list_that_makes_no_sense);
  ADD ("tells-of-one-that-comes-back", tells_of_one_that_comes_back);
  ADD ("tells-of-one-that-was-off-between-two-looks", tells_of_one_that_was_off_between_two_looks);
  ADD ("tells-of-one-that-never-was-on", tells_of_one_that_never_was_on);
  ADD ("tells-again-what-was-refused", tells_again_what_was_refused);
  ADD ("looks-by-itself", looks_by_itself);
#undef ADD
  return g_test_run ();
}
