/*
 * Tests of the watchdog: the fibers that it reports, the contents and the number of reports, and
 * its absence unless started. The tests read reports from a pipe that replaces stderr.
 */
#include "support/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

/* A limit for intended stalls, and a limit that other fibers never exceed. */
#define SOON_S 0.02
#define SAFE_S 0.5
#define NEVER_S 3600

/*
 * TSan runs its own permanent threads and does not support threads in a child of fork. TSan runs a
 * signal handler only when the thread makes a call that it intercepts.
 */
#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN true
#endif
#endif
#ifndef HAS_TSAN
#define HAS_TSAN false
#endif

static int reports[2]; /* a pipe */
static char stderr_text[65536];
static size_t stderr_bytes;

static void catch_reports(void)
{
    ck_assert_int_eq(pipe(reports), 0);
    ck_assert_int_eq(dup2(reports[1], STDERR_FILENO), STDERR_FILENO);
}

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

static bool is_reported(const char *text)
{
    return strstr(stderr_text, text) != NULL;
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
    for (; !is_reported(text); rounds++) {
        struct pollfd p = {.fd = reports[0], .events = POLLIN};
        if (poll(&p, 1, 0) > 0)
            read_reports();
    }
    return rounds;
}

/* The return address of be_busy, in the format of a backtrace. */
static char frame[32];

static __attribute__((noinline)) weft_value be_busy(void *arg)
{
    (void)arg;
#ifdef WEFT_HAS_BACKTRACE
    snprintf(frame, sizeof frame, "[%p]", __builtin_return_address(0));
#else
    snprintf(frame, sizeof frame, "backtrace:"); /* no frame follows */
#endif
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

static weft_fiber spin_named(weft_fn *fn, void *arg, const char *name)
{
    return weft_spin_with(fn, arg, &(weft_spin_options){.name = name});
}

TEST(a_busy_fiber_is_reported_with_its_name_and_a_backtrace)
{
    catch_reports();
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    weft_fiber f = spin_named(call_busy, NULL, "busy one");
    ck_assert_int_eq(weft_await(f), 0);
    char text[128];
    snprintf(text, sizeof text, "weft: fiber #%llu 'busy one' of thread %d '",
             (unsigned long long)f, gettid());
    ck_assert_msg(is_reported(text), "no %s in %s", text, stderr_text);
    ck_assert(is_reported("has not switched for 0."));
    ck_assert_int_eq(weft_watchdog(0), 0);
}

TEST(a_busy_main_fiber_is_reported_too)
{
    catch_reports();
    weft_self();
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    ck_assert_int_eq(call_busy(NULL), 0);
    ck_assert(is_reported("'main' of thread"));
    ck_assert_int_eq(weft_watchdog(0), 0);
}

static atomic_bool is_logged;
static pid_t log_thread;
static char log_text[4096];

static void note_report(int level, const char *text, void *arg)
{
    (void)level, (void)arg;
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
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    while (!atomic_load(&is_logged))
        gettid(); /* TSan runs signal handlers in calls */
    ck_assert_int_eq(weft_watchdog(0), 0);
    ck_assert_int_ne(log_thread, gettid());
    ck_assert_int_eq(strncmp(log_text, "fiber #", 7), 0);
    ck_assert_ptr_nonnull(strstr(log_text, "has not switched for 0."));
    ck_assert_int_ne(log_text[strlen(log_text) - 1], '\n');
}

/* A thread with a fiber that blocks it until the test resumes it. */
typedef struct blocker {
    pthread_t thread;
    char name[16];
    pid_t id;
    sem_t resume;
    unsigned stalls; /* number of stalls, one after the other */
    weft_fiber waker, main;
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
    *b = (blocker){.stalls = stalls};
    snprintf(b->name, sizeof b->name, "%s", name);
    ck_assert_int_eq(sem_init(&b->resume, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&b->thread, NULL, run_blocker, b), 0);
}

static void join_blocker(blocker *b)
{
    void *result;
    ck_assert_int_eq(pthread_join(b->thread, &result), 0);
    ck_assert_ptr_null(result);
}

TEST(a_fiber_that_blocks_another_thread_is_reported_with_that_thread)
{
    catch_reports();
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    blocker b;
    start_blocker(&b, "far away", 1);
    block_until_reported("'far away' has not switched", 1);
    sem_post(&b.resume);
    join_blocker(&b);
    ck_assert_int_eq(weft_watchdog(0), 0);
    char text[128];
    snprintf(text, sizeof text, "'far away' of thread %d 'far away' has not switched for ", b.id);
    ck_assert_msg(is_reported(text), "no %s in %s", text, stderr_text);
    ck_assert_uint_eq(count_in(stderr_text, "has not switched"), 1);
}

TEST(threads_that_stall_at_the_same_time_are_all_reported)
{
    catch_reports();
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    blocker b[3];
    for (size_t i = 0; i < COUNT_OF(b); i++)
        start_blocker(&b[i], (const char *[]){"one", "two", "three"}[i], 1);
    block_until_reported("has not switched", COUNT_OF(b));
    for (size_t i = 0; i < COUNT_OF(b); i++)
        sem_post(&b[i].resume);
    for (size_t i = 0; i < COUNT_OF(b); i++)
        join_blocker(&b[i]);
    ck_assert_int_eq(weft_watchdog(0), 0);
    ck_assert(is_reported("'one' of") && is_reported("'two' of") && is_reported("'three' of"));
}

/* The second stall of the other thread proves that there was time to report this thread twice. */
TEST(each_stall_is_reported_once)
{
    catch_reports();
    weft_self();
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    blocker b;
    start_blocker(&b, "other", 3);
    compute_until_reported("'main' of");
    for (size_t i = 1; i <= b.stalls; i++) {
        while (count_in(stderr_text, "'other' of") < i)
            read_reports();
        sem_post(&b.resume);
    }
    ck_assert_uint_eq(count_in(stderr_text, "'main' of"), 1);
    ck_assert_uint_eq(count_in(stderr_text, "'other' of"), 3);
    join_blocker(&b);
    weft_snooze();
    block_until_reported("'main' of", 2);
    ck_assert_int_eq(weft_watchdog(0), 0);
}

static atomic_bool is_over;

/* Run in a thread that is not a cord. Wait for the report of each stall, then end the stall. */
static void *end_stalls_when_reported(void *arg)
{
    blocker *b = arg;
    for (size_t i = 1; i <= b->stalls; i++) {
        block_until_reported("'stalled' of", i);
        sem_post(&b->resume);
    }
    join_blocker(b);
    atomic_store(&is_over, true);
    if (b->waker != 0)
        weft_schedule(b->waker, 0);
    return NULL;
}

static weft_value snooze_until_over(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over))
        weft_snooze();
    return 0;
}

