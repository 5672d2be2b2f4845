/* Helpers for the tests of groups: members that end in different ways. */
#ifndef TESTS_CORE_LIFETIME_GROUP_SUPPORT_H
#define TESTS_CORE_LIFETIME_GROUP_SUPPORT_H

#include "support/support.h"

static inline weft_value fail_when_cancelled(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.001);
    }
    mark("failed ");
    return weft_fail((int)(intptr_t)arg, "broken clean-up");
}

static inline weft_value mark_after_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.005);
    }
    mark(arg);
    return 0;
}

static inline weft_value sleep_then_mark_if_slept(void *arg)
{
    weft_value rc = weft_sleep(0.002);
    if (rc == 0)
        mark(arg);
    return rc;
}

FIBER_DO(snooze_and_fail, weft_snooze(), weft_fail((int)(intptr_t)arg, "broken"))

#endif
