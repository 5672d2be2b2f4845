/* The lanes: how many threads there are, when they come and go, and who counts them. */
#include "pool_support.h"

#include "backend/threads.h"

#include <sys/resource.h>

START_TEST(beyond_the_limit_calls_wait_and_are_made_in_order)
{
    fake *f = fake_open();
    static trial busy[MAX], more[100];
    occupy(f, busy, NULL);
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        submit_call(f, &more[i], NULL);
        ck_assert(!has_happened(&more[i].begun));
    }
    sem_post(&busy[0].may_end);
    for (size_t i = 0; i < COUNT_OF(more); i++) { /* by the one thread that is free */
        wait_for(&more[i].begun);
        if (i + 1 < COUNT_OF(more))
            ck_assert(!has_happened(&more[i + 1].begun));
        ck_assert_int_eq(let_end(f, &more[i]), 42);
    }
    for (size_t i = 0; i < MAX; i++)
        ck_assert_int_eq(let_end(f, &busy[i]), 42);
    fake_close(f);
}
END_TEST

START_TEST(a_lane_that_is_full_does_not_hold_up_the_others)
{
    fake *f = fake_open();
    static trial busy[MAX], waiting, name, user;
    occupy(f, busy, NULL);
    submit_call(f, &waiting, NULL);
    submit_to(f, &name, NULL, WEFT__LANE_NAMES);
    submit_to(f, &user, NULL, WEFT__LANE_USER);
    ck_assert_int_eq(let_end(f, &name), 42);
    ck_assert_int_eq(let_end(f, &user), 42);
    ck_assert(!has_happened(&waiting.begun));
    for (size_t i = 0; i < MAX; i++)
        ck_assert_int_eq(let_end(f, &busy[i]), 42);
    ck_assert_int_eq(let_end(f, &waiting), 42);
    fake_close(f);
}
END_TEST

START_TEST(idle_threads_end_and_new_ones_are_made)
{
    weft__lanes_set_idle_ns(1000000);
    fake *f = fake_open();
    static trial t[8];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT_OF(t); i++)
            submit_call(f, &t[i], NULL);
        for (size_t i = 0; i < COUNT_OF(t); i++)
            wait_for(&t[i].begun);
        weft__lane_counts now;
        weft__lane_count(WEFT__LANE_FILES, &now);
        ck_assert_uint_ge(now.threads, COUNT_OF(t));
        for (size_t i = 0; i < COUNT_OF(t); i++)
            ck_assert_int_eq(let_end(f, &t[i]), 42);
        do {
            sched_yield();
            weft__lane_count(WEFT__LANE_FILES, &now);
        } while (now.threads > 0);
        ck_assert_uint_eq(now.idle, 0);
    }
    fake_close(f);
}
END_TEST

/* Wait until the lane has so many threads. */
static void wait_threads(unsigned threads)
{
    weft__lane_counts now;
    do {
        sched_yield();
        weft__lane_count(WEFT__LANE_FILES, &now);
    } while (now.threads != threads);
}

START_TEST(a_limit_can_be_raised_while_calls_wait_and_lowered_while_they_run)
{
    fake *f = fake_open();
    static trial t[10], more[4];
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, 2), 0);
    for (int i = 0; i < 10; i++)
        submit_call(f, &t[i], NULL);
    wait_for(&t[0].begun);
    wait_for(&t[1].begun);
    ck_assert(!has_happened(&t[2].begun));
    wait_threads(2);
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, 6), 0);
    for (int i = 2; i < 6; i++)
        wait_for(&t[i].begun);
    ck_assert(!has_happened(&t[6].begun));
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, 0), 0);
    for (int i = 6; i < 10; i++)
        wait_for(&t[i].begun);
    wait_threads(10);
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, 3), 0);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(let_end(f, &t[i]), 42);
    wait_threads(3);
    for (int i = 0; i < 4; i++)
        submit_call(f, &more[i], NULL);
    for (int i = 0; i < 3; i++)
        wait_for(&more[i].begun);
    ck_assert(!has_happened(&more[3].begun));
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(let_end(f, &more[i]), 42);
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, 1), 0);
    wait_threads(1); /* those that slept, too */
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, WEFT__LANE_THREADS_LIMIT + 1), -EINVAL);
    fake_close(f);
}
END_TEST

