/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/bus/authority.h"

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define NO_POLKIT "polkit is not running, without which root alone is served"
#define NO_ANSWER "nobody answered in time"
#define HAS_LEFT  "the caller has left"

/* --- turns --- */

/* Of one uid; it lives as long as it has a place. */
typedef struct SondeQuestionLine
{
  SondeQuestionQueue *queue;
  uid_t uid;
  GQueue waiting; /* SondeQuestionPlace */
  guint n_open;
  gboolean has_turn; /* is in the queue's turns */
} Line;

struct SondeQuestionQueue
{
  guint max_open;
  guint max_open_per_uid;
  void (*put) (gpointer question);
  guint n_open;
  GHashTable *lines; /* uid → Line */
  GQueue turns;      /* Line: those with a question that may be put, whose turn is next first */
};

SondeQuestionQueue *
sonde_question_queue_new (guint max_open, guint max_open_per_uid, void (*put) (gpointer question))
{
  SondeQuestionQueue *self = g_new0 (SondeQuestionQueue, 1);

  self->max_open = max_open;
  self->max_open_per_uid = max_open_per_uid;
  self->put = put;
  self->lines = g_hash_table_new (NULL, NULL);
  return self;
}

void
sonde_question_queue_free (SondeQuestionQueue *self)
{
  if (self == NULL)
    return;
  g_assert (g_hash_table_size (self->lines) == 0);
  g_hash_table_unref (self->lines);
  g_free (self);
}

/* After each change of @line: gives it a turn behind all others, takes its turn back, or frees it.
 */
static void
update_line (Line *line)
{
  SondeQuestionQueue *self = line->queue;
  gboolean may_put = line->waiting.length > 0 && line->n_open < self->max_open_per_uid;

  if (may_put && !line->has_turn)
    g_queue_push_tail (&self->turns, line);
  else if (!may_put && line->has_turn)
    g_queue_remove (&self->turns, line);
  line->has_turn = may_put;

  if (line->waiting.length == 0 && line->n_open == 0)
    {
      g_hash_table_remove (self->lines, GUINT_TO_POINTER (line->uid));
      g_free (line);
    }
}

SondeQuestionPlace *
sonde_question_queue_enter (SondeQuestionQueue *self, uid_t uid, gpointer question)
{
  SondeQuestionPlace *place = g_new0 (SondeQuestionPlace, 1);
  Line *line = g_hash_table_lookup (self->lines, GUINT_TO_POINTER (uid));

  if (line == NULL)
    {
      line = g_new0 (Line, 1);
      line->queue = self;
      line->uid = uid;
      g_hash_table_insert (self->lines, GUINT_TO_POINTER (uid), line);
    }
  place->line = line;
  place->question = question;
  g_queue_push_tail (&line->waiting, place);
  update_line (line);
  return place;
}

void
sonde_question_queue_advance (SondeQuestionQueue *self)
{
  while (self->n_open < self->max_open && self->turns.length > 0)
    {
      Line *line = g_queue_pop_head (&self->turns);
      SondeQuestionPlace *place = g_queue_pop_head (&line->waiting);

      line->has_turn = FALSE;
      line->n_open++;
      self->n_open++;
      place->is_open = TRUE;
      update_line (line);
      self->put (place->question);
    }
}

void
sonde_question_place_leave (SondeQuestionPlace *self)
{
  Line *line = self->line;

  if (self->is_open)
    {
      line->queue->n_open--;
      line->n_open--;
    }
  else
    g_queue_remove (&line->waiting, self);
  g_free (self);
  update_line (line);
}

/* --- questions --- */

struct SondeAuthority
{
  SondeBusConnection *connection; /* NULL: nobody is asked */
  /* Apart, so that people in front of a dialog keep nobody waiting who wants none. */
  SondeQuestionQueue *dialogs;
  SondeQuestionQueue *others;
  guint64 n_put;
};

/* It lives until polkit has answered, which may be after its caller had to be answered: the bus
 * counts it for as long. */
typedef struct
{
  SondeAuthority *authority;
  GTask *task; /* NULL once the caller is answered */
  SondeCaller *caller;
  char *action;
  GVariant *details; /* a{ss} */
  gboolean is_interactive;
  SondeQuestionQueue *queue;
  SondeQuestionPlace *place;
  guint64 number; /* the name by which polkit cancels it */
  gulong left_handler;
  guint timeout;
} Question;

static void
authority_clear (gpointer data)
{
  SondeAuthority *self = data;

  g_clear_pointer (&self->dialogs, sonde_question_queue_free);
  g_clear_pointer (&self->others, sonde_question_queue_free);
}

void
sonde_authority_free (SondeAuthority *self)
{
  if (self != NULL) /* a question that is still open has it a little longer */
    g_rc_box_release_full (self, authority_clear);
}

/* Answers the caller. @why_not: NULL: allowed. It is called from the signal that the caller leaves,
 * too, where g_cancellable_disconnect() would wait for ever. */
static void
answer (Question *self, const char *why_not)
{
  g_autoptr (GTask) task = g_steal_pointer (&self->task);

  g_clear_signal_handler (&self->left_handler, self->caller->left);
  g_clear_handle_id (&self->timeout, g_source_remove);
  if (why_not == NULL)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED, "Action %s: %s",
                             self->action, why_not);
}

/* Answered before. The next one's turn comes. */
static void
question_end (Question *self)
{
  SondeAuthority *authority = self->authority;

  sonde_question_place_leave (self->place);
  sonde_question_queue_advance (self->queue);
  sonde_caller_unref (self->caller);
  g_variant_unref (self->details);
  g_free (self->action);
  g_free (self);
  sonde_authority_free (authority);
}

