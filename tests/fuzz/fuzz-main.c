/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replays corpus files, or all files of a directory, through a fuzz target without libFuzzer. */
#include <glib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

static gboolean
replay_file (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  g_autofree uint8_t *data = NULL;
  gsize size;

  if (!g_file_get_contents (path, &text, &size, error))
    return FALSE;

  /* Without the NUL that GLib adds, so that a sanitizer sees the first byte too many. */
  data = g_memdup2 (text, size);
  LLVMFuzzerTestOneInput (data, size);

  return TRUE;
}

static gboolean
replay (const char *path, guint *n_files, GError **error)
{
  g_autoptr (GDir) dir = NULL;
  const char *name;

  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      ++*n_files;
      return replay_file (path, error);
    }

  dir = g_dir_open (path, 0, error);
  if (dir == NULL)
    return FALSE;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      if (!replay_file (child, error))
        return FALSE;
      ++*n_files;
    }

  return TRUE;
}

int
main (int argc, char *argv[])
{
  guint n_files = 0;

  for (int i = 1; i < argc; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!replay (argv[i], &n_files, &error))
        {
          g_printerr ("%s: %s\n", g_get_prgname (), error->message);
          return 1;
        }
    }

  /* A corpus that is not found must not look like a success. */
  if (n_files == 0)
    {
      g_printerr ("%s: no corpus file to replay\n", g_get_prgname ());
      return 1;
    }

  g_print ("%u files replayed\n", n_files);
  return 0;
}
