/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Cells of the members that start a session: by whom, of what. */
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/bus/matrix-cells.h"
#include "tests/lib/bus-unit.h"

/* A call that starts a session, which is stopped if it is granted. */
static GError *
try_start (GDBusConnection *bus, const char *member, GVariant *options, GUnixFDList *fds)
{
  g_autoptr (GUnixFDList) answer_fds = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autofree char *session = NULL;
  GError *error = NULL;

  answer = g_dbus_connection_call_with_unix_fd_list_sync (
      bus, "org.sonde.Profiler1", MATRIX_MANAGER_PATH, MATRIX_MANAGER, member,
      g_variant_new ("(@a{sv})", options), NULL, G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, fds,
      &answer_fds, NULL, &error);
  if (answer == NULL)
    return error;
  g_variant_get_child (answer, 0, "o", &session);
  g_variant_unref (bus_stop (bus, session));
  return NULL;
}

/* One cell of a member that starts a session. */
typedef struct
{
  MatrixCells *cells;
  const char *member;
  const MatrixUsers *users;
  const BusTarget *target; /* NULL: none in particular */
  MatrixCaller caller;
} Start;

static void
check_start_cell (
    const Start *self, MatrixWay way, GVariant *options, GUnixFDList *fds, const char *expected)
{
  static const char *const ways[] = { "by proof", "by number", "by unit", "as a whole" };
  g_autofree char *cell
      = g_strdup_printf ("%s of %s %s by %s", self->member,
                         self->target ? bus_target_kind_name (self->target->kind) : "the machine",
                         ways[way], matrix_caller_name (self->caller));
  g_autoptr (GError) error
      = try_start (self->users->buses[self->caller], self->member, options, fds);

  matrix_check_cell (self->cells, cell, self->caller, way, error, expected);
}

/* @proof: consumed */
static void
check_with_proof (const Start *self, int proof, const char *expected)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new_from_array (&proof, 1);

  check_start_cell (
      self, MATRIX_BY_PROOF,
      g_variant_new_parsed ("{'targets': <[(%u, %h)]>}", (guint32) self->target->pid, 0), fds,
      expected);
}

static int
open_path_only (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  int fd = open (path, O_PATH | O_CLOEXEC);

  /* Of the dead nothing can be opened any more; anything is as good. */
  return fd >= 0 ? fd : open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

/* By the kernel's own proof, or where the kernel refuses it by what a cheat may have: a descriptor
 * that gives no byte, and one that root has opened and given away. */
static void
check_by_proof (const Start *self)
{
  BusTargetKind kind = self->target->kind;
  int proof = bus_target_open_proof (self->target, self->users->uids[self->caller]);

  if ((proof >= 0) != matrix_has_proof (kind, self->caller, self->cells->is_hidden))
    g_error ("maps of %s, opened by %s: the kernel does not do as the model says",
             bus_target_kind_name (kind), matrix_caller_name (self->caller));
  if (proof >= 0)
    {
      check_with_proof (self, proof, matrix_expect_proof (kind, self->caller, self->cells->answer));
      return;
    }
  check_with_proof (self, open_path_only (self->target->pid), "NotAuthorized");
  check_with_proof (self, bus_target_open_proof (self->target, 0), "NotAuthorized");
}

/* A proof of another procfs, as a client in a container has it: it is told what is wrong. */
static void
check_foreign_procfs (const Start *self)
{
  g_autofree char *folder = g_build_filename (g_getenv ("PRIVATE_BUS_DIR"), "proc", NULL);
  g_autofree char *maps = g_strdup_printf ("%s/self/maps", folder);
  g_autoptr (GUnixFDList) fds = NULL;
  int proof;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0755), ==, 0);
  g_assert_cmpint (mount ("proc", folder, "proc", 0, NULL), ==, 0);
  proof = open (maps, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (proof, >=, 0);
  g_assert_cmpint (umount2 (folder, MNT_DETACH), ==, 0); /* sonded does not see it either */
  fds = g_unix_fd_list_new_from_array (&proof, 1);
  check_start_cell (self, MATRIX_BY_PROOF,
                    g_variant_new_parsed ("{'targets': <[(%u, %h)]>}", (guint32) getpid (), 0), fds,
                    matrix_expect_foreign_procfs (self->caller, self->cells->answer));
}

