/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign captures to the exports; the first byte says to which, and in what unit. */
#include <json-glib/json-glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/export/export.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

static const struct
{
  SondeExportFunc *write;
  gboolean is_json;
  gboolean has_places;
  gboolean is_heap;
} formats[] = {
  { .write = sonde_export_folded },
  { .write = sonde_export_speedscope, .is_json = TRUE },
  { .write = sonde_export_chrome, .is_json = TRUE },
  { .write = sonde_export_perf_script },
  { .write = sonde_export_dot },
  { .write = sonde_export_pprof },
  { .write = sonde_export_firefox, .is_json = TRUE },
  { .write = sonde_export_perfetto },
  { .write = sonde_export_heaptrack, .is_heap = TRUE },
  { .write = sonde_export_pprof, .has_places = TRUE },
  { .write = sonde_export_firefox, .is_json = TRUE, .has_places = TRUE },
  { .write = sonde_export_cpuprofile, .is_json = TRUE, .has_places = TRUE },
  { .write = sonde_export_heapprofile, .is_json = TRUE, .is_heap = TRUE },
};

static void
check_json (int fd)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree char *text = NULL;
  gsize size_bytes;

  if (!g_file_get_contents (path, &text, &size_bytes, NULL)
      || !g_utf8_validate_len (text, size_bytes, NULL)
      || !json_parser_load_from_data (parser, text, (gssize) size_bytes, NULL))
    abort ();
}

/* The number that stands at @line, which goes on behind it. */
static guint64
take_number (const char **line)
{
  char *end;
  guint64 number = g_ascii_strtoull (*line, &end, 16);

  *line = end;
  return number;
}

/* Each line refers to lines before it. */
static void
check_heaptrack (int fd)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  guint64 n_strings = 0, n_instructions = 0, n_nodes = 0, n_pairs = 0;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    abort ();
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      const char *at = lines[i] + MIN (strlen (lines[i]), 1);

      switch (lines[i][0])
        {
        case 's':
          n_strings++;
          if (take_number (&at) != strlen (at + 1) || *at != ' ')
            abort ();
          break;
        case 'i':
          n_instructions++;
          take_number (&at);
          if (take_number (&at) > n_strings || *at == '\0')
            abort ();
          for (; *at != '\0'; take_number (&at))
            if (take_number (&at) > n_strings || take_number (&at) > n_strings)
              abort ();
          break;
        case 't':
          if (take_number (&at) - 1 >= n_instructions || take_number (&at) > n_nodes)
            abort ();
          n_nodes++;
          break;
        case 'a':
          n_pairs++;
          take_number (&at);
          if (take_number (&at) > n_nodes)
            abort ();
          break;
        case '+':
        case '-':
          if (take_number (&at) >= n_pairs)
            abort ();
          break;
        default:
          if (strchr ("vXc#", lines[i][0]) == NULL)
            abort ();
        }
    }
}

static void
export_capture (const char *path, unsigned which, SondeUnit unit)
{
  g_autoptr (SondeExportSource) source
      = formats[which].is_heap      ? sonde_export_source_new_heap (path, NULL, NULL, NULL)
        : formats[which].has_places ? sonde_export_source_new_frames (path, NULL, NULL, NULL)
                                    : sonde_export_source_new (path, NULL, NULL, NULL);
  g_autoptr (SondeExportOutput) output = NULL;
  int out = memfd_create ("output", MFD_CLOEXEC);
  int saved = dup (STDOUT_FILENO);

  if (out < 0 || saved < 0)
    abort ();
  if (source != NULL)
    {
      /* Standard output is the one place that is no file of its own. */
      dup2 (out, STDOUT_FILENO);
      output = sonde_export_output_new (NULL, FALSE, NULL);
      if (!formats[which].write (source, unit, output, NULL)
          || !sonde_export_output_close (output, NULL))
        abort ();
      dup2 (saved, STDOUT_FILENO);
      if (formats[which].is_json)
        check_json (out);
      if (formats[which].write == sonde_export_heaptrack)
        check_heaptrack (out);
    }
  close (saved);
  close (out);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  uint8_t choice = input_take_byte (&input);
  int fd = memfd_create ("capture", MFD_CLOEXEC);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);

  if (fd < 0 || write (fd, input.at, input.left) != (ssize_t) input.left)
    abort ();
  export_capture (path, (choice & 0xf) % G_N_ELEMENTS (formats), (choice >> 4) % 3);
  close (fd);

  return 0;
}
