/*
 * The switch for x86-64 (System V ABI), the first frame of a context, and calls on a switched-out
 * stack. The layout of a switched-out stack is known here, and to what makes one (context.h):
 *
 *      sp       return address
 *      sp - 8   r15, then r14, r13, r12, rbx, rbp downwards
 *
 * Everything below sp lies in the ABI's red zone (128 bytes), which signal handlers leave alone;
 * so rsp does not move to save, and the CFA is the same all the way through.
 */
#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)

        .text

/*
 * intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value)
 *
 * - Only called by name, from here, so it needs no endbr64.
 * - Leaves by a jump: a return would be predicted to go back to the caller, and never does.
 *   It lands behind a call, where there is no endbr64, hence notrack.
 * - to->sp is loaded before anything is stored: 2 ns faster on Zen 3 than after the stores.
 * - The floating-point modes are left alone (modes.h).
 */
        .globl  weft__context_swap
        .hidden weft__context_swap
        .type   weft__context_swap, @function
        .p2align 5
weft__context_swap:
        .cfi_startproc
        mov     (%rsi), %rcx
        mov     %r15, -8(%rsp)
        mov     %r14, -16(%rsp)
        mov     %r13, -24(%rsp)
        mov     %r12, -32(%rsp)
        mov     %rbx, -40(%rsp)
        mov     %rbp, -48(%rsp)
        mov     %rsp, (%rdi)
        mov     %rcx, %rsp
        .cfi_offset %r15, -16
        .cfi_offset %r14, -24
        .cfi_offset %r13, -32
        .cfi_offset %r12, -40
        .cfi_offset %rbx, -48
        .cfi_offset %rbp, -56
        mov     -8(%rcx), %r15
        mov     -16(%rcx), %r14
        mov     -24(%rcx), %r13
        mov     -32(%rcx), %r12
        mov     -40(%rcx), %rbx
        mov     -48(%rcx), %rbp
        mov     %rdx, %rax
        .cfi_remember_state
        pop     %rcx
        .cfi_def_cfa_offset 0
        notrack jmp *%rcx
        .cfi_restore_state
        .cfi_endproc
        .size   weft__context_swap, . - weft__context_swap

/*
 * void weft__context_jump(weft__context *to, intptr_t value)
 *
 * The second half of a swap: nothing is saved.
 */
        .globl  weft__context_jump
        .hidden weft__context_jump
        .type   weft__context_jump, @function
        .p2align 5
weft__context_jump:
        .cfi_startproc
        .cfi_undefined %rip
        mov     (%rdi), %rsp
        mov     -8(%rsp), %r15
        mov     -16(%rsp), %r14
        mov     -24(%rsp), %r13
        mov     -32(%rsp), %r12
        mov     -40(%rsp), %rbx
        mov     -48(%rsp), %rbp
        mov     %rsi, %rax
        pop     %rcx
        notrack jmp *%rcx
        .cfi_endproc
        .size   weft__context_jump, . - weft__context_jump

/*
 * The outermost frame of a context: entry in rbx, value in rax, rsp at the aligned top. It goes
 * below what it was laid with (WEFT__FRAME_BYTES), so that this is good for the next context, too.
 * Jumped to without a track, so it needs no endbr64. Starts behind the nop: unwinders look up the
 * address before the one where a frame goes on.
 */
        .globl  weft__first_frame
        .hidden weft__first_frame
        .type   weft__first_frame, @function
        .p2align 4
weft__first_frame:
        .cfi_startproc
        .cfi_undefined %rip
        nop
        sub     $64, %rsp
        .cfi_adjust_cfa_offset 64
        mov     %rax, %rdi
        call    *%rbx
        ud2
        .cfi_endproc
        .size   weft__first_frame, . - weft__first_frame

/*
 * void weft__frame_call(void *sp, void (*fn)(void *), void *arg)
 *
 * While fn runs, the CFI describes the frame at sp, not the one that called. sp is 8 below a
 * multiple of 16; 136 keeps the red zone and aligns.
 */
        .globl  weft__frame_call
        .hidden weft__frame_call
        .type   weft__frame_call, @function
        .p2align 4
weft__frame_call:
        .cfi_startproc
        endbr64
        push    %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov     %rsp, %rbp
        .cfi_def_cfa_register %rbp
        .cfi_remember_state
        lea     -136(%rdi), %rsp
        .cfi_def_cfa %rsp, 144
        .cfi_offset %r15, -16
        .cfi_offset %r14, -24
        .cfi_offset %r13, -32
        .cfi_offset %r12, -40
        .cfi_offset %rbx, -48
        .cfi_offset %rbp, -56
        mov     %rdx, %rdi
        call    *%rsi
        mov     %rbp, %rsp
        .cfi_restore_state
        pop     %rbp
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        ret
        .cfi_endproc
        .size   weft__frame_call, . - weft__frame_call

/*
 * Fit for indirect branch tracking (bit 0), not for shadow stacks (bit 1): those would have to be
 * switched too, and the jump out of swap would have to pop one.
 */
        .section .note.gnu.property, "a", @note
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0

#endif

#ifdef __ELF__
        .section .note.GNU-stack, "", @progbits
#endif
