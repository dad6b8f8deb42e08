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
 * none of it blocks but where that is said. Texts are escaped UTF-8, safe to show; those that are
 * returned without a transfer live as long as the object that they are of. docs/clients.md has an
 * example.
 *
 * Source: org.sonde.Profiler1(5) for options, rights and errors; docs/protocol.md for frames
 */

/* === Errors === */

/**
 * SondeClientError:
 * @SONDE_CLIENT_ERROR_INVALID_OPTION: an option is unknown, of another type or out of range
 * @SONDE_CLIENT_ERROR_NOT_AUTHORIZED: an administrator's decision is missing
 * @SONDE_CLIENT_ERROR_NO_SUCH_PROCESS: there is no such process
 * @SONDE_CLIENT_ERROR_NO_SUCH_SESSION: there is no such session or stored capture
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

/**
 * sonde_client_error_quark:
 *
 * Returns: the domain of #SondeClientError; once used, GDBus gives errors of the bus this domain
 */
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

/**
 * sonde_client_frame_ref:
 *
 * Returns: (transfer full): @self
 */
SondeClientFrame *sonde_client_frame_ref (SondeClientFrame *self);

/**
 * sonde_client_frame_unref:
 * @self: (transfer full) (nullable): a frame
 */
void sonde_client_frame_unref (SondeClientFrame *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeClientFrame, sonde_client_frame_unref)

/**
 * sonde_client_frame_get_frame_type:
 *
 * Returns: a #SondeClientFrameType, or another one of docs/protocol.md
 */
guint sonde_client_frame_get_frame_type (SondeClientFrame *self);

/**
 * sonde_client_frame_get_pid:
 *
 * Returns: the process, or -1
 */
gint sonde_client_frame_get_pid (SondeClientFrame *self);

/**
 * sonde_client_frame_get_time_ns:
 *
 * Returns: when, in ns of CLOCK_MONOTONIC; frames do not come in this order
 */
gint64 sonde_client_frame_get_time_ns (SondeClientFrame *self);

/**
 * sonde_client_frame_get_bytes:
 *
 * Returns: (transfer full): the whole frame, as docs/protocol.md describes it
 */
GBytes *sonde_client_frame_get_bytes (SondeClientFrame *self);

/**
 * sonde_client_frame_to_string:
 *
 * Returns: (transfer full): the frame as the line that sondectl dump prints
 */
char *sonde_client_frame_to_string (SondeClientFrame *self);

/* === Sessions === */

/**
 * SondeClientSession:
 *
 * A profile that is being made. It lives until it is over, whether somebody refers to it or not:
 * sonde_client_session_stop() ends it, as do the ends of its processes and of this program.
 */
#define SONDE_CLIENT_TYPE_SESSION (sonde_client_session_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientSession, sonde_client_session, SONDE_CLIENT, SESSION, GObject)

/**
 * SondeClientSession::frame:
 * @self: the session
 * @frame: a frame of its capture
 *
 * Comes after sonde_client_session_read(), for every frame.
 */

/**
 * SondeClientSession::finished:
 * @self: the session
 * @reason: (nullable): "stopped", "duration", "targets-exited", …
 * @error: (nullable): what went wrong; without it all that was recorded has come as frames
 *
 * Comes once, last.
 */

/**
 * sonde_client_session_read:
 *
 * Begins to emit frames: connect to #SondeClientSession::frame before. Until then the service
 * keeps them, as far as its queue goes, and #SondeClientSession::finished does not come.
 */
void sonde_client_session_read (SondeClientSession *self);

/**
 * sonde_client_session_save:
 * @fd: a file, open for writing; it stays the caller's
 *
 * The same as sonde_client_session_read(), but the capture goes into a file and not to
 * #SondeClientSession::frame. Of a regular file, what is behind the place where it stands goes. It
 * grows by whole frames and can be read at any moment. If it cannot take more, the session is
 * stopped, the file is cut at a whole frame and closed with a ledger that says what it lacks, and
 * #SondeClientSession::finished has a #GFileError; if not even the beginning has room, the file is
 * left empty.
 */
void sonde_client_session_save (SondeClientSession *self, int fd);

/**
 * sonde_client_session_stop:
 *
 * Asks for the end, and begins to read if nobody did. The rest of the frames follows, then
 * #SondeClientSession::finished.
 */
