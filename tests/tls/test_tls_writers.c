/* Tests of several fibers that write to one stream over TLS. */
#include "io/stream/writers.h"
#include "support/tls_support.h"

#include "tls/tls.h"

static tls_pair pair;

static void open_tls_streams(writers_link *l, bool is_tcp)
{
    int fd[2];
    pair = (tls_pair){0};
    new_tls_pair(&pair, NULL, NULL);
    open_small_sockets(fd, is_tcp);
    handshake_over(&pair, fd[0], fd[1]);
    ck_assert_good(pair.client_rc);
    ck_assert_good(pair.server_rc);
    *l = (writers_link){pair.client, pair.server};
}

static void open_tls_over_pair(writers_link *l)
{
    open_tls_streams(l, false);
}

static void open_tls_over_tcp(writers_link *l)
{
    open_tls_streams(l, true);
}

static void free_tls(void)
{
    free_tls_pair(&pair);
}

static const writers_transport transports[3] = {{open_tls_over_pair, free_tls, false},
                                                {open_tls_over_tcp, free_tls, true}};

/*
 * A wait for the lock of the output. A fiber of the test holds the lock, as a reader that replies
 * to key updates does.
 */

static weft_mutex *out_lock_of(weft_stream *s)
{
    weft__tls_conn *c = weft_stream_ctx(s, &weft__tls_stream);
    ck_assert_ptr_nonnull(c);
    return &c->out_lock;
}

static weft_value hold_lock(void *arg)
{
    ck_assert_int_eq(weft_mutex_lock(arg), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    return weft_mutex_unlock(arg);
}

static void end_holder(weft_fiber holder)
{
    ck_assert_int_eq(weft_schedule(holder, 0), 0);
    ck_assert_int_eq(weft_await(holder), 0);
}

static weft_value put_d_and_flush(void *arg)
{
    ck_assert_int_eq(weft_stream_puts(arg, "Dd\n"), 3);
    return weft_stream_flush(arg);
}

WRITERS_TEST(a_writer_that_is_interrupted_at_the_lock_of_the_output_has_written_nothing)
{
    weft_fiber holder = spin_waiting(hold_lock, out_lock_of(&l->near));
    weft_fiber a = spin_waiting(write_unit, &l->near), b = spin_waiting(write_unit, &l->near);
    weft_fiber c = spin_waiting(write_unit, &l->near), d = spin_waiting(put_d_and_flush, &l->near);
    ck_assert_int_eq(weft_interrupt(a, -EPIPE), 0);
    ck_assert_int_eq(weft_await(a), -EPIPE);
    let_run();
    ck_assert_int_eq(cancel_and_await(b), -ECANCELED);
    let_run();
    ck_assert_int_eq(weft_raise(c, -EPROTO, "raised"), 0);
    ck_assert_int_eq(weft_await(c), -EPROTO);
    let_run();
    ck_assert_int_eq(weft_interrupt(d, -EINTR), 0); /* in the flush */
    ck_assert_int_eq(weft_await(d), -EINTR);
    weft_fiber last = spin_waiting(flush_stream, &l->near);
    end_holder(holder);
    ck_assert_int_eq(weft_await(last), 0);
    expect_line(&l->far, "Dd\n");
    ck_assert_int_eq(print_b(&l->near), 3);
    ck_assert_int_eq(weft_stream_flush(&l->near), 0);
    expect_line(&l->far, "Bb\n");
}

/* Read the next bytes of the unit. Return the new position. */
static size_t expect_more_of_unit(weft_stream *far, size_t at)
{
    char data[4096];
    size_t n = UNIT_BYTES - at < sizeof data ? UNIT_BYTES - at : sizeof data;
    ssize_t got = weft_stream_read(far, data, n);
    ck_assert_int_gt(got, 0);
    ck_assert_mem_eq(data, unit + at, (size_t)got);
    return at + (size_t)got;
}

typedef struct rest_reader {
    weft_stream *far;
    size_t at;
} rest_reader;

static weft_value read_rest(void *arg)
{
    rest_reader *r = arg;
    while (r->at < UNIT_BYTES)
        r->at = expect_more_of_unit(r->far, r->at);
    return 0;
}

/* Abort a write that has sent a part and waits for the lock. See abort_write. */
static void abort_at_lock(writers_link *l, int (*abort)(weft_fiber f), weft_value value, int later)
{
    weft_mutex *lock = out_lock_of(&l->near);
    part_writer part = {.stream = &l->near};
    rest_reader rest = {.far = &l->far};
    weft_fiber a = spin_waiting(write_part, &part); /* holds the lock */
    weft_fiber holder = spin_waiting(hold_lock, lock);
    weft_fiber b = spin_waiting(print_b, &l->near), f = spin_waiting(flush_reporting, &l->near);
    while (weft_mutex_owner(lock) != holder)
        rest.at = expect_more_of_unit(&l->far, rest.at);
    let_run();
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    ck_assert_int_eq(abort(a), 0);
    ck_assert_int_eq(weft_await(a), value);
    ck_assert(part.taken > 0 && part.taken < (ssize_t)UNIT_BYTES);
    ck_assert_int_eq(weft_await(b), -EIO);
    ck_assert_int_eq(weft_await(f), -EIO);
    end_holder(holder);
    if (later < 0)
        ck_assert_int_eq(weft_stream_flush(&l->near), later);
    weft_fiber reader = weft_spin(read_rest, &rest);
    ssize_t left = (ssize_t)UNIT_BYTES - part.taken; /* the stream still works */
    ck_assert_int_eq(weft_stream_write(&l->near, unit + part.taken, (size_t)left), left);
    ck_assert_int_eq(print_b(&l->near), 3);
    ck_assert_int_eq(weft_stream_flush(&l->near), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    expect_line(&l->far, "Bb\n");
}

WRITERS_TEST(a_write_that_is_cancelled_at_the_lock_after_a_part_fails_the_queued_writers)
{
    abort_at_lock(l, weft_cancel, -ECANCELED, 0);
}

WRITERS_TEST(a_write_that_is_interrupted_at_the_lock_after_a_part_fails_the_queued_writers)
{
    abort_at_lock(l, interrupt_fiber, 0, -EPIPE);
}

WRITERS_TEST(a_write_that_gets_a_raised_error_at_the_lock_fails_the_queued_writers)
{
    abort_at_lock(l, raise_in_fiber, 0, -EPROTO);
}

/* The transport has output that it could not send yet. The stream itself has none. */
TEST(a_tls_stream_with_unsent_output_is_not_closed_where_switching_is_forbidden)
{
    writers_link l;
    fill_unit();
    open_tls_over_pair(&l);
    part_writer part = {.stream = &l.near};
    weft_fiber a = spin_waiting(write_part, &part);
    ck_assert_int_eq(cancel_and_await(a), -ECANCELED);
    ck_assert_int_gt(part.taken, 0);
    expect_close_refused(&l);
    rest_reader rest = {.far = &l.far, .at = UNIT_BYTES - (size_t)part.taken};
    memset(unit, 'A', UNIT_BYTES); /* the part has no newline */
    weft_fiber reader = weft_spin(read_rest, &rest);
    ck_assert_int_eq(weft_stream_flush(&l.near), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_stream_close(&l.far), 0);
    free_tls();
    assert_nothing_pending();
}