/*
 * Run fn while another thread stalls three times and is reported. Assert that there is no other
 * report.
 */
static void assert_not_reported(weft_value (*fn)(void *arg), weft_fiber waker)
{
    ck_assert_int_eq(weft_watchdog(SAFE_S), 0);
    static blocker b;
    start_blocker(&b, "stalled", 3);
    b.waker = waker;
    pthread_t listener;
    ck_assert_int_eq(pthread_create(&listener, NULL, end_stalls_when_reported, &b), 0);
    ck_assert_int_eq(fn(NULL), 0);
    pthread_join(listener, NULL);
    ck_assert_int_eq(weft_watchdog(0), 0);
    ck_assert_uint_eq(count_in(stderr_text, "has not switched"), 3);
}

TEST(fibers_that_snooze_are_not_reported)
{
    catch_reports();
    weft_fiber f = weft_spin(snooze_until_over, NULL);
    assert_not_reported(snooze_until_over, 0);
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(fibers_that_snooze_are_not_reported_while_their_time_is_measured)
{
    catch_reports();
    weft_account(true);
    assert_not_reported(snooze_until_over, 0);
}

/* Makes the thread wait in one poll. On sim the time passes at once. */
static weft_value sleep_for_an_hour(void *arg)
{
    (void)arg;
    return weft_sleep(3600);
}

TEST(a_thread_that_waits_in_its_backend_is_not_reported)
{
    catch_reports();
    weft_fiber f = weft_spin(sleep_for_an_hour, NULL);
    assert_not_reported(suspend, weft_self());
    weft_stop(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
}

static bool has_watchdog_thread(void)
{
    DIR *folder = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(folder);
    bool is_there = false;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char path[300], name[16] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, name, sizeof name) > 0)
            is_there |= strcmp(name, "weft-watchdog\n") == 0;
        close(fd);
    }
    closedir(folder);
    return is_there;
}

/* The kernel removes the thread from the list a moment after the join. */
static void wait_for_watchdog_end(void)
{
    while (has_watchdog_thread())
        sched_yield();
}

/*
 * Return the highest real-time signal that is handled or ignored, 0 if there is none. Valgrind uses
 * SIGRTMAX.
 */
static int signal_in_use(void)
{
    for (int number = SIGRTMAX - 1; number >= SIGRTMIN; number--) {
        struct sigaction now;
        ck_assert_int_eq(sigaction(number, NULL, &now), 0);
        if ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
            return number;
    }
    return 0;
}

