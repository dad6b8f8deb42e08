/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/unit-name.h"

#include <string.h>

#define ID_DIGITS 12 /* of a container's 64 that are shown */

/* All kinds that systemd has; those that have control groups of their own come first. */
static const char *const suffixes[]
    = { ".service", ".scope", ".slice", ".socket",    ".mount", ".swap",
        ".target",  ".timer", ".path",  ".automount", ".device" };
#define N_WITH_PROCESSES 6

static gboolean
has_suffix (const char *name, gsize n_suffixes)
{
  for (gsize i = 0; i < n_suffixes; i++)
    if (g_str_has_suffix (name, suffixes[i]))
      return TRUE;
  return FALSE;
}

static gboolean
has_processes (const char *name)
{
  return has_suffix (name, N_WITH_PROCESSES);
}

gboolean
sonde_unit_name_is (const char *text)
{
  return has_suffix (text, G_N_ELEMENTS (suffixes));
}

char *
sonde_unit_name_complete (const char *text)
{
  return sonde_unit_name_is (text) ? g_strdup (text) : g_strconcat (text, ".service", NULL);
}

/* --- what a control group's path says --- */

/* The innermost one that is no slice, for units have control groups of their own below them; but of
 * a user's processes their own manager's units, not user@1000.service. */
char *
sonde_cgroup_dup_unit (const char *path)
{
  g_auto (GStrv) parts = g_strsplit (path, "/", 64);
  const char *slice = NULL;

  for (guint i = g_strv_length (parts); i > 0; i--)
    if (has_processes (parts[i - 1]))
      {
        if (!g_str_has_suffix (parts[i - 1], ".slice"))
          return g_strdup (parts[i - 1]);
        if (slice == NULL)
          slice = parts[i - 1];
      }
  return g_strdup (slice);
}

static gboolean
is_id (const char *text, gsize n)
{
  return n == 64 && strspn (text, "0123456789abcdef") >= 64;
}

/* "my\x2dbox" is "my-box", as systemd escapes names of units. */
static void
unescape (char *text)
{
  char *to = text;

  for (const char *at = text; *at != '\0'; at++)
    {
      int high = at[0] == '\\' && at[1] == 'x' ? g_ascii_xdigit_value (at[2]) : -1;
      int low = high >= 0 ? g_ascii_xdigit_value (at[3]) : -1;

      *to++ = low >= 0 && (high > 0 || low > 0) ? (char) (high << 4 | low) : *at;
      if (low >= 0 && (high > 0 || low > 0))
        at += 3;
    }
  *to = '\0';
}

/* (transfer full): what @part, of a path, names: @before NAME @after; NULL: nothing */
static char *
dup_name (const char *part, const char *before, const char *after)
{
  char *name;

  if (!g_str_has_prefix (part, before) || !g_str_has_suffix (part, after)
      || strlen (part) <= strlen (before) + strlen (after))
    return NULL;
  name = g_strndup (part + strlen (before), strlen (part) - strlen (before) - strlen (after));
  if (after[0] != '\0')
    unescape (name);
  return name;
}

/* (transfer full): of "libpod-ID.scope", "docker-ID.scope", "cri-containerd-ID.scope" the id, but
 * not of "libpod-conmon-ID.scope" and "crio-conmon-ID.scope", which only watch over it */
static char *
dup_id (const char *part)
{
  gsize n = strlen (part) - (g_str_has_suffix (part, ".scope") ? strlen (".scope") : 0);
  const char *dash = g_strrstr_len (part, (gssize) n, "-");
  const char *id = dash != NULL ? dash + 1 : part;
  gsize n_before = (gsize) (id - part);

  if (!is_id (id, n - n_before)
      || (n_before >= strlen ("conmon-") && g_str_has_prefix (id - strlen ("conmon-"), "conmon-")))
    return NULL;
  return g_strndup (id, n - n_before);
}

char *
sonde_cgroup_dup_container_id (const char *path)
{
  static const char *const names[][2]
      = { { "machine-", ".scope" }, { "systemd-nspawn@", ".service" }, { "lxc.payload.", "" } };
  const char *end = path + strlen (path);

  while (end > path)
    {
      const char *slash = g_strrstr_len (path, end - path, "/");
      const char *start = slash != NULL ? slash + 1 : path;
      g_autofree char *part = g_strndup (start, (gsize) (end - start));
      char *found = dup_id (part);

      for (gsize i = 0; i < G_N_ELEMENTS (names) && found == NULL; i++)
        found = dup_name (part, names[i][0], names[i][1]);
      if (found != NULL)
        return found;
      end = slash != NULL ? slash : path;
    }
  return NULL;
}

char *
sonde_cgroup_dup_container (const char *path)
{
  char *found = sonde_cgroup_dup_container_id (path);

  if (found != NULL && is_id (found, strlen (found)))
    found[ID_DIGITS] = '\0'; /* as their programs show them */
  return found;
}

gboolean
sonde_cgroup_is_container (const char *path, const char *wanted)
{
  g_autofree char *found = sonde_cgroup_dup_container_id (path);

  return found != NULL && wanted[0] != '\0'
         && (g_str_equal (found, wanted)
             || (is_id (found, strlen (found)) && g_str_has_prefix (found, wanted)));
}
