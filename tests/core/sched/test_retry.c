/* Tests of weft_retry: the delays, the number of calls, the errors, and cancellation. */
#include "support/suite.h"

#include <limits.h>

/* A function that fails some times, and then succeeds. */
typedef struct flaky {
    int failures; /* calls that fail */
    int code;     /* the error of these calls */
    bool has_words;
    int calls;
    double at[64]; /* times of the calls, after begin */
    double begin;
} flaky;

static weft_value flaky_call(void *arg)
{
    flaky *f = arg;
    if (f->calls == 0)
        f->begin = weft_now();
    if (f->calls < (int)COUNT_OF(f->at))
        f->at[f->calls] = weft_now() - f->begin;
    if (f->calls++ >= f->failures)
        return 42;
    return f->has_words ? weft_fail(f->code, "flaky: call %d", f->calls) : f->code;
}

/* Assert the time of a call. On sim only clock reads and switches advance the time. */
static void assert_called_at(const flaky *f, int call, double seconds, bool is_least)
{
    ck_assert_double_ge(f->at[call], seconds - 1e-9);
    if (is_sim() && !is_least)
        ck_assert_double_le(f->at[call], seconds + 5e-5);
}

/* The default options call a function 5 times, with doubled delays. */
static const struct {
    weft_retry_options options;
    int failures, calls;
    double times[6]; /* of the calls */
} series[] = {
    {{0}, 0, 1, {0}},
    {{0}, 100, 5, {0, 0.1, 0.3, 0.7, 1.5}},
    {{.attempts_max = 6, .first_s = 0.001, .factor = 3, .delay_s_max = 0.004},
     5,
     6,
     {0, 0.001, 0.004, 0.008, 0.012, 0.016}},
    {{.first_s = 0.002, .factor = 1}, 3, 4, {0, 0.002, 0.004, 0.006}},
    {{.attempts_max = 1}, 100, 1, {0}},
    {{.attempts_max = UINT_MAX, .first_s = 1e-6, .delay_s_max = 1e-6}, 2000, 2001, {0}},
    {{.first_s = 0.004, .factor = 1, .jitter = 0.5}, 3, 4, {0, 0.002, 0.004, 0.006}},
};

TEST_ROWS(options_set_the_number_of_calls_the_delays_their_factor_and_their_maximum, series)
{
    if (_i == 1 && !is_sim())
        return; /* the delays add up to 1.5 s, which need not pass in real time */
    flaky f = {.failures = series[_i].failures, .code = -EIO};
    const weft_retry_options *o = _i == 1 ? NULL : &series[_i].options;
    weft_value value = series[_i].calls > series[_i].failures ? 42 : -EIO;
    ck_assert_int_eq(weft_retry(flaky_call, &f, o), value);
    ck_assert_int_eq(f.calls, series[_i].calls);
    for (int i = 0; i < f.calls && i < 6; i++)
        assert_called_at(&f, i, series[_i].times[i], o != NULL && o->jitter > 0);
}

static bool is_temporary(int code, void *context)
{
    ++*(int *)context;
    return code == -EAGAIN;
}

TEST(an_error_that_is_not_temporary_ends_the_attempts)
{
    int asked = 0;
    weft_retry_options o = {.should_retry = is_temporary, .context = &asked, .first_s = 0.001};
    flaky f = {.failures = 100, .code = -ENOENT};
    ck_assert_int_eq(weft_retry(flaky_call, &f, &o), -ENOENT);
    ck_assert_int_eq(f.calls, 1);
    ck_assert_int_eq(asked, 1);
    f = (flaky){.failures = 2, .code = -EAGAIN};
    ck_assert_int_eq(weft_retry(flaky_call, &f, &o), 42);
    ck_assert_int_eq(asked, 3);
}

TEST(the_last_error_is_the_error_of_the_last_call_or_none)
{
    weft_retry_options o = {.attempts_max = 3, .first_s = 0.001};
    flaky f = {.failures = 100, .code = -EPROTO, .has_words = true};
    ck_assert_int_eq(weft_retry(flaky_call, &f, &o), -EPROTO);
    ck_assert_error(-EPROTO, "flaky: call 3");
    ck_assert_ptr_null(weft_error()->cause);
    f = (flaky){.failures = 100, .code = -EIO};
    ck_assert_int_eq(weft_retry(flaky_call, &f, &o), -EIO);
    ck_assert_int_eq(weft_error()->code, -EIO);
    ck_assert_int_eq(strncmp(weft_error()->message, "weft_retry: attempt 3 failed", 28), 0);
    weft_error_clear();
    f = (flaky){.failures = 2, .code = -EPROTO, .has_words = true};
    ck_assert_int_eq(weft_retry(flaky_call, &f, &o), 42);
    ck_assert_ptr_null(weft_error()); /* after a success there is no error */
}

