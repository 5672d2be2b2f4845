/* The table of hooks, generated from hooks.def. */
#include "posix/adopt.h"
#include "posix/elf.h"
#include "posix/hook.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>

#define HOOK(group, name) void weft__hook_##name(void);
#include "posix/hooks.def"
#undef HOOK

weft__real_calls weft__stubs;

static weft__hook hooks[] = {
#define HOOK(group, name)                                                      \
    {#name, WEFT__HOOKS_##group, weft__hook_##name, (void **)&weft__real.name, \
     (void **)&weft__stubs.name},
#include "posix/hooks.def"
#undef HOOK
};

#define HOOKS_COUNT (sizeof hooks / sizeof *hooks)

static int compare_hooks(const void *a, const void *b)
{
    return strcmp(((const weft__hook *)a)->name, ((const weft__hook *)b)->name);
}

const weft__hook *weft__hook_find(const char *name)
{
    weft__hook key = {.name = name};
    return bsearch(&key, hooks, HOOKS_COUNT, sizeof *hooks, compare_hooks);
}

/*
 * Functions that hooks replace.
 */

static weft__elf_module program, libc;

static int module_note(const weft__elf_module *m, void *context)
{
    (void)context;
    if (m->path[0] == '\0' && program.path == NULL)
        program = *m;
    if (weft__elf_contains(m, (const void *)(uintptr_t)gnu_get_libc_version))
        libc = *m;
    return 0;
}

/*
 * A program with fixed addresses that takes the address of a function, for example poll, contains a
 * stub for it. For all modules, the address of poll is the address of the stub. The stub calls what
 * a slot of the program holds: after the adoption of the program, the hook. So the real function is
 * the next one in the search order.
 */
static void stub_note(void *context, const char *symbol, void *address)
{
    (void)context;
    const weft__hook *h = weft__hook_find(symbol);
    if (h == NULL || *h->real != address)
        return;
    *h->stub = address;
    *h->real = dlsym(RTLD_NEXT, symbol);
}

void weft__hooks_prepare(void)
{
    qsort(hooks, HOOKS_COUNT, sizeof *hooks, compare_hooks);
    weft__elf_each_module(module_note, NULL);
    if (program.path != NULL)
        weft__elf_each_stub(&program, stub_note, NULL);
}

bool weft__hook_replaces(const weft__hook *h, const weft__elf_module *m, const void *value)
{
    bool is_unresolved = weft__elf_contains(m, value);
    if (value == *h->real || value == *h->stub || is_unresolved || *h->real == NULL)
        return true;
    /* A library with RTLD_DEEPBIND calls libc, although another library intercepts the function. */
    return weft__elf_contains(&libc, value) && !weft__elf_contains(&libc, *h->real);
}
