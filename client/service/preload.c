/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "client/service/preload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/sibling.h"
#include "client/base/text.h"

#define LIB_TOKEN "$LIB" /* Source: ld.so(8), "Dynamic string tokens" */

static const struct
{
  const char *library;
  const char *built; /* in a build tree */
  const char *variable;
  const char *key; /* of the service's property */
  const char *verb;
} preloads_known[SONDE_N_PRELOADS] = {
  [SONDE_PRELOAD_MEMORY]
  = { "libsonde-memory.so", "shared-ring/collector/memory/libsonde-memory.so",
      "SONDE_MEMORY_LIBRARY", "memory", "record the heap of" },
  [SONDE_PRELOAD_TRACER]
  = { "libsonde-tracer.so", "shared-ring/collector/tracer/libsonde-tracer.so",
      "SONDE_TRACER_LIBRARY", "trace", "trace the functions of" },
};

enum
{
  MAX_INTERPRETERS = 4, /* of scripts, as the kernel follows them */
  MAX_SEGMENTS = 64,
  MAX_PATH_BYTES = 256, /* of an interpreter */
};

/* What of an ELF file decides. */
typedef struct
{
  guint8 elf_class;
  guint8 byte_order;
  guint16 machine;
  char loader[MAX_PATH_BYTES]; /* PT_INTERP; "": none */
} Program;

typedef enum
{
  KIND_OTHER, /* exec() knows better */
  KIND_ELF,
  KIND_SCRIPT,
} ProgramKind;

static gboolean
read_at (int fd, gpointer bytes, gsize size_bytes, guint64 offset)
{
  return offset <= G_MAXINT64
         && pread (fd, bytes, size_bytes, (off_t) offset) == (gssize) size_bytes;
}

static void
read_loader (int fd, guint64 offset, guint64 size_bytes, Program *program)
{
  if (!read_at (fd, program->loader, MIN (size_bytes, sizeof program->loader - 1), offset))
    program->loader[0] = '\0';
}

/* Of files in our own byte order: those in another one are refused by it alone. */
static void
read_segments (int fd, Program *program)
{
  union
  {
    Elf64_Ehdr wide;
    Elf32_Ehdr narrow;
  } header;
  gboolean is_wide = program->elf_class == ELFCLASS64;
  guint n_segments;

  if (!read_at (fd, &header, is_wide ? sizeof header.wide : sizeof header.narrow, 0))
    return;
  n_segments = MIN (is_wide ? header.wide.e_phnum : header.narrow.e_phnum, MAX_SEGMENTS);
  for (guint i = 0; i < n_segments && program->loader[0] == '\0'; i++)
    {
      union
      {
        Elf64_Phdr wide;
        Elf32_Phdr narrow;
      } segment;

      if (is_wide
          && read_at (fd, &segment.wide, sizeof segment.wide,
                      header.wide.e_phoff + i * sizeof segment.wide)
          && segment.wide.p_type == PT_INTERP)
        read_loader (fd, segment.wide.p_offset, segment.wide.p_filesz, program);
      else if (!is_wide
               && read_at (fd, &segment.narrow, sizeof segment.narrow,
                           header.narrow.e_phoff + i * sizeof segment.narrow)
               && segment.narrow.p_type == PT_INTERP)
        read_loader (fd, segment.narrow.p_offset, segment.narrow.p_filesz, program);
    }
}

/* @interpreter: (out): of a script */
static ProgramKind
read_program (int fd, Program *program, char interpreter[MAX_PATH_BYTES])
{
  char start[MAX_PATH_BYTES] = "";
  gssize n = pread (fd, start, sizeof start - 1, 0);
  guint16 machine;

  memset (program, 0, sizeof *program);
  if (n > 2 && start[0] == '#' && start[1] == '!')
    {
      const char *path = start + 2 + strspn (start + 2, " \t");

      g_strlcpy (interpreter, path, MIN (strcspn (path, " \t\n") + 1, MAX_PATH_BYTES));
      return KIND_SCRIPT;
    }
  if (n < (gssize) sizeof (Elf32_Ehdr) || memcmp (start, ELFMAG, SELFMAG) != 0)
    return KIND_OTHER;
  memcpy (&machine, start + G_STRUCT_OFFSET (Elf32_Ehdr, e_machine), sizeof machine);
  program->elf_class = (guint8) start[EI_CLASS];
  program->byte_order = (guint8) start[EI_DATA];
  program->machine = machine;
  read_segments (fd, program);
  return KIND_ELF;
}

/* Whether an exec() changes ids or capabilities, so that the loader trusts no variable. */
static gboolean
gains_rights (int fd, const SondePreloadUser *user)
{
  struct stat st;

  if (user->gains_nothing || fstat (fd, &st) < 0)
    return FALSE;
  return ((st.st_mode & S_ISUID) != 0 && st.st_uid != user->uid)
         || ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0 && st.st_gid != user->gid)
         || (user->uid != 0 && fgetxattr (fd, "security.capability", NULL, 0) > 0);
}

static gboolean
refuse (GError **error, SondePreload preload, const char *path, const char *why)
{
  g_autofree char *shown = sonde_text_escape (path, -1);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "Cannot %s %s: %s",
               preloads_known[preload].verb, shown, why);
  return FALSE;
}

static gboolean
is_alike (const Program *program, const Program *library)
{
  return program->elf_class == library->elf_class && program->byte_order == library->byte_order
         && program->machine == library->machine;
}

