/* Consumers: pulls, acknowledgements and redelivery. Of brokers, and of real servers. */
#include "hub/broker/raw_client.h"

#define NEXT "$JS.API.CONSUMER.MSG.NEXT.W.work"
#define INFO "$JS.API.CONSUMER.INFO.W.work"
#define CREATE "$JS.API.CONSUMER.DURABLE.CREATE.W.work"
#define TIMEOUT(messages) \
    "{NATS/1.0 408 Request Timeout|Nats-Pending-Messages: " messages "|Nats-Pending-Bytes: 0||} ''"

static raw_client c, d;

static const char *consumer_config(const char *more)
{
    return format("{\"stream_name\":\"W\",\"config\":{\"durable_name\":\"work\","
                  "\"ack_policy\":\"explicit\"%s}}",
                  more);
}

/* Create the work queue W with a subject w.> and the consumer work. */
static void create_queue(const char *more)
{
    raw_open(&c);
    raw_expect_json(&c, "$JS.API.STREAM.CREATE.W",
                    "{\"name\":\"W\",\"subjects\":[\"w.>\"],\"retention\":\"workqueue\","
                    "\"storage\":\"memory\"}",
                    "error=");
    raw_expect_json(&c, CREATE, consumer_config(more), "error= name=work stream_name=W");
}

static void put(const char *payload)
{
    assert_json(raw_request_with(&c, "w.x", NULL, payload), "error= stream=W");
}

/* Pull one message into c. Assert its description. The reply to the message is in ack. */
static char ack[256];

static void expect_pull(const char *expected)
{
    raw_ask(&c, NEXT, "{\"batch\":1}");
    raw_expect(&c, expected);
    strcpy(ack, c.reply);
}

static void expect_confirmed(const char *subject, const char *body)
{
    raw_ask(&c, subject, body);
    raw_expect(&c, format("r.%u #1 ''", c.requests));
}

TEST(a_pulled_message_names_its_consumer_deliveries_and_sequences)
{
    create_queue("");
    put("a");
    put("b");
    raw_ask(&c, NEXT, "{\"batch\":2}");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.1.1.T.1 'a'");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.2.2.T.0 'b'");
    raw_expect_json(&c, INFO, "",
                    "num_ack_pending=2 num_pending=0 num_waiting=0 delivered.consumer_seq=2 "
                    "delivered.stream_seq=2 config.ack_wait=30000000000 "
                    "config.max_ack_pending=1000 config.max_deliver=-1");
    raw_close(&c);
}

TEST(headers_are_delivered_as_they_were_stored)
{
    create_queue("");
    assert_json(raw_request_with(&c, "w.x", "Nats-Msg-Id: 7\r\nA: b\r\n", "a"), "seq=1");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 {NATS/1.0|Nats-Msg-Id: 7|A: b||} 'a'");
    raw_close(&c);
}

TEST(an_acknowledgement_that_is_a_request_is_confirmed_and_removes_the_message)
{
    create_queue("");
    put("a");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    expect_confirmed(ack, "+ACK");
    raw_expect_json(&c, INFO, "", "num_ack_pending=0 ack_floor.stream_seq=1");
    raw_expect_json(&c, "$JS.API.STREAM.INFO.W", "", "state.messages=0");
    expect_confirmed(ack, "+ACK"); /* a second one has no effect */
    raw_close(&c);
}

TEST(an_acknowledgement_without_a_request_and_an_empty_one_count_too)
{
    create_queue("");
    put("a");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    raw_publish(&c, ack, NULL, NULL, "");
    /* A server handles acknowledgements later. */
    while (strstr(raw_request_with(&c, INFO, NULL, ""), "\"num_ack_pending\":0") == NULL)
        weft_sleep(0.01);
    raw_close(&c);
}

TEST(acknowledgements_for_a_consumer_that_does_not_exist_have_no_responder)
{
    create_queue("");
    raw_ask(&c, "$JS.ACK.W.other.1.1.1.1.0", "+ACK");
    raw_expect(&c, "r.3 #1 {NATS/1.0 503||} ''");
    raw_ask(&c, "$JS.ACK.X.work.1.1.1.1.0", "+ACK");
    raw_expect(&c, "r.4 #1 {NATS/1.0 503||} ''");
    raw_ask(&c, "$JS.ACK.W.work.1", "+ACK");
    raw_expect(&c, "r.5 #1 {NATS/1.0 503||} ''");
    raw_close(&c);
}

