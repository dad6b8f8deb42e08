/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl: records profiles through sonded and reads captures. */
#include <glib.h>
#include <locale.h>

#include "client/model/capture-file.h"
#include "client/base/cli.h"
#include "client/commands.h"
#include "config.h"

static const struct
{
  const char *name;
  int (*run) (int argc, char **argv);
  const char *usage;
  const char *text;
} commands[] = {
  { "record", sonde_cmd_record, "record -- COMMAND...", "profile a command" },
  { NULL, NULL, "record -p PID | -u UNIT | -a", "profile processes, or the machine" },
  { "top", sonde_cmd_top, "top [SESSION | COMMAND...]", "watch where the time goes, live" },
  { "report", sonde_cmd_report, "report FILE", "show where the time went" },
  { "diff", sonde_cmd_diff, "diff BEFORE AFTER", "show what became slower" },
  { "heap", sonde_cmd_heap, "heap FILE", "show who allocated and leaked memory" },
  { "export", sonde_cmd_export, "export --format FORMAT FILE", "write it for another viewer" },
  { "flamegraph", sonde_cmd_flamegraph, "flamegraph FILE", "draw it as a page for the browser" },
  { "archive", sonde_cmd_archive, "archive FILE", "embed the names of functions" },
  { "dump", sonde_cmd_dump, "dump FILE", "print each frame as a line of text" },
  { "verify", sonde_cmd_verify, "verify FILE", "check structure and loss ledger" },
  { "list", sonde_cmd_list, "list [--all]", "show the sessions of the service" },
  { "attach", sonde_cmd_attach, "attach SESSION -o FILE", "get the capture of one of them" },
  { "stop", sonde_cmd_stop, "stop SESSION", "end one of them" },
  { NULL, NULL, "CAPTURE", "the same as report CAPTURE" },
  { NULL, NULL, "PROGRAM [ARGUMENT...]", "record it, embedded without a service" },
};

static int
print_help (void)
{
  g_autoptr (GString) out = g_string_new ("Usage: sondectl COMMAND ...\n\n");

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    g_string_append_printf (out, "  sondectl %-29s %s\n", commands[i].usage, commands[i].text);
  g_string_append (
      out, "  sondectl COMMAND --help                the options of a command\n"
           "  sondectl --version\n"
           "\nrecord asks the system's profiling service; record --embedded does without it,\n"
           "with the rights you have; sondectl(1) has more. For a first look:\n"
           "  sondectl record --embedded -d 5 -- python3 program.py\n");
  return sonde_cli_print (out) ? 0 : 1;
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
  sonde_cli_complain ("%s is neither a command of sondectl, nor a capture, nor a program", argv[0]);
  return 1;
}

int
main (int argc, char **argv)
{
  /* numbers stay as they are in C: reports are read by programs too */
  setlocale (LC_CTYPE, "");
  g_set_prgname ("sondectl");

  if (argc < 2 || g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h"))
    return print_help ();
  if (g_str_equal (argv[1], "--version"))
    {
      g_print ("sondectl %s\n", SONDE_VERSION);
      return 0;
    }

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (commands[i].name != NULL && g_str_equal (argv[1], commands[i].name))
      {
        g_autofree char *name = g_strdup_printf ("sondectl %s", commands[i].name);

        g_set_prgname (name);
        return commands[i].run (argc - 1, argv + 1);
      }
  return run_path (argc - 1, argv + 1);
}
