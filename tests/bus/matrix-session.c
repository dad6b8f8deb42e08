/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Cells of the members of a session, and of the properties that all may read. */
#include <unistd.h>

#include "tests/bus/matrix-cells.h"
#include "tests/lib/bus-user.h"

void
matrix_check_public_property (MatrixCells *self, const char *member)
{
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GVariant) value = bus_get (self->users.buses[caller], MATRIX_MANAGER_PATH,
                                            MATRIX_MANAGER, member, &error);

      g_assert_true ((value != NULL) == (error == NULL));
      matrix_check_cell (self, member, (MatrixCaller) caller, MATRIX_AS_A_WHOLE, error, NULL);
    }
}

/* Whether all of the owner's sessions are in @paths, separated by spaces; else none may be. */
static gboolean
has_sessions (const MatrixCells *self, const char *paths)
{
  g_auto (GStrv) list = g_strsplit (paths, " ", -1);
  guint n_found = 0;

  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    n_found += g_strv_contains ((const char *const *) list, self->sessions[i]);
  g_assert_true (n_found == 0 || n_found == MATRIX_N_CALLERS);
  return n_found > 0;
}

/* polkit is asked only by those who may wait for an answer. */
void
matrix_check_list (MatrixCells *self, const char *member)
{
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      g_autofree char *at_once = bus_list_paths (self->users.buses[caller]);
      g_autofree char *asked_for = bus_list_all_paths (self->users.buses[caller]);

      g_assert_cmpint (has_sessions (self, at_once), ==, caller != MATRIX_OTHER);
      g_assert_cmpint (has_sessions (self, asked_for), ==,
                       matrix_sees_session ((MatrixCaller) caller, self->answer));
      self->n_cells += 2;
    }
}

void
matrix_check_subscribe (MatrixCells *self, const char *member)
{
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    {
      g_autoptr (GError) error = NULL;

      bus_subscribe (self->users.buses[caller], TRUE, &error);
      matrix_check_cell (self, member, (MatrixCaller) caller, MATRIX_AS_A_WHOLE, error, NULL);
    }
}

typedef struct
{
  const MatrixCells *cells;
  char *session; /* a new one of the owner's, without a process */
  int capture;
  guint n_told[MATRIX_N_CALLERS];
  guint n_states[MATRIX_N_CALLERS]; /* changes of its state */
} Told;

static void
count_told (GDBusConnection *bus,
            const char *sender,
            const char *path,
            const char *interface,
            const char *signal,
            GVariant *arguments,
            gpointer user_data)
{
  Told *self = user_data;
  const char *session;

  g_variant_get (arguments, "(&o)", &session);
  /* Earlier ones may go, too. */
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    self->n_told[i]
        += self->cells->users.buses[i] == bus && g_strcmp0 (session, self->session) == 0;
}

static void
count_state (GDBusConnection *bus,
             const char *sender,
             const char *path,
             const char *interface,
             const char *signal,
             GVariant *arguments,
             gpointer user_data)
{
  Told *self = user_data;

  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    self->n_states[i] += self->cells->users.buses[i] == bus && g_strcmp0 (path, self->session) == 0;
}

/* A user may start only so many at once. */
static gboolean
may_start (gpointer user_data)
{
  Told *self = user_data;

  return bus_profile (self->cells->users.buses[MATRIX_OWNER],
                      g_variant_new_parsed ("{'launch': <true>}"), NULL, &self->session,
                      &self->capture, NULL);
}

static gboolean
are_told (gpointer user_data)
{
  const Told *self = user_data;

  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    if (matrix_sees_session ((MatrixCaller) i, self->cells->answer) && self->n_told[i] == 0)
      return FALSE;
  return TRUE;
}

void
matrix_check_told (MatrixCells *self, const char *member)
{
  Told told = { .cells = self };
  guint watches[MATRIX_N_CALLERS];
  guint states[MATRIX_N_CALLERS];

  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    states[i] = g_dbus_connection_signal_subscribe (
        self->users.buses[i], "org.sonde.Profiler1", "org.freedesktop.DBus.Properties",
        "PropertiesChanged", NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE, count_state, &told, NULL);
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    watches[i] = g_dbus_connection_signal_subscribe (
        self->users.buses[i], "org.sonde.Profiler1", MATRIX_MANAGER, member, MATRIX_MANAGER_PATH,
        NULL, G_DBUS_SIGNAL_FLAGS_NONE, count_told, &told, NULL);
  polkit_answer_set (POLKIT_DEFAULTS);
  bus_wait (may_start, &told, "another session of the owner's");
  g_variant_unref (bus_stop (self->users.buses[MATRIX_OWNER], told.session));
  close (told.capture);
  polkit_answer_set (self->answer);
  bus_wait (are_told, &told, "subscribers hearing of a session");
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    {
      /* What was sent to it has come before the answer. */
      g_variant_unref (
          bus_get (self->users.buses[i], MATRIX_MANAGER_PATH, MATRIX_MANAGER, "Version", NULL));
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_assert_cmpuint (told.n_told[i], ==,
                        matrix_sees_session ((MatrixCaller) i, self->answer) ? 1 : 0);
      g_assert_cmpint (told.n_states[i] > 0, ==,
                       matrix_sees_session ((MatrixCaller) i, self->answer));
      g_dbus_connection_signal_unsubscribe (self->users.buses[i], states[i]);
      g_dbus_connection_signal_unsubscribe (self->users.buses[i], watches[i]);
      self->n_cells++;
    }
  g_free (told.session);
}

