/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of processes and threads, their groups, and filters of them. */
#include "client/model/grouping.h"

#include "client/base/unit-name.h"
#include "client/model/sample-filter.h"
#include "client/report/report.h"
#include "tests/unit/capture-builder.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void
control_groups_name_units_and_containers (void)
{
  static const struct
  {
    const char *path;
    const char *unit;
    const char *container;
  } groups[] = {
    { "/system.slice/cron.service", "cron.service", NULL },
    { "/system.slice/cron.service/payload", "cron.service", NULL },
    { "/user.slice/user-1000.slice/user@1000.service/app.slice/app-vim.scope", "app-vim.scope",
      NULL },
    { "/system.slice", "system.slice", NULL },
    { "/", NULL, NULL },
    { "", NULL, NULL },
    { "/machine.slice/libpod-" ID ".scope/container", "libpod-" ID ".scope", "0123456789ab" },
    { "/system.slice/docker-" ID ".scope", "docker-" ID ".scope", "0123456789ab" },
    { "/docker/" ID, NULL, "0123456789ab" },
    { "/machine.slice/machine-web.scope", "machine-web.scope", "web" },
    { "/lxc.payload.mail/init", NULL, "mail" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (groups); i++)
    {
      g_autofree char *unit = sonde_cgroup_dup_unit (groups[i].path);
      g_autofree char *container = sonde_cgroup_dup_container (groups[i].path);

      g_assert_cmpstr (unit, ==, groups[i].unit);
      g_assert_cmpstr (container, ==, groups[i].container);
    }
}

static void
add_tasks (CaptureBuilder *capture, const char *lines)
{
  const SondeFrameOrigin origin = { 1, -1, -1 };

  ADD (sonde_writer_add_file_chunk (capture->writer, &origin, "sonde/tasks", (const guint8 *) lines,
                                    strlen (lines), true));
}

static void
add_thread_sample (CaptureBuilder *capture, gint32 pid, gint32 tid)
{
  const SondeFrameOrigin origin = { 2, 0, pid };
  const guint64 addrs[] = { 0x1000 };

  ADD (sonde_writer_add_sample (capture->writer, &origin, tid, addrs, 1));
}

/* Two services, of which the second forks a child; a thread with a name and one without. */
static CaptureBuilder *
build (void)
{
  const SondeFrameOrigin of_forker = { 1, -1, 6 };
  CaptureBuilder *capture = capture_builder_new ();

  add_process (capture, 5, "web");
  add_process (capture, 6, "cron");
  add_tasks (capture, "cgroup 5 /system.slice/web.service\n"
                      "thread 5 51 1 pool\\\\1\\303\\244\n"
                      "cgroup 6 /system.slice/cron.service\n");
  add_tasks (capture,
             "nonsense\nthread 5\ncgroup\nthread 5 x 1 y\nthread 5 52 1 no end of the line");
  ADD (sonde_writer_add_fork (capture->writer, &of_forker, 7));
  add_thread_sample (capture, 5, 5);
  add_thread_sample (capture, 5, 51);
  add_thread_sample (capture, 5, 52);
  add_thread_sample (capture, 6, 6);
  add_thread_sample (capture, 7, 7);
  return capture;
}

static void
feed (gpointer receiver, const SondeFrame *frame)
{
  sonde_report_add_frame (receiver, frame);
}

static SondeReport *
make_report (const SondeReportOptions *options)
{
  g_autoptr (CaptureBuilder) capture = build ();
  SondeReport *report = sonde_report_new (options, 0);

  capture_foreach (capture, feed, report);
  sonde_report_finish (report, NULL);
  return report;
}

/* "web.service 3, cron.service 2" */
static char *
describe (SondeBy by)
{
  const SondeReportOptions options = { .filter = SONDE_SAMPLE_FILTER_INIT, .by = by };
  g_autoptr (SondeReport) report = make_report (&options);
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < sonde_profile_n_processes (report->profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (report->profile, i);
      g_autofree char *label = sonde_profile_process_dup_label (process);

      g_string_append_printf (out, "%s%s: %d", i > 0 ? ", " : "", label,
                              (int) sonde_call_tree_node (process->tree, 0)->total);
    }
  return g_string_free (out, FALSE);
}

static void
each_level_has_its_groups (void)
{
  static const struct
  {
    SondeBy by;
    const char *groups;
  } levels[] = {
    { SONDE_BY_NONE, "[all processes] (3 processes): 5" },
    { SONDE_BY_CONTAINER, "[no container] (3 processes): 5" },
    { SONDE_BY_UNIT, "web.service (pid 5): 3, cron.service (2 processes): 2" },
    { SONDE_BY_COMMAND, "web (pid 5): 3, cron (2 processes): 2" },
    { SONDE_BY_PROCESS, "web (pid 5): 3, cron (pid 6): 1, cron (pid 7): 1" },
    { SONDE_BY_THREAD,
      "pool\\\\1ä (pid 5, tid 51): 1, web (pid 5, tid 5): 1, web (pid 5, tid 52): 1, "
      "cron (pid 6, tid 6): 1, cron (pid 7, tid 7): 1" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (levels); i++)
    {
      g_autofree char *groups = describe (levels[i].by);

      g_assert_cmpstr (groups, ==, levels[i].groups);
    }
}

static guint64
count (SondeSampleFilter filter)
{
  const SondeReportOptions options = { .filter = filter };
  g_autoptr (SondeReport) report = make_report (&options);

  return sonde_profile_total (report->profile);
}

#define FILTER(...) ((SondeSampleFilter){ .pid = -1, .tid = -1, .to_s = INFINITY, __VA_ARGS__ })

static void
filters_choose_what_they_name (void)
{
  char cron[] = "cron", service[] = "cron.service", web[] = "web", pool[] = "pool\\1ä", cr[] = "cr";

  g_assert_cmpuint (count (FILTER (.unit = cron)), ==, 2);
  g_assert_cmpuint (count (FILTER (.unit = service)), ==, 2);
  g_assert_cmpuint (count (FILTER (.unit = cr)), ==, 0);
  g_assert_cmpuint (count (FILTER (.thread = pool)), ==, 1);
  g_assert_cmpuint (count (FILTER (.thread = web)), ==, 2);
  g_assert_cmpuint (count (FILTER (.container = web)), ==, 0);
  g_assert_cmpuint (count (FILTER (.comm = web, .thread = pool)), ==, 1);
  g_assert_cmpuint (count (FILTER (.comm = cron, .thread = pool)), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/grouping/control-groups-name-units-and-containers",
                   control_groups_name_units_and_containers);
  g_test_add_func ("/grouping/each-level-has-its-groups", each_level_has_its_groups);
  g_test_add_func ("/grouping/filters-choose-what-they-name", filters_choose_what_they_name);
  return g_test_run ();
}
