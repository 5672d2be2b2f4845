/*
 * The model of channels, queues, mailboxes and select: each row of values has a mirror here, and
 * what comes out, who is served and who has to wait are known beforehand.
 */
#ifndef TESTS_SYNC_PASSAGES_H
#define TESTS_SYNC_PASSAGES_H

#include "sync_model.h"

/* A whole struct, to see that it arrives whole. */
typedef struct parcel {
    weft_value value, negated;
    char filling[40];
} parcel;

WEFT_CHAN_OF(parcels, parcel);

typedef struct chan_model {
    weft_chan *chan; /* of parcels if it is typed */
    bool is_typed;
    mirror mirror;
} chan_model;

static chan_model chans[] = {{.mirror.limit = 0},
                             {.mirror.limit = 1},
                             {.mirror.limit = 8},
                             {.mirror.limit = 0, .is_typed = true},
                             {.mirror.limit = 2, .is_typed = true}};

typedef struct queue_model {
    weft_queue *queue;
    mirror mirror;
} queue_model;

static queue_model queues[] = {{.mirror.limit = SIZE_MAX}, {.mirror.limit = 3}};

enum { BACK, FRONT };

/* What a call will come to if it is made now. */
typedef struct plan {
    bool can;          /* it need not wait */
    weft_value result; /* then */
    entry *peer;       /* one who waits on the other side; NULL: none */
} plan;

static weft_value values_made;

static weft_value new_value(void)
{
    return 100000 + values_made++;
}

static parcel wrap(weft_value value)
{
    parcel p = {.value = value, .negated = ~value};
    memset(p.filling, (int)(value & 0x7f), sizeof p.filling);
    return p;
}

static weft_value unwrap(int rc, const parcel *p)
{
    if (rc != 0)
        return rc;
    parcel whole = wrap(p->value);
    REQUIRE(memcmp(&whole, p, sizeof whole) == 0);
    return p->value;
}

static void store(mirror *m, weft_value value, int end)
{
    REQUIRE(m->count < ITEMS_MAX);
    if (end == FRONT) {
        memmove(m->items + 1, m->items, m->count * sizeof *m->items);
        m->items[0] = value;
    } else {
        m->items[m->count] = value;
    }
    m->count++;
}

static plan plan_put(const mirror *m)
{
    if (m->is_closed)
        return (plan){.can = true, .result = -EPIPE};
    plan p = {.peer = first_in(&m->receivers)};
    p.can = p.peer != NULL || m->count < m->limit;
    return p;
}

static plan plan_take(const mirror *m)
{
    plan p = {.peer = first_in(&m->senders)};
    p.can = m->count > 0 || p.peer != NULL || m->is_closed;
    p.result = m->count > 0 ? m->items[0] : p.peer != NULL ? p.peer->value : -EPIPE;
    return p;
}

/* What was planned has happened, just now. */
static void did_put(mirror *m, const plan *p, weft_value value, int end)
{
    if (!p->can || p->result < 0)
        return;
    if (p->peer != NULL)
        promise(p->peer, value);
    else
        store(m, value, end);
}

static void did_take(mirror *m, const plan *p)
{
    if (!p->can || weft_is_error(p->result))
        return;
    if (m->count > 0) {
        memmove(m->items, m->items + 1, --m->count * sizeof *m->items);
        if (p->peer == NULL || m->count >= m->limit)
            return;
        store(m, p->peer->value, p->peer->how);
    }
    promise(p->peer, 0);
}

static bool is_full_mirror(const mirror *m)
{
    return m->count >= ITEMS_MAX - 1;
}

/* Nobody waits for what could be had. One that selects may wait on both sides. */
static void check_mirror(const mirror *m, size_t count)
{
    const entry *sender = first_in(&m->senders), *receiver = first_in(&m->receivers);
    REQUIRE(count == m->count);
    REQUIRE(sender == NULL || (m->count >= m->limit && !m->is_closed));
    REQUIRE(receiver == NULL || (m->count == 0 && !m->is_closed));
    REQUIRE(sender == NULL || receiver == NULL || sender->who == receiver->who);
}

/* Channels. */

static int send_to(chan_model *c, weft_value value, bool is_try)
{
    if (!c->is_typed)
        return (is_try ? weft_chan_try_send : weft_chan_send)(c->chan, value);
    parcels *typed = (parcels *)(void *)c->chan;
    return (is_try ? parcels_try_send : parcels_send)(typed, wrap(value));
}

static weft_value receive_from(chan_model *c, bool is_try)
{
    if (!c->is_typed)
        return (is_try ? weft_chan_try_recv : weft_chan_recv)(c->chan);
    parcels *typed = (parcels *)(void *)c->chan;
    parcel p;
    int rc = (is_try ? parcels_try_recv : parcels_recv)(typed, &p);
    return unwrap(rc, &p);
}

