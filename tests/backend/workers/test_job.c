/* Tests of jobs on workers, with a fake backend that counts its wake-ups. */
#include "backend/workers/job_support.h"

#include <fcntl.h>
#include <poll.h>

TEST(a_call_runs_on_another_thread_and_is_done_when_it_is_collected)
{
    test_job t;
    submit_call(fake, &t, NULL);
    ck_assert_uint_eq(fake->base.pending, 1);
    wait_sem(&t.begun);
    ck_assert(!pthread_equal(t.thread, pthread_self()));
    ck_assert(!weft__job_cancel(&fake->base, &t.op)); /* it runs, and has no drop */
    ck_assert_uint_eq(fake->base.pending, 1);
    sem_post(&t.may_end);
    wait_finished(fake);
    ck_assert(!t.is_done);
    weft__jobs_collect(&fake->base);
    ck_assert(!weft__finished_jobs_before_wait(fake->base.finished_jobs));
    ck_assert(t.is_done);
    ck_assert_int_eq(t.result, 42);
    ck_assert_ptr_null(t.op.job);
}

TEST(calls_submitted_together_run_in_parallel_however_few_workers_are_idle)
{
    static test_job t[MAX];
    /* each round finds the workers of the previous round idle */
    for (size_t n = 1; n <= MAX; n *= 4) {
        begin_calls(t, n, NULL);
        end_calls(t, n);
    }
}

TEST(a_backend_is_woken_only_if_it_waits)
{
    static test_job t;
    submit_call(fake, &t, NULL);
    sem_post(&t.may_end); /* the backend does not wait */
    while (atomic_load(&fake->base.finished_jobs->newest) == NULL)
        sched_yield();
    weft__finished_jobs_close(&fake->base); /* no worker is inside wake after this call */
    ck_assert(!try_sem(&fake->wakes));
    ck_assert_int_eq(finish_job(fake, &t), 42);

    submit_call(fake, &t, NULL);
    ck_assert(!weft__finished_jobs_before_wait(fake->base.finished_jobs));
    sem_post(&t.may_end);
    wait_sem(&fake->wakes);
    ck_assert_int_eq(finish_job(fake, &t), 42);
}

static intptr_t post_arg(void *arg)
{
    sem_post(arg);
    return -EIO;
}

TEST(a_detached_job_runs_and_wakes_no_backend)
{
    sem_t happened;
    sem_init(&happened, 0, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft__job_submit_detached(WEFT__WORKER_QUEUE_USER, post_arg, &happened),
                         0);
    for (int i = 0; i < 100; i++)
        wait_sem(&happened);
}

TEST(a_call_cancelled_before_its_start_does_not_run)
{
    static test_job busy[MAX], plain, droppable;
    begin_calls(busy, MAX, NULL);
    submit_call(fake, &plain, NULL);
    submit_call(fake, &droppable, post_dropped);
    ck_assert(weft__job_cancel(&fake->base, &plain.op));
    ck_assert_ptr_eq(plain.op.u.call.arg, &plain);
    ck_assert(weft__job_cancel(&fake->base, &droppable.op));
    ck_assert(try_sem(&droppable.dropped));
    ck_assert_ptr_null(droppable.op.u.call.arg);
    ck_assert_ptr_null(droppable.op.job);
    ck_assert_uint_eq(fake->base.pending, MAX);
    end_calls(busy, MAX);
    ck_assert(!try_sem(&plain.begun));
    ck_assert(!try_sem(&droppable.begun));
    ck_assert(!plain.is_done && !droppable.is_done);
}

TEST(a_cancelled_running_call_with_drop_outlives_its_backend)
{
    test_job t;
    submit_call(fake, &t, post_dropped);
    wait_sem(&t.begun);
    ck_assert(weft__job_cancel(&fake->base, &t.op));
    ck_assert_ptr_null(t.op.u.call.arg);
    ck_assert_ptr_null(t.op.job);
    fake_backend_close(fake);
    open_fake();
    ck_assert(!try_sem(&t.dropped));
    sem_post(&t.may_end);
    wait_sem(&t.dropped);
    ck_assert(!t.is_done);
}

