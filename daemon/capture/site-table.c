/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct places in files that samples showed. */
#include "daemon/capture/site-table.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/base/fd.h"

#define FIRST_CAPACITY 1024 /* slots, a power of two */

typedef struct
{
  int fd; /* -1: there were too many */
  char *name;
} File;

struct SondeSiteTable
{
  GArray *sites;   /* SondeSite */
  uint32_t *slots; /* index + 1; 0: empty */
  guint capacity;  /* a power of two, at most three quarters full */
  GArray *files;   /* File */
  guint max_fds;
  GHashTable *file_index; /* module id → index + 1 */
};

static void
clear_file (gpointer data)
{
  File *file = data;

  sonde_clear_fd (&file->fd);
  g_free (file->name);
}

SondeSiteTable *
sonde_site_table_new (void)
{
  SondeSiteTable *self = g_new0 (SondeSiteTable, 1);

  self->sites = g_array_new (FALSE, FALSE, sizeof (SondeSite));
  self->capacity = FIRST_CAPACITY;
  self->slots = g_new0 (uint32_t, self->capacity);
  self->files = g_array_new (FALSE, FALSE, sizeof (File));
  g_array_set_clear_func (self->files, clear_file);
  self->max_fds = (guint) sonde_module_max_fds ();
  self->file_index = g_hash_table_new (NULL, NULL);

  return self;
}

void
sonde_site_table_free (SondeSiteTable *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->sites);
  g_free (self->slots);
  g_array_unref (self->files);
  g_hash_table_unref (self->file_index);
  g_free (self);
}

const SondeSite *
sonde_site_table_get (const SondeSiteTable *self, guint index)
{
  return &g_array_index (self->sites, SondeSite, index);
}

static gboolean
is_same_site (const SondeSite *a, const SondeSite *b)
{
  return a->vaddr == b->vaddr && a->file == b->file && a->is_return == b->is_return;
}

/* Where the site is, or is to be. */
static guint
slot_of (const SondeSiteTable *self, const SondeSite *site)
{
  uint64_t hash = (site->vaddr ^ (uint64_t) site->file << 40 ^ (uint64_t) site->is_return << 39)
                  * UINT64_C (0x9E3779B97F4A7C15);
  guint at = (guint) (hash >> 40) & (self->capacity - 1);

  while (self->slots[at] != 0
         && !is_same_site (sonde_site_table_get (self, self->slots[at] - 1), site))
    at = (at + 1) & (self->capacity - 1);

  return at;
}

static void
grow (SondeSiteTable *self)
{
  self->capacity *= 2;
  g_free (self->slots);
  self->slots = g_new0 (uint32_t, self->capacity);
  for (guint i = 0; i < self->sites->len; i++)
    self->slots[slot_of (self, sonde_site_table_get (self, i))] = i + 1;
}

static guint
intern_file (SondeSiteTable *self, const SondeModule *module, const char *path)
{
  gpointer key = GUINT_TO_POINTER (sonde_module_id (module));
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->file_index, key));

  if (index == 0)
    {
      const char *slash = strrchr (path, '/');
      File file = { -1, g_strdup (slash != NULL ? slash + 1 : path) };

      if (self->files->len < self->max_fds && sonde_module_fd (module) >= 0)
        file.fd = fcntl (sonde_module_fd (module), F_DUPFD_CLOEXEC, 0);
      g_array_append_val (self->files, file);
      index = self->files->len;
      g_hash_table_insert (self->file_index, key, GUINT_TO_POINTER (index));
    }

  return index - 1;
}

guint
sonde_site_table_intern (
    SondeSiteTable *self, SondeModule *module, uint64_t vaddr, gboolean is_return, const char *path)
{
  SondeSite site = { vaddr, intern_file (self, module, path), is_return ? 1 : 0 };
  guint slot = slot_of (self, &site);

  if (self->slots[slot] != 0)
    return self->slots[slot] - 1;
  if (self->sites->len >= self->capacity / 4 * 3)
    {
      grow (self);
      slot = slot_of (self, &site);
    }

  g_array_append_val (self->sites, site);
  self->slots[slot] = self->sites->len;

  return self->sites->len - 1;
}

guint
sonde_site_table_size (const SondeSiteTable *self)
{
  return self->sites->len;
}

int
sonde_site_table_fd (const SondeSiteTable *self, const SondeSite *site)
{
  return g_array_index (self->files, File, site->file).fd;
}

const char *
sonde_site_table_file_name (const SondeSiteTable *self, const SondeSite *site)
{
  return g_array_index (self->files, File, site->file).name;
}
