/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/sled-map.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared-ring/ring-atomic.h"

#define MAX_HEADERS  128u   /* of segments */
#define MAX_SECTIONS 65535u /* more have their number elsewhere */
#define SECTION_STEP 32u    /* that are read at a time */

static const char sled_section[] = "xray_instr_map";
static const char begin_section[] = "__patchable_function_entries";

/* --- the section --- */

/* Errors: -EBADMSG the file ends before */
static int
read_at (int fd, void *data, size_t size_bytes, uint64_t offset)
{
  ssize_t n;

  if (offset > (uint64_t) INT64_MAX - size_bytes)
    return -EBADMSG;
  n = pread (fd, data, size_bytes, (off_t) offset);
  return n < 0 ? -errno : (size_t) n == size_bytes ? 0 : -EBADMSG;
}

/* Whether what is loaded came from this file: all that says how to load it is alike. */
static int
check_file (int fd, const ElfW (Ehdr) * header, const struct dl_phdr_info *info)
{
  ElfW (Phdr) segments[MAX_HEADERS];
  int r;

  if (memcmp (header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64
      || header->e_machine != EM_X86_64 || header->e_phentsize != sizeof segments[0]
      || header->e_phnum != info->dlpi_phnum || info->dlpi_phnum > MAX_HEADERS)
    return -ESTALE;
  r = read_at (fd, segments, header->e_phnum * sizeof segments[0], header->e_phoff);
  if (r < 0)
    return r == -EBADMSG ? -ESTALE : r;
  return memcmp (segments, info->dlpi_phdr, header->e_phnum * sizeof segments[0]) == 0 ? 0
                                                                                       : -ESTALE;
}

/* Whether a place is in what was loaded of the file, and can be read. */
static bool
is_loaded (const struct dl_phdr_info *info, uint64_t vaddr, uint64_t size_bytes)
{
  for (uint32_t i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW (Phdr) *segment = &info->dlpi_phdr[i];

      if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) != 0 && vaddr >= segment->p_vaddr
          && segment->p_filesz >= size_bytes
          && vaddr - segment->p_vaddr <= segment->p_filesz - size_bytes)
        return true;
    }
  return false;
}

/* A section that may be the one, but for its name. */
static bool
is_candidate (const ElfW (Shdr) * section)
{
  return section->sh_type == SHT_PROGBITS && (section->sh_flags & SHF_ALLOC) != 0
         && section->sh_size > 0;
}

/* @names: where in the file the names of sections are. Returns: the name, or what fits, or "" */
static int
read_name (int fd, const ElfW (Shdr) * section, const ElfW (Shdr) * names, char *name, size_t size)
{
  const uint64_t offset = names->sh_offset;
  const uint64_t rest
      = section->sh_name < names->sh_size ? (uint64_t) names->sh_size - section->sh_name : 0;

  memset (name, 0, size);
  if (rest == 0 || offset > UINT64_MAX - names->sh_size)
    return 0;
  return read_at (fd, name, rest < size ? (size_t) rest : size, offset + section->sh_name);
}

/* Errors: -EBADMSG it is one of the two, but cannot be */
static int
take_section (int fd,
              const ElfW (Shdr) * section,
              const ElfW (Shdr) * names,
              const struct dl_phdr_info *info,
              SondeSledMap *map)
{
  char name[sizeof begin_section];
  size_t entry_bytes;
  bool is_sleds;
  int r = read_name (fd, section, names, name, sizeof name);

  if (r < 0)
    return r;
  is_sleds = memcmp (name, sled_section, sizeof sled_section) == 0;
  if (!is_sleds && memcmp (name, begin_section, sizeof begin_section) != 0)
    return 0;
  entry_bytes = is_sleds ? SONDE_SLED_MAP_ENTRY_BYTES : sizeof (uint64_t);
  if (section->sh_size % entry_bytes != 0 || section->sh_size / entry_bytes > SONDE_SLED_MAX_ENTRIES
      || !is_loaded (info, section->sh_addr, section->sh_size))
    return -EBADMSG;

  *(is_sleds ? &map->map : &map->addresses) = info->dlpi_addr + section->sh_addr;
  *(is_sleds ? &map->n_entries : &map->n_addresses) = (uint32_t) (section->sh_size / entry_bytes);
  return 0;
}

