/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/bus/call.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/closer.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"
#include "daemon/base/quota.h"
#include "daemon/control/request/options.h"

/* --- from the message to the answer --- */

SondeCall *
sonde_call_new (const SondeBus *bus, sd_bus_message *message)
{
  SondeCall *self = g_new0 (SondeCall, 1);
  g_autoptr (GError) error = NULL;

  self->bus = bus;
  self->message = sd_bus_message_ref (message);
  self->arguments = sonde_bus_connection_read (message, SONDE_LIMIT_MESSAGE_ENTRIES,
                                               SONDE_LIMIT_MESSAGE_TEXT, &self->fds, &error);
  if (self->arguments != NULL && (self->fds == NULL || sonde_quota_check_message (&error)))
    return self;
  sonde_call_fail (self, error);
  return NULL;
}

static void
call_free (SondeCall *self)
{
  g_clear_pointer (&self->caller, sonde_caller_end);
  g_clear_pointer (&self->options, sonde_options_free);
  g_clear_pointer (&self->arguments, g_variant_unref);
  sonde_closer_take_list (&self->fds);
  sonde_bus_connection_drop (self->message);
  g_free (self->object);
  g_free (self->why_not);
  g_free (self);
}

GVariant *
sonde_call_argument (const SondeCall *self, gsize index)
{
  return g_variant_get_child_value (self->arguments, index);
}

void
sonde_call_return (SondeCall *self, GVariant *value, GUnixFDList *fds)
{
  g_autoptr (GVariant) owned = value != NULL ? g_variant_ref_sink (value) : NULL;

  sonde_bus_connection_answer (self->bus->connection, self->message, owned, fds);
  call_free (self);
}

void
sonde_call_return_fd (SondeCall *self, GVariant *value, int fd)
{
  GUnixFDList *fds = g_unix_fd_list_new_from_array (&fd, 1);
  g_autoptr (GVariant) owned = g_variant_ref_sink (value);
  g_autoptr (GError) error = NULL;

  if (sonde_quota_check_flight (&error))
    sonde_call_return (self, owned, fds);
  else
    sonde_call_fail (self, error);
  sonde_closer_take_list (&fds);
}

void
sonde_call_fail (SondeCall *self, const GError *error)
{
  gboolean is_refusal = g_error_matches (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED)
                        || g_error_matches (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  g_autofree char *detail = NULL;
  g_autoptr (GError) shown = NULL;

  if (is_refusal && self->caller != NULL)
    {
      /* "StartSession of the whole machine: …": whose session it is says the record. */
      detail = g_strdup_printf ("%s%s%s%s: %s", self->member->handler == NULL ? "property " : "",
                                self->member->name, self->object != NULL ? " of " : "",
                                self->object != NULL ? self->object : "",
                                self->why_not != NULL ? self->why_not : error->message);
      sonde_refusals_record (self->bus->refusals, self->session_id, self->caller->uid, detail);
    }
  if (error->domain == SONDE_ERROR || error->domain == G_DBUS_ERROR)
    shown = g_error_copy (error);
  else if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_TOO_MANY_OPEN_FILES))
    shown = g_error_new (SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED, "Limit descriptors: %s",
                         error->message);
  else
    shown = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, error->message);
  sonde_bus_connection_answer_error (self->bus->connection, self->message, shown);
  call_free (self);
}

void
sonde_call_fail_with (SondeCall *self, gint code, const char *message)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, code, message);

  sonde_call_fail (self, error);
}

/* --- what polkit is told --- */

/* Values of type a{ss}, floating. The key "what" stands in the messages of the policy file; the
 * others are for rules: action.lookup ("scope").
 *
 * Whoever asks may read them through an authentication agent of his own, so they say nothing that
 * he does not know: no name of a process, and no uid of one where /proc hides it. */
static void
add (GVariantBuilder *builder, const char *key, const char *value)
{
  g_variant_builder_add (builder, "{ss}", key, value);
}

static void
add_caller (GVariantBuilder *builder, const SondeCaller *caller)
{
  g_autofree char *pid = g_strdup_printf ("%d", (int) caller->pid);

  if (caller->pid > 0)
    add (builder, "client-pid", pid);
}

static void
add_targets (GVariantBuilder *builder, const SondeOptions *options)
{
  g_autofree char *mounts
      = sonde_proc_text_read (AT_FDCWD, "/proc/self/mounts", SONDE_LIMIT_PROC_TEXT_BYTES);
  /* Source: proc(5), the mount option hidepid: "hidepid=0" and "hidepid=off" are not shown. */
  gboolean shows_uids = mounts != NULL && strstr (mounts, "hidepid=") == NULL;
  g_autoptr (GString) pids = g_string_new (NULL);
  g_autoptr (GString) uids = g_string_new (NULL);

  for (guint i = 0; i < options->targets->len; i++)
    {
      const SondeAskedTarget *target = g_ptr_array_index (options->targets, i);
      int pid = (int) target->pid;
      g_autofree char *directory = g_strdup_printf ("/proc/%d", pid);
      struct stat st;

      g_string_append_printf (pids, "%s%d", i > 0 ? " " : "", pid);
      if (shows_uids && stat (directory, &st) == 0)
        g_string_append_printf (uids, "%s%u", uids->len > 0 ? " " : "", st.st_uid);
    }
  if (pids->len > 0)
    add (builder, "targets", pids->str);
  if (uids->len > 0)
    add (builder, "target-uids", uids->str);
}

