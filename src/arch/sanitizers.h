/*
 * Annotations of contexts and switches for ASan, TSan and Valgrind. The annotations do not depend
 * on the implementation of the switch.
 *
 * The sanitizers track contexts, and Valgrind tracks stacks. Without sanitizers, WEFT__SANITIZED is
 * undefined. The only cost is then a test of weft__on_valgrind when a stack is registered or
 * unregistered.
 */
#ifndef WEFT_ARCH_SANITIZERS_H
#define WEFT_ARCH_SANITIZERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define WEFT__ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WEFT__TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define WEFT__ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define WEFT__TSAN 1
#endif

/* Number of threads that the sanitizer creates in the process. */
#ifdef WEFT__TSAN
#define WEFT__SANITIZER_THREADS 1
#else
#define WEFT__SANITIZER_THREADS 0
#endif

/*
 * The first function of a context. The first switch to the context passes `value`. The function
 * must not return.
 */
typedef void weft__entry(intptr_t value);

#if defined(WEFT__ASAN) || defined(WEFT__TSAN)
#define WEFT__SANITIZED 1

#ifdef WEFT__ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif

/*
 * For functions that run while the current stack differs from the stack that the sanitizer tracks.
 * TSan records the entry and exit of a function in TSan's current fiber. A function that switches
 * would enter in one fiber and exit in another, so TSan must record neither.
 */
#ifdef __clang__
#define WEFT__UNSANITIZED \
    __attribute__((no_sanitize("address", "thread"), disable_sanitizer_instrumentation))
#else
#define WEFT__UNSANITIZED __attribute__((no_sanitize("address", "thread")))
#endif

/* The state of a context for the sanitizers. */
typedef struct weft__sanitizer_state {
    const void *low; /* lowest byte of the stack; NULL: unknown, or the context has ended */
    size_t bytes;
    weft__entry *entry; /* argument of weft__context_make; NULL: the thread's own stack */
    void *fake;         /* ASan's fake stack while suspended; NULL: none */
    void *fiber;        /* TSan's fiber; NULL: none, or ended */
} weft__sanitizer_state;

WEFT__UNSANITIZED
static inline void weft__sanitizer_make(weft__sanitizer_state *sanitizer, void *low, size_t bytes)
{
    sanitizer->low = low;
    sanitizer->bytes = bytes;
    sanitizer->fake = NULL;
    sanitizer->fiber = NULL;
#ifdef WEFT__TSAN
    sanitizer->fiber = __tsan_create_fiber(0);
#endif
}

WEFT__UNSANITIZED
static inline void weft__sanitizer_adopt(weft__sanitizer_state *sanitizer, void *low, size_t bytes)
{
    sanitizer->low = low;
    sanitizer->bytes = bytes;
    sanitizer->entry = NULL;
    sanitizer->fake = NULL;
    sanitizer->fiber = NULL;
#ifdef WEFT__TSAN
    sanitizer->fiber = __tsan_get_current_fiber();
#endif
}

/*
 * Report the start of a switch. Call this function on the stack of `from`, directly before the
 * switch.
 */
WEFT__UNSANITIZED
static inline void weft__sanitizer_start_switch(weft__sanitizer_state *from,
                                                weft__sanitizer_state *to)
{
    (void)from, (void)to;
#ifdef WEFT__ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->low, to->bytes);
#endif
#ifdef WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

/*
 * Unpoison the stack for the next context on the stack. Frames that never returned leave poisoned
 * red zones.
 */
WEFT__UNSANITIZED
static inline void weft__sanitizer_end_stack(weft__sanitizer_state *sanitizer)
{
#ifdef WEFT__ASAN
    if (sanitizer->entry != NULL && sanitizer->low != NULL)
        __asan_unpoison_memory_region(sanitizer->low, sanitizer->bytes);
#endif
    sanitizer->low = NULL;
}

/*
 * Like weft__sanitizer_start_switch, but from a context that ends. TSan cannot destroy its current
 * fiber, so the call destroys the fiber of `from` after the switch.
 */
WEFT__UNSANITIZED
static inline void weft__sanitizer_leave(weft__sanitizer_state *from, weft__sanitizer_state *to)
{
    weft__sanitizer_end_stack(from);
    (void)to;
#ifdef WEFT__ASAN
    __sanitizer_start_switch_fiber(NULL, to->low, to->bytes);
#endif
#ifdef WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
    __tsan_destroy_fiber(from->fiber);
    from->fiber = NULL;
#endif
}

/* Report the end of a switch. Call this function directly after the switch, on the new stack. */
WEFT__UNSANITIZED
static inline void weft__sanitizer_finish_switch(weft__sanitizer_state *self)
{
    (void)self;
#ifdef WEFT__ASAN
    __sanitizer_finish_switch_fiber(self->fake, NULL, NULL);
    self->fake = NULL;
#endif
}

/*
 * Release the state of a suspended context. ASan frees the fake stack of a context only in a final
 * switch away from the context. Therefore the call reports a switch to the context and a final
 * switch back, without switching.
 */
WEFT__UNSANITIZED
static inline void weft__sanitizer_drop(weft__sanitizer_state *sanitizer)
{
#ifdef WEFT__ASAN
    if (sanitizer->fake != NULL) {
        void *fake;
        const void *low;
        size_t bytes;

        __sanitizer_start_switch_fiber(&fake, sanitizer->low, sanitizer->bytes);
        __sanitizer_finish_switch_fiber(sanitizer->fake, &low, &bytes);
        __sanitizer_start_switch_fiber(NULL, low, bytes);
        __sanitizer_finish_switch_fiber(fake, NULL, NULL);
        sanitizer->fake = NULL;
    }
#endif
#ifdef WEFT__TSAN
    if (sanitizer->fiber != NULL && sanitizer->entry != NULL)
        __tsan_destroy_fiber(sanitizer->fiber);
    sanitizer->fiber = NULL;
#endif
    weft__sanitizer_end_stack(sanitizer);
}

#else

#define WEFT__UNSANITIZED

typedef struct weft__sanitizer_state {
    unsigned stack_id; /* Valgrind's id of the registered stack; unused without Valgrind */
} weft__sanitizer_state;

#pragma GCC visibility push(hidden)

/*
 * True if the program runs on Valgrind. Set before main. RUNNING_ON_VALGRIND takes a dozen
 * instructions, but this variable takes one load.
 */
extern bool weft__on_valgrind;

void weft__valgrind_register(weft__sanitizer_state *sanitizer, void *low, size_t bytes);
void weft__valgrind_unregister(weft__sanitizer_state *sanitizer);

#pragma GCC visibility pop

#endif
#endif
