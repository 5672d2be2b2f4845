/*
 * The context switch for x86-64 (System V ABI), the first frame of a context, and calls on the
 * stack of a suspended context. Only this file, saved_registers.h, weft__frame_make and
 * weft__frame_reset in context.h depend on the layout of a suspended stack:
 *
 *      sp       return address
 *      sp - 8   r15, then r14, r13, r12, rbx, rbp downwards
 *
 * The saved registers are in the red zone of the ABI. The red zone is the 128 bytes below sp, which
 * signal handlers do not change. Therefore rsp and the CFA do not change when registers are saved.
 */
#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)

        .text

/*
 * intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value)
 *
 * - All calls of this function are direct, so the function does not begin with endbr64.
 * - The function ends with a jump. The processor predicts that a return continues in the caller,
 *   and would always mispredict.
 * - The jump needs notrack, because its target follows a call and has no endbr64.
 * - On Zen 3, loading to->sp before the stores is 2 ns faster than loading to->sp after the stores.
 * - The FPU environment does not change (fpu_env.h).
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
 * The second half of weft__context_swap, which saves nothing.
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
 * The outermost frame of a context. On entry, rbx holds `entry`, rax holds `value`, and rsp is the
 * aligned top of the stack.
 *
 * - rsp moves below the WEFT__FRAME_BYTES that weft__frame_make wrote. The next context on the
 *   stack reuses these bytes (weft__context_remake).
 * - The jump to this code is notrack, so the code does not begin with endbr64.
 * - Execution starts after the nop, because an unwinder looks up the return address minus 1.
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
 * While fn runs, the CFI describes the frame at sp as the caller of fn. The argument sp is 8 bytes
 * below a multiple of 16. Subtracting 136 skips the red zone and aligns the stack.
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
 * The code supports indirect branch tracking (bit 0), but not shadow stacks (bit 1). With shadow
 * stacks, a switch would have to switch the shadow stack too, and to pop an entry before the final
 * jump.
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
