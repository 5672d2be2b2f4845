/* weft_posix_report: adopted modules, and calls that hooks cannot reach. */
#include "posix/posix_support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

/* Calls of this program, for the report. The test does not call the function. */
static void use_calls(void)
{
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigwait(&set, &signal);
    pause();
    (void)getchar();
}

static char *report_text(void)
{
    static char text[65536];
    char path[] = "/tmp/weft-posix-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_posix_report(fd), 0);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    close(fd);
    unlink(path);
    return text;
}

TEST(the_report_names_modules_and_calls_that_hooks_do_not_reach)
{
    if (getenv("NEVER_SET") != NULL)
        use_calls();
    if (!is_preloaded()) {
        ck_assert_ptr_nonnull(strstr(report_text(), "no module is adopted\n"));
        ck_assert_int_gt(weft_adopt("", NULL), 0);
    }
    const char *text = report_text();
    const char *module = strstr(text, "the program: ");
    ck_assert_msg(module != NULL, "%s", text);
    ck_assert_ptr_nonnull(strstr(module, "calls hooked\n"));
    ck_assert_ptr_nonnull(strstr(module, "not reached:"));
    ck_assert_ptr_nonnull(strstr(module, " pause"));
    ck_assert_ptr_nonnull(strstr(module, " sigwait"));
    ck_assert_ptr_null(strstr(text, "libweft"));
    ck_assert_ptr_null(strstr(text, "libc.so"));
}

TEST(the_report_returns_the_error_of_the_write)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(weft_posix_report(fd), -ENOSPC);
    close(fd);
    ck_assert_int_eq(weft_posix_report(-1), -EBADF);
}

/* The ends of a socket whose reader blocks its thread, and of the pipe with the report. */
typedef struct stall {
    int socket[2], report[2];
    char text[65536];
} stall;

/* Read the report until it names the function, then end the stall. */
static void *end_stall(void *arg)
{
    stall *s = arg;
    size_t used = 0;
    while (strstr(s->text, "fgets") == NULL) {
        ssize_t n = read(s->report[0], s->text + used, sizeof s->text - 1 - used);
        ck_assert_int_gt(n, 0);
        used += (size_t)n;
    }
    ck_assert_int_eq(write(s->socket[1], "line\n", 5), 5);
    return NULL;
}

static weft_value read_line(void *arg)
{
    char line[16];
    ck_assert_ptr_nonnull(fgets(line, sizeof line, arg));
    ck_assert_str_eq(line, "line\n");
    return 0;
}

TEST(the_watchdog_names_a_fiber_that_stdio_blocks)
{
    static stall s;
    adopt_program();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s.socket), 0);
    ck_assert_int_eq(pipe2(s.report, O_CLOEXEC), 0);
    int original = dup(STDERR_FILENO);
    dup2(s.report[1], STDERR_FILENO);
    FILE *stream = fdopen(s.socket[0], "r");
    pthread_t thread = start_thread(end_stall, &s);
    ck_assert_int_eq(weft_watchdog(0.01), 0);
    weft_fiber f = weft_spin_with(read_line, stream, &(weft_spin_options){.name = "reader"});
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_watchdog(0), 0);
    ck_assert_ptr_null(join_thread(thread));
    dup2(original, STDERR_FILENO);
    ck_assert_msg(strstr(s.text, "reader") != NULL, "%s", s.text);
    fclose(stream);
}
