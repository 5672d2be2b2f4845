/* weft_posix_report: adopted modules, and calls that hooks cannot reach. */
#include "posix/posix_support.h"

#include <fcntl.h>
#include <signal.h>

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
