/*
 * A fiber suspends itself, and a timer schedules it with a value, three times. weft_schedule does
 * not switch: the fiber runs after the fibers before it on the run queue.
 */
#include <weft.h>

#include <stdio.h>

static weft_value lazy(void *arg)
{
    (void)arg;
    for (int n = 1; n <= 3; n++) {
        weft_value message = weft_suspend();
        if (weft_is_error(message))
            return message;
        printf("got %s\n", (const char *)message);
    }
    return 0;
}

static weft_value poke(void *arg)
{
    puts("schedule");
    return weft_schedule(*(weft_fiber *)arg, (weft_value) "a message");
}

int main(void)
{
    weft_fiber sleepyhead = weft_spin(lazy, NULL);
    weft_fiber poker = weft_every(0.1, poke, &sleepyhead);
    if (weft_await(sleepyhead) < 0)
        return 1;
    weft_cancel(poker);
    puts("the fiber has ended");
}
