/*
 * Fault tests of supervisors, groups, resource pools, select, and delayed calls. Each call has its
 * full effect or none, and no fiber waits for an event that never happens.
 */
#include "support/fault.h"
#include "support/suite.h"

#include <poll.h>

/* Fail *arg times, then succeed. */
static weft_value fail_then_succeed(void *arg)
{
    int *left = arg;
    return --*left >= 0 ? weft_fail(-EPROTO, "%d more", *left) : 0;
}

FIBER_DO(suspend_with_child, weft_spin(suspend, NULL), weft_suspend())

/* More restarts than one allocation can record. */
enum { FAILURES = 20 };

static bool supervise_all(weft_strategy strategy, double backoff_s)
{
    int left = FAILURES;
    const weft_child children[] = {
        {.name = "first", .fn = return_arg, .restart = WEFT_ON_ERROR},
        {.name = "weak", .fn = fail_then_succeed, .arg = &left, .restart = WEFT_ON_ERROR},
        {.name = "large", .fn = return_arg, .restart = WEFT_ON_ERROR, .stack_bytes = 1 << 20},
    };
    const weft_supervise_options options = {.strategy = strategy,
                                            .restarts_max = 2 * FAILURES,
                                            .backoff_s = backoff_s,
                                            .backoff_max_s = backoff_s};
    bool is_done = REQUIRE_OR_FAULT(weft_supervise(children, COUNT_OF(children), &options));
    REQUIRE(!is_done || left == -1);
    weft_error_clear();
    require_nothing_left();
    return is_done;
}

TEST_FAULTS(supervision_completes_or_stops_all_children_with_an_error)
{
    bool is_done = true;
    for (weft_strategy s = WEFT_ONE_FOR_ONE; s <= WEFT_REST_FOR_ONE; s++)
        is_done &= supervise_all(s, 0);
    is_done &= supervise_all(WEFT_ONE_FOR_ALL, 1e-6);
    return is_done;
}

/* Without memory for its message an error keeps its code. */
TEST_FAULTS(a_supervisor_gives_up_with_the_code_of_the_last_error)
{
    int left = FAILURES;
    const weft_child children[] = {
        {.name = "idle", .fn = suspend_with_child},
        {.name = "weak", .fn = fail_then_succeed, .arg = &left},
    };
    const weft_supervise_options options = {.strategy = WEFT_REST_FOR_ONE, .restarts_max = 2};
    int rc = weft_supervise(children, COUNT_OF(children), &options);
    REQUIRE(rc == -EPROTO || fault_explains(rc));
    bool is_done = rc == -EPROTO && left == FAILURES - 3;
    REQUIRE(weft_error() == NULL || weft_error()->code == rc || atomic_load(&fault.injected) > 0);
    REQUIRE(atomic_load(&fault.injected) > 0 || strcmp(weft_error()->message, "17 more") == 0);
    return is_done;
}

/* Spin and attach siblings, which the supervisor of both takes over meanwhile. */
static weft_value spin_siblings(void *arg)
{
    for (int i = 0; i < 10; i++)
        require_created(weft_spin_with(return_arg, NULL,
                                       &(weft_spin_options){.parent = weft_parent(weft_self())}));
    weft_fiber f = require_created(weft_spin(return_arg, NULL));
    if (f != 0)
        REQUIRE(weft_attach(f, weft_parent(weft_self())) == 0);
    return weft_snooze();
}

static weft_value supervise_added_children(void *arg)
{
    weft_fiber f = require_created(weft_spin(spin_siblings, NULL));
    return f == 0 ? -ENOMEM : weft_supervise(NULL, 0, NULL);
}

TEST_FAULTS(a_child_that_cannot_be_added_ends_the_supervision)
{
    weft_fiber f = require_created(weft_spin(supervise_added_children, NULL));
    bool is_done = f != 0 && REQUIRE_OR_FAULT(weft_await(f));
    return is_done;
}

/* A monitor of a child gets a message for each of its ends. */
TEST_FAULTS(a_monitor_is_notified_of_every_end_of_a_supervised_child)
{
    int left = 5;
    weft_fiber f = require_created(weft_spin(fail_then_succeed, &left));
    if (f == 0)
        return false;
    bool is_monitored = REQUIRE_OR_FAULT(weft_monitor(f));
    const weft_supervise_options options = {.restart = WEFT_ON_ERROR};
    bool is_done = REQUIRE_OR_FAULT(weft_supervise(NULL, 0, &options));
    int ends = 0;
    while (weft_try_receive() == (weft_value)f)
        ends++;
    REQUIRE(!is_monitored || !is_done || ends == 6);
    REQUIRE(is_monitored || ends == 0);
    weft_await(f); /* once for its monitor, unless its id is invalid */
    REQUIRE(weft_await(f) == -ESRCH);
    return is_monitored && is_done;
}

