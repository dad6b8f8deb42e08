/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files of a capture's mappings that are on this machine. */
#include "client/names/module-list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/base/fd.h"
#include "client/base/text.h"

#define MAX_VDSO_BYTES (64u << 10)

struct SondeModuleList
{
  const SondeCaptureModel *model;
  SondeDebugFiles *debug_files;
  char *cache_folder;
  GHashTable *modules; /* "INODE BUILD-ID PATH" → SondeModule */
};

static void
module_free (gpointer data)
{
  SondeModule *module = data;

  sonde_module_file_free (module->file);
  g_free (module->path);
  g_free (module->problem);
  g_free (module);
}

SondeModuleList *
sonde_module_list_new (const SondeCaptureModel *model,
                       const char *debug_directory,
                       const char *cache_folder)
{
  SondeModuleList *self = g_new0 (SondeModuleList, 1);

  self->model = model;
  self->debug_files = sonde_debug_files_new (debug_directory);
  self->cache_folder = g_strdup (cache_folder);
  self->modules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, module_free);
  return self;
}

void
sonde_module_list_free (SondeModuleList *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->modules);
  sonde_debug_files_free (self->debug_files);
  g_free (self->cache_folder);
  g_free (self);
}

static gboolean
has_build_id (int fd, const char *build_id)
{
  SondeDebugReference reference;
  char hex[2 * SONDE_BUILD_ID_MAX + 1];

  if (build_id == NULL || sonde_debug_reference_read (fd, &reference) < 0
      || reference.build_id_size == 0)
    return FALSE;
  sonde_debug_reference_hex (&reference, hex);
  return g_ascii_strcasecmp (hex, build_id) == 0;
}

/* Opens the path only if it is the regular file that was mapped. It comes out of the capture, so
 * nothing is opened for reading before its type is known: opening a device or a FIFO has effects.
 */
static int
open_mapped_file (const SondeMapping *mapping, char **problem)
{
  sonde_autofd int handle = open (mapping->path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  g_autofree char *by_handle = g_strdup_printf ("/proc/self/fd/%d", handle);
  sonde_autofd int fd = -1;
  struct stat st;

  if (handle < 0 || fstat (handle, &st) < 0)
    {
      *problem = g_strdup_printf ("cannot be opened: %s", g_strerror (errno));
      return -1;
    }
  if (!S_ISREG (st.st_mode))
    {
      *problem = g_strdup ("is no regular file");
      return -1;
    }
  fd = open (by_handle, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    *problem = g_strdup_printf ("cannot be read: %s", g_strerror (errno));
  else if ((mapping->inode == 0 || st.st_ino != mapping->inode)
           && !has_build_id (fd, mapping->build_id))
    {
      *problem = g_strdup ("is not the file that was recorded");
      return -1;
    }
  return sonde_steal_fd (&fd);
}

/* This process's own, if the kernel that the capture is of runs here. */
static int
open_vdso (const SondeModuleList *self, char **problem)
{
  const char *metadata = sonde_capture_model_metadata (self->model, "sonde");
  const guint8 *image = (const guint8 *) getauxval (AT_SYSINFO_EHDR);
  g_autoptr (GKeyFile) settings = g_key_file_new ();
  g_autofree char *release = NULL;
  sonde_autofd int fd = -1;
  struct utsname here;
  Elf64_Ehdr header;
  gsize size;

  if (metadata != NULL
      && g_key_file_load_from_data (settings, metadata, strlen (metadata), 0, NULL))
    release = g_key_file_get_string (settings, "sonde", "kernel-release", NULL);
  if (image == NULL || uname (&here) < 0 || g_strcmp0 (release, here.release) != 0)
    {
      *problem = g_strdup ("another kernel runs here");
      return -1;
    }
  memcpy (&header, image, sizeof header);
  size
      = header.e_shoff + (gsize) header.e_shnum * header.e_shentsize; /* its end, as ld writes it */
  fd = memfd_create ("vdso", MFD_CLOEXEC);
  if (fd < 0 || size > MAX_VDSO_BYTES || write (fd, image, size) != (gssize) size)
    {
      *problem = g_strdup ("cannot be copied");
      return -1;
    }
  return sonde_steal_fd (&fd);
}

static SondeModule *
open_module (SondeModuleList *self, const SondeMapping *mapping)
{
  SondeModule *module = g_new0 (SondeModule, 1);
  int fd;

  module->path = g_strdup (mapping->path);
  if (g_str_equal (mapping->path, "[vdso]"))
    fd = open_vdso (self, &module->problem);
  else if (mapping->path[0] != '/' || g_str_has_prefix (mapping->path, "//"))
    {
      module->problem = g_strdup ("is no file");
      return module;
    }
  else
    fd = open_mapped_file (mapping, &module->problem);
  if (fd < 0)
    return module;

  module->file = sonde_module_file_new (fd, mapping->path, self->debug_files, self->cache_folder);
  if (module->file == NULL)
    module->problem = g_strdup ("is no ELF file of this machine's kind");
  return module;
}

SondeModule *
sonde_module_list_ensure (SondeModuleList *self, gint32 pid, const SondeMapping *mapping)
{
  const char *build_id = mapping->build_id != NULL ? mapping->build_id : "";
  g_autofree char *key
      = g_strdup_printf ("%" G_GUINT64_FORMAT " %s %s", mapping->inode, build_id, mapping->path);
  SondeModule *module = g_hash_table_lookup (self->modules, key);

  if (module == NULL)
    {
      module = open_module (self, mapping);
      g_hash_table_insert (self->modules, g_steal_pointer (&key), module);
    }
  return module;
}

static int
compare_misses (gconstpointer a, gconstpointer b)
{
  const SondeModule *left = *(const SondeModule *const *) a;
  const SondeModule *right = *(const SondeModule *const *) b;

  if (left->n_misses != right->n_misses)
    return left->n_misses > right->n_misses ? -1 : 1;
  return strcmp (left->path, right->path);
}

void
sonde_module_list_append_misses (const SondeModuleList *self, GString *out)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->modules);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    g_ptr_array_add (sorted, value);
  g_ptr_array_sort (sorted, compare_misses);
  for (guint i = 0; i < sorted->len; i++)
    {
      const SondeModule *module = g_ptr_array_index (sorted, i);
      g_autofree char *path = sonde_text_escape (module->path, -1);
      g_autofree char *places = sonde_text_plural (module->n_misses, "place", "places");
      g_autofree char *miss
          = module->file != NULL ? sonde_module_file_describe_miss (module->file) : NULL;

      if (module->n_misses > 0)
        g_string_append_printf (out, "%s: %s without a name: %s\n", path, places,
                                miss != NULL ? miss : module->problem);
    }
}
