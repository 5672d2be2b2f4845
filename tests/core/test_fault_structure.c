/*
 * Supervisors, groups, pools, select and what runs later when memory is short: each call does all
 * or nothing, and nobody waits for what will not come.
 */
#include "fault.h"

#include <poll.h>
#include <pthread.h>

/* Fails so often, then ends well. */
static weft_value fail_at_first(void *arg)
{
    int *left = arg;
    return --*left >= 0 ? weft_fail(-EPROTO, "%d more", *left) : 0;
}

/* Waits to be stopped, with children of its own. */
static weft_value wait_for_the_end(void *arg)
{
    (void)arg;
    weft_spin(suspend, NULL);
    return weft_suspend();
}

/* More restarts than one allocation has room to count. */
enum { FAILURES = 20 };

static bool supervise_all(weft_strategy strategy, double backoff_s)
{
    int left = FAILURES;
    const weft_child children[] = {
        {.name = "first", .fn = return_arg, .restart = WEFT_ON_ERROR},
        {.name = "weak", .fn = fail_at_first, .arg = &left, .restart = WEFT_ON_ERROR},
        {.name = "large", .fn = return_arg, .restart = WEFT_ON_ERROR, .stack_bytes = 1 << 20},
    };
    const weft_supervise_options options = {.strategy = strategy,
                                            .restarts_max = 2 * FAILURES,
                                            .backoff_s = backoff_s,
                                            .backoff_max_s = backoff_s};
    bool is_done = REQUIRE_TOLD(weft_supervise(children, COUNT_OF(children), &options));
    REQUIRE(!is_done || left == -1);
    weft_error_clear();
    require_nothing_left();
    return is_done;
}

static bool supervising(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = true;
    for (weft_strategy s = WEFT_ONE_FOR_ONE; s <= WEFT_REST_FOR_ONE; s++)
        is_done &= supervise_all(s, 0);
    is_done &= supervise_all(WEFT_ONE_FOR_ALL, 1e-6);
    return is_done;
}

START_TEST(supervision_goes_on_to_its_end_or_stops_all_and_says_so)
{
    strike_each_call(supervising);
}
END_TEST

/* Without memory for its words an error keeps its code. */
static bool giving_up(void)
{
    if (!become_a_cord())
        return false;
    int left = FAILURES;
    const weft_child children[] = {
        {.name = "idle", .fn = wait_for_the_end},
        {.name = "weak", .fn = fail_at_first, .arg = &left},
    };
    const weft_supervise_options options = {.strategy = WEFT_REST_FOR_ONE, .restarts_max = 2};
    int rc = weft_supervise(children, COUNT_OF(children), &options);
    REQUIRE(rc == -EPROTO || fault_is_told(rc));
    bool is_done = rc == -EPROTO && left == FAILURES - 3;
    REQUIRE(weft_error() == NULL || weft_error()->code == rc || atomic_load(&fault.struck) > 0);
    REQUIRE(atomic_load(&fault.struck) > 0 || strcmp(weft_error()->message, "17 more") == 0);
    weft_error_clear();
    return is_done;
}

START_TEST(a_supervisor_gives_up_with_the_code_of_the_last_error)
{
    strike_each_call(giving_up);
}
END_TEST

/* Spins others beside itself, whom the supervisor of both gets meanwhile. */
static weft_value bring_others(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        require_made(weft_spin_with(return_arg, NULL,
                                    &(weft_spin_options){.parent = weft_parent(weft_self())}));
    weft_fiber f = require_made(weft_spin(return_arg, NULL));
    if (f != 0)
        REQUIRE(weft_attach(f, weft_parent(weft_self())) == 0);
    return weft_snooze();
}

static weft_value supervise_comers(void *arg)
{
    (void)arg;
    weft_fiber f = require_made(weft_spin(bring_others, NULL));
    return f == 0 ? -ENOMEM : weft_supervise(NULL, 0, NULL);
}

static bool joining(void)
{
    if (!become_a_cord())
        return false;
    weft_fiber f = require_made(weft_spin(supervise_comers, NULL));
    bool is_done = f != 0 && REQUIRE_TOLD(weft_await(f));
    weft_error_clear();
    return is_done;
}

START_TEST(who_cannot_be_taken_in_ends_the_supervision)
{
    strike_each_call(joining);
}
END_TEST

