/*
 * The watchdog: a thread that checks all cords several times per interval, and reports fibers that
 * do not switch.
 *
 * Switches do no extra work. The watchdog reads the counters that a switch updates anyway, without
 * synchronisation. Each counter is one word, and a stale value only delays the report. Only the
 * stalled thread can take its own backtrace. Therefore the watchdog sends a signal to the stalled
 * thread. If the thread is still stalled, the signal handler takes the backtrace.
 *
 * The watchdog counts checks instead of time. Therefore the watchdog reports no stall after the
 * process was stopped and continued.
 */
#include "arch/sanitizers.h"
#include "backend/workers/foreign.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/thread.h"
#include "core/cord/registry.h"
#include "core/debug/diag.h"

#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

/* The watchdog of the process. Code that changes a field must hold the lock. */
static struct {
    pthread_mutex_t lock;
    bool is_prepared; /* watchdog_prepare was successful */
    bool is_on;
    pthread_t thread;        /* valid if is_on */
    int signal;              /* the reserved signal; valid if is_on */
    struct sigaction before; /* the earlier disposition of signal */
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic int64_t scan_interval_ns; /* time between two checks; 0: the watchdog must end */
static sem_t wake_sem; /* wakes the watchdog when scan_interval_ns or has_replied has changed */

/*
 * The request for a backtrace, and the reply. There is at most one request at a time. The handler
 * and the watchdog compete to set requested_cord to NULL. If the handler wins, the handler replies.
 * If the watchdog wins, no reply will arrive.
 */
static _Atomic(weft__cord *) requested_cord;
static weft__progress requested_progress; /* progress of requested_cord when the request was sent */
static atomic_bool has_replied;           /* reply is complete */
static struct {
    bool has_moved; /* the cord has made progress, so there is no backtrace */
    int thread_id;
    int frames_first; /* index of the first frame that does not belong to the handler */
    int frames_count;
    void *frames[WEFT__WATCHDOG_FRAMES_MAX];
} reply;

/* A stalled fiber. */
typedef struct stall {
    weft__cord *cord; /* may be freed, so only for comparison; NULL: no stall */
    weft_fiber fiber;
    char name[WEFT__NAME_BYTES];
    char thread_name[16];
    double seconds;    /* time since the last progress */
    bool is_requested; /* a backtrace was requested */
} stall;

WEFT__UNSANITIZED static weft__progress progress_of(const weft__cord *c)
{
    return (weft__progress){
        .switches = __atomic_load_n(&c->switches, __ATOMIC_RELAXED),
        .polled_ns = __atomic_load_n(&c->polled_ns, __ATOMIC_RELAXED),
        .tick_left = __atomic_load_n(&c->tick_left, __ATOMIC_RELAXED),
    };
}

static bool progress_is_same(const weft__progress *a, const weft__progress *b)
{
    return a->switches == b->switches && a->tick_left == b->tick_left &&
           a->polled_ns == b->polled_ns;
}

static bool is_asleep(const weft__cord *c)
{
    return atomic_load_explicit(&c->is_asleep, memory_order_relaxed);
}

/*
 * Store the id and the name of the current fiber of a cord in s. The memory of the record remains
 * valid while the cord exists. If the cord switches during this function, the thread of the cord
 * replies with has_moved.
 */
WEFT__UNSANITIZED static void stall_find_fiber(const weft__cord *c, stall *s)
{
    const weft__fiber *f = __atomic_load_n(&c->current, __ATOMIC_RELAXED);
    s->fiber = __atomic_load_n(&f->id, __ATOMIC_RELAXED);
    for (size_t i = 0; i < sizeof s->name - 1; i++)
        s->name[i] = __atomic_load_n(&f->name[i], __ATOMIC_RELAXED);
    s->name[sizeof s->name - 1] = '\0';
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
static void on_watchdog_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    int saved = errno;
    weft__cord *c = weft__cord_self, *expected = c;
    if (c != NULL)
        atomic_store(&c->watchdog.is_signal_pending, false);
    if (c == NULL || !atomic_compare_exchange_strong(&requested_cord, &expected, NULL)) {
        errno = saved;
        return; /* the watchdog gave up, or another sender sent the signal */
    }
    weft__progress at = progress_of(c);
    reply.has_moved = !progress_is_same(&at, &requested_progress) || is_asleep(c);
    reply.thread_id = gettid();
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
    sem_post(&wake_sem);
    errno = saved;
}

static bool is_our_watchdog_handler(void)
{
    struct sigaction now;
    return sigaction(watchdog.signal, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_watchdog_signal;
}

/*
 * Reserve an unused real-time signal. Search downwards, because programs usually use the lowest
 * signals first.
 */
static int signal_reserve(void)
{
    struct sigaction ours = {.sa_sigaction = on_watchdog_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigfillset(&ours.sa_mask);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
        if (sigaction(number, NULL, &watchdog.before) < 0 ||
            (watchdog.before.sa_flags & SA_SIGINFO) || watchdog.before.sa_handler != SIG_DFL)
            continue;
        watchdog.signal = number;
        return sigaction(number, &ours, NULL) < 0 ? -errno : 0;
    }
    return -EBUSY;
}

/*
 * Restore the disposition of the signal. First ignore the signal, which discards pending instances
 * in threads that block the signal. With the default disposition, a pending instance would end the
 * process later.
 */
static void signal_release(void)
{
    if (!is_our_watchdog_handler())
        return; /* the program has replaced the handler */
    sigaction(watchdog.signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    sigaction(watchdog.signal, &watchdog.before, NULL);
}

/* Wait for wake_sem. Return false on a timeout. */
static bool wait_for_wake(int64_t until_ns)
{
    struct timespec until = weft__clock_spec(until_ns);
    return sem_clockwait(&wake_sem, CLOCK_MONOTONIC, &until) == 0 || errno == EINTR;
}

/* Restart the count of checks for a cord that is new or has made progress. */
static void watchdog_reset(weft__cord *c, void *now_ns)
{
    c->watchdog.progress = progress_of(c);
    c->watchdog.since_ns = *(int64_t *)now_ns;
    c->watchdog.checks = 0;
    c->watchdog.is_reported = false;
}

static void watchdog_reset_all(weft__cord *c, void *now_ns)
{
    watchdog_reset(c, now_ns);
    atomic_store(&c->watchdog.is_signal_pending, false);
}

/* One check of all cords. */
typedef struct watchdog_scan {
    int64_t now_ns;
    pid_t process;
    unsigned cords; /* number of cords */
    stall found;
} watchdog_scan;

static void scan_cord(weft__cord *c, void *arg)
{
    watchdog_scan *scan = arg;
    weft__progress at = progress_of(c);
    scan->cords++;
    /*
     * The thread of a cord may not have started yet. After a fork, cords of other threads have no
     * thread.
     */
    if (atomic_load(&c->watchdog.process) != scan->process || is_asleep(c) ||
        !progress_is_same(&at, &c->watchdog.progress))
        watchdog_reset(c, &scan->now_ns);
    else
        c->watchdog.checks++;
}

/*
 * Request a backtrace from a stalled thread. Return false if the signal cannot be sent or is still
 * pending.
 */
static bool backtrace_request(weft__cord *c)
{
    if (atomic_load(&c->watchdog.is_signal_pending) || !is_our_watchdog_handler())
        return false;
    requested_progress = c->watchdog.progress;
    atomic_store(&has_replied, false);
    atomic_store(&c->watchdog.is_signal_pending, true);
    atomic_store(&requested_cord, c);
    if (pthread_kill(c->watchdog.thread, watchdog.signal) == 0)
        return true;
    atomic_store(&requested_cord, NULL);
    atomic_store(&c->watchdog.is_signal_pending, false);
    return false;
}

/*
 * Find the first stalled cord, and request its backtrace. The next pass over all cords finds the
 * next stalled cord.
 */
static void scan_find_stall(weft__cord *c, void *arg)
{
    watchdog_scan *scan = arg;
    stall *s = &scan->found;
    if (s->cord != NULL || c->watchdog.is_reported || c->watchdog.checks < WEFT__WATCHDOG_CHECKS)
        return;
    c->watchdog.is_reported = true;
    s->cord = c;
    stall_find_fiber(c, s);
    s->seconds = (double)(scan->now_ns - c->watchdog.since_ns) / 1e9;
    if (pthread_getname_np(c->watchdog.thread, s->thread_name, sizeof s->thread_name) != 0)
        s->thread_name[0] = '\0';
    s->is_requested = backtrace_request(c);
}

/*
 * Wait for the reply. Return false if the thread does not reply in time, or if the watchdog must
 * end.
 */
static bool wait_for_reply(const stall *s)
{
    int64_t until_ns = weft__clock_ns() + WEFT__WATCHDOG_REPLY_NS;
    while (!atomic_load(&has_replied)) {
        if (atomic_load(&scan_interval_ns) != 0 && wait_for_wake(until_ns))
            continue;
        weft__cord *expected = s->cord;
        if (atomic_compare_exchange_strong(&requested_cord, &expected, NULL))
            return false;
        sched_yield(); /* the handler is about to reply */
    }
    return true;
}

static void diag_stall(const stall *s)
{
    bool is_known = s->is_requested && wait_for_reply(s);
    if (atomic_load(&scan_interval_ns) == 0 || (is_known && reply.has_moved))
        return;
    unsigned long long id = s->fiber;
    if (!is_known) {
        weft__diag(LOG_WARNING,
                   "fiber #%llu '%s' of thread '%s' has not switched for %.3f s; no backtrace, "
                   "because the thread did not handle signal %d",
                   id, s->name, s->thread_name, s->seconds, watchdog.signal);
        return;
    }
    weft__report r;
    weft__report_begin(&r, LOG_WARNING,
                       "fiber #%llu '%s' of thread %d '%s' has not switched for %.3f s; backtrace:",
                       id, s->name, reply.thread_id, s->thread_name, s->seconds);
    weft__report_frames(&r, reply.frames + reply.frames_first,
                        reply.frames_count - reply.frames_first);
    weft__report_end(&r);
}

/*
 * Return true if the watchdog is the last thread. The watchdog must then end, so that the process
 * can end. A thread without fibers also counts, because the thread can become a cord.
 */
static bool is_last_thread(void)
{
    weft__foreign_set_watchdog(false);
    bool is_last = !weft__foreign_threads_exist(1);
    if (!is_last)
        weft__foreign_set_watchdog(true);
    return is_last;
}

static void wait_for_next_scan(void)
{
    int64_t between_ns = atomic_load(&scan_interval_ns), until_ns = weft__clock_ns() + between_ns;
    while (atomic_load(&scan_interval_ns) == between_ns && wait_for_wake(until_ns))
        continue;
}

static void *watchdog_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "weft-watchdog");
    weft__foreign_set_watchdog(true);
    int64_t now_ns = weft__clock_ns();
    weft__registry_each(watchdog_reset_all, &now_ns);
    while (atomic_load(&scan_interval_ns) != 0) {
        wait_for_next_scan();
        watchdog_scan scan = {.now_ns = weft__clock_ns(), .process = getpid()};
        weft__registry_each(scan_cord, &scan);
        if (scan.cords == 0 && is_last_thread())
            return arg;
        do {
            scan.found = (stall){.cord = NULL};
            weft__registry_each(scan_find_stall, &scan);
            if (scan.found.cord != NULL)
                diag_stall(&scan.found);
        } while (scan.found.cord != NULL);
    }
    weft__foreign_set_watchdog(false);
    return arg;
}

/* Turn the watchdog off in a child of fork, where the thread of the watchdog does not exist. */
static void watchdog_after_fork(void)
{
    atomic_store(&requested_cord, NULL);
    atomic_store(&scan_interval_ns, 0);
    sem_init(&wake_sem, 0, 0);
    weft__foreign_set_watchdog(false);
    if (watchdog.is_on)
        signal_release();
    watchdog.is_on = false;
    /* A thread that does not exist in the child may have held the lock. */
    watchdog.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/*
 * Initialise the watchdog, once per process. The first backtrace loads a library, which a signal
 * handler must not do.
 */
static int watchdog_prepare(void)
{
    if (watchdog.is_prepared)
        return 0;
    int rc = pthread_atfork(NULL, NULL, watchdog_after_fork);
    if (rc != 0)
        return -rc;
    sem_init(&wake_sem, 0, 0);
    backtrace(&(void *){NULL}, 1);
    watchdog.is_prepared = true;
    return 0;
}

static int watchdog_start(int64_t between_ns)
{
    if (watchdog.is_on) {
        atomic_store(&scan_interval_ns, between_ns);
        sem_post(&wake_sem);
        return 0;
    }
    int rc = watchdog_prepare();
    if (rc == 0)
        rc = signal_reserve();
    if (rc < 0)
        return rc;
    atomic_store(&scan_interval_ns, between_ns);
    rc = weft__thread_create(&watchdog.thread, 0, watchdog_thread, NULL);
    if (rc < 0)
        signal_release();
    watchdog.is_on = rc == 0;
    return rc;
}

static void watchdog_stop(void)
{
    if (!watchdog.is_on)
        return;
    atomic_store(&scan_interval_ns, 0);
    sem_post(&wake_sem);
    pthread_join(watchdog.thread, NULL);
    signal_release();
    watchdog.is_on = false;
}

int weft_watchdog(double seconds)
{
    if (!(seconds >= 0))
        return weft_fail(-EINVAL, "weft_watchdog: s is %g", seconds);
    double between_ns = seconds * 1e9 / WEFT__WATCHDOG_CHECKS;
    if (between_ns < WEFT__WATCHDOG_CHECK_NS_MIN)
        between_ns = WEFT__WATCHDOG_CHECK_NS_MIN;
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    if (weft__cord_self != NULL)
        weft__watchdog_attach(&weft__cord_self->watchdog); /* the process id differs after a fork */
    /* If the thread were cancelled in this section, the lock would never be released. */
    int cancel_state, rc = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&watchdog.lock);
    if (seconds == 0 || between_ns >= 0x1p62) /* beyond the range of the clock */
        watchdog_stop();
    else
        rc = watchdog_start((int64_t)between_ns);
    pthread_mutex_unlock(&watchdog.lock);
    pthread_setcancelstate(cancel_state, NULL);
    return rc;
}
