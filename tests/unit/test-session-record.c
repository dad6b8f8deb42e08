/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Records of sessions from one sonded to the next, and what is not believed of them. */
#include "daemon/control/request/session-record.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static SondeSessionRecord *
good_record (void)
{
  SondeSessionRecord *record = sonde_session_record_new ();
  SondeRecordSink sink = { .id = 1, .reader = g_strdup (":1.7") };

  record->id = 3;
  record->bus_id = g_strdup ("0123");
  record->owner = g_strdup (":1.7");
  record->owner_uid = 1000;
  record->options = g_variant_ref_sink (g_variant_new_parsed ("{'system': <true>}"));
  record->description = g_strdup ("session: the whole machine");
  record->start_time_us = 12;
  record->live_since_us = 13;
  record->state = SONDE_STATE_RUNNING;
  record->statistics[2] = 14;
  record->worker_pid = 15;
  record->broker_pid = 16;
  record->n_additions = 17;
  record->is_broken = TRUE;
  record->rendezvous = g_strdup ("@sonde/1:2");
  record->last_sink_id = 2;
  g_array_append_val (record->sinks, sink);
  return record;
}

static void
comes_back_as_it_was_written (void)
{
  g_autoptr (SondeSessionRecord) written = good_record ();
  g_autoptr (SondeSessionRecord) record = NULL;
  g_autoptr (GError) error = NULL;
  sonde_autofd int fd = sonde_session_record_write (written, &error);

  g_assert_no_error (error);
  g_assert_cmpint (write (fd, "", 1), ==, -1); /* sealed */
  record = sonde_session_record_read (fd, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (record->id, ==, 3);
  g_assert_cmpstr (record->owner, ==, ":1.7");
  g_assert_cmpuint (record->owner_uid, ==, 1000);
  g_assert_true (g_variant_equal (record->options, written->options));
  g_assert_cmpint (record->state, ==, SONDE_STATE_RUNNING);
  g_assert_null (record->reason);
  g_assert_null (record->capture_file);
  g_assert_cmpmem (record->statistics, sizeof record->statistics, written->statistics,
                   sizeof written->statistics);
  g_assert_cmpint (record->worker_pid, ==, 15);
  g_assert_cmpint (record->broker_pid, ==, 16);
  g_assert_cmpuint (record->n_additions, ==, 17);
  g_assert_true (record->is_broken);
  g_assert_cmpstr (record->rendezvous, ==, "@sonde/1:2");
  g_assert_cmpstr (g_array_index (record->sinks, SondeRecordSink, 0).reader, ==, ":1.7");
}

static void
assert_refused (int fd, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeSessionRecord) record = sonde_session_record_read (fd, &error);

  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_null (record);
  if (strstr (error->message, expected) == NULL)
    g_error ("\"%s\" does not say \"%s\"", error->message, expected);
}

#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    g_autoptr (SondeSessionRecord) record = good_record ();                                        \
    sonde_autofd int fd = -1;                                                                      \
                                                                                                   \
    change;                                                                                        \
    fd = sonde_session_record_write (record, NULL);                                                \
    assert_refused (fd, expected);                                                                 \
  }                                                                                                \
  G_STMT_END

static void
refuses_values_that_cannot_be (void)
{
  REFUSE (record->id = 0, "no number");
  REFUSE (g_clear_pointer (&record->owner, g_free), "no number, owner");
  REFUSE (g_clear_pointer (&record->bus_id, g_free), "no number, owner, bus");
  REFUSE (record->state = SONDE_STATE_STARTING, "impossible state");
  REFUSE (record->state = SONDE_N_STATES, "impossible state");
  REFUSE (record->state = SONDE_STATE_DRAINING, "without a reason");
  REFUSE (record->worker_pid = 0, "no worker");
  REFUSE (record->worker_pid = -1, "no worker");
  REFUSE (record->broker_pid = -1, "impossible broker");
  REFUSE (record->n_additions = SONDE_LIMIT_CALLS + 1, "impossible broker");
  REFUSE (record->is_lasting = TRUE, "capture file");
  REFUSE (record->id = G_MAXUINT64, "impossible number or time");
  REFUSE (record->live_since_us = G_MININT64, "impossible number or time");
  REFUSE (record->last_sink_id = 0, "impossible sinks");
  REFUSE (g_array_index (record->sinks, SondeRecordSink, 0).id = 0, "impossible sinks");
}

