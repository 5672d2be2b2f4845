/* Semaphores. */
#include "core/alarm.h"

#include <weft/sync.h>

/* Between calls: if someone waits, there are no tokens. */
typedef struct sem {
    weft__line waiters;
    size_t tokens;
} sem;

_Static_assert(sizeof(sem) <= sizeof(weft_sem), "weft_sem is too small");

static const weft__wait_kind waits_token = {"a token", .leave = weft__leave_line};

static sem *private_of(weft_sem *semaphore)
{
    return (sem *)(void *)semaphore;
}

void weft_sem_open(weft_sem *semaphore, size_t tokens)
{
    *private_of(semaphore) = (sem){.tokens = tokens};
}

int weft_sem_try_wait(weft_sem *semaphore)
{
    sem *s = private_of(semaphore);
    if (UNLIKELY(s->tokens == 0))
        return -EAGAIN;
    s->tokens--;
    return 0;
}

int weft_sem_wait(weft_sem *semaphore)
{
    if (LIKELY(weft_sem_try_wait(semaphore) == 0))
        return 0;
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    sem *s = private_of(semaphore);
    return weft__line_wait_int(c, &s->waiters, &waits_token, s);
}

int weft_sem_post(weft_sem *semaphore)
{
    sem *s = private_of(semaphore);
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (!weft__line_is_empty(&s->waiters)) {
        weft__serve(c, s->waiters.first, 0);
        return 0;
    }
    if (UNLIKELY(s->tokens == SIZE_MAX))
        return -EOVERFLOW;
    s->tokens++;
    return 0;
}

size_t weft_sem_count(const weft_sem *semaphore)
{
    return ((const sem *)(const void *)semaphore)->tokens;
}
