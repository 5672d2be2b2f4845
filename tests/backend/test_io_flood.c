/* Much at once: operations, completions; who may not starve whom. */
#include "net_support.h"

#include <pthread.h>
#include <semaphore.h>

/* More than a ring of 1024 holds. */
#define TURN 1100

/* One of many who read a number that is sent to them. */
typedef struct guest {
    int fd;
    uint32_t got;
    ssize_t n;
    weft_fiber fiber;
} guest;

static guest guests[MANY_FIBERS];

/* Ten thousand, but for Valgrind, which goes through a list of all stacks at each switch. */
static size_t many(void)
{
    return RUNNING_ON_VALGRIND ? 2 * TURN : MANY_FIBERS;
}

static weft_value read_number(void *arg)
{
    guest *g = arg;
    g->n = weft_read(g->fd, &g->got, sizeof g->got);
    return 0;
}

static void spin_guests(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        guests[i].n = 1000;
        guests[i].fiber = weft_spin(read_number, &guests[i]);
        ck_assert_uint_ne(guests[i].fiber, 0);
    }
}

static void let_all_wait(size_t count)
{
    spin_guests(count);
    let_run();
    ck_assert_uint_eq(ops_pending(), count);
}

/* Both ends of each pair are a guest's; what one end is sent, the other one's guest wrote. */
static void open_guests(size_t count)
{
    ck_assert_uint_ge(raise_descriptor_limit(count + 64), count + 64);
    for (size_t i = 0; i < count; i += 2) {
        int fd[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd), 0);
        guests[i].fd = fd[0];
        guests[i + 1].fd = fd[1];
    }
}

static void close_guests(size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_close(guests[i].fd), 0);
}

/* Each guest is sent its own number, past weft. */
static void send_numbers(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)i + 7;
        if (write(guests[i ^ 1].fd, &number, sizeof number) != sizeof number)
            ck_abort_msg("number %zu cannot be sent", i);
    }
}

static void await_numbers(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_value rc = weft_await(guests[i].fiber);
        if (rc != 0 || guests[i].n != sizeof(uint32_t) || guests[i].got != i + 7)
            ck_abort_msg("guest %zu: %ld, %zd bytes, %u", i, (long)rc, guests[i].n, guests[i].got);
    }
    assert_nothing_pending();
}

/* P66 */
START_TEST(more_operations_than_a_ring_holds_are_begun_in_one_turn)
{
    open_guests(TURN);
    for (int round = 0; round < 3; round++) {
        let_all_wait(TURN);
        send_numbers(TURN);
        await_numbers(TURN);
    }
    close_guests(TURN);
}
END_TEST

/* P66: the numbers are there before the operations are */
START_TEST(more_operations_than_a_ring_holds_that_need_not_wait_are_begun_in_one_turn)
{
    open_guests(TURN);
    for (int round = 0; round < 3; round++) {
        send_numbers(TURN);
        spin_guests(TURN);
        await_numbers(TURN);
    }
    close_guests(TURN);
}
END_TEST

static void cancel_all(size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_cancel(guests[i].fiber), 0);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(weft_await(guests[i].fiber), -ECANCELED);
        ck_assert_int_eq(guests[i].n, -ECANCELED);
    }
    assert_nothing_pending();
}

/* P66, P63: a cancel is not dropped because there is no room for it */
START_TEST(more_operations_than_a_ring_holds_are_cancelled_in_one_turn)
{
    open_guests(TURN);
    for (int round = 0; round < 4; round++) {
        let_all_wait(TURN);
        if (round % 2 == 0)
            ck_assert_int_eq(weft_sleep(0), 0);
        cancel_all(TURN);
    }
    let_all_wait(TURN);
    send_numbers(TURN);
    await_numbers(TURN);
    close_guests(TURN);
}
END_TEST

/* P66, P65 */
START_TEST(more_descriptors_than_a_ring_holds_are_closed_in_one_turn)
{
    for (int round = 0; round < 2; round++) {
        open_guests(TURN);
        let_all_wait(TURN);
        if (round == 0)
            ck_assert_int_eq(weft_sleep(0), 0);
        close_guests(TURN);
        for (size_t i = 0; i < TURN; i++) {
            ck_assert_int_eq(weft_await(guests[i].fiber), 0);
            ck_assert_int_eq(guests[i].n, -EBADF);
        }
        assert_nothing_pending();
    }
}
END_TEST

/* P66: all of them on one descriptor */
START_TEST(many_who_wait_on_one_descriptor_get_one_message_each)
{
    int fd[2];
    bool is_seen[TURN] = {false};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
    for (size_t i = 0; i < TURN; i++)
        guests[i].fd = fd[0];
    let_all_wait(TURN);
    for (uint32_t i = 0; i < TURN; i++)
        ck_assert_int_eq(weft_write(fd[1], &i, sizeof i), sizeof i);
    for (size_t i = 0; i < TURN; i++) {
        ck_assert_int_eq(weft_await(guests[i].fiber), 0);
        ck_assert_int_eq(guests[i].n, sizeof(uint32_t));
        ck_assert_uint_lt(guests[i].got, TURN);
        ck_assert(!is_seen[guests[i].got]);
        is_seen[guests[i].got] = true;
    }
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}
END_TEST

