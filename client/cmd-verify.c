/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl verify: whether a capture is whole and its ledger adds up. */
#include "client/commands.h"

#include "client/model/capture-file.h"
#include "client/base/cli.h"
#include "client/model/ledger.h"
#include "client/base/text.h"

enum
{
  EXIT_HOLDS = 0,
  EXIT_FALSE = 1,
  EXIT_CUT_SHORT = 2,
};

static void
append_finding (GString *out, const char *subject, SondeVerdict verdict, const char *text)
{
  g_string_append_printf (out, "%-10s %-8s %s\n", subject, sonde_verdict_to_string (verdict), text);
}

static int
print_findings (const SondeLedgerCheck *check)
{
  g_autoptr (GPtrArray) findings = sonde_ledger_check_dup_findings (check);
  g_autofree char *frames
      = sonde_text_plural (sonde_ledger_check_n_frames (check), "frame", "frames");
  g_autoptr (GString) out = g_string_new (NULL);
  gboolean has_failed = FALSE;
  gboolean is_open = FALSE;

  append_finding (out, "structure", SONDE_VERDICT_PASSED, frames);
  for (guint i = 0; i < findings->len; i++)
    {
      const SondeFinding *finding = g_ptr_array_index (findings, i);

      append_finding (out, finding->subject, finding->verdict, finding->text);
      has_failed = has_failed || finding->verdict == SONDE_VERDICT_FAILED;
      is_open = is_open || finding->verdict == SONDE_VERDICT_OPEN;
    }
  if (!sonde_cli_print (out) || has_failed)
    return EXIT_FALSE;
  return is_open ? EXIT_CUT_SHORT : EXIT_HOLDS;
}

int
sonde_cmd_verify (int argc, char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (SondeLedgerCheck) check = sonde_ledger_check_new ();
  g_autoptr (SondeProgress) progress = NULL;
  g_autoptr (GError) error = NULL;
  const SondeFrame *frame;
  const char *path = sonde_cli_parse_file (
      argc, argv,
      "Checks the structure of a capture and recomputes its loss ledger.\n"
      "FILE may be - (standard input).",
      "Exit status: 0 all holds; 1 broken or false; 2 whole, but cut short.\n"
      "\nExample:\n  sondectl verify slow.syscap",
      entries);

  if (path == NULL)
    return EXIT_FALSE;
  file = sonde_capture_file_open (path, &error);
  if (file == NULL)
    return sonde_cli_fail (error);

  progress = sonde_progress_new ();
  sonde_capture_file_show (file, progress);
  while (sonde_capture_file_next (file, &frame, &error))
    sonde_ledger_check_add_frame (check, frame);
  g_clear_pointer (&progress, sonde_progress_free);
  if (error != NULL)
    {
      g_autofree char *frames
          = sonde_text_plural (sonde_ledger_check_n_frames (check), "frame", "frames");
      g_autofree char *text = g_strdup_printf ("%s after %s", error->message, frames);
      g_autoptr (GString) out = g_string_new (NULL);

      append_finding (out, "structure", SONDE_VERDICT_FAILED, text);
      sonde_cli_print (out);
      return EXIT_FALSE;
    }
  return print_findings (check);
}
