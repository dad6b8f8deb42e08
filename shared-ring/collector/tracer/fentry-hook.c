/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/fentry-hook.h"

#include <string.h>

#include "shared-ring/collector/tracer/call-apart.h"
#include "shared-ring/collector/tracer/tracer.h"

#if defined(__x86_64__) && defined(__LP64__)

/* The call has two forms: of code that may lie anywhere it is `call *__fentry__@GOTPCREL(%rip)`,
 * which is one byte longer. */
#define CALL_BYTES        5u
#define LONG_CALL_BYTES   6u
#define LONG_CALL         0xffu
#define LONG_CALL_OPERAND 0x15u

#define PAGE_BYTES        4096u

void sonde_fentry_hook (uint64_t site, uint64_t sp) __attribute__ ((visibility ("hidden"), used));

/* Aside, so that the hook needs no frame. */
static __attribute__ ((noinline)) void
pass_first (uint64_t function, uint64_t sp)
{
  SondeTrieWriter *writer = sonde_tracer_start_thread_apart (sp);

  if (writer != NULL)
    sonde_trie_pass (writer, function, sp);
}

/* @site: behind the call, which is the function's first instruction, or behind its ENDBR64. What
 * lies on another page, which may not be there, is not looked at. */
void
sonde_fentry_hook (uint64_t site, uint64_t sp)
{
  const uint8_t *call = (const uint8_t *) (uintptr_t) (site - LONG_CALL_BYTES);
  const bool is_long = site % PAGE_BYTES >= LONG_CALL_BYTES && call[0] == LONG_CALL
                       && call[1] == LONG_CALL_OPERAND;
  const uint64_t function = site - (is_long ? LONG_CALL_BYTES : CALL_BYTES);
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (__builtin_expect (!sonde_call_apart_is_needed, 0))
    sonde_call_apart_is_needed = true;
  if (__builtin_expect (writer != NULL, 1))
    sonde_trie_pass (writer, function, sp);
  else
    pass_first (function, sp);
}

uint64_t
sonde_fentry_begin (uint64_t function)
{
  static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
  const uint64_t begin = function - sizeof endbr64;

  if (function % PAGE_BYTES < sizeof endbr64
      || memcmp ((const void *) (uintptr_t) begin, endbr64, sizeof endbr64) != 0)
    return function;
  return begin;
}

/* Nothing of the function has run, so that each register may be an argument: also r10, of functions
 * within others. */
__asm__(".text\n"
        ".balign 16\n"
        ".globl __fentry__\n"
        ".type __fentry__, @function\n"
        ".globl sonde_sled_stub_begin\n"
        ".hidden sonde_sled_stub_begin\n"
        "__fentry__:\n"
        "sonde_sled_stub_begin:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  cmpb $0, sonde_tracer_is_on(%rip)\n"
        "  je 1f\n"
        "  sub $72, %rsp\n"
        "  .cfi_adjust_cfa_offset 72\n"
        "  mov %rax, (%rsp)\n"
        "  mov %rcx, 8(%rsp)\n"
        "  mov %rdx, 16(%rsp)\n"
        "  mov %rsi, 24(%rsp)\n"
        "  mov %rdi, 32(%rsp)\n"
        "  mov %r8, 40(%rsp)\n"
        "  mov %r9, 48(%rsp)\n"
        "  mov %r10, 56(%rsp)\n"
        "  mov %r11, 64(%rsp)\n"
        "  mov 72(%rsp), %rdi\n"
        "  lea 80(%rsp), %rsi\n"
        "  call sonde_fentry_hook\n"
        "  mov (%rsp), %rax\n"
        "  mov 8(%rsp), %rcx\n"
        "  mov 16(%rsp), %rdx\n"
        "  mov 24(%rsp), %rsi\n"
        "  mov 32(%rsp), %rdi\n"
        "  mov 40(%rsp), %r8\n"
        "  mov 48(%rsp), %r9\n"
        "  mov 56(%rsp), %r10\n"
        "  mov 64(%rsp), %r11\n"
        "  add $72, %rsp\n"
        "  .cfi_adjust_cfa_offset -72\n"
        "1:\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size __fentry__, . - __fentry__\n");

#else

uint64_t
sonde_fentry_begin (uint64_t function)
{
  return function;
}

#endif
