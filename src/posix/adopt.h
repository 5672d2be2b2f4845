/* The adopted modules of the process, and the table of hooks. */
#ifndef WEFT_POSIX_ADOPT_H
#define WEFT_POSIX_ADOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The groups of hooks.def. */
typedef enum weft__hook_group {
    WEFT__HOOKS_IO,
    WEFT__HOOKS_FILE,
    WEFT__HOOKS_LOCK,
    WEFT__HOOKS_SIGNAL,
} weft__hook_group;

/* A hooked name. */
typedef struct weft__hook {
    const char *name;
    weft__hook_group group;
    void (*fn)(void); /* the hook */
    void **real;      /* in weft__real */
} weft__hook;

/* Sort the table of hooks, before the first search. (hook_table.c) */
void weft__hooks_sort(void);

/* Return the hook of a name, or NULL if the name is not hooked. (hook_table.c) */
const weft__hook *weft__hook_find(const char *name);

/* Return the number of import slots that point to hooks. */
uint64_t weft__adopt_slots(void);

/*
 * Make weft and the libraries that only weft needs call libc, because libweft-preload replaces the
 * calls of all modules.
 */
void weft__adopt_spare_weft(void);

#endif
