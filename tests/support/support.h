/*
 * What the tests of the runtime share: a trail of what happened, fibers that do one simple thing,
 * programs run in a process of their own, and the running of a suite. Public API only.
 */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <weft.h>

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Fibers at once, where a test is about many: TSan has room for 8128 stacks. */
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

/* What happened, in order: one letter or word each. Every test begins with an empty one. */
static char trail[512];

static inline void mark(const char *what)
{
    strncat(trail, what, sizeof trail - strlen(trail) - 1);
}

/* For weft_defer, which wants a void *. */
static inline void mark_arg(void *what)
{
    mark(what);
}

#define ck_assert_trail(expected) ck_assert_str_eq(trail, expected)

/* The caller's last error is this one, with these words. */
#define ck_assert_words(expected_code, expected_message)         \
    do {                                                         \
        const weft_error_info *ck_words = weft_error();          \
        ck_assert_ptr_nonnull(ck_words);                         \
        ck_assert_int_eq(ck_words->code, (expected_code));       \
        ck_assert_str_eq(ck_words->message, (expected_message)); \
    } while (0)

/* The caller's last error has this code, and words at all. */
#define ck_assert_any_words(expected_code)                 \
    do {                                                   \
        const weft_error_info *ck_words = weft_error();    \
        ck_assert_ptr_nonnull(ck_words);                   \
        ck_assert_int_eq(ck_words->code, (expected_code)); \
        ck_assert_uint_gt(strlen(ck_words->message), 0);   \
    } while (0)

/* At least so many seconds have passed since then, but for what a double loses of the clock. */
#define ck_assert_slept(begin, seconds) ck_assert(weft_now() - (begin) >= (seconds)-1e-9)

/*
 * Let everyone run who can, until nobody can but the caller: also those for whom the kernel has
 * something already. Time and I/O are not waited for.
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

/* Fibers that do one thing. Their argument says which. */

static inline weft_value return_arg(void *arg)
{
    return (weft_value)arg;
}

static inline weft_value mark_and_return(void *arg)
{
    mark(arg);
    return 0;
}

/* Its value is what it was scheduled with, or why it was not. */
static inline weft_value suspend(void *arg)
{
    (void)arg;
    return weft_suspend();
}

static inline weft_value sleep_forever(void *arg)
{
    (void)arg;
    return weft_sleep(INFINITY);
}

/* Suspends, then marks; for those who are never to get that far. */
static inline weft_value suspend_and_mark(void *arg)
{
    weft_value rc = weft_suspend();
    if (!weft_is_error(rc))
        mark(arg);
    return rc;
}

/* Fails with that code and the words "broken". */
static inline weft_value fail_with(void *arg)
{
    return weft_fail((int)(intptr_t)arg, "broken");
}

static inline void *as_arg(weft_value value)
{
    return (void *)value;
}

/* The same for an id. */
static inline void *id_arg(weft_fiber fiber)
{
    return (void *)(uintptr_t)fiber;
}

static inline weft_fiber arg_id(void *arg)
{
    return (weft_fiber)(uintptr_t)arg;
}

/* A fiber that suspends, already in its weft_suspend. */
static inline weft_fiber spin_suspended(void)
{
    weft_fiber f = weft_spin(suspend, NULL);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* A fiber in an endless sleep. */
static inline weft_fiber spin_sleeping(void)
{
    weft_fiber f = weft_spin(sleep_forever, NULL);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* What became of a program, and what it wrote to stderr. */
typedef struct outcome {
    int status; /* of its exit, or minus the signal that ended it */
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
 * Run program as the main function of a process of its own, and wait for it. To be called before
 * this process has become a cord.
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
 * LeakSanitizer looks for pointers on the stack that runs at the end: one that exits in a fiber
 * hides what main's stack still points to. It asks this function, if there is one.
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

/* Built with ASan or TSan, which handle faults and huge allocations in their own way? */
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

/* Recurse until the stack is full. */
static inline int descend(int depth)
{
    static volatile int depth_wanted = 1
                                       << 30; /* the compiler must not see that it is not reached */
    volatile char frame[512];
    frame[0] = (char)depth;
    if (depth == depth_wanted)
        return frame[0];
    return descend(depth + 1) + frame[0];
}

/* The program ended with this status and said nothing. Check has no room for long messages. */
#define ck_assert_quiet(o, expected_status)                                                      \
    ck_assert_msg((o)->status == (expected_status) && (o)->text[0] == '\0', "status %d: %.300s", \
                  (o)->status, (o)->text)

/* The program ended with this status and said exactly this on stderr. */
static inline void assert_ended(const outcome *o, int status, const char *text)
{
    ck_assert_msg(o->status == status && strcmp(o->text, text) == 0,
                  "status %d instead of %d, and it said:\n%s", o->status, status, o->text);
}

/* These words are in what it said. */
static inline void assert_said(const outcome *o, const char *words)
{
    ck_assert_msg(strstr(o->text, words) != NULL, "'%s' is not in what it said:\n%s", words,
                  o->text);
}

static inline void assert_silent(const outcome *o, int status)
{
    assert_ended(o, status, "");
}

/* How often needle is in text. */
static inline size_t count_in(const char *text, const char *needle)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, needle)) != NULL; at += strlen(needle))
        n++;
    return n;
}

/* The whole of main: run these tests as one suite; the exit status. */
static inline int run_suite(const char *name, const TTest *const *const tests[], size_t n)
{
    Suite *suite = suite_create(name);
    for (size_t i = 0; i < n; i++) { /* a case each: CK_RUN_CASE picks one by its name */
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
