/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-unit.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/systemd.h"

struct SondePeerUnit
{
  grefcount refs; /* the owner's, and one for each call that is not answered yet */
  SondeBusConnection *bus;
  const char *name;         /* of its kind */
  SondePeerUnitEnded ended; /* NULL once told, and once freed by the owner */
  gpointer user_data;
  char *path; /* of the unit's object: NULL until systemd has told it */
  SondeUnitShare share;
  int pidfd;
  gboolean is_asking; /* for the path */
  guint exit_watch;
  SondeSubscription *changes; /* what systemd tells of the unit */
  guint deadline;             /* of its account of the end */
  gboolean is_killed;
  gboolean has_exited;
};

static void
unit_unref (SondePeerUnit *self)
{
  if (!g_ref_count_dec (&self->refs))
    return;
  sonde_clear_fd (&self->pidfd);
  g_free (self->path);
  g_free (self);
}

/* @reply: (nullable): who wants no answer */
static void
call (SondePeerUnit *self,
      const char *path,
      const char *interface,
      const char *method,
      GVariant *arguments,
      const char *type,
      SondeBusConnectionReply reply)
{
  if (reply != NULL)
    g_ref_count_inc (&self->refs);
  sonde_systemd_call (self->bus, path, interface, method, arguments, type, SONDE_LIMIT_UNIT_MS,
                      reply, reply != NULL ? self : NULL);
}

static void
tell (SondePeerUnit *self, const char *how)
{
  SondePeerUnitEnded ended = self->ended;

  self->ended = NULL;
  g_clear_handle_id (&self->deadline, g_source_remove);
  if (ended != NULL)
    ended (how, self->user_data);
}

static void
tell_without_account (SondePeerUnit *self)
{
  g_autofree char *how
      = g_strdup_printf ("The %s ended, and systemd does not tell why", self->name);

  tell (self, how);
}

static gboolean
on_deadline (gpointer user_data)
{
  SondePeerUnit *self = user_data;

  self->deadline = 0;
  tell_without_account (self);
  return G_SOURCE_REMOVE;
}

/* Returns: (nullable) (transfer full): a sentence, if systemd knows of the end already */
static char *
describe_end (const SondePeerUnit *self, GVariant *properties)
{
  const char *result = "";
  gint32 code = 0;
  gint32 status = 0;

  g_variant_lookup (properties, "Result", "&s", &result);
  g_variant_lookup (properties, "ExecMainCode", "i", &code);
  g_variant_lookup (properties, "ExecMainStatus", "i", &status);
  if (code == 0)
    return NULL;
  if (g_str_equal (result, "oom-kill"))
    return g_strdup_printf ("The %s needed more memory than it may have", self->name);
  if (code == CLD_EXITED)
    return g_strdup_printf ("The %s exited with status %d", self->name, status);
  return g_strdup_printf ("The %s was killed by signal %d", self->name, status);
}

static void
on_properties (GVariant *reply, const GError *error, gpointer user_data)
{
  SondePeerUnit *self = user_data;

  if (reply != NULL)
    {
      g_autoptr (GVariant) properties = g_variant_get_child_value (reply, 0);
      g_autofree char *how = describe_end (self, properties);

      if (how != NULL)
        tell (self, how);
    }
  unit_unref (self);
}

static void
ask_how (SondePeerUnit *self)
{
  call (self, self->path, PROPERTY_INTERFACE, "GetAll", g_variant_new ("(s)", SERVICE_INTERFACE),
        "(a{sv})", on_properties);
}

/* systemd may have looked at the process later than we did. */
static void
on_changed (GVariant *arguments, gpointer user_data)
{
  SondePeerUnit *self = user_data;

  if (self->has_exited && self->ended != NULL)
    ask_how (self);
}

static gboolean
on_exited (int fd, GIOCondition condition, gpointer user_data)
{
  SondePeerUnit *self = user_data;

  self->exit_watch = 0;
  self->has_exited = TRUE;
  self->deadline = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS, on_deadline, self);
  if (self->path != NULL)
    ask_how (self);
  else if (!self->is_asking)
    tell_without_account (self);
  return G_SOURCE_REMOVE;
}

static void
kill_now (SondePeerUnit *self)
{
  call (self, self->path, UNIT_INTERFACE, "Kill", g_variant_new ("(si)", "all", SIGKILL), NULL,
        NULL);
}

static void
on_share_set (GVariant *reply, const GError *error, gpointer user_data)
{
  SondePeerUnit *self = user_data;

  if (reply == NULL && !self->has_exited)
    g_message ("What a %s may take of the machine cannot be set: %s", self->name, error->message);
  unit_unref (self);
}

