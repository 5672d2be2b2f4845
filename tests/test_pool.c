/* The pool of threads, with a backend that only counts how often it is woken. */
#include "pool_support.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

START_TEST(a_call_is_made_by_another_thread_and_done_when_it_is_collected)
{
    fake *f = fake_open();
    trial t;
    submit_call(f, &t, NULL);
    ck_assert_uint_eq(f->base.pending, 1);
    wait_for(&t.begun);
    ck_assert(!pthread_equal(t.thread, pthread_self()));
    sem_post(&t.may_end);
    wait_finished(f);
    ck_assert(!t.is_done);
    weft__pool_collect(&f->base);
    ck_assert(!weft__finished_before_wait(f->base.pooled));
    ck_assert(t.is_done);
    ck_assert_int_eq(t.result, 42);
    ck_assert_ptr_null(t.op.job);
    fake_close(f);
}
END_TEST

START_TEST(what_is_submitted_in_one_go_runs_at_once_however_few_threads_are_idle)
{
    fake *f = fake_open();
    static trial t[MAX];
    for (size_t n = 1; n <= MAX; n *= 4) { /* each round finds the threads of the last one idle */
        for (size_t i = 0; i < n; i++)
            submit_call(f, &t[i], NULL);
        for (size_t i = 0; i < n; i++)
            wait_for(&t[i].begun);
        for (size_t i = 0; i < n; i++)
            ck_assert_int_eq(let_end(f, &t[i]), 42);
    }
    fake_close(f);
}
END_TEST

START_TEST(a_backend_is_woken_only_if_it_waits)
{
    fake *f = fake_open();
    static trial t;
    submit_call(f, &t, NULL);
    sem_post(&t.may_end); /* while it is busy with other things */
    while (atomic_load(&f->base.pooled->newest) == NULL)
        sched_yield();
    weft__finished_close(&f->base); /* nobody is in its wake */
    ck_assert(!has_happened(&f->wakes));
    ck_assert_int_eq(finish(f, &t), 42);

    submit_call(f, &t, NULL);
    ck_assert(!weft__finished_before_wait(f->base.pooled));
    sem_post(&t.may_end);
    wait_for(&f->wakes);
    ck_assert_int_eq(finish(f, &t), 42);
    fake_close(f);
}
END_TEST

static intptr_t post_arg(void *arg)
{
    sem_post(arg);
    return -EIO;
}

START_TEST(a_cast_is_made_and_nobody_is_woken)
{
    sem_t happened;
    sem_init(&happened, 0, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft__pool_cast(WEFT__LANE_USER, post_arg, &happened), 0);
    for (int i = 0; i < 100; i++)
        wait_for(&happened);
}
END_TEST

START_TEST(a_call_given_up_before_it_was_begun_is_not_made)
{
    fake *f = fake_open();
    static trial busy[MAX], plain, droppable;
    occupy(f, busy, NULL);
    submit_call(f, &plain, NULL);
    submit_call(f, &droppable, note_drop);
    ck_assert(weft__pool_cancel(&f->base, &plain.op));
    ck_assert_ptr_eq(plain.op.u.call.arg, &plain);
    ck_assert(weft__pool_cancel(&f->base, &droppable.op));
    ck_assert(has_happened(&droppable.dropped));
    ck_assert_ptr_null(droppable.op.u.call.arg);
    ck_assert_ptr_null(droppable.op.job);
    ck_assert_uint_eq(f->base.pending, MAX);
    for (size_t i = 0; i < MAX; i++)
        ck_assert_int_eq(let_end(f, &busy[i]), 42);
    ck_assert(!has_happened(&plain.begun));
    ck_assert(!has_happened(&droppable.begun));
    ck_assert(!plain.is_done && !droppable.is_done);
    fake_close(f);
}
END_TEST

START_TEST(a_call_under_way_that_cannot_be_dropped_ends_with_its_result)
{
    fake *f = fake_open();
    trial t;
    submit_call(f, &t, NULL);
    wait_for(&t.begun);
    ck_assert(!weft__pool_cancel(&f->base, &t.op));
    ck_assert(!weft__pool_cancel(&f->base, &t.op));
    ck_assert_uint_eq(f->base.pending, 1);
    ck_assert_int_eq(let_end(f, &t), 42);
    fake_close(f);
}
END_TEST

