/*
 * Tests of worker queues: limits, start and end of workers, counters, fork, and the detection of
 * foreign threads.
 */
#include "backend/workers/job_support.h"

#include "backend/workers/foreign.h"

#include <sys/resource.h>

TEST(calls_beyond_the_limit_wait_and_run_in_order)
{
    static test_job busy[MAX], more[100];
    begin_calls(busy, MAX, NULL);
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        submit_call(fake, &more[i], NULL);
        ck_assert(!try_sem(&more[i].begun));
    }
    sem_post(&busy[0].may_end);
    for (size_t i = 0; i < COUNT_OF(more); i++) { /* by the one free worker */
        wait_sem(&more[i].begun);
        if (i + 1 < COUNT_OF(more))
            ck_assert(!try_sem(&more[i + 1].begun));
        ck_assert_int_eq(end_job(fake, &more[i]), 42);
    }
    end_calls(busy, MAX);
}

TEST(a_full_worker_queue_does_not_delay_the_others)
{
    static test_job busy[MAX], waiting, name, user;
    begin_calls(busy, MAX, NULL);
    submit_call(fake, &waiting, NULL);
    submit_to(fake, &name, NULL, WEFT__WORKER_QUEUE_NAMES);
    submit_to(fake, &user, NULL, WEFT__WORKER_QUEUE_USER);
    ck_assert_int_eq(end_job(fake, &name), 42);
    ck_assert_int_eq(end_job(fake, &user), 42);
    ck_assert(!try_sem(&waiting.begun));
    end_calls(busy, MAX);
    ck_assert_int_eq(end_job(fake, &waiting), 42);
}

static weft__worker_queue_counts files_counts(void)
{
    weft__worker_queue_counts now;
    weft__worker_queue_count(WEFT__WORKER_QUEUE_FILES, &now);
    return now;
}

/* Wait until the queue has this number of workers. */
static void await_worker_count(unsigned threads)
{
    while (files_counts().threads != threads)
        sched_yield();
}

static int limit_files(unsigned threads)
{
    return weft__worker_queue_limit(WEFT__WORKER_QUEUE_FILES, threads);
}

TEST(idle_workers_end_and_new_ones_start)
{
    weft__workers_set_idle_ns(1000000);
    static test_job t[8];
    for (int round = 0; round < 3; round++) {
        begin_calls(t, COUNT_OF(t), NULL);
        ck_assert_uint_ge(files_counts().threads, COUNT_OF(t));
        end_calls(t, COUNT_OF(t));
        await_worker_count(0);
        ck_assert_uint_eq(files_counts().idle, 0);
    }
}

TEST(a_limit_can_be_raised_while_calls_wait_and_lowered_while_they_run)
{
    static test_job t[10], more[4];
    ck_assert_int_eq(limit_files(2), 0);
    for (int i = 0; i < 10; i++)
        submit_call(fake, &t[i], NULL);
    wait_sem(&t[0].begun);
    wait_sem(&t[1].begun);
    ck_assert(!try_sem(&t[2].begun));
    await_worker_count(2);
    ck_assert_int_eq(limit_files(6), 0);
    for (int i = 2; i < 6; i++)
        wait_sem(&t[i].begun);
    ck_assert(!try_sem(&t[6].begun));
    ck_assert_int_eq(limit_files(0), 0);
    for (int i = 6; i < 10; i++)
        wait_sem(&t[i].begun);
    await_worker_count(10);
    ck_assert_int_eq(limit_files(3), 0);
    end_calls(t, 10);
    await_worker_count(3);
    for (int i = 0; i < 4; i++)
        submit_call(fake, &more[i], NULL);
    for (int i = 0; i < 3; i++)
        wait_sem(&more[i].begun);
    ck_assert(!try_sem(&more[3].begun));
    end_calls(more, 4);
    ck_assert_int_eq(limit_files(1), 0);
    await_worker_count(1); /* idle workers end too */
    ck_assert_int_eq(limit_files(WEFT__WORKERS_LIMIT + 1), -EINVAL);
}

