/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/bus-connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "base/fd.h"
#include "daemon/base/closer.h"
#include "daemon/base/limits.h"

/* Then whatever else the main loop has to do has its turn. */
#define MAX_MESSAGES_A_TURN 16
/* Of answers to our own calls: systemd has some 300 properties for a service. */
#define MAX_REPLY_ENTRIES 4096
#define MAX_REPLY_BYTES   (1024 * 1024)

struct SondeBusConnection
{
  grefcount refs; /* the owner's, and one of each turn of the loop */
  sd_bus *bus;    /* NULL once it is freed by its owner */
  GSource *source;
  const SondeBusConnectionHandler *handler;
  gpointer user_data;
  GHashTable *pending; /* OwnCall, as a set */
  void (*flushed) (gpointer user_data);
  gpointer flushed_data;
  char *bus_id;
  guint64 n_ever;
  guint n_calls;
  gboolean is_peer;
  gboolean is_ready;
  gboolean is_closed;
};

typedef struct
{
  GSource source;
  SondeBusConnection *connection;
  gpointer fd_tag;
  int events; /* that it waits for */
} BusSource;

/* A call of ours that is not answered yet. */
typedef struct
{
  SondeBusConnection *connection;
  SondeBusConnectionReply reply;
  gpointer user_data;
  char *type;
  sd_bus_slot *slot;
  GError *error; /* it could not be sent */
  guint idle;
} OwnCall;

struct SondeSubscription
{
  sd_bus_slot *slot;
  SondeBusConnectionSignal signal;
  gpointer user_data;
};

/* --- values --- */

typedef struct
{
  sd_bus_message *message;
  guint n_entries_left;
  gsize n_bytes_left;
  GUnixFDList *fds;
} Reader;

/* Always returns NULL. */
static GVariant *
fail_as_malformed (GError **error, int r)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The message is malformed: %s",
               g_strerror (-r));
  return NULL;
}

static GVariant *read_value (Reader *self, GError **error);

static GVariant *
read_text (Reader *self, char type, GError **error)
{
  const char *text;
  int r = sd_bus_message_read_basic (self->message, type, &text);
  gsize n_bytes;

  if (r <= 0)
    return fail_as_malformed (error, r);
  n_bytes = strlen (text);
  if (n_bytes > self->n_bytes_left)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                           "Limit message-text: the texts of the message are too long");
      return NULL;
    }
  self->n_bytes_left -= n_bytes;
  if (type == SD_BUS_TYPE_OBJECT_PATH)
    return g_variant_new_object_path (text);
  return type == SD_BUS_TYPE_SIGNATURE ? g_variant_new_signature (text)
                                       : g_variant_new_string (text);
}

/* The message keeps its descriptor, the list has a copy. */
static GVariant *
read_fd (Reader *self, GError **error)
{
  int fd;
  int handle;
  int r = sd_bus_message_read_basic (self->message, SD_BUS_TYPE_UNIX_FD, &fd);

  if (r <= 0)
    {
      if (sonde_closer_has_refused ())
        g_set_error (
            error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
            "Limit closers: no descriptors are taken while %u cannot be closed, whose file "
            "systems do not answer",
            SONDE_LIMIT_CLOSERS);
      else
        g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_OPTION,
                             "The message names a descriptor that it does not bring");
      return NULL;
    }
  if (self->fds == NULL)
    self->fds = g_unix_fd_list_new ();
  handle = g_unix_fd_list_append (self->fds, fd, error);
  return handle >= 0 ? g_variant_new_handle (handle) : NULL;
}

