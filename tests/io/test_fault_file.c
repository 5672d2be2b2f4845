/*
 * Fault tests of files, streams, copies and chains: the n-th allocation or system call fails, for
 * each n. Reported results are true, the failing call returns the error, and no worker is lost.
 */
#include "support/fault_file.h"
#include "support/suite.h"

#include "backend/workers/worker_queue.h"

FAULT_TEST(a_file_matches_the_results_of_the_calls, use_files, 1)
FAULT_TEST(flushed_lines_arrive, stream_lines, 2)
FAULT_TEST(a_copy_is_complete_or_fails, copy_all, 3)
FAULT_TEST(a_failed_splice_consumes_no_data, splice_and_tee, 1)
FAULT_TEST(a_chain_ends_with_its_first_failure, run_chains, 1)

/* A file of two parts. The first is in memory, a worker must read the second. */
#define PART_BYTES 4096

typedef struct file_read {
    int fd;
    bool is_vector; /* use readv, which does not run on the ring of io_uring */
    ssize_t result;
    char data[2 * PART_BYTES];
} file_read;

static weft_value read_file(void *arg)
{
    file_read *r = arg;
    r->result = r->is_vector ? weft_readv(r->fd, &(struct iovec){r->data, sizeof r->data}, 1)
                             : weft_read(r->fd, r->data, sizeof r->data);
    return 0;
}

static weft_value open_fifo(void *arg)
{
    int fd = weft_open(arg, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    return weft_close(fd);
}

/* Make the only worker for files wait for a writer of the FIFO. */
static weft_fiber block_file_worker(const char *fifo)
{
    weft__worker_queue_counts counts;
    ck_assert_int_eq(weft__worker_queue_limit(WEFT__WORKER_QUEUE_FILES, 1), 0);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    weft_fiber f = weft_spin(open_fifo, (void *)fifo);
    do {
        weft_sleep(0);
        weft__worker_queue_count(WEFT__WORKER_QUEUE_FILES, &counts);
    } while (counts.running != 1);
    return f;
}

static void unblock_file_worker(const char *fifo, weft_fiber f)
{
    int writer = open(fifo, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(writer, 0);
    ck_assert_int_eq(weft_await(f), 0);
    close(writer);
}

static int open_two_parts(const char *path)
{
    static char parts[2 * PART_BYTES];
    memset(parts, 'a', PART_BYTES);
    memset(parts + PART_BYTES, 'b', PART_BYTES);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, parts, sizeof parts), sizeof parts);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    page_cache.is_set = true;
    page_cache.bytes = PART_BYTES;
    return fd;
}

/* The result equals the file position, and the buffer contains these bytes of the file. */
static void expect_result(const file_read *r, int duplicate)
{
    size_t same = 0;
    ck_assert_int_eq(r->result, lseek(duplicate, 0, SEEK_CUR));
    while (same < (size_t)r->result && r->data[same] == (same < PART_BYTES ? 'a' : 'b'))
        same++;
    ck_assert_uint_eq(same, r->result);
}

static void assert_part_is_returned(bool is_closed)
{
    workspace p;
    make_workspace(&p);
    weft_fiber blocker = block_file_worker(p.other);
    file_read r = {.fd = open_two_parts(p.file), .is_vector = true};
    int duplicate = dup(r.fd);
    weft_fiber reader = weft_spin(read_file, &r);
    while (weft_state_of(reader) != WEFT_WAITING)
        weft_snooze();
    ck_assert_int_eq(lseek(duplicate, 0, SEEK_CUR), PART_BYTES);
    ck_assert_int_eq(is_closed ? weft_close(r.fd) : weft_cancel(reader), 0);
    unblock_file_worker(p.other, blocker);
    (void)weft_await(reader);
    ck_assert_int_ge(r.result, PART_BYTES);
    expect_result(&r, duplicate);
    if (!is_closed)
        ck_assert_int_eq(weft_close(r.fd), 0);
    close(duplicate);
    remove_workspace(&p);
}

TEST(a_cancelled_read_returns_the_bytes_already_read_from_a_file)
{
    assert_part_is_returned(false);
}

TEST(a_read_ended_by_a_close_returns_the_bytes_already_read_from_a_file)
{
    assert_part_is_returned(true);
}

/*
 * Read the file with at most call_bytes_max bytes per call, and expect a result. If error is not 0,
 * only the first part is in memory, and reading the second part fails.
 */
static void expect_read(bool is_vector, size_t call_bytes_max, int error, size_t result)
{
    workspace p;
    make_workspace(&p);
    file_read r = {.fd = open_two_parts(p.file), .is_vector = is_vector};
    page_cache.bytes = error != 0 ? PART_BYTES : 2 * PART_BYTES;
    page_cache.call_bytes_max = call_bytes_max;
    page_cache.error = error;
    read_file(&r);
    ck_assert_int_eq(r.result, result);
    expect_result(&r, r.fd);
    page_cache.is_set = false;
    ck_assert_int_eq(weft_close(r.fd), 0);
    remove_workspace(&p);
}

TEST(a_file_that_is_cached_in_parts_is_read_as_a_whole)
{
    expect_read(false, PART_BYTES, 0, 2 * PART_BYTES);
    expect_read(true, PART_BYTES, 0, 2 * PART_BYTES);
}

TEST(a_read_that_fails_after_a_part_returns_the_bytes_already_read_from_a_file)
{
    expect_read(true, 0, EIO, PART_BYTES);
}