static int
find_sections (int fd,
               const ElfW (Ehdr) * header,
               const struct dl_phdr_info *info,
               SondeSledMap *map)
{
  const uint64_t offset = header->e_shoff;
  ElfW (Shdr) sections[SECTION_STEP], names;
  uint32_t n_read;
  int r;

  if (header->e_shnum == 0)
    return -ENOENT;
  if (header->e_shentsize != sizeof sections[0] || header->e_shstrndx >= header->e_shnum
      || offset > (uint64_t) INT64_MAX - MAX_SECTIONS * sizeof sections[0])
    return -EBADMSG;
  r = read_at (fd, &names, sizeof names, offset + header->e_shstrndx * sizeof sections[0]);

  for (uint32_t i = 0; i < header->e_shnum && r == 0; i += n_read)
    {
      n_read = header->e_shnum - i < SECTION_STEP ? header->e_shnum - i : SECTION_STEP;
      r = read_at (fd, sections, n_read * sizeof sections[0], offset + i * sizeof sections[0]);
      for (uint32_t j = 0; j < n_read && r == 0; j++)
        if (is_candidate (&sections[j]))
          r = take_section (fd, &sections[j], &names, info, map);
    }
  if (r == 0 && map->n_entries == 0 && map->n_addresses == 0)
    r = -ENOENT;
  return r;
}

/* As it lies in memory: the encodings that linkers use. */
typedef struct
{
  uint8_t version;
  uint8_t pointer_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  uint32_t pointer;
  uint32_t n_frames;
} FrameHeader;

typedef struct
{
  int32_t function; /* from the header */
  int32_t frame;
} FrameRow;

/* sdata4 from where it is, udata4, and sdata4 from the header. Source: LSB Core, "DWARF Exception
 * Header Encoding" */
static const uint8_t usual_frames[] = { 1, 0x1b, 0x03, 0x3b };

/* Where functions begin; else none is known. */
static void
find_frames (const struct dl_phdr_info *info, SondeSledMap *map)
{
  FrameHeader header;

  for (uint32_t i = 0; i < info->dlpi_phnum && map->n_frames == 0; i++)
    {
      const ElfW (Phdr) *segment = &info->dlpi_phdr[i];
      const uint64_t at = info->dlpi_addr + segment->p_vaddr;

      if (segment->p_type != PT_GNU_EH_FRAME || segment->p_memsz < sizeof header
          || !is_loaded (info, segment->p_vaddr, segment->p_memsz))
        continue;
      memcpy (&header, (const void *) (uintptr_t) at, sizeof header);
      if (memcmp (&header, usual_frames, sizeof usual_frames) != 0
          || header.n_frames > (segment->p_memsz - sizeof header) / sizeof (FrameRow))
        continue;
      map->frames = at;
      map->n_frames = header.n_frames;
    }
}

static void
find_texts (const struct dl_phdr_info *info, SondeSledMap *map)
{
  for (uint32_t i = 0; i < info->dlpi_phnum && map->n_texts < SONDE_SLED_MAX_SEGMENTS; i++)
    {
      const ElfW (Phdr) *segment = &info->dlpi_phdr[i];
      const uint64_t lo = info->dlpi_addr + segment->p_vaddr;

      if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_R | PF_X)) != (PF_R | PF_X))
        continue;
      map->text[map->n_texts] = (SondeSledRange){ lo, lo + segment->p_filesz };
      map->protection[map->n_texts]
          = PROT_READ | PROT_EXEC | ((segment->p_flags & PF_W) != 0 ? PROT_WRITE : 0);
      map->n_texts++;
    }
}

int
sonde_sled_map_find (int fd, const struct dl_phdr_info *info, SondeSledMap *map)
{
  SondeSledMap found = { 0 };
  ElfW (Ehdr) header;
  int r = read_at (fd, &header, sizeof header, 0);

  if (r == -EBADMSG)
    r = -ESTALE;
  if (r == 0)
    r = check_file (fd, &header, info);
  if (r == 0)
    r = find_sections (fd, &header, info, &found);
  if (r < 0)
    return r;

  find_texts (info, &found);
  if (found.n_addresses > 0)
    find_frames (info, &found);
  *map = found;
  return 0;
}

/* --- entries --- */

/* As they lie in the file. */
enum
{
  AT_SLED = 0,
  AT_FUNCTION = 8,
  AT_KIND = 16,
  AT_VERSION = 18,
  AT_PADDING = 19,
};

/* The numbers of LLVM. */
enum
{
  KIND_ENTRY = 0,
  KIND_EXIT = 1,
  KIND_TAIL = 2,
  KIND_ENTRY_WITH_ARGUMENTS = 3,
  KIND_EVENT = 4,
  KIND_TYPED_EVENT = 5,
};

/* From this version on an address is told from where it is. */
#define RELATIVE_VERSION 2

/* Returns: @n_texts if it is in none */
static uint32_t
find_text (const SondeSledMap *map, uint64_t address, uint64_t size_bytes)
{
  uint32_t i = 0;

  while (i < map->n_texts
         && (address < map->text[i].lo || address >= map->text[i].hi
             || map->text[i].hi - address < size_bytes))
    i++;
  return i;
}

