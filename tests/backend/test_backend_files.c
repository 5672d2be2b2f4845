/*
 * What only a call that blocks can do: files whose data is not in memory, opening, syncing, the
 * functions of others. The cord does not wait for it, and a descriptor stays what it is for as long
 * as a thread is at work on it.
 */
#include "backend_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64

static int open_file(void)
{
    char path[] = "/tmp/weft-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

static intptr_t at_offset(weft__opcode code, int fd, void *data, size_t bytes, int64_t offset)
{
    trial t = {0};
    weft__op op = {.code = code, .fd = fd, .u.buffer = {data, bytes, offset}};
    return finish(&t, start(&t, op));
}

START_TEST(an_offset_leaves_the_position_alone)
{
    int fd = open_file();
    char got[16] = "";
    ck_assert_int_eq(write_now(fd, "0123456789", 10), 10);
    ck_assert_int_eq(at_offset(WEFT__OP_WRITE, fd, (char[]){"xy"}, 2, 4), 2);
    ck_assert_int_eq(at_offset(WEFT__OP_READ, fd, got, 4, 3), 4);
    ck_assert_str_eq(got, "3xy6");
    ck_assert_int_eq(at_offset(WEFT__OP_READ, fd, got, 4, 10), 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 10);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}
END_TEST

static char page_mark(int page)
{
    return (char)('a' + page % 23);
}

/* A file of which only the pages that `is_kept` names are in memory, where the system lets us. */
static int open_scattered(bool (*is_kept)(int page))
{
    int fd = open_file();
    char page[PAGE];
    for (int i = 0; i < PAGES; i++) {
        memset(page, page_mark(i), PAGE);
        ck_assert_int_eq(pwrite(fd, page, PAGE, (off_t)i * PAGE), PAGE);
    }
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no reading ahead */
    for (int i = 0; i < PAGES; i++)
        if (is_kept(i))
            ck_assert_int_eq(pread(fd, page, 1, (off_t)i * PAGE), 1);
    return fd;
}

static bool keep_none(int page)
{
    (void)page;
    return false;
}

static bool keep_first(int page)
{
    return page < 3;
}

static bool keep_second(int page)
{
    return page % 2 == 0;
}

static bool (*const keeps[])(int) = {keep_none, keep_first, keep_second};

static void expect_pages(const char *data, size_t bytes, size_t offset)
{
    size_t same = 0; /* one assertion for all: each is a message to the parent */
    while (same < bytes && data[same] == page_mark((int)((offset + same) / PAGE)))
        same++;
    ck_assert_uint_eq(same, bytes);
}

/* As read(2): programs take a short read of a file for its end. */
START_TEST(a_read_is_whole_wherever_the_pages_are)
{
    static char got[PAGES * PAGE];
    int fd = open_scattered(keeps[_i]);
    ck_assert_int_eq(read_now(fd, got, sizeof got), sizeof got);
    expect_pages(got, sizeof got, 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), sizeof got);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);

    fd = open_scattered(keeps[_i]);
    ck_assert_int_eq(at_offset(WEFT__OP_READ, fd, got, sizeof got, 100), sizeof got - 100);
    expect_pages(got, sizeof got - 100, 100);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}
END_TEST

START_TEST(a_vector_is_whole_wherever_the_pages_are)
{
    enum { PIECES = 7 };
    static char got[PAGES * PAGE];
    int fd = open_scattered(keeps[_i]);
    struct iovec pieces[PIECES];
    size_t each = sizeof got / PIECES, at = 0;
    for (int i = 0; i < PIECES; i++, at += each)
        pieces[i] = (struct iovec){got + at, i + 1 < PIECES ? each : sizeof got - at};
    trial t = {0};
    weft__op op = {.code = WEFT__OP_READV, .fd = fd};
    op.u.vector.pieces = pieces;
    op.u.vector.count = PIECES;
    op.u.vector.offset = WEFT__OFFSET_CURRENT;
    ck_assert_int_eq(finish(&t, start(&t, op)), sizeof got);
    expect_pages(got, sizeof got, 0);
    op.code = WEFT__OP_WRITEV;
    ck_assert_int_eq(finish(&t, start(&t, op)), sizeof got);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 2 * sizeof got);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}
END_TEST

