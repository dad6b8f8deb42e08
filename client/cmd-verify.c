/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl verify: whether a capture is whole and its ledger adds up. */
#include "client/commands.h"

#include "client/model/capture-file.h"
#include "client/base/cli.h"
#include "client/base/json.h"
#include "client/model/ledger.h"
#include "client/base/text.h"

#define SCHEMA_VERSION 1

enum
{
  EXIT_HOLDS = 0,
  EXIT_FALSE = 1,
  EXIT_CUT_SHORT = 2,
};

/* What was found, as text or JSON, and the exit status that follows. */
typedef struct
{
  GString *out;
  SondeJson *json; /* NULL: text */
  int status;
} Findings;

static void
add_finding (Findings *self, const char *subject, SondeVerdict verdict, const char *text)
{
  const char *word = sonde_verdict_to_string (verdict);

  if (verdict == SONDE_VERDICT_FAILED)
    self->status = EXIT_FALSE;
  else if (verdict == SONDE_VERDICT_OPEN && self->status == EXIT_HOLDS)
    self->status = EXIT_CUT_SHORT;
  if (self->json == NULL)
    {
      g_string_append_printf (self->out, "%-10s %-8s %s\n", subject, word, text);
      return;
    }
  sonde_json_begin_object (self->json, NULL);
  sonde_json_add_text (self->json, "subject", subject);
  sonde_json_add_text (self->json, "verdict", word);
  sonde_json_add_text (self->json, "text", text);
  sonde_json_end_object (self->json);
}

/* @error: (nullable): what ended the capture early: then there is nothing more to find */
static void
add_findings (Findings *self, const SondeLedgerCheck *check, const GError *error)
{
  g_autofree char *frames
      = sonde_text_plural (sonde_ledger_check_n_frames (check), "frame", "frames");
  g_autoptr (GPtrArray) findings = NULL;

  if (error != NULL)
    {
      g_autofree char *text = g_strdup_printf ("%s after %s", error->message, frames);

      add_finding (self, "structure", SONDE_VERDICT_FAILED, text);
      return;
    }
  add_finding (self, "structure", SONDE_VERDICT_PASSED, frames);
  findings = sonde_ledger_check_dup_findings (check);
  for (guint i = 0; i < findings->len; i++)
    {
      const SondeFinding *finding = g_ptr_array_index (findings, i);

      add_finding (self, finding->subject, finding->verdict, finding->text);
    }
}

static int
print_findings (const SondeLedgerCheck *check, const GError *error, gboolean as_json)
{
  static const char *const holds[] = { "yes", "no", "open" }; /* by exit status */
  g_autoptr (GString) out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);
  Findings findings = { out, as_json ? &json : NULL, EXIT_HOLDS };

  if (as_json)
    {
      sonde_json_begin_object (&json, NULL);
      sonde_json_add_number (&json, "version", SCHEMA_VERSION);
      sonde_json_begin_array (&json, "findings");
    }
  add_findings (&findings, check, error);
  if (as_json)
    {
      sonde_json_end_array (&json);
      sonde_json_add_text (&json, "holds", holds[findings.status]);
      sonde_json_end_object (&json);
      g_string_append_c (out, '\n');
    }
  return sonde_cli_print (out) ? findings.status : EXIT_FALSE;
}

int
sonde_cmd_verify (int argc, char **argv)
{
  gboolean as_json = FALSE;
  const GOptionEntry entries[]
      = { { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "For programs", NULL },
          G_OPTION_ENTRY_NULL };
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
  return print_findings (check, error, as_json);
}