/* Numbers: both have them as the machine does. */
static GVariant *
read_number (Reader *self, char type, GError **error)
{
  static const struct
  {
    char type;
    guint n_bytes;
  } numbers[] = { { SD_BUS_TYPE_BYTE, 1 },   { SD_BUS_TYPE_INT16, 2 },  { SD_BUS_TYPE_UINT16, 2 },
                  { SD_BUS_TYPE_INT32, 4 },  { SD_BUS_TYPE_UINT32, 4 }, { SD_BUS_TYPE_INT64, 8 },
                  { SD_BUS_TYPE_UINT64, 8 }, { SD_BUS_TYPE_DOUBLE, 8 } };
  const char type_string[] = { type, '\0' };
  guint64 value = 0;
  int r = sd_bus_message_read_basic (self->message, type, &value);

  for (gsize i = 0; r > 0 && i < G_N_ELEMENTS (numbers); i++)
    if (numbers[i].type == type)
      {
        g_autoptr (GBytes) bytes = g_bytes_new (&value, numbers[i].n_bytes);

        return g_variant_new_from_bytes (G_VARIANT_TYPE (type_string), bytes, TRUE);
      }
  return fail_as_malformed (error, r <= 0 ? r : -EBADMSG);
}

static GVariant *
read_basic (Reader *self, char type, GError **error)
{
  int boolean;
  int r;

  switch (type)
    {
    case SD_BUS_TYPE_STRING:
    case SD_BUS_TYPE_OBJECT_PATH:
    case SD_BUS_TYPE_SIGNATURE:
      return read_text (self, type, error);
    case SD_BUS_TYPE_UNIX_FD:
      return read_fd (self, error);
    case SD_BUS_TYPE_BOOLEAN:
      r = sd_bus_message_read_basic (self->message, type, &boolean);
      return r > 0 ? g_variant_new_boolean (boolean) : fail_as_malformed (error, r);
    default:
      return read_number (self, type, error);
    }
}

/* @contents: signature of what is in the container; its type as GVariant spells it. */
/* Adds what is left in the container that was entered. */
static gboolean
read_children (Reader *self, GVariantBuilder *builder, gboolean is_array, GError **error)
{
  GVariant *child;
  int r;

  while ((r = sd_bus_message_at_end (self->message, FALSE)) == 0)
    {
      if (is_array && self->n_entries_left == 0)
        {
          g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                               "Limit message-entries: the message has too many values");
          return FALSE;
        }
      self->n_entries_left -= is_array;
      child = read_value (self, error);
      if (child == NULL)
        return FALSE;
      g_variant_builder_add_value (builder, child);
    }
  if (r < 0)
    fail_as_malformed (error, r);
  return r > 0;
}

static GVariant *
read_container (Reader *self, char type, const char *contents, GError **error)
{
  g_autofree char *type_string = NULL;
  g_auto (GVariantBuilder) builder;
  int r = sd_bus_message_enter_container (self->message, type, contents);

  if (type == SD_BUS_TYPE_ARRAY)
    type_string = g_strdup_printf ("a%s", contents);
  else if (type == SD_BUS_TYPE_VARIANT)
    type_string = g_strdup ("v");
  else
    type_string = g_strdup_printf (type == SD_BUS_TYPE_STRUCT ? "(%s)" : "{%s}", contents);
  g_variant_builder_init (&builder, G_VARIANT_TYPE (type_string));
  if (r <= 0)
    return fail_as_malformed (error, r);
  if (!read_children (self, &builder, type == SD_BUS_TYPE_ARRAY, error))
    return NULL;
  r = sd_bus_message_exit_container (self->message);
  return r >= 0 ? g_variant_builder_end (&builder) : fail_as_malformed (error, r);
}

/* The depth is bounded by sd-bus, as D-Bus has it: 64 containers. */
static GVariant *
read_value (Reader *self, GError **error)
{
  const char *contents;
  char type;
  int r = sd_bus_message_peek_type (self->message, &type, &contents);

  if (r <= 0)
    return fail_as_malformed (error, r < 0 ? r : -EBADMSG);
  return contents != NULL ? read_container (self, type, contents, error)
                          : read_basic (self, type, error);
}

GVariant *
sonde_bus_connection_read (
    sd_bus_message *message, guint max_entries, gsize max_bytes, GUnixFDList **fds, GError **error)
{
  Reader self = { .message = message, .n_entries_left = max_entries, .n_bytes_left = max_bytes };
  g_auto (GVariantBuilder) builder;
  gboolean is_whole;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_TUPLE);
  is_whole = read_children (&self, &builder, FALSE, error);
  if (is_whole && fds != NULL)
    *fds = g_steal_pointer (&self.fds);
  sonde_closer_take_list (&self.fds);
  return is_whole ? g_variant_ref_sink (g_variant_builder_end (&builder)) : NULL;
}

