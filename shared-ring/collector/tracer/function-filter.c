/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/function-filter.h"

#ifdef HAVE_LIBIBERTY
#include <libiberty/demangle.h>
#endif
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared-ring/collector/tracer/module-symbols.h"
#include "shared-ring/ring-atomic.h"
#include "shared-ring/trie-layout.h"

#define MAX_LINES      64u
#define MAX_RANGES     1024u
#define FIRST_PLACES   1024u
#define MAX_NAME_BYTES 4096u

typedef struct
{
  bool leaves_out;
  uint64_t min_bytes; /* 0: it is of names */
  const char *module; /* NULL: any */
  const char *name;
} Line;

/* Code of one file; what has no symbol there is wanted, or not. */
typedef struct
{
  uint64_t lo;
  uint64_t hi;
  bool is_wanted;
} Range;

/* Addresses by their hash; 0: free. Others read it while one is added. */
typedef struct
{
  size_t n_places;
  size_t n_used;
  uint64_t places[];
} Exceptions;

static char lines_text[SONDE_TRIE_FILTER_BYTES];
static Line lines[MAX_LINES];
static uint32_t n_lines;

static uint32_t loader; /* the process of who reads; 0: nobody does */
static Range ranges[MAX_RANGES];
static uint32_t n_ranges;
static Exceptions *exceptions;

/* --- lines --- */

/* A colon that is no part of "::". */
static char *
find_colon (char *text)
{
  for (char *at = text; *at != '\0'; at++)
    if (at[0] == ':' && at[1] != ':' && (at == text || at[-1] != ':'))
      return at;
  return NULL;
}

static void
add_line (char *text)
{
  static const char size[] = "size>=";
  Line *line = &lines[n_lines];
  char *colon;

  if (*text == '\0' || n_lines == MAX_LINES)
    return;
  n_lines++;
  *line = (Line){ .leaves_out = *text == '!' };
  if (strncmp (text, size, sizeof size - 1) == 0)
    {
      for (const char *at = text + sizeof size - 1; *at >= '0' && *at <= '9'; at++)
        line->min_bytes = line->min_bytes * 10 + (uint64_t) (*at - '0');
      line->name = "*";
      return;
    }
  text += line->leaves_out;
  colon = find_colon (text);
  line->name = colon != NULL ? colon + 1 : text;
  line->module = colon != NULL ? text : NULL;
  if (colon != NULL)
    *colon = '\0';
}

static void
parse (const char *text, size_t n_bytes)
{
  char *end;

  n_lines = 0;
  if (n_bytes >= sizeof lines_text)
    n_bytes = sizeof lines_text - 1;
  memcpy (lines_text, text, n_bytes);
  lines_text[n_bytes] = '\0';
  for (char *at = lines_text; at != NULL; at = end)
    {
      end = strchr (at, '\n');
      if (end != NULL)
        *end++ = '\0';
      add_line (at);
    }
}

/* As shells have it, with '*' and '?' alone: after a mismatch the last '*' takes one byte more. */
static bool
matches (const char *glob, const char *text)
{
  const char *star = NULL, *from = NULL;

  while (*text != '\0')
    if (*glob == '*')
      {
        star = ++glob;
        from = text;
      }
    else if (*glob == '?' || *glob == *text)
      {
        glob++;
        text++;
      }
    else if (star != NULL)
      {
        glob = star;
        text = ++from;
      }
    else
      return false;
  while (*glob == '*')
    glob++;
  return *glob == '\0';
}

/* --- names --- */

/* What a function may be called; an empty one is none. */
typedef struct
{
  const char *symbol;
  char spelled[MAX_NAME_BYTES]; /* as people write it, with parameters */
  char plain[MAX_NAME_BYTES];   /* without */
  size_t n_bytes;               /* of @spelled */
} Names;

static const Names nameless = { .symbol = "" };

static void
append (const char *text, size_t n_bytes, void *user_data)
{
  Names *names = user_data;
  size_t room = sizeof names->spelled - 1 - names->n_bytes;

  if (n_bytes > room)
    n_bytes = room;
  memcpy (names->spelled + names->n_bytes, text, n_bytes);
  names->n_bytes += n_bytes;
  names->spelled[names->n_bytes] = '\0';
}

/* With nothing but its stack. */
static bool
demangle (const char *symbol, Names *names)
{
#ifdef HAVE_LIBIBERTY
  return rust_demangle_callback (symbol, DMGL_NO_OPTS, append, names) != 0
         || cplus_demangle_v3_callback (symbol, DMGL_PARAMS | DMGL_ANSI, append, names) != 0;
#else
  return false;
#endif
}

/* Parameters are the last thing in parentheses on the outermost level. */
static void
cut_parameters (Names *names)
{
  size_t begin = names->n_bytes;
  int depth = 0;

  for (size_t i = names->n_bytes; i > 0 && begin == names->n_bytes; i--)
    {
      depth += names->spelled[i - 1] == ')';
      depth -= names->spelled[i - 1] == '(';
      if (names->spelled[i - 1] == '(' && depth == 0)
        begin = i - 1;
    }
  memcpy (names->plain, names->spelled, begin);
  names->plain[begin] = '\0';
}

static void
find_names (const char *symbol, Names *names)
{
  names->symbol = symbol;
  names->n_bytes = 0;
  names->spelled[0] = names->plain[0] = '\0';
  if (symbol[0] != '_' || strnlen (symbol, MAX_NAME_BYTES) == MAX_NAME_BYTES)
    return;
  if (demangle (symbol, names))
    cut_parameters (names);
  else
    names->spelled[0] = '\0';
}

