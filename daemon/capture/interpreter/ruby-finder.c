/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/ruby-finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/interpreter/exported-symbols.h"

#define STATE_NAME          "ruby_current_ec"
#define MAX_CALLER_BYTES    (16u << 10)
#define MIN_EVALUATOR_BYTES (8u << 10)
#define CALL                0xe8 /* and four bytes: how far from the instruction behind it */
#define CALL_BYTES          5

/* Source: vm_core.h, iseq.h and iseq.c of 3.1.2 */
static const struct
{
  uint32_t api[2];
  unsigned version;
  SondeWalkLayout layout;
} versions[] = {
  { { 3, 1 },
    301,
    { .state_chunk = 0,
      .state_chunk_size = 8,
      .state_frame = 16,
      .frame_size = 64,
      .frame_at = 0,
      .frame_code = 16,
      .frame_entry = 32,
      .entry = SONDE_WALK_ENTRY_FLAG,
      .code_body = 16,
      .code_size = 4,
      .code_instructions = 8,
      .code_file = 64,
      .code_name = 80,
      .code_line = 88,
      .code_lines = 120,
      .code_n_lines = 136,
      .code_index = 144,
      .text_state = 0,
      .text_length = 16,
      .text_ascii = 16,
      .text_other = 24 } },
};

#define N_VERSIONS (sizeof versions / sizeof versions[0])

enum
{
  EVALUATOR_CALLER,
  API_VERSION,
  N_RUBY_SYMBOLS,
};

static const char *const ruby_symbols[N_RUBY_SYMBOLS] = {
  [EVALUATOR_CALLER] = "rb_vm_exec",
  [API_VERSION] = "ruby_api_version",
};

/* "ruby3.1", "libruby-3.1.so.3.1.2" */
bool
sonde_ruby_has_name (const char *file_name)
{
  return strncmp (file_name, "ruby", strlen ("ruby")) == 0
         || strncmp (file_name, "libruby", strlen ("libruby")) == 0;
}

/* Returns: N_VERSIONS if there is none */
static size_t
find_version (const SondeElfFile *file, const Elf64_Sym *symbol)
{
  uint32_t api[2];

  if (sonde_exported_read (file, symbol->st_value, api, sizeof api) < 0)
    return N_VERSIONS;
  for (size_t i = 0; i < N_VERSIONS; i++)
    if (memcmp (api, versions[i].api, sizeof api) == 0)
      return i;
  return N_VERSIONS;
}

/* The number of the thread's variable among dynamic symbols; 0: it has none */
static size_t
find_variable (const SondeElfFile *file)
{
  void *table = NULL;
  void *strings = NULL;
  size_t table_bytes = 0;
  size_t strings_bytes = 0;
  size_t found = 0;
  int result = sonde_exported_read_section (file, ".dynsym", SHT_DYNSYM, &table, &table_bytes);

  if (result == 0)
    result = sonde_exported_read_section (file, ".dynstr", SHT_STRTAB, &strings, &strings_bytes);
  for (size_t i = 1; result == 0 && i < table_bytes / sizeof (Elf64_Sym) && found == 0; i++)
    {
      const Elf64_Sym *symbol = (const Elf64_Sym *) table + i;

      if (ELF64_ST_TYPE (symbol->st_info) == STT_TLS && symbol->st_name < strings_bytes
          && strings_bytes - symbol->st_name >= sizeof STATE_NAME
          && memcmp ((const char *) strings + symbol->st_name, STATE_NAME, sizeof STATE_NAME) == 0)
        found = i;
    }
  free (table);
  free (strings);
  return found;
}

static bool
has_relocation (const Elf64_Rela *all, size_t n, size_t symbol, uint32_t type, uint64_t *vaddr)
{
  for (size_t i = 0; i < n; i++)
    if (ELF64_R_SYM (all[i].r_info) == symbol && ELF64_R_TYPE (all[i].r_info) == type)
      {
        *vaddr = all[i].r_offset;
        return true;
      }
  return false;
}

