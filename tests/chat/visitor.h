/*
 * Visitors of several processes of the chat. A visitor does what connection.js does: it repeats a
 * message until the message is confirmed, and connects again, to another process, after a loss.
 */
#ifndef TESTS_CHAT_VISITOR_H
#define TESTS_CHAT_VISITOR_H

#include "chat/chat_processes.h"

/* All messages of a test fit in the history of a room, so that no visitor misses any. */
#define SAID_MAX HISTORY_MAX
#define SAID_BYTES 24
#define VALUES_MAX 8192
#define SOON_S 0.1 /* before another attempt to connect */

typedef struct visitor {
    const char *name, *room;
    int at;   /* the process */
    int goal; /* number of messages to say */
    weft_ws *ws;
    weft_ws_message got;     /* the last text of the server */
    char epoch[EPOCH_BYTES]; /* of the first connection; the same in all processes */
    int confirmed;           /* the ids up to this one are stored */
    int connections;
    int repetitions;                 /* of messages that the visitor had */
    char said[SAID_MAX][SAID_BYTES]; /* the texts, by number */
    int last;                        /* the number of the last text */
} visitor;

static inline void visitor_send(visitor *v, const char *text)
{
    (void)weft_ws_send(v->ws, WEFT_WS_TEXT, text, strlen(text)); /* a loss is noticed later */
}

/* Say the first message that is not confirmed. The text is the name and the id. */
static inline void visitor_say(visitor *v, int id)
{
    visitor_send(v, format("{\"t\":\"say\",\"room\":\"%s\",\"id\":%d,\"text\":\"%s %d\"}", v->room,
                           id, v->name, id));
}

static inline void visitor_text(const json_value *object, const char *name, char *out,
                                size_t capacity)
{
    ck_assert_int_ge(json_decode(json_member(object, name), out, capacity), 0);
}

/* A message of the room. The same number always has the same text, and no number is missing. */
static inline void visitor_hears(visitor *v, const json_value *message)
{
    char text[SAID_BYTES];
    int64_t seq, own = 0;
    ck_assert_int_eq(json_integer(json_member(message, "seq"), &seq), 0);
    visitor_text(message, "text", text, sizeof text);
    ck_assert_msg(seq <= v->last + 1, "%s gets %ld after %d", v->name, (long)seq, v->last);
    if (seq <= v->last) {
        v->repetitions++;
    } else {
        ck_assert_int_lt(v->last, SAID_MAX);
        strcpy(v->said[v->last++], text);
    }
    ck_assert_str_eq(v->said[seq - 1], text);
    json_integer(json_member(message, "own"), &own);
    if (own <= v->confirmed)
        return;
    ck_assert_int_eq(own, v->confirmed + 1);
    v->confirmed = (int)own;
    if (v->confirmed < v->goal)
        visitor_say(v, v->confirmed + 1);
}

static inline void visitor_joined(visitor *v, const json_value *object)
{
    const json_value *list = json_member(object, "messages");
    ck_assert_ptr_nonnull(list);
    for (size_t i = 1; i < list->count; i += list[i].count)
        visitor_hears(v, &list[i]);
    if (v->confirmed < v->goal)
        visitor_say(v, v->confirmed + 1);
}

static inline void visitor_welcomed(visitor *v, const json_value *object)
{
    char epoch[EPOCH_BYTES];
    visitor_text(object, "epoch", epoch, sizeof epoch);
    if (v->connections++ == 0)
        strcpy(v->epoch, epoch);
    ck_assert_str_eq(v->epoch, epoch);
    visitor_send(v, format("{\"t\":\"join\",\"room\":\"%s\",\"epoch\":\"%s\",\"since\":%d}",
                           v->room, v->epoch, v->last));
}

static inline void visitor_receives(visitor *v, const char *text, size_t bytes)
{
    static json_value values[VALUES_MAX]; /* not used across a switch */
    char kind[16];
    ck_assert_int_gt(json_read(values, VALUES_MAX, text, bytes), 0);
    visitor_text(values, "t", kind, sizeof kind);
    ck_assert_str_ne(kind, "refused");
    if (strcmp(kind, "welcome") == 0)
        visitor_welcomed(v, values);
    else if (strcmp(kind, "joined") == 0)
        visitor_joined(v, values);
    else if (strcmp(kind, "said") == 0)
        visitor_hears(v, json_member(values, "message"));
}

/* Connect to the process of the visitor, or to the next one that runs. */
static inline void visitor_connect(visitor *v)
{
    const weft_ws_options options = {.has_no_deflate = true};
    for (v->ws = NULL; v->ws == NULL; weft_sleep(v->ws == NULL ? SOON_S : 0)) {
        while (!is_running(v->at))
            v->at = (v->at + 1) % PROCESSES_MAX;
        const char *origin = cluster_of_test.processes[v->at].origin;
        if (weft_ws_connect(NULL, format("ws%s/ws", origin + 4), &options, &v->ws) < 0)
            v->ws = NULL;
    }
    visitor_send(v, format("{\"t\":\"hello\",\"name\":\"%s\",\"client\":\"%s-0123456789abcdef\"}",
                           v->name, v->name));
}

/* Wait for one text of the server. Connect again if the connection is lost. */
static inline void visitor_hears_once(visitor *v)
{
    int rc = v->ws != NULL ? weft_ws_recv(v->ws, &v->got) : 0;
    if (rc > 0) {
        visitor_receives(v, v->got.data, v->got.bytes);
        return;
    }
    weft_ws_free(v->ws);
    v->got = (weft_ws_message){0};
    visitor_connect(v);
}

/* Visit until all messages of this visitor are confirmed, and the room has n messages. */
static inline void visitor_stay(visitor *v, int n)
{
    while (v->confirmed < v->goal || v->last < n)
        visitor_hears_once(v);
}

/* Wait until the server sends a text with this part. */
static inline void await_text(visitor *v, const char *part)
{
    do
        visitor_hears_once(v);
    while (v->got.data == NULL || memmem(v->got.data, v->got.bytes, part, strlen(part)) == NULL);
}

static inline void visitor_leave(visitor *v)
{
    weft_ws_free(v->ws);
    v->ws = NULL;
}

/* Assert that all visitors have the same messages: each message of each visitor once, in order. */
static inline void assert_same_conversation(const visitor *all, int count)
{
    int total = 0, next[SAID_MAX] = {0};
    for (int i = 0; i < count; i++)
        total += all[i].goal;
    for (int n = 0; n < total; n++) {
        char name[SAID_BYTES];
        int id, i = 0;
        ck_assert_int_eq(sscanf(all[0].said[n], "%s %d", name, &id), 2);
        while (strcmp(all[i].name, name) != 0)
            ck_assert_int_lt(++i, count);
        ck_assert_int_eq(id, ++next[i]);
    }
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(all[i].last, total);
        for (int n = 0; n < total; n++)
            ck_assert_str_eq(all[i].said[n], all[0].said[n]);
    }
}

#endif
