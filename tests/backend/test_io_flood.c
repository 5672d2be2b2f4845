/*
 * Tests of many operations and completions at once. They must not starve other fibers, timers or
 * descriptors.
 */
#include "support/net_support.h"
#include "support/suite.h"

#include <semaphore.h>

/* More operations than a ring with 1024 entries holds. */
#define OPS_PER_TICK 1100

/* One of many fibers that read a number. */
typedef struct number_reader {
    int fd;
    uint32_t got;
    ssize_t n;
    weft_fiber fiber;
} number_reader;

static number_reader readers[MANY_FIBERS];

/* 10,000 readers, except under Valgrind, which walks a list of all stacks at each switch. */
static size_t readers_max(void)
{
    return RUNNING_ON_VALGRIND ? 2 * OPS_PER_TICK : MANY_FIBERS;
}

static weft_value read_number(void *arg)
{
    number_reader *g = arg;
    g->n = weft_read(g->fd, &g->got, sizeof g->got);
    return 0;
}

static void spin_readers(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        readers[i].n = 1000;
        readers[i].fiber = weft_spin(read_number, &readers[i]);
        ck_assert_uint_ne(readers[i].fiber, 0);
    }
}

static void spin_waiting_readers(size_t count)
{
    spin_readers(count);
    let_run();
    ck_assert_uint_eq(ops_pending(), count);
}

/* Each end of a pair belongs to one reader. To send to a reader, write to the other end. */
static void open_readers(size_t count)
{
    ck_assert_uint_ge(raise_descriptor_limit(count + 64), count + 64);
    for (size_t i = 0; i < count; i += 2) {
        int fd[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd), 0);
        readers[i].fd = fd[0];
        readers[i + 1].fd = fd[1];
    }
}

static void close_readers(size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_close(readers[i].fd), 0);
}

/* Send each reader its number, without weft. */
static void send_numbers(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)i + 7;
        if (write(readers[i ^ 1].fd, &number, sizeof number) != sizeof number)
            ck_abort_msg("number %zu cannot be sent", i);
    }
}

static void await_numbers(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_value rc = weft_await(readers[i].fiber);
        if (rc != 0 || readers[i].n != sizeof(uint32_t) || readers[i].got != i + 7)
            ck_abort_msg("reader %zu: %ld, %zd bytes, %u", i, (long)rc, readers[i].n,
                         readers[i].got);
    }
    assert_nothing_pending();
}

/* P66: the numbers arrive after or before the operations start */
TEST_LOOP(more_operations_than_a_ring_holds_can_start_in_one_tick, 2)
{
    open_readers(OPS_PER_TICK);
    for (int round = 0; round < 2; round++) {
        if (_i == 0)
            spin_waiting_readers(OPS_PER_TICK);
        send_numbers(OPS_PER_TICK);
        if (_i == 1)
            spin_readers(OPS_PER_TICK);
        await_numbers(OPS_PER_TICK);
    }
}

static void cancel_readers(size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_cancel(readers[i].fiber), 0);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(weft_await(readers[i].fiber), -ECANCELED);
        ck_assert_int_eq(readers[i].n, -ECANCELED);
    }
    assert_nothing_pending();
}

/* P66, P63: a full ring does not drop a cancellation */
TEST(more_operations_than_a_ring_holds_can_be_cancelled_in_one_tick)
{
    open_readers(OPS_PER_TICK);
    for (int round = 0; round < 2; round++) {
        spin_waiting_readers(OPS_PER_TICK);
        if (round % 2 == 0)
            ck_assert_int_eq(weft_sleep(0), 0);
        cancel_readers(OPS_PER_TICK);
    }
    spin_waiting_readers(OPS_PER_TICK);
    send_numbers(OPS_PER_TICK);
    await_numbers(OPS_PER_TICK);
}

/* P66, P65 */
TEST_LOOP(more_descriptors_than_a_ring_holds_can_be_closed_in_one_tick, 2)
{
    open_readers(OPS_PER_TICK);
    spin_waiting_readers(OPS_PER_TICK);
    if (_i == 0)
        ck_assert_int_eq(weft_sleep(0), 0);
    close_readers(OPS_PER_TICK);
    for (size_t i = 0; i < OPS_PER_TICK; i++) {
        ck_assert_int_eq(weft_await(readers[i].fiber), 0);
        ck_assert_int_eq(readers[i].n, -EBADF);
    }
    assert_nothing_pending();
}

/* P66 */
TEST(many_readers_of_one_descriptor_get_one_message_each)
{
    int fd[2];
    bool is_seen[OPS_PER_TICK] = {false};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
    for (size_t i = 0; i < OPS_PER_TICK; i++)
        readers[i].fd = fd[0];
    spin_waiting_readers(OPS_PER_TICK);
    for (uint32_t i = 0; i < OPS_PER_TICK; i++)
        ck_assert_int_eq(weft_write(fd[1], &i, sizeof i), sizeof i);
    for (size_t i = 0; i < OPS_PER_TICK; i++) {
        ck_assert_int_eq(weft_await(readers[i].fiber), 0);
        ck_assert_int_eq(readers[i].n, sizeof(uint32_t));
        ck_assert_uint_lt(readers[i].got, OPS_PER_TICK);
        ck_assert(!is_seen[readers[i].got]);
        is_seen[readers[i].got] = true;
    }
}

