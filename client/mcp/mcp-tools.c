/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/mcp/mcp-tools.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include "client/base/text.h"
#include "client/mcp/mcp-answer.h"
#include "client/mcp/mcp-tree.h"
#include "mcp-resources.h"

#define READ_S           120 /* that a capture may take to be read */
#define START_S          60  /* and a recording to begin and to end */
#define MAX_RECORD_S     600
#define DEFAULT_RECORD_S 10
#define MAX_LOCKS        12u
#define SAID_BYTES       1024u

struct SondeMcpTool
{
  const char *name;
  const char *title;
  const char *description;
  const SondeMcpArgument *arguments;
  gboolean changes; /* it runs programs; else it only reads */
  guint n_steps;
  gboolean (*build) (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error);
  gboolean (*answer) (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error);
};

#define CAPTURE_ROW(argument, text)                                                                \
  {                                                                                                \
    .name = (argument), .type = SONDE_MCP_TEXT,                                                    \
    .description = text ": its name, as record tells it (c1), or the absolute path of a .syscap "  \
                        "file",                                                                    \
    .is_required = TRUE                                                                            \
  }
#define CURSOR_ROW                                                                                 \
  {                                                                                                \
    .name = "cursor", .type = SONDE_MCP_TEXT,                                                      \
    .description = "For more rows: the member next of the answer to the same arguments"            \
  }
#define LIMIT_ROW(text)                                                                            \
  {                                                                                                \
    .name = "percent-limit", .type = SONDE_MCP_NUMBER, .most = 100,                                \
    .description = "Leave out what weighs less; by default " text                                  \
  }
#define FILTER_ROWS                                                                                \
  { .name = "pid",                                                                                 \
    .type = SONDE_MCP_INTEGER,                                                                     \
    .description = "Only this process",                                                            \
    .least = 1,                                                                                    \
    .most = G_MAXINT32 },                                                                          \
      { .name = "thread", .type = SONDE_MCP_TEXT, .description = "Only threads of this name" },    \
      { .name = "from",                                                                            \
        .type = SONDE_MCP_NUMBER,                                                                  \
        .description = "Only what came so many seconds after the capture began, or later",         \
        .most = 1e9 },                                                                             \
  {                                                                                                \
    .name = "to", .type = SONDE_MCP_NUMBER, .description = "Only what came before that moment",    \
    .most = 1e9                                                                                    \
  }

/* --- command lines --- */

static void G_GNUC_NULL_TERMINATED
add_words (GPtrArray *argv, const char *word, ...)
{
  va_list words;

  va_start (words, word);
  for (; word != NULL; word = va_arg (words, const char *))
    g_ptr_array_add (argv, g_strdup (word));
  va_end (words);
}

/* "--from=1.5" */
static void
add_number (GPtrArray *argv, const char *option, double number)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  g_ptr_array_add (argv,
                   g_strconcat (option, "=", g_ascii_dtostr (text, sizeof text, number), NULL));
}

static void
add_limit (const SondeMcpWork *work, GPtrArray *argv, double otherwise)
{
  add_number (argv, "--percent-limit",
              sonde_mcp_arguments_number (&work->arguments, "percent-limit", otherwise));
}

static void
add_filter (const SondeMcpWork *work, GPtrArray *argv)
{
  static const struct
  {
    const char *argument;
    const char *option;
  } numbers[] = { { "pid", "--pid" }, { "from", "--from" }, { "to", "--to" } };
  const char *thread = sonde_mcp_arguments_text (&work->arguments, "thread");

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      double number = sonde_mcp_arguments_number (&work->arguments, numbers[i].argument, -1);

      if (number >= 0)
        add_number (argv, numbers[i].option, number);
    }
  if (thread != NULL)
    g_ptr_array_add (argv, g_strconcat ("--thread=", thread, NULL));
}

/* The file behind argument @name. */
static gboolean
add_capture (const SondeMcpWork *work, GPtrArray *argv, const char *name, GError **error)
{
  const char *word = sonde_mcp_arguments_text (&work->arguments, name);
  char *path = sonde_mcp_captures_find (work->captures, word, error);

  if (path == NULL)
    return FALSE;
  g_ptr_array_add (argv, path);
  return TRUE;
}

/* --- what is read of what a command printed --- */

