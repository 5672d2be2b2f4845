/* Copies inside the kernel: what arrives, what is left where it was, and what a cancel costs. */
#include "net_support.h"

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

#define MUCH ((size_t)1 << 20)

/* Something to write into and to read from, in that order; for a file both are the same. */
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

/* As a pipe: fd[0] to read from, fd[1] to write to. */
static void open_kind(kind k, int fd[2], bool is_nonblocking)
{
    if (k == TCP)
        open_tcp(fd);
    else
        ck_assert_int_eq(k == PIPE ? weft_pipe(fd) : weft_socketpair(fd), 0);
    for (int i = 0; i < 2 && is_nonblocking; i++)
        fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK);
}

/* A file with so many bytes, at position 0; it has no name any more. */
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
    weft_sleep(0); /* those of the backend count from the beginning */
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

/* Bytes that wait to be read. */
static size_t queued(int fd)
{
    int bytes = 0;
    ck_assert_int_eq(ioctl(fd, FIONREAD, &bytes), 0);
    return (size_t)bytes;
}

/* One end of a stream, and what its fiber is to do there. */
typedef struct end {
    int fd;
    size_t bytes; /* to write; read so far */
} end;

/* Writes so many bytes, and closes: its value is the first error, or 0. */
static weft_value write_and_close(void *arg)
{
    end *e = arg;
    unsigned char *data = malloc(e->bytes + 1);
    fill_from(data, e->bytes, 0);
    ssize_t n = weft_write_all(e->fd, data, e->bytes);
    free(data);
    weft_close(e->fd);
    return n < 0 ? n : 0;
}

/* Reads to the end, and closes: every byte is the right one. */
static weft_value read_to_the_end(void *arg)
{
    end *e = arg;
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
    return r->result = weft_splice(r->in, NULL, r->out, NULL, MUCH, 0);
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

/* A fiber that waits in its copy. */
static weft_fiber spin_waiting(weft_fn *fn, route *r)
{
    weft_fiber f = weft_spin(fn, r);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* P69 */
START_TEST(a_splice_moves_what_is_there_and_returns_0_at_the_end)
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
END_TEST

START_TEST(a_splice_waits_for_its_input)
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
END_TEST

START_TEST(a_splice_waits_for_room_in_its_output)
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
END_TEST

START_TEST(a_splice_of_a_file_goes_by_its_offsets)
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
    ck_assert_int_eq(weft_splice(from, NULL, to, NULL, 1, 0), -EINVAL); /* no pipe */
    ck_assert_int_eq(weft_splice(-1, NULL, fd[1], NULL, 1, 0), -EBADF);
    ck_assert_int_eq(weft_splice(fd[0], NULL, -1, NULL, 1, 0), -EBADF);
}
END_TEST

/* P69 */
START_TEST(a_tee_leaves_the_bytes)
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
END_TEST

static weft_value tee_some(void *arg)
{
    route *r = arg;
    return r->result = weft_tee(r->in, r->out, 100, 0);
}

START_TEST(a_tee_waits_and_can_be_given_up)
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
    ck_assert_uint_eq(queued(from[0]), 1);
    ck_assert_uint_eq(queued(to[0]), 1);
    ck_assert_uint_eq(ops_pending(), 0);
}
END_TEST

