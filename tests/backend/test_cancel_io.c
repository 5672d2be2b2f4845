/*
 * Tests of interrupted operations. A cancellation, a deadline, an interrupt or a raised error
 * arrives before the kernel has the operation, while it waits, or after it has completed.
 */
#include "support/net_support.h"
#include "support/suite.h"

#define UNTOUCHED 0xA5
#define INTERRUPT_VALUE (-EBADE)

/*
 * A reading fiber and its results. The value of a cancelled fiber does not show what its calls
 * returned.
 */
typedef struct reading {
    int fd;
    ssize_t n;
    int next; /* the result of the next call */
    unsigned char data[64];
} reading;

static weft_value read_then_snooze(void *arg)
{
    reading *r = arg;
    r->n = weft_read(r->fd, r->data, sizeof r->data);
    r->next = weft_snooze();
    return 0;
}

static weft_fiber spin_reader(reading *r, int fd)
{
    *r = (reading){.fd = fd, .n = 1000, .next = 1000};
    memset(r->data, UNTOUCHED, sizeof r->data);
    weft_fiber f = weft_spin(read_then_snooze, r);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

typedef void open_fn(int fd[2]);

static void open_pipe(int fd[2])
{
    ck_assert_int_eq(weft_pipe(fd), 0);
}

static void open_sockets(int fd[2])
{
    ck_assert_int_eq(weft_socketpair(fd), 0);
}

static open_fn *const opens[] = {open_pipe, open_sockets, tcp_pair};

static void close_fd_pair_and_check(const int fd[2])
{
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    assert_nothing_pending();
}

/* Submit operations to the kernel, and process completions. */
static void poll_once(void)
{
    ck_assert_int_eq(weft_sleep(0), 0);
}

/* Assert that the three bytes were read or are still readable, and that there is no other data. */
static void assert_delivered_or_readable(const reading *r)
{
    const unsigned char *data = r->data;
    unsigned char later[8];
    if (r->n == -ECANCELED) {
        assert_all(r->data, sizeof r->data, UNTOUCHED);
        ck_assert_int_eq(weft_read(r->fd, later, sizeof later), 3);
        data = later;
    } else {
        ck_assert_int_eq(r->n, 3);
    }
    ck_assert_mem_eq(data, "abc", 3);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_read(r->fd, later, sizeof later), -ECANCELED);
    }
}

/* P61: with the operation submitted or not, and with the data processed or not */
TEST(data_that_had_arrived_before_a_cancel_is_delivered_or_still_readable)
{
    for (size_t kind = 0; kind < COUNT_OF(opens); kind++) {
        int fd[2];
        opens[kind](fd);
        for (int i = 0; i < 1000; i++) {
            reading r;
            weft_fiber f = spin_reader(&r, fd[0]);
            if (i % 2 == 0)
                poll_once();
            ck_assert_int_eq(write(fd[1], "abc", 3), 3);
            if (i % 4 >= 2)
                poll_once();
            weft_cancel(f);
            weft_value rc = weft_await(f);
            ck_assert(rc == -ECANCELED || rc == 0); /* the fiber may have ended already */
            assert_delivered_or_readable(&r);
        }
        close_fd_pair_and_check(fd);
    }
}

/* P63: the operation has not been submitted to the kernel */
TEST(an_operation_can_be_cancelled_in_the_tick_in_which_it_started)
{
    for (size_t kind = 0; kind < COUNT_OF(opens); kind++) {
        int fd[2];
        opens[kind](fd);
        for (int i = 0; i < 100; i++) {
            reading r = {.fd = fd[0]};
            weft_fiber f = weft_new(read_then_snooze, &r);
            ck_assert_int_eq(weft_start(f), 0); /* returns when the fiber waits */
            ck_assert_int_eq(weft_cancel(f), 0);
            ck_assert_int_eq(weft_await(f), -ECANCELED);
            ck_assert_int_eq(r.n, -ECANCELED);
            ck_assert_int_eq(r.next, -ECANCELED);
        }
        assert_nothing_pending();
        reading r;
        weft_fiber f = spin_reader(&r, fd[0]);
        ck_assert_int_eq(write(fd[1], "abc", 3), 3);
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_int_eq(r.n, 3); /* the cancelled reads have consumed nothing */
        close_fd_pair_and_check(fd);
    }
}

