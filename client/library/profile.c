/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call trees with names, as objects: of a whole capture, or of one that is being made. */
#include "client/library/call.h"
#include "client/library/frame.h"
#include "client/model/capture-file.h"

/* How long names are looked up at a time while a session is followed: less than a picture takes. */
#define LOOK_UP_US 5000

struct _SondeClientProfile
{
  GObject parent_instance;

  SondeCallSums *sums;
  SondeCallList *processes;
  guint64 n_shown;        /* samples that are in these */
  gboolean has_all_names; /* of these */

  SondeClientSession *session; /* that is followed; NULL: none */
  SondeClientNames names;      /* as it ends */
  guint timer;
};

static void list_model_init (GListModelInterface *interface);

G_DEFINE_FINAL_TYPE_WITH_CODE (SondeClientProfile,
                               sonde_client_profile,
                               G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

enum
{
  PROP_N_SAMPLES = 1,
  PROP_IS_FINISHED,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static GType
get_item_type (GListModel *list)
{
  return SONDE_CLIENT_TYPE_CALL;
}

static guint
get_n_items (GListModel *list)
{
  return g_list_model_get_n_items (G_LIST_MODEL (SONDE_CLIENT_PROFILE (list)->processes));
}

static gpointer
get_item (GListModel *list, guint position)
{
  return g_list_model_get_item (G_LIST_MODEL (SONDE_CLIENT_PROFILE (list)->processes), position);
}

static void
list_model_init (GListModelInterface *interface)
{
  interface->get_item_type = get_item_type;
  interface->get_n_items = get_n_items;
  interface->get_item = get_item;
}

static void
leave_session (SondeClientProfile *self)
{
  g_clear_handle_id (&self->timer, g_source_remove);
  if (self->session != NULL)
    g_signal_handlers_disconnect_by_data (self->session, self);
  g_clear_object (&self->session);
}

static void
sonde_client_profile_finalize (GObject *object)
{
  SondeClientProfile *self = SONDE_CLIENT_PROFILE (object);

  leave_session (self);
  g_object_unref (self->processes);
  sonde_call_sums_unref (self->sums);
  G_OBJECT_CLASS (sonde_client_profile_parent_class)->finalize (object);
}

static void
sonde_client_profile_get_property (GObject *object, guint id, GValue *value, GParamSpec *spec)
{
  SondeClientProfile *self = SONDE_CLIENT_PROFILE (object);

  switch (id)
    {
    case PROP_N_SAMPLES:
      g_value_set_uint64 (value, sonde_client_profile_get_n_samples (self));
      break;
    case PROP_IS_FINISHED:
      g_value_set_boolean (value, self->sums->is_finished);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, spec);
    }
}

static void
sonde_client_profile_class_init (SondeClientProfileClass *class)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  G_OBJECT_CLASS (class)->finalize = sonde_client_profile_finalize;
  G_OBJECT_CLASS (class)->get_property = sonde_client_profile_get_property;
  properties[PROP_N_SAMPLES]
      = g_param_spec_uint64 ("n-samples", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  properties[PROP_IS_FINISHED] = g_param_spec_boolean ("is-finished", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (G_OBJECT_CLASS (class), N_PROPERTIES, properties);
}

static void
sonde_client_profile_init (SondeClientProfile *self)
{
  self->sums = sonde_call_sums_new ();
  self->processes = sonde_call_list_new ();
  self->has_all_names = TRUE;
  g_signal_connect_swapped (self->processes, "items-changed",
                            G_CALLBACK (g_list_model_items_changed), self);
}

SondeClientProfile *
sonde_client_profile_new (void)
{
  return g_object_new (SONDE_CLIENT_TYPE_PROFILE, NULL);
}

void
sonde_client_profile_add_frame (SondeClientProfile *self, SondeClientFrame *frame)
{
  g_return_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->sums->is_finished);

  sonde_report_add_frame (self->sums->report, sonde_client_frame_peek (frame));
}

gboolean
sonde_client_profile_add_file (SondeClientProfile *self, const char *path, GError **error)
{
  g_autoptr (SondeCaptureFile) file = NULL;
  g_autoptr (GError) failure = NULL;
  const SondeFrame *frame;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->sums->is_finished, FALSE);

  file = sonde_capture_file_open (path, error);
  if (file == NULL)
    return FALSE;
  while (sonde_capture_file_next (file, &frame, &failure))
    sonde_report_add_frame (self->sums->report, frame);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

/* Says how many samples there are to whom that is told. */
static void
notify_samples (SondeClientProfile *self)
{
  guint64 n_samples = sonde_client_profile_get_n_samples (self);

  if (n_samples == self->n_shown)
    return;
  self->n_shown = n_samples;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_N_SAMPLES]);
}

