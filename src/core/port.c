/* The ports, see port.h. */
#include "core/port.h"

#include "backend/lane.h"
#include "backend/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define PORTS_MAX (1u << WEFT__CORDS_BITS)

/* On a cache line of its own: its neighbours' traffic is not to slow it down. */
typedef struct port {
    _Atomic(weft__cord *) cord; /* NULL: nobody is to be found here */
    atomic_uint visitors;       /* who may be touching it */
    bool is_taken;              /* under the lock; by a cord, or for one that has ended */
    uint32_t serial;            /* under the lock; the highest of an id given out here */
} __attribute__((aligned(64))) port;

static port ports[PORTS_MAX];

/* Guards who comes and goes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t ports_end; /* under the lock; no port from here on has ever been taken */

static atomic_uint cords;        /* that are there */
static atomic_uint helpless;     /* of them: cannot wake anyone unless they are woken */
static atomic_uint resumed;      /* how often one was that, and is not any more */
static atomic_uint thread_waits; /* cords that wait for threads without fibers */
static atomic_bool saw_threads;  /* without fibers, when they were last counted */

/*
 * So many serials of ids are left to each slot of a cord at least. A port with fewer is avoided; it
 * begins anew when all are so.
 */
#define SERIALS_MIN (UINT32_MAX / 2)

/* The first port that is free and has serials left, or PORTS_MAX. The lock is held. */
static uint32_t find_fresh(void)
{
    uint32_t i = 0;
    while (i < PORTS_MAX && (ports[i].is_taken || ports[i].serial > UINT32_MAX - SERIALS_MIN))
        i++;
    return i;
}

/* The same, or any that is free. */
static uint32_t find_free(void)
{
    uint32_t i = find_fresh();
    if (i < PORTS_MAX)
        return i;
    for (i = 0; i < PORTS_MAX && ports[i].is_taken;)
        i++;
    if (i < PORTS_MAX)
        ports[i].serial = 0;
    return i;
}

int weft__port_take(weft__cord *c)
{
    pthread_mutex_lock(&lock);
    uint32_t i = find_free();
    if (i < PORTS_MAX) {
        if (i >= ports_end)
            ports_end = i + 1;
        ports[i].is_taken = true;
        c->index = i;
        c->serial_base = ports[i].serial;
    }
    pthread_mutex_unlock(&lock);
    return i < PORTS_MAX ? 0 : -EAGAIN;
}

static void look_again(void);

void weft__port_open(weft__cord *c)
{
    weft__lanes_set_call_end(look_again);
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&cords, 1);
    atomic_store(&ports[c->index].cord, c);
    pthread_mutex_unlock(&lock);
}

/* The lock is held: someone who waits for the others has to look again, as there is one less. */
static void nudge_one_helpless(void)
{
    for (uint32_t i = 0; i < ports_end; i++) {
        weft__cord *c = atomic_load(&ports[i].cord);
        if (c != NULL && atomic_load(&c->is_helpless)) {
            weft__cord_wake(c);
            return;
        }
    }
}

void weft__port_hide(weft__cord *c)
{
    port *p = &ports[c->index];
    atomic_store(&p->cord, NULL);
    while (atomic_load(&p->visitors) > 0)
        sched_yield();
}

void weft__port_close(weft__cord *c, bool is_kept)
{
    port *p = &ports[c->index];
    weft__port_hide(c);
    uint32_t serial = weft__cord_serial_max(c);
    pthread_mutex_lock(&lock);
    p->is_taken = is_kept;
    p->serial = serial;
    unsigned left = atomic_fetch_sub(&cords, 1) - 1;
    if (left > 0 && atomic_load(&helpless) == left)
        nudge_one_helpless();
    pthread_mutex_unlock(&lock);
}

void weft__port_free(uint32_t index)
{
    pthread_mutex_lock(&lock);
    ports[index].is_taken = false;
    pthread_mutex_unlock(&lock);
}

weft__cord *weft__port_visit(uint32_t index)
{
    /* Sequentially consistent, like the cord's leaving: one of the two sees the other. */
    atomic_fetch_add(&ports[index].visitors, 1);
    weft__cord *c = atomic_load(&ports[index].cord);
    if (c == NULL)
        weft__port_leave(index);
    return c;
}

void weft__port_leave(uint32_t index)
{
    atomic_fetch_sub_explicit(&ports[index].visitors, 1, memory_order_release);
}

void weft__port_each(void (*fn)(weft__cord *c, void *context), void *context)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < ports_end; i++) {
        weft__cord *c = weft__port_visit(i);
        if (c == NULL)
            continue;
        fn(c, context);
        weft__port_leave(i);
    }
    pthread_mutex_unlock(&lock);
}

void weft__port_nudge(uint32_t index)
{
    weft__cord *c = weft__port_visit(index);
    if (c == NULL)
        return;
    weft__cord_wake(c);
    weft__port_leave(index);
}

/*
 * It waits for others, and nothing of theirs is on its way: it goes on before it reads its inbox,
 * so that is looked at first.
 */
static bool is_beyond_help(weft__cord *c)
{
    return weft__inbox_is_empty(c) && atomic_load(&c->is_helpless);
}

