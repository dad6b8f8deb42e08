/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The files of a capture's mappings that are on this machine. */
#include "client/names/module-list.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "client/base/fd.h"
#include "client/base/text.h"
#include "client/names/mapped-file.h"
#include "client/names/mount-paths.h"

#define MAX_VDSO_BYTES (64u << 10)
#define MAX_LOOKS      (1u << 20) /* into containers, for all files: some seconds */

struct SondeModuleList
{
  const SondeCaptureModel *model;
  SondeDebugFiles *debug_files;
  char *cache_folder;
  gint64 start_ns; /* CLOCK_MONOTONIC, and the wall clock then; 0: not told */
  gint64 start_realtime_ns;
  char *kernel_release; /* NULL: not told */
  GArray *pids;         /* gint: whose mountinfo the capture has */
  GHashTable *mounts;   /* pid → SondeMountPaths */
  SondeMountPaths *mounts_here;
  guint n_looks;
  GHashTable *modules; /* SondeModule, by its path if that is no file, else by "PID INODE BUILD-ID
                          PATH", PID 0 outside of containers */
  GHashTable *files;   /* "DEVICE INODE" here → SondeModuleFile: a file may have many names */
};

static void
module_free (gpointer data)
{
  SondeModule *module = data;

  g_free (module->path);
  g_free (module->problem);
  g_free (module);
}

static void
file_free (gpointer data)
{
  sonde_module_file_free (data);
}

static void
mounts_free (gpointer data)
{
  sonde_mount_paths_free (data);
}

static void
read_settings (SondeModuleList *self)
{
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (self->model);

  if (settings == NULL)
    return;
  self->start_ns = g_key_file_get_int64 (settings, SONDE_CAPTURE_SETTINGS, "start", NULL);
  self->start_realtime_ns
      = g_key_file_get_int64 (settings, SONDE_CAPTURE_SETTINGS, "start-realtime", NULL);
  self->kernel_release
      = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "kernel-release", NULL);
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
  self->files = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, file_free);
  self->mounts = g_hash_table_new_full (NULL, NULL, NULL, mounts_free);
  self->pids = sonde_embedded_files_dup_mountinfo_pids (sonde_capture_model_files (model));
  read_settings (self);
  return self;
}

void
sonde_module_list_free (SondeModuleList *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->modules);
  g_hash_table_unref (self->files);
  g_hash_table_unref (self->mounts);
  g_array_unref (self->pids);
  sonde_mount_paths_free (self->mounts_here);
  g_free (self->kernel_release);
  sonde_debug_files_free (self->debug_files);
  g_free (self->cache_folder);
  g_free (self);
}

