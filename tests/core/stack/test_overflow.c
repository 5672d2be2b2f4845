/*
 * Tests of overflow reports: the report, the end of the program, and faults that are not overflows.
 */
#include "core/stack/overflow.h"
#include "core/stack/stack_cache.h"

#include <ucontext.h>

static weft__stack fiber_stack; /* of the fiber that the handler must find */

static bool find_overflowed_fiber(const void *address, const void *sp, weft__overflow_details *out)
{
    if (!weft__stack_guard_contains(&fiber_stack, address))
        return false;
    *out = (weft__overflow_details){42, "greedy", (void *)find_overflowed_fiber,
                                    weft__stack_slot_bytes(&fiber_stack), false};
    return true;
}

/* Remove the handlers of ASan, which would end the program differently. Install the handlers. */
static void install_overflow_handlers(void (*segv)(int))
{
    static weft__overflow_thread thread;
    signal(SIGSEGV, segv);
    signal(SIGBUS, SIG_DFL);
    if (weft__overflow_install(find_overflowed_fiber) < 0 ||
        weft__overflow_thread_open(&thread) < 0)
        _exit(99);
}

static void overflow_stack(void)
{
    descend(0);
}

static ucontext_t outside, inside;

static int overflow_fiber_stack(void)
{
    install_overflow_handlers(SIG_DFL);
    if (weft__stack_acquire(&cache, 64 << 10, &fiber_stack) < 0)
        return 98;
    getcontext(&inside);
    inside.uc_stack.ss_sp = fiber_stack.low;
    inside.uc_stack.ss_size = fiber_stack.bytes;
    makecontext(&inside, overflow_stack, 0);
    return swapcontext(&outside, &inside);
}

TEST(an_overflow_is_reported_once_and_kills_the_program)
{
    const outcome *o = run_apart(overflow_fiber_stack);
    ck_assert_int_eq(o->status, -SIGSEGV);
    assert_printed(o, "weft: stack overflow in fiber #42 'greedy', which runs ");
    assert_printed(o, "weft: the stack has 64 KiB; set a larger .stack_bytes "
                      "in weft_spin_options, or WEFT_STACK=128K in the environment\n");
    ck_assert_uint_eq(count_in(o->text, "overflow in fiber"), 1);
}

static void fault_elsewhere(void)
{
    char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)nowhere = 1;
}

TEST_PROGRAM(another_fault_kills_the_program_silently, -SIGSEGV, "")
{
    install_overflow_handlers(SIG_DFL);
    fault_elsewhere();
    return 0;
}

TEST_PROGRAM(a_signal_that_was_sent_still_kills_the_program, -SIGBUS, "")
{
    install_overflow_handlers(SIG_DFL);
    return raise(SIGBUS);
}

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

TEST_PROGRAM(another_fault_calls_the_handler_installed_before, 0, "handled")
{
    struct sigaction action = {.sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
    if (weft__overflow_install(find_overflowed_fiber) < 0)
        return 99;
    fault_elsewhere();
    return 1;
}

TEST_PROGRAM(an_ignored_signal_stays_ignored, 5, "")
{
    install_overflow_handlers(SIG_IGN);
    raise(SIGSEGV);
    return 5;
}

TEST(a_signal_stack_that_the_program_has_is_left_alone)
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

TEST(closing_a_thread_leaves_no_signal_stack_behind)
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
