/*
 * The properties of I/O: fibers read, write, accept and connect while deadlines, cancellations,
 * interrupts and raised errors end their calls at random times. The result of each call must match
 * its effect. Each byte, record and connection arrives once. A byte stream arrives in order. A call
 * that was interrupted moves no bytes and writes to no buffer.
 */
#include "support/net_support.h"
#include "support/property.h"

#define INTERRUPTED (-EBADE) /* no call returns this code by itself */
#define RAISED (-EPROTO)
#define UNTOUCHED 0xA5
#define RECORD_BYTES 64
#define NUMBERS_MAX (1 << 18) /* of records or connections */
#define SIDE 3                /* fibers with the same role on one descriptor */

typedef enum role { READER, WRITER, ACCEPTOR, CONNECTOR, ROLES } role;

/* The number of interrupted calls, by role and cause: cancel or deadline, interrupt, raise. */
static unsigned interrupts[ROLES][3];

/* A descriptor to read from and one to write to, or a listener. */
typedef struct stream {
    int fd[2];
    unsigned calls;   /* number of kinds of calls that the descriptors support */
    bool has_records; /* each call moves one record, so that several fibers may share the stream */
    bool is_fast;     /* the writers are faster than the readers; of a listener: the acceptors */
    bool is_closed;
    size_t sent, got;    /* bytes, as reported by the calls */
    unsigned next[SIDE]; /* the next record of each writer; writer i sends i, i + SIDE ... */
} stream;

/* A fiber with a role. A new fiber replaces one that was cancelled. */
struct actor {
    role role;
    void (*step)(actor *me);
    stream *stream;
    unsigned index;
    bool is_over;
    bool is_interrupted; /* weft_interrupt has ended the current call */
    bool is_exchanging;  /* must not be interrupted, because a shield does not defer interrupts */
    weft_fiber id, respawner;
};

static actor actors[8];
static size_t actors_count;
static unsigned char made[NUMBERS_MAX]; /* by number: 1 if the connect succeeded */
static unsigned char seen[NUMBERS_MAX]; /* by number: how often the record or connection arrived */

static void count_interrupt(const actor *me, weft_value result)
{
    static const int causes[] = {-ECANCELED, INTERRUPTED, RAISED};
    REQUIRE(result != INTERRUPTED || me->is_interrupted);
    for (size_t i = 0; i < COUNT_OF(causes); i++) {
        if (result != causes[i])
            continue;
        interrupts[me->role][i]++;
        return;
    }
    ck_abort_msg("a call of role %d returned %ld", (int)me->role, (long)result);
}

/* True after the wanted number of interrupts, with at least 5 % of each cause. */
static bool has_enough(role r, unsigned wanted)
{
    const unsigned *by = interrupts[r];
    return by[0] >= wanted / 20 && by[1] >= wanted / 20 && by[2] >= wanted / 20 &&
           by[0] + by[1] + by[2] >= wanted;
}

/* Snooze, sleep briefly, or do nothing. */
static void random_pause(void)
{
    unsigned how = random_below(4);
    if (how == 0)
        weft_snooze();
    else if (how == 1)
        weft_sleep(random_below(100) * 1e-6);
}

static void pause_actor(const actor *me)
{
    if (me->role == ACCEPTOR && !me->stream->is_fast)
        weft_sleep(random_below(500) * 1e-6);
    else if (me->role == CONNECTOR || (me->role == READER) == me->stream->is_fast)
        random_pause();
}

static weft_value act_until_cancelled(void *arg)
{
    actor *me = arg;
    while (!me->is_over && !weft_is_cancelled()) {
        WEFT_MOVE_ON_AFTER(random_below(2) == 0 ? INFINITY : random_below(150) * 1e-6) {
            me->is_interrupted = false;
            me->step(me);
        }
        pause_actor(me);
    }
    return 0;
}

static weft_value respawn(void *arg)
{
    actor *me = arg;
    while (!me->is_over) {
        me->id = weft_spin(act_until_cancelled, me);
        weft_await(me->id);
    }
    return 0;
}

static void start_actor(role r, void (*step)(actor *), stream *s, unsigned index)
{
    actor *a = &actors[actors_count++];
    *a = (actor){.role = r, .step = step, .stream = s, .index = index};
    REQUIRE((a->respawner = weft_spin(respawn, a)) != 0);
}