void sonde_client_session_stop (SondeClientSession *self);

/**
 * sonde_client_session_add_process_async:
 * @pid: a process that the caller may read
 *
 * Records one more process. One at a time: else the answer is %G_IO_ERROR_PENDING.
 *
 * Errors: %G_IO_ERROR_CLOSED if the session is over; #SondeClientError if the service refuses;
 *   those of GIO if @pid cannot be read
 */
void sonde_client_session_add_process_async (SondeClientSession *self,
                                             gint pid,
                                             GCancellable *cancellable,
                                             GAsyncReadyCallback callback,
                                             gpointer user_data);

/**
 * sonde_client_session_add_process_finish:
 *
 * Returns: %TRUE if the process is being recorded
 */
gboolean sonde_client_session_add_process_finish (SondeClientSession *self,
                                                  GAsyncResult *result,
                                                  GError **error);

/**
 * sonde_client_session_open_control_async:
 *
 * Asks for a control socket, by which a program that is to be profiled delivers events of its own:
 * hand it to the program as the descriptor that its variable SONDE_CONTROL_FD names, and its inode
 * number (fstat()) as SONDE_CONTROL_INODE, by which the program knows that it still is that socket.
 * One at a time.
 *
 * Errors: as of sonde_client_session_add_process_async()
 */
void sonde_client_session_open_control_async (SondeClientSession *self,
                                              GCancellable *cancellable,
                                              GAsyncReadyCallback callback,
                                              gpointer user_data);

/**
 * sonde_client_session_open_control_finish:
 *
 * Returns: a descriptor, close-on-exec, which the caller closes; or -1
 */
int sonde_client_session_open_control_finish (SondeClientSession *self,
                                              GAsyncResult *result,
                                              GError **error);

/**
 * sonde_client_session_get_rendezvous:
 *
 * Where the service lets programs come that did not inherit the control socket, since their parent
 * or they themselves have closed it: to be the variable SONDE_RENDEZVOUS of the program that gets
 * the socket. Who knows it may have a process recorded that this session may see.
 *
 * Returns: (transfer none) (nullable): known once a control socket was opened; %NULL if the service
 *   has no such place
 */
const char *sonde_client_session_get_rendezvous (SondeClientSession *self);

/**
 * sonde_client_session_refresh_async:
 *
 * Asks for the statistics of a session that goes on. One at a time.
 *
 * Errors: as of sonde_client_session_add_process_async()
 */
void sonde_client_session_refresh_async (SondeClientSession *self,
                                         GCancellable *cancellable,
                                         GAsyncReadyCallback callback,
                                         gpointer user_data);

/**
 * sonde_client_session_refresh_finish:
 *
 * Returns: %TRUE: sonde_client_session_get_statistic() has the newest figures that are to be had
 */
gboolean sonde_client_session_refresh_finish (SondeClientSession *self,
                                              GAsyncResult *result,
                                              GError **error);

/**
 * sonde_client_session_has_statistics:
 *
 * Returns: whether the service told any: at the end, or when it was asked
 */
gboolean sonde_client_session_has_statistics (SondeClientSession *self);

/**
 * sonde_client_session_get_statistic:
 * @key: "produced", "recorded", "lost-kernel", … of the property Statistics; or, after
 *   sonde_client_session_save(), "file-samples" and "file-events", which the file holds, and
 *   "file-samples-lost", "file-events-lost" and "file-lost" (frames, of any kind), which it had no
 *   room for
 *
 * Returns: the sum that the service told last: at the end, or when it was asked; 0 before. Of a
 *   file: the sum so far
 */
guint64 sonde_client_session_get_statistic (SondeClientSession *self, const char *key);

/**
 * sonde_client_session_get_n_bytes:
 *
 * Returns: how much of the capture was read, or saved
 */
guint64 sonde_client_session_get_n_bytes (SondeClientSession *self);

/**
 * sonde_client_session_get_elapsed_ns:
 *
 * Returns: ns since it started, until it is over
 */
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

/**
 * SondeClientProfiler:
 *
 * A connection to the system's service, or to one of our own. Sessions refer to it.
 */
#define SONDE_CLIENT_TYPE_PROFILER (sonde_client_profiler_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientProfiler, sonde_client_profiler, SONDE_CLIENT, PROFILER, GObject)

