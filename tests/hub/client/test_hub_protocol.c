/* A server that violates the protocol after the handshake, or ends: the hub connects again. */
#include "hub/client/client.h"
#include "hub/client/fake_server.h"

/* The hub is usable: a call gets its reply. */
static void assert_answers(fake_server *s)
{
    fake_call call;
    fake_reply(s, fake_begin_call(s, &call, "a"), "yes");
    ck_assert_int_eq(fake_end_call(&call), 0);
    ck_assert_str_eq(call.reply, "yes");
}

static const char *const violations[] = {
    "garbage\r\n",
    "\r\n",
    "MSG\r\n",
    "MSG a\r\n",
    "MSG a 1 x\r\nx\r\n",
    "MSG a 1 -1\r\n\r\n",
    "MSG a 1 3\r\nabcdef\r\n",
    "MSG a 1 99999999999999999999\r\n",
    "MSG a 1 8388609\r\n", /* larger than message_bytes */
    "HMSG a 1 4 2\r\nab\r\n",
    "PUB a 1\r\nx\r\n",
    "SUB a 1\r\n",
    "CONNECT {}\r\n",
    "INFO x\r\n",
    "-ERR\n\r\n",
    "\xff\xfe\r\n",
};

TEST_ROWS(a_hub_leaves_a_server_that_violates_the_protocol, violations)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say(&s, violations[_i]);
    weft_stream old = {{0}};
    ck_assert_int_eq(weft_stream_move(&old, &s.peer), 0);
    fake_greet(&s);
    weft_stream_close(&old);
    assert_answers(&s);
    ck_assert_uint_eq(hub_stats(s.hub).reconnects, 1);
    fake_close(&s);
}

/* What a client ignores. */
static const char *const unusual_operations[] = {
    "+OK\r\n",
    "PONG\r\n",
    "PONG\r\nPONG\r\n",
    "MSG a 77 1\r\nx\r\n",
    "MSG a 9223372036854775807 1\r\nx\r\n",
    "HMSG a 77 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    "-ERR 'Invalid Subject'\r\n",
    "-ERR 'Permissions Violation for Publish to \"nobody\"'\r\n",
    "-ERR 'Permissions Violation for Publish to \"'\r\n",
    "-ERR 'Permissions Violation for Subscription to \"nobody\"'\r\n",
    INFO,
    INFO_OF(",\"connect_urls\":[\"\",\":\",\"x y:1\",\"a:0\",\"a:99999\",1,null,[\"b:1\"]]"),
};

TEST_ROWS(unusual_operations_do_not_end_a_connection, unusual_operations)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say(&s, unusual_operations[_i]);
    assert_answers(&s);
    ck_assert_uint_eq(hub_stats(s.hub).reconnects, 0);
    fake_close(&s);
}

#define MESSAGE "HMSG _INBOX.x.y 77 12 14\r\nNATS/1.0\r\n\r\nab\r\n"

TEST_LOOP(a_message_that_is_cut_at_any_byte_ends_the_connection, sizeof MESSAGE - 2)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say_bytes(&s, MESSAGE, (size_t)_i + 1);
    fake_hang_up(&s);
    fake_greet(&s);
    assert_answers(&s);
    fake_close(&s);
}

TEST(a_call_in_transit_to_an_ended_subscription_is_refused)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say(&s, "MSG gone 77 _INBOX.caller.1 1\r\nx\r\n");
    fake_expect(&s, "HPUB _INBOX.caller.1 ");
    fake_expect(&s, "NATS/1.0");
    fake_expect(&s, "Weft-Error: 113"); /* EHOSTUNREACH */
    fake_close(&s);
}

TEST(an_item_in_transit_to_an_ended_subscription_gets_no_reply)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say(&s, "MSG gone 77 $JS.ACK.q.work.1.1.1.1.0 1\r\nx\r\nPING\r\n");
    fake_expect(&s, "PONG");
    fake_close(&s);
}

TEST(a_ping_is_answered)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say(&s, "PING\r\n");
    fake_expect(&s, "PONG");
    fake_close(&s);
}

TEST(a_call_in_progress_ends_when_the_connection_breaks)
{
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    fake_begin_call(&s, &call, "a");
    fake_hang_up(&s);
    ck_assert_int_eq(fake_end_call(&call), -ECONNRESET);
    ck_assert_uint_eq(hub_stats(s.hub).in_flight, 0);
    fake_greet(&s);
    assert_answers(&s);
    fake_close(&s);
}

TEST(a_call_without_a_connection_waits_for_it)
{
    fake_server s;
    fake_call call = {.server = &s, .to = "a"};
    fake_open(&s, NULL);
    fake_hang_up(&s);
    while (hub_stats(s.hub).reconnects == 0 && weft__hub_is_connected(s.hub))
        weft_sleep(0); /* until the hub has read the end */
    call.fiber = weft_spin(fake_run_call, &call);
    fake_greet(&s);
    fake_expect(&s, "PUB a ");
    fake_reply(&s, fake_word(&s, 2), "later");
    ck_assert_int_eq(fake_end_call(&call), 0);
    ck_assert_str_eq(call.reply, "later");
    fake_close(&s);
}

