/*
 * Echo WebSocket messages with libwebsockets, in one thread. usage: ws_lws PORT
 *
 * The event loop is the default one, which calls poll. With 64 connections this loop is faster than
 * the loop on libuv. With 10,000 connections the loop takes minutes.
 *
 * A connection queues the received messages, because libwebsockets allows one write per callback.
 */
#include <libwebsockets.h>

#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES_MAX 65536

typedef struct message {
    struct message *next;
    size_t bytes;
    enum lws_write_protocol kind;
    unsigned char data[]; /* LWS_PRE bytes for the header, then the message */
} message;

typedef struct session {
    message *first, *last;
} session;

static int queue_message(struct lws *ws, session *s, const void *data, size_t bytes)
{
    if (!lws_is_first_fragment(ws) || !lws_is_final_fragment(ws))
        return -1; /* longer than MESSAGE_BYTES_MAX */
    message *m = malloc(sizeof *m + LWS_PRE + bytes);
    if (m == NULL)
        return -1;
    m->next = NULL;
    m->bytes = bytes;
    m->kind = lws_frame_is_binary(ws) ? LWS_WRITE_BINARY : LWS_WRITE_TEXT;
    memcpy(m->data + LWS_PRE, data, bytes);
    if (s->first == NULL)
        s->first = m;
    else
        s->last->next = m;
    s->last = m;
    return lws_callback_on_writable(ws) < 0 ? -1 : 0;
}

static message *take_message(session *s)
{
    message *m = s->first;
    if (m != NULL)
        s->first = m->next;
    return m;
}

static int write_message(struct lws *ws, session *s)
{
    message *m = take_message(s);
    if (m == NULL)
        return 0;
    int n = lws_write(ws, m->data + LWS_PRE, m->bytes, m->kind);
    free(m);
    if (s->first != NULL)
        lws_callback_on_writable(ws);
    return n < 0 ? -1 : 0;
}

static int echo(struct lws *ws, enum lws_callback_reasons reason, void *user, void *data,
                size_t bytes)
{
    message *m;
    switch (reason) {
    case LWS_CALLBACK_RECEIVE:
        return queue_message(ws, user, data, bytes);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return write_message(ws, user);
    case LWS_CALLBACK_CLOSED:
        while ((m = take_message(user)) != NULL)
            free(m);
        return 0;
    default:
        return 0;
    }
}

int main(int argc, char **argv)
{
    static const struct lws_protocols protocols[] = {
        {.name = "echo",
         .callback = echo,
         .per_session_data_size = sizeof(session),
         .rx_buffer_size = MESSAGE_BYTES_MAX},
        {0},
    };
    struct lws_context_creation_info info = {
        .port = argc == 2 ? atoi(argv[1]) : 0,
        .iface = "127.0.0.1",
        .protocols = protocols,
        .pt_serv_buf_size = MESSAGE_BYTES_MAX,
        .options = LWS_SERVER_OPTION_VALIDATE_UTF8,
    };
    lws_set_log_level(LLL_ERR, NULL);
    struct lws_context *context = lws_create_context(&info);
    if (context == NULL)
        return 1;
    while (lws_service(context, 0) >= 0)
        continue;
    lws_context_destroy(context);
    return 1;
}
