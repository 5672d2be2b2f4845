/* Signal handlers: hooks inside handlers, interruption of waits, and what sigaction returns. */
#include "posix/posix_support.h"

#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

FIXTURE(adopt_program, NULL)

static int handled; /* calls of the handlers */

static void count_signal(int signal)
{
    handled++;
}

static void count_signal_info(int signal, siginfo_t *info, void *context)
{
    handled += signal == SIGUSR1 && info->si_pid == getpid() && context != NULL;
}

static void install(int flags)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

/*
 * Interruption.
 */

static weft_value raise_in_fiber(void *arg)
{
    return raise(SIGUSR1);
}

/* Return the error of a long sleep. */
static weft_value sleep_long(void *arg)
{
    struct timespec time = {.tv_sec = 1000};
    return nanosleep(&time, NULL) == 0 ? 0 : -errno;
}

TEST(a_handler_ends_the_sleeps_of_all_fibers_of_its_thread)
{
    install(SA_RESTART);
    weft_fiber a = weft_spin(sleep_long, NULL), b = weft_spin(sleep_long, NULL);
    weft_snooze();
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert_int_eq(weft_await(a), -EINTR);
    ck_assert_int_eq(weft_await(b), -EINTR);
    ck_assert_int_eq(handled, 1);
    ck_assert_uint_eq(posix_stats().interrupts, 2);
}

/* The main fiber does not await this fiber at once, so an error would end the wait of main. */
static weft_value sleep_long_and_return_errno(void *arg)
{
    return -sleep_long(NULL);
}

/* The message that ends the waits is still in the inbox of the thread when weft_fork empties it. */
TEST(a_handler_ends_waits_in_a_child_of_weft_fork_too)
{
    install(0);
    weft_fiber f = weft_spin(sleep_long, NULL);
    weft_snooze();
    ck_assert_int_eq(raise(SIGUSR1), 0);
    pid_t pid = weft_fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        weft_after(0.001, raise_in_fiber, NULL);
        _exit(sleep_long(NULL) == -EINTR ? 7 : 1);
    }
    int status;
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
}

TEST(a_handler_does_not_end_a_wait_that_begins_later)
{
    install(0);
    weft_fiber earlier = weft_spin(sleep_long_and_return_errno, NULL);
    weft_snooze();
    ck_assert_int_eq(raise(SIGUSR1), 0);
    struct timespec time = {.tv_nsec = 1000000};
    ck_assert_int_eq(nanosleep(&time, NULL), 0);
    ck_assert_int_eq(weft_await(earlier), EINTR);
}

static weft_value wait_for_child(void *arg)
{
    int status;
    pid_t pid = waitpid((pid_t)(intptr_t)arg, &status, 0);
    return pid < 0 ? -errno : status;
}

TEST(a_handler_without_SA_RESTART_ends_a_wait_for_a_child_and_the_status_remains)
{
    install(0);
    int end;
    pid_t pid = start_waiting_child(&end);
    weft_fiber f = weft_spin(wait_for_child, (void *)(intptr_t)pid);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), -EINTR);
    close(end);
    ck_assert_int_eq(wait_for_child((void *)(intptr_t)pid), 7 << 8);
}

TEST(a_handler_with_SA_RESTART_does_not_end_a_wait_for_a_child)
{
    install(SA_RESTART);
    int end;
    pid_t pid = start_waiting_child(&end);
    weft_fiber f = weft_spin(wait_for_child, (void *)(intptr_t)pid);
    weft_fiber sleeper = weft_spin(sleep_long, NULL);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(sleeper), -EINTR);
    close(end);
    ck_assert_int_eq(weft_await(f), 7 << 8);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */

TEST(siginterrupt_changes_the_effect_of_a_handler)
{
    signal(SIGUSR1, count_signal);
    ck_assert_int_eq(siginterrupt(SIGUSR1, 1), 0);
    int end;
    pid_t pid = start_waiting_child(&end);
    weft_fiber f = weft_spin(wait_for_child, (void *)(intptr_t)pid);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), -EINTR);
    close(end);
    ck_assert_int_eq(wait_for_child((void *)(intptr_t)pid), 7 << 8);
}

static sem_t semaphore;

static weft_value wait_for_semaphore(void *arg)
{
    return sem_wait(&semaphore) == 0 ? 0 : -errno;
}

static void post_semaphore(int signal)
{
    sem_post(&semaphore);
}

