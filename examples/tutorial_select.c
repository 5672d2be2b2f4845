/* Tutorial, step 7: wait for the first of several events. */
#include <weft.h>

#include <stdio.h>

typedef struct kitchen {
    weft_chan *orders;
    weft_chan *cancellations;
} kitchen;

/* Take orders and cancellations. End after 0.5 s without either. */
static weft_value cook(void *arg)
{
    kitchen *k = arg;
    for (;;) {
        weft_clause c[] = {
            weft_clause_recv(k->orders),
            weft_clause_recv(k->cancellations),
            weft_clause_time(0.5),
        };
        int which = weft_select(c, 3);
        if (which < 0)
            return which;
        if (which == 2)
            break;
        printf("%s table %d\n", which == 0 ? "cook for" : "cancel", (int)c[which].value);
    }
    puts("the kitchen closes");
    return 0;
}

int main(void)
{
    kitchen k = {.orders = weft_chan_new(0), .cancellations = weft_chan_new(0)};
    if (k.orders == NULL || k.cancellations == NULL)
        return 1;
    weft_fiber fiber = weft_spin(cook, &k);
    int rc = weft_chan_send(k.orders, 4);
    if (rc == 0)
        rc = weft_chan_send(k.orders, 7);
    if (rc == 0)
        rc = weft_chan_send(k.cancellations, 4);
    weft_value result = weft_await(fiber);
    weft_chan_free(k.orders);
    weft_chan_free(k.cancellations);
    return rc < 0 || result < 0;
}
