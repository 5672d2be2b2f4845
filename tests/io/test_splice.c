/*
 * Tests of splice, tee, sendfile and chunked copies: the copied bytes, the remaining bytes, and
 * cancellation.
 */
#include "support/net_support.h"
#include "support/suite.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)

/* The kinds of streams. */
typedef enum kind { PIPE, UNIX, TCP, KIND_COUNT } kind;

static void open_tcp(int fd[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd[1], (struct sockaddr *)&address, bytes), 0);
    fd[0] = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd[0], 0);
    close(listener);
}

/* Open a stream as weft_pipe does: fd[0] reads, fd[1] writes. */
static void open_kind(kind k, int fd[2], bool is_nonblocking)
{
    if (k == TCP)
        open_tcp(fd);
    else
        ck_assert_int_eq(k == PIPE ? weft_pipe(fd) : weft_socketpair(fd), 0);
    for (int i = 0; i < 2 && is_nonblocking; i++)
        fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK);
}

/* Create an unlinked file with this number of bytes, at position 0. */
static int open_file(size_t bytes, int flags)
{
    char path[] = "/tmp/weft-test-copy-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC | flags);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    unsigned char *data = malloc(bytes + 1);
    fill_from(data, bytes, 0);
    ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
    free(data);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void check_file(int fd, size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);
    ck_assert_int_eq(pread(fd, data, bytes + 1, 0), (ssize_t)bytes);
    assert_bytes_at(data, bytes, 0);
    free(data);
}

static size_t open_descriptors(void)
{
    size_t n = 0;
    weft_sleep(0); /* let the backend open its own descriptors first */
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

/* Return the number of bytes that can be read. */
static size_t queued_bytes(int fd)
{
    int bytes = 0;
    ck_assert_int_eq(ioctl(fd, FIONREAD, &bytes), 0);
    return (size_t)bytes;
}

/* One end of a stream, for a writing or a reading fiber. */
typedef struct stream_end {
    int fd;
    size_t bytes; /* to write, or read so far */
} stream_end;

/* Write the bytes of the test stream and close. Return the error, or 0. */
static weft_value write_and_close(void *arg)
{
    stream_end *e = arg;
    unsigned char *data = malloc(e->bytes + 1);
    fill_from(data, e->bytes, 0);
    ssize_t n = weft_write_all(e->fd, data, e->bytes);
    free(data);
    weft_close(e->fd);
    return n < 0 ? n : 0;
}

/* Read to the end and close. Assert each byte. */
static weft_value read_to_end(void *arg)
{
    stream_end *e = arg;
    unsigned char data[5000];
    ssize_t n;
    while ((n = weft_read(e->fd, data, 1 + random_below(sizeof data))) > 0) {
        assert_bytes_at(data, (size_t)n, e->bytes);
        e->bytes += (size_t)n;
        if (random_below(8) == 0)
            weft_snooze();
    }
    weft_close(e->fd);
    return n;
}

typedef struct route {
    int in, out;
    ssize_t result;
} route;

static weft_value splice_some(void *arg)
{
    route *r = arg;
    return r->result = weft_splice(r->in, NULL, r->out, NULL, MIB, 0);
}

static weft_value splice_everything(void *arg)
{
    route *r = arg;
    return r->result = weft_splice_all(r->in, r->out);
}

static weft_value send_everything(void *arg)
{
    route *r = arg;
    return r->result = weft_sendfile(r->out, r->in, NULL, SIZE_MAX);
}

static weft_value chunk_everything(void *arg)
{
    static const weft_chunk_format http = {
        .chunk_prefix = "%zx\r\n", .chunk_postfix = "\r\n", .postfix = "0\r\n\r\n"};
    route *r = arg;
    return r->result = weft_splice_chunks(r->in, r->out, &http);
}

/* P69 */
TEST(a_splice_moves_available_bytes_and_returns_0_at_the_end)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int from[2], to[2];
        char data[8];
        open_kind((kind)(round / 2), from, round % 2);
        open_kind(PIPE, to, round % 2);
        ck_assert_int_eq(weft_write(from[1], "hello", 5), 5);
        ck_assert_int_eq(weft_splice(from[0], NULL, to[1], NULL, 3, 0), 3);
        ck_assert_int_eq(weft_splice(from[0], NULL, to[1], NULL, 8, 0), 2);
        ck_assert_int_eq(weft_read_full(to[0], data, 5), 5);
        ck_assert_mem_eq(data, "hello", 5);
        ck_assert_int_eq(weft_splice(from[0], NULL, to[1], NULL, 0, 0), 0);
        ck_assert_int_eq(weft_close(from[1]), 0);
        ck_assert_int_eq(weft_splice(from[0], NULL, to[1], NULL, 8, 0), 0);
        weft_close(from[0]);
        weft_close(to[0]);
        weft_close(to[1]);
    }
}

