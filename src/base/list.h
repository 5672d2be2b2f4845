/*
 * An intrusive, circular, doubly linked list. All operations are O(1) and allocate nothing.
 *
 * The head of a list is a node without a containing struct. An empty head and an unlinked node
 * point to themselves.
 */
#ifndef WEFT_BASE_LIST_H
#define WEFT_BASE_LIST_H

#include "compiler.h"

#include <stdbool.h>

typedef struct weft__list {
    struct weft__list *next;
    struct weft__list *prev;
} weft__list;

static inline void weft__list_init(weft__list *node)
{
    node->next = node;
    node->prev = node;
}

/* Return true if `head` is the head of an empty list, or a node that is in no list. */
static inline bool weft__list_is_empty(const weft__list *head)
{
    return head->next == head;
}

/*
 * Insert `node` before `where`. If `where` is the head, `node` becomes the tail. `node` must not be
 * in a list.
 */
static inline void weft__list_insert(weft__list *where, weft__list *node)
{
    node->next = where;
    node->prev = where->prev;
    where->prev->next = node;
    where->prev = node;
}

/* Unlink `node` from its list. The pointers of `node` are undefined after the call. */
static inline void weft__list_unlink(weft__list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
}

/* Unlink `node` from its list, if any, and initialise `node`. */
static inline void weft__list_remove(weft__list *node)
{
    weft__list_unlink(node);
    weft__list_init(node);
}

/* Remove and return the first node. Return NULL if the list is empty. */
static inline weft__list *weft__list_pop(weft__list *head)
{
    if (weft__list_is_empty(head))
        return NULL;
    weft__list *node = head->next;
    weft__list_remove(node);
    return node;
}

/* Move all nodes of `from` to the tail of `to`. */
static inline void weft__list_splice(weft__list *to, weft__list *from)
{
    if (weft__list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    weft__list_init(from);
}

#define WEFT__LIST_FOR(node, head) \
    for (weft__list *node = (head)->next; node != (head); node = node->next)

#endif
