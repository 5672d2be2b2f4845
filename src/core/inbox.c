/*
 * Letters from thread to thread: how one is put into another cord's inbox, when that has to be
 * woken for it, and how a cord reads them: in batches, so that timers, I/O and fibers come in
 * between (docs/adr/0038).
 */
#include "core/port.h"

#include <limits.h>
#include <stdlib.h>

static weft__letter *oldest_first(weft__letter *newest)
{
    weft__letter *oldest = NULL;
    while (newest != NULL) {
        weft__letter *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

/* The oldest message, taken out; NULL: there is none. */
static weft__letter *next_message(weft__cord *c)
{
    if (c->taken == NULL && !weft__inbox_is_empty(c))
        c->taken = oldest_first(atomic_exchange(&c->inbox, NULL));
    weft__letter *l = c->taken;
    if (l != NULL)
        c->taken = l->next;
    return l;
}

/* Deliver at most `most` messages and return their number. here is NULL if the cord has ended. */
static unsigned deliver_some(weft__cord *c, weft__cord *here, unsigned most)
{
    unsigned count = 0;
    weft__letter *l;
    while (count < most && (l = next_message(c)) != NULL) {
        count++;
        l->deliver(here, l);
    }
    c->letters += count;
    atomic_fetch_sub_explicit(&c->remote_pending, count, memory_order_relaxed);
    return count;
}

void weft__cord_turn_away(weft__cord *c)
{
    deliver_some(c, NULL, UINT_MAX);
}

void weft__cord_read_inbox(weft__cord *c)
{
    if (LIKELY(!weft__cord_has_letters(c)))
        return;
    uint32_t left = c->round_messages;
    uint32_t most = left < WEFT__REMOTE_BATCH ? left : WEFT__REMOTE_BATCH;
    /* Paid in advance: delivering may call a function of the program, which may get here again. */
    c->round_messages -= most;
    c->round_messages += most - deliver_some(c, c, most);
}

void weft__cord_begin_round(weft__cord *c)
{
    uint32_t runnable = weft__runqueue_count(&c->runqueue);
    c->round_switches = runnable;
    c->round_messages = WEFT__REMOTE_BATCH;
    if (runnable / WEFT__REMOTE_PART > WEFT__REMOTE_BATCH)
        c->round_messages = runnable / WEFT__REMOTE_PART;
}

static void wake_through(const weft__cord *c, weft__backend *b)
{
    const weft__cord *self = weft__cord_self;
    bool is_sent = self != NULL && self->backend->type == b->type && b->type->message != NULL &&
                   b->type->message(self->backend, b, c->index);
    if (!is_sent)
        b->type->wake(b);
}

/*
 * To wake may be a system call in which a thread can be cancelled: it must not be, while it visits.
 */
void weft__cord_wake(weft__cord *c)
{
    int cancel_state;
    atomic_store(&c->is_woken, true);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    weft__backend *b = __atomic_load_n(&c->backend, __ATOMIC_ACQUIRE);
    if (b != NULL) /* else it has not begun, and reads its inbox before it waits */
        wake_through(c, b);
    pthread_setcancelstate(cancel_state, NULL);
}

/*
 * Into the inbox. Sequentially consistent on both sides: either the cord, which says that it sleeps
 * and then looks into its inbox, finds the letter, or the sender finds it asleep; of several
 * senders one wakes it.
 */
void weft__cord_put(weft__cord *c, weft__letter *l)
{
    atomic_fetch_add_explicit(&c->remote_pending, 1, memory_order_relaxed);
    weft__letter *newest = atomic_load_explicit(&c->inbox, memory_order_relaxed);
    do {
        l->next = newest;
    } while (!atomic_compare_exchange_weak(&c->inbox, &newest, l));
    if (atomic_load(&c->is_asleep) && atomic_exchange(&c->is_asleep, false))
        weft__cord_wake(c);
}

/* There is no such cord. */
COLD static int why_nobody(void)
{
    return weft__is_copy ? weft__no_cord() : -ESRCH;
}

int weft__cord_post(weft__letter *l)
{
    uint32_t index = weft__fiber_cord(l->fiber);
    weft__cord *c = l->fiber != 0 ? weft__port_visit(index) : NULL;
    if (c == NULL)
        return why_nobody();
    weft__cord_put(c, l);
    weft__port_leave(index);
    return 0;
}

/*
 * The cord is visited. A fiber whose making is under way may be any; that is asked first, as it is
 * over only when the id is there.
 */
static bool has_fiber(weft__cord *c, weft_fiber fiber)
{
    if (atomic_load(&c->reserve.under_way) > 0)
        return true;
    uint32_t slot = weft__fiber_slot(fiber);
    if (!weft__cord_has_slot(c, slot))
        return false;
    const weft__fiber *f = weft__cord_at(c, slot);
    return __atomic_load_n(&f->id, __ATOMIC_RELAXED) == fiber &&
           __atomic_load_n(&f->phase, __ATOMIC_RELAXED) != WEFT__ENDED;
}

/*
 * What letters are written on. Memory that one thread allocates and another one frees costs both
 * more than all the rest of a message. So the cord that sends tears its letters off a pad, which is
 * freed with the last one that is read; and it first uses those up that it has read itself: who is
 * asked something and answers needs none of its own.
 */
typedef struct sheet {
    weft__letter letter;
    struct weft__pad *pad; /* NULL: it is by itself */
} sheet;

typedef struct weft__pad {
    atomic_uint left; /* sheets that may still be used */
    unsigned torn;    /* the sender's: how many it has used */
    sheet sheets[WEFT__PAD_LETTERS];
} weft__pad;

static void give_back(weft__pad *pad, unsigned count)
{
    if (atomic_fetch_sub_explicit(&pad->left, count, memory_order_acq_rel) == count)
        free(pad);
}

/* NULL: no memory. */
static sheet *tear_off(weft__cord *self)
{
    weft__pad *pad = self->pad;
    if (UNLIKELY(pad == NULL)) {
        pad = self->pad = malloc(sizeof *pad);
        if (pad == NULL)
            return NULL;
        atomic_init(&pad->left, WEFT__PAD_LETTERS);
        pad->torn = 0;
    }
    sheet *s = &pad->sheets[pad->torn++];
    s->pad = pad;
    if (UNLIKELY(pad->torn == WEFT__PAD_LETTERS))
        self->pad = NULL;
    return s;
}

/* For a letter of the calling thread's, which has no pad unless it runs fibers. NULL: no memory. */
static sheet *find_sheet(void)
{
    weft__cord *self = weft__cord_self;
    if (self == NULL) {
        sheet *s = malloc(sizeof *s);
        if (s != NULL)
            s->pad = NULL;
        return s;
    }
    weft__letter *spare = self->spare;
    if (spare == NULL)
        return tear_off(self);
    self->spare = spare->next;
    self->spare_count--;
    return CONTAINER_OF(spare, sheet, letter);
}

void weft__letter_free(weft__cord *c, weft__letter *l)
{
    sheet *s = CONTAINER_OF(l, sheet, letter);
    if (c != NULL && c->spare_count < WEFT__SPARE_LETTERS) {
        l->next = c->spare;
        c->spare = l;
        c->spare_count++;
    } else if (s->pad != NULL) {
        give_back(s->pad, 1);
    } else {
        free(s);
    }
}

void weft__pad_close(weft__cord *c)
{
    while (c->spare != NULL) {
        weft__letter *l = c->spare;
        c->spare = l->next;
        weft__letter_free(NULL, l);
    }
    if (c->pad != NULL)
        give_back(c->pad, WEFT__PAD_LETTERS - c->pad->torn);
}

static int send_to(weft__cord *c, const weft__letter *content, bool only_unbounded)
{
    if (!has_fiber(c, content->fiber))
        return -ESRCH;
    if (weft__inbox_is_full(c))
        return -EAGAIN;
    if (only_unbounded && atomic_load_explicit(&c->bounded_mailboxes, memory_order_relaxed) > 0)
        return -EAGAIN;
    sheet *s = find_sheet();
    if (s == NULL)
        return -ENOMEM;
    s->letter = *content;
    weft__cord_put(c, &s->letter);
    return 0;
}

int weft__cord_send(weft_fiber fiber, weft_value value,
                    void (*deliver)(weft__cord *c, weft__letter *l), bool only_unbounded)
{
    uint32_t index = weft__fiber_cord(fiber);
    weft__cord *c = fiber != 0 ? weft__port_visit(index) : NULL;
    if (c == NULL)
        return why_nobody();
    int rc = send_to(c, &(weft__letter){NULL, deliver, fiber, value}, only_unbounded);
    weft__port_leave(index);
    return rc;
}