static int append_value (sd_bus_message *message, GVariant *value, GUnixFDList *fds);

static int
append_children (sd_bus_message *message, GVariant *value, GUnixFDList *fds)
{
  gsize n_children = g_variant_n_children (value);

  for (gsize i = 0; i < n_children; i++)
    {
      g_autoptr (GVariant) child = g_variant_get_child_value (value, i);
      int r = append_value (message, child, fds);

      if (r < 0)
        return r;
    }
  return 0;
}

/* GVariant has the brackets of a tuple or an entry in its type, sd-bus has not. */
static int
append_container (sd_bus_message *message, GVariant *value, GUnixFDList *fds)
{
  const char *type = g_variant_get_type_string (value);
  g_autoptr (GVariant) inside = NULL;
  g_autofree char *contents = NULL;
  char kind;
  int r;

  switch (type[0])
    {
    case 'v':
      kind = SD_BUS_TYPE_VARIANT;
      inside = g_variant_get_variant (value);
      contents = g_strdup (g_variant_get_type_string (inside));
      break;
    case 'a':
      kind = SD_BUS_TYPE_ARRAY;
      contents = g_strdup (type + 1);
      break;
    default:
      kind = type[0] == '(' ? SD_BUS_TYPE_STRUCT : SD_BUS_TYPE_DICT_ENTRY;
      contents = g_strndup (type + 1, strlen (type) - 2);
    }
  r = sd_bus_message_open_container (message, kind, contents);
  if (r >= 0)
    r = append_children (message, value, fds);
  return r >= 0 ? sd_bus_message_close_container (message) : r;
}

static int
append_value (sd_bus_message *message, GVariant *value, GUnixFDList *fds)
{
  char type = g_variant_get_type_string (value)[0];
  const int *list;
  int n_fds = 0;
  int boolean;

  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_STRING:
    case G_VARIANT_CLASS_OBJECT_PATH:
    case G_VARIANT_CLASS_SIGNATURE:
      return sd_bus_message_append_basic (message, type, g_variant_get_string (value, NULL));
    case G_VARIANT_CLASS_BOOLEAN:
      boolean = g_variant_get_boolean (value);
      return sd_bus_message_append_basic (message, type, &boolean);
    case G_VARIANT_CLASS_HANDLE:
      list = fds != NULL ? g_unix_fd_list_peek_fds (fds, &n_fds) : NULL;
      g_assert (g_variant_get_handle (value) >= 0 && g_variant_get_handle (value) < n_fds);
      return sd_bus_message_append_basic (message, type, &list[g_variant_get_handle (value)]);
    case G_VARIANT_CLASS_VARIANT:
    case G_VARIANT_CLASS_ARRAY:
    case G_VARIANT_CLASS_TUPLE:
    case G_VARIANT_CLASS_DICT_ENTRY:
      return append_container (message, value, fds);
    default:
      /* Numbers: both have them as the machine does. */
      return sd_bus_message_append_basic (message, type, g_variant_get_data (value));
    }
}

/* --- the main loop --- */

static void
connection_unref (SondeBusConnection *self)
{
  if (!g_ref_count_dec (&self->refs))
    return;
  g_hash_table_unref (self->pending);
  g_free (self->bus_id);
  g_free (self);
}

static void
own_call_free (OwnCall *self)
{
  g_clear_handle_id (&self->idle, g_source_remove);
  sd_bus_slot_unref (self->slot);
  g_clear_error (&self->error);
  g_free (self->type);
  g_free (self);
}

static void
own_call_end (OwnCall *self, GVariant *reply, const GError *error)
{
  g_hash_table_remove (self->connection->pending, self);
  if (self->reply != NULL)
    self->reply (reply, error, self->user_data);
  own_call_free (self);
}

