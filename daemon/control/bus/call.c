/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/bus/call.h"

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/closer.h"
#include "daemon/base/quota.h"

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

gboolean
sonde_call_is_interactive (const SondeCall *self)
{
  return sd_bus_message_get_allow_interactive_authorization (self->message) > 0;
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

/* "StartSession of the whole machine: …": whose session it is says the record. */
static void
record_refusal (SondeCall *self, const char *why_not)
{
  g_autofree char *detail = g_strdup_printf (
      "%s%s%s%s: %s", self->member->handler == NULL ? "property " : "", self->member->name,
      self->object != NULL ? " of " : "", self->object != NULL ? self->object : "", why_not);

  sonde_refusals_record (self->bus->refusals, self->session_id, sonde_caller_uid (self->caller),
                         detail);
}

void
sonde_call_fail (SondeCall *self, const GError *error)
{
  gboolean is_refusal = g_error_matches (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED)
                        || g_error_matches (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED);
  g_autoptr (GError) shown = NULL;

  if (is_refusal && self->caller != NULL)
    record_refusal (self, self->why_not != NULL ? self->why_not : error->message);
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