/**
 * sonde_client_profiler_new_bus:
 * @ask: whom polkit may ask for a password, where rights need one
 *
 * Reaches the system's service. Blocks: for start-up only.
 *
 * Returns: (transfer full): a profiler
 * Errors: %G_DBUS_ERROR_NO_SERVER if there is no system bus, %G_DBUS_ERROR_SERVICE_UNKNOWN if it
 * has no such service, %G_DBUS_ERROR_SPAWN_FAILED, within 2 s, if its unit cannot start
 */
SondeClientProfiler *sonde_client_profiler_new_bus (SondeClientAsk ask, GError **error);

/**
 * sonde_client_profiler_new_embedded:
 * @daemon_path: (nullable): sonded; by default what the variable SONDE_DAEMON says, else the
 *   installed one
 * @worker_path: (nullable): sonde-capture; the same with SONDE_WORKER
 *
 * Starts a service of our own, with the rights of the caller. Blocks: for start-up only.
 *
 * Returns: (transfer full): a profiler
 * Errors: those of GIO if the program cannot be started, or does not answer
 */
SondeClientProfiler *sonde_client_profiler_new_embedded (const char *daemon_path,
                                                         const char *worker_path,
                                                         GError **error);

/**
 * sonde_client_profiler_close:
 *
 * Ends all its sessions, at once: what of them was not read yet is lost. Blocks until a service of
 * our own was told. Happens by itself when nobody refers to the profiler or its sessions any more.
 */
void sonde_client_profiler_close (SondeClientProfiler *self);

/**
 * sonde_client_profiler_get_connection:
 *
 * For those methods and properties of org.sonde.Profiler1(5) that have no function here.
 *
 * Returns: (transfer none): the way to the service
 */
GDBusConnection *sonde_client_profiler_get_connection (SondeClientProfiler *self);

/**
 * sonde_client_profiler_get_bus_name:
 *
 * Returns: (nullable): the service's name on that connection; %NULL if it is a service of our own
 */
const char *sonde_client_profiler_get_bus_name (SondeClientProfiler *self);

/**
 * sonde_client_profiler_get_call_flags:
 *
 * Returns: for calls on that connection: whether somebody may be asked for a password
 */
GDBusCallFlags sonde_client_profiler_get_call_flags (SondeClientProfiler *self);

/**
 * sonde_client_profiler_profile_async:
 * @options: a{sv} of Manager.Profile, org.sonde.Profiler1(5)
 * @fds: (nullable): what handles in @options mean
 *
 * Starts a session. @cancellable is looked at while nothing has answered yet. A service that goes
 * before it has answered is asked again: nothing had begun.
 *
 * Errors: #SondeClientError if the service refuses; %G_IO_ERROR_CANCELLED; %G_IO_ERROR_CLOSED after
 *   sonde_client_profiler_close(); %G_IO_ERROR_FAILED if the service ended
 */
void sonde_client_profiler_profile_async (SondeClientProfiler *self,
                                          GVariant *options,
                                          GUnixFDList *fds,
                                          GCancellable *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer user_data);

/**
 * sonde_client_profiler_profile_process_async:
 * @pid: a process that the caller may read
 * @options: (nullable): a{sv}, without what chooses processes
 *
 * Starts a session for one process, all its threads and future children, which needs no password.
 */
void sonde_client_profiler_profile_process_async (SondeClientProfiler *self,
                                                  gint pid,
                                                  GVariant *options,
                                                  GCancellable *cancellable,
                                                  GAsyncReadyCallback callback,
                                                  gpointer user_data);

/**
 * sonde_client_profiler_profile_process_finish:
 *
 * The same as sonde_client_profiler_profile_finish(), by the name that bindings look for.
 *
 * Returns: (transfer full): a session; nothing of it was read yet
 */
SondeClientSession *sonde_client_profiler_profile_process_finish (SondeClientProfiler *self,
                                                                  GAsyncResult *result,
                                                                  GError **error);

/**
 * sonde_client_profiler_profile_finish:
 *
 * Returns: (transfer full): a session; nothing of it was read yet
 */
SondeClientSession *sonde_client_profiler_profile_finish (SondeClientProfiler *self,
                                                          GAsyncResult *result,
                                                          GError **error);

