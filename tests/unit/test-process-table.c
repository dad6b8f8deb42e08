/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes come, fork, exec, map over old mappings, exit and come again. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>

#include "unwind/process-table.h"

typedef struct
{
  SondeModuleStore *modules;
  SondeProcessTable *table;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  f->table = sonde_process_table_new (f->modules);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  sonde_process_table_free (f->table);
  sonde_module_store_free (f->modules);
}

static int
map_as (Fixture *f,
        SondeProcess *process,
        uint64_t start,
        uint64_t end,
        const char *path,
        SondeMapOrigin origin)
{
  SondeProcessMapping mapping = { .start = start, .end = end, .offset = 0x10000, .path = path };

  mapping.file.inode = g_str_hash (path);
  return sonde_process_add_mapping (f->table, process, &mapping, origin);
}

static int
map (Fixture *f, SondeProcess *process, uint64_t start, uint64_t end, const char *path)
{
  return map_as (f, process, start, end, path, SONDE_MAP_FROM_EVENT);
}

static int
snapshot (Fixture *f, SondeProcess *process, uint64_t start, uint64_t end, const char *path)
{
  return map_as (f, process, start, end, path, SONDE_MAP_FROM_SNAPSHOT);
}

/* "a:1000-2000@10000 b:..." */
static char *
describe (SondeProcess *process)
{
  g_autoptr (GString) text = g_string_new (NULL);
  size_t n_mappings;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);

  for (size_t i = 0; i < n_mappings; i++)
    g_string_append_printf (text, "%s%s:%lx-%lx@%lx", i > 0 ? " " : "", mappings[i].path,
                            mappings[i].start, mappings[i].end, mappings[i].offset);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

#define assert_mappings(process, expected)                                                         \
  G_STMT_START                                                                                     \
  {                                                                                                \
    g_autofree char *text_ = describe (process);                                                   \
                                                                                                   \
    g_assert_cmpstr (text_, ==, expected);                                                         \
  }                                                                                                \
  G_STMT_END

static void
test_refuses_mappings (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);
  g_autofree char *path = g_strnfill (SONDE_PROCESS_MAX_PATH + 1, 'x');

  g_assert_cmpint (map (f, p, 0x1000, 0x1000, "a"), ==, -EINVAL);
  g_assert_cmpint (map (f, p, 0x2000, 0x1000, "a"), ==, -EINVAL);
  g_assert_cmpint (map (f, p, 0x1000, 0x2000, path), ==, -EINVAL);
  path[SONDE_PROCESS_MAX_PATH] = '\0';
  g_assert_cmpint (map (f, p, 0x1000, 0x2000, path), ==, 1);
  g_assert_cmpint (map (f, p, UINT64_MAX - 1, UINT64_MAX, "end"), ==, 1);
  g_assert_nonnull (sonde_process_find_mapping (f->table, p, UINT64_MAX - 1));
  g_assert_null (sonde_process_find_mapping (f->table, p, UINT64_MAX));
}

static void
test_new_mappings_cut (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);

  map (f, p, 0x4000, 0x8000, "a");
  g_assert_cmpint (map (f, p, 0x4000, 0x8000, "a"), ==, 0);
  map (f, p, 0x5000, 0x6000, "b");
  assert_mappings (p, "a:4000-5000@10000 b:5000-6000@10000 a:6000-8000@12000");
  map (f, p, 0x3000, 0x4800, "c");
  assert_mappings (p, "c:3000-4800@10000 a:4800-5000@10800 b:5000-6000@10000 a:6000-8000@12000");
  map (f, p, 0x4900, 0x7000, "d");
  assert_mappings (p, "c:3000-4800@10000 a:4800-4900@10800 d:4900-7000@10000 a:7000-8000@13000");
  map (f, p, 0x1000, 0x9000, "e");
  assert_mappings (p, "e:1000-9000@10000");
  map (f, p, 0x1000, 0x2000, "f");
  map (f, p, 0x8000, 0x9000, "g");
  assert_mappings (p, "f:1000-2000@10000 e:2000-8000@11000 g:8000-9000@10000");
}

static void
test_snapshots_fill (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);

  map (f, p, 0x2000, 0x3000, "a");
  map (f, p, 0x5000, 0x6000, "b");
  g_assert_cmpint (snapshot (f, p, 0x1000, 0x7000, "old"), ==, 1);
  assert_mappings (p, "old:1000-2000@10000 a:2000-3000@10000 old:3000-5000@12000 b:5000-6000@10000 "
                      "old:6000-7000@15000");
  g_assert_cmpint (snapshot (f, p, 0x1000, 0x7000, "older"), ==, 0);
}

