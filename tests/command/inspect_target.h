/*
 * Programs for the tests of `weft top` and `weft profile`. A test executes its own file again, with
 * the variable TEST_TARGET. The constructor below then runs the target instead of the tests.
 */
#ifndef TESTS_COMMAND_INSPECT_TARGET_H
#define TESTS_COMMAND_INSPECT_TARGET_H

#include "command/command_support.h"
#include "support/suite.h"

static weft_mutex ledger;

/* Compute for a time of CPU, so that a loaded machine does not change the shares. */
__attribute__((noinline)) static void compute_prices(double seconds)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec) <
           seconds);
}

__attribute__((noinline)) static weft_value price_large(void *arg)
{
    while (weft_snooze() == 0)
        compute_prices(0.0004);
    return 0;
}

__attribute__((noinline)) static weft_value price_small(void *arg)
{
    while (weft_snooze() == 0)
        compute_prices(0.0002);
    return 0;
}

__attribute__((noinline)) static weft_value post_entry(void *arg)
{
    int rc = weft_mutex_lock(&ledger);
    return rc < 0 ? rc : weft_mutex_unlock(&ledger);
}

/* Wait until the input ends. Return the exit status in the input, or 0. */
static int wait_for_input(void)
{
    char byte = '0';
    puts("ready");
    fflush(stdout);
    (void)weft_read(STDIN_FILENO, &byte, 1);
    weft_terminate_children(1.0);
    return byte - '0';
}

/*
 * A main fiber that holds a lock, a waiter for the lock, a waiter for this waiter, a sleeper, and
 * two fibers that compute.
 */
static void open_shop(void)
{
    weft_mutex_lock(&ledger);
    spin_named(await_fiber, id_arg(spin_named(post_entry, NULL, "posting")), "audit");
    spin_named(sleep_forever, NULL, "s\xc3\xb6me \x1b[31mred");
    spin_named(price_large, NULL, "large");
    spin_named(price_small, NULL, "small");
}

static int target_shop(void)
{
    open_shop();
    return wait_for_input();
}

/* Like shop, but exit after a second of CPU time, so that the number of samples is known. */
static int target_day(void)
{
    struct timespec used;
    open_shop();
    do {
        weft_sleep(0.01);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    } while (used.tv_sec < 1);
    weft_terminate_children(1.0);
    return 7;
}

static int target_crowd(void)
{
    for (int i = 0; i < 1000; i++)
        spin_named(sleep_forever, NULL, "connection");
    spin_named(suspend, NULL, "odd one");
    return wait_for_input();
}

static int target_without_weft(void)
{
    return 3;
}

static const struct {
    const char *name;
    int (*run)(void);
} targets[] = {
    {"shop", target_shop},
    {"crowd", target_crowd},
    {"day", target_day},
    {"plain", target_without_weft},
};

__attribute__((constructor)) static void run_target(void)
{
    const char *name = getenv("TEST_TARGET");
    for (size_t i = 0; name != NULL && i < COUNT_OF(targets); i++)
        if (strcmp(name, targets[i].name) == 0)
            exit_here(targets[i].run()); /* the leak checker misses roots before main */
}

/* The running target, and its process id as text. */
static weft_process target;
static char target_pid[16];

static inline void target_start(const char *name, const char *inspect)
{
    char *set[] = {format("TEST_TARGET=%s", name),
                   inspect != NULL ? format("WEFT_INSPECT=%s", inspect) : "WEFT_INSPECT", NULL};
    target = spawn(ARGV("/proc/self/exe"),
                   (weft_process_options){.path = format("/proc/%d/exe", (int)getpid()),
                                          .set = set,
                                          .in = WEFT_STDIO_PIPE,
                                          .out = WEFT_STDIO_PIPE});
    snprintf(target_pid, sizeof target_pid, "%d", (int)target.pid);
    expect_line(target.out, "ready\n");
}

/* Start a target with a socket in the folder. */
static inline void target_start_inspected(const char *name)
{
    target_start(name, format("%s/socket-%%p", folder));
}

static inline void target_stop(void)
{
    if (target.pid == 0)
        return;
    weft_close(target.in);
    target.in = -1;
    ck_assert_int_ge(weft_process_wait(&target), 0);
    weft_process_close(&target);
}

static weft_output output; /* of the last run */

/* Run the command with arguments. Return its exit status. */
static inline int run_command(char *const args[])
{
    char *argv[24] = {command_path()};
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 1] = args[i];
    weft_output_free(&output);
    int status = weft_run(argv, "", 0, NULL, &output);
    ck_assert_msg(status >= 0 && WIFEXITED(status), "%d", status);
    return WEXITSTATUS(status);
}

#define WEFT(...) run_command(ARGV(__VA_ARGS__))

#define ck_assert_output_has(text)                                                                 \
    ck_assert_msg(strstr(output.out, (text)) != NULL, "no \"%s\" in:\n%s\n%s", (text), output.out, \
                  output.err)
#define ck_assert_error_has(text) \
    ck_assert_msg(strstr(output.err, (text)) != NULL, "no \"%s\" in:\n%s", (text), output.err)

static inline void create_target_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

#endif
