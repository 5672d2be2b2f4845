/*
 * Helpers for the tests of the runtime: a trail that records events, fibers with one simple task,
 * programs in a separate process, and the runner of a suite. Uses the public API only.
 */
#ifndef TESTS_SUPPORT_SUPPORT_H
#define TESTS_SUPPORT_SUPPORT_H

#include <weft.h>

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The number of fibers for tests with many fibers. TSan supports at most 8128 stacks. */
#if defined(__SANITIZE_THREAD__)
#define MANY_FIBERS 5000
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MANY_FIBERS 5000
#endif
#endif
#ifndef MANY_FIBERS
#define MANY_FIBERS 10000
#endif

/* The recorded events in order, each a letter or a word. Empty when a test starts. */
static char trail[512];

static inline void mark(const char *what)
{
    strncat(trail, what, sizeof trail - strlen(trail) - 1);
}

/* For weft_defer, which takes a void pointer. */
static inline void mark_arg(void *what)
{
    mark(what);
}

#define ck_assert_trail(expected) ck_assert_str_eq(trail, expected)

/* Format as printf does. The result is valid until this thread has formatted 16 more texts. */
static inline __attribute__((format(printf, 1, 2))) char *format(const char *text, ...)
{
    static _Thread_local char texts[16][1024];
    static _Thread_local unsigned next;
    char *out = texts[next++ % COUNT_OF(texts)];
    va_list args;
    va_start(args, text);
    if (vsnprintf(out, sizeof texts[0], text, args) >= (int)sizeof texts[0])
        abort(); /* ck_assert would allocate, which is wrong in a fault test */
    va_end(args);
    return out;
}

/* Assert the code and the message of the caller's last error. */
#define ck_assert_error(expected_code, expected_message)        \
    do {                                                        \
        const weft_error_info *ck_last = weft_error();          \
        ck_assert_ptr_nonnull(ck_last);                         \
        ck_assert_int_eq(ck_last->code, (expected_code));       \
        ck_assert_str_eq(ck_last->message, (expected_message)); \
    } while (0)

/* Assert the code of the caller's last error, and that the message is not empty. */
#define ck_assert_any_error(expected_code)                \
    do {                                                  \
        const weft_error_info *ck_last = weft_error();    \
        ck_assert_ptr_nonnull(ck_last);                   \
        ck_assert_int_eq(ck_last->code, (expected_code)); \
        ck_assert_uint_gt(strlen(ck_last->message), 0);   \
    } while (0)

/* Assert that a call fails with this code, and that the error has a message. */
#define ck_assert_fails(call, code)       \
    do {                                  \
        ck_assert_int_eq((call), (code)); \
        ck_assert_any_error(code);        \
    } while (0)

/* Assert that at least this many seconds have passed since begin. 1e-9 allows for rounding. */
#define ck_assert_slept(begin, seconds) ck_assert(weft_now() - (begin) >= (seconds)-1e-9)

/*
 * Run all other fibers until none is runnable, including fibers with completed I/O. Do not wait for
 * timers or for pending I/O.
 */
static inline void let_run(void)
{
    weft_counters counters;
    do {
        do {
            weft_snooze();
            weft_stats(&counters);
        } while (counters.runnable > 0);
        weft_sleep(0);
        weft_stats(&counters);
    } while (counters.runnable > 0);
}

/* True on the backend sim. Time is virtual, and descriptors that weft did not create block. */
static inline bool is_sim(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

/* Return the number of armed timers. */
static inline size_t armed_timers(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.timers;
}

static inline size_t ops_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.ops_pending;
}

/* Open a new file that has no name. */
static inline int open_unnamed_file(void)
{
    char path[] = "/tmp/weft-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

/* Count the open descriptors of this process. */
static inline int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    int n = 0;
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n - 3; /* ".", "..", and the directory itself */
}

/* Count the pages of this process that are in memory. */
static inline size_t resident_pages(void)
{
    size_t size = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(statm);
    ck_assert_int_eq(fscanf(statm, "%zu %zu", &size, &resident), 2);
    fclose(statm);
    return resident;
}

static inline void close_fd_pair(const int fd[2])
{
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}

/* Close both descriptors. Assert that no operation is pending. */
static inline void close_idle_fd_pair(const int fd[2])
{
    close_fd_pair(fd);
    ck_assert_uint_eq(ops_pending(), 0);
}

static inline void print_stderr(const char *text)
{
    dprintf(STDERR_FILENO, "%s", text);
}

/* For weft_defer, which takes a void pointer. */
static inline void print_stderr_arg(void *text)
{
    print_stderr(text);
}

