/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A line on a terminal that tells how far a command is that takes more than a second. */
#pragma once

#include <glib.h>

/**
 * SECTION: progress
 *
 * One line on standard error, which a thread draws and clears: who works only says what he does and
 * stores a number. All of it accepts NULL, which does nothing.
 */
typedef struct SondeProgress SondeProgress;

/* NULL unless standard error is a terminal. */
SondeProgress *sonde_progress_new (void);

/* Clears the line. Before whatever else is printed. */
void sonde_progress_free (SondeProgress *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProgress, sonde_progress_free)

/**
 * sonde_progress_begin:
 * @what: "Reading slow.syscap", escaped
 * @total: what sonde_progress_set() counts up to; 0: nobody knows
 */
void sonde_progress_begin (SondeProgress *self, const char *what, guint64 total);

/* Cheap enough for every frame. */
void sonde_progress_set (SondeProgress *self, guint64 done);
