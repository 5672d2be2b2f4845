/* Calls of name functions of libc in worker threads, see lookup.h. */
#include "posix/names/lookup.h"

#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/offload.h>

#include <arpa/inet.h>

int weft__lookup_run(weft_fn *run, void *call, void (*drop)(void *call))
{
    bool has_ended;
    weft__hook_wait w;
    HOOK_COUNT(offloads);
    weft__hook_wait_begin(&w, WEFT__HOOK_IGNORES_SIGNALS, WEFT__HOOK_FOREVER);
    weft_value value = weft_offload_with(
        run, call, &(weft_offload_options){.drop = drop, .has_ended = &has_ended});
    int rc = (int)weft__hook_wait_end(&w, value);
    return has_ended ? 0 : rc;
}

bool weft__is_numeric_host(const char *host)
{
    struct in_addr ip4;
    struct in6_addr ip6;
    return inet_aton(host, &ip4) == 1 || inet_pton(AF_INET6, host, &ip6) == 1;
}
