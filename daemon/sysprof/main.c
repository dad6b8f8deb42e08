/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The bus name of Sysprof's service, for Sysprof's own programs: who calls, and his file, go to a
 * recorder of his own user, since this program has no right to anything. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sysprof-request.h"
#include "daemon/base/closer.h"
#include "daemon/base/socket.h"

#define NAME      "org.gnome.Sysprof3"
#define PATH      "/org/gnome/Sysprof3"
#define PROFILER  PATH "/RAPL" /* sysprof-cli --rapl */

#define REFUSED   "org.freedesktop.DBus.Error.AccessDenied"
#define UNABLE    "org.freedesktop.DBus.Error.NotSupported"
#define EXCEEDED  "org.freedesktop.DBus.Error.LimitsExceeded"
#define NO_HELPER "org.freedesktop.DBus.Error.ServiceUnknown"
#define FAILED    SD_BUS_ERROR_FAILED

/* Recordings at a time; each is a descriptor and some hundred bytes here, and a session there. */
#define MAX_RECORDINGS     64
#define MAX_RECORDINGS_UID 4
#define IDLE_MS            60000

typedef struct
{
  uid_t uid;
  int recorder;          /* a socket; -1 once it is over */
  sd_bus_track *caller;  /* who leaves the bus ends his recording */
  sd_bus_message *start; /* (nullable): not answered yet */
  sd_bus_message *stop;  /* (nullable): the same */
  char *ended;           /* (nullable): it is over, and has said so: why, or "" */
  char *sender;
} Recording;

typedef struct
{
  sd_bus *bus;
  GPtrArray *recordings; /* Recording, at most MAX_RECORDINGS */
} Relay;

static void
recording_free (gpointer data)
{
  Recording *self = data;

  sonde_clear_fd (&self->recorder);
  sd_bus_track_unref (self->caller);
  sd_bus_message_unref (self->start);
  sd_bus_message_unref (self->stop);
  g_free (self->ended);
  g_free (self->sender);
  g_free (self);
}

static Recording *
find_recording (const Relay *relay, const char *sender)
{
  for (guint i = 0; i < relay->recordings->len; i++)
    {
      Recording *recording = g_ptr_array_index (relay->recordings, i);

      if (g_str_equal (recording->sender, sender))
        return recording;
    }
  return NULL;
}

static guint
count_recordings (const Relay *relay, uid_t uid)
{
  guint n = 0;

  for (guint i = 0; i < relay->recordings->len; i++)
    n += ((const Recording *) g_ptr_array_index (relay->recordings, i))->uid == uid;
  return n;
}

/* The last words to who waits: of a recording that began, or did not, or is over. */
static void
answer (sd_bus_message **message, const char *error, const char *text)
{
  if (*message == NULL)
    return;
  if (error == NULL)
    sd_bus_reply_method_return (*message, NULL);
  else
    sd_bus_reply_method_errorf (*message, error, "%s", text);
  *message = sd_bus_message_unref (*message);
}

static void
end_recording (Relay *relay, Recording *recording, const char *error, const char *text)
{
  answer (&recording->start, error, text);
  answer (&recording->stop, error, text);
  g_ptr_array_remove_fast (relay->recordings, recording);
}

/* As its recorder has said. */
static void
close_recording (Relay *relay, Recording *recording)
{
  end_recording (relay, recording, recording->ended[0] != '\0' ? FAILED : NULL, recording->ended);
}

static int
caller_left (sd_bus_track *track, void *user_data)
{
  Relay *relay = user_data;

  for (guint i = 0; i < relay->recordings->len; i++)
    {
      Recording *recording = g_ptr_array_index (relay->recordings, i);

      if (recording->caller == track)
        {
          end_recording (relay, recording, FAILED, "The caller left the bus");
          break;
        }
    }
  return 0;
}

/* A connection to what listens for the user, and for nobody else.
 * Returns: a socket, or -1 with @error */
static int
reach_recorder (uid_t uid, sd_bus_error *error)
{
  sonde_autofd int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  socklen_t size;
  struct ucred peer;
  socklen_t peer_size = sizeof peer;
  int n;

  if (fd < 0)
    return sd_bus_error_set_errnof (error, errno, "There is no socket");
  n = g_snprintf (address.sun_path + 1, sizeof address.sun_path - 1, SONDE_SYSPROF_ADDRESS, uid);
  size = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + (size_t) n);
  if (connect (fd, (struct sockaddr *) &address, size) < 0)
    return sd_bus_error_setf (error, NO_HELPER,
                              "Nothing listens at @%s: systemd has no manager for user %u, or it "
                              "started before sonde-sysprof.socket was installed (%s)",
                              address.sun_path + 1, uid, g_strerror (errno));
  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) < 0 || peer.uid != uid)
    return sd_bus_error_setf (error, REFUSED, "@%s belongs to somebody else, and not to user %u",
                              address.sun_path + 1, uid);
  return sonde_steal_fd (&fd);
}

