/* A fiber is stopped in its sleep, runs again under the same id, and is waited for. */
#include <weft.h>

#include <stdio.h>

static weft_value sleeper(void *arg)
{
    (void)arg;
    WEFT_DEFER(puts, "stopped"); /* whichever way it ends */
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
