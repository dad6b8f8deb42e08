/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-client: profiles for desktop applications, through the Sonde service or without it. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

G_BEGIN_DECLS

/**
 * SECTION: sonde-client
 *
 * A profiler starts sessions; a session gives frames as they come; a profile makes a call tree with
 * names of them, or of a file. All of it belongs to the thread of the default main context, and
 * none of it blocks but where that is said. Texts are escaped UTF-8, safe to show. docs/clients.md
 * has an example.
 */

/* === Errors === */

/**
 * SondeClientError:
 * @SONDE_CLIENT_ERROR_INVALID_OPTION: an option is unknown, of another type or out of range
 * @SONDE_CLIENT_ERROR_NOT_AUTHORIZED: an administrator's decision is missing
 * @SONDE_CLIENT_ERROR_NO_SUCH_PROCESS: there is no such process
 * @SONDE_CLIENT_ERROR_NO_SUCH_SESSION: there is no such session, or it is not for the caller
 * @SONDE_CLIENT_ERROR_LIMIT_EXCEEDED: a quota, which the message names
 * @SONDE_CLIENT_ERROR_NOT_SUPPORTED: this service, kernel or process cannot
 * @SONDE_CLIENT_ERROR_INVALID_STATE: not in this state of the session
 * @SONDE_CLIENT_ERROR_FAILED: something else, which the message says
 *
 * What the service refuses: org.sonde.Profiler1.Error.NAME on the bus. Ways to the service fail
 * with errors of GIO.
 */
typedef enum
{
  SONDE_CLIENT_ERROR_INVALID_OPTION,
  SONDE_CLIENT_ERROR_NOT_AUTHORIZED,
  SONDE_CLIENT_ERROR_NO_SUCH_PROCESS,
  SONDE_CLIENT_ERROR_NO_SUCH_SESSION,
  SONDE_CLIENT_ERROR_LIMIT_EXCEEDED,
  SONDE_CLIENT_ERROR_NOT_SUPPORTED,
  SONDE_CLIENT_ERROR_INVALID_STATE,
  SONDE_CLIENT_ERROR_FAILED,
} SondeClientError;

#define SONDE_CLIENT_ERROR sonde_client_error_quark ()
GQuark sonde_client_error_quark (void);

/* === Frames === */

/**
 * SondeClientFrameType:
 * @SONDE_CLIENT_FRAME_SAMPLE: a stack
 * @SONDE_CLIENT_FRAME_MAP: a mapping
 * @SONDE_CLIENT_FRAME_PROCESS: the command line of a process
 * @SONDE_CLIENT_FRAME_JITMAP: names of made-up addresses
 * @SONDE_CLIENT_FRAME_MARK: a mark
 * @SONDE_CLIENT_FRAME_LOG: a log line, losses among them
 *
 * Those that clients ask for most. There are others: docs/protocol.md has all.
 */
typedef enum
{
  SONDE_CLIENT_FRAME_SAMPLE = 2,
  SONDE_CLIENT_FRAME_MAP = 3,
  SONDE_CLIENT_FRAME_PROCESS = 4,
  SONDE_CLIENT_FRAME_JITMAP = 7,
  SONDE_CLIENT_FRAME_MARK = 10,
  SONDE_CLIENT_FRAME_LOG = 12,
} SondeClientFrameType;

/**
 * SondeClientFrame:
 *
 * One frame of a capture, checked; it does not change.
 */
typedef struct _SondeClientFrame SondeClientFrame;

#define SONDE_CLIENT_TYPE_FRAME (sonde_client_frame_get_type ())
GType sonde_client_frame_get_type (void);

SondeClientFrame *sonde_client_frame_ref (SondeClientFrame *self);
void sonde_client_frame_unref (SondeClientFrame *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeClientFrame, sonde_client_frame_unref)

guint sonde_client_frame_get_frame_type (SondeClientFrame *self);
gint sonde_client_frame_get_pid (SondeClientFrame *self);
gint64 sonde_client_frame_get_time_ns (SondeClientFrame *self);
GBytes *sonde_client_frame_get_bytes (SondeClientFrame *self);
char *sonde_client_frame_to_string (SondeClientFrame *self);

/* === Sessions === */

#define SONDE_CLIENT_TYPE_SESSION (sonde_client_session_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientSession, sonde_client_session, SONDE_CLIENT, SESSION, GObject)

void sonde_client_session_read (SondeClientSession *self);
void sonde_client_session_save (SondeClientSession *self, int fd);
void sonde_client_session_stop (SondeClientSession *self);
void sonde_client_session_add_process_async (SondeClientSession *self,
                                             gint pid,
                                             GCancellable *cancellable,
                                             GAsyncReadyCallback callback,
                                             gpointer user_data);
gboolean sonde_client_session_add_process_finish (SondeClientSession *self,
                                                  GAsyncResult *result,
                                                  GError **error);