static void
test_lost_records (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);

  map (f, p, 0x1000, 0x2000, "unmapped-meanwhile");
  sonde_process_set_state (p, SONDE_PROCESS_KNOWN);
  sonde_process_table_set_stale (f->table);
  g_assert_cmpint (sonde_process_state (p), ==, SONDE_PROCESS_UNKNOWN);
  map (f, p, 0x3000, 0x4000, "told-since");
  assert_mappings (p, "unmapped-meanwhile:1000-2000@10000 told-since:3000-4000@10000");
  sonde_process_begin_snapshot (f->table, p);
  snapshot (f, p, 0x3000, 0x5000, "seen");
  assert_mappings (p, "told-since:3000-4000@10000 seen:4000-5000@11000");
}

static void
test_fork_shares (Fixture *f, gconstpointer data)
{
  SondeProcess *parent = sonde_process_table_ensure (f->table, 1, 0);
  SondeProcess *child;
  size_t n_mappings;
  size_t bytes;
  uint64_t serial;

  for (uint64_t i = 1; i < 100; i++)
    map (f, parent, i << 12, (i + 1) << 12, "a");
  sonde_process_set_state (parent, SONDE_PROCESS_KNOWN);
  sonde_process_table_set_comm (f->table, 1, "parent");
  bytes = sonde_process_table_bytes (f->table);
  child = sonde_process_table_fork (f->table, 1, 2, 1);
  g_assert_cmpint (sonde_process_state (child), ==, SONDE_PROCESS_KNOWN);
  g_assert_cmpstr (sonde_process_comm (child), ==, "parent");
  g_assert_cmpuint (sonde_process_table_bytes (f->table), ==, bytes);
  g_assert_true (sonde_process_mappings (parent, &n_mappings)
                 == sonde_process_mappings (child, &n_mappings));

  serial = sonde_process_serial (parent);
  map (f, child, 0x1000, 0x70000, "b");
  g_assert_cmpuint (sonde_process_serial (parent), ==, serial);
  sonde_process_mappings (parent, &n_mappings);
  g_assert_cmpuint (n_mappings, ==, 99);
  g_assert_cmpstr (sonde_process_find_mapping (f->table, parent, 0x1000)->path, ==, "a");
  g_assert_cmpstr (sonde_process_find_mapping (f->table, child, 0x1000)->path, ==, "b");
}

static void
test_fork_of_unknown (Fixture *f, gconstpointer data)
{
  SondeProcess *child = sonde_process_table_fork (f->table, 1, 2, 1);

  g_assert_cmpint (sonde_process_state (child), ==, SONDE_PROCESS_UNKNOWN);
  g_assert_cmpuint (sonde_process_table_n_processes (f->table), ==, 1);
  sonde_process_set_state (child, SONDE_PROCESS_ASKED);
  child = sonde_process_table_fork (f->table, 2, 3, 1);
  g_assert_cmpint (sonde_process_state (child), ==, SONDE_PROCESS_UNKNOWN);
  g_assert_nonnull (sonde_process_table_fork (f->table, 4, 4, 1));
}

static void
count_destroyed (void *data)
{
  ++*(int *) data;
}

static void
test_exec (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);
  uint64_t generation = sonde_process_generation (p);
  uint64_t serial;
  int n_destroyed = 0;

  map (f, p, 0x1000, 0x2000, "a");
  serial = sonde_process_serial (p);
  sonde_process_set_unwind_data (p, &n_destroyed, count_destroyed);
  sonde_process_table_exec (f->table, 1, "a-very-long-command-name", 1);
  g_assert_cmpint (n_destroyed, ==, 1);
  g_assert_null (sonde_process_unwind_data (p));
  assert_mappings (p, "");
  g_assert_cmpuint (sonde_process_serial (p), >, serial);
  g_assert_cmpuint (sonde_process_generation (p), ==, generation);
  g_assert_cmpint (sonde_process_state (p), ==, SONDE_PROCESS_KNOWN);
  g_assert_cmpstr (sonde_process_comm (p), ==, "a-very-long-com");
}

static void
test_exit (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);

  map (f, p, 0x1000, 0x2000, "a");
  sonde_process_table_exit (f->table, 1, 100);
  g_assert_true (sonde_process_exited (p));
  sonde_process_table_expire (f->table, 100);
  g_assert_true (sonde_process_table_find (f->table, 1) == p);
  assert_mappings (p, "a:1000-2000@10000");
  /* a queued sample wanted it just now: one more round */
  sonde_process_table_expire (f->table, 101);
  g_assert_cmpuint (sonde_process_table_n_processes (f->table), ==, 1);
  sonde_process_table_expire (f->table, 101);
  g_assert_cmpuint (sonde_process_table_n_processes (f->table), ==, 0);
  sonde_process_table_exit (f->table, 1, 200);
}

