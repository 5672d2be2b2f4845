/*
 * Fault tests of offloaded calls: the n-th allocation or system call fails, for each n. Each call
 * runs once or returns an error. An argument that was handed over is dropped once.
 */
#include "support/fault.h"
#include "support/suite.h"

static atomic_int detached_calls;

/* The argument of a call, passed as a pointer or as a copy. */
typedef struct work {
    int runs;
    int *drops;
} work;

static weft_value do_work(void *arg)
{
    work *w = arg;
    w->runs++;
    return 7;
}

static void drop_work(void *arg)
{
    work *w = arg;
    ++*w->drops;
}

static weft_value count_detached_call(void *arg)
{
    atomic_fetch_add(&detached_calls, 1);
    return (weft_value)arg;
}

FIBER(fail_with_message, weft_fail(-EXDEV, "%s", (char *)arg))

static bool offload_once(const weft_offload_options *o)
{
    int drops = 0;
    work w = {.drops = &drops};
    bool has_ended;
    weft_offload_options options = *o;
    options.has_ended = &has_ended;
    options.drop = drop_work;
    weft_value value = weft_offload_with(do_work, &w, &options);
    bool is_done = REQUIRE_OR_FAULT(value);
    REQUIRE(!is_done || value == 7);
    if (value == -EAGAIN && !fault.is_lasting)
        REQUIRE(weft_error() != NULL && weft_error()->code == -EAGAIN);
    REQUIRE(has_ended == is_done);
    REQUIRE(w.runs == is_done);
    REQUIRE(drops == !is_done);
    return is_done;
}

FIBER(offload_in_fiber, offload_once(arg))

/* Offload several calls at once, so that more than one worker is needed. */
static bool offload_many(void)
{
    static weft_offload_options kept_options = {.is_kept = true};
    weft_fiber f[3];
    bool is_done = true;
    for (int i = 0; i < 3; i++)
        f[i] = require_created(weft_spin(offload_in_fiber, &kept_options));
    for (int i = 0; i < 3; i++)
        is_done &= f[i] != 0 && weft_await(f[i]) == 1;
    return is_done;
}

static bool offload_detached(void)
{
    int before = atomic_load(&detached_calls);
    int rc = weft_offload_go(count_detached_call, NULL);
    bool is_done = REQUIRE_OR_FAULT(rc);
    while (is_done && atomic_load(&detached_calls) == before)
        sched_yield();
    return is_done;
}

TEST_FAULTS(a_call_runs_once_or_returns_an_error)
{
    static const weft_offload_options copied = {.arg_bytes = sizeof(work)}, plain;
    bool is_done = offload_once(&copied);
    is_done &= offload_once(&plain);
    is_done &= offload_many();
    is_done &= offload_detached();
    weft_value value = weft_offload(fail_with_message, "message");
    if (value == -EXDEV) {
        bool has_message = weft_error() != NULL && strcmp(weft_error()->message, "message") == 0;
        REQUIRE(has_message || atomic_load(&fault.injected) > 0);
        is_done &= has_message;
    } else {
        is_done &= REQUIRE_OR_FAULT(value);
    }
    return is_done;
}
