/* Streams: configuration, publishing, limits and reading. Of brokers, and of real servers. */
#include "hub/broker/raw_client.h"

#define CREATE "$JS.API.STREAM.CREATE."
#define INFO "$JS.API.STREAM.INFO."
#define GET "$JS.API.STREAM.MSG.GET."
#define PURGE "$JS.API.STREAM.PURGE."
#define DELETE "$JS.API.STREAM.DELETE."

static raw_client c;

/* Create the stream S with the subjects s and s.>. more is additional members with a comma. */
static void create_stream(const char *more)
{
    raw_open(&c);
    raw_expect_json(&c, CREATE "S",
                    format("{\"name\":\"S\",\"subjects\":[\"s\",\"s.\\u003e\"],"
                           "\"storage\":\"memory\"%s}",
                           more),
                    "error= config.name=S config.subjects=array state.messages=0");
}

/* Publish, and assert members of the reply. headers may be NULL. */
static void expect_put(const char *subject, const char *headers, const char *members)
{
    assert_json(raw_request_with(&c, subject, headers, "data"), members);
}

TEST(creating_a_stream_again_succeeds_only_with_an_equal_configuration)
{
    create_stream(",\"max_msgs\":7");
    raw_expect_json(&c, CREATE "S",
                    "{\"name\":\"S\",\"subjects\":[\"s\",\"s.>\"],\"storage\":\"memory\","
                    "\"max_msgs\":7,\"num_replicas\":1,\"retention\":\"limits\"}",
                    "error= config.max_msgs=7");
    raw_expect_json(&c, CREATE "S", "{\"name\":\"S\",\"subjects\":[\"s\"],\"max_msgs\":7}",
                    "error.code=400 error.err_code=10058 config=");
    raw_close(&c);
}

TEST(the_reply_shows_the_configuration_with_its_defaults)
{
    raw_open(&c);
    raw_expect_json(&c, CREATE "S",
                    "{\"name\":\"S\",\"storage\":\"memory\",\"max_age\":1000000000}",
                    "config.retention=limits config.max_consumers=-1 config.max_msgs=-1 "
                    "config.max_bytes=-1 config.max_age=1000000000 config.max_msgs_per_subject=-1 "
                    "config.max_msg_size=-1 config.discard=old config.storage=memory "
                    "config.num_replicas=1 config.duplicate_window=1000000000 "
                    "config.deny_delete=false state.first_seq=0 state.last_seq=0");
    raw_close(&c);
}

static const struct {
    const char *config, *err_code;
} bad_configs[] = {
    {"", "10025"},
    {"{", "10025"},
    {"{\"name\":\"S\",\"retention\":\"forever\"}", "10025"},
    {"{\"name\":\"S\",\"max_msgs\":\"7\"}", "10025"},
    {"{\"name\":\"T\"}", "10056"},
    {"{\"name\":\"S\",\"subjects\":[\"o.*\"]}", "10065"},
    {"{\"name\":\"S\",\"subjects\":[\"a..b\"]}", "10052"},
    {"{\"name\":\"S\",\"max_age\":1000}", "10052"},
    {"{\"name\":\"S\",\"max_age\":1000000000,\"duplicate_window\":2000000000}", "10052"},
    {"{\"name\":\"S\",\"num_replicas\":3}", "10074"},
    {"{\"name\":\"S\",\"discard_new_per_subject\":true}", "10052"},
};

TEST_ROWS(a_configuration_that_is_not_valid_is_rejected, bad_configs)
{
    raw_open(&c);
    raw_expect_json(&c, CREATE "OTHER", "{\"name\":\"OTHER\",\"subjects\":[\"o.x\"]}", "error=");
    raw_expect_json(&c, CREATE "S", bad_configs[_i].config,
                    format("error.err_code=%s", bad_configs[_i].err_code));
    raw_expect_json(&c, INFO "S", "", "error.code=404 error.err_code=10059");
    raw_close(&c);
}

