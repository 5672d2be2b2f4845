/* Backtraces of threads that do not switch. See stall_trace.h. */
#include "core/debug/stall_trace.h"

#include "arch/sanitizers.h"
#include "base/clock.h"
#include "base/libc.h"

#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

/* The reserved signal. Code that changes a field must hold the lock. */
static struct {
    pthread_mutex_t lock;
    unsigned users;          /* 0: no signal is reserved */
    int number;              /* valid if users > 0 */
    struct sigaction before; /* the earlier disposition; valid if users > 0 */
} reserved = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread with the request holds this lock from begin to end. */
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The request and the reply. There is at most one request at a time. The handler and the requesting
 * thread compete to set requested_cord to NULL. If the handler wins, the handler replies. If the
 * requesting thread wins, no reply will arrive.
 */
static _Atomic(weft__cord *) requested_cord;
static weft__cord *sent_to;               /* requested_cord when the request was sent */
static weft__progress requested_progress; /* progress of requested_cord when the request was sent */
static atomic_bool has_replied;           /* reply is complete */
static sem_t reply_sem;                   /* wakes the requesting thread */
static struct {
    bool has_moved;
    int frames_first; /* index of the first frame that does not belong to the handler */
    int frames_count;
    void *frames[WEFT__WATCHDOG_FRAMES_MAX];
} reply;

WEFT__UNSANITIZED weft__progress weft__progress_of(const weft__cord *c)
{
    return (weft__progress){
        .switches = __atomic_load_n(&c->switches, __ATOMIC_RELAXED),
        .polled_ns = __atomic_load_n(&c->polled_ns, __ATOMIC_RELAXED),
        .tick_left = __atomic_load_n(&c->tick_left, __ATOMIC_RELAXED),
    };
}

bool weft__progress_is_same(const weft__progress *a, const weft__progress *b)
{
    return a->switches == b->switches && a->tick_left == b->tick_left &&
           a->polled_ns == b->polled_ns;
}

WEFT__UNSANITIZED void weft__stalled_fiber_read(const weft__cord *c, weft__stalled_fiber *out)
{
    const weft__fiber *f = __atomic_load_n(&c->current, __ATOMIC_RELAXED);
    out->id = __atomic_load_n(&f->id, __ATOMIC_RELAXED);
    out->fn = __atomic_load_n(&f->fn, __ATOMIC_RELAXED);
    for (size_t i = 0; i < sizeof out->name - 1; i++)
        out->name[i] = __atomic_load_n(&f->name[i], __ATOMIC_RELAXED);
    out->name[sizeof out->name - 1] = '\0';
}

/*
 * Return true if the stack of the handler has enough free space for a backtrace. A signal stack
 * always has enough space.
 */
static bool has_handler_room(const weft__fiber *f, const char *frame)
{
    size_t above = (uintptr_t)frame - (uintptr_t)f->stack.low;
    return f->stack.low == NULL || above >= f->stack.bytes || above >= WEFT__CALL_BYTES;
}

/* The signal handler, which runs in the stalled thread and can interrupt any code. */
static void on_stall_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    int saved = errno;
    weft__cord *c = weft__cord_self, *expected = c;
    if (c != NULL)
        atomic_store(&c->watchdog.is_signal_pending, false);
    if (c == NULL || !atomic_compare_exchange_strong(&requested_cord, &expected, NULL)) {
        errno = saved;
        return; /* the requesting thread gave up, or another sender sent the signal */
    }
    weft__progress at = weft__progress_of(c);
    reply.has_moved = !weft__progress_is_same(&at, &requested_progress) ||
                      atomic_load_explicit(&c->is_asleep, memory_order_relaxed);
    reply.frames_first = reply.frames_count = 0;
    if (!reply.has_moved && has_handler_room(c->current, __builtin_frame_address(0)))
        reply.frames_count = backtrace(reply.frames, WEFT__WATCHDOG_FRAMES_MAX);
    /*
     * The handler returns to the kernel's trampoline. The frame after the trampoline is the
     * interrupted frame.
     */
    for (int i = 0; i < reply.frames_count; i++)
        if (reply.frames[i] == __builtin_return_address(0))
            reply.frames_first = i + 1;
    atomic_store(&has_replied, true);
    sem_post(&reply_sem);
    errno = saved;
}

