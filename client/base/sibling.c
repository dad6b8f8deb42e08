/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/sibling.h"

char *
sonde_sibling_dup_path (const char *built, const char *installed)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *folder = program != NULL ? g_path_get_dirname (program) : NULL;
  g_autofree char *tree = folder != NULL ? g_path_get_dirname (folder) : NULL;
  g_autofree char *path = tree != NULL ? g_build_filename (tree, built, NULL) : NULL;

  /* of client/sondectl, or any other folder of the tree */
  if (path != NULL && g_path_is_absolute (path) && g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return g_steal_pointer (&path);
  return g_strdup (installed);
}
