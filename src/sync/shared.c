/* Shared channels: what is done under the lock, and how those who wait are told. See shared.h. */
#include "sync/shared.h"

#include "core/alarm.h"
#include "core/fork.h"

#include <stdlib.h>

/* The turn of a call that waits in one place. */
typedef struct visit {
    weft__turn turn;
    weft__shared *shared;
    weft__waiter waiter;
    weft_value value; /* that is received, if it goes nowhere else; else 0 */
} visit;

weft__shared *weft__shared_new(size_t item_bytes, size_t cap)
{
    weft__shared *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    weft__passage_init(&s->passage, item_bytes, cap);
    if (weft__passage_make_room(&s->passage, cap) < 0 || pthread_mutex_init(&s->lock, NULL) != 0) {
        weft__passage_free(&s->passage);
        free(s);
        return NULL;
    }
    s->fork_depth = weft__fork_depth;
    atomic_init(&s->refs, 1);
    return s;
}

/*
 * Made before weft_fork made this process: others may have been at work on it, and may hold the
 * lock for good. Nothing but what never changes is looked at.
 */
static inline bool is_of_parent(const weft__shared *s)
{
    return UNLIKELY(s->fork_depth != weft__fork_depth);
}

void weft__shared_drop(weft__shared *s)
{
    if (is_of_parent(s))
        return;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_destroy(&s->lock);
    weft__passage_free(&s->passage);
    free(s);
}

/*
 * Serving, under the lock.
 */

static weft__turn *turn_of(const weft__waiter *w)
{
    return w->is_contested ? ((weft__contest *)w->value)->turn : (weft__turn *)w->value;
}

/* The first of a line that nobody else has served meanwhile, out of it; NULL: there is none. */
static weft__waiter *pop(weft__line *line)
{
    weft__waiter *w;
    while ((w = weft__line_pop(line)) != NULL)
        if (!w->is_contested || weft__contest_claim((weft__contest *)w->value))
            return w;
    return NULL;
}

/* It is served; told is a stack of those to be told once the lock is open. */
static void serve(weft__waiter *w, int result, weft__letter **told)
{
    weft__turn *turn = turn_of(w);
    turn->by = w;
    turn->letter.value = result;
    turn->letter.next = *told;
    *told = &turn->letter;
}

static int put(weft__passage *p, const void *item, weft__letter **told)
{
    if (p->is_closed)
        return -EPIPE;
    weft__waiter *w = pop(&p->receivers);
    if (w != NULL) {
        weft__passage_copy(p, w->data, item);
        serve(w, 0, told);
        return 0;
    }
    if (p->count >= p->limit)
        return -EAGAIN;
    weft__passage_store(p, item, WEFT__TAIL);
    return 0;
}

static int take(weft__passage *p, void *out, weft__letter **told)
{
    bool is_stored = p->count > 0;
    if (is_stored) {
        weft__passage_copy(p, out, weft__passage_at(p, 0));
        p->head++;
        p->count--;
    }
    weft__waiter *w = pop(&p->senders);
    if (w != NULL) {
        if (is_stored)
            weft__passage_store(p, w->data, WEFT__TAIL);
        else
            weft__passage_copy(p, out, w->data);
        serve(w, 0, told);
        return 0;
    }
    if (is_stored)
        return 0;
    return p->is_closed ? -EPIPE : -EAGAIN;
}

/*
 * Telling, without the lock.
 */

/* A fiber of the calling thread needs no letter: what would be done with it is done at once. */
static void tell(weft__letter *told)
{
    weft__cord *c = weft__cord_self;
    while (told != NULL) {
        weft__letter *l = told;
        told = l->next;
        if (c != NULL && weft__fiber_cord(l->fiber) == c->index)
            l->deliver(c, l);
        else if (weft__cord_post(l) < 0)
            l->deliver(NULL, l); /* its thread has ended */
    }
}

int weft__shared_put(weft__shared *s, const void *item)
{
    if (is_of_parent(s))
        return -EPIPE;
    weft__letter *told = NULL;
    pthread_mutex_lock(&s->lock);
    int rc = put(&s->passage, item, &told);
    pthread_mutex_unlock(&s->lock);
    tell(told);
    return rc;
}

int weft__shared_take(weft__shared *s, void *out)
{
    if (is_of_parent(s))
        return -EPIPE;
    weft__letter *told = NULL;
    pthread_mutex_lock(&s->lock);
    int rc = take(&s->passage, out, &told);
    pthread_mutex_unlock(&s->lock);
    tell(told);
    return rc;
}

/* The oldest first. */
static weft__letter *in_order(weft__letter *told)
{
    weft__letter *first = NULL;
    while (told != NULL) {
        weft__letter *next = told->next;
        told->next = first;
        first = told;
        told = next;
    }
    return first;
}

void weft__shared_close(weft__shared *s)
{
    if (is_of_parent(s))
        return;
    weft__letter *told = NULL;
    weft__waiter *w;
    pthread_mutex_lock(&s->lock);
    s->passage.is_closed = true;
    while ((w = pop(&s->passage.senders)) != NULL || (w = pop(&s->passage.receivers)) != NULL)
        serve(w, -EPIPE, &told);
    pthread_mutex_unlock(&s->lock);
    tell(in_order(told));
}

