/* Deadlines, shields and retries. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* One deadline for several calls. */
static int read_two(int fd, char *data, double seconds)
{
    ssize_t n = 0;
    int rc;
    WEFT_CANCEL_AFTER(seconds, rc) {
        n = weft_read(fd, data, 1);
        if (n > 0)
            n = weft_read(fd, data + 1, 1);
    }
    return rc < 0 ? rc : (int)n;
}

/* A deadline for the fibers of a group: the scope is outside of the group. */
static weft_value sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(3600.0);
}

static int run_all_within(double seconds)
{
    int rc, late;
    WEFT_CANCEL_AFTER(seconds, late) {
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, sleep_long, NULL);
            weft_group_spin(&g, sleep_long, NULL);
        }
    }
    return late < 0 ? late : rc;
}

/* A deadline that moves with each success: no input for a time. */
static int read_until_idle(int fd, double idle_s)
{
    weft_scope scope;
    char data[16];
    ssize_t n;
    int total = 0, rc = weft_scope_open(&scope, idle_s);
    if (rc < 0)
        return rc;
    while ((n = weft_read(fd, data, sizeof data)) > 0) {
        total += (int)n;
        weft_scope_reset(&scope, idle_s);
    }
    rc = weft_scope_close(&scope);
    return rc == -ETIMEDOUT ? total : rc < 0 ? rc : (int)n;
}

/* Cleanup that blocks: behind a shield, with its own limit. */
static weft_value hold_lease(void *arg)
{
    int fd = *(int *)arg;
    int rc = weft_sleep(3600.0);
    WEFT_SHIELD(1.0) {
        weft_write_all(fd, "released", 8);
    }
    return rc;
}

/* Try again after a temporary error. A deadline around the call limits all attempts. */
static weft_value dial_server(void *arg)
{
    int *refusals = arg; /* in place of weft_dial */
    return --*refusals >= 0 ? -ECONNREFUSED : 7;
}

static bool is_temporary(int code, void *context)
{
    (void)context;
    return code == -ECONNREFUSED || code == -ETIMEDOUT;
}

static weft_value dial_patiently(int refusals)
{
    weft_retry_options options = {
        .attempts_max = 4, .first_s = 0.01, .jitter = 0.5, .should_retry = is_temporary};
    return weft_retry(dial_server, &refusals, &options);
}

int main(void)
{
    static int fd[2];
    char data[16] = "";
    if (weft_pipe(fd) < 0)
        return 1;
    weft_write_all(fd[1], "a", 1);
    printf("two reads: %s\n", read_two(fd[0], data, 0.05) == -ETIMEDOUT ? "timeout" : "done");
    printf("group: %s\n", run_all_within(0.05) == -ETIMEDOUT ? "timeout" : "done");
    weft_write_all(fd[1], "abc", 3);
    printf("until idle: %d bytes\n", read_until_idle(fd[0], 0.05));
    weft_fiber lease = weft_spin(hold_lease, &fd[1]);
    weft_snooze();
    weft_terminate(lease, 1.0);
    ssize_t n = weft_read(fd[0], data, sizeof data - 1);
    printf("shield: %.*s\n", (int)n, data);
    printf("retry: %s\n", dial_patiently(3) == 7 ? "connected" : "refused");
    printf("retry: %s\n", dial_patiently(4) == 7 ? "connected" : "refused");
}
