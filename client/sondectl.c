/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl: records profiles through sonded and reads captures. */
#include <fcntl.h>
#include <glib.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>
#include <stdio.h>

#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/commands.h"
#include "client/model/capture-file.h"
#include "config.h"

static int cmd_help (int argc, char **argv);

/* Commands that share a line of --help have their text in the first row; the others' is NULL. */
static const struct
{
  const char *name;
  int (*run) (int argc, char **argv);
  const char *usage; /* what follows the names */
  const char *text;
} commands[] = {
  { "record", sonde_cmd_record, "COMMAND... | -p PID | -a", "profile a program, or the machine" },
  { "top", sonde_cmd_top, "[SESSION | COMMAND...]", "watch where the time goes, live" },
  { "report", sonde_cmd_report, "FILE", "show where the time went" },
  { "diff", sonde_cmd_diff, "BEFORE AFTER", "show what became slower" },
  { "heap", sonde_cmd_heap, "FILE", "show who allocated, or how calls went" },
  { "calls", sonde_cmd_calls, NULL, NULL },
  { "export", sonde_cmd_export, "[-f FORMAT] FILE", "write, or read, what others have" },
  { "import", sonde_cmd_import, NULL, NULL },
  { "view", sonde_cmd_view, "FILE", "show it in a browser, or write the page" },
  { "flamegraph", sonde_cmd_flamegraph, NULL, NULL },
  { "archive", sonde_cmd_archive, "FILE", "embed the names of functions" },
  { "dump", sonde_cmd_dump, "FILE", "print its frames, check it and its loss" },
  { "verify", sonde_cmd_verify, NULL, NULL },
  { "start", sonde_cmd_start, "-p PID | -u UNIT | -a", "have the service record, unattended" },
  { "list", sonde_cmd_list, "[SESSION]", "show its sessions, what they cost" },
  { "status", sonde_cmd_status, NULL, NULL },
  { "attach", sonde_cmd_attach, "SESSION -o FILE", "get what one records, or had of late" },
  { "snapshot", sonde_cmd_snapshot, NULL, NULL },
  { "pause", sonde_cmd_pause, "SESSION", "have it wait, go on, end" },
  { "resume", sonde_cmd_resume, NULL, NULL },
  { "stop", sonde_cmd_stop, NULL, NULL },
  { "rm", sonde_cmd_rm, "CAPTURE...", "remove what a session left" },
  { "arm", sonde_cmd_arm, "UNIT | COMMAND...", "have programs ready for heap sessions" },
  { "disarm", sonde_cmd_disarm, NULL, NULL },
  { "events", sonde_cmd_events, "", "show what it can record, and how much" },
  { "limits", sonde_cmd_limits, NULL, NULL },
  { "mcp", sonde_cmd_mcp, "", "have a language model profile and read" },
  { "help", cmd_help, "[COMMAND]", "show this, or the options of a command" },
};

static int
print_help (void)
{
  g_autoptr (GString) out = g_string_new ("Usage: sondectl COMMAND ...\n");

  for (gsize i = 0; i < G_N_ELEMENTS (commands);)
    {
      g_autoptr (GString) line = g_string_new (commands[i].name);
      gsize first = i;

      while (++i < G_N_ELEMENTS (commands) && commands[i].text == NULL)
        g_string_append_printf (line, "|%s", commands[i].name);
      g_string_append_printf (line, " %s", commands[first].usage);
      g_string_append_printf (out, "  sondectl %-28s  %s\n", line->str, commands[first].text);
    }
  g_string_append (
      out, "  sondectl CAPTURE | PROGRAM...          report one, record and show the other\n"
           "  sondectl --version\n"
           "\nFor a first look:\n"
           "  sondectl record -d 5 -- python3 program.py\n");
  return sonde_cli_print (out) ? 0 : 1;
}

/* A word that is no command, and what it was probably meant to be. */
static void
complain_of_word (const char *word, const char *what)
{
  const char *names[G_N_ELEMENTS (commands) + 1] = { NULL };
  g_autofree char *shown = sonde_text_escape (word, -1);
  const char *nearest;

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    names[i] = commands[i].name;
  nearest = sonde_choice_nearest (word, names);
  if (nearest != NULL)
    sonde_cli_complain ("%s %s; did you mean %s?", shown, what, nearest);
  else
    sonde_cli_complain ("%s %s; see sondectl help", shown, what);
}

/* Of the command that @argv begins with; -1: there is none of that name. */
static int
run_command (int argc, char **argv)
{
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_equal (argv[0], commands[i].name))
      {
        g_autofree char *name = g_strdup_printf ("sondectl %s", commands[i].name);

        g_set_prgname (name);
        return commands[i].run (argc, argv);
      }
  return -1;
}

static int
cmd_help (int argc, char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  char *help_argv[] = { NULL, (char *) "--help", NULL };
  int status;

  if (!sonde_cli_parse (&argc, &argv, "[COMMAND]",
                        "Shows the commands, or what one of them does and its options.",
                        "Example:\n  sondectl help record", entries, FALSE, NULL))
    return 1;
  if (argc < 2)
    return print_help ();
  help_argv[0] = argv[1];
  status = run_command (2, help_argv);
  if (status < 0)
    complain_of_word (argv[1], "is no command of sondectl");
  return ABS (status);
}

/* A path instead of a command: a capture is reported, a program is recorded. */
static int
run_path (int argc, char **argv)
{
  g_autofree char *program = NULL;

  if (sonde_capture_file_probe (argv[0]))
    {
      char *report_argv[] = { (char *) "report", argv[0], NULL };

      if (argc == 1)
        return sonde_cmd_report (2, report_argv);
      sonde_cli_complain ("%s is a capture: sondectl report takes options", argv[0]);
      return 1;
    }
  program = g_find_program_in_path (argv[0]);
  if (program != NULL)
    return sonde_cmd_record_program (argv);
  complain_of_word (argv[0], "is neither a command of sondectl, nor a capture, nor a program");
  return 1;
}

/* As it is: in the C locale GLib would put a question mark in the place of each letter of a file's
 * name that is not English. */
static void
print_error (const char *text)
{
  fputs (text, stderr);
}

int
main (int argc, char **argv)
{
  int status;

  /* What we open never takes the number of a standard descriptor that is closed, and writing there
   * stays an error. */
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl (fd, F_GETFD) < 0)
      open ("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  signal (SIGXFSZ, SIG_IGN); /* the file is at its limit: write() says so */
  /* numbers stay as they are in C: reports are read by programs too */
  setlocale (LC_CTYPE, "");
  g_set_prgname ("sondectl");
  g_set_printerr_handler (print_error);

  if (argc < 2 || g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h"))
    return print_help ();
  if (g_str_equal (argv[1], "--version"))
    {
      g_autoptr (GString) version = g_string_new ("sondectl " SONDE_VERSION "\n");

      return sonde_cli_print (version) ? 0 : 1;
    }

  status = run_command (argc - 1, argv + 1);
  return status >= 0 ? status : run_path (argc - 1, argv + 1);
}
