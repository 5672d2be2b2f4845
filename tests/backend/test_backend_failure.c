/*
 * Tests of a backend that fails at run time: its descriptors are closed, or the kernel refuses its
 * system calls. Timers, deadlines, calls on workers and messages continue, and new operations work.
 * Each program runs in a separate process.
 */
#include "support/seccomp.h"
#include "support/suite.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define FILES 24

static sem_t has_begun, may_end;

static intptr_t block_worker(void *arg)
{
    sem_post(&has_begun);
    while (sem_wait(&may_end) < 0)
        continue;
    return (intptr_t)arg + 1;
}

FIBER(offload_block, weft_offload(block_worker, arg))
FIBER(sleep_20ms, weft_sleep(0.02))

static weft_value wait_for_deadline(void *arg)
{
    int rc = 0;
    WEFT_CANCEL_AFTER(0.02, rc)
        weft_sleep(INFINITY);
    return -rc; /* main would receive an error that is not awaited */
}

static weft_value read_value(void *arg)
{
    char byte;
    ssize_t n = weft_read((int)(intptr_t)arg, &byte, 1);
    return n == 1 ? byte : n;
}

/*
 * As read_value, for a descriptor that may be closed. Return a positive errno, or 1000 plus the
 * byte.
 */
static weft_value read_closed(void *arg)
{
    weft_value value = read_value(arg);
    return weft_is_error(value) ? -value : 1000 + value;
}

/* The main function of another cord. Reply to each message with its value plus 1, until 0. */
static weft_value reply_plus_one(void *arg)
{
    for (weft_value value; (value = weft_receive()) != 0;)
        MUST(weft_tell(arg_id(arg), value + 1) == 0);
    return 5;
}

/* The operations in progress when the backend fails. */
typedef struct pending_work {
    weft_cord cord;
    weft_fiber sleeper, deadline, offloader, reader, closed_reader;
} pending_work;

static void assert_reply(weft_cord cord)
{
    MUST(weft_tell(cord, 41) == 0);
    MUST(weft_receive() == 42);
}

/* The first descriptor that the tests close. */
#define FIRST_CLOSED 4

/* As closefrom(3), which musl lacks. */
static void close_descriptors(void)
{
    if (syscall(SYS_close_range, FIRST_CLOSED, ~0u, 0) < 0)
        for (int fd = FIRST_CLOSED; fd < 4096; fd++)
            close(fd);
}

/* All descriptors of the runtime are below this number. */
#define NUMBERS_MAX 64

/*
 * Start one operation of each kind. Descriptors 0 and 1 become the two ends of a connection.
 * Descriptor 3 becomes one end of a second connection. The test closes the other end later.
 */
