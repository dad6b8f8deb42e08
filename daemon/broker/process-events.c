/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/process-events.h"

#include <fcntl.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"

SondeOpening *
sonde_opening_new_target (SondeTarget *target,
                          gboolean is_new,
                          const SondeTracer *owner,
                          SondeEventDraft *draft)
{
  SondeOpening *self = g_new0 (SondeOpening, 1);

  *self = (SondeOpening){ .owner = *owner, .target = target, .is_new = is_new, .draft = draft };
  return self;
}

SondeOpening *
sonde_opening_new_member (pid_t pid, const SondeControlGroup *group, SondeEventDraft *draft)
{
  SondeOpening *self = g_new0 (SondeOpening, 1);

  *self = (SondeOpening){ .pid = pid, .group = group, .draft = draft };
  return self;
}

void
sonde_opening_free (SondeOpening *self)
{
  if (self == NULL)
    return;
  sonde_target_free (self->target);
  sonde_event_draft_free (self->draft);
  g_clear_error (&self->error);
  g_free (self);
}

/* The number may have gone to a process outside of the unit since it was listed: its events, still
 * off, are closed again. */
static gboolean
open_member (SondeEventDraft *draft,
             const SondeControlGroup *group,
             pid_t pid,
             gboolean is_late,
             GError **error)
{
  g_autofree char *directory = g_strdup_printf ("/proc/%d", (int) pid);
  sonde_autofd int process_fd = open (directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  guint n_before = sonde_event_draft_size (draft);
  g_autofree char *text = NULL;

  if (process_fd < 0)
    return TRUE;
  if (!sonde_event_draft_open_process (draft, pid, process_fd, is_late, error))
    return FALSE;
  text = sonde_proc_text_read (process_fd, "cgroup", SONDE_LIMIT_PROC_TEXT_BYTES);
  if (text == NULL || !sonde_control_group_contains (group, text))
    sonde_event_draft_cut (draft, n_before);
  return TRUE;
}

static gboolean
check_room (const SondeOpening *self, GError **error)
{
  g_autoptr (GArray) pids = g_array_new (FALSE, FALSE, sizeof (gint));
  gint pid = self->target->pid;

  g_array_append_val (pids, pid);
  return sonde_event_draft_check_room (self->draft, self->owner.uid, pids, error);
}

/* Some may have been inherited. */
void
sonde_opening_run (SondeOpening *self)
{
  if (self->target == NULL)
    {
      open_member (self->draft, self->group, self->pid, TRUE, &self->error);
      return;
    }
  if (self->is_new)
    {
      if (!sonde_target_prove (self->target, &self->owner, &self->error)
          || !check_room (self, &self->error))
        return;
    }
  /* Nothing more of one that is gone, or that its owner may not look into any more. */
  else if (!sonde_target_reopen (self->target, &self->owner))
    return;
  if (sonde_event_draft_open_process (self->draft, self->target->pid, self->target->process_fd,
                                      TRUE, &self->error)
      && !sonde_target_confirm (self->target, &self->owner, self->is_new ? &self->error : NULL))
    sonde_event_draft_cut (self->draft, 0);
}

/* --- a unit --- */

static gboolean
refuse_empty (const char *unit, GError **error)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS, "Unit %s has no process", unit);
  return FALSE;
}

/* Whoever forks during a pass is found in the next one. */
static gboolean
open_members (SondeEventDraft *draft,
              const SondeControlGroup *group,
              const char *unit,
              uid_t owner_uid,
              GError **error)
{
  g_autoptr (GHashTable) known = g_hash_table_new (NULL, NULL);

  for (guint pass = 0; pass < SONDE_LIMIT_TASK_PASSES; pass++)
    {
      g_autoptr (GArray) pids = sonde_control_group_list (group, error);
      guint n_new = 0;

      if (pids == NULL
          || (pass == 0 && !sonde_event_draft_check_room (draft, owner_uid, pids, error)))
        return FALSE;
      for (guint i = 0; i < pids->len; i++)
        {
          pid_t pid = g_array_index (pids, pid_t, i);

          if (!g_hash_table_add (known, GINT_TO_POINTER (pid)))
            continue;
          n_new++;
          if (!open_member (draft, group, pid, pass > 0, error))
            return FALSE;
        }
      if (n_new == 0 && sonde_event_draft_size (draft) > 0)
        return TRUE;
      if (n_new == 0)
        return refuse_empty (unit, error);
    }
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
               "Unit %s makes processes faster than they can be found", unit);
  return FALSE;
}

gboolean
sonde_unit_events_open (SondeEventDraft *draft,
                        const SondeControlGroup *group,
                        const char *unit,
                        uid_t owner_uid,
                        char **note,
                        GError **error)
{
  g_autoptr (GError) why = NULL;
  int group_fd = sonde_control_group_fd (group);

  *note = NULL;
  if (sonde_control_group_is_empty (group))
    return refuse_empty (unit, error);
  if (group_fd >= 0 && sonde_event_draft_open_group (draft, group_fd, &why))
    return TRUE;
  sonde_event_draft_cut (draft, 0);
  if (!open_members (draft, group, unit, owner_uid, error))
    return FALSE;
  *note = g_strdup_printf (
      "The unit's processes are watched one by one, with those that they make; "
      "others that join it later are not seen: %s",
      why != NULL ? why->message : "its control group is of version 1, which has no perf events");
  return TRUE;
}
