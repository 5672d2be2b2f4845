/* A fiber sleeps. Main waits in weft_suspend until all fibers have ended. */
#include <weft.h>

#include <stdio.h>

static weft_value sleeper(void *arg)
{
    (void)arg;
    puts("Going to sleep...");
    weft_sleep(1.0);
    puts("Woke up");
    return 0;
}

int main(void)
{
    weft_spin(sleeper, NULL);
    weft_suspend();
    puts("Done");
}