TEST(a_splice_waits_for_its_input)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int from[2], to[2];
        char data[8];
        open_kind((kind)(round / 2), from, round % 2);
        open_kind(PIPE, to, round % 2);
        route r = {.in = from[0], .out = to[1]};
        weft_fiber f = spin_waiting(splice_some, &r);
        ck_assert_int_eq(weft_write(from[1], "late", 4), 4);
        ck_assert_int_eq(weft_await(f), 4);
        ck_assert_int_eq(weft_read(to[0], data, sizeof data), 4);
        ck_assert_mem_eq(data, "late", 4);
        f = spin_waiting(splice_some, &r);
        ck_assert_int_eq(weft_close(from[1]), 0);
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_uint_eq(ops_pending(), 0);
        weft_close(from[0]);
        weft_close(to[0]);
        weft_close(to[1]);
    }
}

TEST(a_splice_waits_for_room_in_its_output)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int from[2], to[2];
        open_kind(PIPE, from, round % 2);
        open_kind((kind)(round / 2), to, round % 2);
        size_t before = fill_up(to[1]);
        ck_assert_int_eq(weft_write(from[1], "late", 4), 4);
        route r = {.in = from[0], .out = to[1]};
        weft_fiber f = spin_waiting(splice_some, &r);
        char *data = malloc(before + 4);
        ck_assert_int_eq(weft_read_full(to[0], data, before + 4), (ssize_t)before + 4);
        ck_assert_mem_eq(data + before, "late", 4);
        free(data);
        ck_assert_int_eq(weft_await(f), 4);
        ck_assert_uint_eq(ops_pending(), 0);
        weft_close(from[0]);
        weft_close(from[1]);
        weft_close(to[0]);
        weft_close(to[1]);
    }
}

TEST(a_splice_of_a_file_uses_the_given_offsets)
{
    int from = open_file(1000, 0), to = open_file(0, 0), fd[2];
    int64_t at = 10, to_at = 0;
    open_kind(PIPE, fd, false);
    ck_assert_int_eq(weft_splice(from, &at, fd[1], NULL, 500, 0), 500);
    ck_assert_int_eq(at, 510);
    ck_assert_int_eq(weft_splice(fd[0], NULL, to, &to_at, 500, 0), 500);
    ck_assert_int_eq(to_at, 500);
    unsigned char data[1000];
    ck_assert_int_eq(pread(to, data, sizeof data, 0), 500);
    assert_bytes_at(data, 500, 10);
    ck_assert_int_eq(lseek(from, 0, SEEK_CUR), 0);
    ck_assert_int_eq(lseek(to, 0, SEEK_CUR), 0);
    ck_assert_int_eq(weft_splice(from, NULL, to, NULL, 1, 0), -EINVAL); /* neither is a pipe */
    ck_assert_int_eq(weft_splice(-1, NULL, fd[1], NULL, 1, 0), -EBADF);
    ck_assert_int_eq(weft_splice(fd[0], NULL, -1, NULL, 1, 0), -EBADF);
}

/* P69 */
TEST(a_tee_leaves_the_bytes_in_the_input)
{
    for (int round = 0; round < 2; round++) {
        int from[2], to[2];
        char data[8];
        open_kind(PIPE, from, round);
        open_kind(PIPE, to, round);
        ck_assert_int_eq(weft_write(from[1], "both", 4), 4);
        ck_assert_int_eq(weft_tee(from[0], to[1], 100, 0), 4);
        ck_assert_int_eq(weft_read(to[0], data, sizeof data), 4);
        ck_assert_mem_eq(data, "both", 4);
        ck_assert_int_eq(weft_read(from[0], data, sizeof data), 4);
        ck_assert_mem_eq(data, "both", 4);
        weft_close(from[1]);
        ck_assert_int_eq(weft_tee(from[0], to[1], 100, 0), 0);
        weft_close(from[0]);
        weft_close(to[0]);
        weft_close(to[1]);
    }
}

