/*
 * Something that only one cord may touch, so that it needs no lock: the others call functions
 * there. A call looks like any other: its value comes back, or its error with the words.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_cord keeper;
static long balance; /* the keeper's */

/* Runs in a fiber of the keeper's; it does not wait, so it is never interrupted. */
static weft_value add(void *arg)
{
    long amount = *(const long *)arg;
    if (balance + amount < 0)
        return weft_fail(-ERANGE, "%ld is more than the %ld that are there", -amount, balance);
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
    keeper = weft_cord_start(NULL, NULL, NULL); /* without a function: it serves */
    weft_cord earners[3];
    for (int i = 0; i < 3; i++)
        earners[i] = weft_cord_start(earn, NULL, NULL);
    for (int i = 0; i < 3; i++)
        if (weft_is_error(weft_cord_join(earners[i])))
            return 1;
    long amount = -1000;
    printf("left: %ld\n", (long)weft_cord_call(keeper, add, &amount));
    amount = -5000;
    if (weft_cord_call(keeper, add, &amount) == -ERANGE)
        printf("refused: %s\n", weft_error()->message);
    weft_cord_cancel(keeper);
    weft_cord_join(keeper);
}
