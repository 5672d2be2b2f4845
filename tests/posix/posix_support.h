/*
 * Support for tests of libweft-posix. A test program calls libc's functions as a stock library
 * does. The program adopts itself, or runs with libweft-preload.
 */
#ifndef TESTS_POSIX_POSIX_SUPPORT_H
#define TESTS_POSIX_POSIX_SUPPORT_H

#include "support/suite.h"

#include <weft/posix.h>

/* Return whether the program runs with libweft-preload. */
static inline bool is_preloaded(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload != NULL && strstr(preload, "weft-preload") != NULL;
}

/* Hook the calls of this program. Use this function as set_up of a FIXTURE. */
static inline void adopt_program(void)
{
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt("", NULL), 0);
}

static inline weft_posix_counters posix_stats(void)
{
    weft_posix_counters counters;
    weft_posix_stats(&counters);
    return counters;
}

#endif