static weft_value tee_some(void *arg)
{
    route *r = arg;
    return r->result = weft_tee(r->in, r->out, 100, 0);
}

TEST(a_tee_waits_and_can_be_cancelled)
{
    int from[2], to[2];
    open_kind(PIPE, from, false);
    open_kind(PIPE, to, false);
    route r = {.in = from[0], .out = to[1]};
    weft_fiber f = spin_waiting(tee_some, &r);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    f = spin_waiting(tee_some, &r);
    ck_assert_int_eq(weft_write(from[1], "x", 1), 1);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_uint_eq(queued_bytes(from[0]), 1);
    ck_assert_uint_eq(queued_bytes(to[0]), 1);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* Copy from one stream to another while other fibers write and read. */
static void copy_between(kind from_kind, kind to_kind, bool is_nonblocking, size_t bytes)
{
    int from[2], to[2];
    open_kind(from_kind, from, is_nonblocking);
    open_kind(to_kind, to, is_nonblocking);
    stream_end writing = {from[1], bytes}, reading = {to[0], 0};
    weft_fiber writer = weft_spin(write_and_close, &writing);
    weft_fiber reader = weft_spin(read_to_end, &reading);
    ck_assert_int_eq(weft_splice_all(from[0], to[1]), (ssize_t)bytes);
    weft_close(from[0]);
    weft_close(to[1]);
    ck_assert_int_eq(weft_await(writer), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, bytes);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* P69 */
TEST(splice_all_moves_all_bytes_between_any_two_kinds)
{
    const size_t before = open_descriptors();
    for (int from = 0; from < KIND_COUNT; from++)
        for (int to = 0; to < KIND_COUNT; to++)
            for (int round = 0; round < 2; round++) {
                copy_between((kind)from, (kind)to, round, MIB + 1);
                copy_between((kind)from, (kind)to, round, 1);
                copy_between((kind)from, (kind)to, round, 0);
            }
    ck_assert_uint_eq(open_descriptors(), before);
}

/* The kernel refuses to splice to a file with O_APPEND. */
TEST(splice_all_copies_from_and_to_files)
{
    static const int flags[] = {0, O_APPEND};
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        int from = open_file(MIB, 0), to = open_file(0, flags[i]);
        ck_assert_int_eq(weft_splice_all(from, to), (ssize_t)MIB);
        ck_assert_int_eq(lseek(from, 0, SEEK_CUR), (off_t)MIB);
        check_file(to, MIB);
        close(to);
        for (int k = 0; k < KIND_COUNT; k++) {
            int fd[2];
            open_kind((kind)k, fd, false);
            lseek(from, 0, SEEK_SET);
            stream_end reading = {fd[0], 0};
            weft_fiber reader = weft_spin(read_to_end, &reading);
            ck_assert_int_eq(weft_splice_all(from, fd[1]), (ssize_t)MIB);
            weft_close(fd[1]);
            ck_assert_int_eq(weft_await(reader), 0);
            ck_assert_uint_eq(reading.bytes, MIB);
            open_kind((kind)k, fd, false);
            to = open_file(0, flags[i]);
            stream_end writing = {fd[1], MIB};
            weft_fiber writer = weft_spin(write_and_close, &writing);
            ck_assert_int_eq(weft_splice_all(fd[0], to), (ssize_t)MIB);
            ck_assert_int_eq(weft_await(writer), 0);
            check_file(to, MIB);
            weft_close(fd[0]);
            close(to);
        }
        close(from);
    }
}

TEST(splice_all_uses_a_buffer_without_descriptors_for_a_pipe)
{
    int from[2], to[2];
    open_kind(UNIX, from, false);
    open_kind(UNIX, to, false);
    stream_end writing = {from[1], MIB}, reading = {to[0], 0};
    weft_fiber writer = weft_spin(write_and_close, &writing);
    weft_fiber reader = weft_spin(read_to_end, &reading);
    weft_sleep(0);
    int next = dup(from[0]);
    close(next);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, old.rlim_max});
    int none[2];
    ck_assert_int_eq(weft_pipe(none), -EMFILE);
    ck_assert_int_eq(weft_splice_all(from[0], to[1]), (ssize_t)MIB);
    setrlimit(RLIMIT_NOFILE, &old);
    weft_close(to[1]);
    ck_assert_int_eq(weft_await(writer), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, MIB);
}

