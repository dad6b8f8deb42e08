/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/kallsyms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/name-rank.h"

enum
{
  READ_BYTES = 1 << 16,
  MAX_LINE = 1024, /* bytes; KSYM_NAME_LEN is 512, a module's name below 64 */
};

/* Behind the last function of the kernel or of a module comes other memory; no function is so long.
 */
#define MAX_FUNCTION_BYTES (UINT64_C (1) << 20)

typedef struct
{
  uint64_t address;
  uint32_t name; /* offset into the names */
  uint32_t rank; /* global 0, weak 1, local 2 */
} KernelSymbol;

struct SondeKallsyms
{
  KernelSymbol *symbols; /* sorted by address, one for each */
  size_t n_symbols;
  size_t n_allocated;
  char *names;
  size_t names_size;
  size_t names_allocated;
};

/* "ffffffff81000000 T _stext" or "ffffffffc0000000 t probe\t[module]"; the line is ours to change.
 */
static int
take_line (SondeKallsyms *self, char *line)
{
  char *end;
  uint64_t address;
  size_t size;
  char type;

  errno = 0;
  address = strtoull (line, &end, 16);
  if (errno != 0 || end == line || strchr ("+- \t", line[0]) != NULL)
    return 0;
  if (end[0] != ' ' || end[1] == '\0' || end[2] != ' ' || end[3] == '\0' || end[3] == '\t')
    return 0;
  type = end[1];
  if (strchr ("tTwW", type) == NULL)
    return 0;
  line = end + 3;
  end = strchr (line, '\t');
  if (end != NULL)
    *end = ' ';
  if (self->n_symbols == self->n_allocated)
    {
      size_t n_allocated = self->n_allocated * 2 + 4096;
      KernelSymbol *symbols = reallocarray (self->symbols, n_allocated, sizeof *symbols);

      if (symbols == NULL)
        return -ENOMEM;
      self->symbols = symbols;
      self->n_allocated = n_allocated;
    }
  size = strlen (line) + 1;
  if (self->names_allocated - self->names_size < size)
    {
      size_t n_allocated = self->names_allocated * 2 + READ_BYTES;
      char *names = realloc (self->names, n_allocated);

      if (names == NULL)
        return -ENOMEM;
      self->names = names;
      self->names_allocated = n_allocated;
    }
  self->symbols[self->n_symbols++] = (KernelSymbol){
    .address = address,
    .name = (uint32_t) self->names_size,
    .rank = type == 'T'                  ? 0
            : type == 'W' || type == 'w' ? 1
                                         : 2,
  };
  memcpy (self->names + self->names_size, line, size);
  self->names_size += size;
  return 0;
}

/* Takes the whole lines of @text; what remains of the last one is moved to the front. */
static int
take_lines (SondeKallsyms *self, char *text, size_t *size)
{
  char *line = text;
  char *end;

  while ((end = memchr (line, '\n', *size - (size_t) (line - text))) != NULL)
    {
      int r = 0;

      *end = '\0';
      if (end - line < MAX_LINE)
        r = take_line (self, line);
      if (r < 0)
        return r;
      line = end + 1;
    }
  *size -= (size_t) (line - text);
  memmove (text, line, *size);
  return 0;
}

static int
read_all (SondeKallsyms *self, int fd)
{
  char text[READ_BYTES + 1];
  size_t total = 0;
  size_t size = 0;

  while (total < SONDE_KALLSYMS_MAX_BYTES)
    {
      ssize_t n_read = read (fd, text + size, READ_BYTES - size);
      int r;

      if (n_read < 0 && errno == EINTR)
        continue;
      if (n_read < 0)
        return -errno;
      if (n_read == 0)
        break;
      total += (size_t) n_read;
      size += (size_t) n_read;
      r = take_lines (self, text, &size);
      if (r < 0)
        return r;
      if (size == READ_BYTES) /* no line at all: not what we were told it is */
        size = 0;
    }
  if (size == 0)
    return 0;
  text[size++] = '\n';
  return take_lines (self, text, &size);
}

static int
compare_symbols (const void *a, const void *b, void *names)
{
  const KernelSymbol *left = a;
  const KernelSymbol *right = b;

  if (left->address != right->address)
    return left->address < right->address ? -1 : 1;
  if (left->rank != right->rank)
    return left->rank < right->rank ? -1 : 1;
  return sonde_name_compare ((char *) names + left->name, (char *) names + right->name);
}

int
sonde_kallsyms_new (int fd, SondeKallsyms **self)
{
  SondeKallsyms *result = calloc (1, sizeof *result);
  size_t n_kept = 0;
  int r;

  if (result == NULL)
    return -ENOMEM;
  r = read_all (result, fd);
  if (r == 0)
    {
      if (result->n_symbols > 0)
        qsort_r (result->symbols, result->n_symbols, sizeof *result->symbols, compare_symbols,
                 result->names);
      for (size_t i = 0; i < result->n_symbols; i++)
        if (n_kept == 0 || result->symbols[n_kept - 1].address != result->symbols[i].address)
          result->symbols[n_kept++] = result->symbols[i];
      result->n_symbols = n_kept;
      if (result->n_symbols == 0)
        r = -ENODATA;
      else if (result->symbols[result->n_symbols - 1].address == 0)
        r = -EPERM;
    }
  if (r < 0)
    {
      sonde_kallsyms_free (result);
      return r;
    }
  *self = result;
  return 0;
}

void
sonde_kallsyms_free (SondeKallsyms *self)
{
  if (self == NULL)
    return;
  free (self->symbols);
  free (self->names);
  free (self);
}

bool
sonde_kallsyms_lookup (const SondeKallsyms *self, uint64_t address, const char **name)
{
  size_t low = 0;
  size_t high = self->n_symbols;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (self->symbols[middle].address <= address)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == 0 || address - self->symbols[low - 1].address >= MAX_FUNCTION_BYTES)
    return false;
  *name = self->names + self->symbols[low - 1].name;
  return true;
}
