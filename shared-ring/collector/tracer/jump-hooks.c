/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: notes where a program goes on that leaves functions otherwise than by return. */
/* With it <setjmp.h> gives longjmp() the name of another one. */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "shared-ring/collector/tracer/stack-finder.h"
#include "shared-ring/collector/tracer/tracer.h"
#include "shared-ring/ring-atomic.h"

#define HOOK __attribute__ ((visibility ("default")))

typedef void (*Function) (void);

typedef enum
{
  LONGJMP,
  LONGJMP_BSD,
  SIGLONGJMP,
  LONGJMP_CHECKED,
  BEGIN_CATCH,
  MAKECONTEXT,
  N_REAL,
} Real;

static const char *const names[N_REAL] = {
  [LONGJMP] = "longjmp",
  [LONGJMP_BSD] = "_longjmp",
  [SIGLONGJMP] = "siglongjmp",
  [LONGJMP_CHECKED] = "__longjmp_chk",
  [BEGIN_CATCH] = "__cxa_begin_catch",
  [MAKECONTEXT] = "makecontext",
};

static Function found[N_REAL];

static Function
find_real (Real real)
{
  Function function = sonde_ring_load_relaxed (&found[real]);

  if (function == NULL)
    {
      void *symbol = dlsym (RTLD_NEXT, names[real]);

      /* ISO C has no conversion from an object pointer to a function pointer. */
      memcpy (&function, &symbol, sizeof symbol);
      if (function == NULL)
        abort ();
      sonde_ring_store_relaxed (&found[real], function);
    }
  return function;
}

/* What signal handlers call is looked up before there are any. */
static __attribute__ ((constructor)) void
find_jumps (void)
{
  for (Real real = LONGJMP; real <= LONGJMP_CHECKED; real++)
    find_real (real);
}

/* All calls above (lower) are over. */
static void
note (uint64_t sp)
{
  SondeTrieWriter *writer = sonde_tracer_get ();

  if (writer != NULL)
    sonde_trie_unwind (writer, sp);
}

/* glibc keeps the stack pointer of a jump rotated, and mixed with a word of the thread's. Source:
 * glibc, sysdeps/unix/sysv/linux/x86_64/pointer_guard.h */
static void
note_jump (const struct __jmp_buf_tag *env)
{
#if defined(__x86_64__) && defined(__LP64__)
  uint64_t sp = (uint64_t) env->__jmpbuf[6];
  uint64_t guard;

  __asm__("mov %%fs:0x30, %0" : "=r"(guard));
  note ((sp >> 17 | sp << 47) ^ guard);
#endif
}

#define JUMP(name, real)                                                                           \
  HOOK void name (struct __jmp_buf_tag env[1], int value);                                         \
  HOOK __attribute__ ((noreturn)) void name (struct __jmp_buf_tag env[1], int value)               \
  {                                                                                                \
    void (*jump) (struct __jmp_buf_tag *, int)                                                     \
        = (void (*) (struct __jmp_buf_tag *, int)) find_real (real);                               \
                                                                                                   \
    note_jump (env);                                                                               \
    jump (env, value);                                                                             \
    abort ();                                                                                      \
  }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
JUMP (longjmp, LONGJMP)
JUMP (_longjmp, LONGJMP_BSD)
JUMP (siglongjmp, SIGLONGJMP)
JUMP (__longjmp_chk, LONGJMP_CHECKED)
#pragma GCC diagnostic pop

HOOK void *__cxa_begin_catch (void *exception);

/* What calls it is the function that goes on. */
HOOK void *
__cxa_begin_catch (void *exception)
{
  void *(*begin_catch) (void *) = (void *(*) (void *) ) find_real (BEGIN_CATCH);

  note ((uintptr_t) __builtin_dwarf_cfa ());
  return begin_catch (exception);
}

#if defined(__x86_64__) && defined(__LP64__)

Function sonde_tracer_note_context (const ucontext_t *context)
    __attribute__ ((visibility ("hidden"), used));

/* Returns: the real makecontext() */
Function
sonde_tracer_note_context (const ucontext_t *context)
{
  if (context->uc_stack.ss_size > 0)
    sonde_stack_finder_add ((uintptr_t) context->uc_stack.ss_sp, context->uc_stack.ss_size);
  return find_real (MAKECONTEXT);
}

/* It has as many arguments as it says, and those that it has on its stack must stay there. */
__asm__(".text\n"
        ".globl makecontext\n"
        ".type makecontext, @function\n"
        "makecontext:\n"
        "  endbr64\n"
        "  push %rdi\n"
        "  push %rsi\n"
        "  push %rdx\n"
        "  push %rcx\n"
        "  push %r8\n"
        "  push %r9\n"
        "  push %rax\n"
        "  call sonde_tracer_note_context\n"
        "  mov %rax, %r11\n"
        "  pop %rax\n"
        "  pop %r9\n"
        "  pop %r8\n"
        "  pop %rcx\n"
        "  pop %rdx\n"
        "  pop %rsi\n"
        "  pop %rdi\n"
        "  jmp *%r11\n"
        ".size makecontext, . - makecontext\n");

#endif
