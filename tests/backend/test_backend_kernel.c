/*
 * Backends over the kernel's descriptors: what a program hands in that the backend did not make.
 * Blocking descriptors of every kind must not block the thread, and a number may change hands
 * behind our back.
 */
#include "backend_harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static intptr_t start_accept(trial *t, int fd)
{
    return start(t, (weft__op){.code = WEFT__OP_ACCEPT, .fd = fd});
}

static intptr_t start_connect(trial *t, int fd, const void *address, socklen_t bytes)
{
    return start(t, (weft__op){.code = WEFT__OP_CONNECT, .fd = fd, .u.connect = {address, bytes}});
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
    else /* the kernel chooses an abstract name for the family alone */
        l.bytes = sizeof(sa_family_t);
    l.fd = socket(l.address.any.sa_family, SOCK_STREAM | flags, 0);
    ck_assert_int_eq(bind(l.fd, &l.address.any, l.bytes), 0);
    ck_assert_int_eq(listen(l.fd, backlog), 0);
    l.bytes = sizeof l.address;
    ck_assert_int_eq(getsockname(l.fd, &l.address.any, &l.bytes), 0);
    return l;
}

/* The bits of _i: the kind, and whether O_NONBLOCK is set. */
#define LOOP_KIND (_i & 1)
#define LOOP_FLAGS (_i & 2 ? SOCK_NONBLOCK : 0)
#define LOOP_COUNT 4

START_TEST(an_accept_waits_for_a_connect)
{
    listener l = listen_on(LOOP_KIND, LOOP_FLAGS, 8);
    trial accept = {0}, connect = {0};
    ck_assert(start_accept(&accept, l.fd) == WEFT__OP_PENDING);
    int client = socket(l.address.any.sa_family, SOCK_STREAM | LOOP_FLAGS, 0);
    int flags = fcntl(client, F_GETFL);
    intptr_t rc = start_connect(&connect, client, &l.address.any, l.bytes);
    ck_assert_int_eq(finish(&connect, rc), 0);
    ck_assert_int_eq(fcntl(client, F_GETFL), flags);
    int server = (int)finish(&accept, WEFT__OP_PENDING);
    ck_assert_int_ge(server, 0);
    ck_assert_int_ne(fcntl(server, F_GETFD) & FD_CLOEXEC, 0);

    char got[8] = "";
    trial read = {0};
    ck_assert(start_read(&read, server, got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(client, "hello", 5), 5);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 5);
    ck_assert_str_eq(got, "hello");
    close_both((int[]){client, server});
    ck_assert_int_eq(type->close_fd(backend, l.fd), 0);
}
END_TEST

START_TEST(accept_tells_the_address_of_the_peer)
{
    listener l = listen_on(TCP, 0, 8);
    struct sockaddr_in from, own;
    socklen_t bytes = sizeof from, own_bytes = sizeof own;
    trial accept = {0}, connect = {0};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    weft__op op = {.code = WEFT__OP_ACCEPT, .fd = l.fd};
    op.u.accept.address = (struct sockaddr *)&from;
    op.u.accept.bytes = &bytes;
    intptr_t accepted = start(&accept, op);
    finish(&connect, start_connect(&connect, client, &l.address.any, l.bytes));
    int server = (int)finish(&accept, accepted);
    ck_assert_int_eq(getsockname(client, (struct sockaddr *)&own, &own_bytes), 0);
    ck_assert_int_eq(from.sin_port, own.sin_port);
    close_both((int[]){client, server});
    ck_assert_int_eq(type->close_fd(backend, l.fd), 0);
}
END_TEST

START_TEST(a_connect_that_nobody_listens_for_is_refused)
{
    listener l = listen_on(LOOP_KIND, 0, 1);
    close(l.fd);
    int client = socket(l.address.any.sa_family, SOCK_STREAM | LOOP_FLAGS, 0);
    trial connect = {0};
    intptr_t rc = start_connect(&connect, client, &l.address.any, l.bytes);
    ck_assert_int_eq(finish(&connect, rc), -ECONNREFUSED);
    ck_assert_int_eq(type->close_fd(backend, client), 0);
}
END_TEST

