/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes records and looks in any order to clocks of threads: whatever comes, each life is the sum
 * of what was done in it, and there are no more clocks than there may be. */
#include <stdlib.h>

#include "daemon/capture/waits/thread-clock.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_CLOCKS 8
#define MAX_STEPS  4096

static void
check_clock (const SondeThreadClocks *clocks, const SondeThreadClock *clock, gint64 now_ns)
{
  guint64 times[SONDE_N_TIMES];
  guint64 sum = 0;

  sonde_thread_clocks_sum (clocks, clock, now_ns, times);
  for (guint i = SONDE_TIME_ON; i <= SONDE_TIME_UNKNOWN; i++)
    {
      if (times[i] > times[SONDE_TIME_LIFE])
        abort ();
      sum += times[i];
    }
  if (sum != times[SONDE_TIME_LIFE] || times[SONDE_TIME_UNSPLIT] > times[SONDE_TIME_BLOCKED])
    abort ();
  /* No time is left out, and none is there twice. */
  if (clock->end_ns != 0 && sum != (guint64) (clock->end_ns - clock->begin_ns))
    abort ();
  if (clock->end_ns == 0 && sum != (guint64) (MAX (now_ns, clock->since_ns) - clock->begin_ns))
    abort ();
}

static void
check_all (SondeThreadClocks *clocks, gint64 now_ns)
{
  guint n = sonde_thread_clocks_n_live (clocks);

  for (guint i = 0; i < sonde_thread_clocks_n_live (clocks); i++)
    {
      const SondeThreadClock *clock = sonde_thread_clocks_live (clocks, i);

      if (clock->index != i || sonde_thread_clocks_find (clocks, clock->number) != clock)
        abort ();
      check_clock (clocks, clock, now_ns);
    }
  for (const GList *at = sonde_thread_clocks_ended (clocks); at != NULL; at = at->next, n++)
    check_clock (clocks, at->data, now_ns);
  if (n > MAX_CLOCKS)
    abort ();
}

static void
take_record (SondeThreadClocks *clocks, Input *input, gint64 now_ns)
{
  static const SondePerfRecordType types[]
      = { SONDE_PERF_RECORD_SWITCH, SONDE_PERF_RECORD_FORK, SONDE_PERF_RECORD_EXIT,
          SONDE_PERF_RECORD_COMM,   SONDE_PERF_RECORD_LOST, SONDE_PERF_RECORD_SAMPLE };
  guint8 kind = input_take_byte (input);
  guint8 flags = input_take_byte (input);
  SondePerfRecord record = { .type = types[kind % G_N_ELEMENTS (types)],
                             .cpu = (int) (flags >> 4) - 1,
                             .pid = (gint32) (input_take_byte (input) % 4),
                             .time_ns = now_ns };

  record.tid = (flags & 8) != 0 ? record.pid : (gint32) (input_take_byte (input) % 16) - 1;
  if (record.type == SONDE_PERF_RECORD_SWITCH)
    record.switched
        = (SondePerfRecordSwitch){ (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0 };
  else if (record.type == SONDE_PERF_RECORD_COMM)
    record.comm = (SondePerfRecordComm){ "", (flags & 1) != 0 };
  else if (record.type == SONDE_PERF_RECORD_LOST)
    record.n_lost = flags;
  sonde_thread_clocks_take (clocks, &record);
}

static void
look (SondeThreadClocks *clocks, Input *input, gint64 now_ns)
{
  guint8 flags = input_take_byte (input);
  gint32 pid = flags % 4;
  SondeMessageThread thread = { .tid = input_take_byte (input) % 16 + 1,
                                .state = (flags & 16) != 0 ? "RSDTZX"[flags % 6] : 0,
                                .on_ns = input_take_u64 (input),
                                .delay_ns = input_take_u64 (input),
                                .slices = input_take_byte (input),
                                .time_ns = now_ns };

  if ((flags & 32) != 0)
    thread.on_ns %= 10000, thread.delay_ns %= 10000;
  if ((flags & 64) != 0)
    sonde_thread_clocks_look_behind (clocks, pid, &thread);
  else
    sonde_thread_clocks_look (clocks, pid, &thread);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  g_autoptr (SondeThreadClocks) clocks = sonde_thread_clocks_new (MAX_CLOCKS);
  gint64 now_ns = 1000;

  for (guint step = 0; input.left > 0 && step < MAX_STEPS; step++)
    {
      guint8 turn = input_take_byte (&input);

      /* Some come late. */
      now_ns = MAX (now_ns + (gint64) input_take_u16 (&input) - ((turn & 128) != 0 ? 40000 : 0), 1);
      switch (turn % 8)
        {
        case 0:
        case 1:
        case 2:
        case 3:
          take_record (clocks, &input, now_ns);
          break;
        case 4:
        case 5:
          look (clocks, &input, now_ns);
          break;
        case 6:
          sonde_thread_clocks_miss (clocks, turn >> 4, input_take_byte (&input) % 16, now_ns);
          break;
        default:
          if ((turn & 16) != 0)
            sonde_thread_clocks_interrupt (clocks, now_ns);
          else if ((turn & 32) != 0)
            sonde_thread_clocks_lose_end (clocks, 1);
          else
            sonde_thread_clocks_forget (clocks, now_ns);
        }
      check_all (clocks, now_ns);
    }
  return 0;
}
