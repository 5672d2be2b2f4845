/* Exchanges and their chunks. The head of a request is copied here, in the cord. */
#include "bridge.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

/* Small pieces of a body share a chunk of this size. */
#define CHUNK_CAPACITY ((size_t)2 << 10)

chunk *chunk_new(const void *data, size_t bytes, size_t capacity, int kind)
{
    chunk *c = malloc(sizeof *c + (capacity > bytes ? capacity : bytes));
    if (c == NULL)
        return NULL;
    *c = (chunk){.kind = kind, .bytes = bytes, .capacity = capacity > bytes ? capacity : bytes};
    if (bytes > 0)
        memcpy(c->data, data, bytes);
    return c;
}

void chunks_put(chunk_queue *q, chunk *c)
{
    c->next = NULL;
    if (q->last != NULL)
        q->last->next = c;
    else
        q->first = c;
    q->last = c;
    q->bytes += c->bytes - c->taken;
}

int chunks_append(chunk_queue *q, const void *data, size_t bytes)
{
    chunk *last = q->last;
    if (last != NULL && last->capacity - last->bytes >= bytes) {
        memcpy(last->data + last->bytes, data, bytes);
        last->bytes += bytes;
        q->bytes += bytes;
        return 0;
    }
    chunk *c = chunk_new(data, bytes, CHUNK_CAPACITY, 0);
    if (c == NULL)
        return -ENOMEM;
    chunks_put(q, c);
    return 0;
}

chunk *chunks_take(chunk_queue *q)
{
    chunk *c = q->first;
    if (c == NULL)
        return NULL;
    q->first = c->next;
    if (q->first == NULL)
        q->last = NULL;
    q->bytes -= c->bytes - c->taken;
    return c;
}

void chunks_free(chunk_queue *q)
{
    chunk *c;
    while ((c = chunks_take(q)) != NULL)
        free(c);
}

/* Copies of strings, one after the other. */
typedef struct text_writer {
    char *at;
} text_writer;

static const char *text_add(text_writer *w, const char *text, size_t bytes)
{
    char *copy = w->at;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    w->at += bytes + 1;
    return copy;
}

static const char *text_add_string(text_writer *w, const char *text)
{
    return text_add(w, text, strlen(text));
}

/* Add the key of a header: "X-Name" is "HTTP_X_NAME". */
static const char *text_add_key(text_writer *w, const char *name, size_t bytes)
{
    char *key = w->at;
    memcpy(key, "HTTP_", 5);
    for (size_t i = 0; i < bytes; i++)
        key[5 + i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    key[5 + bytes] = '\0';
    w->at += bytes + 6;
    return key;
}

/*
 * Return whether Ruby must not see a header. X_Name and X-Name have the same key, so that a client
 * could replace a header of a proxy. Libraries take HTTP_PROXY for their own setting, and
 * HTTP_VERSION for the version of the protocol.
 */
static bool field_is_dropped(const char *name)
{
    return strchr(name, '_') != NULL || strcasecmp(name, "proxy") == 0 ||
           strcasecmp(name, "version") == 0;
}

static bool field_is_same(const request_field *a, const request_field *b)
{
    if (a->known >= 0 || b->known >= 0)
        return a->known == b->known;
    return a->key_bytes == b->key_bytes && memcmp(a->key, b->key, a->key_bytes) == 0;
}

static void exchange_add_field(exchange *x, text_writer *w, const char *name, const char *value)
{
    request_field *f = &x->fields[x->fields_count];
    size_t bytes = strlen(name);
    *f = (request_field){.known = known_field_find(name, bytes), .value_bytes = strlen(value)};
    if (f->known < 0) {
        f->key = text_add_key(w, name, bytes);
        f->key_bytes = bytes + 5;
    }
    f->value = text_add(w, value, f->value_bytes);
    for (size_t i = 0; i < x->fields_count && !f->is_repeated; i++)
        f->is_repeated = field_is_same(&x->fields[i], f);
    x->fields_count++;
}

/* Encode 16 random bytes in base64. */
static void make_websocket_key(char key[25])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char random[22] = {0};
    (void)!getrandom(random, sizeof random, 0);
    for (size_t i = 0; i < sizeof random; i++)
        key[i] = digits[random[i] & 63];
    key[21] = 'A'; /* the last of 128 bits leave four bits unused */
    memcpy(key + 22, "==", 3);
}

/*
 * Add the headers that a handshake of HTTP/1.1 has, and an extended CONNECT of HTTP/2 has not.
 * WebSocket libraries of Ruby check them.
 */
static void exchange_add_handshake(exchange *x, text_writer *w)
{
    char key[25];
    make_websocket_key(key);
    exchange_add_field(x, w, "connection", "Upgrade");
    exchange_add_field(x, w, "sec-websocket-key", key);
}

/* Return the number of headers, and add the memory for their strings to *bytes. */
static size_t count_fields(const weft_http_request *r, size_t *bytes)
{
    const char *name, *value;
    size_t n = 0;
    for (; weft_http_header_at(r, n, &name, &value) == 0; n++)
        *bytes += strlen(name) + strlen(value) + 7;
    return n;
}

static int exchange_copy_head(exchange *x, weft_http_request *r)
{
    const char *method = weft_http_method(r), *path = weft_http_path(r),
               *query = weft_http_query(r);
    const char *host = weft_http_host(r), *peer = weft_http_peer(r);
    size_t bytes = strlen(method) + strlen(path) + strlen(query) + strlen(host) + strlen(peer) + 80;
    size_t count = count_fields(r, &bytes) + 2;
    x->fields = malloc(count * sizeof *x->fields + bytes);
    if (x->fields == NULL)
        return -ENOMEM;
    text_writer w = {.at = (char *)(x->fields + count)};
    x->method = text_add_string(&w, method);
    x->path = text_add_string(&w, path);
    x->query = text_add_string(&w, query);
    x->host = text_add_string(&w, host);
    x->peer = text_add_string(&w, peer);
    const char *name, *value;
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++)
        if (!field_is_dropped(name))
            exchange_add_field(x, &w, name, value);
    if (x->version == 20 && x->is_upgrade)
        exchange_add_handshake(x, &w);
    return 0;
}

exchange *exchange_new(bridge *b, weft_http_request *r)
{
    exchange *x = calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    x->bridge = b;
    x->request = r;
    x->hijack_fd = -1;
    x->version = weft_http_version(r);
    x->length = weft_http_length(r);
    x->is_https = strcmp(weft_http_scheme(r), "https") == 0;
    x->is_upgrade = weft_http_header(r, "Upgrade") != NULL;
    x->input_is_complete = x->length == 0;
    atomic_init(&x->refs, 1);
    if (exchange_copy_head(x, r) < 0) {
        free(x);
        return NULL;
    }
    pthread_mutex_init(&x->lock, NULL);
    atomic_fetch_add(&b->refs, 1);
    return x;
}

void exchange_hold(exchange *x)
{
    atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
}

void exchange_release(exchange *x)
{
    if (atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) > 1)
        return;
    chunks_free(&x->input);
    chunks_free(&x->output);
    free(x->interim);
    free(x->head);
    free(x->fields);
    if (x->hijack_fd >= 0)
        close(x->hijack_fd);
    if (x->websocket != NULL)
        websocket_options_free(x->websocket);
    free(x->websocket_protocol);
    free(x->close_reason);
    pthread_mutex_destroy(&x->lock);
    bridge_release(x->bridge);
    free(x);
}