static void
send_share (SondePeerUnit *self)
{
  const SondeUnitShare *share = &self->share;
  guint64 us = share->cpu_percent > 0 ? share->cpu_percent * (G_USEC_PER_SEC / 100) : G_MAXUINT64;
  GVariantBuilder properties;

  g_variant_builder_init (&properties, G_VARIANT_TYPE ("a(sv)"));
  g_variant_builder_add (&properties, "(sv)", "CPUWeight",
                         g_variant_new_uint64 (share->cpu_weight));
  g_variant_builder_add (&properties, "(sv)", "CPUQuotaPerSecUSec", g_variant_new_uint64 (us));
  if (share->memory_bytes > 0)
    g_variant_builder_add (&properties, "(sv)", "MemoryMax",
                           g_variant_new_uint64 (share->memory_bytes));
  call (self, self->path, UNIT_INTERFACE, "SetProperties",
        g_variant_new ("(ba(sv))", TRUE /* until it ends */, &properties), "()", on_share_set);
}

static void
on_unit (GVariant *reply, const GError *error, gpointer user_data)
{
  SondePeerUnit *self = user_data;

  self->is_asking = FALSE;
  if (reply != NULL)
    g_variant_get (reply, "(o)", &self->path);
  else
    g_warning ("Whose unit a %s is: %s", self->name, error->message);
  if (self->path != NULL && self->is_killed)
    kill_now (self);
  if (self->path != NULL && self->ended != NULL)
    {
      g_autofree char *match = g_strdup_printf (
          "type='signal',sender='" SYSTEMD_NAME "',path='%s',interface='" PROPERTY_INTERFACE "',"
          "member='PropertiesChanged',arg0='" SERVICE_INTERFACE "'",
          self->path);

      /* The unit goes with its process, unless it is held; and only who holds it hears of it. */
      call (self, self->path, UNIT_INTERFACE, "Ref", NULL, NULL, NULL);
      self->changes = sonde_bus_connection_subscribe (self->bus, match, on_changed, self);
      if (self->has_exited)
        ask_how (self);
      else if (self->share.cpu_weight > 0)
        send_share (self);
    }
  /* It has ended before systemd was asked, and nobody else knows how. */
  if (self->path == NULL && self->has_exited)
    tell_without_account (self);
  unit_unref (self);
}

SondePeerUnit *
sonde_peer_unit_new (SondeBusConnection *bus,
                     SondePeerKind kind,
                     pid_t pid,
                     SondePeerUnitEnded ended,
                     gpointer user_data,
                     GError **error)
{
  int pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
  SondePeerUnit *self;

  if (pidfd < 0)
    {
      sonde_error_set_errno (error, errno, "The %s has gone", sonde_peer_kind_row (kind)->name);
      return NULL;
    }
  self = g_new0 (SondePeerUnit, 1);
  g_ref_count_init (&self->refs);
  self->bus = bus;
  self->name = sonde_peer_kind_row (kind)->name;
  self->ended = ended;
  self->user_data = user_data;
  self->pidfd = pidfd;
  self->is_asking = TRUE;
  self->exit_watch = g_unix_fd_add (pidfd, G_IO_IN, on_exited, self);
  call (self, SYSTEMD_PATH, MANAGER_INTERFACE, "GetUnitByPID", g_variant_new ("(u)", (guint32) pid),
        "(o)", on_unit);
  return self;
}

void
sonde_peer_unit_free (SondePeerUnit *self)
{
  if (self == NULL)
    return;
  self->ended = NULL;
  g_clear_handle_id (&self->deadline, g_source_remove);
  g_clear_handle_id (&self->exit_watch, g_source_remove);
  if (self->changes != NULL)
    call (self, self->path, UNIT_INTERFACE, "Unref", NULL, NULL, NULL);
  g_clear_pointer (&self->changes, sonde_bus_connection_unsubscribe);
  unit_unref (self);
}

int
sonde_peer_unit_pidfd (const SondePeerUnit *self)
{
  return self->pidfd;
}

void
sonde_peer_unit_set_share (SondePeerUnit *self, const SondeUnitShare *share)
{
  if (memcmp (&self->share, share, sizeof *share) == 0)
    return;
  self->share = *share;
  if (self->path != NULL && !self->has_exited)
    send_share (self);
}

void
sonde_peer_unit_kill (SondePeerUnit *self)
{
  if (self->is_killed || self->has_exited)
    return;
  self->is_killed = TRUE;
  if (self->path != NULL)
    kill_now (self);
}
