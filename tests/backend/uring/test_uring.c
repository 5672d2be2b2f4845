/*
 * What only io_uring can get wrong: operations that the kernel lacks, queues that are full, cancels
 * that come late, a process that forks, threads that come and go.
 */
#include "round_trip.h"

#include "core/port.h"

#include <inttypes.h>
#include <malloc.h>

static weft__uring *uring(void)
{
    REQUIRE(strcmp(weft_backend_name(), "io_uring") == 0);
    return weft__uring_of(weft__cord_self->backend);
}

static size_t ops_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.ops_pending;
}

static void prepare(void)
{
    share_verdict();
    ck_assert_msg(weft_self() != 0 && strcmp(weft_backend_name(), "io_uring") == 0,
                  "io_uring is not to be had here: %s", weft_backend_why());
}

/* Doing without. */

#define BIT(opcode) (UINT64_C(1) << (opcode))

static const uint64_t needed =
    BIT(IORING_OP_READ) | BIT(IORING_OP_POLL_ADD) | BIT(IORING_OP_ASYNC_CANCEL);

static int go_round_without(void)
{
    unsetenv("WEFT_BACKEND"); /* one that is named is missed on stderr */
    int status = go_round();
    REQUIRE(!ring_seen.is_used_forgone);
    return status;
}

static void assert_round_without(uint64_t opcodes)
{
    char what[32];
    snprintf(what, sizeof what, "without %#" PRIx64, opcodes);
    weft__uring_forgone = opcodes;
    assert_round(go_round_without, what, opcodes & needed ? "epoll" : "io_uring");
}

START_TEST(each_operation_can_be_done_without)
{
    /* Where processes are slow, those that are used; the others make no difference. */
    static const uint64_t used =
        BIT(IORING_OP_READ) | BIT(IORING_OP_WRITE) | BIT(IORING_OP_READV) | BIT(IORING_OP_WRITEV) |
        BIT(IORING_OP_RECV) | BIT(IORING_OP_SEND) | BIT(IORING_OP_RECVMSG) |
        BIT(IORING_OP_SENDMSG) | BIT(IORING_OP_ACCEPT) | BIT(IORING_OP_CONNECT) |
        BIT(IORING_OP_POLL_ADD) | BIT(IORING_OP_ASYNC_CANCEL) | BIT(IORING_OP_FSYNC) |
        BIT(IORING_OP_SOCKET) | BIT(IORING_OP_SEND_ZC);
    for (int opcode = 0; opcode < IORING_OP_LAST; opcode++)
        if (!is_sanitized() || used & BIT(opcode))
            assert_round_without(BIT(opcode));
}
END_TEST

START_TEST(all_operations_but_the_needed_can_be_done_without)
{
    assert_round_without(~needed);
}
END_TEST

#define BLOCK_BYTES 4096
#define BLOCKS 50

static int open_scratch_file(void)
{
    char path[] = "/tmp/weft-uring-XXXXXX";
    int fd = weft_mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

/* By write, writev and their like at an offset; returns how often. */
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

/* Before Linux 6.18 there is no RWF_NOSIGNAL. A pipe finds that out; files do not need it. */
START_TEST(writes_to_a_file_stay_on_the_ring_without_rwf_nosignal)
{
    int fd[2];
    refused.has_no_nosignal = true;
    prepare();
    int file = open_scratch_file();
    unsigned before = ring_seen.writes;
    ck_assert_uint_eq(write_blocks(file), 4 * BLOCKS);
    ck_assert_uint_eq(ring_seen.writes - before, 4 * BLOCKS);
    ck_assert(!uring()->has_no_nosignal);
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    ck_assert(uring()->has_no_nosignal);
    before = ring_seen.writes;
    ck_assert_uint_eq(write_blocks(file), 4 * BLOCKS);
    ck_assert_uint_eq(ring_seen.writes - before, 4 * BLOCKS);
    ck_assert_int_eq(weft_close(file), 0);
    close_pair(fd);
}
END_TEST

/* Queues that are full. */

#define WAITS 1100 /* several times the submission queue */

static void fill_submission_queue(void)
{
    fill_entries(&uring()->ring);
}

static weft_value wait_for_input(void *arg)
{
    return weft_wait_fd((int)(intptr_t)arg, POLLIN);
}

static void spin_waits(weft_fiber *f, size_t n, int fd)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_ne(f[i] = weft_spin(wait_for_input, as_arg(fd)), 0);
}