/* what, scope, targets (pids), target-uids, client-pid, and the options that are for polkit, as far
 * as they have a value */
static GVariant *
describe_start (const SondeOptions *options, const SondeCaller *caller)
{
  g_autofree char *what = sonde_options_describe_scope (options);
  const SondeOptionRow *row;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  add (&builder, "what", what);
  add (&builder, "scope", sonde_scope_name (options->asked.scope));
  add_targets (&builder, options);
  for (gsize i = 0; (row = sonde_options_row (i)) != NULL; i++)
    {
      g_autofree char *text = NULL;

      if ((row->flags & SONDE_OPTION_FOR_POLKIT) == 0)
        continue;
      text = sonde_option_dup_text (row, options);
      if (text != NULL)
        add (&builder, row->key, text);
    }
  add_caller (&builder, caller);
  return g_variant_builder_end (&builder);
}

/* A stored capture, or else a session, alike whether or not there is one of that number. */
static GVariant *
describe_other (const SondeCall *call, const char *capture)
{
  g_autofree char *session = g_strdup_printf ("%" G_GUINT64_FORMAT, call->session_id);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  add (&builder, "what",
       capture != NULL ? "what another user has profiled" : "what another user profiles");
  add (&builder, capture != NULL ? "capture" : "session", capture != NULL ? capture : session);
  add_caller (&builder, call->caller);
  return g_variant_builder_end (&builder);
}

/* --- the gate --- */

/* Whether the message allows a password dialog. */
static gboolean
is_interactive (const SondeCall *call)
{
  return sd_bus_message_get_allow_interactive_authorization (call->message) > 0;
}

static gboolean
is_all_powerful (const SondeCall *call)
{
  return call->bus->is_peer || call->caller->uid == 0;
}

static void
enter_session (SondeCall *call)
{
  if (!call->is_of_none)
    call->session = sonde_session_manager_lookup (call->bus->manager, call->session_id);
  if (call->session == NULL)
    sonde_call_fail_with (call, SONDE_ERROR_NO_SUCH_SESSION, "There is no such session");
  else
    call->run (call);
}

/* Why it was refused would tell which action was asked for, and that whether there is what was
 * named: so the journal is told alone. */
static void
refuse (SondeCall *call, const GError *why_not, const char *message)
{
  call->why_not = g_strdup (why_not->message);
  sonde_call_fail_with (call, SONDE_ERROR_NOT_AUTHORIZED, message);
}

static void
on_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autoptr (GError) error = NULL;
  gboolean is_allowed = sonde_authority_check_finish (call->bus->authority, result, &error);

  /* A yes for somebody who is not there any more is none: nobody would end what it starts. */
  if (is_allowed && g_cancellable_is_cancelled (call->caller->left))
    {
      is_allowed = FALSE;
      g_set_error_literal (&error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED, "The caller has left");
    }
  switch (call->member->gate)
    {
    case SONDE_GATE_LIST:
    case SONDE_GATE_LIST_CAPTURES:
    case SONDE_GATE_SUBSCRIBE:
      call->sees_all = is_allowed;
      call->run (call);
      break;
    case SONDE_GATE_USE:
    case SONDE_GATE_MANAGE:
      if (is_allowed)
        enter_session (call);
      else
        refuse (call, error, "There is no such session, or it is not for you");
      break;
    case SONDE_GATE_CAPTURE:
      if (is_allowed)
        call->run (call);
      else
        refuse (call, error, "There is no such capture, or it is not for you");
      break;
    default:
      if (is_allowed)
        call->run (call);
      else
        sonde_call_fail (call, error);
    }
}

static void
ask (SondeCall *call, SondeAction action, GVariant *details)
{
  sonde_authority_check_async (call->bus->authority, call->caller, sonde_action_id (action),
                               details, is_interactive (call), on_answer, call);
}

static void
pass_start (SondeCall *call)
{
  g_autoptr (GVariant) dict = sonde_call_argument (call, 0);
  g_autoptr (GError) error = NULL;
  gint64 paranoid;

  call->options = sonde_options_parse (dict, call->fds, call->member->is_lasting, &error);
  if (call->options == NULL)
    {
      sonde_call_fail (call, error);
      return;
    }
  call->object = sonde_options_describe_scope (call->options);
  paranoid = sonde_proc_number_read ("/proc/sys/kernel/perf_event_paranoid", 2);
  ask (call, sonde_action_to_start (call->options, paranoid),
       describe_start (call->options, call->caller));
}

