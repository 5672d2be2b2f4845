/* Two fibers transfer control explicitly. Main continues when neither fiber is runnable. */
#include <weft.h>

#include <stdio.h>

static weft_fiber first, second;

static weft_value run_first(void *arg)
{
    (void)arg;
    puts("Hi from the first fiber");
    weft_transfer(second, 0);
    puts("Hi again from the first fiber");
    return 0;
}

static weft_value run_second(void *arg)
{
    (void)arg;
    puts("Hi from the second fiber");
    weft_transfer(first, 0);
    return 0;
}

int main(void)
{
    first = weft_new(run_first, NULL);
    second = weft_new(run_second, NULL);
    puts("Hi from the main fiber");
    weft_transfer(first, 0);
    puts("Bye from the main fiber");
}
