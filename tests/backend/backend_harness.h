/* What the tests of the backends share: operations that record how they ended. */
#ifndef WEFT_TESTS_BACKEND_HARNESS_H
#define WEFT_TESTS_BACKEND_HARNESS_H

#include "backend/backend.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

typedef struct trial {
    weft__op op;
    bool is_done;
    int order; /* 1 for the first that was done in the test */
    intptr_t result;
    void (*then)(struct trial *trial); /* called from done, if set */
} trial;

static const weft__backend_type *type;
static weft__backend *backend;
static int done_count;

static inline void set_up(void)
{
    const char *why;
    ck_assert_int_eq(weft__backend_open(&backend, NULL, &why), 0);
    type = backend->type;
    ck_assert_str_eq(type->name, getenv("WEFT_BACKEND"));
    done_count = 0;
}

static inline void tear_down(void)
{
    ck_assert_uint_eq(backend->pending, 0);
    type->close(backend);
}

static inline void note_done(weft__op *op, intptr_t result)
{
    trial *t = CONTAINER_OF(op, trial, op);
    ck_assert(!t->is_done);
    t->is_done = true;
    t->order = ++done_count;
    t->result = result;
    if (t->then != NULL)
        t->then(t);
}

static inline intptr_t start(trial *t, weft__op op)
{
    memset(&t->op.link, 0xee, sizeof t->op.link); /* the backend's to set */
    op.link = t->op.link;
    op.done = note_done;
    t->op = op;
    t->is_done = false;
    return type->submit(backend, &t->op);
}

static inline intptr_t start_read(trial *t, int fd, void *to, size_t bytes)
{
    return start(
        t,
        (weft__op){.code = WEFT__OP_READ, .fd = fd, .u.buffer = {to, bytes, WEFT__OFFSET_CURRENT}});
}

static inline intptr_t start_write(trial *t, int fd, const void *from, size_t bytes)
{
    void *data = (void *)(uintptr_t)from;
    return start(t, (weft__op){.code = WEFT__OP_WRITE,
                               .fd = fd,
                               .u.buffer = {data, bytes, WEFT__OFFSET_CURRENT}});
}

static inline intptr_t start_wait(trial *t, int fd, int events)
{
    return start(t, (weft__op){.code = WEFT__OP_WAIT, .fd = fd, .u.events = events});
}

/* What it ended with, waiting for that. */
static inline intptr_t finish(trial *t, intptr_t submitted)
{
    if (submitted != WEFT__OP_PENDING)
        return submitted;
    while (!t->is_done)
        ck_assert_int_eq(type->poll(backend, -1), 0);
    return t->result;
}

static inline intptr_t read_now(int fd, void *to, size_t bytes)
{
    trial t = {0};
    return finish(&t, start_read(&t, fd, to, bytes));
}

static inline intptr_t write_now(int fd, const void *from, size_t bytes)
{
    trial t = {0};
    return finish(&t, start_write(&t, fd, from, bytes));
}

/*
 * What it ended with if nothing has to happen for that, else WEFT__OP_PENDING. The kernel may do it
 * beside us; so it is given some time to say so.
 */
static inline intptr_t try_now(trial *t, intptr_t submitted)
{
    if (submitted != WEFT__OP_PENDING)
        return submitted;
    for (int i = 0; i < 3 && !t->is_done; i++)
        ck_assert_int_eq(type->poll(backend, 5000000), 0);
    return t->is_done ? t->result : WEFT__OP_PENDING;
}

/* Cancel it. -ECANCELED, or what it ended with if that had happened before. */
static inline intptr_t give_up(trial *t)
{
    if (type->cancel(backend, &t->op)) {
        ck_assert(!t->is_done);
        return -ECANCELED;
    }
    return finish(t, WEFT__OP_PENDING);
}

/* Write until it would block, and leave that write pending in t. Returns the bytes written. */
static inline size_t fill(trial *t, int fd, const void *piece, size_t bytes)
{
    size_t written = 0;
    intptr_t n;
    while ((n = try_now(t, start_write(t, fd, piece, bytes))) != WEFT__OP_PENDING) {
        ck_assert_int_gt(n, 0);
        written += (size_t)n;
    }
    return written;
}

static inline void drain(int fd, size_t bytes)
{
    char sink[5000];
    while (bytes > 0) {
        intptr_t n = read_now(fd, sink, bytes < sizeof sink ? bytes : sizeof sink);
        ck_assert_int_gt(n, 0);
        bytes -= (size_t)n;
    }
}

static inline void close_both(const int fd[2])
{
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}

/* Runs the suite; an argument names the backend, as WEFT_BACKEND does. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

static inline void name_backend(int argc, char **argv)
{
    if (argc > 1)
        setenv("WEFT_BACKEND", argv[1], 1);
}

#endif
