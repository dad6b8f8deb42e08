/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads what threads did with their time from the embedded files of a capture. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"
#include "protocol/waits.h"

/**
 * SECTION: waits-reader
 *
 * FILE_CHUNK frames go in; what comes out is a row for each thread, as the last file that has one
 * tells it, and what is known of those without. It is of foreign origin: a file whose numbers do
 * not add up as docs/protocol.md says is left out from there on, and the first such file is told.
 *
 * Whatever comes, it takes memory for SONDE_WAITS_READER_MAX_ROWS at most.
 */
typedef struct SondeWaitsReader SondeWaitsReader;

#define SONDE_WAITS_READER_MAX_ROWS (1u << 18) /* 112 bytes each */

typedef struct
{
  gint32 pid;
  gint32 tid;      /* that it began with */
  gint64 begin_ns; /* CLOCK_MONOTONIC */
  gboolean has_ended;
  guint64 times[SONDE_N_TIMES]; /* ns */
  guint64 counts[SONDE_N_WAITS_COUNTS];
} SondeWaitsRow;

SondeWaitsReader *sonde_waits_reader_new (void);
/* @max_rows: in place of SONDE_WAITS_READER_MAX_ROWS */
SondeWaitsReader *sonde_waits_reader_new_small (guint max_rows);
void sonde_waits_reader_free (SondeWaitsReader *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWaitsReader, sonde_waits_reader_free)

/* @frame: accepted by sonde_frame_check(); any but those of these files is left alone. */
void sonde_waits_reader_add (SondeWaitsReader *self, const SondeFrame *frame);

/* Files that were read. */
guint sonde_waits_reader_n_files (const SondeWaitsReader *self);
guint sonde_waits_reader_n_rows (const SondeWaitsReader *self);
const SondeWaitsRow *sonde_waits_reader_row (const SondeWaitsReader *self, guint row);
/* Threads that have no row, with the sum of their times; those of which nothing is known; and rows
 * that were told of further threads than SONDE_WAITS_READER_MAX_ROWS. */
guint64 sonde_waits_reader_n_others (const SondeWaitsReader *self);
const guint64 *sonde_waits_reader_others (const SondeWaitsReader *self);
guint64 sonde_waits_reader_n_beyond (const SondeWaitsReader *self);
guint64 sonde_waits_reader_n_left_out (const SondeWaitsReader *self);
/* What a switch takes, in ns; 0: not known. */
guint64 sonde_waits_reader_switch_ns (const SondeWaitsReader *self);
/* NULL, or what could not be: "sonde/waits/3: a row does not add up"; its name is escaped. */
const char *sonde_waits_reader_fault (const SondeWaitsReader *self);
