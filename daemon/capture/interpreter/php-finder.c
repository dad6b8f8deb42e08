/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/php-finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/capture/interpreter/exported-symbols.h"

#define BUILD_BEGIN "API20" /* and the rest of a date */
#define BUILD_BYTES 11      /* of it with that */

/* Of both versions. */
#define FRAMES                                                                                     \
  .state_frame = 488, .state_chunk = 472, .frame_size = 80, .frame_code = 24, .frame_caller = 48,  \
  .frame_at = 0, .frame_entry = 40, .entry = SONDE_WALK_ENTRY_FLAG
#define NAMES                                                                                      \
  .code_name = 8, .code_scope = 16, .scope_name = 8, .instruction_line = 24, .text_length = 16,    \
  .text_hash = 8, .text_state = 4, .text_ascii = 24

/* Source: offsetof() in Debian's php8.2-dev and php8.4-dev, the headers of 8.2.36 and 8.4.27 */
static const struct
{
  const char *build; /* ZEND_MODULE_API_NO */
  unsigned version;
  uint64_t globals_bytes; /* of executor_globals */
  SondeWalkLayout layout;
} versions[] = {
  { "API20220829",
    802,
    1800,
    { FRAMES, NAMES, .code_n_lines = 80, .code_lines = 88, .code_file = 152, .code_line = 160 } },
  { "API20240924",
    804,
    1984,
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
find_version (const char *constants, size_t size_bytes, const char **why)
{
  const char *at = constants;
  const char *end = constants + size_bytes;

  while ((at = memmem (at, (size_t) (end - at), BUILD_BEGIN, strlen (BUILD_BEGIN))) != NULL)
    {
      size_t left = (size_t) (end - at);

      for (size_t i = 0; i < N_VERSIONS; i++)
        {
          static const char suffix[] = ",NTS"; /* and nothing else */

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

int
sonde_php_find (const SondeElfFile *file,
                const char *file_name,
                SondeRuntime *runtime,
                const char **why)
{
  Elf64_Sym symbols[N_PHP_SYMBOLS];
  void *constants = NULL;
  size_t size_bytes = 0;
  size_t row;
  int result = sonde_exported_find (file, php_symbols, N_PHP_SYMBOLS, symbols);

  *why = "it exports nothing of the interpreter";
  if (result < 0)
    return result == -ENOMEM ? result : -ENOENT;
  if (symbols[EVALUATOR].st_size == 0)
    return -ENOENT;
  *why = "its version is neither 8.2 nor 8.4";
  result = sonde_exported_read_section (file, ".rodata", SHT_PROGBITS, &constants, &size_bytes);
  if (result < 0)
    return result == -ENOMEM ? result : -ENOTSUP;
  row = find_version (constants, size_bytes, why);
  free (constants);
  if (row == N_VERSIONS)
    return -ENOTSUP;
  *why = "its state has another size than that of its version";
  if (symbols[GLOBALS].st_value == 0 || symbols[GLOBALS].st_size != versions[row].globals_bytes)
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
