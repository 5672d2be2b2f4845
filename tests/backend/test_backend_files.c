/*
 * Tests of operations that run on workers: reads of files that are not in memory, open, sync, and
 * functions of the caller. The cord does not block. A descriptor stays open while a worker uses it.
 */
#include "backend/backend_harness.h"

#include <fcntl.h>
#include <semaphore.h>

FIXTURE(open_backend, close_backend)

#define PAGE 4096
#define PAGES 64

static intptr_t transfer_at_offset(weft__opcode code, int fd, void *data, size_t bytes,
                                   int64_t offset)
{
    return op_now((weft__op){.code = code, .fd = fd, .u.buffer = {data, bytes, offset}});
}

static char page_byte(int page)
{
    return (char)('a' + page % 23);
}

/*
 * Create a file. Only the pages for which is_cached returns true are in memory, if the system
 * supports it.
 */
static int open_partly_cached(bool (*is_cached)(int page))
{
    int fd = open_unnamed_file();
    char page[PAGE];
    for (int i = 0; i < PAGES; i++) {
        memset(page, page_byte(i), PAGE);
        ck_assert_int_eq(pwrite(fd, page, PAGE, (off_t)i * PAGE), PAGE);
    }
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead */
    for (int i = 0; i < PAGES; i++)
        if (is_cached(i))
            ck_assert_int_eq(pread(fd, page, 1, (off_t)i * PAGE), 1);
    return fd;
}

static bool cache_none(int page)
{
    (void)page;
    return false;
}

static bool cache_first(int page)
{
    return page < 3;
}

static bool cache_every_second(int page)
{
    return page % 2 == 0;
}

static bool (*const cache_patterns[])(int) = {cache_none, cache_first, cache_every_second};

static void expect_pages(const char *data, size_t bytes, size_t offset)
{
    size_t same = 0; /* one assertion, because Check sends a message to the parent for each */
    while (same < bytes && data[same] == page_byte((int)((offset + same) / PAGE)))
        same++;
    ck_assert_uint_eq(same, bytes);
}

/* As read(2). Programs treat a short read of a file as the end of the file. */
TEST_LOOP(a_read_is_complete_whichever_pages_are_cached, 3)
{
    static char got[PAGES * PAGE];
    int fd = open_partly_cached(cache_patterns[_i]);
    ck_assert_int_eq(read_now(fd, got, sizeof got), sizeof got);
    expect_pages(got, sizeof got, 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), sizeof got);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);

    fd = open_partly_cached(cache_patterns[_i]);
    ck_assert_int_eq(transfer_at_offset(WEFT__OP_READ, fd, got, sizeof got, 100), sizeof got - 100);
    expect_pages(got, sizeof got - 100, 100);
}

TEST_LOOP(a_vectored_read_is_complete_whichever_pages_are_cached, 3)
{
    enum { PIECES = 7 };
    static char got[PAGES * PAGE];
    int fd = open_partly_cached(cache_patterns[_i]);
    struct iovec pieces[PIECES];
    size_t each = sizeof got / PIECES, at = 0;
    for (int i = 0; i < PIECES; i++, at += each)
        pieces[i] = (struct iovec){got + at, i + 1 < PIECES ? each : sizeof got - at};
    weft__op op = {
        .code = WEFT__OP_READV, .fd = fd, .u.vector = {pieces, PIECES, WEFT__OFFSET_CURRENT}};
    ck_assert_int_eq(op_now(op), sizeof got);
    expect_pages(got, sizeof got, 0);
    op.code = WEFT__OP_WRITEV;
    ck_assert_int_eq(op_now(op), sizeof got);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 2 * sizeof got);
}

static intptr_t open_now(int folder, const char *path, int flags)
{
    return op_now((weft__op){.code = WEFT__OP_OPEN, .fd = folder, .u.open = {path, flags, 0600}});
}

