/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/proc-text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/major.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

#define STAT_FIELD_STATE  3
#define STAT_FIELD_PARENT 4
#define STAT_FIELD_START  22
#define MAX_CPUS          8192

bool
sonde_proc_stat_parse (const char *text, SondeProcStat *stat)
{
  SondeProcStat parsed = { 0 };
  const char *open = strchr (text, '(');
  const char *close = strrchr (text, ')');
  const char *field;
  char *end;

  if (open == NULL || close == NULL || close < open)
    return false;
  memcpy (parsed.comm, open + 1, MIN ((gsize) (close - open - 1), sizeof parsed.comm - 1));

  field = close + 1;
  for (int n = STAT_FIELD_STATE; n <= STAT_FIELD_START; n++)
    {
      if (*field != ' ')
        return false;
      field++;
      if (n == STAT_FIELD_PARENT)
        parsed.parent_pid = (gint32) g_ascii_strtoll (field, NULL, 10);
      if (n < STAT_FIELD_START)
        field += strcspn (field, " ");
    }
  if (!g_ascii_isdigit (*field))
    return false;
  errno = 0;
  parsed.start_ticks = g_ascii_strtoull (field, &end, 10);
  if (errno != 0 || (*end != ' ' && *end != '\n' && *end != '\0'))
    return false;

  *stat = parsed;
  return true;
}

gint64
sonde_fdinfo_mount_id (const char *text)
{
  const char *line = text;

  while (line != NULL && *line != '\0')
    {
      if (g_str_has_prefix (line, "mnt_id:"))
        {
          const char *number = line + strlen ("mnt_id:");

          number += strspn (number, " \t");
          return g_ascii_isdigit (*number) ? g_ascii_strtoll (number, NULL, 10) : -1;
        }
      line = strchr (line, '\n');
      if (line != NULL)
        line++;
    }
  return -1;
}

static const char *
next_line (const char *line)
{
  line += strcspn (line, "\n");
  return *line == '\n' ? line + 1 : line;
}

/* NULL: there is none. */
static const char *
mountinfo_find_line (const char *mountinfo, gint64 mount_id)
{
  for (const char *line = mountinfo; *line != '\0'; line = next_line (line))
    {
      char *end;

      if (g_ascii_isdigit (*line) && g_ascii_strtoll (line, &end, 10) == mount_id && *end == ' ')
        return line;
    }
  return NULL;
}

/* The type of a mount: the word behind " - " in its line. */
static bool
mountinfo_find_type (const char *mountinfo, gint64 mount_id, char type[32])
{
  const char *line = mountinfo_find_line (mountinfo, mount_id);
  /* The kernel escapes blanks in paths, so this cannot be a part of one. */
  const char *separator
      = line != NULL ? g_strstr_len (line, (gssize) strcspn (line, "\n"), " - ") : NULL;
  gsize type_len;

  if (separator == NULL)
    return false;
  separator += 3;
  type_len = strcspn (separator, " \n");
  if (type_len == 0 || type_len >= 32)
    return false;
  memcpy (type, separator, type_len);
  type[type_len] = '\0';
  return true;
}

/* "MAJOR:MINOR", the third word of a line, with the blank behind it. NULL: it has none. */
static const char *
mountinfo_device (const char *line, gsize *length)
{
  for (guint i = 0; i < 2; i++)
    {
      line += strcspn (line, " \n");
      if (*line++ != ' ')
        return NULL;
    }
  *length = strcspn (line, " \n") + 1;
  return line[*length - 1] == ' ' && *length > 1 ? line : NULL;
}

bool
sonde_mountinfo_has (const char *mountinfo, gint64 mount_id)
{
  char type[32];

  return mountinfo_find_type (mountinfo, mount_id, type);
}

bool
sonde_mountinfo_is_trusted (const char *mountinfo, gint64 mount_id)
{
  static const char *const trusted[]
      = { "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay", "erofs", "squashfs", NULL };
  char type[32];

  return mountinfo_find_type (mountinfo, mount_id, type) && g_strv_contains (trusted, type);
}

