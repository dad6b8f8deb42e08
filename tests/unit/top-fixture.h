/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Histories and views of a capture made in memory. */
#pragma once

#include "client/top/top-view.h"
#include "tests/unit/calls-files.h"
#include "tests/unit/capture-builder.h"

#define SECOND_NS  G_GINT64_CONSTANT (1000000000)
#define SPAN_NS    (10 * SECOND_NS)
#define FOREVER_US G_MAXINT32
#define PAGE_ROWS  20

typedef struct
{
  SondeTopHistory *history;
  gint64 now_ns;
} Live;

static inline void
add_live (gpointer receiver, const SondeFrame *frame)
{
  Live *self = receiver;

  sonde_top_history_add_frame (self->history, frame, self->now_ns);
}

static inline gboolean
is_below_1000 (gint32 pid)
{
  return pid < 1000;
}

static inline SondeTopHistory *
new_history (gsize max_bytes)
{
  const SondeTopHistoryOptions options
      = { .span_ns = SPAN_NS, .max_bytes = max_bytes, .is_alive = is_below_1000 };

  return sonde_top_history_new (&options, 0);
}

/* Two processes; of python3 7 of 10 samples lie in "hot", called by "main" through "middle". */
static inline CaptureBuilder *
build_capture (void)
{
  static const char *const names[] = { "main", "middle", "hot", "cold", "évil\033[2J\n名" };
  CaptureBuilder *builder = capture_builder_new ();

  add_process (builder, 10, "python3 work.py");
  add_process (builder, 20, "bad\033[2J\x9b name");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    add_jit_name (builder, SONDE_JIT_ADDRESS_BASE + i, names[i]);
  for (guint i = 0; i < 7; i++)
    add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 2, SONDE_JIT_ADDRESS_BASE + 1,
                SONDE_JIT_ADDRESS_BASE);
  add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE + 3, SONDE_JIT_ADDRESS_BASE);
  add_sample (builder, 10, SONDE_JIT_ADDRESS_BASE);
  add_sample (builder, 20, SONDE_JIT_ADDRESS_BASE + 4);
  return builder;
}

static inline SondeTopView *
new_view (SondeTopHistory *history, SondeTopMode mode, gint64 now_ns)
{
  SondeTopView *view = sonde_top_view_new (mode);

  sonde_top_view_take (view, sonde_top_history_snapshot (history, now_ns, FALSE, FOREVER_US));
  return view;
}

/* The history of build_capture(), read within the first second. */
static inline SondeTopHistory *
new_filled (void)
{
  g_autoptr (CaptureBuilder) builder = build_capture ();
  Live live = { new_history (SONDE_TOP_MAX_BYTES), SECOND_NS / 2 };

  capture_foreach (builder, add_live, &live);
  return live.history;
}

static inline void
press (SondeTopView *view, const char *keys)
{
  for (; *keys != '\0'; keys++)
    g_assert_cmpint (sonde_top_view_press (view, (guchar) *keys, PAGE_ROWS), !=, SONDE_TOP_QUIT);
}

/* Tells, @now_ns, that "middle" of build_capture() called "hot" @calls times since @begin_ns: each
 * took 1000 ns, of which 400 were "hot"'s. Made-up addresses are looked up without -1. */
static inline void
tell_calls (SondeTopHistory *history, guint64 calls, guint64 begin_ns, gint64 now_ns)
{
  g_autoptr (GByteArray) file = new_file (begin_ns, (guint64) now_ns);
  g_autofree char *path = g_strdup_printf (SONDE_CALLS_FOLDER "10-7/%" G_GINT64_FORMAT, now_ns);
  Live live = { history, now_ns };

  RECORD (file, SONDE_CALLS_PATH, 1, 0, 0);
  RECORD (file, SONDE_CALLS_PATH, 2, 1, SONDE_JIT_ADDRESS_BASE);
  RECORD (file, SONDE_CALLS_PATH, 3, 2, SONDE_JIT_ADDRESS_BASE + 1);
  RECORD (file, SONDE_CALLS_CALLS, 2, calls);
  RECORD (file, SONDE_CALLS_TIMES, 2, calls, 1000 * calls, 0, 0, 1000, 1000, 1,
          sonde_calls_bucket (1000), calls);
  RECORD (file, SONDE_CALLS_CALLS, 3, calls);
  RECORD (file, SONDE_CALLS_TIMES, 3, calls, 400 * calls, 0, 0, 400, 400, 1,
          sonde_calls_bucket (400), calls);
  end_file (file);
  tell_file (path, file, 100, add_live, &live);
}
