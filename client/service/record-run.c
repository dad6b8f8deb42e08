/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/service/record-run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/private-beacon.h"
#include "client/base/text.h"
#include "client/service/map-asker.h"
#include "client/service/named-command.h"
#include "client/service/spawn.h"

struct SondeRecordRun
{
  const SondeRecordOptions *options;
  const SondeRecordRunHandler *handler; /* NULL: nobody is told any more */
  gpointer user_data;
  GVariant *request; /* a{sv} */
  GUnixFDList *fds;  /* what its handles mean */
  SondeClientProfiler *profiler;
  gboolean is_embedded;
  GError *absence; /* why there is no service; NULL: there is, or none was wanted */
  GError *refusal; /* why it does not do it for us, so that we try without it; else NULL */
  GCancellable *cancellable;   /* of the start */
  SondeClientSession *session; /* NULL before the start */
  SondeSpawn *spawn;           /* NULL without a command */
  GPid pid;                    /* of it */
  char **named;                /* the command, so that it names what it makes; NULL: as it is */
  const SondeNamedRuntime *runtime; /* by what it does */
  gboolean is_named;                /* it runs so */
  SondeMapAsker *asker;             /* has it write that; NULL: nothing does */
  gboolean has_map;                 /* it writes a file for that, which we made it write */
  int control_fd;                   /* for the command; -1: none */
  gboolean has_begun;               /* the recording: what it is of is in it */
  gboolean has_stopped;             /* it */
  gboolean has_failed;              /* it, or the start of the command */
  gboolean was_told_to_end;         /* on purpose */
  gboolean terminated_command;
  int command_status; /* exit status of the command, -1 before */
  int exec_error;     /* errno, 0 if the command ran */
};

SondeRecordRun *
sonde_record_run_new (const SondeRecordOptions *options, GError **error)
{
  g_autoptr (SondeRecordRun) self = g_new0 (SondeRecordRun, 1);

  self->options = options;
  self->control_fd = -1;
  self->command_status = -1;
  self->cancellable = g_cancellable_new ();
  if (options->command != NULL)
    {
      g_autofree char *preload = NULL;

      if (!sonde_record_options_make_preload (options, &preload, error))
        return NULL;
      self->named = sonde_named_command_new (options->command, &self->runtime);
      self->spawn = sonde_spawn_new (options->command, self->named, preload,
                                     g_strcmp0 (options->output, "-") == 0, error);
      if (self->spawn == NULL)
        return NULL;
      self->pid = sonde_spawn_pid (self->spawn);
    }
  self->request = sonde_record_options_build (options, &self->fds, error);
  if (self->request == NULL)
    return NULL;
  g_variant_ref_sink (self->request);
  return g_steal_pointer (&self);
}

void
sonde_record_run_free (SondeRecordRun *self)
{
  if (self == NULL)
    return;
  /* A session that is not over yet keeps itself, and its profiler, until it is told. Nobody else
   * is: who frees us may be gone himself. */
  self->handler = NULL;
  g_clear_pointer (&self->asker, sonde_map_asker_free);
  g_clear_pointer (&self->spawn, sonde_spawn_free);
  if (self->session != NULL)
    g_signal_handlers_disconnect_by_data (self->session, self);
  if (self->profiler != NULL)
    sonde_client_profiler_close (self->profiler);
  while (g_main_context_pending (NULL))
    g_main_context_iteration (NULL, FALSE);
  g_clear_object (&self->session);
  g_clear_object (&self->profiler);
  g_clear_object (&self->cancellable);
  g_clear_pointer (&self->request, g_variant_unref);
  g_clear_object (&self->fds);
  g_strfreev (self->named);
  sonde_clear_fd (&self->control_fd);
  g_clear_error (&self->absence);
  g_clear_error (&self->refusal);
  g_free (self);
}

