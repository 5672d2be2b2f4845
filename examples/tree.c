/* A child's error interrupts a blocking call of its parent. The parent adds its own message. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value fetch(void *arg)
{
    (void)arg;
    weft_sleep(0.1);
    return weft_fail(-EIO, "fetch: the disk does not respond");
}

static weft_value worker(void *arg)
{
    (void)arg;
    weft_spin(fetch, NULL);
    int rc = weft_sleep(60.0); /* fails when fetch fails */
    return rc < 0 ? weft_fail(rc, "worker: no data") : 0;
}

int main(void)
{
    weft_fiber f = weft_spin_with(worker, NULL, &(weft_spin_options){.name = "worker"});
    weft_value value = weft_await(f);
    printf("worker ended with %d\n", (int)value);
    for (const weft_error_info *e = weft_error(); e != NULL; e = e->cause)
        printf("  %s\n", e->message);
}