TEST(a_handler_ends_a_wait_for_a_semaphore)
{
    install(0);
    sem_init(&semaphore, 0, 0);
    weft_fiber f = weft_spin(wait_for_semaphore, NULL);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_uint_eq(posix_stats().lock_waits, 1);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

TEST(a_handler_that_posts_a_semaphore_wakes_its_waiter)
{
    struct sigaction action = {.sa_handler = post_semaphore};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    sem_init(&semaphore, 0, 0);
    weft_fiber f = weft_spin(wait_for_semaphore, NULL);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(a_handler_with_SA_RESTART_does_not_end_a_wait_for_a_semaphore)
{
    install(SA_RESTART);
    sem_init(&semaphore, 0, 0);
    weft_fiber f = weft_spin(wait_for_semaphore, NULL);
    weft_fiber sleeper = weft_spin(sleep_long, NULL);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(sleeper), -EINTR);
    sem_post(&semaphore);
    ck_assert_int_eq(weft_await(f), 0);
}

#define IDLE_ROUNDS 200

static atomic_bool is_idle;
static atomic_int idle_round;
static pthread_t main_thread;

static void note_idle(void *arg)
{
    atomic_store(&is_idle, true);
}

/* Send one signal in each round, when the thread is about to wait. */
static void *signal_idle_thread(void *arg)
{
    for (int i = 1; i <= IDLE_ROUNDS; i++) {
        while (atomic_load(&idle_round) != i || !atomic_load(&is_idle))
            sched_yield();
        pthread_kill(main_thread, SIGUSR1);
    }
    return NULL;
}

TEST(a_signal_of_another_thread_is_not_lost_while_the_thread_goes_to_sleep)
{
    install(0);
    main_thread = pthread_self();
    weft_on_idle(note_idle, NULL);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, signal_idle_thread, NULL), 0);
    for (int i = 1; i <= IDLE_ROUNDS; i++) {
        atomic_store(&is_idle, false);
        atomic_store(&idle_round, i);
        ck_assert_int_eq(sleep_long(NULL), -EINTR);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(handled, IDLE_ROUNDS);
}

/*
 * Inside handlers.
 */

static void sleep_in_handler(int signal)
{
    struct timespec time = {.tv_nsec = 1000000};
    ck_assert_int_eq(nanosleep(&time, NULL), 0);
    mark("handler ");
}

static weft_value mark_fiber(void *arg)
{
    mark("fiber ");
    return 0;
}

TEST(hooks_are_off_in_a_handler)
{
    signal(SIGUSR1, sleep_in_handler);
    weft_spin(mark_fiber, NULL);
    raise(SIGUSR1);
    ck_assert_trail("handler ");
    ck_assert_uint_eq(posix_stats().waits, 0);
    ck_assert_int_eq(weft_await_children(), 0);
}

static void change_errno(int signal)
{
    errno = EXDEV;
}

TEST(a_handler_changes_errno_only_if_it_writes_errno)
{
    install(0);
    weft_snooze();
    errno = ENOENT;
    raise(SIGUSR1);
    ck_assert_int_eq(errno, ENOENT);
    signal(SIGUSR1, change_errno);
    raise(SIGUSR1);
    ck_assert_int_eq(errno, EXDEV);
}

/* Return whether a sleep waits with weft. */
static bool sleep_waits_with_weft(void)
{
    struct timespec time = {.tv_nsec = 1000};
    uint64_t before = posix_stats().waits;
    ck_assert_int_eq(nanosleep(&time, NULL), 0);
    return posix_stats().waits == before + 1;
}

static sigjmp_buf jump_buffer;

static void leave_by_jump(int signal)
{
    siglongjmp(jump_buffer, 5);
}

TEST(hooks_are_on_after_a_jump_out_of_a_handler)
{
    signal(SIGUSR1, leave_by_jump);
    weft_snooze();
    for (volatile int round = 0; round < 3; round++) {
        int value = sigsetjmp(jump_buffer, 1);
        if (value == 0)
            raise(SIGUSR1);
        ck_assert_int_eq(value, 5);
        ck_assert(sleep_waits_with_weft());
    }
}

TEST(a_handler_may_jump_out_of_a_wait)
{
    signal(SIGUSR1, leave_by_jump); /* with SA_RESTART, which does not keep the wait */
    weft_snooze();
    int end, fds = count_descriptors();
    pid_t pid = start_waiting_child(&end);
    main_thread = pthread_self();
    weft_on_idle(note_idle, NULL);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, signal_idle_thread, NULL), 0);
    for (volatile int i = 1; i <= IDLE_ROUNDS; i++) {
        atomic_store(&is_idle, false);
        int value = sigsetjmp(jump_buffer, 1);
        if (value == 0) {
            atomic_store(&idle_round, i);
            wait_for_child((void *)(intptr_t)pid);
        }
        ck_assert_int_eq(value, 5);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close(end);
    ck_assert_int_eq(wait_for_child((void *)(intptr_t)pid), 7 << 8);
    ck_assert_int_eq(count_descriptors(), fds);
}

static void exit_in_handler(int signal)
{
    exit(3);
}

TEST_PROGRAM(a_handler_may_end_the_process_during_a_wait, 3, "")
{
    adopt_program();
    struct itimerval soon = {.it_value.tv_usec = 1000};
    signal(SIGALRM, exit_in_handler);
    setitimer(ITIMER_REAL, &soon, NULL);
    sleep_long(NULL);
    return 0;
}

