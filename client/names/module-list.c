/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/module-list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/elf-file.h"
#include "base/fd.h"
#include "base/hash.h"
#include "client/base/text.h"
#include "client/names/mount-paths.h"
#include "symbols/debug-reference.h"

/* --- the file of a mapping, if it is still the one that was recorded --- */

#define NS_PER_S G_GINT64_CONSTANT (1000000000)

/* Opening a device or a FIFO would have effects: its type is looked at first. */
static int
open_regular (const char *path, struct stat *st, char **problem)
{
  sonde_autofd int handle = open (path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  g_autofree char *by_handle = g_strdup_printf ("/proc/self/fd/%d", handle);
  int fd;

  if (handle < 0 || fstat (handle, st) < 0)
    {
      *problem = g_strdup_printf ("cannot be opened: %s", g_strerror (errno));
      return -1;
    }
  if (!S_ISREG (st->st_mode))
    {
      *problem = g_strdup ("is no regular file");
      return -1;
    }
  fd = open (by_handle, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    *problem = g_strdup_printf ("cannot be read: %s", g_strerror (errno));
  return fd;
}

static char *
judge_build_id (int fd, const char *wanted)
{
  SondeDebugReference reference = { 0 };
  char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1];
  g_autofree char *shown = sonde_text_escape (wanted, -1);

  (void) sonde_debug_reference_read (fd, &reference); /* no ELF file has none */
  sonde_debug_reference_hex (&reference, hex);
  if (hex[0] == '\0')
    return g_strdup_printf ("is not the file that was recorded: it has no build id, that had %s",
                            shown);
  return g_ascii_strcasecmp (hex, wanted) == 0
             ? NULL
             : g_strdup_printf ("is another build than was recorded: build id %s, not %s", hex,
                                shown);
}

/* ctime, which nobody can set back: neither in-place writing nor cp -p escapes it. */
static char *
judge_inode (const struct stat *st, const SondeModelMapping *mapping, gint64 changed_ns)
{
  if (mapping->inode == 0 || st->st_ino != mapping->inode)
    return g_strdup ("is not the file that was recorded");
  if (st->st_ctim.tv_sec >= G_MAXINT64 / NS_PER_S || st->st_ctim.tv_sec < 0)
    return g_strdup ("has an impossible time of its last change");
  return st->st_ctim.tv_sec * NS_PER_S + st->st_ctim.tv_nsec > changed_ns
             ? g_strdup ("was changed after it was recorded, and the capture has no build id of it")
             : NULL;
}

/*
 * @path: where it may be; comes out of the capture, so only a regular file is opened for reading
 * @mapping: what the capture says of it
 * @changed_ns: wall clock: it must not have been changed since; G_MAXINT64: not known
 * @problem: (out) (nullable): why not, to complete the sentence "FILE …"
 *
 * With a build id in the capture, the file must have that. Without one it must have the inode and
 * must not have been changed, since a program that is built again may get the old one's inode.
 *
 * Returns: a descriptor, or -1
 */
static int
mapped_file_open (const char *path,
                  const SondeModelMapping *mapping,
                  gint64 changed_ns,
                  char **problem)
{
  g_autofree char *why = NULL;
  struct stat st;
  sonde_autofd int fd = open_regular (path, &st, &why);

  if (fd >= 0)
    why = mapping->build_id != NULL ? judge_build_id (fd, mapping->build_id)
                                    : judge_inode (&st, mapping, changed_ns);
  if (why == NULL)
    return sonde_steal_fd (&fd);
  if (problem != NULL)
    *problem = g_steal_pointer (&why);
  return -1;
}

/* --- modules --- */

#define MAX_LOOKS (1u << 20) /* into containers, for all files: some seconds */

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
  const SondeModelMapping *last;  /* that was asked for, */
  gint32 last_pid;                /* of which process, */
  SondeListedModule *last_module; /* and what it was */
  GHashTable *modules; /* SondeListedModule, by its path if that is no file, else by "PID INODE
                          BUILD-ID PATH", PID 0 outside of containers */
  GHashTable *files;   /* "DEVICE INODE" here → SondeModuleFile: a file may have many names */
};

