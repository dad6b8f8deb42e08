/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All modules of a worker: found by id, shared by identity, dropped by age under a cap. */
#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "unwind/hash.h"
#include "unwind/module-private.h"

#define NS_PER_S        INT64_C (1000000000)
#define MIN_BACK_OFF_NS (1 * NS_PER_S)
#define MAX_BACK_OFF    6 /* doublings: about a minute */

/* What is known of one SondeFileId. */
typedef struct Entry Entry;
struct Entry
{
  SondeFileId id;
  SondeModuleState state;
  SondeModule *module; /* READY; borrowed from the store */
  int64_t retry_ns;    /* FAILED: when to ask again */
  unsigned n_failures;
  Entry *newer;
  Entry *older;
};

struct SondeModuleStore
{
  SondeHash entries;
  Entry *newest_entry;
  Entry *oldest_entry;
  SondeHash modules; /* by identity */
  SondeModule *newest;
  SondeModule *oldest;
  SondeModule *vdso;
  bool vdso_was_tried;
  size_t max_bytes;
  size_t n_bytes;
  size_t n_fds;
  size_t max_fds;
  uint32_t last_id;
  uint64_t serial;
  int64_t (*now_ns) (void);
};

static int64_t
monotonic_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * NS_PER_S + now.tv_nsec;
}

size_t
sonde_module_max_fds (void)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 > SONDE_MODULE_MAX_FDS)
    return SONDE_MODULE_MAX_FDS;
  return limit.rlim_cur / 4;
}

SondeModuleStore *
sonde_module_store_new (size_t max_bytes)
{
  SondeModuleStore *self = calloc (1, sizeof *self);

  if (self == NULL)
    return NULL;
  self->max_bytes = max_bytes;
  self->max_fds = sonde_module_max_fds ();
  self->serial = 1; /* a list that says 0 has not looked yet */
  self->now_ns = monotonic_ns;
  return self;
}

void
sonde_module_store_set_clock (SondeModuleStore *self, int64_t (*now_ns) (void))
{
  self->now_ns = now_ns;
}

uint64_t
sonde_module_store_serial (const SondeModuleStore *self)
{
  return self->serial;
}

/* The generation is left out of the hash, since it may be unknown on one side. */
static uint64_t
hash_id (const SondeFileId *id)
{
  uint64_t words[] = { id->inode, (uint64_t) id->dev_major << 32 | id->dev_minor };

  return sonde_hash_bytes (words, sizeof words);
}

static bool
entry_has_id (const void *item, const void *key)
{
  const Entry *entry = item;
  const SondeFileId *id = key;

  return entry->id.inode == id->inode && entry->id.dev_major == id->dev_major
         && entry->id.dev_minor == id->dev_minor
         && (entry->id.generation == id->generation || entry->id.generation == 0
             || id->generation == 0);
}

static uint64_t
hash_identity (const SondeModuleIdentity *identity)
{
  return sonde_hash_bytes (identity, sizeof *identity);
}