/**
 * sonde_client_profiler_launch_async:
 * @argv: (array zero-terminated=1): a program, looked for in PATH, and its arguments
 * @envp: (nullable) (array zero-terminated=1): its environment; ours by default
 * @folder: (nullable) (type filename): where it runs; by default where we do
 * @options: (nullable): a{sv}, without what chooses processes
 *
 * Starts a program and a session that records it from its first instruction on. It waits at a gate,
 * and ends there if we do, until the session has it; with `memory` or `trace` it is given the
 * library of the property Preloads (the variables SONDE_MEMORY_LIBRARY and SONDE_TRACER_LIBRARY name
 * others), and in any case what marks and counters of its own need. It
 * has our standard input, output and error, and no other descriptor of ours.
 *
 * Errors: %G_IO_ERROR_NOT_FOUND without such a program, others of GIO if it cannot run; those of
 *   sonde_client_profiler_profile_async(). Nothing is left then.
 */
void sonde_client_profiler_launch_async (SondeClientProfiler *self,
                                         const char *const *argv,
                                         const char *const *envp,
                                         const char *folder,
                                         GVariant *options,
                                         GCancellable *cancellable,
                                         GAsyncReadyCallback callback,
                                         gpointer user_data);

/**
 * sonde_client_profiler_launch_finish:
 * @pid: (out) (optional): the program, our child: g_child_watch_add() tells of its end
 *
 * Returns: (transfer full): a session; nothing of it was read yet
 */
SondeClientSession *sonde_client_profiler_launch_finish (SondeClientProfiler *self,
                                                         GAsyncResult *result,
                                                         gint *pid,
                                                         GError **error);

/* === Sessions by number === */

/**
 * sonde_client_session_number:
 * @path: (nullable): of a session object, or the number alone
 *
 * Returns: the number that people, and the functions below, name a session by; 0 if it is neither
 */
guint64 sonde_client_session_number (const char *path);

/**
 * sonde_client_profiler_list_sessions_async:
 * @everybody: whether somebody may be asked for the right to see those of others
 *
 * Lists the sessions that the caller may see.
 */
void sonde_client_profiler_list_sessions_async (SondeClientProfiler *self,
                                                gboolean everybody,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback,
                                                gpointer user_data);

/**
 * sonde_client_profiler_list_sessions_finish:
 *
 * Returns: (transfer full): a(ousts) of Manager.ListSessions
 */
GVariant *sonde_client_profiler_list_sessions_finish (SondeClientProfiler *self,
                                                      GAsyncResult *result,
                                                      GError **error);

/**
 * sonde_client_profiler_list_sessions_sync:
 * @everybody: whether somebody may be asked for the right to see those of others
 *
 * The same. Blocks.
 *
 * Returns: (transfer full): a(ousts) of Manager.ListSessions
 */
GVariant *sonde_client_profiler_list_sessions_sync (SondeClientProfiler *self,
                                                    gboolean everybody,
                                                    GCancellable *cancellable,
                                                    GError **error);

/**
 * SondeClientSessionInfo:
 *
 * A session of the service, whoever's, as an item of a list. Its properties have the names of the
 * functions below; `state` tells when it changes.
 */
#define SONDE_CLIENT_TYPE_SESSION_INFO (sonde_client_session_info_get_type ())
G_DECLARE_FINAL_TYPE (
    SondeClientSessionInfo, sonde_client_session_info, SONDE_CLIENT, SESSION_INFO, GObject)

/**
 * sonde_client_session_info_get_number:
 *
 * Returns: what functions take that name a session by number
 */
guint64 sonde_client_session_info_get_number (SondeClientSessionInfo *self);

/**
 * sonde_client_session_info_get_owner_uid:
 *
 * Returns: the user whose it is
 */
guint sonde_client_session_info_get_owner_uid (SondeClientSessionInfo *self);

/**
 * sonde_client_session_info_get_state:
 *
 * Returns: "starting", "running", "paused", "draining", "finished", "failed"
 */
const char *sonde_client_session_info_get_state (SondeClientSessionInfo *self);

/**
 * sonde_client_session_info_get_start_us:
 *
 * Returns: µs since 1970
 */
guint64 sonde_client_session_info_get_start_us (SondeClientSessionInfo *self);

