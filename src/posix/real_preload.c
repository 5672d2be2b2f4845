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

/*
 * Other names of the mutex functions of glibc. An allocator may lock a mutex when dlsym allocates
 * memory. So the mutex hooks must not call dlsym.
 */
extern __typeof__(pthread_mutex_lock) __pthread_mutex_lock;
extern __typeof__(pthread_mutex_trylock) __pthread_mutex_trylock;
extern __typeof__(pthread_mutex_unlock) __pthread_mutex_unlock;

weft__real_calls weft__real = {
    .pthread_mutex_lock = __pthread_mutex_lock,
    .pthread_mutex_trylock = __pthread_mutex_trylock,
    .pthread_mutex_unlock = __pthread_mutex_unlock,
};

/*
 * On x86-64, glibc has two versions of conditions. Programs use the newer one, and dlsym may find
 * the older one.
 */
static void *find_next(const char *name)
{
    void *address = NULL;
#ifdef __x86_64__
    if (strncmp(name, "pthread_cond_", strlen("pthread_cond_")) == 0)
        address = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
#endif
    return address != NULL ? address : dlsym(RTLD_NEXT, name);
}

/* Find a function of the C++ runtime, which a module may have loaded for itself. */
static void *find_in_cxx_runtime(const char *name)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    void *address = find_next(name);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && address == NULL; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL)
            address = dlsym(library, name);
    }
    return address;
}

static void real_set(void *real, void *address)
{
    if (address != NULL)
        memcpy(real, &address, sizeof address);
}

const weft__real_calls *weft__real_resolve(void)
{
#define HOOK(group, name) real_set(&weft__real.name, find_next(#name));
#define HOOK_OPTIONAL(group, name) real_set(&weft__real.name, find_in_cxx_runtime(#name));
#include "posix/hooks.def"
#undef HOOK
    return &weft__real;
}
