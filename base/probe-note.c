/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/probe-note.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_OWNER "stapsdt"
#define NOTE_TYPE  3
#define BASE_NAME  ".stapsdt.base"

/* --- notes --- */

/* What a note begins with, behind its header and its owner. */
typedef struct
{
  uint64_t pc;
  uint64_t base; /* address of BASE_NAME, when it was linked */
  uint64_t semaphore;
} Addresses;

typedef struct
{
  Elf64_Nhdr header; /* of both classes alike */
  char owner[sizeof NOTE_OWNER];
} NoteBegin;

_Static_assert(sizeof (NoteBegin) == 20, "the owner of 8 bytes is aligned");

static uint64_t
note_size (const NoteBegin *begin)
{
  return sizeof *begin + (((uint64_t) begin->header.n_descsz + 3) & ~UINT64_C (3));
}

static bool
is_probe_note (const NoteBegin *begin)
{
  return begin->header.n_type == NOTE_TYPE && begin->header.n_namesz == sizeof NOTE_OWNER
         && memcmp (begin->owner, NOTE_OWNER, sizeof NOTE_OWNER) == 0;
}

static bool
take_text (const char **at, size_t *left, const char **text)
{
  const char *end = memchr (*at, '\0', *left);

  if (end == NULL)
    return false;
  *text = *at;
  *left -= (size_t) (end + 1 - *at);
  *at = end + 1;
  return true;
}

/* Addresses were those of the file when it was linked: a tool that moved it left the notes as they
 * were, but moved that section. */
static uint64_t
moved_by (const SondeElfFile *file, uint64_t linked_base)
{
  Elf64_Shdr section;

  if (!sonde_elf_file_find_section (file, BASE_NAME, SHT_PROGBITS, &section))
    return 0;
  return section.sh_addr - linked_base;
}

/* Where @size_bytes at @vaddr lie in the file, in a segment of that kind. */
static bool
locate (const SondeElfFile *file,
        uint64_t vaddr,
        uint64_t size_bytes,
        bool executable,
        uint64_t *offset)
{
  for (size_t i = 0; i < file->n_loads; i++)
    {
      const SondeElfSegment *load = &file->loads[i];
      uint64_t distance = vaddr - load->vaddr;

      if (vaddr < load->vaddr || distance >= load->file_size_bytes
          || size_bytes > load->file_size_bytes - distance || load->executable != executable)
        continue;
      *offset = load->offset + distance;
      return sonde_elf_file_holds (file, *offset, size_bytes);
    }
  return false;
}

static bool
take_addresses (const SondeElfFile *file, const char **at, size_t *left, Addresses *addresses)
{
  uint32_t narrow[3];
  size_t size_bytes = file->is_32_bit ? sizeof narrow : sizeof *addresses;

  if (*left < size_bytes)
    return false;
  if (file->is_32_bit)
    {
      memcpy (narrow, *at, sizeof narrow);
      *addresses = (Addresses){ narrow[0], narrow[1], narrow[2] };
    }
  else
    memcpy (addresses, *at, sizeof *addresses);
  *at += size_bytes;
  *left -= size_bytes;
  return true;
}

/* @begin: of the note at @note */
static int
read_probe (const SondeElfFile *file,
            uint64_t note,
            const NoteBegin *begin,
            const char *wanted,
            SondeProbe *probe)
{
  char bytes[SONDE_PROBE_NOTE_BYTES];
  const char *at = bytes;
  size_t left = begin->header.n_descsz;
  const char *provider, *name, *arguments;
  SondeProbe found = { .note = note };
  Addresses addresses;
  uint64_t moved;
  int r;

  if (left > sizeof bytes)
    return -ENOENT;
  r = sonde_elf_file_read (file, note + sizeof *begin, bytes, left);
  if (r < 0)
    return r;
  if (!take_addresses (file, &at, &left, &addresses) || !take_text (&at, &left, &provider)
      || !take_text (&at, &left, &name) || !take_text (&at, &left, &arguments))
    return -EBADMSG;
  if (strcmp (provider, wanted) != 0 || strlen (name) >= sizeof found.name
      || strlen (arguments) >= sizeof found.arguments)
    return -ENOENT;
  moved = moved_by (file, addresses.base);
  if (!locate (file, addresses.pc + moved, 1, true, &found.site)
      || (addresses.semaphore != 0
          && !locate (file, addresses.semaphore + moved, sizeof (uint16_t), false,
                      &found.semaphore)))
    return -EBADMSG;
  memcpy (found.name, name, strlen (name) + 1);
  memcpy (found.arguments, arguments, strlen (arguments) + 1);
  *probe = found;
  return 0;
}

