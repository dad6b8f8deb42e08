/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/settings.h"

#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define MIB G_GUINT64_CONSTANT (1048576)

/* Limits have the names of the property Limits. */
static const struct
{
  const char *group;
  const char *key;
  gsize offset; /* in SondeSettings */
  guint64 standard;
  guint64 min;
  guint64 max;
} rows[] = {
#define ROW(group, key, member) group, key, G_STRUCT_OFFSET (SondeSettings, member)
  { ROW ("Service", "idle-timeout-ms", idle_timeout_ms), SONDE_LIMIT_IDLE_MS, 0, 86400000 },
  { ROW ("Limits", "sessions", sessions), SONDE_LIMIT_SESSIONS, 1, 64 },
  { ROW ("Limits", "sessions-root", sessions_root), SONDE_LIMIT_SESSIONS_ROOT, 1, 64 },
  { ROW ("Limits", "sessions-machine", sessions_machine), SONDE_LIMIT_SESSIONS_MACHINE, 1, 128 },
  { ROW ("Limits", "uid-cpu-percent", uid_cpu_percent), SONDE_LIMIT_UID_CPU_PERCENT, 0, 819200 },
  { ROW ("Limits", "uid-memory-bytes", uid_memory_bytes), SONDE_LIMIT_UID_MEMORY_BYTES, 128 * MIB,
    MIB *MIB },
  { ROW ("Limits", "capture-bytes", capture_bytes), SONDE_LIMIT_CAPTURE_BYTES, MIB, MIB *MIB },
  { ROW ("Limits", "capture-uid-bytes", capture_uid_bytes), SONDE_LIMIT_CAPTURE_UID_BYTES, MIB,
    MIB *MIB },
  { ROW ("Limits", "capture-free-percent", capture_free_percent), SONDE_LIMIT_CAPTURE_FREE_PERCENT,
    0, 99 },
  { ROW ("Limits", "capture-machine-bytes", capture_machine_bytes),
    SONDE_LIMIT_CAPTURE_MACHINE_BYTES, 0, MIB *MIB },
  { ROW ("Limits", "capture-days", capture_days), SONDE_LIMIT_CAPTURE_DAYS, 0, 36500 },
};

void
sonde_settings_init (SondeSettings *self)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    G_STRUCT_MEMBER (guint64, self, rows[i].offset) = rows[i].standard;
}

gboolean
sonde_settings_key (gsize index, const char **group, const char **key)
{
  if (index >= G_N_ELEMENTS (rows))
    return FALSE;
  *group = rows[index].group;
  *key = rows[index].key;
  return TRUE;
}

guint64
sonde_settings_limit (const SondeSettings *self, const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    if (g_str_equal (rows[i].group, "Limits") && g_str_equal (rows[i].key, name))
      return G_STRUCT_MEMBER (guint64, self, rows[i].offset);
  g_assert_not_reached ();
}

static gboolean
take_value (
    SondeSettings *self, const char *group, const char *key, const char *text, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 *value = G_STRUCT_MEMBER_P (self, rows[i].offset);

      if (!g_str_equal (rows[i].group, group) || !g_str_equal (rows[i].key, key))
        continue;
      if (g_ascii_string_to_unsigned (text, 10, rows[i].min, rows[i].max, value, NULL))
        return TRUE;
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "[%s] %s must be a number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT,
                   group, key, rows[i].min, rows[i].max);
      return FALSE;
    }
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "[%s] %s is not known", group, key);
  return FALSE;
}

static gboolean
take_group (SondeSettings *self, GKeyFile *file, const char *group, GError **error)
{
  g_auto (GStrv) keys = g_key_file_get_keys (file, group, NULL, error);

  for (gsize i = 0; keys != NULL && keys[i] != NULL; i++)
    {
      g_autofree char *text = g_key_file_get_value (file, group, keys[i], error);

      if (text == NULL || !take_value (self, group, keys[i], text, error))
        return FALSE;
    }
  return keys != NULL;
}

gboolean
sonde_settings_load (SondeSettings *self, const char *path, GError **error)
{
  g_autoptr (GKeyFile) file = g_key_file_new ();
  g_autoptr (GError) local = NULL;
  g_auto (GStrv) groups = NULL;
  SondeSettings loaded;

  sonde_settings_init (&loaded);
  if (!g_key_file_load_from_file (file, path, G_KEY_FILE_NONE, &local)
      && !g_error_matches (local, G_FILE_ERROR, G_FILE_ERROR_NOENT))
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "%s: %s", path, local->message);
      return FALSE;
    }
  groups = g_key_file_get_groups (file, NULL);
  for (gsize i = 0; groups[i] != NULL; i++)
    if (!take_group (&loaded, file, groups[i], error))
      {
        g_prefix_error (error, "%s: ", path);
        return FALSE;
      }
  *self = loaded;
  return TRUE;
}