/* This process's own, if the kernel that the capture is of runs here. */
static int
open_vdso (const SondeModuleList *self, char **problem)
{
  const guint8 *image = (const guint8 *) getauxval (AT_SYSINFO_EHDR);
  sonde_autofd int fd = -1;
  struct utsname here;
  Elf64_Ehdr header;
  gsize size;

  if (image == NULL || uname (&here) < 0 || g_strcmp0 (self->kernel_release, here.release) != 0)
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

/* Wall clock, at which the file of @mapping was there. Only captures of Sonde tell. */
static gint64
wall_clock_ns (const SondeModuleList *self, const SondeMapping *mapping)
{
  gint64 wall_ns;

  if (self->start_realtime_ns == 0
      || __builtin_sub_overflow (mapping->time_ns, self->start_ns, &wall_ns)
      || __builtin_add_overflow (wall_ns, self->start_realtime_ns, &wall_ns))
    return G_MAXINT64;
  return wall_ns;
}

static const SondeMountPaths *
ensure_mounts (SondeModuleList *self, gint32 pid)
{
  SondeMountPaths *mounts = g_hash_table_lookup (self->mounts, GINT_TO_POINTER (pid));
  const char *text;

  if (mounts != NULL)
    return mounts;
  text = sonde_embedded_files_mountinfo (sonde_capture_model_files (self->model), pid);
  mounts = sonde_mount_paths_new (text != NULL ? text : "");
  g_hash_table_insert (self->mounts, GINT_TO_POINTER (pid), mounts);
  return mounts;
}

static const SondeMountPaths *
ensure_mounts_here (SondeModuleList *self)
{
  g_autofree char *text = NULL;

  if (self->mounts_here == NULL)
    {
      g_file_get_contents ("/proc/self/mountinfo", &text, NULL, NULL);
      self->mounts_here = sonde_mount_paths_new (text != NULL ? text : "");
    }
  return self->mounts_here;
}

static int
open_through_mounts (SondeModuleList *self, gint32 pid, const SondeMapping *mapping)
{
  const SondeMountPaths *here = ensure_mounts_here (self);
  g_autoptr (GPtrArray) places
      = sonde_mount_paths_find (ensure_mounts (self, pid), here, mapping->path);
  int fd = -1;

  self->n_looks += 1 + places->len;
  for (guint i = 0; i < places->len && fd < 0; i++)
    fd = sonde_mapped_file_open (g_ptr_array_index (places, i), mapping,
                                 wall_clock_ns (self, mapping), NULL);
  return fd;
}

static void
add_problem (char **problem, const char *more)
{
  g_autofree char *first = g_steal_pointer (problem);

  *problem = g_strdup_printf ("%s; %s", first, more);
}

/* Containers of which a process told: a capture has the mounts of one process of each. */
static int
open_in_containers (SondeModuleList *self, const SondeMapping *mapping, char **problem)
{
  int fd = -1;

  for (guint i = 0; i < self->pids->len && fd < 0; i++)
    {
      if (self->n_looks >= MAX_LOOKS)
        {
          add_problem (problem, "not looked for in all containers, of which there are too many");
          break;
        }
      fd = open_through_mounts (self, g_array_index (self->pids, gint, i), mapping);
    }
  return fd;
}

static int
open_by_build_id (SondeModuleList *self, const SondeMapping *mapping, char **refusal)
{
  SondeDebugReference reference;
  int fd;

  if (mapping->build_id == NULL || !sonde_debug_reference_parse (mapping->build_id, &reference))
    return -1;
  fd = sonde_debug_files_open_program (self->debug_files, mapping->path, &reference, refusal);
  if (fd < 0) /* without a link, which only the file itself has */
    fd = sonde_debug_files_open (self->debug_files, "", &reference, refusal);
  return fd;
}

/* At a path of a container there may be another file of ours, even one with the same inode. */
static int
open_file (SondeModuleList *self, gint32 pid, const SondeMapping *mapping, char **problem)
{
  gboolean is_inside
      = sonde_embedded_files_mountinfo (sonde_capture_model_files (self->model), pid) != NULL;
  g_autofree char *refusal = NULL;
  int fd = is_inside ? open_through_mounts (self, pid, mapping) : -1;

  if (fd < 0 && is_inside && mapping->build_id == NULL)
    *problem = g_strdup ("is of a container whose file systems are not here");
  else if (fd < 0)
    fd = sonde_mapped_file_open (mapping->path, mapping, wall_clock_ns (self, mapping), problem);
  if (fd < 0)
    fd = open_in_containers (self, mapping, problem);
  if (fd < 0)
    fd = open_by_build_id (self, mapping, &refusal);
  if (fd < 0 && refusal != NULL)
    add_problem (problem, refusal);
  return fd;
}

/* @fd: (transfer full). NULL if it is no ELF file. */
static SondeModuleFile *
ensure_file (SondeModuleList *self, int fd, const char *path)
{
  sonde_autofd int owned = fd;
  g_autofree char *key = NULL;
  SondeModuleFile *file;
  struct stat st;

  if (fstat (owned, &st) < 0)
    return NULL;
  key = g_strdup_printf ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, (guint64) st.st_dev,
                         (guint64) st.st_ino);
  file = g_hash_table_lookup (self->files, key);
  if (file != NULL)
    return file;
  file = sonde_module_file_new (sonde_steal_fd (&owned), path, self->debug_files,
                                self->cache_folder);
  if (file != NULL)
    g_hash_table_insert (self->files, g_steal_pointer (&key), file);
  return file;
}

static SondeModule *
open_module (SondeModuleList *self, gint32 pid, const SondeMapping *mapping)
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
    fd = open_file (self, pid, mapping, &module->problem);
  if (fd < 0)
    return module;

  g_clear_pointer (&module->problem, g_free); /* of a place where it was not */
  module->file = ensure_file (self, fd, mapping->path);
  if (module->file == NULL)
    module->problem = g_strdup ("is no ELF file of this machine's kind");
  return module;
}

SondeModule *
sonde_module_list_ensure (SondeModuleList *self, gint32 pid, const SondeMapping *mapping)
{
  const char *build_id = mapping->build_id != NULL ? mapping->build_id : "";
  gboolean is_inside
      = sonde_embedded_files_mountinfo (sonde_capture_model_files (self->model), pid) != NULL;
  g_autofree char *key
      = mapping->path[0] != '/'
            ? g_strdup (mapping->path)
            : g_strdup_printf ("%d %" G_GUINT64_FORMAT " %s %s", is_inside ? pid : 0,
                               mapping->inode, build_id, mapping->path);
  SondeModule *module = g_hash_table_lookup (self->modules, key);

  if (module == NULL)
    {
      module = open_module (self, pid, mapping);
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
