/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes the number of descriptors out of the header of a D-Bus message, and sends that message,
 * with a foreign body, or nothing but foreign bytes, to sonded's end of a bus connection: the
 * bounded read builds values of it. Those of a call go to the readers of options and are sent back;
 * those of an answer and of a signal go to who asked for them. */
#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/bus-header.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/control/request/options.h"
#include "daemon/control/system/bus-connection.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/lib/packet-socket.h"

#define MAX_FDS        20
#define MAX_ITERATIONS 1000

/* How a message begins: its first byte. */
enum
{
  SIGNATURE = 15,     /* a row of the table, or one of the input's own */
  OWN_SIGNATURE = 14, /* a byte of length, and that many */
  IS_RAW = 15,        /* no header of ours */
  IS_FOREIGN = 16,    /* the other byte order */
  LEAVES = 32,        /* the client, before its message is read */
  KIND = 192,         /* else a call */
  IS_REPLY = 64,      /* to a call of ours */
  IS_SIGNAL = 128,
  IS_ERROR = 192,
};

/* In the second byte: the connection ends as sonded does, with what is under way. */
#define FREES 128

/* Of what sonded's methods take, and one value of each type. */
static const char *const signatures[]
    = { "a{sv}", "a(uh)", "ss", "s", "", "ybnqiuxtd", "sog", "h", "v", "a{s(av)}", "aas", "a{tv}" };

typedef struct
{
  SondeBusConnection *connection;
  GByteArray *message;
  unsigned n_calls;
  unsigned n_replies;
  unsigned n_flushed;
  gboolean is_ready;
  gboolean is_closed;
} Server;

/* --- the message --- */

static void
put_padding (GByteArray *message, guint alignment)
{
  static const guint8 zeroes[8] = { 0 };

  g_byte_array_append (message, zeroes, (alignment - message->len % alignment) % alignment);
}

static void
put_u32 (GByteArray *message, guint32 value, gboolean is_foreign)
{
  guint32 swapped = is_foreign ? GUINT32_SWAP_LE_BE (value) : value;

  put_padding (message, 4);
  g_byte_array_append (message, (const guint8 *) &swapped, sizeof swapped);
}

/* @type: 'o', 's', 'g', or 'u' with @number */
static void
put_field (GByteArray *message,
           guint8 code,
           char type,
           const char *text,
           guint32 number,
           gboolean is_foreign)
{
  const guint8 head[] = { code, 1, (guint8) type, 0 };
  guint8 length = text != NULL ? (guint8) strlen (text) : 0;

  put_padding (message, 8);
  g_byte_array_append (message, head, sizeof head);
  if (type == 'g')
    g_byte_array_append (message, &length, 1);
  else
    put_u32 (message, type == 'u' ? number : length, is_foreign);
  if (type != 'u')
    g_byte_array_append (message, (const guint8 *) text, length + 1U);
}

/* Source: D-Bus specification, "Message Format" */
static void
put_header (
    GByteArray *message, unsigned how, const char *signature, guint32 body_bytes, unsigned n_fds)
{
  gboolean is_foreign = (how & IS_FOREIGN) != 0;
  gboolean is_big = (G_BYTE_ORDER == G_BIG_ENDIAN) != is_foreign;
  unsigned kind = how & KIND;
  guint8 type = kind == IS_SIGNAL ? 4 : kind == IS_ERROR ? 3 : kind == IS_REPLY ? 2 : 1;
  const guint8 head[] = { is_big ? 'B' : 'l', type, 0, 1 };
  guint32 fields_bytes;

  g_byte_array_append (message, head, sizeof head);
  put_u32 (message, body_bytes, is_foreign);
  put_u32 (message, 1, is_foreign);
  put_u32 (message, 0, is_foreign); /* of the fields, told below */
  if (kind == 0 || kind == IS_SIGNAL)
    {
      put_field (message, 1, 'o', "/org/sonde/Profiler1", 0, is_foreign);
      put_field (message, 2, 's', "org.sonde.Profiler1.Manager", 0, is_foreign);
      put_field (message, 3, 's', "Profile", 0, is_foreign);
    }
  else
    put_field (message, 5, 'u', NULL, 1, is_foreign); /* our first message */
  if (kind == IS_ERROR)
    put_field (message, 4, 's', "org.freedesktop.DBus.Error.Failed", 0, is_foreign);
  if (signature[0] != '\0')
    put_field (message, 8, 'g', signature, 0, is_foreign);
  if (n_fds > 0)
    put_field (message, 9, 'u', NULL, n_fds, is_foreign);
  fields_bytes = message->len - 16;
  if (is_foreign)
    fields_bytes = GUINT32_SWAP_LE_BE (fields_bytes);
  memcpy (&message->data[12], &fields_bytes, sizeof fields_bytes);
  put_padding (message, 8);
}

static const char *
find_signature (unsigned how)
{
  return signatures[(how & SIGNATURE) % G_N_ELEMENTS (signatures)];
}

/* libsystemd 252 keeps the descriptors of a message whose header it does not take. The bus passes
 * none of these on, and a client of one's own has what we have. */
