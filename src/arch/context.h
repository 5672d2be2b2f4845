/*
 * Execution contexts: creation, switching, and calls on the stack of a suspended context.
 *
 * The switch is assembly on x86-64 and aarch64 (x86_64.S, aarch64.S). Other machines, and builds
 * with -DWEFT_UCONTEXT, use ucontext (context.c). This layer reports all switches to the
 * sanitizers, and all stacks to Valgrind. Higher layers do not depend on these tools.
 */
#ifndef WEFT_ARCH_CONTEXT_H
#define WEFT_ARCH_CONTEXT_H

#include "arch/sanitizers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A context. The fields are valid while the context is not running. */
typedef struct weft__context {
    void *sp; /* saved stack pointer; its frame is defined in the assembly file */
    weft__sanitizer_state sanitizer; /* for the sanitizers, or for Valgrind */
} weft__context;

/*
 * Save the callee-saved registers on the current stack, and the stack pointer in from->sp. Then
 * load the stack pointer from to->sp, and continue there. value is the result of the swap that
 * suspended `to`.
 *
 * Returns the value that the switch back to `from` passes. `from` and `to` must differ. The FPU
 * environment belongs to the thread and does not change (fpu_env.h).
 */
intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value);

/* Like weft__context_swap, but without saving the caller. The caller can never resume. */
__attribute__((noreturn)) void weft__context_jump(weft__context *to, intptr_t value);

#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)
extern char weft__first_frame[]; /* begins with a nop that is not executed */

/*
 * Bytes of the first frame, at the top of the stack. weft__frame_make writes these bytes. The
 * context does not change them.
 */
#define WEFT__FRAME_BYTES 64

/*
 * Set sp to the first frame, without writing the frame. Return the top of the stack, aligned to 16
 * bytes.
 */
static inline uintptr_t *weft__frame_reset(weft__context *context, void *low, size_t bytes)
{
    uintptr_t *top = (uintptr_t *)(((uintptr_t)low + bytes) & ~(uintptr_t)15);
    context->sp = top - 1;
    return top;
}

/* Write the first frame of a context to a new stack, and set sp. */
static inline void weft__frame_make(weft__context *context, void *low, size_t bytes,
                                    weft__entry *entry)
{
    uintptr_t *top = weft__frame_reset(context, low, bytes);
    top[-1] = (uintptr_t)weft__first_frame + 1;
    top[-6] = (uintptr_t)entry; /* rbx */
    top[-7] = 0;                /* rbp: the end of the chain of frame pointers */
}
#else
/* Write the first frame of a context to a new stack, and set sp. */
void weft__frame_make(weft__context *context, void *low, size_t bytes, weft__entry *entry);
#endif

/* Call fn(arg) below the frame that weft__context_swap saved at sp. Not available with ucontext. */
void weft__frame_call(void *sp, void (*fn)(void *), void *arg);

/*
 * Register the stack of `bytes` bytes at `low` before the first context is created on it. Only
 * Valgrind needs this call. The sanitizers track contexts instead of stacks.
 */
static inline void weft__context_register_stack(weft__context *context, void *low, size_t bytes)
{
    (void)context, (void)low, (void)bytes;
#ifndef WEFT__SANITIZED
    if (__builtin_expect(weft__on_valgrind, 0))
        weft__valgrind_register(&context->sanitizer, low, bytes);
#endif
}

/* Undo weft__context_register_stack. No further context may be created on the stack. */
static inline void weft__context_unregister_stack(weft__context *context)
{
    (void)context;
#ifndef WEFT__SANITIZED
    if (__builtin_expect(weft__on_valgrind, 0))
        weft__valgrind_unregister(&context->sanitizer);
#endif
}

#ifdef WEFT__SANITIZED
void weft__context_make(weft__context *context, void *low, size_t bytes, weft__entry *entry);
#define weft__context_remake weft__context_make
intptr_t weft__context_switch(weft__context *from, weft__context *to, intptr_t value);
void weft__context_leave(weft__context *from, weft__context *to, intptr_t value)
    __attribute__((noreturn));
#else

/*
 * Create a context that calls entry on a new stack of `bytes` bytes at `low`. The call writes only
 * near the top of the stack. A backtrace of the context ends at entry.
 */
static inline void weft__context_make(weft__context *context, void *low, size_t bytes,
                                      weft__entry *entry)
{
    weft__frame_make(context, low, bytes, entry);
}

/*
 * Like weft__context_make, but on a stack that had a context with the same entry. The
 * WEFT__FRAME_BYTES at the top of the stack must not have changed since weft__context_make. Without
 * this function: spin +5 to 8 % time (docs/adr/0051).
 */
static inline void weft__context_remake(weft__context *context, void *low, size_t bytes,
                                        weft__entry *entry)
{
#ifdef WEFT__FRAME_BYTES
    (void)entry;
    weft__frame_reset(context, low, bytes);
#else
    weft__frame_make(context, low, bytes, entry);
#endif
}

/* Switch contexts, like weft__context_swap. In builds with sanitizers, also report the switch. */
static inline intptr_t weft__context_switch(weft__context *from, weft__context *to, intptr_t value)
{
    return weft__context_swap(from, to, value);
}

/*
 * Like weft__context_switch, but from a context that is never resumed. The call frees the
 * sanitizers' state of `from`, so weft__context_drop is not necessary.
 */
__attribute__((noreturn)) static inline void weft__context_leave(weft__context *from,
                                                                 weft__context *to, intptr_t value)
{
    (void)from;
    weft__context_jump(to, value);
}
#endif

/*
 * Initialise the context of the calling thread's own stack. The thread must not have switched yet.
 */
void weft__context_adopt(weft__context *context);

/*
 * Release a context that is never resumed, and unregister its stack. The context must not be
 * running, unless weft__context_adopt initialised it. After weft__context_leave, the call only
 * unregisters the stack.
 */
void weft__context_drop(weft__context *context);

/*
 * Bytes of stack that fn may use in weft__context_call. An unwinder needs less than half of these
 * bytes.
 */
#define WEFT__CALL_BYTES 8192

/*
 * Call fn(arg) on the stack of a suspended context, as if the context had called fn. A backtrace in
 * fn shows the frames of the context. fn must return, and must not switch. With ucontext, the call
 * returns false and does not call fn.
 */
bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg);

#pragma GCC visibility pop

#endif
