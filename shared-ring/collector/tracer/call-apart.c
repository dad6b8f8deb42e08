/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/tracer/call-apart.h"

bool sonde_call_apart_is_needed;

#if defined(__x86_64__) && defined(__LP64__)

#include <cpuid.h>

/* Parts of a processor's state that hold arguments, results or variables: x87, XMM, YMM, and those
 * of AVX-512. Source: Intel SDM, volume 1, 13.1 */
#define KEPT_PARTS   0xe7u
#define LEGACY_BYTES 512u /* of FXSAVE */
#define HEADER_BYTES 64u  /* behind it */
#define FIRST_PART   2u   /* that is behind those */
#define LAST_PART    7u

#define LEAF_STATE   0xdu /* of CPUID */

extern uint32_t sonde_call_apart_parts __attribute__ ((visibility ("hidden")));
extern uint64_t sonde_call_apart_bytes __attribute__ ((visibility ("hidden")));

/* 0: the processor, or the kernel, has no more than FXSAVE keeps. */
uint32_t sonde_call_apart_parts;
uint64_t sonde_call_apart_bytes = LEGACY_BYTES;

void
sonde_call_apart_init (void)
{
  uint32_t size_bytes = LEGACY_BYTES + HEADER_BYTES;
  uint32_t a, b, c, d, low, high;

  if (__get_cpuid (1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0)
    return;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  low &= KEPT_PARTS;
  for (uint32_t i = FIRST_PART; i <= LAST_PART; i++)
    {
      if ((low & 1u << i) == 0)
        continue;
      if (__get_cpuid_count (LEAF_STATE, i, &a, &b, &c, &d) == 0)
        return;
      if (size_bytes < b + a)
        size_bytes = b + a;
    }
  sonde_call_apart_bytes = size_bytes;
  sonde_call_apart_parts = low;
}

/* XRSTOR refuses a header that is not empty but for what XSAVE writes. */
__asm__(".text\n"
        ".globl sonde_call_apart\n"
        ".hidden sonde_call_apart\n"
        ".type sonde_call_apart, @function\n"
        "sonde_call_apart:\n"
        "  .cfi_startproc\n"
        "  push %rbp\n"
        "  .cfi_def_cfa_offset 16\n"
        "  .cfi_offset %rbp, -16\n"
        "  mov %rsp, %rbp\n"
        "  .cfi_def_cfa_register %rbp\n"
        "  push %rbx\n"
        "  .cfi_offset %rbx, -24\n"
        "  mov %rdi, %rbx\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  sub sonde_call_apart_bytes(%rip), %rsp\n"
        "  and $-64, %rsp\n"
        "  mov sonde_call_apart_parts(%rip), %eax\n"
        "  test %eax, %eax\n"
        "  jz 1f\n"
        "  xor %edx, %edx\n"
        "  mov %rdx, 512(%rsp)\n"
        "  mov %rdx, 520(%rsp)\n"
        "  mov %rdx, 528(%rsp)\n"
        "  mov %rdx, 536(%rsp)\n"
        "  mov %rdx, 544(%rsp)\n"
        "  mov %rdx, 552(%rsp)\n"
        "  mov %rdx, 560(%rsp)\n"
        "  mov %rdx, 568(%rsp)\n"
        "  xsave64 (%rsp)\n"
        "  call *%rbx\n"
        "  mov %rax, %rbx\n"
        "  mov sonde_call_apart_parts(%rip), %eax\n"
        "  xor %edx, %edx\n"
        "  xrstor64 (%rsp)\n"
        "  jmp 2f\n"
        "1:\n"
        "  fxsave64 (%rsp)\n"
        "  call *%rbx\n"
        "  mov %rax, %rbx\n"
        "  fxrstor64 (%rsp)\n"
        "2:\n"
        "  mov %rbx, %rax\n"
        "  mov -8(%rbp), %rbx\n"
        "  leave\n"
        "  .cfi_def_cfa %rsp, 8\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size sonde_call_apart, . - sonde_call_apart\n");

#else

void
sonde_call_apart_init (void)
{
}

uint64_t
sonde_call_apart (uint64_t (*function) (uint64_t a, uint64_t b), uint64_t a, uint64_t b)
{
  return function (a, b);
}

#endif
