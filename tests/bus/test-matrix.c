/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who may do what: every member that the service shows × every kind of target × every caller ×
 * every answer of polkit. test-matrix TARGET-PROGRAM */
#include <sys/mount.h>

#include "tests/bus/matrix-cells.h"
#include "tests/lib/polkit-answer.h"

/* What a cell of each member does: the list must be the service's own. */
typedef struct
{
  const char *interface;
  const char *member;
  void (*check) (MatrixCells *cells, const char *member);
  const char
      *feature; /* without it in Features those who may get NotSupported; NULL: always there */
} Row;

/* In the order of the calls: Stop is the last that needs a living session. */
static const Row rows[] = {
  { MATRIX_MANAGER, "Profile", matrix_check_start, NULL },
  { MATRIX_MANAGER, "StartSession", matrix_check_start, "start-session" },
  { MATRIX_MANAGER, "ListSessions", matrix_check_list, NULL },
  { MATRIX_MANAGER, "Subscribe", matrix_check_subscribe, NULL },
  { MATRIX_MANAGER, "ListCaptures", matrix_check_list_captures, "start-session" },
  { MATRIX_MANAGER, "OpenStoredCapture", matrix_check_stored_capture, "start-session" },
  { MATRIX_MANAGER, "RemoveCapture", matrix_check_stored_capture, "start-session" },
  { MATRIX_MANAGER, "Version", matrix_check_public_property, NULL },
  { MATRIX_MANAGER, "Events", matrix_check_public_property, NULL },
  { MATRIX_MANAGER, "Features", matrix_check_public_property, NULL },
  { MATRIX_MANAGER, "Limits", matrix_check_public_property, NULL },
  { MATRIX_MANAGER, "Preloads", matrix_check_public_property, NULL },
  { MATRIX_MANAGER, "Statistics", matrix_check_public_property, NULL },
  { MATRIX_SESSION, "State", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "Owner", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "StartTime", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "Description", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "Options", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "Rendezvous", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "CaptureFile", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "Statistics", matrix_check_session_property, NULL },
  { MATRIX_SESSION, "AddProcess", matrix_check_add_process, NULL },
  { MATRIX_SESSION, "OpenControl", matrix_check_session_call, "collectors" },
  { MATRIX_SESSION, "Pause", matrix_check_session_call, "pause" },
  { MATRIX_SESSION, "Resume", matrix_check_session_call, "pause" },
  { MATRIX_SESSION, "Snapshot", matrix_check_snapshot, "recorder" },
  { MATRIX_SESSION, "OpenCapture", matrix_check_open_capture, "open-capture" },
  { MATRIX_SESSION, "Stop", matrix_check_session_call, NULL },
  { MATRIX_SESSION, "Finished", matrix_check_finished, NULL },
  /* There is room for another session of the owner's now. */
  { MATRIX_MANAGER, "SessionNew", matrix_check_told, NULL },
  { MATRIX_MANAGER, "SessionRemoved", matrix_check_told, NULL },
};

static const Row *
find_row (const char *interface, const char *member)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (g_str_equal (rows[i].interface, interface) && g_str_equal (rows[i].member, member))
      return &rows[i];
  return NULL;
}

static GDBusNodeInfo *
introspect (GDBusConnection *bus, const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      bus, "org.sonde.Profiler1", path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL,
      G_VARIANT_TYPE ("(s)"), G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  GDBusNodeInfo *node;
  const char *xml;

  g_assert_no_error (error);
  g_variant_get (answer, "(&s)", &xml);
  node = g_dbus_node_info_new_for_xml (xml, &error);
  g_assert_no_error (error);
  return node;
}

static void
take_member (GPtrArray *shown, const char *interface, const char *member)
{
  if (find_row (interface, member) == NULL)
    {
      g_test_message ("%s.%s has no row in this test", interface, member);
      g_test_fail ();
    }
  g_ptr_array_add (shown, g_strconcat (interface, ".", member, NULL));
}

/* All members of all interfaces of our own at @path. */
static void
take_members (GPtrArray *shown, GDBusConnection *bus, const char *path)
{
  g_autoptr (GDBusNodeInfo) node = introspect (bus, path);

  for (guint i = 0; node->interfaces[i] != NULL; i++)
    {
      const GDBusInterfaceInfo *info = node->interfaces[i];

      if (g_str_has_prefix (info->name, "org.freedesktop.DBus."))
        continue;
      for (guint k = 0; info->methods != NULL && info->methods[k] != NULL; k++)
        take_member (shown, info->name, info->methods[k]->name);
      for (guint k = 0; info->properties != NULL && info->properties[k] != NULL; k++)
        take_member (shown, info->name, info->properties[k]->name);
      for (guint k = 0; info->signals != NULL && info->signals[k] != NULL; k++)
        take_member (shown, info->name, info->signals[k]->name);
    }
}

