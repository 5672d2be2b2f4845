/* Tests of weft_chain, which runs several operations in order. P68. */
#include "support/suite.h"

#include <fcntl.h>

static weft_link link_write(int to, const char *text)
{
    return (weft_link){
        .kind = WEFT_LINK_WRITE, .fd = to, .data = (void *)text, .bytes = strlen(text)};
}

static weft_link link_read(int from, char *data, size_t bytes)
{
    return (weft_link){.kind = WEFT_LINK_READ, .fd = from, .data = data, .bytes = bytes};
}

/* The sockets of a test, and its data. */
static int fd[2];
static char got[16];

static void open_sockets(void)
{
    ck_assert_int_eq(weft_socketpair(fd), 0);
}

FIXTURE(open_sockets, NULL)

static void assert_results(const weft_link *links, const ssize_t *results, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(links[i].result, results[i]);
}

#define RESULTS(links, ...) assert_results(links, (const ssize_t[]){__VA_ARGS__}, COUNT_OF(links))

TEST(a_chain_runs_its_links_in_order_and_returns_the_last_result)
{
    weft_link links[] = {link_write(fd[0], "one "), link_write(fd[0], "two "),
                         link_write(fd[0], "three"), link_read(fd[1], got, sizeof got)};
    ck_assert_int_eq(weft_chain(links, 4), 13);
    ck_assert_mem_eq(got, "one two three", 13);
    RESULTS(links, 4, 4, 5, 13);
    ck_assert_int_eq(weft_chain(NULL, 0), 0);
}

TEST(more_links_than_one_submission_holds_are_all_done)
{
    enum { COUNT = 100 };
    char all[COUNT];
    weft_link links[COUNT];
    ck_assert_int_eq(weft_pipe(fd), 0);
    for (int i = 0; i < COUNT; i++)
        links[i] = link_write(fd[1], i % 2 ? "b" : "a");
    ck_assert_int_eq(weft_chain(links, COUNT), 1);
    ck_assert_int_eq(weft_read_full(fd[0], all, COUNT), COUNT);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(all[i], i % 2 ? 'b' : 'a');
}

TEST(a_failing_link_ends_the_chain_with_its_error)
{
    int closed_pipe[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(weft_pipe(closed_pipe), 0);
    ck_assert_int_eq(weft_close(closed_pipe[0]), 0);
    weft_link links[] = {link_write(fd[1], "before"), link_write(closed_pipe[1], "not read"),
                         link_write(fd[1], "after")};
    ck_assert_int_eq(weft_chain(links, 3), -EPIPE);
    RESULTS(links, 6, -EPIPE, -ECANCELED);
    ck_assert_int_eq(weft_read(fd[0], got, sizeof got), 6);
}

TEST(an_invalid_link_is_refused_before_anything_is_sent)
{
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_link wrong[] = {{.kind = 0, .fd = fd[1]},
                         {.kind = (weft_link_kind)99, .fd = fd[1]},
                         {.kind = WEFT_LINK_WRITE, .fd = -1, .data = got, .bytes = 1},
                         {.kind = WEFT_LINK_WRITE, .fd = fd[1], .bytes = 1},
                         {.kind = WEFT_LINK_SPLICE, .fd = fd[0], .fd_out = -1, .bytes = 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_link links[] = {link_write(fd[1], "sent"), wrong[i]};
        ck_assert_int_eq(weft_chain(links, 2), -EINVAL);
        ck_assert_int_eq(weft_error()->code, -EINVAL);
    }
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_read(fd[0], got, sizeof got), -ECANCELED);
}

static weft_value drain_fd(void *arg)
{
    static char buffer[65536];
    weft_value total = 0;
    ssize_t n;
    while ((n = weft_read((int)(intptr_t)arg, buffer, sizeof buffer)) > 0)
        total += n;
    return n < 0 ? n : total;
}

/* More than a pipe or a socket holds, so the kernel writes it in parts. */
TEST(a_write_in_a_chain_writes_all_bytes)
{
    enum { BIG = 1 << 20 };
    static char big[BIG];
    for (int is_pipe = 0; is_pipe < 2; is_pipe++) {
        ck_assert_int_eq(is_pipe ? weft_pipe(fd) : weft_socketpair(fd), 0);
        weft_fiber reader = weft_spin(drain_fd, as_arg(fd[0]));
        weft_link links[] = {link_write(fd[1], "<"),
                             {.kind = WEFT_LINK_WRITE, .fd = fd[1], .data = big, .bytes = BIG},
                             {.kind = WEFT_LINK_WRITE, .fd = fd[1], .data = big, .bytes = BIG},
                             link_write(fd[1], ">")};
        ck_assert_int_eq(weft_chain(links, 4), 1);
        RESULTS(links, 1, BIG, BIG, 1);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        ck_assert_int_eq(weft_await(reader), 2 * BIG + 2);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}

TEST(a_short_read_does_not_end_a_chain)
{
    weft_link links[] = {link_write(fd[0], "abc"), link_read(fd[1], got, sizeof got),
                         link_write(fd[1], "answer"), link_read(fd[0], got + 3, 13)};
    ck_assert_int_eq(weft_chain(links, 4), 6);
    ck_assert_mem_eq(got, "abcanswer", 9);
}

TEST(a_deadline_ends_a_chain_that_waits)
{
    int rc;
    weft_link links[] = {link_write(fd[0], "x"), link_read(fd[0], got, 4), link_write(fd[0], "y")};
    WEFT_CANCEL_AFTER(0.01, rc)
        ck_assert_int_eq(weft_chain(links, 3), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    RESULTS(links, 1, -ECANCELED, -ECANCELED);
    ck_assert_int_eq(weft_read(fd[1], got, 4), 1);
    ck_assert_uint_eq(ops_pending(), 0);
}

static weft_value run_waiting_chain(void *arg)
{
    weft_link links[] = {link_write(fd[0], "x"), link_read(fd[0], got, 4)};
    return weft_chain(links, 2);
}

TEST(a_chain_can_be_cancelled_interrupted_and_raised_in)
{
    weft_fiber f = spin_waiting(run_waiting_chain, NULL);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    f = spin_waiting(run_waiting_chain, NULL);
    ck_assert_int_eq(weft_raise(f, -EIO, "broken"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    f = spin_waiting(run_waiting_chain, NULL);
    ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    ck_assert_int_eq(weft_await(f), -EINTR);
}

TEST(closing_a_descriptor_ends_the_chain_that_waits_on_it)
{
    weft_fiber f = spin_waiting(run_waiting_chain, NULL);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_await(f), -EBADF);
}

/* The typical use: data is on disk before the reply is sent. */
TEST(a_file_is_written_and_synced_before_the_reply_is_sent)
{
    int file = open_unnamed_file();
    weft_link links[] = {link_write(file, "record"),
                         {.kind = WEFT_LINK_FSYNC, .fd = file},
                         link_write(fd[0], "done")};
    ck_assert_int_eq(weft_chain(links, 3), 4);
    struct stat status;
    ck_assert_int_eq(fstat(file, &status), 0);
    ck_assert_int_eq(status.st_size, 6);
    ck_assert_int_eq(weft_read(fd[1], got, sizeof got), 4);
}
