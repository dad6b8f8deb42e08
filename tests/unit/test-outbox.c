/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Datagrams to a receiver that takes none. */
#include "daemon/control/system/outbox.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"

/* A socket that nobody reads from, and its address. */
static int
open_receiver (char **address)
{
  struct sockaddr_un name = { .sun_family = AF_UNIX };
  socklen_t size = sizeof name.sun_family; /* the kernel gives it one */
  int fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  g_assert_cmpint (bind (fd, (struct sockaddr *) &name, size), ==, 0);
  size = sizeof name;
  g_assert_cmpint (getsockname (fd, (struct sockaddr *) &name, &size), ==, 0);
  *address
      = g_strdup_printf ("@%.*s", (int) (size - sizeof name.sun_family - 1), name.sun_path + 1);
  return fd;
}

/* (transfer full): NULL: there is none */
static GBytes *
receive (int receiver, int *fd)
{
  union
  {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (sizeof (int))];
  } control = { 0 };
  char text[1024];
  struct iovec part = { .iov_base = text, .iov_len = sizeof text };
  struct msghdr message = {
    .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  ssize_t size;

  while (g_main_context_iteration (NULL, FALSE))
    continue;
  size = recvmsg (receiver, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return NULL;
  if (message.msg_controllen > 0)
    memcpy (fd, CMSG_DATA (&control.header), sizeof *fd);
  return g_bytes_new (text, (gsize) size);
}

static gboolean
is_text (GBytes *datagram, const char *text)
{
  g_assert_nonnull (datagram);

  return g_bytes_get_size (datagram) == strlen (text)
         && memcmp (g_bytes_get_data (datagram, NULL), text, strlen (text)) == 0;
}

static void
test_order (void)
{
  g_autofree char *address = NULL;
  sonde_autofd int receiver = open_receiver (&address);
  g_autoptr (SondeOutbox) outbox = sonde_outbox_new (address);
  guint n_sent = 0;

  for (guint i = 0; i < 10000; i++)
    {
      g_autofree char *text = g_strdup_printf ("%u", i);

      n_sent += sonde_outbox_tell (outbox, text);
    }
  g_assert_cmpuint (n_sent, >, SONDE_LIMIT_OUTBOX);
  g_assert_cmpuint (n_sent, <, 10000);
  g_assert_cmpuint (sonde_outbox_n_lost (outbox), ==, 10000 - n_sent);
  for (guint i = 0; i < n_sent; i++)
    {
      g_autofree char *expected = g_strdup_printf ("%u", i);
      g_autoptr (GBytes) datagram = receive (receiver, NULL);

      g_assert_true (is_text (datagram, expected));
    }
  g_assert_true (sonde_outbox_tell (outbox, "more"));
}

static void
test_descriptors (void)
{
  g_autofree char *address = NULL;
  sonde_autofd int receiver = open_receiver (&address);
  g_autoptr (SondeOutbox) outbox = sonde_outbox_new (address);
  sonde_autofd int kept = -1;
  g_autoptr (GBytes) datagram = receive (receiver, NULL);
  int ends[2];
  guint n = 0;
  char byte;

  while (sonde_outbox_tell (outbox, "first") && ++n < 100)
    continue;
  g_assert_cmpint (pipe2 (ends, O_CLOEXEC), ==, 0);
  g_assert_true (sonde_outbox_send (outbox, "kept", 4, &ends[1], 1));
  close (ends[1]);
  do
    {
      g_clear_pointer (&datagram, g_bytes_unref);
      datagram = receive (receiver, &kept);
    }
  while (!is_text (datagram, "kept"));
  g_assert_cmpint (write (kept, "x", 1), ==, 1);
  g_assert_cmpint (read (ends[0], &byte, 1), ==, 1);
  close (ends[0]);
}

static void
test_nobody (void)
{
  g_autoptr (SondeOutbox) nobody = sonde_outbox_new (NULL);
  g_autoptr (SondeOutbox) gone = sonde_outbox_new ("/nonexistent/notify");

  g_assert_null (nobody);
  g_assert_true (sonde_outbox_tell (nobody, "READY=1"));
  g_assert_null (sonde_outbox_new ("relative"));
  g_assert_false (sonde_outbox_tell (gone, "READY=1"));
  g_assert_cmpuint (sonde_outbox_n_lost (gone), ==, 1);
}

static gboolean
write_record (SondeOutbox *journal, const char *message)
{
  const GLogField fields[] = { { "PRIORITY", "6", -1 }, { "MESSAGE", message, -1 } };

  return sonde_audit_write (journal, fields, G_N_ELEMENTS (fields)) == G_LOG_WRITER_HANDLED;
}

static void
test_journal (void)
{
  static const char whole[] = "PRIORITY\n\1\0\0\0\0\0\0\0006\nMESSAGE\n\7\0\0\0\0\0\0\0one\ntwo\n";
  g_autofree char *address = NULL;
  sonde_autofd int receiver = open_receiver (&address);
  g_autoptr (SondeOutbox) journal = sonde_outbox_new (address);
  g_autoptr (GBytes) record = NULL;
  const char *note = "last (1 records before this one are lost)\n";
  const char *bytes;
  gsize size;

  g_assert_true (write_record (journal, "one\ntwo"));
  record = receive (receiver, NULL);
  bytes = g_bytes_get_data (record, &size);
  g_assert_cmpmem (bytes, size, whole, sizeof whole - 1);
  while (write_record (journal, "more"))
    continue;
  while (record != NULL)
    {
      g_clear_pointer (&record, g_bytes_unref);
      record = receive (receiver, NULL);
    }
  g_assert_true (write_record (journal, "last"));
  record = receive (receiver, NULL);
  bytes = g_bytes_get_data (record, &size);
  g_assert_cmpuint (size, >, strlen (note));
  g_assert_cmpmem (bytes + size - strlen (note), strlen (note), note, strlen (note));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/outbox/keeps-the-order-and-counts-what-is-lost", test_order);
  g_test_add_func ("/outbox/keeps-descriptors-while-they-wait", test_descriptors);
  g_test_add_func ("/outbox/loses-what-nobody-hears", test_nobody);
  g_test_add_func ("/outbox/writes-records-and-how-many-are-lost", test_journal);
  return g_test_run ();
}
