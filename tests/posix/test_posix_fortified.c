/* Hooked calls of a program that was compiled with _FORTIFY_SOURCE, which calls other names. */
#include "posix/posix_io_support.h"

#if !defined(_FORTIFY_SOURCE) || _FORTIFY_SOURCE < 2
#error "compile this test with _FORTIFY_SOURCE"
#endif

FIXTURE(adopt_in_cord, NULL)

/* Sizes that the compiler does not know, so that it calls the fortified names. */
static volatile size_t bytes = 4;
static volatile nfds_t one = 1;

typedef struct fortified_call {
    int fd;
    int file;
    char data[8];
} fortified_call;

static weft_value call_read(void *arg)
{
    fortified_call *c = arg;
    return result_of(read(c->fd, c->data, bytes));
}

static weft_value call_recv(void *arg)
{
    fortified_call *c = arg;
    return result_of(recv(c->fd, c->data, bytes, 0));
}

static weft_value call_recvfrom(void *arg)
{
    fortified_call *c = arg;
    struct sockaddr_storage from;
    socklen_t from_bytes = sizeof from;
    return result_of(recvfrom(c->fd, c->data, bytes, 0, (struct sockaddr *)&from, &from_bytes));
}

static weft_value call_poll(void *arg)
{
    fortified_call *c = arg;
    struct pollfd p[1] = {{c->fd, POLLIN, 0}};
    if (poll(p, one, -1) != 1 || p[0].revents != POLLIN)
        return -EIO;
    return call_read(arg);
}

static weft_value call_ppoll(void *arg)
{
    fortified_call *c = arg;
    struct pollfd p[1] = {{c->fd, POLLIN, 0}};
    if (ppoll(p, one, NULL, NULL) != 1 || p[0].revents != POLLIN)
        return -EIO;
    return call_read(arg);
}

static weft_fn *const calls[] = {call_read, call_recv, call_recvfrom, call_poll, call_ppoll};

TEST_ROWS(a_fortified_call_waits_with_weft, calls)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    fortified_call c = {.fd = fd[0]};
    weft_fiber f = spin_waiting(calls[_i], &c);
    put_text(fd[1], "abcd");
    ck_assert_int_eq(weft_await(f), 4);
    ck_assert_str_eq(c.data, "abcd");
    ck_assert_uint_eq(posix_stats().waits, 1);
}

TEST(fortified_reads_of_files_work)
{
    int fd = open_temporary_file();
    char data[8] = "";
    ck_assert_int_eq(write(fd, "abcdef", 6), 6);
    ck_assert_int_eq(pread(fd, data, bytes, 1), 4);
    ck_assert_str_eq(data, "bcde");
    ck_assert_int_eq(pread64(fd, data, bytes, 2), 4);
    ck_assert_str_eq(data, "cdef");
}

static volatile size_t too_many = 100;

static int overflow_program(void)
{
    adopt_program();
    int fd[2];
    char data[8];
    open_pair(fd, SOCK_STREAM);
    signal(SIGABRT, SIG_DFL);
    (void)!read(fd[0], data, too_many);
    return 0;
}

TEST(a_buffer_that_is_too_small_ends_the_process)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        _exit(overflow_program());
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
