/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl record: records a command, processes or the machine into a file. */
#include "client/commands.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "client/library/sonde-client.h"
#include "client/base/browser.h"
#include "client/base/cli.h"
#include "client/base/output.h"
#include "client/base/text.h"
#include "client/service/record-options.h"
#include "client/service/record-run.h"
#include "client/service/service.h"
#include "protocol/frame.h"

#define MAX_NAME_TRIES 100

/* Keys of Statistics that should be 0, and what to do if they are not. */
static const struct
{
  const char *key;
  const char *what;   /* "%s samples were ..." */
  const char *advice; /* NULL: none */
} losses[] = {
  { "lost-kernel", "samples found no room in the kernel's ring",
    "lower -F or --stack-size, or raise the limit on locked memory (ulimit -l)" },
  { "lost-ring", "samples came malformed or cut out of the ring",
    "this should not happen: please report it with the capture" },
  { "lost-queue", "samples came faster than they could be unwound", "lower -F or --stack-size" },
  { "events-lost-ring", "events of programs found no room in their rings, as these claim",
    "--memory-wait=1000000 lets the command wait as often as it takes" },
  { "events-refused", "events of programs were impossible, or came while it was paused", NULL },
  { "rings-refused", "threads of programs got no ring, and all their events are missing", NULL },
  { "programs-32-bit",
    "processes were not recorded: 32-bit, and without libsonde-memory.so of theirs",
    "install the library for 32-bit programs, too" },
  { "programs-static", "processes were not recorded: statically linked", NULL },
  { "programs-without-library", "processes were not recorded: they loaded no libsonde-memory.so",
    "their environment, their rights or their C library keep it out" },
  { "probes-refused", "programs were not recorded whole: their allocators' probes are not followed",
    "sondectl dump says why" },
  { "switches-lost",
    "switches of threads found no room in the kernel's ring: report --waits tells "
    "for how long what they did is unknown",
    "raise the limit on locked memory (ulimit -l)" },
  { "threads-beyond", "threads were too many, and their times are not told", NULL },
  { "stream-lost", "frames were dropped because the capture was not written fast enough",
    "write to a faster disk with -o" },
  { "file-lost", "frames found no room in the file", "make room, or write elsewhere with -o" },
};

/* Why stacks end early; worth a word only if it is more than a stray sample. */
static const struct
{
  const char *key;
  const char *what;
  const char *advice; /* NULL: none */
} cuts[] = {
  { "unwind-truncated-dump", "were cut at the copied stack", "raise --stack-size" },
  { "unwind-chain-short", "end above the copied stack, where frame pointers do",
    "raise --stack-size" },
  { "unwind-depth-limit", "were cut at the depth limit", "raise --max-depth" },
  { "unwind-truncated-page", "were cut at a page of stack that was not there", NULL },
  { "unwind-no-cfi", "end in code without unwind data", NULL },
  { "unwind-bad-cfi", "end in code with wrong unwind data", NULL },
  { "unwind-no-module", "end in code of no known file", NULL },
  { "unwind-loop", "end in a loop", NULL },
  { "jit-unnamed", "begin in code made at run time that has no name", NULL },
  { "walks-absent",
    "show an interpreter and not its program: its thread has no list that is known, or it has "
    "closed itself",
    NULL },
};

/* Processes of interpreters whose own functions are not to be seen. */
static const struct
{
  const char *key;
  const char *why; /* "Not shown: the functions of %s, for ..." */
} unseen[] = {
  { "interpreters-closed",
    "this session is not given the BPF program that reads them; with root's rights or through the "
    "service it is, where the kernel has BPF" },
  { "interpreters-musl", "only with glibc they can be found, and theirs is musl" },
  { "interpreters-unknown",
    "only those of CPython 3.8 to 3.14 with the global lock, of PHP 8.2 and 8.4 without threads "
    "and of Ruby 3.1 and 3.3 are known; sondectl dump says which file it is" },
  { "interpreters-beyond",
    "there are more of them than a session follows; record fewer, with --unit or -p" },
};

