/* The queue of fibers that can run, first in, first out. */
#include "scheduler.h"

static struct ready_entry *entry_of(struct link *link)
{
    return (struct ready_entry *)link; /* link is the first member */
}

void ready_queue_init(struct scheduler *scheduler)
{
    link_init(&scheduler->ready);
    scheduler->ready_count = 0;
}

void ready_queue_push(struct scheduler *scheduler, struct ready_entry *entry)
{
    link_append(&scheduler->ready, &entry->link);
    scheduler->ready_count++;
}

/* Queue an exception: the arguments of Fiber#raise in an Array. The queue owns the entry. */
struct ready_entry *ready_queue_push_exception(struct scheduler *scheduler, VALUE fiber,
                                               VALUE exception)
{
    struct ready_entry *entry = ALLOC(struct ready_entry);
    *entry = (struct ready_entry){.fiber = fiber, .exception = exception, .is_owned = true};
    ready_queue_push(scheduler, entry);
    return entry;
}

/* Remove an entry, if it is in the queue. Free it if the queue owns it. */
void ready_queue_remove(struct scheduler *scheduler, struct ready_entry *entry)
{
    if (!link_is_alone(&entry->link)) {
        link_remove(&entry->link);
        scheduler->ready_count--;
    }
    if (entry->taken != NULL)
        *entry->taken = NULL;
    if (entry->is_owned)
        xfree(entry);
}

/* Return the first entry, or NULL. */
struct ready_entry *ready_queue_first(struct scheduler *scheduler)
{
    return link_is_alone(&scheduler->ready) ? NULL : entry_of(scheduler->ready.next);
}

/* Pin the fibers: the table of blocked fibers and the frames of hooks have their addresses. */
void ready_queue_mark(struct scheduler *scheduler)
{
    for (struct link *link = scheduler->ready.next; link != &scheduler->ready; link = link->next) {
        rb_gc_mark(entry_of(link)->fiber);
        rb_gc_mark(entry_of(link)->exception);
    }
}

void ready_queue_clear(struct scheduler *scheduler)
{
    struct ready_entry *entry;
    while ((entry = ready_queue_first(scheduler)) != NULL)
        ready_queue_remove(scheduler, entry);
}