static void start_work(pending_work *w)
{
    int fd[2];
    alarm(is_sanitized() ? 60 : 20);
    sem_init(&has_begun, 0, 0);
    sem_init(&may_end, 0, 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    MUST(dup2(fd[0], 0) == 0 && dup2(fd[1], 1) == 1 && close(fd[0]) == 0 && close(fd[1]) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0 && fd[1] > 3);
    if (fd[0] != 3)
        MUST(dup2(fd[0], 3) == 3 && close(fd[0]) == 0);
    w->cord = weft_cord_start(reply_plus_one, id_arg(weft_self()), NULL);
    assert_reply(w->cord);
    w->sleeper = weft_spin(sleep_20ms, NULL);
    w->deadline = weft_spin(wait_for_deadline, NULL);
    w->offloader = weft_spin(offload_block, as_arg(41));
    w->reader = weft_spin(read_value, as_arg(0));
    w->closed_reader = weft_spin(read_closed, as_arg(fd[1]));
    let_run();
    while (sem_wait(&has_begun) < 0)
        continue;
}

/* Assert that the data of a connection is read after the failure. */
static void feed_reader(const pending_work *w)
{
    MUST(write(1, "x", 1) == 1);
    MUST_EQ(weft_await(w->reader), 'x');
}

/* Assert that all operations complete and that new ones work. */
static void finish_work(const pending_work *w)
{
    int fd[2];
    MUST_EQ(weft_await(w->sleeper), 0);
    MUST_EQ(weft_await(w->deadline), ETIMEDOUT);
    sem_post(&may_end);
    MUST_EQ(weft_await(w->offloader), 42);
    assert_reply(w->cord);
    MUST(weft_pipe(fd) == 0);
    weft_fiber reader = weft_spin(read_value, as_arg(fd[0]));
    weft_snooze();
    MUST(weft_write(fd[1], "z", 1) == 1 && weft_await(reader) == 'z');
    MUST(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
    assert_reply(w->cord);
    MUST(weft_tell(w->cord, 0) == 0 && weft_cord_join(w->cord) == 5);
}

/*
 * Define a test. Its body is a program that succeeds, and the runtime prints this number of
 * messages. Any number: -1.
 */
#define SURVIVES(name, messages, message)                                               \
    static int name##_program(void);                                                    \
    TEST(name)                                                                          \
    {                                                                                   \
        const outcome *o = run_apart(name##_program);                                   \
        ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);         \
        ck_assert((messages) < 0 || count_in(o->text, "weft: ") == (size_t)(messages)); \
        assert_printed(o, message);                                                     \
    }                                                                                   \
    static int name##_program(void)

SURVIVES(a_program_that_closes_the_runtimes_descriptors_keeps_running, 1,
         "the program has closed descriptors")
{
    pending_work w;
    start_work(&w);
    close_descriptors();
    MUST_EQ(weft_await(w.closed_reader), EBADF);
    feed_reader(&w);
    finish_work(&w);
    return 0;
}

/*
 * Reuse the runtime's numbers for files of the program. The runtime must not write to or close
 * them.
 */
SURVIVES(the_runtime_does_not_use_descriptor_numbers_that_it_has_lost, 1, "")
{
    pending_work w;
    start_work(&w);
    close_descriptors();
    int files[FILES];
    for (int i = 0; i < FILES; i++)
        MUST((files[i] = memfd_create("file", MFD_CLOEXEC)) >= 0);
    feed_reader(&w);
    finish_work(&w);
    for (int i = 0; i < FILES; i++)
        MUST(lseek(files[i], 0, SEEK_END) == 0);
    weft_cancel(w.closed_reader);
    weft_await(w.closed_reader);
    return 0;
}

/* True if the number refers to an anonymous file of this kind. */
static bool is_anonymous_file(int number, const char *kind)
{
    char link[64] = "";
    const char *path = format("/proc/self/fd/%d", number);
    return readlink(path, link, sizeof link - 1) > 0 && strstr(link, kind) != NULL;
}

/* Move a new descriptor to a number. */
static void move_fd(int fd, int number)
{
    MUST(fd >= 0);
    if (fd != number)
        MUST(dup2(fd, number) == number && close(fd) == 0);
}

/* Open an eventfd or an epoll instance of the program at each number where the runtime had one. */
static void reopen_event_fds(const bool *was_eventfd, const bool *was_epoll)
{
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = FIRST_CLOSED; i < NUMBERS_MAX; i++)
        if (was_eventfd[i])
            move_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), i);
    for (int i = FIRST_CLOSED; i < NUMBERS_MAX; i++)
        if (was_epoll[i])
            move_fd(epoll_create1(EPOLL_CLOEXEC), i);
    for (int i = FIRST_CLOSED; i < NUMBERS_MAX; i++)
        for (int k = FIRST_CLOSED; was_epoll[i] && k < NUMBERS_MAX; k++)
            MUST(!was_eventfd[k] || epoll_ctl(i, EPOLL_CTL_ADD, k, &event) == 0);
}

/*
 * The kernel usually gives a new eventfd the id of the closed one. The program's event loop then
 * looks like the runtime's.
 */
