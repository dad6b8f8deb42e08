/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl top: what a session shows while it runs. */
#include "client/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/fd.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/service/record-options.h"
#include "client/service/record-run.h"
#include "client/service/service.h"
#include "client/top/top.h"

#define MAX_WINDOW_S   3600.0 /* what is shown at a time */
#define MIN_INTERVAL_S 0.1

typedef struct
{
  SondeRecordOptions record;
  guint64 session; /* its number; 0: one of our own */
  double window_s;
  double interval_s;
  int count;
  gboolean tree;
  gboolean bottom_up;
  char *by;
  SondeTopMode mode;
} TopCommand;

static void
options_clear (TopCommand *self)
{
  sonde_record_options_clear (&self->record);
  g_free (self->by);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TopCommand, options_clear)

static const char *const groups[] = { "function", "process", "thread", "module", "calls", NULL };
static const SondeTopMode group_modes[] = { SONDE_TOP_FLAT, SONDE_TOP_PROCESSES, SONDE_TOP_THREADS,
                                            SONDE_TOP_MODULES, SONDE_TOP_CALLS };
G_STATIC_ASSERT (G_N_ELEMENTS (groups) == G_N_ELEMENTS (group_modes) + 1);

static gboolean
choose_mode (TopCommand *self)
{
  int group;

  if (self->tree + self->bottom_up + (self->by != NULL) > 1)
    {
      sonde_cli_complain ("only one of --tree, --bottom-up and --by at a time");
      return FALSE;
    }
  self->mode = self->bottom_up              ? SONDE_TOP_BOTTOM_UP
               : self->tree                 ? SONDE_TOP_TREE
               : self->record.trace != NULL ? SONDE_TOP_CALLS
                                            : SONDE_TOP_FLAT;
  if (self->by == NULL)
    return TRUE;
  group = sonde_choice_find_or_complain ("--by", self->by, groups);
  if (group >= 0)
    self->mode = group_modes[group];
  return group >= 0;
}

/* What is left of the vector: SESSION, COMMAND or nothing. */
static gboolean
take_subject (TopCommand *self, int argc, char **argv)
{
  SondeRecordOptions *record = &self->record;

  if (argc > 1)
    self->session = sonde_client_session_number (argv[1]);
  if (self->session != 0 && argc > 2)
    sonde_cli_complain ("Options of top stand before SESSION; a command of that name is ./%s",
                        argv[1]);
  else if (self->session != 0
           && (record->embedded || record->service || record->pids->len > 0 || record->unit != NULL
               || record->cgroup != NULL || record->system))
    sonde_cli_complain ("SESSION says already what is looked at");
  else if (self->session != 0)
    return TRUE;
  else
    {
      sonde_record_options_take_command (record, argc, argv);
      if (record->command == NULL && record->pids->len == 0 && record->unit == NULL
          && record->cgroup == NULL)
        record->system = TRUE;
      return sonde_record_options_check (record, "top");
    }
  return FALSE;
}

static gboolean
check (const TopCommand *self)
{
  if (!(self->window_s >= MIN_INTERVAL_S && self->window_s <= MAX_WINDOW_S))
    sonde_cli_complain ("--window goes from 0.1 to 3600 seconds");
  else if (!(self->interval_s >= MIN_INTERVAL_S && self->interval_s <= MAX_WINDOW_S))
    sonde_cli_complain ("--interval goes from 0.1 to 3600 seconds");
  else if (self->count < 0)
    sonde_cli_complain ("--count is a number of blocks of text");
  else
    return TRUE;
  return FALSE;
}

