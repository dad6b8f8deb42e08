/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/broker-link.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"

struct SondeBrokerLink
{
  SondePeer *peer;
  GQueue additions; /* Addition: unanswered ones, in their order */
};

/* A call of add. */
typedef struct
{
  GTask *task; /* NULL: it was told that there is no answer */
  guint timer;
} Addition;

static SondeBrokerLink *
link_new (void)
{
  SondeBrokerLink *self = g_new0 (SondeBrokerLink, 1);

  g_queue_init (&self->additions);
  return self;
}

SondeBrokerLink *
sonde_broker_link_new (SondePeerLauncher *launcher,
                       const SondePeerHandler *handler,
                       gpointer user_data,
                       GError **error)
{
  g_autoptr (SondeBrokerLink) self = link_new ();

  self->peer = sonde_peer_start (launcher, SONDE_PEER_BROKER, handler, user_data, error);
  return self->peer != NULL ? g_steal_pointer (&self) : NULL;
}

SondeBrokerLink *
sonde_broker_link_adopt (SondePeerLauncher *launcher,
                         int fd,
                         pid_t pid,
                         guint n_unanswered,
                         const SondePeerHandler *handler,
                         gpointer user_data)
{
  SondeBrokerLink *self = link_new ();

  for (guint i = 0; i < n_unanswered; i++)
    g_queue_push_tail (&self->additions, g_new0 (Addition, 1));
  self->peer = sonde_peer_adopt (launcher, SONDE_PEER_BROKER, fd, pid, handler, user_data);
  return self;
}

static void
addition_free (gpointer data)
{
  Addition *addition = data;

  g_clear_handle_id (&addition->timer, g_source_remove);
  if (addition->task != NULL)
    g_task_return_new_error (addition->task, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                             "The session takes no processes any more");
  g_clear_object (&addition->task);
  g_free (addition);
}

SondePeer *
sonde_broker_link_dissolve (SondeBrokerLink *self)
{
  SondePeer *peer = self->peer;

  g_queue_clear_full (&self->additions, addition_free);
  g_free (self);
  return peer;
}

void
sonde_broker_link_free (SondeBrokerLink *self)
{
  if (self != NULL)
    sonde_peer_free (sonde_broker_link_dissolve (self));
}

void
sonde_broker_link_leave (SondeBrokerLink *self)
{
  if (self != NULL)
    sonde_peer_leave (sonde_broker_link_dissolve (self));
}

SondePeer *
sonde_broker_link_peer (const SondeBrokerLink *self)
{
  return self->peer;
}

/* PROVE or ADD. @targets: (transfer full) */
static gboolean
send_targets (SondeBrokerLink *self, SondeMessageType type, GPtrArray *targets, GError **error)
{
  union
  {
    SondeMessageTargets header;
    char bytes[sizeof (SondeMessageTargets)
               + SONDE_MESSAGE_MAX_TARGETS * sizeof (SondeMessageTarget)];
  } message = { .header = { .header.type = type, .n_targets = targets->len } };
  int fds[2 * SONDE_MESSAGE_MAX_TARGETS];
  unsigned n_fds = 0;

  g_assert (targets->len <= SONDE_MESSAGE_MAX_TARGETS);
  for (guint i = 0; i < targets->len; i++)
    {
      SondeAskedTarget *target = g_ptr_array_index (targets, i);
      SondeMessageTarget *entry = &message.header.targets[i];

      *entry = (SondeMessageTarget){ .pid = target->pid };
      if (target->has_proof)
        entry->flags |= SONDE_TARGET_HAS_PROOF;
      if (target->maps_fd >= 0)
        {
          entry->flags |= SONDE_TARGET_HAS_MAPS;
          fds[n_fds++] = sonde_steal_fd (&target->maps_fd);
        }
      if (target->pidfd >= 0)
        {
          entry->flags |= SONDE_TARGET_HAS_PIDFD;
          fds[n_fds++] = sonde_steal_fd (&target->pidfd);
        }
    }
  g_ptr_array_unref (targets);
  return sonde_peer_send (self->peer, &message,
                          sizeof message.header
                              + message.header.n_targets * sizeof message.header.targets[0],
                          fds, n_fds, error);
}

gboolean
sonde_broker_link_ask (SondeBrokerLink *self,
                       const SondeAsked *asked,
                       uid_t owner_uid,
                       pid_t owner_pid,
                       GPtrArray *targets,
                       GError **error)
{
  SondeMessageAsk message = { .header.type = SONDE_MESSAGE_ASK,
                              .version = SONDE_MESSAGE_VERSION,
                              .owner_uid = owner_uid,
                              .owner_pid = owner_pid,
                              .asked = *asked };

  if (sonde_peer_send (self->peer, &message, sizeof message, NULL, 0, error))
    return send_targets (self, SONDE_MESSAGE_PROVE, targets, error);
  g_ptr_array_unref (targets);
  return FALSE;
}