TEST(a_published_message_gets_the_next_sequence)
{
    create_stream("");
    expect_put("s", NULL, "stream=S seq=1 duplicate= error=");
    expect_put("s.x", "A: b\r\n", "stream=S seq=2 duplicate= error=");
    raw_publish(&c, "s", NULL, NULL, "not a request");
    raw_sync(&c);
    raw_expect_json(&c, INFO "S", "", "state.messages=3 state.first_seq=1 state.last_seq=3");
    raw_close(&c);
}

TEST(a_message_with_the_id_of_an_earlier_one_is_not_stored_again)
{
    create_stream("");
    expect_put("s", "Nats-Msg-Id: one\r\n", "seq=1 duplicate=");
    expect_put("s.x", "Nats-Msg-Id: two\r\n", "seq=2 duplicate=");
    expect_put("s", "Nats-Msg-Id: one\r\n", "seq=1 duplicate=true");
    raw_expect_json(&c, INFO "S", "", "state.messages=2");
    raw_close(&c);
}

TEST(an_id_is_forgotten_after_the_duplicate_window)
{
    create_stream(",\"duplicate_window\":100000000");
    expect_put("s", "Nats-Msg-Id: one\r\n", "seq=1");
    const char *reply;
    do
        reply = raw_request_with(&c, "s", "Nats-Msg-Id: one\r\n", "");
    while (strstr(reply, "duplicate") != NULL && weft_sleep(0.02) == 0);
    assert_json(reply, "seq=2 duplicate=");
    raw_close(&c);
}

TEST(a_condition_on_the_last_sequence_of_a_subject_selects_one_writer)
{
    create_stream("");
    expect_put("s.a", "Nats-Expected-Last-Subject-Sequence: 0\r\n", "seq=1 error=");
    expect_put("s.b", "Nats-Expected-Last-Subject-Sequence: 0\r\n", "seq=2 error=");
    expect_put("s.a", "Nats-Expected-Last-Subject-Sequence: 0\r\n",
               "error.code=400 error.err_code=10071 seq=0");
    expect_put("s.a", "Nats-Expected-Last-Subject-Sequence: 2\r\n", "error.err_code=10071");
    expect_put("s.a", "Nats-Expected-Last-Subject-Sequence: 1\r\n", "seq=3 error=");
    raw_close(&c);
}

TEST(other_conditions_of_headers_are_checked_too)
{
    create_stream("");
    expect_put("s", "Nats-Msg-Id: one\r\n", "seq=1");
    expect_put("s", "Nats-Expected-Stream: T\r\n", "error.err_code=10060");
    expect_put("s", "Nats-Expected-Last-Sequence: 2\r\n", "error.err_code=10071");
    expect_put("s", "Nats-Expected-Last-Msg-Id: two\r\n", "error.err_code=10070");
    expect_put("s",
               "Nats-Expected-Stream: S\r\nNats-Expected-Last-Sequence: 1\r\n"
               "Nats-Expected-Last-Msg-Id: one\r\n",
               "seq=2 error=");
    raw_close(&c);
}

TEST(a_full_stream_that_discards_new_messages_rejects_them)
{
    create_stream(",\"max_msgs\":2,\"discard\":\"new\"");
    expect_put("s", "Nats-Msg-Id: one\r\n", "seq=1");
    expect_put("s", NULL, "seq=2");
    expect_put("s", "Nats-Msg-Id: three\r\n", "error.code=503 error.err_code=10077");
    raw_expect_json(&c, PURGE "S", "", "success=true purged=2");
    expect_put("s", "Nats-Msg-Id: three\r\n", "seq=3 duplicate=");
    raw_close(&c);
}

TEST(a_full_stream_that_discards_old_messages_removes_them)
{
    create_stream(",\"max_msgs\":2");
    for (int i = 0; i < 3; i++)
        expect_put("s", NULL, "error=");
    raw_expect_json(&c, INFO "S", "", "state.messages=2 state.first_seq=2 state.last_seq=3");
    raw_close(&c);
}