#define CUT_MIN_PERCENT  1.0
#define FEW_MAX_PERCENT  10.0
#define FEW_MIN_NS       G_GINT64_CONSTANT (1000000000)
#define USUAL_HZ         1000 /* of the option frequency */
#define WAIT_MIN_PERCENT 5

static guint64
count_lost (SondeClientSession *session)
{
  return sonde_client_session_get_statistic (session, "lost-kernel")
         + sonde_client_session_get_statistic (session, "lost-ring")
         + sonde_client_session_get_statistic (session, "lost-queue")
         + sonde_client_session_get_statistic (session, "stream-samples-lost")
         + sonde_client_session_get_statistic (session, "file-samples-lost")
         + sonde_client_session_get_statistic (session, "events-lost-ring")
         + sonde_client_session_get_statistic (session, "events-refused")
         + sonde_client_session_get_statistic (session, "rings-refused")
         + sonde_client_session_get_statistic (session, "programs-32-bit")
         + sonde_client_session_get_statistic (session, "programs-static")
         + sonde_client_session_get_statistic (session, "programs-without-library")
         + sonde_client_session_get_statistic (session, "probes-refused")
         + sonde_client_session_get_statistic (session, "stream-events-lost")
         + sonde_client_session_get_statistic (session, "file-events-lost");
}

static void
append_cuts (GString *out, SondeClientSession *session)
{
  guint64 n_samples = sonde_client_session_get_statistic (session, "recorded");

  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    {
      double percent = sonde_text_percent (
          sonde_client_session_get_statistic (session, cuts[i].key), n_samples);

      if (percent >= CUT_MIN_PERCENT)
        g_string_append_printf (out, "%.1f%% of the stacks %s%s%s.\n", percent, cuts[i].what,
                                cuts[i].advice != NULL ? "; " : "",
                                cuts[i].advice != NULL ? cuts[i].advice : "");
    }
}

static void
append_unseen (GString *out, SondeClientSession *session, gboolean is_named)
{
  for (guint i = 0; i < G_N_ELEMENTS (unseen); i++)
    {
      guint64 n = sonde_client_session_get_statistic (session, unseen[i].key);
      g_autofree char *processes
          = sonde_text_plural (n, "interpreted program", "interpreted programs");

      if (n > 0 && !is_named)
        g_string_append_printf (out, "Not shown: the functions of %s, for %s.\n", processes,
                                unseen[i].why);
    }
}

/* What helps against losses[@index], or NULL. A command that was not to wait for us has no need of
 * a faster disk. */
static const char *
find_advice (const SondeRecordOptions *options, guint index)
{
  gboolean is_of_programs
      = g_str_equal (losses[index].key, "events-lost-ring")
        || (g_str_equal (losses[index].key, "stream-lost") && options->memory != NULL);

  if (is_of_programs && options->has_memory_wait && options->memory_wait_us == 0)
    return "without --memory-wait=0 the command waits for it";
  return losses[index].advice;
}

/* What the recording did to the command, if that is felt. */
static void
append_wait (GString *out, SondeClientSession *session)
{
  gint64 waited_us = (gint64) sonde_client_session_get_statistic (session, "events-waited-us");
  g_autofree char *waited = sonde_text_duration (waited_us * 1000);

  if (waited_us > sonde_client_session_get_elapsed_ns (session) / 1000 * WAIT_MIN_PERCENT / 100)
    g_string_append_printf (out,
                            "Programs waited %s in all for room in their rings; with "
                            "--memory-wait=0 they lose events instead.\n",
                            waited);
}

/* Processes that could have told of their calls, and were not built for that. */
static void
append_unhooked (GString *out, SondeClientSession *session)
{
  guint64 n = sonde_client_session_get_statistic (session, "traces-empty");
  g_autofree char *processes = sonde_text_plural (n, "process has", "processes have");

  if (n > 0)
    g_string_append_printf (out,
                            "%s no call hooks: build with clang's -fxray-instrument, or with "
                            "-finstrument-functions; see sondectl(1), record --trace.\n",
                            processes);
}

