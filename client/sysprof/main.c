/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One recording for one of Sysprof's programs: the children of the caller whom sonde-sysprof names,
 * as their own user may record them, into the caller's file. systemd starts it for each connection
 * to the user's sonde-sysprof.socket. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib-unix.h>

#include "base/fd.h"
#include "base/sysprof-request.h"
#include "client/library/sonde-client.h"

#define CONNECTION 0 /* StandardInput=socket */
/* Processes that are looked at for children of the caller, and how many of those are recorded, with
 * what they start. Who has more gets nothing, and hears why: nobody would see what is missing. */
#define MAX_PROCESSES 65536
#define MAX_TARGETS   64
#define PATIENCE_S    10 /* for what sonde-sysprof sends at once */

typedef struct
{
  GMainLoop *loop;
  int file;
  GArray *pids; /* gint: still to be added */
  SondeClientProfiler *profiler;
  SondeClientSession *session; /* NULL before there is one */
  gboolean is_stopped;
  gboolean is_over;
  int status;
} Recorder;

static void
say (char word, const char *text)
{
  g_autofree char *packet = g_strdup_printf ("%c%.*s", word, SONDE_SYSPROF_MAX_ANSWER - 1, text);

  if (send (CONNECTION, packet, strlen (packet), MSG_NOSIGNAL) < 0)
    g_info ("Nobody hears: %s", g_strerror (errno));
}

static void
finish (Recorder *self, char word, const char *text)
{
  if (self->is_over)
    return;
  self->is_over = TRUE;
  self->status = text[0] != '\0';
  if (self->status != 0)
    g_message ("%s", text);
  say (word, text);
  g_main_loop_quit (self->loop);
}

/* (transfer full): what @self is to record, from whom only the service's user may have sent it
 * Returns: the caller's pid, or 0 after it has said why not */
static gint
read_request (int *file)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (sizeof (int))];
  } control;
  SondeSysprofRequest request;
  struct iovec vector = { .iov_base = &request, .iov_len = sizeof request };
  struct msghdr header = { .msg_iov = &vector,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes };
  const struct timeval patience = { .tv_sec = PATIENCE_S };
  struct ucred peer;
  socklen_t peer_size = sizeof peer;
  const struct passwd *user = getpwnam (SONDE_SYSPROF_USER);
  const struct cmsghdr *rights;
  struct stat st;
  ssize_t n;

  /* The address is everybody's: whoever else comes could have processes recorded into a file of
   * his. */
  if (getsockopt (CONNECTION, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) < 0 || user == NULL
      || peer.uid != user->pw_uid)
    {
      g_message ("Only the user %s is heard", SONDE_SYSPROF_USER);
      return 0;
    }
  setsockopt (CONNECTION, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  n = recvmsg (CONNECTION, &header, MSG_CMSG_CLOEXEC);
  rights = n > 0 ? CMSG_FIRSTHDR (&header) : NULL;
  if (rights != NULL && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS
      && rights->cmsg_len == CMSG_LEN (sizeof (int)))
    memcpy (file, CMSG_DATA (rights), sizeof (int));
  if (n != (ssize_t) sizeof request || request.magic != SONDE_SYSPROF_MAGIC || request.pid <= 0
      || *file < 0 || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    {
      say (SONDE_SYSPROF_REFUSED, "The request is none");
      return 0;
    }
  /* What goes into it is this user's alone, whoever asks. */
  if (fstat (*file, &st) < 0 || !S_ISREG (st.st_mode) || st.st_uid != getuid ())
    {
      say (SONDE_SYSPROF_REFUSED, "The file of Start is no regular file of the caller's user");
      return 0;
    }
  if ((fcntl (*file, F_GETFL) & O_ACCMODE) == O_RDONLY)
    {
      say (SONDE_SYSPROF_REFUSED, "The file of Start cannot be written");
      return 0;
    }
  return request.pid;
}

/* Of /proc/PID/stat, behind the name, which may have anything in it; 0: there is none. */
static gint
read_parent (const char *pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%s/stat", pid);
  g_autofree char *text = NULL;
  const char *end;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return 0;
  end = strrchr (text, ')');
  return end != NULL && strlen (end) > 4 ? (gint) g_ascii_strtoll (end + 4, NULL, 10) : 0;
}

/* Those below @caller, parents before children; NULL: they may be more than MAX_TARGETS. One that
 * dies meanwhile and whose number is another process's by now is another process of the same user,
 * or cannot be recorded. */
static GArray *
find_children (gint caller)
{
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (gint));
  g_autoptr (GHashTable) parents = g_hash_table_new (NULL, NULL); /* pid → parent's */
  g_autoptr (GDir) folder = g_dir_open ("/proc", 0, NULL);
  GHashTableIter iter;
  gpointer pid, its_parent;
  const char *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      if (!g_ascii_isdigit (name[0]))
        continue;
      if (g_hash_table_size (parents) == MAX_PROCESSES)
        return NULL;
      g_hash_table_insert (parents, GINT_TO_POINTER ((gint) g_ascii_strtoll (name, NULL, 10)),
                           GINT_TO_POINTER (read_parent (name)));
    }
  for (guint next = 0; next <= found->len; next++)
    {
      gint parent = next == 0 ? caller : g_array_index (found, gint, next - 1);

      g_hash_table_iter_init (&iter, parents);
      while (g_hash_table_iter_next (&iter, &pid, &its_parent))
        if (GPOINTER_TO_INT (its_parent) == parent)
          {
            gint child = GPOINTER_TO_INT (pid);

            if (found->len == MAX_TARGETS)
              return NULL;
            g_array_append_val (found, child);
          }
    }
  return g_steal_pointer (&found);
}