TEST(a_pull_that_does_not_wait_gets_a_status_if_there_is_no_message)
{
    create_queue("");
    raw_ask(&c, NEXT, "{\"batch\":5,\"no_wait\":true}");
    raw_expect(&c, "r.3 #1 {NATS/1.0 404 No Messages||} ''");
    put("a");
    raw_ask(&c, NEXT, "{\"batch\":5,\"no_wait\":true}");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    raw_expect(&c, "r.5 #1 " TIMEOUT("4"));
    raw_close(&c);
}

TEST(a_pull_expires)
{
    create_queue("");
    raw_ask(&c, NEXT, "{\"batch\":2,\"expires\":100000000}");
    raw_expect(&c, "r.3 #1 " TIMEOUT("2"));
    raw_ask(&c, NEXT, "{\"batch\":2,\"expires\":100000000,\"no_wait\":true}");
    raw_expect(&c, "r.4 #1 " TIMEOUT("2"));
    raw_close(&c);
}

TEST(a_pull_waits_for_messages)
{
    create_queue("");
    raw_open(&d);
    raw_ask(&d, NEXT, "2");
    raw_sync(&d);
    put("a");
    raw_expect(&d, "w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    put("b");
    raw_expect(&d, "w.x #1 -> $JS.ACK.W.work.1.2.2.T.0 'b'");
    raw_expect_json(&c, INFO, "", "num_waiting=0");
    raw_close(&c);
    raw_close(&d);
}

TEST(a_waiting_pull_gets_heartbeats)
{
    create_queue("");
    raw_ask(&c, NEXT, "{\"batch\":1,\"expires\":1000000000,\"idle_heartbeat\":200000000}");
    raw_expect(&c, "r.3 #1 {NATS/1.0 100 Idle Heartbeat|Nats-Last-Consumer: 0|Nats-Last-Stream: "
                   "0||} ''");
    raw_ask(&c, NEXT, "{\"batch\":1,\"idle_heartbeat\":200000000}");
    raw_expect(&c, "r.4 #1 {NATS/1.0 400 Bad Request - heartbeat value too large||} ''");
    raw_close(&c);
}

TEST(a_pull_that_is_not_json_gets_status_400)
{
    create_queue("");
    raw_ask(&c, NEXT, "{\"batch\":");
    ck_assert_ptr_nonnull(strstr(raw_next(&c), "NATS/1.0 400 Bad Request"));
    raw_close(&c);
}

TEST(too_many_waiting_pulls_get_status_409)
{
    create_queue(",\"max_waiting\":2");
    for (int i = 0; i < 3; i++)
        raw_ask(&c, NEXT, "{\"batch\":1,\"expires\":10000000000}");
    raw_expect(&c, "r.5 #1 {NATS/1.0 409 Exceeded MaxWaiting||} ''");
    raw_close(&c);
}

TEST(messages_are_spread_over_waiting_pulls)
{
    create_queue("");
    raw_open(&d);
    raw_send(&d, "SUB p.* 7\r\n");
    raw_publish(&d, NEXT, "p.1", NULL, "{\"batch\":2}");
    raw_publish(&d, NEXT, "p.2", NULL, "{\"batch\":2}");
    raw_sync(&d);
    for (int i = 0; i < 4; i++)
        put("a");
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(strstr(raw_next(&d), "w.x #7"));
    raw_close(&c);
    raw_close(&d);
}

TEST(a_message_without_acknowledgement_is_delivered_again)
{
    create_queue(",\"ack_wait\":200000000");
    put("a");
    for (int i = 1; i <= 3; i++)
        expect_pull(format("w.x #1 -> $JS.ACK.W.work.%d.1.%d.T.0 'a'", i, i));
    expect_confirmed(ack, "+ACK");
    raw_expect_json(&c, INFO, "", "num_ack_pending=0");
    raw_close(&c);
}

TEST(a_message_of_a_closed_connection_is_delivered_to_another)
{
    create_queue(",\"ack_wait\":200000000");
    raw_open(&d);
    put("a");
    raw_ask(&d, NEXT, "{\"batch\":10}");
    raw_expect(&d, "w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    raw_close(&d); /* its pull still wants 9 messages */
    expect_pull("w.x #1 -> $JS.ACK.W.work.2.1.2.T.0 'a'");
    raw_close(&c);
}

TEST(a_rejected_message_is_delivered_again_at_once_or_after_a_delay)
{
    create_queue("");
    put("a");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    expect_confirmed(ack, "-NAK");
    expect_pull("w.x #1 -> $JS.ACK.W.work.2.1.2.T.0 'a'");
    expect_confirmed(ack, "-NAK {\"delay\":100000000}");
    expect_pull("w.x #1 -> $JS.ACK.W.work.3.1.3.T.0 'a'");
    raw_close(&c);
}

TEST(work_in_progress_postpones_the_next_delivery)
{
    create_queue(",\"ack_wait\":500000000");
    put("a");
    put("b");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.1 'a'");
    raw_ask(&c, NEXT, "");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.2.2.T.0 'b'");
    weft_sleep(0.3); /* a server sorts deliveries that are due at about the same time */
    expect_confirmed(ack, "+WPI");
    expect_pull("w.x #1 -> $JS.ACK.W.work.2.2.3.T.0 'b'");
    expect_pull("w.x #1 -> $JS.ACK.W.work.2.1.4.T.0 'a'");
    raw_close(&c);
}

TEST(a_terminated_message_is_not_delivered_again)
{
    create_queue(",\"ack_wait\":200000000");
    put("a");
    put("b");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.1 'a'");
    expect_confirmed(ack, "+TERM");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.2.2.T.0 'b'");
    expect_pull("w.x #1 -> $JS.ACK.W.work.2.2.3.T.0 'b'");
    raw_close(&c);
}

TEST(next_acknowledges_and_pulls)
{
    create_queue("");
    put("a");
    put("b");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.1 'a'");
    raw_ask(&c, ack, "+NXT");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.2.2.T.0 'b'");
    raw_expect_json(&c, "$JS.API.STREAM.INFO.W", "", "state.messages=1");
    raw_close(&c);
}

TEST(a_message_is_delivered_at_most_as_often_as_configured)
{
    create_queue(",\"ack_wait\":100000000,\"max_deliver\":2");
    put("a");
    put("b");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.1 'a'");
    expect_confirmed(ack, "-NAK");
    expect_pull("w.x #1 -> $JS.ACK.W.work.2.1.2.T.1 'a'");
    expect_confirmed(ack, "-NAK");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.2.3.T.0 'b'");
    raw_expect_json(&c, "$JS.API.STREAM.INFO.W", "", "state.messages=2");
    raw_close(&c);
}

TEST(the_number_of_messages_without_acknowledgement_is_bounded)
{
    create_queue(",\"max_ack_pending\":2");
    for (int i = 0; i < 3; i++)
        put(format("%d", i));
    raw_ask(&c, NEXT, "{\"batch\":3}");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.1.1.T.2 '0'");
    strcpy(ack, c.reply);
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.2.2.T.1 '1'");
    raw_expect_json(&c, INFO, "", "num_ack_pending=2 num_pending=1 num_waiting=1");
    raw_publish(&c, ack, NULL, NULL, "+ACK");
    raw_expect(&c, "w.x #1 -> $JS.ACK.W.work.1.3.3.T.0 '2'");
    raw_close(&c);
}

TEST(creating_a_consumer_again_changes_its_times_and_limits)
{
    create_queue("");
    put("a");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    raw_expect_json(&c, CREATE, consumer_config(",\"ack_wait\":5000000000,\"max_deliver\":3"),
                    "error= config.ack_wait=5000000000 config.max_deliver=3 num_ack_pending=1");
    raw_expect_json(&c, CREATE, consumer_config(",\"deliver_policy\":\"new\""),
                    "error.code=500 error.err_code=10012");
    raw_close(&c);
}

static const struct {
    const char *subject, *config, *err_code;
} bad_consumers[] = {
    {"W.other", "\"durable_name\":\"other\",\"ack_policy\":\"explicit\"", "10099"},
    {"W.other", "\"durable_name\":\"wrong\",\"ack_policy\":\"explicit\"", "10017"},
    {"W.other", "\"durable_name\":\"other\"", "10084"},
    {"X.other", "\"durable_name\":\"other\"", "10059"},
    {"W.other", "\"durable_name\":\"other\",\"ack_policy\":\"maybe\"", "10025"},
};

TEST_ROWS(a_consumer_that_a_work_queue_cannot_have_is_rejected, bad_consumers)
{
    create_queue("");
    char stream = bad_consumers[_i].subject[0];
    raw_expect_json(
        &c, format("$JS.API.CONSUMER.DURABLE.CREATE.%s", bad_consumers[_i].subject),
        format("{\"stream_name\":\"%c\",\"config\":{%s}}", stream, bad_consumers[_i].config),
        format("error.err_code=%s", bad_consumers[_i].err_code));
    raw_expect_json(&c, "$JS.API.CONSUMER.NAMES.W", "", "total=1");
    raw_close(&c);
}

TEST(deleting_a_consumer_ends_its_pulls)
{
    create_queue("");
    raw_open(&d);
    raw_ask(&d, NEXT, "{\"batch\":1,\"expires\":20000000000}");
    raw_sync(&d);
    raw_expect_json(&c, "$JS.API.CONSUMER.DELETE.W.work", "", "success=true");
    raw_expect(&d, "q.1 #1 {NATS/1.0 409 Consumer Deleted||} ''");
    raw_expect_json(&c, "$JS.API.CONSUMER.DELETE.W.work", "", "error.err_code=10014");
    raw_expect_json(&c, INFO, "", "error.err_code=10014");
    raw_close(&c);
    raw_close(&d);
}

TEST(deleting_a_stream_deletes_its_consumers)
{
    create_queue("");
    put("a");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.0 'a'");
    raw_expect_json(&c, "$JS.API.STREAM.DELETE.W", "", "success=true");
    raw_ask(&c, ack, "+ACK");
    raw_expect(&c, format("r.%u #1 {NATS/1.0 503||} ''", c.requests));
    raw_close(&c);
}

TEST(a_purged_message_is_not_delivered_again)
{
    create_queue(",\"ack_wait\":100000000");
    put("a");
    put("b");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.1.1.T.1 'a'");
    raw_expect_json(&c, "$JS.API.STREAM.PURGE.W", "", "purged=2");
    raw_expect_json(&c, INFO, "", "num_pending=0 num_ack_pending=0");
    put("c");
    expect_pull("w.x #1 -> $JS.ACK.W.work.1.3.2.T.0 'c'");
    raw_close(&c);
}

static void create_log(const char *name, const char *config)
{
    raw_expect_json(&c, format("$JS.API.CONSUMER.CREATE.L.%s", name),
                    format("{\"stream_name\":\"L\",\"config\":{\"name\":\"%s\"%s}}", name, config),
                    "error= config.ack_policy=none");
}

static void expect_log(const char *name, const char *expected, const char *status)
{
    raw_ask(&c, format("$JS.API.CONSUMER.MSG.NEXT.L.%s", name), "{\"batch\":9,\"no_wait\":true}");
    char payloads[64] = "";
    while (strchr(raw_next(&c), '{') == NULL)
        strcat(payloads, c.payload);
    ck_assert_str_eq(payloads, expected);
    ck_assert_ptr_nonnull(strstr(c.text, status));
}

TEST(consumers_without_acknowledgement_read_a_log_from_their_position)
{
    raw_open(&c);
    raw_expect_json(&c, "$JS.API.STREAM.CREATE.L",
                    "{\"name\":\"L\",\"subjects\":[\"l.*\"],\"storage\":\"memory\"}", "error=");
    for (int i = 0; i < 4; i++)
        assert_json(raw_request_with(&c, i % 2 == 0 ? "l.a" : "l.b", NULL, format("%d", i)),
                    "error=");
    create_log("all", "");
    create_log("new", ",\"deliver_policy\":\"new\"");
    create_log("last", ",\"deliver_policy\":\"last\",\"filter_subject\":\"l.a\"");
    create_log("from", ",\"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":3");
    create_log("filter", ",\"filter_subject\":\"l.b\"");
    assert_json(raw_request_with(&c, "l.b", NULL, "4"), "error=");
    expect_log("all", "01234", "408");
    expect_log("new", "4", "408");
    expect_log("last", "2", "408");
    expect_log("from", "234", "408");
    expect_log("filter", "134", "408");
    expect_log("all", "", "404");
    raw_expect_json(&c, "$JS.API.STREAM.INFO.L", "", "state.messages=5 state.consumer_count=5");
    raw_close(&c);
}

TEST(a_consumer_without_a_durable_name_ends_when_it_is_idle)
{
    raw_open(&c);
    raw_expect_json(&c, "$JS.API.STREAM.CREATE.L",
                    "{\"name\":\"L\",\"subjects\":[\"l.*\"],\"storage\":\"memory\"}", "error=");
    create_log("idle", ",\"inactive_threshold\":200000000");
    while (strstr(raw_request_with(&c, "$JS.API.CONSUMER.INFO.L.idle", NULL, ""), "10014") == NULL)
        weft_sleep(0.05);
    raw_close(&c);
}
