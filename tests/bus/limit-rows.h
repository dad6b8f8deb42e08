/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How each limit is reached. */
#pragma once

#include <gio/gio.h>

/* The program of tests/bus/target.c. */
extern const char *limit_target_program;

/* The value of a limit in the property Limits. */
guint64 limit_lookup (const char *name);

/* Fails the test unless @error is LimitExceeded, and its message begins "Limit @name:". */
void limit_assert_refusal (const GError *error, const char *name);

/* Fails the test unless Profile refuses @options (consumed) with InvalidOption, and names @key. */
void limit_assert_option (GVariant *options, const char *key);

/* Each reaches the limit @name, and fails the test if it is another one or none that is reached. */
void limit_reach_sessions (const char *name);
void limit_reach_sessions_of_root (const char *name);
void limit_reach_sessions_of_all (const char *name);
void limit_reach_starts (const char *name);
/* The same by starts that are refused once a broker has looked at them. */
void limit_reach_starts_by_refusals (void);
void limit_reach_calls (const char *name);
void limit_reach_additions (const char *name);
void limit_reach_kept_sessions (const char *name);
void limit_reach_message_entries (const char *name);
void limit_reach_message_text (const char *name);
void limit_reach_targets (const char *name);
void limit_reach_session_targets (const char *name);
void limit_reach_events (const char *name);
void limit_reach_unit_groups (const char *name);
void limit_reach_sinks (const char *name);
void limit_reach_snapshots (const char *name);
void limit_reach_snapshots_at_once (const char *name);
void limit_reach_snapshot_calls (const char *name);
void limit_reach_subscribers (const char *name);
void limit_reach_sink_pids (const char *name);
void limit_reach_option (const char *name);
void limit_reach_perf_rings (const char *name);
void limit_reach_descriptors (const char *name);
void limit_reach_controls (const char *name);
void limit_reach_rings (const char *name);
void limit_reach_capture_uid_bytes (const char *name);
void limit_reach_capture_bytes (const char *name);
void limit_reach_capture_files (const char *name);
void limit_reach_capture_free (const char *name);
