/*
 * The real signal handler, and the signal thread. See signal_thread.h.
 *
 * The handler only counts the signal and posts a semaphore. Both are async-signal-safe. The thread
 * does the remaining work, in the same way on every backend. A cord that waits for signals needs no
 * descriptor.
 */
#include "core/signal/signal_thread.h"

#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_int owner; /* the process that catches signals; 0: none */
static sem_t wake_sem;   /* posted by the handler */
static void (*wake_callback)(void);
static bool has_thread;

static struct {
    struct sigaction previous; /* the previous disposition; written while is_caught is false */
    bool is_caught;
    atomic_uint count;                             /* occurrences that were not taken yet */
    _Atomic(weft__signal_in_handler *) in_handler; /* NULL: none */
} caught[WEFT__SIGNALS_END];

/*
 * Handle a signal by its previous disposition. The process is a child that was created without fork
 * handlers, for example by vfork(2).
 */
static void raise_in_child(int sig)
{
    sigaction(sig, &caught[sig].previous, NULL);
    kill(getpid(), sig); /* the signal is blocked until this handler returns */
}

static void signal_handler(int sig, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    weft__signal_in_handler *in_handler = atomic_load(&caught[sig].in_handler);
    if (getpid() != atomic_load(&owner)) {
        raise_in_child(sig);
    } else if (in_handler == NULL || !in_handler(sig, info)) {
        atomic_fetch_add(&caught[sig].count, 1);
        sem_post(&wake_sem);
    }
    errno = saved;
}

static void *signal_thread_main(void *arg)
{
    pthread_setname_np(pthread_self(), "weft-signals");
    for (;;) {
        while (sem_wait(&wake_sem) < 0)
            continue;
        wake_callback();
    }
    return arg;
}

static int start_thread(void (*on_wake)(void))
{
    if (has_thread)
        return 0;
    sem_init(&wake_sem, 0, 0);
    wake_callback = on_wake;
    atomic_store(&owner, getpid());
    int rc = weft__internal_thread_start(signal_thread_main);
    has_thread = rc == 0;
    return rc;
}

int weft__signal_thread_catch(int sig, void (*on_wake)(void))
{
    if (caught[sig].is_caught)
        return 0;
    int rc = start_thread(on_wake);
    if (rc < 0)
        return rc;
    /* Block all signals in the handler, so that handlers do not nest on the signal stack. */
    struct sigaction action = {.sa_sigaction = signal_handler,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    atomic_store(&caught[sig].count, 0);
    if (sigaction(sig, NULL, &caught[sig].previous) < 0 || sigaction(sig, &action, NULL) < 0)
        return -errno;
    caught[sig].is_caught = true;
    return 0;
}

bool weft__signal_thread_catches(int sig)
{
    return caught[sig].is_caught;
}

void weft__signal_thread_set_hook(int sig, weft__signal_in_handler *fn)
{
    atomic_store(&caught[sig].in_handler, fn);
}

unsigned weft__signal_thread_take(int sig)
{
    if (atomic_load_explicit(&caught[sig].count, memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange(&caught[sig].count, 0);
}

void weft__signal_thread_release(int sig)
{
    struct sigaction current;
    bool is_ours = caught[sig].is_caught && sigaction(sig, NULL, &current) == 0 &&
                   (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == signal_handler;
    if (is_ours)
        sigaction(sig, &caught[sig].previous, NULL);
    caught[sig].is_caught = false;
}

void weft__signal_thread_reset(void)
{
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        weft__signal_thread_release(sig);
        weft__signal_thread_set_hook(sig, NULL);
        weft__signal_thread_take(sig);
    }
    has_thread = false;
}
