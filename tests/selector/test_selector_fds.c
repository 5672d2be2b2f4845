/*
 * Tests of descriptors in a selector: several operations on one descriptor, and numbers that the
 * host closes with close(2) and that another file then has.
 */
#include "selector/selector_support.h"
#include "support/sockets.h"

#include <sys/eventfd.h>

FIXTURE(open_selector, close_selector)

static int fd[2];
static char got[64];

/* Several operations on one descriptor. */

TEST(all_waits_on_one_socket_complete_with_overlapping_events)
{
    enum { COUNT = 9 };
    static const int events[] = {POLLIN, POLLOUT, POLLIN | POLLOUT};
    weft_selector_op ops[COUNT] = {{0}};
    for (int polls = 0; polls < 2; polls++) {
        new_sockets(fd);
        for (int i = 0; i < COUNT; i++) {
            ck_assert(weft_selector_wait_fd(selector, &ops[i], fd[0], events[i % 3]) == PENDING);
            if (polls && i % 3 == 0)
                assert_none_completes();
            else if (polls)
                ck_assert_ptr_eq(next_op(selector), &ops[i]); /* writable */
        }
        put(fd[1], "a");
        for (int left = polls ? COUNT / 3 : COUNT; left > 0; left--)
            ck_assert_int_ne(next_op(selector)->result, 0);
        ck_assert_uint_eq(weft_selector_pending(selector), 0);
        close_pair(fd);
    }
}

TEST(a_read_and_a_write_wait_on_one_socket)
{
    static const char block[65536];
    weft_selector_op reading = {0}, writing = {0}, waiting = {0};
    new_sockets(fd);
    while (weft_selector_write(selector, &writing, fd[0], block, sizeof block, CURRENT) != PENDING)
        continue;
    ck_assert(weft_selector_read(selector, &reading, fd[0], got, 8, CURRENT) == PENDING);
    ck_assert(weft_selector_wait_fd(selector, &waiting, fd[0], POLLOUT) == PENDING);
    assert_none_completes();
    put(fd[1], "abc");
    ck_assert_int_eq(finish(&reading, PENDING), 3);
    assert_none_completes();
    while (recv(fd[1], (char[65536]){0}, 65536, MSG_DONTWAIT) > 0)
        continue;
    next_op(selector);
    next_op(selector);
    ck_assert_int_eq(waiting.result, POLLOUT);
    ck_assert_int_gt(writing.result, 0);
    close_pair(fd);
}

TEST_LOOP(reads_of_one_descriptor_complete_in_order, 2)
{
    enum { COUNT = 8 };
    weft_selector_op ops[COUNT] = {{0}};
    _i == 0 ? new_pipe(fd) : new_sockets(fd);
    for (int i = 0; i < COUNT; i++)
        ck_assert(weft_selector_read(selector, &ops[i], fd[0], &got[i], 1, CURRENT) == PENDING);
    put(fd[1], "abcdefgh");
    for (int i = 0; i < COUNT; i++)
        ck_assert_ptr_eq(next_op(selector), &ops[i]);
    ck_assert_int_eq(memcmp(got, "abcdefgh", COUNT), 0);
    close_pair(fd);
}

TEST(a_cancelled_read_does_not_hold_up_the_next)
{
    weft_selector_op first = {0}, second = {0};
    new_sockets(fd);
    ck_assert(weft_selector_read(selector, &first, fd[0], got, 8, CURRENT) == PENDING);
    ck_assert(weft_selector_read(selector, &second, fd[0], got, 8, CURRENT) == PENDING);
    assert_none_completes();
    ck_assert_int_eq(cancel_and_finish(&first), -ECANCELED);
    put(fd[1], "abc");
    ck_assert_int_eq(finish(&second, PENDING), 3);
    close_pair(fd);
}

