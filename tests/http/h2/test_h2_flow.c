/* Bodies of HTTP/2 streams: windows, slow readers, cancelled calls. */
#include "http/h2/h2_support.h"

FIXTURE(h2_set_up, NULL)

TEST(bodies_flow_in_both_directions)
{
    open_both(echo);
    expect_echo(1);
    expect_echo(16 << 10);
    expect_echo(4 * MIB);
    close_both();
    ck_assert_uint_eq(server.session.buffered_bytes, 0);
    ck_assert_uint_eq(client.session.buffered_bytes, 0);
}

TEST(bodies_pass_tiny_windows)
{
    client.options.stream_window_bytes = client.options.stream_window_bytes_max = 100;
    server.options.stream_window_bytes = server.options.stream_window_bytes_max = 1;
    open_both(echo);
    expect_echo(2000);
    close_both();
}

TEST(the_window_of_a_fast_reader_grows)
{
    h2_exchange x = {.end = &client};
    upload u = {&x, MIB, -1};
    client.options.stream_window_bytes = 1000;
    client.options.stream_window_bytes_max = 70000;
    open_both(echo);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    weft_fiber f = weft_spin(upload_run, &u);
    ck_assert_int_eq(h2_check_body(&x), (ssize_t)MIB);
    ck_assert_uint_eq(x.st.window_bytes, 70000);
    ck_assert_int_eq(weft_await(f), 0);
    release(&x);
    close_both();
}

/* Handlers that wait for the test. */
static weft_cond go_on;
static int stuck;

static int wait_then_echo(h2_exchange *x)
{
    if (strstr(x->fields, "/slow") == NULL)
        return echo(x);
    stuck++;
    int rc = weft_cond_wait(&go_on, NULL);
    return rc < 0 ? rc : echo(x);
}

TEST(a_slow_handler_holds_back_its_own_stream_only)
{
    h2_exchange slow = {.end = &client};
    upload u = {&slow, MIB, -1};
    const nghttp2_nv head[] = {h2_nv(":method", "POST"), h2_nv(":scheme", "http"),
                               h2_nv(":authority", "a"), h2_nv(":path", "/slow")};
    server.options.connection_window_bytes = 100000;
    open_both(wait_then_echo);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &slow.st, head, 4, false), 0);
    weft_fiber f = weft_spin(upload_run, &u);
    expect_echo(MIB);
    ck_assert_int_eq(stuck, 1);
    ck_assert_int_eq(u.result, -1);
    ck_assert_uint_eq(server.session.buffered_bytes, 64 << 10);
    weft_cond_signal(&go_on);
    ck_assert_int_eq(h2_check_body(&slow), (ssize_t)MIB);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(u.result, 0);
    release(&slow);
    close_both();
}

static int send_much(h2_exchange *x)
{
    static char body[4 * MIB];
    h2_fill_body(body, sizeof body);
    return weft__h2_stream_reply(&x->st, H2_OK, body, sizeof body);
}

TEST(a_slow_client_holds_back_its_own_stream_only)
{
    h2_exchange slow, fast;
    open_both(send_much);
    get(&slow);
    get(&fast);
    ck_assert_int_eq(h2_check_body(&fast), (ssize_t)(4 * MIB));
    ck_assert_uint_eq(slow.st.in_bytes, 64 << 10);
    ck_assert_int_eq(h2_check_body(&slow), (ssize_t)(4 * MIB));
    release(&slow);
    release(&fast);
    close_both();
}

static weft_value check_much(void *arg)
{
    h2_exchange *x = arg;
    ssize_t n = h2_check_body(x);
    ck_assert_uint_le(client.session.buffered_bytes, 100000 + 70000);
    return n == (ssize_t)(4 * MIB) ? 0 : -EIO;
}

TEST(unread_input_of_all_streams_is_bounded)
{
    static h2_exchange x[8];
    weft_fiber fibers[8];
    client.options.buffered_bytes_max = 100000;
    client.options.connection_window_bytes = 70000;
    open_both(send_much);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        get(&x[i]);
    while (client.session.unconsumed == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        fibers[i] = weft_spin(check_much, &x[i]);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(x), NULL), 0);
    ck_assert_uint_eq(client.session.unconsumed, 0);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        release(&x[i]);
    close_both();
}

