/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What design and kernel say of each cell of the matrix, apart from the code that decides it. */
#pragma once

#include "tests/lib/bus-target.h"
#include "tests/lib/polkit-answer.h"

typedef enum
{
  MATRIX_ROOT,
  MATRIX_OWNER, /* whose the targets and the session are */
  MATRIX_TWIN,  /* the owner's uid on a connection of its own: the same, but not the session's owner
                 */
  MATRIX_OTHER,
  MATRIX_N_CALLERS,
} MatrixCaller;

/* What may be refused. */
typedef enum
{
  MATRIX_BY_PROOF,  /* a process, with a proof */
  MATRIX_BY_NUMBER, /* a process, by its number alone */
  MATRIX_BY_UNIT,
  MATRIX_AS_A_WHOLE, /* the machine, or what all may read */
  MATRIX_BY_SESSION, /* a session, by its number alone */
  MATRIX_BY_CAPTURE, /* a stored capture, by its name alone */
  MATRIX_N_WAYS,
} MatrixWay;

const char *matrix_caller_name (MatrixCaller caller);

/* Whether the kernel opens /proc/PID/maps for @caller; @is_hidden: /proc has the option hidepid. */
gboolean matrix_has_proof (BusTargetKind kind, MatrixCaller caller, gboolean is_hidden);

/* NULL: granted; else the error's name without its prefix. */
const char *matrix_expect_proof (BusTargetKind kind, MatrixCaller caller, PolkitAnswer answer);
const char *matrix_expect_foreign_procfs (MatrixCaller caller, PolkitAnswer answer);
const char *matrix_expect_number (BusTargetKind kind, MatrixCaller caller, PolkitAnswer answer);
const char *matrix_expect_unit (gboolean is_there, MatrixCaller caller, PolkitAnswer answer);
const char *matrix_expect_system (MatrixCaller caller, PolkitAnswer answer);

/* Whether @caller may use and manage the owner's session. */
gboolean matrix_sees_session (MatrixCaller caller, PolkitAnswer answer);
const char *matrix_expect_session (MatrixCaller caller, gboolean is_there, PolkitAnswer answer);
