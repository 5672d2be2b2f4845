/*
 * Events: one atomic word that says whether the event is set, or which fiber waits for that.
 *
 * Whoever sets it while a fiber waits takes the id out of the word; from then on the set is that
 * fiber's. In the same thread it is woken in the same step. From another thread a letter goes to
 * it, and until that has arrived the fiber stays where it is, cancelled or not: so the one who sets
 * never touches the event after the word was changed, and the fiber may free it once it is woken.
 *
 * A letter that finds its fiber gone is thrown away, and the set with it: that fiber was torn out
 * of its wait by the end of its whole thread, and the event may be gone with that.
 */
#include "core/alarm.h"

#include <weft/sync.h>

#include <stdlib.h>

typedef _Atomic(uint64_t) event; /* CLEAR, IS_SET, or the id of the fiber that waits */

_Static_assert(sizeof(event) <= sizeof(weft_event), "weft_event is too small");
_Static_assert(_Alignof(event) <= _Alignof(weft_event), "weft_event is aligned too little");

/* No fiber has such an id. */
enum { CLEAR = 0, IS_SET = 1 };

/* Set from another thread; the letter is on its way. */
static const weft__wait_kind waits_letter = {.name = "an event, which is set"};

static event *private_of(weft_event *handle)
{
    return (event *)(void *)handle;
}

/*
 * One step of the word. What it finds is there for the caller to read, what it leaves there is
 * written for the next one, also where both are the same: each who sets has something to show.
 */
static bool change(event *e, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(e, from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static bool leave(weft__fiber *f)
{
    uint64_t id = f->id;
    if (LIKELY(change(f->wait_object, &id, CLEAR)))
        return true;
    f->waits_in = &waits_letter;
    return false;
}

static const weft__wait_kind waits_event = {"an event", .leave = leave, .forget = leave};

static void wake(weft__cord *c, weft_fiber fiber, const event *e)
{
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f != NULL && f->wait_object == e &&
        (f->waits_in == &waits_event || f->waits_in == &waits_letter))
        weft__wake(c, f, weft__settle(f, 0), WEFT__TAIL);
}

static void wake_by_letter(weft__cord *c, weft__letter *l)
{
    if (c != NULL)
        wake(c, l->fiber, (const event *)l->value);
    free(l);
}

/* Set it for the fiber of another thread that is in *word. 0; -EAGAIN: *word is another by now. */
static int set_abroad(event *e, uint64_t *word)
{
    weft__letter *l = malloc(sizeof *l); /* first: nothing can be undone afterwards */
    if (l == NULL)
        return -ENOMEM;
    *l = (weft__letter){NULL, wake_by_letter, *word, (weft_value)e};
    bool is_taken = change(e, word, CLEAR);
    if (!is_taken || weft__cord_post(l) < 0)
        free(l);
    return is_taken ? 0 : -EAGAIN;
}

static int set_here(weft__cord *c, event *e, uint64_t *word)
{
    weft_fiber fiber = *word;
    if (!change(e, word, CLEAR))
        return -EAGAIN;
    wake(c, fiber, e);
    return 0;
}

int weft_event_set(weft_event *handle)
{
    event *e = private_of(handle);
    weft__cord *c = weft__cord_self; /* a thread that only sets need not become a cord */
    if (weft__is_refused(c))
        return weft__no_cord();
    uint64_t word = atomic_load_explicit(e, memory_order_relaxed);
    int rc;
    do {
        if (word == CLEAR || word == IS_SET)
            rc = change(e, &word, IS_SET) ? 0 : -EAGAIN;
        else if (c != NULL && weft__fiber_cord(word) == c->index)
            rc = set_here(c, e, &word);
        else
            rc = set_abroad(e, &word);
    } while (rc == -EAGAIN);
    return rc;
}

void weft_event_clear(weft_event *handle)
{
    uint64_t word = IS_SET;
    change(private_of(handle), &word, CLEAR);
}

bool weft_event_is_set(const weft_event *handle)
{
    return atomic_load_explicit((const event *)(const void *)handle, memory_order_acquire) ==
           IS_SET;
}

int weft_event_wait(weft_event *handle)
{
    event *e = private_of(handle);
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    uint64_t word;
    do { /* again, if another thread sets it meanwhile */
        word = IS_SET;
        if (change(e, &word, CLEAR))
            return 0;
        if (UNLIKELY(word != CLEAR))
            return weft_fail(-EBUSY, "another fiber waits for this event");
        if (UNLIKELY(c->current->alarm))
            return (int)weft__refuse(c);
    } while (!change(e, &word, c->current->id));
    return weft__wait_int(c, &waits_event, e);
}
