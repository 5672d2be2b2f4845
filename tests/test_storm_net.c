/* Storms over what only the kernel has: connections, messages, listeners; see storm.h. */
#include "storm.h"

/* P61, P63 */
START_TEST(no_byte_of_a_connection_is_lost_or_doubled_however_its_calls_are_cut_short)
{
    flow flows[4] = {0};
    warm_up();
    size_t descriptors = count_descriptors();
    for (unsigned i = 0; i < COUNT_OF(flows); i++) {
        tcp_pair(flows[i].fd);
        flows[i].calls = calls_for(true);
        flows[i].is_gushing = i % 2 == 0;
    }
    storm_flows(flows, COUNT_OF(flows));
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

/* T97: a message of such a socket is taken whole or not at all */
START_TEST(every_message_reaches_one_of_several_receivers_however_they_are_cut_short)
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
#define SIDES 3 /* acceptors, and as many who connect */

/* A listener in a storm. Every connection says its number. */
typedef struct harbour {
    place at;
    int listener;
    unsigned next;                       /* the number of the next connection */
    unsigned char made[CONNECTIONS_MAX]; /* by number: its connect has succeeded */
    unsigned char seen[CONNECTIONS_MAX]; /* times it was accepted */
    unsigned anonymous;                  /* accepted, but given up by the one who connected */
    bool is_slow;                        /* acceptors take their time: connects are to wait */
    bool is_full;                        /* nobody connects any more */
    bool is_over;                        /* nobody accepts any more */
    cuts accept_cuts;
    cuts connect_cuts;
    weft_fiber acceptors[SIDES];
    weft_fiber connectors[SIDES];
} harbour;

static harbour port;

/* Reads the connection's number, answers with it, and sees the other side close. */
static weft_value serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    uint32_t number;
    ssize_t n = weft_read_full(fd, &number, sizeof number);
    if (n == sizeof number) {
        port.seen[number]++;
        ck_assert_int_eq(weft_write_all(fd, &number, sizeof number), sizeof number);
        n = weft_read(fd, &number, sizeof number);
    } else {
        port.anonymous++;
    }
    ck_assert(n == 0 || n == -ECONNRESET);
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

static void accept_once(void)
{
    int fd = weft_accept(port.listener, NULL, NULL);
    if (fd < 0) {
        note_cut(&port.accept_cuts, fd);
        return;
    }
    /* Not the child of one who is about to be cancelled. */
    weft_spin_options options = {.parent = weft_main()};
    ck_assert_uint_ne(weft_spin_with(serve, as_arg(fd), &options), 0);
}

static weft_value accept_on(void *arg)
{
    (void)arg;
    while (!port.is_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(patience()) {
            accept_once();
        }
        if (port.is_slow)
            weft_sleep(random_below(500) * 1e-6);
    }
    return 0;
}

/* What connected is talked over to the end, whatever strikes. */
static void talk(int fd, uint32_t number)
{
    uint32_t answer = ~number;
    port.made[number] = 1;
    WEFT_SHIELD(INFINITY) {
        ck_assert_int_eq(weft_write_all(fd, &number, sizeof number), sizeof number);
        ck_assert_int_eq(weft_read_full(fd, &answer, sizeof answer), sizeof answer);
    }
    ck_assert_uint_eq(answer, number);
}

static weft_value connect_on(void *arg)
{
    (void)arg;
    while (!port.is_full && !weft_is_cancelled()) {
        ck_assert_uint_lt(port.next, CONNECTIONS_MAX);
        uint32_t number = port.next++;
        int fd = socket_for(&port.at);
        WEFT_MOVE_ON_AFTER(patience()) {
            int rc = weft_connect(fd, &port.at.u.any, port.at.bytes);
            if (rc == 0)
                talk(fd, number);
            else
                note_cut(&port.connect_cuts, rc);
        }
        ck_assert_int_eq(weft_close(fd), 0);
        rest();
    }
    return 0;
}

static weft_value keep_accepting(void *arg)
{
    weft_fiber *slot = arg;
    while (!port.is_over) {
        *slot = weft_spin(accept_on, NULL);
        weft_await(*slot);
    }
    return 0;
}

static weft_value keep_connecting(void *arg)
{
    weft_fiber *slot = arg;
    while (!port.is_full) {
        *slot = weft_spin(connect_on, NULL);
        weft_await(*slot);
    }
    return 0;
}

/* A talk is shielded from all but an interrupt, which it is not made for. */
static void strike_but_not_talk(weft_fiber victim)
{
    weft_info info;
    bool is_talking = weft_info_of(victim, &info) == 0 && strcmp(info.waits_for, "connect") != 0;
    if (!is_talking)
        strike(victim);
    else if (random_below(2) == 0)
        weft_cancel(victim);
    else
        weft_raise(victim, RAISED, "struck");
}

/* Take what nobody took: the connections of those who gave up. */
static void drain(void)
{
    int fd;
    ck_assert_int_eq(fcntl(port.listener, F_SETFL, O_NONBLOCK), 0);
    while ((fd = accept4(port.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        weft_go(serve, as_arg(fd));
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(port.listener), 0);
}

static bool port_was_struck(void)
{
    bool is_enough = !port.is_slow || port.connect_cuts.by_cancel >= 20;
    return is_enough && has_struck(&port.accept_cuts, 500);
}

static void strike_at_random(void)
{
    while (!port_was_struck()) {
        unsigned index = random_below(SIDES);
        rest();
        if (random_below(2) == 0)
            strike(port.acceptors[index]);
        else
            strike_but_not_talk(port.connectors[index]);
    }
}

/* The port is open; it is closed afterwards. */
static void storm_port(void)
{
    weft_fiber acceptors[SIDES], connectors[SIDES];
    for (unsigned i = 0; i < SIDES; i++) {
        acceptors[i] = weft_spin(keep_accepting, &port.acceptors[i]);
        connectors[i] = weft_spin(keep_connecting, &port.connectors[i]);
    }
    strike_at_random();
    port.is_full = true;
    for (unsigned i = 0; i < SIDES; i++)
        ck_assert_int_eq(weft_await(connectors[i]), 0);
    port.is_over = true;
    for (unsigned i = 0; i < SIDES; i++) {
        weft_cancel(port.acceptors[i]);
        ck_assert_int_eq(weft_await(acceptors[i]), 0);
    }
    drain();
}

static void assert_all_were_served(void)
{
    unsigned made = 0;
    for (unsigned i = 0; i < port.next; i++) {
        made += port.made[i];
        if (port.seen[i] != port.made[i])
            ck_abort_msg("connection %u was accepted %u times", i, port.seen[i]);
    }
    ck_assert_uint_ge(made, 100);
    ck_assert_uint_le(made + port.anonymous, port.next);
}

/* P63: an accepted connection is never lost, nor one that never was */
START_TEST(every_connection_is_accepted_once_however_accepts_and_connects_are_cut_short)
{
    warm_up();
    size_t descriptors = count_descriptors();
    port.listener = listen_tcp(&port.at, 4096); /* a full one drops what comes for a second */
    storm_port();
    assert_all_were_served();
    assert_nothing_pending();
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

/* P63: here connects wait, for there is no room */
START_TEST(connects_to_a_full_backlog_are_made_once_or_not_at_all_however_they_are_cut_short)
{
    warm_up();
    size_t descriptors = count_descriptors();
    port.listener = listen_unix(&port.at, 0);
    port.is_slow = true;
    storm_port();
    assert_all_were_served();
    assert_nothing_pending();
    ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

static const TTest *const *const tests[] = {
    &no_byte_of_a_connection_is_lost_or_doubled_however_its_calls_are_cut_short,
    &every_message_reaches_one_of_several_receivers_however_they_are_cut_short,
    &every_connection_is_accepted_once_however_accepts_and_connects_are_cut_short,
    &connects_to_a_full_backlog_are_made_once_or_not_at_all_however_they_are_cut_short,
};

int main(void)
{
    return run_suite("storm_net", tests, COUNT_OF(tests));
}
