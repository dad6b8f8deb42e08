/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One module for one file, asked for again only after a while, and never too many of them. */
#include <errno.h>
#include <libelf.h>
#include <sys/resource.h>

#include "tests/lib/module-fixture.h"

static void
test_one_module_for_one_file (Fixture *f, gconstpointer data)
{
  SondeModule *a = load_path (f, "/proc/self/exe");
  SondeModule *b = load_path (f, "/proc/self/exe");

  g_assert_true (a == b);
  g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 1);
}

static void
test_generations (Fixture *f, gconstpointer data)
{
  SondeFileId unknown = { .inode = 5 };
  SondeFileId first = { .inode = 5, .generation = 1 };
  SondeFileId second = { .inode = 5, .generation = 2 };
  SondeModule *module;

  sonde_module_store_set_asked (f->store, &unknown);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &first, &module), ==, SONDE_MODULE_ASKED);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &second, &module), ==,
                   SONDE_MODULE_UNKNOWN);
}

static int64_t fake_now_ns;

static int64_t
fake_clock (void)
{
  return fake_now_ns;
}

static void
test_back_off (Fixture *f, gconstpointer data)
{
  SondeFileId id = { .inode = 5 };
  SondeModule *module;
  int64_t wait_ns = 1000000000;

  sonde_module_store_set_clock (f->store, fake_clock);
  for (guint i = 0; i < 12; i++)
    {
      g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==,
                       SONDE_MODULE_UNKNOWN);
      sonde_module_store_set_asked (f->store, &id);
      g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_ASKED);
      sonde_module_store_set_failed (f->store, &id, ENOENT);
      fake_now_ns += wait_ns - 1;
      g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_FAILED);
      fake_now_ns += 1;
      if (i < 6)
        wait_ns *= 2;
    }
}

static void
test_unknown_again (Fixture *f, gconstpointer data)
{
  SondeFileId id = { .inode = 5 };
  SondeModule *module;

  sonde_module_store_set_asked (f->store, &id);
  sonde_module_store_set_unknown (f->store, &id);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_UNKNOWN);
  sonde_module_store_set_failed (f->store, &id, EACCES);
  sonde_module_store_set_unknown (f->store, &id);
  g_assert_cmpint (sonde_module_store_lookup (f->store, &id, &module), ==, SONDE_MODULE_FAILED);
}

static void
test_eviction (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  guint64 rows[6];
  SondeModule *held = NULL;
  size_t one;
  int error;

  add_three_functions (f, rows);
  file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  load_bytes (f, file->data, file->len, &error);
  one = sonde_module_store_bytes (f->store);
  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (4 * one);

  held = sonde_module_ref (load_bytes (f, file->data, file->len, &error));
  for (guint i = 0; i < 10; i++)
    {
      g_assert_nonnull (load_bytes (f, file->data, file->len, &error));
      g_assert_cmpuint (sonde_module_store_bytes (f->store), <=, 4 * one);
    }
  g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 4);
  assert_has_three_functions (held);
  sonde_module_unref (held);
}

static void
test_full_of_modules_in_use (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  SondeModule *held;
  int error;

  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (sizeof (SondeModule) + 100);
  held = sonde_module_ref (load_bytes (f, file->data, file->len, &error));
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, -ENOSPC);
  sonde_module_unref (held);
  g_assert_nonnull (load_bytes (f, file->data, file->len, &error));
}

static void
test_open_files (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  const guint max_fds = 16, n_files = 40;
  g_autofree SondeModule **modules = g_new (SondeModule *, n_files);
  struct rlimit before, limit;
  int error;

  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &before), ==, 0);
  limit = before;
  limit.rlim_cur = 4 * max_fds;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  sonde_module_store_free (f->store);
  f->store = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  for (guint i = 0; i < n_files; i++)
    {
      modules[i] = load_bytes (f, file->data, file->len, &error);
      g_assert_nonnull (modules[i]);
    }
  for (guint i = 0; i < n_files; i++)
    g_assert_cmpint (sonde_module_fd (modules[i]) >= 0, ==, i >= n_files - max_fds);
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &before), ==, 0);
}

#define ADD(path, test) g_test_add ("/module-store/" path, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  elf_version (EV_CURRENT);
  g_test_init (&argc, &argv, NULL);
  ADD ("shares-one-module-between-ids-of-one-file", test_one_module_for_one_file);
  ADD ("tells-generations-apart-where-known", test_generations);
  ADD ("asks-again-later-and-later", test_back_off);
  ADD ("asks-again-at-once-if-the-answer-said-nothing", test_unknown_again);
  ADD ("drops-the-oldest-unused-under-the-cap", test_eviction);
  ADD ("keeps-the-files-of-the-newest-open", test_open_files);
  ADD ("is-full-when-all-is-in-use", test_full_of_modules_in_use);
  return g_test_run ();
}
