/* Monitors: fibers that are told of another's end by a message. */
#include "core/mailbox.h"

#include <weft/error.h>
#include <weft/mailbox.h>

#include <stdlib.h>

typedef struct monitor {
    weft__claim on; /* of the one that is monitored */
    weft__claim by; /* of the one that is told */
    weft__fiber *monitored;
    weft__fiber *told;
    bool has_place; /* reserved in the mailbox: the message cannot fail for want of memory */
} monitor;

static monitor *monitor_of(weft__claim *on)
{
    return CONTAINER_OF(on, monitor, on);
}

static void reserve(monitor *m)
{
    weft__passage *p = &m->told->mailbox->passage;
    m->has_place = weft__passage_make_room(p, 1) == 0;
    p->reserved += m->has_place;
}

static void unreserve(monitor *m)
{
    m->told->mailbox->passage.reserved -= m->has_place;
    m->has_place = false;
}

/* The one that is monitored is gone. */
static void lapse_on(weft__claim *on)
{
    monitor *m = monitor_of(on);
    weft__claim_drop(&m->by);
    unreserve(m);
    free(m);
}

/* The one that is told ends, or runs anew. */
static void lapse_by(weft__claim *by)
{
    monitor *m = CONTAINER_OF(by, monitor, by);
    weft__claim_drop(&m->on);
    unreserve(m);
    free(m);
}

static void tell(weft__cord *c, monitor *m)
{
    unreserve(m);
    weft__mailbox_force(c, m->told, (weft_value)m->monitored->id);
    reserve(m);
}

uint32_t weft__monitors_tell(weft__cord *c, weft__fiber *f, bool *is_parent_told)
{
    uint32_t told = 0;
    for (weft__claim *on = f->monitors; on != NULL; on = on->next) {
        monitor *m = monitor_of(on);
        tell(c, m);
        told++;
        *is_parent_told |= m->told == f->parent;
    }
    return told;
}

static monitor *find(weft__fiber *f, const weft__fiber *told)
{
    for (weft__claim *on = f->monitors; on != NULL; on = on->next)
        if (monitor_of(on)->told == told)
            return monitor_of(on);
    return NULL;
}

int weft_monitor(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    if (rc < 0)
        return rc;
    weft__fiber *self = c->current;
    if (f == self)
        return weft_fail(-EINVAL, "a fiber cannot monitor itself");
    if (find(f, self) != NULL)
        return 0;
    monitor *m = weft__mailbox_of(self) != NULL ? malloc(sizeof *m) : NULL;
    if (m == NULL)
        return -ENOMEM;
    *m = (monitor){.monitored = f, .told = self};
    reserve(m);
    if (!m->has_place) {
        free(m);
        return -ENOMEM;
    }
    bool is_first = f->monitors == NULL;
    weft__claim_make(&f->monitors, &m->on, lapse_on);
    weft__claim_make(&self->claims, &m->by, lapse_by);
    if (f->phase == WEFT__ENDED) {
        bool is_counted = f->awaits_left != UINT32_MAX; /* else a group holds it, and counts then */
        f->awaits_left += is_counted && (!is_first || f->keeper != NULL);
        tell(c, m);
    }
    return 0;
}

int weft_unmonitor(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    if (rc < 0)
        return rc;
    monitor *m = find(f, c->current);
    if (m == NULL)
        return -ENOENT;
    weft__claim_drop(&m->by);
    lapse_by(&m->by);
    return 0;
}
