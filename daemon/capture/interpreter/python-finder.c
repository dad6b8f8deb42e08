/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/python-finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/interpreter/exported-symbols.h"

#define MIN_MINOR      8
#define MAX_MINOR      14
#define CHECKED_BYTES  48 /* of the function that uses the key */
#define COOKIE         "xdebugpy"
#define COOKIE_MINOR   13 /* since which it is there */
#define MAX_DESCRIPTOR 4096

#define FRAMES_OF_3_12                                                                             \
  .frame_code = 0, .frame_caller = 8, .frame_at = 56, .entry = SONDE_WALK_ENTRY_SHIM
#define CODE_OF_3_8  .code_line = 40, .code_file = 104, .code_name = 112, .code_lines = 120
#define CODE_OF_3_12 .code_line = 68, .code_file = 112, .code_name = 128, .code_lines = 136
#define TEXT_OF_3_8                                                                                \
  .text_length = 16, .text_hash = 24, .text_state = 32, .text_ascii = 48, .text_other = 72
#define TEXT_OF_3_12                                                                               \
  .text_length = 16, .text_hash = 24, .text_state = 32, .text_ascii = 40, .text_other = 56

/* Source: the debug information of 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0, and
 * _Py_DebugOffsets of 3.14 */
static const struct
{
  uint64_t key; /* behind _PyRuntime */
  uint64_t first_instruction;
  unsigned instruction_bytes;
  SondeLineTableKind lines;
  SondeWalkLayout layout;
} versions[] = {
  [8] = { 1392,
          0,
          1,
          SONDE_LINE_TABLE_PAIRS,
          { .state_frame = 24,
            .frame_size = 112,
            .frame_code = 32,
            .frame_caller = 24,
            .frame_at = 104,
            .is_at_index = 1,
            .entry = SONDE_WALK_ENTRY_ALWAYS,
            CODE_OF_3_8,
            TEXT_OF_3_8 } },
  [9] = { 584,
          0,
          1,
          SONDE_LINE_TABLE_PAIRS,
          { .state_frame = 24,
            .frame_size = 112,
            .frame_code = 32,
            .frame_caller = 24,
            .frame_at = 104,
            .is_at_index = 1,
            .entry = SONDE_WALK_ENTRY_ALWAYS,
            CODE_OF_3_8,
            TEXT_OF_3_8 } },
  [10] = { 584,
           0,
           2,
           SONDE_LINE_TABLE_RANGES,
           { .state_frame = 24,
             .frame_size = 104,
             .frame_code = 32,
             .frame_caller = 24,
             .frame_at = 96,
             .is_at_index = 1,
             .entry = SONDE_WALK_ENTRY_ALWAYS,
             CODE_OF_3_8,
             TEXT_OF_3_8 } },
  [11] = { 592,
           184,
           1,
           SONDE_LINE_TABLE_LOCATIONS,
           { .state_frame = 56,
             .state_chunk = 296,
             .holder_frame = 8,
             .is_indirect = 1,
             .frame_size = 72,
             .frame_code = 32,
             .frame_caller = 48,
             .frame_at = 56,
             .frame_entry = 68,
             .entry = SONDE_WALK_ENTRY_FLAG,
             .code_line = 72,
             .code_file = 112,
             .code_name = 128,
             .code_lines = 136,
             TEXT_OF_3_8 } },
  [12] = { 1544,
           192,
           1,
           SONDE_LINE_TABLE_LOCATIONS,
           { .state_frame = 56,
             .state_chunk = 232,
             .holder_frame = 0,
             .is_indirect = 1,
             .frame_size = 72,
             .frame_entry = 70,
             FRAMES_OF_3_12,
             CODE_OF_3_12,
             TEXT_OF_3_12 } },
  [13] = { 2160,
           200,
           1,
           SONDE_LINE_TABLE_LOCATIONS,
           { .state_frame = 72,
             .state_chunk = 232,
             .frame_size = 72,
             .frame_entry = 70,
             FRAMES_OF_3_12,
             CODE_OF_3_12,
             TEXT_OF_3_12 } },
  [14] = { 2336,
           208,
           1,
           SONDE_LINE_TABLE_LOCATIONS,
           { .state_frame = 72,
             .state_chunk = 232,
             .frame_size = 80,
             .frame_entry = 74,
             .is_code_tagged = 1,
             FRAMES_OF_3_12,
             CODE_OF_3_12,
             TEXT_OF_3_12 } },
};

