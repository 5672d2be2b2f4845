/*
 * Workers send results to a channel. Main collects results until a deadline, and then cancels the
 * remaining workers. docs/from.md shows the program beside one for libdill.
 */
#include <weft.h>

#include <stdio.h>

typedef struct job {
    int number;
    double seconds;
    weft_chan *results;
} job;

static weft_value work(void *arg)
{
    const job *j = arg;
    int rc = weft_sleep(j->seconds);
    if (rc < 0)
        printf("worker %d is cancelled\n", j->number);
    return rc < 0 ? rc : weft_chan_send(j->results, j->number);
}

int main(void)
{
    weft_chan *results = weft_chan_new(0);
    if (results == NULL)
        return 1;
    job jobs[] = {{1, 0.02, results}, {2, 0.01, results}, {3, 60.0, results}};
    int rc;
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < 3; i++)
            weft_group_spin(&g, work, &jobs[i]);
        weft_value number;
        WEFT_MOVE_ON_AFTER(0.3) {
            while (!weft_is_error(number = weft_chan_recv(results)))
                printf("worker %d is done\n", (int)number);
        }
        weft_group_cancel(&g);
    } /* all workers have ended */
    weft_chan_free(results);
    return rc < 0;
}
