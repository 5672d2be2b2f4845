/*
 * The watchdog: one thread that looks at all cords a few times in the time allowed, and reports a
 * fiber that is still where it was.
 *
 * It looks from outside, and a switch does nothing for it: the counters that a switch changes
 * anyway are read without their owner's help. A whole word is read at once, and one that is a
 * little old only delays the report. Where the fiber is, only its own thread can find out: it is
 * sent a signal, whose handler takes the backtrace, unless the thread has moved on.
 *
 * Looks are counted, not time: a process that was stopped and goes on has no stall to report.
 */
#include "arch/annotate.h"
#include "backend/threads.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/thread.h"
#include "core/port.h"
#include "core/report.h"

#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

/* Who turns it on and off, and in what it results. */
static struct {
    pthread_mutex_t lock;
    bool is_prepared; /* what is done once has been */
    bool is_on;
    pthread_t thread;
    int signal;
    struct sigaction before; /* its disposition before ours */
} dog = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic int64_t look_ns; /* between two looks; 0: the thread is to end */
static sem_t bell;              /* for the thread: look_ns has changed, or is_answered */

/* The question to one thread at a time, and its answer. Whoever sets asked to NULL has it. */
static _Atomic(weft__cord *) asked;
static weft__progress asked_at;
static atomic_bool is_answered;
static struct {
    bool has_moved; /* it is not where it was; the rest is meaningless */
    int thread_id;
    int frames_first; /* before it are the handler's own */
    int frames_count;
    void *frames[WEFT__WATCHDOG_FRAMES_MAX];
} answer;

/* A fiber that does not switch. */
typedef struct stall {
    weft__cord *cord; /* only to be compared: it may be gone; NULL: there is none */
    weft_fiber fiber;
    char name[WEFT__NAME_BYTES];
    char thread_name[16];
    double seconds;
    bool is_asked;
} stall;

WEFT__UNSANITIZED static weft__progress progress_of(const weft__cord *c)
{
    return (weft__progress){
        .switches = __atomic_load_n(&c->switches, __ATOMIC_RELAXED),
        .polled_ns = __atomic_load_n(&c->polled_ns, __ATOMIC_RELAXED),
        .turn_left = __atomic_load_n(&c->turn_left, __ATOMIC_RELAXED),
    };
}

static bool is_same(const weft__progress *a, const weft__progress *b)
{
    return a->switches == b->switches && a->turn_left == b->turn_left &&
           a->polled_ns == b->polled_ns;
}

static bool is_asleep(const weft__cord *c)
{
    return atomic_load_explicit(&c->is_asleep, memory_order_relaxed);
}

/*
 * Which fiber runs there. Records are never freed while their cord is there; if the fiber is not
 * the one any more, the thread will not confirm it.
 */
WEFT__UNSANITIZED static void find_fiber(const weft__cord *c, stall *s)
{
    const weft__fiber *f = __atomic_load_n(&c->current, __ATOMIC_RELAXED);
    s->fiber = __atomic_load_n(&f->id, __ATOMIC_RELAXED);
    for (size_t i = 0; i < sizeof s->name - 1; i++)
        s->name[i] = __atomic_load_n(&f->name[i], __ATOMIC_RELAXED);
    s->name[sizeof s->name - 1] = '\0';
}

/* In a signal handler: is there room for an unwinder? On the stack for handlers there is. */
static bool has_room(const weft__fiber *f, const char *here)
{
    size_t above = (uintptr_t)here - (uintptr_t)f->stack.low;
    return f->stack.low == NULL || above >= f->stack.bytes || above >= WEFT__CALL_BYTES;
}

/* The handler: on the thread that is asked, in the middle of anything. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    int saved = errno;
    weft__cord *c = weft__cord_self, *expected = c;
    if (c != NULL)
        atomic_store(&c->watched.is_asked, false);
    if (c == NULL || !atomic_compare_exchange_strong(&asked, &expected, NULL)) {
        errno = saved;
        return; /* too late, or not from us */
    }
    weft__progress at = progress_of(c);
    answer.has_moved = !is_same(&at, &asked_at) || is_asleep(c);
    answer.thread_id = gettid();
    answer.frames_first = answer.frames_count = 0;
    if (!answer.has_moved && has_room(c->current, __builtin_frame_address(0)))
        answer.frames_count = backtrace(answer.frames, WEFT__WATCHDOG_FRAMES_MAX);
    /* It returns to the kernel's trampoline: what was interrupted comes after that. */
    for (int i = 0; i < answer.frames_count; i++)
        if (answer.frames[i] == __builtin_return_address(0))
            answer.frames_first = i + 1;
    atomic_store(&is_answered, true);
    sem_post(&bell);
    errno = saved;
}

