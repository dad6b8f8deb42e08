/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads the configuration file: what an administrator may change. */
#pragma once

#include <gio/gio.h>

/* Names, units and ranges: sonded(8), CONFIGURATION. Defaults: daemon/base/limits.h. */
typedef struct
{
  guint64 idle_timeout_ms; /* 0: for ever */
  guint64 sessions;
  guint64 sessions_root;
  guint64 sessions_machine;
  guint64 uid_cpu_percent; /* of one processor; 0: no bound */
  guint64 uid_memory_bytes;
  guint64 capture_bytes;
  guint64 capture_uid_bytes;
  guint64 capture_free_percent;
  guint64 capture_machine_bytes; /* 0: by the size of the disk */
  guint64 capture_days;          /* 0: for ever */
} SondeSettings;

/* The defaults. */
void sonde_settings_init (SondeSettings *self);

/**
 * sonde_settings_load:
 * @path: of the file; without one the defaults hold
 *
 * Errors: SONDE_ERROR_FAILED, naming the key, and leaving @self as it is
 */
gboolean sonde_settings_load (SondeSettings *self, const char *path, GError **error);

/* What [Limits] @name is, which there must be. */
guint64 sonde_settings_limit (const SondeSettings *self, const char *name);

/* "Limits", "sessions", ... of @index; FALSE behind the last one. */
gboolean sonde_settings_key (gsize index, const char **group, const char **key);