TEST(a_late_reply_reaches_no_other_call)
{
    fake_server s;
    fake_call first, second;
    char late[128];
    fake_open(&s, NULL);
    snprintf(late, sizeof late, "%s", fake_begin_call(&s, &first, "a"));
    ck_assert_int_eq(cancel_and_await(first.fiber), -ECANCELED);
    ck_assert_uint_eq(hub_stats(s.hub).in_flight, 0);
    const char *inbox = fake_begin_call(&s, &second, "a"); /* in the same slot */
    fake_reply(&s, late, "late");
    fake_reply(&s, inbox, "second");
    fake_reply(&s, inbox, "again");
    ck_assert_int_eq(fake_end_call(&second), 0);
    ck_assert_str_eq(second.reply, "second");
    assert_answers(&s);
    fake_close(&s);
}

/* Subjects below the inbox that no call has. */
TEST(replies_to_unknown_subjects_are_ignored)
{
    static const char *const tokens[] = {"",   "0",          "zzz", "..",
                                         "1.", "1000000000", "-1",  "vvvvvvvvvvvvvvvvvvvvvv"};
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    const char *inbox = fake_begin_call(&s, &call, "a");
    int prefix = (int)(strrchr(inbox, '.') + 1 - inbox);
    for (size_t i = 0; i < COUNT_OF(tokens) && tokens[i][0] != '\0'; i++)
        if (strchr(tokens[i], '.') == NULL)
            fake_reply(&s, format("%.*s%s", prefix, inbox, tokens[i]), "wrong");
    fake_reply(&s, inbox, "right");
    ck_assert_int_eq(fake_end_call(&call), 0);
    ck_assert_str_eq(call.reply, "right");
    fake_close(&s);
}

TEST(a_call_that_the_server_forbids_fails_with_eperm)
{
    fake_server s;
    fake_call forbidden, allowed;
    fake_open(&s, NULL);
    fake_begin_call(&s, &forbidden, "secret");
    const char *inbox = fake_begin_call(&s, &allowed, "open");
    fake_say(&s, "-ERR 'Permissions Violation for Publish to \"secret\"'\r\n");
    ck_assert_int_eq(fake_end_call(&forbidden), -EPERM);
    fake_reply(&s, inbox, "yes");
    ck_assert_int_eq(fake_end_call(&allowed), 0);
    fake_close(&s);
}

TEST(a_forbidden_inbox_fails_all_calls_with_eperm)
{
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    const char *inbox = fake_begin_call(&s, &call, "a");
    fake_say(&s, format("-ERR 'Permissions Violation for Subscription to \"%.*s*\"'\r\n",
                        (int)(strrchr(inbox, '.') + 1 - inbox), inbox));
    ck_assert_int_eq(fake_end_call(&call), -EPERM);
    fake_close(&s);
}

TEST(a_reply_without_responders_is_ehostunreach)
{
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    const char *inbox = fake_begin_call(&s, &call, "a");
    fake_say(&s, format("HMSG %s %s 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", inbox, s.inbox_sid));
    ck_assert_int_eq(fake_end_call(&call), -EHOSTUNREACH);
    fake_close(&s);
}

/* Errors of weft_hub_fail, as another implementation could send them. */
static const struct {
    const char *value;
    int code;
} error_headers[] = {{"2", -ENOENT},
                     {"4095", -4095},
                     {"0", -EPROTO},
                     {"x", -EPROTO},
                     {"-1", -EPROTO},
                     {"4096", -EPROTO},
                     {"99999999999999999999", -EPROTO}};

TEST_ROWS(the_error_of_a_reply_is_the_error_of_the_call, error_headers)
{
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    const char *inbox = fake_begin_call(&s, &call, "a");
    char headers[128];
    int bytes = snprintf(headers, sizeof headers, "NATS/1.0\r\nWeft-Error: %s\r\n\r\n",
                         error_headers[_i].value);
    fake_say(
        &s, format("HMSG %s %s %d %d\r\n%swhy\r\n", inbox, s.inbox_sid, bytes, bytes + 3, headers));
    ck_assert_int_eq(fake_end_call(&call), error_headers[_i].code);
    fake_close(&s);
}

TEST(a_message_larger_than_the_server_permits_is_emsgsize)
{
    static char data[200];
    fake_server s;
    fake_begin_open(&s, NULL);
    fake_accept(&s);
    fake_say(&s, "INFO {\"headers\":true,\"max_payload\":100}\r\n");
    fake_expect(&s, "PING");
    fake_say(&s, "PONG\r\n");
    ck_assert_int_eq(fake_await_open(&s), 0);
    ck_assert_fails(weft_hub_tell(s.hub, "a", data, 101), -EMSGSIZE);
    ck_assert_fails(weft_hub_call(s.hub, "a", data, 101, NULL), -EMSGSIZE);
    ck_assert_int_eq(weft_hub_tell(s.hub, "a", data, 100), 0);
    ck_assert_uint_eq(hub_stats(s.hub).in_flight, 0);
    fake_expect(&s, "PUB a 100");
    fake_close(&s);
}

