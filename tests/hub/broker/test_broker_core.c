/*
 * Brokers without JetStream: subscriptions, queue groups, requests, errors. Also of real servers.
 */
#include "hub/broker/raw_client.h"

static raw_client a, b;

/* Assert that the next messages have this subject, and exactly these sids, in any order. */
static void expect_sids(raw_client *c, const char *subject, unsigned count, const unsigned *sids)
{
    uint64_t expected = 0, seen = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned sid;
        ck_assert_int_eq(sscanf(raw_next(c), format("%s #%%u", subject), &sid), 1);
        seen |= UINT64_C(1) << sid;
        expected |= UINT64_C(1) << sids[i];
    }
    ck_assert_uint_eq(seen, expected);
    raw_sync(c);
}

TEST(a_message_reaches_the_subscriptions_that_match_its_subject)
{
    raw_open(&a);
    raw_open(&b);
    raw_send(&b, "SUB x.y 2\r\nSUB x.* 3\r\nSUB x.> 4\r\nSUB x.y.z 5\r\nSUB *.y 6\r\nSUB > 7\r\n");
    raw_sync(&b);
    raw_publish(&a, "x.y.z", NULL, NULL, "deep");
    expect_sids(&b, "x.y.z", 3, (unsigned[]){4, 5, 7});
    raw_publish(&a, "x.y", NULL, NULL, "flat");
    expect_sids(&b, "x.y", 5, (unsigned[]){2, 3, 4, 6, 7});
    raw_close(&a);
    raw_close(&b);
}

TEST(headers_and_the_reply_subject_travel_with_a_message)
{
    raw_open(&a);
    raw_send(&a, "SUB s 2\r\n");
    raw_publish(&a, "s", "back", "Color: red\r\n", "data");
    raw_expect(&a, "s #2 -> back {NATS/1.0|Color: red||} 'data'");
    raw_publish(&a, "s", NULL, "Color: red\r\n", "");
    raw_expect(&a, "s #2 {NATS/1.0|Color: red||} ''");
    raw_close(&a);
}

TEST(a_client_without_headers_gets_messages_without_headers)
{
    raw_open(&a);
    raw_open_with(&b, ",\"headers\":false,\"no_responders\":false");
    raw_send(&b, "SUB s 2\r\n");
    raw_sync(&b);
    raw_publish(&a, "s", NULL, "Color: red\r\n", "data");
    raw_expect(&b, "s #2 'data'");
    raw_close(&a);
    raw_close(&b);
}

TEST(a_request_without_a_subscriber_gets_status_503)
{
    raw_open(&a);
    raw_ask(&a, "nobody", "");
    raw_expect(&a, "r.1 #1 {NATS/1.0 503||} ''");
    raw_publish(&a, "nobody", NULL, NULL, ""); /* not a request */
    raw_sync(&a);
    raw_close(&a);
}

TEST(without_no_responders_a_client_gets_no_status)
{
    raw_open_with(&a, ",\"no_responders\":false");
    raw_send(&a, "SUB r.* 1\r\n");
    raw_ask(&a, "nobody", "");
    raw_sync(&a);
    raw_close(&a);
}

TEST(without_echo_a_client_does_not_get_its_own_messages)
{
    raw_open_with(&a, ",\"echo\":false");
    raw_open(&b);
    raw_send(&a, "SUB s 2\r\n");
    raw_sync(&a);
    raw_publish(&a, "s", NULL, NULL, "own");
    raw_sync(&a);
    raw_publish(&b, "s", NULL, NULL, "other");
    raw_expect(&a, "s #2 'other'");
    raw_close(&a);
    raw_close(&b);
}

/* Count the messages for two sids until PONG. */
static void count_deliveries(raw_client *c, unsigned *first, unsigned *second)
{
    const char *text;
    raw_send(c, "PING\r\n");
    while (strcmp(text = raw_next(c), "PONG") != 0) {
        *first += strstr(text, "#2") != NULL;
        *second += strstr(text, "#3") != NULL;
    }
}

TEST(one_member_of_a_queue_group_gets_each_message_and_all_members_get_some)
{
    unsigned first = 0, second = 0;
    raw_open(&a);
    raw_send(&a, "SUB s g 2\r\nSUB s.* g 9\r\nSUB * g 3\r\n");
    for (int i = 0; i < 200; i++)
        raw_publish(&a, "s", NULL, NULL, "");
    count_deliveries(&a, &first, &second);
    ck_assert_uint_eq(first + second, 200);
    ck_assert_uint_gt(first, 0);
    ck_assert_uint_gt(second, 0);
    raw_close(&a);
}

