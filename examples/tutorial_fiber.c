/* Tutorial, step 1: create a fiber, wait for its end, and print its value. */
#include <weft.h>

#include <stdio.h>

static weft_value add(void *arg)
{
    const int *numbers = arg;
    puts("the fiber runs");
    int rc = weft_sleep(0.1);
    if (rc < 0)
        return rc;
    return numbers[0] + numbers[1];
}

int main(void)
{
    int numbers[] = {2, 40};
    weft_fiber fiber = weft_spin(add, numbers);
    puts("main waits");
    weft_value sum = weft_await(fiber);
    if (weft_is_error(sum))
        return 1;
    printf("the fiber has returned %d\n", (int)sum);
}
