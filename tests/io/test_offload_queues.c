/* Tests of many offloaded calls at once: limits, independent worker queues, and counters. */
#include "io/offload_support.h"
#include "support/result_support.h"

#include "backend/workers/worker_queue.h"
#include "support/suite.h"

#include <fcntl.h>

/* Spin count fibers, with the arguments 0 to count - 1. Assert that fiber i returns i. */
static void await_numbered(weft_fn *fn, int count)
{
    weft_fiber f[1000];
    for (int i = 0; i < count; i++)
        f[i] = weft_spin(fn, as_arg(i));
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(weft_await(f[i]), i);
}

static weft_offload_counters offload_stats(void)
{
    weft_offload_counters now;
    ck_assert_int_eq(weft_offload_stats(&now), 0);
    return now;
}

static void resolve_localhost(void)
{
    struct addrinfo *found = NULL;
    ck_assert_int_eq(weft_resolve("localhost", NULL, NULL, &found), 0);
    weft_resolve_free(found);
}

static pthread_barrier_t barrier;

static weft_value meet_at_barrier(void *arg)
{
    pthread_barrier_wait(&barrier);
    return (weft_value)arg;
}

FIBER(offload_meeting, weft_offload(meet_at_barrier, arg))

/* P58 */
TEST(forty_calls_use_all_workers_of_a_limit_of_forty)
{
    pthread_barrier_init(&barrier, NULL, 40);
    ck_assert_int_eq(weft_offload_set_limit(40), 0);
    await_numbered(offload_meeting, 40);
    weft_offload_counters now = offload_stats();
    ck_assert_uint_eq(now.user.threads, 40);
    ck_assert_uint_eq(now.user.done, 40);
}

static atomic_int concurrent, concurrent_max;

static weft_value count_concurrent(void *arg)
{
    int count = atomic_fetch_add(&concurrent, 1) + 1, most = atomic_load(&concurrent_max);
    while (count > most && !atomic_compare_exchange_weak(&concurrent_max, &most, count))
        continue;
    sched_yield();
    atomic_fetch_sub(&concurrent, 1);
    return (weft_value)arg;
}

FIBER(offload_counted, weft_offload(count_concurrent, arg))

TEST(calls_beyond_the_limit_all_run_but_never_more_than_the_limit_at_once)
{
    ck_assert_int_eq(weft_offload_set_limit(3), 0);
    await_numbered(offload_counted, 200);
    ck_assert_int_le(concurrent_max, 3);
    weft_offload_counters now = offload_stats();
    ck_assert_uint_le(now.user.threads, 3);
    ck_assert_uint_eq(now.user.done, 200);
    ck_assert_uint_eq(now.user.queued, 0);
    ck_assert_uint_eq(now.user.running, 0);
    ck_assert_uint_eq(now.user.idle, now.user.threads);
    ck_assert(now.user.queue_s_max > 0);
    ck_assert(now.user.queue_s_total >= now.user.queue_s_max);
    ck_assert_fails(weft_offload_set_limit(5000), -EINVAL);
}

static weft_value offload_ten_times(void *arg)
{
    for (weft_value i = 0; i < 10; i++)
        if (weft_offload(return_arg, as_arg((weft_value)arg * 10 + i)) != (weft_value)arg * 10 + i)
            return -EBADMSG;
    return (weft_value)arg;
}

TEST(a_thousand_fibers_make_ten_thousand_calls)
{
    await_numbered(offload_ten_times, 1000);
    weft_offload_counters now = offload_stats();
    ck_assert_uint_eq(now.user.done, 10000);
    ck_assert_uint_le(now.user.threads, WEFT__USER_WORKERS_DEFAULT);
}

static void *run_fibers(void *arg)
{
    await_numbered(offload_ten_times, 20);
    gated_call *g = arg; /* still running when the thread and its backend have ended */
    weft_fiber abandoned = spin_begun_call(g);
    weft_cancel(abandoned);
    weft_await(abandoned);
    return arg;
}

TEST(fibers_of_several_threads_offload_calls_at_once)
{
    pthread_t threads[4];
    static gated_call g[4][3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            gated_call_init(&g[i][round], 0);
            g[i][round].options.drop = drop_gated_call;
            threads[i] = start_thread(run_fibers, &g[i][round]);
        }
        for (int i = 0; i < 4; i++)
            ck_assert_ptr_eq(join_thread(threads[i]), &g[i][round]);
    }
    for (int i = 0; i < 12; i++)
        sem_post(&g[i % 4][i / 4].may_end);
    for (int i = 0; i < 12; i++)
        wait_sem(&g[i % 4][i / 4].dropped);
}

static int blocking_pipe[2];

static weft_value read_byte_blocking(void *arg)
{
    char byte;
    return read(blocking_pipe[0], &byte, 1);
}

FIBER(offload_read, weft_offload(read_byte_blocking, arg))

#define CALLS (WEFT__USER_WORKERS_DEFAULT + 10)

TEST(files_and_names_work_while_all_user_workers_are_busy)
{
    static weft_fiber f[CALLS];
    char path[] = "/tmp/weft-offload-XXXXXX";
    ck_assert_int_eq(pipe(blocking_pipe), 0);
    for (int i = 0; i < CALLS; i++)
        f[i] = weft_spin(offload_read, NULL);
    let_run();
    weft_offload_counters now = offload_stats();
    ck_assert_uint_eq(now.user.running + now.user.queued, CALLS);
    ck_assert_uint_eq(now.user.threads, WEFT__USER_WORKERS_DEFAULT);
    int fd = weft_mkstemp(path);
    struct stat status;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_fsync(fd), 0);
    ck_assert_int_eq(weft_stat(path, &status), 0);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_unlink(path), 0);
    resolve_localhost();
    now = offload_stats();
    ck_assert_uint_gt(now.files.done, 0);
    ck_assert_uint_eq(now.user.done, 0);
    char bytes[CALLS] = "";
    ck_assert_int_eq(write(blocking_pipe[1], bytes, CALLS), CALLS);
    await_each_as(f, CALLS, 1);
}

static char fifo[64];

static weft_value open_fifo(void *arg)
{
    /* with O_CREAT, a running open cannot be cancelled */
    int fd = weft_open(fifo, O_RDONLY | O_CREAT, 0600);
    return fd < 0 ? fd : weft_close(fd);
}

TEST(offloaded_calls_run_while_all_file_workers_are_busy)
{
    static weft_fiber f[WEFT__FILES_WORKERS_MAX + 10];
    char folder[] = "/tmp/weft-offload-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(open_fifo, NULL);
    let_run();
    weft_offload_counters now = offload_stats();
    ck_assert_uint_eq(now.files.running + now.files.queued, COUNT_OF(f));
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_offload(return_arg, as_arg(i)), i);
    resolve_localhost();
    int fd = open(fifo, O_RDWR | O_NONBLOCK); /* all opens continue */
    await_each_as(f, COUNT_OF(f), 0);
    close(fd);
    unlink(fifo);
    rmdir(folder);
}

TEST(idle_workers_end)
{
    weft__workers_set_idle_ns(1000000);
    weft_offload_counters now;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_offload(return_arg, as_arg(i)), i);
        do {
            ck_assert_int_eq(weft_sleep(0.001), 0);
            weft_offload_stats(&now);
        } while (now.user.threads > 0);
    }
}

static int fill_offload_stats(void *out, size_t size)
{
    return weft__offload_stats(out, size);
}

TEST(counters_for_programs_with_older_and_newer_headers_have_their_size)
{
    assert_result_is_sized(sizeof(weft_offload_counters), fill_offload_stats);
}
