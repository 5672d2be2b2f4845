/*
 * Data without a lock: only one cord uses it, and other cords call functions in that cord. A remote
 * call returns the value of the function, or its error with the message.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_cord keeper;
static long balance; /* used only by the keeper */

/* Runs in a fiber of the keeper. No other call runs in between, because add does not block. */
static weft_value add(void *arg)
{
    long amount = *(const long *)arg;
    if (balance + amount < 0)
        return weft_fail(-ERANGE, "add: cannot withdraw %ld, the balance is %ld", -amount, balance);
    return balance += amount;
}

static weft_value earn(void *arg)
{
    (void)arg;
    long amount = 1;
    weft_value rc = 0;
    for (int i = 0; i < 1000 && rc >= 0; i++)
        rc = weft_cord_call(keeper, add, &amount);
    return rc;
}

int main(void)
{
    keeper = weft_cord_start(NULL, NULL, NULL); /* without a function: the cord runs remote calls */
    weft_cord earners[3];
    for (int i = 0; i < 3; i++)
        earners[i] = weft_cord_start(earn, NULL, NULL);
    for (int i = 0; i < 3; i++)
        if (weft_is_error(weft_cord_join(earners[i])))
            return 1;
    long amount = -1000;
    printf("balance: %ld\n", (long)weft_cord_call(keeper, add, &amount));
    amount = -5000;
    if (weft_cord_call(keeper, add, &amount) == -ERANGE)
        printf("refused: %s\n", weft_error()->message);
    weft_cord_cancel(keeper);
    weft_cord_join(keeper);
}
