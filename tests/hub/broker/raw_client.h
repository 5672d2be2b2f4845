/*
 * A client that speaks the protocol of NATS, to the broker of this process or to the server of
 * tests/hub/servers. So one test shows that both reply alike.
 */
#ifndef TESTS_HUB_BROKER_RAW_CLIENT_H
#define TESTS_HUB_BROKER_RAW_CLIENT_H

#include "hub/broker/connect.h"
#include "hub/hub_support.h"
#include "hub/text/json_read.h"
#include "hub/wire/parse.h"

#define RAW_PAYLOAD_BYTES_MAX (2 * 1024 * 1024)

typedef struct raw_client {
    weft_stream stream;
    char inbox;              /* replies come to this letter, a dot and a number */
    unsigned requests;       /* counts the subjects for replies */
    char text[16 * 1024];    /* the result of raw_next */
    char payload[16 * 1024]; /* of the last message, with a NUL */
    char reply[256];         /* of the last message */
} raw_client;

static inline void raw_send(raw_client *c, const char *text)
{
    ck_assert_int_eq(weft_stream_puts(&c->stream, text), (ssize_t)strlen(text));
    ck_assert_int_eq(weft_stream_flush(&c->stream), 0);
}

/* Copy bytes as text. Line ends become '|'. */
static inline void raw_copy(char *out, size_t room, weft__slice s)
{
    size_t used = 0;
    for (size_t i = 0; i < s.bytes && used + 1 < room; i++)
        if (s.data[i] != '\r')
            out[used++] = s.data[i] == '\n' ? '|' : s.data[i];
    out[used] = '\0';
}

/* Replace the time in the subject of an acknowledgement by T. */
static inline void raw_hide_time(char *subject)
{
    char *token = subject;
    if (strncmp(subject, "$JS.ACK.", 8) != 0)
        return;
    for (int i = 0; i < 7; i++)
        token = strchr(token, '.') + 1;
    char *end = strchr(token, '.');
    *token = 'T';
    memmove(token + 1, end, strlen(end) + 1);
}

/* Describe a message as: subject #sid [-> reply] [{headers}] 'payload' */
static inline const char *raw_describe(raw_client *c, const weft__op_line *op)
{
    char headers[1024], reply[sizeof c->reply];
    raw_copy(headers, sizeof headers, op->headers);
    raw_copy(c->reply, sizeof c->reply, op->reply);
    raw_copy(c->payload, sizeof c->payload, op->payload);
    strcpy(reply, c->reply);
    raw_hide_time(reply);
    snprintf(c->text, sizeof c->text, "%.*s #%d%s%s%s%s%s '%.1024s'", (int)op->subject.bytes,
             op->subject.data, (int)op->sid, reply[0] ? " -> " : "", reply,
             op->headers.bytes ? " {" : "", headers, op->headers.bytes ? "}" : "", c->payload);
    return c->text;
}

static inline const char *raw_describe_other(raw_client *c, const weft__op_line *op)
{
    static const char *const names[] = {[WEFT__VERB_INFO] = "INFO",
                                        [WEFT__VERB_PONG] = "PONG",
                                        [WEFT__VERB_OK] = "+OK",
                                        [WEFT__VERB_ERR] = "-ERR"};
    snprintf(c->text, sizeof c->text, "%s%s%.*s", names[op->verb], op->args.bytes ? " " : "",
             (int)op->args.bytes, op->args.data);
    return c->text;
}

/* Describe the next operation of the server. Reply to pings. "end" at the end of the input. */
static inline const char *raw_next(raw_client *c)
{
    for (size_t need = 1;;) {
        weft__op_line op;
        const void *data;
        ssize_t n = weft_stream_peek(&c->stream, need, &data);
        if ((n >= 0 && (size_t)n < need) || n == -ECONNRESET)
            return "end";
        ck_assert_int_ge(n, 0);
        ssize_t bytes = weft__wire_parse(data, (size_t)n, RAW_PAYLOAD_BYTES_MAX, &op, &need);
        ck_assert_int_ge(bytes, 0);
        if (bytes == 0)
            continue;
        if (op.verb == WEFT__VERB_MSG)
            raw_describe(c, &op);
        else if (op.verb != WEFT__VERB_PING)
            raw_describe_other(c, &op);
        ck_assert_int_eq(weft_stream_skip(&c->stream, (size_t)bytes), 0);
        if (op.verb != WEFT__VERB_PING)
            return c->text;
        raw_send(c, "PONG\r\n");
        need = 1;
    }
}

#define raw_expect(client, expected) ck_assert_str_eq(raw_next(client), expected)

/* Wait until the server has performed all earlier operations of this client. */
static inline void raw_sync(raw_client *c)
{
    raw_send(c, "PING\r\n");
    raw_expect(c, "PONG");
}

