/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registers that a function spoils which is called apart. */
#include <glib.h>
#include <string.h>

#include "shared-ring/collector/tracer/call-apart.h"

#if defined(__x86_64__)

/* 0: without XSAVE. */
extern guint32 sonde_call_apart_parts;
extern guint64 sonde_call_apart_bytes;

typedef enum
{
  XMM = 16,
  YMM = 32,
  ZMM = 64,
} Width;

static Width width;
static guint8 given[16][64] __attribute__ ((aligned (64)));
static guint8 seen[16][64] __attribute__ ((aligned (64)));

#define ALL(instruction)                                                                           \
  instruction (0) instruction (1) instruction (2) instruction (3) instruction (4) instruction (5)  \
      instruction (6) instruction (7) instruction (8) instruction (9) instruction (10)             \
          instruction (11) instruction (12) instruction (13) instruction (14) instruction (15)
#define LOAD_XMM(n)  "movaps 64*" #n "(%[given]), %%xmm" #n "\n"
#define LOAD_YMM(n)  "vmovaps 64*" #n "(%[given]), %%ymm" #n "\n"
#define LOAD_ZMM(n)  "vmovaps 64*" #n "(%[given]), %%zmm" #n "\n"
#define STORE_XMM(n) "movaps %%xmm" #n ", 64*" #n "(%[seen])\n"
#define STORE_YMM(n) "vmovaps %%ymm" #n ", 64*" #n "(%[seen])\n"
#define STORE_ZMM(n) "vmovaps %%zmm" #n ", 64*" #n "(%[seen])\n"
#define SPOIL_XMM(n) "pcmpeqd %%xmm" #n ", %%xmm" #n "\n"

static guint64
spoil (guint64 a, guint64 b)
{
  __asm__ volatile(ALL (SPOIL_XMM) : : : "memory");
  if (width >= YMM)
    __asm__ volatile("vzeroall" : : : "memory");
  __asm__ volatile("fninit" : : : "memory");
  if (width == ZMM)
    __asm__ volatile("kxnorw %%k1, %%k1, %%k1\n"
                     "vpxord %%zmm31, %%zmm31, %%zmm31"
                     :
                     :
                     : "memory");
  return 3 * a + b;
}

#define XMMS                                                                                       \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",         \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

/* As a hook calls it: with all registers full of what is not its own. */
#define ROUND(load, store, more, check)                                                            \
  __asm__ volatile(ALL (load) more "fldpi\n"                                                       \
                                   "mov %[spoil], %%rdi\n"                                         \
                                   "mov $5, %%esi\n"                                               \
                                   "mov $7, %%edx\n"                                               \
                                   "call sonde_call_apart\n"                                       \
                                   "fstpt %[pi]\n" ALL (store) check                               \
                   : "=a"(result), [pi] "=m"(pi), [mask] "+r"(mask)                                \
                   : [given] "r"(given), [seen] "r"(seen), [spoil] "r"(spoil)                      \
                   : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "memory", "cc", "st",   \
                     XMMS)

/* The compiler keeps nothing below the stack pointer. */
static void
keeps_all (Width tried)
{
  const long double expected = 3.14159265358979323846264338327950288L;
  long double pi = 0;
  register guint64 mask __asm__("r12") = 0x5a5a;
  guint64 result;

  width = tried;
  memset (seen, 0, sizeof seen);
  for (guint i = 0; i < 16; i++)
    for (guint j = 0; j < 64; j++)
      given[i][j] = (guint8) (1 + i * 13 + j * 3);
  if (width == XMM)
    ROUND (LOAD_XMM, STORE_XMM, "", "");
  else if (width == YMM)
    ROUND (LOAD_YMM, STORE_YMM, "", "vzeroupper\n");
  else
    ROUND (LOAD_ZMM, STORE_ZMM, "kmovw %k[mask], %%k1\nvmovaps (%[given]), %%zmm31\n",
           "kmovw %%k1, %k[mask]\nvmovaps %%zmm31, 64(%[seen])\nvzeroupper\n");

  g_assert_cmpuint (result, ==, 3 * 5 + 7);
  g_assert_cmpmem (&pi, 10, &expected, 10);
  g_assert_cmpuint (mask, ==, 0x5a5a);
  for (guint i = 0; i < 16; i++)
    g_assert_cmpmem (seen[i], (gsize) width, given[width == ZMM && i == 1 ? 0 : i], (gsize) width);
}

static void
all_that_the_processor_has_is_kept (void)
{
  __builtin_cpu_init ();
  sonde_call_apart_init ();
  g_test_message ("parts 0x%x in %" G_GUINT64_FORMAT " bytes", sonde_call_apart_parts,
                  sonde_call_apart_bytes);
  keeps_all (XMM);
  if (__builtin_cpu_supports ("avx"))
    keeps_all (YMM);
  if (__builtin_cpu_supports ("avx512f"))
    keeps_all (ZMM);
}

static void
what_old_processors_have_is_kept (void)
{
  const guint32 parts = sonde_call_apart_parts;
  const guint64 bytes = sonde_call_apart_bytes;

  sonde_call_apart_parts = 0;
  sonde_call_apart_bytes = 512;
  keeps_all (XMM);
  sonde_call_apart_parts = parts;
  sonde_call_apart_bytes = bytes;
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/call-apart/all-that-the-processor-has-is-kept",
                   all_that_the_processor_has_is_kept);
  g_test_add_func ("/call-apart/what-old-processors-have-is-kept",
                   what_old_processors_have_is_kept);
  return g_test_run ();
}

#else

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  return g_test_run ();
}

#endif
