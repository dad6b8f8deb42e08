/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Resamples recordings by blocks of their time, to tell what chance lets two of the same thing
 * differ by. */
#pragma once

#include <glib.h>

/* The value that a @part, above 0 and below 1, of what is normally distributed is below of. */
double sonde_chance_normal (double part);

/* The same of Student's distribution with so many degrees of freedom, from 3 on; part at most one
 * in a million from 0 or 1: to four digits. */
double sonde_chance_student (double part, double freedom);

/**
 * SECTION: chance
 *
 * Samples that follow each other are no independent ones: a program has phases. So the time of a
 * recording is cut into equal slices, and how far shares of them may be off is tried by putting
 * recordings together anew, of blocks of slices that are taken at random (circular block
 * bootstrap). Blocks are eight times as long as slices have to do with each other, as far as their
 * correlations tell; where blocks of half that length vary less, what these still lack is
 * extrapolated. Phases that are longer than a sixteenth of the recording cannot be told from
 * changes with certainty.
 *
 * Intervals hold for all rows together: each is as much wider as there are rows (Bonferroni), for
 * who looks at a hundred functions sees one that one recording in a hundred would have. Holm's
 * method finds a little more where several rows have changed, and has no intervals that say the
 * same; that of Benjamini and Hochberg lets a part of what is found be false, and one is enough to
 * raise an alarm. What is resampled is the same for the same counts: there is a seed, and no clock.
 */
typedef struct
{
  guint n_slices;
  guint n_rows;
  double *counts; /* by slice, then by row: samples */
  double *whole;  /* by slice: what they are shares of, such as all its samples, or its seconds */
} SondeSlices;

#define SONDE_CHANCE_MIN_SLICES 16u /* of fewer no interval is known */
#define SONDE_CHANCE_MAX_SLICES 512u
#define SONDE_CHANCE_MAX_ROWS   1024u

void sonde_slices_init (SondeSlices *self, guint n_slices, guint n_rows);
void sonde_slices_clear (SondeSlices *self); /* accepts zeros */
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeSlices, sonde_slices_clear)

typedef struct
{
  double before; /* shares, of 1 */
  double after;
  double low; /* what after - before is between, unless chance is against it */
  double high;
  double seen;         /* changes as large as that are found in SONDE_CHANCE_POWER of such pairs */
  gboolean is_changed; /* 0 is not in between */
} SondeChange;

/* Below rows of which some are marked so; where intervals of two recordings do not meet, too: all
 * of them together, in SONDE_CHANCE_CONFIDENCE of such pairs. */
#define SONDE_CHANCE_MARK       "* differs by more than chance lets two such recordings differ"

#define SONDE_CHANCE_CONFIDENCE 0.995 /* of all intervals together */
#define SONDE_CHANCE_POWER      0.95
#define SONDE_CHANCE_SEED       G_GUINT64_CONSTANT (0x536f6e6465)

/**
 * sonde_chance_compare:
 * @before, @after: with the same rows
 * @n_together: intervals that shall hold together, the rows' among them
 * @changes: (out): by row
 *
 * Takes time and memory that do not depend on how many samples there are.
 *
 * Returns: FALSE if slices are too few, or have nothing, so that only shares are known
 */
gboolean sonde_chance_compare (const SondeSlices *before,
                               const SondeSlices *after,
                               guint n_together,
                               double confidence,
                               guint64 seed,
                               SondeChange *changes);
