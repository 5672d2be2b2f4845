/*
 * The model of channels, queues and mailboxes. Each FIFO has a mirror here, which predicts the
 * result of each call, the waiter that is woken, and which calls wait.
 */
#ifndef TESTS_SYNC_SYNC_FIFOS_H
#define TESTS_SYNC_SYNC_FIFOS_H

#include "sync/sync_model.h"

/* An item of several words, to detect items that arrive only in part. */
typedef struct typed_item {
    weft_value value, negated;
    char filling[40];
} typed_item;

WEFT_CHAN_OF(item_chan, typed_item);

typedef struct chan_model {
    weft_chan *chan; /* a channel of items if is_typed */
    bool is_typed, is_shared;
    mirror mirror;
} chan_model;

static chan_model chans[] = {{.mirror.limit = 0},
                             {.mirror.limit = 1},
                             {.mirror.limit = 8},
                             {.mirror.limit = 0, .is_typed = true},
                             {.mirror.limit = 2, .is_typed = true},
                             {.mirror.limit = 0, .is_shared = true},
                             {.mirror.limit = 2, .is_shared = true},
                             {.mirror.limit = 1, .is_typed = true, .is_shared = true}};

typedef struct queue_model {
    weft_queue *queue;
    mirror mirror;
} queue_model;

static queue_model queues[] = {{.mirror.limit = SIZE_MAX}, {.mirror.limit = 3}};

enum { BACK, FRONT };

/* The result of a call if it is made now. */
typedef struct prediction {
    bool is_ready;     /* the call does not wait */
    weft_value result; /* valid if is_ready */
    entry *peer;       /* the first waiter on the other side; NULL: none */
} prediction;

static weft_value values_made;

static weft_value new_value(void)
{
    return 100000 + values_made++;
}

static typed_item make_item(weft_value value)
{
    typed_item p = {.value = value, .negated = ~value};
    memset(p.filling, (int)(value & 0x7f), sizeof p.filling);
    return p;
}

static weft_value check_item(int rc, const typed_item *p)
{
    if (rc != 0)
        return rc;
    typed_item whole = make_item(p->value);
    REQUIRE(memcmp(&whole, p, sizeof whole) == 0);
    return p->value;
}

static void insert_value(mirror *m, weft_value value, int end)
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

static prediction predict_put(const mirror *m)
{
    if (m->is_closed)
        return (prediction){.is_ready = true, .result = -EPIPE};
    prediction p = {.peer = first_waiting(&m->receivers)};
    p.is_ready = p.peer != NULL || m->count < m->limit;
    return p;
}

static prediction predict_take(const mirror *m)
{
    prediction p = {.peer = first_waiting(&m->senders)};
    p.is_ready = m->count > 0 || p.peer != NULL || m->is_closed;
    p.result = m->count > 0 ? m->items[0] : p.peer != NULL ? p.peer->value : -EPIPE;
    return p;
}

/* Update the mirror after a predicted call. */
static void apply_put(mirror *m, const prediction *p, weft_value value, int end)
{
    if (!p->is_ready || p->result < 0)
        return;
    if (p->peer != NULL)
        expect_woken(p->peer, value);
    else
        insert_value(m, value, end);
}

static void apply_take(mirror *m, const prediction *p)
{
    if (!p->is_ready || weft_is_error(p->result))
        return;
    if (m->count > 0) {
        memmove(m->items, m->items + 1, --m->count * sizeof *m->items);
        if (p->peer == NULL || m->count >= m->limit)
            return;
        insert_value(m, p->peer->value, p->peer->mode);
    }
    expect_woken(p->peer, 0);
}

static bool is_mirror_full(const mirror *m)
{
    return m->count >= ITEMS_MAX - 1;
}

/* No actor waits without need. An actor in weft_select may wait on both sides. */
static void check_mirror(const mirror *m, size_t count)
{
    const entry *sender = first_waiting(&m->senders), *receiver = first_waiting(&m->receivers);
    REQUIRE(count == m->count);
    REQUIRE(sender == NULL || (m->count >= m->limit && !m->is_closed));
    REQUIRE(receiver == NULL || (m->count == 0 && !m->is_closed));
    REQUIRE(sender == NULL || receiver == NULL || sender->actor == receiver->actor);
}

/* Channels. */

static int send_to(chan_model *c, weft_value value, bool is_try)
{
    if (!c->is_typed)
        return (is_try ? weft_chan_try_send : weft_chan_send)(c->chan, value);
    item_chan *typed = (item_chan *)(void *)c->chan;
    return (is_try ? item_chan_try_send : item_chan_send)(typed, make_item(value));
}