static gboolean
parse (TopCommand *self, int argc, char **argv)
{
  const GOptionEntry own[] = {
    { "window", 'w', 0, G_OPTION_ARG_DOUBLE, &self->window_s, "Show the last SECONDS (10)",
      "SECONDS" },
    { "interval", 'i', 0, G_OPTION_ARG_DOUBLE, &self->interval_s, "Look every SECONDS (1)",
      "SECONDS" },
    { "count", 'n', 0, G_OPTION_ARG_INT, &self->count, "Print N looks as text, then end", "N" },
    { "tree", 't', 0, G_OPTION_ARG_NONE, &self->tree, "Begin with the call tree", NULL },
    { "bottom-up", 'b', 0, G_OPTION_ARG_NONE, &self->bottom_up,
      "Begin with functions, their callers below", NULL },
    { "by", 0, 0, G_OPTION_ARG_STRING, &self->by,
      "Or with: function, process, thread, module, calls", "GROUP" },
  };
  g_autoptr (GArray) entries = sonde_record_options_new_entries_of_top (&self->record);

  g_array_append_vals (entries, own, G_N_ELEMENTS (own));
  return sonde_cli_parse (&argc, &argv, "[SESSION | [--] COMMAND...]",
                          "Shows live where time is spent: in a session that is listed, in a "
                          "command, or in\nwhat -p, -u or -a (the default) name. The key ? lists "
                          "the others.",
                          "Example:\n  sondectl top --count 2 -- python3 program.py",
                          (const GOptionEntry *) (void *) entries->data, TRUE, &self->record)
         && sonde_record_options_find (&self->record) && take_subject (self, argc, argv)
         && choose_mode (self) && check (self);
}

/* Replaces what is a terminal of the three standard descriptors by /dev/null for as long as
 * somebody is started who would write on the screen. @saved: (out): -1 where nothing was changed */
static void
hide_terminal (int saved[3])
{
  sonde_autofd int null = open ("/dev/null", O_RDWR | O_CLOEXEC);

  for (int fd = 0; fd < 3; fd++)
    {
      saved[fd] = isatty (fd) && null >= 0 ? fcntl (fd, F_DUPFD_CLOEXEC, 3) : -1;
      if (saved[fd] >= 0)
        dup2 (null, fd);
    }
}

static void
show_terminal (int saved[3])
{
  for (int fd = 0; fd < 3; fd++)
    if (saved[fd] >= 0)
      {
        dup2 (saved[fd], fd);
        sonde_clear_fd (&saved[fd]);
      }
}

/* Whatever we start leaves the screen alone. On the way to the system's service a password may be
 * asked for there, but then nobody is started. */
static SondeTopSource *
new_source (const TopCommand *options, gboolean is_text, GError **error)
{
  g_autoptr (SondeTopSource) source = NULL;
  int saved[3] = { -1, -1, -1 };
  gboolean is_connected;

  if (options->session != 0)
    return sonde_top_source_new_session (options->session, error);
  if (!is_text)
    hide_terminal (saved);
  source = sonde_top_source_new_recording (&options->record, error);
  if (!options->record.embedded)
    show_terminal (saved);
  is_connected = source != NULL && sonde_top_source_connect (source, error);
  show_terminal (saved);
  return is_connected ? g_steal_pointer (&source) : NULL;
}

int
sonde_cmd_top (int argc, char **argv)
{
  g_auto (TopCommand) options = { .window_s = 10, .interval_s = 1 };
  g_autoptr (SondeTopSource) source = NULL;
  g_autoptr (GError) error = NULL;
  SondeTopOptions top;

  if (!parse (&options, argc, argv))
    return SONDE_EXIT_OUR_FAILURE;
  top = (SondeTopOptions){ .mode = options.mode,
                           .window_s = options.window_s,
                           .interval_s = options.interval_s,
                           .count = options.count };
  top.is_text = options.count > 0 || !isatty (STDIN_FILENO) || !isatty (STDOUT_FILENO);
  /* Nobody waits for servers, or for names at the end that nobody sees. */
  g_unsetenv ("DEBUGINFOD_URLS");
  options.record.no_symbols = TRUE;
  source = new_source (&options, top.is_text, &error);
  if (source == NULL)
    {
      sonde_service_error_complain ("", error, options.record.embedded);
      return SONDE_EXIT_OUR_FAILURE;
    }
  /* A reader that leaves ends us in order. Not before the command was started, which would inherit
   * it. */
  signal (SIGPIPE, SIG_IGN);
  return sonde_top_run (source, &top);
}
