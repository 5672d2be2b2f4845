/*
 * WebSocket connections in the cord. The handler receives messages for Ruby, and another fiber
 * sends the messages of Ruby. Both directions are bounded by WINDOW_BYTES.
 */
#include "bridge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void websocket_options_free(websocket_options *options)
{
    free(options->protocols);
    free(options->origins);
    free(options);
}

static chunk *take_message(exchange *x, bool *is_complete)
{
    pthread_mutex_lock(&x->lock);
    chunk *c = chunks_take(&x->output);
    *is_complete = x->output_is_complete || x->is_aborted;
    pthread_mutex_unlock(&x->lock);
    return c;
}

static void send_close(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    int code = x->is_aborted ? WEFT_WS_INTERNAL : x->close_code;
    char *reason = x->close_reason;
    x->close_reason = NULL;
    pthread_mutex_unlock(&x->lock);
    if (weft_ws_close(x->ws, code, reason) == -EINVAL) /* the client must not wait for a close */
        (void)weft_ws_close(x->ws, WEFT_WS_INTERNAL, NULL);
    free(reason);
}

/* Send the messages of Ruby, then close. */
static weft_value send_messages(void *arg)
{
    exchange *x = arg;
    for (;;) {
        bool is_complete;
        chunk *c = take_message(x, &is_complete);
        if (c == NULL && is_complete) {
            send_close(x);
            return 0;
        }
        if (c == NULL) {
            if (weft_event_wait(&x->sender_kicked) < 0)
                return 0;
            continue;
        }
        int rc = weft_ws_send(x->ws, (weft_ws_kind)c->kind, c->data, c->bytes);
        output_sent(x, c->bytes);
        free(c);
        if (rc < 0 && rc != -EINVAL)
            return 0; /* the receiving fiber gets the error too */
    }
}

/* Wait until Ruby has taken messages. */
static int wait_for_space(exchange *x)
{
    for (;;) {
        pthread_mutex_lock(&x->lock);
        bool has_space = x->input.bytes < WINDOW_BYTES || x->output_is_complete || x->is_aborted;
        pthread_mutex_unlock(&x->lock);
        if (has_space)
            return 0;
        int rc = weft_event_wait(&x->kicked);
        if (rc < 0)
            return rc;
    }
}

static int receive_messages(exchange *x)
{
    weft_ws_message m;
    int rc = wait_for_space(x);
    while (rc == 0 && (rc = weft_ws_recv(x->ws, &m)) > 0) {
        chunk *c = chunk_new(m.data, m.bytes, 0, (int)m.kind);
        if (c == NULL)
            return -ENOMEM;
        input_put(x, c);
        rc = wait_for_space(x);
    }
    return rc;
}

static void note_open(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->mode = MODE_WEBSOCKET;
    x->websocket_is_open = true;
    x->websocket_protocol = strdup(weft_ws_protocol(x->ws));
    x->input_is_complete = false;
    pthread_mutex_unlock(&x->lock);
    bridge_announce(x, NOTICE_CHANGED);
}

static void note_close(exchange *x)
{
    const char *reason = weft_ws_close_reason(x->ws);
    int code = weft_ws_close_code(x->ws);
    pthread_mutex_lock(&x->lock);
    free(x->close_reason);
    x->close_reason = strdup(reason);
    x->close_code = code;
    pthread_mutex_unlock(&x->lock);
    input_end(x, 0);
}

int websocket_run(exchange *x, const websocket_options *options)
{
    x->has_begun = true;
    int rc = weft_ws_accept(x->request,
                            &(weft_ws_options){.protocols = options->protocols,
                                               .origins = options->origins,
                                               .message_bytes_max = options->message_bytes_max,
                                               .has_no_deflate = options->has_no_deflate},
                            &x->ws);
    if (rc < 0)
        return rc;
    note_open(x);
    weft_fiber sender = weft_spin(send_messages, x);
    rc = sender != 0 ? receive_messages(x) : -ENOMEM;
    note_close(x);
    if (sender != 0) {
        (void)weft_terminate(sender, 1.0);
        (void)weft_await(sender);
    }
    weft_ws_free(x->ws);
    return rc < 0 ? rc : 1;
}
