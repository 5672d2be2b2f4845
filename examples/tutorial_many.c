/* Tutorial, step 2: run 10,000 fibers at the same time. */
#include <weft.h>

#include <stdio.h>

#define FIBERS 10000

static int present, present_max;

static weft_value visit(void *arg)
{
    present++;
    if (present > present_max)
        present_max = present;
    int rc = weft_sleep(0.1);
    present--;
    return rc < 0 ? rc : (weft_value)arg;
}

int main(void)
{
    static weft_fiber fibers[FIBERS];
    static weft_value numbers[FIBERS];
    for (int i = 0; i < FIBERS; i++)
        fibers[i] = weft_spin(visit, (void *)(intptr_t)i);
    int rc = weft_await_all(fibers, FIBERS, numbers);
    if (rc < 0)
        return 1;
    long sum = 0;
    for (int i = 0; i < FIBERS; i++)
        sum += numbers[i];
    printf("%d fibers at the same time, sum %ld\n", present_max, sum);
}
