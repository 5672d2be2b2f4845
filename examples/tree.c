/* An error climbs to the parent's next blocking call, and its words come along. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value fetch(void *arg)
{
    (void)arg;
    weft_sleep(0.1);
    return weft_fail(-EIO, "the disk does not answer");
}

static weft_value worker(void *arg)
{
    (void)arg;
    weft_spin(fetch, NULL);
    int rc = weft_sleep(60.0); /* fails when fetch does */
    return rc < 0 ? weft_fail(rc, "no data to work on") : 0;
}

int main(void)
{
    weft_fiber f = weft_spin_with(worker, NULL, &(weft_spin_options){.name = "worker"});
    weft_value value = weft_await(f);
    printf("worker ended with %d\n", (int)value);
    for (const weft_error_info *e = weft_error(); e != NULL; e = e->cause)
        printf("  %s\n", e->message);
}
