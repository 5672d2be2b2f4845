/*
 * Bodies and messages of a Weft::Server::Request. No method waits: each returns false if the caller
 * must wait in Request#waiter and try again. The queue of the waiter exists before the check, so
 * that a change between the check and the wait is not lost.
 */
#include "server_ext.h"

#include <ruby/encoding.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_INPUT, WAIT_SPACE };

static VALUE eBodyError; /* Weft::Server::BodyError */

NORETURN(static void raise_body_error(int error));

static void raise_body_error(int error)
{
    VALUE args[] = {rb_str_new_cstr(strerror(-error)), INT2FIX(-error)};
    rb_exc_raise(rb_class_new_instance(2, args, eBodyError));
}

/* Take up to max bytes of the first chunk, with the lock held. Free a chunk that is empty. */
static VALUE input_take(exchange *x, VALUE string, size_t max)
{
    chunk *c = x->input.first;
    size_t bytes = c->bytes - c->taken;
    bytes = bytes < max ? bytes : max;
    memcpy(RSTRING_PTR(string), c->data + c->taken, bytes);
    rb_str_set_len(string, (long)bytes);
    c->taken += bytes;
    x->input.bytes -= bytes;
    if (c->taken == c->bytes)
        free(chunks_take(&x->input));
    return string;
}

/* Return the number of bytes that the first chunk has, or 0, with the result of an empty queue. */
static size_t input_look(exchange *x, bool *is_complete, int *error)
{
    pthread_mutex_lock(&x->lock);
    size_t bytes = x->input.first != NULL ? x->input.first->bytes - x->input.first->taken : 0;
    bool has_chunk = x->input.first != NULL;
    *is_complete = !has_chunk && x->input_is_complete;
    *error = !has_chunk ? x->input_error : 0;
    x->input_is_wanted = true;
    bool needs_kick =
        !x->input_is_complete && x->input_error == 0 && x->input.bytes < WINDOW_BYTES / 2;
    pthread_mutex_unlock(&x->lock);
    if (needs_kick)
        bridge_kick(x);
    return bytes;
}

/* call-seq: read_some(max) -> String, nil at the end, or false if there is no input yet */
static VALUE request_read_some(VALUE self, VALUE max)
{
    exchange *x = request_exchange(self);
    size_t bytes_max = NUM2SIZET(max);
    bool is_complete;
    int error;
    request_prepare_wait(self, WAIT_INPUT);
    size_t bytes = input_look(x, &is_complete, &error);
    if (bytes == 0) {
        if (error < 0)
            raise_body_error(error);
        return is_complete ? Qnil : Qfalse;
    }
    VALUE string = rb_str_buf_new((long)(bytes < bytes_max ? bytes : bytes_max));
    pthread_mutex_lock(&x->lock);
    if (x->input.first != NULL) /* another thread may have read while rb_str_buf_new ran */
        input_take(x, string, bytes < bytes_max ? bytes : bytes_max);
    pthread_mutex_unlock(&x->lock);
    return RSTRING_LEN(string) > 0 ? string : Qfalse;
}

/* Return the body if all of it has arrived with the request, else nil. */
static VALUE request_small_body(VALUE self)
{
    exchange *x = request_exchange(self);
    pthread_mutex_lock(&x->lock);
    bool is_whole =
        x->input_is_complete && x->input.first != NULL && x->input.first == x->input.last;
    size_t bytes = is_whole ? x->input.first->bytes : 0;
    pthread_mutex_unlock(&x->lock);
    if (!is_whole)
        return Qnil;
    VALUE string = rb_str_buf_new((long)bytes);
    pthread_mutex_lock(&x->lock);
    input_take(x, string, bytes);
    pthread_mutex_unlock(&x->lock);
    return string;
}

/* Return whether the request has a body. */
static VALUE request_has_body(VALUE self)
{
    return request_exchange(self)->length != 0 ? Qtrue : Qfalse;
}

NORETURN(static void raise_disconnected(void));

