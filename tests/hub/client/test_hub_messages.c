/* Tell, call, reply and fail: promises, errors and counters. */
#include "hub/client/expose_support.h"

static weft_hub *hub;

static void open_own_hub(void)
{
    hub = open_hub();
}

static void close_own_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_own_hub, close_own_hub)

TEST(a_call_returns_the_reply)
{
    spin_exposed(hub, "echo", echo_all, NULL);
    assert_call(hub, "echo", "Ada", "Ada");
    assert_call(hub, "echo", "", "");
}

TEST(a_call_to_a_name_that_no_fiber_exposes_fails_at_once)
{
    weft_hub_msg *reply;
    ck_assert_fails(weft_hub_call(hub, "nobody", "x", 1, &reply), -EHOSTUNREACH);
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
}

TEST(a_reply_keeps_its_bytes)
{
    static char data[100000];
    spin_exposed(hub, "echo", echo_all, NULL);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 31 + i / 251);
    for (size_t bytes = 1; bytes <= sizeof data; bytes *= 10) {
        weft_hub_msg *reply;
        ck_assert_done(weft_hub_call(hub, "echo", data, bytes, &reply));
        ck_assert_uint_eq(reply->bytes, bytes);
        ck_assert_mem_eq(reply->data, data, bytes);
        ck_assert_int_eq(((const char *)reply->data)[bytes], '\0');
        weft_hub_free(reply);
    }
}

TEST(the_largest_message_that_the_server_permits_arrives)
{
    size_t bytes = 1024 * 1024;
    char *data = malloc(bytes + 1);
    weft_hub_msg *reply;
    memset(data, 'x', bytes + 1);
    spin_exposed(hub, "echo", echo_all, NULL);
    ck_assert_done(weft_hub_call(hub, "echo", data, bytes, &reply));
    ck_assert_uint_eq(reply->bytes, bytes);
    weft_hub_free(reply);
    ck_assert_fails(weft_hub_call(hub, "echo", data, bytes + 1, &reply), -EMSGSIZE);
    free(data);
}

TEST(a_call_without_a_reply_parameter_discards_the_reply)
{
    spin_exposed(hub, "echo", echo_all, NULL);
    ck_assert_done(weft_hub_call(hub, "echo", "x", 1, NULL));
}

TEST(a_tell_is_not_a_call)
{
    ck_assert_done(expose(hub, "a.b", weft_self()));
    ck_assert_done(weft_hub_tell(hub, "a.b", "hello", 5));
    weft_hub_msg *msg = receive_msg();
    ck_assert(!msg->is_call);
    ck_assert_str_eq(msg->to, "a.b");
    ck_assert_str_eq(msg->data, "hello");
    ck_assert_str_eq(msg->id, "");
    ck_assert_uint_eq(msg->deliveries, 0);
    ck_assert_fails(weft_hub_reply(msg, "x", 1), -EINVAL);
    weft_hub_free(msg);
}

TEST(messages_of_one_sender_arrive_in_order)
{
    ck_assert_done(expose(hub, "a", weft_self()));
    for (int i = 0; i < 1000; i++)
        ck_assert_done(weft_hub_tell(hub, "a", &i, sizeof i));
    for (int i = 0; i < 1000; i++) {
        weft_hub_msg *msg = receive_msg();
        ck_assert_mem_eq(msg->data, &i, sizeof i);
        weft_hub_free(msg);
    }
}

static weft_value fail_all(void *arg)
{
    weft_hub_msg *msg;
    while ((msg = receive_msg()) != NULL) {
        weft_hub_fail(msg, -ENOENT, arg);
        weft_hub_free(msg);
    }
    return 0;
}

TEST(the_error_of_a_reply_has_its_code_and_text)
{
    spin_exposed(hub, "a", fail_all, "no such order");
    ck_assert_int_eq(weft_hub_call(hub, "a", "x", 1, NULL), -ENOENT);
    ck_assert_error(-ENOENT, "no such order");
}

TEST(the_text_of_an_error_may_be_missing)
{
    spin_exposed(hub, "a", fail_all, NULL);
    ck_assert_int_eq(weft_hub_call(hub, "a", "x", 1, NULL), -ENOENT);
}

