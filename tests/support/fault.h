/*
 * The driver of the fault tests: a scenario is run in a process of its own for each call that is
 * made to fail, until it needs fewer calls than that.
 */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include "fault_ring.h"
#include "support.h"

#include <dirent.h>
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

/* What a child process tells its parent, in shared memory. */
typedef struct verdict {
    bool is_struck; /* the scenario came as far as the call that was to fail */
    char text[256]; /* what did not hold; empty: all did */
    char backend[16];
    size_t backend_fds; /* that it had open in the end */
} verdict;

static verdict *told;

/* As ck_assert, in the child process. */
#define REQUIRE(condition)                                                                \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            snprintf(told->text, sizeof told->text, "line %d: %s", __LINE__, #condition); \
            fprintf(stderr, "%s\n", told->text);                                          \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)

/* What a call returned is a result, or the error of a fault. True: a result. */
#define REQUIRE_TOLD(result)                                     \
    ({                                                           \
        long told_result = (long)(result);                       \
        REQUIRE(told_result >= 0 || fault_is_told(told_result)); \
        told_result >= 0;                                        \
    })

/* The same, or an error at the other end was felt here. */
#define REQUIRE_FELT(result)                                     \
    ({                                                           \
        long felt_result = (long)(result);                       \
        REQUIRE(felt_result >= 0 || fault_is_felt(felt_result)); \
        felt_result >= 0;                                        \
    })

/* A fiber, or 0 because of a fault. */
static inline weft_fiber require_made(weft_fiber f)
{
    REQUIRE(f != 0 || atomic_load(&fault.struck) > 0);
    /* There are words, unless the memory for them was short as well. */
    if (f == 0 && !fault.is_lasting)
        REQUIRE(weft_error() != NULL && fault_is_told(weft_error()->code));
    return f;
}

/* Open descriptors: those of a backend, which stay, or all others. */
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

/* A thread of the pool may still be at what was given up. */
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
    REQUIRE(weft_snooze() == 0); /* no error is still on its way */
}

/* What a scenario needs beforehand is not what is to fail. */
#define WITHOUT_FAULTS(...)                      \
    do {                                         \
        bool was_on = atomic_load(&fault.is_on); \
        atomic_store(&fault.is_on, false);       \
        __VA_ARGS__;                             \
        atomic_store(&fault.is_on, was_on);      \
    } while (0)

/* A scenario returns whether it could do everything; without a fault it always can. */
typedef bool scenario(void);

/* Many times what a scenario needs. */
#define CALLS_MAX 4000

static void child_main(scenario *run)
{
    signal(SIGALRM, SIG_DFL); /* Check has a handler for it */
    alarm(IS_SLOW ? 60 : 10);
    size_t open_before = count_open(false);
    atomic_store(&fault.is_on, true);
    bool is_done = run();
    atomic_store(&fault.is_on, false);
    told->is_struck = atomic_load(&fault.struck) > 0;
    REQUIRE(is_done || told->is_struck);
    /* To try again at once what has run out is a busy loop. On sim no wait takes time. */
    bool is_virtual = strcmp(weft_backend_name(), "sim") == 0;
    REQUIRE(!fault.is_lasting || is_virtual || atomic_load(&fault.calls) < CALLS_MAX);
    require_nothing_left();
    require_open(open_before);
    /* A thread that got no backend goes without I/O for good. */
    bool has_backend = strcmp(weft_backend_name(), "none") != 0;
    atomic_store(&fault.struck, 0);
    bool is_done_again = has_backend ? run() : true;
    REQUIRE(is_done_again);
    require_nothing_left();
    require_open(open_before);
    snprintf(told->backend, sizeof told->backend, "%s", weft_backend_name());
    told->backend_fds = count_open(true);
    exit(EXIT_SUCCESS);
}

/* stderr of the child, for the failure message. */
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
    unsigned first; /* the call that fails */
    bool is_lasting;
    verdict *told;
} attempt;