/* From a stream to a stream, by fibers that write, move and read. */
static void move_between(kind from_kind, kind to_kind, bool is_nonblocking, size_t bytes)
{
    int from[2], to[2];
    open_kind(from_kind, from, is_nonblocking);
    open_kind(to_kind, to, is_nonblocking);
    end writing = {from[1], bytes}, reading = {to[0], 0};
    weft_fiber writer = weft_spin(write_and_close, &writing);
    weft_fiber reader = weft_spin(read_to_the_end, &reading);
    ck_assert_int_eq(weft_splice_all(from[0], to[1]), (ssize_t)bytes);
    weft_close(from[0]);
    weft_close(to[1]);
    ck_assert_int_eq(weft_await(writer), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, bytes);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* P69 */
START_TEST(a_splice_to_the_end_moves_everything_between_any_two)
{
    const size_t before = open_descriptors();
    for (int from = 0; from < KIND_COUNT; from++)
        for (int to = 0; to < KIND_COUNT; to++)
            for (int round = 0; round < 2; round++) {
                move_between((kind)from, (kind)to, round, MUCH + 1);
                move_between((kind)from, (kind)to, round, 1);
                move_between((kind)from, (kind)to, round, 0);
            }
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

/* The second one refuses to be spliced to. */
START_TEST(a_splice_to_the_end_goes_from_and_to_files)
{
    static const int flags[] = {0, O_APPEND};
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        int from = open_file(MUCH, 0), to = open_file(0, flags[i]);
        ck_assert_int_eq(weft_splice_all(from, to), (ssize_t)MUCH);
        ck_assert_int_eq(lseek(from, 0, SEEK_CUR), (off_t)MUCH);
        check_file(to, MUCH);
        close(to);
        for (int k = 0; k < KIND_COUNT; k++) {
            int fd[2];
            open_kind((kind)k, fd, false);
            lseek(from, 0, SEEK_SET);
            end reading = {fd[0], 0};
            weft_fiber reader = weft_spin(read_to_the_end, &reading);
            ck_assert_int_eq(weft_splice_all(from, fd[1]), (ssize_t)MUCH);
            weft_close(fd[1]);
            ck_assert_int_eq(weft_await(reader), 0);
            ck_assert_uint_eq(reading.bytes, MUCH);
            open_kind((kind)k, fd, false);
            to = open_file(0, flags[i]);
            end writing = {fd[1], MUCH};
            weft_fiber writer = weft_spin(write_and_close, &writing);
            ck_assert_int_eq(weft_splice_all(fd[0], to), (ssize_t)MUCH);
            ck_assert_int_eq(weft_await(writer), 0);
            check_file(to, MUCH);
            weft_close(fd[0]);
            close(to);
        }
        close(from);
    }
}
END_TEST

START_TEST(without_descriptors_for_a_pipe_a_buffer_does_it)
{
    int from[2], to[2];
    open_kind(UNIX, from, false);
    open_kind(UNIX, to, false);
    end writing = {from[1], MUCH}, reading = {to[0], 0};
    weft_fiber writer = weft_spin(write_and_close, &writing);
    weft_fiber reader = weft_spin(read_to_the_end, &reading);
    weft_sleep(0);
    int next = dup(from[0]);
    close(next);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, old.rlim_max});
    int none[2];
    ck_assert_int_eq(weft_pipe(none), -EMFILE);
    ck_assert_int_eq(weft_splice_all(from[0], to[1]), (ssize_t)MUCH);
    setrlimit(RLIMIT_NOFILE, &old);
    weft_close(to[1]);
    ck_assert_int_eq(weft_await(writer), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, MUCH);
}
END_TEST

/* A stream through a mover whose reader does not read: all stands still. */
typedef struct dam {
    int from[2], to[2];
    end writing;
    route r;
    weft_fiber writer, mover;
} dam;

static void build_dam(dam *d, weft_fn *fn, kind from, kind to, size_t bytes)
{
    open_kind(from, d->from, false);
    open_kind(to, d->to, false);
    d->writing = (end){d->from[1], bytes};
    d->r = (route){.in = d->from[0], .out = d->to[1]};
    d->writer = weft_spin(write_and_close, &d->writing);
    d->mover = weft_spin(fn, &d->r);
    size_t before;
    do { /* TCP hands on from a soft interrupt of its own */
        before = queued(d->from[0]) + queued(d->to[0]);
        for (int i = 0; i < 20; i++)
            weft_sleep(100e-6);
    } while (queued(d->from[0]) + queued(d->to[0]) != before);
    ck_assert_int_eq(weft_state_of(d->mover), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(d->writer), WEFT_WAITING);
}

/* P69 */
START_TEST(a_slow_reader_holds_up_the_input)
{
    dam d;
    build_dam(&d, splice_everything, UNIX, UNIX, 4 * MUCH);
    ck_assert_uint_gt(queued(d.from[0]), 0);
    ck_assert_uint_le(queued(d.to[0]), MUCH);
    end reading = {d.to[0], 0};
    weft_fiber reader = weft_spin(read_to_the_end, &reading);
    ck_assert_int_eq(weft_await(d.mover), (ssize_t)(4 * MUCH));
    weft_close(d.to[1]);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_int_eq(weft_await(d.writer), 0);
    ck_assert_uint_eq(reading.bytes, 4 * MUCH);
}
END_TEST