static weft_value receive_from(chan_model *c, bool is_try)
{
    if (!c->is_typed)
        return (is_try ? weft_chan_try_recv : weft_chan_recv)(c->chan);
    item_chan *typed = (item_chan *)(void *)c->chan;
    typed_item p;
    int rc = (is_try ? item_chan_try_recv : item_chan_recv)(typed, &p);
    return check_item(rc, &p);
}

static void check_chan(const chan_model *c)
{
    const mirror *m = &c->mirror;
    check_mirror(m, weft_chan_count(c->chan));
    REQUIRE(weft_chan_has_senders(c->chan) == (first_waiting(&m->senders) != NULL));
    REQUIRE(weft_chan_has_receivers(c->chan) == (first_waiting(&m->receivers) != NULL));
    REQUIRE(weft_chan_is_full(c->chan) == (m->count >= m->limit));
    REQUIRE(weft_chan_is_empty(c->chan) == (m->count == 0));
    REQUIRE(weft_chan_is_closed(c->chan) == m->is_closed);
}

static void open_chan(chan_model *c)
{
    size_t cap = c->mirror.limit;
    c->chan = c->is_typed
                  ? item_chan_chan((c->is_shared ? item_chan_new_shared : item_chan_new)(cap))
                  : (c->is_shared ? weft_chan_new_shared : weft_chan_new)(cap);
    REQUIRE(c->chan != NULL && weft_chan_cap(c->chan) == cap);
}

/* Close the object. Expect -EPIPE from all waiters. */
static void close_mirror(mirror *m, int (*close)(void *object), void *object)
{
    size_t n = list_waiting(&m->senders, scratch, ACTORS);
    n += list_waiting(&m->receivers, scratch + n, ACTORS - n);
    REQUIRE(close(object) == 0);
    m->is_closed = true;
    for (size_t i = 0; i < n; i++)
        if (scratch[i]->actor->expectation == UNDECIDED) /* a select may occur twice */
            expect_woken(scratch[i], -EPIPE);
}

static int close_chan(void *chan)
{
    return weft_chan_close(chan);
}

