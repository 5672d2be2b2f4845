/*
 * Tests of faults in a program that uses weft: which handler gets them, how the process ends, and
 * which handlers are installed. Each program runs in a separate process.
 */
#include "support/suite.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Call this before weft. Sanitizers install their own handlers. */
static void reset_fault_handlers(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

static bool is_handled_by_default(int sig)
{
    struct sigaction now;
    return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

FIBER(overflow_stack, descend(0))

static weft_value write_to_no_access_page(void *arg)
{
    char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)nowhere = 1;
    return 0;
}

static int run_fiber(weft_fn *fn)
{
    return (int)weft_await(weft_spin_with(fn, NULL, &(weft_spin_options){.name = "greedy"}));
}

static void write_handled(void)
{
    if (write(STDERR_FILENO, "handled", 7) != 7)
        abort();
}

static void handle_without_info(int sig)
{
    write_handled();
    _exit(7);
}

static void handle_with_info(int sig, siginfo_t *info, void *context)
{
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    if (sig != SIGSEGV || info->si_code <= 0 || context == NULL ||
        !sigismember(&blocked, SIGUSR1) || !sigismember(&blocked, SIGSEGV))
        abort();
    write_handled();
    _exit(7);
}

static void set_info_handler(void (*fn)(int, siginfo_t *, void *), struct sigaction *before)
{
    struct sigaction action = {.sa_sigaction = fn, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, before);
}

static int fault_in_fiber(void (*segv)(int))
{
    reset_fault_handlers();
    signal(SIGSEGV, segv);
    return run_fiber(write_to_no_access_page);
}

TEST_PROGRAM(a_fault_in_a_fiber_calls_a_plain_handler_of_the_program, 7, "handled")
{
    return fault_in_fiber(handle_without_info);
}

static int fault_with_info_handler(bool is_before)
{
    reset_fault_handlers();
    if (!is_before)
        weft_self();
    set_info_handler(handle_with_info, NULL);
    return run_fiber(write_to_no_access_page);
}

TEST_PROGRAM(a_fault_in_a_fiber_calls_an_earlier_handler_of_the_program, 7, "handled")
{
    return fault_with_info_handler(true);
}

TEST_PROGRAM(a_fault_in_a_fiber_calls_a_later_handler_of_the_program, 7, "handled")
{
    return fault_with_info_handler(false);
}

TEST_PROGRAM(without_a_handler_a_fault_kills_the_process_silently, -SIGSEGV, "")
{
    return fault_in_fiber(SIG_DFL);
}

TEST_PROGRAM(a_real_fault_cannot_be_ignored, -SIGSEGV, "")
{
    return fault_in_fiber(SIG_IGN);
}

static int send_fault(int sig, void (*handler)(int))
{
    reset_fault_handlers();
    signal(sig, handler);
    weft_self();
    raise(sig);
    return 5;
}

TEST_PROGRAM(without_a_handler_a_fault_that_was_sent_kills_the_process, -SIGBUS, "")
{
    return send_fault(SIGBUS, SIG_DFL);
}

TEST_PROGRAM(a_fault_that_was_sent_can_be_ignored, 5, "")
{
    return send_fault(SIGSEGV, SIG_IGN);
}

static struct sigaction replaced;

static void handle_and_chain(int sig, siginfo_t *info, void *context)
{
    write_handled();
    replaced.sa_sigaction(sig, info, context);
}

TEST_PROGRAM_PRINTS(an_overflow_is_reported_through_a_later_handler_that_chains, -SIGSEGV,
                    "handled", "weft: stack overflow in fiber")
{
    reset_fault_handlers();
    weft_self();
    set_info_handler(handle_and_chain, &replaced);
    return run_fiber(overflow_stack);
}

TEST_PROGRAM_PRINTS(an_overflow_report_names_the_function_of_the_fiber_and_the_innermost_function,
                    -SIGSEGV, "'greedy', which runs overflow_stack in test_fault_handlers(+0x",
                    "weft: the stack was exceeded by descend")
{
    reset_fault_handlers();
    return run_fiber(overflow_stack);
}

/* No handler and no signal stack is installed. An overflow kills the process without a report. */
static int overflow_with_nothing_installed(void)
{
    reset_fault_handlers();
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    weft_self();
    stack_t present;
    if (!is_handled_by_default(SIGSEGV) || !is_handled_by_default(SIGBUS) ||
        sigaltstack(NULL, &present) < 0 || !(present.ss_flags & SS_DISABLE))
        return 3;
    return run_fiber(overflow_stack);
}

TEST_PROGRAM(the_handlers_can_be_turned_off_by_the_environment, -SIGSEGV, "")
{
    setenv("WEFT_CATCH_FAULTS", "0", 1);
    return overflow_with_nothing_installed();
}

TEST_PROGRAM(the_handlers_can_be_turned_off_before_the_first_call, -SIGSEGV, "")
{
    return weft_catch_faults(false) == 0 ? overflow_with_nothing_installed() : 4;
}

static int turn_off_and_on(void)
{
    reset_fault_handlers();
    signal(SIGSEGV, handle_without_info);
    weft_self();
    struct sigaction now;
    if (weft_catch_faults(false) != 0 || sigaction(SIGSEGV, NULL, &now) < 0 ||
        now.sa_handler != handle_without_info || !is_handled_by_default(SIGBUS))
        return 3;
    /* The handler that is installed when faults are turned on again counts. */
    signal(SIGSEGV, SIG_DFL);
    if (weft_catch_faults(true) != 0 || weft_catch_faults(true) != 0)
        return 4;
    return run_fiber(overflow_stack);
}

TEST(the_handlers_can_be_turned_off_and_on_later)
{
    const outcome *o = run_apart(turn_off_and_on);
    ck_assert_int_eq(o->status, -SIGSEGV);
    ck_assert_uint_eq(count_in(o->text, "stack overflow in fiber"), 1);
}

TEST_PROGRAM(the_handlers_can_be_turned_off_below_another_handler, 7, "handled")
{
    reset_fault_handlers();
    weft_self();
    set_info_handler(handle_with_info, NULL);
    if (weft_catch_faults(false) != 0 || !is_handled_by_default(SIGBUS))
        return 3;
    return run_fiber(write_to_no_access_page);
}
