/*
 * An intrusive, circular, doubly linked list. A head is a node that is in no struct; an empty head
 * and a node that is in no list point to themselves. Nothing is allocated, everything is O(1).
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

/* For a head: is the list empty? For a node: is it in no list? */
static inline bool weft__list_is_empty(const weft__list *head)
{
    return head->next == head;
}

/* Put node, which is in no list, before `where`: at the tail, if `where` is the head. */
static inline void weft__list_insert(weft__list *where, weft__list *node)
{
    node->next = where;
    node->prev = where->prev;
    where->prev->next = node;
    where->prev = node;
}

/* Take node out of the list that it is in; what it points to is meaningless then. */
static inline void weft__list_cut(weft__list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
}

/* Take node out of its list, if it is in one. */
static inline void weft__list_remove(weft__list *node)
{
    weft__list_cut(node);
    weft__list_init(node);
}

/* The first node, taken out; NULL if the list is empty. */
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