TEST(a_long_text_of_an_error_is_cut)
{
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    spin_exposed(hub, "a", fail_all, text);
    ck_assert_int_eq(weft_hub_call(hub, "a", "x", 1, NULL), -ENOENT);
    ck_assert_uint_gt(strlen(weft_error()->message), 100);
}

/* Reply twice, and check the errors of wrong replies. */
static weft_value reply_wrongly(void *arg)
{
    weft_hub_msg *msg = receive_msg();
    ck_assert_fails(weft_hub_fail(msg, 1, "x"), -EINVAL);
    ck_assert_fails(weft_hub_fail(msg, -4096, "x"), -EINVAL);
    ck_assert_fails(weft_hub_reply(msg, NULL, 1), -EINVAL);
    ck_assert_done(weft_hub_reply(msg, "first", 5));
    ck_assert_fails(weft_hub_reply(msg, "second", 6), -EALREADY);
    ck_assert_fails(weft_hub_fail(msg, -EIO, "x"), -EALREADY);
    weft_hub_free(msg);
    return 0;
}

TEST(a_call_has_one_reply)
{
    weft_fiber f = weft_spin(reply_wrongly, NULL);
    ck_assert_done(expose(hub, "a", f));
    assert_call(hub, "a", "x", "first");
    ck_assert_int_eq(weft_await(f), 0);
}

static weft_value free_all(void *arg)
{
    weft_hub_msg *msg;
    while ((msg = receive_msg()) != NULL)
        weft_hub_free(msg);
    return 0;
}

TEST(a_freed_call_without_a_reply_is_eownerdead)
{
    spin_exposed(hub, "a", free_all, NULL);
    ck_assert_fails(weft_hub_call(hub, "a", "x", 1, NULL), -EOWNERDEAD);
}

static const char *const wrong_names[] = {"",     ".",      "a.",  ".a",    "a..b",
                                          "a b",  "*",      "a.>", "a\n",   "a/b",
                                          "\xc3", "weft.a", "a,b", "$JS.a", "a.\t"};