static gboolean
can_bring_fds (unsigned how, const Input *input)
{
  return (how & SIGNATURE) < OWN_SIGNATURE
         && (input->left == 0) == (find_signature (how)[0] == '\0');
}

static GByteArray *
make_message (Input *input, unsigned how, unsigned n_fds)
{
  GByteArray *message = g_byte_array_new ();
  char own[256] = "";
  const char *signature = own;

  if ((how & SIGNATURE) != IS_RAW)
    {
      if ((how & SIGNATURE) == OWN_SIGNATURE)
        input_take (input, own, input_take_byte (input));
      else
        signature = find_signature (how);
      put_header (message, how, signature, (guint32) input->left, n_fds);
    }
  g_byte_array_append (message, input->at, (guint) input->left);
  return message;
}

/* However it is cut into pieces, at most codes of fields change, and the same ones. */
static void
check_header (const GByteArray *message)
{
  g_autofree guint8 *whole = g_memdup2 (message->data, message->len);
  g_autofree guint8 *pieces = g_memdup2 (message->data, message->len);
  SondeBusHeader header;
  gboolean goes_on;
  gboolean still_goes_on = TRUE;

  sonde_bus_header_init (&header);
  goes_on = sonde_bus_header_hide_fds (&header, whole, message->len);
  sonde_bus_header_init (&header);
  for (gsize i = 0; i < message->len; i++)
    {
      still_goes_on = sonde_bus_header_hide_fds (&header, &pieces[i], 1);
      if (whole[i] != pieces[i]
          || (whole[i] != message->data[i] && (i % 8 != 0 || message->data[i] != 9)))
        abort ();
    }
  if (still_goes_on != goes_on)
    abort ();
}

/* --- sonded's end --- */

/* It goes into an answer. */
static void
check_error (const GError *error)
{
  if (error == NULL || error->domain != SONDE_ERROR || !g_utf8_validate (error->message, -1, NULL)
      || strlen (error->message) > 1024)
    abort ();
}

/* Every value that came is in one of the arrays; texts and entries are counted as limits.h says. */
static void
count (GVariant *value, gsize *n_entries, gsize *n_bytes)
{
  const char *type = g_variant_get_type_string (value);

  if (!g_variant_is_container (value))
    {
      if (strchr ("sog", type[0]) != NULL)
        *n_bytes += strlen (g_variant_get_string (value, NULL));
      return;
    }
  if (type[0] == 'a')
    *n_entries += g_variant_n_children (value);
  for (gsize i = 0; i < g_variant_n_children (value); i++)
    {
      g_autoptr (GVariant) child = g_variant_get_child_value (value, i);

      count (child, n_entries, n_bytes);
    }
}

static void
check_arguments (GVariant *arguments, sd_bus_message *message)
{
  g_autofree char *type = g_strdup_printf ("(%s)", sd_bus_message_get_signature (message, TRUE));
  gsize n_entries = 0;
  gsize n_bytes = 0;

  count (arguments, &n_entries, &n_bytes);
  if (!g_variant_is_normal_form (arguments)
      || !g_str_equal (g_variant_get_type_string (arguments), type)
      || n_entries > SONDE_LIMIT_MESSAGE_ENTRIES || n_bytes > SONDE_LIMIT_MESSAGE_TEXT)
    abort ();
}

static void
parse_options (GVariant *dict, GUnixFDList *fds)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) stream_error = NULL;
  g_autoptr (SondeOptions) options = sonde_options_parse (dict, fds, FALSE, &error);
  SondeStreamOptions stream_options;

  if (options == NULL)
    check_error (error);
  else
    {
      g_autoptr (GVariant) view = g_variant_ref_sink (sonde_options_to_variant (options));

      if (!g_variant_is_normal_form (view))
        abort ();
    }
  if (!sonde_stream_options_parse (dict, &stream_options, &stream_error))
    check_error (stream_error);
}

static gboolean
on_call (sd_bus_message *message, gpointer user_data)
{
  Server *self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) arguments = sonde_bus_connection_read (
      message, SONDE_LIMIT_MESSAGE_ENTRIES, SONDE_LIMIT_MESSAGE_TEXT, &fds, &error);

  self->n_calls++;
  if (arguments == NULL)
    {
      check_error (error);
      if (fds != NULL)
        abort ();
      sonde_bus_connection_answer_error (self->connection, message, error);
      return TRUE;
    }
  check_arguments (arguments, message);
  if (g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(a{sv})")))
    {
      g_autoptr (GVariant) dict = g_variant_get_child_value (arguments, 0);

      parse_options (dict, fds);
    }
  sonde_bus_connection_answer (self->connection, message, arguments, fds);
  return TRUE;
}

/* To a call that wants "(o)", and no more than once. */
static void
on_reply (GVariant *reply, const GError *error, gpointer user_data)
{
  Server *self = user_data;

  if (++self->n_replies > 1 || (reply == NULL) == (error == NULL)
      || (reply != NULL && !g_variant_is_of_type (reply, G_VARIANT_TYPE ("(o)")))
      || (error != NULL && error->message == NULL))
    abort ();
}

