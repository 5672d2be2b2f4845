/*
 * A small program against the public API, in the common subset of C and C++. The build compiles it
 * as both languages, with both compilers, for other machines, and against installed packages.
 * Details are tested elsewhere.
 */
#include <weft.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define EXPECT(condition) expect((condition), #condition, __LINE__)

static void expect(bool is_true, const char *what, int line)
{
    if (is_true)
        return;
    fprintf(stderr, "smoke.c:%d: does not hold: %s\n", line, what);
    failures++;
}

static char trail[16];

static void leave_mark(const char *mark)
{
    strncat(trail, mark, sizeof trail - strlen(trail) - 1);
}

static weft_value twice(void *arg)
{
    weft_snooze();
    return 2 * (intptr_t)arg;
}

static weft_value reader(void *arg)
{
    char buffer[8];
    return weft_read(*(int *)arg, buffer, sizeof buffer);
}

static weft_value failing(void *arg)
{
    (void)arg;
    return weft_fail(-ENOENT, "no %s here", "such thing");
}

static void test_fibers(void)
{
    weft_spin_options options;
    memset(&options, 0, sizeof options);
    options.name = "twice";
    weft_fiber one = weft_spin(twice, (void *)21);
    weft_fiber two = weft_spin_with(twice, (void *)4, &options);
    EXPECT(strcmp(weft_name_of(two), "twice") == 0);
    EXPECT(weft_await(one) == 42);
    EXPECT(weft_await(two) == 8);
    EXPECT(weft_await(one) == -ESRCH);
}

static void test_errors(void)
{
    weft_value rc = weft_await(weft_spin(failing, NULL));
    EXPECT(weft_is_error(rc) && rc == -ENOENT);
    EXPECT(weft_error() && strcmp(weft_error()->message, "no such thing here") == 0);
    weft_error_clear();
}

static void test_io(void)
{
    int fd[2];
    EXPECT(weft_pipe(fd) == 0);
    weft_fiber f = weft_spin(reader, &fd[0]);
    weft_snooze();
    EXPECT(weft_write_all(fd[1], "weft", 4) == 4);
    EXPECT(weft_await(f) == 4);
    EXPECT(weft_close(fd[0]) == 0);
    EXPECT(weft_close(fd[1]) == 0);
}

static void test_blocks(void)
{
    int rc = 1;
    WEFT_MOVE_ON_AFTER(0.001) {
        EXPECT(weft_sleep(60) == -ECANCELED);
        leave_mark("a");
    }
    int minute = 60;
    WEFT_CANCEL_AFTER(minute, rc) {
        leave_mark("");
    }
    WEFT_CANCEL_AFTER(0.001, rc) {
        EXPECT(weft_sleep(60) == -ECANCELED);
        WEFT_SHIELD(1.0) {
            EXPECT(weft_sleep(0.001) == 0);
            break;
        }
        leave_mark("b");
    }
    EXPECT(rc == -ETIMEDOUT);
    {
        WEFT_DEFER(leave_mark, "d");
        WEFT_DEFER(leave_mark, "c");
    }
    EXPECT(strcmp(trail, "abcd") == 0);
}

int main(void)
{
    test_fibers();
    test_errors();
    test_io();
    test_blocks();
    EXPECT(weft_now() > 0);
    return failures == 0 ? 0 : 1;
}