/* P61: the call returns the completed result, and the cancellation stays pending */
TEST(a_cancellation_after_completion_interrupts_the_next_call)
{
    int fd[2];
    open_sockets(fd);
    for (int i = 0; i < 200; i++) {
        reading r;
        weft_fiber f = spin_reader(&r, fd[0]);
        weft_park(f); /* so that the fiber does not run when the data arrives */
        ck_assert_int_eq(write(fd[1], "abc", 3), 3);
        while (ops_pending() > 0)
            poll_once();
        weft_cancel(f);
        weft_unpark(f);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
        ck_assert_int_eq(r.n, 3);
        ck_assert_int_eq(r.next, -ECANCELED);
    }
    close_fd_pair_and_check(fd);
}

/* Descriptors on which all calls below wait. */
typedef struct wait_targets {
    int in[2];     /* an empty pipe */
    int spare[2];  /* another empty pipe */
    int out[2];    /* a full pipe */
    int socket[2]; /* socket[0] has no data to read and no room to write */
    size_t out_bytes;
    size_t socket_bytes;
    int listener; /* without connections */
    endpoint address;
    endpoint full_tcp; /* of a listener with a full backlog */
    endpoint full_unix;
    int full[2];
    int fillers[8];
    size_t filler_count;
} wait_targets;

static char buffer[64];

static weft_value call_read(wait_targets *s)
{
    return weft_read(s->in[0], buffer, sizeof buffer);
}

static weft_value call_write(wait_targets *s)
{
    return weft_write(s->out[1], buffer, sizeof buffer);
}

static weft_value call_readv(wait_targets *s)
{
    struct iovec pieces[2] = {{buffer, 8}, {buffer + 8, 8}};
    return weft_readv(s->in[0], pieces, 2);
}

static weft_value call_writev(wait_targets *s)
{
    struct iovec pieces[2] = {{buffer, 8}, {buffer + 8, 8}};
    return weft_writev(s->out[1], pieces, 2);
}

static weft_value call_writev_all(wait_targets *s)
{
    struct iovec pieces[2] = {{buffer, 8}, {buffer + 8, 8}};
    return weft_writev_all(s->out[1], pieces, 2);
}

static weft_value call_recv(wait_targets *s)
{
    return weft_recv(s->socket[0], buffer, sizeof buffer, 0);
}

static weft_value call_send(wait_targets *s)
{
    return weft_send(s->socket[0], buffer, sizeof buffer, 0);
}

static weft_value call_recvmsg(wait_targets *s)
{
    struct iovec piece = {buffer, sizeof buffer};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    return weft_recvmsg(s->socket[0], &message, 0);
}

static weft_value call_sendmsg(wait_targets *s)
{
    struct iovec piece = {buffer, sizeof buffer};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    return weft_sendmsg(s->socket[0], &message, 0);
}

static weft_value call_wait_in(wait_targets *s)
{
    return weft_wait_fd(s->in[0], POLLIN);
}

static weft_value call_wait_out(wait_targets *s)
{
    return weft_wait_fd(s->out[1], POLLOUT);
}

static weft_value call_accept(wait_targets *s)
{
    return weft_accept(s->listener, NULL, NULL);
}

static weft_value connect_to(const endpoint *p)
{
    int fd = socket_for(p);
    weft_value rc = weft_connect(fd, &p->u.any, p->bytes);
    ck_assert_int_eq(weft_close(fd), 0);
    return rc;
}

static weft_value call_connect_tcp(wait_targets *s)
{
    return connect_to(&s->full_tcp);
}

static weft_value call_connect_unix(wait_targets *s)
{
    return connect_to(&s->full_unix);
}

static weft_value call_splice_in(wait_targets *s)
{
    return weft_splice(s->in[0], NULL, s->spare[1], NULL, 64, 0);
}

static weft_value call_splice_out(wait_targets *s)
{
    return weft_splice(s->out[0], NULL, s->socket[0], NULL, 64, 0);
}

static weft_value call_tee(wait_targets *s)
{
    return weft_tee(s->in[0], s->spare[1], 64, 0);
}

static weft_value call_sleep(wait_targets *s)
{
    (void)s;
    return weft_sleep(INFINITY);
}

typedef struct call {
    const char *name;
    weft_value (*fn)(wait_targets *s);
} call;

