/*
 * Exit hooks: callbacks for objects that a fiber holds, for example locks. A fiber should release
 * its objects before its end. If an object is still held, the exit of the fiber calls on_exit to
 * clean up the object.
 */
#ifndef WEFT_CORE_LIFETIME_EXIT_HOOK_H
#define WEFT_CORE_LIFETIME_EXIT_HOOK_H

#include <stddef.h>

/* A hook is a member of the held object. All-zero: not in a list. */
typedef struct weft__exit_hook {
    struct weft__exit_hook *next;
    struct weft__exit_hook **pprev; /* the pointer that points to this hook; NULL: not in a list */
    /* Clean up the object. The exit of the fiber has already removed the hook from the list. */
    void (*on_exit)(struct weft__exit_hook *hook);
} weft__exit_hook;

static inline void weft__exit_hook_add(weft__exit_hook **list, weft__exit_hook *hook,
                                       void (*on_exit)(weft__exit_hook *hook))
{
    hook->on_exit = on_exit;
    hook->next = *list;
    hook->pprev = list;
    if (hook->next != NULL)
        hook->next->pprev = &hook->next;
    *list = hook;
}

static inline void weft__exit_hook_remove(weft__exit_hook *hook)
{
    *hook->pprev = hook->next;
    if (hook->next != NULL)
        hook->next->pprev = hook->pprev;
    hook->pprev = NULL;
}

#endif
