/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program built with Debian's libsysprof-capture-4 delivers through our rings. */
#include <glib.h>
#include <sys/socket.h>

#include <sysprof-capture.h>

#include "tests/lib/control-server.h"

#define N_THREADS 3
#define N_EVENTS  200

static int
trace_stack (SysprofCaptureAddress *addrs, unsigned n_addrs, void *user_data)
{
  for (unsigned i = 0; i < 8 && i < n_addrs; i++)
    addrs[i] = 0x1000 + i;

  return 8;
}

static gpointer
make_events (gpointer data)
{
  for (guint i = 0; i < N_EVENTS; i++)
    {
      sysprof_collector_mark (1000 + i, 5, "group", "mark", "a message");
      sysprof_collector_log (64, "domain", "a line");
      sysprof_collector_allocate (0x5000 + i, 64, trace_stack, NULL);
    }

  return NULL;
}

static int
run_collector (void)
{
  SysprofCaptureCounter counter
      = { .category = "c", .name = "n", .type = SYSPROF_CAPTURE_COUNTER_INT64 };
  SysprofCaptureCounterValue value = { .v64 = 7 };
  GThread *threads[N_THREADS];
  guint id;

  sysprof_collector_init ();
  if (!sysprof_collector_is_active ())
    return 1;
  id = sysprof_collector_request_counters (1);
  counter.id = id;
  sysprof_collector_define_counters (&counter, 1);
  sysprof_collector_set_counters (&id, &value, 1);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("events", make_events, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);

  return 0;
}

static void
check_socket (gconstpointer data)
{
  const ControlServerOptions options = { .socket_type = GPOINTER_TO_INT (data) };
  g_autoptr (ControlServer) server = control_server_new (&options);
  const SondeFrameAllocation *allocation;
  guint n_ended = 0;

  g_assert_cmpint (control_server_run (server, run_collector, "SYSPROF_CONTROL_FD"), ==, 0);

  g_assert_cmpuint (server->rings->len, ==, N_THREADS + 1);
  for (guint i = 0; i < server->rings->len; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];

      n_ended += sonde_ring_reader_state (ring->reader) == SONDE_RING_HAS_ENDED;
      g_assert_cmpint (sonde_ring_reader_state (ring->reader), <=, SONDE_RING_HAS_ENDED);
    }
  /* A thread ends its ring; the main thread of 3.46 leaves that to whoever sees it die. */
  g_assert_cmpuint (n_ended, >=, N_THREADS);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_MARK), ==, N_THREADS * N_EVENTS);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_LOG), ==, N_THREADS * N_EVENTS);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_ALLOCATION), ==,
                    N_THREADS * N_EVENTS);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_CTRDEF), ==, 1);
  g_assert_cmpuint (control_server_count (server, SONDE_FRAME_CTRSET), ==, 1);
  allocation = control_server_find (server, SONDE_FRAME_ALLOCATION);
  g_assert_cmpint (allocation->size_bytes, ==, 64);
  g_assert_cmpuint (allocation->n_addrs, ==, 8);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_data_func ("/sysprof-collector/delivers-over-packets",
                        GINT_TO_POINTER (SOCK_SEQPACKET), check_socket);
  g_test_add_data_func ("/sysprof-collector/delivers-over-a-stream", GINT_TO_POINTER (SOCK_STREAM),
                        check_socket);

  return g_test_run ();
}
