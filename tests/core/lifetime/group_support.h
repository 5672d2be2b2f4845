/* What the tests of groups share: members that end in one way or another. */
#ifndef TESTS_GROUP_SUPPORT_H
#define TESTS_GROUP_SUPPORT_H

#include "support.h"

static inline weft_value mark_when_cancelled(void *arg)
{
    weft_value rc = weft_suspend();
    if (rc == -ECANCELED)
        mark(arg);
    return rc;
}

/* Cancelled, it takes its time, marks and fails. */
static inline weft_value fail_when_cancelled(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.001);
    }
    mark("failed ");
    return weft_fail((int)(intptr_t)arg, "broken clean-up");
}

static inline weft_value end_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.005);
    }
    mark(arg);
    return 0;
}

static inline weft_value sleep_and_mark(void *arg)
{
    weft_value rc = weft_sleep(0.002);
    if (rc == 0)
        mark(arg);
    return rc;
}

static inline weft_value snooze_and_fail(void *arg)
{
    weft_snooze();
    return weft_fail((int)(intptr_t)arg, "broken");
}

#endif