static void raise_disconnected(void)
{
    rb_syserr_fail(EPIPE, "the client has closed the connection");
}

/* call-seq: write_some(string, offset) -> number of bytes that were taken, or 0: wait for space */
static VALUE request_write_some(VALUE self, VALUE string, VALUE offset)
{
    exchange *x = request_exchange(self);
    StringValue(string);
    size_t from = NUM2SIZET(offset), bytes = (size_t)RSTRING_LEN(string);
    if (from > bytes)
        rb_raise(rb_eArgError, "the offset is %zu, and the string has %zu bytes", from, bytes);
    bytes -= from;
    request_prepare_wait(self, WAIT_SPACE);
    pthread_mutex_lock(&x->lock);
    bool is_over = x->is_over || x->is_aborted;
    size_t room = x->output_bytes < WINDOW_BYTES ? WINDOW_BYTES - x->output_bytes : 0;
    bytes = bytes < room ? bytes : room;
    int rc =
        is_over || bytes == 0 ? 0 : chunks_append(&x->output, RSTRING_PTR(string) + from, bytes);
    x->output_bytes += is_over || rc < 0 ? 0 : bytes;
    pthread_mutex_unlock(&x->lock);
    if (is_over)
        raise_disconnected();
    if (rc < 0)
        rb_memerror();
    if (bytes > 0)
        bridge_kick(x);
    RB_GC_GUARD(string);
    return SIZET2NUM(bytes);
}

/* Return whether the handler has ended: the reply was sent, or the client is gone. */
static VALUE request_is_over(VALUE self)
{
    exchange *x = request_exchange(self);
    pthread_mutex_lock(&x->lock);
    bool is_over = x->is_over;
    pthread_mutex_unlock(&x->lock);
    return is_over ? Qtrue : Qfalse;
}

/* WebSocket */

static char *copy_string(VALUE string)
{
    if (NIL_P(string))
        return NULL;
    char *copy = strdup(StringValueCStr(string));
    if (copy == NULL)
        rb_memerror();
    return copy;
}

/* call-seq: websocket_accept(protocols, origins, max_bytes, compresses) */
static VALUE request_websocket_accept(VALUE self, VALUE protocols, VALUE origins, VALUE max,
                                      VALUE compresses)
{
    exchange *x = request_exchange(self);
    websocket_options *options = calloc(1, sizeof *options);
    if (options == NULL)
        rb_memerror();
    options->message_bytes_max = NUM2SIZET(max);
    options->has_no_deflate = !RTEST(compresses);
    options->protocols = copy_string(protocols);
    options->origins = copy_string(origins);
    request_prepare_wait(self, WAIT_INPUT);
    request_prepare_wait(self, WAIT_SPACE);
    pthread_mutex_lock(&x->lock);
    x->websocket = options;
    x->close_code = WEFT_WS_NORMAL;
    pthread_mutex_unlock(&x->lock);
    bridge_kick(x);
    return Qnil;
}

/* Return true if the connection is open, nil if it cannot be opened, false: wait. */
static VALUE request_websocket_is_open(VALUE self)
{
    exchange *x = request_exchange(self);
    pthread_mutex_lock(&x->lock);
    bool is_open = x->websocket_is_open, is_over = x->is_over;
    pthread_mutex_unlock(&x->lock);
    return is_open ? Qtrue : is_over ? Qnil : Qfalse;
}

/* Return a message, nil after the end, or false if there is no message yet. */
static VALUE request_receive(VALUE self)
{
    exchange *x = request_exchange(self);
    request_prepare_wait(self, WAIT_INPUT);
    pthread_mutex_lock(&x->lock);
    chunk *c = chunks_take(&x->input);
    bool is_complete = x->input_is_complete || x->is_over;
    bool had_space = x->input.bytes + (c != NULL ? c->bytes : 0) < WINDOW_BYTES;
    pthread_mutex_unlock(&x->lock);
    if (c == NULL)
        return is_complete ? Qnil : Qfalse;
    if (!had_space)
        bridge_kick(x);
    rb_encoding *encoding = c->kind == WEFT_WS_TEXT ? rb_utf8_encoding() : rb_ascii8bit_encoding();
    VALUE string = rb_enc_str_new(c->data, (long)c->bytes, encoding);
    free(c);
    return string;
}

