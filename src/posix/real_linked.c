/*
 * The real functions of libweft-posix: what the dynamic loader finds for each name. With a
 * sanitizer, these are the sanitizer's functions.
 */
#include "posix/hook.h"

/* Names that another library than libc defines. The first adopted module that calls such a function
 * sets its address. */
#define HOOK_OPTIONAL(group, name) extern __typeof__(name) name __attribute__((weak));
#define HOOK(group, name)
#include "posix/hooks.def"
#undef HOOK
#undef HOOK_OPTIONAL

const bool weft__real_is_preload = false;

weft__real_calls weft__real = {
#define HOOK(group, name) .name = name,
#include "posix/hooks.def"
#undef HOOK
};

const weft__real_calls *weft__real_resolve(void)
{
    return &weft__real;
}
