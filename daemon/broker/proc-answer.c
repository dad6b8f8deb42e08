/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a worker of processes and files, with what proc-broker opens. */
#include "daemon/broker/proc-answer.h"

#include <errno.h>

#include "daemon/base/limits.h"

/* @fd: (transfer full): what the broker gave: not always a descriptor */
static void
send_mountinfo (int fd, pid_t pid, SondeResultQueue *results)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = pid };

  if (fd == -ENOSPC)
    sonde_result_queue_note (results,
                             "Programs are on more mounts of containers than a capture tells of: "
                             "names of their functions may be missing");
  else if (fd >= 0)
    sonde_result_queue_message (results, &message, sizeof message, &fd, 1);
}

void
sonde_proc_answer_process (SondeProcBroker *broker,
                           guint64 request_id,
                           pid_t pid,
                           SondeResultQueue *results)
{
  SondeMessageProcess message;
  int mountinfo_fd;
  int fds[2];
  unsigned n_fds
      = sonde_proc_broker_open_process (broker, request_id, pid, &message, fds, &mountinfo_fd);

  message.header.type = SONDE_MESSAGE_PROCESS;
  sonde_result_queue_message (results, &message, sizeof message, fds, n_fds);
  send_mountinfo (mountinfo_fd, pid, results);
}

void
sonde_proc_answer_file (SondeProcBroker *broker,
                        const SondeMessageFileRequest *request,
                        SondeResultQueue *results)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id };
  int mountinfo_fd;
  int fd = sonde_proc_broker_open_file (broker, request, &mountinfo_fd);

  message.status = fd < 0 ? -fd : 0;
  send_mountinfo (mountinfo_fd, request->pid, results);
  sonde_result_queue_message (results, &message, sizeof message, &fd, fd < 0 ? 0 : 1);
}

void
sonde_proc_refuse_file (const SondeMessageFileRequest *request,
                        int status,
                        SondeResultQueue *results)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = request->request_id, .status = status };

  sonde_result_queue_message (results, &message, sizeof message, NULL, 0);
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
