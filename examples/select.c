/* Wait for the first of several events: a value, the end of a fiber, a timeout. */
#include <weft.h>

#include <stdio.h>

static weft_value worker(void *arg)
{
    weft_chan *results = arg;
    for (int n = 1; n <= 2; n++) {
        int rc = weft_sleep(0.05);
        if (rc == 0)
            rc = weft_chan_send(results, n * n);
        if (rc < 0)
            return rc;
    }
    return weft_sleep(0.05);
}

int main(void)
{
    weft_chan *results = weft_chan_new(0);
    if (results == NULL)
        return 1;
    weft_fiber f = weft_spin(worker, results);
    for (bool is_over = false; !is_over;) {
        weft_clause c[] = {
            weft_clause_recv(results),
            weft_clause_ended(f),
            weft_clause_time(60.0),
        };
        switch (weft_select(c, 3)) {
        case 0:
            printf("a result: %d\n", (int)c[0].value);
            break;
        case 1:
            printf("the worker has ended with %d\n", (int)c[1].value);
            is_over = true;
            break;
        default: /* timeout, or cancelled */
            is_over = true;
        }
    }
    weft_chan_free(results);
}
