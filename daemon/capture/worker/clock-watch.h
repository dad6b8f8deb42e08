/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Notices that the wall clock was set, and that the machine slept. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: clock-watch
 *
 * All times of a capture are CLOCK_MONOTONIC, which neither touches; but who compares them with
 * times of elsewhere has to know. The wall clock is compared with CLOCK_BOOTTIME whenever the
 * kernel says that it was set, so that sleep is not taken for a jump. On the main loop.
 */
typedef struct SondeClockWatch SondeClockWatch;

/* ns, read as close to each other as can be */
typedef struct
{
  gint64 monotonic_ns;
  gint64 boottime_ns; /* the same, and goes on while the machine sleeps */
  gint64 realtime_ns;
} SondeClocks;

void sonde_clocks_read (SondeClocks *clocks);

/* @tell: a sentence for the capture, at once when the wall clock is set */
SondeClockWatch *sonde_clock_watch_new (void (*tell) (const char *text, gpointer user_data),
                                        gpointer user_data);
/* Accepts NULL. */
void sonde_clock_watch_free (SondeClockWatch *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeClockWatch, sonde_clock_watch_free)

/* Whether the machine has slept since; about once a second. */
void sonde_clock_watch_look (SondeClockWatch *self);

/* What differs, as a sentence, or NULL. @was_set: the kernel says so of the wall clock */
char *sonde_clocks_describe (const SondeClocks *before, const SondeClocks *now, gboolean was_set);
