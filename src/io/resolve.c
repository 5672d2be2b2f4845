/*
 * Names to addresses. The C library's lookup blocks, so it is made by a thread of the pool; only
 * what needs no looking up is done in place.
 */
#include "core/error.h"
#include "core/op.h"

#include <weft/error.h>
#include <weft/net.h>

#include <stdlib.h>
#include <string.h>

/* What getaddrinfo is asked, in copies, as the asker may leave before the end; and what it says. */
typedef struct lookup {
    const char *host, *service; /* in text; or NULL */
    struct addrinfo hints;
    bool has_hints;
    int code;  /* as getaddrinfo returned it */
    int error; /* errno, when that is EAI_SYSTEM */
    struct addrinfo *found;
    char text[];
} lookup;

static char *append(char **end, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = *end;
    *end = stpcpy(copy, text) + 1;
    return copy;
}

static lookup *lookup_new(const char *host, const char *service, const struct addrinfo *hints)
{
    size_t host_bytes = host != NULL ? strlen(host) + 1 : 0;
    size_t service_bytes = service != NULL ? strlen(service) + 1 : 0;
    lookup *l = malloc(sizeof *l + host_bytes + service_bytes);
    if (l == NULL)
        return NULL;
    *l = (lookup){.has_hints = hints != NULL};
    if (hints != NULL)
        l->hints = *hints;
    char *end = l->text;
    l->host = append(&end, host);
    l->service = append(&end, service);
    return l;
}

static void lookup_drop(void *arg)
{
    lookup *l = arg;
    weft_resolve_free(l->found);
    free(l);
}

static intptr_t lookup_run(void *arg)
{
    lookup *l = arg;
    l->code = getaddrinfo(l->host, l->service, l->has_hints ? &l->hints : NULL, &l->found);
    l->error = errno;
    return 0;
}

/*
 * Numbers for both need neither files nor servers, and little stack: some 3 KiB, where a name may
 * take 30. Flags that would make it more are left to the pool.
 */
static bool resolve_numbers(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **out)
{
    static const int harmless = AI_PASSIVE | AI_CANONNAME | AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo numeric = {0};
    if (hints != NULL)
        numeric = *hints;
    if (host == NULL || (numeric.ai_flags & ~harmless) != 0)
        return false;
    numeric.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo *found;
    if (getaddrinfo(host, service, &numeric, &found) != 0)
        return false;
    *out = found;
    return true;
}

static int errno_of(int code, int error)
{
    switch (code) {
    case EAI_NONAME:
    case EAI_SERVICE:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return -ENOENT;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_BADFLAGS:
    case EAI_FAMILY:
    case EAI_SOCKTYPE:
        return -EINVAL;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_SYSTEM:
        return error > 0 ? -error : -EIO;
    default: /* EAI_FAIL: the name server cannot, now or ever */
        return -EIO;
    }
}

static int fail(const lookup *l)
{
    int code = errno_of(l->code, l->error);
    const char *name = l->host != NULL ? l->host : l->service;
    return weft_fail(code, "%s: %s", name != NULL ? name : "neither host nor service",
                     l->code == EAI_SYSTEM ? weft__error_text(code) : gai_strerror(l->code));
}

/* What came of a lookup that nobody gave up. */
static int take_result(lookup *l, struct addrinfo **out)
{
    if (l->code != 0)
        return fail(l);
    *out = l->found;
    l->found = NULL;
    return 0;
}

int weft_resolve(const char *host, const char *service, const struct addrinfo *hints,
                 struct addrinfo **out)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return -ENOMEM;
    if (out == NULL)
        return weft_fail(-EINVAL, "nowhere to put the addresses");
    if (!c->current->alarm && resolve_numbers(host, service, hints, out))
        return 0;
    lookup *l = lookup_new(host, service, hints);
    if (l == NULL)
        return -ENOMEM;
    weft__op op = {
        .code = WEFT__OP_CALL, .fd = -1, .u.call = {lookup_run, l, lookup_drop, WEFT__LANE_NAMES}};
    int rc = (int)weft__op_run(&op);
    if (op.u.call.arg == NULL) { /* given up, and freed when the pool is done with it */
        if (rc >= 0)             /* the value of a weft_interrupt */
            *out = NULL;
        return rc;
    }
    if (rc == 0)
        rc = take_result(l, out);
    lookup_drop(l);
    return rc;
}

void weft_resolve_free(struct addrinfo *addresses)
{
    if (addresses != NULL)
        freeaddrinfo(addresses);
}