static void end_actors(role r, bool is_stopped)
{
    for (size_t i = 0; i < actors_count; i++)
        actors[i].is_over |= is_stopped && actors[i].role == r;
    for (size_t i = 0; i < actors_count; i++) {
        if (actors[i].role != r)
            continue;
        if (is_stopped && !actors[i].is_exchanging)
            weft_cancel(actors[i].id);
        REQUIRE(weft_await(actors[i].respawner) == 0);
    }
}

/* Actions on an actor. Fibers that have ended are not affected. */

static void storm_cancel(actor *target)
{
    weft_cancel(target->id);
}

static void storm_interrupt(actor *target)
{
    if (!target->is_exchanging && weft_interrupt(target->id, INTERRUPTED) == 0)
        target->is_interrupted = true;
}

static void storm_raise(actor *target)
{
    weft_raise(target->id, RAISED, "raised");
}

/* Twice in one tick. */
static void storm_twice(actor *target)
{
    storm_interrupt(target);
    (random_below(2) == 0 ? storm_cancel : storm_raise)(target);
}

static void storm_speed(actor *target)
{
    if (target->role <= WRITER)
        target->stream->is_fast = !target->stream->is_fast;
}

static const action storms[] = {
    ACTION(storm_cancel, 16), ACTION(storm_interrupt, 16), ACTION(storm_raise, 16),
    ACTION(storm_twice, 16),  ACTION(storm_speed, 1),
};

static void storm_once(void)
{
    unsigned i = random_below((unsigned)actors_count);
    do_random_action(&actors[i], i, storms, COUNT_OF(storms));
    random_pause();
}

