/*
 * Hooks of gethostbyname and gethostbyaddr, and of their forms with a buffer. All run the form with
 * a buffer of libc in a worker thread. The results of the forms without a buffer belong to the
 * fiber, until its next such call or its end.
 */
#include "posix/hook.h"
#include "posix/names/lookup.h"

#include <weft/local.h>

#include <stdint.h>
#include <string.h>

/* The size of the first buffer of the forms without a buffer. */
#define BUFFER_BYTES_FIRST 1024
#define BUFFER_BYTES_MAX ((size_t)1 << 20)
#define ALIGNMENT _Alignof(max_align_t)

typedef enum host_query {
    HOST_BY_NAME,
    HOST_BY_NAME_AND_FAMILY,
    HOST_BY_ADDRESS,
} host_query;

/* A call. The worker writes the fields from `host` on, and the buffer. */
typedef struct host_call {
    host_query query;
    char *key; /* the name or the address */
    socklen_t key_bytes;
    int family;
    char *block;  /* the memory of buffer */
    char *buffer; /* has the alignment of the buffer of the caller */
    size_t buffer_bytes;
    struct hostent host, *found; /* found is NULL or &host */
    int result, error, resolver_error;
} host_call;

static void host_call_free(void *arg)
{
    host_call *c = arg;
    free(c->key);
    free(c->block);
    free(c);
}

static weft_value host_call_run(void *arg)
{
    host_call *c = arg;
    switch (c->query) {
    case HOST_BY_NAME:
        c->result = REAL(gethostbyname_r)(c->key, &c->host, c->buffer, c->buffer_bytes, &c->found,
                                          &c->resolver_error);
        break;
    case HOST_BY_NAME_AND_FAMILY:
        c->result = REAL(gethostbyname2_r)(c->key, c->family, &c->host, c->buffer, c->buffer_bytes,
                                           &c->found, &c->resolver_error);
        break;
    case HOST_BY_ADDRESS:
        c->result = REAL(gethostbyaddr_r)(c->key, c->key_bytes, c->family, &c->host, c->buffer,
                                          c->buffer_bytes, &c->found, &c->resolver_error);
        break;
    }
    c->error = errno;
    return 0;
}

/* Allocate the buffer. `like` is an address with the same alignment. */
static bool host_call_set_buffer(host_call *c, size_t bytes, const void *like)
{
    free(c->block);
    c->block = malloc(bytes + ALIGNMENT);
    c->buffer_bytes = bytes;
    if (c->block != NULL)
        c->buffer = c->block + (uintptr_t)like % ALIGNMENT;
    return c->block != NULL;
}

/* Returns NULL if memory is exhausted. */
static host_call *host_call_new(host_query query, const void *key, socklen_t key_bytes, int family,
                                size_t buffer_bytes, const void *like)
{
    host_call *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->query = query;
    c->key_bytes = key_bytes;
    c->family = family;
    c->key = malloc((size_t)key_bytes + 1);
    if (c->key == NULL || !host_call_set_buffer(c, buffer_bytes, like)) {
        host_call_free(c);
        return NULL;
    }
    memcpy(c->key, key, key_bytes);
    c->key[key_bytes] = '\0';
    return c;
}

/*
 * Forms with a buffer.
 */

/* Add an offset to a pointer into the old buffer. Other pointers remain. */
static char *pointer_move(char *pointer, const host_call *c, const char *buffer)
{
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)c->buffer;
    return offset < c->buffer_bytes ? (char *)(uintptr_t)buffer + offset : pointer;
}

static char **list_move(char **list, const host_call *c, const char *buffer)
{
    char **to = (char **)(void *)pointer_move((char *)list, c, buffer);
    for (char **at = to; at != NULL && *at != NULL; at++)
        *at = pointer_move(*at, c, buffer);
    return to;
}

/* Copy the result and its buffer to the caller. */
static void host_copy(const host_call *c, struct hostent *host, char *buffer)
{
    memcpy(buffer, c->buffer, c->buffer_bytes);
    *host = c->host;
    host->h_name = pointer_move(host->h_name, c, buffer);
    host->h_aliases = list_move(host->h_aliases, c, buffer);
    host->h_addr_list = list_move(host->h_addr_list, c, buffer);
}

/* Arguments of the caller for the result. */
typedef struct host_out {
    struct hostent *host;
    char *buffer;
    size_t buffer_bytes;
    struct hostent **found;
    int *resolver_error;
} host_out;

static int host_query_fail(const host_out *out, int error)
{
    *out->found = NULL;
    *out->resolver_error = NETDB_INTERNAL;
    errno = error;
    return error;
}

static int host_query_run(host_query query, const void *key, socklen_t key_bytes, int family,
                          const host_out *out)
{
    host_call *c = host_call_new(query, key, key_bytes, family, out->buffer_bytes, out->buffer);
    if (c == NULL)
        return host_query_fail(out, ENOMEM);
    int rc = weft__lookup_run(host_call_run, c, host_call_free);
    if (rc < 0)
        return host_query_fail(out, -rc);
    bool is_found = c->result == 0 && c->found != NULL;
    if (is_found)
        host_copy(c, out->host, out->buffer);
    *out->found = is_found ? out->host : NULL;
    *out->resolver_error = c->resolver_error;
    int result = c->result, error = c->error;
    host_call_free(c);
    if (!is_found)
        errno = error;
    return result;
}

