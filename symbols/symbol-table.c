/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/symbol-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf-file.h"
#include "base/go-table.h"
#include "symbols/name-rank.h"

enum
{
  SYMBOLS_PER_READ = 2048,
  MAX_NESTING = 32, /* symbols that begin between a function's begin and an address in it */
};

typedef struct
{
  uint64_t begin;
  uint64_t end;   /* until sort() has run: 0 if the file does not say */
  uint64_t limit; /* end of its section */
  uint32_t name;  /* offset into the names */
  uint8_t rank;   /* the lower the better */
} FileSymbol;

struct SondeSymbolTable
{
  SondeElfFile elf;
  Elf64_Shdr *sections; /* until all is read */
  FileSymbol *symbols;  /* sorted by begin, one for each */
  size_t n_symbols;
  size_t n_allocated;
  char *names; /* the string tables, each followed by a NUL */
  size_t names_size;
  size_t n_bytes; /* of symbols and names, against the bound */
};

static int
append (SondeSymbolTable *self, const FileSymbol *symbol)
{
  if (self->n_symbols == self->n_allocated)
    {
      size_t n_allocated = self->n_allocated * 2 + 256;
      FileSymbol *symbols = reallocarray (self->symbols, n_allocated, sizeof *symbols);

      if (symbols == NULL)
        return -ENOMEM;
      self->symbols = symbols;
      self->n_allocated = n_allocated;
    }
  self->symbols[self->n_symbols++] = *symbol;
  return 0;
}

static int
take_symbol (SondeSymbolTable *self,
             const Elf64_Sym *symbol,
             size_t names_offset,
             size_t names_size)
{
  const unsigned type = ELF64_ST_TYPE (symbol->st_info);
  const unsigned binding = ELF64_ST_BIND (symbol->st_info);
  const char *name;
  const Elf64_Shdr *section = NULL;
  FileSymbol taken;
  bool is_code;

  if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= names_size)
    return 0;
  if (symbol->st_shndx < self->elf.n_sections)
    section = &self->sections[symbol->st_shndx];
  is_code = section != NULL && (section->sh_flags & SHF_EXECINSTR) != 0;
  if (type != STT_FUNC && type != STT_GNU_IFUNC && !(type == STT_NOTYPE && is_code))
    return 0;
  name = self->names + names_offset + symbol->st_name;
  /* Mapping symbols ($x, $d of ARM) and local labels name no function. */
  if (name[0] == '\0' || name[0] == '$' || (name[0] == '.' && name[1] == 'L'))
    return 0;

  /* Functions before labels of assembly code; of each kind global, weak, local. */
  taken.rank = binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 0 : binding == STB_WEAK ? 1 : 2;
  if (type == STT_NOTYPE)
    taken.rank = (uint8_t) (taken.rank + 3);
  taken.begin = symbol->st_value;
  taken.end = symbol->st_value + symbol->st_size;
  if (taken.end <= taken.begin)
    taken.end = 0;
  taken.limit = UINT64_MAX;
  if (section != NULL && section->sh_addr + section->sh_size > taken.begin
      && section->sh_addr <= taken.begin)
    taken.limit = section->sh_addr + section->sh_size;
  taken.name = (uint32_t) (names_offset + symbol->st_name);
  return append (self, &taken);
}

static int
charge (SondeSymbolTable *self, uint64_t n_bytes)
{
  if (n_bytes > SONDE_SYMBOL_TABLE_MAX_BYTES - self->n_bytes)
    return -EFBIG;
  self->n_bytes += n_bytes;
  return 0;
}

static size_t
symbol_bytes (const SondeElfFile *elf)
{
  return elf->is_32_bit ? sizeof (Elf32_Sym) : sizeof (Elf64_Sym);
}

/* Narrow symbols are widened where they were read, the last one first. */
static int
read_chunk (const SondeElfFile *elf, uint64_t offset, Elf64_Sym *symbols, size_t n)
{
  Elf32_Sym narrow;
  int r = sonde_elf_file_read (elf, offset, symbols, n * symbol_bytes (elf));

  for (size_t i = n; elf->is_32_bit && i-- > 0 && r == 0;)
    {
      memcpy (&narrow, (const uint8_t *) symbols + i * sizeof narrow, sizeof narrow);
      symbols[i] = (Elf64_Sym){
        .st_name = narrow.st_name,
        .st_info = narrow.st_info,
        .st_other = narrow.st_other,
        .st_shndx = narrow.st_shndx,
        .st_value = narrow.st_value,
        .st_size = narrow.st_size,
      };
    }
  return r;
}