/* P66: all operations are in the kernel before the numbers are sent */
TEST(ten_thousand_completions_at_once_lose_nothing)
{
    open_readers(readers_max());
    for (int round = 0; round < 2; round++) {
        spin_waiting_readers(readers_max());
        ck_assert_int_eq(weft_sleep(0), 0);
        ck_assert_uint_eq(ops_pending(), readers_max());
        send_numbers(readers_max());
        await_numbers(readers_max());
    }
}

/* P66: half of the fibers are cancelled after the data has arrived and before the backend polls */
TEST(ten_thousand_completions_race_with_as_many_cancellations)
{
    open_readers(readers_max());
    spin_waiting_readers(readers_max());
    ck_assert_int_eq(weft_sleep(0), 0);
    send_numbers(readers_max());
    for (size_t i = 0; i < readers_max(); i += 2)
        ck_assert_int_eq(weft_cancel(readers[i].fiber), 0);
    for (size_t i = 0; i < readers_max(); i++) {
        weft_value rc = weft_await(readers[i].fiber);
        if (i % 2 == 0) {
            ck_assert_int_eq(rc, -ECANCELED);
            if (readers[i].n == -ECANCELED)
                readers[i].n = weft_read(readers[i].fd, &readers[i].got, sizeof(uint32_t));
        }
        if (readers[i].n != sizeof(uint32_t) || readers[i].got != i + 7)
            ck_abort_msg("reader %zu: %zd bytes, %u", i, readers[i].n, readers[i].got);
    }
    assert_nothing_pending();
}

static bool is_done;

static weft_value snooze_until_done(void *arg)
{
    while (!is_done)
        weft_snooze();
    return 0;
}

TEST(completions_are_delivered_while_other_fibers_are_always_runnable)
{
    open_readers(100);
    for (int i = 0; i < 3; i++)
        weft_go(snooze_until_done, NULL);
    for (int round = 0; round < 20; round++) {
        spin_readers(100);
        while (ops_pending() < 100)
            weft_snooze();
        send_numbers(100);
        await_numbers(100);
    }
    is_done = true;
    ck_assert_int_eq(weft_await_children(), 0);
}

static weft_value read_endlessly(void *arg)
{
    char data[64];
    while (!is_done)
        if (weft_read((int)(intptr_t)arg, data, sizeof data) <= 0)
            return 1;
    return 0;
}

static weft_value write_endlessly(void *arg)
{
    static const char data[4096];
    while (!is_done)
        if (weft_write((int)(intptr_t)arg, data, sizeof data) <= 0)
            return 1;
    return 0;
}

/* Assert that snoozes, sleeps and reads of other fibers complete. */
static void assert_other_fibers_progress(void)
{
    open_readers(10);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_snooze(), 0);
    for (int i = 0; i < 5; i++) {
        spin_readers(10);
        ck_assert_int_eq(weft_sleep(0.0005), 0);
        send_numbers(10);
        for (size_t k = 0; k < 10; k++) {
            ck_assert_int_eq(weft_await(readers[k].fiber), 0);
            ck_assert_uint_eq(readers[k].got, k + 7);
        }
    }
}

TEST_LOOP(an_always_ready_file_or_a_constantly_refilled_pipe_does_not_starve_other_fibers, 2)
{
    int fd[2];
    if (_i == 0) {
        fd[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        fd[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    } else {
        ck_assert_int_eq(weft_pipe(fd), 0);
    }
    weft_fiber writer = weft_spin(write_endlessly, as_arg(fd[1]));
    weft_fiber reader = weft_spin(read_endlessly, as_arg(fd[0]));
    assert_other_fibers_progress();
    is_done = true;
    weft_cancel(reader); /* each may wait for its peer, which has ended */
    weft_cancel(writer);
    weft_await(reader);
    weft_await(writer);
}

static sem_t is_idle;
static sem_t is_counted;

static void post_idle(void *arg)
{
    sem_post(&is_idle);
}

static weft_value count_up(void *arg)
{
    unsigned *count = arg;
    while (weft_suspend() == 42) {
        ++*count;
        sem_post(&is_counted);
    }
    return 0;
}

/* Schedule the fiber each time the cord is about to wait. The value 0 ends the fiber. */
static void *schedule_often(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        sem_wait(&is_idle);
        weft_schedule(*(weft_fiber *)arg, 42);
        sem_wait(&is_counted);
    }
    weft_schedule(*(weft_fiber *)arg, 0);
    return NULL;
}

/* The cord also waits for descriptors in the same poll. */
TEST(a_cord_that_waits_for_descriptors_is_woken_by_another_thread)
{
    unsigned count = 0;
    open_readers(10);
    spin_waiting_readers(10);
    weft_fiber f = weft_spin(count_up, &count);
    let_run();
    sem_init(&is_idle, 0, 0);
    sem_init(&is_counted, 0, 0);
    weft_on_idle(post_idle, NULL);
    pthread_t thread = start_thread(schedule_often, &f);
    ck_assert_int_eq(weft_await(f), 0);
    weft_on_idle(NULL, NULL);
    join_thread(thread);
    ck_assert_uint_eq(count, 1000);
    send_numbers(10);
    await_numbers(10);
}
