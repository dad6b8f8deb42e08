/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The single gate between a caller and a handler. */
#include "daemon/control/gate.h"

#include <string.h>

#include "daemon/base/error.h"
#include "daemon/control/action.h"
#include "daemon/control/proc-text.h"
#include "daemon/control/request-details.h"

/* A call that waits for an answer. */
typedef struct
{
  SondeCall *call;
  void (*run) (SondeCall *call);
} Passage;

/* A yes for somebody who is not there any more is none: nobody would end what it starts. */
static gboolean
is_allowed (SondeCall *call, GAsyncResult *result, GError **error)
{
  if (!sonde_authority_check_finish (call->context->authority, result, error))
    return FALSE;
  if (!g_cancellable_is_cancelled (sonde_caller_left (call->caller)))
    return TRUE;
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED, "The caller has left");
  return FALSE;
}

static gboolean
is_all_powerful (const SondeCall *call)
{
  return call->context->is_peer || sonde_caller_uid (call->caller) == 0;
}

static void
enter_session (SondeCall *call, void (*run) (SondeCall *call))
{
  call->session = sonde_session_manager_lookup (call->context->manager, call->session_id);
  if (call->session == NULL)
    sonde_call_fail_with (call, SONDE_ERROR_NO_SUCH_SESSION, "There is no such session");
  else
    run (call);
}

static void
on_session_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autofree Passage *passage = user_data;
  SondeCall *call = passage->call;

  /* Why it was refused would tell which action was asked for, and that whether there is a session.
   */
  if (is_allowed (call, result, NULL))
    enter_session (call, passage->run);
  else
    sonde_call_fail_with (call, SONDE_ERROR_NOT_AUTHORIZED,
                          "There is no such session, or it is not for you");
}

static void
on_start_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autofree Passage *passage = user_data;
  g_autoptr (GError) error = NULL;

  if (is_allowed (passage->call, result, &error))
    passage->run (passage->call);
  else
    sonde_call_fail (passage->call, error);
}

static void
on_list_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autofree Passage *passage = user_data;

  passage->call->sees_all = is_allowed (passage->call, result, NULL);
  passage->run (passage->call);
}

static void
ask (SondeCall *call,
     SondeAction action,
     GVariant *details,
     GAsyncReadyCallback callback,
     void (*run) (SondeCall *call))
{
  Passage *passage = g_new0 (Passage, 1);

  passage->call = call;
  passage->run = run;
  sonde_authority_check_async (call->context->authority, call->caller, sonde_action_id (action),
                               details, sonde_call_is_interactive (call), callback, passage);
}

static void
pass_start (SondeCall *call, void (*run) (SondeCall *call))
{
  g_autoptr (GVariant) dict = sonde_call_argument (call, 0);
  g_autoptr (GError) error = NULL;

  call->options = sonde_options_parse (dict, sonde_call_fds (call), &error);
  if (call->options == NULL)
    sonde_call_fail (call, error);
  else
    ask (call,
         sonde_action_to_start (call->options,
                                sonde_proc_number_read ("/proc/sys/kernel/perf_event_paranoid", 2)),
         sonde_request_details_to_start (call->options, call->caller), on_start_answer, run);
}

/* "/org/sonde/Profiler1/session/N"; 0 if N is not the one spelling of a number. */
static guint64
parse_session_path (const char *path)
{
  const char *number;
  guint64 id;

  if (!g_str_has_prefix (path, SONDE_SESSION_PATH "/"))
    return 0;
  number = path + strlen (SONDE_SESSION_PATH "/");
  if (number[0] == '0' || !g_ascii_string_to_unsigned (number, 10, 1, G_MAXUINT64, &id, NULL))
    return 0;
  return id;
}

static void
pass_session (SondeCall *call, SondeGate gate, void (*run) (SondeCall *call))
{
  const SondeSession *session;

  call->session_id
      = parse_session_path (g_dbus_method_invocation_get_object_path (call->invocation));
  session = sonde_session_manager_lookup (call->context->manager, call->session_id);
  if (is_all_powerful (call)
      || (session != NULL && sonde_session_owner_uid (session) == sonde_caller_uid (call->caller)))
    enter_session (call, run);
  else
    ask (call,
         session != NULL && gate == SONDE_GATE_USE
             ? sonde_action_to_use (sonde_session_options (session))
             : SONDE_ACTION_MANAGE_SESSIONS,
         sonde_request_details_of_session (call->session_id, call->caller), on_session_answer, run);
}

/* Who allows no dialog wants an answer now, whatever polkit is busy with. */
static void
pass_list (SondeCall *call, void (*run) (SondeCall *call))
{
  call->sees_all = is_all_powerful (call);
  if (call->sees_all || !sonde_call_is_interactive (call)
      || !sonde_session_manager_has_others (call->context->manager,
                                            sonde_caller_uid (call->caller)))
    run (call);
  else
    ask (call, SONDE_ACTION_MANAGE_SESSIONS, sonde_request_details_of_session (0, call->caller),
         on_list_answer, run);
}

void
sonde_gate_pass (SondeCall *call, void (*run) (SondeCall *call))
{
  SondeGate gate = sonde_call_gate (call);

  switch (gate)
    {
    case SONDE_GATE_ANYONE:
      run (call);
      break;
    case SONDE_GATE_LIST:
      pass_list (call, run);
      break;
    case SONDE_GATE_START:
      pass_start (call, run);
      break;
    case SONDE_GATE_USE:
    case SONDE_GATE_MANAGE:
      pass_session (call, gate, run);
      break;
    default:
      g_assert_not_reached ();
    }
}
