/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: stands in for the hook that -pg -mfentry has functions call as they begin, and
 * is what we write into those of -fpatchable-function-entry. */
#include "shared-ring/collector/tracer/call-apart.h"
#include "shared-ring/collector/tracer/tracer.h"

#if defined(__x86_64__) && defined(__LP64__)

/* Of the shorter of two forms of the call: what it leads to lies in the function. */
#define CALL_BYTES 5u

void sonde_fentry_hook (uint64_t site, uint64_t sp) __attribute__ ((visibility ("hidden"), used));

/* Aside, so that the hook needs no frame. */
static __attribute__ ((noinline)) void
pass_first (uint64_t function, uint64_t sp)
{
  SondeTrieWriter *writer = sonde_tracer_start_thread_apart (sp);

  if (writer != NULL)
    sonde_trie_pass (writer, function, sp);
}

/* @site: behind the call, which is the function's first instruction, or behind its ENDBR64 */
void
sonde_fentry_hook (uint64_t site, uint64_t sp)
{
  const uint64_t function = site - CALL_BYTES;
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (__builtin_expect (!sonde_call_apart_is_needed, 0))
    sonde_call_apart_is_needed = true;
  if (__builtin_expect (writer != NULL, 1))
    sonde_trie_pass (writer, function, sp);
  else
    pass_first (function, sp);
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

#endif