TEST(a_finished_call_that_is_not_collected_cannot_be_cancelled)
{
    test_job t;
    submit_call(fake, &t, post_dropped);
    sem_post(&t.may_end);
    wait_finished(fake);
    ck_assert(!weft__job_cancel(&fake->base, &t.op));
    ck_assert(!t.is_done);
    weft__jobs_collect(&fake->base);
    ck_assert(t.is_done);
    ck_assert_int_eq(t.result, 42);
    ck_assert(!try_sem(&t.dropped));
}

TEST(workers_busy_with_cancelled_calls_do_not_delay_other_calls)
{
    static test_job cancelled[3][MAX], queued, after;
    for (size_t round = 0; round < 3; round++) {
        begin_calls(cancelled[round], MAX, post_dropped);
        if (round == 0)
            submit_call(fake, &queued, NULL); /* starts when the first call is cancelled */
        for (size_t i = 0; i < MAX; i++)
            ck_assert(weft__job_cancel(&fake->base, &cancelled[round][i].op));
        if (round == 0)
            ck_assert_int_eq(end_job(fake, &queued), 42);
    }
    submit_call(fake, &after, NULL);
    ck_assert_int_eq(end_job(fake, &after), 42);
    for (size_t i = 0; i < 3 * MAX; i++)
        sem_post(&cancelled[i / MAX][i % MAX].may_end);
    for (size_t i = 0; i < 3 * MAX; i++)
        wait_sem(&cancelled[i / MAX][i % MAX].dropped);
    begin_calls(cancelled[0], MAX, NULL);
    end_calls(cancelled[0], MAX);
}

/* Open a FIFO for writing after a reader has opened it. */
static int open_writer(const char *path)
{
    int fd;
    while ((fd = open(path, O_WRONLY | O_NONBLOCK)) < 0 && errno == ENXIO)
        sched_yield();
    ck_assert_int_ge(fd, 0);
    return fd;
}

static char fifo_directory[32], path[64];

