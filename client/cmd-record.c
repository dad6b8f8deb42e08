/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl record: records a command, processes or the machine into a file. */
#include "client/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>

#include "client/names/archive.h"
#include "client/base/cli.h"
#include "client/base/fd.h"
#include "client/service/record-options.h"
#include "client/service/record-run.h"
#include "client/service/record-summary.h"
#include "client/service/service-error.h"

#define MAX_NAME_TRIES 100

typedef struct
{
  const SondeRecordOptions *options;
  GMainLoop *loop;
  SondeRecordRun *run;
  char *file;
  int file_fd;
  gboolean is_new_file; /* nothing is lost if it goes again */
  gboolean is_progress_shown;
} Record;

static void
has_failed (const char *what, const GError *error, gpointer user_data)
{
  Record *self = user_data;

  if (self->is_progress_shown)
    g_printerr ("\n");
  self->is_progress_shown = FALSE;
  sonde_service_error_complain (what, error, sonde_record_run_is_embedded (self->run));
}

static void
has_started (SondeClientSession *session, gpointer user_data)
{
  const Record *self = user_data;

  sonde_client_session_save (session, self->file_fd);
}

static void
has_ended (gpointer user_data)
{
  const Record *self = user_data;

  g_main_loop_quit (self->loop);
}

static void
show_progress (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Record *self = user_data;
  SondeClientSession *session = SONDE_CLIENT_SESSION (source);
  g_autofree char *line = NULL;

  if (!sonde_client_session_refresh_finish (session, result, NULL)
      || sonde_record_run_has_stopped (self->run))
    return;
  line = sonde_record_summary_progress (session);
  g_printerr ("\r\033[K%s", line);
  self->is_progress_shown = TRUE;
}

static gboolean
ask_progress (gpointer user_data)
{
  Record *self = user_data;
  SondeClientSession *session = sonde_record_run_session (self->run);

  if (session != NULL)
    sonde_client_session_refresh_async (session, NULL, show_progress, self);
  return G_SOURCE_CONTINUE;
}

/* The first request ends the recording and keeps it; the second does not wait any longer. */
static gboolean
end_requested (Record *self, int signal_number)
{
  if (!sonde_record_run_end (self->run, signal_number))
    g_main_loop_quit (self->loop);
  return G_SOURCE_CONTINUE;
}

/* The terminal sends ^C to the command too, the other signals reach us alone. */
static gboolean
on_interrupt (gpointer user_data)
{
  return end_requested (user_data, 0);
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
  SondeClientSession *session = sonde_record_run_session (self->run);

  return session != NULL ? sonde_client_session_get_n_bytes (session) : 0;
}

/* An older capture of that name stays until there is a new one. */
static void
close_file (Record *self)
{
  guint64 size = n_bytes (self);

  if (size > 0 && sonde_record_run_exec_error (self->run) == 0)
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

  if (self->options->no_symbols || sonde_record_run_exec_error (self->run) != 0
      || !g_file_test (self->file, G_FILE_TEST_IS_REGULAR) || !sonde_archive_has_jit (self->file))
    return;
  if (!sonde_archive_embed (self->file, self->file, &options, &result, &error))
    sonde_cli_complain ("Cannot embed the names of code made at run time: %s", error->message);
}

static void
run_loop (Record *self)
{
  static const SondeRecordRunHandler handler
      = { .failed = has_failed, .started = has_started, .ended = has_ended };
  guint sources[] = {
    g_unix_signal_add (SIGINT, on_interrupt, self),
    g_unix_signal_add (SIGTERM, on_terminate, self),
    g_unix_signal_add (SIGHUP, on_hangup, self),
    isatty (STDERR_FILENO) ? g_timeout_add_seconds (1, ask_progress, self) : 0,
  };

  self->loop = g_main_loop_new (NULL, FALSE);
  sonde_record_run_start (self->run, &handler, self);
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
  if (sonde_record_run_exec_error (self->run) != 0 || n_bytes (self) == 0)
    return;
  text = sonde_record_summary_end (sonde_record_run_session (self->run), self->file);
  g_printerr ("%s", text);
}

static void
record_clear (Record *self)
{
  sonde_record_run_free (self->run);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  sonde_clear_fd (&self->file_fd);
  g_free (self->file);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Record, record_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeRecordOptions, sonde_record_options_clear)

static int
record (const SondeRecordOptions *options, gboolean may_fall_back)
{
  g_auto (Record) self = { .options = options, .file_fd = -1 };
  g_autoptr (GError) error = NULL;

  /* first of all, because GDBus starts threads */
  self.run = sonde_record_run_new (options, &error);
  if (self.run == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return SONDE_EXIT_OUR_FAILURE;
    }
  if (!open_file (&self))
    return SONDE_EXIT_OUR_FAILURE;
  if (!sonde_record_run_connect (self.run, may_fall_back, &error))
    {
      sonde_service_error_complain ("", error, sonde_record_run_is_embedded (self.run));
      close_file (&self);
      return SONDE_EXIT_OUR_FAILURE;
    }

  run_loop (&self);
  close_file (&self);
  embed_jit_names (&self);
  print_summary (&self);
  return sonde_record_run_exit_status (self.run);
}

int
sonde_cmd_record (int argc, char **argv)
{
  g_auto (SondeRecordOptions) options = { 0 };

  if (!sonde_record_options_parse (&options, &argc, &argv))
    return SONDE_EXIT_OUR_FAILURE;
  return record (&options, FALSE);
}

int
sonde_cmd_record_program (char **argv)
{
  g_auto (SondeRecordOptions) options = { .command = argv };

  options.pids = g_array_new (FALSE, FALSE, sizeof (GPid));
  return record (&options, TRUE);
}
