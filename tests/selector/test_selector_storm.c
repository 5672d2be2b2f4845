/*
 * A storm of cancellations and time limits. Each byte that a write has reported arrives once and in
 * order, in a read that has reported it. A read that has ended without bytes has not touched its
 * buffer. The host closes streams with close(2) and opens new ones with the same numbers.
 */
#include "selector/selector_support.h"
#include "support/random.h"

FIXTURE(open_selector, close_selector)

/* As ck_assert, which makes a system call. */
#define REQUIRE(condition) \
    do {                   \
        if (!(condition))  \
            ck_abort();    \
    } while (0)

enum { STREAMS = 8, BUFFER_BYTES = 300, UNTOUCHED = 0xA5, STEPS = 20000 };

/* One direction of a stream: an operation and its buffer. */
typedef struct end {
    weft_selector_op op; /* the first field */
    int fd;
    bool is_writer, is_pending;
    unsigned char buffer[BUFFER_BYTES];
    unsigned char next; /* the value of the next byte */
    uint64_t moved;
} end;

typedef struct stream {
    end reader, writer;
} stream;

static stream streams[STREAMS];
static unsigned cancelled, timed_out, late;

static void open_stream(stream *s)
{
    int fd[2];
    random_below(2) ? new_pipe(fd) : new_sockets(fd);
    s->reader = (end){.fd = fd[0]};
    s->writer = (end){.fd = fd[1], .is_writer = true};
    if (random_below(2))
        fcntl(fd[random_below(2)], F_SETFL, O_NONBLOCK);
}

/* Check the result of an operation that has ended. */
static void end_check(end *e, weft_value result)
{
    e->is_pending = false;
    if (result < 0) {
        REQUIRE(result == -ECANCELED || result == -ETIMEDOUT);
        cancelled += result == -ECANCELED;
        timed_out += result == -ETIMEDOUT;
        for (int i = 0; i < BUFFER_BYTES && !e->is_writer; i++)
            REQUIRE(e->buffer[i] == UNTOUCHED);
        return;
    }
    REQUIRE(result > 0);
    for (weft_value i = 0; i < result && !e->is_writer; i++)
        REQUIRE(e->buffer[i] == (unsigned char)(e->next + i));
    e->next = (unsigned char)(e->next + result);
    e->moved += (uint64_t)result;
}

static void end_start(end *e)
{
    size_t bytes = 1 + random_below(BUFFER_BYTES);
    for (int i = 0; i < BUFFER_BYTES; i++)
        e->buffer[i] = e->is_writer ? (unsigned char)(e->next + i) : UNTOUCHED;
    weft_value n = e->is_writer
                       ? weft_selector_write(selector, &e->op, e->fd, e->buffer, bytes, CURRENT)
                       : weft_selector_read(selector, &e->op, e->fd, e->buffer, bytes, CURRENT);
    e->is_pending = n == PENDING;
    if (!e->is_pending)
        end_check(e, n);
    else if (random_below(4) == 0)
        REQUIRE(weft_selector_limit(selector, &e->op, random_below(3) * 1e-5) == 0);
}

static void end_cancel(end *e)
{
    int rc = weft_selector_cancel(selector, &e->op);
    late += rc == -EINPROGRESS;
    if (rc == 0)
        end_check(e, e->op.result);
    else
        REQUIRE(rc == -EINPROGRESS);
}

static void take_completed(double seconds)
{
    REQUIRE(weft_selector_poll(selector, seconds) >= 0);
    for (weft_selector_op *op; (op = weft_selector_next(selector)) != NULL;)
        end_check((end *)op, op->result);
}

/* Cancel the operations of a stream, and wait for their end. */
static void stream_settle(stream *s)
{
    end *const ends[] = {&s->reader, &s->writer};
    for (int i = 0; i < 2; i++)
        if (ends[i]->is_pending)
            end_cancel(ends[i]);
    while (s->reader.is_pending || s->writer.is_pending)
        take_completed(INFINITY);
}

/* Read what is left. Assert that all written bytes have arrived. Close both ends. */
static void stream_end(stream *s)
{
    stream_settle(s);
    close(s->writer.fd);
    while (s->reader.moved < s->writer.moved) {
        memset(s->reader.buffer, UNTOUCHED, BUFFER_BYTES);
        weft_value n = weft_selector_read(selector, &s->reader.op, s->reader.fd, s->reader.buffer,
                                          BUFFER_BYTES, CURRENT);
        ck_assert(n != PENDING); /* the bytes are there */
        end_check(&s->reader, n);
    }
    ck_assert_uint_eq(s->reader.moved, s->writer.moved);
    close(s->reader.fd);
}

TEST(no_byte_is_lost_in_a_storm_of_cancellations)
{
    for (int i = 0; i < STREAMS; i++)
        open_stream(&streams[i]);
    for (int step = 0; step < STEPS; step++) {
        stream *s = &streams[random_below(STREAMS)];
        end *e = random_below(5) < 3 ? &s->reader : &s->writer;
        if (!e->is_pending)
            end_start(e);
        else if (random_below(3) == 0)
            end_cancel(e);
        if (random_below(4) == 0)
            take_completed(random_below(3) * 1e-5);
        if (random_below(300) == 0) {
            stream_end(s);
            open_stream(s);
        }
    }
    for (int i = 0; i < STREAMS; i++)
        stream_end(&streams[i]);
    ck_assert_uint_gt(cancelled, 300);
    ck_assert_uint_gt(timed_out, 30);
    if (runs_on("io_uring"))
        ck_assert_uint_gt(late, 30);
}

/* A cancelled wait never completes later, and never completes another wait. */
TEST(waits_end_once_in_a_storm_of_cancellations)
{
    static weft_selector_op ops[STREAMS][3];
    int fd[STREAMS][2];
    uint64_t ready = 0, ended = 0;
    for (int i = 0; i < STREAMS; i++)
        new_sockets(fd[i]);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)random_below(STREAMS);
        weft_selector_op *op = &ops[i][random_below(3)];
        if (op->owner == NULL) {
            REQUIRE(weft_selector_wait_fd(selector, op, fd[i][0], POLLIN) == PENDING);
            op->owner = fd[i];
        } else if (random_below(2) == 0) {
            REQUIRE(weft_selector_cancel(selector, op) == 0);
            REQUIRE(op->result == -ECANCELED || op->result == POLLIN);
            op->owner = NULL;
            ended++;
        } else {
            REQUIRE(write(fd[i][1], "a", 1) == 1);
        }
        REQUIRE(weft_selector_poll(selector, 0) >= 0);
        for (weft_selector_op *done; (done = weft_selector_next(selector)) != NULL; ready++) {
            const int *pair = done->owner;
            REQUIRE(pair != NULL && done->result == POLLIN);
            done->owner = NULL;
            while (recv(pair[0], (char[64]){0}, 64, MSG_DONTWAIT) > 0)
                continue;
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        for (int k = 0; k < 3; k++)
            if (ops[i][k].owner != NULL)
                ck_assert_int_eq(weft_selector_cancel(selector, &ops[i][k]), 0);
        close_pair(fd[i]);
    }
    ck_assert_uint_gt(ready, 1000);
    ck_assert_uint_gt(ended, 1000);
}