/* P61, P63: the reader reads on only when the cancel is over */
START_TEST(a_cancelled_splice_to_a_reader_that_does_not_read_loses_nothing)
{
    static const kind kinds[][2] = {{UNIX, UNIX}, {UNIX, TCP},  {TCP, UNIX},
                                    {TCP, TCP},   {PIPE, UNIX}, {TCP, PIPE}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        dam d;
        build_dam(&d, splice_everything, kinds[i][0], kinds[i][1], 16 * MUCH);
        weft_cancel(d.mover);
        ck_assert_int_eq(weft_await(d.mover), -ECANCELED);
        ck_assert_int_eq(d.r.result, -ECANCELED);
        end reading = {d.to[0], 0};
        weft_fiber reader = weft_spin(read_to_the_end, &reading);
        ck_assert_int_gt(weft_splice_all(d.from[0], d.to[1]), 0);
        weft_close(d.to[1]);
        weft_close(d.from[0]);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_int_eq(weft_await(d.writer), 0);
        ck_assert_uint_eq(reading.bytes, 16 * MUCH);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}
END_TEST

START_TEST(an_interrupted_splice_returns_the_value_and_loses_nothing)
{
    dam d;
    build_dam(&d, splice_everything, UNIX, UNIX, MUCH);
    ck_assert_int_eq(weft_interrupt(d.mover, -EINTR), 0);
    ck_assert_int_eq(weft_await(d.mover), -EINTR);
    end reading = {d.to[0], 0};
    weft_fiber reader = weft_spin(read_to_the_end, &reading);
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
    ck_assert_uint_eq(reading.bytes, MUCH);
}
END_TEST

/* Cut short at random moments and taken up again, until the input ends. */
static weft_value move_in_scopes(void *arg)
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
START_TEST(a_storm_of_cancels_loses_no_byte)
{
    static const kind kinds[][2] = {{UNIX, UNIX}, {UNIX, TCP},  {TCP, UNIX},
                                    {TCP, TCP},   {PIPE, UNIX}, {TCP, PIPE}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        int from[2], to[2];
        open_kind(kinds[i][0], from, i % 2);
        open_kind(kinds[i][1], to, i % 2);
        end writing = {from[1], 4 * MUCH}, reading = {to[0], 0};
        route r = {.in = from[0], .out = to[1]};
        weft_fiber writer = weft_spin(write_and_close, &writing);
        weft_fiber reader = weft_spin(read_to_the_end, &reading);
        weft_fiber mover = weft_spin(move_in_scopes, &r);
        ck_assert_int_eq(weft_await(mover), 0);
        weft_close(to[1]);
        weft_close(from[0]);
        ck_assert_int_eq(weft_await(writer), 0);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_uint_eq(reading.bytes, 4 * MUCH);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}
END_TEST

/* P65, T98 */
START_TEST(closing_either_end_of_a_splice_that_waits_for_input_is_EBADF)
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
END_TEST

/* P65, T98 */
START_TEST(closing_either_end_of_a_splice_that_waits_for_room_is_EBADF)
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
END_TEST

/* P65, T98 */
START_TEST(closing_what_the_longer_copies_wait_for_is_EBADF)
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
        dam d;
        build_dam(&d, copies[i], UNIX, UNIX, 4 * MUCH);
        ck_assert_int_eq(weft_close(d.r.out), 0);
        ck_assert_int_eq(weft_await(d.mover), -EBADF);
        weft_terminate(d.writer, 1);
    }
}
END_TEST

/* P65, T98 */
START_TEST(closing_either_end_of_a_sendfile_that_waits_is_EBADF)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int to[2];
        open_kind((kind)(round / 2), to, false);
        fill_up(to[1]);
        route r = {.in = open_file(MUCH, 0), .out = to[1]};
        weft_fiber f = spin_waiting(send_everything, &r);
        ck_assert_int_eq(weft_close(round % 2 ? r.in : r.out), 0);
        ck_assert_int_eq(weft_await(f), -EBADF);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}
