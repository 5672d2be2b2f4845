/*
 * Tests that compare the fast path of reads and writes on TCP connections with the slow path
 * (docs/adr/0051). weft_read and weft_write take the fast path. weft_recv, weft_send and the calls
 * with vectors take the slow path. All must leave the same trail.
 */
#include "support/net_support.h"
#include "support/suite.h"

typedef struct calls {
    const char *name;
    ssize_t (*read)(int fd, void *buffer, size_t bytes);
    ssize_t (*write)(int fd, const void *buffer, size_t bytes);
} calls;

static ssize_t recv_plain(int fd, void *buffer, size_t bytes)
{
    return weft_recv(fd, buffer, bytes, 0);
}

static ssize_t send_plain(int fd, const void *buffer, size_t bytes)
{
    return weft_send(fd, buffer, bytes, 0);
}

static ssize_t read_vector(int fd, void *buffer, size_t bytes)
{
    struct iovec v = {buffer, bytes};
    return weft_readv(fd, &v, 1);
}

static ssize_t write_vector(int fd, const void *buffer, size_t bytes)
{
    struct iovec v = {(void *)(uintptr_t)buffer, bytes};
    return weft_writev(fd, &v, 1);
}

static const calls fast = {"read", weft_read, weft_write};
static const calls slow[] = {
    {"recv", recv_plain, send_plain},
    {"readv", read_vector, write_vector},
};

static const calls *way; /* the calls of the current run */
static int pair[2];

static void mark_result(const char *what, long long number)
{
    const char *text = format("%s%lld ", what, number);
    mark(text);
}

/* Read once. Mark the result and the bytes. */
static weft_value read_and_mark(void *arg)
{
    char buffer[16] = "";
    size_t bytes = (size_t)(intptr_t)arg;
    mark_result("read ", way->read(pair[0], buffer, bytes));
    mark(buffer);
    mark(" ");
    return 0;
}

static weft_fiber spin_marking_reader(size_t bytes)
{
    weft_fiber f = weft_spin(read_and_mark, (void *)(intptr_t)bytes);
    ck_assert_uint_ne(f, 0);
    return f;
}

static void write_text(const char *text)
{
    mark_result("write ", way->write(pair[1], text, strlen(text)));
}

static void read_in_pieces(void)
{
    write_text("abcdefgh");
    read_and_mark((void *)3);
    read_and_mark((void *)5);
    write_text("ijk");
    read_and_mark((void *)15);
}

static void readers_wait_in_order(void)
{
    weft_fiber first = spin_marking_reader(2), second = spin_marking_reader(2),
               third = spin_marking_reader(15);
    let_run();
    mark_result("pending ", (long long)ops_pending());
    write_text("abcdef");
    weft_await(first);
    weft_await(second);
    weft_await(third);
}

static void a_cancelled_read_takes_nothing(void)
{
    weft_fiber cancelled = spin_marking_reader(4), next = spin_marking_reader(4);
    let_run();
    weft_cancel(cancelled);
    mark_result("cancelled ", weft_await(cancelled));
    write_text("abcd");
    weft_await(next);
    WEFT_MOVE_ON_AFTER(0)
        read_and_mark((void *)1);
}

static void a_closed_descriptor_ends_its_readers(void)
{
    weft_fiber first = spin_marking_reader(1), second = spin_marking_reader(1);
    let_run();
    mark_result("close ", weft_close(pair[0]));
    weft_await(first);
    weft_await(second);
    read_and_mark((void *)1);
    pair[0] = -1;
}

static void the_end_of_a_stream_is_read(void)
{
    spin_marking_reader(4);
    let_run();
    write_text("ab");
    ck_assert_int_eq(weft_shutdown(pair[1], SHUT_WR), 0);
    let_run();
    read_and_mark((void *)4);
    read_and_mark((void *)4);
    write_text("c");
}

static weft_value write_a_lot(void *arg)
{
    static char piece[4096];
    size_t sent = 0;
    while (sent < (size_t)(intptr_t)arg) {
        ssize_t n = way->write(pair[1], piece, sizeof piece);
        if (n < 0)
            return n;
        sent += (size_t)n;
    }
    return weft_shutdown(pair[1], SHUT_WR);
}

static void a_full_socket_delays_its_writer(void)
{
    static char buffer[1 << 16];
    size_t bytes = fill_up(pair[1]);
    weft_fiber writer = weft_spin(write_a_lot, (void *)(intptr_t)(16 << 10));
    let_run();
    mark_result("waits ", weft_state_of(writer) == WEFT_WAITING);
    ssize_t n;
    while ((n = way->read(pair[0], buffer, sizeof buffer)) > 0)
        bytes -= bytes >= (size_t)n ? (size_t)n : bytes;
    mark_result("end ", n);
    mark_result("left ", (long long)bytes);
    mark_result("writer ", weft_await(writer));
}

static void (*const scenarios[])(void) = {
    read_in_pieces,
    readers_wait_in_order,
    a_cancelled_read_takes_nothing,
    a_closed_descriptor_ends_its_readers,
    the_end_of_a_stream_is_read,
    a_full_socket_delays_its_writer,
};

/*
 * Only an operation after a wait takes the fast path. The first operations on a descriptor detect
 * the type of the file.
 */
static void exchange_first(void)
{
    for (int i = 0; i < 2; i++) {
        weft_fiber f = weft_spin(read_byte, &pair[i]);
        let_run();
        ck_assert_int_eq(weft_write(pair[1 - i], "x", 1), 1);
        ck_assert_int_eq(weft_await(f), 1);
    }
}

static void run_scenario(void (*scenario)(void), const calls *on)
{
    way = on;
    tcp_pair(pair);
    exchange_first();
    trail[0] = '\0';
    scenario();
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            ck_assert_int_eq(weft_close(pair[i]), 0);
    assert_nothing_pending();
}

TEST(reads_and_writes_on_the_slow_path_have_the_effects_of_the_fast_path)
{
    char expected[sizeof trail];
    for (size_t i = 0; i < COUNT_OF(scenarios); i++) {
        run_scenario(scenarios[i], &fast);
        strcpy(expected, trail);
        for (size_t j = 0; j < COUNT_OF(slow); j++) {
            run_scenario(scenarios[i], &slow[j]);
            ck_assert_msg(strcmp(trail, expected) == 0, "scenario %zu with %s: '%s', not '%s'", i,
                          slow[j].name, trail, expected);
        }
    }
}
