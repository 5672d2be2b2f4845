/* The status and headers of a reply, from the objects of Rack to one allocation. */
#include "server_ext.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The first pass counts, the second pass writes. */
typedef struct head_pack {
    char *at; /* NULL: count */
    size_t bytes;
    size_t count;
    int64_t length; /* of Content-Length; -1: none */
    bool is_simple; /* all names and values are Strings */
    bool has_nul;   /* a NUL would end a string early, and begin another field */
} head_pack;

static void pack_bytes(head_pack *p, const char *data, size_t bytes)
{
    if (p->at != NULL) {
        memcpy(p->at, data, bytes);
        p->at[bytes] = '\0';
        p->at += bytes + 1;
    }
    p->bytes += bytes + 1;
    p->has_nul = p->has_nul || memchr(data, '\0', bytes) != NULL;
}

static void pack_field(head_pack *p, VALUE name, const char *value, size_t bytes)
{
    p->count++;
    pack_bytes(p, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
    pack_bytes(p, value, bytes);
}

/* In Rack 2, a value has one line for each field. */
static void pack_lines(head_pack *p, VALUE name, VALUE value)
{
    const char *at = RSTRING_PTR(value), *end = at + RSTRING_LEN(value);
    for (;;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        pack_field(p, name, at, (size_t)((newline != NULL ? newline : end) - at));
        if (newline == NULL)
            return;
        at = newline + 1;
    }
}

static bool has_name(VALUE name, const char *text)
{
    size_t bytes = strlen(text);
    return (size_t)RSTRING_LEN(name) == bytes && strncasecmp(RSTRING_PTR(name), text, bytes) == 0;
}

/* Return the number in a header, or -1. */
static int64_t parse_length(VALUE value)
{
    char text[24] = {0}, *end;
    size_t bytes = (size_t)RSTRING_LEN(value);
    if (bytes == 0 || bytes > 18)
        return -1;
    memcpy(text, RSTRING_PTR(value), bytes);
    long long n = strtoll(text, &end, 10);
    return *end == '\0' && n >= 0 ? n : -1;
}

static void pack_array(head_pack *p, VALUE name, VALUE values)
{
    for (long i = 0; i < RARRAY_LEN(values); i++) {
        VALUE value = RARRAY_AREF(values, i);
        p->is_simple = p->is_simple && RB_TYPE_P(value, T_STRING);
        if (RB_TYPE_P(value, T_STRING))
            pack_field(p, name, RSTRING_PTR(value), (size_t)RSTRING_LEN(value));
    }
}

/* Neither allocates nor raises, so that both passes see the same headers. */
static int pack_header(VALUE name, VALUE value, VALUE arg)
{
    head_pack *p = (head_pack *)arg;
    if (!RB_TYPE_P(name, T_STRING) || (!RB_TYPE_P(value, T_STRING) && !RB_TYPE_P(value, T_ARRAY))) {
        p->is_simple = false;
        return ST_STOP;
    }
    if (RSTRING_LEN(name) >= 5 && memcmp(RSTRING_PTR(name), "rack.", 5) == 0)
        return ST_CONTINUE; /* for the server */
    if (RB_TYPE_P(value, T_ARRAY))
        pack_array(p, name, value);
    else if (has_name(name, "content-length"))
        p->length = parse_length(value);
    else
        pack_lines(p, name, value);
    return ST_CONTINUE;
}

static const char *pack_string(head_pack *p, VALUE string)
{
    const char *copy = p->at;
    if (NIL_P(string))
        return NULL;
    pack_bytes(p, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
    return copy;
}

reply_head *head_new(int status, VALUE headers, VALUE path, VALUE protocol)
{
    head_pack p = {.length = -1, .is_simple = true};
    rb_hash_foreach(headers, pack_header, (VALUE)&p);
    if (!p.is_simple)
        return NULL;
    (void)pack_string(&p, path);
    (void)pack_string(&p, protocol);
    if (p.has_nul)
        rb_raise(rb_eArgError, "a header has a NUL byte");
    reply_head *head = malloc(sizeof *head + p.bytes);
    if (head == NULL)
        rb_memerror();
    *head = (reply_head){.status = status, .length = p.length, .fields_count = p.count};
    p.at = head->text;
    head->path = pack_string(&p, path);
    head->protocol = pack_string(&p, protocol);
    head->fields = p.at;
    rb_hash_foreach(headers, pack_header, (VALUE)&p);
    return head;
}
