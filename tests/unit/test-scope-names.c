/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Scopes by names that people use, in made-up folders of the kernel. */
#include "client/service/scope-names.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "client/base/unit-name.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "0123ffffffffffff0123456789abcdef0123456789abcdef0123456789abcdef"

typedef struct
{
  char *folder;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  self->folder = g_dir_make_tmp ("sonde-scopes-XXXXXX", NULL);
  g_assert_nonnull (self->folder);
}

static void
remove_all (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *entry;

  while (dir != NULL && (entry = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *below = g_build_filename (path, entry, NULL);

      if (g_file_test (below, G_FILE_TEST_IS_DIR) && !g_file_test (below, G_FILE_TEST_IS_SYMLINK))
        remove_all (below);
      else
        g_unlink (below);
    }
  g_rmdir (path);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  remove_all (self->folder);
  g_free (self->folder);
}

static void
add_group (const Fixture *self, const char *path)
{
  g_autofree char *folder = g_build_filename (self->folder, path, NULL);

  g_assert_cmpint (g_mkdir_with_parents (folder, 0755), ==, 0);
}

static void
add_process (const Fixture *self, const char *pid, const char *comm, gboolean is_readable)
{
  g_autofree char *folder = g_build_filename (self->folder, pid, NULL);
  g_autofree char *name = g_build_filename (folder, "comm", NULL);
  g_autofree char *maps = g_build_filename (folder, "maps", NULL);
  g_autofree char *text = g_strconcat (comm, "\n", NULL);

  g_assert_cmpint (g_mkdir (folder, 0755), ==, 0);
  g_assert_true (g_file_set_contents (name, text, -1, NULL));
  if (is_readable)
    g_assert_true (g_file_set_contents (maps, "", -1, NULL));
}

static void
assert_not_found (const Fixture *self, const char *container, const char *complaint)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *unit = NULL;
  g_autofree char *cgroup = NULL;

  g_assert_false (
      sonde_scope_names_find_container (self->folder, container, &unit, &cgroup, &error));
  g_assert_true (unit == NULL && cgroup == NULL);
  g_assert_nonnull (strstr (error->message, complaint));
}