static void
pass_session (SondeCall *call, SondeGate gate)
{
  SondeSessionManager *manager = call->bus->manager;
  const char *path = sd_bus_message_get_path (call->message);
  uid_t uid = call->caller->uid;
  const SondeSession *session;

  /* "/org/sonde/Profiler1/session/N"; 0 if N is not the one spelling of a number. */
  if (!g_str_has_prefix (path, SONDE_SESSION_PATH "/")
      || path[strlen (SONDE_SESSION_PATH "/")] == '0'
      || !g_ascii_string_to_unsigned (path + strlen (SONDE_SESSION_PATH "/"), 10, 1, G_MAXUINT64,
                                      &call->session_id, NULL))
    call->session_id = 0;
  session = sonde_session_manager_lookup (manager, call->session_id);
  /* Who had a session may know that it is over. */
  if (is_all_powerful (call)
      || (session != NULL ? sonde_session_facts (session)->owner_uid == uid
                          : sonde_session_manager_was_of (manager, call->session_id, uid)))
    {
      enter_session (call);
      return;
    }
  /* A yes may come when there is one of that number, for which more would have been asked. */
  call->is_of_none = session == NULL;
  ask (call,
       session != NULL && gate == SONDE_GATE_USE
           ? sonde_action_to_use (sonde_session_options (session))
           : SONDE_ACTION_MANAGE_SESSIONS,
       describe_other (call, NULL));
}

static void
on_capture_found (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeCall *call = user_data;

  if (error != NULL)
    sonde_call_fail (call, error);
  else if (answer->is_so)
    call->run (call);
  else
    ask (call, SONDE_ACTION_MANAGE_SESSIONS, describe_other (call, call->object));
}

static void
pass_capture (SondeCall *call)
{
  g_autoptr (GVariant) argument = sonde_call_argument (call, 0);
  const char *name = g_variant_get_string (argument, NULL);
  SondeCaptureStore *store = sonde_session_manager_store (call->bus->manager);

  if (!sonde_capture_files_is_name (name))
    {
      sonde_call_fail_with (call, SONDE_ERROR_INVALID_OPTION,
                            "Argument name: not a name such as ListCaptures gives");
      return;
    }
  call->object = g_strdup (name);
  if (is_all_powerful (call))
    call->run (call);
  else if (store == NULL)
    ask (call, SONDE_ACTION_MANAGE_SESSIONS, describe_other (call, name));
  else
    sonde_capture_store_ask (store, SONDE_STORE_IS_OF, call->caller->uid, name, 0, on_capture_found,
                             call);
}

static void
on_others (SondeStoreAnswer *answer, const GError *error, gpointer user_data)
{
  SondeCall *call = user_data;

  if (error != NULL)
    sonde_call_fail (call, error);
  else if (answer->is_so)
    ask (call, SONDE_ACTION_MANAGE_SESSIONS, describe_other (call, NULL));
  else
    call->run (call);
}

/* Who allows no dialog wants an answer now, whatever polkit is busy with. */
static void
pass_list (SondeCall *call, SondeGate gate)
{
  SondeSessionManager *manager = call->bus->manager;
  SondeCaptureStore *store = sonde_session_manager_store (manager);
  uid_t uid = call->caller->uid;

  call->sees_all = is_all_powerful (call);
  if (call->sees_all || !is_interactive (call))
    call->run (call);
  else if (gate == SONDE_GATE_LIST_CAPTURES && store != NULL)
    sonde_capture_store_ask (store, SONDE_STORE_HAS_OTHERS, uid, NULL, 0, on_others, call);
  else if (gate == SONDE_GATE_SUBSCRIBE
           || (gate == SONDE_GATE_LIST && sonde_session_manager_has_others (manager, uid)))
    ask (call, SONDE_ACTION_MANAGE_SESSIONS, describe_other (call, NULL));
  else
    call->run (call);
}

void
sonde_call_pass (SondeCall *call, void (*run) (SondeCall *call))
{
  SondeGate gate = call->member->gate;

  call->run = run;
  switch (gate)
    {
    case SONDE_GATE_ANYONE:
      run (call);
      break;
    case SONDE_GATE_LIST:
    case SONDE_GATE_LIST_CAPTURES:
    case SONDE_GATE_SUBSCRIBE:
      pass_list (call, gate);
      break;
    case SONDE_GATE_START:
      pass_start (call);
      break;
    case SONDE_GATE_USE:
    case SONDE_GATE_MANAGE:
      pass_session (call, gate);
      break;
    case SONDE_GATE_CAPTURE:
      pass_capture (call);
      break;
    default:
      g_assert_not_reached ();
    }
}