/* Streams. Arrays of buffers are split at a random offset. Pipes support the first two calls. */
static ssize_t transfer(const stream *s, bool is_send, void *data, size_t bytes)
{
    size_t cut = random_below((unsigned)bytes + 1);
    struct iovec pieces[2] = {{data, cut}, {(char *)data + cut, bytes - cut}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    int fd = s->fd[is_send];
    switch (random_below(s->calls)) {
    case 0:
        return is_send ? weft_write(fd, data, bytes) : weft_read(fd, data, bytes);
    case 1:
        return (is_send ? weft_writev : weft_readv)(fd, pieces, 2);
    case 2:
        return is_send ? weft_send(fd, data, bytes, 0) : weft_recv(fd, data, bytes, 0);
    default:
        return is_send ? weft_sendmsg(fd, &message, 0) : weft_recvmsg(fd, &message, 0);
    }
}

/* A record consists of copies of its number. */
static void take_record(const unsigned char *data)
{
    uint32_t record[RECORD_BYTES / sizeof(uint32_t)];
    memcpy(record, data, sizeof record);
    for (size_t i = 0; i < COUNT_OF(record); i++)
        REQUIRE(record[i] == record[0] && record[0] < NUMBERS_MAX);
    seen[record[0]]++;
}

static void read_once(actor *me)
{
    stream *s = me->stream;
    unsigned char data[2048];
    size_t bytes = s->has_records ? RECORD_BYTES : 1 + random_below(s->is_fast ? 256 : sizeof data);
    memset(data, UNTOUCHED, sizeof data);
    ssize_t n = transfer(s, false, data, bytes);
    if (n == 0) {
        REQUIRE(s->is_closed);
        me->is_over = true;
    } else if (n < 0 || n > (ssize_t)bytes) {
        count_interrupt(me, n);
        n = 0;
    }
    assert_all(data + n, sizeof data - (size_t)n, UNTOUCHED);
    REQUIRE(!s->has_records || n == 0 || n == RECORD_BYTES);
    if (s->has_records && n > 0)
        take_record(data);
    else
        assert_bytes_at(data, (size_t)n, s->got);
    s->got += (size_t)n;
}

static void write_once(actor *me)
{
    stream *s = me->stream;
    unsigned char data[8192];
    size_t bytes = s->has_records ? RECORD_BYTES : 1 + random_below(s->is_fast ? sizeof data : 8);
    fill_from(data, bytes, s->sent);
    for (size_t i = 0; s->has_records && i < bytes; i += sizeof(uint32_t))
        memcpy(data + i, &s->next[me->index], sizeof(uint32_t));
    ssize_t n = transfer(s, true, data, bytes);
    if (n <= 0 || n > (ssize_t)bytes) {
        count_interrupt(me, n);
        return;
    }
    REQUIRE(!s->has_records || n == RECORD_BYTES);
    s->sent += (size_t)n;
    s->next[me->index] += SIDE;
    REQUIRE(s->next[me->index] < NUMBERS_MAX);
}

/* Set the smallest buffer, so that writers wait too. */
static void make_narrow(const stream *s, bool is_socket)
{
    int small = 1;
    if (is_socket)
        REQUIRE(setsockopt(s->fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    else
        REQUIRE(fcntl(s->fd[1], F_SETPIPE_SZ, 4096) >= 4096);
}

static void make_nonblocking(const stream *s)
{
    for (int i = 0; i < 2; i++)
        REQUIRE(fcntl(s->fd[i], F_SETFL, fcntl(s->fd[i], F_GETFL) | O_NONBLOCK) == 0);
}

enum { PIPE, SOCKET, TCP, PIPE_RECORDS, PACKETS };

static void open_storm_stream(stream *s, int kind)
{
    bool is_socket = kind != PIPE && kind != PIPE_RECORDS;
    s->calls = is_socket ? 4 : 2;
    s->has_records = kind >= PIPE_RECORDS;
    for (unsigned i = 0; i < SIDE; i++)
        s->next[i] = i;
    if (kind == TCP)
        tcp_pair(s->fd);
    else if (kind == PACKETS) /* delivers a message as a whole or not at all */
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->fd) == 0);
    else
        REQUIRE((is_socket ? weft_socketpair : weft_pipe)(s->fd) == 0);
    if (!is_sim() && kind != TCP && kind != PACKETS)
        make_narrow(s, is_socket);
}

static void check_stream(const stream *s)
{
    REQUIRE(s->got > 0 && s->got == s->sent);
    for (unsigned i = 0; s->has_records && i < NUMBERS_MAX; i++)
        if (seen[i] != (i < s->next[i % SIDE]))
            ck_abort_msg("record %u arrived %u times", i, seen[i]);
}

static void start_stream(stream *s, int kind, bool is_nonblocking)
{
    open_storm_stream(s, kind);
    /* Non-blocking descriptors must give the same results as blocking ones. */
    if (is_nonblocking && !is_sim())
        make_nonblocking(s);
    for (unsigned i = 0; i < (s->has_records ? SIDE : 1); i++) {
        start_actor(READER, read_once, s, i);
        start_actor(WRITER, write_once, s, i);
    }
}

/* Four streams with a reader and a writer each, or one stream of records with three of each. */
static void run_streams(int kind)
{
    stream streams[4] = {0};
    size_t n = kind >= PIPE_RECORDS ? 1 : COUNT_OF(streams);
    for (size_t i = 0; i < n; i++) {
        streams[i].is_fast = i % 2 == 0;
        start_stream(&streams[i], kind, i >= 2);
    }
    while (!has_enough(READER, 600) || !has_enough(WRITER, 100))
        storm_once();
    end_actors(WRITER, true);
    for (size_t i = 0; i < n; i++) {
        streams[i].is_closed = true;
        REQUIRE(weft_close(streams[i].fd[1]) == 0);
    }
    end_actors(READER, false);
    for (size_t i = 0; i < n; i++) {
        REQUIRE(weft_close(streams[i].fd[0]) == 0);
        check_stream(&streams[i]);
    }
}

/* Connections. Each sends its number. */

static endpoint listening_at;
static unsigned connections;
static unsigned anonymous; /* accepted without a number, because the connect was interrupted */

/* Read the number of the connection, send it back, and wait until the peer closes. */
static weft_value echo_number(void *arg)
{
    int fd = (int)(intptr_t)arg;
    uint32_t number;
    ssize_t n = weft_read_full(fd, &number, sizeof number);
    if (n == sizeof number) {
        seen[number]++;
        REQUIRE(weft_write_all(fd, &number, sizeof number) == sizeof number);
        n = weft_read(fd, &number, sizeof number);
    } else {
        anonymous++;
    }
    REQUIRE(n == 0 || n == -ECONNRESET);
    REQUIRE(weft_close(fd) == 0);
    return 0;
}

static weft_fiber echo_parent; /* not an acceptor, which may be cancelled */

static weft_value await_echoes(void *arg)
{
    (void)arg;
    REQUIRE(weft_suspend() == 0);
    return weft_await_children();
}

static void spin_echo(int fd)
{
    weft_spin_options options = {.parent = echo_parent};
    REQUIRE(weft_spin_with(echo_number, as_arg(fd), &options) != 0);
}

static void accept_once(actor *me)
{
    int fd = weft_accept(me->stream->fd[0], NULL, NULL);
    if (fd < 0)
        count_interrupt(me, fd);
    else
        spin_echo(fd);
}

/* Send the number and wait for the reply. The shield defers cancellation until then. */
static void exchange_number(actor *me, int fd, uint32_t number)
{
    uint32_t reply = ~number;
    made[number] = 1;
    me->is_exchanging = true;
    WEFT_SHIELD(INFINITY) {
        REQUIRE(weft_write_all(fd, &number, sizeof number) == sizeof number);
        REQUIRE(weft_read_full(fd, &reply, sizeof reply) == sizeof reply);
    }
    me->is_exchanging = false;
    REQUIRE(reply == number);
}

static void connect_once(actor *me)
{
    uint32_t number = connections++;
    REQUIRE(number < NUMBERS_MAX);
    int fd = socket_for(&listening_at);
    int rc = weft_connect(fd, &listening_at.u.any, listening_at.bytes);
    if (rc == 0)
        exchange_number(me, fd, number);
    else
        count_interrupt(me, rc);
    REQUIRE(weft_close(fd) == 0);
}

/* Accept the remaining connections of interrupted connects. */
static void drain_listener(int listener)
{
    int fd;
    REQUIRE(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        spin_echo(fd);
    REQUIRE(weft_schedule(echo_parent, 0) == 0 && weft_await(echo_parent) == 0);
    REQUIRE(weft_close(listener) == 0);
}

/* A full TCP backlog would drop connects, and the kernel would retry after 1 s. */
static void run_connections(int is_backlog_full)
{
    stream s = {.is_fast = !is_backlog_full};
    s.fd[0] = is_backlog_full ? listen_unix(&listening_at, 0) : listen_tcp(&listening_at, 4096);
    echo_parent = weft_spin(await_echoes, NULL);
    for (unsigned i = 0; i < SIDE; i++) {
        start_actor(ACCEPTOR, accept_once, &s, i);
        start_actor(CONNECTOR, connect_once, &s, i);
    }
    while (!has_enough(ACCEPTOR, 200) || (is_backlog_full && interrupts[CONNECTOR][0] < 20))
        storm_once();
    end_actors(CONNECTOR, true);
    end_actors(ACCEPTOR, true);
    drain_listener(s.fd[0]);
    unsigned total = 0;
    for (unsigned i = 0; i < connections; i++) {
        total += made[i];
        if (seen[i] != made[i])
            ck_abort_msg("connection %u was accepted %u times", i, seen[i]);
    }
    REQUIRE(total >= 50 && total + anonymous <= connections);
}

/* P61, P63, T96, T97 */
static const property properties[] = {
    {"no_byte_of_a_pipe_is_lost_or_duplicated_when_calls_are_interrupted", run_streams,
     .variant = PIPE, .seeds = 1, .sim_seeds = 4},
    {"no_byte_of_a_socket_is_lost_or_duplicated_when_calls_are_interrupted", run_streams,
     .variant = SOCKET, .seeds = 1, .sim_seeds = 4},
    {"every_record_reaches_one_of_several_readers_when_calls_are_interrupted", run_streams,
     .variant = PIPE_RECORDS, .seeds = 1, .sim_seeds = 4},
    {"no_byte_of_a_connection_is_lost_or_duplicated_when_calls_are_interrupted", run_streams,
     .variant = TCP, .seeds = 1, .needs_kernel = true},
    {"every_message_reaches_one_of_several_receivers_when_calls_are_interrupted", run_streams,
     .variant = PACKETS, .seeds = 1, .needs_kernel = true},
    {"every_connection_is_accepted_once_when_accepts_and_connects_are_interrupted", run_connections,
     .variant = false, .seeds = 1, .needs_kernel = true},
    {"interrupted_connects_to_a_full_backlog_happen_once_or_not_at_all", run_connections,
     .variant = true, .seeds = 1, .needs_kernel = true},
};

int main(void)
{
    return run_properties("storm", properties, COUNT_OF(properties), NULL, 0);
}