bool
sonde_mountinfo_is_overlay (const char *mountinfo, gint64 mount_id)
{
  char type[32];

  return mountinfo_find_type (mountinfo, mount_id, type) && g_str_equal (type, "overlay");
}

bool
sonde_mountinfo_has_same (const char *mountinfo, gint64 mount_id, const char *others)
{
  const char *line = mountinfo_find_line (mountinfo, mount_id);
  gsize length = 0;
  const char *device = line != NULL ? mountinfo_device (line, &length) : NULL;

  for (line = others; device != NULL && *line != '\0'; line = next_line (line))
    {
      gsize other_length;
      const char *other = mountinfo_device (line, &other_length);

      if (other != NULL && other_length == length && memcmp (other, device, length) == 0)
        return true;
    }
  return false;
}

gint64
sonde_mountinfo_find_device (const char *mountinfo, guint dev_major, guint dev_minor)
{
  g_autofree char *wanted = g_strdup_printf ("%u:%u ", dev_major, dev_minor);

  for (const char *line = mountinfo; *line != '\0'; line = next_line (line))
    {
      gsize length;
      const char *device = mountinfo_device (line, &length);

      if (device != NULL && g_ascii_isdigit (*line) && length == strlen (wanted)
          && memcmp (device, wanted, length) == 0)
        return g_ascii_strtoll (line, NULL, 10);
    }
  return -1;
}

/* Its options, the sixth word of a line. */
static bool
has_option (const char *line, const char *option)
{
  gsize left = strcspn (line, "\n");
  g_autofree char *text = g_strndup (line, left);
  g_auto (GStrv) words = g_strsplit (text, " ", 7);
  g_auto (GStrv) options = NULL;

  if (g_strv_length (words) < 7)
    return false;
  options = g_strsplit (words[5], ",", -1);
  return g_strv_contains ((const char *const *) options, option);
}

bool
sonde_mountinfo_is_solid (const char *mountinfo, guint dev_major, guint dev_minor)
{
  static const char *const on_disk[] = { "ext4", "xfs", "f2fs", "erofs", "squashfs", NULL };
  g_autofree char *wanted = g_strdup_printf ("%u:%u ", dev_major, dev_minor);
  bool is_disk = dev_major != 0 && dev_major != LOOP_MAJOR && dev_major != NBD_MAJOR;

  for (const char *line = mountinfo; *line != '\0'; line = next_line (line))
    {
      gsize length;
      const char *device = mountinfo_device (line, &length);
      char type[32];

      if (device == NULL || length != strlen (wanted) || memcmp (device, wanted, length) != 0
          || !mountinfo_find_type (line, g_ascii_strtoll (line, NULL, 10), type)
          || has_option (line, "nosuid"))
        continue;
      if (is_disk ? g_strv_contains (on_disk, type) : dev_major == 0 && g_str_equal (type, "tmpfs"))
        return true;
    }
  return false;
}

bool
sonde_mountinfo_is_layered (const char *mountinfo, gint64 mount_id)
{
  char type[32];

  return mountinfo_find_type (mountinfo, mount_id, type)
         && (g_str_equal (type, "btrfs") || g_str_equal (type, "overlay"));
}

/* "HIERARCHY:CONTROLLERS:PATH"; of version 2 "0::PATH" */
bool
sonde_cgroup_is_below (const char *text, const char *key, const char *path)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  gsize size_bytes = strlen (path);

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      const char *at = key[0] == ':' ? strchr (lines[i], ':') : lines[i];

      if (at == NULL || !g_str_has_prefix (at, key))
        continue;
      at += strlen (key);
      if (g_str_has_prefix (at, path) && (at[size_bytes] == '\0' || at[size_bytes] == '/'))
        return true;
    }
  return false;
}