/*
 * Waiting.
 */

static void end_visit(visit *v)
{
    weft__shared_drop(v->shared);
    free(v);
}

/* False: it has been served, and is woken in a moment. */
static bool leave_shared(weft__fiber *f)
{
    visit *v = f->wait_object;
    pthread_mutex_lock(&v->shared->lock);
    bool is_in_line = v->waiter.line != NULL;
    weft__line_leave(&v->waiter);
    pthread_mutex_unlock(&v->shared->lock);
    if (is_in_line)
        end_visit(v);
    return is_in_line;
}

static const weft__wait_kind waits_put = {"room in a shared channel", .leave = leave_shared};
static const weft__wait_kind waits_take = {"something from a shared channel",
                                           .leave = leave_shared};

static void deliver_turn(weft__cord *c, weft__letter *l)
{
    visit *v = CONTAINER_OF(l, visit, turn.letter);
    weft__fiber *f = weft__fiber_waiting(c, l->fiber, v);
    if (f != NULL)
        weft__wake(c, f, weft__settle(f, l->value < 0 ? l->value : v->value), WEFT__TAIL);
    end_visit(v);
}

/* The lock is held. */
static void join(const weft__cord *c, visit *v, weft__line *line, void *data)
{
    v->turn.letter = (weft__letter){NULL, deliver_turn, c->current->id, 0};
    v->waiter = (weft__waiter){.value = (weft_value)&v->turn, .data = data};
    atomic_fetch_add_explicit(&v->shared->refs, 1, memory_order_relaxed);
    weft__line_join(line, &v->waiter);
}

/* What the current fiber needs to wait; NULL: it cannot, and *why says why. */
static visit *visit_new(weft__cord *c, weft__shared *s, int *why)
{
    if (UNLIKELY(c->current->alarm)) {
        *why = (int)weft__refuse(c);
        return NULL;
    }
    visit *v = malloc(sizeof *v);
    if (v == NULL) {
        *why = -ENOMEM;
        return NULL;
    }
    v->shared = s;
    v->value = 0;
    return v;
}

int weft__shared_send(weft__cord *c, weft__shared *s, const void *item)
{
    int rc = weft__shared_put(s, item);
    if (rc != -EAGAIN)
        return rc;
    visit *v = visit_new(c, s, &rc);
    if (v == NULL)
        return rc;
    weft__letter *told = NULL;
    pthread_mutex_lock(&s->lock);
    rc = put(&s->passage, item, &told); /* once more: now there is the memory to wait */
    if (rc == -EAGAIN)
        join(c, v, &s->passage.senders, (void *)(uintptr_t)item);
    pthread_mutex_unlock(&s->lock);
    if (rc == -EAGAIN)
        return weft__wait_int(c, &waits_put, v);
    tell(told);
    free(v);
    return rc;
}

weft_value weft__shared_recv(weft__cord *c, weft__shared *s, void *out)
{
    weft_value value = 0;
    int rc = weft__shared_take(s, out != NULL ? out : &value);
    if (rc != -EAGAIN)
        return rc < 0 ? rc : value;
    visit *v = visit_new(c, s, &rc);
    if (v == NULL)
        return rc;
    weft__letter *told = NULL;
    pthread_mutex_lock(&s->lock);
    rc = take(&s->passage, out != NULL ? out : &value, &told);
    if (rc == -EAGAIN)
        join(c, v, &s->passage.receivers, out != NULL ? out : &v->value);
    pthread_mutex_unlock(&s->lock);
    if (rc == -EAGAIN)
        return weft__wait(c, &waits_take, v);
    tell(told);
    free(v);
    return rc < 0 ? rc : value;
}

/*
 * Looking.
 */

/* Ask something of the passage under the lock, or in a child say what is so there. */
#define LOOK(s, question, in_child)          \
    do {                                     \
        if (is_of_parent(s))                 \
            return in_child;                 \
        pthread_mutex_lock(&(s)->lock);      \
        __typeof__(question) q = (question); \
        pthread_mutex_unlock(&(s)->lock);    \
        return q;                            \
    } while (0)

bool weft__shared_can_put(weft__shared *s)
{
    LOOK(s, weft__passage_can_put(&s->passage), true);
}

bool weft__shared_can_take(weft__shared *s)
{
    LOOK(s, weft__passage_can_take(&s->passage), true);
}

size_t weft__shared_count(weft__shared *s)
{
    LOOK(s, s->passage.count, 0);
}

bool weft__shared_is_closed(weft__shared *s)
{
    LOOK(s, s->passage.is_closed, true);
}

bool weft__shared_has_senders(weft__shared *s)
{
    LOOK(s, !weft__line_is_empty(&s->passage.senders), false);
}

bool weft__shared_has_receivers(weft__shared *s)
{
    LOOK(s, !weft__line_is_empty(&s->passage.receivers), false);
}