END_TEST

/* A signal would end this process. */
START_TEST(a_peer_that_is_gone_is_EPIPE_and_no_signal)
{
    for (int k = PIPE; k <= UNIX; k++) {
        int from[2], to[2];
        open_kind(PIPE, from, false);
        open_kind((kind)k, to, false);
        weft_close(to[0]);
        int file = open_file(MUCH, 0);
        weft_write(from[1], "abc", 3);
        ck_assert_int_eq(weft_splice(from[0], NULL, to[1], NULL, 1, 0), -EPIPE);
        ck_assert_int_eq(weft_splice_all(from[0], to[1]), -EPIPE);
        route r = {.in = from[0], .out = to[1]};
        ck_assert_int_eq(chunk_everything(&r), -EPIPE);
        ck_assert_int_eq(weft_sendfile(to[1], file, NULL, MUCH), -EPIPE);
        ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 0);
        weft_close(to[1]);
        open_kind((kind)k, to, false);
        fill_up(to[1]);
        route waiting = {.in = file, .out = to[1]};
        weft_fiber f = spin_waiting(send_everything, &waiting);
        weft_close(to[0]);
        weft_value rc = weft_await(f); /* what was never read resets the connection */
        ck_assert(rc == -EPIPE || rc == -ECONNRESET);
    }
    sigset_t pending;
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}
END_TEST

#define CHUNK 8

static const weft_chunk_format http_chunks = {.prefix = "head\r\n\r\n",
                                              .postfix = "0\r\n\r\n",
                                              .chunk_prefix = "%zx\r\n",
                                              .chunk_postfix = "\r\n",
                                              .chunk_bytes_max = CHUNK};

/* What the body looks like on the wire. */
static size_t encode(char *out, size_t bytes)
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
    size_t n = encode(expected, bytes);
    ck_assert_int_eq(weft_splice_chunks(fd_in, fd_out, &http_chunks), (ssize_t)bytes);
    lseek(fd_read, 0, SEEK_SET); /* if it is a file */
    ck_assert_int_eq(read(fd_read, got, sizeof got), (ssize_t)n);
    ck_assert_mem_eq(got, expected, n);
}

/* P69 */
START_TEST(chunks_are_written_exactly_in_their_format)
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
                    end writing = {from[1], sizes[i]};
                    ck_assert_int_eq(write_and_close(&writing), 0);
                }
                check_chunks(from[0], to[1], to[0], sizes[i]);
                weft_close(from[0]);
                weft_close(to[0]);
                weft_close(to[1]);
            }
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(chunks_go_to_a_file_that_refuses_to_be_spliced_to)
{
    int from[2], to = open_file(0, O_APPEND);
    open_kind(UNIX, from, false);
    end writing = {from[1], 3 * CHUNK + 1};
    ck_assert_int_eq(write_and_close(&writing), 0);
    check_chunks(from[0], to, to, 3 * CHUNK + 1);
}
END_TEST

START_TEST(chunks_without_a_format_are_the_bytes_alone)
{
    int from = open_file(40000, 0), to = open_file(0, 0);
    ck_assert_int_eq(weft_splice_chunks(from, to, &(weft_chunk_format){0}), 40000);
    check_file(to, 40000);
}
END_TEST

START_TEST(chunks_may_be_large)
{
    int from = open_file(MUCH, 0), to = open_file(0, 0);
    weft_chunk_format format = {.chunk_prefix = "%%%zX;", .chunk_bytes_max = MUCH / 2};
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), (ssize_t)MUCH);
    char text[8] = "";
    ck_assert_int_eq(pread(to, text, 7, 0), 7);
    ck_assert_str_eq(text, "%80000;");
    ck_assert_int_eq(lseek(to, 0, SEEK_END), (off_t)MUCH + 14);
}
END_TEST

