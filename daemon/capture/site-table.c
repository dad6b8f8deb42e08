/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct places in files that samples showed. */
#include "daemon/capture/site-table.h"

#include <string.h>

#define FIRST_CAPACITY 1024 /* slots, a power of two */

typedef struct
{
  SondeModule *module;
  char *name;
} Module;

struct SondeSiteTable
{
  GArray *sites;            /* SondeSite */
  uint32_t *slots;          /* index + 1; 0: empty */
  guint capacity;           /* a power of two, at most three quarters full */
  GArray *modules;          /* Module */
  GHashTable *module_index; /* module id → index + 1 */
};

static void
clear_module (gpointer data)
{
  Module *module = data;

  sonde_module_unref (module->module);
  g_free (module->name);
}

SondeSiteTable *
sonde_site_table_new (void)
{
  SondeSiteTable *self = g_new0 (SondeSiteTable, 1);

  self->sites = g_array_new (FALSE, FALSE, sizeof (SondeSite));
  self->capacity = FIRST_CAPACITY;
  self->slots = g_new0 (uint32_t, self->capacity);
  self->modules = g_array_new (FALSE, FALSE, sizeof (Module));
  g_array_set_clear_func (self->modules, clear_module);
  self->module_index = g_hash_table_new (NULL, NULL);

  return self;
}

void
sonde_site_table_free (SondeSiteTable *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->sites);
  g_free (self->slots);
  g_array_unref (self->modules);
  g_hash_table_unref (self->module_index);
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
  return a->vaddr == b->vaddr && a->module == b->module && a->is_return == b->is_return;
}

/* Where the site is, or is to be. */
static guint
slot_of (const SondeSiteTable *self, const SondeSite *site)
{
  uint64_t hash = (site->vaddr ^ (uint64_t) site->module << 40 ^ (uint64_t) site->is_return << 39)
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
intern_module (SondeSiteTable *self, SondeModule *module, const char *path)
{
  gpointer key = GUINT_TO_POINTER (sonde_module_id (module));
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->module_index, key));

  if (index == 0)
    {
      const char *slash = strrchr (path, '/');
      Module added = { sonde_module_ref (module), g_strdup (slash != NULL ? slash + 1 : path) };

      g_array_append_val (self->modules, added);
      index = self->modules->len;
      g_hash_table_insert (self->module_index, key, GUINT_TO_POINTER (index));
    }

  return index - 1;
}

guint
sonde_site_table_intern (
    SondeSiteTable *self, SondeModule *module, uint64_t vaddr, gboolean is_return, const char *path)
{
  SondeSite site = { vaddr, intern_module (self, module, path), is_return ? 1 : 0 };
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

SondeModule *
sonde_site_table_module (const SondeSiteTable *self, const SondeSite *site)
{
  return g_array_index (self->modules, Module, site->module).module;
}

const char *
sonde_site_table_module_name (const SondeSiteTable *self, const SondeSite *site)
{
  return g_array_index (self->modules, Module, site->module).name;
}
