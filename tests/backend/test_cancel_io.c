/*
 * Tests of interrupted operations. A cancellation, a deadline, an interrupt or a raised error
 * arrives before the kernel has the operation, while it waits, or after it has completed.
 */
#include "support/net_support.h"
#include "support/suite.h"

#define UNTOUCHED 0xA5
#define INTERRUPT_VALUE (-EBADE)

/* The cause of an interruption, and the result of the interrupted call. */
typedef enum cause { CANCEL, INTERRUPT, RAISE, DEADLINE, CAUSES } cause;
static const char *const cause_names[] = {"cancel", "interrupt", "raise", "deadline"};
static const weft_value results[] = {-ECANCELED, INTERRUPT_VALUE, -EPROTO, -ECANCELED};

static void interrupt_fiber(weft_fiber f, cause how)
{
    if (how == CANCEL)
        weft_cancel(f);
    else if (how == INTERRUPT)
        weft_interrupt(f, INTERRUPT_VALUE);
    else if (how == RAISE)
        weft_raise(f, -EPROTO, "raised");
}

/*
 * A reading fiber and its results. The value of a cancelled fiber does not show what its calls
 * returned.
 */
typedef struct reading {
    int fd;
    double limit_s;
    ssize_t n;
    int next; /* the result of the next call */
    unsigned char data[64];
} reading;

static weft_value read_then_snooze(void *arg)
{
    reading *r = arg;
    WEFT_MOVE_ON_AFTER(r->limit_s)
        r->n = weft_read(r->fd, r->data, sizeof r->data);
    r->next = weft_snooze();
    return 0;
}

static weft_fiber spin_reader(reading *r, int fd, double limit_s)
{
    *r = (reading){.fd = fd, .limit_s = limit_s, .n = 1000, .next = 1000};
    memset(r->data, UNTOUCHED, sizeof r->data);
    weft_fiber f = weft_spin(read_then_snooze, r);
    let_run();
    return f;
}

static void close_fd_pair_and_check(const int fd[2])
{
    close_fd_pair(fd);
    assert_nothing_pending();
}

/* Submit operations to the kernel, and process completions. */
static void poll_once(void)
{
    ck_assert_int_eq(weft_sleep(0), 0);
}

/* Assert that the three bytes were read or are still readable, and that there is no other data. */
static void assert_delivered_or_readable(const reading *r, cause how)
{
    const unsigned char *data = r->data;
    unsigned char later[8];
    if (r->n == results[how]) {
        assert_all(r->data, sizeof r->data, UNTOUCHED);
        ck_assert_int_eq(weft_read(r->fd, later, sizeof later), 3);
        data = later;
    } else {
        ck_assert_int_eq(r->n, 3);
    }
    ck_assert_mem_eq(data, "abc", 3);
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_read(r->fd, later, sizeof later), -ECANCELED);
}

/* P45, P61, P64: with the operation submitted or not, and with the data processed or not */
TEST_LOOP(data_that_arrives_with_an_interruption_is_delivered_or_still_readable,
          STREAM_KINDS *CAUSES)
{
    const cause how = (cause)(_i / STREAM_KINDS);
    int fd[2];
    open_stream(fd, _i % STREAM_KINDS);
    for (int i = 0; i < 100; i++) {
        reading r;
        weft_fiber f = spin_reader(&r, fd[0], how == DEADLINE ? 0.0003 : INFINITY);
        if (how != DEADLINE && i % 2 == 0)
            poll_once();
        for (double begin = weft_now(); how == DEADLINE && i % 2 && weft_now() - begin < 0.0004;)
            continue; /* the deadline passes before the data arrives, and before the next poll */
        ck_assert_int_eq(write(fd[1], "abc", 3), 3);
        if (how != DEADLINE && i % 4 >= 2)
            poll_once();
        interrupt_fiber(f, how);
        weft_value rc = weft_await(f); /* the fiber may have ended before */
        ck_assert(rc == 0 || (how == CANCEL && rc == -ECANCELED) ||
                  (how == RAISE && rc == -EPROTO));
        assert_delivered_or_readable(&r, how);
    }
    close_fd_pair_and_check(fd);
}