TEST(the_watchdog_has_a_thread_and_a_handler_only_while_it_is_on)
{
    weft_self();
    ck_assert(!has_watchdog_thread());
    ck_assert_int_eq(signal_in_use(), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
        while (!has_watchdog_thread()) /* the thread sets its name a moment later */
            sched_yield();
        ck_assert_int_eq(signal_in_use(), SIGRTMAX - 1);
        ck_assert_int_eq(weft_watchdog(i == 1 ? INFINITY : 0), 0);
        ck_assert_int_eq(signal_in_use(), 0);
        wait_for_watchdog_end();
    }
    ck_assert_int_eq(weft_watchdog(0), 0);
}

TEST(the_last_call_sets_the_limit)
{
    catch_reports();
    weft_self();
    ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    block_until_reported("'main' of", 1);
    ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
    ck_assert_int_eq(weft_watchdog(0), 0);
}

TEST(invalid_limits_are_refused)
{
    ck_assert_int_eq(weft_watchdog(-1), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_watchdog(NAN), -EINVAL);
    ck_assert(!has_watchdog_thread());
    ck_assert_int_eq(weft_watchdog(1e300), 0); /* beyond the range of the clock: never */
    ck_assert(!has_watchdog_thread());
}

static void ignore(int number)
{
    (void)number;
}

TEST(a_signal_that_the_program_uses_is_left_alone)
{
    struct sigaction before;
    signal(SIGRTMAX - 1, ignore);
    signal(SIGRTMAX - 2, SIG_IGN);
    ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
    sigaction(SIGRTMAX - 1, NULL, &before);
    ck_assert(before.sa_handler == ignore);
    sigaction(SIGRTMAX - 2, NULL, &before);
    ck_assert(before.sa_handler == SIG_IGN);
    sigaction(SIGRTMAX - 3, NULL, &before);
    ck_assert(before.sa_handler != SIG_DFL);
    signal(SIGRTMAX - 3, ignore); /* replaced by the program, which owns it from now on */
    ck_assert_int_eq(weft_watchdog(0), 0);
    sigaction(SIGRTMAX - 3, NULL, &before);
    ck_assert(before.sa_handler == ignore);
}

TEST(without_a_free_signal_there_is_no_watchdog)
{
    for (int number = SIGRTMIN; number < SIGRTMAX; number++)
        signal(number, ignore);
    ck_assert_int_eq(weft_watchdog(NEVER_S), -EBUSY);
    ck_assert(!has_watchdog_thread());
    signal(SIGRTMIN, SIG_DFL);
    ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
    ck_assert_int_eq(weft_watchdog(0), 0);
}

/* A signal that the thread never took must not arrive later, when it is no longer handled. */
TEST(a_thread_that_blocks_signals_is_reported_without_backtrace)
{
    catch_reports();
    weft_set_name(weft_self(), "deaf");
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    block_until_reported("did not handle signal", 1);
    ck_assert(is_reported("'deaf' of thread '"));
    weft_snooze();
    block_until_reported("did not handle signal", 2);
    ck_assert_int_eq(weft_watchdog(0), 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    ck_assert_int_eq(weft_watchdog(SOON_S), 0);
    weft_snooze();
    compute_until_reported("backtrace:");
    ck_assert_int_eq(weft_watchdog(0), 0);
}

static int watch_in_the_child(void)
{
    if (has_watchdog_thread() || signal_in_use() != 0)
        return 1;
    weft_self();
    if (weft_watchdog(SOON_S) != 0)
        return 2;
    block_until_reported("'main' of", 1);
    return weft_watchdog(0) == 0 ? 0 : 3;
}

/* A thread that has just started may hold locks of ASan, which then stay locked in the child. */
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN true
#else
#define HAS_ASAN false
#endif

TEST(a_child_of_fork_has_no_watchdog_but_may_start_one)
{
    if (HAS_TSAN || HAS_ASAN)
        return;
    catch_reports();
    ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(watch_in_the_child());
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(signal_in_use(), SIGRTMAX - 1);
    ck_assert_int_eq(weft_watchdog(0), 0);
}

TEST(the_watchdog_thread_does_not_count_as_a_wake_source)
{
    if (HAS_TSAN)
        return;
    ck_assert_int_eq(weft_watchdog(NEVER_S), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    catch_reports();
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
    if (!HAS_TSAN) /* leak checkers report memory that only main's stack points to */
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
    catch_reports();
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, turn_on_and_off, stderr_text), 0);
    weft_fiber f = spin_sleeping();
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        void *result;
        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_null(result);
    }
    ck_assert_int_eq(weft_watchdog(0), 0);
    wait_for_watchdog_end();
    ck_assert_int_eq(signal_in_use(), 0);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
}
