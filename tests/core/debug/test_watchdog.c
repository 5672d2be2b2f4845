/*
 * Tests of the watchdog: the fibers that it reports, the contents and the number of reports, and
 * its absence unless started. The tests read reports from a pipe that replaces stderr.
 */
#include "support/cases.h"
#include "support/cord_support.h"

#include "core/cord/fork_support.h"
#include "support/suite.h"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>

/* A limit for intended stalls, and a limit that other fibers never exceed. */
#define SOON_S 0.02
#define SAFE_S 0.5
#define NEVER_S 3600

static int reports[2]; /* a pipe */
static char stderr_text[65536];
static size_t stderr_bytes;

static void catch_reports(void)
{
    ck_assert_int_eq(pipe(reports), 0);
    ck_assert_int_eq(dup2(reports[1], STDERR_FILENO), STDERR_FILENO);
}

static void watch(double seconds)
{
    ck_assert_int_eq(weft_watchdog(seconds), 0);
}

static void stop_watching(void)
{
    watch(0);
}

FIXTURE(catch_reports, stop_watching)

/* Read more of the reports. Blocks the thread until there is some text. */
static void read_reports(void)
{
    ssize_t n;
    do {
        n = read(reports[0], stderr_text + stderr_bytes, sizeof stderr_text - 1 - stderr_bytes);
    } while (n < 0 && errno == EINTR);
    ck_assert_int_gt(n, 0);
    stderr_bytes += (size_t)n;
    stderr_text[stderr_bytes] = '\0';
}

/* Block the thread until text was reported this many times. */
static void block_until_reported(const char *text, size_t times)
{
    while (count_in(stderr_text, text) < times)
        read_reports();
}

/* Compute without a switch until text was reported. */
static __attribute__((noinline)) int compute_until_reported(const char *text)
{
    int rounds = 0;
    for (; strstr(stderr_text, text) == NULL; rounds++) {
        struct pollfd p = {.fd = reports[0], .events = POLLIN};
        if (poll(&p, 1, 0) > 0)
            read_reports();
    }
    return rounds;
}

/* A part of the backtrace of be_busy. */
#ifdef WEFT_HAS_BACKTRACE
static const char frame[] = " call_busy at ";
#else
static const char frame[] = "backtrace:"; /* no frame follows */
#endif

static __attribute__((noinline)) weft_value be_busy(void *arg)
{
    int rounds = compute_until_reported(frame);
    __asm__ volatile("" : "+r"(rounds)); /* prevents a tail call */
    return rounds > 0 ? 0 : 1;
}

