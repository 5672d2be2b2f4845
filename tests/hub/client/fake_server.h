/*
 * A server that a test plays line by line. The test accepts the connection of a hub, sends lines of
 * a server, and expects lines of a client. The hub runs in other fibers.
 */
#ifndef TESTS_HUB_CLIENT_FAKE_SERVER_H
#define TESTS_HUB_CLIENT_FAKE_SERVER_H

#include "hub/hub_support.h"

#include <netinet/in.h>

#define INFO_OF(members) \
    "INFO {\"server_id\":\"fake\",\"headers\":true,\"max_payload\":1048576" members "}\r\n"
#define INFO INFO_OF("")

typedef struct fake_server {
    int listener;
    weft_stream peer; /* the connection of the hub */
    char line[4096];  /* the last line of the hub */
    char url[64];
    char inbox_sid[32];              /* of the hub's subscription for replies */
    const weft_hub_options *options; /* of the hub */
    weft_fiber opener;
    weft_hub *hub; /* NULL: weft_hub_open has failed with code */
    int code;
} fake_server;

static inline void fake_listen(fake_server *s)
{
    struct sockaddr_in a;
    socklen_t bytes = sizeof a;
    *s = (fake_server){.listener = weft_listen("tcp", "127.0.0.1:0")};
    ck_assert_int_ge(s->listener, 0);
    ck_assert_int_eq(getsockname(s->listener, (struct sockaddr *)&a, &bytes), 0);
    snprintf(s->url, sizeof s->url, "nats://127.0.0.1:%d", ntohs(a.sin_port));
}

static inline void fake_accept(fake_server *s)
{
    int fd = weft_accept(s->listener, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_stream_open(&s->peer, fd), 0);
}

static inline void fake_say_bytes(fake_server *s, const void *data, size_t bytes)
{
    ck_assert_int_eq(weft_stream_write(&s->peer, data, bytes), bytes);
    ck_assert_int_eq(weft_stream_flush(&s->peer), 0);
}

static inline void fake_say(fake_server *s, const char *text)
{
    fake_say_bytes(s, text, strlen(text));
}

/* Read lines up to one that begins with a text. */
static inline void fake_expect(fake_server *s, const char *begin)
{
    char *line;
    do {
        size_t bytes;
        ck_assert_int_eq(weft_stream_line(&s->peer, &line, &bytes), 1);
        snprintf(s->line, sizeof s->line, "%s", line);
    } while (strncmp(s->line, begin, strlen(begin)) != 0);
}

/* Return the word of the last line with a number, from 0. */
static inline const char *fake_word(const fake_server *s, int number)
{
    const char *at = s->line;
    for (int i = 0; i < number; i++)
        at = strchr(at, ' ') + 1;
    return format("%.*s", (int)strcspn(at, " "), at);
}

static inline void fake_hang_up(fake_server *s)
{
    weft_stream_close(&s->peer);
}

/* Perform the handshake of a connection. */
static inline void fake_greet(fake_server *s)
{
    fake_accept(s);
    fake_say(s, INFO);
    fake_expect(s, "CONNECT ");
    fake_expect(s, "PING");
    fake_say(s, "PONG\r\n");
    fake_expect(s, "SUB _INBOX.");
    snprintf(s->inbox_sid, sizeof s->inbox_sid, "%s", fake_word(s, 2));
}

static inline weft_value fake_run_opener(void *arg)
{
    fake_server *s = arg;
    s->hub = weft_hub_open(s->url, s->options);
    s->code = s->hub == NULL ? weft_error()->code : 0;
    weft_error_clear();
    return 0;
}

/* Open a hub in another fiber. */
static inline void fake_begin_open(fake_server *s, const weft_hub_options *options)
{
    fake_listen(s);
    s->options = options;
    s->opener = weft_spin(fake_run_opener, s);
}

/* Return the error of weft_hub_open, or 0. */
static inline int fake_await_open(fake_server *s)
{
    ck_assert_int_eq(weft_await(s->opener), 0);
    return s->code;
}

/* Open a hub that is connected to the fake server. */
static inline void fake_open(fake_server *s, const weft_hub_options *options)
{
    fake_begin_open(s, options);
    fake_greet(s);
    ck_assert_int_eq(fake_await_open(s), 0);
}

static inline weft_value fake_run_close(void *arg)
{
    fake_server *s = arg;
    return weft_hub_close(s->hub);
}

/* Close the hub. The server processes its last output. */
static inline void fake_close(fake_server *s)
{
    weft_fiber closer = weft_spin(fake_run_close, s);
    fake_expect(s, "PING");
    fake_say(s, "PONG\r\n");
    ck_assert_int_eq(weft_await(closer), 0);
    fake_hang_up(s);
    weft_close(s->listener);
}

/* A call to the fake server, in another fiber. */
typedef struct fake_call {
    fake_server *server;
    const char *to;
    int rc;
    char reply[64];
    weft_fiber fiber;
} fake_call;

static inline weft_value fake_run_call(void *arg)
{
    fake_call *c = arg;
    weft_hub_msg *reply = NULL;
    c->rc = weft_hub_call(c->server->hub, c->to, "x", 1, &reply);
    if (c->rc == 0)
        snprintf(c->reply, sizeof c->reply, "%s", (const char *)reply->data);
    weft_hub_free(reply);
    weft_error_clear();
    return c->rc == -ECANCELED ? -ECANCELED : 0;
}

/* Start a call, and return the subject for its reply. The text is valid for 16 more texts. */
static inline const char *fake_begin_call(fake_server *s, fake_call *c, const char *to)
{
    *c = (fake_call){.server = s, .to = to};
    c->fiber = weft_spin(fake_run_call, c);
    fake_expect(s, format("PUB %s ", to));
    return fake_word(s, 2);
}

static inline int fake_end_call(fake_call *c)
{
    ck_assert_int_eq(weft_await(c->fiber), 0);
    return c->rc;
}

/* Send a reply. sid is the one of the inbox. */
static inline void fake_reply(fake_server *s, const char *to, const char *text)
{
    fake_say(s, format("MSG %s %s %zu\r\n%s\r\n", to, s->inbox_sid, strlen(text), text));
}

#endif