/* One call on a session that is there, and on one that is not. */
typedef GVariant *(*SessionCall) (
    MatrixCells *self, GDBusConnection *bus, const char *path, const char *member, GError **error);

static void
check_call (MatrixCells *self, const char *member, SessionCall call)
{
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    for (guint is_there = 0; is_there < 2; is_there++)
      {
        const char *expected
            = matrix_expect_session ((MatrixCaller) caller, is_there, self->answer);
        g_autofree char *cell
            = g_strdup_printf ("%s of %s session by %s", member, is_there ? "a" : "no",
                               matrix_caller_name ((MatrixCaller) caller));
        g_autoptr (GError) error = NULL;
        g_autoptr (GVariant) answer
            = call (self, self->users.buses[caller],
                    is_there ? self->sessions[caller] : MATRIX_ABSENT_PATH, member, &error);

        g_assert_true ((answer != NULL) == (error == NULL));
        if (expected == NULL && !self->is_supported)
          expected = "NotSupported";
        matrix_check_cell (self, cell, (MatrixCaller) caller, MATRIX_BY_SESSION, error, expected);
      }
}

static GVariant *
call_get (
    MatrixCells *self, GDBusConnection *bus, const char *path, const char *member, GError **error)
{
  return bus_get (bus, path, MATRIX_SESSION, member, error);
}

void
matrix_check_session_property (MatrixCells *self, const char *member)
{
  check_call (self, member, call_get);
}

static GVariant *
call_plain (
    MatrixCells *self, GDBusConnection *bus, const char *path, const char *member, GError **error)
{
  return bus_session_call (bus, path, member, NULL, NULL, error);
}

void
matrix_check_session_call (MatrixCells *self, const char *member)
{
  check_call (self, member, call_plain);
}

static GVariant *
call_add_process (
    MatrixCells *self, GDBusConnection *bus, const char *path, const char *member, GError **error)
{
  g_auto (BusTarget) target = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;
  int proof;

  bus_target_init (&target, BUS_TARGET_OWN, self->users.uids[MATRIX_OWNER],
                   self->users.uids[MATRIX_OTHER]);
  proof = bus_target_open_proof (&target, self->users.uids[MATRIX_OWNER]);
  fds = g_unix_fd_list_new_from_array (&proof, 1);
  return bus_session_call (bus, path, member,
                           g_variant_new_parsed ("([(%u, %h)],)", (guint32) target.pid, 0), fds,
                           error);
}

void
matrix_check_add_process (MatrixCells *self, const char *member)
{
  check_call (self, member, call_add_process);
}

static GVariant *
call_open_capture (
    MatrixCells *self, GDBusConnection *bus, const char *path, const char *member, GError **error)
{
  int fd = bus_open_capture (bus, path, g_variant_new_parsed ("@a{sv} {}"), error);

  if (fd < 0)
    return NULL;
  self->streams[self->n_streams++] = fd; /* who closes it is no reader any more */
  return g_variant_ref_sink (g_variant_new_handle (0));
}

/* From here on those who may are readers, and hear what the owner hears. */
void
matrix_check_open_capture (MatrixCells *self, const char *member)
{
  for (guint caller = 0; caller < MATRIX_N_CALLERS; caller++)
    if (caller != MATRIX_OWNER)
      g_assert_cmpuint (self->n_signals[caller], ==, 0);
  check_call (self, member, call_open_capture);
}

static gboolean
has_finished (gpointer user_data)
{
  const MatrixCells *self = user_data;

  /* One was for those to stop who may not. */
  return self->n_finished == MATRIX_N_CALLERS - !matrix_sees_session (MATRIX_OTHER, self->answer);
}

void
matrix_check_finished (MatrixCells *self, const char *member)
{
  bus_wait (has_finished, self, "the owner and a reader hearing of the end");
  if (!matrix_sees_session (MATRIX_OTHER, self->answer))
    g_assert_cmpuint (self->n_signals[MATRIX_OTHER], ==, 0);
}
