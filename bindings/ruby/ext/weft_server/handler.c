/*
 * The handler of the server. It runs in a fiber of the cord, announces the request to Ruby, and
 * then does the work that Ruby asks for: send parts of the reply, read parts of the body.
 */
#include "bridge.h"

#include <weft/net.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES ((size_t)16 << 10)

/* What the handler must do next. A copy of the guarded fields, taken in one section. */
typedef struct work {
    reply_head *interim, *head;
    chunk_queue output;
    websocket_options *websocket;
    int hijack_fd;
    bool is_complete, is_aborted, wants_input;
} work;

static void take_work(exchange *x, work *w)
{
    pthread_mutex_lock(&x->lock);
    *w = (work){.interim = x->interim,
                .head = x->head,
                .output = x->output,
                .websocket = x->websocket,
                .hijack_fd = x->hijack_fd,
                .is_complete = x->output_is_complete,
                .is_aborted = x->is_aborted,
                .wants_input = x->input_is_wanted && !x->input_is_complete && x->input_error == 0 &&
                               x->input.bytes < WINDOW_BYTES};
    x->interim = x->head = NULL;
    x->output = (chunk_queue){0};
    x->websocket = NULL;
    x->hijack_fd = -1;
    pthread_mutex_unlock(&x->lock);
}

/* Input */

void input_put(exchange *x, chunk *c)
{
    pthread_mutex_lock(&x->lock);
    chunks_put(&x->input, c);
    pthread_mutex_unlock(&x->lock);
    bridge_announce(x, NOTICE_CHANGED);
}

void input_end(exchange *x, int error)
{
    pthread_mutex_lock(&x->lock);
    x->input_is_complete = error == 0;
    x->input_error = error;
    pthread_mutex_unlock(&x->lock);
    bridge_announce(x, NOTICE_CHANGED);
}

/* Read a piece of the body, or of the other protocol. Return a chunk, or NULL and *result. */
static chunk *read_piece(exchange *x, ssize_t *result)
{
    const void *data;
    if (x->stream == NULL) {
        *result = weft_http_read_piece(x->request, &data);
    } else {
        *result = weft_stream_peek(x->stream, 1, &data);
        *result = *result > (ssize_t)READ_BYTES ? (ssize_t)READ_BYTES : *result;
    }
    if (*result <= 0)
        return NULL;
    chunk *c = chunk_new(data, (size_t)*result, 0, 0);
    if (c != NULL && x->stream != NULL)
        (void)weft_stream_skip(x->stream, (size_t)*result);
    *result = c != NULL ? *result : -ENOMEM;
    return c;
}

/* Wait for input. A kick of Ruby ends the wait. Return 0, or an error that ends the handler. */
static int receive_piece(exchange *x)
{
    weft_scope scope = {{0}};
    ssize_t n;
    (void)weft_scope_open(&scope, __builtin_inf());
    x->read_scope = &scope;
    chunk *c = read_piece(x, &n);
    x->read_scope = NULL;
    bool is_kicked = weft_scope_is_cancelled(&scope);
    (void)weft_scope_close(&scope);
    if (c != NULL)
        input_put(x, c);
    else if (n != -ECANCELED)
        input_end(x, (int)n);
    else if (!is_kicked)
        return -ECANCELED; /* the server cancels the handler */
    return 0;
}

/*
 * Read a short body before Ruby sees the request, so that both arrive in one notice. A client that
 * waits for 100 (Continue) waits until the application reads.
 */
static int receive_small_body(exchange *x)
{
    if (x->length <= 0 || x->length > SMALL_BODY_BYTES ||
        weft_http_header(x->request, "Expect") != NULL)
        return 0;
    chunk *body = chunk_new(NULL, 0, (size_t)x->length, 0);
    if (body == NULL)
        return -ENOMEM;
    ssize_t n = 1;
    while (n > 0 && body->bytes < body->capacity) {
        n = weft_http_read(x->request, body->data + body->bytes, body->capacity - body->bytes);
        body->bytes += n > 0 ? (size_t)n : 0;
    }
    char end;
    if (n >= 0)
        n = weft_http_read(x->request, &end, 1); /* the end of the body */
    chunks_put(&x->input, body);
    x->input_is_complete = n == 0;
    return (int)n;
}

/* Output */

