/* Intrusive doubly linked lists. A link outside of a list points to itself. */
#ifndef WEFT_SCHEDULER_LIST_H
#define WEFT_SCHEDULER_LIST_H

#include <stdbool.h>

struct link {
    struct link *next, *prev;
};

static inline void link_init(struct link *link)
{
    link->next = link->prev = link;
}

static inline bool link_is_alone(const struct link *link)
{
    return link->next == link;
}

/* Append link to the list of head. link is not in a list. */
static inline void link_append(struct link *head, struct link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* Remove link from its list, if any. */
static inline void link_remove(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link_init(link);
}

#endif
