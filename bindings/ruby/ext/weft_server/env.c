/* The environment of Rack. Keys and usual values are created once, and shared. */
#include "server_ext.h"

#include <ruby/encoding.h>
#include <string.h>

static VALUE known_keys;   /* Array: the keys of known_fields, frozen */
static VALUE known_values; /* Array: the last value of each known field */
static VALUE key_method, key_path, key_query, key_uri, key_protocol, key_version, key_scheme;
static VALUE key_server_name, key_server_port, key_remote_addr, key_hijackable;
static VALUE methods[8], http_10, http_2, https, port_http, port_https;
static const char *const method_names[8] = {"GET",    "POST", "PUT",     "PATCH",
                                            "DELETE", "HEAD", "OPTIONS", "TRACE"};
static VALUE last_host, last_name_source, last_server_name, last_server_port, last_peer;

static VALUE constant(const char *text)
{
    VALUE string = rb_interned_str_cstr(text);
    rb_gc_register_mark_object(string);
    return string;
}

static bool has_bytes(VALUE string, const char *text, size_t bytes)
{
    return !NIL_P(string) && (size_t)RSTRING_LEN(string) == bytes &&
           memcmp(RSTRING_PTR(string), text, bytes) == 0;
}

static VALUE method_string(const char *method)
{
    for (size_t i = 0; i < 8; i++)
        if (strcmp(method, method_names[i]) == 0)
            return methods[i];
    return rb_str_new_cstr(method);
}

/*
 * Return a String with the value of a known header. Clients repeat most values: the Strings then
 * share memory, but the application may change each of them.
 */
static VALUE known_value(const request_field *f)
{
    VALUE last = RARRAY_AREF(known_values, f->known);
    if (!has_bytes(last, f->value, f->value_bytes)) {
        last = rb_str_freeze(rb_str_new(f->value, (long)f->value_bytes));
        rb_ary_store(known_values, f->known, last);
    }
    return rb_str_dup(last);
}

/* Append a repeated header to its earlier value. Cookies have another separator (RFC 9113). */
static void append_field(VALUE env, VALUE key, const request_field *f)
{
    VALUE value = rb_str_dup(rb_hash_aref(env, key));
    bool is_cookie = has_bytes(key, "HTTP_COOKIE", 11);
    rb_str_cat_cstr(value, is_cookie ? "; " : ", ");
    rb_str_cat(value, f->value, (long)f->value_bytes);
    rb_hash_aset(env, key, value);
}

static void add_field(VALUE env, const request_field *f)
{
    VALUE key = f->known >= 0 ? RARRAY_AREF(known_keys, f->known)
                              : rb_interned_str(f->key, (long)f->key_bytes);
    if (f->is_repeated)
        append_field(env, key, f);
    else
        rb_hash_aset(env, key,
                     f->known >= 0 ? known_value(f) : rb_str_new(f->value, (long)f->value_bytes));
}

/* Return the value of Host, or NULL. */
static const request_field *find_host(const exchange *x)
{
    for (size_t i = 0; i < x->fields_count; i++)
        if (x->fields[i].known == 0)
            return &x->fields[i];
    return NULL;
}

/* Note the host and port of a Host header. The port may follow an address in brackets. */
static void split_host(const exchange *x, const request_field *f)
{
    const char *colon = strrchr(f->value, ':');
    bool has_port = colon != NULL && strchr(colon, ']') == NULL && colon[1] != '\0';
    last_host = rb_str_freeze(rb_str_new(f->value, (long)f->value_bytes));
    last_name_source = rb_str_freeze(rb_str_new_cstr(x->host));
    bool is_ipv6 = strchr(x->host, ':') != NULL;
    last_server_name = rb_str_freeze(rb_sprintf(is_ipv6 ? "[%s]" : "%s", x->host));
    last_server_port = has_port ? rb_str_freeze(rb_str_new_cstr(colon + 1)) : Qnil;
}

