/*
 * A pool of workers takes jobs from a channel, with a limit for the total time. docs/from.md shows
 * the program beside one in Go.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

#define WORKERS 3

static weft_chan *jobs;
static int sum;

static weft_value work(void *arg)
{
    (void)arg;
    weft_value n;
    while (!weft_is_error(n = weft_chan_recv(jobs))) {
        int rc = weft_sleep(0.01 * (double)n);
        if (rc < 0)
            return rc;
        sum += (int)(n * n); /* no lock: the workers run in one thread */
    }
    return n == -EPIPE ? 0 : n; /* -EPIPE: the channel is closed and empty */
}

static int run_pool(int jobs_count, double limit_s)
{
    int rc = 0, timed_out;
    WEFT_CANCEL_AFTER(limit_s, timed_out) {
        WEFT_GROUP(pool, rc) {
            for (int i = 0; i < WORKERS; i++)
                weft_group_spin(&pool, work, NULL);
            for (int n = 1; n <= jobs_count; n++)
                if (weft_chan_send(jobs, n) < 0)
                    break;
            weft_chan_close(jobs);
        }
    }
    return timed_out < 0 ? timed_out : rc;
}

static void print_sum(int jobs_count, double limit_s)
{
    sum = 0;
    jobs = weft_chan_new(0);
    if (jobs == NULL)
        return;
    int rc = run_pool(jobs_count, limit_s);
    if (rc < 0)
        printf("%d jobs: %s\n", jobs_count, rc == -ETIMEDOUT ? "-ETIMEDOUT" : "another error");
    else
        printf("%d jobs: the sum of squares is %d\n", jobs_count, sum);
    weft_chan_free(jobs);
}

int main(void)
{
    print_sum(6, 60.0);
    print_sum(1000, 0.1);
}
