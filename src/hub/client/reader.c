/* The input of a hub: parse operations in the buffer of the stream, and pass them on. */
#include "hub/client/hub.h"

#include <weft/stream.h>

/* The subjects of replies to calls begin with this text. */
#define INBOX "_INBOX."
#define INBOX_BYTES (sizeof INBOX - 1)

/* Handle an INFO after the handshake. A server in lame-duck mode ends soon. */
static int reader_info(weft_hub *hub, weft__slice json)
{
    bool was_lame = hub->info.is_lame;
    int rc = weft__info_read(hub, json);
    if (rc == 0 && hub->info.is_lame && !was_lame)
        weft__root_move(hub);
    return rc;
}

static void reader_pong(weft_hub *hub)
{
    if (hub->pongs < hub->pings)
        hub->pongs++;
    weft_cond_broadcast(&hub->has_pong);
}

/*
 * A message for a subscription that has ended in the meantime. Its sender does not wait in vain. A
 * reply to other subjects could be an acknowledgement of JetStream.
 */
static void reader_refuse(weft_hub *hub, const weft__op_line *op)
{
    if (op->reply.bytes > INBOX_BYTES && memcmp(op->reply.data, INBOX, INBOX_BYTES) == 0)
        weft__hub_refuse(hub, op->reply, -EHOSTUNREACH, "the name was withdrawn");
}

static void reader_msg(weft_hub *hub, const weft__op_line *op)
{
    weft__subscription *s = weft__subscription_find(hub, op->sid);
    if (s == NULL) {
        reader_refuse(hub, op);
        return;
    }
    hub->counters.received++;
    weft__delivery d = {op->subject, op->reply, op->headers, op->payload};
    weft__subscription_deliver(s, &d);
}

/* Returns 0 or an error that ends the connection. */
static int reader_handle(weft_hub *hub, const weft__op_line *op)
{
    switch (op->verb) {
    case WEFT__VERB_MSG:
        reader_msg(hub, op);
        return 0;
    case WEFT__VERB_PING:
        return weft__writer_append(hub, "PONG\r\n");
    case WEFT__VERB_PONG:
        reader_pong(hub);
        return 0;
    case WEFT__VERB_INFO:
        return reader_info(hub, op->args);
    case WEFT__VERB_ERR:
        weft__server_error_note(hub, op->args);
        return 0;
    case WEFT__VERB_OK:
        return 0;
    default:
        return weft_fail(-EPROTO, "the server sent an operation of clients");
    }
}

/*
 * Handle the complete operations of the input. Returns the bytes handled, or an error. *need is the
 * size of the incomplete operation that follows.
 */
static ssize_t reader_handle_all(weft_hub *hub, const char *data, size_t bytes, size_t *need)
{
    size_t done = 0;
    for (*need = 1; done < bytes;) {
        weft__op_line op;
        ssize_t n =
            weft__wire_parse(data + done, bytes - done, hub->options.message_bytes, &op, need);
        if (n <= 0)
            return n < 0 ? n : (ssize_t)done;
        int rc = reader_handle(hub, &op);
        if (rc < 0)
            return rc;
        done += (size_t)n;
        hub->inputs++;
        *need = 1;
    }
    return (ssize_t)done;
}

int weft__reader_run(weft_hub *hub)
{
    weft_stream *stream = &hub->session.stream;
    size_t need = 1;
    while (hub->session.break_code == 0) {
        const void *data;
        ssize_t n = weft_stream_peek(stream, need, &data);
        if (n >= 0 && (size_t)n < need)
            return weft_fail(-ECONNRESET, "the server has closed the connection");
        if (n > 0)
            n = reader_handle_all(hub, data, (size_t)n, &need);
        if (n < 0)
            return (int)n;
        weft_stream_skip(stream, (size_t)n);
        if (hub->info.is_lame && weft__root_is_moved(hub))
            return -ESHUTDOWN;
    }
    return hub->session.break_code;
}