TEST(an_earlier_error_is_not_the_message_of_a_failed_call)
{
    flaky f = {.failures = 1, .code = -EIO};
    ck_assert_int_eq(weft_fail(-EIO, "earlier"), -EIO);
    ck_assert_int_eq(weft_retry(flaky_call, &f, &(weft_retry_options){.attempts_max = 1}), -EIO);
    ck_assert_int_eq(strncmp(weft_error()->message, "weft_retry: attempt 1 failed", 28), 0);
}

static weft_value retry_for_hours(void *arg)
{
    return weft_retry(flaky_call, arg, &(weft_retry_options){.first_s = 3600, .delay_s_max = 3600});
}

TEST_LOOP(a_cancelled_or_interrupted_caller_does_not_call_again, 2)
{
    flaky f = {.failures = 100, .code = -EIO};
    weft_fiber fiber = spin_waiting(retry_for_hours, &f);
    ck_assert_int_eq(_i == 0 ? weft_cancel(fiber) : weft_interrupt(fiber, -EINTR), 0);
    ck_assert_int_eq(weft_await(fiber), _i == 0 ? -ECANCELED : -EINTR);
    ck_assert_int_eq(f.calls, 1);
}

TEST(the_deadline_of_a_scope_ends_the_attempts)
{
    flaky f = {.failures = 100, .code = -EIO};
    weft_value value = 0;
    double before = weft_now();
    ck_assert_times_out(0.25, value = weft_retry(flaky_call, &f, NULL));
    ck_assert_int_eq(value, -ECANCELED);
    ck_assert_slept(before, 0.25);
    if (is_sim()) {
        ck_assert_int_eq(f.calls, 2); /* at 0 and 0.1 s */
        ck_assert_double_le(weft_now() - before, 0.2501);
    }
}

FIBER_DO(count_and_sleep, ++*(int *)arg, weft_sleep(INFINITY))
FIBER(retry_sleep, weft_retry(count_and_sleep, arg, &(weft_retry_options){.first_s = 1e-6}))

TEST(a_cancellation_during_the_call_is_not_retried)
{
    int calls = 0;
    weft_fiber fiber = spin_waiting(retry_sleep, &calls);
    ck_assert_int_eq(cancel_and_await(fiber), -ECANCELED);
    ck_assert_int_eq(calls, 1);
}

/* The cancellation of a scope inside fn is an error like any other. */
static weft_value time_out_once(void *calls)
{
    if (++*(int *)calls > 1)
        return 7;
    weft_value rc = 0;
    WEFT_MOVE_ON_AFTER(0.001)
        rc = weft_sleep(INFINITY);
    return rc;
}

TEST(a_timeout_inside_the_call_is_retried)
{
    int calls = 0;
    ck_assert_int_eq(weft_retry(time_out_once, &calls, &(weft_retry_options){.first_s = 0.001}), 7);
    ck_assert_int_eq(calls, 2);
}

/* Print the delays between calls with a jitter, in ns. */
static int print_jittered_delays(void)
{
    flaky f = {.failures = 6, .code = -EIO};
    weft_retry_options o = {.attempts_max = 7, .first_s = 1, .factor = 1, .jitter = 0.5};
    weft_retry(flaky_call, &f, &o);
    for (int i = 1; i < f.calls; i++) {
        double delay = f.at[i] - f.at[i - 1];
        if (!(delay > 0.5 - 1e-9 && delay < 1.0001))
            return 3;
        dprintf(STDERR_FILENO, "%.4f\n", delay);
    }
    return 0;
}

static const char *jitter_with(const char *seed, outcome *out)
{
    setenv("WEFT_BACKEND", "sim", 1);
    if (seed != NULL)
        setenv("WEFT_SEED", seed, 1);
    else
        unsetenv("WEFT_SEED");
    *out = *run_apart(print_jittered_delays);
    ck_assert_int_eq(out->status, 0);
    return out->text;
}

TEST(the_jitter_depends_only_on_the_seed_of_sim)
{
    static outcome a, b, c, d, e;
    ck_assert_str_eq(jitter_with("1", &a), jitter_with("1", &b));
    ck_assert_str_ne(a.text, jitter_with("2", &c));
    ck_assert_str_eq(jitter_with(NULL, &d), jitter_with(NULL, &e));
    ck_assert_int_ne(strncmp(d.text, d.text + 7, 6), 0); /* two delays differ */
}

TEST(invalid_options_are_refused)
{
    const weft_retry_options invalid[] = {
        {.first_s = -1},    {.first_s = NAN},     {.first_s = INFINITY}, {.factor = 0.5},
        {.factor = NAN},    {.factor = INFINITY}, {.delay_s_max = -1},   {.delay_s_max = NAN},
        {.jitter = -0.001}, {.jitter = 1.001},    {.jitter = NAN},
    };
    flaky f = {.failures = 0};
    for (size_t i = 0; i < COUNT_OF(invalid); i++) {
        ck_assert_int_eq(weft_retry(flaky_call, &f, &invalid[i]), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_int_eq(weft_retry(NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(f.calls, 0);
}
