/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who may do what: one asynchronous question per call. */
#include "config.h"

#include "daemon/control/authority.h"

#if HAVE_POLKIT
#include <polkit/polkit.h>
#endif

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

typedef struct
{
  char *action;
  GVariant *details; /* a{ss} */
  SondeCaller *caller;
  gboolean is_interactive;
  GCancellable *cancellable; /* of the question: by timeout, or because the caller leaves */
  gulong left_handler;
  guint timeout;
} Question;

struct SondeAuthority
{
  /* Answers @task, whose data is a Question of somebody who is not root. */
  void (*ask) (SondeAuthority *self, GTask *task);
#if HAVE_POLKIT
  PolkitAuthority *polkit; /* NULL before the first question */
  GPtrArray *waiting;      /* GTask: for @polkit */
  GCancellable *getting;   /* @polkit */
#endif
};

static void
question_free (gpointer data)
{
  Question *question = data;

  g_cancellable_disconnect (sonde_caller_left (question->caller), question->left_handler);
  g_clear_handle_id (&question->timeout, g_source_remove);
  g_object_unref (question->cancellable);
  sonde_caller_unref (question->caller);
  g_variant_unref (question->details);
  g_free (question->action);
  g_free (question);
}

/* @task: (transfer full) */
static void
refuse (GTask *task, const char *why)
{
  const Question *question = g_task_get_task_data (task);

  g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED, "Action %s: %s",
                           question->action, why);
  g_object_unref (task);
}

static void
allow (GTask *task)
{
  g_task_return_boolean (task, TRUE);
  g_object_unref (task);
}

static void
ask_peer (SondeAuthority *self, GTask *task)
{
  allow (task);
}

#if HAVE_POLKIT
#define NO_POLKIT "polkit is not running, without which root alone is served"
#define NO_ANSWER "the caller has left, or nobody answered in time"

static void
on_checked (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  const Question *question = g_task_get_task_data (task);
  g_autoptr (GError) error = NULL;
  g_autoptr (PolkitAuthorizationResult) answer
      = polkit_authority_check_authorization_finish (POLKIT_AUTHORITY (source), result, &error);

  if (answer == NULL && g_cancellable_is_cancelled (question->cancellable))
    refuse (task, NO_ANSWER);
  else if (answer == NULL)
    refuse (task, NO_POLKIT);
  else if (g_cancellable_is_cancelled (question->cancellable))
    refuse (task, NO_ANSWER);
  else if (polkit_authorization_result_get_is_authorized (answer))
    allow (task);
  else if (polkit_authorization_result_get_is_challenge (answer))
    refuse (task, "an administrator must authenticate, and nobody can be asked");
  else
    refuse (task, "not allowed");
}

static PolkitDetails *
make_details (GVariant *dict)
{
  PolkitDetails *details = polkit_details_new ();
  GVariantIter iter;
  const char *key;
  const char *value;

  g_variant_iter_init (&iter, dict);
  while (g_variant_iter_next (&iter, "{&s&s}", &key, &value))
    polkit_details_insert (details, key, value);
  return details;
}

/* @task: (transfer full) */
static void
put_question (SondeAuthority *self, GTask *task)
{
  const Question *question = g_task_get_task_data (task);
  g_autoptr (PolkitSubject) subject
      = polkit_system_bus_name_new (sonde_caller_name (question->caller));
  g_autoptr (PolkitDetails) details = make_details (question->details);

  polkit_authority_check_authorization (
      self->polkit, subject, question->action, details,
      question->is_interactive ? POLKIT_CHECK_AUTHORIZATION_FLAGS_ALLOW_USER_INTERACTION
                               : POLKIT_CHECK_AUTHORIZATION_FLAGS_NONE,
      question->cancellable, on_checked, task);
}

static void
on_authority (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeAuthority *self = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (PolkitAuthority) polkit = polkit_authority_get_finish (result, &error);
  g_autoptr (GPtrArray) waiting = NULL;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return; /* @self is gone */
  self->polkit = g_steal_pointer (&polkit);
  waiting = g_steal_pointer (&self->waiting);
  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
  while (waiting->len > 0)
    {
      GTask *task = g_ptr_array_steal_index (waiting, 0);

      if (self->polkit == NULL)
        refuse (task, NO_POLKIT);
      else
        put_question (self, task);
    }
}

/* The library makes its object in a thread, and until that is done a second request for it waits
 * for that thread: so there is one request, and questions wait here. */
static void
ask_polkit (SondeAuthority *self, GTask *task)
{
  if (self->polkit != NULL)
    {
      put_question (self, task);
      return;
    }
  g_ptr_array_add (self->waiting, task);
  if (self->waiting->len == 1)
    polkit_authority_get_async (self->getting, on_authority, self);
}
#else
static void
ask_polkit (SondeAuthority *self, GTask *task)
{
  refuse (task, "built without polkit, without which root alone is served");
}
#endif

static SondeAuthority *
authority_new (void (*ask) (SondeAuthority *self, GTask *task))
{
  SondeAuthority *self = g_new0 (SondeAuthority, 1);

  self->ask = ask;
  return self;
}

SondeAuthority *
sonde_authority_new_polkit (void)
{
  SondeAuthority *self = authority_new (ask_polkit);

#if HAVE_POLKIT
  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
  self->getting = g_cancellable_new ();
#endif
  return self;
}

SondeAuthority *
sonde_authority_new_peer (void)
{
  return authority_new (ask_peer);
}

void
sonde_authority_free (SondeAuthority *self)
{
#if HAVE_POLKIT
  if (self->getting != NULL)
    g_cancellable_cancel (self->getting);
  g_clear_object (&self->getting);
  g_clear_pointer (&self->waiting, g_ptr_array_unref);
  g_clear_object (&self->polkit);
#endif
  g_free (self);
}

static gboolean
on_timeout (gpointer user_data)
{
  Question *question = user_data;

  question->timeout = 0;
  g_cancellable_cancel (question->cancellable);
  return G_SOURCE_REMOVE;
}

static void
on_caller_left (GCancellable *left, gpointer user_data)
{
  g_cancellable_cancel (user_data);
}

static Question *
question_new (SondeCaller *caller, const char *action, GVariant *details, gboolean is_interactive)
{
  Question *question = g_new0 (Question, 1);

  question->action = g_strdup (action);
  question->details = g_variant_ref_sink (details);
  question->caller = sonde_caller_ref (caller);
  question->is_interactive = is_interactive;
  question->cancellable = g_cancellable_new ();
  question->timeout
      = g_timeout_add (is_interactive ? SONDE_LIMIT_POLKIT_INTERACTIVE_MS : SONDE_LIMIT_POLKIT_MS,
                       on_timeout, question);
  question->left_handler
      = g_cancellable_connect (sonde_caller_left (caller), G_CALLBACK (on_caller_left),
                               g_object_ref (question->cancellable), g_object_unref);
  return question;
}

void
sonde_authority_check_async (SondeAuthority *self,
                             SondeCaller *caller,
                             const char *action,
                             GVariant *details,
                             gboolean is_interactive,
                             GAsyncReadyCallback callback,
                             gpointer user_data)
{
  GTask *task = g_task_new (NULL, NULL, callback, user_data);

  g_task_set_source_tag (task, sonde_authority_check_async);
  g_task_set_task_data (task, question_new (caller, action, details, is_interactive),
                        question_free);
  if (sonde_caller_uid (caller) == 0)
    allow (task);
  else
    self->ask (self, task);
}

gboolean
sonde_authority_check_finish (SondeAuthority *self, GAsyncResult *result, GError **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}
