/*
 * The n-th call fails, as in test_fault.c, for files, streams, copies and chains: what is said to
 * be done is done, an error comes from the call that met it, and no thread of the pool is missed.
 */
#include "fault_file.h"

#include "backend/lane.h"

START_TEST(a_file_is_as_the_calls_said)
{
    strike_some_calls(using_files, 1);
}
END_TEST

START_TEST(lines_that_were_flushed_arrive)
{
    strike_some_calls(streaming_lines, 2);
}
END_TEST

START_TEST(a_copy_is_whole_or_has_failed)
{
    strike_some_calls(copying, 3);
}
END_TEST

START_TEST(a_splice_that_failed_has_taken_nothing)
{
    strike_some_calls(splicing, 1);
}
END_TEST

START_TEST(a_chain_ends_with_its_first_failure)
{
    strike_some_calls(chaining, 1);
}
END_TEST

/* A file of two parts: the first is in memory, a thread has to read the second. */
#define PART_BYTES 4096

typedef struct file_read {
    int fd;
    ssize_t result;
    char data[2 * PART_BYTES];
} file_read;

/* By readv: it is not left to the ring, where there is one. */
static weft_value read_file(void *arg)
{
    file_read *r = arg;
    r->result = weft_readv(r->fd, &(struct iovec){r->data, sizeof r->data}, 1);
    return 0;
}

static weft_value open_fifo(void *arg)
{
    int fd = weft_open(arg, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    return weft_close(fd);
}

/* The only thread for files waits for someone who writes to the FIFO. */
static weft_fiber block_threads(const char *fifo)
{
    weft__lane_counts counts;
    ck_assert_int_eq(weft__lane_limit(WEFT__LANE_FILES, 1), 0);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    weft_fiber f = weft_spin(open_fifo, (void *)fifo);
    do {
        weft_sleep(0);
        weft__lane_count(WEFT__LANE_FILES, &counts);
    } while (counts.running != 1);
    return f;
}

static void unblock_threads(const char *fifo, weft_fiber f)
{
    int writer = open(fifo, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(writer, 0);
    ck_assert_int_eq(weft_await(f), 0);
    close(writer);
}

static int open_two_parts(const char *path)
{
    static const char parts[2 * PART_BYTES];
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, parts, sizeof parts), sizeof parts);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    in_memory.is_set = true;
    in_memory.bytes = PART_BYTES;
    return fd;
}

/* The position of the file tells how much was read: so much is the reader's. */
static void assert_part_is_kept(bool is_closed)
{
    place p;
    make_place(&p);
    weft_fiber blocker = block_threads(p.other);
    file_read r = {.fd = open_two_parts(p.file)};
    int same = dup(r.fd);
    weft_fiber reader = weft_spin(read_file, &r);
    while (weft_state_of(reader) != WEFT_WAITING)
        weft_snooze();
    ck_assert_int_eq(lseek(same, 0, SEEK_CUR), PART_BYTES);
    ck_assert_int_eq(is_closed ? weft_close(r.fd) : weft_cancel(reader), 0);
    unblock_threads(p.other, blocker);
    (void)weft_await(reader);
    ck_assert_int_ge(r.result, PART_BYTES);
    ck_assert_int_eq(r.result, lseek(same, 0, SEEK_CUR));
    if (!is_closed)
        ck_assert_int_eq(weft_close(r.fd), 0);
    close(same);
    remove_place(&p);
}

START_TEST(a_file_read_in_part_is_not_forgotten_by_a_cancel)
{
    assert_part_is_kept(false);
}
END_TEST

START_TEST(a_file_read_in_part_is_not_forgotten_by_a_close)
{
    assert_part_is_kept(true);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_file_is_as_the_calls_said,
        &lines_that_were_flushed_arrive,
        &a_copy_is_whole_or_has_failed,
        &a_splice_that_failed_has_taken_nothing,
        &a_chain_ends_with_its_first_failure,
        &a_file_read_in_part_is_not_forgotten_by_a_cancel,
        &a_file_read_in_part_is_not_forgotten_by_a_close,
    };
    return run_suite("fault_file", tests, COUNT_OF(tests));
}