static const char *
text_of (const SondeJsonDocument *told, guint32 object, const char *member)
{
  return sonde_json_document_text (told, sonde_json_document_member (told, object, member));
}

static gint64
number_of (const SondeJsonDocument *told, guint32 object, const char *member)
{
  gint64 number = 0;

  sonde_json_document_integer (told, sonde_json_document_member (told, object, member), &number);
  return number;
}

static double
real_of (const SondeJsonDocument *told, guint32 object, const char *member)
{
  double number = 0;

  sonde_json_document_number (told, sonde_json_document_member (told, object, member), &number);
  return number;
}

static double
percent_of (gint64 part, gint64 whole)
{
  return whole > 0 ? 100 * (double) part / (double) whole : 0;
}

static void
add_amount (SondeMcpAnswer *answer, const SondeJsonDocument *told, const char *member)
{
  guint32 amount = sonde_json_document_member (told, 0, member);

  sonde_json_begin_object (&answer->json, member);
  sonde_json_add_number (&answer->json, "bytes", number_of (told, amount, "bytes"));
  sonde_json_add_number (&answer->json, "blocks", number_of (told, amount, "blocks"));
  sonde_json_end_object (&answer->json);
}

/* Whether there was more in the capture than a command keeps. */
static void
add_truncated (SondeMcpAnswer *answer, const SondeJsonDocument *told, guint32 object)
{
  guint32 truncated = sonde_json_document_member (told, object, "truncated");

  if (sonde_json_document_n_inside (told, truncated) > 0)
    sonde_json_add_bool (&answer->json, "truncated", TRUE);
}

/* What a report is of. */
static void
add_head (SondeMcpAnswer *answer, const SondeJsonDocument *told)
{
  static const char *const losses[]
      = { "lost-kernel", "lost-ring", "lost-queue", "stream-samples-lost" };
  guint32 settings = sonde_json_document_member (told, 0, "settings");
  guint32 ledger = sonde_json_document_member (told, 0, "ledger");
  gint64 n_lost = 0;

  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    if (__builtin_add_overflow (n_lost, number_of (told, ledger, losses[i]), &n_lost))
      n_lost = G_MAXINT64;
  sonde_mcp_answer_add_name (answer, "event", text_of (told, settings, "event"));
  sonde_mcp_answer_add_name (answer, "frequency", text_of (told, settings, "frequency"));
  sonde_json_add_real (&answer->json, "duration-seconds",
                       (double) number_of (told, 0, "duration-ns") / 1e9);
  sonde_json_add_number (&answer->json, "samples", number_of (told, 0, "samples"));
  sonde_json_add_number (&answer->json, "samples-chosen", number_of (told, 0, "total"));
  sonde_json_add_number (&answer->json, "samples-lost", n_lost);
  add_truncated (answer, told, 0);
}

/* Name, module and source line, as far as there are any. */
static void
add_function (SondeMcpAnswer *answer, const SondeJsonDocument *told, guint32 function)
{
  static const char *const members[] = { "name", "module", "source" };

  for (guint i = 0; i < G_N_ELEMENTS (members); i++)
    {
      const char *text = text_of (told, function, members[i]);

      if (i == 0 || (text != NULL && text[0] != '\0'))
        sonde_mcp_answer_add_name (answer, members[i], text);
    }
}

/* --- record --- */

static const char *const record_words[] = { "cpu", "heap", "switches", NULL };

static const SondeMcpArgument record_arguments[]
    = { { .name = "command",
          .type = SONDE_MCP_TEXTS,
          .description
          = "A program and its arguments, which is run and recorded; no shell reads it. It is "
            "ended when the time is over" },
        { .name = "folder",
          .type = SONDE_MCP_TEXT,
          .description = "Where the command runs: an absolute path" },
        { .name = "pid",
          .type = SONDE_MCP_INTEGER,
          .description = "Instead of a command: a process that runs, with its future children",
          .least = 1,
          .most = G_MAXINT32 },
        { .name = "unit",
          .type = SONDE_MCP_TEXT,
          .description
          = "Instead of a command: a unit of systemd, such as cron.service, which the service "
            "and an administrator's rule have to allow" },
        { .name = "seconds",
          .type = SONDE_MCP_NUMBER,
          .description = "How long at most; by default 10",
          .least = 0.1,
          .most = MAX_RECORD_S },
        { .name = "what",
          .type = SONDE_MCP_WORD,
          .description
          = "cpu: where the time goes that is spent computing, also within locks that are "
            "fought for. heap: each allocation of a command, too. switches: where threads "
            "stop to run, which takes the right to trace the kernel's scheduler",
          .words = record_words },
        { 0 } };

