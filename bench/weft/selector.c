/*
 * Workload of a selector, as a host with its own fibers uses it. COUNT sockets wait for a byte. The
 * host writes a byte to each, polls, and reads the byte of each socket that is ready. One operation
 * is one wait with its write and its read.
 */
#include "works.h"

#include <weft/selector.h>

#include <math.h>
#include <unistd.h>

typedef struct waiting {
    weft_selector_op op; /* the first field */
    int fd, feed;
} waiting;

/* Take the completed waits. Return their number. */
static size_t take_ready(weft_selector *s)
{
    size_t taken = 0;
    char byte;
    bench_require(weft_selector_poll(s, INFINITY) >= 0);
    for (weft_selector_op *op; (op = weft_selector_next(s)) != NULL; taken++)
        bench_require(op->result == POLLIN && read(((waiting *)op)->fd, &byte, 1) == 1);
    return taken;
}

static void wait_for_all(weft_selector *s, waiting *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_require(weft_selector_wait_fd(s, &all[i].op, all[i].fd, POLLIN) ==
                      WEFT_SELECTOR_PENDING);
    for (size_t i = 0; i < count; i++)
        bench_require(write(all[i].feed, "a", 1) == 1);
    for (size_t left = count; left > 0;)
        left -= take_ready(s);
}

static double selector_pass(size_t count, size_t n)
{
    weft_selector *s;
    waiting *all = calloc(count, sizeof *all);
    bench_require(all != NULL && weft_selector_open(&s, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        int fd[2];
        bench_require(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
        all[i].fd = fd[0];
        all[i].feed = fd[1];
    }
    double began = bench_cpu_ns();
    for (size_t done = 0; done < n; done += count)
        wait_for_all(s, all, count);
    double took = bench_cpu_ns() - began;
    weft_selector_close(s);
    for (size_t i = 0; i < count; i++) {
        close(all[i].fd);
        close(all[i].feed);
    }
    free(all);
    return took / (double)n;
}

void work_selector(size_t count, size_t n)
{
    bench_measure(selector_pass, count, n);
}
