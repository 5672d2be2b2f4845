/*
 * Hooks of getaddrinfo and getnameinfo. The function of libc runs in a worker thread, with copies
 * of the arguments, because a cancelled call leaves the worker running.
 */
#include "posix/hook.h"
#include "posix/names/lookup.h"

#include <string.h>

/*
 * getaddrinfo.
 */

/* A call of getaddrinfo. The worker writes the last four fields. */
typedef struct address_call {
    char *node, *service; /* NULL: none */
    struct addrinfo hints;
    bool has_hints;
    struct addrinfo *list;
    int result, error, resolver_error;
} address_call;

static void address_call_free(void *arg)
{
    address_call *c = arg;
    if (c->list != NULL)
        freeaddrinfo(c->list);
    free(c->node);
    free(c->service);
    free(c);
}

static weft_value address_call_run(void *arg)
{
    address_call *c = arg;
    c->result = REAL(getaddrinfo)(c->node, c->service, c->has_hints ? &c->hints : NULL, &c->list);
    if (c->result != 0)
        c->list = NULL;
    c->error = errno;
    c->resolver_error = h_errno;
    return 0;
}

/* Copy a text. Returns false if memory is exhausted. */
static bool copy_text(char **copy, const char *text)
{
    *copy = text != NULL ? strdup(text) : NULL;
    return *copy != NULL || text == NULL;
}

/* Copy the arguments. Returns NULL if memory is exhausted. */
static address_call *address_call_new(const char *node, const char *service,
                                      const struct addrinfo *hints)
{
    address_call *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->has_hints = hints != NULL;
    if (hints != NULL)
        c->hints = *hints;
    if (copy_text(&c->node, node) && copy_text(&c->service, service))
        return c;
    address_call_free(c);
    return NULL;
}

/* Return whether libc needs no server for the host. */
static bool is_immediate_host(const char *node, const struct addrinfo *hints)
{
    bool has_numeric_hint = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;
    return node == NULL || has_numeric_hint || weft__is_numeric_host(node);
}

static int address_call_take(address_call *c, struct addrinfo **list)
{
    int result = c->result;
    h_errno = c->resolver_error;
    if (result == 0) {
        *list = c->list;
        c->list = NULL;
    }
    int error = c->error;
    address_call_free(c);
    if (result == EAI_SYSTEM)
        errno = error;
    return result;
}

HOOK_DEFINE(int, getaddrinfo,
            (const char *node, const char *service, const struct addrinfo *hints,
             struct addrinfo **list))
{
    if (!weft__hook_is_on() || is_immediate_host(node, hints))
        return REAL(getaddrinfo)(node, service, hints, list);
    address_call *c = address_call_new(node, service, hints);
    if (c == NULL)
        return EAI_MEMORY;
    int rc = weft__lookup_run(address_call_run, c, address_call_free);
    if (rc == 0)
        return address_call_take(c, list);
    errno = -rc;
    return EAI_SYSTEM;
}

/*
 * getnameinfo.
 */

/* A call of getnameinfo. The worker writes the last two fields, host and service. */
typedef struct name_call {
    struct sockaddr_storage address;
    socklen_t address_bytes;
    char *host, *service; /* NULL: not wanted */
    socklen_t host_bytes, service_bytes;
    int flags;
    int result, error;
} name_call;

static void name_call_free(void *arg)
{
    name_call *c = arg;
    free(c->host);
    free(c->service);
    free(c);
}

static weft_value name_call_run(void *arg)
{
    name_call *c = arg;
    c->result = REAL(getnameinfo)((const struct sockaddr *)&c->address, c->address_bytes, c->host,
                                  c->host_bytes, c->service, c->service_bytes, c->flags);
    c->error = errno;
    return 0;
}

/* Allocate a buffer if the caller has one. Returns false if memory is exhausted. */
static bool buffer_new(char **buffer, const char *wanted, socklen_t bytes)
{
    *buffer = wanted != NULL && bytes > 0 ? calloc(1, bytes) : NULL;
    return *buffer != NULL || wanted == NULL || bytes == 0;
}

static void buffer_copy(char *to, const char *from, socklen_t bytes)
{
    if (from != NULL)
        memcpy(to, from, strnlen(from, bytes - 1) + 1);
}

/* Return whether the call needs no worker: it needs no server, or its arguments are invalid. */
static bool is_immediate_name(const char *host, socklen_t host_bytes, socklen_t address_bytes,
                              int flags)
{
    return host == NULL || host_bytes == 0 || (flags & NI_NUMERICHOST) != 0 ||
           address_bytes > sizeof(struct sockaddr_storage);
}

HOOK_DEFINE(int, getnameinfo,
            (const struct sockaddr *address, socklen_t address_bytes, char *host,
             socklen_t host_bytes, char *service, socklen_t service_bytes, int flags))
{
    if (!weft__hook_is_on() || is_immediate_name(host, host_bytes, address_bytes, flags))
        return REAL(getnameinfo)(address, address_bytes, host, host_bytes, service, service_bytes,
                                 flags);
    name_call *c = calloc(1, sizeof *c);
    if (c == NULL)
        return EAI_MEMORY;
    memcpy(&c->address, address, address_bytes);
    c->address_bytes = address_bytes;
    c->host_bytes = host_bytes;
    c->service_bytes = service_bytes;
    c->flags = flags;
    if (!buffer_new(&c->host, host, host_bytes) ||
        !buffer_new(&c->service, service, service_bytes)) {
        name_call_free(c);
        return EAI_MEMORY;
    }
    int rc = weft__lookup_run(name_call_run, c, name_call_free);
    if (rc < 0) {
        errno = -rc;
        return EAI_SYSTEM;
    }
    int result = c->result, error = c->error;
    if (result == 0) {
        buffer_copy(host, c->host, host_bytes);
        buffer_copy(service, c->service, service_bytes);
    }
    name_call_free(c);
    if (result == EAI_SYSTEM)
        errno = error;
    return result;
}
