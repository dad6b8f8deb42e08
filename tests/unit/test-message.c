/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of the judge of control messages. */
#include "daemon/base/message.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

static void
assert_refused (
    const void *bytes, uint64_t size, unsigned n_fds, int from_worker, const char *expected)
{
  const char *why = NULL;

  g_assert_cmpint (sonde_message_check (bytes, size, n_fds, from_worker, &why), ==, -EBADMSG);
  g_assert_cmpstr (why, ==, expected);
}

static SondeMessageSetup
good_setup (void)
{
  SondeMessageSetup setup = {
    .header = { SONDE_MESSAGE_SETUP, sizeof setup },
    .version = SONDE_MESSAGE_VERSION,
    .stack_size_bytes = 16384,
    .max_depth = 256,
    .unwind = SONDE_UNWIND_DWARF,
    .event = "cpu-clock",
    .scope = "targets",
  };

  return setup;
}

static void
accepts_setup (void)
{
  SondeMessageSetup setup = good_setup ();
  const char *why = NULL;

  g_assert_cmpint (sonde_message_check (&setup, sizeof setup, 0, FALSE, &why), ==, 0);
}

static void
refuses_every_truncation (void)
{
  SondeMessageSetup setup = good_setup ();
  const char *why = NULL;

  for (size_t size = 0; size < sizeof setup; size++)
    {
      g_assert_cmpint (sonde_message_check (&setup, size, 0, FALSE, &why), ==, -EBADMSG);
      setup.header.size = (uint32_t) size;
      g_assert_cmpint (sonde_message_check (&setup, size, 0, FALSE, &why), ==, -EBADMSG);
      setup.header.size = sizeof setup;
    }
}

static SondeMessageSink
good_sink (SondeSinkKind kind)
{
  SondeMessageSink sink = { .header = { SONDE_MESSAGE_SINK, sizeof sink },
                            .sink_id = 1,
                            .kind = kind,
                            .buffer_size_bytes = 65536,
                            .frames = SONDE_SINK_FRAMES_SAMPLES,
                            .max_bytes = kind == SONDE_SINK_FILE ? 4096 : 0,
                            .n_pids = 2,
                            .pids = { 1, 2 } };

  return sink;
}

static void
refuses_documents_that_cannot_be (void)
{
  SondeMessageDocument document
      = { .header = { SONDE_MESSAGE_DOCUMENT, sizeof document }, .kind = SONDE_DOCUMENT_MOUNTINFO };
  const char *why = NULL;

  assert_refused (&document, sizeof document, 1, FALSE, "impossible process");
  document.pid = -1;
  assert_refused (&document, sizeof document, 1, FALSE, "impossible process");
  document.pid = 7;
  g_assert_cmpint (sonde_message_check (&document, sizeof document, 1, FALSE, &why), ==, 0);
  document.kind = SONDE_DOCUMENT_MOUNTS;
  assert_refused (&document, sizeof document, 1, FALSE, "impossible process");
  document.kind = SONDE_DOCUMENT_MOUNTINFO + 1;
  assert_refused (&document, sizeof document, 1, FALSE, "unknown document");
}

static void
refuses_sinks_that_cannot_be (void)
{
  SondeMessageSink sink;
  const char *why = NULL;

#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    sink = good_sink (SONDE_SINK_STREAM);                                                          \
    change;                                                                                        \
    assert_refused (&sink, sizeof sink, 1, FALSE, expected);                                       \
  }                                                                                                \
  G_STMT_END
  REFUSE (sink.sink_id = 0, "impossible sink");
  REFUSE (sink.buffer_size_bytes = 0, "impossible sink");
  REFUSE (sink.padding = 1, "impossible sink");
  REFUSE (sink.kind = 0, "unknown kind of sink");
  REFUSE (sink.kind = 3, "unknown kind of sink");
  REFUSE (sink.max_bytes = 1, "size limit does not fit the kind of sink");
  REFUSE (sink.kind = SONDE_SINK_FILE, "size limit does not fit the kind of sink");
  REFUSE (sink.frames = SONDE_SINK_FRAMES_ALL + 1, "unknown kinds of frames");
  REFUSE (sink.n_pids = SONDE_MESSAGE_SINK_MAX_PIDS + 1, "too many processes");
  REFUSE (sink.n_pids = 3, "impossible process");
  REFUSE (sink.n_pids = 1, "impossible process");
  REFUSE (sink.pids[1] = -2, "impossible process");
#undef REFUSE
  for (SondeSinkKind kind = SONDE_SINK_STREAM; kind <= SONDE_SINK_FILE; kind++)
    {
      sink = good_sink (kind);
      g_assert_cmpint (sonde_message_check (&sink, sizeof sink, 1, FALSE, &why), ==, 0);
    }
}