/* call-seq: send_message(string, is_text) -> true, or false if the caller must wait for space */
static VALUE request_send_message(VALUE self, VALUE string, VALUE is_text)
{
    exchange *x = request_exchange(self);
    StringValue(string);
    request_prepare_wait(self, WAIT_SPACE);
    int kind = RTEST(is_text) ? WEFT_WS_TEXT : WEFT_WS_BINARY;
    pthread_mutex_lock(&x->lock);
    bool is_over = x->is_over || x->output_is_complete || x->input_is_complete;
    bool has_space = x->output_bytes < WINDOW_BYTES;
    chunk *c = !is_over && has_space
                   ? chunk_new(RSTRING_PTR(string), (size_t)RSTRING_LEN(string), 0, kind)
                   : NULL;
    if (c != NULL) {
        chunks_put(&x->output, c);
        x->output_bytes += c->bytes;
    }
    pthread_mutex_unlock(&x->lock);
    if (is_over)
        raise_disconnected();
    if (c == NULL && has_space)
        rb_memerror();
    if (c != NULL)
        bridge_kick(x);
    RB_GC_GUARD(string);
    return c != NULL ? Qtrue : Qfalse;
}

static VALUE request_websocket_close(VALUE self, VALUE code, VALUE reason)
{
    exchange *x = request_exchange(self);
    char *text = copy_string(reason);
    int number = NUM2INT(code);
    pthread_mutex_lock(&x->lock);
    bool is_first = !x->output_is_complete && !x->is_over;
    if (is_first) {
        x->close_code = number;
        free(x->close_reason);
        x->close_reason = text;
        x->output_is_complete = true;
    }
    pthread_mutex_unlock(&x->lock);
    if (is_first)
        bridge_kick(x);
    else
        free(text);
    return Qnil;
}

/* Return [code, reason, protocol]. */
static VALUE request_websocket_info(VALUE self)
{
    exchange *x = request_exchange(self);
    VALUE reason = rb_utf8_str_new_static("", 0), protocol = rb_utf8_str_new_static("", 0);
    pthread_mutex_lock(&x->lock);
    int code = x->close_code;
    char *reason_copy = x->close_reason != NULL ? strdup(x->close_reason) : NULL;
    char *protocol_copy = x->websocket_protocol != NULL ? strdup(x->websocket_protocol) : NULL;
    pthread_mutex_unlock(&x->lock);
    if (reason_copy != NULL)
        reason = rb_utf8_str_new_cstr(reason_copy);
    if (protocol_copy != NULL)
        protocol = rb_utf8_str_new_cstr(protocol_copy);
    free(reason_copy);
    free(protocol_copy);
    return rb_ary_new_from_args(3, INT2FIX(code), reason, protocol);
}

void init_request_io(void)
{
    eBodyError = rb_path2class("Weft::Server::BodyError");
    rb_gc_register_mark_object(eBodyError);
    rb_define_method(cRequest, "read_some", request_read_some, 1);
    rb_define_method(cRequest, "small_body", request_small_body, 0);
    rb_define_method(cRequest, "body?", request_has_body, 0);
    rb_define_method(cRequest, "write_some", request_write_some, 2);
    rb_define_method(cRequest, "over?", request_is_over, 0);
    rb_define_method(cRequest, "websocket_accept", request_websocket_accept, 4);
    rb_define_method(cRequest, "websocket_open?", request_websocket_is_open, 0);
    rb_define_method(cRequest, "receive_message", request_receive, 0);
    rb_define_method(cRequest, "send_message", request_send_message, 2);
    rb_define_method(cRequest, "websocket_close", request_websocket_close, 2);
    rb_define_method(cRequest, "websocket_info", request_websocket_info, 0);
}
