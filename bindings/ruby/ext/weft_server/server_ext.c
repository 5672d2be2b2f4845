/* Weft::Server::Bridge: the thread of the HTTP server, for Ruby. */
#include "server_ext.h"

#include <ruby/thread.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The time for connections that were accepted just before a stop to send their request. */
#define SETTLE_SECONDS 0.2

typedef struct ruby_bridge {
    bridge *b;
    exchange *pending_first, *pending_last; /* new requests that no fiber has taken */
    long pending_count;
} ruby_bridge;

static void release_pending(ruby_bridge *p)
{
    while (p->pending_first != NULL) {
        exchange *x = p->pending_first;
        p->pending_first = x->next_pending;
        exchange_release(x);
    }
}

/* A bridge that still runs belongs to a process that ends, or is a mistake of the program. */
static void ruby_bridge_free(void *data)
{
    ruby_bridge *p = data;
    release_pending(p);
    if (p->b != NULL && p->b->is_joined)
        bridge_release(p->b);
    xfree(p);
}

static void ruby_bridge_mark(void *data)
{
    const ruby_bridge *p = data;
    if (p->b != NULL)
        requests_mark_waiters(p->b);
}

static const rb_data_type_t bridge_type = {
    .wrap_struct_name = "Weft::Server::Bridge",
    .function = {.dmark = ruby_bridge_mark, .dfree = ruby_bridge_free},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static ruby_bridge *get(VALUE self)
{
    ruby_bridge *p = rb_check_typeddata(self, &bridge_type);
    if (p->b == NULL)
        rb_raise(rb_eRuntimeError, "the bridge is not started");
    return p;
}

static VALUE ruby_bridge_alloc(VALUE class)
{
    ruby_bridge *p;
    return TypedData_Make_Struct(class, ruby_bridge, &bridge_type, p);
}

/* Options */

static VALUE option(VALUE options, const char *name)
{
    return rb_hash_lookup(options, ID2SYM(rb_intern(name)));
}

static char *option_string(VALUE options, const char *name)
{
    VALUE value = option(options, name);
    return NIL_P(value) ? NULL : strdup(StringValueCStr(value));
}

/* nil: the default. Float::INFINITY: no limit. */
static uint64_t option_number(VALUE options, const char *name)
{
    VALUE value = option(options, name);
    if (RB_FLOAT_TYPE_P(value) && isinf(RFLOAT_VALUE(value)))
        return UINT64_MAX;
    return NIL_P(value) ? 0 : NUM2ULL(value);
}

static double option_seconds(VALUE options, const char *name)
{
    VALUE value = option(options, name);
    return NIL_P(value) ? 0 : NUM2DBL(value);
}

static void read_limits(weft_http_limits *l, VALUE o)
{
    l->line_bytes_max = option_number(o, "max_line_bytes");
    l->head_bytes_max = option_number(o, "max_head_bytes");
    l->headers_max = option_number(o, "max_headers");
    l->body_bytes_max = option_number(o, "max_body_bytes");
    l->requests_max = option_number(o, "max_requests_per_connection");
    l->connections_max = option_number(o, "max_connections");
    l->connections_per_peer_max = option_number(o, "max_connections_per_peer");
    l->streams_max = option_number(o, "max_streams");
    l->first_byte_s = option_seconds(o, "first_byte_timeout");
    l->head_s = option_seconds(o, "head_timeout");
    l->idle_s = option_seconds(o, "idle_timeout");
    l->slow_s = option_seconds(o, "slow_timeout");
}

static void read_options(bridge_options *b, VALUE o)
{
    b->listener = NUM2INT(option(o, "listener"));
    read_limits(&b->http.limits, o);
    b->http.drain_s = option_seconds(o, "drain");
    b->http.settle_s = SETTLE_SECONDS;
    b->http.gzip_level = (int)option_number(o, "gzip_level");
    b->http.has_no_http2 = option(o, "http2") == Qfalse;
    b->http.has_raw_path = true;
    b->http.server_name = option_string(o, "server_header");
    b->http.trusted_peers = option_string(o, "trusted_peers");
    b->http.trusted_headers = option_string(o, "trusted_headers");
    b->http.proxy_protocol_peers = option_string(o, "proxy_protocol_peers");
    b->cert_file = option_string(o, "cert");
    b->key_file = option_string(o, "key");
}

typedef struct start_call {
    bridge **out;
    const bridge_options *options;
    int result;
} start_call;

static void *start_without_gvl(void *arg)
{
    start_call *call = arg;
    call->result = bridge_start(call->out, call->options);
    return NULL;
}

/* call-seq: Bridge.new(options). The names of options are those of Weft::Server. */
static VALUE bridge_initialize(VALUE self, VALUE options)
{
    ruby_bridge *p = rb_check_typeddata(self, &bridge_type);
    bridge_options o = {0};
    bridge *b = NULL;
    read_options(&o, options);
    start_call call = {.out = &b, .options = &o};
    rb_thread_call_without_gvl(start_without_gvl, &call, NULL, NULL);
    if (call.result < 0) {
        VALUE message =
            rb_str_new_cstr(b != NULL && b->failure != NULL ? b->failure : strerror(-call.result));
        if (b != NULL)
            bridge_release(b);
        rb_raise(rb_eArgError, "%" PRIsVALUE, message);
    }
    p->b = b;
    return self;
}

/* Requests */

static VALUE bridge_fileno(VALUE self)
{
    return INT2FIX(get(self)->b->event_fd);
}

static void pending_put(ruby_bridge *p, exchange *x)
{
    x->next_pending = NULL;
    if (p->pending_first != NULL)
        p->pending_last->next_pending = x;
    else
        p->pending_first = x;
    p->pending_last = x;
    p->pending_count++;
}

/* Take all notices. Wake fibers whose exchanges have changed. Return the number of new requests. */
static VALUE bridge_take_notices(VALUE self)
{
    ruby_bridge *p = get(self);
    uint64_t count;
    unsigned notices;
    exchange *x;
    (void)!read(p->b->event_fd, &count, sizeof count);
    while ((x = bridge_take(p->b, &notices)) != NULL) {
        if (notices & NOTICE_CHANGED)
            request_wake(x);
        if (notices & NOTICE_NEW)
            pending_put(p, x);
        else
            exchange_release(x);
    }
    return LONG2FIX(p->pending_count);
}

static VALUE bridge_pending(VALUE self)
{
    return LONG2FIX(get(self)->pending_count);
}

/* call-seq: next_request(template) -> Request or nil */
static VALUE bridge_next_request(VALUE self, VALUE template)
{
    ruby_bridge *p = get(self);
    exchange *x = p->pending_first;
    if (x == NULL)
        return Qnil;
    p->pending_first = x->next_pending;
    p->pending_count--;
    return request_new(x, self, template);
}

static VALUE method_cork(VALUE self)
{
    bridge_cork(get(self)->b);
    return Qnil;
}

static VALUE method_uncork(VALUE self)
{
    bridge_uncork(get(self)->b);
    return Qnil;
}

/* The end */

static VALUE method_stop(VALUE self)
{
    bridge_stop(get(self)->b);
    return Qnil;
}

static VALUE bridge_is_ended(VALUE self)
{
    return atomic_load(&get(self)->b->is_ended) ? Qtrue : Qfalse;
}

static void *join_without_gvl(void *arg)
{
    bridge_join(arg);
    return NULL;
}

/* Wait for the end of the thread. Return nil, or the message of its failure. */
static VALUE method_join(VALUE self)
{
    ruby_bridge *p = get(self);
    if (!p->b->is_joined)
        rb_thread_call_without_gvl(join_without_gvl, p->b, NULL, NULL);
    bridge_drop_kicks(p->b);
    return p->b->failure != NULL ? rb_str_new_cstr(p->b->failure) : Qnil;
}

/* Return the number of exchanges that exist, for tests. */
static VALUE bridge_exchanges(VALUE self)
{
    return INT2FIX(atomic_load(&get(self)->b->refs) - 1);
}

RUBY_FUNC_EXPORTED void Init_server_ext(void)
{
    VALUE mWeft = rb_define_module("Weft");
    VALUE cServer = rb_path2class("Weft::Server");
    (void)mWeft;
    VALUE cBridge = rb_define_class_under(cServer, "Bridge", rb_cObject);
    rb_define_alloc_func(cBridge, ruby_bridge_alloc);
    rb_define_method(cBridge, "initialize", bridge_initialize, 1);
    rb_define_method(cBridge, "fileno", bridge_fileno, 0);
    rb_define_method(cBridge, "take", bridge_take_notices, 0);
    rb_define_method(cBridge, "pending", bridge_pending, 0);
    rb_define_method(cBridge, "next_request", bridge_next_request, 1);
    rb_define_method(cBridge, "cork", method_cork, 0);
    rb_define_method(cBridge, "uncork", method_uncork, 0);
    rb_define_method(cBridge, "stop", method_stop, 0);
    rb_define_method(cBridge, "ended?", bridge_is_ended, 0);
    rb_define_method(cBridge, "join", method_join, 0);
    rb_define_method(cBridge, "exchanges", bridge_exchanges, 0);
    init_env();
    init_request(cServer);
}