/* P66: the kernel has them all by then, and answers in one go */
START_TEST(ten_thousand_completions_at_once_lose_nothing)
{
    open_guests(many());
    for (int round = 0; round < 2; round++) {
        let_all_wait(many());
        ck_assert_int_eq(weft_sleep(0), 0);
        ck_assert_uint_eq(ops_pending(), many());
        send_numbers(many());
        await_numbers(many());
    }
    close_guests(many());
}
END_TEST

/* P66: half of them is cancelled when the data is there already, nobody having looked */
START_TEST(ten_thousand_completions_race_as_many_cancels)
{
    open_guests(many());
    let_all_wait(many());
    ck_assert_int_eq(weft_sleep(0), 0);
    send_numbers(many());
    for (size_t i = 0; i < many(); i += 2)
        ck_assert_int_eq(weft_cancel(guests[i].fiber), 0);
    for (size_t i = 0; i < many(); i++) {
        weft_value rc = weft_await(guests[i].fiber);
        if (i % 2 == 0) {
            ck_assert_int_eq(rc, -ECANCELED);
            if (guests[i].n == -ECANCELED)
                guests[i].n = weft_read(guests[i].fd, &guests[i].got, sizeof(uint32_t));
        }
        if (guests[i].n != sizeof(uint32_t) || guests[i].got != i + 7)
            ck_abort_msg("guest %zu: %zd bytes, %u", i, guests[i].n, guests[i].got);
    }
    assert_nothing_pending();
    close_guests(many());
}
END_TEST

static bool is_done;

static weft_value compute(void *arg)
{
    (void)arg;
    while (!is_done)
        weft_snooze();
    return 0;
}

/* A fiber that computes cannot starve completions. */
START_TEST(completions_come_also_while_others_are_always_runnable)
{
    open_guests(100);
    for (int i = 0; i < 3; i++)
        weft_go(compute, NULL);
    for (int round = 0; round < 20; round++) {
        spin_guests(100);
        while (ops_pending() < 100)
            weft_snooze();
        send_numbers(100);
        await_numbers(100);
    }
    is_done = true;
    ck_assert_int_eq(weft_await_children(), 0);
    close_guests(100);
}
END_TEST

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

/* Runs, sleeps and reads beside it, all of which must come to an end. */
static void assert_the_others_go_on(void)
{
    open_guests(10);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_snooze(), 0);
    for (int i = 0; i < 5; i++) {
        spin_guests(10);
        ck_assert_int_eq(weft_sleep(0.0005), 0);
        send_numbers(10);
        for (size_t k = 0; k < 10; k++) {
            ck_assert_int_eq(weft_await(guests[k].fiber), 0);
            ck_assert_uint_eq(guests[k].got, k + 7);
        }
    }
    close_guests(10);
}

/* A descriptor flood cannot starve runnable fibers, timers, or other descriptors. */
START_TEST(a_file_that_is_always_ready_starves_nobody)
{
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_WRONLY);
    weft_go(read_endlessly, as_arg(zero));
    weft_go(write_endlessly, as_arg(null));
    assert_the_others_go_on();
    is_done = true;
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(zero), 0);
    ck_assert_int_eq(weft_close(null), 0);
}
END_TEST

START_TEST(a_pipe_that_is_always_filled_again_starves_nobody)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber writer = weft_spin(write_endlessly, as_arg(fd[1]));
    weft_fiber reader = weft_spin(read_endlessly, as_arg(fd[0]));
    assert_the_others_go_on();
    is_done = true;
    weft_cancel(reader); /* each may wait for the other, who has ended */
    weft_cancel(writer);
    weft_await(reader);
    weft_await(writer);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}
END_TEST

static sem_t is_idle;
static sem_t is_counted;

static void tell_idle(void *arg)
{
    (void)arg;
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

/* Schedules each time the cord is about to wait; the last value ends the fiber. */
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

/* A cord blocked in its poll is woken from another thread, whatever else it waits for. */
START_TEST(a_cord_that_waits_for_descriptors_is_woken_by_another_thread)
{
    unsigned count = 0;
    pthread_t thread;
    open_guests(10);
    let_all_wait(10);
    weft_fiber f = weft_spin(count_up, &count);
    let_run();
    sem_init(&is_idle, 0, 0);
    sem_init(&is_counted, 0, 0);
    weft_on_idle(tell_idle, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, schedule_often, &f), 0);
    ck_assert_int_eq(weft_await(f), 0);
    weft_on_idle(NULL, NULL);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(count, 1000);
    send_numbers(10);
    await_numbers(10);
    close_guests(10);
}
END_TEST

static const TTest *const *const tests[] = {
    &more_operations_than_a_ring_holds_are_begun_in_one_turn,
    &more_operations_than_a_ring_holds_that_need_not_wait_are_begun_in_one_turn,
    &more_operations_than_a_ring_holds_are_cancelled_in_one_turn,
    &more_descriptors_than_a_ring_holds_are_closed_in_one_turn,
    &many_who_wait_on_one_descriptor_get_one_message_each,
    &ten_thousand_completions_at_once_lose_nothing,
    &ten_thousand_completions_race_as_many_cancels,
    &completions_come_also_while_others_are_always_runnable,
    &a_file_that_is_always_ready_starves_nobody,
    &a_pipe_that_is_always_filled_again_starves_nobody,
    &a_cord_that_waits_for_descriptors_is_woken_by_another_thread,
};

int main(void)
{
    return run_suite("flood", tests, COUNT_OF(tests));
}
