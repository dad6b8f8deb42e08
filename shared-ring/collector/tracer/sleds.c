/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/sleds.h"

#if defined(__x86_64__) && defined(__LP64__)

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol/calls.h"
#include "shared-ring/collector/quiet-thread.h"
#include "shared-ring/collector/tracer/call-apart.h"
#include "shared-ring/collector/tracer/function-filter.h"
#include "shared-ring/collector/tracer/sled-map.h"
#include "shared-ring/ring-atomic.h"

/* With sleds. */
#define MAX_MODULES 256u

#define PAGE_BYTES  UINT64_C (4096)

/* How far from a sled its stub may be, with some room. */
#define REACH_BYTES (UINT64_C (0x7fff0000))
/* Nothing is put below: the kernel keeps it free. */
#define LOWEST UINT64_C (0x10000)
/* Places for a page that are tried, nearest first: so many with one distance between them, then
 * with the double one. */
#define TRIES_A_STEP   16u
#define MAX_STEP_BYTES (UINT64_C (1) << 20)

/* A fork() waits so long for who switches sleds, and goes on then. */
#define FORK_WAIT_NS 200000000

/* Between looks: for libraries that were loaded meanwhile, and, while nobody wants calls, in case
 * that somebody who raised the epoch could not wake us. */
#define LOOK_S      1
#define IDLE_LOOK_S 30

/* The kernel's, whatever a time_t is here. Source: futex(2), time(7) */
typedef struct
{
  long seconds;
  long ns;
} Time;

typedef struct
{
  uint64_t base; /* with @segments and @hash: which one it is */
  uint64_t hash;
  const ElfW (Phdr) * segments;
  SondeSledMap map;
  uint8_t *page;  /* near it: of jumps to our stubs; NULL: none yet */
  bool is_loaded; /* it was seen in this turn */
} Module;

typedef struct
{
  uint32_t n_functions;    /* with a sled where they begin */
  uint32_t n_patched;      /* of these, with one that is on */
  uint32_t n_refused;      /* sleds, or what stands for an unknown number of them */
  SondeCallsReason reason; /* of the first */
} Counts;

static struct
{
  pthread_mutex_t lock; /* of all but @is_confined */
  Module modules[MAX_MODULES];
  uint32_t n_modules;
  SondeTrieHeader *header;
  bool is_on;
  bool is_beginning; /* no thread but this one is there */
  bool is_child;     /* other threads of its parent may have left locks behind */
  bool is_following; /* there is a thread */
  bool is_alone;     /* there shall be none */
  SondeQuietThread thread;
  bool is_sync_asked_for;
  bool is_confined;
  unsigned long long n_loads, n_unloads; /* of the process, when all was last looked at */
  Counts unfound;                        /* what was refused then */
  Counts counts;                         /* of all, when they were last switched on */
} sleds = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of the thread that forks: others may, too. */
static _Thread_local bool is_locked_for_fork;

/* --- the stubs' pages --- */

#define JUMP_BYTES 16u

/* jmp *0(%rip), and behind it where to. */
static const uint8_t jump[] = { 0xff, 0x25, 0x00, 0x00, 0x00, 0x00 };

static uint64_t
target_of (const Module *module, SondeSledKind kind)
{
  return (uintptr_t) module->page + (uint64_t) kind * JUMP_BYTES;
}

static void
write_jumps (uint8_t *page)
{
  const char *const stubs[SONDE_SLED_N_KINDS] = {
    [SONDE_SLED_ENTRY] = sonde_sled_stub_enter,
    [SONDE_SLED_EXIT] = sonde_sled_stub_exit,
    [SONDE_SLED_TAIL] = sonde_sled_stub_tail,
    [SONDE_SLED_BEGIN] = sonde_sled_stub_begin,
  };

  for (uint32_t i = 0; i < SONDE_SLED_N_KINDS; i++)
    {
      memcpy (page + i * JUMP_BYTES, jump, sizeof jump);
      memcpy (page + i * JUMP_BYTES + sizeof jump, &stubs[i], sizeof stubs[i]);
    }
}

