/*
 * The handler counts and rings a bell; the relay, a thread of our own, hears it. So nothing has to
 * be safe in a handler but the two, a fiber of any thread can be told in the same way on every
 * backend, and a thread whose fibers wait for signals needs no descriptor.
 */
#include "io/relay.h"

#include "backend/threads.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_int owner; /* the process that catches */
static sem_t bell;
static void (*when_rung)(void);
static bool has_thread;

static struct {
    struct sigaction before; /* written while it is not caught */
    bool is_caught;
    atomic_uint count;
    _Atomic(weft__at_once *) at_once;
} caught[WEFT__SIGNALS_END];

/*
 * A child that was made without the handlers of fork, and has nothing of ours but this: by the
 * disposition from before.
 */
static void strike_in_child(int sig)
{
    sigaction(sig, &caught[sig].before, NULL);
    kill(getpid(), sig); /* blocked until the handler has returned */
}

static void handle(int sig, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    weft__at_once *at_once = atomic_load(&caught[sig].at_once);
    if (getpid() != atomic_load(&owner)) {
        strike_in_child(sig);
    } else if (at_once == NULL || !at_once(sig, info)) {
        atomic_fetch_add(&caught[sig].count, 1);
        sem_post(&bell);
    }
    errno = saved;
}

static void *listen_to_bell(void *arg)
{
    pthread_setname_np(pthread_self(), "weft-signals");
    for (;;) {
        while (sem_wait(&bell) < 0)
            continue;
        when_rung();
    }
    return arg;
}

static int start_thread(void (*on_bell)(void))
{
    if (has_thread)
        return 0;
    sem_init(&bell, 0, 0);
    when_rung = on_bell;
    atomic_store(&owner, getpid());
    int rc = weft__thread_start(listen_to_bell);
    has_thread = rc == 0;
    return rc;
}

int weft__relay_catch(int sig, void (*on_bell)(void))
{
    if (caught[sig].is_caught)
        return 0;
    int rc = start_thread(on_bell);
    if (rc < 0)
        return rc;
    /* One handler at a time: they would only pile up on the stack that they share. */
    struct sigaction ours = {.sa_sigaction = handle,
                             .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    atomic_store(&caught[sig].count, 0);
    if (sigaction(sig, NULL, &caught[sig].before) < 0 || sigaction(sig, &ours, NULL) < 0)
        return -errno;
    caught[sig].is_caught = true;
    return 0;
}

bool weft__relay_catches(int sig)
{
    return caught[sig].is_caught;
}

void weft__relay_set_at_once(int sig, weft__at_once *fn)
{
    atomic_store(&caught[sig].at_once, fn);
}

unsigned weft__relay_take(int sig)
{
    if (atomic_load_explicit(&caught[sig].count, memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange(&caught[sig].count, 0);
}

void weft__relay_release(int sig)
{
    struct sigaction now;
    bool is_ours = caught[sig].is_caught && sigaction(sig, NULL, &now) == 0 &&
                   (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle;
    if (is_ours)
        sigaction(sig, &caught[sig].before, NULL);
    caught[sig].is_caught = false;
}

void weft__relay_reset(void)
{
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        weft__relay_release(sig);
        weft__relay_set_at_once(sig, NULL);
        weft__relay_take(sig);
    }
    has_thread = false;
}
