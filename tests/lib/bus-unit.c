/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/bus-unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"

/* Where control groups can be made here: version 2, else systemd's own of version 1. */
static const char *
find_hierarchy (void)
{
  static const char *const roots[]
      = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd" };

  for (guint i = 0; i < G_N_ELEMENTS (roots); i++)
    {
      g_autofree char *path = g_build_filename (roots[i], "cgroup.procs", NULL);

      if (access (path, W_OK) == 0)
        return roots[i];
    }
  g_error ("no control groups at /sys/fs/cgroup");
}

void
bus_unit_init (BusUnit *self, const char *name)
{
  self->group = g_strdup_printf ("/sonde-test-%08x-%s", g_random_int (), name);
  self->folder = g_strconcat (find_hierarchy (), self->group, NULL);
  g_assert_cmpint (mkdir (self->folder, 0755), ==, 0);
  fake_systemd_start (&self->systemd, name, self->group);
}

static gboolean
is_removed (gpointer user_data)
{
  /* Somebody may still be dying in it. */
  return rmdir (((const BusUnit *) user_data)->folder) == 0;
}

void
bus_unit_clear (BusUnit *self)
{
  fake_systemd_clear (&self->systemd);
  bus_wait (is_removed, self, "the end of the unit");
  g_free (self->group);
  g_free (self->folder);
}

void
bus_unit_add (const BusUnit *self, pid_t pid)
{
  g_autofree char *path = g_build_filename (self->folder, "cgroup.procs", NULL);
  FILE *procs = fopen (path, "we");

  g_assert_nonnull (procs);
  g_assert_cmpint (fprintf (procs, "%d", (int) pid), >, 0);
  g_assert_cmpint (fclose (procs), ==, 0);
}
