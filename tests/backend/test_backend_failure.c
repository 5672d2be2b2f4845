/*
 * A backend that fails under the program: its descriptors are closed, or the kernel refuses it from
 * some time on. Timers, deadlines, calls on other threads and messages go on, and what is begun
 * later works. Every program runs in a process of its own.
 */
#include "support.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#define FILES 24

/* In a program: a step that failed is its status. */
#define STEP_EQ(value, expected)                                           \
    do {                                                                   \
        long is = (long)(value);                                           \
        if (is != (expected)) {                                            \
            fprintf(stderr, "line %d: %s is %ld\n", __LINE__, #value, is); \
            _exit(99);                                                     \
        }                                                                  \
    } while (0)
#define STEP(condition)                                             \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            _exit(99);                                              \
        }                                                           \
    } while (0)

static sem_t has_begun, may_end;

static intptr_t block(void *arg)
{
    sem_post(&has_begun);
    while (sem_wait(&may_end) < 0)
        continue;
    return (intptr_t)arg + 1;
}

static weft_value offload_it(void *arg)
{
    return weft_offload(block, arg);
}

static weft_value sleep_a_little(void *arg)
{
    (void)arg;
    return weft_sleep(0.02);
}

static weft_value wait_for_a_deadline(void *arg)
{
    (void)arg;
    int rc = 0;
    WEFT_CANCEL_AFTER(0.02, rc) {
        weft_sleep(INFINITY);
    }
    return -rc; /* an error would go to main */
}

static weft_value read_one(void *arg)
{
    char byte;
    ssize_t n = weft_read((int)(intptr_t)arg, &byte, 1);
    return n == 1 ? byte : n;
}

/* The same, for which an error is a value as well. */
static weft_value read_lost(void *arg)
{
    weft_value value = read_one(arg);
    return weft_is_error(value) ? -value : 1000 + value;
}

/* In another cord, which sleeps: answers each message with one more, until 0. */
static weft_value answer(void *arg)
{
    for (weft_value value; (value = weft_receive()) != 0;)
        STEP(weft_tell(arg_id(arg), value + 1) == 0);
    return 5;
}

/* What is under way when the backend fails. */
typedef struct works {
    weft_cord cord;
    weft_fiber sleeper, deadline, offloader, reader, closed_reader;
} works;

static void has_an_answer(weft_cord cord)
{
    if (cord == 0)
        return;
    STEP(weft_tell(cord, 41) == 0);
    STEP(weft_receive() == 42);
}

/*
 * By poll, libev ends the process if another thread closes what it waits for; by select it forgets
 * it. Only tests use these methods.
 */
static bool is_libev_method(void)
{
    return strncmp(weft_backend_name(), "libev-", 6) == 0;
}

/* The first number that the tests close. */
#define FIRST_CLOSED 4

/* As closefrom(3), which musl lacks. */
static void close_numbers(void)
{
    if (syscall(SYS_close_range, FIRST_CLOSED, ~0u, 0) < 0)
        for (int fd = FIRST_CLOSED; fd < 4096; fd++)
            close(fd);
}

/* The numbers among which the runtime has its own. */
#define NUMBERS 64

/*
 * Descriptors 0 and 1 become the two ends of a connection. Descriptor 3 becomes one end of another,
 * whose other end is closed later.
 */