static void
refuses_setup_fields_out_of_range (void)
{
  SondeMessageSetup setup = good_setup ();

  setup.version++;
  assert_refused (&setup, sizeof setup, 0, FALSE, "another version of the protocol");
  setup = good_setup ();
  setup.flags = 1u << 31;
  assert_refused (&setup, sizeof setup, 0, FALSE, "unknown flags");
  setup = good_setup ();
  setup.unwind = 4;
  assert_refused (&setup, sizeof setup, 0, FALSE, "unknown unwind mode");
  setup = good_setup ();
  setup.stack_size_bytes = 12;
  assert_refused (&setup, sizeof setup, 0, FALSE, "stack size out of range");
  setup = good_setup ();
  setup.max_depth = 0;
  assert_refused (&setup, sizeof setup, 0, FALSE, "depth out of range");
  setup = good_setup ();
  memset (setup.event, 'x', sizeof setup.event);
  assert_refused (&setup, sizeof setup, 0, FALSE, "a text without its end");
}

static void
refuses_the_other_sides_messages (void)
{
  SondeMessageSetup setup = good_setup ();
  SondeMessageHello hello
      = { .header = { SONDE_MESSAGE_HELLO, sizeof hello }, .version = SONDE_MESSAGE_VERSION };

  assert_refused (&setup, sizeof setup, 0, TRUE, "not this side's to send");
  assert_refused (&hello, sizeof hello, 0, FALSE, "not this side's to send");
}

static void
refuses_foreign_types (void)
{
  static const uint32_t types[] = { 0, 99, 100, 199, 255, UINT32_MAX };

  for (size_t i = 0; i < G_N_ELEMENTS (types); i++)
    {
      SondeMessageHeader header = { types[i], sizeof header };

      assert_refused (&header, sizeof header, 0, FALSE, "unknown type");
      assert_refused (&header, sizeof header, 0, TRUE, "unknown type");
    }
}

static void
refuses_descriptors_that_do_not_belong (void)
{
  SondeMessageSetup setup = good_setup ();
  SondeMessageFile file = { .header = { SONDE_MESSAGE_FILE, sizeof file }, .request_id = 1 };
  SondeMessageProcess process = { .header = { SONDE_MESSAGE_PROCESS, sizeof process },
                                  .pid = 1,
                                  .fds = SONDE_PROCESS_FD_MAPS };

  assert_refused (&setup, sizeof setup, 1, FALSE, "wrong number of descriptors");
  assert_refused (&file, sizeof file, 0, FALSE, "descriptor does not fit the status");
  file.status = ENOENT;
  assert_refused (&file, sizeof file, 1, FALSE, "descriptor does not fit the status");
  assert_refused (&process, sizeof process, 0, FALSE, "descriptors do not fit their flags");
  assert_refused (&process, sizeof process, 2, FALSE, "descriptors do not fit their flags");
  process.fds = 1u << 7;
  assert_refused (&process, sizeof process, 1, FALSE, "unknown descriptors");
}

static void
refuses_event_counts_that_lie (void)
{
  union
  {
    SondeMessageEvents events;
    char bytes[sizeof (SondeMessageEvents) + 2 * sizeof (SondeMessageEvent)];
  } message = { .events = { .header = { SONDE_MESSAGE_EVENTS, sizeof message }, .n_events = 2 } };
  const char *why = NULL;

  for (unsigned i = 0; i < 2; i++)
    message.events.events[i]
        = (SondeMessageEvent){ .cpu = 0, .tid = -1, .kind = SONDE_EVENT_SAMPLES };
  g_assert_cmpint (sonde_message_check (&message, sizeof message, 2, FALSE, &why), ==, 0);
  assert_refused (&message, sizeof message, 1, FALSE, "not one descriptor per event");
  message.events.n_more = 1;
  assert_refused (&message, sizeof message, 2, FALSE, "number of further events out of range");
  message.events.header.type = SONDE_MESSAGE_RINGS;
  g_assert_cmpint (sonde_message_check (&message, sizeof message, 2, FALSE, &why), ==, 0);
  message.events.n_more = SONDE_MESSAGE_MAX_RINGS + 1;
  assert_refused (&message, sizeof message, 2, FALSE, "number of further events out of range");
  message.events.header.type = SONDE_MESSAGE_EVENTS;
  message.events.n_more = 0;
  message.events.n_events = 3;
  assert_refused (&message, sizeof message, 3, FALSE, "size does not fit the number of events");
  message.events.n_events = 0;
  assert_refused (&message, sizeof message, 2, FALSE, "number of events out of range");
  message.events.n_events = 2;
  message.events.events[1].kind = 9;
  assert_refused (&message, sizeof message, 2, FALSE, "unknown kind of event");
  message.events.events[1].kind = SONDE_EVENT_SIDEBAND;
  message.events.events[1].cpu = -1;
  assert_refused (&message, sizeof message, 2, FALSE, "impossible event");
}

static void
refuses_requests_without_a_process (void)
{
  SondeMessageFileRequest request
      = { .header = { SONDE_MESSAGE_FILE_REQUEST, sizeof request }, .request_id = 1 };

  assert_refused (&request, sizeof request, 0, TRUE, "impossible request");
  request.pid = -5;
  assert_refused (&request, sizeof request, 0, TRUE, "impossible request");
}