static SondeCallsReason
reason_for (int error)
{
  return error == EACCES || error == EPERM ? SONDE_CALLS_REASON_PROTECTION
                                           : SONDE_CALLS_REASON_ROOM;
}

/* Returns: NULL: the place is taken */
static uint8_t *
map_at (uint64_t place)
{
  uint8_t *page = mmap ((void *) (uintptr_t) place, PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

  if (page == MAP_FAILED)
    return NULL;
  /* Before Linux 4.17 the place is a hint. */
  if ((uintptr_t) page == place)
    return page;
  munmap (page, PAGE_BYTES);
  return NULL;
}

/* Below first: the heap grows behind a program. */
static uint8_t *
map_near (const SondeSledMap *map)
{
  uint64_t lo = UINT64_MAX;
  uint64_t hi = 0;
  uint8_t *page = NULL;
  uint64_t place, step;

  for (uint32_t i = 0; i < map->n_texts; i++)
    {
      lo = map->text[i].lo < lo ? map->text[i].lo : lo;
      hi = map->text[i].hi > hi ? map->text[i].hi : hi;
    }
  lo &= ~(PAGE_BYTES - 1);
  hi = (hi + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

  place = lo;
  step = PAGE_BYTES;
  for (uint32_t n = 1; page == NULL && place >= LOWEST + step && hi - (place - step) < REACH_BYTES;
       n++)
    {
      place -= step;
      page = map_at (place);
      if (n % TRIES_A_STEP == 0 && step < MAX_STEP_BYTES)
        step *= 2;
    }
  place = hi;
  step = PAGE_BYTES;
  for (uint32_t n = 1; page == NULL && place - lo < REACH_BYTES; n++)
    {
      page = map_at (place);
      place += step;
      if (n % TRIES_A_STEP == 0 && step < MAX_STEP_BYTES)
        step *= 2;
    }
  return page;
}

static SondeCallsReason
make_page (Module *module)
{
  uint8_t *page = map_near (&module->map);
  int error;

  if (page == NULL)
    return SONDE_CALLS_REASON_ROOM;
  write_jumps (page);
  if (mprotect (page, PAGE_BYTES, PROT_READ | PROT_EXEC) < 0)
    {
      error = errno;
      munmap (page, PAGE_BYTES);
      return reason_for (error);
    }
  module->page = page;
  return SONDE_CALLS_REASON_NONE;
}

/* --- switching --- */

static void
refuse (Counts *counts, uint32_t n, SondeCallsReason reason)
{
  if (n > 0 && counts->n_refused == 0)
    counts->reason = reason;
  counts->n_refused += n;
}

/* @i: an entry of the module's map, or, behind these, one of its addresses. */
static SondeSledVerdict
judge (const Module *module, uint32_t i, SondeSled *sled)
{
  const SondeSledMap *map = &module->map;
  uint8_t entry[SONDE_SLED_MAP_ENTRY_BYTES];
  uint64_t address;

  if (i < map->n_entries)
    {
      address = map->map + (uint64_t) i * SONDE_SLED_MAP_ENTRY_BYTES;
      memcpy (entry, (const void *) (uintptr_t) address, sizeof entry);
      return sonde_sled_map_judge (map, entry, address, sled);
    }
  memcpy (&address,
          (const void *) (uintptr_t) (map->addresses + (i - map->n_entries) * sizeof address),
          sizeof address);
  return sonde_sled_map_judge_begin (map, address, sled);
}

/* The next of a module's that is one. @counts: NULL, or what refuses the others */
static bool
next_sled (const Module *module, uint32_t *i, SondeSled *sled, Counts *counts)
{
  while (*i < module->map.n_entries + module->map.n_addresses)
    {
      SondeSledVerdict verdict = judge (module, (*i)++, sled);

      if (verdict == SONDE_SLED_OK)
        return true;
      if (counts != NULL && verdict != SONDE_SLED_EVENT)
        refuse (counts, 1, SONDE_CALLS_REASON_MAP);
    }
  return false;
}

/* By the region's filter. What is not known is not wanted. */
static bool
is_wanted (const SondeSled *sled)
{
  return sonde_function_filter_wants (sled->function, true) == 1;
}

static uint8_t *
code_of (const SondeSled *sled)
{
  return (uint8_t *) (uintptr_t) sled->address;
}

/* @protection: beside what it has */
static int
protect (const SondeSledMap *map, uint32_t text, int protection)
{
  const uint64_t lo = map->text[text].lo & ~(PAGE_BYTES - 1);
  const uint64_t hi = (map->text[text].hi + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

  return mprotect ((void *) (uintptr_t) lo, hi - lo, map->protection[text] | protection) < 0 ? errno
                                                                                             : 0;
}

/* @texts: a bit each. Returns: 0, or why not; then none can be written to */
static int
open_texts (const SondeSledMap *map, uint32_t texts)
{
  int error = 0;

  for (uint32_t i = 0; i < map->n_texts && error == 0; i++)
    if ((texts & 1u << i) != 0)
      error = protect (map, i, PROT_WRITE);
  for (uint32_t i = 0; i < map->n_texts && error != 0; i++)
    if ((texts & 1u << i) != 0)
      protect (map, i, 0);
  return error;
}

static void
close_texts (const SondeSledMap *map, uint32_t texts)
{
  for (uint32_t i = 0; i < map->n_texts; i++)
    if ((texts & 1u << i) != 0)
      protect (map, i, 0);
}

/* Behind it no processor has instructions at hand that were there before. Source: membarrier(2),
 * MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE */
static void
sync_cores (void)
{
  syscall (SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}

/* Before anything is open: in a process with threads the kernel takes some milliseconds for it. */
static void
ask_for_sync (void)
{
  if (!sleds.is_sync_asked_for)
    syscall (SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
  sleds.is_sync_asked_for = true;
}

static SondeSledState
state_of (const Module *module, const SondeSled *sled)
{
  return sonde_sled_look (sled, code_of (sled), target_of (module, sled->kind));
}

static bool
is_entry (const SondeSled *sled)
{
  return sled->kind == SONDE_SLED_ENTRY || sled->kind == SONDE_SLED_BEGIN;
}

static bool
may_change (const SondeSled *sled)
{
  return sled->kind != SONDE_SLED_BEGIN || sleds.is_beginning;
}

/* What is written first nobody reaches. */
static void
write_sleds (const Module *module)
{
  SondeSled sled;

  for (uint32_t i = 0; next_sled (module, &i, &sled, NULL);)
    if (may_change (&sled) && is_wanted (&sled) && state_of (module, &sled) == SONDE_SLED_FRESH)
      sonde_sled_prepare (&sled, code_of (&sled), target_of (module, sled.kind));
  sync_cores ();
  for (uint32_t i = 0; next_sled (module, &i, &sled, NULL);)
    if (sled.kind != SONDE_SLED_BEGIN && state_of (module, &sled) >= SONDE_SLED_READY)
      sonde_sled_switch (&sled, code_of (&sled), is_wanted (&sled));
}

static void
switch_on (Module *module, Counts *counts)
{
  SondeCallsReason reason = SONDE_CALLS_REASON_NONE;
  uint32_t n_sleds = 0;
  uint32_t texts = 0; /* a bit for each that something is to be written to */
  SondeSled sled;
  int error;

  for (uint32_t i = 0; next_sled (module, &i, &sled, counts); n_sleds++)
    {
      if (may_change (&sled)
          && (module->page == NULL
              || (state_of (module, &sled) == SONDE_SLED_ON) != is_wanted (&sled)))
        texts |= 1u << sled.text;
      counts->n_functions += is_entry (&sled) && is_wanted (&sled);
    }
  if (n_sleds == 0)
    return;

  if (module->page == NULL)
    reason = make_page (module);
  if (reason == SONDE_CALLS_REASON_NONE && texts != 0)
    {
      error = open_texts (&module->map, texts);
      reason = error != 0 ? reason_for (error) : SONDE_CALLS_REASON_NONE;
    }
  if (reason != SONDE_CALLS_REASON_NONE)
    {
      refuse (counts, n_sleds, reason);
      return;
    }
  if (texts != 0)
    {
      write_sleds (module);
      close_texts (&module->map, texts);
    }

  for (uint32_t i = 0; next_sled (module, &i, &sled, NULL);)
    if (is_wanted (&sled) && state_of (module, &sled) != SONDE_SLED_ON)
      refuse (counts, 1, may_change (&sled) ? SONDE_CALLS_REASON_CODE : SONDE_CALLS_REASON_RUNNING);
    else
      counts->n_patched += is_entry (&sled) && is_wanted (&sled);
}

static void
switch_off (Module *module)
{
  uint32_t texts = 0;
  SondeSled sled;

  if (module->page == NULL)
    return;
  for (uint32_t i = 0; next_sled (module, &i, &sled, NULL);)
    if (sled.kind != SONDE_SLED_BEGIN && state_of (module, &sled) == SONDE_SLED_ON)
      texts |= 1u << sled.text;
  if (texts == 0 || open_texts (&module->map, texts) != 0)
    return;
  for (uint32_t i = 0; next_sled (module, &i, &sled, NULL);)
    if (sled.kind != SONDE_SLED_BEGIN && state_of (module, &sled) == SONDE_SLED_ON)
      sonde_sled_switch (&sled, code_of (&sled), false);
  close_texts (&module->map, texts);
}

/* --- modules --- */

static int
open_module (const char *name)
{
  struct stat status;
  int fd;

  /* A FIFO that lies there instead must not keep us. */
  fd = open (*name != '\0' ? name : "/proc/self/exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return -errno;
  if (fstat (fd, &status) == 0 && S_ISREG (status.st_mode))
    return fd;
  close (fd);
  return -ESTALE;
}

/* What it has where, as its file says. Errors: -ENOENT it has none */
static int
find_map (const struct dl_phdr_info *info, SondeSledMap *map)
{
  int fd, r;

  /* What has no path is no file: the kernel's. */
  if (*info->dlpi_name != '\0' && strchr (info->dlpi_name, '/') == NULL)
    return -ENOENT;
  fd = open_module (info->dlpi_name);
  if (fd < 0)
    return fd;
  r = sonde_sled_map_find (fd, info, map);
  close (fd);
  return r;
}

/* Of what says how it is loaded: two are taken for one if all of that is alike. FNV-1a. */
static uint64_t
hash_segments (const struct dl_phdr_info *info)
{
  const uint8_t *bytes = (const uint8_t *) info->dlpi_phdr;
  uint64_t hash = UINT64_C (0xcbf29ce484222325);

  for (size_t i = 0; i < info->dlpi_phnum * sizeof info->dlpi_phdr[0]; i++)
    hash = (hash ^ bytes[i]) * UINT64_C (0x100000001b3);
  return hash;
}

static Module *
find_known (const struct dl_phdr_info *info)
{
  for (uint32_t i = 0; i < sleds.n_modules; i++)
    if (sleds.modules[i].base == info->dlpi_addr && sleds.modules[i].segments == info->dlpi_phdr
        && sleds.modules[i].hash == hash_segments (info))
      return &sleds.modules[i];
  return NULL;
}

/* Of one that is not known. Returns: NULL: it has no sleds, or they cannot be found */
static Module *
look_at (const struct dl_phdr_info *info)
{
  Module *module;
  SondeSledMap map;
  int r = find_map (info, &map);

  if (r < 0)
    {
      if (r != -ENOENT)
        refuse (&sleds.unfound, 1,
                r == -EBADMSG ? SONDE_CALLS_REASON_MAP : SONDE_CALLS_REASON_FILE);
      return NULL;
    }
  if (sleds.n_modules == MAX_MODULES)
    {
      refuse (&sleds.unfound, map.n_entries + map.n_addresses, SONDE_CALLS_REASON_ROOM);
      return NULL;
    }

  ask_for_sync ();
  sonde_call_apart_is_needed = true;
  module = &sleds.modules[sleds.n_modules];
  *module = (Module){
    .base = info->dlpi_addr, .segments = info->dlpi_phdr, .hash = hash_segments (info), .map = map
  };
  sleds.n_modules++;
  return module;
}

/* Of modules that were unloaded; what ran in them has left them, and their pages. */
static void
drop_unloaded (void)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < sleds.n_modules; i++)
    if (sleds.modules[i].is_loaded)
      {
        if (n != i)
          sleds.modules[n] = sleds.modules[i];
        n++;
      }
    else if (sleds.modules[i].page != NULL)
      munmap (sleds.modules[i].page, PAGE_BYTES);
  sleds.n_modules = n;
}

typedef struct
{
  bool is_wanted;
  bool has_begun;
  bool is_looking; /* modules came or went */
  bool is_idle;    /* nothing is to be done */
  Counts counts;
} Turn;

/* Nothing is loaded or unloaded meanwhile. */
static int
visit (struct dl_phdr_info *info, size_t size, void *data)
{
  Turn *turn = data;
  Module *module;

  if (!turn->has_begun)
    {
      turn->has_begun = true;
      turn->is_looking = sleds.n_loads != info->dlpi_adds || sleds.n_unloads != info->dlpi_subs;
      turn->is_idle = !turn->is_looking && sleds.is_on == turn->is_wanted;
      if (turn->is_idle)
        return 1;
      sleds.n_loads = info->dlpi_adds;
      sleds.n_unloads = info->dlpi_subs;
      if (turn->is_looking)
        sleds.unfound = (Counts){ 0 };
    }
  module = find_known (info);
  if (module == NULL && turn->is_looking)
    module = look_at (info);
  if (module == NULL)
    return 0;
  module->is_loaded = true;
  if (turn->is_wanted)
    switch_on (module, &turn->counts);
  else if (sleds.is_on)
    switch_off (module);
  return 0;
}

/* What the profiler reads. */
static void
tell (void)
{
  SondeTrieHeader *header = sleds.header;
  const bool is_on = sleds.is_on && sleds.counts.n_patched > 0;

  if (header == NULL)
    return;
  sonde_ring_store_relaxed (&header->n_functions, sleds.counts.n_functions);
  sonde_ring_store_relaxed (&header->n_patched, sleds.counts.n_patched);
  sonde_ring_store_relaxed (&header->reason, (uint32_t) sleds.counts.reason);
  sonde_ring_store_release (&header->n_refused, sleds.counts.n_refused);
  if (is_on != (sonde_ring_load_relaxed (&header->n_switches) % 2 != 0))
    sonde_ring_store_release (&header->n_switches,
                              sonde_ring_load_relaxed (&header->n_switches) + 1);
}

/* Has all sleds be as they are wanted. */
static void
settle (void)
{
  Turn turn = { 0 };

  if (sonde_ring_load_relaxed (&sleds.is_confined) || (sleds.header == NULL && !sleds.is_on))
    return;
  turn.is_wanted = sleds.header != NULL
                   && sonde_ring_load_relaxed (&sleds.header->mode) != (uint32_t) SONDE_TRIE_OFF;
  for (uint32_t i = 0; i < sleds.n_modules; i++)
    sleds.modules[i].is_loaded = false;
  dl_iterate_phdr (visit, &turn);
  if (turn.is_idle)
    return;
  drop_unloaded ();
  sleds.is_on = turn.is_wanted;
  if (turn.is_wanted)
    {
      refuse (&turn.counts, sleds.unfound.n_refused, sleds.unfound.reason);
      sleds.counts = turn.counts;
    }
  tell ();
}

/* --- the thread --- */

/* Returns: false: a filter's answer, and would be so again */
static bool
sleep_on (const uint32_t *word, uint32_t value, long seconds)
{
  const Time time = { .seconds = seconds };

  return syscall (SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0) == 0 || errno == EAGAIN
         || errno == EINTR || errno == ETIMEDOUT;
}

static void *
follow (void *data)
{
  bool is_over = false;

  while (!is_over)
    {
      const uint32_t *word = NULL;
      uint32_t epoch = 0;
      bool is_on;

      pthread_mutex_lock (&sleds.lock);
      if (sleds.header != NULL)
        {
          word = &sleds.header->epoch;
          /* Pairs with the release of sonde_trie_memory_wish(). */
          epoch = sonde_ring_load_acquire (word);
        }
      settle ();
      is_on = sleds.is_on;
      is_over = word == NULL || sleds.is_alone || sonde_ring_load_relaxed (&sleds.is_confined);
      if (is_over)
        sleds.is_following = false;
      pthread_mutex_unlock (&sleds.lock);
      if (!is_over && !sleep_on (word, epoch, is_on ? LOOK_S : IDLE_LOOK_S))
        {
          pthread_mutex_lock (&sleds.lock);
          sleds.is_following = false;
          pthread_mutex_unlock (&sleds.lock);
          is_over = true;
        }
    }
  return NULL;
}

static void
wake (const SondeTrieHeader *header)
{
  if (header != NULL)
    syscall (SYS_futex, &header->epoch, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void
sonde_sleds_follow (SondeTrieHeader *header)
{
  const SondeTrieHeader *before;
  int saved_errno = errno;

  pthread_mutex_lock (&sleds.lock);
  before = sleds.header;
  sleds.header = header;
  tell ();
  if (!sleds.is_child)
    settle ();
  sleds.is_beginning = false;
  if (sleds.is_following)
    wake (before);
  else if ((header != NULL || sleds.is_on) && !sleds.is_alone
           && !sonde_ring_load_relaxed (&sleds.is_confined))
    sleds.is_following = sonde_quiet_thread_start (&sleds.thread, follow, NULL);
  pthread_mutex_unlock (&sleds.lock);
  errno = saved_errno;
}

void
sonde_sleds_leave_alone (void)
{
  const struct timespec moment = { .tv_nsec = 1000000 };
  int saved_errno = errno;
  bool is_following;

  /* A child of clone() has its parent's memory, and whatever it says of a thread, none. */
  if (sleds.thread.pid != getpid ())
    return;
  do
    {
      pthread_mutex_lock (&sleds.lock);
      sleds.is_alone = true;
      is_following = sleds.is_following;
      if (is_following)
        wake (sleds.header);
      pthread_mutex_unlock (&sleds.lock);
      if (is_following)
        nanosleep (&moment, NULL);
    }
  while (is_following);
  sonde_quiet_thread_join (&sleds.thread);
  errno = saved_errno;
}

void
sonde_sleds_confine (void)
{
  int saved_errno = errno;

  sonde_ring_store_relaxed (&sleds.is_confined, true);
  wake (sonde_ring_load_relaxed (&sleds.header));
  errno = saved_errno;
}

/* --- fork --- */

static void
before_fork (void)
{
  struct timespec until;

  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_nsec += FORK_WAIT_NS;
  if (until.tv_nsec >= 1000000000)
    {
      until.tv_nsec -= 1000000000;
      until.tv_sec++;
    }
  is_locked_for_fork = pthread_mutex_clocklock (&sleds.lock, CLOCK_MONOTONIC, &until) == 0;
}

static void
after_fork (void)
{
  if (is_locked_for_fork)
    pthread_mutex_unlock (&sleds.lock);
}

/* Its parent's region is not mapped here. */
static void
begin_child (void)
{
  pthread_mutex_init (&sleds.lock, NULL);
  sleds.header = NULL;
  sleds.is_child = true;
  sleds.is_following = false;
  sleds.is_alone = false;
}

void
sonde_sleds_init (void)
{
  sonde_call_apart_init ();
  sleds.is_beginning = true;
  pthread_atfork (before_fork, after_fork, begin_child);
}

#else

void
sonde_sleds_init (void)
{
}

void
sonde_sleds_follow (SondeTrieHeader *header)
{
}

void
sonde_sleds_leave_alone (void)
{
}

void
sonde_sleds_confine (void)
{
}

#endif