int
sonde_probe_read (const SondeElfFile *file, uint64_t note, const char *provider, SondeProbe *probe)
{
  NoteBegin begin;
  int r = sonde_elf_file_read (file, note, &begin, sizeof begin);

  if (r < 0)
    return r;
  return is_probe_note (&begin) ? read_probe (file, note, &begin, provider, probe) : -EBADMSG;
}

/* Most are others'. */
static bool
has_provider (const SondeElfFile *file, const uint8_t *note, size_t size_bytes, const char *wanted)
{
  size_t at = sizeof (NoteBegin) + (file->is_32_bit ? 3 * sizeof (uint32_t) : sizeof (Addresses));
  size_t length = strlen (wanted) + 1;

  return at <= size_bytes && length <= size_bytes - at && memcmp (note + at, wanted, length) == 0;
}

int
sonde_probes_find (const SondeElfFile *file, const char *provider, SondeProbe *probes, size_t n_max)
{
  Elf64_Shdr section;
  uint8_t *notes;
  uint64_t at = 0;
  size_t size_bytes;
  size_t n = 0;
  int r;

  if (!sonde_elf_file_find_section (file, SONDE_PROBE_SECTION, SHT_NOTE, &section)
      || section.sh_size == 0)
    return 0;
  size_bytes
      = section.sh_size < SONDE_PROBE_SECTION_BYTES ? section.sh_size : SONDE_PROBE_SECTION_BYTES;
  notes = malloc (size_bytes);
  if (notes == NULL)
    return -ENOMEM;
  r = sonde_elf_file_read (file, section.sh_offset, notes, size_bytes);
  while (r == 0 && n < n_max && at <= size_bytes && size_bytes - at >= sizeof (NoteBegin))
    {
      NoteBegin begin;

      memcpy (&begin, notes + at, sizeof begin);
      /* One of another kind says how long it is in other words. */
      if (!is_probe_note (&begin))
        break;
      if (has_provider (file, notes + at, size_bytes - at, provider))
        {
          r = read_probe (file, section.sh_offset + at, &begin, provider, &probes[n]);
          n += r == 0;
        }
      if (r == -ENOENT || r == -EBADMSG)
        r = 0;
      at += note_size (&begin);
    }
  free (notes);
  return r < 0 ? r : (int) n;
}

/* --- arguments --- */

/* As perf numbers them: PERF_REG_X86_*. */
static const struct
{
  const char *names[4]; /* of 8, 4, 2 and 1 bytes */
  int number;
} registers[] = {
  { { "rax", "eax", "ax", "al" }, 0 },
  { { "rbx", "ebx", "bx", "bl" }, 1 },
  { { "rcx", "ecx", "cx", "cl" }, 2 },
  { { "rdx", "edx", "dx", "dl" }, 3 },
  { { "rsi", "esi", "si", "sil" }, 4 },
  { { "rdi", "edi", "di", "dil" }, 5 },
  { { "rbp", "ebp", "bp", "bpl" }, 6 },
  { { "rsp", "esp", "sp", "spl" }, SONDE_PROBE_STACK_POINTER },
  { { "r8", "r8d", "r8w", "r8b" }, 16 },
  { { "r9", "r9d", "r9w", "r9b" }, 17 },
  { { "r10", "r10d", "r10w", "r10b" }, 18 },
  { { "r11", "r11d", "r11w", "r11b" }, 19 },
  { { "r12", "r12d", "r12w", "r12b" }, 20 },
  { { "r13", "r13d", "r13w", "r13b" }, 21 },
  { { "r14", "r14d", "r14w", "r14b" }, 22 },
  { { "r15", "r15d", "r15w", "r15b" }, 23 },
};

/* "%rdi" */
static bool
parse_register (const char **text, int *number)
{
  const char *name = *text + 1;
  size_t length = 0;

  if (**text != '%')
    return false;
  while ((name[length] >= 'a' && name[length] <= 'z')
         || (name[length] >= '0' && name[length] <= '9'))
    length++;
  for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++)
    for (size_t j = 0; j < 4; j++)
      if (strlen (registers[i].names[j]) == length
          && memcmp (registers[i].names[j], name, length) == 0)
        {
          *number = registers[i].number;
          *text = name + length;
          return true;
        }
  return false;
}

