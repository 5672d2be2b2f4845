/*
 * The watchdog: a thread that checks all cords several times per interval, and reports fibers that
 * do not switch.
 *
 * Switches do no extra work. The watchdog reads the counters that a switch updates anyway, without
 * synchronisation. Each counter is one word, and a stale value only delays the report. The stalled
 * thread takes its own backtrace in a signal handler (stall_trace.h).
 *
 * The watchdog counts checks instead of time. Therefore the watchdog reports no stall after the
 * process was stopped and continued.
 */
#include "backend/workers/foreign.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/thread.h"
#include "core/cord/registry.h"
#include "core/debug/blocking_call.h"
#include "core/debug/diag.h"
#include "core/debug/stall_trace.h"

#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

/* The watchdog of the process. Code that changes a field must hold the lock. */
static struct {
    pthread_mutex_t lock;
    bool is_prepared; /* watchdog_prepare was successful */
    bool is_on;
    pthread_t thread; /* valid if is_on */
    int signal;       /* the reserved signal; valid if is_on */
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic int64_t scan_interval_ns; /* time between two checks; 0: the watchdog must end */
static sem_t wake_sem;                   /* wakes the watchdog when scan_interval_ns has changed */

/* A stalled fiber. */
typedef struct stall {
    weft__cord *cord; /* may be freed, so only for comparison; NULL: no stall */
    weft__stalled_fiber fiber;
    char thread_name[16];
    int thread_id;
    double seconds;    /* time since the last progress */
    char call[32];     /* the system call in which the thread waits; "": none */
    bool is_requested; /* a backtrace was requested */
} stall;

static bool is_asleep(const weft__cord *c)
{
    return atomic_load_explicit(&c->is_asleep, memory_order_relaxed);
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
    c->watchdog.progress = weft__progress_of(c);
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
    weft__progress at = weft__progress_of(c);
    scan->cords++;
    /*
     * The thread of a cord may not have started yet. After a fork, cords of other threads have no
     * thread.
     */
    if (atomic_load(&c->watchdog.process) != scan->process || is_asleep(c) ||
        !weft__progress_is_same(&at, &c->watchdog.progress))
        watchdog_reset(c, &scan->now_ns);
    else
        c->watchdog.checks++;
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
    weft__stalled_fiber_read(c, &s->fiber);
    s->seconds = (double)(scan->now_ns - c->watchdog.since_ns) / 1e9;
    if (pthread_getname_np(c->watchdog.thread, s->thread_name, sizeof s->thread_name) != 0)
        s->thread_name[0] = '\0';
    s->thread_id = c->watchdog.thread_id;
    if (!weft__blocking_call(s->thread_id, s->call, sizeof s->call))
        s->call[0] = '\0';
    s->is_requested = weft__stall_trace_begin(c, &c->watchdog.progress);
}

static bool must_end(void)
{
    return atomic_load(&scan_interval_ns) == 0;
}

static void diag_stall(const stall *s)
{
    weft__stall_trace trace;
    bool is_known =
        s->is_requested && weft__stall_trace_end(WEFT__WATCHDOG_REPLY_NS, must_end, &trace);
    if (must_end() || (is_known && trace.has_moved))
        return;
    unsigned long long id = s->fiber.id;
    if (!is_known) {
        weft__diag(LOG_WARNING,
                   "fiber #%llu '%s' of thread '%s' has not switched for %.3f s; no backtrace, "
                   "because the thread did not handle signal %d",
                   id, s->fiber.name, s->thread_name, s->seconds, watchdog.signal);
        return;
    }
    weft__report r;
    bool is_blocked = s->call[0] != '\0';
    weft__report_begin(&r, LOG_WARNING,
                       "fiber #%llu '%s' of thread %d '%s' has not switched for %.3f s; %s%s; "
                       "backtrace:",
                       id, s->fiber.name, s->thread_id, s->thread_name, s->seconds,
                       is_blocked ? "it blocks its thread in the system call "
                                  : "it runs without a switch",
                       s->call);
    weft__report_frames(&r, trace.frames, trace.count);
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
    atomic_store(&scan_interval_ns, 0);
    sem_init(&wake_sem, 0, 0);
    weft__foreign_set_watchdog(false);
    watchdog.is_on = false;
    /* A thread that does not exist in the child may have held the lock. */
    watchdog.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Initialise the watchdog, once per process. */
static int watchdog_prepare(void)
{
    if (watchdog.is_prepared)
        return 0;
    int rc = pthread_atfork(NULL, NULL, watchdog_after_fork);
    if (rc != 0)
        return -rc;
    sem_init(&wake_sem, 0, 0);
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
        rc = weft__stall_signal_reserve();
    if (rc < 0)
        return rc;
    watchdog.signal = rc;
    atomic_store(&scan_interval_ns, between_ns);
    rc = weft__thread_create(&watchdog.thread, 0, watchdog_thread, NULL);
    if (rc < 0)
        weft__stall_signal_release();
    watchdog.is_on = rc == 0;
    return rc;
}

static void watchdog_stop(void)
{
    if (!watchdog.is_on)
        return;
    atomic_store(&scan_interval_ns, 0);
    sem_post(&wake_sem);
    weft__stall_trace_wake();
    pthread_join(watchdog.thread, NULL);
    weft__stall_signal_release();
    watchdog.is_on = false;
}

void weft__watchdog_install(void)
{
    static atomic_flag is_done = ATOMIC_FLAG_INIT;
    const char *text = getenv("WEFT_WATCHDOG");
    if (text == NULL || *text == '\0' || atomic_flag_test_and_set(&is_done))
        return;
    char *end;
    double seconds = strtod(text, &end);
    int rc = *end == '\0' && seconds >= 0 ? weft_watchdog(seconds) : -EINVAL;
    if (rc == -EINVAL)
        weft__diag(LOG_WARNING, "WEFT_WATCHDOG is ignored, because '%s' is not a number of seconds",
                   text);
    else if (rc < 0)
        weft__diag(LOG_WARNING, "WEFT_WATCHDOG is ignored: %s", weft__error_text(rc));
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
