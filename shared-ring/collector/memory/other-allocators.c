/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/memory/other-allocators.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shared-ring/fork-guard.h"
#include "shared-ring/ring-atomic.h"

#define MAX_DEEP       16 /* libraries that are named */
#define MAX_OBJECTS    1024
#define MAX_NAME_BYTES 64
#define MAX_LINE_BYTES 256

/* operator new (unsigned long), or of unsigned int */
#define OPERATOR_NEW (sizeof (size_t) == 8 ? "_Znwm" : "_Znwj")

static struct
{
  uint32_t n_begun; /* above MAX_DEEP: more than are named */
  struct
  {
    uint32_t is_written;
    char name[MAX_NAME_BYTES];
  } all[MAX_DEEP];
} deep;

typedef enum
{
  NOT_LOOKED,
  ALL_OURS,
  OTHER_NEW,
  OTHER_MALLOC,
} Linked;

/* Of what was loaded with the program; nothing that is loaded later stands before it. */
static struct
{
  uint32_t state; /* Linked */
  char name[MAX_NAME_BYTES];
} linked;

static uint32_t told_generation; /* of the process that has said so */
static uint32_t n_deep_told;     /* by the process */

/* "libjemalloc.so.2" */
static const char *
last_part (const char *path)
{
  const char *slash = path != NULL ? strrchr (path, '/') : NULL;

  return slash != NULL ? slash + 1 : path != NULL ? path : "";
}

void
sonde_other_allocators_note_deep (const char *file)
{
  uint32_t number = __atomic_fetch_add (&deep.n_begun, 1, __ATOMIC_RELAXED);

  if (number >= MAX_DEEP)
    {
      sonde_ring_store_relaxed (&deep.n_begun, MAX_DEEP + 1);
      return;
    }
  snprintf (deep.all[number].name, sizeof deep.all[number].name, "%s", last_part (file));
  /* Pairs with the acquire in tell_deep(). */
  sonde_ring_store_release (&deep.all[number].is_written, 1);
}

/* The object that an address is in; NULL: none. */
static const void *
find_object (const void *address, Dl_info *info)
{
  return address != NULL && dladdr (address, info) != 0 ? info->dli_fbase : NULL;
}

/* In which object behind the program the first definition is; (nullable). What was linked has no
 * search list of its own, without which dlsym() crashes, before dlopen() was called for it. */
static const void *
find_definition (const char *name, Dl_info *info)
{
  const struct link_map *map = _r_debug.r_map;
  void *defining = NULL;

  for (unsigned n = 0; map != NULL && defining != map && n < MAX_OBJECTS; n++)
    {
      void *handle;
      const void *address;

      map = map->l_next;
      handle = map != NULL ? dlopen (map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
      if (handle == NULL)
        continue;
      address = dlsym (handle, name);
      /* What it needs is searched, too. */
      if (address == NULL || dladdr1 (address, info, &defining, RTLD_DL_LINKMAP) == 0)
        defining = NULL;
      dlclose (handle);
    }
  return map != NULL ? info->dli_fbase : NULL;
}

/* What the program calls by that name; (nullable). A program at a fixed place has an entry of its
 * own for a function whose address it takes, which is no definition, but what dlsym() finds first.
 */
static const void *
find_object_of (const char *name, Dl_info *info)
{
  const void *address = dlsym (RTLD_DEFAULT, name);
  void *symbol = NULL;

  if (address == NULL || dladdr1 (address, info, &symbol, RTLD_DL_SYMENT) == 0)
    return NULL;
  if (symbol != NULL && ((const ElfW (Sym) *) symbol)->st_shndx == SHN_UNDEF)
    return find_definition (name, info);
  return info->dli_fbase;
}

static void
note_linked (Linked state, const Dl_info *info)
{
  if (info != NULL)
    snprintf (linked.name, sizeof linked.name, "%s", last_part (info->dli_fname));
  /* Pairs with the acquire in sonde_other_allocators_tell(). */
  sonde_ring_store_release (&linked.state, (uint32_t) state);
}

bool
sonde_other_allocators_look (void)
{
  Dl_info first, next, new, own;
  const void *object = find_object_of ("malloc", &first);

  if (object != NULL && object != find_object (&deep, &own))
    {
      note_linked (OTHER_MALLOC, &first);
      return true;
    }
  object = find_object (dlsym (RTLD_NEXT, "malloc"), &next);
  /* libstdc++'s calls malloc(). */
  if (object != NULL && object == find_object_of (OPERATOR_NEW, &new))
    note_linked (OTHER_NEW, &new);
  else
    note_linked (ALL_OURS, NULL);
  /* The program shall not find our failure, nor its text a block. */
  dlerror ();
  dlerror ();
  return false;
}

/* Returns: false if it could not be said now */
static bool __attribute__ ((format (printf, 2, 3)))
say (SondeThreadRing *ring, const char *format, ...)
{
  const SondeFrameOrigin origin = { .time_ns = sonde_ring_now_ns (), .cpu = -1, .pid = ring->pid };
  char line[MAX_LINE_BYTES];
  va_list args;

  va_start (args, format);
  vsnprintf (line, sizeof line, format, args);
  va_end (args);
  return sonde_thread_ring_check_wanted (ring) == 0
         && sonde_writer_add_log (sonde_thread_ring_frames (ring), &origin, 16 /* warning */,
                                  SONDE_MEMORY_LOG_DOMAIN, line)
                == 0
         && sonde_thread_ring_commit (ring) == 0;
}

static bool
tell_linked (SondeThreadRing *ring, Linked state)
{
  if (state == OTHER_MALLOC)
    return say (ring,
                "malloc() is that of %s, which comes before libsonde-memory.so: no block of it is "
                "recorded",
                linked.name);
  return state != OTHER_NEW
         || say (ring,
                 "%s has an operator new of its own: blocks of new are not recorded, and their "
                 "ends, if they are, count as inherited",
                 linked.name);
}

static void
tell_deep (SondeThreadRing *ring)
{
  uint32_t n_begun = sonde_ring_load_relaxed (&deep.n_begun);
  uint32_t n_told = sonde_ring_load_relaxed (&n_deep_told);

  while (n_told < n_begun && n_told <= MAX_DEEP)
    {
      /* Pairs with the release in sonde_other_allocators_note_deep(). */
      if (n_told < MAX_DEEP && !sonde_ring_load_acquire (&deep.all[n_told].is_written))
        return;
      if (!say (ring,
                "%s was loaded with RTLD_DEEPBIND: what it allocates is not recorded, nor what it "
                "frees",
                n_told < MAX_DEEP ? deep.all[n_told].name : "Another library"))
        return;
      sonde_ring_store_relaxed (&n_deep_told, ++n_told);
    }
}

void
sonde_other_allocators_tell (SondeThreadRing *ring)
{
  uint32_t generation = sonde_fork_guard_generation ();
  /* Pairs with the release in note_linked(): the name is written. */
  uint32_t state = sonde_ring_load_acquire (&linked.state);

  if (state == NOT_LOOKED)
    return;
  if (sonde_ring_load_relaxed (&told_generation) != generation)
    {
      sonde_ring_store_relaxed (&told_generation, generation);
      sonde_ring_store_relaxed (&n_deep_told, 0);
      if (!tell_linked (ring, state))
        sonde_ring_store_relaxed (&told_generation, 0); /* paused; at the next chance */
    }
  tell_deep (ring);
}
