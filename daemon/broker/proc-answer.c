/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/proc-answer.h"

#include <errno.h>

#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/limits.h"

#define MAX_PARTS 4 /* DOCUMENT, COUNTERS, PROCESS, and another DOCUMENT; or as many THREADS */
#define MAX_FDS   3 /* of one part */

typedef struct
{
  gpointer bytes;
  gsize size_bytes;
  unsigned n_fds;
  int fds[MAX_FDS]; /* -1: taken */
  gboolean is_once; /* whether it is sent, sonde_proc_broker_tell() says */
  char *mount;      /* of which; NULL: those that the first target sees */
} AnswerPart;

struct SondeAnswer
{
  guint n_parts;
  AnswerPart parts[MAX_PARTS];
  SondeOpening *opening;
  gboolean is_right;
  int link_fd; /* -1: none */
};

static SondeAnswer *
answer_new (void)
{
  SondeAnswer *self = g_new0 (SondeAnswer, 1);

  self->link_fd = -1;
  return self;
}

void
sonde_question_free (SondeQuestion *self)
{
  if (self == NULL)
    return;
  sonde_probe_program_unref (self->program);
  sonde_opening_free (self->opening);
  g_free (self);
}

void
sonde_answer_free (SondeAnswer *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n_parts; i++)
    {
      for (unsigned j = 0; j < self->parts[i].n_fds; j++)
        sonde_closer_clear (&self->parts[i].fds[j]);
      g_free (self->parts[i].bytes);
      g_free (self->parts[i].mount);
    }
  sonde_opening_free (self->opening);
  sonde_closer_clear (&self->link_fd);
  g_free (self);
}

int
sonde_answer_steal_link (SondeAnswer *self)
{
  return sonde_steal_fd (&self->link_fd);
}

SondeOpening *
sonde_answer_steal_opening (SondeAnswer *self)
{
  return g_steal_pointer (&self->opening);
}

gboolean
sonde_answer_is_right (const SondeAnswer *self)
{
  return self->is_right;
}

/* @message: copied; @fds: (transfer full) */
static AnswerPart *
add (SondeAnswer *self, gconstpointer message, gsize size_bytes, const int *fds, unsigned n_fds)
{
  AnswerPart *added = &self->parts[self->n_parts++];

  g_assert (self->n_parts <= MAX_PARTS && n_fds <= MAX_FDS);
  added->bytes = g_memdup2 (message, size_bytes);
  added->size_bytes = size_bytes;
  added->n_fds = n_fds;
  for (unsigned i = 0; i < n_fds; i++)
    added->fds[i] = fds[i];
  return added;
}

gboolean
sonde_answer_send (SondeAnswer *self,
                   SondeProcBroker *broker,
                   SondeChannel *channel,
                   GError **error)
{
  g_autoptr (SondeAnswer) taken = self;
  SondeMessageNote note;

  for (guint i = 0; i < taken->n_parts; i++)
    {
      AnswerPart *part = &taken->parts[i];
      int result = part->is_once ? sonde_proc_broker_tell (broker, part->mount) : 0;
      unsigned n_fds = part->n_fds;

      if (result == -ENOSPC)
        {
          sonde_note_init (&note,
                           "Programs are on more mounts of containers than a capture tells of: "
                           "names of their functions may be missing");
          if (!sonde_channel_send (channel, &note, sizeof note, NULL, 0, error))
            return FALSE;
        }
      if (result < 0)
        continue;
      part->n_fds = 0;
      if (!sonde_channel_send (channel, part->bytes, part->size_bytes, part->fds, n_fds, error))
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

/* @mount: (transfer full) */
static void
add_mountinfo (SondeAnswer *self, const SondeForeignMount *mount, pid_t pid)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTINFO, .pid = pid };
  AnswerPart *added;

  if (mount->name == NULL)
    return;
  added = add (self, &message, sizeof message, &mount->fd, 1);
  added->is_once = TRUE;
  added->mount = mount->name;
}