TEST(queued_running_done_and_cancelled_calls_are_counted)
{
    static test_job t[4];
    weft__worker_queue_counts now;
    limit_files(2);
    for (int i = 0; i < 4; i++)
        submit_call(fake, &t[i], post_dropped);
    wait_sem(&t[0].begun);
    wait_sem(&t[1].begun);
    now = files_counts();
    ck_assert_uint_eq(now.threads, 2);
    ck_assert_uint_eq(now.idle, 0);
    ck_assert_uint_eq(now.running, 2);
    ck_assert_uint_eq(now.queued, 2);
    ck_assert_uint_eq(now.done + now.abandoned, 0);
    ck_assert(weft__job_cancel(&fake->base, &t[3].op));
    now = files_counts();
    ck_assert_uint_eq(now.queued, 1);
    ck_assert_uint_eq(now.abandoned, 1);
    ck_assert(weft__job_cancel(&fake->base, &t[0].op)); /* this makes room for another worker */
    wait_sem(&t[2].begun);
    now = files_counts();
    ck_assert_uint_eq(now.threads, 3);
    ck_assert_uint_eq(now.running, 3);
    ck_assert_uint_eq(now.queued, 0);
    ck_assert_uint_eq(now.abandoned, 2);
    ck_assert_int_gt(now.queue_ns_max, 0);
    ck_assert_int_ge(now.queue_ns, now.queue_ns_max);
    sem_post(&t[0].may_end);
    wait_sem(&t[0].dropped);
    ck_assert_int_eq(end_job(fake, &t[1]), 42);
    ck_assert_int_eq(end_job(fake, &t[2]), 42);
    now = files_counts();
    ck_assert_uint_eq(now.done, 2);
    ck_assert_uint_eq(now.abandoned, 2);
}

/* Limit the address space, so that no thread can start: there is no room for its stack. */
static void forbid_threads(struct rlimit *old)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    getrlimit(RLIMIT_AS, old);
    struct rlimit low = {pages * 4096 + (128 << 10), old->rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &low), 0);
}

TEST(without_a_worker_a_call_fails_and_with_one_it_waits)
{
    if (is_sanitized())
        return; /* sanitizers need more address space than any limit */
    test_job t, second;
    struct rlimit old;
    forbid_threads(&old);
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {wait_in_call, &t, NULL}};
    ck_assert_int_eq(submit_op(fake, &t, op), -EAGAIN);
    ck_assert_uint_eq(fake->base.pending, 0);
    setrlimit(RLIMIT_AS, &old);
    submit_call(fake, &t, NULL);
    wait_sem(&t.begun);
    forbid_threads(&old);
    submit_call(fake, &second, NULL);
    setrlimit(RLIMIT_AS, &old);
    ck_assert(!try_sem(&second.begun));
    ck_assert_int_eq(end_job(fake, &t), 42);
    ck_assert_int_eq(end_job(fake, &second), 42);
}

