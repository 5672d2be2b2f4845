/* Storms over TCP connections, message sockets and listeners of the kernel. See storm.h. */
#include "backend/storm.h"

/* P61, P63 */
START_TEST(no_byte_of_a_connection_is_lost_or_duplicated_when_calls_are_interrupted)
{
    flow flows[4] = {0};
    warm_up();
    size_t descriptors = count_descriptors();
    for (unsigned i = 0; i < COUNT_OF(flows); i++) {
        tcp_pair(flows[i].fd);
        flows[i].calls = calls_for(true);
        flows[i].is_writer_fast = i % 2 == 0;
    }
    storm_flows(flows, COUNT_OF(flows));
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

/* T97. SOCK_SEQPACKET delivers a message as a whole or not at all. */
START_TEST(every_message_reaches_one_of_several_receivers_when_calls_are_interrupted)
{
    static records all;
    warm_up();
    size_t descriptors = count_descriptors();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, all.fd), 0);
    all.calls = calls_for(true);
    storm_records(&all);
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

#define CONNECTIONS_MAX (1 << 20)
#define FIBERS_PER_ROLE 3 /* number of acceptors, and number of connectors */

/* A storm of accepts and connects on one listener. Each connection sends its number. */
typedef struct connection_storm {
    endpoint at;
    int listener;
    unsigned next;                       /* the number of the next connection */
    unsigned char made[CONNECTIONS_MAX]; /* by number: 1 after a successful connect */
    unsigned char seen[CONNECTIONS_MAX]; /* by number: how often it was accepted */
    /* accepted connections without a number, because the connect was interrupted */
    unsigned anonymous;
    bool is_slow;           /* acceptors pause, so that connects wait */
    bool are_connects_over; /* the connectors stop */
    bool are_accepts_over;  /* the acceptors stop */
    interrupt_counts accept_interrupts;
    interrupt_counts connect_interrupts;
    weft_fiber acceptors[FIBERS_PER_ROLE];
    weft_fiber connectors[FIBERS_PER_ROLE];
} connection_storm;

static connection_storm storm;

