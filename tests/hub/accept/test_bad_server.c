/*
 * Acceptance test 11: a server that sends garbage, cut lines, errors and messages that are too
 * large. Opening fails with an error, and an open hub connects again. No input hangs or crashes.
 */
#include "hub/hub_support.h"

#include <weft/web.h>

#include <netinet/in.h>

#define INFO                                                                           \
    "INFO {\"server_id\":\"bad\",\"version\":\"2.9.10\",\"proto\":1,\"headers\":true," \
    "\"max_payload\":1048576}\r\n"
/* Not in the handshake of a good server. */
#define NO_REPLY ""

/* Skip the program on the simulator, where sockets of the kernel block. */
__attribute__((constructor)) static void require_kernel_sockets(void)
{
    if (!runs_on("sim"))
        return;
    puts("skipped: the simulator has no sockets of the kernel");
    exit(77);
}

/* A server of fibers that plays a script. */
static struct {
    int fd;
    char where[64];
    weft_fiber fiber;
    const char *greeting; /* sent to each connection */
    size_t greeting_bytes;
    const char *reply; /* sent when the client has sent its CONNECT and PING */
    size_t reply_bytes;
    const char *more; /* sent after the reply, to the first connection only */
    size_t more_bytes;
    bool is_cut; /* end the first connection after the script; false: reply to each PING */
    int connections;
} bad;

/* Read the input until it contains a line. Return false at its end. */
static bool skip_to_line(weft_stream *s, const char *begin)
{
    char *line;
    while (weft_stream_line(s, &line, NULL) > 0)
        if (strncmp(line, begin, strlen(begin)) == 0)
            return true;
    return false;
}

static bool send_bytes(weft_stream *s, const char *data, size_t bytes)
{
    return weft_stream_write(s, data, bytes) == (ssize_t)bytes && weft_stream_flush(s) == 0;
}

/* Play the script to one client. */
static void play_script(weft_stream *s)
{
    bool is_first = bad.connections++ == 0;
    if (!send_bytes(s, bad.greeting, bad.greeting_bytes) || bad.reply_bytes == 0)
        return;
    if (!skip_to_line(s, "PING") || !send_bytes(s, bad.reply, bad.reply_bytes))
        return;
    if (is_first && (!send_bytes(s, bad.more, bad.more_bytes) || bad.is_cut))
        return;
    while (skip_to_line(s, "PING") && send_bytes(s, "PONG\r\n", 6))
        continue;
}

static weft_value serve_client(void *arg)
{
    weft_stream s;
    ck_assert_int_eq(weft_stream_open(&s, (int)(intptr_t)arg), 0);
    play_script(&s);
    weft_stream_close(&s);
    return 0;
}

static weft_value accept_clients(void *arg)
{
    int fd;
    while ((fd = weft_accept(bad.fd, NULL, NULL)) >= 0)
        ck_assert_int_eq(weft_go(serve_client, as_arg(fd)), 0);
    return 0;
}

static void start_bad_server(void)
{
    struct sockaddr_in a;
    socklen_t bytes = sizeof a;
    bad.fd = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(bad.fd, 0);
    ck_assert_int_eq(getsockname(bad.fd, (struct sockaddr *)&a, &bytes), 0);
    snprintf(bad.where, sizeof bad.where, "nats://127.0.0.1:%d", ntohs(a.sin_port));
    bad.fiber = weft_spin(accept_clients, NULL);
}

static void stop_bad_server(void)
{
    cancel_and_await(bad.fiber);
    weft_close(bad.fd);
}

FIXTURE(start_bad_server, stop_bad_server)

static void set_script(const char *greeting, size_t greeting_bytes, const char *reply)
{
    bad.greeting = greeting;
    bad.greeting_bytes = greeting_bytes;
    bad.reply = reply;
    bad.reply_bytes = strlen(reply);
    bad.more = "";
}

/* Assert that a hub does not open, and return the error. */
static int opening_error(void)
{
    weft_hub *hub = weft_hub_open(bad.where, &(weft_hub_options){.connect_s = 5});
    ck_assert_ptr_null(hub);
    ck_assert_ptr_nonnull(weft_error());
    ck_assert_uint_gt(strlen(weft_error()->message), 0);
    return weft_error()->code;
}

static const struct {
    const char *greeting, *reply;
    int code;
} bad_handshakes[] = {
    {"", NO_REPLY, -ENOTCONN},
    {"HTTP/1.1 400 Bad Request\r\n\r\n", NO_REPLY, -EPROTO},
    {"SSH-2.0-OpenSSH_9.2\r\n", NO_REPLY, -EPROTO},
    {"PING\r\n", NO_REPLY, -EPROTO},
    {"INFO nonsense\r\n", NO_REPLY, -EPROTO},
    {"INFO {\"max_payload\":\r\n", NO_REPLY, -EPROTO},
    {"INFO []\r\n", NO_REPLY, -EPROTO},
    {INFO, "-ERR 'Authorization Violation'\r\n", -EACCES},
    {INFO, "-ERR 'Maximum Connections Exceeded'\r\n", -ENOTCONN},
    {INFO, "nonsense\r\n", -EPROTO},
    {INFO, "MSG\r\n", -EPROTO},
    {INFO, "MSG a 1 -1\r\n", -EPROTO},
};

