/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture through the library: profile-file CAPTURE prints its samples, those of the call trees,
 * and what had no room. */
#include "client/library/sonde-client.h"

int
main (int argc, char **argv)
{
  g_autoptr (SondeClientProfile) profile = sonde_client_profile_new ();
  g_autoptr (GPtrArray) processes = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *truncated = NULL;
  guint64 total = 0;

  if (argc != 2 || !sonde_client_profile_add_file (profile, argv[1], &error))
    {
      g_printerr ("profile-file: %s\n", error != NULL ? error->message : "CAPTURE is missing");
      return 1;
    }
  sonde_client_profile_finish (profile, SONDE_CLIENT_NAMES_INLINES);
  processes = sonde_client_profile_get_processes (profile);
  for (guint i = 0; i < processes->len; i++)
    total += sonde_client_call_get_total (g_ptr_array_index (processes, i));
  truncated = sonde_client_profile_dup_truncated (profile);
  g_print ("%" G_GUINT64_FORMAT " samples, %" G_GUINT64_FORMAT " in trees; truncated: %s\n",
           sonde_client_profile_get_n_samples (profile), total,
           truncated != NULL ? truncated : "nothing");
  return 0;
}
