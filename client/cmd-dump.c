/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl dump: each frame of a capture as a line of text. */
#include "client/commands.h"

#include "client/model/capture-file.h"
#include "client/base/cli.h"
#include "client/model/frame-text.h"
#include "client/model/heap-log-reader.h"
#include "protocol/heap-sums.h"

#define FLUSH_BYTES 65536 /* text gathered before it is written */

typedef struct
{
  GString *out;
  gboolean is_printed; /* all so far */
} Dump;

static void
print_if_full (Dump *self)
{
  if (self->out->len < FLUSH_BYTES)
    return;
  self->is_printed = self->is_printed && sonde_cli_print (self->out);
  g_string_truncate (self->out, 0);
}

/* Of the log of heap events: behind the chunk that completes its segment. */
static void
add_event (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  Dump *self = user_data;

  g_string_append (self->out, "  ");
  sonde_frame_text_append_logged (self->out, event, stack);
  print_if_full (self);
}

static gboolean
dump_frames (SondeCaptureFile *file, GError **error)
{
  g_autoptr (GString) out = g_string_sized_new (FLUSH_BYTES * 2);
  g_autoptr (SondeFrameText) text = sonde_frame_text_new ();
  Dump dump = { out, TRUE };
  g_autoptr (SondeHeapLogReader) log = sonde_heap_log_reader_new (add_event, &dump);
  const SondeFrame *frame;

  sonde_frame_text_append_header (out, sonde_capture_file_header (file));
  while (dump.is_printed && sonde_capture_file_next (file, &frame, error))
    {
      sonde_frame_text_append (text, out, frame);
      print_if_full (&dump);
      sonde_heap_log_reader_add (log, frame);
    }
  return dump.is_printed && sonde_cli_print (out);
}

static gboolean
dump_counts (SondeCaptureFile *file, GError **error)
{
  g_autoptr (GString) out = g_string_new (NULL);
  guint64 counts[SONDE_FRAME_N_READ] = { 0 };
  guint64 n_logged = 0;
  guint64 n_summed = 0;
  const SondeFrame *frame;

  while (sonde_capture_file_next (file, &frame, error))
    {
      counts[frame->type]++;
      if (sonde_heap_sums_is_chunk (frame))
        n_summed += sonde_heap_chunk_n_events (frame);
      else
        n_logged += sonde_heap_log_n_events (frame);
    }
  for (guint type = 1; type < SONDE_FRAME_N_READ; type++)
    if (counts[type] > 0)
      g_string_append_printf (out, "%s %" G_GUINT64_FORMAT "\n", sonde_frame_type_to_string (type),
                              counts[type]);
  if (n_logged > 0)
    g_string_append_printf (out, "heap-log-event %" G_GUINT64_FORMAT "\n", n_logged);
  if (n_summed > 0)
    g_string_append_printf (out, "heap-sums-event %" G_GUINT64_FORMAT "\n", n_summed);
  return sonde_cli_print (out);
}

int
sonde_cmd_dump (int argc, char **argv)
{
  gboolean counts = FALSE;
  const GOptionEntry entries[] = { { "counts", 'c', 0, G_OPTION_ARG_NONE, &counts,
                                     "Only the number of frames of each type", NULL },
                                   G_OPTION_ENTRY_NULL };
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (GError) error = NULL;
  gboolean was_printed;
  const char *path = sonde_cli_parse_file (
      argc, argv,
      "Prints each frame of a capture as a line of text. Times are nanoseconds of\n"
      "the monotonic clock. Events of a heap log are below it. FILE may be - (standard\n"
      "input).",
      "Example:\n  sondectl dump --counts slow.syscap", entries);

  if (path == NULL)
    return 1;
  file = sonde_capture_file_open (path, &error);
  if (file == NULL)
    return sonde_cli_fail (error);

  was_printed = counts ? dump_counts (file, &error) : dump_frames (file, &error);
  if (error != NULL)
    return sonde_cli_fail (error);
  return was_printed ? 0 : 1;
}
