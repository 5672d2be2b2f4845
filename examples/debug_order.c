/*
 * A program that works only if fibers run in the order of their creation. WEFT_BACKEND=sim with
 * WEFT_SEED runs them in another order, and shows the bug.
 */
#include <weft.h>

#include <stdio.h>

#define COUNT 3

static int results[COUNT];
static int done;

static weft_value square(void *arg)
{
    int n = *(int *)arg;
    results[done++] = n * n; /* the bug: main expects the result of the i-th fiber at i */
    return 0;
}

int main(void)
{
    int numbers[COUNT] = {2, 3, 4};
    for (int i = 0; i < COUNT; i++)
        weft_spin(square, &numbers[i]);
    if (weft_await_children() < 0)
        return 1;
    for (int i = 0; i < COUNT; i++)
        printf("%d * %d = %d\n", numbers[i], numbers[i], results[i]);
}