/**
 * sonde_client_session_info_get_description:
 *
 * Returns: what is profiled, for people
 */
const char *sonde_client_session_info_get_description (SondeClientSessionInfo *self);

/**
 * SondeClientSessionList:
 *
 * The sessions that the caller may see, oldest first, as a #GListModel of #SondeClientSessionInfo.
 * The service tells of changes, so that nobody asks again and again; it stays as long as somebody
 * has a list. Property: `is-current`, whether the list is that of the service: not before its first
 * answer, nor while there is no service, nor if it takes no more subscribers (limit `subscribers`).
 */
#define SONDE_CLIENT_TYPE_SESSION_LIST (sonde_client_session_list_get_type ())
G_DECLARE_FINAL_TYPE (
    SondeClientSessionList, sonde_client_session_list, SONDE_CLIENT, SESSION_LIST, GObject)

/**
 * sonde_client_profiler_watch_sessions:
 * @everybody: whether somebody may be asked for the right to see those of others
 *
 * Returns: (transfer full): a list that is filled when the service has answered
 */
SondeClientSessionList *sonde_client_profiler_watch_sessions (SondeClientProfiler *self,
                                                              gboolean everybody);

/**
 * sonde_client_profiler_start_session_sync:
 * @options: a{sv} of Manager.StartSession
 * @fds: (nullable): what handles in @options mean
 *
 * Starts a session that outlives its caller, into a file of the service's. A service that goes
 * before it has answered is asked again if nothing had begun. Blocks.
 *
 * Returns: its number; 0 if there is none
 * Errors: as of sonde_client_profiler_profile_async(); %G_DBUS_ERROR_NO_REPLY if the service went
 *   and something may have begun, or it goes again and again
 */
guint64 sonde_client_profiler_start_session_sync (SondeClientProfiler *self,
                                                  GVariant *options,
                                                  GUnixFDList *fds,
                                                  GCancellable *cancellable,
                                                  GError **error);

/**
 * sonde_client_profiler_attach_async:
 * @session: its number
 * @options: (nullable): a{sv} of Session.OpenCapture
 *
 * Opens one more stream of a running session, or the file of one that is over.
 *
 * Errors: #SondeClientError if the service refuses
 */
void sonde_client_profiler_attach_async (SondeClientProfiler *self,
                                         guint64 session,
                                         GVariant *options,
                                         GCancellable *cancellable,
                                         GAsyncReadyCallback callback,
                                         gpointer user_data);

/**
 * sonde_client_profiler_attach_finish:
 *
 * Returns: a descriptor for reading, close-on-exec, which the caller closes; or -1
 */
int sonde_client_profiler_attach_finish (SondeClientProfiler *self,
                                         GAsyncResult *result,
                                         GError **error);

/**
 * sonde_client_profiler_attach_sync:
 * @session: its number
 * @options: (nullable): a{sv} of Session.OpenCapture
 *
 * The same. Blocks.
 *
 * Returns: a descriptor for reading, close-on-exec, which the caller closes; or -1
 */
int sonde_client_profiler_attach_sync (SondeClientProfiler *self,
                                       guint64 session,
                                       GVariant *options,
                                       GCancellable *cancellable,
                                       GError **error);

/**
 * sonde_client_profiler_stop_session_async:
 * @session: its number
 *
 * Ends a session; the rest of its capture is still being written when the answer comes.
 *
 * Errors: #SondeClientError if the service refuses
 */
void sonde_client_profiler_stop_session_async (SondeClientProfiler *self,
                                               guint64 session,
                                               GCancellable *cancellable,
                                               GAsyncReadyCallback callback,
                                               gpointer user_data);

/**
 * sonde_client_profiler_stop_session_finish:
 *
 * Returns: (transfer full): its statistics, a{st}
 */
GVariant *sonde_client_profiler_stop_session_finish (SondeClientProfiler *self,
                                                     GAsyncResult *result,
                                                     GError **error);

/**
 * sonde_client_profiler_stop_session_sync:
 * @session: its number
 *
 * The same. Blocks.
 *
 * Returns: (transfer full): its statistics, a{st}
 */
GVariant *sonde_client_profiler_stop_session_sync (SondeClientProfiler *self,
                                                   guint64 session,
                                                   GCancellable *cancellable,
                                                   GError **error);

