/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/systemd/drop-in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/text.h"
#include "client/base/write-all.h"

#define FILE_NAME     "50-sonde.conf"
#define NEW_NAME      ".50-sonde.conf.new" /* no .conf: read by nobody */
#define MARK          "# Written by sondectl arm; sondectl disarm takes it back.\n"
#define FOLDER_MARK   "# So was its folder.\n"
#define SUFFIX        ".service"

#define MAX_UNIT      255
#define SESSION_PLACE "environment.d"

/* --- names --- */

static gboolean
refuse_unit (GError **error, const char *unit, const char *why)
{
  g_autofree char *shown = sonde_text_escape (unit, -1);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "UNIT \"%s\" %s", shown, why);
  return FALSE;
}

gboolean
sonde_drop_in_check_unit (const char *unit, GError **error)
{
  static const char others[] = ":-_.@";
  const char *at = strchr (unit, '@');
  gsize length = strlen (unit);

  if (length > MAX_UNIT)
    return refuse_unit (error, unit, "is longer than a unit's name can be");
  if (strchr (unit, '/') != NULL)
    return refuse_unit (error, unit, "has a slash: it is no name of a unit");
  if (strstr (unit, "..") != NULL)
    return refuse_unit (error, unit, "has two dots in a row");
  if (strchr (unit, '\\') != NULL)
    return refuse_unit (error, unit, "has an escape: such units cannot be armed");
  for (const char *c = unit; *c != '\0'; c++)
    if (!g_ascii_isalnum (*c) && strchr (others, *c) == NULL)
      return refuse_unit (error, unit, "has a character that no unit's name has");
  if (!g_str_has_suffix (unit, SUFFIX))
    return refuse_unit (error, unit, "is no service, and only those run programs to arm");
  if (length == strlen (SUFFIX) || unit[0] == '.' || unit[0] == '-' || unit[0] == '@')
    return refuse_unit (error, unit, "begins as no service's name does");
  if (at != NULL && g_str_equal (at + 1, SUFFIX))
    return refuse_unit (error, unit, "is a template: name one of the units made of it");
  return TRUE;
}

/* --- places --- */

/* The folder that is there already, and the name of ours in it. */
typedef struct
{
  char *base;
  char *folder;
} Place;

static void
place_clear (Place *self)
{
  g_free (self->base);
  g_free (self->folder);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

static gboolean
set_errno (GError **error, const char *what, const char *path, int error_number)
{
  g_autofree char *shown = sonde_text_escape (path, -1);

  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (error_number), "Cannot %s %s: %s", what,
               shown, g_strerror (error_number));
  return FALSE;
}

static gboolean
find_base (SondeDropInKind kind, Place *place, GError **error)
{
  const char *runtime = g_getenv ("XDG_RUNTIME_DIR");

  switch (kind)
    {
    case SONDE_DROP_IN_USER:
      if (runtime == NULL || !g_path_is_absolute (runtime))
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                       "XDG_RUNTIME_DIR names no folder: --user is for who is logged in");
          return FALSE;
        }
      place->base = g_build_filename (runtime, "systemd", "user", NULL);
      return TRUE;
    case SONDE_DROP_IN_SESSION:
      place->base = g_build_filename (g_get_home_dir (), ".config", NULL);
      return TRUE;
    case SONDE_DROP_IN_SYSTEM:
    case SONDE_N_DROP_INS:
      break;
    }
  place->base = g_strdup ("/run/systemd/system");
  return TRUE;
}

/* Nothing but a checked name ever becomes a part of a path. */
static gboolean
find_place (SondeDropInKind kind, const char *unit, Place *place, GError **error)
{
  if (kind != SONDE_DROP_IN_SESSION && !sonde_drop_in_check_unit (unit, error))
    return FALSE;
  place->folder
      = kind == SONDE_DROP_IN_SESSION ? g_strdup (SESSION_PLACE) : g_strconcat (unit, ".d", NULL);
  return find_base (kind, place, error);
}

char *
sonde_drop_in_dup_path (SondeDropInKind kind, const char *unit, GError **error)
{
  g_auto (Place) place = { 0 };

  return find_place (kind, unit, &place, error)
             ? g_build_filename (place.base, place.folder, FILE_NAME, NULL)
             : NULL;
}

/* --- files --- */

