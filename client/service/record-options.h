/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the user asked sondectl record for, and the request it becomes. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#define SONDE_RECORD_MAX_PIDS 16 /* as the service takes them in one call */

/* Strings of option parsing live as long as the struct. */
typedef struct
{
  gboolean embedded;
  char *daemon_path;
  char *worker_path;
  char *output; /* NULL: a name is made up */

  GArray *pids; /* GPid */
  char *unit;
  gboolean system;
  char **command; /* NULL-terminated, or NULL; the caller's */

  char *event;
  int frequency_hz; /* 0: the service's default, here and below */
  gint64 period;
  double seconds;
  gboolean kernel;
  gboolean raw;
  gboolean no_children;
  gboolean no_symbols;
  char *unwind;
  int stack_size_bytes;
  int max_depth;
  char *memory; /* "all", "sampled"; NULL: off */
  gint64 memory_interval_bytes;
  int memory_wait_us;
  char **counters; /* NULL: none */
} SondeRecordOptions;

/* Those of sondectl record: removes them from the vector and complains about what is wrong. */
gboolean sonde_record_options_parse (SondeRecordOptions *self, int *argc, char ***argv);

/* (transfer full): the options of all that record, GOptionEntry, to be parsed with @self as user
 * data: what is recorded, and how it is sampled. */
GArray *sonde_record_options_new_entries (SondeRecordOptions *self);

/* What is left of the vector, with or without "--". */
void sonde_record_options_take_command (SondeRecordOptions *self, int argc, char **argv);

/* Complains. @command: of sondectl, for whom */
gboolean sonde_record_options_check (const SondeRecordOptions *self, const char *command);

void sonde_record_options_clear (SondeRecordOptions *self);

/**
 * sonde_record_options_build:
 * @fds: (out) (transfer full): the descriptors that the request's handles mean
 *
 * For processes opens each /proc/PID/maps: with them the request proves that the caller may read
 * these processes. If one cannot be opened, it asks by number alone, which needs more rights.
 *
 * Returns: (transfer floating): a{sv}; NULL with @error if a process is not there
 */
GVariant *
sonde_record_options_build (const SondeRecordOptions *self, GUnixFDList **fds, GError **error);

/* The library that tells of the command's allocations: what SONDE_MEMORY_LIBRARY says, else the
 * installed one; NULL if they are not asked for. */
const char *sonde_record_options_preload (const SondeRecordOptions *self);

/* "python3": what the capture is named after. */
char *sonde_record_options_dup_subject (const SondeRecordOptions *self);