enum { MEMBERS = 20 };

static size_t spin_members(weft_group *g, weft_fn *fn)
{
    size_t n = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        n += require_created(weft_group_spin(g, fn, NULL)) != 0;
        REQUIRE(weft_group_count(g) == n);
    }
    return n;
}

TEST_FAULTS(a_group_waits_for_the_members_that_were_created)
{
    weft_group g;
    REQUIRE(weft_group_open(&g) == 0);
    size_t n = spin_members(&g, return_arg);
    REQUIRE(weft_group_close(&g) == 0);
    REQUIRE(weft_group_open(&g) == 0);
    n += spin_members(&g, suspend_with_child);
    weft_fiber f = require_created(weft_group_spin(&g, fail_deep, as_arg(EPROTO)));
    if (f == 0)
        REQUIRE(weft_group_cancel(&g) == 0);
    weft_error_clear();
    int rc = weft_group_close(&g);
    REQUIRE(rc == (f != 0 ? -EPROTO : 0) || fault_explains(rc));
    REQUIRE(weft_error() == NULL || weft_error()->code == rc || atomic_load(&fault.injected) > 0);
    return n == 2 * MEMBERS && rc == -EPROTO;
}

static weft_pool *pool;
static size_t resources;

static weft_value make_resource(void *arg)
{
    if (weft_is_error(weft_snooze()))
        return -ECANCELED;
    void *resource = malloc(1);
    resources += resource != NULL;
    return resource != NULL ? (weft_value)resource : -ENOMEM;
}

static void free_resource(weft_value resource, void *arg)
{
    resources--;
    free(as_arg(resource));
}

/* Acquire a resource, then end with it, discard it, or release it. */
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

TEST_FAULTS(a_pool_that_cannot_create_a_resource_keeps_its_limit_and_continues)
{
    const weft_pool_options options = {3, make_resource, free_resource, NULL};
    pool = weft_pool_new(&options);
    if (!require_object(pool))
        return false;
    bool is_done = true;
    weft_fiber f[12];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = require_created(weft_spin(use_pool, as_arg((weft_value)i)));
    WEFT_SHIELD(INFINITY) { /* delays the errors of fibers that are not awaited yet */
        for (size_t i = 0; i < COUNT_OF(f); i++)
            is_done &= f[i] != 0 && REQUIRE_OR_FAULT(weft_await(f[i]));
    }
    REQUIRE(weft_pool_size(pool) == weft_pool_available(pool));
    REQUIRE(weft_pool_size(pool) == resources);
    REQUIRE(weft_pool_free(pool) == 0);
    REQUIRE(resources == 0);
    return is_done;
}

enum { PIPES = 6 };

/*
 * Select among empty pipes, the end of a fiber if ended is not 0, and a timeout. No poll of a pipe
 * may remain.
 */
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
    if (!REQUIRE_OR_FAULT(rc))
        return false;
    REQUIRE(rc == (ended != 0 ? PIPES : PIPES + 1) || fault_explains(c[rc].value));
    return !weft_is_error(c[rc].value);
}

FIBER_DO(write_byte, weft_value rc, WITHOUT_FAULTS(rc = weft_write((int)(intptr_t)arg, "x", 1)), rc)

/* One pipe becomes readable during the select. */
static bool select_readable(int pipes[PIPES][2])
{
    weft_clause c[PIPES];
    for (int i = 0; i < PIPES; i++)
        c[i] = weft_clause_fd(pipes[i][0], POLLIN);
    weft_fiber f = require_created(weft_spin(write_byte, as_arg(pipes[4][1])));
    if (f == 0)
        return false;
    int rc = weft_select(c, PIPES);
    REQUIRE(weft_await(f) == 1);
    if (!REQUIRE_OR_FAULT(rc))
        return false;
    REQUIRE((rc == 4 && c[rc].value == POLLIN) || fault_explains(c[rc].value));
    return c[rc].value == POLLIN;
}

TEST_FAULTS(a_select_of_many_descriptors_succeeds_or_leaves_no_poll_pending)
{
    int pipes[PIPES][2];
    bool is_done = true;
    WITHOUT_FAULTS(for (int i = 0; i < PIPES; i++) REQUIRE(weft_pipe(pipes[i]) == 0));
    weft_fiber f = require_created(weft_spin(return_arg, NULL));
    if (f != 0) {
        is_done &= select_among(pipes, f);
        weft_await(f); /* if the select did not consume it */
    }
    is_done &= select_among(pipes, 0);
    is_done &= select_readable(pipes);
    for (int i = 0; i < PIPES; i++)
        for (int end = 0; end < 2; end++)
            WITHOUT_FAULTS(weft_close(pipes[i][end]));
    return f != 0 && is_done;
}