static void
check_by_number (const Start *self)
{
  check_start_cell (self, MATRIX_BY_NUMBER,
                    g_variant_new_parsed ("{'pids': <[%u]>}", (guint32) self->target->pid), NULL,
                    matrix_expect_number (self->target->kind, self->caller, self->cells->answer));
}

/* Starts cost most of the time. The twin is the same uid as the owner, and polkit is not asked
 * about root: so these are tried under every answer in the long variant only. */
static gboolean
is_tried (const MatrixCells *self, guint caller)
{
  if (bus_is_long () || caller == MATRIX_OWNER || caller == MATRIX_OTHER)
    return TRUE;
  return !self->is_hidden && (self->answer == POLKIT_DEFAULTS || self->answer == POLKIT_ABSENT);
}

static void
check_start_of_kind (MatrixCells *self, const char *member, BusTargetKind kind)
{
  g_auto (MatrixUsers) users = { 0 };
  g_auto (BusTarget) target = { 0 };

  matrix_users_init (&users);
  bus_target_init (&target, kind, users.uids[MATRIX_OWNER], users.uids[MATRIX_OTHER]);
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      const Start start = { self, member, &users, &target, (MatrixCaller) caller };

      if (!is_tried (self, caller))
        continue;
      check_by_proof (&start);
      check_by_number (&start);
    }
}

static void
check_start_in_container (MatrixCells *self, const char *member)
{
  g_auto (MatrixUsers) users = { 0 };

  matrix_users_init (&users);
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    check_foreign_procfs (&(Start){ self, member, &users, NULL, (MatrixCaller) caller });
}

/* A unit that is there, with a process of root's, and one that is not. */
static void
check_start_of_unit (MatrixCells *self, const char *member)
{
  g_auto (MatrixUsers) users = { 0 };
  g_auto (BusUnit) unit = { 0 };
  g_auto (BusTarget) target = { 0 };

  matrix_users_init (&users);
  bus_unit_init (&unit, "there.service");
  bus_target_init (&target, BUS_TARGET_ROOTS, users.uids[MATRIX_OWNER], users.uids[MATRIX_OTHER]);
  bus_unit_add (&unit, target.pid);
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      const Start start = { self, member, &users, NULL, (MatrixCaller) caller };

      if (!is_tried (self, caller))
        continue;
      check_start_cell (&start, MATRIX_BY_UNIT,
                        g_variant_new_parsed ("{'unit': <'there.service'>}"), NULL,
                        matrix_expect_unit (TRUE, start.caller, self->answer));
      check_start_cell (&start, MATRIX_BY_UNIT,
                        g_variant_new_parsed ("{'unit': <'absent.service'>}"), NULL,
                        matrix_expect_unit (FALSE, start.caller, self->answer));
    }
}

static void
check_start_of_system (MatrixCells *self, const char *member)
{
  g_auto (MatrixUsers) users = { 0 };

  matrix_users_init (&users);
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      const Start start = { self, member, &users, NULL, (MatrixCaller) caller };

      if (!is_tried (self, caller))
        continue;
      check_start_cell (&start, MATRIX_AS_A_WHOLE, g_variant_new_parsed ("{'system': <true>}"),
                        NULL, matrix_expect_system (start.caller, self->answer));
    }
}

void
matrix_check_start (MatrixCells *self, const char *member)
{
  if (!self->is_supported)
    {
      g_test_message ("%s is not supported", member);
      return;
    }
  for (guint kind = 0; kind < BUS_N_TARGETS; kind++)
    check_start_of_kind (self, member, (BusTargetKind) kind);
  check_start_in_container (self, member);
  check_start_of_unit (self, member);
  check_start_of_system (self, member);
}