TEST(a_stream_keeps_the_last_messages_of_each_subject)
{
    create_stream(",\"max_msgs_per_subject\":1,\"max_msgs\":2,\"discard\":\"new\"");
    expect_put("s.a", NULL, "seq=1");
    expect_put("s.a", NULL, "seq=2");
    expect_put("s.b", NULL, "seq=3");
    expect_put("s.c", NULL, "error.err_code=10077");
    expect_put("s.a", NULL, "seq=4"); /* replaces a message */
    raw_expect_json(&c, INFO "S", "", "state.messages=2 state.first_seq=3 state.last_seq=4");
    raw_close(&c);
}

TEST(a_message_that_is_too_large_for_a_stream_is_rejected)
{
    create_stream(",\"max_msg_size\":3");
    expect_put("s", NULL, "error.err_code=10054");
    raw_close(&c);
}

TEST(messages_expire_after_the_maximum_age)
{
    create_stream(",\"max_age\":100000000");
    expect_put("s", NULL, "seq=1");
    const char *reply;
    do
        reply = raw_request_with(&c, INFO "S", NULL, "");
    while (strstr(reply, "\"messages\":0") == NULL && weft_sleep(0.02) == 0);
    assert_json(reply, "state.messages=0 state.first_seq=2 state.last_seq=1");
    /* The subject has no last message any more. */
    expect_put("s", "Nats-Expected-Last-Subject-Sequence: 0\r\n", "seq=2 error=");
    raw_close(&c);
}

TEST(messages_are_read_by_sequence_and_by_subject)
{
    create_stream("");
    expect_put("s.a", "KV-Operation: DEL\r\n", "seq=1");
    expect_put("s.b", NULL, "seq=2");
    expect_put("s.a", NULL, "seq=3");
    raw_expect_json(&c, GET "S", "{\"seq\":1}",
                    "message.subject=s.a message.seq=1 message.data=ZGF0YQ== "
                    "message.hdrs=TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==");
    raw_expect_json(&c, GET "S", "{\"last_by_subj\":\"s.a\"}", "message.seq=3 message.hdrs=");
    raw_expect_json(&c, GET "S", "{\"last_by_subj\":\"s.*\"}", "message.seq=3");
    raw_expect_json(&c, GET "S", "{\"seq\":0,\"next_by_subj\":\"s.a\"}", "message.seq=1");
    raw_expect_json(&c, GET "S", "{\"seq\":2,\"next_by_subj\":\"s.a\"}", "message.seq=3");
    raw_expect_json(&c, GET "S", "{\"seq\":1,\"next_by_subj\":\"s.*\"}", "message.seq=1");
    raw_close(&c);
}

static const struct {
    const char *request, *err_code;
} bad_gets[] = {
    {"", "10003"},
    {"{}", "10003"},
    {"{\"seq\":9}", "10037"},
    {"{\"last_by_subj\":\"s.b\"}", "10037"},
    {"{\"seq\":1,\"next_by_subj\":\"s.b\"}", "10037"},
    {"{\"seq\":2,\"next_by_subj\":\"s.a\"}", "10037"},
};

TEST_ROWS(reading_a_message_that_does_not_exist_fails, bad_gets)
{
    create_stream("");
    expect_put("s.a", NULL, "seq=1");
    raw_expect_json(&c, GET "S", bad_gets[_i].request,
                    format("error.err_code=%s message=", bad_gets[_i].err_code));
    raw_close(&c);
}

TEST(direct_gets_reply_with_the_message_itself)
{
    create_stream(",\"allow_direct\":true");
    expect_put("s.a", "A: b\r\n", "seq=1");
    raw_ask(&c, "$JS.API.DIRECT.GET.S.s.a", "");
    const char *text = raw_next(&c);
    ck_assert_ptr_nonnull(
        strstr(text, "{NATS/1.0|A: b|Nats-Stream: S|Nats-Subject: s.a|Nats-Sequence: 1|"));
    ck_assert_str_eq(c.payload, "data");
    raw_ask(&c, "$JS.API.DIRECT.GET.S", "{\"last_by_subj\":\"s.b\"}");
    raw_expect(&c, "r.4 #1 {NATS/1.0 404 Message Not Found||} ''");
    raw_close(&c);
}

