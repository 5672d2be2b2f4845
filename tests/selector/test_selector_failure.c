/*
 * Tests of a selector whose backend fails at run time: its descriptors are closed, or the kernel
 * refuses its system calls. Each program runs in a separate process.
 */
#include "selector/selector_support.h"
#include "support/seccomp.h"

#include <semaphore.h>

static sem_t may_return;

static weft_value call_wait(void *arg)
{
    sem_wait(&may_return);
    return (weft_value)arg;
}

/* Operations in progress when the backend fails. Descriptors 0 and 1 are connected. */
typedef struct work {
    weft_selector_op read, wait, sleep, call;
    char data[8];
} work;

static void start_work(work *w)
{
    int fd[2];
    *w = (work){.data = ""};
    alarm(20);
    sem_init(&may_return, 0, 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    MUST(dup2(fd[0], 0) == 0 && dup2(fd[1], 1) == 1 && close(fd[0]) == 0 && close(fd[1]) == 0);
    open_selector();
    MUST(weft_selector_read(selector, &w->read, 0, w->data, 8, CURRENT) == PENDING);
    MUST(weft_selector_wait_fd(selector, &w->wait, 1, POLLIN) == PENDING);
    MUST(weft_selector_sleep(selector, &w->sleep, 0.15) == PENDING);
    MUST(weft_selector_offload(selector, &w->call, call_wait, (void *)42, NULL) == PENDING);
    MUST(weft_selector_poll(selector, 0) == 0);
}

/* New operations work after the failure. */
static void use_anew(void)
{
    weft_selector_op op = {0};
    int fd[2];
    char got[2];
    MUST(pipe(fd) == 0);
    MUST(weft_selector_read(selector, &op, fd[0], got, 2, CURRENT) == PENDING);
    weft_selector_wake(selector);
    MUST(weft_selector_poll(selector, INFINITY) == 0);
    MUST(write(fd[1], "z", 1) == 1);
    MUST(finish(&op, PENDING) == 1);
}

static int close_descriptors_program(void)
{
    work w;
    start_work(&w);
    MUST(syscall(SYS_close_range, 4, ~0u, 0) == 0);
    MUST(finish(&w.sleep, PENDING) == 0); /* longer than the time between two checks */
    MUST(write(1, "abc", 3) == 3);
    MUST(finish(&w.read, PENDING) == 3);
    MUST(write(0, "d", 1) == 1);
    MUST(finish(&w.wait, PENDING) == POLLIN);
    sem_post(&may_return);
    MUST(finish(&w.call, PENDING) == 42);
    use_anew();
    close_selector();
    return 0;
}

TEST(a_host_that_closes_the_descriptors_of_a_selector_keeps_running)
{
    const outcome *o = run_apart(close_descriptors_program);
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    assert_printed(o, "the program has closed descriptors");
}

#ifdef WEFT_HAS_URING
static int forbid_program(void)
{
    work w;
    start_work(&w);
    if (strcmp(weft_selector_backend(selector), "io_uring") != 0 ||
        !refuse_system_call(SYS_io_uring_setup, EPERM) ||
        !refuse_system_call(SYS_io_uring_register, EPERM) ||
        !refuse_system_call(SYS_io_uring_enter, EPERM))
        _exit(77);
    next_op(selector);
    next_op(selector);
    MUST(w.read.result == -EIO && w.wait.result == -EIO);
    MUST(strcmp(weft_selector_backend(selector), "epoll") == 0);
    MUST(finish(&w.sleep, PENDING) == 0);
    sem_post(&may_return);
    MUST(finish(&w.call, PENDING) == 42);
    use_anew();
    close_selector();
    return 0;
}

TEST(when_io_uring_is_refused_another_backend_takes_over)
{
    const outcome *o = run_apart(forbid_program);
    if (o->status == 77)
        return;
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    assert_printed(o, "the io_uring backend has failed: Operation not permitted; using epoll");
}
#endif

/* The operations fail until a descriptor is free. Then the same selector works. */
TEST(a_selector_without_descriptors_works_when_descriptors_are_free_again)
{
    weft_selector_op op = {0};
    struct rlimit limit, none = {0};
    selector = new_selector();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(weft_selector_poll(selector, 0), -EMFILE);
    ck_assert_int_eq(weft_selector_sleep(selector, &op, 0), -EMFILE);
    ck_assert_ptr_null(weft_selector_backend(selector));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(finish(&op, weft_selector_sleep(selector, &op, 0)), 0);
    close_selector();
}