_Static_assert(sizeof versions / sizeof versions[0] == MAX_MINOR + 1, "a row for each version");

enum
{
  RUNTIME,
  EVALUATOR,
  VERSION,
  CODE_TYPE,
  TEXT_TYPE,
  THIS_THREAD,
  N_PYTHON_SYMBOLS,
};

static const char *const python_symbols[N_PYTHON_SYMBOLS] = {
  [RUNTIME] = "_PyRuntime",       [EVALUATOR] = "_PyEval_EvalFrameDefault",
  [VERSION] = "Py_Version",       [CODE_TYPE] = "PyCode_Type",
  [TEXT_TYPE] = "PyUnicode_Type", [THIS_THREAD] = "PyGILState_GetThisThreadState",
};

/* What stands behind "python3." and the number: of a debug build, or one without the lock. */
static const char *
name_suffix (const char *file_name, unsigned *minor)
{
  const char *at = strstr (file_name, "python3");
  char *end;

  *minor = 0;
  if (at == NULL)
    return NULL;
  at += strlen ("python3");
  if (*at != '.')
    return at;
  *minor = (unsigned) strtoul (at + 1, &end, 10);
  return end;
}

bool
sonde_python_has_name (const char *file_name)
{
  return strncmp (file_name, "python3", strlen ("python3")) == 0
         || strncmp (file_name, "libpython3", strlen ("libpython3")) == 0;
}

bool
sonde_python_has_name_of_libc (const char *file_name)
{
  return strcmp (file_name, "libc.so.6") == 0 || strncmp (file_name, "libc-2.", 7) == 0;
}

/* Whether the code at @vaddr has the address of the word @key, or of the one behind it: as a
 * distance from _PyRuntime, as it is, or from the end of an instruction. */
static bool
uses_key (const SondeElfFile *file, uint64_t vaddr, uint64_t runtime, uint64_t key)
{
  uint8_t code[CHECKED_BYTES];

  if (sonde_exported_read (file, vaddr, code, sizeof code) < 0)
    return false;
  for (size_t i = 0; i + sizeof (int32_t) <= sizeof code; i++)
    {
      int32_t value;
      uint64_t next = vaddr + i + sizeof value;

      memcpy (&value, code + i, sizeof value);
      for (uint64_t word = 0; word <= 4; word += 4)
        if ((uint64_t) (int64_t) value == key + word - runtime || (uint32_t) value == key + word
            || next + (uint64_t) (int64_t) value == key + word
            /* an immediate operand of a byte or of four is behind it */
            || next + 1 + (uint64_t) (int64_t) value == key + word
            || next + 4 + (uint64_t) (int64_t) value == key + word)
          return true;
    }
  return false;
}

/* 0: it does not say */
static unsigned
read_minor (const SondeElfFile *file, const Elf64_Sym *symbol)
{
  uint32_t version;

  /* Major, minor, micro, release. */
  if (symbol->st_value == 0 || sonde_exported_read (file, symbol->st_value, &version, 4) < 0
      || version >> 24 != 3)
    return 0;
  return version >> 16 & 0xff;
}

/* Objects of builds without the global lock look different. */
static bool
is_free_threaded (const SondeElfFile *file, uint64_t runtime)
{
  struct
  {
    char cookie[8];
    uint64_t version;
    uint64_t free_threaded;
  } head;

  return sonde_exported_read (file, runtime, &head, sizeof head) == 0
         && memcmp (head.cookie, COOKIE, sizeof head.cookie) == 0 && head.free_threaded != 0;
}

