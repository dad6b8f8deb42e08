/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#include "daemon/broker/proc-answer.h"

#include <errno.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

#define MAX_MESSAGES 4
#define MAX_FDS      2 /* of one message */

typedef struct
{
  gpointer bytes;
  gsize size_bytes;
  unsigned n_fds;
  int fds[MAX_FDS]; /* -1: taken */
} Message;

struct SondeAnswer
{
  guint n_messages;
  Message messages[MAX_MESSAGES];
};

SondeAnswer *
sonde_answer_new (void)
{
  return g_new0 (SondeAnswer, 1);
}

void
sonde_answer_free (SondeAnswer *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n_messages; i++)
    {
      for (unsigned j = 0; j < self->messages[i].n_fds; j++)
        sonde_clear_fd (&self->messages[i].fds[j]);
      g_free (self->messages[i].bytes);
    }
  g_free (self);
}

void
sonde_answer_add (
    SondeAnswer *self, gconstpointer message, gsize size_bytes, const int *fds, unsigned n_fds)
{
  Message *added = &self->messages[self->n_messages++];

  g_assert (self->n_messages <= MAX_MESSAGES && n_fds <= MAX_FDS);
  added->bytes = g_memdup2 (message, size_bytes);
  added->size_bytes = size_bytes;
  added->n_fds = n_fds;
  for (unsigned i = 0; i < n_fds; i++)
    added->fds[i] = fds[i];
}

gboolean
sonde_answer_send (SondeAnswer *self, SondeChannel *channel, GError **error)
{
  g_autoptr (SondeAnswer) taken = self;

  for (guint i = 0; i < self->n_messages; i++)
    {
      Message *message = &self->messages[i];
      unsigned n_fds = message->n_fds;

      message->n_fds = 0;
      if (!sonde_channel_send (channel, message->bytes, message->size_bytes, message->fds, n_fds,
                               error))
        return FALSE;
    }
  return TRUE;
}

void
sonde_note_init (SondeMessageNote *note, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  g_autofree char *ascii = g_str_to_ascii (valid, "C");

  for (char *at = ascii; *at != '\0'; at++)
    if (*at < ' ' || *at > '~')
      *at = '?';
  *note = (SondeMessageNote){ .header.type = SONDE_MESSAGE_NOTE };
  g_strlcpy (note->text, ascii, sizeof note->text);
}

/* @fd: (transfer full): what the broker gave: not always a descriptor */
static void
add_mountinfo (SondeAnswer *self, int fd, pid_t pid)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = pid };
  SondeMessageNote note;

  sonde_note_init (&note, "Programs are on more mounts of containers than a capture tells of: "
                          "names of their functions may be missing");
  if (fd == -ENOSPC)
    sonde_answer_add (self, &note, sizeof note, NULL, 0);
  else if (fd >= 0)
    sonde_answer_add (self, &message, sizeof message, &fd, 1);
}

void
sonde_answer_add_process (SondeAnswer *self, SondeProcBroker *broker, guint64 request_id, pid_t pid)
{
  SondeMessageProcess message;
  int mountinfo_fd;
  int fds[2];
  unsigned n_fds
      = sonde_proc_broker_open_process (broker, request_id, pid, &message, fds, &mountinfo_fd);

  message.header.type = SONDE_MESSAGE_PROCESS;
  sonde_answer_add (self, &message, sizeof message, fds, n_fds);
  add_mountinfo (self, mountinfo_fd, pid);
}

void
sonde_answer_add_file (SondeAnswer *self,
                       SondeProcBroker *broker,
                       const SondeMessageFileRequest *request)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int mountinfo_fd;
  int fd = sonde_proc_broker_open_file (broker, request, &mountinfo_fd);

  message.status = fd < 0 ? -fd : 0;
  add_mountinfo (self, mountinfo_fd, request->pid);
  sonde_answer_add (self, &message, sizeof message, &fd, fd < 0 ? 0 : 1);
}

void
sonde_answer_add_refusal (SondeAnswer *self, const SondeMessageFileRequest *request, int status)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id, .status = status };

  sonde_answer_add (self, &message, sizeof message, NULL, 0);
}

/* --- requests that wait --- */

struct SondeFileQueue
{
  SondeProcBroker *broker;
  SondeFileQueueAnswer answer;
  gpointer user_data;
  GArray *requests;    /* SondeMessageFileRequest, the oldest first */
  guint turn;          /* source of the next one, while any wait */
  gint64 not_until_us; /* when that may be */
};

SondeFileQueue *
sonde_file_queue_new (SondeProcBroker *broker, SondeFileQueueAnswer answer, gpointer user_data)
{
  SondeFileQueue *self = g_new0 (SondeFileQueue, 1);

  self->broker = broker;
  self->answer = answer;
  self->user_data = user_data;
  self->requests = g_array_new (FALSE, FALSE, sizeof (SondeMessageFileRequest));
  return self;
}

void
sonde_file_queue_free (SondeFileQueue *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->turn, g_source_remove);
  g_array_unref (self->requests);
  g_free (self);
}

static gboolean on_turn (gpointer user_data);

static void
plan_turn (SondeFileQueue *self)
{
  gint64 wait_us = MAX (self->not_until_us - g_get_monotonic_time (), 0);

  if (self->turn == 0 && self->requests->len > 0)
    self->turn = g_timeout_add ((guint) ((wait_us + 999) / 1000), on_turn, self);
}

/* All of them were received before the mappings are read. */
static void
answer_oldest (SondeFileQueue *self)
{
  SondeMessageFileRequest *requests = (SondeMessageFileRequest *) (void *) self->requests->data;
  pid_t pid = requests[0].pid;
  guint n_answered = 0;
  guint n_left = 0;

  sonde_proc_broker_begin_batch (self->broker);
  for (guint i = 0; i < self->requests->len; i++)
    {
      if (requests[i].pid == pid && n_answered < SONDE_LIMIT_FILE_REQUESTS_TURN)
        {
          self->answer (&requests[i], self->user_data);
          n_answered++;
        }
      else
        requests[n_left++] = requests[i];
    }
  sonde_proc_broker_end_batch (self->broker);
  g_array_set_size (self->requests, n_left);
}

static gboolean
on_turn (gpointer user_data)
{
  SondeFileQueue *self = user_data;
  gint64 begin_us = g_get_monotonic_time ();
  gint64 end_us;

  self->turn = 0;
  answer_oldest (self);
  end_us = g_get_monotonic_time ();
  self->not_until_us = end_us + (SONDE_LIMIT_FILE_REQUESTS_PART - 1) * (end_us - begin_us);
  plan_turn (self);
  return G_SOURCE_REMOVE;
}

gboolean
sonde_file_queue_push (SondeFileQueue *self, const SondeMessageFileRequest *request)
{
  if (self->requests->len >= SONDE_LIMIT_FILE_REQUESTS)
    return FALSE;
  g_array_append_val (self->requests, *request);
  plan_turn (self);
  return TRUE;
}
