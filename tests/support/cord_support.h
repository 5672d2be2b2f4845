/* What the tests of cords share: threads that tell each other how far they are. */
#ifndef TESTS_CORD_SUPPORT_H
#define TESTS_CORD_SUPPORT_H

#include "support.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * Sanitizers make everything slower; and TSan has threads that cannot be told from the program's.
 */
#if defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#define KNOWS_THREADS 0
#elif defined(__SANITIZE_ADDRESS__)
#define IS_SLOW 1
#define KNOWS_THREADS 1
#else
#define IS_SLOW 0
#define KNOWS_THREADS 1
#endif

static inline weft_cord start_cord(weft_fn *fn, void *arg)
{
    weft_cord cord = weft_cord_start(fn, arg, NULL);
    ck_assert_uint_ne(cord, 0);
    return cord;
}

/* Tells whoever its argument is that it is there, and waits to be ended. */
static inline weft_value announce_and_wait(void *arg)
{
    weft_tell(arg_id(arg), 1);
    return weft_sleep(INFINITY);
}

/* A cord of which it is known that its function waits. */
static inline weft_cord start_waiting(void)
{
    weft_cord cord = start_cord(announce_and_wait, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    return cord;
}

/* Until the cord's thread is out of reach: it has ended, joined or not. */
static inline void await_end(weft_cord cord)
{
    while (weft_tell(cord, 1) != -ESRCH)
        weft_sleep(0);
}

#endif
