/*
 * Helpers for the tests of selectors. With FIXTURE(open_selector, close_selector) each test has its
 * own selector, on the backend that WEFT_BACKEND names.
 */
#ifndef TESTS_SELECTOR_SELECTOR_SUPPORT_H
#define TESTS_SELECTOR_SELECTOR_SUPPORT_H

#include "core/cord/cord.h"
#include "support/suite.h"

#include <weft/selector.h>

#include <sys/resource.h>

#define PENDING WEFT_SELECTOR_PENDING
#define CURRENT WEFT_SELECTOR_CURRENT

static weft_selector *selector;

static inline weft_selector *new_selector(void)
{
    weft_selector *s;
    ck_assert_int_eq(weft_selector_open(&s, NULL), 0);
    return s;
}

static inline void open_selector(void)
{
    selector = new_selector();
    ck_assert_str_eq(weft_selector_backend(selector), getenv("WEFT_BACKEND"));
}

/* No use of a selector makes the thread a cord. */
static inline void close_selector(void)
{
    ck_assert_uint_eq(weft_selector_pending(selector), 0);
    weft_selector_close(selector);
    ck_assert_ptr_null(weft__cord_self);
}

/* Poll until an operation has completed, and take it. */
static inline weft_selector_op *next_op(weft_selector *s)
{
    weft_selector_op *op;
    while ((op = weft_selector_next(s)) == NULL)
        ck_assert_int_ge(weft_selector_poll(s, INFINITY), 0);
    return op;
}

/* Return the result of an operation that must be the next to complete, if it is pending. */
static inline weft_value finish_in(weft_selector *s, weft_selector_op *op, weft_value started)
{
    if (started != PENDING)
        return started;
    ck_assert_ptr_eq(next_op(s), op);
    return op->result;
}

static inline weft_value finish(weft_selector_op *op, weft_value started)
{
    return finish_in(selector, op, started);
}

/* Poll without waiting. Assert that no operation completes. */
static inline void assert_none_completes(void)
{
    ck_assert_int_eq(weft_selector_poll(selector, 0), 0);
    ck_assert_ptr_null(weft_selector_next(selector));
}

/* Cancel an operation. Return its result, which may come later. */
static inline weft_value cancel_and_finish(weft_selector_op *op)
{
    int rc = weft_selector_cancel(selector, op);
    if (rc == -EINPROGRESS)
        return finish(op, PENDING);
    ck_assert_int_eq(rc, 0);
    return op->result;
}

/* Write and read in the test itself, on descriptors of any mode. */
static inline void put(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static inline void new_pipe(int fd[2])
{
    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
}

static inline void new_sockets(int fd[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
}

static inline void close_pair(const int fd[2])
{
    close(fd[0]);
    close(fd[1]);
}

#endif