/* Adds the bytes of a section to the names, with a NUL behind them. */
static int
read_names (SondeSymbolTable *self, const Elf64_Shdr *section)
{
  char *names;
  int r = charge (self, section->sh_size + 1);

  if (r < 0)
    return r;
  names = realloc (self->names, self->names_size + section->sh_size + 1);
  if (names == NULL)
    return -ENOMEM;
  self->names = names;
  r = sonde_elf_file_read (&self->elf, section->sh_offset, names + self->names_size,
                           section->sh_size);
  if (r < 0)
    return r;
  self->names_size += section->sh_size;
  names[self->names_size++] = '\0';
  return 0;
}

static int
read_symbols (SondeSymbolTable *self, const Elf64_Shdr *section)
{
  const Elf64_Shdr *strings = &self->sections[section->sh_link];
  size_t names_offset = self->names_size;
  size_t n_symbols = section->sh_size / symbol_bytes (&self->elf);
  Elf64_Sym *chunk;
  int r = charge (self, section->sh_size);

  if (r == 0)
    r = read_names (self, strings);
  if (r < 0)
    return r;

  chunk = calloc (SYMBOLS_PER_READ, sizeof *chunk);
  if (chunk == NULL)
    return -ENOMEM;

  for (size_t done = 0; done < n_symbols && r == 0; done += SYMBOLS_PER_READ)
    {
      size_t left = n_symbols - done;
      size_t n = left < SYMBOLS_PER_READ ? left : SYMBOLS_PER_READ;

      r = read_chunk (&self->elf, section->sh_offset + done * symbol_bytes (&self->elf), chunk, n);
      for (size_t i = 0; i < n && r == 0; i++)
        r = take_symbol (self, &chunk[i], names_offset, strings->sh_size);
    }
  free (chunk);
  return r;
}

/* A table that can be read; others in the same file may be sound. */
static bool
is_symbol_table (const SondeSymbolTable *self, const Elf64_Shdr *section)
{
  const Elf64_Shdr *strings;

  if ((section->sh_type != SHT_SYMTAB && section->sh_type != SHT_DYNSYM)
      || section->sh_entsize != symbol_bytes (&self->elf)
      || (section->sh_flags & SHF_COMPRESSED) != 0 || section->sh_link >= self->elf.n_sections)
    return false;
  strings = &self->sections[section->sh_link];
  return strings->sh_type == SHT_STRTAB && (strings->sh_flags & SHF_COMPRESSED) == 0
         && sonde_elf_file_holds (&self->elf, section->sh_offset, section->sh_size)
         && sonde_elf_file_holds (&self->elf, strings->sh_offset, strings->sh_size);
}

static int
compare_symbols (const void *a, const void *b, void *names)
{
  const FileSymbol *left = a;
  const FileSymbol *right = b;

  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  if (left->rank != right->rank)
    return left->rank < right->rank ? -1 : 1;
  return sonde_name_compare ((char *) names + left->name, (char *) names + right->name);
}

/* One symbol for each address, with the longest size that any of its names has. Where the file
 * gives no size, a symbol goes up to the next one or to the end of its section. */
static void
sort (SondeSymbolTable *self)
{
  size_t n_kept = 0;

  if (self->n_symbols == 0)
    return;
  qsort_r (self->symbols, self->n_symbols, sizeof *self->symbols, compare_symbols, self->names);
  for (size_t i = 0; i < self->n_symbols; i++)
    {
      FileSymbol *last = n_kept > 0 ? &self->symbols[n_kept - 1] : NULL;

      if (last == NULL || last->begin != self->symbols[i].begin)
        self->symbols[n_kept++] = self->symbols[i];
      else if (self->symbols[i].end > last->end)
        last->end = self->symbols[i].end;
    }
  self->n_symbols = n_kept;

  for (size_t i = 0; i < n_kept; i++)
    {
      FileSymbol *symbol = &self->symbols[i];
      uint64_t next = i + 1 < n_kept ? self->symbols[i + 1].begin : UINT64_MAX;

      if (symbol->end == 0)
        symbol->end = next < symbol->limit ? next : symbol->limit;
      if (symbol->end == UINT64_MAX) /* the last one, in no section */
        symbol->end = symbol->begin + 1;
    }
}

