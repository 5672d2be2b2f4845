/*
 * The real functions of libweft-preload, which exports the hooks under the names of libc. The real
 * function is the next one after libweft-preload in the search order.
 */
#include "posix/adopt.h"
#include "posix/hook.h"

#include <weft/fiber.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const bool weft__real_is_preload = true;

weft__real_calls weft__real;

const weft__real_calls *weft__real_resolve(void)
{
    void *address;
#define HOOK(group, name)               \
    address = dlsym(RTLD_NEXT, #name); \
    memcpy(&weft__real.name, &address, sizeof address);
#include "posix/hooks.def"
#undef HOOK
    return &weft__real;
}