static intptr_t open_now(int folder, const char *path, int flags)
{
    trial t = {0};
    weft__op op = {.code = WEFT__OP_OPEN, .fd = folder, .u.open = {path, flags, 0600}};
    return finish(&t, start(&t, op));
}

START_TEST(a_file_is_opened_and_the_number_serves_it)
{
    char got[8] = "";
    int fd[2], folder = (int)open_now(AT_FDCWD, "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder, 0);
    ck_assert_int_eq(open_now(AT_FDCWD, "/tmp/weft-there-is-no-such-file", O_RDONLY), -ENOENT);
    ck_assert_int_eq(open_now(INT32_MAX, "relative", O_RDONLY), -EBADF);
    /* A number that was a socket's, and was closed behind our back. */
    trial read = {0};
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&read), -ECANCELED);
    close(fd[0]);
    int file = (int)open_now(folder, ".", O_TMPFILE | O_RDWR);
    if (file >= 0) {
        ck_assert_int_eq(file, fd[0]);
        ck_assert_int_eq(write_now(file, "abc", 3), 3);
        ck_assert_int_eq(at_offset(WEFT__OP_READ, file, got, 8, 0), 3);
        ck_assert_int_eq(type->close_fd(backend, file), 0);
    }
    close_both((int[]){folder, fd[1]});
}
END_TEST

static intptr_t sync_now(int fd, bool is_data_only)
{
    trial t = {0};
    weft__op op = {.code = WEFT__OP_FSYNC, .fd = fd, .u.is_data_only = is_data_only};
    return finish(&t, start(&t, op));
}

START_TEST(a_file_is_synced_and_nothing_else)
{
    int fd = open_file(), pair[2];
    ck_assert_int_eq(write_now(fd, "abc", 3), 3);
    ck_assert_int_eq(sync_now(fd, false), 0);
    ck_assert_int_eq(sync_now(fd, true), 0);
    ck_assert_int_eq(type->pipe(backend, pair), 0);
    ck_assert_int_eq(sync_now(pair[0], false), -EINVAL);
    close_both(pair);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert_int_eq(sync_now(fd, false), -EBADF);
    ck_assert_int_eq(sync_now(-1, false), -EBADF);
}
END_TEST

/* A call that says that it runs, and ends when it is told to. */
typedef struct gate {
    sem_t is_in, may_leave;
    int fd;
    pthread_t thread;
    trial t;
} gate;

static intptr_t stand_in_gate(void *arg)
{
    gate *g = arg;
    g->thread = pthread_self();
    sem_post(&g->is_in);
    sem_wait(&g->may_leave);
    return g->fd >= 0 ? write(g->fd, "abc", 3) : 42;
}

static intptr_t start_gate(gate *g, int fd)
{
    sem_init(&g->is_in, 0, 0);
    sem_init(&g->may_leave, 0, 0);
    g->fd = fd;
    return start(&g->t,
                 (weft__op){.code = WEFT__OP_CALL, .fd = fd, .u.call = {stand_in_gate, g, NULL}});
}

static void open_gate(gate *g, int fd)
{
    ck_assert(start_gate(g, fd) == WEFT__OP_PENDING);
    sem_wait(&g->is_in);
}

static intptr_t leave_gate(gate *g)
{
    sem_post(&g->may_leave);
    return finish(&g->t, WEFT__OP_PENDING);
}

START_TEST(a_function_runs_beside_the_others)
{
    gate g = {.fd = -1};
    open_gate(&g, -1);
    ck_assert(!pthread_equal(g.thread, pthread_self()));
    ck_assert_uint_eq(backend->pending, 1);
    type->poll(backend, 0);
    ck_assert(!g.t.is_done);
    ck_assert_int_eq(leave_gate(&g), 42);
    ck_assert_uint_eq(backend->pending, 0);
}
END_TEST

START_TEST(what_runs_cannot_be_called_back)
{
    gate g = {.fd = -1};
    open_gate(&g, -1);
    ck_assert(!type->cancel(backend, &g.t.op));
    ck_assert(!g.t.is_done);
    ck_assert_int_eq(leave_gate(&g), 42);
}
END_TEST

/* Occupy the pool: from then on what is submitted waits for a thread. */
static gate guards[WEFT__LANE_FILES_THREADS];