static void await_each(const weft_fiber *f, size_t n, weft_value expected)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(weft_await(f[i]), expected);
}

/* A turn in which half of them is cancelled, and as many begin. */
START_TEST(more_operations_and_cancels_in_a_turn_than_the_queue_holds)
{
    static weft_fiber f[WAITS], later[WAITS];
    int fd[2];
    prepare();
    ck_assert_int_eq(weft_pipe(fd), 0);
    fill_submission_queue();
    spin_waits(f, WAITS, fd[0]);
    let_run();
    ck_assert_uint_eq(ops_pending(), WAITS);
    ck_assert_uint_eq(ring_seen.most_entered, uring()->ring.sq.ring_entries);
    spin_waits(later, WAITS, fd[0]);
    fill_submission_queue();
    for (int i = 0; i < WAITS; i++)
        ck_assert_int_eq(weft_cancel(f[i]), 0);
    await_each(f, WAITS, -ECANCELED);
    let_run();
    ck_assert_uint_eq(ops_pending(), WAITS);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    await_each(later, WAITS, POLLIN);
    ck_assert_uint_eq(ops_pending(), 0);
    close_pair(fd);
}
END_TEST

/* Each on a socket of its own, so that all are with the kernel: none may have taken its byte. */
#define READERS 300

static weft_value read_one(void *arg)
{
    char byte;
    ssize_t n = weft_recv((int)(intptr_t)arg, &byte, 1, 0);
    return n == 1 ? byte : n;
}

START_TEST(reads_that_were_cancelled_all_at_once_have_taken_nothing)
{
    static int fd[READERS][2];
    static weft_fiber f[READERS];
    prepare();
    for (int i = 0; i < READERS; i++) {
        ck_assert_int_eq(weft_socketpair(fd[i]), 0);
        f[i] = weft_spin(read_one, as_arg(fd[i][0]));
    }
    let_run();
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(weft_cancel(f[i]), 0);
    await_each(f, READERS, -ECANCELED);
    for (int i = 0; i < READERS; i++) {
        f[i] = weft_spin(read_one, as_arg(fd[i][0]));
        ck_assert_int_eq(write(fd[i][1], "r", 1), 1);
    }
    await_each(f, READERS, 'r');
    for (int i = 0; i < READERS; i++)
        close_pair(fd[i]);
    ck_assert_uint_eq(ops_pending(), 0);
}
END_TEST

START_TEST(a_cancel_for_which_there_is_no_room_is_not_dropped)
{
    int fd[2];
    prepare();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    weft_fiber reader = weft_spin(read_one, as_arg(fd[0]));
    let_run();
    fill_submission_queue();
    ck_assert_int_eq(weft_cancel(reader), 0);
    ck_assert(!weft__list_is_empty(&uring()->cancels));
    ck_assert_int_eq(weft_await(reader), -ECANCELED);
    ck_assert_uint_eq(ops_pending(), 0);
    close_pair(fd);
}
END_TEST