/*
 * Attempts that run at the same time. Most of them wait for a while: for a name server that was not
 * reached, for a shortage to end.
 */
#define ATTEMPTS_MAX 8

static void attempt_start(attempt *a, scenario *run, unsigned first, bool is_lasting)
{
    *a = (attempt){.first = first, .is_lasting = is_lasting, .told = a->told};
    *a->told = (verdict){0};
    a->stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    ck_assert_int_ge(a->stderr_fd, 0);
    a->pid = fork();
    ck_assert_int_ge(a->pid, 0);
    if (a->pid == 0) {
        told = a->told;
        fault.first = first;
        fault.is_lasting = is_lasting;
        dup2(a->stderr_fd, STDERR_FILENO);
        child_main(run);
    }
}

/* Wait for its end and check how it went. Returns whether the scenario came to the fault. */
static bool attempt_finish(const attempt *a)
{
    int status;
    ck_assert_int_eq(waitpid(a->pid, &status, 0), a->pid);
    if (status != 0) {
        print_file(a->stderr_fd);
        ck_abort_msg("call %u failing%s: %s %d, %s", a->first,
                     a->is_lasting ? ", and all after it" : "",
                     WIFSIGNALED(status) ? "signal" : "exit status",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), a->told->text);
    }
    close(a->stderr_fd);
    return a->told->is_struck;
}

/*
 * So many times fewer calls where processes are slow. Under ASan each call fails on io_uring; on
 * the others, which share all but their own few calls with it, one in three does.
 */
static unsigned sampling(void)
{
    if (IS_SLOW)
        return 7; /* Valgrind and TSan take seconds for each process */
#ifdef __SANITIZE_ADDRESS__
    const char *backend = getenv("WEFT_BACKEND");
    if (backend != NULL && strcmp(backend, "io_uring") != 0)
        return 3;
#endif
    return 1;
}

/* Memory for the verdicts of so many processes. */
static verdict *share_verdicts(size_t count)
{
    verdict *all =
        mmap(NULL, count * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    return all;
}

static inline void share_verdict(void)
{
    told = share_verdicts(1);
}

/* One failing call after the other, several attempts at a time, until a scenario ends before it. */
static void strike_calls(scenario *run, unsigned step, bool is_lasting, const verdict *whole,
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
        if (a->told->is_struck && strcmp(a->told->backend, whole->backend) == 0)
            ck_assert_uint_le(a->told->backend_fds, whole->backend_fds);
        ck_assert(a->told->is_struck || finished > 1);
    }
}

/* Every so many calls only, where there are many of them. */
static void strike_some_calls(scenario *run, unsigned step)
{
    attempt attempts[ATTEMPTS_MAX];
    verdict *all = share_verdicts(ATTEMPTS_MAX);
    for (size_t i = 0; i < ATTEMPTS_MAX; i++)
        attempts[i].told = &all[i];
    attempt_start(&attempts[0], run, UINT_MAX, false);
    attempt_finish(&attempts[0]);
    const verdict whole = *attempts[0].told;
    step *= sampling();
    strike_calls(run, step, false, &whole, attempts);
    strike_calls(run, step, true, &whole, attempts);
}

static inline void strike_each_call(scenario *run)
{
    strike_some_calls(run, 1);
}

static inline bool become_a_cord(void)
{
    return weft_self() != 0;
}

/* Fibers for scenarios. */

/* Its value, after a little while. */
static inline weft_value return_soon(void *arg)
{
    int rc = weft_sleep(0.0001);
    return rc < 0 ? rc : (weft_value)arg;
}

/* Fails with minus that code, and with a cause. */
static inline weft_value fail_deep(void *arg)
{
    int code = -(int)(intptr_t)arg;
    weft_fail(-EIO, "the cause");
    return weft_fail(code, "the effect");
}

#endif
