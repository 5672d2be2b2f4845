/*
 * A fiber ignores its cancellation: it retries a call that fails with -ECANCELED. weft reports the
 * fiber on stderr after about 1 s. Here the loop has a limit, so that the program ends.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

#define RETRIES_MAX 2100

/* Stand for a call that may fail temporarily. */
static int poll_sensor(void)
{
    return weft_sleep(0.01);
}

static weft_value watch(void *arg)
{
    int *failures = arg;
    while (*failures < RETRIES_MAX)
        if (poll_sensor() < 0)
            ++*failures; /* the bug: -ECANCELED must end the loop */
    return 0;
}

int main(void)
{
    int failures = 0;
    weft_fiber f = weft_spin_with(watch, &failures, &(weft_spin_options){.name = "watch"});
    weft_snooze();
    weft_cancel(f);
    weft_value value = weft_await(f);
    printf("watch: %s after %d failed calls\n", value == -ECANCELED ? "-ECANCELED" : "a value",
           failures);
}
