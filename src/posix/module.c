/* Modules whose calls must not be hooked, see module.h. */
#include "posix/module.h"

#include <weft/fiber.h>

#include <stdlib.h>
#include <string.h>

/*
 * The beginnings of the names of such modules: libc and its parts, sanitizers, weft's libraries.
 * libc calls the modules of the name service switch (libnss_*) while it holds its own locks.
 */
static const char *const excluded_names[] = {
    "ld-linux",   "libc.so",     "libpthread.so", "libdl.so",        "librt.so",
    "linux-vdso", "libasan",     "libtsan",       "libubsan",        "liblsan",
    "libhwasan",  "libclang_rt", "liburing",      "libev.so",        "libcares",
    "libweft.so", "libweft-web", "libweft-posix", "libweft-preload", "libnss_",
};

/*
 * The beginnings of the names of modules whose system calls need no hook. libcrypto makes only
 * calls that do not wait. libstdc++ waits for futexes in the guards of static variables, which are
 * hooked in their callers. Its condition variables need the hooks.
 */
static const char *const harmless_names[] = {"libcrypto", "libstdc++"};

static bool starts_with_one_of(const char *name, const char *const *beginnings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

#define STARTS_WITH_ONE_OF(name, names) \
    starts_with_one_of(name, names, sizeof(names) / sizeof *(names))

static bool is_weft(const weft__elf_module *m)
{
    return weft__elf_contains(m, (const void *)(uintptr_t)weft_spin);
}

/*
 * A memory allocator must not wait with weft, because its caches belong to the thread. So exclude
 * the module that defines malloc, for example jemalloc.
 */
bool weft__module_is_excluded(const weft__elf_module *m)
{
    bool is_allocator = weft__elf_contains(m, (const void *)(uintptr_t)malloc);
    return STARTS_WITH_ONE_OF(weft__elf_file_name(m), excluded_names) || is_weft(m) ||
           (is_allocator && m->path[0] != '\0');
}

typedef struct import_search {
    const char *symbol;
    bool is_found;
} import_search;

static void match_import(void *context, const char *symbol, void **at)
{
    (void)at;
    import_search *search = context;
    search->is_found |= strcmp(symbol, search->symbol) == 0;
}

static bool module_imports(const weft__elf_module *m, const char *symbol)
{
    import_search search = {symbol, false};
    weft__elf_each_slot(m, match_import, &search);
    return search.is_found;
}

/* A module that calls syscall(2) may wait for futexes, which hooks cannot reach. */
bool weft__module_makes_system_calls(const weft__elf_module *m)
{
    return !STARTS_WITH_ONE_OF(weft__elf_file_name(m), harmless_names) &&
           module_imports(m, "syscall");
}
