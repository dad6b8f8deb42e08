/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/mount-paths.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "client/base/id-map.h"

enum
{
  MAX_MOUNTS = 10000, /* lines that are looked at; the kernel allows 100,000 in a namespace */
  MIN_FIELDS = 6,     /* before the optional ones */
};

typedef struct
{
  char *device;      /* "MAJOR:MINOR" of the file system */
  char *root;        /* the folder in it that is mounted */
  char *place;       /* where */
  GPtrArray *layers; /* folders of an overlay, the uppermost first; NULL: it is none */
} Mount;

struct SondeMountPaths
{
  GArray *mounts;       /* Mount */
  SondeIdMap *by_place; /* hash_step() of all of a place → index of mounts; later ones are above */
  guint64 seed;
};

static void
mount_clear (gpointer data)
{
  Mount *mount = data;

  g_free (mount->device);
  g_free (mount->root);
  g_free (mount->place);
  g_clear_pointer (&mount->layers, g_ptr_array_unref);
}

/* Blanks, line ends and backslashes are written as \ and three octal digits. */
static char *
unescape (const char *text)
{
  GString *out = g_string_new (NULL);

  while (*text != '\0')
    {
      guint byte;

      if (text[0] == '\\' && sscanf (text, "\\%3o", &byte) == 1
          && strspn (text + 1, "01234567") >= 3 && byte > 0 && byte < 256)
        {
          g_string_append_c (out, (char) byte);
          text += 4;
        }
      else
        g_string_append_c (out, *text++);
    }
  return g_string_free (out, FALSE);
}

static void
add_place (GPtrArray *places, const char *folder, const char *rest)
{
  if (folder[0] == '/' && places->len < SONDE_MOUNT_PATHS_MAX)
    g_ptr_array_add (places, g_strconcat (g_str_equal (folder, "/") ? "" : folder, rest, NULL));
}

/* In a list of folders a backslash stands before a colon that belongs to a name. */
static void
add_layers (GPtrArray *layers, const char *list)
{
  g_autoptr (GString) folder = g_string_new (NULL);

  for (;; list++)
    {
      if (*list == ':' || *list == '\0')
        {
          add_place (layers, folder->str, "");
          g_string_truncate (folder, 0);
          if (*list == '\0')
            return;
          continue;
        }
      if (list[0] == '\\' && list[1] != '\0')
        list++;
      g_string_append_c (folder, *list);
    }
}

/* The uppermost layer hides those below it. */
static GPtrArray *
read_layers (const char *file_system_options)
{
  static const char *const names[] = { "upperdir=", "lowerdir=", "lowerdir+=" };
  g_auto (GStrv) options = g_strsplit (file_system_options, ",", 0);
  GPtrArray *layers = g_ptr_array_new_with_free_func (g_free);

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    for (guint j = 0; options[j] != NULL; j++)
      if (g_str_has_prefix (options[j], names[i]))
        add_layers (layers, options[j] + strlen (names[i]));
  return layers;
}

static guint64
hash_step (guint64 hash, char next)
{
  return sonde_hash (hash, (guint8) next);
}

/* "/" is the beginning of each path, as "" is. */
static guint64
hash_place (const SondeMountPaths *self, const char *place)
{
  guint64 hash = self->seed;

  for (; *place != '\0' && !g_str_equal (place, "/"); place++)
    hash = hash_step (hash, *place);
  return hash;
}

/* "36 35 98:0 /root /place rw,noatime shared:1 - type source options" */
static void
add_line (SondeMountPaths *self, const char *line)
{
  g_auto (GStrv) fields = g_strsplit (line, " ", 64);
  guint n_fields = g_strv_length (fields);
  guint dash = MIN_FIELDS;
  Mount mount = { 0 };

  while (dash < n_fields && !g_str_equal (fields[dash], "-"))
    dash++;
  if (dash + 3 >= n_fields || fields[3][0] != '/' || fields[4][0] != '/')
    return;
  mount.device = g_strdup (fields[2]);
  mount.root = unescape (fields[3]);
  mount.place = unescape (fields[4]);
  if (g_str_equal (fields[dash + 1], "overlay"))
    {
      g_autofree char *options = unescape (fields[dash + 3]);

      mount.layers = read_layers (options);
    }
  sonde_id_map_set (self->by_place, hash_place (self, mount.place), self->mounts->len);
  g_array_append_val (self->mounts, mount);
}

SondeMountPaths *
sonde_mount_paths_new (const char *mountinfo)
{
  SondeMountPaths *self = g_new0 (SondeMountPaths, 1);
  g_auto (GStrv) lines = g_strsplit (mountinfo, "\n", MAX_MOUNTS + 1);
  guint n_lines = MIN (g_strv_length (lines), MAX_MOUNTS);

  self->mounts = g_array_new (FALSE, FALSE, sizeof (Mount));
  g_array_set_clear_func (self->mounts, mount_clear);
  self->by_place = sonde_id_map_new ();
  self->seed = sonde_hash_seed ();
  for (guint i = 0; i < n_lines; i++)
    add_line (self, lines[i]);
  return self;
}

void
sonde_mount_paths_free (SondeMountPaths *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->mounts);
  sonde_id_map_free (self->by_place);
  g_free (self);
}

/* What of @path follows @folder: "" or "/…"; NULL if it is not below. */
static const char *
skip_folder (const char *path, const char *folder)
{
  gsize len = strlen (folder);

  if (len > 0 && folder[len - 1] == '/')
    len--;
  if (strncmp (path, folder, len) != 0 || (path[len] != '/' && path[len] != '\0'))
    return NULL;
  return path + len;
}

/* The mount that @path is in: the one with the longest place. */
static const Mount *
find_mount (const SondeMountPaths *self, const char *path)
{
  const Mount *found = NULL;
  guint64 hash = self->seed;

  for (const char *at = path;; at++)
    {
      guint32 number;

      if ((*at == '/' || *at == '\0') && sonde_id_map_lookup (self->by_place, hash, &number))
        found = &g_array_index (self->mounts, Mount, number);
      if (*at == '\0')
        return found;
      hash = hash_step (hash, *at);
    }
}

GPtrArray *
sonde_mount_paths_find (const SondeMountPaths *self, const SondeMountPaths *here, const char *path)
{
  GPtrArray *places = g_ptr_array_new_with_free_func (g_free);
  const Mount *mount = strlen (path) < PATH_MAX ? find_mount (self, path) : NULL;
  g_autofree char *inside = NULL;

  if (mount == NULL || skip_folder (path, mount->place) == NULL)
    return places;
  inside = g_strconcat (g_str_equal (mount->root, "/") ? "" : mount->root,
                        skip_folder (path, mount->place), NULL);
  for (guint i = 0; i < here->mounts->len; i++)
    {
      const Mount *other = &g_array_index (here->mounts, Mount, i);
      const char *rest = skip_folder (inside, other->root);

      if (rest != NULL && g_str_equal (other->device, mount->device))
        add_place (places, other->place, rest);
    }
  for (guint i = 0; mount->layers != NULL && i < mount->layers->len; i++)
    add_place (places, g_ptr_array_index (mount->layers, i), inside);
  return places;
}
