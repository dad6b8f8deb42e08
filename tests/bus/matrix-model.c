/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What design and kernel say of each cell of the matrix, apart from the code that decides it. */
#include "tests/bus/matrix-model.h"

#define NOT_AUTHORIZED "NotAuthorized"

const char *
matrix_caller_name (MatrixCaller caller)
{
  static const char *const names[MATRIX_N_CALLERS] = { "root", "owner", "twin", "other" };

  return names[caller];
}

gboolean
matrix_has_proof (BusTargetKind kind, MatrixCaller caller, gboolean is_hidden)
{
  if (caller == MATRIX_ROOT)
    return TRUE;
  /* Nobody needs a right to memory that is not there: the descriptor gives no byte. */
  if (kind == BUS_TARGET_KERNEL_THREAD)
    return !is_hidden;
  if (caller == MATRIX_OTHER)
    return kind == BUS_TARGET_OTHERS;
  return kind == BUS_TARGET_OWN || kind == BUS_TARGET_OWN_IN_PID_NAMESPACE
         || kind == BUS_TARGET_DEAD;
}

/* Of an action whose default asks for a password. */
static gboolean
is_granted_by_admin (MatrixCaller caller, PolkitAnswer answer)
{
  return caller == MATRIX_ROOT || answer == POLKIT_YES;
}

/* Of the action profile-own. */
static gboolean
is_granted_by_default (MatrixCaller caller, PolkitAnswer answer)
{
  return caller == MATRIX_ROOT || answer == POLKIT_YES || answer == POLKIT_DEFAULTS;
}

const char *
matrix_expect_proof (BusTargetKind kind, MatrixCaller caller, PolkitAnswer answer)
{
  if (kind == BUS_TARGET_DEAD || kind == BUS_TARGET_KERNEL_THREAD
      || !matrix_has_proof (kind, caller, FALSE))
    return NOT_AUTHORIZED;
  return is_granted_by_default (caller, answer) ? NULL : NOT_AUTHORIZED;
}

const char *
matrix_expect_foreign_procfs (MatrixCaller caller, PolkitAnswer answer)
{
  return is_granted_by_default (caller, answer) ? "NotSupported" : NOT_AUTHORIZED;
}

const char *
matrix_expect_number (BusTargetKind kind, MatrixCaller caller, PolkitAnswer answer)
{
  if (!is_granted_by_admin (caller, answer))
    return NOT_AUTHORIZED;
  return kind == BUS_TARGET_DEAD ? "NoSuchProcess" : NULL;
}

const char *
matrix_expect_unit (gboolean is_there, MatrixCaller caller, PolkitAnswer answer)
{
  if (!is_granted_by_admin (caller, answer))
    return NOT_AUTHORIZED;
  return is_there ? NULL : "NoSuchProcess";
}

const char *
matrix_expect_system (MatrixCaller caller, PolkitAnswer answer)
{
  return is_granted_by_admin (caller, answer) ? NULL : NOT_AUTHORIZED;
}

gboolean
matrix_sees_session (MatrixCaller caller, PolkitAnswer answer)
{
  return caller != MATRIX_OTHER || is_granted_by_admin (caller, answer);
}

const char *
matrix_expect_session (MatrixCaller caller, gboolean is_there, PolkitAnswer answer)
{
  if (is_there && matrix_sees_session (caller, answer))
    return NULL;
  return is_granted_by_admin (caller, answer) ? "NoSuchSession" : NOT_AUTHORIZED;
}