HOOK_DEFINE(int, gethostbyname_r,
            (const char *name, struct hostent *host, char *buffer, size_t buffer_bytes,
             struct hostent **found, int *resolver_error))
{
    if (!weft__hook_is_on() || weft__is_numeric_host(name))
        return REAL(gethostbyname_r)(name, host, buffer, buffer_bytes, found, resolver_error);
    host_out out = {host, buffer, buffer_bytes, found, resolver_error};
    return host_query_run(HOST_BY_NAME, name, (socklen_t)strlen(name), 0, &out);
}

HOOK_DEFINE(int, gethostbyname2_r,
            (const char *name, int family, struct hostent *host, char *buffer, size_t buffer_bytes,
             struct hostent **found, int *resolver_error))
{
    if (!weft__hook_is_on() || weft__is_numeric_host(name))
        return REAL(gethostbyname2_r)(name, family, host, buffer, buffer_bytes, found,
                                      resolver_error);
    host_out out = {host, buffer, buffer_bytes, found, resolver_error};
    return host_query_run(HOST_BY_NAME_AND_FAMILY, name, (socklen_t)strlen(name), family, &out);
}

HOOK_DEFINE(int, gethostbyaddr_r,
            (const void *address, socklen_t address_bytes, int family, struct hostent *host,
             char *buffer, size_t buffer_bytes, struct hostent **found, int *resolver_error))
{
    if (!weft__hook_is_on())
        return REAL(gethostbyaddr_r)(address, address_bytes, family, host, buffer, buffer_bytes,
                                     found, resolver_error);
    host_out out = {host, buffer, buffer_bytes, found, resolver_error};
    return host_query_run(HOST_BY_ADDRESS, address, address_bytes, family, &out);
}

/*
 * Forms without a buffer.
 */

/* Return the key of the last host_call of a fiber. */
static weft_key result_key(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static weft_key key;
    REAL(pthread_mutex_lock)(&lock);
    if (key == 0)
        key = weft_key_new(host_call_free);
    REAL(pthread_mutex_unlock)(&lock);
    return key;
}

/* Keep the result for the fiber. Free the result of the last call. */
static struct hostent *host_keep(host_call *c)
{
    host_call *old = weft_local_get(result_key());
    if (weft_local_set(result_key(), c) < 0) {
        host_call_free(c);
        h_errno = NETDB_INTERNAL;
        errno = ENOMEM;
        return NULL;
    }
    if (old != NULL)
        host_call_free(old);
    return &c->host;
}

static struct hostent *host_fail(int error)
{
    h_errno = NETDB_INTERNAL;
    errno = error;
    return NULL;
}

/* Run the call in a worker thread, or in place if libc needs no server. Returns 0 or -errno. */
static int host_call_finish(host_call *c)
{
    if (c->query == HOST_BY_ADDRESS || !weft__is_numeric_host(c->key))
        return weft__lookup_run(host_call_run, c, host_call_free);
    host_call_run(c);
    return 0;
}

static struct hostent *host_find(host_query query, const void *key, socklen_t key_bytes, int family)
{
    host_call *c = host_call_new(query, key, key_bytes, family, BUFFER_BYTES_FIRST, NULL);
    for (;;) {
        if (c == NULL)
            return host_fail(ENOMEM);
        int rc = host_call_finish(c);
        if (rc < 0)
            return host_fail(-rc);
        if (c->result != ERANGE || c->buffer_bytes >= BUFFER_BYTES_MAX)
            break;
        if (!host_call_set_buffer(c, c->buffer_bytes * 2, NULL)) {
            host_call_free(c);
            c = NULL;
        }
    }
    if (c->result == 0 && c->found != NULL)
        return host_keep(c);
    h_errno = c->resolver_error;
    errno = c->error;
    host_call_free(c);
    return NULL;
}

HOOK_DEFINE(struct hostent *, gethostbyname, (const char *name))
{
    return weft__hook_is_on() ? host_find(HOST_BY_NAME, name, (socklen_t)strlen(name), 0)
                              : REAL(gethostbyname)(name);
}

HOOK_DEFINE(struct hostent *, gethostbyname2, (const char *name, int family))
{
    return weft__hook_is_on()
               ? host_find(HOST_BY_NAME_AND_FAMILY, name, (socklen_t)strlen(name), family)
               : REAL(gethostbyname2)(name, family);
}

HOOK_DEFINE(struct hostent *, gethostbyaddr,
            (const void *address, socklen_t address_bytes, int family))
{
    return weft__hook_is_on() ? host_find(HOST_BY_ADDRESS, address, address_bytes, family)
                              : REAL(gethostbyaddr)(address, address_bytes, family);
}