static gboolean
connect_embedded (SondeRecordRun *self, GError **error)
{
  self->is_embedded = TRUE;
  self->profiler = sonde_client_profiler_new_embedded (self->options->daemon_path,
                                                       self->options->worker_path, error);
  return self->profiler != NULL;
}

gboolean
sonde_record_run_connect (SondeRecordRun *self, GError **error)
{
  if (self->options->embedded)
    return connect_embedded (self, error);
  self->profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_TERMINAL,
                                                  self->options->service ? error : &self->absence);
  return self->profiler != NULL || (!self->options->service && connect_embedded (self, error));
}

gboolean
sonde_record_run_is_embedded (const SondeRecordRun *self)
{
  return self->is_embedded;
}

static void
check_end (SondeRecordRun *self)
{
  if (!self->has_stopped || (self->spawn != NULL && self->command_status < 0))
    return;
  /* All that was in it has been read. */
  if (self->has_map)
    sonde_named_command_remove_map (self->pid);
  self->has_map = FALSE;
  self->handler->ended (self->user_data);
}

/* A request that nobody has answered yet is taken back. */
static void
stop_session (SondeRecordRun *self)
{
  if (self->session != NULL)
    sonde_client_session_stop (self->session);
  else
    g_cancellable_cancel (self->cancellable);
}

/* Of two that do not do it, the service says what can be done about that. */
static void
tell_failure (SondeRecordRun *self, const char *what, const GError *error)
{
  self->has_failed = TRUE;
  if (self->refusal != NULL && !self->has_begun)
    {
      self->is_embedded = FALSE;
      self->handler->failed ("", self->refusal, self->user_data);
    }
  else
    self->handler->failed (what, error, self->user_data);
}

static void
give_up (SondeRecordRun *self, const char *what, const GError *error)
{
  tell_failure (self, what, error);
  stop_session (self);
}

static void
notice_embedded (const SondeRecordRun *self, const char *why, const GError *error)
{
  g_autofree char *shown = sonde_text_escape (error->message, -1);
  g_autofree char *text
      = g_strdup_printf ("Recording embedded, with your own rights: %s (%s)", why, shown);

  self->handler->noticed (text, self->user_data);
}

/* Whether its interpreter is told to name what it makes, for nothing else does. What it allocates
 * and calls would be other than without. */
static gboolean
is_to_be_named (const SondeRecordRun *self)
{
  const char *interpreters = NULL;

  g_variant_lookup (self->request, "interpreters", "&s", &interpreters);
  return self->named != NULL && (self->runtime->asker == NULL || self->options->java)
         && self->options->memory == NULL && self->options->trace == NULL
         && g_strcmp0 (interpreters, "no") != 0
         && (!self->runtime->is_walked || (self->is_embedded && !sonde_named_command_has_bpf ()));
}

static void
asker_failed (const char *text, gpointer user_data)
{
  SondeRecordRun *self = user_data;

  if (self->handler != NULL)
    self->handler->noticed (text, self->user_data);
}

static void
release (SondeRecordRun *self)
{
  g_autofree char *path = sonde_named_command_dup_map_path (self->pid);
  g_autofree char *beacon = self->is_embedded ? sonde_private_beacon_make () : NULL;

  self->is_named = is_to_be_named (self);
  if (self->is_named)
    {
      g_autofree char *options = g_strjoinv (" ", (char **) self->runtime->options);
      g_autofree char *text
          = g_strdup_printf ("Running %s with %s, so that its functions have names%s; "
                             "--interpreters=no leaves it as it is",
                             self->runtime->name, options,
                             self->runtime->is_walked ? ": BPF, which shows them without, is "
                                                        "closed to you"
                                                      : "");

      self->handler->noticed (text, self->user_data);
      self->has_map = access (path, F_OK) < 0 && errno == ENOENT;
      if (self->runtime->asker != NULL)
        {
          /* What it writes as it ends is read by who has the file open before. */
          self->has_map = self->has_map && sonde_named_command_make_map (self->pid);
          self->asker = sonde_map_asker_new (self->runtime->asker, self->pid, asker_failed, self);
        }
    }
  else if (self->options->java)
    self->handler->noticed ("Not running Java so that its functions have names: the command is "
                            "something else, or runs with --memory, --trace or --interpreters=no",
                            self->user_data);
  sonde_spawn_release (self->spawn, self->control_fd,
                       sonde_client_session_get_rendezvous (self->session), beacon, self->is_named);
}

