/* A stock library that defines a function with the name of a libc function, and calls its own. */
#include <time.h>

int own_calls(long ms);

/* Not static: the call goes through an import slot. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    return time->tv_nsec == 1 ? 42 : 0;
}

int own_calls(long ms)
{
    struct timespec time = {.tv_nsec = ms};
    return nanosleep(&time, NULL);
}
