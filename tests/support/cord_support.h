/* Helpers for the tests of cords: threads that report their progress. */
#ifndef TESTS_SUPPORT_CORD_SUPPORT_H
#define TESTS_SUPPORT_CORD_SUPPORT_H

#include "support/support.h"

#include <stdatomic.h>

/*
 * Sanitizers slow down every program. TSan also runs its own threads, which a test cannot tell
 * apart from the threads of the program.
 */
#if defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#define HAS_ONLY_OWN_THREADS 0
#elif defined(__SANITIZE_ADDRESS__)
#define IS_SLOW 1
#define HAS_ONLY_OWN_THREADS 1
#else
#define IS_SLOW 0
#define HAS_ONLY_OWN_THREADS 1
#endif

static inline weft_cord start_cord(weft_fn *fn, void *arg)
{
    weft_cord cord = weft_cord_start(fn, arg, NULL);
    ck_assert_uint_ne(cord, 0);
    return cord;
}

/* Tell the fiber in arg that this fiber runs, then sleep until cancelled. */
static inline weft_value announce_and_wait(void *arg)
{
    weft_tell(arg_id(arg), 1);
    return weft_sleep(INFINITY);
}

/* Start a cord and wait until its function runs. */
static inline weft_cord start_waiting_cord(void)
{
    weft_cord cord = start_cord(announce_and_wait, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    return cord;
}

/* Wait until the thread of the cord has ended. The cord may be joined or not. */
static inline void await_cord_end(weft_cord cord)
{
    while (weft_tell(cord, 1) != -ESRCH)
        weft_sleep(0);
}

#endif
