/* Poll a selector, take completed operations, wake the selector. See selector.h. */
#include "selector/selector.h"

#include "base/clock.h"
#include "core/limits.h"
#include "core/op/recover.h"

#include <errno.h>
#include <limits.h>

/* End the operations of the backend, and use the best other backend. */
static COLD void replace_failed(weft_selector *s, int error)
{
    weft__backend *old = weft__selector_backend(s);
    old->type->give_up(old, -EIO);
    old->retired = s->retired;
    s->retired = old;
    (void)weft__selector_open_backend(s, "");
    weft__backend_take_over(weft__selector_backend(s), old, error);
}

static COLD void recover(weft_selector *s, int error)
{
    int rc = weft__backend_repair(weft__selector_backend(s), error);
    if (rc < 0)
        replace_failed(s, rc);
    weft__cords_request_check(NULL);
}

void weft__selector_poll_backend(weft_selector *s, int64_t timeout_ns)
{
    weft__backend *b = weft__selector_backend(s);
    int rc = b->type->poll(b, timeout_ns);
    if (UNLIKELY(rc < 0))
        recover(s, rc);
}

/*
 * Check the backend before a wait, at most every WEFT__CHECK_NS. Return the time until which poll
 * may wait (docs/adr/0037).
 */
static int64_t check_before_wait(weft_selector *s, int64_t now_ns, int64_t until_ns)
{
    weft__backend *b = weft__selector_backend(s);
    if (b->type->check == NULL)
        return until_ns;
    int64_t due_ns = s->checked_ns + WEFT__CHECK_NS;
    if (now_ns < due_ns && !atomic_load_explicit(&b->must_check, memory_order_relaxed))
        return until_ns < due_ns ? until_ns : due_ns;
    s->checked_ns = now_ns;
    int rc = b->type->check(b);
    if (rc < 0) {
        recover(s, rc);
        return now_ns;
    }
    atomic_store(&b->must_check, false);
    return until_ns;
}

/* Return the time until which a poll may wait. now_ns: it must not wait. */
static int64_t wait_end(weft_selector *s, int64_t now_ns, int64_t until_ns)
{
    if (until_ns <= now_ns || !weft__list_is_empty(&s->completed))
        return now_ns;
    int64_t next_ns = weft__wheel_next(&s->wheel);
    until_ns = next_ns < until_ns ? next_ns : until_ns;
    return until_ns > now_ns ? check_before_wait(s, now_ns, until_ns) : now_ns;
}

/*
 * Poll once, and complete the timers that are due. Return whether the poll has ended before its
 * time, because of an event, a wake or a signal.
 */
static bool poll_once(weft_selector *s, int64_t *now_ns, int64_t until_ns)
{
    weft__wheel_expire(&s->wheel, *now_ns);
    int64_t end_ns = wait_end(s, *now_ns, until_ns);
    int64_t timeout_ns = end_ns == WEFT__NEVER ? WEFT__POLL_FOREVER : end_ns - *now_ns;
    /* The store precedes the load: weft_selector_wake finds is_waiting, or the load finds it. */
    atomic_store(&s->is_waiting, timeout_ns != 0);
    if (timeout_ns != 0 && atomic_load(&s->is_woken))
        timeout_ns = 0;
    weft__selector_poll_backend(s, timeout_ns);
    atomic_store_explicit(&s->is_waiting, false, memory_order_relaxed);
    bool was_woken = atomic_exchange(&s->is_woken, false);
    *now_ns = weft__clock_ns();
    weft__wheel_expire(&s->wheel, *now_ns);
    return was_woken || *now_ns < end_ns || !weft__list_is_empty(&s->completed);
}

int weft_selector_poll(weft_selector *s, double seconds)
{
    if (!(seconds >= 0))
        return -EINVAL;
    int rc = weft__selector_use(s);
    if (rc < 0)
        return rc;
    int64_t now_ns = weft__clock_ns();
    const int64_t until_ns = weft__ns_later(now_ns, weft__whole_ns(seconds * 1e9));
    while (!poll_once(s, &now_ns, until_ns) && now_ns < until_ns)
        continue;
    return s->completed_count < INT_MAX ? (int)s->completed_count : INT_MAX;
}

weft_selector_op *weft_selector_next(weft_selector *s)
{
    if (weft__selector_use(s) < 0)
        return NULL;
    weft__list *node;
    while ((node = weft__list_pop(&s->completed)) != NULL) {
        weft__selector_part *part = CONTAINER_OF(node, weft__selector_part, link);
        weft_selector_op *op = CONTAINER_OF((void *)part, weft_selector_op, weft__private);
        weft__record *r = part->record;
        part->link.next = NULL;
        s->completed_count--;
        if (r != NULL && r->take != NULL && !r->take(r, &op->result))
            continue;
        if (r != NULL)
            weft__record_free(r);
        part->record = NULL;
        s->pending--;
        return op;
    }
    return NULL;
}

/*
 * is_waiting is true only while the backend exists. A child of fork must not wake its parent, whose
 * eventfd it has inherited.
 */
void weft_selector_wake(weft_selector *s)
{
    if (weft__selector_is_inherited(s))
        return;
    int error = errno;
    if (!atomic_exchange(&s->is_woken, true) && atomic_load(&s->is_waiting)) {
        weft__backend *b = atomic_load(&s->backend);
        b->type->wake(b);
    }
    errno = error;
}