static void
assert_found (const Fixture *self, const char *container, const char *unit, const char *cgroup)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *found_unit = NULL;
  g_autofree char *found_cgroup = NULL;

  g_assert_true (sonde_scope_names_find_container (self->folder, container, &found_unit,
                                                   &found_cgroup, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (found_unit, ==, unit);
  g_assert_cmpstr (found_cgroup, ==, cgroup);
}

static void
refuses_containers_that_it_cannot_tell (Fixture *self, gconstpointer data)
{
  add_group (self, "machine.slice/libpod-" ID ".scope");
  add_group (self, "system.slice/docker-" OTHER ".scope");
  assert_not_found (self, "0123", "0123 is the beginning of several containers");
  assert_not_found (self, "9999", "No container 9999 runs here");
  assert_not_found (self, "", "No container  runs here");
  assert_not_found (self, "\033", "No container \\x1b runs here");
}

static void
refuses_containers_in_other_hierarchies (Fixture *self, gconstpointer data)
{
  add_group (self, "memory/docker/" ID);
  assert_not_found (self, "01234", "Container 01234 is in no control group of systemd's; -p");
}

static void
paths_are_those_of_systemds_hierarchy (Fixture *self, gconstpointer data)
{
  static const char *const rows[][3] = {
    { "/unified/a.slice", "/a.slice", "/unified/a.slice" },
    { "/systemd/a/b", "/a/b", "/systemd/a/b" },
    { "/memory/a", NULL, "/memory/a" },
    { "/unifiedly/a", NULL, "/unifiedly/a" },
  };
  g_autofree char *mark = g_build_filename (self->folder, "cgroup.controllers", NULL);

  for (guint is_alone = 0; is_alone < 2; is_alone++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
        {
          g_autofree char *path = g_strconcat (self->folder, rows[i][0], NULL);
          g_autofree char *found = sonde_scope_names_dup_cgroup (self->folder, path);

          g_assert_cmpstr (found, ==, rows[i][1 + is_alone]);
        }
      g_assert_true (g_file_set_contents (mark, "", -1, NULL));
    }
  g_assert_null (sonde_scope_names_dup_cgroup (self->folder, "/elsewhere/a"));
}

static void
a_container_without_a_unit_is_its_control_group (Fixture *self, gconstpointer data)
{
  g_autofree char *mark = g_build_filename (self->folder, "cgroup.controllers", NULL);

  add_group (self, "memory/docker/" ID);
  add_group (self, "unified/docker/" ID);
  assert_found (self, "01234", NULL, "/docker/" ID);
  /* Version 2 alone: its groups may have any name. */
  g_assert_true (g_file_set_contents (mark, "", -1, NULL));
  add_group (self, "docker/" OTHER);
  assert_found (self, OTHER, NULL, "/docker/" OTHER);
}

/* Groups that lead back to themselves, or far down, end the search. */
static void
refuses_what_is_too_deep (Fixture *self, gconstpointer data)
{
  g_autoptr (GString) deep = g_string_new ("a");
  g_autofree char *link = g_build_filename (self->folder, "back", NULL);

  for (guint i = 0; i < 20; i++)
    g_string_append (deep, "/a");
  g_string_append (deep, "/docker-" ID ".scope");
  add_group (self, deep->str);
  g_assert_cmpint (symlink (".", link), ==, 0);
  assert_not_found (self, "0123", "No container 0123 runs here");
}

static void
a_container_is_its_unit (Fixture *self, gconstpointer data)
{
  static const struct
  {
    const char *container;
    const char *unit;
  } rows[] = { { "012345", "libpod-" ID ".scope" },
               { ID, "libpod-" ID ".scope" },
               { "0123f", "docker-" OTHER ".scope" },
               { "web", "machine-web.scope" } };

  add_group (self, "machine.slice/libpod-" ID ".scope/container");
  add_group (self, "systemd/machine.slice/libpod-" ID ".scope");
  add_group (self, "system.slice/docker-" OTHER ".scope");
  add_group (self, "machine.slice/machine-web.scope/payload");
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_found (self, rows[i].container, rows[i].unit, NULL);
}

/* Its monitor has a group beside the container's, with the same id. */
static void
what_watches_over_a_container_is_not_it (Fixture *self, gconstpointer data)
{
  static const char *const rows[][2]
      = { { "0123456", "libpod-" ID ".scope" }, { "0123f", "crio-" OTHER ".scope" } };

  add_group (self, "user.slice/libpod-" ID ".scope/container");
  add_group (self, "user.slice/libpod-conmon-" ID ".scope");
  add_group (self, "kubepods.slice/crio-conmon-" OTHER ".scope");
  add_group (self, "kubepods.slice/crio-" OTHER ".scope");
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_found (self, rows[i][0], rows[i][1], NULL);
}

/* One container in two hierarchies, that only one of them has as a unit. */
static void
groups_of_one_id_are_one_container (Fixture *self, gconstpointer data)
{
  add_group (self, "memory/docker/" ID);
  add_group (self, "systemd/system.slice/docker-" ID ".scope");
  assert_found (self, "0123", "docker-" ID ".scope", NULL);
}

static void
machines_are_found_as_people_call_them (Fixture *self, gconstpointer data)
{
  static const char *const rows[][2] = { { "my-box", "machine-my\\x2dbox.scope" },
                                         { "web", "systemd-nspawn@web.service" },
                                         { "a-b", "systemd-nspawn@a-b.service" } };

  add_group (self, "machine.slice/machine-my\\x2dbox.scope/payload");
  add_group (self, "machine.slice/systemd-nspawn@web.service/payload");
  add_group (self, "machine.slice/systemd-nspawn@a-b.service");
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_found (self, rows[i][0], rows[i][1], NULL);
  assert_not_found (self, "my", "No container my runs here");
  assert_not_found (self, "my\\x2dbox", "No container my");
}

static void
a_control_group_names_its_container (void)
{
  static const char *const rows[][2]
      = { { "/machine.slice/libpod-" ID ".scope/container", "0123456789ab" },
          { "/machine.slice/libpod-conmon-" ID ".scope", NULL },
          { "/kubepods.slice/crio-conmon-" ID ".scope", NULL },
          { "/kubepods.slice/crio-" ID ".scope", "0123456789ab" },
          { "/kubepods.slice/cri-containerd-" ID ".scope", "0123456789ab" },
          { "/docker/" ID, "0123456789ab" },
          { "/libpod_parent/conmon-" ID, NULL },
          { "/machine.slice/machine-my\\x2dbox.scope/init.scope", "my-box" },
          { "/machine.slice/machine-a\\x00b\\x2.scope", "a\\x00b\\x2" },
          { "/machine.slice/systemd-nspawn@my\\x2dbox.service/payload", "my-box" },
          { "/machine.slice/systemd-nspawn@.service", NULL },
          { "/machine.slice/machine-.scope", NULL },
          { "/machine.slice/machine-.scop", NULL },
          { "/lxc.payload.a\\x2db/init.scope", "a\\x2db" },
          { "/lxc.payload.", NULL },
          { "/system.slice/cron.service", NULL },
          { "/", NULL },
          { "", NULL } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = sonde_cgroup_dup_container (rows[i][0]);

      g_assert_cmpstr (name, ==, rows[i][1]);
    }
}

static void
assert_pids (const Fixture *self, const char *name, const char *pids)
{
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (GPid));
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  gboolean is_found = sonde_scope_names_add_processes (self->folder, name, found, &error);

  g_assert_true (is_found == (pids[0] != '\0'));
  for (GPid pid = 1; pid < 100; pid++)
    for (guint i = 0; i < found->len; i++)
      if (g_array_index (found, GPid, i) == pid)
        g_string_append_printf (text, "%s%d", text->len > 0 ? " " : "", pid);
  g_assert_cmpstr (text->str, ==, pids);
  if (!is_found)
    g_assert_nonnull (strstr (error->message, "No process is called"));
}