static void begin_works(works *w)
{
    int fd[2];
    alarm(is_sanitized() ? 60 : 20);
    sem_init(&has_begun, 0, 0);
    sem_init(&may_end, 0, 0);
    STEP(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    STEP(dup2(fd[0], 0) == 0 && dup2(fd[1], 1) == 1 && close(fd[0]) == 0 && close(fd[1]) == 0);
    STEP(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0 && fd[1] > 3);
    if (fd[0] != 3)
        STEP(dup2(fd[0], 3) == 3 && close(fd[0]) == 0);
    w->cord = is_libev_method() ? 0 : weft_cord_start(answer, id_arg(weft_self()), NULL);
    has_an_answer(w->cord);
    w->sleeper = weft_spin(sleep_a_little, NULL);
    w->deadline = weft_spin(wait_for_a_deadline, NULL);
    w->offloader = weft_spin(offload_it, as_arg(41));
    w->reader = weft_spin(read_one, as_arg(0));
    w->closed_reader = weft_spin(read_lost, as_arg(fd[1]));
    let_run();
    while (sem_wait(&has_begun) < 0)
        continue;
}

/* They have gone on, and new ones work. */
static void end_works(const works *w)
{
    int fd[2];
    STEP_EQ(weft_await(w->sleeper), 0);
    STEP_EQ(weft_await(w->deadline), ETIMEDOUT);
    sem_post(&may_end);
    STEP_EQ(weft_await(w->offloader), 42);
    has_an_answer(w->cord);
    STEP(weft_pipe(fd) == 0);
    weft_fiber reader = weft_spin(read_one, as_arg(fd[0]));
    weft_snooze();
    STEP(weft_write(fd[1], "z", 1) == 1 && weft_await(reader) == 'z');
    STEP(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
    has_an_answer(w->cord);
    STEP(w->cord == 0 || (weft_tell(w->cord, 0) == 0 && weft_cord_join(w->cord) == 5));
}

static int close_all(void)
{
    works w;
    begin_works(&w);
    close_numbers();
    STEP_EQ(weft_await(w.closed_reader), EBADF);
    STEP(write(1, "x", 1) == 1);
    STEP_EQ(weft_await(w.reader), 'x');
    end_works(&w);
    return 0;
}

START_TEST(a_program_that_closes_the_runtimes_descriptors_goes_on)
{
    const outcome *o = run_apart(close_all);
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    ck_assert_uint_eq(count_in(o->text, "weft: "), 1);
    assert_said(o, "the program has closed descriptors");
}
END_TEST

/* The numbers that the runtime had are files of the program's, which nobody writes to or closes. */
static int close_all_and_use_the_numbers(void)
{
    works w;
    begin_works(&w);
    close_numbers();
    int files[FILES];
    for (int i = 0; i < FILES; i++)
        STEP((files[i] = memfd_create("file", MFD_CLOEXEC)) >= 0);
    STEP(write(1, "x", 1) == 1);
    STEP_EQ(weft_await(w.reader), 'x');
    end_works(&w);
    for (int i = 0; i < FILES; i++)
        STEP(lseek(files[i], 0, SEEK_END) == 0);
    weft_fiber closed = w.closed_reader;
    weft_cancel(closed);
    weft_await(closed);
    return 0;
}

START_TEST(numbers_that_the_runtime_had_are_not_written_to_or_closed_later)
{
    const outcome *o = run_apart(close_all_and_use_the_numbers);
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    ck_assert_uint_eq(count_in(o->text, "weft: "), 1);
}
END_TEST

/* Is the number that of an anonymous file of this kind? */
static bool is_kind(int number, const char *kind)
{
    char path[40], link[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    return readlink(path, link, sizeof link - 1) > 0 && strstr(link, kind) != NULL;
}

/* Give a new descriptor this number. */
static void move_to(int fd, int number)
{
    STEP(fd >= 0);
    if (fd != number)
        STEP(dup2(fd, number) == number && close(fd) == 0);
}

/* The program opens an eventfd for each that the runtime had, and an epoll likewise. */
static void open_the_same(const bool *was_eventfd, const bool *was_epoll)
{
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = FIRST_CLOSED; i < NUMBERS; i++)
        if (was_eventfd[i])
            move_to(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), i);
    for (int i = FIRST_CLOSED; i < NUMBERS; i++)
        if (was_epoll[i])
            move_to(epoll_create1(EPOLL_CLOEXEC), i);
    for (int i = FIRST_CLOSED; i < NUMBERS; i++)
        for (int k = FIRST_CLOSED; was_epoll[i] && k < NUMBERS; k++)
            STEP(!was_eventfd[k] || epoll_ctl(i, EPOLL_CTL_ADD, k, &event) == 0);
}

/*
 * The kernel gives a new eventfd the lowest id that is free, mostly that of the one that was
 * closed: the program's loop looks like the runtime's.
 */
static int close_all_and_open_an_event_loop(void)
{
    works w;
    bool was_eventfd[NUMBERS] = {false}, was_epoll[NUMBERS] = {false};
    begin_works(&w);
    for (int i = FIRST_CLOSED; i < NUMBERS; i++) {
        was_eventfd[i] = is_kind(i, "[eventfd]");
        was_epoll[i] = is_kind(i, "[eventpoll]");
    }
    close_numbers();
    open_the_same(was_eventfd, was_epoll);
    STEP(write(1, "x", 1) == 1);
    STEP_EQ(weft_await(w.reader), 'x');
    end_works(&w);
    for (int i = FIRST_CLOSED; i < NUMBERS; i++) {
        uint64_t count;
        struct epoll_event event;
        STEP(!was_eventfd[i] || (read(i, &count, sizeof count) < 0 && errno == EAGAIN));
        STEP(!was_epoll[i] || epoll_wait(i, &event, 1, 0) == 0);
    }
    weft_cancel(w.closed_reader);
    weft_await(w.closed_reader);
    return 0;
}

START_TEST(an_event_loop_that_the_program_opens_with_the_same_numbers_is_left_alone)
{
    const outcome *o = run_apart(close_all_and_open_an_event_loop);
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    ck_assert_uint_eq(count_in(o->text, "weft: "), 1);
}
END_TEST

/* Another thread closes them, while all cords sleep. */
static void *close_from_outside(void *arg)
{
    (void)arg;
    usleep(1000); /* by then they are asleep, most likely; it works if not, too */
    close_numbers();
    sem_post(&may_end);
    return NULL;
}

static int close_all_in_another_thread(void)
{
    works w;
    pthread_t thread;
    begin_works(&w);
    if (is_libev_method())
        _exit(0);
    STEP(pthread_create(&thread, NULL, close_from_outside, NULL) == 0);
    STEP_EQ(weft_await(w.offloader), 42);
    pthread_join(thread, NULL);
    STEP_EQ(weft_await(w.closed_reader), EBADF);
    STEP(write(1, "x", 1) == 1);
    STEP_EQ(weft_await(w.reader), 'x');
    w.offloader = weft_spin(offload_it, as_arg(41));
    end_works(&w);
    return 0;
}

START_TEST(a_sleeping_cord_is_woken_though_its_descriptors_are_closed)
{
    const outcome *o = run_apart(close_all_in_another_thread);
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
}
END_TEST

/* A child by weft_fork begins with closefrom, as many do. */
static int close_all_in_a_child(void)
{
    alarm(is_sanitized() ? 60 : 20);
    STEP(weft_sleep(0.001) == 0);
    pid_t pid = weft_fork();
    STEP(pid >= 0);
    if (pid == 0) {
        works w;
        close_numbers();
        begin_works(&w);
        STEP(write(1, "x", 1) == 1);
        STEP_EQ(weft_await(w.reader), 'x');
        weft_cancel(w.closed_reader);
        weft_await(w.closed_reader);
        end_works(&w);
        _exit(7);
    }
    int status;
    STEP(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    STEP(weft_sleep(0.001) == 0);
    return 0;
}

START_TEST(a_child_that_closes_all_descriptors_goes_on)
{
    const outcome *o = run_apart(close_all_in_a_child);
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
}
END_TEST

#ifdef WEFT_HAS_URING
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP_IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))