static const call calls[] = {
    {"read", call_read},
    {"write", call_write},
    {"readv", call_readv},
    {"writev", call_writev},
    {"writev_all", call_writev_all},
    {"recv", call_recv},
    {"send", call_send},
    {"recvmsg", call_recvmsg},
    {"sendmsg", call_sendmsg},
    {"wait for input", call_wait_in},
    {"wait for room", call_wait_out},
    {"accept", call_accept},
    {"connect over tcp", call_connect_tcp},
    {"connect over unix", call_connect_unix},
    {"splice from an empty pipe", call_splice_in},
    {"splice to a full socket", call_splice_out},
    {"tee", call_tee},
    {"sleep", call_sleep},
};

/* Fill the backlog of a listener without waiting. */
static void fill_backlog(wait_targets *s, const endpoint *p)
{
    for (int i = 0; i < 3; i++) {
        int fd = socket_for(p);
        ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        (void)!connect(fd, &p->u.any, p->bytes); /* the first connect succeeds, the last does not */
        s->fillers[s->filler_count++] = fd;
    }
}

static void wait_targets_open(wait_targets *s)
{
    *s = (wait_targets){0};
    open_pipe(s->in);
    open_pipe(s->spare);
    open_pipe(s->out);
    open_sockets(s->socket);
    s->out_bytes = fill_up(s->out[1]);
    s->socket_bytes = fill_up(s->socket[0]);
    s->listener = listen_tcp(&s->address, 8);
    s->full[0] = listen_tcp(&s->full_tcp, 0);
    s->full[1] = listen_unix(&s->full_unix, 0);
    fill_backlog(s, &s->full_tcp);
    fill_backlog(s, &s->full_unix);
}

/* Assert that exactly this number of bytes can be read. */
static void assert_remaining(int fd, size_t bytes)
{
    static char block[4096];
    size_t left = 0;
    ssize_t n;
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while ((n = read(fd, block, sizeof block)) > 0)
        left += (size_t)n;
    ck_assert_uint_eq(left, bytes);
}

