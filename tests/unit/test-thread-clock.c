/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clocks of threads, from the bytes of perf's records and from looks. */
#include "daemon/capture/waits/thread-clock.h"

#include <string.h>

#define SAMPLE_TYPE (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
#define PID         10
#define TID         11
#define PREEMPT     (PERF_RECORD_MISC_SWITCH_OUT | 1 << 14)

static const SondePerfDecoder decoder = { .sample_type = SAMPLE_TYPE };

typedef struct
{
  SondeThreadClocks *clocks;
  gint64 now_ns;
} Fixture;

static void
set_up (Fixture *self, gconstpointer max)
{
  self->clocks
      = sonde_thread_clocks_new (max != NULL ? GPOINTER_TO_UINT (max) : SONDE_THREAD_CLOCKS_MAX);
  self->now_ns = 0;
}

static void
tear_down (Fixture *self, gconstpointer max)
{
  sonde_thread_clocks_free (self->clocks);
}

/* --- bytes --- */

/* A record as the kernel writes it: header, @body, and the trailer. */
static void
take (Fixture *self,
      guint32 type,
      guint16 misc,
      gconstpointer body,
      gsize body_bytes,
      gint32 pid,
      gint32 tid,
      guint32 cpu,
      gint64 time_ns)
{
  _Alignas(8) guint8 bytes[256];
  struct perf_event_header header
      = { type, misc, (guint16) (sizeof header + body_bytes + 4 * sizeof (guint64)) };
  const guint32 task[2] = { (guint32) pid, (guint32) tid };
  const guint32 place[2] = { cpu, 0 };
  const guint64 id = 77;
  guint8 *at = bytes;
  SondePerfRecord record;

  g_assert_cmpuint (header.size, <=, sizeof bytes);
  at = (guint8 *) memcpy (at, &header, sizeof header) + sizeof header;
  if (body_bytes > 0)
    memcpy (at, body, body_bytes);
  at += body_bytes;
  at = (guint8 *) memcpy (at, task, sizeof task) + sizeof task;
  at = (guint8 *) memcpy (at, &time_ns, sizeof time_ns) + sizeof time_ns;
  at = (guint8 *) memcpy (at, place, sizeof place) + sizeof place;
  memcpy (at, &id, sizeof id);
  g_assert_cmpint (sonde_perf_decoder_decode (
                       &decoder, (const struct perf_event_header *) (gpointer) bytes, &record),
                   ==, SONDE_PERF_RECORD_OK);
  sonde_thread_clocks_take (self->clocks, &record);
  self->now_ns = time_ns;
}

static void
put_on (Fixture *self, gint32 tid, gint64 time_ns)
{
  take (self, PERF_RECORD_SWITCH, 0, NULL, 0, PID, tid, 0, time_ns);
}

static void
take_off (Fixture *self, gint32 tid, gint64 time_ns)
{
  take (self, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT, NULL, 0, PID, tid, 0, time_ns);
}

static void
preempt (Fixture *self, gint32 tid, gint64 time_ns)
{
  take (self, PERF_RECORD_SWITCH, PREEMPT, NULL, 0, PID, tid, 0, time_ns);
}

static void
tell_task (Fixture *self, guint32 type, gint32 pid, gint32 tid, gint64 time_ns)
{
  struct
  {
    guint32 pid, ppid, tid, ptid;
    gint64 time_ns;
  } body = { (guint32) pid, PID, (guint32) tid, PID, time_ns };

  take (self, type, 0, &body, sizeof body, PID, PID, 0, time_ns);
}

static void
fork_thread (Fixture *self, gint32 tid, gint64 time_ns)
{
  tell_task (self, PERF_RECORD_FORK, PID, tid, time_ns);
}

static void
end_thread (Fixture *self, gint32 tid, gint64 time_ns)
{
  tell_task (self, PERF_RECORD_EXIT, PID, tid, time_ns);
}

static void
execute (Fixture *self, gint32 pid, gint64 time_ns)
{
  struct
  {
    guint32 pid, tid;
    char name[8];
  } body = { (guint32) pid, (guint32) pid, "other" };

  take (self, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &body, sizeof body, pid, pid, 0,
        time_ns);
}

