/*
 * A supervisor waits for its children. One that was only spun and fails ends the others, and its
 * error is the supervisor's; children of a list are started again instead.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value fail_soon(void *arg)
{
    int rc = weft_sleep(0.1);
    return rc < 0 ? rc : weft_fail(-EIO, "%s", (const char *)arg);
}

static weft_value sleep_long(void *arg)
{
    WEFT_DEFER(puts, arg);
    return weft_sleep(60.0);
}

static weft_value succeed_at_last(void *arg)
{
    int *attempts = arg;
    printf("attempt %d\n", ++*attempts);
    int rc = weft_sleep(0.01);
    if (rc < 0)
        return rc;
    return *attempts < 3 ? weft_fail(-EIO, "not yet") : 0;
}

int main(void)
{
    weft_spin(fail_soon, "the first one is broken");
    weft_spin(sleep_long, "the second one is stopped");
    int rc = weft_supervise(NULL, 0, NULL);
    printf("supervise says %d: %s\n", rc, rc < 0 ? weft_error()->message : "all is well");

    int attempts = 0;
    weft_child child = {.fn = succeed_at_last, .arg = &attempts, .restart = WEFT_ON_ERROR};
    rc = weft_supervise(&child, 1, NULL);
    printf("supervise says %d after %d attempts\n", rc, attempts);
    return rc < 0;
}