/* A copy to a reader that does not read. The writer and the copying fiber wait. */
typedef struct blocked_copy {
    int from[2], to[2];
    stream_end writing;
    route r;
    weft_fiber writer, copier;
} blocked_copy;

static void start_blocked_copy(blocked_copy *d, weft_fn *fn, kind from, kind to, size_t bytes)
{
    open_kind(from, d->from, false);
    open_kind(to, d->to, false);
    d->writing = (stream_end){d->from[1], bytes};
    d->r = (route){.in = d->from[0], .out = d->to[1]};
    d->writer = weft_spin(write_and_close, &d->writing);
    d->copier = weft_spin(fn, &d->r);
    size_t before;
    do { /* TCP delivers asynchronously, in a soft interrupt */
        before = queued_bytes(d->from[0]) + queued_bytes(d->to[0]);
        for (int i = 0; i < 20; i++)
            weft_sleep(100e-6);
    } while (queued_bytes(d->from[0]) + queued_bytes(d->to[0]) != before);
    ck_assert_int_eq(weft_state_of(d->copier), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(d->writer), WEFT_WAITING);
}

/* P69 */
TEST(a_slow_reader_applies_backpressure_to_the_input)
{
    blocked_copy d;
    start_blocked_copy(&d, splice_everything, UNIX, UNIX, 4 * MIB);
    ck_assert_uint_gt(queued_bytes(d.from[0]), 0);
    ck_assert_uint_le(queued_bytes(d.to[0]), MIB);
    stream_end reading = {d.to[0], 0};
    weft_fiber reader = weft_spin(read_to_end, &reading);
    ck_assert_int_eq(weft_await(d.copier), (ssize_t)(4 * MIB));
    weft_close(d.to[1]);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_int_eq(weft_await(d.writer), 0);
    ck_assert_uint_eq(reading.bytes, 4 * MIB);
}

