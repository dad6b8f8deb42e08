/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module store and files made for it. */
#pragma once

#include <fcntl.h>
#include <glib.h>

#include "tests/lib/fake-elf.h"
#include "unwind/module-private.h"

/* Real files to read. Only x86-64 has one linked by gold, or a Python: in qemu these paths lead to
 * the files of the machine beneath, except where those of aarch64 were unpacked. */
#if defined(__x86_64__)
#define LIBC_PATH   "/lib/x86_64-linux-gnu/libc.so.6"
#define CXX_PATH    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
#define GOLD_PATH   "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1"
#define PYTHON_PATH "/usr/bin/python3.11"
#elif defined(__aarch64__)
#define LIBC_PATH "/lib/aarch64-linux-gnu/libc.so.6"
#define CXX_PATH  "/usr/lib/aarch64-linux-gnu/libstdc++.so.6"
#endif

typedef struct
{
  SondeModuleStore *store;
  GByteArray *cfi;
  uint64_t last_inode;
} Fixture;

G_GNUC_UNUSED static void
set_up (Fixture *f, gconstpointer data)
{
  f->store = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  f->cfi = g_byte_array_new ();
}

G_GNUC_UNUSED static void
tear_down (Fixture *f, gconstpointer data)
{
  g_byte_array_unref (f->cfi);
  sonde_module_store_free (f->store);
}

/* Loads @fd under an id of its own; NULL and @error if it was refused. */
G_GNUC_UNUSED static SondeUnwindModule *
load_fd (Fixture *f, int fd, int *error)
{
  SondeFileId id = { .inode = ++f->last_inode };
  SondeUnwindModule *module = NULL;
  SondeModuleState state;

  *error = sonde_module_store_load (f->store, &id, fd);
  state = sonde_module_store_lookup (f->store, &id, &module);
  g_assert_cmpint (state, ==, *error == 0 ? SONDE_MODULE_READY : SONDE_MODULE_FAILED);
  return module;
}

G_GNUC_UNUSED static SondeUnwindModule *
load_bytes (Fixture *f, const void *bytes, gsize size, int *error)
{
  return load_fd (f, fake_elf_open (bytes, size), error);
}

G_GNUC_UNUSED static SondeUnwindModule *
load_path (Fixture *f, const char *path)
{
  int error;
  SondeUnwindModule *module = load_fd (f, open (path, O_RDONLY | O_CLOEXEC), &error);

  g_assert_cmpint (error, ==, 0);
  return module;
}

/* Three functions of 0x100 bytes each from FAKE_ELF_TEXT on; the rows in ascending order. */
G_GNUC_UNUSED static void
add_three_functions (Fixture *f, guint64 rows[6])
{
  static const guint8 rules[] = { PLAIN_RULES };
  guint cie = fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);

  for (guint i = 0; i < 3; i++)
    {
      guint64 begin = FAKE_ELF_TEXT + i * 0x100;

      rows[2 * i] = begin;
      rows[2 * i + 1] = FAKE_ELF_CFI_OFFSET + fake_elf_add_fde (f->cfi, cie, begin, 0x100, NULL, 0);
    }
}

G_GNUC_UNUSED static void
assert_has_three_functions (const SondeUnwindModule *module)
{
  uint64_t begin;
  uint64_t end;

  for (uint64_t i = 0; i < 3; i++)
    {
      uint64_t function = FAKE_ELF_TEXT + i * 0x100;

      g_assert_true (sonde_module_find_function (module, function, &begin, &end));
      g_assert_cmphex (begin, ==, function);
      g_assert_cmphex (end, ==, function + 0x100);
      g_assert_true (sonde_module_find_function (module, function + 0xff, &begin, &end));
      g_assert_cmphex (begin, ==, function);
    }
  g_assert_false (sonde_module_find_function (module, FAKE_ELF_TEXT - 1, &begin, &end));
  g_assert_false (sonde_module_find_function (module, FAKE_ELF_TEXT + 0x300, &begin, &end));
}
