/* Monitors: fibers that are told of another's end by a message. */
#include "core/end.h"
#include "core/mailbox.h"

#include <weft/error.h>
#include <weft/mailbox.h>

#include <stdlib.h>

typedef struct monitor {
    weft__claim on; /* of the one that is monitored */
    weft__claim by; /* of the one that is told */
    weft__fiber *monitored;
    weft__fiber *told;
    bool is_owed;   /* it has been told, and has not awaited the other since */
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

/* The one that is told ends, or runs anew: the await that it was owed is nobody's. */
static void lapse_by(weft__claim *by)
{
    monitor *m = CONTAINER_OF(by, monitor, by);
    weft__fiber *f = m->monitored;
    weft__claim_drop(&m->on);
    if (m->is_owed && f->phase == WEFT__ENDED && !weft__fiber_is_kept(f)) {
        uint32_t anyones = f->keeper == NULL; /* the last one is, as for every fiber */
        f->awaits_left -= f->awaits_left > anyones;
    }
    unreserve(m);
    free(m);
}

static void tell(weft__cord *c, monitor *m)
{
    unreserve(m);
    weft__mailbox_force(c, m->told, (weft_value)m->monitored->id);
    reserve(m);
    m->is_owed = true;
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

/*
 * It is among those who monitor f and among what `told` claims: either may be long, but when the
 * shorter one is through it is in neither.
 */
static monitor *find(const weft__fiber *f, const weft__fiber *told)
{
    weft__claim *on = f->monitors, *by = told->life->claims;
    for (; on != NULL && by != NULL; on = on->next, by = by->next) {
        if (monitor_of(on)->told == told)
            return monitor_of(on);
        if (by->lapse == lapse_by && CONTAINER_OF(by, monitor, by)->monitored == f)
            return CONTAINER_OF(by, monitor, by);
    }
    return NULL;
}

uint32_t weft__monitors_owed(const weft__fiber *f)
{
    uint32_t owed = 0;
    for (weft__claim *on = f->monitors; on != NULL; on = on->next)
        owed += monitor_of(on)->is_owed;
    return owed;
}

bool weft__monitors_pay(weft__fiber *f, const weft__fiber *by)
{
    monitor *m = find(f, by);
    if (m == NULL || !m->is_owed)
        return weft__monitors_owed(f) == 0;
    m->is_owed = false;
    return true;
}

int weft_monitor(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    if (rc == -ESRCH && weft__ended_find(c, fiber) != NULL)
        return weft__mailbox_force(c, c->current, (weft_value)fiber); /* only its value is left */
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
    weft__claim_make(&f->monitors, &m->on, lapse_on);
    weft__claim_make(&self->life->claims, &m->by, lapse_by);
    if (f->phase == WEFT__ENDED) {
        bool is_more =
            f->keeper != NULL || weft__monitors_owed(f) > 0; /* else it is the one left */
        f->awaits_left += is_more && !weft__fiber_is_kept(f);
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