/* P61, P63: the reader continues only after the cancelled call has returned */
TEST(a_cancelled_splice_to_a_reader_that_does_not_read_loses_no_byte)
{
    static const kind kinds[][2] = {{UNIX, UNIX}, {UNIX, TCP},  {TCP, UNIX},
                                    {TCP, TCP},   {PIPE, UNIX}, {TCP, PIPE}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        blocked_copy d;
        start_blocked_copy(&d, splice_everything, kinds[i][0], kinds[i][1], 16 * MIB);
        weft_cancel(d.copier);
        ck_assert_int_eq(weft_await(d.copier), -ECANCELED);
        ck_assert_int_eq(d.r.result, -ECANCELED);
        stream_end reading = {d.to[0], 0};
        weft_fiber reader = weft_spin(read_to_end, &reading);
        ck_assert_int_gt(weft_splice_all(d.from[0], d.to[1]), 0);
        weft_close(d.to[1]);
        weft_close(d.from[0]);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_int_eq(weft_await(d.writer), 0);
        ck_assert_uint_eq(reading.bytes, 16 * MIB);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

TEST(an_interrupted_splice_returns_the_value_and_loses_no_byte)
{
    blocked_copy d;
    start_blocked_copy(&d, splice_everything, UNIX, UNIX, MIB);
    ck_assert_int_eq(weft_interrupt(d.copier, -EINTR), 0);
    ck_assert_int_eq(weft_await(d.copier), -EINTR);
    stream_end reading = {d.to[0], 0};
    weft_fiber reader = weft_spin(read_to_end, &reading);
    ck_assert_int_gt(weft_splice_all(d.from[0], d.to[1]), 0);
    ck_assert_int_eq(weft_await(d.writer), 0);
    int from[2];
    open_kind(UNIX, from, false);
    route r = {.in = from[0], .out = d.to[1]};
    weft_fiber f = spin_waiting(splice_everything, &r);
    ck_assert_int_eq(weft_interrupt(f, -7), 0);
    ck_assert_int_eq(weft_await(f), -7);
    weft_close(d.to[1]);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, MIB);
}

/* Interrupt the copy at random times and repeat it, until the input ends. */
static weft_value splice_with_timeouts(void *arg)
{
    route *r = arg;
    ssize_t n = -ECANCELED;
    for (int i = 0; n == -ECANCELED; i++)
        WEFT_MOVE_ON_AFTER(i < 500 ? random_below(200) * 1e-6 : INFINITY) {
            n = weft_splice_all(r->in, r->out);
        }
    return n < 0 ? n : 0;
}

/* P61, P63 */
TEST(a_storm_of_cancellations_loses_no_byte)
{
    static const kind kinds[][2] = {{UNIX, UNIX}, {UNIX, TCP},  {TCP, UNIX},
                                    {TCP, TCP},   {PIPE, UNIX}, {TCP, PIPE}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        int from[2], to[2];
        open_kind(kinds[i][0], from, i % 2);
        open_kind(kinds[i][1], to, i % 2);
        stream_end writing = {from[1], 4 * MIB}, reading = {to[0], 0};
        route r = {.in = from[0], .out = to[1]};
        weft_fiber writer = weft_spin(write_and_close, &writing);
        weft_fiber reader = weft_spin(read_to_end, &reading);
        weft_fiber copier = weft_spin(splice_with_timeouts, &r);
        ck_assert_int_eq(weft_await(copier), 0);
        weft_close(to[1]);
        weft_close(from[0]);
        ck_assert_int_eq(weft_await(writer), 0);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_uint_eq(reading.bytes, 4 * MIB);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

/* P65, T98 */
TEST(closing_either_end_of_a_splice_that_waits_for_input_gives_EBADF)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int from[2], to[2];
        open_kind((kind)(round / 2), from, false);
        open_kind(PIPE, to, false);
        route r = {.in = from[0], .out = to[1]};
        weft_fiber f = spin_waiting(splice_some, &r);
        ck_assert_int_eq(weft_close(round % 2 ? r.in : r.out), 0);
        ck_assert_int_eq(weft_await(f), -EBADF);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

/* P65, T98 */
TEST(closing_either_end_of_a_splice_that_waits_for_room_gives_EBADF)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int from[2], to[2];
        open_kind(PIPE, from, false);
        open_kind((kind)(round / 2), to, false);
        fill_up(to[1]);
        weft_write(from[1], "x", 1);
        route r = {.in = from[0], .out = to[1]};
        weft_fiber f = spin_waiting(splice_some, &r);
        ck_assert_int_eq(weft_close(round % 2 ? r.in : r.out), 0);
        ck_assert_int_eq(weft_await(f), -EBADF);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

/* P65, T98 */
TEST(closing_an_end_of_splice_all_or_splice_chunks_gives_EBADF)
{
    static weft_fn *const copies[] = {splice_everything, chunk_everything};
    for (size_t i = 0; i < COUNT_OF(copies); i++) {
        int from[2], to[2];
        open_kind(UNIX, from, false);
        open_kind(UNIX, to, false);
        route r = {.in = from[0], .out = to[1]};
        weft_fiber f = spin_waiting(copies[i], &r);
        ck_assert_int_eq(weft_close(r.in), 0);
        ck_assert_int_eq(weft_await(f), -EBADF);
        blocked_copy d;
        start_blocked_copy(&d, copies[i], UNIX, UNIX, 4 * MIB);
        ck_assert_int_eq(weft_close(d.r.out), 0);
        ck_assert_int_eq(weft_await(d.copier), -EBADF);
        weft_terminate(d.writer, 1);
    }
}

/* P65, T98 */
TEST(closing_either_end_of_a_waiting_sendfile_gives_EBADF)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int to[2];
        open_kind((kind)(round / 2), to, false);
        fill_up(to[1]);
        route r = {.in = open_file(MIB, 0), .out = to[1]};
        weft_fiber f = spin_waiting(send_everything, &r);
        ck_assert_int_eq(weft_close(round % 2 ? r.in : r.out), 0);
        ck_assert_int_eq(weft_await(f), -EBADF);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

/* SIGPIPE would end this process. */
TEST(a_closed_peer_gives_EPIPE_without_a_signal)
{
    for (int k = PIPE; k <= UNIX; k++) {
        int from[2], to[2];
        open_kind(PIPE, from, false);
        open_kind((kind)k, to, false);
        weft_close(to[0]);
        int file = open_file(MIB, 0);
        weft_write(from[1], "abc", 3);
        ck_assert_int_eq(weft_splice(from[0], NULL, to[1], NULL, 1, 0), -EPIPE);
        ck_assert_int_eq(weft_splice_all(from[0], to[1]), -EPIPE);
        route r = {.in = from[0], .out = to[1]};
        ck_assert_int_eq(chunk_everything(&r), -EPIPE);
        ck_assert_int_eq(weft_sendfile(to[1], file, NULL, MIB), -EPIPE);
        ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 0);
        weft_close(to[1]);
        open_kind((kind)k, to, false);
        fill_up(to[1]);
        route waiting = {.in = file, .out = to[1]};
        weft_fiber f = spin_waiting(send_everything, &waiting);
        weft_close(to[0]);
        weft_value rc = weft_await(f); /* unread data resets the connection */
        ck_assert(rc == -EPIPE || rc == -ECONNRESET);
    }
    sigset_t pending;
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}

#define CHUNK 8

static const weft_chunk_format http_chunks = {.prefix = "head\r\n\r\n",
                                              .postfix = "0\r\n\r\n",
                                              .chunk_prefix = "%zx\r\n",
                                              .chunk_postfix = "\r\n",
                                              .chunk_bytes_max = CHUNK};

/* Encode the test stream in chunks. Return the number of bytes. */
static size_t encode_chunks(char *out, size_t bytes)
{
    size_t n = (size_t)sprintf(out, "head\r\n\r\n");
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t chunk = bytes - at < CHUNK ? bytes - at : CHUNK;
        n += (size_t)sprintf(out + n, "%zx\r\n", chunk);
        fill_from((unsigned char *)out + n, chunk, at);
        n += chunk;
        n += (size_t)sprintf(out + n, "\r\n");
    }
    return n + (size_t)sprintf(out + n, "0\r\n\r\n");
}

static void check_chunks(int fd_in, int fd_out, int fd_read, size_t bytes)
{
    char expected[256], got[256];
    size_t n = encode_chunks(expected, bytes);
    ck_assert_int_eq(weft_splice_chunks(fd_in, fd_out, &http_chunks), (ssize_t)bytes);
    lseek(fd_read, 0, SEEK_SET); /* for a file */
    ck_assert_int_eq(read(fd_read, got, sizeof got), (ssize_t)n);
    ck_assert_mem_eq(got, expected, n);
}

/* P69 */
TEST(chunks_are_written_exactly_in_their_format)
{
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK};
    const size_t before = open_descriptors();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int from_kind = 0; from_kind <= KIND_COUNT; from_kind++)
            for (int to_kind = 0; to_kind < KIND_COUNT; to_kind++) {
                int from[2] = {-1, -1}, to[2];
                open_kind((kind)to_kind, to, i % 2);
                if (from_kind == KIND_COUNT) {
                    from[0] = open_file(sizes[i], 0);
                } else {
                    open_kind((kind)from_kind, from, i % 2);
                    stream_end writing = {from[1], sizes[i]};
                    ck_assert_int_eq(write_and_close(&writing), 0);
                }
                check_chunks(from[0], to[1], to[0], sizes[i]);
                weft_close(from[0]);
                weft_close(to[0]);
                weft_close(to[1]);
            }
    ck_assert_uint_eq(open_descriptors(), before);
}