/* The session runs, and all that was asked for is in it: what it records is wanted from now on. */
static void
begin (SondeRecordRun *self)
{
  self->has_begun = TRUE;
  if (self->refusal != NULL)
    notice_embedded (self, "the service refuses", self->refusal);
  else if (!self->is_embedded && !self->options->service)
    self->handler->noticed ("Recording through the service: it is there, and allows it",
                            self->user_data);
  self->handler->started (self->session, self->user_data);
}

static void session_started (GObject *source, GAsyncResult *result, gpointer user_data);

static void
start_session (SondeRecordRun *self)
{
  sonde_client_profiler_profile_async (self->profiler, self->request, self->fds, self->cancellable,
                                       session_started, self);
}

/* Whether with rights and a kernel's view of our own it may go better: what is wrong with the
 * request stays wrong, and limits are there to be kept. */
static gboolean
is_refusal (const GError *error)
{
  if (error->domain == SONDE_CLIENT_ERROR)
    return error->code == SONDE_CLIENT_ERROR_NOT_AUTHORIZED
           || error->code == SONDE_CLIENT_ERROR_NOT_SUPPORTED;
  return error->domain == G_DBUS_ERROR;
}

/* Before anything has begun; its command still waits. FALSE: it is an error. */
static gboolean
fall_back (SondeRecordRun *self, const GError *error)
{
  if (self->is_embedded || self->options->service || self->was_told_to_end || !is_refusal (error))
    return FALSE;
  self->refusal = g_error_copy (error);
  if (self->session != NULL)
    g_signal_handlers_disconnect_by_data (self->session, self);
  g_clear_object (&self->session);
  sonde_client_profiler_close (self->profiler);
  g_clear_object (&self->profiler);
  if (!connect_embedded (self, NULL))
    return FALSE;
  start_session (self);
  return TRUE;
}

static void
process_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autoptr (GError) error = NULL;
  gboolean is_added
      = sonde_client_session_add_process_finish (SONDE_CLIENT_SESSION (source), result, &error);

  if (self->handler == NULL)
    return;
  if (is_added && !self->has_stopped)
    begin (self);
  if (is_added && !self->was_told_to_end)
    release (self);
  /* The last copy that is closed is the command's. */
  sonde_clear_fd (&self->control_fd);
  if (!is_added && !self->has_stopped && !fall_back (self, error))
    give_up (self, "Cannot record the command: ", error);
}

/* Without one, as of an older service, the command has nobody to tell of itself. */
static void
control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autoptr (GError) error = NULL;

  self->control_fd
      = sonde_client_session_open_control_finish (SONDE_CLIENT_SESSION (source), result, &error);
  if (self->handler == NULL || self->has_stopped)
    return;
  if (error != NULL && (self->options->memory != NULL || self->options->trace != NULL))
    give_up (self, "Cannot record the command from within: ", error);
  else
    sonde_client_session_add_process_async (self->session, sonde_spawn_pid (self->spawn), NULL,
                                            process_added, self);
}

/* A command that we started does not outlive a recording that was ended on purpose; one whose
 * recording broke goes on. */
