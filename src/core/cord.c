/*
 * Threads that run fibers: how a thread becomes a cord and stops being one, how other threads reach
 * it, and what happens to its fibers when the process ends.
 */
#include "core/cord.h"

#include "backend/threads.h"
#include "core/end.h"
#include "core/overflow.h"
#include "core/report.h"

#include <weft/version.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CORDS_MAX (1u << WEFT__CORDS_BITS)

__thread weft__cord *weft__cord_self;

/* The C++ runtime's, where the program has one. */
extern void *__cxa_get_globals(void) __attribute__((weak));

/*
 * All cords, by index. A serial goes on where the last cord with that index ended: its ids stay
 * unique.
 */
static struct {
    pthread_mutex_t lock;
    weft__cord *cords[CORDS_MAX];
    uint32_t serials[CORDS_MAX];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static int set_up_error; /* of what is done once; 0: none */
static pid_t owner;      /* the process that did it; a child of it by fork has only copies */

static bool find_overflown(const void *address, weft__overflow_facts *out)
{
    const weft__cord *c = weft__cord_self;
    if (c == NULL || c->current->stack.low == NULL)
        return false;
    const weft__fiber *f = c->current;
    if (!weft__stack_guards(&f->stack, address))
        return false;
    *out = (weft__overflow_facts){f->id, f->name, (void *)f->fn, weft__stack_slot_bytes(&f->stack)};
    return true;
}

/* The first index that is free, or CORDS_MAX. The lock is held. */
static uint32_t free_index(void)
{
    uint32_t i = 0;
    while (i < CORDS_MAX && registry.cords[i] != NULL)
        i++;
    return i;
}

static int enter_registry(weft__cord *c)
{
    pthread_mutex_lock(&registry.lock);
    uint32_t i = free_index();
    if (i < CORDS_MAX) {
        registry.cords[i] = c;
        c->index = i;
        c->serial = registry.serials[i];
    }
    pthread_mutex_unlock(&registry.lock);
    return i < CORDS_MAX ? 0 : -EAGAIN;
}

static void leave_registry(weft__cord *c)
{
    pthread_mutex_lock(&registry.lock);
    registry.cords[c->index] = NULL;
    registry.serials[c->index] = c->serial;
    pthread_mutex_unlock(&registry.lock);
}

/* Deliver what is in the inbox, the oldest first. here is NULL if the cord is no more. */
static void deliver_all(weft__cord *c, weft__cord *here)
{
    weft__letter *newest = atomic_exchange_explicit(&c->inbox, NULL, memory_order_acquire);
    weft__letter *oldest = NULL;
    while (newest != NULL) {
        weft__letter *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        weft__letter *next = oldest->next;
        oldest->deliver(here, oldest);
        oldest = next;
    }
}

static void free_cord(weft__cord *c)
{
    for (uint32_t i = 0; i < c->chunks_count; i++)
        free(c->chunks[i]);
    free(c->chunks);
    deliver_all(c, NULL);
    weft__runqueue_close(&c->runqueue);
    weft__stack_pool_close(&c->stacks);
    if (c->backend != NULL)
        c->backend->type->close(c->backend);
    weft__overflow_thread_close(&c->overflow);
    free(c);
}

/* A thread ends: so do its fibers. */
static void close_thread(void *arg)
{
    weft__cord *c = arg;
    int code = weft__cord_end_fibers(c);
    if (code != 0)
        weft__report_unhandled(c->main->error, code);
    weft__error_set(c->main, NULL);
    weft__error_drop_queue(c->main);
    leave_registry(c);
    weft__cord_self = NULL;
    free_cord(c);
}

/*
 * The process ends: main returned, or some fiber called exit. An error that nobody handled must not
 * look like success.
 */
static void close_process(int status, void *arg)
{
    (void)arg;
    weft__cord *c = weft__cord_self;
    if (c == NULL || getpid() != owner)
        return;
    int code = weft__cord_end_fibers(c);
    const weft__error *e = c->main->error;
    if (code == 0) {
        bool has_climbed = e != NULL && e->path_count > 0;
        if (status != 0 && has_climbed && e->path[e->path_count - 1] == c->main->id)
            weft__report_last(e, status);
        return;
    }
    weft__report_unhandled(e, code);
    if (status == 0) {
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
}

/* Nobody else may hold the lock while the process forks: in the child nobody would release it. */
static void lock_registry(void)
{
    pthread_mutex_lock(&registry.lock);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&registry.lock);
}

static void set_up_process(void)
{
    owner = getpid();
    set_up_error = pthread_key_create(&thread_key, close_thread);
    if (set_up_error == 0 && on_exit(close_process, NULL) != 0)
        set_up_error = ENOMEM;
    if (set_up_error == 0)
        set_up_error = pthread_atfork(lock_registry, unlock_registry, unlock_registry);
    weft__overflow_install(find_overflown);
}

void weft__cord_open_backend(weft__cord *c)
{
    weft__backend *b;
    int rc = weft__backend_open(&b, &c->backend_why);
    if (rc < 0) {
        weft__backend_none_open(&c->no_backend, rc);
        b = &c->no_backend.base;
    }
    pthread_mutex_lock(&registry.lock); /* others wake the cord through it */
    c->backend = b;
    pthread_mutex_unlock(&registry.lock);
    uint64_t random;
    c->is_shuffled =
        c->backend->type->choose != NULL && c->backend->type->choose(c->backend, &random);
}

static int fill_cord(weft__cord *c)
{
    weft__list_init(&c->warm);
    weft__list_init(&c->bare);
    weft__stack_pool_init(&c->stacks);
    c->slice = (weft__slice){WEFT__SLICE_WARN_S, WEFT__SLICE_FAIL_S};
    int rc = weft__runqueue_init(&c->runqueue);
    if (rc == 0)
        rc = weft__cord_add_chunk(c);
    return rc;
}

static void begin_time(weft__cord *c)
{
    weft__wheel_init(&c->wheel, weft__cord_now(c));
    c->turned_ns = c->polled_ns = c->now_ns;
    c->turn_switches = WEFT__TURN_SWITCHES_MAX;
    c->turn_span = c->turn_left = c->is_shuffled ? 1 : c->turn_switches;
}

COLD weft__cord *weft__cord_adopt(void)
{
    pthread_once(&once, set_up_process);
    weft__cord *c = set_up_error == 0 ? calloc(1, sizeof *c) : NULL;
    if (c == NULL)
        return NULL;
    if (fill_cord(c) < 0) {
        free_cord(c);
        return NULL;
    }
    weft__cord_open_backend(c);
    begin_time(c);
    if (enter_registry(c) < 0) {
        free_cord(c);
        return NULL;
    }
    weft__overflow_thread_open(&c->overflow); /* without it an overflow is a bare crash, no worse */
    c->main = c->current = weft__fiber_adopt(c);
    if (__cxa_get_globals != NULL)
        c->cxx = __cxa_get_globals();
    weft__cord_self = c;
    pthread_setspecific(thread_key, c); /* if this fails, the thread leaks its cord */
    return c;
}

/* Into the inbox; the first letter wakes the cord. */
static void post(weft__cord *c, weft__letter *l)
{
    weft__letter *newest = atomic_load_explicit(&c->inbox, memory_order_relaxed);
    do {
        l->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&c->inbox, &newest, l, memory_order_release,
                                                    memory_order_relaxed));
    if (newest == NULL)
        c->backend->type->wake(c->backend);
}

