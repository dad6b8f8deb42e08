/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/ruby-finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/interpreter/exported-symbols.h"

#define STATE_NAME          "ruby_current_ec"
#define MAX_USER_BYTES      64 /* of a function that reads the state; so much of it is looked at */
#define MAX_CALLER_BYTES    (16u << 10)
#define MAX_CALLED          64 /* functions of a caller that are looked at in turn */
#define MIN_EVALUATOR_BYTES (8u << 10)
#define CALL                0xe8 /* and four bytes: how far from the instruction behind it */
#define JUMP                0xe9 /* the same: a call that is the last thing to do */
#define CALL_BYTES          5

/* `data16 lea pair(%rip), %rdi`, with which each use of a thread's variable begins */
static const uint8_t use_of_pair[] = { 0x66, 0x48, 0x8d, 0x3d };

enum
{
  VM_EXEC,
  ISEQ_EVAL,
  ERRINFO,
  API_VERSION,
  N_RUBY_SYMBOLS,
};

static const char *const ruby_symbols[N_RUBY_SYMBOLS] = {
  [VM_EXEC] = "rb_vm_exec",
  [ISEQ_EVAL] = "rb_iseq_eval",
  [ERRINFO] = "rb_errinfo",
  [API_VERSION] = "ruby_api_version",
};