static void
lose (Fixture *self, guint32 cpu, guint64 n, gint64 time_ns)
{
  const guint64 body[2] = { 77, n };

  take (self, PERF_RECORD_LOST, 0, body, sizeof body, PID, PID, cpu, time_ns);
}

static SondeThreadClock *
look (Fixture *self, gint32 tid, char state, guint64 on, guint64 delay, guint64 slices, gint64 at)
{
  const SondeMessageThread thread = { .tid = tid,
                                      .state = (guint32) state,
                                      .on_ns = on,
                                      .delay_ns = delay,
                                      .slices = slices,
                                      .time_ns = at };

  self->now_ns = at;
  return sonde_thread_clocks_look (self->clocks, PID, &thread);
}

/* --- what is told --- */

/* @life … @unknown in ns */
static void
check (Fixture *self,
       const SondeThreadClock *clock,
       guint64 life,
       guint64 on,
       guint64 runnable,
       guint64 blocked,
       guint64 switching,
       guint64 unknown)
{
  guint64 times[SONDE_N_TIMES];

  g_assert_nonnull (clock);
  sonde_thread_clocks_sum (self->clocks, clock, self->now_ns, times);
  g_assert_cmpuint (times[SONDE_TIME_ON], ==, on);
  g_assert_cmpuint (times[SONDE_TIME_RUNNABLE], ==, runnable);
  g_assert_cmpuint (times[SONDE_TIME_BLOCKED], ==, blocked);
  g_assert_cmpuint (times[SONDE_TIME_SWITCHING], ==, switching);
  g_assert_cmpuint (times[SONDE_TIME_UNKNOWN], ==, unknown);
  g_assert_cmpuint (times[SONDE_TIME_LIFE], ==, life);
  g_assert_cmpuint (on + runnable + blocked + switching + unknown, ==, life);
  g_assert_cmpuint (times[SONDE_TIME_UNSPLIT], <=, blocked);
}

static SondeThreadClock *
find (Fixture *self, gint32 tid)
{
  return sonde_thread_clocks_find (self->clocks, tid);
}

static guint64
unsplit (Fixture *self, const SondeThreadClock *clock)
{
  guint64 times[SONDE_N_TIMES];

  sonde_thread_clocks_sum (self->clocks, clock, self->now_ns, times);
  return times[SONDE_TIME_UNSPLIT];
}

/* --- states --- */

static void
accounts_a_life (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1300);   /* 300 runnable: it was new */
  take_off (self, TID, 1400); /* 100 on */
  put_on (self, TID, 2000);   /* 600 blocked */
  preempt (self, TID, 2050);  /* 50 on */
  put_on (self, TID, 2060);   /* 10 runnable */
  end_thread (self, TID, 2100);
  check (self, find (self, TID), 1100, 190, 310, 600, 0, 0);
  g_assert_cmpuint (find (self, TID)->n_on, ==, 3);
  g_assert_cmpuint (sonde_thread_clocks_n_live (self->clocks), ==, 0);
}

static void
counts_what_is_open (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  self->now_ns = 1500;
  check (self, find (self, TID), 500, 0, 500, 0, 0, 0);
  put_on (self, TID, 1600);
  self->now_ns = 1700;
  check (self, find (self, TID), 700, 100, 600, 0, 0, 0);
  take_off (self, TID, 1800);
  self->now_ns = 2800;
  check (self, find (self, TID), 1800, 200, 600, 1000, 0, 0);
}

static void
begins_with_the_first_record (Fixture *self, gconstpointer data)
{
  take_off (self, TID, 1000);
  put_on (self, TID, 1500);
  self->now_ns = 1600;
  check (self, find (self, TID), 600, 100, 0, 500, 0, 0);
  preempt (self, 12, 1700);
  self->now_ns = 1800;
  check (self, find (self, 12), 100, 0, 100, 0, 0, 0);
}

