/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds foreign bytes to the readers of what stands in /proc; the first byte says to which. */
#include <gio/gio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/proc-maps.h"
#include "daemon/broker/credentials.h"
#include "daemon/base/proc-text.h"
#include "daemon/control/system/unit.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_CPUS 8192

static void
fuzz_maps (const char *text, size_t size)
{
  const char *at = text;
  size_t left = size;
  SondeProcMap map;
  int r;

  while ((r = sonde_proc_maps_next (&at, &left, &map)) != 0)
    if (at + left != text + size
        || (r > 0
            && (map.start >= map.end || map.path < text || map.path_len > size
                || map.path + map.path_len > at)))
      abort ();
  if (left != 0)
    abort ();
}

/* What the table has is what the lines say, in their order. */
static void
check_map_table (int fd, const char *text, size_t size)
{
  const char *at = text;
  size_t left = size;
  size_t n_found = 0;
  SondeProcMapTable *table;
  SondeProcMap line, found;
  uint64_t end = 0;
  int r;

  if (sonde_proc_map_table_read (fd, size + 1, &table) < 0)
    abort ();
  while ((r = sonde_proc_maps_next (&at, &left, &line)) != 0)
    if (r > 0 && line.executable && line.inode != 0 && line.start >= end
        && n_found < SONDE_LIMIT_TABLE_MAPPINGS)
      {
        end = line.end;
        n_found++;
        if (!sonde_proc_map_table_find (table, line.start, &found)
            || !sonde_proc_map_table_find (table, line.end - 1, &found) || found.start != line.start
            || found.inode != line.inode || strlen (found.path) > found.path_len
            || found.path_len > line.path_len)
          abort ();
      }
  if (sonde_proc_map_table_size (table) != n_found || sonde_proc_map_table_find (table, end, &found)
      || sonde_proc_maps_query (fd, 0, NULL, 0, &found) != -EOPNOTSUPP)
    abort ();
  sonde_proc_map_table_free (table);
}

/* The whole text, and cut at a bound: the same lines up to there. */
static void
fuzz_maps_fd (const char *text, size_t size)
{
  int fd = memfd_create ("maps", MFD_CLOEXEC);
  size_t bounds[] = { size + 1, size / 2 + 1 };

  if (fd < 0 || (size > 0 && pwrite (fd, text, size, 0) != (ssize_t) size))
    abort ();
  for (size_t i = 0; i < G_N_ELEMENTS (bounds); i++)
    {
      g_autofree char *copy = NULL;
      int64_t n = sonde_proc_maps_read (fd, bounds[i], &copy);

      if (n < 0 || (size_t) n > size || memcmp (copy, text, (size_t) n) != 0 || copy[n] != '\0'
          || ((size_t) n == bounds[i] && copy[n - 1] != '\n'))
        abort ();
    }
  check_map_table (fd, text, size);
  close (fd);
}

static void
fuzz_stat (const char *text, size_t size)
{
  SondeProcStat stat;

  if (sonde_proc_stat_parse (text, &stat) && strlen (stat.comm) >= sizeof stat.comm)
    abort ();
}

static void
fuzz_status (const char *text, size_t size)
{
  SondeCredentials credentials;

  if (sonde_credentials_parse (text, &credentials)
      && sonde_credentials_have_uid (&credentials, credentials.uids[0])
             != (credentials.uids[0] == credentials.uids[1]
                 && credentials.uids[1] == credentials.uids[2]))
    abort ();
}

static void
fuzz_fdinfo (const char *text, size_t size)
{
  if (sonde_fdinfo_mount_id (text) < -1)
    abort ();
}

/* Of each mount in the text. What may be opened is one whose type is known. */
static void
fuzz_mountinfo (const char *text, size_t size)
{
  for (const char *line = text; line != NULL; line = strchr (line, '\n'))
    {
      gint64 mount_id = g_ascii_strtoll (line += *line == '\n', NULL, 10);

      if ((sonde_mountinfo_is_trusted (text, mount_id)
           || sonde_mountinfo_is_layered (text, mount_id))
          && !sonde_mountinfo_has (text, mount_id))
        abort ();
    }
}

static void
fuzz_cpus (const char *text, size_t size)
{
  g_autoptr (GArray) cpus = sonde_cpu_list_parse (text);

  if (cpus != NULL && (cpus->len == 0 || cpus->len > MAX_CPUS))
    abort ();
}

static void
fuzz_cgroup (const char *text, size_t size)
{
  static const char *const keys[] = { "0::", ":name=systemd:" };

  for (size_t i = 0; i < G_N_ELEMENTS (keys); i++)
    if (sonde_cgroup_is_below (text, keys[i], "/system.slice/a.service")
        && !sonde_cgroup_is_below (text, keys[i], "/system.slice"))
      abort ();
}

static void
fuzz_unit (const char *text, size_t size)
{
  if (sonde_unit_is_name (text) && (strchr (text, '/') != NULL || strchr (text, '.') == NULL))
    abort ();
  sonde_unit_is_everything (text);
}

static void (*const parsers[]) (const char *text, size_t size) = {
  fuzz_maps,      fuzz_maps_fd, fuzz_stat,   fuzz_status, fuzz_fdinfo,
  fuzz_mountinfo, fuzz_cpus,    fuzz_cgroup, fuzz_unit,
};

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  unsigned which = input_take_byte (&input) % G_N_ELEMENTS (parsers);
  char *text = input_dup_text (&input);

  parsers[which](text, input.left);
  free (text);

  return 0;
}
