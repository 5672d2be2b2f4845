/* The table of hooks, generated from hooks.def. */
#include "posix/adopt.h"
#include "posix/hook.h"

#include <stdlib.h>
#include <string.h>

#define HOOK(group, name) void weft__hook_##name(void);
#include "posix/hooks.def"
#undef HOOK

static weft__hook hooks[] = {
#define HOOK(group, name) \
    {#name, WEFT__HOOKS_##group, weft__hook_##name, (void **)&weft__real.name},
#include "posix/hooks.def"
#undef HOOK
};

#define HOOKS_COUNT (sizeof hooks / sizeof *hooks)

static int compare_hooks(const void *a, const void *b)
{
    return strcmp(((const weft__hook *)a)->name, ((const weft__hook *)b)->name);
}

void weft__hooks_sort(void)
{
    qsort(hooks, HOOKS_COUNT, sizeof *hooks, compare_hooks);
}

const weft__hook *weft__hook_find(const char *name)
{
    weft__hook key = {.name = name};
    return bsearch(&key, hooks, HOOKS_COUNT, sizeof *hooks, compare_hooks);
}