/* polkit has its own time; ours is the question's. */
static void
call_polkit (const SondeAuthority *self,
             const char *method,
             GVariant *arguments,
             const char *type,
             SondeBusConnectionReply reply,
             gpointer user_data)
{
  const SondeBusConnectionCall call = {
    .destination = "org.freedesktop.PolicyKit1",
    .path = "/org/freedesktop/PolicyKit1/Authority",
    .interface = "org.freedesktop.PolicyKit1.Authority",
    .method = method,
    .arguments = arguments,
    .type = type,
    .starts_service = TRUE,
  };

  sonde_bus_connection_call (self->connection, &call, reply, user_data);
}

/* (transfer full): NULL: allowed. Absent, silent, and any other trouble are not the same for who
 * has to mend it. Source: org.freedesktop.PolicyKit1.Authority, AuthorizationResult. */
static char *
explain (GVariant *result, const GError *error)
{
  g_autoptr (GError) copy = NULL;
  gboolean is_authorized, is_challenge;

  if (result != NULL)
    {
      g_variant_get (result, "((bba{ss}))", &is_authorized, &is_challenge, NULL);
      if (is_authorized)
        return NULL;
      return g_strdup (is_challenge ? "an administrator must authenticate, and nobody can be asked"
                                    : "not allowed");
    }
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN)
      || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NAME_HAS_NO_OWNER))
    return g_strdup (NO_POLKIT);
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY))
    return g_strdup ("polkit went away without an answer");
  copy = g_error_copy (error);
  g_dbus_error_strip_remote_error (copy);
  return g_strdup_printf ("polkit cannot be asked: %s", copy->message);
}

static void
on_checked (GVariant *reply, const GError *error, gpointer user_data)
{
  Question *self = user_data;

  if (self->task != NULL)
    {
      g_autofree char *why_not = explain (reply, error);

      answer (self, why_not);
    }
  question_end (self);
}

/* The caller is not to wait any longer, nor is a dialog to stay open. */
static void
give_up (Question *self, const char *why)
{
  answer (self, why);
  if (!self->place->is_open)
    question_end (self);
  else
    {
      g_autofree char *id = g_strdup_printf ("%" G_GUINT64_FORMAT, self->number);

      call_polkit (self->authority, "CancelCheckAuthorization", g_variant_new ("(s)", id), NULL,
                   NULL, NULL);
    }
}

static gboolean
on_timeout (gpointer user_data)
{
  Question *self = user_data;

  self->timeout = 0;
  give_up (self, NO_ANSWER);
  return G_SOURCE_REMOVE;
}

static void
on_caller_left (GCancellable *left, gpointer user_data)
{
  give_up (user_data, HAS_LEFT);
}

/* For its turn, and from then on for the answer. */
static void
start_timeout (Question *self)
{
  g_clear_handle_id (&self->timeout, g_source_remove);
  self->timeout = g_timeout_add (self->is_interactive ? SONDE_LIMIT_POLKIT_INTERACTIVE_MS
                                                      : SONDE_LIMIT_POLKIT_MS,
                                 on_timeout, self);
}

/* Not by libpolkit: it forgets a question that is cancelled while the bus still counts it, and it
 * brings a thread and a second connection. */
static void
put (gpointer user_data)
{
  Question *self = user_data;
  g_autofree char *id = NULL;
  GVariantBuilder subject;

  start_timeout (self);
  self->number = ++self->authority->n_put;
  id = g_strdup_printf ("%" G_GUINT64_FORMAT, self->number);
  g_variant_builder_init (&subject, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&subject, "{sv}", "name", g_variant_new_string (self->caller->name));
  call_polkit (self->authority, "CheckAuthorization",
               g_variant_new ("((sa{sv})s@a{ss}us)", "system-bus-name", &subject, self->action,
                              self->details, self->is_interactive ? 1 : 0, id),
               "((bba{ss}))", on_checked, self);
}

SondeAuthority *
sonde_authority_new_polkit (SondeBusConnection *connection)
{
  SondeAuthority *self = g_rc_box_new0 (SondeAuthority);

  self->connection = connection;
  self->dialogs
      = sonde_question_queue_new (SONDE_LIMIT_QUESTIONS, SONDE_LIMIT_QUESTIONS_PER_UID, put);
  self->others
      = sonde_question_queue_new (SONDE_LIMIT_QUESTIONS, SONDE_LIMIT_QUESTIONS_PER_UID, put);
  return self;
}

SondeAuthority *
sonde_authority_new_peer (void)
{
  return g_rc_box_new0 (SondeAuthority);
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
  g_autoptr (GTask) task = g_task_new (NULL, NULL, callback, user_data);
  g_autoptr (GVariant) owned = g_variant_ref_sink (details);
  Question *question;

  g_task_set_source_tag (task, sonde_authority_check_async);
  if (self->connection == NULL || caller->uid == 0)
    {
      g_task_return_boolean (task, TRUE);
      return;
    }
  if (g_cancellable_is_cancelled (caller->left))
    {
      g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED, "Action %s: %s",
                               action, HAS_LEFT);
      return;
    }
  question = g_new0 (Question, 1);
  question->authority = g_rc_box_acquire (self);
  question->task = g_steal_pointer (&task);
  question->caller = sonde_caller_ref (caller);
  question->action = g_strdup (action);
  question->details = g_steal_pointer (&owned);
  question->is_interactive = is_interactive;
  question->left_handler
      = g_signal_connect (caller->left, "cancelled", G_CALLBACK (on_caller_left), question);
  start_timeout (question);
  question->queue = is_interactive ? self->dialogs : self->others;
  question->place = sonde_question_queue_enter (question->queue, caller->uid, question);
  sonde_question_queue_advance (question->queue);
}

gboolean
sonde_authority_check_finish (SondeAuthority *self, GAsyncResult *result, GError **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}