SondeSledVerdict
sonde_sled_map_judge (const SondeSledMap *map,
                      const uint8_t entry[SONDE_SLED_MAP_ENTRY_BYTES],
                      uint64_t address,
                      SondeSled *sled)
{
  static const SondeSledKind kinds[] = {
    [KIND_ENTRY] = SONDE_SLED_ENTRY,
    [KIND_EXIT] = SONDE_SLED_EXIT,
    [KIND_TAIL] = SONDE_SLED_TAIL,
    [KIND_ENTRY_WITH_ARGUMENTS] = SONDE_SLED_ENTRY,
  };
  const uint8_t kind = entry[AT_KIND];
  uint64_t place, function;
  uint32_t text;

  /* It may lie anywhere. */
  memcpy (&place, entry + AT_SLED, sizeof place);
  memcpy (&function, entry + AT_FUNCTION, sizeof function);
  if (entry[AT_VERSION] > RELATIVE_VERSION)
    return SONDE_SLED_FAULT_VERSION;
  for (uint32_t i = AT_PADDING; i < SONDE_SLED_MAP_ENTRY_BYTES; i++)
    if (entry[i] != 0)
      return SONDE_SLED_FAULT_PADDING;
  if (kind == KIND_EVENT || kind == KIND_TYPED_EVENT)
    return SONDE_SLED_EVENT;
  if (kind > KIND_TYPED_EVENT)
    return SONDE_SLED_FAULT_KIND;
  if (entry[AT_VERSION] == RELATIVE_VERSION)
    {
      place += address + AT_SLED;
      function += address + AT_FUNCTION;
    }
  text = find_text (map, place, SONDE_SLED_BYTES);
  if (text == map->n_texts || find_text (map, function, 1) == map->n_texts)
    return SONDE_SLED_FAULT_OUTSIDE;
  if (place % 2 != 0)
    return SONDE_SLED_FAULT_ODD;

  *sled = (SondeSled){ place, function, kinds[kind], text };
  return SONDE_SLED_OK;
}

/* Whether a function begins there. */
static bool
is_function (const SondeSledMap *map, uint64_t address)
{
  const uint8_t *rows = (const uint8_t *) (uintptr_t) (map->frames + sizeof (FrameHeader));
  uint32_t lo = 0;
  uint32_t hi = map->n_frames;

  while (lo < hi)
    {
      const uint32_t middle = lo + (hi - lo) / 2;
      uint64_t function;
      FrameRow row;

      memcpy (&row, rows + (size_t) middle * sizeof row, sizeof row);
      function = map->frames + (uint64_t) (int64_t) row.function;
      if (function == address)
        return true;
      if (function < address)
        lo = middle + 1;
      else
        hi = middle;
    }
  return false;
}

static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

SondeSledVerdict
sonde_sled_map_judge_begin (const SondeSledMap *map, uint64_t address, SondeSled *sled)
{
  const uint32_t text = find_text (map, address, SONDE_SLED_BEGIN_BYTES);
  const uint64_t before = address - sizeof endbr64;

  if (text == map->n_texts)
    return SONDE_SLED_FAULT_OUTSIDE;
  if (!is_function (map, address)
      && (before < map->text[text].lo || !is_function (map, before)
          || memcmp ((const void *) (uintptr_t) before, endbr64, sizeof endbr64) != 0))
    return SONDE_SLED_FAULT_INSIDE;
  *sled = (SondeSled){ address, address, SONDE_SLED_BEGIN, text };
  return SONDE_SLED_OK;
}

/* --- bytes ---
 *
 * At a function's beginning, and before a tail call: a short jump across the rest. We write a call
 * into the rest, and have the jump lead there: its second byte is how far it goes. At its end: a
 * return. We write a jump behind it, and have it do nothing. Of SONDE_SLED_BEGIN there is nothing
 * but what we write the call in place of. */

#define JUMP_SHORT    0xeb
#define ACROSS        0x09
#define RETURN        0xc3
#define NOTHING       0x90
#define CALL          0xe8
#define JUMP          0xe9

#define ENTRY_CALL_AT 2u /* in the sled */
#define EXIT_JUMP_AT  1u
#define BRANCH_BYTES  5u

static const uint8_t behind_call[] = { 0x0f, 0x1f, 0x40, 0x00 };

/* How long the instruction is that does nothing; 0: it is another one. Which ones are written
 * depends on the processor that is built for. */