/* What was asked gets no answer any more. */
static void
close_connection (SondeBusConnection *self)
{
  g_autoptr (GError) error
      = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, "The connection is closed");
  GHashTableIter iter;
  gpointer pending;

  self->is_closed = TRUE;
  g_source_destroy (self->source);
  while (self->bus != NULL
         && (g_hash_table_iter_init (&iter, self->pending),
             g_hash_table_iter_next (&iter, &pending, NULL)))
    own_call_end (pending, NULL, error);
  if (self->bus == NULL)
    return;
  if (self->flushed != NULL)
    g_steal_pointer (&self->flushed) (self->flushed_data);
  else if (self->handler != NULL && self->handler->closed != NULL)
    self->handler->closed (self->user_data);
}

static void
tell_ready (SondeBusConnection *self)
{
  if (self->is_ready || sd_bus_is_ready (self->bus) <= 0)
    return;
  self->is_ready = TRUE;
  if (self->handler != NULL && self->handler->ready != NULL)
    self->handler->ready (self->user_data);
}

static gboolean
prepare (GSource *source, int *timeout)
{
  BusSource *self = (BusSource *) source;
  sd_bus *bus = self->connection->bus;
  int events = sd_bus_get_events (bus);
  guint64 until_us = G_MAXUINT64;
  int r = sd_bus_get_timeout (bus, &until_us);

  *timeout = -1;
  /* To be told by sd_bus_process(). */
  if (events < 0 || r < 0 || until_us == 0)
    return TRUE;
  /* Each change wakes the loop up that is about to wait. */
  if (events != self->events)
    g_source_modify_unix_fd (source, self->fd_tag, (GIOCondition) events);
  self->events = events;
  g_source_set_ready_time (source, until_us < G_MAXINT64 ? (gint64) until_us : -1);
  return FALSE;
}

/* A message that nobody keeps is freed in there, with its descriptors. */
static int
process (sd_bus *bus)
{
  sonde_deferring gboolean before = sonde_closer_defer (TRUE);

  return sd_bus_process (bus, NULL);
}

static gboolean
has_queued (const SondeBusConnection *self)
{
  guint64 n_queued = 0;

  return sd_bus_get_n_queued_write (self->bus, &n_queued) >= 0 && n_queued > 0;
}

static gboolean
dispatch (GSource *source, GSourceFunc callback, gpointer user_data)
{
  SondeBusConnection *self = ((BusSource *) source)->connection;
  int r = 1;

  g_ref_count_inc (&self->refs);
  for (guint i = 0; r > 0 && i < MAX_MESSAGES_A_TURN; i++)
    {
      r = process (self->bus);
      if (self->bus == NULL)
        break;
      if (r >= 0)
        tell_ready (self);
      if (self->bus == NULL)
        break;
    }
  if (self->bus != NULL && r < 0)
    close_connection (self);
  else if (self->bus != NULL && self->flushed != NULL && !has_queued (self))
    g_steal_pointer (&self->flushed) (self->flushed_data);
  connection_unref (self);
  return G_SOURCE_CONTINUE;
}

static int
on_message (sd_bus_message *message, void *user_data, sd_bus_error *error)
{
  SondeBusConnection *self = user_data;
  sonde_deferring gboolean before = sonde_closer_defer (FALSE);
  gboolean wants_answer = sd_bus_message_get_expect_reply (message) > 0;
  guint8 type = 0;

  sd_bus_message_get_type (message, &type);
  if (type != SD_BUS_MESSAGE_METHOD_CALL)
    return 0;
  self->n_ever++;
  tell_ready (self);
  if (self->bus == NULL || self->handler == NULL || self->handler->call == NULL)
    return 0;
  self->n_calls += wants_answer;
  if (self->handler->call (message, self->user_data))
    return 1;
  self->n_calls -= wants_answer;
  return 0;
}

static gboolean
attach (SondeBusConnection *self, GError **error)
{
  static GSourceFuncs functions = { .prepare = prepare, .dispatch = dispatch };
  int r = sd_bus_add_filter (self->bus, NULL, on_message, self);

  if (r < 0)
    return sonde_error_set_errno (error, -r, "Cannot listen on the bus");
  self->source = g_source_new (&functions, sizeof (BusSource));
  g_source_set_static_name (self->source, "sd-bus");
  ((BusSource *) self->source)->connection = self;
  ((BusSource *) self->source)->events = G_IO_IN;
  ((BusSource *) self->source)->fd_tag
      = g_source_add_unix_fd (self->source, sd_bus_get_fd (self->bus), G_IO_IN);
  g_source_attach (self->source, NULL);
  return TRUE;
}