TEST(close_fd_ends_all_operations_on_the_descriptor)
{
    weft_selector_op ops[3] = {{0}}, other = {0};
    for (int polls = 0; polls < 2; polls++) {
        new_sockets(fd);
        ck_assert(weft_selector_read(selector, &ops[0], fd[0], got, 8, CURRENT) == PENDING);
        ck_assert(weft_selector_wait_fd(selector, &ops[1], fd[0], POLLIN) == PENDING);
        ck_assert(weft_selector_recv(selector, &ops[2], fd[0], got, 8, 0) == PENDING);
        ck_assert(weft_selector_wait_fd(selector, &other, fd[1], POLLIN) == PENDING);
        if (polls)
            assert_none_completes();
        ck_assert_int_eq(weft_selector_close_fd(selector, fd[0]), 0);
        ck_assert_int_eq(fcntl(fd[0], F_GETFD), -1);
        for (int i = 0; i < 4; i++)
            next_op(selector);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(ops[i].result, -EBADF);
        ck_assert_int_ne(other.result & POLLIN, 0); /* the end of its peer */
        ck_assert_int_eq(weft_selector_close_fd(selector, fd[1]), 0);
    }
}

/* Numbers that another file has. */

typedef enum source_kind { PIPE, SOCKETS, TCP, EVENT, TERMINAL_LIKE, SOURCE_KINDS } source_kind;

/* A descriptor to wait for, and the descriptor that makes it readable. */
typedef struct source {
    int fd, feed;
} source;

static source open_source(source_kind kind)
{
    int pair[2];
    switch (kind) {
    case PIPE:
        new_pipe(pair);
        break;
    case SOCKETS:
        new_sockets(pair);
        break;
    case TCP: {
        address a = loopback_address(AF_INET);
        int listener = listen_address(&a, SOCK_CLOEXEC, 1);
        pair[1] = new_stream_socket(AF_INET, SOCK_CLOEXEC);
        ck_assert_int_eq(connect(pair[1], sockaddr_of(&a), a.bytes), 0);
        pair[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        close(listener);
        break;
    }
    case EVENT:
        pair[0] = eventfd(0, EFD_CLOEXEC);
        pair[1] = dup(pair[0]);
        break;
    default: /* a file without RWF_NOWAIT */
        pair[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        ck_assert_int_ge(pair[1], 0);
        ck_assert_int_eq(unlockpt(pair[1]), 0);
        pair[0] = open(ptsname(pair[1]), O_RDONLY | O_NOCTTY | O_CLOEXEC);
        break;
    }
    ck_assert_int_ge(pair[0], 0);
    return (source){pair[0], pair[1]};
}

static void feed(const source *s)
{
    ck_assert_int_eq(write(s->feed, "1234567\n", 8), 8);
}

static void close_source(const source *s)
{
    close(s->fd);
    close(s->feed);
}

/* How the number is used before and after the close. */
typedef enum use { WAIT, READ, CANCELLED_WAIT, CANCELLED_READ, USES } use;

static weft_value start_use(weft_selector_op *op, use how, int number)
{
    bool is_wait = how == WAIT || how == CANCELLED_WAIT;
    return is_wait ? weft_selector_wait_fd(selector, op, number, POLLIN)
                   : weft_selector_read(selector, op, number, got, 8, CURRENT);
}

static void use_source(const source *s, use how, bool polls)
{
    weft_selector_op op = {0};
    ck_assert(start_use(&op, how, s->fd) == PENDING);
    if (polls)
        assert_none_completes();
    if (how >= CANCELLED_WAIT) {
        ck_assert_int_eq(cancel_and_finish(&op), -ECANCELED);
        return;
    }
    feed(s);
    ck_assert_int_eq(finish(&op, PENDING), how == WAIT ? POLLIN : 8);
}

/*
 * Use a number, close it, and use it for another file. The old file remains open. With feeds_old it
 * has events, which must not reach the operation on the new file.
 */
static void reuse_number(source_kind before, source_kind after, use how, bool polls, bool feeds_old)
{
    source old = open_source(before), new = open_source(after);
    int kept = dup(old.fd);
    use_source(&old, how, polls);
    ck_assert_int_eq(dup2(new.fd, old.fd), old.fd); /* closes the old number */
    close(new.fd);
    new.fd = old.fd;
    for (use next = WAIT; next <= READ; next++) {
        weft_selector_op op = {0};
        weft_value started = start_use(&op, next, new.fd);
        ck_assert(started == PENDING);
        assert_none_completes();
        if (feeds_old)
            feed(&old);
        /* At most one late event of the old registration ends the poll, without a result. */
        for (int i = 0; i < 3; i++)
            assert_none_completes();
        feed(&new);
        ck_assert_int_eq(finish(&op, PENDING), next == WAIT ? POLLIN : 8);
        if (next == WAIT)
            ck_assert_int_eq(read(new.fd, got, 8), 8);
    }
    close(kept);
    close(old.feed);
    close_source(&new);
}

TEST_LOOP(a_closed_number_is_a_new_file, SOURCE_KINDS *SOURCE_KINDS)
{
    for (use how = 0; how < USES; how++)
        for (int i = 0; i < 4; i++)
            reuse_number(_i / SOURCE_KINDS, _i % SOURCE_KINDS, how, i / 2, i % 2);
}

TEST(a_number_that_was_a_file_becomes_a_socket_and_back)
{
    weft_selector_op op = {0};
    new_sockets(fd);
    int number = dup(fd[0]);
    for (int i = 0; i < 20; i++) {
        int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        dup2(file, number);
        close(file);
        ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, number, POLLIN)), POLLIN);
        ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, number, got, 4, CURRENT)),
                         4);
        ck_assert_int_eq(memcmp(got + 1, "ELF", 3), 0);
        dup2(fd[0], number);
        ck_assert(weft_selector_read(selector, &op, number, got, 4, CURRENT) == PENDING);
        assert_none_completes();
        put(fd[1], "abc");
        ck_assert_int_eq(finish(&op, PENDING), 3);
    }
    close(number);
    close_pair(fd);
}

