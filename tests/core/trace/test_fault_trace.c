/*
 * Traces with failing allocations and system calls. A trace starts and is written, or the call
 * fails and the program continues without a trace.
 */
#include "support/fault.h"
#include "support/suite.h"

static weft_value mark_twice(void *arg)
{
    weft_trace_begin("span");
    weft_trace_mark("mark");
    weft_snooze();
    weft_trace_end();
    return 1;
}

TEST_FAULTS(a_trace_is_written_or_its_start_or_stop_fails)
{
    if (weft_self() == 0)
        return false;
    bool is_started = REQUIRE_OR_FAULT(weft_trace_start("/dev/null"));
    REQUIRE(weft_trace_is_on() == is_started);
    weft_fiber f = require_created(weft_spin(mark_twice, NULL));
    if (f != 0)
        REQUIRE(weft_await(f) == 1);
    weft_cord cord = require_created(weft_cord_start(mark_twice, NULL, NULL));
    if (cord != 0) {
        weft_value value = weft_cord_join(cord);
        REQUIRE(value == 1 || fault_explains(value));
    }
    bool is_written = is_started && REQUIRE_OR_FAULT(weft_trace_stop());
    REQUIRE(!weft_trace_is_on());
    /* The next trace does not depend on the failed trace. */
    WITHOUT_FAULTS(({
        REQUIRE(weft_trace_start("/dev/null") == 0);
        REQUIRE(weft_trace_stop() == 0);
    }));
    return is_written && f != 0 && cord != 0;
}

static void count_event(const weft_trace_event *e, void *arg)
{
    (void)e;
    ++*(int *)arg;
}

TEST_FAULTS(a_hook_is_set_or_the_call_fails)
{
    int calls = 0;
    if (weft_self() == 0)
        return false;
    bool is_set = REQUIRE_OR_FAULT(weft_trace_set_hook(count_event, &calls));
    weft_snooze();
    REQUIRE((calls > 0) == is_set);
    REQUIRE(weft_trace_set_hook(NULL, NULL) == 0);
    return is_set;
}