static void
session_finished (SondeClientSession *session,
                  const char *reason,
                  const GError *error,
                  gpointer user_data)
{
  SondeRecordRun *self = user_data;

  g_clear_pointer (&self->asker, sonde_map_asker_free);
  self->has_stopped = TRUE;
  if (error != NULL && !g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    tell_failure (self, "", error);
  if (self->spawn != NULL && !sonde_spawn_is_running (self->spawn))
    sonde_spawn_kill (self->spawn, SIGKILL);
  else if (self->spawn != NULL && !self->has_failed)
    {
      self->terminated_command = TRUE;
      sonde_spawn_kill (self->spawn, SIGTERM);
    }
  if (self->handler->stopped != NULL)
    self->handler->stopped (reason, self->user_data);
  check_end (self);
}

static void
session_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autoptr (GError) error = NULL;

  self->session = sonde_client_profiler_profile_finish (self->profiler, result, &error);
  if (self->handler == NULL)
    return;
  if (self->session == NULL)
    {
      if (!fall_back (self, error))
        session_finished (NULL, NULL, error, self);
      return;
    }
  g_signal_connect (self->session, "finished", G_CALLBACK (session_finished), self);
  if (self->spawn != NULL)
    sonde_client_session_open_control_async (self->session, NULL, control_opened, self);
  else
    begin (self);
  /* The answer was there already, and the request could not be taken back. */
  if (self->was_told_to_end)
    stop_session (self);
}

static void
exec_failed (int error_number, gpointer user_data)
{
  SondeRecordRun *self = user_data;
  g_autofree char *command = sonde_text_escape (self->options->command[0], -1);
  g_autofree char *what = g_strdup_printf ("Cannot run %s: ", command);
  g_autoptr (GError) error = NULL;

  self->exec_error = error_number;
  error = g_error_new_literal (G_IO_ERROR, g_io_error_from_errno (error_number),
                               g_strerror (error_number));
  give_up (self, what, error);
}

static void
command_exited (int wait_status, gpointer user_data)
{
  SondeRecordRun *self = user_data;

  g_clear_pointer (&self->asker, sonde_map_asker_free);
  if (WIFSIGNALED (wait_status))
    self->command_status = SONDE_EXIT_SIGNAL_BASE + WTERMSIG (wait_status);
  else
    self->command_status = WEXITSTATUS (wait_status);
  stop_session (self);
  check_end (self);
}

void
sonde_record_run_start (SondeRecordRun *self,
                        const SondeRecordRunHandler *handler,
                        gpointer user_data)
{
  static const SondeSpawnHandler spawn_handler = { exec_failed, command_exited };

  self->handler = handler;
  self->user_data = user_data;
  if (self->spawn != NULL)
    sonde_spawn_watch (self->spawn, &spawn_handler, self);
  if (self->absence != NULL)
    notice_embedded (self, "there is no service", self->absence);
  start_session (self);
}

gboolean
sonde_record_run_end (SondeRecordRun *self, int signal_number)
{
  if (self->was_told_to_end)
    {
      self->has_failed = self->has_failed || !self->has_stopped;
      return FALSE;
    }
  self->was_told_to_end = TRUE;
  if (self->spawn != NULL && signal_number != 0 && sonde_spawn_is_running (self->spawn))
    sonde_spawn_kill (self->spawn, signal_number);
  stop_session (self);
  return TRUE;
}

SondeClientSession *
sonde_record_run_session (const SondeRecordRun *self)
{
  return self->session;
}

gboolean
sonde_record_run_has_stopped (const SondeRecordRun *self)
{
  return self->has_stopped;
}

gboolean
sonde_record_run_is_named (const SondeRecordRun *self)
{
  return self->is_named;
}

int
sonde_record_run_exec_error (const SondeRecordRun *self)
{
  return self->exec_error;
}

int
sonde_record_run_exit_status (const SondeRecordRun *self)
{
  if (self->exec_error != 0)
    return self->exec_error == ENOENT ? SONDE_EXIT_NOT_FOUND : SONDE_EXIT_CANNOT_RUN;
  if (self->has_failed)
    return SONDE_EXIT_OUR_FAILURE;
  /* what we ended ourselves, because the time was over, did not fail */
  if (self->terminated_command && !self->was_told_to_end
      && self->command_status == SONDE_EXIT_SIGNAL_BASE + SIGTERM)
    return 0;
  return MAX (self->command_status, 0);
}