static inline pthread_t start_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

/* Return the result of the thread. */
static inline void *join_thread(pthread_t thread)
{
    void *result;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

/* clang-format off */
/* Define a function for fibers, which returns an expression of arg. */
#define FIBER(name, expression)                                      \
    static inline weft_value name(void *arg __attribute__((unused))) \
    {                                                                \
        return (weft_value)(expression);                             \
    }

/*
 * Define a function for fibers, which executes one or two statements and then returns an
 * expression. For short functions, which fit on one line.
 */
#define FIBER_DO(...) FIBER_PICK(__VA_ARGS__, FIBER_DO_2, FIBER_DO_1, )(__VA_ARGS__)
#define FIBER_PICK(name, first, second, third, chosen, ...) chosen
#define FIBER_DO_1(name, statement, expression)                      \
    static inline weft_value name(void *arg __attribute__((unused))) \
    {                                                                \
        statement;                                                   \
        return (weft_value)(expression);                             \
    }
#define FIBER_DO_2(name, first, second, expression)                  \
    static inline weft_value name(void *arg __attribute__((unused))) \
    {                                                                \
        first;                                                       \
        second;                                                      \
        return (weft_value)(expression);                             \
    }

/* As FIBER and FIBER_DO, for functions of threads. The result is a number. */
#define THREAD(name, expression)                                \
    static inline void *name(void *arg __attribute__((unused))) \
    {                                                           \
        return (void *)(weft_value)(expression);                \
    }
#define THREAD_DO(name, statement, expression)                  \
    static inline void *name(void *arg __attribute__((unused))) \
    {                                                           \
        statement;                                              \
        return (void *)(weft_value)(expression);                \
    }

/* Define a function without a result, for weft_defer and for other hooks. */
#define CALLBACK(name, statement)                              \
    static inline void name(void *arg __attribute__((unused))) \
    {                                                          \
        statement;                                             \
    }
/* clang-format on */

/* Fibers with one simple task. */

FIBER(return_arg, arg)

static inline weft_value mark_and_return(void *arg)
{
    mark(arg);
    return 0;
}

/* Return the value passed to weft_schedule, or the error of weft_suspend. */
FIBER(suspend, weft_suspend())
FIBER(sleep_forever, weft_sleep(INFINITY))

/* Suspend, then mark. For fibers that a test interrupts before the mark. */
static inline weft_value suspend_and_mark(void *arg)
{
    weft_value rc = weft_suspend();
    if (!weft_is_error(rc))
        mark(arg);
    return rc;
}

/* Suspend. Mark only if cancelled. */
static inline weft_value mark_when_cancelled(void *arg)
{
    weft_value rc = weft_suspend();
    if (rc == -ECANCELED)
        mark(arg);
    return rc;
}

/* Add 1 to the int at arg. */
static inline weft_value increment_int(void *arg)
{
    ++*(int *)arg;
    return 0;
}

/* Return the first message. */
FIBER(receive_one, weft_receive())

/* Read one byte from the descriptor at arg. Return the result of weft_read. */
static inline weft_value read_byte(void *arg)
{
    char byte;
    return weft_read(*(int *)arg, &byte, 1);
}

/* Suspend, then sleep where cancellation has no effect. Return arg. */
static inline weft_value suspend_then_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
    return (weft_value)arg;
}

/* Fail with the code in arg and the message "broken". */
FIBER(fail_with, weft_fail((int)(intptr_t)arg, "broken"))

static inline void *as_arg(weft_value value)
{
    return (void *)value;
}

/* Pack a fiber id into an argument. */
static inline void *id_arg(weft_fiber fiber)
{
    return (void *)(uintptr_t)fiber;
}

static inline weft_fiber arg_id(void *arg)
{
    return (weft_fiber)(uintptr_t)arg;
}

/* Await the fiber in arg. */
FIBER(await_fiber, weft_await(arg_id(arg)))

/* Return a fiber that runs fn and waits. */
static inline weft_fiber spin_waiting(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin(fn, arg);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* Assert that each of n fibers returns this value. */
static inline void await_each_as(const weft_fiber *f, size_t n, weft_value expected)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_await(f[i]), expected);
}

/* Return a fiber that is suspended. */
static inline weft_fiber spin_suspended(void)
{
    return spin_waiting(suspend, NULL);
}

/* Return a fiber that sleeps indefinitely. */
static inline weft_fiber spin_sleeping(void)
{
    return spin_waiting(sleep_forever, NULL);
}