static void add_next (Recorder *self);

static void
has_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Recorder *self = user_data;
  g_autoptr (GError) error = NULL;

  /* One that is not his to record, or has gone, is as if it were not there; and so it is told. */
  if (!sonde_client_session_add_process_finish (self->session, result, &error))
    g_message ("A child of the caller is left out: %s", error->message);
  if (!self->is_over)
    add_next (self);
}

/* One at a time; when all are there the caller goes on. */
static void
add_next (Recorder *self)
{
  gint pid;

  if (self->pids->len == 0)
    {
      say (SONDE_SYSPROF_RECORDING, "");
      return;
    }
  pid = g_array_index (self->pids, gint, 0);
  g_array_remove_index (self->pids, 0);
  sonde_client_session_add_process_async (self->session, pid, NULL, has_added, self);
}

static void
has_finished (SondeClientSession *session, const char *reason, const GError *error, gpointer data)
{
  Recorder *self = data;

  finish (self, SONDE_SYSPROF_ENDED, error != NULL ? error->message : "");
}

static void begin_next (Recorder *self, const char *refusal);

static void
has_begun (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Recorder *self = user_data;
  g_autoptr (GError) error = NULL;

  self->session = sonde_client_profiler_profile_process_finish (self->profiler, result, &error);
  if (self->session == NULL)
    {
      begin_next (self, error->message);
      return;
    }
  g_signal_connect (self->session, "finished", G_CALLBACK (has_finished), self);
  sonde_client_session_save (self->session, self->file);
  if (self->is_stopped)
    sonde_client_session_stop (self->session);
  add_next (self);
}

/* With the first child that may be recorded. */
static void
begin_next (Recorder *self, const char *refusal)
{
  gint pid;

  if (self->pids->len == 0)
    {
      finish (self, SONDE_SYSPROF_REFUSED, refusal);
      return;
    }
  pid = g_array_index (self->pids, gint, 0);
  g_array_remove_index (self->pids, 0);
  sonde_client_profiler_profile_process_async (self->profiler, pid, NULL, NULL, has_begun, self);
}

/* The other end has closed its direction, or is gone. */
static gboolean
is_asked_to_stop (gint fd, GIOCondition condition, gpointer user_data)
{
  Recorder *self = user_data;

  self->is_stopped = TRUE;
  if (self->session != NULL)
    sonde_client_session_stop (self->session);
  return G_SOURCE_REMOVE;
}

int
main (void)
{
  sonde_autofd int file = -1;
  Recorder self = { 0 };
  g_autoptr (GError) error = NULL;
  gint caller = read_request (&file);

  if (caller == 0)
    return 1;
  self.pids = find_children (caller);
  if (self.pids == NULL)
    {
      say (SONDE_SYSPROF_REFUSED,
           "The caller has more than " G_STRINGIFY (
               MAX_TARGETS) " processes below it, or there are too many to see");
      return 1;
    }
  self.profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_DESKTOP, &error);
  if (self.profiler == NULL)
    {
      say (SONDE_SYSPROF_REFUSED, error->message);
      return 1;
    }
  self.file = file;
  self.loop = g_main_loop_new (NULL, FALSE);
  g_unix_fd_add (CONNECTION, G_IO_IN | G_IO_HUP | G_IO_ERR, is_asked_to_stop, &self);
  begin_next (&self,
              "The caller has no children to record: `sysprof-cli --rapl --no-perf -- PROGRAM`");
  if (!self.is_over)
    g_main_loop_run (self.loop);
  g_clear_object (&self.session);
  g_clear_object (&self.profiler);
  g_array_unref (self.pids);
  g_main_loop_unref (self.loop);
  return self.status;
}
