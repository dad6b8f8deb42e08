/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/browser.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/own-folder.h"
#include "client/base/text.h"
#include "client/base/write-all.h"

#define FOLDER     "sonde-view"
#define SUFFIX     ".html"
#define MAX_FILES  1024 /* that are looked at; each call removes those of others */
#define MIN_AGE_S  60   /* of a file that no browser is on its way to */
#define PATIENCE_S 5    /* some xdg-open is the browser: what has not failed by then shows it */
#define MAX_TRIES  100

static gboolean
is_set (const char *variable)
{
  const char *value = g_getenv (variable);

  return value != NULL && value[0] != '\0';
}

gboolean
sonde_browser_is_near (void)
{
  return geteuid () != 0 && isatty (STDIN_FILENO) && isatty (STDOUT_FILENO)
         && (is_set ("DISPLAY") || is_set ("WAYLAND_DISPLAY"));
}

static void
remove_old (int folder)
{
  sonde_autofd int fd = openat (folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir (fd) : NULL;
  const struct dirent *entry;
  time_t now = time (NULL);

  if (dir == NULL)
    return;
  (void) g_steal_fd (&fd);
  for (guint n = 0; n < MAX_FILES && (entry = readdir (dir)) != NULL; n++)
    {
      struct stat st;

      if (g_str_has_suffix (entry->d_name, SUFFIX)
          && fstatat (folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG (st.st_mode)
          && (st.st_mtime <= now - MIN_AGE_S || st.st_mtime > now))
        unlinkat (folder, entry->d_name, 0);
    }
  closedir (dir);
}

/* (transfer full): its name; NULL with errno */
static char *
write_page (int folder, const char *name, const GString *page)
{
  for (guint i = 0; i < MAX_TRIES; i++)
    {
      g_autofree char *file = g_strdup_printf ("%.64s-%08x" SUFFIX, name, g_random_int ());
      sonde_autofd int fd = -1;
      int saved_errno;

      g_strcanon (file, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_.-", '_');
      fd = openat (folder, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (fd < 0 && errno == EEXIST)
        continue;
      if (fd < 0)
        return NULL;
      saved_errno = sonde_write_all (fd, page->str, page->len, -1, NULL);
      if (saved_errno == 0)
        return g_steal_pointer (&file);
      unlinkat (folder, file, 0);
      errno = saved_errno;
      return NULL;
    }
  return NULL;
}

/* Of the run-time folder, else of the caches: a run-time folder may be another user's, whose
 * environment we have. (transfer full): NULL with @error */
static char *
put (const char *name, const GString *page, GError **error)
{
  const char *const places[] = { g_get_user_runtime_dir (), g_get_user_cache_dir () };
  int saved_errno = 0;

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      sonde_autofd int folder = -1;
      g_autofree char *file = NULL;

      if (g_mkdir_with_parents (places[i], 0700) == 0)
        folder = sonde_own_folder_open (places[i], FOLDER);
      if (folder >= 0)
        {
          remove_old (folder);
          file = write_page (folder, name, page);
        }
      if (file != NULL)
        return g_build_filename (places[i], FOLDER, file, NULL);
      saved_errno = errno;
    }
  g_set_error (error, G_FILE_ERROR, (gint) g_file_error_from_errno (saved_errno),
               "Cannot write the page into the run-time folder, nor among the caches: %s; "
               "flamegraph -o writes it elsewhere",
               g_strerror (saved_errno));
  return NULL;
}

typedef struct
{
  GMainLoop *loop;
  int wait_status;
} Opening;

static void
has_exited (GPid pid, int wait_status, gpointer user_data)
{
  Opening *self = user_data;

  self->wait_status = wait_status;
  g_main_loop_quit (self->loop);
}

static gboolean
has_waited (gpointer user_data)
{
  const Opening *self = user_data;

  g_main_loop_quit (self->loop);
  return G_SOURCE_CONTINUE;
}

static gboolean
open_page (const char *path, GError **error)
{
  const char *const argv[] = { "xdg-open", path, NULL };
  g_autoptr (GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  Opening self = { .loop = loop };
  g_autoptr (GError) failure = NULL;
  GPid pid;
  guint sources[2];

  /* It would run one that draws into nothing. */
  if (!is_set ("DISPLAY") && !is_set ("WAYLAND_DISPLAY") && !is_set ("BROWSER"))
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                           "There is no display to open the page on; it may be taken elsewhere");
      return FALSE;
    }
  if (!g_spawn_async (NULL, (char **) argv, NULL,
                      G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL
                          | G_SPAWN_STDERR_TO_DEV_NULL,
                      NULL, NULL, &pid, &failure))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                   "Cannot run xdg-open, which opens pages (Debian's package xdg-utils): %s",
                   failure->message);
      return FALSE;
    }
  sources[0] = g_child_watch_add (pid, has_exited, &self);
  sources[1] = g_timeout_add_seconds (PATIENCE_S, has_waited, &self);
  g_main_loop_run (loop);
  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    if (g_main_context_find_source_by_id (NULL, sources[i]) != NULL)
      g_source_remove (sources[i]);
  if (self.wait_status == 0)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
               "xdg-open found no browser (status %d); report needs none",
               WIFEXITED (self.wait_status) ? WEXITSTATUS (self.wait_status) : -1);
  return FALSE;
}

gboolean
sonde_browser_show (const char *name, const GString *page, char **shown, GError **error)
{
  g_autofree char *path = put (name, page, error);

  if (path == NULL)
    return FALSE;
  if (shown != NULL)
    *shown = sonde_text_escape (path, -1);
  return open_page (path, error);
}