static void create_fifo(void)
{
    strcpy(fifo_directory, "/tmp/weft-pool-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fifo_directory));
    snprintf(path, sizeof path, "%s/fifo", fifo_directory);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

/* Close the backend, which waits for its workers. Remove the FIFO. */
static void remove_fifo(void)
{
    fake_backend_close(fake);
    open_fake();
    unlink(path);
    rmdir(fifo_directory);
}

/* Let the job open its end of the FIFO. Close both ends. */
static void finish_open(test_job *t)
{
    int fd = open_writer(path);
    ck_assert_int_ge(finish_job(fake, t), 0);
    close((int)t->result);
    close(fd);
}

TEST(a_cancelled_running_open_closes_its_descriptor)
{
    char path_copy[64];
    create_fifo();
    test_job t, next;
    weft__op op = {.code = WEFT__OP_OPEN, .fd = AT_FDCWD, .u.open = {path_copy, O_RDONLY, 0}};
    ck_assert(submit_op(fake, &t, (strcpy(path_copy, path), op)) == WEFT__OP_PENDING);
    finish_open(&t);

    ck_assert(submit_op(fake, &t, op) == WEFT__OP_PENDING);
    submit_call(fake, &next, NULL);
    wait_sem(&next.begun); /* the open has started too */
    ck_assert(weft__job_cancel(&fake->base, &t.op));
    memset(path_copy, 0, sizeof path_copy); /* the job has its own copy of the path */
    int fd = open_writer(path);
    struct pollfd reader = {.fd = fd};
    ck_assert_int_eq(poll(&reader, 1, -1), 1); /* the reader has been closed */
    ck_assert_int_eq(reader.revents, POLLERR);
    close(fd);
    ck_assert_int_eq(end_job(fake, &next), 42);
    remove_fifo();
}

TEST(a_running_open_that_creates_a_file_cannot_be_cancelled)
{
    create_fifo();
    test_job t, next;
    weft__op op = {.code = WEFT__OP_OPEN, .fd = AT_FDCWD};
    op.u.open.path = path;
    op.u.open.flags = O_RDONLY | O_CREAT;
    ck_assert(submit_op(fake, &t, op) == WEFT__OP_PENDING);
    submit_call(fake, &next, NULL);
    wait_sem(&next.begun);
    ck_assert(!weft__job_cancel(&fake->base, &t.op));
    finish_open(&t);
    ck_assert_int_eq(end_job(fake, &next), 42);
    remove_fifo();
}

/* Short calls that several threads cancel at random times. */

typedef struct short_call {
    weft__op op;
    atomic_int runs, drops;
    int dones, cancels;
} short_call;

#define SHORT_CALLS 200
#define STORM_THREADS 4

static intptr_t count_job_run(void *arg)
{
    short_call *t = arg;
    atomic_fetch_add(&t->runs, 1);
    return 7;
}

static void count_drop(void *arg)
{
    short_call *t = arg;
    atomic_fetch_add(&t->drops, 1);
}

static void count_done(weft__op *op, intptr_t result)
{
    CONTAINER_OF(op, short_call, op)->dones += result == 7 ? 1 : 100;
}

static void check_short_call(const short_call *t, bool is_droppable)
{
    ck_assert_int_eq(t->dones + t->cancels, 1);
    ck_assert_int_le(t->runs, 1);
    if (t->dones == 1)
        ck_assert_int_eq(t->runs, 1);
    else if (!is_droppable)
        ck_assert_int_eq(t->runs, 0);
    ck_assert_int_eq(t->drops, is_droppable ? t->cancels : 0);
}

static void storm_round(fake_backend *f, short_call *all, unsigned *random)
{
    memset(all, 0, SHORT_CALLS * sizeof *all);
    for (int i = 0; i < SHORT_CALLS; i++) {
        short_call *t = &all[i];
        t->op = (weft__op){.code = WEFT__OP_CALL, .fd = -1, .done = count_done};
        t->op.u.call.fn = count_job_run;
        t->op.u.call.arg = t;
        t->op.u.call.drop = i % 2 ? count_drop : NULL;
        weft__list_init(&t->op.link);
        ck_assert(weft__job_submit(&f->base, &t->op) == WEFT__OP_PENDING);
        short_call *target = &all[rand_r(random) % (unsigned)(i + 1)];
        if (target->op.job != NULL && weft__job_cancel(&f->base, &target->op))
            target->cancels++;
        if (rand_r(random) % 4 == 0)
            weft__jobs_collect(&f->base);
    }
    while (f->base.pending > 0) {
        wait_finished(f);
        weft__jobs_collect(&f->base);
    }
    for (int i = 0; i < SHORT_CALLS; i++)
        while (i % 2 && all[i].cancels > atomic_load(&all[i].drops))
            sched_yield();
    for (int i = 0; i < SHORT_CALLS; i++)
        check_short_call(&all[i], i % 2);
}

static void *run_storm(void *arg)
{
    unsigned random = (unsigned)(uintptr_t)arg;
    short_call *all = malloc(SHORT_CALLS * sizeof *all);
    for (int round = 0; round < 20; round++) {
        fake_backend *f = fake_backend_open();
        storm_round(f, all, &random);
        fake_backend_close(f);
    }
    free(all);
    return NULL;
}

TEST(in_a_storm_every_call_ends_once_and_only_cancelled_calls_are_dropped)
{
    pthread_t threads[STORM_THREADS];
    for (uintptr_t i = 0; i < STORM_THREADS; i++)
        threads[i] = start_thread(run_storm, (void *)i);
    for (int i = 0; i < STORM_THREADS; i++)
        join_thread(threads[i]);
}
