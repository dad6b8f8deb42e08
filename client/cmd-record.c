/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl record: records a command, processes or the machine into a file. */
#include "client/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/wait.h>

#include "client/names/archive.h"
#include "client/base/cli.h"
#include "client/base/fd.h"
#include "client/library/sonde-client.h"
#include "client/service/record-options.h"
#include "client/service/record-summary.h"
#include "client/service/service-error.h"
#include "client/service/spawn.h"
#include "client/base/text.h"

enum
{
  EXIT_OUR_FAILURE = 125, /* as of timeout(1), env(1) */
  EXIT_CANNOT_RUN = 126,
  EXIT_NOT_FOUND = 127,
  EXIT_SIGNAL_BASE = 128,
};

#define MAX_NAME_TRIES 100

typedef struct
{
  const SondeRecordOptions *options;
  GMainLoop *loop;
  SondeClientProfiler *profiler;
  gboolean is_embedded;
  GCancellable *cancellable;   /* of the start */
  SondeClientSession *session; /* NULL before the start */
  SondeSpawn *spawn;           /* NULL without a command */
  int control_fd;              /* for the command; -1: none */
  char *file;
  int file_fd;
  gboolean is_new_file; /* nothing is lost if it goes again */
  gboolean is_progress_shown;
  gboolean has_ended;       /* the recording */
  gboolean has_failed;      /* it, or the start of the command */
  gboolean was_told_to_end; /* by a signal */
  gboolean terminated_command;
  int command_status; /* exit status of the command, -1 before */
  int exec_error;     /* errno, 0 if the command ran */
} Record;

static void
check_done (Record *self)
{
  if (self->has_ended && (self->spawn == NULL || self->command_status >= 0))
    g_main_loop_quit (self->loop);
}

static void
complain (Record *self, const char *what, const GError *error)
{
  if (self->is_progress_shown)
    g_printerr ("\n");
  self->is_progress_shown = FALSE;
  sonde_service_error_complain (what, error, self->is_embedded);
}

/* A request that nobody has answered yet is taken back. */
static void
stop_session (Record *self)
{
  if (self->session != NULL)
    sonde_client_session_stop (self->session);
  else
    g_cancellable_cancel (self->cancellable);
}

static void
give_up (Record *self, const char *what, const GError *error)
{
  complain (self, what, error);
  self->has_failed = TRUE;
  stop_session (self);
}

static void
give_up_with_errno (Record *self, const char *what, int error_number)
{
  g_autoptr (GError) error = g_error_new_literal (G_IO_ERROR, g_io_error_from_errno (error_number),
                                                  g_strerror (error_number));

  give_up (self, what, error);
}

static void
process_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Record *self = user_data;
  g_autoptr (GError) error = NULL;

  if (!sonde_client_session_add_process_finish (self->session, result, &error))
    {
      if (!self->has_ended)
        give_up (self, "Cannot record the command: ", error);
    }
  else if (!self->was_told_to_end)
    sonde_spawn_release (self->spawn, self->control_fd);
  /* The last copy that is closed is the command's. */
  sonde_clear_fd (&self->control_fd);
}

/* Without one, as of an older service, the command has nobody to tell of itself. */
static void
control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Record *self = user_data;
  g_autoptr (GError) error = NULL;

  self->control_fd = sonde_client_session_open_control_finish (self->session, result, &error);
  if (self->has_ended)
    return;
  if (error != NULL && self->options->memory != NULL)
    give_up (self, "Cannot record the command's heap: ", error);
  else
    sonde_client_session_add_process_async (self->session, sonde_spawn_pid (self->spawn), NULL,
                                            process_added, self);
}

static void
show_progress (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Record *self = user_data;
  g_autofree char *line = NULL;

  if (!sonde_client_session_refresh_finish (self->session, result, NULL) || self->has_ended)
    return;
  line = sonde_record_summary_progress (self->session);
  g_printerr ("\r\033[K%s", line);
  self->is_progress_shown = TRUE;
}

/* A command that we started does not outlive a recording that was ended on purpose; one whose
 * recording broke goes on. */
static void
recording_ended (Record *self, const GError *error)
{
  self->has_ended = TRUE;
  if (error != NULL && !g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    {
      complain (self, "", error);
      self->has_failed = TRUE;
    }
  if (self->spawn != NULL && !sonde_spawn_is_running (self->spawn))
    sonde_spawn_kill (self->spawn, SIGKILL);
  else if (self->spawn != NULL && !self->has_failed)
    {
      self->terminated_command = TRUE;
      sonde_spawn_kill (self->spawn, SIGTERM);
    }
  check_done (self);
}

static void
session_finished (SondeClientSession *session,
                  const char *reason,
                  const GError *error,
                  gpointer user_data)
{
  recording_ended (user_data, error);
}

static void
session_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Record *self = user_data;
  g_autoptr (GError) error = NULL;

  self->session = sonde_client_profiler_profile_finish (self->profiler, result, &error);
  if (self->session == NULL)
    {
      recording_ended (self, error);
      return;
    }
  g_signal_connect (self->session, "finished", G_CALLBACK (session_finished), self);
  sonde_client_session_save (self->session, self->file_fd);
  if (self->spawn != NULL)
    sonde_client_session_open_control_async (self->session, NULL, control_opened, self);
}