/* What is recorded: a command, a process or a unit, and one of them alone. */
static gboolean
add_target (const SondeMcpWork *work, GPtrArray *argv, GError **error)
{
  const SondeMcpArguments *arguments = &work->arguments;
  const SondeJsonDocument *document = arguments->document;
  const char *folder = sonde_mcp_arguments_text (arguments, "folder");
  const char *unit = sonde_mcp_arguments_text (arguments, "unit");
  double pid = sonde_mcp_arguments_number (arguments, "pid", 0);
  guint32 command = sonde_json_document_member (document, arguments->object, "command");
  gboolean has_command = command != SONDE_JSON_ABSENT;

  if (has_command + (unit != NULL) + (pid > 0) != 1)
    {
      g_set_error (
          error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
          "one of the arguments \"command\", \"pid\" and \"unit\" is needed, and only one");
      return FALSE;
    }
  if (folder != NULL && (folder[0] != '/' || !has_command))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "argument \"folder\" is an absolute path, and of a command alone");
      return FALSE;
    }
  if (folder != NULL && !g_file_test (folder, G_FILE_TEST_IS_DIR))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                   "argument \"folder\" is a folder that is there");
      return FALSE;
    }
  if (unit != NULL)
    g_ptr_array_add (argv, g_strconcat ("--unit=", unit, NULL));
  else if (!has_command)
    g_ptr_array_add (argv, g_strdup_printf ("--pid=%.0f", pid));
  else
    g_ptr_array_add (argv, g_strdup ("--"));
  for (guint32 word = sonde_json_document_first (document, command); word != SONDE_JSON_ABSENT;
       word = sonde_json_document_next (document, word))
    g_ptr_array_add (argv, g_strdup (sonde_json_document_text (document, word)));
  return TRUE;
}

static gboolean
build_record (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  const char *what = sonde_mcp_arguments_word (&work->arguments, record_arguments, "what");

  if (step == 0)
    {
      g_autoptr (GPtrArray) target = g_ptr_array_new_with_free_func (g_free);

      if (!add_target (work, target, error))
        return FALSE;
      work->capture = sonde_mcp_captures_add (work->captures, error);
      if (work->capture == NULL)
        return FALSE;
      add_words (argv, "record", "-o", NULL);
      g_ptr_array_add (argv, sonde_mcp_captures_dup_path (work->captures, work->capture));
      add_number (argv, "--duration",
                  sonde_mcp_arguments_number (&work->arguments, "seconds", DEFAULT_RECORD_S));
      if (g_str_equal (what, "heap"))
        add_words (argv, "--memory", NULL);
      else if (g_str_equal (what, "switches"))
        add_words (argv, "--event=sched:sched_switch", "--period=1", NULL);
      g_ptr_array_extend_and_steal (argv, g_steal_pointer (&target));
      return TRUE;
    }
  add_words (argv, "report", "--json", "--flat", "--percent-limit=1", NULL);
  g_ptr_array_add (argv, sonde_mcp_captures_dup_path (work->captures, work->capture));
  return TRUE;
}

/* Lines of programs: each is escaped, as nobody knows who wrote it, and all are cut. */
static void
add_lines (SondeMcpAnswer *answer, const char *member, const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree char *joined = NULL;
  g_autofree char *cut = NULL;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      char *escaped = sonde_text_escape (lines[i], -1);

      g_free (lines[i]);
      lines[i] = escaped;
    }
  joined = g_strchomp (g_strjoinv ("\n", lines));
  cut = sonde_mcp_cut (joined, SAID_BYTES);
  if (cut[0] != '\0')
    sonde_json_add_text (&answer->json, member, cut);
}

