/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tables of service.c against the interface that the XML describes. */
#include "daemon/control/bus/service.h"
#include "sonde-profiler1-generated.h"

static gsize
count_methods (const GDBusInterfaceInfo *info)
{
  gsize n = 0;

  while (info->methods != NULL && info->methods[n] != NULL)
    n++;
  return n;
}

static gsize
count_properties (const GDBusInterfaceInfo *info)
{
  gsize n = 0;

  while (info->properties != NULL && info->properties[n] != NULL)
    n++;
  return n;
}

static void
test_rows_for_xml (void)
{
  const GDBusInterfaceInfo *infos[]
      = { sonde_dbus_manager_interface_info (), sonde_dbus_session_interface_info () };

  for (gsize i = 0; i < G_N_ELEMENTS (infos); i++)
    {
      for (gsize n = 0; n < count_methods (infos[i]); n++)
        g_assert_nonnull (sonde_service_find (infos[i]->name, infos[i]->methods[n]->name, TRUE));
      for (gsize n = 0; n < count_properties (infos[i]); n++)
        g_assert_nonnull (
            sonde_service_find (infos[i]->name, infos[i]->properties[n]->name, FALSE));
    }
}

static void
test_no_row_too_many (void)
{
  gsize n_methods = 0;
  gsize n_members;
  const SondeMember *members = sonde_service_members (&n_members);
  const GDBusInterfaceInfo *manager = sonde_dbus_manager_interface_info ();
  const GDBusInterfaceInfo *session = sonde_dbus_session_interface_info ();

  for (gsize i = 0; i < n_members; i++)
    n_methods += members[i].handler != NULL;
  g_assert_cmpuint (n_methods, ==, count_methods (manager) + count_methods (session));
  g_assert_cmpuint (n_members - n_methods, ==,
                    count_properties (manager) + count_properties (session));
}

/* GetAll passes one gate for all that it gives. */
static void
test_one_gate (void)
{
  gsize n_members;
  const SondeMember *members = sonde_service_members (&n_members);

  for (gsize i = 0; i < n_members; i++)
    if (members[i].handler == NULL)
      g_assert_cmpint (members[i].gate, ==,
                       sonde_service_find (members[i].interface, NULL, FALSE)->gate);
}

/* No member of a session is open, and what a gate guards fits its arguments. */
static void
test_session_is_guarded (void)
{
  gsize n_members;
  const SondeMember *members = sonde_service_members (&n_members);

  for (gsize i = 0; i < n_members; i++)
    {
      gboolean is_session_gate
          = members[i].gate == SONDE_GATE_USE || members[i].gate == SONDE_GATE_MANAGE;

      g_assert_cmpint (is_session_gate, ==,
                       g_str_equal (members[i].interface, SONDE_SESSION_INTERFACE));
      if (members[i].handler != NULL)
        g_assert_cmpint (members[i].gate, !=, SONDE_GATE_ANYONE);
      else
        g_assert_true ((members[i].get != NULL) != (members[i].fact != NULL));
    }
  g_assert_cmpint (sonde_service_find (SONDE_SESSION_INTERFACE, NULL, FALSE)->gate, ==,
                   SONDE_GATE_USE);
}

static void
test_gates (void)
{
  static const struct
  {
    const char *method;
    SondeGate gate;
  } rights[] = {
    { "Stop", SONDE_GATE_MANAGE },     { "Pause", SONDE_GATE_MANAGE },
    { "Resume", SONDE_GATE_MANAGE },   { "OpenCapture", SONDE_GATE_USE },
    { "OpenControl", SONDE_GATE_USE }, { "AddProcess", SONDE_GATE_USE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rights); i++)
    g_assert_cmpint (sonde_service_find (SONDE_SESSION_INTERFACE, rights[i].method, TRUE)->gate, ==,
                     rights[i].gate);
  g_assert_cmpint (sonde_service_find (SONDE_MANAGER_INTERFACE, "Profile", TRUE)->gate, ==,
                   SONDE_GATE_START);
  g_assert_cmpint (sonde_service_find (SONDE_MANAGER_INTERFACE, "StartSession", TRUE)->gate, ==,
                   SONDE_GATE_START);
  g_assert_cmpint (sonde_service_find (SONDE_MANAGER_INTERFACE, "ListCaptures", TRUE)->gate, ==,
                   SONDE_GATE_LIST_CAPTURES);
  g_assert_cmpint (sonde_service_find (SONDE_MANAGER_INTERFACE, "OpenStoredCapture", TRUE)->gate,
                   ==, SONDE_GATE_CAPTURE);
  g_assert_cmpint (sonde_service_find (SONDE_MANAGER_INTERFACE, "RemoveCapture", TRUE)->gate, ==,
                   SONDE_GATE_CAPTURE);
}

static void
test_foreign_members (void)
{
  g_assert_null (sonde_service_find (SONDE_MANAGER_INTERFACE, "Stop", TRUE));
  g_assert_null (sonde_service_find ("org.freedesktop.DBus", "Profile", TRUE));
  g_assert_null (sonde_service_find (SONDE_MANAGER_INTERFACE, "State", FALSE));
  g_assert_null (sonde_service_find ("", NULL, FALSE));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/method-table/gives-each-method-its-gate", test_gates);
  g_test_add_func ("/method-table/refuses-members-of-others", test_foreign_members);
  g_test_add_func ("/method-table/has-a-row-for-each-member-of-the-xml", test_rows_for_xml);
  g_test_add_func ("/method-table/has-no-row-that-the-xml-lacks", test_no_row_too_many);
  g_test_add_func ("/method-table/guards-all-properties-of-an-interface-alike", test_one_gate);
  g_test_add_func ("/method-table/guards-every-member-of-a-session", test_session_is_guarded);
  return g_test_run ();
}
