/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes a request of what the user asked sondectl record for. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#define SONDE_RECORD_MAX_PIDS     16 /* as the service takes them in one call */

#define SONDE_RECORD_MAX_SWITCHES 44

/* Of a switch; all 0: not given. */
typedef union
{
  gboolean is_given;
  int number;
  gint64 wide;
  char *text;
} SondeRecordValue;

/* Strings of option parsing live as long as the struct. */
typedef struct
{
  gboolean embedded; /* neither of both: the service, else embedded */
  gboolean service;
  char *daemon_path;
  char *worker_path;
  char *output; /* NULL: a name is made up */

  GArray *pids; /* GPid */
  char *unit;
  char *cgroup;
  char *container; /* these two only until sonde_record_options_find() */
  char *comm;
  gboolean system;
  char **command; /* NULL-terminated, or NULL; the caller's */

  int frequency_hz; /* 0: the service's default */
  gint64 period;    /* 0: by frequency */
  double seconds;
  gint64 recorder_us; /* 0: without a recorder, or of any length */
  gboolean no_symbols;
  gboolean java;            /* what is made at run time by Java in the command is named */
  char *waits;              /* NULL: the service's default */
  char *memory;             /* "all", "sampled"; NULL: off */
  char *trace;              /* "count", "auto", "exact"; NULL: off */
  char *memory_detail;      /* of record; NULL: the service's default */
  gboolean has_memory_wait; /* else the service's default */
  int memory_wait_us;
  char **counters;                                    /* NULL: none */
  SondeRecordValue others[SONDE_RECORD_MAX_SWITCHES]; /* what only the service reads */
} SondeRecordOptions;

/* Those of sondectl record: removes them from the vector and complains about what is wrong. */
gboolean sonde_record_options_parse (SondeRecordOptions *self, int *argc, char ***argv);

/* Those of sondectl start, the same way. */
gboolean sonde_record_options_parse_start (SondeRecordOptions *self, int *argc, char ***argv);

/* (transfer full): those that sondectl top shares, GOptionEntry, to be parsed with @self as user
 * data. */
GArray *sonde_record_options_new_entries_of_top (SondeRecordOptions *self);

/* Makes numbers, the unit and the control group of what was named otherwise; complains if there is
 * no such thing. */
gboolean sonde_record_options_find (SondeRecordOptions *self);

/* What is left of the vector, with or without "--". */
void sonde_record_options_take_command (SondeRecordOptions *self, int argc, char **argv);

/* Complains. @command: of sondectl, for whom */
gboolean sonde_record_options_check (const SondeRecordOptions *self, const char *command);

/* Whether an event was named. */
gboolean sonde_record_options_has_event (const SondeRecordOptions *self);

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

/**
 * sonde_record_options_make_preload:
 * @preload: (out) (transfer full): the libraries that tell of the command from within, for
 *   LD_PRELOAD; NULL: none is asked for
 *
 * Returns: FALSE with @error if one of them would not be loaded
 */
gboolean
sonde_record_options_make_preload (const SondeRecordOptions *self, char **preload, GError **error);

/* "python3": what the capture is named after. */
char *sonde_record_options_dup_subject (const SondeRecordOptions *self);