/* Runnable is all that its state says: whether it ran the first record tells. */
static void
begins_with_a_look (Fixture *self, gconstpointer data)
{
  g_assert_null (look (self, TID, 'Z', 0, 0, 0, 900));
  g_assert_null (look (self, TID, 0, 0, 0, 0, 900));
  look (self, TID, 'S', 50, 5, 1, 1000);
  look (self, 12, 'R', 50, 5, 1, 1000);
  look (self, 13, 'R', 50, 5, 1, 1000);
  put_on (self, TID, 1500);
  put_on (self, 12, 1500);
  take_off (self, 13, 1500);
  check (self, find (self, TID), 500, 0, 0, 500, 0, 0);
  check (self, find (self, 12), 500, 0, 500, 0, 0, 0);
  check (self, find (self, 13), 500, 500, 0, 0, 0, 0);
}

static void
sees_one_that_runs_all_the_time (Fixture *self, gconstpointer data)
{
  look (self, TID, 'R', 50, 5, 1, 1000);
  look (self, 12, 'R', 50, 5, 1, 1000);
  look (self, TID, 0, 550, 5, 1, 1500);
  look (self, 12, 0, 50, 5, 1, 1500);
  self->now_ns = 2000;
  check (self, find (self, TID), 1000, 1000, 0, 0, 0, 0);
  check (self, find (self, 12), 1000, 0, 1000, 0, 0, 0);
}

static void
ends_one_that_was_blocked (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 1200);
  end_thread (self, TID, 2000);
  check (self, find (self, TID), 1000, 100, 100, 800, 0, 0);
  /* Twice is once, and of who is not known nothing. */
  end_thread (self, TID, 3000);
  end_thread (self, 12, 3000);
  check (self, find (self, TID), 1000, 100, 100, 800, 0, 0);
  g_assert_null (find (self, 12));
}

static void
is_not_put_off_by_the_same_again (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  put_on (self, TID, 1150);
  take_off (self, TID, 1200);
  take_off (self, TID, 1150); /* late */
  put_on (self, TID, 1300);
  check (self, find (self, TID), 300, 100, 100, 100, 0, 0);
  g_assert_cmpuint (find (self, TID)->n_on, ==, 2);
}

/* An EXIT was lost; the number is another thread's. */
static void
ends_one_whose_number_is_forked_again (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 1200);
  fork_thread (self, TID, 5000);
  self->now_ns = 5100;
  check (self, find (self, TID), 100, 0, 100, 0, 0, 0);
  check (self, sonde_thread_clocks_ended (self->clocks)->data, 200, 100, 100, 0, 0, 0);
}

static void
ends_one_that_is_missing (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  sonde_thread_clocks_miss (self->clocks, PID, TID, 1050); /* it was heard of since */
  sonde_thread_clocks_miss (self->clocks, PID + 1, TID, 9000);
  g_assert_cmpint (find (self, TID)->end_ns, ==, 0);
  sonde_thread_clocks_miss (self->clocks, PID, TID, 9000);
  g_assert_cmpint (find (self, TID)->end_ns, ==, 1100);
}

/* --- exec --- */

static void
goes_on_with_another_number (Fixture *self, gconstpointer data)
{
  fork_thread (self, PID, 1000);
  put_on (self, PID, 1100);
  fork_thread (self, TID, 1200);
  take_off (self, PID, 1300);
  put_on (self, TID, 1300);
  take_off (self, TID, 1400); /* it waits for the first to end */
  put_on (self, PID, 1500);
  end_thread (self, PID, 1600);
  put_on (self, PID, 1700); /* whose number it has now */
  execute (self, PID, 1800);
  take_off (self, PID, 1900);
  self->now_ns = 2000;
  g_assert_null (find (self, TID));
  g_assert_cmpint (find (self, PID)->tid, ==, TID);
  check (self, find (self, PID), 800, 300, 100, 400, 0, 0);
  check (self, sonde_thread_clocks_ended (self->clocks)->data, 600, 300, 100, 200, 0, 0);
}

static void
takes_no_number_of_who_tells_of_processors (Fixture *self, gconstpointer data)
{
  const guint32 stranger[2] = { 666, 667 };

  fork_thread (self, PID, 1000);
  put_on (self, PID, 1100);
  fork_thread (self, TID, 1200);
  end_thread (self, PID, 1300);
  take (self, PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT, stranger, sizeof stranger,
        PID, PID, 0, 1400);
  g_assert_cmpint (find (self, TID)->number, ==, TID);
  g_assert_null (find (self, 667));
  /* The idle thread is nobody's. */
  take (self, PERF_RECORD_SWITCH_CPU_WIDE, 0, stranger, sizeof stranger, 0, 0, 0, 1500);
  g_assert_cmpuint (sonde_thread_clocks_n_live (self->clocks), ==, 1);
  execute (self, PID, 1600);
  g_assert_cmpint (find (self, PID)->tid, ==, TID);
  g_assert_cmpint (find (self, PID)->state, ==, SONDE_THREAD_ON);
}