static void
add_rows (SondeMcpAnswer *answer, const SondeJsonDocument *told)
{
  gint64 total = number_of (told, 0, "total");
  guint32 row = sonde_json_document_first (told, sonde_json_document_member (told, 0, "rows"));

  sonde_mcp_answer_begin_rows (answer, "rows");
  for (; row != SONDE_JSON_ABSENT; row = sonde_json_document_next (told, row))
    {
      gint64 self = number_of (told, row, "self");

      sonde_mcp_answer_begin_row (answer);
      add_function (answer, told, row);
      sonde_json_add_real (&answer->json, "self-percent", percent_of (self, total));
      sonde_json_add_real (&answer->json, "total-percent",
                           percent_of (number_of (told, row, "total"), total));
      sonde_json_add_number (&answer->json, "self", self);
      sonde_mcp_answer_end_row (answer);
    }
  sonde_mcp_answer_end_rows (answer);
}

static gboolean
answer_record (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  sonde_json_add_text (&answer->json, "capture", work->capture);
  sonde_json_add_number (&answer->json, "bytes",
                         sonde_mcp_captures_size (work->captures, work->capture));
  if (WIFEXITED (work->wait_status))
    sonde_json_add_number (&answer->json, "exit-status", WEXITSTATUS (work->wait_status));
  add_lines (answer, "printed", work->printed);
  add_lines (answer, "said", work->said);
  add_head (answer, work->told[1]);
  add_rows (answer, work->told[1]);
  return TRUE;
}

/* --- report --- */

static const char *const report_words[]
    = { "function", "module", "thread", "process", "command", "unit", "container", NULL };

static const SondeMcpArgument report_arguments[] = { CAPTURE_ROW ("capture", "What is looked at"),
                                                     { .name = "by",
                                                       .type = SONDE_MCP_WORD,
                                                       .description = "What the rows are",
                                                       .words = report_words },
                                                     FILTER_ROWS,
                                                     LIMIT_ROW ("0.1"),
                                                     CURSOR_ROW,
                                                     { 0 } };

static gboolean
build_report (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  const char *by = sonde_mcp_arguments_word (&work->arguments, report_arguments, "by");

  add_words (argv, "report", "--json", "--flat", NULL);
  if (!g_str_equal (by, "function"))
    add_words (argv, "--by", by, NULL);
  add_filter (work, argv);
  add_limit (work, argv, 0.1);
  return add_capture (work, argv, "capture", error);
}

static gboolean
answer_report (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  add_head (answer, work->told[0]);
  add_rows (answer, work->told[0]);
  return TRUE;
}

/* --- callers --- */

static const SondeMcpArgument callers_arguments[]
    = { CAPTURE_ROW ("capture", "What is looked at"),
        { .name = "function",
          .type = SONDE_MCP_TEXT,
          .description
          = "Its name, as a report tells it, with or without its parameters; or a pattern "
            "with * and ?",
          .is_required = TRUE },
        FILTER_ROWS,
        LIMIT_ROW ("1"),
        CURSOR_ROW,
        { 0 } };

static gboolean
build_callers (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  const char *function = sonde_mcp_arguments_text (&work->arguments, "function");

  add_words (argv, "report", "--json", NULL);
  g_ptr_array_add (argv, g_strconcat ("--callers=", function, NULL));
  add_filter (work, argv);
  add_limit (work, argv, 1);
  return add_capture (work, argv, "capture", error);
}

/* Of a call tree the functions, each with how far it is from the one that was asked for. */
static void
add_tree (SondeMcpAnswer *answer, const SondeJsonDocument *told, const char *weight)
{
  g_autoptr (SondeMcpTree) tree = sonde_mcp_tree_new (told);
  gint64 total = number_of (told, 0, "total");
  guint32 function;
  guint depth;
  gint64 node_total;

  sonde_mcp_answer_begin_rows (answer, "rows");
  while (sonde_mcp_tree_next (tree, &function, &depth, &node_total))
    {
      sonde_mcp_answer_begin_row (answer);
      sonde_json_add_number (&answer->json, "depth", depth);
      add_function (answer, told, function);
      sonde_json_add_number (&answer->json, weight, node_total);
      sonde_json_add_real (&answer->json, "percent", percent_of (node_total, total));
      sonde_mcp_answer_end_row (answer);
    }
  sonde_mcp_answer_end_rows (answer);
}

static gboolean
answer_callers (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  add_head (answer, work->told[0]);
  add_tree (answer, work->told[0], "samples");
  return TRUE;
}

/* --- lines --- */

static const SondeMcpArgument lines_arguments[]
    = { CAPTURE_ROW ("capture", "What is looked at"),
        { .name = "function",
          .type = SONDE_MCP_TEXT,
          .description
          = "Its name, as a report tells it, with or without its parameters; without it the "
            "lines of all functions" },
        FILTER_ROWS,
        LIMIT_ROW ("0.1"),
        CURSOR_ROW,
        { 0 } };

