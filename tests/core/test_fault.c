/*
 * Fault tests of fibers: the n-th call for memory, for a descriptor or to the kernel fails, for n =
 * 1, 2, 3 ... until a scenario needs fewer calls than that. The requirements for each n:
 *
 * - There is no crash and no hang.
 * - Every call returns a result or an error, and has its full effect or none.
 * - Nothing remains, and ASan finds no leak.
 * - A repetition without a fault succeeds.
 */
#include "support/fault.h"
#include "support/suite.h"

static bool become_and_check_cord(void)
{
    if (!become_a_cord()) {
        REQUIRE(atomic_load(&fault.injected) > 0);
        REQUIRE(weft_main() == weft_self()); /* the id of the second attempt, or 0 after both */
        weft_error_clear();
        return false;
    }
    REQUIRE(weft_main() == weft_self());
    return strcmp(weft_backend_name(), "none") != 0;
}

TEST(a_thread_becomes_a_cord_or_gets_an_error)
{ /* DESIGN 3: a failed allocation is an error of the call that needed it. */
    fail_each_call(become_and_check_cord);
}

/* More default stacks than one mapping holds. ASan needs half a minute for more. */
#ifdef __SANITIZE_ADDRESS__
#define FIBERS 60
#else
#define FIBERS 140
#endif

FIBER_DO(snooze_and_return, int rc = weft_snooze(), rc < 0 ? rc : (weft_value)arg)

static weft_value sum_of_copy(void *arg)
{
    const unsigned char *bytes = arg;
    weft_value sum = 0;
    int rc = weft_snooze();
    for (int i = 0; i < 100; i++)
        sum += bytes[i];
    return rc < 0 ? rc : sum;
}

/* Default stacks, larger and smaller ones, names, and copied arguments. */
static weft_fiber spin_one_of_many(int i, weft_value *expected)
{
    static const size_t sizes[] = {0, 16 << 10, 0, 128 << 10, 0, 2 << 20};
    unsigned char copied[100];
    memset(copied, i, sizeof copied);
    weft_spin_options options = {.stack_bytes = sizes[i % 6], .name = i % 2 ? "odd" : NULL};
#ifdef __SANITIZE_ADDRESS__
    if (options.stack_bytes == 16 << 10)
        options.stack_bytes = 64 << 10;
#endif
    *expected = i;
    if (i % 5 != 0)
        return weft_spin_with(snooze_and_return, as_arg(i), &options);
    options.arg_bytes = sizeof copied;
    *expected = 100 * i;
    return weft_spin_with(sum_of_copy, copied, &options);
}

TEST_FAULTS(fibers_of_all_kinds_are_created_completely_or_not_at_all)
{ /* T48, T50, T51 */
    static weft_fiber f[FIBERS];
    static weft_value expected[FIBERS];
    bool is_done = true;
    for (int i = 0; i < FIBERS; i++)
        is_done &= (f[i] = require_created(spin_one_of_many(i, &expected[i]))) != 0;
    for (int i = 0; i < FIBERS; i++)
        if (f[i] != 0)
            REQUIRE(weft_await(f[i]) == expected[i]);
    return is_done;
}

static int runs;

static weft_value count_run_twice(void *arg)
{
    runs++;
    int rc = weft_snooze();
    runs++;
    return rc;
}

TEST_FAULTS(fibers_that_were_spun_or_started_run_and_no_others)
{ /* P1, T8 */
    runs = 0;
    int made = 0;
    for (int i = 0; i < 70; i++)
        made += REQUIRE_OR_FAULT(weft_go(count_run_twice, NULL));
    REQUIRE(weft_await_children() == 0);
    REQUIRE(runs == 2 * made);
    for (int i = 0; i < 10; i++) {
        runs = 0;
        weft_fiber f = require_created(weft_new(count_run_twice, NULL));
        made += f != 0;
        if (f == 0)
            continue;
        REQUIRE(runs == 0);
        REQUIRE(weft_start(f) == 0);
        REQUIRE(runs == 1);
        REQUIRE(weft_await(f) == 0);
        REQUIRE(runs == 2);
    }
    return made == 80;
}

static weft_value sleep_in_scopes(void *arg)
{
    int rc = 1, slept = 1;
    WEFT_CANCEL_AFTER(0.001, rc) {
        WEFT_MOVE_ON_AFTER(1e-9)
            slept = weft_sleep(10);
        REQUIRE(slept == -ECANCELED);
        slept = weft_sleep(INFINITY);
    }
    REQUIRE(slept == -ECANCELED && rc == -ETIMEDOUT);
    return weft_sleep(0.0005);
}

TEST_FAULTS(deadlines_and_sleeps_work_with_any_fault)
{ /* P41, P46: time needs no memory, and a failed poll is repeated. */
    int made = 0;
    for (int i = 0; i < 10; i++)
        made += require_created(weft_spin(sleep_in_scopes, NULL)) != 0;
    weft_fiber f[16];
    int living = weft_children(weft_self(), f, COUNT_OF(f));
    REQUIRE(living == made);
    for (int i = 0; i < living; i++)
        REQUIRE(weft_await(f[i]) == 0);
    return made == 10;
}