static __attribute__((noinline)) weft_value call_busy(void *arg)
{
    weft_value rc = be_busy(arg);
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

TEST(a_busy_fiber_is_reported_with_its_name_and_a_backtrace)
{
    watch(SOON_S);
    weft_fiber f = spin_named(call_busy, NULL, "busy one");
    ck_assert_int_eq(weft_await(f), 0);
    char text[128];
    snprintf(text, sizeof text, "weft: fiber #%llu 'busy one' of thread %d '",
             (unsigned long long)f, gettid());
    ck_assert_has(stderr_text, text, "has not switched for 0.");
}

TEST(a_busy_main_fiber_is_reported_too)
{
    weft_self();
    watch(SOON_S);
    ck_assert_int_eq(call_busy(NULL), 0);
    ck_assert_has(stderr_text, "'main' of thread");
}

static atomic_bool is_logged;
static pid_t log_thread;
static char log_text[4096];

static void note_report(int level, const char *text, void *arg)
{
    if (atomic_load(&is_logged))
        return;
    log_thread = gettid();
    snprintf(log_text, sizeof log_text, "%s", text);
    atomic_store(&is_logged, true);
}

TEST(a_report_goes_to_the_log_function_as_one_text_from_another_thread)
{
    weft_self();
    weft_set_log(note_report, NULL);
    watch(SOON_S);
    while (!atomic_load(&is_logged))
        gettid(); /* TSan runs signal handlers in calls */
    watch(0);
    ck_assert_int_ne(log_thread, gettid());
    ck_assert_int_eq(strncmp(log_text, "fiber #", 7), 0);
    ck_assert_has(log_text, "has not switched for 0.");
    ck_assert_int_ne(log_text[strlen(log_text) - 1], '\n');
}

/* A thread with a fiber that blocks it until the test resumes it. */
typedef struct blocker {
    pthread_t thread;
    const char *name;
    pid_t id;
    sem_t resume;
    unsigned stalls; /* number of stalls, one after the other */
} blocker;

static weft_value block(void *arg)
{
    blocker *b = arg;
    for (unsigned i = 0; i < b->stalls; i++) {
        while (sem_wait(&b->resume) != 0)
            continue;
        weft_snooze();
    }
    return 0;
}

static void *run_blocker(void *arg)
{
    blocker *b = arg;
    pthread_setname_np(pthread_self(), b->name);
    b->id = gettid();
    return as_arg(weft_await(spin_named(block, b, b->name)));
}

static void start_blocker(blocker *b, const char *name, unsigned stalls)
{
    *b = (blocker){.name = name, .stalls = stalls};
    ck_assert_int_eq(sem_init(&b->resume, 0, 0), 0);
    b->thread = start_thread(run_blocker, b);
}

/* Wait for the report of each stall, then end the stall. */
static void end_stalls_when_reported(blocker *b)
{
    char text[32];
    snprintf(text, sizeof text, "'%s' of", b->name);
    for (size_t i = 1; i <= b->stalls; i++) {
        block_until_reported(text, i);
        sem_post(&b->resume);
    }
    ck_assert_ptr_null(join_thread(b->thread));
    ck_assert_uint_eq(count_in(stderr_text, text), b->stalls);
}

TEST(fibers_that_block_other_threads_at_the_same_time_are_all_reported_with_their_threads)
{
    watch(SOON_S);
    blocker b[3];
    for (size_t i = 0; i < COUNT_OF(b); i++)
        start_blocker(&b[i], (const char *[]){"one", "two", "far away"}[i], 1);
    block_until_reported("has not switched", COUNT_OF(b));
    for (size_t i = 0; i < COUNT_OF(b); i++)
        end_stalls_when_reported(&b[i]);
    watch(0);
    for (size_t i = 0; i < COUNT_OF(b); i++) {
        char text[128];
        snprintf(text, sizeof text, "'%s' of thread %d '%s' has not switched for ", b[i].name,
                 b[i].id, b[i].name);
        ck_assert_has(stderr_text, text);
    }
}

/* The second stall of the other thread proves that there was time to report this thread twice. */
TEST(each_stall_is_reported_once)
{
    weft_self();
    watch(SOON_S);
    blocker b;
    start_blocker(&b, "other", 2);
    compute_until_reported("'main' of");
    end_stalls_when_reported(&b);
    ck_assert_uint_eq(count_in(stderr_text, "'main' of"), 1);
    weft_snooze();
    block_until_reported("'main' of", 2);
}

static atomic_bool is_over;
static atomic_int running;
static _Atomic weft_fiber waiting;

static weft_value snooze_until_over(void *arg)
{
    while (!atomic_load(&is_over))
        weft_snooze();
    return 0;
}

static void *snooze_in_two_fibers(void *arg)
{
    weft_fiber f = weft_spin(snooze_until_over, NULL);
    atomic_fetch_add(&running, 1);
    snooze_until_over(NULL);
    return as_arg(weft_await(f));
}

static void *snooze_with_accounting(void *arg)
{
    weft_account(true);
    atomic_fetch_add(&running, 1);
    return as_arg(snooze_until_over(NULL));
}

FIBER(sleep_for_an_hour, weft_sleep(3600))

/* Wait in one poll. On sim the time passes at once. */
static void *wait_in_the_backend(void *arg)
{
    weft_fiber f = weft_spin(sleep_for_an_hour, NULL);
    atomic_store(&waiting, weft_self());
    atomic_fetch_add(&running, 1);
    weft_value rc = weft_suspend();
    weft_stop(f, 0);
    return as_arg(rc + weft_await(f));
}

/* The thread of the test is not a cord. The stalls prove that there was time for a report. */
TEST(fibers_that_snooze_and_threads_that_wait_in_their_backend_are_not_reported)
{
    static void *(*const programs[])(void *) = {snooze_in_two_fibers, snooze_with_accounting,
                                                wait_in_the_backend};
    pthread_t threads[COUNT_OF(programs)];
    watch(SAFE_S);
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        threads[i] = start_thread(programs[i], NULL);
    while (atomic_load(&running) < (int)COUNT_OF(programs))
        sched_yield();
    blocker b;
    start_blocker(&b, "stalled", 2);
    end_stalls_when_reported(&b);
    atomic_store(&is_over, true);
    ck_assert_int_eq(weft_schedule(atomic_load(&waiting), 0), 0);
    for (size_t i = 0; i < COUNT_OF(programs); i++)
        ck_assert_ptr_null(join_thread(threads[i]));
    ck_assert_uint_eq(count_in(stderr_text, "has not switched"), 2);
}

/* The thread and the signal of the watchdog. */

static bool has_watchdog_thread(void)
{
    DIR *directory = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(directory);
    bool is_there = false;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char path[300], name[16] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, name, sizeof name) > 0)
            is_there |= strcmp(name, "weft-watchdog\n") == 0;
        close(fd);
    }
    closedir(directory);
    return is_there;
}

/* The kernel lists a thread a moment after its start, and until a moment after the join. */
static void await_watchdog_thread(bool is_there)
{
    while (has_watchdog_thread() != is_there)
        sched_yield();
}

static void (*handler_of(int number))(int)
{
    struct sigaction now;
    ck_assert_int_eq(sigaction(number, NULL, &now), 0);
    return now.sa_handler;
}