/* Return a descriptor of a connection, and the members for its CONNECT. */
static inline int raw_dial(char options[128])
{
    options[0] = '\0';
    if (!is_on_server())
        return weft__broker_connect("");
    char user[32], address[64];
    ck_assert_int_eq(sscanf(hub_where(), "nats://%31[^:]:t@%63s", user, address), 2);
    snprintf(options, 128, ",\"user\":\"%s\",\"pass\":\"t\"", user);
    return weft_dial("tcp", address);
}

/* Connect. more is additional members of CONNECT, with a comma before them. */
static inline void raw_open_with(raw_client *c, const char *more)
{
    char options[128];
    int fd = raw_dial(options);
    ck_assert_int_ge(fd, 0);
    c->inbox = 'r';
    c->requests = 0;
    ck_assert_int_eq(weft_stream_open(&c->stream, fd), 0);
    ck_assert_int_eq(strncmp(raw_next(c), "INFO {", 6), 0);
    raw_send(c, format("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                       "\"no_responders\":true%s%s}\r\nPING\r\n",
                       options, more));
    raw_expect(c, "PONG");
}

/* Connect, and subscribe to replies with the sid 1: of the first client r.*, of the second q.* */
static inline void raw_open(raw_client *c)
{
    static char inbox = 'r';
    raw_open_with(c, "");
    c->inbox = inbox--;
    raw_send(c, format("SUB %c.* 1\r\n", c->inbox));
}

static inline void raw_close(raw_client *c)
{
    weft_stream_close(&c->stream);
}

/* Publish. headers is NULL or lines that end with \r\n. reply may be NULL. */
static inline void raw_publish(raw_client *c, const char *subject, const char *reply,
                               const char *headers, const char *payload)
{
    const char *to = reply != NULL ? reply : "", *space = reply != NULL ? " " : "";
    if (headers == NULL) {
        raw_send(c,
                 format("PUB %s %s%s%zu\r\n%s\r\n", subject, to, space, strlen(payload), payload));
        return;
    }
    size_t bytes = strlen("NATS/1.0\r\n\r\n") + strlen(headers);
    raw_send(c, format("HPUB %s %s%s%zu %zu\r\nNATS/1.0\r\n%s\r\n%s\r\n", subject, to, space, bytes,
                       bytes + strlen(payload), headers, payload));
}

/* Send a request. The reply comes with the next sid 1. */
static inline void raw_ask(raw_client *c, const char *subject, const char *payload)
{
    raw_publish(c, subject, format("%c.%u", c->inbox, ++c->requests), NULL, payload);
}

/* Send a request, and return the payload of its reply. */
static inline const char *raw_request_with(raw_client *c, const char *subject, const char *headers,
                                           const char *payload)
{
    const char *reply = format("%c.%u", c->inbox, ++c->requests);
    raw_publish(c, subject, reply, headers, payload);
    const char *text = raw_next(c);
    size_t bytes = strlen(reply);
    ck_assert_msg(strncmp(text, reply, bytes) == 0 && text[bytes] == ' ', "%s: %s", subject, text);
    return c->payload;
}

/* Assert one member: "path=value". "path=" asserts that there is none. */
static inline void assert_member(const weft__json_doc *doc, const char *member, const char *json)
{
    char path[128];
    const char *value = strchr(member, '=') + 1;
    snprintf(path, sizeof path, "%.*s", (int)(value - 1 - member), member);
    const weft__json_node *node = weft__json_find(doc, path);
    const char *text = node == NULL                     ? ""
                       : node->kind == WEFT__JSON_TRUE  ? "true"
                       : node->kind == WEFT__JSON_FALSE ? "false"
                       : node->kind == WEFT__JSON_ARRAY ? "array"
                                                        : NULL;
    char copy[512];
    if (text == NULL) {
        snprintf(copy, sizeof copy, "%.*s", (int)node->text.bytes, node->text.data);
        text = copy;
    }
    ck_assert_msg(strcmp(text, value) == 0, "%s, but it is '%s' in %s", member, text, json);
}

/* Assert members of a JSON object: "path=value path=value ...". Values have no spaces. */
static inline void assert_json(const char *json, const char *members)
{
    weft__json_doc doc = {0};
    char list[512], *position;
    ck_assert_msg(weft__json_parse(&doc, json, strlen(json)) == 0, "not JSON: %s", json);
    snprintf(list, sizeof list, "%s", members);
    for (char *m = strtok_r(list, " ", &position); m != NULL; m = strtok_r(NULL, " ", &position))
        assert_member(&doc, m, json);
    weft__json_free(&doc);
}

/* Send a request, and assert members of its reply. */
static inline void raw_expect_json(raw_client *c, const char *subject, const char *payload,
                                   const char *members)
{
    assert_json(raw_request_with(c, subject, NULL, payload), members);
}

#endif