/* Both ends send all they can before they read. */
static int upload_then_read(h2_exchange *x)
{
    int rc = send_much(x);
    return rc < 0 || h2_check_body(x) != (ssize_t)(4 * MIB) ? -EIO : 0;
}

TEST(two_peers_that_write_at_once_do_not_wait_for_each_other)
{
    h2_exchange x = {.end = &client};
    static char body[4 * MIB];
    client.options.stream_window_bytes = server.options.stream_window_bytes = 8 * MIB;
    client.options.connection_window_bytes = server.options.connection_window_bytes = 16 * MIB;
    open_both(upload_then_read);
    h2_fill_body(body, sizeof body);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ck_assert_int_eq(weft__h2_stream_write_last(&x.st, body, sizeof body), (ssize_t)sizeof body);
    ck_assert_int_eq(h2_check_body(&x), (ssize_t)sizeof body);
    release(&x);
    close_both();
}

/*
 * Cancellation.
 */

/* Read a body with calls that are cancelled at once unless input is there. */
static ssize_t read_impatiently(h2_exchange *x, size_t *cancels)
{
    size_t sum = 0;
    for (;;) {
        const void *piece = NULL;
        ssize_t n = 0;
        WEFT_MOVE_ON_AFTER(1e-5 * (double)(*cancels % 7))
            n = weft__h2_stream_piece(&x->st, &piece);
        if (n == -ECANCELED) {
            (*cancels)++;
            if (weft_snooze() < 0)
                return -ECANCELED;
            continue;
        }
        for (ssize_t i = 0; i < n; i++, sum++)
            if (((const char *)piece)[i] != h2_byte_at(sum))
                return -EILSEQ;
        if (n <= 0)
            return n < 0 ? n : (ssize_t)sum;
    }
}

TEST(a_cancelled_read_loses_nothing)
{
    h2_exchange x;
    size_t cancels = 0;
    client.options.stream_window_bytes = client.options.stream_window_bytes_max = 50000;
    open_both(send_much);
    get(&x);
    ck_assert_int_eq(read_impatiently(&x, &cancels), (ssize_t)(4 * MIB));
    ck_assert_uint_gt(cancels, 0);
    release(&x);
    close_both();
}

/* Write a body with calls that are cancelled soon. */
static int write_impatiently(h2_exchange *x)
{
    static char body[4 * MIB];
    size_t done = 0, tries = 0;
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    h2_fill_body(body, sizeof body);
    while (rc == 0 && done < sizeof body) {
        ssize_t n = 0;
        WEFT_MOVE_ON_AFTER(1e-5 * (double)(tries++ % 7))
            n = weft__h2_stream_write(&x->st, body + done, sizeof body - done);
        if (n > 0)
            done += (size_t)n;
        else if (n != -ECANCELED)
            return (int)n;
        rc = weft_snooze();
    }
    while (rc == 0) {
        int ended = 0;
        const nghttp2_nv trailer = h2_nv("x-tries", "many");
        WEFT_MOVE_ON_AFTER(1e-5 * (double)(tries++ % 7))
            ended = weft__h2_stream_end_with(&x->st, &trailer, 1);
        if (ended != -ECANCELED)
            return ended;
        rc = weft_snooze();
    }
    return rc;
}

TEST(a_cancelled_write_reports_what_it_has_taken)
{
    h2_exchange x;
    open_both(write_impatiently);
    get(&x);
    ck_assert_int_eq(h2_check_body(&x), (ssize_t)(4 * MIB));
    ck_assert_str_eq(x.heads, "RT");
    release(&x);
    close_both();
}

TEST(a_cancelled_step_loses_nothing)
{
    client.is_impatient = server.is_impatient = true;
    open_both(echo);
    expect_echo(4 * MIB);
    ck_assert_uint_gt(client.cancels, 0);
    ck_assert_uint_gt(server.cancels, 0);
    close_both();
}
