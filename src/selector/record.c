/* The life of an operation of a selector, from its start to its end. See selector.h. */
#include "selector/selector.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void limit_fire(weft__timer *timer);

static int slab_new(weft_selector *s)
{
    weft__record_slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return -ENOMEM;
    slab->next = s->slabs;
    s->slabs = slab;
    for (int i = 0; i < WEFT__SLAB_RECORDS; i++)
        weft__list_insert(&s->free_records, &slab->records[i].link);
    return 0;
}

int weft__record_new(weft_selector *s, weft_selector_op *host, weft__record **out)
{
    int rc = weft__selector_use(s);
    const weft__selector_part *part = weft__selector_part_of(host);
    if (rc == 0 && (part->record != NULL || part->link.next != NULL))
        rc = -EBUSY;
    if (rc == 0 && weft__list_is_empty(&s->free_records))
        rc = slab_new(s);
    if (rc < 0)
        return rc;
    weft__record *r = CONTAINER_OF(weft__list_pop(&s->free_records), weft__record, link);
    weft__list_insert(&s->records, &r->link);
    r->selector = s;
    r->host = host;
    r->op.is_internal = false;
    r->is_submitted = false;
    r->end_code = -ECANCELED;
    r->is_kept = false;
    r->release = r->leave = NULL;
    r->take = NULL;
    weft__timer_init(&r->timer, NULL);
    weft__timer_init(&r->limit, limit_fire);
    *out = r;
    return 0;
}

static void disarm_timers(weft__record *r)
{
    weft__timer_disarm(&r->selector->wheel, &r->timer);
    weft__timer_disarm(&r->selector->wheel, &r->limit);
}

void weft__record_free(weft__record *r)
{
    disarm_timers(r);
    if (r->release != NULL)
        r->release(r);
    weft__list_remove(&r->link);
    /* At the head: the record is in the cache. */
    weft__list_insert(r->selector->free_records.next, &r->link);
}

weft_value weft__record_wait(weft__record *r)
{
    weft__selector_part_of(r->host)->record = r;
    r->selector->pending++;
    return WEFT_SELECTOR_PENDING;
}

static void record_done(weft__op *op, intptr_t result)
{
    weft__record *r = CONTAINER_OF(op, weft__record, op);
    r->is_submitted = false;
    if (r->host == NULL) {
        r->selector->abandoned--;
        if (r->leave != NULL)
            r->leave(r);
        weft__record_free(r);
        return;
    }
    weft__record_complete(r, result == -ECANCELED ? r->end_code : result);
}

weft_value weft__record_try_submit(weft__record *r)
{
    weft__backend *b = weft__selector_backend(r->selector);
    r->op.done = record_done;
    r->op.owner = r;
    intptr_t result = b->type->submit(b, &r->op);
    r->is_submitted = result == WEFT__OP_PENDING;
    return result;
}

weft_value weft__record_submit(weft__record *r)
{
    weft_value result = weft__record_try_submit(r);
    if (result == WEFT_SELECTOR_PENDING)
        return weft__record_wait(r);
    weft__record_free(r);
    return result;
}

void weft__record_complete(weft__record *r, weft_value result)
{
    weft_selector *s = r->selector;
    weft_selector_op *host = r->host;
    weft__selector_part *part = weft__selector_part_of(host);
    host->result = result;
    weft__list_insert(&s->completed, &part->link);
    s->completed_count++;
    disarm_timers(r);
    if (r->is_kept)
        return;
    part->record = NULL;
    weft__record_free(r);
}

/*
 * Leave an operation that only waits for a descriptor. The kernel uses no memory of the host. The
 * backend calls done later.
 */
static void record_abandon(weft__record *r)
{
    disarm_timers(r);
    if (r->release != NULL)
        r->release(r);
    r->release = NULL;
    r->host = NULL;
    r->selector->abandoned++;
}

bool weft__record_end(weft__record *r, int code)
{
    weft__backend *b = weft__selector_backend(r->selector);
    weft__selector_part *part = weft__selector_part_of(r->host);
    if (r->is_submitted && !b->type->cancel(b, &r->op)) {
        r->end_code = code;
        if (r->op.code != WEFT__OP_WAIT)
            return false;
        record_abandon(r);
    } else {
        r->is_submitted = false;
        weft__record_free(r);
    }
    part->record = NULL;
    return true;
}

static void limit_fire(weft__timer *timer)
{
    weft__record *r = CONTAINER_OF(timer, weft__record, limit);
    weft_selector *s = r->selector;
    weft_selector_op *host = r->host;
    if (!weft__record_end(r, -ETIMEDOUT))
        return;
    host->result = -ETIMEDOUT;
    weft__list_insert(&s->completed, &weft__selector_part_of(host)->link);
    s->completed_count++;
}

int weft__record_arm(weft__record *r, weft__timer *timer, double seconds)
{
    if (!(seconds >= 0))
        return -EINVAL;
    weft__wheel *wheel = &r->selector->wheel;
    weft__timer_disarm(wheel, timer);
    weft__timer_arm(wheel, timer, weft__ns_later(weft__clock_ns(), weft__whole_ns(seconds * 1e9)));
    return 0;
}

int weft_selector_limit(weft_selector *s, weft_selector_op *op, double seconds)
{
    int rc = weft__selector_use(s);
    if (rc < 0)
        return rc;
    const weft__selector_part *part = weft__selector_part_of(op);
    bool is_completed = part->link.next != NULL;
    if (part->record == NULL && !is_completed)
        return -EINVAL;
    if (is_completed)
        return seconds >= 0 ? 0 : -EINVAL; /* the result is available in time */
    return weft__record_arm(part->record, &part->record->limit, seconds);
}

/* Take back an operation that has completed. */
static void cancel_completed(weft_selector *s, weft_selector_op *op)
{
    weft__selector_part *part = weft__selector_part_of(op);
    weft__list_unlink(&part->link);
    s->completed_count--;
    if (part->record != NULL) {
        if (part->record->take != NULL) /* the result was not fetched yet */
            op->result = -ECANCELED;
        weft__record_free(part->record);
    }
    *part = (weft__selector_part){.record = NULL};
}

int weft_selector_cancel(weft_selector *s, weft_selector_op *op)
{
    int rc = weft__selector_use(s);
    if (rc < 0)
        return rc;
    const weft__selector_part *part = weft__selector_part_of(op);
    if (part->link.next != NULL) {
        cancel_completed(s, op);
    } else {
        if (part->record == NULL)
            return -EINVAL;
        if (!weft__record_end(part->record, -ECANCELED))
            return -EINPROGRESS;
        op->result = -ECANCELED;
    }
    s->pending--;
    return 0;
}
