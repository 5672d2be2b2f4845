/*
 * A supervisor waits for its children. The failure of a spun child ends the other children, and
 * weft_supervise returns its error. A failed child of a list is restarted.
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
    return *attempts < 3 ? weft_fail(-EIO, "too few attempts") : 0;
}

int main(void)
{
    weft_spin(fail_soon, "the first child is broken");
    weft_spin(sleep_long, "the second child is stopped");
    int rc = weft_supervise(NULL, 0, NULL);
    printf("weft_supervise returns %d: %s\n", rc, rc < 0 ? weft_error()->message : "no error");

    int attempts = 0;
    weft_child child = {.fn = succeed_at_last, .arg = &attempts, .restart = WEFT_ON_ERROR};
    rc = weft_supervise(&child, 1, NULL);
    printf("weft_supervise returns %d after %d attempts\n", rc, attempts);
    return rc < 0;
}