void sonde_client_session_open_control_async (SondeClientSession *self,
                                              GCancellable *cancellable,
                                              GAsyncReadyCallback callback,
                                              gpointer user_data);
int sonde_client_session_open_control_finish (SondeClientSession *self,
                                              GAsyncResult *result,
                                              GError **error);
void sonde_client_session_refresh_async (SondeClientSession *self,
                                         GCancellable *cancellable,
                                         GAsyncReadyCallback callback,
                                         gpointer user_data);
gboolean sonde_client_session_refresh_finish (SondeClientSession *self,
                                              GAsyncResult *result,
                                              GError **error);
gboolean sonde_client_session_has_statistics (SondeClientSession *self);
guint64 sonde_client_session_get_statistic (SondeClientSession *self, const char *key);
guint64 sonde_client_session_get_n_bytes (SondeClientSession *self);
gint64 sonde_client_session_get_elapsed_ns (SondeClientSession *self);

/* === Profilers === */

/**
 * SondeClientAsk:
 * @SONDE_CLIENT_ASK_NOBODY: nobody: what needs an administrator is refused
 * @SONDE_CLIENT_ASK_DESKTOP: whoever sits at the desktop, through its agent
 * @SONDE_CLIENT_ASK_TERMINAL: the same, or by an agent on our terminal; nobody if standard input is
 *   none
 *
 * Whom polkit may ask for a password.
 */
typedef enum
{
  SONDE_CLIENT_ASK_NOBODY,
  SONDE_CLIENT_ASK_DESKTOP,
  SONDE_CLIENT_ASK_TERMINAL,
} SondeClientAsk;

#define SONDE_CLIENT_TYPE_PROFILER (sonde_client_profiler_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientProfiler, sonde_client_profiler, SONDE_CLIENT, PROFILER, GObject)

SondeClientProfiler *sonde_client_profiler_new_bus (SondeClientAsk ask, GError **error);
SondeClientProfiler *sonde_client_profiler_new_embedded (const char *daemon_path,
                                                         const char *worker_path,
                                                         GError **error);
void sonde_client_profiler_close (SondeClientProfiler *self);
GDBusConnection *sonde_client_profiler_get_connection (SondeClientProfiler *self);
const char *sonde_client_profiler_get_bus_name (SondeClientProfiler *self);
GDBusCallFlags sonde_client_profiler_get_call_flags (SondeClientProfiler *self);
void sonde_client_profiler_profile_async (SondeClientProfiler *self,
                                          GVariant *options,
                                          GUnixFDList *fds,
                                          GCancellable *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer user_data);
void sonde_client_profiler_profile_process_async (SondeClientProfiler *self,
                                                  gint pid,
                                                  GVariant *options,
                                                  GCancellable *cancellable,
                                                  GAsyncReadyCallback callback,
                                                  gpointer user_data);
SondeClientSession *sonde_client_profiler_profile_finish (SondeClientProfiler *self,
                                                          GAsyncResult *result,
                                                          GError **error);

/* === Call trees === */

#define SONDE_CLIENT_TYPE_CALL (sonde_client_call_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientCall, sonde_client_call, SONDE_CLIENT, CALL, GObject)

const char *sonde_client_call_get_name (SondeClientCall *self);
const char *sonde_client_call_get_module (SondeClientCall *self);
const char *sonde_client_call_get_source (SondeClientCall *self);
gint sonde_client_call_get_pid (SondeClientCall *self);
guint64 sonde_client_call_get_total (SondeClientCall *self);
guint64 sonde_client_call_get_self (SondeClientCall *self);
GPtrArray *sonde_client_call_get_callees (SondeClientCall *self);

/**
 * SondeClientNames:
 * @SONDE_CLIENT_NAMES_PLAIN: functions as the symbol tables have them
 * @SONDE_CLIENT_NAMES_INLINES: inlined functions, too
 * @SONDE_CLIENT_NAMES_LINES: functions are told apart by source line
 *
 * How names are looked up. Both of the latter read debug information, which takes longer.
 */
typedef enum /*< flags >*/
{
  SONDE_CLIENT_NAMES_PLAIN = 0,
  SONDE_CLIENT_NAMES_INLINES = 1 << 0,
  SONDE_CLIENT_NAMES_LINES = 1 << 1,
} SondeClientNames;

#define SONDE_CLIENT_TYPE_PROFILE (sonde_client_profile_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientProfile, sonde_client_profile, SONDE_CLIENT, PROFILE, GObject)

SondeClientProfile *sonde_client_profile_new (void);
void sonde_client_profile_add_frame (SondeClientProfile *self, SondeClientFrame *frame);
gboolean sonde_client_profile_add_file (SondeClientProfile *self, const char *path, GError **error);
void sonde_client_profile_finish (SondeClientProfile *self, SondeClientNames names);
guint64 sonde_client_profile_get_n_samples (SondeClientProfile *self);
GPtrArray *sonde_client_profile_get_processes (SondeClientProfile *self);

G_END_DECLS