/* Who sees few samples may think that little was recorded. Of samples by the clock of a processor
 * alone is known how many there would be. */
static void
append_waited (GString *out, SondeClientSession *session, const SondeRecordOptions *options)
{
  gint64 elapsed_ns = sonde_client_session_get_elapsed_ns (session);
  guint64 frequency_hz = options->frequency_hz > 0 ? (guint64) options->frequency_hz : USUAL_HZ;
  double possible = (double) elapsed_ns / 1e9 * (double) frequency_hz;
  double percent
      = 100.0 * (double) sonde_client_session_get_statistic (session, "produced") / possible;
  g_autofree char *share = g_strdup_printf ("%.1f%%", percent);

  if (options->command == NULL || options->waits != NULL || options->period != 0
      || sonde_record_options_has_event (options) || elapsed_ns < FEW_MIN_NS
      || percent >= FEW_MAX_PERCENT || !sonde_client_session_has_statistics (session))
    return;
  g_string_append_printf (out,
                          "Samples show the command in %s of that time: record --waits=times and "
                          "report --waits tell what it did in the rest.\n",
                          share);
}

/* Several lines: how much is in the file, what was lost and which setting helps, what to type next.
 * What is told of is what the file holds: sondectl dump --counts finds the same.
 * @is_whole: it came to its end; @file: (nullable): its path, if it can be read; @name: as messages
 * show it; @is_named: the command says itself what its functions are called; @is_shown: what comes
 * next is done */
static char *
dup_end (SondeClientSession *session,
         gboolean is_whole,
         gboolean is_named,
         const char *file,
         const char *name,
         gboolean is_shown,
         const SondeRecordOptions *options)
{
  const char *memory = options->memory;
  guint64 n_samples = sonde_client_session_get_statistic (session, "file-samples");
  guint64 n_events = sonde_client_session_get_statistic (session, "file-events");
  g_autofree char *samples = sonde_text_plural (n_samples, "sample", "samples");
  guint64 n_stuck = sonde_client_session_get_statistic (session, "target-stuck");
  g_autofree char *events = sonde_text_plural (n_events, "event", "events");
  g_autofree char *stuck = sonde_text_plural (n_stuck, "question", "questions");
  g_autofree char *duration = sonde_text_duration (sonde_client_session_get_elapsed_ns (session));
  g_autofree char *size = sonde_text_size (sonde_client_session_get_n_bytes (session));
  g_autofree char *quoted = NULL;
  GString *out = g_string_new (NULL);

  g_string_append_printf (out, "Recorded %s%s%s in %s", samples, n_events > 0 ? " and " : "",
                          n_events > 0 ? events : "", duration);
  /* a service, or a worker, that ended before it had told could not tell of losses */
  if (is_whole && n_samples + n_events > 0 && count_lost (session) == 0
      && sonde_client_session_get_statistic (session, "file-lost") == 0
      && sonde_client_session_has_statistics (session))
    g_string_append (out, ", none lost");
  g_string_append_printf (out, ": %s (%s)\n", name, size);
  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    {
      guint64 n = sonde_client_session_get_statistic (session, losses[i].key);
      g_autofree char *count = sonde_text_count (n);
      const char *advice = find_advice (options, i);

      if (n > 0)
        g_string_append_printf (out, "Lost: %s %s%s%s.\n", count, losses[i].what,
                                advice != NULL ? "; " : "", advice != NULL ? advice : "");
    }
  append_wait (out, session);
  append_waited (out, session, options);
  append_cuts (out, session);
  append_unseen (out, session, is_named);
  append_unhooked (out, session);
  if (n_stuck > 0)
    g_string_append_printf (out,
                            "The kernel did not answer %s about processes and their files in time; "
                            "they may lack names and stacks.\n",
                            stuck);
  /* What could be seen of a command before it ran was good; it may have executed what is not. */
  if (g_strcmp0 (memory, "all") == 0 && sonde_client_session_has_statistics (session)
      && sonde_client_session_get_statistic (session, "events-produced") == 0)
    g_string_append (out, "No process told of an allocation: the command made none, or ran only "
                          "programs that load no libsonde-memory.so (static, set-user-ID).\n");
  if (file == NULL || is_shown)
    return g_string_free (out, FALSE);
  quoted = g_shell_quote (file);
  g_string_append_printf (
      out, "Now: sondectl %s %s\n",
      memory != NULL                             ? "heap"
      : options->trace != NULL                   ? "calls"
      : g_strcmp0 (options->waits, "times") == 0 ? "report --waits"
                                                 : "report",
      g_str_equal (name, file) && !strpbrk (file, " '\"$`&;|<>()*?[#~") ? file : quoted);
  return g_string_free (out, FALSE);
}

