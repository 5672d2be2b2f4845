/*
 * Fuzz the router. The input has lines of the form "[METHOD ]pattern". The last line is the path.
 * No input may crash the router. The pattern of a match gives the path again, if the values of its
 * names are inserted.
 */
#include "http/router/route.h"

#include <weft/error.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int handle(weft_http_request *request, void *ctx)
{
    (void)request, (void)ctx;
    return 0;
}

static void require(bool is_so)
{
    if (!is_so)
        abort();
}

static void add(weft__routes *routes, char *line)
{
    char *space = strchr(line, ' '), *pattern = space != NULL ? space + 1 : line;
    if (space != NULL)
        *space = '\0';
    (void)weft__routes_add(routes, space != NULL ? line : NULL, pattern, handle, pattern);
    weft_error_clear();
}

/* Require that the pattern equals the path, if each {name} is replaced by its value. */
static void check(const weft__route_match *m, const char *path)
{
    const char *pattern = strchr(m->route->ctx, '/');
    const char *at = path;
    size_t next = 0;
    while (*pattern != '\0') {
        if (*pattern != '{') {
            /* "/a/{rest...}" also matches "/a". */
            if (*at == '\0' && strncmp(pattern, "/{", 2) == 0 && m->route->has_rest) {
                require(next + 1 == m->route->names_count && m->values[next].bytes == 0);
                return;
            }
            require(*at++ == *pattern++);
            continue;
        }
        require(next < m->route->names_count && m->values[next].at == at);
        at += m->values[next++].bytes;
        pattern = strchr(pattern, '}') + 1;
    }
    require(*at == '\0' && next == m->route->names_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "POST"};
    weft__routes routes = {0};
    weft__route_match m;
    weft__route_methods allowed;
    char *text = malloc(size + 1), *rest = text, *line;
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL)
        add(&routes, line);
    if (line != NULL && line[0] == '/')
        for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
            weft__routes_methods(&routes, "a.b.org", line, &allowed);
            require(strlen(allowed.text) == allowed.bytes);
            if (weft__routes_find(&routes, methods[i], "a.b.org", line, &m))
                check(&m, line);
        }
    weft__routes_methods(&routes, "", NULL, &allowed);
    weft__routes_close(&routes);
    free(text);
    return 0;
}
