/*
 * Fault tests of selectors: the n-th allocation or system call fails, for each n. Each operation
 * completes or returns an error, no byte is lost without an error, and closing releases everything.
 */
#include "selector/selector_support.h"

#include "support/fault.h"

static weft_value call_double(void *arg)
{
    return 2 * (weft_value)arg;
}

/* Return the result of an operation, after other operations have completed. */
static weft_value result_of(weft_selector_op *op, weft_value started)
{
    if (started != PENDING)
        return started;
    for (weft_selector_op *next = NULL; next != op;) {
        int rc = weft_selector_poll(selector, INFINITY);
        REQUIRE(rc >= 0);
        next = weft_selector_next(selector);
    }
    return op->result;
}

/* Read and write on a pair of descriptors. */
static bool move_bytes(const int fd[2])
{
    weft_selector_op op = {0};
    char got[8];
    weft_value n = weft_selector_read(selector, &op, fd[0], got, 8, CURRENT);
    WITHOUT_FAULTS(REQUIRE(write(fd[1], "abc", 3) == 3));
    n = result_of(&op, n);
    bool is_done = REQUIRE_OR_FAULT(n);
    REQUIRE(!is_done || n == 3);
    if (!is_done)
        WITHOUT_FAULTS(REQUIRE(read(fd[0], got, 8) == 3));
    n = weft_selector_wait_fd(selector, &op, fd[0], POLLIN);
    WITHOUT_FAULTS(REQUIRE(write(fd[1], "d", 1) == 1));
    n = result_of(&op, n);
    bool is_ready = REQUIRE_OR_FAULT(n);
    REQUIRE(!is_ready || n == POLLIN);
    WITHOUT_FAULTS(REQUIRE(read(fd[0], got, 8) == 1));
    return is_done && is_ready;
}

static bool wait_for_child(void)
{
    weft_selector_op op = {0};
    int status = -1;
    pid_t pid;
    WITHOUT_FAULTS(pid = fork());
    if (pid == 0)
        _exit(3);
    weft_value found = result_of(&op, weft_selector_wait_process(selector, &op, pid, 0, &status));
    bool is_done = REQUIRE_OR_FAULT(found);
    if (!is_done)
        WITHOUT_FAULTS(found = waitpid(pid, &status, 0));
    REQUIRE(found == pid && WEXITSTATUS(status) == 3);
    return is_done;
}

static bool time_and_calls(void)
{
    weft_selector_op op = {0}, limited = {0};
    bool is_done = REQUIRE_OR_FAULT(result_of(&op, weft_selector_sleep(selector, &op, 0.0001)));
    weft_value value =
        result_of(&op, weft_selector_offload(selector, &op, call_double, (void *)21, NULL));
    is_done &= REQUIRE_OR_FAULT(value);
    REQUIRE(value < 0 || value == 42);
    value = weft_selector_sleep(selector, &limited, INFINITY);
    if (value == PENDING) {
        REQUIRE(weft_selector_limit(selector, &limited, 0) == 0);
        REQUIRE(result_of(&limited, value) == -ETIMEDOUT);
    }
    return is_done && (value == PENDING || REQUIRE_OR_FAULT(value));
}

static bool leave_pending(const int fd[2])
{
    static weft_selector_op ops[2];
    static char got[8];
    memset(ops, 0, sizeof ops);
    weft_value results[] = {
        weft_selector_wait_fd(selector, &ops[0], fd[0], POLLIN),
        weft_selector_read(selector, &ops[1], fd[0], got, 8, CURRENT),
    };
    bool is_done = true;
    for (int i = 0; i < 2; i++)
        is_done &= results[i] == PENDING || REQUIRE_OR_FAULT(results[i]);
    return is_done;
}

TEST_FAULTS(each_operation_completes_or_returns_an_error)
{
    int pair[2][2];
    WITHOUT_FAULTS(new_pipe(pair[0]); new_sockets(pair[1]));
    int rc = weft_selector_open(&selector, NULL);
    bool is_done = REQUIRE_OR_FAULT(rc);
    if (is_done) {
        for (int i = 0; i < 2; i++)
            is_done &= move_bytes(pair[i]);
        is_done &= time_and_calls();
        is_done &= wait_for_child();
        is_done &= leave_pending(pair[1]);
        weft_selector_close(selector);
    }
    WITHOUT_FAULTS(close_pair(pair[0]); close_pair(pair[1]));
    return is_done;
}
