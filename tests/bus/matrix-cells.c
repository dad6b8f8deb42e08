/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The cells of one answer of polkit: who calls, what is called on, and what must come of it. */
#include "tests/bus/matrix-cells.h"

#include <string.h>
#include <unistd.h>

/* MatrixUsers that no quota knows yet. */
void
matrix_users_init (MatrixUsers *self)
{
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    {
      if (i == MATRIX_ROOT)
        self->uids[i] = 0;
      else
        self->uids[i] = i == MATRIX_TWIN ? self->uids[MATRIX_OWNER] : bus_next_uid ();
      self->buses[i] = bus_connect (self->uids[i]);
    }
}

void
matrix_users_clear (MatrixUsers *self)
{
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    g_clear_object (&self->buses[i]);
}

static void
count_signal (GDBusConnection *bus,
              const char *sender,
              const char *path,
              const char *interface,
              const char *signal,
              GVariant *arguments,
              gpointer user_data)
{
  MatrixCells *self = user_data;

  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    if (self->users.buses[i] == bus)
      self->n_signals[i]++;
  if (self->users.buses[MATRIX_OWNER] == bus && g_str_equal (signal, "Finished"))
    self->n_finished++;
}

void
matrix_cells_init (MatrixCells *self, PolkitAnswer answer)
{
  self->answer = answer;
  matrix_users_init (&self->users);
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    self->watches[i] = g_dbus_connection_signal_subscribe (
        self->users.buses[i], "org.sonde.Profiler1", NULL, NULL, NULL, NULL,
        G_DBUS_SIGNAL_FLAGS_NONE, count_signal, self, NULL);
  polkit_answer_set (POLKIT_DEFAULTS);
  bus_target_init (&self->target, BUS_TARGET_OWN, self->users.uids[MATRIX_OWNER],
                   self->users.uids[MATRIX_OTHER]);
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    bus_profile_pid (self->users.buses[MATRIX_OWNER], self->target.pid,
                     g_variant_new_parsed ("{'recorder-bytes': <uint64 1048576>}"),
                     &self->sessions[i], &self->captures[i]);
  polkit_answer_set (answer);
}

void
matrix_cells_clear (MatrixCells *self)
{
  for (guint i = 0; i < MATRIX_N_WAYS; i++)
    g_clear_pointer (&self->refusals[i], g_free);
  for (guint i = 0; i < MATRIX_N_CALLERS; i++)
    {
      g_dbus_connection_signal_unsubscribe (self->users.buses[i], self->watches[i]);
      g_clear_pointer (&self->sessions[i], g_free);
      close (self->captures[i]);
    }
  for (guint i = 0; i < self->n_streams; i++)
    close (self->streams[i]);
  matrix_users_clear (&self->users);
  bus_target_clear (&self->target);
}

/* "Process 17: …" and "Process 4711: …" are the same to whoever asks about a number. */
static char *
without_numbers (const char *text)
{
  g_autoptr (GRegex) numbers = g_regex_new ("[0-9]+", 0, 0, NULL);

  return g_regex_replace_literal (numbers, text, -1, 0, "N", 0, NULL);
}

static void
check_words (MatrixCells *self, const char *cell, MatrixWay way, const char *message)
{
  g_autofree char *text = without_numbers (message);

  if (self->refusals[way] == NULL)
    self->refusals[way] = g_steal_pointer (&text);
  else if (!g_str_equal (self->refusals[way], text))
    {
      g_test_message ("%s is refused with \"%s\", and others with \"%s\"", cell, text,
                      self->refusals[way]);
      g_test_fail ();
    }
}

void
matrix_check_cell (MatrixCells *self,
                   const char *cell,
                   MatrixCaller caller,
                   MatrixWay way,
                   const GError *error,
                   const char *expected)
{
  g_autofree char *name = error != NULL ? g_dbus_error_get_remote_error (error) : NULL;
  const char *prefix = "org.sonde.Profiler1.Error.";
  const char *outcome
      = name != NULL && g_str_has_prefix (name, prefix) ? name + strlen (prefix) : name;

  self->n_cells++;
  if (g_strcmp0 (outcome, expected) != 0)
    {
      g_test_message ("%s, polkit %s: %s, not %s: %s", cell, polkit_answer_name (self->answer),
                      outcome ? outcome : "granted", expected ? expected : "granted",
                      error ? error->message : "");
      g_test_fail ();
    }
  else if (caller != MATRIX_ROOT && g_strcmp0 (outcome, "NotAuthorized") == 0)
    check_words (self, cell, way, error->message);
}