static bool is_our_handler(void)
{
    struct sigaction now;
    return sigaction(reserved.number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_stall_signal;
}

/* Find an unused signal. Search downwards, because programs use the lowest signals first. */
static int signal_install(void)
{
    struct sigaction ours = {.sa_sigaction = on_stall_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigfillset(&ours.sa_mask);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
        if (sigaction(number, NULL, &reserved.before) < 0 ||
            (reserved.before.sa_flags & SA_SIGINFO) || reserved.before.sa_handler != SIG_DFL)
            continue;
        reserved.number = number;
        return sigaction(number, &ours, NULL) < 0 ? -errno : 0;
    }
    return -EBUSY;
}

/*
 * Restore the disposition of the signal. First ignore the signal, which discards pending instances
 * in threads that block the signal. With the default disposition, a pending instance would end the
 * process later.
 */
static void signal_restore(void)
{
    if (!is_our_handler())
        return; /* the program has replaced the handler */
    sigaction(reserved.number, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    sigaction(reserved.number, &reserved.before, NULL);
}

/* Other threads do not exist in a child of fork. They may have held the locks. */
static void trace_after_fork(void)
{
    atomic_store(&requested_cord, NULL);
    sem_init(&reply_sem, 0, 0);
    if (reserved.users > 0)
        signal_restore();
    reserved.users = 0;
    reserved.lock = trace_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/*
 * Prepare backtraces, once per process. The first backtrace loads a library, which a signal handler
 * must not do. The caller must hold the lock.
 */
static int trace_prepare(void)
{
    static bool is_prepared;
    if (is_prepared)
        return 0;
    int rc = pthread_atfork(NULL, NULL, trace_after_fork);
    if (rc != 0)
        return -rc;
    sem_init(&reply_sem, 0, 0);
    backtrace(&(void *){NULL}, 1);
    is_prepared = true;
    return 0;
}

int weft__stall_signal_reserve(void)
{
    pthread_mutex_lock(&reserved.lock);
    int rc = trace_prepare();
    if (rc == 0 && reserved.users == 0)
        rc = signal_install();
    if (rc == 0) {
        reserved.users++;
        rc = reserved.number;
    }
    pthread_mutex_unlock(&reserved.lock);
    return rc;
}

void weft__stall_signal_release(void)
{
    pthread_mutex_lock(&reserved.lock);
    if (reserved.users > 0 && --reserved.users == 0)
        signal_restore();
    pthread_mutex_unlock(&reserved.lock);
}

/* Send the request. The caller must hold trace_lock. */
static bool trace_request(weft__cord *c, const weft__progress *progress)
{
    if (atomic_load(&c->watchdog.is_signal_pending) || !is_our_handler())
        return false;
    requested_progress = *progress;
    sent_to = c;
    atomic_store(&has_replied, false);
    atomic_store(&c->watchdog.is_signal_pending, true);
    atomic_store(&requested_cord, c);
    if (pthread_kill(c->watchdog.thread, reserved.number) == 0)
        return true;
    atomic_store(&requested_cord, NULL);
    atomic_store(&c->watchdog.is_signal_pending, false);
    return false;
}

bool weft__stall_trace_begin(weft__cord *c, const weft__progress *progress)
{
    pthread_mutex_lock(&trace_lock);
    bool is_sent = trace_request(c, progress);
    if (!is_sent)
        pthread_mutex_unlock(&trace_lock);
    return is_sent;
}

/* Wait for reply_sem. Return false on a timeout. */
static bool wait_for_post(int64_t until_ns)
{
    struct timespec until = weft__clock_spec(until_ns);
    return sem_clockwait(&reply_sem, CLOCK_MONOTONIC, &until) == 0 || errno == EINTR;
}

static bool wait_for_reply(int64_t until_ns, bool (*must_stop)(void))
{
    while (!atomic_load(&has_replied)) {
        bool is_over = must_stop != NULL && must_stop();
        if (!is_over && wait_for_post(until_ns))
            continue;
        weft__cord *expected = sent_to;
        if (atomic_compare_exchange_strong(&requested_cord, &expected, NULL))
            return false;
        sched_yield(); /* the handler is about to reply */
    }
    return true;
}

bool weft__stall_trace_end(int64_t timeout_ns, bool (*must_stop)(void), weft__stall_trace *out)
{
    bool is_known = wait_for_reply(weft__clock_ns() + timeout_ns, must_stop);
    if (is_known) {
        out->has_moved = reply.has_moved;
        out->count = reply.frames_count - reply.frames_first;
        memcpy(out->frames, reply.frames + reply.frames_first,
               (size_t)out->count * sizeof *out->frames);
    }
    pthread_mutex_unlock(&trace_lock);
    return is_known;
}

void weft__stall_trace_wake(void)
{
    sem_post(&reply_sem);
}