int
sonde_python_find (const SondeElfFile *file,
                   const char *file_name,
                   SondeRuntime *python,
                   const char **why)
{
  Elf64_Sym symbols[N_PYTHON_SYMBOLS];
  unsigned minor_of_name;
  const char *suffix = name_suffix (file_name, &minor_of_name);
  uint64_t runtime;
  int result = sonde_exported_find (file, python_symbols, N_PYTHON_SYMBOLS, symbols);

  *why = "it exports nothing of the interpreter";
  if (result < 0)
    return result == -ENOMEM ? result : -ENOENT;
  runtime = symbols[RUNTIME].st_value;
  /* A program that is linked with the library has none of them. */
  if (runtime == 0 || symbols[EVALUATOR].st_size == 0)
    return -ENOENT;
  *python = (SondeRuntime){ .kind = SONDE_WALK_PYTHON,
                            .version = read_minor (file, &symbols[VERSION]) };
  if (python->version == 0)
    python->version = minor_of_name;
  *why = "its version is none of 3.8 to 3.14";
  if (python->version < MIN_MINOR || python->version > MAX_MINOR)
    return -ENOTSUP;
  *why = "it is a build for debugging, or without the global lock";
  if ((suffix != NULL && (*suffix == 'd' || *suffix == 't'))
      || (python->version >= COOKIE_MINOR && is_free_threaded (file, runtime)))
    return -ENOTSUP;
  python->key = runtime + versions[python->version].key;
  python->code_type = symbols[CODE_TYPE].st_value;
  python->text_type = symbols[TEXT_TYPE].st_value;
  *why = "its code does not confirm where states of threads are";
  if (symbols[RUNTIME].st_size < versions[python->version].key + sizeof (uint64_t)
      || python->code_type == 0 || python->text_type == 0 || symbols[THIS_THREAD].st_value == 0
      || !uses_key (file, symbols[THIS_THREAD].st_value, runtime, python->key))
    return -ENOTSUP;
  python->evaluators[0][0] = symbols[EVALUATOR].st_value;
  python->evaluators[0][1] = symbols[EVALUATOR].st_value + symbols[EVALUATOR].st_size;
  python->n_evaluators = 1;
  python->first_instruction = versions[python->version].first_instruction;
  python->instruction_bytes = versions[python->version].instruction_bytes;
  python->lines = versions[python->version].lines;
  python->layout = versions[python->version].layout;
  return 0;
}

enum
{
  SPECIFIC,
  DATA_VALUE,
  DATA_SIZE,
  N_THREAD_SYMBOLS,
};

static const char *const thread_symbols[N_THREAD_SYMBOLS] = {
  [SPECIFIC] = "_thread_db_pthread_specific",
  [DATA_VALUE] = "_thread_db_pthread_key_data_data",
  [DATA_SIZE] = "_thread_db_sizeof_pthread_key_data",
};

/* A descriptor: bits of an element, how many there are, and where. */
static int
read_place (const SondeElfFile *file, const Elf64_Sym *symbol, uint32_t *offset)
{
  uint32_t descriptor[3];

  if (symbol->st_value == 0
      || sonde_exported_read (file, symbol->st_value, descriptor, sizeof descriptor) < 0
      || descriptor[2] >= MAX_DESCRIPTOR)
    return -ENOENT;
  *offset = descriptor[2];
  return 0;
}

int
sonde_python_find_threads (int fd, SondeWalkLayout *layout)
{
  SondeElfFile file = { 0 };
  Elf64_Sym symbols[N_THREAD_SYMBOLS];
  SondeWalkLayout found = *layout;
  int result = sonde_elf_file_load (&file, fd);

  if (result == 0)
    result = sonde_exported_find (&file, thread_symbols, N_THREAD_SYMBOLS, symbols);
  if (result == 0)
    result = read_place (&file, &symbols[SPECIFIC], &found.thread_data);
  if (result == 0)
    result = read_place (&file, &symbols[DATA_VALUE], &found.thread_data_value);
  if (result == 0
      && (symbols[DATA_SIZE].st_value == 0
          || sonde_exported_read (&file, symbols[DATA_SIZE].st_value, &found.thread_data_size,
                                  sizeof found.thread_data_size)
                 < 0
          || found.thread_data_size == 0 || found.thread_data_size > MAX_DESCRIPTOR / 32
          || found.thread_data < 32 * found.thread_data_size))
    result = -ENOENT;
  sonde_elf_file_clear (&file);
  if (result < 0)
    return -ENOENT;
  *layout = found;
  return 0;
}