TEST(output_of_a_broken_connection_is_counted_as_lost)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_hang_up(&s);
    ck_assert_int_eq(weft_hub_tell(s.hub, "a", "x", 1), 0);
    fake_greet(&s);
    weft_hub_counters c = hub_stats(s.hub);
    ck_assert_uint_eq(c.sent, 1);
    ck_assert_uint_le(c.lost, 1); /* unless the kernel has taken it */
    fake_close(&s);
}

/* Tell until the output is full. */
static weft_value tell_all(void *arg)
{
    static char data[1000];
    int rc = 0;
    for (int i = 0; i < 20000 && rc == 0; i++)
        rc = weft_hub_tell(arg, "a", data, sizeof data);
    return rc;
}

TEST(senders_wait_while_the_output_is_full)
{
    fake_server s;
    fake_open(&s, &(weft_hub_options){.out_bytes = 10000});
    weft_fiber teller = weft_spin(tell_all, s.hub);
    for (size_t before = 1, sent = 0; sent != before;) { /* until the kernel takes no more */
        before = sent;
        let_run();
        sent = hub_stats(s.hub).sent;
    }
    ck_assert_uint_lt(hub_stats(s.hub).sent, 20000);
    for (int i = 0; i < 20000; i++)
        fake_expect(&s, "PUB a 1000");
    ck_assert_int_eq(weft_await(teller), 0);
    fake_close(&s);
}

TEST(a_sender_that_waits_can_be_cancelled)
{
    fake_server s;
    fake_open(&s, &(weft_hub_options){.out_bytes = 10000});
    weft_fiber teller = weft_spin(tell_all, s.hub);
    for (size_t before = 1, sent = 0; sent != before;) {
        before = sent;
        let_run();
        sent = hub_stats(s.hub).sent;
    }
    ck_assert_int_eq(cancel_and_await(teller), -ECANCELED);
    fake_hang_up(&s);
    fake_greet(&s);
    assert_answers(&s);
    fake_close(&s);
}

TEST(a_hub_moves_away_from_a_server_in_lame_duck_mode)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_say(&s, INFO_OF(",\"ldm\":true"));
    weft_stream old = {{0}};
    ck_assert_int_eq(weft_stream_move(&old, &s.peer), 0);
    fake_greet(&s);
    weft_stream_close(&old);
    assert_answers(&s);
    fake_close(&s);
}

TEST(calls_in_progress_get_their_replies_from_a_server_in_lame_duck_mode)
{
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    const char *inbox = fake_begin_call(&s, &call, "a");
    fake_say(&s, INFO_OF(",\"ldm\":true"));
    fake_reply(&s, inbox, "last");
    ck_assert_int_eq(fake_end_call(&call), 0);
    ck_assert_str_eq(call.reply, "last");
    weft_stream old = {{0}};
    ck_assert_int_eq(weft_stream_move(&old, &s.peer), 0);
    fake_greet(&s);
    weft_stream_close(&old);
    assert_answers(&s);
    fake_close(&s);
}

/* What is told after the announcement goes to the next server. */
TEST(output_is_not_lost_when_a_server_ends_in_lame_duck_mode)
{
    fake_server s;
    fake_call call;
    fake_open(&s, NULL);
    fake_begin_call(&s, &call, "a"); /* keeps the old connection */
    fake_say(&s, INFO_OF(",\"ldm\":true"));
    while (weft__hub_is_connected(s.hub))
        weft_sleep(0);
    ck_assert_int_eq(weft_hub_tell(s.hub, "b", "x", 1), 0);
    fake_hang_up(&s);
    ck_assert_int_eq(fake_end_call(&call), -ECONNRESET);
    fake_greet(&s);
    fake_expect(&s, "PUB b 1");
    ck_assert_uint_eq(hub_stats(s.hub).lost, 0);
    fake_close(&s);
}

TEST(a_server_that_rejects_the_credentials_later_is_not_tried_in_a_loop)
{
    fake_server s;
    fake_open(&s, NULL);
    fake_hang_up(&s);
    for (int i = 0; i < 2; i++) {
        fake_accept(&s);
        fake_say(&s, INFO);
        fake_expect(&s, "PING");
        fake_say(&s, "-ERR 'Authorization Violation'\r\n");
        fake_hang_up(&s);
    }
    WEFT_MOVE_ON_AFTER(0.5) { /* the delay is at least 1 s */
        ck_assert_int_eq(weft_accept(s.listener, NULL, NULL), -ECANCELED);
    }
    ck_assert_int_eq(weft_hub_close(s.hub), -ENOTCONN);
    weft_close(s.listener);
}
