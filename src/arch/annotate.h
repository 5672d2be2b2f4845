/*
 * What ASan, TSan and Valgrind have to be told about contexts and their switches.
 *
 * Knows nothing of how a switch is done. The sanitizers are told of contexts, Valgrind of stacks: a
 * plain build pays for a test of weft__on_valgrind when a stack is taken and given back, and
 * nothing for a context or a switch; WEFT__ANNOTATED is then undefined.
 */
#ifndef WEFT_ARCH_ANNOTATE_H
#define WEFT_ARCH_ANNOTATE_H

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

/* Threads that a sanitizer runs for itself, beside the program's. */
#ifdef WEFT__TSAN
#define WEFT__SANITIZER_THREADS 1
#else
#define WEFT__SANITIZER_THREADS 0
#endif

/* Where a new context starts; `value` is what the first switch to it passes. Must not return. */
typedef void weft__entry(intptr_t value);

#if defined(WEFT__ASAN) || defined(WEFT__TSAN)
#define WEFT__ANNOTATED 1

#ifdef WEFT__ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif

/*
 * For code that runs while the sanitizer's idea of the stack and the stack itself differ. TSan
 * notes the entry and the exit of a function with whichever fiber is current: both or neither.
 */
#ifdef __clang__
#define WEFT__UNSANITIZED \
    __attribute__((no_sanitize("address", "thread"), disable_sanitizer_instrumentation))
#else
#define WEFT__UNSANITIZED __attribute__((no_sanitize("address", "thread")))
#endif

typedef struct weft__annotation {
    const void *low; /* the stack; NULL: given up */
    size_t bytes;
    weft__entry *entry; /* where the context really starts; NULL: adopted */
    void *fake;         /* ASan's second stack while switched out; NULL: none */
    void *fiber;        /* TSan's fiber; NULL: none, or ended */
} weft__annotation;

WEFT__UNSANITIZED
static inline void weft__annotate_make(weft__annotation *note, void *low, size_t bytes)
{
    note->low = low;
    note->bytes = bytes;
    note->fake = NULL;
    note->fiber = NULL;
#ifdef WEFT__TSAN
    note->fiber = __tsan_create_fiber(0);
#endif
}

WEFT__UNSANITIZED
static inline void weft__annotate_adopt(weft__annotation *note, void *low, size_t bytes)
{
    note->low = low;
    note->bytes = bytes;
    note->entry = NULL;
    note->fake = NULL;
    note->fiber = NULL;
#ifdef WEFT__TSAN
    note->fiber = __tsan_get_current_fiber();
#endif
}

/* Still on the stack of `from`, in the last steps before the switch. */
WEFT__UNSANITIZED
static inline void weft__annotate_depart(weft__annotation *from, weft__annotation *to)
{
    (void)from, (void)to;
#ifdef WEFT__ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->low, to->bytes);
#endif
#ifdef WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

/* For the next user of the memory: frames that were never left still have poisoned red zones. */
WEFT__UNSANITIZED
static inline void weft__annotate_end_stack(weft__annotation *note)
{
#ifdef WEFT__ASAN
    if (note->entry != NULL && note->low != NULL)
        __asan_unpoison_memory_region(note->low, note->bytes);
#endif
    note->low = NULL;
}

/* A departure for the last time. TSan's fiber may be destroyed once it is not the current one. */
WEFT__UNSANITIZED
static inline void weft__annotate_leave(weft__annotation *from, weft__annotation *to)
{
    weft__annotate_end_stack(from);
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

/* The first thing after the switch. */
WEFT__UNSANITIZED
static inline void weft__annotate_arrive(weft__annotation *self)
{
    (void)self;
#ifdef WEFT__ASAN
    __sanitizer_finish_switch_fiber(self->fake, NULL, NULL);
    self->fake = NULL;
#endif
}

/*
 * ASan frees a fake stack only when its fiber leaves it, so a context that ends switched out is
 * entered and left in ASan's books, with the real stack unchanged.
 */
WEFT__UNSANITIZED
static inline void weft__annotate_drop(weft__annotation *note)
{
#ifdef WEFT__ASAN
    if (note->fake != NULL) {
        void *fake;
        const void *low;
        size_t bytes;

        __sanitizer_start_switch_fiber(&fake, note->low, note->bytes);
        __sanitizer_finish_switch_fiber(note->fake, &low, &bytes);
        __sanitizer_start_switch_fiber(NULL, low, bytes);
        __sanitizer_finish_switch_fiber(fake, NULL, NULL);
        note->fake = NULL;
    }
#endif
#ifdef WEFT__TSAN
    if (note->fiber != NULL && note->entry != NULL)
        __tsan_destroy_fiber(note->fiber);
    note->fiber = NULL;
#endif
    weft__annotate_end_stack(note);
}

#else

#define WEFT__UNSANITIZED

typedef struct weft__annotation {
    unsigned stack_id; /* Valgrind's, of a stack it was told of; unused when not running on it */
} weft__annotation;

#pragma GCC visibility push(hidden)

/* Set before main: to ask each time costs a dozen instructions. */
extern bool weft__on_valgrind;

void weft__valgrind_tell(weft__annotation *note, void *low, size_t bytes);
void weft__valgrind_forget(weft__annotation *note);

#pragma GCC visibility pop

#endif
#endif
