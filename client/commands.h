/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The commands of sondectl. */
#pragma once

#include <glib.h>

/*
 * Each takes its own argument vector (argv[0] is its name), prints to standard output and standard
 * error, and returns the exit status. What the numbers mean is in docs/sondectl.1.rst.
 */
int sonde_cmd_record (int argc, char **argv);
int sonde_cmd_report (int argc, char **argv);
int sonde_cmd_heap (int argc, char **argv);
int sonde_cmd_calls (int argc, char **argv);
int sonde_cmd_diff (int argc, char **argv);
int sonde_cmd_export (int argc, char **argv);
int sonde_cmd_import (int argc, char **argv);
int sonde_cmd_flamegraph (int argc, char **argv);
int sonde_cmd_view (int argc, char **argv);
int sonde_cmd_dump (int argc, char **argv);
int sonde_cmd_verify (int argc, char **argv);
int sonde_cmd_archive (int argc, char **argv);
int sonde_cmd_top (int argc, char **argv);
int sonde_cmd_arm (int argc, char **argv);
int sonde_cmd_disarm (int argc, char **argv);
int sonde_cmd_start (int argc, char **argv);
int sonde_cmd_list (int argc, char **argv);
int sonde_cmd_status (int argc, char **argv);
int sonde_cmd_attach (int argc, char **argv);
int sonde_cmd_snapshot (int argc, char **argv);
int sonde_cmd_pause (int argc, char **argv);
int sonde_cmd_resume (int argc, char **argv);
int sonde_cmd_stop (int argc, char **argv);
int sonde_cmd_rm (int argc, char **argv);
int sonde_cmd_events (int argc, char **argv);
int sonde_cmd_limits (int argc, char **argv);
int sonde_cmd_mcp (int argc, char **argv);

/* "sondectl PROGRAM ...": records @argv as a command, embedded if there is no service, and shows
 * where its time went: in a browser, if one can open beside the terminal, else as a report. */
int sonde_cmd_record_program (char **argv);

/* FALSE, having complained, if @path could not be shown in a browser. */
gboolean sonde_view_capture (const char *path);
