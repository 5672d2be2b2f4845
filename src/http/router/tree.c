/*
 * The tree of routes, built from patterns. Searching it is route_find.c's matter.
 */
#include "http/route.h"

#include <weft/error.h>

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Nodes.
 */

/* By length first: what is compared most often differs there. */
static int compare(const weft__route_node *n, const char *word, size_t bytes)
{
    if (n->word_bytes != bytes)
        return n->word_bytes < bytes ? -1 : 1;
    return memcmp(n->word, word, bytes);
}

/* Where a word is among the children, or would be. */
static size_t place_of(const weft__route_node *n, const char *word, size_t bytes)
{
    size_t low = 0, high = n->words_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(n->words[middle], word, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

weft__route_node *weft__route_word(const weft__route_node *node, const char *word, size_t bytes)
{
    size_t at = place_of(node, word, bytes);
    if (at == node->words_count || compare(node->words[at], word, bytes) != 0)
        return NULL;
    return node->words[at];
}

static weft__route_node *make_node(const char *word, size_t bytes)
{
    weft__route_node *n = calloc(1, sizeof *n + bytes);
    if (n == NULL)
        return NULL;
    n->word = memcpy(n + 1, word, bytes);
    n->word_bytes = bytes;
    return n;
}

/* The child for a word, made if it is not there; NULL if there is no memory. */
static weft__route_node *child_for(weft__route_node *n, const char *word, size_t bytes)
{
    weft__route_node *child = weft__route_word(n, word, bytes);
    if (child != NULL)
        return child;
    weft__route_node **words = realloc(n->words, (n->words_count + 1) * sizeof *words);
    if (words == NULL)
        return NULL;
    n->words = words;
    child = make_node(word, bytes);
    if (child == NULL)
        return NULL;
    size_t at = place_of(n, word, bytes);
    memmove(words + at + 1, words + at, (n->words_count - at) * sizeof *words);
    words[at] = child;
    n->words_count++;
    return child;
}

static weft__route_node *param_of(weft__route_node *n)
{
    if (n->param == NULL)
        n->param = make_node("", 0);
    return n->param;
}

static void free_list(weft__route *r)
{
    while (r != NULL) {
        weft__route *next = r->next;
        free(r);
        r = next;
    }
}

/* As deep as a pattern may be. */
static void free_below(weft__route_node *n)
{
    for (size_t i = 0; i < n->words_count; i++) {
        free_below(n->words[i]);
        free(n->words[i]);
    }
    if (n->param != NULL)
        free_below(n->param);
    free(n->param);
    free(n->words);
    free_list(n->routes);
    free_list(n->rests);
}

void weft__routes_close(weft__routes *routes)
{
    free_below(&routes->hosts);
    *routes = (weft__routes){0};
}

/*
 * Patterns.
 */

static int refuse(const char *pattern, const char *why)
{
    return weft_fail(-EINVAL, "no route \"%s\": %s", pattern, why);
}

static bool is_token(const char *method)
{
    size_t bytes = strlen(method);
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "!#$%&'*+-.^_`|~";
    return bytes > 0 && bytes <= WEFT__ROUTE_METHOD_BYTES_MAX && strspn(method, letters) == bytes;
}

static bool is_host(const char *host, size_t bytes)
{
    if (bytes >= 2 && host[0] == '*' && host[1] == '.') {
        host += 2;
        bytes -= 2;
        if (bytes == 0)
            return false;
    }
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)host[i]) && strchr("-._:[]", host[i]) == NULL)
            return false;
    return bytes == 0 || host[bytes - 1] != '.';
}

/* One segment of a pattern. */
typedef struct segment {
    const char *at; /* the word or the name */
    size_t bytes;
    enum { WORD, PARAM, REST } kind;
} segment;