/* P61: the call returns the completed result, and the cancellation stays pending */
TEST(a_cancellation_after_completion_interrupts_the_next_call)
{
    int fd[2];
    reading r;
    open_stream(fd, 1);
    weft_fiber f = spin_reader(&r, fd[0], INFINITY);
    weft_park(f); /* so that the fiber does not run when the data arrives */
    ck_assert_int_eq(write(fd[1], "abc", 3), 3);
    while (ops_pending() > 0)
        poll_once();
    weft_cancel(f);
    weft_unpark(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(r.n, 3);
    ck_assert_int_eq(r.next, -ECANCELED);
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
static struct iovec pieces[2] = {{buffer, 8}, {buffer + 8, 8}};
static struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

static weft_value connect_to(const endpoint *p)
{
    int fd = socket_for(p);
    weft_value rc = weft_connect(fd, &p->u.any, p->bytes);
    ck_assert_int_eq(weft_close(fd), 0);
    return rc;
}

#define CALL(name, expression)                                             \
    static weft_value call_##name(wait_targets *s __attribute__((unused))) \
    {                                                                      \
        return (expression);                                               \
    }

CALL(read, weft_read(s->in[0], buffer, sizeof buffer))
CALL(write, weft_write(s->out[1], buffer, sizeof buffer))
CALL(readv, weft_readv(s->in[0], pieces, 2))
CALL(writev, weft_writev(s->out[1], pieces, 2))
CALL(writev_all, weft_writev_all(s->out[1], pieces, 2))
CALL(recv, weft_recv(s->socket[0], buffer, sizeof buffer, 0))
CALL(send, weft_send(s->socket[0], buffer, sizeof buffer, 0))
CALL(recvmsg, weft_recvmsg(s->socket[0], &message, 0))
CALL(sendmsg, weft_sendmsg(s->socket[0], &message, 0))
CALL(wait_in, weft_wait_fd(s->in[0], POLLIN))
CALL(wait_out, weft_wait_fd(s->out[1], POLLOUT))
CALL(accept, weft_accept(s->listener, NULL, NULL))
CALL(connect_tcp, connect_to(&s->full_tcp))
CALL(connect_unix, connect_to(&s->full_unix))
CALL(splice_in, weft_splice(s->in[0], NULL, s->spare[1], NULL, 64, 0))
CALL(splice_out, weft_splice(s->out[0], NULL, s->socket[0], NULL, 64, 0))
CALL(tee, weft_tee(s->in[0], s->spare[1], 64, 0))
CALL(sleep, weft_sleep(INFINITY))

typedef weft_value call_fn(wait_targets *s);

static call_fn *const calls[] = {
    call_read,  call_write,       call_readv,        call_writev,    call_writev_all, call_recv,
    call_send,  call_recvmsg,     call_sendmsg,      call_wait_in,   call_wait_out,   call_accept,
    call_sleep, call_connect_tcp, call_connect_unix, call_splice_in, call_splice_out, call_tee,
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
    open_stream(s->in, 0);
    open_stream(s->spare, 0);
    open_stream(s->out, 0);
    open_stream(s->socket, 1);
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

typedef struct attempt {
    wait_targets *wait_targets;
    call_fn *call;
    cause cause;
    weft_value result;
    int next; /* the result of the next call */
} attempt;

static weft_value make_call(void *arg)
{
    attempt *a = arg;
    int rc = 0;
    a->result = 1000;
    WEFT_CANCEL_AFTER(a->cause == DEADLINE ? 0.0005 : INFINITY, rc)
        a->result = a->call(a->wait_targets);
    ck_assert_int_eq(rc, a->cause == DEADLINE ? -ETIMEDOUT : 0);
    a->next = weft_snooze();
    return 0;
}

/* Interrupt calls[i]. If the call is not polled, the kernel does not have the operation yet. */
static void assert_interrupted(wait_targets *s, size_t i, cause how, bool is_polled)
{
    attempt a = {.wait_targets = s, .call = calls[i], .cause = how};
    weft_fiber f = weft_new(make_call, &a);
    ck_assert_int_eq(weft_start(f), 0); /* returns when the fiber waits */
    if (is_polled && how != DEADLINE)
        poll_once();
    if (how != DEADLINE && weft_state_of(f) != WEFT_WAITING)
        ck_abort_msg("call %zu does not wait: %ld", i, (long)a.result);
    if (how != DEADLINE)
        ck_assert_int_eq(weft_schedule(f, 1), -EBUSY); /* P64 */
    interrupt_fiber(f, how);
    ck_assert_int_eq(weft_await(f), how == CANCEL ? -ECANCELED : 0);
    if (a.result != results[how])
        ck_abort_msg("call %zu after %s: %ld", i, cause_names[how], (long)a.result);
    ck_assert_int_eq(a.next, how == CANCEL ? -ECANCELED : 0);
    assert_nothing_pending();
}

/* P63, P64 */
TEST_LOOP(every_waiting_call_can_be_interrupted_and_leaves_nothing_pending, CAUSES)
{
    wait_targets s;
    warm_up();
    int descriptors = count_descriptors();
    wait_targets_open(&s);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        for (int is_polled = 0; is_polled < 2; is_polled++)
            assert_interrupted(&s, i, (cause)_i, is_polled);
    wait_targets_close(&s);
    ck_assert_int_eq(count_descriptors(), descriptors);
}

/* P63: with and without a submission to the kernel before the cancellations */
TEST(calls_of_every_kind_can_start_and_be_cancelled_in_one_tick)
{
    wait_targets s;
    attempt attempts[COUNT_OF(calls)];
    weft_fiber fibers[COUNT_OF(calls)];
    wait_targets_open(&s);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < COUNT_OF(calls); i++) {
            attempts[i] = (attempt){.wait_targets = &s, .call = calls[i], .cause = CANCEL};
            fibers[i] = weft_new(make_call, &attempts[i]);
            ck_assert_int_eq(weft_start(fibers[i]), 0);
        }
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
    reading r = {.limit_s = INFINITY, .n = 1000};
    open_stream(fd, 0);
    uint64_t ops = stats().ops;
    r.fd = fd[0];
    weft_fiber f = weft_spin(read_then_snooze, &r);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_int_eq(r.n, 1000);
    ck_assert_uint_eq(stats().ops, ops);
    close_fd_pair_and_check(fd);
}

/* P64: the second interruption takes effect at the next call, if it takes effect */
TEST_LOOP(a_fiber_interrupted_twice_gets_the_first_result, 2)
{
    static const struct {
        cause first, second;
        int next;
        weft_value value;
    } cases[] = {{CANCEL, CANCEL, -ECANCELED, -ECANCELED},
                 {INTERRUPT, CANCEL, -ECANCELED, -ECANCELED},
                 {INTERRUPT, RAISE, -EPROTO, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int fd[2];
        reading r;
        open_stream(fd, (int)i % 2);
        weft_fiber f = spin_reader(&r, fd[0], INFINITY);
        if (_i == 0)
            poll_once();
        interrupt_fiber(f, cases[i].first);
        ck_assert_int_eq(weft_interrupt(f, INTERRUPT_VALUE - 1), -EBUSY);
        ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
        interrupt_fiber(f, cases[i].second);
        ck_assert_int_eq(weft_await(f), cases[i].value);
        ck_assert_int_eq(weft_cancel(f), -ESRCH);
        ck_assert_int_eq(r.n, results[cases[i].first]);
        ck_assert_int_eq(r.next, cases[i].next);
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
    for (int i = 0; i < 60; i++) {
        WEFT_MOVE_ON_AFTER(random_below(100) * 1e-6)
            ck_assert_int_eq(read_into_frame(fd[0]), -ECANCELED);
        assert_frame_untouched(fd);
        ck_assert_int_eq(read_into_frame(fd[0]), 3);
    }
    return 0;
}

/* A cancelled call returns only after the kernel has released the buffer. */
TEST_LOOP(a_buffer_is_not_written_to_after_an_interrupted_call, STREAM_KINDS)
{
    int fd[2];
    open_stream(fd, _i);
    ck_assert_int_eq(weft_await(weft_spin(read_late_data, fd)), 0);
    close_fd_pair_and_check(fd);
}