static void
refuses_failure_texts_that_could_forge_a_log_line (void)
{
  SondeMessageFailed failed = { .header = { SONDE_MESSAGE_FAILED, sizeof failed } };

  g_strlcpy (failed.text, "bad\nroot: all is well", sizeof failed.text);
  assert_refused (&failed, sizeof failed, 0, TRUE, "text is not printable");
}

static void
refuses_lists_of_sinks_that_cannot_be (void)
{
  SondeMessageSinks sinks
      = { .header = { SONDE_MESSAGE_SINKS, sizeof sinks }, .n_sinks = 1, .sink_ids = { 7 } };
  const char *why = NULL;

  g_assert_cmpint (sonde_message_check (&sinks, sizeof sinks, 0, TRUE, &why), ==, 0);
  sinks.n_sinks = SONDE_MESSAGE_MAX_SINKS + 1;
  assert_refused (&sinks, sizeof sinks, 0, TRUE, "impossible sinks");
  sinks.n_sinks = 2;
  assert_refused (&sinks, sizeof sinks, 0, TRUE, "impossible sinks");
  sinks.n_sinks = 0;
  assert_refused (&sinks, sizeof sinks, 0, TRUE, "impossible sinks");
  sinks.n_sinks = 1;
  sinks.padding = 1;
  assert_refused (&sinks, sizeof sinks, 0, TRUE, "impossible sinks");
}

static void
refuses_counters_that_cannot_be (void)
{
  SondeMessageCounters counters
      = { .header = { SONDE_MESSAGE_COUNTERS, sizeof counters }, .kind = SONDE_COUNTER_KIND_CPU };
  SondeMessageCountersRequest request
      = { .header = { SONDE_MESSAGE_COUNTERS_REQUEST, sizeof request }, .pid = 1 };
  const char *why = NULL;

  g_assert_cmpint (sonde_message_check (&counters, sizeof counters, 1, FALSE, &why), ==, 0);
  assert_refused (&counters, sizeof counters, 0, FALSE, "wrong number of descriptors");
  assert_refused (&counters, sizeof counters, 2, FALSE, "wrong number of descriptors");
  counters.pid = 1;
  assert_refused (&counters, sizeof counters, 1, FALSE, "impossible process");
  counters.kind = SONDE_COUNTER_KIND_PROCESS;
  g_assert_cmpint (sonde_message_check (&counters, sizeof counters, 1, FALSE, &why), ==, 0);
  g_assert_cmpint (sonde_message_check (&counters, sizeof counters, 0, FALSE, &why), ==, 0);
  counters.pid = 0;
  assert_refused (&counters, sizeof counters, 1, FALSE, "impossible process");
  counters.kind = SONDE_COUNTER_KIND_PROCESS + 1;
  assert_refused (&counters, sizeof counters, 1, FALSE, "unknown kind of counters");
  counters.kind = 0;
  assert_refused (&counters, sizeof counters, 1, FALSE, "unknown kind of counters");

  g_assert_cmpint (sonde_message_check (&request, sizeof request, 0, TRUE, &why), ==, 0);
  request.padding = 1;
  assert_refused (&request, sizeof request, 0, TRUE, "impossible request");
  request.padding = 0;
  request.pid = 0;
  assert_refused (&request, sizeof request, 0, TRUE, "impossible request");
}

static void
names_every_statistic_once (void)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (int i = 0; i < SONDE_N_STATISTICS; i++)
    {
      const char *name = sonde_statistic_name ((SondeStatistic) i);

      g_assert_nonnull (name);
      g_assert_true (g_hash_table_add (seen, (char *) name));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/message/refuses-documents-that-cannot-be", refuses_documents_that_cannot_be);
  g_test_add_func ("/message/refuses-sinks-that-cannot-be", refuses_sinks_that_cannot_be);
  g_test_add_func ("/message/accepts-setup", accepts_setup);
  g_test_add_func ("/message/refuses-every-truncation", refuses_every_truncation);
  g_test_add_func ("/message/refuses-setup-fields-out-of-range", refuses_setup_fields_out_of_range);
  g_test_add_func ("/message/refuses-the-other-sides-messages", refuses_the_other_sides_messages);
  g_test_add_func ("/message/refuses-foreign-types", refuses_foreign_types);
  g_test_add_func ("/message/refuses-descriptors-that-do-not-belong",
                   refuses_descriptors_that_do_not_belong);
  g_test_add_func ("/message/refuses-event-counts-that-lie", refuses_event_counts_that_lie);
  g_test_add_func ("/message/refuses-requests-without-a-process",
                   refuses_requests_without_a_process);
  g_test_add_func ("/message/refuses-failure-texts-that-could-forge-a-log-line",
                   refuses_failure_texts_that_could_forge_a_log_line);
  g_test_add_func ("/message/refuses-lists-of-sinks-that-cannot-be",
                   refuses_lists_of_sinks_that_cannot_be);
  g_test_add_func ("/message/refuses-counters-that-cannot-be", refuses_counters_that_cannot_be);
  g_test_add_func ("/message/names-every-statistic-once", names_every_statistic_once);
  return g_test_run ();
}