static SondeBusConnection *
connection_new (const SondeBusConnectionHandler *handler, gpointer user_data)
{
  SondeBusConnection *self = g_new0 (SondeBusConnection, 1);

  g_ref_count_init (&self->refs);
  self->handler = handler;
  self->user_data = user_data;
  self->pending = g_hash_table_new (NULL, NULL);
  return self;
}

SondeBusConnection *
sonde_bus_connection_new_system (const SondeBusConnectionHandler *handler,
                                 gpointer user_data,
                                 GError **error)
{
  g_autoptr (SondeBusConnection) self = connection_new (handler, user_data);
  /* It begins to connect, and says hello in its own time. */
  int r = sd_bus_open_system (&self->bus);

  if (r < 0)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Cannot reach the system bus: %s",
                   g_strerror (-r));
      return NULL;
    }
  return attach (self, error) ? g_steal_pointer (&self) : NULL;
}

static gboolean
check_peer (int fd, GError **error)
{
  struct ucred peer;
  socklen_t size = sizeof peer;

  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
    return sonde_error_set_errno (error, errno, "Cannot tell who is at the other end");
  if (peer.uid == getuid ())
    return TRUE;
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED,
                       "The other end belongs to somebody else");
  return FALSE;
}

static int
start_server (SondeBusConnection *self, int *fd)
{
  sd_id128_t id;
  int r = sd_id128_randomize (&id);

  if (r >= 0)
    r = sd_bus_new (&self->bus);
  if (r >= 0)
    r = sd_bus_set_fd (self->bus, *fd, *fd);
  if (r < 0)
    return r;
  sonde_steal_fd (fd);
  r = sd_bus_set_server (self->bus, TRUE, id);
  if (r >= 0)
    r = sd_bus_negotiate_fds (self->bus, TRUE);
  /* It has our rights already. */
  if (r >= 0)
    r = sd_bus_set_trusted (self->bus, TRUE);
  return r >= 0 ? sd_bus_start (self->bus) : r;
}

SondeBusConnection *
sonde_bus_connection_new_peer (int fd,
                               const SondeBusConnectionHandler *handler,
                               gpointer user_data,
                               GError **error)
{
  g_autoptr (SondeBusConnection) self = connection_new (handler, user_data);
  sonde_autofd int owned = fd;
  int r;

  self->is_peer = TRUE;
  if (!check_peer (fd, error))
    return NULL;
  r = start_server (self, &owned);
  if (r < 0)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Cannot serve the client: %s",
                   g_strerror (-r));
      return NULL;
    }
  return attach (self, error) ? g_steal_pointer (&self) : NULL;
}

void
sonde_bus_connection_free (SondeBusConnection *self)
{
  GHashTableIter iter;
  gpointer pending;

  if (self == NULL)
    return;
  g_hash_table_iter_init (&iter, self->pending);
  while (g_hash_table_iter_next (&iter, &pending, NULL))
    own_call_free (pending);
  g_hash_table_remove_all (self->pending);
  if (self->source != NULL)
    g_source_destroy (self->source);
  g_clear_pointer (&self->source, g_source_unref);
  if (self->bus != NULL)
    {
      sonde_deferring gboolean before = sonde_closer_defer (TRUE);

      /* Strangers' descriptors may wait in it, and so it is closed when somebody can. */
      (void) shutdown (sd_bus_get_fd (self->bus), SHUT_RDWR);
      sd_bus_close (self->bus);
      g_clear_pointer (&self->bus, sd_bus_unref);
    }
  connection_unref (self);
}

const char *
sonde_bus_connection_bus_id (const SondeBusConnection *self)
{
  SondeBusConnection *writable = (SondeBusConnection *) self;
  char text[SD_ID128_STRING_MAX];
  sd_id128_t id;

  if (self->bus_id == NULL && !self->is_peer && sd_bus_get_bus_id (self->bus, &id) >= 0)
    writable->bus_id = g_strdup (sd_id128_to_string (id, text));
  return self->bus_id != NULL ? self->bus_id : "";
}