static void
add_process (SondeAnswer *self, const SondeQuestion *question, SondeProcBroker *broker)
{
  SondeMessageProcess message;
  SondeForeignMount mount;
  int fds[3];
  unsigned n_fds = sonde_proc_broker_open_process (broker, question->request_id, question->pid,
                                                   &message, fds, &mount);

  message.header.type = SONDE_MESSAGE_PROCESS;
  add (self, &message, sizeof message, fds, n_fds);
  add_mountinfo (self, &mount, question->pid);
}

static void
add_file (SondeAnswer *self,
          const SondeQuestion *question,
          SondeProcBroker *broker,
          SondeProcBatch *batch)
{
  SondeMessageFile message
      = { .header.type = SONDE_MESSAGE_FILE, .request_id = question->file.request_id };
  SondeForeignMount mount;
  int fd = sonde_proc_broker_open_file (broker, &question->file, batch, &mount);

  message.status = fd < 0 ? -fd : 0;
  add_mountinfo (self, &mount, question->pid);
  add (self, &message, sizeof message, &fd, fd < 0 ? 0 : 1);
}

static void
add_mounts (SondeAnswer *self, const SondeQuestion *question, SondeProcBroker *broker)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_MOUNTS };
  int fd = sonde_proc_broker_open_mounts (broker, question->pid);

  if (fd >= 0)
    add (self, &message, sizeof message, &fd, 1)->is_once = TRUE;
}

/* @fd: (transfer full): -1: it is to be counted, but there is nothing to read */
static void
add_counters (SondeAnswer *self, const SondeQuestion *question, int fd)
{
  SondeMessageCounters message = { .header.type = SONDE_MESSAGE_COUNTERS,
                                   .kind = SONDE_COUNTER_KIND_PROCESS,
                                   .pid = question->pid };

  add (self, &message, sizeof message, &fd, fd < 0 ? 0 : 1);
}

static void
add_joined (SondeAnswer *self, const SondeQuestion *question, int status)
{
  SondeMessageJoined message = { .header.type = SONDE_MESSAGE_JOINED,
                                 .request_id = question->request_id,
                                 .status = status };

  add (self, &message, sizeof message, NULL, 0);
}

static void
add_probed (SondeAnswer *self, const SondeQuestion *question, int status)
{
  SondeMessageProbed message = { .header.type = SONDE_MESSAGE_PROBED,
                                 .request_id = question->probes.request_id,
                                 .status = status };

  add (self, &message, sizeof message, NULL, 0);
}

/* The number may go to another process between the look and the link: then what it tells of is of a
 * process with that file at that very address, and of the scope's, or nothing. */
static void
link_probes (SondeAnswer *self, const SondeQuestion *question, SondeProcBroker *broker)
{
  SondeProbePlace places[SONDE_PROBE_MAX_SITES];
  sonde_autofd int fd = sonde_proc_broker_open_probes (broker, &question->probes, places);
  int result = fd;

  if (result >= 0)
    result = self->link_fd = sonde_probe_program_link (question->program, fd, question->pid, places,
                                                       question->probes.n_notes);
  if (result >= 0)
    result = sonde_proc_broker_check (broker, question->pid, TRUE);
  if (result < 0)
    sonde_closer_clear (&self->link_fd);
  add_probed (self, question, result < 0 ? -result : 0);
}

/* @threads: (element-type SondeMessageThread) */
static void
add_threads (SondeAnswer *self, pid_t pid, int status, const GArray *threads)
{
  guint n_parts
      = MAX ((threads->len + SONDE_MESSAGE_MAX_THREADS - 1) / SONDE_MESSAGE_MAX_THREADS, 1);

  for (guint part = 0; part < n_parts; part++)
    {
      guint first = part * SONDE_MESSAGE_MAX_THREADS;
      guint n = MIN (threads->len - first, SONDE_MESSAGE_MAX_THREADS);
      gsize size_bytes = sizeof (SondeMessageThreads) + n * sizeof (SondeMessageThread);
      g_autofree SondeMessageThreads *message = g_malloc0 (size_bytes);

      message->header.type = SONDE_MESSAGE_THREADS;
      message->pid = pid;
      message->status = status;
      message->n_threads = n;
      message->n_more = n_parts - part - 1;
      for (guint i = 0; i < n; i++)
        message->threads[i] = g_array_index (threads, SondeMessageThread, first + i);
      add (self, message, size_bytes, NULL, 0);
    }
}