/* Assert that no bytes were consumed or added, and that the descriptors still work. Close them. */
static void wait_targets_close(wait_targets *s)
{
    int fd = socket_for(&s->address);
    ck_assert_int_eq(write(s->in[1], "abc", 3), 3);
    ck_assert_int_eq(weft_read(s->in[0], buffer, sizeof buffer), 3);
    ck_assert_int_eq(connect(fd, &s->address.u.any, s->address.bytes), 0);
    int accepted = weft_accept(s->listener, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    assert_remaining(s->spare[0], 0);
    assert_remaining(s->out[0], s->out_bytes);
    assert_remaining(s->socket[1], s->socket_bytes);
    const int all[] = {fd,        accepted,     s->listener, s->full[0],  s->full[1],
                       s->in[0],  s->in[1],     s->spare[0], s->spare[1], s->out[0],
                       s->out[1], s->socket[0], s->socket[1]};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        ck_assert_int_eq(weft_close(all[i]), 0);
    for (size_t i = 0; i < s->filler_count; i++)
        ck_assert_int_eq(close(s->fillers[i]), 0);
}

/* The cause of an interruption. */
typedef enum cause { CANCEL, INTERRUPT, RAISE, DEADLINE, CAUSES } cause;
static const char *const cause_names[] = {"cancel", "interrupt", "raise", "deadline"};

typedef struct attempt {
    wait_targets *wait_targets;
    const call *call;
    cause cause;
    weft_value result;
    int next; /* the result of the next call */
} attempt;

static weft_value make_call(void *arg)
{
    attempt *a = arg;
    int rc = 0;
    a->result = 1000;
    WEFT_CANCEL_AFTER(a->cause == DEADLINE ? 0.0005 : INFINITY, rc) {
        a->result = a->call->fn(a->wait_targets);
    }
    ck_assert_int_eq(rc, a->cause == DEADLINE ? -ETIMEDOUT : 0);
    a->next = weft_snooze();
    return 0;
}

static void interrupt_fiber(weft_fiber f, cause how)
{
    if (how == CANCEL)
        ck_assert_int_eq(weft_cancel(f), 0);
    else if (how == INTERRUPT)
        ck_assert_int_eq(weft_interrupt(f, INTERRUPT_VALUE), 0);
    else if (how == RAISE)
        ck_assert_int_eq(weft_raise(f, -EPROTO, "raised"), 0);
}

static void assert_interrupted(wait_targets *s, const call *c, cause how, bool is_polled)
{
    static const weft_value results[] = {-ECANCELED, INTERRUPT_VALUE, -EPROTO, -ECANCELED};
    attempt a = {.wait_targets = s, .call = c, .cause = how};
    weft_fiber f = weft_spin(make_call, &a);
    let_run();
    if (how != DEADLINE && is_polled)
        poll_once();
    if (how != DEADLINE && weft_state_of(f) != WEFT_WAITING)
        ck_abort_msg("%s does not wait: %ld", c->name, (long)a.result);
    if (how != DEADLINE)
        ck_assert_int_eq(weft_schedule(f, 1), -EBUSY); /* P64 */
    interrupt_fiber(f, how);
    ck_assert_int_eq(weft_await(f), how == CANCEL ? -ECANCELED : 0);
    if (a.result != results[how])
        ck_abort_msg("%s after %s: %ld", c->name, cause_names[how], (long)a.result);
    ck_assert_int_eq(a.next, how == CANCEL ? -ECANCELED : 0);
    assert_nothing_pending();
}

/* P63, P64 */
TEST(every_waiting_call_can_be_interrupted_and_leaves_nothing_pending)
{
    wait_targets s;
    warm_up();
    size_t descriptors = count_descriptors();
    for (cause how = 0; how < CAUSES; how++) {
        wait_targets_open(&s);
        for (size_t i = 0; i < COUNT_OF(calls); i++)
            for (int is_polled = 0; is_polled < 2; is_polled++)
                assert_interrupted(&s, &calls[i], how, is_polled);
        wait_targets_close(&s);
        ck_assert_uint_eq(count_descriptors(), descriptors);
    }
}

/* P63: with and without a submission to the kernel before the cancellations */
TEST(calls_of_every_kind_can_start_and_be_cancelled_in_one_tick)
{
    wait_targets s;
    attempt attempts[COUNT_OF(calls)];
    weft_fiber fibers[COUNT_OF(calls)];
    wait_targets_open(&s);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < COUNT_OF(calls); i++) {
            attempts[i] = (attempt){.wait_targets = &s, .call = &calls[i], .cause = CANCEL};
            fibers[i] = weft_spin(make_call, &attempts[i]);
        }
        let_run();
        if (round % 2 == 0)
            poll_once();
        for (size_t i = 0; i < COUNT_OF(calls); i++)
            ck_assert_int_eq(weft_cancel(fibers[i]), 0);
        for (size_t i = 0; i < COUNT_OF(calls); i++) {
            ck_assert_int_eq(weft_await(fibers[i]), -ECANCELED);
            ck_assert_int_eq(attempts[i].result, -ECANCELED);
        }
        assert_nothing_pending();
    }
    wait_targets_close(&s);
}

TEST(a_fiber_cancelled_before_it_runs_starts_no_operation)
{
    int fd[2];
    reading r = {.n = 1000};
    weft_counters counters;
    open_pipe(fd);
    weft_stats(&counters);
    r.fd = fd[0];
    weft_fiber f = weft_spin(read_then_snooze, &r);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(r.n, 1000);
    weft_stats(&counters);
    ck_assert_uint_eq(counters.ops, 0);
    close_fd_pair_and_check(fd);
}

TEST(a_second_cancel_changes_nothing)
{
    for (int is_polled = 0; is_polled < 2; is_polled++) {
        int fd[2];
        reading r;
        open_pipe(fd);
        weft_fiber f = spin_reader(&r, fd[0]);
        if (is_polled)
            poll_once();
        ck_assert_int_eq(weft_cancel(f), 0);
        ck_assert_int_eq(weft_cancel(f), 0);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
        ck_assert_int_eq(weft_cancel(f), -ESRCH);
        ck_assert_int_eq(r.n, -ECANCELED);
        ck_assert_int_eq(r.next, -ECANCELED);
        close_fd_pair_and_check(fd);
    }
}

/* P64 */
TEST(a_fiber_interrupted_and_then_cancelled_gets_the_value_first)
{
    for (int i = 0; i < 4; i++) {
        int fd[2];
        reading r;
        open_sockets(fd);
        weft_fiber f = spin_reader(&r, fd[0]);
        if (i % 2 == 0)
            poll_once();
        ck_assert_int_eq(weft_interrupt(f, INTERRUPT_VALUE), 0);
        ck_assert_int_eq(weft_interrupt(f, INTERRUPT_VALUE - 1), -EBUSY);
        ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
        if (i < 2)
            ck_assert_int_eq(weft_cancel(f), 0);
        else
            ck_assert_int_eq(weft_raise(f, -EPROTO, "raised"), 0);
        ck_assert_int_eq(weft_await(f), i < 2 ? -ECANCELED : 0);
        ck_assert_int_eq(r.n, INTERRUPT_VALUE);
        ck_assert_int_eq(r.next, i < 2 ? -ECANCELED : -EPROTO);
        close_fd_pair_and_check(fd);
    }
}