static bool
is_wanted (const char *module, const Names *names, uint64_t size_bytes)
{
  bool wanted = n_lines == 0 || lines[0].leaves_out;

  for (uint32_t i = 0; i < n_lines; i++)
    {
      const Line *line = &lines[i];

      if (size_bytes >= line->min_bytes && (line->module == NULL || matches (line->module, module))
          && (matches (line->name, names->symbol)
              || (names->spelled[0] != '\0'
                  && (matches (line->name, names->spelled) || matches (line->name, names->plain)))))
        wanted = !line->leaves_out;
    }
  return wanted;
}

/* --- what is kept --- */

static size_t
place_of (const Exceptions *self, uint64_t address)
{
  return (size_t) (address * UINT64_C (0x9E3779B97F4A7C15) >> 20) & (self->n_places - 1);
}

static bool
has (const Exceptions *self, uint64_t address)
{
  uint64_t found;

  for (size_t at = place_of (self, address);; at = (at + 1) & (self->n_places - 1))
    {
      found = sonde_ring_load_relaxed (&self->places[at]);
      if (found == address || found == 0)
        return found == address;
    }
}

static void
put (Exceptions *self, uint64_t address)
{
  size_t at = place_of (self, address);

  while (self->places[at] != 0)
    at = (at + 1) & (self->n_places - 1);
  sonde_ring_store_relaxed (&self->places[at], address);
  self->n_used++;
}

static void
clear (Exceptions *self)
{
  for (size_t i = 0; i < self->n_places; i++)
    sonde_ring_store_relaxed (&self->places[i], 0);
  self->n_used = 0;
}

static Exceptions *
make_exceptions (size_t n_places)
{
  Exceptions *self = mmap (NULL, sizeof *self + n_places * sizeof *self->places,
                           PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (self == MAP_FAILED)
    return NULL;
  self->n_places = n_places;
  return self;
}

/* A smaller one remains, as a hook may be in it. FALSE: there is no memory */
static bool
add_exception (uint64_t address)
{
  if (has (exceptions, address))
    return true;
  if (2 * exceptions->n_used >= exceptions->n_places)
    {
      Exceptions *larger = make_exceptions (2 * exceptions->n_places);

      if (larger == NULL)
        return false;
      for (size_t i = 0; i < exceptions->n_places; i++)
        if (exceptions->places[i] != 0)
          put (larger, exceptions->places[i]);
      sonde_ring_store_release (&exceptions, larger);
    }
  put (exceptions, address);
  return true;
}

/* --- reading --- */

typedef struct
{
  const char *module; /* its file's name */
  bool is_wanted;     /* what has no symbol there */
  Names names;
} Loading;

static void
take_symbol (const char *name, uint64_t address, uint64_t size_bytes, void *user_data)
{
  Loading *loading = user_data;

  find_names (name, &loading->names);
  if (is_wanted (loading->module, &loading->names, size_bytes) != loading->is_wanted)
    add_exception (address);
}

static bool
take_mapping (const SondeCodeMapping *mapping, void *user_data)
{
  Loading *loading = user_data;
  uint32_t n = n_ranges;

  for (uint32_t i = 0; i < n; i++)
    if (ranges[i].lo == mapping->lo && ranges[i].hi == mapping->hi)
      return true;
  if (n == MAX_RANGES)
    return false;

  loading->module = strrchr (mapping->path, '/') + 1;
  loading->is_wanted = is_wanted (loading->module, &nameless, 0);
  sonde_module_symbols_read (mapping, take_symbol, loading);
  ranges[n] = (Range){ mapping->lo, mapping->hi, loading->is_wanted };
  /* Pairs with the acquire of find_range(): its exceptions are there. */
  sonde_ring_store_release (&n_ranges, n + 1);
  return true;
}

/* A child of fork() has not the thread that may have been at it in its parent. */
static bool
try_to_lock (void)
{
  uint32_t self = (uint32_t) getpid ();
  uint32_t other = sonde_ring_load_relaxed (&loader);

  return other != self
         && __atomic_compare_exchange_n (&loader, &other, self, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED);
}

static void
unlock (void)
{
  sonde_ring_store_release (&loader, 0);
}

/* Of what is mapped by now. */
static void
load (void)
{
  static Loading loading;

  sonde_module_symbols_list (take_mapping, &loading);
}

void
sonde_function_filter_set (const char *text, size_t n_bytes)
{
  while (!try_to_lock ())
    sched_yield ();
  sonde_ring_store_release (&n_ranges, 0);
  parse (text, n_bytes);
  if (exceptions != NULL)
    clear (exceptions);
  else if (n_lines > 0)
    sonde_ring_store_release (&exceptions, make_exceptions (FIRST_PLACES));
  if (n_lines > 0 && exceptions != NULL)
    load ();
  unlock ();
}

static const Range *
find_range (uint64_t function)
{
  uint32_t n = sonde_ring_load_acquire (&n_ranges);

  for (uint32_t i = 0; i < n; i++)
    if (function >= ranges[i].lo && function < ranges[i].hi)
      return &ranges[i];
  return NULL;
}

int
sonde_function_filter_wants (uint64_t function, bool may_read)
{
  const Range *range;

  if (sonde_ring_load_relaxed (&n_lines) == 0)
    return 1;
  if (sonde_ring_load_acquire (&exceptions) == NULL)
    return 0;
  range = find_range (function);
  if (range == NULL)
    {
      if (!may_read || !try_to_lock ())
        return -1;
      load ();
      unlock ();
      range = find_range (function);
    }
  /* It is of no file. */
  if (range == NULL)
    return is_wanted ("", &nameless, 0);
  return range->is_wanted != has (sonde_ring_load_acquire (&exceptions), function);
}