TEST(messages_are_deleted_and_purged)
{
    create_stream(",\"allow_rollup_hdrs\":true");
    for (int i = 0; i < 6; i++)
        expect_put(i % 2 == 0 ? "s.a" : "s.b", NULL, format("seq=%d", i + 1));
    raw_expect_json(&c, "$JS.API.STREAM.MSG.DELETE.S", "{\"seq\":2}", "success=true");
    raw_expect_json(&c, "$JS.API.STREAM.MSG.DELETE.S", "{\"seq\":2}", "error.err_code=10043");
    raw_expect_json(&c, PURGE "S", "{\"filter\":\"s.a\",\"keep\":1}", "success=true purged=2");
    raw_expect_json(&c, PURGE "S", "{\"seq\":5}", "purged=1");
    raw_expect_json(&c, INFO "S", "", "state.messages=2 state.first_seq=5 state.last_seq=6");
    expect_put("s.a", "Nats-Rollup: sub\r\n", "seq=7");
    raw_expect_json(&c, INFO "S", "", "state.messages=2 state.first_seq=6");
    expect_put("s.a", "Nats-Rollup: all\r\n", "seq=8");
    raw_expect_json(&c, INFO "S", "", "state.messages=1 state.first_seq=8");
    raw_close(&c);
}

TEST(a_stream_may_deny_deletes_purges_and_rollups)
{
    create_stream(",\"deny_delete\":true,\"deny_purge\":true");
    expect_put("s", NULL, "seq=1");
    raw_expect_json(&c, "$JS.API.STREAM.MSG.DELETE.S", "{\"seq\":1}", "error.err_code=10057");
    raw_expect_json(&c, PURGE "S", "", "error.code=500");
    expect_put("s", "Nats-Rollup: sub\r\n", "error.err_code=10111");
    raw_close(&c);
}

TEST(a_deleted_stream_stores_nothing)
{
    create_stream("");
    raw_expect_json(&c, "$JS.API.STREAM.NAMES", "{\"subject\":\"s.x\"}", "total=1 streams=array");
    raw_expect_json(&c, DELETE "S", "", "success=true");
    raw_expect_json(&c, DELETE "S", "", "error.err_code=10059");
    raw_expect_json(&c, "$JS.API.STREAM.NAMES", "", "total=0");
    raw_ask(&c, "s", "");
    raw_expect(&c, "r.6 #1 {NATS/1.0 503||} ''");
    raw_close(&c);
}

TEST(a_stream_without_acknowledgements_stores_without_a_reply)
{
    create_stream(",\"no_ack\":true");
    raw_ask(&c, "s", "");
    raw_sync(&c);
    raw_expect_json(&c, INFO "S", "", "state.messages=1");
    raw_close(&c);
}

TEST(subscribers_of_a_subject_get_messages_that_a_stream_stores)
{
    create_stream("");
    raw_send(&c, "SUB s 2\r\n");
    raw_publish(&c, "s", NULL, NULL, "both");
    raw_expect(&c, "s #2 'both'");
    raw_expect_json(&c, INFO "S", "", "state.messages=1");
    raw_close(&c);
}

/* The broker stores in memory, in chunks of 256 sequences. */
TEST(a_long_stream_with_gaps_is_read_in_order)
{
    enum { COUNT = 2000 };
    create_stream("");
    for (int i = 1; i <= COUNT; i++)
        raw_publish(&c, i % 700 == 0 ? "s.keep" : "s.drop", NULL, NULL, "");
    raw_sync(&c);
    raw_expect_json(&c, PURGE "S", "{\"filter\":\"s.drop\"}", "purged=1998");
    raw_expect_json(&c, INFO "S", "", "state.messages=2 state.first_seq=700 state.last_seq=2000");
    raw_expect_json(&c, GET "S", "{\"seq\":701,\"next_by_subj\":\"s.*\"}", "message.seq=1400");
    raw_expect_json(&c, GET "S", "{\"seq\":1401,\"next_by_subj\":\"s.*\"}", "error.err_code=10037");
    expect_put("s.keep", NULL, "seq=2001");
    raw_expect_json(&c, GET "S", "{\"seq\":1401,\"next_by_subj\":\"s.*\"}", "message.seq=2001");
    raw_close(&c);
}
