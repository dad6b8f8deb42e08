/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What sondectl record says while it records and when it is done. */
#include "client/service/record-summary.h"

#include <string.h>

#include "client/base/text.h"

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
    "--memory-wait lets the command wait for it" },
  { "events-refused", "events of programs were impossible, or came while it was paused", NULL },
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
  { "unwind-depth-limit", "were cut at the depth limit", "raise --max-depth" },
  { "unwind-truncated-page", "were cut at a page of stack that was not there", NULL },
  { "unwind-no-cfi", "end in code without unwind data", NULL },
  { "unwind-bad-cfi", "end in code with wrong unwind data", NULL },
  { "unwind-no-module", "end in code of no known file", NULL },
  { "unwind-loop", "end in a loop", NULL },
};

#define CUT_MIN_PERCENT 1.0

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
         + sonde_client_session_get_statistic (session, "stream-events-lost")
         + sonde_client_session_get_statistic (session, "file-events-lost");
}

char *
sonde_record_summary_progress (SondeClientSession *session)
{
  g_autofree char *samples = sonde_text_plural (
      sonde_client_session_get_statistic (session, "recorded"), "sample", "samples");
  g_autofree char *lost = sonde_text_count (count_lost (session));
  g_autofree char *size = sonde_text_size (sonde_client_session_get_n_bytes (session));

  return g_strdup_printf ("%.0f s  %s  %s lost  %s",
                          (double) sonde_client_session_get_elapsed_ns (session) / 1e9, samples,
                          lost, size);
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

/* What is told of is what the file holds: sondectl dump --counts finds the same. */
char *
sonde_record_summary_end (SondeClientSession *session,
                          const char *file,
                          const char *name,
                          const char *memory)
{
  guint64 n_samples = sonde_client_session_get_statistic (session, "file-samples");
  guint64 n_events = sonde_client_session_get_statistic (session, "file-events");
  g_autofree char *samples = sonde_text_plural (n_samples, "sample", "samples");
  g_autofree char *events = sonde_text_plural (n_events, "event", "events");
  g_autofree char *duration = sonde_text_duration (sonde_client_session_get_elapsed_ns (session));
  g_autofree char *size = sonde_text_size (sonde_client_session_get_n_bytes (session));
  g_autofree char *quoted = NULL;
  GString *out = g_string_new (NULL);

  g_string_append_printf (out, "Recorded %s%s%s in %s", samples, n_events > 0 ? " and " : "",
                          n_events > 0 ? events : "", duration);
  /* a service that ended before it had told could not tell of losses */
  if (n_samples + n_events > 0 && count_lost (session) == 0
      && sonde_client_session_get_statistic (session, "file-lost") == 0
      && sonde_client_session_has_statistics (session))
    g_string_append (out, ", none lost");
  g_string_append_printf (out, ": %s (%s)\n", name, size);
  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    {
      guint64 n = sonde_client_session_get_statistic (session, losses[i].key);
      g_autofree char *count = sonde_text_count (n);

      if (n > 0)
        g_string_append_printf (out, "Lost: %s %s%s%s.\n", count, losses[i].what,
                                losses[i].advice != NULL ? "; " : "",
                                losses[i].advice != NULL ? losses[i].advice : "");
    }
  append_cuts (out, session);
  /* What could be seen of a command before it ran was good; it may have executed what is not. */
  if (g_strcmp0 (memory, "all") == 0 && sonde_client_session_has_statistics (session)
      && sonde_client_session_get_statistic (session, "events-produced") == 0)
    g_string_append (out, "No process told of an allocation: the command made none, or ran only "
                          "programs that load no libsonde-memory.so (static, set-user-ID).\n");
  if (file == NULL)
    return g_string_free (out, FALSE);
  quoted = g_shell_quote (file);
  g_string_append_printf (
      out, "Now: sondectl %s %s\n", memory != NULL ? "heap" : "report",
      g_str_equal (name, file) && !strpbrk (file, " '\"$`&;|<>()*?[#~") ? file : quoted);
  return g_string_free (out, FALSE);
}
