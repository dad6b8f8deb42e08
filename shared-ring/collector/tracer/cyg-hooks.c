/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: stands in for the hooks that -finstrument-functions has functions call. */
#include "shared-ring/collector/tracer/tracer.h"

#define HOOK __attribute__ ((visibility ("default")))

HOOK void __cyg_profile_func_enter (void *function, void *site);
HOOK void __cyg_profile_func_exit (void *function, void *site);

/* Aside, so that the hook needs no frame. */
static __attribute__ ((noinline)) void
enter_first (uint64_t function, uint64_t sp, uint64_t site)
{
  SondeTrieWriter *writer = sonde_tracer_start_thread (sp);

  if (writer != NULL)
    sonde_trie_enter_within (writer, function, sp, site);
}

static __attribute__ ((noinline)) void
exit_behind_vfork (uint64_t function, uint64_t sp, uint64_t site)
{
  SondeTrieWriter *writer = sonde_tracer_end_vfork ();

  if (writer != NULL)
    sonde_trie_exit_within (writer, function, sp, site);
}

HOOK void
__cyg_profile_func_enter (void *function, void *site)
{
  const uint64_t sp = (uintptr_t) __builtin_dwarf_cfa ();
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (__builtin_expect (writer != NULL, 1))
    sonde_trie_enter_within (writer, (uintptr_t) function, sp, (uintptr_t) site);
  else if (__builtin_expect (sonde_tracer_is_on, 0))
    enter_first ((uintptr_t) function, sp, (uintptr_t) site);
}

HOOK void
__cyg_profile_func_exit (void *function, void *site)
{
  const uint64_t sp = (uintptr_t) __builtin_dwarf_cfa ();
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (__builtin_expect (writer != NULL, 1))
    sonde_trie_exit_within (writer, (uintptr_t) function, sp, (uintptr_t) site);
  else if (__builtin_expect (sonde_tracer_thread.parent != 0, 0))
    exit_behind_vfork ((uintptr_t) function, sp, (uintptr_t) site);
}
