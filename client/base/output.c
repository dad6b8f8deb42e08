/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/base/write-all.h"

#define MAX_LINKS      40 /* as the kernel follows */
#define TEMPORARY_NAME ".sonde-XXXXXX"

struct SondeOutput
{
  char *name;
  int fd;
  gboolean is_stdout;
  gboolean is_file;   /* a regular one */
  gboolean is_beside; /* its place, as @temporary */
  gboolean replaces;  /* a file that is there */
  gboolean is_new;    /* in its place, where nothing was */
  char *target;       /* its place, without links */
};

/* The file beside its place, for as long as there is one: a handler of signals knows nothing but
 * variables. */
static char temporary[PATH_MAX];

static const int deadly[] = { SIGHUP, SIGINT, SIGTERM };

static void
remove_temporary (int signal_number)
{
  unlink (temporary);
  raise (signal_number); /* as without us: SA_RESETHAND */
}

/* Those that are ignored stay so. */
static void
catch_signals (gboolean are_caught)
{
  const struct sigaction remove
      = { .sa_handler = remove_temporary, .sa_flags = (int) SA_RESETHAND };
  const struct sigaction die = { .sa_handler = SIG_DFL };

  for (guint i = 0; i < G_N_ELEMENTS (deadly); i++)
    {
      struct sigaction old;

      sigaction (deadly[i], NULL, &old);
      if (old.sa_handler == (are_caught ? SIG_DFL : remove_temporary))
        sigaction (deadly[i], are_caught ? &remove : &die, NULL);
    }
}

/* Always returns FALSE. */
static gboolean
set_error (const SondeOutput *self, int error_number, GError **error)
{
  g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (error_number), "Cannot write %s: %s",
               self->name, g_strerror (error_number));
  return FALSE;
}

/* @path without the symbolic links at its end, which the kernel has followed before, hence may be
 * followed; NULL if there are too many. */
static char *
resolve (const char *path)
{
  char *resolved = g_strdup (path);

  for (guint i = 0; i < MAX_LINKS; i++)
    {
      g_autofree char *old = resolved;
      g_autofree char *link = g_file_read_link (old, NULL);
      g_autofree char *folder = NULL;

      if (link == NULL)
        return g_steal_pointer (&old);
      folder = g_path_get_dirname (old);
      resolved
          = g_path_is_absolute (link) ? g_strdup (link) : g_build_filename (folder, link, NULL);
    }
  g_free (resolved);
  return NULL;
}