/* Echo the input of the descriptor at arg until its end, and close it. Return the last result. */
static inline weft_value echo_until_end(void *arg)
{
    int fd = *(int *)arg;
    char data[64];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0 && weft_write_all(fd, data, (size_t)n) == n)
        continue;
    weft_close(fd);
    return n;
}

/* Return whether bytes can be exchanged with another fiber. Does not use Check. */
static inline bool does_echo(void)
{
    int fd[2];
    char data[5];
    if (weft_socketpair(fd) < 0)
        return false;
    weft_fiber server = weft_spin(echo_until_end, &fd[1]);
    return weft_write_all(fd[0], "hello", 5) == 5 && weft_read_full(fd[0], data, 5) == 5 &&
           memcmp(data, "hello", 5) == 0 && weft_close(fd[0]) == 0 && weft_await(server) == 0;
}

/* The result of a program in a separate process. */
typedef struct outcome {
    int status; /* exit status, or minus the signal that killed the process */
    char text[16384];
} outcome;

static inline void read_all(int fd, char *text, size_t room)
{
    size_t used = 0;
    ssize_t n;
    while (used < room - 1 && (n = read(fd, text + used, room - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
}

/*
 * Run program as the main function of a separate process, and wait for its end. Call this before
 * the process becomes a cord.
 */
static inline const outcome *run_apart(int (*program)(void))
{
    static outcome out;
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        exit(program());
    }
    close(fd[1]);
    read_all(fd[0], out.text, sizeof out.text);
    close(fd[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return &out;
}

/*
 * LeakSanitizer scans only the running stack at exit. After an exit in a fiber it cannot find
 * pointers on the main stack, so leak detection is turned off. LeakSanitizer calls this function.
 */
static bool is_exiting_in_a_fiber;

int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return is_exiting_in_a_fiber;
}

static inline void exit_here(int status)
{
    is_exiting_in_a_fiber = true;
    exit(status);
}

/* End the process with the status in arg, at once or after a switch. */
FIBER_DO(exit_with, exit_here((int)(intptr_t)arg), 0)
FIBER_DO(snooze_and_exit, weft_snooze(), exit_with(arg))

/* Steps of a program. A failed step prints a message and exits with status 99. */
#define MUST_EQ(value, expected)                                           \
    do {                                                                   \
        long is = (long)(value);                                           \
        if (is != (expected)) {                                            \
            fprintf(stderr, "line %d: %s is %ld\n", __LINE__, #value, is); \
            _exit(99);                                                     \
        }                                                                  \
    } while (0)
#define MUST(condition)                                             \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            _exit(99);                                              \
        }                                                           \
    } while (0)

/* True if built with ASan or TSan, which replace fault handlers and large allocations. */
static inline bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

/* Recurse until the stack overflows. */
static inline int descend(int depth)
{
    /* Volatile, so that the compiler must assume that the depth can be reached. */
    static volatile int depth_wanted = 1 << 30;
    volatile char frame[512];
    frame[0] = (char)depth;
    if (depth == depth_wanted)
        return frame[0];
    return descend(depth + 1) + frame[0];
}

/* Assert the exit status and an empty stderr. Check truncates long messages. */
#define ck_assert_quiet(o, expected_status)                                                      \
    ck_assert_msg((o)->status == (expected_status) && (o)->text[0] == '\0', "status %d: %.300s", \
                  (o)->status, (o)->text)

/* Assert the exit status and the exact text on stderr. */
static inline void assert_exited(const outcome *o, int status, const char *text)
{
    ck_assert_msg(o->status == status && strcmp(o->text, text) == 0,
                  "status %d instead of %d, stderr:\n%s", o->status, status, o->text);
}

/* Assert that stderr contains text. */
static inline void assert_printed(const outcome *o, const char *text)
{
    ck_assert_msg(strstr(o->text, text) != NULL, "'%s' is not in stderr:\n%s", text, o->text);
}

static inline void assert_silent(const outcome *o, int status)
{
    assert_exited(o, status, "");
}

/* Count the occurrences of needle in text. */
static inline size_t count_in(const char *text, const char *needle)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, needle)) != NULL; at += strlen(needle))
        n++;
    return n;
}

/* Run all tests as one suite. Return the exit status for main. */
static inline int run_suite(const char *name, const TTest *const *const tests[], size_t n)
{
    Suite *suite = suite_create(name);
    for (size_t i = 0; i < n; i++) { /* one case for each test: CK_RUN_CASE selects by name */
        TCase *tcase = tcase_create((*tests[i])->name);
        tcase_set_timeout(tcase, 20);
        tcase_add_test(tcase, *tests[i]);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    bool is_good = srunner_ntests_run(runner) > 0 && srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    return is_good ? 0 : 1;
}

#endif