gboolean
sonde_bus_connection_is_closed (const SondeBusConnection *self)
{
  return self->is_closed;
}

void
sonde_bus_connection_flush (SondeBusConnection *self,
                            void (*done) (gpointer user_data),
                            gpointer user_data)
{
  if (self->is_closed || !has_queued (self))
    {
      done (user_data);
      return;
    }
  self->flushed = done;
  self->flushed_data = user_data;
}

/* --- calls of ours --- */

static int
on_reply (sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
  OwnCall *self = user_data;
  sonde_deferring gboolean before = sonde_closer_defer (FALSE);
  const sd_bus_error *failure = sd_bus_message_get_error (message);
  g_autoptr (GVariant) reply = NULL;
  g_autoptr (GError) error = NULL;

  if (failure != NULL)
    error = g_dbus_error_new_for_dbus_error (failure->name,
                                             failure->message != NULL ? failure->message : "");
  else
    reply = sonde_bus_connection_read (message, MAX_REPLY_ENTRIES, MAX_REPLY_BYTES, NULL, &error);
  if (reply != NULL && self->type != NULL
      && !g_variant_is_of_type (reply, G_VARIANT_TYPE (self->type)))
    {
      g_set_error (&error, SONDE_ERROR, SONDE_ERROR_FAILED, "The answer is %s, not %s",
                   g_variant_get_type_string (reply), self->type);
      g_clear_pointer (&reply, g_variant_unref);
    }
  own_call_end (self, reply, error);
  return 1;
}

static gboolean
on_not_sent (gpointer user_data)
{
  OwnCall *self = user_data;

  self->idle = 0;
  own_call_end (self, NULL, self->error);
  return G_SOURCE_REMOVE;
}

static int
send_call (SondeBusConnection *self, const SondeBusConnectionCall *call, OwnCall *pending)
{
  sd_bus_message *message = NULL;
  int r = sd_bus_message_new_method_call (self->bus, &message, call->destination, call->path,
                                          call->interface, call->method);

  if (r >= 0)
    r = sd_bus_message_set_auto_start (message, call->starts_service);
  if (r >= 0 && call->arguments != NULL)
    r = append_children (message, call->arguments, NULL);
  if (r >= 0 && pending == NULL)
    {
      r = sd_bus_message_set_expect_reply (message, FALSE);
      if (r >= 0)
        r = sd_bus_send (self->bus, message, NULL);
    }
  else if (r >= 0)
    r = sd_bus_call_async (self->bus, &pending->slot, message, on_reply, pending,
                           call->timeout_ms > 0 ? call->timeout_ms * G_GUINT64_CONSTANT (1000)
                                                : G_MAXUINT64);
  sd_bus_message_unref (message);
  return r;
}

void
sonde_bus_connection_call (SondeBusConnection *self,
                           const SondeBusConnectionCall *call,
                           SondeBusConnectionReply reply,
                           gpointer user_data)
{
  OwnCall *pending = NULL;
  int r;

  if (call->arguments != NULL)
    g_variant_ref_sink (call->arguments);
  if (reply != NULL)
    {
      pending = g_new0 (OwnCall, 1);
      pending->connection = self;
      pending->reply = reply;
      pending->user_data = user_data;
      pending->type = g_strdup (call->type);
      g_hash_table_add (self->pending, pending);
    }
  r = send_call (self, call, pending);
  if (call->arguments != NULL)
    g_variant_unref (call->arguments);
  if (r < 0 && pending != NULL)
    {
      pending->error = g_error_new (SONDE_ERROR, SONDE_ERROR_FAILED, "The bus takes no call: %s",
                                    g_strerror (-r));
      pending->idle = g_idle_add (on_not_sent, pending);
    }
}

/* --- signals --- */

