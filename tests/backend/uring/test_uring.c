/*
 * Tests of the io_uring backend: missing opcodes, full queues, late cancels, fork, and threads that
 * start and end.
 */
#include "backend/uring/round_trip.h"
#include "support/seccomp.h"
#include "support/suite.h"

#include "core/cord/inbox.h"
#include "core/cord/registry.h"

#include <inttypes.h>
#include <malloc.h>

static weft__uring *uring(void)
{
    REQUIRE(strcmp(weft_backend_name(), "io_uring") == 0);
    return weft__uring_of(weft__cord_self->backend);
}

static void require_io_uring(void)
{
    share_verdict();
    ck_assert_msg(weft_self() != 0 && strcmp(weft_backend_name(), "io_uring") == 0,
                  "io_uring is not available: %s", weft_backend_why());
}

/* Require io_uring, and open a pair of sockets. */
static void open_ring_sockets(int fd[2])
{
    require_io_uring();
    ck_assert_int_eq(weft_socketpair(fd), 0);
}

/* Missing opcodes. */

#define BIT(opcode) (UINT64_C(1) << (opcode))

static const uint64_t required_opcodes =
    BIT(IORING_OP_READ) | BIT(IORING_OP_POLL_ADD) | BIT(IORING_OP_ASYNC_CANCEL);

static int run_without_opcodes(void)
{
    unsetenv("WEFT_BACKEND"); /* a named backend that is missing is reported on stderr */
    int status = run_all_scenarios();
    REQUIRE(!ring_seen.has_used_disabled);
    return status;
}

static void assert_passes_without(uint64_t opcodes)
{
    const char *what = format("without %#" PRIx64, opcodes);
    weft__uring_disabled_opcodes = opcodes;
    assert_scenarios_pass(run_without_opcodes, what,
                          opcodes & required_opcodes ? "epoll" : "io_uring");
}

TEST(the_backend_works_without_any_single_opcode)
{
    /* Sanitized builds test only the opcodes that the backend uses. */
    static const uint64_t used =
        BIT(IORING_OP_READ) | BIT(IORING_OP_WRITE) | BIT(IORING_OP_READV) | BIT(IORING_OP_WRITEV) |
        BIT(IORING_OP_RECV) | BIT(IORING_OP_SEND) | BIT(IORING_OP_RECVMSG) |
        BIT(IORING_OP_SENDMSG) | BIT(IORING_OP_ACCEPT) | BIT(IORING_OP_CONNECT) |
        BIT(IORING_OP_POLL_ADD) | BIT(IORING_OP_ASYNC_CANCEL) | BIT(IORING_OP_FSYNC) |
        BIT(IORING_OP_SOCKET) | BIT(IORING_OP_SEND_ZC);
    for (int opcode = 0; opcode < IORING_OP_LAST; opcode++)
        if (!is_sanitized() || used & BIT(opcode))
            assert_passes_without(BIT(opcode));
}

TEST(the_backend_works_with_only_the_required_opcodes)
{
    assert_passes_without(~required_opcodes);
}

#define BLOCK_BYTES 4096
#define BLOCKS 50

/* Write with pwrite, pwritev, write and writev. Return the number of calls. */
static unsigned write_blocks(int fd)
{
    static char block[BLOCK_BYTES];
    struct iovec halves[] = {{block, BLOCK_BYTES / 2}, {block, BLOCK_BYTES / 2}};
    for (int i = 0; i < BLOCKS; i++) {
        ck_assert_int_eq(weft_pwrite(fd, block, BLOCK_BYTES, (off_t)i * BLOCK_BYTES), BLOCK_BYTES);
        ck_assert_int_eq(weft_pwritev(fd, halves, 2, (off_t)i * BLOCK_BYTES), BLOCK_BYTES);
        ck_assert_int_eq(weft_write(fd, block, BLOCK_BYTES), BLOCK_BYTES);
        ck_assert_int_eq(weft_writev(fd, halves, 2), BLOCK_BYTES);
    }
    return 4 * BLOCKS;
}

/*
 * Linux before 6.18 lacks RWF_NOSIGNAL. A write to a pipe detects this. Files do not need the flag.
 */
