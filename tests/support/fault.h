/*
 * The driver of the fault tests. A scenario runs in a separate process for each call that is made
 * to fail. The driver stops when the number of the failing call exceeds the calls of the scenario.
 */
#ifndef TESTS_SUPPORT_FAULT_H
#define TESTS_SUPPORT_FAULT_H

#include "support/fault_ring.h"
#include "support/support.h"

#include <limits.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif
#ifdef __SANITIZE_THREAD__
#define IS_SLOW 1
#else
#define IS_SLOW RUNNING_ON_VALGRIND
#endif

/* The report of a child process to its parent, in shared memory. */
typedef struct verdict {
    bool is_reached; /* the scenario made the call that fails */
    char text[256];  /* the requirement that did not hold; empty: all held */
    char backend[16];
    size_t backend_fds; /* open when the scenario ended */
} verdict;

static verdict *own_verdict;

/* Like ck_assert, in the child process. */
#define REQUIRE(condition)                                                                 \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            snprintf(own_verdict->text, sizeof own_verdict->text, "line %d: %s", __LINE__, \
                     #condition);                                                          \
            fprintf(stderr, "%s\n", own_verdict->text);                                    \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

/* Require a result, or an error that an injected fault explains. True for a result. */
#define REQUIRE_OR_FAULT(result)                                \
    ({                                                          \
        long own_result = (long)(result);                       \
        REQUIRE(own_result >= 0 || fault_explains(own_result)); \
        own_result >= 0;                                        \
    })

/* Require a condition unless a fault was injected. */
#define REQUIRE_UNLESS_FAULT(condition) REQUIRE((condition) || atomic_load(&fault.injected) > 0)

/* As REQUIRE_OR_FAULT. Also accept an error that a fault at the peer explains. */
#define REQUIRE_OR_PEER_FAULT(result)                                     \
    ({                                                                    \
        long peer_result = (long)(result);                                \
        REQUIRE(peer_result >= 0 || fault_explains_at_peer(peer_result)); \
        peer_result >= 0;                                                 \
    })

/* Require that the last error has a message, even if memory for it could not be allocated. */
static inline void require_message(void)
{
    REQUIRE(atomic_load(&fault.injected) > 0);
    const weft_error_info *e = weft_error();
    REQUIRE(e != NULL && fault_explains(e->code) && e->message[0] != '\0');
}

/* Require a fiber id or cord id, or 0 because of a fault. */
static inline weft_fiber require_created(weft_fiber f)
{
    if (f == 0)
        require_message();
    return f;
}

/* Require a new object, or NULL because of a fault. Return whether there is an object. */
static inline bool require_object(const void *object)
{
    if (object == NULL)
        require_message();
    return object != NULL;
}

/* Count the open descriptors of the backend, which remain open, or all others. */
static size_t count_open(bool is_backends)
{
    DIR *folder = opendir("/proc/self/fd");
    REQUIRE(folder != NULL);
    size_t n = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char to[64] = "";
        bool is_link = readlinkat(dirfd(folder), entry->d_name, to, sizeof to - 1) > 0;
        bool is_its = strstr(to, "[event") != NULL || strstr(to, "[io_uring]") != NULL ||
                      strstr(to, "[timerfd]") != NULL;
        n += is_link && is_its == is_backends;
    }
    closedir(folder);
    return n;
}

/* A worker thread may still run an abandoned job, so wait for the count to fall. */
static void require_open(size_t n)
{
    for (int i = 0; i < 1000 && count_open(false) > n; i++)
        weft_sleep(0.001);
    REQUIRE(count_open(false) == n);
}

static void require_nothing_left(void)
{
    weft_counters now;
    REQUIRE(weft_stats(&now) == 0);
    REQUIRE(now.fibers == 0);
    REQUIRE(now.fibers_unawaited == 0);
    REQUIRE(now.runnable == 0);
    REQUIRE(now.timers == 0);
    REQUIRE(now.ops_pending == 0);
    REQUIRE(now.stacks == now.stacks_cached);
    REQUIRE(weft_snooze() == 0); /* no error is pending */
}