static int
start (sd_bus_message *message, void *user_data, sd_bus_error *error)
{
  Relay *relay = user_data;
  sd_bus_creds *creds = NULL;
  SondeSysprofRequest request = { .magic = SONDE_SYSPROF_MAGIC };
  Recording *recording;
  uid_t uid;
  int file;
  int recorder;
  int r = sd_bus_message_skip (message, "a{sv}");

  if (r >= 0)
    r = sd_bus_message_read (message, "h", &file);
  if (r < 0)
    return r;
  /* The bus itself answers, of itself: nobody else is waited for. */
  r = sd_bus_query_sender_creds (message, SD_BUS_CREDS_EUID | SD_BUS_CREDS_PID, &creds);
  if (r >= 0)
    r = sd_bus_creds_get_euid (creds, &uid);
  if (r >= 0)
    r = sd_bus_creds_get_pid (creds, &request.pid);
  sd_bus_creds_unref (creds);
  if (r < 0)
    return sd_bus_error_setf (error, REFUSED, "The bus does not know who calls");

  if (find_recording (relay, sd_bus_message_get_sender (message)) != NULL)
    return sd_bus_error_setf (error, FAILED, "This caller is being recorded already");
  if (relay->recordings->len >= MAX_RECORDINGS)
    return sd_bus_error_setf (error, EXCEEDED, "There are %u recordings", MAX_RECORDINGS);
  if (count_recordings (relay, uid) >= MAX_RECORDINGS_UID)
    return sd_bus_error_setf (error, EXCEEDED, "User %u has %u recordings", uid,
                              MAX_RECORDINGS_UID);
  recorder = reach_recorder (uid, error);
  if (recorder < 0)
    return -EPERM;

  recording = g_new0 (Recording, 1);
  recording->uid = uid;
  recording->recorder = recorder;
  recording->sender = g_strdup (sd_bus_message_get_sender (message));
  r = sd_bus_track_new (relay->bus, &recording->caller, caller_left, relay);
  if (r >= 0)
    r = sd_bus_track_add_sender (recording->caller, message);
  if (r >= 0)
    r = sonde_send_with_fds (recorder, &request, sizeof request, &file, 1);
  if (r < 0)
    {
      recording_free (recording);
      return sd_bus_error_set_errnof (error, -r, "The recorder cannot be asked");
    }
  recording->start = sd_bus_message_ref (message);
  g_ptr_array_add (relay->recordings, recording);
  return 1;
}

static int
stop (sd_bus_message *message, void *user_data, sd_bus_error *error)
{
  Relay *relay = user_data;
  Recording *recording = find_recording (relay, sd_bus_message_get_sender (message));

  if (recording == NULL || recording->stop != NULL)
    return sd_bus_error_setf (error, FAILED, "This caller is not being recorded");
  recording->stop = sd_bus_message_ref (message);
  if (recording->ended != NULL)
    close_recording (relay, recording);
  else
    shutdown (recording->recorder, SHUT_WR);
  return 1;
}

static int
no_capabilities (sd_bus *bus,
                 const char *path,
                 const char *interface,
                 const char *property,
                 sd_bus_message *reply,
                 void *user_data,
                 sd_bus_error *error)
{
  return sd_bus_message_append (reply, "a{sv}", 0);
}

/* Without it no recording begins. What it would tell our capture has. */
static int
get_process_info (sd_bus_message *message, void *user_data, sd_bus_error *error)
{
  sd_bus_message *reply = NULL;
  int r = sd_bus_message_new_method_return (message, &reply);

  if (r >= 0)
    r = sd_bus_message_append (reply, "aa{sv}", 0);
  if (r >= 0)
    r = sd_bus_send (NULL, reply, NULL);
  sd_bus_message_unref (reply);
  return r;
}

/* What is the kernel's, or the machine's: callers have what they may have of it without us. */
static int
refuse (sd_bus_message *message, void *user_data, sd_bus_error *error)
{
  return sd_bus_error_setf (error, UNABLE,
                            "%s: Sonde opens nothing of the machine for Sysprof; `sysprof-cli "
                            "--rapl --no-perf` has its stacks",
                            sd_bus_message_get_member (message));
}

#define METHOD(name, in, out, handler)                                                             \
  SD_BUS_METHOD (name, in, out, handler, SD_BUS_VTABLE_UNPRIVILEGED)

static const sd_bus_vtable service[] = {
  SD_BUS_VTABLE_START (0),
  METHOD ("PerfEventOpen", "a{sv}iiht", "h", refuse),
  METHOD ("GetProcFile", "ay", "ay", refuse),
  METHOD ("GetProcFd", "ay", "h", refuse),
  METHOD ("ListProcesses", NULL, "ai", refuse),
  METHOD ("GetProcessInfo", "s", "aa{sv}", get_process_info),
  METHOD ("SetGovernor", "s", "s", refuse),
  METHOD ("SetParanoid", "i", "i", refuse),
  SD_BUS_VTABLE_END,
};