static int defers_run, values_destroyed;

CALLBACK(count_defer, defers_run++)
CALLBACK(count_destroyed, values_destroyed++)

typedef struct owner {
    weft_key key;
    int defers_left, values_set, blocks;
} owner;

static weft_value defer_set_and_allocate(void *arg)
{
    owner *o = arg;
    for (int i = 0; i < 3; i++) {
        o->defers_left += REQUIRE_OR_FAULT(weft_defer(count_defer, NULL));
        void *old = weft_local_get(o->key);
        bool is_set = REQUIRE_OR_FAULT(weft_local_set(o->key, o));
        REQUIRE(weft_local_get(o->key) == (is_set ? o : old));
        o->values_set += is_set && old == NULL;
        char *block = weft_alloc(1000);
        if (require_object(block))
            memset(block, i, 1000);
        o->blocks += block != NULL;
    }
    return weft_snooze();
}

TEST_FAULTS(deferred_calls_locals_and_memory_are_available_or_refused)
{ /* P24, T105 */
    static weft_key key;
    if (key == 0)
        key = weft_key_new(count_destroyed);
    owner o = {.key = key};
    int made = 0;
    defers_run = values_destroyed = 0;
    for (int i = 0; i < 3; i++) {
        weft_fiber f = require_created(weft_spin(defer_set_and_allocate, &o));
        made += f != 0;
        REQUIRE(f == 0 || weft_await(f) == 0);
    }
    REQUIRE(defers_run == o.defers_left);
    REQUIRE(values_destroyed == o.values_set);
    return made == 3 && o.defers_left == 9 && o.values_set == 3 && o.blocks == 9;
}

/* The error of the child arrives at the next blocking call. The fiber ends with it. */
static weft_value return_child_error(void *arg)
{
    if (weft_go(fail_deep, arg) < 0)
        return -(weft_value)arg;
    int rc = weft_sleep(10);
    REQUIRE(rc == -(int)(intptr_t)arg);
    return weft_fail(rc, "my child failed");
}

/* Return a bit for each error that arrived. */
static weft_value catch_errors(void *arg)
{
    weft_value rc, seen = 0;
    while ((rc = weft_suspend()) < 0)
        seen |= rc == -EDOM ? 1 : rc == -ERANGE ? 2 : 4;
    return seen;
}

static bool raise_two(weft_fiber f)
{
    bool is_first = REQUIRE_OR_FAULT(weft_raise(f, -EDOM, "%s", "first"));
    bool is_second = REQUIRE_OR_FAULT(weft_raise(f, -ERANGE, "%s", "second"));
    for (int i = 0; i < 3; i++)
        REQUIRE(weft_snooze() == 0);
    REQUIRE(weft_schedule(f, 0) == 0);
    REQUIRE(weft_await(f) == is_first + 2 * is_second);
    return is_first && is_second;
}

/*
 * P19, P20, P21, T25: a message may be lost without memory, but a code never is. No error is
 * reported twice.
 */
TEST_FAULTS(error_codes_arrive_once_even_without_their_messages)
{
    int made = 0;
    for (int i = 0; i < 3; i++) {
        weft_fiber f = require_created(weft_spin(return_child_error, as_arg(EPROTO)));
        made += f != 0;
        REQUIRE(f == 0 || weft_await(f) == -EPROTO);
        /* A fiber that failed before the await. Its error is reported once. */
        f = require_created(weft_spin(fail_deep, as_arg(EXFULL)));
        made += f != 0;
        if (f != 0 && weft_state_of(f) != WEFT_DEAD) {
            WEFT_SHIELD(INFINITY)
                REQUIRE(weft_snooze() == 0);
            REQUIRE(weft_state_of(f) == WEFT_DEAD);
            REQUIRE(weft_await(f) == -EXFULL);
            REQUIRE(weft_snooze() == 0);
        }
    }
    weft_fiber f = require_created(weft_spin(catch_errors, NULL));
    if (f != 0) {
        REQUIRE(weft_snooze() == 0);
        made += raise_two(f);
    }
    return made == 7;
}

static size_t spin_some(weft_fiber *f, size_t n)
{
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        f[made] = require_created(weft_spin(return_soon, as_arg((weft_value)made + 1)));
        made += f[made] != 0;
    }
    return made;
}

static void await_each(const weft_fiber *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_await(f[i]) == (weft_value)i + 1);
}