static void
begins_at_an_exec (Fixture *self, gconstpointer data)
{
  execute (self, PID, 1000);
  take_off (self, PID, 1500);
  check (self, find (self, PID), 500, 500, 0, 0, 0, 0);
}

/* --- looks --- */

static void
divides_time_off (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 1200);
  put_on (self, TID, 2200); /* 1000: blocked, and woken for some of it */
  take_off (self, TID, 2300);
  check (self, find (self, TID), 1300, 200, 100, 1000, 0, 0);
  g_assert_cmpuint (unsplit (self, find (self, TID)), ==, 1000);
  look (self, TID, 0, 200, 100 + 250, 2, 2400); /* it waited for 250 more than records show */
  check (self, find (self, TID), 1400, 200, 350, 850, 0, 0);
  g_assert_cmpuint (unsplit (self, find (self, TID)), ==, 0);
  put_on (self, TID, 2500);
  check (self, find (self, TID), 1500, 200, 350, 950, 0, 0);
  g_assert_cmpuint (unsplit (self, find (self, TID)), ==, 200); /* behind the look */
}

static void
divides_no_more_than_there_is (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 1200);
  put_on (self, TID, 1300);
  look (self, TID, 0, G_MAXUINT64, G_MAXUINT64, G_MAXUINT64, 1400);
  check (self, find (self, TID), 400, 200, 200, 0, 0, 0);
  look (self, TID, 0, 0, 0, 0, 1500); /* less than before */
  check (self, find (self, TID), 500, 300, 200, 0, 0, 0);
}

/* Of one that existed, what was before the first look is not in the account. */
static void
begins_to_divide_at_the_first_look (Fixture *self, gconstpointer data)
{
  look (self, TID, 'S', 5000, 7000, 100, 1000);
  put_on (self, TID, 1500);
  take_off (self, TID, 1600);
  look (self, TID, 0, 5100, 7200, 101, 1700);
  check (self, find (self, TID), 700, 100, 200, 400, 0, 0);
}

static void
takes_switches_off_the_waits (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  preempt (self, TID, 1200);
  put_on (self, TID, 1300);
  take_off (self, TID, 1400);
  put_on (self, TID, 1500);
  take_off (self, TID, 1600);
  /* 300 on, and 3 switches of 10: as much more for the kernel, and less waiting */
  look (self, TID, 0, 330, 180, 3, 1700);
  check (self, find (self, TID), 700, 300, 180, 190, 30, 0);
}

static void
takes_stolen_time_off_the_time_on (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 2100);
  look (self, TID, 0, 900, 100, 1, 2200); /* the hypervisor had 100 */
  check (self, find (self, TID), 1200, 900, 100, 100, 100, 0);
}

/* What the kernel counts of a thread that runs is old, and of one that has run since another. */
static void
looks_at_time_on_of_who_is_off (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  look (self, TID, 0, 0, 100, 1, 2000);
  check (self, find (self, TID), 1000, 900, 100, 0, 0, 0);
  take_off (self, TID, 2100);
  look (self, TID, 0, 5000, 100, 2, 2200);
  check (self, find (self, TID), 1200, 1000, 100, 100, 0, 0);
}

static void
gives_others_switches_as_long (Fixture *self, gconstpointer data)
{
  gint64 time_ns = 1000;

  fork_thread (self, TID, time_ns);
  for (guint i = 0; i < 100; i++)
    {
      put_on (self, TID, time_ns += 100);
      take_off (self, TID, time_ns += 100);
    }
  g_assert_cmpuint (sonde_thread_clocks_switch_ns (self->clocks), ==, 0);
  look (self, TID, 0, 100 * 107, 100 * 2, 100, time_ns + 10);
  g_assert_cmpuint (sonde_thread_clocks_switch_ns (self->clocks), ==, 7);
  fork_thread (self, 12, 100000);
  put_on (self, 12, 100100);
  take_off (self, 12, 100200);
  put_on (self, 12, 100300);
  check (self, find (self, 12), 300, 100, 93, 93, 14, 0);
}