static void
test_rows (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autoptr (GPtrArray) shown = g_ptr_array_new_with_free_func (g_free);

  take_members (shown, bus, MATRIX_MANAGER_PATH);
  take_members (shown, bus, MATRIX_ABSENT_PATH);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = g_strconcat (rows[i].interface, ".", rows[i].member, NULL);

      if (!g_ptr_array_find_with_equal_func (shown, name, g_str_equal, NULL))
        {
          g_test_message ("the service has no %s", name);
          g_test_fail ();
        }
    }
}

static gboolean
is_supported (GDBusConnection *bus, const char *feature)
{
  g_autoptr (GVariant) features
      = bus_get (bus, MATRIX_MANAGER_PATH, MATRIX_MANAGER, "Features", NULL);
  g_autofree const char **names = g_variant_get_strv (features, NULL);

  return feature == NULL || g_strv_contains (names, feature);
}

static void
test_answer (gconstpointer user_data)
{
  g_auto (MatrixCells) cells = { 0 };

  matrix_cells_init (&cells, (PolkitAnswer) GPOINTER_TO_UINT (user_data));
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      cells.is_supported = is_supported (cells.users.buses[MATRIX_ROOT], rows[i].feature);
      rows[i].check (&cells, rows[i].member);
    }
  g_test_message ("%u cells", cells.n_cells);
}

static void
hide_processes (gboolean hides)
{
  g_assert_cmpint (mount ("proc", "/proc", "proc", MS_REMOUNT, hides ? "hidepid=2" : "hidepid=0"),
                   ==, 0);
}

/* With hidepid a user cannot see what is there; then sonded must not tell him. */
static void
test_hidden_processes (void)
{
  g_auto (MatrixCells) cells = { 0 };

  matrix_cells_init (&cells, POLKIT_DEFAULTS);
  cells.is_supported = TRUE;
  matrix_check_start (&cells, "Profile");
  hide_processes (TRUE);
  cells.is_hidden = TRUE;
  matrix_check_start (&cells, "Profile");
  hide_processes (FALSE);
  g_test_message ("%u cells; refusals of both halves: \"%s\", \"%s\"", cells.n_cells,
                  cells.refusals[MATRIX_BY_PROOF], cells.refusals[MATRIX_BY_NUMBER]);
}

/* Whether the bus has forgotten @user_data, a unique name. */
static gboolean
has_left (gpointer user_data)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);

  return !bus_has_name (bus, user_data);
}

/* polkit says yes, but to somebody who is gone by then. */
static void
test_caller_gone (gconstpointer member)
{
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autoptr (GDBusConnection) user = bus_connect (bus_next_uid ());
  g_autofree char *name = g_strdup (g_dbus_connection_get_unique_name (user));
  g_autoptr (GArray) workers = NULL;
  g_autoptr (GVariant) version = NULL;

  bus_wait_at_rest (bus_service_pid (root)); /* no worker is left of what was before */
  polkit_answer_set (POLKIT_YES);
  polkit_answer_delay (TRUE);
  g_dbus_connection_call (user, "org.sonde.Profiler1", MATRIX_MANAGER_PATH, MATRIX_MANAGER, member,
                          g_variant_new_parsed ("({'system': <true>},)"), NULL,
                          G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, NULL, NULL);
  /* Its answer comes behind the other call, which waits for polkit then. */
  version = bus_get (user, MATRIX_MANAGER_PATH, MATRIX_MANAGER, "Version", NULL);
  g_assert_nonnull (version);
  g_assert_true (g_dbus_connection_close_sync (user, NULL, NULL));
  bus_wait (has_left, name, "the bus forgetting the caller");
  polkit_answer_delay (FALSE);
  g_variant_unref (bus_get (root, MATRIX_MANAGER_PATH, MATRIX_MANAGER, "Version", NULL));
  workers = bus_list_workers (bus_service_pid (root));
  g_assert_cmpuint (workers->len, ==, 0);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  bus_targets_init (argv[1]);

  g_test_add_func ("/matrix/every-member-has-a-row", test_rows);
  g_test_add_func ("/matrix/hidden-processes-stay-hidden", test_hidden_processes);
  g_test_add_data_func ("/matrix/Profile-of-a-caller-who-left", "Profile", test_caller_gone);
  g_test_add_data_func ("/matrix/StartSession-of-a-caller-who-left", "StartSession",
                        test_caller_gone);
  for (guint answer = 0; answer < POLKIT_N_ANSWERS; answer++)
    {
      g_autofree char *path
          = g_strdup_printf ("/matrix/polkit-%s", polkit_answer_name ((PolkitAnswer) answer));

      g_test_add_data_func (path, GUINT_TO_POINTER (answer), test_answer);
    }
  return g_test_run ();
}