/* A refused wait for several fibers has no effect. */
TEST_FAULTS(a_wait_for_several_fibers_succeeds_or_changes_nothing)
{ /* P34, P35, P37 */
    weft_fiber f[8];
    weft_value out[8];
    size_t n = spin_some(f, COUNT_OF(f));
    bool is_done = n == COUNT_OF(f);
    if (REQUIRE_OR_FAULT(weft_await_all(f, n, out))) {
        for (size_t i = 0; i < n; i++)
            REQUIRE(out[i] == (weft_value)i + 1);
    } else {
        is_done = false;
        await_each(f, n);
    }
    n = spin_some(f, COUNT_OF(f));
    is_done &= n == COUNT_OF(f);
    int first = n > 0 ? weft_select_fibers(f, n, out) : 0;
    if (REQUIRE_OR_FAULT(first))
        REQUIRE(n == 0 || out[0] == first + 1);
    else
        await_each(f, n);
    return is_done && first >= 0;
}

TEST_FAULTS(an_ended_fiber_restarts_or_remains_unchanged)
{ /* P31 */
    runs = 0;
    weft_fiber f = require_created(weft_spin(count_run_twice, NULL));
    bool is_done = f != 0;
    if (f != 0) {
        WEFT_MOVE_ON_AFTER(0.001)
            weft_suspend();
        REQUIRE(weft_state_of(f) == WEFT_DEAD && runs == 2);
        is_done = REQUIRE_OR_FAULT(weft_restart(f));
        REQUIRE(weft_await(f) == 0);
        REQUIRE(runs == (is_done ? 4 : 2));
    }
    return is_done;
}

static int count_fiber(const weft_info *info, void *count)
{
    ++*(int *)count;
    return 0;
}

/* Write a dump to a file and return its text. The caller frees the text. */
static char *dump_text(void)
{
    enum { BYTES_MAX = 1 << 20 };
    int fd;
    char *text;
    WITHOUT_FAULTS({
        fd = memfd_create("dump", MFD_CLOEXEC);
        text = malloc(BYTES_MAX);
    });
    REQUIRE(weft_dump(fd) == 0);
    ssize_t n = pread(fd, text, BYTES_MAX - 1, 0);
    REQUIRE(n > 0);
    text[n] = '\0';
    close(fd);
    return text;
}

static void require_fibers_in(const char *text, const weft_fiber *f, size_t n)
{
    REQUIRE(strstr(text, " 'main' running") != NULL);
    for (size_t i = 0; i < n; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "  #%llu '' ", (unsigned long long)f[i]);
        REQUIRE(strstr(text, expected) != NULL);
    }
}

TEST_FAULTS(inspection_works_with_any_fault)
{ /* T20, T21 */
    weft_fiber f[8];
    size_t n = spin_some(f, COUNT_OF(f));
    weft_snooze();
    setenv("WEFT_LIBDW", "", 1); /* libdw needs a second under ASan, and its calls do not fail */
    int seen = 0;
    REQUIRE(weft_walk(count_fiber, &seen) == 0);
    REQUIRE(seen == (int)n + 1);
    char *text = dump_text();
    require_fibers_in(text, f, n);
    if (atomic_load(&fault.injected) == 0)
        REQUIRE(strstr(text, "memory is exhausted") == NULL);
    free(text);
    void *frames[8];
    weft_info info;
    for (size_t i = 0; i < n; i++) {
        REQUIRE(weft_info_of(f[i], &info) == 0 && info.id == f[i]);
        REQUIRE(weft_backtrace(f[i], frames, COUNT_OF(frames)) >= 0);
    }
    await_each(f, n);
    return n == COUNT_OF(f);
}

/* From now on, each call for memory fails. */
static void exhaust_memory(void)
{
    fault.first = 1;
    fault.is_lasting = true;
    atomic_store(&fault.is_on, true);
}

static weft_value spin_inner(void *arg)
{
    weft_spin_with(suspend, NULL, &(weft_spin_options){.name = "inner"});
    return weft_suspend();
}

TEST_PROGRAM_PRINTS(a_dump_without_memory_says_so_and_shows_the_tree, 0,
                    "weft: memory is exhausted; only this thread is shown: 2 fibers and main",
                    "'main' running", "\n  #4294967297 'outer' waiting for weft_schedule, ",
                    "\n    #4294967298 'inner' waiting for weft_schedule, ", "; 1 switches",
                    "    function ")
{
    weft_spin_with(spin_inner, NULL, &(weft_spin_options){.name = "outer"});
    for (int i = 0; i < 3; i++)
        weft_snooze();
    exhaust_memory();
    return weft_dump(STDERR_FILENO);
}

static weft_mutex locked;

FIBER(lock_mutex, weft_mutex_lock(&locked))

TEST_PROGRAM_PRINTS(a_deadlock_report_without_memory_names_fibers_and_holders, 0,
                    "deadlock: every fiber waits", "memory is exhausted; only this thread is shown",
                    "'main' waiting for the end of #4294967297", "'child' waiting for a mutex 0x",
                    " held by #4294967296")
{
    weft_mutex_lock(&locked);
    weft_fiber child = weft_spin_with(lock_mutex, NULL, &(weft_spin_options){.name = "child"});
    weft_snooze();
    exhaust_memory();
    REQUIRE(weft_await(child) == -EDEADLK);
    _exit(0);
}
