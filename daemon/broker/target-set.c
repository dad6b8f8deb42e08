/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/target-set.h"

#include <glib-unix.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

struct SondeTargetSet
{
  GPtrArray *targets; /* SondeTarget */
  GArray *watches;    /* guint: the source on each target's pidfd, 0 when it has exited */
  guint n_alive;
  void (*all_exited) (gpointer user_data);
  gpointer user_data;
};

SondeTargetSet *
sonde_target_set_new (void (*all_exited) (gpointer user_data), gpointer user_data)
{
  SondeTargetSet *self = g_new0 (SondeTargetSet, 1);

  self->targets = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_target_free);
  self->watches = g_array_new (FALSE, FALSE, sizeof (guint));
  self->all_exited = all_exited;
  self->user_data = user_data;
  return self;
}

void
sonde_target_set_unwatch (SondeTargetSet *self)
{
  for (guint i = 0; i < self->watches->len; i++)
    g_clear_handle_id (&g_array_index (self->watches, guint, i), g_source_remove);
}

void
sonde_target_set_free (SondeTargetSet *self)
{
  if (self == NULL)
    return;
  sonde_target_set_unwatch (self);
  g_array_unref (self->watches);
  g_ptr_array_unref (self->targets);
  g_free (self);
}

/* Looks at the first @n_targets. */
static gboolean
contains (GPtrArray *targets, guint n_targets, pid_t pid)
{
  for (guint i = 0; i < n_targets; i++)
    if (sonde_target_pid (g_ptr_array_index (targets, i)) == pid)
      return TRUE;
  return FALSE;
}

gboolean
sonde_target_set_prove (const SondeTargetSet *self,
                        GPtrArray *targets,
                        const SondeTracer *owner,
                        GError **error)
{
  if (self->targets->len + targets->len > SONDE_LIMIT_SESSION_TARGETS)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit session-targets: at most %d processes in a session",
                   SONDE_LIMIT_SESSION_TARGETS);
      return FALSE;
    }
  for (guint i = 0; i < targets->len; i++)
    {
      SondeTarget *target = g_ptr_array_index (targets, i);
      pid_t pid = sonde_target_pid (target);

      if (!sonde_target_prove (target, owner, error))
        return FALSE;
      if (contains (self->targets, self->targets->len, pid) || contains (targets, i, pid))
        {
          g_set_error (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                       "Option targets: process %d is given twice", (int) pid);
          return FALSE;
        }
    }
  return TRUE;
}

/* Nothing more of one that is gone, or that its owner may not look into any more. */
gboolean
sonde_target_set_open (const SondeTargetSet *self,
                       SondeEventSet *events,
                       const SondeTracer *owner,
                       GError **error)
{
  for (guint i = 0; i < self->targets->len; i++)
    {
      SondeTarget *target = g_ptr_array_index (self->targets, i);
      guint n_before = sonde_event_set_n_fresh (events);

      if (!sonde_target_reopen (target, owner))
        continue;
      if (!sonde_event_set_open_process (events, sonde_target_pid (target),
                                         sonde_target_process_fd (target), TRUE, error))
        return FALSE;
      if (!sonde_target_confirm (target, owner, NULL))
        sonde_event_set_discard_from (events, n_before);
    }
  return TRUE;
}

static gboolean
on_exited (int fd, GIOCondition condition, gpointer user_data)
{
  SondeTargetSet *self = user_data;

  for (guint i = 0; i < self->targets->len; i++)
    if (sonde_target_pidfd (g_ptr_array_index (self->targets, i)) == fd)
      g_array_index (self->watches, guint, i) = 0;
  if (--self->n_alive == 0)
    self->all_exited (self->user_data);
  return G_SOURCE_REMOVE;
}

void
sonde_target_set_take (SondeTargetSet *self, SondeTarget *target)
{
  int pidfd = sonde_target_pidfd (target);
  guint watch = pidfd >= 0 ? g_unix_fd_add (pidfd, G_IO_IN, on_exited, self) : 0;

  g_ptr_array_add (self->targets, target);
  g_array_append_val (self->watches, watch);
  self->n_alive += pidfd >= 0;
}

const SondeTarget *
sonde_target_set_find (const SondeTargetSet *self, pid_t pid)
{
  for (guint i = self->targets->len; i > 0; i--)
    if (sonde_target_pid (g_ptr_array_index (self->targets, i - 1)) == pid)
      return g_ptr_array_index (self->targets, i - 1);
  return NULL;
}

gboolean
sonde_target_set_is_over (const SondeTargetSet *self)
{
  return self->targets->len > 0 && self->n_alive == 0;
}