/* From now on the kernel refuses io_uring, to all threads. */
static bool forbid_io_uring(void)
{
    struct sock_filter filter[] = {
        LOAD(arch),
        JUMP_IF(THIS_ARCH, 0, 4),
        LOAD(nr),
        JUMP_IF(__NR_io_uring_setup, 3, 0),
        JUMP_IF(__NR_io_uring_enter, 2, 0),
        JUMP_IF(__NR_io_uring_register, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {COUNT_OF(filter), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static int forbid_later(void)
{
    works w;
    begin_works(&w);
    if (strcmp(weft_backend_name(), "io_uring") != 0 || !forbid_io_uring())
        _exit(77);
    STEP_EQ(weft_await(w.reader), -EIO);
    STEP_EQ(weft_await(w.closed_reader), EIO);
    STEP(strcmp(weft_backend_name(), "epoll") == 0);
    end_works(&w);
    return 0;
}

START_TEST(where_io_uring_is_refused_from_some_time_on_another_backend_is_used)
{
    const outcome *o = run_apart(forbid_later);
    if (o->status == 77)
        return;
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    ck_assert_uint_eq(count_in(o->text, "weft: "), 1);
    assert_said(o, "weft: the io_uring backend has failed: Operation not permitted; using epoll");
}
END_TEST
#endif

static const TTest *const *const tests[] = {
    &a_program_that_closes_the_runtimes_descriptors_goes_on,
    &numbers_that_the_runtime_had_are_not_written_to_or_closed_later,
    &an_event_loop_that_the_program_opens_with_the_same_numbers_is_left_alone,
    &a_sleeping_cord_is_woken_though_its_descriptors_are_closed,
    &a_child_that_closes_all_descriptors_goes_on,
#ifdef WEFT_HAS_URING
    &where_io_uring_is_refused_from_some_time_on_another_backend_is_used,
#endif
};

int main(void)
{
    return run_suite("broken", tests, COUNT_OF(tests));
}