/* P64 */
TEST(data_that_arrives_with_an_interrupt_is_delivered_or_still_readable)
{
    for (size_t kind = 0; kind < COUNT_OF(opens); kind++) {
        int fd[2];
        opens[kind](fd);
        for (int i = 0; i < 300; i++) {
            reading r;
            weft_fiber f = spin_reader(&r, fd[0]);
            if (i % 2 == 0)
                poll_once();
            ck_assert_int_eq(write(fd[1], "abc", 3), 3);
            if (i % 3 == 0)
                poll_once();
            weft_interrupt(f, INTERRUPT_VALUE);
            ck_assert_int_eq(weft_await(f), 0);
            if (r.n == INTERRUPT_VALUE)
                r.n = -ECANCELED;
            assert_delivered_or_readable(&r);
        }
        close_fd_pair_and_check(fd);
    }
}

static weft_value read_with_deadline(void *arg)
{
    reading *r = arg;
    WEFT_CANCEL_AFTER(0.0003, r->next) {
        r->n = weft_read(r->fd, r->data, sizeof r->data);
    }
    return 0;
}

/* P45, P61 */
TEST(data_that_arrives_with_a_deadline_is_delivered_or_still_readable)
{
    for (size_t kind = 0; kind < COUNT_OF(opens); kind++) {
        int fd[2];
        opens[kind](fd);
        for (int i = 0; i < 300; i++) {
            reading r = {.fd = fd[0], .n = 1000};
            memset(r.data, UNTOUCHED, sizeof r.data);
            weft_fiber f = weft_spin(read_with_deadline, &r);
            let_run();
            if (i % 2 == 0)
                ck_assert_int_eq(write(fd[1], "abc", 3), 3);
            for (double begin = weft_now(); weft_now() - begin < 0.0004;)
                continue; /* both events happen before the next poll */
            if (i % 2 != 0)
                ck_assert_int_eq(write(fd[1], "abc", 3), 3);
            ck_assert_int_eq(weft_await(f), 0);
            ck_assert(r.n != -ECANCELED || r.next == -ETIMEDOUT);
            assert_delivered_or_readable(&r);
        }
        close_fd_pair_and_check(fd);
    }
}

/* Read into a buffer that ends with the frame of this function. */
static __attribute__((noinline)) ssize_t read_into_frame(int fd)
{
    unsigned char data[1024];
    memset(data, UNTOUCHED, sizeof data);
    ssize_t n = weft_read(fd, data, sizeof data);
    if (n < 0)
        assert_all(data, sizeof data, UNTOUCHED);
    return n;
}

/*
 * Reuse the stack memory of the previous read while its data arrives. Assert that nothing writes to
 * it.
 */
static __attribute__((noinline)) void assert_frame_untouched(const int fd[2])
{
    unsigned char data[2048];
    memset(data, 0x5A, sizeof data);
    ck_assert_int_eq(write(fd[1], "abc", 3), 3);
    for (int i = 0; i < 3; i++)
        poll_once();
    assert_all(data, sizeof data, 0x5A);
}

static weft_value read_late_data(void *arg)
{
    const int *fd = arg;
    for (int i = 0; i < 200; i++) {
        WEFT_MOVE_ON_AFTER(random_below(100) * 1e-6) {
            ck_assert_int_eq(read_into_frame(fd[0]), -ECANCELED);
        }
        assert_frame_untouched(fd);
        ck_assert_int_eq(read_into_frame(fd[0]), 3);
    }
    return 0;
}

/* A cancelled call returns only after the kernel has released the buffer. */
TEST(a_buffer_is_not_written_to_after_an_interrupted_call)
{
    for (size_t kind = 0; kind < COUNT_OF(opens); kind++) {
        int fd[2];
        opens[kind](fd);
        ck_assert_int_eq(weft_await(weft_spin(read_late_data, fd)), 0);
        close_fd_pair_and_check(fd);
    }
}