TEST_ROWS(a_hub_does_not_open_with_a_bad_handshake, bad_handshakes)
{
    const char *greeting = bad_handshakes[_i].greeting;
    set_script(greeting, strlen(greeting), bad_handshakes[_i].reply);
    ck_assert_int_eq(opening_error(), bad_handshakes[_i].code);
}

/* An endless line needs bounded memory. The server writes until the hub closes the connection. */
TEST(a_hub_does_not_open_if_the_greeting_never_ends)
{
    size_t bytes = 16 << 20;
    char *line = malloc(bytes);
    ck_assert_ptr_nonnull(line);
    memset(line, ' ', bytes);
    memcpy(line, "INFO {", 6);
    set_script(line, bytes, NO_REPLY);
    ck_assert_int_eq(opening_error(), -EPROTO);
    stop_bad_server();
    start_bad_server();
    free(line);
}

static void assert_is_opening_error(int code)
{
    ck_assert_msg(code == -EPROTO || code == -ENOTCONN || code == -EACCES, "%d: %s", code,
                  weft_error()->message);
}

/* The connection ends after each byte of the greeting. */
TEST(a_hub_does_not_open_if_the_greeting_is_cut)
{
    for (size_t n = 0; n < strlen(INFO); n++) {
        set_script(INFO, n, NO_REPLY);
        assert_is_opening_error(opening_error());
    }
}

/* An error follows each byte of the greeting. */
TEST(a_hub_does_not_open_if_an_error_interrupts_the_greeting)
{
    char text[sizeof INFO + 32];
    for (size_t n = 0; n < strlen(INFO); n++) {
        int bytes = snprintf(text, sizeof text, "%.*s-ERR 'Stale Connection'\r\n", (int)n, INFO);
        set_script(text, (size_t)bytes, NO_REPLY);
        assert_is_opening_error(opening_error());
    }
}

/* What a server sends to an open hub. The hub must end the connection and connect again. */
static const struct {
    const char *text;
    bool is_cut; /* the server ends the connection instead */
} bad_operations[] = {
    {"nonsense\r\n", false},
    {"MSG\r\n", false},
    {"MSG a\r\n", false},
    {"MSG a 1 x\r\n", false},
    {"MSG a 1 -5\r\n", false},
    {"MSG a 1 99999999999999999999\r\n", false},
    {"MSG a 1 4194304\r\n", false}, /* more than message_bytes */
    {"MSG a 1 5\r\nhelloXX", false},
    {"HMSG a 1 10 5\r\n", false},
    {"HMSG a 1 x 5\r\n", false},
    {"INFO {\r\n", false},
    {"PING", true},
    {"MSG a 1 5\r\nhel", true},
    {"-ERR 'Stale Connection'\r\n", true},
    {"-ERR\r\n", true},
};

TEST_ROWS(a_hub_connects_again_after_a_bad_operation, bad_operations)
{
    set_script(INFO, strlen(INFO), "PONG\r\n");
    bad.more = bad_operations[_i].text;
    bad.more_bytes = strlen(bad.more);
    bad.is_cut = bad_operations[_i].is_cut;
    weft_hub *hub =
        open_hub_at(bad.where, &(weft_hub_options){.message_bytes = 1 << 20, .connect_s = 5});
    while (hub_stats(hub).reconnects == 0)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    close_hub(hub);
    ck_assert_int_ge(bad.connections, 2);
}

/* Messages of no subscription and unknown errors do not end the connection. */
TEST(a_hub_ignores_messages_that_it_has_not_subscribed_to)
{
    set_script(INFO, strlen(INFO), "PONG\r\n");
    bad.more = "MSG a 4711 5\r\nhello\r\nMSG a 0 0\r\n\r\n+OK\r\n";
    bad.more_bytes = strlen(bad.more);
    weft_hub *hub = open_hub_at(bad.where, NULL);
    close_hub(hub); /* a round trip after the messages */
    ck_assert_int_eq(bad.connections, 1);
}

/* The limit is 1 MiB in the greeting. */
TEST(a_message_larger_than_the_server_permits_is_refused)
{
    size_t bytes = (1 << 20) + 1;
    char *data = calloc(1, bytes);
    ck_assert_ptr_nonnull(data);
    set_script(INFO, strlen(INFO), "PONG\r\n");
    weft_hub *hub = open_hub_at(bad.where, NULL);
    ck_assert_fails(weft_hub_tell(hub, "name", data, bytes), -EMSGSIZE);
    ck_assert_fails(weft_hub_call(hub, "name", data, bytes, NULL), -EMSGSIZE);
    close_hub(hub);
    free(data);
}