static gboolean
build_lines (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  add_words (argv, "report", "--json", "--flat", "--lines", NULL);
  add_filter (work, argv);
  add_limit (work, argv, 0.1);
  return add_capture (work, argv, "capture", error);
}

static gboolean
is_called (const char *name, const char *wanted)
{
  gsize n = strlen (wanted);

  return strncmp (name, wanted, n) == 0 && (name[n] == '\0' || name[n] == '(' || name[n] == '<');
}

static gboolean
answer_lines (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  const SondeJsonDocument *told = work->told[0];
  const char *wanted = sonde_mcp_arguments_text (&work->arguments, "function");
  gint64 total = number_of (told, 0, "total");
  guint32 row = sonde_json_document_first (told, sonde_json_document_member (told, 0, "rows"));

  add_head (answer, told);
  sonde_mcp_answer_begin_rows (answer, "rows");
  for (; row != SONDE_JSON_ABSENT; row = sonde_json_document_next (told, row))
    {
      const char *name = text_of (told, row, "name");
      gint64 self = number_of (told, row, "self");

      if (name == NULL || (wanted != NULL && !is_called (name, wanted)))
        continue;
      sonde_mcp_answer_begin_row (answer);
      add_function (answer, told, row);
      sonde_json_add_real (&answer->json, "self-percent", percent_of (self, total));
      sonde_json_add_number (&answer->json, "self", self);
      sonde_mcp_answer_end_row (answer);
    }
  sonde_mcp_answer_end_rows (answer);
  if (answer->n_rows > 0 || wanted == NULL)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
               "no sample is in a function of that name: report tells which there are; a lower "
               "percent-limit shows lighter ones");
  return FALSE;
}

/* --- diff --- */

static const char *const diff_words[]
    = { "function", "module", "line", "command", "unit", "container", NULL };
static const char *const per_words[] = { "sample", "second", NULL };

static const SondeMcpArgument diff_arguments[] = {
  CAPTURE_ROW ("before", "The earlier one"),
  CAPTURE_ROW ("after", "The later one"),
  { .name = "by", .type = SONDE_MCP_WORD, .description = "What is compared", .words = diff_words },
  { .name = "per",
    .type = SONDE_MCP_WORD,
    .description = "What shares are of: all samples, or the time of one CPU",
    .words = per_words },
  LIMIT_ROW ("0.5; what is more than chance stays"),
  CURSOR_ROW,
  { 0 }
};

static gboolean
build_diff (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  add_words (argv, "diff", "--json", "--by",
             sonde_mcp_arguments_word (&work->arguments, diff_arguments, "by"), "--per",
             sonde_mcp_arguments_word (&work->arguments, diff_arguments, "per"), NULL);
  add_limit (work, argv, 0.5);
  return add_capture (work, argv, "before", error) && add_capture (work, argv, "after", error);
}

static void
add_side (SondeMcpAnswer *answer, const SondeJsonDocument *told, const char *member)
{
  guint32 side = sonde_json_document_member (told, 0, member);

  sonde_json_begin_object (&answer->json, member);
  sonde_json_add_number (&answer->json, "samples", number_of (told, side, "samples"));
  sonde_json_add_real (&answer->json, "duration-seconds",
                       (double) number_of (told, side, "duration-ns") / 1e9);
  add_truncated (answer, told, side);
  sonde_json_end_object (&answer->json);
}

static gboolean
answer_diff (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  static const char *const shares[] = { "before", "after", "change", "low", "high" };
  const SondeJsonDocument *told = work->told[0];
  guint32 chance = sonde_json_document_member (told, 0, "chance");
  guint32 row = sonde_json_document_first (told, sonde_json_document_member (told, 0, "rows"));

  add_side (answer, told, "before");
  add_side (answer, told, "after");
  sonde_mcp_answer_add_name (answer, "chance", text_of (told, chance, "verdict"));
  sonde_mcp_answer_begin_rows (answer, "rows");
  for (; row != SONDE_JSON_ABSENT; row = sonde_json_document_next (told, row))
    {
      guint32 marked = sonde_json_document_member (told, row, "more-than-chance");

      sonde_mcp_answer_begin_row (answer);
      add_function (answer, told, row);
      for (guint i = 0; i < G_N_ELEMENTS (shares); i++)
        if (sonde_json_document_member (told, row, shares[i]) != SONDE_JSON_ABSENT)
          sonde_json_add_real (&answer->json, shares[i], real_of (told, row, shares[i]));
      if (marked != SONDE_JSON_ABSENT)
        sonde_json_add_bool (&answer->json, "more-than-chance",
                             sonde_json_document_type (told, marked) == SONDE_JSON_TRUE);
      sonde_mcp_answer_end_row (answer);
    }
  sonde_mcp_answer_end_rows (answer);
  return TRUE;
}