static int
on_signal (sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
  const SondeSubscription *self = user_data;
  sonde_deferring gboolean before = sonde_closer_defer (FALSE);
  const char *sender = sd_bus_message_get_sender (message);
  g_autoptr (GVariant) arguments = NULL;

  /* Whoever may send us messages could send this one, too: sd-bus takes any sender for the owner of
   * a name. The names of the bus itself are the bus's to give. */
  if (sd_bus_message_is_signal (message, "org.freedesktop.DBus", NULL) > 0
      && g_strcmp0 (sender, "org.freedesktop.DBus") != 0)
    return 0;
  arguments = sonde_bus_connection_read (message, MAX_REPLY_ENTRIES, MAX_REPLY_BYTES, NULL, NULL);
  if (arguments != NULL)
    self->signal (arguments, self->user_data);
  return 0;
}

/* Without it sd-bus would close a connection whose match is refused. */
static int
on_match_added (sd_bus_message *message, void *user_data, sd_bus_error *unused)
{
  const sd_bus_error *failure = sd_bus_message_get_error (message);

  if (failure != NULL)
    g_warning ("The bus does not tell us of changes: %s", failure->message);
  return 1;
}

SondeSubscription *
sonde_bus_connection_subscribe (SondeBusConnection *self,
                                const char *match,
                                SondeBusConnectionSignal signal,
                                gpointer user_data)
{
  SondeSubscription *subscription = g_new0 (SondeSubscription, 1);
  int r;

  subscription->signal = signal;
  subscription->user_data = user_data;
  r = sd_bus_add_match_async (self->bus, &subscription->slot, match, on_signal, on_match_added,
                              subscription);
  if (r < 0)
    g_warning ("The bus does not tell us of changes: %s", g_strerror (-r));
  return subscription;
}

void
sonde_bus_connection_unsubscribe (SondeSubscription *self)
{
  if (self == NULL)
    return;
  sd_bus_slot_unref (self->slot);
  g_free (self);
}

/* Fails only when the connection is closed, or the receiver has left: then nobody is to be told. */
void
sonde_bus_connection_emit (SondeBusConnection *self,
                           const char *destination,
                           const char *path,
                           const char *interface,
                           const char *name,
                           GVariant *arguments)
{
  sd_bus_message *message = NULL;

  if (sd_bus_message_new_signal (self->bus, &message, path, interface, name) >= 0
      && append_children (message, arguments, NULL) >= 0)
    sd_bus_send_to (self->bus, message, destination, NULL);
  sd_bus_message_unref (message);
}

/* --- calls of others --- */

guint
sonde_bus_connection_n_calls (const SondeBusConnection *self)
{
  return self->n_calls;
}

void
sonde_bus_connection_drop (sd_bus_message *call)
{
  sonde_deferring gboolean before = sonde_closer_defer (TRUE);

  sd_bus_message_unref (call);
}

guint64
sonde_bus_connection_n_ever (const SondeBusConnection *self)
{
  return self->n_ever;
}

static void
has_answered (SondeBusConnection *self, sd_bus_message *call)
{
  self->n_calls -= sd_bus_message_get_expect_reply (call) > 0;
}

void
sonde_bus_connection_answer_error (SondeBusConnection *self,
                                   sd_bus_message *call,
                                   const GError *error)
{
  g_autofree char *name = g_dbus_error_encode_gerror (error);
  sd_bus_error failure = SD_BUS_ERROR_MAKE_CONST (name, error->message);

  sd_bus_reply_method_error (call, &failure);
  has_answered (self, call);
}

void
sonde_bus_connection_answer (SondeBusConnection *self,
                             sd_bus_message *call,
                             GVariant *value,
                             GUnixFDList *fds)
{
  sonde_deferring gboolean before = sonde_closer_defer (TRUE);
  g_autoptr (GError) error = NULL;
  sd_bus_message *message = NULL;
  int r = sd_bus_message_new_method_return (call, &message);

  if (r >= 0 && value != NULL)
    r = append_children (message, value, fds);
  if (r >= 0)
    r = sd_bus_send (self->bus, message, NULL);
  sd_bus_message_unref (message);
  /* Who has left wants none. Others would wait for it. */
  if (r >= 0 || r == -ECONNRESET || r == -EPIPE || r == -ENOTCONN || self->is_closed)
    {
      has_answered (self, call);
      return;
    }
  sonde_error_set_errno (&error, -r, "The answer cannot be sent");
  g_warning ("%s", error->message);
  sonde_bus_connection_answer_error (self, call, error);
}
