/*
 * Tests of overflow reports: the report, the end of the program, and faults that are not overflows.
 */
#include "core/stack/overflow.h"
#include "core/stack/stack.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static weft__stack_cache cache;
static weft__stack fiber_stack; /* of the fiber that the handler must find */

static void pool_open(void)
{
    /* Disable core files. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    weft__stack_cache_init(&cache);
}

static void pool_close(void)
{
    weft__stack_cache_close(&cache);
}

static bool is_mapped(char *address)
{
    unsigned char vector[1];
    return mincore(address, 1, vector) == 0;
}

static bool find_overflowed_fiber(const void *address, const void *sp, weft__overflow_details *out)
{
    (void)sp;
    if (!weft__stack_guard_contains(&fiber_stack, address))
        return false;
    *out = (weft__overflow_details){42, "greedy", (void *)find_overflowed_fiber,
                                    weft__stack_slot_bytes(&fiber_stack), false};
    return true;
}

static int depth_wanted = 1 << 30; /* the compiler must assume that the depth can be reached */

static int descend(int depth)
{
    volatile char frame[512];
    frame[0] = (char)depth;
    if (depth == depth_wanted)
        return frame[0];
    return descend(depth + 1) + frame[0];
}

static void overflow_stack(void)
{
    descend(0);
}

static ucontext_t outside;
static ucontext_t inside;

static void run_on_fiber_stack(void (*fn)(void))
{
    if (weft__stack_acquire(&cache, 64 << 10, &fiber_stack) < 0)
        _exit(98);
    getcontext(&inside);
    inside.uc_stack.ss_sp = fiber_stack.low;
    inside.uc_stack.ss_size = fiber_stack.bytes;
    makecontext(&inside, fn, 0);
    swapcontext(&outside, &inside);
}

/* Run fn in a child with the handlers installed. Return its status, and its stderr in *text. */
static int child_of(void (*before)(void), void (*fn)(void), const char **text)
{
    FILE *file = tmpfile();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        weft__overflow_thread thread;
        before();
        if (weft__overflow_install(find_overflowed_fiber) < 0 ||
            weft__overflow_thread_open(&thread) < 0)
            _exit(99);
        fn();
        weft__overflow_thread_close(&thread);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    static char stderr_text[8192];
    rewind(file);
    stderr_text[fread(stderr_text, 1, sizeof stderr_text - 1, file)] = '\0';
    *text = stderr_text;
    fclose(file);
    return status;
}

/* Remove the handlers of ASan, which would end the program differently. */
static void reset_handlers(void)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

static void overflow_fiber_stack(void)
{
    run_on_fiber_stack(overflow_stack);
}

START_TEST(an_overflow_is_reported_and_kills_the_program)
{
    const char *text;
    int status = child_of(reset_handlers, overflow_fiber_stack, &text);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGSEGV);
    ck_assert_ptr_nonnull(strstr(text, "weft: stack overflow in fiber #42 'greedy', which runs "));
    ck_assert_ptr_nonnull(strstr(text, "weft: the stack has 64 KiB; set a larger .stack_bytes "
                                       "in weft_spin_options, or WEFT_STACK=128K in the "
                                       "environment\n"));
    /* Once, not repeatedly. */
    ck_assert_ptr_null(strstr(strstr(text, "overflow") + 1, "overflow in fiber"));
}
END_TEST

static void fault_elsewhere(void)
{
    char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)nowhere = 1;
}

START_TEST(another_fault_kills_the_program_silently)
{
    const char *text;
    int status = child_of(reset_handlers, fault_elsewhere, &text);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGSEGV);
    ck_assert_str_eq(text, "");
}
END_TEST

static void send_bus(void)
{
    raise(SIGBUS);
}

START_TEST(a_signal_that_was_sent_still_kills_the_program)
{
    const char *text;
    int status = child_of(reset_handlers, send_bus, &text);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGBUS);
}
END_TEST

static void handle_fault(int number, siginfo_t *info, void *context)
{
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    bool is_right = number == SIGSEGV && info->si_code > 0 && context != NULL &&
                    sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGSEGV);
    if (is_right && write(STDERR_FILENO, "handled", 7) == 7)
        _exit(0);
    abort();
}

static void install_handler(void)
{
    struct sigaction action = {.sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
}

START_TEST(another_fault_calls_the_handler_installed_before)
{
    const char *text;
    int status = child_of(install_handler, fault_elsewhere, &text);
    ck_assert(WIFEXITED(status));
    ck_assert_str_eq(text, "handled");
}
END_TEST

static void ignore_faults(void)
{
    signal(SIGSEGV, SIG_IGN);
}

static void send_segv(void)
{
    raise(SIGSEGV);
    _exit(5);
}

START_TEST(an_ignored_signal_stays_ignored)
{
    const char *text;
    int status = child_of(ignore_faults, send_segv, &text);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 5);
}
END_TEST

START_TEST(a_signal_stack_that_the_program_has_is_left_alone)
{
    static char memory[1 << 16];
    stack_t theirs = {.ss_sp = memory, .ss_size = sizeof memory}, present;
    weft__overflow_thread thread;
    ck_assert_int_eq(sigaltstack(&theirs, NULL), 0);
    ck_assert_int_eq(weft__overflow_thread_open(&thread), 0);
    sigaltstack(NULL, &present);
    ck_assert_ptr_eq(present.ss_sp, memory);
    weft__overflow_thread_close(&thread);
    sigaltstack(NULL, &present);
    ck_assert_ptr_eq(present.ss_sp, memory);
    ck_assert_int_eq(present.ss_flags & SS_DISABLE, 0);
}
END_TEST

START_TEST(closing_a_thread_leaves_no_signal_stack_behind)
{
    weft__overflow_thread thread;
    stack_t present;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    ck_assert_int_eq(weft__overflow_thread_open(&thread), 0);
    char *memory = thread.memory;
    ck_assert(is_mapped(memory));
    weft__overflow_thread_close(&thread);
    sigaltstack(NULL, &present);
    ck_assert_int_ne(present.ss_flags & SS_DISABLE, 0);
    ck_assert(!is_mapped(memory));
    weft__overflow_thread_close(&thread);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("overflow");
    TCase *tests = tcase_create("overflow");
    tcase_add_checked_fixture(tests, pool_open, pool_close);
    tcase_add_test(tests, an_overflow_is_reported_and_kills_the_program);
    tcase_add_test(tests, another_fault_kills_the_program_silently);
    tcase_add_test(tests, a_signal_that_was_sent_still_kills_the_program);
    tcase_add_test(tests, another_fault_calls_the_handler_installed_before);
    tcase_add_test(tests, an_ignored_signal_stays_ignored);
    tcase_add_test(tests, a_signal_stack_that_the_program_has_is_left_alone);
    tcase_add_test(tests, closing_a_thread_leaves_no_signal_stack_behind);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}