static void check_chan(const chan_model *c)
{
    const mirror *m = &c->mirror;
    check_mirror(m, weft_chan_count(c->chan));
    REQUIRE(weft_chan_has_senders(c->chan) == (first_in(&m->senders) != NULL));
    REQUIRE(weft_chan_has_receivers(c->chan) == (first_in(&m->receivers) != NULL));
    REQUIRE(weft_chan_is_full(c->chan) == (m->count >= m->limit));
    REQUIRE(weft_chan_is_empty(c->chan) == (m->count == 0));
    REQUIRE(weft_chan_is_closed(c->chan) == m->is_closed);
}

static void open_chan(chan_model *c)
{
    size_t cap = c->mirror.limit;
    c->chan = c->is_typed ? parcels_chan(parcels_new(cap)) : weft_chan_new(cap);
    REQUIRE(c->chan != NULL && weft_chan_cap(c->chan) == cap);
}

/* All who wait are told that it is closed. */
static void close_mirror(mirror *m, int (*close)(void *object), void *object)
{
    size_t n = waiting_in(&m->senders, scratch, ACTORS);
    n += waiting_in(&m->receivers, scratch + n, ACTORS - n);
    REQUIRE(close(object) == 0);
    m->is_closed = true;
    for (size_t i = 0; i < n; i++)
        if (scratch[i]->who->fate == OPEN) /* one that selects may be there twice */
            promise(scratch[i], -EPIPE);
}

static int close_it(void *chan)
{
    return weft_chan_close(chan);
}

/* Close a channel, take out what is left, and put another in its place. */
static void renew_chan(chan_model *c)
{
    close_mirror(&c->mirror, close_it, c->chan);
    weft_value value;
    do {
        plan p = plan_take(&c->mirror);
        value = receive_from(c, true);
        REQUIRE(p.can && value == p.result);
        did_take(&c->mirror, &p);
        check_chan(c);
    } while (value != -EPIPE);
    REQUIRE(send_to(c, 1, false) == -EPIPE);
    weft_chan_free(c->chan);
    c->mirror.is_closed = false;
    open_chan(c);
}

static void do_send(actor *me, chan_model *c)
{
    weft_value value = new_value();
    plan p = plan_put(&c->mirror);
    if (roll(4) == 0) {
        int rc = send_to(c, value, true);
        REQUIRE(rc == (p.can ? p.result : -EAGAIN));
    } else {
        enter(me, &c->mirror.senders, BACK, value);
        if (p.can)
            keep(me, p.result);
        int rc = send_to(c, value, false);
        judge(me, rc, false);
    }
    did_put(&c->mirror, &p, value, BACK);
}

static void do_recv(actor *me, chan_model *c)
{
    plan p = plan_take(&c->mirror);
    if (roll(4) == 0) {
        weft_value value = receive_from(c, true);
        REQUIRE(value == (p.can ? p.result : -EAGAIN));
    } else {
        enter(me, &c->mirror.receivers, 0, 0);
        if (p.can)
            keep(me, p.result);
        weft_value value = receive_from(c, false);
        judge(me, value, false);
    }
    did_take(&c->mirror, &p);
}

static void do_chan(actor *me)
{
    chan_model *c = &chans[roll(COUNT_OF(chans))];
    if (roll(150) == 0)
        renew_chan(c);
    for (unsigned i = roll(3) + 1; i > 0; i--) {
        (roll(2) == 0 ? do_send : do_recv)(me, c);
        check_chan(c);
    }
}

/* Queues. */

static void check_queue(const queue_model *q)
{
    check_mirror(&q->mirror, weft_queue_count(q->queue));
    REQUIRE(weft_queue_waiting_to_push(q->queue) == count_in_line(&q->mirror.senders));
    REQUIRE(weft_queue_waiting_to_shift(q->queue) == count_in_line(&q->mirror.receivers));
}

static void do_push(actor *me, queue_model *q)
{
    static int (*const calls[2][2])(weft_queue *, weft_value) = {
        {weft_queue_push, weft_queue_unshift}, {weft_queue_try_push, weft_queue_try_unshift}};
    int end = roll(4) == 0 ? FRONT : BACK;
    bool is_try = roll(4) == 0;
    if (is_full_mirror(&q->mirror))
        return;
    weft_value value = new_value();
    plan p = plan_put(&q->mirror);
    if (is_try) {
        REQUIRE(calls[1][end](q->queue, value) == (p.can ? p.result : -EAGAIN));
    } else {
        enter(me, &q->mirror.senders, end, value);
        if (p.can)
            keep(me, p.result);
        int rc = calls[0][end](q->queue, value);
        judge(me, rc, false);
    }
    did_put(&q->mirror, &p, value, end);
}