static bool
module_has_identity (const void *item, const void *key)
{
  const SondeModuleIdentity *a = &((const SondeModule *) item)->identity;
  const SondeModuleIdentity *b = key;

  return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes
         && a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

static void
unlink_entry (SondeModuleStore *self, Entry *entry)
{
  *(entry->newer != NULL ? &entry->newer->older : &self->newest_entry) = entry->older;
  *(entry->older != NULL ? &entry->older->newer : &self->oldest_entry) = entry->newer;
}

static void
link_entry (SondeModuleStore *self, Entry *entry)
{
  entry->newer = NULL;
  entry->older = self->newest_entry;
  *(entry->older != NULL ? &entry->older->newer : &self->oldest_entry) = entry;
  self->newest_entry = entry;
}

static void
drop_entry (SondeModuleStore *self, Entry *entry)
{
  unlink_entry (self, entry);
  sonde_hash_remove (&self->entries, hash_id (&entry->id), entry);
  free (entry);
}

static void
unlink_module (SondeModuleStore *self, SondeModule *module)
{
  *(module->newer != NULL ? &module->newer->older : &self->newest) = module->older;
  *(module->older != NULL ? &module->older->newer : &self->oldest) = module->newer;
}

static void
link_module (SondeModuleStore *self, SondeModule *module)
{
  module->newer = NULL;
  module->older = self->newest;
  *(module->older != NULL ? &module->older->newer : &self->oldest) = module;
  self->newest = module;
}

static void
touch_module (SondeModuleStore *self, SondeModule *module)
{
  unlink_module (self, module);
  link_module (self, module);
}

void
sonde_module_store_set_idle (SondeModuleStore *self, SondeModule *module)
{
  if (module != self->vdso)
    touch_module (self, module);
}

/* The ids that led to it are forgotten as well, so that the next one who wants it asks again. */
static void
evict (SondeModuleStore *self, SondeModule *module)
{
  Entry *next;

  for (Entry *entry = self->newest_entry; entry != NULL; entry = next)
    {
      next = entry->older;
      if (entry->module == module)
        drop_entry (self, entry);
    }
  unlink_module (self, module);
  sonde_hash_remove (&self->modules, hash_identity (&module->identity), module);
  self->n_bytes -= module->n_bytes;
  if (module->fd >= 0)
    self->n_fds--;
  module->store = NULL;
  sonde_module_unref (module);
}

/* Drops modules that nobody holds, oldest first. False if that is not enough. */
static bool
make_room (SondeModuleStore *self, size_t n_bytes)
{
  SondeModule *newer;

  for (SondeModule *module = self->oldest; module != NULL; module = newer)
    {
      if (n_bytes <= self->max_bytes && self->n_bytes <= self->max_bytes - n_bytes
          && self->modules.n_items < SONDE_MODULE_STORE_MAX_MODULES)
        return true;
      newer = module->newer;
      if (module->n_refs == 1)
        evict (self, module);
    }
  return n_bytes <= self->max_bytes && self->n_bytes <= self->max_bytes - n_bytes
         && self->modules.n_items < SONDE_MODULE_STORE_MAX_MODULES;
}

static void
limit_fds (SondeModuleStore *self)
{
  SondeModule *module = self->oldest;

  for (; self->n_fds > self->max_fds && module != NULL; module = module->newer)
    {
      if (module->fd < 0)
        continue;
      close (module->fd);
      module->fd = -1;
      self->n_fds--;
    }
}

void
sonde_module_store_free (SondeModuleStore *self)
{
  if (self == NULL)
    return;
  while (self->newest_entry != NULL)
    drop_entry (self, self->newest_entry);
  while (self->oldest != NULL)
    evict (self, self->oldest);
  if (self->vdso != NULL)
    self->vdso->store = NULL;
  sonde_module_unref (self->vdso);
  sonde_hash_clear (&self->entries);
  sonde_hash_clear (&self->modules);
  free (self);
}

static Entry *
find_entry (SondeModuleStore *self, const SondeFileId *id)
{
  Entry *entry = sonde_hash_find (&self->entries, hash_id (id), entry_has_id, id);

  if (entry == NULL)
    return NULL;
  if (entry->id.generation == 0)
    entry->id.generation = id->generation;
  unlink_entry (self, entry);
  link_entry (self, entry);
  return entry;
}

static Entry *
ensure_entry (SondeModuleStore *self, const SondeFileId *id)
{
  Entry *entry = find_entry (self, id);

  if (entry != NULL)
    return entry;
  if (self->entries.n_items >= SONDE_MODULE_STORE_MAX_MODULES)
    drop_entry (self, self->oldest_entry);
  entry = calloc (1, sizeof *entry);
  if (entry == NULL)
    return NULL;
  entry->id = *id;
  if (sonde_hash_add (&self->entries, hash_id (id), entry) < 0)
    {
      free (entry);
      return NULL;
    }
  link_entry (self, entry);
  return entry;
}

SondeModuleState
sonde_module_store_lookup (SondeModuleStore *self, const SondeFileId *id, SondeModule **module)
{
  Entry *entry = find_entry (self, id);

  if (entry == NULL)
    return SONDE_MODULE_UNKNOWN;
  if (entry->state == SONDE_MODULE_READY)
    {
      touch_module (self, entry->module);
      *module = entry->module;
    }
  else if (entry->state == SONDE_MODULE_FAILED && self->now_ns () >= entry->retry_ns)
    return SONDE_MODULE_UNKNOWN;
  return entry->state;
}

void
sonde_module_store_set_asked (SondeModuleStore *self, const SondeFileId *id)
{
  Entry *entry = ensure_entry (self, id);

  /* Without memory for it, the file is asked for again, which does no harm. */
  if (entry != NULL && entry->state != SONDE_MODULE_READY)
    entry->state = SONDE_MODULE_ASKED;
}

static void
set_failed (SondeModuleStore *self, Entry *entry)
{
  unsigned doublings = entry->n_failures < MAX_BACK_OFF ? entry->n_failures : MAX_BACK_OFF;

  entry->state = SONDE_MODULE_FAILED;
  entry->module = NULL;
  entry->retry_ns = self->now_ns () + (MIN_BACK_OFF_NS << doublings);
  if (entry->n_failures < MAX_BACK_OFF)
    entry->n_failures++;
}

void
sonde_module_store_set_unknown (SondeModuleStore *self, const SondeFileId *id)
{
  Entry *entry = find_entry (self, id);

  if (entry != NULL && entry->state == SONDE_MODULE_ASKED)
    entry->state = SONDE_MODULE_UNKNOWN;
}

void
sonde_module_store_set_failed (SondeModuleStore *self, const SondeFileId *id, int error)
{
  Entry *entry = ensure_entry (self, id);

  if (entry != NULL && entry->state != SONDE_MODULE_READY)
    set_failed (self, entry);
}

static int
identify (int fd, SondeModuleIdentity *identity)
{
  struct stat st;

  if (fstat (fd, &st) < 0)
    return -errno;
  if (!S_ISREG (st.st_mode))
    return -EINVAL;
  *identity = (SondeModuleIdentity){
    .device = st.st_dev,
    .inode = st.st_ino,
    .size_bytes = (uint64_t) st.st_size,
    .modified_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
    .changed_ns = st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec,
  };
  return 0;
}

static int
add_module (SondeModuleStore *self, SondeModule *module)
{
  if (!make_room (self, module->n_bytes))
    return -ENOSPC;
  if (sonde_hash_add (&self->modules, hash_identity (&module->identity), module) < 0)
    return -ENOMEM;
  module->store = self;
  module->id = ++self->last_id;
  link_module (self, module);
  self->n_bytes += module->n_bytes;
  self->n_fds++;
  limit_fds (self);
  return 0;
}

/* Finds or makes the module of @fd, which it consumes. */
static int
load_file (SondeModuleStore *self, int fd, SondeModule **module)
{
  SondeModuleIdentity identity;
  int r = identify (fd, &identity);

  if (r == 0)
    {
      *module = sonde_hash_find (&self->modules, hash_identity (&identity), module_has_identity,
                                 &identity);
      if (*module != NULL)
        {
          close (fd);
          return 0;
        }
      r = sonde_module_new (fd, NULL, identity.size_bytes, module);
    }
  if (r < 0)
    {
      close (fd);
      return r;
    }
  (*module)->identity = identity;
  r = add_module (self, *module);
  if (r < 0)
    sonde_module_free (*module);
  return r;
}

int
sonde_module_store_load (SondeModuleStore *self, const SondeFileId *id, int fd)
{
  SondeModule *module = NULL;
  Entry *entry;
  int r = load_file (self, fd, &module);

  /* Made only now, as making room may have dropped entries. */
  entry = ensure_entry (self, id);
  if (entry == NULL)
    return -ENOMEM;
  if (r < 0)
    {
      set_failed (self, entry);
      return r;
    }
  entry->state = SONDE_MODULE_READY;
  entry->module = module;
  entry->n_failures = 0;
  self->serial++;
  return 0;
}

/* For those who read its names: a copy, as the kernel maps it without a file. */
static int
copy_vdso (const uint8_t *memory, size_t size_bytes)
{
  int fd = memfd_create ("vdso", MFD_CLOEXEC);

  if (fd >= 0 && write (fd, memory, size_bytes) != (ssize_t) size_bytes)
    {
      close (fd);
      fd = -1;
    }
  return fd;
}

/* The vdso has no size of its own: its section headers come last, and its segments hold the rest.
 */
static uint64_t
measure_vdso (const uint8_t *memory)
{
  const Elf64_Ehdr *header = (const void *) memory;
  uint64_t size = header->e_shoff + (uint64_t) header->e_shnum * header->e_shentsize;

  for (size_t i = 0; i < header->e_phnum; i++)
    {
      const Elf64_Phdr *segment = (const void *) (memory + header->e_phoff + i * sizeof *segment);

      if (segment->p_type == PT_LOAD && segment->p_offset + segment->p_filesz > size)
        size = segment->p_offset + segment->p_filesz;
    }
  return size;
}

SondeModule *
sonde_module_store_vdso (SondeModuleStore *self)
{
  const uint8_t *memory = (const void *) getauxval (AT_SYSINFO_EHDR);
  uint64_t size_bytes;
  int fd;

  if (self->vdso_was_tried || memory == NULL)
    return self->vdso;
  self->vdso_was_tried = true;
  size_bytes = measure_vdso (memory);
  fd = copy_vdso (memory, size_bytes);
  if (sonde_module_new (fd, memory, size_bytes, &self->vdso) == 0)
    {
      self->vdso->store = self;
      self->vdso->id = ++self->last_id;
      self->n_bytes += self->vdso->n_bytes;
    }
  else if (fd >= 0)
    {
      close (fd);
    }
  return self->vdso;
}

size_t
sonde_module_store_bytes (const SondeModuleStore *self)
{
  return self->n_bytes;
}

size_t
sonde_module_store_n_modules (const SondeModuleStore *self)
{
  return self->modules.n_items;
}
