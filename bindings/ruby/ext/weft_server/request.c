/* Weft::Server::Request: an exchange on the side of Ruby, and its reply. */
#include "server_ext.h"

#include <ruby/io.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A whole body up to this length goes to the cord in one allocation. */
#define WHOLE_BYTES_MAX ((size_t)64 << 10)

VALUE cRequest;
static ID id_push, id_size, id_num_waiting;
static VALUE cQueue;

typedef struct request {
    exchange *x;
    VALUE bridge, env;
    VALUE waiters[2]; /* queues of fibers that wait for input, and for space; or nil */
    bool has_replied; /* the reply has begun, or the connection is hijacked */
} request;

static void request_mark(void *p)
{
    const request *q = p;
    rb_gc_mark(q->bridge);
    rb_gc_mark(q->env);
    rb_gc_mark(q->waiters[0]);
    rb_gc_mark(q->waiters[1]);
}

/* End an exchange whose reply is not complete. Its handler must not wait for it. */
static void exchange_abort(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool is_open = !x->output_is_complete && !x->is_over && x->mode != MODE_HIJACKED;
    x->is_aborted = x->is_aborted || is_open;
    pthread_mutex_unlock(&x->lock);
    if (is_open)
        bridge_kick(x);
}

static void exchange_set_owner(exchange *x, request *q)
{
    exchange **first = &x->bridge->owned;
    x->owner = q;
    x->owned_link = first;
    x->next_owned = *first;
    if (*first != NULL)
        (*first)->owned_link = &x->next_owned;
    *first = x;
}

static void exchange_drop_owner(exchange *x)
{
    x->owner = NULL;
    *x->owned_link = x->next_owned;
    if (x->next_owned != NULL)
        x->next_owned->owned_link = x->owned_link;
}

void requests_mark_waiters(const bridge *b)
{
    for (const exchange *x = b->owned; x != NULL; x = x->next_owned) {
        const request *q = x->owner;
        rb_gc_mark(q->waiters[0]);
        rb_gc_mark(q->waiters[1]);
    }
}

/* In a child of fork, the thread of the server does not exist. The lock may remain locked. */
static void request_free(void *p)
{
    request *q = p;
    if (q->x != NULL) {
        exchange_drop_owner(q->x);
        if (q->x->bridge->process == getpid()) {
            exchange_abort(q->x);
            exchange_release(q->x);
        }
    }
    xfree(q);
}

static size_t request_size(const void *p)
{
    (void)p;
    return sizeof(request) + sizeof(exchange);
}

