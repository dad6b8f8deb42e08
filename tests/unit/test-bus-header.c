/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The header of a message whose descriptors are not taken, in whatever pieces it comes. */
#include "daemon/base/bus-header.h"

#include <gio/gunixfdlist.h>
#include <string.h>
#include <unistd.h>

/* As a client may send it. @n_fds: that its header tells of */
static GByteArray *
make_message (GDBusMessageByteOrder order, guint n_fds)
{
  g_autoptr (GDBusMessage) message = g_dbus_message_new_method_call (
      "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager", "Profile");
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  guchar *bytes;
  gsize size;

  g_dbus_message_set_byte_order (message, order);
  g_dbus_message_set_serial (message, 1);
  g_dbus_message_set_sender (message, ":1.99");
  g_dbus_message_set_body (message, g_variant_new ("(yh)", 9, 0));
  for (guint i = 0; i < n_fds; i++)
    g_unix_fd_list_append (fds, STDIN_FILENO, &error);
  g_assert_no_error (error);
  if (n_fds > 0)
    g_dbus_message_set_unix_fd_list (message, fds);
  bytes = g_dbus_message_to_blob (message, &size, G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING, &error);
  g_assert_no_error (error);
  return g_byte_array_new_take (bytes, size);
}

/* Returns: how many bytes are others now, and the last of them in @place */
static guint
count_changes (const GByteArray *before, const GByteArray *after, gsize *place)
{
  guint n = 0;

  for (gsize i = 0; i < before->len; i++)
    if (before->data[i] != after->data[i])
      {
        *place = i;
        n++;
      }
  return n;
}

static GByteArray *
hide (const GByteArray *message, gsize n_at_once)
{
  GByteArray *changed = g_byte_array_new ();
  SondeBusHeader header;
  gboolean goes_on = TRUE;

  g_byte_array_append (changed, message->data, message->len);
  sonde_bus_header_init (&header);
  for (gsize at = 0; at < changed->len && goes_on; at += n_at_once)
    goes_on = sonde_bus_header_hide_fds (&header, &changed->data[at],
                                         MIN (n_at_once, changed->len - at));
  g_assert_false (goes_on);
  return changed;
}

static void
test_pieces (void)
{
  static const GDBusMessageByteOrder orders[]
      = { G_DBUS_MESSAGE_BYTE_ORDER_LITTLE_ENDIAN, G_DBUS_MESSAGE_BYTE_ORDER_BIG_ENDIAN };

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      g_autoptr (GByteArray) message = make_message (orders[i], 3);

      for (gsize n = 1; n <= message->len; n++)
        {
          g_autoptr (GByteArray) changed = hide (message, n);
          g_autoptr (GDBusMessage) read = NULL;
          g_autoptr (GError) error = NULL;
          gsize place = 0;

          g_assert_cmpuint (count_changes (message, changed, &place), ==, 1);
          g_assert_cmpuint (message->data[place], ==, G_DBUS_MESSAGE_HEADER_FIELD_NUM_UNIX_FDS);
          read = g_dbus_message_new_from_blob (changed->data, changed->len,
                                               G_DBUS_CAPABILITY_FLAGS_NONE, &error);
          g_assert_no_error (error);
          g_assert_cmpuint (g_dbus_message_get_num_unix_fds (read), ==, 0);
          g_assert_cmpstr (g_dbus_message_get_member (read), ==, "Profile");
          g_assert_cmpstr (g_dbus_message_get_sender (read), ==, ":1.99");
          g_assert_cmpstr (g_dbus_message_get_signature (read), ==, "yh");
        }
    }
}

static void
test_none (void)
{
  g_autoptr (GByteArray) message = make_message (G_DBUS_MESSAGE_BYTE_ORDER_LITTLE_ENDIAN, 0);
  g_autoptr (GByteArray) changed = hide (message, 1);
  gsize place;

  g_assert_cmpuint (count_changes (message, changed, &place), ==, 0);
}

/* Whatever it is, it has an end, and nothing but codes of fields changes. */
static void
test_garbage (void)
{
  g_autoptr (GByteArray) message = make_message (G_DBUS_MESSAGE_BYTE_ORDER_LITTLE_ENDIAN, 3);
  static const guint8 values[] = { 0, 1, 9, 127, 255 };

  for (gsize i = 0; i < message->len; i++)
    for (guint j = 0; j < G_N_ELEMENTS (values); j++)
      {
        g_autoptr (GByteArray) broken = g_byte_array_new ();
        g_autoptr (GByteArray) before = g_byte_array_new ();
        SondeBusHeader header;

        g_byte_array_append (broken, message->data, message->len);
        broken->data[i] = values[j];
        g_byte_array_append (before, broken->data, broken->len);
        sonde_bus_header_init (&header);
        sonde_bus_header_hide_fds (&header, broken->data, broken->len);
        for (gsize k = 0; k < broken->len; k++)
          if (broken->data[k] != before->data[k])
            {
              g_assert_cmpuint (k % 8, ==, 0);
              g_assert_cmpuint (before->data[k], ==, G_DBUS_MESSAGE_HEADER_FIELD_NUM_UNIX_FDS);
            }
      }
}

static void
assert_over (const char *text, gsize size)
{
  g_autoptr (GByteArray) message = g_byte_array_new ();
  SondeBusHeader header;

  g_byte_array_append (message, (const guint8 *) text, (guint) size);
  sonde_bus_header_init (&header);
  g_assert_false (sonde_bus_header_hide_fds (&header, message->data, message->len));
  g_assert_cmpmem (message->data, message->len, text, size);
  g_assert_false (sonde_bus_header_hide_fds (&header, message->data, message->len));
  g_assert_cmpmem (message->data, message->len, text, size);
}

static void
test_refused (void)
{
#define FIXED(order, version, n) order "\1\0" version "\0\0\0\0\1\0\0\0" n
  static const char no_order[] = FIXED ("x", "\1", "\x10\0\0\0") "\11\1u\0\1\0\0\0";
  static const char other_version[] = FIXED ("l", "\2", "\x10\0\0\0") "\11\1u\0\1\0\0\0";
  static const char too_long[] = FIXED ("l", "\1", "\x10\0\0\x10") "\11\1u\0\1\0\0\0";
  static const char no_fields[] = FIXED ("l", "\1", "\0\0\0\0") "\11\1u\0\1\0\0\0";
  static const char other_type[] = FIXED ("l", "\1", "\x20\0\0\0") "\12\1t\0\0\0\0\0\11\1u\0";
  static const char more_types[] = FIXED ("l", "\1", "\x20\0\0\0") "\12\2uu\0\0\0\0\11\1u\0";
  static const char no_end[] = FIXED ("l", "\1", "\x20\0\0\0") "\12\1u\1\0\0\0\0\11\1u\0";

  assert_over (no_order, sizeof no_order - 1);
  assert_over (other_version, sizeof other_version - 1);
  assert_over (too_long, sizeof too_long - 1);
  assert_over (no_fields, sizeof no_fields - 1);
  assert_over (other_type, sizeof other_type - 1);
  assert_over (more_types, sizeof more_types - 1);
  assert_over (no_end, sizeof no_end - 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/bus-header/hides-the-number-in-whatever-pieces", test_pieces);
  g_test_add_func ("/bus-header/leaves-a-message-without-descriptors", test_none);
  g_test_add_func ("/bus-header/changes-nothing-but-codes-of-fields", test_garbage);
  g_test_add_func ("/bus-header/leaves-what-is-no-header", test_refused);
  return g_test_run ();
}
