/* A stock library that makes system calls by hand, which hooks cannot reach. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int raw_sleep(long ms);

int raw_sleep(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&(struct timespec){0}, NULL);
    return (int)syscall(SYS_nanosleep, &time, NULL);
}
