/*
 * Tests of backends on kernel descriptors that the backend did not create. A blocking descriptor of
 * any kind must not block the thread. The program may close and reuse a number without the backend.
 */
#include "backend/backend_harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static intptr_t start_accept(test_op *t, int fd)
{
    return start_op(t, (weft__op){.code = WEFT__OP_ACCEPT, .fd = fd});
}

static intptr_t start_connect(test_op *t, int fd, const void *address, socklen_t bytes)
{
    return start_op(t,
                    (weft__op){.code = WEFT__OP_CONNECT, .fd = fd, .u.connect = {address, bytes}});
}

enum { TCP, UNIX };

typedef struct listener {
    int fd;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    } address;
    socklen_t bytes;
} listener;

static listener listen_on(int kind, int flags, int backlog)
{
    listener l = {.bytes = sizeof(struct sockaddr_in)};
    l.address.any.sa_family = kind == TCP ? AF_INET : AF_UNIX;
    if (kind == TCP)
        l.address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else /* with the family alone, the kernel chooses an abstract name */
        l.bytes = sizeof(sa_family_t);
    l.fd = socket(l.address.any.sa_family, SOCK_STREAM | flags, 0);
    ck_assert_int_eq(bind(l.fd, &l.address.any, l.bytes), 0);
    ck_assert_int_eq(listen(l.fd, backlog), 0);
    l.bytes = sizeof l.address;
    ck_assert_int_eq(getsockname(l.fd, &l.address.any, &l.bytes), 0);
    return l;
}

/* The bits of _i: the kind of socket, and whether O_NONBLOCK is set. */
#define LOOP_KIND (_i & 1)
#define LOOP_FLAGS (_i & 2 ? SOCK_NONBLOCK : 0)
#define LOOP_COUNT 4

TEST_LOOP(an_accept_waits_for_a_connect, LOOP_COUNT)
{
    listener l = listen_on(LOOP_KIND, LOOP_FLAGS, 8);
    test_op accept = {0}, connect = {0};
    ck_assert(start_accept(&accept, l.fd) == WEFT__OP_PENDING);
    int client = socket(l.address.any.sa_family, SOCK_STREAM | LOOP_FLAGS, 0);
    int flags = fcntl(client, F_GETFL);
    intptr_t rc = start_connect(&connect, client, &l.address.any, l.bytes);
    ck_assert_int_eq(finish_op(&connect, rc), 0);
    ck_assert_int_eq(fcntl(client, F_GETFL), flags);
    int server = (int)finish_op(&accept, WEFT__OP_PENDING);
    ck_assert_int_ge(server, 0);
    ck_assert_int_ne(fcntl(server, F_GETFD) & FD_CLOEXEC, 0);

    char got[8] = "";
    test_op read = {0};
    ck_assert(start_read(&read, server, got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(client, "hello", 5), 5);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 5);
    ck_assert_str_eq(got, "hello");
    backend_close_pair((int[]){client, server});
    ck_assert_int_eq(type->close_fd(backend, l.fd), 0);
}

TEST(accept_returns_the_address_of_the_peer)
{
    listener l = listen_on(TCP, 0, 8);
    struct sockaddr_in from, own;
    socklen_t bytes = sizeof from, own_bytes = sizeof own;
    test_op accept = {0}, connect = {0};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    weft__op op = {.code = WEFT__OP_ACCEPT, .fd = l.fd};
    op.u.accept.address = (struct sockaddr *)&from;
    op.u.accept.bytes = &bytes;
    intptr_t accepted = start_op(&accept, op);
    finish_op(&connect, start_connect(&connect, client, &l.address.any, l.bytes));
    int server = (int)finish_op(&accept, accepted);
    ck_assert_int_eq(getsockname(client, (struct sockaddr *)&own, &own_bytes), 0);
    ck_assert_int_eq(from.sin_port, own.sin_port);
    backend_close_pair((int[]){client, server});
    ck_assert_int_eq(type->close_fd(backend, l.fd), 0);
}