typedef struct
{
  const SondeRecordOptions *options;
  GMainLoop *loop;
  SondeRecordRun *run;
  char *file; /* its path */
  SondeOutput *output;
  gboolean is_progress_shown;
  gboolean is_saving;  /* what comes goes into the file */
  gboolean has_failed; /* it did not end as it should */
} Record;

static void
has_failed (const char *what, const GError *error, gpointer user_data)
{
  Record *self = user_data;

  if (self->is_progress_shown)
    g_printerr ("\n");
  self->is_progress_shown = FALSE;
  self->has_failed = TRUE;
  if (error->domain == G_FILE_ERROR)
    sonde_cli_complain ("%s%s: %s", what, sonde_output_name (self->output), error->message);
  else
    sonde_service_error_complain (what, error, sonde_record_run_is_embedded (self->run));
}

static void
has_noticed (const char *text, gpointer user_data)
{
  sonde_cli_complain ("%s", text);
}

static void
has_started (SondeClientSession *session, gpointer user_data)
{
  Record *self = user_data;

  self->is_saving = TRUE;
  sonde_client_session_save (session, sonde_output_fd (self->output));
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
  g_autofree char *samples = NULL;
  g_autofree char *lost = NULL;
  g_autofree char *size = NULL;

  if (!sonde_client_session_refresh_finish (session, result, NULL)
      || sonde_record_run_has_stopped (self->run))
    return;
  /* "12 s  11,934 samples  0 lost  3.1 MiB", without a newline */
  samples = sonde_text_plural (sonde_client_session_get_statistic (session, "recorded"), "sample",
                               "samples");
  lost = sonde_text_count (count_lost (session));
  size = sonde_text_size (sonde_client_session_get_n_bytes (session));
  line = g_strdup_printf ("%.0f s  %s  %s lost  %s",
                          (double) sonde_client_session_get_elapsed_ns (session) / 1e9, samples,
                          lost, size);
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
open_file (Record *self, GError **error)
{
  if (self->options->output == NULL)
    {
      g_autofree char *subject = sonde_record_options_dup_subject (self->options);
      g_autoptr (GDateTime) now = g_date_time_new_now_local ();
      g_autofree char *time = g_date_time_format (now, "%Y%m%d-%H%M%S");

      /* A name of our own never replaces a file. */
      for (guint i = 1; self->output == NULL && i <= MAX_NAME_TRIES; i++)
        {
          g_free (self->file);
          self->file = i == 1 ? g_strdup_printf ("sonde-%s-%s.syscap", subject, time)
                              : g_strdup_printf ("sonde-%s-%s-%u.syscap", subject, time, i);
          g_clear_error (error);
          self->output = sonde_output_open (self->file, SONDE_OUTPUT_NEW, error);
          if (self->output == NULL && !g_error_matches (*error, G_FILE_ERROR, G_FILE_ERROR_EXIST))
            break;
        }
      return self->output != NULL;
    }
  self->file = g_strdup (self->options->output);
  self->output = sonde_output_open (self->file, SONDE_OUTPUT_IN_PLACE, error);
  return self->output != NULL;
}

/* What was received is written up to the end of a whole frame: that may be nothing. */
static gboolean
has_capture (const Record *self)
{
  SondeClientSession *session = sonde_record_run_session (self->run);
  struct stat st;

  if (!self->is_saving || sonde_record_run_exec_error (self->run) != 0)
    return FALSE;
  if (!sonde_output_is_file (self->output) || fstat (sonde_output_fd (self->output), &st) < 0)
    return session != NULL && sonde_client_session_get_n_bytes (session) > 0;
  return (gsize) st.st_size >= sizeof (SondeFileHeader);
}

static void
run_loop (Record *self)
{
  static const SondeRecordRunHandler handler = {
    .noticed = has_noticed, .failed = has_failed, .started = has_started, .ended = has_ended
  };
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
record_clear (Record *self)
{
  sonde_record_run_free (self->run);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  sonde_output_free (self->output);
  g_free (self->file);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Record, record_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeRecordOptions, sonde_record_options_clear)

/* Before anything is asked for or written: an older capture stays. Returns 0, or an exit status. */
static int
check_command (char **command)
{
  g_autofree char *found = command != NULL ? g_find_program_in_path (command[0]) : NULL;
  g_autofree char *shown = NULL;

  if (command == NULL || found != NULL)
    return 0;
  errno = ENOENT;
  if (strchr (command[0], '/') != NULL && access (command[0], X_OK) == 0)
    errno = EACCES; /* a folder */
  shown = sonde_text_escape (command[0], -1);
  sonde_cli_complain ("Cannot run %s: %s", shown, g_strerror (errno));
  return errno == ENOENT ? SONDE_EXIT_NOT_FOUND : SONDE_EXIT_CANNOT_RUN;
}

/* Its exit status is the command's, whatever becomes of this. What is no terminal has the command's
 * own output, and gets nothing of ours. */
static void
show (const char *file)
{
  char *report_argv[] = { (char *) "report", (char *) file, NULL };

  if (sonde_browser_is_near () && sonde_view_capture (file))
    return;
  if (isatty (STDOUT_FILENO) || dup2 (STDERR_FILENO, STDOUT_FILENO) >= 0)
    sonde_cmd_report (2, report_argv);
}

/* @shows: the capture, if it has samples */
static int
record (const SondeRecordOptions *options, gboolean shows)
{
  int status = check_command (options->command);
  g_auto (Record) self = { .options = options };
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;

  if (status != 0)
    return status;
  if (options->output != NULL && sonde_output_refuse_terminal (options->output, "a capture"))
    return SONDE_EXIT_OUR_FAILURE;
  /* before GDBus, which starts threads */
  self.run = sonde_record_run_new (options, &error);
  if (self.run == NULL || !open_file (&self, &error))
    {
      sonde_cli_complain ("%s", error->message);
      return SONDE_EXIT_OUR_FAILURE;
    }
  if (!sonde_record_run_connect (self.run, &error))
    {
      sonde_service_error_complain ("", error, sonde_record_run_is_embedded (self.run));
      return SONDE_EXIT_OUR_FAILURE;
    }
  signal (SIGPIPE, SIG_IGN); /* not before the command was started, which would inherit it */

  run_loop (&self);
  if (self.is_progress_shown)
    g_printerr ("\r\033[K");
  /* Of a file that is no capture nothing stays. */
  if (!has_capture (&self))
    return sonde_record_run_exit_status (self.run);
  if (!sonde_output_close (self.output, &error))
    {
      sonde_cli_complain ("%s", error->message);
      return SONDE_EXIT_OUR_FAILURE;
    }
  shows
      = shows && sonde_output_is_file (self.output)
        && sonde_client_session_get_statistic (sonde_record_run_session (self.run), "file-samples")
               > 0;
  text = dup_end (
      sonde_record_run_session (self.run), !self.has_failed, sonde_record_run_is_named (self.run),
      sonde_output_is_file (self.output) ? self.file : NULL, sonde_output_name (self.output),
      shows && !sonde_browser_is_near (), self.options);
  g_printerr ("%s", text);
  if (shows)
    show (self.file);
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