TEST(an_opened_file_works_even_if_its_number_was_a_socket)
{
    char got[8] = "";
    int fd[2], folder = (int)open_now(AT_FDCWD, "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder, 0);
    ck_assert_int_eq(open_now(AT_FDCWD, "/tmp/weft-there-is-no-such-file", O_RDONLY), -ENOENT);
    ck_assert_int_eq(open_now(INT32_MAX, "relative", O_RDONLY), -EBADF);
    /* A number that belonged to a socket and was closed without the backend. */
    test_op read = {0};
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&read), -ECANCELED);
    close(fd[0]);
    int file = (int)open_now(folder, ".", O_TMPFILE | O_RDWR);
    if (file >= 0) {
        ck_assert_int_eq(file, fd[0]);
        ck_assert_int_eq(write_now(file, "abc", 3), 3);
        ck_assert_int_eq(transfer_at_offset(WEFT__OP_READ, file, got, 8, 0), 3);
        ck_assert_int_eq(type->close_fd(backend, file), 0);
    }
}

/* A call that reports its start, and waits for permission to return. */
typedef struct gated_call {
    sem_t has_started, may_return;
    int fd;
    test_op t;
} gated_call;

static intptr_t run_gated_call(void *arg)
{
    gated_call *g = arg;
    sem_post(&g->has_started);
    sem_wait(&g->may_return);
    return g->fd >= 0 ? write(g->fd, "abc", 3) : 42;
}

static intptr_t start_gated_call(gated_call *g, int fd)
{
    sem_init(&g->has_started, 0, 0);
    sem_init(&g->may_return, 0, 0);
    g->fd = fd;
    return start_op(
        &g->t, (weft__op){.code = WEFT__OP_CALL, .fd = fd, .u.call = {run_gated_call, g, NULL}});
}

static void enter_gated_call(gated_call *g, int fd)
{
    ck_assert(start_gated_call(g, fd) == WEFT__OP_PENDING);
    sem_wait(&g->has_started);
}

static intptr_t finish_gated_call(gated_call *g)
{
    sem_post(&g->may_return);
    return finish_op(&g->t, WEFT__OP_PENDING);
}

/* Calls that occupy all workers, so that further calls are queued. */
static gated_call blockers[WEFT__FILES_WORKERS_MAX];

static void occupy_workers(void)
{
    for (int i = 0; i < WEFT__FILES_WORKERS_MAX; i++)
        enter_gated_call(&blockers[i], -1);
}

static void release_workers(void)
{
    for (int i = 0; i < WEFT__FILES_WORKERS_MAX; i++)
        ck_assert_int_eq(finish_gated_call(&blockers[i]), 42);
}

TEST(closing_a_descriptor_ends_its_queued_calls)
{
    gated_call g = {.fd = -1};
    int fd = open_unnamed_file();
    occupy_workers();
    ck_assert(start_gated_call(&g, fd) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert(g.t.is_done);
    ck_assert_int_eq(g.t.result, -EBADF);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
    release_workers();
}

TEST(a_descriptor_stays_open_while_a_worker_uses_it)
{
    gated_call g = {.fd = -1};
    int fd = open_unnamed_file(), duplicate = dup(fd);
    char got[8] = "";
    enter_gated_call(&g, fd);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0); /* the number is not reused */
    test_op late = {0};
    ck_assert_int_eq(start_read(&late, fd, got, 8), -EBADF);
    ck_assert_int_eq(start_wait(&late, fd, POLLIN), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd), -EBADF);
    ck_assert_int_eq(finish_gated_call(&g), 3);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
    ck_assert_int_eq(pread(duplicate, got, 8, 0), 3);
    ck_assert_str_eq(got, "abc");
}

static void expect_closed(test_op *t)
{
    ck_assert_int_lt(fcntl(t->op.fd, F_GETFD), 0);
}

TEST(the_last_of_several_workers_closes_the_descriptor)
{
    static gated_call g[3];
    int fd = open_unnamed_file();
    for (int i = 0; i < 3; i++)
        enter_gated_call(&g[i], fd);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    g[2].t.then = expect_closed;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
        ck_assert_int_eq(finish_gated_call(&g[i]), 3);
    }
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
}
