/*
 * Cords that start and end while many fibers use them. Each call returns, each argument is dropped
 * exactly once, and no cord is left.
 */
#include "support/cord_support.h"

#include <sched.h>

static _Atomic(weft_cord) ended_cord;
static atomic_bool is_over;

static void *use_ended_cord(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        weft_cord cord = atomic_load(&ended_cord);
        ck_assert(weft_cord_cancel(cord) == -ESRCH);
        ck_assert(weft_tell(cord, 1) == -ESRCH);
        ck_assert(weft_cord_spin(cord, return_arg, NULL) == 0);
        sched_yield();
    }
    return NULL;
}

START_TEST(the_id_of_an_ended_cord_does_not_name_the_next_cord_of_its_slot)
{
    pthread_t threads[2];
    ended_cord = start_cord(return_arg, NULL);
    weft_cord_join(ended_cord);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_ended_cord, NULL), 0);
    for (int i = 0; i < (IS_SLOW ? 200 : 1000); i++)
        ck_assert_int_eq(weft_cord_join(start_cord(return_arg, as_arg(i))), i);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
}
END_TEST

#if !IS_SLOW
/* Every call that returns an id or a pointer fails with a message. */
static void *use_thread_without_fibers(void *arg)
{
    (void)arg;
    const char *reason = "the thread cannot have fibers: too many other threads do";
    ck_assert_ptr_null(weft_error());
    ck_assert_uint_eq(weft_self(), 0);
    ck_assert_error(-EAGAIN, reason);
    weft_error_clear();
    ck_assert_uint_eq(weft_spin(return_arg, NULL), 0);
    ck_assert_error(-EAGAIN, reason);
    weft_error_clear();
    ck_assert_ptr_null(weft_alloc(1));
    ck_assert_error(-EAGAIN, reason);
    ck_assert_int_eq(weft_go(return_arg, NULL), -EAGAIN);
    ck_assert_int_eq(weft_fail(-EIO, "text"), -EIO);
    ck_assert_error(-EIO, strerror(EIO));
    weft_error_clear();
    return NULL;
}

START_TEST(a_thousand_cords_can_exist_and_no_more_until_some_have_been_joined)
{
    static weft_cord cords[1100];
    size_t n = 0;
    while (n < COUNT_OF(cords) && (cords[n] = weft_cord_start(sleep_forever, NULL, NULL)) != 0)
        n++;
    ck_assert_any_error(-EAGAIN);
    ck_assert_uint_eq(n, 1023); /* without this thread */
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_thread_without_fibers, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_cord_cancel(cords[i]), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), -ECANCELED);
    ck_assert_int_eq(weft_cord_join(start_cord(return_arg, as_arg(3))), 3);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), -ESRCH);
}
END_TEST
#endif

/* The storm. */

#define TARGETS 6
#define WORKERS 4
#define FIBERS 6
#define STEPS (IS_SLOW ? 60 : 300)

static _Atomic(weft_cord) targets[TARGETS];
static atomic_int handed_over,
    dropped; /* arguments of calls that returned before the called fiber ended */

typedef struct call_arg {
    int number;
    atomic_int drops;
} call_arg;

static void drop_arg(void *arg)
{
    call_arg *p = arg;
    ck_assert_int_eq(atomic_fetch_add(&p->drops, 1), 0);
    atomic_fetch_add(&dropped, 1);
    free(p);
}

static weft_value check_number(void *arg)
{
    const call_arg *p = arg;
    int number = p->number;
    if (number % 3 == 1)
        weft_snooze();
    if (number % 3 == 2)
        weft_sleep(0.0001 * (number % 7));
    ck_assert_int_eq(p->number, number);
    return number;
}

static bool is_expected(weft_value value)
{
    return value == -ESRCH || value == -ECANCELED;
}

static void call_with_local_arg(weft_cord to, int number)
{
    call_arg p = {.number = number};
    weft_value value = weft_cord_call(to, check_number, &p);
    ck_assert(value == number || is_expected(value));
    p.number = -1;
}

/* The call may return early. Then weft owns the argument; otherwise the caller owns it. */
static void call_with_drop(weft_cord to, int number)
{
    call_arg *p = malloc(sizeof *p);
    *p = (call_arg){.number = number};
    bool has_ended;
    weft_value value = 0;
    WEFT_MOVE_ON_AFTER(0.0001 * (number % 5))
        value = weft_cord_call_with(to, check_number, p,
                                    &(weft_call_options){drop_arg, 0, NULL, &has_ended});
    ck_assert(value == number || is_expected(value));
    if (!has_ended) {
        ck_assert(value != number);
        atomic_fetch_add(&handed_over, 1);
        return;
    }
    ck_assert_int_eq(p->drops, 0);
    free(p);
}

static void call_with_copy(weft_cord to, int number)
{
    call_arg p = {.number = number};
    weft_value value = 0;
    WEFT_MOVE_ON_AFTER(0.0001 * (number % 5))
        value =
            weft_cord_call_with(to, check_number, &p, &(weft_call_options){.arg_bytes = sizeof p});
    ck_assert(value == number || is_expected(value));
}

static void join_with_timeout(weft_cord to, int number)
{
    weft_value value = 0;
    WEFT_MOVE_ON_AFTER(0.0001 * (number % 5))
        value = weft_cord_join(to);
    ck_assert(value == 0 || value == -EDEADLK || is_expected(value));
}