/* @narrow: the library for 32-bit programs; of class 0: there is none */
static gboolean
check_program (SondePreload preload,
               const char *path,
               int fd,
               const Program *program,
               const Program *library,
               const Program *narrow,
               const SondePreloadUser *user,
               GError **error)
{
  const char *name = preloads_known[preload].library;
  g_autofree char *loader = g_path_get_basename (program->loader);
  g_autofree char *why = NULL;

  if (gains_rights (fd, user))
    why = g_strdup ("it gains rights when it is executed, and then loads no library of others");
  else if (!is_alike (program, library) && !is_alike (program, narrow))
    why = program->elf_class == ELFCLASS32 && program->machine == EM_386
                  && library->machine == EM_X86_64
              ? g_strdup_printf ("it is a 32-bit program, and %s for those is not there", name)
              : g_strdup_printf ("it is of another architecture than %s", name);
  else if (program->loader[0] == '\0')
    why = g_strdup ("it is statically linked, and loads no library");
  else if (g_str_has_prefix (loader, "ld-musl"))
    why = g_strdup_printf ("its C library is musl, and %s needs glibc", name);
  return why == NULL || refuse (error, preload, path, why);
}

/* What LD_PRELOAD can hold: blanks and colons end a path there, and controls a line. */
static gboolean
is_path (const char *path)
{
  for (const char *c = path; *c != '\0'; c++)
    if (g_ascii_iscntrl (*c) || strchr (" :", *c) != NULL)
      return FALSE;
  return TRUE;
}

static gboolean
read_library (SondePreload preload, const char *path, Program *library, GError **error)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  char interpreter[MAX_PATH_BYTES];
  g_autofree char *shown = sonde_text_escape (path, -1);

  if (fd < 0)
    {
      int saved_errno = errno;

      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (saved_errno),
                   "Cannot preload %s, which is to %s programs: %s", shown,
                   preloads_known[preload].verb, g_strerror (saved_errno));
      return FALSE;
    }
  if (!is_path (path))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "Cannot preload %s: LD_PRELOAD can have no blank and no colon in a path", shown);
      return FALSE;
    }
  if (read_program (fd, library, interpreter) == KIND_ELF)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "Cannot preload %s: it is no library",
               shown);
  return FALSE;
}

static gboolean
is_there (const char *path)
{
  g_autofree char *file = sonde_preload_dup_file (path);

  return g_file_test (file, G_FILE_TEST_IS_REGULAR);
}

char *
sonde_preload_dup_file (const char *path)
{
  g_autoptr (GString) file = g_string_new (path);

  g_string_replace (file, LIB_TOKEN, SONDE_LIB, 0);
  return g_strdup (file->str);
}

/* As the loader replaces it in 32-bit programs. NULL: there is none for them. */
static char *
dup_narrow_file (const char *path)
{
  g_auto (GStrv) folders = g_strsplit (SONDE_LIBDIRS_I386, ":", -1);

  for (guint i = 0; strstr (path, LIB_TOKEN) != NULL && folders[i] != NULL; i++)
    {
      g_autoptr (GString) file = g_string_new (path);

      g_string_replace (file, LIB_TOKEN, folders[i], 0);
      if (g_file_test (file->str, G_FILE_TEST_IS_REGULAR))
        return g_strdup (file->str);
    }
  return NULL;
}

char *
sonde_preload_dup_path (SondePreload preload, GVariant *preloads)
{
  const char *library = preloads_known[preload].library;
  const char *named = g_getenv (preloads_known[preload].variable);
  const char *told = NULL;
  g_autofree char *built = NULL;

  if (named != NULL)
    return g_strdup (named);
  built = sonde_sibling_dup_path (preloads_known[preload].built, "");
  if (built[0] != '\0')
    return g_steal_pointer (&built);
  if (preloads != NULL && g_variant_lookup (preloads, preloads_known[preload].key, "&s", &told)
      && g_path_is_absolute (told) && is_path (told) && is_there (told))
    return g_strdup (told);
  return g_strconcat (SONDE_PRELOADS "/", library, NULL);
}

char *
sonde_preload_join (const char *path, const char *others)
{
  g_auto (GStrv) parts = g_strsplit_set (others != NULL ? others : "", ": ", -1);
  g_autofree char *own = g_path_get_basename (path);
  g_autoptr (GString) all = g_string_new (path);

  for (guint i = 0; parts[i] != NULL; i++)
    {
      g_autofree char *name = g_path_get_basename (parts[i]);

      if (parts[i][0] != '\0' && !g_str_equal (parts[i], path) && !g_str_equal (name, own))
        g_string_append_printf (all, ":%s", parts[i]);
    }
  return g_strdup (all->str);
}

gboolean
sonde_preload_check (SondePreload preload,
                     const char *path,
                     const char *command,
                     const SondePreloadUser *user,
                     GError **error)
{
  const SondePreloadUser ourselves = { getuid (), getgid (), FALSE };
  g_autofree char *library_path = sonde_preload_dup_file (path);
  g_autofree char *narrow_path = dup_narrow_file (path);
  g_autofree char *name = g_find_program_in_path (command);
  Program narrow = { 0 };
  Program library, program;

  if (!read_library (preload, library_path, &library, error)
      || (narrow_path != NULL && !read_library (preload, narrow_path, &narrow, error)))
    return FALSE;
  for (guint i = 0; i <= MAX_INTERPRETERS && name != NULL; i++)
    {
      sonde_autofd int fd = open (name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
      char interpreter[MAX_PATH_BYTES] = "";
      ProgramKind kind = fd >= 0 ? read_program (fd, &program, interpreter) : KIND_OTHER;

      if (kind != KIND_SCRIPT)
        return kind == KIND_OTHER
               || check_program (preload, name, fd, &program, &library, &narrow,
                                 user != NULL ? user : &ourselves, error);
      g_free (name);
      name = g_strdup (interpreter);
    }
  return TRUE;
}
