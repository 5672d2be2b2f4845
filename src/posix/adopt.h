/* The adopted modules of the process, and the table of hooks. */
#ifndef WEFT_POSIX_ADOPT_H
#define WEFT_POSIX_ADOPT_H

#include "posix/elf.h"

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
    void **stub;      /* in weft__stubs */
} weft__hook;

/* Prepare the table of hooks, before the first search. (hook_table.c) */
void weft__hooks_prepare(void);

/* Return the hook of a name, or NULL if the name is not hooked. (hook_table.c) */
const weft__hook *weft__hook_find(const char *name);

/*
 * Return whether the hook may replace the value of an import slot of a module: it is the function
 * of libc.
 * The program may have set a slot in a table to its own function, and a library may need an old
 * version of a function of libc. A slot that the loader has not resolved yet points into its own
 * module. (hook_table.c)
 */
bool weft__hook_replaces(const weft__hook *h, const weft__elf_module *m, const void *value);

/* Wrap the signal handlers for which is_adopted returns true. (signal.c) */
void weft__signals_wrap(bool (*is_adopted)(const void *handler));

/* Return the number of import slots that point to hooks. */
uint64_t weft__adopt_slots(void);

/* What hooks reach in a loaded module. */
typedef struct weft__adopt_info {
    size_t slots;    /* import slots that point to hooks */
    bool is_adopted; /* by weft_adopt, or by libweft-preload */
    bool is_refused; /* weft_adopt refuses the module, because it calls syscall(2) */
} weft__adopt_info;

/*
 * Call fn for every loaded module that may be adopted. fn must not call the functions of adopt.h.
 */
void weft__adopt_each(void (*fn)(void *context, const weft__elf_module *m, weft__adopt_info info),
                      void *context);

/*
 * Make weft and the libraries that only weft needs call libc, because libweft-preload replaces the
 * calls of all modules.
 */
void weft__adopt_spare_weft(void);

#endif