START_TEST(a_call_under_way_that_is_dropped_outlives_its_backend)
{
    fake *f = fake_open();
    trial t;
    submit_call(f, &t, note_drop);
    wait_for(&t.begun);
    ck_assert(weft__pool_cancel(&f->base, &t.op));
    ck_assert_ptr_null(t.op.u.call.arg);
    ck_assert_ptr_null(t.op.job);
    fake_close(f);
    ck_assert(!has_happened(&t.dropped));
    sem_post(&t.may_end);
    wait_for(&t.dropped);
    ck_assert(!t.is_done);
}
END_TEST

START_TEST(a_call_that_is_over_but_not_collected_cannot_be_given_up)
{
    fake *f = fake_open();
    trial t;
    submit_call(f, &t, note_drop);
    sem_post(&t.may_end);
    wait_finished(f);
    ck_assert(!weft__pool_cancel(&f->base, &t.op));
    ck_assert(!t.is_done);
    weft__pool_collect(&f->base);
    ck_assert(t.is_done);
    ck_assert_int_eq(t.result, 42);
    ck_assert(!has_happened(&t.dropped));
    fake_close(f);
}
END_TEST

START_TEST(threads_lost_to_what_was_given_up_do_not_keep_others_waiting)
{
    fake *f = fake_open();
    static trial lost[3][MAX], queued, after;
    for (size_t round = 0; round < 3; round++) {
        occupy(f, lost[round], note_drop);
        if (round == 0)
            submit_call(f, &queued, NULL); /* is begun as soon as the first one is given up */
        for (size_t i = 0; i < MAX; i++)
            ck_assert(weft__pool_cancel(&f->base, &lost[round][i].op));
        if (round == 0)
            ck_assert_int_eq(let_end(f, &queued), 42);
    }
    submit_call(f, &after, NULL);
    ck_assert_int_eq(let_end(f, &after), 42);
    for (size_t i = 0; i < 3 * MAX; i++)
        sem_post(&lost[i / MAX][i % MAX].may_end);
    for (size_t i = 0; i < 3 * MAX; i++)
        wait_for(&lost[i / MAX][i % MAX].dropped);
    occupy(f, lost[0], NULL);
    for (size_t i = 0; i < MAX; i++)
        ck_assert_int_eq(let_end(f, &lost[0][i]), 42);
    fake_close(f);
}
END_TEST

/* Opens a FIFO for writing as soon as someone reads. */
static int open_writer(const char *path)
{
    int fd;
    while ((fd = open(path, O_WRONLY | O_NONBLOCK)) < 0 && errno == ENXIO)
        sched_yield();
    ck_assert_int_ge(fd, 0);
    return fd;
}

