/*
 * Helpers for the tests of the backends: operations that record their results. With
 * FIXTURE(open_backend, close_backend) each test has its own backend.
 */
#ifndef TESTS_BACKEND_BACKEND_HARNESS_H
#define TESTS_BACKEND_BACKEND_HARNESS_H

#include "backend/backend.h"
#include "support/suite.h"

#include <poll.h>

typedef struct test_op {
    weft__op op;
    bool is_done;
    int order; /* 1 for the first operation that completed in the test */
    intptr_t result;
    void (*then)(struct test_op *test_op); /* called when the operation has completed, if set */
} test_op;

static const weft__backend_type *type;
static weft__backend *backend;
static int completed_count;

static inline void open_backend(void)
{
    const char *why;
    ck_assert_int_eq(weft__backend_open(&backend, NULL, false, &why), 0);
    type = backend->type;
    ck_assert_str_eq(type->name, getenv("WEFT_BACKEND"));
    completed_count = 0;
}

static inline void close_backend(void)
{
    ck_assert_uint_eq(backend->pending, 0);
    type->close(backend);
}

static inline void record_result(weft__op *op, intptr_t result)
{
    test_op *t = CONTAINER_OF(op, test_op, op);
    ck_assert(!t->is_done);
    t->is_done = true;
    t->order = ++completed_count;
    t->result = result;
    if (t->then != NULL)
        t->then(t);
}

static inline intptr_t start_op(test_op *t, weft__op op)
{
    memset(&t->op.link, 0xee, sizeof t->op.link); /* the backend sets this field */
    op.link = t->op.link;
    op.done = record_result;
    t->op = op;
    t->is_done = false;
    return type->submit(backend, &t->op);
}

static inline intptr_t start_read(test_op *t, int fd, void *to, size_t bytes)
{
    return start_op(
        t,
        (weft__op){.code = WEFT__OP_READ, .fd = fd, .u.buffer = {to, bytes, WEFT__OFFSET_CURRENT}});
}

static inline intptr_t start_write(test_op *t, int fd, const void *from, size_t bytes)
{
    void *data = (void *)(uintptr_t)from;
    return start_op(t, (weft__op){.code = WEFT__OP_WRITE,
                                  .fd = fd,
                                  .u.buffer = {data, bytes, WEFT__OFFSET_CURRENT}});
}

static inline intptr_t start_wait(test_op *t, int fd, int events)
{
    return start_op(t, (weft__op){.code = WEFT__OP_WAIT, .fd = fd, .u.events = events});
}

/* Wait until the operation has completed. Return its result. */
static inline intptr_t finish_op(test_op *t, intptr_t submitted)
{
    if (submitted != WEFT__OP_PENDING)
        return submitted;
    while (!t->is_done)
        ck_assert_int_eq(type->poll(backend, -1), 0);
    return t->result;
}

static inline intptr_t op_now(weft__op op)
{
    test_op t = {0};
    return finish_op(&t, start_op(&t, op));
}

static inline intptr_t read_now(int fd, void *to, size_t bytes)
{
    test_op t = {0};
    return finish_op(&t, start_read(&t, fd, to, bytes));
}

static inline intptr_t write_now(int fd, const void *from, size_t bytes)
{
    test_op t = {0};
    return finish_op(&t, start_write(&t, fd, from, bytes));
}

/*
 * Return the result if the operation completes without further events, else WEFT__OP_PENDING. The
 * kernel may complete it asynchronously, so poll for up to 15 ms.
 */
static inline intptr_t try_finish_op(test_op *t, intptr_t submitted)
{
    if (submitted != WEFT__OP_PENDING)
        return submitted;
    for (int i = 0; i < 3 && !t->is_done; i++)
        ck_assert_int_eq(type->poll(backend, 5000000), 0);
    return t->is_done ? t->result : WEFT__OP_PENDING;
}

/* Cancel the operation. Return -ECANCELED, or the result if it has already completed. */
static inline intptr_t cancel_op(test_op *t)
{
    if (type->cancel(backend, &t->op)) {
        ck_assert(!t->is_done);
        return -ECANCELED;
    }
    return finish_op(t, WEFT__OP_PENDING);
}

/* Write until a write would block. Leave that write pending in t. Return the bytes written. */
static inline size_t fill_pending(test_op *t, int fd, const void *block, size_t bytes)
{
    size_t written = 0;
    intptr_t n;
    while ((n = try_finish_op(t, start_write(t, fd, block, bytes))) != WEFT__OP_PENDING) {
        ck_assert_int_gt(n, 0);
        written += (size_t)n;
    }
    return written;
}

static inline void drain_bytes(int fd, size_t bytes)
{
    char sink[5000];
    while (bytes > 0) {
        intptr_t n = read_now(fd, sink, bytes < sizeof sink ? bytes : sizeof sink);
        ck_assert_int_gt(n, 0);
        bytes -= (size_t)n;
    }
}

static inline void backend_close_pair(const int fd[2])
{
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}

#endif