START_TEST(what_is_queued_running_done_and_given_up_is_counted)
{
    fake *f = fake_open();
    static trial t[4];
    weft__lane_counts now;
    weft__lane_limit(WEFT__LANE_FILES, 2);
    for (int i = 0; i < 4; i++)
        submit_call(f, &t[i], note_drop);
    wait_for(&t[0].begun);
    wait_for(&t[1].begun);
    weft__lane_count(WEFT__LANE_FILES, &now);
    ck_assert_uint_eq(now.threads, 2);
    ck_assert_uint_eq(now.idle, 0);
    ck_assert_uint_eq(now.running, 2);
    ck_assert_uint_eq(now.queued, 2);
    ck_assert_uint_eq(now.done + now.given_up, 0);
    ck_assert(weft__pool_cancel(&f->base, &t[3].op));
    weft__lane_count(WEFT__LANE_FILES, &now);
    ck_assert_uint_eq(now.queued, 1);
    ck_assert_uint_eq(now.given_up, 1);
    ck_assert(weft__pool_cancel(&f->base, &t[0].op)); /* which makes room for another one */
    wait_for(&t[2].begun);
    weft__lane_count(WEFT__LANE_FILES, &now);
    ck_assert_uint_eq(now.threads, 3);
    ck_assert_uint_eq(now.running, 3);
    ck_assert_uint_eq(now.queued, 0);
    ck_assert_uint_eq(now.given_up, 2);
    ck_assert_int_gt(now.queue_ns_max, 0);
    ck_assert_int_ge(now.queue_ns, now.queue_ns_max);
    sem_post(&t[0].may_end);
    wait_for(&t[0].dropped);
    ck_assert_int_eq(let_end(f, &t[1]), 42);
    ck_assert_int_eq(let_end(f, &t[2]), 42);
    weft__lane_count(WEFT__LANE_FILES, &now);
    ck_assert_uint_eq(now.done, 2);
    ck_assert_uint_eq(now.given_up, 2);
    fake_close(f);
}
END_TEST

/* From here on no thread can be made: there is no room for its stack. */
static void take_room(struct rlimit *old)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    getrlimit(RLIMIT_AS, old);
    struct rlimit low = {pages * 4096 + (128 << 10), old->rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &low), 0);
}

START_TEST(without_a_thread_it_is_an_error_and_with_one_the_call_waits_for_it)
{
    if (is_sanitized())
        return; /* they need more room than any limit */
    fake *f = fake_open();
    trial t, second;
    struct rlimit old;
    take_room(&old);
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {wait_in_call, &t, NULL}};
    ck_assert_int_eq(submit(f, &t, op), -EAGAIN);
    ck_assert_uint_eq(f->base.pending, 0);
    setrlimit(RLIMIT_AS, &old);
    submit_call(f, &t, NULL);
    wait_for(&t.begun);
    take_room(&old);
    submit_call(f, &second, NULL);
    setrlimit(RLIMIT_AS, &old);
    ck_assert(!has_happened(&second.begun));
    ck_assert_int_eq(let_end(f, &t), 42);
    ck_assert_int_eq(let_end(f, &second), 42);
    fake_close(f);
}
END_TEST