/* Who monitors a child hears of each of its ends. */
static bool watching(void)
{
    if (!become_a_cord())
        return false;
    int left = 5;
    weft_fiber f = require_made(weft_spin(fail_at_first, &left));
    if (f == 0)
        return false;
    bool is_watched = REQUIRE_TOLD(weft_monitor(f));
    const weft_supervise_options options = {.restart = WEFT_ON_ERROR};
    bool is_done = REQUIRE_TOLD(weft_supervise(NULL, 0, &options));
    int ends = 0;
    while (weft_try_receive() == (weft_value)f)
        ends++;
    REQUIRE(!is_watched || !is_done || ends == 6);
    REQUIRE(is_watched || ends == 0);
    weft_await(f); /* once for its monitor; or it is gone */
    REQUIRE(weft_await(f) == -ESRCH);
    weft_error_clear();
    return is_watched && is_done;
}

START_TEST(a_monitor_hears_of_every_end_of_a_supervised_child)
{
    strike_each_call(watching);
}
END_TEST

enum { MEMBERS = 20 };

/* Returns how many were spun. */
static size_t spin_members(weft_group *g, weft_fn *fn)
{
    size_t n = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        n += require_made(weft_group_spin(g, fn, NULL)) != 0;
        REQUIRE(weft_group_count(g) == n);
    }
    return n;
}

static bool grouping(void)
{
    if (!become_a_cord())
        return false;
    weft_group g;
    REQUIRE(weft_group_open(&g) == 0);
    size_t n = spin_members(&g, return_arg);
    REQUIRE(weft_group_close(&g) == 0);
    REQUIRE(weft_group_open(&g) == 0);
    n += spin_members(&g, wait_for_the_end);
    weft_fiber f = require_made(weft_group_spin(&g, fail_deep, as_arg(EPROTO)));
    if (f == 0)
        REQUIRE(weft_group_cancel(&g) == 0);
    weft_error_clear();
    int rc = weft_group_close(&g);
    REQUIRE(rc == (f != 0 ? -EPROTO : 0) || fault_is_told(rc));
    REQUIRE(weft_error() == NULL || weft_error()->code == rc || atomic_load(&fault.struck) > 0);
    weft_error_clear();
    return n == 2 * MEMBERS && rc == -EPROTO;
}

START_TEST(a_group_joins_those_that_could_be_made)
{
    strike_each_call(grouping);
}
END_TEST

static weft_pool *pool;
static size_t resources;

static weft_value make_resource(void *arg)
{
    (void)arg;
    if (weft_is_error(weft_snooze()))
        return -ECANCELED;
    void *resource = malloc(1);
    resources += resource != NULL;
    return resource != NULL ? (weft_value)resource : -ENOMEM;
}

static void free_resource(weft_value resource, void *arg)
{
    (void)arg;
    resources--;
    free(as_arg(resource));
}

/* Uses it, and gives it back, breaks it or dies with it. */
static weft_value use_pool(void *arg)
{
    weft_value resource = weft_pool_acquire(pool);
    if (weft_is_error(resource))
        return resource;
    REQUIRE(weft_pool_acquire(pool) == resource);
    weft_snooze();
    if ((intptr_t)arg % 3 == 0)
        return 0;
    if ((intptr_t)arg % 3 == 1)
        return weft_pool_discard(pool, resource);
    REQUIRE(weft_pool_release(pool, resource) == 0);
    return weft_pool_release(pool, resource);
}

static bool pooling(void)
{
    if (!become_a_cord())
        return false;
    const weft_pool_options options = {3, make_resource, free_resource, NULL};
    pool = weft_pool_new(&options);
    REQUIRE(pool != NULL || atomic_load(&fault.struck) > 0);
    if (pool == NULL)
        return false;
    bool is_done = true;
    weft_fiber f[12];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = require_made(weft_spin(use_pool, as_arg((weft_value)i)));
    WEFT_SHIELD(INFINITY) { /* from the errors of those whose turn has not come */
        for (size_t i = 0; i < COUNT_OF(f); i++)
            is_done &= f[i] != 0 && REQUIRE_TOLD(weft_await(f[i]));
    }
    REQUIRE(weft_pool_size(pool) == weft_pool_available(pool));
    REQUIRE(weft_pool_size(pool) == resources);
    REQUIRE(weft_pool_free(pool) == 0);
    REQUIRE(resources == 0);
    weft_error_clear();
    return is_done;
}