/* Run code without faults, for the setup of a scenario. */
#define WITHOUT_FAULTS(...)                      \
    do {                                         \
        bool was_on = atomic_load(&fault.is_on); \
        atomic_store(&fault.is_on, false);       \
        __VA_ARGS__;                             \
        atomic_store(&fault.is_on, was_on);      \
    } while (0)

/* Return whether all steps succeeded. Without a fault all steps succeed. */
typedef bool scenario(void);

/* A multiple of the calls that a scenario needs. */
#define CALLS_MAX 4000

static void child_main(scenario *run)
{
    signal(SIGALRM, SIG_DFL); /* Check installs a handler */
    alarm(IS_SLOW ? 60 : 10);
    size_t open_before = count_open(false);
    atomic_store(&fault.is_on, true);
    bool is_done = run();
    atomic_store(&fault.is_on, false);
    own_verdict->is_reached = atomic_load(&fault.injected) > 0;
    REQUIRE(is_done || own_verdict->is_reached);
    /* Immediate retries of a scarce resource would be a busy loop. On sim no wait takes time. */
    bool is_virtual = is_sim();
    REQUIRE(!fault.is_lasting || is_virtual || atomic_load(&fault.calls) < CALLS_MAX);
    require_nothing_left();
    require_open(open_before);
    /* A thread without a backend never gets I/O. */
    bool has_backend = strcmp(weft_backend_name(), "none") != 0;
    atomic_store(&fault.injected, 0);
    bool is_done_again = has_backend ? run() : true;
    REQUIRE(is_done_again);
    require_nothing_left();
    require_open(open_before);
    snprintf(own_verdict->backend, sizeof own_verdict->backend, "%s", weft_backend_name());
    own_verdict->backend_fds = count_open(true);
    exit(EXIT_SUCCESS);
}

/* Print the child's stderr, for the failure message. */
static void print_file(int fd)
{
    char text[4096];
    lseek(fd, 0, SEEK_SET);
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)n, stderr);
}

/* A process that runs a scenario with one fault. */
typedef struct attempt {
    pid_t pid;
    int stderr_fd;
    unsigned first; /* number of the call that fails */
    bool is_lasting;
    verdict *verdict;
} attempt;

/*
 * The number of attempts that run in parallel. Most attempts spend their time waiting, for example
 * for a name server that does not reply or for a shortage to end.
 */
#define ATTEMPTS_MAX 8

static void attempt_start(attempt *a, scenario *run, unsigned first, bool is_lasting)
{
    *a = (attempt){.first = first, .is_lasting = is_lasting, .verdict = a->verdict};
    *a->verdict = (verdict){0};
    a->stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    ck_assert_int_ge(a->stderr_fd, 0);
    a->pid = fork();
    ck_assert_int_ge(a->pid, 0);
    if (a->pid == 0) {
        own_verdict = a->verdict;
        fault.first = first;
        fault.is_lasting = is_lasting;
        dup2(a->stderr_fd, STDERR_FILENO);
        child_main(run);
    }
}

/* Wait for the end of the process and check its result. Return whether the fault was reached. */
static bool attempt_finish(const attempt *a)
{
    int status;
    ck_assert_int_eq(waitpid(a->pid, &status, 0), a->pid);
    if (status != 0) {
        print_file(a->stderr_fd);
        ck_abort_msg(
            "call %u failing%s: %s %d, %s", a->first, a->is_lasting ? ", and all after it" : "",
            WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), a->verdict->text);
    }
    close(a->stderr_fd);
    return a->verdict->is_reached;
}

/*
 * The factor by which to reduce the number of calls on slow builds. Under ASan every call fails on
 * io_uring. On the other backends, which share most code with it, every third call fails.
 */
static unsigned sampling(void)
{
    if (IS_SLOW)
        return 7; /* Valgrind and TSan need seconds for each process */
#ifdef __SANITIZE_ADDRESS__
    const char *backend = getenv("WEFT_BACKEND");
    if (backend != NULL && strcmp(backend, "io_uring") != 0)
        return 3;
#endif
    return 1;
}