void output_sent(exchange *x, size_t bytes)
{
    pthread_mutex_lock(&x->lock);
    bool was_full = x->output_bytes > WINDOW_BYTES / 2;
    x->output_bytes -= bytes;
    bool is_full = x->output_bytes > WINDOW_BYTES / 2;
    pthread_mutex_unlock(&x->lock);
    if (was_full && !is_full)
        bridge_announce(x, NOTICE_CHANGED);
}

static ssize_t send_piece(exchange *x, const chunk *c)
{
    return x->stream != NULL ? weft_stream_write(x->stream, c->data, c->bytes)
                             : weft_http_write(x->request, c->data, c->bytes);
}

static int send_output(exchange *x, chunk_queue *output)
{
    ssize_t n = 0;
    chunk *c;
    while (n >= 0 && (c = chunks_take(output)) != NULL) {
        n = send_piece(x, c);
        output_sent(x, c->bytes);
        if (n >= 0 && (size_t)n < c->bytes) /* a stream reports the error in the next call */
            n = -EPIPE;
        free(c);
    }
    return n < 0 ? (int)n : 0;
}

static int flush_output(exchange *x)
{
    return x->stream != NULL ? weft_stream_flush(x->stream) : weft_http_flush(x->request);
}

static int end_output(exchange *x)
{
    return x->stream != NULL ? weft_stream_flush(x->stream) : weft_http_end(x->request);
}

/* An informational response: its headers remain for the reply. */
static int send_interim(exchange *x, const reply_head *head)
{
    int rc = reply_add_fields(x->request, head);
    return rc < 0 ? rc : weft_http_inform(x->request, head->status);
}

/*
 * Send what there is. Return 1 if the exchange has ended, 0 if there is more to do, 2 if there was
 * nothing to do, or an error.
 */
static int do_output(exchange *x, work *w)
{
    bool has_work = w->head != NULL || w->interim != NULL || w->output.first != NULL;
    int rc = 0;
    if (w->interim != NULL)
        rc = send_interim(x, w->interim);
    if (rc == 0 && w->head != NULL) {
        rc = reply_begin(x, w->head, &w->output, w->is_complete);
        if (rc != 0)
            return rc; /* an error, or 1: the reply is complete */
    }
    if (rc == 0)
        rc = send_output(x, &w->output);
    if (rc == 0 && w->is_complete && x->has_begun) {
        rc = end_output(x);
        return rc < 0 ? rc : 1;
    }
    if (rc == 0 && has_work && x->has_begun)
        rc = flush_output(x);
    return rc == 0 && !has_work ? 2 : rc;
}

static void work_close(work *w)
{
    free(w->interim);
    free(w->head);
    chunks_free(&w->output);
    if (w->websocket != NULL)
        websocket_options_free(w->websocket);
}

/* Do the work that Ruby has asked for. Return 1 if the exchange has ended, 0, or an error. */
static int do_work(exchange *x)
{
    work w;
    take_work(x, &w);
    int rc;
    if (w.is_aborted)
        rc = -EIO;
    else if (w.hijack_fd >= 0)
        rc = hijack_run(x, w.hijack_fd);
    else if (w.websocket != NULL)
        rc = websocket_run(x, w.websocket);
    else
        rc = do_output(x, &w);
    bool is_idle = rc == 2;
    if (is_idle)
        rc = w.wants_input ? receive_piece(x) : weft_event_wait(&x->kicked);
    work_close(&w);
    return rc;
}

/* Tell Ruby that the exchange is over, and drop the reference of the handler. */
static void exchange_finish(exchange *x, int error)
{
    pthread_mutex_lock(&x->lock);
    x->is_over = true;
    x->error = error;
    if (!x->input_is_complete && x->input_error == 0)
        x->input_error = error < 0 ? error : -EPIPE;
    pthread_mutex_unlock(&x->lock);
    x->request = NULL;
    bridge_announce(x, NOTICE_CHANGED);
    exchange_release(x);
}

int handle_request(weft_http_request *r, void *ctx)
{
    exchange *x = exchange_new(ctx, r);
    if (x == NULL)
        return -ENOMEM;
    int rc = receive_small_body(x);
    if (rc < 0) {
        exchange_release(x); /* Ruby never sees the request */
        return rc;
    }
    bridge_announce(x, NOTICE_NEW);
    while ((rc = do_work(x)) == 0)
        ;
    exchange_finish(x, rc < 0 ? rc : 0);
    return rc < 0 ? rc : 0;
}