/* A read that the kernel has not got yet must not read the next file with the number. */
TEST(a_cancelled_read_does_not_touch_the_next_file)
{
    for (int i = 0; i < 100; i++) {
        weft_selector_op op = {0};
        int next[2];
        new_sockets(fd);
        new_sockets(next);
        put(next[1], "abc");
        ck_assert(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT) == PENDING);
        ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
        dup2(next[0], fd[0]);
        weft_selector_poll(selector, 0);
        ck_assert_int_eq(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT), 3);
        close_pair(fd);
        close_pair(next);
    }
}

/* The peer sees the close although a cancelled wait was in the kernel. */
TEST(a_closed_socket_ends_for_its_peer_after_a_cancelled_wait)
{
    weft_selector_op op = {0};
    new_sockets(fd);
    ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
    assert_none_completes();
    ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
    close(fd[0]);
    ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, fd[1], got, 8, CURRENT)), 0);
    close(fd[1]);
}

TEST(connections_come_and_go_with_the_same_numbers)
{
    for (int i = 0; i < 5000; i++) {
        weft_selector_op op = {0}, writable = {0};
        i % 3 == 0 ? new_pipe(fd) : new_sockets(fd);
        ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
        if (i % 5 == 0)
            ck_assert_int_eq(
                finish(&writable, weft_selector_wait_fd(selector, &writable, fd[1], POLLOUT)),
                POLLOUT);
        put(fd[1], "a");
        ck_assert_int_eq(finish(&op, PENDING), POLLIN);
        close_pair(fd);
    }
}

static size_t descriptor_limit(size_t wanted)
{
    struct rlimit limit = {wanted, wanted};
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) /* needs a privilege */
        return wanted;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

TEST(twenty_thousand_pipes_wait_and_all_complete)
{
    enum { WANTED = 20000 };
    size_t count = (descriptor_limit(2 * WANTED + 100) - 100) / 2;
    count = count < WANTED ? count : WANTED;
    int(*pipes)[2] = calloc(count, sizeof *pipes);
    weft_selector_op *ops = calloc(count, sizeof *ops);
    for (size_t i = 0; i < count; i++) {
        new_pipe(pipes[i]);
        ck_assert(weft_selector_wait_fd(selector, &ops[i], pipes[i][0], POLLIN) == PENDING);
    }
    assert_none_completes();
    for (size_t i = 0; i < count; i++)
        put(pipes[i][1], "a");
    for (size_t i = 0; i < count; i++) {
        weft_selector_op *op = next_op(selector);
        ck_assert_int_eq(op->result, POLLIN);
        ck_assert_ptr_null(op->owner);
        op->owner = op; /* each completes once */
    }
    for (size_t i = 0; i < count; i++)
        close_pair(pipes[i]);
    free(pipes);
    free(ops);
}