static void
read_threads (SondeAnswer *self, const SondeQuestion *question, SondeProcBroker *broker)
{
  g_autoptr (GArray) threads = g_array_new (FALSE, FALSE, sizeof (SondeMessageThread));
  int result
      = sonde_proc_broker_read_threads (broker, question->pid, question->tids, question->n_tids,
                                        MAX_PARTS * SONDE_MESSAGE_MAX_THREADS, threads);

  add_threads (self, question->pid, -result, threads);
}

static int
open_stat (const SondeQuestion *question, SondeProcBroker *broker)
{
  return sonde_proc_broker_open_stat (broker, question->pid, question->start_ticks);
}

SondeAnswer *
sonde_question_answer (const SondeQuestion *self, SondeProcBroker *broker, SondeProcBatch *batch)
{
  SondeAnswer *answer = answer_new ();

  switch (self->kind)
    {
    case SONDE_QUESTION_PROCESS:
      add_process (answer, self, broker);
      break;
    case SONDE_QUESTION_FILE:
      add_file (answer, self, broker, batch);
      break;
    case SONDE_QUESTION_COUNTERS:
      add_counters (answer, self, open_stat (self, broker));
      break;
    case SONDE_QUESTION_TARGET:
      if (self->wants_mounts)
        add_mounts (answer, self, broker);
      if (self->wants_counters)
        add_counters (answer, self, self->wants_process ? open_stat (self, broker) : -1);
      if (self->wants_process)
        add_process (answer, self, broker);
      break;
    case SONDE_QUESTION_OPEN:
      answer->opening = self->opening;
      sonde_opening_run (answer->opening);
      break;
    case SONDE_QUESTION_JOIN:
      add_joined (answer, self, -sonde_proc_broker_check (broker, self->pid, self->is_called));
      break;
    case SONDE_QUESTION_THREADS:
      read_threads (answer, self, broker);
      break;
    case SONDE_QUESTION_PLACE:
      answer->is_right = sonde_proc_broker_check_place (broker, &self->interpreter) == 0;
      break;
    case SONDE_QUESTION_PROBES:
      link_probes (answer, self, broker);
      break;
    default:
      g_assert_not_reached ();
    }
  return answer;
}

SondeAnswer *
sonde_question_refuse (const SondeQuestion *self, int status)
{
  SondeMessageProcess process = { .header.type = SONDE_MESSAGE_PROCESS,
                                  .request_id = self->request_id,
                                  .pid = self->pid,
                                  .status = status };
  SondeMessageFile file = { .header.type = SONDE_MESSAGE_FILE,
                            .request_id = self->file.request_id,
                            .status = status };
  SondeAnswer *answer = answer_new ();

  if (self->kind == SONDE_QUESTION_COUNTERS || self->wants_counters)
    add_counters (answer, self, -1);
  if (self->kind == SONDE_QUESTION_PROCESS || self->wants_process)
    add (answer, &process, sizeof process, NULL, 0);
  if (self->kind == SONDE_QUESTION_FILE)
    add (answer, &file, sizeof file, NULL, 0);
  if (self->kind == SONDE_QUESTION_JOIN)
    add_joined (answer, self, status);
  if (self->kind == SONDE_QUESTION_PROBES)
    add_probed (answer, self, status);
  if (self->kind == SONDE_QUESTION_THREADS)
    {
      g_autoptr (GArray) none = g_array_new (FALSE, FALSE, sizeof (SondeMessageThread));

      add_threads (answer, self->pid, status, none);
    }
  return answer;
}
