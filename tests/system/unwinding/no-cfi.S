/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two functions that call another and have no call frame information. */
        .text

        .globl  call_with_frame_pointer
        .type   call_with_frame_pointer, %function
call_with_frame_pointer:
#if defined(__x86_64__)
        push    %rbp
        mov     %rsp, %rbp
        mov     %rdi, %rax
        mov     %esi, %edi
        call    *%rax
        pop     %rbp
        ret
#elif defined(__aarch64__)
        stp     x29, x30, [sp, -16]!
        mov     x29, sp
        mov     x2, x0
        mov     w0, w1
        blr     x2
        ldp     x29, x30, [sp], 16
        ret
#endif
        .size   call_with_frame_pointer, . - call_with_frame_pointer

/* The frame pointer is something else here: nothing leads to the caller. */
        .globl  call_without_frame_pointer
        .type   call_without_frame_pointer, %function
call_without_frame_pointer:
#if defined(__x86_64__)
        push    %rbp
        sub     $32, %rsp
        mov     $1, %ebp
        mov     %rdi, %rax
        mov     %esi, %edi
        call    *%rax
        add     $32, %rsp
        pop     %rbp
        ret
#elif defined(__aarch64__)
        stp     x29, x30, [sp, -48]!
        mov     x29, 1
        mov     x2, x0
        mov     w0, w1
        blr     x2
        ldp     x29, x30, [sp], 48
        ret
#endif
        .size   call_without_frame_pointer, . - call_without_frame_pointer

        .section .note.GNU-stack, "", %progbits