static const sd_bus_vtable profiler[] = {
  SD_BUS_VTABLE_START (0),
  METHOD ("Start", "a{sv}h", NULL, start),
  METHOD ("Stop", NULL, NULL, stop),
  SD_BUS_PROPERTY ("Capabilities", "a{sv}", no_capabilities, 0, 0),
  SD_BUS_VTABLE_END,
};

/* One packet of a recorder, which its user may have replaced: its text is his. */
static void
hear (Relay *relay, Recording *recording)
{
  char text[SONDE_SYSPROF_MAX_ANSWER + 1];
  ssize_t n = recv (recording->recorder, text, SONDE_SYSPROF_MAX_ANSWER, MSG_DONTWAIT);

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0)
    {
      end_recording (relay, recording, FAILED, "The recorder ended; the user's journal says why");
      return;
    }
  text[n] = '\0';
  if (!g_utf8_validate (text, n, NULL))
    end_recording (relay, recording, FAILED, "The recorder says what is no text");
  else if (text[0] == SONDE_SYSPROF_RECORDING && recording->start != NULL)
    answer (&recording->start, NULL, NULL);
  else if (text[0] == SONDE_SYSPROF_REFUSED && recording->start != NULL)
    end_recording (relay, recording, REFUSED, text + 1);
  else if (text[0] == SONDE_SYSPROF_ENDED && recording->start == NULL)
    {
      recording->ended = g_strdup (text + 1);
      sonde_clear_fd (&recording->recorder);
      /* With its processes, that is by itself: it is the next Stop that hears of it. */
      if (recording->stop != NULL)
        close_recording (relay, recording);
    }
  else
    end_recording (relay, recording, FAILED, "The recorder says what it may not");
}

/* Until nothing is to do. */
static int
serve (Relay *relay)
{
  g_autofree struct pollfd *fds = g_new0 (struct pollfd, MAX_RECORDINGS + 1);

  for (;;)
    {
      guint n_recordings;
      uint64_t bus_us;
      int timeout_ms = IDLE_MS;
      int r;

      do
        r = sd_bus_process (relay->bus, NULL);
      while (r > 0);
      if (r < 0)
        return r;
      n_recordings = relay->recordings->len;
      fds[0] = (struct pollfd){ .fd = sd_bus_get_fd (relay->bus),
                                .events = (short) sd_bus_get_events (relay->bus) };
      for (guint i = 0; i < n_recordings; i++)
        fds[i + 1] = (struct pollfd){
          .fd = ((const Recording *) g_ptr_array_index (relay->recordings, i))->recorder,
          .events = POLLIN
        };
      if (n_recordings > 0)
        timeout_ms = -1;
      if (sd_bus_get_timeout (relay->bus, &bus_us) > 0 && bus_us != UINT64_MAX)
        timeout_ms = 1000;
      r = poll (fds, n_recordings + 1, timeout_ms);
      if (r < 0 && errno != EINTR)
        return -errno;
      if (r == 0 && n_recordings == 0 && timeout_ms == IDLE_MS)
        return 0;
      /* From the end, where the last one takes the place of one that is over. */
      for (guint i = n_recordings; r > 0 && i > 0; i--)
        if (fds[i].revents != 0)
          hear (relay, g_ptr_array_index (relay->recordings, i - 1));
    }
}

int
main (void)
{
  Relay relay = { .recordings = g_ptr_array_new_with_free_func (recording_free) };
  int r = sd_bus_open_system (&relay.bus);

  /* sd-bus closes what strangers sent. */
  sonde_closer_defer (TRUE);
  if (r >= 0)
    r = sd_bus_add_object_vtable (relay.bus, NULL, PATH, NAME ".Service", service, &relay);
  if (r >= 0)
    r = sd_bus_add_object_vtable (relay.bus, NULL, PROFILER, NAME ".Profiler", profiler, &relay);
  if (r >= 0)
    r = sd_bus_request_name (relay.bus, NAME, 0);
  if (r >= 0)
    {
      r = serve (&relay);
      sd_notify (0, "STOPPING=1");
    }
  if (r >= 0)
    {
      /* What came before is answered; what comes now starts the next one. */
      r = sd_bus_release_name (relay.bus, NAME);
      while (r >= 0 && sd_bus_process (relay.bus, NULL) > 0)
        continue;
      sd_bus_flush (relay.bus);
    }
  if (r < 0)
    g_printerr ("sonde-sysprof: " NAME " cannot be served: %s\n", g_strerror (-r));
  g_ptr_array_unref (relay.recordings);
  sd_bus_unref (relay.bus);
  return r < 0 ? 1 : 0;
}