START_TEST(an_open_under_way_that_is_given_up_closes_what_it_opens)
{
    char folder[] = "/tmp/weft-pool-XXXXXX", path[64], given[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    fake *f = fake_open();
    trial t, next;
    weft__op op = {.code = WEFT__OP_OPEN, .fd = AT_FDCWD, .u.open = {given, O_RDONLY, 0}};
    ck_assert(submit(f, &t, (strcpy(given, path), op)) == WEFT__OP_PENDING);
    int fd = open_writer(path);
    ck_assert_int_ge(finish(f, &t), 0);
    close((int)t.result);
    close(fd);

    ck_assert(submit(f, &t, op) == WEFT__OP_PENDING);
    submit_call(f, &next, NULL);
    wait_for(&next.begun); /* and so has the one before it been */
    ck_assert(weft__pool_cancel(&f->base, &t.op));
    memset(given, 0, sizeof given); /* it needs nothing of the caller's any more */
    fd = open_writer(path);
    struct pollfd reader = {.fd = fd};
    ck_assert_int_eq(poll(&reader, 1, -1), 1); /* it has been closed */
    ck_assert_int_eq(reader.revents, POLLERR);
    close(fd);
    ck_assert_int_eq(let_end(f, &next), 42);
    fake_close(f);
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(an_open_that_makes_a_file_is_not_given_up_while_it_is_under_way)
{
    char folder[] = "/tmp/weft-pool-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    fake *f = fake_open();
    trial t, next;
    weft__op op = {.code = WEFT__OP_OPEN, .fd = AT_FDCWD};
    op.u.open.path = path;
    op.u.open.flags = O_RDONLY | O_CREAT;
    ck_assert(submit(f, &t, op) == WEFT__OP_PENDING);
    submit_call(f, &next, NULL);
    wait_for(&next.begun);
    ck_assert(!weft__pool_cancel(&f->base, &t.op));
    int fd = open_writer(path);
    ck_assert_int_ge(finish(f, &t), 0);
    close((int)t.result);
    close(fd);
    ck_assert_int_eq(let_end(f, &next), 42);
    fake_close(f);
    unlink(path);
    rmdir(folder);
}
END_TEST

/* Calls that last for no time, given up at odd moments by several threads at once. */

typedef struct brief {
    weft__op op;
    atomic_int runs, drops;
    int dones, cancels;
} brief;

#define BRIEFS 200
#define STORM_THREADS 4

static intptr_t count_run(void *arg)
{
    brief *t = arg;
    atomic_fetch_add(&t->runs, 1);
    return 7;
}

static void count_drop(void *arg)
{
    brief *t = arg;
    atomic_fetch_add(&t->drops, 1);
}

static void count_done(weft__op *op, intptr_t result)
{
    CONTAINER_OF(op, brief, op)->dones += result == 7 ? 1 : 100;
}

static void check_brief(const brief *t, bool is_droppable)
{
    ck_assert_int_eq(t->dones + t->cancels, 1);
    ck_assert_int_le(t->runs, 1);
    if (t->dones == 1)
        ck_assert_int_eq(t->runs, 1);
    else if (!is_droppable)
        ck_assert_int_eq(t->runs, 0);
    ck_assert_int_eq(t->drops, is_droppable ? t->cancels : 0);
}

static void storm_round(fake *f, brief *all, unsigned *random)
{
    memset(all, 0, BRIEFS * sizeof *all);
    for (int i = 0; i < BRIEFS; i++) {
        brief *t = &all[i];
        t->op = (weft__op){.code = WEFT__OP_CALL, .fd = -1, .done = count_done};
        t->op.u.call.fn = count_run;
        t->op.u.call.arg = t;
        t->op.u.call.drop = i % 2 ? count_drop : NULL;
        weft__list_init(&t->op.link);
        ck_assert(weft__pool_submit(&f->base, &t->op) == WEFT__OP_PENDING);
        brief *victim = &all[rand_r(random) % (unsigned)(i + 1)];
        if (victim->op.job != NULL && weft__pool_cancel(&f->base, &victim->op))
            victim->cancels++;
        if (rand_r(random) % 4 == 0)
            weft__pool_collect(&f->base);
    }
    while (f->base.pending > 0) {
        wait_finished(f);
        weft__pool_collect(&f->base);
    }
    for (int i = 0; i < BRIEFS; i++)
        while (i % 2 && all[i].cancels > atomic_load(&all[i].drops))
            sched_yield();
    for (int i = 0; i < BRIEFS; i++)
        check_brief(&all[i], i % 2);
}

static void *storm(void *arg)
{
    unsigned random = (unsigned)(uintptr_t)arg;
    brief *all = malloc(BRIEFS * sizeof *all);
    for (int round = 0; round < 20; round++) {
        fake *f = fake_open();
        storm_round(f, all, &random);
        fake_close(f);
    }
    free(all);
    return NULL;
}

START_TEST(in_a_storm_every_call_ends_once_and_is_dropped_if_and_only_if_it_was_given_up)
{
    pthread_t threads[STORM_THREADS];
    for (uintptr_t i = 0; i < STORM_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, storm, (void *)i), 0);
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_call_is_made_by_another_thread_and_done_when_it_is_collected,
    &what_is_submitted_in_one_go_runs_at_once_however_few_threads_are_idle,
    &a_backend_is_woken_only_if_it_waits,
    &a_cast_is_made_and_nobody_is_woken,
    &a_call_given_up_before_it_was_begun_is_not_made,
    &a_call_under_way_that_cannot_be_dropped_ends_with_its_result,
    &a_call_under_way_that_is_dropped_outlives_its_backend,
    &a_call_that_is_over_but_not_collected_cannot_be_given_up,
    &threads_lost_to_what_was_given_up_do_not_keep_others_waiting,
    &an_open_under_way_that_is_given_up_closes_what_it_opens,
    &an_open_that_makes_a_file_is_not_given_up_while_it_is_under_way,
    &in_a_storm_every_call_ends_once_and_is_dropped_if_and_only_if_it_was_given_up,
};

int main(void)
{
    return run_suite("pool", tests, COUNT_OF(tests));
}