/* Return the highest handled or ignored real-time signal, or 0. Valgrind uses SIGRTMAX. */
static int signal_in_use(void)
{
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--)
        if (handler_of(number) != SIG_DFL)
            return number;
    return 0;
}

TEST(the_watchdog_has_a_thread_and_a_handler_only_while_it_is_on)
{
    weft_self();
    ck_assert(!has_watchdog_thread());
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(signal_in_use(), 0);
        watch(NEVER_S);
        await_watchdog_thread(true);
        ck_assert_int_eq(signal_in_use(), SIGRTMAX - 1);
        watch(i == 1 ? INFINITY : 0);
        ck_assert_int_eq(signal_in_use(), 0);
        await_watchdog_thread(false);
    }
}

TEST(the_last_call_sets_the_limit)
{
    weft_self();
    watch(NEVER_S);
    watch(SOON_S);
    block_until_reported("'main' of", 1);
    watch(NEVER_S);
}

TEST(invalid_limits_are_refused)
{
    ck_assert_int_eq(weft_watchdog(-1), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_watchdog(NAN), -EINVAL);
    ck_assert(!has_watchdog_thread());
    watch(1e300); /* beyond the range of the clock: never */
    ck_assert(!has_watchdog_thread());
}

static void ignore(int number)
{
}

TEST(a_signal_that_the_program_uses_is_left_alone)
{
    signal(SIGRTMAX - 1, ignore);
    signal(SIGRTMAX - 2, SIG_IGN);
    watch(NEVER_S);
    ck_assert(handler_of(SIGRTMAX - 1) == ignore);
    ck_assert(handler_of(SIGRTMAX - 2) == SIG_IGN);
    ck_assert(handler_of(SIGRTMAX - 3) != SIG_DFL);
    signal(SIGRTMAX - 3, ignore); /* replaced by the program, which owns it from now on */
    watch(0);
    ck_assert(handler_of(SIGRTMAX - 3) == ignore);
}

TEST(without_a_free_signal_there_is_no_watchdog)
{
    for (int number = SIGRTMIN; number < SIGRTMAX; number++)
        signal(number, ignore);
    ck_assert_int_eq(weft_watchdog(NEVER_S), -EBUSY);
    ck_assert(!has_watchdog_thread());
    signal(SIGRTMIN, SIG_DFL);
    watch(NEVER_S);
}

/* A signal that the thread never took must not arrive later, when it is no longer handled. */
TEST(a_thread_that_blocks_signals_is_reported_without_backtrace)
{
    weft_set_name(weft_self(), "deaf");
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    watch(SOON_S);
    block_until_reported("did not handle signal", 1);
    ck_assert_has(stderr_text, "'deaf' of thread '");
    weft_snooze();
    block_until_reported("did not handle signal", 2);
    watch(0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    watch(SOON_S);
    weft_snooze();
    compute_until_reported("backtrace:");
}

/* A thread that has just started may hold locks of ASan, which then stay locked in the child. */
TEST(a_child_of_fork_has_no_watchdog_but_may_start_one)
{
    if (is_sanitized())
        return;
    watch(NEVER_S);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        require(!has_watchdog_thread() && signal_in_use() == 0);
        require(weft_self() != 0 && weft_watchdog(SOON_S) == 0);
        block_until_reported("'main' of", 1);
        _exit(weft_watchdog(0) == 0 ? 0 : 3);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    ck_assert_int_eq(signal_in_use(), SIGRTMAX - 1);
}

TEST(the_watchdog_thread_does_not_count_as_a_wake_source)
{
    if (!HAS_ONLY_OWN_THREADS)
        return;
    watch(NEVER_S);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(weft_await(weft_spin(suspend, NULL)), -EDEADLK);
}

static int return_with_watchdog_on(void)
{
    int rc = weft_watchdog(NEVER_S);
    return rc == 0 ? (int)weft_await(weft_spin(return_arg, NULL)) : 1;
}

static int end_main_with_watchdog_on(void)
{
    if (weft_watchdog(0.1) == 0)
        weft_await(weft_spin(return_arg, NULL));
    pthread_exit(NULL);
}

TEST(a_process_can_end_while_the_watchdog_is_on)
{
    assert_silent(run_apart(return_with_watchdog_on), 0);
    if (HAS_ONLY_OWN_THREADS) /* leak checkers report memory that only main's stack points to */
        ck_assert_int_ge(run_apart(end_main_with_watchdog_on)->status, 0);
}

static void *turn_on_and_off(void *arg)
{
    for (int i = 0; i < 20; i++)
        if (weft_watchdog(i % 2 == 0 ? 0.004 : 0) != 0)
            return arg;
    return NULL;
}

/* In any order, the last call turns it off. */
TEST(several_threads_may_turn_the_watchdog_on_and_off)
{
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(turn_on_and_off, stderr_text);
    weft_fiber f = spin_sleeping();
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_ptr_null(join_thread(threads[i]));
    watch(0);
    await_watchdog_thread(false);
    ck_assert_int_eq(signal_in_use(), 0);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
}
