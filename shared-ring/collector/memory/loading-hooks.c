/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-memory: notes libraries that are loaded past it. */
#include <dlfcn.h>
#include <string.h>

#include "shared-ring/collector/memory/heap-recorder.h"
#include "shared-ring/collector/memory/other-allocators.h"
#include "shared-ring/ring-atomic.h"

#define HOOK __attribute__ ((visibility ("default")))

typedef void *(*Open) (const char *file, int flags);

static Open real_open;

static Open
find_real (void)
{
  Open found;
  void *symbol = dlsym (RTLD_NEXT, "dlopen");

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&found, &symbol, sizeof symbol);
  sonde_ring_store_relaxed (&real_open, found);
  return found;
}

/* The real one looks at who calls it, for folders and namespaces, so this has to end in a jump. */
HOOK void *
dlopen (const char *file, int flags)
{
  Open open = sonde_ring_load_relaxed (&real_open);

  if (__builtin_expect (open == NULL, 0))
    open = find_real ();
  if (__builtin_expect ((flags & RTLD_DEEPBIND) != 0, 0) && file != NULL
      && (flags & RTLD_NOLOAD) == 0)
    {
      sonde_other_allocators_note_deep (file);
      sonde_heap_recorder_tell_others ();
    }
  return open (file, flags);
}