gboolean
sonde_broker_link_serve (SondeBrokerLink *self, guint64 session_id, int fd, GError **error)
{
  SondeMessageServe message = { .header.type = SONDE_MESSAGE_SERVE, .session_id = session_id };

  return sonde_peer_send (self->peer, &message, sizeof message, &fd, 1, error);
}

gboolean
sonde_broker_link_open (SondeBrokerLink *self, const char *group, GError **error)
{
  SondeMessageOpen message = { .header.type = SONDE_MESSAGE_OPEN };

  if (group != NULL
      && g_strlcpy (message.group, group, sizeof message.group) >= sizeof message.group)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                           "The path of the unit's control group is too long");
      return FALSE;
    }
  return sonde_peer_send (self->peer, &message, sizeof message, NULL, 0, error);
}

gboolean
sonde_broker_link_announce (SondeBrokerLink *self, GError **error)
{
  return sonde_peer_send_simple (self->peer, SONDE_MESSAGE_ANNOUNCE, error);
}

gboolean
sonde_broker_link_tell_mapped (SondeBrokerLink *self,
                               const SondeMessageRingsMapped *message,
                               GError **error)
{
  SondeMessageRingsMapped copy = *message;

  return sonde_peer_send (self->peer, &copy, sizeof copy, NULL, 0, error);
}

gboolean
sonde_broker_link_report (SondeBrokerLink *self, GError **error)
{
  return sonde_peer_send_simple (self->peer, SONDE_MESSAGE_REPORT, error);
}

gboolean
sonde_broker_link_close (SondeBrokerLink *self, GError **error)
{
  return sonde_peer_send_simple (self->peer, SONDE_MESSAGE_CLOSE, error);
}

/* --- processes that are added --- */

static gboolean
on_overdue (gpointer user_data)
{
  Addition *addition = user_data;
  g_autoptr (GTask) task = g_steal_pointer (&addition->task);

  addition->timer = 0;
  g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The processes were not proven in time");
  return G_SOURCE_REMOVE;
}

void
sonde_broker_link_add_async (SondeBrokerLink *self,
                             GPtrArray *targets,
                             GAsyncReadyCallback callback,
                             gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (NULL, NULL, callback, user_data);
  GError *error = NULL;
  Addition *addition;

  g_task_set_source_tag (task, sonde_broker_link_add_async);
  /* Each answer that is still to come has its place in the order. */
  if (g_queue_get_length (&self->additions) >= SONDE_LIMIT_CALLS)
    {
      g_ptr_array_unref (targets);
      g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                               "Limit calls: at most %d are not answered", SONDE_LIMIT_CALLS);
      return;
    }
  if (!send_targets (self, SONDE_MESSAGE_ADD, targets, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  addition = g_new0 (Addition, 1);
  addition->task = g_steal_pointer (&task);
  addition->timer = g_timeout_add (SONDE_LIMIT_PROOF_MS, on_overdue, addition);
  g_queue_push_tail (&self->additions, addition);
}

gboolean
sonde_broker_link_add_finish (GAsyncResult *result, GError **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

guint
sonde_broker_link_n_unanswered (const SondeBrokerLink *self)
{
  return g_queue_get_length ((GQueue *) &self->additions);
}

gboolean
sonde_broker_link_take_added (SondeBrokerLink *self,
                              const SondeMessageResult *result,
                              GError **error)
{
  Addition *addition = g_queue_pop_head (&self->additions);
  g_autoptr (GTask) task = NULL;
  GError *refusal = NULL;

  if (addition == NULL)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The broker answered what it was not asked");
      return FALSE;
    }
  task = g_steal_pointer (&addition->task);
  addition_free (addition);
  if (task == NULL)
    return TRUE;
  if (sonde_broker_result_is_good (result, &refusal))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, refusal);
  return TRUE;
}

gboolean
sonde_broker_result_is_good (const SondeMessageResult *result, GError **error)
{
  g_autofree char *text = NULL;

  if (result->error == SONDE_MESSAGE_NO_ERROR)
    return TRUE;
  text = g_utf8_make_valid (result->text, (gssize) strnlen (result->text, sizeof result->text));
  g_set_error_literal (error, SONDE_ERROR, (gint) result->error, text);
  return FALSE;
}