static bool is_ours(void)
{
    struct sigaction now;
    return sigaction(dog.signal, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_signal;
}

/* A real-time signal that the program does not use, from above: programs begin below. */
static int claim_signal(void)
{
    struct sigaction ours = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigfillset(&ours.sa_mask);
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
        if (sigaction(number, NULL, &dog.before) < 0 || (dog.before.sa_flags & SA_SIGINFO) ||
            dog.before.sa_handler != SIG_DFL)
            continue;
        dog.signal = number;
        return sigaction(number, &ours, NULL) < 0 ? -errno : 0;
    }
    return -EBUSY;
}

/*
 * To ignore it first drops what is still pending for threads that block it: with its default it
 * would end the process later.
 */
static void release_signal(void)
{
    if (!is_ours())
        return; /* the program has taken it over */
    sigaction(dog.signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    sigaction(dog.signal, &dog.before, NULL);
}

/* Wait for the bell; false: it is time. */
static bool wait_for_bell(int64_t until_ns)
{
    struct timespec until = weft__clock_spec(until_ns);
    return sem_clockwait(&bell, CLOCK_MONOTONIC, &until) == 0 || errno == EINTR;
}

/* A cord has moved on, or is new: begin to count again. */
static void forget(weft__cord *c, void *now_ns)
{
    c->watched.at = progress_of(c);
    c->watched.since_ns = *(int64_t *)now_ns;
    c->watched.looks = 0;
    c->watched.is_reported = false;
}

static void forget_all_of(weft__cord *c, void *now_ns)
{
    forget(c, now_ns);
    atomic_store(&c->watched.is_asked, false);
}

/* What one look at all cords needs. */
typedef struct look {
    int64_t now_ns;
    pid_t process;
    unsigned cords;
    stall found;
} look;

static void look_at(weft__cord *c, void *arg)
{
    look *l = arg;
    weft__progress at = progress_of(c);
    l->cords++;
    /* A cord may wait for its thread to start; a fork leaves cords behind that have lost theirs. */
    if (atomic_load(&c->watched.process) != l->process || is_asleep(c) ||
        !is_same(&at, &c->watched.at))
        forget(c, &l->now_ns);
    else
        c->watched.looks++;
}

/* Have the thread say where it is; it can be sent nothing more while it has not read the last. */
static bool ask(weft__cord *c)
{
    if (atomic_load(&c->watched.is_asked) || !is_ours())
        return false;
    asked_at = c->watched.at;
    atomic_store(&is_answered, false);
    atomic_store(&c->watched.is_asked, true);
    atomic_store(&asked, c);
    if (pthread_kill(c->watched.thread, dog.signal) == 0)
        return true;
    atomic_store(&asked, NULL);
    atomic_store(&c->watched.is_asked, false);
    return false;
}

/* One at a time is asked; the others are found when that one is dealt with. */
static void find_stalled(weft__cord *c, void *arg)
{
    look *l = arg;
    stall *s = &l->found;
    if (s->cord != NULL || c->watched.is_reported || c->watched.looks < WEFT__WATCHDOG_LOOKS)
        return;
    c->watched.is_reported = true;
    s->cord = c;
    find_fiber(c, s);
    s->seconds = (double)(l->now_ns - c->watched.since_ns) / 1e9;
    if (pthread_getname_np(c->watched.thread, s->thread_name, sizeof s->thread_name) != 0)
        s->thread_name[0] = '\0';
    s->is_asked = ask(c);
}

/* False: there is none, because the thread blocks the signal, or the watchdog is to end. */
static bool wait_for_answer(const stall *s)
{
    int64_t until_ns = weft__clock_ns() + WEFT__WATCHDOG_ANSWER_NS;
    while (!atomic_load(&is_answered)) {
        if (atomic_load(&look_ns) != 0 && wait_for_bell(until_ns))
            continue;
        weft__cord *expected = s->cord;
        if (atomic_compare_exchange_strong(&asked, &expected, NULL))
            return false;
        sched_yield(); /* it is about to answer */
    }
    return true;
}

static void report(const stall *s)
{
    bool is_known = s->is_asked && wait_for_answer(s);
    if (atomic_load(&look_ns) == 0 || (is_known && answer.has_moved))
        return;
    unsigned long long id = s->fiber;
    if (!is_known) {
        weft__report("fiber #%llu '%s' of thread '%s' has not switched for %.3f s; no backtrace: "
                     "the thread does not take signal %d",
                     id, s->name, s->thread_name, s->seconds, dog.signal);
        return;
    }
    weft__report("fiber #%llu '%s' of thread %d '%s' has not switched for %.3f s; it is at", id,
                 s->name, answer.thread_id, s->thread_name, s->seconds);
    backtrace_symbols_fd(answer.frames + answer.frames_first,
                         answer.frames_count - answer.frames_first, STDERR_FILENO);
}

/* With no cord left and nobody who could become one, it is not to keep the process alive. */
static bool is_last_thread(void)
{
    weft__threads_set_watchdog(false);
    bool is_last = !weft__threads_are_others(1);
    if (!is_last)
        weft__threads_set_watchdog(true);
    return is_last;
}

static void nap(void)
{
    int64_t between_ns = atomic_load(&look_ns), until_ns = weft__clock_ns() + between_ns;
    while (atomic_load(&look_ns) == between_ns && wait_for_bell(until_ns))
        continue;
}

static void *run(void *arg)
{
    pthread_setname_np(pthread_self(), "weft-watchdog");
    weft__threads_set_watchdog(true);
    int64_t now_ns = weft__clock_ns();
    weft__port_each(forget_all_of, &now_ns);
    while (atomic_load(&look_ns) != 0) {
        nap();
        look l = {.now_ns = weft__clock_ns(), .process = getpid()};
        weft__port_each(look_at, &l);
        if (l.cords == 0 && is_last_thread())
            return arg;
        do {
            l.found = (stall){.cord = NULL};
            weft__port_each(find_stalled, &l);
            if (l.found.cord != NULL)
                report(&l.found);
        } while (l.found.cord != NULL);
    }
    weft__threads_set_watchdog(false);
    return arg;
}

/* The child does not have the thread, and is to have no handler that it has not asked for. */
static void after_fork_in_child(void)
{
    atomic_store(&asked, NULL);
    atomic_store(&look_ns, 0);
    sem_init(&bell, 0, 0);
    weft__threads_set_watchdog(false);
    if (dog.is_on)
        release_signal();
    dog.is_on = false;
    dog.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it */
}

/* Once in a process. The first backtrace loads a library, which a handler could not. */
static int prepare(void)
{
    if (dog.is_prepared)
        return 0;
    int rc = pthread_atfork(NULL, NULL, after_fork_in_child);
    if (rc != 0)
        return -rc;
    sem_init(&bell, 0, 0);
    backtrace(&(void *){NULL}, 1);
    dog.is_prepared = true;
    return 0;
}

static int turn_on(int64_t between_ns)
{
    if (dog.is_on) {
        atomic_store(&look_ns, between_ns);
        sem_post(&bell);
        return 0;
    }
    int rc = prepare();
    if (rc == 0)
        rc = claim_signal();
    if (rc < 0)
        return rc;
    atomic_store(&look_ns, between_ns);
    rc = weft__thread_make(&dog.thread, 0, run, NULL);
    if (rc < 0)
        release_signal();
    dog.is_on = rc == 0;
    return rc;
}

static void turn_off(void)
{
    if (!dog.is_on)
        return;
    atomic_store(&look_ns, 0);
    sem_post(&bell);
    pthread_join(dog.thread, NULL);
    release_signal();
    dog.is_on = false;
}

int weft_watchdog(double seconds)
{
    if (!(seconds >= 0))
        return weft_fail(-EINVAL, "a watchdog of %g s", seconds);
    double between_ns = seconds * 1e9 / WEFT__WATCHDOG_LOOKS;
    if (between_ns < WEFT__WATCHDOG_LOOK_NS_MIN)
        between_ns = WEFT__WATCHDOG_LOOK_NS_MIN;
    if (weft__is_refused(weft__cord_self))
        return weft__no_cord();
    if (weft__cord_self != NULL)
        weft__watched_open(&weft__cord_self->watched); /* after a fork it is another process */
    int cancel_state, rc = 0;                          /* nobody would release the lock */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&dog.lock);
    if (seconds == 0 || between_ns >= 0x1p62) /* beyond the clock */
        turn_off();
    else
        rc = turn_on((int64_t)between_ns);
    pthread_mutex_unlock(&dog.lock);
    pthread_setcancelstate(cancel_state, NULL);
    return rc;
}