static bool is_name(const char *name, size_t bytes)
{
    if (bytes == 0 || isdigit((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    return true;
}

static const char *parse_segment(const char *at, size_t bytes, segment *out)
{
    *out = (segment){at, bytes, WORD};
    bool has_braces = memchr(at, '{', bytes) != NULL || memchr(at, '}', bytes) != NULL;
    if (!has_braces) {
        bool is_dots = (bytes == 1 && at[0] == '.') || (bytes == 2 && memcmp(at, "..", 2) == 0);
        return is_dots ? "paths have no dots as segments when they are looked up" : NULL;
    }
    if (bytes < 2 || at[0] != '{' || at[bytes - 1] != '}')
        return "{name} is a whole segment";
    out->at++;
    out->bytes -= 2;
    out->kind = PARAM;
    if (out->bytes > 3 && memcmp(at + bytes - 4, "...", 3) == 0) {
        out->bytes -= 3;
        out->kind = REST;
    }
    return is_name(out->at, out->bytes) ? NULL : "a name has letters, digits and underscores";
}

/* A pattern, taken apart. */
typedef struct shape {
    const char *host;
    size_t host_bytes;
    size_t count;
    segment segments[WEFT__ROUTE_SEGMENTS_MAX];
} shape;

static bool has_name(const shape *s, const segment *name)
{
    for (size_t i = 0; i < s->count; i++) {
        const segment *other = &s->segments[i];
        if (other->kind != WORD && other->bytes == name->bytes &&
            memcmp(other->at, name->at, name->bytes) == 0)
            return true;
    }
    return false;
}

/* Takes the path of a pattern apart. What is wrong with it; NULL: nothing. */
static const char *parse_path(const char *slash, shape *s)
{
    size_t params = 0;
    while (slash != NULL) {
        const char *at = slash + 1;
        segment next;
        slash = strchr(at, '/');
        const char *wrong =
            parse_segment(at, slash != NULL ? (size_t)(slash - at) : strlen(at), &next);
        if (wrong != NULL)
            return wrong;
        if (next.kind == REST && slash != NULL)
            return "{name...} is the last segment";
        if (next.kind != WORD && (has_name(s, &next) || params++ == WEFT__ROUTE_PARAMS_MAX))
            return "a name is there twice, or there are too many";
        if (s->count == WEFT__ROUTE_SEGMENTS_MAX)
            return "it is too deep";
        s->segments[s->count++] = next;
    }
    return NULL;
}

static int parse(const char *method, const char *pattern, shape *s)
{
    *s = (shape){.host = pattern};
    if (pattern == NULL)
        return weft_fail(-EINVAL, "a route without a pattern");
    if (method != NULL && !is_token(method))
        return refuse(pattern, "what is to be its method is none");
    const char *slash = strchr(pattern, '/');
    if (slash == NULL)
        return refuse(pattern, "it has no path");
    s->host_bytes = (size_t)(slash - pattern);
    if (!is_host(s->host, s->host_bytes))
        return refuse(pattern, "what is to be its host is none");
    const char *wrong = parse_path(slash, s);
    return wrong != NULL ? refuse(pattern, wrong) : 0;
}

/*
 * Adding one.
 */

static weft__route_node *root_for(weft__routes *routes, const shape *s)
{
    char host[256];
    if (s->host_bytes > sizeof host)
        return NULL;
    for (size_t i = 0; i < s->host_bytes; i++)
        host[i] = (char)tolower((unsigned char)s->host[i]);
    return child_for(&routes->hosts, host, s->host_bytes);
}

/* Where the route belongs, with what was missing on the way; NULL if there is no memory. */
static weft__route **list_for(weft__routes *routes, const shape *s)
{
    weft__route_node *n = root_for(routes, s);
    for (size_t i = 0; n != NULL && i < s->count; i++) {
        const segment *next = &s->segments[i];
        if (next->kind == REST)
            return &n->rests;
        n = next->kind == WORD ? child_for(n, next->at, next->bytes) : param_of(n);
    }
    return n != NULL ? &n->routes : NULL;
}

static bool is_there(const weft__route *list, const char *method)
{
    for (const weft__route *r = list; r != NULL; r = r->next)
        if (method == NULL || r->method == NULL ? method == r->method
                                                : strcmp(method, r->method) == 0)
            return true;
    return false;
}

static char *add_text(char *into, const char *text, size_t bytes)
{
    memcpy(into, text, bytes);
    into[bytes] = '\0';
    return into + bytes + 1;
}

static weft__route *make_route(const char *method, const shape *s)
{
    size_t method_bytes = method != NULL ? strlen(method) : 0, bytes = method_bytes + 1;
    for (size_t i = 0; i < s->count; i++)
        bytes += s->segments[i].kind != WORD ? s->segments[i].bytes + 1 : 0;
    weft__route *r = calloc(1, sizeof *r + bytes);
    if (r == NULL)
        return NULL;
    r->method = method != NULL ? r->text : NULL;
    char *into = add_text(r->text, method != NULL ? method : "", method_bytes);
    for (size_t i = 0; i < s->count; i++) {
        const segment *next = &s->segments[i];
        if (next->kind == WORD)
            continue;
        r->has_rest = next->kind == REST;
        r->names[r->names_count++] = into;
        into = add_text(into, next->at, next->bytes);
    }
    return r;
}

int weft__routes_add(weft__routes *routes, const char *method, const char *pattern,
                     weft_http_handler *handler, void *ctx)
{
    shape s;
    int rc = parse(method, pattern, &s);
    if (rc < 0)
        return rc;
    if (handler == NULL)
        return refuse(pattern, "it has no handler");
    weft__route **list = list_for(routes, &s);
    if (list == NULL)
        return -ENOMEM;
    if (is_there(*list, method))
        return weft_fail(-EEXIST, "there is a route \"%s\" already", pattern);
    weft__route *r = make_route(method, &s);
    if (r == NULL)
        return -ENOMEM;
    r->handler = handler;
    r->ctx = ctx;
    r->next = *list;
    *list = r;
    return 0;
}
