/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/service/map-asker.h"

#include <gio/gio.h>

#include "client/base/text.h"

#define FIRST_S  1
#define NEXT_S   5
#define ANSWER_S 10
#define PID_WORD "%p"

struct SondeMapAsker
{
  char **command;
  void (*failed) (const char *text, gpointer user_data);
  gpointer user_data;
  guint timer;          /* the next question, or the end of the answer's time; 0: none */
  GSubprocess *process; /* NULL: nothing is under way */
  GCancellable *cancellable;
};

static gboolean ask (gpointer user_data);

static void
give_up (SondeMapAsker *self, const char *why)
{
  g_autofree char *shown = sonde_text_escape (why, -1);
  g_autofree char *text = g_strdup_printf (
      "No names of code that it makes: %s fails (%s). A JDK of version 17 or later has jcmd, "
      "Debian's openjdk-17-jdk-headless for one",
      self->command[0], shown);

  self->failed (text, self->user_data);
}

static gboolean
end_answer (gpointer user_data)
{
  SondeMapAsker *self = user_data;

  self->timer = 0;
  g_subprocess_force_exit (self->process);
  return G_SOURCE_REMOVE;
}

static void
answered (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *output = NULL;
  SondeMapAsker *self = user_data;
  gboolean is_read
      = g_subprocess_communicate_utf8_finish (G_SUBPROCESS (source), result, &output, NULL, &error);

  /* Then it is gone. */
  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  if (!is_read)
    give_up (self, error->message);
  else if (!g_subprocess_get_successful (self->process))
    give_up (self, output[0] != '\0' ? g_strchomp (output) : "it does not answer");
  else
    self->timer = g_timeout_add_seconds (NEXT_S, ask, self);
  g_clear_object (&self->process);
}

static gboolean
ask (gpointer user_data)
{
  SondeMapAsker *self = user_data;
  g_autoptr (GError) error = NULL;

  self->timer = 0;
  self->process = g_subprocess_newv (
      (const char *const *) self->command,
      G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE, &error);
  if (self->process == NULL)
    {
      give_up (self, error->message);
      return G_SOURCE_REMOVE;
    }
  self->timer = g_timeout_add_seconds (ANSWER_S, end_answer, self);
  g_subprocess_communicate_utf8_async (self->process, NULL, self->cancellable, answered, self);
  return G_SOURCE_REMOVE;
}

SondeMapAsker *
sonde_map_asker_new (const char *const *command,
                     GPid pid,
                     void (*failed) (const char *text, gpointer user_data),
                     gpointer user_data)
{
  SondeMapAsker *self = g_new0 (SondeMapAsker, 1);

  self->command = g_strdupv ((char **) command);
  for (guint i = 0; self->command[i] != NULL; i++)
    if (g_str_equal (self->command[i], PID_WORD))
      {
        g_free (self->command[i]);
        self->command[i] = g_strdup_printf ("%d", pid);
      }
  self->failed = failed;
  self->user_data = user_data;
  self->cancellable = g_cancellable_new ();
  self->timer = g_timeout_add_seconds (FIRST_S, ask, self);
  return self;
}

void
sonde_map_asker_free (SondeMapAsker *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  g_cancellable_cancel (self->cancellable);
  if (self->process != NULL)
    g_subprocess_force_exit (self->process);
  g_clear_object (&self->process);
  g_clear_object (&self->cancellable);
  g_strfreev (self->command);
  g_free (self);
}