TEST(chunks_can_be_written_to_a_file_with_O_APPEND)
{
    int from[2], to = open_file(0, O_APPEND);
    open_kind(UNIX, from, false);
    stream_end writing = {from[1], 3 * CHUNK + 1};
    ck_assert_int_eq(write_and_close(&writing), 0);
    check_chunks(from[0], to, to, 3 * CHUNK + 1);
}

TEST(chunks_without_a_format_are_the_plain_bytes)
{
    int from = open_file(40000, 0), to = open_file(0, 0);
    ck_assert_int_eq(weft_splice_chunks(from, to, &(weft_chunk_format){0}), 40000);
    check_file(to, 40000);
}

TEST(chunks_may_be_large)
{
    int from = open_file(MIB, 0), to = open_file(0, 0);
    weft_chunk_format format = {.chunk_prefix = "%%%zX;", .chunk_bytes_max = MIB / 2};
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), (ssize_t)MIB);
    char text[8] = "";
    ck_assert_int_eq(pread(to, text, 7, 0), 7);
    ck_assert_str_eq(text, "%80000;");
    ck_assert_int_eq(lseek(to, 0, SEEK_END), (off_t)MIB + 14);
}

TEST(an_invalid_format_is_refused_before_anything_is_written)
{
    static const char *const wrong[] = {"",     "%",     "%d",      "%s",    "%zd", "%z",
                                        "%zu%", "100%%", "%zu %zx", "%n%zu", "%4zu"};
    int from = open_file(10, 0), to = open_file(0, 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        weft_chunk_format format = {.prefix = "x", .chunk_prefix = wrong[i]};
        ck_assert_int_eq(weft_splice_chunks(from, to, &format), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
    char text[300] = "%zx";
    memset(text + 3, '-', 253);
    weft_chunk_format format = {.prefix = "x", .chunk_prefix = text};
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), 10);
    ck_assert_int_eq(lseek(to, 0, SEEK_END), 1 + 1 + 253 + 10);
    text[256] = '-';
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), -EMSGSIZE);
    ck_assert_any_error(-EMSGSIZE);
    ck_assert_int_eq(lseek(to, 0, SEEK_END), 1 + 1 + 253 + 10);
}

