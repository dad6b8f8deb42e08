/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One call of a client: who, what, and what it is allowed to reach. */
#include "daemon/control/call.h"

#include "daemon/base/error.h"
#include "daemon/control/quota.h"

SondeCall *
sonde_call_new (const SondeContext *context, GDBusMethodInvocation *invocation)
{
  SondeCall *self = g_new0 (SondeCall, 1);

  self->context = context;
  self->invocation = invocation;
  return self;
}

static void
call_free (SondeCall *self)
{
  g_clear_pointer (&self->caller, sonde_caller_end);
  g_clear_pointer (&self->options, sonde_options_free);
  g_free (self);
}

SondeGate
sonde_call_gate (const SondeCall *self)
{
  return self->method != NULL ? self->method->gate : self->property->gate;
}

gboolean
sonde_call_is_interactive (const SondeCall *self)
{
  GDBusMessage *message = g_dbus_method_invocation_get_message (self->invocation);

  return (g_dbus_message_get_flags (message) & G_DBUS_MESSAGE_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION)
         != 0;
}

GUnixFDList *
sonde_call_fds (const SondeCall *self)
{
  return g_dbus_message_get_unix_fd_list (g_dbus_method_invocation_get_message (self->invocation));
}

gboolean
sonde_call_check_fds (const SondeCall *self, GError **error)
{
  GDBusMessage *message = g_dbus_method_invocation_get_message (self->invocation);
  GUnixFDList *fds = sonde_call_fds (self);

  /* GDBus writes the number that came over the one that was sent, if any came. */
  return sonde_quota_check_message (g_dbus_message_get_num_unix_fds (message),
                                    fds != NULL ? (guint) g_unix_fd_list_get_length (fds) : 0,
                                    error);
}

GVariant *
sonde_call_argument (const SondeCall *self, gsize index)
{
  return g_variant_get_child_value (g_dbus_method_invocation_get_parameters (self->invocation),
                                    index);
}

void
sonde_call_return (SondeCall *self, GVariant *value, GUnixFDList *fds)
{
  g_dbus_method_invocation_return_value_with_unix_fd_list (self->invocation, value, fds);
  call_free (self);
}

void
sonde_call_return_fd (SondeCall *self, GVariant *value, int fd)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new_from_array (&fd, 1);
  g_autoptr (GVariant) owned = g_variant_ref_sink (value);
  g_autoptr (GError) error = NULL;

  if (sonde_quota_check_flight (&error))
    sonde_call_return (self, owned, fds);
  else
    sonde_call_fail (self, error);
}

void
sonde_call_fail (SondeCall *self, const GError *error)
{
  gboolean is_refusal = g_error_matches (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED)
                        || g_error_matches (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);

  if (is_refusal && self->caller != NULL)
    sonde_refusals_record (self->context->refusals, self->session_id,
                           sonde_caller_uid (self->caller), error->message);
  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_TOO_MANY_OPEN_FILES))
    g_dbus_method_invocation_return_error (self->invocation, SONDE_ERROR,
                                           SONDE_ERROR_LIMIT_EXCEEDED, "Limit descriptors: %s",
                                           error->message);
  else if (error->domain == SONDE_ERROR)
    g_dbus_method_invocation_return_gerror (self->invocation, error);
  else
    g_dbus_method_invocation_return_error_literal (self->invocation, SONDE_ERROR,
                                                   SONDE_ERROR_FAILED, error->message);
  call_free (self);
}

void
sonde_call_fail_with (SondeCall *self, gint code, const char *message)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, code, message);

  sonde_call_fail (self, error);
}