static void
test_pid_reuse (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);
  uint64_t generation = sonde_process_generation (p);
  int n_destroyed = 0;

  map (f, p, 0x1000, 0x2000, "a");
  sonde_process_set_flag (p, 1, true);
  sonde_process_set_start_ticks (p, 7);
  sonde_process_set_start_ticks (p, 7);
  g_assert_cmpuint (sonde_process_generation (p), ==, generation);
  sonde_process_set_unwind_data (p, &n_destroyed, count_destroyed);
  sonde_process_set_start_ticks (p, 8);
  g_assert_cmpint (n_destroyed, ==, 1);
  g_assert_cmpuint (sonde_process_generation (p), !=, generation);
  g_assert_false (sonde_process_flag (p, 1));
  assert_mappings (p, "");

  generation = sonde_process_generation (p);
  sonde_process_table_exit (f->table, 1, 100);
  p = sonde_process_table_fork (f->table, 9, 1, 101);
  g_assert_cmpuint (sonde_process_generation (p), !=, generation);
  g_assert_false (sonde_process_exited (p));

  generation = sonde_process_generation (p);
  sonde_process_table_exit (f->table, 1, 200);
  p = sonde_process_table_ensure (f->table, 1, 300);
  g_assert_true (sonde_process_exited (p));
  p = sonde_process_table_ensure (f->table, 1, INT64_C (5000000000));
  g_assert_false (sonde_process_exited (p));
  g_assert_cmpuint (sonde_process_generation (p), !=, generation);
}

static void
test_too_many_mappings (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);
  size_t n_mappings;

  for (uint64_t i = 1; i <= SONDE_PROCESS_MAX_MAPPINGS; i++)
    g_assert_cmpint (map (f, p, i << 16, (i << 16) + 0x4000, "a"), ==, 1);
  g_assert_cmpint (map (f, p, 0x1000, 0x2000, "b"), ==, -ENOSPC);
  g_assert_cmpint (snapshot (f, p, 0x1000, 0x2000, "b"), ==, -ENOSPC);
  g_assert_cmpint (map (f, p, 0x11000, 0x12000, "b"), ==, -ENOSPC);
  g_assert_cmpuint (sonde_process_table_n_refused (f->table), ==, 3);
  /* where b is now, a is no more */
  g_assert_null (sonde_process_find_mapping (f->table, p, 0x11800));
  g_assert_cmpstr (sonde_process_find_mapping (f->table, p, 0x10800)->path, ==, "a");
  /* one that takes the place of others fits */
  g_assert_cmpint (map (f, p, 0x20000, 0x40000, "c"), ==, 1);
  sonde_process_mappings (p, &n_mappings);
  g_assert_cmpuint (n_mappings, <=, SONDE_PROCESS_MAX_MAPPINGS);
}

static void
test_too_many_processes (Fixture *f, gconstpointer data)
{
  for (int32_t pid = 1; pid <= SONDE_PROCESS_TABLE_MAX_PROCESSES; pid++)
    map (f, sonde_process_table_ensure (f->table, pid, 0), 0x1000, 0x2000, "a");
  sonde_process_table_find (f->table, 1);
  sonde_process_table_exit (f->table, 77, 1);
  sonde_process_table_ensure (f->table, 100001, 0);
  sonde_process_table_ensure (f->table, 100002, 0);
  g_assert_cmpuint (sonde_process_table_n_processes (f->table), ==,
                    SONDE_PROCESS_TABLE_MAX_PROCESSES);
  g_assert_null (sonde_process_table_find (f->table, 77)); /* it was over */
  g_assert_null (sonde_process_table_find (f->table, 2));  /* idle longest */
  g_assert_nonnull (sonde_process_table_find (f->table, 1));
}

static void
test_too_many_bytes (Fixture *f, gconstpointer data)
{
  for (int32_t pid = 1; pid <= 1000; pid++)
    {
      SondeProcess *p = sonde_process_table_ensure (f->table, pid, 0);

      for (uint64_t i = 1; i <= SONDE_PROCESS_MAX_MAPPINGS; i++)
        g_assert_cmpint (map (f, p, i << 16, (i << 16) + 0x4000, "a"), ==, 1);
      g_assert_cmpuint (sonde_process_table_bytes (f->table), <,
                        SONDE_PROCESS_TABLE_MAX_BYTES + (1u << 20));
    }
  g_assert_cmpuint (sonde_process_table_n_processes (f->table), <, 1000);
  g_assert_nonnull (sonde_process_table_find (f->table, 1000));
}