/* --- heap --- */

static const char *const heap_words[] = { "leaks", "peak", "allocated", NULL };

static const SondeMcpArgument heap_arguments[] = {
  CAPTURE_ROW ("capture", "What is looked at, of record with what=heap"),
  { .name = "view",
    .type = SONDE_MCP_WORD,
    .description = "leaks: what was never freed. peak: what was live when most was. allocated: all",
    .words = heap_words },
  { .name = "function",
    .type = SONDE_MCP_TEXT,
    .description = "Instead of a list of functions that allocated, this one, and who called it" },
  LIMIT_ROW ("0.1"),
  CURSOR_ROW,
  { 0 }
};

static gboolean
build_heap (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  const char *view = sonde_mcp_arguments_word (&work->arguments, heap_arguments, "view");
  const char *function = sonde_mcp_arguments_text (&work->arguments, "function");

  add_words (argv, "heap", "--json", NULL);
  if (!g_str_equal (view, "allocated"))
    g_ptr_array_add (argv, g_strconcat ("--", view, NULL));
  if (function != NULL)
    g_ptr_array_add (argv, g_strconcat ("--callers=", function, NULL));
  else
    add_words (argv, "--flat", NULL);
  add_limit (work, argv, 0.1);
  return add_capture (work, argv, "capture", error);
}

static gboolean
answer_heap (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  static const char *const amounts[] = { "allocated", "freed", "left", "peak" };
  const SondeJsonDocument *told = work->told[0];
  gint64 total = number_of (told, 0, "total");
  guint32 rows = sonde_json_document_member (told, 0, "rows");
  guint32 inexact = sonde_json_document_member (told, 0, "inexact");

  sonde_json_add_real (&answer->json, "duration-seconds",
                       (double) number_of (told, 0, "duration-ns") / 1e9);
  for (guint i = 0; i < G_N_ELEMENTS (amounts); i++)
    add_amount (answer, told, amounts[i]);
  sonde_json_add_number (&answer->json, "events-lost", number_of (told, inexact, "lost"));
  sonde_json_add_bool (&answer->json, "is-estimate", number_of (told, 0, "interval-bytes") > 0);
  sonde_json_add_number (&answer->json, "bytes", total);
  add_truncated (answer, told, 0);
  if (rows == SONDE_JSON_ABSENT)
    {
      add_tree (answer, told, "bytes");
      return TRUE;
    }
  sonde_mcp_answer_begin_rows (answer, "rows");
  for (guint32 row = sonde_json_document_first (told, rows); row != SONDE_JSON_ABSENT;
       row = sonde_json_document_next (told, row))
    {
      gint64 self = number_of (told, row, "self");

      sonde_mcp_answer_begin_row (answer);
      add_function (answer, told, row);
      sonde_json_add_number (&answer->json, "bytes", self);
      sonde_json_add_number (&answer->json, "blocks", number_of (told, row, "beside"));
      sonde_json_add_real (&answer->json, "percent", percent_of (self, total));
      sonde_mcp_answer_end_row (answer);
    }
  sonde_mcp_answer_end_rows (answer);
  return TRUE;
}

/* --- waits --- */

static const SondeMcpArgument waits_arguments[] = { CAPTURE_ROW ("capture", "What is looked at"),
                                                    FILTER_ROWS,
                                                    LIMIT_ROW ("0.1 of locks, 0 of threads"),
                                                    CURSOR_ROW,
                                                    { 0 } };