/* What can be said of all cords at once. */
typedef struct survey {
    const weft__cord *self;
    unsigned count; /* with this one, which may be hidden */
    bool are_others_beyond_help;
    uint32_t others[WEFT__RESORTS]; /* of each kind one of the others; PORTS_MAX: none */
} survey;

static void look_at(weft__cord *c, void *context)
{
    survey *s = context;
    if (c == s->self)
        return;
    s->count++;
    s->are_others_beyond_help = s->are_others_beyond_help && is_beyond_help(c);
    s->others[atomic_load(&c->resort)] = c->index;
}

static survey look_around(const weft__cord *c)
{
    survey s = {c, 1, true, {PORTS_MAX, PORTS_MAX, PORTS_MAX}};
    weft__port_each(look_at, &s);
    return s;
}

/* Let another cord go, the main fiber of which will see to what comes then. */
static void let_go(uint32_t index)
{
    weft__cord *c = weft__port_visit(index);
    if (c == NULL)
        return;
    atomic_store(&c->is_let_go, true);
    weft__cord_wake(c);
    weft__port_leave(index);
}

/* Nobody can help anyone any more. */
static weft__hope end_one(const survey *s, weft__resort resort)
{
    for (weft__resort p = WEFT__RESORT_OPEN; p < WEFT__RESORT_OWED; p++) {
        if (p == resort)
            return WEFT__HOPE_NOBODY;
        if (s->others[p] == PORTS_MAX)
            continue;
        let_go(s->others[p]);
        return WEFT__HOPE_CORDS;
    }
    return WEFT__HOPE_THREADS; /* for ever: but it may be looked into */
}

/*
 * A thread of the pool has come to the end of a function of the program's: it cannot send anything
 * any more. Cords that wait for it have to look again. They have said so before they counted.
 */
static void look_again(void)
{
    if (atomic_load(&thread_waits) == 0)
        return;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < ports_end; i++) {
        weft__cord *c = atomic_load(&ports[i].cord);
        if (c != NULL && atomic_load(&c->waits_for_threads))
            weft__cord_wake(c);
    }
    pthread_mutex_unlock(&lock);
}

/*
 * Is there a thread without fibers? Counting reads /proc: where there was one, the cord first waits
 * a little without looking.
 */
static bool sees_threads(weft__cord *c, unsigned cords_count)
{
    if (!atomic_exchange(&c->waits_for_threads, true))
        atomic_fetch_add(&thread_waits, 1);
    if (c->thread_looks == 0 && atomic_load(&saw_threads))
        return true;
    bool are_others = weft__threads_are_others(cords_count);
    atomic_store(&saw_threads, are_others);
    return are_others;
}

/*
 * All cords are helpless, it seems. They are, if none has gone on between two looks, in between
 * which there was no other thread either that could have sent something to one of them and ended.
 * One that has gone on since this one is helpless will look itself. What was sent to the one that
 * looks was sent before the others became helpless, so its inbox comes last.
 */
static weft__hope look_closely(weft__cord *c, weft__resort resort)
{
    unsigned before = atomic_load(&resumed);
    survey s = look_around(c);
    if (!s.are_others_beyond_help)
        return WEFT__HOPE_CORDS;
    if (sees_threads(c, s.count))
        return WEFT__HOPE_THREADS;
    s = look_around(c);
    if (!s.are_others_beyond_help || atomic_load(&resumed) != before)
        return WEFT__HOPE_CORDS;
    return weft__cord_has_letters(c) ? WEFT__HOPE_CORDS : end_one(&s, resort);
}

weft__hope weft__port_hope(weft__cord *c, bool is_helpless, weft__resort resort)
{
    unsigned others_helpless;
    if (is_helpless) {
        atomic_store(&c->resort, resort);
        atomic_store(&c->is_helpless, true);
        others_helpless = atomic_fetch_add(&helpless, 1);
    } else {
        others_helpless = atomic_load(&helpless);
    }
    if (others_helpless < atomic_load(&cords) - 1)
        return WEFT__HOPE_CORDS;
    /* It is the last one, and the only one that finds so. */
    return look_closely(c, resort);
}

void weft__port_go_on(weft__cord *c)
{
    if (atomic_load_explicit(&c->waits_for_threads, memory_order_relaxed)) {
        atomic_store(&c->waits_for_threads, false);
        atomic_fetch_sub(&thread_waits, 1);
    }
    if (!c->is_helpless)
        return;
    atomic_store(&c->is_helpless, false);
    atomic_fetch_sub(&helpless, 1);
    atomic_fetch_add(&resumed, 1); /* before it reads its inbox: see look_closely */
}

static void leave_behind(port *p, void (*gone)(weft__cord *other))
{
    weft__cord *other = atomic_load(&p->cord);
    if (other != NULL) {
        p->serial = weft__cord_serial_max(other); /* its ids are not to be given out again */
        if (gone != NULL)
            gone(other);
    }
    atomic_store(&p->cord, NULL);
    p->is_taken = false;
}

void weft__port_renew(weft__cord *c, void (*gone)(weft__cord *other))
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it */
    for (uint32_t i = 0; i < ports_end; i++) {
        atomic_store(&ports[i].visitors, 0);
        if (c == NULL || i != c->index)
            leave_behind(&ports[i], gone);
    }
    atomic_store(&cords, c != NULL);
    atomic_store(&helpless, 0);
    atomic_store(&thread_waits, 0);
    atomic_store(&saw_threads, false);
}
