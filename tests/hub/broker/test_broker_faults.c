/* Brokers: their life, injected faults and slow clients. */
#include "hub/broker/raw_client.h"
#include "support/net_support.h"

static raw_client a, b;
static weft_hub_broker *broker;

static void get_broker(void)
{
    unsetenv("WEFT_HUB_URL"); /* a server has no such faults */
    broker = weft_hub_broker_get("");
    ck_assert_ptr_nonnull(broker);
}

static void release_broker(void)
{
    weft_hub_broker_release(broker);
}

FIXTURE(get_broker, release_broker)

static void open_named(raw_client *c, const char *name)
{
    raw_open_with(c, format(",\"name\":\"%s\"", name));
    raw_send(c, "SUB r.* 1\r\n");
    raw_sync(c);
}

/* Assert that nothing arrives at a client now. */
static void assert_gets_nothing(raw_client *c)
{
    const void *data;
    let_run();
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_stream_peek(&c->stream, 1, &data), -ECANCELED);
    }
}

TEST(a_cut_breaks_the_connections_with_a_name)
{
    raw_client other;
    open_named(&a, "one");
    open_named(&b, "two");
    open_named(&other, "one");
    raw_send(&a, "SUB s 2\r\n");
    raw_sync(&a);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "none"), 0);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "one"), 2);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "one"), 0);
    raw_ask(&b, "s", "");
    raw_expect(&b, "r.1 #1 {NATS/1.0 503||} ''");
    raw_expect(&a, "end");
    raw_expect(&other, "end");
    ck_assert_int_eq(weft_hub_broker_cut(broker, NULL), 1);
    raw_expect(&b, "end");
    raw_close(&a);
    raw_close(&b);
    raw_close(&other);
}

TEST(an_isolated_hub_neither_sends_nor_receives_until_the_end_of_the_isolation)
{
    open_named(&a, "one");
    open_named(&b, "two");
    raw_send(&a, "SUB s 2\r\n");
    raw_send(&b, "SUB t 2\r\n");
    raw_sync(&a);
    raw_sync(&b);
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "one", true), 0);
    raw_publish(&b, "s", NULL, NULL, "to one");
    raw_publish(&a, "t", NULL, NULL, "from one");
    raw_sync(&b);
    assert_gets_nothing(&a);
    assert_gets_nothing(&b);
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "one", false), 0);
    raw_expect(&a, "s #2 'to one'");
    raw_expect(&b, "t #2 'from one'");
    raw_close(&a);
    raw_close(&b);
}

TEST(a_new_connection_of_an_isolated_hub_waits)
{
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "one", true), 0);
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "one", true), 0);
    int fd = weft__broker_connect("");
    ck_assert_int_eq(weft_stream_open(&a.stream, fd), 0);
    raw_next(&a);
    raw_send(&a, "CONNECT {\"name\":\"one\",\"verbose\":false}\r\nPING\r\n");
    assert_gets_nothing(&a);
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "one", false), 0);
    raw_expect(&a, "PONG");
    raw_close(&a);
}

TEST(an_isolated_connection_can_be_cut)
{
    open_named(&a, "one");
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "one", true), 0);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "one"), 1);
    raw_expect(&a, "end");
    raw_close(&a);
}

TEST(a_paused_broker_replies_to_nobody_and_continues_where_it_was)
{
    open_named(&a, "one");
    ck_assert_int_eq(weft_hub_broker_pause(broker, true), 0);
    raw_send(&a, "SUB s 2\r\n");
    raw_publish(&a, "s", NULL, NULL, "x");
    int fd = weft__broker_connect("");
    ck_assert_int_eq(weft_stream_open(&b.stream, fd), 0);
    assert_gets_nothing(&a);
    assert_gets_nothing(&b);
    ck_assert_int_eq(weft_hub_broker_pause(broker, false), 0);
    raw_expect(&a, "s #2 'x'");
    ck_assert_int_eq(strncmp(raw_next(&b), "INFO", 4), 0);
    raw_close(&a);
    raw_close(&b);
}

TEST(timers_of_a_paused_broker_run_after_the_pause)
{
    raw_open(&a);
    raw_expect_json(&a, "$JS.API.STREAM.CREATE.W", "{\"name\":\"W\",\"retention\":\"workqueue\"}",
                    "error=");
    raw_expect_json(&a, "$JS.API.CONSUMER.DURABLE.CREATE.W.c",
                    "{\"config\":{\"durable_name\":\"c\",\"ack_policy\":\"explicit\"}}", "error=");
    raw_ask(&a, "$JS.API.CONSUMER.MSG.NEXT.W.c", "{\"batch\":1,\"expires\":50000000}");
    raw_sync(&a);
    ck_assert_int_eq(weft_hub_broker_pause(broker, true), 0);
    weft_sleep(0.1);
    assert_gets_nothing(&a);
    ck_assert_int_eq(weft_hub_broker_pause(broker, false), 0);
    ck_assert_ptr_nonnull(strstr(raw_next(&a), "408"));
    raw_close(&a);
}

