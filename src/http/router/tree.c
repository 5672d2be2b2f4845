/* The trees of routes: nodes, the parser of patterns, and the addition of routes. */
#include "http/router/route.h"

#include <weft/error.h>

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Nodes.
 */

/* Compare the lengths first, because most words differ in length. */
static int node_compare(const weft__route_node *n, const char *word, size_t bytes)
{
    if (n->word_bytes != bytes)
        return n->word_bytes < bytes ? -1 : 1;
    return memcmp(n->word, word, bytes);
}

/* Return the index of the child for a word, or the index at which to insert the child. */
static size_t child_index_of(const weft__route_node *n, const char *word, size_t bytes)
{
    size_t low = 0, high = n->children_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (node_compare(n->children[middle], word, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

weft__route_node *weft__route_child(const weft__route_node *node, const char *word, size_t bytes)
{
    size_t index = child_index_of(node, word, bytes);
    if (index == node->children_count || node_compare(node->children[index], word, bytes) != 0)
        return NULL;
    return node->children[index];
}

static weft__route_node *node_new(const char *word, size_t bytes)
{
    weft__route_node *n = calloc(1, sizeof *n + bytes);
    if (n == NULL)
        return NULL;
    n->word = memcpy(n + 1, word, bytes);
    n->word_bytes = bytes;
    return n;
}

/*
 * Return the child for a word. Create the child if necessary. Returns NULL if memory is exhausted.
 */
static weft__route_node *node_child_for(weft__route_node *n, const char *word, size_t bytes)
{
    weft__route_node *child = weft__route_child(n, word, bytes);
    if (child != NULL)
        return child;
    weft__route_node **children = realloc(n->children, (n->children_count + 1) * sizeof *children);
    if (children == NULL)
        return NULL;
    n->children = children;
    child = node_new(word, bytes);
    if (child == NULL)
        return NULL;
    size_t index = child_index_of(n, word, bytes);
    memmove(children + index + 1, children + index, (n->children_count - index) * sizeof *children);
    children[index] = child;
    n->children_count++;
    return child;
}

static weft__route_node *node_param_child(weft__route_node *n)
{
    if (n->param == NULL)
        n->param = node_new("", 0);
    return n->param;
}

static void routes_free(weft__route *r)
{
    while (r != NULL) {
        weft__route *next = r->next;
        free(r);
        r = next;
    }
}

/* Free all nodes below a node. WEFT__ROUTE_SEGMENTS_MAX limits the recursion. */
static void node_free_below(weft__route_node *n)
{
    for (size_t i = 0; i < n->children_count; i++) {
        node_free_below(n->children[i]);
        free(n->children[i]);
    }
    if (n->param != NULL)
        node_free_below(n->param);
    free(n->param);
    free(n->children);
    routes_free(n->routes);
    routes_free(n->rest_routes);
}

void weft__routes_close(weft__routes *routes)
{
    node_free_below(&routes->hosts);
    *routes = (weft__routes){0};
}

/*
 * Patterns.
 */

static int route_reject(const char *pattern, const char *why)
{
    return weft_fail(-EINVAL, "weft_http_route: pattern is \"%s\": %s", pattern, why);
}

static bool method_is_token(const char *method)
{
    size_t bytes = strlen(method);
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "!#$%&'*+-.^_`|~";
    return bytes > 0 && bytes <= WEFT__ROUTE_METHOD_BYTES_MAX && strspn(method, letters) == bytes;
}

static bool host_is_valid(const char *host, size_t bytes)
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

/* A segment of a pattern. */
typedef struct segment {
    const char *at; /* the word, or the name without braces */
    size_t bytes;
    enum { WORD, PARAM, REST } kind;
} segment;

static bool param_name_is_valid(const char *name, size_t bytes)
{
    if (bytes == 0 || isdigit((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    return true;
}

/* Parse a segment. Returns NULL, or an error message if the segment is invalid. */
static const char *parse_segment(const char *at, size_t bytes, segment *out)
{
    *out = (segment){at, bytes, WORD};
    bool has_braces = memchr(at, '{', bytes) != NULL || memchr(at, '}', bytes) != NULL;
    if (!has_braces) {
        bool is_dots = (bytes == 1 && at[0] == '.') || (bytes == 2 && memcmp(at, "..", 2) == 0);
        return is_dots ? "the segments \".\" and \"..\" are not allowed" : NULL;
    }
    if (bytes < 2 || at[0] != '{' || at[bytes - 1] != '}')
        return "{name} must be a whole segment";
    out->at++;
    out->bytes -= 2;
    out->kind = PARAM;
    if (out->bytes > 3 && memcmp(at + bytes - 4, "...", 3) == 0) {
        out->bytes -= 3;
        out->kind = REST;
    }
    return param_name_is_valid(out->at, out->bytes)
               ? NULL
               : "a name must consist of letters, digits and _";
}

/* A parsed pattern. */
typedef struct route_pattern {
    const char *host;
    size_t host_bytes;
    size_t count;
    segment segments[WEFT__ROUTE_SEGMENTS_MAX];
} route_pattern;

static bool pattern_has_name(const route_pattern *s, const segment *name)
{
    for (size_t i = 0; i < s->count; i++) {
        const segment *other = &s->segments[i];
        if (other->kind != WORD && other->bytes == name->bytes &&
            memcmp(other->at, name->at, name->bytes) == 0)
            return true;
    }
    return false;
}

/* Parse the path of a pattern. Returns NULL, or an error message if the path is invalid. */
static const char *pattern_parse_path(const char *slash, route_pattern *s)
{
    size_t params = 0;
    while (slash != NULL) {
        const char *at = slash + 1;
        segment next;
        slash = strchr(at, '/');
        const char *error =
            parse_segment(at, slash != NULL ? (size_t)(slash - at) : strlen(at), &next);
        if (error != NULL)
            return error;
        if (next.kind == REST && slash != NULL)
            return "{name...} must be the last segment";
        if (next.kind != WORD && pattern_has_name(s, &next))
            return "a name occurs twice";
        if (next.kind != WORD && params++ == WEFT__ROUTE_PARAMS_MAX)
            return "more than 16 names";
        if (s->count == WEFT__ROUTE_SEGMENTS_MAX)
            return "more than 64 segments";
        s->segments[s->count++] = next;
    }
    return NULL;
}

static int pattern_parse(const char *method, const char *pattern, route_pattern *s)
{
    *s = (route_pattern){.host = pattern};
    if (pattern == NULL)
        return weft_fail(-EINVAL, "weft_http_route: pattern is NULL");
    if (method != NULL && !method_is_token(method))
        return route_reject(pattern, "the method is invalid");
    const char *slash = strchr(pattern, '/');
    if (slash == NULL)
        return route_reject(pattern, "the path is missing");
    s->host_bytes = (size_t)(slash - pattern);
    if (!host_is_valid(s->host, s->host_bytes))
        return route_reject(pattern, "the host is invalid");
    const char *error = pattern_parse_path(slash, s);
    return error != NULL ? route_reject(pattern, error) : 0;
}

/*
 * Routes.
 */

static weft__route_node *pattern_root_for(weft__routes *routes, const route_pattern *s)
{
    char host[256];
    if (s->host_bytes > sizeof host)
        return NULL;
    for (size_t i = 0; i < s->host_bytes; i++)
        host[i] = (char)tolower((unsigned char)s->host[i]);
    return node_child_for(&routes->hosts, host, s->host_bytes);
}

/*
 * Return the list for the pattern's routes. Create missing nodes. Returns NULL if memory is
 * exhausted or the host is too long.
 */
static weft__route **pattern_list_for(weft__routes *routes, const route_pattern *s)
{
    weft__route_node *n = pattern_root_for(routes, s);
    for (size_t i = 0; n != NULL && i < s->count; i++) {
        const segment *next = &s->segments[i];
        if (next->kind == REST)
            return &n->rest_routes;
        n = next->kind == WORD ? node_child_for(n, next->at, next->bytes) : node_param_child(n);
    }
    return n != NULL ? &n->routes : NULL;
}

static bool route_exists(const weft__route *list, const char *method)
{
    for (const weft__route *r = list; r != NULL; r = r->next)
        if (method == NULL || r->method == NULL ? method == r->method
                                                : strcmp(method, r->method) == 0)
            return true;
    return false;
}

static char *copy_text(char *into, const char *text, size_t bytes)
{
    memcpy(into, text, bytes);
    into[bytes] = '\0';
    return into + bytes + 1;
}

static weft__route *route_new(const char *method, const route_pattern *s)
{
    size_t method_bytes = method != NULL ? strlen(method) : 0, bytes = method_bytes + 1;
    for (size_t i = 0; i < s->count; i++)
        bytes += s->segments[i].kind != WORD ? s->segments[i].bytes + 1 : 0;
    weft__route *r = calloc(1, sizeof *r + bytes);
    if (r == NULL)
        return NULL;
    r->method = method != NULL ? r->text : NULL;
    char *into = copy_text(r->text, method != NULL ? method : "", method_bytes);
    for (size_t i = 0; i < s->count; i++) {
        const segment *next = &s->segments[i];
        if (next->kind == WORD)
            continue;
        r->has_rest = next->kind == REST;
        r->names[r->names_count++] = into;
        into = copy_text(into, next->at, next->bytes);
    }
    return r;
}

int weft__routes_add(weft__routes *routes, const char *method, const char *pattern,
                     weft_http_handler *handler, void *ctx)
{
    route_pattern s;
    int rc = pattern_parse(method, pattern, &s);
    if (rc < 0)
        return rc;
    if (handler == NULL)
        return route_reject(pattern, "handler is NULL");
    weft__route **list = pattern_list_for(routes, &s);
    if (list == NULL)
        return -ENOMEM;
    if (route_exists(*list, method))
        return weft_fail(-EEXIST, "weft_http_route: route \"%s\" already exists", pattern);
    weft__route *r = route_new(method, &s);
    if (r == NULL)
        return -ENOMEM;
    r->handler = handler;
    r->ctx = ctx;
    r->next = *list;
    *list = r;
    return 0;
}
