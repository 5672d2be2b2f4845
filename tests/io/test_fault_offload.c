/*
 * The n-th call fails, as in test_fault.c, for offloaded calls: each is made once or its error is
 * told, and what was handed over is dropped once.
 */
#include "fault.h"

#include <stdatomic.h>

static atomic_int casts;

/* What a call works on, itself or a copy. */
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

static weft_value count_cast(void *arg)
{
    atomic_fetch_add(&casts, 1);
    return (weft_value)arg;
}

static weft_value fail_with_words(void *arg)
{
    return weft_fail(-EXDEV, "%s", (char *)arg);
}

static bool offload_once(const weft_offload_options *o)
{
    int drops = 0;
    work w = {.drops = &drops};
    bool has_ended;
    weft_offload_options options = *o;
    options.has_ended = &has_ended;
    options.drop = drop_work;
    weft_value value = weft_offload_with(do_work, &w, &options);
    bool is_done = REQUIRE_TOLD(value);
    REQUIRE(!is_done || value == 7);
    if (value == -EAGAIN && !fault.is_lasting)
        REQUIRE(weft_error() != NULL && weft_error()->code == -EAGAIN);
    REQUIRE(has_ended == is_done);
    REQUIRE(w.runs == is_done);
    REQUIRE(drops == !is_done);
    return is_done;
}

static weft_value offload_in_fiber(void *arg)
{
    return offload_once(arg);
}

/* Several at once, so that more than one thread is wanted. */
static bool offload_many(void)
{
    static weft_offload_options kept = {.is_kept = true};
    weft_fiber f[3];
    bool is_done = true;
    for (int i = 0; i < 3; i++)
        f[i] = require_made(weft_spin(offload_in_fiber, &kept));
    for (int i = 0; i < 3; i++)
        is_done &= f[i] != 0 && weft_await(f[i]) == 1;
    return is_done;
}

static bool cast_once(void)
{
    int before = atomic_load(&casts);
    int rc = weft_offload_go(count_cast, NULL);
    bool is_done = REQUIRE_TOLD(rc);
    while (is_done && atomic_load(&casts) == before)
        sched_yield();
    return is_done;
}

static bool offloading(void)
{
    static const weft_offload_options copied = {.arg_bytes = sizeof(work)}, plain;
    if (!become_a_cord())
        return false;
    bool is_done = offload_once(&copied);
    is_done &= offload_once(&plain);
    is_done &= offload_many();
    is_done &= cast_once();
    weft_value value = weft_offload(fail_with_words, "words");
    if (value == -EXDEV) {
        bool has_words = weft_error() != NULL && strcmp(weft_error()->message, "words") == 0;
        REQUIRE(has_words || atomic_load(&fault.struck) > 0);
        is_done &= has_words;
    } else {
        is_done &= REQUIRE_TOLD(value);
    }
    weft_error_clear();
    return is_done;
}

START_TEST(a_call_is_made_once_or_its_error_is_told)
{
    strike_some_calls(offloading, 1);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_call_is_made_once_or_its_error_is_told,
    };
    return run_suite("fault_offload", tests, COUNT_OF(tests));
}
