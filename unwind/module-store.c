/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds all modules of a worker by id, shares them by identity, drops them by age under a cap. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "unwind/item-table.h"
#include "unwind/module-private.h"

#define NS_PER_S        INT64_C (1000000000)
#define MIN_BACK_OFF_NS (1 * NS_PER_S)
#define MAX_BACK_OFF    6 /* doublings: about a minute */

enum
{
  MAX_READING = 64,    /* files: their headers and descriptors are kept meanwhile */
  WORK_PER_MODULE = 64 /* besides what it says itself */
};

/* What is known of one SondeFileId. */
typedef struct SondeModuleEntry Entry;
struct SondeModuleEntry
{
  SondeFileId id;
  SondeModuleState state;
  SondeUnwindModule *module; /* READY, READING; borrowed from the store */
  int64_t retry_ns;          /* FAILED: when to ask again */
  int error;                 /* FAILED: negative errno */
  unsigned n_failures;
  Entry *next_of_module;
  Entry *newer;
  Entry *older;
};

struct SondeModuleStore
{
  SondeItemTable entries;
  Entry *newest_entry;
  Entry *oldest_entry;
  SondeItemTable modules; /* by identity */
  SondeUnwindModule *newest;
  SondeUnwindModule *oldest;
  SondeUnwindModule *next_read; /* linked by newer; owned, nobody else has them yet */
  SondeUnwindModule *last_read;
  size_t n_reading;
  SondeUnwindModule *trash; /* linked by newer; nobody has them any more */
  SondeUnwindModule *vdso;
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

/* The generation is left out, since it may be unknown on one side. */
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

static bool
module_has_identity (const void *item, const void *key)
{
  const SondeModuleIdentity *a = &((const SondeUnwindModule *) item)->identity;
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
set_module (Entry *entry, SondeUnwindModule *module)
{
  if (entry->module == module)
    return;
  if (entry->module != NULL)
    {
      Entry **link = &entry->module->entries;

      while (*link != entry)
        link = &(*link)->next_of_module;
      *link = entry->next_of_module;
    }
  entry->module = module;
  if (module != NULL)
    {
      entry->next_of_module = module->entries;
      module->entries = entry;
    }
}

static void
drop_entry (SondeModuleStore *self, Entry *entry)
{
  set_module (entry, NULL);
  unlink_entry (self, entry);
  sonde_item_table_remove (&self->entries, hash_id (&entry->id), entry);
  free (entry);
}

static void
unlink_module (SondeModuleStore *self, SondeUnwindModule *module)
{
  *(module->newer != NULL ? &module->newer->older : &self->newest) = module->older;
  *(module->older != NULL ? &module->older->newer : &self->oldest) = module->newer;
}

static void
link_module (SondeModuleStore *self, SondeUnwindModule *module)
{
  module->newer = NULL;
  module->older = self->newest;
  *(module->older != NULL ? &module->older->newer : &self->oldest) = module;
  self->newest = module;
}

void
sonde_module_store_set_idle (SondeModuleStore *self, SondeUnwindModule *module)
{
  if (module == self->vdso)
    return;
  unlink_module (self, module);
  link_module (self, module);
}

/* The ids that led to it are forgotten as well, so that the next one who wants it asks again. It is
 * freed later if nobody holds it, since that may take long. */
static void
evict (SondeModuleStore *self, SondeUnwindModule *module)
{
  while (module->entries != NULL)
    drop_entry (self, module->entries);
  unlink_module (self, module);
  sonde_item_table_remove (&self->modules,
                           sonde_hash_bytes (&module->identity, sizeof module->identity), module);
  self->n_bytes -= module->n_bytes;
  if (module->fd >= 0)
    self->n_fds--;
  module->store = NULL;
  if (module->n_refs > 1)
    {
      sonde_module_unref (module);
      return;
    }
  module->newer = self->trash;
  self->trash = module;
}

/* False if there is more of it. */
static bool
free_trash (SondeModuleStore *self, uint32_t *work)
{
  while (self->trash != NULL && *work > 0)
    {
      SondeUnwindModule *module = self->trash;

      if (!sonde_module_discard (module, work))
        return false;
      self->trash = module->newer;
      sonde_module_free (module);
      *work -= *work < WORK_PER_MODULE ? *work : WORK_PER_MODULE;
    }
  return self->trash == NULL;
}

static bool
has_room (const SondeModuleStore *self, size_t n_bytes)
{
  return n_bytes <= self->max_bytes && self->n_bytes <= self->max_bytes - n_bytes;
}

/* Drops modules that nobody holds, oldest first. If that is not enough, Go's tables go: they are
 * many times larger than other unwind data, so a few programs of Go could keep all others out. The
 * one that is new goes without first, as those that are held were read at some cost. False if that
 * is not enough either. */
static bool
make_room (SondeModuleStore *self, SondeUnwindModule *added)
{
  SondeUnwindModule *newer;

  for (SondeUnwindModule *module = self->oldest; module != NULL; module = newer)
    {
      if (has_room (self, added->n_bytes) && self->modules.n_used < SONDE_MODULE_STORE_MAX_MODULES)
        return true;
      newer = module->newer;
      if (module->n_refs == 1)
        evict (self, module);
    }
  if (self->modules.n_used >= SONDE_MODULE_STORE_MAX_MODULES)
    return false;
  if (!has_room (self, added->n_bytes))
    sonde_module_drop_go_functions (added);
  for (SondeUnwindModule *module = self->oldest; module != NULL && !has_room (self, added->n_bytes);
       module = module->newer)
    self->n_bytes -= sonde_module_drop_go_functions (module);
  return has_room (self, added->n_bytes);
}

static SondeUnwindModule *
dequeue (SondeModuleStore *self)
{
  SondeUnwindModule *module = self->next_read;

  self->next_read = module->newer;
  module->newer = NULL;
  self->n_reading--;
  return module;
}

void
sonde_module_store_free (SondeModuleStore *self)
{
  if (self == NULL)
    return;
  while (self->newest_entry != NULL)
    drop_entry (self, self->newest_entry);
  while (self->next_read != NULL)
    sonde_module_free (dequeue (self));
  while (self->oldest != NULL)
    evict (self, self->oldest);
  while (self->trash != NULL)
    {
      uint32_t work = UINT32_MAX;

      free_trash (self, &work);
    }
  if (self->vdso != NULL)
    self->vdso->store = NULL;
  sonde_module_unref (self->vdso);
  sonde_table_clear (&self->entries);
  sonde_table_clear (&self->modules);
  free (self);
}

static Entry *
find_entry (SondeModuleStore *self, const SondeFileId *id)
{
  Entry *entry = sonde_item_table_find (&self->entries, hash_id (id), entry_has_id, id);

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
  if (self->entries.n_used >= SONDE_MODULE_STORE_MAX_MODULES)
    drop_entry (self, self->oldest_entry);
  entry = calloc (1, sizeof *entry);
  if (entry == NULL)
    return NULL;
  entry->id = *id;
  if (sonde_item_table_add (&self->entries, hash_id (id), entry) < 0)
    {
      free (entry);
      return NULL;
    }
  link_entry (self, entry);
  return entry;
}

SondeModuleState
sonde_module_store_lookup (SondeModuleStore *self,
                           const SondeFileId *id,
                           SondeUnwindModule **module)
{
  Entry *entry = find_entry (self, id);

  if (entry == NULL)
    return SONDE_MODULE_UNKNOWN;
  if (entry->state == SONDE_MODULE_READY)
    {
      unlink_module (self, entry->module);
      link_module (self, entry->module);
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
  if (entry != NULL && entry->state != SONDE_MODULE_READY && entry->state != SONDE_MODULE_READING)
    entry->state = SONDE_MODULE_ASKED;
}

static void
set_failed (SondeModuleStore *self, Entry *entry, int error)
{
  unsigned doublings = entry->n_failures < MAX_BACK_OFF ? entry->n_failures : MAX_BACK_OFF;

  entry->state = SONDE_MODULE_FAILED;
  set_module (entry, NULL);
  entry->error = error;
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

  if (entry != NULL && entry->state != SONDE_MODULE_READY && entry->state != SONDE_MODULE_READING)
    set_failed (self, entry, -error);
}

static int
add_module (SondeModuleStore *self, SondeUnwindModule *module)
{
  if (!make_room (self, module))
    return -ENOSPC;
  if (sonde_item_table_add (&self->modules,
                            sonde_hash_bytes (&module->identity, sizeof module->identity), module)
      < 0)
    return -ENOMEM;
  module->store = self;
  module->id = ++self->last_id;
  link_module (self, module);
  self->n_bytes += module->n_bytes;
  self->n_fds++;
  for (SondeUnwindModule *oldest = self->oldest; self->n_fds > self->max_fds && oldest != NULL;
       oldest = oldest->newer)
    {
      if (oldest->fd < 0)
        continue;
      close (oldest->fd);
      oldest->fd = -1;
      self->n_fds--;
    }
  return 0;
}

/* Finds or makes the module of @fd, which stays the caller's unless a module was made. Returns 0 if
 * it is ready, 1 if it is to be read. */
static int
find_module (SondeModuleStore *self, int fd, bool *made, SondeUnwindModule **module)
{
  SondeModuleIdentity identity;
  struct stat st;
  int r;

  if (fstat (fd, &st) < 0)
    return -errno;
  if (!S_ISREG (st.st_mode))
    return -EINVAL;
  identity = (SondeModuleIdentity){
    .device = st.st_dev,
    .inode = st.st_ino,
    .size_bytes = (uint64_t) st.st_size,
    .modified_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
    .changed_ns = st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec,
  };
  *module = sonde_item_table_find (&self->modules, sonde_hash_bytes (&identity, sizeof identity),
                                   module_has_identity, &identity);
  if (*module != NULL)
    return 0;
  for (*module = self->next_read; *module != NULL; *module = (*module)->newer)
    if (module_has_identity (*module, &identity))
      return 1;
  if (self->n_reading == MAX_READING)
    return -EAGAIN;
  r = sonde_module_new (fd, NULL, identity.size_bytes, module);
  if (r < 0)
    return r;
  *made = true;
  (*module)->identity = identity;
  *(self->next_read != NULL ? &self->last_read->newer : &self->next_read) = *module;
  self->last_read = *module;
  self->n_reading++;
  return 1;
}

static void
set_ready (SondeModuleStore *self, Entry *entry)
{
  entry->state = SONDE_MODULE_READY;
  entry->n_failures = 0;
  self->serial++;
}

bool
sonde_module_store_work (SondeModuleStore *self)
{
  uint32_t work = SONDE_MODULE_STORE_SLICE;

  while (free_trash (self, &work) && self->next_read != NULL)
    {
      SondeUnwindModule *module;
      int r = sonde_module_read (self->next_read, &work);

      if (r > 0)
        break;
      module = dequeue (self); /* it is complete, or cannot be */
      if (r == 0)
        r = add_module (self, module);
      while (r < 0 && module->entries != NULL)
        set_failed (self, module->entries, r);
      for (Entry *entry = module->entries; r == 0 && entry != NULL; entry = entry->next_of_module)
        set_ready (self, entry);
      if (r < 0)
        {
          module->newer = self->trash;
          self->trash = module;
        }
      work -= work < WORK_PER_MODULE ? work : WORK_PER_MODULE;
    }
  return self->next_read != NULL || self->trash != NULL;
}

/* What sonde_module_store_begin() and _load() return. */
static int
result_of (SondeModuleStore *self, const SondeFileId *id)
{
  const Entry *entry = find_entry (self, id);

  if (entry == NULL) /* dropped, with so many others about */
    return -ENOSPC;
  if (entry->state == SONDE_MODULE_FAILED)
    return entry->error;
  return entry->state == SONDE_MODULE_READING;
}

int
sonde_module_store_begin (SondeModuleStore *self, const SondeFileId *id, int fd)
{
  SondeUnwindModule *module = NULL;
  bool made = false;
  int r = find_module (self, fd, &made, &module);
  Entry *entry = ensure_entry (self, id);

  if (!made && fd >= 0)
    close (fd);
  if (entry == NULL)
    return -ENOMEM;
  if (r < 0)
    set_failed (self, entry, r);
  if (r == -EAGAIN) /* for no fault of the file's */
    entry->state = SONDE_MODULE_UNKNOWN;
  if (r < 0)
    return r;

  set_module (entry, module);
  entry->state = SONDE_MODULE_READING;
  if (r == 0)
    set_ready (self, entry);
  else
    sonde_module_store_work (self);
  return result_of (self, id);
}

int
sonde_module_store_load (SondeModuleStore *self, const SondeFileId *id, int fd)
{
  int r;

  while (sonde_module_store_work (self))
    ;
  r = sonde_module_store_begin (self, id, fd);
  while (r == 1)
    {
      sonde_module_store_work (self);
      r = result_of (self, id);
    }
  return r;
}

SondeUnwindModule *
sonde_module_store_vdso (SondeModuleStore *self)
{
  if (self->vdso_was_tried)
    return self->vdso;
  self->vdso_was_tried = true;
  if (sonde_module_new_vdso (&self->vdso) == 0)
    {
      self->vdso->store = self;
      self->vdso->id = ++self->last_id;
      self->n_bytes += self->vdso->n_bytes;
    }
  return self->vdso;
}

void
sonde_module_store_grow (SondeModuleStore *self, SondeUnwindModule *module, size_t n_bytes)
{
  module->n_bytes += n_bytes;
  self->n_bytes += n_bytes;
}

size_t
sonde_module_store_bytes (const SondeModuleStore *self)
{
  return self->n_bytes;
}

size_t
sonde_module_store_n_modules (const SondeModuleStore *self)
{
  return self->modules.n_used;
}