START_TEST(a_pool_that_cannot_make_one_keeps_its_limit_and_serves_the_next)
{
    strike_each_call(pooling);
}
END_TEST

enum { PIPES = 6 };

/* The byte stays where it is unless the clause happened; nothing watches the pipes afterwards. */
static bool select_among(int pipes[PIPES][2], weft_fiber ended)
{
    weft_clause c[PIPES + 2];
    for (int i = 0; i < PIPES; i++)
        c[i] = weft_clause_fd(pipes[i][0], POLLIN);
    c[PIPES] = weft_clause_ended(ended);
    c[PIPES + 1] = weft_clause_time(ended != 0 ? 3600 : 0.0001);
    if (ended == 0)
        c[PIPES] = (weft_clause){0};
    int rc = weft_select(c, COUNT_OF(c));
    weft_counters now;
    REQUIRE(weft_stats(&now) == 0);
    REQUIRE(now.timers == 0);
    if (!REQUIRE_TOLD(rc))
        return false;
    REQUIRE(rc == (ended != 0 ? PIPES : PIPES + 1) || fault_is_told(c[rc].value));
    return !weft_is_error(c[rc].value);
}

static weft_value write_byte(void *arg)
{
    weft_value rc;
    WITHOUT_FAULTS(rc = weft_write((int)(intptr_t)arg, "x", 1));
    return rc;
}

/* One pipe becomes readable while all are waited for. */
static bool select_readable(int pipes[PIPES][2])
{
    weft_clause c[PIPES];
    for (int i = 0; i < PIPES; i++)
        c[i] = weft_clause_fd(pipes[i][0], POLLIN);
    weft_fiber f = require_made(weft_spin(write_byte, as_arg(pipes[4][1])));
    if (f == 0)
        return false;
    int rc = weft_select(c, PIPES);
    REQUIRE(weft_await(f) == 1);
    if (!REQUIRE_TOLD(rc))
        return false;
    REQUIRE((rc == 4 && c[rc].value == POLLIN) || fault_is_told(c[rc].value));
    return c[rc].value == POLLIN;
}

static bool selecting(void)
{
    if (!become_a_cord())
        return false;
    int pipes[PIPES][2];
    bool is_done = true;
    WITHOUT_FAULTS(for (int i = 0; i < PIPES; i++) REQUIRE(weft_pipe(pipes[i]) == 0));
    weft_fiber f = require_made(weft_spin(return_arg, NULL));
    if (f != 0) {
        is_done &= select_among(pipes, f);
        weft_await(f); /* if it was not that */
    }
    is_done &= select_among(pipes, 0);
    is_done &= select_readable(pipes);
    for (int i = 0; i < PIPES; i++)
        for (int end = 0; end < 2; end++)
            WITHOUT_FAULTS(weft_close(pipes[i][end]));
    weft_error_clear();
    return f != 0 && is_done;
}

START_TEST(a_select_among_many_descriptors_happens_or_leaves_none_watched)
{
    strike_each_call(selecting);
}
END_TEST

static weft_event event;

static weft_value wait_event(void *arg)
{
    (void)arg;
    return weft_event_wait(&event);
}

static void *set_event(void *arg)
{
    (void)arg;
    return as_arg(weft_event_set(&event));
}

/* Set from another thread while someone waits, and again while nobody does. */
static bool signalling(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = true;
    for (int i = 0; i < 4; i++) {
        weft_fiber f = i % 2 == 0 ? require_made(weft_spin(wait_event, NULL)) : 0;
        weft_snooze();
        pthread_t thread;
        void *result = as_arg(-EAGAIN);
        if (pthread_create(&thread, NULL, set_event, NULL) == 0)
            pthread_join(thread, &result);
        bool is_set = REQUIRE_TOLD((weft_value)result);
        if (!is_set)
            REQUIRE(!weft_event_is_set(&event) && weft_event_set(&event) == 0);
        if (f != 0)
            REQUIRE(weft_await(f) == 0);
        else
            REQUIRE(weft_event_wait(&event) == 0);
        REQUIRE(!weft_event_is_set(&event));
        is_done &= is_set && (f != 0 || i % 2 != 0);
    }
    weft_error_clear();
    return is_done;
}