/* -1 with errno; a link in the folder's place is none. */
static int
open_folder (const Place *place)
{
  sonde_autofd int base = open (place->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  return base < 0 ? -1
                  : openat (base, place->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

typedef enum
{
  FILE_ABSENT,
  FILE_OURS,
  FILE_OURS_WITH_FOLDER,
  FILE_FOREIGN,
} FileState;

static FileState
read_state (int folder)
{
  sonde_autofd int fd
      = openat (folder, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  char start[sizeof MARK FOLDER_MARK] = "";
  struct stat st;

  if (fd < 0)
    return errno == ENOENT ? FILE_ABSENT : FILE_FOREIGN;
  if (fstat (fd, &st) < 0 || !S_ISREG (st.st_mode) || read (fd, start, sizeof start - 1) < 0
      || !g_str_has_prefix (start, MARK))
    return FILE_FOREIGN;
  return g_str_has_prefix (start + strlen (MARK), FOLDER_MARK) ? FILE_OURS_WITH_FOLDER : FILE_OURS;
}

static gboolean
refuse_foreign (const char *path, GError **error)
{
  g_autofree char *shown = sonde_text_escape (path, -1);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_EXISTS,
               "%s is not of sondectl arm, and stays as it is", shown);
  return FALSE;
}

/* Returns 0, or a positive errno. */
static int
write_whole (int folder, const char *text)
{
  sonde_autofd int fd = -1;
  int result;

  unlinkat (folder, NEW_NAME, 0); /* of one who was killed */
  fd = openat (folder, NEW_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    return errno;
  result = sonde_write_all (fd, text, strlen (text), -1, NULL);
  if (result == 0
      && (fchmod (fd, 0644) < 0 || fsync (fd) < 0
          || renameat (folder, NEW_NAME, folder, FILE_NAME) < 0))
    result = errno;
  if (result != 0)
    unlinkat (folder, NEW_NAME, 0);
  return result;
}

static gboolean
make_folder (SondeDropInKind kind, const Place *place, gboolean *is_new, GError **error)
{
  g_autofree char *path = g_build_filename (place->base, place->folder, NULL);

  /* systemd's own folder is there, or it is not the one that runs the machine. */
  if (kind != SONDE_DROP_IN_SYSTEM && g_mkdir_with_parents (place->base, 0700) < 0)
    return set_errno (error, "make", place->base, errno);
  *is_new = mkdir (path, 0755) == 0;
  return *is_new || errno == EEXIST || set_errno (error, "make", path, errno);
}

gboolean
sonde_drop_in_write (SondeDropInKind kind, const char *unit, const char *text, GError **error)
{
  g_auto (Place) place = { 0 };
  g_autofree char *path = NULL;
  g_autofree char *whole = NULL;
  sonde_autofd int folder = -1;
  gboolean is_new = FALSE;
  FileState state;
  int result;

  if (!find_place (kind, unit, &place, error) || !make_folder (kind, &place, &is_new, error))
    return FALSE;
  path = g_build_filename (place.base, place.folder, FILE_NAME, NULL);
  folder = open_folder (&place);
  if (folder < 0)
    return set_errno (error, "write", path, errno);
  state = read_state (folder);
  if (state == FILE_FOREIGN)
    return refuse_foreign (path, error);
  whole
      = g_strconcat (MARK, is_new || state == FILE_OURS_WITH_FOLDER ? FOLDER_MARK : "", text, NULL);
  result = write_whole (folder, whole);
  if (result != 0 && is_new)
    {
      g_autofree char *made = g_path_get_dirname (path);

      rmdir (made);
    }
  return result == 0 || set_errno (error, "write", path, result);
}

gboolean
sonde_drop_in_remove (SondeDropInKind kind, const char *unit, GError **error)
{
  g_auto (Place) place = { 0 };
  g_autofree char *path = NULL;
  sonde_autofd int folder = -1;
  FileState state;

  if (!find_place (kind, unit, &place, error))
    return FALSE;
  path = g_build_filename (place.base, place.folder, FILE_NAME, NULL);
  folder = open_folder (&place);
  if (folder < 0)
    return set_errno (error, "take back", path, errno);
  state = read_state (folder);
  if (state == FILE_FOREIGN)
    return refuse_foreign (path, error);
  if (unlinkat (folder, FILE_NAME, 0) < 0)
    return set_errno (error, "take back", path, errno);
  if (state == FILE_OURS_WITH_FOLDER)
    {
      g_autofree char *made = g_path_get_dirname (path);

      rmdir (made); /* stays if somebody else wrote there since */
    }
  return TRUE;
}

static gboolean
is_ours (const Place *place)
{
  sonde_autofd int folder = open_folder (place);
  FileState state = folder >= 0 ? read_state (folder) : FILE_ABSENT;

  return state == FILE_OURS || state == FILE_OURS_WITH_FOLDER;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

GStrv
sonde_drop_in_list (SondeDropInKind kind)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_auto (Place) base = { 0 };
  g_autoptr (GDir) dir = NULL;
  const char *name;

  if (find_base (kind, &base, NULL))
    dir = g_dir_open (base.base, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_auto (Place) place = { g_strdup (base.base), g_strdup (name) };
      g_autofree char *unit = kind == SONDE_DROP_IN_SESSION
                                  ? g_strdup ("")
                                  : g_strndup (name, MAX (strlen (name), 2) - 2);
      gboolean is_named
          = kind == SONDE_DROP_IN_SESSION
                ? g_str_equal (name, SESSION_PLACE)
                : g_str_has_suffix (name, ".d") && sonde_drop_in_check_unit (unit, NULL);

      if (is_named && is_ours (&place))
        g_ptr_array_add (names, g_steal_pointer (&unit));
    }
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (GStrv) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}
