/*
 * weft_shutdown_on_signals. What has to happen in any case happens in the signals' handler: the
 * second one, and the end of the grace time, which a timer of the kernel's tells the main thread by
 * a signal. So both work while a fiber computes.
 */
#include "base/clock.h"
#include "base/text.h"
#include "core/alarm.h"
#include "core/sched.h"
#include "core/tenure.h"
#include "io/shutdown.h"
#include "io/signal.h"

#include <weft/shutdown.h>

#include <time.h>
#include <unistd.h>

/* Where the C library has no name for it: whom SIGEV_THREAD_ID tells. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/*
 * The same signal again within this time is the first one's echo: timeout(1) sends it to the
 * process and to its group, as does who passes on a ctrl-C that the terminal has sent to all.
 */
#define ECHO_NS (WEFT__NS_PER_S / 50)

static struct {
    pid_t owner;             /* the process whose timers they are; 0: there is none */
    timer_t timers[2];       /* of SIGTERM and SIGINT: each strikes by the signal that has set it */
    struct itimerspec grace; /* all-zero: no limit */
    double grace_s;
    weft__cord *cord;
    atomic_uint signals; /* that came */
    atomic_int first;    /* which it was */
    _Atomic int64_t first_ns;
} orders;

/*
 * The rest is called in a handler, in the main thread, whatever that is doing. Records stay where
 * they are as long as their cord, and the main thread, which writes them, is stopped. So the fields
 * of a record can be read at any time; what they point to (its life, its parent, lists) cannot,
 * except a kind of wait, which is constant.
 */

static bool is_left(const weft__fiber *f)
{
    const weft__wait_kind *waits_in = f->waits_in;
    bool is_alive = f->phase == WEFT__FRESH || f->phase == WEFT__ALIVE;
    bool is_ending = f->phase == WEFT__ENDING && f->parent != NULL &&
                     !(waits_in != NULL && waits_in->is_for_below);
    return (is_alive || is_ending) && !f->is_daemon;
}

static void name(const weft__fiber *f)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: fiber #");
    weft__text_add_number(&t, f->id);
    weft__text_add(&t, " '");
    weft__text_add(&t, f->name);
    weft__text_add(&t, "' has not ended ");
    weft__text_add_number(&t, (uint64_t)(orders.grace_s * 1000));
    weft__text_add(&t, " ms after the signal");
    if (f->waits_in != NULL) {
        weft__text_add(&t, "; it waits for ");
        weft__text_add(&t, f->waits_in->name);
    } else if (f == orders.cord->current) {
        weft__text_add(&t, "; it runs");
    }
    weft__text_add(&t, "\n");
    weft__text_write(&t, STDERR_FILENO);
}

static void name_thread(weft_cord id, const char *called)
{
    weft__text t = {.count = 0};
    weft__text_add(&t, "weft: thread #");
    weft__text_add_number(&t, id);
    weft__text_add(&t, " '");
    weft__text_add(&t, called);
    weft__text_add(&t, "' has not ended\n");
    weft__text_write(&t, STDERR_FILENO);
}

/* Other threads may add records meanwhile: the count is the last that they write. */
static void end_now(void)
{
    const weft__cord *c = orders.cord;
    for (uint32_t slot = 0; weft__cord_has_slot(c, slot); slot++)
        if (is_left(weft__cord_at(c, slot)))
            name(weft__cord_at(c, slot));
    weft__tenures_name_left(NULL, name_thread);
    _exit(1);
}

static bool is_echo(int sig)
{
    int first = atomic_load(&orders.first); /* 0: another thread is about to say */
    return first == 0 ||
           (first == sig && weft__clock_ns() - atomic_load(&orders.first_ns) < ECHO_NS);
}

static bool escalate(int sig, const siginfo_t *info)
{
    if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &orders)
        end_now();
    if (atomic_fetch_add(&orders.signals, 1) == 0) {
        atomic_store(&orders.first_ns, weft__clock_ns());
        atomic_store(&orders.first, sig);
        timer_settime(orders.timers[sig == SIGINT], 0, &orders.grace, NULL);
        return false;
    }
    if (is_echo(sig))
        return true;
    struct sigaction end = {.sa_handler = SIG_DFL};
    sigaction(sig, &end, NULL);
    kill(getpid(), sig); /* blocked until the handler has returned */
    return true;
}

/* A daemon: the doors first, then main. */
static weft_value end_main(void *arg)
{
    weft__cord *c = arg;
    weft__shutdown_doors(c, c->main->life->grace_ns);
    if (c->closer == NULL)
        weft__fiber_end(c, c->main, -ECANCELED, WEFT__END_AS_TOLD);
    return 0;
}

/* The first signal, in the main thread. If the process is ending already, only the time counts. */
static void begin_end(weft__cord *c, const weft__signal_order *order, unsigned times)
{
    (void)order, (void)times;
    if (c->closer != NULL)
        return;
    c->main->life->grace_ns = orders.grace_s > 0 ? weft__deadline(c, orders.grace_s) : 0;
    const weft_spin_options options = {
        .name = "shutdown", .parent = c->main->id, .is_daemon = true};
    /* After weft_shutdown_all no fiber of main's runs, and there is no door to close either. */
    if (c->main->is_closing || weft_spin_with(end_main, c, &options) == 0)
        weft__fiber_end(c, c->main, -ECANCELED, WEFT__END_AS_TOLD);
}

static int make_timer(int sig, timer_t *timer)
{
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig, .sigev_value.sival_ptr = &orders};
    event.sigev_notify_thread_id = getpid(); /* the main thread */
    return timer_create(CLOCK_MONOTONIC, &event, timer) < 0 ? -errno : 0;
}

/* The program may have one of the signals to itself: so there is a timer for each. */
static int make_timers(void)
{
    if (orders.owner == getpid())
        return 0;
    int rc = make_timer(SIGTERM, &orders.timers[0]);
    if (rc < 0)
        return rc;
    rc = make_timer(SIGINT, &orders.timers[1]);
    if (rc < 0) {
        timer_delete(orders.timers[0]);
        return rc;
    }
    orders.owner = getpid();
    atomic_store(&orders.signals, 0);
    atomic_store(&orders.first, 0);
    return 0;
}

static struct itimerspec time_of(double seconds)
{
    int64_t ns = seconds > 0 ? weft__whole_ns(seconds * 1e9) : 1; /* at once; 0 would be never */
    return (struct itimerspec){.it_value = weft__clock_spec(seconds > 1e9 ? 0 : ns)};
}

int weft_shutdown_on_signals(double grace_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "a grace time of %g s", grace_s);
    if (gettid() != getpid())
        return weft_fail(-EPERM, "the end of the program is the main thread's to order");
    int rc = make_timers();
    if (rc < 0)
        return rc;
    orders.grace_s = grace_s;
    orders.grace = time_of(grace_s);
    orders.cord = c;
    weft__signal_order order = {.act = begin_end, .sig = SIGTERM, .at_once = escalate};
    rc = weft__signal_handle(&order);
    order.sig = SIGINT;
    return rc == 0 ? weft__signal_handle(&order) : rc;
}