/* --- losses --- */

static void
knows_nothing_behind_a_loss (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  fork_thread (self, 12, 1000);
  put_on (self, TID, 1100);
  put_on (self, 12, 1200); /* the last record of this processor */
  lose (self, 0, 30, 5000);
  take_off (self, TID, 5500); /* 100 on up to 1200, then nobody knows */
  put_on (self, TID, 5600);
  check (self, find (self, TID), 4600, 100, 100, 100, 0, 4300);
  self->now_ns = 6000;
  check (self, find (self, 12), 5000, 0, 200, 0, 0, 4800);
  g_assert_cmpuint (sonde_thread_clocks_n_lost (self->clocks), ==, 30);
  g_assert_cmpuint (sonde_thread_clocks_unknown_ns (self->clocks, 0), ==, 4300);
  g_assert_cmpuint (sonde_thread_clocks_unknown_ns (self->clocks, 6000), ==, 4300 + 4800);
}

static void
knows_what_was_off_all_the_time (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 1200);
  fork_thread (self, 12, 1200);
  put_on (self, 12, 1200);
  look (self, TID, 0, 100, 100, 1, 1250);
  lose (self, 0, 5, 3000);
  lose (self, 0, 5, 3500);
  look (self, TID, 0, 100, 100, 1, 4000); /* not once more */
  look (self, 12, 0, 100, 100, 1, 4000);  /* it was on, and may have been off */
  put_on (self, TID, 5000);
  check (self, find (self, TID), 4000, 100, 100, 3800, 0, 0);
  check (self, find (self, 12), 3800, 0, 0, 0, 0, 3800);
}

static void
does_not_know_what_was_put_on (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  take_off (self, TID, 1200);
  look (self, TID, 0, 100, 100, 1, 1250);
  lose (self, 0, 5, 3000);
  look (self, TID, 0, 100, 100, 2, 4000);
  put_on (self, TID, 5000);
  check (self, find (self, TID), 4000, 100, 100, 0, 0, 3800);
  /* Waits of that time are not divided into what is known. */
  take_off (self, TID, 5100);
  look (self, TID, 0, 200, 5000, 3, 5200);
  check (self, find (self, TID), 4200, 200, 100, 100, 0, 3800);
}

static void
is_interrupted (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  sonde_thread_clocks_interrupt (self->clocks, 1200);
  put_on (self, TID, 3000);
  take_off (self, TID, 3100);
  check (self, find (self, TID), 2100, 200, 100, 0, 0, 1800);
}

static void
knows_nothing_of_a_lost_end (Fixture *self, gconstpointer data)
{
  fork_thread (self, TID, 1000);
  put_on (self, TID, 1100);
  sonde_thread_clocks_lose_end (self->clocks, 7);
  self->now_ns = 2000;
  check (self, find (self, TID), 1000, 0, 100, 0, 0, 900);
  g_assert_cmpuint (sonde_thread_clocks_n_lost (self->clocks), ==, 7);
}

/* --- room --- */

static void
makes_room_by_those_that_ended (Fixture *self, gconstpointer max)
{
  guint64 others[SONDE_N_TIMES] = { 0 };

  for (gint32 i = 0; i < 10000; i++)
    {
      gint64 time_ns = 1000 * (i + 1);

      fork_thread (self, 100 + i, time_ns);
      put_on (self, 100 + i, time_ns + 10);
      end_thread (self, 100 + i, time_ns + 30);
    }
  g_assert_cmpuint (sonde_thread_clocks_n_others (self->clocks), ==, 9996);
  sonde_thread_clocks_add_others (self->clocks, others);
  g_assert_cmpuint (others[SONDE_TIME_LIFE], ==, 9996 * 30);
  g_assert_cmpuint (others[SONDE_TIME_ON], ==, 9996 * 20);
  g_assert_cmpuint (others[SONDE_TIME_RUNNABLE], ==, 9996 * 10);
  g_assert_cmpuint (sonde_thread_clocks_n_beyond (self->clocks), ==, 0);
  g_assert_null (find (self, 100));
  check (self, find (self, 10099), 30, 20, 10, 0, 0, 0);
}

