/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: what sleds call that are on, and the stubs between. */
#include "shared-ring/collector/tracer/sled-map.h"
#include "shared-ring/collector/tracer/sleds.h"
#include "shared-ring/collector/tracer/tracer.h"

#if defined(__x86_64__) && defined(__LP64__)

void sonde_sled_hook_enter (uint64_t site, uint64_t sp)
    __attribute__ ((visibility ("hidden"), used));
void sonde_sled_hook_exit (uint64_t sp) __attribute__ ((visibility ("hidden"), used));

/* Aside, so that the hook needs no frame. */
static __attribute__ ((noinline)) void
enter_first (uint64_t function, uint64_t sp)
{
  SondeTrieWriter *writer = sonde_tracer_start_thread_apart (sp);

  if (writer != NULL)
    sonde_trie_enter (writer, function, sp);
}

static __attribute__ ((noinline)) void
exit_behind_vfork (uint64_t sp)
{
  SondeTrieWriter *writer = sonde_tracer_end_vfork ();

  if (writer != NULL)
    sonde_trie_exit (writer, sp);
}

/* @site: behind the call in the sled, which is where the function begins, or behind its ENDBR64 */
void
sonde_sled_hook_enter (uint64_t site, uint64_t sp)
{
  const uint64_t function = site - SONDE_SLED_RETURN_BYTES;
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (__builtin_expect (writer != NULL, 1))
    sonde_trie_enter (writer, function, sp);
  else if (__builtin_expect (sonde_tracer_is_on, 0))
    enter_first (function, sp);
}

void
sonde_sled_hook_exit (uint64_t sp)
{
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (__builtin_expect (writer != NULL, 1))
    sonde_trie_exit (writer, sp);
  else if (__builtin_expect (sonde_tracer_thread.parent != 0, 0))
    exit_behind_vfork (sp);
}

/* All registers that may have arguments are kept where a function begins or gives way to another
 * one, but for r10, which XRay has for itself; and where it ends those that may have results. The
 * stack pointer is passed as it is where the function's return address lies. */
#define PUSH(register) "  push %" #register "\n  .cfi_adjust_cfa_offset 8\n"
#define POP(register)  "  pop %" #register "\n  .cfi_adjust_cfa_offset -8\n"
#define BEGIN(name)                                                                                \
  ".globl " #name "\n"                                                                             \
  ".hidden " #name "\n"                                                                            \
  ".type " #name ", @function\n" #name ":\n"                                                       \
  "  .cfi_startproc\n"                                                                             \
  "  endbr64\n"
#define END(name)                                                                                  \
  "  ret\n"                                                                                        \
  "  .cfi_endproc\n"                                                                               \
  ".size " #name ", . - " #name "\n"
#define PUSH_ARGUMENTS                                                                             \
  PUSH (rax) PUSH (rcx) PUSH (rdx) PUSH (rsi) PUSH (rdi) PUSH (r8) PUSH (r9) PUSH (r11)
#define POP_ARGUMENTS POP (r11) POP (r9) POP (r8) POP (rdi) POP (rsi) POP (rdx) POP (rcx) POP (rax)

/* clang-format off */
__asm__ (".text\n"
         ".balign 16\n"
         BEGIN (sonde_sled_stub_enter)
         PUSH_ARGUMENTS
         "  mov 64(%rsp), %rdi\n"
         "  lea 72(%rsp), %rsi\n"
         "  call sonde_sled_hook_enter\n"
         POP_ARGUMENTS
         END (sonde_sled_stub_enter)
         ".balign 16\n"
         BEGIN (sonde_sled_stub_tail)
         PUSH_ARGUMENTS
         "  lea 72(%rsp), %rdi\n"
         "  call sonde_sled_hook_exit\n"
         POP_ARGUMENTS
         END (sonde_sled_stub_tail)
         ".balign 16\n"
         BEGIN (sonde_sled_stub_exit)
         PUSH (rax) PUSH (rdx) PUSH (rcx)
         "  lea 24(%rsp), %rdi\n"
         "  call sonde_sled_hook_exit\n"
         POP (rcx) POP (rdx) POP (rax)
         END (sonde_sled_stub_exit));
/* clang-format on */

#endif