static void
on_signal (GVariant *arguments, gpointer user_data)
{
  Server *self = user_data;
  g_autoptr (GVariant) seen
      = g_variant_ref_sink (g_variant_new ("(s)", g_variant_get_type_string (arguments)));

  if (!g_variant_is_normal_form (arguments))
    abort ();
  sonde_bus_connection_emit (self->connection, NULL, "/org/sonde/Profiler1",
                             "org.sonde.Profiler1.Manager", "Seen", seen);
}

static void
on_flushed (gpointer user_data)
{
  Server *self = user_data;

  self->n_flushed++;
}

static void
on_ready (gpointer user_data)
{
  Server *self = user_data;

  if (self->is_ready)
    abort ();
  self->is_ready = TRUE;
}

static void
on_closed (gpointer user_data)
{
  Server *self = user_data;

  if (self->is_closed)
    abort ();
  self->is_closed = TRUE;
}

/* What there is to do has an end. */
static void
run (void)
{
  unsigned i = 0;

  while (g_main_context_iteration (NULL, FALSE))
    if (++i > MAX_ITERATIONS)
      abort ();
}

/* All at once, as clients may. */
static void
send_all (int peer, const GByteArray *message, unsigned n_fds)
{
  static const char greeting[] = "\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
  sonde_autofd int passed = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  int fds[MAX_FDS];

  for (unsigned i = 0; i < n_fds; i++)
    fds[i] = passed;
  if (write (peer, greeting, sizeof greeting - 1) < 0)
    abort ();
  /* Descriptors are no part of a greeting. */
  run ();
  if (message->len > 0)
    packet_socket_send (peer, message->data, message->len, fds, n_fds, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* GLib's own descriptors are there: those of the loop, and of the thread that GDBus has for names
 * of errors. */
static void
warm_up (void)
{
  g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, "");

  g_free (g_dbus_error_encode_gerror (error));
  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS", "nowhere", TRUE);
  if (sonde_bus_connection_new_system (NULL, NULL, NULL) != NULL)
    abort ();
  run ();
}

/* @reply: NULL: whatever it says */
static void
call (Server *self, SondeBusConnectionReply reply)
{
  const SondeBusConnectionCall get_unit = {
    .path = "/org/freedesktop/systemd1",
    .interface = "org.freedesktop.systemd1.Manager",
    .method = "GetUnit",
    .arguments = g_variant_new ("(s)", "cron.service"),
    .type = "(o)",
  };

  sonde_bus_connection_call (self->connection, &get_unit, reply, self);
}

static void
converse (Server *self, int *peer, unsigned how, unsigned n_fds)
{
  SondeSubscription *subscription
      = sonde_bus_connection_subscribe (self->connection, "type='signal'", on_signal, self);

  call (self, on_reply);
  if (sonde_bus_connection_bus_id (self->connection)[0] != '\0')
    abort ();
  send_all (*peer, self->message, n_fds & ~FREES);
  if ((n_fds & FREES) != 0)
    {
      call (self, NULL);
      sonde_bus_connection_flush (self->connection, on_flushed, self);
      run ();
      if (self->n_flushed != 1)
        abort ();
      sonde_bus_connection_unsubscribe (subscription);
      return;
    }
  if ((how & LEAVES) != 0)
    sonde_clear_fd (peer);
  run ();
  if (!self->is_closed && sonde_bus_connection_n_calls (self->connection) != 0)
    abort (); /* a call that got no answer */
  sonde_bus_connection_unsubscribe (subscription);
  sonde_bus_connection_flush (self->connection, on_flushed, self);
  sonde_clear_fd (peer);
  run ();
  if (self->n_flushed != 1 || !sonde_bus_connection_is_closed (self->connection)
      || self->n_replies != 1)
    abort ();
  /* Of one that cannot be sent any more, too, its caller hears. */
  self->n_replies = 0;
  call (self, on_reply);
  run ();
  if (self->n_replies != 1)
    abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const SondeBusConnectionHandler handler
      = { .ready = on_ready, .closed = on_closed, .call = on_call };
  Input input = { data, size };
  unsigned how = input_take_byte (&input);
  unsigned second = input_take_byte (&input);
  unsigned n_fds = (second & ~FREES) % (MAX_FDS + 1);
  Server server = { 0 };
  unsigned before;
  int fds[2];

  if (!can_bring_fds (how, &input))
    n_fds = 0;
  warm_up ();
  before = fuzz_count_fds ();
  server.message = make_message (&input, how, n_fds);
  check_header (server.message);
  if (!sonde_socketpair (SOCK_STREAM | SOCK_NONBLOCK, fds, NULL))
    abort ();
  server.connection = sonde_bus_connection_new_peer (fds[0], &handler, &server, NULL);
  if (server.connection == NULL)
    abort ();
  converse (&server, &fds[1], how, n_fds | (second & FREES));
  sonde_bus_connection_free (server.connection);
  sonde_clear_fd (&fds[1]);
  g_byte_array_unref (server.message);
  fuzz_await_fds (before);

  return 0;
}