/* Close a channel, receive the remaining items, and replace the channel. */
static void replace_chan(chan_model *c)
{
    close_mirror(&c->mirror, close_chan, c->chan);
    weft_value value;
    do {
        prediction p = predict_take(&c->mirror);
        value = receive_from(c, true);
        REQUIRE(p.is_ready && value == p.result);
        apply_take(&c->mirror, &p);
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
    prediction p = predict_put(&c->mirror);
    if (random_below(4) == 0) {
        int rc = send_to(c, value, true);
        REQUIRE(rc == (p.is_ready ? p.result : -EAGAIN));
    } else {
        enter_waitq(me, &c->mirror.senders, BACK, value);
        if (p.is_ready)
            expect_at_once(me, p.result);
        int rc = send_to(c, value, false);
        check_result(me, rc, false);
    }
    apply_put(&c->mirror, &p, value, BACK);
}

static void do_recv(actor *me, chan_model *c)
{
    prediction p = predict_take(&c->mirror);
    if (random_below(4) == 0) {
        weft_value value = receive_from(c, true);
        REQUIRE(value == (p.is_ready ? p.result : -EAGAIN));
    } else {
        enter_waitq(me, &c->mirror.receivers, 0, 0);
        if (p.is_ready)
            expect_at_once(me, p.result);
        weft_value value = receive_from(c, false);
        check_result(me, value, false);
    }
    apply_take(&c->mirror, &p);
}

static void do_chan(actor *me)
{
    chan_model *c = &chans[random_below(COUNT_OF(chans))];
    if (random_below(150) == 0)
        replace_chan(c);
    for (unsigned i = random_below(3) + 1; i > 0; i--) {
        (random_below(2) == 0 ? do_send : do_recv)(me, c);
        check_chan(c);
    }
}

/* Queues. */

static void check_queue(const queue_model *q)
{
    check_mirror(&q->mirror, weft_queue_count(q->queue));
}

static void do_push(actor *me, queue_model *q)
{
    static int (*const calls[2][2])(weft_queue *, weft_value) = {
        {weft_queue_push, weft_queue_unshift}, {weft_queue_try_push, weft_queue_try_unshift}};
    int end = random_below(4) == 0 ? FRONT : BACK;
    bool is_try = random_below(4) == 0;
    if (is_mirror_full(&q->mirror))
        return;
    weft_value value = new_value();
    prediction p = predict_put(&q->mirror);
    if (is_try) {
        REQUIRE(calls[1][end](q->queue, value) == (p.is_ready ? p.result : -EAGAIN));
    } else {
        enter_waitq(me, &q->mirror.senders, end, value);
        if (p.is_ready)
            expect_at_once(me, p.result);
        int rc = calls[0][end](q->queue, value);
        check_result(me, rc, false);
    }
    apply_put(&q->mirror, &p, value, end);
}

static void do_shift(actor *me, queue_model *q)
{
    prediction p = predict_take(&q->mirror);
    if (random_below(4) == 0) {
        REQUIRE(weft_queue_try_shift(q->queue) == (p.is_ready ? p.result : -EAGAIN));
    } else {
        enter_waitq(me, &q->mirror.receivers, 0, 0);
        if (p.is_ready)
            expect_at_once(me, p.result);
        weft_value value = weft_queue_shift(q->queue);
        check_result(me, value, false);
    }
    apply_take(&q->mirror, &p);
}

/* Admit waiting pushers, which are in scratch, while there is room. */
static void admit_pushers(mirror *m, size_t waiting)
{
    for (size_t i = 0; i < waiting && m->count < m->limit; i++) {
        insert_value(m, scratch[i]->value, scratch[i]->mode);
        expect_woken(scratch[i], 0);
    }
}

static void delete_random_value(queue_model *q)
{
    mirror *m = &q->mirror;
    if (m->count == 0)
        return;
    size_t i = random_below((unsigned)m->count);
    REQUIRE(weft_queue_delete(q->queue, m->items[i]) == 1);
    memmove(m->items + i, m->items + i + 1, (--m->count - i) * sizeof *m->items);
}

static void shift_several(queue_model *q)
{
    mirror *m = &q->mirror;
    weft_value out[ITEMS_MAX];
    size_t wanted = random_below(ITEMS_MAX) + 1, n = wanted < m->count ? wanted : m->count;
    REQUIRE(weft_queue_shift_all(q->queue, out, wanted) == n);
    REQUIRE(memcmp(out, m->items, n * sizeof *out) == 0);
    memmove(m->items, m->items + n, (m->count -= n) * sizeof *out);
}

/* Free room in a queue in other ways than by shifting one value. */
static void free_queue_room(queue_model *q)
{
    mirror *m = &q->mirror;
    size_t waiting = list_waiting(&m->senders, scratch, ACTORS);
    switch (random_below(4)) {
    case 0:
        delete_random_value(q);
        break;
    case 1:
        shift_several(q);
        break;
    case 2:
        REQUIRE(weft_queue_flush(q->queue) == m->count);
        m->count = 0;
        break;
    default:
        if (m->limit != SIZE_MAX)
            REQUIRE(weft_queue_set_cap(q->queue, m->limit = random_below(6) + 1) == 0);
    }
    admit_pushers(m, waiting);
}

static void do_queue(actor *me)
{
    queue_model *q = &queues[random_below(COUNT_OF(queues))];
    if (random_below(6) == 0)
        free_queue_room(q);
    for (unsigned i = random_below(3) + 1; i > 0; i--) {
        (random_below(2) == 0 ? do_push : do_shift)(me, q);
        check_queue(q);
    }
}

/* Mailboxes. Only running actors are told values. They receive all values before they end. */

static void check_mail(const actor *a)
{
    if (a->is_running)
        check_mirror(&a->mail, (size_t)weft_mailbox_count(a->id));
}

static void do_tell(actor *me, actor *to)
{
    if (!to->is_running || is_mirror_full(&to->mail))
        return;
    weft_value value = new_value();
    prediction p = predict_put(&to->mail);
    if (random_below(3) == 0) {
        REQUIRE(weft_try_tell(to->id, value) == (p.is_ready ? 0 : -EAGAIN));
    } else {
        enter_waitq(me, &to->mail.senders, BACK, value);
        if (p.is_ready || to == me)
            expect_at_once(me, p.is_ready ? 0 : -EDEADLK);
        int rc = weft_tell(to->id, value);
        check_result(me, rc, false);
    }
    apply_put(&to->mail, &p, value, BACK);
    check_mail(to);
}

static void do_receive(actor *me, bool is_try)
{
    prediction p = predict_take(&me->mail);
    if (is_try) {
        REQUIRE(weft_try_receive() == (p.is_ready ? p.result : -EAGAIN));
    } else {
        enter_waitq(me, &me->mail.receivers, 0, 0);
        if (p.is_ready)
            expect_at_once(me, p.result);
        weft_value value = weft_receive();
        check_result(me, value, false);
    }
    apply_take(&me->mail, &p);
    check_mail(me);
}

static void do_mail(actor *me)
{
    /* Half of the messages stay within a group of 8. Few receivers would run otherwise. */
    actor *near = &actors[(size_t)(me - actors) / 8 * 8 + random_below(8)];
    if (random_below(3) == 0)
        do_receive(me, random_below(4) == 0);
    else
        do_tell(me, random_below(2) == 0 ? near : random_actor());
}

/* Receive all messages before the actor ends. No actor waits for room afterwards. */
static void drain_mailbox(actor *me)
{
    while (me->mail.count > 0)
        do_receive(me, true);
    REQUIRE(first_waiting(&me->mail.senders) == NULL);
}

#endif
