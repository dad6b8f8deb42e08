/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/php-finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/interpreter/exported-symbols.h"

#define BUILD_BEGIN "API20" /* and the rest of a date */
#define BUILD_BYTES 11      /* of it with that */
#define KIND_BYTES  5       /* of what follows: ",NTS" and its end */

/* With fileinfo built in, as PHP is by default, the constants have the rules of libmagic. */
#define MAX_CONSTANTS_BYTES (64u << 20)
#define PIECE_BYTES         (64u << 10) /* that are looked at at a time */
#define OVERLAP_BYTES       (BUILD_BYTES + KIND_BYTES - 1)

/* Of both versions. */
#define FRAMES                                                                                     \
  .state_frame = 488, .state_chunk = 472, .frame_size = 80, .frame_code = 24, .frame_caller = 48,  \
  .frame_at = 0, .frame_entry = 40, .entry = SONDE_WALK_ENTRY_FLAG
#define NAMES                                                                                      \
  .code_name = 8, .code_scope = 16, .scope_name = 8, .instruction_line = 24, .text_length = 16,    \
  .text_hash = 8, .text_state = 4, .text_ascii = 24

/* Within one ZEND_MODULE_API_NO fields of the state keep their places, as extensions have these
 * compiled in; some came behind them, between 8.2.32 and 8.2.36.
 *
 * Source: offsetof() in Debian's php8.2-dev and php8.4-dev, the headers of 8.2.32, 8.2.36 and
 * 8.4.27 */
static const struct
{
  const char *build; /* ZEND_MODULE_API_NO */
  unsigned version;
  uint64_t globals_bytes; /* of executor_globals, at least */
  SondeWalkLayout layout;
} versions[] = {
  { "API20220829",
    802,
    1776,
    { FRAMES, NAMES, .code_n_lines = 80, .code_lines = 88, .code_file = 152, .code_line = 160 } },
  { "API20240924",
    804,
    1960,
    { FRAMES, NAMES, .code_n_lines = 96, .code_lines = 104, .code_file = 168, .code_line = 176 } },
};

#define N_VERSIONS (sizeof versions / sizeof versions[0])

enum
{
  GLOBALS,
  EVALUATOR,
  N_PHP_SYMBOLS,
};

static const char *const php_symbols[N_PHP_SYMBOLS] = {
  [GLOBALS] = "executor_globals",
  [EVALUATOR] = "execute_ex",
};

/* "php8.2", "php-fpm8.2", "libphp.so" */
bool
sonde_php_has_name (const char *file_name)
{
  return strncmp (file_name, "php", strlen ("php")) == 0
         || strncmp (file_name, "libphp", strlen ("libphp")) == 0;
}

/* The row of its version; @why: as it was. Returns: N_VERSIONS if there is none */
static size_t
match_version (const char *constants, size_t size_bytes, const char **why)
{
  const char *at = constants;
  const char *end = constants + size_bytes;

  while ((at = memmem (at, (size_t) (end - at), BUILD_BEGIN, strlen (BUILD_BEGIN))) != NULL)
    {
      size_t left = (size_t) (end - at);

      for (size_t i = 0; i < N_VERSIONS; i++)
        {
          static const char suffix[KIND_BYTES] = ",NTS"; /* and nothing else */

          if (left < BUILD_BYTES + sizeof suffix
              || memcmp (at, versions[i].build, BUILD_BYTES) != 0)
            continue;
          if (memcmp (at + BUILD_BYTES, suffix, sizeof suffix) == 0)
            return i;
          if (at[BUILD_BYTES] == ',')
            *why = "it is a build with threads, or for debugging";
        }
      at++;
    }
  return N_VERSIONS;
}

/* The row of the version that the constants tell, and N_VERSIONS if they tell none. Returns: 0 or a
 * negative errno */
static int
find_version (const SondeElfFile *file, size_t *row, const char **why)
{
  Elf64_Shdr section;
  uint64_t size_bytes;
  char *piece;
  int result = 0;

  *row = N_VERSIONS;
  if (!sonde_elf_file_find_section (file, ".rodata", SHT_PROGBITS, &section))
    {
      *why = "its constants cannot be read";
      return -ENOENT;
    }
  if (section.sh_size > MAX_CONSTANTS_BYTES)
    {
      *why = "its constants are larger than 64 MiB";
      return -E2BIG;
    }
  piece = malloc (PIECE_BYTES);
  if (piece == NULL)
    return -ENOMEM;
  for (uint64_t at = 0; at < section.sh_size && *row == N_VERSIONS; at += size_bytes)
    {
      uint64_t before = at > 0 ? OVERLAP_BYTES : 0; /* what may begin in the last piece */

      size_bytes = PIECE_BYTES - OVERLAP_BYTES;
      if (size_bytes > section.sh_size - at)
        size_bytes = section.sh_size - at;
      result
          = sonde_elf_file_read (file, section.sh_offset + at - before, piece, before + size_bytes);
      if (result < 0)
        {
          *why = "its constants cannot be read";
          break;
        }
      *row = match_version (piece, before + size_bytes, why);
    }
  free (piece);
  return result;
}

int
sonde_php_find (const SondeElfFile *file,
                const char *file_name,
                SondeRuntime *runtime,
                const char **why)
{
  Elf64_Sym symbols[N_PHP_SYMBOLS];
  size_t row;
  int result = sonde_exported_find (file, php_symbols, N_PHP_SYMBOLS, symbols);

  *why = "it exports nothing of the interpreter";
  if (result < 0)
    return result == -ENOMEM ? result : -ENOENT;
  if (symbols[EVALUATOR].st_size == 0)
    return -ENOENT;
  *why = "its version is neither 8.2 nor 8.4";
  result = find_version (file, &row, why);
  if (result < 0)
    return result == -ENOMEM ? result : -ENOTSUP;
  if (row == N_VERSIONS)
    return -ENOTSUP;
  *why = "its state is smaller than that of its version";
  if (symbols[GLOBALS].st_value == 0 || symbols[GLOBALS].st_size < versions[row].globals_bytes)
    return -ENOTSUP;
  *runtime = (SondeRuntime){ .kind = SONDE_WALK_PHP,
                             .version = versions[row].version,
                             .key = symbols[GLOBALS].st_value,
                             .evaluators
                             = { { symbols[EVALUATOR].st_value,
                                   symbols[EVALUATOR].st_value + symbols[EVALUATOR].st_size } },
                             .n_evaluators = 1,
                             .instruction_bytes = 1,
                             .lines = SONDE_LINE_TABLE_NONE,
                             .layout = versions[row].layout };
  return 0;
}
