/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/runtime.h"

#include "daemon/capture/interpreter/php-finder.h"
#include "daemon/capture/interpreter/python-finder.h"
#include "daemon/capture/interpreter/ruby-finder.h"

const SondeRuntimeKind sonde_runtime_kinds[SONDE_N_WALK_KINDS] = {
  [SONDE_WALK_PYTHON] = { .language = "Python",
                          .needs_libc = true,
                          .tag = "",
                          .outside = "[unnamed]",
                          .has_name = sonde_python_has_name,
                          .find = sonde_python_find },
  [SONDE_WALK_PHP] = { .language = "PHP",
                       .begins_early = true,
                       .tag = " [php]",
                       .outside = "{main}",
                       .has_name = sonde_php_has_name,
                       .find = sonde_php_find },
  [SONDE_WALK_RUBY] = { .language = "Ruby",
                        .needs_libc = true,
                        .begins_early = true,
                        .tag = " [ruby]",
                        .outside = "[unnamed]",
                        .has_name = sonde_ruby_has_name,
                        .find = sonde_ruby_find,
                        .find_evaluator = sonde_ruby_find_evaluator },
};

SondeWalkKind
sonde_runtime_guess (const char *file_name)
{
  for (SondeWalkKind kind = SONDE_WALK_NONE + 1; kind < SONDE_N_WALK_KINDS; kind++)
    if (sonde_runtime_kinds[kind].has_name (file_name))
      return kind;
  return SONDE_WALK_NONE;
}

int
sonde_runtime_find (
    SondeWalkKind kind, int fd, const char *file_name, SondeRuntime *runtime, const char **why)
{
  SondeElfFile file = { 0 };
  SondeRuntime found;
  int result = sonde_elf_file_load (&file, fd);

  *why = "it cannot be read";
  if (result == 0)
    result = sonde_runtime_kinds[kind].find (&file, file_name, &found, why);
  sonde_elf_file_clear (&file);
  if (result == 0)
    *runtime = found;
  return result;
}
