/* The handshake with a server that says anything but what a server should say. */
#include "hub/client/fake_server.h"

/* Short, so that a silent server does not delay the test. */
static const weft_hub_options impatient = {.connect_s = 0.1};

/* A server that says `first` after accepting, and `second` after CONNECT. NULL: it hangs up. */
static const struct handshake {
    const char *first, *second;
    int code;
} faults[] = {
    {NULL, NULL, -ENOTCONN},
    {"\r\n", NULL, -EPROTO},
    {"garbage\r\n", NULL, -EPROTO},
    {"HTTP/1.1 400 Bad Request\r\n\r\n", NULL, -EPROTO},
    {"SSH-2.0-OpenSSH_9.2\r\n", NULL, -EPROTO},
    {"PING\r\n", NULL, -EPROTO},
    {"INFO\r\n", NULL, -EPROTO},
    {"INFO {\"headers\":true\r\n", NULL, -EPROTO},
    {"INFO []\r\n", NULL, -EPROTO},
    {"INFO {}\r\n", NULL, -EPROTO}, /* no headers: a server before 2.2 */
    {"INFO {\"headers\":\"true\"}\r\n", NULL, -EPROTO},
    {"-ERR 'maximum connections exceeded'\r\n", NULL, -ENOTCONN},
    {"-ERR 'Authorization Timeout'\r\n", NULL, -EACCES},
    {INFO, NULL, -ENOTCONN},
    {INFO, "-ERR 'Authorization Violation'\r\n", -EACCES},
    {INFO, "-ERR 'User Authentication Expired'\r\n", -EACCES},
    {INFO, "-ERR 'Unknown Protocol Operation'\r\n", -EPROTO},
    {INFO, "-ERR 'maximum account active connections exceeded'\r\n", -ENOTCONN},
    {INFO, "+OK\r\n-ERR 'Authorization Violation'\r\n", -EACCES},
    {INFO, "garbage\r\n", -EPROTO},
    {INFO, "MSG a 1 0\r\n\r\n", -EPROTO},
    {INFO, "PUB a 0\r\n\r\n", -EPROTO},
    {INFO, "INFO nothing\r\n", -EPROTO},
};

static int handshake_result(const struct handshake *h)
{
    fake_server s;
    fake_begin_open(&s, &impatient);
    fake_accept(&s);
    if (h->first != NULL)
        fake_say(&s, h->first);
    if (h->second != NULL) {
        fake_expect(&s, "CONNECT ");
        fake_say(&s, h->second);
    }
    if (h->first == NULL || h->code == -ENOTCONN)
        fake_hang_up(&s);
    int code = fake_await_open(&s);
    fake_hang_up(&s);
    weft_close(s.listener);
    return code;
}

TEST_ROWS(a_server_that_violates_the_handshake_is_an_error, faults)
{
    ck_assert_int_eq(handshake_result(&faults[_i]), faults[_i].code);
}

TEST(a_handshake_that_is_cut_at_any_byte_is_an_error)
{
    for (size_t bytes = 0; bytes < strlen(INFO); bytes++) {
        fake_server s;
        fake_begin_open(&s, &impatient);
        fake_accept(&s);
        fake_say_bytes(&s, INFO, bytes);
        fake_hang_up(&s);
        ck_assert_int_eq(fake_await_open(&s), -ENOTCONN);
        weft_close(s.listener);
    }
}

TEST(an_error_after_any_part_of_the_handshake_is_an_error)
{
    static const char *const parts[] = {"", INFO, INFO "+OK\r\n", INFO "PING\r\n"};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        fake_server s;
        fake_begin_open(&s, &impatient);
        fake_accept(&s);
        fake_say(&s, parts[i]);
        fake_say(&s, "-ERR 'Authorization Violation'\r\n");
        ck_assert_int_eq(fake_await_open(&s), -EACCES);
        fake_hang_up(&s);
        weft_close(s.listener);
    }
}

/* The whole handshake, one byte at a time. */
TEST(a_handshake_in_single_bytes_succeeds)
{
    fake_server s;
    fake_begin_open(&s, NULL);
    fake_accept(&s);
    for (const char *c = INFO; *c != '\0'; c++)
        fake_say_bytes(&s, c, 1);
    fake_expect(&s, "PING");
    for (const char *c = "+OK\r\nPONG\r\n"; *c != '\0'; c++)
        fake_say_bytes(&s, c, 1);
    ck_assert_int_eq(fake_await_open(&s), 0);
    fake_close(&s);
}

TEST(a_silent_server_is_an_error_after_connect_s)
{
    fake_server s;
    fake_begin_open(&s, &impatient);
    fake_accept(&s);
    ck_assert_int_eq(fake_await_open(&s), -ENOTCONN);
    fake_hang_up(&s);
    weft_close(s.listener);
}

TEST(a_server_that_never_replies_to_connect_is_an_error)
{
    fake_server s;
    fake_begin_open(&s, &impatient);
    fake_accept(&s);
    fake_say(&s, INFO);
    fake_expect(&s, "PING");
    ck_assert_int_eq(fake_await_open(&s), -ENOTCONN);
    fake_hang_up(&s);
    weft_close(s.listener);
}

TEST(a_server_that_pings_instead_of_replying_is_an_error)
{
    fake_server s;
    fake_begin_open(&s, NULL);
    fake_accept(&s);
    fake_say(&s, INFO);
    fake_expect(&s, "PING");
    for (int i = 0; i < 16; i++)
        fake_say(&s, "PING\r\n");
    ck_assert_int_eq(fake_await_open(&s), -EPROTO);
    fake_hang_up(&s);
    weft_close(s.listener);
}

