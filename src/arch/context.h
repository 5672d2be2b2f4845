/*
 * An execution context that does not run: what is left of a fiber when it is switched out.
 *
 * The switch itself is assembly on x86-64 and aarch64 (x86_64.S, aarch64.S) and ucontext
 * elsewhere (context.c; -DWEFT_UCONTEXT asks for it). The sanitizers and Valgrind are told of
 * every switch here, so nothing above knows of them.
 */
#ifndef WEFT_ARCH_CONTEXT_H
#define WEFT_ARCH_CONTEXT_H

#include "arch/annotate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef struct weft__context {
    void *sp;              /* the saved stack pointer; its frame is the assembly's business */
    weft__annotation note; /* what the sanitizers need; one unused word in a plain build */
} weft__context;

/*
 * The assembly: save the callee-saved state on the current stack and its pointer in from->sp,
 * continue at to->sp. Returns what the switch back to `from` passes as value. They must differ.
 * The floating-point modes are the thread's, and stay as they are (modes.h).
 */
intptr_t weft__context_swap(weft__context *from, weft__context *to, intptr_t value);

/* The same without saving anything: the stack that it is called on is given up. */
__attribute__((noreturn)) void weft__context_jump(weft__context *to, intptr_t value);

/* Lay the first frame of a context on a fresh stack and set its sp. */
#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)
extern char weft__first_frame[]; /* begins with a nop, which is not run */

/* Of the first frame, which is above all others, and stays as it is. */
#define WEFT__FRAME_BYTES 64

static inline uintptr_t *weft__frame_reset(weft__context *context, void *low, size_t bytes)
{
    uintptr_t *top = (uintptr_t *)(((uintptr_t)low + bytes) & ~(uintptr_t)15);
    context->sp = top - 1;
    return top;
}

static inline void weft__frame_make(weft__context *context, void *low, size_t bytes,
                                    weft__entry *entry)
{
    uintptr_t *top = weft__frame_reset(context, low, bytes);
    top[-1] = (uintptr_t)weft__first_frame + 1;
    top[-6] = (uintptr_t)entry; /* rbx */
    top[-7] = 0;                /* rbp: an end for those who walk along frame pointers */
}
#else
void weft__frame_make(weft__context *context, void *low, size_t bytes, weft__entry *entry);
#endif

/* Call fn(arg) below the frame that swap left at sp. Not with ucontext. */
void weft__frame_call(void *sp, void (*fn)(void *), void *arg);

/*
 * Contexts will be made on this stack, bytes at low, one after the other, or no more of them. Only
 * Valgrind has to know; to the sanitizers each context is new.
 */
static inline void weft__context_tell_stack(weft__context *context, void *low, size_t bytes)
{
    (void)context, (void)low, (void)bytes;
#ifndef WEFT__ANNOTATED
    if (__builtin_expect(weft__on_valgrind, 0))
        weft__valgrind_tell(&context->note, low, bytes);
#endif
}

static inline void weft__context_forget_stack(weft__context *context)
{
    (void)context;
#ifndef WEFT__ANNOTATED
    if (__builtin_expect(weft__on_valgrind, 0))
        weft__valgrind_forget(&context->note);
#endif
}

#ifdef WEFT__ANNOTATED
void weft__context_make(weft__context *context, void *low, size_t bytes, weft__entry *entry);
#define weft__context_again weft__context_make
intptr_t weft__context_switch(weft__context *from, weft__context *to, intptr_t value);
void weft__context_leave(weft__context *from, weft__context *to, intptr_t value)
    __attribute__((noreturn));
#else

/*
 * Make a context that will call entry on a fresh stack, bytes at low. Writes only near the top of
 * the stack. An unwinder that walks up from entry ends there.
 */
static inline void weft__context_make(weft__context *context, void *low, size_t bytes,
                                      weft__entry *entry)
{
    weft__frame_make(context, low, bytes, entry);
}

/*
 * The same once more, on a stack where that has been done before, for the same entry, and nothing
 * else was written to the WEFT__FRAME_BYTES at the top.
 */
static inline void weft__context_again(weft__context *context, void *low, size_t bytes,
                                       weft__entry *entry)
{
#ifdef WEFT__FRAME_BYTES
    (void)entry;
    weft__frame_reset(context, low, bytes);
#else
    weft__frame_make(context, low, bytes, entry);
#endif
}

/* Switch, telling the sanitizers. In a plain build this is weft__context_swap and nothing else. */
static inline intptr_t weft__context_switch(weft__context *from, weft__context *to, intptr_t value)
{
    return weft__context_swap(from, to, value);
}

/*
 * The same from a stack that is given up for good: `from` is not resumed again and needs no drop.
 * What the sanitizers keep for it is freed. Does not return.
 */
__attribute__((noreturn)) static inline void weft__context_leave(weft__context *from,
                                                                 weft__context *to, intptr_t value)
{
    (void)from;
    weft__context_jump(to, value);
}
#endif

/* The context of the calling thread's own stack, to be switched away from first. */
void weft__context_adopt(weft__context *context);

/*
 * The context will not be switched to again; its stack may be used for another one. Not for the
 * running one, unless it is an adopted one. Does nothing more after a leave. Forgets the stack,
 * too.
 */
void weft__context_drop(weft__context *context);

/* What weft__context_call may take of that stack: an unwinder needs less than half of it. */
#define WEFT__CALL_BYTES 8192

/*
 * Call fn(arg) on the stack of a context that is switched out, as if called from where it waits:
 * an unwinder inside fn sees its frames. fn must not switch, and must return. Returns false, with
 * nothing called, where that is not possible (ucontext).
 */
bool weft__context_call(weft__context *context, void (*fn)(void *), void *arg);

#pragma GCC visibility pop

#endif
