/*
 * weft_shutdown_on_signals. The real signal handler handles the second signal and the end of the
 * grace time. So both work even while a fiber computes. A timer of the kernel sends a signal to the
 * main thread at the end of the grace time.
 */
#include "base/clock.h"
#include "base/text.h"
#include "core/cord/handle.h"
#include "core/lifetime/cancel.h"
#include "core/sched/sched.h"
#include "core/signal/shutdown.h"
#include "core/signal/signal.h"

#include <weft/shutdown.h>

#include <time.h>
#include <unistd.h>

/* Some C libraries do not define this name for the thread of SIGEV_THREAD_ID. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/*
 * A repetition of the first signal within this time is a duplicate, and is ignored. timeout(1)
 * sends its signal to the process and to the process group. A parent that forwards Ctrl-C also
 * causes a duplicate.
 */
#define DUPLICATE_NS (WEFT__NS_PER_S / 50)

static struct {
    pid_t owner; /* the process that created the timers; 0: none */
    /* Timers for SIGTERM and SIGINT. Each timer sends the signal that started it. */
    timer_t timers[2];
    struct itimerspec grace;  /* the time of the timers; all-zero: no limit */
    double grace_s;           /* the argument of weft_shutdown_on_signals */
    weft__cord *cord;         /* of the main thread */
    atomic_uint signals;      /* number of received signals */
    atomic_int first;         /* the first signal; 0: none, or not stored yet */
    _Atomic int64_t first_ns; /* when the first signal arrived */
    bool has_reported;        /* a fiber or a cord was reported; used only by exit_now */
} shutdown_state;

/*
 * exit_now and the functions that it calls run in the real signal handler. The handler may
 * interrupt the main thread at any point. Records exist until their cord is freed, and only the
 * interrupted main thread writes the records. So the handler may read the fields of a record, but
 * must not follow its pointers (live, parent, lists). waits_in is an exception, because it points
 * to a constant.
 */

static bool must_report_fiber(const weft__fiber *f)
{
    const weft__wait_kind *waits_in = f->waits_in;
    bool is_alive = f->phase == WEFT__FRESH || f->phase == WEFT__ALIVE;
    bool is_ending = f->phase == WEFT__ENDING && f->parent != NULL &&
                     !(waits_in != NULL && waits_in->is_for_children);
    return (is_alive || is_ending) && !f->is_daemon;
}

static void add_not_ended(weft__text *t)
{
    weft__text_add(t, " has not ended ");
    weft__text_add_number(t, (uint64_t)(shutdown_state.grace_s * 1000));
    weft__text_add(t, " ms after the signal");
}

static void report_fiber(const weft__fiber *f)
{
    weft__text t = {.count = 0};
    shutdown_state.has_reported = true;
    weft__text_add(&t, "weft: fiber #");
    weft__text_add_number(&t, f->id);
    weft__text_add(&t, " '");
    weft__text_add(&t, f->name);
    weft__text_add(&t, "'");
    add_not_ended(&t);
    if (f->waits_in != NULL) {
        weft__text_add(&t, "; it waits for ");
        weft__text_add(&t, f->waits_in->name);
    } else if (f == shutdown_state.cord->current) {
        weft__text_add(&t, "; it is running");
    }
    weft__text_add(&t, "\n");
    weft__text_write(&t, STDERR_FILENO);
}

static void report_cord(weft_cord id, const char *name)
{
    weft__text t = {.count = 0};
    shutdown_state.has_reported = true;
    weft__text_add(&t, "weft: thread #");
    weft__text_add_number(&t, id);
    weft__text_add(&t, " '");
    weft__text_add(&t, name);
    weft__text_add(&t, "' has not ended\n");
    weft__text_write(&t, STDERR_FILENO);
}

/*
 * Report the process. No fiber and no cord remains, so an exit handler or a destructor of the
 * program does not return.
 */
static void report_process(void)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: the process");
    add_not_ended(&t);
    weft__text_add(&t, "\n");
    weft__text_write(&t, STDERR_FILENO);
}

/* Report the remaining fibers and cords, and exit. Other threads may add records meanwhile. */
static void exit_now(void)
{
    const weft__cord *c = shutdown_state.cord;
    for (uint32_t slot = 0; weft__record_exists(c, slot); slot++)
        if (must_report_fiber(weft__record_at(c, slot)))
            report_fiber(weft__record_at(c, slot));
    weft__cord_handles_each_running(NULL, report_cord);
    if (!shutdown_state.has_reported)
        report_process();
    _exit(1);
}