TEST(writes_to_a_file_stay_on_the_ring_without_rwf_nosignal)
{
    int fd[2];
    ring_limits.has_no_nosignal = true;
    require_io_uring();
    int file = open_unnamed_file();
    unsigned before = ring_seen.writes;
    ck_assert_uint_eq(write_blocks(file), 4 * BLOCKS);
    ck_assert_uint_eq(ring_seen.writes - before, 4 * BLOCKS);
    ck_assert(!uring()->lacks_nosignal);
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    ck_assert(uring()->lacks_nosignal);
    before = ring_seen.writes;
    ck_assert_uint_eq(write_blocks(file), 4 * BLOCKS);
    ck_assert_uint_eq(ring_seen.writes - before, 4 * BLOCKS);
    ck_assert_int_eq(weft_close(file), 0);
}

/* Full queues. */

#define WAITS 1100 /* several times the size of the submission queue */

static void fill_submission_queue(void)
{
    fill_ring(&uring()->ring);
}

FIBER(wait_for_input, weft_wait_fd((int)(intptr_t)arg, POLLIN))

static void spin_waits(weft_fiber *f, size_t n, int fd)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_ne(f[i] = weft_spin(wait_for_input, as_arg(fd)), 0);
}

/* One tick cancels half of the operations and starts as many. */
TEST(more_operations_and_cancels_in_one_tick_than_the_queue_holds)
{
    static weft_fiber f[WAITS], later[WAITS];
    int fd[2];
    require_io_uring();
    ck_assert_int_eq(weft_pipe(fd), 0);
    fill_submission_queue();
    spin_waits(f, WAITS, fd[0]);
    let_run();
    ck_assert_uint_eq(ops_pending(), WAITS);
    ck_assert_uint_eq(ring_seen.sqes_max, uring()->ring.sq.ring_entries);
    spin_waits(later, WAITS, fd[0]);
    fill_submission_queue();
    for (int i = 0; i < WAITS; i++)
        ck_assert_int_eq(weft_cancel(f[i]), 0);
    await_each_as(f, WAITS, -ECANCELED);
    let_run();
    ck_assert_uint_eq(ops_pending(), WAITS);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    await_each_as(later, WAITS, POLLIN);
    ck_assert_uint_eq(ops_pending(), 0);
}

static weft_value recv_value(void *arg)
{
    char byte;
    ssize_t n = weft_recv((int)(intptr_t)arg, &byte, 1, 0);
    return n == 1 ? byte : n;
}