static void
exec_failed (int error_number, gpointer user_data)
{
  Record *self = user_data;
  g_autofree char *command = sonde_text_escape (self->options->command[0], -1);
  g_autofree char *what = g_strdup_printf ("Cannot run %s: ", command);

  self->exec_error = error_number;
  give_up_with_errno (self, what, error_number);
}

static void
command_exited (int wait_status, gpointer user_data)
{
  Record *self = user_data;

  if (WIFSIGNALED (wait_status))
    self->command_status = EXIT_SIGNAL_BASE + WTERMSIG (wait_status);
  else
    self->command_status = WEXITSTATUS (wait_status);
  stop_session (self);
  check_done (self);
}

/* The first request ends the recording and keeps it; the second does not wait any longer. The
 * terminal sends ^C to the command too, the other signals reach us alone. */
static gboolean
end_requested (Record *self, int signal_number)
{
  if (self->was_told_to_end)
    {
      self->has_failed = self->has_failed || !self->has_ended;
      g_main_loop_quit (self->loop);
      return G_SOURCE_CONTINUE;
    }
  self->was_told_to_end = TRUE;
  if (self->spawn != NULL && signal_number != SIGINT && sonde_spawn_is_running (self->spawn))
    sonde_spawn_kill (self->spawn, signal_number);
  stop_session (self);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_interrupt (gpointer user_data)
{
  return end_requested (user_data, SIGINT);
}

static gboolean
on_terminate (gpointer user_data)
{
  return end_requested (user_data, SIGTERM);
}

static gboolean
on_hangup (gpointer user_data)
{
  return end_requested (user_data, SIGHUP);
}

static gboolean
ask_progress (gpointer user_data)
{
  Record *self = user_data;

  if (self->session != NULL)
    sonde_client_session_refresh_async (self->session, NULL, show_progress, self);
  return G_SOURCE_CONTINUE;
}

static gboolean
create_file (Record *self)
{
  self->file_fd = open (self->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  self->is_new_file = self->file_fd >= 0;
  return self->is_new_file;
}

/* A name of our own never replaces a file. */
static gboolean
open_new_file (Record *self)
{
  g_autofree char *subject = sonde_record_options_dup_subject (self->options);
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *time = g_date_time_format (now, "%Y%m%d-%H%M%S");

  for (guint i = 1; i <= MAX_NAME_TRIES; i++)
    {
      g_free (self->file);
      self->file = i == 1 ? g_strdup_printf ("sonde-%s-%s.syscap", subject, time)
                          : g_strdup_printf ("sonde-%s-%s-%u.syscap", subject, time, i);
      if (create_file (self))
        return TRUE;
      if (errno != EEXIST)
        break;
    }
  return FALSE;
}

static gboolean
open_file (Record *self)
{
  gboolean opened;

  if (self->options->output != NULL)
    {
      self->file = g_strdup (self->options->output);
      opened = create_file (self);
      if (!opened && errno == EEXIST)
        {
          self->file_fd = open (self->file, O_WRONLY | O_CLOEXEC);
          opened = self->file_fd >= 0;
        }
    }
  else
    opened = open_new_file (self);
  if (!opened)
    sonde_cli_complain ("Cannot write %s: %s", self->file, g_strerror (errno));
  return opened;
}

static guint64
n_bytes (const Record *self)
{
  return self->session != NULL ? sonde_client_session_get_n_bytes (self->session) : 0;
}

/* An older capture of that name stays until there is a new one. */
static void
close_file (Record *self)
{
  guint64 size = n_bytes (self);

  if (size > 0 && self->exec_error == 0)
    {
      if (ftruncate (self->file_fd, (off_t) size) < 0 && errno != EINVAL)
        sonde_cli_complain ("Cannot cut %s to its size: %s", self->file, g_strerror (errno));
    }
  else if (self->is_new_file)
    unlink (self->file);
  sonde_clear_fd (&self->file_fd);
}

/* The worker knows the names in files; those of code that programs made are in files of theirs,
 * which are read with our rights. */
static void
embed_jit_names (const Record *self)
{
  const SondeArchiveOptions options = { .only_jit = TRUE };
  SondeArchiveResult result;
  g_autoptr (GError) error = NULL;

  if (self->options->no_symbols || self->exec_error != 0
      || !g_file_test (self->file, G_FILE_TEST_IS_REGULAR) || !sonde_archive_has_jit (self->file))
    return;
  if (!sonde_archive_embed (self->file, self->file, &options, &result, &error))
    sonde_cli_complain ("Cannot embed the names of code made at run time: %s", error->message);
}

static gboolean
connect_service (Record *self, gboolean may_fall_back)
{
  g_autoptr (GError) error = NULL;
  const SondeRecordOptions *options = self->options;

  if (!options->embedded)
    self->profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_TERMINAL, &error);
  if (self->profiler == NULL && (options->embedded || may_fall_back))
    {
      g_clear_error (&error);
      self->is_embedded = TRUE;
      self->profiler
          = sonde_client_profiler_new_embedded (options->daemon_path, options->worker_path, &error);
    }
  if (self->profiler == NULL)
    sonde_service_error_complain ("", error, self->is_embedded);
  return self->profiler != NULL;
}

static int
exit_status (const Record *self)
{
  if (self->exec_error != 0)
    return self->exec_error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
  if (self->has_failed)
    return EXIT_OUR_FAILURE;
  /* what we ended ourselves, because the time was over, did not fail */
  if (self->terminated_command && !self->was_told_to_end
      && self->command_status == EXIT_SIGNAL_BASE + SIGTERM)
    return 0;
  return MAX (self->command_status, 0);
}

static void
run_loop (Record *self, GVariant *request, GUnixFDList *fds)
{
  static const SondeSpawnHandler spawn_handler = { exec_failed, command_exited };
  guint sources[] = {
    g_unix_signal_add (SIGINT, on_interrupt, self),
    g_unix_signal_add (SIGTERM, on_terminate, self),
    g_unix_signal_add (SIGHUP, on_hangup, self),
    isatty (STDERR_FILENO) ? g_timeout_add_seconds (1, ask_progress, self) : 0,
  };

  self->loop = g_main_loop_new (NULL, FALSE);
  if (self->spawn != NULL)
    sonde_spawn_watch (self->spawn, &spawn_handler, self);
  self->cancellable = g_cancellable_new ();
  sonde_client_profiler_profile_async (self->profiler, request, fds, self->cancellable,
                                       session_started, self);
  g_main_loop_run (self->loop);

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    g_clear_handle_id (&sources[i], g_source_remove);
}

static void
print_summary (const Record *self)
{
  g_autofree char *text = NULL;

  if (self->is_progress_shown)
    g_printerr ("\r\033[K");
  if (self->exec_error != 0 || n_bytes (self) == 0)
    return;
  text = sonde_record_summary_end (self->session, self->file);
  g_printerr ("%s", text);
}

/* A session that is not over yet keeps itself, and its profiler, until it is told. */
static void
leave_service (Record *self)
{
  if (self->session != NULL)
    g_signal_handlers_disconnect_by_data (self->session, self);
  if (self->profiler != NULL)
    sonde_client_profiler_close (self->profiler);
  while (g_main_context_pending (NULL))
    g_main_context_iteration (NULL, FALSE);
  g_clear_object (&self->session);
  g_clear_object (&self->profiler);
  g_clear_object (&self->cancellable);
}

static void
record_clear (Record *self)
{
  leave_service (self);
  sonde_spawn_free (self->spawn);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  sonde_clear_fd (&self->file_fd);
  sonde_clear_fd (&self->control_fd);
  g_free (self->file);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Record, record_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeRecordOptions, sonde_record_options_clear)

static int
record (const SondeRecordOptions *options, gboolean may_fall_back)
{
  g_auto (Record) self
      = { .options = options, .file_fd = -1, .control_fd = -1, .command_status = -1 };
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) request = NULL;

  /* first of all, because GDBus starts threads */
  if (options->command != NULL)
    self.spawn = sonde_spawn_new (options->command, sonde_record_options_preload (options), &error);
  if (error == NULL)
    request = sonde_record_options_build (options, &fds, &error);
  if (error != NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return EXIT_OUR_FAILURE;
    }
  g_variant_ref_sink (request);
  if (!open_file (&self))
    return EXIT_OUR_FAILURE;
  if (!connect_service (&self, may_fall_back))
    {
      close_file (&self);
      return EXIT_OUR_FAILURE;
    }

  run_loop (&self, request, fds);
  close_file (&self);
  embed_jit_names (&self);
  print_summary (&self);
  return exit_status (&self);
}

int
sonde_cmd_record (int argc, char **argv)
{
  g_auto (SondeRecordOptions) options = { 0 };

  if (!sonde_record_options_parse (&options, &argc, &argv))
    return EXIT_OUR_FAILURE;
  return record (&options, FALSE);
}

int
sonde_cmd_record_program (char **argv)
{
  g_auto (SondeRecordOptions) options = { .command = argv };

  options.pids = g_array_new (FALSE, FALSE, sizeof (GPid));
  return record (&options, TRUE);
}