static void
count_process (SondeProcess *process, void *data)
{
  *(int64_t *) data += sonde_process_pid (process);
}

static void
test_ten_thousand_lives (Fixture *f, gconstpointer data)
{
  SondeProcess *shell = sonde_process_table_ensure (f->table, 1, 0);
  size_t bytes;
  int64_t sum = 0;

  for (uint64_t i = 1; i <= 30; i++)
    map (f, shell, i << 16, (i << 16) + 0x4000, "/bin/sh");
  sonde_process_set_state (shell, SONDE_PROCESS_KNOWN);
  bytes = sonde_process_table_bytes (f->table);
  for (int32_t i = 0; i < 10000; i++)
    {
      int32_t pid = 2 + i % 3000;
      SondeProcess *p = sonde_process_table_fork (f->table, 1, pid, i * 1000);

      sonde_process_table_exec (f->table, pid, "tool", i * 1000 + 1);
      for (uint64_t n = 1; n <= 10; n++)
        map (f, p, n << 16, (n << 16) + 0x4000, "/bin/tool");
      sonde_process_table_exit (f->table, pid, i * 1000 + 2);
      if (i % 100 == 0)
        sonde_process_table_expire (f->table, i * 1000);
    }
  sonde_process_table_foreach (f->table, count_process, &sum);
  g_assert_cmpint (sum, >, 1);
  sonde_process_table_expire (f->table, INT64_MAX);
  sonde_process_table_expire (f->table, INT64_MAX);
  g_assert_cmpuint (sonde_process_table_n_processes (f->table), ==, 1);
  g_assert_cmpuint (sonde_process_table_bytes (f->table), ==, bytes);
}

static void
test_modules_turn_up (Fixture *f, gconstpointer data)
{
  SondeProcess *p = sonde_process_table_ensure (f->table, 1, 0);
  SondeProcess *child;
  SondeProcessMapping mapping = { .start = 0x1000, .end = 0x2000, .path = "x", .file.inode = 3 };
  uint64_t serial;

  sonde_process_add_mapping (f->table, p, &mapping, SONDE_MAP_FROM_EVENT);
  child = sonde_process_table_fork (f->table, 1, 2, 0);
  serial = sonde_process_resolve_modules (f->table, p);
  g_assert_null (sonde_process_find_mapping (f->table, p, 0x1000)->module);
  g_assert_cmpint (sonde_module_store_load (f->modules, &mapping.file,
                                            open ("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                   ==, 0);
  g_assert_cmpuint (sonde_process_resolve_modules (f->table, p), >, serial);
  serial = sonde_process_resolve_modules (f->table, p);
  g_assert_nonnull (sonde_process_find_mapping (f->table, p, 0x1000)->module);
  g_assert_nonnull (sonde_process_find_mapping (f->table, child, 0x1000)->module);
  g_assert_cmpuint (sonde_process_resolve_modules (f->table, p), ==, serial);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add ("/process-table/" path, Fixture, NULL, set_up, test, tear_down)
  ADD ("refuses-impossible-mappings", test_refuses_mappings);
  ADD ("refuses-mappings-over-the-cap-and-counts", test_too_many_mappings);
  ADD ("drops-the-longest-idle-process-over-the-cap", test_too_many_processes);
  ADD ("stays-under-its-cap-of-bytes", test_too_many_bytes);
  ADD ("cuts-what-a-new-mapping-overlaps", test_new_mappings_cut);
  ADD ("fills-gaps-from-a-snapshot", test_snapshots_fill);
  ADD ("replaces-a-stale-list-but-not-what-was-told-since", test_lost_records);
  ADD ("shares-mappings-after-fork-until-one-changes", test_fork_shares);
  ADD ("knows-nothing-of-the-child-of-a-stranger", test_fork_of_unknown);
  ADD ("starts-empty-after-exec", test_exec);
  ADD ("keeps-an-exited-process-while-it-is-wanted", test_exit);
  ADD ("starts-over-when-a-pid-is-reused", test_pid_reuse);
  ADD ("finds-modules-when-they-turn-up", test_modules_turn_up);
  ADD ("does-not-grow-with-ten-thousand-lives", test_ten_thousand_lives);
  return g_test_run ();
}