/* Closing, too, gives back what the kernel has; and what has no room yet ends without it. */
START_TEST(closing_when_there_is_no_room_wakes_all_that_wait)
{
    weft_fiber f[2];
    int fd[2];
    prepare();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    f[0] = weft_spin(read_one, as_arg(fd[0]));
    let_run();
    fill_submission_queue();
    f[1] = weft_spin(wait_for_input, as_arg(fd[0]));
    weft_snooze();
    ck_assert(!weft__list_is_empty(&uring()->starts));
    ck_assert_int_eq(weft_close(fd[0]), 0);
    await_each(f, 2, -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}
END_TEST

/* One that was not with the kernel yet is simply taken back. */
START_TEST(an_operation_for_which_there_is_no_room_can_be_cancelled)
{
    int fd[2];
    prepare();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    fill_submission_queue();
    weft_fiber reader = weft_spin(read_one, as_arg(fd[0]));
    weft_snooze();
    ck_assert(!weft__list_is_empty(&uring()->starts));
    ck_assert_int_eq(weft_cancel(reader), 0);
    ck_assert(weft__list_is_empty(&uring()->starts));
    ck_assert_int_eq(weft_await(reader), -ECANCELED);
    ck_assert_uint_eq(ops_pending(), 0);
    close_pair(fd);
}
END_TEST

/*
 * The first reader waits for room, the second one for the first. That the second one leaves must
 * not start the first once more.
 */
START_TEST(an_operation_for_which_there_is_no_room_is_started_once)
{
    weft_fiber f[3];
    int fd[2];
    prepare();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    fill_submission_queue();
    for (int i = 0; i < 2; i++)
        f[i] = weft_spin(read_one, as_arg(fd[0]));
    f[2] = weft_spin(wait_for_input, as_arg(fd[0]));
    weft_snooze();
    ck_assert(!weft__list_is_empty(&uring()->starts));
    ck_assert_int_eq(weft_cancel(f[1]), 0);
    ck_assert_int_eq(weft_await(f[1]), -ECANCELED);
    size_t waiting = 0;
    WEFT__LIST_FOR(node, &uring()->starts)
        ck_assert_uint_le(++waiting, 2);
    ck_assert_int_eq(write(fd[1], "ab", 2), 2);
    ck_assert_int_eq(weft_await(f[0]), 'a');
    ck_assert_int_eq(weft_await(f[2]), POLLIN);
    ck_assert_int_eq(read_one(as_arg(fd[0])), 'b');
    ck_assert_uint_eq(ops_pending(), 0);
    close_pair(fd);
}
END_TEST

/* Reading a file that the kernel gives in two parts. */
#define PART_BYTES 4096

typedef struct file_read {
    int fd;
    ssize_t result;
    char data[2 * PART_BYTES];
} file_read;

static weft_value read_file(void *arg)
{
    file_read *r = arg;
    r->result = weft_read(r->fd, r->data, sizeof r->data);
    return 0;
}

static int open_two_parts(void)
{
    static const char part[2 * PART_BYTES];
    int fd = open_scratch_file();
    ck_assert_int_eq(weft_write(fd, part, sizeof part), sizeof part);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

START_TEST(a_file_that_comes_in_parts_is_read_as_a_whole)
{
    file_read r = {.result = 0};
    prepare();
    r.fd = open_two_parts();
    refused.read_bytes_max = PART_BYTES;
    read_file(&r);
    ck_assert_int_eq(r.result, sizeof r.data);
    ck_assert_uint_eq(ring_seen.reads, 2);
    ck_assert_int_eq(weft_close(r.fd), 0);
}
END_TEST

/* The position of the file tells how much was read: so much is the reader's. */
START_TEST(a_file_read_in_part_is_not_forgotten_by_a_cancel)
{
    file_read r = {.result = 0};
    prepare();
    r.fd = open_two_parts();
    refused.read_bytes_max = PART_BYTES;
    refused.is_full_after_reads = true;
    weft_fiber reader = weft_spin(read_file, &r);
    do {
        weft_sleep(0);
    } while (ring_seen.reads == 0);
    ck_assert_uint_eq(ring_seen.reads, 1); /* the second part waits for room */
    ck_assert(!weft__list_is_empty(&uring()->starts));
    refused.is_full_after_reads = false;
    ck_assert_int_eq(weft_cancel(reader), 0);
    (void)weft_await(reader);
    ck_assert_int_ge(r.result, PART_BYTES);
    ck_assert_int_eq(r.result, lseek(r.fd, 0, SEEK_CUR));
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert_int_eq(weft_close(r.fd), 0);
}
END_TEST

#define COMPLETIONS 5000 /* more than the completion queue holds */

/* One byte wakes all of them, and their completions come at once. */
static void complete_all_at_once(void)
{
    static weft_fiber f[COMPLETIONS];
    int fd[2];
    prepare();
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_uint_lt(uring()->ring.cq.ring_entries, COMPLETIONS);
    spin_waits(f, COMPLETIONS, fd[0]);
    let_run();
    ck_assert_uint_eq(ops_pending(), COMPLETIONS);
    ck_assert_int_eq(write(fd[1], "x", 1), 1);
    await_each(f, COMPLETIONS, POLLIN);
    ck_assert_uint_eq(ops_pending(), 0);
    close_pair(fd);
}

START_TEST(more_completions_at_once_than_the_queue_holds)
{
    complete_all_at_once();
}
END_TEST

/* A ring whose completions are not deferred lets them run over, into the kernel's own list. */
START_TEST(completions_that_run_over_are_not_lost)
{
    refused.setup_flags = IORING_SETUP_DEFER_TASKRUN;
    complete_all_at_once();
    ck_assert(ring_seen.has_overflown);
}
END_TEST

/* Keys. */

#define ROUNDS 100000 /* more than a key's count goes */

typedef struct endless {
    int fd;
    int bytes, interrupted;
} endless;

/* The operation is always at the same place on its stack. */
static weft_value read_on(void *arg)
{
    endless *e = arg;
    char byte;
    ssize_t n;
    while ((n = weft_recv(e->fd, &byte, 1, 0)) != 0) {
        /* -ECANCELED: another operation was meant. */
        REQUIRE(n == 1 || n == -EPROTO);
        e->bytes += n == 1;
        e->interrupted += n == -EPROTO;
    }
    return 0;
}

START_TEST(a_late_cancel_never_hits_the_next_operation_at_the_same_place)
{
    int fd[2], rounds = IS_SLOW ? ROUNDS / 10 : ROUNDS, written = 0, interrupts = 0;
    prepare();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_uint_ne(weft__key_make(uring(), &fd, 0), weft__key_make(uring(), &fd, 0));
    endless e = {.fd = fd[0]};
    weft_fiber f = weft_spin(read_on, &e);
    for (int i = 0; i < rounds; i++) {
        while (e.bytes < written) /* let it come to a read that waits */
            weft_sleep(0);
        if (i % 2 == 0)
            weft_snooze();
        if (i % 3 == 0) /* before the cancel, or after it: either may win */
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
    close_pair(fd);
}
END_TEST

/* Processes and threads. */

/* The child has the ring's descriptor and its memory, too. */
static void fork_with_ring(bool is_orderly)
{
    int fd[2], status;
    prepare();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    weft_fiber f = weft_spin(read_one, as_arg(fd[0]));
    let_run();
    weft_fiber second = weft_spin(wait_for_input, as_arg(fd[0])); /* entered, but not submitted */
    weft_snooze();
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0 && is_orderly)
        exit_here(0);
    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(ops_pending(), 2);
    ck_assert_int_eq(write(fd[1], "ab", 2), 2);
    ck_assert_int_eq(weft_await(f), 'a');
    ck_assert_int_eq(weft_await(second), POLLIN);
    close_pair(fd);
}

START_TEST(a_child_that_ends_leaves_the_ring_alone)
{
    fork_with_ring(true);
}
END_TEST

START_TEST(a_child_that_is_gone_at_once_leaves_the_ring_alone)
{
    fork_with_ring(false);
}
END_TEST

static int stop_at_first(int fd, void *ctx)
{
    (void)ctx;
    REQUIRE(weft_close(fd) == 0);
    return -ENOLINK;
}

/* It ends with buffers registered, a read under way, and connections that nobody took. */
static void *short_lived_cord(void *arg)
{
    int fd[2], client[3];
    struct sockaddr_in at;
    REQUIRE(weft_socketpair(fd) == 0);
    REQUIRE(write(fd[1], "ab", 2) == 2);
    inflow in = {.limit = 1};
    in.sum = 'a'; /* as count_data has it, the byte at this place */
    REQUIRE(weft_recv_loop(fd[0], count_data, &in) == -ENOLINK && in.sum == 'a' + 2);
    REQUIRE(weft_spin(read_one, as_arg(fd[0])) != 0);
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

START_TEST(threads_that_were_cords_leave_nothing_behind)
{
    share_verdict();
    run_threads(40); /* the C library keeps stacks and arenas */
    size_t fds = count_open(true) + count_open(false), mappings = count_mappings();
    size_t allocated = mallinfo2().uordblks;
    run_threads(200);
    ck_assert_uint_eq(count_open(true) + count_open(false), fds);
    ck_assert_uint_lt(count_mappings(), mappings + 50);
    ck_assert_uint_lt(mallinfo2().uordblks, allocated + 200 * 256);
}
END_TEST

/* Messages from ring to ring. */

static atomic_bool is_received;

static weft_value receive_one(void *arg)
{
    weft_value value = weft_receive();
    atomic_store(&is_received, true);
    return value + (weft_value)arg;
}

/* The cord sleeps. Give its ring's number to another file: messages to that ring fail. */
static void await_sleep_and_spoil(weft_cord cord)
{
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = weft__port_visit(index);
    ck_assert_ptr_nonnull(c);
    while (!atomic_load(&c->is_asleep) || weft__cord_has_letters(c))
        sched_yield();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC),
        ring_fd = weft__uring_of(c->backend)->ring.ring_fd;
    ck_assert_int_eq(dup3(null, ring_fd, O_CLOEXEC), ring_fd);
    close(null);
    weft__port_leave(index);
}

START_TEST(a_message_that_the_ring_refuses_wakes_the_receiver_while_the_sender_computes)
{
    prepare();
    weft_cord cord = weft_cord_start(receive_one, as_arg(1), NULL);
    ck_assert_uint_ne(cord, 0);
    await_sleep_and_spoil(cord);
    ck_assert_int_eq(weft_tell(cord, 41), 0);
    while (!atomic_load(&is_received)) /* computes: it neither switches nor polls */
        sched_yield();
    ck_assert_int_eq(weft_cord_join(cord), 42);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &each_operation_can_be_done_without,
        &all_operations_but_the_needed_can_be_done_without,
        &writes_to_a_file_stay_on_the_ring_without_rwf_nosignal,
        &more_operations_and_cancels_in_a_turn_than_the_queue_holds,
        &reads_that_were_cancelled_all_at_once_have_taken_nothing,
        &a_cancel_for_which_there_is_no_room_is_not_dropped,
        &closing_when_there_is_no_room_wakes_all_that_wait,
        &an_operation_for_which_there_is_no_room_can_be_cancelled,
        &an_operation_for_which_there_is_no_room_is_started_once,
        &a_file_that_comes_in_parts_is_read_as_a_whole,
        &a_file_read_in_part_is_not_forgotten_by_a_cancel,
        &more_completions_at_once_than_the_queue_holds,
        &completions_that_run_over_are_not_lost,
        &a_late_cancel_never_hits_the_next_operation_at_the_same_place,
        &a_child_that_ends_leaves_the_ring_alone,
        &a_child_that_is_gone_at_once_leaves_the_ring_alone,
        &threads_that_were_cords_leave_nothing_behind,
        &a_message_that_the_ring_refuses_wakes_the_receiver_while_the_sender_computes,
    };
    return run_suite("uring", tests, COUNT_OF(tests));
}