START_TEST(a_format_that_is_wrong_is_refused_before_anything_is_written)
{
    static const char *const wrong[] = {"",     "%",     "%d",      "%s",    "%zd", "%z",
                                        "%zu%", "100%%", "%zu %zx", "%n%zu", "%4zu"};
    int from = open_file(10, 0), to = open_file(0, 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        weft_chunk_format format = {.prefix = "x", .chunk_prefix = wrong[i]};
        ck_assert_int_eq(weft_splice_chunks(from, to, &format), -EINVAL);
        ck_assert_any_words(-EINVAL);
    }
    char text[300] = "%zx";
    memset(text + 3, '-', 253);
    weft_chunk_format format = {.prefix = "x", .chunk_prefix = text};
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), 10);
    ck_assert_int_eq(lseek(to, 0, SEEK_END), 1 + 1 + 253 + 10);
    text[256] = '-';
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), -EMSGSIZE);
    ck_assert_any_words(-EMSGSIZE);
    ck_assert_int_eq(lseek(to, 0, SEEK_END), 1 + 1 + 253 + 10);
}
END_TEST

/* Takes the chunks apart as they come: a stream that is broken off inside one cannot be read. */
static weft_value read_chunks(void *arg)
{
    end *e = arg;
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

static weft_value chunk_in_scopes(void *arg)
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

START_TEST(a_cancelled_chunk_is_written_to_its_end)
{
    for (int k = 0; k < KIND_COUNT; k++) {
        int from[2], to[2];
        open_kind(UNIX, from, false);
        open_kind((kind)k, to, false);
        end writing = {from[1], 2 * MUCH}, reading = {to[0], 0};
        route r = {.in = from[0], .out = to[1]};
        weft_fiber writer = weft_spin(write_and_close, &writing);
        weft_fiber reader = weft_spin(read_chunks, &reading);
        weft_fiber mover = weft_spin(chunk_in_scopes, &r);
        ck_assert_int_eq(weft_await(mover), 0);
        weft_close(to[1]);
        ck_assert_int_eq(weft_await(writer), 0);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_uint_eq(reading.bytes, 2 * MUCH);
    }
}
END_TEST

/* To a stream of this kind; the file's bytes from `at` on come through. */
static void send_to(kind k, int file, off_t at, size_t bytes, size_t expected, bool is_by_position)
{
    int to[2];
    open_kind(k, to, expected % 2);
    end reading = {to[0], (size_t)at};
    weft_fiber reader = weft_spin(read_to_the_end, &reading);
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

/* The bytes of a file, where sending begins, how many are asked for, and how many there are. */
static const struct {
    size_t file, at, asked, expected;
} sends[] = {
    {10, 0, 10, 10},
    {10, 0, 100, 10},
    {10, 3, 4, 4},
    {0, 0, 10, 0},
    {10, 10, 10, 0},
    {10, 50, 10, 0},
    {10, 5, 0, 0},
    {MUCH, 0, MUCH, MUCH},
    {MUCH, 1, SIZE_MAX, MUCH - 1},
    {MUCH, 4096, MUCH / 2, MUCH / 2},
    {MUCH, 0, 131073, 131073},
};

START_TEST(a_file_is_sent_from_its_offset_or_its_position)
{
    for (size_t i = 0; i < COUNT_OF(sends); i++) {
        int file = open_file(sends[i].file, 0);
        for (int k = 0; k < KIND_COUNT; k++)
            for (int round = 0; round < 2; round++)
                send_to((kind)k, file, (off_t)sends[i].at, sends[i].asked, sends[i].expected,
                        round);
        close(file);
    }
    ck_assert_uint_eq(ops_pending(), 0);
}
END_TEST

START_TEST(a_file_is_sent_to_a_file)
{
    static const int flags[] = {0, O_APPEND};
    int from = open_file(MUCH, 0);
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        off_t offset = 0;
        int to = open_file(0, flags[i]);
        ck_assert_int_eq(weft_sendfile(to, from, &offset, 200000), 200000);
        ck_assert_int_eq(weft_sendfile(to, from, &offset, MUCH), (ssize_t)MUCH - 200000);
        check_file(to, MUCH);
        close(to);
    }
}
END_TEST

START_TEST(a_file_that_is_not_in_memory_is_sent_all_the_same)
{
    int file = open_file(MUCH, 0);
    ck_assert_int_eq(fsync(file), 0);
    for (int k = 0; k < KIND_COUNT; k++) {
        ck_assert_int_eq(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
        send_to((kind)k, file, 0, MUCH, MUCH, k % 2);
    }
}
END_TEST

START_TEST(what_is_no_file_is_not_sent)
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
END_TEST

/* P61, P63: nothing is read before the cancel is over */
START_TEST(the_offset_of_a_cancelled_sendfile_tells_what_went_out)
{
    for (int round = 0; round < 2 * KIND_COUNT; round++) {
        int to[2];
        open_kind((kind)(round / 2), to, round % 2);
        int file = open_file(8 * MUCH, 0);
        route r = {.in = file, .out = to[1]};
        weft_fiber f = weft_spin(send_everything, &r);
        off_t sent = -1;
        do {
            sent = (off_t)queued(to[0]);
            weft_sleep(1e-3);
        } while (weft_state_of(f) != WEFT_WAITING || (off_t)queued(to[0]) != sent);
        weft_cancel(f);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
        weft_close(to[1]);
        end reading = {to[0], 0};
        ck_assert_int_eq(read_to_the_end(&reading), 0);
        ck_assert_int_eq(lseek(file, 0, SEEK_CUR), (off_t)reading.bytes);
        ck_assert_uint_gt(reading.bytes, 0);
        close(file);
    }
}
END_TEST

static weft_value send_in_scopes(void *arg)
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
START_TEST(a_file_is_sent_whole_through_a_storm_of_cancels)
{
    for (int k = 0; k < KIND_COUNT; k++) {
        int to[2];
        open_kind((kind)k, to, k % 2);
        route r = {.in = open_file(4 * MUCH, 0), .out = to[1]};
        end reading = {to[0], 0};
        weft_fiber reader = weft_spin(read_to_the_end, &reading);
        weft_fiber sender = weft_spin(send_in_scopes, &r);
        ck_assert_int_eq(weft_await(sender), 0);
        weft_close(to[1]);
        ck_assert_int_eq(weft_await(reader), 0);
        ck_assert_uint_eq(reading.bytes, 4 * MUCH);
        close(r.in);
    }
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_splice_moves_what_is_there_and_returns_0_at_the_end,
        &a_splice_waits_for_its_input,
        &a_splice_waits_for_room_in_its_output,
        &a_splice_of_a_file_goes_by_its_offsets,
        &a_tee_leaves_the_bytes,
        &a_tee_waits_and_can_be_given_up,
        &a_splice_to_the_end_moves_everything_between_any_two,
        &a_splice_to_the_end_goes_from_and_to_files,
        &without_descriptors_for_a_pipe_a_buffer_does_it,
        &a_slow_reader_holds_up_the_input,
        &a_cancelled_splice_to_a_reader_that_does_not_read_loses_nothing,
        &an_interrupted_splice_returns_the_value_and_loses_nothing,
        &a_storm_of_cancels_loses_no_byte,
        &closing_either_end_of_a_splice_that_waits_for_input_is_EBADF,
        &closing_either_end_of_a_splice_that_waits_for_room_is_EBADF,
        &closing_what_the_longer_copies_wait_for_is_EBADF,
        &closing_either_end_of_a_sendfile_that_waits_is_EBADF,
        &a_peer_that_is_gone_is_EPIPE_and_no_signal,
        &chunks_are_written_exactly_in_their_format,
        &chunks_go_to_a_file_that_refuses_to_be_spliced_to,
        &chunks_without_a_format_are_the_bytes_alone,
        &chunks_may_be_large,
        &a_format_that_is_wrong_is_refused_before_anything_is_written,
        &a_cancelled_chunk_is_written_to_its_end,
        &a_file_is_sent_from_its_offset_or_its_position,
        &a_file_is_sent_to_a_file,
        &a_file_that_is_not_in_memory_is_sent_all_the_same,
        &what_is_no_file_is_not_sent,
        &the_offset_of_a_cancelled_sendfile_tells_what_went_out,
        &a_file_is_sent_whole_through_a_storm_of_cancels,
    };
    return run_suite("copy", tests, COUNT_OF(tests));
}