TEST(each_queue_group_and_each_plain_subscription_gets_a_message)
{
    raw_open(&a);
    raw_send(&a, "SUB s g 2\r\nSUB s h 3\r\nSUB s 4\r\n");
    raw_publish(&a, "s", NULL, NULL, "");
    expect_sids(&a, "s", 3, (unsigned[]){2, 3, 4});
    raw_close(&a);
}

TEST(a_subscription_ends_at_once_or_after_a_number_of_messages)
{
    raw_open(&a);
    raw_send(&a, "SUB s 2\r\nSUB s 3\r\nUNSUB 2\r\nUNSUB 3 2\r\nUNSUB 99\r\n");
    for (int i = 0; i < 3; i++)
        raw_publish(&a, "s", NULL, NULL, format("%d", i));
    raw_expect(&a, "s #3 '0'");
    raw_expect(&a, "s #3 '1'");
    raw_sync(&a);
    /* The number counts from the begin of the subscription. */
    raw_send(&a, "SUB s 4\r\n");
    raw_publish(&a, "s", NULL, NULL, "x");
    raw_expect(&a, "s #4 'x'");
    raw_send(&a, "UNSUB 4 1\r\n");
    raw_publish(&a, "s", NULL, NULL, "y");
    raw_sync(&a);
    raw_close(&a);
}

TEST(the_subscriptions_of_a_closed_connection_end)
{
    raw_open(&a);
    raw_open(&b);
    raw_send(&b, "SUB s 2\r\n");
    raw_sync(&b);
    raw_ask(&a, "s", "1");
    raw_expect(&b, "s #2 -> r.1 '1'");
    raw_close(&b);
    /* The end of a connection is noticed later. */
    do
        raw_ask(&a, "s", "");
    while (raw_send(&a, "PING\r\n"), strcmp(raw_next(&a), "PONG") == 0);
    ck_assert_ptr_nonnull(strstr(a.text, "503"));
    raw_close(&a);
}

TEST(a_verbose_client_gets_a_confirmation_of_each_operation)
{
    raw_open(&a);
    raw_send(&a, "CONNECT {\"verbose\":true}\r\n");
    raw_expect(&a, "+OK");
    raw_send(&a, "SUB s 2\r\nUNSUB 2\r\nPUB s 0\r\n\r\n");
    for (int i = 0; i < 3; i++)
        raw_expect(&a, "+OK");
    raw_close(&a);
}

TEST(a_message_of_the_largest_size_is_delivered_and_a_larger_one_ends_the_connection)
{
    size_t bytes = 1024 * 1024;
    char *payload = calloc(1, bytes + 1);
    memset(payload, 'x', bytes);
    raw_open(&a);
    raw_send(&a, "SUB s 2\r\n");
    raw_send(&a, format("PUB s %zu\r\n", bytes));
    raw_send(&a, payload);
    raw_send(&a, "\r\n");
    raw_next(&a);
    ck_assert_uint_eq(strlen(a.payload), sizeof a.payload - 1); /* cut off by the test */
    raw_send(&a, format("PUB s %zu\r\n", bytes + 1));
    raw_expect(&a, "-ERR Maximum Payload Violation");
    raw_expect(&a, "end");
    raw_close(&a);
    free(payload);
}

static const char *const violations[] = {"FOO\r\n",       "PUB\r\n",
                                         "PUB s\r\n",     "PUB s x\r\n",
                                         "PUB s -1\r\n",  "PUB s 1\r\nabc\r\n",
                                         "SUB s\r\n",     "HPUB s 5 3\r\nabc\r\n",
                                         "CONNECT {\r\n", "MSG s 1 0\r\n\r\n"};

TEST_ROWS(a_violation_of_the_protocol_ends_the_connection, violations)
{
    raw_open(&a);
    raw_send(&a, violations[_i]);
    if (strncmp(raw_next(&a), "-ERR", 4) == 0)
        raw_expect(&a, "end");
    ck_assert_str_eq(raw_next(&a), "end");
    raw_close(&a);
}

TEST(an_operation_may_arrive_in_any_pieces)
{
    const char *text = "SUB s 2\r\nHPUB s r 22 26\r\nNATS/1.0\r\nA: b c d\r\n\r\ndata\r\nPING\r\n";
    raw_open(&a);
    for (const char *p = text; *p != '\0'; p++) {
        raw_send(&a, (char[]){*p, '\0'});
        weft_snooze();
    }
    raw_expect(&a, "s #2 -> r {NATS/1.0|A: b c d||} 'data'");
    raw_expect(&a, "PONG");
    raw_close(&a);
}