static void add_server(VALUE env, const exchange *x)
{
    const request_field *f = find_host(x);
    if (f == NULL || x->host[0] == '\0')
        return; /* the address of the listener, from the template */
    if (!has_bytes(last_host, f->value, f->value_bytes) ||
        !has_bytes(last_name_source, x->host, strlen(x->host)))
        split_host(x, f);
    VALUE port = last_server_port;
    rb_hash_aset(env, key_server_name, last_server_name);
    rb_hash_aset(env, key_server_port, !NIL_P(port) ? port : x->is_https ? port_https : port_http);
}

static void add_peer(VALUE env, const exchange *x)
{
    const char *peer = strcmp(x->peer, "unix") == 0 ? "127.0.0.1" : x->peer;
    if (!has_bytes(last_peer, peer, strlen(peer)))
        last_peer = rb_str_freeze(rb_str_new_cstr(peer));
    rb_hash_aset(env, key_remote_addr, last_peer);
}

static void add_target(VALUE env, const exchange *x)
{
    VALUE path = rb_str_new_cstr(x->path), uri = rb_str_dup(path);
    rb_hash_aset(env, key_path, path);
    if (x->query[0] != '\0') {
        VALUE query = rb_str_new_cstr(x->query);
        rb_hash_aset(env, key_query, query);
        rb_str_cat_cstr(uri, "?");
        rb_str_append(uri, query);
    }
    rb_hash_aset(env, key_uri, uri);
}

/* The template is for HTTP/1.1. */
static void add_protocol(VALUE env, const exchange *x)
{
    if (x->is_https)
        rb_hash_aset(env, key_scheme, https);
    if (x->version == 11)
        return;
    VALUE protocol = x->version == 20 ? http_2 : http_10;
    rb_hash_aset(env, key_protocol, protocol);
    if (!NIL_P(rb_hash_lookup(env, key_version))) /* only in Rack 2 */
        rb_hash_aset(env, key_version, protocol);
    if (x->version == 20 && !x->is_upgrade)
        rb_hash_aset(env, key_hijackable, Qfalse);
}

VALUE env_build(const exchange *x, VALUE template)
{
    VALUE env = rb_hash_dup(template);
    rb_hash_aset(env, key_method, method_string(x->method));
    add_target(env, x);
    add_protocol(env, x);
    add_server(env, x);
    add_peer(env, x);
    for (size_t i = 0; i < x->fields_count; i++)
        add_field(env, &x->fields[i]);
    return env;
}

static void init_keys(void)
{
    known_keys = rb_ary_new();
    known_values = rb_ary_new();
    rb_gc_register_mark_object(known_keys);
    rb_gc_register_mark_object(known_values);
    for (size_t i = 0; i < known_fields_count; i++) {
        rb_ary_push(known_keys, constant(known_fields[i].key));
        rb_ary_push(known_values, Qnil);
    }
    key_method = constant("REQUEST_METHOD");
    key_path = constant("PATH_INFO");
    key_query = constant("QUERY_STRING");
    key_uri = constant("REQUEST_URI");
    key_protocol = constant("SERVER_PROTOCOL");
    key_version = constant("HTTP_VERSION");
    key_scheme = constant("rack.url_scheme");
    key_server_name = constant("SERVER_NAME");
    key_server_port = constant("SERVER_PORT");
    key_remote_addr = constant("REMOTE_ADDR");
    key_hijackable = constant("rack.hijack?");
}

void init_env(void)
{
    init_keys();
    for (size_t i = 0; i < 8; i++)
        methods[i] = constant(method_names[i]);
    http_10 = constant("HTTP/1.0");
    http_2 = constant("HTTP/2");
    https = constant("https");
    port_http = constant("80");
    port_https = constant("443");
    VALUE *const last[] = {&last_host, &last_name_source, &last_server_name, &last_server_port,
                           &last_peer};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        *last[i] = Qnil;
        rb_gc_register_address(last[i]);
    }
}