gboolean
sonde_client_profile_update (SondeClientProfile *self, guint64 max_us)
{
  SondeReport *report;

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self), FALSE);

  report = self->sums->report;
  if (self->sums->is_finished
      || (self->has_all_names && self->n_shown == sonde_client_profile_get_n_samples (self)))
    return TRUE;
  sonde_report_follow (report);
  self->has_all_names = sonde_live_profile_update (
      report->live, g_get_monotonic_time () + (gint64) MIN (max_us, G_MAXINT64 / 2));
  sonde_call_sums_update (self->sums, self->processes);
  notify_samples (self);
  return self->has_all_names;
}

void
sonde_client_profile_finish (SondeClientProfile *self, SondeClientNames names)
{
  SondeSymbolOptions options = { .inlines = (names & SONDE_CLIENT_NAMES_INLINES) != 0,
                                 .lines = (names & SONDE_CLIENT_NAMES_LINES) != 0 };

  g_return_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->sums->is_finished);

  leave_session (self);
  sonde_report_finish (self->sums->report, &options);
  self->sums->is_finished = TRUE;
  sonde_call_sums_settle (self->sums, self->processes);
  notify_samples (self);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_IS_FINISHED]);
}

/* --- a session that is followed --- */

static void
take_frame (SondeClientSession *session, SondeClientFrame *frame, gpointer user_data)
{
  sonde_client_profile_add_frame (user_data, frame);
}

static gboolean
bring_up_to_date (gpointer user_data)
{
  sonde_client_profile_update (user_data, LOOK_UP_US);
  return G_SOURCE_CONTINUE;
}

static void
session_finished (SondeClientSession *session,
                  const char *reason,
                  const GError *error,
                  gpointer user_data)
{
  g_autoptr (SondeClientProfile) self = g_object_ref (user_data);

  sonde_client_profile_finish (self, self->names);
}

void
sonde_client_profile_follow (SondeClientProfile *self,
                             SondeClientSession *session,
                             guint interval_ms,
                             SondeClientNames names)
{
  g_return_if_fail (SONDE_CLIENT_IS_PROFILE (self) && !self->sums->is_finished);
  g_return_if_fail (SONDE_CLIENT_IS_SESSION (session) && self->session == NULL);
  g_return_if_fail (interval_ms > 0);

  self->session = g_object_ref (session);
  self->names = names;
  self->timer = g_timeout_add (interval_ms, bring_up_to_date, self);
  g_signal_connect (session, "frame", G_CALLBACK (take_frame), self);
  g_signal_connect (session, "finished", G_CALLBACK (session_finished), self);
  sonde_client_session_read (session);
}

/* --- what is there --- */

guint64
sonde_client_profile_get_n_samples (SondeClientProfile *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self), 0);

  return sonde_capture_model_n_samples (self->sums->report->model);
}

char *
sonde_client_profile_dup_truncated (SondeClientProfile *self)
{
  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self), NULL);

  return sonde_budget_describe (sonde_capture_model_budget (self->sums->report->model));
}

GPtrArray *
sonde_client_profile_get_processes (SondeClientProfile *self)
{
  GPtrArray *processes = g_ptr_array_new_with_free_func (g_object_unref);

  g_return_val_if_fail (SONDE_CLIENT_IS_PROFILE (self) && self->sums->is_finished, processes);

  for (guint i = 0; i < sonde_profile_n_processes (self->sums->report->profile); i++)
    g_ptr_array_add (processes, sonde_call_sums_new_call (self->sums, i, 0));
  return processes;
}
