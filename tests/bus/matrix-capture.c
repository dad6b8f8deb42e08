/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Cells of the members that are about stored captures. */
#include <unistd.h>

#include "tests/bus/matrix-cells.h"
#include "tests/lib/bus-user.h"

/* No capture has this name. */
#define ABSENT "label-20260102T030405Z-987654.syscap"

/* A capture of the owner's, as a session would have left it: he may not start as many as it takes.
 * Returns: (transfer full): its name */
static char *
make_capture (MatrixCells *self)
{
  g_autofree char *state = g_build_filename (g_getenv ("PRIVATE_BUS_DIR"), "state", NULL);
  char *name = g_strdup_printf ("label-20260102T030405Z-%u%03u.syscap",
                                self->users.uids[MATRIX_OWNER], ++self->n_captures);
  g_autofree char *path = g_build_filename (state, "captures", name, NULL);
  g_autofree char *links = g_strdup_printf ("%s/owners/%u", state, self->users.uids[MATRIX_OWNER]);
  g_autofree char *link = g_build_filename (links, name, NULL);

  g_assert_true (g_file_set_contents (path, "capture", -1, NULL));
  g_assert_cmpint (g_mkdir_with_parents (links, 0700), ==, 0);
  g_assert_cmpint (chown (links, BUS_SERVICE_UID, 0), ==, 0);
  g_assert_cmpint (symlink (path, link), ==, 0);
  return name;
}

/* Whether @bus sees the capture @name of @uid. @may_ask: somebody may be asked for a password */
static gboolean
sees_capture (GDBusConnection *bus, const char *name, uid_t uid, gboolean may_ask)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      bus, "org.sonde.Profiler1", MATRIX_MANAGER_PATH, MATRIX_MANAGER, "ListCaptures", NULL,
      G_VARIANT_TYPE ("(a(ssttu))"),
      may_ask ? G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION : G_DBUS_CALL_FLAGS_NONE,
      BUS_CALL_MS, NULL, &error);
  g_autoptr (GVariantIter) iter = NULL;
  const char *one;
  guint32 owner_uid;
  gboolean is_seen = FALSE;

  g_assert_no_error (error);
  g_variant_get (answer, "(a(ssttu))", &iter);
  while (g_variant_iter_next (iter, "(&s&sttu)", &one, NULL, NULL, NULL, &owner_uid))
    {
      g_assert_cmpint (g_str_equal (one, name), <=, owner_uid == uid);
      is_seen = is_seen || g_str_equal (one, name);
    }
  return is_seen;
}

void
matrix_check_list_captures (MatrixCells *self, const char *member)
{
  g_autofree char *name = make_capture (self);

  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      GDBusConnection *bus = self->users.buses[caller];
      uid_t uid = self->users.uids[MATRIX_OWNER];

      g_assert_cmpint (sees_capture (bus, name, uid, FALSE), ==, caller != MATRIX_OTHER);
      g_assert_cmpint (sees_capture (bus, name, uid, TRUE), ==,
                       matrix_sees_session ((MatrixCaller) caller, self->answer));
      self->n_cells += 2;
    }
}

/* Of a capture of the owner's and of none. */
void
matrix_check_stored_capture (MatrixCells *self, const char *member)
{
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    for (guint is_there = 0; is_there < 2; is_there++)
      {
        g_autofree char *name = is_there ? make_capture (self) : g_strdup (ABSENT);
        g_autofree char *cell
            = g_strdup_printf ("%s of %s capture by %s", member, is_there ? "a" : "no",
                               matrix_caller_name ((MatrixCaller) caller));
        g_autoptr (GError) error = NULL;
        g_autoptr (GVariant) answer = bus_manager_call (self->users.buses[caller], member,
                                                        g_variant_new ("(s)", name), NULL, &error);
        gboolean is_gone = answer != NULL && g_str_equal (member, "RemoveCapture");

        matrix_check_cell (self, cell, (MatrixCaller) caller, MATRIX_BY_CAPTURE, error,
                           matrix_expect_session ((MatrixCaller) caller, is_there, self->answer));
        g_assert_cmpint (sees_capture (self->users.buses[MATRIX_ROOT], name,
                                       self->users.uids[MATRIX_OWNER], FALSE),
                         ==, is_there && !is_gone);
      }
}
