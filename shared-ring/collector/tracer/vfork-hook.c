/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer: has children of vfork(), which run in their parent's place, count nothing. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared-ring/collector/tracer/tracer.h"

#if defined(__x86_64__) && defined(__LP64__)

#define HOOK __attribute__ ((visibility ("default")))

typedef void (*Function) (void);

static Function real;

/* Before main(): whoever calls it later may be in a signal handler. */
static void __attribute__ ((constructor)) find_real (void)
{
  void *symbol = dlsym (RTLD_NEXT, "vfork");

  /* ISO C has no conversion from an object pointer to a function pointer. */
  memcpy (&real, &symbol, sizeof symbol);
}

Function sonde_tracer_note_vfork (void) __attribute__ ((visibility ("hidden"), used));

/* Returns: the real vfork() */
Function
sonde_tracer_note_vfork (void)
{
  if (real == NULL)
    find_real ();
  if (real == NULL)
    abort ();
  sonde_tracer_begin_vfork ();
  return real;
}

HOOK int vfork (void);

/* It returns twice to its caller, and the child spoils what lies below there: so nothing of ours is
 * left on the stack, and the real one has our caller for its own. */
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  sub $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  call sonde_tracer_note_vfork\n"
        "  add $8, %rsp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  jmp *%rax\n"
        "  .cfi_endproc\n"
        ".size vfork, . - vfork\n");

#endif
