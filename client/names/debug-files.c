/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/debug-files.h"

#include <elfutils/debuginfod.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"
#include "client/base/text.h"

#define BLOCK_SIZE     (1u << 20)
#define MAX_FILE_BYTES (8ull << 30) /* of which a checksum is computed */

struct SondeDebugFiles
{
  char *directory;
  debuginfod_client *client; /* NULL: no server is named */
  char *name;                /* of the file that it is asked for, escaped */
  gboolean is_progress_shown;
};

/* Returns 0: go on. */
static int
show_progress (debuginfod_client *client, long done, long all)
{
  SondeDebugFiles *self = debuginfod_get_user_data (client);
  g_autofree char *size = sonde_text_size ((guint64) MAX (done, 0));

  if (!isatty (STDERR_FILENO))
    return 0;
  self->is_progress_shown = TRUE;
  g_printerr ("\r\033[KDebug information of %s: %s", self->name, size);
  if (all > 0)
    g_printerr (", %.0f%%", sonde_text_percent ((guint64) MAX (done, 0), (guint64) all));
  return 0;
}

SondeDebugFiles *
sonde_debug_files_new (const char *directory)
{
  SondeDebugFiles *self = g_new0 (SondeDebugFiles, 1);
  const char *urls = g_getenv (DEBUGINFOD_URLS_ENV_VAR);

  self->directory = g_strdup (directory);
  if (urls != NULL && urls[0] != '\0')
    self->client = debuginfod_begin ();
  if (self->client != NULL)
    {
      debuginfod_set_user_data (self->client, self);
      debuginfod_set_progressfn (self->client, show_progress);
    }
  return self;
}

void
sonde_debug_files_free (SondeDebugFiles *self)
{
  if (self == NULL)
    return;
  if (self->client != NULL)
    debuginfod_end (self->client);
  g_free (self->name);
  g_free (self->directory);
  g_free (self);
}

/* Never waits: what is no regular file is refused. */
static int
open_file (const char *path)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat st;

  if (fd < 0 || fstat (fd, &st) < 0 || !S_ISREG (st.st_mode))
    return -1;
  return sonde_steal_fd (&fd);
}

static void
refuse (char **refusal, const char *place, const char *why)
{
  if (refusal == NULL || *refusal != NULL)
    return;
  *refusal = g_strdup_printf ("%s %s", place, why);
}

/* Takes @fd, and gives it back only if it has the build id. */
static int
check_build_id (int fd, const SondeDebugReference *wanted, const char *place, char **refusal)
{
  sonde_autofd int owned = fd;
  SondeDebugReference found;

  if (owned < 0)
    return -1;
  if (sonde_debug_reference_read (owned, &found) < 0
      || !sonde_debug_reference_has_same_id (&found, wanted))
    {
      refuse (refusal, place, "has another build id");
      return -1;
    }
  return sonde_steal_fd (&owned);
}

static int
open_by_build_id (const char *directory,
                  const char *suffix,
                  const SondeDebugReference *wanted,
                  char **refusal)
{
  char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1];
  g_autofree char *path = NULL;

  if (wanted->build_id_size < 2)
    return -1;
  sonde_debug_reference_hex (wanted, hex);
  path = g_strdup_printf ("%s/.build-id/%.2s/%s%s", directory, hex, hex + 2, suffix);
  return check_build_id (open_file (path), wanted, path, refusal);
}

static gboolean
has_checksum (int fd, guint32 wanted)
{
  g_autofree guint8 *block = g_malloc (BLOCK_SIZE);
  uLong crc = crc32 (0, NULL, 0);
  off_t offset = 0;
  struct stat st;

  if (fstat (fd, &st) < 0 || (guint64) st.st_size > MAX_FILE_BYTES)
    return FALSE;
  while (offset < st.st_size)
    {
      gssize n = pread (fd, block, BLOCK_SIZE, offset);

      if (n <= 0)
        return FALSE;
      crc = crc32 (crc, block, (uInt) n);
      offset += n;
    }
  return crc == wanted;
}

static int
open_by_link (const SondeDebugFiles *self,
              const char *path,
              const SondeDebugReference *wanted,
              char **refusal)
{
  g_autofree char *folder = g_path_get_dirname (path);
  const char *const before[] = { "", "", self->directory };
  const char *const below[] = { "", ".debug", "" };
  int found = -1;

  if (wanted->link_name[0] == '\0' || path[0] != '/')
    return -1;
  for (gsize i = 0; i < G_N_ELEMENTS (before) && found < 0; i++)
    {
      g_autofree char *place
          = g_strconcat (before[i], folder, "/", below[i], "/", wanted->link_name, NULL);
      sonde_autofd int fd = open_file (place);

      if (fd < 0)
        continue;
      if (has_checksum (fd, wanted->link_crc))
        found = sonde_steal_fd (&fd);
      else
        refuse (refusal, place, "has another checksum");
    }
  return found;
}

/* Waits for the server. A terminal gets a line of progress. */
static int
ask_server (SondeDebugFiles *self,
            gboolean is_program,
            const char *name,
            const SondeDebugReference *wanted,
            char **refusal)
{
  char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1];
  int fd;

  if (self->client == NULL || wanted->build_id_size < 2)
    return -1;
  sonde_debug_reference_hex (wanted, hex);
  g_free (self->name);
  self->name = sonde_text_escape (name, -1);
  /* size 0: the id is text */
  fd = (is_program ? debuginfod_find_executable : debuginfod_find_debuginfo) (
      self->client, (const unsigned char *) hex, 0, NULL);
  if (self->is_progress_shown)
    g_printerr ("\r\033[K");
  self->is_progress_shown = FALSE;
  return check_build_id (fd, wanted, "the answer of a debuginfod server", refusal);
}

int
sonde_debug_files_open (SondeDebugFiles *self,
                        const char *path,
                        const SondeDebugReference *reference,
                        char **refusal)
{
  int fd = open_by_build_id (self->directory, ".debug", reference, refusal);

  if (fd < 0)
    fd = open_by_link (self, path, reference, refusal);
  return fd >= 0 ? fd : ask_server (self, FALSE, path, reference, refusal);
}

/* Fedora and others keep links to the programs themselves beside those to their debug files. */
int
sonde_debug_files_open_program (SondeDebugFiles *self,
                                const char *name,
                                const SondeDebugReference *reference,
                                char **refusal)
{
  int fd = open_by_build_id (self->directory, "", reference, refusal);

  if (fd < 0)
    fd = open_by_build_id (SONDE_PROGRAM_LINKS, "", reference, refusal);
  return fd >= 0 ? fd : ask_server (self, TRUE, name, reference, refusal);
}

char *
sonde_debug_files_describe_miss (const SondeDebugFiles *self, const SondeDebugReference *reference)
{
  char hex[2 * SONDE_ELF_MAX_BUILD_ID + 1];

  if (reference->build_id_size == 0)
    return g_strdup ("no build id to find its debug file by");
  sonde_debug_reference_hex (reference, hex);
  return g_strdup_printf ("no debug file in %s%s for build id %s", self->directory,
                          self->client != NULL ? ", nor on a debuginfod server," : "", hex);
}