static bool is_duplicate(int sig)
{
    int first = atomic_load(&shutdown_state.first); /* 0: another thread has not stored it yet */
    return first == 0 || (first == sig &&
                          weft__clock_ns() - atomic_load(&shutdown_state.first_ns) < DUPLICATE_NS);
}

/*
 * Handle a signal in the real signal handler, in any thread. Return false for the first signal,
 * which begin_shutdown handles.
 */
static bool escalate(int sig, const siginfo_t *info)
{
    if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &shutdown_state)
        exit_now();
    if (atomic_fetch_add(&shutdown_state.signals, 1) == 0) {
        atomic_store(&shutdown_state.first_ns, weft__clock_ns());
        atomic_store(&shutdown_state.first, sig);
        timer_settime(shutdown_state.timers[sig == SIGINT], 0, &shutdown_state.grace, NULL);
        return false;
    }
    if (is_duplicate(sig))
        return true;
    struct sigaction default_action = {.sa_handler = SIG_DFL};
    sigaction(sig, &default_action, NULL);
    kill(getpid(), sig); /* the signal is blocked until this handler returns */
    return true;
}

/* End the listeners, then end main. A daemon fiber runs this function. */
static weft_value stop_main(void *arg)
{
    weft__cord *c = arg;
    weft__shutdown_listeners(c, c->main->live->grace_ns);
    if (c->closer == NULL)
        weft__fiber_stop(c, c->main, -ECANCELED, WEFT__EXIT_REQUESTED);
    return 0;
}

/*
 * Handle the first signal, in the main thread. If the process is already ending, only the grace
 * time applies.
 */
static void begin_shutdown(weft__cord *c, const weft__signal_handler *handler, unsigned times)
{
    (void)handler, (void)times;
    if (c->closer != NULL)
        return;
    c->main->live->grace_ns =
        shutdown_state.grace_s > 0 ? weft__deadline(c, shutdown_state.grace_s) : 0;
    const weft_spin_options options = {
        .name = "shutdown", .parent = c->main->id, .is_daemon = true};
    /* After weft_shutdown_all, new children of main never run, and no listener is left. */
    if (c->main->is_closing || weft_spin_with(stop_main, c, &options) == 0)
        weft__fiber_stop(c, c->main, -ECANCELED, WEFT__EXIT_REQUESTED);
}

static int create_timer(int sig, timer_t *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = sig,
                             .sigev_value.sival_ptr = &shutdown_state};
    event.sigev_notify_thread_id = getpid(); /* the main thread */
    return timer_create(CLOCK_MONOTONIC, &event, timer) < 0 ? -errno : 0;
}

/* Create a timer for each signal, because the program may handle one of the signals itself. */
static int create_timers(void)
{
    if (shutdown_state.owner == getpid())
        return 0;
    int rc = create_timer(SIGTERM, &shutdown_state.timers[0]);
    if (rc < 0)
        return rc;
    rc = create_timer(SIGINT, &shutdown_state.timers[1]);
    if (rc < 0) {
        timer_delete(shutdown_state.timers[0]);
        return rc;
    }
    shutdown_state.owner = getpid();
    atomic_store(&shutdown_state.signals, 0);
    atomic_store(&shutdown_state.first, 0);
    return 0;
}

static struct itimerspec itimerspec_of(double seconds)
{
    int64_t ns = seconds > 0 ? weft__whole_ns(seconds * 1e9) : 1; /* 0 would disarm the timer */
    return (struct itimerspec){.it_value = weft__clock_spec(seconds > 1e9 ? 0 : ns)};
}

int weft_shutdown_on_signals(double grace_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "weft_shutdown_on_signals: grace_s is %g", grace_s);
    if (gettid() != getpid())
        return weft_fail(-EPERM, "weft_shutdown_on_signals: the caller is not in the main thread");
    int rc = create_timers();
    if (rc < 0)
        return rc;
    shutdown_state.grace_s = grace_s;
    shutdown_state.grace = itimerspec_of(grace_s);
    shutdown_state.cord = c;
    weft__signal_handler handler = {.act = begin_shutdown, .sig = SIGTERM, .in_handler = escalate};
    rc = weft__signal_set_handler(&handler);
    handler.sig = SIGINT;
    return rc == 0 ? weft__signal_set_handler(&handler) : rc;
}
