/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads foreign bytes as walks of interpreters, as their line tables and ELF files, and merges
 * stacks of them. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/capture/interpreter/code-table.h"
#include "daemon/capture/interpreter/mixed-stack.h"
#include "daemon/capture/interpreter/python-finder.h"
#include "daemon/capture/interpreter/walk-pairs.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_STACK 64

static void
check_described (SondeCode *code, uint32_t at)
{
  for (int kind = SONDE_LINE_TABLE_NONE; kind <= SONDE_LINE_TABLE_INDEXED; kind++)
    {
      const SondeRuntime runtime = { .kind = kind == SONDE_LINE_TABLE_NONE      ? SONDE_WALK_PHP
                                             : kind == SONDE_LINE_TABLE_INDEXED ? SONDE_WALK_RUBY
                                                                                : SONDE_WALK_PYTHON,
                                     .lines = (SondeLineTableKind) kind };
      g_autofree char *text = sonde_code_describe (code, &runtime, (int64_t) (int32_t) at);

      if (text[0] == '\0' || !g_utf8_validate (text, -1, NULL) || strchr (text, '\n') != NULL)
        abort ();
    }
}

static void
take_code (const SondeWalkCode *code, gpointer user_data)
{
  SondeCodeTable *table = user_data;
  SondeCode *found;

  if (code->lines_bytes > SONDE_WALK_LINES_BYTES)
    abort ();
  if (!sonde_code_table_add (table, code))
    return;
  found = sonde_code_table_find (table, (int32_t) code->pid, code->code);
  if (found == NULL)
    abort ();
  for (uint32_t at = 0; at < 64; at += 2)
    check_described (found, at);
  check_described (found, UINT32_MAX);
}

/* Records of some processors, and samples between them. */
static void
run_pairs (Input *input)
{
  g_autoptr (SondeCodeTable) table = sonde_code_table_new ();
  g_autoptr (SondeWalkPairs) pairs = sonde_walk_pairs_new (take_code, table);

  while (input->left > 0)
    {
      uint8_t what = input_take_byte (input);
      int cpu = what >> 4 & 3;
      SondePerfRecord sample
          = { .cpu = cpu, .pid = 1, .tid = 1, .time_ns = what >> 2, .sample.ip = what >> 6 };
      uint8_t bytes[8192];
      size_t size_bytes;
      const SondeWalkRecord *walk;

      switch (what & 3)
        {
        case 0:
        case 1:
          size_bytes = input_take (input, bytes, input_take_u16 (input) % sizeof bytes);
          {
            /* of its own size, so that a read beyond it is seen */
            g_autofree uint8_t *own = g_memdup2 (bytes, size_bytes);

            sonde_walk_pairs_add (pairs, cpu, what >> 2, own, size_bytes);
          }
          break;
        case 2:
          walk = sonde_walk_pairs_find (pairs, &sample);
          if (walk != NULL
              && (walk->n_frames > SONDE_WALK_MAX_FRAMES || walk->ip != sample.sample.ip))
            abort ();
          break;
        default:
          sonde_walk_pairs_end (pairs, cpu);
          sonde_code_table_forget (table, what >> 6);
        }
    }
}

static void
run_lines (Input *input)
{
  uint32_t first_line = (uint32_t) input_take_u64 (input);
  g_autofree uint8_t *table = g_memdup2 (input->at, input->left);

  for (int kind = SONDE_LINE_TABLE_PAIRS; kind <= SONDE_LINE_TABLE_INDEXED; kind++)
    for (int64_t at = -2; at < 512; at++)
      if (sonde_line_table_find ((SondeLineTableKind) kind, table, input->left, first_line, at)
          > INT32_MAX)
        abort ();
}

static void
run_stacks (Input *input)
{
  static const uint64_t evaluators[][2] = { { 16, 32 }, { 40, 41 } };
  uint64_t addrs[MAX_STACK];
  uint64_t names[MAX_STACK];
  uint64_t out[MAX_STACK];
  SondeWalkFrame frames[MAX_STACK] = { 0 };
  uint8_t how = input_take_byte (input);
  SondeMixedStack stack = { .addrs = addrs,
                            .is_complete = how & 1,
                            .evaluators = evaluators,
                            .n_evaluators = 2,
                            .frames = frames,
                            .names = names,
                            .flags = how >> 1 & 3,
                            .entry = (SondeWalkEntry) (how >> 3 & 3),
                            .begins_early = how >> 5 & 1,
                            .apart = UINT64_MAX };
  size_t max_out = input_take_byte (input) % (MAX_STACK + 1);
  size_t n_out;
  size_t n_kept = 0;

  for (size_t n = input_take_byte (input) % MAX_STACK; stack.n_addrs < n; stack.n_addrs++)
    addrs[stack.n_addrs] = 1 + (uint64_t) input_take_byte (input);
  for (size_t n = input_take_byte (input) % MAX_STACK; stack.n_frames < n; stack.n_frames++)
    {
      frames[stack.n_frames].entry = input_take_byte (input) % 5;
      names[stack.n_frames] = 1000 + stack.n_frames;
    }
  sonde_mixed_stack_merge (&stack, out, max_out, &n_out);
  if (n_out > max_out)
    abort ();
  /* What is left of the interpreter's is in its order, each once. */
  for (size_t i = 0; i < n_out; i++)
    if (out[i] >= 1000 && out[i] != UINT64_MAX && out[i] != 1000 + n_kept++)
      abort ();
}

static void
run_files (const Input *input)
{
  int fd = memfd_create ("walk", MFD_CLOEXEC);
  SondeWalkLayout layout = { 0 };
  SondeRuntime runtime;
  const char *why;

  if (fd < 0
      || (input->left > 0 && pwrite (fd, input->at, input->left, 0) != (ssize_t) input->left))
    abort ();
  for (int kind = SONDE_WALK_NONE + 1; kind < SONDE_N_WALK_KINDS; kind++)
    if (sonde_runtime_find (kind, fd, "python3.11", &runtime, &why) == 0
        && (runtime.n_evaluators == 0 || runtime.n_evaluators > SONDE_RUNTIME_MAX_EVALUATORS))
      abort ();
  if (sonde_python_find_threads (fd, &layout) == 0
      && layout.thread_data < 32 * layout.thread_data_size)
    abort ();
  close (fd);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };

  switch (input_take_byte (&input) & 3)
    {
    case 0:
      run_pairs (&input);
      break;
    case 1:
      run_lines (&input);
      break;
    case 2:
      run_stacks (&input);
      break;
    default:
      run_files (&input);
    }
  return 0;
}