/**
 * sonde_client_profiler_pause_session_sync:
 * @session: its number
 *
 * Samples nothing until sonde_client_profiler_resume_session_sync(). Blocks.
 *
 * Returns: %TRUE if it pauses
 */
gboolean sonde_client_profiler_pause_session_sync (SondeClientProfiler *self,
                                                   guint64 session,
                                                   GCancellable *cancellable,
                                                   GError **error);

/**
 * sonde_client_profiler_resume_session_sync:
 * @session: its number
 *
 * Samples again. Blocks.
 *
 * Returns: %TRUE if it does
 */
gboolean sonde_client_profiler_resume_session_sync (SondeClientProfiler *self,
                                                    guint64 session,
                                                    GCancellable *cancellable,
                                                    GError **error);

/**
 * sonde_client_profiler_dup_properties_sync:
 * @session: its number; 0: of the service itself
 *
 * Blocks.
 *
 * Returns: (transfer full): a{sv}: all properties of that object
 */
GVariant *sonde_client_profiler_dup_properties_sync (SondeClientProfiler *self,
                                                     guint64 session,
                                                     GCancellable *cancellable,
                                                     GError **error);

/* === Call trees === */

/**
 * SondeClientCall:
 *
 * A function in one place of a call tree, or the process at its root. Its properties, to be bound
 * to, have the names of the functions below and tell when they change: while a profile grows its
 * sums do. What is there stays where it is.
 */
#define SONDE_CLIENT_TYPE_CALL (sonde_client_call_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientCall, sonde_client_call, SONDE_CLIENT, CALL, GObject)

/**
 * sonde_client_call_get_name:
 *
 * Returns: the function, or the short name of the process
 */
const char *sonde_client_call_get_name (SondeClientCall *self);

/**
 * sonde_client_call_get_module:
 *
 * Returns: "libc.so.6", "[kernel]"; "" if unknown
 */
const char *sonde_client_call_get_module (SondeClientCall *self);

/**
 * sonde_client_call_get_source:
 *
 * Returns: "adler32.c:82"; "" if unknown or not asked for
 */
const char *sonde_client_call_get_source (SondeClientCall *self);

/**
 * sonde_client_call_get_pid:
 *
 * Returns: the process
 */
gint sonde_client_call_get_pid (SondeClientCall *self);

/**
 * sonde_client_call_get_total:
 *
 * Returns: samples in it and in what it called
 */
guint64 sonde_client_call_get_total (SondeClientCall *self);

/**
 * sonde_client_call_get_self:
 *
 * Returns: samples in it alone
 */
guint64 sonde_client_call_get_self (SondeClientCall *self);

/**
 * sonde_client_call_get_callees:
 *
 * Returns: (transfer container) (element-type SondeClientCall): what it called, heaviest first
 */
GPtrArray *sonde_client_call_get_callees (SondeClientCall *self);

/**
 * sonde_client_call_get_callee_model: (get-property callees)
 *
 * The same as a list that grows with the profile, in the order in which they came: for a
 * #GtkTreeListModel below a #GtkSortListModel. Lists are kept up to date from the first call on, for
 * as long as the profile is there. An empty one may have items later.
 *
 * Returns: (transfer none): items are #SondeClientCall
 */
GListModel *sonde_client_call_get_callee_model (SondeClientCall *self);

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

/**
 * SondeClientProfile:
 *
 * Sums up samples as frames bring them, then looks up their names. As a #GListModel it has the
 * processes with samples, as #SondeClientCall, and is brought up to date by
 * sonde_client_profile_update(), sonde_client_profile_follow() and sonde_client_profile_finish().
 * Properties: `n-samples`, when that was last, and `is-finished`.
 */
#define SONDE_CLIENT_TYPE_PROFILE (sonde_client_profile_get_type ())
G_DECLARE_FINAL_TYPE (SondeClientProfile, sonde_client_profile, SONDE_CLIENT, PROFILE, GObject)

/**
 * sonde_client_profile_new:
 *
 * Returns: (transfer full): a profile without samples
 */
SondeClientProfile *sonde_client_profile_new (void);

/**
 * sonde_client_profile_add_frame:
 * @frame: the next frame of one capture
 *
 * Takes frames in the order of the capture, before sonde_client_profile_finish().
 */