static void jump_inside(int signal)
{
    jmp_buf buffer;
    if (setjmp(buffer) == 0)
        longjmp(buffer, 1);
    handled += !sleep_waits_with_weft();
}

TEST(hooks_stay_off_after_a_jump_inside_a_handler)
{
    if (is_sanitized())
        return; /* ASan moves the buffer to the heap */
    signal(SIGUSR1, jump_inside);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(handled, 1);
    ck_assert(sleep_waits_with_weft());
}

static void leave_inner_handler(int signal)
{
    if (signal == SIGUSR2)
        siglongjmp(jump_buffer, 1);
    if (sigsetjmp(jump_buffer, 1) == 0)
        raise(SIGUSR2);
    mark("outer ");
}

TEST(a_jump_to_a_static_buffer_turns_hooks_on_and_the_outer_handler_ends)
{
    signal(SIGUSR1, leave_inner_handler);
    signal(SIGUSR2, leave_inner_handler);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_trail("outer ");
    ck_assert(sleep_waits_with_weft());
}

/*
 * Actions.
 */

TEST(sigaction_returns_the_action_of_the_program)
{
    struct sigaction plain = {.sa_handler = count_signal, .sa_flags = SA_RESTART | SA_NODEFER};
    struct sigaction info = {.sa_sigaction = count_signal_info, .sa_flags = SA_SIGINFO};
    struct sigaction old;
    sigaddset(&plain.sa_mask, SIGUSR2);
    ck_assert_int_eq(sigaction(SIGUSR1, &plain, &old), 0);
    ck_assert_ptr_eq((void *)(uintptr_t)old.sa_handler, (void *)(uintptr_t)SIG_DFL);
    ck_assert_int_eq(sigaction(SIGUSR1, &info, &old), 0);
    ck_assert(old.sa_handler == count_signal);
    ck_assert_int_eq(old.sa_flags & (SA_RESTART | SA_NODEFER | SA_SIGINFO),
                     SA_RESTART | SA_NODEFER);
    ck_assert_int_eq(sigismember(&old.sa_mask, SIGUSR2), 1);
    ck_assert_int_eq(sigaction(SIGUSR1, NULL, &old), 0);
    ck_assert(old.sa_sigaction == count_signal_info);
    ck_assert_int_ne(old.sa_flags & SA_SIGINFO, 0);
    raise(SIGUSR1);
    ck_assert_int_eq(handled, 1);
}

TEST(signal_returns_the_handler_of_the_program)
{
    ck_assert(signal(SIGUSR1, count_signal) == SIG_DFL);
    ck_assert(signal(SIGUSR1, SIG_IGN) == count_signal);
    ck_assert(signal(SIGUSR1, change_errno) == SIG_IGN);
    ck_assert(signal(SIGUSR1, SIG_DFL) == change_errno);
    ck_assert(signal(SIGKILL, count_signal) == SIG_ERR);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert(signal(1000, count_signal) == SIG_ERR);
}

TEST(a_failed_sigaction_keeps_the_handler)
{
    install(0);
    struct sigaction action = {.sa_handler = change_errno};
    ck_assert_int_eq(sigaction(SIGKILL, &action, NULL), -1);
    ck_assert_int_eq(sigaction(-1, &action, NULL), -1);
    ck_assert_int_eq(sigaction(_NSIG, &action, NULL), -1);
    raise(SIGUSR1);
    ck_assert_int_eq(handled, 1);
}

TEST(a_handler_with_SA_RESETHAND_runs_once)
{
    install((int)SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction action;
    ck_assert_int_eq(sigaction(SIGUSR1, NULL, &action), 0);
    ck_assert(action.sa_handler == SIG_DFL);
    ck_assert_int_eq(handled, 1);
}

static char *stack_low;
static bool is_on_alternate_stack;

static void note_stack(int signal)
{
    char *here = __builtin_frame_address(0);
    is_on_alternate_stack = here > stack_low && here < stack_low + (1 << 16);
}

TEST(a_handler_with_SA_ONSTACK_runs_on_the_alternate_stack)
{
    stack_low = malloc(1 << 16);
    stack_t stack = {.ss_sp = stack_low, .ss_size = 1 << 16}, old;
    ck_assert_int_eq(sigaltstack(&stack, &old), 0);
    struct sigaction action = {.sa_handler = note_stack, .sa_flags = SA_ONSTACK};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    ck_assert(is_on_alternate_stack);
    ck_assert_int_eq(sigaltstack(&old, NULL), 0);
    free(stack_low);
}

static void nest(int signal)
{
    if (++handled < 3)
        raise(signal);
}

TEST(a_handler_with_SA_NODEFER_nests)
{
    struct sigaction action = {.sa_handler = nest, .sa_flags = SA_NODEFER};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    weft_snooze();
    raise(SIGUSR1);
    ck_assert_int_eq(handled, 3);
    ck_assert(sleep_waits_with_weft());
}