/* Map shared memory for the verdicts of count processes. */
static verdict *share_verdicts(size_t count)
{
    verdict *all =
        mmap(NULL, count * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    return all;
}

static inline void share_verdict(void)
{
    own_verdict = share_verdicts(1);
}

/*
 * Fail one call after the other, with several attempts in parallel, until a scenario ends before
 * the fault.
 */
static void fail_calls(scenario *run, unsigned step, bool is_lasting, const verdict *whole,
                       attempt attempts[ATTEMPTS_MAX])
{
    size_t started = 0, finished = 0;
    bool is_past_end = false;
    while (!is_past_end || finished < started) {
        if (!is_past_end && started < finished + ATTEMPTS_MAX) {
            unsigned first = 1 + (unsigned)started * step;
            ck_assert_uint_lt(first, 2000);
            attempt_start(&attempts[started++ % ATTEMPTS_MAX], run, first, is_lasting);
            continue;
        }
        const attempt *a = &attempts[finished++ % ATTEMPTS_MAX];
        is_past_end |= !attempt_finish(a);
        if (a->verdict->is_reached && strcmp(a->verdict->backend, whole->backend) == 0)
            ck_assert_uint_le(a->verdict->backend_fds, whole->backend_fds);
        ck_assert(a->verdict->is_reached || finished > 1);
    }
}

/* Fail every step-th call only. For scenarios with many calls. */
static void fail_some_calls(scenario *run, unsigned step)
{
    attempt attempts[ATTEMPTS_MAX];
    verdict *all = share_verdicts(ATTEMPTS_MAX);
    for (size_t i = 0; i < ATTEMPTS_MAX; i++)
        attempts[i].verdict = &all[i];
    attempt_start(&attempts[0], run, UINT_MAX, false);
    attempt_finish(&attempts[0]);
    const verdict whole = *attempts[0].verdict;
    step *= sampling();
    fail_calls(run, step, false, &whole, attempts);
    fail_calls(run, step, true, &whole, attempts);
}

static inline void fail_each_call(scenario *run)
{
    fail_some_calls(run, 1);
}

/* Define a test that fails every step-th call of a scenario. Needs support/suite.h. */
#define FAULT_TEST(name, scenario, step) \
    TEST(name)                           \
    {                                    \
        fail_some_calls(scenario, step); \
    }

static inline bool become_a_cord(void)
{
    return require_created(weft_self()) != 0;
}

/* Fibers for scenarios. */

/* Return arg after a short sleep. */
static inline weft_value return_soon(void *arg)
{
    int rc = weft_sleep(0.0001);
    return rc < 0 ? rc : (weft_value)arg;
}

/* Fail with minus the code in arg, and with a cause. */
static inline weft_value fail_deep(void *arg)
{
    int code = -(int)(intptr_t)arg;
    weft_fail(-EIO, "the cause");
    return weft_fail(code, "the effect");
}

/*
 * The body is a scenario in a thread that has become a cord. The errors that the scenario leaves
 * are cleared.
 */
/* clang-format off */
#define SCENARIO(name)                                     \
    static bool name##_in_cord(void);                      \
    static inline bool name(void)                          \
    {                                                      \
        bool is_done = become_a_cord() && name##_in_cord(); \
        weft_error_clear();                                \
        return is_done;                                    \
    }                                                      \
    static bool name##_in_cord(void)

/* As SCENARIO, for a body without a result. Each step requires its success, or a fault. */
#define FAULT_STEPS(name)            \
    static void name##_steps(void);  \
    static inline bool name(void)    \
    {                                \
        if (become_a_cord())         \
            name##_steps();          \
        weft_error_clear();          \
        return true;                 \
    }                                \
    static void name##_steps(void)

/* For files that include support/suite.h. The body is a scenario for fail_each_call. */
#define TEST_FAULTS(name)                  \
    static bool name##_scenario(void);     \
    TEST(name)                             \
    {                                      \
        fail_each_call(name##_scenario);   \
    }                                      \
    SCENARIO(name##_scenario)
/* clang-format on */

#endif
