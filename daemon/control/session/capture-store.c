/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/capture-store.h"

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/closer.h"

/* What the thread and the main loop share; the last of both frees it. */
typedef struct
{
  gatomicrefcount refs;
  SondeCaptureFiles *files;
  GMutex lock; /* of what follows; never held across a look at the disk */
  GCond changed;
  GHashTable *of_uid; /* uid → GQueue of SondeStoreRequest: not begun */
  GQueue turns;       /* uids of it, the next one first */
  GQueue done;        /* SondeStoreRequest: to be answered by the main loop */
  guint wakeup;       /* source: that it looks there; 0: none */
  gboolean is_idle;
  gboolean is_over;
} Shared;

struct SondeCaptureStore
{
  Shared *shared;
  GThread *thread;
  const SondeSettings *settings;
  GHashTable *pending; /* SondeStoreRequest, as a set: answer owed */
};

struct SondeStoreRequest
{
  SondeCaptureStore *store; /* NULL: it is gone; the main loop's, as are the next three */
  SondeStoreReply reply;    /* NULL: nobody wants to know */
  gpointer user_data;
  guint deadline;
  SondeStoreTask task; /* from here on the thread's, once it is begun */
  uid_t uid;
  char *text;     /* label, name or path */
  guint64 number; /* of the session; whether all are listed */
  SondeSettings settings;
  SondeStoreAnswer answer;
  GError *error;
};

static void
request_free (gpointer data)
{
  SondeStoreRequest *self = data;

  sonde_closer_clear (&self->answer.fd);
  g_clear_pointer (&self->answer.captures, g_ptr_array_unref);
  g_clear_error (&self->error);
  g_free (self->answer.path);
  g_free (self->text);
  g_free (self);
}

/* --- the thread --- */

static void
shared_unref (Shared *self)
{
  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  sonde_capture_files_free (self->files);
  g_hash_table_unref (self->of_uid);
  g_queue_clear (&self->turns);
  g_queue_clear_full (&self->done, request_free);
  g_cond_clear (&self->changed);
  g_mutex_clear (&self->lock);
  g_free (self);
}

static void
work (SondeCaptureFiles *files, SondeStoreRequest *request)
{
  SondeStoreAnswer *answer = &request->answer;
  GError **error = &request->error;

  if (!sonde_capture_files_open (files, error))
    return;
  switch (request->task)
    {
    case SONDE_STORE_OPEN:
      break;
    case SONDE_STORE_CREATE:
      answer->fd
          = sonde_capture_files_create (files, &request->settings, request->uid, request->text,
                                        request->number, &answer->path, &answer->max_bytes, error);
      break;
    case SONDE_STORE_COMPLETE:
      sonde_capture_files_complete (files, request->text);
      break;
    case SONDE_STORE_REOPEN:
      answer->fd = sonde_capture_files_reopen (files, request->text, error);
      break;
    case SONDE_STORE_OPEN_STORED:
      answer->fd = sonde_capture_files_open_stored (files, request->text, error);
      break;
    case SONDE_STORE_REMOVE:
      sonde_capture_files_remove (files, request->text, &answer->owner_uid, error);
      break;
    case SONDE_STORE_LIST:
      answer->captures
          = sonde_capture_files_list (files, request->number != 0, request->uid, error);
      break;
    case SONDE_STORE_IS_OF:
      answer->is_so = sonde_capture_files_is_of (files, request->text, request->uid);
      break;
    case SONDE_STORE_HAS_OTHERS:
      answer->is_so = sonde_capture_files_has_others (files, request->uid);
      break;
    case SONDE_STORE_TIDY:
      answer->is_so = sonde_capture_files_tidy (files, &request->settings);
      break;
    default:
      g_assert_not_reached ();
    }
}

/* The next uid's next one, with the lock held; NULL: there is none. */
static SondeStoreRequest *
take_next (Shared *self)
{
  gpointer uid = g_queue_pop_head (&self->turns);
  GQueue *queue = g_hash_table_lookup (self->of_uid, uid);
  SondeStoreRequest *request;

  if (queue == NULL)
    return NULL;
  request = g_queue_pop_head (queue);
  if (g_queue_is_empty (queue))
    g_hash_table_remove (self->of_uid, uid);
  else
    g_queue_push_tail (&self->turns, uid);
  return request;
}