/* A copy of a good one, changed, with the seals that are wanted. */
static int
make_copy (gsize at, gsize size_bytes, int seals)
{
  g_autoptr (SondeSessionRecord) record = good_record ();
  sonde_autofd int good = sonde_session_record_write (record, NULL);
  char bytes[8192];
  gssize n = pread (good, bytes, sizeof bytes, 0);
  int fd = memfd_create ("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  g_assert_cmpint (n, >, 0);
  g_assert_cmpint (n, <, sizeof bytes);
  bytes[at] ^= (char) 0x55;
  n = MIN (n, (gssize) size_bytes);
  g_assert_cmpint (write (fd, bytes, (gsize) n), ==, n);
  if (seals != 0)
    g_assert_cmpint (fcntl (fd, F_ADD_SEALS, seals), ==, 0);
  return fd;
}

static void
refuses_what_is_no_record (void)
{
  static const struct
  {
    gsize at;
    gsize size_bytes;
    int seals;
    const char *expected;
  } cases[] = {
    { 0, 8192, 0, "not a sealed memfd" },
    { 0, 8192, F_SEAL_WRITE, "not a sealed memfd" },
    { 0, 8, ALL_SEALS, "size out of range" },
    { 0, 8192, ALL_SEALS, "another version" }, /* magic, version, protocol, size */
    { 4, 8192, ALL_SEALS, "another version" },
    { 8, 8192, ALL_SEALS, "another version" },
    { 12, 8192, ALL_SEALS, "size is not what it says" },
    { 17, 100, ALL_SEALS, "size is not what it says" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      sonde_autofd int fd = make_copy (cases[i].at, cases[i].size_bytes, cases[i].seals);

      assert_refused (fd, cases[i].expected);
    }
}

/* Behind the header: magic, version, protocol, size. Who changes a key or a type raises the version
 * in session-record.c, and then says both here. */
static void
changes_its_layout_with_its_version (void)
{
  g_autoptr (SondeSessionRecord) record = good_record ();
  sonde_autofd int fd = sonde_session_record_write (record, NULL);
  g_autoptr (GString) layout = g_string_new (NULL);
  g_autoptr (GVariant) dict = NULL;
  g_autofree char *sum = NULL;
  guint32 words[2048];
  gssize n = pread (fd, words, sizeof words, 0);
  GVariantIter iter;
  const char *key;
  GVariant *value;

  g_assert_cmpint (n, >, 16);
  dict = g_variant_ref_sink (g_variant_new_from_data (G_VARIANT_TYPE_VARDICT, &words[4],
                                                      (gsize) n - 16, FALSE, NULL, NULL));
  g_variant_iter_init (&iter, dict);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    g_string_append_printf (layout, "%s %s\n", key, g_variant_get_type_string (value));
  sum = g_compute_checksum_for_string (G_CHECKSUM_MD5, layout->str, -1);
  g_test_message ("%s", layout->str);
  g_assert_cmpuint (words[1], ==, 2);
  g_assert_cmpstr (sum, ==, "5a4184680d39f1ed3354c471fb7e35f3");
}

/* Of Sonde 0.1.0, which was its own broker: with the lists of that, which are passed over, and a
 * count less. */
static void
reads_one_of_the_first_version (void)
{
  g_autoptr (GVariant) dict = g_variant_ref_sink (g_variant_new_parsed (
      "{'id': <uint64 3>, 'bus-id': <'0123'>, 'owner': <':1.7'>, 'owner-uid': <uint32 1000>,"
      " 'owner-pid': <9>, 'options': <{'system': <true>}>, 'description': <'x'>,"
      " 'start-time': <uint64 12>, 'live-since': <int64 13>, 'state': <uint32 2>, 'reason': <''>,"
      " 'statistics': <[uint64 4, 5]>, 'worker-pid': <15>, 'is-lasting': <false>,"
      " 'capture-file': <''>, 'capture-max-bytes': <uint64 0>, 'group': <''>, 'note': <''>,"
      " 'n-events': <uint32 7>, 'last-sink-id': <uint32 2>, 'sinks': <[(uint32 1, ':1.7')]>,"
      " 'targets': <[(4, uint32 5, uint64 6, uint64 7, true)]>,"
      " 'rings': <[(uint64 8, 1, uint32 2)]>}"));
  const guint32 header[4] = { 0x534f4e44, 1, 1, (guint32) g_variant_get_size (dict) };
  sonde_autofd int fd = memfd_create ("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  g_autoptr (SondeSessionRecord) record = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (write (fd, header, sizeof header), ==, sizeof header);
  g_assert_cmpint (write (fd, g_variant_get_data (dict), header[3]), ==, (gssize) header[3]);
  g_assert_cmpint (fcntl (fd, F_ADD_SEALS, ALL_SEALS), ==, 0);
  record = sonde_session_record_read (fd, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (record->protocol, ==, 1);
  g_assert_cmpint (record->worker_pid, ==, 15);
  g_assert_cmpint (record->broker_pid, ==, 0);
  g_assert_cmpuint (record->statistics[1], ==, 5);
  g_assert_cmpuint (record->statistics[2], ==, 0);
}

/* Whatever byte is changed: it is read or refused, and nothing else happens. */
static void
survives_any_changed_byte (void)
{
  for (gsize at = 16; at < 1200; at++)
    {
      sonde_autofd int fd = make_copy (at, 8192, ALL_SEALS);
      g_autoptr (GError) error = NULL;
      g_autoptr (SondeSessionRecord) record = sonde_session_record_read (fd, &error);

      g_assert_true ((record == NULL) == (error != NULL));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session-record/refuses-values-that-cannot-be", refuses_values_that_cannot_be);
  g_test_add_func ("/session-record/refuses-what-is-no-record", refuses_what_is_no_record);
  g_test_add_func ("/session-record/survives-any-changed-byte", survives_any_changed_byte);
  g_test_add_func ("/session-record/changes-its-layout-with-its-version",
                   changes_its_layout_with_its_version);
  g_test_add_func ("/session-record/reads-one-of-the-first-version",
                   reads_one_of_the_first_version);
  g_test_add_func ("/session-record/comes-back-as-it-was-written", comes_back_as_it_was_written);
  return g_test_run ();
}