static void await_success(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

TEST(a_forked_child_has_its_own_workers)
{
    if (is_sanitized())
        return; /* TSan does not allow threads in a forked child */
    static test_job busy[MAX], queued, own;
    begin_calls(busy, MAX, NULL);
    submit_call(fake, &queued, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_cancelled = weft__job_cancel(&fake->base, &queued.op);
        submit_call(fake, &own, NULL);
        _exit(is_cancelled && end_job(fake, &own) == 42 && !try_sem(&queued.begun) ? 0 : 1);
    }
    await_success(pid);
    end_calls(busy, MAX);
    ck_assert_int_eq(end_job(fake, &queued), 42);
}

TEST(a_forked_child_can_cancel_calls_that_run_in_the_parent)
{
    if (is_sanitized())
        return;
    static test_job running, undroppable, own;
    submit_call(fake, &running, post_dropped);
    submit_call(fake, &undroppable, NULL);
    wait_sem(&running.begun);
    wait_sem(&undroppable.begun);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_cancelled = weft__job_cancel(&fake->base, &running.op);
        is_cancelled &= weft__job_cancel(&fake->base, &undroppable.op);
        bool is_dropped = try_sem(&running.dropped);
        submit_call(fake, &own, NULL);
        bool is_run = end_job(fake, &own) == 42;
        unsigned threads = files_counts().threads;
        fake_backend_close(fake);
        _exit(is_cancelled && !is_dropped && is_run && threads == 1 ? 0 : 1);
    }
    await_success(pid);
    ck_assert_int_eq(end_job(fake, &running), 42);
    ck_assert_int_eq(end_job(fake, &undroppable), 42);
}

static intptr_t fork_and_return(void *arg)
{
    pid_t pid = *(pid_t *)arg = fork();
    is_exiting_in_a_fiber = pid == 0;
    return 42;
}

TEST(a_worker_that_forks_does_not_exist_in_the_child)
{
    fake->owner_pid = getpid();
    pid_t pid = -1;
    test_job t;
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {fork_and_return, &pid, NULL}};
    ck_assert(submit_op(fake, &t, op) == WEFT__OP_PENDING);
    ck_assert_int_eq(finish_job(fake, &t), 42);
    await_success(pid);
}

/* A thread that runs until may_end is posted. */
typedef struct foreign_thread {
    pthread_t thread;
    const char *name;
    sem_t has_started, may_end;
} foreign_thread;

static void *run_foreign_thread(void *arg)
{
    foreign_thread *o = arg;
    if (o->name != NULL)
        pthread_setname_np(pthread_self(), o->name);
    sem_post(&o->has_started);
    wait_sem(&o->may_end);
    return NULL;
}

static void start_foreign_thread(foreign_thread *o, const char *name)
{
    o->name = name;
    sem_init(&o->has_started, 0, 0);
    sem_init(&o->may_end, 0, 0);
    ck_assert_int_eq(pthread_create(&o->thread, NULL, run_foreign_thread, o), 0);
    wait_sem(&o->has_started);
}

/* End the thread. The kernel may list it for a moment after the join. */
static void end_foreign_thread(foreign_thread *o)
{
    sem_post(&o->may_end);
    pthread_join(o->thread, NULL);
    while (weft__foreign_threads_exist(1))
        sched_yield();
}

TEST(idle_workers_and_io_uring_threads_are_not_foreign_threads)
{
#ifdef WEFT__TSAN
    return; /* in a forked child, TSan starts its own thread with the first thread of the test */
#endif
    ck_assert(!weft__foreign_threads_exist(1));
    static test_job t[3], file;
    submit_call(fake, &file, NULL);
    wait_sem(&file.begun);
    ck_assert(!weft__foreign_threads_exist(1));
    for (int i = 0; i < 3; i++)
        submit_to(fake, &t[i], NULL, WEFT__WORKER_QUEUE_USER);
    for (int i = 0; i < 3; i++)
        wait_sem(&t[i].begun);
    ck_assert(weft__foreign_threads_exist(1)); /* a user function may send a message */
    end_job(fake, &file);
    for (int i = 0; i < 3; i++)
        end_job(fake, &t[i]);
    while (
        /* a worker becomes idle shortly after its call is collected */
        weft__foreign_threads_exist(1))
        sched_yield();
    foreign_thread ring, plain;
    start_foreign_thread(&ring, "iou-wrk-4711");
    ck_assert(!weft__foreign_threads_exist(1));
    start_foreign_thread(&plain, NULL);
    ck_assert(weft__foreign_threads_exist(1));
    end_foreign_thread(&plain);
    sem_post(&ring.may_end);
    pthread_join(ring.thread, NULL);
}