/* One number of a CPU list. */
static bool
parse_cpu (const char **text, int *cpu)
{
  char *end;
  guint64 number;

  if (!g_ascii_isdigit (**text))
    return false;
  number = g_ascii_strtoull (*text, &end, 10);
  if (number >= MAX_CPUS)
    return false;
  *text = end;
  *cpu = (int) number;
  return true;
}

GArray *
sonde_cpu_list_parse (const char *text)
{
  g_autoptr (GArray) cpus = g_array_new (FALSE, FALSE, sizeof (int));

  while (true)
    {
      int first;
      int last;

      if (!parse_cpu (&text, &first))
        return NULL;
      last = first;
      if (*text == '-')
        {
          text++;
          if (!parse_cpu (&text, &last) || last < first)
            return NULL;
        }
      if (cpus->len + (guint) (last - first) >= MAX_CPUS)
        return NULL;
      for (int cpu = first; cpu <= last; cpu++)
        g_array_append_val (cpus, cpu);
      if (*text != ',')
        break;
      text++;
    }
  return *text == '\0' || *text == '\n' ? g_steal_pointer (&cpus) : NULL;
}

char *
sonde_proc_text_read (int dir_fd, const char *path, gsize max_bytes)
{
  sonde_autofd int fd = openat (dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  g_autoptr (GByteArray) bytes = NULL;
  guint8 block[4096];

  if (fd < 0)
    return NULL;

  bytes = g_byte_array_new ();
  while (bytes->len < max_bytes)
    {
      ssize_t n_read = read (fd, block, MIN (sizeof block, max_bytes - bytes->len));

      if (n_read < 0 && errno == EINTR)
        continue;
      if (n_read < 0)
        return NULL;
      if (n_read == 0)
        break;
      g_byte_array_append (bytes, block, (guint) n_read);
    }
  g_byte_array_append (bytes, (const guint8 *) "", 1);
  return (char *) g_byte_array_free (g_steal_pointer (&bytes), FALSE);
}

int
sonde_proc_open_below (int root_fd, const char *path, int flags)
{
  g_auto (GStrv) names = NULL;
  sonde_autofd int below_fd = -1;
  int at_fd = root_fd;

  if (path[0] != '/' || path[1] == '\0')
    return -EXDEV;
  if (strlen (path) >= PATH_MAX)
    return -ENAMETOOLONG;
  names = g_strsplit (path + 1, "/", -1);
  for (guint i = 0; names[i] != NULL; i++)
    {
      int fd;

      if (names[i][0] == '\0' || g_str_equal (names[i], ".") || g_str_equal (names[i], ".."))
        return -EXDEV;
      fd = openat (at_fd, names[i],
                   (names[i + 1] != NULL ? O_PATH | O_DIRECTORY : flags) | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0)
        return -errno;
      sonde_clear_fd (&below_fd);
      at_fd = below_fd = fd;
    }
  return sonde_steal_fd (&below_fd);
}

gint64
sonde_proc_number_read (const char *path, gint64 fallback)
{
  g_autofree char *text = sonde_proc_text_read (AT_FDCWD, path, 64);
  char *end;
  gint64 number;

  if (text == NULL)
    return fallback;
  number = g_ascii_strtoll (text, &end, 10);
  return end != text ? number : fallback;
}

bool
sonde_proc_cost_measure (pid_t pid, SondeProcCost *cost)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/statm", (int) pid);
  g_autofree char *text = NULL;
  guint64 n_pages;
  struct timespec used;
  clockid_t clock;

  if (clock_getcpuclockid (pid, &clock) != 0 || clock_gettime (clock, &used) < 0)
    return false;
  cost->cpu_us = (guint64) used.tv_sec * G_USEC_PER_SEC + (guint64) used.tv_nsec / 1000;
  text = sonde_proc_text_read (AT_FDCWD, path, 256);
  if (text != NULL && sscanf (text, "%*u %" G_GUINT64_FORMAT, &n_pages) == 1)
    cost->memory_bytes = n_pages * (guint64) sysconf (_SC_PAGESIZE);
  return true;
}
