/*
 * The context switch for aarch64 (AAPCS64), the first frame of a context, and calls on the stack of
 * a suspended context. Only this file and saved_registers.h depend on the layout of a suspended
 * stack. The layout is 160 bytes, from sp upwards:
 *
 *      sp        x19 to x28, x29 (frame pointer), x30 (return address)
 *      sp + 96   d8 to d15
 *
 * AAPCS64 has no red zone, so sp must change before registers are saved.
 */
#if defined(__aarch64__) && !defined(WEFT_UCONTEXT)

/*
 * End a switch with a jump. The processor predicts that a return continues in the caller, and would
 * always mispredict. With BTI, use a return. The target follows a call and has no bti instruction,
 * so a jump to the target would fault.
 */
#ifdef __ARM_FEATURE_BTI_DEFAULT
#define SWITCH_END ret
#else
#define SWITCH_END br x30
#endif

#define FUNCTION_BTI hint #34 /* bti c; a nop on older processors; older assemblers lack the name */

        .text

        .macro  cfi_suspended
        .cfi_offset x19, -160
        .cfi_offset x20, -152
        .cfi_offset x21, -144
        .cfi_offset x22, -136
        .cfi_offset x23, -128
        .cfi_offset x24, -120
        .cfi_offset x25, -112
        .cfi_offset x26, -104
        .cfi_offset x27, -96
        .cfi_offset x28, -88
        .cfi_offset x29, -80
        .cfi_offset x30, -72
        .cfi_offset d8, -64
        .cfi_offset d9, -56
        .cfi_offset d10, -48
        .cfi_offset d11, -40
        .cfi_offset d12, -32
        .cfi_offset d13, -24
        .cfi_offset d14, -16
        .cfi_offset d15, -8
        .endm

/* intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value) */
        .globl  weft__context_swap
        .hidden weft__context_swap
        .type   weft__context_swap, %function
        .p2align 5
weft__context_swap:
        .cfi_startproc
        FUNCTION_BTI
        ldr     x9, [x1]
        .cfi_remember_state
        sub     sp, sp, #160
        .cfi_def_cfa_offset 160
        stp     x19, x20, [sp]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        cfi_suspended
        mov     x12, sp
        str     x12, [x0]
        mov     sp, x9
        ldp     x19, x20, [sp]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        mov     x0, x2
        add     sp, sp, #160
        .cfi_restore_state
        SWITCH_END
        .cfi_endproc
        .size   weft__context_swap, . - weft__context_swap

/*
 * void weft__context_jump(weft__context *to, intptr_t value)
 *
 * The second half of weft__context_swap, which saves nothing.
 */
        .globl  weft__context_jump
        .hidden weft__context_jump
        .type   weft__context_jump, %function
        .p2align 5
weft__context_jump:
        .cfi_startproc
        .cfi_undefined x30
        FUNCTION_BTI
        ldr     x9, [x0]
        mov     sp, x9
        ldp     x19, x20, [sp]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        mov     x0, x1
        add     sp, sp, #160
        SWITCH_END
        .cfi_endproc
        .size   weft__context_jump, . - weft__context_jump

/*
 * The outermost frame of a context. On entry, x19 holds `entry`, x0 holds `value`, and sp is the
 * aligned top of the stack. Execution starts after the nop, because an unwinder looks up the return
 * address minus 1.
 */
        .type   first_frame, %function
        .p2align 4
first_frame:
        .cfi_startproc
        .cfi_undefined x30
        nop
        mov     x29, xzr
        mov     x30, xzr
        blr     x19
        brk     #0
        .cfi_endproc
        .size   first_frame, . - first_frame

/* void weft__frame_make(weft__context *context, void *low, size_t bytes, weft__entry *entry) */
        .globl  weft__frame_make
        .hidden weft__frame_make
        .type   weft__frame_make, %function
        .p2align 4
weft__frame_make:
        .cfi_startproc
        FUNCTION_BTI
        add     x1, x1, x2
        and     x1, x1, #-16
        sub     x1, x1, #160
        adr     x9, first_frame + 4
        str     x3, [x1]
        str     x9, [x1, #88]
        str     x1, [x0]
        ret
        .cfi_endproc
        .size   weft__frame_make, . - weft__frame_make

/*
 * void weft__frame_call(void *sp, void (*fn)(void *), void *arg)
 *
 * While fn runs, the CFI describes the frame at sp as the caller of fn.
 */
        .globl  weft__frame_call
        .hidden weft__frame_call
        .type   weft__frame_call, %function
        .p2align 4
weft__frame_call:
        .cfi_startproc
        FUNCTION_BTI
        stp     x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov     x29, sp
        .cfi_def_cfa_register x29
        .cfi_remember_state
        mov     sp, x0
        .cfi_def_cfa sp, 160
        cfi_suspended
        mov     x0, x2
        blr     x1
        mov     sp, x29
        .cfi_restore_state
        ldp     x29, x30, [sp], #16
        .cfi_def_cfa sp, 0
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
        .size   weft__frame_call, . - weft__frame_call

#ifdef __ARM_FEATURE_BTI_DEFAULT
        .section .note.gnu.property, "a", %note
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000, 4, 1, 0
#endif

#endif

#ifdef __ELF__
        .section .note.GNU-stack, "", %progbits
#endif