TEST_LOOP(a_connect_without_a_listener_is_refused, LOOP_COUNT)
{
    listener l = listen_on(LOOP_KIND, 0, 1);
    close(l.fd);
    int client = socket(l.address.any.sa_family, SOCK_STREAM | LOOP_FLAGS, 0);
    test_op connect = {0};
    intptr_t rc = start_connect(&connect, client, &l.address.any, l.bytes);
    ck_assert_int_eq(finish_op(&connect, rc), -ECONNREFUSED);
    ck_assert_int_eq(type->close_fd(backend, client), 0);
}

TEST(a_connect_waits_for_room_in_a_full_backlog)
{
    enum { CLIENTS = 5 };
    listener l = listen_on(UNIX, 0, 0);
    test_op connect[CLIENTS] = {{.is_done = false}};
    int client[CLIENTS];
    intptr_t rc[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        client[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        rc[i] = start_connect(&connect[i], client[i], &l.address.any, l.bytes);
    }
    ck_assert_int_eq(finish_op(&connect[0], rc[0]), 0);
    ck_assert(try_finish_op(&connect[1], rc[1]) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, client[4]), 0);
    ck_assert_int_eq(finish_op(&connect[4], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(cancel_op(&connect[3]), -ECANCELED);
    close(client[3]);
    for (int i = 0; i < 3; i++) {
        test_op accept = {0};
        int server = (int)finish_op(&accept, start_accept(&accept, l.fd));
        ck_assert_int_ge(server, 0);
        ck_assert_int_eq(finish_op(&connect[i], rc[i]), 0);
        backend_close_pair((int[]){client[i], server});
    }
    ck_assert_int_eq(type->close_fd(backend, l.fd), 0);
}

TEST(accept_on_a_descriptor_that_does_not_listen_fails_immediately)
{
    int fd[2];
    test_op accept = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(finish_op(&accept, start_accept(&accept, fd[0])), -ENOTSOCK);
    backend_close_pair(fd);
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert_int_eq(finish_op(&accept, start_accept(&accept, fd[0])), -EINVAL);
    backend_close_pair(fd);
}

/* Open a pair at the numbers that were just closed. */
static void reopen_pair(int kind, int fd[2])
{
    int numbers[2] = {fd[0], fd[1]};
    int rc = kind ? type->socketpair(backend, fd) : type->pipe(backend, fd);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(fd[0], numbers[0]);
    ck_assert_int_eq(fd[1], numbers[1]);
}

/*
 * Guaranteed only for new numbers from the backend. The backend may mistake other new files for the
 * old file.
 */
TEST(a_number_that_was_closed_without_the_backend_works_for_its_new_file)
{
    int fd[2];
    char got[8];
    ck_assert_int_eq(pipe(fd), 0);
    for (int round = 0; round < 6; round++) {
        test_op read = {0}, write = {0};
        static const char block[4096];
        ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
        ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
        ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
        size_t filled = fill_pending(&write, fd[1], block, sizeof block);
        drain_bytes(fd[0], filled);
        ck_assert_int_gt(finish_op(&write, WEFT__OP_PENDING), 0);
        close(fd[0]);
        ck_assert_int_eq(write_now(fd[1], block, 1), -EPIPE);
        close(fd[1]);
        reopen_pair(round & 1, fd);
    }
    backend_close_pair(fd);
}

/* A readiness wait does not use cached state of the number. */
TEST(an_event_of_a_file_that_lost_its_number_is_dropped)
{
    int old[2], new[2];
    char got[8] = "";
    test_op read = {0}, wait = {0};
    ck_assert_int_eq(pipe(old), 0);
    ck_assert(start_read(&read, old[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&read), -ECANCELED);
    int duplicate = dup(old[0]); /* keeps the file open, with its registration */
    ck_assert_int_eq(pipe(new), 0);
    ck_assert_int_eq(dup2(new[0], old[0]), old[0]);
    ck_assert(start_wait(&wait, old[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(old[1], "stale", 5), 5);
    type->poll(backend, 0);
    ck_assert(!wait.is_done);
    ck_assert_int_eq(write(new[1], "new", 3), 3);
    ck_assert_int_eq(finish_op(&wait, WEFT__OP_PENDING), POLLIN);
    ck_assert_int_eq(read_now(old[0], got, 8), 3);
    ck_assert_str_eq(got, "new");
    /*
     * Move the first file back. Its epoll registration for this number still exists, but the
     * backend has dropped its state.
     */
    ck_assert_int_eq(type->close_fd(backend, old[0]), 0);
    ck_assert_int_eq(dup2(duplicate, old[0]), old[0]);
    ck_assert_int_eq(read_now(old[0], got, 8), 5);
    ck_assert(start_read(&read, old[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(old[1], "back", 4), 4);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 4);
    backend_close_pair(old);
    backend_close_pair(new);
    close(duplicate);
}

TEST(a_closed_descriptor_with_a_duplicate_causes_no_wakeups)
{
    int fd[2];
    char got[8];
    test_op read = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    int duplicate = dup(fd[0]);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    int64_t before = type->now_ns(backend);
    ck_assert_int_eq(type->poll(backend, 20000000), 0);
    ck_assert_int_ge(type->now_ns(backend), before + 20000000);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    close(duplicate);
}

TEST(regular_files_are_read_and_written_but_not_waited_on)
{
    char path[] = "/tmp/weft-test-XXXXXX", got[16] = "";
    static const char block[100000];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    test_op t = {0};
    ck_assert_int_eq(write_now(fd, "content", 7), 7);
    ck_assert_int_eq(write_now(fd, block, sizeof block), sizeof block);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    /* Drop the file from the page cache, so that the read waits for the disk. */
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ck_assert_int_eq(read_now(fd, got, 7), 7);
    ck_assert_str_eq(got, "content");
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 7 + sizeof block);
    ck_assert_int_eq(read_now(fd, got, 7), 0);
    ck_assert_int_eq(finish_op(&t, start_wait(&t, fd, POLLIN)), -EPERM);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}

/* Read until the other operation has completed. */
static void drain_until(int fd, const test_op *other)
{
    char sink[5000];
    test_op read = {.is_done = true};
    while (!other->is_done) {
        if (read.is_done && start_read(&read, fd, sink, sizeof sink) != WEFT__OP_PENDING)
            read.is_done = true;
        type->poll(backend, read.is_done ? 0 : -1);
    }
    if (!read.is_done)
        cancel_op(&read);
}

TEST(a_blocking_terminal_does_not_block_the_thread)
{
    int terminal[2];
    char got[8] = "";
    test_op read = {0}, write = {0};
    static char block[100000]; /* more than a terminal holds */
    memset(block, 'a', sizeof block);
    terminal[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal[0] < 0 || grantpt(terminal[0]) != 0) {
        fprintf(stderr, "skipped: devpts is not available\n");
        return;
    }
    ck_assert_int_eq(unlockpt(terminal[0]), 0);
    terminal[1] = open(ptsname(terminal[0]), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal[1], 0);

    ck_assert(start_read(&read, terminal[1], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(terminal[0], "hi\n", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
    drain_bytes(terminal[0], 4); /* the echo */
    size_t filled = fill_pending(&write, terminal[1], block, sizeof block);
    ck_assert_uint_lt(filled, sizeof block);
    drain_until(terminal[0], &write); /* on io_uring, the write completes after all bytes */
    ck_assert_int_gt(write.result, 0);
    ck_assert_int_eq(fcntl(terminal[1], F_GETFL) & O_NONBLOCK, 0);
    backend_close_pair(terminal);
}

TEST(a_named_pipe_behaves_like_any_other_pipe)
{
    char path[] = "/tmp/weft-test-XXXXXX/fifo", got[8];
    char *slash = strrchr(path, '/');
    *slash = '\0';
    ck_assert_ptr_nonnull(mkdtemp(path));
    *slash = '/';
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int fd[2];
    fd[0] = open(path, O_RDONLY | O_NONBLOCK);
    fd[1] = open(path, O_WRONLY);
    ck_assert_int_eq(fcntl(fd[0], F_SETFL, 0), 0);
    unlink(path);
    *slash = '\0';
    rmdir(path);

    test_op read = {0}, write = {0};
    static const char block[10000];
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
    drain_bytes(fd[0], fill_pending(&write, fd[1], block, sizeof block));
    ck_assert_int_gt(finish_op(&write, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    sigset_t pending;
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}

static void ignore_signal(int number)
{
    (void)number;
}

TEST(a_signal_ends_a_poll_early_and_without_error)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    sigaction(SIGALRM, &action, NULL);
    /* Repeat the signal, so that one arrives while poll waits. */
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    ck_assert_int_eq(type->poll(backend, -1), 0);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}
