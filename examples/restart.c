/* Stop a sleeping fiber, restart it under the same id, and await it. */
#include <weft.h>

#include <stdio.h>

static weft_value sleeper(void *arg)
{
    (void)arg;
    WEFT_DEFER(puts, "stopped"); /* runs however the fiber ends */
    puts("going to sleep");
    int rc = weft_sleep(0.5);
    if (rc < 0)
        return rc;
    puts("done sleeping");
    return 0;
}

int main(void)
{
    weft_fiber f = weft_spin(sleeper, NULL);
    weft_sleep(0.1);
    weft_stop(f, 0);
    weft_restart(f);
    return weft_await(f) < 0;
}