START_TEST(a_child_of_the_process_has_a_pool_of_its_own)
{
    if (is_sanitized())
        return; /* TSan does not let such a child start threads */
    fake *f = fake_open();
    static trial busy[MAX], queued, own;
    occupy(f, busy, NULL);
    submit_call(f, &queued, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_out = weft__pool_cancel(&f->base, &queued.op);
        submit_call(f, &own, NULL);
        _exit(is_out && let_end(f, &own) == 42 && !has_happened(&queued.begun) ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    for (size_t i = 0; i < MAX; i++)
        ck_assert_int_eq(let_end(f, &busy[i]), 42);
    ck_assert_int_eq(let_end(f, &queued), 42);
    fake_close(f);
}
END_TEST

START_TEST(in_a_child_what_runs_in_the_parent_can_be_given_up_without_a_trace)
{
    if (is_sanitized())
        return;
    fake *f = fake_open();
    static trial running, kept, own;
    submit_call(f, &running, note_drop);
    submit_call(f, &kept, NULL);
    wait_for(&running.begun);
    wait_for(&kept.begun);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_out = weft__pool_cancel(&f->base, &running.op);
        is_out &= weft__pool_cancel(&f->base, &kept.op);
        bool is_dropped = has_happened(&running.dropped);
        submit_call(f, &own, NULL);
        bool is_made = let_end(f, &own) == 42;
        weft__lane_counts now;
        weft__lane_count(WEFT__LANE_FILES, &now);
        fake_close(f);
        _exit(is_out && !is_dropped && is_made && now.threads == 1 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(let_end(f, &running), 42);
    ck_assert_int_eq(let_end(f, &kept), 42);
    fake_close(f);
}
END_TEST

static intptr_t fork_and_return(void *arg)
{
    pid_t pid = *(pid_t *)arg = fork();
    is_exiting_in_a_fiber = pid == 0;
    return 42;
}

START_TEST(a_thread_that_forks_is_none_of_the_childs)
{
    fake *f = fake_open();
    f->home = getpid();
    pid_t pid = -1;
    trial t;
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {fork_and_return, &pid, NULL}};
    ck_assert(submit(f, &t, op) == WEFT__OP_PENDING);
    ck_assert_int_eq(finish(f, &t), 42);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    fake_close(f);
}
END_TEST

/* A thread that is there until it is told to end. */
typedef struct other {
    pthread_t thread;
    const char *name;
    sem_t is_there, may_end;
} other;

static void *be_there(void *arg)
{
    other *o = arg;
    if (o->name != NULL)
        pthread_setname_np(pthread_self(), o->name);
    sem_post(&o->is_there);
    wait_for(&o->may_end);
    return NULL;
}

static void start_other(other *o, const char *name)
{
    o->name = name;
    sem_init(&o->is_there, 0, 0);
    sem_init(&o->may_end, 0, 0);
    ck_assert_int_eq(pthread_create(&o->thread, NULL, be_there, o), 0);
    wait_for(&o->is_there);
}

/* The kernel may still list it for a moment: joining only waits for its memory. */
static void end_other(other *o)
{
    sem_post(&o->may_end);
    pthread_join(o->thread, NULL);
    while (weft__threads_are_others(1))
        sched_yield();
}

START_TEST(idle_threads_of_the_pool_and_of_io_uring_are_no_others)
{
#ifdef WEFT__TSAN
    return; /* in a child of fork it starts a second thread of its own with the first of ours */
#endif
    ck_assert(!weft__threads_are_others(1));
    fake *f = fake_open();
    static trial t[3], file;
    submit_call(f, &file, NULL);
    wait_for(&file.begun);
    ck_assert(!weft__threads_are_others(1));
    for (int i = 0; i < 3; i++)
        submit_to(f, &t[i], NULL, WEFT__LANE_USER);
    for (int i = 0; i < 3; i++)
        wait_for(&t[i].begun);
    ck_assert(weft__threads_are_others(1)); /* a function of the program may send something */
    let_end(f, &file);
    for (int i = 0; i < 3; i++)
        let_end(f, &t[i]);
    while (weft__threads_are_others(1)) /* a thread is idle a moment after its call was collected */
        sched_yield();
    other ring, plain;
    start_other(&ring, "iou-wrk-4711");
    ck_assert(!weft__threads_are_others(1));
    start_other(&plain, NULL);
    ck_assert(weft__threads_are_others(1));
    end_other(&plain);
    sem_post(&ring.may_end);
    pthread_join(ring.thread, NULL);
    fake_close(f);
}
END_TEST

static const TTest *const *const tests[] = {
    &beyond_the_limit_calls_wait_and_are_made_in_order,
    &a_lane_that_is_full_does_not_hold_up_the_others,
    &idle_threads_end_and_new_ones_are_made,
    &a_limit_can_be_raised_while_calls_wait_and_lowered_while_they_run,
    &what_is_queued_running_done_and_given_up_is_counted,
    &without_a_thread_it_is_an_error_and_with_one_the_call_waits_for_it,
    &a_child_of_the_process_has_a_pool_of_its_own,
    &in_a_child_what_runs_in_the_parent_can_be_given_up_without_a_trace,
    &a_thread_that_forks_is_none_of_the_childs,
    &idle_threads_of_the_pool_and_of_io_uring_are_no_others,
};

int main(void)
{
    return run_suite("lane", tests, COUNT_OF(tests));
}