/*
 * Decode the chunks while they arrive. A stream that breaks off inside a chunk cannot be decoded.
 */
static weft_value read_chunks(void *arg)
{
    stream_end *e = arg;
    unsigned char data[4096];
    for (;;) {
        size_t bytes = 0;
        char c;
        ssize_t n;
        while ((n = weft_read(e->fd, &c, 1)) == 1 && c != ' ')
            bytes = bytes * 10 + (size_t)(c - '0');
        if (n <= 0 || bytes == 0)
            return n;
        ck_assert_uint_lt(bytes, sizeof data);
        ck_assert_int_eq(weft_read_full(e->fd, data, bytes + 1), (ssize_t)bytes + 1);
        ck_assert_int_eq(data[bytes], ';');
        assert_bytes_at(data, bytes, e->bytes);
        e->bytes += bytes;
    }
}

static weft_value chunk_with_timeouts(void *arg)
{
    const weft_chunk_format format = {
        .chunk_prefix = "%zu ", .chunk_postfix = ";", .chunk_bytes_max = 4000};
    route *r = arg;
    ssize_t n = -ECANCELED;
    for (int i = 0; n == -ECANCELED; i++)
        WEFT_MOVE_ON_AFTER(i < 500 ? random_below(200) * 1e-6 : INFINITY) {
            n = weft_splice_chunks(r->in, r->out, &format);
        }
    return n < 0 ? n : 0;
}

TEST(a_cancelled_copy_completes_its_current_chunk)
{
    for (int k = 0; k < KIND_COUNT; k++) {
        int from[2], to[2];
        open_kind(UNIX, from, false);
        open_kind((kind)k, to, false);
        stream_end writing = {from[1], 2 * MIB}, reading = {to[0], 0};
        route r = {.in = from[0], .out = to[1]};
        weft_fiber writer = weft_spin(write_and_close, &writing);
        weft_fiber reader = weft_spin(read_chunks, &reading);
        weft_fiber copier = weft_spin(chunk_with_timeouts, &r);
        ck_assert_int_eq(weft_await(copier), 0);
        weft_close(to[1]);
        ck_assert_int_eq(weft_await(writer), 0);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_uint_eq(reading.bytes, 2 * MIB);
    }
}

/* Send a file from offset at to a stream of this kind. Assert the received bytes. */
static void send_file_to(kind k, int file, off_t at, size_t bytes, size_t expected,
                         bool is_by_position)
{
    int to[2];
    open_kind(k, to, expected % 2);
    stream_end reading = {to[0], (size_t)at};
    weft_fiber reader = weft_spin(read_to_end, &reading);
    off_t offset = at;
    lseek(file, is_by_position ? at : 0, SEEK_SET);
    ssize_t n = weft_sendfile(to[1], file, is_by_position ? NULL : &offset, bytes);
    ck_assert_int_eq(n, (ssize_t)expected);
    weft_close(to[1]);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, (size_t)at + expected);
    ck_assert_int_eq(offset, is_by_position ? at : at + (off_t)expected);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), is_by_position ? at + (off_t)expected : 0);
}

/* The size of the file, the offset, the requested bytes, and the expected bytes. */
static const struct {
    size_t file, at, requested, expected;
} send_cases[] = {
    {10, 0, 10, 10},
    {10, 0, 100, 10},
    {10, 3, 4, 4},
    {0, 0, 10, 0},
    {10, 10, 10, 0},
    {10, 50, 10, 0},
    {10, 5, 0, 0},
    {MIB, 0, MIB, MIB},
    {MIB, 1, SIZE_MAX, MIB - 1},
    {MIB, 4096, MIB / 2, MIB / 2},
    {MIB, 0, 131073, 131073},
};