void sonde_client_profile_add_frame (SondeClientProfile *self, SondeClientFrame *frame);

/**
 * sonde_client_profile_add_file:
 * @path: (type filename): a capture
 *
 * Takes all frames of a file. Blocks.
 *
 * Returns: %FALSE if it is no capture, or breaks; what came before the break was taken
 * Errors: %G_IO_ERROR_INVALID_DATA where it breaks; those of GIO if it cannot be read, or is no
 *   capture
 */
gboolean sonde_client_profile_add_file (SondeClientProfile *self, const char *path, GError **error);

/**
 * sonde_client_profile_update:
 * @max_us: how long names may be looked up; the one that is begun takes longer
 *
 * Has the list of processes, and the lists of callees that somebody asked for, tell what came so
 * far. Samples whose functions have no names yet are the process's own until then; what is inlined
 * is told by sonde_client_profile_finish(), as are names that the capture brings at its end.
 *
 * Returns: whether all names were looked up
 */
gboolean sonde_client_profile_update (SondeClientProfile *self, guint64 max_us);

/**
 * sonde_client_profile_follow:
 * @session: one of which nothing was read yet; kept until it is over
 * @interval_ms: between two updates
 * @names: how to look up names when it is over
 *
 * Reads the session, brings the lists up to date while it goes on, some ms at a time, and calls
 * sonde_client_profile_finish() when it is over, before those hear #SondeClientSession::finished
 * who connect to it later.
 */
void sonde_client_profile_follow (SondeClientProfile *self,
                                  SondeClientSession *session,
                                  guint interval_ms,
                                  SondeClientNames names);

/**
 * sonde_client_profile_finish:
 * @names: how to look up names
 *
 * Looks up the names: in the capture, else in the files and debug files of this machine. Once, and
 * no frame may follow. Blocks.
 */
void sonde_client_profile_finish (SondeClientProfile *self, SondeClientNames names);

/**
 * sonde_client_profile_get_n_samples:
 *
 * Returns: samples so far
 */
guint64 sonde_client_profile_get_n_samples (SondeClientProfile *self);

/**
 * sonde_client_profile_dup_truncated:
 *
 * A profile has limits, so that no capture makes it larger than memory is. What had no room is
 * accounted for under processes and functions that are called "[truncated]"; sums stay exact.
 *
 * Returns: (transfer full) (nullable): what that was, for people: "1,234 stacks, 1 mapping"; %NULL:
 *   nothing
 */
char *sonde_client_profile_dup_truncated (SondeClientProfile *self);

/**
 * sonde_client_profile_get_processes:
 *
 * Returns: (transfer container) (element-type SondeClientCall): the processes with samples,
 *   heaviest first; after sonde_client_profile_finish()
 */
GPtrArray *sonde_client_profile_get_processes (SondeClientProfile *self);

/* --- capture files that the service keeps --- */

/**
 * SondeClientStoredCapture:
 *
 * A capture file that the service keeps: what a session of StartSession has written, or is writing.
 */
typedef struct _SondeClientStoredCapture SondeClientStoredCapture;

#define SONDE_CLIENT_TYPE_STORED_CAPTURE (sonde_client_stored_capture_get_type ())
GType sonde_client_stored_capture_get_type (void);

/**
 * sonde_client_stored_capture_ref:
 *
 * Returns: (transfer full): @self
 */
SondeClientStoredCapture *sonde_client_stored_capture_ref (SondeClientStoredCapture *self);

/**
 * sonde_client_stored_capture_unref:
 * @self: (transfer full) (nullable): a stored capture
 */
void sonde_client_stored_capture_unref (SondeClientStoredCapture *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeClientStoredCapture, sonde_client_stored_capture_unref)

/**
 * sonde_client_stored_capture_get_name:
 *
 * Returns: what it is asked for by, "LABEL-YYYYMMDDTHHMMSSZ-N.syscap": a file name, never a path
 */
const char *sonde_client_stored_capture_get_name (SondeClientStoredCapture *self);

/**
 * sonde_client_stored_capture_get_label:
 *
 * Returns: the option `label` of its session
 */
const char *sonde_client_stored_capture_get_label (SondeClientStoredCapture *self);

/**
 * sonde_client_stored_capture_get_start_us:
 *
 * Returns: µs since 1970, in whole seconds, when it was begun
 */
