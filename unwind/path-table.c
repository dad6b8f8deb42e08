/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each path once, however many mappings name it. */
#include "unwind/path-table.h"

#include <stdlib.h>
#include <string.h>

typedef struct
{
  size_t n_refs;
  uint64_t hash;
  char text[];
} Path;

static Path *
path_of (const char *text)
{
  return (Path *) (void *) ((char *) (uintptr_t) text - offsetof (Path, text));
}

static size_t
path_bytes (const char *text)
{
  return sizeof (Path) + strlen (text) + 1;
}

static bool
has_text (const void *item, const void *key)
{
  return strcmp (((const Path *) item)->text, key) == 0;
}

const char *
sonde_path_table_intern (SondePathTable *self, const char *text)
{
  size_t length = strlen (text);
  uint64_t hash = sonde_hash_bytes (text, length);
  Path *path = sonde_hash_find (&self->paths, hash, has_text, text);

  if (path != NULL)
    {
      path->n_refs++;
      return path->text;
    }

  path = malloc (path_bytes (text));
  if (path == NULL)
    return NULL;
  path->n_refs = 1;
  path->hash = hash;
  memcpy (path->text, text, length + 1);
  if (sonde_hash_add (&self->paths, hash, path) < 0)
    {
      free (path);
      return NULL;
    }
  self->n_bytes += path_bytes (text);
  return path->text;
}

const char *
sonde_path_table_ref (const char *path)
{
  path_of (path)->n_refs++;
  return path;
}

void
sonde_path_table_unref (SondePathTable *self, const char *text)
{
  Path *path;

  if (text == NULL)
    return;
  path = path_of (text);
  if (--path->n_refs > 0)
    return;
  self->n_bytes -= path_bytes (text);
  sonde_hash_remove (&self->paths, path->hash, path);
  free (path);
}

void
sonde_path_table_clear (SondePathTable *self)
{
  sonde_hash_clear (&self->paths);
}