static void occupy(void)
{
    for (int i = 0; i < WEFT__LANE_FILES_THREADS; i++)
        open_gate(&guards[i], -1);
}

static void leave(void)
{
    for (int i = 0; i < WEFT__LANE_FILES_THREADS; i++)
        ck_assert_int_eq(leave_gate(&guards[i]), 42);
}

START_TEST(what_waits_for_a_thread_can_be_called_back)
{
    gate g = {.fd = -1};
    occupy();
    ck_assert(start_gate(&g, -1) == WEFT__OP_PENDING);
    ck_assert(type->cancel(backend, &g.t.op));
    ck_assert_uint_eq(backend->pending, WEFT__LANE_FILES_THREADS);
    leave();
    type->poll(backend, 0);
    ck_assert(!g.t.is_done);
    ck_assert_int_ne(sem_trywait(&g.is_in), 0); /* it was not called */
}
END_TEST

START_TEST(closing_ends_what_waits_for_a_thread)
{
    gate g = {.fd = -1};
    int fd = open_file();
    occupy();
    ck_assert(start_gate(&g, fd) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert(g.t.is_done);
    ck_assert_int_eq(g.t.result, -EBADF);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
    leave();
}
END_TEST

START_TEST(a_descriptor_stays_open_while_a_thread_works_on_it)
{
    gate g = {.fd = -1};
    int fd = open_file(), kept = dup(fd);
    char got[8] = "";
    open_gate(&g, fd);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0); /* nobody else gets the number */
    trial late = {0};
    ck_assert_int_eq(start_read(&late, fd, got, 8), -EBADF);
    ck_assert_int_eq(start_wait(&late, fd, POLLIN), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd), -EBADF);
    ck_assert_int_eq(leave_gate(&g), 3);
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
    ck_assert_int_eq(pread(kept, got, 8, 0), 3);
    ck_assert_str_eq(got, "abc");
    ck_assert_int_eq(type->close_fd(backend, kept), 0);
}
END_TEST

static void expect_closed(trial *t)
{
    ck_assert_int_lt(fcntl(t->op.fd, F_GETFD), 0);
}

START_TEST(the_last_of_several_threads_lets_the_descriptor_go)
{
    static gate g[3];
    int fd = open_file();
    for (int i = 0; i < 3; i++)
        open_gate(&g[i], fd);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    g[2].t.then = expect_closed;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
        ck_assert_int_eq(leave_gate(&g[i]), 3);
    }
    ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
}
END_TEST

START_TEST(many_files_are_read_at_once)
{
    enum { MANY = 100 };
    static trial t[MANY];
    static char got[MANY][PAGE];
    int fd = open_scattered(keep_none);
    intptr_t submitted[MANY];
    for (int i = 0; i < MANY; i++) {
        int64_t offset = (int64_t)(i % PAGES) * PAGE;
        weft__op op = {.code = WEFT__OP_READ, .fd = fd, .u.buffer = {got[i], PAGE, offset}};
        submitted[i] = start(&t[i], op);
    }
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(finish(&t[i], submitted[i]), PAGE);
        expect_pages(got[i], PAGE, (size_t)(i % PAGES) * PAGE);
    }
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}
END_TEST

int main(int argc, char **argv)
{
    name_backend(argc, argv);
    Suite *suite = suite_create("backend files");
    TCase *tests = tcase_create("backend files");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_offset_leaves_the_position_alone);
    tcase_add_loop_test(tests, a_read_is_whole_wherever_the_pages_are, 0, 3);
    tcase_add_loop_test(tests, a_vector_is_whole_wherever_the_pages_are, 0, 3);
    tcase_add_test(tests, a_file_is_opened_and_the_number_serves_it);
    tcase_add_test(tests, a_file_is_synced_and_nothing_else);
    tcase_add_test(tests, a_function_runs_beside_the_others);
    tcase_add_test(tests, what_runs_cannot_be_called_back);
    tcase_add_test(tests, what_waits_for_a_thread_can_be_called_back);
    tcase_add_test(tests, closing_ends_what_waits_for_a_thread);
    tcase_add_test(tests, a_descriptor_stays_open_while_a_thread_works_on_it);
    tcase_add_test(tests, the_last_of_several_threads_lets_the_descriptor_go);
    tcase_add_test(tests, many_files_are_read_at_once);
    return run_suite(suite);
}