/* An operation in the kernel, or in the backlog, from which it is removed. */
TEST_LOOP(an_operation_can_be_cancelled_when_the_queue_is_full, 2)
{
    int fd[2];
    open_ring_sockets(fd);
    weft_fiber reader = _i == 0 ? spin_waiting(recv_value, as_arg(fd[0])) : 0;
    fill_submission_queue();
    if (_i == 1) {
        reader = weft_spin(recv_value, as_arg(fd[0]));
        weft_snooze();
        ck_assert(!weft__list_is_empty(&uring()->backlog));
    }
    ck_assert_int_eq(weft_cancel(reader), 0);
    ck_assert_int_eq(weft__list_is_empty(&uring()->cancel_backlog), _i);
    ck_assert(weft__list_is_empty(&uring()->backlog));
    ck_assert_int_eq(weft_await(reader), -ECANCELED);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* A close cancels the operations in the kernel, and ends the operations in the backlog directly. */
TEST(closing_with_a_full_queue_wakes_all_waiters)
{
    weft_fiber f[2];
    int fd[2];
    open_ring_sockets(fd);
    f[0] = weft_spin(recv_value, as_arg(fd[0]));
    let_run();
    fill_submission_queue();
    f[1] = weft_spin(wait_for_input, as_arg(fd[0]));
    weft_snooze();
    ck_assert(!weft__list_is_empty(&uring()->backlog));
    ck_assert_int_eq(weft_close(fd[0]), 0);
    await_each_as(f, 2, -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
}

/*
 * The first reader waits for room, the second for the first. Cancelling the second must not start
 * the first again.
 */
TEST(an_operation_in_the_backlog_is_started_once)
{
    weft_fiber f[3];
    int fd[2];
    open_ring_sockets(fd);
    fill_submission_queue();
    for (int i = 0; i < 2; i++)
        f[i] = weft_spin(recv_value, as_arg(fd[0]));
    f[2] = weft_spin(wait_for_input, as_arg(fd[0]));
    weft_snooze();
    ck_assert(!weft__list_is_empty(&uring()->backlog));
    ck_assert_int_eq(weft_cancel(f[1]), 0);
    ck_assert_int_eq(weft_await(f[1]), -ECANCELED);
    size_t waiting = 0;
    WEFT__LIST_FOR(node, &uring()->backlog)
        ck_assert_uint_le(++waiting, 2);
    ck_assert_int_eq(write(fd[1], "ab", 2), 2);
    ck_assert_int_eq(weft_await(f[0]), 'a');
    ck_assert_int_eq(weft_await(f[2]), POLLIN);
    ck_assert_int_eq(recv_value(as_arg(fd[0])), 'b');
    ck_assert_uint_eq(ops_pending(), 0);
}

/* A file that the kernel returns in parts. */
#define PART_BYTES 4096
#define PARTS 3

typedef struct file_read {
    int fd, duplicate; /* both have the same file position */
    size_t bytes;
    ssize_t result;
    char data[PARTS * PART_BYTES];
} file_read;

static weft_value read_file(void *arg)
{
    file_read *r = arg;
    r->result = weft_read(r->fd, r->data, r->bytes);
    return 0;
}

static char part_byte(size_t at)
{
    return (char)('a' + at / PART_BYTES);
}

static void open_parts(file_read *r, size_t bytes)
{
    for (size_t i = 0; i < sizeof r->data; i++)
        r->data[i] = part_byte(i);
    r->bytes = bytes;
    r->fd = open_unnamed_file();
    ck_assert_int_eq(weft_write(r->fd, r->data, sizeof r->data), sizeof r->data);
    ck_assert_int_eq(lseek(r->fd, 0, SEEK_SET), 0);
    r->duplicate = dup(r->fd);
    memset(r->data, '-', sizeof r->data);
    ring_limits.read_bytes_max = PART_BYTES;
}

/* The result equals the file position, and the buffer contains exactly these bytes of the file. */
static void expect_result(const file_read *r, size_t bytes)
{
    size_t same = 0;
    ck_assert_int_eq(r->result, bytes);
    ck_assert_int_eq(lseek(r->duplicate, 0, SEEK_CUR), bytes);
    while (same < sizeof r->data && r->data[same] == (same < bytes ? part_byte(same) : '-'))
        same++;
    ck_assert_uint_eq(same, sizeof r->data);
}

TEST(a_file_returned_in_parts_is_read_as_a_whole)
{
    file_read r;
    require_io_uring();
    open_parts(&r, PART_BYTES + PART_BYTES / 2);
    read_file(&r);
    expect_result(&r, r.bytes);
    ck_assert_uint_eq(ring_seen.reads, 2);
}

/* Return a fiber that has read the first part. The second part waits for room in the ring. */
static weft_fiber spin_partial_read(file_read *r)
{
    open_parts(r, sizeof r->data);
    ring_limits.is_full_after_reads = true;
    weft_fiber reader = weft_spin(read_file, r);
    do {
        weft_sleep(0);
    } while (ring_seen.reads == 0);
    ck_assert_uint_eq(ring_seen.reads, 1);
    ck_assert(!weft__list_is_empty(&uring()->backlog));
    ring_limits.is_full_after_reads = false;
    return reader;
}

TEST(a_cancelled_read_returns_the_bytes_already_read_from_a_file)
{
    file_read r;
    require_io_uring();
    weft_fiber reader = spin_partial_read(&r);
    ck_assert_int_eq(weft_cancel(reader), 0);
    (void)weft_await(reader);
    expect_result(&r, 2 * PART_BYTES); /* the second part was submitted, the third was not */
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST(a_read_ended_by_a_close_returns_the_bytes_already_read_from_a_file)
{
    file_read r;
    require_io_uring();
    weft_fiber reader = spin_partial_read(&r);
    ck_assert_int_eq(weft_close(r.fd), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    expect_result(&r, PART_BYTES);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* The kernel has read the first part, and the completion is not handled yet. */
TEST(a_read_of_a_file_closed_by_another_thread_returns_the_bytes_already_read)
{
    file_read r;
    require_io_uring();
    open_parts(&r, sizeof r.data);
    ring_limits.fd_closed_after_reads = r.fd;
    read_file(&r);
    expect_result(&r, PART_BYTES);
}

TEST(a_read_on_a_ring_that_fails_returns_the_bytes_already_read_from_a_file)
{
    file_read r;
    require_io_uring();
    weft_fiber reader = spin_partial_read(&r);
    if (!refuse_system_call(SYS_io_uring_enter, EPERM))
        return;
    ck_assert_int_eq(weft_await(reader), 0);
    expect_result(&r, PART_BYTES);
    ck_assert_str_eq(weft_backend_name(), "epoll");
}

#define COMPLETIONS 5000 /* more than the completion queue holds */

/*
 * Wake all waiters with one byte, so that all completions arrive at once. Without
 * IORING_SETUP_DEFER_TASKRUN, completions overflow into a list of the kernel.
 */
TEST_LOOP(more_completions_at_once_than_the_queue_holds_are_not_lost, 2)
{
    ring_limits.setup_flags = _i == 0 ? 0 : IORING_SETUP_DEFER_TASKRUN;
    static weft_fiber f[COMPLETIONS];
    int fd[2];
    require_io_uring();
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_uint_lt(uring()->ring.cq.ring_entries, COMPLETIONS);
    spin_waits(f, COMPLETIONS, fd[0]);
    let_run();
    ck_assert_uint_eq(ops_pending(), COMPLETIONS);
    ck_assert_int_eq(write(fd[1], "x", 1), 1);
    await_each_as(f, COMPLETIONS, POLLIN);
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert(_i == 0 || ring_seen.has_overflowed);
}

/* Operation keys. */

#define ROUNDS 70000 /* more than the counter of a key can hold */

typedef struct endless_reader {
    int fd;
    int bytes, interrupted;
} endless_reader;

/* Each operation has the same address on the stack. */
static weft_value read_until_end(void *arg)
{
    endless_reader *e = arg;
    char byte;
    ssize_t n;
    while ((n = weft_recv(e->fd, &byte, 1, 0)) != 0) {
        /* -ECANCELED would mean that the cancel was for another operation. */
        REQUIRE(n == 1 || n == -EPROTO);
        e->bytes += n == 1;
        e->interrupted += n == -EPROTO;
    }
    return 0;
}

TEST(a_late_cancel_never_hits_the_next_operation_at_the_same_address)
{
    int fd[2], rounds = IS_SLOW ? ROUNDS / 10 : ROUNDS, written = 0, interrupts = 0;
    open_ring_sockets(fd);
    ck_assert_uint_ne(weft__key_make(uring(), &fd, 0), weft__key_make(uring(), &fd, 0));
    endless_reader e = {.fd = fd[0]};
    weft_fiber f = weft_spin(read_until_end, &e);
    for (int i = 0; i < rounds; i++) {
        while (e.bytes < written) /* until the fiber waits in a read */
            weft_sleep(0);
        if (i % 2 == 0)
            weft_snooze();
        if (i % 3 == 0) /* before or after the interrupt: either may win */
            written += write(fd[1], "x", 1) == 1;
        interrupts += weft_interrupt(f, -EPROTO) == 0;
        if (i % 3 == 1)
            written += write(fd[1], "x", 1) == 1;
        weft_sleep(0);
    }
    ck_assert_int_eq(weft_shutdown(fd[1], SHUT_WR), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(e.bytes, written);
    ck_assert_int_gt(e.interrupted, rounds / 4);
    ck_assert_int_le(e.interrupted, interrupts);
}

/* Processes and threads. */

/* The child inherits the descriptor and the memory of the ring. */
TEST_LOOP(a_forked_child_that_exits_with_or_without_handlers_does_not_affect_the_ring, 2)
{
    int fd[2], status;
    open_ring_sockets(fd);
    weft_fiber f = weft_spin(recv_value, as_arg(fd[0]));
    let_run();
    /* in the submission queue, but not submitted */
    weft_fiber second = weft_spin(wait_for_input, as_arg(fd[0]));
    weft_snooze();
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0 && _i == 0)
        exit_here(0);
    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(ops_pending(), 2);
    ck_assert_int_eq(write(fd[1], "ab", 2), 2);
    ck_assert_int_eq(weft_await(f), 'a');
    ck_assert_int_eq(weft_await(second), POLLIN);
}

static int stop_at_first(int fd, void *ctx)
{
    REQUIRE(weft_close(fd) == 0);
    return -ENOLINK;
}

/*
 * A cord that ends with registered buffers, a pending read, and connections that it has not
 * accepted.
 */
static void *short_lived_cord(void *arg)
{
    int fd[2], client[3];
    struct sockaddr_in at;
    REQUIRE(weft_socketpair(fd) == 0);
    REQUIRE(write(fd[1], "ab", 2) == 2);
    inflow in = {.limit = 1};
    in.sum = 'a'; /* count_data compares each byte with its offset, so begin at this offset */
    REQUIRE(weft_recv_loop(fd[0], count_data, &in) == -ENOLINK && in.sum == 'a' + 2);
    REQUIRE(weft_spin(recv_value, as_arg(fd[0])) != 0);
    int listener = make_listener(&at);
    for (int i = 0; i < 3; i++)
        client[i] = make_client(&at);
    REQUIRE(weft_accept_loop(listener, stop_at_first, NULL) == -ENOLINK);
    for (int i = 0; i < 3; i++)
        close(client[i]);
    close(listener);
    close(fd[1]);
    weft_sleep(0);
    close(fd[0]);
    return arg;
}

static void run_threads(int n)
{
    enum { AT_ONCE = 10 };
    pthread_t threads[AT_ONCE];
    for (; n > 0; n -= AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, short_lived_cord, NULL), 0);
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
    }
}

static size_t count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(maps);
    size_t n = 0;
    for (int c; (c = fgetc(maps)) != EOF;)
        n += c == '\n';
    fclose(maps);
    return n;
}

TEST(threads_that_were_cords_leak_nothing)
{
    share_verdict();
    run_threads(40); /* the C library caches stacks and arenas */
    size_t fds = count_open(true) + count_open(false), mappings = count_mappings();
    size_t allocated = mallinfo2().uordblks;
    run_threads(100);
    ck_assert_uint_eq(count_open(true) + count_open(false), fds);
    ck_assert_uint_lt(count_mappings(), mappings + 50);
    ck_assert_uint_lt(mallinfo2().uordblks, allocated + 100 * 256);
}

/* Messages between rings. */

static atomic_bool is_received;

static weft_value receive_and_set_flag(void *arg)
{
    weft_value value = weft_receive();
    atomic_store(&is_received, true);
    return value + (weft_value)arg;
}

/*
 * Wait until the cord sleeps. Replace its ring descriptor with another file, so that messages to
 * the ring fail.
 */
static void await_sleep_and_break_ring(weft_cord cord)
{
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = weft__registry_acquire(index);
    ck_assert_ptr_nonnull(c);
    while (!atomic_load(&c->is_asleep) || weft__cord_has_messages(c))
        sched_yield();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC),
        ring_fd = weft__uring_of(c->backend)->ring.ring_fd;
    ck_assert_int_eq(dup3(null, ring_fd, O_CLOEXEC), ring_fd);
    close(null);
    weft__registry_release(index);
}

TEST(a_message_that_the_ring_refuses_wakes_the_receiver_while_the_sender_computes)
{
    require_io_uring();
    weft_cord cord = weft_cord_start(receive_and_set_flag, as_arg(1), NULL);
    ck_assert_uint_ne(cord, 0);
    await_sleep_and_break_ring(cord);
    ck_assert_int_eq(weft_tell(cord, 41), 0);
    while (!atomic_load(&is_received)) /* compute, without switching or polling */
        sched_yield();
    ck_assert_int_eq(weft_cord_join(cord), 42);
}
