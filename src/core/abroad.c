/*
 * Messages to fibers of other threads. Mostly a letter that says "tell it this", and is forgotten.
 *
 * To a thread in which a mailbox is bounded, or whose inbox is full, goes a parcel: it waits there
 * until the mailbox has room, among those who wait, and comes back with the answer, for which the
 * sender waits: a fiber in its wait, a thread without fibers on a semaphore. A fiber that is
 * cancelled meanwhile sends a recall after it: the parcel comes back sooner, with -ECANCELED, or
 * has been accepted already.
 */
#include "core/abroad.h"

#include "base/libc.h"
#include "core/alarm.h"
#include "core/mailbox.h"

#include <weft/mailbox.h>

#include <semaphore.h>
#include <stdlib.h>

/*
 * Owned by the thread that it is at, but for the recall, which is the sender's to write and send.
 */
typedef struct parcel {
    weft__letter letter; /* there: to the one who is told; back: to the sender, with the answer */
    weft__letter recall; /* follows it there */
    weft__waiter waiter; /* there: in the line of those who wait for room, or in none */
    atomic_int letters;  /* of these two, under way; with the last one it is freed */
    weft_fiber sender;   /* these three never change; 0: a thread without fibers */
    weft_fiber receiver;
    weft_value message;
    sem_t answered; /* posted when the answer is in letter.value; only for a thread */
} parcel;

static void arrive(parcel *p)
{
    if (atomic_fetch_sub_explicit(&p->letters, 1, memory_order_acq_rel) == 1)
        free(p);
}

static const weft__wait_kind waits_recall = {.name = "a message to come back"};

static bool recall(weft__fiber *f);

static const weft__wait_kind waits_answer = {"room in a mailbox of another thread",
                                             .leave = recall};

/* The answer is there. A sender that is being ended with its thread does not wait any more. */
static void deliver_answer(weft__cord *c, weft__letter *l)
{
    parcel *p = CONTAINER_OF(l, parcel, letter);
    weft__fiber *f = weft__fiber_waiting(c, p->sender, p);
    if (f != NULL)
        weft__wake(c, f, weft__settle(f, l->value), WEFT__TAIL);
    arrive(p);
}

/* Send the parcel back with an answer. */
static void answer(parcel *p, weft_value value)
{
    if (p->sender == 0) {
        p->letter.value = value;
        sem_post(&p->answered); /* the thread frees the parcel */
        return;
    }
    p->letter = (weft__letter){NULL, deliver_answer, p->sender, value};
    if (weft__cord_post(&p->letter) < 0)
        arrive(p); /* nobody is left to read it */
}

static void answer_waiter(weft__waiter *w, weft_value value)
{
    answer(CONTAINER_OF(w, parcel, waiter), value);
}

static void deliver_parcel(weft__cord *c, weft__letter *l)
{
    parcel *p = CONTAINER_OF(l, parcel, letter);
    weft__fiber *f = c != NULL ? weft__fiber_find(c, p->receiver) : NULL;
    if (f == NULL || f->phase == WEFT__ENDED) {
        answer(p, -ESRCH);
        return;
    }
    int rc = weft_try_tell(p->receiver, p->message);
    if (rc != -EAGAIN) {
        answer(p, rc);
        return;
    }
    p->waiter = (weft__waiter){.served = answer_waiter, .data = &p->message, .how = WEFT__TAIL};
    weft__line_join(&f->mailbox->passage.senders, &p->waiter);
}

/* The parcel was there before. If it is not in line any more, it is on its way back already. */
static void deliver_recall(weft__cord *c, weft__letter *l)
{
    (void)c;
    parcel *p = CONTAINER_OF(l, parcel, recall);
    if (p->waiter.line != NULL) {
        weft__line_leave(&p->waiter);
        answer(p, -ECANCELED);
    }
    arrive(p);
}

/* The answer comes in any case, and is what the sender goes on with. */
static bool recall(weft__fiber *f)
{
    parcel *p = f->wait_object;
    f->waits_in = &waits_recall;
    p->recall = (weft__letter){NULL, deliver_recall, p->receiver, 0};
    atomic_fetch_add_explicit(&p->letters, 1, memory_order_relaxed);
    if (weft__cord_post(&p->recall) < 0)
        arrive(p); /* the one it is sent to ends, which answers it */
    return false;
}

static void deliver_message(weft__cord *c, weft__letter *l)
{
    weft__fiber *f = c != NULL ? weft__fiber_find(c, l->fiber) : NULL;
    if (f != NULL && f->phase != WEFT__ENDED)
        weft__mailbox_force(c, f, l->value);
    weft__letter_free(c, l);
}

/* Post a new parcel. 0, -ENOMEM or -ESRCH. */
static int post_parcel(weft_fiber sender, weft_fiber fiber, weft_value value, parcel **out)
{
    parcel *p = *out = malloc(sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    *p = (parcel){.letter = {NULL, deliver_parcel, fiber, 0},
                  .letters = 1,
                  .sender = sender,
                  .receiver = fiber,
                  .message = value};
    if (sender == 0)
        sem_init(&p->answered, 0, 0);
    int rc = weft__cord_post(&p->letter);
    if (rc < 0)
        free(p);
    return rc;
}

static int tell_and_wait(weft__cord *c, weft_fiber fiber, weft_value value)
{
    if (c->current->alarm)
        return (int)weft__refuse(c);
    parcel *p;
    int rc = post_parcel(c->current->id, fiber, value, &p);
    return rc < 0 ? rc : weft__wait_int(c, &waits_answer, p);
}

/* The same for a thread without fibers. It must not be cancelled while the parcel is away. */
static int tell_and_block(weft_fiber fiber, weft_value value)
{
    int cancel_state;
    parcel *p;
    int rc = post_parcel(0, fiber, value, &p);
    if (rc < 0)
        return rc;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    TEMP_FAILURE_RETRY(sem_wait(&p->answered));
    pthread_setcancelstate(cancel_state, NULL);
    rc = (int)p->letter.value;
    sem_destroy(&p->answered);
    free(p);
    return rc;
}

int weft__tell_abroad(weft_fiber fiber, weft_value value)
{
    int rc = weft__cord_send(fiber, value, deliver_message, true);
    if (rc != -EAGAIN)
        return rc;
    weft__cord *c = weft__cord_self;
    return c != NULL ? tell_and_wait(c, fiber, value) : tell_and_block(fiber, value);
}