static void do_random_call(weft_cord to, int number, unsigned what)
{
    switch (what % 8) {
    case 0:
        call_with_local_arg(to, number);
        break;
    case 1:
    case 2:
        call_with_drop(to, number);
        break;
    case 3:
        call_with_copy(to, number);
        break;
    case 4:
        weft_cord_spin(to, return_arg, as_arg(number));
        break;
    case 5:
        weft_tell(to, number);
        weft_schedule(to, 0); /* ends a cord without a function */
        break;
    case 6:
        join_with_timeout(to, number);
        break;
    default:
        if (number % 4 == 0)
            weft_cord_cancel(to);
    }
}

static weft_value run_random_calls(void *arg)
{
    unsigned random = (unsigned)(uintptr_t)arg * 2654435761u;
    for (int i = 1; i <= STEPS; i++) {
        random = random * 1103515245u + 12345u;
        weft_cord to = atomic_load(&targets[(random >> 16) % TARGETS]);
        do_random_call(to, i, random >> 20);
    }
    return 0;
}

static weft_value run_callers(void *arg)
{
    uintptr_t first = (uintptr_t)arg * FIBERS;
    for (uintptr_t i = 0; i < FIBERS; i++)
        weft_spin(run_random_calls, (void *)(first + i));
    return weft_await_children();
}

/* Replace one target after the other while the workers run. */
static weft_value replace_targets(void *arg)
{
    (void)arg;
    for (unsigned i = 0;; i++) {
        _Atomic(weft_cord) *at = &targets[i % TARGETS];
        weft_cord old = atomic_load(at);
        atomic_store(at, start_cord(NULL, NULL));
        weft_cord_cancel(old);
        weft_value value = weft_cord_join(old);
        ck_assert(value == 0 || is_expected(value));
        int rc = weft_sleep(0.001);
        if (rc < 0)
            return rc;
    }
}

static void end_targets(void)
{
    for (int i = 0; i < TARGETS; i++) {
        weft_cord_cancel(targets[i]);
        weft_cord_join(targets[i]);
    }
}

START_TEST(in_a_storm_every_call_returns_and_every_abandoned_argument_is_dropped_once)
{
    for (int i = 0; i < TARGETS; i++)
        targets[i] = start_cord(NULL, NULL);
    weft_cord workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        workers[i] = start_cord(run_callers, as_arg((weft_value)i + 1));
    weft_fiber replacer = weft_spin(replace_targets, NULL);
    for (size_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(weft_cord_join(workers[i]), 0);
    weft_cancel(replacer);
    weft_await(replacer);
    end_targets();
    ck_assert_int_eq(atomic_load(&dropped), atomic_load(&handed_over));
    ck_assert_int_gt(atomic_load(&dropped), 0);
}
END_TEST

/* With callers that are cancelled, and end with their cord. */
static weft_value run_callers_until_cancelled(void *arg)
{
    for (uintptr_t i = 0; i < FIBERS; i++)
        weft_spin(run_random_calls, (void *)((uintptr_t)arg + i));
    return weft_sleep(0.0005 * (double)((uintptr_t)arg % 7));
}

START_TEST(callers_may_end_during_their_calls)
{
    for (int i = 0; i < TARGETS; i++)
        targets[i] = start_cord(NULL, NULL);
    for (int i = 1; i <= (IS_SLOW ? 20 : 100); i++) {
        weft_cord cord = start_cord(run_callers_until_cancelled, as_arg(i));
        if (i % 2)
            weft_cord_cancel(cord);
        weft_value value = weft_cord_join(cord);
        ck_assert(value == 0 || value == -ECANCELED);
    }
    end_targets();
    ck_assert_int_ge(atomic_load(&dropped), atomic_load(&handed_over));
}
END_TEST

/* Wake-ups: cords with each backend and a distant timer, no lost message. */

static weft_value echo_messages(void *arg)
{
    bool is_virtual_time = strcmp(weft_backend_name(), "sim") == 0;
    weft_value v;
    WEFT_MOVE_ON_AFTER(is_virtual_time ? INFINITY : 3600)
        while ((v = weft_receive()) > 0)
            weft_tell(arg_id(arg), v);
    return 0;
}

START_TEST(cords_with_different_backends_and_distant_timers_wake_each_other)
{
    static const char *const names[] = {"epoll", "io_uring", "sim"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        weft_cord cord = weft_cord_start(echo_messages, id_arg(weft_self()),
                                         &(weft_cord_options){.backend = names[i]});
        if (cord == 0)
            continue; /* backend not built in */
        for (weft_value n = 1; n <= (IS_SLOW ? 200 : 2000); n++) {
            ck_assert_int_eq(weft_tell(cord, n), 0);
            ck_assert_int_eq(weft_receive(), n);
        }
        weft_tell(cord, 0);
        ck_assert_int_eq(weft_cord_join(cord), 0);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &the_id_of_an_ended_cord_does_not_name_the_next_cord_of_its_slot,
#if !IS_SLOW
    &a_thousand_cords_can_exist_and_no_more_until_some_have_been_joined,
#endif
    &in_a_storm_every_call_returns_and_every_abandoned_argument_is_dropped_once,
    &callers_may_end_during_their_calls,
    &cords_with_different_backends_and_distant_timers_wake_each_other,
};

int main(void)
{
    return run_suite("cord_storm", tests, COUNT_OF(tests));
}
