/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The cells of one answer of polkit: who calls, what is called on, and what must come of it. */
#pragma once

#include "tests/bus/matrix-model.h"
#include "tests/lib/bus-client.h"

#define MATRIX_MANAGER      "org.sonde.Profiler1.Manager"
#define MATRIX_SESSION      "org.sonde.Profiler1.Session"
#define MATRIX_MANAGER_PATH "/org/sonde/Profiler1"
/* No session has this number. */
#define MATRIX_ABSENT_PATH "/org/sonde/Profiler1/session/987654"

typedef struct
{
  uid_t uids[MATRIX_N_CALLERS];
  GDBusConnection *buses[MATRIX_N_CALLERS];
} MatrixUsers;

/* The cells of one answer of polkit. */
typedef struct
{
  PolkitAnswer answer;
  gboolean is_supported;         /* the member that is tried */
  gboolean is_hidden;            /* /proc shows nobody the processes of others */
  char *refusals[MATRIX_N_WAYS]; /* the one text for everybody who may not, whatever there is */
  MatrixUsers users;
  BusTarget target;                 /* the owner's */
  char *sessions[MATRIX_N_CALLERS]; /* the owner's, of @target: one for each caller to touch */
  int captures[MATRIX_N_CALLERS];
  int streams[MATRIX_N_CALLERS]; /* of OpenCapture, by those who may */
  guint n_streams;
  guint n_signals[MATRIX_N_CALLERS];
  guint watches[MATRIX_N_CALLERS];
  guint n_finished; /* of the owner's sessions */
  guint n_captures; /* the owner's, in the service's folder */
  guint n_cells;
} MatrixCells;

/* Users that no quota knows yet. */
void matrix_users_init (MatrixUsers *self);
void matrix_users_clear (MatrixUsers *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MatrixUsers, matrix_users_clear)

/* Starts the owner's sessions, and has polkit give @answer then. */
void matrix_cells_init (MatrixCells *self, PolkitAnswer answer);
void matrix_cells_clear (MatrixCells *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MatrixCells, matrix_cells_clear)

/* Fails the test unless @error (NULL: granted) is of the name @expected, and is in the same words
 * as all other refusals of that @way: a difference would tell what is there. @cell says which cell
 * this is. */
void matrix_check_cell (MatrixCells *self,
                        const char *cell,
                        MatrixCaller caller,
                        MatrixWay way,
                        const GError *error,
                        const char *expected);

/* What a row of the matrix does, for each caller: @member starts a session … */
void matrix_check_start (MatrixCells *self, const char *member);

/* … lists them, … */
void matrix_check_list (MatrixCells *self, const char *member);

/* … subscribes to them, or is the signal @member of one of the owner's that comes and goes: to
 * those who would see it in a list, … */
void matrix_check_subscribe (MatrixCells *self, const char *member);
void matrix_check_told (MatrixCells *self, const char *member);

/* … lists stored captures, or needs a right to the one that it names, … */
void matrix_check_list_captures (MatrixCells *self, const char *member);
void matrix_check_stored_capture (MatrixCells *self, const char *member);

/* … is a property for everybody, … */
void matrix_check_public_property (MatrixCells *self, const char *member);

/* … or needs a right to the session that it is called on. */
void matrix_check_session_property (MatrixCells *self, const char *member);
void matrix_check_session_call (MatrixCells *self, const char *member);
void matrix_check_add_process (MatrixCells *self, const char *member);
void matrix_check_snapshot (MatrixCells *self, const char *member);
void matrix_check_open_capture (MatrixCells *self, const char *member);

/* … or tells of the end of all that were stopped: to the owner, and to readers. */
void matrix_check_finished (MatrixCells *self, const char *member);
