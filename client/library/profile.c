/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call trees with names, as objects. */
#include "client/model/capture-file.h"
#include "client/library/frame.h"
#include "client/report/profile-view.h"
#include "client/report/report.h"
#include "client/base/text.h"

struct _SondeClientProfile
{
  GObject parent_instance;

  SondeReport *report;
  gboolean is_finished;
};

struct _SondeClientCall
{
  GObject parent_instance;

  SondeClientProfile *profile;
  const SondeProfileProcess *process; /* of the profile */
  guint32 node;                       /* of its tree; 0: the process */
  char *name;
};

G_DEFINE_FINAL_TYPE (SondeClientProfile, sonde_client_profile, G_TYPE_OBJECT)
G_DEFINE_FINAL_TYPE (SondeClientCall, sonde_client_call, G_TYPE_OBJECT)

static void
sonde_client_profile_finalize (GObject *object)
{
  sonde_report_free (SONDE_CLIENT_PROFILE (object)->report);
  G_OBJECT_CLASS (sonde_client_profile_parent_class)->finalize (object);
}

static void
sonde_client_profile_class_init (SondeClientProfileClass *class)
{
  G_OBJECT_CLASS (class)->finalize = sonde_client_profile_finalize;
}

static void
sonde_client_profile_init (SondeClientProfile *self)
{
  self->report = sonde_report_new (NULL, 0);
}

static void
sonde_client_call_finalize (GObject *object)
{
  SondeClientCall *self = SONDE_CLIENT_CALL (object);

  g_clear_object (&self->profile);
  g_free (self->name);
  G_OBJECT_CLASS (sonde_client_call_parent_class)->finalize (object);
}

static void
sonde_client_call_class_init (SondeClientCallClass *class)
{
  G_OBJECT_CLASS (class)->finalize = sonde_client_call_finalize;
}

static void
sonde_client_call_init (SondeClientCall *self)
{
}

SondeClientProfile *
sonde_client_profile_new (void)
{
  return g_object_new (SONDE_CLIENT_TYPE_PROFILE, NULL);
}

void
sonde_client_profile_add_frame (SondeClientProfile *self, SondeClientFrame *frame)
{
  g_return_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->is_finished);

  sonde_report_add_frame (self->report, sonde_client_frame_peek (frame));
}

gboolean
sonde_client_profile_add_file (SondeClientProfile *self, const char *path, GError **error)
{
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (GError) failure = NULL;
  const SondeFrame *frame;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->is_finished, FALSE);

  file = sonde_capture_file_open (path, error);
  if (file == NULL)
    return FALSE;
  while (sonde_capture_file_next (file, &frame, &failure))
    sonde_report_add_frame (self->report, frame);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

void
sonde_client_profile_finish (SondeClientProfile *self, SondeClientNames names)
{
  SondeSymbolOptions options = { .inlines = (names & SONDE_CLIENT_NAMES_INLINES) != 0,
                                 .lines = (names & SONDE_CLIENT_NAMES_LINES) != 0 };

  g_return_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->is_finished);

  sonde_report_finish (self->report, &options);
  self->is_finished = TRUE;
}

guint64
sonde_client_profile_get_n_samples (SondeClientProfile *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self), 0);

  return sonde_capture_model_n_samples (self->report->model);
}

char *
sonde_client_profile_dup_truncated (SondeClientProfile *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self), NULL);

  return sonde_budget_describe (sonde_capture_model_budget (self->report->model));
}

/* The function of a node that is no process. */
static const SondeFunction *
function_of (SondeClientCall *self)
{
  const SondeProfile *profile = self->profile->report->profile;

  return sonde_profile_function (profile,
                                 sonde_call_tree_node (self->process->tree, self->node)->id);
}

static SondeClientCall *
new_call (SondeClientProfile *profile, const SondeProfileProcess *process, guint32 node)
{
  SondeClientCall *self = g_object_new (SONDE_CLIENT_TYPE_CALL, NULL);

  self->profile = g_object_ref (profile);
  self->process = process;
  self->node = node;
  self->name = node == 0 ? sonde_text_escape (process->process.comm, -1)
                         : g_strdup (function_of (self)->name);
  return self;
}

GPtrArray *
sonde_client_profile_get_processes (SondeClientProfile *self)
{
  GPtrArray *processes = g_ptr_array_new_with_free_func (g_object_unref);
  const SondeProfile *profile;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self) && self->is_finished, processes);

  profile = self->report->profile;
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    g_ptr_array_add (processes, new_call (self, sonde_profile_process (profile, i), 0));
  return processes;
}

const char *
sonde_client_call_get_name (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  return self->name;
}

const char *
sonde_client_call_get_module (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  return self->node == 0 ? "" : function_of (self)->module;
}

const char *
sonde_client_call_get_source (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), NULL);

  return self->node == 0 ? "" : function_of (self)->source;
}

gint
sonde_client_call_get_pid (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), -1);

  return self->process->process.pid;
}

guint64
sonde_client_call_get_total (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), 0);

  return sonde_call_tree_node (self->process->tree, self->node)->total;
}

guint64
sonde_client_call_get_self (SondeClientCall *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), 0);

  return sonde_call_tree_node (self->process->tree, self->node)->self;
}

static int
compare_ids (gconstpointer a, gconstpointer b, gpointer user_data)
{
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  return left < right ? -1 : left > right;
}

GPtrArray *
sonde_client_call_get_callees (SondeClientCall *self)
{
  GPtrArray *callees = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GArray) nodes = NULL;

  g_return_val_if_fail (SONDE_CLIENT_IS_CALL (self), callees);

  nodes = sonde_call_tree_dup_children (self->process->tree, self->node, compare_ids, NULL);
  for (guint i = 0; i < nodes->len; i++)
    g_ptr_array_add (callees,
                     new_call (self->profile, self->process, g_array_index (nodes, guint32, i)));
  return callees;
}
