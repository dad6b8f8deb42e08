/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* CPU of a bound call tree that grows by 10,000 samples a second: live WRITER [SAMPLES] */
#include <stdio.h>
#include <time.h>

#include "client/library/frame.h"
#include "client/library/sonde-client.h"
#include "client/model/capture-file.h"

#define DEFAULT_SAMPLES    300000
#define SAMPLES_PER_S      10000.0
#define SAMPLES_PER_UPDATE 1000 /* ten updates a second */

/* What is lighter a report leaves out, too. */
#define MIN_SHARE 0.005

typedef struct
{
  SondeClientProfile *profile;
  guint n_rows;
  guint n_open;
  guint64 n_told; /* properties that changed */
} Viewer;

static double
cpu_seconds (void)
{
  struct timespec time;

  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void
add_rows (GListModel *list, guint position, guint n_removed, guint n_added, gpointer user_data);

/* A view opens what is heavy as soon as it is, and shows what is below. */
static void
take_change (GObject *object, GParamSpec *spec, gpointer user_data)
{
  SondeClientCall *call = SONDE_CLIENT_CALL (object);
  Viewer *viewer = user_data;
  GListModel *callees;

  viewer->n_told++;
  if (g_object_get_data (object, "is-open") != NULL
      || (double) sonde_client_call_get_total (call)
             < MIN_SHARE * (double) sonde_client_profile_get_n_samples (viewer->profile))
    return;
  viewer->n_open++;
  g_object_set_data (object, "is-open", viewer);
  callees = sonde_client_call_get_callee_model (call);
  g_signal_connect (callees, "items-changed", G_CALLBACK (add_rows), viewer);
  add_rows (callees, 0, 0, g_list_model_get_n_items (callees), viewer);
}

static void
add_rows (GListModel *list, guint position, guint n_removed, guint n_added, gpointer user_data)
{
  Viewer *viewer = user_data;

  for (guint i = position; i < position + n_added; i++)
    {
      g_autoptr (GObject) call = g_list_model_get_item (list, i);

      viewer->n_rows++;
      g_signal_connect (call, "notify::total", G_CALLBACK (take_change), viewer);
      take_change (call, NULL, viewer);
    }
}

int
main (int argc, char **argv)
{
  g_autofree char *n_samples = g_strdup_printf ("%u", DEFAULT_SAMPLES);
  g_autofree char *path = NULL;
  g_autoptr (SondeClientProfile) profile = sonde_client_profile_new ();
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (GError) error = NULL;
  const SondeFrame *found;
  Viewer viewer = { .profile = profile };
  guint64 n = 0;
  double begin;
  double cpu_pct;
  int status;

  if (argc < 2)
    return 2;
  path = g_build_filename (g_get_tmp_dir (), "sonde-bench-live.syscap", NULL);
  if (!g_spawn_sync (NULL, (char *[]){ argv[1], path, argc > 2 ? argv[2] : n_samples, NULL }, NULL,
                     G_SPAWN_DEFAULT, NULL, NULL, NULL, NULL, &status, &error)
      || !g_spawn_check_wait_status (status, &error)
      || (file = sonde_capture_file_open (path, &error)) == NULL)
    g_error ("%s", error->message);
  g_signal_connect (profile, "items-changed", G_CALLBACK (add_rows), &viewer);

  begin = cpu_seconds ();
  while (sonde_capture_file_next (file, &found, &error))
    {
      g_autoptr (SondeClientFrame) frame = sonde_client_frame_new (found);

      sonde_client_profile_add_frame (profile, frame);
      if (found->type == SONDE_FRAME_SAMPLE && ++n % SAMPLES_PER_UPDATE == 0)
        sonde_client_profile_update (profile, G_USEC_PER_SEC);
    }
  cpu_pct = (cpu_seconds () - begin) * 100 / ((double) n / SAMPLES_PER_S);
  g_assert_no_error (error);
  g_assert_cmpuint (sonde_client_profile_get_n_samples (profile), ==, n);
  g_print ("%.0f samples at %.0f a second, %u rows, %u of them open: %.0f changes told\n",
           (double) n, SAMPLES_PER_S, viewer.n_rows, viewer.n_open, (double) viewer.n_told);
  g_print ("bench live cpu_pct=%.2f\n", cpu_pct);
  remove (path);
  return 0;
}