static bool
has_own_symbols (const SondeSymbolTable *self)
{
  for (size_t i = 0; i < self->elf.n_sections; i++)
    if (self->sections[i].sh_type == SHT_SYMTAB)
      return true;
  return false;
}

/* The functions of a Go program without .symtab, by the table of its own runtime. */
static int
read_go_functions (SondeSymbolTable *self)
{
  const size_t names_offset = self->names_size;
  Elf64_Shdr section;
  Elf64_Shdr text = { 0 };
  SondeGoTable table;
  int r;

  if (self->elf.is_32_bit || has_own_symbols (self)
      || (!sonde_elf_file_find_section (&self->elf, ".gopclntab", SHT_PROGBITS, &section)
          && !sonde_elf_file_find_section (&self->elf, ".data.rel.ro.gopclntab", SHT_PROGBITS,
                                           &section))
      || (section.sh_flags & SHF_COMPRESSED) != 0)
    return 0;
  sonde_elf_file_find_section (&self->elf, ".text", SHT_PROGBITS, &text);
  r = read_names (self, &section);
  if (r < 0
      || !sonde_go_table_parse (&table, (const uint8_t *) self->names + names_offset,
                                section.sh_size, text.sh_addr, self->elf.header.e_entry))
    return r;
  for (size_t i = 0; i < table.n_functions && r == 0; i++)
    {
      SondeGoFunction function;
      FileSymbol taken = { .limit = UINT64_MAX };

      if (!sonde_go_table_get (&table, i, &function)
          || sonde_go_table_name (&table, &function) == NULL)
        continue;
      taken.begin = function.begin;
      taken.end = function.end;
      taken.name = (uint32_t) (names_offset + function.name);
      r = charge (self, sizeof taken);
      if (r == 0)
        r = append (self, &taken);
    }
  return r;
}

int
sonde_symbol_table_new (int fd, SondeSymbolTable **self)
{
  SondeSymbolTable *result = calloc (1, sizeof *result);
  size_t n_sections;
  int r;

  if (result == NULL)
    return -ENOMEM;
  r = sonde_elf_file_load (&result->elf, fd);
  n_sections = result->elf.n_sections;
  if (r == 0 && (result->sections = calloc (n_sections + 1, sizeof *result->sections)) == NULL)
    r = -ENOMEM;
  if (r == 0)
    r = sonde_elf_file_read_section_headers (&result->elf, 0, result->sections, n_sections);
  for (size_t i = 0; i < n_sections && r == 0; i++)
    if (is_symbol_table (result, &result->sections[i]))
      r = read_symbols (result, &result->sections[i]);
  if (r == 0)
    r = read_go_functions (result);
  free (result->sections);
  result->sections = NULL;
  if (r == 0)
    {
      sort (result);
      r = result->n_symbols > 0 ? 0 : -ENODATA;
    }
  if (r < 0)
    {
      sonde_symbol_table_free (result);
      return r;
    }
  *self = result;
  return 0;
}

void
sonde_symbol_table_free (SondeSymbolTable *self)
{
  if (self == NULL)
    return;
  sonde_elf_file_clear (&self->elf);
  free (self->symbols);
  free (self->names);
  free (self);
}

size_t
sonde_symbol_table_n_symbols (const SondeSymbolTable *self)
{
  return self->n_symbols;
}

bool
sonde_symbol_table_lookup (const SondeSymbolTable *self, uint64_t vaddr, SondeSymbol *symbol)
{
  size_t low = 0;
  size_t high = self->n_symbols;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (self->symbols[middle].begin <= vaddr)
        low = middle + 1;
      else
        high = middle;
    }
  /* The nearest may be a label within the function, and end before @vaddr. */
  for (size_t n = 0; low > 0 && n < MAX_NESTING; n++)
    {
      const FileSymbol *found = &self->symbols[--low];

      if (vaddr < found->end)
        {
          *symbol = (SondeSymbol){ found->begin, found->end, self->names + found->name };
          return true;
        }
    }
  return false;
}

bool
sonde_symbol_table_vaddr (const SondeSymbolTable *self, uint64_t file_offset, uint64_t *vaddr)
{
  return sonde_elf_vaddr (self->elf.loads, self->elf.n_loads, file_offset, vaddr);
}