/* Step 0 is the threads, step 1 the call trees in which locks are looked for. */
static gboolean
build_waits (SondeMcpWork *work, guint step, GPtrArray *argv, GError **error)
{
  add_words (argv, "report", "--json", NULL);
  if (step == 0)
    add_words (argv, "--flat", "--by=thread", NULL);
  add_filter (work, argv);
  add_limit (work, argv, step == 0 ? 0 : 0.1);
  return add_capture (work, argv, "capture", error);
}

static gboolean
answer_waits (const SondeMcpWork *work, SondeMcpAnswer *answer, GError **error)
{
  const SondeJsonDocument *threads = work->told[0];
  const SondeJsonDocument *trees = work->told[1];
  g_autoptr (GPtrArray) locks = sonde_mcp_tree_dup_locks (trees);
  gint64 total = number_of (trees, 0, "total");
  double seconds = (double) number_of (threads, 0, "duration-ns") / 1e9;
  const char *frequency
      = text_of (threads, sonde_json_document_member (threads, 0, "settings"), "frequency");
  double frequency_hz = frequency != NULL ? g_ascii_strtod (frequency, NULL) : 0;
  guint32 row
      = sonde_json_document_first (threads, sonde_json_document_member (threads, 0, "rows"));

  add_head (answer, threads);
  sonde_json_add_number (&answer->json, "total-locks", locks->len);
  sonde_json_begin_array (&answer->json, "locks");
  for (guint i = 0; i < locks->len && i < MAX_LOCKS && answer->from == 0; i++)
    {
      const SondeMcpLock *lock = g_ptr_array_index (locks, i);

      sonde_json_begin_object (&answer->json, NULL);
      sonde_mcp_answer_add_name (answer, "name", lock->caller);
      sonde_mcp_answer_add_name (answer, "module", lock->module);
      sonde_mcp_answer_add_name (answer, "lock", lock->lock);
      sonde_json_add_number (&answer->json, "samples", lock->n_samples);
      sonde_json_add_real (&answer->json, "percent", percent_of (lock->n_samples, total));
      sonde_json_end_object (&answer->json);
    }
  sonde_json_end_array (&answer->json);
  sonde_mcp_answer_begin_rows (answer, "rows");
  for (; row != SONDE_JSON_ABSENT; row = sonde_json_document_next (threads, row))
    {
      gint64 n = number_of (threads, row, "self");
      double cpu_percent
          = frequency_hz >= 1 && seconds > 0 ? 100 * (double) n / frequency_hz / seconds : -1;

      sonde_mcp_answer_begin_row (answer);
      sonde_mcp_answer_add_name (answer, "name", text_of (threads, row, "name"));
      sonde_json_add_number (&answer->json, "samples", n);
      if (cpu_percent >= 0 && isfinite (cpu_percent))
        sonde_json_add_real (&answer->json, "cpu-percent", cpu_percent);
      sonde_mcp_answer_end_row (answer);
    }
  sonde_mcp_answer_end_rows (answer);
  return TRUE;
}

/* --- all of them --- */

static const SondeMcpTool tools[] = {
  { "record", "Record a profile",
    "Runs a command, or watches a process or unit, and records where its time goes, or its heap. "
    "Answers the name of the capture, which the other tools take, and its hottest functions.",
    record_arguments, TRUE, 2, build_record, answer_record },
  { "report", "Hottest functions",
    "The functions in which samples were taken, most first: self is in the function itself, total "
    "also in what it called. Or modules, threads, processes, commands, units.",
    report_arguments, FALSE, 1, build_report, answer_report },
  { "callers", "Callers of a function",
    "One function, and below it who called it, as a tree: rows of depth 1 called the row of depth "
    "0 "
    "above them, and so on.",
    callers_arguments, FALSE, 1, build_callers, answer_callers },
  { "lines", "Hot source lines",
    "The source lines (file:line) of a function in which samples were taken, most first. It takes "
    "debug information of the program.",
    lines_arguments, FALSE, 1, build_lines, answer_lines },
  { "diff", "Compare two captures",
    "What takes a larger or smaller share in the later capture, slower ones first, in percentage "
    "points; more-than-chance tells which changes two recordings of the same would hardly show.",
    diff_arguments, FALSE, 1, build_diff, answer_diff },
  { "heap", "Heap and leaks",
    "Which functions allocated what was never freed, what was live at the peak, or all, in a "
    "capture of record with what=heap.",
    heap_arguments, FALSE, 1, build_heap, answer_heap },
  { "waits", "Threads and locks",
    "How much of the time of a CPU each thread took, and which functions took locks in which time "
    "was spent: name is the function that called lock. A thread that waits without computing has "
    "no samples then: what is missing of 100 cpu-percent is time in which it waited, or was not "
    "given a CPU. In a capture of record with what=switches each sample is a moment at which a "
    "thread stopped to run.",
    waits_arguments, FALSE, 2, build_waits, answer_waits },
};