START_TEST(an_event_is_set_from_another_thread_or_is_not)
{
    strike_each_call(signalling);
}
END_TEST

static weft_value tick(void *arg)
{
    int *left = arg;
    return --*left > 0 ? 0 : -EPROTO;
}

/* What could be arranged happens, as often as it should. */
static bool waiting_to_run(void)
{
    if (!become_a_cord())
        return false;
    int left[3] = {3, 3, 3};
    bool is_done = true;
    weft_fiber f[] = {
        require_made(weft_after(0.0001, return_arg, as_arg(5))),
        require_made(weft_every(0.0001, tick, &left[0])),
        require_made(weft_spin_loop(tick, &left[1], 1e4)),
    };
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        if (f[i] == 0) {
            is_done = false;
            continue;
        }
        weft_value value = 0;
        WEFT_SHIELD(INFINITY) { /* from the errors of those whose turn has not come */
            value = weft_await(f[i]);
        }
        REQUIRE(value == (i == 0 ? 5 : -EPROTO) || fault_is_told(value));
        is_done &= value == (i == 0 ? 5 : -EPROTO);
    }
    int rc = weft_throttled_loop(tick, &left[2], INFINITY, 0);
    REQUIRE(rc == -EPROTO || fault_is_told(rc));
    is_done &= rc == -EPROTO && left[0] == 0 && left[1] == 0;
    weft_error_clear();
    return is_done;
}

START_TEST(what_is_to_run_later_runs_or_was_refused)
{
    strike_each_call(waiting_to_run);
}
END_TEST

/* Two chunks of fibers, so that the shares need more room while they are being measured. */
static bool looking_inside(void)
{
    if (!become_a_cord())
        return false;
    int nowhere;
    WITHOUT_FAULTS(nowhere = open("/dev/null", O_WRONLY));
    bool is_done = REQUIRE_TOLD(weft_watchdog(60));
    weft_account(true);
    for (int i = 0; i < 80; i++)
        is_done &= REQUIRE_TOLD(weft_go(suspend, NULL));
    weft_snooze();
    is_done &= REQUIRE_TOLD(weft_top(nowhere));
    weft_info info;
    REQUIRE(weft_info_of(weft_self(), &info) == 0 && info.cpu_share <= 1);
    weft_account(false);
    REQUIRE(weft_watchdog(0) == 0);
    close(nowhere);
    REQUIRE(weft_terminate_children(60) == 0);
    weft_error_clear();
    return is_done;
}

START_TEST(who_looks_inside_sees_what_there_is_memory_for)
{
    strike_each_call(looking_inside);
}
END_TEST

/* All fibers end in any case; for a thread it takes memory to wait. */
static bool shutting_down(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = REQUIRE_TOLD(weft_shutdown_on_signals(60));
    weft_fiber f[3];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        is_done &= (f[i] = require_made(weft_spin(sleep_forever, NULL))) != 0;
    weft_cord cord = require_made(weft_cord_start(NULL, NULL, NULL));
    is_done &= cord != 0;
    weft_snooze();
    is_done &= REQUIRE_TOLD(weft_shutdown_all(60));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        REQUIRE(f[i] == 0 || weft_await(f[i]) == -ECANCELED);
    if (cord != 0)
        is_done &= weft_cord_join(cord) == -ECANCELED;
    weft_error_clear();
    return is_done;
}

START_TEST(everything_ends_or_it_is_said_that_it_could_not_be_waited_for)
{
    strike_each_call(shutting_down);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &supervision_goes_on_to_its_end_or_stops_all_and_says_so,
        &a_supervisor_gives_up_with_the_code_of_the_last_error,
        &who_cannot_be_taken_in_ends_the_supervision,
        &a_monitor_hears_of_every_end_of_a_supervised_child,
        &a_group_joins_those_that_could_be_made,
        &a_pool_that_cannot_make_one_keeps_its_limit_and_serves_the_next,
        &a_select_among_many_descriptors_happens_or_leaves_none_watched,
        &an_event_is_set_from_another_thread_or_is_not,
        &what_is_to_run_later_runs_or_was_refused,
        &who_looks_inside_sees_what_there_is_memory_for,
        &everything_ends_or_it_is_said_that_it_could_not_be_waited_for,
    };
    return run_suite("fault_structure", tests, COUNT_OF(tests));
}