/* A number in C's notation; strtoll() alone would take blanks before it. */
static bool
parse_number (const char **text, int64_t *number)
{
  char first = **text == '-' ? (*text)[1] : **text;
  char *end;

  if (first < '0' || first > '9')
    return false;
  errno = 0;
  *number = strtoll (*text, &end, 0);
  *text = end;
  return errno == 0;
}

static bool
skip (const char **text, char character)
{
  if (**text != character)
    return false;
  (*text)++;
  return true;
}

/* "8(%rbp)", "(%rax,%rbx,4)" */
static bool
parse_memory (const char **text, SondeProbeOperand *operand)
{
  int64_t scale = 1;

  operand->kind = SONDE_PROBE_MEMORY;
  if (**text != '(' && !parse_number (text, &operand->displacement))
    return false;
  if (!skip (text, '('))
    return false;
  if (**text == '%' && !parse_register (text, &operand->base))
    return false;
  if (skip (text, ','))
    {
      if (!parse_register (text, &operand->index))
        return false;
      if (skip (text, ',') && !parse_number (text, &scale))
        return false;
    }
  operand->scale = (unsigned) scale;
  return (scale == 1 || scale == 2 || scale == 4 || scale == 8) && skip (text, ')')
         && (operand->base >= 0 || operand->index >= 0);
}

static bool
parse_operand (const char **text, SondeProbeOperand *operand)
{
  int64_t size_bytes;

  *operand = (SondeProbeOperand){ .base = -1, .index = -1, .scale = 1 };
  if (!parse_number (text, &size_bytes) || !skip (text, '@'))
    return false;
  operand->is_signed = size_bytes < 0;
  if (size_bytes < -8 || size_bytes > 8)
    return false;
  operand->size_bytes = (unsigned) (size_bytes < 0 ? -size_bytes : size_bytes);
  if (operand->size_bytes != 1 && operand->size_bytes != 2 && operand->size_bytes != 4
      && operand->size_bytes != 8)
    return false;
  if (**text == '%')
    {
      operand->kind = SONDE_PROBE_REGISTER;
      return parse_register (text, &operand->base);
    }
  if (skip (text, '$'))
    {
      operand->kind = SONDE_PROBE_CONSTANT;
      return parse_number (text, &operand->displacement);
    }
  return parse_memory (text, operand);
}

int
sonde_probe_parse_arguments (const char *text,
                             SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS])
{
  int n = 0;

  while (*text != '\0')
    {
      if (n == SONDE_PROBE_MAX_ARGUMENTS || !parse_operand (&text, &operands[n])
          || (*text != '\0' && !skip (&text, ' ')))
        return -ENOTSUP;
      n++;
    }
  return n;
}

static bool
read_register (const SondeProbeState *state, int number, uint64_t *value)
{
  uint64_t bit = UINT64_C (1) << number;
  size_t at = (size_t) __builtin_popcountll (state->mask & (bit - 1));

  if ((state->mask & bit) == 0 || at >= state->n_registers)
    return false;
  *value = state->registers[at];
  return true;
}

static bool
read_memory (const SondeProbeOperand *operand, const SondeProbeState *state, uint64_t *value)
{
  uint64_t address = (uint64_t) operand->displacement;
  uint64_t part, stack_pointer;

  if (operand->base >= 0)
    {
      if (!read_register (state, operand->base, &part))
        return false;
      address += part;
    }
  if (operand->index >= 0)
    {
      if (!read_register (state, operand->index, &part))
        return false;
      address += part * operand->scale;
    }
  if (!read_register (state, SONDE_PROBE_STACK_POINTER, &stack_pointer) || address < stack_pointer
      || address - stack_pointer > state->stack_size_bytes
      || state->stack_size_bytes - (address - stack_pointer) < operand->size_bytes)
    return false;
  *value = 0;
  memcpy (value, state->stack + (address - stack_pointer), operand->size_bytes);
  return true;
}

bool
sonde_probe_evaluate (const SondeProbeOperand *operand,
                      const SondeProbeState *state,
                      uint64_t *value)
{
  unsigned shift = 64 - 8 * operand->size_bytes;
  uint64_t found = (uint64_t) operand->displacement;

  if (operand->kind == SONDE_PROBE_REGISTER && !read_register (state, operand->base, &found))
    return false;
  if (operand->kind == SONDE_PROBE_MEMORY && !read_memory (operand, state, &found))
    return false;
  found <<= shift;
  *value = operand->is_signed ? (uint64_t) ((int64_t) found >> shift) : found >> shift;
  return true;
}