static gboolean on_done (gpointer user_data);

static gpointer
run (gpointer user_data)
{
  Shared *self = user_data;

  g_mutex_lock (&self->lock);
  for (;;)
    {
      SondeStoreRequest *request = take_next (self);

      self->is_idle = request == NULL;
      if (request == NULL && self->is_over)
        break;
      if (request == NULL)
        {
          g_cond_wait (&self->changed, &self->lock);
          continue;
        }
      g_mutex_unlock (&self->lock);
      work (self->files, request);
      g_mutex_lock (&self->lock);
      g_queue_push_tail (&self->done, request);
      if (self->wakeup == 0 && !self->is_over)
        self->wakeup = g_idle_add_full (G_PRIORITY_DEFAULT, on_done, self, NULL);
      g_cond_broadcast (&self->changed);
    }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  shared_unref (self);
  return NULL;
}

/* --- the main loop --- */

static void
fail (SondeStoreRequest *self, const char *why)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, why);
  SondeStoreAnswer none = { .fd = -1 };
  SondeStoreReply reply = g_steal_pointer (&self->reply);

  g_clear_handle_id (&self->deadline, g_source_remove);
  if (reply != NULL)
    reply (&none, error, self->user_data);
}

void
sonde_store_request_cancel (SondeStoreRequest *self)
{
  Shared *shared = self->store->shared;
  gpointer uid = GUINT_TO_POINTER (self->uid);
  GQueue *queue;
  gboolean is_there;

  self->reply = NULL;
  g_clear_handle_id (&self->deadline, g_source_remove);
  g_mutex_lock (&shared->lock);
  queue = g_hash_table_lookup (shared->of_uid, uid);
  is_there = queue != NULL && g_queue_remove (queue, self);
  if (is_there && g_queue_is_empty (queue))
    {
      g_hash_table_remove (shared->of_uid, uid);
      g_queue_remove (&shared->turns, uid);
    }
  g_mutex_unlock (&shared->lock);
  /* Else the thread has it, or has had it. */
  if (!is_there)
    return;
  g_hash_table_remove (self->store->pending, self);
  request_free (self);
}

static gboolean
on_deadline (gpointer user_data)
{
  SondeStoreRequest *self = user_data;

  self->deadline = 0;
  fail (self, "The disk of the capture files does not answer");
  sonde_store_request_cancel (self);
  return G_SOURCE_REMOVE;
}

static void
fail_pending (gpointer request, gpointer value, gpointer user_data)
{
  fail (request, "The service ends");
  ((SondeStoreRequest *) request)->store = NULL;
}

static void
answer (SondeStoreRequest *self)
{
  g_clear_handle_id (&self->deadline, g_source_remove);
  g_hash_table_remove (self->store->pending, self);
  if (self->reply != NULL)
    self->reply (&self->answer, self->error, self->user_data);
  else if (self->task == SONDE_STORE_OPEN && self->error != NULL)
    g_message ("StartSession is not possible: %s", self->error->message);
  else if (self->answer.path != NULL)
    {
      /* Nobody wants it any more. */
      sonde_capture_store_complete (self->store, self->uid, self->answer.path);
      sonde_capture_store_release (self->store, self->answer.path);
    }
  request_free (self);
}

static gboolean
on_done (gpointer user_data)
{
  Shared *self = user_data;
  GQueue done = G_QUEUE_INIT;
  SondeStoreRequest *request;

  g_mutex_lock (&self->lock);
  self->wakeup = 0;
  done = self->done;
  g_queue_init (&self->done);
  g_mutex_unlock (&self->lock);
  while ((request = g_queue_pop_head (&done)) != NULL)
    answer (request);
  return G_SOURCE_REMOVE;
}

