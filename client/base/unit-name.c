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

/* Of "libpod-ID.scope", "docker-ID.scope", "cri-containerd-ID.scope", "/docker/ID" the id; of
 * "machine-NAME.scope" and "lxc.payload.NAME" the name. @n: (out): its length in bytes */
static const char *
find_container (const char *path, gsize *n)
{
  const char *end = path + strlen (path);

  while (end > path)
    {
      const char *slash = g_strrstr_len (path, end - path, "/");
      const char *part = slash != NULL ? slash + 1 : path;
      gsize len = (gsize) (end - part);
      gboolean is_scope = len > strlen (".scope") && strncmp (end - 6, ".scope", 6) == 0;
      gsize len_bare = len - (is_scope ? strlen (".scope") : 0);
      const char *dash = g_strrstr_len (part, (gssize) len_bare, "-");
      const char *id = dash != NULL ? dash + 1 : part;

      *n = len_bare - (gsize) (id - part);
      if (is_id (id, *n))
        return id;
      *n = len_bare - strlen ("machine-");
      if (is_scope && g_str_has_prefix (part, "machine-"))
        return part + strlen ("machine-");
      *n = len - strlen ("lxc.payload.");
      if (g_str_has_prefix (part, "lxc.payload."))
        return part + strlen ("lxc.payload.");
      end = slash != NULL ? slash : path;
    }
  return NULL;
}

char *
sonde_cgroup_dup_container (const char *path)
{
  gsize n;
  const char *found = find_container (path, &n);

  if (found == NULL)
    return NULL;
  return g_strndup (found, is_id (found, n) ? ID_DIGITS : n); /* as their programs show them */
}

gboolean
sonde_cgroup_is_container (const char *path, const char *wanted)
{
  gsize n_wanted = strlen (wanted);
  gsize n;
  const char *found = find_container (path, &n);

  return found != NULL && n_wanted > 0 && n_wanted <= n && strncmp (found, wanted, n_wanted) == 0
         && (n_wanted == n || is_id (found, n));
}