/* The pair of words: the number of the module, and the offset in its part. 0: there is none */
static uint64_t
find_pair (const SondeElfFile *file)
{
  size_t symbol = find_variable (file);
  void *relocations = NULL;
  size_t size_bytes = 0;
  size_t n;
  uint64_t module = 0;
  uint64_t offset = 0;

  if (symbol == 0
      || sonde_exported_read_section (file, ".rela.dyn", SHT_RELA, &relocations, &size_bytes) < 0)
    return 0;
  n = size_bytes / sizeof (Elf64_Rela);
  if (!has_relocation (relocations, n, symbol, R_X86_64_DTPMOD64, &module)
      || !has_relocation (relocations, n, symbol, R_X86_64_DTPOFF64, &offset)
      || offset != module + sizeof (uint64_t))
    module = 0;
  free (relocations);
  return module;
}

int
sonde_ruby_find (const SondeElfFile *file,
                 const char *file_name,
                 SondeRuntime *runtime,
                 const char **why)
{
  Elf64_Sym symbols[N_RUBY_SYMBOLS];
  const Elf64_Sym *caller = &symbols[EVALUATOR_CALLER];
  size_t row;
  uint64_t pair;
  int result = sonde_exported_find (file, ruby_symbols, N_RUBY_SYMBOLS, symbols);

  *why = "it exports nothing of the interpreter";
  if (result < 0)
    return result == -ENOMEM ? result : -ENOENT;
  /* The program is linked with the library, and has none of them. */
  if (symbols[API_VERSION].st_value == 0)
    return -ENOENT;
  *why = "its version is not 3.1";
  row = find_version (file, &symbols[API_VERSION]);
  if (row == N_VERSIONS)
    return -ENOTSUP;
  *why = "it does not say where states of threads are";
  pair = find_pair (file);
  if (pair == 0 || caller->st_size == 0)
    return -ENOTSUP;
  *runtime
      = (SondeRuntime){ .kind = SONDE_WALK_RUBY,
                        .version = versions[row].version,
                        .key = pair,
                        .evaluators = { { caller->st_value, caller->st_value + caller->st_size } },
                        .n_evaluators = 1,
                        .instruction_bytes = 1,
                        .lines = SONDE_LINE_TABLE_INDEXED,
                        .layout = versions[row].layout };
  return 0;
}

/* Of code at @vaddr the largest function that it calls. @range: (inout): what is larger than that
 */
static void
find_largest (const SondeUnwindModule *module,
              const uint8_t *code,
              size_t size_bytes,
              uint64_t vaddr,
              uint64_t range[2])
{
  for (size_t i = 0; i + CALL_BYTES <= size_bytes; i++)
    {
      int32_t distance;
      uint64_t target;
      uint64_t begin;
      uint64_t end;

      if (code[i] != CALL)
        continue;
      memcpy (&distance, code + i + 1, sizeof distance);
      target = vaddr + i + CALL_BYTES + (uint64_t) (int64_t) distance;
      if (!sonde_module_find_function (module, target, &begin, &end) || begin != target
          || end - begin <= range[1] - range[0])
        continue;
      range[0] = begin;
      range[1] = end;
    }
}

int
sonde_ruby_find_evaluator (int fd,
                           const SondeUnwindModule *module,
                           SondeRuntime *runtime,
                           const char **why)
{
  SondeElfFile file = { 0 };
  uint64_t vaddr = runtime->evaluators[0][0];
  uint64_t size_bytes = runtime->evaluators[0][1] - vaddr;
  uint64_t range[2] = { 0, MIN_EVALUATOR_BYTES };
  uint8_t *code = size_bytes <= MAX_CALLER_BYTES ? malloc (size_bytes) : NULL;
  int result = code != NULL ? sonde_elf_file_load (&file, fd) : -ENOTSUP;

  if (result == 0)
    result = sonde_exported_read (&file, vaddr, code, size_bytes);
  if (result == 0)
    find_largest (module, code, size_bytes, vaddr, range);
  sonde_elf_file_clear (&file);
  free (code);
  *why = "its evaluating function was not to be found";
  if (range[0] == 0)
    return -ENOTSUP;
  memcpy (runtime->evaluators[0], range, sizeof range);
  return 0;
}