/* Source: vm_core.h, iseq.h, iseq.c and include/ruby/internal/core/rstring.h of 3.1.2, 3.3.8 */
static const struct
{
  uint32_t api[2];
  unsigned version;
  unsigned caller; /* of the evaluating function, directly or by one between; among ruby_symbols */
  SondeWalkLayout layout;
} versions[] = {
  { { 3, 1 },
    301,
    VM_EXEC,
    { .state_chunk = 0,
      .state_chunk_size = 8,
      .state_frame = 16,
      .frame_size = 64,
      .frame_at = 0,
      .frame_code = 16,
      .frame_entry = 32,
      .entry = SONDE_WALK_ENTRY_FLAG,
      .is_code_tagged = 1,
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
  { { 3, 3 },
    303,
    ISEQ_EVAL,
    { .state_chunk = 0,
      .state_chunk_size = 8,
      .state_frame = 16,
      .frame_size = 56,
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
      .code_lines = 112,
      .code_n_lines = 128,
      .code_index = 136,
      .text_state = 0,
      .text_length = 16,
      .text_ascii = 24,
      .text_other = 24 } },
};

#define N_VERSIONS (sizeof versions / sizeof versions[0])

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

/* Where the relocations say that the exported variable is. 0: they do not */
static uint64_t
find_exported_pair (const Elf64_Rela *relocations, size_t n, size_t symbol)
{
  uint64_t module;
  uint64_t offset;

  return has_relocation (relocations, n, symbol, R_X86_64_DTPMOD64, &module)
                 && has_relocation (relocations, n, symbol, R_X86_64_DTPOFF64, &offset)
                 && offset == module + sizeof (uint64_t)
             ? module
             : 0;
}

/* The pair that a function uses which reads the state and no other variable of a thread, if it is
 * of one that is not exported: the number of the module alone is relocated. 0: there is none */
static uint64_t
find_used_pair (const SondeElfFile *file,
                const Elf64_Sym *user,
                const Elf64_Rela *relocations,
                size_t n)
{
  uint8_t code[MAX_USER_BYTES];
  size_t size_bytes = user->st_size < sizeof code ? user->st_size : sizeof code;
  int32_t distance;
  uint64_t pair = 0;

  if (sonde_exported_read (file, user->st_value, code, size_bytes) < 0)
    return 0;
  for (size_t i = 0; i + sizeof use_of_pair + sizeof distance <= size_bytes && pair == 0; i++)
    if (memcmp (code + i, use_of_pair, sizeof use_of_pair) == 0)
      {
        size_t end = i + sizeof use_of_pair + sizeof distance;

        memcpy (&distance, code + end - sizeof distance, sizeof distance);
        pair = user->st_value + end + (uint64_t) (int64_t) distance;
      }
  for (size_t i = 0; i < n; i++)
    if (relocations[i].r_offset == pair
        && relocations[i].r_info == ELF64_R_INFO (0, R_X86_64_DTPMOD64))
      return pair;
  return 0;
}

/* The pair of words: the number of the module, and the offset in its part. 0: there is none */
static uint64_t
find_pair (const SondeElfFile *file, const Elf64_Sym *user)
{
  size_t symbol = find_variable (file);
  void *relocations = NULL;
  size_t size_bytes = 0;
  size_t n;
  uint64_t pair;

  if (sonde_exported_read_section (file, ".rela.dyn", SHT_RELA, &relocations, &size_bytes) < 0)
    return 0;
  n = size_bytes / sizeof (Elf64_Rela);
  pair = symbol != 0 ? find_exported_pair (relocations, n, symbol)
                     : find_used_pair (file, user, relocations, n);
  free (relocations);
  return pair;
}

int
sonde_ruby_find (const SondeElfFile *file,
                 const char *file_name,
                 SondeRuntime *runtime,
                 const char **why)
{
  Elf64_Sym symbols[N_RUBY_SYMBOLS];
  const Elf64_Sym *caller;
  size_t row;
  uint64_t pair;
  int result = sonde_exported_find (file, ruby_symbols, N_RUBY_SYMBOLS, symbols);

  *why = "it exports nothing of the interpreter";
  if (result < 0)
    return result == -ENOMEM ? result : -ENOENT;
  /* The program is linked with the library, and has none of them. */
  if (symbols[API_VERSION].st_value == 0)
    return -ENOENT;
  *why = "its version is neither 3.1 nor 3.3";
  row = find_version (file, &symbols[API_VERSION]);
  if (row == N_VERSIONS)
    return -ENOTSUP;
  *why = "it does not say where states of threads are";
  caller = &symbols[versions[row].caller];
  pair = find_pair (file, &symbols[ERRINFO]);
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

/* Code of a function that calls others. */
typedef struct
{
  uint8_t *code;
  uint64_t vaddr;
  size_t size_bytes;
} Caller;

static bool
caller_read (Caller *self, const SondeElfFile *file, const uint64_t range[2])
{
  uint64_t size_bytes = range[1] - range[0];

  if (size_bytes > MAX_CALLER_BYTES)
    return false;
  *self = (Caller){ malloc (size_bytes), range[0], size_bytes };
  if (self->code != NULL && sonde_exported_read (file, range[0], self->code, size_bytes) == 0)
    return true;
  free (self->code);
  return false;
}

/* The function that is called next. @at: (inout): where to look on. Returns: whether there is one
 */
static bool
caller_next (const Caller *self, const SondeUnwindModule *module, size_t *at, uint64_t called[2])
{
  while (*at + CALL_BYTES <= self->size_bytes)
    {
      size_t i = (*at)++;
      int32_t distance;
      uint64_t target;

      if (self->code[i] != CALL && self->code[i] != JUMP)
        continue;
      memcpy (&distance, self->code + i + 1, sizeof distance);
      target = self->vaddr + i + CALL_BYTES + (uint64_t) (int64_t) distance;
      if (sonde_module_find_function (module, target, &called[0], &called[1])
          && called[0] == target)
        return true;
    }
  return false;
}

/* @largest: (inout): what is larger than that */
static void
find_largest (const Caller *caller, const SondeUnwindModule *module, uint64_t largest[2])
{
  uint64_t called[2];

  for (size_t at = 0; caller_next (caller, module, &at, called);)
    if (called[1] - called[0] > largest[1] - largest[0])
      memcpy (largest, called, sizeof called);
}

/* The same of what is called by those that it calls. */
static void
find_largest_beyond (const Caller *caller,
                     const SondeElfFile *file,
                     const SondeUnwindModule *module,
                     uint64_t largest[2])
{
  uint64_t called[2];
  unsigned n_called = 0;

  for (size_t at = 0; n_called < MAX_CALLED && caller_next (caller, module, &at, called);
       n_called++)
    {
      Caller between;

      if (!caller_read (&between, file, called))
        continue;
      find_largest (&between, module, largest);
      free (between.code);
    }
}

int
sonde_ruby_find_evaluator (int fd,
                           const SondeUnwindModule *module,
                           SondeRuntime *runtime,
                           const char **why)
{
  SondeElfFile file = { 0 };
  Caller caller;
  uint64_t range[2] = { 0, MIN_EVALUATOR_BYTES };

  if (sonde_elf_file_load (&file, fd) == 0 && caller_read (&caller, &file, runtime->evaluators[0]))
    {
      find_largest (&caller, module, range);
      if (range[0] == 0)
        find_largest_beyond (&caller, &file, module, range);
      free (caller.code);
    }
  sonde_elf_file_clear (&file);
  *why = "its evaluating function was not to be found";
  if (range[0] == 0)
    return -ENOTSUP;
  memcpy (runtime->evaluators[0], range, sizeof range);
  return 0;
}