/* Read the number of the connection, send it back, and wait until the peer closes. */
static weft_value echo_number(void *arg)
{
    int fd = (int)(intptr_t)arg;
    uint32_t number;
    ssize_t n = weft_read_full(fd, &number, sizeof number);
    if (n == sizeof number) {
        storm.seen[number]++;
        ck_assert_int_eq(weft_write_all(fd, &number, sizeof number), sizeof number);
        n = weft_read(fd, &number, sizeof number);
    } else {
        storm.anonymous++;
    }
    ck_assert(n == 0 || n == -ECONNRESET);
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

static void accept_once(void)
{
    int fd = weft_accept(storm.listener, NULL, NULL);
    if (fd < 0) {
        count_interrupt(&storm.accept_interrupts, fd);
        return;
    }
    /* main is the parent, because the acceptor may be cancelled */
    weft_spin_options options = {.parent = weft_main()};
    ck_assert_uint_ne(weft_spin_with(echo_number, as_arg(fd), &options), 0);
}

static weft_value accept_until_cancelled(void *arg)
{
    (void)arg;
    while (!storm.are_accepts_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(random_timeout()) {
            accept_once();
        }
        if (storm.is_slow)
            weft_sleep(random_below(500) * 1e-6);
    }
    return 0;
}

/*
 * Send the number over a new connection and wait for the reply. The shield defers cancellation
 * until then.
 */
static void exchange_number(int fd, uint32_t number)
{
    uint32_t reply = ~number;
    storm.made[number] = 1;
    WEFT_SHIELD(INFINITY) {
        ck_assert_int_eq(weft_write_all(fd, &number, sizeof number), sizeof number);
        ck_assert_int_eq(weft_read_full(fd, &reply, sizeof reply), sizeof reply);
    }
    ck_assert_uint_eq(reply, number);
}

static weft_value connect_until_cancelled(void *arg)
{
    (void)arg;
    while (!storm.are_connects_over && !weft_is_cancelled()) {
        ck_assert_uint_lt(storm.next, CONNECTIONS_MAX);
        uint32_t number = storm.next++;
        int fd = socket_for(&storm.at);
        WEFT_MOVE_ON_AFTER(random_timeout()) {
            int rc = weft_connect(fd, &storm.at.u.any, storm.at.bytes);
            if (rc == 0)
                exchange_number(fd, number);
            else
                count_interrupt(&storm.connect_interrupts, rc);
        }
        ck_assert_int_eq(weft_close(fd), 0);
        random_pause();
    }
    return 0;
}

static weft_value respawn_acceptor(void *arg)
{
    weft_fiber *slot = arg;
    while (!storm.are_accepts_over) {
        *slot = weft_spin(accept_until_cancelled, NULL);
        weft_await(*slot);
    }
    return 0;
}

static weft_value respawn_connector(void *arg)
{
    weft_fiber *slot = arg;
    while (!storm.are_connects_over) {
        *slot = weft_spin(connect_until_cancelled, NULL);
        weft_await(*slot);
    }
    return 0;
}

/*
 * Interrupt a connector. Do not call weft_interrupt during the exchange, because a shield does not
 * defer it.
 */
static void interrupt_connector(weft_fiber target)
{
    weft_info info;
    bool is_exchanging = weft_info_of(target, &info) == 0 && strcmp(info.waits_for, "connect") != 0;
    if (!is_exchanging)
        interrupt_randomly(target);
    else if (random_below(2) == 0)
        weft_cancel(target);
    else
        weft_raise(target, RAISED, "raised");
}

/* Accept the remaining connections of interrupted connects. */
static void drain_listener(void)
{
    int fd;
    ck_assert_int_eq(fcntl(storm.listener, F_SETFL, O_NONBLOCK), 0);
    while ((fd = accept4(storm.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        weft_go(echo_number, as_arg(fd));
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(storm.listener), 0);
}

static bool has_enough_connection_interrupts(void)
{
    bool is_enough = !storm.is_slow || storm.connect_interrupts.by_cancel >= 20;
    return is_enough && has_enough_interrupts(&storm.accept_interrupts, 500);
}

static void interrupt_connections(void)
{
    while (!has_enough_connection_interrupts()) {
        unsigned index = random_below(FIBERS_PER_ROLE);
        random_pause();
        if (random_below(2) == 0)
            interrupt_randomly(storm.acceptors[index]);
        else
            interrupt_connector(storm.connectors[index]);
    }
}

/* Run a storm on the open listener, then close the listener. */
static void run_connection_storm(void)
{
    weft_fiber acceptors[FIBERS_PER_ROLE], connectors[FIBERS_PER_ROLE];
    for (unsigned i = 0; i < FIBERS_PER_ROLE; i++) {
        acceptors[i] = weft_spin(respawn_acceptor, &storm.acceptors[i]);
        connectors[i] = weft_spin(respawn_connector, &storm.connectors[i]);
    }
    interrupt_connections();
    storm.are_connects_over = true;
    for (unsigned i = 0; i < FIBERS_PER_ROLE; i++)
        ck_assert_int_eq(weft_await(connectors[i]), 0);
    storm.are_accepts_over = true;
    for (unsigned i = 0; i < FIBERS_PER_ROLE; i++) {
        weft_cancel(storm.acceptors[i]);
        ck_assert_int_eq(weft_await(acceptors[i]), 0);
    }
    drain_listener();
}

static void assert_all_accepted_once(void)
{
    unsigned made = 0;
    for (unsigned i = 0; i < storm.next; i++) {
        made += storm.made[i];
        if (storm.seen[i] != storm.made[i])
            ck_abort_msg("connection %u was accepted %u times", i, storm.seen[i]);
    }
    ck_assert_uint_ge(made, 100);
    ck_assert_uint_le(made + storm.anonymous, storm.next);
}

/* P63: each connection is accepted exactly once */
START_TEST(every_connection_is_accepted_once_when_accepts_and_connects_are_interrupted)
{
    warm_up();
    size_t descriptors = count_descriptors();
    /* a full backlog drops connects, and the kernel retries after 1 s */
    storm.listener = listen_tcp(&storm.at, 4096);
    run_connection_storm();
    assert_all_accepted_once();
    assert_nothing_pending();
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

/* P63: connects wait because the backlog is full */
START_TEST(interrupted_connects_to_a_full_backlog_happen_once_or_not_at_all)
{
    warm_up();
    size_t descriptors = count_descriptors();
    storm.listener = listen_unix(&storm.at, 0);
    storm.is_slow = true;
    run_connection_storm();
    assert_all_accepted_once();
    assert_nothing_pending();
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

static const TTest *const *const tests[] = {
    &no_byte_of_a_connection_is_lost_or_duplicated_when_calls_are_interrupted,
    &every_message_reaches_one_of_several_receivers_when_calls_are_interrupted,
    &every_connection_is_accepted_once_when_accepts_and_connects_are_interrupted,
    &interrupted_connects_to_a_full_backlog_happen_once_or_not_at_all,
};

int main(void)
{
    return run_suite("storm_net", tests, COUNT_OF(tests));
}