TEST_ROWS(a_wrong_name_is_einval, wrong_names)
{
    ck_assert_fails(weft_hub_tell(hub, wrong_names[_i], "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_call(hub, wrong_names[_i], "x", 1, NULL), -EINVAL);
}

TEST(missing_arguments_are_einval)
{
    ck_assert_fails(weft_hub_tell(NULL, "a", "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_call(NULL, "a", "x", 1, NULL), -EINVAL);
    ck_assert_fails(weft_hub_tell(hub, NULL, "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_tell(hub, "a", NULL, 1), -EINVAL);
    ck_assert_fails(weft_hub_call(hub, "a", NULL, 1, NULL), -EINVAL);
    ck_assert_fails(weft_hub_reply(NULL, "x", 1), -EINVAL);
    ck_assert_fails(weft_hub_fail(NULL, -EIO, "x"), -EINVAL);
    ck_assert_fails(weft__hub_stats(hub, NULL, 1), -EINVAL);
    weft_hub_free(NULL);
    ck_assert_int_eq(weft_hub_close(NULL), 0);
}

/* Options, and the part of weft_hub_options that is wrong. */
static const weft_hub_options wrong_options[] = {
    {.lease_s = 9.9},   {.lease_s = 1e300},    {.lease_s = -1},
    {.lease_s = NAN},   {.lease_s = INFINITY}, {.connect_s = -1},
    {.connect_s = NAN}, {.replicas = 6},       {.message_bytes = SIZE_MAX},
};

TEST_ROWS(a_wrong_option_is_einval, wrong_options)
{
    ck_assert_ptr_null(weft_hub_open(hub_where(), &wrong_options[_i]));
    ck_assert_any_error(-EINVAL);
}

static const char *const wrong_urls[] = {
    "",
    "nats://",
    "nats://a:0",
    "nats://a:65536",
    "nats://a:x",
    "http://a",
    "nats://a b",
    "nats://[::1",
    "nats://a,",
    "nats://a:1:2",
    "nats://%zz@a",
    "nats://u:%0@a",
    "nats://[g h]",
    "nats://a\n",
    ",",
};

TEST_ROWS(a_wrong_url_is_einval, wrong_urls)
{
    ck_assert_ptr_null(weft_hub_open(wrong_urls[_i], NULL));
    ck_assert_any_error(-EINVAL);
}

TEST(a_hub_without_urls_is_einval)
{
    ck_assert_ptr_null(weft_hub_open(NULL, NULL));
    ck_assert_any_error(-EINVAL);
}

static weft_value be_silent(void *arg)
{
    weft_value rc = weft_sleep(INFINITY);
    weft_value msg;
    while (!weft_is_error(msg = weft_try_receive()))
        weft_hub_free((weft_hub_msg *)msg);
    return rc;
}

TEST(calls_to_a_silent_fiber_end_with_their_scopes)
{
    caller c = {hub, "silent"};
    weft_fiber f[64], silent = spin_exposed(hub, "silent", be_silent, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(run_caller, &c);
    let_run();
    ck_assert_uint_eq(hub_stats(hub).in_flight, COUNT_OF(f));
    ck_assert_times_out(0.05,
                        ck_assert_int_eq(weft_hub_call(hub, "silent", "x", 1, NULL), -ECANCELED));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_int_eq(cancel_and_await(f[i]), -ECANCELED);
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
    weft_terminate(silent, 0);
    spin_exposed(hub, "echo", echo_all, NULL);
    assert_call(hub, "echo", "still here", "still here");
}

static weft_value call_often(void *arg)
{
    for (int i = 0; i < 100; i++) {
        char text[64];
        snprintf(text, sizeof text, "%llu %d", (unsigned long long)weft_self(), i);
        assert_call(arg, "echo", text, text);
    }
    return 0;
}

TEST(many_calls_at_a_time_get_their_own_replies)
{
    weft_fiber f[200];
    spin_exposed(hub, "echo", echo_all, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(call_often, hub);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    weft_hub_counters c = hub_stats(hub);
    ck_assert_uint_eq(c.sent, 2 * 100 * COUNT_OF(f));
    ck_assert_uint_eq(c.received, c.sent);
    ck_assert_uint_eq(c.dropped + c.lost + c.reconnects + c.in_flight, 0);
}

TEST(a_hub_reaches_fibers_of_another_hub)
{
    weft_hub *other = open_hub();
    spin_exposed(other, "echo", echo_all, NULL);
    assert_call(hub, "echo", "across", "across");
    close_hub(other);
    ck_assert_fails(weft_hub_call(hub, "echo", "x", 1, NULL), -EHOSTUNREACH);
}

TEST(replies_of_replies_are_possible)
{
    weft_hub_msg *reply;
    spin_exposed(hub, "echo", echo_all, NULL);
    ck_assert_done(weft_hub_call(hub, "echo", "x", 1, &reply));
    ck_assert(!reply->is_call);
    ck_assert_str_eq(reply->to, "echo");
    ck_assert_fails(weft_hub_reply(reply, "x", 1), -EINVAL);
    weft_hub_free(reply);
}

static void *tell_from_thread(void *arg)
{
    ck_assert_fails(weft_hub_tell(arg, "a", "x", 1), -EXDEV);
    ck_assert_fails(weft_hub_call(arg, "a", "x", 1, NULL), -EXDEV);
    ck_assert_fails(weft_hub_close(arg), -EXDEV);
    weft_hub_counters c;
    ck_assert_fails(weft_hub_stats(arg, &c), -EXDEV);
    return NULL;
}

TEST(a_hub_of_another_thread_is_exdev)
{
    join_thread(start_thread(tell_from_thread, hub));
}

TEST(inboxes_are_different_and_get_messages_once)
{
    char a[WEFT__INBOX_BYTES], b[WEFT__INBOX_BYTES];
    weft__hub_inbox(hub, a);
    weft__hub_inbox(hub, b);
    ck_assert_str_ne(a, b);
    ck_assert_done(expose(hub, a, weft_self()));
    ck_assert_done(weft_hub_tell(hub, a, "x", 1));
    weft_hub_free(receive_msg());
    ck_assert_done(weft__hub_flush(hub));
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    ck_assert_uint_eq(hub_stats(hub).received, 1);
}