static const rb_data_type_t request_type = {
    .wrap_struct_name = "Weft::Server::Request",
    .function = {.dmark = request_mark, .dfree = request_free, .dsize = request_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static request *get(VALUE self)
{
    return rb_check_typeddata(self, &request_type);
}

exchange *request_exchange(VALUE self)
{
    return get(self)->x;
}

VALUE request_new(exchange *x, VALUE bridge, VALUE template)
{
    request *q;
    VALUE self = TypedData_Make_Struct(cRequest, request, &request_type, q);
    q->env = q->waiters[0] = q->waiters[1] = Qnil;
    q->bridge = bridge;
    q->x = x;
    exchange_set_owner(x, q);
    q->env = env_build(x, template);
    return self;
}

/* Waiting */

void request_prepare_wait(VALUE self, int direction)
{
    request *q = get(self);
    if (NIL_P(q->waiters[direction]))
        q->waiters[direction] = rb_class_new_instance(0, NULL, cQueue);
}

/* Push a token for each fiber that waits, and for one that is about to wait. */
static void wake_waiters(VALUE queue)
{
    long waiting = NUM2LONG(rb_funcall(queue, id_num_waiting, 0));
    for (long n = NUM2LONG(rb_funcall(queue, id_size, 0)); n < waiting || n < 1; n++)
        rb_funcall(queue, id_push, 1, Qtrue);
}

/* The garbage collector may free the request object during the first call of a method. */
void request_wake(exchange *x)
{
    const request *q = x->owner;
    if (q == NULL)
        return;
    VALUE input = q->waiters[0], space = q->waiters[1];
    if (!NIL_P(input))
        wake_waiters(input);
    if (!NIL_P(space))
        wake_waiters(space);
    RB_GC_GUARD(space);
}

/* Return the queue in which the caller waits until the exchange changes. */
static VALUE request_waiter(VALUE self, VALUE direction)
{
    int i = NUM2INT(direction) & 1;
    request_prepare_wait(self, i);
    return get(self)->waiters[i];
}

/* The reply */

static VALUE request_env(VALUE self)
{
    return get(self)->env;
}

static bool body_is_simple(VALUE body, size_t *bytes)
{
    *bytes = 0;
    for (long i = 0; i < RARRAY_LEN(body); i++) {
        VALUE part = RARRAY_AREF(body, i);
        if (!RB_TYPE_P(part, T_STRING))
            return false;
        *bytes += (size_t)RSTRING_LEN(part);
    }
    return *bytes <= WHOLE_BYTES_MAX;
}

static chunk *body_chunk(VALUE body, size_t bytes)
{
    chunk *c = chunk_new(NULL, 0, bytes, 0);
    if (c == NULL)
        rb_memerror();
    for (long i = 0; i < RARRAY_LEN(body); i++) {
        VALUE part = RARRAY_AREF(body, i);
        memcpy(c->data + c->bytes, RSTRING_PTR(part), (size_t)RSTRING_LEN(part));
        c->bytes += (size_t)RSTRING_LEN(part);
    }
    return c;
}

/* Hand a head over, and a whole body if there is one. The cord ignores what comes too late. */
static void put_reply(request *q, reply_head *head, chunk *body)
{
    exchange *x = q->x;
    q->has_replied = true;
    pthread_mutex_lock(&x->lock);
    free(x->head);
    x->head = head;
    if (head->protocol != NULL)
        x->input_is_complete = false; /* the bytes of the other protocol follow the empty body */
    if (body != NULL) {
        x->output_bytes += body->bytes;
        chunks_put(&x->output, body);
        x->output_is_complete = true;
    }
    pthread_mutex_unlock(&x->lock);
    bridge_kick(x);
}

/*
 * call-seq: reply(status, headers, body) -> true or false
 *
 * Send a whole reply: an Array of Strings and a Hash of Strings. Return false, and do nothing, if
 * the reply is not of this simple kind.
 */
static VALUE request_reply(VALUE self, VALUE status, VALUE headers, VALUE body)
{
    request *q = get(self);
    size_t bytes;
    if (q->has_replied || !FIXNUM_P(status) || FIX2INT(status) < 200 ||
        !RB_TYPE_P(headers, T_HASH) || !RB_TYPE_P(body, T_ARRAY) || !body_is_simple(body, &bytes))
        return Qfalse;
    reply_head *head = head_new(FIX2INT(status), headers, Qnil, Qnil);
    if (head == NULL)
        return Qfalse;
    put_reply(q, head, body_chunk(body, bytes));
    return Qtrue;
}

/*
 * call-seq: begin(status, headers, path, protocol)
 *
 * Begin a reply. The body follows, or is the file path. protocol: switch to this protocol.
 */
static VALUE request_begin(VALUE self, VALUE status, VALUE headers, VALUE path, VALUE protocol)
{
    request *q = get(self);
    if (q->has_replied)
        rb_raise(rb_eIOError, "the reply has begun");
    Check_Type(headers, T_HASH);
    if (!NIL_P(path))
        FilePathStringValue(path);
    reply_head *head = head_new(NUM2INT(status), headers, path, protocol);
    if (head == NULL)
        rb_raise(rb_eTypeError, "a header is neither a String nor an Array of Strings");
    put_reply(q, head, NULL);
    RB_GC_GUARD(path);
    return Qnil;
}

/* Send an informational response. Has no effect after the reply has begun. */
static VALUE request_inform(VALUE self, VALUE status, VALUE headers)
{
    request *q = get(self);
    if (q->has_replied)
        return Qnil;
    Check_Type(headers, T_HASH);
    reply_head *head = head_new(NUM2INT(status), headers, Qnil, Qnil);
    if (head == NULL)
        rb_raise(rb_eTypeError, "a header is neither a String nor an Array of Strings");
    pthread_mutex_lock(&q->x->lock);
    free(q->x->interim);
    q->x->interim = head;
    pthread_mutex_unlock(&q->x->lock);
    bridge_kick(q->x);
    return Qnil;
}

/* Note that the reply is complete. */
static VALUE request_finish(VALUE self)
{
    exchange *x = get(self)->x;
    pthread_mutex_lock(&x->lock);
    bool is_first = !x->output_is_complete;
    x->output_is_complete = true;
    pthread_mutex_unlock(&x->lock);
    if (is_first)
        bridge_kick(x);
    return Qnil;
}

/* End the reply at once. The client does not take it for complete. */
static VALUE request_abort(VALUE self)
{
    get(self)->has_replied = true;
    exchange_abort(get(self)->x);
    return Qnil;
}

static VALUE request_has_replied(VALUE self)
{
    return get(self)->has_replied ? Qtrue : Qfalse;
}

/* Give the cord a socket that carries all further bytes of the connection. */
static VALUE request_hijack_with(VALUE self, VALUE fd)
{
    request *q = get(self);
    exchange *x = q->x;
    if (q->has_replied)
        rb_raise(rb_eIOError, "the reply has begun");
    int copy = rb_cloexec_dup(NUM2INT(fd));
    if (copy < 0)
        rb_sys_fail("dup");
    q->has_replied = true;
    pthread_mutex_lock(&x->lock);
    x->mode = MODE_HIJACKED;
    x->hijack_fd = copy;
    pthread_mutex_unlock(&x->lock);
    bridge_kick(x);
    return Qnil;
}

void init_request(VALUE mServer)
{
    cRequest = rb_define_class_under(mServer, "Request", rb_cObject);
    rb_undef_alloc_func(cRequest);
    cQueue = rb_path2class("Thread::Queue");
    rb_gc_register_mark_object(cQueue);
    id_push = rb_intern("push");
    id_size = rb_intern("size");
    id_num_waiting = rb_intern("num_waiting");
    rb_define_method(cRequest, "env", request_env, 0);
    rb_define_method(cRequest, "waiter", request_waiter, 1);
    rb_define_method(cRequest, "reply", request_reply, 3);
    rb_define_method(cRequest, "begin", request_begin, 4);
    rb_define_method(cRequest, "inform", request_inform, 2);
    rb_define_method(cRequest, "finish", request_finish, 0);
    rb_define_method(cRequest, "abort", request_abort, 0);
    rb_define_method(cRequest, "replied?", request_has_replied, 0);
    rb_define_method(cRequest, "hijack_with", request_hijack_with, 1);
    init_request_io();
}
