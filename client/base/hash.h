/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The hash of the tables whose keys come from captures. */
#pragma once

#include <glib.h>

/* At random for each table: nobody can make a capture whose keys collide. */
static inline guint64
sonde_hash_seed (void)
{
  return (guint64) g_random_int () << 32 | g_random_int ();
}

/* The finaliser of MurmurHash3: every bit of the key reaches the low bits. */
static inline guint64
sonde_hash (guint64 seed, guint64 key)
{
  key ^= seed;
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdull;
  key ^= key >> 33;
  key *= 0xc4ceb9fe1a85ec53ull;
  key ^= key >> 33;
  return key;
}
