/*
 * State of one fiber: deferred calls, values by key, and memory.
 *
 * When the function of a fiber has returned, weft runs the deferred calls of the fiber. Then the
 * children of the fiber end. Then weft calls the destructors of the values and frees the memory.
 */
#ifndef WEFT_LOCAL_H
#define WEFT_LOCAL_H

#include <weft/base.h>

WEFT_BEGIN

/**
 * Call fn(arg) when the calling fiber ends. Deferred calls run in reverse order, before the
 * children of the fiber end. In a main fiber, deferred calls run when the thread or process ends.
 * Returns 0, or:
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_defer(void (*fn)(void *), void *arg);

/* The key of a fiber-local value. 0 is not a key. */
typedef unsigned weft_key;

/**
 * Create a key for fiber-local values of all threads.
 *
 * When a fiber ends, weft calls destructor with each value that is not NULL, unless destructor is
 * NULL. Any thread may call this function.
 *
 * Returns the key. On failure, returns 0 and records for weft_error():
 * -EAGAIN if the process already has 64 keys
 */
WEFT_API weft_key weft_key_new(void (*destructor)(void *)) WEFT_MUST_CHECK;

/**
 * Free a key.
 *
 * weft drops values that fibers still have for the key, and does not call the destructor. Release
 * these values before the call if needed. A new key never has a value of the freed key. If a fiber
 * of another thread ends during the call, weft may still call the destructor for that fiber. Any
 * thread may call this function.
 *
 * Returns 0, or:
 * -EINVAL if the key does not exist
 */
WEFT_API int weft_key_free(weft_key key);

/**
 * Return the caller's value for a key.
 *
 * Returns NULL if the value is not set or the key does not exist. The call records no error.
 */
WEFT_API void *weft_local_get(weft_key key);

/**
 * Set the caller's value for a key.
 * Returns 0, or:
 * -EINVAL if the key does not exist
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_local_set(weft_key key, void *value);

/**
 * Allocate memory that weft frees when the caller ends. weft frees the memory after the caller's
 * children have ended. The memory is aligned for any type.
 * Returns the memory. On failure, returns NULL and records an error of weft_self, or this error for
 * weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API void *weft_alloc(size_t bytes) WEFT_MUST_CHECK;

/* The call that WEFT_DEFER stores on the stack in C. Private. */
typedef struct weft__deferred {
    void (*fn)(void); /* cast from a function with one integer or pointer parameter */
    intptr_t x;
} weft__deferred;

/** Call d->fn(d->x). The cleanup function of WEFT_DEFER. Private. */
WEFT_API void weft__deferred_run(weft__deferred *d);

WEFT_END

/*
 * WEFT_DEFER(fn, x)
 *
 * Call fn(x) when control leaves the block. Control can leave by the end of the block, return,
 * break, continue or goto. x is an integer or a pointer. The macro evaluates x once, before the
 * block continues. The macro ignores the result of fn. Several deferred calls run in reverse order.
 */
#define WEFT_DEFER(fn, x) WEFT__DEFER(fn, x, WEFT__PASTE(weft__defer_, __COUNTER__))

#ifdef __cplusplus
#if __cplusplus < 201703L
#error "weft's headers require C11 or C++17"
#endif
template <typename F> struct weft__guard {
    F call;
    ~weft__guard()
    {
        call();
    }
};
template <typename F> weft__guard(F) -> weft__guard<F>;
#define WEFT__DEFER(fn, x, name)                 \
    [[maybe_unused]] weft__guard name            \
    {                                            \
        [weft__x = (x)] { (void)(fn)(weft__x); } \
    }
#else
#define WEFT__DEFER(fn, x, name)                         \
    __attribute__((cleanup(weft__deferred_run), unused)) \
    weft__deferred name = {(void (*)(void))(fn), (intptr_t)(x) + WEFT__CHECK_CALL(fn, x)}

/* 0, or a compile-time error if fn does not take x. Does not call fn. */
#define WEFT__CHECK_CALL(fn, x) (0 * (intptr_t)sizeof(((void)(fn)(x), 0)))
#endif

#endif
