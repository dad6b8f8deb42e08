/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The configuration file: what it may say, and which key is wrong. */
#include "daemon/control/system/settings.h"

#include <glib/gstdio.h>
#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

static gboolean
load (SondeSettings *settings, const char *text, GError **error)
{
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("sonded-XXXXXX.conf", &path, NULL);
  gboolean is_loaded;

  g_assert_cmpint (fd, >=, 0);
  close (fd);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  is_loaded = sonde_settings_load (settings, path, error);
  g_unlink (path);
  return is_loaded;
}

static void
assert_refused (const char *text, const char *expected)
{
  SondeSettings settings;
  g_autoptr (GError) error = NULL;

  sonde_settings_init (&settings);
  settings.sessions = 7;
  g_assert_false (load (&settings, text, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  if (strstr (error->message, expected) == NULL)
    g_error ("\"%s\" does not say \"%s\"", error->message, expected);
  g_assert_cmpuint (settings.sessions, ==, 7);
}

static void
names_the_key_that_is_wrong (void)
{
  assert_refused ("[Limits]\nsessions=0\n", "[Limits] sessions must be a number from 1 to 64");
  assert_refused ("[Limits]\nsessions=many\n", "[Limits] sessions must be");
  assert_refused ("[Limits]\nsessions=-1\n", "[Limits] sessions must be");
  assert_refused ("[Limits]\ncapture-free-percent=100\n", "[Limits] capture-free-percent must be");
  assert_refused ("[Limits]\nfrequency=1\n", "[Limits] frequency is not known");
  assert_refused ("[Limit]\nsessions=1\n", "[Limit] sessions is not known");
  assert_refused ("[Service]\nidle-timeout-ms=\n", "[Service] idle-timeout-ms must be");
  assert_refused ("sessions=1\n", "sonded-");
}

static void
takes_what_is_there_and_the_defaults (void)
{
  SondeSettings settings;

  g_assert_true (load (&settings, "[Service]\nidle-timeout-ms=0\n[Limits]\nsessions=9\n", NULL));
  g_assert_cmpuint (settings.idle_timeout_ms, ==, 0);
  g_assert_cmpuint (settings.sessions, ==, 9);
  g_assert_cmpuint (settings.sessions_root, ==, SONDE_LIMIT_SESSIONS_ROOT);
}

static void
needs_no_file (void)
{
  SondeSettings settings;

  g_assert_true (sonde_settings_load (&settings, "/nonexistent/sonded.conf", NULL));
  g_assert_cmpuint (settings.sessions, ==, SONDE_LIMIT_SESSIONS);
}

/* It shows every key with its default. */
static void
the_shipped_file_has_every_key (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "systemd", "sonded.conf", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GString) active = NULL;
  SondeSettings settings;
  SondeSettings standard;
  const char *group;
  const char *key;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  for (gsize i = 0; sonde_settings_key (i, &group, &key); i++)
    {
      g_autofree char *line = g_strdup_printf ("\n#%s=", key);

      g_assert_nonnull (strstr (text, line));
    }
  active = g_string_new (text);
  for (gsize i = 0; sonde_settings_key (i, &group, &key); i++)
    {
      g_autofree char *comment = g_strdup_printf ("#%s=", key);
      g_autofree char *line = g_strdup_printf ("%s=", key);

      g_string_replace (active, comment, line, 0);
    }
  g_assert_true (load (&settings, active->str, NULL));
  sonde_settings_init (&standard);
  g_assert_cmpmem (&settings, sizeof settings, &standard, sizeof standard);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/settings/names-the-key-that-is-wrong", names_the_key_that_is_wrong);
  g_test_add_func ("/settings/takes-what-is-there-and-the-defaults",
                   takes_what_is_there_and_the_defaults);
  g_test_add_func ("/settings/needs-no-file", needs_no_file);
  g_test_add_func ("/settings/the-shipped-file-has-every-key", the_shipped_file_has_every_key);
  return g_test_run ();
}
