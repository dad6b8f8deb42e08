/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/process/requests.h"

struct SondeRequests
{
  SondeRequestSend send;
  gpointer user_data;
  guint64 last_id;
  GHashTable *by_id;   /* owns */
  GHashTable *by_pid;  /* process requests */
  GHashTable *by_file; /* file requests */
};

/* The generation of an inode is not part of a request, so not of its key. */
static guint
hash_file (gconstpointer data)
{
  const SondeRequest *request = data;

  return (guint) (request->file.inode * 31 + request->file.dev_major * 257
                  + request->file.dev_minor);
}

static gboolean
same_file (gconstpointer first, gconstpointer second)
{
  const SondeRequest *a = first;
  const SondeRequest *b = second;

  return a->file.inode == b->file.inode && a->file.dev_major == b->file.dev_major
         && a->file.dev_minor == b->file.dev_minor;
}

SondeRequests *
sonde_requests_new (SondeRequestSend send, gpointer user_data)
{
  SondeRequests *self = g_new0 (SondeRequests, 1);

  self->send = send;
  self->user_data = user_data;
  self->by_id = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  self->by_pid = g_hash_table_new (NULL, NULL);
  self->by_file = g_hash_table_new (hash_file, same_file);

  return self;
}

void
sonde_requests_free (SondeRequests *self)
{
  if (self == NULL)
    return;

  g_hash_table_unref (self->by_pid);
  g_hash_table_unref (self->by_file);
  g_hash_table_unref (self->by_id);
  g_free (self);
}

static SondeRequest *
add_request (SondeRequests *self, int32_t pid, gint64 now_ns)
{
  SondeRequest *request;

  if (g_hash_table_size (self->by_id) >= SONDE_REQUESTS_MAX)
    return NULL;

  request = g_new0 (SondeRequest, 1);
  request->id = ++self->last_id;
  request->pid = pid;
  request->sent_ns = now_ns;
  g_hash_table_insert (self->by_id, &request->id, request);

  return request;
}

/* What cannot be sent is not waited for. */
static gboolean
send_request (SondeRequests *self, const SondeRequest *request)
{
  SondeRequest removed;

  if (self->send (request, self->user_data))
    return TRUE;
  sonde_requests_remove (self, request->id, request->is_file, &removed);
  return FALSE;
}

gboolean
sonde_requests_ask_process (SondeRequests *self, int32_t pid, gint64 now_ns)
{
  SondeRequest *request;

  if (g_hash_table_contains (self->by_pid, GINT_TO_POINTER (pid)))
    return TRUE;
  request = add_request (self, pid, now_ns);
  if (request == NULL)
    return FALSE;

  g_hash_table_insert (self->by_pid, GINT_TO_POINTER (pid), request);
  return send_request (self, request);
}

gboolean
sonde_requests_ask_file (SondeRequests *self,
                         const SondeMessageFileRequest *file,
                         guint n_tries,
                         gint64 now_ns)
{
  SondeRequest *request;

  if (g_hash_table_contains (self->by_file, &(SondeRequest){ .file = *file }))
    return TRUE;
  request = add_request (self, file->pid, now_ns);
  if (request == NULL)
    return FALSE;

  request->is_file = TRUE;
  request->n_tries = n_tries;
  request->file = *file;
  request->file.request_id = request->id;
  g_hash_table_add (self->by_file, request);

  return send_request (self, request);
}

static gboolean
is_young (const SondeRequest *request, gint64 now_ns)
{
  return request != NULL && now_ns - request->sent_ns < SONDE_REQUEST_WAIT_NS;
}

gboolean
sonde_requests_wait_for_process (const SondeRequests *self, int32_t pid, gint64 now_ns)
{
  return is_young (g_hash_table_lookup (self->by_pid, GINT_TO_POINTER (pid)), now_ns);
}

gboolean
sonde_requests_wait_for_file (const SondeRequests *self, const SondeFileId *file, gint64 now_ns)
{
  SondeRequest key
      = { .file
          = { .inode = file->inode, .dev_major = file->dev_major, .dev_minor = file->dev_minor } };

  return is_young (g_hash_table_lookup (self->by_file, &key), now_ns);
}

gboolean
sonde_requests_remove (SondeRequests *self, guint64 id, gboolean is_file, SondeRequest *request)
{
  SondeRequest *found = g_hash_table_lookup (self->by_id, &id);

  if (found == NULL || found->is_file != is_file)
    return FALSE;

  *request = *found;
  if (is_file)
    g_hash_table_remove (self->by_file, found);
  else
    g_hash_table_remove (self->by_pid, GINT_TO_POINTER (found->pid));
  g_hash_table_remove (self->by_id, &id);

  return TRUE;
}

void
sonde_requests_give_up (SondeRequests *self)
{
  g_hash_table_remove_all (self->by_pid);
  g_hash_table_remove_all (self->by_file);
  g_hash_table_remove_all (self->by_id);
}