static void
module_free (gpointer data)
{
  SondeListedModule *module = data;

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
  g_autoptr (GKeyFile) settings = NULL;

  self->model = model;
  self->debug_files = sonde_debug_files_new (debug_directory);
  self->cache_folder = g_strdup (cache_folder);
  self->modules = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, module_free);
  self->files = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free,
                                       (GDestroyNotify) sonde_module_file_free);
  self->mounts = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) sonde_mount_paths_free);
  self->pids = sonde_embedded_files_dup_mountinfo_pids (sonde_capture_model_files (model));
  settings = sonde_capture_model_dup_settings (self->model);
  if (settings != NULL)
    {
      self->start_ns = g_key_file_get_int64 (settings, SONDE_CAPTURE_SETTINGS, "start", NULL);
      self->start_realtime_ns
          = g_key_file_get_int64 (settings, SONDE_CAPTURE_SETTINGS, "start-realtime", NULL);
      self->kernel_release
          = g_key_file_get_string (settings, SONDE_CAPTURE_SETTINGS, "kernel-release", NULL);
    }
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
  struct utsname here;
  int fd;

  if (uname (&here) < 0 || g_strcmp0 (self->kernel_release, here.release) != 0)
    {
      *problem = g_strdup ("another kernel runs here");
      return -1;
    }
  fd = sonde_elf_copy_vdso ();
  if (fd < 0)
    *problem = g_strdup ("cannot be copied");
  return fd;
}

/* Wall clock, at which the file of @mapping was there. Only captures of Sonde tell. */
static gint64
wall_clock_ns (const SondeModuleList *self, const SondeModelMapping *mapping)
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
open_through_mounts (SondeModuleList *self, gint32 pid, const SondeModelMapping *mapping)
{
  const SondeMountPaths *here = ensure_mounts_here (self);
  g_autoptr (GPtrArray) places
      = sonde_mount_paths_find (ensure_mounts (self, pid), here, mapping->path);
  int fd = -1;

  self->n_looks += 1 + places->len;
  for (guint i = 0; i < places->len && fd < 0; i++)
    fd = mapped_file_open (g_ptr_array_index (places, i), mapping, wall_clock_ns (self, mapping),
                           NULL);
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
open_in_containers (SondeModuleList *self, const SondeModelMapping *mapping, char **problem)
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
open_by_build_id (SondeModuleList *self, const SondeModelMapping *mapping, char **refusal)
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
open_file (SondeModuleList *self, gint32 pid, const SondeModelMapping *mapping, char **problem)
{
  gboolean is_inside
      = sonde_embedded_files_mountinfo (sonde_capture_model_files (self->model), pid) != NULL;
  g_autofree char *refusal = NULL;
  int fd = is_inside ? open_through_mounts (self, pid, mapping) : -1;

  if (fd < 0 && is_inside && mapping->build_id == NULL)
    *problem = g_strdup ("is of a container whose file systems are not here");
  else if (fd < 0)
    fd = mapped_file_open (mapping->path, mapping, wall_clock_ns (self, mapping), problem);
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

static SondeListedModule *
open_module (SondeModuleList *self, gint32 pid, const SondeModelMapping *mapping)
{
  SondeListedModule *module = g_new0 (SondeListedModule, 1);
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

static SondeListedModule *
ensure_module (SondeModuleList *self, gint32 pid, const SondeModelMapping *mapping)
{
  const char *build_id = mapping->build_id != NULL ? mapping->build_id : "";
  gboolean is_inside
      = sonde_embedded_files_mountinfo (sonde_capture_model_files (self->model), pid) != NULL;
  g_autofree char *key
      = mapping->path[0] != '/'
            ? g_strdup (mapping->path)
            : g_strdup_printf ("%d %" G_GUINT64_FORMAT " %s %s", is_inside ? pid : 0,
                               mapping->inode, build_id, mapping->path);
  SondeListedModule *module = g_hash_table_lookup (self->modules, key);

  if (module == NULL)
    {
      module = open_module (self, pid, mapping);
      g_hash_table_insert (self->modules, g_steal_pointer (&key), module);
    }
  return module;
}

SondeListedModule *
sonde_module_list_ensure (SondeModuleList *self, gint32 pid, const SondeModelMapping *mapping)
{
  if (mapping != self->last || pid != self->last_pid)
    self->last_module = ensure_module (self, pid, mapping);
  self->last = mapping;
  self->last_pid = pid;
  return self->last_module;
}

static int
compare_misses (gconstpointer a, gconstpointer b)
{
  const SondeListedModule *left = *(const SondeListedModule *const *) a;
  const SondeListedModule *right = *(const SondeListedModule *const *) b;

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
      const SondeListedModule *module = g_ptr_array_index (sorted, i);
      g_autofree char *path = sonde_text_escape (module->path, -1);
      g_autofree char *places = sonde_text_plural (module->n_misses, "place", "places");
      g_autofree char *miss
          = module->file != NULL ? sonde_module_file_describe_miss (module->file) : NULL;

      if (module->n_misses > 0)
        g_string_append_printf (out, "%s: %s without a name: %s\n", path, places,
                                miss != NULL ? miss : module->problem);
    }
}