static weft_event event;

FIBER(wait_event, weft_event_wait(&event))
THREAD(set_event, weft_event_set(&event))

/* Set the event from another thread while a fiber waits, and while none waits. */
TEST_FAULTS(an_event_is_set_from_another_thread_or_the_call_fails)
{
    bool is_done = true;
    for (int i = 0; i < 4; i++) {
        weft_fiber f = i % 2 == 0 ? require_created(weft_spin(wait_event, NULL)) : 0;
        weft_snooze();
        pthread_t thread;
        void *result = as_arg(-EAGAIN);
        if (pthread_create(&thread, NULL, set_event, NULL) == 0)
            pthread_join(thread, &result);
        bool is_set = REQUIRE_OR_FAULT((weft_value)result);
        if (!is_set)
            REQUIRE(!weft_event_is_set(&event) && weft_event_set(&event) == 0);
        if (f != 0)
            REQUIRE(weft_await(f) == 0);
        else
            REQUIRE(weft_event_wait(&event) == 0);
        REQUIRE(!weft_event_is_set(&event));
        is_done &= is_set && (f != 0 || i % 2 != 0);
    }
    return is_done;
}

FIBER_DO(count_down_to_error, int *left = arg, --*left > 0 ? 0 : -EPROTO)

/* Calls that could be registered run as often as they should. */
TEST_FAULTS(delayed_calls_run_or_were_refused)
{
    int left[3] = {3, 3, 3};
    bool is_done = true;
    weft_fiber f[] = {
        require_created(weft_after(0.0001, return_arg, as_arg(5))),
        require_created(weft_every(0.0001, count_down_to_error, &left[0])),
        require_created(weft_spin_loop(count_down_to_error, &left[1], 1e4)),
    };
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        if (f[i] == 0) {
            is_done = false;
            continue;
        }
        weft_value value = 0;
        WEFT_SHIELD(INFINITY) { /* delays the errors of fibers that are not awaited yet */
            value = weft_await(f[i]);
        }
        REQUIRE(value == (i == 0 ? 5 : -EPROTO) || fault_explains(value));
        is_done &= value == (i == 0 ? 5 : -EPROTO);
    }
    int rc = weft_throttled_loop(count_down_to_error, &left[2], INFINITY, 0);
    REQUIRE(rc == -EPROTO || fault_explains(rc));
    is_done &= rc == -EPROTO && left[0] == 0 && left[1] == 0;
    return is_done;
}

/* Two chunks of fibers, so that the table of shares must grow while accounting is on. */
TEST_FAULTS(accounting_and_the_watchdog_work_or_return_an_error)
{
    int null_fd;
    WITHOUT_FAULTS(null_fd = open("/dev/null", O_WRONLY));
    bool is_done = REQUIRE_OR_FAULT(weft_watchdog(60));
    weft_account(true);
    for (int i = 0; i < 80; i++)
        is_done &= REQUIRE_OR_FAULT(weft_go(suspend, NULL));
    weft_snooze();
    is_done &= REQUIRE_OR_FAULT(weft_top(null_fd));
    weft_info info;
    REQUIRE(weft_info_of(weft_self(), &info) == 0 && info.cpu_share <= 1);
    weft_account(false);
    REQUIRE(weft_watchdog(0) == 0);
    close(null_fd);
    REQUIRE(weft_terminate_children(60) == 0);
    return is_done;
}

/* All fibers end in any case. Waiting for a thread needs memory. */
TEST_FAULTS(a_shutdown_ends_everything_or_returns_an_error)
{
    bool is_done = REQUIRE_OR_FAULT(weft_shutdown_on_signals(60));
    weft_fiber f[3];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        is_done &= (f[i] = require_created(weft_spin(sleep_forever, NULL))) != 0;
    weft_cord cord = require_created(weft_cord_start(NULL, NULL, NULL));
    is_done &= cord != 0;
    weft_snooze();
    is_done &= REQUIRE_OR_FAULT(weft_shutdown_all(60));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        REQUIRE(f[i] == 0 || weft_await(f[i]) == -ECANCELED);
    if (cord != 0)
        is_done &= weft_cord_join(cord) == -ECANCELED;
    return is_done;
}