static void
has_no_room_beside_those_that_live (Fixture *self, gconstpointer max)
{
  for (gint32 i = 0; i < 10; i++)
    fork_thread (self, 100 + i, 1000 + i);
  for (gint32 i = 0; i < 10; i++)
    put_on (self, 100 + i, 2000 + i);
  g_assert_cmpuint (sonde_thread_clocks_n_live (self->clocks), ==, 4);
  g_assert_cmpuint (sonde_thread_clocks_n_beyond (self->clocks), ==, 6);
  end_thread (self, 103, 3000);
  fork_thread (self, 200, 4000);
  g_assert_nonnull (find (self, 200));
  g_assert_cmpuint (sonde_thread_clocks_n_others (self->clocks), ==, 1);
}

static void
forgets_what_was_told (Fixture *self, gconstpointer max)
{
  for (gint32 i = 0; i < 3; i++)
    {
      fork_thread (self, 100 + i, 1000);
      end_thread (self, 100 + i, 2000 + i);
    }
  find (self, 100)->is_told = TRUE;
  find (self, 101)->is_told = TRUE;
  sonde_thread_clocks_forget (self->clocks, 2001);
  g_assert_null (find (self, 100));
  g_assert_nonnull (find (self, 101));
  sonde_thread_clocks_forget (self->clocks, 9000);
  g_assert_null (find (self, 101));
  g_assert_nonnull (find (self, 102));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, function) ADD_WITH (name, function, NULL)
#define ADD_WITH(name, function, max)                                                              \
  g_test_add ("/thread-clock/" name, Fixture, max, set_up, function, tear_down)
  ADD ("accounts-a-life", accounts_a_life);
  ADD ("counts-what-is-open", counts_what_is_open);
  ADD ("begins-with-the-first-record", begins_with_the_first_record);
  ADD ("begins-with-a-look", begins_with_a_look);
  ADD ("sees-one-that-runs-all-the-time", sees_one_that_runs_all_the_time);
  ADD ("ends-one-that-was-blocked", ends_one_that_was_blocked);
  ADD ("is-not-put-off-by-the-same-again", is_not_put_off_by_the_same_again);
  ADD ("ends-one-whose-number-is-forked-again", ends_one_whose_number_is_forked_again);
  ADD ("ends-one-that-is-missing", ends_one_that_is_missing);
  ADD ("exec/goes-on-with-another-number", goes_on_with_another_number);
  ADD ("exec/takes-no-number-of-who-tells-of-processors",
       takes_no_number_of_who_tells_of_processors);
  ADD ("exec/begins", begins_at_an_exec);
  ADD ("look/divides-time-off", divides_time_off);
  ADD ("look/divides-no-more-than-there-is", divides_no_more_than_there_is);
  ADD ("look/begins-to-divide-at-the-first", begins_to_divide_at_the_first_look);
  ADD ("look/takes-switches-off-the-waits", takes_switches_off_the_waits);
  ADD ("look/takes-stolen-time-off-the-time-on", takes_stolen_time_off_the_time_on);
  ADD ("look/at-time-on-of-who-is-off", looks_at_time_on_of_who_is_off);
  ADD ("look/gives-others-switches-as-long", gives_others_switches_as_long);
  ADD ("lost/knows-nothing-behind", knows_nothing_behind_a_loss);
  ADD ("lost/knows-what-was-off-all-the-time", knows_what_was_off_all_the_time);
  ADD ("lost/does-not-know-what-was-put-on", does_not_know_what_was_put_on);
  ADD ("lost/is-interrupted", is_interrupted);
  ADD ("lost/knows-nothing-of-a-lost-end", knows_nothing_of_a_lost_end);
  ADD_WITH ("room/is-made-by-those-that-ended", makes_room_by_those_that_ended,
            GUINT_TO_POINTER (4));
  ADD_WITH ("room/is-not-beside-those-that-live", has_no_room_beside_those_that_live,
            GUINT_TO_POINTER (4));
  ADD ("room/forgets-what-was-told", forgets_what_was_told);
  return g_test_run ();
}