TEST(a_file_is_sent_from_its_offset_or_its_position)
{
    for (size_t i = 0; i < COUNT_OF(send_cases); i++) {
        int file = open_file(send_cases[i].file, 0);
        for (int k = 0; k < KIND_COUNT; k++)
            for (int round = 0; round < 2; round++)
                send_file_to((kind)k, file, (off_t)send_cases[i].at, send_cases[i].requested,
                             send_cases[i].expected, round);
        close(file);
    }
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST(a_file_is_sent_to_a_file)
{
    static const int flags[] = {0, O_APPEND};
    int from = open_file(MIB, 0);
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        off_t offset = 0;
        int to = open_file(0, flags[i]);
        ck_assert_int_eq(weft_sendfile(to, from, &offset, 200000), 200000);
        ck_assert_int_eq(weft_sendfile(to, from, &offset, MIB), (ssize_t)MIB - 200000);
        check_file(to, MIB);
        close(to);
    }
}

TEST(a_file_that_is_not_in_memory_can_be_sent)
{
    int file = open_file(MIB, 0);
    ck_assert_int_eq(fsync(file), 0);
    for (int k = 0; k < KIND_COUNT; k++) {
        ck_assert_int_eq(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
        send_file_to((kind)k, file, 0, MIB, MIB, k % 2);
    }
}

TEST(sendfile_refuses_an_input_that_is_not_a_file)
{
    int fd[2];
    off_t negative = -1;
    open_kind(UNIX, fd, false);
    ck_assert_int_eq(weft_sendfile(fd[1], fd[0], NULL, 1), -ESPIPE);
    ck_assert_int_eq(weft_sendfile(fd[1], -1, NULL, 1), -EBADF);
    int file = open_file(10, 0);
    ck_assert_int_eq(weft_sendfile(-1, file, NULL, 1), -EBADF);
    ck_assert_int_eq(weft_sendfile(fd[1], file, &negative, 1), -EINVAL);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 0);
}

/* P61, P63: nothing is read before the cancelled call has returned */
TEST(the_offset_of_a_cancelled_sendfile_equals_the_sent_bytes)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int to[2];
        open_kind((kind)(round / 2), to, round % 2);
        int file = open_file(8 * MIB, 0);
        route r = {.in = file, .out = to[1]};
        weft_fiber f = weft_spin(send_everything, &r);
        off_t sent = -1;
        do {
            sent = (off_t)queued_bytes(to[0]);
            weft_sleep(1e-3);
        } while (weft_state_of(f) != WEFT_WAITING || (off_t)queued_bytes(to[0]) != sent);
        weft_cancel(f);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
        weft_close(to[1]);
        stream_end reading = {to[0], 0};
        ck_assert_int_eq(read_to_end(&reading), 0);
        ck_assert_int_eq(lseek(file, 0, SEEK_CUR), (off_t)reading.bytes);
        ck_assert_uint_gt(reading.bytes, 0);
        close(file);
    }
}

static weft_value send_with_timeouts(void *arg)
{
    route *r = arg;
    off_t offset = 0;
    ssize_t n = -ECANCELED;
    for (int i = 0; n == -ECANCELED; i++)
        WEFT_MOVE_ON_AFTER(i < 500 ? random_below(200) * 1e-6 : INFINITY) {
            n = weft_sendfile(r->out, r->in, i % 2 ? &offset : NULL, SIZE_MAX);
            if (i % 2)
                lseek(r->in, offset, SEEK_SET);
            else
                offset = lseek(r->in, 0, SEEK_CUR);
        }
    return n < 0 ? n : 0;
}

/* P61, P63 */
TEST(a_file_is_sent_completely_in_a_storm_of_cancellations)
{
    for (int k = 0; k < KIND_COUNT; k++) {
        int to[2];
        open_kind((kind)k, to, k % 2);
        route r = {.in = open_file(4 * MIB, 0), .out = to[1]};
        stream_end reading = {to[0], 0};
        weft_fiber reader = weft_spin(read_to_end, &reading);
        weft_fiber sender = weft_spin(send_with_timeouts, &r);
        ck_assert_int_eq(weft_await(sender), 0);
        weft_close(to[1]);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_uint_eq(reading.bytes, 4 * MIB);
        close(r.in);
    }
}