SondeStoreRequest *
sonde_capture_store_ask (SondeCaptureStore *self,
                         SondeStoreTask task,
                         uid_t uid,
                         const char *text,
                         guint64 number,
                         SondeStoreReply reply,
                         gpointer user_data)
{
  Shared *shared = self->shared;
  SondeStoreRequest *request = g_new0 (SondeStoreRequest, 1);
  GQueue *queue;

  request->store = self;
  request->reply = reply;
  request->user_data = user_data;
  request->task = task;
  request->uid = uid;
  request->text = g_strdup (text);
  request->number = number;
  request->settings = *self->settings;
  request->answer.fd = -1;
  g_hash_table_add (self->pending, request);
  if (reply != NULL)
    request->deadline = g_timeout_add (SONDE_LIMIT_STORE_MS, on_deadline, request);

  g_mutex_lock (&shared->lock);
  queue = g_hash_table_lookup (shared->of_uid, GUINT_TO_POINTER (uid));
  if (queue == NULL)
    {
      queue = g_queue_new ();
      g_hash_table_insert (shared->of_uid, GUINT_TO_POINTER (uid), queue);
      g_queue_push_tail (&shared->turns, GUINT_TO_POINTER (uid));
    }
  g_queue_push_tail (queue, request);
  g_cond_broadcast (&shared->changed);
  g_mutex_unlock (&shared->lock);
  return request;
}

SondeCaptureStore *
sonde_capture_store_new (const char *directory, const SondeSettings *settings, GError **error)
{
  g_autoptr (SondeCaptureStore) self = g_new0 (SondeCaptureStore, 1);
  Shared *shared = g_new0 (Shared, 1);
  gint64 until_us = g_get_monotonic_time () + SONDE_LIMIT_STORE_OPEN_MS * 1000;
  SondeStoreRequest *first;

  g_atomic_ref_count_init (&shared->refs);
  g_mutex_init (&shared->lock);
  g_cond_init (&shared->changed);
  shared->files = sonde_capture_files_new (directory);
  shared->of_uid = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_queue_free);
  self->shared = shared;
  self->settings = settings;
  self->pending = g_hash_table_new (NULL, NULL);
  g_atomic_ref_count_inc (&shared->refs);
  self->thread = g_thread_try_new ("captures", run, shared, error);
  if (self->thread == NULL)
    {
      shared_unref (shared);
      return NULL;
    }
  first = sonde_capture_store_ask (self, SONDE_STORE_OPEN, 0, NULL, 0, NULL, NULL);
  g_mutex_lock (&shared->lock);
  while (g_queue_is_empty (&shared->done)
         && g_cond_wait_until (&shared->changed, &shared->lock, until_us))
    continue;
  if (!g_queue_is_empty (&shared->done) && first->error != NULL)
    g_propagate_error (error, g_steal_pointer (&first->error));
  else
    first = NULL;
  g_mutex_unlock (&shared->lock);
  return first == NULL ? g_steal_pointer (&self) : NULL;
}

void
sonde_capture_store_free (SondeCaptureStore *self)
{
  gint64 until_us = g_get_monotonic_time () + SONDE_LIMIT_STORE_OPEN_MS * 1000;
  Shared *shared;
  gboolean is_idle;

  if (self == NULL)
    return;
  shared = self->shared;
  g_hash_table_foreach (self->pending, fail_pending, NULL);
  g_mutex_lock (&shared->lock);
  shared->is_over = TRUE;
  g_clear_handle_id (&shared->wakeup, g_source_remove);
  g_cond_broadcast (&shared->changed);
  while (!shared->is_idle && self->thread != NULL
         && g_cond_wait_until (&shared->changed, &shared->lock, until_us))
    continue;
  is_idle = shared->is_idle;
  g_mutex_unlock (&shared->lock);
  /* A thread that waits for the disk ends with it. */
  if (self->thread != NULL && is_idle)
    g_thread_join (self->thread);
  else if (self->thread != NULL)
    g_thread_unref (self->thread);
  shared_unref (shared);
  g_hash_table_unref (self->pending);
  g_free (self);
}

/* --- what is at hand --- */

void
sonde_capture_store_hold (SondeCaptureStore *self, const char *path, guint64 max_bytes)
{
  sonde_capture_files_hold (self->shared->files, path, max_bytes);
}

void
sonde_capture_store_complete (SondeCaptureStore *self, uid_t owner_uid, const char *path)
{
  sonde_capture_files_hold (self->shared->files, path, 0);
  sonde_capture_store_ask (self, SONDE_STORE_COMPLETE, owner_uid, path, 0, NULL, NULL);
}

void
sonde_capture_store_release (SondeCaptureStore *self, const char *path)
{
  sonde_capture_files_release (self->shared->files, path);
}