/* The largest line is that of INFO, 256 KiB. */
TEST(an_endless_line_is_an_error)
{
    static char text[300 * 1024];
    fake_server s;
    memset(text, ' ', sizeof text);
    memcpy(text, "INFO {", 6);
    fake_begin_open(&s, NULL);
    fake_accept(&s);
    weft_stream_write(&s.peer, text, sizeof text);
    weft_stream_flush(&s.peer);
    ck_assert_int_eq(fake_await_open(&s), -EPROTO);
    fake_hang_up(&s);
    weft_close(s.listener);
}

TEST(a_cancelled_open_leaves_nothing)
{
    fake_server s;
    fake_listen(&s);
    int fds = count_descriptors();
    ck_assert_times_out(0.05, ck_assert_ptr_null(weft_hub_open(s.url, NULL)));
    ck_assert_any_error(-ECANCELED);
    ck_assert_int_eq(count_descriptors(), fds);
    weft_close(s.listener);
}

TEST(tls_that_a_server_does_not_offer_is_an_error)
{
    fake_server s;
    weft_tls *tls = weft_tls_client_new(NULL);
    if (tls == NULL)
        return; /* built without OpenSSL */
    fake_begin_open(&s, &(weft_hub_options){.tls = tls});
    fake_accept(&s);
    fake_say(&s, INFO);
    ck_assert_int_eq(fake_await_open(&s), -EPROTO);
    fake_hang_up(&s);
    weft_close(s.listener);
    weft_tls_free(tls);
}

/* An attacker in the network could otherwise put bytes before those of the server. */
TEST(plain_bytes_between_info_and_tls_are_an_error)
{
    fake_server s;
    weft_tls *tls = weft_tls_client_new(NULL);
    if (tls == NULL)
        return;
    fake_begin_open(&s, &(weft_hub_options){.tls = tls});
    fake_accept(&s);
    fake_say(&s, INFO_OF(",\"tls_required\":true") "PONG\r\n");
    ck_assert_int_eq(fake_await_open(&s), -EPROTO);
    fake_hang_up(&s);
    weft_close(s.listener);
    weft_tls_free(tls);
}

static void assert_has_member(const fake_server *s, const char *member)
{
    ck_assert_msg(strstr(s->line, member) != NULL, "%s is not in %s", member, s->line);
}

TEST(connect_asks_for_headers_and_no_responders)
{
    fake_server s;
    fake_begin_open(&s, &(weft_hub_options){.name = "a \"name\""});
    fake_accept(&s);
    fake_say(&s, INFO);
    fake_expect(&s, "CONNECT ");
    assert_has_member(&s, "\"headers\":true");
    assert_has_member(&s, "\"no_responders\":true");
    assert_has_member(&s, "\"verbose\":false");
    assert_has_member(&s, "\"protocol\":1");
    assert_has_member(&s, "\"name\":\"a \\\"name\\\"\"");
    fake_say(&s, "PONG\r\n");
    ck_assert_int_eq(fake_await_open(&s), 0);
    fake_close(&s);
}

#define SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"

/* Credentials of the options, and what CONNECT then has. */
static const struct {
    const char *credentials;
    const char *members[2];
} logins[] = {
    {"ada:secret:2", {"\"user\":\"ada\"", "\"pass\":\"secret:2\""}},
    {"token", {"\"auth_token\":\"token\"", "\"protocol\":1"}},
    {SEED, {"\"nkey\":\"U", "\"sig\":\""}},
};

TEST_ROWS(credentials_are_sent, logins)
{
    fake_server s;
    fake_begin_open(&s, &(weft_hub_options){.credentials = logins[_i].credentials});
    fake_accept(&s);
    fake_say(&s, INFO_OF(",\"nonce\":\"abc\""));
    fake_expect(&s, "CONNECT ");
    assert_has_member(&s, logins[_i].members[0]);
    assert_has_member(&s, logins[_i].members[1]);
    fake_say(&s, "PONG\r\n");
    ck_assert_int_eq(fake_await_open(&s), 0);
    fake_close(&s);
}

TEST(a_nkey_without_a_nonce_is_an_error)
{
    fake_server s;
    fake_begin_open(&s, &(weft_hub_options){.credentials = SEED});
    fake_accept(&s);
    fake_say(&s, INFO);
    ck_assert_int_eq(fake_await_open(&s), -EACCES);
    fake_hang_up(&s);
    weft_close(s.listener);
}

TEST(credentials_of_a_missing_file_are_an_error)
{
    fake_server s;
    fake_begin_open(&s, &(weft_hub_options){.credentials = "/nonexistent/x.creds"});
    fake_accept(&s);
    fake_say(&s, INFO);
    ck_assert_int_eq(fake_await_open(&s), -EINVAL);
    fake_hang_up(&s);
    weft_close(s.listener);
}

TEST(a_server_in_lame_duck_mode_is_not_used)
{
    fake_server s;
    fake_begin_open(&s, NULL);
    fake_accept(&s);
    fake_say(&s, INFO_OF(",\"ldm\":true"));
    fake_expect(&s, "PING");
    fake_say(&s, "PONG\r\n");
    ck_assert_int_eq(fake_await_open(&s), -ENOTCONN);
    fake_hang_up(&s);
    weft_close(s.listener);
}
