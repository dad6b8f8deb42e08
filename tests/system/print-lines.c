/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prints lines as addr2line -a -f -i does: print-lines FILE, addresses on standard input. */
#include <fcntl.h>
#include <stdio.h>

#include "client/names/module-file.h"

static void
print_frames (const GArray *frames)
{
  for (guint i = 0; i < frames->len; i++)
    {
      const SondeSourceFrame *frame = &g_array_index (frames, SondeSourceFrame, i);

      printf ("%s\n%s:%u\n", frame->function != NULL ? frame->function : "??",
              frame->file != NULL ? frame->file : "??", frame->line);
    }
}

int
main (int argc, char **argv)
{
  g_autoptr (SondeDebugFiles) debug_files = sonde_debug_files_new (SONDE_DEBUG_DIRECTORY);
  g_autoptr (SondeModuleFile) file
      = argc == 2 ? sonde_module_file_new (open (argv[1], O_RDONLY | O_CLOEXEC), argv[1],
                                           debug_files, NULL)
                  : NULL;
  char text[64];

  if (file == NULL)
    return 1;
  while (fgets (text, sizeof text, stdin) != NULL)
    {
      guint64 address = g_ascii_strtoull (text, NULL, 16);
      const GArray *frames = sonde_module_file_lines (file, address);

      printf ("0x%016" G_GINT64_MODIFIER "x\n", address);
      if (frames == NULL)
        return 1;
      print_frames (frames);
    }
  return 0;
}
