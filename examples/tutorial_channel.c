/* Tutorial, step 7: one fiber produces numbers, three fibers work, main collects the results. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

#define JOBS 100
#define WORKERS 3

typedef struct pipeline {
    weft_chan *jobs;    /* room for 8 */
    weft_chan *results; /* no room: the sender waits for the receiver */
} pipeline;

static weft_value produce(void *arg)
{
    pipeline *p = arg;
    int rc = 0;
    for (int n = 1; rc == 0 && n <= JOBS; n++)
        rc = weft_chan_send(p->jobs, n); /* waits while the channel is full */
    weft_chan_close(p->jobs);
    return rc;
}

static weft_value work(void *arg)
{
    pipeline *p = arg;
    weft_value n;
    int rc = 0;
    while (rc == 0 && !weft_is_error(n = weft_chan_recv(p->jobs)))
        rc = weft_chan_send(p->results, n * n);
    return rc; /* 0: the channel is closed and empty */
}

static int collect(pipeline *p, long *sum)
{
    int rc;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, produce, p);
        for (int i = 0; i < WORKERS; i++)
            weft_group_spin(&g, work, p);
        for (int i = 0; i < JOBS; i++) {
            weft_value square = weft_chan_recv(p->results);
            if (weft_is_error(square))
                break;
            *sum += square;
        }
    }
    return rc;
}

int main(void)
{
    pipeline p = {.jobs = weft_chan_new(8), .results = weft_chan_new(0)};
    long sum = 0;
    int rc = p.jobs != NULL && p.results != NULL ? collect(&p, &sum) : -ENOMEM;
    weft_chan_free(p.jobs);
    weft_chan_free(p.results);
    if (rc < 0)
        return 1;
    printf("%d results, sum %ld\n", JOBS, sum);
}