static void
processes_are_found_by_their_name (Fixture *self, gconstpointer data)
{
  add_process (self, "7", "cc1", TRUE);
  add_process (self, "8", "cc1", FALSE);
  add_process (self, "9", "cc1", TRUE);
  add_process (self, "10", "cc1plus", TRUE);
  add_process (self, "11", "a-name-of-15-by", TRUE);
  add_process (self, "12", "closed", FALSE);
  add_process (self, "acpi", "cc1", TRUE);
  assert_pids (self, "nobody", "");
  assert_pids (self, "", "");
  assert_pids (self, "cc1", "7 9");
  assert_pids (self, "a-name-of-15-bytes", "11");
  assert_pids (self, "closed", "12");
}

static void
a_unit_without_a_suffix_is_a_service (void)
{
  static const char *const rows[][2] = { { "cron", "cron.service" },
                                         { "a.b", "a.b.service" },
                                         { "user.slice", "user.slice" },
                                         { "cron.service", "cron.service" },
                                         { "x.socket", "x.socket" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = sonde_unit_name_complete (rows[i][0]);

      g_assert_cmpstr (name, ==, rows[i][1]);
    }
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const char *name;
    void (*func) (Fixture *self, gconstpointer data);
  } cases[] = {
    { "refuses-containers-that-it-cannot-tell", refuses_containers_that_it_cannot_tell },
    { "refuses-containers-in-other-hierarchies", refuses_containers_in_other_hierarchies },
    { "paths-are-those-of-systemds-hierarchy", paths_are_those_of_systemds_hierarchy },
    { "a-container-without-a-unit-is-its-control-group",
      a_container_without_a_unit_is_its_control_group },
    { "refuses-what-is-too-deep", refuses_what_is_too_deep },
    { "a-container-is-its-unit", a_container_is_its_unit },
    { "what-watches-over-a-container-is-not-it", what_watches_over_a_container_is_not_it },
    { "groups-of-one-id-are-one-container", groups_of_one_id_are_one_container },
    { "machines-are-found-as-people-call-them", machines_are_found_as_people_call_them },
    { "processes-are-found-by-their-name", processes_are_found_by_their_name },
  };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/scope-names/", cases[i].name, NULL);

      g_test_add (path, Fixture, NULL, set_up, cases[i].func, tear_down);
    }
  g_test_add_func ("/scope-names/a-control-group-names-its-container",
                   a_control_group_names_its_container);
  g_test_add_func ("/scope-names/a-unit-without-a-suffix-is-a-service",
                   a_unit_without_a_suffix_is_a_service);
  return g_test_run ();
}