TEST(a_broker_can_be_released_while_it_is_paused)
{
    ck_assert_int_eq(weft_hub_broker_pause(broker, true), 0);
    weft_hub_broker_release(broker);
    broker = weft_hub_broker_get("");
    raw_open(&a); /* of a new broker */
    raw_sync(&a);
    raw_close(&a);
}

TEST(a_client_that_does_not_read_is_disconnected_and_does_not_delay_others)
{
    size_t bytes = 1024 * 1024;
    char *payload = calloc(1, bytes + 1);
    memset(payload, 'x', bytes);
    open_named(&a, "slow");
    open_named(&b, "fast");
    raw_send(&a, "SUB s 2\r\n");
    raw_sync(&a);
    unsigned sent = 0;
    do {
        ck_assert_uint_lt(sent++, 100);
        raw_send(&b, format("PUB s r.%u %zu\r\n", sent, bytes));
        raw_send(&b, payload);
        raw_send(&b, "\r\nPING\r\n");
    } while (strcmp(raw_next(&b), "PONG") == 0);
    ck_assert_ptr_nonnull(strstr(b.text, "503")); /* the slow client is gone */
    raw_expect(&b, "PONG");
    ck_assert_int_eq(weft_hub_broker_cut(broker, "slow"), 0);
    raw_close(&a);
    raw_close(&b);
    free(payload);
}

/* The intervals are minutes: on sim, they take no time. */
TEST(a_silent_client_is_pinged_and_disconnected)
{
    if (!is_sim())
        return;
    open_named(&a, "replies");
    open_named(&b, "is silent");
    for (int i = 0; i < 10; i++) {
        weft_sleep(100);
        raw_sync(&a); /* replies to the pings too */
    }
    ck_assert_int_eq(weft_hub_broker_cut(broker, "is silent"), 0);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "replies"), 1);
    raw_close(&a);
    raw_close(&b);
}

TEST(a_broker_keeps_its_data_as_long_as_it_is_used)
{
    raw_open(&a);
    raw_expect_json(&a, "$JS.API.STREAM.CREATE.S", "{\"name\":\"S\"}", "error=");
    raw_close(&a);
    let_run();
    raw_open(&a);
    raw_expect_json(&a, "$JS.API.STREAM.INFO.S", "", "error=");
    weft_hub_broker_release(broker);
    broker = NULL;
    raw_expect_json(&a, "$JS.API.STREAM.INFO.S", "", "error=");
    raw_close(&a);
    let_run(); /* the end of the connection is noticed */
    raw_open(&a);
    raw_expect_json(&a, "$JS.API.STREAM.INFO.S", "", "error.code=404");
    raw_close(&a);
}

TEST(brokers_with_different_names_have_nothing_in_common)
{
    weft_hub_broker *other = weft_hub_broker_get("other");
    ck_assert_ptr_ne(other, broker);
    ck_assert_int_eq(weft_hub_broker_pause(other, true), 0);
    raw_open(&a);
    raw_sync(&a);
    raw_close(&a);
    weft_hub_broker_release(other);
}

TEST(a_name_that_is_not_valid_is_an_error)
{
    char name[66] = {0};
    memset(name, 'x', 65);
    ck_assert_ptr_null(weft_hub_broker_get(NULL));
    ck_assert_any_error(-EINVAL);
    ck_assert_ptr_null(weft_hub_broker_get(name));
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft__broker_connect(name), -EINVAL);
    weft_hub_broker_release(NULL);
    ck_assert_int_eq(weft_hub_broker_cut(NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_hub_broker_isolate(broker, NULL, true), -EINVAL);
    weft_error_clear();
}

TEST(a_broker_and_its_connections_do_not_keep_the_main_fiber_waiting)
{
    raw_open(&a);
    raw_sync(&a);
    ck_assert_int_eq(weft_suspend(), 0);
    raw_close(&a);
}

FIBER(serve, weft_hub_broker_serve(broker, (int)(intptr_t)arg))

TEST(clients_connect_to_a_listening_socket_until_the_server_is_cancelled)
{
    if (is_sim())
        return; /* no network */
    int port, listener = weft_listen("tcp", "127.0.0.1:0");
    struct sockaddr_in address;
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(
        getsockname(listener, (struct sockaddr *)&address, &(socklen_t){sizeof address}), 0);
    port = ntohs(address.sin_port);
    weft_fiber server = weft_spin(serve, (void *)(intptr_t)listener);
    int fd = weft_dial("tcp", format("127.0.0.1:%d", port));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_stream_open(&a.stream, fd), 0);
    ck_assert_int_eq(strncmp(raw_next(&a), "INFO", 4), 0);
    raw_send(&a, "CONNECT {\"verbose\":false}\r\nSUB s 2\r\n");
    raw_sync(&a);
    raw_open(&b);
    raw_publish(&b, "s", NULL, NULL, "over TCP");
    raw_expect(&a, "s #2 'over TCP'");
    ck_assert_int_eq(cancel_and_await(server), -ECANCELED);
    raw_expect(&a, "end");
    raw_sync(&b);
    raw_close(&a);
    raw_close(&b);
    weft_close(listener);
}
