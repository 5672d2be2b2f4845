/* weft_fdopen: streams of stdio that wait with weft. */
#include "posix/posix_support.h"

#include <fcntl.h>
#include <sys/socket.h>

FIXTURE(adopt_program, NULL)

static void make_sockets(int fds[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static weft_value write_lines(void *arg)
{
    int fd = (int)(intptr_t)arg;
    mark("writer ");
    ck_assert_int_eq(weft_write_all(fd, "one\ntwo\n", 8), 8);
    weft_close(fd);
    return 0;
}

TEST(a_read_of_a_stream_lets_other_fibers_run)
{
    int fds[2];
    make_sockets(fds);
    FILE *stream = weft_fdopen(fds[0], "r");
    ck_assert_ptr_nonnull(stream);
    weft_spin(write_lines, (void *)(intptr_t)fds[1]);
    char line[16];
    ck_assert_ptr_eq(fgets(line, sizeof line, stream), line);
    ck_assert_str_eq(line, "one\n");
    ck_assert_trail("writer ");
    ck_assert_ptr_eq(fgets(line, sizeof line, stream), line);
    ck_assert_str_eq(line, "two\n");
    ck_assert_ptr_null(fgets(line, sizeof line, stream));
    ck_assert(feof(stream));
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(fcntl(fds[0], F_GETFD), -1);
}

#define LONG_BYTES (1 << 20)

static weft_value count_bytes(void *arg)
{
    static char buffer[4096];
    weft_value total = 0;
    for (;;) {
        ssize_t n = weft_read((int)(intptr_t)arg, buffer, sizeof buffer);
        if (n <= 0)
            return n < 0 ? n : total;
        total += n;
    }
}

TEST(a_write_of_a_stream_waits_for_a_slow_reader)
{
    int fds[2];
    make_sockets(fds);
    weft_fiber reader = weft_spin(count_bytes, (void *)(intptr_t)fds[0]);
    FILE *stream = weft_fdopen(fds[1], "w");
    char *text = calloc(1, LONG_BYTES);
    ck_assert_uint_eq(fwrite(text, 1, LONG_BYTES, stream), LONG_BYTES);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(weft_await(reader), LONG_BYTES);
    weft_close(fds[0]);
    free(text);
}

static weft_value read_line(void *arg)
{
    char line[16];
    errno = 0;
    return fgets(line, sizeof line, arg) == NULL ? -errno : 0;
}

TEST(a_cancelled_read_of_a_stream_fails_with_ECANCELED)
{
    int fds[2];
    make_sockets(fds);
    FILE *stream = weft_fdopen(fds[0], "r+");
    weft_fiber f = weft_spin(read_line, stream);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert(ferror(stream));
    clearerr(stream);
    ck_assert_int_eq(weft_write(fds[1], "x\n", 2), 2);
    ck_assert_int_eq(read_line(stream), 0);
    fclose(stream);
    weft_close(fds[1]);
}

TEST(a_stream_of_a_socket_has_a_descriptor_and_no_position)
{
    int fds[2];
    make_sockets(fds);
    FILE *stream = weft_fdopen(fds[0], "r+");
    ck_assert_int_eq(fileno(stream), fds[0]);
    ck_assert_int_eq(fseek(stream, 0, SEEK_SET), -1);
    ck_assert_int_eq(errno, ESPIPE);
    fclose(stream);
    weft_close(fds[1]);
}

TEST(a_stream_of_a_file_has_a_position)
{
    char path[] = "/tmp/weft-posix-XXXXXX", text[8] = "";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    weft_snooze();
    FILE *stream = weft_fdopen(fd, "w+");
    ck_assert_int_ge(fputs("abcdef", stream), 0);
    ck_assert_int_eq(fseek(stream, 2, SEEK_SET), 0);
    ck_assert_uint_eq(fread(text, 1, 3, stream), 3);
    ck_assert_str_eq(text, "cde");
    ck_assert_int_eq(ftell(stream), 5);
    fclose(stream);
    unlink(path);
}

TEST(mode_a_appends)
{
    char path[] = "/tmp/weft-posix-XXXXXX", text[8] = "";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_eq(write(fd, "abc", 3), 3);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    FILE *stream = weft_fdopen(fd, "a");
    ck_assert_int_ge(fputs("de", stream), 0);
    ck_assert_int_eq(fflush(stream), 0);
    ck_assert_int_eq(pread(fd, text, 7, 0), 5);
    ck_assert_str_eq(text, "abcde");
    fclose(stream);
    unlink(path);
}

static const struct refusal {
    int flags;
    const char *mode;
    int error;
    const char *message;
} refusals[] = {
    {O_RDONLY, "", EINVAL, "weft_fdopen: mode is ''"},
    {O_RDONLY, "x", EINVAL, "weft_fdopen: mode is 'x'"},
    {O_RDONLY, NULL, EINVAL, "weft_fdopen: mode is 'NULL'"},
    {O_RDONLY, "w", EINVAL, "does not allow mode 'w'"},
    {O_RDONLY, "r+", EINVAL, "does not allow mode 'r+'"},
    {O_WRONLY, "r", EINVAL, "does not allow mode 'r'"},
    {-1, "r", EBADF, "weft_fdopen: descriptor -1: Bad file descriptor"},
};

TEST_ROWS(weft_fdopen_refuses_a_wrong_mode_and_a_bad_descriptor, refusals)
{
    const struct refusal *r = &refusals[_i];
    int fd = r->flags >= 0 ? open("/dev/null", r->flags | O_CLOEXEC) : -1;
    weft_snooze();
    ck_assert_ptr_null(weft_fdopen(fd, r->mode));
    ck_assert_int_eq(errno, r->error);
    ck_assert_int_eq(weft_error()->code, -r->error);
    ck_assert_ptr_nonnull(strstr(weft_error()->message, r->message));
}

/* Return a pointer if the thread could read from and close the stream. */
static void *use_stream_in_thread(void *arg)
{
    static char line[16];
    return fgets(line, sizeof line, arg) != NULL && fclose(arg) == 0 ? line : NULL;
}

TEST(a_plain_thread_may_use_a_stream)
{
    int fds[2];
    make_sockets(fds);
    FILE *stream = weft_fdopen(fds[0], "r");
    ck_assert_int_eq(write(fds[1], "x\n", 2), 2);
    pthread_t thread;
    void *value;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_stream_in_thread, stream), 0);
    ck_assert_int_eq(pthread_join(thread, &value), 0);
    ck_assert_ptr_nonnull(value);
    close(fds[1]);
}