static void do_shift(actor *me, queue_model *q)
{
    plan p = plan_take(&q->mirror);
    if (roll(4) == 0) {
        REQUIRE(weft_queue_try_shift(q->queue) == (p.can ? p.result : -EAGAIN));
    } else {
        enter(me, &q->mirror.receivers, 0, 0);
        if (p.can)
            keep(me, p.result);
        weft_value value = weft_queue_shift(q->queue);
        judge(me, value, false);
    }
    did_take(&q->mirror, &p);
}

/* Those who waited to push, in scratch, are let in as far as there is room now. */
static void admit(mirror *m, size_t waiting)
{
    for (size_t i = 0; i < waiting && m->count < m->limit; i++) {
        store(m, scratch[i]->value, scratch[i]->how);
        promise(scratch[i], 0);
    }
}

static void delete_one(queue_model *q)
{
    mirror *m = &q->mirror;
    if (m->count == 0)
        return;
    size_t i = roll((unsigned)m->count);
    REQUIRE(weft_queue_delete(q->queue, m->items[i]) == 1);
    memmove(m->items + i, m->items + i + 1, (--m->count - i) * sizeof *m->items);
}

static void take_several(queue_model *q)
{
    mirror *m = &q->mirror;
    weft_value out[ITEMS_MAX];
    size_t wanted = roll(ITEMS_MAX) + 1, n = wanted < m->count ? wanted : m->count;
    REQUIRE(weft_queue_shift_all(q->queue, out, wanted) == n);
    REQUIRE(memcmp(out, m->items, n * sizeof *out) == 0);
    memmove(m->items, m->items + n, (m->count -= n) * sizeof *out);
}

/* What makes room in a queue in other ways than by taking one. */
static void make_room(queue_model *q)
{
    mirror *m = &q->mirror;
    size_t waiting = waiting_in(&m->senders, scratch, ACTORS);
    switch (roll(4)) {
    case 0:
        delete_one(q);
        break;
    case 1:
        take_several(q);
        break;
    case 2:
        REQUIRE(weft_queue_flush(q->queue) == m->count);
        m->count = 0;
        break;
    default:
        if (m->limit != SIZE_MAX)
            REQUIRE(weft_queue_cap(q->queue, m->limit = roll(6) + 1) == 0);
    }
    admit(m, waiting);
}

static void do_queue(actor *me)
{
    queue_model *q = &queues[roll(COUNT_OF(queues))];
    if (roll(6) == 0)
        make_room(q);
    for (unsigned i = roll(3) + 1; i > 0; i--) {
        (roll(2) == 0 ? do_push : do_shift)(me, q);
        check_queue(q);
    }
}

/* Mailboxes. Only actors that run are told something: they take all of it before they end. */

static void check_mail(const actor *a)
{
    if (a->runs)
        check_mirror(&a->mail, (size_t)weft_mailbox_count(a->id));
}

static void do_tell(actor *me, actor *to)
{
    if (!to->runs || is_full_mirror(&to->mail))
        return;
    weft_value value = new_value();
    plan p = plan_put(&to->mail);
    if (roll(3) == 0) {
        REQUIRE(weft_try_tell(to->id, value) == (p.can ? 0 : -EAGAIN));
    } else {
        enter(me, &to->mail.senders, BACK, value);
        if (p.can || to == me)
            keep(me, p.can ? 0 : -EDEADLK);
        int rc = weft_tell(to->id, value);
        judge(me, rc, false);
    }
    did_put(&to->mail, &p, value, BACK);
    check_mail(to);
}

static void do_receive(actor *me, bool is_try)
{
    plan p = plan_take(&me->mail);
    if (is_try) {
        REQUIRE(weft_try_receive() == (p.can ? p.result : -EAGAIN));
    } else {
        enter(me, &me->mail.receivers, 0, 0);
        if (p.can)
            keep(me, p.result);
        weft_value value = weft_receive();
        judge(me, value, false);
    }
    did_take(&me->mail, &p);
    check_mail(me);
}

static void do_mail(actor *me)
{
    /* Half of it within a small circle, or hardly anyone would ever be told something in time. */
    actor *near = &actors[(size_t)(me - actors) / 8 * 8 + roll(8)];
    if (roll(3) == 0)
        do_receive(me, roll(4) == 0);
    else
        do_tell(me, roll(2) == 0 ? near : any_actor());
}

/* The caller ends: nothing is left in its mailbox, and nobody waits for room there. */
static void empty_mail(actor *me)
{
    while (me->mail.count > 0)
        do_receive(me, true);
    REQUIRE(first_in(&me->mail.senders) == NULL);
}

#endif