SURVIVES(the_runtime_does_not_use_an_event_loop_of_the_program_at_its_old_numbers, 1, "")
{
    pending_work w;
    bool was_eventfd[NUMBERS_MAX] = {false}, was_epoll[NUMBERS_MAX] = {false};
    start_work(&w);
    for (int i = FIRST_CLOSED; i < NUMBERS_MAX; i++) {
        was_eventfd[i] = is_anonymous_file(i, "[eventfd]");
        was_epoll[i] = is_anonymous_file(i, "[eventpoll]");
    }
    close_descriptors();
    reopen_event_fds(was_eventfd, was_epoll);
    feed_reader(&w);
    finish_work(&w);
    for (int i = FIRST_CLOSED; i < NUMBERS_MAX; i++) {
        uint64_t count;
        struct epoll_event event;
        MUST(!was_eventfd[i] || (read(i, &count, sizeof count) < 0 && errno == EAGAIN));
        MUST(!was_epoll[i] || epoll_wait(i, &event, 1, 0) == 0);
    }
    weft_cancel(w.closed_reader);
    weft_await(w.closed_reader);
    return 0;
}

/* Close the descriptors while all cords sleep. */
static void *close_in_thread(void *arg)
{
    usleep(1000); /* the cords are usually asleep by then, but the test does not depend on it */
    close_descriptors();
    sem_post(&may_end);
    return NULL;
}

SURVIVES(a_sleeping_cord_can_be_woken_after_its_descriptors_were_closed, -1, "")
{
    pending_work w;
    pthread_t thread;
    start_work(&w);
    MUST(pthread_create(&thread, NULL, close_in_thread, NULL) == 0);
    MUST_EQ(weft_await(w.offloader), 42);
    pthread_join(thread, NULL);
    MUST_EQ(weft_await(w.closed_reader), EBADF);
    feed_reader(&w);
    w.offloader = weft_spin(offload_block, as_arg(41));
    finish_work(&w);
    return 0;
}

/* A child of weft_fork closes all descriptors first, as many programs do. */
SURVIVES(a_forked_child_that_closes_all_descriptors_keeps_running, -1, "")
{
    alarm(is_sanitized() ? 60 : 20);
    MUST(weft_sleep(0.001) == 0);
    pid_t pid = weft_fork();
    MUST(pid >= 0);
    if (pid == 0) {
        pending_work w;
        close_descriptors();
        start_work(&w);
        feed_reader(&w);
        weft_cancel(w.closed_reader);
        weft_await(w.closed_reader);
        finish_work(&w);
        _exit(7);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    MUST(weft_sleep(0.001) == 0);
    return 0;
}

#ifdef WEFT_HAS_URING
/* Make the kernel refuse io_uring to all threads. */
static bool forbid_io_uring(void)
{
    return refuse_system_call(SYS_io_uring_setup, EPERM) &&
           refuse_system_call(SYS_io_uring_register, EPERM) &&
           refuse_system_call(SYS_io_uring_enter, EPERM);
}

static int forbid_at_run_time(void)
{
    pending_work w;
    start_work(&w);
    if (strcmp(weft_backend_name(), "io_uring") != 0 || !forbid_io_uring())
        _exit(77);
    MUST_EQ(weft_await(w.reader), -EIO);
    MUST_EQ(weft_await(w.closed_reader), EIO);
    MUST(strcmp(weft_backend_name(), "epoll") == 0);
    finish_work(&w);
    return 0;
}

TEST(when_io_uring_is_refused_at_run_time_another_backend_takes_over)
{
    const outcome *o = run_apart(forbid_at_run_time);
    if (o->status == 77)
        return;
    ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
    ck_assert_uint_eq(count_in(o->text, "weft: "), 1);
    assert_printed(o,
                   "weft: the io_uring backend has failed: Operation not permitted; using epoll");
}
#endif