guint64 sonde_client_stored_capture_get_start_us (SondeClientStoredCapture *self);

/**
 * sonde_client_stored_capture_get_n_bytes:
 *
 * Returns: how large it is; of one that is being written, so far
 */
guint64 sonde_client_stored_capture_get_n_bytes (SondeClientStoredCapture *self);

/**
 * sonde_client_stored_capture_get_owner_uid:
 *
 * Returns: the user whose it is
 */
guint sonde_client_stored_capture_get_owner_uid (SondeClientStoredCapture *self);

/**
 * sonde_client_profiler_list_captures_async:
 *
 * Asks which captures the service keeps: the caller's own; everybody's if the caller is root, or
 * somebody who is asked for a password gives it.
 *
 * Errors: #SONDE_CLIENT_ERROR_NOT_SUPPORTED if this service keeps none
 */
void sonde_client_profiler_list_captures_async (SondeClientProfiler *self,
                                                GCancellable *cancellable,
                                                GAsyncReadyCallback callback,
                                                gpointer user_data);

/**
 * sonde_client_profiler_list_captures_finish:
 *
 * Returns: (transfer container) (element-type SondeClientStoredCapture): oldest first
 */
GPtrArray *sonde_client_profiler_list_captures_finish (SondeClientProfiler *self,
                                                       GAsyncResult *result,
                                                       GError **error);

/**
 * sonde_client_profiler_list_captures_sync:
 *
 * The same. Blocks.
 *
 * Returns: (transfer container) (element-type SondeClientStoredCapture): oldest first
 */
GPtrArray *sonde_client_profiler_list_captures_sync (SondeClientProfiler *self,
                                                     GCancellable *cancellable,
                                                     GError **error);

/**
 * sonde_client_profiler_open_capture_async:
 * @name: of a stored capture
 *
 * Asks for the file, to read it.
 *
 * Errors: #SONDE_CLIENT_ERROR_NOT_AUTHORIZED if there is none, or it is somebody else's;
 *   #SONDE_CLIENT_ERROR_NO_SUCH_SESSION if there is none and the caller may know it;
 *   #SONDE_CLIENT_ERROR_INVALID_STATE while it is being written;
 *   #SONDE_CLIENT_ERROR_INVALID_OPTION if no capture can have that name
 */
void sonde_client_profiler_open_capture_async (SondeClientProfiler *self,
                                               const char *name,
                                               GCancellable *cancellable,
                                               GAsyncReadyCallback callback,
                                               gpointer user_data);

/**
 * sonde_client_profiler_open_capture_finish:
 *
 * Returns: a descriptor for reading, close-on-exec, which the caller closes; or -1
 */
int sonde_client_profiler_open_capture_finish (SondeClientProfiler *self,
                                               GAsyncResult *result,
                                               GError **error);

/**
 * sonde_client_profiler_open_capture_sync:
 * @name: of a stored capture
 *
 * The same. Blocks.
 *
 * Returns: a descriptor for reading, close-on-exec, which the caller closes; or -1
 */
int sonde_client_profiler_open_capture_sync (SondeClientProfiler *self,
                                             const char *name,
                                             GCancellable *cancellable,
                                             GError **error);

/**
 * sonde_client_profiler_remove_capture_async:
 * @name: of a stored capture
 *
 * Removes the file for good.
 *
 * Errors: as of sonde_client_profiler_open_capture_async()
 */
void sonde_client_profiler_remove_capture_async (SondeClientProfiler *self,
                                                 const char *name,
                                                 GCancellable *cancellable,
                                                 GAsyncReadyCallback callback,
                                                 gpointer user_data);

/**
 * sonde_client_profiler_remove_capture_finish:
 *
 * Returns: %TRUE if it is gone
 */
gboolean sonde_client_profiler_remove_capture_finish (SondeClientProfiler *self,
                                                      GAsyncResult *result,
                                                      GError **error);

/**
 * sonde_client_profiler_remove_capture_sync:
 * @name: of a stored capture
 *
 * The same. Blocks.
 *
 * Returns: %TRUE if it is gone
 */
gboolean sonde_client_profiler_remove_capture_sync (SondeClientProfiler *self,
                                                    const char *name,
                                                    GCancellable *cancellable,
                                                    GError **error);

G_END_DECLS