static uint32_t
nothing_bytes (const uint8_t *code, uint32_t size_bytes)
{
  uint32_t n = 0;
  uint8_t form;

  while (n < size_bytes && (code[n] == 0x66 || code[n] == 0x2e))
    n++;
  if (n < size_bytes && code[n] == NOTHING)
    return n + 1;
  if (size_bytes - n < 3 || code[n] != 0x0f || code[n + 1] != 0x1f)
    return 0;
  form = code[n + 2];
  /* Its operand: a base and an index or not, and an offset of 0, 1 or 4 bytes. */
  n += (form & 7) == 4 ? 4 : 3;
  switch (form >> 6)
    {
    case 0:
      return (form & 7) == 5 || (form & 7) == 4 ? 0 : n;
    case 1:
      return n + 1;
    case 2:
      return n + 4;
    default:
      return 0;
    }
}

static bool
does_nothing (const uint8_t *code, uint32_t size_bytes)
{
  while (size_bytes > 0)
    {
      uint32_t n = nothing_bytes (code, size_bytes);

      if (n == 0 || n > size_bytes)
        return false;
      code += n;
      size_bytes -= n;
    }
  return true;
}

static uint32_t
distance (uint64_t from, uint64_t to)
{
  return (uint32_t) (to - from);
}

/* Where in a sled the branch is. */
static uint32_t
branch_at (const SondeSled *sled)
{
  static const uint32_t places[SONDE_SLED_N_KINDS] = {
    [SONDE_SLED_ENTRY] = ENTRY_CALL_AT,
    [SONDE_SLED_EXIT] = EXIT_JUMP_AT,
    [SONDE_SLED_TAIL] = ENTRY_CALL_AT,
    [SONDE_SLED_BEGIN] = 0,
  };

  return places[sled->kind];
}

/* What the branch in a sled is when it is ready. */
static void
make_branch (const SondeSled *sled, uint64_t target, uint8_t branch[BRANCH_BYTES])
{
  const bool is_exit = sled->kind == SONDE_SLED_EXIT;
  const uint64_t at = sled->address + branch_at (sled);
  const uint32_t offset = distance (at + BRANCH_BYTES, target);

  branch[0] = is_exit ? JUMP : CALL;
  memcpy (branch + 1, &offset, sizeof offset);
}

SondeSledState
sonde_sled_look (const SondeSled *sled, const uint8_t *code, uint64_t target)
{
  const bool is_exit = sled->kind == SONDE_SLED_EXIT;
  uint8_t branch[BRANCH_BYTES];
  bool is_ready, is_on;

  make_branch (sled, target, branch);
  if (sled->kind == SONDE_SLED_BEGIN)
    return memcmp (code, branch, sizeof branch) == 0     ? SONDE_SLED_ON
           : does_nothing (code, SONDE_SLED_BEGIN_BYTES) ? SONDE_SLED_FRESH
                                                         : SONDE_SLED_OTHER;
  if (is_exit)
    {
      is_ready = memcmp (code + EXIT_JUMP_AT, branch, sizeof branch) == 0;
      is_on = code[0] == NOTHING;
      if (code[0] != RETURN && !is_on)
        return SONDE_SLED_OTHER;
      if (!is_ready)
        return !is_on && does_nothing (code + 1, SONDE_SLED_BYTES - 1) ? SONDE_SLED_FRESH
                                                                       : SONDE_SLED_OTHER;
    }
  else
    {
      is_ready
          = memcmp (code + ENTRY_CALL_AT, branch, sizeof branch) == 0
            && memcmp (code + ENTRY_CALL_AT + BRANCH_BYTES, behind_call, sizeof behind_call) == 0;
      is_on = code[1] == 0;
      if (code[0] != JUMP_SHORT || (code[1] != ACROSS && !is_on))
        return SONDE_SLED_OTHER;
      if (!is_ready)
        return !is_on && does_nothing (code + 2, SONDE_SLED_BYTES - 2) ? SONDE_SLED_FRESH
                                                                       : SONDE_SLED_OTHER;
    }
  return is_on ? SONDE_SLED_ON : SONDE_SLED_READY;
}

void
sonde_sled_prepare (const SondeSled *sled, uint8_t *code, uint64_t target)
{
  uint8_t branch[BRANCH_BYTES];

  make_branch (sled, target, branch);
  memcpy (code + branch_at (sled), branch, sizeof branch);
  if (sled->kind == SONDE_SLED_ENTRY || sled->kind == SONDE_SLED_TAIL)
    memcpy (code + ENTRY_CALL_AT + BRANCH_BYTES, behind_call, sizeof behind_call);
}

void
sonde_sled_switch (const SondeSled *sled, uint8_t *code, bool is_on)
{
  if (sled->kind == SONDE_SLED_EXIT)
    __atomic_store_n (&code[0], is_on ? NOTHING : RETURN, __ATOMIC_RELEASE);
  else
    __atomic_store_n (&code[1], is_on ? 0 : ACROSS, __ATOMIC_RELEASE);
}