START_TEST(a_connect_waits_for_room_in_a_full_backlog)
{
    enum { CLIENTS = 5 };
    listener l = listen_on(UNIX, 0, 0);
    trial connect[CLIENTS] = {{.is_done = false}};
    int client[CLIENTS];
    intptr_t rc[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        client[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        rc[i] = start_connect(&connect[i], client[i], &l.address.any, l.bytes);
    }
    ck_assert_int_eq(finish(&connect[0], rc[0]), 0);
    ck_assert(try_now(&connect[1], rc[1]) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, client[4]), 0);
    ck_assert_int_eq(finish(&connect[4], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(give_up(&connect[3]), -ECANCELED);
    close(client[3]);
    for (int i = 0; i < 3; i++) {
        trial accept = {0};
        int server = (int)finish(&accept, start_accept(&accept, l.fd));
        ck_assert_int_ge(server, 0);
        ck_assert_int_eq(finish(&connect[i], rc[i]), 0);
        close_both((int[]){client[i], server});
    }
    ck_assert_int_eq(type->close_fd(backend, l.fd), 0);
}
END_TEST

START_TEST(accepting_on_what_does_not_listen_is_an_error_at_once)
{
    int fd[2];
    trial accept = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(finish(&accept, start_accept(&accept, fd[0])), -ENOTSOCK);
    close_both(fd);
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert_int_eq(finish(&accept, start_accept(&accept, fd[0])), -EINVAL);
    close_both(fd);
}
END_TEST

/* Open a pair of the other kind, which gets the numbers that were closed just now. */
static void reopen(int kind, int fd[2])
{
    int numbers[2] = {fd[0], fd[1]};
    int rc = kind ? type->socketpair(backend, fd) : type->pipe(backend, fd);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(fd[0], numbers[0]);
    ck_assert_int_eq(fd[1], numbers[1]);
}

/* What is promised only for numbers that come from the backend: others it may take for the old. */
START_TEST(a_number_that_was_closed_behind_our_back_serves_its_new_file)
{
    int fd[2];
    char got[8];
    ck_assert_int_eq(pipe(fd), 0);
    for (int round = 0; round < 6; round++) {
        trial read = {0}, write = {0};
        static const char piece[4096];
        ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
        ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
        ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 3);
        size_t filled = fill(&write, fd[1], piece, sizeof piece);
        drain(fd[0], filled);
        ck_assert_int_gt(finish(&write, WEFT__OP_PENDING), 0);
        close(fd[0]);
        ck_assert_int_eq(write_now(fd[1], piece, 1), -EPIPE);
        close(fd[1]);
        reopen(round & 1, fd);
    }
    close_both(fd);
}
END_TEST

/* A wait for readiness trusts nothing that was known of the number. */
START_TEST(an_event_of_a_file_that_lost_its_number_is_dropped)
{
    int old[2], new[2];
    char got[8] = "";
    trial read = {0}, wait = {0};
    ck_assert_int_eq(pipe(old), 0);
    ck_assert(start_read(&read, old[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&read), -ECANCELED);
    int kept = dup(old[0]); /* keeps the file open, and with it its registration */
    ck_assert_int_eq(pipe(new), 0);
    ck_assert_int_eq(dup2(new[0], old[0]), old[0]);
    ck_assert(start_wait(&wait, old[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(old[1], "stale", 5), 5);
    type->poll(backend, 0);
    ck_assert(!wait.is_done);
    ck_assert_int_eq(write(new[1], "new", 3), 3);
    ck_assert_int_eq(finish(&wait, WEFT__OP_PENDING), POLLIN);
    ck_assert_int_eq(read_now(old[0], got, 8), 3);
    ck_assert_str_eq(got, "new");
    /* And back again: epoll knows that file under that number, the backend has forgotten it. */
    ck_assert_int_eq(type->close_fd(backend, old[0]), 0);
    ck_assert_int_eq(dup2(kept, old[0]), old[0]);
    ck_assert_int_eq(read_now(old[0], got, 8), 5);
    ck_assert(start_read(&read, old[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(old[1], "back", 4), 4);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 4);
    close_both(old);
    close_both(new);
    close(kept);
}
END_TEST

START_TEST(a_closed_descriptor_whose_file_lives_on_wakes_nobody)
{
    int fd[2];
    char got[8];
    trial read = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    int kept = dup(fd[0]);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    int64_t before = type->now_ns(backend);
    ck_assert_int_eq(type->poll(backend, 20000000), 0);
    ck_assert_int_ge(type->now_ns(backend), before + 20000000);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    close(kept);
}
END_TEST

START_TEST(regular_files_are_read_and_written_but_not_waited_on)
{
    char path[] = "/tmp/weft-test-XXXXXX", got[16] = "";
    static const char piece[100000];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    trial t = {0};
    ck_assert_int_eq(write_now(fd, "content", 7), 7);
    ck_assert_int_eq(write_now(fd, piece, sizeof piece), sizeof piece);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    /* Out of the cache, where the file system has one: now the read has to wait for the disk. */
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ck_assert_int_eq(read_now(fd, got, 7), 7);
    ck_assert_str_eq(got, "content");
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 7 + sizeof piece);
    ck_assert_int_eq(read_now(fd, got, 7), 0);
    ck_assert_int_eq(finish(&t, start_wait(&t, fd, POLLIN)), -EPERM);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}
END_TEST

/* Read until the other operation is done. */
static void drain_until(int fd, const trial *other)
{
    char sink[5000];
    trial read = {.is_done = true};
    while (!other->is_done) {
        if (read.is_done && start_read(&read, fd, sink, sizeof sink) != WEFT__OP_PENDING)
            read.is_done = true;
        type->poll(backend, read.is_done ? 0 : -1);
    }
    if (!read.is_done)
        give_up(&read);
}

START_TEST(a_blocking_terminal_does_not_block_the_thread)
{
    int terminal[2];
    char got[8] = "";
    trial read = {0}, write = {0};
    static char piece[100000]; /* more than a terminal holds */
    memset(piece, 'a', sizeof piece);
    terminal[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal[0] < 0 || grantpt(terminal[0]) != 0) {
        fprintf(stderr, "no devpts here: not tried with a terminal\n");
        return;
    }
    ck_assert_int_eq(unlockpt(terminal[0]), 0);
    terminal[1] = open(ptsname(terminal[0]), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal[1], 0);

    ck_assert(start_read(&read, terminal[1], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(terminal[0], "hi\n", 3), 3);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 3);
    drain(terminal[0], 4); /* its echo */
    size_t filled = fill(&write, terminal[1], piece, sizeof piece);
    ck_assert_uint_lt(filled, sizeof piece);
    drain_until(terminal[0], &write); /* io_uring's write is over when all of it is out */
    ck_assert_int_gt(write.result, 0);
    ck_assert_int_eq(fcntl(terminal[1], F_GETFL) & O_NONBLOCK, 0);
    close_both(terminal);
}
END_TEST

START_TEST(a_named_pipe_waits_and_breaks_like_any_other)
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

    trial read = {0}, write = {0};
    static const char piece[10000];
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 3);
    drain(fd[0], fill(&write, fd[1], piece, sizeof piece));
    ck_assert_int_gt(finish(&write, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    sigset_t pending;
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}
END_TEST

static void ignore_signal(int number)
{
    (void)number;
}

START_TEST(a_signal_ends_a_poll_early_and_without_error)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    sigaction(SIGALRM, &action, NULL);
    /* Again and again, so that one strikes while poll waits. */
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    ck_assert_int_eq(type->poll(backend, -1), 0);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}
END_TEST

int main(int argc, char **argv)
{
    name_backend(argc, argv);
    Suite *suite = suite_create("backend on kernel descriptors");
    TCase *tests = tcase_create("backend on kernel descriptors");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, an_accept_waits_for_a_connect, 0, LOOP_COUNT);
    tcase_add_test(tests, accept_tells_the_address_of_the_peer);
    tcase_add_loop_test(tests, a_connect_that_nobody_listens_for_is_refused, 0, LOOP_COUNT);
    tcase_add_test(tests, a_connect_waits_for_room_in_a_full_backlog);
    tcase_add_test(tests, accepting_on_what_does_not_listen_is_an_error_at_once);
    tcase_add_test(tests, a_number_that_was_closed_behind_our_back_serves_its_new_file);
    tcase_add_test(tests, an_event_of_a_file_that_lost_its_number_is_dropped);
    tcase_add_test(tests, a_closed_descriptor_whose_file_lives_on_wakes_nobody);
    tcase_add_test(tests, regular_files_are_read_and_written_but_not_waited_on);
    tcase_add_test(tests, a_blocking_terminal_does_not_block_the_thread);
    tcase_add_test(tests, a_named_pipe_waits_and_breaks_like_any_other);
    tcase_add_test(tests, a_signal_ends_a_poll_early_and_without_error);
    return run_suite(suite);
}
