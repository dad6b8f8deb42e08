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
  SondeAuthority *authority;
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
  GObject *polkit; /* libpolkit's one authority: its last reference must not go between questions,
                      since its signals are told from an idle source that holds none */
  GPtrArray *waiting; /* GTask: until @polkit is there */
};

static void
authority_clear (gpointer data)
{
  SondeAuthority *self = data;

  g_clear_object (&self->polkit);
  g_ptr_array_unref (self->waiting);
}

static void
authority_unref (SondeAuthority *self)
{
  g_rc_box_release_full (self, authority_clear);
}

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
  authority_unref (question->authority);
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
    refuse (task, error->domain == POLKIT_ERROR ? error->message : NO_POLKIT);
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
      POLKIT_AUTHORITY (self->polkit), subject, question->action, details,
      question->is_interactive ? POLKIT_CHECK_AUTHORIZATION_FLAGS_ALLOW_USER_INTERACTION
                               : POLKIT_CHECK_AUTHORIZATION_FLAGS_NONE,
      question->cancellable, on_checked, task);
}

static void
on_authority (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeAuthority *self = user_data;
  g_autoptr (PolkitAuthority) polkit = polkit_authority_get_finish (result, NULL);
  g_autoptr (GPtrArray) waiting = g_steal_pointer (&self->waiting);

  self->waiting = g_ptr_array_new ();
  self->polkit = (GObject *) g_steal_pointer (&polkit);
  for (guint i = 0; i < waiting->len; i++)
    {
      GTask *task = g_ptr_array_index (waiting, i);

      if (self->polkit == NULL)
        refuse (task, NO_POLKIT);
      else
        put_question (self, task);
    }
  authority_unref (self);
}

/* The library makes its object in a thread, under a lock that a second request takes as well, here
 * in the main loop. With a polkitd that hangs that would stop everything; so there is one request,
 * and questions wait for it in a list. */
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
    polkit_authority_get_async (NULL, on_authority, g_rc_box_acquire (self));
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
  SondeAuthority *self = g_rc_box_new0 (SondeAuthority);

  self->ask = ask;
  self->waiting = g_ptr_array_new ();
  return self;
}

SondeAuthority *
sonde_authority_new_polkit (void)
{
  return authority_new (ask_polkit);
}

SondeAuthority *
sonde_authority_new_peer (void)
{
  return authority_new (ask_peer);
}

void
sonde_authority_free (SondeAuthority *self)
{
  if (self != NULL)
    authority_unref (self); /* a question that is still open has it a little longer */
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
question_new (SondeAuthority *self,
              SondeCaller *caller,
              const char *action,
              GVariant *details,
              gboolean is_interactive)
{
  Question *question = g_new0 (Question, 1);

  question->authority = g_rc_box_acquire (self);
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
  g_task_set_task_data (task, question_new (self, caller, action, details, is_interactive),
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
