/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Static probes of x86-64 programs as systemtap's sys/sdt.h makes them: an instruction and a note.
 */
#pragma once

#include <stdint.h>

#define STATIC_PROBE_SHORT "nop\n"
#define STATIC_PROBE_LONG                                                                          \
  ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" /* what newer kernels make a call */

/* A statement. @semaphore: the name of a variable of the same file; @arguments: "8@%0", and then
 * its operands */
#define STATIC_PROBE(instruction, provider, name, semaphore, arguments, ...)                       \
  __asm__ volatile("990: " instruction ".pushsection .note.stapsdt, \"\", \"note\"\n"              \
                   ".balign 4\n"                                                                   \
                   ".4byte 992f-991f, 994f-993f, 3\n"                                              \
                   "991: .asciz \"stapsdt\"\n"                                                     \
                   "992: .balign 4\n"                                                              \
                   "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " semaphore "\n"               \
                   ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n"      \
                   "994: .balign 4\n"                                                              \
                   ".popsection\n"                                                                 \
                   ".ifndef _.stapsdt.base\n"                                                      \
                   ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"     \
                   ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                \
                   "_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n"                           \
                   ".popsection\n"                                                                 \
                   ".endif\n"                                                                      \
                   :                                                                               \
                   : __VA_ARGS__)

#define STATIC_PROBE_SEMAPHORE                                                                     \
  __attribute__ ((section (".probes"), visibility ("hidden"), used, aligned (2))) uint16_t