/*
 * The lock keeps the cord from going away; readers take none. A thread must not be cancelled while
 * it holds it, and to wake is a system call where that could happen.
 */
int weft__cord_post(weft__letter *l)
{
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&registry.lock);
    weft__cord *c = l->fiber != 0 ? registry.cords[weft__fiber_cord(l->fiber)] : NULL;
    if (c != NULL)
        post(c, l);
    pthread_mutex_unlock(&registry.lock);
    pthread_setcancelstate(cancel_state, NULL);
    return c != NULL ? 0 : -ESRCH;
}

int weft__cord_send(weft_fiber fiber, weft_value value,
                    void (*deliver)(weft__cord *c, weft__letter *l))
{
    weft__letter *l = malloc(sizeof *l);
    if (l == NULL)
        return -ENOMEM;
    *l = (weft__letter){NULL, deliver, fiber, value};
    int rc = weft__cord_post(l);
    if (rc < 0)
        free(l);
    return rc;
}

bool weft__cord_is_bounded(uint32_t index)
{
    pthread_mutex_lock(&registry.lock);
    weft__cord *c = registry.cords[index];
    bool is_bounded =
        c != NULL && atomic_load_explicit(&c->bounded_mailboxes, memory_order_relaxed) > 0;
    pthread_mutex_unlock(&registry.lock);
    return is_bounded;
}

void weft__cord_read_inbox(weft__cord *c)
{
    if (UNLIKELY(weft__cord_has_letters(c)))
        deliver_all(c, c);
}

bool weft__cord_is_reachable(void)
{
    return weft__threads_are_others();
}

#define TEXT_OF(x) TEXT_OF_RAW(x)
#define TEXT_OF_RAW(x) #x

const char *weft_version(void)
{
    return TEXT_OF(WEFT_VERSION_MAJOR) "." TEXT_OF(WEFT_VERSION_MINOR) "." TEXT_OF(
        WEFT_VERSION_PATCH);
}