void
sonde_mcp_work_clear (SondeMcpWork *self)
{
  g_clear_pointer (&self->capture, g_free);
  g_clear_pointer (&self->printed, g_free);
  g_clear_pointer (&self->said, g_free);
  for (guint i = 0; i < SONDE_MCP_MAX_STEPS; i++)
    g_clear_pointer (&self->told[i], sonde_json_document_free);
}

const SondeMcpTool *
sonde_mcp_tool_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (tools); i++)
    if (g_str_equal (tools[i].name, name))
      return &tools[i];
  return NULL;
}

/* The schema of what @tool answers, as it is installed; in one line. */
static void
add_output_schema (SondeJson *json, const SondeMcpTool *tool)
{
  g_autofree char *path = g_strdup_printf ("/org/sonde/mcp/%s.json", tool->name);
  g_autoptr (GBytes) bytes = g_resource_lookup_data (sonde_mcp_get_resource (), path,
                                                     G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  g_autofree char *text = NULL;

  g_assert (bytes != NULL);
  text = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  sonde_json_add_source (json, "outputSchema", g_strdelimit (text, "\n", ' '));
}

void
sonde_mcp_tools_add_list (SondeJson *json)
{
  sonde_json_begin_array (json, "tools");
  for (guint i = 0; i < G_N_ELEMENTS (tools); i++)
    {
      sonde_json_begin_object (json, NULL);
      sonde_json_add_text (json, "name", tools[i].name);
      sonde_json_add_text (json, "title", tools[i].title);
      sonde_json_add_text (json, "description", tools[i].description);
      sonde_mcp_arguments_add_schema (json, "inputSchema", tools[i].arguments);
      add_output_schema (json, &tools[i]);
      sonde_json_begin_object (json, "annotations");
      sonde_json_add_bool (json, "readOnlyHint", !tools[i].changes);
      sonde_json_add_bool (json, "destructiveHint", tools[i].changes);
      sonde_json_add_bool (json, "idempotentHint", !tools[i].changes);
      sonde_json_add_bool (json, "openWorldHint", tools[i].changes);
      sonde_json_end_object (json);
      sonde_json_end_object (json);
    }
  sonde_json_end_array (json);
}

gboolean
sonde_mcp_tool_check (const SondeMcpTool *self, const SondeMcpArguments *arguments, GError **error)
{
  return sonde_mcp_arguments_check (arguments, self->arguments, error);
}

guint
sonde_mcp_tool_n_steps (const SondeMcpTool *self)
{
  return self->n_steps;
}

double
sonde_mcp_tool_seconds (const SondeMcpTool *self, const SondeMcpArguments *arguments)
{
  return self->changes ? sonde_mcp_arguments_number (arguments, "seconds", DEFAULT_RECORD_S) : 0;
}

gboolean
sonde_mcp_tool_build (const SondeMcpTool *self,
                      SondeMcpWork *work,
                      guint step,
                      GPtrArray *argv,
                      SondeMcpChildOptions *options,
                      GError **error)
{
  gboolean records = self->changes && step == 0;

  *options = (SondeMcpChildOptions){
    .folder = records ? sonde_mcp_arguments_text (&work->arguments, "folder") : NULL,
    .seconds = records ? sonde_mcp_tool_seconds (self, &work->arguments) + START_S : READ_S,
    .is_heard = !records
  };
  add_words (argv, "sondectl", NULL);
  if (!self->build (work, step, argv, error))
    return FALSE;
  g_ptr_array_add (argv, NULL);
  return TRUE;
}

char *
sonde_mcp_tool_answer (const SondeMcpTool *self, const SondeMcpWork *work, GError **error)
{
  g_auto (SondeMcpAnswer) answer = { 0 };

  if (!sonde_mcp_answer_init (&answer, sonde_mcp_arguments_text (&work->arguments, "cursor"), error)
      || !self->answer (work, &answer, error))
    return NULL;
  return sonde_mcp_answer_finish (&answer, error);
}