static gboolean
is_same (const char *path, const struct stat *st)
{
  struct stat other;

  return stat (path, &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

/* A path longer than an address of a socket is reached through a descriptor. */
static int
open_socket (const char *path)
{
  sonde_autofd int handle = open (path, O_PATH | O_CLOEXEC);
  sonde_autofd int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = { .sun_family = AF_UNIX };

  g_snprintf (address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", handle);
  if (handle < 0 || fd < 0 || connect (fd, (struct sockaddr *) &address, sizeof address) < 0)
    return -1;
  return sonde_steal_fd (&fd);
}

static gboolean
open_through (SondeOutput *self, const char *path, const struct stat *st, GError **error)
{
  if (S_ISSOCK (st->st_mode))
    self->fd = open_socket (path);
  else
    self->fd = open (path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (S_ISREG (st->st_mode) ? O_TRUNC : 0));
  return self->fd >= 0 || set_error (self, errno, error);
}

/* @st: of the file that is to be replaced, or NULL */
static gboolean
open_beside (SondeOutput *self, const struct stat *st, GError **error)
{
  g_autofree char *folder = g_path_get_dirname (self->target);
  g_autofree char *path = g_build_filename (folder, TEMPORARY_NAME, NULL);
  mode_t mode = st != NULL ? st->st_mode & 0777 : 0666;
  sigset_t set, old;
  int error_number;

  g_assert (temporary[0] == '\0');
  if (strlen (path) >= sizeof temporary)
    return set_error (self, ENAMETOOLONG, error);
  /* No signal comes between the file and its name. */
  sigemptyset (&set);
  for (guint i = 0; i < G_N_ELEMENTS (deadly); i++)
    sigaddset (&set, deadly[i]);
  pthread_sigmask (SIG_BLOCK, &set, &old);
  self->fd = g_mkstemp_full (path, O_WRONLY | O_CLOEXEC, (int) (mode & 0666));
  error_number = errno;
  if (self->fd >= 0)
    {
      g_strlcpy (temporary, path, sizeof temporary);
      self->is_beside = TRUE;
      catch_signals (TRUE);
    }
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (self->fd < 0)
    {
      g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (error_number),
                   "Cannot write %s: cannot make a file beside it: %s", self->name,
                   g_strerror (error_number));
      return FALSE;
    }
  self->replaces = st != NULL;
  /* Who gets another's file does not get the rights of its mode with it. */
  if (st != NULL
      && ((st->st_uid == geteuid () && st->st_gid == getegid ())
          || fchown (self->fd, st->st_uid, st->st_gid) == 0))
    fchmod (self->fd, mode);
  return TRUE;
}

static gboolean
open_whole (SondeOutput *self, const char *path, GError **error)
{
  gboolean is_there;
  struct stat st;

  is_there = stat (path, &st) == 0;
  if (!is_there && errno != ENOENT)
    return set_error (self, errno, error);
  if (is_there && S_ISDIR (st.st_mode))
    return set_error (self, EISDIR, error);
  if (is_there && !S_ISREG (st.st_mode))
    return open_through (self, path, &st, error);
  if (is_there && faccessat (AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
    return set_error (self, errno, error);
  if (!is_there && g_str_has_suffix (path, "/"))
    return set_error (self, EISDIR, error);

  self->target = resolve (path);
  if (self->target == NULL)
    return set_error (self, ELOOP, error);
  /* Some links, such as those of /proc/self/fd, do not say where they lead. */
  if (is_there && !is_same (self->target, &st))
    {
      g_clear_pointer (&self->target, g_free);
      return open_through (self, path, &st, error);
    }
  self->is_file = TRUE;
  return open_beside (self, is_there ? &st : NULL, error);
}

static gboolean
open_in_place (SondeOutput *self, const char *path, gboolean is_only_new, GError **error)
{
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;
  struct stat st;

  self->fd = open (path, flags | O_CREAT | O_EXCL, 0666);
  self->is_new = self->fd >= 0;
  if (self->fd < 0 && errno == EEXIST && !is_only_new)
    {
      self->fd = open (path, flags);
      if (self->fd < 0 && errno == ENXIO && stat (path, &st) == 0 && S_ISSOCK (st.st_mode))
        self->fd = open_socket (path);
      /* a link that leads to no file yet */
      if (self->fd < 0 && errno == ENOENT)
        {
          self->fd = open (path, flags | O_CREAT, 0666);
          self->is_new = self->fd >= 0;
        }
    }
  if (self->fd < 0 || fstat (self->fd, &st) < 0)
    return set_error (self, errno, error);
  self->is_file = S_ISREG (st.st_mode);
  self->target = resolve (path);
  return TRUE;
}

SondeOutput *
sonde_output_open (const char *path, SondeOutputKind kind, GError **error)
{
  g_autoptr (SondeOutput) self = g_new0 (SondeOutput, 1);

  self->is_stdout = g_str_equal (path, "-");
  self->name = self->is_stdout ? g_strdup ("standard output") : sonde_text_escape (path, -1);
  self->fd = self->is_stdout ? STDOUT_FILENO : -1;
  if (self->is_stdout
      || (kind == SONDE_OUTPUT_WHOLE ? open_whole (self, path, error)
                                     : open_in_place (self, path, kind == SONDE_OUTPUT_NEW, error)))
    return g_steal_pointer (&self);
  return NULL;
}

void
sonde_output_free (SondeOutput *self)
{
  struct stat st;

  if (self == NULL)
    return;
  if (self->is_beside)
    {
      unlink (temporary);
      temporary[0] = '\0';
      catch_signals (FALSE);
    }
  else if (self->is_new && fstat (self->fd, &st) == 0 && is_same (self->target, &st))
    unlink (self->target);
  if (!self->is_stdout)
    sonde_clear_fd (&self->fd);
  g_free (self->target);
  g_free (self->name);
  g_free (self);
}

gboolean
sonde_output_write (SondeOutput *self, const void *bytes, gsize size_bytes, GError **error)
{
  int error_number = sonde_write_all (self->fd, bytes, size_bytes, -1, NULL);

  return error_number == 0 || set_error (self, error_number, error);
}

gboolean
sonde_output_close (SondeOutput *self, GError **error)
{
  if (self->is_stdout)
    return TRUE;
  /* What was there goes only when the new one is on the disk. */
  if ((self->replaces && fsync (self->fd) < 0) || close (sonde_steal_fd (&self->fd)) < 0
      || (self->is_beside && rename (temporary, self->target) < 0))
    return set_error (self, errno, error);
  if (self->is_beside)
    {
      temporary[0] = '\0';
      catch_signals (FALSE);
    }
  self->is_beside = FALSE;
  self->is_new = FALSE;
  return TRUE;
}

int
sonde_output_fd (const SondeOutput *self)
{
  return self->fd;
}

gboolean
sonde_output_is_file (const SondeOutput *self)
{
  return self->is_file;
}

const char *
sonde_output_name (const SondeOutput *self)
{
  return self->name;
}

gboolean
sonde_output_put (const char *path, const GString *text, GError **error)
{
  g_autoptr (SondeOutput) self = sonde_output_open (path, SONDE_OUTPUT_WHOLE, error);

  return self != NULL && sonde_output_write (self, text->str, text->len, error)
         && sonde_output_close (self, error);
}

gboolean
sonde_output_refuse_terminal (const char *path, const char *what)
{
  if (!g_str_equal (path, "-") || !isatty (STDOUT_FILENO))
    return FALSE;
  sonde_cli_complain ("%s is not for terminals: -o FILE", what);
  return TRUE;
}
